"""``marda report`` as a user calls it."""

from __future__ import annotations

import sys

import pytest

from benchmarks.fakes import plan_table
from marda import cli
from marda.benchmarks.plan import Unit
from marda.benchmarks.store import Store

from .fakes import good


@pytest.fixture
def results(tmp_path):
    """A folder as ``marda reproduce`` leaves it."""
    folder = tmp_path / "results"
    with Store(folder / "results.sqlite") as store:
        specs = plan_table("us", datasets=["amt"], models=["BL", "S1", "S1D"])
        for row in good(Unit(specs), None):
            store.add(row)
    return folder


def test_page_from_stored_results(results, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert cli.main(["report", str(results), "--out", str(page)]) == 0
    assert capsys.readouterr().out == f"108 rows; written: {page}\n"
    text = page.read_text(encoding="utf-8")
    assert "Table 2: unsupervised adaptation (US)" in text
    assert "Task by task: AMT, US" in text
    assert len(text) < 3_000_000


def test_charts_of_stored_results_as_files(results, tmp_path, capsys):
    page, plots = tmp_path / "page.html", tmp_path / "plots"
    assert cli.main(["report", str(results), "--out", str(page), "--plots", str(plots)]) == 0
    assert capsys.readouterr().out == f"108 rows; written: {page}, {plots}\n"
    drawn = sorted(path.suffix for path in plots.iterdir())
    assert drawn.count(".svg") == drawn.count(".png") == len(drawn) // 2 > 0


@pytest.mark.parametrize(
    ("folder", "out", "words"),
    [
        ("results", "none/page.html", "there is no folder"),
        ("results", "results", "is a folder"),
        ("results", "results/results.sqlite", "would replace an input file"),
        ("none", "page.html", "holds no results.sqlite: name the --out folder of marda reproduce"),
        ("foreign", "page.html", "is not a result store"),
        ("empty", "page.html", "holds no finished row"),
    ],
)
def test_wrong_calls_leave_one_line_and_no_file(results, tmp_path, refused, folder, out, words):
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "results.sqlite").write_text("not a store" * 100)
    Store(tmp_path / "empty" / "results.sqlite").close()
    before = set(tmp_path.rglob("*"))
    refused(["report", str(tmp_path / folder), "--force", "--out", str(tmp_path / out)], words)
    assert set(tmp_path.rglob("*")) == before


def test_a_page_needs_no_extra(results, tmp_path, monkeypatch):
    for name in ("altair", "vl_convert", "matplotlib", "rich"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cli.main(["report", str(results), "--out", str(tmp_path / "page.html")]) == 0
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
