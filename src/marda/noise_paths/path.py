"""S1's map for every noise level from one eigendecomposition (math.md §7).

With D = diag(S) of the raw rows and K = D^-½ S D^-½ = V Λ Vᵀ (S centred if there is a bias),

    W(p) = D^-½ V diag(qΛ / (q²Λ + pq + ω)) Vᵀ D^½,   q = 1 − p,

is the S1 map for dropout p with the penalty ω·D; for ω = 0 that is S1 with ridge=0. Levels whose
map would not be right to six digits are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from marda._arrays import (
    InaccurateError,
    SingularError,
    beside,
    detached,
    divided,
    float64,
    hstack,
    is_followed,
    is_numpy,
    namespace,
    norms,
    place_of,
    probes,
    symmetric_eigen,
    to_numpy,
    zeros,
)
from marda._validation import check_number, check_unmasked, float_types, summed
from marda.moments import Moments, accumulate
from marda.noise import Dropout
from marda.operators.rows import Rows
from marda.problem import offset_ratio
from marda.solve import LIMIT

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
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

    Raises
    ------
    SingularError, InaccurateError
        If a level has no map, or none that can be told to six digits (noise near 0 without a
        ridge on columns that depend on each other).

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
        check_unmasked(X)
        X = summed(check_array(detached(X), accept_sparse="csr", dtype=float_types(X)))
        everyone = np.full(X.shape[0], -1), np.zeros(X.shape[0], dtype=np.int64)
        thin = X.shape[0] < X.shape[1]
        moments = accumulate(X, np.empty(0), *everyone, grams=not thin)
        rows = X if thin else None
    n, total, _ = moments.about(moments.shift)
    xp, origin = namespace(total), zeros(moments.n_features, total)
    squares = moments.about(origin)[2]
    center = moments.shift + total / n if fit_intercept else origin
    root = xp.sqrt(squares)
    # An empty column is reconstructed by nothing and helps to reconstruct nothing.
    inverse = divided(xp.ones_like(root), root)
    gram: Callable[[Matrix], Matrix]
    if rows is None:
        K = inverse[:, None] * moments.scatter(center) * inverse
        values, V = symmetric_eigen(K)
        gram = K.__matmul__
    else:
        given = Rows(rows, center) if sp.issparse(rows) else Rows(rows - center)
        values, V = _thin_basis(given, inverse)

        def gram(A: Matrix) -> Matrix:
            return inverse[:, None] * given.tdot(given.dot(inverse[:, None] * A))

    first = _first_kept(values, moments.n_features)
    V = V[:, first:]
    V = np.ascontiguousarray(V) if is_numpy(V) else V
    path = NoisePath(levels, ridge, V, values[first:], root, inverse, center)
    path.check(gram, 1.0 if fit_intercept else offset_ratio(moments))
    return path


def _thin_basis(rows: Rows, inverse: Vector) -> tuple[Vector, Matrix]:
    """Fewer rows than features: eigenvectors of YᵀY from those of YYᵀ, Y = X D^-½."""
    values, U = symmetric_eigen(rows.kernel(inverse**2))
    first = _first_kept(values, rows.shape[0])
    values, U = values[first:], U[:, first:]
    return values, inverse[:, None] * rows.tdot(U / namespace(values).sqrt(values))


def _first_kept(values: Vector, size: int) -> int:
    """Where the eigenvalues, which rise, are no longer rounding."""
    if not values.shape[0]:
        return 0
    largest = max(float(values[-1]), 0.0)
    above = values > size * EPS * largest
    return int(values.shape[0]) - int(namespace(values).count_nonzero(above))


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
        self.shape = (len(noise), root.shape[0], root.shape[0])

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
        inner: Matrix = self._basis.T @ (self._root[:, None] * V)
        return inner

    def beside(self, V: Any) -> Matrix:
        """Numbers in double precision, of the library and device of the path."""
        if is_numpy(self._root) and not is_followed(V):
            return np.asarray(V, dtype=np.float64)
        if place_of(V) != place_of(self._root):
            raise ValueError(
                "a noise path takes arrays of its own library and device: it is of {} on {}, and "
                "these are of {} on {}.".format(*place_of(self._root), *place_of(V))
            )
        return float64(V)

    def columns(self, V: ArrayLike) -> Matrix:
        """W(p) V for every level: shape (n_levels, n_features, n_columns)."""
        V = self.beside(V)
        inner = self.coordinates(V)
        out = zeros((len(self), self.shape[1], V.shape[1]), V)
        for i, p in enumerate(self.noise.tolist()):
            out[i, ...] = self.column(inner, p)
        return out

    def column(self, inner: Matrix, p: float) -> Matrix:
        """W(p) V of one level, from the coordinates of V."""
        mapped: Matrix = self._basis @ (self.gains(p)[:, None] * inner)
        return self._inverse[:, None] * mapped

    def rows(self, X: Any) -> Iterator[Matrix]:
        """Denoised rows X W(p) + offset(p), one level at a time."""
        inner = self._row_coordinates(X)
        for p in self.noise.tolist():
            yield self._denoised(inner, p)

    def apply(self, X: Any, p: float) -> Matrix:
        """Denoised rows of one level."""
        return self._denoised(self._row_coordinates(X), p)

    def _row_coordinates(self, X: Any) -> Matrix:
        """Of rows about the centre, from which nothing has to be subtracted later."""
        if not sp.issparse(X):
            inner: Matrix = ((self.beside(X) - self._center) * self._inverse) @ self._basis
            return inner
        return Rows(X, self._center).dot(self._inverse[:, None] * self._basis)

    def _denoised(self, inner: Matrix, p: float) -> Matrix:
        """(x − m)W + m + p mᵀW."""
        H = (inner * self.gains(p)) @ self._basis.T
        H *= self._root
        return H + (self._center + p * self._moved_center(p))

    def _moved_center(self, p: float) -> Vector:
        """MᵀW(p)."""
        inner = (self._center * self._inverse) @ self._basis
        moved: Vector = (inner * self.gains(p)) @ self._basis.T * self._root
        return moved

    def offset(self, p: float) -> Vector:
        """Bias row of W(p): mᵀ − q mᵀW(p); zero without a bias."""
        return self._center - (1 - p) * self._moved_center(p)

    def check(self, gram: Callable[[Matrix], Matrix], far: float) -> None:
        """Refuse levels that are not right to six digits.

        Parameters
        ----------
        gram : function
            A ↦ K A, with which (q²K + (pq + ω)I) D^½W D^-½ = qK is tried on one direction.
        far : float
            How far rows are from where W maps them from, in units of their spread.
        """
        xp, filled = namespace(self._root), self._root > 0
        n_filled, rank = int(xp.count_nonzero(filled)), int(self._values.shape[0])
        v = probes((self.shape[1], 1), self._root, np.random.default_rng(0))
        v = xp.where(filled[:, None], v, xp.zeros_like(v))
        p, q = self.noise, 1 - self.noise
        own = p * q + self.ridge
        gains = hstack([self.gains(one)[:, None] for one in p.tolist()])
        mapped = self._basis @ (gains * (self._basis.T @ v))
        both = gram(hstack([v, mapped]))
        right = beside(q, both) * both[:, :1]
        left = beside(q**2, both) * both[:, 1:] + beside(own, both) * mapped
        off, size = (np.asarray(to_numpy(norms(side))) for side in (left - right, right))
        residual = off / np.maximum(size, np.finfo(float).tiny)
        missing = rank < max(n_filled, 1)
        least = 0.0 if missing else float(xp.min(self._values))
        largest = float(xp.max(self._values)) if rank else 0.0
        lowest = q**2 * least + own
        for i in np.flatnonzero(lowest <= 0).tolist():
            raise SingularError(
                f"noise={p[i]:g} and ridge={self.ridge:g} leave Q singular (rank "
                f"{rank} of {n_filled}): use noise or a ridge above 0."
            )
        condition = (q**2 * max(largest, 0.0) + own) / np.maximum(lowest, TINY)
        for i in np.flatnonzero(far * np.maximum(residual, EPS * condition) > LIMIT).tolist():
            raise InaccurateError(
                f"the map of noise={p[i]:g} is not right to six digits (relative residual "
                f"{residual[i]:.0e}, error about {EPS * condition[i]:.0e}): raise ridge="
                f"{self.ridge:g} or that noise, or bring columns to a like scale."
            )


class NoisePathMap:
    """W(p) of one level: `@` for columns, `apply` for rows."""

    def __init__(self, path: NoisePath, p: float):
        self._path, self.noise = path, p
        self.shape = path.shape[1:]

    def __matmul__(self, V: ArrayLike) -> Matrix:
        return self._path.column(self._path.coordinates(self._path.beside(V)), self.noise)

    def apply(self, X: Any) -> Matrix:
        """Denoised rows, X W(p) + offset."""
        return self._path.apply(X, self.noise)

    @property
    def offset(self) -> Vector:
        """Bias row of W(p)."""
        return self._path.offset(self.noise)
