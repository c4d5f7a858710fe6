"""``--report`` of ``marda adapt`` and ``marda compare`` as a user calls it."""

from __future__ import annotations

import os
import sys

import pytest

from marda import cli

pytest.importorskip("altair")

FILES = ("--source", "s.csv", "--target", "t.csv", "--label", "y", "--id", "id")
CALLS = {
    "adapt": ("adapt", *FILES, "--method", "S1D"),
    "compare": ("compare", *FILES, "--methods", "BL", "S1M"),
}


@pytest.fixture(params=CALLS)
def call(request, tmp_path, monkeypatch):
    """A call that works, in a folder with its files."""
    monkeypatch.chdir(tmp_path)
    for name, shift in (("s.csv", 0), ("t.csv", 1)):
        rows = [f"r{k},{k % 2 + 0.1 * (k % 7) + shift},{k % 3},{'pq'[k % 2]}" for k in range(60)]
        (tmp_path / name).write_text("id,a,b,y\n" + "\n".join(rows) + "\n")
    return CALLS[request.param]


def test_a_page_is_written(call, tmp_path, capsys):
    assert cli.main([*call, "--report", "r.html"]) == 0
    out, err = capsys.readouterr()
    assert "written: r.html" in out
    assert err == ""
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert f"marda {call[0]}" in text
    assert str(tmp_path) not in text  # a page may travel; where files lay is nobody's business
    assert set(os.listdir(tmp_path)) == {"s.csv", "t.csv", "r.html"}


def test_json_names_the_page(call, capsys):
    import json

    assert cli.main([*call, "--report", "r.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["r.html"]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ("s.csv", "--report s.csv would replace an input file"),
        ("./t.csv", "would replace an input file"),
        ("none/r.html", "--report none/r.html: there is no folder none"),
        ("s.csv/r.html", "there is no folder s.csv"),
        (".", "is a folder"),
    ],
)
def test_wrong_names_are_refused_before_the_work(call, report, words, refused, tmp_path):
    (tmp_path / "t.csv").write_text("not even read")
    refused([*call, "--report", report], words)
    assert (tmp_path / "t.csv").read_text() == "not even read"
    assert set(os.listdir(tmp_path)) == {"s.csv", "t.csv"}


@pytest.mark.parametrize("option", ["--out", "--model"])
@pytest.mark.parametrize("call", ["adapt"], indirect=True)
def test_two_outputs_of_one_name_are_refused(call, option, capsys):
    assert cli.main([*call, option, "p.csv", "--report", "p.csv"]) == 2
    assert f"{option} and --report both name p.csv" in capsys.readouterr().err


def test_missing_extra_is_told_before_the_work(call, capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "altair", None)
    (tmp_path / "t.csv").unlink()
    assert cli.main([*call, "--report", "r.html"]) == 2
    err = capsys.readouterr().err
    assert "a report needs altair, which is not installed: pip install 'marda[report]'" in err
    assert err.count("\n") == 1


def test_a_page_that_cannot_be_made_leaves_nothing(call, capsys, monkeypatch, tmp_path):
    import marda.report.page

    def fail():
        raise OSError("no space left")

    monkeypatch.setattr(marda.report.page, "_library", fail)
    more = ("--out", "p.csv", "--model", "m.marda") if call[0] == "adapt" else ()
    assert cli.main([*call, *more, "--report", "r.html"]) == 2
    assert "no space left" in capsys.readouterr().err
    assert set(os.listdir(tmp_path)) == {"s.csv", "t.csv"}
