"""Sources are centred for the class shares of the target, which nobody tells."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, pack
from marda.estimators import fitting, kernel_ridge, self_training
from marda.estimators.class_shares import CentredGram, Centring
from marda.estimators.model import FittedModel

OPTIONS = {
    "classifier": "kernel",
    "ridge_class": "auto",
    "scaling": "relative",
    "center": True,
    "normalize": True,
    "class_weight": "balanced",
}


def two_classes(seed, n, share, gap=2.0, shift=0.0, d=8):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    X = rng.normal(size=(n, d)) + shift
    X[:, 0] += gap * (2 * y - 1)
    return X, y


def fit(source, target, refine="auto", **changes):
    X, y, domain = pack(*source, target[0])
    return MDAClassifier("S1", **{**OPTIONS, "refine": refine, **changes}).fit(
        X, y, sample_domain=domain
    )


@pytest.mark.parametrize(
    ("of_source", "of_target", "shift"),
    [
        (0.5, 0.5, 1.5),
        (0.1, 0.1, 0.0),
        (0.1, 0.1, 1.5),
        (0.5, 0.95, 0.0),
        (0.5, 0.8, 1.0),
        (0.2, 0.5, 1.0),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_the_shares_of_the_target_are_found(of_source, of_target, shift, seed):
    """Whether domains differ in class shares, in position, in both or in neither."""
    source = two_classes(seed, 400, of_source, gap=2.5)
    target = two_classes(seed + 9, 300, of_target, gap=2.5, shift=shift)
    model = fit(source, target)
    assert abs(model.target_shares_[1] - of_target) < 0.15
    assert model.score(*target) > 0.93


@pytest.mark.parametrize(("of_target", "shift"), [(0.5, 1.5), (0.95, 0.0), (0.8, 1.0)])
def test_many_rows_are_centred_by_what_some_of_them_say(monkeypatch, of_target, shift):
    source, target = two_classes(0, 600, 0.5, 2.5), two_classes(9, 500, of_target, 2.5, shift)
    whole = fit(source, target)
    tried = []
    judged = Centring.judged
    monkeypatch.setattr(self_training, "MAX_EXACT", 700)
    monkeypatch.setattr(self_training, "TRIED_ROWS", 350)
    monkeypatch.setattr(
        Centring, "judged", lambda self, *a: (tried.append(len(a[1].F)), judged(self, *a))[1]
    )
    model = fit(source, target)
    assert set(tried[:-1]) == {700}
    assert tried[-1] == 1100  # what is expected of the target, all rows say
    assert abs(model.target_shares_[1] - of_target) < 0.15
    assert model.score(*target) > whole.score(*target) - 0.03


@pytest.mark.parametrize("center", [True, False])
def test_sparse_rows_on_demand_say_what_kept_rows_say(monkeypatch, center):
    rng = np.random.default_rng(0)
    dense = rng.random((600, 60)) * (rng.random((600, 60)) < 0.06)
    dense[[5, 6]] = 0  # rows without a word
    X = sp.csr_array(dense)
    y = (X[:, :30].sum(1) > X[:, 30:].sum(1)).astype(int)
    for module in (kernel_ridge, self_training, fitting):
        monkeypatch.setattr(module, "MAX_EXACT", 100)
    monkeypatch.setattr(kernel_ridge, "LANDMARKS", 150)
    source, target = (X[:400], y[:400]), (X[400:], y[400:])
    asked = []
    products = self_training._Features.products
    monkeypatch.setattr(
        self_training._Features, "products", lambda self, B: (asked.append(B), products(self, B))[1]
    )
    found = fit(source, target, solver="primal", center=center)
    assert asked
    monkeypatch.setattr(FittedModel, "denoises_quickly", lambda self, X: False)
    kept = fit(source, target, solver="primal", center=center)
    np.testing.assert_allclose(
        found.decision_function(target[0]), kept.decision_function(target[0]), atol=1e-8
    )


def test_what_equal_shares_would_cost():
    """The rule without evidence, which fixed rounds still follow."""
    source, target = two_classes(0, 400, 0.5, gap=2.5), two_classes(9, 300, 0.95, gap=2.5)
    assert fit(source, target, refine=5).score(*target) < 0.8
    assert fit(source, target).score(*target) > 0.95


def test_without_balance_or_centre_there_is_nothing_to_guess():
    source, target = two_classes(0, 200, 0.3), two_classes(9, 200, 0.7)
    for changes in ({"class_weight": None}, {"center": False}):
        np.testing.assert_array_equal(fit(source, target, **changes).target_shares_, [0.5, 0.5])


def test_a_source_may_lack_the_classes_of_the_target():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = 4 * np.eye(3)[y] + rng.normal(0, 0.5, (120, 3))
    first, second, target = y[:60] != 2, y[60:90] == 2, slice(90, None)
    labels = np.concatenate([y[:60][first], y[60:90][second], np.full(30, -1)])
    rows = np.vstack([X[:60][first], X[60:90][second], X[target]])
    domain = np.repeat([0, 1, -1], [first.sum(), second.sum(), 30])
    model = MDAClassifier("S1", **{**OPTIONS, "center": True, "refine": "auto"})
    model.fit(rows, labels, sample_domain=domain)
    assert np.isfinite(model.predict_proba(X[target])).all()
    assert set(model.model_.centers) == {-1, 0, 1}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_products_of_centred_rows(normalize, offset):
    rng = np.random.default_rng(0)
    H, side = rng.normal(size=(20, 6)) + offset, np.repeat([-1, 0, 1], [8, 7, 5])
    products = CentredGram(H, side, normalize)
    for seed in (5, 6):
        centers = {d: offset + np.random.default_rng(seed).normal(size=6) for d in (-1, 0, 1)}
        F = H - np.stack([centers[d] for d in side.tolist()])
        if normalize:
            F /= np.linalg.norm(F, axis=1, keepdims=True)
        np.testing.assert_allclose(products.about(centers), F @ F.T, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_row_at_its_centre_stays_there(seed):
    """But for rounding, which has no direction: products that cancelled are not blown up."""
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(9, 3)) + 10 * rng.normal(size=3)
    inner = CentredGram(H, np.zeros(9, int), normalize=True).about({0: H[0] * (1 + 1e-16)})
    np.testing.assert_array_equal(inner[0], 0)
    np.testing.assert_allclose(inner.diagonal()[1:], 1)
