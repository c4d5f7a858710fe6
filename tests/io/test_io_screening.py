"""Columns that no model should see are found; shifted features are not among them."""

from __future__ import annotations

import numpy as np
import pytest

from marda.io import Table
from marda.io.screening import notes_of, screen

RNG = np.random.default_rng(0)
N, M = 100, 80
Y = np.arange(N) % 2
GOOD = RNG.normal(Y, 1), RNG.normal(0.5, 1, M) + 5  # shifted


def found(source, target, name="x", keep=(), **tables):
    columns = [
        {
            "good": GOOD[k],
            name: np.array(values, dtype=object if isinstance(values[0], str) else None),
        }
        for k, values in enumerate((source, target))
    ]
    s, t = (
        Table(path, len(held["good"]), held, **tables)
        for path, held in zip(("s", "t"), columns, strict=True)
    )
    return {left.name: left.why for left in screen(s, t, Y, ["good", name], keep)}


@pytest.mark.parametrize(
    ("name", "source", "target", "why"),
    [
        ("x", range(N), range(M), "id or a row number"),
        ("x", range(1000, 1000 + N), range(7, 7 + M), "id or a row number"),
        ("x", [10**7 + 7919 * k for k in range(N)][::-1], [10**7 + 31 * k for k in range(M)], "id"),
        ("id", [k * k % 7919 for k in range(N)], [k * 37 % 7919 for k in range(M)], "id"),
        ("customerId", [k * 37 % 7919 for k in range(N)], [k * 53 % 7919 for k in range(M)], "id"),
        ("x", [f"u{k}" for k in range(N)], [f"v{k}" for k in range(M)], "id"),
        ("x", [3.0] * N, [3.0] * M, "the same in all rows"),
        ("x", [np.nan] * N, [np.nan] * M, "has no values"),
        ("x", [1.0, 2.0] * (N // 2), [np.nan] * M, "has no values in t"),
        ("x", [3.0] * N, [4.0] * M, "tells the files apart"),
        ("x", ["a", "b"] * (N // 2), ["c"] * M, "tells the files apart"),
        ("x", ["p", "q"] * (N // 2), ["p", "q"] * (M // 2), "the label in other words"),
        ("x", (5.0 * Y + RNG.random(N)).tolist(), (6 * RNG.random(M)).tolist(), "alone predicts"),
    ],
)
def test_left_out(name, source, target, why):
    left = found([*source], [*target], name)
    assert why in left.pop(name)
    assert not left
    assert not found([*source], [*target], name, keep=[name])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (RNG.integers(0, 10**6, N).tolist(), RNG.integers(0, 10**6, M).tolist()),  # amounts
        (RNG.integers(1, 6, N).tolist(), RNG.integers(6, 11, M).tolist()),  # shifted by five
        (RNG.normal(0, 1, N).tolist(), RNG.normal(90, 1, M).tolist()),
        (["a", "b", "a", "a"] * (N // 4), ["b", "c"] * (M // 2)),
        (
            [f"{k} of many words here" for k in range(N)],
            [f"other {k} words are here" for k in range(M)],
        ),
        ((3 * Y + RNG.normal(0, 1, N)).tolist(), RNG.normal(0, 1, M).tolist()),  # predicts well
    ],
)
def test_features_stay(source, target):
    assert not found(source, target)


def test_nameless_columns_go():
    left = found([1.5, 2.5] * (N // 2), [1.5, 2.5] * (M // 2), nameless=frozenset({"x"}))
    assert left["x"] == "has no name"


def test_few_rows_tell_nothing():
    held = {"a": np.arange(10.0), "b": np.arange(10.0) ** 2}
    tables = [Table(path, 10, held) for path in "st"]
    assert not screen(*tables, np.arange(10) % 2, ["a", "b"], ())


def test_an_easy_problem_has_no_leaks():
    columns = [RNG.normal(20 * Y, 1) for _ in range(6)]
    s = Table("s", N, {f"c{k}": values for k, values in enumerate(columns)})
    t = Table("t", M, {f"c{k}": RNG.normal(0, 10, M) for k in range(6)})
    assert not screen(s, t, Y, [*s.columns], ())


def test_notes_name_the_option():
    s = Table("s", N, {"a, b": np.ones(N), "c": np.ones(N), "d": RNG.normal(0, 1, N)})
    t = Table("t", M, {"a, b": np.ones(M), "c": np.ones(M), "d": RNG.normal(0, 1, M)})
    (note,) = notes_of(screen(s, t, Y, [*s.columns], ()))
    assert note.startswith("left out: 'a, b', 'c', which is the same in all rows")
    assert note.endswith("""(--keep '"a, b",c').""")
