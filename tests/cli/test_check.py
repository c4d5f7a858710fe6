"""marda check: what a person sees, what a machine reads, what is refused."""

from __future__ import annotations

import json

import pytest

from marda import cli

FILES = ["check", "--source", "sample:source", "--target", "sample:target"]


def test_lines(capsys):
    assert cli.main([*FILES, "--label", "y"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("It matters that the two differ in 'reading1'")
    assert "\n  reading1  much: mean -0.02217 → 1.47" in out
    assert "note: left out: 'id', which looks like an id or a row number (--keep 'id')" in out
    assert err == ""


def test_json_without_a_label(capsys):
    assert cli.main([*FILES, "--drop", "y", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["command"] == "check"
    assert found["matters"] is None
    assert found["plain_accuracy"] is None
    assert {c["name"] for c in found["columns"] if c["differs"]} == {
        "reading1", "reading2", "reading3", "reading6",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--label", "Y"], "has no column 'Y' (did you mean 'y'?)"),
        (["--drop", "nothing"], "has no column 'nothing'"),
        (["--missing", "guess"], "invalid choice"),
    ],
)
def test_refusals(refused, arguments, words):
    refused([*FILES, *arguments], words, "marda check:")


def test_files_that_are_not_there(refused, tmp_path):
    refused(["check", "--source", "sample:source"], "required: --target", "marda check:")
    wrong = ["check", "--source", str(tmp_path / "no.csv"), "--target", "sample:target"]
    refused(wrong, "No such file", "marda check:")


def test_swapped_files(refused, tmp_path):
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(map(str, range(30))))
    (tmp_path / "s.csv").write_text("a,y\n" + "\n".join(f"{k},{k % 2}" for k in range(30)))
    call = ["check", "--source", str(tmp_path / "t.csv"), "--target", str(tmp_path / "s.csv")]
    refused([*call, "--label", "y"], "are source and target swapped?", "marda check:")
