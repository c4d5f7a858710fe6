"""The iterative route: conjugate gradients on the rows, no Gram and no kernel."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.operators.cg import conjugate_gradients
from marda.operators.denoiser import Coupling, Denoiser, ExplicitMap
from marda.operators.linear import Factor, IterativeFactor, RowGram
from marda.operators.maps import IterativeMap, Map

__all__ = ["IterativeDenoiser", "PivotDenoiser"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
COLUMN_BLOCK = 128
FACTOR_TOL = 1e-13  # of W₀, which the class predictor applies again and again, and of (★)


class _RowProducts(Denoiser):
    """Products with the rows only, when neither d×d nor n×n fits."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert isinstance(self.system.gram, RowGram)
        self.rows = self.system.gram.rows
        self.output_rows = self.rows.columns(self.outputs)
        self.factor: IterativeFactor = IterativeFactor(self.system, self.gram_diagonal, FACTOR_TOL)

    def _P(self, V: Matrix) -> Matrix:
        return self.system.scale[:, None] * self.rows.tdot(self.output_rows.dot(V))

    def _P_adjoint(self, B: Matrix) -> Matrix:
        return self.output_rows.tdot(self.rows.dot(self.system.scale[:, None] * B))

    def _unit_blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Columns of the identity of the outputs, some at a time."""
        for start in range(0, self.n_outputs, COLUMN_BLOCK):
            stop = min(self.n_outputs, start + COLUMN_BLOCK)
            yield slice(start, stop), np.eye(self.n_outputs, stop - start, -start)

    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        raise TypeError("this route has no factorisations: solve_coupled is its own.")

    def solve_coupled(
        self, terms: Coupling, R: Matrix, start: Matrix | None = None, solves: int = 1
    ) -> Matrix:
        """(★) on U by CG on the whole operator, with its diagonal as preconditioner."""
        jacobi = np.append(self.factor.jacobi, self.count) if self.bias else self.factor.jacobi
        share = min(1.0, self.labelled.count / self.count)
        diagonal = np.outer(jacobi, 1 + share * np.diag(terms.labelled) + np.diag(terms.all_rows))

        def apply(V: Matrix) -> Matrix:
            W = V + V @ terms.all_rows
            mixed = self.matmul(W) - self._excess(V @ terms.all_rows)
            return np.asarray(mixed + self.labelled.matmul(V @ terms.labelled))

        return conjugate_gradients(
            apply, R, lambda V: V / diagonal, x0=start, tol=FACTOR_TOL, coupled=True, name="(★)"
        ).X


class PivotDenoiser(_RowProducts, ExplicitMap):
    """Conjugate gradients for the columns of W₀ that belong to pivots: W₀ is d×r."""

    @cached_property
    def W0(self) -> Matrix:
        """G⁻¹P, some columns at a time."""
        W = np.empty((self.n_features, self.n_outputs))
        for columns, unit in self._unit_blocks():
            W[:, columns] = self.factor.solve(self._P(unit))
        return W

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀)."""
        return float(np.trace(self._P_adjoint(self.W0)))


class IterativeDenoiser(_RowProducts):
    """Conjugate gradients whenever W₀ is applied; W₀ is never formed."""

    def map(self, V: Matrix) -> Matrix:
        """W₀V."""
        return self.with_bias(self.factor.solve(self._P(V)))

    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""
        return self._P_adjoint(self.factor.solve(B[: self.n_features]))

    def freeze(self) -> Map:
        """W₀ as a map of rows."""
        return IterativeMap(self.map_adjoint, self.map, (self.n_features, self.n_outputs))

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀)."""
        return sum(
            float(np.vdot(P := self._P(unit), self.factor.solve(P)))
            for _, unit in self._unit_blocks()
        )

    def _predictor(self, ridge: float) -> Factor:
        return _IteratedPredictor(self, ridge)


class _IteratedPredictor:
    """K₀ by products alone."""

    def __init__(self, denoiser: IterativeDenoiser, ridge: float):
        if ridge <= 0:
            raise ValueError("solver='cg' needs ridge_class > 0.")
        self.condition = 1.0  # the largest that a solve has seen
        # The denoiser keeps this predictor: a strong reference back would keep both alive.
        self.denoiser: IterativeDenoiser = weakref.proxy(denoiser)
        self.ridge = ridge

    def matmul(self, V: Matrix) -> Matrix:
        """K₀V."""
        d = self.denoiser
        return self.ridge * V + d.map_adjoint(d.centred(d.map(V)))

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B."""
        solved = conjugate_gradients(
            self.matmul, B, lambda R: R, tol=1e-11, name="the class predictor's matrix"
        )
        self.condition = max(self.condition, solved.condition)
        return solved.X
