"""Charts at their limits."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("altair")

from marda.diagnostics import Evidence, Interval, Picture
from marda.report import charts


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
    spec = charts.scatter(seen, seen.before, "class")
    domain = spec["encoding"]["color"]["scale"]["domain"]
    assert len(domain) == len(spec["encoding"]["color"]["scale"]["range"])
    assert len(domain) == min(n_classes, charts.N_COLOURS)
    assert (charts.OTHER in domain) == (n_classes > charts.N_COLOURS)
    assert "c0" in domain
    if n_classes > charts.N_COLOURS:
        assert (domain[-1], spec["encoding"]["color"]["scale"]["range"][-1]) == (
            charts.OTHER,
            charts.GREY,
        )
    (data,) = spec["datasets"].values()
    assert {row["label"] for row in data} <= set(seen.classes)  # hover tells the real class
    counts = charts.histogram(seen)
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
