import csv
import io
import re
import sys
import time

import pytest

from marda._progress import Progress
from marda.benchmarks import render
from marda.benchmarks.tables import (
    Block,
    Cell,
    Figure,
    PaperTable,
    TableRow,
    build_table,
    check_findings,
)
from marda.diagnostics.intervals import seconds_text

from .fakes import plan_table
from .test_tables import rows_for


def figure(mean, stderr=None, rows=12, expected=12):
    return Figure(mean, stderr, rows, expected, rows == expected, int(rows == expected))


@pytest.fixture
def table():
    rows = (
        TableRow(
            "S1",
            (Cell(figure(84.46, 0.24), 84.0, comparable=True), Cell(figure(80.0, rows=5), 79.9)),
        ),
        TableRow(
            "S1D",
            (
                Cell(figure(84.9, 0.2), 85.6, None, True, True, True),
                Cell(None, 80.9, paper_improves=True),
            ),
        ),
        TableRow("S1M", (Cell(figure(84.4, 0.1)), Cell())),
    )
    block = Block("OC10 (SqueezeNet features), 12 tasks", "oc10", ("ridge", "dscm"), rows)
    return PaperTable("us", "Table 2: a title", (block,), ("a note with 5% and x_y",))


@pytest.fixture
def stacked():
    row = TableRow(
        "S1D+ridge", (Cell(figure(55.0), 53.9, None, True, True), Cell(figure(65.0), 65.3))
    )
    quoted = TableRow("DAN (quoted)", (Cell(paper=68.5), Cell(paper=72.9)))
    return PaperTable(
        "off31", "T", (Block("OFF31", "off31", ("A→W", "mean"), (row, quoted), True),), ()
    )


def test_plain(table):
    assert render.to_plain(table) == (
        """\
Table 2: a title
================

OC10 (SqueezeNet features), 12 tasks
          ridge            paper         dscm   paper
-----------------------------------------------------
S1   *84.5*±0.2      84.0 (+0.5)  80.0 (5/12)    79.9
S1D  _84.9_±0.2  *_85.6_* (−0.7)            –  _80.9_
S1M    84.4±0.1             none            –    none

a note with 5% and x_y
"""
    )


def test_markdown(table):
    assert render.to_markdown(table) == (
        """\
## Table 2: a title

### OC10 (SqueezeNet features), 12 tasks

|  | ridge | paper | dscm | paper |
| --- | ---: | ---: | ---: | ---: |
| S1 | **84.5**±0.2 | 84.0 (+0.5) | 80.0 (5/12) | 79.9 |
| S1D | <u>84.9</u>±0.2 | **<u>85.6</u>** (−0.7) | – | <u>80.9</u> |
| S1M | 84.4±0.1 | none | – | none |

- a note with 5% and x_y
"""
    )


def test_latex(table, stacked):
    text = render.to_latex(table)
    assert r"\caption{Table 2: a title. OC10 (SqueezeNet features), 12 tasks." in text
    assert r"a note with 5\% and x\_y}" in text
    assert r"S1 & \textbf{84.5} $\pm$ 0.2 & 84.0 (+0.5) & 80.0 (5/12) & 79.9 \\" in text
    assert r"S1D & \underline{84.9} $\pm$ 0.2 & \textbf{\underline{85.6}} ($-$0.7) & -- &" in text
    assert r"\begin{tabular}{lrrrr}" in text
    assert r"A$\to$W" in render.to_latex(stacked)
    assert (text + render.to_latex(stacked)).isascii()


def test_a_column_the_paper_does_not_print_stands_alone():
    cells = (Cell(figure(40.0)), Cell(figure(50.0), 51.0, comparable=True))
    block = Block("AMT", "amt", ("nn", "ridge"), (TableRow("S1", cells),))
    header, lines = render.grid(block, render.PLAIN)
    assert header == ["", "nn", "ridge", "paper"]
    assert lines == [["S1", "40.0", "50.0", "*51.0* (−1.0)"]]


def test_stacked(stacked):
    header, lines = render.grid(stacked.blocks[0], render.PLAIN)
    assert header == ["", "A→W", "mean"]
    assert lines == [
        ["S1D+ridge", "*_55.0_*", "65.0"],
        ["  paper", "53.9", "65.3"],
        ["  difference", "+1.1", ""],
        ["DAN (quoted)", "68.5", "72.9"],
    ]


def test_csv(table, stacked):
    rows = list(csv.DictReader(io.StringIO(render.to_csv([table, stacked]))))
    assert len(rows) == 10
    assert rows[0] == {
        "table": "us", "dataset": "oc10", "row": "S1", "column": "ridge", "accuracy": "84.4600",
        "stderr": "0.2400", "rows": "12", "expected": "12", "balanced_accuracy": "",
        "paper": "84.0", "difference": "0.5", "improves_on_s1": "0", "paper_improves_on_s1": "0",
    }  # fmt: skip
    assert rows[3]["accuracy"] == ""
    assert rows[3]["paper"] == "80.9"


def test_real_latex_is_ascii_and_no_terminal_line_is_too_long():
    for name in ("us", "sup", "off31", "surf"):
        specs = plan_table(name, draws=2)
        table = build_table(name, specs, rows_for(specs, lambda s: 91.23 + s.task.draw))
        assert render.to_latex(table).isascii()
        for block in table.blocks:
            header, lines = render.grid(block, render.Marks(("", ""), ("", "")))
            assert max(map(len, render.align([header, *lines]))) <= 80


def test_findings_lines():
    specs = plan_table("us", datasets=["amt"], classifiers=["ridge"])
    rows = rows_for(specs, lambda s: {"BL": 70.0, "S1D": 69.0}.get(s.model, 75.0))
    lines = render.findings_lines(check_findings(rows), evidence=True)
    assert lines[0] == (
        "- [x] yes: MDA improves the ridge baseline (S1 > BL) "
        "(holds in 1 of 1 comparison, 2 lack rows)"
    )
    assert lines[1] == "  - amt US ridge: S1 − BL = +5.0 holds"
    assert lines[2].startswith("- [ ] no: the domain predictor does not hurt ridge")
    assert lines[3] == "  - amt US ridge: S1D − S1 = −6.0 does not hold"
    assert any(line.startswith("- [ ] not enough rows: the class term helps") for line in lines)


def test_terminal_falls_back_to_plain_text(table, capsys):
    render.print_table(table)
    render.print_section("Title", ["[1] a", "b"])
    out = capsys.readouterr().out
    assert "*84.5*±0.2" in out
    assert "Title\n[1] a\nb" in out


class Tty(io.StringIO):
    def isatty(self):
        return True


def test_terminal_with_rich(table):
    pytest.importorskip("rich")
    stream = Tty()
    render.print_table(table, stream)
    render.print_section("Title", ["[1] a"], stream)
    out = stream.getvalue()
    assert "\x1b[1m84.5\x1b[0m±0.2" in out
    assert "[1] a" in out


def test_no_colour_where_none_is_wanted(table, monkeypatch):
    """Bold and dim are no colours: https://no-color.org."""
    pytest.importorskip("rich")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Tty()
    render.print_table(table, stream)
    render.print_section("Title", ["[1] a 2.5 True"], stream)
    with Progress(10, delay=0.0, stream=stream, keep=True) as progress:
        progress(5, "half")
        while progress.bar is None:
            time.sleep(0.01)
    codes = set(re.findall(r"\x1b\[([0-9;]*)m", stream.getvalue()))
    assert codes
    assert not [c for code in codes for c in code.split(";") if c and int(c) >= 30]


def test_terminal_without_rich(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Tty()
    render.print_table(table, stream)
    assert "*84.5*±0.2" in stream.getvalue()


def test_times():
    specs = plan_table("us", datasets=["amt"], tasks=["books-dvd"], models=["BL", "J12"])
    rows = rows_for(specs, lambda s: 80.0)
    lines = render.time_lines(rows)
    assert lines == [("fit BL", 1.5, 0.5), ("fit J12", 1.5, 0.5)]
    assert render.time_lines([]) == []
    texts = [seconds_text(s) for s in (0.44, 9.94, 12.4, 185.0, 7380.0)]
    assert texts == ["0.4 s", "9.9 s", "12 s", "3 min 05 s", "2 h 03 min"]
