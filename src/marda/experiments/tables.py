"""From result rows to the paper's tables, ours next to the printed figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marda.experiments import paper
from marda.experiments.aggregate import Column, Figure, Results
from marda.experiments.plan import BENCHMARKS, CLASSIFIERS, MODELS, TableName
from marda.experiments.rows import ResultRow
from marda.experiments.specs import Spec

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
LEGEND = "Bold: the better of ours and the paper's. Underlined: better than S1 in the same column."
_BASELINES = ("BL", "MCF", "S1")  # as in the paper, these are never underlined


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
    """A label and one cell a column."""

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
class Table:
    """A table of the paper, with what a reader must know about it."""

    name: TableName
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def build(table: TableName, specs: Sequence[Spec], rows: Sequence[ResultRow]) -> Table:
    """Build a table from the rows of ``specs``, which say what it should hold."""
    keys = {spec.key for spec in specs}
    mine = [row for row in rows if row.spec.key in keys]
    results = Results(mine)
    names = dict.fromkeys(spec.task.benchmark for spec in specs)
    make = _off31_block if table == "off31" else _block
    blocks = tuple(
        make(table, name, [s for s in specs if s.task.benchmark == name], results) for name in names
    )
    return Table(table, TITLES[table], blocks, tuple(_notes(table, specs, mine)))


@dataclass(frozen=True)
class _Scope:
    """The rows that a figure is the mean of."""

    results: Results
    pairs: tuple[str, ...]
    draws: int
    whole: bool
    """The tasks are those that the paper averages over."""

    def cell(self, column: Column, model: str, printed: float | None, first: float | None) -> Cell:
        """Return one cell; ``printed`` and ``first`` are the paper's figures of it and of S1."""
        ours = self.results.figure(column, model, self.pairs, self.draws)
        s1 = self.results.figure(column, "S1", self.pairs, self.draws)
        extends = model not in _BASELINES
        return Cell(
            ours=ours,
            paper=printed,
            balanced=self.results.figure(column, model, self.pairs, self.draws, balanced=True),
            comparable=self.whole and ours is not None and ours.whole,
            improves=extends and _above(ours.mean if ours else None, s1.mean if s1 else None),
            paper_improves=extends and _above(printed, first),
        )


def _above(value: float | None, other: float | None) -> bool:
    """Compare printed digits: a mark must agree with what the reader sees."""
    return value is not None and other is not None and round(value, 1) > round(other, 1)


def _block(table: TableName, name: str, specs: Sequence[Spec], results: Results) -> Block:
    """Models down, classifiers across."""
    pairs = tuple(dict.fromkeys(spec.task.pair for spec in specs))
    draws = 1 + max(spec.task.draw for spec in specs)
    scope = _Scope(results, pairs, draws, len(pairs) == len(BENCHMARKS[name].pairs()))
    columns = {c: Column.of(s) for c in CLASSIFIERS for s in specs if s.classifier == c}

    printed_as = BENCHMARKS[name].printed_as

    def cell(model: str, classifier: str) -> Cell:
        printed = paper.paper_figure(table, printed_as, model, classifier)
        first = paper.paper_figure(table, printed_as, "S1", classifier)
        return scope.cell(columns[classifier], model, printed, first)

    models = [m for m in MODELS if any(s.model == m for s in specs)]
    rows = tuple(TableRow(m, tuple(cell(m, c) for c in columns)) for m in models)
    heading = f"{BENCHMARKS[name].label}, {len(pairs)} tasks"
    if specs[0].task.setting != "US":
        heading += f", {draws} draw{'s' if draws > 1 else ''}"
    return Block(heading, name, tuple(columns), rows)


def _off31_block(table: TableName, name: str, specs: Sequence[Spec], results: Results) -> Block:
    """Methods down, tasks across, and the methods that the paper quotes."""
    planned = {spec.task.pair for spec in specs}
    pairs = tuple(pair for pair in paper.OFF31_TASKS if pair in planned)
    rows = [
        _off31_row(model, classifier, specs, results, pairs)
        for model in MODELS
        for classifier in CLASSIFIERS
        if any(s.model == model and s.classifier == classifier for s in specs)
    ]
    for label, figures in paper.OFF31_QUOTED.items():
        kept = [figures[paper.OFF31_TASKS.index(pair)] for pair in pairs] + [figures[-1]]
        rows.append(TableRow(f"{label} (quoted)", tuple(Cell(paper=f) for f in kept)))
    heads = tuple("→".join(end[0].upper() for end in pair.split("-")) for pair in pairs)
    return Block(BENCHMARKS[name].label, name, (*heads, "mean"), tuple(rows), stacked=True)


def _off31_row(
    model: str, classifier: str, specs: Sequence[Spec], results: Results, pairs: Sequence[str]
) -> TableRow:
    """One method on every task, then its mean."""
    column = next(Column.of(s) for s in specs if s.classifier == classifier)
    printed = paper.OFF31_OURS.get((model, classifier), (None,) * (len(paper.OFF31_TASKS) + 1))
    cells = [
        _Scope(results, (pair,), 1, True).cell(
            column, model, printed[paper.OFF31_TASKS.index(pair)], None
        )
        for pair in pairs
    ]
    every = _Scope(results, tuple(pairs), 1, len(pairs) == len(paper.OFF31_TASKS))
    return TableRow(f"{model}+{classifier}", (*cells, every.cell(column, model, printed[-1], None)))


def _notes(table: TableName, specs: Sequence[Spec], rows: Sequence[ResultRow]) -> list[str]:
    """What the reader must know before comparing."""
    features = {BENCHMARKS[s.task.benchmark].features for s in specs}
    variants = ", ".join(dict.fromkeys(s.variant for s in specs))
    prepared = {s.task.preprocessing for s in specs} - {"paper"}
    notes = [SQUEEZENET] if "squeezenet" in features else []
    notes.append(f"Settings: {variants}. {LEGEND}")
    if prepared:
        notes.append(f"Preprocessing differs from the paper's: {', '.join(sorted(prepared))}.")
    if table in ("sup", "ss", "surf"):
        notes.append("± is the standard error over draws of 3 labelled target rows a class.")
    if table == "us" and any(s.task.benchmark == "oc10" for s in specs):
        notes.append(f"The paper's text quotes S1M = {paper.S1M_QUOTED} on OC10; no table has it.")
    if table == "off31":
        notes.append("Means of quoted methods as printed; GFK+SVM's six tasks average 52.8.")
    if table == "surf":
        quoted = ", ".join(f"{k} {v}" for k, v in paper.SURF_QUOTED.items())
        notes.append(f"20 source rows a class (8 for dslr). The paper quotes {quoted}.")
    commits = sorted({row.commit for row in rows if row.commit})
    if len(commits) > 1:
        notes.append(f"Rows come from {len(commits)} commits: {', '.join(commits)}.")
    missing = len(specs) - len(rows)
    if missing:
        notes.append(f"{missing} of {len(specs)} rows are missing; (k/n) counts those there are.")
    return notes
