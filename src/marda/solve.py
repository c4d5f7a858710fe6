"""(★) by the low-rank route, the Z step, and the alternation with its loss curve (math.md §5).

    G W + Σ_k a_k Q_k W Z_k Z_kᵀ = R                                                        (★)

Let U be an orthonormal basis of the columns of all Z_k. Off U nothing couples and W is
W₀ = G⁻¹P; on U write WU = W₀U + Δ. Subtracting G W₀U = PU leaves, with S_k = a_k UᵀZ_kZ_kᵀU,

    G Δ + Σ_k Q_k Δ S_k = Σ_k (a_k T_k Z_kᵀU − Q_k W₀U S_k)                                 (★U)

so W = W₀ + ΔUᵀ: W₀ plus a matrix of rank r. No d×d matrix changes while Z alternates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marda._arrays import (
    InaccurateError,
    append,
    copy,
    eye,
    hstack,
    is_numpy,
    namespace,
    norm,
    probes,
    svd,
    vdot,
    vstack,
    zeros,
)
from marda._arrays import solve as solve_small
from marda.operators.cost import ALTERNATIONS
from marda.operators.denoiser import Coupling, Denoiser, PrimalDenoiser
from marda.operators.dual import RowSpacePredictor
from marda.operators.linear import condition_of
from marda.problem import Problem
from marda.terms import Model, PredictionTerm

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
# Of residuals and errors: above it an answer is refused; of an answer in float32.
LIMIT, SINGLE_LIMIT = 1e-6, 1e-4
GROWTH = 30.0  # how much an error of one alternation may become in all of them
EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Solution:
    """W = W₀ + ΔUᵀ and the class predictor, in the centred coordinates of the problem."""

    problem: Problem
    model: Model
    denoiser: Denoiser | None  # None: W = I
    delta: Matrix  # Δ, inputs × r
    basis: Matrix  # U, outputs × r
    Z: Matrix | None
    z0: Vector | None
    loss_curve: list[float]
    n_iter: int
    converged: bool
    residual: float  # of (★) on probes, and of the Z step: the larger
    error: float  # about how large the relative error of W and Z may be

    def check(self) -> None:
        """Refuse an answer that is not right to six digits (of float32, four)."""
        limit = SINGLE_LIMIT if self.problem.single else LIMIT
        # Without a bias W maps rows from the origin: what is lost there is lost of their spread.
        far = self.problem.offset_ratio
        if far * self.residual <= limit and far * self.error <= limit:
            return
        away = "" if far < 100 else f" of rows {far:.0e} times their spread from the origin"
        bias = ", use fit_intercept=True" if away else ""
        raise InaccurateError(
            f"{self.model.name} by the {self.problem.solver!r} route{away} is not right to six "
            f"digits (relative residual {self.residual:.0e}, error about {self.error:.0e}): "
            f"{_advice(self.problem)}{bias}, or try another solver."
        )

    def matmul(self, V: Matrix) -> Matrix:
        """W V."""
        if self.denoiser is None:
            return V
        return self.denoiser.map(V) + self.delta @ (self.basis.T @ V)

    def coef(self) -> tuple[Matrix, Vector]:
        """(W Z)ᵀ and the intercept, in the coordinates of the caller's rows."""
        assert self.Z is not None
        assert self.z0 is not None
        problem = self.problem
        d = problem.moments.n_features
        WZ = self.matmul(self.Z)
        intercept = self.z0 - (problem.scale * problem.center) @ WZ[:d, ...]
        if problem.bias and self.denoiser is not None:
            intercept = intercept + WZ[d, :]
        return WZ[:d, ...].T, intercept

    def offset(self) -> Vector:
        """Bias row of W: denoised rows are X W + offset."""
        problem = self.problem
        center, outputs = problem.center, problem.outputs
        if self.denoiser is None or not problem.bias:
            return zeros(problem.n_outputs, center)
        moved = self._mapped(problem.scale * center)
        own = center if outputs is None else center[outputs]
        return own + self.basis @ self.delta[-1, :] - moved

    def _mapped(self, row: Vector) -> Vector:
        """Wᵀ of a row of features."""
        assert self.denoiser is not None
        row = append(row, 0.0)[:, None]
        moved = self.denoiser.map_adjoint(row)[:, 0]
        return moved + self.basis @ (self.delta[:-1, ...].T @ row[:-1, ...])[:, 0]

    def at_center(self) -> Vector:
        """The denoised row of the centre m: far from the origin it keeps digits that offset loses.

        m_out + b + ((1 − a)∘m)ᵀW.
        """
        problem = self.problem
        center = problem.center
        own = center if problem.outputs is None else center[problem.outputs]
        if self.denoiser is None or not problem.bias:
            return own  # without a bias the centre is the origin
        moved = self._mapped((1 - problem.scale) * center)
        return own + self.basis @ self.delta[-1, :] + moved

    def predictor_intercept(self) -> Vector:
        """z₀ relative to denoised rows as `offset` places them: scores = (X W + offset) Z + z₀."""
        assert self.Z is not None
        assert self.z0 is not None
        problem = self.problem
        center = problem.center if problem.outputs is None else problem.center[problem.outputs]
        if self.denoiser is None:  # z₀ of W = I, which has no pivots, is relative to x − a∘m
            center = problem.scale * center
        return self.z0 - center @ self.Z


def _basis(
    terms: Sequence[PredictionTerm], n_outputs: int, like: Matrix
) -> tuple[Matrix, list[Matrix], Matrix]:
    """U, S_k = a_k UᵀZ_kZ_kᵀU, and A with U = [Z_1 Z_2 …] A.

    For terms of one Q the sum of S_k is diagonal; for one term U are its left singular vectors.
    """
    if not terms:
        return zeros((n_outputs, 0), like), [], zeros((0, 0), like)
    U, s, V = svd(hstack([t.Z for t in terms]))
    kept = int(namespace(s).count_nonzero(s > 1e-13 * s[0]))  # the first ones: they fall
    U, A = U[:, :kept], V[:kept, :].T / s[:kept]
    U = np.ascontiguousarray(U) if is_numpy(U) else U
    if len(terms) == 1:
        return U, [eye(kept, s) * (terms[0].weight * s[:kept] ** 2)], A
    if _one_moment(terms):
        roots = [t.weight**0.5 * (U.T @ t.Z) for t in terms]
        turn = svd(hstack(roots))[0]
        U, A = U @ turn, A @ turn
    inside = [U.T @ t.Z for t in terms]
    return U, [t.weight * B @ B.T for t, B in zip(terms, inside, strict=True)], A


def _one_moment(terms: Sequence[PredictionTerm]) -> bool:
    """Whether all terms are of the same rows, as a single one is, and all where Q_l = Q."""
    return all(term.Q is terms[0].Q for term in terms)


@dataclass(frozen=True)
class _OnBasis:
    """Equation (★U) for given predictors."""

    denoiser: Denoiser
    terms: Sequence[PredictionTerm]
    U: Matrix
    couplings: Sequence[Matrix]  # S_k
    combined: Matrix  # A
    repeated: bool  # whether more such equations will come

    W0Z: Matrix | None = None  # of all predictors side by side, where it is known

    @staticmethod
    def of(
        denoiser: Denoiser,
        terms: Sequence[PredictionTerm],
        repeated: bool,
        W0Z: Matrix | None = None,
    ) -> _OnBasis:
        """With an orthonormal basis of the predictors."""
        return _OnBasis(
            denoiser, terms, *_basis(terms, denoiser.n_outputs, denoiser.variance), repeated, W0Z
        )

    @cached_property
    def W0U(self) -> Matrix:
        """W₀U."""
        if self.W0Z is None:
            return self.denoiser.map(self.U)
        # A weak direction loses digits here, by 1/s, and (★U) multiplies it by s².
        return self.W0Z @ self.combined

    @cached_property
    def right(self) -> Matrix:
        """Σ_k (a_k T_k Z_kᵀU − Q_k W₀U S_k)."""
        R: Matrix = namespace(self.W0U).zeros_like(self.W0U)
        for term, S in zip(self.terms, self.couplings, strict=True):
            R += term.weight * term.right_side() @ (term.Z.T @ self.U)
            R -= term.Q.matmul(self.W0U @ S)
        return R

    def left(self, known: tuple[Matrix, Matrix, Matrix]) -> Matrix:
        """G Δ + Σ_k Q_k Δ S_k from Δ, G Δ and Q_l'Δ."""
        delta, G_delta, centred = known
        denoiser, out = self.denoiser, copy(G_delta)
        for term, S in zip(self.terms, self.couplings, strict=True):
            if term.Q is denoiser.labelled:
                out += term.Q.about_origin(centred[: denoiser.n_features, ...], delta) @ S
            else:
                out += denoiser.without_excess(G_delta, delta) @ S
        return out

    def solve(self, R: Matrix, near: tuple[Matrix, Matrix, Matrix] | None = None) -> Matrix:
        """Δ for a right-hand side; what is `near` it comes with its products, as in `left`."""
        denoiser, U = self.denoiser, self.U
        if not U.shape[1]:
            return zeros((denoiser.n_features + denoiser.bias, 0), U)
        # On other devices Cholesky factors cost less than a banded form.
        alone = self.repeated and _one_moment(self.terms) and is_numpy(R)
        if alone and isinstance(denoiser, PrimalDenoiser):
            return denoiser.solve_labelled(np.diag(sum(self.couplings)), R)  # each on its own
        on_labelled, on_all = (zeros((U.shape[1], U.shape[1]), U) for _ in range(2))
        for term, S in zip(self.terms, self.couplings, strict=True):
            S_of_kind = on_labelled if term.Q is denoiser.labelled else on_all
            S_of_kind += S
        solves = ALTERNATIONS if self.repeated else 1
        terms = Coupling(on_labelled, on_all)
        if near is None:
            return denoiser.solve_coupled(terms, R, None, solves)
        return denoiser.solve_coupled(terms, R, near[0], solves, self.left(near))


def _extrapolated(earlier: Sequence[tuple[Matrix, Matrix]], U: Matrix) -> Matrix | None:
    """Where the last two answers point to, in the new basis."""
    last = [delta @ (basis.T @ U) for delta, basis in earlier[-2:]]
    if not last:
        return None
    return 2 * last[1] - last[0] if len(last) == 2 else last[0]


class _ZStep:
    """Z = (WᵀQ_lW + δI)⁻¹WᵀT for W = W₀ + ΔUᵀ, by a rank-2r change of K₀ (math.md §5.4).

    K = K₀ + [U E] [[J, I], [I, 0]] [U E]ᵀ with E = W₀ᵀQ_lΔ and J = ΔᵀQ_lΔ. The intercept is
    eliminated: Q_l and T are those about the labelled mean.
    """

    def __init__(self, problem: Problem, denoiser: Denoiser):
        self.denoiser, self.ridge = denoiser, problem.ridge_class
        self.K0 = denoiser.predictor(problem.ridge_class)
        features, self.Y, self.mean = problem.labels_about_mean
        self.T = denoiser.with_bias(features)
        self.u = problem.labelled.mean
        self.W0T = denoiser.map_adjoint(self.T)

    def __call__(self, delta: Matrix, U: Matrix, centred: Matrix) -> tuple[Matrix, Vector, Matrix]:
        """Z, z₀ and W Z; `centred` is Q_l'Δ."""
        Z = self._updated(delta, U, centred, self.of_labels, delta.T @ self.T)
        return self.finished(delta, U, Z)

    def finished(self, delta: Matrix, U: Matrix, Z: Matrix) -> tuple[Matrix, Vector, Matrix]:
        """Z with the intercept that belongs to it, and W Z."""
        WZ = self.denoiser.map(Z) + delta @ (U.T @ Z)
        z0 = self.mean
        if self.u is not None:
            z0 = z0 - self.u @ WZ[:-1, ...] - WZ[-1, :]
        return Z, z0, WZ

    def correction(
        self, delta: Matrix, U: Matrix, centred: Matrix, Z: Matrix, WZ: Matrix
    ) -> Matrix:
        """K⁻¹ of what is left of the equation of Z."""
        left, right = self._sides(delta, U, Z, WZ)
        none = zeros((U.shape[1], Z.shape[1]), Z)
        return self._updated(delta, U, centred, self.K0.solve(right - left), none)

    def _updated(
        self, delta: Matrix, U: Matrix, centred: Matrix, Z: Matrix, along: Matrix
    ) -> Matrix:
        """K⁻¹(K₀Z + U along)."""
        rank = U.shape[1]
        if not rank:
            return Z
        sides, K0_sides = self.denoiser.solve_sides(self.ridge, U, centred)
        J, unit = delta.T @ centred, eye(rank, delta)
        middle_inverse = vstack([hstack([namespace(J).zeros_like(J), unit]), hstack([unit, -J])])
        core = middle_inverse + sides.T @ K0_sides
        Z = Z + K0_sides[:, :rank] @ along
        return Z - K0_sides @ solve_small(core, sides.T @ Z)

    @cached_property
    def of_labels(self) -> Matrix:
        """K₀⁻¹W₀ᵀT."""
        if isinstance(self.K0, RowSpacePredictor):
            assert self.Y is not None
            return self.K0.solve_labels(self.Y)
        return self.K0.solve(self.W0T)

    def _sides(self, delta: Matrix, U: Matrix, Z: Matrix, WZ: Matrix) -> tuple[Matrix, Matrix]:
        """WᵀQ_l'WZ + δZ, and WᵀT."""

        def adjoint(B: Matrix) -> Matrix:
            return self.denoiser.map_adjoint(B) + U @ (delta.T @ B)

        left = adjoint(self.denoiser.centred(WZ)) + self.ridge * Z
        return left, self.W0T + U @ (delta.T @ self.T)

    def residual(self, delta: Matrix, U: Matrix, Z: Matrix, WZ: Matrix, weights: Vector) -> float:
        """‖WᵀQ_l'WZ + δZ − WᵀT‖ / ‖WᵀT‖, outputs weighted."""
        left, right = self._sides(delta, U, Z, WZ)
        return _relative(left - right, right, weights)


def _relative(residual: Matrix, right: Matrix, weights: Vector) -> float:
    """‖diag(w) residual‖ / ‖diag(w) right‖."""
    size = norm(weights[:, None] * right)
    off = norm(weights[:, None] * residual)
    return off / size if size else off


def solve(
    problem: Problem,
    model: Model,
    *,
    predictor: bool,
    max_iter: int = 100,
    tol: float = 1e-5,
    loss: bool = True,
) -> Solution:
    """Fit a model.

    Parameters
    ----------
    problem : Problem
        Data and settings.
    model : Model
        Which losses.
    predictor : bool
        Whether Z is wanted; joint models always have one.
    max_iter, tol
        The alternation ends when the loss falls by at most tol, relatively; a rise, which is
        rounding, ends it too.
    loss : bool, default=True
        Whether the loss is wanted where there is no alternation.
    """
    if not model.denoise:
        return _identity(problem, model, predictor)
    denoiser = problem.denoiser(model)
    domain = [problem.domain_term] if model.domain and problem.has_target else []
    if model.joint:
        return _alternate(problem, model, denoiser, domain, max_iter, tol)
    on_basis = _OnBasis.of(denoiser, domain, repeated=False)
    delta, U = on_basis.solve(on_basis.right), on_basis.U
    curve = []
    if loss:
        mapped = [denoiser.map(term.Z) for term in domain]
        G_delta = denoiser.matmul(delta) if delta.shape[1] else delta
        curve = [_fixed_loss(problem, denoiser, delta, G_delta) + _losses(domain, mapped, delta, U)]
    z_step = _ZStep(problem, denoiser) if predictor else None
    Z = z0 = WZ = None
    if z_step is not None:
        Z, z0, WZ = z_step(delta, U, denoiser.centred(delta))
    residual, error = residual_and_error(problem, denoiser, domain, delta, U, z_step, Z, WZ)
    return Solution(problem, model, denoiser, delta, U, Z, z0, curve, 1, True, residual, error)


def residual_and_error(
    problem: Problem,
    denoiser: Denoiser,
    terms: Sequence[PredictionTerm],
    delta: Matrix,
    U: Matrix,
    z_step: _ZStep | None,
    Z: Matrix | None,
    WZ: Matrix | None,
) -> tuple[float, float]:
    """Residual of an answer, and how large its error may be.

    (★) is tried on a random direction and, where it couples, on one of U. Equations are weighted by
    the root of G's diagonal, so that the residual does not depend on the units of the features.
    """
    rng = np.random.default_rng(0)
    scale = denoiser.diagonal
    V = probes((denoiser.n_outputs, 1), scale, rng)
    if U.shape[1]:
        V = hstack([V, U @ probes((U.shape[1], 1), scale, rng)])
    mapped = denoiser.map(V) + delta @ (U.T @ V)
    left, right = denoiser.matmul(mapped), denoiser.target(V)
    for term in terms:
        WZ_k = denoiser.map(term.Z) + delta @ (U.T @ term.Z)
        inside = term.Z.T @ V
        left += term.weight * (term.Q.matmul(WZ_k) @ inside)
        right += term.weight * (term.right_side() @ inside)
    weights = 1 / namespace(scale).sqrt(scale)
    residual = max(
        _relative((left - right)[:, k : k + 1], right[:, k : k + 1], weights)
        for k in range(V.shape[1])
    )
    # An error that a bound shows to be small needs no estimate, which costs solves.
    enough = problem.enough
    condition = condition_of(denoiser.factor, enough)
    condition = max([condition, *(term.condition for term in terms)])
    if z_step is not None:
        assert Z is not None
        assert WZ is not None
        outputs = slice(None) if problem.outputs is None else problem.outputs
        sizes = scale[: problem.moments.n_features][outputs] + problem.ridge_class
        each = 1 / namespace(sizes).sqrt(sizes)
        residual = max(residual, z_step.residual(delta, U, Z, WZ, each))
        condition = max(condition, condition_of(z_step.K0, enough))
    return residual, condition * EPS


def _identity(problem: Problem, model: Model, predictor: bool) -> Solution:
    """W = I: MCF, and BL where the problem has no noise."""
    d, like = problem.moments.n_features, problem.scale
    nothing = zeros((d + problem.bias, 0), like), zeros((d, 0), like)
    if not predictor:
        return Solution(problem, model, None, *nothing, None, None, [], 1, True, 0.0, 0.0)
    Z, z0 = problem.identity_predictor
    WZ = vstack([Z, zeros((1, Z.shape[1]), Z)]) if problem.bias else Z
    loss = _class_loss(problem, Z, z0, WZ)
    right = problem.labels_about_mean[0]
    off = problem.labelled.about_mean(Z) + problem.ridge_class * Z - right
    sizes = problem.diagonal_labelled + problem.ridge_class
    xp = namespace(sizes)
    sizes = xp.where(sizes > TINY, sizes, xp.zeros_like(sizes) + TINY)
    residual = _relative(off, right, 1 / xp.sqrt(sizes))
    error = problem.identity_condition * EPS
    return Solution(problem, model, None, *nothing, Z, z0, [loss], 1, True, residual, error)


def _alternate(
    problem: Problem,
    model: Model,
    denoiser: Denoiser,
    domain: list[PredictionTerm],
    max_iter: int,
    tol: float,
) -> Solution:
    """Alternate W and Z from W = I; the loss never rises."""
    z_step = _ZStep(problem, denoiser)
    Z, z0, loss = _start(problem, model, domain)
    curve = [loss]
    W0Z: Matrix | None = None
    W0Z_domain = [denoiser.map(term.Z) for term in domain]
    states: list[tuple[Matrix, Matrix]] = []  # Δ, G Δ and Q_l'Δ below each other, and U
    n_iter = 0
    converged = False
    while n_iter < max_iter and not converged:
        if not np.isfinite(loss):
            raise InaccurateError(
                f"{model.name} by the {problem.solver!r} route is not finite: {_advice(problem)}, "
                "or try another solver."
            )
        n_iter += 1
        terms = [problem.class_term(Z, z0), *domain]
        on_basis = _OnBasis.of(denoiser, terms, repeated=True, W0Z=W0Z)
        U = on_basis.U
        near = _extrapolated(states, U)
        delta = on_basis.solve(on_basis.right, None if near is None else _in_three(near))
        G_delta, centred = denoiser.matmul(delta), denoiser.centred(delta)
        states = [*states[-1:], (vstack([delta, G_delta, centred]), U)]
        Z, z0, WZ = z_step(delta, U, centred)
        W0Z = hstack([WZ - delta @ (U.T @ Z), *W0Z_domain])
        loss = _fixed_loss(problem, denoiser, delta, G_delta) + _class_loss(problem, Z, z0, WZ)
        loss += _losses(domain, W0Z_domain, delta, U)
        converged = curve[-1] - loss <= tol * abs(curve[-1])
        curve.append(loss)
    # Both steps once more, for what is left of their equations: how large that is tells how far
    # off they were.
    change = on_basis.solve(on_basis.right - on_basis.left((delta, G_delta, centred)))
    off = _size(change, denoiser) / max(_size(delta + on_basis.W0U, denoiser), TINY)
    delta = delta + change
    centred = denoiser.centred(delta)
    Z, z0, WZ = z_step(delta, U, centred)
    more = z_step.correction(delta, U, centred, Z, WZ)
    off = max(off, _size(more, denoiser) / max(_size(Z, denoiser), TINY))
    Z, z0, WZ = z_step.finished(delta, U, Z + more)
    residual, error = residual_and_error(problem, denoiser, terms, delta, U, z_step, Z, WZ)
    error = max(error, GROWTH * off)
    return Solution(
        problem, model, denoiser, delta, U, Z, z0, curve, n_iter, converged, residual, error
    )


def _advice(problem: Problem) -> str:
    """What to change where numbers are lost."""
    settings = problem.settings
    return (
        f"raise ridge={settings.ridge:g}, ridge_class={settings.ridge_class:g} or "
        f"ridge_domain={settings.ridge_domain:g}, bring columns to a like scale"
    )


def _size(V: Matrix, denoiser: Denoiser) -> float:
    """‖V‖ with every feature in units of its own size."""
    weights = namespace(V).sqrt(denoiser.diagonal)
    if V.shape[0] == denoiser.n_outputs:
        weights = weights[: denoiser.n_features]
        weights = weights if denoiser.outputs is None else weights[denoiser.outputs]
    return norm(weights[:, None] * V)


def _start(
    problem: Problem, model: Model, domain: list[PredictionTerm]
) -> tuple[Matrix, Vector, float]:
    """Z for W = I, z₀ relative to centred outputs, and the loss there."""
    Z, z0 = problem.identity_predictor
    outputs = slice(None) if problem.outputs is None else problem.outputs
    d = problem.moments.n_features

    def embedded(V: Matrix) -> Matrix:
        if problem.outputs is None:
            return vstack([V, zeros((1, V.shape[1]), V)]) if problem.bias else V
        full = np.zeros((d + problem.bias, V.shape[1]))
        full[:d][outputs] = V
        return full

    loss = problem.identity_loss(model) + _class_loss(problem, Z, z0, embedded(Z))
    # W = I leaves x̃ where it is: relative to centred outputs it is off by (1 − a)∘m
    off = ((1 - problem.scale) * problem.center)[outputs]
    for term in domain:
        F = embedded(term.Z)
        if problem.bias:
            F[-1, :] -= off @ term.Z
        loss += term.loss(F)
    return Z, z0 + off @ Z, loss


def _fixed_loss(problem: Problem, denoiser: Denoiser, delta: Matrix, G_delta: Matrix) -> float:
    """L1 + γ MMD: ‖X‖² − tr(PᵀW₀) + tr(ΔᵀGΔ), as G W₀ = P."""
    return problem.squared_norm - denoiser.trace + vdot(delta, G_delta)


def _in_three(stacked: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Parts of as many rows."""
    n = stacked.shape[0] // 3
    return stacked[:n, ...], stacked[n : 2 * n, ...], stacked[2 * n :, ...]


def _class_loss(problem: Problem, Z: Matrix, z0: Vector, WZ: Matrix) -> float:
    """λ L2, its penalty included."""
    term = problem.class_term(Z, z0)
    return term.loss(WZ) + term.weight * problem.ridge_class * vdot(Z, Z)


def _losses(
    terms: Sequence[PredictionTerm], W0Z: Sequence[Matrix], delta: Matrix, U: Matrix
) -> float:
    """Of prediction terms, from W₀Z of each."""
    return sum(
        term.loss(mapped + delta @ (U.T @ term.Z)) for term, mapped in zip(terms, W0Z, strict=True)
    )
