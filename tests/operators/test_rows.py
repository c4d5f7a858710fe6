"""`Rows` against explicit matrices: dense, sparse, single precision, centred, in chunks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda.operators import rows as rows_module
from marda.operators.rows import Rows

N, D = 23, 9


def data(kind):
    """The rows as they are stored, and the same as a float64 matrix."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    stored = X.astype(np.float32) if "32" in kind else X
    explicit = stored.astype(np.float64)
    return (sp.csr_array(stored) if "sparse" in kind else stored), explicit


@pytest.fixture(params=["dense", "sparse", "dense32", "sparse32"])
def kind(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["centred", "raw"])
def center(request):
    return np.linspace(-1, 2, D) if request.param else None


@pytest.fixture(params=[None, 200], ids=["whole", "chunks"])
def chunks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(rows_module, "CHUNK_BYTES", request.param)
        monkeypatch.setattr(rows_module, "CACHE_BYTES", request.param)
        monkeypatch.setattr(Rows._chunks, "__defaults__", (request.param,))


@pytest.fixture
def pair(kind, center, chunks):
    stored, explicit = data(kind)
    return Rows(stored, center), explicit - (0 if center is None else center)


@pytest.fixture
def tol(kind):
    return 2e-6 if "32" in kind else 1e-12


def test_thin_products_are_in_double_precision(pair):
    rows, A = pair
    rng = np.random.default_rng(1)
    V, U = rng.standard_normal((D, 3)), rng.standard_normal((N, 3))
    for ours, explicit in ((rows.dot(V), A @ V), (rows.tdot(U), A.T @ U)):
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours, explicit, atol=1e-12)


def test_gram_and_kernel(pair, tol):
    rows, A = pair
    rng = np.random.default_rng(2)
    w, v = rng.random(N), rng.random(D)
    np.testing.assert_allclose(rows.gram(), A.T @ A, atol=50 * tol)
    np.testing.assert_allclose(rows.gram(w), (A.T * w) @ A, atol=50 * tol)
    np.testing.assert_allclose(rows.kernel(v), (A * v) @ A.T, atol=50 * tol)
    np.testing.assert_allclose(rows.squares(), (A**2).sum(0), atol=50 * tol)
    np.testing.assert_allclose(rows.squares(w), w @ A**2, atol=50 * tol)
    for matrix in (rows.gram(w), rows.kernel(v)):
        assert matrix.dtype == np.float64
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-13)


@pytest.mark.parametrize("other", ["dense", "sparse"])
def test_cross_and_combine(pair, kind, tol, other):
    rows, A = pair
    rng = np.random.default_rng(3)
    X = rng.standard_normal((5, D)) * (rng.random((5, D)) < 0.5)
    X = X.astype(np.float32) if "32" in kind else X
    w, mix = rng.random(D), rng.standard_normal((4, N))
    given = sp.csr_array(X) if other == "sparse" else X
    np.testing.assert_allclose(rows.cross(given, w), (X * w) @ A.T, atol=50 * tol)
    np.testing.assert_allclose(rows.combine(mix), mix @ A, atol=50 * tol)


def test_first_rows_and_columns(pair):
    rows, A = pair
    V = np.random.default_rng(4).standard_normal((D, 2))
    np.testing.assert_allclose(rows.first(7).dot(V), A[:7] @ V, atol=1e-12)
    assert rows.first(N) is rows
    index = np.array([1, 4, 8])
    np.testing.assert_allclose(rows.columns(index).dot(V[:3]), A[:, index] @ V[:3], atol=1e-12)
    assert rows.columns(None) is rows


def test_rows_are_not_copied_or_changed(kind):
    stored, explicit = data(kind)
    rows = Rows(stored, np.ones(D))
    assert rows.X is stored
    rows.dot(np.eye(D))
    rows.tdot(np.eye(N))
    rows.gram(np.arange(float(N)))
    rows.kernel(np.ones(D))
    rows.cross(stored, np.ones(D))
    rows.combine(np.ones((2, N)))
    after = stored.toarray() if sp.issparse(stored) else stored
    np.testing.assert_array_equal(after.astype(float), explicit)


def test_a_centre_may_be_zero_somewhere(kind):
    stored, explicit = data(kind)
    center = np.where(np.arange(D) == 3, 0.0, 2.0)
    V = np.random.default_rng(5).standard_normal((D, 2))
    np.testing.assert_allclose(Rows(stored, center).dot(V), (explicit - center) @ V, atol=1e-11)
    assert Rows(stored, np.zeros(D)).center is None  # nothing to subtract


def test_squares_of_constant_columns_are_not_negative(kind):
    """Sparse rows are centred by a difference, which rounds."""
    stored, _ = data(kind)
    for value in (0.1, 1 / 3, 7.7):
        X = np.full((N, D), value, dtype=stored.dtype)
        rows = Rows(sp.csr_array(X) if "sparse" in kind else X, X[0].astype(np.float64))
        assert (rows.squares() >= 0).all()
        assert rows.squares().max() < 1e-10


def test_single_precision_rows_far_from_the_origin_are_centred_before_they_are_multiplied():
    rng = np.random.default_rng(6)
    stored = (1e6 + rng.standard_normal((N, D))).astype(np.float32)
    center = stored.astype(np.float64).mean(0)
    A = stored.astype(np.float64) - center
    rows = Rows(stored, center)
    V, U = rng.standard_normal((D, 3)), rng.standard_normal((N, 3))
    np.testing.assert_allclose(rows.dot(V), A @ V, rtol=0, atol=1e-13)
    np.testing.assert_allclose(rows.tdot(U), A.T @ U, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "dense32"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_copies_and_kernels_of_either_precision(kind, center, chunks, dtype):
    stored, explicit = data(kind)
    rows, A = Rows(stored, center), explicit - (0 if center is None else center)
    tol = 1e-12 if dtype == np.float64 else 1e-5
    found = rows.dense(dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, A, atol=tol)
    v = np.random.default_rng(3).random(D)
    kernel = rows.kernel(v, dtype)
    assert kernel.dtype == dtype
    np.testing.assert_allclose(kernel, (A * v) @ A.T, atol=10 * tol)
    np.testing.assert_array_equal(rows.X, stored)  # no block of it was multiplied in place


def test_the_longest_row_is_that_of_sparse_rows_as_they_are(kind, center):
    stored, explicit = data(kind)
    v = np.random.default_rng(4).random(D)
    wanted = (explicit**2 @ v).max() if "sparse" in kind else 0.0
    assert Rows(stored, center).longest(v) == pytest.approx(wanted)
    assert Rows(sp.csr_array((0, D)), None).longest(v) == 0
