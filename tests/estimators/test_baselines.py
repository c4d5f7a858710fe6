"""BL, MCF and S1 at their limits, against what everyone knows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge, RidgeClassifier

from estimators.helpers import classifier, fitted
from marda import MDA, MDAClassifier
from marda.noise import Dropout
from marda.problem import Settings
from marda.terms import parse_method
from oracles import Written
from problems import make_case, relative


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
@pytest.mark.parametrize("sparse", [True, False])
def test_BL_is_the_ridge_classifier(n_classes, solver, sparse):
    case = make_case("US", n_classes=n_classes, seed=1)
    X = sp.csr_array(case.X) if sparse else case.X
    model = fitted(MDAClassifier("BL", fit_intercept=False, solver=solver), case, X)
    reference = RidgeClassifier(alpha=1, fit_intercept=False)
    reference.fit(case.X[case.labelled], case.codes[case.labelled])
    np.testing.assert_array_equal(model.predict(X), reference.predict(case.X))
    assert relative(model.coef_, np.atleast_2d(reference.coef_)) < 1e-8
    assert relative(model.decision_function(X), reference.decision_function(case.X)) < 1e-8


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_BL_with_an_intercept(alpha):
    case = make_case("SS", seed=2)
    model = fitted(MDAClassifier("BL", ridge_class=alpha), case)
    Y = np.where(case.codes[case.labelled, None] == np.arange(3), 1.0, -1.0)
    reference = Ridge(alpha=alpha).fit(case.X[case.labelled], Y)
    assert relative(model.coef_, reference.coef_) < 1e-9
    assert relative(model.intercept_, reference.intercept_) < 1e-9


def test_BL_ignores_noise_and_unlabelled_rows():
    case = make_case("US", seed=3)
    loud = fitted(MDAClassifier("BL", noise=0.9), case)
    quiet = MDAClassifier("BL", noise=0.0).fit(case.X[case.labelled], case.codes[case.labelled])
    assert relative(loud.coef_, quiet.coef_) < 1e-10
    np.testing.assert_array_equal(loud.transform(case.X), case.X)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_MCF_without_noise_is_BL(fit_intercept):
    case = make_case("SS", seed=4)
    options = {"fit_intercept": fit_intercept}
    mcf = fitted(MDAClassifier("MCF", noise=0.0, **options), case)
    bl = fitted(MDAClassifier("BL", **options), case)
    assert relative(mcf.coef_, bl.coef_) < 1e-12
    noisy = fitted(MDAClassifier("MCF", noise=0.5, **options), case)
    assert relative(noisy.coef_, bl.coef_) > 1e-2


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
def test_MCF_is_the_class_predictor_at_the_identity(fit_intercept, solver):
    case = make_case("SS", seed=5)
    settings = Settings(Dropout(0.3), fit_intercept=fit_intercept)
    oracle = Written(case, parse_method("MCF"), settings)
    Z, z0 = oracle.z_step(np.eye(6 + fit_intercept)[:, :6])
    model = fitted(
        MDAClassifier("MCF", noise=0.3, fit_intercept=fit_intercept, solver=solver), case
    )
    assert relative(model.coef_, Z.T) < 1e-8
    assert relative(model.intercept_, z0) < 1e-8
    assert (
        relative(model.loss_curve_[0], oracle.class_loss(np.eye(6 + fit_intercept)[:, :6], Z, z0))
        < 1e-9
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_S1_without_noise_tends_to_the_identity(fit_intercept, solver):
    case = make_case("US", seed=6)
    gaps = []
    for ridge in (1e-1, 1e-3, 1e-5):
        model = MDA("S1", noise=0.0, ridge=ridge, fit_intercept=fit_intercept, solver=solver)
        W = fitted(model, case).W_
        gaps.append(np.abs(W - np.eye(6)).max())
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]
    assert gaps[2] < 1e-4


def test_S1_without_noise_or_ridge_is_the_identity():
    case = make_case("US", seed=6)
    model = fitted(MDA("S1", noise=0.0, ridge=0.0), case)
    np.testing.assert_allclose(model.W_, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(model.offset_, 0, atol=1e-9)


def test_S1_by_its_formula():
    """W = (Q + ωI)⁻¹P with Q = q²S off the diagonal and qS on it, P = qS."""
    case = make_case("US", seed=7)
    S = case.X.T @ case.X
    Q = 0.6**2 * S
    Q[np.diag_indices(6)] = 0.6 * np.diag(S)
    W = np.linalg.solve(Q + 0.2 * np.eye(6), 0.6 * S)
    model = fitted(MDA("S1", noise=0.4, ridge=0.2, fit_intercept=False), case)
    assert relative(model.W_, W) < 1e-10
    assert relative(model.transform(case.X), case.X @ W) < 1e-10


def test_S1C_without_labelled_target_rows_says_what_to_do():
    case = make_case("US")
    for method in ("S1C", "J12C", "S1CD"):
        with pytest.raises(ValueError, match=r"class term C needs labelled target rows.*S1M, S1D"):
            fitted(classifier(method), case)


def test_domain_terms_change_the_answer_and_bring_means_together():
    """Balanced MMD shrinks the distance of denoised means; the paper's scale hardly does."""
    case = make_case("US", seed=8)

    def distance(model):
        H = fitted(model, case).transform(case.X)
        gap = H[case.domain < 0].mean(0) - H[case.domain >= 0].mean(0)
        return np.linalg.norm(gap) / np.linalg.norm(H.std(0))

    plain = distance(MDA("S1"))
    assert distance(MDA("S1M")) < 0.9 * plain
    assert distance(MDA("S1M", domain_loss_weight=100.0)) < 0.2 * plain
    assert 0.9 * plain < distance(MDA("S1M", scaling="paper")) < plain
