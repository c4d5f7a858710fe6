import argparse
import os
import signal
import subprocess
import sys

import pytest

from marda import cli
from marda.cli._common import FORMATS
from marda.io import FORMATS as READERS
from marda.moments.files import MomentsFileError
from marda.persist.onnx import OnnxError

COMMANDS = (
    "demo",
    "check",
    "adapt",
    "predict",
    "label",
    "evaluate",
    "compare",
    "moments",
    "reproduce",
    "report",
    "data",
    "bench",
    "completion",
)


def run_cli(*args, **environment):
    """Run the command as a user does."""
    paths = os.pathsep.join(p for p in sys.path if p)
    env = {k: v for k, v in os.environ.items() if not k.startswith("MARDA_")}
    return subprocess.run(
        [sys.executable, "-m", "marda", *args],
        env={**env, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_formats_are_those_that_are_read():
    """The command line has a copy of their names: help must not wait for the readers."""
    assert tuple(READERS) == FORMATS


def test_a_command_is_parsed_without_the_others():
    assert [*cli.parser().commands] == [*cli.COMMANDS]
    assert {*cli.COMMANDS} == {*COMMANDS}
    for name in COMMANDS:
        assert [*cli.parser(name).commands] == [name]


@pytest.mark.parametrize("command", [(), *((c,) for c in COMMANDS)])
def test_help_fits_a_screen_and_has_an_example(command, capsys):
    assert cli.main([*command, "--help"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 96
    assert "example:" in text


# Examples of these are two commands: tests/cli/test_predict.py and the like run them.
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c not in ("predict", "label", "evaluate")]
)
def test_examples_are_valid_calls(command, capsys):
    cli.main([command, "--help"])
    example = capsys.readouterr().out.split("example:\n")[1].split()
    args = cli.parser().parse_args(example[1:])
    assert args.command.split()[0] == command


def test_no_command_prints_help(capsys):
    assert cli.main([]) == 0
    assert "commands:" in capsys.readouterr().out


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("marda ")


def test_cli_itself_imports_nothing_heavy():
    # A stand-in for the package's __init__, which is not the command's business.
    code = "import sys; marda = sys.modules['marda'] = type(sys)('marda'); marda.__path__ = [%r]"
    code += "; import marda.cli; marda.cli.main(['reproduce', '--help'])"
    code += "; assert not {'numpy', 'sklearn', 'scipy', 'rich'} & set(sys.modules)"
    folder = os.path.dirname(os.path.dirname(cli.__file__))
    done = subprocess.run([sys.executable, "-c", code % folder], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["repro"], "invalid choice: 'repro'"),
        (["reproduce", "--table", "6"], "unknown table '6': choose from us, sup, ss"),
        (["reproduce", "--datasets", "mnist"], "unknown data set 'mnist': choose from oc10"),
        (["reproduce", "--models", "S3"], "unknown model 'S3'"),
        (["reproduce", "--classifiers", "svm"], "unknown classifier 'svm'"),
        (["reproduce", "--tasks", "a-b"], "unknown task 'a-b'"),
        (["reproduce", "--table", "us", "--models", "S1C"], "nothing to run: table us"),
        (["reproduce", "--settings", "best"], "invalid choice: 'best'"),
        (["reproduce", "--set", "noise"], "--set expects NAME=VALUE, got 'noise'"),
        (["reproduce", "--set", "noise=[1]"], "--set expects a number, a word"),
        (["reproduce", "--preprocessing", "x"], "unknown preprocessing 'x'"),
        (["reproduce", "--draws", "0"], "expected a whole number of at least 1, got '0'"),
        (["reproduce", "--jobs", "two"], "at least 1, got 'two'"),
        (["reproduce", "--colour"], "unrecognized arguments: --colour"),
        (["reproduce", "--table", "us"], "MARDA_DATA is not set"),
        (["data", "path", "mnist"], "Unknown data set 'mnist'"),
        (["data", "check", "amt"], "Data of amt are missing"),
        (["data", "weigh"], "invalid choice: 'weigh'"),
        (["data"], "the following arguments are required: what"),
    ],
)
def test_wrong_calls(call, words, refused, monkeypatch, tmp_path):
    monkeypatch.delenv("MARDA_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    refused(call, words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["file/page.html", "none/page.html", "."])
def test_unwritable_page_is_refused_before_the_work(out, capsys, tmp_path):
    from marda.benchmarks import demonstration

    (tmp_path / "file").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demonstration, "run_demo", lambda **_: pytest.fail("it ran"))
        assert cli.main(["demo", "--out", str(tmp_path / out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (ValueError("Q is\nsingular"), 1, "ValueError: Q is singular (set MARDA_DEBUG=1"),
        (FileNotFoundError(2, "No such file", "x"), 2, "marda demo: x: No such file."),
    ],
)
def test_errors_inside_a_command(error, code, words, capsys, monkeypatch):
    from marda.benchmarks import demonstration

    def fail(**_):
        raise error

    monkeypatch.setattr(demonstration, "run_demo", fail)
    assert cli.main(["demo"]) == code
    err = capsys.readouterr().err
    assert words in err
    assert err.strip().count("\n") == 0


def test_an_error_is_told_where_nothing_can_be_imported(capsys, monkeypatch):
    """Short of memory, the modules that name errors may not load any more."""

    def run(args):
        raise MemoryError("12 GB are not there")

    monkeypatch.setitem(sys.modules, "marda.benchmarks.plan", None)
    monkeypatch.setattr(cli, "parser", lambda _: _parser_of(run))
    assert cli.main(["x"]) == 1
    assert capsys.readouterr().err.startswith("marda x: MemoryError: 12 GB are not there")


@pytest.mark.parametrize("kind", [MomentsFileError, OnnxError])
def test_a_file_that_cannot_be_is_a_wrong_call(kind, capsys, monkeypatch):
    def run(args):
        raise kind("f: not this one.")

    monkeypatch.setattr(cli, "parser", lambda _: _parser_of(run))
    assert cli.main(["x"]) == 2
    assert capsys.readouterr().err == "marda x: f: not this one.\n"


def _parser_of(run):
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.set_defaults(run=run, version=False, written=[])
    return parser


def test_debug_shows_the_traceback(monkeypatch):
    from marda.benchmarks import demonstration

    monkeypatch.setenv("MARDA_DEBUG", "1")
    monkeypatch.setattr(demonstration, "run_demo", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["demo"])


def test_wrong_call_from_a_shell():
    done = run_cli("reproduce", "--table", "us")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


WAIT = "print('ready', flush=True); time.sleep(300)"


@pytest.mark.parametrize(
    "wait",
    [
        WAIT,
        f"exec({WAIT!r}, globals())",  # where a plain KeyboardInterrupt ends Python by the signal
        f"try: {WAIT}\n    except KeyboardInterrupt: raise ImportError from None",
    ],
)
def test_ctrl_c_from_a_shell(tmp_path, wait):
    code = (
        "import argparse, sys, time; from marda import cli\n"
        "def run(args):\n"
        f"    {wait}\n"
        "parser = argparse.ArgumentParser()  # of a command without the libraries of a real one\n"
        "parser.add_argument('command')\n"
        "parser.set_defaults(run=run, version=False, written=[])\n"
        "cli.parser = lambda _: parser\n"
        "sys.exit(cli.main(['demo']))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.stdout.readline() != "ready\n":
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors == "\nmarda demo: interrupted.\n"


@pytest.mark.parametrize(("given", "kept"), [(None, "4"), ("26", "26")])
def test_threads_of_blas_sleep_unless_the_user_says_otherwise(monkeypatch, given, kept):
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    assert cli.main(["completion", "bash"]) == 0
    assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == kept


def test_threads_of_blas_are_told_before_numpy_is_loaded():
    code = "import sys, marda.cli; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
