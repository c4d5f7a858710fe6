"""A search over candidates by label-free criteria: the best one, fitted on all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import Labels
from marda.estimators.fitting import Shared
from marda.selection.committee import Member
from marda.selection.quick import QUICK, by_target_predictions
from marda.selection.scorers import get_criterion
from marda.selection.trials import Candidate, LeftOut, Trials
from marda.selection.views import make_view

__all__ = ["Found", "search"]


@dataclass(frozen=True)
class Found:
    """The winner, fitted; what was said of all candidates; left-out source rows."""

    member: Member
    index: int
    parameters: dict[str, Any]
    table: list[dict[str, Any]]
    left_out: list[LeftOut]


def search(
    candidates: list[Candidate],
    X: Any,
    labels: Labels,
    domain: NDArray[np.int64],
    scoring: Any,
    seed: int,
    say: Callable[[str], None],
    *,
    folds: bool = True,
) -> Found:
    """Score every candidate, fit the best on all rows; with folds, also without some of them."""
    views = {kind: make_view(kind, X) for kind in dict.fromkeys(c.inputs for c in candidates)}
    trials = Trials(candidates, views, X, labels, domain, seed, say)
    target = trials.target
    if not len(target):
        table = _by_accuracy(trials)
    elif scoring in QUICK:
        table = by_target_predictions(trials, str(scoring))
    else:
        table = _held_out(trials, get_criterion(scoring))
    index = int(np.argmax([row["score"] for row in table]))
    best = candidates[index]
    say(f"fitting the best of {len(candidates)} candidates")
    rows = trials.rows(best.inputs)
    model = trials.fit(best, rows)
    name = str(best.parameters.get("method", "S1D"))
    view, known = views[best.inputs], X[target] if len(target) else X
    member = Member.of(name, view, model, 1.0, model.model_.scores(view.apply(known)))
    left_out = trials.left_out(best, rows) if folds else []
    return Found(member, index, best.to_json(), table, left_out)


def _held_out(trials: Trials, criterion: Any) -> list[dict[str, Any]]:
    """Fit without a third of the source rows; the criterion sees these and the target rows."""
    labels, domain = trials.labels, trials.domain
    held, fitted = next(trials.split(np.flatnonzero(domain >= 0)))
    seen = np.concatenate([held, trials.target])
    y = labels.classes[np.maximum(labels.codes, 0)]
    table = []
    shared: dict[str, Shared] = {}
    for one in trials.each():
        rows = trials.rows(one.inputs)
        model = trials.fit(one, rows, fitted, shared.setdefault(one.inputs, Shared()))
        score = criterion(model, rows[seen], y[seen], sample_domain=domain[seen])
        table.append({**one.to_json(), "score": float(score)})
    return table


def _by_accuracy(trials: Trials) -> list[dict[str, Any]]:
    """Without a target, cross-validated balanced accuracy: what a plain search would do."""
    table = []
    for one in trials.each():
        parts = trials.left_out(one, trials.rows(one.inputs))
        right = [(S.argmax(1) == codes, codes) for _, codes, S in parts]
        hit = np.concatenate([r for r, _ in right]) if right else np.zeros(1)
        codes = np.concatenate([c for _, c in right]) if right else np.zeros(1)
        score = float(np.mean([hit[codes == c].mean() for c in np.unique(codes)]))
        table.append({**one.to_json(), "score": score})
    return table
