"""Sums over rows give the models of all rows, in whatever order they were added."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_softmax

from marda.moments.features import (
    FLOOR,
    FixedFeatures,
    HeldRows,
    landmark_basis,
    similarity,
)
from marda.selection.inputs import Inputs


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
    for _ in range(8):
        sums = fixed.added(fixed.nothing(), X, y)
        theta = fixed.stepped(sums, penalty)
        fixed = FixedFeatures(fixed.weights, (Inputs("raw"), theta), fixed.kernel)
    P, Q = (log_softmax(F @ t, axis=1) for t in (best.x.reshape(5, classes), theta))
    np.testing.assert_allclose(P, Q, atol=1e-4)
    assert loss(theta.ravel()) <= best.fun + 1e-9


def test_the_kernel_of_sums_is_the_ridge_on_all_rows():
    fixed, (X, y) = features(2), rows(300, 2)
    sums = fixed.added(fixed.nothing(), X, y)
    ridges = (1e-5, 1e-2, 1.0)
    models = list(fixed.ridges(sums, ridges))
    _, landmarks, variance = fixed.kernel
    P = similarity(X, landmarks, variance) @ landmark_basis(landmarks, variance, FLOOR)
    w = fixed.weights[y]
    mean, Y = w @ P / w.sum(), np.eye(2)[y] * 2 - 1
    level = w @ Y / w.sum()
    A, right = np.sqrt(w)[:, None] * (P - mean), np.sqrt(w)[:, None] * (Y - level)
    K = similarity(X, landmarks, variance)
    for ridge, (ours, intercept) in zip(ridges, models, strict=True):
        unit = np.square(A).sum() / A.shape[1]
        coef = np.linalg.solve(A.T @ A + ridge * unit * np.eye(A.shape[1]), A.T @ right)
        expected = (P - mean) @ coef + level
        np.testing.assert_allclose(K @ ours + intercept, expected, rtol=1e-5, atol=1e-6)


def test_similarities_are_those_of_distances_and_a_one():
    rng = np.random.default_rng(5)
    A, B = rng.normal(size=(700, 4)) + 3, rng.normal(size=(300, 4)) + 3
    expected = np.exp(-0.5 * cdist(A, B, "sqeuclidean") / 1.7)
    found = similarity(A, B, 1.7, one=True)
    np.testing.assert_allclose(found[:, :-1], expected, rtol=1e-12)
    np.testing.assert_array_equal(found[:, -1], 1)
    np.testing.assert_array_equal(similarity(A, B, 1.7), found[:, :-1])
