"""The operators of a data set: coordinates, storage, weights and what they are fractions of."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from marda._arrays import SingularError
from marda.noise import Dropout, Gaussian
from marda.operators.denoiser import PrimalDenoiser
from marda.operators.dual import DualDenoiser
from marda.operators.iterative import IterativeDenoiser, PivotDenoiser
from marda.operators.linear import DenseGram, LazyGram
from marda.problem import Problem, Settings
from marda.solve import solve
from marda.terms import class_discrepancy, domain_discrepancy, parse_method
from oracles import Written
from problems import full_map, make_case, moments_of, problem_of, relative, rows_of, solved

NOISE = Dropout(np.linspace(0.1, 0.6, 6))
WEIGHTS = np.array([1.0, 2.0, 0.5])
ROUTES = ["primal", "dual", "cg"]


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def bias(request):
    return request.param


def centred(case, bias):
    return case.X - case.X.mean(0) if bias else case.X


def second_moment(case, noise, rows, weights):
    """A S A + D about a mean of one's own, entry by entry."""
    a = noise.scale(case.X.shape[1])
    variance = noise.variance(weights.sum(), weights @ case.X, weights @ case.X**2)
    return a[:, None] * ((rows.T * weights) @ rows) * a + np.diag(variance)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("method", ["MCF", "S1MD", "J12MCD"])
def test_the_reference_point_of_the_moments_does_not_matter(method, route, bias):
    case = make_case("SS", sources=2, seed=1)
    settings = Settings(NOISE, ridge=0.4, fit_intercept=bias, scaling="relative")
    moments = moments_of(case, class_grams=True)
    answers = []
    for about in (moments, moments.shifted(np.linspace(-2.0, 3.0, 6))):
        rows = {} if route == "primal" else rows_of(case, about)
        problem = Problem(about, settings, route, WEIGHTS, **rows)
        answers.append(solve(problem, parse_method(method), predictor=True, max_iter=2, tol=0))
    one, other = answers
    assert relative(full_map(other), full_map(one)) < 1e-8
    for a, b in zip(one.coef(), other.coef(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
    assert relative(other.loss_curve, one.loss_curve) < 1e-9


@pytest.mark.parametrize("route", ["dual", "cg"])
def test_rows_are_taken_over_and_centred_in_place_if_they_can_be(route, bias):
    case = make_case("SS", seed=2)
    moments = moments_of(case)
    X = case.X.copy()
    rows = {"X": X, "row_groups": moments.row_groups(case.domain, case.codes)}
    problem = Problem(moments, Settings(NOISE, fit_intercept=bias), route, np.ones(3), **rows)
    assert problem.gram.rows.X is X
    assert problem.gram.rows.center is None
    np.testing.assert_allclose(X, centred(case, bias), atol=1e-13)
    assert problem.labelled.gram.weights is None  # unit weights are not multiplied with
    weighted = problem_of(case, Settings(NOISE, fit_intercept=bias), route, WEIGHTS)
    np.testing.assert_array_equal(
        weighted.labelled.gram.weights, WEIGHTS[case.codes[case.labelled]]
    )


@pytest.mark.parametrize("route", ["dual", "cg"])
@pytest.mark.parametrize("store", [np.float32, "sparse", "sparse32"], ids=str)
def test_other_rows_stay_as_they_are(store, route, bias):
    case = make_case("SS", seed=3)
    case = case._replace(X=case.X.astype(np.float32).astype(np.float64))
    settings = Settings(NOISE, ridge=0.4, fit_intercept=bias)
    stored = case.X.astype(np.float32) if store != "sparse" else case.X
    stored = sp.csr_array(stored) if str(store).startswith("sparse") else stored
    moments = moments_of(case)
    groups = moments.row_groups(case.domain, case.codes)
    problem = Problem(moments, settings, route, WEIGHTS, X=stored, row_groups=groups)
    rows = problem.gram.rows
    assert (rows if rows.origin is None else rows.origin).X is stored
    assert (rows.origin is None) == sp.issparse(stored)  # few float32 rows have a float64 copy
    after = stored.toarray() if sp.issparse(stored) else stored
    np.testing.assert_array_equal(after.astype(np.float64), case.X)
    ours = solve(problem, parse_method("J12MD"), predictor=True, max_iter=2, tol=0)
    plain = solved(case, "J12MD", settings, max_iter=2, tol=0, class_weights=WEIGHTS)
    assert relative(full_map(ours), full_map(plain)) < 1e-7
    assert relative(ours.Z, plain.Z) < 1e-7


def test_class_weights_on_the_primal_route_from_rows_or_from_grams_per_class(bias):
    case = make_case("SS", seed=4)
    settings = Settings(NOISE, fit_intercept=bias)
    moments = moments_of(case)
    assert moments.class_grams is None
    by_rows = Problem(moments, settings, "primal", WEIGHTS, **rows_of(case, moments))
    by_grams = problem_of(case, settings, "primal", WEIGHTS)
    assert isinstance(by_rows.gram, DenseGram)
    assert isinstance(by_rows.labelled.gram, LazyGram)  # made where it is read
    assert relative(by_rows.labelled.dense(), by_grams.labelled.dense()) < 1e-12
    assert relative(by_rows.gram.dense(), by_grams.gram.dense()) < 1e-12


@pytest.mark.parametrize("route", ROUTES)
def test_second_moments_and_their_diagonals(route, bias):
    case = make_case("SS", seed=5)
    problem = problem_of(case, Settings(NOISE, fit_intercept=bias), route, WEIGHTS)
    ones = np.ones(len(case.X))
    w = np.where(case.labelled, WEIGHTS[case.codes], 0.0)
    Q = second_moment(case, NOISE, centred(case, bias), ones)
    mean = w @ case.X / w.sum() if bias else np.zeros(6)
    Q_l = second_moment(case, NOISE, case.X - mean, w)
    assert relative(problem.all_rows.about_mean(np.eye(6)), Q) < 1e-12
    assert relative(problem.labelled.about_mean(np.eye(6)), Q_l) < 1e-12
    assert relative(problem.diagonal_labelled, np.diag(Q_l)) < 1e-12
    assert problem.labelled.count == pytest.approx(w.sum())
    assert problem.all_rows.count == len(case.X)
    if bias:
        shift = NOISE.scale(6) * (mean - case.X.mean(0))
        np.testing.assert_allclose(problem.labelled.mean, shift, atol=1e-13)
        np.testing.assert_allclose(problem.labelled_mean, mean - case.X.mean(0), atol=1e-13)
        np.testing.assert_array_equal(problem.all_rows.mean, np.zeros(6))
    else:
        assert problem.labelled.mean is None
        assert problem.all_rows.mean is None
        np.testing.assert_array_equal(problem.labelled_mean, np.zeros(6))
    assert relative(problem.squared_norm, (centred(case, bias) ** 2).sum()) < 1e-12


@pytest.mark.parametrize("noise", [NOISE, Gaussian(0.7)], ids=repr)
@pytest.mark.parametrize("route", ROUTES)
def test_relative_ridges_and_weights(route, bias, noise):
    """Each a fraction of what it competes with; absolute where nothing is said."""
    case = make_case("SS", sources=2, seed=6)
    numbers = {"ridge": 0.3, "ridge_class": 0.8, "ridge_domain": 1.7}
    numbers |= {"class_loss_weight": 0.7, "domain_loss_weight": 1.3}
    relative_ = Settings(noise, **numbers, scaling="relative", fit_intercept=bias)
    problem = problem_of(case, relative_, route, WEIGHTS)
    ones, a = np.ones(len(case.X)), noise.scale(6)
    w = np.where(case.labelled, WEIGHTS[case.codes], 0.0)
    Q = second_moment(case, noise, centred(case, bias), ones)
    Q_l = second_moment(case, noise, centred(case, bias), w)
    assert problem.ridge == pytest.approx(0.3 * np.trace(Q) / 6, rel=1e-12)
    assert problem.ridge_class == pytest.approx(0.8 * np.trace(Q_l) / 6, rel=1e-12)
    Z, z0 = problem.identity_predictor
    term = problem.class_term(Z, z0)
    assert term.weight == pytest.approx(0.7 * 3 / (Z**2).sum(), rel=1e-12)
    # The predictors are those of absolute settings of the same size.
    absolute = dataclasses.replace(
        relative_,
        scaling="balanced",
        ridge=problem.ridge,
        ridge_class=problem.ridge_class,
        ridge_domain=1.7 * np.trace(centred(case, bias).T @ centred(case, bias)) / 6,
    )
    other = problem_of(case, absolute, route, WEIGHTS)
    assert (other.ridge, other.ridge_class) == (problem.ridge, problem.ridge_class)
    assert relative(other.identity_predictor[0], Z) < 1e-8
    ours, theirs = problem.domain_term, other.domain_term
    assert theirs.weight == pytest.approx(0.65)  # half of 1.3 for two sources
    assert relative(ours.Z, theirs.Z) < 1e-8
    assert ours.weight == pytest.approx(0.65 * 3 / (ours.Z**2).sum(), rel=1e-12)
    # γ of an MMD term is a fraction of tr(Q).
    moments = moments_of(case)
    for method, discrepancy in (("S1M", domain_discrepancy), ("S1C", class_discrepancy)):
        M = discrepancy(moments, noise, "exact")
        trace = (M.rows**2).sum() + M.diagonal.sum()
        system = problem.denoiser(parse_method(method)).system
        weight = 1.3 * np.trace(Q) / trace
        np.testing.assert_allclose(system.extra, np.sqrt(weight) * M.rows, rtol=1e-10)
        variance = noise.variance(len(ones), case.X.sum(0), (case.X**2).sum(0))
        expected = variance + problem.ridge + weight * M.diagonal
        np.testing.assert_allclose(system.diagonal, expected, rtol=1e-10)
    np.testing.assert_array_equal(problem.scale, a)


def test_the_weight_of_mmd_is_times_the_rows_or_as_it_is():
    case = make_case("SS", seed=7)
    M = domain_discrepancy(moments_of(case), NOISE, "exact")
    for scaling, weight in (("balanced", 1.3 * 64), ("paper", 1.3)):
        settings = Settings(NOISE, domain_loss_weight=1.3, scaling=scaling)
        system = problem_of(case, settings).denoiser(parse_method("S1M")).system
        np.testing.assert_allclose(system.extra, np.sqrt(weight) * M.rows, rtol=1e-12)


@pytest.mark.parametrize("outputs", [None, np.array([4, 1])], ids=["all", "pivots"])
@pytest.mark.parametrize("route", ROUTES)
def test_loss_and_predictor_of_the_identity(route, outputs, bias):
    """L1 + γ MMD at W = I, and Z of W = I, as they are written."""
    case = make_case("SS", sources=2, seed=8)
    settings = Settings(NOISE, ridge=0.4, domain_loss_weight=1.3, fit_intercept=bias)
    problem = problem_of(case, settings, route, WEIGHTS, outputs)
    for method in ("S1", "S1MC"):
        oracle = Written(case, parse_method(method), settings, WEIGHTS, outputs)
        start = np.eye(6 + bias)[:, oracle.outputs]
        loss = problem.identity_loss(parse_method(method))
        assert relative(loss, oracle.loss(start, None, None)) < 1e-10
    Z, z0 = problem.identity_predictor
    Z_written, z0_written = oracle.z_step(start)
    assert relative(Z, Z_written) < 1e-8
    if bias:  # z₀ is relative to x − a∘m
        shift = (problem.scale * case.X.mean(0))[oracle.outputs]
        assert relative(z0 - shift @ Z, z0_written) < 1e-7
    assert problem.n_outputs == len(oracle.outputs)
    assert (
        relative(problem.squared_norm, (centred(case, bias)[:, oracle.outputs] ** 2).sum()) < 1e-12
    )
    assert problem.identity_condition >= 1
    assert problem.class_term(Z, z0).condition == problem.identity_condition


def test_how_far_rows_are_from_the_origin(bias):
    case = make_case("SS", seed=9)
    case = case._replace(X=case.X + 100)
    problem = problem_of(case, Settings(NOISE, fit_intercept=bias))
    spread = ((case.X - case.X.mean(0)) ** 2).sum()
    expected = 1.0 if bias else np.sqrt((case.X**2).sum() / spread)
    assert problem.offset_ratio == pytest.approx(expected, rel=1e-9)
    assert bias or expected > 50
    same = case._replace(X=np.full_like(case.X, 3.0))
    assert problem_of(same, Settings(NOISE, fit_intercept=bias)).offset_ratio == 1.0
    moved = Problem(moments_of(case).shifted(np.ones(6)), problem.settings, "primal", np.ones(3))
    assert moved.offset_ratio == pytest.approx(expected, rel=1e-9)
    small = problem_of(case._replace(X=1e-3 * case.X), problem.settings)
    assert small.offset_ratio == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_a_predictor_that_cannot_be_solved_for_is_named(route):
    """No ridge: repeated columns leave the domain predictor undetermined."""
    case = make_case("SS", seed=10)
    case = case._replace(X=np.hstack([case.X, case.X[:, :1], 0 * case.X[:, :1]]))
    settings = Settings(Dropout(0.3), ridge_domain=0.0)
    problem = problem_of(case, settings, route)
    with pytest.raises(SingularError, match=r"the domain predictor's matrix (is|minus)"):
        _ = problem.domain_term
    settings = Settings(Dropout(0.0), ridge_class=0.0)
    with pytest.raises(SingularError, match=r"the class predictor's matrix (is|minus)"):
        _ = problem_of(case, settings, route).identity_predictor


def test_intercepts_are_zero_without_a_bias():
    problem = problem_of(make_case("SS", seed=10), Settings(NOISE, fit_intercept=False))
    assert problem.domain_term.z0.tolist() == [0.0]
    assert problem.identity_predictor[1].tolist() == [0.0, 0.0, 0.0]


def test_targets_that_are_not_there():
    case = make_case("SUP", seed=11)
    assert problem_of(case, Settings(NOISE)).has_target
    alone = case._replace(domain=np.zeros_like(case.domain))
    problem = problem_of(alone, Settings(NOISE))
    assert not problem.has_target
    plain, with_terms = (problem.denoiser(parse_method(m)) for m in ("S1", "S1MC"))
    assert with_terms is plain
    loss = [problem.identity_loss(parse_method(m)) for m in ("S1", "S1MC")]
    assert loss[0] == loss[1]


@pytest.mark.parametrize(
    ("route", "outputs", "kind"),
    [
        ("primal", None, PrimalDenoiser),
        ("primal", [1, 2], PrimalDenoiser),
        ("dual", None, DualDenoiser),
        ("dual", [1, 2], DualDenoiser),
        ("cg", None, IterativeDenoiser),
        ("cg", [1, 2], PivotDenoiser),
    ],
)
def test_a_route_makes_no_matrices_of_another(route, outputs, kind, monkeypatch):
    """d×d is the primal route's alone, n×n the dual's: the others may not fit in memory."""
    outputs = None if outputs is None else np.array(outputs)
    problem = problem_of(make_case("SS", seed=12), Settings(NOISE), route, outputs=outputs)
    assert type(problem.denoiser(parse_method("S1"))) is kind

    def refuse(*_, **__):
        raise AssertionError("another route's matrix")

    others = {"primal": "CholeskyFactor", "dual": "RowFactor", "cg": "IterativeFactor"}
    del others[route]
    for name in others.values():
        monkeypatch.setattr(f"marda.problem.{name}", refuse)
    assert problem.identity_predictor[0].shape == (problem.n_outputs, 3)
    assert problem.domain_term.Z.shape == (problem.n_outputs, 1)
    assert problem.domain_term.z0.shape == (1,)


@pytest.mark.parametrize("weights", [np.ones(3), WEIGHTS, 1e-3 * WEIGHTS], ids=str)
def test_labels_about_their_mean(weights, bias):
    case = make_case("SS", seed=13)
    problem = problem_of(case, Settings(NOISE, fit_intercept=bias), "dual", weights)
    known = case.labelled
    w = weights[case.codes[known]]
    Y = np.where(case.codes[known, None] == np.arange(3), 1.0, -1.0)
    mean = w @ Y / w.sum() if bias else np.zeros(3)
    center = w @ case.X[known] / w.sum() if bias else np.zeros(6)
    right, per_row, found = problem.labels_about_mean
    np.testing.assert_allclose(found, mean, atol=1e-13)
    np.testing.assert_allclose(per_row, Y - mean, atol=1e-13)
    expected = problem.scale[:, None] * ((case.X[known] - center).T * w) @ (Y - mean)
    assert relative(right, expected) < 1e-11
    np.testing.assert_allclose(problem.center + problem.labelled_mean, center, atol=1e-12)


@pytest.mark.parametrize("weights", [np.ones(3), WEIGHTS], ids=str)
def test_large_features_do_not_spoil_the_condition_of_centred_rows(weights):
    """What stands for the null vector of centred rows keeps n×n matrices well conditioned."""
    case = make_case("SS", d=80, n_source=18, n_target=12, sources=2, seed=14)
    case = case._replace(X=1e4 * case.X)
    problem = problem_of(case, Settings(Dropout(0.0), ridge=1.0), "dual", weights)
    assert problem.identity_condition < 1e4
    assert problem.domain_term.condition < 1e4
    assert problem.denoiser(parse_method("S1")).factor.condition < 1e4


def test_rows_without_any_label():
    """Features need none: there is nothing to centre labelled rows at."""
    case = make_case("US", seed=15)
    case = case._replace(codes=np.full_like(case.codes, -1))
    problem = problem_of(case, Settings(NOISE))
    np.testing.assert_array_equal(problem.labelled_mean, np.zeros(6))
    solution = solve(problem, parse_method("S1MD"), predictor=False)
    labelled = make_case("US", seed=15)
    assert relative(full_map(solution), full_map(solved(labelled, "S1MD", Settings(NOISE)))) < 1e-12
