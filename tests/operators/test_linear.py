"""A diagonal plus a Gram: products and solves by property, over a list of structures."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import lapack

from marda._arrays import InaccurateError
from marda.operators.linear import (
    CholeskyFactor,
    DenseGram,
    DiagonalPlusGram,
    IterativeFactor,
    RowFactor,
    RowGram,
    SecondMoment,
    SingularError,
    UpdatedFactor,
    condition_of,
    conjugate_gradients,
    inverse_norm,
    solve_together,
)
from marda.operators.rows import Rows

STRUCTURES = {
    "plain": {},
    "wide": {"n": 5, "d": 14},
    "tall": {"n": 30, "d": 4},
    "centred": {"center": True},
    "weighted": {"weights": True},
    "zero weights": {"weights": "some zero"},
    "sparse": {"sparse": True, "center": True},
    "extra rows": {"extra": 2},
    "everything": {"n": 6, "d": 11, "center": True, "weights": True, "sparse": True, "extra": 3},
}


def structure(n=12, d=8, center=False, weights=None, sparse=False, extra=0, seed=0):
    """A system D + A S A + EᵀE held by rows, and the same as an explicit matrix."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    m = rng.standard_normal(d) if center else np.zeros(d)
    w = None if not weights else rng.random(n)
    if weights == "some zero":
        w[::2] = 0
    D, a, B = rng.random(d) + 0.1, rng.random(d) + 0.2, rng.standard_normal((extra, n))
    rows = Rows(sp.csr_array(X) if sparse else X, m if center else None)
    C = (X - m) * a
    E = B @ C
    system = DiagonalPlusGram(D, a, RowGram(rows, w), E, B)
    explicit = np.diag(D) + (C.T * (1 if w is None else w)) @ C + E.T @ E
    return system, explicit


def factors(system):
    diagonal = np.diag(system.gram.dense())
    return {
        "cholesky": CholeskyFactor(system.dense()),
        "rows": RowFactor(system),
        "cg": IterativeFactor(system, diagonal, 1e-12),
        "cg, preconditioned": IterativeFactor(system, diagonal, 1e-12, near=RowFactor(system)),
    }


@pytest.mark.parametrize("name", STRUCTURES)
def test_factors_solve_and_multiply(name):
    system, G = structure(**STRUCTURES[name])
    B = np.random.default_rng(1).standard_normal((G.shape[0], 3))
    held = B.copy()
    np.testing.assert_allclose(system.dense(), G, atol=1e-12)
    np.testing.assert_allclose(system.matmul(B), G @ B, atol=1e-11)
    for factor in factors(system).values():
        np.testing.assert_allclose(factor.solve(B), np.linalg.solve(G, B), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(system.matmul(factor.solve(B)), B, atol=1e-9)
    np.testing.assert_array_equal(B, held)


@pytest.mark.parametrize("name", STRUCTURES)
def test_cholesky_inverse_and_factor(name):
    _, G = structure(**STRUCTURES[name])
    held = G.copy()
    factor = CholeskyFactor(G)
    np.testing.assert_array_equal(G, held)
    np.testing.assert_allclose(factor.inverse() @ G, np.eye(len(G)), atol=1e-9)
    L = np.tril(factor.L)
    np.testing.assert_allclose(L @ L.T, G, atol=1e-11)
    B = np.ones((len(G), 1))
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(G, B), rtol=1e-9)


@pytest.mark.parametrize("name", STRUCTURES)
def test_parts_of_a_factor_through_the_rows(name):
    """F, K = F D⁻¹Fᵀ, M = (I + NK)⁻¹ with N = I + BᵀB, and (D + FᵀNF)⁻¹Fᵀ = D⁻¹FᵀM."""
    system, G = structure(**STRUCTURES[name])
    factor = RowFactor(system)
    F = factor.F_dot(np.eye(G.shape[0]))
    U = np.random.default_rng(2).standard_normal((F.shape[0], 2))
    np.testing.assert_allclose(factor.F_tdot(U), F.T @ U, atol=1e-11)
    K = F / system.diagonal @ F.T
    np.testing.assert_allclose(factor.kernel, K, atol=1e-11)
    N = np.eye(len(K)) + factor.mixing.T @ factor.mixing
    np.testing.assert_allclose(F.T @ N @ F + np.diag(system.diagonal), G, atol=1e-10)
    M = np.linalg.inv(np.eye(len(K)) + N @ K)
    np.testing.assert_allclose(factor.core_matrix(), M, atol=1e-9)
    np.testing.assert_allclose(factor.core(U), M @ U, atol=1e-9)
    np.testing.assert_allclose(factor.core_adjoint(U), M.T @ U, atol=1e-9)
    np.testing.assert_allclose(factor.solve_rows(U), np.linalg.solve(G, F.T @ U), atol=1e-9)


def _single(sparse, scale=1.0, twins=False, n=60, d=90):
    """Float32 rows about a centre of their own, and the same system in float64 and in float32."""
    rng = np.random.default_rng(4)
    X = (scale * (rng.standard_normal((n, d)) + 0.5)).astype(np.float32)
    if twins:
        X[1::2] = X[::2]
    m, D, a = X.mean(0, dtype=np.float64), rng.random(d) + 1.0, np.full(d, 0.5)
    X = sp.csr_array(X) if sparse else X
    return [
        DiagonalPlusGram(D, a, RowGram(Rows(X, m, single=single)), np.zeros((0, d)))
        for single in (False, True)
    ]


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_float32_factors_are_right_to_four_digits(sparse):
    double, single = _single(sparse)
    plain, half = RowFactor(double), RowFactor(single, null=np.ones(60), single=True)
    assert half.single
    assert half.inverse.dtype == np.float32
    Y = np.random.default_rng(5).standard_normal((60, 3))
    Y -= Y.mean(0)  # else what stands for the null vector shows
    expected = plain.solve_rows(Y)
    found = half.solve_rows(Y)
    assert np.linalg.norm(found - expected) < 1e-4 * np.linalg.norm(expected)
    assert np.finfo(np.float32).eps <= half.condition * np.finfo(np.float64).eps < 1e-4
    np.testing.assert_allclose(half.kernel, plain.kernel, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_float32_factors_that_would_lose_digits_are_made_in_float64(sparse):
    double, single = _single(sparse, scale=1e4, twins=True)
    found = RowFactor(single, null=np.ones(60), single=True)
    assert not found.single
    np.testing.assert_allclose(found.inverse, RowFactor(single, null=np.ones(60)).inverse)
    assert found.inverse.dtype == RowFactor(double).inverse.dtype == np.float64


def test_what_stands_for_the_null_vector_of_centred_rows_changes_nothing():
    """C is better conditioned, D⁻¹FᵀM is the same."""
    rng = np.random.default_rng(0)
    X = 1e4 * rng.standard_normal((9, 30))
    X -= X.mean(0)
    for weights in (None, rng.random(9) + 0.5):
        system = DiagonalPlusGram(
            np.ones(30), np.ones(30), RowGram(Rows(X), weights), np.zeros((0, 30))
        )
        plain, better = RowFactor(system), RowFactor(system, null=np.ones(9))
        v = 1 / np.sqrt(np.ones(9) if weights is None else weights)  # Fᵀv = 0
        Y = rng.standard_normal((9, 2))
        Y -= np.outer(v, v @ Y) / (v @ v)
        F = X if weights is None else np.sqrt(weights)[:, None] * X
        U, s, Vt = np.linalg.svd(F, full_matrices=False)
        exact = Vt.T @ ((s / (1 + s**2))[:, None] * (U.T @ Y))
        assert np.linalg.norm(better.solve_rows(Y) - exact) < 1e-11 * np.linalg.norm(exact)
        assert np.linalg.norm(plain.solve_rows(Y) - exact) < 1e-4 * np.linalg.norm(exact)
        assert better.condition < 100 < 1e6 < plain.condition


def test_solve_together_uses_each_columns_own_system():
    system, _ = structure(**STRUCTURES["everything"])
    gram = system.gram
    systems = [
        DiagonalPlusGram(
            k * system.diagonal,
            system.scale,
            RowGram(gram.rows, k * gram.weights),
            system.extra,
            system.mixing,
        )
        for k in (1.0, 3.0)
    ] + [
        DiagonalPlusGram(
            system.diagonal, system.scale, RowGram(gram.rows), system.extra, system.mixing
        )
    ]
    which = np.array([0, 2, 1, 1, 0])
    B = np.random.default_rng(3).standard_normal((11, 5))
    X = solve_together([RowFactor(s) for s in systems], which, B)
    for column, k in enumerate(which):
        expected = np.linalg.solve(systems[k].dense(), B[:, column])
        np.testing.assert_allclose(X[:, column], expected, rtol=1e-9, atol=1e-9)


def test_cholesky_refuses_singular_matrices():
    X = np.random.default_rng(4).standard_normal((3, 6))
    with pytest.raises(
        SingularError, match=r"Q is singular .*\(rank .*3 of 6\): use a ridge above 0"
    ):
        CholeskyFactor(X.T @ X)
    with pytest.raises(SingularError, match=r"the matrix is singular \(rank 1 of 2\)"):
        CholeskyFactor(np.diag([1.0, 0.0]), "the matrix")
    assert issubclass(SingularError, ValueError)


def test_an_inverse_that_lapack_refuses_is_refused(monkeypatch):
    factor = CholeskyFactor(np.eye(2))
    monkeypatch.setattr(lapack, "dpotri", lambda L, **_: (L, 1))
    with pytest.raises(SingularError, match="the factor could not be inverted"):
        factor.inverse()


def test_rounding_does_not_pass_for_definiteness():
    """LAPACK may factorise a singular matrix whose smallest pivot is rounding."""
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((200, 5))
        X = np.hstack([x, x[:, :1] + x[:, 1:2]])
        with pytest.raises(SingularError, match=r"rank (about )?5 of 6"):
            CholeskyFactor(X.T @ X)


def test_a_well_scaled_small_ridge_is_accepted():
    x = np.random.default_rng(0).standard_normal((200, 5))
    X = np.hstack([x, x[:, :1]])
    CholeskyFactor(X.T @ X + 1e-6 * np.eye(6))


def test_woodbury_refuses_a_zero_diagonal():
    system, _ = structure()
    holed = DiagonalPlusGram(
        np.where(np.arange(8) < 2, 0, system.diagonal), system.scale, system.gram, system.extra
    )
    with pytest.raises(SingularError, match=r"Q minus its Gram has 2 zeros.*solver='primal'"):
        RowFactor(holed)
    with pytest.raises(TypeError, match="needs the rows"):
        RowFactor(
            DiagonalPlusGram(system.diagonal, system.scale, DenseGram(np.eye(8)), system.extra)
        )


def test_iterative_refuses_empty_columns():
    system, _ = structure(n=4)
    X = system.gram.rows.X.copy()
    X[:, [2, 5]] = 0
    empty = DiagonalPlusGram(np.zeros(8), system.scale, RowGram(Rows(X)), system.extra)
    with pytest.raises(SingularError, match="Q is singular \\(2 empty columns\\)"):
        IterativeFactor(empty, (X**2).sum(0), 1e-10)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("held", ["rows", "matrix"])
def test_second_moment(bias, held):
    """[[A S A + D + n uuᵀ, n u], [n uᵀ, n]] as a product and as a matrix."""
    rng = np.random.default_rng(5)
    X, w, a, D = rng.standard_normal((9, 4)), rng.random(9), rng.random(4), rng.random(4)
    own = w @ X / w.sum() if bias else np.zeros(4)
    S = ((X - own).T * w) @ (X - own)
    gram = RowGram(Rows(X, own), w) if held == "rows" else DenseGram(S)
    Q = SecondMoment(gram, a, D, a * own if bias else None, w.sum())
    E = np.hstack([X * a, np.ones((9, 1))]) if bias else X * a
    explicit = (E.T * w) @ E
    explicit[range(4), range(4)] += D
    V = rng.standard_normal((len(explicit), 2))
    np.testing.assert_allclose(Q.dense(), explicit, atol=1e-12)
    np.testing.assert_allclose(Q.matmul(V), explicit @ V, atol=1e-12)
    if bias:
        np.testing.assert_allclose(Q.bias_column(), explicit[:, -1], atol=1e-12)
    else:
        assert Q.bias_column() is None


def definite(d=8, smallest=1e-3, seed=0):
    """A matrix whose smallest eigenvalue stands alone."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return (Q * np.append(np.linspace(1, 2, d - 1), smallest)) @ Q.T


@pytest.mark.parametrize("smallest", [1e-2, 1e-5, 1e-9])
def test_condition_is_the_norm_of_the_inverse_in_any_units(smallest):
    G = definite(smallest=smallest)
    root = np.sqrt(np.diag(G))
    expected = np.linalg.norm(np.linalg.inv(G / root / root[:, None]), 2)
    found = CholeskyFactor(G).condition
    assert 0.99 * expected < found < 1.000001 * expected
    units = np.geomspace(1e-5, 1e5, 8)
    assert CholeskyFactor(G * units * units[:, None]).condition == pytest.approx(found, rel=1e-5)
    assert inverse_norm(lambda B: B / 4, np.full(5, 4.0)) == pytest.approx(1.0)


def test_the_bound_of_a_condition_holds_and_can_be_reached():
    rng = np.random.default_rng(8)
    for _ in range(20):
        units, X = 10 ** rng.uniform(-3, 3, 6), rng.standard_normal((4, 6))
        least = 10 ** rng.uniform(-6, 2, 6)
        G = (X.T @ X + np.diag(least)) * units * units[:, None]
        factor = CholeskyFactor(G, least=least * units**2)
        assert 1 <= factor.condition <= factor.bound * (1 + 1e-9)
        assert factor.bound == np.max(np.diag(G) / (least * units**2))
    one = CholeskyFactor(np.ones((2, 2)) + 1e-3 * np.eye(2), least=1e-3)
    assert one.condition == pytest.approx(one.bound, rel=1e-5)
    assert UpdatedFactor(one, np.ones((1, 2))).bound == one.bound
    for unknown in (0.0, np.array([1e-3, 0.0])):
        factor = CholeskyFactor(np.ones((2, 2)) + 1e-3 * np.eye(2), least=unknown)
        assert factor.bound == np.inf
        assert condition_of(factor, 1e300) == factor.condition
    assert CholeskyFactor(np.zeros((0, 0)), least=1.0).bound == np.inf
    assert condition_of(one, one.bound) == one.bound
    assert condition_of(one, 0.99 * one.bound) == one.condition


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e8])
def test_updated_factor(strength):
    """G + EᵀE for few rows, however strong, in place where it is told so."""
    rng = np.random.default_rng(6)
    G, E, B = definite(), strength * rng.standard_normal((2, 8)), rng.standard_normal((8, 3))
    factor = UpdatedFactor(CholeskyFactor(G), E)
    exact = np.linalg.solve(G, B)
    side = np.linalg.solve(G, E.T)
    exact = exact - side @ np.linalg.solve(np.eye(2) + E @ side, E @ exact)
    held = B.copy()
    np.testing.assert_allclose(factor.solve(B), exact, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(B, held)
    if strength < 10:
        np.testing.assert_allclose((G + E.T @ E) @ factor.solve(B), B, atol=1e-10)
    V = factor.plain.solve(B)
    assert factor.updated(V) is V
    np.testing.assert_allclose(V, factor.solve(B), rtol=1e-12)
    assert factor.condition == CholeskyFactor(G).condition
    none = UpdatedFactor(CholeskyFactor(G), E[:0])
    np.testing.assert_allclose(none.solve(B), np.linalg.solve(G, B), rtol=1e-10)


def near(pivot, d=2):
    """An identity whose last column repeats the first one but for a pivot."""
    G = np.eye(d)
    G[0, -1] = G[-1, 0] = np.sqrt(1 - pivot)
    return G


def test_where_a_pivot_is_rounding():
    """Ten times the precision, times the size but at least a hundred."""
    CholeskyFactor(near(1e-12))
    with pytest.raises(
        SingularError, match=r"Q is singular to working precision \(rank about 1 of 2"
    ):
        CholeskyFactor(near(1e-14))
    CholeskyFactor(near(5e-13))
    with pytest.raises(SingularError, match="rank about 399 of 400"):
        CholeskyFactor(near(5e-13, 400))
    both = near(1e-14, 5)
    both[1, 3] = both[3, 1] = np.sqrt(1 - 1e-14)
    with pytest.raises(SingularError, match="rank about 3 of 5"):
        CholeskyFactor(both)


def test_what_is_not_finite_is_not_factorised():
    for index in ((1, 1), (2, 0)):
        G = np.eye(3)
        G[index] = G[index[::-1]] = np.inf
        with pytest.raises(
            SingularError, match="the thing is not finite: the numbers are too large"
        ):
            CholeskyFactor(G, "the thing")
    with pytest.raises(SingularError, match=r"Q is singular \(rank 1 of 2\): use a ridge above 0"):
        CholeskyFactor(np.diag([1e9, 0.0]))
    with pytest.raises(
        SingularError, match=r"the ridge of 1e-20 is lost next to entries of 1e\+09: raise it"
    ):
        CholeskyFactor(np.diag([1e9, 0.0]), ridge=1e-20)
    nothing = CholeskyFactor(np.zeros((0, 0)))
    assert nothing.solve(np.zeros((0, 2))).shape == (0, 2)


def test_a_factor_through_the_rows_needs_to_know_what_its_extra_rows_are_made_of():
    system, _ = structure(extra=2)
    with pytest.raises(TypeError, match="needs E as weights of the rows"):
        RowFactor(DiagonalPlusGram(system.diagonal, system.scale, system.gram, system.extra))
    bare = DiagonalPlusGram(system.diagonal, system.scale, system.gram, system.extra[:0])
    RowFactor(bare)


@pytest.mark.parametrize("extra", [0, 2])
def test_null_vector_with_weights_of_zero(extra):
    """Rows without weight take no part, whatever stands for the null vector."""
    rng = np.random.default_rng(7)
    w = np.array([1.0, 0.0, 2.0, 0.5, 0.0, 1.5])
    X = rng.standard_normal((6, 9))
    X -= w @ X / w.sum()
    B = rng.standard_normal((extra, 6)) * (w > 0)
    system = DiagonalPlusGram(rng.random(9) + 0.1, np.ones(9), RowGram(Rows(X), w), B @ X, B)
    G = system.dense()
    factor = RowFactor(system, null=w)
    C = rng.standard_normal((9, 2))
    np.testing.assert_allclose(factor.solve(C), np.linalg.solve(G, C), rtol=1e-9, atol=1e-10)
    Y = rng.standard_normal((6, 2))
    Y -= np.outer(np.sqrt(w), np.sqrt(w) @ Y) / w.sum()  # F ᵀ√w = 0
    expected = np.linalg.solve(G, (np.sqrt(w)[:, None] * X).T @ Y)
    np.testing.assert_allclose(factor.solve_rows(Y), expected, rtol=1e-8, atol=1e-10)


def test_condition_of_the_iteration():
    """Seen on the way where rows span the features; else what the diagonal alone must hold."""
    eps = np.finfo(float).eps
    tall, G = structure(n=30, d=4)
    diagonal = np.diag(tall.gram.dense())
    factor = IterativeFactor(tall, diagonal, 1e-12)
    assert factor.condition == pytest.approx(1e-12 / eps)
    np.testing.assert_allclose(factor.jacobi, np.diag(G), rtol=1e-12)
    factor.solve(np.random.default_rng(8).standard_normal((4, 2)))
    scaled = G / np.sqrt(np.diag(G)) / np.sqrt(np.diag(G))[:, None]
    assert factor.condition == pytest.approx(np.linalg.cond(scaled) * 1e-12 / eps, rel=0.2)
    seen = factor.condition
    factor.solve(np.zeros((4, 1)))
    assert factor.condition == seen
    for n, d in ((5, 14), (8, 8)):
        wide, G = structure(n=n, d=d, extra=2)
        factor = IterativeFactor(wide, np.diag(wide.gram.dense()), 1e-12)
        held = (wide.diagonal / np.diag(G)).min()
        assert factor.condition == pytest.approx(1e-12 / eps / held)
    X = wide.gram.rows
    with pytest.raises(SingularError, match="Q is not finite: the numbers are too large"):
        IterativeFactor(wide, np.where(np.arange(X.shape[1]) == 2, np.inf, 1.0), 1e-12)


def system(n=12, c=3, condition=1e3):
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = (Q * np.geomspace(1, condition, n)) @ Q.T
    return A, rng.standard_normal((n, c))


def jacobi(A):
    return lambda R: R / np.diag(A)[:, None]


def test_solves_every_column():
    A, B = system()
    X = conjugate_gradients(lambda V: A @ V, B, jacobi(A)).X
    np.testing.assert_allclose(X, np.linalg.solve(A, B), rtol=1e-8, atol=1e-11)


def test_columns_of_very_different_size_all_reach_the_tolerance():
    A, B = system()
    B = B * np.array([1e-8, 1.0, 1e8])
    X = conjugate_gradients(lambda V: A @ V, B, jacobi(A)).X
    residual = np.linalg.norm(A @ X - B, axis=0) / np.linalg.norm(B, axis=0)
    assert residual.max() < 1e-11


def test_an_easy_large_column_does_not_end_the_work_on_a_small_one():
    A, B = system(n=30, c=2)
    B[:, 0] = 1e8 * np.linalg.eigh(A)[1][:, 0]
    B[:, 1] *= 1e-8
    X = conjugate_gradients(lambda V: A @ V, B, lambda R: R).X
    residual = np.linalg.norm(A @ X - B, axis=0) / np.linalg.norm(B, axis=0)
    assert residual.max() < 1e-10


def test_operators_that_mix_columns():
    A, B = system()
    S = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.3]])
    X = conjugate_gradients(lambda V: A @ V + V @ S, B, jacobi(A), coupled=True).X
    np.testing.assert_allclose(A @ X + X @ S, B, atol=1e-9)


def test_zero_right_hand_side_and_finished_columns():
    A, B = system()
    B[:, 1] = 0
    X = conjugate_gradients(lambda V: A @ V, B, jacobi(A)).X
    np.testing.assert_array_equal(X[:, 1], 0)
    np.testing.assert_allclose(A @ X, B, atol=1e-9)
    np.testing.assert_array_equal(conjugate_gradients(lambda V: A @ V, 0 * B, jacobi(A)).X, 0 * B)


def test_a_good_start_saves_steps_and_is_not_changed():
    A, B = system()
    calls = []

    def counted(V):
        calls.append(1)
        return A @ V

    exact = np.linalg.solve(A, B)
    held = exact.copy()
    X = conjugate_gradients(counted, B, jacobi(A), x0=exact, tol=1e-8).X
    np.testing.assert_array_equal(exact, held)
    np.testing.assert_allclose(X, exact, rtol=1e-7)
    assert len(calls) <= 2


def test_the_right_hand_side_is_not_changed():
    A, B = system()
    held = B.copy()
    conjugate_gradients(lambda V: A @ V, B, jacobi(A))
    np.testing.assert_array_equal(B, held)


def test_refuses_what_it_did_not_solve():
    A, B = system(n=40, condition=1e8)
    with pytest.raises(InaccurateError, match="on the big matrix stopped after 3 iterations"):
        conjugate_gradients(lambda V: A @ V, B, lambda R: R, max_iter=3, name="the big matrix")
    with pytest.raises(InaccurateError), np.errstate(all="ignore"):
        conjugate_gradients(lambda V: np.inf * V, B, lambda R: R)


def test_the_condition_number_is_seen_on_the_way():
    A, B = system(n=30, condition=1e5)
    seen = conjugate_gradients(lambda V: A @ V, B, lambda R: R).condition
    assert 0.9e5 < seen < 1.1e5


def test_units_of_the_unknowns_do_not_matter():
    A, B = system()
    units = np.geomspace(1e-6, 1e6, len(A))
    scaled = A * units * units[:, None]
    X = conjugate_gradients(lambda V: scaled @ V, units[:, None] * B, jacobi(scaled)).X
    np.testing.assert_allclose(units[:, None] * X, np.linalg.solve(A, B), rtol=1e-8)


def test_the_tolerance_is_reached_in_the_norm_of_the_preconditioner():
    A, B = system(n=30, condition=1e4)
    for options, tol in (({}, 1e-12), ({"tol": 1e-4}, 1e-4)):
        X = conjugate_gradients(lambda V: A @ V, B, jacobi(A), **options).X
        R = B - A @ X
        left, size = ((M * jacobi(A)(M)).sum(0) for M in (R, B))
        assert (np.sqrt(left / size) < 5 * tol).all()
    # A loose tolerance is not a tight one.
    assert (np.sqrt(left / size) > 0.03 * tol).any()


def test_a_residual_within_a_hundred_tolerances_is_taken():
    A, B = system(n=12, c=1, condition=10)
    steps = [np.linalg.norm(B - A @ _after(A, B, k)) / np.linalg.norm(B) for k in (4, 5)]
    near = steps[0] / 50  # four steps leave 50 times that
    conjugate_gradients(lambda V: A @ V, B, lambda R: R, tol=near, max_iter=4)
    with pytest.raises(InaccurateError, match=r"after 4 iterations at a relative residual of"):
        conjugate_gradients(lambda V: A @ V, B, lambda R: R, tol=steps[0] / 200, max_iter=4)
    assert steps[1] < steps[0]


def _after(A, B, k):
    """CG written out."""
    x, r = np.zeros_like(B), B.copy()
    p = r.copy()
    for _ in range(k):
        alpha = (r * r).sum() / (p * (A @ p)).sum()
        x, new = x + alpha * p, r - alpha * A @ p
        p, r = new + (new * new).sum() / (r * r).sum() * p, new
    return x


def test_condition_where_nothing_was_done_or_a_column_had_nothing_to_do():
    A, B = system(n=30, condition=1e3)
    exact = np.linalg.solve(A, B)
    assert conjugate_gradients(lambda V: A @ V, B, jacobi(A), x0=exact, tol=1e-6).condition == 1.0
    assert conjugate_gradients(lambda V: A @ V, 0 * B, jacobi(A)).condition == 1.0
    for zero in range(3):
        C = B.copy()
        C[:, zero] = 0
        seen = conjugate_gradients(lambda V: A @ V, C, lambda R: R).condition
        assert 0.9e3 < seen < 1.1e3
    one = conjugate_gradients(lambda V: 4 * V, B, lambda R: R)
    assert one.condition == pytest.approx(1.0)
    np.testing.assert_allclose(one.X, B / 4)


def test_infinite_right_hand_sides_are_refused():
    A, B = system()
    B[0, 0] = np.inf
    with pytest.raises(InaccurateError), np.errstate(all="ignore"):
        conjugate_gradients(lambda V: A @ V, B, jacobi(A))
