"""``marda evaluate`` as a user calls it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from marda import cli


def test_its_example_works_as_pasted(tmp_path, monkeypatch, capsys):
    cli.main(["evaluate", "--help"])
    text = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    for line in text.split("example:\n")[1].strip().splitlines():
        assert cli.main(line.split()[1:]) == 0
    out = capsys.readouterr().out
    assert "accuracy   " in out
    assert "expected   94% (89% to 99%)" in out
    assert "As expected: 96.0% of the rows are right" in out
    call = ["evaluate", "--model", "m.marda", "--input", "sample:labelled"]
    assert cli.main([*call, "--json", "--out", "e.json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 200
    assert json.loads((tmp_path / "e.json").read_text())["accuracy"] == told["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--input sample:source", "required: --model"),
        ("--model m --input sample:source --label Z", "sample:source has no column 'Z'"),
        ("--model m --input sample:target", "column 'y' has no labels"),
        ("--model m --input new.csv", "name the column of labels with --label"),
        ("--model m --input sample:source --out e.csv", "written as .json"),
        ("--model m --input sample:source --label reading1", "is a column that the model predicts"),
    ],
)
def test_wrong_calls(arguments, words, refused, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = "--source sample:source --target sample:target --label y --id id"
    assert cli.main(f"adapt {files} --method S1 --model m".split()) == 0
    capsys.readouterr()
    names = ",".join(f"reading{k}" for k in range(1, 7))
    Path("new.csv").write_text(f"{names},truth\n1,2,3,4,5,6,wet\n")
    refused(["evaluate", *arguments.split()], words, "marda evaluate: ")
    assert {*os.listdir(tmp_path)} == {"m", "new.csv"}
