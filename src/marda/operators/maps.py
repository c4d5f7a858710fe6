"""Denoising maps X ↦ X W + offset, ready to apply: a matrix, training rows, or an iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import astype, copy, eye, float64, is_numpy, namespace, vstack
from marda._machine import available_memory, format_bytes
from marda.operators.rows import Rows

Matrix = NDArray[Any]
APPLY_BYTES, DEVICE_BYTES = 64 * 2**20, 2**31


class Map(ABC):
    """A linear map of rows, X ↦ X W."""

    shape: tuple[int, int]

    @abstractmethod
    def apply(self, X: Any) -> Matrix:
        """X W for a batch of rows, dense or sparse."""

    @abstractmethod
    def matmul(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """W V."""


class DenseMap(Map):
    """W as a matrix."""

    def __init__(self, W: Matrix):
        self.W = W
        self.shape = W.shape

    def apply(self, X: Any) -> Matrix:
        """X W, in the precision of W."""
        mapped: Matrix = astype(X, self.W.dtype) @ self.W
        return mapped

    def matmul(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """W V, in the precision of the wider of them."""
        mapped: Matrix = (self.W if self.W.dtype == V.dtype else float64(self.W)) @ V
        return mapped


class IdentityMap(Map):
    """W = I: methods that do not denoise."""

    def __init__(self, n_features: int):
        self.shape = (n_features, n_features)

    def apply(self, X: Any) -> Matrix:
        """X."""
        return X.toarray() if sp.issparse(X) else copy(X)

    def matmul(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """V."""
        return V


class RowMap(Map):
    """W = [diag(w)X̂ᵀ  E] core X_out: training rows in place of a d×d matrix (math.md §11).

    Parameters
    ----------
    rows : Rows
        Centred training rows X̂.
    outputs : integer array or None
        Columns that are reconstructed.
    weights : array of shape (d,)
        w = a / D.
    extra : array of shape (d, k)
        E: further rows; none in what is fitted now, MMD terms in files of earlier versions.
    core : array of shape (n + k, n), float64 or float32
        M.
    """

    def __init__(
        self,
        rows: Rows,
        outputs: NDArray[np.int64] | None,
        weights: NDArray[np.float64],
        extra: NDArray[np.float64],
        core: Matrix,
    ):
        self.rows, self.outputs = rows, outputs
        self.weights, self.extra = weights, extra
        self.core = core
        self.output_rows = rows.columns(outputs)
        self.shape = (rows.shape[1], self.output_rows.shape[1])

    def apply(self, X: Any) -> Matrix:
        """X W, as weights on training rows and then those rows."""
        scores = self.rows.cross(X, self.weights)
        if self.extra.shape[1]:
            scores = np.hstack([scores, np.asarray(X @ self.extra)])
        return self.output_rows.combine(astype(scores, self.core.dtype) @ self.core)

    def matmul(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """W V."""
        n = self.rows.shape[0]
        inner = self.core @ astype(self.output_rows.dot(V), self.core.dtype)
        out: Matrix = self.weights[:, None] * self.rows.tdot(inner[:n, ...])
        out += self.extra @ inner[n:, ...]
        return out


class IterativeMap(Map):
    """W applied by conjugate gradients, every time."""

    def __init__(
        self,
        adjoint: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        forward: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        shape: tuple[int, int],
    ):
        self._adjoint, self._forward = adjoint, forward
        self.shape = shape

    def apply(self, X: Any) -> Matrix:
        """X W."""
        dense = X.toarray() if sp.issparse(X) else X
        return self._adjoint(np.asarray(dense.T, dtype=np.float64)).T

    def matmul(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """W V."""
        return self._forward(V)[: self.shape[0]]


class DenoisingMap:
    """X ↦ X (W₀ + ΔUᵀ) + offset, applied in batches of bounded memory.

    Dense rows are centred first, (X − m)W + (mᵀW + offset), in float64: it is the same, and rows
    far from the origin keep their digits. The result has the dtype of the rows.
    """

    def __init__(
        self,
        base: Map,
        delta: NDArray[np.float64],
        basis: NDArray[np.float64],
        offset: NDArray[np.float64],
        dtype: Any,
        *,
        center: NDArray[np.float64],
        at_center: NDArray[np.float64],
    ):
        xp = namespace(center)
        # Rows that are not denoised pass untouched.
        self.center = xp.zeros_like(center) if isinstance(base, IdentityMap) else center
        self.at_center = at_center
        self.dtype = np.dtype(dtype) if is_numpy(center) else dtype
        self.shape = base.shape
        self.offset = offset
        if isinstance(base, DenseMap):
            W = base.W + delta @ basis.T if delta.shape[1] else base.W
            # In the order in which sparse rows read it: they would turn it for every batch.
            W = np.ascontiguousarray(W, self.dtype) if is_numpy(W) else astype(W, self.dtype)
            base = DenseMap(W)
            delta, basis = delta[:, :0], basis[:, :0]
        self.base, self.delta, self.basis = base, delta, basis

    def _batches(self, n_rows: int) -> Iterator[slice]:
        size = APPLY_BYTES if is_numpy(self.center) else DEVICE_BYTES
        step = max(64, size // (8 * max(1, sum(self.shape))))
        for start in range(0, n_rows, step):
            yield slice(start, min(n_rows, start + step))

    def apply(self, X: Any, mapped: Matrix | None = None) -> Matrix:
        """Denoised rows, float32 for float32 rows.

        `mapped` are X W₀, where another map with the same base gave them (`apply_base`).
        """
        if not is_numpy(X):
            return self._apply_elsewhere(X)
        out = np.empty((X.shape[0], self.shape[1]), dtype=X.dtype)
        for rows in self._batches(X.shape[0]):
            batch, level = self._placed(X[rows])
            part = self.base.apply(batch) if mapped is None else mapped[rows]
            if self.delta.shape[1]:
                part = part + np.asarray(batch @ self.delta) @ self.basis.T
            np.add(part, level.astype(part.dtype, copy=False), out=out[rows], casting="same_kind")
        return out

    def apply_base(self, X: Any) -> Matrix:
        """X W₀ of numpy's rows (about the centre, if they are dense), in the same batches."""
        parts = [self.base.apply(self._placed(X[rows])[0]) for rows in self._batches(X.shape[0])]
        return np.concatenate(parts)

    def _placed(self, batch: Any) -> tuple[Any, NDArray[np.float64]]:
        """Rows to multiply, and what to add to them; sparse rows stay where they are."""
        if sp.issparse(batch) or not self.center.any():
            return batch, self.offset
        return batch.astype(np.float64) - self.center, self.at_center

    def _apply_elsewhere(self, X: Any) -> Matrix:
        """The same of rows of another library, where they are."""
        if isinstance(self.base, IdentityMap):
            return self.base.apply(X)
        parts = []
        for rows in self._batches(X.shape[0]):
            batch = float64(X[rows, ...]) - self.center
            part = self.base.apply(batch)
            if self.delta.shape[1]:
                part = part + (batch @ self.delta) @ self.basis.T
            parts.append(astype(part + self.at_center, X.dtype))
        return parts[0] if len(parts) == 1 else vstack(parts)

    def matmul(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """W V."""
        mapped = self.base.matmul(V)
        return mapped + self.delta @ (self.basis.T @ V) if self.delta.shape[1] else mapped

    def dense(self) -> Matrix:
        """W as a matrix, if there is memory for it."""
        if isinstance(self.base, DenseMap):
            return self.base.W
        d, r = self.shape
        if not is_numpy(self.center):
            return astype(self.matmul(eye(r, self.center)), self.dtype)
        needed, limit = 8 * d * r, available_memory()
        if needed > limit // 2:
            raise MemoryError(
                f"W_ as a dense {d}×{r} matrix takes {format_bytes(needed)}, more than half of the "
                f"{format_bytes(limit)} that are free: use transform, coef_ or W_map_ @ V instead, "
                "or set MARDA_MEMORY."
            )
        W = np.empty((d, r), dtype=self.dtype)
        step = max(16, APPLY_BYTES // (8 * d))
        for start in range(0, r, step):
            stop = min(r, start + step)
            W[:, start:stop] = self.matmul(np.eye(r, stop - start, -start))
        return W

    def __matmul__(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.matmul(np.asarray(V, dtype=np.float64) if is_numpy(self.center) else V)
