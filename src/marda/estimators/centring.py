"""Where to centre a source: at the mean that it would have with the target's class shares.

Centred each at its own mean, domains that differ in class shares alone would be pulled apart. The
source is therefore centred at Σ_c π_c μ_c with π the shares of the target, which nobody knows.
Guesses: equal shares, the source's own, those that a model without centring predicts (right where
domains differ in shares alone), and from the best of these on those that the model itself predicts
(centre, predict, count, centre again). A wrong centre draws borders through the middle of the
target's classes, where models disagree (skill.py). Equal shares are left only for a guess under
which they agree more, by a standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marda.estimators.labellers import RidgeLabeller
from marda.estimators.refine import Rows
from marda.estimators.skill import target_skill

__all__ = ["Centred", "Centring"]

Shares = NDArray[np.float64]

#: Shares that differ by less, in total variation, are the same.
SAME = 0.02
#: Rounds of centring by predicted shares.
ROUNDS = 3


@dataclass(frozen=True)
class Centred:
    """A guess at the target's class shares, features centred for it, and the skill they show."""

    shares: Shares
    labeller: RidgeLabeller
    skill: float


@dataclass(frozen=True)
class Centring:
    """What guesses are tried on.

    Attributes
    ----------
    place : callable
        Shares → a labeller on features that are centred for them; None: that are not centred.
    rows : Rows
        Labelled rows of the source, and free rows.
    source_skill, ridge : float
        Of the classifier, whatever the centre.
    seed : int
        Draws the thirds of the source whose models are compared.
    """

    place: Callable[[Shares | None], RidgeLabeller]
    rows: Rows
    source_skill: float
    ridge: float
    seed: int = 0

    def judged(self, shares: Shares, labeller: RidgeLabeller) -> Centred:
        """A guess with the skill on the target that it shows."""
        rows = self.rows
        given = (labeller, rows.labelled, rows.codes, rows.weights, rows.free)
        return Centred(shares, labeller, target_skill(*given, self.source_skill, self.seed))

    def best(self, equal: Centred) -> Centred:
        """`equal`, which is given, or a guess that is better by a standard error."""
        best = equal
        own = _shares(self.rows.codes, len(equal.shares))
        for shares in (own, self._predicted(self.placed(None))):
            if _distance(shares, equal.shares) > SAME:
                best = self._better(best, self.judged(shares, self.placed(shares)), equal)
        shares, labeller = best.shares, best.labeller
        for _ in range(ROUNDS):
            predicted = self._predicted(labeller)
            if _distance(predicted, shares) <= SAME:
                break
            shares, labeller = predicted, self.placed(predicted)
        if shares is not best.shares:
            best = self._better(best, self.judged(shares, labeller), equal)
        return best

    def _better(self, best: Centred, guess: Centred, equal: Centred) -> Centred:
        # Agreement is a share of the free rows: its standard error is at most ½/√n
        margin = 0.5 / np.sqrt(len(self.rows.free)) if best is equal else 0.0
        return guess if guess.skill > best.skill + margin else best

    def placed(self, shares: Shares | None) -> RidgeLabeller:
        """A labeller on features that are centred for these shares, with the ridge of all."""
        labeller = self.place(shares)
        labeller.ridge = self.ridge
        return labeller

    def _predicted(self, labeller: RidgeLabeller) -> Shares:
        rows = self.rows
        scores = labeller.fit(rows.labelled, rows.codes, rows.weights)
        return _shares(scores[rows.free].argmax(1), scores.shape[1])


def _shares(codes: NDArray[np.int64], n_classes: int) -> Shares:
    return np.bincount(codes, minlength=n_classes) / len(codes)


def _distance(one: Shares, other: Shares) -> float:
    return float(np.abs(one - other).sum() / 2)
