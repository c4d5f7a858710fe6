"""Pseudo-labels: confident target rows beside the labelled ones, chosen anew in every round.

Round k of n takes the ⌈k/n · m⌉ most confident of the m target rows that the round before put into
a class, of every class, and fits again on these and the labelled rows. A row that was taken before
may be left out, or have another label. As shares are taken class by class, an easy class cannot
crowd out a hard one. A round is judged by what it cannot make up: whether neighbours in the
features of before the first round agree on their labels, and, where the features are learned again,
whether they still tell source classes apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.metrics.pairwise import euclidean_distances

from marda.criteria import Agreement, Neighbours, label_agreement

Matrix = NDArray[np.floating]
Vector = NDArray[np.floating]
Index = NDArray[np.int64]

#: Softmax of this many times the scores ranks and weighs confidence.
CONFIDENCE_SHARPNESS = 2.5
#: Labels have settled when, with half of the rows in, two rounds change at most this share of them.
#: Earlier a round adds so few rows that it often changes nothing, and yet the next ones do.
SETTLED = 1e-3
#: A round is worse if evidence falls by this many standard errors.
TOLERANCE = 3.0
#: What it means that a piece of evidence fell, and the share of it that may be lost: features that
#: bring the classes of two domains together lose a little of what tells source classes apart.
WORSE = (
    ("target rows that lie close together agree on a class less often than before", 0.0),
    ("the features tell source classes apart less well than before", 0.1),
)
#: A labelled target row counts for at most this many rows of the source.
TARGET_WEIGHT = 10.0

Fit = Callable[[Index, Index, Vector], Matrix]


class RefinementWarning(UserWarning):
    """Self-training made things worse by label-free evidence and was undone."""


@dataclass(frozen=True)
class Round:
    """One round: rows kept of the target, rows whose label changed, agreement of neighbours."""

    schedule: int
    number: int
    kept: int
    changed: int
    agreement: float
    standard_error: float
    used: bool


@dataclass(frozen=True)
class LabelPool:
    """Who is labelled, who may be, and how they weigh.

    Attributes
    ----------
    labelled, codes, weights : arrays of shape (n_labelled,)
        Rows with a label, their classes and weights.
    free : array of shape (n_free,)
        Target rows without a label.
    balanced : bool
        Classes of rows with pseudo-labels weigh the same in sum.
    neighbours : Neighbours, default=None
        Of the free rows, in features that no round changes; None: no guard.
    """

    labelled: Index
    codes: Index
    weights: Vector
    free: Index
    balanced: bool
    neighbours: Neighbours | None = None

    def of(self, some: NDArray[np.bool_]) -> LabelPool:
        """With some of the labelled rows alone."""
        kept = self.labelled[some], self.codes[some], self.weights[some]
        return replace(self, labelled=kept[0], codes=kept[1], weights=kept[2])

    def sample(self, n: int, seed: int = 0) -> tuple[Index, LabelPool]:
        """At most n labelled rows, a share of every class, and n free ones; who they are.

        Those are rows 0, 1 … of what is given back.
        """
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.codes))
        rank = np.empty(len(order))  # from 0 to 1 within a class
        for c in np.unique(self.codes):
            mine = order[self.codes[order] == c]
            rank[mine] = (np.arange(len(mine)) + 0.5) / len(mine)
        some = np.sort(np.argsort(rank, kind="stable")[:n])
        who = np.concatenate([self.labelled[some], np.sort(rng.permutation(self.free)[:n])])
        labelled, free = np.split(np.arange(len(who)), [len(some)])
        drawn = LabelPool(labelled, self.codes[some], self.weights[some], free, self.balanced)
        return who, drawn


def balanced_weights(codes: Index, n_classes: int) -> Vector:
    """Weights of mean 1 that give every class the same sum."""
    counts = np.bincount(codes, minlength=n_classes)
    present = max(1, int((counts > 0).sum()))
    return np.asarray((len(codes) / present / np.maximum(counts, 1))[codes])


def refine(
    fit: Fit, rows: LabelPool, n_rounds: int, separation: Callable[[], Agreement] | None = None
) -> tuple[list[Round], Matrix]:
    """Fit on the labelled rows, then in rounds on those and rows with pseudo-labels.

    Parameters
    ----------
    fit : callable
        (rows, codes, weights) → scores of all rows, one column per class. Its last call is the one
        that holds.
    rows : LabelPool
        Labelled and free rows.
    n_rounds : int
        Rounds; labels that have settled skip to the last.
    separation : callable, default=None
        How well the features of the last fit tell source classes apart, where a fit changes them.

    Returns
    -------
    history : list of Round
        `used` tells the rounds that were kept.
    scores : array of shape (n_rows, n_classes)
        Of the fit that holds.
    """
    scores = fit(rows.labelled, rows.codes, rows.weights)
    history: list[Round] = []
    if not len(rows.free):
        return history, scores
    labels = scores[rows.free].argmax(1)
    best = _evidence(rows, labels, separation)
    none: Index = np.empty(0, dtype=np.int64)
    last: tuple[Index, Index, Vector] = (none, none, np.empty(0))
    calm, number = 0, 0
    while number < n_rounds:
        number = n_rounds if calm >= 2 else number + 1
        P = softmax(CONFIDENCE_SHARPNESS * np.asarray(scores[rows.free], dtype=np.float64), axis=1)
        kept = most_confident(labels, P.max(1), number / n_rounds)
        joined = (rows.free[kept], labels[kept], _weights(rows, labels[kept], P[kept].max(1)))
        new_scores = _fit_with(fit, rows, joined)
        new = new_scores[rows.free].argmax(1)
        changed = int((new != labels).sum())
        still = changed <= SETTLED * len(labels) and number > n_rounds / 2
        calm = calm + 1 if still else 0
        now = _evidence(rows, new, separation)
        why = [
            f"{what} ({after.value:.2f} after {before.value:.2f})"
            for (what, share), before, after in zip(WORSE, best, now, strict=True)
            if before.value - after.value
            > max(
                share * before.value,
                TOLERANCE * max(after.standard_error, before.standard_error),
            )
        ]
        history.append(Round(n_rounds, number, len(kept), changed, *now[0], used=not why))
        if why:
            warnings.warn(
                f"self-training was stopped and undone at round {number} of {n_rounds}: "
                f"{' and '.join(why)}. The model of the round before is kept; use fewer rounds, a "
                "smaller domain_loss_weight, or refine=0.",
                RefinementWarning,
                stacklevel=2,
            )
            return history, _fit_with(fit, rows, last)
        best = [max(pair, key=lambda a: a.value) for pair in zip(best, now, strict=True)]
        scores, labels, last = new_scores, new, joined
    return history, scores


def _fit_with(fit: Fit, rows: LabelPool, joined: tuple[Index, Index, Vector]) -> Matrix:
    """Fit on the labelled rows and these."""
    return fit(
        np.concatenate([rows.labelled, joined[0]]),
        np.concatenate([rows.codes, joined[1]]),
        np.concatenate([rows.weights, joined[2]]),
    )


def most_confident(labels: Index, confidence: Vector, share: float) -> Index:
    """The most confident share of the rows of every predicted class, in row order."""
    kept = np.zeros(len(labels), dtype=bool)
    for c in np.unique(labels):
        mine = np.flatnonzero(labels == c)
        order = np.argsort(-confidence[mine], kind="stable")
        kept[mine[order[: int(np.ceil(len(mine) * share))]]] = True
    return np.flatnonzero(kept)


def _weights(rows: LabelPool, labels: Index, confidence: Vector) -> Vector:
    """Confidence, with equal sums per class if balanced; in all as much as their number, at most
    as much as the labelled rows.
    """
    weights = np.asarray(confidence, dtype=np.float64)
    if rows.balanced:
        weights = weights * balanced_weights(labels, int(labels.max()) + 1)
    total = min(float(len(rows.labelled)), float(len(labels)))
    return np.asarray(weights * (total / weights.sum()))


def _evidence(
    rows: LabelPool, labels: Index, separation: Callable[[], Agreement] | None
) -> list[Agreement]:
    """What a round must not make worse, in the order of WORSE."""
    nothing = Agreement(0.0, 0.0)
    return [
        nothing if rows.neighbours is None else label_agreement(rows.neighbours, labels),
        nothing if separation is None else separation(),
    ]


def class_separation(F: Matrix, codes: Index) -> Agreement:
    """Share of rows nearest to the mean of their own class, which is taken without them."""
    values, codes = np.unique(codes, return_inverse=True)
    counts = np.bincount(codes).astype(F.dtype)
    sums = np.zeros((len(values), F.shape[1]), dtype=F.dtype)
    np.add.at(sums, codes, F)
    distances = euclidean_distances(F, sums / counts[:, None], squared=True)
    own, n = distances[np.arange(len(F)), codes], counts[codes]
    # Without x, the mean of its class lies n/(n − 1) times as far from x as with it.
    left_out = np.where(n > 1, own * (n / np.maximum(n - 1, 1)) ** 2, np.inf)
    distances[np.arange(len(F)), codes] = left_out
    right = distances.argmin(1) == codes
    return Agreement(float(right.mean()), float(right.std() / np.sqrt(len(right))))
