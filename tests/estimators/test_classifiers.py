"""The classifiers on denoised rows, probabilities, scores, and fits from moments alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from estimators.helpers import classifier, fitted, scores
from marda import DSCM, MDA, MDAClassifier, Moments
from problems import make_case, relative


def test_nearest_labelled_row(case):
    model = fitted(MDAClassifier("S1D", classifier="nn"), case)
    H = fitted(MDA("S1D"), case).transform(case.X)
    np.testing.assert_allclose(model.transform(case.X), H, rtol=1e-12)
    nearest = cdist(H, H[case.labelled]).argmin(1)
    np.testing.assert_array_equal(model.predict(case.X), case.codes[case.labelled][nearest])
    assert not hasattr(model, "decision_function")
    np.testing.assert_allclose(model.predict_proba(case.X).sum(1), 1)


@pytest.mark.parametrize("refine", [0, 2])
def test_nearest_labelled_row_far_from_zero(refine):
    """Squares of such rows have no digits left for what is between them: they are never taken."""
    case = make_case(n_source=60, n_target=40, d=20)  # as many columns as scikit-learn multiplies
    near = case.X.astype(np.float32).astype(np.float64)
    far = near + 2.0**27  # exact
    options = {"classifier": "nn", "refine": refine}
    model = fitted(MDAClassifier("BL", **options), case, far)
    expected = fitted(MDAClassifier("BL", **options), case, near)
    np.testing.assert_array_equal(model.predict(far), expected.predict(near))
    np.testing.assert_array_equal(
        model.predict_proba(far).argmax(1), np.searchsorted(model.classes_, model.predict(far))
    )


def test_dscm_on_denoised_rows(case):
    model = fitted(MDAClassifier("S1D", classifier="dscm"), case)
    H = fitted(MDA("S1D"), case).transform(case.X)
    alone = fitted(DSCM(), case, H)
    np.testing.assert_allclose(model.predict_proba(case.X), alone.predict_proba(H), rtol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(case.X), alone.decision_function(H), rtol=1e-9
    )
    np.testing.assert_array_equal(model.predict(case.X), alone.predict(H))


@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(),
        LinearSVC(),
        KNeighborsClassifier(3),
        DecisionTreeClassifier(random_state=0),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.parametrize("method", ["S1M", "J12D"])
def test_any_classifier(inner, method, case):
    model = fitted(classifier(method, classifier=inner), case)
    H = model.transform(case.X)
    inner_alone = type(inner)(**inner.get_params()).fit(H[case.labelled], case.codes[case.labelled])
    np.testing.assert_array_equal(model.predict(case.X), inner_alone.predict(H))
    for name in ("predict_proba", "decision_function"):
        assert hasattr(model, name) == hasattr(inner, name)
    if hasattr(inner, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(case.X), inner_alone.predict_proba(H))
    assert not hasattr(inner, "classes_")  # the given one is cloned, not fitted
    with pytest.raises(AttributeError, match="coef_"):
        _ = model.coef_


def test_random_state_is_passed_on(case):
    def trees(**options):
        model = MDAClassifier(
            "S1", classifier=RandomForestClassifier(3, **options.pop("inner", {})), **options
        )
        return fitted(model, case)

    a, b, c = trees(random_state=1), trees(random_state=1), trees(random_state=2)
    np.testing.assert_array_equal(a.predict_proba(case.X), b.predict_proba(case.X))
    assert not np.array_equal(a.predict_proba(case.X), c.predict_proba(case.X))
    own = trees(random_state=1, inner={"random_state": 5})
    assert own.classifier_.random_state == 5
    assert isinstance(a.classifier_.random_state, int | np.integer)


@pytest.mark.parametrize(
    "inner",
    [RandomForestClassifier(3), make_pipeline(StandardScaler(), RandomForestClassifier(3))],
    ids=["alone", "in a pipeline"],
)
def test_without_a_random_state_fits_agree_and_draw_as_0_does(inner, case):
    P = [
        fitted(MDAClassifier("S1", classifier=inner, **options), case).predict_proba(case.X)
        for options in ({}, {}, {"random_state": 0})
    ]
    np.testing.assert_array_equal(P[0], P[1])
    np.testing.assert_array_equal(P[0], P[2])


def test_class_weight_reaches_other_classifiers(case):
    weights = {0: 10.0, 1: 0.1}
    model = fitted(MDAClassifier("S1", classifier=LogisticRegression(), class_weight=weights), case)
    H, y = model.transform(case.X[case.labelled]), case.codes[case.labelled]
    rows = np.array([10.0, 0.1, 1.0])[y]
    reference = LogisticRegression().fit(H, y, sample_weight=rows)
    np.testing.assert_allclose(model.classifier_.coef_, reference.coef_, rtol=1e-6)


@pytest.mark.parametrize("method", ["BL", "MCF", "S1D", "J12"])
@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_class_weights_are_repeated_rows(method, solver):
    """Weight 2 for a class is each of its labelled rows twice in L2, and once in L1."""
    case = make_case("US", n_classes=2, seed=1)
    balanced = fitted(classifier(method, class_weight="balanced", solver=solver), case)
    known = case.codes[case.labelled]
    sizes = np.bincount(known)
    rule = {c: len(known) / (2 * sizes[c]) for c in range(2)}
    by_dict = fitted(classifier(method, class_weight=rule, solver=solver), case)
    assert relative(by_dict.coef_, balanced.coef_) < 1e-10
    if method in ("BL", "MCF"):
        double = fitted(classifier(method, class_weight={1: 2.0}, solver=solver), case)
        order = np.r_[np.arange(64), np.flatnonzero(case.codes == 1)]
        again = fitted(classifier(method, solver=solver), case.take(order))
        assert relative(double.coef_, again.coef_) < 1e-9
        assert relative(double.intercept_, again.intercept_) < 1e-9


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["ridge", "nn", "dscm", LogisticRegression()])
def test_probabilities(kind, n_classes):
    case = make_case("SS", n_classes=n_classes, seed=2)
    model = fitted(MDAClassifier("S1M", classifier=kind), case)
    P = model.predict_proba(case.X)
    assert P.shape == (64, n_classes)
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-12)
    assert P.min() >= 0
    np.testing.assert_array_equal(model.classes_[P.argmax(1)], model.predict(case.X))
    if kind == "ridge" and n_classes > 2:
        np.testing.assert_allclose(P, softmax(scores(model, case.X), axis=1))


def test_score_ignores_marked_rows(case):
    case = case.take(np.random.default_rng(1).permutation(64))
    model = fitted(MDAClassifier("S1D"), case)
    known = case.labelled
    right = model.predict(case.X) == case.codes
    assert model.score(case.X, case.codes) == right[known].mean()
    assert 0 < right[known].mean() < 1
    weights = np.random.default_rng(0).random(64)
    weighted = model.score(case.X, case.codes, sample_weight=weights)
    assert weighted == pytest.approx(np.average(right[known], weights=weights[known]))
    floats = np.where(known, case.codes, np.nan)
    assert model.score(case.X, floats) == right[known].mean()
    assert model.score(pd.DataFrame(case.X), case.codes) == right[known].mean()
    assert model.score(case.X, case.codes.tolist()) == right[known].mean()
    assert model.score(case.X, case.codes[:, None]) == right[known].mean()


def test_score_with_string_labels(case):
    names = np.array(["cat", "ant", "bee"])
    y = np.where(case.labelled, names[case.codes], None)
    model = MDAClassifier("S1D").fit(case.X, y, sample_domain=case.domain)
    plain = fitted(MDAClassifier("S1D"), case)
    assert model.score(case.X, y) == plain.score(case.X, case.codes)


def test_score_keeps_a_mark_that_is_a_class():
    case = make_case("US", n_classes=2, seed=3)
    signs = np.where(case.codes < 0, np.nan, 2.0 * case.codes - 1)
    model = MDAClassifier("S1").fit(case.X, signs, sample_domain=case.domain)
    truth = np.where(np.arange(64) % 2, 1, -1)
    assert model.score(case.X, truth) == (model.predict(case.X) == truth).mean()


# From moments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ridge", "dscm"])
@pytest.mark.parametrize("method", ["BL", "MCF", "S1D", "S1MC", "J12", "J12CD"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_fit_moments_is_fit(method, kind, fit_intercept):
    case = make_case("SS", sources=2, seed=4)
    model = classifier(
        method, classifier=kind, fit_intercept=fit_intercept, max_iter=50, tol=1e-3, solver="primal"
    )
    rows = fitted(model, case)
    parts = [
        Moments.from_arrays(case.X[i::2], case.codes[i::2], case.domain[i::2]) for i in range(2)
    ]
    ours = classifier(
        method, classifier=kind, fit_intercept=fit_intercept, max_iter=50, tol=1e-3
    ).fit_moments(parts[0] + parts[1])
    assert relative(ours.predict_proba(case.X), rows.predict_proba(case.X)) < 1e-9
    assert relative(scores(ours, case.X), scores(rows, case.X)) < 1e-9
    assert relative(ours.transform(case.X), rows.transform(case.X)) < 1e-9
    np.testing.assert_array_equal(ours.predict(case.X), rows.predict(case.X))
    for name in ("setting_", "solver_", "n_features_in_", "n_iter_"):
        assert getattr(ours, name) == getattr(rows, name)
    np.testing.assert_array_equal(ours.domains_, rows.domains_)
    np.testing.assert_array_equal(ours.classes_, rows.classes_)


def test_fit_moments_with_class_weights_and_names(case):
    table = pd.DataFrame(case.X, columns=list("abcdef"))
    rows = fitted(MDAClassifier("S1", class_weight="balanced"), case, table)
    with_grams = Moments.from_arrays(table, case.codes, case.domain, class_grams=True)
    ours = MDAClassifier("S1", class_weight="balanced").fit_moments(with_grams)
    assert relative(ours.coef_, rows.coef_) < 1e-9
    assert ours.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="class_grams=True"):
        MDAClassifier("S1", class_weight={0: 2.0}).fit_moments(
            Moments.from_arrays(case.X, case.codes, case.domain)
        )


def test_fit_moments_refuses_what_needs_rows(case):
    moments = Moments.from_arrays(case.X, case.codes, case.domain)
    for options, message in (
        ({"classifier": "nn"}, "classifier='nn' needs rows"),
        ({"classifier": LogisticRegression()}, "needs rows"),
        ({"n_layers": 2}, "n_layers above 1 needs rows"),
        ({"n_pivots": 3}, "n_pivots needs rows"),
        ({"solver": "dual"}, "solver='dual' needs rows"),
    ):
        with pytest.raises(ValueError, match=message):
            MDAClassifier("S1", **options).fit_moments(moments)
    with pytest.raises(ValueError, match="the moments have 0 classes; 2 are needed"):
        MDAClassifier("S1").fit_moments(Moments.from_arrays(case.X))
