"""Does adaptation help? What the labelled rows of the target say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import KFold

from marda._order import row_order
from marda.adaptation.reading import Data, Progress, silent
from marda.diagnostics import Interval
from marda.diagnostics.intervals import bootstrap_mean
from marda.diagnostics.verdict import FEW_LABELS, Judged, Verdict, judged_verdict
from marda.estimators import MDAClassifier

__all__ = ["FEW_LABELS", "Judgement", "Pair", "judge", "mcnemar", "pairs_of"]

LEVEL = 0.05
FOLDS = 5
#: Operations of one fit from which on a fifth of the labels judges alone.
EXPENSIVE_FIT = 1e10


@dataclass(frozen=True)
class Pair:
    """Two methods on the same rows: accuracy of a − b, exact McNemar p, after Holm's correction."""

    a: str
    b: str
    difference: Interval
    p_value: float
    significant: bool


@dataclass(frozen=True)
class Judgement:
    """Labelled target rows, each predicted by models that had not seen its label.

    Attributes
    ----------
    confusion : array of shape (n_classes, n_classes)
        Counts by true and predicted class, of the adapted classifier.
    adapted, plain : Interval
        Share of rows that are right, with adaptation and without it (BL).
    gain : Interval
        Their difference, on the same rows.
    p_value : float
        Exact McNemar test of no difference.
    """

    confusion: NDArray[np.int64]
    adapted: Interval
    plain: Interval
    gain: Interval
    p_value: float

    @property
    def n_rows(self) -> int:
        """Rows that judged."""
        return int(self.confusion.sum())

    def judged(self, *, every: bool = False) -> Judged:
        """The figures that verdicts follow from; `every`: all target rows have labels."""
        commonest = float(self.confusion.sum(1).max() / self.n_rows)
        shares = self.adapted, self.plain, self.gain
        return Judged(*shares, self.p_value, self.n_rows, commonest, every)

    def verdict(self, *, every: bool = False) -> Verdict:
        """What these rows say of adaptation."""
        return judged_verdict(self.judged(every=every))


def judge(data: Data, model: Any, progress: Progress = silent) -> Judgement | None:
    """Cross-validate on the labelled target rows; None where they are too few.

    Where a fit is expensive, one fifth of the labels is held out and judges alone.

    Parameters
    ----------
    data : Data
        Rows and labels.
    model : classifier
        Whose parameters are judged; it is cloned and fitted once per fold.
    progress : callable
        Told the share of the folds that are done.
    """
    places = np.flatnonzero(data.known)
    if len(places) < FEW_LABELS:
        return None
    places = places[row_order(data.Xt[places])]  # folds do not depend on how rows came
    X, y, domain, mark = data.packed()
    unlabelled = data.packed(target_labels=False)[1]
    plain = MDAClassifier("BL", unlabeled=mark)
    folds = KFold(FOLDS, shuffle=True, random_state=0).split(places)
    cost = float(X.shape[0]) * X.shape[1] * min(X.shape)
    judges, guesses = [], []
    n_folds = FOLDS if cost < EXPENSIVE_FIT else 1
    for k, (_, held) in enumerate(islice(folds, n_folds)):
        progress(k / n_folds, f"judging, {k + 1} of {n_folds}")
        hidden = len(data.ys) + places[held]
        shown = y.copy()
        shown[hidden] = unlabelled[hidden]
        fitted = [clone(m).fit(X, shown, sample_domain=domain) for m in (model, plain)]
        guesses.append([m.predict(data.Xt[places[held]]) for m in fitted])
        judges.append(places[held])
    truth = data.yt[np.concatenate(judges)]
    adapted, unadapted = (np.concatenate(part) for part in zip(*guesses, strict=True))
    right = [np.asarray(guess == truth) for guess in (adapted, unadapted)]
    return Judgement(
        confusion_matrix(truth, adapted, labels=model.classes_),
        bootstrap_mean(right[0]),
        bootstrap_mean(right[1]),
        bootstrap_mean(right[0].astype(float) - right[1]),
        mcnemar(*right),
    )


def mcnemar(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Exact two-sided p-value: rows that only one gets right are split evenly by chance."""
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    if only_a + only_b == 0:
        return 1.0
    return float(binomtest(only_a, only_a + only_b).pvalue)


def pairs_of(methods: Sequence[str], right: list[NDArray[np.bool_]]) -> tuple[Pair, ...]:
    """All pairs; Holm's correction, since many pairs find a difference by chance."""
    places = list(combinations(range(len(methods)), 2))
    p_values = [mcnemar(right[i], right[j]) for i, j in places]
    adjusted = np.zeros(len(places))
    largest = 0.0
    for rank, k in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(places) - rank) * p_values[k]))
        adjusted[k] = largest
    return tuple(
        Pair(
            methods[i],
            methods[j],
            bootstrap_mean(right[i].astype(float) - right[j]),
            float(p),
            bool(p < LEVEL),
        )
        for (i, j), p in zip(places, adjusted, strict=True)
    )
