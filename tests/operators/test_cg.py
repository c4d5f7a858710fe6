"""Conjugate gradients on blocks of columns."""

from __future__ import annotations

import numpy as np
import pytest

from marda._linalg import InaccurateError
from marda.operators.cg import conjugate_gradients


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
