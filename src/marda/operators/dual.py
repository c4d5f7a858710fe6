"""The dual route: n×n matrices, and the rows themselves (math.md §6, §11)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import blas, lapack, solve_triangular

from marda._arrays import (
    SingularError,
    add_gram,
    add_to_diagonal,
    beside,
    columns,
    copy,
    diagonal,
    eigh,
    hstack,
    is_numpy,
    mirror_lower,
    namespace,
    norms,
    ones,
    triangular_solve,
    vdot,
    vstack,
    zeros,
)
from marda.operators.denoiser import THIN_FACTOR, Denoiser
from marda.operators.linear import (
    CholeskyFactor,
    DiagonalPlusGram,
    RowFactor,
    RowGram,
    solve_together,
)
from marda.operators.maps import Map, RowMap
from marda.operators.rows import Rows

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
PREDICTOR = "the class predictor's matrix"
#: The least mean of the diagonal of J that I − C⁻¹ leaves its digits: of float64, of float32.
LEAST_KEPT, LEAST_KEPT_SINGLE = 1e-4, 1e-2
BLOCK_BYTES = 32 * 2**20
#: Rows of J at a time that sparse rows are multiplied with: the products stay in the cache.
SPARSE_STEP = 128


class DualDenoiser(Denoiser):
    """n×n matrices and the rows themselves: more features than rows."""

    def __init__(self, *args: Any, single: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        gram = self.system.gram
        assert isinstance(gram, RowGram)
        # Centred rows add up to 0.
        self.null = ones(gram.rows.shape[0], self.variance) if self.bias else None
        self.factor: RowFactor = RowFactor(self.system, null=self.null, single=single)
        self.rows: Rows = self.factor.rows
        self.output_rows = self.rows.columns(self.outputs)
        self._shifts: dict[tuple[float, float], tuple[RowFactor, Vector, float]] = {}

    @cached_property
    def output_kernel(self) -> Matrix:
        """XXᵀ of the outputs."""
        return self.output_rows.kernel(ones(self.n_outputs, self.variance))

    def map(self, V: Matrix) -> Matrix:
        """W₀V."""
        return self.with_bias(self.factor.solve_rows(self.output_rows.dot(V)))

    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""
        return self.output_rows.tdot(self._row_weights(B))

    def _row_weights(self, B: Matrix) -> Matrix:
        """C with W₀ᵀB = XᵀC."""
        scores = self.factor.F_dot(B[: self.n_features, ...] / self.system.diagonal[:, None])
        return self.factor.core_adjoint(scores)

    def solve_sides(self, ridge: float, U: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
        """[U, W₀ᵀB], and K₀⁻¹ of it: the second part is known by its weights of rows."""
        predictor = self.predictor(ridge)
        assert isinstance(predictor, RowSpacePredictor)
        return predictor.solve_sides(U, self._row_weights(B))

    def _factor_pays(self, steps: float, n_columns: int) -> bool:
        n, X = self.rows.shape[0], self.rows.X
        stored = X.nnz if sp.issparse(X) else X.shape[0] * X.shape[1]
        return bool(n**3 < steps * THIN_FACTOR * n_columns * (4.0 * stored + n * n))

    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        pairs, which = np.unique(shifts, axis=0, return_inverse=True)
        which = which.ravel()
        d = self.n_features
        systems = [self._shifted(*pair) for pair in pairs.tolist()]
        top = solve_together([factor for factor, _, _ in systems], which, B[:d, ...])
        if self.labelled.mean is None:
            return top
        # Bordered by the bias, [[K, s u], [s uᵀ, N + s n]]: eliminate it, a column at a time
        border = beside(shifts[:, 0], B) * (self.labelled.count * (self.labelled.mean @ top))
        solved = columns(hstack([solved[:, None] for _, solved, _ in systems]), which)
        schur = beside(np.array([schur for _, _, schur in systems])[which], B)
        bias = (B[d, :] - border) / schur
        return vstack([top - solved * bias, bias[None, :]])

    def _shifted(self, shift: float, theta: float) -> tuple[RowFactor, Vector, float]:
        """Feature block K of G − θE + shift·Q_l, K⁻¹su, and the Schur complement of the bias."""
        if (shift, theta) not in self._shifts:
            gram, system = self.labelled.gram, self.system
            assert isinstance(gram, RowGram)
            factor, n_l = self.factor, gram.rows.shape[0]
            if shift or theta:
                weights = ones(self.rows.shape[0], self.variance)
                weights[:n_l] += shift * (1.0 if gram.weights is None else gram.weights)
                filled = system.diagonal + shift * self.labelled.diagonal
                filled -= theta * (system.diagonal - self.variance)
                rows, kept = RowGram(self.rows, weights), math.sqrt(1 - theta)
                mixing = None if system.mixing is None else kept * system.mixing
                shifted = DiagonalPlusGram(filled, system.scale, rows, kept * system.extra, mixing)
                factor = RowFactor(shifted, null=self.null)
                del factor.kernel  # only W₀ and K₀ need it
            solved, schur = zeros(self.n_features, self.variance), self.count
            if self.labelled.mean is not None:
                u = shift * self.labelled.count * self.labelled.mean
                solved = factor.solve(u[:, None])[:, 0]
                schur += shift * self.labelled.count - float(u @ solved)
            self._shifts[shift, theta] = factor, solved, schur
        return self._shifts[shift, theta]

    def freeze(self) -> Map:
        """W₀ as a map of rows, the same for every model that has it."""
        return self._frozen

    @cached_property
    def _frozen(self) -> RowMap:
        system, factor = self.system, self.factor
        if not factor.mixing.shape[0]:  # M is symmetric, and in Fortran order
            core = factor.inverse.T
        else:
            core = factor.core_matrix()
            core = np.ascontiguousarray(core) if is_numpy(core) else core
        return RowMap(
            self.rows if self.rows.origin is None else self.rows.origin,
            self.outputs,
            system.scale / system.diagonal,
            zeros((self.n_features, 0), self.variance),
            core,
        )

    def denoised_rows(self, order: NDArray[np.int64], level: Vector, dtype: Any) -> Any:
        """X W₀ = J X_out / a with J = K C⁻¹ = I − C⁻¹, without the vector of ones (math.md §11).

        None where A is no multiple of the identity, where MMD terms mix rows, where J is so small
        that the subtraction would cost digits, and for arrays that are not numpy's.
        """
        factor, scale = self.factor, self.system.scale
        if not is_numpy(scale):
            return None
        n = len(factor.inverse)
        least = LEAST_KEPT_SINGLE if factor.single else LEAST_KEPT
        small = n - float(np.trace(factor.inverse, dtype=np.float64)) < least * n
        if small or len(factor.mixing) or factor.root is not None or np.ptp(scale):
            return None
        rows = self.output_rows
        sparse = sp.issparse(rows.X)
        # Sparse rows as they are: without the vector of ones no centre is seen.
        X = sp.csr_array(rows.X.T) if sparse else rows.dense(dtype)
        out = np.empty(rows.shape, dtype=dtype)
        step = SPARSE_STEP if sparse else max(64, BLOCK_BYTES // (8 * (n + rows.shape[1])))
        for start in range(0, n, step):
            block = slice(start, min(n, start + step))
            # C⁻¹ is symmetric, and in Fortran order: of its two readings, the one in one piece.
            inverse = factor.inverse[block].T if sparse else factor.inverse[:, block]
            Jt = np.array(inverse, order="C" if sparse else "F")
            np.negative(Jt, out=Jt)
            Jt[np.arange(start, start + Jt.shape[1]), np.arange(Jt.shape[1])] += 1
            if self.null is not None:
                Jt -= Jt.mean(0)
            Jt /= Jt.dtype.type(scale[0])
            Jt = Jt.astype(dtype, copy=False)
            part = (X @ Jt).T if sparse else Jt.T @ X
            part += level.astype(dtype)
            out[order[block]] = part
        return out

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀) = tr(K_out(J − JBᵀmid)) with J = I − C⁻¹: a loss needs no more digits."""
        factor, K = self.factor, self.output_kernel
        J_of_B = factor.cholesky.solve(factor.kernel @ factor.mixing.T)
        all_of_it = float(namespace(K).sum(diagonal(K)))
        return all_of_it - vdot(K, factor.inverse) - vdot(J_of_B, K @ factor.mid.T)

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
        weights = ones(n_l, denoiser.variance) if gram.weights is None else gram.weights
        xp = namespace(weights)
        J = factor.cholesky.solve(factor.kernel[:, :n_l]).T  # rows of J = K C⁻¹
        T = J - (J @ factor.mixing.T) @ factor.mid
        if denoiser.bias:
            T -= weights @ T / xp.sum(weights)
        self._set_basis(denoiser)
        self.root = xp.sqrt(weights)
        self.labelled = self._times_L(self.root[:, None] * T)  # diag(w)^½ T_l L
        size = (self.L.shape[1],) * 2
        inside = np.zeros(size, order="F") if xp is np else zeros(size, weights)
        inside = mirror_lower(add_gram(inside, self.labelled.T))
        if bool(xp.any(labelled.diagonal != 0)):
            ML = self._times_L(factor.core_matrix())
            Psi = factor.kernel_of(labelled.diagonal / denoiser.system.diagonal**2)
            more = ML.T @ (Psi @ ML)
            inside += (more + more.T) / 2
        inside = add_to_diagonal(inside, ridge)
        self._solved = CholeskyFactor(inside, PREDICTOR, ridge, least=ridge)

    def _set_basis(self, denoiser: DualDenoiser) -> None:
        """L, and the rows that it is of: all, or as many as are independent."""
        K = denoiser.output_kernel
        K = K.copy(order="F") if is_numpy(K) else copy(K)
        self.kept: NDArray[np.int64] | slice = slice(None)
        self._turn: Matrix | None = None
        if denoiser.null is not None:  # H and all right sides vanish on the vector of ones
            K += float(namespace(K).sum(diagonal(K))) / K.shape[0] ** 2
        try:
            self.L = CholeskyFactor(K, overwrite=True).L  # no rank is asked for if it fails
            self._lower = self.L
        except SingularError:
            K = denoiser.output_kernel
            if not is_numpy(K):
                self._set_eigenbasis(K)
                return
            tol = 10 * len(K) * np.finfo(float).eps * float(K.diagonal().max())
            L, order, rank, _ = lapack.dpstrf(K, tol=tol, lower=1)
            self.kept = order[:rank] - 1
            self._lower = np.tril(L[:rank, :rank])
            self.L = np.empty((len(K), rank))
            self.L[order - 1] = np.tril(L)[:, :rank]

    def _set_eigenbasis(self, K: Matrix) -> None:
        """XXᵀ = V diag(s²) Vᵀ: L = V diag(s), without what rounding leaves."""
        values, V = eigh(K)
        n = K.shape[0]
        least = 10 * n * float(np.finfo(float).eps) * float(namespace(K).max(diagonal(K)))
        first = n - int(namespace(K).count_nonzero(values > least))
        s = namespace(K).sqrt(values[first:])
        self.L = V[:, first:] * s
        self._turn = V[:, first:] / s

    def _times_L(self, A: Matrix) -> Matrix:
        """A L, at half the price where L is a triangle."""
        if is_numpy(A) and isinstance(self.kept, slice):
            return np.asarray(blas.dtrmm(1.0, self.L, A, side=1, lower=1))
        return A @ self.L

    @property
    def condition(self) -> float:
        """Of LᵀHL + δI."""
        return self._solved.condition

    @property
    def bound(self) -> float:
        """Of the same."""
        return self._solved.bound

    def _outside(self, u: Matrix) -> Matrix:
        """Φ u."""
        if not is_numpy(u):
            if self._turn is not None:
                return self.rows.tdot(self._turn @ u)
            return self.rows.tdot(triangular_solve(self._lower, u, transposed=True))
        weights = np.zeros((self.rows.shape[0], u.shape[1]))
        if u.size:  # the oldest SciPy refuses empty systems
            weights[self.kept] = solve_triangular(
                self._lower, u, lower=True, trans="T", check_finite=False
            )
        return self.rows.tdot(weights)

    def _coordinates(self, B: Matrix) -> Matrix:
        """ΦᵀB."""
        scores = self.rows.dot(B)
        if not is_numpy(scores):
            if self._turn is not None:
                return self._turn.T @ scores
            return triangular_solve(self._lower, scores)
        scores = scores[self.kept]
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
        solved = self._outside(self._solved.solve(hstack([inside, self.L.T @ C])))
        solved[:, : U.shape[1]] += outside / self.ridge
        return hstack([U, self.rows.tdot(C)]), solved

    def solve(self, B: Matrix) -> Matrix:
        """K₀⁻¹B."""
        inside, outside = self._split(B)
        return outside / self.ridge + self._outside(self._solved.solve(inside))

    def _split(self, B: Matrix) -> tuple[Matrix, Matrix]:
        """ΦᵀB, and what of B lies outside the row space."""
        inside = self._coordinates(B)
        outside = B - self._outside(inside)
        # What rounding leaves of a column that lies in the row space is not divided by δ.
        xp = namespace(B)
        rounding = 1e-12 * norms(B)
        if bool(xp.any(norms(outside) > rounding)):
            more = self._coordinates(outside)
            outside -= self._outside(more)
            inside += more
        return inside, xp.where(norms(outside) > rounding, outside, xp.zeros_like(outside))
