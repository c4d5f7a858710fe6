"""Several methods on the same files; where target labels exist, which differ and how surely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.criteria.rows import sample
from marda.diagnostics import (
    Evidence,
    Finding,
    Interval,
    a_distance,
    confusion,
    data_findings,
    denoise,
    domain_accuracy,
    gather,
    mmd,
    prediction_findings,
)
from marda.io import InputError
from marda.io.atomic import replacing
from marda.workflow.data import (
    Data,
    PathLike,
    Progress,
    ReadOptions,
    Watch,
    input_errors,
    read_data,
    silent,
)
from marda.workflow.judging import Pair, bootstrap, pairs_of
from marda.workflow.methods import AUTO, make_classifier
from marda.workflow.outputs import check_names

__all__ = ["Compared", "Details", "MethodResult", "compare"]

METHODS = ("BL", "S1", "S1M", "S1D", "auto")


@dataclass(frozen=True)
class MethodResult:
    """One method: accuracy on labelled target rows, agreement with the first method, MMD after."""

    method: str
    accuracy: Interval | None
    agreement: float
    mmd: Interval
    seconds: float


@dataclass(frozen=True)
class Details:
    """What a report shows beyond the figures, of one method.

    Attributes
    ----------
    a_distance : Interval or None
        Of denoised rows; None with fewer than five rows in a domain.
    confusion : array of shape (n_classes, n_classes), or None
        True and predicted classes of labelled target rows.
    evidence : Evidence
        Pictures, features, confidence.
    findings : tuple of Finding
        Warnings.
    """

    a_distance: Interval | None
    confusion: NDArray[np.int64] | None
    evidence: Evidence
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Compared:
    """What `compare` found; `details` (one a method) and `before` are for a report."""

    results: tuple[MethodResult, ...]
    pairs: tuple[Pair, ...]
    n_source: int
    n_target: int
    n_labelled_target: int
    verdict: str
    notes: tuple[str, ...]
    seconds: float
    files: tuple[str, ...]
    inputs: tuple[str, str]
    before: tuple[Interval | None, Interval] | None = None
    """Proxy A-distance and MMD of the rows as they came."""
    details: tuple[Details, ...] = ()
    times: tuple[tuple[str, float], ...] = ()

    @property
    def best(self) -> int:
        """Place of the method with most labelled rows right, or with the smallest MMD."""
        scores = [-r.mmd.value if r.accuracy is None else r.accuracy.value for r in self.results]
        return int(np.argmax(scores))

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        plain = replace(self, before=None, details=(), times=())
        state = asdict(plain)
        for name in ("inputs", "before", "details", "times"):
            del state[name]
        rows = {k[2:]: state.pop(k) for k in ("n_source", "n_target", "n_labelled_target")}
        return {"command": "compare", "rows": rows, **state, "seconds": round(self.seconds, 3)}


def compare(
    source: PathLike,
    target: PathLike,
    options: ReadOptions,
    *,
    methods: Sequence[str] = METHODS,
    report: tuple[PathLike, Callable[[Compared], str]] | None = None,
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
    report : path and function, default=None
        Where to write what the function makes of the result.
    **parameters
        Of `MDAClassifier`, for all methods but "auto", which chooses its own.
    """
    watch = Watch(progress)
    if len(methods) < 2 or len(set(methods)) < len(methods):
        raise InputError(f"compare needs two or more different methods, got {' '.join(methods)}.")
    watch(0.0, "reading")
    check_names((source, target), {"--report": None if report is None else report[0]})
    data = read_data(source, target, options)
    X, y, domain, mark = data.packed(target_labels=False)
    results, predictions, notes, details = [], [], list(data.notes), []
    for k, method in enumerate(methods):
        watch(0.1 + 0.8 * k / len(methods), method)
        at = watch.seconds
        with input_errors() as messages:
            own = {} if method == AUTO else parameters
            model = make_classifier(method, mark, **own)
            model.fit(X, y, sample_domain=domain)
            predictions.append(model.predict(data.Xt))
            spent = watch.seconds - at
            results.append(_result(method, data, model, predictions, spent))
            if report is not None:
                details.append(_details(data, model, predictions[-1]))
        notes += messages
    watch(0.9, "comparing")
    right = [np.asarray(p[data.known] == data.yt[data.known]) for p in predictions]
    pairs = pairs_of(methods, right) if data.known.any() else ()
    before = None if report is None else (_a_distance(*_sampled(data)), mmd(*_sampled(data)))
    watch(1.0, "done")
    result = Compared(
        tuple(results),
        pairs,
        len(data.ys),
        len(data.yt),
        int(data.known.sum()),
        _verdict(results, pairs, int(data.known.sum())),
        tuple(notes),
        watch.seconds,
        () if report is None else (str(report[0]),),
        (Path(source).name, Path(target).name),
        before,
        tuple(details),
        tuple(watch.times),
    )
    if report is not None:
        with replacing(report[0]) as file:
            file.write_text(report[1](result), encoding="utf-8")
    return result


def _result(
    method: str, data: Data, model: Any, predictions: list[NDArray[Any]], seconds: float
) -> MethodResult:
    predicted, known = predictions[-1], data.known
    accuracy = None
    if known.any():
        right = np.asarray(predicted[known] == data.yt[known], dtype=float)
        accuracy = bootstrap(right)
    after = mmd(*denoise(model, *_sampled(data)))
    agreement = float(np.mean(predicted == predictions[0]))
    return MethodResult(method, accuracy, agreement, after, seconds)


def _sampled(data: Data) -> list[Any]:
    """The rows that distances look at, the same for every method."""
    rng = np.random.default_rng(0)
    return [sample(X, 500, rng) for X in (data.Xs, data.Xt)]


def _a_distance(Xs: Any, Xt: Any) -> Interval | None:
    enough = min(Xs.shape[0], Xt.shape[0]) >= 5
    return a_distance(domain_accuracy(Xs, Xt)) if enough else None


def _details(data: Data, model: Any, predicted: NDArray[Any]) -> Details:
    known, classes = data.known, model.classes_
    names = data.preprocessing.features
    counts = confusion(classes, data.yt[known], predicted[known]) if known.any() else None
    evidence = gather(
        data.Xs,
        data.Xt,
        model,
        names=names,
        labels=data.ys,
        predicted=predicted,
        probabilities=model.predict_proba(data.Xt),
    )
    findings = data_findings(data.Xs, data.Xt, names)
    findings += prediction_findings(classes, data.ys, predicted)
    after = _a_distance(*denoise(model, *_sampled(data)))
    return Details(after, counts, evidence, tuple(findings))


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
