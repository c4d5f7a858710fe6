"""(★), the Z step and the alternation against Sylvester, Kronecker and the written loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from marda._arrays import InaccurateError
from marda.noise import Dropout, Gaussian
from marda.operators import denoiser as denoiser_module
from marda.operators.cost import ALTERNATIONS
from marda.problem import Settings
from marda.solve import _basis, _extrapolated, _OnBasis, _relative, solve
from marda.terms import DomainTargets, parse_method
from oracles import Written, numerical_gradient
from problems import DEFINED, full_map, make_case, problem_of, relative, solved

MIXES = ["S1MD", "S1MC", "S1CD", "J12CD", "J12MD", "J12MCD"]
VARIED = {
    "noise": Dropout(np.linspace(0.1, 0.6, 6)),
    "ridge": 0.3,
    "ridge_class": 0.8,
    "ridge_domain": 1.7,
    "class_loss_weight": 0.7,
    "domain_loss_weight": 1.3,
}


def written(case, method, settings, class_weights=None, pivots=None):
    return Written(case, parse_method(method), settings, class_weights, pivots)


@pytest.mark.parametrize("scaling", ["balanced", "paper"])
@pytest.mark.parametrize("marginalization", ["exact", "paper"])
@pytest.mark.parametrize(("method", "setting"), DEFINED)
def test_W_solves_the_papers_sylvester_equation(method, setting, marginalization, scaling):
    case = make_case(setting, seed=len(method))
    settings = Settings(
        Dropout(0.4),
        ridge=0.0 if method == "J12D" else 0.3,  # the paper's J12D has no ω (math.md §3)
        class_loss_weight=0.7,
        domain_loss_weight=1.3,
        marginalization=marginalization,
        scaling=scaling,
        fit_intercept=False,
    )
    oracle = written(case, method, settings)
    for n_iter in (1, 2, 4) if method.startswith("J") else (1,):
        solution = solved(case, method, settings, max_iter=n_iter, tol=0)
        W, Z, _ = oracle.alternate(oracle.sylvester_step, n_iter)
        assert relative(full_map(solution), W) < 1e-8
        assert relative(solution.Z, Z) < 1e-8
        assert relative(solution.coef()[0], (W @ Z).T) < 1e-8


@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("method", "setting"),
    [*DEFINED, *((m, "SS") for m in MIXES)],
)
def test_W_Z_and_loss_equal_the_dense_oracle(method, setting, fit_intercept, solver):
    """Per-feature noise, class weights, two sources: everything at once."""
    case = make_case(setting, sources=2, seed=11)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    weights = np.array([1.0, 2.0, 0.5])
    oracle = written(case, method, settings, weights)
    solution = solved(case, method, settings, solver, max_iter=3, tol=0, class_weights=weights)
    W, Z, z0 = oracle.alternate(oracle.kronecker_step, 3)
    assert relative(full_map(solution), W) < 1e-7
    assert relative(solution.Z, Z) < 1e-7
    assert relative(solution.loss_curve[-1], oracle.loss(W, Z, z0)) < 1e-8
    if fit_intercept:
        assert relative(solution.predictor_intercept(), z0) < 1e-7
    F = oracle.scores_map(W, Z, z0)
    coef, intercept = solution.coef()
    assert relative(coef.T, F[:6]) < 1e-7
    assert relative(intercept, F[6] if fit_intercept else 0 * z0) < 1e-7


@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["S1", "S1MD", "J12", "J12C", "J12MCD"])
def test_pivots_equal_the_dense_oracle(method, fit_intercept, solver):
    """Some features are reconstructed, from all of them."""
    case, pivots = make_case("SS", sources=2, seed=19), np.array([4, 0, 3])
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    oracle = written(case, method, settings, pivots=pivots)
    solution = solved(case, method, settings, solver, max_iter=3, tol=0, outputs=pivots)
    W, Z, z0 = oracle.alternate(oracle.kronecker_step, 3)
    assert relative(full_map(solution), W) < 1e-7
    assert relative(solution.Z, Z) < 1e-7
    F = oracle.scores_map(W, Z, z0)
    coef, intercept = solution.coef()
    assert relative(coef.T, F[:6]) < 1e-7
    assert relative(intercept, F[6] if fit_intercept else 0 * z0) < 1e-7
    if fit_intercept:
        assert relative(solution.predictor_intercept(), z0) < 1e-7
        assert relative(solution.at_center(), case.X.mean(0) @ W[:6] + W[6]) < 1e-7
    assert relative(solution.loss_curve[-1], oracle.loss(W, Z, z0)) < 1e-8
    if method.startswith("J"):
        start = np.eye(6 + fit_intercept)[:, pivots]
        at_start = oracle.loss(start, *oracle.z_step(start))
        assert relative(solution.loss_curve[0], at_start) < 1e-8


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("method", "setting"),
    [*(pair for pair in DEFINED if pair[0].startswith("J")), ("J12MCD", "SS"), ("J12CD", "SUP")],
)
def test_gradient_of_the_written_loss_vanishes_at_convergence(method, setting, fit_intercept):
    case = make_case(setting, d=5, seed=3)
    settings = Settings(Dropout(0.4), ridge=0.5, fit_intercept=fit_intercept)
    oracle = written(case, method, settings)
    solution = solved(case, method, settings, max_iter=5000, tol=0)
    assert solution.converged
    W, Z, z0 = full_map(solution), solution.Z, solution.predictor_intercept()
    start = np.eye(len(W))[:, :5]
    scale = np.linalg.norm(numerical_gradient(lambda V: oracle.loss(V, Z, z0), start))
    assert np.linalg.norm(numerical_gradient(lambda V: oracle.loss(V, Z, z0), W)) < 1e-6 * scale
    assert np.linalg.norm(numerical_gradient(lambda V: oracle.loss(W, V, z0), Z)) < 1e-6 * scale
    if fit_intercept:
        by_z0 = numerical_gradient(lambda v: oracle.loss(W, Z, v), z0)
        assert np.linalg.norm(by_z0) < 1e-6 * scale
    # The test can fail: a small move away from the solution is seen.
    moved = numerical_gradient(lambda V: oracle.loss(V, Z, z0), 1.001 * W)
    assert np.linalg.norm(moved) > 1e-5 * scale


@pytest.mark.parametrize("method", ["S1", "S1M", "S1C", "S1D", "S1MCD"])
def test_gradient_of_sequential_models_vanishes(method):
    case = make_case("SS", d=5, seed=4)
    settings = Settings(Gaussian(0.6), ridge=0.5)
    oracle = written(case, method, settings)
    solution = solved(case, method, settings)
    W, Z, z0 = full_map(solution), solution.Z, solution.predictor_intercept()
    scale = np.linalg.norm(numerical_gradient(lambda V: oracle.loss(V, Z, z0), np.eye(6)[:, :5]))
    assert np.linalg.norm(numerical_gradient(lambda V: oracle.loss(V, Z, z0), W)) < 1e-9 * scale
    by_Z = numerical_gradient(lambda V: oracle.class_loss(W, V, z0), Z)
    assert np.linalg.norm(by_Z) < 1e-9 * scale


@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["J12", "J12M", "J12CD"])
def test_loss_curve_never_rises_and_is_the_written_loss(method, fit_intercept, solver):
    case = make_case("SS", seed=5)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    oracle = written(case, method, settings)
    solution = solved(case, method, settings, solver, max_iter=6, tol=0)
    curve = np.array(solution.loss_curve)
    assert solution.n_iter == 6
    assert len(curve) == 7
    assert (np.diff(curve) <= 1e-9 * curve[0]).all()
    assert curve[-1] < 0.9 * curve[0]
    start = np.eye(6 + fit_intercept)[:, :6]
    assert relative(curve[0], oracle.loss(start, *oracle.z_step(start))) < 1e-8
    for n_iter in (1, 2, 6):
        state = oracle.alternate(oracle.kronecker_step, n_iter)
        assert relative(curve[n_iter], oracle.loss(*state)) < 1e-8


def test_alternation_stops_at_tol_and_says_so():
    case = make_case("SS", seed=5)
    settings = Settings(Dropout(0.4))
    full = solved(case, "J12", settings, max_iter=500, tol=1e-6)
    assert full.converged
    assert full.n_iter < 500
    curve = full.loss_curve
    assert curve[-2] - curve[-1] <= 1e-6 * curve[-2]
    assert curve[-3] - curve[-2] > 1e-6 * curve[-3]
    cut = solved(case, "J12", settings, max_iter=2, tol=1e-6)
    assert not cut.converged
    assert cut.n_iter == 2


def test_how_long_it_alternates_unless_told():
    case = make_case("SS", seed=3)
    curve = solved(case, "J12", Settings(Dropout(0.4))).loss_curve
    assert len(curve) < 100
    assert curve[-2] - curve[-1] <= 1e-5 * curve[-2]
    assert curve[-3] - curve[-2] > 1e-5 * curve[-3]
    never = solved(case, "J12", Settings(Dropout(0.4)), tol=-1.0)
    assert never.n_iter == 100
    assert not never.converged


def test_sup_closed_form_of_J12():
    """SUP, ω = 0: W = Q_l⁻¹(P_l + λ q X_lᵀY_l Zᵀ)(I + λ Z Zᵀ)⁻¹ (math.md §3)."""
    case = make_case("SUP", seed=6)
    settings = Settings(Dropout(0.4), ridge=0.0, class_loss_weight=0.7, fit_intercept=False)
    oracle = written(case, "J12", settings)
    assert relative(oracle.Q, oracle.Q_l) < 1e-15
    for n_iter in (1, 3):
        before = oracle.alternate(oracle.kronecker_step, n_iter - 1) if n_iter > 1 else None
        Z = oracle.z_step(np.eye(6))[0] if before is None else before[1]
        q, X = 0.6, case.X
        right = q * X.T @ X + 0.7 * q * X.T @ oracle.Y @ Z.T
        W = np.linalg.solve(oracle.Q_l, right) @ np.linalg.inv(np.eye(6) + 0.7 * Z @ Z.T)
        solution = solved(case, "J12", settings, max_iter=n_iter, tol=0)
        assert relative(full_map(solution), W) < 1e-8


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["J12", "J12C", "J12D", "J12CD"])
def test_where_all_rows_have_a_label_the_terms_share_Q(method, fit_intercept):
    """SUP without class weights: exact to 1e-9, in the end as after three alternations."""
    case = make_case("SUP", seed=31)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    oracle = written(case, method, settings)
    for n_iter in (3, 20):
        W, Z, _ = oracle.alternate(oracle.kronecker_step, n_iter)
        for solver in ("primal", "dual", "cg"):
            problem = problem_of(case, settings, solver)
            assert problem.class_term(*problem.identity_predictor).Q is problem.domain_term.Q
            solution = solved(case, method, settings, solver, max_iter=n_iter, tol=-1.0)
            assert relative(full_map(solution), W) < 1e-9, solver
            assert relative(solution.Z, Z) < 1e-9, solver
            assert solution.residual < 1e-9, solver


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["S1D", "J12D", "S1MD"])
def test_one_source_given_as_several_changes_nothing(method, fit_intercept, monkeypatch):
    """One column a domain at weight γ/2 is one ±1 column at weight γ (math.md §9)."""
    case = make_case("US", seed=8)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    plain = solved(case, method, settings, max_iter=2, tol=0)

    def as_several(moments):
        target = moments.domains < 0
        labels = np.where(np.stack([~target, target], 1), 1.0, -1.0)
        return DomainTargets(labels, np.array([-1.0, 1.0]), 0.5)

    monkeypatch.setattr("marda.problem.domain_targets", as_several)
    several = solved(case, method, settings, max_iter=2, tol=0)
    assert several.problem.domain_term.Z.shape == (6, 2)
    assert relative(full_map(several), full_map(plain)) < 1e-9
    assert relative(several.loss_curve, plain.loss_curve) < 1e-10


@pytest.mark.parametrize("method", ["S1M", "S1C", "J12MC"])
def test_two_copies_of_a_source_average_to_one(method):
    """MMD averages over sources: copies under two numbers have the same v, so the same W."""
    one = make_case("SS", n_source=18, n_target=18, seed=9)
    order = np.concatenate([np.flatnonzero(one.domain >= 0)] * 2 + [np.flatnonzero(one.domain < 0)])
    pooled = one.take(order)
    several = pooled._replace(domain=np.r_[np.repeat([0, 1], 18), pooled.domain[36:]])
    settings = Settings(**VARIED, marginalization="paper")  # the exact diagonal sees N_s
    split = solved(several, method, settings, max_iter=3, tol=0)
    whole = solved(pooled, method, settings, max_iter=3, tol=0)
    assert relative(full_map(split), full_map(whole)) < 1e-9


@pytest.mark.parametrize("method", ["S1C", "J12C", "J12MCD"])
def test_classes_missing_from_the_labelled_target_are_left_out(method):
    case = make_case("SS", seed=12)
    gone = (case.domain < 0) & (case.codes == 2)
    case = case.take(np.argsort(np.where(gone, 1, 0) + 2 * (case.codes < 0), kind="stable"))
    case.codes[(case.domain < 0) & (case.codes == 2)] = -1
    assert set(case.codes[case.domain < 0]) == {-1, 0, 1}
    settings = Settings(**VARIED)
    oracle = written(case, method, settings)
    assert len(oracle.pairs) == 2 + ("M" in method)
    W, Z, _ = oracle.alternate(oracle.kronecker_step, 2)
    solution = solved(case, method, settings, max_iter=2, tol=0)
    assert relative(full_map(solution), W) < 1e-8
    assert relative(solution.Z, Z) < 1e-8


@pytest.mark.parametrize("method", ["S1C", "J12C", "J12MCD"])
def test_a_source_that_lacks_a_class(method):
    case = make_case("SS", sources=2, seed=13)
    case = case.take(~((case.domain == 1) & (case.codes == 0)))
    assert set(case.codes[case.domain == 1]) == {1, 2}
    settings = Settings(**VARIED)
    oracle = written(case, method, settings)
    assert len(oracle.pairs) == 5 + 2 * ("M" in method)
    W, Z, _ = oracle.alternate(oracle.kronecker_step, 2)
    for solver in ("primal", "dual"):
        solution = solved(case, method, settings, solver, max_iter=2, tol=0)
        assert relative(full_map(solution), W) < 1e-8
        assert relative(solution.Z, Z) < 1e-8


@pytest.mark.parametrize("method", ["S1M", "S1D", "J12MD"])
def test_domain_terms_vanish_without_target_rows(method):
    case = make_case("SUP", seed=14)
    case = case._replace(domain=np.zeros_like(case.domain))
    settings = Settings(**VARIED)
    plain = "J12" if method.startswith("J") else "S1"
    with_terms = solved(case, method, settings, max_iter=2, tol=0)
    without = solved(case, plain, settings, max_iter=2, tol=0)
    assert relative(full_map(with_terms), full_map(without)) < 1e-12


def test_zero_predictor_leaves_S1():
    """λ = 0: the class term has no weight, and J12 is S1."""
    case = make_case("US", seed=15)
    settings = Settings(Dropout(0.3), class_loss_weight=0.0)
    joint = solved(case, "J12", settings, max_iter=3, tol=0)
    assert relative(full_map(joint), full_map(solved(case, "S1", settings))) < 1e-12


@pytest.mark.parametrize("method", ["S1M", "S1C", "S1D", "J12MCD"])
def test_no_domain_weight_leaves_the_plain_model(method):
    """γ = 0."""
    case = make_case("SS", seed=16)
    settings = Settings(Dropout(0.3), domain_loss_weight=0.0)
    plain = "J12" if method.startswith("J") else "S1"
    ours, without = (solved(case, m, settings, max_iter=3, tol=0) for m in (method, plain))
    assert relative(full_map(ours), full_map(without)) < 1e-10


def test_balanced_scaling_is_the_papers_times_the_number_of_rows():
    case = make_case("SS", seed=17)
    for method in ("S1M", "S1C", "J12MC"):
        balanced = Settings(Dropout(0.3), domain_loss_weight=0.5)
        paper = Settings(Dropout(0.3), domain_loss_weight=0.5 * 64, scaling="paper")
        a, b = (solved(case, method, s, max_iter=3, tol=0) for s in (balanced, paper))
        assert relative(full_map(a), full_map(b)) < 1e-12
    # The domain predictor is a sum over rows already: scaling leaves it alone.
    a, b = (solved(case, "S1D", Settings(Dropout(0.3), scaling=s)) for s in ("balanced", "paper"))
    assert relative(full_map(a), full_map(b)) < 1e-14


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("method", ["BL", "MCF", "S1M", "J12CD"])
def test_scores_through_denoised_rows(method, fit_intercept):
    """(X W + offset) Z + z₀ = X coefᵀ + intercept."""
    case = make_case("SS", seed=18)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    solution = solved(case, method, settings, max_iter=2, tol=0)
    denoised = case.X @ solution.matmul(np.eye(6))[:6] + solution.offset()
    coef, intercept = solution.coef()
    scores = denoised @ solution.Z + solution.predictor_intercept()
    np.testing.assert_allclose(scores, case.X @ coef.T + intercept, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("method", "pivots"),
    [("BL", None), ("MCF", None), ("S1MD", None), ("S1MD", [4, 0, 3]), ("J12CD", [4, 0, 3])],
)
def test_the_denoised_centre_is_where_the_map_puts_it(method, fit_intercept, pivots):
    """m W + offset; without a bias nothing is centred, and the origin stays."""
    pivots = None if pivots is None else np.array(pivots)
    case = make_case("SS", seed=20)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    solution = solved(case, method, settings, max_iter=2, tol=0, outputs=pivots)
    center = case.X.mean(0) if fit_intercept else np.zeros(6)
    W = solution.matmul(np.eye(6 if pivots is None else 3))[:6]
    np.testing.assert_allclose(solution.at_center(), center @ W + solution.offset(), atol=1e-10)
    assert solution.at_center().shape == solution.offset().shape == (W.shape[1],)
    assert solution.predictor_intercept().shape == (3,)


# What is not right is refused ---------------------------------------------------------------------


def terms_of(problem, model):
    return [problem.domain_term] if model.domain else []


def dense_residual(solution, terms):
    """(★) on the probes of the library and the Z step, with every matrix written out."""
    problem, den = solution.problem, solution.denoiser
    d, r, bias = den.n_features, den.n_outputs, int(den.bias)
    outputs = np.arange(d) if problem.outputs is None else problem.outputs
    S = problem.gram.dense()
    G = np.zeros((d + bias, d + bias))
    G[:d, :d] = den.system.dense()
    G[d:, d:] = problem.count
    P = np.zeros((d + bias, r))
    P[:d] = problem.scale[:, None] * S[:, outputs]
    W = solution.matmul(np.eye(r))
    left, right = G @ W, P
    for term in terms:
        left = left + term.weight * term.Q.dense() @ W @ term.Z @ term.Z.T
        right = right + term.weight * term.right_side() @ term.Z.T
    rng = np.random.default_rng(0)
    probes = [rng.standard_normal((r, 1))]
    if solution.basis.shape[1]:
        probes.append(solution.basis @ rng.standard_normal((solution.basis.shape[1], 1)))
    w = 1 / np.sqrt(np.diag(G))[:, None]
    found = [
        np.linalg.norm(w * ((left - right) @ v)) / np.linalg.norm(w * (right @ v)) for v in probes
    ]
    if solution.Z is not None:
        Q = problem.labelled.about_mean(np.eye(d))
        T = W[:d].T @ problem.labels_about_mean[0]
        off = W[:d].T @ Q @ W[:d] @ solution.Z + problem.ridge_class * solution.Z - T
        w = 1 / np.sqrt(np.diag(G)[outputs] + problem.ridge_class)[:, None]
        found.append(np.linalg.norm(w * off) / np.linalg.norm(w * T))
    return max(found)


@pytest.mark.parametrize("pivots", [None, np.array([4, 0, 3])], ids=["all", "pivots"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("wrong", ["W0", "delta", "Z"])
@pytest.mark.parametrize("method", ["S1", "S1MD"])
def test_the_residual_tells_what_is_wrong(method, wrong, fit_intercept, pivots, monkeypatch):
    """It is that of the written equations, whichever part of the answer is off."""
    case = make_case("SS", sources=2, seed=21)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    problem, model = problem_of(case, settings, outputs=pivots), parse_method(method)
    right = solve(problem, model, predictor=True)
    assert right.residual < 1e-12
    right.check()
    problem = problem_of(case, settings, outputs=pivots)
    den = problem.denoiser(model)
    rng = np.random.default_rng(1)
    if wrong == "W0":
        den.W0[...] *= 1 + 1e-3 * rng.standard_normal(den.W0.shape)
    elif wrong == "Z":
        K0 = den.predictor(problem.ridge_class)
        exact = K0.solve
        monkeypatch.setattr(K0, "solve", lambda B: 1.001 * exact(B))
    elif method == "S1":
        return  # there is no Δ
    else:
        coupled = den.solve_coupled
        monkeypatch.setattr(den, "solve_coupled", lambda *a: 1.01 * coupled(*a))
    solution = solve(problem, model, predictor=True)
    expected = dense_residual(solution, terms_of(problem, model))
    assert 1e-5 < expected < 1e-1
    assert solution.residual == pytest.approx(expected, rel=1e-6)
    with pytest.raises(
        InaccurateError, match=f"{method} by the 'primal' route is not right to six"
    ):
        solution.check()
    if wrong == "Z":  # without a predictor it does not matter
        assert solve(problem, model, predictor=False).residual < 1e-12


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
def test_the_error_is_the_worst_condition_of_what_was_solved(solver, fit_intercept):
    case = make_case("SS", seed=22)
    settings = Settings(**VARIED, fit_intercept=fit_intercept)
    for method in ("S1", "S1D"):
        problem, model = problem_of(case, settings, solver), parse_method(method)
        solution = solve(problem, model, predictor=True)
        den = problem.denoiser(model)
        conditions = [den.factor.condition, den.predictor(problem.ridge_class).condition]
        conditions += [term.condition for term in terms_of(problem, model)]
        assert solution.error > max(conditions) * np.finfo(float).eps * (1 - 1e-9)
        assert solution.error < 1e-9
        assert (solution.n_iter, solution.converged) == (1, True)
        alone = solve(problem_of(case, settings, solver), model, predictor=False)
        assert alone.Z is None
        assert alone.error <= solution.error


@pytest.mark.parametrize("worst", ["G", "K0", "the domain predictor"])
def test_any_condition_can_be_the_worst(worst):
    problem, model = problem_of(make_case("SS", seed=22), Settings(**VARIED)), parse_method("S1D")
    den = problem.denoiser(model)
    factor = den.plain if worst == "G" else den.predictor(problem.ridge_class)
    if worst in ("G", "K0"):
        factor._least = 0.0  # no bound
        factor.__dict__["condition"] = 1e7
    else:
        problem.__dict__["domain_term"] = dataclasses.replace(problem.domain_term, condition=1e7)
    solution = solve(problem, model, predictor=True)
    assert solution.error == pytest.approx(1e7 * np.finfo(float).eps)


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_a_condition_is_estimated_only_where_its_bound_might_refuse(solver, monkeypatch):
    """A bound counts up to 1e-9, rows far from the origin included: less than what is refused."""
    case, model = make_case("SS", seed=22), parse_method("S1")
    problem = problem_of(case, Settings(**VARIED), solver)
    bound = solve(problem, model, predictor=True).error / np.finfo(float).eps
    den = problem.denoiser(model)
    K0 = den.predictor(problem.ridge_class)
    assert bound == max(den.factor.bound, K0.bound) < problem.enough == 1e-9 / np.finfo(float).eps
    assert den.factor.condition <= den.factor.bound
    assert K0.condition <= K0.bound
    monkeypatch.setattr(type(problem), "offset_ratio", 1.01 * problem.enough / bound)
    estimated = solve(problem, model, predictor=True).error / np.finfo(float).eps
    assert max(den.factor.condition, K0.condition) <= estimated < bound


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_identity_is_checked_too(fit_intercept):
    case = make_case("SS", seed=23)
    problem = problem_of(case, Settings(**VARIED, fit_intercept=fit_intercept))
    model = parse_method("MCF")
    right = solve(problem, model, predictor=True)
    assert right.residual < 1e-13
    assert right.error == problem.identity_condition * np.finfo(float).eps
    assert right.n_iter == 1
    assert right.converged
    right.check()
    Z, z0 = problem.identity_predictor
    moved = Z * (1 + 0.01 * np.random.default_rng(2).standard_normal(Z.shape))
    problem.__dict__["_identity"] = (moved, z0, 1.0)
    wrong = solve(problem, model, predictor=True)
    B = problem.labels_about_mean[0]
    off = problem.labelled.about_mean(moved) + problem.ridge_class * moved - B
    w = 1 / np.sqrt(problem.diagonal_labelled + problem.ridge_class)[:, None]
    expected = np.linalg.norm(w * off) / np.linalg.norm(w * B)
    assert wrong.residual == pytest.approx(expected, rel=1e-9)
    with pytest.raises(InaccurateError):
        wrong.check()
    none = solve(problem, model, predictor=False)
    assert (none.Z, none.z0, none.loss_curve) == (None, None, [])
    assert (none.residual, none.error, none.n_iter, none.converged) == (0.0, 0.0, 1, True)


def test_six_digits_are_the_border():
    case = make_case("SS", seed=24)
    solution = solved(case, "S1", Settings(Dropout(0.3)))
    for name in ("residual", "error"):
        dataclasses.replace(solution, **{name: 1e-6}).check()
        with pytest.raises(InaccurateError) as error:
            dataclasses.replace(solution, **{name: 1.1e-6}).check()
        assert "from the origin" not in str(error.value)
        assert "fit_intercept=True" not in str(error.value)
    # Without a bias the border moves with the distance of the rows from the origin.
    far = case._replace(X=case.X + 1000)
    solution = solved(far, "S1", Settings(Dropout(0.3), fit_intercept=False))
    ratio = solution.problem.offset_ratio
    assert 100 < ratio < 1e4
    for name in ("residual", "error"):
        exact = dataclasses.replace(solution, residual=0.0, error=0.0)
        dataclasses.replace(exact, **{name: 0.9e-6 / ratio}).check()
        with pytest.raises(
            InaccurateError, match=r"of rows \de\+\d+ times.*use fit_intercept=True"
        ):
            dataclasses.replace(exact, **{name: 1.1e-6 / ratio}).check()


@pytest.mark.parametrize(
    ("solver", "method"), [("primal", "J12D"), ("dual", "J12"), ("dual", "J12D")]
)
def test_an_alternation_whose_steps_are_not_exact_is_refused(solver, method, monkeypatch):
    case = make_case("SS", seed=25)
    settings = Settings(**VARIED)
    right = solved(case, method, settings, solver, max_iter=3, tol=0)
    right.check()
    assert right.error < 1e-7
    monkeypatch.setattr(denoiser_module, "CG_TOL", 1e-2)
    sloppy = solved(case, method, settings, solver, max_iter=3, tol=0)
    assert sloppy.error > 1e-6
    with pytest.raises(InaccurateError):
        sloppy.check()


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_an_alternation_is_refused_for_its_predictor(solver, monkeypatch):
    """Z is corrected once by what is left of its equation; how large that is bounds the error."""
    case = make_case("SS", seed=26)
    settings, model = Settings(**VARIED), parse_method("J12")
    exact = solve(problem_of(case, settings, solver), model, predictor=True, max_iter=2, tol=0)
    problem = problem_of(case, settings, solver)
    K0 = problem.denoiser(model).predictor(problem.ridge_class)
    for name in ("solve", "solve_labels") if solver == "dual" else ("solve",):
        true = getattr(K0, name)
        monkeypatch.setattr(K0, name, lambda *a, true=true: (1 + 1e-5) * true(*a))
    off = solve(problem, model, predictor=True, max_iter=2, tol=0)
    assert exact.error < 1e-9
    assert 1e-5 < off.error < 1e-2
    # The correction removes nearly all of it.
    assert relative(off.Z, exact.Z) < 1e-5
    with pytest.raises(InaccurateError, match="J12 by the"):
        off.check()


def test_the_basis_of_the_predictors():
    """U is orthonormal, spans all Z_k and counts a direction once; S_k = a_k UᵀZ_kZ_kᵀU."""
    case = make_case("SS", sources=2, seed=27)
    problem = problem_of(case, Settings(**VARIED))
    domain = problem.domain_term
    Z, z0 = problem.identity_predictor
    label = problem.class_term(Z, z0)
    twice = dataclasses.replace(domain, Z=np.hstack([domain.Z, domain.Z]))
    nothing = dataclasses.replace(domain, Z=0 * domain.Z)
    for terms, rank in (
        ([domain], 2),
        ([label], 2),  # one-vs-rest labels about their mean sum to zero
        ([label, domain], 4),
        ([twice], 2),
        ([nothing], 0),
    ):
        U, couplings, combined = _basis(terms, 6, np.zeros(6))
        np.testing.assert_allclose(np.hstack([t.Z for t in terms]) @ combined, U, atol=1e-12)
        assert U.shape == (6, rank)
        np.testing.assert_allclose(U.T @ U, np.eye(rank), atol=1e-12)
        for term, S in zip(terms, couplings, strict=True):
            np.testing.assert_allclose(U @ (U.T @ term.Z), term.Z, atol=1e-12)
            expected = term.weight * (U.T @ term.Z) @ (U.T @ term.Z).T
            np.testing.assert_allclose(S, expected, atol=1e-12)
    U, couplings, _ = _basis([], 6, np.zeros(6))
    assert U.shape == (6, 0)
    assert couplings == []


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
def test_the_equation_on_the_basis(solver, repeated):
    """left(solve(R)) = R for any R, one term or two, and Δ of (★U) makes (★) hold."""
    case = make_case("SS", sources=2, seed=28)
    problem = problem_of(case, Settings(**VARIED), solver)
    den = problem.denoiser(parse_method("J12MD"))
    label = problem.class_term(*problem.identity_predictor)
    for terms in ([label], [problem.domain_term], [label, problem.domain_term]):
        if repeated and terms == [problem.domain_term]:
            continue  # the banded form is of labelled rows; this term comes alone only once
        on_basis = _OnBasis.of(den, terms, repeated=repeated)
        R = np.random.default_rng(2).standard_normal(on_basis.right.shape)
        for right in (R, on_basis.right):
            delta = on_basis.solve(right)
            known = delta, den.matmul(delta), den.centred(delta)
            written = den.matmul(delta)
            for term, S in zip(terms, on_basis.couplings, strict=True):
                written = written + term.Q.matmul(delta @ S)
            assert relative(on_basis.left(known), written) < 1e-12
            assert relative(written, right) < 1e-7
        delta, U = on_basis.solve(on_basis.right), on_basis.U
        W = den.map(np.eye(6)) + delta @ U.T
        left, right = den.matmul(W), den.target(np.eye(6))
        for term in terms:
            left = left + term.weight * term.Q.matmul(W @ term.Z) @ term.Z.T
            right = right + term.weight * term.right_side() @ term.Z.T
        assert relative(left, right) < 1e-7


def test_where_the_last_answers_point_to():
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((5, 2)))[0]
    first, second = rng.standard_normal((2, 4, 2))
    assert _extrapolated([], turn) is None
    np.testing.assert_allclose(_extrapolated([(first, turn)], turn), first)
    old = [(9 * first, turn), (first, turn), (second, -turn)]  # the sign of a basis is free
    np.testing.assert_allclose(_extrapolated(old, turn), -2 * second - first)


def test_ways_to_the_equation_on_the_basis(monkeypatch):
    """Terms of one Q on the primal route: one banded form serves all; else iteration."""
    told = []
    for setting, solver, repeated, both in (
        ("SS", "primal", True, False),
        ("SUP", "primal", True, True),
        ("SS", "primal", True, True),
        ("SS", "primal", False, False),
        ("SS", "dual", True, False),
        ("SS", "dual", False, False),
    ):
        problem = problem_of(make_case(setting, seed=29), Settings(**VARIED), solver)
        den = problem.denoiser(parse_method("J12"))
        terms = [problem.class_term(*problem.identity_predictor)]
        terms += [problem.domain_term] if both else []
        monkeypatch.setattr(den, "solve_coupled", lambda *a: told.append(a[3]) or a[1])
        on_basis = _OnBasis.of(den, terms, repeated=repeated)
        on_basis.solve(on_basis.right)
    assert told == [ALTERNATIONS, 1, ALTERNATIONS, 1]


def test_relative_sizes():
    right, off, w = np.array([[3.0], [0.0]]), np.array([[0.0], [2.0]]), np.array([1.0, 0.5])
    assert _relative(off, right, w) == pytest.approx(1 / 3)
    assert _relative(off, 0 * right, w) == pytest.approx(1.0)  # nothing to compare with


@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_the_last_step_of_an_alternation_is_made_once_more(solver, monkeypatch):
    """Steps that are right to four digits leave an answer that is right to more."""
    case, settings = make_case("SS", seed=30), Settings(**VARIED)
    monkeypatch.setattr(denoiser_module, "CG_TOL", 1e-4)
    solution = solved(case, "J12D", settings, solver, max_iter=3, tol=0)
    assert solution.residual < 1e-8
    assert 1e-6 < solution.error < 1e-1


@pytest.mark.parametrize("method", ["S1", "S1D"])
def test_labels_reach_the_predictor_through_the_rows(method, monkeypatch):
    """W₀ᵀT loses digits that the rows keep: the dual route must not solve for it."""
    case, model = make_case("SS", seed=31), parse_method(method)
    right = solved(case, method, Settings(**VARIED), "dual")
    problem = problem_of(case, Settings(**VARIED), "dual")
    K0 = problem.denoiser(model).predictor(problem.ridge_class)

    def refuse(_):
        raise AssertionError("solved for W₀ᵀT")

    monkeypatch.setattr(K0, "solve", refuse)
    assert relative(solve(problem, model, predictor=True).Z, right.Z) < 1e-13
