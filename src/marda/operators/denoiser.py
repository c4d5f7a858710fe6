"""The denoising map W₀ = G⁻¹P and what the models need of it, by three routes (math.md §5, §6).

Coordinates. With a bias column the features are centred at the mean m of all rows, inputs as a∘m
and outputs as m. The bias then decouples: G is block diagonal (features; the row count), the bias
row of W₀ is zero, and every route works on features alone. `offset` undoes the shift at the end.

| route | G⁻¹ | W₀ | memory |
| --- | --- | --- | --- |
| primal | Cholesky, d×d | d×r matrix | O(d²) |
| dual | through the rows, n×n (math.md §11) | D⁻¹FᵀM times the rows | O(n² + nd) |
| cg | conjugate gradients (math.md §6.1) | d×r matrix for r pivots, else implicit | O(nd + dr) |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, lapack
from scipy.linalg.blas import dtrsm

from marda._arrays import (
    SingularError,
    add_to_diagonal,
    append,
    astype,
    beside,
    columns,
    copy,
    diagonal,
    divided,
    eigh,
    float64,
    hstack,
    is_numpy,
    lower_product,
    merge_columns,
    mirror_lower,
    namespace,
    root_gram,
    thin_product,
    to_numpy,
    vdot,
    vstack,
    zeros,
)
from marda.operators.banded import BandedForm
from marda.operators.linear import (
    SINGLE_LIMIT,
    CholeskyFactor,
    DiagonalPlusGram,
    Factor,
    SecondMoment,
    UpdatedFactor,
)
from marda.operators.maps import DenseMap, Map

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
CG_TOL = 1e-10
MAX_STEPS = 500
# A residual that was added up step by step is computed anew, and worked on again if it is larger
# than CHECKED says (a factor of its square).
RESTARTS, CHECKED = 4, 1e2
SHIFT_RATIO = 2.0
#: From so many columns on, float32 factors are worth it.
LEAST_SINGLE = 1000
# Measured on the OC10 and AMT tasks: shifts that an alternation visits, steps that they save it,
# and the time of a step's arithmetic, which is bound by memory.
MAX_SHIFTS, STEPS_SAVED, THIN_FACTOR = 5, 25.0, 3.0


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
    gram_diagonal : array of shape (d,)
        Diagonal of the system's Gram.
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
        gram_diagonal: Vector,
    ):
        self.system = system
        self.count = count
        self.variance = variance
        self.labelled = labelled
        self.outputs = outputs
        self.bias = bias
        self.gram_diagonal = gram_diagonal
        self.n_features = system.scale.shape[0]
        self.n_outputs = self.n_features if outputs is None else len(outputs)
        self._K0: dict[float, Factor] = {}

    # G on inputs ------------------------------------------------------------------------------

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B, where B has a last row for the bias if there is one."""
        top = self.factor.solve(B[: self.n_features, ...])
        return vstack([top, B[self.n_features :, ...] / self.count]) if self.bias else top

    def matmul(self, V: Matrix) -> Matrix:
        """G V."""
        top = self.system.matmul(V[: self.n_features, ...])
        return vstack([top, V[self.n_features :, ...] * self.count]) if self.bias else top

    def with_bias(self, features: Matrix) -> Matrix:
        """Append the bias row of W₀, which is zero in centred coordinates."""
        if not self.bias:
            return features
        return vstack([features, zeros((1, features.shape[1]), features)])

    @property
    def diagonal(self) -> Vector:
        """Diagonal of G, the bias included."""
        system = self.system
        own = system.diagonal + system.scale**2 * self.gram_diagonal
        own = own + namespace(own).sum(system.extra**2, axis=0)
        return append(own, self.count) if self.bias else own

    # W₀ ---------------------------------------------------------------------------------------

    def target(self, V: Matrix) -> Matrix:
        """P V, what W₀ solves G W₀ = P for; its bias row is zero in centred coordinates."""
        full = V
        if self.outputs is not None:
            full = np.zeros((self.n_features, V.shape[1]))
            full[self.outputs] = V
        return self.with_bias(self.system.scale[:, None] * self.system.gram.matmul(full))

    @abstractmethod
    def map(self, V: Matrix) -> Matrix:
        """W₀V."""

    @abstractmethod
    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""

    def denoised_rows(self, order: NDArray[np.int64], level: Vector, dtype: Any) -> Any:
        """X W₀ + level of the centred rows themselves, where that is cheaper than to apply W₀.

        Row i of the system is row order[i] of the answer; None: it is not cheaper.
        """
        return None

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

    def solve_sides(self, ridge: float, U: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
        """[U, W₀ᵀB], and K₀⁻¹ of it."""
        sides = hstack([U, self.map_adjoint(B)])
        return sides, self.predictor(ridge).solve(sides)

    def centred(self, V: Matrix) -> Matrix:
        """(Q_l − Q_l e eᵀQ_l / n_l) V: labelled second moments about their own mean."""
        return self.with_bias(self.labelled.about_mean(V[: self.n_features, ...]))

    # (★) on U ---------------------------------------------------------------------------------

    @abstractmethod
    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        """(G − θ_i E + s_i Q_l)⁻¹b_i for every column; shifts has the rows (s_i, θ_i).

        Factorised once for every pair that occurs.
        """

    def _factor_pays(self, steps: float, n_columns: int) -> bool:
        """Whether one more factorisation costs less than that many steps."""
        d = self.n_features
        return bool(d**3 / 6 < steps * THIN_FACTOR * 3.0 * d**2 * n_columns)

    def _excess(self, V: Matrix) -> Matrix:
        """(G − Q) V: what ridge and MMD terms add to Q."""
        d, system = self.n_features, self.system
        out: Matrix = namespace(V).zeros_like(V)
        out[:d, ...] = (system.diagonal - self.variance)[:, None] * V[:d, ...]
        if system.extra.shape[0]:
            out[:d, ...] += system.extra.T @ (system.extra @ V[:d, ...])
        return out

    def without_excess(self, GV: Matrix, V: Matrix) -> Matrix:
        """Q V from G V."""
        return GV - self._excess(V)

    def solve_coupled(
        self,
        terms: Coupling,
        R: Matrix,
        start: Matrix | None = None,
        solves: int = 1,
        image: Matrix | None = None,
    ) -> Matrix:
        """Solve G V + Q_l V S_l + Q V S = R; `solves` tells how many such equations will come.

        `image` is the left side at `start`, where it is known.

        Let S = B diag(s) Bᵀ, V = V'(I + s)^-½Bᵀ and E = G − Q (ridge and MMD). A column is then

            (G − θ_i E) v_i' + Q_l V' m_i = r_i',   θ_i = s_i / (1 + s_i),

        with M_l = (I + s)^-½BᵀS_lB(I + s)^-½, made diagonal where s = 0. CG is preconditioned by
        G − θ̄_i E + s̄_i Q_l, with 1 + s̄_i the power of SHIFT_RATIO nearest to 1 + M_l,ii: as
        0 ⪯ Q_l ⪯ G, few steps remain, and a handful of factorisations serves all alternations.
        Where those would cost more than the steps they save, s̄ or θ̄ is 0. The preconditioner times
        a direction follows from the residuals: a step costs one solve and one product with Q_l.
        Where all rows have a label, S_l = 0 and S changes from one alternation to the next: 1 − θ̄
        is then a power of SHIFT_RATIO, too, and a step costs one solve alone. Terms of one Q leave
        every column an equation of its own, which then takes steps of its own length.
        """
        into, back, M_l, theta = _coordinates(terms)
        rank = R.shape[1]
        strengths = to_numpy(diagonal(M_l))  # r scalars: they decide what is factorised
        power = np.round(np.log1p(np.maximum(strengths, 0)) / np.log(SHIFT_RATIO))
        if not self._factor_pays(solves * STEPS_SAVED / MAX_SHIFTS, rank):
            power[:] = 0
        if solves > 1 and not _any(terms.labelled):  # every alternation has other θ
            kept = 1 - SHIFT_RATIO ** np.round(np.log1p(-theta) / np.log(SHIFT_RATIO))
            kept *= self._factor_pays(solves * STEPS_SAVED / MAX_SHIFTS, rank)
        else:
            kept = theta if self._factor_pays(solves * 5 * STEPS_SAVED, 1) else np.zeros(rank)
        shifts = np.stack([np.where(power > 0, SHIFT_RATIO**power - 1, 0.0), kept], 1)
        rest = add_to_diagonal(copy(M_l), -beside(shifts[:, 0], M_l))
        along, excess = beside(theta, R), beside(theta - kept, R)
        has_excess = bool((theta != kept).any())

        def on_labelled(V: Matrix, S: Matrix) -> Matrix:
            return self.labelled.matmul(V @ S) if _any(S) else namespace(V).zeros_like(V)

        def remainder(V: Matrix) -> Matrix:
            out = on_labelled(V, rest)
            return out - self._excess(V * excess) if has_excess else out

        def residual_of(V: Matrix) -> Matrix:
            out = right - self.matmul(V) - on_labelled(V, M_l)
            return out + self._excess(V * along) if theta.any() else out

        separate = not (_any(terms.labelled) and _any(terms.all_rows))
        right = R @ into
        V = namespace(right).zeros_like(right) if start is None else start @ back
        if image is not None:
            residual = (R - image) @ into
        else:
            residual = copy(right) if start is None else residual_of(V)
        for _ in range(RESTARTS):
            V, reached = self._descend(V, residual, right, shifts, remainder, separate)
            if solves > 1:
                break  # an alternation goes on from here; its last answer is checked
            residual = residual_of(V)
            if vdot(residual, self._solve_shifted(shifts, residual)) <= reached:
                break  # what the steps added up is what is left
        return V @ into.T

    def _descend(
        self,
        V: Matrix,
        residual: Matrix,
        right: Matrix,
        shifts: Matrix,
        remainder: Callable[[Matrix], Matrix],
        separate: bool,
    ) -> tuple[Matrix, float]:
        """Conjugate gradients until the residual is below CG_TOL in the preconditioner's norm."""
        xp = namespace(V)

        def inner(A: Matrix, B: Matrix) -> Vector:
            products: Vector = xp.sum(A * B, axis=0)
            return products if separate else xp.zeros_like(products) + xp.mean(products)

        V, residual = copy(V), copy(residual)
        z = self._solve_shifted(shifts, residual)
        direction, image_of = copy(z), copy(residual)  # image_of: preconditioner × direction
        rz = inner(residual, z)
        anything = bool(xp.any(V != 0))
        size = abs(vdot(right, V)) if anything else vdot(residual, z)  # about rightᵀA⁻¹right
        goal = CG_TOL**2 * size
        for _ in range(MAX_STEPS):
            if float(xp.sum(rz)) <= goal:
                break
            image = image_of + remainder(direction)
            curvature = inner(direction, image)
            if not bool(xp.any(curvature > 0)):
                break  # nothing but rounding is left of the directions
            step = divided(rz, curvature)
            V += step * direction
            residual -= step * image
            z = self._solve_shifted(shifts, residual)
            rz, previous = inner(residual, z), rz
            ratio = divided(rz, previous)
            direction = z + ratio * direction
            image_of = residual + ratio * image_of
        return V, CHECKED * goal


def _coordinates(terms: Coupling) -> tuple[Matrix, Matrix, Matrix, Vector]:
    """T and T⁻ᵀ with V = V'Tᵀ, then M_l = TᵀS_lT and θ, on the host (see solve_coupled)."""
    values, B = eigh(terms.all_rows)
    s = np.array(to_numpy(values))
    s = np.where(s > 1e-14 * max(1.0, s[-1]), s, 0.0)
    free = int((s == 0).sum())  # the first ones: eigenvalues rise
    if free:
        _, turn = eigh(B[:, :free].T @ terms.labelled @ B[:, :free])
        B[:, :free] = B[:, :free] @ turn
    stretch = beside(np.sqrt(1 + s), B)
    into, back = B / stretch, B * stretch
    return into, back, into.T @ terms.labelled @ into, s / (1 + s)


class ExplicitMap(Denoiser):
    """A route that holds W₀ as a d×r matrix."""

    @cached_property
    @abstractmethod
    def W0(self) -> Matrix:
        """G⁻¹P."""

    def map(self, V: Matrix) -> Matrix:
        """W₀V."""
        return self.with_bias(float64(thin_product(self.W0, astype(V, self.W0.dtype))))

    def map_adjoint(self, B: Matrix) -> Matrix:
        """W₀ᵀB."""
        B = astype(B[: self.n_features, ...], self.W0.dtype)
        return float64(thin_product(self.W0.T, B))

    def freeze(self) -> Map:
        """W₀ as a map of rows."""
        return DenseMap(self.W0)

    def _predictor(self, ridge: float) -> Factor:
        K = add_to_diagonal(mirror_lower(self._labelled_image()), ridge)
        return CholeskyFactor(K, "the class predictor's matrix", ridge, least=ridge)

    def _labelled_image(self) -> Matrix:
        """W₀ᵀQ_lW₀, its lower triangle; the bias row of W₀ is zero."""
        return lower_product(self.W0.T, self.labelled.about_mean(self.W0))


class PrimalDenoiser(ExplicitMap):
    """d×d matrices: many rows, or moments alone.

    With `single` G and W₀ are float32, where that is right to four digits and there is no E.
    """

    def __init__(self, *args: Any, single: bool = False, **kwargs: Any):
        super().__init__(*args, **kwargs)
        system = self.system
        without = replace(system, extra=system.extra[:0, ...])
        large = self.n_features >= LEAST_SINGLE
        found = _single_factor(without) if single and large and not system.extra.shape[0] else None
        if found is None:
            least = self._least_diagonal()
            found = CholeskyFactor(without.dense(), ridge=least, least=system.diagonal)
        self.plain = found
        self.factor: UpdatedFactor = UpdatedFactor(self.plain, system.extra)
        self._shifts: dict[tuple[float, float], CholeskyFactor] = {}

    def _least_diagonal(self) -> float:
        """The least that the ridge and the noise add."""
        return float(namespace(self.system.diagonal).min(self.system.diagonal))

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
        rest = 1 - diagonal(W) * D
        if not is_numpy(W):
            return self._from_inverse(W, rest)
        small = np.flatnonzero(rest < 1e-2)
        if len(small):
            rest[small] = a[small] * np.einsum("ij,ij->i", W[small], S[small] * a)
        W *= -D
        W[np.diag_indices_from(W)] = rest
        W /= a
        return W

    def _from_inverse(self, W: Matrix, rest: Vector) -> Matrix:
        """The same where there are no single entries to take."""
        D, a, xp = self.system.diagonal, self.system.scale, namespace(W)
        if bool(xp.any(rest < 1e-2)):
            summed = a * xp.sum(W * (self.system.gram.dense() * a), axis=1)
            rest = xp.where(rest < 1e-2, summed, rest)
        W = W * -D
        W = add_to_diagonal(W, -diagonal(W))
        return add_to_diagonal(W, rest) / a

    @cached_property
    def trace(self) -> float:
        """tr(PᵀW₀)."""
        S = self.system.gram.dense()
        P = S if self.outputs is None else S[:, self.outputs]
        if not is_numpy(P):
            return float(self.system.scale @ namespace(P).sum(P * self.W0, axis=1))
        return float(self.system.scale @ np.einsum("ij,ij->i", P, self.W0))

    def _labelled_image(self) -> Matrix:
        """W₀ᵀQ_lW₀ as the Gram of RᵀW₀ with Q_l = RRᵀ, for less work where Q_l is definite."""
        if not is_numpy(self.W0) or self.W0.dtype != np.float64 or self.outputs is not None:
            return super()._labelled_image()
        Q = self.labelled.dense_about_mean()
        try:
            R = cholesky(Q, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # an empty column is enough
            return super()._labelled_image()
        return root_gram(R, self.W0)

    def _solve_shifted(self, shifts: Matrix, B: Matrix) -> Matrix:
        pairs, which = np.unique(shifts, axis=0, return_inverse=True)
        which, parts = which.ravel(), []
        for k, (shift, theta) in enumerate(pairs.tolist()):
            parts.append(self._shifted(shift, theta)(columns(B, np.flatnonzero(which == k))))
        return merge_columns(parts, which)

    def _shifted(self, shift: float, theta: float) -> Callable[[Matrix], Matrix]:
        if not shift and not theta:
            return self.solve
        if (shift, theta) not in self._shifts:
            G = shift * self.labelled.dense()
            d, system = self.n_features, self.system
            G[:d, :d] += system.dense()
            if theta:
                G = add_to_diagonal(G, -theta * (system.diagonal - self.variance), d)
                G[:d, :d] -= theta * system.extra.T @ system.extra
            if self.bias:
                G[d, d] += self.count
            self._shifts[shift, theta] = CholeskyFactor(G, ridge=self._least_diagonal())
        return self._shifts[shift, theta].solve

    def solve_labelled(self, strengths: Vector, R: Matrix) -> Matrix:
        """(G + s_i Q_l)⁻¹r_i of every column: no iteration, and nothing is factorised anew.

        With FᵀGF = I it is F(I + s_iM)⁻¹Fᵀr_i for M = FᵀQ_lF, of which there is a banded form.
        """
        inside = self._banded.solve(strengths, self._whitened(R))
        out = np.empty_like(inside)
        d = self.n_features
        out[:d] = self._solved(self._balanced(inside[:d]), transposed=True)
        out[d:] = inside[d:] / np.sqrt(self.count)
        return out

    @cached_property
    def _banded(self) -> BandedForm:
        """M, of which the features take half the flops of two solves."""
        labelled, d = self.labelled, self.n_features
        inside = labelled.dense_about_mean()
        inside, _ = lapack.dsygst(inside, self._L, lower=1, overwrite_a=1)  # L⁻¹Q_lL⁻ᵀ
        inside = mirror_lower(np.asarray(inside))
        if self.system.extra.shape[0]:
            inside = self._balanced(self._balanced(inside).T)
        column = labelled.bias_column()
        if column is None:
            return BandedForm(inside)
        M = np.zeros((d + 1, d + 1), order="F")
        M[:d, :d] = inside
        side = self._whitened(column[:, None]) / np.sqrt(labelled.count)
        M += side @ side.T
        return BandedForm(M)

    def _whitened(self, R: Matrix) -> Matrix:
        """FᵀR: with G = L(I + ẼᵀẼ)Lᵀ and Ẽ = E L⁻ᵀ, F is L⁻ᵀ(I + ẼᵀẼ)^-½, and of the bias n^-½."""
        d = self.n_features
        top = self._balanced(self._solved(R[:d]))
        return np.vstack([top, R[d:] / np.sqrt(self.count)])

    def _solved(self, A: Matrix, *, transposed: bool = False) -> Matrix:
        """L⁻¹A or L⁻ᵀA."""
        return np.asarray(dtrsm(1.0, self._L, A, lower=1, trans_a=transposed))

    @cached_property
    def _L(self) -> Matrix:
        return np.asfortranarray(self.plain.L, dtype=np.float64)

    @cached_property
    def _excess_directions(self) -> tuple[Matrix, Vector]:
        """V and s with (I + ẼᵀẼ)^-½ = I − V diag(s) Vᵀ."""
        V, s, _ = np.linalg.svd(self._solved(self.system.extra.T), full_matrices=False)
        return V, 1 - 1 / np.sqrt(1 + s**2)

    def _balanced(self, A: Matrix) -> Matrix:
        """(I + ẼᵀẼ)^-½A."""
        if not self.system.extra.shape[0]:
            return A
        V, shrink = self._excess_directions
        return A - V @ (shrink[:, None] * (V.T @ A))


def _single_factor(system: DiagonalPlusGram) -> CholeskyFactor | None:
    """A factor in float32; None where it would lose too many digits."""
    with np.errstate(over="ignore", invalid="ignore"):
        S, a = system.gram.dense(), system.scale.astype(np.float32)
        G = S.astype(np.float32, order="F")
        G *= a
        G *= a[:, None]
        G[np.diag_indices_from(G)] = system.scale**2 * S.diagonal() + system.diagonal
    try:
        found = CholeskyFactor(G, overwrite=True)
    except SingularError:
        return None
    return found if found.condition * np.finfo(np.float32).eps < SINGLE_LIMIT else None


def _any(S: Matrix) -> bool:
    return bool(namespace(S).any(S != 0))
