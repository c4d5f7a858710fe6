"""What holds for every command: files are replaced on demand only, --quiet, --progress."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from marda import cli
from marda.cli._common import output_file, output_folder

ROWS = "--source sample:source --target sample:labelled --label y --id id"
WRITING = {
    "adapt": (f"adapt {ROWS} --method S1", ("--out p.csv", "--model m.marda", "--report h.html")),
    "compare": (f"compare {ROWS} --methods BL S1", ("--report h.html",)),
    "predict": ("predict --model sample.marda --input sample:new", ("--out p.csv",)),
    "evaluate": ("evaluate --model m.marda --input x.csv --label y", ("--out e.json",)),
    "label": ("label --model m.marda --input sample:new", ("--out p.csv",)),
    "report": ("report results", ("--out h.html",)),
    "demo": ("demo", ("--out h.html",)),
    "moments build": ("moments build a.parquet --domain a", ("-o f", "--out f")),
    "moments read": ("moments read a.csv", ("-o f",)),
    "moments merge": ("moments merge a b", ("-o f",)),
}
#: Options and arguments that name what is read, or what a command goes on from.
READ = {
    *("--source", "--target", "--input", "--moments", "--data", "--checkpoint", "folder"),
    "reproduce --check",
    "predict --model",
    "evaluate --model",
    "label --model",
    "reproduce --out",  # a folder that resumes
    "bench --json",  # what was not run again stays
    "bench --page",
}


def leaves(parser, words=()):
    for name, part in parser.commands.items():
        yield from leaves(part, (*words, name))
    if not parser.commands:
        yield " ".join(words), parser


def test_every_option_that_names_a_file_is_one_to_read_or_one_to_write():
    writing = set()
    for name, parser in leaves(cli.parser()):
        for action in parser.arguments:
            flag = action.option_strings[-1] if action.option_strings else action.dest
            if action.type in (output_file, output_folder):
                writing.add(name)
                assert {"--force"} <= {f for a in parser.arguments for f in a.option_strings}
            elif action.type is Path:
                assert READ & {flag, f"{name} {flag}"}, f"{name} {flag}: is it written?"
    assert writing == set(WRITING)


@pytest.mark.parametrize("name", WRITING)
def test_a_file_that_is_there_is_not_replaced(name, refused, tmp_path, monkeypatch):
    """Before anything is read: what the calls name need not be there."""
    call, options = WRITING[name]
    for option in options:
        folder = tmp_path / option.replace(" ", "")
        folder.mkdir()
        monkeypatch.chdir(folder)
        file = Path(option.split()[1])
        file.write_text("mine")
        shown = option.replace("-o ", "--out ")
        refused([*call.split(), *option.split()], f": {shown} exists: add --force to replace it.")
        assert file.read_text() == "mine"
        assert os.listdir(folder) == [file.name]


def test_all_files_that_are_there_are_named(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("p.csv", "m.marda"):
        Path(name).write_text("mine")
    call = [*WRITING["adapt"][0].split(), "--out", "p.csv", "--model", "m.marda"]
    refused(call, "--out p.csv and --model m.marda exist: add --force.")


def test_force_replaces_and_an_input_never_is(refused, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = [*WRITING["adapt"][0].split(), "--model", "m.marda"]
    assert cli.main(call) == 0
    first = Path("m.marda").stat().st_ino
    assert cli.main([*call, "--force"]) == 0
    assert Path("m.marda").stat().st_ino != first
    predict = ["predict", "--model", "m.marda", "--input", "sample:new", "--out"]
    assert cli.main([*predict, "p.csv"]) == 0
    assert cli.main([*predict, "/dev/null" if os.name != "nt" else "q.csv"]) in (0, 2)
    capsys.readouterr()
    refused([*predict, "m.marda", "--force"], "--out m.marda would replace an input file.")
    refused([*predict, "p.csv"], "--out p.csv exists: add --force")


def test_a_name_of_the_commands_own_is_replaced(monkeypatch, tmp_path):
    """marda-demo.html is the demo's: no need to ask."""
    from marda.cli import _common

    monkeypatch.chdir(tmp_path)
    Path("marda-demo.html").write_text("an earlier page")
    args = cli.parser().parse_args(["demo"])
    _common.refuse_existing(args)
    Path("mine.html").write_text("another page")
    assert cli.parser().parse_args(["demo", "--report", "mine.html"]).out == Path("mine.html")
    args = cli.parser().parse_args(["demo", "--out", "mine.html"])
    with pytest.raises(ValueError, match=r"mine\.html exists"):
        _common.refuse_existing(args)


def test_quiet_leaves_results_and_errors(capsys, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call = WRITING["adapt"][0].split()
    assert cli.main(call) == 0
    loud = capsys.readouterr().out.splitlines()
    assert cli.main([*call, "--quiet"]) == 0
    out, err = capsys.readouterr()
    aside = [line for line in loud if line.startswith(("note: ", "warning: ", "written: ", "time"))]
    assert len(aside) >= 2
    assert out.splitlines() == [line for line in loud if line not in aside]
    assert err == ""
    assert cli.main([*WRITING["compare"][0].split(), "--quiet"]) == 0
    assert "ridge classifier" not in capsys.readouterr().out
    refused([*call, "--quiet", "--label", "q"], "no column 'q'")


def test_quiet_keeps_results_that_look_like_asides(capsys, tmp_path, monkeypatch):
    """Classes and ids are called anything."""
    monkeypatch.chdir(tmp_path)
    labels = {0: "time ", 1: "note: well"}
    rows = [f"warning: {k},{k % 2 + k / 100},{labels[k % 2].strip()}" for k in range(40)]
    Path("s.csv").write_text("\n".join(["id,x,y", *rows]) + "\n")
    call = "adapt --source s.csv --target s.csv --label y --id id --method BL --model m"
    assert cli.main(call.split()) == 0
    rows = [row if k else row.rpartition(",")[0] + "," for k, row in enumerate(rows)]
    Path("t.csv").write_text("\n".join(["id,x,y", *rows]) + "\n")
    capsys.readouterr()
    assert cli.main(["evaluate", "--model", "m", "--input", "t.csv", "--quiet"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in out[-2:]] == ["note: well", "time"]
    assert cli.main(["label", "--model", "m", "--input", "t.csv", "--quiet"]) == 0
    assert "warning: 0  " in capsys.readouterr().out


def test_quiet_and_progress_off_a_terminal(capsys, monkeypatch):
    call = [*WRITING["compare"][0].split(), "--json"]
    monkeypatch.setattr("marda._progress.DELAY", 0.0)
    for asked, shown in (((), False), (("--progress",), True), (("--progress", "--quiet"), False)):
        assert cli.main([*call, *asked]) == 0
        assert (" …" in capsys.readouterr().err) == shown
