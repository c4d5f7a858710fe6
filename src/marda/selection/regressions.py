"""Ridge and logistic regressions that know their scores of rows which they have not seen.

A ridge knows its leave-one-out scores without being fitted again: row i of leverage l_i has the
residual (y_i − s_i)/(1 − l_i). A logistic regression is fitted once per fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, svd
from scipy.linalg.lapack import dpotri

from marda._arrays import mirror_lower, syrk
from marda.estimators.kernel_ridge import signs
from marda.moments.features import EIGENVALUE_FLOOR
from marda.selection.inputs import Inputs, robust_inputs, stratified_folds
from marda.shift.class_prior import fit_logistics

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Penalties of ridges on wide rows, in units of their mean squared length.
WIDE_RIDGES = (0.03, 0.3, 3.0)
#: Tails of columns begin so many spreads from their middle.
KNEES = (5.0, 1.0)
N_FOLDS = 5
#: The least share that a class can have, and the least probability that a forest gives it.
LEAST = 1e-4
#: Directions below this share of the largest are rounding.
ROUNDING = 1e-13
#: The least that is left of a row's own weight on its own score.
LEAST_LEFT = 1e-9
#: Fewer rows than this per principal direction do not tell its spread.
ROWS_PER_DIRECTION = 3


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows of a fit."""

    X: Any
    codes: Index
    n_classes: int
    weights: Vector
    seed: int
    #: Columns that tell anything; None: all.
    columns: Index | None = None

    @property
    def Y(self) -> Matrix:
        """±1, one column per class."""
        return signs(self.codes, self.n_classes)


@dataclass(frozen=True)
class Linear:
    """Scores F·coef + intercept, of shapes (n_features, n_classes) and (n_classes,)."""

    coef: Matrix
    intercept: Vector

    def scores(self, F: Any) -> Matrix:
        """Of rows, one column per class."""
        coef = self.coef.astype(F.dtype, copy=False)  # else float32 rows would be cast
        return np.asarray(F @ coef + self.intercept, dtype=np.float64)


# Ridges -------------------------------------------------------------------------------------------


class Ridge:
    """A weighted ridge on features P for any penalty, with leave-one-out scores.

    With A = diag(w)^½ (P − 1mᵀ) = U S Vᵀ: coef = V (S² + δ)⁻¹ S Uᵀ diag(w)^½ (Y − ȳ), and row i
    has the leverage w_i/Σw + Σ_j U_ij² s_j²/(s_j² + δ). Of features that are known by their
    `kernel` P Pᵀ alone, which is then given, A Aᵀ has U and S; coefficients are those of rows.
    """

    def __init__(self, P: Matrix, Y: Matrix, weights: Vector, *, kernel: bool = False):
        self._all, self.Y = P, Y
        self.share, root = weights / weights.sum(), np.sqrt(weights)[:, None]
        self.mean, self.level = self.share @ P, self.share @ Y
        A = root * (P - self.mean)
        if kernel:
            squares, U = np.linalg.eigh((A - (A @ self.share)[:, None]) * root.T)
            good = squares > EIGENVALUE_FLOOR * squares.max(initial=0)
            back = root * U - np.outer(self.share, root.T @ U)
            self.unit = float(squares.sum()) / max(1, int(good.sum())) or 1.0
            self._back = back[:, good] / squares[good]
            self.U = U[:, good]
        else:
            squares, V = np.linalg.eigh(A.T @ A)
            good = squares > ROUNDING * squares.max(initial=0)
            self.unit = float(squares.sum()) / max(1, P.shape[1]) or 1.0
            self._back = V[:, good] / np.sqrt(squares[good])
            self.U = A @ self._back
        self.squares = squares[good]
        self.along = self.U.T @ (root * (Y - self.level))

    def solve(self, ridge: float) -> tuple[Matrix, Vector, Matrix]:
        """Coefficients, intercept, and leave-one-out scores."""
        shrink = self.squares / (self.squares + ridge * self.unit)
        coef = self._back @ (shrink[:, None] * self.along)
        intercept = self.level - self.mean @ coef
        fitted = np.asarray(self._all @ coef + intercept)
        leverage = self.share + np.einsum("ij,j,ij->i", self.U, shrink, self.U)
        residual = (self.Y - fitted) / np.maximum(1 - leverage, LEAST_LEFT)[:, None]
        return coef, intercept, np.where(self.share[:, None] > 0, self.Y - residual, fitted)


def wide_ridges(
    rows: LabelledRows, F: Matrix, penalties: tuple[float, ...] = WIDE_RIDGES
) -> Iterator[tuple[Linear, Matrix]]:
    """Ridges of several penalties, with leave-one-out scores.

    By the inverse of the products of rows, or of columns where these are fewer.
    """
    Y, w = rows.Y, rows.weights
    share, root = w / w.sum(), np.sqrt(w)[:, None]
    mean, level = share @ F, share @ Y
    A = F - mean.astype(F.dtype)
    A *= root.astype(F.dtype)
    right = root * (Y - level)
    dual = A.shape[0] <= A.shape[1]
    products = np.asarray(syrk(A, transposed=not dual), dtype=np.float64)
    unit = float(np.trace(products)) / len(F) or 1.0
    for penalty in penalties:
        M = products.copy()
        M.flat[:: len(M) + 1] += penalty * unit
        factor = cho_factor(M.T, overwrite_a=True, check_finite=False)  # as LAPACK has it
        if dual:
            along = cho_solve(factor, right, check_finite=False)
            coef = np.asarray(A.T @ along.astype(A.dtype), dtype=np.float64)
            leverage = 1 - penalty * unit * np.diag(_inverse(factor))
        else:
            along = A @ mirror_lower(_inverse(factor).T)
            coef, leverage = along.T @ right, np.einsum("ij,ij->i", along, A)
        model = Linear(coef, level - mean @ coef)
        left = np.maximum(1 - leverage - share, LEAST_LEFT)[:, None]
        yield model, Y - (Y - model.scores(F)) / left


def _inverse(factor: tuple[Matrix, bool]) -> Matrix:
    """The inverse of the factorised matrix: its upper triangle. The factor is lost."""
    inverse, info = dpotri(factor[0], lower=factor[1], overwrite_c=1)
    assert info == 0
    return np.asarray(inverse)


# Logistic regression ------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """Features F = (inputs.apply(X) − mean)·back of rows X; without a mean, inputs.apply(X)."""

    inputs: Inputs
    F: Any
    mean: Vector | None = None
    back: Matrix | None = None

    def linear(self, found: Linear) -> Linear:
        """A linear model of F as one of inputs.apply(X)."""
        if self.mean is None or self.back is None:
            return found
        coef = self.back @ found.coef
        return Linear(coef, found.intercept - self.mean @ coef)

    def whitened(self) -> View | None:
        """Principal directions in units of their spread; None if there are few rows for them."""
        n, mean = len(self.F), self.F.mean(0)
        _, s, Vt = svd(self.F - mean, full_matrices=False, check_finite=False)
        good = s**2 > ROUNDING * float(s.max(initial=0)) ** 2
        if not good.any() or good.sum() > n / ROWS_PER_DIRECTION:
            return None
        back = Vt[good].T / s[good] * np.sqrt(n)
        return View(self.inputs, (self.F - mean) @ back, mean, back)


def column_views(rows: LabelledRows, n: int = len(KNEES) + 1) -> list[View]:
    """Columns, columns with tails drawn in, and principal directions of the former: the first n."""
    views = []
    for knee in KNEES[:n]:
        inputs = robust_inputs(rows.X, knee, rows.columns)
        views.append(View(inputs, inputs.apply(rows.X)))
    white = views[0].whitened() if n > len(KNEES) else None
    return views if white is None else [*views, white]


def unit_views(rows: LabelledRows) -> list[View]:
    """Unit rows."""
    inputs = Inputs("unit")
    return [View(inputs, inputs.apply(rows.X))]


def cross_validated(rows: LabelledRows, F: Any, penalty: float) -> Matrix:
    """Scores of every row by the model of the other folds."""
    folds = stratified_folds(rows.codes, N_FOLDS, rows.seed)
    scores = np.zeros((len(folds), rows.n_classes))
    there = np.unique(folds)
    if len(there) > 1:
        fits = logistics(rows, F, folds != there[:, None], penalty)
        for fold, fit in zip(there, fits, strict=True):
            scores[folds == fold] = fit.scores(F[folds == fold])
    return scores


def logistics(rows: LabelledRows, F: Any, seen: NDArray[np.bool_], penalty: float) -> list[Linear]:
    """Fitted on some rows each; a class without a row among them is the least likely of all.

    `seen` has a line per fit.
    """
    weights = np.where(seen, rows.weights, 0.0)
    known = weights @ np.eye(rows.n_classes)[rows.codes] > 0
    shape = F.shape[1], rows.n_classes
    found = [Linear(np.zeros(shape), np.where(mine, 0.0, np.log(LEAST))) for mine in known]
    for classes in np.unique(known, axis=0):  # fits that know the same classes
        fits, there = np.flatnonzero((known == classes).all(1)), np.flatnonzero(classes)
        if len(there) < 2:
            continue
        used = np.flatnonzero(weights[fits].any(0))
        own = np.searchsorted(there, rows.codes[used])
        made = fit_logistics(
            F[used], own, weights[np.ix_(fits, used)], penalty=penalty, tol=1e-3, max_iter=200
        )
        for k, one in zip(fits, made, strict=True):
            found[k].coef[:, there], found[k].intercept[there] = one.coef, one.intercept
    return found
