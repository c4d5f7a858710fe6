"""A search over candidates: scored together where the noise path allows, by label-free criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import rankdata
from sklearn.model_selection import KFold, ParameterGrid

from marda._memory import available_memory
from marda._validation import UNLABELED, Labels
from marda.criteria import entropy, mutual_information, soft_neighbourhood_density
from marda.criteria.neighbours import Neighbours, label_agreement, nearest_neighbours
from marda.estimators import MDAClassifier
from marda.selection.candidates import SHARED, PathCandidates, on_path, path_bytes
from marda.selection.committee import Member, spread_of
from marda.selection.scorers import get_criterion
from marda.selection.views import View, make_view

__all__ = ["Candidate", "Found", "expand", "search"]

Matrix = NDArray[np.float64]
Index = NDArray[np.int64]

#: Standardised scores times this, in a softmax, are the probabilities that candidates are judged
#: by: a strong ridge makes scores small, which says nothing about predictions.
SHARPNESS = 2.5
NEIGHBOURS = 10
FOLDS = 3
#: Beyond, an eigendecomposition takes minutes, and separate fits share what they can.
MAX_BASIS = 6000


@dataclass(frozen=True)
class Candidate:
    """Parameters of `MDAClassifier`, and the view of the inputs."""

    inputs: str
    parameters: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As the user wrote it."""
        return {**self.parameters, "inputs": self.inputs}


@dataclass(frozen=True)
class Found:
    """The winner, fitted; what was said of all candidates; left-out source rows."""

    member: Member
    index: int
    parameters: dict[str, Any]
    table: list[dict[str, Any]]
    left_out: list[tuple[Index, Index, Matrix]]


def expand(
    grids: Mapping[str, Any] | Sequence[Mapping[str, Any]], class_weight: Any
) -> list[Candidate]:
    """Every candidate of one or several grids; all parameters are checked."""
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
) -> Found:
    """Score every candidate, fit the best on all rows; with folds, also without some of them."""
    views = {kind: make_view(kind, X) for kind in {c.inputs for c in candidates}}
    target = np.flatnonzero(domain < 0)
    if scoring in QUICK and len(target):
        table = _quick(candidates, views, X, labels, domain, str(scoring), seed, say)
    elif not len(target):
        table = _by_accuracy(candidates, views, X, labels, domain, seed, say)
    else:
        criterion = get_criterion(scoring)
        table = _held_out(candidates, views, X, labels, domain, criterion, seed, say)
    index = int(np.argmax([row["score"] for row in table]))
    best = candidates[index]
    say(f"fitting the best of {len(candidates)} candidates")
    view = views[best.inputs]
    rows = view.apply(X)
    model = _fit(best, rows, labels, domain, seed)
    seen = rows[target] if len(target) else rows
    member = Member(
        str(best.parameters.get("method", "S1D")),
        view,
        model,
        1.0,
        spread_of(model._class_scores(seen)),
    )
    left_out = _folds(best, rows, labels, domain, seed) if folds else []
    return Found(member, index, best.to_json(), table, left_out)


def _fit(
    one: Candidate,
    rows: Any,
    labels: Labels,
    domain: Index,
    seed: int,
    problems: dict[Any, Any] | None = None,
) -> MDAClassifier:
    model = MDAClassifier(**one.parameters, random_state=seed)
    model._problems = problems
    model._fit_checked(rows, labels, domain)
    model._problems = None
    return model


# Criteria that read predictions of target rows alone ----------------------------------------------


@dataclass(frozen=True)
class _Evidence:
    """Probabilities and labels of target rows, and who lies next to whom."""

    P: Matrix
    labels: Index
    neighbours: Neighbours | None
    majority: Index  # the labels of all candidates' mean probabilities

    @property
    def agreement(self) -> float:
        return 0.0 if self.neighbours is None else label_agreement(self.neighbours, self.labels)[0]


QUICK: dict[str, Callable[[_Evidence], float]] = {
    "entropy": lambda e: -entropy(e.P),
    "mutual_information": lambda e: mutual_information(e.P),
    "snd": lambda e: soft_neighbourhood_density(e.P),
    "neighbours": lambda e: e.agreement,
    "consensus": lambda e: float(np.mean(e.labels == e.majority)),
    "auto": lambda e: 0.0,  # by rank, once all are known
}
#: What "auto" combines: labels that neighbours share, and that most candidates do. Neighbours alone
#: like labels that are smooth and wrong, the majority alone likes the middle of the grid.
COMBINED = ("neighbours", "consensus")


def _quick(
    candidates: list[Candidate],
    views: Mapping[str, View],
    X: Any,
    labels: Labels,
    domain: Index,
    scoring: str,
    seed: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    target = np.flatnonzero(domain < 0)
    scored: dict[int, Matrix] = {}
    near: dict[int, Neighbours | None] = {}
    for kind, view in views.items():
        rows = view.apply(X)
        close = None
        if "neighbours" in _wanted(scoring) and len(target) > NEIGHBOURS:
            close = nearest_neighbours(rows[target], NEIGHBOURS, random_state=seed)
        places = [k for k, c in enumerate(candidates) if c.inputs == kind]
        say(f"scoring {len(places)} candidates on {kind} rows")
        found = _target_scores([candidates[k] for k in places], rows, labels, domain, seed)
        scored |= dict(zip(places, found, strict=True))
        near |= dict.fromkeys(places, close)
    order = range(len(candidates))
    return _judged(candidates, [scored[k] for k in order], [near[k] for k in order], scoring)


def _wanted(scoring: str) -> tuple[str, ...]:
    return COMBINED if scoring == "auto" else (scoring,)


def _judged(
    candidates: list[Candidate],
    scored: list[Matrix],
    near: list[Neighbours | None],
    scoring: str,
) -> list[dict[str, Any]]:
    """What the criteria say of every candidate's scores of target rows."""
    table = []
    sharp = [softmax(SHARPNESS * S / spread_of(S), axis=1) for S in scored]
    majority = np.mean(sharp, axis=0).argmax(1)
    for one, P, close in zip(candidates, sharp, near, strict=True):
        evidence = _Evidence(P, P.argmax(1), close, majority)
        criteria = {name: QUICK[name](evidence) for name in _wanted(scoring)}
        table.append({**one.to_json(), **criteria, "score": criteria[_wanted(scoring)[0]]})
    if scoring == "auto":
        ranks = np.mean([rankdata([row[name] for row in table]) for name in COMBINED], axis=0)
        for row, rank in zip(table, ranks.tolist(), strict=True):
            row["score"] = rank / len(table)
    return table


def _target_scores(
    candidates: list[Candidate], rows: Any, labels: Labels, domain: Index, seed: int
) -> list[Matrix]:
    """Scores of target rows by every candidate; those on the noise path share its basis."""
    target = np.flatnonzero(domain < 0)
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
        path = PathCandidates(rows, labels, domain, **{name: first[name] for name in SHARED})
        near = [k for k in places if path.close(candidates[k].parameters)]
        scored = path.scores([candidates[k].parameters for k in near], target)
        found |= dict(zip(near, scored, strict=True))
    problems: dict[Any, Any] = {}
    for k, one in enumerate(candidates):
        if k not in found:
            model = _fit(one, rows, labels, domain, seed, problems)
            found[k] = model._class_scores(rows[target])
    return [found[k] for k in range(len(candidates))]


# Criteria that read held-out source rows ----------------------------------------------------------


def _held_out(
    candidates: list[Candidate],
    views: Mapping[str, View],
    X: Any,
    labels: Labels,
    domain: Index,
    criterion: Any,
    seed: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Fit without a third of the source rows; the criterion sees these and the target rows."""
    source, target = np.flatnonzero(domain >= 0), np.flatnonzero(domain < 0)
    held = next(KFold(FOLDS, shuffle=True, random_state=seed).split(source))[1]
    fitted = np.setdiff1d(np.arange(len(domain)), source[held])
    seen = np.concatenate([source[held], target])
    y = labels.classes[np.maximum(labels.codes, 0)]
    part = labels._replace(codes=labels.codes[fitted])
    table = []
    problems: dict[str, dict[Any, Any]] = {}
    for k, one in enumerate(candidates):
        say(f"candidate {k + 1} of {len(candidates)}")
        rows = views[one.inputs].apply(X)
        shared = problems.setdefault(one.inputs, {})
        model = _fit(one, rows[fitted], part, domain[fitted], seed, shared)
        score = criterion(model, rows[seen], y[seen], sample_domain=domain[seen])
        table.append({**one.to_json(), "score": float(score)})
    return table


def _by_accuracy(
    candidates: list[Candidate],
    views: Mapping[str, View],
    X: Any,
    labels: Labels,
    domain: Index,
    seed: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Without a target, cross-validated balanced accuracy: what a plain search would do."""
    table = []
    for k, one in enumerate(candidates):
        say(f"candidate {k + 1} of {len(candidates)}")
        parts = _folds(one, views[one.inputs].apply(X), labels, domain, seed)
        right = [(S.argmax(1) == codes, codes) for _, codes, S in parts]
        hit = np.concatenate([r for r, _ in right]) if right else np.zeros(1)
        codes = np.concatenate([c for _, c in right]) if right else np.zeros(1)
        score = float(np.mean([hit[codes == c].mean() for c in np.unique(codes)]))
        table.append({**one.to_json(), "score": score})
    return table


def _folds(
    one: Candidate, rows: Any, labels: Labels, domain: Index, seed: int
) -> list[tuple[Index, Index, Matrix]]:
    """Left-out source rows: their places, classes, and scores by the fit without them."""
    source = np.flatnonzero((domain >= 0) & (labels.codes != UNLABELED))
    if len(source) < 2 * FOLDS:
        return []
    found = []
    for _, held in KFold(FOLDS, shuffle=True, random_state=seed).split(source):
        places = source[held]
        keep = np.setdiff1d(np.arange(len(domain)), places)
        part = labels._replace(codes=labels.codes[keep])
        if len(np.unique(part.codes[part.codes != UNLABELED])) < len(labels.classes):
            continue  # a class of this fold is in no other
        model = _fit(one, rows[keep], part, domain[keep], seed)
        found.append((places, labels.codes[places], model._class_scores(rows[places])))
    return found
