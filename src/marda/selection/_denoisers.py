"""T₀ = G⁻¹P of S1 in the eigenbasis of the noise path: a diagonal, or a full matrix.

`PathMaps` adds the few directions of the domain terms; both kinds answer the same questions.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from marda.operators.linear import CholeskyFactor

__all__ = ["DenseDenoiser", "DiagonalDenoiser", "PathDenoiser"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class PathDenoiser(Protocol):
    """G and T₀ = G⁻¹P, where P = qΛ."""

    def dot(self, U: Matrix) -> Matrix:
        """T₀U."""
        ...

    def tdot(self, R: Matrix) -> Matrix:
        """T₀ᵀR."""
        ...

    def sandwich(self, A: Matrix) -> Matrix:
        """T₀ᵀA T₀ of a symmetric A."""
        ...

    def solve(self, E: Matrix) -> Matrix:
        """G⁻¹E."""
        ...

    def solve_shifted(self, shifts: Matrix, R: Matrix) -> Matrix:
        """(G + diag(s_j))⁻¹r_j for every column j."""
        ...


class DiagonalDenoiser:
    """G = diag(h): rows and ridge are measured by D."""

    def __init__(self, h: Vector, P: Vector):
        self.h, self.g = h[:, None], (P / h)[:, None]

    def dot(self, U: Matrix) -> Matrix:
        """T₀U."""
        return self.g * U

    def tdot(self, R: Matrix) -> Matrix:
        """T₀ᵀR."""
        return self.g * R

    def sandwich(self, A: Matrix) -> Matrix:
        """T₀ᵀA T₀."""
        out = self.g * A
        out *= self.g.ravel()
        return out

    def solve(self, E: Matrix) -> Matrix:
        """G⁻¹E."""
        return E / self.h

    def solve_shifted(self, shifts: Matrix, R: Matrix) -> Matrix:
        """(G + diag(s_j))⁻¹r_j."""
        return R / (self.h + shifts)


class DenseDenoiser:
    """G with parts that D does not measure: one more Cholesky, and products of r×r matrices."""

    def __init__(self, G: Matrix, P: Vector):
        self.G = G
        self.factor = CholeskyFactor(G)
        self.T = self.factor.inverse() * P

    def dot(self, U: Matrix) -> Matrix:
        """T₀U."""
        return self.T @ U

    def tdot(self, R: Matrix) -> Matrix:
        """T₀ᵀR."""
        return self.T.T @ R

    def sandwich(self, A: Matrix) -> Matrix:
        """T₀ᵀA T₀, in the order that LAPACK likes."""
        return (self.T.T @ (A @ self.T)).T

    def solve(self, E: Matrix) -> Matrix:
        """G⁻¹E."""
        return self.factor.solve(E)

    def solve_shifted(self, shifts: Matrix, R: Matrix) -> Matrix:
        """(G + diag(s_j))⁻¹r_j."""
        out = np.empty_like(R)
        for j, shift in enumerate(shifts.T):
            shifted = self.G.copy(order="F")
            shifted[np.diag_indices_from(shifted)] += shift
            out[:, [j]] = CholeskyFactor(shifted).solve(R[:, [j]])
        return out
