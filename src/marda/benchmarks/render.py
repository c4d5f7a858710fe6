"""Results as text: terminal (rich or plain), Markdown, CSV, LaTeX; times; the data sets there are.

Tables of all formats lay out the same grid of marked strings; only the marks differ.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from marda import datasets
from marda._machine import counted
from marda.benchmarks.store import ResultRow
from marda.benchmarks.tables import (
    Block,
    Cell,
    CheckedClaim,
    ClaimComparison,
    Figure,
    PaperTable,
)
from marda.diagnostics.intervals import seconds_text
from marda.io.writing import harmless

if TYPE_CHECKING:
    from rich.console import Console

    from marda.benchmarks.runner import RunReport

# Tables -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """How one output format writes what the grid needs."""

    bold: tuple[str, str]
    underline: tuple[str, str]
    plus_minus: str = "±"
    minus: str = "−"
    arrow: str = "→"

    def apply(self, text: str, *, bold: bool, underline: bool) -> str:
        """Mark a figure."""
        if underline:
            text = self.underline[0] + text + self.underline[1]
        if bold:
            text = self.bold[0] + text + self.bold[1]
        return text


PLAIN = Marks(("*", "*"), ("_", "_"))
RICH = Marks(("[bold]", "[/bold]"), ("[underline]", "[/underline]"))
MARKDOWN = Marks(("**", "**"), ("<u>", "</u>"))
LATEX = Marks((r"\textbf{", "}"), (r"\underline{", "}"), r" $\pm$ ", "$-$", r"$\to$")


def grid(block: Block, marks: Marks) -> tuple[list[str], list[list[str]]]:
    """Header and lines of a block, as marked strings."""
    columns = [name.replace("→", marks.arrow) for name in block.columns]
    if block.stacked:
        return ["", *columns], [line for row in block.rows for line in _stacked(row, marks)]
    header, lines = [""], [[row.label] for row in block.rows]
    for at, name in enumerate(columns):
        cells = [row.cells[at] for row in block.rows]
        # A column of which the paper prints nothing gets no empty one beside it.
        width = 1 + any(cell.paper is not None for cell in cells)
        header += [name, "paper"][:width]
        for line, cell in zip(lines, cells, strict=True):
            line.extend(_side(cell, marks)[:width])
    return header, lines


def _side(cell: Cell, marks: Marks) -> tuple[str, str]:
    """Ours, then the paper's with the difference."""
    printed = _paper(cell, marks)
    if cell.difference is not None:
        printed += f" ({_signed(cell.difference, marks)})"
    return _ours(cell, marks), printed


def _stacked(row: Any, marks: Marks) -> list[list[str]]:
    """Ours, the paper's and the difference on lines of their own, where there are such."""
    lines = []
    if any(cell.ours for cell in row.cells):
        lines.append([row.label, *(_ours(cell, marks) for cell in row.cells)])
    if any(cell.paper is not None for cell in row.cells):
        label = "  paper" if lines else row.label
        lines.append([label, *(_paper(cell, marks) for cell in row.cells)])
    if any(cell.difference is not None for cell in row.cells):
        signed = ["" if c.difference is None else _signed(c.difference, marks) for c in row.cells]
        lines.append(["  difference", *signed])
    return lines


def _ours(cell: Cell, marks: Marks) -> str:
    if cell.ours is None:
        return "–"
    figure = cell.ours
    text = marks.apply(f"{figure.mean:.1f}", bold=cell.ours_better, underline=cell.improves)
    if figure.stderr is not None:
        text += f"{marks.plus_minus}{figure.stderr:.1f}"
    if figure.rows < figure.expected and figure.whole:
        text += f" ({counted(figure.draws, 'draw')})"
    elif figure.rows < figure.expected:
        text += f" ({figure.rows}/{figure.expected})"
    return text


def _paper(cell: Cell, marks: Marks) -> str:
    if cell.paper is None:
        return "none"
    return marks.apply(f"{cell.paper:.1f}", bold=cell.paper_better, underline=cell.paper_improves)


def _signed(value: float, marks: Marks) -> str:
    return f"{'+' if value > 0 else marks.minus if value < 0 else ''}{abs(value):.1f}"


def to_plain(table: PaperTable) -> str:
    """Fixed-width text: ``*better of the two*``, ``_better than S1_``."""
    parts = [table.title, "=" * len(table.title)]
    for block in table.blocks:
        header, lines = grid(block, PLAIN)
        parts += ["", block.heading, *align([header, *lines], rule=True)]
    return "\n".join([*parts, "", *table.notes]) + "\n"


def align(lines: Sequence[Sequence[str]], *, rule: bool = False, left: bool = False) -> list[str]:
    """Pad columns: the first (or all) to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if left or at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return [text[0], "-" * (sum(widths) + 2 * len(widths) - 2), *text[1:]] if rule else text


def to_markdown(table: PaperTable) -> str:
    """GitHub-flavoured Markdown."""
    parts = [f"## {table.title}"]
    for block in table.blocks:
        header, lines = grid(block, MARKDOWN)
        parts += ["", f"### {block.heading}", "", *markdown_lines([header, *lines])]
    return "\n".join([*parts, "", *(f"- {note}" for note in table.notes)]) + "\n"


def markdown_lines(grid: Sequence[Sequence[str]]) -> list[str]:
    """A header and its lines as a GitHub-flavoured table."""
    aligned = ["---", *("---:" for _ in grid[0][1:])]
    return ["| " + " | ".join(line) + " |" for line in (grid[0], aligned, *grid[1:])]


def to_latex(table: PaperTable) -> str:
    """One ``table`` environment per block; needs no package."""
    parts = []
    for block in table.blocks:
        header, lines = grid(block, LATEX)
        caption = f"{table.title}. {block.heading}. {' '.join(table.notes)}"
        cells = [[cell.replace("–", "--") for cell in line] for line in lines]
        parts += _latex_lines(caption, [header, *cells])
    return "\n".join(parts)


def latex_lines(caption: str, grid: Sequence[Sequence[str]]) -> list[str]:
    """A ``table`` environment of plain cells."""
    return _latex_lines(caption, [[_latex(cell) for cell in line] for line in grid])


def _latex_lines(caption: str, grid: Sequence[Sequence[str]]) -> list[str]:
    header, *lines = grid
    return [
        r"\begin{table}",
        r"\centering\footnotesize",
        rf"\caption{{{_latex(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
        r"\hline",
        " & ".join(header) + r" \\",
        r"\hline",
        *(" & ".join(line) + r" \\" for line in lines),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]


_LATEX = {
    **{character: rf"\{character}" for character in "%_&#"},
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "→": r"$\to$",
    "←": r"$\gets$",
    "×": r"$\times$",
    "<": "$<$",
    ">": "$>$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


_CSV_HEADER = (
    *("table", "dataset", "row", "column", "accuracy", "stderr", "rows", "expected"),
    *("balanced_accuracy", "paper", "difference", "improves_on_s1", "paper_improves_on_s1"),
)


def to_csv(tables: Sequence[PaperTable]) -> str:
    """One line per cell, unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV_HEADER)
    for table in tables:
        for block in table.blocks:
            for row in block.rows:
                for name, cell in zip(block.columns, row.cells, strict=True):
                    writer.writerow(
                        [table.name, block.benchmark, row.label, name, *_csv_cell(cell)]
                    )
    return out.getvalue()


def _csv_cell(cell: Cell) -> list[object]:
    ours: Figure | None = cell.ours
    return [
        "" if ours is None else f"{ours.mean:.4f}",
        "" if ours is None or ours.stderr is None else f"{ours.stderr:.4f}",
        0 if ours is None else ours.rows,
        "" if ours is None else ours.expected,
        "" if cell.balanced is None else f"{cell.balanced.mean:.4f}",
        "" if cell.paper is None else cell.paper,
        "" if cell.difference is None else cell.difference,
        int(cell.improves),
        int(cell.paper_improves),
    ]


def findings_lines(findings: Sequence[CheckedClaim], *, evidence: bool = False) -> list[str]:
    """The checklist, one line per claim, with its comparisons below if asked for."""
    lines = []
    for finding in findings:
        mark = {"yes": "[x] yes", "no": "[ ] no", "not enough rows": "[ ] not enough rows"}
        detail = "" if finding.verdict == "not enough rows" else f" ({finding.summary})"
        lines.append(f"- {mark[finding.verdict]}: {finding.statement}{detail}")
        for item in finding.known if evidence else ():
            held = "holds" if item.holds else "does not hold"
            lines.append(f"  - {item.text} = {_signed(item.difference or 0.0, PLAIN)} {held}")
    return lines


def findings_grid(findings: Sequence[CheckedClaim]) -> list[list[str]]:
    """Header and lines: every claim, what the paper's own tables say, and what our rows do."""
    heads = ["claim", "in the paper's tables", "in every cell of ours", "on average"]
    grid = [[*heads, "differences, 95 % over tasks"]]
    for finding in findings:
        held, there = finding.claim.printed()
        known = finding.known
        ours: str = finding.told if known else "cannot be told: no rows"
        if 0 < len(known) < len(finding.evidence):
            ours += f" ({len(known)} of {len(finding.evidence)} have rows)"
        average = finding.average
        mean = ""
        if average is not None:
            mean = f"{average.told}: {_with_interval(replace(average, text='')).strip()}"
        grid.append(
            [
                finding.statement,
                f"{held} of {there}",
                ours,
                mean,
                "; ".join(map(_with_interval, known)),
            ]
        )
    return grid


def _with_interval(item: ClaimComparison) -> str:
    assert item.difference is not None
    text = f"{item.text} {_signed(item.difference, PLAIN)}"
    if item.interval is None:
        return text
    low, high = (_signed(bound, PLAIN) for bound in item.interval)
    return f"{text} [{low}, {high}]"


# Rows and files -----------------------------------------------------------------------------------

_TASK = ("benchmark", "source", "target", "setting", "protocol", "preprocessing", "draw")
_PLAIN = (
    *("accuracy", "balanced_accuracy", "n_test", "load_seconds", "fit_seconds"),
    *("predict_seconds", "peak_mb", "n_iter", "data_checksum", "commit", "finished"),
)


def rows_csv(rows: Sequence[ResultRow]) -> str:
    """Every row with its task: what the tables are made of."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_TASK, "settings", "model", "classifier", *_PLAIN, "versions", "message"])
    for row in rows:
        writer.writerow(
            [
                *(getattr(row.spec.task, name) for name in _TASK),
                *(row.spec.variant, row.spec.model, row.spec.classifier),
                *(getattr(row, name) for name in _PLAIN),
                json.dumps(row.versions),
                harmless(row.message),
            ]
        )
    return out.getvalue()


# Times --------------------------------------------------------------------------------------------


def time_lines(rows: Sequence[ResultRow]) -> list[tuple[str, float, float]]:
    """``(what, seconds, share)``, longest first: loading, fits by model, predictions.

    Times of shared work are shared among rows, so that the sum is the time that was spent.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        spent["load and prepare rows"] += row.load_seconds
        spent[f"fit {row.spec.model}"] += row.fit_seconds
        spent[f"predict ({row.spec.classifier})"] += row.predict_seconds
    total = sum(spent.values())
    longest = sorted(spent.items(), key=lambda item: -item[1])
    return [(what, seconds, seconds / total) for what, seconds in longest if seconds > 0]


def time_text(rows: Sequence[ResultRow], report: RunReport) -> list[str]:
    """Where the time of these rows went, and what this call did."""
    spent = sum(row.seconds for row in rows)
    lines = [
        f"this call: {seconds_text(report.wall_seconds)} with --jobs {report.jobs}, "
        f"{counted(report.computed, 'row')} computed, {report.from_store} from the store, "
        f"{report.failed} failed",
        f"all {len(rows)} rows: {seconds_text(spent)} of processor time",
    ]
    peaks = [row.peak_mb for row in rows if row.peak_mb is not None]
    if peaks:
        lines.append(f"largest process: {max(peaks):.0f} MB")
    return lines + [
        f"{what}: {seconds_text(s)} ({share:.0%})" for what, s, share in time_lines(rows)
    ]


# The terminal -------------------------------------------------------------------------------------


def print_table(table: PaperTable, stream: TextIO | None = None) -> None:
    """Print a table; in a pipe or without rich the marks are ``*better*`` and ``_above S1_``."""
    stream = sys.stdout if stream is None else stream
    console = _console(stream)
    if console is None:
        print(to_plain(table), file=stream)
        return
    from rich.table import Table as RichTable

    console.print(f"[bold]{table.title}[/bold]")
    for block in table.blocks:
        header, lines = grid(block, RICH)
        shown = RichTable(box=None, padding=(0, 1, 0, 0))
        for at, name in enumerate(header):
            shown.add_column(name, justify="left" if at == 0 else "right", no_wrap=True)
        for line in lines:
            shown.add_row(*line)
        console.print(f"\n[italic]{block.heading}[/italic]")
        console.print(shown)
    for note in table.notes:
        console.print(note, style="dim", soft_wrap=True)
    console.print()


def print_section(title: str, lines: Sequence[str], stream: TextIO | None = None) -> None:
    """Print a heading and its lines."""
    stream = sys.stdout if stream is None else stream
    console = _console(stream)
    if console is None:
        print("\n".join([title, *lines, ""]), file=stream)
        return
    console.print(f"[bold]{title}[/bold]")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    console.print()


def _console(stream: TextIO) -> Console | None:
    """Return a rich console if ``stream`` is a terminal and rich is installed."""
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False)


# Data sets: what ``marda data`` tells -------------------------------------------------------------

DataLines = tuple[list[str], bool]
"""Text, and whether all is well."""


def list_lines(names: Sequence[str], folder: Path | None) -> DataLines:
    """Every data set, which of them are there; terms and sources of those in the package."""
    lines = [["data set", "there", "files"]]
    terms = []
    for name in names or datasets.names():
        location = datasets.locate(name, folder)
        there = "yes" if location.complete else "in part" if location.files else "no"
        lines.append([name, there, ", ".join(file.name for file in location.files.values())])
        if location.layout is not None and location.layout.variant == "embedded":
            found = datasets.load(name)
            terms.append(f"{name}: {found.licence.rstrip('.')}. {found.citation.rstrip('.')}.")
    return [*align(lines, left=True), *([""] if terms else []), *terms], True


def path_lines(names: Sequence[str], folder: Path | None) -> DataLines:
    """Where each data set was found, or where it was looked for."""
    locations = [datasets.locate(name, folder) for name in names or datasets.names()]
    if names:
        for location in locations:
            if location.layout is None:
                raise location.missing()
    return [str(location) for location in locations], True


def check_lines(names: Sequence[str], folder: Path | None) -> DataLines:
    """Checksum of every file; named data sets must be there, others are passed over."""
    found = names or [n for n in datasets.names() if datasets.locate(n, folder).files]
    files = {check.file: check for name in found for check in datasets.check(name, folder)}
    words = {True: "ok", False: "differs", None: "unknown"}
    lines = [[words[c.ok], c.sha256[:16], str(c.file)] for c in files.values()]
    return align(lines, left=True), all(c.ok is not False for c in files.values())
