"""Symmetric products in one triangle."""

from __future__ import annotations

import numpy as np
import pytest

from marda._arrays import (
    add_gram,
    lower_product,
    mirror_lower,
    root_gram,
    symmetric_eigen,
    thin_product,
)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 600])
def test_mirror_lower(n):
    lower = np.asfortranarray(np.arange(float(n * n)).reshape(n, n))
    expected = np.tril(lower) + np.tril(lower, -1).T
    np.testing.assert_array_equal(mirror_lower(lower), expected)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_add_gram(dtype, tol, order):
    A = np.asarray(np.random.default_rng(0).standard_normal((5, 9)), dtype=dtype, order=order)
    held = A.copy()
    total = np.zeros((5, 5), order="F")
    for _ in range(2):
        total = add_gram(total, A)
    np.testing.assert_array_equal(A, held)
    assert total.dtype == np.float64
    np.testing.assert_allclose(mirror_lower(total), 2 * A.astype(float) @ A.T, atol=tol)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_eigenvectors_of_a_symmetric_matrix(n):
    A = np.random.default_rng(n).normal(size=(n, n))
    A = A + A.T
    values, vectors = symmetric_eigen(A.copy(), overwrite=True)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose((vectors * values) @ vectors.T, A, atol=1e-12)


@pytest.mark.parametrize("n", [0, 3, 256, 300, 700])
def test_lower_product(n):
    A = np.random.default_rng(0).standard_normal((n, 5))
    product = lower_product(A, A.T)
    np.testing.assert_allclose(np.tril(product), np.tril(A @ A.T), rtol=1e-12, atol=1e-12)
    assert product.flags.f_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
def test_root_gram(order):
    rng = np.random.default_rng(0)
    A, W = rng.standard_normal((7, 7)), rng.standard_normal((7, 5)).astype(float, order=order)
    held, R = W.copy(), np.tril(A)
    product = root_gram(np.asfortranarray(A), W)  # above the diagonal nothing is read
    np.testing.assert_allclose(np.tril(product), np.tril(W.T @ R @ R.T @ W), atol=1e-12)
    np.testing.assert_array_equal(W, held)


@pytest.mark.parametrize("columns", [0, 1, 3, 250])
@pytest.mark.parametrize("order", ["C", "F"])
def test_thin_product(columns, order):
    rng = np.random.default_rng(0)
    A, V = rng.standard_normal((7, 5)).astype(float, order=order), rng.standard_normal((5, columns))
    np.testing.assert_allclose(thin_product(A, V), np.einsum("ij,jk->ik", A, V), atol=1e-14)
