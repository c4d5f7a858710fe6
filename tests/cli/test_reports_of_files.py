"""``--report`` of ``marda adapt`` and ``marda compare`` as a user calls it."""

from __future__ import annotations

import os

import pytest

from marda import cli

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


def test_a_page_that_cannot_be_made_leaves_nothing(call, capsys, monkeypatch, tmp_path):
    import marda.report.page

    def fail(name):
        raise OSError("no space left")

    monkeypatch.setattr(marda.report.page, "_resource", fail)
    more = ("--out", "p.csv", "--model", "m.marda") if call[0] == "adapt" else ()
    assert cli.main([*call, *more, "--report", "r.html"]) == 2
    assert "no space left" in capsys.readouterr().err
    assert set(os.listdir(tmp_path)) == {"s.csv", "t.csv"}


def test_the_page_ends_with_its_command(call, tmp_path, capsys):
    assert cli.main([*call, "--report", str(tmp_path / "r.html")]) == 0
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"<code>marda {' '.join(call)} --report r.html</code>" in text


@pytest.mark.parametrize("call", ["adapt"], indirect=True)
def test_card_and_plots(call, tmp_path, capsys):
    more = ("--card", "card.md", "--plots", "plots")
    assert cli.main([*call, *more]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "written: card.md\nwritten: plots\n" in out
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert f"$ marda {' '.join([*call, *more])}\n" in card
    drawn = sorted(os.listdir("plots"))
    assert "01-predictions.svg" in drawn
    assert len([n for n in drawn if n.endswith(".png")]) == len(drawn) // 2


@pytest.mark.parametrize("call", ["compare"], indirect=True)
def test_plots_of_a_comparison(call, tmp_path, capsys):
    assert cli.main([*call, "--plots", "plots"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "written: plots\n" in out
    drawn = sorted(os.listdir("plots"))
    assert "01-methods.svg" in drawn
    assert len([n for n in drawn if n.endswith(".png")]) == len(drawn) // 2
    assert cli.main([*call, "--plots", "s.csv"]) == 2
    assert "--plots s.csv is a file" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["adapt"], indirect=True)
def test_without_the_extra_plots_are_svg_and_say_so(call, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("marda.report.page.can_make_png", lambda: False)
    assert cli.main([*call, "--plots", "plots"]) == 0
    assert "SVG only; PNG needs vl-convert-python: pip install 'marda[report]'" in (
        capsys.readouterr().err
    )
    assert all(name.endswith(".svg") for name in os.listdir("plots"))


@pytest.mark.parametrize("call", ["adapt"], indirect=True)
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--card", "t.csv"), "--card t.csv would replace an input file"),
        (("--card", "r.md", "--report", "r.md"), "--report and --card both name r.md"),
        (("--plots", "s.csv"), "--plots s.csv is a file"),
        (("--plots", "none/here"), "there is no folder none"),
    ],
)
def test_wrong_cards_and_plots_are_refused(call, more, words, refused, tmp_path):
    refused([*call, *more], words)
    assert set(os.listdir(tmp_path)) == {"s.csv", "t.csv"}
