"""The iterative route: conjugate gradients on the rows (math.md §6.1).

Three of them: on G whenever W₀ = G⁻¹P is applied, on K₀, each of whose products applies W₀ twice,
and on (★). With many rows there is no Gram and no kernel, and the preconditioners are diagonal.
Few rows have n×n matrices that are small next to the rows themselves. The dual route then is the
preconditioner: what it loses by rounding, a second step on the rows wins back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.operators.cost import FEW_ROWS
from marda.operators.denoiser import Coupling, Denoiser, ExplicitMap
from marda.operators.dual import DualDenoiser
from marda.operators.linear import Factor, IterativeFactor, RowGram, conjugate_gradients
from marda.operators.maps import IterativeMap, Map

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
COLUMN_BLOCK = 128
FACTOR_TOL = 1e-13  # of W₀, which the class predictor applies again and again, and of (★)
REFINED_TOL = 1e-15  # of W₀ with few rows: the second step gets there


class _RowProducts(Denoiser):
    """Products with the rows only, when neither d×d nor n×n fits.

    `row_space` is the same by n×n matrices, which few rows do have room for: a preconditioner.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert isinstance(self.system.gram, RowGram)
        self.rows = self.system.gram.rows
        self.output_rows = self.rows.columns(self.outputs)
        n, d = self.rows.shape
        few = n <= min(d, FEW_ROWS) and bool((self.system.diagonal > 0).all())
        self.row_space = DualDenoiser(*args, **kwargs) if few else None
        near, tol = None, FACTOR_TOL
        if self.row_space is not None:
            near, tol = self.row_space.factor, REFINED_TOL
        self.factor: IterativeFactor = IterativeFactor(
            self.system, self.gram_diagonal, tol, near=near
        )

    def _P(self, V: Matrix) -> Matrix:
        return self.system.scale[:, None] * self.rows.tdot(self.output_rows.dot(V))

    def _P_adjoint(self, B: Matrix) -> Matrix:
        return self.output_rows.tdot(self.rows.dot(self.system.scale[:, None] * B))

    def _unit_blocks(self, size: int) -> Iterator[tuple[slice, Matrix]]:
        """Columns of an identity matrix, some at a time."""
        for start in range(0, size, COLUMN_BLOCK):
            stop = min(size, start + COLUMN_BLOCK)
            yield slice(start, stop), np.eye(size, stop - start, -start)

    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        raise TypeError("this route has no factorisations: solve_coupled does without.")

    def solve_coupled(
        self,
        terms: Coupling,
        R: Matrix,
        start: Matrix | None = None,
        solves: int = 1,
        image: Matrix | None = None,
    ) -> Matrix:
        """(★) on U by CG on the whole operator, with its diagonal as preconditioner.

        With few rows, by CG on the same operator with shifted systems of the row space.
        """
        if self.row_space is not None:
            return self.row_space.solve_coupled(terms, R, start, solves, image)
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
        for columns, unit in self._unit_blocks(self.n_outputs):
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
        """tr(PᵀG⁻¹P), a sum over features; over rows, where they are fewer.

        As P = A XᵀX, it is tr(X PᵀG⁻¹A Xᵀ), too.
        """
        n, d = self.rows.shape
        total = 0.0
        for _, unit in self._unit_blocks(min(n, d)):
            V = self.rows.tdot(unit) if n < d else unit
            P = self._P(V)
            B = self.system.scale[:, None] * V if n < d else P
            total += float(np.vdot(P, self.factor.solve(B)))
        return total

    def _predictor(self, ridge: float) -> Factor:
        return _IteratedPredictor(self, ridge)


class _IteratedPredictor:
    """K₀ by products alone; few rows have it as a matrix of the row space, too: to precondition."""

    bound = np.inf

    def __init__(self, denoiser: IterativeDenoiser, ridge: float):
        if ridge <= 0:
            raise ValueError("solver='cg' needs ridge_class > 0.")
        self.condition = 1.0  # the largest that a solve has seen, or the row space's
        # The denoiser keeps this predictor: a strong reference back would keep both alive.
        self.denoiser: IterativeDenoiser = weakref.proxy(denoiser)
        self.ridge = ridge
        self._precondition: Callable[[Matrix], Matrix] = lambda R: R
        if denoiser.row_space is not None:
            near = denoiser.row_space.predictor(ridge)
            self._precondition, self.condition = near.solve, near.condition

    def matmul(self, V: Matrix) -> Matrix:
        """K₀V."""
        d = self.denoiser
        return self.ridge * V + d.map_adjoint(d.centred(d.map(V)))

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B."""
        solved = conjugate_gradients(
            self.matmul, B, self._precondition, tol=1e-11, name="the class predictor's matrix"
        )
        self.condition = max(self.condition, solved.condition)
        return solved.X
