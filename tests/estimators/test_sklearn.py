"""The scikit-learn contract: checks, clone, search, pipelines, pandas, labels."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimators.helpers import fitted
from marda import DSCM, MDA, MDAClassifier
from problems import make_case

ESTIMATORS = [
    MDA(),
    MDAClassifier(),
    DSCM(),
    MDA("J12"),
    MDA("S1M", noise=0.0, fit_intercept=False, n_layers=2),
    MDAClassifier(solver="dual"),
    MDAClassifier("J12", solver="dual"),
    MDAClassifier(classifier="kernel", center=True, normalize=True, refine=2),
]


@parametrize_with_checks(ESTIMATORS)
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cls", [MDA, MDAClassifier, DSCM])
def test_clone_keeps_every_parameter(cls):
    odd = {
        name: object() if name != "unlabeled" else "?" for name in inspect.signature(cls).parameters
    }
    twin = cls(**odd)
    assert twin.get_params(deep=False) == odd
    plain = cls()
    assert clone(plain).get_params() == plain.get_params()


def test_fit_does_not_alter_parameters(case):
    noise = np.linspace(0.1, 0.5, 6)
    weight = {0: 2.0}
    model = MDAClassifier("J12", noise=noise, class_weight=weight, tol=1.0)
    before = model.get_params()
    fitted(model, case)
    assert all(model.get_params()[k] is v for k, v in before.items())
    np.testing.assert_array_equal(noise, np.linspace(0.1, 0.5, 6))
    assert weight == {0: 2.0}


def test_array_noise_survives_clone(case):
    model = MDAClassifier("S1", noise=np.linspace(0.1, 0.5, 6))
    a, b = fitted(model, case), fitted(clone(model), case)
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_grid_search_routes_sample_domain():
    """Noise and method are searched; every split sees the domains of its own rows."""
    case = make_case("SUP", seed=3)
    y = case.codes
    folds = StratifiedKFold(3).split(case.X, 2 * y + (case.domain < 0))
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            MDAClassifier(),
            {"noise": [0.2, 0.6], "method": ["BL", "S1D", "S1M"]},
            cv=list(folds),
            error_score="raise",
        )
        search.fit(case.X, y, sample_domain=case.domain)
    assert len(search.cv_results_["params"]) == 6
    best = search.best_estimator_
    assert best.domains_.tolist() == [-1, 0]
    direct = fitted(clone(best), case)
    np.testing.assert_allclose(best.coef_, direct.coef_, rtol=1e-12)
    # Routing matters: without domains the domain terms vanish, and scores differ.
    with sklearn.config_context(enable_metadata_routing=True):
        blind = GridSearchCV(
            MDAClassifier(), {"method": ["S1M"]}, cv=StratifiedKFold(3), error_score="raise"
        ).fit(case.X, y)
    assert blind.best_estimator_.domains_.tolist() == [1]


def test_cross_val_score_scores_only_labelled_rows():
    case = make_case("SS", seed=3)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            MDAClassifier("S1M"),
            case.X,
            case.codes,
            cv=StratifiedKFold(2),
            params={"sample_domain": case.domain},
            error_score="raise",
        )
    assert ((scores >= 0) & (scores <= 1)).all()


def test_pipelines(case):
    with sklearn.config_context(enable_metadata_routing=True):
        last = make_pipeline(StandardScaler(), MDAClassifier("S1D"))
        last.fit(case.X, case.codes, sample_domain=case.domain)
        first = make_pipeline(MDA("S1D"), LogisticRegression())
        first.fit(case.X[case.labelled], case.codes[case.labelled])
        routed = make_pipeline(MDA("S1D"), DSCM())
        routed.fit(case.X, case.codes, sample_domain=case.domain)
    scaled = StandardScaler().fit_transform(case.X)
    alone = fitted(MDAClassifier("S1D"), case, scaled)
    np.testing.assert_allclose(last.decision_function(case.X), alone.decision_function(scaled))
    assert first.predict(case.X).shape == (64,)
    denoised = fitted(MDA("S1D"), case).transform(case.X)
    by_hand = fitted(DSCM(), case, denoised)
    np.testing.assert_allclose(routed.predict_proba(case.X), by_hand.predict_proba(denoised))


@pytest.mark.parametrize("estimator", [MDA("S1M"), MDAClassifier("S1M")])
def test_set_output_pandas(estimator, case):
    table = pd.DataFrame(case.X, columns=list("abcdef"), index=np.arange(64) + 100)
    model = fitted(clone(estimator).set_output(transform="pandas"), case, table)
    out = model.transform(table)
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == list("abcdef")
    assert list(out.index) == list(table.index)
    assert model.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_allclose(out.to_numpy(), fitted(clone(estimator), case).transform(case.X))


def test_string_labels(case):
    names = np.array(["cat", "ant", "bee"])
    y = np.where(case.codes >= 0, names[case.codes], None)
    model = MDAClassifier("S1D").fit(case.X, y, sample_domain=case.domain)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    plain = fitted(MDAClassifier("S1D"), case)
    np.testing.assert_array_equal(model.predict(case.X), names[plain.predict(case.X)])
    order = [1, 2, 0]
    np.testing.assert_allclose(model.coef_, plain.coef_[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mark", [0, np.nan, None])
def test_labels_minus_one_and_plus_one_with_another_mark(mark):
    case = make_case("US", n_classes=2, seed=4)
    signs = np.where(case.codes == 0, -1, 1)
    y = (
        np.where(case.codes < 0, mark, signs)
        if mark is not None
        else np.array(
            [None if c < 0 else s for c, s in zip(case.codes, signs, strict=True)], dtype=object
        )
    )
    model = MDAClassifier("J12D", unlabeled=-1 if mark != 0 else 0)
    model.fit(case.X, y, sample_domain=case.domain)
    assert model.setting_ == "US"
    assert model.classes_.tolist() == [-1, 1]
    plain = fitted(MDAClassifier("J12D"), case)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-10)
    assert set(model.predict(case.X).tolist()) <= {-1, 1}


def test_binary_shapes_follow_scikit_learn():
    case = make_case("SS", n_classes=2, seed=4)
    model = fitted(MDAClassifier("S1D"), case)
    assert model.Z_.shape == (6, 2)
    assert model.coef_.shape == (1, 6)
    assert model.intercept_.shape == (1,)
    decision = model.decision_function(case.X)
    np.testing.assert_allclose(decision, case.X @ model.coef_[0] + model.intercept_[0], atol=1e-10)
    np.testing.assert_array_equal(model.predict(case.X), (decision > 0).astype(int))


def test_multiclass_attributes_are_consistent(case):
    """Scores are X coefᵀ + intercept = (X W + offset) Z + z₀, and coef_ is (W Z)ᵀ."""
    for method in ("MCF", "S1M", "J12CD"):
        for intercept in (True, False):
            model = fitted(MDAClassifier(method, fit_intercept=intercept, tol=1e-3), case)
            decision = model.decision_function(case.X)
            linear = case.X @ model.coef_.T + model.intercept_
            np.testing.assert_allclose(decision, linear, atol=1e-9)
            np.testing.assert_allclose(model.coef_, (model.W_ @ model.Z_).T, atol=1e-9)
            denoised = model.transform(case.X)
            np.testing.assert_allclose(denoised, case.X @ model.W_ + model.offset_, atol=1e-9)
            shift = decision - denoised @ model.Z_
            np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-9)
            assert intercept or np.abs(model.intercept_).max() < 1e-12
            assert intercept or np.abs(model.offset_).max() < 1e-12


def test_fitted_attributes(case):
    for setting in ("US", "SUP", "SS"):
        other = make_case(setting, sources=2, seed=5)
        model = fitted(MDAClassifier("S1D"), other)
        assert model.setting_ == setting
        assert model.domains_.tolist() == [-1, 0, 1]
        assert model.n_iter_ == 1
        assert len(model.loss_curve_) == 1
        assert model.solver_ in ("primal", "dual")
    joint = fitted(MDAClassifier("J12", tol=1e-4), case)
    assert joint.n_iter_ == len(joint.loss_curve_) - 1
    assert joint.n_iter_ > 1


def test_convergence_warning(case):
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="stopped at max_iter=1 before"):
        MDAClassifier("J12", max_iter=1, tol=0.0).fit(case.X, case.codes, sample_domain=case.domain)


def test_verbose_says_route_and_alternations(case, capsys):
    fitted(MDAClassifier("J12", verbose=1, tol=1e-3), case)
    told = capsys.readouterr().out
    assert "solver 'primal'" in told
    assert "alternation(s), loss" in told
    fitted(MDAClassifier("J12", tol=1e-3), case)
    assert capsys.readouterr().out == ""
