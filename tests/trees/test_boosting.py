"""Boosted trees: against scikit-learn's, what they say of left-out rows, and hard rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.ensemble import GradientBoostingClassifier

from marda.trees import boosting
from marda.trees.boosting import fit_boosted

RNG = np.random.default_rng(0)


def steps(n, seed, n_classes=3):
    """Classes by steps in two columns of six, a tenth of them at random."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    codes = np.minimum((X[:, 0] > 0).astype(int) + (X[:, 3] > 0.5), n_classes - 1)
    return X, np.where(rng.random(n) < 0.1, rng.integers(n_classes, size=n), codes)


def boost(X, codes, n_classes=3, weights=None, n_folds=3):
    weights = np.ones(len(codes)) if weights is None else weights
    folds = np.arange(len(codes)) % n_folds
    return fit_boosted(X, codes, n_classes, weights=weights, folds=folds, seed=0)


def log_loss(S, codes):
    return -log_softmax(S, axis=1)[np.arange(len(codes)), codes].mean()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_as_good_as_scikit_learns_on_new_rows(n_classes):
    X, codes = steps(400, 1, n_classes)
    new, truth = steps(3000, 2, n_classes)
    found = boost(X, codes, n_classes)
    peer = GradientBoostingClassifier(n_estimators=50, max_depth=2, random_state=0).fit(X, codes)
    theirs = log_loss(np.log(peer.predict_proba(new)), truth)
    assert log_loss(found.model.scores(new), truth) < theirs + 0.02
    # Left-out rows say about what new ones do.
    left_out = log_loss(found.left_out, codes)
    assert left_out == pytest.approx(log_loss(found.model.scores(new), truth), abs=0.08)


def test_one_round_by_hand(monkeypatch):
    monkeypatch.setattr(boosting, "N_ROUNDS", 1)
    X = np.repeat([0.0, 1.0], 20)[:, None]
    codes = np.repeat([0, 1], [26, 14])
    w = np.where(codes == 1, 2.0, 1.0)
    found = boost(X, codes, 2, weights=w, n_folds=4)
    expected = 0.0
    for fold in range(4):
        seen = np.arange(40) % 4 != fold
        start = np.log([w[seen & (codes == c)].sum() / w[seen].sum() for c in (0, 1)])
        P = softmax(start)
        values = np.empty((2, 2))
        for side in (0, 1):
            here = seen & (X[:, 0] == side)
            for c in (0, 1):
                left = w[here] @ ((codes[here] == c) - P[c])
                values[side, c] = 0.1 * left / (w[here].sum() * P[c] * (1 - P[c]) + 1)
        held = ~seen
        own = start + values[X[held, 0].astype(int)]
        np.testing.assert_allclose(found.left_out[held], own, atol=1e-12)
        expected = expected + (start + values) / 4
    S = found.model.scores(np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(log_softmax(S, axis=1), log_softmax(expected, axis=1), atol=1e-12)


def test_rounds_are_those_that_left_out_rows_want():
    X, codes = RNG.normal(size=(200, 5)), RNG.integers(2, size=200)
    noise = boost(X, codes, 2)
    assert len(noise.model.forest.roots) < 3 * 15
    assert log_loss(noise.left_out, codes) < np.log(2) + 0.04
    clear = boost(X, (X[:, 0] > 0).astype(int), 2)
    assert len(clear.model.forest.roots) == 3 * boosting.N_ROUNDS


def test_nothing_is_known_of_left_out_rows():
    X, codes = steps(90, 3)
    found = boost(X, codes)
    other = codes.copy()
    other[::3] = (codes[::3] + 1) % 3  # the first fold
    changed = fit_boosted(X, other, 3, weights=np.ones(90), folds=np.arange(90) % 3, seed=0)
    rounds = min(len(one.model.forest.roots) for one in (found, changed)) // 3
    assert rounds >= 1
    short = pytest.MonkeyPatch()
    with short.context() as patch:
        patch.setattr(boosting, "N_ROUNDS", 1)
        a = boost(X, codes)
        b = fit_boosted(X, other, 3, weights=np.ones(90), folds=np.arange(90) % 3, seed=0)
    np.testing.assert_array_equal(a.left_out[::3], b.left_out[::3])
    assert not np.array_equal(a.left_out[1::3], b.left_out[1::3])


def test_sparse_rows_are_the_same_rows():
    X, codes = steps(120, 4)
    X = np.where(np.abs(X) > 0.4, X, 0.0)
    a, b = boost(X, codes), boost(sp.csr_array(X), codes)
    np.testing.assert_array_equal(a.left_out, b.left_out)
    np.testing.assert_array_equal(a.model.scores(X), b.model.scores(sp.csr_array(X)))


def test_units_make_no_difference():
    X, codes = steps(120, 5)
    moved = X * 2.0 ** np.arange(-200, 400, 100)
    np.testing.assert_allclose(boost(moved, codes).left_out, boost(X, codes).left_out, atol=1e-12)


def test_weights_are_copies():
    X, codes = steps(150, 6, 2)
    w = np.where(codes == 1, 3.0, 1.0)
    S = boost(X, codes, 2, weights=w).left_out
    plain = boost(X, codes, 2).left_out
    assert (S.argmax(1) == 1).sum() > (plain.argmax(1) == 1).sum()
    none = boost(X, codes, 2, weights=np.where(codes == 1, 1.0, 0.0)).left_out
    assert (none.argmax(1) == 1).all()


@pytest.mark.parametrize("n", [2, 3, 7])
def test_few_rows(n):
    X, _ = steps(n, 7)
    found = boost(X, np.arange(n) % 2, 3)
    assert np.isfinite(found.left_out).all()
    assert np.isfinite(found.model.scores(X)).all()


def test_many_rows_are_drawn_from(monkeypatch):
    monkeypatch.setattr(boosting, "MAX_BOOSTED", 100)
    X, codes = steps(900, 8, 2)
    new, truth = steps(2000, 9, 2)
    found = boost(X, codes, 2)
    assert (found.model.scores(new).argmax(1) == truth).mean() > 0.88
