"""A search over candidates by label-free criteria: the best one, fitted on all rows.

The candidate with the highest score wins (math.md §15). Scores come, by what is given,

- from target predictions alone (`TARGET_CRITERIA`; candidates on the noise path share one
  factorisation, math.md §7),
- from a scorer on target rows and held-out source rows (`marda.selection.scorers`), or
- without a target, from the cross-validated balanced accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import rankdata
from sklearn.metrics import recall_score
from sklearn.model_selection import KFold, ParameterGrid

from marda._machine import available_memory
from marda._validation import UNLABELED, Labels, decode_labels
from marda.criteria import (
    Neighbours,
    entropy,
    label_agreement,
    mutual_information,
    nearest_neighbours,
    soft_neighbourhood_density,
)
from marda.estimators import MDAClassifier
from marda.estimators.classifier import fit_rows
from marda.estimators.fitting import Shared
from marda.estimators.model import TrainingRows
from marda.noise_paths import SHARED, PathCandidates, on_path, path_bytes
from marda.selection.ensemble import Member, spread_of
from marda.selection.inputs import Inputs, make_inputs
from marda.selection.scorers import get_criterion

Matrix = NDArray[np.float64]
Index = NDArray[np.int64]
#: Rows that a fit left out: their places, classes and scores.
LeftOut = tuple[Index, Index, Matrix]

FOLDS = 3
#: Standardised scores times this, in a softmax, are the probabilities that candidates are judged
#: by: a strong ridge makes scores small, which says nothing about predictions.
JUDGED_SHARPNESS = 2.5
NEIGHBOURS = 10
#: Beyond, an eigendecomposition takes minutes, and separate fits share what they can.
MAX_BASIS = 6000


@dataclass(frozen=True)
class SearchResult:
    """The winner, fitted; the scores of all candidates; left-out source rows."""

    member: Member
    index: int
    parameters: dict[str, Any]
    table: list[dict[str, Any]]
    left_out: list[LeftOut]


def search(
    candidates: list[Candidate],
    X: Any,
    labels: Labels,
    domain: Index,
    scoring: Any,
    seed: int,
    say: Callable[[str], None],
    *,
    folds: bool = True,
    mark: Any = UNLABELED,
) -> SearchResult:
    """Score every candidate, fit the best on all rows; with folds, also without some of them.

    A scorer sees the mark in the labels of rows that have none.
    """
    inputs = {kind: make_inputs(kind, X) for kind in dict.fromkeys(c.inputs for c in candidates)}
    trials = Trials(candidates, inputs, X, labels, domain, seed, say)
    target = trials.target
    if not len(target):
        table = _by_accuracy(trials)
    elif scoring in TARGET_CRITERIA:
        table = judge(trials, target_scores(trials), str(scoring))
    else:
        table = _held_out(trials, get_criterion(scoring), mark)
    index = int(np.argmax([row["score"] for row in table]))
    best = candidates[index]
    say(f"fitting the best of {len(candidates)} candidates")
    rows = trials.rows(best.inputs)
    model = trials.fit(best, rows, shared=trials.shared(best.inputs))
    name = str(best.parameters.get("method", "S1D"))
    seen, known = inputs[best.inputs], X[target] if len(target) else X
    member = Member.of(name, seen, model, 1.0, model.model_.scores(seen.apply(known)))
    left_out = trials.left_out(best, rows) if folds else []
    return SearchResult(member, index, best.to_json(), table, left_out)


# Candidates and their fits -----------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """Parameters of `MDAClassifier`, and the kind of its inputs."""

    inputs: str
    parameters: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As the user wrote it."""
        return {**self.parameters, "inputs": self.inputs}


def expand(
    grids: Mapping[str, Any] | Sequence[Mapping[str, Any]], class_weight: Any
) -> list[Candidate]:
    """Every candidate of one or several grids; all parameters are checked."""
    if not isinstance(grids, Mapping | Sequence):
        raise ValueError(
            f"candidates must be 'auto', a grid or a list of grids, got {type(grids).__name__}."
        )
    given = [grids] if isinstance(grids, Mapping) else list(grids)
    known = set(MDAClassifier().get_params(deep=False)) - {"unlabeled", "random_state", "verbose"}
    found = []
    for grid in given:
        if not isinstance(grid, Mapping):
            raise ValueError(f"a grid of candidates is a dict, got {type(grid).__name__}.")
        unknown = sorted(set(grid) - known - {"inputs"})
        if unknown:
            raise ValueError(
                f"candidates name {unknown[0]!r}, which is no parameter that a search can set; "
                f"it can set inputs, {', '.join(sorted(known))}."
            )
        lists = {k: v if isinstance(v, list | tuple | np.ndarray) else [v] for k, v in grid.items()}
        for one in ParameterGrid(lists):
            parameters = {"class_weight": class_weight, **one}
            found.append(Candidate(str(parameters.pop("inputs", "raw")), parameters))
    if not found:
        raise ValueError("candidates is empty: there is nothing to search.")
    return found


@dataclass(frozen=True)
class Trials:
    """What all candidates are tried on: the rows of a fit, as the inputs that they name."""

    candidates: list[Candidate]
    inputs: Mapping[str, Inputs]
    X: Any
    labels: Labels
    domain: Index
    seed: int
    say: Callable[[str], None]
    #: Sums of all rows, per kind of inputs: what fits of all rows have in common.
    moments: dict[str, Any] = field(default_factory=dict)

    def shared(self, kind: str) -> Shared:
        """For fits of all rows as inputs of a kind."""
        return Shared(moments=self.moments.setdefault(kind, {}))

    @property
    def target(self) -> Index:
        """Places of target rows."""
        return np.flatnonzero(self.domain < 0)

    def rows(self, kind: str) -> Any:
        """All rows, as inputs of a kind."""
        return self.inputs[kind].apply(self.X)

    def each(self) -> Iterator[Candidate]:
        """Every candidate, announced."""
        for k, one in enumerate(self.candidates):
            self.say(f"candidate {k + 1} of {len(self.candidates)}")
            yield one

    def fit(
        self,
        one: Candidate,
        rows: Any,
        keep: Index | None = None,
        shared: Shared | None = None,
    ) -> MDAClassifier:
        """Fit on rows, or on those at `keep`; factorisations are shared through `shared`."""
        labels, domain = self.labels, self.domain
        if keep is not None:
            rows, domain = rows[keep], domain[keep]
            labels = labels._replace(codes=labels.codes[keep])
        model = MDAClassifier(**one.parameters, random_state=self.seed)
        return fit_rows(model, TrainingRows(rows, labels, domain), shared)

    def split(self, places: Index) -> Iterator[tuple[Index, Index]]:
        """Folds of these rows, each with all rows but it."""
        for _, held in KFold(FOLDS, shuffle=True, random_state=self.seed).split(places):
            yield places[held], np.setdiff1d(np.arange(len(self.domain)), places[held])

    def left_out(self, one: Candidate, rows: Any) -> list[LeftOut]:
        """Labelled source rows, scored fold by fold by the fit without them."""
        codes = self.labels.codes
        source = np.flatnonzero((self.domain >= 0) & (codes != UNLABELED))
        if len(source) < 2 * FOLDS:
            return []
        found = []
        for held, keep in self.split(source):
            known = codes[keep][codes[keep] != UNLABELED]
            if len(np.unique(known)) < len(self.labels.classes):
                continue  # a class of this fold is in no other
            model = self.fit(one, rows, keep)
            found.append((held, codes[held], model.model_.scores(rows[held])))
        return found


# Scores -------------------------------------------------------------------------------------------


def _held_out(trials: Trials, criterion: Any, mark: Any) -> list[dict[str, Any]]:
    """Fit without a third of the source rows; the criterion sees these and the target rows."""
    labels, domain = trials.labels, trials.domain
    held, fitted = next(trials.split(np.flatnonzero(domain >= 0)))
    seen = np.concatenate([held, trials.target])
    y = decode_labels(labels, mark)
    table = []
    shared: dict[str, Shared] = {}
    for one in trials.each():
        rows = trials.rows(one.inputs)
        model = trials.fit(one, rows, fitted, shared.setdefault(one.inputs, Shared()))
        score = criterion(model, rows[seen], y[seen], sample_domain=domain[seen])
        table.append({**one.to_json(), "score": _number(score, one)})
    return table


def _number(score: Any, candidate: Candidate) -> float:
    """The score of a candidate: what is no number, or NaN, would be the best one to argmax."""
    try:
        found = float(score)
    except (TypeError, ValueError):
        found = np.nan
    if np.isnan(found):
        raise ValueError(
            f"scoring must give a number (higher is better), got {score!r} for the candidate "
            f"{candidate.to_json()}."
        )
    return found


def _by_accuracy(trials: Trials) -> list[dict[str, Any]]:
    """Without a target, cross-validated balanced accuracy: what a plain search would do."""
    table = []
    for one in trials.each():
        parts = trials.left_out(one, trials.rows(one.inputs))
        score = 0.0  # no fold holds every class
        if parts:
            codes = np.concatenate([codes for _, codes, _ in parts])
            chosen = np.concatenate([S.argmax(1) for _, _, S in parts])
            score = recall_score(codes, chosen, labels=np.unique(codes), average="macro")
        table.append({**one.to_json(), "score": float(score)})
    return table


# Criteria that read target predictions alone ------------------------------------------------------


@dataclass(frozen=True)
class _Evidence:
    """Probabilities and labels of target rows, and their nearest neighbours."""

    P: Matrix
    labels: Index
    neighbours: Neighbours | None
    shared: Matrix  # mean probabilities of all candidates

    @property
    def agreement(self) -> float:
        return 0.0 if self.neighbours is None else label_agreement(self.neighbours, self.labels)[0]


TARGET_CRITERIA: dict[str, Callable[[_Evidence], float]] = {
    "entropy": lambda e: -entropy(e.P),
    "mutual_information": lambda e: mutual_information(e.P),
    "snd": lambda e: soft_neighbourhood_density(e.P),
    "neighbours": lambda e: e.agreement,
    # how likely this candidate and another one name the same class
    "consensus": lambda e: float(np.einsum("ij,ij->", e.P, e.shared) / len(e.P)),
    "auto": lambda e: 0.0,  # by rank, once all are known
}
#: What "auto" combines: agreement of neighbours, agreement of candidates, and how sure and spread
#: over classes a candidate is itself. Each alone has a way to be fooled: labels that are smooth and
#: wrong, the middle of the grid, a model that is sure of anything.
COMBINED = ("neighbours", "consensus", "mutual_information")


def target_scores(trials: Trials) -> list[Matrix]:
    """Scores of target rows by every candidate, which any criterion can judge."""
    scored: dict[int, Matrix] = {}
    for kind in trials.inputs:
        places = _with_inputs(trials, kind)
        trials.say(f"scoring {len(places)} candidates on {kind} rows")
        some = [trials.candidates[k] for k in places]
        found = _scores_on(some, trials.rows(kind), trials, trials.shared(kind))
        scored |= dict(zip(places, found, strict=True))
    return [scored[k] for k in range(len(trials.candidates))]


def judge(trials: Trials, scores: list[Matrix], scoring: str) -> list[dict[str, Any]]:
    """Every candidate with its score by a criterion of `TARGET_CRITERIA`; the highest is best."""
    wanted = COMBINED if scoring == "auto" else (scoring,)
    near: dict[int, Neighbours | None] = {}
    for kind in trials.inputs:
        close = None
        if "neighbours" in wanted and len(trials.target) > NEIGHBOURS:
            rows = trials.rows(kind)[trials.target]
            close = nearest_neighbours(rows, NEIGHBOURS, random_state=trials.seed)
        near |= dict.fromkeys(_with_inputs(trials, kind), close)
    table = []
    sharp = [softmax(JUDGED_SHARPNESS * S / spread_of(S), axis=1) for S in scores]
    shared = np.mean(sharp, axis=0)
    for k, (one, P) in enumerate(zip(trials.candidates, sharp, strict=True)):
        evidence = _Evidence(P, P.argmax(1), near[k], shared)
        criteria = {name: TARGET_CRITERIA[name](evidence) for name in wanted}
        table.append({**one.to_json(), **criteria, "score": criteria[wanted[0]]})
    if scoring == "auto":
        ranks = np.mean([rankdata([row[name] for row in table]) for name in COMBINED], axis=0)
        for row, rank in zip(table, ranks.tolist(), strict=True):
            row["score"] = rank / len(table)
    return table


def _with_inputs(trials: Trials, kind: str) -> list[int]:
    """Places of the candidates with inputs of this kind."""
    return [k for k, c in enumerate(trials.candidates) if c.inputs == kind]


def _scores_on(
    candidates: list[Candidate], rows: Any, trials: Trials, factors: Shared
) -> list[Matrix]:
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
        path = PathCandidates(rows, trials.labels, trials.domain, **shared_values, shared=factors)
        scored = path.scores([candidates[k].parameters for k in places], target)
        found |= dict(zip(places, scored, strict=True))
    for k, one in enumerate(candidates):
        if k not in found:
            model = trials.fit(one, rows, shared=factors)
            found[k] = model.model_.scores(rows[target])
    return [found[k] for k in range(len(candidates))]
