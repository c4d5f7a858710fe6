"""Heads: classifiers on the features of one fit, refitted often, on changing sets of labelled rows.

A head is made for all rows of a fit and scores all of them after every fit, so that self-training
(pseudo_labels.py) can use any classifier. The ridge heads are weighted ridge classifiers: with rows
f_i, targets y_i = ±1 (one column per class), weights w_i and a free intercept b,

    min  Σ_i w_i ‖y_i − h(f_i) − b‖² + δ‖h‖²

over linear h, or over h in the space of the Gaussian kernel exp(−‖f − g‖² / 2σ²). Everything that
does not depend on labels and weights (the Gram of all rows) is computed once.

Of arrays of other libraries, features and Grams stay where they are; labels, weights, solutions and
scores, one column per class, are of the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular, svd
from scipy.linalg.blas import dsyrk, dtrmm, ssyrk, strmm
from scipy.special import softmax
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import has_fit_parameter

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
    mirror_lower,
    namespace,
    ones,
    rows_at,
    to_numpy,
    triangular_solve,
    vdot,
    vstack,
)
from marda.estimators.dscm import DSCM, class_means
from marda.moments import accumulate

__all__ = [
    "MAX_EXACT",
    "EstimatorHead",
    "GaussianRidge",
    "Head",
    "MeansHead",
    "NearestHead",
    "NearestRow",
    "RidgeHead",
    "RidgeOnRows",
    "RidgeSolution",
    "RowsOnDemand",
    "class_scores",
    "signs",
    "syrk",
]

Matrix = NDArray[Any]
Vector = NDArray[Any]
Index = NDArray[np.int64]


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


#: Up to this many rows the Gaussian kernel is exact; beyond, it is projected on landmarks. Fewer
#: of them are faster, but which rows were drawn then moves the accuracy by a point.
MAX_EXACT = 6500
LANDMARKS = 2000
CACHE_BYTES, BLOCK_BYTES, DEVICE_BYTES = 2**20, 2**25, 2**31
#: Similarities to landmarks are held in float32 where there are more than this.
SINGLE_PRECISION = 2**20
#: Products of float32 rows that are all smaller than this, or of which one exceeds its inverse, may
#: under- or overflow: they are taken in float64.
SMALLEST = 1e-15
#: Products of float32 rows of unit length leave a ridge its digits; those of longer rows, whose
#: squared lengths exceed this, may not: float64 too.
UNIT = 2.0
#: Where the longest row has a weighted square of more ridges than this, sums of squares lose
#: digits, and a linear ridge is solved through singular values instead.
LONG = 1e6
#: Of a direction that cannot be told from rounding, the most that a ridge may leave.
LEFT = 1e-6
#: Rows whose variance is within this many roundings of their lengths have lost three digits or more
#: in their products: differences are taken first.
LOST_DIGITS = 1e3
SINGULAR = (
    "the ridge on features is singular to working precision: ridge_class is too small for features "
    "of this size. Raise it, or scale X."
)
#: Landmarks that others explain but for this share of their own similarity are left out: what they
#: would add is noise in float32.
UNEXPLAINED = 1e-4


def signs(codes: Index, n_classes: int, dtype: Any = np.float64) -> Matrix:
    """Targets: +1 in the column of a row's class, −1 elsewhere."""
    Y = np.full((len(codes), n_classes), -1, dtype=dtype)
    Y[np.arange(len(codes)), codes] = 1
    return Y


@dataclass(frozen=True)
class RidgeSolution:
    """h as weights on `basis` rows (Gaussian) or on features (linear), and the intercept.

    Where rows have features of their own (`_Explicit`), `z` are their weights.
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
        self._gram: Matrix | None = None
        self._held: _Held | None = None
        self._explicit: _Explicit | None = None
        if inner is not None and gaussian and inner.shape[0] <= MAX_EXACT:
            squares = np.array(to_numpy(diagonal(inner)))
            self._longest = float(squares.max(initial=0))
            self.variance = float(squares.mean(dtype=np.float64) - mean(inner))
            rounding = float(np.finfo(host_type(inner)).eps) * self._longest
            if (
                SMALLEST**2 < self._longest < SMALLEST**-2
                and self.variance >= LOST_DIGITS * rounding
            ):
                self._gram = _similarity(inner, squares, squares, self.variance)
                return
        rows: Any = self.F
        (n, d), made = rows.shape, not _on_demand(rows)
        self.variance = _total_variance(rows) if made else rows.variance
        if not np.isfinite(self.variance):
            raise ValueError(
                f"features reach {_reach(rows):.1e}: their squares are too large for "
                "float64. Divide X by its largest entry."
            )
        self._longest = float(_squares(rows).max(initial=0)) if made else rows.longest
        if not gaussian:
            if n < d:
                self._gram = syrk(rows, transposed=False)
            else:
                self._explicit = _Explicit(rows, np.zeros(n, dtype=host_type(rows)))
        elif n <= MAX_EXACT:
            self._gram = _gaussian(rows, rows, self.variance)
        else:
            chosen = np.random.default_rng(seed).choice(n, LANDMARKS, replace=False)
            self.basis = rows[np.sort(chosen)] if not made else rows_at(rows, np.sort(chosen))
            own = _gaussian(self.basis, self.basis, self.variance)
            pivots, back = _independent(own)
            self.basis = rows_at(self.basis, pivots)
            P, back = self._landmark_features(back)
            # What landmarks do not explain of a row's own similarity acts as noise of that row.
            self._explicit = _Explicit(P, np.maximum(1 - _squares(P), 0), back)

    def _landmark_features(self, back: Matrix) -> tuple[Matrix, Matrix]:
        """Similarities to landmarks, times `back`, and `back`: many of them in float32.

        That is what UNEXPLAINED is made for. Rows are brought to their middle and a few units
        before they lose digits.
        """
        F, n = self.F, self.F.shape[0]
        if not (is_numpy(F) or _on_demand(F)):
            return self._landmark_features_elsewhere(back)
        dtype = np.float32 if n * len(self.basis) > SINGLE_PRECISION else F.dtype
        back = back.astype(dtype)
        middle, unit = self.basis.mean(0), float(np.sqrt(self.variance))
        basis = ((self.basis - middle) / unit).astype(dtype)
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

    def _landmark_features_elsewhere(self, back: Matrix) -> tuple[Matrix, Matrix]:
        """The same of rows of another library, where they are."""
        F, basis = self.F, self.basis
        n, xp = F.shape[0], namespace(F)
        single = n * basis.shape[0] > SINGLE_PRECISION
        dtype = xp.float32 if single else F.dtype
        middle, unit = xp.mean(basis, axis=0), float(np.sqrt(self.variance))
        basis = astype((basis - middle) / unit, dtype)
        back = like(back, basis)
        parts = []
        step = max(1, DEVICE_BYTES // (4 * max(basis.shape)))
        for start in range(0, n, step):
            rows = (F[start : min(n, start + step), ...] - middle) / unit
            parts.append(_gaussian(astype(rows, dtype), basis, 1.0) @ back)
        return vstack(parts), back

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
        if self._explicit is not None:
            return host_type(self._explicit.P)
        return host_type(self.F if self._gram is None else self._gram)

    def similarities(self, rows: Index) -> Matrix:
        """Gaussian similarities of some rows to each other."""
        if self._gram is not None and self.gaussian:
            return block(self._gram, rows, rows)
        F = self._rows(rows)
        return _gaussian(F, F, self.variance)

    def _rows(self, some: Index) -> Matrix:
        return self.F[some] if _on_demand(self.F) else rows_at(self.F, some)

    def _long(self, weights: Vector, ridge: float) -> bool:
        heaviest = float(np.max(weights, initial=0))
        return not self.gaussian and self._longest * heaviest > LONG * ridge

    # Fits -------------------------------------------------------------------------------------

    def hold(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> None:
        """Prepare for fits of these rows first and others after them, which then cost little."""
        n, held = (self.F if self._gram is None else self._gram).shape[0], self._held
        if held is not None and len(held) == len(rows) and held.starts(rows, Y, weights, ridge):
            return
        if len(rows) < n:
            self._held = None  # free its memory first
            if self._explicit is not None:
                self._held = _HeldSums(self._explicit, rows, Y, weights, ridge)
            elif self._gram is not None:
                self._held = _HeldFactor(self._gram, rows, Y, weights, ridge)

    def fit(
        self, rows: Index, Y: Matrix, weights: Vector, ridge: float
    ) -> tuple[RidgeSolution, Matrix]:
        """The solution on some rows, and its scores on all rows."""
        if self._long(weights, ridge):
            found = _SingularValues(to_numpy(self._rows(rows)), Y, weights, ridge).solution()
            return found, _product(self.F, found.coef) + found.intercept
        if self._gram is not None:
            held = self._held
            if isinstance(held, _HeldFactor) and held.starts(rows, Y, weights, ridge):
                solved = to_numpy(held.solve(rows, Y, weights, ridge))
            else:
                M = _ridged(self._gram, rows, ridge / weights)
                solved = to_numpy(_posdef_solve(M, _with_ones(Y)))
            b = solved[:, :-1].sum(0) / solved[:, -1].sum()
            coef = np.zeros((self._gram.shape[0], Y.shape[1]), dtype=self.dtype)
            coef[rows] = solved[:, :-1] - solved[:, -1:] * b
            scores = _product(self._gram, coef) + b
            return RidgeSolution(coef if self.gaussian else _product(self.F.T, coef), b), scores
        assert self._explicit is not None
        sums = self._sums(rows, Y, weights, ridge)
        z = to_numpy(_posdef_solve(sums.system(), sums.right))
        return self._explicit.solution(z), _product(self._explicit.P, z)

    def _sums(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> _Sums:
        """Of some rows, which may start with those that are held."""
        assert self._explicit is not None
        held, given = self._held, (rows, Y, weights, ridge)
        if isinstance(held, _HeldSums) and held.starts(*given):
            return held.sums(*given)
        return self._explicit.sums(*given)

    def scores(self, solution: RidgeSolution, rows: Index) -> Matrix:
        """Of some rows by a solution, which may be a sum of several."""
        if not self.gaussian:
            return _product(self._rows(rows), solution.coef) + solution.intercept
        if self._gram is not None:
            return _product(rows_at(self._gram, rows), solution.coef) + solution.intercept
        if self._explicit is not None and solution.z is not None:
            return _product(rows_at(self._explicit.P, rows), solution.z)
        K = _gaussian(self._rows(rows), self.basis, self.variance)
        return _product(K, solution.coef) + solution.intercept

    def leave_one_out(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> Matrix:
        """Scores of every fitted row by the solution without it, exactly."""
        if self._long(weights, ridge):
            return _SingularValues(to_numpy(self._rows(rows)), Y, weights, ridge).leave_one_out()
        if self._gram is not None:
            # B = M⁻¹ − ssᵀ/Σs with s = M⁻¹1 takes targets to weights, whatever the intercept
            M = _ridged(self._gram, rows, ridge / weights)
            factor = _factor(M)
            solved = to_numpy(_solve(factor, like(_with_ones(Y).astype(host_type(M)), M)))
            s = solved[:, -1]
            B_Y = solved[:, :-1] - np.outer(s, s @ Y / s.sum())
            own = _inverse_diagonal(factor)
            return np.asarray(Y - B_Y / (own - s**2 / s.sum())[:, None])
        assert self._explicit is not None
        self.hold(rows, Y, weights, ridge)  # fits of these rows are likely to come
        P, v = rows_at(self._explicit.P, rows), self._explicit.strengths(rows, weights, ridge)
        sums = self._sums(rows, Y, weights, ridge)
        factor = _factor(sums.system())  # RᵀR, of which pᵀ(RᵀR)⁻¹p = ‖R⁻ᵀp‖² is half the work
        residual = Y - _product(P, to_numpy(_solve(factor, sums.right)))
        solved = _solve_half(factor, P.T, trans=1)
        leverage = v * _column_squares(solved)
        return np.asarray(Y - residual / np.maximum(1 - leverage, 1e-6)[:, None])


class _SingularValues:
    """A linear ridge of long rows, from A = diag(w)^½ (F − 1mᵀ) = U S Vᵀ, m their weighted mean.

    h = V (S² + δ)⁻¹ S Uᵀ diag(w)^½ (Y − 1ȳᵀ), and b = ȳ − hᵀm. Directions that are rounding, such
    as that of the mean, are left out; they are refused where δ would not have hidden them.
    """

    def __init__(self, F: Matrix, Y: Matrix, weights: Vector, ridge: float):
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
        """H and b."""
        coef = self.Vt.T @ ((self.s / (self.s**2 + self.ridge))[:, None] * self.along)
        return RidgeSolution(coef, self.level - self.mean @ coef)

    def leave_one_out(self) -> Matrix:
        """Scores of every row by the solution without it: residuals over 1 − leverage."""
        kept = self.s**2 / (self.s**2 + self.ridge)
        fitted = self.level + (self.U @ (kept[:, None] * self.along)) / self.root
        leverage = self.share + np.einsum("ij,j,ij->i", self.U, kept, self.U)
        return np.asarray(self.Y - (self.Y - fitted) / np.maximum(1 - leverage, 1e-6)[:, None])


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


class _Explicit:
    """Rows as features P of their own, about their mean, with a constant: h(f) = pᵀz.

    Parameters
    ----------
    P : array of shape (n_rows, r)
        Features.
    rest : array of shape (n_rows,)
        Noise of a row, beside δ/w.
    back : array of shape (n_basis, r), default=None
        P is similarities to basis rows times this; None: P is the rows themselves.
    """

    def __init__(self, P: Matrix, rest: Vector, back: Matrix | None = None):
        # Sums about a point far from the rows would lose digits in float32.
        self._mean = to_numpy(column_means(P)).astype(host_type(P))
        if is_numpy(P):
            self.P = np.ones((len(P), P.shape[1] + 1), dtype=P.dtype)
            np.subtract(P, self._mean, out=self.P[:, :-1])
        else:
            self.P = hstack([P - like(self._mean, P), like(ones((P.shape[0], 1), P), P)])
        self._rest, self._back = rest, back

    def strengths(self, rows: Index, weights: Vector, ridge: float) -> Vector:
        """Weights of rows, where ‖z‖² weighs 1."""
        return np.asarray(1 / (ridge / weights + self._rest[rows])).astype(host_type(self.P))

    def sums(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> _Sums:
        """Of some rows."""
        P, v = rows_at(self.P, rows), self.strengths(rows, weights, ridge)
        right = P.T @ like(v[:, None] * Y, P)
        P *= like(np.sqrt(v), P)[:, None]
        return _Sums(syrk(P, transposed=True), right)

    def solution(self, z: Matrix) -> RidgeSolution:
        """Weights of what P was made from, and the intercept."""
        inner = np.ascontiguousarray(z[:-1])
        coef = inner if self._back is None else _product(self._back, inner)
        return RidgeSolution(coef, z[-1] - self._mean @ inner, z)


class _Held:
    """Rows that every fit starts with."""

    def __init__(self, rows: Index, Y: Matrix, weights: Vector, ridge: float):
        self._key = rows, Y, weights, ridge

    def __len__(self) -> int:
        return len(self._key[0])

    def starts(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> bool:
        """Whether a fit starts with the held rows, as they are held."""
        held, Y_held, weights_held, ridge_held = self._key
        n = len(held)
        return (
            ridge == ridge_held
            and np.array_equal(rows[:n], held)
            and np.array_equal(weights[:n], weights_held)
            and np.array_equal(Y[:n], Y_held)
        )


class _HeldSums(_Held):
    """Sums of the held rows: a fit adds those of its other rows."""

    def __init__(self, explicit: _Explicit, rows: Index, Y: Matrix, weights: Vector, ridge: float):
        super().__init__(rows, Y, weights, ridge)
        self._explicit, self._own = explicit, explicit.sums(rows, Y, weights, ridge)

    def sums(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> _Sums:
        """Of a fit that starts with the held rows."""
        n = len(self)
        if n == len(rows):
            return self._own
        return self._own + self._explicit.sums(rows[n:], Y[n:], weights[n:], ridge)


class _HeldFactor(_Held):
    """A factorisation of the held rows: K + δ/w = RᵀR.

    With V = R⁻ᵀK from these to the other rows, what these leave of the others is K − VᵀV. A fit of
    both solves as many equations as it has other rows.
    """

    def __init__(self, gram: Matrix, rows: Index, Y: Matrix, weights: Vector, ridge: float):
        super().__init__(rows, Y, weights, ridge)
        M = _ridged(gram, rows, ridge / weights)
        self._R = _factor(M)
        others = np.ones(gram.shape[0], dtype=bool)
        others[rows] = False
        chosen = np.flatnonzero(others)
        self._at = np.full(len(others), -1)
        self._at[chosen] = np.arange(len(chosen))
        self._V = _solve_half(self._R, block(gram, rows, chosen), trans=1)
        self._rest = block(gram, chosen, chosen)
        self._rest -= syrk(self._V, transposed=True)
        self._own = _solve_half(self._R, like(_with_ones(Y).astype(host_type(M)), M), trans=1)

    def solve(self, rows: Index, Y: Matrix, weights: Vector, ridge: float) -> Matrix:
        """(K + δ/w)⁻¹ [Y, 1] of a fit that starts with the held rows."""
        n = len(self)
        others = self._at[rows[n:]]
        if not len(others):
            return _solve_half(self._R, self._own, trans=0)
        V = columns(self._V, others)
        M = _ridged(self._rest, others, ridge / weights[n:])
        targets = like(_with_ones(Y[n:]).astype(host_type(M)), M)
        theirs = _posdef_solve(M, targets - V.T @ self._own)
        return vstack([_solve_half(self._R, self._own - V @ theirs, trans=0), theirs])


def _ridged(gram: Matrix, rows: Index, ridges: Vector) -> Matrix:
    """K + δ/w of some rows."""
    M = block(gram, rows, rows)
    return add_to_diagonal(M, like(ridges.astype(host_type(M)), M))


def _with_ones(Y: Matrix) -> Matrix:
    return np.column_stack([Y, np.ones(len(Y), dtype=Y.dtype)])


def syrk(A: Matrix, *, transposed: bool) -> Matrix:
    """AAᵀ or AᵀA, in half the work of a product."""
    if not is_numpy(A):
        return A.T @ A if transposed else A @ A.T
    product = ssyrk if A.dtype == np.float32 else dsyrk
    # A C-ordered A is Aᵀ to Fortran; the lower triangle of the result is then the one to read.
    return mirror_lower(product(1.0, A.T, trans=not transposed, lower=1)).T


def _product(A: Matrix, B: Matrix) -> Matrix:
    """A times a few columns of the host, there."""
    return np.asarray(to_numpy(A @ like(B, A)))


def _factor(M: Matrix) -> Matrix:
    """R of M = RᵀR (overwritten), of which only the upper triangle is defined; elsewhere Rᵀ."""
    if not is_numpy(M):
        L = cholesky(M)
        if L is None or not np.isfinite(float(namespace(L).min(diagonal(L)))):
            raise ValueError(SINGULAR)
        return L
    try:  # turned, M lies as LAPACK wants it, and is the same
        return np.asarray(cho_factor(M.T, overwrite_a=True, check_finite=False)[0])
    except LinAlgError:
        raise ValueError(SINGULAR) from None


def _solve(R: Matrix, B: Matrix) -> Matrix:
    """(RᵀR)⁻¹B."""
    if is_numpy(R):
        return np.asarray(cho_solve((R, False), B, check_finite=False))
    return cholesky_solve(R, B)


def _solve_half(R: Matrix, B: Matrix, *, trans: int) -> Matrix:
    """R⁻¹B, or R⁻ᵀB."""
    if is_numpy(R):
        return np.asarray(solve_triangular(R, B, trans=trans, check_finite=False))
    return triangular_solve(R, B, transposed=not trans)


def _independent(K: Matrix) -> tuple[Index, Matrix]:
    """Rows of a kernel (overwritten) that explain all others, and R⁻¹ of theirs, RᵀR."""
    K = K if is_numpy(K) else np.array(to_numpy(K))
    factorise = lapack.spstrf if K.dtype == np.float32 else lapack.dpstrf
    invert = lapack.strtri if K.dtype == np.float32 else lapack.dtrtri
    R, order, rank, _ = factorise(K.T, tol=UNEXPLAINED, overwrite_a=1)
    inverse, _ = invert(np.triu(R[:rank, :rank]), overwrite_c=1)
    return order[:rank] - 1, np.asfortranarray(inverse)


def _inverse_diagonal(factor: Matrix) -> Vector:
    """Of (RᵀR)⁻¹, on the host; R is overwritten."""
    if not is_numpy(factor):
        return np.asarray(to_numpy(diagonal(cholesky_inverse(factor))))
    invert = lapack.spotri if factor.dtype == np.float32 else lapack.dpotri
    inverse, info = invert(factor, lower=False, overwrite_c=1)
    if info:
        raise ValueError(SINGULAR)
    return np.array(inverse.diagonal())


def _posdef_solve(M: Matrix, B: Matrix) -> Matrix:
    B = B.astype(M.dtype) if is_numpy(M) else like(B, M)
    return _solve(_factor(M), B)


def _gaussian(A: Matrix, B: Matrix, variance: float) -> Matrix:
    """exp(−‖a − b‖² / 2σ²)."""
    # About their middle: rows far from the origin and close together would lose all digits.
    middle = namespace(B).mean(B, axis=0)
    B_about = B - middle
    if A is B:
        own = _squares(B_about)
        return _similarity(syrk(B_about, transposed=False), own, own, variance)
    A, B = A - middle, B_about
    return _similarity(A @ B.T, _squares(A), _squares(B), variance)


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


def _similarity(K: Matrix, of_a: Vector, of_b: Vector, variance: float) -> Matrix:
    """The same from products, which are overwritten, and squared lengths."""
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


# Heads ------------------------------------------------------------------------------------------


class Head(ABC):
    """A classifier on features `F` of all rows of a fit.

    Parameters
    ----------
    F : array of shape (n_rows, n_features)
        Features of all rows.
    classes : array of shape (n_classes,)
        Label values.
    """

    def __init__(self, F: Matrix, classes: Vector):
        self._features, self.classes = F, classes

    @property
    def F(self) -> Matrix:
        """Features of all rows."""
        return self._features

    @abstractmethod
    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Fit on some rows with these class codes; scores of all rows, one column per class."""

    @property
    @abstractmethod
    def fitted(self) -> Any:
        """The classifier of the last fit."""


class RidgeHead(Head):
    """Ridge with a free intercept, linear or in the space of a Gaussian kernel."""

    def __init__(
        self,
        F: Matrix | RowsOnDemand | Callable[[], Matrix | RowsOnDemand],
        classes: Vector,
        *,
        gaussian: bool,
        ridge: float = 1.0,
        seed: int = 0,
        inner: Matrix | None = None,
    ):
        self.classes, self.ridge = classes, ridge
        self.on_rows = RidgeOnRows(F, gaussian=gaussian, seed=seed, inner=inner)
        self.solution: RidgeSolution

    @property
    def F(self) -> Any:
        """Features of all rows; those of a kernel are made when they are asked for."""
        return self.on_rows.F

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Solve; the solution is kept."""
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        self.solution, scores = self.on_rows.fit(rows, Y, weights, self.ridge)
        return scores

    def hold(self, rows: Index, codes: Index, weights: Vector) -> None:
        """Prepare for fits of these rows first and others after them."""
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        self.on_rows.hold(rows, Y, weights, self.ridge)

    def leave_one_out(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Scores of fitted rows, each by the fit without it."""
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        return self.on_rows.leave_one_out(rows, Y, weights, self.ridge)

    @property
    def fitted(self) -> GaussianRidge:
        """The Gaussian classifier; a linear one is its solution."""
        return GaussianRidge.of(self.classes, self.on_rows, self.solution)


class EstimatorHead(Head):
    """Any scikit-learn classifier; weights where it takes them."""

    def __init__(self, F: Matrix, classes: Vector, make: Callable[[], Any]):
        super().__init__(F, classes)
        self._make = make

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Fit a fresh copy; log-probabilities, or decision values."""
        self._fitted = self._make()
        # Equal weights say nothing, and not every classifier can be told.
        weighted = has_fit_parameter(self._fitted, "sample_weight") and np.ptp(weights) > 0
        options = {"sample_weight": weights} if weighted else {}
        self._fitted.fit(self.F[rows], self.classes[codes], **options)
        scores = np.full((len(self.F), len(self.classes)), -np.inf)
        known = np.searchsorted(self.classes, self._fitted.classes_)
        if hasattr(self._fitted, "predict_proba"):
            P = self._fitted.predict_proba(self.F)
            scores[:, known] = np.log(np.maximum(P, np.finfo(np.float64).tiny))
            return scores
        if not hasattr(self._fitted, "decision_function"):
            raise ValueError(
                f"refine needs the confidence of predictions, and {type(self._fitted).__name__} "
                "has neither predict_proba nor decision_function."
            )
        values = np.asarray(self._fitted.decision_function(self.F))
        scores[:, known] = values if values.ndim == 2 else np.stack([-values, values], 1)
        return scores

    @property
    def fitted(self) -> Any:
        """The fitted copy."""
        return self._fitted


class MeansHead(Head):
    """Domain-specific class means; pseudo-labels give the target means of its own."""

    def __init__(self, F: Matrix, classes: Vector, domain: Index):
        super().__init__(F, classes)
        self._domain = domain

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Means of the rows; they have no weights."""
        sums = accumulate(self.F[rows], self.classes, codes, self._domain[rows], grams=False)
        self._fitted = class_means(sums)
        return self._fitted.log_scores(self.F)

    @property
    def fitted(self) -> DSCM:
        """The fitted class means."""
        return self._fitted


class NearestRow(KNeighborsClassifier):
    """The class of the nearest row.

    Attributes
    ----------
    rows_, labels_ : arrays of shape (n_rows, n_features) and (n_rows,)
        What it was fitted on.
    """

    def fit(self, X: Matrix, y: Vector) -> NearestRow:
        """Keep the rows."""
        self.rows_, self.labels_ = X, y
        super().fit(X, y)
        return self


class NearestHead(Head):
    """The nearest labelled row; sure where the nearest row of another class is far."""

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Minus the distance to the nearest row of every class."""
        self._last = rows, codes
        scores = np.full((len(self.F), len(self.classes)), -np.inf)
        for c in np.unique(codes):
            scores[:, c] = -pairwise_distances_argmin_min(self.F, self.F[rows[codes == c]])[1]
        return scores

    @property
    def fitted(self) -> NearestRow:
        """The nearest-neighbour classifier of the last rows."""
        rows, codes = self._last
        return NearestRow(n_neighbors=1).fit(self.F[rows], self.classes[codes])


def class_scores(fitted: Any, F: Matrix) -> NDArray[np.float64]:
    """Scores of features by a fitted classifier, one column per class."""
    if isinstance(fitted, GaussianRidge):
        return fitted.scores(F)
    if isinstance(fitted, DSCM):
        return fitted.log_scores(F)
    if hasattr(fitted, "decision_function"):
        values = np.asarray(fitted.decision_function(F), dtype=np.float64)
        return np.asarray(values if values.ndim == 2 else np.stack([-values, values], 1))
    return np.asarray(fitted.predict_proba(F), dtype=np.float64)
