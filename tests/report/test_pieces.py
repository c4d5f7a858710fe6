"""Pieces of pages: tables, JSON in HTML, charts at their limits."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("altair")

from marda.diagnostics import Evidence, Interval, Picture
from marda.report import charts, looks
from marda.report.html import Number, Section, facts, paragraph, points, table
from marda.report.page import _distinct, json_in_html


def test_json_cannot_end_its_script():
    value = {"a": "</script><!--\u2028", "b": [1.5, None]}
    text = json_in_html(value)
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == value


def test_not_a_number_never_reaches_a_page():
    with pytest.raises(ValueError, match="JSON"):
        json_in_html({"a": float("nan")})


@pytest.mark.parametrize("make", [paragraph, lambda t: points([t]), lambda t: facts([(t, t)])])
def test_text_is_escaped(make):
    assert "<i>" not in make("<i>&")
    assert "&lt;i&gt;&amp;" in make("<i>&")


def test_table():
    text = table(
        'with "quotes"',
        ("name", "figure"),
        [["<a>", Number("1.0", 1.0, strong=True, mark=True)], ["b", Number("–", float("nan"))]],
    )
    assert 'aria-label="with &quot;quotes&quot;"' in text
    assert '<th scope="row">&lt;a&gt;</th>' in text
    assert '<td class="number" data-sort="1"><strong><u>1.0</u></strong></td>' in text
    assert '<td class="number" data-sort="">–</td>' in text
    assert text.count('aria-sort="none"') == 2


def test_one_row_has_nothing_to_sort():
    assert "button" not in table("c", ("a",), [["x"]])


def test_titles_that_come_twice_are_told_apart():
    names = [s.anchor for s in _distinct([Section("A b"), Section("A b"), Section("C")])]
    assert names == ["a-b", "a-b-2", "c"]


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


@pytest.mark.parametrize("n_classes", [2, 10, 31])
def test_no_more_colours_than_there_are(n_classes):
    seen = evidence(n_classes)
    spec = looks.scatter(seen, seen.before, "class")
    domain = spec["encoding"]["color"]["scale"]["domain"]
    assert len(domain) == len(spec["encoding"]["color"]["scale"]["range"])
    assert len(domain) == min(n_classes, looks.N_COLOURS)
    assert (looks.OTHER in domain) == (n_classes > looks.N_COLOURS)
    assert "c0" in domain
    if n_classes > looks.N_COLOURS:
        assert (domain[-1], spec["encoding"]["color"]["scale"]["range"][-1]) == (
            looks.OTHER,
            looks.GREY,
        )
    (data,) = spec["datasets"].values()
    assert {row["label"] for row in data} <= set(seen.classes)  # hover tells the real class
    counts = looks.histogram(seen)
    (bars,) = counts["datasets"].values()
    assert sum(row["rows"] for row in bars) == 4 * n_classes


def test_a_heat_map_of_one_value_has_a_scale():
    spec = charts.heat_map([("a", "b", 5.0, "5")], down="d", across="a", value="v")
    domains = [layer["encoding"].get("opacity") for layer in spec["layer"]]
    assert domains[0]["scale"]["domain"] == [5.0, 6.0]


def test_a_loss_that_falls_far_is_drawn_on_a_log_scale():
    far = charts.lines([100.0, 2.0, 1.0], across="step", up="loss")
    near = charts.lines([3.0, -1.0], across="step", up="loss")
    assert far["encoding"]["y"]["scale"] == {"type": "log"}
    assert near["encoding"]["y"]["scale"] == {"zero": False}


def test_intervals_keep_their_order():
    rows = [("z", Interval(1, 0, 2)), ("a", Interval(2, 1, 3))]
    spec = charts.intervals(rows, "x")
    (data,) = spec["datasets"].values()
    assert [row["name"] for row in data] == ["z", "a"]
    assert spec["layer"][0]["encoding"]["y"]["sort"] is None
