"""The newcomer's minute: does adaptation help on embedded data, by how much, and through what?"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda import datasets
from marda.benchmarks.render import align
from marda.datasets import Dataset, Task
from marda.diagnostics import Diagnosis, Evidence, Interval, diagnose, gather
from marda.diagnostics.intervals import percentile_interval, row_counts, seconds_text
from marda.diagnostics.verdict import gain_text

PAIRS = (("films", "tweets"), ("films", "products"), ("editorials", "tweets"))
N_FEATURES = 2000
"""The most frequent words and bigrams: with all 14,439 the demo would take minutes."""
UNSHOWN = ("fuck", "shit", "bitch", "whore", "cunt")
"""Words that models read but a page need not show."""
N_BOOTSTRAP = 1000
N_WORDS = 6
MIN_TARGET_ROWS = 10
"""A word in fewer target rows than this says little, whatever its weight."""
SETTINGS: dict[str, Any] = {"class_weight": "balanced"}
"""marda's defaults; classes are balanced because twice as many tweets are positive."""


@dataclass(frozen=True)
class Method:
    """A method as a newcomer meets it."""

    name: str
    label: str
    says: str


METHODS = (
    Method("BL", "source only", "a classifier learned on the source, used as it is"),
    Method("S1D", "adapted (S1D)", "features denoised so that all rows look like target rows"),
    Method(
        "J12M",
        "jointly (J12M)",
        "features and classifier learned together, with the means of the domains drawn together",
    ),
)


@dataclass(frozen=True)
class Score:
    """One method on one pair, in percent; ``gain`` is over the first method, balanced."""

    method: Method
    accuracy: Interval
    balanced: Interval
    gain: Interval | None
    fit_seconds: float


@dataclass(frozen=True)
class Word:
    """A feature that no source row has, and the weight that adaptation gave it."""

    text: str
    before: float
    after: float
    target_rows: int


@dataclass(frozen=True)
class PairDetails:
    """What the page shows of one classifier."""

    diagnosis: Diagnosis
    evidence: Evidence


@dataclass(frozen=True)
class PairResult:
    """Everything about one source → target pair."""

    source: str
    target: str
    n_source: int
    n_target: int
    scores: tuple[Score, ...]
    positive: tuple[Word, ...]
    negative: tuple[Word, ...]
    unseen: int
    """Features that target rows have and source rows do not."""
    confusions: tuple[NDArray[np.int64], ...]
    """True and predicted classes in the target, one per method."""
    details: PairDetails | None = None
    """Of the second method, the adapted one; the demo looks closely at one pair only."""


@dataclass(frozen=True)
class DemoResult:
    """What the demo prints and writes."""

    pairs: tuple[PairResult, ...]
    times: tuple[tuple[str, float], ...]
    seconds: float
    citation: str
    licence: str


class Clock:
    """Where the time went, by name."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def time(self, what: str) -> Iterator[None]:
        """Add the time of a block."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[what] += time.perf_counter() - started


def run_demo(
    pairs: Sequence[tuple[str, str]] = PAIRS,
    *,
    methods: Sequence[Method] = METHODS,
    n_features: int = N_FEATURES,
) -> DemoResult:
    """Run every method on every pair; the first method is the baseline."""
    clock, started = Clock(), time.perf_counter()
    with clock.time("load the embedded data"):
        dataset = datasets.load("sentiment-snippets")
    results: list[PairResult] = []
    for source, target in pairs:
        with clock.time("prepare rows"):
            task = datasets.make_task(dataset, source, target, log_tf=True)
            kept = _frequent(task, n_features)
        results.append(_run_pair(task, kept, dataset, methods, clock, closely=not results))
    times = sorted(clock.spent.items(), key=lambda item: -item[1])
    return DemoResult(
        tuple(results),
        tuple(times),
        time.perf_counter() - started,
        dataset.citation,
        dataset.licence,
    )


def _run_pair(
    task: Task,
    kept: NDArray[np.int64],
    dataset: Dataset,
    methods: Sequence[Method],
    clock: Clock,
    *,
    closely: bool,
) -> PairResult:
    with clock.time("import marda"):
        from sklearn.metrics import confusion_matrix

        from marda import MDAClassifier, pack
    with clock.time("prepare rows"):
        X_source, X_target = task.X_source[:, kept], task.X_target[:, kept]
        X, y, sample_domain = pack(X_source, task.y_source, X_target)
    hits, seconds, weights, confusions = [], [], [], []
    details, names = None, dataset.feature_names or ()
    for method in methods:
        before = time.perf_counter()
        with clock.time(f"fit {method.label}"):
            model = MDAClassifier(method.name, **SETTINGS)
            model.fit(X, y, sample_domain=sample_domain)
        seconds.append(time.perf_counter() - before)
        with clock.time("predict"):
            predicted = np.asarray(model.predict(X_target))
            hits.append(predicted == task.y_target)
            confusions.append(confusion_matrix(task.y_target, predicted, labels=model.classes_))
        if closely and method is methods[1]:
            with clock.time("look at both domains"):
                details = _details(
                    X_source, X_target, model, task.y_source, [names[j] for j in kept]
                )
                shown = replace(details.evidence, classes=dataset.names)
                details = replace(details, evidence=shown)
        weights.append(np.asarray(model.coef_)[0])
    with clock.time("bootstrap intervals"):
        scores = _scores(methods, hits, seconds, task.y_target)
    used = np.asarray((X_source != 0).sum(axis=0)).ravel()
    rows = np.asarray((X_target != 0).sum(axis=0)).ravel()
    unseen = np.flatnonzero((used == 0) & (rows >= MIN_TARGET_ROWS))
    words = [
        Word(names[kept[j]], weights[0][j], weights[1][j], int(rows[j]))
        for j in unseen
        if not any(stem in names[kept[j]] for stem in UNSHOWN)
    ]
    words.sort(key=lambda word: word.after - word.before)
    return PairResult(
        task.source,
        task.target,
        X_source.shape[0],
        X_target.shape[0],
        scores,
        positive=tuple(w for w in words[::-1][:N_WORDS] if w.after > w.before),
        negative=tuple(w for w in words[:N_WORDS] if w.after < w.before),
        unseen=int(np.sum((used == 0) & (rows > 0))),
        confusions=tuple(confusions),
        details=details,
    )


def _details(Xs: Any, Xt: Any, model: Any, labels: NDArray[Any], names: list[str]) -> PairDetails:
    facts: dict[str, Any] = {"names": names, "labels": labels, "predicted": model.predict(Xt)}
    probabilities = model.predict_proba(Xt)
    return PairDetails(
        diagnose(Xs, Xt, model, **facts),
        gather(Xs, Xt, model, probabilities=probabilities, **facts),
    )


def _frequent(task: Task, n: int) -> NDArray[np.int64]:
    """Return the columns that most rows use, a row of the smaller domain counting for more."""
    share = sum(np.asarray((X != 0).mean(axis=0)).ravel() for X in (task.X_source, task.X_target))
    return np.sort(np.argsort(-np.asarray(share), kind="stable")[:n])


def _scores(
    methods: Sequence[Method],
    hits: Sequence[NDArray[np.bool_]],
    seconds: Sequence[float],
    y: NDArray[Any],
) -> tuple[Score, ...]:
    """Bootstrap over target rows, the same resamples for all methods, so that gains are paired."""
    n = len(y)
    counts = row_counts(n, N_BOOTSTRAP, np.random.default_rng(0))
    classes = [y == label for label in np.unique(y)]

    def balanced(hit: NDArray[np.bool_], counts: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.mean([(counts @ (hit & c)) / (counts @ c) for c in classes], axis=0))

    accuracy = [counts @ hit / n for hit in hits]
    recalls = [balanced(hit, counts) for hit in hits]
    even = [float(balanced(hit, np.ones(n))) for hit in hits]
    return tuple(
        Score(
            method,
            _percent(float(hit.mean()), accuracy[i]),
            _percent(even[i], recalls[i]),
            _percent(even[i] - even[0], recalls[i] - recalls[0]) if i else None,
            seconds[i],
        )
        for i, (method, hit) in enumerate(zip(methods, hits, strict=True))
    )


def _percent(value: float, resampled: NDArray[np.float64]) -> Interval:
    return percentile_interval(100 * value, 100 * resampled)


# As lines for the terminal, and the sentences that the page says too ------------------------------

INTRO = (
    "Sentences rated by people as positive or negative. The classifier has seen labels in the "
    "source domain only; it is judged in another domain, the target."
)
_HEADER = ("", "accuracy", "balanced accuracy", "gain over source only")
LEGEND = (
    "Percent of target sentences judged rightly, with 95 % bootstrap intervals. Balanced accuracy "
    "weighs both classes alike: guessing gives 50. Pairs and models were picked for this demo; "
    "'marda reproduce' runs whole benchmarks."
)


def text_lines(result: DemoResult) -> list[str]:
    """Return what the command prints."""
    lines = [*_wrapped(INTRO), ""]
    for pair in result.pairs:
        lines += [heading(pair), *align([_HEADER, *_cells(pair)], rule=True), verdict(pair)]
        lines += _wrapped(unseen(pair), "  ")
        for title, words in word_lists(pair):
            lines += _wrapped(f"{title}: {_listed(words)}", "    ")
        lines.append("")
    lines += [
        *_wrapped(LEGEND),
        "",
        f"Where the time went ({seconds_text(result.seconds)} in all)",
    ]
    return lines + align([["  " + what, seconds] for what, seconds in _times(result)])


def _times(result: DemoResult) -> list[tuple[str, str]]:
    """Return what took time at all."""
    return [(what, seconds_text(s)) for what, s in result.times if s >= 0.05]


def heading(pair: PairResult) -> str:
    """Which pair, and how many sentences."""
    return (
        f"{pair.source} → {pair.target} ({pair.n_source:,} labelled sentences, "
        f"{pair.n_target:,} to judge)"
    )


def _cells(pair: PairResult) -> list[list[str]]:
    return [
        [
            score.method.label,
            _range(score.accuracy),
            _range(score.balanced),
            "" if score.gain is None else _range(score.gain, signed=True),
        ]
        for score in pair.scores
    ]


def _range(figure: Interval, *, signed: bool = False) -> str:
    form = "+.1f" if signed else ".1f"
    text = f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"
    return text.replace("-", "−")


def verdict(pair: PairResult) -> str:
    """Return one sentence on the default model, whatever the others reach."""
    score = pair.scores[1]
    assert score.gain is not None
    return gain_text(score.method.label, score.gain)


def unseen(pair: PairResult) -> str:
    """Return what the lists of words show."""
    return (
        f"{pair.unseen} of the words and word pairs occur in no {pair.source} sentence, so source "
        f"only cannot use them. Adaptation weighs them by the words they come with:"
    )


def word_lists(pair: PairResult) -> list[tuple[str, Sequence[Word]]]:
    """Return words that the source never used, by where adaptation leans."""
    return [("most positive", pair.positive), ("most negative", pair.negative)]


def _listed(words: Sequence[Word]) -> str:
    text = ", ".join(f"{w.text} ({w.after - w.before:+.2f})" for w in words)
    return text.replace("(-", "(−") or "none"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, 88, initial_indent=indent, subsequent_indent=indent)
