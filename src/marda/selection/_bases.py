"""Second moments of labelled rows in the eigenbasis of the noise path, r×r (math.md §7).

With K = D^-½ S D^-½ = V Λ Vᵀ a row x has the coordinates b = VᵀD^-½(x − m). In them all rows have
the Gram Λ and, where noise acts on all rows, the variance I. What a class predictor needs of the
labelled rows are three r×r matrices:

    G_l = Σ w b bᵀ (about their own mean),   E_l = Vᵀ(D_l/D)V,   C = (VᵀDV)⁻¹,

C being the norm of a predictor Z that is known by u = VᵀD^½Z alone: min ‖Z‖² = uᵀCu.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from marda._linalg import add_gram, mirror_lower
from marda.moments import Moments
from marda.operators.linear import (
    CholeskyFactor,
    DenseGram,
    DiagonalPlusGram,
    Factor,
    RowFactor,
    RowGram,
)
from marda.operators.rows import Rows
from marda.selection.path import noise_path

__all__ = ["Basis", "FullBasis", "Labelled", "ThinBasis", "inverse_of"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
PREDICTOR = "the class predictor's matrix"


@dataclass(frozen=True)
class Labelled:
    """The labelled rows: where they are, what they weigh, their mean and Σ w x² a feature."""

    index: NDArray[np.int64]
    weights: Vector
    center: Vector  # zeros without a bias
    squares: Vector


class Basis(ABC):
    """Rows in the eigenbasis of the noise path. Matrices lie in the order that LAPACK likes.

    Attributes
    ----------
    square : bool
        Whether r is the number of features that are not empty: any diagonal can then be written
        in the basis.
    thin : bool
        Whether there are fewer rows than features.
    """

    square: bool = False
    thin: bool = False

    def __init__(self, rows: Rows, known: Labelled):
        self.rows, self.known = rows, known

    @property
    @abstractmethod
    def values(self) -> Vector:
        """Λ."""

    @property
    @abstractmethod
    def labelled(self) -> Matrix:
        """G_l."""

    @cached_property
    def variance(self) -> Matrix:
        """E_l."""
        return self.noise(self.known.squares)

    @property
    @abstractmethod
    def penalty(self) -> Matrix:
        """C."""

    @abstractmethod
    def noise(self, squares: Vector) -> Matrix:
        """Vᵀ diag(squares / D) V: noise variance in coordinates."""

    @abstractmethod
    def inputs(self, F: Matrix) -> Matrix:
        """VᵀD^-½F: coordinates of rows, given as columns."""

    @abstractmethod
    def coef(self, A: Matrix) -> Matrix:
        """D^-½V A: weights of features."""

    @abstractmethod
    def scores(self, A: Matrix, rows: Any) -> Matrix:
        """(X − 1mᵀ) D^-½V A on some of the rows."""

    @abstractmethod
    def plain(self, p: float, ridge_class: float) -> Factor:
        """q²S_l + pq D_l + δI on the features themselves: the predictor's matrix for W = I."""

    def _plain_system(self, gram: Any, p: float, ridge_class: float) -> DiagonalPlusGram:
        d = self.rows.shape[1]
        diagonal = p * (1 - p) * self.known.squares + ridge_class
        return DiagonalPlusGram(diagonal, np.full(d, 1 - p), gram, np.zeros((0, d)))


class FullBasis(Basis):
    """At least as many rows as features: d×d matrices, from moments with Grams."""

    def __init__(self, rows: Rows, known: Labelled, moments: Moments, class_weights: Vector):
        super().__init__(rows, known)
        path = noise_path(moments, fit_intercept=rows.center is not None)
        self._path = path
        # D^-½V
        self._outward = np.asfortranarray(path._inverse[:, None] * path._basis)
        self._sums = moments, class_weights
        self.square = len(self.values) == np.count_nonzero(path._inverse)

    @property
    def values(self) -> Vector:
        """Λ."""
        return self._path._values

    @cached_property
    def labelled(self) -> Matrix:
        """G_l."""
        known, Y = self.known, self._outward
        # flops of two products of rows, and of matrices
        if 3 * len(known.index) < 4 * self.rows.shape[1]:
            B = Rows(self.rows.X[known.index], known.center).dot(Y)
            return _gram(np.sqrt(known.weights)[:, None] * B)
        return np.asarray((Y.T @ (self._scatter @ Y)).T)

    @cached_property
    def penalty(self) -> Matrix:
        """C."""
        if self.square:
            return _gram(self._outward)  # (VᵀDV)⁻¹ = VᵀD⁻¹V
        return CholeskyFactor(_gram(self._path._root[:, None] * self._path._basis)).inverse()

    @cached_property
    def _scatter(self) -> Matrix:
        """S_l, about the mean of the labelled rows."""
        moments, class_weights = self._sums
        if np.all(class_weights == 1):
            return moments.scatter(self.known.center, class_weights)
        # moments would need a Gram a class
        labelled = Rows(self.rows.X[self.known.index], self.known.center)
        return labelled.gram(self.known.weights)

    def noise(self, squares: Vector) -> Matrix:
        """Vᵀ diag(squares / D) V."""
        return _gram(np.sqrt(squares)[:, None] * self._outward)

    def inputs(self, F: Matrix) -> Matrix:
        """VᵀD^-½F."""
        return self._outward.T @ F

    def coef(self, A: Matrix) -> Matrix:
        """D^-½V A."""
        return self._outward @ A

    def scores(self, A: Matrix, rows: Any) -> Matrix:
        """(X − 1mᵀ) D^-½V A on some of the rows."""
        return Rows(self.rows.X[rows], self.rows.center).dot(self.coef(A))

    def plain(self, p: float, ridge_class: float) -> Factor:
        """q²S_l + pq D_l + δI, d×d."""
        system = self._plain_system(DenseGram(self._scatter), p, ridge_class)
        return CholeskyFactor(system.dense(), PREDICTOR)


class ThinBasis(Basis):
    """Fewer rows than features: n×n kernels. V = D^-½XᵀU Λ^-½ is never formed.

    Nothing is computed before it is asked for: candidates in `_row_space.py` need no eigenvalues.
    """

    thin = True

    def __init__(self, rows: Rows, known: Labelled, squares: Vector):
        super().__init__(rows, known)
        self._inverse = inverse_of(squares)

    @cached_property
    def _eigen(self) -> tuple[Vector, Matrix]:
        values, U = eigh(
            self.rows.kernel(self._inverse), overwrite_a=True, check_finite=False, driver="evd"
        )
        keep = values > max(self.rows.shape) * np.finfo(float).eps * values[-1]
        return values[keep], np.ascontiguousarray(U[:, keep])

    @property
    def values(self) -> Vector:
        """Λ."""
        return self._eigen[0]

    @property
    def _U(self) -> Matrix:
        return self._eigen[1]

    @cached_property
    def _B(self) -> Matrix:
        """Coordinates of rows."""
        return self._U * np.sqrt(self.values)

    @cached_property
    def labelled(self) -> Matrix:
        """G_l."""
        B, weights = self._B[self.known.index], self.known.weights
        if self.known.center.any():
            B = B - weights @ B / weights.sum()
        return _gram(np.sqrt(weights)[:, None] * B)

    @cached_property
    def penalty(self) -> Matrix:
        """C."""
        root = np.sqrt(self.values)
        norms = self._U.T @ self.rows.kernel(np.ones(self.rows.shape[1])) @ self._U
        return CholeskyFactor(norms, "the rows' kernel").inverse() * root * root[:, None]

    def noise(self, squares: Vector) -> Matrix:
        """Vᵀ diag(squares / D) V."""
        root = np.sqrt(self.values)
        turned = self._U.T @ self.rows.kernel(squares * self._inverse**2) @ self._U
        return np.asarray((turned / root / root[:, None]).T)

    def inputs(self, F: Matrix) -> Matrix:
        """VᵀD^-½F."""
        moved = self.rows.dot(self._inverse[:, None] * F)
        return (self._U.T @ moved) / np.sqrt(self.values)[:, None]

    def coef(self, A: Matrix) -> Matrix:
        """D^-½V A."""
        inner = self._U @ (A / np.sqrt(self.values)[:, None])
        return self._inverse[:, None] * self.rows.tdot(inner)

    def scores(self, A: Matrix, rows: Any) -> Matrix:
        """(X − 1mᵀ) D^-½V A on some of the rows."""
        return np.asarray(self._B[rows] @ A)

    def plain(self, p: float, ridge_class: float) -> Factor:
        """q²S_l + pq D_l + δI, through the kernel of the labelled rows."""
        known = self.known
        labelled = Rows(self.rows.X[known.index], known.center)
        weights = None if np.all(known.weights == 1) else known.weights
        gram = RowGram(labelled, weights)
        return RowFactor(self._plain_system(gram, p, ridge_class), PREDICTOR)


def inverse_of(diagonal: Vector) -> Vector:
    """1 over what is not 0: an empty column is reconstructed by nothing and helps nothing."""
    return np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)


def _gram(A: Matrix) -> Matrix:
    """AᵀA, for half the flops of a product."""
    size = A.shape[1]
    return mirror_lower(add_gram(np.zeros((size, size), order="F"), A.T))
