"""Criteria that read predictions of target rows alone: candidates on the noise path share it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import rankdata

from marda._memory import available_memory
from marda.criteria import entropy, mutual_information, soft_neighbourhood_density
from marda.criteria.neighbours import Neighbours, label_agreement, nearest_neighbours
from marda.estimators import MDAClassifier
from marda.noise_paths import SHARED, PathCandidates, on_path, path_bytes
from marda.selection.committee import spread_of
from marda.selection.trials import Candidate, Trials

__all__ = ["QUICK", "by_target_predictions", "judge", "target_scores"]

Matrix = NDArray[np.float64]
Index = NDArray[np.int64]

#: Standardised scores times this, in a softmax, are the probabilities that candidates are judged
#: by: a strong ridge makes scores small, which says nothing about predictions.
SHARPNESS = 2.5
NEIGHBOURS = 10
#: Beyond, an eigendecomposition takes minutes, and separate fits share what they can.
MAX_BASIS = 6000


@dataclass(frozen=True)
class _Evidence:
    """Probabilities and labels of target rows, and who lies next to whom."""

    P: Matrix
    labels: Index
    neighbours: Neighbours | None
    shared: Matrix  # mean probabilities of all candidates

    @property
    def agreement(self) -> float:
        return 0.0 if self.neighbours is None else label_agreement(self.neighbours, self.labels)[0]


QUICK: dict[str, Callable[[_Evidence], float]] = {
    "entropy": lambda e: -entropy(e.P),
    "mutual_information": lambda e: mutual_information(e.P),
    "snd": lambda e: soft_neighbourhood_density(e.P),
    "neighbours": lambda e: e.agreement,
    # how likely this candidate and another one name the same class
    "consensus": lambda e: float(np.einsum("ij,ij->", e.P, e.shared) / len(e.P)),
    "auto": lambda e: 0.0,  # by rank, once all are known
}
#: What "auto" combines: what neighbours share, what candidates share, and how sure and spread over
#: classes a candidate is itself. Each alone has a way to be fooled: labels that are smooth and
#: wrong, the middle of the grid, a model that is sure of anything.
COMBINED = ("neighbours", "consensus", "mutual_information")


def by_target_predictions(trials: Trials, scoring: str) -> list[dict[str, Any]]:
    """Every candidate with what a criterion of `QUICK` says of it."""
    return judge(trials, target_scores(trials), scoring)


def target_scores(trials: Trials) -> list[Matrix]:
    """Scores of target rows by every candidate, which any criterion can judge."""
    scored: dict[int, Matrix] = {}
    for kind in trials.views:
        places = _on_view(trials, kind)
        trials.say(f"scoring {len(places)} candidates on {kind} rows")
        found = _view_scores([trials.candidates[k] for k in places], trials.rows(kind), trials)
        scored |= dict(zip(places, found, strict=True))
    return [scored[k] for k in range(len(trials.candidates))]


def judge(trials: Trials, scores: list[Matrix], scoring: str) -> list[dict[str, Any]]:
    """Every candidate with what a criterion of `QUICK` says of its scores; most is best."""
    wanted = COMBINED if scoring == "auto" else (scoring,)
    near: dict[int, Neighbours | None] = {}
    for kind in trials.views:
        close = None
        if "neighbours" in wanted and len(trials.target) > NEIGHBOURS:
            rows = trials.rows(kind)[trials.target]
            close = nearest_neighbours(rows, NEIGHBOURS, random_state=trials.seed)
        near |= dict.fromkeys(_on_view(trials, kind), close)
    table = []
    sharp = [softmax(SHARPNESS * S / spread_of(S), axis=1) for S in scores]
    shared = np.mean(sharp, axis=0)
    for k, (one, P) in enumerate(zip(trials.candidates, sharp, strict=True)):
        evidence = _Evidence(P, P.argmax(1), near[k], shared)
        criteria = {name: QUICK[name](evidence) for name in wanted}
        table.append({**one.to_json(), **criteria, "score": criteria[wanted[0]]})
    if scoring == "auto":
        ranks = np.mean([rankdata([row[name] for row in table]) for name in COMBINED], axis=0)
        for row, rank in zip(table, ranks.tolist(), strict=True):
            row["score"] = rank / len(table)
    return table


def _on_view(trials: Trials, kind: str) -> list[int]:
    """Places of the candidates that look at this view."""
    return [k for k, c in enumerate(trials.candidates) if c.inputs == kind]


def _view_scores(candidates: list[Candidate], rows: Any, trials: Trials) -> list[Matrix]:
    """Scores of target rows by every candidate; those on the noise path share its basis."""
    target = trials.target
    found: dict[int, Matrix] = {}
    room = available_memory() // 2
    groups: dict[tuple[str, ...], list[int]] = {}
    defaults = MDAClassifier().get_params(deep=False)
    for k, one in enumerate(candidates):
        if on_path(one.parameters):
            shared = tuple(repr(one.parameters.get(n, defaults[n])) for n in SHARED)
            groups.setdefault(shared, []).append(k)
    for places in groups.values():
        # The eigendecomposition costs as much as two fits, and much memory for many columns.
        if len(places) < 3 or min(rows.shape) > MAX_BASIS or path_bytes(*rows.shape) > room:
            continue
        first = {**defaults, **candidates[places[0]].parameters}
        shared_values = {name: first[name] for name in SHARED}
        path = PathCandidates(rows, trials.labels, trials.domain, **shared_values)
        scored = path.scores([candidates[k].parameters for k in places], target)
        found |= dict(zip(places, scored, strict=True))
    problems: dict[Any, Any] = {}
    for k, one in enumerate(candidates):
        if k not in found:
            model = trials.fit(one, rows, problems=problems)
            found[k] = model._class_scores(rows[target])
    return [found[k] for k in range(len(candidates))]
