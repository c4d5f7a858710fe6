"""How much of a difference a selection of rows by one column explains."""

from __future__ import annotations

import numpy as np
import pytest

from marda.shift.two_sample import left_by_selection


def rows(rng, n):
    """Three columns, each of which tells of the others."""
    return rng.normal(size=(n, 3)) + 2 * rng.normal(size=(n, 1))


@pytest.mark.parametrize("column", ["normal", "of two values"])
def test_rows_that_one_column_selected_are_explained_by_it(column):
    rng = np.random.default_rng(0)
    X = rows(rng, 2000)
    if column == "of two values":
        X[:, 0] = X[:, 0] > 0
    there = rng.random(2000) < 1 / (1 + np.exp(X[:, 0].mean() - X[:, 0]))
    assert left_by_selection(X[~there], X[there]) < 0.02


def test_columns_that_moved_against_one_another_are_not():
    rng = np.random.default_rng(0)
    moved = rows(rng, 500) + np.array([2.0, -2.0, 0.0])
    assert left_by_selection(rows(rng, 500), moved) > 0.5


def test_the_column_is_found_among_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 60))
    there = rng.random(2000) < 1 / (1 + np.exp(-X[:, 40]))
    assert left_by_selection(X[~there], X[there]) < 0.1


def test_where_nothing_differs_nothing_is_explained():
    X = rows(np.random.default_rng(0), 400)
    assert left_by_selection(X, X) == 1.0
