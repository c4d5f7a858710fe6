"""W₀, its trace, the class predictor's matrix and (★) on U: three routes, one answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda._arrays import SingularError
from marda.noise import Dropout
from marda.operators import denoiser as denoisers
from marda.operators import iterative
from marda.operators.denoiser import Coupling
from marda.operators.iterative import PivotDenoiser
from marda.operators.linear import RowGram
from marda.problem import Problem, Settings
from marda.terms import parse_method
from problems import make_case, moments_of, relative, rows_of

ROUTES = ["primal", "dual", "cg", "cg, many rows"]
PIVOTS = np.array([0, 2, 5])
VARIANTS = {
    "tall": {"d": 6},
    "wide": {"d": 40, "n": 30},
    "weighted": {"d": 6, "weights": np.array([1.0, 2.0, 0.5])},
    "weighted above one, wide": {"d": 40, "n": 30, "weights": np.array([4.0, 2.0, 3.0])},
    "sparse": {"d": 8, "sparse": True},
    "mmd": {"d": 8, "method": "S1MC"},
    "pivots": {"d": 8, "outputs": PIVOTS},
    "pivots with mmd": {"d": 8, "outputs": PIVOTS, "method": "S1MC"},
}


def denoiser(
    route, *, d, bias, n=64, weights=None, sparse=False, method="S1", outputs=None, single=False
):
    case = make_case("SS", d=d, sources=2, n_source=n // 2, n_target=n // 2, seed=1)
    settings = Settings(Dropout(np.linspace(0.1, 0.6, d)), ridge=0.4, fit_intercept=bias)
    X = sp.csr_array(case.X) if sparse else case.X
    moments = moments_of(case, class_grams=True)
    problem = Problem(
        moments,
        settings,
        route,
        np.ones(3) if weights is None else weights,
        **({} if route == "primal" else rows_of(case, moments, X)),
        outputs=outputs,
        single=single,
    )
    return problem.denoiser(parse_method(method))


@pytest.fixture(params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def bias(request):
    return request.param


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    """One route; "cg" with few rows has a preconditioner that it lacks with many."""
    if request.param == "cg, many rows":
        monkeypatch.setattr(iterative, "FEW_ROWS", 0)
    return request.param.partition(",")[0]


@pytest.fixture
def reference(variant, bias):
    """Dense matrices: G, P, Q_l, W₀ = G⁻¹P, all from the first principles of `SecondMoment`."""
    dense = denoiser("primal", **variant, bias=bias)
    d = dense.n_features
    outputs = np.arange(d) if dense.outputs is None else dense.outputs
    G = dense.system.dense()
    P = (dense.system.scale[:, None] * dense.system.gram.dense())[:, outputs]
    W0 = np.linalg.solve(G, P)
    Q = dense.labelled.dense()
    if bias:
        G = np.block([[G, np.zeros((d, 1))], [np.zeros((1, d)), dense.count * np.eye(1)]])
        W0, P = (
            np.vstack([W0, np.zeros((1, len(outputs)))]),
            np.vstack([P, np.zeros((1, len(outputs)))]),
        )
    return G, P, Q, W0


def test_W0_its_adjoint_and_trace(route, variant, bias, reference):
    G, P, _, W0 = reference
    den = denoiser(route, **variant, bias=bias)
    rng = np.random.default_rng(2)
    V, B = rng.standard_normal((W0.shape[1], 3)), rng.standard_normal((W0.shape[0], 3))
    assert relative(den.map(V), W0 @ V) < 1e-8
    assert relative(den.map_adjoint(B), W0.T @ B) < 1e-8
    assert relative(den.solve(B), np.linalg.solve(G, B)) < 1e-8
    assert relative(den.matmul(B), G @ B) < 1e-11
    assert relative(den.trace, np.trace(P.T @ W0)) < 1e-8


@pytest.mark.parametrize("route", ["primal", "dual"])
def test_float32_factors_give_the_same_map_to_four_digits(route, variant, bias, monkeypatch):
    monkeypatch.setattr(denoisers, "LEAST_SINGLE", 1)
    double, single = (denoiser(route, **variant, bias=bias, single=s) for s in (False, True))
    rng = np.random.default_rng(2)
    V = rng.standard_normal((double.n_outputs, 3))
    B = rng.standard_normal((double.n_features + bias, 3))
    assert relative(single.map(V), double.map(V)) < 1e-4
    assert relative(single.map_adjoint(B), double.map_adjoint(B)) < 1e-4
    assert relative(single.freeze().matmul(V), double.freeze().matmul(V)) < 1e-4
    if not len(double.system.extra):
        held = single.W0 if route == "primal" else single.factor.inverse
        assert held.dtype == np.float32 or single.outputs is not None


@pytest.mark.parametrize("empty", [True, False])
def test_the_image_of_labelled_moments_with_a_root_of_them_and_without(bias, empty, monkeypatch):
    """An empty labelled column has no root: the product itself is taken."""
    case = make_case("SS", d=6, seed=1)
    X = case.X.copy()
    X[:, 2] *= not empty
    settings = Settings(Dropout(0.3), ridge=0.4, fit_intercept=bias)
    problem = Problem(moments_of(case._replace(X=X)), settings, "primal", np.ones(3))
    den = problem.denoiser(parse_method("S1"))
    taken = []
    root_gram = denoisers.root_gram
    monkeypatch.setattr(denoisers, "root_gram", lambda *a: taken.append(0) or root_gram(*a))
    expected = den.W0.T @ problem.labelled.about_mean(den.W0)
    assert relative(np.tril(den._labelled_image()), np.tril(expected)) < 1e-13
    assert len(taken) == (not empty)


@pytest.mark.parametrize(("noise", "dtype"), [(0.3, np.float32), (3e-4, np.float64), (0, None)])
def test_single_precision_is_for_systems_that_keep_their_digits(noise, dtype, monkeypatch):
    """Columns that are the same, up to the noise: condition numbers of 10, of 1e4, and none."""
    monkeypatch.setattr(denoisers, "LEAST_SINGLE", 1)
    case = make_case("SS", d=6, seed=1)
    X = np.repeat(case.X[:, :3], 2, axis=1)
    settings = Settings(Dropout(noise), ridge=1e-12)

    def fitted():
        problem = Problem(
            moments_of(case._replace(X=X)), settings, "primal", np.ones(3), single=True
        )
        return problem.denoiser(parse_method("S1"))

    if dtype is None:
        with pytest.raises(SingularError):
            fitted()
    else:
        assert fitted().plain.L.dtype == dtype


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_denoised_rows_of_the_dual_route(bias, sparse, dtype):
    """(I − C⁻¹)X / q, without the vector of ones, is X W₀ (math.md §11)."""
    den, X = _wide(Dropout(0.7), bias, sparse)
    expected = X @ den.map(np.eye(40))[:40]
    order, level = np.random.default_rng(0).permutation(len(X)), np.linspace(0, 1, 40)
    found = den.denoised_rows(order, level, dtype)
    assert found.dtype == dtype
    assert relative(found[order], expected + level) < (1e-12 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize(
    ("noise", "method", "ridge"),
    [
        (Dropout(np.linspace(0.1, 0.6, 40)), "S1", 0.4),  # A is no multiple of the identity
        (Dropout(0.7), "S1M", 0.4),  # MMD terms mix rows
        (Dropout(0.7), "S1", 1e8),  # I − C⁻¹ would be rounding
    ],
)
def test_denoised_rows_are_applied_where_a_subtraction_would_not_do(noise, method, ridge):
    found = _wide(noise, True, False, method, ridge)[0]
    assert found.denoised_rows(np.arange(30), np.zeros(40), np.float64) is None


def _wide(noise, bias, sparse, method="S1", ridge=0.4):
    """A dual denoiser of 30 rows × 40 features, and its rows about their mean."""
    case = make_case("SS", d=40, sources=2, n_source=15, n_target=15, seed=1)
    moments = moments_of(case)
    rows = rows_of(case, moments, sp.csr_array(case.X) if sparse else case.X)
    settings = Settings(noise, ridge=ridge, fit_intercept=bias)
    problem = Problem(moments, settings, "dual", np.ones(3), **rows)
    X = case.X - problem.center
    return problem.denoiser(parse_method(method)), X


def test_predictor(route, variant, bias, reference):
    """K₀ = W₀ᵀ(Q_l − uuᵀ/n_l)W₀ + δI."""
    _, _, Q, W0 = reference
    if bias:
        Q = Q - np.outer(Q[:, -1], Q[-1]) / Q[-1, -1]
    K = W0.T @ Q @ W0 + 0.7 * np.eye(W0.shape[1])
    den = denoiser(route, **variant, bias=bias)
    factor = den.predictor(0.7)
    assert den.predictor(0.7) is factor
    B = np.random.default_rng(3).standard_normal((len(K), 3))
    assert relative(factor.solve(B), np.linalg.solve(K, B)) < 1e-7


@pytest.mark.parametrize("coupling", ["labelled", "all rows", "both"])
def test_solve_coupled(route, variant, bias, reference, coupling):
    """G V + Q_l V S_l + Q V S = R, with and without a start, against a Kronecker system."""
    G, _, Q_l, _ = reference
    den = denoiser(route, **variant, bias=bias)
    d = den.n_features
    Q = den.system.scale[:, None] * den.system.gram.dense() * den.system.scale
    Q += np.diag(den.variance)
    if bias:
        Q = np.block([[Q, np.zeros((d, 1))], [np.zeros((1, d)), den.count * np.eye(1)]])
    rng = np.random.default_rng(4)
    A = rng.standard_normal((3, 2))
    S_l = 0.8 * A @ A.T if coupling != "all rows" else np.zeros((3, 3))
    S = np.outer([1.0, -0.5, 2.0], [1.0, -0.5, 2.0]) if coupling != "labelled" else np.zeros((3, 3))
    R = rng.standard_normal((len(G), 3))
    full = np.kron(np.eye(3), G) + np.kron(S_l, Q_l) + np.kron(S, Q)
    V = np.linalg.solve(full, R.T.ravel()).reshape(3, -1).T
    assert relative(den.solve_coupled(Coupling(S_l, S), R), V) < 1e-7
    start = V + 0.1 * rng.standard_normal(V.shape)
    held = start.copy()
    assert relative(den.solve_coupled(Coupling(S_l, S), R, start), V) < 1e-7
    np.testing.assert_array_equal(start, held)


@pytest.mark.parametrize("method", ["S1", "S1MC"])
@pytest.mark.parametrize("bias", [True, False])
def test_labelled_systems_are_solved_column_by_column(method, bias):
    den = denoiser("primal", d=6, bias=bias, method=method)
    G, Q_l = (product(np.eye(6 + bias)) for product in (den.matmul, den.labelled.matmul))
    strengths = np.array([0.0, 0.3, 7.0, 1e4])
    R = np.random.default_rng(6).standard_normal((6 + bias, 4))
    found = den.solve_labelled(strengths, R)
    for i, s in enumerate(strengths):
        wanted = np.linalg.solve(G + s * Q_l, R[:, i])
        np.testing.assert_allclose(found[:, i], wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max())


def test_models_with_the_same_G_share_it():
    case = make_case("SS", seed=1)
    settings = Settings(Dropout(0.3))
    problem = Problem(moments_of(case), settings, "primal", np.ones(3))
    assert problem.denoiser(parse_method("S1")) is problem.denoiser(parse_method("J12D"))
    assert problem.denoiser(parse_method("S1M")) is not problem.denoiser(parse_method("S1"))


def test_cg_holds_W0_only_for_pivots():
    assert isinstance(denoiser("cg", d=8, bias=True, outputs=PIVOTS), PivotDenoiser)
    plain = denoiser("cg", d=8, bias=True)
    assert not hasattr(plain, "W0")


@pytest.mark.parametrize(
    ("route", "message"), [("dual", "ridge_class=0"), ("cg", "ridge_class > 0")]
)
def test_routes_through_rows_need_a_class_ridge(route, message):
    with pytest.raises(ValueError, match=message):
        denoiser(route, d=6, bias=True).predictor(0.0)


@pytest.mark.parametrize("route", ["primal", "dual"])
def test_a_good_start_is_used(route, monkeypatch):
    """The alternation starts every step from where the last two answers point."""
    den = denoiser(route, d=6, bias=True)
    rng = np.random.default_rng(5)
    A = rng.standard_normal((3, 3))
    terms = Coupling(A @ A.T, np.outer([1.0, 2.0, 0.5], [1.0, 2.0, 0.5]))
    R = rng.standard_normal((7, 3))
    answer = den.solve_coupled(terms, R)
    calls = []
    solve = den._solve_shifted
    monkeypatch.setattr(den, "_solve_shifted", lambda *a: calls.append(1) or solve(*a))
    den.solve_coupled(terms, R)
    cold = len(calls)
    calls.clear()
    den.solve_coupled(terms, R, answer)
    assert len(calls) <= 2 < cold


def dense_Q(den):
    """Q with its bias, from the system's Gram."""
    a, d = den.system.scale, den.n_features
    Q = np.zeros((d + den.bias, d + den.bias))
    Q[:d, :d] = a[:, None] * den.system.gram.dense() * a + np.diag(den.variance)
    Q[d:, d:] = den.count
    return Q


def test_diagonal_target_and_centred_moments(route, variant, bias, reference):
    G, P, Q_l, _ = reference
    den = denoiser(route, **variant, bias=bias)
    np.testing.assert_allclose(den.diagonal, np.diag(G), rtol=1e-10)
    rng = np.random.default_rng(6)
    V, B = rng.standard_normal((P.shape[1], 2)), rng.standard_normal((len(G), 2))
    assert relative(den.target(V), P @ V) < 1e-11
    if bias:
        Q_l = Q_l - np.outer(Q_l[:, -1], Q_l[-1]) / Q_l[-1, -1]
    np.testing.assert_allclose(den.centred(B), Q_l @ B, atol=1e-9)


@pytest.mark.parametrize("route", ["primal", "dual"])
def test_shifted_systems(route, variant, bias, reference):
    """(G − θE + s Q_l)⁻¹ of each column's own (s, θ), E = G − Q."""
    G, _, Q_l, _ = reference
    den = denoiser(route, **variant, bias=bias)
    E = G - dense_Q(den)
    shifts = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 0.6], [3.0, 0.6], [7.0, 0.9], [3.0, 0.0]])
    B = np.random.default_rng(7).standard_normal((len(G), len(shifts)))
    held = B.copy()
    found = den._solve_shifted(shifts, B)
    for column, (s, theta) in enumerate(shifts):
        expected = np.linalg.solve(G - theta * E + s * Q_l, B[:, column])
        assert relative(found[:, column], expected) < 1e-7
    assert relative(den._solve_shifted(shifts, B), found) < 1e-12  # from what is kept
    np.testing.assert_array_equal(B, held)


@pytest.mark.parametrize("repeat", [False, True], ids=["rows differ", "rows repeat"])
def test_row_space_predictor(variant, bias, repeat):
    """K₀⁻¹ of W₀ᵀA X_lᵀ diag(w)Y and others, also where rows repeat and XXᵀ is singular."""
    case = make_case("SS", d=variant["d"], sources=2, n_source=15, n_target=15, seed=1)
    if repeat:
        case.X[1], case.X[20:23] = case.X[0], case.X[19]
    weights = variant.get("weights", np.ones(3))
    noise = Dropout(np.linspace(0.0, 0.6, variant["d"]))  # a feature without noise among others
    settings = Settings(noise, ridge=0.4, fit_intercept=bias)
    moments = moments_of(case, class_grams=True)
    outputs = variant.get("outputs")
    problem = Problem(moments, settings, "dual", weights, **rows_of(case, moments), outputs=outputs)
    den = problem.denoiser(parse_method(variant.get("method", "S1")))
    d = den.n_features
    columns = np.arange(d) if outputs is None else outputs
    P = (den.system.scale[:, None] * den.system.gram.dense())[:, columns]
    W0 = np.linalg.solve(den.system.dense(), P)
    K = W0.T @ problem.labelled.about_mean(W0) + 0.7 * np.eye(len(columns))
    right, Y, _ = problem.labels_about_mean
    factor = den.predictor(0.7)
    rng = np.random.default_rng(8)
    B = rng.standard_normal((len(K), Y.shape[1] + 2))
    assert relative(factor.solve_labels(Y), np.linalg.solve(K, W0.T @ right)) < 1e-8
    assert relative(factor.solve(B), np.linalg.solve(K, B)) < 1e-8
    inside = W0.T @ den.system.gram.matmul(W0 @ B)  # columns in the row space
    assert relative(factor.solve(inside), np.linalg.solve(K, inside)) < 1e-8
    V = rng.standard_normal((d + den.bias, 3))
    sides, solved = den.solve_sides(0.7, B, V)
    assert relative(sides, np.hstack([B, W0.T @ V[:d]])) < 1e-8
    assert relative(solved, np.linalg.solve(K, sides)) < 1e-8
    assert 1 <= factor.condition < 1e6


@pytest.mark.parametrize("ridge", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("outputs", [None, PIVOTS], ids=["all", "pivots"])
def test_the_diagonal_of_W0_keeps_its_digits(ridge, outputs):
    """I − G⁻¹D cancels where D is nearly all of G: every entry is right all the same."""
    case = make_case("SS", d=6, seed=9)
    settings = Settings(Dropout(np.linspace(0.0, 0.9, 6)), ridge=ridge)
    problem = Problem(moments_of(case), settings, "primal", np.ones(3), outputs=outputs)
    den = problem.denoiser(parse_method("S1"))
    columns = np.arange(6) if outputs is None else outputs
    P = den.system.scale[:, None] * den.system.gram.dense()
    exact = np.linalg.solve(den.system.dense(), P)[:, columns]
    on_diagonal = columns, np.arange(len(columns))
    np.testing.assert_allclose(den.W0[on_diagonal], exact[on_diagonal], rtol=1e-11)
    np.testing.assert_allclose(den.W0, exact, rtol=1e-6)
    assert den.trace == pytest.approx(np.vdot(P[:, columns], exact), rel=1e-11)


@pytest.mark.parametrize("route", ["primal", "dual"])
def test_one_equation_is_solved_until_it_holds(route, bias):
    """A single solve computes its residual anew; a strong coupling takes more than one descent."""
    den = denoiser(route, d=8, bias=bias, method="S1MC")
    rng = np.random.default_rng(10)
    A = rng.standard_normal((3, 3))
    terms = Coupling(1e4 * A @ A.T, 1e6 * np.outer([1.0, 2.0, 0.5], [1.0, 2.0, 0.5]))
    R = rng.standard_normal((8 + bias, 3))
    V = den.solve_coupled(terms, R)
    Q = dense_Q(den)
    left = den.matmul(V) + den.labelled.matmul(V @ terms.labelled) + Q @ V @ terms.all_rows
    assert relative(left, R) < 1e-5
    G = den.matmul(np.eye(8 + bias))
    full = np.kron(np.eye(3), G) + np.kron(terms.labelled, den.labelled.dense())
    full += np.kron(terms.all_rows, Q)
    exact = np.linalg.solve(full, R.T.ravel()).reshape(3, -1).T
    assert relative(V, exact) < 1e-6


@pytest.mark.parametrize("outputs", [None, PIVOTS], ids=["all", "pivots"])
def test_columns_of_the_iterative_route_come_in_blocks(outputs, monkeypatch):
    whole = denoiser("cg", d=8, bias=True, outputs=outputs)
    trace = whole.trace
    W0 = whole.map(np.eye(whole.n_outputs))
    monkeypatch.setattr(iterative, "COLUMN_BLOCK", 3)
    blocks = denoiser("cg", d=8, bias=True, outputs=outputs)
    assert blocks.trace == pytest.approx(trace, rel=1e-9)
    np.testing.assert_allclose(blocks.map(np.eye(whole.n_outputs)), W0, atol=1e-9)
    with pytest.raises(TypeError, match="no factorisations"):
        blocks._solve_shifted(np.zeros((1, 2)), np.zeros((9, 1)))


@pytest.mark.parametrize(
    ("n", "limit", "noise", "ridge", "few"),
    [
        (30, 1024, 0.3, 0.4, True),
        (40, 1024, 0.3, 0.4, True),
        (42, 1024, 0.3, 0.4, False),
        (30, 30, 0.3, 0.4, True),
        (30, 29, 0.3, 0.4, False),
        # A positive diagonal, of noise or of the ridge, in every feature
        (30, 1024, 0.3, 0.0, True),
        (30, 1024, 0.0, 0.4, True),
        (30, 1024, 0.0, 0.0, False),
        (30, 1024, np.arange(40) % 2 * 0.3, 0.0, False),
    ],
)
def test_few_rows_have_the_row_space_as_preconditioner(n, limit, noise, ridge, few, monkeypatch):
    monkeypatch.setattr(iterative, "FEW_ROWS", limit)
    case = make_case("SS", d=40, sources=2, n_source=n // 2, n_target=n // 2, seed=1)
    moments = moments_of(case)
    settings = Settings(Dropout(noise), ridge=ridge)
    problem = Problem(moments, settings, "cg", np.ones(3), **rows_of(case, moments))
    den = problem.denoiser(parse_method("S1"))
    assert (den.row_space is not None) == few
    assert den.factor.near is (den.row_space.factor if few else None)
    assert den.factor.tol == (iterative.REFINED_TOL if few else iterative.FACTOR_TOL)


@pytest.mark.parametrize("outputs", [None, PIVOTS], ids=["all", "pivots"])
@pytest.mark.parametrize("method", ["S1", "S1MC"])
def test_few_rows_take_few_steps(bias, method, outputs, monkeypatch):
    """G, K₀ and (★) in a handful of products where the diagonal takes tens of them."""
    counts = {}
    for limit in (1024, 0):
        monkeypatch.setattr(iterative, "FEW_ROWS", limit)
        den = denoiser("cg", d=50, n=40, bias=bias, method=method, outputs=outputs)
        calls = []
        multiply = den.system.gram.matmul

        class Counted(RowGram):
            def matmul(self, V, calls=calls, multiply=multiply):
                calls.append(1)
                return multiply(V)

        object.__setattr__(den.system, "gram", Counted(den.system.gram.rows))
        den.solve(np.random.default_rng(5).standard_normal((50 + bias, 3)))
        counts[limit] = [len(calls)]
        if outputs is None:
            calls.clear()
            den.predictor(0.7).solve(np.random.default_rng(6).standard_normal((50, 3)))
            counts[limit].append(len(calls))
    assert counts[1024][0] <= 3
    assert counts[1024][0] * 5 < counts[0][0]
    if outputs is None:
        assert counts[1024][1] <= 20
        assert counts[1024][1] * 20 < counts[0][1]


def test_a_coupled_system_of_few_rows_is_solved_in_their_space(monkeypatch):
    den = denoiser("cg", d=40, n=30, bias=True)
    rng = np.random.default_rng(7)
    A, R = rng.standard_normal((3, 3)), rng.standard_normal((41, 3))
    terms, start = Coupling(A @ A.T, np.zeros((3, 3))), rng.standard_normal((41, 3))
    asked = []
    solve = den.row_space.solve_coupled
    monkeypatch.setattr(den.row_space, "solve_coupled", lambda *a: asked.append(a) or solve(*a))
    V = den.solve_coupled(terms, R, start, 7)
    assert relative(den.matmul(V) + den.labelled.matmul(V @ terms.labelled), R) < 1e-7
    assert len(asked) == 1
    assert asked[0][2] is start
    assert asked[0][3] == 7


@pytest.mark.parametrize("limit", [1024, 0])
@pytest.mark.parametrize("shape", [(30, 40), (40, 40), (64, 40)])
def test_the_trace_takes_a_solve_per_row_or_feature_whichever_are_fewer(shape, limit, monkeypatch):
    n, d = shape
    monkeypatch.setattr(iterative, "FEW_ROWS", limit)
    monkeypatch.setattr(iterative, "COLUMN_BLOCK", 7)
    den = denoiser("cg", d=d, n=n, bias=True)
    columns = []
    solve = den.factor.solve
    monkeypatch.setattr(den.factor, "solve", lambda B: columns.append(B.shape[1]) or solve(B))
    assert den.trace == pytest.approx(denoiser("primal", d=d, n=n, bias=True).trace, rel=1e-9)
    assert sum(columns) == min(n, d)
    assert max(columns) == 7


def test_condition_of_a_predictor_of_few_rows(bias):
    """That of the row space: a preconditioned iteration sees no more than its preconditioner."""
    den = denoiser("cg", d=40, n=30, bias=bias)
    factor = den.predictor(0.7)
    assert factor.condition == den.row_space.predictor(0.7).condition > 1
    factor.solve(np.random.default_rng(11).standard_normal((40, 4)))
    assert factor.condition == pytest.approx(den.row_space.predictor(0.7).condition)


def test_condition_of_an_iterated_predictor(bias):
    """The extreme eigenvalues of K₀, and the largest that any solve has seen."""
    den = denoiser("cg", d=6, bias=bias)
    factor = den.predictor(0.7)
    assert factor.condition == 1.0
    K = factor.matmul(np.eye(6))
    factor.solve(np.random.default_rng(11).standard_normal((6, 4)))
    assert factor.condition == pytest.approx(np.linalg.cond(K), rel=0.05)
    seen = factor.condition
    factor.solve(np.zeros((6, 1)))
    assert factor.condition == seen


def test_a_predictor_does_not_keep_its_denoiser_alive():
    import gc
    import weakref

    den = denoiser("cg", d=6, bias=True)
    den.predictor(0.7)
    gone = weakref.ref(den)
    gc.disable()
    try:
        del den
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("route", ["primal", "dual"])
def test_many_equations_need_no_check_of_each(route, monkeypatch):
    """An alternation goes on from where a step ends; a single solve looks at its residual."""
    den = denoiser(route, d=8, bias=True)
    rng = np.random.default_rng(12)
    A = rng.standard_normal((3, 3))
    terms, R = Coupling(A @ A.T, np.zeros((3, 3))), rng.standard_normal((9, 3))
    calls = []
    solve = den._solve_shifted
    monkeypatch.setattr(den, "_solve_shifted", lambda *a: calls.append(1) or solve(*a))
    one = den.solve_coupled(terms, R)
    single = len(calls)
    calls.clear()
    many = den.solve_coupled(terms, R, None, 20)
    assert len(calls) < single
    assert relative(many, one) < 1e-8


def test_shifts_save_steps(monkeypatch):
    """A preconditioner near to the coupling needs a handful of steps where G alone takes many."""
    den = denoiser("primal", d=40, n=60, bias=True)
    rng = np.random.default_rng(13)
    A = rng.standard_normal((3, 3))
    terms, R = Coupling(30 * A @ A.T, np.zeros((3, 3))), rng.standard_normal((41, 3))
    counts = []
    solve = den._solve_shifted
    monkeypatch.setattr(den, "_solve_shifted", lambda *a: counts.append(1) or solve(*a))
    answers = []
    for pays in (True, False):
        monkeypatch.setattr(den, "_factor_pays", lambda *_, pays=pays: pays)
        counts.clear()
        answers.append((den.solve_coupled(terms, R), len(counts)))
    (near, few), (far, many) = answers
    assert relative(near, far) < 1e-7
    assert few < many
    assert few < 25


@pytest.mark.parametrize("pays", ["both", "shifts", "excess", "neither"])
@pytest.mark.parametrize("method", ["S1", "S1MC"])
@pytest.mark.parametrize("route", ["primal", "dual"])
def test_what_is_factorised_does_not_change_the_answer(route, method, pays, bias, monkeypatch):
    """s̄ or θ̄ is 0 where a factorisation would not pay; the rest is left to the steps."""
    den = denoiser(route, d=8, bias=bias, method=method)
    # θ̄ is asked for with one column, s̄ with as many as there are.
    answer = {"both": (True, True), "shifts": (True, False), "excess": (False, True)}
    shifts, excess = answer.get(pays, (False, False))
    monkeypatch.setattr(den, "_factor_pays", lambda _, n: excess if n == 1 else shifts)
    seen = []
    solve = den._solve_shifted
    monkeypatch.setattr(den, "_solve_shifted", lambda s, B: seen.append(s) or solve(s, B))
    rng = np.random.default_rng(14)
    A = rng.standard_normal((3, 3))
    one = np.array([[1.0, -0.5, 2.0]])
    terms, R = Coupling(3 * A @ A.T, 5 * one.T @ one), rng.standard_normal((8 + bias, 3))
    V = den.solve_coupled(terms, R)
    full = np.kron(np.eye(3), den.matmul(np.eye(8 + bias)))
    full += np.kron(terms.labelled, den.labelled.dense()) + np.kron(terms.all_rows, dense_Q(den))
    exact = np.linalg.solve(full, R.T.ravel()).reshape(3, -1).T
    assert relative(V, exact) < 1e-7
    used = np.unique(np.vstack(seen), axis=0)
    assert used[:, 0].any() == shifts
    assert used[:, 1].any() == excess
    assert (used >= 0).all()
    powers = np.log2(1 + used[:, 0])
    np.testing.assert_allclose(powers, np.round(powers), atol=1e-12)
    assert len(seen) < 120


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_what_rounding_leaves_outside_the_row_space_is_not_magnified(size, bias):
    """Elsewhere K₀ is δ alone: a tiny one must not divide what is only rounding."""
    den = denoiser("dual", d=40, n=30, bias=bias)
    factor = den.predictor(1e-10)
    rows = den.output_rows
    B = size * rows.tdot(np.random.default_rng(15).standard_normal((rows.shape[0], 3)))
    held = B.copy()
    solved = factor.solve(B)
    np.testing.assert_array_equal(B, held)
    U, s, _ = np.linalg.svd(rows.dot(np.eye(40)).T, full_matrices=False)
    U = U[:, s > 1e-10 * s[0]]
    outside = solved - U @ (U.T @ solved)
    assert np.linalg.norm(outside) < 1e-11 * np.linalg.norm(solved)
    # What does lie outside is divided by δ, and by nothing else.
    away = np.random.default_rng(16).standard_normal((40, 2))
    away -= U @ (U.T @ away)
    assert relative(factor.solve(size * away), size * away / 1e-10) < 1e-9
