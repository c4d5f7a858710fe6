"""Sums over features of labelled rows that two classifiers are learned from (math.md §19).

The features were chosen on a sample. What is left to learn are coefficients, and those of two
models need sums over rows alone, which stream and merge in any order:

- Logistic regression, from the sample's coefficients θ by one step of Newton,
  θ + (H + λI)⁻¹(g − λθ), with the gradient g = Σ_i w_i φ_i (y_i − p_i)ᵀ and the Hessian blocks
  H_ab = Σ_i w_i p_ia (δ_ab − p_ib) φ_i φ_iᵀ at θ. From an estimate of error O(n^−½) one step
  reaches that of all rows to O(1/n), n being the rows of the sample.
- The kernel model is a ridge on similarities to landmarks of the sample: Σ_i w_i k_i k_iᵀ and
  Σ_i w_i k_i y_iᵀ for every penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.special import softmax

from marda._arrays import add_gram, mirror_lower

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

EIGENVALUE_FLOOR = 1e-8
#: Directions of landmarks below this share of the largest are left out: the rounding of sums, in
#: whatever order they were added, would come out larger by the square of its inverse.
FLOOR = 1e-5
#: Rows whose features are made at a time; bytes of similarities, few enough for the cache, and
#: their rows at least, for whose sake all of `right` is read.
BLOCK, CACHE_BYTES, LEAST_ROWS = 4096, 2**20, 256


@dataclass(frozen=True)
class RowSums:
    """Sums over labelled rows; those of two sets of rows add up to those of both.

    Attributes
    ----------
    counts : array of shape (n_classes,)
        Rows.
    gradient : array of shape (p, n_classes)
        Of the log-likelihood, in the coefficients and intercepts of p = n_features + 1.
    hessian : array of shape (n_classes, n_classes, p, p)
        Of its negative; blocks a < b, from which the others follow.
    gram, cross : arrays of shapes (m + 1, m + 1) and (m + 1, n_classes)
        Of similarities to m landmarks and a one (last), with themselves and with ±1 per class; of
        `gram` the lower triangle has a meaning.
    """

    counts: Vector
    gradient: Matrix | None = None
    hessian: Matrix | None = None
    gram: Matrix | None = None
    cross: Matrix | None = None

    def __add__(self, other: RowSums) -> RowSums:
        """Sums over the rows of both."""
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return RowSums(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def n_rows(self) -> int:
        """All of them."""
        return int(self.counts.sum())


class RestOfRows(Protocol):
    """The labelled source rows outside of a sample."""

    @property
    def counts(self) -> Index:
        """Rows per class."""

    def sums(self, features: FixedFeatures) -> RowSums:
        """Sums over all of them."""


@dataclass(frozen=True)
class HeldRows:
    """Such rows in memory: `places` of X, and their class codes."""

    X: Any
    codes: Index
    places: Index
    n_classes: int

    @property
    def counts(self) -> Index:
        """Rows per class."""
        return np.bincount(self.codes[self.places], minlength=self.n_classes)

    def sums(self, features: FixedFeatures) -> RowSums:
        """Sums over all of them, a block at a time."""
        total = features.nothing()
        for start in range(0, len(self.places), BLOCK):
            rows = self.places[start : start + BLOCK]
            total = features.added(total, self.X[rows], self.codes[rows])
        return total


@dataclass(frozen=True)
class FixedFeatures:
    """What rows become before they are summed; everything was chosen on a sample.

    Attributes
    ----------
    weights : array of shape (n_classes,)
        Of a row of each class.
    linear : tuple of inputs and array of shape (p, n_classes), default=None
        Of the logistic regression: its inputs, whose `apply` turns rows into its own, and
        coefficients with the intercept last.
    kernel : tuple of inputs, array of shape (m, n_features) and float, default=None
        Its inputs, landmarks and variance.
    """

    weights: Vector
    linear: tuple[Any, Matrix] | None = None
    kernel: tuple[Any, Matrix, float] | None = None

    @property
    def any(self) -> bool:
        """Whether there is anything to learn from sums."""
        return self.linear is not None or self.kernel is not None

    def nothing(self) -> RowSums:
        """Sums over no rows."""
        C = len(self.weights)
        sums = RowSums(np.zeros(C))
        if self.linear is not None:
            p = len(self.linear[1])
            sums = replace(sums, gradient=np.zeros((p, C)), hessian=np.zeros((C, C, p, p)))
        if self.kernel is not None:
            m = len(self.kernel[1]) + 1
            gram = np.zeros((m, m), order="F")  # as `add_gram` wants it
            sums = replace(sums, gram=gram, cross=np.zeros((m, C)))
        return sums

    def added(self, sums: RowSums, X: Any, codes: Index) -> RowSums:
        """`sums` and those of more rows, which are added in place."""
        for start in range(0, len(codes), BLOCK):
            rows = slice(start, start + BLOCK)
            self._add(sums, X[rows], codes[rows])
        return sums

    def _add(self, sums: RowSums, X: Any, codes: Index) -> None:
        order = np.argsort(codes, kind="stable")  # rows of a class are one block
        X, codes = X[order], codes[order]
        C, w = len(self.weights), self.weights[codes]
        counts = np.bincount(codes, minlength=C)
        sums.counts[:] += counts
        if self.linear is not None:
            assert sums.gradient is not None
            assert sums.hessian is not None
            inputs, theta = self.linear
            F = _with_ones(inputs.apply(X))
            P = softmax(F @ theta, axis=1)
            sums.gradient[:] += F.T @ (w[:, None] * (np.eye(C)[codes] - P))
            for a in range(C):
                for b in range(a + 1, C):
                    A = F * np.sqrt(w * P[:, a] * P[:, b])[:, None]
                    sums.hessian[a, b] -= A.T @ A
        if self.kernel is not None:
            assert sums.gram is not None
            assert sums.cross is not None
            inputs, landmarks, variance = self.kernel
            rows = np.asarray(inputs.apply(X), dtype=np.float64)
            K, stop = similarity(rows, landmarks, variance, one=True), np.cumsum(counts)
            for c in np.flatnonzero(counts):
                mine, weight = K[stop[c] - counts[c] : stop[c]], float(self.weights[c])
                grown = add_gram(sums.gram, mine.T, weight)
                if grown is not sums.gram:
                    sums.gram[:] = grown
                total = weight * mine.sum(0)
                sums.cross[:] -= total[:, None]
                sums.cross[:, c] += 2 * total

    def stepped(self, sums: RowSums, penalty: float) -> Matrix:
        """Coefficients after one step of Newton, with a penalty on ½‖coef‖²."""
        assert self.linear is not None
        assert sums.gradient is not None
        assert sums.hessian is not None
        theta = self.linear[1]
        p, C = theta.shape
        H = sums.hessian + sums.hessian.transpose(1, 0, 3, 2)
        for a in range(C):
            H[a, a] = -H[a].sum(0)
        ridge = np.append(np.full(p - 1, penalty), 0.0)
        # What is the same for all classes changes no probability: the gradient has no such part,
        # and any curvature will do.
        same = np.einsum("aakk->k", H) / C**2 + ridge
        for a in range(C):
            for b in range(C):
                H[a, b].flat[:: p + 1] += same / C + (ridge if a == b else 0.0)
        right = sums.gradient - ridge[:, None] * theta
        matrix = H.transpose(0, 2, 1, 3).reshape(C * p, C * p)
        try:
            step = cho_solve(cho_factor(matrix), right.T.ravel())
        except (LinAlgError, ValueError):  # a class that no row can have: there is no step
            step = np.zeros(C * p)
        return np.asarray(theta + step.reshape(C, p).T)

    def ridges(self, sums: RowSums, penalties: Sequence[float]) -> Iterator[tuple[Matrix, Vector]]:
        """Coefficients and intercept per penalty, which are in units of the mean square."""
        assert self.kernel is not None
        assert sums.gram is not None
        assert sums.cross is not None
        _, landmarks, variance = self.kernel
        total = sums.gram[-1, -1]
        mean, level = sums.gram[-1, :-1] / total, sums.cross[-1] / total
        gram = mirror_lower(sums.gram.copy())[:-1, :-1] - total * np.outer(mean, mean)
        cross = sums.cross[:-1] - total * np.outer(mean, level)
        back = landmark_basis(landmarks, variance, FLOOR)
        squares, V = eigh(back.T @ gram @ back, check_finite=False)
        squares = np.maximum(squares, 0)
        unit = float(squares.sum()) / max(1, len(squares)) or 1.0
        along = V.T @ (back.T @ cross)
        for ridge in penalties:
            coef = back @ (V @ (along / (squares + ridge * unit)[:, None]))
            yield coef, level - mean @ coef


def _with_ones(F: Any) -> Matrix:
    dense = F.toarray() if sp.issparse(F) else F
    return np.hstack([np.asarray(dense, dtype=np.float64), np.ones((dense.shape[0], 1))])


def landmark_basis(landmarks: Matrix, variance: float, floor: float = EIGENVALUE_FLOOR) -> Matrix:
    """What turns similarities to landmarks into coordinates in which landmarks are orthonormal.

    Directions below a share `floor` of the largest are left out.
    """
    values, V = eigh(similarity(landmarks, landmarks, variance), check_finite=False)
    good = values > floor * values.max()
    return np.asarray(V[:, good] / np.sqrt(values[good]))


def similarity(A: Matrix, B: Matrix, variance: float, *, one: bool = False) -> Matrix:
    """exp(−‖a − b‖²/2σ²) of all pairs of rows; `one`: and a last column of ones.

    The exponent is one product, of rows (a, ‖a‖², 1) with columns (b, −½, −½‖b‖²)/σ²; a column of
    zeros makes ones.
    """
    (n, d), m = A.shape, len(B)
    left, right = np.ones((n, d + 2)), np.zeros((d + 2, m + one))
    left[:, :d] = A
    np.einsum("ij,ij->i", A, A, out=left[:, d])
    right[:d, :m] = B.T
    right[d, :m] = -0.5
    right[d + 1, :m] = -0.5 * np.einsum("ij,ij->i", B, B)
    right /= variance
    K = np.empty((n, m + one))
    step = max(LEAST_ROWS, CACHE_BYTES // (8 * (m + one)))
    for start in range(0, n, step):
        part = np.matmul(left[start : start + step], right, out=K[start : start + step])
        np.minimum(part, 0, out=part)  # rounding
        np.exp(part, out=part)
    return K
