"""Nothing depends on the order in which rows come."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, noise_path
from marda._order import row_order
from marda.criteria import (
    density_ratio,
    domain_hits,
    neighbour_agreement,
    soft_neighbourhood_density,
)
from marda.diagnostics.diagnosis import mmd
from marda.estimators import kernel_ridge, self_training
from marda.estimators.pseudo_labels import RefinementWarning
from marda.selection import adapted_ensemble, auto, ensemble, source_only
from marda.selection.scorers import CRITERIA
from problems import always_adapted

pytestmark = pytest.mark.usefixtures("few_draws")

N, CLASSES = 150, 3


def rows(kind, seed=0, n=N):
    """Both domains, hard enough for models of thirds to disagree; X, y, domains."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=2 * n)
    domain = np.repeat([1, -2], n)
    if kind == "text":
        topics = np.random.default_rng(99).dirichlet(np.full(80, 0.2), size=CLASSES)
        X = np.vstack([rng.multinomial(15, topics[c]) for c in y]).astype(float)
        X[domain < 0] = np.roll(X[domain < 0], 1, axis=1)
    else:
        X = rng.normal(size=(2 * n, 8)) + 0.9 * np.eye(8)[y] * 2
        X[domain < 0] = X[domain < 0] * 1.3 + 0.5
    if kind == "ties":  # many rows that are the same, with different labels
        X = np.round(X / 2)
    known = y.copy()
    known[domain < 0] = -1
    return (sp.csr_array(X) if kind in ("text", "sparse") else X), known, domain


def shuffled(X, y, domain, seed=1):
    p = np.random.default_rng(seed).permutation(len(y))
    return X[p], y[p], domain[p]


def fit(model, X, y, domain):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RefinementWarning)
        return model.fit(X, y, sample_domain=domain)


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 60),
    d=st.integers(1, 6),
    scale=st.sampled_from([1e-300, 1e-9, 1.0, 1e12, 1e300]),
    levels=st.sampled_from([0, 1, 3]),
)
@settings(max_examples=150, deadline=None)
def test_the_order_is_that_of_the_values(seed, n, d, scale, levels):
    """Whatever the order, the memory layout, the precision and the sparsity of equal values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (scale if d < 3 else np.geomspace(1, scale, d))
    X = np.round(X) if levels else X
    X[rng.random((n, d)) < 0.3] = -0.0
    key = rng.integers(2, size=n)
    first = row_order(X, key)
    assert sorted(first.tolist()) == list(range(n))
    p = rng.permutation(n)
    for other in (X[p], np.asfortranarray(X[p]), sp.csr_array(X[p]), sp.csr_array(X)[p]):
        order = p[row_order(other, key[p])]
        np.testing.assert_array_equal(X[order], X[first])
        np.testing.assert_array_equal(key[order], key[first])
    if scale == 1.0:
        single = X.astype(np.float32)
        np.testing.assert_array_equal(row_order(single), row_order(single.astype(float)))


def test_stored_zeros_and_duplicates_do_not_count():
    plain = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    split = sp.csr_array(([0.5, 0.5, 0.0, 1, 2, 2], [0, 0, 1, 0, 1, 0], [0, 3, 4, 5, 6]), (4, 2))
    assert not split.has_canonical_format
    np.testing.assert_array_equal(plain[row_order(plain)], plain[row_order(split)])


def test_the_order_has_no_trend():
    """Rows that come one after the other have nothing in common: folds may be cut anywhere."""
    x = np.linspace(0, 1, 2000)[:, None]
    halves = x[row_order(x), 0].reshape(2, -1).mean(1)
    assert abs(halves[0] - halves[1]) < 0.05


CLASSIFIERS = [
    *(MDAClassifier(m) for m in ("BL", "MCF", "S1", "S1D", "S1M", "J12", "J12M", "J12D")),
    MDAClassifier("S1D", solver="dual"),
    MDAClassifier("S1", solver="cg"),
    MDAClassifier("BL", solver="cg", class_weight="balanced"),
    MDAClassifier("S1D", class_weight="balanced"),
    MDAClassifier("S1D", n_layers=2),
    MDAClassifier("S1D", classifier="kernel"),
    MDAClassifier("S1D", classifier="nn"),
    MDAClassifier("S1D", classifier="dscm", refine=3),
    MDAClassifier("S1C", refine=3),
    MDAClassifier("J12C", refine=2, classifier="nn"),
    MDAClassifier("S1", refine="auto", ridge_class="auto", classifier="kernel", center=True),
    MDAClassifier("S1M", classifier=RandomForestClassifier(5), random_state=0, refine=2),
    DSCM(),
]


@pytest.mark.parametrize("kind", ["dense", "sparse", "text", "ties"])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_classifiers(model, kind):
    given = rows(kind)
    a, b = fit(model, *given), None
    before = (
        a.predict_proba(given[0]),
        getattr(a, "target_skill_", None),
        getattr(a, "rounds_", None),
    )
    b = fit(model, *shuffled(*given))
    same(b.predict_proba(given[0]), before[0])
    assert getattr(b, "target_skill_", None) == before[1]
    assert getattr(b, "rounds_", None) == before[2]


@pytest.mark.parametrize("kind", ["dense", "text"])
@pytest.mark.parametrize("options", [{}, {"solver": "dual"}, {"solver": "cg"}, {"center": True}])
def test_transformer(kind, options):
    given = rows(kind)
    first = fit(MDA("S1D", **options), *given).transform(given[0])
    same(fit(MDA("S1D", **options), *shuffled(*given)).transform(given[0]), first)


def figures(model, X):
    chosen = [{k: v for k, v in row.items() if not callable(v)} for row in model.candidates_]
    skills = [vars(model).get(name) for name in ("source_skill_", "target_skill_")]
    return model.predict_proba(X), chosen, skills, model.calibration_


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "random_state", "default"),
    [
        *((kind, seed, always_adapted) for kind in ("dense", "sparse", "text", "ties")
          for seed in (None, 7)),
        ("dense", 7, auto.fit_auto),
        ("sparse", None, auto.fit_auto),
        *(pytest.param(kind, seed, auto.fit_auto, marks=SLOW) for kind in ("text", "ties")
          for seed in (None, 7)),
    ],
)  # fmt: skip
def test_the_ensemble(kind, random_state, default, monkeypatch):
    monkeypatch.setattr("marda.selection.classifier_cv.fit_auto", default)
    given = rows(kind)
    first = figures(fit(MDAClassifierCV(random_state=random_state), *given), given[0])
    other = shuffled(*given, seed=random_state or 0)
    again = figures(fit(MDAClassifierCV(random_state=random_state), *other), given[0])
    same(again[0], first[0])
    assert again[1:] == first[1:]


@pytest.mark.parametrize("scoring", ["auto", "iwv", "dev", "reverse", "proxy_a"])
def test_a_search(scoring):
    given = rows("dense")
    grid = {"noise": [0.1, 0.5], "method": ["S1", "S1D"]}
    models = [
        fit(MDAClassifierCV(grid, scoring=scoring), *data) for data in (given, shuffled(*given))
    ]
    first, again = (figures(m, given[0]) for m in models)
    same(again[0], first[0])
    assert again[1:] == first[1:]
    assert models[0].best_params_ == models[1].best_params_


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("dense", auto.fit_auto),
        pytest.param("text", auto.fit_auto, marks=SLOW),
        ("dense", always_adapted),
        ("text", always_adapted),
    ],
)
def test_samples_of_many_rows(kind, default, monkeypatch):
    """Every limit above which rows are drawn, lowered below the number of rows."""
    monkeypatch.setattr("marda.selection.classifier_cv.fit_auto", default)
    monkeypatch.setattr(kernel_ridge, "MAX_EXACT", 60)
    monkeypatch.setattr(self_training, "MAX_EXACT", 60)
    monkeypatch.setattr(kernel_ridge, "LANDMARKS", 40)
    monkeypatch.setattr(self_training, "TRIED_ROWS", 30)
    monkeypatch.setattr(adapted_ensemble, "COMPARED_ROWS", 50)
    monkeypatch.setattr(source_only, "COMPARED_ROWS", 50)
    monkeypatch.setattr(source_only, "LANDMARKS", 40)
    monkeypatch.setattr(auto, "EXPLAINED_ROWS", 60)
    monkeypatch.setattr(auto, "EXPECTED_ROWS", 50)
    monkeypatch.setattr(ensemble, "COMPARED_ROWS", 40)
    monkeypatch.setattr(ensemble, "COMPARED_DIRECTIONS", 5)
    given = rows(kind)
    first = figures(fit(MDAClassifierCV(max_rows=100), *given), given[0])
    again = figures(fit(MDAClassifierCV(max_rows=100), *shuffled(*given)), given[0])
    same(again[0], first[0])
    assert again[1:] == first[1:]
    other = figures(fit(MDAClassifierCV(max_rows=100, random_state=1), *given), given[0])
    assert np.abs(other[0] - first[0]).max() > 1e-6  # another sample


def test_random_state_draws_the_thirds():
    """The estimate of skill varies with the seed, and with nothing else."""
    given = rows("dense", n=60)
    skills = [fit(MDAClassifierCV(random_state=k), *given).target_skill_ for k in (0, 0, 1, 2)]
    assert skills[0] == skills[1]
    assert len(set(skills)) > 1
    assert fit(MDAClassifierCV(), *given).target_skill_ == skills[0]


@pytest.mark.parametrize("name", CRITERIA)
def test_scorers(name):
    given = rows("dense")
    model = fit(MDAClassifier("S1D"), *given)
    values = [
        CRITERIA[name]()(model, X, np.abs(y), sample_domain=domain)
        for X, y, domain in (given, shuffled(*given))
    ]
    assert values[0] == pytest.approx(values[1], abs=1e-10)


def test_criteria_of_more_rows_than_they_look_at():
    X = rows("dense")[0]
    labels = X[:, 0] > 0.5
    P = np.exp(X[:, :3]) / np.exp(X[:, :3]).sum(1, keepdims=True)
    half, p = len(X) // 2, np.random.default_rng(0).permutation(len(X) // 2)
    found = []
    for q in (np.arange(half), p):
        ratio = np.empty(half)
        ratio[q] = density_ratio(X[:half][q], X[half:][q])
        interval = mmd(X[:half][q], X[half:][q], max_rows=60)
        found.append(
            [
                *neighbour_agreement(X[:half][q], labels[:half][q], max_rows=80),
                soft_neighbourhood_density(P[:half][q], max_rows=50),
                domain_hits(X[:half][q], X[half:][q]).mean(),
                *(interval.value, interval.low, interval.high),
                *ratio,
            ]
        )
    same(*found)


@pytest.mark.parametrize("shape", [(60, 8), (20, 40)])
def test_noise_path(shape):
    X = np.random.default_rng(0).normal(size=shape)
    p = np.random.default_rng(1).permutation(len(X))
    V = np.eye(shape[1])
    same(noise_path(X).columns(V), noise_path(X[p]).columns(V))


def test_the_same_values_in_other_arrays():
    X, y, domain = rows("dense", n=80)
    X = X.astype(np.float32).astype(float)
    first = fit(MDAClassifierCV(), X, y, domain)
    places = np.nonzero(X)  # of 64 bits each, and so are SciPy's indices of them
    long = sp.coo_array((X[places], places), shape=X.shape)
    for other in (np.asfortranarray(X), sp.csr_array(X), long):
        model = fit(MDAClassifierCV(), other, y, domain)
        np.testing.assert_allclose(model.predict_proba(X), first.predict_proba(X), atol=1e-8)
    single = fit(MDAClassifierCV(), X.astype(np.float32), y, domain)
    np.testing.assert_allclose(single.predict_proba(X), first.predict_proba(X), atol=2e-3)
