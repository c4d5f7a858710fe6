"""The primal route: d×d matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from marda.operators.denoiser import ExplicitMap
from marda.operators.linear import CholeskyFactor

__all__ = ["PrimalDenoiser"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class PrimalDenoiser(ExplicitMap):
    """d×d matrices: many rows, or moments alone."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.factor = CholeskyFactor(self.system.dense())
        self._shifts: dict[tuple[float, float], CholeskyFactor] = {}

    @cached_property
    def W0(self) -> Matrix:
        """G⁻¹P. As ASA = G − D − EᵀE, it is (I − G⁻¹(D + EᵀE))A⁻¹: an inverse, not a solve."""
        D, E, a = self.system.diagonal, self.system.extra, self.system.scale
        if self.outputs is not None:
            return self.factor.solve(a[:, None] * self.system.gram.dense()[:, self.outputs])
        assert isinstance(self.factor, CholeskyFactor)
        W = self.factor.inverse()
        correction = (W @ E.T) @ E if len(E) else None
        W *= -D
        if correction is not None:
            W -= correction
        W[np.diag_indices_from(W)] += 1
        W /= a
        return W

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀)."""
        S = self.system.gram.dense()
        P = S if self.outputs is None else S[:, self.outputs]
        return float(self.system.scale @ np.einsum("ij,ij->i", P, self.W0))

    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        out = np.empty_like(B)
        for shift, theta in np.unique(shifts, axis=0).tolist():
            columns = (shifts == (shift, theta)).all(1)
            out[:, columns] = self._shifted(shift, theta)(B[:, columns])
        return out

    def _shifted(self, shift: float, theta: float) -> Callable[[Matrix], Matrix]:
        if not shift and not theta:
            return self.solve
        if (shift, theta) not in self._shifts:
            G = shift * self.labelled.dense()
            d, system = self.n_features, self.system
            G[:d, :d] += system.dense()
            if theta:
                G[np.arange(d), np.arange(d)] -= theta * (system.diagonal - self.variance)
                G[:d, :d] -= theta * system.extra.T @ system.extra
            if self.bias:
                G[d, d] += self.count
            self._shifts[shift, theta] = CholeskyFactor(G)
        return self._shifts[shift, theta].solve

    @cached_property
    def pencil(self) -> tuple[Matrix, Vector]:
        """B and Λ with BᵀGB = I and BᵀQ_lB = Λ (math.md §5.2): one eigendecomposition."""
        assert isinstance(self.factor, CholeskyFactor)
        M = self.labelled.dense()
        d, L = self.n_features, self.factor.L
        M[:d] = solve_triangular(L, M[:d], lower=True, check_finite=False)
        M[:, :d] = solve_triangular(L, M[:, :d].T, lower=True, check_finite=False).T
        if self.bias:
            M[d:] /= np.sqrt(self.count)
            M[:, d:] /= np.sqrt(self.count)
        M += M.T
        M /= 2
        values, B = eigh(M, overwrite_a=True, check_finite=False, driver="evd")
        B[:d] = solve_triangular(L, B[:d], lower=True, trans="T", check_finite=False)
        if self.bias:
            B[d:] /= np.sqrt(self.count)
        return B, np.maximum(values, 0)
