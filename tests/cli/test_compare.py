"""``marda compare`` as a user calls it."""

from __future__ import annotations

import json
import os

import pytest

from marda import cli

pytestmark = pytest.mark.usefixtures("few_draws")

GOOD = "--source sample:source --target sample:labelled --label y --id id"


def call(text):
    return cli.main(["compare", *text.split()])


def test_help_fits_a_screen_and_its_example_works_as_pasted(capsys):
    assert cli.main(["compare", "--help"]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 96
    assert cli.main(text.split("example:\n")[1].split()[1:]) == 0
    out = capsys.readouterr().out
    assert "labelled target rows" in out
    assert "S1M" in out


def test_json(capsys):
    assert call(f"{GOOD} --methods BL S1M --json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [r["method"] for r in result["results"]] == ["BL", "S1M"]
    assert result["rows"] == {"source": 240, "target": 200, "labelled_target": 200}
    assert set(result["pairs"][0]) == {"a", "b", "difference", "p_value", "significant"}


def test_without_labels(capsys):
    assert call(GOOD.replace("labelled", "target") + " --methods BL S1M") == 0
    assert "no method can be called better" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "required: --source, --target, --label"),
        (f"{GOOD} --methods BL", "two or more different methods, got BL"),
        (f"{GOOD} --methods BL BL", "different methods"),
        (f"{GOOD} --methods BL S9", "S9"),
        (f"{GOOD} --methods BL S1C", "label"),
        (f"{GOOD} --noise 2", "dropout probability"),
        (GOOD.replace("--label y", "--label q"), "no column 'q'"),
        (GOOD.replace("sample:source", "no.csv"), "no.csv"),
    ],
)
def test_wrong_calls(arguments, words, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(["compare", *arguments.split()], words, "marda compare: ")
    assert os.listdir(tmp_path) == []
