"""The primal route: d×d matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from marda._linalg import symmetric_eigen
from marda.operators.denoiser import ExplicitMap
from marda.operators.linear import (
    SINGLE_LIMIT,
    CholeskyFactor,
    DiagonalPlusGram,
    SingularError,
    UpdatedFactor,
)

__all__ = ["PrimalDenoiser"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


#: From so many columns on, float32 factors are worth it.
LEAST_SINGLE = 1000


class PrimalDenoiser(ExplicitMap):
    """d×d matrices: many rows, or moments alone.

    With `single` G and W₀ are float32, where that is right to four digits and there is no E.
    """

    def __init__(self, *args: Any, single: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        system = self.system
        without = replace(system, extra=system.extra[:0])
        large = self.n_features >= LEAST_SINGLE
        found = _single_factor(without) if single and large and not len(system.extra) else None
        if found is None:
            found = CholeskyFactor(without.dense(), ridge=float(system.diagonal.min()))
        self.plain = found
        self.factor: UpdatedFactor = UpdatedFactor(self.plain, system.extra)
        self._shifts: dict[tuple[float, float], CholeskyFactor] = {}

    @cached_property
    def W0(self) -> Matrix:
        """G⁻¹P."""
        return self.factor.updated(self._plain_map())

    def _plain_map(self) -> Matrix:
        """(D + ASA)⁻¹AS. As ASA = G − D, it is (I − G⁻¹D)A⁻¹: an inverse, not a solve.

        Only the diagonal of I − G⁻¹D subtracts. Where little is left of it, the diagonal of G⁻¹ASA
        is summed instead: its largest term is then nearly all of it.
        """
        D, a, S = self.system.diagonal, self.system.scale, self.system.gram.dense()
        if self.outputs is not None:
            return self.plain.solve(a[:, None] * S[:, self.outputs])
        W = self.plain.inverse()
        rest = 1 - W.diagonal() * D
        small = np.flatnonzero(rest < 1e-2)
        if len(small):
            rest[small] = a[small] * np.einsum("ij,ij->i", W[small], S[small] * a)
        W *= -D
        W[np.diag_indices_from(W)] = rest
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
            self._shifts[shift, theta] = CholeskyFactor(G, ridge=float(system.diagonal.min()))
        return self._shifts[shift, theta].solve

    @cached_property
    def pencil(self) -> tuple[Matrix, Vector]:
        """B and Λ with BᵀGB = I and BᵀQ_lB = Λ (math.md §5.2): one eigendecomposition.

        With G = L(I + ẼᵀẼ)Lᵀ and Ẽ = E L⁻ᵀ, B = L⁻ᵀ(I + ẼᵀẼ)^-½ times the eigenvectors.
        """
        M = self.labelled.dense()
        d, L = self.n_features, self.plain.L
        _, s, V = np.linalg.svd(
            solve_triangular(L, self.system.extra.T, lower=True, check_finite=False).T,
            full_matrices=False,
        )
        shrink = 1 - 1 / np.sqrt(1 + s**2)  # (I + ẼᵀẼ)^-½ = I − V diag(shrink) Vᵀ

        def whitened(A: Matrix) -> Matrix:
            A = solve_triangular(L, A, lower=True, check_finite=False)
            return A - V.T @ (shrink[:, None] * (V @ A)) if len(s) else A

        M[:d] = whitened(M[:d])
        M[:, :d] = whitened(M[:, :d].T).T
        if self.bias:
            M[d:] /= np.sqrt(self.count)
            M[:, d:] /= np.sqrt(self.count)
        values, B = symmetric_eigen((M + M.T) / 2)
        if len(s):
            B[:d] -= V.T @ (shrink[:, None] * (V @ B[:d]))
        B[:d] = solve_triangular(L, B[:d], lower=True, trans="T", check_finite=False)
        if self.bias:
            B[d:] /= np.sqrt(self.count)
        return B, np.maximum(values, 0)


def _single_factor(system: DiagonalPlusGram) -> CholeskyFactor | None:
    """A factor in float32; None where it would lose too many digits."""
    with np.errstate(over="ignore", invalid="ignore"):
        G = system.dense().astype(np.float32, order="F")
    try:
        found = CholeskyFactor(G, overwrite=True)
    except SingularError:
        return None
    return found if found.condition * np.finfo(np.float32).eps < SINGLE_LIMIT else None
