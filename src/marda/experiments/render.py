"""Tables, findings and times as text: terminal (rich or plain), Markdown, CSV, LaTeX.

All of them lay out the same grid of marked strings; only the marks differ.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from marda.experiments.aggregate import Figure
from marda.experiments.findings import Finding
from marda.experiments.tables import Block, Cell, Table


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
    if figure.rows < figure.expected:
        text += f" ({figure.rows}/{figure.expected})"
    return text


def _paper(cell: Cell, marks: Marks) -> str:
    if cell.paper is None:
        return ""
    return marks.apply(f"{cell.paper:.1f}", bold=cell.paper_better, underline=cell.paper_improves)


def _signed(value: float, marks: Marks) -> str:
    return f"{'+' if value > 0 else marks.minus if value < 0 else ''}{abs(value):.1f}"


def to_plain(table: Table) -> str:
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


def to_markdown(table: Table) -> str:
    """GitHub-flavoured Markdown."""
    parts = [f"## {table.title}"]
    for block in table.blocks:
        header, lines = grid(block, MARKDOWN)
        aligned = ["---", *("---:" for _ in header[1:])]
        parts += ["", f"### {block.heading}", ""]
        parts += ["| " + " | ".join(line) + " |" for line in (header, aligned, *lines)]
    return "\n".join([*parts, "", *(f"- {note}" for note in table.notes)]) + "\n"


def to_latex(table: Table) -> str:
    """One ``table`` environment a block; needs no package."""
    parts = []
    for block in table.blocks:
        header, lines = grid(block, LATEX)
        caption = _latex(f"{table.title}. {block.heading}. {' '.join(table.notes)}")
        parts += [
            r"\begin{table}",
            r"\centering\footnotesize",
            rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\hline",
            " & ".join(header) + r" \\",
            r"\hline",
            *(" & ".join(line).replace("–", "--") + r" \\" for line in lines),
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    return "\n".join(parts)


def _latex(text: str) -> str:
    for character, written in (("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("−", "$-$")):
        text = text.replace(character, written)
    return text


_CSV_HEADER = (
    *("table", "dataset", "row", "column", "accuracy", "stderr", "rows", "expected"),
    *("balanced_accuracy", "paper", "difference", "improves_on_s1", "paper_improves_on_s1"),
)


def to_csv(tables: Sequence[Table]) -> str:
    """One line a cell, unrounded."""
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


def findings_lines(findings: Sequence[Finding], *, evidence: bool = False) -> list[str]:
    """The checklist, one line a claim, with its comparisons below if asked for."""
    lines = []
    for finding in findings:
        mark = {"yes": "[x] yes", "no": "[ ] no", "not enough rows": "[ ] not enough rows"}
        detail = "" if finding.verdict == "not enough rows" else f" ({finding.summary})"
        lines.append(f"- {mark[finding.verdict]}: {finding.statement}{detail}")
        for item in finding.evidence if evidence else ():
            if item.difference is not None:
                held = "holds" if item.holds else "does not hold"
                lines.append(f"  - {item.text} = {_signed(item.difference, PLAIN)} {held}")
    return lines
