"""`fit_model`: a function of rows and settings; what models of the same rows share."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from estimators.helpers import fitted
from marda import MDA, MDAClassifier
from marda._validation import encode_labels
from marda.estimators.classifier import fit_rows, fit_scored_rows, training_rows
from marda.estimators.fitting import Shared, fit_model
from marda.estimators.model import TrainingRows, settings_of
from marda.noise import Dropout, Gaussian
from problems import make_case

CASE = make_case("US", seed=3)
ROWS = TrainingRows(CASE.X, encode_labels(CASE.codes, CASE.domain, -1), CASE.domain, ordered=False)


def settings(model):
    return settings_of(model.get_params(deep=False))


@pytest.mark.parametrize("method", ["BL", "S1D", "J12M"])
def test_the_function_is_the_estimator(method):
    model = fitted(MDAClassifier(method, tol=1e-3), CASE)
    found = fit_model(ROWS, settings(model))
    np.testing.assert_array_equal(found.scores(CASE.X), model.model_.scores(CASE.X))
    np.testing.assert_array_equal(found.features(CASE.X), model.transform(CASE.X))
    assert (found.setting, found.n_iter, found.solver) == ("US", model.n_iter_, model.solver_)


def test_without_a_classifier_there_are_features_only():
    found = fit_model(ROWS, settings(MDA("S1M")))
    assert found.classes is None
    assert found.features(CASE.X).shape == CASE.X.shape
    with pytest.raises(ValueError, match="has no classifier"):
        found.scores(CASE.X)


def test_a_model_does_not_change():
    model = fitted(MDAClassifier("S1", normalize=True), CASE)
    before = model.predict_proba(CASE.X)
    with pytest.raises(FrozenInstanceError):
        model.model_.normalize = False
    model.set_params(normalize=False, center=True, activation="relu")
    np.testing.assert_array_equal(model.predict_proba(CASE.X), before)


def test_models_of_the_same_rows_share_factorisations():
    shared, options = Shared(), {"tol": 1e-3}
    for method in ("S1", "S1D", "J12", "MCF"):
        ours, alone = MDAClassifier(method, **options), MDAClassifier(method, **options)
        fit_rows(ours, training_rows(ours, CASE.X, CASE.codes, sample_domain=CASE.domain), shared)
        np.testing.assert_array_equal(ours.coef_, fitted(alone, CASE).coef_)
    assert len(shared.problems) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"noise": 0.4},
        {"noise": np.full(6, 0.5)},
        {"noise": Dropout(0.5, unbiased=True)},
        {"noise": Gaussian(0.5)},
        {"ridge": 0.1},
        {"ridge_class": 2.0},
        {"class_weight": "balanced"},
        {"n_pivots": 3},
        {"solver": "dual"},
        {"scaling": "relative"},
        {"fit_intercept": False},
    ],
    ids=str,
)
def test_what_differs_is_not_shared(other):
    """Each by itself, whatever came first."""
    shared = Shared()
    for options in ({}, other, {}, other):
        model = MDAClassifier("S1D", **options)
        found = fit_model(ROWS, settings(model), shared)
        np.testing.assert_array_equal(found.coef, fit_model(ROWS, settings(model)).coef)
    assert len(shared.problems) == 2


def test_noise_of_the_user_is_shared_by_identity():
    class Own(Dropout):
        """Not one of ours to take apart."""

    noise, shared = Own(0.5), Shared()
    for one in (noise, noise, Dropout(0.5)):
        fit_model(ROWS, settings(MDAClassifier("S1", noise=one)), shared)
    assert len(shared.problems) == 2


def test_denoised_rows_are_those_of_the_same_map():
    """Models that centre or refine share W; another noise or method does not."""
    shared = Shared(denoised={})
    ordered = replace(ROWS, ordered=True)
    for options in (
        {"center": True},
        {"refine": 2},
        {"noise": 0.2},
        {"method": "S1M"},
        {"method": "S1C", "refine": 2},
    ):
        model = MDAClassifier(**{"method": "S1", "classifier": "kernel", **options})
        scores = fit_scored_rows(model, ordered, shared)[1]
        alone = fit_scored_rows(MDAClassifier(**model.get_params()), ordered)[1]
        np.testing.assert_allclose(scores, alone, rtol=1e-11, atol=1e-13)
    # S1C begins without its class term, as S1 under another name
    assert len(shared.denoised) == 4


@pytest.mark.parametrize("classifier", ["ridge", "kernel", "nn", "dscm"])
@pytest.mark.parametrize("refine", [0, 2])
def test_scores_of_the_target_rows(classifier, refine):
    model = MDAClassifier("S1", classifier=classifier, refine=refine, center=True)
    ordered = replace(ROWS, ordered=True)
    model, scores = fit_scored_rows(model, ordered)
    target = CASE.X[CASE.domain < 0]
    np.testing.assert_allclose(scores, model.model_.scores(target), rtol=1e-6, atol=1e-9)


def test_a_fit_that_fails_leaves_no_model_of_other_rows():
    model = fitted(MDAClassifier("S1"), CASE)
    model.set_params(ridge=-1.0)
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        fitted(model, CASE, CASE.X[:, :4])
    with pytest.raises(NotFittedError):
        model.predict(CASE.X[:, :4])
