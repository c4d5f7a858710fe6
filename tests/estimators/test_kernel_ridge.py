"""Ridge on subsets of rows: the stationary point of the written loss, leave-one-out, landmarks."""

from __future__ import annotations

import numpy as np
import pytest

from marda.estimators import kernel_ridge
from marda.estimators.heads import RidgeHead
from marda.estimators.kernel_ridge import (
    GaussianRidge,
    RidgeOnRows,
    RidgeSolution,
    _Labelled,
    signs,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    F = rng.normal(size=(60, 8)) + 2 * np.eye(3, 8)[codes]
    weights = rng.uniform(0.5, 2.0, 40)
    chosen = rng.permutation(60)[:40]
    return F, codes, chosen, weights


def written_gaussian(F, G, variance):
    distances = ((F[:, None] - G[None]) ** 2).sum(2)
    return np.exp(-distances / (2 * variance))


def weighted_loss(K, Y, weights, ridge, dual, b):
    residual = Y - K @ dual - b
    return (weights[:, None] * residual**2).sum() + ridge * np.sum(dual * (K @ dual))


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_the_solution_is_a_minimum_of_the_written_loss(rows, gaussian, wide):
    F, codes, chosen, weights = rows
    if wide:  # fewer rows than features: the Gram of rows
        F = np.hstack([F, np.random.default_rng(1).normal(size=(60, 80))])
    on_rows = RidgeOnRows(F, gaussian=gaussian)
    Y = signs(codes[chosen], 3)
    solution, scores = on_rows.fit(chosen, Y, weights, 0.7)
    K = written_gaussian(F, F[chosen], F.var(0).sum()) if gaussian else F @ F[chosen].T
    # Any dual vector with these scores will do: the loss depends on it through K alone.
    dual = np.linalg.lstsq(K, scores - solution.intercept, rcond=None)[0]
    np.testing.assert_allclose(K @ dual + solution.intercept, scores, rtol=1e-6, atol=1e-8)
    inner = K[chosen]
    best = weighted_loss(inner, Y, weights, 0.7, dual, solution.intercept)
    rng = np.random.default_rng(2)
    for _ in range(20):
        other = dual + 1e-3 * rng.normal(size=dual.shape)
        shifted = solution.intercept + 1e-3 * rng.normal(size=3)
        assert weighted_loss(inner, Y, weights, 0.7, other, solution.intercept) > best
        assert weighted_loss(inner, Y, weights, 0.7, dual, shifted) > best


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("landmarks", [True, False])
def test_leave_one_out_is_a_fit_without_the_row(rows, gaussian, landmarks, monkeypatch):
    F, codes, chosen, weights = rows
    if landmarks and gaussian:
        monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 10)
        monkeypatch.setattr(kernel_ridge, "LANDMARKS", 30)
    on_rows = RidgeOnRows(F, gaussian=gaussian)
    Y = signs(codes[chosen], 3)
    quick = on_rows.leave_one_out(chosen, Y, weights, 0.5)
    for k in (0, 7, 39):
        rest = np.arange(40) != k
        _, scores = on_rows.fit(chosen[rest], Y[rest], weights[rest], 0.5)
        np.testing.assert_allclose(quick[k], scores[chosen[k]], rtol=1e-6, atol=1e-8)


def test_explicit_features_keep_their_digits_in_single_precision(monkeypatch):
    """Many rows, far from the origin, and a weak ridge."""
    rng = np.random.default_rng(0)
    codes = np.arange(4000) % 2
    F = rng.normal(size=(4000, 6)) + 0.5 * codes[:, None] + 30
    given = np.arange(4000), signs(codes, 2), np.ones(4000), 0.1
    monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 100)
    monkeypatch.setattr(kernel_ridge, "LANDMARKS", 50)
    for gaussian in (True, False):
        _, expected = RidgeOnRows(F, gaussian=gaussian).fit(*given)
        single = RidgeOnRows(F.astype(np.float32), gaussian=gaussian)
        single.hold(*(part[:3000] if np.ndim(part) else part for part in given))
        solution, found = single.fit(*given)
        np.testing.assert_allclose(found, expected, atol=2e-3)
        np.testing.assert_allclose(single.scores(solution, given[0]), expected, atol=2e-3)


def test_landmarks_come_close_to_the_exact_kernel(monkeypatch):
    rng = np.random.default_rng(0)
    codes = np.arange(400) % 2
    F = rng.normal(size=(400, 5)) + 1.5 * codes[:, None]
    everyone, weights, Y = np.arange(400), np.ones(400), signs(codes, 2)
    exact = RidgeOnRows(F, gaussian=True).fit(everyone, Y, weights, 0.3)[1]
    monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 100)
    monkeypatch.setattr(kernel_ridge, "LANDMARKS", 200)
    near = RidgeOnRows(F, gaussian=True, seed=0).fit(everyone, Y, weights, 0.3)[1]
    assert np.corrcoef(exact[:, 0], near[:, 0])[0, 1] > 0.99
    assert np.mean(exact.argmax(1) == near.argmax(1)) > 0.97


def test_landmarks_that_others_explain_are_left_out(monkeypatch):
    rng = np.random.default_rng(0)
    F = np.repeat(rng.normal(size=(40, 5)), 5, axis=0)
    codes = (F[:, 0] > 0).astype(int)
    given = np.arange(200), signs(codes, 2), np.ones(200), 0.3
    exact = RidgeOnRows(F, gaussian=True).fit(*given)[1]
    monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 100)
    monkeypatch.setattr(kernel_ridge, "LANDMARKS", 180)
    near = RidgeOnRows(F, gaussian=True)
    assert len(near.basis) == 40
    np.testing.assert_allclose(near.fit(*given)[1], exact, atol=1e-6)


def test_a_frozen_classifier_scores_as_the_fit_did(rows):
    F, codes, chosen, weights = rows
    on_rows = RidgeOnRows(F, gaussian=True)
    solution, scores = on_rows.fit(chosen, signs(codes[chosen], 3), weights, 0.3)
    frozen = GaussianRidge.of(np.array(["a", "b", "c"]), on_rows, solution)
    np.testing.assert_allclose(frozen.decision_function(F), scores, rtol=1e-8, atol=1e-10)
    assert len(frozen.basis_) == 40  # rows without a weight are not kept
    np.testing.assert_array_equal(frozen.predict(F), np.array(["a", "b", "c"])[scores.argmax(1)])
    np.testing.assert_allclose(frozen.predict_proba(F).sum(1), 1)


def test_solutions_add_up_in_units_of_their_spread(rows):
    F, codes, chosen, weights = rows
    on_rows = RidgeOnRows(F, gaussian=False)
    solution, scores = on_rows.fit(chosen, signs(codes[chosen], 3), weights, 0.3)
    twice = solution.standardised(2.0) + solution.standardised(2.0)
    centred = scores - scores.mean(1, keepdims=True)
    np.testing.assert_allclose(F @ twice.coef + twice.intercept, centred, atol=1e-10)
    assert isinstance(twice, RidgeSolution)


def test_equal_rows_have_a_kernel():
    on_rows = RidgeOnRows(np.ones((6, 2)), gaussian=True)
    scores = on_rows.fit(np.arange(6), signs(np.arange(6) % 2, 2), np.ones(6), 0.3)[1]
    np.testing.assert_allclose(scores, 0, atol=1e-12)


def test_rows_far_from_the_origin_keep_their_digits(rows):
    """Money next to zeros and ones: rows of unit length differ in their ninth digit."""
    F, codes, chosen, weights = rows
    far = 1 + 1e-9 * F
    Y = signs(codes[chosen], 3)
    solution, scores = RidgeOnRows(far, gaussian=True).fit(chosen, Y, weights, 0.1)
    expected = RidgeOnRows(F, gaussian=True).fit(chosen, Y, weights, 0.1)[1]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    given = RidgeOnRows(far, gaussian=True, inner=far @ far.T)
    np.testing.assert_allclose(given.fit(chosen, Y, weights, 0.1)[1], expected, atol=1e-5)
    frozen = GaussianRidge.of(np.arange(3), RidgeOnRows(far, gaussian=True), solution)
    np.testing.assert_allclose(frozen.scores(far), expected, atol=1e-5)


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("explicit", [True, False])
def test_held_rows_change_nothing_but_the_time(rows, gaussian, explicit, monkeypatch):
    F, codes, chosen, weights = rows
    if explicit:  # landmarks, or more rows than features
        monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 10)
        monkeypatch.setattr(kernel_ridge, "LANDMARKS", 30)
    else:
        F = np.hstack([F, np.random.default_rng(1).normal(size=(60, 80))])
    plain, holding = (RidgeOnRows(F, gaussian=gaussian) for _ in range(2))
    Y = signs(codes[chosen], 3)
    holding.hold(chosen[:25], Y[:25], weights[:25], 0.7)
    for n in (25, 26, 40):  # none, one, and many others
        given = chosen[:n], Y[:n], weights[:n], 0.7
        assert holding._way.started(_Labelled(*given)) is not None
        expected, scores = plain.fit(*given)
        found, found_scores = holding.fit(*given)
        np.testing.assert_allclose(found_scores, scores, atol=1e-10)
        np.testing.assert_allclose(found.coef, expected.coef, atol=1e-10)
    for given in (
        (chosen, Y, weights, 0.8),
        (chosen[::-1], Y[::-1], weights[::-1], 0.7),
        (chosen, Y, 2 * weights, 0.7),
        (chosen, -Y, weights, 0.7),
        (chosen[:20], Y[:20], weights[:20], 0.7),
    ):
        assert holding._way.started(_Labelled(*given)) is None
        np.testing.assert_allclose(holding.fit(*given)[1], plain.fit(*given)[1], atol=1e-10)


@pytest.mark.parametrize("way", ["products", "features", "long"])
def test_scores_of_some_rows_are_those_of_all(rows, way, monkeypatch):
    F, codes, chosen, weights = rows
    if way == "features":
        monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 10)
        monkeypatch.setattr(kernel_ridge, "LANDMARKS", 30)
    F = 1e6 * F if way == "long" else F
    head = RidgeHead(F, np.arange(3), gaussian=way != "long")
    for fitted in (chosen, np.arange(5, 45)):  # the latter is one block of the kernel
        given = fitted, codes[fitted], weights
        scores = head.fit(*given)
        found = head.fit_for(np.arange(45, 60))(*given)
        np.testing.assert_allclose(found[45:], scores[45:], rtol=1e-9, atol=1e-9)
        assert np.isnan(found[:45]).all()
        np.testing.assert_array_equal(head.fit_for(np.array([3, 1, 2]))(*given), scores)


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize(("dtype", "exponent"), [(np.float64, -300), (np.float32, 70)])
def test_units_do_not_matter(gaussian, dtype, exponent):
    """A variance below 1e-30 is a variance; squares of large float32 rows do not overflow."""
    rng = np.random.default_rng(3)
    F = rng.normal(size=(30, 4)).astype(dtype)
    Y = signs(rng.integers(0, 2, 30), 2)
    rows, weights = np.arange(30), np.ones(30)
    scaled = np.ldexp(F, exponent)
    ridge = 0.5 if gaussian else float(np.ldexp(0.5, 2 * exponent))
    expected = RidgeOnRows(F, gaussian=gaussian).fit(rows, Y, weights, 0.5)[1]
    got = RidgeOnRows(scaled, gaussian=gaussian).fit(rows, Y, weights, ridge)[1]
    np.testing.assert_allclose(got, expected, atol=1e-4 if dtype is np.float32 else 1e-8)


def test_features_too_large_to_square_are_refused():
    with pytest.raises(ValueError, match=r"features reach 1\.0e\+200: .* Divide X"):
        RidgeOnRows(np.diag([1e200, -1e200]), gaussian=True)


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
def test_a_ridge_that_is_lost_in_the_rows_is_refused(shape):
    """Columns that repeat: what holds them apart is rounding."""
    F = np.repeat(np.random.default_rng(0).normal(size=(shape[0], 2)), shape[1] // 2, axis=1)
    F *= 1e130
    rows, weights = np.arange(shape[0]), np.ones(shape[0])
    Y = signs(rows % 2, 2)
    with pytest.raises(ValueError, match="ridge_class is too small"):
        RidgeOnRows(F, gaussian=False).fit(rows, Y, weights, 1.0)


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
def test_long_rows_that_are_all_the_same_tell_nothing(shape):
    F = np.ones(shape) * 1e150
    rows, weights = np.arange(shape[0]), np.ones(shape[0])
    solution, scores = RidgeOnRows(F, gaussian=False).fit(rows, signs(rows % 2, 2), weights, 1.0)
    np.testing.assert_array_equal(solution.coef, 0)
    np.testing.assert_allclose(scores, 0, atol=1e-12)


def test_a_kernel_from_known_products_is_the_same():
    F = np.random.default_rng(1).normal(size=(30, 4))
    rows, Y = np.arange(20), np.sign(np.random.default_rng(2).normal(size=(20, 2)))
    fits = [
        RidgeOnRows(F, gaussian=True, inner=inner).fit(rows, Y, np.ones(20), 0.3)[1]
        for inner in (None, F @ F.T)
    ]
    np.testing.assert_allclose(*fits, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e7, 1e30])
@pytest.mark.parametrize("n_other", [2, 30], ids=["fewer rows than features", "more"])
@pytest.mark.parametrize("centred", [False, True])
def test_a_ridge_of_long_rows_keeps_its_digits(scale, n_other, centred):
    """Found by torture: three labelled rows about their mean, in large units, were off by 4 %."""
    rng = np.random.default_rng(0)
    F = rng.normal(size=(3 + n_other, 7))
    if centred:
        F[:3] -= F[:3].mean(0)
    rows, weights, ridge = np.arange(3), np.array([1.5, 0.75, 0.75]), 0.5
    Y = np.where(np.array([0, 1, 1])[:, None] == np.arange(2), 1.0, -1.0)
    small = RidgeOnRows(F, gaussian=False)
    large = RidgeOnRows(scale * F, gaussian=False)
    _, expected = small.fit(rows, Y, weights, ridge)
    _, scores = large.fit(rows, Y, weights, ridge * scale**2)  # the same problem in other units
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)
    share = weights / weights.sum()
    C = F[:3] - share @ F[:3]
    solution, scores = large.fit(rows, Y, weights, ridge)
    # Through an n×n system about the mean, in which a ridge of next to nothing is exact
    K = C @ C.T + np.diag(ridge / scale**2 / weights)
    dual = np.linalg.pinv(K, rcond=1e-10, hermitian=True) @ (Y - share @ Y)
    expected = (F - share @ F[:3]) @ (C.T @ dual) + share @ Y
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 if scale < 1e4 else 1e-9)
    np.testing.assert_allclose(scale * F @ solution.coef + solution.intercept, scores)


def test_leaving_out_long_rows():
    rng = np.random.default_rng(1)
    F, codes = 1e5 * rng.normal(size=(12, 4)), np.arange(12) % 2
    Y = np.where(codes[:, None] == np.arange(2), 1.0, -1.0)
    weights, rows = rng.uniform(0.5, 2, 12), np.arange(12)
    ridge = RidgeOnRows(F, gaussian=False)
    left_out = ridge.leave_one_out(rows, Y, weights, 1.0)
    for i in range(12):
        others = np.delete(rows, i)
        _, scores = ridge.fit(others, Y[others], weights[others], 1.0)
        np.testing.assert_allclose(left_out[i], scores[i], rtol=1e-7, atol=1e-9)
