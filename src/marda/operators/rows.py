"""`Rows`: rows of data as a linear operator, centred without being changed.

X stays what it was: dense or CSR, float32 or float64. X − 1mᵀ is never formed for sparse X. Every
product is a product of float64 numbers: float32 rows are cast, then centred, a block at a time, so
that no float64 copy of X exists. With `single`, for float32 weights, and in a float32 `kernel`,
float32 rows are multiplied as they are. Arrays of other libraries are float64 here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import add_gram, is_numpy, mirror_lower, namespace, ones, thin_product, zeros

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
CHUNK_BYTES = 32 * 2**20
KERNEL_BYTES = 8 * 2**20  # weighted rows are multiplied while they are in the shared cache
DEVICE_BYTES = 2**31  # of rows on a device, whose products want to be large
CACHE_BYTES = 2**19  # rows cast to float64 are multiplied while they are still in cache


class Rows:
    """The matrix X − 1mᵀ (or X, without a centre m) as an operator.

    Parameters
    ----------
    X : array or CSR array of shape (n, d), float32 or float64
        Rows.
    center : array of shape (d,), default=None
        m, subtracted from every row.
    origin : Rows, default=None
        The same rows as they were given, in half the memory: what a fitted map keeps.
    single : bool, default=False
        Float32 rows are multiplied in float32, whatever they are multiplied with.
    """

    def __init__(
        self,
        X: Any,
        center: Vector | None = None,
        origin: Rows | None = None,
        *,
        single: bool = False,
    ):
        here = is_numpy(X)
        self._single = single and here and X.dtype == np.float32
        self.origin = origin
        self.X = X
        moved = center is not None and bool(namespace(center).any(center != 0))
        self.center = center if moved else None
        self.shape: tuple[int, int] = X.shape
        self._cast = here and not sp.issparse(X) and X.dtype != np.float64

    def _blocks(self) -> Iterator[tuple[slice, slice]]:
        """Blocks of X that fit in cache as float64, cut along its longer side."""
        n, d = self.shape
        if n < d:
            yield from ((slice(None), cut) for cut in self._chunks(d, n, CACHE_BYTES))
        else:
            yield from ((cut, slice(None)) for cut in self._chunks(n, d, CACHE_BYTES))

    def _chunks(self, length: int, width: int, size: int = CHUNK_BYTES) -> list[slice]:
        size = size if is_numpy(self.X) else DEVICE_BYTES
        step = max(16, size // (8 * max(1, width)))
        return [slice(i, min(length, i + step)) for i in range(0, length, step)]

    def _float64(self, rows: slice, columns: slice) -> Matrix:
        """A block of X − 1mᵀ, for dense X."""
        block = self.X[rows, columns]
        if not is_numpy(block):
            moved: Matrix = block if self.center is None else block - self.center[columns]
            return moved
        if self.center is None:
            return np.asarray(block, dtype=np.float64)
        if not self._cast:
            return np.asarray(block - self.center[columns])
        block = block.astype(np.float64)
        block -= self.center[columns]
        return np.asarray(block)

    def dense(self, dtype: Any) -> NDArray[Any]:
        """X − 1mᵀ as an array of any precision, for dense X; X itself where it is that already."""
        if self.center is None:
            return np.asarray(self.X, dtype=dtype)
        if self.X.dtype == dtype:
            return np.asarray(self.X - self.center.astype(dtype))
        out = np.empty(self.shape, dtype=dtype)
        for rows, columns in self._blocks():
            out[rows, columns] = self._float64(rows, columns)
        return out

    def dot(self, V: Matrix) -> Matrix:
        """(X − 1mᵀ) V."""
        if not is_numpy(self.X):
            scores: Matrix = self.X @ V
            return scores if self.center is None else scores - self.center @ V
        V = V.astype(np.float32, copy=False) if self._single else V
        if self._cast and V.dtype != self.X.dtype:
            out = np.zeros((self.shape[0], V.shape[1]))
            for rows, columns in self._blocks():
                out[rows] += self._float64(rows, columns) @ V[columns]
            return out
        out = self.X @ V if sp.issparse(self.X) else thin_product(self.X, V)
        out = np.asarray(out, dtype=np.float64)
        if self.center is not None:
            out -= self.center.astype(V.dtype, copy=False) @ V
        return out

    def tdot(self, U: Matrix) -> Matrix:
        """(X − 1mᵀ)ᵀ U."""
        out = self.combine(U.T).T
        return np.ascontiguousarray(out) if is_numpy(out) else out

    def first(self, n: int) -> Rows:
        """The first n rows (a view where X is dense)."""
        if n == self.shape[0]:
            return self
        return Rows(self.X[:n, ...], self.center, single=self._single)

    def columns(self, index: NDArray[np.int64] | None) -> Rows:
        """Some columns, or all of them."""
        if index is None:
            return self
        center = None if self.center is None else self.center[index]
        return Rows(self.X[:, index], center)

    def cross(self, X: Any, weights: Vector) -> Matrix:
        """X diag(w) (these rows)ᵀ for other rows X; sparse rows multiply as they are."""
        if not sp.issparse(X):
            return self.dot((X * weights).T).T
        weighted = X.multiply(weights).tocsr()
        out = weighted @ self.X.T
        out = out.toarray() if sp.issparse(out) else np.asarray(out, dtype=np.float64)
        if self.center is not None:
            out -= np.asarray(weighted @ self.center)[:, None]
        return np.asarray(out)

    def combine(self, weights: Matrix) -> Matrix:
        """Weights (m×n) times these rows: m new rows."""
        if not is_numpy(self.X):
            mixed: Matrix = weights @ self.X
            if self.center is not None:
                mixed -= namespace(mixed).sum(weights, axis=1)[:, None] * self.center
            return mixed
        weights = weights.astype(np.float32, copy=False) if self._single else weights
        if self._cast and weights.dtype != self.X.dtype:
            out = np.zeros((weights.shape[0], self.shape[1]))
            for rows, columns in self._blocks():
                out[:, columns] += weights[:, rows] @ self._float64(rows, columns)
            return out
        if sp.issparse(self.X):
            out = np.asarray((self.X.T @ weights.T).T, dtype=np.float64)
        else:  # not XᵀU: BLAS then streams the rows in the order in which they lie
            out = np.asarray(weights @ self.X, dtype=np.float64)
        if self.center is not None:
            out -= np.outer(weights.sum(1), self.center)
        return out

    def gram(self, weights: Vector | None = None) -> Matrix:
        """(X − 1mᵀ)ᵀ diag(w) (X − 1mᵀ), d×d, for w ≥ 0."""
        n, d = self.shape
        S = np.zeros((d, d), order="F") if is_numpy(self.X) else zeros((d, d), self.X)
        for rows in self._chunks(n, d):
            w = ones(rows.stop - rows.start, self.X) if weights is None else weights[rows]
            if not sp.issparse(self.X):
                root = namespace(w).sqrt(w)
                S = add_gram(S, (self._float64(rows, slice(None)) * root[:, None]).T)
                continue
            # Σw(x−m)(x−m)ᵀ = Σwxxᵀ − msᵀ − smᵀ + (Σw)mmᵀ with s = Σwx
            block = self.X[rows]
            S += (block.T @ block.multiply(w[:, None]).tocsr()).toarray()
            if self.center is not None:
                cross = np.outer(self.center, block.T @ w - w.sum() / 2 * self.center)
                S -= cross + cross.T
        return S if sp.issparse(self.X) else mirror_lower(S)

    def squares(self, weights: Vector | None = None) -> Vector:
        """Diagonal of `gram`."""
        n, d = self.shape
        w = np.ones(n) if weights is None else weights
        out = np.zeros(d)
        for rows in self._chunks(n, d):
            if not sp.issparse(self.X):
                block = self._float64(rows, slice(None))
                out += np.einsum("i,ij,ij->j", w[rows], block, block)
                continue
            block = self.X[rows].astype(np.float64)
            out += block.multiply(block).T @ w[rows]
            if self.center is not None:
                out -= self.center * (2 * (block.T @ w[rows]) - w[rows].sum() * self.center)
        return np.maximum(out, 0.0)

    def kernel(self, weights: Vector, dtype: Any = np.float64) -> NDArray[Any]:
        """(X − 1mᵀ) diag(w) (X − 1mᵀ)ᵀ, n×n and in Fortran order, for w ≥ 0."""
        if sp.issparse(self.X):
            return self._sparse_kernel(weights, dtype)
        n, d = self.shape
        if not is_numpy(self.X):
            K, root = zeros((n, n), self.X), namespace(weights).sqrt(weights)
            for some in self._chunks(d, n):
                K = add_gram(K, self._float64(slice(None), some) * root[some])
            return K
        K = np.zeros((n, n), dtype=dtype, order="F")
        root = np.sqrt(weights).astype(dtype)
        for columns in self._chunks(d, n, KERNEL_BYTES):
            part = self._block(columns, dtype)
            part = np.multiply(part, root[columns], out=part if part.base is None else None)
            K = add_gram(K, part)
        return mirror_lower(K)

    def _block(self, columns: slice, dtype: Any) -> NDArray[Any]:
        """Some columns of X − 1mᵀ; float32 ones are centred in float32."""
        if dtype == np.float64 or self.X.dtype != dtype:
            return self._float64(slice(None), columns).astype(dtype, copy=False)
        if self.center is None:
            return np.asarray(self.X[:, columns])
        return np.asarray(self.X[:, columns] - self.center[columns].astype(dtype))

    def _sparse_kernel(self, weights: Vector, dtype: Any) -> NDArray[Any]:
        X = self.X.astype(dtype, copy=False)
        n = X.shape[0]
        K = np.empty((n, n), dtype=dtype)
        transposed = sp.csc_array(sp.diags_array(weights.astype(dtype)) @ X.T)
        for rows in self._chunks(n, 4 * n):  # a sparse product needs room beside its dense copy
            K[rows, : rows.stop] = (X[rows] @ transposed[:, : rows.stop]).toarray()
        mirror_lower(K)
        if self.center is not None:
            # (x−m)ᵀw(y−m) = xᵀwy − xᵀwm − mᵀwy + mᵀwm
            weighted = weights * self.center
            t = np.asarray(self.X @ weighted)
            half = (t - 0.5 * (self.center @ weighted)).astype(dtype)
            for rows in self._chunks(n, n, CACHE_BYTES):
                K[rows] -= half[rows, None] + half
        return K.T

    def longest(self, weights: Vector) -> float:
        """The largest weighted square of a row as it is multiplied: sparse rows are not centred."""
        if not sp.issparse(self.X):
            return 0.0
        return float((self.X.multiply(self.X) @ weights).max(initial=0.0))
