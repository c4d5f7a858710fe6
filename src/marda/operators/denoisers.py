"""The denoising map W₀ = G⁻¹P and what the models need of it, by three routes (math.md §5, §6).

Coordinates. With a bias column the features are centred at the mean m of all rows, inputs as a∘m
and outputs as m. The bias then decouples: G is block diagonal (features; the row count), the bias
row of W₀ is zero, and every route works on features alone. `offset` undoes the shift at the end.

| route | G⁻¹ | W₀ | memory |
| --- | --- | --- | --- |
| primal | Cholesky, d×d | d×r matrix | O(d²) |
| dual | Woodbury, n×n | D⁻¹Fᵀ(I + F D⁻¹Fᵀ)⁻¹ times the rows | O(n² + nd) |
| cg | conjugate gradients | d×r matrix for r pivots, else implicit | O(nd + dr) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, lu_factor, lu_solve, solve_triangular

from marda.operators.cg import conjugate_gradients
from marda.operators.linear import (
    CholeskyFactor,
    DiagonalPlusGram,
    Factor,
    IterativeFactor,
    RowGram,
    SecondMoment,
    WoodburyFactor,
)
from marda.operators.maps import DenseMap, IterativeMap, Map, RowMap
from marda.operators.rows import Rows

__all__ = [
    "Coupling",
    "Denoiser",
    "DualDenoiser",
    "IterativeDenoiser",
    "PivotDenoiser",
    "PrimalDenoiser",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
CG_TOL = 1e-12
COLUMN_BLOCK = 128


@dataclass(frozen=True)
class Coupling:
    """One prediction term of (★) restricted to U: V ↦ Q V S with S = a UᵀZZᵀU, r×r."""

    Q: SecondMoment
    S: Matrix


class Denoiser(ABC):
    """G, W₀ = G⁻¹P and K₀ = W₀ᵀQ_lW₀ + δI of one problem, each made once and only when asked for.

    Parameters
    ----------
    system : DiagonalPlusGram
        The feature block of G.
    count : float
        Bias entry of G: the number of rows.
    labelled : SecondMoment
        Q_l.
    outputs : integer array or None
        Reconstructed features (pivots); None for all.
    bias : bool
        Whether inputs have a bias entry, after the features.
    """

    factor: Factor

    def __init__(
        self,
        system: DiagonalPlusGram,
        count: float,
        labelled: SecondMoment,
        outputs: NDArray[np.int64] | None,
        bias: bool,
    ):
        self.system = system
        self.count = count
        self.labelled = labelled
        self.outputs = outputs
        self.bias = bias
        self.n_features = system.scale.shape[0]
        self.n_outputs = self.n_features if outputs is None else len(outputs)
        self._K0: dict[float, Factor] = {}

    # G on inputs ------------------------------------------------------------------------------

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B, where B has a last row for the bias if there is one."""
        top = self.factor.solve(B[: self.n_features])
        return np.vstack([top, B[self.n_features :] / self.count]) if self.bias else top

    def matmul(self, V: Matrix) -> Matrix:
        """G V."""
        top = self.factor.matmul(V[: self.n_features])
        return np.vstack([top, V[self.n_features :] * self.count]) if self.bias else top

    def _with_bias(self, features: Matrix) -> Matrix:
        """Append the bias row of W₀, which is zero in centred coordinates."""
        return np.vstack([features, np.zeros((1, features.shape[1]))]) if self.bias else features

    # W₀ ---------------------------------------------------------------------------------------

    @abstractmethod
    def map(self, V: Matrix) -> Matrix:
        """W₀V."""

    @abstractmethod
    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""

    @abstractmethod
    def freeze(self) -> Map:
        """W₀ as a map of rows, with no more than it needs to be applied."""

    @cached_property
    @abstractmethod
    def trace(self) -> float:
        """tr(PᵀW₀), the part of the loss that no alternation changes."""

    # K₀ = W₀ᵀ(Q_l − uuᵀ/n_l)W₀ + δI: the class predictor's matrix, its intercept eliminated ------

    def predictor(self, ridge: float) -> Factor:
        """K₀, factorised."""
        if ridge not in self._K0:
            self._K0[ridge] = self._predictor(ridge)
        return self._K0[ridge]

    @abstractmethod
    def _predictor(self, ridge: float) -> Factor: ...

    def centred(self, V: Matrix) -> Matrix:
        """(Q_l − uuᵀ/n_l) V with u = Q_l e: labelled second moments about their own mean."""
        out = self.labelled.matmul(V)
        u = self.labelled.bias_column()
        if u is not None and self.labelled.count > 0:
            out -= np.outer(u, (u @ V) / self.labelled.count)
        return out

    # (★) on U ---------------------------------------------------------------------------------

    def solve_coupled(
        self, terms: Sequence[Coupling], R: Matrix, start: Matrix | None = None
    ) -> Matrix:
        """Solve G V + Σ Q_k V S_k = R by CG with G as preconditioner.

        G ⪰ Q_k bounds the condition number by 1 + Σ‖S_k‖. The preconditioner is
        G ⊗ (I + Στ_kS_k), τ_k = tr Q_k / tr G, which is exact where Q_k = τ_k G. G times a direction
        is never computed: it follows from the residuals, since Gz = r(I + Στ_kS_k)⁻¹.
        """
        # τ is 1 for all rows and about the labelled share for Q_l.
        mix = np.eye(R.shape[1]) + sum(min(1.0, t.Q.count / self.count) * t.S for t in terms)
        unmix = np.linalg.inv(mix)

        def coupled(V: Matrix) -> Matrix:
            return np.asarray(sum(t.Q.matmul(V @ t.S) for t in terms))

        V = self.solve(R @ unmix) if start is None else start.copy()
        residual = R - self.matmul(V) - coupled(V)
        goal = CG_TOL * float(np.linalg.norm(R))
        G_direction = residual @ unmix
        z = self.solve(G_direction)
        direction = z.copy()
        rz = float(np.vdot(residual, z))
        for _ in range(1000):
            if np.linalg.norm(residual) <= goal:
                break
            image = G_direction + coupled(direction)
            curvature = float(np.vdot(direction, image))
            if curvature <= 0:
                break  # nothing but rounding is left of the direction
            step = rz / curvature
            V += step * direction
            residual -= step * image
            G_z = residual @ unmix
            z = self.solve(G_z)
            rz, previous = float(np.vdot(residual, z)), rz
            direction = z + (rz / previous) * direction
            G_direction = G_z + (rz / previous) * G_direction
        return V


class _ExplicitMap(Denoiser):
    """A route that holds W₀ as a d×r matrix."""

    W0: Matrix

    def map(self, V: Matrix) -> Matrix:
        return self._with_bias(self.W0 @ V)

    def map_adjoint(self, B: Matrix) -> Matrix:
        return self.W0.T @ B[: self.n_features]

    def freeze(self) -> Map:
        return DenseMap(self.W0)

    def _predictor(self, ridge: float) -> Factor:
        K = self.W0.T @ self.centred(self._with_bias(self.W0))[: self.n_features]
        K[np.diag_indices_from(K)] += ridge
        return CholeskyFactor(K, "the class predictor's matrix")


class PrimalDenoiser(_ExplicitMap):
    """d×d matrices: many rows, or moments alone."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.factor = CholeskyFactor(self.system.dense())

    @cached_property
    def W0(self) -> Matrix:  # type: ignore[override]
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
        S = self.system.gram.dense()
        P = S if self.outputs is None else S[:, self.outputs]
        return float(np.vdot(self.system.scale[:, None] * P, self.W0))

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


class DualDenoiser(Denoiser):
    """n×n matrices and the rows themselves: more features than rows."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.factor: WoodburyFactor = WoodburyFactor(self.system)
        self.rows: Rows = self.factor.rows
        self.output_rows = self.rows.columns(self.outputs)

    @cached_property
    def _output_kernel(self) -> Matrix:
        return self.output_rows.kernel(np.ones(self.n_outputs))

    def map(self, V: Matrix) -> Matrix:
        # G⁻¹AXᵀ = D⁻¹Fᵀ(I + F D⁻¹Fᵀ)⁻¹ on the columns that belong to rows
        n = self.rows.shape[0]
        inner = self.factor.core_inverse[:, :n] @ self.output_rows.dot(V)
        return self._with_bias(self.factor.F_tdot(inner) / self.system.diagonal[:, None])

    def map_adjoint(self, B: Matrix) -> Matrix:
        n = self.rows.shape[0]
        scores = self.factor.F_dot(B[: self.n_features] / self.system.diagonal[:, None])
        return self.output_rows.tdot(self.factor.core_inverse[:n] @ scores)

    def freeze(self) -> Map:
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
        self.denoiser, self.ridge, self.H = denoiser, ridge, H
        core = kernel @ H
        core[np.diag_indices_from(core)] += ridge
        self._core = lu_factor(core, overwrite_a=True, check_finite=False)

    def _once(self, B: Matrix) -> Matrix:
        rows = self.denoiser.output_rows
        inner = self.H @ lu_solve(self._core, rows.dot(B), check_finite=False)
        return np.asarray((B - rows.tdot(inner)) / self.ridge)

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B; one step of refinement, since the core is not symmetric."""
        V = self._once(B)
        return np.asarray(V + self._once(B - self.matmul(V)))

    def matmul(self, V: Matrix) -> Matrix:
        """K₀V."""
        rows = self.denoiser.output_rows
        return self.ridge * V + rows.tdot(self.H @ rows.dot(V))


class _RowProducts(Denoiser):
    """Products with the rows only, when neither d×d nor n×n fits."""

    def __init__(self, *args: Any, gram_diagonal: Vector, **kwargs: Any):
        super().__init__(*args, **kwargs)
        assert isinstance(self.system.gram, RowGram)
        self.rows = self.system.gram.rows
        self.output_rows = self.rows.columns(self.outputs)
        self.factor: IterativeFactor = IterativeFactor(self.system, gram_diagonal, CG_TOL)

    def _P(self, V: Matrix) -> Matrix:
        return self.system.scale[:, None] * self.rows.tdot(self.output_rows.dot(V))

    def _P_adjoint(self, B: Matrix) -> Matrix:
        return self.output_rows.tdot(self.rows.dot(self.system.scale[:, None] * B))

    def _unit_blocks(self) -> Iterator[tuple[slice, Matrix]]:
        """Columns of the identity of the outputs, some at a time."""
        for start in range(0, self.n_outputs, COLUMN_BLOCK):
            stop = min(self.n_outputs, start + COLUMN_BLOCK)
            yield slice(start, stop), np.eye(self.n_outputs, stop - start, -start)

    def solve_coupled(
        self, terms: Sequence[Coupling], R: Matrix, start: Matrix | None = None
    ) -> Matrix:
        """(★) on U by CG on the whole operator, with its diagonal as preconditioner."""
        jacobi = np.append(self.factor.jacobi, self.count) if self.bias else self.factor.jacobi
        shares = 1 + sum(min(1.0, t.Q.count / self.count) * np.diag(t.S) for t in terms)
        diagonal = np.outer(jacobi, shares)

        def apply(V: Matrix) -> Matrix:
            return np.asarray(self.matmul(V) + sum(t.Q.matmul(V @ t.S) for t in terms))

        return conjugate_gradients(
            apply, R, lambda V: V / diagonal, x0=start, tol=CG_TOL, coupled=True, name="(★)"
        )


class PivotDenoiser(_RowProducts, _ExplicitMap):
    """Conjugate gradients for the columns of W₀ that belong to pivots: W₀ is d×r."""

    @cached_property
    def W0(self) -> Matrix:  # type: ignore[override]
        """G⁻¹P, some columns at a time."""
        W = np.empty((self.n_features, self.n_outputs))
        for columns, unit in self._unit_blocks():
            W[:, columns] = self.factor.solve(self._P(unit))
        return W

    @cached_property
    def trace(self) -> float:
        return float(np.trace(self._P_adjoint(self.W0)))


class IterativeDenoiser(_RowProducts):
    """Conjugate gradients whenever W₀ is applied; W₀ is never formed."""

    def map(self, V: Matrix) -> Matrix:
        return self._with_bias(self.factor.solve(self._P(V)))

    def map_adjoint(self, B: Matrix) -> Matrix:
        return self._P_adjoint(self.factor.solve(B[: self.n_features]))

    def freeze(self) -> Map:
        return IterativeMap(self.map_adjoint, self.map, (self.n_features, self.n_outputs))

    @cached_property
    def trace(self) -> float:
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
        self.denoiser, self.ridge = denoiser, ridge

    def matmul(self, V: Matrix) -> Matrix:
        """K₀V."""
        d = self.denoiser
        return self.ridge * V + d.map_adjoint(d.centred(d.map(V)))

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B."""
        return conjugate_gradients(
            self.matmul, B, lambda R: R, tol=1e-11, name="the class predictor's matrix"
        )
