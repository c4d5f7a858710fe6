"""Codes for no value and other units are told; columns that merely moved are not."""

from __future__ import annotations

import numpy as np
import pytest

from marda.io.screening import odd_numbers
from marda.io.table import Table

RNG = np.random.default_rng(0)
USUAL = RNG.normal(50, 10, 200).round(1)


def told(source, target):
    tables = [
        Table(f"{n}.csv", len(v), {"x": v}) for n, v in zip("ab", (source, target), strict=True)
    ]
    return odd_numbers(*tables, ["x"])


def with_codes(code, rows, values=USUAL):
    held = values.copy()
    held[:rows] = code
    return held


@pytest.mark.parametrize("code", [-999, 9999, -99])
@pytest.mark.parametrize("side", [0, 1])
def test_codes_of_nines(code, side):
    pair = [USUAL, with_codes(code, 7)][:: 1 if side else -1]
    (note,) = told(*pair)
    assert f"{code} stands in 'x' (7 values)" in note
    assert f"--na '{code}' --missing impute" in note


@pytest.mark.parametrize(
    "values",
    [
        with_codes(-999, 1),  # one row may be a slip, or true
        with_codes(-998, 9),
        with_codes(99, 9),  # near the others
        with_codes(-999, 9, USUAL * 100),  # among the others
        with_codes(np.nan, 9),
        USUAL.astype(np.int64),
    ],
)
def test_no_codes(values):
    assert not told(USUAL * (100 if np.nanmax(values) > 2000 else 1), values)


@pytest.mark.parametrize("factor", [100, 1000, 0.01])
def test_another_unit(factor):
    near = USUAL.clip(20, 90)
    (note,) = told(near, near * factor * 0.9)
    large, small = ("b", "a") if factor > 1 else ("a", "b")
    assert f"times as large in {large}.csv as in {small}.csv" in note
    assert "--drop 'x'" in note


@pytest.mark.parametrize(
    "target",
    [
        USUAL + 500,  # moved, with the same spread
        USUAL * 3,
        -USUAL * 100,
        np.full(200, 5000.0),
        (USUAL * 100)[:10],  # few
    ],
)
def test_columns_that_moved_otherwise(target):
    assert not told(USUAL.clip(20, 90), target)
