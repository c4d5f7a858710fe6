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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.operators.denoiser import Coupling, Denoiser
from marda.operators.primal import PrimalDenoiser
from marda.problem import Problem
from marda.terms import Model, PredictionTerm

__all__ = ["Solution", "solve"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
ALTERNATIONS = 20  # that a joint model takes on normalised rows, more or less


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
        intercept = self.z0 - (problem.scale * problem.center) @ WZ[:d]
        if problem.bias and self.denoiser is not None:
            intercept = intercept + WZ[d]
        return WZ[:d].T, np.asarray(intercept)

    def offset(self) -> Vector:
        """Bias row of W: denoised rows are X W + offset."""
        problem = self.problem
        center, outputs = problem.center, problem.outputs
        if self.denoiser is None or not problem.bias:
            return np.zeros(problem.n_outputs)
        shift = np.append(problem.scale * center, 0.0)[:, None]
        moved = self.denoiser.map_adjoint(shift).ravel()
        moved += self.basis @ (self.delta[:-1].T @ shift[:-1]).ravel()
        own = center if outputs is None else center[outputs]
        return np.asarray(own + self.basis @ self.delta[-1] - moved)

    def at_center(self) -> Vector:
        """The denoised row of the centre m: far from the origin it keeps digits that offset loses.

        m_out + b + ((1 − a)∘m)ᵀW.
        """
        problem = self.problem
        center = problem.center
        own = center if problem.outputs is None else center[problem.outputs]
        if self.denoiser is None or not problem.bias:
            return own if self.denoiser is None else np.zeros(problem.n_outputs)
        rest = np.append((1 - problem.scale) * center, 0.0)[:, None]
        moved = self.denoiser.map_adjoint(rest).ravel()
        moved += self.basis @ (self.delta[:-1].T @ rest[:-1]).ravel()
        return np.asarray(own + self.basis @ self.delta[-1] + moved)

    def predictor_intercept(self) -> Vector:
        """z₀ relative to denoised rows as `offset` places them: scores = (X W + offset) Z + z₀."""
        assert self.Z is not None
        assert self.z0 is not None
        problem = self.problem
        center = problem.center if problem.outputs is None else problem.center[problem.outputs]
        if self.denoiser is None:  # z₀ of W = I is relative to x − a∘m
            scale = problem.scale if problem.outputs is None else problem.scale[problem.outputs]
            center = scale * center
        return np.asarray(self.z0 - center @ self.Z)


def _basis(terms: Sequence[PredictionTerm], n_outputs: int) -> tuple[Matrix, list[Matrix]]:
    """U and S_k = a_k UᵀZ_kZ_kᵀU. For one term S is diagonal: U are its left singular vectors."""
    if not terms:
        return np.zeros((n_outputs, 0)), []
    U, s, _ = np.linalg.svd(np.hstack([t.Z for t in terms]), full_matrices=False)
    U = np.ascontiguousarray(U[:, s > 1e-13 * s[0]]) if s[0] > 0 else U[:, :0]
    if len(terms) == 1:
        return U, [terms[0].weight * np.diag(s[: U.shape[1]] ** 2)]
    inside = [U.T @ t.Z for t in terms]
    return U, [t.weight * A @ A.T for t, A in zip(terms, inside, strict=True)]


def _solve_on_basis(
    denoiser: Denoiser,
    terms: Sequence[PredictionTerm],
    earlier: Sequence[tuple[Matrix, Matrix]],
    repeated: bool,
) -> tuple[Matrix, Matrix]:
    """Δ and U for given predictors: equation (★U)."""
    U, couplings = _basis(terms, denoiser.n_outputs)
    if not U.shape[1]:
        return np.zeros((denoiser.n_features + denoiser.bias, 0)), U
    W0U = denoiser.map(U)
    R = np.zeros_like(W0U)
    for term, S in zip(terms, couplings, strict=True):
        R += term.weight * term.right_side() @ (term.Z.T @ U) - term.Q.matmul(W0U @ S)
    if repeated and len(terms) == 1 and isinstance(denoiser, PrimalDenoiser):
        B, Lambda = denoiser.pencil  # each column on its own: (I + s Λ) in the pencil's basis
        inner = (B.T @ R) / (1 + np.outer(Lambda, np.diag(couplings[0])))
        return B @ inner, U
    start = None
    if earlier:
        # Where the last two answers point to
        last = [delta @ (basis.T @ U) for delta, basis in earlier[-2:]]
        start = 2 * last[1] - last[0] if len(last) == 2 else last[0]
    zero = np.zeros((U.shape[1], U.shape[1]))
    on_labelled, on_all = zero.copy(), zero.copy()
    for term, S in zip(terms, couplings, strict=True):
        S_of_kind = on_labelled if term.Q is denoiser.labelled else on_all
        S_of_kind += S
    solves = ALTERNATIONS if repeated else 1
    return denoiser.solve_coupled(Coupling(on_labelled, on_all), R, start, solves), U


class _ZStep:
    """Z = (WᵀQ_lW + δI)⁻¹WᵀT for W = W₀ + ΔUᵀ, by a rank-2r change of K₀ (math.md §5.4).

    K = K₀ + [U E] [[J, I], [I, 0]] [U E]ᵀ with E = W₀ᵀQ_lΔ and J = ΔᵀQ_lΔ. The intercept is
    eliminated: Q_l and T are those about the labelled mean.
    """

    def __init__(self, problem: Problem, denoiser: Denoiser):
        self.denoiser = denoiser
        self.K0 = denoiser.predictor(problem.ridge_class)
        T, self.Y, _ = problem.label_sums
        self.u = problem.labelled.bias_column()
        self.n = problem.labelled.count
        self.T = T if self.u is None else T - np.outer(self.u, self.Y / self.n)
        self.W0T = denoiser.map_adjoint(self.T)

    def __call__(self, delta: Matrix, U: Matrix) -> tuple[Matrix, Vector, Matrix]:
        """Z, z₀ and W Z."""
        rank = U.shape[1]
        right = self.W0T + U @ (delta.T @ self.T)
        if rank:
            Q_delta = self.denoiser.centred(delta)
            sides = np.hstack([U, self.denoiser.map_adjoint(Q_delta)])
            J = delta.T @ Q_delta
            eye = np.eye(rank)
            middle_inverse = np.block([[np.zeros_like(J), eye], [eye, -J]])
            solved = self.K0.solve(np.hstack([right, sides]))
            Z, K0_sides = solved[:, : right.shape[1]], solved[:, right.shape[1] :]
            core = middle_inverse + sides.T @ K0_sides
            Z = Z - K0_sides @ np.linalg.solve(core, sides.T @ Z)
        else:
            Z = self.K0.solve(right)
        WZ = self.denoiser.map(Z) + delta @ (U.T @ Z)
        z0 = np.zeros(Z.shape[1]) if self.u is None else (self.Y - self.u @ WZ) / self.n
        return Z, z0, WZ


def solve(
    problem: Problem, model: Model, *, predictor: bool, max_iter: int = 100, tol: float = 1e-5
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
        The alternation ends when the loss changes by less than tol, relatively.
    """
    if not model.denoise:
        return _identity(problem, model, predictor)
    denoiser = problem.denoiser(model)
    domain = [problem.domain_term] if model.domain and problem.has_target else []
    if model.joint:
        return _alternate(problem, model, denoiser, domain, max_iter, tol)
    delta, U = _solve_on_basis(denoiser, domain, [], repeated=False)
    curve = [_fixed_loss(problem, denoiser, delta) + _losses(denoiser, delta, U, domain)]
    Z = z0 = None
    if predictor:
        Z, z0, _ = _ZStep(problem, denoiser)(delta, U)
    return Solution(problem, model, denoiser, delta, U, Z, z0, curve, 1, True)


def _identity(problem: Problem, model: Model, predictor: bool) -> Solution:
    """W = I: MCF, and BL where the problem has no noise."""
    d = problem.moments.n_features
    empty: dict[str, Any] = {
        "delta": np.zeros((d + problem.bias, 0)),
        "basis": np.zeros((d, 0)),
    }
    if not predictor:
        return Solution(
            problem, model, None, **empty, Z=None, z0=None, loss_curve=[], n_iter=1, converged=True
        )
    Z, z0 = problem.identity_predictor
    loss = _class_loss(problem, Z, z0, np.vstack([Z, np.zeros_like(z0)]) if problem.bias else Z)
    return Solution(
        problem, model, None, **empty, Z=Z, z0=z0, loss_curve=[loss], n_iter=1, converged=True
    )


def _alternate(
    problem: Problem,
    model: Model,
    denoiser: Denoiser,
    domain: list[PredictionTerm],
    max_iter: int,
    tol: float,
) -> Solution:
    """Alternate W and Z from W = I; the loss never rises."""
    denoiser.refined = False
    z_step = _ZStep(problem, denoiser)
    Z, z0, loss = _start(problem, model, domain)
    curve = [loss]
    states: list[tuple[Matrix, Matrix]] = []
    n_iter = 0
    converged = False
    while n_iter < max_iter and not converged:
        n_iter += 1
        terms = [problem.class_term(Z, z0), *domain]
        delta, U = _solve_on_basis(denoiser, terms, states, repeated=True)
        states = [*states[-1:], (delta, U)]
        Z, z0, WZ = z_step(delta, U)
        loss = _fixed_loss(problem, denoiser, delta) + _class_loss(problem, Z, z0, WZ)
        loss += _losses(denoiser, delta, U, domain)
        converged = curve[-1] - loss <= tol * abs(curve[-1])
        curve.append(loss)
    delta, U = states[-1]
    return Solution(problem, model, denoiser, delta, U, Z, z0, curve, n_iter, converged)


def _start(
    problem: Problem, model: Model, domain: list[PredictionTerm]
) -> tuple[Matrix, Vector, float]:
    """Z for W = I, z₀ relative to centred outputs, and the loss there."""
    Z, z0 = problem.identity_predictor
    outputs = slice(None) if problem.outputs is None else problem.outputs
    d = problem.moments.n_features

    def embedded(V: Matrix) -> Matrix:
        full = np.zeros((d + problem.bias, V.shape[1]))
        full[:d][outputs] = V
        return full

    loss = problem.identity_loss(model) + _class_loss(problem, Z, z0, embedded(Z))
    # W = I leaves x̃ where it is: relative to centred outputs it is off by (1 − a)∘m
    off = ((1 - problem.scale) * problem.center)[outputs]
    for term in domain:
        F = embedded(term.Z)
        if problem.bias:
            F[-1] -= off @ term.Z
        loss += term.loss(F)
    return Z, z0 + off @ Z, loss


def _fixed_loss(problem: Problem, denoiser: Denoiser, delta: Matrix) -> float:
    """L1 + γ MMD: ‖X‖² − tr(PᵀW₀) + tr(ΔᵀGΔ), as G W₀ = P."""
    change = float(np.vdot(delta, denoiser.matmul(delta))) if delta.shape[1] else 0.0
    return problem.squared_norm - denoiser.trace + change


def _class_loss(problem: Problem, Z: Matrix, z0: Vector, WZ: Matrix) -> float:
    """λ L2, its penalty included."""
    term = problem.class_term(Z, z0)
    return term.loss(WZ) + term.weight * problem.ridge_class * float(np.vdot(Z, Z))


def _losses(denoiser: Denoiser, delta: Matrix, U: Matrix, terms: Sequence[PredictionTerm]) -> float:
    return sum(t.loss(denoiser.map(t.Z) + delta @ (U.T @ t.Z)) for t in terms)
