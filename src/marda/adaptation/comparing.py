"""Several methods on the same files; where target labels exist, which differ and how surely."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from marda._order import sample_places
from marda._progress import Listener, Watch, listening, silent, step
from marda.adaptation.methods import (
    ALIGNED,
    ALIGNED_ROWS,
    AUTO,
    BASELINES,
    Weights,
    compared_classifier,
    sample_notes,
)
from marda.adaptation.reading import (
    Data,
    Outputs,
    PathLike,
    ReadOptions,
    Sources,
    input_errors,
    names_of,
    read_data,
    sources_of,
)
from marda.diagnostics.diagnosis import (
    Evidence,
    Finding,
    a_distance,
    checks_of,
    data_findings,
    denoise,
    domain_accuracy,
    facts_of,
    gather,
    mmd,
    prediction_findings,
)
from marda.diagnostics.evaluation import Pair, pairs_of
from marda.diagnostics.intervals import Interval, share_right
from marda.diagnostics.verdict import Change, ComparisonFacts, Facts, compared_text
from marda.io import InputError
from marda.io.writing import replacing

METHODS = ("BL", "S1", "S1M", "S1D", "auto", *BASELINES)


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
    checks : tuple of str
        Codes of the findings that were looked for.
    facts : Facts
        What is known of this method.
    """

    a_distance: Interval | None
    confusion: NDArray[np.int64] | None
    evidence: Evidence
    findings: tuple[Finding, ...]
    checks: tuple[str, ...]
    facts: Facts


@dataclass(frozen=True)
class Compared:
    """What `compare` found.

    Attributes
    ----------
    commonest : float or None
        Share of the commonest class among labelled target rows.
    before : tuple of Interval, or None
        For a report: proxy A-distance and MMD of the rows as they came.
    details : tuple of Details
        For a report: one per method.
    """

    results: tuple[MethodResult, ...]
    pairs: tuple[Pair, ...]
    n_source: int
    n_target: int
    n_labelled_target: int
    commonest: float | None
    notes: tuple[str, ...]
    seconds: float
    times: tuple[tuple[str, float], ...]
    files: tuple[str, ...]
    inputs: tuple[str, str]
    before: tuple[Interval | None, Interval] | None = None
    details: tuple[Details, ...] = ()

    @property
    def best(self) -> int:
        """Place of the method with most labelled rows right, or with the smallest MMD."""
        shares = [r.accuracy.value if r.accuracy else -r.mmd.value for r in self.results]
        return int(np.argmax(shares))

    @property
    def facts(self) -> ComparisonFacts:
        """What a verdict follows from: the first method, the best one, and what lies between."""
        first, best = self.results[0], self.results[self.best]
        gain = p_value = None
        if best is not first and best.accuracy is not None:
            pair = next(p for p in self.pairs if {p.a, p.b} == {first.method, best.method})
            d, p_value = pair.difference, pair.p_value
            gain = d if pair.a == best.method else Interval(-d.value, -d.high, -d.low)
        return ComparisonFacts(
            first.method,
            best.method,
            self.n_target,
            self.n_labelled_target,
            first.accuracy,
            best.accuracy,
            gain,
            p_value,
            len(self.pairs),
            self.commonest,
            None if self.before is None else Change(self.before[1], best.mmd),
        )

    @property
    def verdict(self) -> str:
        """One sentence."""
        return compared_text(self.facts)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "command": "compare",
            "rows": {
                "source": self.n_source,
                "target": self.n_target,
                "labelled_target": self.n_labelled_target,
            },
            "results": [asdict(result) for result in self.results],
            "pairs": [asdict(pair) for pair in self.pairs],
            "verdict": self.verdict,
            "notes": self.notes,
            "seconds": round(self.seconds, 3),
            "files": self.files,
        }


def compare(
    source: Sources,
    target: PathLike,
    options: ReadOptions,
    *,
    methods: Sequence[str] | None = None,
    report: tuple[PathLike, Callable[[Compared], str]] | None = None,
    plots: tuple[PathLike, Callable[[Compared], Mapping[str, bytes]]] | None = None,
    progress: Listener = silent,
    **parameters: Any,
) -> Compared:
    """Fit every method without target labels; judge them by those labels, where there are any.

    Parameters
    ----------
    source, target, options, progress
        As in `adapt`; no method sees a target label, so that all of them can judge.
    methods : sequence of str
        Names of marda's models and of `baselines.BASELINES`; the first is the one that others are
        measured by. None: `METHODS`, but for those that need more rows than there are.
    report : path and function, default=None
        Where to write what the function makes of the result.
    plots : path and function, default=None
        A folder, and what makes the content of files in it by their names.
    **parameters
        Of `MDAClassifier`: neither for "auto", which chooses its own, nor for `BASELINES`.
    """
    watch = Watch(progress)
    if methods is not None and (len(methods) < 2 or len(set(methods)) < len(methods)):
        raise InputError(f"compare needs two or more different methods, got {' '.join(methods)}.")
    watch(0.0, "reading")
    outputs = Outputs(report=report, plots=plots)
    outputs.check((*sources_of(source), target), make_folders=False)
    shown = bool(outputs.shown)
    data = read_data(source, target, options)
    if methods is None:
        enough = min(len(data.ys), len(data.yt)) >= ALIGNED_ROWS
        methods = [m for m in METHODS if enough or m not in ALIGNED]
    X, y, domain, mark = data.packed(target_labels=False)
    notes = [*data.notes, *data.copy_notes]
    if data.copied.any() and data.copied.sum() == data.known.sum():  # known by heart
        raise InputError(f"{target}: {data.copy_notes[0]} Label other rows, each once.")
    data = data.without_copies()
    largest = int(np.unique(domain, return_counts=True)[1].max())
    # The rows that distances look at, the same for every method.
    rng = np.random.default_rng(0)
    places = [sample_places(X, 500, rng) for X in (data.Xs, data.Xt)]
    drawn = data.Xs[places[0]], data.Xt[places[1]]
    costs = [Weights.of(data, method) for method in methods]
    done, each = costs[0].read, costs[0].measure + (costs[0].draw if shown else 0.0)
    results, predictions, details = [], [], []
    for k, method in enumerate(methods):
        at = watch.seconds
        after = sum(cost.fit + each for cost in costs[k + 1 :]) + each
        watch(done / (done + costs[k].fit + after), method)
        with input_errors() as messages, listening(progress, done, after) as work:
            model = compared_classifier(method, mark, **parameters)
            with nullcontext() if method == AUTO else step(costs[k].fit, 0.0, method):
                model.fit(X, y, sample_domain=domain)
            work.left = 0.0
            progress(work.before(each), f"judging {method}")
            predictions.append(model.predict(data.Xt))
            spent = watch.seconds - at
            denoised = denoise(model, *drawn, source_domain=data.source_domain[places[0]])
            results.append(_result(method, data, predictions, mmd(*denoised), spent))
            if shown:
                apart = _a_distance(*denoised)
                details.append(_details(data, model, predictions[-1], apart))
        done = work.done + each
        notes += [*messages, *sample_notes(model, largest)]
    watch(0.99, "comparing")
    right = [np.asarray(p[data.known] == data.yt[data.known]) for p in predictions]
    pairs = pairs_of(methods, right) if data.known.any() else ()
    before = (_a_distance(*drawn), mmd(*drawn)) if shown else None
    known = data.yt[data.known]
    watch(1.0, "done")
    result = Compared(
        tuple(results),
        pairs,
        len(data.ys),
        len(data.yt),
        len(known),
        float(np.unique(known, return_counts=True)[1].max() / len(known)) if len(known) else None,
        tuple(notes),
        watch.seconds,
        tuple(watch.times),
        outputs.files,
        (names_of(source), Path(target).name),
        before,
        tuple(details),
    )
    with ExitStack() as stack:
        for path, content in outputs.pages(result):
            stack.enter_context(replacing(path)).write_bytes(content)
    return result


def _result(
    method: str, data: Data, predictions: list[NDArray[Any]], mmd: Interval, seconds: float
) -> MethodResult:
    predicted, known = predictions[-1], data.known
    accuracy = None
    if known.any():
        right = np.asarray(predicted[known] == data.yt[known], dtype=bool)
        accuracy = share_right(right)
    agreement = float(np.mean(predicted == predictions[0]))
    return MethodResult(method, accuracy, agreement, mmd, seconds)


def _a_distance(Xs: Any, Xt: Any) -> Interval | None:
    enough = min(Xs.shape[0], Xt.shape[0]) >= 5
    return a_distance(domain_accuracy(Xs, Xt)) if enough else None


def _details(data: Data, model: Any, predicted: NDArray[Any], apart: Interval | None) -> Details:
    known, classes = data.known, model.classes_
    names = data.preprocessing.features
    counts = (
        confusion_matrix(data.yt[known], predicted[known], labels=classes) if known.any() else None
    )
    evidence = gather(
        data.Xs,
        data.Xt,
        model,
        names=names,
        labels=data.ys,
        predicted=predicted,
        source_domain=data.source_domain,
        probabilities=model.predict_proba(data.Xt),
    )
    n_known = int(known.sum())
    findings = data_findings(data.Xs, data.Xt, names)
    findings += prediction_findings(classes, data.ys, predicted, n_known)
    # No method saw a target label, so that none of them counts here.
    facts = facts_of(model, data.ys, names=names, n_target=len(data.yt))
    checks = checks_of(data.Xs, data.Xt)
    return Details(apart, counts, evidence, tuple(findings), checks, facts)
