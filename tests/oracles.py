"""Slow and plain second opinions: math.md's formulas, in the caller's coordinates.

Nothing here centres, factorises or shortens: expectations are written entry by entry, (★) is
assembled as a Kronecker system or as the paper's A, B, C, and gradients are differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_sylvester

from marda.noise import Dropout, Gaussian, Noise, Poisson
from marda.problem import Settings
from marda.terms import Model
from problems import Case

# Losses -------------------------------------------------------------------------------------------


def mean_and_variance(noise: Noise, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[x̃] and Var[x̃] of every entry (math.md §8)."""
    if isinstance(noise, Dropout):
        q = 1 - np.asarray(noise.p)
        return (X, (1 - q) / q * X**2) if noise.unbiased else (q * X, q * (1 - q) * X**2)
    if isinstance(noise, Gaussian):
        return X, np.zeros_like(X) + np.asarray(noise.sigma) ** 2
    assert isinstance(noise, Poisson)
    return X, X


def corrupt(noise: Noise, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw of X̃."""
    if isinstance(noise, Dropout):
        q = 1 - np.asarray(noise.p)
        return X * (rng.random(X.shape) < q) / (q if noise.unbiased else 1)
    if isinstance(noise, Gaussian):
        return X + np.asarray(noise.sigma) * rng.standard_normal(X.shape)
    return rng.poisson(X).astype(float)


@dataclass(frozen=True)
class Written:
    """The marginalised loss of a model as a function of (W, Z, z₀), and its stationary points."""

    case: Case
    model: Model
    settings: Settings
    class_weights: np.ndarray | None = None
    pivots: np.ndarray | None = None  # reconstructed features; None for all

    @property
    def d(self) -> int:
        return self.case.X.shape[1]

    @cached_property
    def outputs(self) -> np.ndarray:
        return np.arange(self.d) if self.pivots is None else self.pivots

    @property
    def clean(self) -> np.ndarray:
        """What is reconstructed."""
        return self.case.X[:, self.outputs]

    @property
    def bias(self) -> bool:
        return self.settings.fit_intercept

    @cached_property
    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """E[X̃] and Var[X̃], with the bias column that noise leaves alone."""
        E, V = mean_and_variance(self.settings.noise, self.case.X)
        if not self.bias:
            return E, V
        one = np.ones((len(E), 1))
        return np.hstack([E, one]), np.hstack([V, 0 * one])

    def second_moment(self, w: np.ndarray) -> np.ndarray:
        """E[X̃ᵀ diag(w) X̃]."""
        E, V = self.inputs
        return E.T @ (w[:, None] * E) + np.diag(w @ V)

    @cached_property
    def row_weights(self) -> np.ndarray:
        weights = np.ones(self.case.n_classes) if self.class_weights is None else self.class_weights
        return np.where(self.case.labelled, weights[self.case.codes], 0.0)

    @cached_property
    def Q(self) -> np.ndarray:
        return self.second_moment(np.ones(len(self.case.X)))

    @cached_property
    def Q_l(self) -> np.ndarray:
        return self.second_moment(self.row_weights)

    @cached_property
    def P(self) -> np.ndarray:
        return self.inputs[0].T @ self.clean

    @cached_property
    def Y(self) -> np.ndarray:
        return np.where(self.case.codes[:, None] == np.arange(self.case.n_classes), 1.0, -1.0)

    @cached_property
    def T(self) -> np.ndarray:
        return self.inputs[0].T @ (self.row_weights[:, None] * self.Y)

    @cached_property
    def penalty(self) -> np.ndarray:
        """1 where W is penalised: not on its bias row."""
        return np.append(np.ones(self.d), np.zeros(int(self.bias)))

    def marginalised(self, n: np.ndarray) -> np.ndarray:
        """E[X̃ᵀ n nᵀ X̃] for independent entries, or the paper's diagonal."""
        E, V = self.inputs
        v = E.T @ n
        if self.settings.marginalization == "paper":
            raw = self.case.X.T @ n
            q = 1 - np.asarray(self.settings.noise.p)
            return np.outer(v, v) + np.diag(np.append(q * (1 - q) * raw**2, v[self.d :] * 0))
        return np.outer(v, v) + np.diag(n**2 @ V)

    @cached_property
    def pairs(self) -> list[tuple[float, np.ndarray]]:
        """(weight, n) of every source–target pair of the MMD terms (math.md §9)."""
        domain, codes = self.case.domain, self.case.codes
        target, sources = domain < 0, np.unique(domain[domain >= 0])
        pairs = []
        if self.model.mmd:
            for s in sources:
                pairs.append((1 / len(sources), _difference(domain == s, target)))
        if self.model.class_mmd:
            for c in range(self.case.n_classes):
                there = target & (codes == c)
                having = [s for s in sources if ((domain == s) & (codes == c)).any()]
                for s in having if there.any() else []:
                    n = _difference((domain == s) & (codes == c), there)
                    pairs.append((1 / len(having), n))
        return pairs

    @cached_property
    def G(self) -> np.ndarray:
        G = self.Q + self.settings.ridge * np.diag(self.penalty)
        scale = self.settings.domain_loss_weight
        scale *= len(self.case.X) if self.settings.scaling == "balanced" else 1
        for weight, n in self.pairs:
            G = G + scale * weight * self.marginalised(n)
        return G

    @cached_property
    def domain_predictor(self) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Weight, z_D, z_D0 and the wanted prediction."""
        X, domain, r = self.clean, self.case.domain, len(self.outputs)
        target, sources = domain < 0, np.unique(domain[domain >= 0])
        if len(sources) == 1:
            y, want, half = np.where(target, 1.0, -1.0)[:, None], np.ones(1), 1.0
        else:
            columns = [domain == s for s in sources] + [target]
            y = np.where(np.stack(columns, 1), 1.0, -1.0)
            want, half = np.append(-np.ones(len(sources)), 1.0), 0.5
        rows = np.hstack([X, np.ones((len(X), 1))]) if self.bias else X
        penalty = np.append(np.ones(r), np.zeros(int(self.bias)))
        S = rows.T @ rows + self.settings.ridge_domain * np.diag(penalty)
        z = np.linalg.solve(S, rows.T @ y)
        z0 = z[r] if self.bias else np.zeros(len(want))
        return half * self.settings.domain_loss_weight, z[:r], z0, want

    def scores_map(self, W: np.ndarray, Z: np.ndarray, z0: np.ndarray) -> np.ndarray:
        """F = W Z + e z₀."""
        F = W @ Z
        if self.bias:
            F[-1] += z0
        return F

    def loss(self, W: np.ndarray, Z: np.ndarray, z0: np.ndarray) -> float:
        """L1 + γ(L_m + L_c) + λ L2 (joint models) + γ L_d, as written in math.md §2."""
        X = self.clean
        value = (X**2).sum() - 2 * np.sum(self.P * W) + np.sum(W * (self.G @ W))
        if self.model.joint:
            value += self.settings.class_loss_weight * self.class_loss(W, Z, z0)
        if self.model.domain:
            weight, z, z_0, want = self.domain_predictor
            F = self.scores_map(W, z, z_0)
            T = np.outer(self.inputs[0].sum(0), want)
            value += weight * (len(X) * want @ want - 2 * np.sum(T * F) + np.sum(F * (self.Q @ F)))
        return float(value)

    def class_loss(self, W: np.ndarray, Z: np.ndarray, z0: np.ndarray) -> float:
        """L2."""
        F = self.scores_map(W, Z, z0)
        value = self.row_weights @ (self.Y**2).sum(1) - 2 * np.sum(self.T * F)
        return float(value + np.sum(F * (self.Q_l @ F)) + self.settings.ridge_class * (Z**2).sum())

    # Stationary points ------------------------------------------------------------------------

    def z_step(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Z (and z₀) for given W."""
        d, ridge = W.shape[1], self.settings.ridge_class
        if not self.bias:
            K = W.T @ self.Q_l @ W + ridge * np.eye(d)
            return np.linalg.solve(K, W.T @ self.T), np.zeros(self.case.n_classes)
        V = np.hstack([W, np.eye(self.d + 1)[:, -1:]])
        K = V.T @ self.Q_l @ V + ridge * np.diag(np.append(np.ones(d), 0.0))
        z = np.linalg.solve(K, V.T @ self.T)
        return z[:d], z[d]

    def prediction_terms(self, Z, z0) -> list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
        """(a_k, Q_k, Z_k, T_k) of (★); T less what the intercepts already explain."""
        e = np.eye(len(self.penalty))[:, -1:]
        terms = []
        if self.model.joint:
            T = self.T - self.Q_l @ e * z0 if self.bias else self.T
            terms.append((self.settings.class_loss_weight, self.Q_l, Z, T))
        if self.model.domain:
            weight, z, z_0, want = self.domain_predictor
            T = np.outer(self.inputs[0].sum(0), want)
            terms.append((weight, self.Q, z, T - self.Q @ e * z_0 if self.bias else T))
        return terms

    def kronecker_step(self, Z, z0) -> np.ndarray:
        """(★) as one dense system in vec(W)."""
        d, rows = len(self.outputs), len(self.penalty)
        A, R = np.kron(np.eye(d), self.G), self.P.copy()
        for weight, Q, Z_k, T in self.prediction_terms(Z, z0):
            A += weight * np.kron(Z_k @ Z_k.T, Q)
            R += weight * T @ Z_k.T
        return np.linalg.solve(A, R.T.ravel()).reshape(d, rows).T

    def sylvester_step(self, Z, z0) -> np.ndarray:
        """(★) as the paper's A W + W B = C, with the slips of math.md §4 corrected."""
        eye = np.eye(self.d)
        terms = self.prediction_terms(Z, z0)
        if not terms:  # S1, S1M, S1C
            return solve_sylvester(self.G, np.zeros_like(eye), self.P)
        weight, Q, Z_k, T = terms[0]
        A, B = np.linalg.solve(Q, self.G), weight * Z_k @ Z_k.T
        C = np.linalg.solve(Q, self.P + weight * T @ Z_k.T)
        if len(terms) == 2:  # J12D: needs ω = 0 and no MMD, so that G = Q
            assert self.settings.ridge == 0
            assert not self.pairs
            gamma, _Q_d, z, T_d = terms[1]
            right = np.linalg.inv(eye + gamma * z @ z.T)
            C = (C + np.linalg.solve(Q, gamma * T_d @ z.T)) @ right
            B = B @ right
        return solve_sylvester(A, B, C)

    def alternate(self, step: Callable[..., np.ndarray], n_iter: int):
        """W, Z, z₀ after alternations from W = [I; 0]; sequential models take one step."""
        W = np.eye(len(self.penalty))[:, self.outputs]
        Z = z0 = None
        for _ in range(n_iter if self.model.joint else 1):
            if self.model.joint:
                Z, z0 = self.z_step(W)
            W = step(Z, z0)
        return W, *self.z_step(W)


def _difference(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """n: 1/N_s on source rows, −1/N_t on target rows."""
    return source / source.sum() - target / target.sum()


def numerical_gradient(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """Central differences; exact but for rounding where the function is quadratic."""
    gradient = np.zeros_like(at)
    step = 0.5 * max(1.0, float(np.abs(at).max()))
    for index in np.ndindex(*at.shape):
        there, back = at.copy(), at.copy()
        there[index] += step
        back[index] -= step
        gradient[index] = (function(there) - function(back)) / (2 * step)
    return gradient
