"""Data and settings → the operators of (★), each built once and shared by all models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.moments import Moments
from marda.noise import Noise
from marda.operators.denoiser import Denoiser
from marda.operators.dual import DualDenoiser
from marda.operators.iterative import IterativeDenoiser, PivotDenoiser
from marda.operators.linear import (
    CholeskyFactor,
    DenseGram,
    DiagonalPlusGram,
    Factor,
    Gram,
    IterativeFactor,
    RowGram,
    SecondMoment,
    WoodburyFactor,
)
from marda.operators.primal import PrimalDenoiser
from marda.operators.rows import Rows
from marda.terms import (
    Discrepancy,
    Model,
    PredictionTerm,
    class_discrepancy,
    domain_discrepancy,
    domain_targets,
    label_products,
)

__all__ = ["Problem", "Settings"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """Numbers and switches that all models share, checked."""

    noise: Noise
    ridge: float = 1e-2
    ridge_class: float = 1.0
    ridge_domain: float = 1.0
    class_loss_weight: float = 1.0
    domain_loss_weight: float = 1.0
    marginalization: str = "exact"
    scaling: str = "balanced"
    fit_intercept: bool = True


class Problem:
    """The operators of (★) for one data set and one setting.

    Features are centred at the mean of all rows if there is an intercept (operators/denoiser.py).

    Parameters
    ----------
    moments : Moments
        Group sums; with Grams for the primal route.
    settings : Settings
        Noise, ridges, weights.
    solver : {"primal", "dual", "cg"}
        The route.
    class_weights : array of shape (n_classes,)
        Weight of the labelled rows of a class.
    X, row_classes : rows with the labelled ones first, and the classes of those
        For the routes that keep rows, and for class weights without a Gram a class.
    outputs : integer array, default=None
        Reconstructed features; None for all.
    """

    def __init__(
        self,
        moments: Moments,
        settings: Settings,
        solver: str,
        class_weights: Vector,
        *,
        X: Any = None,
        row_classes: NDArray[np.int64] | None = None,
        outputs: NDArray[np.int64] | None = None,
    ):
        self.moments, self.settings, self.solver = moments, settings, solver
        self.class_weights, self.outputs = class_weights, outputs
        d = moments.n_features
        self.scale = settings.noise.scale(d)
        self.n_outputs = d if outputs is None else len(outputs)
        n, total, squares = moments.select(np.ones(len(moments.counts), dtype=bool))
        self.count = n
        self.bias = settings.fit_intercept
        self.center = total / n if self.bias else np.zeros(d)
        self._squares = squares
        self._rows = None if X is None else Rows(X, self.center)
        self._row_weights = None
        if row_classes is not None:
            weights = class_weights[row_classes]
            self._row_weights = None if np.all(weights == 1) else weights
            self._n_labelled = len(row_classes)
        self._group_weights = moments.group_weights(class_weights)
        self._denoisers: dict[str, Denoiser] = {}

    # Ridges and weights -----------------------------------------------------------------------
    # With scaling="relative" each is a fraction of what it competes with, so that features times
    # any number give the same predictions: a ridge, of the mean diagonal of the Gram that it is
    # added to; γ of an MMD term, of tr(Q); λ and γ of a prediction term a·Q W Z Zᵀ, of ‖Z‖² at
    # W = I, which makes a ZZᵀ of the order of the identity that it stands next to.

    def _relative(self, value: float, scatter: Vector, noise: Vector | float = 0.0) -> float:
        if self.settings.scaling != "relative":
            return value
        return value * float(np.mean(self.scale**2 * scatter + noise))

    @cached_property
    def ridge(self) -> float:
        """ω."""
        scatter = self._scatter_diagonal(None)
        return self._relative(self.settings.ridge, scatter, self.all_rows.diagonal)

    @cached_property
    def ridge_class(self) -> float:
        """δ."""
        scatter = self._scatter_diagonal(self._group_weights)
        return self._relative(self.settings.ridge_class, scatter, self.labelled.diagonal)

    @cached_property
    def _class_loss_weight(self) -> float:
        """λ."""
        weight = self.settings.class_loss_weight
        if self.settings.scaling != "relative":
            return weight
        Z = self.identity_predictor[0]
        return float(weight * Z.shape[1] / max(float(np.vdot(Z, Z)), np.finfo(float).tiny))

    # Second moments ---------------------------------------------------------------------------

    @cached_property
    def gram(self) -> Gram:
        """Centred Gram of all rows."""
        if self._rows is not None and self.solver != "primal":
            return RowGram(self._rows)
        return DenseGram(self.moments.scatter(self.center))

    @cached_property
    def all_rows(self) -> SecondMoment:
        """Q."""
        n, total, squares = self.moments.select(np.ones(len(self.moments.counts), dtype=bool))
        variance = self.settings.noise.variance(n, total, squares)
        # Centred at their own mean, features and bias do not mix: u = 0.
        cross = np.zeros_like(total) if self.bias else None
        return SecondMoment(self.gram, self.scale, variance, cross, n)

    @cached_property
    def labelled(self) -> SecondMoment:
        """Q_l, with class weights."""
        n, total, squares = self.moments.weighted(self._group_weights)
        variance = self.settings.noise.variance(n, total, squares)
        gram: Gram
        if self._rows is not None:
            gram = RowGram(self._rows.first(self._n_labelled), self._row_weights)
            if self.solver == "primal":
                gram = DenseGram(gram.dense())
        else:
            gram = DenseGram(self.moments.scatter(self.center, self.class_weights))
        cross = self.scale * (total - n * self.center) if self.bias else None
        return SecondMoment(gram, self.scale, variance, cross, n)

    # Factorisations ---------------------------------------------------------------------------

    def _discrepancy(self, which: str) -> Discrepancy | None:
        noise, rule = self.settings.noise, self.settings.marginalization
        parts = []
        if "M" in which:
            parts.append(domain_discrepancy(self.moments, noise, rule))
        if "C" in which:
            parts.append(class_discrepancy(self.moments, noise, rule))
        if not parts:
            return None
        weight = self.settings.domain_loss_weight
        both = Discrepancy(
            np.vstack([p.rows for p in parts]), np.sum([p.diagonal for p in parts], axis=0)
        )
        if self.settings.scaling == "balanced":
            weight *= self.count
        elif self.settings.scaling == "relative":
            trace = float((both.rows**2).sum() + both.diagonal.sum())
            weight *= self._trace / max(trace, np.finfo(float).tiny)
        return both.scaled(weight)

    @property
    def _trace(self) -> float:
        """tr(Q), of features."""
        scatter = self.scale**2 * self._scatter_diagonal(None)
        return float((scatter + self.all_rows.diagonal).sum())

    def denoiser(self, model: Model) -> Denoiser:
        """G = Q + ωI + MMD terms of a model, and W₀; models with the same G share it."""
        which = model.discrepancies if self.has_target else ""
        if which not in self._denoisers:
            diagonal = self.all_rows.diagonal + self.ridge
            extra = np.zeros((0, len(diagonal)))
            term = self._discrepancy(which)
            if term is not None:
                diagonal, extra = diagonal + term.diagonal, term.rows
            system = DiagonalPlusGram(diagonal, self.scale, self.gram, extra)
            variance = self.all_rows.diagonal
            args = (system, self.count, variance, self.labelled, self.outputs, self.bias)
            self._denoisers[which] = self._make(args)
        return self._denoisers[which]

    def _make(self, args: tuple[Any, ...]) -> Denoiser:
        if self.solver == "primal":
            return PrimalDenoiser(*args)
        if self.solver == "dual":
            return DualDenoiser(*args)
        kind = IterativeDenoiser if self.outputs is None else PivotDenoiser
        return kind(*args, gram_diagonal=self._scatter_diagonal(None))

    @property
    def has_target(self) -> bool:
        """Without target rows the domain terms vanish."""
        return bool((self.moments.domains < 0).any())

    def _scatter_diagonal(self, weights: Vector | None) -> Vector:
        """Diagonal of a centred Gram, from sums."""
        w = np.ones(len(self.moments.counts)) if weights is None else weights
        n, total, squares = self.moments.weighted(w)
        c = self.center
        return np.maximum(squares - 2 * c * total + n * c**2, 0)

    def factor(
        self, diagonal: Vector, scale: Vector, gram: Gram, gram_diagonal: Vector, name: str
    ) -> Factor:
        """A factorised D + A S A on the outputs, by this problem's route."""
        outputs = self.outputs
        if outputs is not None:
            diagonal, scale, gram_diagonal = (
                diagonal[outputs],
                scale[outputs],
                gram_diagonal[outputs],
            )
            if isinstance(gram, RowGram):
                gram = RowGram(gram.rows.columns(outputs), gram.weights)
            else:
                gram = DenseGram(gram.dense()[np.ix_(outputs, outputs)])
        system = DiagonalPlusGram(diagonal, scale, gram, np.zeros((0, len(diagonal))))
        if self.solver == "primal":
            return CholeskyFactor(system.dense(), name)
        if self.solver == "dual":
            return WoodburyFactor(system, name)
        return IterativeFactor(system, gram_diagonal, 1e-12, name)

    # Prediction terms -------------------------------------------------------------------------

    @cached_property
    def label_sums(self) -> tuple[Matrix, Vector, float]:
        """T = E[X̃_l]ᵀY with its bias row, Σ w y, and ‖Y‖²."""
        XY, Y = label_products(self.moments, self.class_weights, self.center)
        T = self.scale[:, None] * XY
        norm = len(self.class_weights) * self.labelled.count
        return (np.vstack([T, Y]) if self.bias else T), Y, norm

    @cached_property
    def identity_predictor(self) -> tuple[Matrix, Vector]:
        """Z and z₀ for W = I (on the outputs): BL, MCF, and where the alternation starts.

        z₀ is relative to centred inputs: scores = (x − a∘m)Z + z₀.
        """
        T, Y, _ = self.label_sums
        d = self.moments.n_features
        outputs = slice(None) if self.outputs is None else self.outputs
        Q = self.labelled
        diagonal = Q.diagonal + self.ridge_class
        scatter = self._scatter_diagonal(self._group_weights)
        factor = self.factor(diagonal, Q.scale, Q.gram, scatter, "the class predictor's matrix")
        top = T[:d][outputs]
        if Q.cross is None:
            return factor.solve(top), np.zeros(T.shape[1])
        # Eliminate z₀: (K − uuᵀ/n) Z = T − uY/n, a rank-one change of the factorised K
        u = Q.cross[outputs][:, None]
        n = Q.count
        solved = factor.solve(np.hstack([top - u * (Y / n), u]))
        plain, Ku = solved[:, :-1], solved[:, -1:]
        Z = plain + Ku @ (u.T @ plain) / (n - float((u.T @ Ku).item()))
        return Z, np.asarray((Y - u.ravel() @ Z) / n)

    def class_term(self, Z: Matrix, z0: Vector) -> PredictionTerm:
        """λ L2 without its penalty, for given Z and z₀."""
        T, _, norm = self.label_sums
        return PredictionTerm(self._class_loss_weight, self.labelled, T, norm, Z, z0)

    @cached_property
    def domain_term(self) -> PredictionTerm:
        """γ L_d: the domain predictor z_D (learned once, on clean rows) and what it should say."""
        targets = domain_targets(self.moments)
        moments, center = self.moments, self.center
        sums = moments.sums + moments.counts[:, None] * (moments.shift - center)
        outputs = slice(None) if self.outputs is None else self.outputs
        d = moments.n_features
        scatter = self._scatter_diagonal(None)
        ridge = self.settings.ridge_domain
        if self.settings.scaling == "relative":  # z_D is learned on clean rows
            ridge *= float(scatter.mean())
        factor = self.factor(
            np.full(d, ridge),
            np.ones(d),
            self.gram,
            scatter,
            "the domain predictor's matrix",
        )
        z_domain = factor.solve(sums.T[outputs] @ targets.labels)
        z0 = np.zeros(len(targets.wanted))
        ones = self.scale * sums.sum(0)
        if self.bias:
            z0 = moments.counts @ targets.labels / self.count
            ones = np.append(np.zeros(d), self.count)
        weight = self.settings.domain_loss_weight * targets.weight
        if self.settings.scaling == "relative":
            weight *= len(z0) / max(float(np.vdot(z_domain, z_domain)), np.finfo(float).tiny)
        return PredictionTerm(
            weight,
            self.all_rows,
            np.outer(ones, targets.wanted),
            self.count * float(targets.wanted @ targets.wanted),
            z_domain,
            z0,
        )

    # Losses of W = I --------------------------------------------------------------------------

    def identity_loss(self, model: Model) -> float:
        """L1 + γ MMD at W = I, without a bias row."""
        outputs = slice(None) if self.outputs is None else self.outputs
        a, s2 = self.scale[outputs], self._squares[outputs]
        value = ((1 - a) ** 2 * s2 + self.all_rows.diagonal[outputs]).sum()
        value += self.ridge * self.n_outputs
        term = self._discrepancy(model.discrepancies if self.has_target else "")
        if term is not None:
            value += (term.rows[:, outputs] ** 2).sum() + term.diagonal[outputs].sum()
        return float(value)

    @property
    def squared_norm(self) -> float:
        """‖X‖² of the reconstructed features, about the centre."""
        diagonal = self._scatter_diagonal(None)
        return float(diagonal.sum() if self.outputs is None else diagonal[self.outputs].sum())
