"""From result rows to the paper's tables, ours next to the printed figures, and to its findings.

Means are over tasks, standard errors over draws. A finding is a claim of the paper, checked on our
rows: yes, no, or not enough rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal

from marda._machine import counted
from marda.benchmarks import published
from marda.benchmarks.plan import (
    BENCHMARKS,
    MODELS,
    TABLE_CLASSIFIERS,
    Spec,
    TableName,
    full_protocol,
    seen_rows,
)
from marda.benchmarks.store import ResultRow

Verdict = Literal["yes", "no", "not enough rows"]
Told = Literal["holds", "does not hold", "cannot be told"]
Place = tuple[str, int]
"""Source-target pair and number of the draw."""


TITLES: dict[str, str] = {
    "us": "Table 2: unsupervised adaptation (US), accuracy in percent, mean over tasks",
    "sup": "Table 3: supervised adaptation (SUP), accuracy in percent, mean over tasks",
    "ss": "Table 4: semi-supervised adaptation (SS), accuracy in percent, mean over tasks",
    "off31": "Table 5: the six tasks of OFF31, unsupervised (US), accuracy in percent",
    "surf": "SURF experiment: OC10, semi-supervised (SS), sampled rows, accuracy in percent",
}
SQUEEZENET = (
    "Image features are SqueezeNet, not the paper's DeCAF6: "
    "compare the differences between models, not the level."
)
LEGEND = (
    "Bold: the better of ours and the paper's. Underlined: better than S1 in the same column. "
    "None: the paper prints no such figure."
)
_BASELINES = ("BL", "MCF", "S1")  # as in the paper, these are never underlined


# Figures ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """What one figure is made of, but for the model: rows that differ in task and draw only."""

    benchmark: str
    setting: str
    protocol: str
    preprocessing: str
    variant: str
    classifier: str

    @classmethod
    def of(cls, spec: Spec) -> Column:
        """Return the column a spec belongs to."""
        task = spec.task
        return cls(
            task.benchmark,
            task.setting,
            task.protocol,
            task.preprocessing,
            spec.variant,
            spec.classifier,
        )


@dataclass(frozen=True)
class Figure:
    """A mean accuracy in percent."""

    mean: float
    stderr: float | None
    """Over draws; None with fewer than two of them."""
    rows: int
    expected: int
    whole: bool
    """At least one draw has every expected task: without that a mean compares with nothing."""
    draws: int = 0
    """Draws that have every expected task: the mean is over these."""


class Accuracies:
    """Accuracies by column, model, task and draw."""

    def __init__(self, rows: Iterable[ResultRow]) -> None:
        self._accuracy: dict[tuple[Column, str], dict[Place, float]] = {}
        self._balanced: dict[tuple[Column, str], dict[Place, float]] = {}
        for row in rows:
            where = Column.of(row.spec), row.spec.model
            place = row.spec.task.pair, row.spec.task.draw
            if row.accuracy is not None:
                self._accuracy.setdefault(where, {})[place] = row.accuracy
            if row.balanced_accuracy is not None:
                self._balanced.setdefault(where, {})[place] = row.balanced_accuracy

    def figure(
        self,
        column: Column,
        model: str,
        pairs: Sequence[str],
        draws: int = 1,
        *,
        balanced: bool = False,
    ) -> Figure | None:
        """Mean over ``pairs``, then over draws; None without any row."""
        table = self._balanced if balanced else self._accuracy
        found = {
            place: value
            for place, value in table.get((column, model), {}).items()
            if place[0] in pairs and place[1] < draws
        }
        return _summarise(found, pairs, draws)

    def gaps(
        self,
        column: Column,
        model: str,
        other: str,
        pairs: Sequence[str],
        of_other: Column | None = None,
    ) -> list[float]:
        """``model`` minus ``other`` per task, mean over the draws that both have in full."""
        ours = self._accuracy.get((column, model), {})
        theirs = self._accuracy.get((of_other or column, other), {})
        whole = _draw_means(ours, pairs).keys() & _draw_means(theirs, pairs).keys()
        if not whole:
            return []
        return [fmean(ours[pair, d] - theirs[pair, d] for d in whole) for pair in pairs]


def _draw_means(found: dict[Place, float], pairs: Sequence[str]) -> dict[int, float]:
    """Mean over tasks of every draw that has them all."""
    draws = {draw for _, draw in found}
    return {
        draw: fmean(found[pair, draw] for pair in pairs)
        for draw in sorted(draws)
        if all((pair, draw) in found for pair in pairs)
    }


def _summarise(found: dict[Place, float], pairs: Sequence[str], draws: int) -> Figure | None:
    if not found:
        return None
    means = list(_draw_means(found, pairs).values())
    if not means:
        return Figure(fmean(found.values()), None, len(found), len(pairs) * draws, False)
    stderr = stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None
    return Figure(fmean(means), stderr, len(found), len(pairs) * draws, True, len(means))


# Tables -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Ours and the paper's figure for one model in one column; either may be missing."""

    ours: Figure | None = None
    paper: float | None = None
    balanced: Figure | None = None
    comparable: bool = False
    """Ours covers the tasks that the paper's figure covers."""
    improves: bool = False
    paper_improves: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, of the printed digits, so that the eye can check it."""
        if self.ours is None or self.paper is None or not self.comparable:
            return None
        return round(round(self.ours.mean, 1) - self.paper, 1)

    @property
    def ours_better(self) -> bool:
        """Whether ours is to be bold."""
        return self.difference is not None and self.difference > 0

    @property
    def paper_better(self) -> bool:
        """Whether the paper's is to be bold."""
        return self.difference is not None and self.difference < 0


@dataclass(frozen=True)
class TableRow:
    """A label and one cell per column."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Block:
    """One data set of a table. ``stacked``: ours and the paper's below, not beside each other."""

    heading: str
    benchmark: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    stacked: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, with what a reader must know about it."""

    name: TableName
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def build_table(table: TableName, specs: Sequence[Spec], rows: Sequence[ResultRow]) -> PaperTable:
    """Build a table from the rows of ``specs``, which say what it should hold."""
    keys = {spec.key for spec in specs}
    mine = [row for row in rows if row.spec.key in keys]
    accuracies = Accuracies(mine)
    names = dict.fromkeys(spec.task.benchmark for spec in specs)
    make = _off31_block if table == "off31" else _block
    blocks = tuple(
        make(table, name, [s for s in specs if s.task.benchmark == name], accuracies)
        for name in names
    )
    return PaperTable(table, TITLES[table], blocks, tuple(_notes(table, specs, mine)))


@dataclass(frozen=True)
class _Scope:
    """The rows that a figure is the mean of."""

    accuracies: Accuracies
    pairs: tuple[str, ...]
    draws: int
    whole: bool
    """The tasks are those that the paper averages over."""

    def cell(self, column: Column, model: str, printed: float | None, first: float | None) -> Cell:
        """Return one cell; ``printed`` and ``first`` are the paper's figures of it and of S1."""
        ours = self.accuracies.figure(column, model, self.pairs, self.draws)
        s1 = self.accuracies.figure(column, "S1", self.pairs, self.draws)
        extends = model not in _BASELINES
        return Cell(
            ours=ours,
            paper=printed,
            balanced=self.accuracies.figure(column, model, self.pairs, self.draws, balanced=True),
            comparable=self.whole and ours is not None and ours.whole,
            improves=extends and _above(ours.mean if ours else None, s1.mean if s1 else None),
            paper_improves=extends and _above(printed, first),
        )


def _above(value: float | None, other: float | None) -> bool:
    """Compare printed digits: a mark must agree with what the reader sees."""
    return value is not None and other is not None and round(value, 1) > round(other, 1)


def _block(table: TableName, name: str, specs: Sequence[Spec], accuracies: Accuracies) -> Block:
    """Models down, classifiers across."""
    pairs = tuple(dict.fromkeys(spec.task.pair for spec in specs))
    draws = 1 + max(spec.task.draw for spec in specs)
    scope = _Scope(accuracies, pairs, draws, len(pairs) == len(BENCHMARKS[name].pairs()))
    columns = {c: Column.of(s) for c in TABLE_CLASSIFIERS for s in specs if s.classifier == c}

    printed_as = BENCHMARKS[name].printed_as

    def cell(model: str, classifier: str) -> Cell:
        printed = published.paper_figure(table, printed_as, model, classifier)
        first = published.paper_figure(table, printed_as, "S1", classifier)
        return scope.cell(columns[classifier], model, printed, first)

    models = [m for m in MODELS if any(s.model == m for s in specs)]
    rows = [TableRow(m, tuple(cell(m, c) for c in columns)) for m in models]
    for label, figure in published.quoted(table, printed_as).items():
        # A system of others has a classifier of its own: its figure stands in the last column.
        empty = (Cell(),) * (len(columns) - 1)
        rows.append(TableRow(f"{label} (quoted)", (*empty, Cell(paper=figure))))
    heading = f"{BENCHMARKS[name].label}, {len(pairs)} tasks"
    if specs[0].task.setting != "US":
        heading += f", {draws} draw{'s' if draws > 1 else ''}"
    return Block(heading, name, tuple(columns), tuple(rows))


def _off31_block(
    table: TableName, name: str, specs: Sequence[Spec], accuracies: Accuracies
) -> Block:
    """Methods down, tasks across, and the methods that the paper quotes."""
    planned = {spec.task.pair for spec in specs}
    pairs = tuple(pair for pair in published.OFF31_TASKS if pair in planned)
    rows = [
        _off31_row(model, classifier, specs, accuracies, pairs)
        for model in MODELS
        for classifier in TABLE_CLASSIFIERS
        if any(s.model == model and s.classifier == classifier for s in specs)
    ]
    for label, figures in published.OFF31_QUOTED.items():
        kept = [figures[published.OFF31_TASKS.index(pair)] for pair in pairs] + [figures[-1]]
        rows.append(TableRow(f"{label} (quoted)", tuple(Cell(paper=f) for f in kept)))
    heads = tuple("→".join(end[0].upper() for end in pair.split("-")) for pair in pairs)
    return Block(BENCHMARKS[name].label, name, (*heads, "mean"), tuple(rows), stacked=True)


def _off31_row(
    model: str, classifier: str, specs: Sequence[Spec], accuracies: Accuracies, pairs: Sequence[str]
) -> TableRow:
    """One method on every task, then its mean."""
    column = next(Column.of(s) for s in specs if s.classifier == classifier)
    tasks = published.OFF31_TASKS
    printed = published.OFF31_PRINTED.get((model, classifier), (None,) * (len(tasks) + 1))
    cells = [
        _Scope(accuracies, (pair,), 1, True).cell(column, model, printed[tasks.index(pair)], None)
        for pair in pairs
    ]
    every = _Scope(accuracies, tuple(pairs), 1, len(pairs) == len(tasks))
    return TableRow(f"{model}+{classifier}", (*cells, every.cell(column, model, printed[-1], None)))


def _notes(table: TableName, specs: Sequence[Spec], rows: Sequence[ResultRow]) -> list[str]:
    """What the reader must know before comparing."""
    features = {BENCHMARKS[s.task.benchmark].features for s in specs}
    variants = ", ".join(dict.fromkeys(s.variant for s in specs))
    prepared = {s.task.preprocessing for s in specs} - {"paper"}
    notes = [SQUEEZENET] if "squeezenet" in features else []
    notes.append(f"Settings: {variants}. {LEGEND}")
    seen = seen_rows(specs)
    if seen != "train":
        rows_seen = {"test": "test rows", "both": "train and test rows"}[seen]
        notes.append(f"W sees the target's {rows_seen} without their labels (AMT; transductive).")
    if prepared:
        notes.append(f"Preprocessing differs from the paper's: {', '.join(sorted(prepared))}.")
    if table in ("sup", "ss", "surf"):
        notes.append(
            "± is the standard error over draws of 3 labelled target rows per class; a figure "
            "without it is of one draw, and one of fewer draws than the heading says has their "
            "number behind it."
        )
    if table != "off31":
        notes += _partial(specs)
    if table == "us" and any(s.task.benchmark == "oc10" for s in specs):
        told = published.S1M_QUOTED
        notes.append(f"The paper's text quotes S1M = {told} on OC10; no table has it.")
    if table != "off31" and any(
        published.quoted(table, BENCHMARKS[s.task.benchmark].printed_as) for s in specs
    ):
        notes.append(
            "Quoted: figures of others that the paper's text compares with, their classifiers "
            'being their own; of DANN on AMT it says "similar" to S1D and prints none.'
        )
    if table == "off31":
        notes.append("Means of quoted methods as printed; GFK+SVM's six tasks average 52.8.")
    if table == "surf":
        quoted = ", ".join(f"{k} {v}" for k, v in published.SURF_QUOTED.items())
        notes.append(f"20 source rows per class (8 for dslr). The paper quotes {quoted}.")
    commits = sorted({row.commit for row in rows if row.commit})
    if len(commits) > 1:
        notes.append(f"Rows come from {len(commits)} commits: {', '.join(commits)}.")
    missing = len(specs) - len(rows)
    if missing:
        notes.append(f"{missing} of {len(specs)} rows are missing; (k/n) counts those there are.")
    return notes


def _partial(specs: Sequence[Spec]) -> Iterator[str]:
    """Data sets of which too few tasks are here to compare with the paper's means."""
    for name in dict.fromkeys(spec.task.benchmark for spec in specs):
        here = len({spec.task.pair for spec in specs if spec.task.benchmark == name})
        every = len(BENCHMARKS[name].pairs())
        if BENCHMARKS[name].printed_as and here < every:
            yield (
                f"{BENCHMARKS[name].label}: {here} of {every} tasks are here, so that the "
                "paper's means over all of them have no difference."
            )


# Findings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimComparison:
    """One comparison of a claim, on our rows."""

    text: str
    claim: published.PaperClaim
    difference: float | None
    interval: tuple[float, float] | None = None
    """Of the difference, 95 %, over tasks."""

    @property
    def holds(self) -> bool | None:
        """None without rows."""
        return None if self.difference is None else self.claim.holds(self.difference)

    @property
    def told(self) -> Told:
        """Whether the interval lies on one side of the threshold."""
        if self.interval is None:
            return "cannot be told"
        low, high = self.interval
        if self.claim.holds(low):
            return "holds"
        return "does not hold" if high < self.claim.threshold else "cannot be told"


@dataclass(frozen=True)
class CheckedClaim:
    """A claim of the paper with its evidence."""

    claim: published.PaperClaim
    evidence: tuple[ClaimComparison, ...]
    average: ClaimComparison | None = None
    """All comparisons that have rows as one: their mean per task; None without any."""

    @property
    def statement(self) -> str:
        """The claim in our words."""
        return self.claim.statement

    @property
    def known(self) -> list[ClaimComparison]:
        """Comparisons that have rows."""
        return [e for e in self.evidence if e.difference is not None]

    @property
    def verdict(self) -> Verdict:
        """Yes if every comparison that has rows holds."""
        if not self.known:
            return "not enough rows"
        return "yes" if all(e.holds for e in self.known) else "no"

    @property
    def told(self) -> Told:
        """Holds if every comparison with rows does; does not hold if one of them does not."""
        said = {e.told for e in self.known}
        if "does not hold" in said:
            return "does not hold"
        return "holds" if said == {"holds"} else "cannot be told"

    @property
    def summary(self) -> str:
        """How many comparisons hold, and how many lack rows."""
        n, lacking = len(self.known), len(self.evidence) - len(self.known)
        text = f"holds in {sum(bool(e.holds) for e in self.known)} of {counted(n, 'comparison')}"
        return text + (f", {lacking} lack{'s' if lacking == 1 else ''} rows" if lacking else "")


def check_findings(
    rows: Sequence[ResultRow],
    variant: str = "paper",
    preprocessing: str = "paper",
    unlabelled: str = "train",
) -> tuple[CheckedClaim, ...]:
    """Check every claim on the rows of one variant of settings, preprocessing and protocol."""
    accuracies = Accuracies(rows)
    found = []
    for claim in published.CLAIMS:
        evidence = []
        by_task: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for setting, name, (model, first), (other, second) in claim.cells():
            pairs = [f"{s}-{t}" for s, t in BENCHMARKS[name].pairs()]
            protocol = full_protocol(name, unlabelled)
            ours, theirs = (
                Column(name, setting, protocol, preprocessing, variant, classifier)
                for classifier in (first, second)
            )
            gaps = accuracies.gaps(ours, model, other, pairs, theirs)
            text = f"{name} {setting} {first}: {model} − {other}"
            text += "" if first == second else f" {second}"
            for pair, gap in zip(pairs, gaps, strict=False):  # without rows there are no gaps
                by_task[name, pair].append(gap)
            evidence.append(_compared(text, gaps, claim))
        # "Similar" compares both ways round, and the mean of both says nothing.
        one_way = not any(a != b and (b, a) in claim.comparisons for a, b in claim.comparisons)
        means = [fmean(gaps) for gaps in by_task.values()]
        average = _compared("on average", means, claim) if means and one_way else None
        found.append(CheckedClaim(claim, tuple(evidence), average))
    return tuple(found)


def _compared(text: str, gaps: Sequence[float], claim: published.PaperClaim) -> ClaimComparison:
    """One difference per task as a comparison."""
    difference = fmean(gaps) if gaps else None
    return ClaimComparison(text, claim, difference, _interval(gaps))


def _interval(gaps: Sequence[float]) -> tuple[float, float] | None:
    """95 % for the mean of differences over tasks, by Student's t; None with fewer than two."""
    if len(gaps) < 2:
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(len(gaps) - 1, 0.975)) * stdev(gaps) / math.sqrt(len(gaps))
    return fmean(gaps) - half, fmean(gaps) + half
