"""The ensemble: a weighted sum of the scores of a few fitted models, and its temperature.

With members m of weight a_m, scores S_m and spread σ_m (the root mean square of S_m about its mean
over classes, on the target rows of the fit), the scores of the ensemble are (math.md §15)

    S(x) = Σ_m a_m (S_m(x) − mean over classes of S_m(x)) / σ_m,

and its probabilities softmax(τ S(x)), with the sharpness (inverse temperature) τ of math.md §14.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marda.estimators import MDAClassifier
from marda.selection.inputs import Inputs

__all__ = ["Ensemble", "Member", "Scorer", "spread_of"]

Matrix = NDArray[np.float64]
Index = NDArray[np.int64]


def spread_of(scores: Matrix) -> float:
    """Root mean square of scores about their mean over classes; 1 if there is none."""
    centred = scores - scores.mean(1, keepdims=True)
    return float(np.sqrt(np.mean(centred**2))) or 1.0


class Scorer(Protocol):
    """What a member needs of a fitted model."""

    def scores(self, rows: Any) -> Matrix:
        """Of rows, one column per class."""

    def get_params(self) -> dict[str, Any]:
        """What it is, for the record of a choice."""


@dataclass(frozen=True)
class Member:
    """A fitted model, the inputs it was fitted on, and its weight.

    Attributes
    ----------
    name : str
        For people.
    inputs : Inputs
        Applied to rows before the model.
    model : MDAClassifier or Scorer
        Fitted: an adapted classifier, or a source-only one (source_only.py).
    weight : float
        Of its standardised scores in the sum.
    spread : float
        Of its scores on the target rows of the fit, their unit.
    on_target : array of shape (n_target, n_classes), default=None
        These scores; known while an ensemble is made, and dropped with `frozen`.
    """

    name: str
    inputs: Inputs
    model: MDAClassifier | Scorer
    weight: float
    spread: float
    on_target: Matrix | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Inputs,
        model: MDAClassifier | Scorer,
        weight: float,
        scores: Matrix,
    ) -> Self:
        """A member, given its scores on the target rows of the fit."""
        spread = spread_of(scores)
        return cls(name, inputs, model, weight, spread, _standardised(scores, spread))

    @property
    def frozen(self) -> Self:
        """What predictions need of it."""
        return replace(self, on_target=None)

    @property
    def adapted(self) -> MDAClassifier | None:
        """The model, if it is one that denoises; None for a source-only one."""
        return self.model if isinstance(self.model, MDAClassifier) else None

    def scores(self, X: Any, places: Index | None = None) -> Matrix:
        """Scores about their mean over classes, in units of their spread.

        Rows with `places` are these target rows of the fit, whose scores may be known.
        """
        if places is not None and self.on_target is not None:
            return np.asarray(self.on_target[places])
        scorer = self.model.model_ if isinstance(self.model, MDAClassifier) else self.model
        return _standardised(scorer.scores(self.inputs.apply(X)), self.spread)


def _standardised(S: Matrix, spread: float) -> Matrix:
    return np.asarray((S - S.mean(1, keepdims=True)) / spread)


@dataclass(frozen=True)
class Ensemble:
    """Members, and the sharpness that turns the sum of their scores into probabilities."""

    members: tuple[Member, ...]
    sharpness: float = 1.0

    def scores(self, X: Any, places: Index | None = None) -> Matrix:
        """Weighted sum of the members' scores, one column per class."""
        return sum((m.weight * m.scores(X, places) for m in self.members), start=np.zeros(()))

    def probabilities(self, X: Any, places: Index | None = None) -> Matrix:
        """Softmax of the sharpened scores."""
        return np.asarray(softmax(self.sharpness * self.scores(X, places), axis=1))
