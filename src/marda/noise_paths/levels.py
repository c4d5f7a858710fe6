"""What candidates of one search have in common: sums of the rows, and the equations of a candidate.

A candidate is S1, S1M or S1D with the noise p, q = 1 − p. With D = Σx² per feature, S the rows'
Gram about their mean, and Q_l', T' the second moment and the labels' sums about the labelled mean,

    G = q²S + N + EᵀE,   N = pqD + ωI + γ pq D_M          (E and D_M: S1M's, math.md §2)
    G V₀ = q S Z,   V = V₀ + Δ UᵀZ,   y = Q_l'V − T',   G B = y,   q S B + U Δᵀy + δZ = 0

are the equations of its class predictor Z and of its scores' weights V = WZ (Δ Uᵀ: S1D's, §5).
`SharedSums.residuals` tries them on one direction of every candidate, of all candidates at once;
whoever solved them, and however.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marda.moments import Moments
from marda.noise import Dropout
from marda.operators.linear import Gram
from marda.problem import offset_ratio
from marda.terms import (
    Discrepancy,
    DomainTargets,
    domain_discrepancy,
    domain_targets,
    label_products,
)

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
TINY = float(np.finfo(float).tiny)
FACTORS = 4  # of the class predictor's matrix that are kept: one per δ


class Point(NamedTuple):
    """One candidate: its method, and its numbers as (★) has them."""

    method: str
    noise: float
    ridge: float  # ω
    weight: float  # γ, of M or of the domain predictor
    ridge_class: float  # δ

    @property
    def variance(self) -> float:
        """pq, what noise leaves of D: to a rounding error the same for p and 1 − p."""
        return float(f"{self.noise * (1 - self.noise):.15g}")

    @property
    def level(self) -> tuple[float, float]:
        """Candidates of one level have the same G but for S1M's term."""
        return self.noise, self.ridge

    @property
    def map(self) -> tuple[str, float, float, float]:
        """Candidates with the same have the same W."""
        return self[:4]


class Directions(NamedTuple):
    """The domain predictor z_D = U diag(s)Eᵀ for given E: its strengths, and what pushes it."""

    E: Matrix  # z_D E is orthonormal
    strengths: Vector  # a s²
    push: Matrix  # a T zᵀU for q = 1: what (★) adds to R


class Trial(NamedTuple):
    """An answer on one direction of its classes."""

    Z: Vector
    V0: Vector
    B: Vector
    right: Vector  # WᵀT', what Z is solved from
    delta: Matrix  # Δ
    U: Matrix
    domain_residual: float  # of Δ's own equation


class Found(NamedTuple):
    """Weights of features of one candidate, and what tells how right they are."""

    coef: Matrix
    trial: Trial
    left_out: float  # of a series
    condition: float  # of the worst system


class SharedSums:
    """Sums of the rows, and what ridges and weights are measured in.

    Parameters
    ----------
    moments : Moments
        Sums of the rows.
    class_weights : array of shape (n_classes,)
        Weights of labelled rows.
    gram, labelled_gram : Gram
        S, and S_l about the labelled mean.
    center, labelled_center : array of shape (d,)
        Means of all and of the labelled rows; zeros without a bias.
    bias : bool
        Whether there is one.
    ridge_domain : float
        α.
    scaling : {"balanced", "paper", "relative"}
        As in `marda.problem.Problem`.
    """

    def __init__(
        self,
        moments: Moments,
        class_weights: Vector,
        gram: Gram,
        labelled_gram: Gram,
        center: Vector,
        labelled_center: Vector,
        bias: bool,
        ridge_domain: float,
        scaling: str,
    ):
        self.moments, self.class_weights, self.bias = moments, class_weights, bias
        self.gram, self.labelled_gram = gram, labelled_gram
        self.center, self.labelled_center = center, labelled_center
        self.ridge_domain, self.scaling = ridge_domain, scaling
        self.has_target = bool((moments.domains < 0).any())
        weights = moments.group_weights(class_weights)
        zero = np.zeros(moments.n_features)
        self.squares = moments.about(zero)[2]  # D
        self.scatter = moments.about(center)[2]  # diagonal of S
        self.labelled_squares = moments.about(zero, weights)[2]  # D_l
        self._labelled_scatter = moments.about(center, weights)[2]
        count = float(weights @ moments.counts)
        # Σ w (x − m_l) yᵀ, and what labelled rows should get on average: z₀ is free
        labels, sums = label_products(moments, class_weights, labelled_center)
        # About their mean, labels of all classes add up to zero: the last class follows.
        self.labels = labels[:, :-1] if bias else labels
        self.wanted = sums / count if bias else np.zeros_like(sums)

    def all_classes(self, coef: Matrix) -> Matrix:
        """Weights for every class, from those for the columns of `labels`."""
        return np.column_stack([coef, -coef.sum(1)]) if self.bias else coef

    def point(
        self, method: str, noise: float, ridge: float, ridge_class: float, weight: float
    ) -> Point:
        """A candidate from the parameters of `MDAClassifier`; without target rows it is S1."""
        if method in ("S1M", "S1D") and not self.has_target:
            method = "S1"
        if self.scaling == "relative":
            ridge *= float(self._corrupted(noise).mean())
            q = 1 - noise
            labelled = q**2 * self._labelled_scatter + noise * q * self.labelled_squares
            ridge_class *= float(labelled.mean())
        if method == "S1M":
            weight *= self._mmd_unit(noise)
        return Point(method, noise, ridge, 0.0 if method == "S1" else weight, ridge_class)

    def _corrupted(self, noise: float) -> Vector:
        """Diagonal of Q about the mean."""
        q = 1 - noise
        return np.asarray(q**2 * self.scatter + noise * q * self.squares)

    def _mmd_unit(self, noise: float) -> float:
        """What M is multiplied by, but for γ (math.md §3)."""
        if self.scaling == "relative":
            q = 1 - noise
            rows, variance = self.discrepancy.rows, self.discrepancy.diagonal
            trace = q**2 * (rows**2).sum() + noise * q * variance.sum()
            return float(self._corrupted(noise).sum() / max(trace, TINY))
        return float(self.moments.n_rows) if self.scaling == "balanced" else 1.0

    @cached_property
    def discrepancy(self) -> Discrepancy:
        """M for q = 1 and pq = 1: differences of means, and D_M = D_s/N_s² + D_t/N_t²."""
        half = domain_discrepancy(self.moments, Dropout(0.5), "exact")  # q = ½, pq = ¼
        return Discrepancy(2 * half.rows, 4 * half.diagonal, half.combinations)

    def metric(self, point: Point) -> Vector:
        """N."""
        pq = point.noise * (1 - point.noise)
        metric = pq * self.squares + point.ridge
        if point.method == "S1M":
            metric = metric + point.weight * pq * self.discrepancy.diagonal
        return metric

    @cached_property
    def far(self) -> float:
        """How far rows are from where W maps them from, in units of their spread; 1 with a bias."""
        return 1.0 if self.bias else offset_ratio(self.moments)

    # The domain predictor ---------------------------------------------------------------------

    @property
    def domain_ridge(self) -> float:
        """α, in the units of `scaling`."""
        return self.ridge_domain * float(self.scatter.mean() if self.scaling == "relative" else 1.0)

    @cached_property
    def targets(self) -> DomainTargets:
        """What the domain predictor learns, by groups of rows."""
        return domain_targets(self.moments)

    @cached_property
    def group_sums(self) -> Matrix:
        """Σ (x − m) of every group of rows."""
        moments = self.moments
        return np.asarray(moments.sums + moments.counts[:, None] * (moments.shift - self.center))

    def directions(self, gram: Matrix) -> Directions:
        """From zᵀz of the domain predictor."""
        targets = self.targets
        squared, E = np.linalg.eigh(gram)
        weight = targets.weight
        if self.scaling == "relative":
            weight *= len(squared) / max(float(squared.sum()), TINY)
        keep = squared > 1e-13 * max(squared[-1], TINY)
        squared, E = squared[keep], E[:, keep] / np.sqrt(squared[keep])
        push = np.zeros((self.moments.n_features, len(squared)))
        if not self.bias:  # with a bias what is wanted moves the bias row alone
            push = weight * np.outer(self.group_sums.sum(0), (targets.wanted @ E) * squared)
        return Directions(E, weight * squared, push)

    # The equations ----------------------------------------------------------------------------

    def G(self, point: Point, V: Matrix, S_V: Matrix) -> Matrix:
        """G V, from S V."""
        q = 1 - point.noise
        out = q**2 * S_V + self.metric(point)[:, None] * V
        if point.method == "S1M":
            E = np.sqrt(point.weight) * q * self.discrepancy.rows
            out += E.T @ (E @ V)
        return np.asarray(out)

    def Q(self, noise: float, V: Matrix, S_V: Matrix | None = None) -> Matrix:
        """(q²S + pqD) V, from S V where that is known."""
        q = 1 - noise
        S_V = self.gram.matmul(V) if S_V is None else S_V
        return q**2 * S_V + (noise * q * self.squares)[:, None] * V

    def Q_labelled(self, noise: float, V: Matrix) -> Matrix:
        """Q_l'V."""
        q = 1 - noise
        diagonal = noise * q * self.labelled_squares
        return q**2 * self.labelled_gram.matmul(V) + diagonal[:, None] * V

    @cached_property
    def probe(self) -> Vector:
        """The direction of classes on which answers are tried."""
        return np.asarray(np.random.default_rng(0).standard_normal(self.labels.shape[1]))

    def _sizes(self, point: Point) -> Vector:
        """Diagonal of G."""
        size = (1 - point.noise) ** 2 * self.scatter + self.metric(point)
        if point.method == "S1M":
            rows = (1 - point.noise) * self.discrepancy.rows
            size = size + point.weight * (rows**2).sum(0)
        return np.asarray(np.maximum(size, TINY))

    def residuals(self, points: Sequence[Point], trials: Sequence[Trial]) -> Vector:
        """Of the equations above, one per candidate."""
        Z, V0, B, right = (np.stack(parts, 1) for parts in list(zip(*trials, strict=True))[:4])
        p = np.array([point.noise for point in points])
        q, ridge = 1 - p, np.array([point.ridge_class for point in points])
        S_Z, S_V, S_B = np.split(self.gram.matmul(np.hstack([Z, V0, B])), 3, axis=1)
        V = V0.copy()
        for j, trial in enumerate(trials):
            V[:, j] += trial.delta @ (trial.U.T @ Z[:, j])
        wanted = np.outer(self.labels @ self.probe, q)
        y = q**2 * self.labelled_gram.matmul(V) - wanted
        y += np.outer(self.labelled_squares, p * q) * V
        adjoint = q * S_B + ridge * Z
        for j, trial in enumerate(trials):
            adjoint[:, j] += trial.U @ (trial.delta.T @ y[:, j])
        metric = np.stack([self.metric(point) for point in points], 1)
        G_V, G_B = q**2 * S_V + metric * V0, q**2 * S_B + metric * B
        means = np.array([point.method == "S1M" for point in points])
        if means.any():
            E, weights = self.discrepancy.rows, np.array([point.weight for point in points])
            weights = np.where(means, weights * q**2, 0.0)
            G_V += E.T @ (weights * (E @ V0))
            G_B += E.T @ (weights * (E @ B))
        size = np.stack([self._sizes(point) for point in points], 1)
        inputs = 1 / np.sqrt(size)
        parts = [
            _relative(inputs, q * S_Z - G_V, q * S_Z),
            _relative(inputs, y - G_B, wanted),
            _relative(1 / np.sqrt(size + ridge), adjoint, right),
            np.array([trial.domain_residual for trial in trials]),
        ]
        return np.asarray(np.max(parts, axis=0))

    def domain_residual(
        self, point: Point, S_U: Matrix, mapped: Matrix, delta: Matrix, push: Matrix, s: Vector
    ) -> float:
        """Of (★U), (G + sQ)Δ = a T zᵀU − sQ W₀U, and of G W₀U = PU, where `mapped` is W₀U."""
        plain = point._replace(method="S1")
        S_mapped, S_delta = np.hsplit(self.gram.matmul(np.hstack([mapped, delta])), 2)
        right = push - self.Q(point.noise, mapped, S_mapped) * s
        off = self.G(plain, delta, S_delta) + self.Q(point.noise, delta, S_delta) * s - right
        weights = 1 / np.sqrt(self._sizes(plain))[:, None]
        P_U = (1 - point.noise) * S_U * s  # a direction counts as it is strong
        first = P_U - self.G(plain, mapped, S_mapped) * s
        a, b, c, d = (float(np.linalg.norm(weights * A)) for A in (first, P_U, off, right))
        return max(a / max(b, TINY), c / max(d, TINY))


def _relative(weights: Matrix, off: Matrix, right: Matrix) -> Vector:
    """Of every column, weighted."""
    size = np.linalg.norm(weights * right, axis=0)
    return np.asarray(np.linalg.norm(weights * off, axis=0) / np.maximum(size, TINY))
