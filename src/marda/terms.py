"""Each loss as its contribution to (★), and the paper's table of models (math.md §2, §3, §9).

The terms of domain and class prediction are put together in problem.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marda._arrays import beside, copy, namespace, vdot, vstack, zeros
from marda._validation import UNLABELED
from marda.moments import Moments
from marda.noise import Dropout, Noise
from marda.operators.linear import SecondMoment

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """Which losses a model has. `denoise` False: W = I (BL, MCF)."""

    name: str
    denoise: bool = True
    joint: bool = False
    mmd: bool = False
    class_mmd: bool = False
    domain: bool = False

    @property
    def discrepancies(self) -> str:
        """The terms that enter G: "", "M", "C" or "MC"."""
        return "M" * self.mmd + "C" * self.class_mmd


def parse_method(method: str) -> Model:
    """The model that a name means: BL, MCF, or S1 / J12 with any of M, C, D."""
    if method in ("BL", "MCF"):
        return Model(method, denoise=False)
    match = re.fullmatch(r"(S1|J12)([MCD]*)", method) if isinstance(method, str) else None
    if match is None or len(set(match[2])) < len(match[2]):
        raise ValueError(
            "method must be 'BL', 'MCF', or 'S1' or 'J12' followed by any of the letters M, C, D "
            f"(such as 'S1D' or 'J12CD'), got {method!r}."
        )
    letters = match[2]
    return Model(
        method,
        joint=match[1] == "J12",
        mmd="M" in letters,
        class_mmd="C" in letters,
        domain="D" in letters,
    )


@dataclass(frozen=True)
class Discrepancy:
    """An MMD term, EᵀE + diag(D): differences of means, and what the noise adds.

    A difference of means is a combination of the sums of groups whose weights cancel,
    e = A Σ_g c_g Σ_{n∈g} x_n with Σ_g c_g N_g = 0: from sums about any point, or from the rows.
    """

    rows: Matrix  # E
    diagonal: Vector  # D
    combinations: Matrix  # c, one row per difference, one column per group

    def scaled(self, weight: float) -> Discrepancy:
        """The term times a weight."""
        root = math.sqrt(weight)
        return Discrepancy(root * self.rows, weight * self.diagonal, root * self.combinations)

    @staticmethod
    def sum(parts: Sequence[Discrepancy]) -> Discrepancy:
        """Several terms as one."""
        return Discrepancy(
            vstack([p.rows for p in parts]),
            sum((p.diagonal for p in parts[1:]), parts[0].diagonal),
            np.vstack([p.combinations for p in parts]),
        )


def _pair(
    moments: Moments,
    noise: Noise,
    source: NDArray[np.bool_],
    target: NDArray[np.bool_],
    marginalization: str,
) -> Discrepancy:
    """Marginalised v vᵀ, v the difference of the means of two sets of groups (math.md §2)."""
    (n_s, sum_s, sq_s), (n_t, sum_t, sq_t) = moments.select(source), moments.select(target)
    combination = (source / n_s - target / n_t)[None]
    v = beside(combination, moments.sums) @ moments.sums
    rows = beside(noise.scale(moments.n_features), v) * v
    if marginalization == "paper":
        if not isinstance(noise, Dropout) or noise.unbiased:
            raise ValueError("marginalization='paper' is defined for dropout noise only.")
        return Discrepancy(rows, noise.variance(1.0, v[0, :], v[0, :] ** 2), combination)
    # Entries are dropped independently: Σ_n N_nn Var[x̃_n] with N_nn = 1/N_s² or 1/N_t²
    diagonal = noise.variance(n_s, sum_s, sq_s) / n_s**2
    diagonal = diagonal + noise.variance(n_t, sum_t, sq_t) / n_t**2
    return Discrepancy(rows, diagonal, combination)


def domain_discrepancy(moments: Moments, noise: Noise, marginalization: str) -> Discrepancy:
    """M: marginalised v vᵀ, v = mean of a source − mean of the target; averaged over sources."""
    target = moments.domains < 0
    sources = np.unique(moments.domains[~target])
    pairs = [_pair(moments, noise, moments.domains == s, target, marginalization) for s in sources]
    return Discrepancy.sum(pairs).scaled(1 / len(pairs))


def classes_to_target(moments: Moments, noise: Noise, marginalization: str) -> Discrepancy:
    """The same for every class of the source: its mean and that of the whole target.

    What the published implementation does where no target row is labelled. It needs no target
    label, and pulls all classes to one point.
    """
    target = moments.domains < 0
    parts = []
    for c in np.unique(moments.labels[~target & (moments.labels != UNLABELED)]):
        of_class = (moments.labels == c) & ~target
        sources = np.unique(moments.domains[of_class])
        groups = [of_class & (moments.domains == s) for s in sources]
        pairs = [_pair(moments, noise, g, target, marginalization) for g in groups]
        parts.append(Discrepancy.sum(pairs).scaled(1 / len(pairs)))
    if not parts:
        raise ValueError("the class term C needs labelled source rows, and there are none.")
    return Discrepancy.sum(parts)


def class_discrepancy(moments: Moments, noise: Noise, marginalization: str) -> Discrepancy:
    """M_c: the same for the labelled rows of every class that source and target share."""
    target = moments.domains < 0
    parts = []
    for c in np.unique(moments.labels[target & (moments.labels != UNLABELED)]):
        of_class = moments.labels == c
        sources = np.unique(moments.domains[of_class & ~target])
        if len(sources):
            groups = [of_class & (moments.domains == s) for s in sources]
            pairs = [_pair(moments, noise, g, of_class & target, marginalization) for g in groups]
            parts.append(Discrepancy.sum(pairs).scaled(1 / len(pairs)))
    if not parts:
        raise ValueError(
            "the class term C needs labelled target rows of a class that the source has too, and "
            "there are none: label a few target rows, or use a method without C (such as S1M, S1D)."
        )
    return Discrepancy.sum(parts)


@dataclass(frozen=True)
class DomainTargets:
    """What the domain predictor learns and what it should then say (math.md §2, §9)."""

    labels: Matrix  # one row per group, one column per predictor: ±1
    wanted: Vector  # the prediction every denoised row should get
    weight: float  # 1, or ½ for several sources, so that one given as several changes nothing


def domain_targets(moments: Moments) -> DomainTargets:
    """One source: −1 on source, +1 on target. Several: one column per domain, targets pooled."""
    target = moments.domains < 0
    sources = np.unique(moments.domains[~target])
    if len(sources) == 1:
        return DomainTargets(np.where(target, 1.0, -1.0)[:, None], np.ones(1), 1.0)
    columns = [moments.domains == s for s in sources] + [target]
    labels = np.where(np.stack(columns, 1), 1.0, -1.0)
    wanted = np.append(-np.ones(len(sources)), 1.0)
    return DomainTargets(labels, wanted, 0.5)


def label_products(moments: Moments, weights: Vector, center: Vector) -> tuple[Matrix, Vector]:
    """Σ w (x − center) yᵀ and Σ w yᵀ over labelled rows, with y = ±1."""
    n_classes = len(moments.classes)
    known = moments.labels != UNLABELED
    w = moments.group_weights(weights)
    held = beside(moments.counts, center)[:, None]
    sums = beside(w, center)[:, None] * (moments.sums + held * (moments.shift - center))
    counts = w * moments.counts
    XY = zeros((center.shape[0], n_classes), center)
    XY -= namespace(sums).sum(sums, axis=0)[:, None]
    Y = np.full(n_classes, -counts.sum())
    for group in np.flatnonzero(known).tolist():
        XY[:, int(moments.labels[group])] += 2 * sums[group, :]
        Y[moments.labels[group]] += 2 * counts[group]
    return XY, Y


@dataclass(frozen=True)
class PredictionTerm:
    """a‖Y − X̃WZ − 1z₀‖², marginalised: a prediction term (a, Q, Z, T) of (★)."""

    weight: float
    Q: SecondMoment
    T: Matrix  # E[X̃]ᵀY, with the bias row Σy if there is one
    norm: float  # ‖Y‖²
    Z: Matrix
    z0: Vector  # intercept; zeros without a bias
    condition: float = 1.0  # of the system that Z was solved from, as far as it is known

    def right_side(self) -> Matrix:
        """T − Q e z₀: multiplied by Zᵀ it is this term's part of R."""
        e = self.Q.bias_column()
        return self.T if e is None else self.T - e[:, None] * self.z0

    def scores_map(self, WZ: Matrix) -> Matrix:
        """F = WZ + e z₀, so that scores are [X 1]F."""
        if self.Q.mean is None:
            return WZ
        F = copy(WZ)
        F[-1, :] += self.z0
        return F

    def loss(self, WZ: Matrix) -> float:
        """‖Y‖² − 2 tr(TᵀF) + tr(FᵀQF), times the weight."""
        F = self.scores_map(WZ)
        value = self.norm - 2 * vdot(self.T, F) + vdot(F, self.Q.matmul(F))
        return self.weight * value
