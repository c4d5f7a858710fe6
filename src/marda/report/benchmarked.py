"""The report of ``marda reproduce``, and of the results that it stored."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from marda._machine import counted
from marda.benchmarks.leaderboard import (
    RANKING_NOTES,
    Entry,
    HalfLine,
    Leaderboard,
    Ranking,
    checks,
    halves_grid,
    rank_systems,
    ranking_grid,
)
from marda.benchmarks.plan import BENCHMARKS, MODELS, TABLE_CLASSIFIERS
from marda.benchmarks.render import time_lines
from marda.benchmarks.results import HALVES, RANKING, Results
from marda.benchmarks.store import ResultRow
from marda.benchmarks.tables import Block, Cell, CheckedClaim, Column, PaperTable
from marda.diagnostics.intervals import signed
from marda.diagnostics.verdict import Verdict, benchmark_verdict
from marda.report import charts
from marda.report.charts import Drawing
from marda.report.page import (
    NONE,
    Cells,
    Chart,
    NumberCell,
    Section,
    Term,
    number,
    page,
    paragraph,
    points,
    table,
)
from marda.report.sections import heat_chart, times

BASE, ADAPTED = "BL", "S1D"
SOME = 6  # models that a line of warnings names
_KIND = re.compile(r"^\w+Warning: ")
_AND_ANOTHER = re.compile(r"; (?=\w+Warning: )")
_FIGURES = re.compile(r"\d[\d.,e-]*")
_LEADING = re.compile(r"(?:< )?([+−-]?\d[\d,]*(?:\.\d+)?)")


def benchmarked_page(results: Results, command: str = "") -> str:
    """One page: the paper's tables next to ours, task by task, and what marda chooses itself."""
    names = list(dict.fromkeys(BENCHMARKS[r.spec.task.benchmark].label for r in results.rows))
    tasks = {(r.spec.task.benchmark, r.spec.task.pair) for r in results.rows}
    lead = (
        f"{counted(len(results.rows), 'run')} of adaptation on {counted(len(tasks), 'task')} of "
        f"{', '.join(names)}: each learned from one kind of data and was judged by the true labels "
        "of another."
    )
    verdict = _verdict(results)
    if verdict is not None:  # the test stands below what it is a test of
        kept = [reason for reason in verdict.reasons if reason[0] != "How sure"]
        verdict = replace(verdict, reasons=kept)
    return page(
        kind="marda reproduce",
        title="The paper's tables, ours and theirs" if results.tables else "marda on benchmarks",
        lead=lead,
        verdict=verdict,
        figures=_figures(results, len(tasks)),
        sections=benchmarked_sections(results),
        command=command,
    )


def benchmarked_sections(results: Results) -> list[Section]:
    """What stands below the answer."""
    sections = [*_paper(results.tables)]
    if results.findings:
        sections.append(_findings(results.findings))
    if results.tables:
        sections += _tasks(results.rows)
    if results.halves:
        sections.append(_halves(results.halves))
    sections += _boards(results.leaderboards, results.notes)
    problems = _problems(results)
    if problems:
        sections.append(Section("Warnings", (points(problems, "warnings"),)))
    peaks = [row.peak_mb for row in results.rows if row.peak_mb is not None]
    spent = [(what, seconds) for what, seconds, _ in time_lines(results.rows)]
    total = sum(row.seconds for row in results.rows)
    sections.append(times(spent, total, max(peaks, default=None)))
    verdict = _verdict(results)
    if verdict is not None:
        sure = [paragraph(text) for name, text in verdict.reasons if name == "How sure"]
        sections.append(Section("How sure", tuple(sure)))
    return sections


def _gains(rows: Sequence[ResultRow]) -> list[tuple[Column, list[float]]]:
    """S1D minus BL, a figure per task (a mean over draws), by column of the tables."""
    found: dict[Column, dict[str, dict[str, list[float]]]] = {}
    for row in rows:
        if row.spec.model in (BASE, ADAPTED) and row.accuracy is not None:
            tasks = found.setdefault(Column.of(row.spec), {})
            models = tasks.setdefault(row.spec.task.pair, {})
            models.setdefault(row.spec.model, []).append(row.accuracy)
    gains = []
    for column, tasks in found.items():
        both = [m for m in tasks.values() if len(m) == 2]
        if both:
            gains.append((column, [fmean(m[ADAPTED]) - fmean(m[BASE]) for m in both]))
    return gains


def _verdict(results: Results) -> Verdict | None:
    if results.leaderboards:
        return _auto_verdict(results.leaderboards)
    gains = [
        (f"{BENCHMARKS[column.benchmark].label}, {column.setting}", found)
        for column, found in _gains(results.rows)
        if column.classifier == "ridge"
    ]
    known = [f.verdict for f in results.findings if f.verdict != "not enough rows"]
    claims = f"{known.count('yes')} of {counted(len(known), 'finding')} that can be checked hold."
    return benchmark_verdict(
        gains,
        f"The ridge classifier on features adapted by {ADAPTED}, against the same classifier on "
        f"the features as they came ({BASE}).",
        (("The paper's findings", claims),) if known else (),
    )


def _figures(results: Results, n_tasks: int) -> list[tuple[str, str]]:
    shown = [("runs", f"{len(results.rows):,}"), ("tasks", f"{n_tasks:,}")]
    differences = [
        c.difference
        for t in results.tables
        for b in t.blocks
        for r in b.rows
        for c in r.cells
        if c.difference is not None
    ]
    if differences:
        shown.append(("ours − paper, mean over figures", f"{signed(fmean(differences))} points"))
    if results.failures:
        shown.append(("runs that failed", f"{len(results.failures):,}"))
    return shown


def _problems(results: Results) -> list[str]:
    """Failures by reason, and what runs warned of; alike ones in one line, frequent ones first."""
    failed = [(row.spec.model, row.message) for row in results.failures]
    warned = [
        (row.spec.model, _KIND.sub("", text))
        for row in results.rows
        for text in _AND_ANOTHER.split(row.message)
        if text
    ]
    return [*_alike(failed, "failed"), *_alike(warned, "warned")]


def _alike(told: Sequence[tuple[str, str]], what: str) -> list[str]:
    """A line for all messages that differ in figures and in the name of the model only."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for model, text in told:
        key = _FIGURES.sub("#", re.sub(rf"\b{re.escape(model)}\b", "#", text))
        groups.setdefault(key, []).append((model, text))
    lines = []
    for found in sorted(groups.values(), key=len, reverse=True):
        models = list(dict.fromkeys(model for model, _ in found))
        some = ", ".join(models[:SOME]) + (" and others" if len(models) > SOME else "")
        instance = "" if len({text for _, text in found}) == 1 else ", for instance"
        lines.append(f"{counted(len(found), 'run')} of {some} {what}{instance}: {found[0][1]}")
    return lines


def _paper(tables: Sequence[PaperTable]) -> list[Section]:
    """Ours against the paper's: all figures in one chart, then table by table."""
    sections = []
    dots = [
        (f"{_first(block)}, {t.name.upper()}", f"{label} {column}", cell.paper, cell.ours.mean)
        for t in tables
        for block in t.blocks
        for label, column, cell in _cells(block)
        if cell.paper is not None and cell.ours is not None and cell.comparable
    ]
    if dots:
        name = "Accuracy in percent, the paper's across and ours up; on the line both are equal."
        rows: list[Cells] = [
            [of, what, number(p, ".1f"), number(o, ".1f"), number(o - p, "+.1f")]
            for of, what, p, o in dots
        ]
        header = ("data set and table", "model", "paper", "ours", "ours − paper")
        chart = Chart(charts.paper_against_ours(dots), name, table(name, header, rows))
        sections.append(Section("Paper against ours", (chart,)))
    for t in tables:
        parts = [_block(block) for block in t.blocks]
        sections.append(Section(t.title, (*parts, points(t.notes, "note"))))
    return sections


def _first(block: Block) -> str:
    """The data set, without the number of its tasks."""
    return block.heading.partition(",")[0]


def _cells(block: Block) -> list[tuple[str, str, Cell]]:
    return [
        (row.label, column, cell)
        for row in block.rows
        for column, cell in zip(block.columns, row.cells, strict=True)
    ]


def _ours(cell: Cell) -> NumberCell:
    """Bold if better than the paper's, underlined if better than S1."""
    if cell.ours is None:
        return NONE
    text = f"{cell.ours.mean:.1f}"
    if cell.ours.stderr is not None:
        text += f" ± {cell.ours.stderr:.1f}"
    if cell.ours.rows < cell.ours.expected:
        text += f" ({cell.ours.rows}/{cell.ours.expected})"
    return NumberCell(text, cell.ours.mean, cell.ours_better, cell.improves)


def _printed(cell: Cell) -> NumberCell:
    if cell.paper is None:
        return NumberCell("none", math.nan)
    return NumberCell(f"{cell.paper:.1f}", cell.paper, cell.paper_better, cell.paper_improves)


def _block(block: Block) -> str:
    """One data set of a table, sortable by every column."""
    rows: list[Cells] = []
    if block.stacked:
        for row in block.rows:
            for whose, figures in (
                ("ours", [_ours(c) for c in row.cells]),
                ("paper", [_printed(c) for c in row.cells]),
            ):
                if any(not math.isnan(figure.value) for figure in figures):
                    rows.append([row.label, whose, *figures])
        return table(block.heading, ("method", "whose", *block.columns), rows)
    header: list[str] = ["model"]
    columns: list[list[str | NumberCell | Term]] = [[row.label for row in block.rows]]
    for k, column in enumerate(block.columns):
        for name, figure in (
            (column, _ours),
            (f"{column}, paper", _printed),
            (f"{column} − paper", _gap),
        ):
            cells = [figure(row.cells[k]) for row in block.rows]
            if figure is _ours or any(not math.isnan(cell.value) for cell in cells):
                header.append(name)
                columns.append([*cells])
    rows = [[*line] for line in zip(*columns, strict=True)]
    return table(block.heading, header, rows)


def _gap(cell: Cell) -> NumberCell:
    return number(cell.difference, "+.1f")


def _findings(found: Sequence[CheckedClaim]) -> Section:
    known = [f for f in found if f.verdict != "not enough rows"]
    rows: list[Cells] = [[f.statement, f.verdict, f.summary] for f in known]
    more = counted(len(found) - len(known), "more finding" if known else "finding")
    lacking = f"{more}: not enough rows to tell." if len(known) < len(found) else ""
    evidence: list[Cells] = [
        [e.text, number(e.difference, "+.1f"), "yes" if e.holds else "no"]
        for f in found
        for e in f.known
    ]
    details = table("Every comparison.", ("comparison", "points", "holds"), evidence)
    return Section(
        "The paper's findings on our rows",
        (
            table("Claims of the paper.", ("finding", "holds", "comparisons"), rows)
            if rows
            else "",
            paragraph(lacking) if lacking else "",
            f"<details><summary>Every comparison</summary>{details}</details>" if evidence else "",
        ),
    )


def _tasks(rows: Sequence[ResultRow]) -> list[Section]:
    """Task × method: what a mean over tasks hides."""
    groups: dict[Column, dict[str, list[ResultRow]]] = {}
    for row in rows:
        if row.spec.settings != "auto" and row.accuracy is not None:
            column = Column.of(row.spec)
            groups.setdefault(replace(column, classifier=""), {}).setdefault(
                column.classifier, []
            ).append(row)
    sections = []
    for group, by_classifier in groups.items():
        label = BENCHMARKS[group.benchmark].label
        extra = ", ".join(
            word for word in (group.protocol, group.preprocessing, group.variant)
            if word not in ("full", "paper")
        )  # fmt: skip
        title = f"Task by task: {label}, {group.setting}" + (f" ({extra})" if extra else "")
        order = [c for c in TABLE_CLASSIFIERS if c in by_classifier]
        drawn = tuple(_heat(by_classifier[c], c) for c in order)
        sections.append(Section(title, (drawn,)))
    return sections


def _heat(rows: Sequence[ResultRow], classifier: str) -> Chart:
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.accuracy is not None:
            values.setdefault((row.spec.task.pair, row.spec.model), []).append(row.accuracy)
    pairs = list(dict.fromkeys(pair for pair, _ in values))
    models = [m for m in MODELS if any(model == m for _, model in values)]
    cells = [
        (pair.replace("-", " → "), model, fmean(found), f"{fmean(found):.1f}")
        for pair in pairs
        for model in models
        if (found := values.get((pair, model)))
    ]
    name = f"Accuracy in percent by task and model, classifier {classifier}."
    return heat_chart(name, cells, down="task", across="model", value="accuracy", cell=26)


def _figure(text: str) -> str | NumberCell:
    """A cell that begins with a figure sorts by it."""
    if text in ("", "–"):
        return NumberCell(text, math.nan)
    found = _LEADING.match(text)
    if found is None:
        return text
    return NumberCell(text, float(found[1].replace(",", "").replace("−", "-")))


# marda's own choice next to the alternatives ------------------------------------------------------


def _auto_verdict(boards: Sequence[Leaderboard]) -> Verdict | None:
    """Does marda's own choice help, against the same classifier without adaptation?"""
    gains = [
        (f"{board.heading.partition(',')[0]}, {board.setting}", [gap for _, gap in found])
        for board in boards
        if (found := board.harm())
    ]
    return benchmark_verdict(
        gains,
        "What marda chooses by itself, without a target label, against a classifier that knows "
        "the source only.",
    )


def _halves(lines: Sequence[HalfLine]) -> Section:
    header, *rows = halves_grid(lines)
    cells: list[Cells] = [[row[0], *map(_figure, row[1:])] for row in rows]
    name = "Tasks that may settle constants, and tasks that may not; a click sorts."
    return Section(HALVES, (table(name, ("tasks of", *header[1:]), cells),))


def _boards(boards: Sequence[Leaderboard], notes: Sequence[str]) -> list[Section]:
    """A section per data set; then checks and notes."""
    sections = [*_ranking(boards), *(_board(board) for board in boards)]
    if boards:
        told = [line.partition("] ")[2] for line in checks(boards)]
        sections.append(Section("Checks and notes", (points([*told, *notes], "note"),)))
    return sections


def _ranking(boards: Sequence[Leaderboard]) -> list[Section]:
    """Mean ranks with the critical difference, and auto against every other system."""
    ranking = rank_systems(boards)
    if ranking is None:
        return []
    drawing = ranks_drawing(ranking)
    header, *rows = ranking_grid(ranking)
    cells: list[Cells] = [[row[0], *map(_figure, row[1:])] for row in rows]
    name = f"Mean ranks over {counted(ranking.n_tasks, 'task')}; intervals that overlap are alike."
    whole = table("Auto against every other system; a click sorts.", ("system", *header[1:]), cells)
    return [Section(RANKING, (Chart(drawing, name, ""), whole, points([*RANKING_NOTES], "note")))]


def ranks_drawing(found: Ranking) -> Drawing:
    """Mean ranks, each with half of the critical difference to either side."""
    ranks = [(one.label, one.rank) for one in found.systems if one.rank is not None]
    return charts.intervals(ranks, "mean rank", zero=False, form=".1f")


def _board(board: Leaderboard) -> Section:
    cells = [
        (entry.label, head, value, f"{value:.1f}")
        for entry in board.entries
        for head, value in zip(board.heads, entry.values, strict=True)
        if value is not None
    ]
    down, across = "method", "task"
    if board.evaluation.by_halves:  # many tasks, few methods
        cells = [(head, label, value, text) for label, head, value, text in cells]
        down, across = across, down
    name = f"{board.heading}, by method and task."
    rows: list[Cells] = [_line(entry) for entry in board.entries]
    header = ("method", "kind", "mean", *board.titles, "fit", "memory")
    whole = table("The same with means, times and memory; a click sorts.", header, rows)
    if not cells:
        return Section(board.heading, (whole,))
    drawing = charts.heat_map(cells, down=down, across=across, value="percent", cell=24)
    return Section(board.heading, (Chart(drawing, name, ""), whole))


def _line(entry: Entry) -> Cells:
    seconds, memory = entry.fit_seconds, entry.peak_mb
    return [
        entry.label,
        entry.role,
        *(number(value, ".1f") for value in (entry.mean, *entry.values)),
        NONE if seconds is None else NumberCell(f"{seconds:.2f} s", seconds),
        NONE if memory is None else NumberCell(f"{memory:.0f} MB", memory),
    ]
