"""Class priors from probabilities: the maximum of the likelihood, the truth, and refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from marda.shift import adjust_probabilities, estimate_class_prior
from marda.shift.class_prior import (
    calibrate,
    confusion_prior,
    em_prior,
    fit_logistics,
    fit_simplex,
    mixed_folds,
)
from shift.drawn import DISTANCE, classes


def bayes(x, prior, distance=DISTANCE):
    """Probabilities that know the classes of `drawn` to the digit."""
    density = np.column_stack([norm.pdf(x[:, 0]), norm.pdf(x[:, 0] - distance)]) * prior
    return density / density.sum(1, keepdims=True)


def test_adjusted_probabilities_are_those_of_bayes():
    X, _ = classes(50, 3, 0.5, np.random.default_rng(0))
    adjusted = adjust_probabilities(bayes(X, [0.7, 0.3]), [0.7, 0.3], [0.1, 0.9])
    np.testing.assert_allclose(adjusted, bayes(X, [0.1, 0.9]), atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_regression_is_that_of_scikit_learn(make, n_classes, weighted):
    """After any number of steps, and rows far off have probabilities all the same."""
    rng = np.random.default_rng(n_classes)
    X = np.where(rng.random((150, 12)) < 0.4, rng.normal(size=(150, 12)), 0)
    codes = np.clip(np.round(X[:, 0] + X[:, 1] + n_classes / 2), 0, n_classes - 1).astype(int)
    weights = rng.exponential(size=150) if weighted else np.ones(150)
    for penalty, tol, steps in ((0.01, 1e-3, 200), (10.0, 1e-2, 100), (100.0, 1e-8, 3)):
        (found,) = fit_logistics(
            make(X), codes, weights[None], penalty=penalty, tol=tol, max_iter=steps
        )
        peer = LogisticRegression(C=penalty, tol=tol, max_iter=steps)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            peer.fit(X, codes, sample_weight=weights)
        new = np.vstack([X, 1e6 * X])
        theirs = peer.predict_proba(new)
        np.testing.assert_allclose(found.probabilities(make(new)), theirs, atol=1e-8)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_logistic_regressions_of_folds_are_fitted_at_once(make, n_classes):
    rng = np.random.default_rng(n_classes)
    X, codes = rng.normal(size=(150, 12)), rng.integers(n_classes, size=150)
    weights = rng.exponential(size=150) * (np.arange(150) % 3 != np.arange(3)[:, None])
    settings = {"penalty": 1.0, "tol": 1e-9, "max_iter": 1000}
    for found, w in zip(fit_logistics(make(X), codes, weights, **settings), weights, strict=True):
        alone = np.flatnonzero(w)
        (peer,) = fit_logistics(make(X[alone]), codes[alone], w[None, alone], **settings)
        theirs = peer.probabilities(X)
        np.testing.assert_allclose(found.probabilities(make(X)), theirs, atol=1e-5)


def test_em_finds_the_maximum_of_the_likelihood():
    X, _ = classes(300, 2, 0.2, np.random.default_rng(1))
    ratio = bayes(X, [0.5, 0.5]) / 0.5
    best = minimize_scalar(
        lambda p: -np.log(ratio @ [1 - p, p]).sum(), bounds=(0, 1), method="bounded"
    )
    assert em_prior(bayes(X, [0.5, 0.5]), [0.5, 0.5])[1] == pytest.approx(best.x, abs=1e-3)


def test_estimates_and_their_errors_hold_the_truth():
    off, agreed = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        (X, y), (T, _) = classes(200, 2, 0.5, rng), classes(200, 2, 0.1, rng)
        # Too sure by far: the estimate calibrates.
        P, Q = (bayes(rows, [0.5, 0.5]) ** 3 for rows in (X, T))
        P, Q = (p / p.sum(1, keepdims=True) for p in (P, Q))
        prior = estimate_class_prior(P, y, [Q])
        off.append((prior.target[1] - 0.1) / prior.standard_error[1])
        agreed.append(prior.agree)
        assert prior.target.sum() == pytest.approx(1)
        assert abs(prior.by_confusion[1] - 0.1) < 0.15
    assert abs(np.mean(off)) < 0.6
    assert 0.6 < np.std(off) < 1.5
    assert np.mean(agreed) > 0.9


def test_estimates_disagree_where_classes_have_changed():
    rng = np.random.default_rng(0)
    X, y = classes(500, 2, 0.5, rng)
    # All a little on one side of the border: most likely all of one class, by the means a mix.
    T = np.column_stack([DISTANCE / 2 + 0.4 + 0.3 * rng.standard_normal(500), X[:, 1]])
    P, Q = (bayes(rows, [0.5, 0.5]) for rows in (X, T))
    assert not estimate_class_prior(P, y, [Q]).agree


def test_calibration_mends_a_sure_and_slanted_model():
    X, y = classes(2000, 2, 0.5, np.random.default_rng(3))
    logits = 3 * np.log(bayes(X, [0.5, 0.5])) + [0.0, 1.5]
    P = np.exp(logits - logits.max(1, keepdims=True))
    P /= P.sum(1, keepdims=True)
    mended = calibrate(P, y)(P)
    assert np.abs(mended - bayes(X, [0.5, 0.5])).mean() < 0.02


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_shares_of_a_mix(n_parts):
    rng = np.random.default_rng(n_parts)
    parts = rng.standard_normal((n_parts, 20))
    shares = rng.dirichlet(np.ones(n_parts))
    np.testing.assert_allclose(fit_simplex(parts, shares @ parts), shares, atol=1e-4)


def test_a_mix_beyond_the_simplex_is_cut():
    parts = np.eye(3)
    np.testing.assert_allclose(fit_simplex(parts, np.array([2.0, -1.0, 0.0])), [1, 0, 0], atol=1e-3)


def test_folds_take_turns():
    by_fold = [np.full((5, 2), k) for k in range(2)]
    assert mixed_folds(by_fold)[:, 0].tolist() == [0, 1, 0, 1, 0]


def test_confusion_needs_no_calibration():
    X, y = classes(4000, 2, 0.5, np.random.default_rng(5))
    T, _ = classes(4000, 2, 0.2, np.random.default_rng(6))
    sure = [np.eye(2)[bayes(rows, [0.5, 0.5]).argmax(1)] for rows in (X, T)]
    assert confusion_prior(sure[0], y, sure[1])[1] == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("prior", "message"),
    [([0.5, 0.6], "of sum 1"), ([1.0], "must hold 2 shares"), ([-0.5, 1.5], "at least 0")],
)
def test_what_is_no_prior_is_refused(prior, message):
    P = np.full((3, 2), 0.5)
    with pytest.raises(ValueError, match=message):
        adjust_probabilities(P, [0.5, 0.5], prior)


def test_a_class_unknown_to_the_source_is_refused():
    with pytest.raises(ValueError, match="knows nothing of that class"):
        adjust_probabilities(np.full((3, 2), 0.5), [1.0, 0.0], [0.5, 0.5])
    with pytest.raises(ValueError, match="at least once"):
        estimate_class_prior(np.full((3, 2), 0.5), [0, 0, 0], [np.full((3, 2), 0.5)])
