"""Denoising maps: apply, matmul and dense agree, for every way to hold W."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda.operators import maps
from marda.operators.maps import DenoisingMap, DenseMap, IdentityMap, RowMap
from marda.operators.rows import Rows
from operators.test_denoisers import PIVOTS, denoiser

KINDS = {
    "dense": {"route": "primal", "d": 8},
    "rows": {"route": "dual", "d": 8},
    "rows with mmd": {"route": "dual", "d": 8, "method": "S1MC"},
    "rows, sparse": {"route": "dual", "d": 8, "sparse": True},
    "rows, pivots": {"route": "dual", "d": 8, "outputs": PIVOTS},
    "cg": {"route": "cg", "d": 8},
    "cg, pivots": {"route": "cg", "d": 8, "outputs": PIVOTS},
}


@pytest.fixture(params=[*KINDS, "identity"])
def base(request):
    if request.param == "identity":
        return IdentityMap(8)
    return denoiser(**KINDS[request.param], bias=True).freeze()


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((150, 8)) * (rng.random((150, 8)) < 0.5)


def with_change(base):
    """W₀ + ΔUᵀ and an offset."""
    rng = np.random.default_rng(1)
    delta, basis = rng.standard_normal((8, 2)), rng.standard_normal((base.shape[1], 2))
    offset = rng.standard_normal(base.shape[1])
    W = base.matmul(np.eye(base.shape[1])) + delta @ basis.T
    center = rng.standard_normal(8)
    places = {"center": center, "at_center": center @ W + offset}
    return DenoisingMap(base, delta, basis, offset, np.float64, **places), W, offset


def test_apply_matmul_and_dense_agree(base, rows, monkeypatch):
    monkeypatch.setattr(maps, "APPLY_BYTES", 1)  # batches of 64 rows, blocks of 16 columns
    ours, W, offset = with_change(base)
    V = np.random.default_rng(2).standard_normal((base.shape[1], 3))
    np.testing.assert_allclose(ours.matmul(V), W @ V, atol=1e-8)
    np.testing.assert_allclose(ours @ V, W @ V, atol=1e-8)
    np.testing.assert_allclose(ours.dense(), W, atol=1e-8)
    for X in (rows, sp.csr_array(rows)):
        np.testing.assert_allclose(ours.apply(X), rows @ W + offset, atol=1e-8)
        np.testing.assert_array_equal(ours.apply(X, ours.apply_base(X)), ours.apply(X))
    assert ours.shape == W.shape


def test_float32_rows_give_float32(base, rows):
    ours, W, offset = with_change(base)
    single = rows.astype(np.float32)
    for X in (single, sp.csr_array(single)):
        out = ours.apply(X)
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, single @ W + offset, atol=1e-4)


def test_routes_hold_the_same_map(rows):
    maps_ = {
        k: denoiser(**KINDS[k], bias=True).freeze() for k in ("dense", "rows", "rows, sparse", "cg")
    }
    reference = maps_["dense"].apply(rows)
    for ours in maps_.values():
        np.testing.assert_allclose(ours.apply(rows), reference, atol=1e-7)


def test_rows_are_not_changed(base, rows):
    ours, _, _ = with_change(base)
    held = rows.copy()
    out = ours.apply(rows)
    out += 1
    np.testing.assert_array_equal(rows, held)


def test_dense_refuses_above_the_memory_limit(monkeypatch):
    ours, _, _ = with_change(denoiser(**KINDS["rows"], bias=True).freeze())
    monkeypatch.setenv("MARDA_MEMORY", "1000")
    with pytest.raises(
        MemoryError, match=r"W_ as a dense 8×8 matrix takes 0.512 kB, more than half of the 1 kB"
    ):
        ours.dense()
    monkeypatch.setenv("MARDA_MEMORY", "1025")
    assert ours.dense().shape == (8, 8)


def test_a_dense_map_is_merged_once():
    W = np.random.default_rng(3).standard_normal((4, 4))
    delta, basis = np.ones((4, 1)), np.arange(4.0)[:, None]
    places = {"center": np.zeros(4), "at_center": np.zeros(4)}
    ours = DenoisingMap(DenseMap(W), delta, basis, np.zeros(4), np.float32, **places)
    assert ours.dense().dtype == np.float32
    np.testing.assert_allclose(ours.dense(), W + delta @ basis.T, rtol=1e-6)
    assert ours.delta.shape == (4, 0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("outputs", [None, PIVOTS], ids=["all", "pivots"])
def test_rows_with_further_rows_of_earlier_files(outputs, sparse):
    """W = [diag(w)X̂ᵀ  E] core X_out."""
    rng = np.random.default_rng(4)
    X, m = rng.standard_normal((5, 8)), rng.standard_normal(8)
    w, E, core = rng.random(8), rng.standard_normal((8, 2)), rng.standard_normal((7, 5))
    ours = RowMap(Rows(sp.csr_array(X) if sparse else X, m), outputs, w, E, core)
    out = (X - m) if outputs is None else (X - m)[:, outputs]
    W = np.hstack([w[:, None] * (X - m).T, E]) @ core @ out
    new, V = rng.standard_normal((3, 8)), rng.standard_normal((W.shape[1], 2))
    assert ours.shape == W.shape
    np.testing.assert_allclose(ours.matmul(V), W @ V, atol=1e-12)
    for rows in (new, sp.csr_array(new)):
        np.testing.assert_allclose(ours.apply(rows), new @ W, atol=1e-12)


def test_far_rows_keep_their_digits_and_untouched_rows_all_of_them(base, rows):
    """Dense rows are centred before they are mapped; what is not denoised passes as it is."""
    rng = np.random.default_rng(5)
    center = 1e9 + rng.standard_normal(8)
    W = base.matmul(np.eye(base.shape[1]))
    level = rng.standard_normal(base.shape[1])
    none = np.zeros((8, 0)), np.zeros((base.shape[1], 0))
    identity = isinstance(base, IdentityMap)
    offset = np.zeros(8) if identity else level - center @ W
    ours = DenoisingMap(base, *none, offset, np.float64, center=center, at_center=level)
    X = center + rows
    if identity:
        np.testing.assert_array_equal(ours.apply(X), X)
    else:
        exact = (X - center) @ W + level
        np.testing.assert_allclose(ours.apply(X), exact, atol=1e-8)
    assert ours.apply(X).dtype == np.float64
    assert ours.apply(X[:0]).shape == (0, base.shape[1])


def test_a_dense_matrix_is_made_in_blocks_of_columns(monkeypatch):
    monkeypatch.setattr(maps, "APPLY_BYTES", 1)  # 16 columns at a time
    W = np.random.default_rng(6).standard_normal((40, 40))
    base = maps.IterativeMap(lambda B: W.T @ B, lambda V: W @ V, (40, 40))
    none, zero = np.zeros((40, 0)), np.zeros(40)
    ours = DenoisingMap(base, none, none, zero, np.float64, center=zero, at_center=zero)
    np.testing.assert_allclose(ours.dense(), W, rtol=1e-14)
