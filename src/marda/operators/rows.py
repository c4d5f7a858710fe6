"""`Rows`: rows of data as a linear operator, centred without being changed.

X stays what it was: dense or CSR, float32 or float64. X − 1mᵀ is never formed for sparse X, and
for float32 X thin products run in float64 over chunks, so that no float64 copy of X exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._linalg import add_gram, mirror_lower

__all__ = ["Rows"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
CHUNK_BYTES = 32 * 2**20
CACHE_BYTES = 2**18  # rows cast to float64 are multiplied while they are still in cache


class Rows:
    """The matrix X − 1mᵀ (or X, without a centre m) as an operator.

    Parameters
    ----------
    X : array or CSR array of shape (n, d), float32 or float64
        Rows.
    center : array of shape (d,), default=None
        m, subtracted from every row.
    """

    def __init__(self, X: Any, center: Vector | None = None):
        self.X = X
        self.center = center if center is None or center.any() else None
        self.shape: tuple[int, int] = X.shape
        self._row_major = not sp.issparse(X) and X.flags.c_contiguous

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Blocks of X that fit in cache as float64, cut along its longer side."""
        n, d = self.shape
        if n < d:
            yield from ((slice(None), cut) for cut in self._chunks(d, n, CACHE_BYTES))
        else:
            yield from ((cut, slice(None)) for cut in self._chunks(n, d, CACHE_BYTES))

    def _chunks(self, length: int, width: int, size: int = CHUNK_BYTES) -> list[slice]:
        step = max(16, size // (8 * max(1, width)))
        return [slice(i, min(length, i + step)) for i in range(0, length, step)]

    def dot(self, V: Matrix) -> Matrix:
        """(X − 1mᵀ) V."""
        if sp.issparse(self.X) or self.X.dtype == V.dtype:
            out = np.asarray(self.X @ V, dtype=np.float64)
        else:
            out = np.zeros((self.shape[0], V.shape[1]))
            for rows, columns in self._blocks():
                out[rows] += self.X[rows, columns].astype(np.float64) @ V[columns]
        if self.center is not None:
            out -= self.center @ V
        return out

    def tdot(self, U: Matrix) -> Matrix:
        """(X − 1mᵀ)ᵀ U."""
        if sp.issparse(self.X) or self.X.dtype == U.dtype:
            # UᵀX, not XᵀU: BLAS then streams the rows in the order in which they lie
            out = np.ascontiguousarray((U.T @ self.X).T) if self._row_major else self.X.T @ U
        else:
            out = np.zeros((self.shape[1], U.shape[1]))
            for rows, columns in self._blocks():
                out[columns] += self.X[rows, columns].astype(np.float64).T @ U[rows]
        if self.center is not None:
            out -= np.outer(self.center, U.sum(0))
        return out

    def first(self, n: int) -> Rows:
        """The first n rows (a view where X is dense)."""
        return self if n == self.shape[0] else Rows(self.X[:n], self.center)

    def columns(self, index: NDArray[np.int64] | None) -> Rows:
        """Some columns, or all of them."""
        if index is None:
            return self
        center = None if self.center is None else self.center[index]
        return Rows(self.X[:, index], center)

    def cross(self, X: Any, weights: Vector) -> Matrix:
        """X diag(w) (these rows)ᵀ for other rows X, in the precision of the products."""
        mine = self.X
        weighted = X.multiply(weights).tocsr() if sp.issparse(X) else X * weights.astype(X.dtype)
        if sp.issparse(X) != sp.issparse(mine):  # the sparse side multiplies, nothing is densified
            out = weighted @ mine.T if sp.issparse(X) else (mine @ weighted.T).T
        else:
            out = weighted @ mine.T
        out = out.toarray() if sp.issparse(out) else np.asarray(out)
        if self.center is not None:
            shift = np.asarray(X @ (weights * self.center).astype(X.dtype))
            out -= shift[:, None].astype(out.dtype)
        return np.asarray(out)

    def combine(self, weights: Matrix) -> Matrix:
        """Weights (m×n) times these rows: m new rows."""
        if sp.issparse(self.X):
            out = np.asarray((self.X.T @ weights.T).T)
        else:
            out = np.asarray(weights.astype(self.X.dtype, copy=False) @ self.X)
        if self.center is not None:
            out -= np.outer(weights.sum(1), self.center).astype(out.dtype)
        return out

    def gram(self, weights: Vector | None = None) -> Matrix:
        """(X − 1mᵀ)ᵀ diag(w) (X − 1mᵀ), d×d, for w ≥ 0."""
        n, d = self.shape
        S = np.zeros((d, d), order="F")
        for rows in self._chunks(n, d):
            block = self.X[rows]
            w = np.ones(block.shape[0]) if weights is None else weights[rows]
            if sp.issparse(block):
                # Σw(x−m)(x−m)ᵀ = Σwxxᵀ − msᵀ − smᵀ + (Σw)mmᵀ with s = Σwx
                S += (block.T @ block.multiply(w[:, None]).tocsr()).toarray()
                if self.center is not None:
                    cross = np.outer(self.center, block.T @ w - w.sum() / 2 * self.center)
                    S -= cross + cross.T
                continue
            block = block if self.center is None else block - self.center.astype(block.dtype)
            S = add_gram(S, (block * np.sqrt(w)[:, None].astype(block.dtype)).T)
        return S if sp.issparse(self.X) else mirror_lower(S)

    def kernel(self, weights: Vector) -> Matrix:
        """(X − 1mᵀ) diag(w) (X − 1mᵀ)ᵀ, n×n, for w ≥ 0; float32 rows multiply in float32."""
        if sp.issparse(self.X):
            return self._sparse_kernel(weights)
        n, d = self.shape
        K = np.zeros((n, n), order="F")
        root = np.sqrt(weights)
        for cols in self._chunks(d, n):
            block = self.X[:, cols]
            if self.center is not None:
                block = block - self.center[cols].astype(self.X.dtype)
            K = add_gram(K, block * root[cols].astype(self.X.dtype))
        return mirror_lower(K)

    def _sparse_kernel(self, weights: Vector) -> Matrix:
        X = self.X
        n = X.shape[0]
        K = np.empty((n, n))
        transposed = sp.csc_array(sp.diags_array(weights) @ X.T)
        for rows in self._chunks(n, 4 * n):  # a sparse product needs room beside its dense copy
            K[rows] = (X[rows] @ transposed).toarray()
        if self.center is not None:
            # (x−m)ᵀw(y−m) = xᵀwy − xᵀwm − mᵀwy + mᵀwm
            weighted = weights * self.center
            t = np.asarray(X @ weighted)
            K -= t[:, None] + t[None, :] - self.center @ weighted
        return K
