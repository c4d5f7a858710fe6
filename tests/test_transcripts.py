"""The page of transcripts stays true, and the messy files of the docs give a verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from marda import cli
from repository_scripts import script

transcripts = script("transcripts.py")


def test_the_files_of_the_docs_are_those_that_the_script_makes(tmp_path):
    transcripts.make_files(tmp_path)
    for name in ("customers-2023.csv", "customers-2024.csv"):
        assert (tmp_path / name).read_bytes() == (transcripts.FILES / name).read_bytes()


def test_messy_files_give_a_verdict_in_one_command(capsys, monkeypatch):
    monkeypatch.chdir(transcripts.FILES)
    assert cli.main(["adapt", *transcripts.CUSTOMERS.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The target looks like the source with spent moved or stretched.")
    assert any(line.startswith("expected   about 9") for line in lines)
    assert any("read as Windows-1252" in line for line in lines)


def test_every_command_is_shown():
    shown = {call.line.split()[1] for call in transcripts.CALLS} - {"--help"}
    assert {*cli.parser().commands} == shown
    page = transcripts.PAGE.read_text("utf-8")
    for call in transcripts.CALLS:
        assert f"\n$ {call.line}\n" in page


def test_differences_are_words_and_figures_but_no_times():
    old = "time 2.5 s, 10,000 rows\n0.40 [0.36, 0.45] before"
    assert transcripts.differences(old, old.replace("2.5", "13.0").replace("0.36", "0.37")) == []
    for new in (
        old.replace("before", "after"),
        old.replace("0.40", "0.60"),
        old.replace("10,000", "12,000"),
        old + "\nmore",
    ):
        assert len(transcripts.differences(old, new)) == 1


def test_figures_of_a_machine_are_not_compared():
    old = "this call: 39 s with 12 rows\nfit: 1.2 s (94%)\npredict: 0.1 s (6%)"
    new = "this call: 2 s with 12 rows\npredict: 0.3 s (60%)\nfit: 0.2 s (40%)"
    assert len(transcripts.differences(old, new)) == 2
    assert transcripts.differences(old, new, varies=True) == []
    assert transcripts.differences(old, new.replace("fit", "fits"), varies=True) != []


def test_a_page_of_other_calls_is_found():
    page = transcripts.PAGE.read_text("utf-8")
    assert transcripts.check(page, []) == []
    assert "record it again" in transcripts.check(page.replace("## New rows\n", "## Rows\n"), [])[0]


@pytest.mark.slow
def test_the_page_is_what_the_commands_print():
    done = subprocess.run(
        [sys.executable, transcripts.__file__, "--check"],
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
