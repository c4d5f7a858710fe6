"""Logistic regression, a forest, CORAL and SA: their formulas, and what they see of the target."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import fractional_matrix_power
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adaptation.small import XS, XT, YS
from marda import pack
from marda.adaptation.methods import ALIGNED, BASELINES, DIRECTIONS, MAX_WIDTH, TREES, Baseline

RNG = np.random.default_rng(0)


def fitted(name, Xs=XS, ys=YS, Xt=XT):
    X, y, domain = pack(Xs, ys, Xt)
    return Baseline(name).fit(X, y, sample_domain=domain)


def standard(X):
    return (X - X.mean(0)) / X.std(0)


def test_logistic_regression_and_the_forest_know_the_source_alone():
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=3000)).fit(XS, YS)
    np.testing.assert_allclose(
        fitted("logistic").predict_proba(XT), linear.predict_proba(XT), atol=1e-3
    )
    forest = RandomForestClassifier(TREES, random_state=0).fit(XS, YS)
    apart = np.abs(fitted("forest").predict_proba(XT) - forest.predict_proba(XT))
    assert apart.mean() < 0.05  # the same trees but for the order of rows
    for name in set(BASELINES) - set(ALIGNED):
        elsewhere = fitted(name, Xt=XT[:7] + 100)
        np.testing.assert_array_equal(
            elsewhere.predict_proba(XT), fitted(name).predict_proba(XT), strict=True
        )
        np.testing.assert_array_equal(elsewhere.transform(XT), XT)


def test_coral_gives_source_rows_the_covariances_of_the_target():
    model = fitted("CORAL")
    S, T = standard(XS), standard(XT)
    Cs, Ct = (np.cov(X, rowvar=False) for X in (S, T))
    Cs, Ct = (C + np.trace(C) / len(C) * np.eye(len(C)) for C in (Cs, Ct))
    by_hand = S @ fractional_matrix_power(Cs, -0.5) @ fractional_matrix_power(Ct, 0.5)
    moved = model.transform(XS, sample_domain=np.zeros(len(XS), dtype=int))
    np.testing.assert_allclose(moved, by_hand, atol=1e-12)
    np.testing.assert_allclose(model.transform(XT), T, atol=1e-12)
    before, after = (np.abs(np.cov(X, rowvar=False) - Ct).sum() for X in (S, moved))
    assert after < before


def test_subspace_alignment_turns_the_directions_of_the_source():
    Xs, Xt = RNG.normal(size=(80, 30)), RNG.normal(size=(70, 30))
    Xs[:, :25] *= np.linspace(9, 1, 25)
    Xt[:, 5:] *= np.linspace(1, 9, 25)
    model = fitted("SA", Xs, np.arange(80) % 2, Xt)
    S, T = standard(Xs), standard(Xt)
    Ps, Pt = (PCA(DIRECTIONS, svd_solver="full").fit(X).components_.T for X in (S, T))
    moved = model.transform(Xs, sample_domain=np.zeros(80, dtype=int))
    # Directions have no sign: distances between rows have.
    for ours, theirs in ((moved, S @ Ps @ Ps.T @ Pt), (model.transform(Xt), T @ Pt)):
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-8)


@pytest.mark.parametrize("name", ALIGNED)
def test_what_is_undone(name):
    """Columns of other units and places, which a source-only model stumbles over."""
    Xt = 5 * XT + np.arange(4) * 30
    yt = np.arange(45) % 3
    assert (fitted(name, Xt=Xt).predict(Xt) == yt).mean() > 0.75
    assert (fitted("logistic", Xt=Xt).predict(Xt) == yt).mean() < 0.6


@pytest.mark.parametrize("name", BASELINES)
def test_the_order_of_rows_and_their_labels_in_words(name):
    words = np.array(["a", "b", "c"], dtype=object)
    rng = np.random.default_rng(1)
    X, y, domain = pack(XS, YS, XT)
    straight = Baseline(name).fit(X, y, sample_domain=domain)
    mixed = rng.permutation(len(X))
    named = np.where(domain >= 0, words[y], None)
    turned = Baseline(name).fit(X[mixed], named[mixed], sample_domain=domain[mixed])
    np.testing.assert_allclose(turned.predict_proba(XT), straight.predict_proba(XT), atol=1e-9)
    np.testing.assert_array_equal(turned.predict(XT), words[straight.predict(XT)])


@pytest.mark.parametrize("name", ALIGNED)
def test_rows_of_mixed_domains_keep_their_places(name):
    model = fitted(name)
    domain = np.array([0, -1] * 20)
    mixed = model.transform(XS[:40], sample_domain=domain)
    source = model.transform(XS[:40], sample_domain=np.zeros(40, dtype=int))
    np.testing.assert_allclose(mixed[::2], source[::2], atol=1e-12)
    np.testing.assert_allclose(mixed[1::2], model.transform(XS[:40])[1::2], atol=1e-12)


@pytest.mark.parametrize("name", BASELINES)
def test_sparse_and_wide_rows(name):
    d = MAX_WIDTH + 200
    rng = np.random.default_rng(2)
    y = np.arange(60) % 2
    dense = rng.random((60, d)) * (rng.random((60, d)) < 0.05)
    dense[y == 1, :40] += 1.0
    long = sp.csr_array(dense)  # as svmlight files are read
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    for rows in (dense, sp.csr_array(dense), long):
        model = fitted(name, rows[:40], y[:40], rows[40:])
        assert (model.predict(rows[40:]) == y[40:]).mean() >= 0.8
        assert model.predict_proba(rows[40:]).shape == (20, 2)
    if name in ALIGNED:
        assert model.transform(rows[40:]).shape[1] <= 60


@pytest.mark.parametrize("name", ALIGNED)
def test_one_row_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} needs 2 rows in each domain, got 1"):
        fitted(name, Xt=XT[:1])


@pytest.mark.parametrize("name", ALIGNED)
def test_more_than_the_memory_is_refused(name, monkeypatch):
    monkeypatch.setenv("MARDA_MEMORY", "10KB")
    with pytest.raises(MemoryError, match="leave it out of --methods"):
        fitted(name, np.tile(XS, (10, 1)), np.tile(YS, 10))
