"""T of S1, S1M and S1D on the noise path: W = D^-½ V T VᵀD^½ (math.md §5, §7).

S1 is diagonal, T₀ = diag(g) with g = qΛ / (q²Λ + pq + ω), as long as D measures all that is added
to the rows' Gram. Two things it does not measure: a ridge ω·I, and the noise that is left in the
means of S1M. Where they differ from a multiple of D by less than `TOLERANCE` they are taken as one;
otherwise T₀ is a full matrix, or, with fewer rows than features, `_row_space.py` takes over.
The domain terms have few directions (one a source): S1M and S1D are T₀ + τκᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marda.moments import Moments
from marda.noise import Dropout
from marda.operators.linear import CholeskyFactor
from marda.selection._bases import Basis
from marda.selection._denoisers import DenseDenoiser, DiagonalDenoiser, PathDenoiser
from marda.terms import DomainTargets, domain_discrepancy, domain_targets

__all__ = ["LowRank", "PathMaps", "Point"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
TOLERANCE = 0.02  # of the noise of rows


class Point(NamedTuple):
    """One candidate: its method, and its numbers as (★) has them."""

    method: str
    noise: float
    ridge: float  # ω of the penalty ω·D
    ridge_class: float  # δ
    weight: float  # γ, of M or of the domain predictor
    means: float = 0.0  # noise of S1M's means, in units of the noise of rows
    ridge_apart: float = 0.0  # ω of the penalty ω·I, where that is no multiple of D
    means_apart: float = 0.0  # γ, where the noise of the means is none

    @property
    def denoiser_key(self) -> tuple[float, ...]:
        """Candidates of one noise level with the same key have the same T₀."""
        return self.ridge, self.means, self.ridge_apart, self.means_apart

    @property
    def level(self) -> tuple[float, ...]:
        """Candidates of one level have the same T₀."""
        return self.noise, *self.denoiser_key

    @property
    def apart(self) -> bool:
        """Whether D does not measure all that is added to the rows' Gram."""
        return bool(self.ridge_apart or self.means_apart)


class LowRank(NamedTuple):
    """τκᵀ, the part of T that is not diagonal: r×k each."""

    tau: Matrix
    kappa: Matrix


@dataclass(frozen=True)
class _Domain:
    """U of the domain predictor z_D = U diag(s)Eᵀ in coordinates, one column a direction."""

    outputs: Matrix  # VᵀD^½U
    inputs: Matrix  # VᵀD^-½U
    strengths: Vector  # a s²
    push: Matrix  # a T zᵀU for q = 1: what (★) adds to R


class PathMaps:
    """The maps of all candidates that share rows, class weights, bias, α and scaling.

    Parameters
    ----------
    basis : Basis
        The eigenbasis.
    moments : Moments
        Sums of the rows.
    center : array of shape (d,), or None
        m, where there is a bias.
    class_weights : array of shape (n_classes,)
        Weights of labelled rows.
    ridge_domain : float
        α.
    scaling : {"balanced", "paper", "relative"}
        What ridges and weights are measured in, as in `marda.problem.Problem`.
    """

    def __init__(
        self,
        basis: Basis,
        moments: Moments,
        center: Vector | None,
        class_weights: Vector,
        ridge_domain: float,
        scaling: str,
    ):
        self.basis, self.moments, self.center = basis, moments, center
        self.ridge_domain, self.scaling = ridge_domain, scaling
        self.has_target = bool((moments.domains < 0).any())
        self._all = self._diagonals(np.ones(len(moments.counts)))
        self._labelled = self._diagonals(moments.group_weights(class_weights))
        self._scale = float(self.squares[self.squares > 0].mean())

    @property
    def squares(self) -> Vector:
        """D: Σ x² a feature."""
        return self._all[1]

    def _diagonals(self, weights: Vector) -> tuple[Vector, Vector]:
        """Σ w (x − m)² and Σ w x² a feature."""
        n, total, squares = self.moments.weighted(weights)
        if self.center is None:
            return squares, squares
        c = self.center
        return np.maximum(squares - 2 * c * total + n * c**2, 0), squares

    def point(
        self, method: str, noise: float, ridge: float, ridge_class: float, weight: float
    ) -> Point:
        """A candidate from the parameters of `MDAClassifier`; without target rows it is S1."""
        if method in ("S1M", "S1D") and not self.has_target:
            method = "S1"
        if self.scaling == "relative":
            ridge *= _corrupted(self._all, noise).mean()
            ridge_class *= _corrupted(self._labelled, noise).mean()
        point = Point(method, noise, ridge / self._scale, ridge_class, weight)
        if self._apart(point) and (self.basis.thin or self.basis.square):
            point = point._replace(ridge=0.0, ridge_apart=ridge)
        if method != "S1M":
            return point
        # Noise leaves pq Vᵀ(D_M/D)V in the means, D_M = D_s/N_s² + D_t/N_t²: a multiple of the pq I
        # of the rows if N_s = N_t, and O(1/N) of it in any case.
        weight *= self._mmd_unit(noise)
        mean, spread = (weight * part for part in self._means_noise)
        if np.hypot(mean, spread) <= TOLERANCE:
            return point._replace(weight=weight)
        if spread > TOLERANCE * (1 + mean) or point.ridge_apart:
            return point._replace(weight=weight, means_apart=weight)
        return point._replace(weight=weight, means=mean)

    def close(self, point: Point) -> bool:
        """Whether the scores are those of a fit within `TOLERANCE`, about."""
        return point.method in ("BL", "MCF") or not self._apart(point)

    def _apart(self, point: Point) -> bool:
        """Whether the penalty ω·D stands for an ω·I that differs from it too much."""
        # ω·I over ω·D; each feature counts as much as it varies
        ratio = self._scale / self.squares[self.squares > 0]
        spread = np.sqrt(max(ratio.mean() - 1, 0.0))
        noise = point.noise * (1 - point.noise)
        return bool(point.ridge * spread > TOLERANCE * (noise + point.ridge))

    def _mmd_unit(self, noise: float) -> float:
        """What M is multiplied by, but for γ (math.md §3)."""
        if self.scaling == "relative":
            rows, variance = self._discrepancy
            q = 1 - noise
            trace = q**2 * (rows**2).sum() + noise * q * variance.sum()
            return float(_corrupted(self._all, noise).sum() / max(trace, np.finfo(float).tiny))
        return float(self.moments.n_rows) if self.scaling == "balanced" else 1.0

    def metric(self, point: Point) -> Vector:
        """All that is added to the diagonal of the rows' Gram: noise, and the ridge."""
        noise = point.noise * (1 - point.noise)
        metric = (noise * (1 + point.means) + point.ridge) * self.squares + point.ridge_apart
        if point.means_apart:
            metric += noise * point.means_apart * self._discrepancy[1]
        return metric

    def denoiser(self, point: Point) -> PathDenoiser:
        """T₀ = G⁻¹P, without the directions of the domain terms."""
        p, q, values = point.noise, 1 - point.noise, self.basis.values
        h = q**2 * values + p * q * (1 + point.means) + point.ridge
        if not point.ridge_apart and not point.means_apart:
            return DiagonalDenoiser(h, q * values)
        G = point.ridge_apart * self.basis.penalty  # VᵀD⁻¹V, as the basis is square
        if point.means_apart:
            G += (point.means_apart * p * q) * self._means_matrix
        G[np.diag_indices_from(G)] += h
        return DenseDenoiser(G, q * values)

    def low_rank(self, point: Point, denoiser: PathDenoiser) -> LowRank | None:
        """τκᵀ of S1M and S1D."""
        q = 1 - point.noise
        if point.method == "S1M":
            # G + EEᵀ, by Sherman–Morrison–Woodbury
            E = np.sqrt(point.weight) * q * self._differences
            solved = denoiser.solve(E)
            core = np.eye(E.shape[1]) + E.T @ solved
            return LowRank(-np.linalg.solve(core, solved.T).T, denoiser.tdot(E))
        if point.method == "S1D":
            # (★U), each column of U on its own: (G + sQ)Δ = a T zᵀU − sQ W₀U
            domain = self._domain
            Q = q**2 * self.basis.values + point.noise * q
            sQ = np.outer(Q, point.weight * domain.strengths)
            right = point.weight * q * domain.push - sQ * denoiser.dot(domain.outputs)
            return LowRank(denoiser.solve_shifted(sQ, right), domain.inputs)
        return None

    @cached_property
    def _discrepancy(self) -> tuple[Matrix, Vector]:
        """Differences v of means, and D_s/N_s² + D_t/N_t² (noise leaves pq times it)."""
        half = domain_discrepancy(self.moments, Dropout(0.5), "exact")  # q = ½, pq = ¼
        return 2 * half.rows, 4 * half.diagonal

    @property
    def mean_differences(self) -> Matrix:
        """Of the target's mean from those of sources, a row each."""
        return self._discrepancy[0]

    @cached_property
    def _differences(self) -> Matrix:
        """VᵀD^-½v."""
        return self.basis.inputs(self.mean_differences.T)

    @cached_property
    def _means_matrix(self) -> Matrix:
        """Vᵀ(D_M/D)V."""
        return self.basis.noise(self._discrepancy[1])

    @cached_property
    def _means_noise(self) -> tuple[float, float]:
        """Mean and spread of D_M/D, each feature counted as much as it varies."""
        variance, squares = self._discrepancy[1], self.squares
        mean = variance.sum() / squares.sum()
        filled = squares > 0
        square = (variance[filled] ** 2 / squares[filled]).sum() / squares.sum()
        return float(mean), float(np.sqrt(max(square - mean**2, 0.0)))

    @property
    def domain_ridge(self) -> float:
        """α, in the units of `scaling`."""
        return self.ridge_domain * (self._all[0].mean() if self.scaling == "relative" else 1.0)

    @cached_property
    def _targets(self) -> DomainTargets:
        return domain_targets(self.moments)

    def row_targets(self, domain: NDArray[np.int64]) -> Matrix:
        """What the domain predictor is to say of rows of these domains."""
        known, first = np.unique(self.moments.domains, return_index=True)
        return self._targets.labels[first[np.searchsorted(known, domain)]]

    def directions(self, gram: Matrix) -> tuple[Matrix, Vector, Matrix]:
        """From zᵀz of the domain predictor: E with orthonormal zE, a s², and a T zᵀU for q = 1."""
        targets = self._targets
        squared, E = np.linalg.eigh(gram)
        weight = targets.weight
        if self.scaling == "relative":
            weight *= len(squared) / squared.sum()
        keep = squared > 1e-13 * squared[-1]
        squared, E = squared[keep], E[:, keep] / np.sqrt(squared[keep])
        push = np.zeros((self.moments.n_features, len(squared)))
        if self.center is None:  # with a bias what is wanted moves the bias row alone
            push = weight * np.outer(self._sums.sum(0), (targets.wanted @ E) * squared)
        return E, weight * squared, push

    @cached_property
    def _sums(self) -> Matrix:
        """Σ (x − m) of every group of rows."""
        moments = self.moments
        center = np.zeros(moments.n_features) if self.center is None else self.center
        return np.asarray(moments.sums + moments.counts[:, None] * (moments.shift - center))

    @cached_property
    def _domain(self) -> _Domain:
        """z_D in coordinates, (Λ + αC)u = Bᵀy_D, and its orthonormal directions."""
        basis = self.basis
        K = self.domain_ridge * basis.penalty
        K[np.diag_indices_from(K)] += basis.values
        right = basis.inputs(self._sums.T @ self._targets.labels)
        u = CholeskyFactor(K, "the domain predictor's matrix").solve(right)
        Cu = basis.penalty @ u
        E, strengths, push = self.directions(u.T @ Cu)
        return _Domain(u @ E, Cu @ E, strengths, basis.inputs(push))


def _corrupted(diagonals: tuple[Vector, Vector], noise: float) -> Vector:
    """The diagonal of Q about the mean: q² Σ w (x − m)² + pq Σ w x²."""
    q = 1 - noise
    scatter, squares = diagonals
    return np.asarray(q**2 * scatter + noise * q * squares)
