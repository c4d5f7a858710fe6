"""From evidence to words: what reports and the terminal claim of an adaptation or a comparison.

Three claims are worded elsewhere: the first screen of a report in answer.py, that of `evaluate` in
evaluation.py, and that of `check` in adaptation/checking.py.

Every function here is pure, and says no more than its figures: "closer" where every distance
shrank beyond its interval, "no evidence" where predictions are no clearly better than guessing,
advice to label rows where some have no label.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from marda._machine import counted
from marda.diagnostics.intervals import (
    Interval,
    percent,
    points_text,
    scaled,
    share_text,
    signed,
    step_text,
)

FEW_ROWS = 20  # per domain: fewer show nothing
FEW_LABELS = 20  # fewer labels cannot tell any two methods apart
ENOUGH, LABELS = 100, "100 to 300"  # so many labels measure accuracy to about ±5 points
LEVEL = 0.05
#: An expected accuracy less than this part of the way from guessing to 1 is no more than guessing,
#: however many rows there are: what models agree on is not always right.
LEAST_SKILL = 0.1
ALIKE_MMD = 0.05

Direction = Literal["fell", "rose", "unclear"]
Outcome = Literal[
    "closer", "mixed", "further", "unclear", "alike", "explained", "cannot-tell", "chance",
    "single-class", "few-rows",
]  # fmt: skip
CHECKS = {
    "alike": "domains already alike",
    "single-class": "a target of one class",
    "proportions": "class proportions",
    "scales": "scales of features",
    "few-rows": "too few rows",
    "leakage": "features that give the domain away",
}


@dataclass(frozen=True)
class Verdict:
    """Does adaptation help?

    Attributes
    ----------
    kind : {"good", "unclear", "bad", "info"}
        Which sign stands beside it.
    word : str
        The answer in a few words.
    text : str
        The answer in a sentence.
    reasons : sequence of (str, str)
        How sure, on what evidence, what to do.
    """

    kind: Literal["good", "unclear", "bad", "info"]
    word: str
    text: str
    reasons: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Change:
    """A measure of how far apart the domains are, before and after adaptation."""

    before: Interval
    after: Interval

    @property
    def direction(self) -> Direction:
        """Where it went, if intervals show that it went anywhere."""
        if self.after.high < self.before.low:
            return "fell"
        return "rose" if self.after.low > self.before.high else "unclear"


@dataclass(frozen=True)
class Facts:
    """What is known of one adaptation.

    Attributes
    ----------
    n_source, n_target, n_labelled : int
        Rows, and labelled rows of the target.
    n_classes : int
        How many there are.
    commonest : float
        Share of the commonest class among source labels.
    mmd : Change or None
        Maximum mean discrepancy; None: too few rows.
    told_apart : Change or None
        Share of rows whose domain a classifier names; 0.5 is chance.
    single_class : bool
        Nearly all target rows got one class, which is not nearly all of the source.
    expected : float or None
        Expected accuracy on the target.
    calibrated : bool
        Whether probabilities are calibrated.
    interval : tuple of float or None
        Bounds of a 90 % interval of the accuracy.
    can_tell : bool
        Whether the accuracy can be told without labels.
    reason : str
        What `interval` rests on.
    shift : str
        What differs between the domains, as a sentence; empty where nobody asked.
    action : str
        What was done about it, as a sentence, where features were not adapted; else empty.
    differs : bool
        `shift` tells of a difference, whatever the distances say.
    commonest_target : float
        As `commonest`, of the target, where class shares may be what differs; else 0.
    """

    n_source: int
    n_target: int
    n_labelled: int = 0
    n_classes: int = 2
    commonest: float = 0.5
    mmd: Change | None = None
    told_apart: Change | None = None
    single_class: bool = False
    expected: float | None = None
    calibrated: bool = False
    interval: tuple[float, float] | None = None
    can_tell: bool = True
    reason: str = ""
    shift: str = ""
    action: str = ""
    differs: bool = False
    commonest_target: float = 0.0

    @property
    def few(self) -> bool:
        """Too few rows for any claim."""
        return min(self.n_source, self.n_target) < FEW_ROWS

    @property
    def guessing(self) -> float:
        """Accuracy without looking at a row: one class for all."""
        return max(self.commonest, 1 / self.n_classes)

    @property
    def guessing_target(self) -> float:
        """The same where class shares of the target may be others, and are what they look like."""
        return max(self.guessing, self.commonest_target)

    @property
    def margin(self) -> float:
        """By how much an expected accuracy must exceed guessing to be more than that."""
        p = self.guessing
        error = 1.96 * sqrt(p * (1 - p) * (1 / max(1, self.n_source) + 1 / max(1, self.n_target)))
        return max(error, LEAST_SKILL * (1 - p))

    @property
    def at_chance(self) -> bool:
        """Whether predictions are expected to be no clearly better than guessing."""
        return self.expected is not None and self.expected <= self.guessing + self.margin

    @property
    def alike(self) -> bool:
        """Whether the domains were alike before, as far as enough rows tell.

        A linear classifier sees means; MMD also sees spread and shape.
        """
        if self.few or self.differs or self.mmd is None or self.told_apart is None:
            return False
        apart, distance = self.told_apart.before, self.mmd.before
        told = apart.value < 0.55 or (apart.low <= 0.5 and apart.value < 0.6)
        near = distance.low <= ALIKE_MMD and distance.value < 2 * ALIKE_MMD
        # Intervals that reach far show that rows are too few, not that domains are alike.
        return told and near and apart.high < 0.65 and distance.high < 5 * ALIKE_MMD

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Of all measures; a classifier below chance tells the domains apart no less than one at
        chance.
        """
        found = [] if self.mmd is None else [self.mmd.direction]
        if self.told_apart is not None:
            found.append(_above_chance(self.told_apart).direction)
        return tuple(found)


# One adaptation -----------------------------------------------------------------------------------


def outcome_of(facts: Facts) -> Outcome:
    """The verdict in a word."""
    found = set(facts.directions)
    if facts.few:
        return "few-rows"
    if facts.single_class:
        return "single-class"
    if not facts.can_tell:
        return "cannot-tell"
    if facts.at_chance:
        return "chance"
    if facts.action:
        return "explained"
    return "alike" if facts.alike else _movement(found)


def _movement(found: set[Direction]) -> Literal["closer", "mixed", "further", "unclear"]:
    if found == {"fell"}:
        return "closer"
    if found <= {"unclear"}:
        return "unclear"
    return "mixed" if "fell" in found else "further"


def diagnosis_text(facts: Facts) -> str:
    """One sentence or two: what happened to the domains, and what that is worth."""
    outcome = outcome_of(facts)
    if outcome == "few-rows":
        few = f"{facts.n_source} in the source, {facts.n_target} in the target"
        return f"Too few rows to tell whether adaptation helps: {few}."
    if outcome == "single-class":
        return f"Do not trust this yet: nearly all target rows got one class; {next_step(facts)}."
    if outcome == "cannot-tell":
        return f"{_told(facts)}How many predictions are right: {expected_text(facts)}."
    if outcome == "explained":
        step = "" if facts.expected is not None else f"{_capital(next_step(facts))}."
        return f"{_told(facts)}{step}".strip()
    if outcome == "chance":
        # Of a model of the source, no distance has an after.
        done = _told(facts) if facts.action else f"{_movement_sentence(facts)}. "
        return (
            f"Not clearly better than guessing: {_expected_share(facts)} of the predictions are "
            f"expected to be right, and {_guessing(facts)}. {done}{_capital(next_step(facts))}."
        )
    if outcome == "alike":
        more = ""
        if "rose" in facts.directions:
            said = _movement_sentence(facts)
            more = f"; {said[0].lower()}{said[1:]}: use --method BL"
        return (
            "No adaptation is needed: source and target already look alike in these measures"
            f"{more}."
        )
    moved = _movement_sentence(facts)
    if outcome == "closer":
        labels = f"; {next_step(facts)}" if facts.n_labelled >= FEW_LABELS else ""
        return f"{moved}: label-free evidence that it helps, not proof{labels}."
    if outcome == "unclear":
        return f"{moved}: {next_step(facts)}."
    return f"{moved}: no clear evidence that it helps; {next_step(facts)}."


def _told(facts: Facts) -> str:
    """What differs, and what was done about it; each followed by a space."""
    return "".join(f"{said} " for said in (facts.shift, facts.action) if said)


def _movement_sentence(facts: Facts) -> str:
    """What happened to the domains, with the figures."""
    if not facts.directions:
        return "No distance between the domains was measured"
    movement = _movement(set(facts.directions))
    if movement in ("closer", "unclear") or set(facts.directions) == {"rose"}:
        figures = []
        if facts.mmd is not None:
            figures.append(f"distance {_step(facts.mmd)}")
        if facts.told_apart is not None:
            # A classifier below chance tells nothing apart, no more than one at chance.
            before, after = _step(_above_chance(facts.told_apart), "%").split(" → ")
            figures.append(f"told apart in {before} of rows before and {after} after")
        said = {
            "closer": "brought the domains closer",
            "unclear": "did not clearly bring the domains closer",
            "further": "moved the domains further apart",
        }[movement]
        return f"Adaptation {said} ({'; '.join(figures)})"
    words = {"fell": "fell", "rose": "rose", "unclear": "did not clearly change"}
    told = []
    if facts.mmd is not None:
        told.append(f"the distance {words[facts.mmd.direction]} ({_step(facts.mmd)})")
    if facts.told_apart is not None:
        direction = words[_above_chance(facts.told_apart).direction]
        shares = _step(_above_chance(facts.told_apart), "%")
        told.append(f"the share of rows told apart {direction} ({shares})")
    return f"The measures differ: {', '.join(told)}"


def _step(change: Change, form: str = "f") -> str:
    return step_text(change.before.value, change.after.value, form)


def _above_chance(change: Change) -> Change:
    def cut(i: Interval) -> Interval:
        return Interval(max(0.5, i.value), max(0.5, i.low), max(0.5, i.high))

    return Change(cut(change.before), cut(change.after))


def next_step(facts: Facts) -> str:
    """What to do for a surer answer."""
    n, every = facts.n_labelled, facts.n_labelled >= facts.n_target
    if n == 0:
        return "label some target rows and run marda compare"
    if n < FEW_LABELS and every:
        return f"all {n} target rows have labels and are few: run marda compare on more rows"
    if n < FEW_LABELS:
        return f"label more target rows ({n} say little) and run marda compare"
    rows = f"all {n:,} target rows have" if every else f"{n:,} target rows have"
    return f"{rows} labels: run marda compare, where they judge"


def _expected_share(facts: Facts) -> str:
    assert facts.expected is not None
    return f"about {share_text(facts.expected)}"


def _guessing(facts: Facts) -> str:
    more = ""
    if facts.commonest_target > facts.guessing:
        more = (
            f", and one class about {share_text(facts.commonest_target)} of the target's if class "
        )
        more += "shares are as told"
    if facts.commonest > 1 / facts.n_classes + 0.005:
        share = share_text(facts.commonest)
        return f"naming the commonest class alone gets {share} of source rows right{more}"
    return f"guessing gives {share_text(1 / facts.n_classes)}{more}"


def expected_text(facts: Facts) -> str | None:
    """The accuracy to expect, next to guessing; None if it is not known."""
    if facts.expected is None:
        return None
    if facts.interval is None:
        right = f"{_expected_share(facts)} right{_gain(facts)}"
        return f"{right} ({_guessing(facts)}): a guess, from how far models agree"
    low, high = (share_text(bound) for bound in facts.interval)
    if not facts.can_tell:
        told = f"cannot be told without labels, {low} to {high} are possible"
        return f"{told} ({_guessing(facts)}): {facts.reason}"
    right = f"{_expected_share(facts)} right, {low} to {high} in nine of ten cases"
    return f"{right}{_gain(facts)} ({_guessing(facts)}): {facts.reason}"


def _gain(facts: Facts) -> str:
    return ", no clear gain over guessing" if facts.at_chance else ""


def probabilities_text(facts: Facts) -> str:
    """What the probabilities are, for a caption."""
    if not facts.calibrated:
        return "not calibrated"
    if facts.expected is not None and not facts.can_tell:
        return "as sure as the model is, which proves nothing here"
    return "calibrated on left-out source rows"


def adapted_verdict(facts: Facts, single_class: str | None = None) -> Verdict:
    """The verdict without target labels that judge; distances prove nothing.

    Parameters
    ----------
    facts : Facts
        What is known.
    single_class : str, default=None
        The warning about a target of one class, if there is one.
    """
    outcome = outcome_of(facts)
    told = single_class if outcome == "single-class" else None
    evidence = ("Evidence", told or diagnosis_text(facts))
    sure = ("How sure", f"Weak: {_without_labels(facts)}")
    step = ("Next step", _label_rows(facts))
    kind, word, text = _ADAPTED[outcome]
    if outcome == "chance":
        text = text.format(_guessing(facts))
    if outcome in ("explained", "cannot-tell"):
        what = "What differs" if facts.shift else "Evidence"
        evidence = (what, _told(facts).strip() or "Nobody asked.")
        known = ("Expected accuracy", f"{_capital(expected_text(facts) or 'not known')}.")
        return Verdict(kind, word, text, (evidence, known, step))
    reasons = (sure, evidence, step) if outcome in ("closer", "alike") else (evidence, step)
    if facts.shift:
        reasons = (("What differs", facts.shift), *reasons)
    return Verdict(kind, word, text, reasons)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_ADAPTED: dict[Outcome, tuple[Literal["unclear", "bad", "info"], str, str]] = {
    "closer": (
        "info",
        "Adaptation may help",
        "The two kinds of data look more alike after adaptation than before it.",
    ),
    "alike": (
        "info",
        "Adaptation is hardly needed",
        "The two kinds of data already look alike, so a plain classifier should do as well.",
    ),
    "explained": (
        "info",
        "A model of labelled rows was used",
        "A model learned from labelled rows alone names the classes; what was done for the target "
        "is told below.",
    ),
    "cannot-tell": (
        "unclear",
        "Only labels can tell",
        "Nothing here shows how many of the predictions are right.",
    ),
    "single-class": (
        "bad",
        "Do not trust this yet",
        "Nearly every row got the same class, which is seldom what the data are like.",
    ),
    "chance": (
        "bad",
        "Not clearly better than guessing",
        "The predictions are not expected to be clearly better than guessing: {}.",
    ),
    "further": (
        "unclear",
        "No evidence that adaptation helps",
        "By no measure do the two kinds of data clearly look more alike after adaptation, and by "
        "at least one they look less alike.",
    ),
    "mixed": (
        "unclear",
        "It is not clear that adaptation helps",
        "The measures of how alike the two kinds of data are do not agree.",
    ),
    "unclear": (
        "unclear",
        "It is not clear that adaptation helps",
        "Nothing here shows that the two kinds of data look more alike after adaptation.",
    ),
    "few-rows": (
        "unclear",
        "It is not clear that adaptation helps",
        "There are too few rows to tell.",
    ),
}


def _without_labels(facts: Facts) -> str:
    if facts.n_labelled == 0:
        return "without target labels nobody can count errors."
    return f"{counted(facts.n_labelled, 'target label')} cannot tell how many errors there are."


def _label_rows(facts: Facts | ComparisonFacts) -> str:
    if 0 < facts.n_target < ENOUGH or facts.n_labelled >= facts.n_target > 0:
        return f"Add target rows, {LABELS} of them with labels, and run this again."
    return f"Label {LABELS} target rows, put them into the file, and run this again."


def statistics_text(n_target: int, n_labelled: int) -> str:
    """The verdict where no rows were held."""
    start = "Whether adaptation helps cannot be told without rows in memory"
    if n_labelled == 0:
        return f"{start}: label some target rows, and run marda compare on a sample."
    rows = "all" if n_labelled >= n_target else f"{n_labelled:,}"
    return (
        f"{start}: run marda compare on a sample of the target, {rows} of whose rows have labels."
    )


# Labels that judge --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """What labelled target rows say of adaptation, each predicted by models that had not seen it.

    Attributes
    ----------
    confusion : array of shape (n_classes, n_classes)
        Counts by true and predicted class, of the adapted classifier.
    adapted, plain, gain : Interval
        Share of rows that are right with adaptation and without it (BL); their difference.
    p_value : float
        Exact McNemar test of no difference.
    every : bool
        Whether the whole target has labels.
    """

    confusion: NDArray[np.int64]
    adapted: Interval
    plain: Interval
    gain: Interval
    p_value: float
    every: bool = False

    @property
    def n_rows(self) -> int:
        """Rows that judged."""
        return int(self.confusion.sum())

    @property
    def commonest(self) -> float:
        """Share of the commonest class among them."""
        return float(self.confusion.sum(1).max() / self.n_rows)


def judged_verdict(facts: Judgement) -> Verdict:
    """Labels decide."""
    gain, p = facts.gain, facts.p_value
    text = (
        f"With adaptation {percent(facts.adapted.value)} of the labelled target rows are "
        f"right, without it {percent(facts.plain.value)}: {points_text(scaled(gain))}."
    )
    test = f"(exact McNemar test: p = {p:.2g})"
    away = gain.low > 0 or gain.high < 0
    if away and p < LEVEL:
        sure = f"The interval leaves out zero {test}."
    else:
        holds = "the test finds no difference" if away else "the interval holds zero"
        more = "More target rows with labels" if facts.every else "More labelled rows"
        sure = f"Not: {holds} {test}. {more} would tell."
    reasons = [
        ("Evidence", f"{counted(facts.n_rows, 'labelled target row')}, each predicted by models "
         "that had not seen its label."),
        ("How sure", sure),
    ]  # fmt: skip
    beware = _no_better(facts.adapted, facts.commonest)
    if beware:
        reasons.append(("Beware", f"Even with adaptation, {beware}."))
    if p < LEVEL and gain.low > 0:
        return Verdict("good", "Adaptation helps", text, tuple(reasons))
    if p < LEVEL and gain.high < 0:
        return Verdict("bad", "Adaptation hurts", text, tuple(reasons))
    return Verdict("unclear", "No clear difference", text, tuple(reasons))


def _no_better(accuracy: Interval, commonest: float) -> str | None:
    """Where one class for all rows is about as right."""
    if accuracy.low > commonest:
        return None
    return (
        f"this is not clearly better than naming the commonest class always ({percent(commonest)})"
    )


@dataclass(frozen=True)
class ComparisonFacts:
    """What is known of several methods.

    Attributes
    ----------
    first, best : str
        The method that others are measured by; the one with most labelled rows right, or without
        labels the one with the smallest MMD.
    n_target, n_labelled : int
        Rows, and labelled rows, of the target.
    first_accuracy, best_accuracy, gain : Interval or None
        Of labelled rows; the gain is of the best over the first, None if they are the same.
    p_value : float or None
        Of that gain, corrected for `n_pairs` pairs.
    commonest : float or None
        Share of the commonest class among labelled target rows.
    mmd : Change or None
        Before, and after the best method.
    """

    first: str
    best: str
    n_target: int
    n_labelled: int = 0
    first_accuracy: Interval | None = None
    best_accuracy: Interval | None = None
    gain: Interval | None = None
    p_value: float | None = None
    n_pairs: int = 1
    commonest: float | None = None
    mmd: Change | None = None

    @property
    def clear(self) -> bool:
        """Whether the best is better than the first beyond chance."""
        if self.gain is None or self.p_value is None:
            return False
        return self.p_value < LEVEL and self.gain.low > 0

    @property
    def no_better(self) -> str | None:
        """A warning if the best is no better than one class for all."""
        if self.best_accuracy is None or self.commonest is None:
            return None
        return _no_better(self.best_accuracy, self.commonest)


def compared_text(facts: ComparisonFacts) -> str:
    """One sentence, for the terminal."""
    if facts.best_accuracy is None:
        return (
            "The target has no labels, so no method can be called better: label some target rows "
            f"(30 say little, 300 much). Agreement is with {facts.first}."
        )
    beware = f" Beware: {facts.no_better}." if facts.no_better else ""
    rows = counted(facts.n_labelled, "labelled target row")
    if facts.gain is None or facts.p_value is None:
        right = f"{facts.best_accuracy.value:.1%} right"
        return f"No method beats {facts.first} on {rows} ({right}).{beware}"
    word = "significantly better" if facts.clear else "not significantly better"
    return (
        f"{facts.best} is best ({facts.best_accuracy.value:.1%} of {rows}) and {word} "
        f"than {facts.first} (p = {facts.p_value:.2g}, corrected).{beware}"
    )


def compared_verdict(facts: ComparisonFacts) -> Verdict:
    """The same for a page."""
    if facts.best_accuracy is None:
        return Verdict(
            "info",
            "Labels are needed to choose",
            "Without target labels no method can be called better than another.",
            (
                ("Evidence", f"None on errors.{_smallest(facts)}"),
                ("Next step", _label_rows(facts)),
            ),
        )
    judges = f"{counted(facts.n_labelled, 'labelled target row')} that no method had seen."
    beware = (("Beware", f"With {facts.best}, {facts.no_better}."),) if facts.no_better else ()
    reasons: tuple[tuple[str, str], ...] = (("Evidence", judges),)
    right = percent(facts.best_accuracy.value)
    if facts.gain is None or facts.p_value is None or facts.first_accuracy is None:
        use = f"Use {facts.first}" + (": it is the simplest." if facts.first == "BL" else ".")
        text = f"{facts.first} gets {right} right, and no method gets more."
        reasons = (*reasons, ("Next step", use), *beware)
        return Verdict("unclear", f"No method beats {facts.first}", text, reasons)
    text = (
        f"{facts.best} gets {right} right, {facts.first} {percent(facts.first_accuracy.value)}: "
        f"{points_text(scaled(facts.gain))}."
    )
    test = f"exact McNemar test, corrected for {counted(facts.n_pairs, 'pair')}: "
    test += f"p = {facts.p_value:.2g}"
    if facts.clear:
        sure = f"The difference is more than chance explains ({test})."
        word = f"{facts.best} is better than {facts.first}"
        return Verdict("good", word, text, (*reasons, ("How sure", sure), *beware))
    sure = f"Not: chance alone may do this ({test})."
    word = f"{facts.best} leads, but not clearly"
    return Verdict("unclear", word, text, (*reasons, ("How sure", sure), *beware))


def _smallest(facts: ComparisonFacts) -> str:
    if facts.mmd is None:
        return ""
    word = {
        "fell": "smaller than before",
        "rose": "larger than before",
        "unclear": "about as before",
    }
    return (
        f" Of all methods, {facts.best} leaves the smallest distance between the two kinds of "
        f"data, {word[facts.mmd.direction]}."
    )


def gain_text(label: str, gain: Interval) -> str:
    """One sentence on a gain in points."""
    start = f"{label}: {signed(gain.value)} points"
    if gain.low > 0:
        return f"{start}; the interval is above zero: adaptation helps here."
    if gain.high < 0:
        return f"{start}; the interval is below zero: adaptation hurts here."
    return f"{start}; the interval holds zero: no clear difference here."


def pairs_verdict(
    label: str,
    gains: Sequence[tuple[str, Interval]],
    judged: str,
    more: str = "",
    what: str = "pair",
) -> Verdict:
    """Over a few pairs of domains (`what`), each with its gain in points and an interval."""
    helped = sum(g.low > 0 for _, g in gains)
    hurt = sum(g.high < 0 for _, g in gains)
    n = counted(len(gains), what)
    text = " ".join(f"{name}: {points_text(gain)}." for name, gain in gains)
    sure = f"The interval of {label} is above zero on {helped} of {n}, below zero on {hurt}."
    reasons = (("Evidence", judged), ("How sure", f"{sure} {more}".strip()))
    if helped == len(gains):
        return Verdict("good", "Adaptation helps here", text, reasons)
    if hurt == len(gains):
        return Verdict("bad", "Adaptation hurts here", text, reasons)
    return Verdict("unclear", f"Adaptation clearly helps on {helped} of {n}", text, reasons)


def benchmark_verdict(
    gains: Sequence[tuple[str, Sequence[float]]],
    text: str,
    more: Sequence[tuple[str, str]] = (),
) -> Verdict | None:
    """Judge by data set, each a name and the gains in points on its tasks.

    Tasks differ too much in size for their gains to be of one kind, so that a sign test over
    tasks says how sure a mean is; a mean and most signs may point to different sides.
    """
    if not gains:
        return None
    told, sure, better, worse = [], [], [], []
    for name, values in gains:
        up, down = sum(v > 0 for v in values), sum(v < 0 for v in values)
        p = float(binomtest(up, up + down).pvalue) if up + down else 1.0
        better.append(p < LEVEL and up > down)
        worse.append(p < LEVEL and up < down)
        told.append(
            f"{name}: {signed(fmean(values))} points on average, better on {up} and worse on "
            f"{down} of {counted(len(values), 'task')}"
        )
        sure.append(f"{name}: p = {p:.2g}")
    means = [fmean(values) for _, values in gains]
    reasons = (
        ("Evidence", "; ".join(told) + "."),
        ("How sure", f"Sign test over tasks, {'; '.join(sure)}."),
        *more,
    )
    if min(means) > 0 and all(better):
        return Verdict("good", "Adaptation helps", text, reasons)
    if min(means) > 0:
        return Verdict("unclear", "Adaptation helps on average, not surely", text, reasons)
    if max(means) > 0:
        word = "Adaptation helps on average on some data sets"
        return Verdict("unclear", word, text, reasons)
    kind: Literal["bad", "unclear"] = "bad" if all(worse) else "unclear"
    return Verdict(kind, "Adaptation does not help on average", text, reasons)


# Captions -----------------------------------------------------------------------------------------


def checks_text(ran: Collection[str]) -> str:
    """Which checks found nothing, and which were not made."""
    made = ", ".join(words for code, words in CHECKS.items() if code in ran)
    left = ", ".join(words for code, words in CHECKS.items() if code not in ran)
    text = f"None. Checked: {made}." if made else "None."
    return f"{text} Not checked: {left}." if left else text


def sampled_text(shown: tuple[int, int], rows: tuple[int, int]) -> str:
    """Which rows a picture shows, of the source and of the target."""
    if shown == rows:
        return f"Each mark is one of all {sum(rows):,} rows"
    return f"Each mark is one of {sum(shown):,} rows drawn by chance from {sum(rows):,}"


def gaps_text(gaps: Sequence[tuple[float, float]]) -> str:
    """What became of the gaps of single features, each before and after."""
    smaller = sum(abs(after) < abs(before) for before, after in gaps)
    larger = sum(abs(after) > abs(before) for before, after in gaps)
    same = len(gaps) - smaller - larger
    text = f"Of these {counted(len(gaps), 'gap')}, {smaller} shrank and {larger} grew"
    return text + (f"; {same} stayed." if same else ".")


def losses_text(losses: Sequence[float]) -> str:
    """How the alternation of a joint model went."""
    last = abs(losses[-2] - losses[-1]) / max(abs(losses[-1]), 1e-300)
    rounding = 1e-9 * max(abs(loss) for loss in losses)
    rose = sum(after > before + rounding for before, after in pairwise(losses))
    way = f"The loss rose in {rose} of them" if rose else "The loss never rose"
    return (
        f"Features and classifier are learned in turn, in {counted(len(losses), 'step')}. {way}; "
        f"the last step changed it by {last:.1e} of its value."
    )
