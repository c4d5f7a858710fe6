"""Stacked layers, and pivots."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

from estimators.helpers import classifier, fitted
from marda import MDA, MDAClassifier
from marda.estimators.model import ACTIVATIONS
from problems import make_case, relative


@pytest.mark.parametrize("activation", ["tanh", "relu", "identity"])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("method", ["S1D", "J12"])
def test_layers_are_single_layers_in_a_row(method, activation, sparse, case):
    X = sp.csr_array(case.X) if sparse else case.X
    options = {"tol": 1e-2}
    stacked = fitted(MDA(method, n_layers=3, activation=activation, **options), case, X)
    blocks, H = [case.X], X
    for _ in range(3):
        single = fitted(MDA(method, **options), case, H)
        H = ACTIVATIONS[activation](single.transform(H))
        blocks.append(H)
    assert relative(stacked.transform(X), np.hstack(blocks)) < 1e-9
    last = fitted(
        MDA(method, n_layers=3, activation=activation, concatenate=False, **options), case, X
    )
    assert relative(last.transform(X), blocks[-1]) < 1e-9


def test_one_layer_ignores_activation_and_concatenation(case):
    plain = fitted(MDA("S1"), case).transform(case.X)
    odd = fitted(MDA("S1", activation="relu", concatenate=False), case).transform(case.X)
    np.testing.assert_array_equal(odd, plain)


@pytest.mark.parametrize("wide", [True, False])
def test_ridge_on_the_concatenation(wide):
    case = make_case("SS", d=30 if wide else 4, seed=1)
    model = fitted(MDAClassifier("S1D", n_layers=2, ridge_class=0.5), case)
    H = model.transform(case.X)
    assert H.shape == (64, 90 if wide else 12)
    Y = np.where(case.codes[case.labelled, None] == np.arange(3), 1.0, -1.0)
    reference = Ridge(alpha=0.5).fit(H[case.labelled], Y)
    assert relative(model.Z_.T, reference.coef_) < 1e-7
    assert relative(model.decision_function(case.X), reference.predict(H)) < 1e-7
    np.testing.assert_array_equal(model.predict(case.X), reference.predict(H).argmax(1))


def test_class_weights_in_layers(case):
    weights = {0: 5.0}
    model = fitted(MDAClassifier("S1D", n_layers=2, class_weight=weights), case)
    H = model.transform(case.X)[case.labelled]
    y = case.codes[case.labelled]
    reference = Ridge(alpha=1.0).fit(
        H, np.where(y[:, None] == np.arange(3), 1.0, -1.0), sample_weight=np.where(y == 0, 5.0, 1.0)
    )
    assert relative(model.Z_.T, reference.coef_) < 1e-7


@pytest.mark.parametrize("kind", ["nn", "dscm", LogisticRegression(max_iter=1000)])
def test_other_classifiers_on_layers(kind, case):
    model = fitted(MDAClassifier("S1D", n_layers=2, classifier=kind), case)
    assert model.classifier_.n_features_in_ == 18
    assert model.predict(case.X).shape == (64,)
    np.testing.assert_allclose(model.predict_proba(case.X).sum(1), 1)


def test_layers_have_no_single_map(case):
    model = fitted(MDAClassifier("S1D", n_layers=2), case)
    for name in ("coef_", "intercept_"):
        with pytest.raises(AttributeError, match=f"{name}: several layers are not linear"):
            getattr(model, name)
    for name in ("W_", "W_map_", "offset_"):
        with pytest.raises(AttributeError, match="a model of 2 layers has no single W"):
            getattr(model, name)
    assert not hasattr(model, "coef_")


def test_refitting_with_layers_forgets_the_linear_model(case):
    model = fitted(MDAClassifier("S1D"), case)
    assert hasattr(model, "coef_")
    fitted(model.set_params(n_layers=2), case)
    assert not hasattr(model, "coef_")
    fitted(model.set_params(n_layers=1, classifier="nn"), case)
    assert not hasattr(model, "coef_")


def test_names_of_layers(case):
    table = pd.DataFrame(case.X, columns=list("abcdef"))
    model = fitted(MDA("S1", n_layers=2).set_output(transform="pandas"), case, table)
    names = [*"abcdef", *(f"layer1__{c}" for c in "abcdef"), *(f"layer2__{c}" for c in "abcdef")]
    assert list(model.get_feature_names_out()) == names
    assert list(model.transform(table).columns) == names
    last = fitted(MDA("S1", n_layers=2, concatenate=False), case, table)
    assert list(last.get_feature_names_out()) == [f"layer2__{c}" for c in "abcdef"]
    plain = fitted(MDA("S1"), case)
    assert list(plain.get_feature_names_out()) == [f"x{i}" for i in range(6)]
    assert len(set(names)) == len(names)


# Pivots -------------------------------------------------------------------------------------------


def sparse_case(setting="SS"):
    """Columns of falling frequency; the second and third tie."""
    case = make_case(setting, d=8, seed=2)
    rng = np.random.default_rng(2)
    kept = [40, 64, 64, 20, 50, 10, 30, 5]
    X = np.zeros_like(case.X)
    for column, n in enumerate(kept):
        rows = rng.permutation(64)[:n]
        X[rows, column] = np.abs(case.X[rows, column]) + 0.1
    X[:, 2] *= 3
    return case._replace(X=X)


@pytest.mark.parametrize("sparse", [True, False])
def test_pivots_are_the_most_frequent_features(sparse):
    case = sparse_case()
    X = sp.csr_array(case.X) if sparse else case.X
    assert fitted(MDA("S1", n_pivots=3), case, X).pivots_.tolist() == [1, 2, 4]
    # A tie goes to the larger sum of squares.
    assert fitted(MDA("S1", n_pivots=1), case, X).pivots_.tolist() == [2]
    assert fitted(MDA("S1", n_pivots=8), case, X).pivots_ is None
    assert fitted(MDA("S1"), case, X).pivots_ is None


def test_stored_zeros_do_not_count():
    case = sparse_case()
    X = sp.csr_array(case.X)
    full = sp.csr_array(np.ones_like(case.X))
    full.data[:] = case.X.ravel()  # every entry stored, most of them zero
    assert full.nnz > X.nnz
    assert fitted(MDA("S1", n_pivots=3), case, full).pivots_.tolist() == [1, 2, 4]


@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_pivots_of_S1_are_columns_of_the_full_map(solver, fit_intercept):
    case = sparse_case()
    options = {"fit_intercept": fit_intercept, "ridge": 0.1}
    full = fitted(MDA("S1M", **options), case)
    some = fitted(MDA("S1M", n_pivots=3, solver=solver, **options), case)
    index = some.pivots_
    assert relative(some.W_, full.W_[:, index]) < 1e-8
    assert relative(some.offset_, full.offset_[index]) < 1e-7
    assert relative(some.transform(case.X), full.transform(case.X)[:, index]) < 1e-8


@pytest.mark.parametrize("method", ["S1D", "J12", "J12M", "J12CD"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_routes_agree_with_pivots(method, fit_intercept):
    case = sparse_case()
    options = {"n_pivots": 3, "fit_intercept": fit_intercept, "ridge": 0.1}
    reference = fitted(classifier(method, solver="primal", **options), case)
    assert reference.Z_.shape == (3, 3)
    assert reference.coef_.shape == (3, 8)
    assert (np.diff(reference.loss_curve_) <= 1e-9).all()
    for solver in ("dual", "cg"):
        for X in (case.X, sp.csr_array(case.X)):
            model = fitted(classifier(method, solver=solver, **options), case, X)
            assert relative(model.coef_, reference.coef_) < 1e-7
            assert relative(model.transform(X), reference.transform(X)) < 1e-7
            assert relative(model.loss_curve_, reference.loss_curve_) < 1e-7


def test_names_of_pivots():
    case = sparse_case()
    table = pd.DataFrame(case.X, columns=list("abcdefgh"))
    model = fitted(MDA("S1", n_pivots=3).set_output(transform="pandas"), case, table)
    assert list(model.transform(table).columns) == ["b", "c", "e"]


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_pivots_in_layers(solver):
    case = sparse_case()
    model = fitted(MDA("S1", n_layers=2, n_pivots=3, solver=solver), case)
    assert model.transform(case.X).shape == (64, 8 + 3 + 3)
    names = list(model.get_feature_names_out())
    assert names[8:] == [f"layer{k}__x{i}" for k in (1, 2) for i in (1, 2, 4)]
