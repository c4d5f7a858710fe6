"""The newcomer's half minute: does adaptation help on embedded data, by how much, through what?

First digits, which one can see, with marda's default; then sentences, whose words one can read,
with a model in closed form. What is found is told while the rest is still being computed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda import datasets
from marda._machine import counted, fewer_blas_threads
from marda.benchmarks.render import align
from marda.datasets import Dataset, Task, changed_digits
from marda.diagnostics.diagnosis import Diagnosis, Evidence, diagnose, gather
from marda.diagnostics.intervals import (
    Interval,
    bootstrap_mean,
    gain_right,
    percentile_interval,
    row_counts,
    scaled,
    seconds_text,
)
from marda.diagnostics.verdict import gain_text

DIGITS = {"turn": "turned by 20°", "noise": "noisy", "blur": "blurred"}
"""Changes of the digits, and what they are called."""
EXAMPLES = 8
PAIRS = (("films", "tweets"), ("films", "products"))
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
)
DIGIT_METHODS = (
    Method("BL", "ridge", "a ridge classifier learned on the clean digits, used as it is"),
    Method(
        "logistic",
        "logistic regression",
        "scikit-learn's, learned on the clean digits, used as it is",
    ),
    Method(
        "auto", "marda's default", "learned on the clean digits with labels, the others without"
    ),
)


@dataclass(frozen=True)
class Example:
    """A digit that logistic regression reads wrongly and marda's default rightly."""

    image: NDArray[np.float64]
    true: str
    before: str


@dataclass(frozen=True)
class DigitsResult:
    """The digits after one change; shares of them in percent.

    Attributes
    ----------
    change : str
        What was done to them.
    n_source, n_target : int
        Clean and changed digits.
    right : tuple of Interval
        By method.
    gain : Interval
        Of the last method over the one before it.
    mended, spoiled : int
        Digits that only the last of these two reads rightly, and that only the other does.
    examples : tuple of Example
        Some of the mended, a spread over the classes.
    details : PairDetails or None
        A closer look at the last method, for the page.
    """

    change: str
    n_source: int
    n_target: int
    right: tuple[Interval, ...]
    gain: Interval
    mended: int
    spoiled: int
    examples: tuple[Example, ...]
    details: PairDetails | None = None


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


@dataclass(frozen=True)
class DemoResult:
    """What the demo prints and writes."""

    digits: tuple[DigitsResult, ...]
    pairs: tuple[PairResult, ...]
    times: tuple[tuple[str, float], ...]
    seconds: float
    sources: tuple[str, ...]
    """Whose data these are, and their licences."""


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
    changes: Sequence[str] = tuple(DIGITS),
    pairs: Sequence[tuple[str, str]] = PAIRS,
    *,
    n_features: int = N_FEATURES,
    tell: Callable[[Sequence[str]], None] = lambda lines: None,
) -> DemoResult:
    """Run every method on every change of the digits and on every pair of kinds of sentences.

    `tell` is called with lines as soon as they are known.
    """
    clock, started = Clock(), time.perf_counter()
    tell(digits_head())
    digits: list[DigitsResult] = []
    sources: dict[str, None] = {}
    for change in changes:
        dataset = changed_digits(change)
        digits.append(_run_digits(dataset, DIGITS[change], clock, closely=not digits))
        sources[f"Digits: {dataset.citation} {dataset.licence}."] = None
        tell([digits_line(digits[-1])])
    tell(digits_end(digits))
    with clock.time("load the embedded sentences"):
        snippets = datasets.load("sentiment-snippets")
    sources[f"Sentences: {snippets.citation} {snippets.licence}"] = None
    tell([*_wrapped(INTRO), ""])
    results: list[PairResult] = []
    for source, target in pairs:
        with clock.time("prepare sentences"):
            task = datasets.make_task(snippets, source, target, log_tf=True)
            kept = _frequent(task, n_features)
        results.append(_run_pair(task, kept, snippets, clock))
        tell(pair_lines(results[-1]))
    times = sorted(clock.spent.items(), key=lambda item: -item[1])
    spent = time.perf_counter() - started
    result = DemoResult(tuple(digits), tuple(results), tuple(times), spent, tuple(sources))
    tell(end_lines(result))
    return result


@fewer_blas_threads(1)  # two take the ridge and logistic regressions of 900 rows longer
def _run_digits(dataset: Dataset, change: str, clock: Clock, *, closely: bool) -> DigitsResult:
    with clock.time("import marda"):
        from sklearn.linear_model import LogisticRegression

        from marda import MDAClassifier, MDAClassifierCV, pack
    with clock.time("prepare digits"):
        clean, changed = dataset.domains["source"], dataset.domains["target"]
        X, y, sample_domain = pack(clean.X, clean.y, changed.X)
    with clock.time("learn from clean digits alone"):
        ridge = MDAClassifier("BL").fit(X, y, sample_domain=sample_domain)
        logistic = LogisticRegression(max_iter=5000).fit(clean.X, clean.y)
    with clock.time("marda's default on digits"):
        model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=sample_domain)
    told = [np.asarray(m.predict(changed.X)) for m in (ridge, logistic, model)]
    hits = [t == changed.y for t in told]
    mended = np.flatnonzero(hits[2] & ~hits[1])
    details = None
    if closely:
        with clock.time("look at both domains"):
            details = _details(clean, changed, model, dataset.names)
    return DigitsResult(
        change,
        len(clean.y),
        len(changed.y),
        tuple(scaled(bootstrap_mean(hit)) for hit in hits),
        scaled(gain_right(hits[2], hits[1])),
        len(mended),
        int((hits[1] & ~hits[2]).sum()),
        tuple(
            Example(changed.X[k].reshape(8, 8), str(changed.y[k]), str(told[1][k]))
            for k in _spread(mended, changed.y)
        ),
        details,
    )


def _spread(places: NDArray[np.int64], y: NDArray[Any]) -> list[int]:
    """A few places, of as many classes as there are."""
    of = y[places]
    rank = np.array([int((of[:k] == label).sum()) for k, label in enumerate(of)], dtype=int)
    return [int(k) for k in places[np.lexsort((of, rank))[:EXAMPLES]]]


def _details(clean: Any, changed: Any, model: Any, names: Sequence[str]) -> PairDetails:
    facts: dict[str, Any] = {
        "names": [f"row {k // 8 + 1}, column {k % 8 + 1}" for k in range(clean.X.shape[1])],
        "labels": clean.y,
        "predicted": model.predict(changed.X),
    }
    probabilities = model.predict_proba(changed.X)
    return PairDetails(
        diagnose(clean.X, changed.X, model, **facts),
        gather(clean.X, changed.X, model, probabilities=probabilities, **facts),
    )


def _run_pair(task: Task, kept: NDArray[np.int64], dataset: Dataset, clock: Clock) -> PairResult:
    with clock.time("import marda"):
        from sklearn.metrics import confusion_matrix

        from marda import MDAClassifier, pack
    with clock.time("prepare sentences"):
        X_source, X_target = task.X_source[:, kept], task.X_target[:, kept]
        X, y, sample_domain = pack(X_source, task.y_source, X_target)
    hits, seconds, weights, confusions = [], [], [], []
    names = dataset.feature_names or ()
    for method in METHODS:
        before = time.perf_counter()
        with clock.time(f"{method.label} on sentences"):
            model = MDAClassifier(method.name, **SETTINGS)
            model.fit(X, y, sample_domain=sample_domain)
        seconds.append(time.perf_counter() - before)
        predicted = np.asarray(model.predict(X_target))
        hits.append(predicted == task.y_target)
        confusions.append(confusion_matrix(task.y_target, predicted, labels=model.classes_))
        weights.append(np.asarray(model.coef_)[0])
    with clock.time("bootstrap intervals"):
        scores = _scores(METHODS, hits, seconds, task.y_target)
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


OWN_FILES = (
    "marda adapt --source OLD.csv --target NEW.csv --label COLUMN --out predictions.csv "
    "--report report.html",
    "marda compare --source OLD.csv --target NEW.csv --label COLUMN --report report.html",
)
DIGITS_INTRO = (
    "Digits: every method learns from 900 clean ones and reads 897 others, which were changed and "
    "whose labels no method sees."
)
_WIDTHS = (16, 9, 22, 18)


def digits_head() -> list[str]:
    """Before the first digit is read."""
    names = ("read rightly", *(m.label for m in DIGIT_METHODS))
    head = "".join(f"{name:<{w}}" for name, w in zip(names, _WIDTHS, strict=True)).rstrip()
    return [*_wrapped(DIGITS_INTRO), "", head, "─" * sum(_WIDTHS)]


def digits_line(result: DigitsResult) -> str:
    """One change."""
    told = (result.change, *(f"{right.value:.0f}%" for right in result.right))
    return "".join(f"{name:<{w}}" for name, w in zip(told, _WIDTHS, strict=True)).rstrip()


def digits_end(results: Sequence[DigitsResult]) -> list[str]:
    """What the figures say, and a few digits to look at."""
    lines = ["", *(line for r in results for line in _wrapped(digits_text(r)))]
    for result in results[:1]:
        shown = result.examples[:4]
        if shown:
            lines += [
                "",
                f"Read wrongly by logistic regression, rightly by marda ({result.change}):",
            ]
            lines += _drawn(shown)
    return [*lines, ""]


def digits_text(result: DigitsResult) -> str:
    """One sentence on the default against logistic regression."""
    return (
        f"{gain_text(result.change.capitalize(), result.gain)} "
        f"It mends {counted(result.mended, 'digit')} and spoils {result.spoiled}."
    )


_SHADES = " ░▒▓█"


def _drawn(examples: Sequence[Example]) -> list[str]:
    """Digits beside each other, in blocks of grey."""
    lines = []
    for k in range(8):
        rows = []
        for e in examples:
            grey = np.clip(e.image[k] / max(1.0, e.image.max()), 0, 1)
            rows.append("".join(2 * _SHADES[round(4 * float(v))] for v in grey))
        lines.append("  " + "   ".join(rows).rstrip())
    told = [f"a {e.true}, not a {e.before}" for e in examples]
    return [*lines, "  " + "   ".join(f"{t:<16}" for t in told).rstrip()]


def pair_lines(pair: PairResult) -> list[str]:
    """One pair of kinds of sentences."""
    lines = [heading(pair), *align([_HEADER, *_cells(pair)], rule=True), verdict(pair)]
    lines += _wrapped(unseen(pair), "  ")
    for title, words in word_lists(pair):
        lines += _wrapped(f"{title}: {_listed(words)}", "    ")
    return [*lines, ""]


def end_lines(result: DemoResult) -> list[str]:
    """What figures mean, where the time went, and what to do now."""
    return [
        *_wrapped(LEGEND),
        "",
        f"Where the time went ({seconds_text(result.seconds)} in all)",
        *align([["  " + what, seconds_text(seconds)] for what, seconds in result.times]),
        "",
        "On your own files:",
        *(f"  {line}" for line in OWN_FILES),
    ]


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
