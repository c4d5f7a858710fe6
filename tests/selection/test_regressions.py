"""Regressions: scores of rows that were left out, against fits without them."""

from __future__ import annotations

import numpy as np
import pytest

from marda.estimators.kernel_ridge import signs
from marda.selection.regressions import (
    WIDE_RIDGES,
    LabelledRows,
    Ridge,
    cross_validated,
    logistics,
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


@pytest.mark.parametrize("n_features", [3, 60])
def test_a_ridge_on_a_kernel_is_one_on_features(n_features):
    F, codes, w = drawn(40, n_features)
    w[3] = 0  # in no sum
    Y = signs(codes, 2)
    on_features, on_kernel = Ridge(F, Y, w), Ridge(F @ F.T, Y, w, kernel=True)
    for ridge in (1e-3, 1.0):
        coef, intercept, left_out = on_features.solve(ridge)
        absolute = ridge * on_features.unit / on_kernel.unit
        of_rows, same_intercept, same_left_out = on_kernel.solve(absolute)
        np.testing.assert_allclose(F.T @ of_rows, coef, atol=1e-10)
        np.testing.assert_allclose(same_intercept, intercept, atol=1e-10)
        np.testing.assert_allclose(same_left_out, left_out, atol=1e-8)


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
    (model,) = logistics(rows, F, np.ones((1, 100), dtype=bool), 10.0)
    assert (model.scores(F).argmax(1) == codes).mean() > 0.95
    assert 0.3 < (cross_validated(rows, F, 10.0).argmax(1) == codes).mean() < 0.7


def test_a_fold_without_a_class_knows_the_others_alone():
    F, codes, w = drawn(60, 3)
    codes[17] = 2
    rows = LabelledRows(F, codes, 3, w, 0)
    seen = np.array([np.arange(60) != 17, codes != 0, codes == 1, np.arange(60) >= 0])
    found = logistics(rows, F, seen, 1.0)
    for mine, model in zip(seen, found, strict=True):
        alone = LabelledRows(F[mine], codes[mine], 3, w[mine], 0)
        (peer,) = logistics(alone, F[mine], np.ones((1, mine.sum()), dtype=bool), 1.0)
        np.testing.assert_allclose(model.scores(F), peer.scores(F), atol=0.05)
        lacking = np.setdiff1d(np.arange(3), codes[mine])
        assert (model.coef[:, lacking] == 0).all()
        assert (model.scores(F)[:, lacking] < -9).all()
    assert (found[0].scores(F).argmax(1) == codes).mean() > 0.6
    np.testing.assert_array_equal(found[2].scores(F).argmax(1), 1)
