"""S1's map for every noise level from one eigendecomposition (math.md §7).

With D = diag(S) of the raw rows and K = D^-½ S D^-½ = V Λ Vᵀ (S centred if there is a bias),

    W(p) = D^-½ V diag(qΛ / (q²Λ + pq + ω)) Vᵀ D^½,   q = 1 − p,

is the S1 map for dropout p with the penalty ω·D; for ω = 0 that is S1 with ridge=0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from sklearn.utils.validation import check_array

from marda._validation import check_number, summed
from marda.moments import Moments, accumulate
from marda.noise import Dropout
from marda.operators.rows import Rows

__all__ = ["NoisePath", "NoisePathMap", "noise_path"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
DEFAULT_LEVELS = tuple(k / 20 for k in range(1, 20))


def noise_path(
    X: Any,
    noise: ArrayLike = DEFAULT_LEVELS,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
) -> NoisePath:
    """S1's denoising map for many dropout probabilities, from one eigendecomposition.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features), or Moments
        Rows of all domains, or their statistics.
    noise : array of shape (n_levels,), default=0.05, 0.10, …, 0.95
        Dropout probabilities in [0, 1).
    ridge : float, default=0.0
        ω relative to the features' own scale: the penalty is ω Σ_i D_ii ‖W_i‖², D = diag(XᵀX).
    fit_intercept : bool, default=True
        A bias column, as in `MDA`.

    Returns
    -------
    NoisePath
        `path[i]` is the map of `noise[i]`, an operator: `path[i] @ V` for columns,
        `path[i].apply(rows)` for rows. `path.columns(V)` applies all of them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> path = noise_path(X, [0.1, 0.5, 0.9])
    >>> (path[1] @ np.eye(4)).shape, path.columns(np.ones((4, 2))).shape
    ((4, 4), (3, 4, 2))
    """
    levels = np.atleast_1d(np.asarray(noise, dtype=np.float64))
    if levels.ndim != 1 or not levels.size:
        raise ValueError(f"noise must be a list of dropout probabilities, got {noise!r}.")
    Dropout(levels)  # checks the range
    ridge = check_number("ridge", ridge)
    rows = None
    if isinstance(X, Moments):
        moments = X
        if moments.gram is None:
            raise ValueError("the noise path needs moments with Grams, or the rows themselves.")
    else:
        X = summed(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        everyone = np.full(X.shape[0], -1), np.zeros(X.shape[0], dtype=np.int64)
        thin = X.shape[0] < X.shape[1]
        moments = accumulate(X, np.empty(0), *everyone, grams=not thin)
        rows = X if thin else None
    n, total, squares = moments.select(np.ones(len(moments.counts), dtype=bool))
    center = total / n if fit_intercept else np.zeros(moments.n_features)
    root = np.sqrt(squares)
    # An empty column is reconstructed by nothing and helps to reconstruct nothing.
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    if rows is None:
        K = inverse[:, None] * moments.scatter(center) * inverse
        values, V = eigh(K, overwrite_a=True, check_finite=False, driver="evd")
    else:
        values, V = _thin_basis(Rows(rows, center), inverse)
    floor = max(X.shape if rows is not None else V.shape) * np.finfo(float).eps * values.max()
    keep = values > floor
    return NoisePath(
        levels, ridge, np.ascontiguousarray(V[:, keep]), values[keep], root, inverse, center
    )


def _thin_basis(rows: Rows, inverse: Vector) -> tuple[Vector, Matrix]:
    """Fewer rows than features: eigenvectors of YᵀY from those of YYᵀ, Y = X D^-½."""
    values, U = eigh(rows.kernel(inverse**2), check_finite=False, driver="evd")
    keep = values > rows.shape[0] * np.finfo(float).eps * values[-1]
    values, U = values[keep], U[:, keep]
    return values, inverse[:, None] * rows.tdot(U / np.sqrt(values))


class NoisePath(Sequence["NoisePathMap"]):
    """The S1 maps of several noise levels, as operators that share one eigenbasis.

    Attributes
    ----------
    noise : array of shape (n_levels,)
        Dropout probabilities.
    shape : tuple of int
        Levels, features, features.
    """

    def __init__(
        self,
        noise: Vector,
        ridge: float,
        basis: Matrix,
        values: Vector,
        root: Vector,
        inverse: Vector,
        center: Vector,
    ):
        self.noise, self.ridge = noise, ridge
        self._basis, self._values = basis, values
        self._root, self._inverse, self._center = root, inverse, center
        self.shape = (len(noise), len(root), len(root))

    def __len__(self) -> int:
        return len(self.noise)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [NoisePathMap(self, float(p)) for p in self.noise[index]]
        return NoisePathMap(self, float(self.noise[index]))

    def gains(self, p: float) -> Vector:
        """qΛ / (q²Λ + pq + ω): what W(p) does to every eigenvector."""
        q = 1 - p
        return q * self._values / (q**2 * self._values + p * q + self.ridge)

    def coordinates(self, V: Matrix) -> Matrix:
        """Vᵀ D^½ of columns: shared by all levels."""
        return np.asarray(self._basis.T @ (self._root[:, None] * V))

    def columns(self, V: ArrayLike) -> Matrix:
        """W(p) V for every level: shape (n_levels, n_features, n_columns)."""
        V = np.asarray(V, dtype=np.float64)
        inner = self.coordinates(V)
        out = np.empty((len(self), self.shape[1], V.shape[1]))
        for i, p in enumerate(self.noise):
            out[i] = self._inverse[:, None] * (self._basis @ (self.gains(p)[:, None] * inner))
        return out

    def rows(self, X: Any) -> Iterator[Matrix]:
        """Denoised rows X W(p) + offset(p), a level at a time."""
        inner = self._row_coordinates(X)
        for p in self.noise.tolist():
            yield self._denoised(inner, p)

    def _row_coordinates(self, X: Any) -> Matrix:
        scaled = X.multiply(self._inverse).tocsr() if sp.issparse(X) else X * self._inverse
        return np.asarray(scaled @ self._basis)

    def _denoised(self, inner: Matrix, p: float) -> Matrix:
        H = (inner * self.gains(p)) @ self._basis.T
        H *= self._root
        return H + self.offset(p)

    def offset(self, p: float) -> Vector:
        """Bias row of W(p): mᵀ − q mᵀW(p); zero without a bias."""
        if not self._center.any():
            return np.zeros(self.shape[1])
        inner = (self._center * self._inverse) @ self._basis
        moved = (inner * self.gains(p)) @ self._basis.T * self._root
        return np.asarray(self._center - (1 - p) * moved)


class NoisePathMap:
    """W(p) of one level: `@` for columns, `apply` for rows."""

    def __init__(self, path: NoisePath, p: float):
        self._path, self.noise = path, p
        self.shape = path.shape[1:]

    def __matmul__(self, V: ArrayLike) -> Matrix:
        path = self._path
        inner = path.coordinates(np.asarray(V, dtype=np.float64))
        gains = path.gains(self.noise)[:, None]
        return np.asarray(path._inverse[:, None] * (path._basis @ (gains * inner)))

    def apply(self, X: Any) -> Matrix:
        """Denoised rows, X W(p) + offset."""
        return self._path._denoised(self._path._row_coordinates(X), self.noise)

    @property
    def offset(self) -> Vector:
        """Bias row of W(p)."""
        return self._path.offset(self.noise)
