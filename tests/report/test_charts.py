"""Charts at their limits: nothing is cut, nothing lies outside, every mark says what it is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from marda.diagnostics.diagnosis import Evidence, Gap, Picture
from marda.diagnostics.intervals import Interval
from marda.report import charts

LONG = "a very long name of a column that no axis of a telephone could ever hold in one line"


def evidence(n_classes):
    n = 4 * n_classes
    codes = np.arange(n) % n_classes
    codes[: n // 2] = 0  # the first class is common
    picture = Picture(np.zeros((n, 2)), (0.6, 0.4))
    return Evidence(
        picture,
        picture,
        np.arange(n) % 2 == 0,
        codes,
        tuple(f"c{k}" for k in range(n_classes)),
        np.full((2, n_classes), 1 / n_classes),
        (),
        np.ones((n_classes, 4), dtype=np.int64),
        np.linspace(0, 1, 5),
        (),
    )


def read(drawing):
    """The drawing as XML; its texts and what marks say."""
    root = ET.fromstring(drawing.svg)
    name = "{http://www.w3.org/2000/svg}"
    return (
        [(e.text, e) for e in root.iter(f"{name}text")],
        [e.text for e in root.iter(f"{name}title")],
        root,
    )


DRAWINGS = {
    "intervals": lambda: charts.intervals(
        [("a", Interval(0.2, 0.1, 0.3)), (LONG, Interval(-4, -9.5, 2))], LONG, gains=True
    ),
    "one interval": lambda: charts.intervals([("a", Interval(1, 1, 1))], "x", zero=False),
    "heat map": lambda: charts.heat_map(
        [(LONG, f"method {k}", k - 3.0, f"{k - 3:+.1f}") for k in range(12)],
        down="pair",
        across="method",
        value="points",
        signs=True,
    ),
    "numbered heat map": lambda: charts.heat_map(
        [(f"{LONG} {a}", f"{LONG} {b}", 1.0, "1") for a in range(14) for b in range(14)],
        down="true",
        across="predicted",
        value="rows",
        labels=False,
    ),
    "lines": lambda: charts.lines([100.0, 3.0, 1e-3], across="step", up="loss"),
    "flat line": lambda: charts.lines([2.0, 2.0], across="step", up="loss"),
    "bars": lambda: charts.bars(
        [(LONG, "source", 0.5), (LONG, "target", 0.0), ("文字" * 20, "source", 0.9)],
        axis="share of rows",
        form=".0%",
        tip=".1%",
    ),
    "paper": lambda: charts.paper_against_ours([("AMT", "S1", 70.0, 71.5), (LONG, "S1", 90, 90)]),
    "scatter": lambda: charts.scatter(evidence(12), evidence(12).before, "class"),
    "gaps": lambda: charts.gaps([Gap(LONG, -1.5, 0.2), Gap("x" * 90, 0.1, 0.1)]),
    "gaps that stay": lambda: charts.gaps([Gap("a", -1.5, -1.5)], moved=False),
    "histogram": lambda: charts.histogram(evidence(31)),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_no_text_is_cut_or_lies_outside(name):
    drawing = DRAWINGS[name]()
    texts, _, _ = read(drawing)
    assert texts
    for text, element in texts:
        assert "…" not in text
        wide = charts.text_width(text)
        start = float(element.get("x"))
        start -= {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")] * wide
        assert start >= -2, text
        assert start + wide <= drawing.width + 2, text
        assert 0 < float(element.get("y")) <= drawing.height


def test_long_names_are_wrapped_whole():
    texts, _, _ = read(DRAWINGS["bars"]())
    said = " ".join(text for text, _ in texts)
    assert LONG in said
    assert "".join(t for t, _ in texts if set(t) <= set("文字")) == "文字" * 20


def test_names_of_columns_are_broken_between_their_words():
    assert charts.wrapped("mean_monthly_spending_on_food", 90) == [
        "mean_",
        "monthly_",
        "spending_on_",
        "food",
    ]
    assert "".join(charts.wrapped("x" * 40, 90)) == "x" * 40


def test_classes_with_long_names_have_numbers_in_a_confusion_matrix():
    names = ["consumables", "refurbished machines", "tools", "spare parts", "new"]
    cells = [(a, b, 1.0, "1") for a in names for b in names]
    drawing = charts.heat_map(cells, down="true", across="predicted", value="rows", cell=30)
    texts = [text for text, _ in read(drawing)[0]]
    assert texts[:7] == ["predicted, by number →", "true ↓", "1", "2", "3", "4", "5"]
    assert "1 consumables" in texts
    short = charts.heat_map(
        [(a[:3], b[:3], 1.0, "1") for a in names for b in names],
        down="true",
        across="predicted",
        value="rows",
    )
    assert "predicted →" in [text for text, _ in read(short)[0]]


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_mark_says_what_it_is(name):
    _, titles, root = read(DRAWINGS[name]())
    assert titles
    assert all(titles)
    assert "var(--" in ET.tostring(root, encoding="unicode")
    assert "nan" not in DRAWINGS[name]().svg


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_file_of_its_own_needs_no_page(name):
    drawing = DRAWINGS[name]()
    text = charts.standalone(drawing, "What <it> shows")
    assert "var(" not in text
    assert ET.fromstring(text)[0].text == "What <it> shows"
    assert float(ET.fromstring(text).get("width")) > drawing.width


@pytest.mark.parametrize("n_classes", [2, 10, 31])
def test_no_more_colours_than_there_are(n_classes):
    seen = evidence(n_classes)
    texts, titles, _ = read(charts.scatter(seen, seen.before, "class"))
    legend = [t for t, e in texts if e.get("fill") == "var(--ink)"]
    assert len(legend) == min(n_classes, charts.N_COLOURS)
    assert (charts.OTHER in legend) == (n_classes > charts.N_COLOURS)
    assert "c0" in legend
    if n_classes > charts.N_COLOURS:
        assert legend[-1] == charts.OTHER
    # Hover tells the real class.
    assert {t.rpartition(" ")[2] for t in titles} <= set(seen.classes)
    _, titles, _ = read(charts.histogram(seen))
    assert sum(int(re.search(r"([\d,]+) rows?$", t)[1]) for t in titles) == 4 * n_classes


def test_gains_and_losses_differ_in_colour_and_sign():
    rows = [(n, Interval(v, v - 1, v + 1)) for n, v in (("up", 5), ("down", -5), ("none", 0.5))]
    texts, _, root = read(charts.intervals(rows, "points", form="+.1f", gains=True))
    assert {"+5.0", "−5.0", "+0.5"} <= {t for t, _ in texts}
    colours = [e.get("fill") for e in root.iter() if (e.get("fill") or "").startswith("var(--")]
    assert {"var(--good)", "var(--bad)", "var(--muted)"} <= set(colours)
    cells = [("a", "b", 2.0, "+2.0"), ("a", "c", -2.0, "−2.0")]
    _, _, root = read(charts.heat_map(cells, down="d", across="a", value="v", signs=True))
    boxes = list(root.iter("{http://www.w3.org/2000/svg}rect"))
    assert [b.get("fill") for b in boxes] == ["var(--good)", "var(--bad)"]
    assert boxes[0].get("opacity") == boxes[1].get("opacity")


def test_a_heat_map_of_one_value_has_a_scale():
    drawing = charts.heat_map([("a", "b", 5.0, "5")], down="d", across="a", value="v")
    assert 'opacity="0.040"' in drawing.svg


def test_a_loss_that_falls_far_is_drawn_on_a_log_scale():
    far, _, _ = read(charts.lines([100.0, 2.0, 1.0], across="step", up="loss"))
    assert {"1", "10", "100"} <= {t for t, _ in far}
    near, _, _ = read(charts.lines([3.0, -1.0], across="step", up="loss"))
    assert "−1" in {t for t, _ in near}


def test_intervals_keep_their_order():
    texts, _, _ = read(charts.intervals([("z", Interval(1, 0, 2)), ("a", Interval(2, 1, 3))], "x"))
    heights = {t: float(e.get("y")) for t, e in texts if t in "za"}
    assert heights["z"] < heights["a"]


def test_zero_has_its_figure_where_some_are_left_out():
    rows = [("n" * 60, Interval(1e6, -3e6, 2.5e6))]
    texts, _, _ = read(charts.intervals(rows, "x", form="+.0f"))
    assert "0" in {t for t, _ in texts}


def test_few_rows_of_a_domain_are_drawn_larger():
    few = evidence(60)
    few.target[:] = np.arange(len(few.target)) < 3
    drawn = charts.scatter(few, few.before, "domain").svg
    assert drawn.count('r="2.6"') == len(few.target) - 3
    even = evidence(60)
    assert 'r="5.0"' not in charts.scatter(even, even.before, "domain").svg
