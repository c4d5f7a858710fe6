"""Source-only models: what left-out rows choose, probabilities, other class shares, odd rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.linear_model import Ridge

from marda.datasets import named_task
from marda.moments.features import HeldRows
from marda.selection import source_only
from marda.selection.source_only import SOURCE_KINDS, fit_alike, fit_all_rows, fit_source_only
from marda.trees.forest import Forest

pytestmark = pytest.mark.usefixtures("few_draws")


def gaussians(n, seed, d=6, share=0.5, separation=2.5):
    """Two classes, of which the second has this share."""
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < share).astype(np.int64)
    X = rng.normal(size=(n, d))
    X[:, 0] += separation * codes
    return X, codes


def checkers(n, seed, noise=3):
    """Classes by the product of signs of two columns, among others: trees know, lines do not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2 + noise))
    return X, (X[:, 0] * X[:, 1] > 0).astype(np.int64)


def fit(X, codes, n_classes=2, **options):
    return fit_source_only(X, codes, n_classes, **{"seed": 0, **options})


def by_kind(fits):
    return {one.model.kind: one for one in (fits.chosen, *fits.others)}


def right(model, X, codes):
    return float((model.scores(X).argmax(1) == codes).mean())


# What is chosen -----------------------------------------------------------------------------------


def test_lines_where_lines_are_right():
    fits = fit(*gaussians(300, 0))
    assert sorted(by_kind(fits)) == sorted(SOURCE_KINDS)
    new = gaussians(4000, 1)
    assert right(fits.chosen.model, *new) > 0.885  # 0.894 is the best there is


def test_trees_where_they_are_right():
    fits = fit(*checkers(600, 0, noise=10))
    assert fits.chosen.model.kind in ("forest", "boosting", "pool")
    new = checkers(4000, 1, noise=10)
    assert right(fits.chosen.model, *new) > right(by_kind(fits)["linear"].model, *new) + 0.25


def test_the_kernel_where_classes_are_curved():
    task = named_task("generated", "same moons", 0)
    fits = fit(task.X_source, task.y_source)
    assert fits.chosen.model.kind in ("kernel", "pool")
    kinds = by_kind(fits)
    best = right(kinds["kernel"].model, task.X_test, task.y_test)
    assert best > right(kinds["linear"].model, task.X_test, task.y_test) + 0.05


def test_the_chosen_one_is_about_the_best_on_new_rows():
    for make in (gaussians, checkers):
        fits = fit(*make(300, 2))
        new = make(3000, 3)
        best = max(right(one.model, *new) for one in by_kind(fits).values())
        assert right(fits.chosen.model, *new) > best - 0.02


def test_the_pool_is_chosen_and_no_worse_on_left_out_rows_than_any_kind():
    fits = fit(*gaussians(200, 0))
    assert fits.chosen.model.kind == "pool"
    assert [one.model.kind for one in fits.others] == ["linear", "kernel", "forest", "boosting"]
    assert all(fits.chosen.losses.mean() < one.losses.mean() + 1e-6 for one in fits.others)


def test_rotated_columns_of_very_different_spread_cost_nothing():
    X, codes = gaussians(300, 0, d=8)
    new, truth = gaussians(3000, 1, d=8)
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    mixed = np.geomspace(1e-3, 1e3, 8)[:, None] * turn
    plain = right(fit(X, codes, kinds=("linear",)).chosen.model, new, truth)
    turned = right(fit(X @ mixed, codes, kinds=("linear",)).chosen.model, new @ mixed, truth)
    assert turned > plain - 0.01


def test_units_make_no_difference():
    X, codes = checkers(300, 0)
    new, _ = checkers(500, 1)
    units = 2.0 ** np.array([30, -30, 3, 0, 10])
    fits, scaled = fit(X, codes), fit(X * units, codes)
    assert fits.chosen.model.kind == scaled.chosen.model.kind
    for kind, one in by_kind(fits).items():
        other = by_kind(scaled)[kind]
        np.testing.assert_allclose(
            other.model.scores(new * units), one.model.scores(new), atol=1e-5
        )


# Probabilities ------------------------------------------------------------------------------------


def test_probabilities_are_calibrated_on_new_rows():
    rng = np.random.default_rng(5)
    X, codes = gaussians(800, 5, separation=1.5)
    codes = np.where(rng.random(800) < 0.1, 1 - codes, codes)
    fits = by_kind(fit(X, codes))
    assert sorted(fits) == sorted(SOURCE_KINDS)
    new, truth = gaussians(4000, 6, separation=1.5)
    truth = np.where(rng.random(4000) < 0.1, 1 - truth, truth)
    for kind, one in fits.items():
        log_p = one.model.scores(new)
        np.testing.assert_allclose(np.exp(log_p).sum(1), 1, err_msg=kind)
        assert abs(np.exp(log_p.max(1)).mean() - right(one.model, new, truth)) < 0.03, kind
        # Left-out rows tell what new rows will show.
        assert abs(one.losses.mean() + log_p[np.arange(4000), truth].mean()) < 0.04, kind


def test_left_out_rows_were_left_out():
    """Labels that mean nothing are learnt by heart, and left-out rows show that."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(200, 5)), rng.integers(2, size=200)
    fits = fit(X, codes)
    for one in by_kind(fits).values():
        assert 0.35 < (one.left_out.argmax(1) == codes).mean() < 0.65
        np.testing.assert_allclose(one.losses, -one.left_out[np.arange(200), codes])
    np.testing.assert_array_equal(fits.codes, codes)


def test_other_class_shares():
    fits = by_kind(fit(*gaussians(600, 0)))
    assert sorted(fits) == sorted(SOURCE_KINDS)
    rare, truth = gaussians(4000, 1, share=0.1)
    for kind, one in fits.items():
        model = one.model.with_prior([0.9, 0.1])
        np.testing.assert_array_equal(one.model.bias, 0, err_msg=kind)
        assert right(model, rare, truth) > right(one.model, rare, truth) + 0.02, kind
        assert abs(np.exp(model.scores(rare)[:, 1]).mean() - 0.1) < 0.04, kind
        by_hand = log_softmax(one.model.scores(rare) + model.bias, axis=1)
        np.testing.assert_allclose(model.scores(rare), by_hand, atol=1e-12, err_msg=kind)
        # Back to its own shares, and one class only.
        own = model.with_prior(one.model.shares).scores(rare)
        np.testing.assert_allclose(own, one.model.scores(rare), atol=1e-12, err_msg=kind)
        none = model.with_prior([1.0, 0.0]).scores(rare)
        assert np.isfinite(none).all(), kind
        assert none[:, 0].mean() > model.scores(rare)[:, 0].mean(), kind


@pytest.mark.parametrize("shares", [[0.5, 0.4, 0.1], [0, 0], [1.5, -0.5], [np.nan, 1]])
def test_shares_that_are_none_are_refused(shares):
    model = fit(*gaussians(60, 0), kinds=("linear",)).chosen.model
    with pytest.raises(ValueError, match="target_shares must be 2 numbers"):
        model.with_prior(shares)


# Weights ------------------------------------------------------------------------------------------


def test_balanced_classes_find_the_rare_one():
    X, codes = gaussians(800, 0, share=0.06, separation=1.5)
    new, truth = gaussians(6000, 1, share=0.06, separation=1.5)
    recalls = {}
    for name, weight in (("none", None), ("balanced", "balanced"), ("given", {0: 1.0, 1: 15.0})):
        for kind, one in by_kind(fit(X, codes, class_weight=weight)).items():
            found = one.model.scores(new).argmax(1)
            recalls[name, kind] = np.mean([(found == truth)[truth == c].mean() for c in (0, 1)])
            shares = [0.94, 0.06] if weight is None else [0.5, 0.5]
            np.testing.assert_allclose(one.model.shares, shares, atol=0.1, err_msg=kind)
    for kind in SOURCE_KINDS:
        assert recalls["balanced", kind] > recalls["none", kind] + 0.05, kind
        near = 0.08 if kind == "boosting" else 0.03  # it chooses rounds by few rare rows
        assert abs(recalls["balanced", kind] - recalls["given", kind]) < near, kind


def test_weights_by_the_names_of_classes():
    X, codes = gaussians(200, 0)
    by_name = fit(X, codes, class_weight={"b": 3.0}, classes=np.array(["a", "b"]))
    by_code = fit(X, codes, class_weight={1: 3.0})
    np.testing.assert_array_equal(by_name.chosen.left_out, by_code.chosen.left_out)
    np.testing.assert_array_equal(by_name.weights, by_code.weights)
    with pytest.raises(ValueError, match="no row any weight"):
        fit(X, codes, class_weight={0: 0.0, 1: 0.0})


def test_a_class_of_weight_0_is_never_named():
    X, codes = gaussians(200, 0)
    for one in by_kind(fit(X, codes, class_weight={1: 0.0})).values():
        assert (one.model.scores(X).argmax(1) == 0).all(), one.model.kind


# Odd rows -----------------------------------------------------------------------------------------

COLUMNS = {
    "constant": lambda X: np.column_stack([X, np.full(len(X), 7.0)]),
    "huge": lambda X: X * np.array([1e9, 1e-9, 1, 1e12, 1e5, 1]),
    "far": lambda X: X + 1e7,
    "skewed": lambda X: np.exp(2 * X),
    "twice": lambda X: np.hstack([X, X]),
}


def test_odd_columns_cost_little():
    X, codes = gaussians(300, 0)
    new, truth = gaussians(3000, 1)
    plain = right(fit(X, codes).chosen.model, new, truth)
    for name, odd in COLUMNS.items():
        found = fit(odd(X), codes)
        assert right(found.chosen.model, odd(new), truth) > plain - 0.02, name
        for one in by_kind(found).values():
            assert np.isfinite(one.model.scores(odd(new))).all(), name


@pytest.mark.parametrize("share", [0.01, 0.04])
def test_outliers_in_the_source_cost_little(share):
    X, codes = gaussians(300, 0)
    new, truth = gaussians(3000, 1)
    rows = np.random.default_rng(0).choice(300, int(share * 300), replace=False)
    wild = X.copy()
    wild[rows] *= 1e6
    for kind, one in by_kind(fit(wild, codes)).items():
        assert right(one.model, new, truth) > 0.86, kind


def test_outliers_among_new_rows_have_finite_scores():
    for one in by_kind(fit(*gaussians(200, 0))).values():
        scores = one.model.scores(gaussians(20, 1)[0] * 1e200)
        assert np.isfinite(scores).all()


def test_columns_that_number_the_rows_are_left_out():
    """Rows saved class by class: their number tells the class, and nothing of new rows."""
    X, codes = gaussians(300, 0)
    order = np.argsort(codes, kind="stable")
    number = np.arange(300.0)[:, None]
    found = fit(np.hstack([X[order], 1000 + number]), codes[order])
    new, truth = gaussians(3000, 1)
    for one in by_kind(found).values():
        rows = np.hstack([new, np.full((3000, 1), 5000.0)])
        assert right(one.model, rows, truth) > 0.86


@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (1, 1, 1), (2, 30), (3, 0, 3)])
def test_few_rows(counts):
    codes = np.repeat(np.arange(len(counts)), counts)
    X = np.random.default_rng(0).normal(size=(len(codes), 3)) + codes[:, None]
    fits = fit(X, codes, n_classes=len(counts), class_weight="balanced")
    for one in by_kind(fits).values():
        log_p = one.model.scores(X)
        assert log_p.shape == one.left_out.shape == (len(codes), len(counts))
        assert np.isfinite(log_p).all()
        assert np.isfinite(one.left_out).all()


def test_all_columns_constant():
    fits = fit(np.ones((20, 3)), np.arange(20) % 2)
    for one in by_kind(fits).values():
        np.testing.assert_allclose(np.exp(one.model.scores(np.ones((2, 3)))), 0.5, atol=0.2)


@pytest.mark.parametrize("d", [6, 600])
def test_models_of_other_rows_keep_the_choices(monkeypatch, d):
    """A ridge of wide rows keeps its penalty, which is not chosen again."""
    X, codes = gaussians(120, 0, d=d)
    found = by_kind(fit(X, codes))["linear"]
    if d > source_only.WIDE:
        assert found.setting[1] in source_only.WIDE_RIDGES
        monkeypatch.setattr(source_only, "_fit_wide", None)  # nor anything else
    some, new = np.arange(80), gaussians(500, 1, d=d)
    says = fit_alike(found, X[some], codes[some], 2, seed=0)(new[0])
    assert np.mean(says == new[1]) > (0.85 if d == 6 else 0.55)
    if d > source_only.WIDE:
        for one in source_only.WIDE_RIDGES:
            told = replace(found, setting=(None, one))
            said = fit_alike(told, X[some], codes[some], 2, seed=0)(new[0])
            U = (X / np.linalg.norm(X, axis=1, keepdims=True))[some]
            peer = Ridge(one * np.sum((U - U.mean(0)) ** 2) / 80).fit(U, 2.0 * codes[some] - 1)
            V = new[0] / np.linalg.norm(new[0], axis=1, keepdims=True)
            assert np.mean(said == (peer.predict(V) > 0)) > 0.99


# Sparse and wide rows -----------------------------------------------------------------------------


def test_sparse_rows_are_dense_rows():
    task = named_task("generated", "same words", 0)
    sparse = sp.csr_array(task.X_source)
    a, b = fit(sparse, task.y_source), fit(sparse.toarray(), task.y_source)
    for kind, one in by_kind(a).items():
        left_out = by_kind(b)[kind].left_out
        np.testing.assert_allclose(one.left_out, left_out, atol=1e-4 if kind == "pool" else 1e-6)


@pytest.mark.parametrize("n", [60, 800])
@pytest.mark.parametrize("sparse", [False, True])
def test_wide_rows_have_a_linear_model_only(n, sparse):
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.3, size=(3, 600))
    codes, truth = rng.integers(3, size=n), rng.integers(3, size=500)
    X, new = (rng.poisson(rates[c]).astype(float) for c in (codes, truth))
    fits = fit(sp.csr_array(X) if sparse else X, codes, n_classes=3)
    assert fits.others == ()
    assert fits.chosen.model.kind == "linear"
    assert fits.chosen.model.inputs.kind == "unit"
    rows = sp.csr_array(new) if sparse else new
    assert right(fits.chosen.model, rows, truth) > 0.95
    assert (fits.chosen.left_out.argmax(1) == codes).mean() > 0.9


def test_many_rows_are_compared_by_a_sample(monkeypatch):
    monkeypatch.setattr(source_only, "COMPARED_ROWS", 100)
    fits = fit(*gaussians(400, 0), kinds=("linear",))
    assert fits.chosen.left_out.shape == (400, 2)
    assert right(fits.chosen.model, *gaussians(3000, 1)) > 0.88


def test_the_seed_draws_and_the_record_tells_the_kind():
    X, codes = checkers(200, 0)
    a, b = fit(X, codes), fit(X, codes)
    np.testing.assert_array_equal(a.chosen.left_out, b.chosen.left_out)
    forest = by_kind(a)["forest"].model
    assert isinstance(forest.model, Forest)
    assert forest.get_params() == {"source_only": "forest", "sharpness": forest.sharpness}
    P = softmax(forest.sharpness * source_only.log_shares(forest.model.probabilities(X)), axis=1)
    np.testing.assert_allclose(np.exp(forest.scores(X)), P, atol=1e-12)


def curved(n, seed):
    """Classes that are neither linear nor without a linear part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    scores = np.stack([X[:, c] + np.abs(X[:, c + 1]) for c in range(2)], axis=1)
    return X, (scores + rng.gumbel(size=scores.shape) / 2).argmax(1)


def test_left_out_rows_decide():
    """Rows that tell better are taken; rows whose labels are noise are not."""
    X, y = curved(300, 3)
    more, true = curved(6000, 4)
    fits = fit_source_only(X, y, 2, seed=0)
    places = np.arange(6000)
    good = fit_all_rows(fits, X, HeldRows(more, true, places, 2))
    assert good.kinds
    assert good.n_rows == 6300
    assert good.fits.chosen.losses.mean() < fits.chosen.losses.mean()
    new, truth = curved(4000, 5)
    before, after = (v.chosen.model.scores(new).argmax(1) == truth for v in (fits, good.fits))
    assert after.mean() > before.mean() + 0.01
    noise = np.random.default_rng(0).integers(2, size=6000)
    bad = fit_all_rows(fits, X, HeldRows(more, noise, places, 2))
    assert (bad.kinds, bad.n_rows) == ((), 0)
    np.testing.assert_allclose(
        bad.fits.chosen.model.scores(new), fits.chosen.model.scores(new), atol=1e-6
    )
    none = fit_all_rows(fits, X, HeldRows(more, true, places[:0], 2))
    assert none.fits is fits
