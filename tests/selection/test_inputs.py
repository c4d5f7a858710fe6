"""Inputs: kinds, the rule that chooses among them, and samples of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda._validation import UNLABELED, Labels
from marda.selection.inputs import (
    ROOTS,
    STANDARD,
    UNIT,
    alternative_inputs,
    choose_inputs,
    draw_rows,
    make_inputs,
    sample,
    usual_inputs,
)


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
