"""``marda completion``: scripts that offer what the parsers know; bash's is tried in bash."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess

import pytest

from marda import cli

ASK = """
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_marda
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")


def script_of(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def offered(tmp_path, capsys):
    """A function: what bash offers at the last of some words."""
    script = tmp_path / "marda.bash"
    script.write_text(script_of("bash", capsys))

    def ask(*words):
        quoted = " ".join(f"'{word}'" for word in ("marda", *words))
        done = subprocess.run(
            ["bash", "--norc", "-euo", "pipefail", "-c", ASK.format(script=script, words=quoted)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.split()

    return ask


@needs_bash
def test_bash_offers_commands_options_and_values(offered):
    commands = {*cli.parser().commands}
    assert {*offered("")} == commands
    assert offered("ada") == ["adapt"]
    assert offered("--v") == ["--version"]
    assert offered("adapt", "--so") == ["--source"]
    assert offered("adapt", "--source", "a.csv", "--miss") == ["--missing"]
    assert offered("adapt", "--missing", "") == ["error", "impute"]
    assert offered("adapt", "--missing", "i") == ["impute"]
    assert offered("adapt", "--source", "x") == []  # bash completes files by itself
    assert offered("adapt", "--model", "compare", "--js") == ["--json"]
    assert offered("moments", "") == ["build", "sql", "read", "merge", "show"]
    assert offered("moments", "build", "--ro") == ["--role"]
    assert offered("moments", "build", "--role", "") == ["source", "target"]
    assert offered("data", "c") == ["check"]
    assert offered("completion", "") == ["bash", "zsh", "fish"]


@needs_bash
def test_bash_offers_every_option_of_every_command(offered):
    for name, command in cli.parser().commands.items():
        if not command.commands:
            flags = [flag for a in command.arguments for flag in a.option_strings]
            assert sorted(offered(name, "-")) == sorted(flags)


@needs_bash
def test_a_tab_typed_at_a_terminal_completes(tmp_path, capsys):
    """Through readline itself."""
    pty = pytest.importorskip("pty")
    script = tmp_path / "marda.bash"
    # What is typed is echoed: only the function makes angle brackets.
    script.write_text(script_of("bash", capsys) + "marda() { printf '<%s>' \"$@\" END; exit; }\n")
    ours, theirs = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": "/usr/bin:/bin", "TERM": "xterm", "INPUTRC": "/dev/null"},
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, f"source {script}\nmarda compar\t--lab\ty\n".encode())
    seen = b""
    with contextlib.suppress(OSError):  # the terminal of a shell that has ended
        while b"<END>" not in seen and select.select([ours], [], [], 20)[0]:
            seen += os.read(ours, 4096)
    bash.kill()
    bash.wait()
    os.close(ours)
    assert b"<compare><--label><y><END>" in seen


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_every_command_and_option(shell, capsys):
    text = script_of(shell, capsys)
    for name, command in cli.parser().commands.items():
        assert re.search(rf"\b{name}\b", text)
        for action in command.arguments:
            for flag in action.option_strings:
                assert (flag if shell == "zsh" else f" {flag.lstrip('-')} ") in text
    assert "SUPPRESS" not in text
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run([program, "-n", "/dev/stdin"], input=text, text=True, check=False)
        assert done.returncode == 0


def test_an_unknown_shell_is_refused(refused):
    refused(["completion", "tcsh"], "invalid choice: 'tcsh'")
