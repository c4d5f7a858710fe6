"""Scores of many candidates from few factorisations, against fits of their own."""

from __future__ import annotations

import time
from collections import Counter
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from marda import MDAClassifier
from marda._validation import Labels
from marda.benchmarks.speed_cases import dense_problem
from marda.noise import Gaussian
from marda.noise_paths import (
    PathCandidates,
    candidates,
    eigenbasis,
    on_path,
    row_space,
)
from problems import make_case, relative

EXACT = ("BL", "MCF", "S1", "S1D")
DENOISE = ("S1", "S1M", "S1D")
RIGHT = 5e-7  # what a series may leave out, and some


@pytest.fixture
def own(monkeypatch):
    """Candidates that were fitted on their own though they denoise."""
    fitted = []
    real = PathCandidates._own

    def counted(self, method, *numbers):
        if method not in candidates.PLAIN:
            fitted.append((method, *numbers))
        return real(self, method, *numbers)

    monkeypatch.setattr(PathCandidates, "_own", counted)
    return fitted


class Data(NamedTuple):
    X: np.ndarray
    codes: np.ndarray
    domain: np.ndarray

    @property
    def labels(self):
        return Labels(np.arange(3), self.codes)


def rows(setting="US", *, wide=False, n_target=30, one_scale=False, **options):
    """Three classes of different sizes; with one_scale all features have the same Σx²."""
    case = make_case(
        setting, d=70 if wide else 8, n_source=30, n_target=n_target, seed=3, **options
    )
    rare = np.flatnonzero(case.codes == 2)[::2][:4]
    case = case.take(np.setdiff1d(np.arange(len(case.X)), rare))
    X = case.X
    if one_scale:
        X = 3 * X / np.sqrt((X**2).sum(0))
    return Data(X, case.codes, case.domain)


def grid(*methods, ridge=0.0, weights=(0.5, 4.0)):
    return [
        {"method": m, "noise": p, "ridge_class": c, "domain_loss_weight": w, "ridge": ridge}
        for m in methods
        for p in (0.2, 0.7)
        for c in (0.1, 3.0)
        for w in weights
    ]


@cache
def fitted(rows, shape, codes, domain, options):
    """Coefficients of a fit, once for all engines that are compared with it."""
    X = np.frombuffer(rows).reshape(shape)
    model = MDAClassifier(**dict(options), solver="primal")
    model.fit(
        X,
        np.frombuffer(codes, dtype=np.int64),
        sample_domain=None if domain is None else np.frombuffer(domain, dtype=np.int64),
    )
    return model.model_.coef.T, model.model_.intercept


def fitted_scores(data, parameters, where=slice(None), **shared):
    assert data.X.dtype == np.float64
    coef, intercept = fitted(
        data.X.tobytes(),
        data.X.shape,
        data.codes.astype(np.int64).tobytes(),
        None if data.domain is None else data.domain.astype(np.int64).tobytes(),
        tuple({**parameters, **shared}.items()),
    )
    return data.X[where] @ coef + intercept


def errors(data, many, given=None, **shared):
    """Relative differences of scores, of a candidate each."""
    X = data.X if given is None else given
    path_scores = PathCandidates(X, data.labels, data.domain, **shared).scores(many, slice(4, None))
    return [
        relative(ours, fitted_scores(data, one, slice(4, None), **shared))
        for one, ours in zip(many, path_scores, strict=True)
    ]


@pytest.mark.parametrize(("fit_intercept", "class_weight"), [(True, "balanced"), (False, None)])
@pytest.mark.parametrize("setting", ["US", "SS", "SUP"])
@pytest.mark.parametrize("wide", [True, False])
def test_scores_are_those_of_fits(setting, wide, fit_intercept, class_weight):
    shared = {"fit_intercept": fit_intercept, "class_weight": class_weight, "ridge_domain": 0.7}
    assert max(errors(rows(setting, wide=wide), grid(*EXACT), **shared)) < 1e-7


@pytest.mark.parametrize("scaling", ["balanced", "paper", "relative"])
@pytest.mark.parametrize("wide", [True, False])
def test_a_ridge_and_every_scaling_on_features_of_one_scale(wide, scaling):
    """There the path's penalty ω·D is ω·I."""
    data = rows(wide=wide, one_scale=True)
    assert max(errors(data, grid(*EXACT, ridge=0.3), scaling=scaling)) < 1e-8


def stretched(**options):
    """Features of very different scales, as the counts of words have."""
    data = rows(**options)
    return data._replace(X=data.X * np.logspace(-1.2, 0.8, data.X.shape[1]))


@pytest.mark.parametrize("make", [rows, stretched])
@pytest.mark.parametrize("ridge", [0.0, 0.01, 5.0])
@pytest.mark.parametrize(("sources", "fit_intercept"), [(1, False), (2, True)])
@pytest.mark.parametrize("wide", [True, False])
def test_every_ridge_and_every_term_is_right(wide, sources, fit_intercept, ridge, make, own):
    """By a series, by a factor of its own, in the rows' space: none needs a fit of its own."""
    data = make(wide=wide, sources=sources)
    assert max(errors(data, grid(*DENOISE, ridge=ridge), fit_intercept=fit_intercept)) < RIGHT
    assert not own


@pytest.mark.parametrize(("setting", "class_weight"), [("US", None), ("SS", "balanced")])
@pytest.mark.parametrize("wide", [True, False])
def test_a_ridge_on_features_of_many_scales(wide, setting, class_weight, own):
    data = stretched(setting=setting, wide=wide)
    for ridge in (0.01, 50.0):
        found = errors(data, grid(*DENOISE, ridge=ridge), class_weight=class_weight)
        assert max(found) < RIGHT
    assert not own


@pytest.mark.parametrize("scaling", ["balanced", "paper", "relative"])
@pytest.mark.parametrize("wide", [True, False])
def test_S1M_of_domains_of_other_sizes(wide, scaling, own):
    """What noise leaves in its means is a small part of the noise, or, for large γ, all of it."""
    data = rows(wide=wide, n_target=90, sources=2)
    many = grid("S1M", ridge=0.3, weights=(0.01, 1.0, 100.0))
    assert max(errors(data, many, scaling=scaling)) < RIGHT
    assert not own


# Right or refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [True, False])
def test_an_answer_that_is_not_right_is_fitted_on_its_own(wide, own, monkeypatch):
    """Whatever goes wrong where candidates are solved together, the equations tell."""
    data, many = rows(wide=wide), grid(*DENOISE, ridge=0.3)
    if wide:
        real = row_space._RowLevel.__init__

        def off(self, *arguments):
            real(self, *arguments)
            self.F = self.F * (1 + 1e-5)

        monkeypatch.setattr(row_space._RowLevel, "__init__", off)
    else:
        real = eigenbasis.EigenBasis.__init__

        def off(self, *arguments):
            real(self, *arguments)
            self.values = self.values * (1 + 1e-5)

        monkeypatch.setattr(eigenbasis.EigenBasis, "__init__", off)
    assert max(errors(data, many)) < 1e-9
    assert len(set(own)) == 24


def test_features_that_nearly_depend_on_each_other():
    data = rows()
    data.X[:, 1] = data.X[:, 0] + 1e-4 * data.X[:, 1]
    assert max(errors(data, grid(*DENOISE, ridge=0.1))) < RIGHT


@pytest.mark.parametrize("wide", [True, False])
def test_a_series_that_does_not_settle_is_fitted_on_its_own(wide, own, monkeypatch):
    module = row_space if wide else eigenbasis
    monkeypatch.setattr(module, "STEPS", 1)
    data = rows(wide=wide)
    assert max(errors(data, grid("S1M", ridge=0.01, weights=(0.5,)))) < 1e-9
    assert len(own) == 4


@pytest.mark.parametrize("wide", [True, False])
def test_strong_weights_without_noise_and_two_sources(wide):
    """S1M, noise 0, γ = 1e5: 106 % off where nothing was checked."""
    data = rows(wide=wide, sources=2)
    many = [{"method": "S1M", "noise": 0.0, "domain_loss_weight": 1e5, "ridge": 1e-2}]
    assert max(errors(data, many)) < RIGHT


def test_what_no_route_solves_is_refused():
    data = rows()
    data.X[:, 1] = data.X[:, 0]  # without noise and a ridge Q is singular
    with pytest.raises(ValueError, match="singular"):
        errors(data, [{"method": "S1", "noise": 0.0, "ridge": 0.0}])


def test_fewer_rows_than_features_need_a_ridge():
    data = stretched(wide=True)
    with pytest.raises(ValueError, match="the class predictor's matrix is singular"):
        errors(data, [{"method": "S1", "noise": 0.2, "ridge": 50.0, "ridge_class": 0.0}])


@pytest.mark.parametrize("wide", [True, False])
def test_sparse_and_float32_rows(wide):
    data = rows(wide=wide)
    assert max(errors(data, grid(*EXACT), sp.csr_array(data.X))) < 1e-7
    single = data._replace(X=data.X.astype(np.float32))
    double = data._replace(X=single.X.astype(np.float64))
    assert max(errors(double, grid(*EXACT), single.X)) < 1e-3


@pytest.mark.parametrize("wide", [True, False])
def test_constant_and_empty_columns(wide, own):
    data = rows(wide=wide)
    data.X[:, 3] = 2.0  # without variance, and yet not empty
    data.X[:, 5] = 0.0
    assert max(errors(data, grid(*DENOISE, ridge=0.1))) < RIGHT
    kept = data._replace(X=np.delete(data.X, 5, axis=1))
    many = grid(*DENOISE)  # no ridge: what is empty stays out
    ours = PathCandidates(data.X, data.labels, data.domain).scores(many)
    for one, scores in zip(many, ours, strict=True):
        assert relative(scores, fitted_scores(kept, one)) < RIGHT
    assert not own


def test_without_target_rows_the_domain_terms_vanish():
    data = rows("SUP")
    one_source = np.ones(len(data.X), dtype=np.int64)
    many = [{"method": m, "ridge": 0} for m in ("S1", "S1M", "S1D")]
    S1, S1M, S1D = PathCandidates(data.X, data.labels, one_source).scores(many)
    # BLAS does not promise the same last bit for every column of a product.
    assert relative(S1, S1M) < 1e-13
    assert relative(S1, S1D) < 1e-13
    assert relative(S1, fitted_scores(data._replace(domain=None), many[0])) < 1e-9


@pytest.mark.parametrize("wide", [True, False])
def test_coefs_give_the_scores_of_any_rows(wide):
    data = rows(wide=wide)
    engine = PathCandidates(data.X, data.labels, data.domain)
    many = grid(*EXACT, "S1M")
    for (coef, intercept), scores in zip(engine.coefs(many), engine.scores(many), strict=True):
        assert relative(data.X @ coef + intercept, scores) < 1e-9


def test_order_repeats_and_blocks_do_not_matter(monkeypatch):
    data = rows()
    engine = PathCandidates(data.X, data.labels, data.domain)
    many = grid(*EXACT, "S1M")
    together = list(engine.scores(many))
    monkeypatch.setattr(candidates, "BLOCK_BYTES", 1)
    shuffled = [7, 3, 3, 30, 0, 15]
    again = engine.scores([many[k] for k in shuffled], np.array([5, 1]))
    for k, scores in zip(shuffled, again, strict=True):
        assert relative(scores, together[k][[5, 1]]) < 1e-12


def fifty():
    """5 noise levels × (S1, S1M, S1D) × 3 ridges, and 5 MCF."""
    levels = (0.1, 0.3, 0.5, 0.7, 0.9)
    many = [
        {"method": m, "noise": p, "ridge_class": c, "domain_loss_weight": 0.1}
        for m in ("S1", "S1M", "S1D")
        for p in levels
        for c in (0.1, 1.0, 10.0)
    ]
    return many + [{"method": "MCF", "noise": p} for p in levels]


@pytest.mark.parametrize("wide", [True, False])
def test_fifty_candidates_share_their_factorisations(wide, monkeypatch):
    """Separate fits would take 110: G, K and, of S1D, the domain predictor's."""
    calls = Counter()

    def count(module, name):
        real = getattr(module, name)

        def counted(*args, **kwargs):
            calls[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, counted)

    data = rows(wide=wide, n_target=26)
    if wide:
        count(row_space, "CholeskyFactor")
        count(row_space.lapack, "dgetrf")
        list(PathCandidates(data.X, data.labels, data.domain).scores(fifty()))
        assert calls["dgetrf"] == 15  # one per noise level and ridge of the class predictor
        assert calls["CholeskyFactor"] == 11  # one per level, S1D's own, the domain predictor's
        return
    count(eigenbasis, "symmetric_eigen")
    count(eigenbasis, "CholeskyFactor")
    list(PathCandidates(data.X, data.labels, data.domain).scores(fifty()))
    assert calls["symmetric_eigen"] == 1
    assert calls["CholeskyFactor"] == 16  # one per level and ridge, and the domain predictor's


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, True),
        ({"method": "BL"}, True),
        ({"method": "S1M", "noise": np.float32(0.3), "scaling": "relative"}, True),
        ({"method": "S1D", "marginalization": "paper"}, True),
        ({"method": "S1M", "marginalization": "paper"}, False),
        ({"method": "S1C"}, False),
        ({"method": "J12"}, False),
        ({"noise": [0.5, 0.1]}, False),
        ({"noise": Gaussian(0.1)}, False),
        ({"classifier": "nn"}, False),
        ({"classifier": LogisticRegression()}, False),
        ({"n_layers": 2}, False),
        ({"n_pivots": 3}, False),
        ({"refine": 2}, False),
        ({"center": True}, False),
        ({"normalize": True}, False),
    ],
)
def test_on_path(parameters, expected):
    assert on_path(parameters) is expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "J12"}, "not on the noise path: fit an MDAClassifier"),
        ({"class_weight": "balanced"}, "all candidates share class_weight=None, got 'balanced'"),
        ({"noise": 1.0}, r"in \[0, 1\), got 1"),
        ({"ridge": -1.0}, "ridge must be at least 0"),
        ({"ridge_class": -1.0}, "ridge_class must be at least 0"),
        ({"domain_loss_weight": -1.0}, "domain_loss_weight must be at least 0"),
    ],
)
def test_bad_candidates(parameters, message):
    data = rows()
    engine = PathCandidates(data.X, data.labels, data.domain)
    with pytest.raises(ValueError, match=message):
        list(engine.scores([parameters]))


def test_bad_settings(monkeypatch):
    data = rows()
    with pytest.raises(ValueError, match="scaling must be one of"):
        PathCandidates(data.X, data.labels, data.domain, scaling="none")
    monkeypatch.setenv("MARDA_MEMORY", "1KB")
    with pytest.raises(ValueError, match=r"take about .* kB, and 1 kB are free"):
        PathCandidates(data.X, data.labels, data.domain)


def test_no_candidates():
    data = rows()
    assert list(PathCandidates(data.X, data.labels, data.domain).scores([])) == []


@pytest.mark.parametrize("wide", [True, False])
def test_the_callers_rows_are_unchanged(wide):
    data = rows(wide=wide)
    held = data.X.copy()
    list(PathCandidates(data.X, data.labels, data.domain).scores(fifty()))
    np.testing.assert_array_equal(data.X, held)


@pytest.mark.slow
def test_fifty_candidates_cost_less_than_seven_fits():
    """So that with a refit of the best they cost less than eight; by CPU time, which others' work
    on the machine changes least.
    """
    X, codes, domain = dense_problem(2000, 1000)
    labels = Labels(np.unique(codes[codes >= 0]), codes)

    def seconds(job):
        start = time.process_time()
        job()
        return time.process_time() - start

    target = np.flatnonzero(domain < 0)
    many = fifty()
    fits = [
        seconds(lambda one=one: MDAClassifier(**one).fit(X, codes, sample_domain=domain))
        for one in many[::7]
    ]
    searches = [
        seconds(lambda: list(PathCandidates(X, labels, domain).scores(many, target)))
        for _ in range(3)
    ]
    assert min(searches) < 7 * np.median(fits)
