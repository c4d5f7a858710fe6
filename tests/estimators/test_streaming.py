"""`partial_fit` equals `fit` on all rows, whatever the batches; what needs rows says so."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from estimators.helpers import fitted
from marda import MDA, MDAClassifier, Moments
from marda.noise import Poisson
from problems import DEFINED, make_case, relative

EVERY = [*DEFINED, ("BL", "SS"), ("MCF", "US"), ("S1MD", "US"), ("J12CD", "SS")]
JOINT = {"max_iter": 3, "tol": 0.0}


def streamed(model, case, cuts, *, sparse=False):
    """Fed in pieces, every second one sparse if asked."""
    for i, (a, b) in enumerate(itertools.pairwise([0, *sorted(cuts), len(case.X)])):
        X = sp.csr_array(case.X[a:b]) if sparse and i % 2 else case.X[a:b]
        model.partial_fit(X, case.codes[a:b], sample_domain=case.domain[a:b])
    return model


@pytest.mark.filterwarnings("ignore:the alternation")
@given(
    which=st.sampled_from(EVERY),
    classifier=st.sampled_from(["ridge", "dscm"]),
    sources=st.integers(1, 3),
    cuts=st.sets(st.integers(1, 63), max_size=10),
    sparse=st.booleans(),
    weight=st.sampled_from([None, "balanced"]),
    seed=st.integers(0, 20),
)
def test_partial_fit_is_fit(which, classifier, sources, cuts, sparse, weight, seed):
    method, setting = which
    case = make_case(setting, sources=sources, seed=seed)
    case = case.take(np.random.default_rng(seed).permutation(len(case.X)))
    model = MDAClassifier(method, classifier=classifier, class_weight=weight, **JOINT)
    ours, direct = streamed(clone(model), case, cuts, sparse=sparse), fitted(clone(model), case)
    assert relative(ours.decision_function(case.X), direct.decision_function(case.X)) < 1e-9
    assert relative(ours.transform(case.X), direct.transform(case.X)) < 1e-9
    if classifier == "ridge":
        assert relative(ours.coef_, direct.coef_) < 1e-9
        assert relative(ours.intercept_, direct.intercept_) < 1e-9
    for name in ("setting_", "n_iter_", "n_features_in_"):
        assert getattr(ours, name) == getattr(direct, name)
    for name in ("classes_", "domains_"):
        assert getattr(ours, name).tolist() == getattr(direct, name).tolist()


@pytest.mark.filterwarnings("ignore:the alternation")
@pytest.mark.parametrize(("method", "setting"), EVERY)
def test_partial_fit_is_fit_for_every_model(method, setting):
    case = make_case(setting, sources=2, seed=3)
    model = MDAClassifier(method, **JOINT)
    ours, direct = streamed(clone(model), case, [5, 40], sparse=True), fitted(clone(model), case)
    assert relative(ours.coef_, direct.coef_) < 1e-9
    if method in ("BL", "MCF"):
        return
    features = MDA(method, **JOINT)
    ours, direct = streamed(clone(features), case, [9, 50]), fitted(clone(features), case)
    assert relative(ours.W_, direct.W_) < 1e-9
    assert relative(ours.offset_, direct.offset_) < 1e-9
    assert ours.get_feature_names_out().tolist() == direct.get_feature_names_out().tolist()


@pytest.mark.parametrize("first", ["predict", "transform", "predict_proba", "decision_function"])
def test_the_model_is_solved_when_first_asked_for(case, monkeypatch, first):
    solved = []
    original = MDAClassifier.fit_moments

    def spy(self, moments):
        solved.append(moments.n_rows)
        return original(self, moments)

    monkeypatch.setattr(MDAClassifier, "fit_moments", spy)
    model = streamed(MDAClassifier("S1D"), case, [20, 40])
    check_is_fitted(model)
    assert solved == []
    getattr(model, first)(case.X)
    assert (model.coef_.shape, model.solver_) == ((3, 6), "primal")
    assert solved == [64]
    # More rows: solved again, and only then.
    model.partial_fit(case.X, case.codes, sample_domain=case.domain)
    assert solved == [64]
    twice = np.r_[case.X, case.X]
    direct = MDAClassifier("S1D").fit(
        twice, np.tile(case.codes, 2), sample_domain=np.tile(case.domain, 2)
    )
    assert relative(model.coef_, direct.coef_) < 1e-9
    assert solved == [64, 128]


@pytest.mark.parametrize(
    "name", ["coef_", "intercept_", "Z_", "W_", "offset_", "classes_", "loss_curve_", "domains_"]
)
def test_every_fitted_attribute_solves(case, name):
    model = streamed(MDAClassifier("S1D"), case, [20])
    direct = fitted(MDAClassifier("S1D"), case)
    np.testing.assert_allclose(getattr(model, name), getattr(direct, name), rtol=1e-8, atol=1e-11)


def test_each_domain_on_its_own():
    """Source rows first, then target rows without labels."""
    case = make_case("US", seed=2)
    source = case.domain >= 0
    model = MDAClassifier("S1M")
    model.partial_fit(case.X[~source], sample_domain=case.domain[~source])
    with pytest.raises(ValueError, match="sample_domain has no source rows"):
        model.predict(case.X)
    model.partial_fit(case.X[source], case.codes[source], sample_domain=case.domain[source])
    assert relative(model.coef_, fitted(MDAClassifier("S1M"), case).coef_) < 1e-9
    with pytest.raises(ValueError, match="requires y to be passed for source rows"):
        model.partial_fit(case.X[source])


def test_errors_of_a_solution_come_again(case):
    model = MDAClassifier("S1").partial_fit(case.X[:2], [0, 0])
    for _ in range(2):
        with pytest.raises(ValueError, match="1 classes; 2 are needed"):
            model.predict(case.X)
    model.partial_fit(case.X[:4], [0, 0, 1, 1])
    assert model.predict(case.X).shape == (64,)
    joint = MDA("J12").partial_fit(case.X[:2], [0, 0])
    with pytest.raises(ValueError, match="needs labels of at least 2 classes, and the moments"):
        joint.transform(case.X)


def test_a_bad_batch_changes_nothing(case):
    model = streamed(MDAClassifier("S1D", unlabeled=-1), case, [20])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="X has 5 features, but MDAClassifier is expecting 6"):
        model.partial_fit(case.X[:, :5], case.codes, sample_domain=case.domain)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(case.X * np.nan, case.codes, sample_domain=case.domain)
    with pytest.raises(ValueError, match="labels differ in kind"):
        model.partial_fit(case.X[:2], ["a", "b"])
    np.testing.assert_array_equal(model.coef_, before)
    again = streamed(MDAClassifier("S1D"), case, [20])
    model.partial_fit(case.X, case.codes, sample_domain=case.domain)
    again.partial_fit(case.X, case.codes, sample_domain=case.domain)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_classes(case):
    known = case.labelled
    X, y = case.X[known], case.codes[known]
    model = MDAClassifier("S1").partial_fit(X, y, classes=[0, 1, 2, 3])
    model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[3, 2, 1, 0])
    assert model.classes_.tolist() == [0, 1, 2]  # as `fit` on these rows
    with pytest.raises(ValueError, match="label 5, which is not in classes"):
        model.partial_fit(X[:1], [5])
    with pytest.raises(ValueError, match=r"classes=\[0, 1\] differs from the first call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="in the first call of partial_fit, or never"):
        MDAClassifier("S1").partial_fit(X, y).partial_fit(X, y, classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"classifier": "nn"}, "classifier='nn' needs rows, which are not kept"),
        ({"classifier": LogisticRegression()}, "needs rows, which are not kept"),
        ({"n_layers": 2}, "n_layers above 1 needs rows"),
        ({"n_pivots": 3}, "n_pivots needs rows"),
        ({"solver": "dual"}, "solver='dual' needs rows"),
    ],
)
def test_models_that_need_rows_say_so(case, options, reason):
    model = MDAClassifier("S1", **options)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=reason):
        model.partial_fit(case.X, case.codes, sample_domain=case.domain)


def test_negative_rows_under_poisson_noise(case):
    with pytest.raises(ValueError, match="Poisson noise needs non-negative features"):
        MDAClassifier("S1", noise=Poisson()).partial_fit(
            case.X, case.codes, sample_domain=case.domain
        )


def test_fit_and_partial_fit_do_not_mix(case):
    """Neither counts the rows of the other."""
    direct = fitted(MDAClassifier("S1D"), case)
    model = MDAClassifier("S1D").partial_fit(case.X[:9] * 7, case.codes[:9])
    np.testing.assert_array_equal(fitted(model, case).coef_, direct.coef_)
    streamed(model, case, [30])
    assert relative(model.coef_, direct.coef_) < 1e-9
    model.fit_moments(Moments.from_arrays(case.X, case.codes, case.domain))
    streamed(model, case, [30])
    assert relative(model.coef_, direct.coef_) < 1e-9


def test_copies_go_on_by_themselves(case):
    model = MDAClassifier("S1D").partial_fit(
        case.X[:40], case.codes[:40], sample_domain=case.domain[:40]
    )
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    direct = fitted(MDAClassifier("S1D"), case)
    for twin in (*twins, model):
        twin.partial_fit(case.X[40:], case.codes[40:], sample_domain=case.domain[40:])
        assert relative(twin.coef_, direct.coef_) < 1e-9
    fresh = clone(model)
    with pytest.raises(NotFittedError):
        fresh.predict(case.X)
    assert not hasattr(fresh, "coef_")
    assert not hasattr(fresh, "classes_")


def test_tables_keep_their_names(case):
    table = pd.DataFrame(case.X, columns=list("abcdef"))
    model = MDA("S1M").set_output(transform="pandas")
    for rows in (slice(0, 40), slice(40, None)):
        model.partial_fit(table[rows], sample_domain=case.domain[rows])
    assert list(model.transform(table).columns) == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(table[list("bacdef")], sample_domain=case.domain)


def test_sample_domain_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        request = MDAClassifier().get_metadata_routing()
    assert request.partial_fit.requests["sample_domain"] is True


def test_mda_fit_moments(case):
    moments = Moments.from_arrays(case.X, case.codes, case.domain)
    for method in ("S1D", "S1C", "J12D"):
        ours = MDA(method, tol=1e-3).fit_moments(moments)
        assert relative(ours.W_, fitted(MDA(method, tol=1e-3), case).W_) < 1e-9
