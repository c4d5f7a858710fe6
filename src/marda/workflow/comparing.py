"""Several methods on the same files; where target labels exist, which differ and how surely."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.diagnostics import Interval, mmd
from marda.estimators import MDAClassifier
from marda.io import InputError
from marda.workflow.data import (
    Data,
    PathLike,
    Progress,
    ReadOptions,
    input_errors,
    read_data,
    silent,
)
from marda.workflow.judging import bootstrap, mcnemar

__all__ = ["Compared", "MethodResult", "Pair", "compare"]

METHODS = ("BL", "MCF", "S1", "S1M", "S1D")
LEVEL = 0.05


@dataclass(frozen=True)
class MethodResult:
    """One method: accuracy on labelled target rows, agreement with the first method, MMD after."""

    method: str
    accuracy: Interval | None
    agreement: float
    mmd: Interval
    seconds: float


@dataclass(frozen=True)
class Pair:
    """Two methods on the same rows: accuracy of a − b, exact McNemar p, after Holm's correction."""

    a: str
    b: str
    difference: Interval
    p_value: float
    significant: bool


@dataclass(frozen=True)
class Compared:
    """What `compare` found."""

    results: tuple[MethodResult, ...]
    pairs: tuple[Pair, ...]
    n_source: int
    n_target: int
    n_labelled_target: int
    verdict: str
    notes: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        state = asdict(self)
        rows = {k[2:]: state.pop(k) for k in ("n_source", "n_target", "n_labelled_target")}
        return {"command": "compare", "rows": rows, **state, "seconds": round(self.seconds, 3)}


def compare(
    source: PathLike,
    target: PathLike,
    options: ReadOptions,
    *,
    methods: Sequence[str] = METHODS,
    progress: Progress = silent,
    **parameters: Any,
) -> Compared:
    """Fit every method without target labels; judge them by those labels, where there are any.

    Parameters
    ----------
    source, target, options, progress
        As in `adapt`; no method sees a target label, so that all of them can judge.
    methods : sequence of str
        Names of models; the first is the one that others are measured by.
    **parameters
        Of `MDAClassifier`, for all methods.
    """
    began = time.perf_counter()
    if len(methods) < 2 or len(set(methods)) < len(methods):
        raise InputError(f"compare needs two or more different methods, got {' '.join(methods)}.")
    progress(0.0, "reading")
    data = read_data(source, target, options)
    X, y, domain, mark = data.packed(target_labels=False)
    results, predictions, notes = [], [], list(data.notes)
    for k, method in enumerate(methods):
        progress(0.1 + 0.9 * k / len(methods), method)
        at = time.perf_counter()
        with input_errors() as messages:
            model = MDAClassifier(method, unlabeled=mark, **parameters)
            model.fit(X, y, sample_domain=domain)
            predictions.append(model.predict(data.Xt))
            spent = time.perf_counter() - at
            results.append(_result(method, data, model, predictions, spent))
        notes += messages
    progress(1.0, "done")
    right = [np.asarray(p[data.known] == data.yt[data.known]) for p in predictions]
    pairs = _pairs(methods, right) if data.known.any() else ()
    return Compared(
        tuple(results),
        pairs,
        len(data.ys),
        len(data.yt),
        int(data.known.sum()),
        _verdict(results, pairs, int(data.known.sum())),
        tuple(notes),
        time.perf_counter() - began,
    )


def _result(
    method: str, data: Data, model: MDAClassifier, predictions: list[NDArray[Any]], seconds: float
) -> MethodResult:
    predicted, known = predictions[-1], data.known
    accuracy = None
    if known.any():
        right = np.asarray(predicted[known] == data.yt[known], dtype=float)
        accuracy = bootstrap(right)
    rng = np.random.default_rng(0)
    rows = [X[np.sort(rng.permutation(X.shape[0])[:500])] for X in (data.Xs, data.Xt)]
    after = mmd(*(model.transform(X) for X in rows))
    agreement = float(np.mean(predicted == predictions[0]))
    return MethodResult(method, accuracy, agreement, after, seconds)


def _pairs(methods: Sequence[str], right: list[NDArray[np.bool_]]) -> tuple[Pair, ...]:
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
            bootstrap(right[i].astype(float) - right[j]),
            float(p),
            bool(p < LEVEL),
        )
        for (i, j), p in zip(places, adjusted, strict=True)
    )


def _verdict(results: list[MethodResult], pairs: tuple[Pair, ...], labelled: int) -> str:
    first = results[0].method
    scored = [(r.accuracy.value, r.method) for r in results if r.accuracy is not None]
    if not scored:
        return (
            "The target has no labels, so no method can be called better: label some target rows "
            f"(30 say little, 300 much). Agreement is with {first}."
        )
    best = max(scored, key=lambda s: s[0])
    if best[1] == first:
        return f"No method beats {first} on {labelled} labelled target rows."
    pair = next(p for p in pairs if {p.a, p.b} == {first, best[1]})
    word = "significantly better" if pair.significant else "not significantly better"
    return (
        f"{best[1]} is best ({best[0]:.1%} of {labelled} labelled target rows) and {word} than "
        f"{first} (p = {pair.p_value:.2g}, corrected)."
    )
