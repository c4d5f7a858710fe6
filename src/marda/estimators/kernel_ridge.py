"""The ridge on features: linear, or in the space of a Gaussian kernel (math.md §10.1).

With rows f_i, targets y_i = ±1 (one column per class), weights w_i and a free intercept b,

    min  Σ_i w_i ‖y_i − h(f_i) − b‖² + δ‖h‖²,

h linear, or in the space of the kernel k(f, g) = exp(−‖f − g‖² / 2σ²).

Self-training solves it many times on subsets of the same rows, with other labels and weights.
`RidgeOnRows` is therefore given all rows first, and chooses the way:

| way | kernel | where | solves |
| --- | --- | --- | --- |
| `_Dual` | linear | fewer rows than features | n×n, by inner products of rows |
| | Gaussian | up to MAX_EXACT rows | n×n, by similarities of rows |
| `_Primal` | linear | otherwise | d×d, by sums over rows |
| | Gaussian | otherwise | r×r, by sums over similarities to r landmarks |
| `_SingularValues` | linear | rows so long that sums would lose digits | through F = U S Vᵀ |

What depends on neither labels nor weights (the n×n matrix, the similarities to landmarks) is made
once, and a factor or sums that many fits begin with are held (`hold`). `RidgeSolution` is h and b;
`GaussianRidge` is what is left of a Gaussian one to predict new rows.

Arrays of other libraries, such as tensors on a GPU, stay where they are, as do products of them;
labels, weights, solutions and scores are of the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular, svd
from scipy.linalg.blas import dtrmm, strmm
from scipy.special import softmax

from marda._arrays import (
    add_to_diagonal,
    astype,
    block,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    column_means,
    columns,
    copy,
    diagonal,
    float64,
    host_type,
    hstack,
    is_numpy,
    like,
    mean,
    namespace,
    ones,
    rows_at,
    syrk,
    to_numpy,
    triangular_solve,
    vdot,
    vstack,
)
from marda.moments.features import similarity

Matrix = NDArray[Any]
Vector = NDArray[Any]
Index = NDArray[np.int64]
Shared = TypeVar("Shared")

#: Up to this many rows the Gaussian kernel is exact; beyond, it is projected on landmarks. Fewer
#: of them are faster, but which rows were drawn then moves the accuracy by a point.
MAX_EXACT = 6500
LANDMARKS = 2000
#: Landmarks that others explain but for this share of their own similarity are left out: what they
#: would add is noise in float32.
UNEXPLAINED = 1e-4
#: What is made at a time: of numpy arrays, of similarities to landmarks, on a device.
CACHE_BYTES, BLOCK_BYTES, DEVICE_BYTES = 2**20, 2**25, 2**31

# Digits: where float32, products of rows, or sums of squares would lose too many.

#: Similarities to landmarks are held in float32 where there are more than this.
SINGLE_PRECISION = 2**20
#: Products of float32 rows that are all smaller than this, or of which one exceeds its inverse, may
#: under- or overflow: they are taken in float64.
SMALLEST = 1e-15
#: Products of float32 rows of unit length leave a ridge its digits; those of longer rows, whose
#: squared lengths exceed this, may not: float64 too.
UNIT = 2.0
#: Rows whose variance is within this many roundings of their lengths have lost three digits or more
#: in their products: differences are taken first.
LOST_DIGITS = 1e3
#: Where the longest row has a weighted square of more ridges than this, sums of squares lose
#: digits, and a linear ridge is solved through singular values instead.
LONG = 1e6
#: Of a direction that cannot be told from rounding, the most that a ridge may leave.
LEFT = 1e-6
SINGULAR = (
    "the ridge on features is singular to working precision: ridge_class is too small for features "
    "of this size. Raise it, or scale X."
)


class RowsOnDemand(Protocol):
    """Rows that are made whenever they are asked for, and products that need not make them."""

    shape: tuple[int, int]
    dtype: Any
    variance: float
    longest: float
    squares: Vector

    def __len__(self) -> int:
        """Number of rows."""
        ...

    def __getitem__(self, some: Any) -> Matrix:
        """Some of the rows."""
        ...

    def products(self, B: Matrix) -> Callable[[slice], Matrix]:
        """Some rows → their products with those of B."""
        ...


def signs(codes: Index, n_classes: int, dtype: Any = np.float64) -> Matrix:
    """Targets: +1 in the column of a row's class, −1 elsewhere."""
    Y = np.full((len(codes), n_classes), -1, dtype=dtype)
    Y[np.arange(len(codes)), codes] = 1
    return Y


@dataclass(frozen=True)
class _Labelled:
    """What one fit is given: rows (by their places), targets, weights w and the ridge δ."""

    rows: Index
    Y: Matrix
    weights: Vector
    ridge: float

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def noise(self) -> Vector:
        """δ/w."""
        return self.ridge / self.weights

    def starts_with(self, other: _Labelled) -> bool:
        """Whether the first rows are those of another fit, with their targets and weights."""
        n = len(other)
        return (
            self.ridge == other.ridge
            and np.array_equal(self.rows[:n], other.rows)
            and np.array_equal(self.weights[:n], other.weights)
            and np.array_equal(self.Y[:n], other.Y)
        )

    def after(self, n: int) -> _Labelled:
        """Without the first n."""
        return _Labelled(self.rows[n:], self.Y[n:], self.weights[n:], self.ridge)


@dataclass(frozen=True)
class RidgeSolution:
    """What a fit found: h and b.

    Attributes
    ----------
    coef : array of shape (n_basis or n_features, n_classes)
        h: weights of basis rows (Gaussian) or of features (linear).
    intercept : array of shape (n_classes,)
        b.
    z : array of shape (r + 1, n_classes), default=None
        Of the primal way: h and b as weights of its own features.
    """

    coef: Matrix
    intercept: Vector
    z: Matrix | None = None

    def __add__(self, other: RidgeSolution) -> RidgeSolution:
        z = None if self.z is None or other.z is None else self.z + other.z
        return RidgeSolution(self.coef + other.coef, self.intercept + other.intercept, z)

    def standardised(self, scale: float) -> RidgeSolution:
        """Scores minus their mean over classes, divided by `scale`."""
        return RidgeSolution(
            (self.coef - self.coef.mean(1, keepdims=True)) / scale,
            (self.intercept - self.intercept.mean()) / scale,
            None if self.z is None else (self.z - self.z.mean(1, keepdims=True)) / scale,
        )


class RidgeOnRows:
    """Ridge classifiers on subsets of given rows.

    Parameters
    ----------
    F : array of shape (n_rows, n_features), rows on demand, or a function that makes either
        All rows that may ever be fitted or scored. A Gaussian kernel with `inner` asks for them
        only once it is frozen. Rows on demand are for Gaussian kernels of more than MAX_EXACT rows.
    gaussian : bool
        Gaussian kernel, of width σ² = total variance of the rows, so that two rows are as alike
        as exp(−1) on average; or linear.
    seed : int
        Draws landmarks.
    inner : array of shape (n_rows, n_rows), default=None
        F Fᵀ, where it is known; up to MAX_EXACT rows it saves a Gaussian kernel its products.
        Overwritten.
    """

    def __init__(
        self,
        F: Matrix | RowsOnDemand | Callable[[], Matrix | RowsOnDemand],
        *,
        gaussian: bool,
        seed: int = 0,
        inner: Matrix | None = None,
    ):
        self._given, self.gaussian = F, gaussian
        self.variance: float  # σ²
        self._longest: float  # the largest squared length of a row
        way = None
        if inner is not None and gaussian and inner.shape[0] <= MAX_EXACT:
            way = self._of_inner(inner)
        self._way: _Dual | _Primal = self._of_rows(seed) if way is None else way

    def _of_inner(self, inner: Matrix) -> _Dual | None:
        """Similarities from inner products; None: these have lost too many digits."""
        squares = np.array(to_numpy(diagonal(inner)))
        self._longest = float(squares.max(initial=0))
        self.variance = float(squares.mean(dtype=np.float64) - mean(inner))
        rounding = float(np.finfo(host_type(inner)).eps) * self._longest
        within = SMALLEST**2 < self._longest < SMALLEST**-2
        if within and self.variance >= LOST_DIGITS * rounding:
            return _Dual(_similarity(inner, squares, squares, self.variance))
        return None

    def _of_rows(self, seed: int) -> _Dual | _Primal:
        """The way by kernel and shape."""
        rows: Any = self.F
        (n, d), made = rows.shape, not _on_demand(rows)
        self.variance = _total_variance(rows) if made else rows.variance
        if not np.isfinite(self.variance):
            raise ValueError(
                f"features reach {_reach(rows):.1e}: their squares are too large for "
                "float64. Divide X by its largest entry."
            )
        self._longest = float(_squares(rows).max(initial=0)) if made else rows.longest
        if self.gaussian and n > MAX_EXACT:
            return self._by_landmarks(rows, seed)
        if self.gaussian:
            return _Dual(_gaussian(rows, rows, self.variance))
        if n < d:
            return _Dual(syrk(rows, transposed=False), rows)
        return _Primal(rows, np.zeros(n, dtype=host_type(rows)))

    def _by_landmarks(self, rows: Any, seed: int) -> _Primal:
        """Features p = R⁻ᵀ k(landmarks, f), with RᵀR the similarities of landmarks."""
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(rows.shape[0], LANDMARKS, replace=False))
        landmarks = rows[chosen] if _on_demand(rows) else rows_at(rows, chosen)
        pivots, back = _independent(_gaussian(landmarks, landmarks, self.variance))
        self.basis = rows_at(landmarks, pivots)
        P, back = _landmark_features(rows, self.basis, back, self.variance)
        # What landmarks do not explain of a row's own similarity acts as noise of that row.
        return _Primal(P, np.maximum(1 - _squares(P), 0), back)

    @cached_property
    def F(self) -> Any:
        """All rows, or rows on demand; in float64 where float32 would not do."""
        F: Any = self._given() if callable(self._given) else self._given
        if _on_demand(F):
            rounding = float(np.finfo(F.dtype).eps) * F.longest
            return F if F.variance >= LOST_DIGITS * rounding else F[:]
        if host_type(F) == np.float32:
            odd = not SMALLEST < _reach(F) < 1 / SMALLEST
            if odd or (not self.gaussian and _squares(F).max(initial=0) > UNIT):
                return float64(F)
        return F

    @cached_property
    def basis(self) -> Matrix:
        """Rows that others are compared with: all of them, up to MAX_EXACT."""
        return np.asarray(self.F) if is_numpy(self.F) else self.F

    @property
    def dtype(self) -> Any:
        """Of scores."""
        return self._way.dtype

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._way.n_rows

    def similarities(self, rows: Index) -> Matrix:
        """Gaussian similarities of some rows to each other."""
        if isinstance(self._way, _Dual):
            return self._way.similarities(rows)
        F = self._rows(rows)
        return _gaussian(F, F, self.variance)

    def hold(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> None:
        """Prepare for fits of these rows first and others after them, which then cost little."""
        self._way.hold(_Labelled(rows, Y, weights, ridge))

    def fit(
        self, rows: Index, Y: Matrix, weights: Vector, ridge: float, of: slice | None = None
    ) -> tuple[RidgeSolution, Matrix]:
        """The solution on some rows, and its scores on all rows, or on those `of` a slice."""
        given = _Labelled(rows, Y, weights, ridge)
        if not self._long(given):
            return self._way.fit(given, of)
        found = _SingularValues(to_numpy(self._rows(rows)), given).solution()
        return found, _product(_part(self.F, of), found.coef) + found.intercept

    def leave_one_out(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> Matrix:
        """Scores of every fitted row by the solution without it, exactly."""
        given = _Labelled(rows, Y, weights, ridge)
        if not self._long(given):
            return self._way.leave_one_out(given)
        return _SingularValues(to_numpy(self._rows(rows)), given).leave_one_out()

    def scores(self, solution: RidgeSolution, rows: Index) -> Matrix:
        """Of some rows by a solution, which may be a sum of several."""
        if self.gaussian:
            return self._way.scores(solution, rows)
        return _product(self._rows(rows), solution.coef) + solution.intercept

    def _rows(self, some: Index) -> Matrix:
        return self.F[some] if _on_demand(self.F) else rows_at(self.F, some)

    def _long(self, given: _Labelled) -> bool:
        heaviest = float(np.max(given.weights, initial=0))
        return not self.gaussian and self._longest * heaviest > LONG * given.ridge


# Ways to solve ----------------------------------------------------------------------------------


class _Way(ABC, Generic[Shared]):
    """One way to solve (math.md §10.1); what fits that start with the same rows share is held.

    Parameters
    ----------
    given : array of shape (n_rows, n_rows or r)
        Of all rows: their products with each other, or features.
    """

    def __init__(self, given: Matrix):
        self._all = given
        self._held: tuple[_Labelled, Shared] | None = None

    @property
    def dtype(self) -> Any:
        """Of scores."""
        return host_type(self._all)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self._all.shape[0])

    def hold(self, given: _Labelled) -> None:
        """Prepare for fits that start with these rows, unless they are all."""
        held = self.started(given)
        if len(given) < self._all.shape[0] and (held is None or len(held[1])):
            self._held = None  # free its memory first
            self._held = given, self.shared(given)

    def started(self, given: _Labelled) -> tuple[Shared, _Labelled] | None:
        """What is held of a fit's first rows, and the others; None: it starts with other rows."""
        if self._held is None or not given.starts_with(self._held[0]):
            return None
        return self._held[1], given.after(len(self._held[0]))

    @abstractmethod
    def shared(self, given: _Labelled) -> Shared:
        """What fits share that start with these rows."""

    @abstractmethod
    def fit(self, given: _Labelled, of: slice | None) -> tuple[RidgeSolution, Matrix]:
        """The solution, and its scores on these rows (None: on all)."""

    @abstractmethod
    def leave_one_out(self, given: _Labelled) -> Matrix:
        """Scores of every fitted row by the solution without it."""

    @abstractmethod
    def scores(self, solution: RidgeSolution, rows: Index) -> Matrix:
        """Of some rows, by a solution in the space of the kernel."""


class _Dual(_Way["_HeldFactor"]):
    """n×n, by the matrix K of inner products or similarities of all rows.

    With M = K + diag(δ/w) of the fitted rows, s = M⁻¹1 and b = Yᵀs / 1ᵀs,

        h(f) = Σ_i a_i k(f_i, f),    a = M⁻¹(Y − 1bᵀ) = B Y,    B = M⁻¹ − ssᵀ / 1ᵀs.

    Parameters
    ----------
    K : array of shape (n_rows, n_rows)
        Of all rows.
    F : array of shape (n_rows, n_features), default=None
        The rows, where K is their products: the solution is then weights of features, Fᵀa.
    """

    def __init__(self, K: Matrix, F: Matrix | None = None):
        super().__init__(K)
        self._F = F

    def similarities(self, rows: Index) -> Matrix:
        """Of some rows to each other."""
        return block(self._all, rows, rows)

    def shared(self, given: _Labelled) -> _HeldFactor:
        """The factor of their part of K."""
        return _HeldFactor(self._all, given)

    def fit(self, given: _Labelled, of: slice | None) -> tuple[RidgeSolution, Matrix]:
        """The solution, and its scores on these rows (None: on all)."""
        started = self.started(given)
        if started is not None:
            held, others = started
            solved = to_numpy(held.solve(others))
        else:
            M = _noisy(self._all, given)
            solved = to_numpy(_Factor(M).solve(_with_ones(given.Y, M)))
        b = solved[:, :-1].sum(0) / solved[:, -1].sum()
        a = np.zeros((self._all.shape[0], given.Y.shape[1]), dtype=self.dtype)
        a[given.rows] = solved[:, :-1] - solved[:, -1:] * b
        coef = a if self._F is None else _product(self._F.T, a)
        # Rows before the first and after the last of them have no weight.
        used = slice(int(given.rows.min()), int(given.rows.max()) + 1)
        return RidgeSolution(coef, b), _product(_part(self._all, of)[:, used], a[used]) + b

    def leave_one_out(self, given: _Labelled) -> Matrix:
        """y_i − (B Y)_i / B_ii for every row i."""
        Y, M = given.Y, _noisy(self._all, given)
        factor = _Factor(M)
        solved = to_numpy(factor.solve(_with_ones(Y, M)))
        s = solved[:, -1]
        B_Y = solved[:, :-1] - np.outer(s, s @ Y / s.sum())
        own = factor.inverse_diagonal()
        return np.asarray(Y - B_Y / (own - s**2 / s.sum())[:, None])

    def scores(self, solution: RidgeSolution, rows: Index) -> Matrix:
        """Scores K a + b."""
        return _product(rows_at(self._all, rows), solution.coef) + solution.intercept


class _HeldFactor:
    """M = RᵀR of the rows that many fits start with, so that each of these factors only the others.

    With V = R⁻ᵀK from the held rows to the others, the Schur complement of the held rows is
    K − VᵀV + diag(δ/w) of the others.
    """

    def __init__(self, K: Matrix, given: _Labelled):
        M = _noisy(K, given)
        self._factor = _Factor(M)
        rest = np.ones(K.shape[0], dtype=bool)
        rest[given.rows] = False
        chosen = np.flatnonzero(rest)
        self._at = np.full(len(rest), -1)
        self._at[chosen] = np.arange(len(chosen))
        self._V = self._factor.half(block(K, given.rows, chosen))
        self._rest = block(K, chosen, chosen)
        self._rest -= syrk(self._V, transposed=True)
        self._own = self._factor.half(_with_ones(given.Y, M))

    def solve(self, others: _Labelled) -> Matrix:
        """(K + δ/w)⁻¹ [Y, 1] of a fit of the held rows and others."""
        if not len(others):
            return self._factor.other_half(self._own)
        others = replace(others, rows=self._at[others.rows])
        V, M = columns(self._V, others.rows), _noisy(self._rest, others)
        theirs = _Factor(M).solve(_with_ones(others.Y, M) - V.T @ self._own)
        return vstack([self._factor.other_half(self._own - V @ theirs), theirs])


class _Primal(_Way["_Sums"]):
    """r×r, by sums over features p of rows: about their mean, and a last 1 for the intercept.

        h(f) + b = pᵀz,    z = (Σ v p pᵀ + I)⁻¹ Σ v p yᵀ,    v = 1 / (δ/w + rest),

    where I has a 0 in its last place: the intercept is free.

    Parameters
    ----------
    F : array of shape (n_rows, r)
        Features.
    rest : array of shape (n_rows,)
        Noise of a row, beside δ/w.
    back : array of shape (n_basis, r), default=None
        F is similarities to basis rows times this, and the solution weights of these rows.
    """

    def __init__(self, F: Matrix, rest: Vector, back: Matrix | None = None):
        # Sums about a point far from the rows would lose digits in float32.
        self._mean = to_numpy(column_means(F)).astype(host_type(F))
        if is_numpy(F):
            P = np.ones((len(F), F.shape[1] + 1), dtype=F.dtype)
            np.subtract(F, self._mean, out=P[:, :-1])
        else:
            P = hstack([F - like(self._mean, F), like(ones((F.shape[0], 1), F), F)])
        super().__init__(P)
        self._rest, self._back = rest, back

    def _strengths(self, given: _Labelled) -> Vector:
        """The v of rows."""
        return np.asarray(1 / (given.noise + self._rest[given.rows])).astype(self.dtype)

    def shared(self, given: _Labelled) -> _Sums:
        """Their sums."""
        P, v = rows_at(self._all, given.rows), self._strengths(given)
        right = P.T @ like(v[:, None] * given.Y, P)
        P *= like(np.sqrt(v), P)[:, None]
        return _Sums(syrk(P, transposed=True), right)

    def _sums(self, given: _Labelled) -> _Sums:
        started = self.started(given)
        if started is None:
            return self.shared(given)
        held, others = started
        return held + self.shared(others) if len(others) else held

    def fit(self, given: _Labelled, of: slice | None) -> tuple[RidgeSolution, Matrix]:
        """The solution, and its scores on these rows (None: on all)."""
        sums = self._sums(given)
        z = to_numpy(_Factor(sums.system()).solve(sums.right))
        inner = np.ascontiguousarray(z[:-1])
        coef = inner if self._back is None else _product(self._back, inner)
        scores = _product(_part(self._all, of), z)
        return RidgeSolution(coef, z[-1] - self._mean @ inner, z), scores

    def leave_one_out(self, given: _Labelled) -> Matrix:
        """Y − (y − pᵀz)/(1 − v pᵀ(RᵀR)⁻¹p) of every row, RᵀR being the system."""
        self.hold(given)  # fits of these rows are likely to come
        sums = self._sums(given)
        P, factor = rows_at(self._all, given.rows), _Factor(sums.system())
        residual = given.Y - _product(P, to_numpy(factor.solve(sums.right)))
        # ‖R⁻ᵀp‖² is half the work of pᵀ(RᵀR)⁻¹p
        leverage = self._strengths(given) * _column_squares(factor.half(P.T))
        return np.asarray(given.Y - residual / np.maximum(1 - leverage, 1e-6)[:, None])

    def scores(self, solution: RidgeSolution, rows: Index) -> Matrix:
        """Scores pᵀz."""
        assert solution.z is not None
        return _product(rows_at(self._all, rows), solution.z)


@dataclass(frozen=True)
class _Sums:
    """Σ v p pᵀ and Σ v p yᵀ over rows p whose last feature is 1."""

    gram: Matrix
    right: Matrix

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(self.gram + other.gram, self.right + other.right)

    def system(self) -> Matrix:
        """With the penalty ‖z‖², which the intercept is free of."""
        return add_to_diagonal(copy(self.gram), 1, self.gram.shape[0] - 1)


class _SingularValues:
    """A linear ridge of long rows, from diag(w)^½ (F − 1mᵀ) = U S Vᵀ, m their weighted mean.

        h = V (S² + δI)⁻¹ S Uᵀ diag(w)^½ (Y − 1ȳᵀ),    b = ȳ − hᵀm.

    Directions that are rounding, such as that of the mean, are left out; they are refused where δ
    would not have hidden them.
    """

    def __init__(self, F: Matrix, given: _Labelled):
        Y, weights, ridge = given.Y, given.weights, given.ridge
        share = weights / weights.sum()
        self.mean, self.level = share @ F, share @ Y
        self.root = np.sqrt(weights)[:, None]
        U, s, Vt = svd(self.root * (F - self.mean), full_matrices=False, check_finite=False)
        rounding = max(F.shape) * np.finfo(np.float64).eps * s.max(initial=0)
        kept = s > rounding
        if kept.sum() < min(len(F) - 1, F.shape[1]) and rounding**2 > LEFT * ridge:
            raise ValueError(SINGULAR)
        self.U, self.s, self.Vt = U[:, kept], s[kept], Vt[kept]
        self.Y, self.share, self.ridge = Y, share, ridge
        self.along = self.U.T @ (self.root * (Y - self.level))

    def solution(self) -> RidgeSolution:
        """The h and b of the minimum."""
        coef = self.Vt.T @ ((self.s / (self.s**2 + self.ridge))[:, None] * self.along)
        return RidgeSolution(coef, self.level - self.mean @ coef)

    def leave_one_out(self) -> Matrix:
        """Scores of every row by the solution without it: residuals over 1 − leverage."""
        kept = self.s**2 / (self.s**2 + self.ridge)
        fitted = self.level + (self.U @ (kept[:, None] * self.along)) / self.root
        leverage = self.share + np.einsum("ij,j,ij->i", self.U, kept, self.U)
        return np.asarray(self.Y - (self.Y - fitted) / np.maximum(1 - leverage, 1e-6)[:, None])


def _noisy(K: Matrix, given: _Labelled) -> Matrix:
    """K + δ/w of some rows."""
    M = block(K, given.rows, given.rows)
    return add_to_diagonal(M, like(given.noise.astype(host_type(M)), M))


def _with_ones(Y: Matrix, M: Matrix) -> Matrix:
    """[Y, 1], where M is and in its type."""
    targets = np.column_stack([Y, np.ones(len(Y), dtype=Y.dtype)])
    return like(targets.astype(host_type(M)), M)


class _Factor:
    """R of M = RᵀR (overwritten); only its upper triangle is defined. Of other libraries Rᵀ."""

    def __init__(self, M: Matrix):
        if is_numpy(M):
            try:  # turned, M lies as LAPACK wants it, and is the same
                self._R = np.asarray(cho_factor(M.T, overwrite_a=True, check_finite=False)[0])
            except LinAlgError:
                raise ValueError(SINGULAR) from None
            return
        L = cholesky(M)
        if L is None or not np.isfinite(float(namespace(L).min(diagonal(L)))):
            raise ValueError(SINGULAR)
        self._R = L

    def solve(self, B: Matrix) -> Matrix:
        """M⁻¹B."""
        if is_numpy(self._R):
            return np.asarray(cho_solve((self._R, False), B, check_finite=False))
        return cholesky_solve(self._R, B)

    def half(self, B: Matrix) -> Matrix:
        """R⁻ᵀB: the first half of a solve."""
        if is_numpy(self._R):
            return np.asarray(solve_triangular(self._R, B, trans=1, check_finite=False))
        return triangular_solve(self._R, B)

    def other_half(self, B: Matrix) -> Matrix:
        """R⁻¹B: the other half."""
        if is_numpy(self._R):
            return np.asarray(solve_triangular(self._R, B, check_finite=False))
        return triangular_solve(self._R, B, transposed=True)

    def inverse_diagonal(self) -> Vector:
        """Of M⁻¹, on the host; R is overwritten."""
        if not is_numpy(self._R):
            return np.asarray(to_numpy(diagonal(cholesky_inverse(self._R))))
        invert = lapack.spotri if self._R.dtype == np.float32 else lapack.dpotri
        inverse, info = invert(self._R, lower=False, overwrite_c=1)
        if info:
            raise ValueError(SINGULAR)
        return np.array(inverse.diagonal())


def _part(A: Matrix, of: slice | None) -> Matrix:
    """Some rows; None: all."""
    return A if of is None else A[of, ...]


def _product(A: Matrix, B: Matrix) -> Matrix:
    """A times a few columns of the host, there."""
    return np.asarray(to_numpy(A @ like(B, A)))


# The Gaussian kernel ------------------------------------------------------------------------------


def _gaussian(A: Matrix, B: Matrix, variance: float) -> Matrix:
    """exp(−‖a − b‖² / 2σ²)."""
    # About their middle: rows far from the origin and close together would lose all digits.
    middle = namespace(B).mean(B, axis=0)
    B_about = B - middle
    if A is B:
        own = _squares(B_about)
        return _similarity(syrk(B_about, transposed=False), own, own, variance)
    A, B = A - middle, B_about
    if is_numpy(A) and A.dtype == np.float64:
        return similarity(A, B, variance)
    return _similarity(A @ B.T, _squares(A), _squares(B), variance)


def _similarity(K: Matrix, of_a: Vector, of_b: Vector, variance: float) -> Matrix:
    """The same from products K = A Bᵀ, which are overwritten, and squared lengths."""
    half_a, half_b = 0.5 * of_a[:, None], 0.5 * of_b
    if not is_numpy(K):
        xp = namespace(K)
        K -= like(half_a, K)
        K -= like(half_b, K)
        similar: Matrix = xp.exp(xp.where(K < 0, K, xp.zeros_like(K)) / variance)  # rounding
        return similar
    step = max(1, CACHE_BYTES // max(1, K.itemsize * K.shape[1]))
    for start in range(0, len(K), step):  # while they are in cache
        part = K[start : start + step]
        part -= half_a[start : start + step]
        part -= half_b
        np.minimum(part, 0, out=part)  # rounding
        part /= variance
        np.exp(part, out=part)
    return K


def _total_variance(F: Matrix) -> float:
    """Mean squared distance of rows from their mean; 1 if there is none."""
    if not is_numpy(F):
        off = float64(F) - column_means(F)
        return vdot(off, off) / max(1, F.shape[0]) or 1.0
    mean, total = F.mean(axis=0, dtype=np.float64), 0.0
    step = max(1, CACHE_BYTES // max(1, 8 * F.shape[1]))
    with np.errstate(over="ignore"):
        for start in range(0, len(F), step):
            off = F[start : start + step] - mean
            total += float(np.vdot(off, off))
    return total / max(1, len(F)) or 1.0


def _on_demand(F: Any) -> bool:
    return hasattr(F, "products")


def _reach(F: Matrix) -> float:
    """The largest entry, whatever its sign."""
    xp = namespace(F)
    return max(float(xp.max(F)), -float(xp.min(F)), 0.0) if 0 not in F.shape else 0.0


def _squares(A: Matrix) -> Vector:
    """Squared lengths of rows, on the host."""
    if is_numpy(A):
        return np.asarray(np.einsum("ij,ij->i", A, A))
    return np.asarray(to_numpy(namespace(A).sum(A * A, axis=1)))


def _column_squares(A: Matrix) -> Vector:
    """Squared lengths of columns, on the host."""
    return np.asarray(np.einsum("ji,ji->i", A, A)) if is_numpy(A) else _squares(A.T)


# Landmarks ----------------------------------------------------------------------------------------


def _independent(K: Matrix) -> tuple[Index, Matrix]:
    """Rows of a kernel (overwritten) that explain all others, and R⁻¹ of theirs, RᵀR."""
    K = K if is_numpy(K) else np.array(to_numpy(K))
    factorise = lapack.spstrf if K.dtype == np.float32 else lapack.dpstrf
    invert = lapack.strtri if K.dtype == np.float32 else lapack.dtrtri
    R, order, rank, _ = factorise(K.T, tol=UNEXPLAINED, overwrite_a=1)
    inverse, _ = invert(np.triu(R[:rank, :rank]), overwrite_c=1)
    return order[:rank] - 1, np.asfortranarray(inverse)


def _landmark_features(
    F: Any, basis: Matrix, back: Matrix, variance: float
) -> tuple[Matrix, Matrix]:
    """Similarities to landmarks, times `back`, and `back`: many of them in float32.

    That is what UNEXPLAINED is made for. Rows are brought to their middle and a few units
    before they lose digits.
    """
    if not (is_numpy(F) or _on_demand(F)):
        return _landmark_features_elsewhere(F, basis, back, variance)
    n = F.shape[0]
    dtype = np.float32 if n * len(basis) > SINGLE_PRECISION else F.dtype
    back = back.astype(dtype)
    middle, unit = basis.mean(0), float(np.sqrt(variance))
    basis = ((basis - middle) / unit).astype(dtype)
    P = np.empty((n, back.shape[1]), dtype=dtype)
    step = max(1, BLOCK_BYTES // (4 * max(len(basis), basis.shape[1])))
    product = strmm if dtype == np.float32 else dtrmm
    along = None
    if not isinstance(F, np.ndarray):
        # Rows of one length: what differs is the products.
        along = F.products(np.vstack([basis / unit, middle[None].astype(dtype)]))
        own, level = _squares(basis), (basis / unit) @ middle
    for start in range(0, n, step):
        some = slice(start, start + step)
        if along is None:
            rows = F[some] - middle
            rows /= unit
            K = _gaussian(rows.astype(dtype, copy=False), basis, 1.0)
        else:
            products = along(some)
            K, of_middle = products[:, :-1], products[:, -1]
            K -= level
            squares = (F.squares[some] - 2 * of_middle + middle @ middle) / unit**2
            K = _similarity(K, squares.astype(dtype), own, 1.0)
        P[some] = product(1.0, back, K.T, trans_a=1, overwrite_b=1).T
    return P, back


def _landmark_features_elsewhere(
    F: Matrix, basis: Matrix, back: Matrix, variance: float
) -> tuple[Matrix, Matrix]:
    """The same of rows of another library, where they are."""
    n, xp = F.shape[0], namespace(F)
    single = n * basis.shape[0] > SINGLE_PRECISION
    dtype = xp.float32 if single else F.dtype
    middle, unit = xp.mean(basis, axis=0), float(np.sqrt(variance))
    basis = astype((basis - middle) / unit, dtype)
    back = like(back, basis)
    parts = []
    step = max(1, DEVICE_BYTES // (4 * max(basis.shape)))
    for start in range(0, n, step):
        rows = (F[start : min(n, start + step), ...] - middle) / unit
        parts.append(_gaussian(astype(rows, dtype), basis, 1.0) @ back)
    return vstack(parts), back


# For new rows -------------------------------------------------------------------------------------


class GaussianRidge:
    """The frozen Gaussian-kernel classifier of a fit: similarity to basis rows, weighted.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Label values.
    basis_ : array of shape (n_basis, n_features)
        Rows that others are compared with.
    coef_ : array of shape (n_basis, n_classes)
        Their weights.
    intercept_ : array of shape (n_classes,)
        Added to the scores.
    variance_ : float
        σ² of the kernel.
    """

    def __init__(
        self, classes: Vector, basis: Matrix, coef: Matrix, intercept: Vector, variance: float
    ):
        self.classes_, self.basis_, self.coef_ = classes, basis, coef
        self.intercept_, self.variance_ = intercept, variance

    @classmethod
    def of(cls, classes: Vector, ridge: RidgeOnRows, solution: RidgeSolution) -> GaussianRidge:
        """What predictions need: only the basis rows that have a weight."""
        used = np.flatnonzero(np.any(solution.coef != 0, axis=1))
        basis, coef = ridge.basis, solution.coef
        if len(used) < basis.shape[0]:
            basis, coef = rows_at(basis, used), coef[used]
        return cls(classes, basis, coef, solution.intercept, ridge.variance)

    def scores(self, F: Matrix) -> NDArray[np.float64]:
        """Scores of rows, one column per class."""
        n = F.shape[0]
        out = np.empty((n, len(self.classes_)))
        # Large weights of both signs nearly cancel: in float32, four digits would be left.
        basis, coef = float64(self.basis_), float64(self.coef_)
        size = 2**24 if is_numpy(F) else DEVICE_BYTES // 8
        step = max(1, size // max(1, basis.shape[0]))
        for start in range(0, n, step):
            part = slice(start, min(n, start + step))
            K = _gaussian(float64(F[part, ...]), basis, self.variance_)
            out[part] = _product(K, coef) + self.intercept_
        return out

    def decision_function(self, F: Matrix) -> NDArray[np.float64]:
        """Scores of rows; for two classes, those of the second."""
        scores = self.scores(F)
        return scores[:, 1] if len(self.classes_) == 2 else scores

    def predict_proba(self, F: Matrix) -> NDArray[np.float64]:
        """A softmax of the scores."""
        return np.asarray(softmax(self.scores(F), axis=1))

    def predict(self, F: Matrix) -> NDArray[Any]:
        """The class of the highest score."""
        return np.asarray(self.classes_[self.scores(F).argmax(1)])
