"""Inputs: kinds, the rule that chooses among them, and samples of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda._validation import UNLABELED, Labels
from marda.selection.inputs import (
    ROOTS,
    STANDARD,
    TAIL,
    UNIT,
    alternative_inputs,
    choose_inputs,
    draw_rows,
    drop_copies,
    leaf_inputs,
    make_inputs,
    robust_inputs,
    sample,
    telling_columns,
    usual_inputs,
)
from marda.trees.forest import fit_forest


@pytest.mark.parametrize("kind", ["raw", "unit", "sqrt", "standard"])
def test_inputs_are_the_same_for_sparse_and_dense_rows(kind):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, (20, 6)).astype(float) * rng.choice([-1, 1], (20, 6))
    X[3] = 0
    columns = np.array([0, 2, 5])
    dense = make_inputs(kind, X, columns).apply(X)
    S = sp.csr_array(X)
    sparse = make_inputs(kind, S, columns).apply(S)
    np.testing.assert_allclose(sparse.toarray() if sp.issparse(sparse) else sparse, dense)
    if kind in ("unit", "sqrt"):
        assert set(np.round(np.linalg.norm(dense, axis=1), 12)) <= {0.0, 1.0}
    if kind == "standard":
        np.testing.assert_allclose(dense.std(0), 1)


def test_inputs_near_the_best_are_taken_where_it_is_clearly_better():
    kappas = {UNIT: 0.50, ROOTS: 0.56, STANDARD[0]: 0.575, STANDARD[1]: 0.52}
    assert choose_inputs(kappas, [UNIT]) == [ROOTS, STANDARD[0]]
    assert choose_inputs(kappas, [ROOTS]) == [ROOTS]  # better, but not by the margin
    assert choose_inputs({UNIT: 0.5, ROOTS: 0.3}, [UNIT, ROOTS]) == [UNIT]


@pytest.mark.parametrize(
    ("zeros", "usual", "others"),
    [
        (0.2, [UNIT], [ROOTS, *STANDARD]),
        (0.7, [UNIT, ROOTS], [*STANDARD]),
        (0.98, [UNIT, ROOTS], []),
    ],
)
def test_rare_events_are_not_standardised(zeros, usual, others):
    assert usual_inputs(zeros) == usual
    assert alternative_inputs(zeros) == others


def test_a_sample_keeps_shares_rare_classes_and_labelled_target_rows():
    codes = np.r_[np.repeat([0, 1, 2], [600, 300, 5]), np.repeat([UNLABELED, 0], [400, 30])]
    domain = np.r_[np.full(905, 1), np.full(430, -2)]
    drawn = draw_rows(codes, domain, 90, seed=0)
    assert (np.diff(drawn) > 0).all()
    source, target = (codes[drawn[domain[drawn] == d]] for d in (1, -2))
    assert np.unique(source, return_counts=True)[1].tolist() == [59, 29, 5]
    assert np.unique(target, return_counts=True)[1].tolist() == [83, 30]
    np.testing.assert_array_equal(drawn, draw_rows(codes, domain, 90, seed=0))
    assert not np.array_equal(drawn, draw_rows(codes, domain, 90, seed=1))


def test_all_rows_are_a_sample_without_a_copy():
    X, domain = np.arange(8.0).reshape(4, 2), np.array([1, 1, -2, -2])
    labels = Labels(np.array([0, 1]), np.array([0, 1, UNLABELED, UNLABELED]))
    assert sample(X, labels, domain, 2, seed=0)[0] is X


def test_copies_of_source_rows_are_dropped_unless_they_are_natural():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40, 3)), np.arange(40) % 2
    rows = np.r_[X, X[:25], rng.normal(size=(30, 3))]
    labels = np.r_[codes, codes[:25], np.full(30, UNLABELED)]
    domain = np.r_[np.full(40, 1), np.full(25, 2), np.full(30, -3)]
    with pytest.warns(UserWarning, match="25 of 65 labelled source rows are copies of others"):
        kept = drop_copies(rows, labels, domain)
    assert kept.tolist() == [*range(40), *range(65, 95)]
    with pytest.warns(UserWarning, match="copies"):
        assert len(drop_copies(sp.csr_array(rows[::-1]), labels[::-1], domain[::-1])) == 70
    # Few of them; a copy of another class; the target's rows are copies, too.
    one = labels.copy()
    one[64] = 1 - one[64]
    for X, y, d in (
        (rows[7:48], labels[7:48], np.where(domain[7:48] > 1, -3, 1)),
        (rows, one, domain),
        (np.r_[rows[:65], rows[:30]], labels, domain),
    ):
        assert len(drop_copies(X, y, d)) == len(y)


# Inputs that rules alone make ---------------------------------------------------------------------


def test_robust_columns_keep_their_body_and_end_their_tails():
    rng = np.random.default_rng(0)
    X = rng.normal([5, -3, 0], [1, 100, 1e-6], (500, 3))
    inputs = robust_inputs(X, 5.0)
    Z = inputs.apply(X)
    body = np.abs(Z) < 5
    np.testing.assert_allclose(Z[body], ((X - inputs.middle) / inputs.spread)[body])
    np.testing.assert_allclose(Z.std(0), 1, atol=0.01)
    far = inputs.middle + inputs.spread * np.array([[5], [5.01], [50], [1e100], [-1e300]])
    found = inputs.apply(far)
    np.testing.assert_allclose(found[:2], [[5] * 3, [5.01] * 3], rtol=1e-5)
    assert (np.diff(found[:4], axis=0) >= 0).all()
    np.testing.assert_allclose(found[3:], [[8] * 3, [-8] * 3], rtol=1e-9)
    assert inputs.width(3) == 3


def test_robust_rows_do_not_depend_on_those_beside_them():
    rows = np.random.default_rng(0).standard_t(2, size=(20_000, 3))  # more than are moved at once
    inputs = robust_inputs(rows, 1.5)
    away = (rows - inputs.middle) / inputs.spread
    tail = np.maximum(np.abs(away) - 1.5, 0)
    expected = np.clip(away, -1.5, 1.5) + np.sign(away) * TAIL * tail / (TAIL + tail)
    np.testing.assert_allclose(inputs.apply(rows), expected, rtol=1e-12)


def test_a_few_wild_rows_do_not_make_the_spread():
    X = np.random.default_rng(0).normal(size=(400, 2))
    wild = X.copy()
    wild[::50] *= 1e6
    clean, found = robust_inputs(X, 5.0), robust_inputs(wild, 5.0)
    np.testing.assert_allclose(found.spread, clean.spread, rtol=0.2)
    # A rare event has no other spread than its own.
    rare = (np.arange(400) % 50 == 0).astype(float)[:, None]
    np.testing.assert_allclose(robust_inputs(rare, 5.0).spread, np.sqrt(1 / 50))
    constant = robust_inputs(np.full((5, 1), 3.0), 5.0)
    np.testing.assert_array_equal(constant.apply(np.full((2, 1), 3.0)), 0)


def test_columns_that_number_the_rows_tell_nothing():
    rng = np.random.default_rng(0)
    n = 200
    columns = {
        "number": rng.permutation(n) + 17.0,
        "number of more rows": np.sort(rng.choice(1000, n, replace=False)).astype(float),
        "constant": np.full(n, 2.0),
        "measured": rng.normal(size=n),
        "income": rng.integers(10_000, 90_000, n).astype(float),
        "age": rng.integers(18, 90, n).astype(float),
        "yes or no": rng.integers(2, size=n).astype(float),
    }
    X = np.column_stack(list(columns.values()))
    np.testing.assert_array_equal(telling_columns(X), [3, 4, 5, 6])
    np.testing.assert_array_equal(telling_columns(sp.csr_array(X)), [3, 4, 5, 6])
    assert telling_columns(X[:, 3:]) is None
    assert telling_columns(X[:, :3]) is None  # nothing else is there
    assert telling_columns(X[:4, [0, 3]]) is None  # four numbers may differ by chance


def test_whole_numbers_are_hardly_ever_taken_for_numbers_of_rows():
    """At the bound, ten equal pairs are expected, and none is there with a chance of e⁻¹⁰."""
    rng = np.random.default_rng(1)
    n = 60
    X = rng.integers(0, n * (n - 1) // 20, (n, 2000)).astype(float)
    assert telling_columns(X) is None


def test_leaves_have_unit_length():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    inputs = leaf_inputs(fit_forest(X, (X[:, 0] > 0).astype(int), 2, seed=0, n_trees=7).forest)
    L = inputs.apply(X)
    assert L.shape == (100, inputs.width(3))
    np.testing.assert_allclose(L.multiply(L).sum(1), 1)
