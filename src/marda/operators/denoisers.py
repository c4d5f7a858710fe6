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
from collections.abc import Iterator
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
    solve_together,
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
CG_TOL = 1e-10
COLUMN_BLOCK = 128
MAX_STEPS = 500
SHIFT_RATIO = 2.0


@dataclass(frozen=True)
class Coupling:
    """The prediction terms of (★) on U: V ↦ Q_l V S_l + Q V S with S = a UᵀZZᵀU, r×r."""

    labelled: Matrix
    all_rows: Matrix


class Denoiser(ABC):
    """G, W₀ = G⁻¹P and K₀ = W₀ᵀQ_lW₀ + δI of one problem, each made once and only when asked for.

    Parameters
    ----------
    system : DiagonalPlusGram
        The feature block of G.
    count : float
        Bias entry of G: the number of rows.
    variance : array of shape (d,)
        The part of G's diagonal that belongs to Q.
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
        variance: Vector,
        labelled: SecondMoment,
        outputs: NDArray[np.int64] | None,
        bias: bool,
    ):
        self.system = system
        self.count = count
        self.variance = variance
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

    @abstractmethod
    def _solve_shifted(self, shifts: Vector, B: Matrix) -> Matrix:
        """(G + s_i Q_l)⁻¹b_i for every column; factorised once for every shift that occurs."""

    def _excess(self, V: Matrix) -> Matrix:
        """(G − Q) V: what ridge and MMD terms add to Q."""
        d, system = self.n_features, self.system
        out = np.zeros_like(V)
        out[:d] = (system.diagonal - self.variance)[:, None] * V[:d]
        if len(system.extra):
            out[:d] += system.extra.T @ (system.extra @ V[:d])
        return out

    def solve_coupled(self, terms: Coupling, R: Matrix, start: Matrix | None = None) -> Matrix:
        """Solve G V + Q_l V S_l + Q V S = R.

        With C = (I + S)^½, V = V'OᵀC⁻¹ and S_l' = C⁻¹S_lC⁻¹ = O diag(s) Oᵀ this is, a column,
        (G + s_i Q_l) v_i' minus a term with G − Q, which is small (ridge and MMD alone). CG runs on
        that, preconditioned by G + s̄_i Q_l with 1 + s̄_i the power of SHIFT_RATIO nearest to
        1 + s_i: as 0 ⪯ Q_l ⪯ G, the condition number is at most √SHIFT_RATIO · (1 + …), and
        a handful of factorisations serves all alternations. The preconditioner times a direction
        follows from the residuals, so that a step costs one solve and one product with Q_l.
        """
        values, O = np.linalg.eigh(np.eye(R.shape[1]) + terms.all_rows)
        C_inverse = (O / np.sqrt(values)) @ O.T
        s, O = np.linalg.eigh(C_inverse @ terms.labelled @ C_inverse)
        into, back = C_inverse @ O, O.T @ np.linalg.inv(C_inverse)
        s = np.maximum(s, 0)
        power = np.round(np.log(1 + s) / np.log(SHIFT_RATIO))
        grid = np.where(power > 0, SHIFT_RATIO**power - 1, 0.0)
        rest = np.diag(s - grid)
        mixing = into.T @ terms.all_rows @ into
        mixed = bool(np.abs(mixing).max(initial=0) > 0)

        def precondition(V: Matrix) -> Matrix:
            return self._solve_shifted(grid, V)

        def remainder(V: Matrix) -> Matrix:
            out = self.labelled.matmul(V @ rest)
            return out - self._excess(V @ mixing) if mixed else out

        right = R @ into
        goal = CG_TOL * float(np.linalg.norm(right))
        if start is None:
            V = np.zeros_like(right)
            residual = right.copy()
        else:
            V = start @ back.T
            image = self.matmul(V) + self.labelled.matmul(V * s)
            residual = right - (image - self._excess(V @ mixing) if mixed else image)
        z = precondition(residual)
        direction, image_of = z.copy(), residual.copy()  # image_of: preconditioner × direction
        rz = float(np.vdot(residual, z))
        for _ in range(MAX_STEPS):
            if np.linalg.norm(residual) <= goal:
                break
            image = image_of + remainder(direction)
            curvature = float(np.vdot(direction, image))
            if curvature <= 0:
                break  # nothing but rounding is left of the direction
            step = rz / curvature
            V += step * direction
            residual -= step * image
            z = precondition(residual)
            rz, previous = float(np.vdot(residual, z)), rz
            direction = z + (rz / previous) * direction
            image_of = residual + (rz / previous) * image_of
        return np.asarray(V @ into.T)


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
        self._shifts: dict[float, CholeskyFactor] = {}

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

    def _solve_shifted(self, shifts: Vector, B: Matrix) -> Matrix:
        out = np.empty_like(B)
        for shift in np.unique(shifts):
            columns = shifts == shift
            solve = self._shifted(float(shift)).solve if shift else self.solve
            out[:, columns] = solve(B[:, columns])
        return out

    def _shifted(self, shift: float) -> CholeskyFactor:
        if shift not in self._shifts:
            G = shift * self.labelled.dense()
            d = self.n_features
            G[:d, :d] += self.system.dense()
            if self.bias:
                G[d, d] += self.count
            self._shifts[shift] = CholeskyFactor(G)
        return self._shifts[shift]

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
        self._shifts: dict[float, tuple[WoodburyFactor, Vector, float]] = {}

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

    def _solve_shifted(self, shifts: Vector, B: Matrix) -> Matrix:
        values, which = np.unique(shifts, return_inverse=True)
        d = self.n_features
        systems = [self._shifted(float(shift)) for shift in values]
        top = solve_together([factor for factor, _, _ in systems], which, B[:d])
        if self.labelled.cross is None:
            return top
        # Bordered by the bias, [[K, s u], [s uᵀ, N + s n]]: eliminate it, a column at a time
        border = values[which] * (self.labelled.cross @ top)
        solved = np.stack([solved for _, solved, _ in systems], 1)[:, which]
        schur = np.array([schur for _, _, schur in systems])[which]
        bias = (B[d] - border) / schur
        return np.vstack([top - solved * bias, bias])

    def _shifted(self, shift: float) -> tuple[WoodburyFactor, Vector, float]:
        """The feature block K of G + shift·Q_l, K⁻¹su, and the Schur complement of the bias."""
        if shift not in self._shifts:
            gram, system = self.labelled.gram, self.system
            assert isinstance(gram, RowGram)
            factor, n_l = self.factor, gram.rows.shape[0]
            if shift:
                weights = np.ones(self.rows.shape[0])
                weights[:n_l] += shift * (1.0 if gram.weights is None else gram.weights)
                diagonal = system.diagonal + shift * self.labelled.diagonal
                rows = RowGram(self.rows, weights)
                factor = WoodburyFactor(
                    DiagonalPlusGram(diagonal, system.scale, rows, system.extra)
                )
                del factor.kernel  # only W₀ and K₀ need it
            solved, schur = np.zeros(self.n_features), self.count
            if self.labelled.cross is not None:
                u = shift * self.labelled.cross
                solved = factor.solve(u[:, None]).ravel()
                schur += shift * self.labelled.count - float(u @ solved)
            self._shifts[shift] = factor, solved, schur
        return self._shifts[shift]

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

    def _solve_shifted(self, shifts: Vector, B: Matrix) -> Matrix:
        raise TypeError("this route has no factorisations: solve_coupled is its own.")

    def solve_coupled(self, terms: Coupling, R: Matrix, start: Matrix | None = None) -> Matrix:
        """(★) on U by CG on the whole operator, with its diagonal as preconditioner."""
        jacobi = np.append(self.factor.jacobi, self.count) if self.bias else self.factor.jacobi
        share = min(1.0, self.labelled.count / self.count)
        diagonal = np.outer(
            jacobi, 1 + share * np.diag(terms.labelled) + np.diag(terms.all_rows)
        )

        def apply(V: Matrix) -> Matrix:
            W = V + V @ terms.all_rows
            mixed = self.matmul(W) - self._excess(V @ terms.all_rows)
            return np.asarray(mixed + self.labelled.matmul(V @ terms.labelled))

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
