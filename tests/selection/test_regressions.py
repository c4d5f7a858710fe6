"""Regressions: scores of rows that were left out, against fits without them."""

from __future__ import annotations

import numpy as np

from marda.estimators.kernel_ridge import signs
from marda.selection.regressions import (
    WIDE_RIDGES,
    LabelledRows,
    Ridge,
    cross_validated,
    logistic,
    wide_ridges,
)


def drawn(n, d, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    F = rng.normal(size=(n, d))
    F[:, 0] += codes
    return F, codes, rng.uniform(0.5, 2, n)


def test_a_ridge_leaves_one_out():
    F, codes, w = drawn(40, 3)
    Y = signs(codes, 2)
    ridge = Ridge(F, Y, w)
    _, _, left_out = ridge.solve(0.1)
    absolute = 0.1 * ridge.unit
    for i in range(0, 40, 7):
        kept = np.arange(40) != i
        one = Ridge(F[kept], Y[kept], w[kept])
        coef, intercept, _ = one.solve(absolute / one.unit)
        np.testing.assert_allclose(left_out[i], F[i] @ coef + intercept, atol=1e-10)


def test_wide_ridges_are_ridges():
    F, codes, w = drawn(30, 40)
    for features in (F, F[:, :20]):
        rows = LabelledRows(features, codes, 2, w, 0)
        peer = Ridge(features, rows.Y, w)
        found = list(wide_ridges(rows, features))
        assert len(found) == len(WIDE_RIDGES)
        for penalty, (model, left_out) in zip(WIDE_RIDGES, found, strict=True):
            unit = peer.unit * features.shape[1] / 30
            coef, intercept, expected = peer.solve(penalty * unit / peer.unit)
            np.testing.assert_allclose(left_out, expected, atol=1e-8)
            np.testing.assert_allclose(model.coef, coef, atol=1e-8)
            np.testing.assert_allclose(model.intercept, intercept, atol=1e-8)


def test_folds_score_rows_that_they_have_not_seen():
    """Labels that mean nothing are learnt by heart where rows have been seen."""
    F, _, w = drawn(100, 60)
    codes = np.random.default_rng(1).integers(2, size=100)
    rows = LabelledRows(F, codes, 2, w, 0)
    seen = logistic(rows, F, np.ones(100, dtype=bool), 10.0).scores(F)
    assert (seen.argmax(1) == codes).mean() > 0.95
    assert 0.3 < (cross_validated(rows, F, 10.0).argmax(1) == codes).mean() < 0.7
