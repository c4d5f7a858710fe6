"""The dual route: n×n matrices, and the rows themselves (math.md §6)."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from marda.operators.denoiser import THIN_FACTOR, Denoiser
from marda.operators.linear import (
    DiagonalPlusGram,
    Factor,
    RowGram,
    WoodburyFactor,
    solve_together,
)
from marda.operators.maps import Map, RowMap
from marda.operators.rows import Rows

__all__ = ["DualDenoiser"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class DualDenoiser(Denoiser):
    """n×n matrices and the rows themselves: more features than rows."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.factor: WoodburyFactor = WoodburyFactor(self.system)
        self.rows: Rows = self.factor.rows
        self.output_rows = self.rows.columns(self.outputs)
        self._shifts: dict[tuple[float, float], tuple[WoodburyFactor, Vector, float]] = {}

    @cached_property
    def _output_kernel(self) -> Matrix:
        return self.output_rows.kernel(np.ones(self.n_outputs))

    def map(self, V: Matrix) -> Matrix:
        """W₀V."""
        n = self.rows.shape[0]
        if self.refined and self.rows.X.dtype == np.float32:
            scores = self.output_rows.dot(V)
            right = self.system.scale[:, None] * self.rows.tdot(scores)
            return self._with_bias(self.factor.solve(right))
        # G⁻¹AXᵀ = D⁻¹Fᵀ(I + F D⁻¹Fᵀ)⁻¹ on the columns that belong to rows
        inner = self.factor.core_inverse[:, :n] @ self.output_rows.dot(V)
        return self._with_bias(self.factor.F_tdot(inner) / self.system.diagonal[:, None])

    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""
        n = self.rows.shape[0]
        if self.refined and self.rows.X.dtype == np.float32:
            solved = self.factor.solve(B[: self.n_features])
            return self.output_rows.tdot(self.rows.dot(self.system.scale[:, None] * solved))
        scores = self.factor.F_dot(B[: self.n_features] / self.system.diagonal[:, None])
        return self.output_rows.tdot(self.factor.core_inverse[:n] @ scores)

    def _factor_pays(self, steps: float, n_columns: int) -> bool:
        n, X = self.rows.shape[0], self.rows.X
        stored = X.nnz if sp.issparse(X) else X.size
        return bool(n**3 < steps * THIN_FACTOR * n_columns * (4.0 * stored + n * n))

    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        pairs, which = np.unique(shifts, axis=0, return_inverse=True)
        which = which.ravel()
        d = self.n_features
        systems = [self._shifted(*pair) for pair in pairs.tolist()]
        top = solve_together([factor for factor, _, _ in systems], which, B[:d])
        if self.labelled.cross is None:
            return top
        # Bordered by the bias, [[K, s u], [s uᵀ, N + s n]]: eliminate it, a column at a time
        border = shifts[:, 0] * (self.labelled.cross @ top)
        solved = np.stack([solved for _, solved, _ in systems], 1)[:, which]
        schur = np.array([schur for _, _, schur in systems])[which]
        bias = (B[d] - border) / schur
        return np.vstack([top - solved * bias, bias])

    def _shifted(self, shift: float, theta: float) -> tuple[WoodburyFactor, Vector, float]:
        """Feature block K of G − θE + shift·Q_l, K⁻¹su, and the Schur complement of the bias."""
        if (shift, theta) not in self._shifts:
            gram, system = self.labelled.gram, self.system
            assert isinstance(gram, RowGram)
            factor, n_l = self.factor, gram.rows.shape[0]
            if shift or theta:
                weights = np.ones(self.rows.shape[0])
                weights[:n_l] += shift * (1.0 if gram.weights is None else gram.weights)
                diagonal = system.diagonal + shift * self.labelled.diagonal
                diagonal -= theta * (system.diagonal - self.variance)
                rows = RowGram(self.rows, weights)
                extra = np.sqrt(1 - theta) * system.extra
                factor = WoodburyFactor(DiagonalPlusGram(diagonal, system.scale, rows, extra))
                del factor.kernel  # only W₀ and K₀ need it
            solved, schur = np.zeros(self.n_features), self.count
            if self.labelled.cross is not None:
                u = shift * self.labelled.cross
                solved = factor.solve(u[:, None]).ravel()
                schur += shift * self.labelled.count - float(u @ solved)
            self._shifts[shift, theta] = factor, solved, schur
        return self._shifts[shift, theta]

    def freeze(self) -> Map:
        """W₀ as a map of rows."""
        n = self.rows.shape[0]
        system = self.system
        return RowMap(
            self.rows,
            self.outputs,
            system.scale / system.diagonal,
            (system.extra / system.diagonal).T,
            np.ascontiguousarray(self.factor.core_inverse[:, :n]),
        )

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀)."""
        # tr(K(I − (I + F D⁻¹Fᵀ)⁻¹)) with K the kernel of the outputs, as F G⁻¹Fᵀ = I − (…)⁻¹
        n, K = self.rows.shape[0], self._output_kernel
        return float(np.trace(K) - np.vdot(K, self.factor.core_inverse[:n, :n]))

    def _predictor(self, ridge: float) -> Factor:
        n, K = self.rows.shape[0], self._output_kernel
        gram = self.labelled.gram
        assert isinstance(gram, RowGram)
        n_l = gram.rows.shape[0]
        # Ψ = F D⁻¹(Q_l − uuᵀ/n_l)D⁻¹Fᵀ; labelled rows come first, so they are rows of F
        to_labelled = self.factor.kernel[:, :n_l]
        weights = np.ones(n_l) if gram.weights is None else gram.weights
        Psi = self.factor._kernel(self.labelled.diagonal / self.system.diagonal**2)
        Psi += (to_labelled * weights) @ to_labelled.T
        if self.bias:
            t = to_labelled @ weights
            Psi -= np.outer(t, t) / self.labelled.count
        side = self.factor.core_inverse[:, :n]
        return _RowSpacePredictor(self, ridge, side.T @ Psi @ side, K)


class _RowSpacePredictor:
    """K₀ = δI + XᵀHX with H n×n: K₀⁻¹ = (I − XᵀH(δI + XXᵀH)⁻¹X)/δ."""

    def __init__(self, denoiser: DualDenoiser, ridge: float, H: Matrix, kernel: Matrix):
        if ridge <= 0:
            raise ValueError(
                "ridge_class=0 with fewer rows than features leaves the class predictor "
                "undetermined: use ridge_class > 0."
            )
        # The denoiser keeps this predictor: a strong reference back would keep both alive.
        self.denoiser: DualDenoiser = weakref.proxy(denoiser)
        self.ridge, self.H = ridge, H
        core = kernel @ H
        core[np.diag_indices_from(core)] += ridge
        self._core = lu_factor(core, overwrite_a=True, check_finite=False)

    def _once(self, B: Matrix) -> Matrix:
        rows = self.denoiser.output_rows
        inner = self.H @ lu_solve(self._core, rows.dot(B), check_finite=False)
        return np.asarray((B - rows.tdot(inner)) / self.ridge)

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B; refined, since the core is not symmetric, or its kernel is a float32 product."""
        V = self._once(B)
        if self.denoiser.refined or self.denoiser.rows.X.dtype == np.float32:
            V += self._once(B - self.matmul(V))
        return V

    def matmul(self, V: Matrix) -> Matrix:
        """K₀V."""
        rows, denoiser = self.denoiser.output_rows, self.denoiser
        if denoiser.refined and rows.X.dtype == np.float32:
            return self.ridge * V + denoiser.map_adjoint(denoiser.centred(denoiser.map(V)))
        return self.ridge * V + rows.tdot(self.H @ rows.dot(V))
