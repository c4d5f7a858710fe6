"""``marda label`` as a user calls it."""

from __future__ import annotations

import json
import os

import pytest

from marda import cli

pytestmark = pytest.mark.usefixtures("few_draws")


def test_its_example_works_as_pasted(tmp_path, monkeypatch, capsys):
    cli.main(["label", "--help"])
    text = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    for line in text.split("example:\n")[1].strip().splitlines():
        assert cli.main(line.split()[1:]) == 0
    assert sorted(os.listdir(tmp_path)) == ["m.marda", "r.csv"]
    out = capsys.readouterr().out
    assert "20 of 200 rows to label, those that decide most first" in out
    assert "next: fill in the column 'y'" in out
    call = ["label", "--model", "m.marda", "--input", "sample:target", "--budget", "3"]
    assert cli.main(call) == 0
    assert "nothing was written" in capsys.readouterr().out
    assert cli.main([*call, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["to_label"]) == 3
    assert cli.main([*call, "--all", "--out", "all.csv"]) == 0
    assert "marda adapt --source … --target all.csv --label y" in capsys.readouterr().out
    assert cli.main([*call, "--out", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--input sample:target", "required: --model"),
        ("--model m --input sample:target --budget 0", "a whole number of at least 1, got '0'"),
        ("--model m --input sample:target --out r.parquet", "written as .csv or .tsv"),
        ("--model m --input sample:target --out m.csv/r.csv", "there is no folder m.csv"),
        ("--model no.marda --input sample:target", "no.marda"),
        ("--model m --input sample:other", "samples are"),
        ("--model m --input sample:target --id key", "no column 'key'"),
        ("--model m --input sample:source", "every row has a label in column 'y' already"),
    ],
)
def test_wrong_calls(arguments, words, refused, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    files = "--source sample:source --target sample:target --label y --id id"
    assert cli.main(f"adapt {files} --method S1 --model m".split()) == 0
    capsys.readouterr()
    refused(["label", *arguments.split()], words, "marda label: ")
    assert os.listdir(tmp_path) == ["m"]
