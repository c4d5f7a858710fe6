"""The dual route: n×n matrices, and the rows themselves (math.md §6, §11)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular

from marda._linalg import add_gram, mirror_lower
from marda.operators.denoiser import THIN_FACTOR, Denoiser
from marda.operators.linear import (
    CholeskyFactor,
    DiagonalPlusGram,
    RowFactor,
    RowGram,
    SingularError,
    solve_together,
)
from marda.operators.maps import Map, RowMap
from marda.operators.rows import Rows

__all__ = ["DualDenoiser", "RowSpacePredictor"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
PREDICTOR = "the class predictor's matrix"
#: The least mean of the diagonal of J that I − C⁻¹ leaves its digits: of float64, of float32.
LEAST_KEPT, LEAST_KEPT_SINGLE = 1e-4, 1e-2
BLOCK_BYTES = 32 * 2**20


class DualDenoiser(Denoiser):
    """n×n matrices and the rows themselves: more features than rows."""

    def __init__(self, *args: Any, single: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        gram = self.system.gram
        assert isinstance(gram, RowGram)
        self.null = np.ones(gram.rows.shape[0]) if self.bias else None  # centred rows add up to 0
        self.factor: RowFactor = RowFactor(self.system, null=self.null, single=single)
        self.rows: Rows = self.factor.rows
        self.output_rows = self.rows.columns(self.outputs)
        self._shifts: dict[tuple[float, float], tuple[RowFactor, Vector, float]] = {}

    @cached_property
    def output_kernel(self) -> Matrix:
        """XXᵀ of the outputs."""
        return self.output_rows.kernel(np.ones(self.n_outputs))

    def map(self, V: Matrix) -> Matrix:
        """W₀V."""
        return self.with_bias(self.factor.solve_rows(self.output_rows.dot(V)))

    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""
        return self.output_rows.tdot(self._row_weights(B))

    def _row_weights(self, B: Matrix) -> Matrix:
        """C with W₀ᵀB = XᵀC."""
        scores = self.factor.F_dot(B[: self.n_features] / self.system.diagonal[:, None])
        return self.factor.core_adjoint(scores)

    def solve_sides(self, ridge: float, U: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
        """[U, W₀ᵀB], and K₀⁻¹ of it: the second part is known by its weights of rows."""
        predictor = self.predictor(ridge)
        assert isinstance(predictor, RowSpacePredictor)
        return predictor.solve_sides(U, self._row_weights(B))

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
        if self.labelled.mean is None:
            return top
        # Bordered by the bias, [[K, s u], [s uᵀ, N + s n]]: eliminate it, a column at a time
        border = shifts[:, 0] * (self.labelled.count * (self.labelled.mean @ top))
        solved = np.stack([solved for _, solved, _ in systems], 1)[:, which]
        schur = np.array([schur for _, _, schur in systems])[which]
        bias = (B[d] - border) / schur
        return np.vstack([top - solved * bias, bias])

    def _shifted(self, shift: float, theta: float) -> tuple[RowFactor, Vector, float]:
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
                rows, kept = RowGram(self.rows, weights), np.sqrt(1 - theta)
                mixing = None if system.mixing is None else kept * system.mixing
                shifted = DiagonalPlusGram(
                    diagonal, system.scale, rows, kept * system.extra, mixing
                )
                factor = RowFactor(shifted, null=self.null)
                del factor.kernel  # only W₀ and K₀ need it
            solved, schur = np.zeros(self.n_features), self.count
            if self.labelled.mean is not None:
                u = shift * self.labelled.count * self.labelled.mean
                solved = factor.solve(u[:, None]).ravel()
                schur += shift * self.labelled.count - float(u @ solved)
            self._shifts[shift, theta] = factor, solved, schur
        return self._shifts[shift, theta]

    def freeze(self) -> Map:
        """W₀ as a map of rows."""
        system = self.system
        return RowMap(
            self.rows if self.rows.origin is None else self.rows.origin,
            self.outputs,
            system.scale / system.diagonal,
            np.zeros((self.n_features, 0)),
            # Without mixing M is symmetric, and in Fortran order.
            self.factor.inverse.T
            if not len(self.factor.mixing)
            else np.ascontiguousarray(self.factor.core_matrix()),
        )

    def denoised_rows(self, order: NDArray[np.int64], level: Vector, dtype: Any) -> Any:
        """X W₀ = J X_out / a with J = K C⁻¹ = I − C⁻¹, without the vector of ones (math.md §11).

        None where A is no multiple of the identity, where MMD terms mix rows, and where J is so
        small that the subtraction would cost digits.
        """
        factor, scale = self.factor, self.system.scale
        n = len(factor.inverse)
        least = LEAST_KEPT_SINGLE if factor.single else LEAST_KEPT
        small = n - float(np.trace(factor.inverse, dtype=np.float64)) < least * n
        if small or len(factor.mixing) or factor.root is not None or np.ptp(scale):
            return None
        rows = self.output_rows
        X = rows.X if sp.issparse(rows.X) else rows.dense(dtype)
        out = np.empty(rows.shape, dtype=dtype)
        step = max(64, BLOCK_BYTES // (8 * (n + rows.shape[1])))
        for start in range(0, n, step):
            block = slice(start, min(n, start + step))
            J = -factor.inverse[block]
            J[np.arange(len(J)), np.arange(start, start + len(J))] += 1
            if self.null is not None:
                J -= J.mean(1, keepdims=True)
            J = (J / scale[0]).astype(dtype)
            part = J @ X
            if sp.issparse(X) and rows.center is not None and self.null is None:
                part -= np.outer(J.sum(1), rows.center)
            part += level.astype(dtype)
            out[order[block]] = part
        return out

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀) = tr(K_out(J − JBᵀmid)) with J = I − C⁻¹: a loss needs no more digits."""
        factor, K = self.factor, self.output_kernel
        J_of_B = factor.cholesky.solve(factor.kernel @ factor.mixing.T)
        return float(np.trace(K) - np.vdot(K, factor.inverse) - np.vdot(J_of_B, K @ factor.mid.T))

    def _predictor(self, ridge: float) -> RowSpacePredictor:
        return RowSpacePredictor(self, ridge)


class RowSpacePredictor:
    """K₀ = W₀ᵀQ_l'W₀ + δI, Q_l' about the labelled mean, in the row space of the outputs.

    With T = K M, so that A X W₀ = T X, and T_l its labelled rows about their mean,

        K₀ = δI + XᵀHX,   H = T_lᵀ diag(w) T_l + MᵀΨM,   Ψ = F D⁻¹D_l D⁻¹Fᵀ,

    a sum of positive terms. Φ = XᵀL⁻ᵀ, where XXᵀ = LLᵀ, are orthonormal coordinates of the row
    space: there K₀ is LᵀHL + δI, and δ elsewhere (math.md §11).
    """

    def __init__(self, denoiser: DualDenoiser, ridge: float):
        if ridge <= 0:
            raise ValueError(
                "ridge_class=0 with fewer rows than features leaves the class predictor "
                "undetermined: use ridge_class > 0."
            )
        self.rows, self.ridge = denoiser.output_rows, ridge
        factor, labelled = denoiser.factor, denoiser.labelled
        gram = labelled.gram
        assert isinstance(gram, RowGram)
        n_l = gram.rows.shape[0]
        weights = np.ones(n_l) if gram.weights is None else gram.weights
        J = factor.cholesky.solve(factor.kernel[:, :n_l]).T  # rows of J = K C⁻¹
        T = J - (J @ factor.mixing.T) @ factor.mid
        if denoiser.bias:
            T -= weights @ T / weights.sum()
        self._set_basis(denoiser)
        self.labelled = self._times_L(np.sqrt(weights)[:, None] * T)  # diag(w)^½ T_l L
        self.root = np.sqrt(weights)
        inside = np.zeros((self.L.shape[1],) * 2, order="F")
        inside = mirror_lower(add_gram(inside, self.labelled.T))
        if labelled.diagonal.any():
            ML = self._times_L(factor.core_matrix())
            Psi = factor.kernel_of(labelled.diagonal / denoiser.system.diagonal**2)
            more = ML.T @ (Psi @ ML)
            inside += (more + more.T) / 2
        inside[np.diag_indices_from(inside)] += ridge
        self._solved = CholeskyFactor(inside, PREDICTOR, ridge)

    def _set_basis(self, denoiser: DualDenoiser) -> None:
        """L, and the rows that it is of: all, or as many as are independent."""
        K = denoiser.output_kernel.copy(order="F")
        self.kept: NDArray[np.int64] | slice = slice(None)
        if denoiser.null is not None:
            K += np.trace(K) / len(K) ** 2  # H and all right sides vanish on the vector of ones
        try:
            self.L = CholeskyFactor(K).L
            self._lower = self.L
        except SingularError:
            K = denoiser.output_kernel
            tol = 10 * len(K) * np.finfo(float).eps * float(K.diagonal().max())
            L, order, rank, _ = lapack.dpstrf(K, tol=tol, lower=1)
            self.kept = order[:rank] - 1
            self._lower = np.tril(L[:rank, :rank])
            self.L = np.empty((len(K), rank))
            self.L[order - 1] = np.tril(L)[:, :rank]

    def _times_L(self, A: Matrix) -> Matrix:
        """A L, at half the price where L is a triangle."""
        if isinstance(self.kept, slice):
            return np.asarray(blas.dtrmm(1.0, self.L, A, side=1, lower=1))
        return A @ self.L

    @property
    def condition(self) -> float:
        """Of LᵀHL + δI."""
        return self._solved.condition

    def _outside(self, u: Matrix) -> Matrix:
        """Φ u."""
        weights = np.zeros((self.rows.shape[0], u.shape[1]))
        if u.size:  # the oldest SciPy refuses empty systems
            weights[self.kept] = solve_triangular(
                self._lower, u, lower=True, trans="T", check_finite=False
            )
        return self.rows.tdot(weights)

    def _coordinates(self, B: Matrix) -> Matrix:
        """ΦᵀB."""
        scores = self.rows.dot(B)[self.kept]
        if not scores.size:
            return scores
        return np.asarray(solve_triangular(self._lower, scores, lower=True, check_finite=False))

    def solve_labels(self, Y: Matrix) -> Matrix:
        """K₀⁻¹W₀ᵀA X_lᵀdiag(w)Y, without a subtraction."""
        u = self.labelled.T @ (self.root[:, None] * Y)
        return self._outside(self._solved.solve(u))

    def solve_sides(self, U: Matrix, C: Matrix) -> tuple[Matrix, Matrix]:
        """[U, XᵀC], and K₀⁻¹ of it: ΦᵀXᵀC = LᵀC needs no row."""
        inside, outside = self._split(U)
        solved = self._outside(self._solved.solve(np.hstack([inside, self.L.T @ C])))
        solved[:, : U.shape[1]] += outside / self.ridge
        return np.hstack([U, self.rows.tdot(C)]), solved

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B."""
        inside, outside = self._split(B)
        return np.asarray(outside / self.ridge + self._outside(self._solved.solve(inside)))

    def _split(self, B: Matrix) -> tuple[Matrix, Matrix]:
        """ΦᵀB, and what of B lies outside the row space."""
        inside = self._coordinates(B)
        outside = B - self._outside(inside)
        # What rounding leaves of a column that lies in the row space is not divided by δ.
        rounding = 1e-12 * np.linalg.norm(B, axis=0)
        if (np.linalg.norm(outside, axis=0) > rounding).any():
            more = self._coordinates(outside)
            outside -= self._outside(more)
            inside += more
        outside[:, np.linalg.norm(outside, axis=0) <= rounding] = 0
        return inside, outside
