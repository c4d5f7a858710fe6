"""Sums over all rows give the models of all rows; left-out rows decide whether they are taken."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

import marda
from marda import MDAClassifierCV, pack
from marda.selection.all_rows import FLOOR, FixedFeatures, HeldRows, fit_all_rows
from marda.selection.inputs import Inputs
from marda.selection.source_only import KERNEL_RIDGES, fit_source_only, landmark_basis, similarity


def rows(n, seed, classes=2, d=4):
    """Curved classes: neither linear nor without a linear part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    scores = np.stack([X[:, c] + np.abs(X[:, (c + 1) % d]) for c in range(classes)], axis=1)
    return X, (scores + rng.gumbel(size=scores.shape) / 2).argmax(1)


def features(classes, seed=0):
    """Of an arbitrary start and landmarks."""
    rng = np.random.default_rng(seed)
    start = 0.1 * rng.standard_normal((5, classes))
    start -= start.mean(1, keepdims=True)
    raw = Inputs("raw")
    weights = np.linspace(0.5, 1.5, classes)
    return FixedFeatures(weights, (raw, start), (raw, rng.standard_normal((30, 4)), 3.0))


def assert_sums(a, b, rtol=1e-12):
    for name in ("counts", "gradient", "hessian", "gram", "cross"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=1e-10)


def test_sums_of_parts_add_up_in_any_order():
    fixed, (X, y) = features(3), rows(500, 0, 3)
    whole = fixed.added(fixed.nothing(), X, y)
    order = np.random.default_rng(1).permutation(500)
    parts = [fixed.added(fixed.nothing(), X[some], y[some]) for some in np.array_split(order, 7)]
    assert_sums(sum(parts[1:], start=parts[0]), whole)
    assert_sums(HeldRows(X, y, order, 3).sums(fixed), whole)
    assert whole.n_rows == 500


@pytest.mark.parametrize("classes", [2, 3])
def test_newton_steps_end_at_the_maximum_of_the_likelihood(classes):
    """Repeated, the step has no other fixed point than what minimises the written loss."""
    fixed, (X, y) = features(classes), rows(400, 1, classes)
    F, w, penalty = np.hstack([X, np.ones((400, 1))]), fixed.weights[y], 0.7

    def loss(theta):
        coef = theta.reshape(5, classes)
        own = log_softmax(F @ coef, axis=1)[np.arange(400), y]
        return -(w @ own) + penalty / 2 * (coef[:-1] ** 2).sum()

    best = minimize(loss, np.zeros(5 * classes), method="BFGS", options={"gtol": 1e-7})
    linear = None
    for _ in range(8):
        sums = fixed.added(fixed.nothing(), X, y)
        (_, linear), *_ = fixed.models(sums, penalty)
        theta = np.vstack([linear.coef, linear.intercept])
        fixed = FixedFeatures(fixed.weights, (Inputs("raw"), theta), fixed.kernel)
    P, Q = (log_softmax(F @ t, axis=1) for t in (best.x.reshape(5, classes), theta))
    np.testing.assert_allclose(P, Q, atol=1e-4)
    assert loss(theta.ravel()) <= best.fun + 1e-9


def test_the_kernel_of_sums_is_the_ridge_on_all_rows():
    fixed, (X, y) = features(2), rows(300, 2)
    sums = fixed.added(fixed.nothing(), X, y)
    models = [model for _, model in fixed.models(sums, 1.0)][1:]
    assert len(models) == len(KERNEL_RIDGES)
    _, landmarks, variance = fixed.kernel
    P = similarity(X, landmarks, variance) @ landmark_basis(landmarks, variance, FLOOR)
    w = fixed.weights[y]
    mean, Y = w @ P / w.sum(), np.eye(2)[y] * 2 - 1
    level = w @ Y / w.sum()
    A, right = np.sqrt(w)[:, None] * (P - mean), np.sqrt(w)[:, None] * (Y - level)
    for ridge, model in zip(KERNEL_RIDGES, models, strict=True):
        unit = np.square(A).sum() / A.shape[1]
        coef = np.linalg.solve(A.T @ A + ridge * unit * np.eye(A.shape[1]), A.T @ right)
        expected = (P - mean) @ coef + level
        np.testing.assert_allclose(model.scores(X), expected, rtol=1e-5, atol=1e-6)


def test_left_out_rows_decide():
    """Rows that tell better are taken; rows whose labels are noise are not."""
    X, y = rows(300, 3)
    more, true = rows(6000, 4)
    voices = fit_source_only(X, y, 2, seed=0)
    places = np.arange(6000)
    good = fit_all_rows(voices, X, HeldRows(more, true, places, 2))
    assert good.kinds
    assert good.n_rows == 6300
    assert good.voices.chosen.losses.mean() < voices.chosen.losses.mean()
    new, truth = rows(4000, 5)
    before, after = (v.chosen.model.scores(new).argmax(1) == truth for v in (voices, good.voices))
    assert after.mean() > before.mean() + 0.01
    noise = np.random.default_rng(0).integers(2, size=6000)
    bad = fit_all_rows(voices, X, HeldRows(more, noise, places, 2))
    assert (bad.kinds, bad.n_rows) == ((), 0)
    np.testing.assert_allclose(
        bad.voices.chosen.model.scores(new), voices.chosen.model.scores(new), atol=1e-6
    )
    none = fit_all_rows(voices, X, HeldRows(more, true, places[:0], 2))
    assert none.voices is voices


def test_the_default_learns_from_all_rows_and_says_so(tmp_path):
    (Xs, ys), (Xt, yt) = rows(4000, 6), rows(400, 7)
    X, y, domain = pack(Xs, ys, Xt)
    model = MDAClassifierCV(max_rows=200, random_state=0).fit(X, y, sample_domain=domain)
    few = np.r_[:200, 4000:4200]
    small = MDAClassifierCV(random_state=0).fit(X[few], y[few], sample_domain=domain[few])
    assert small.n_rows_used_ == {"choices": 400}
    used = dict(model.n_rows_used_)
    assert used.pop("choices") in range(390, 401)
    assert set(used.values()) == {4000}
    assert model.score(Xt, yt) > small.score(Xt, yt) - 0.01
    order = np.random.default_rng(0).permutation(len(y))
    again = MDAClassifierCV(max_rows=200, random_state=0)
    again.fit(X[order], y[order], sample_domain=domain[order])
    np.testing.assert_allclose(again.predict_proba(Xt), model.predict_proba(Xt), atol=1e-8)
    model.save(tmp_path / "m.marda")
    loaded = marda.load(tmp_path / "m.marda")
    assert loaded.n_rows_used_ == model.n_rows_used_
    np.testing.assert_array_equal(loaded.predict(Xt), model.predict(Xt))
