"""marda's own choice next to the alternatives: sections of a report."""

from __future__ import annotations

from collections.abc import Sequence

from marda.diagnostics.verdict import Verdict, benchmark_verdict
from marda.experiments.standings import Board, Line, checks
from marda.report import charts
from marda.report.html import Cells, Chart, Number, Section, points, table
from marda.report.numbers import number

__all__ = ["auto_verdict", "board_sections"]

NONE = Number("–", float("nan"))


def auto_verdict(boards: Sequence[Board]) -> Verdict | None:
    """Does marda's own choice help, against the same classifier without adaptation?"""
    gains = [
        (f"{board.heading.partition(',')[0]}, {board.setting}", [gap for _, gap in found])
        for board in boards
        if (found := board.harm())
    ]
    return benchmark_verdict(
        gains,
        "What marda chooses by itself, without a target label, against a ridge classifier that "
        "knows the source only.",
    )


def board_sections(boards: Sequence[Board], notes: Sequence[str]) -> list[Section]:
    """A section a data set; then goals and notes."""
    sections = [_board(board) for board in boards]
    if boards:
        told = [line.partition("] ")[2] for line in checks(boards)]
        sections.append(Section("Goals, harm and notes", (points([*told, *notes], "note"),)))
    return sections


def _board(board: Board) -> Section:
    heads = [pair.replace("-", " → ") for pair in board.pairs]
    cells = [
        (line.label, _short(pair), value, f"{value:.1f}")
        for line in board.lines
        for pair, value in zip(board.pairs, line.values, strict=True)
        if value is not None
    ]
    name = f"{board.heading}, by method and task."
    rows: list[Cells] = [_line(line) for line in board.lines]
    header = ("method", "kind", "mean", *heads, "fit", "memory")
    whole = table("The same with means, times and memory; a click sorts.", header, rows)
    if not cells:
        return Section(board.heading, (whole,))
    spec = charts.heat_map(cells, down="method", across="task", value="percent", cell=24)
    return Section(board.heading, (Chart(spec, name, ""), whole))


def _short(pair: str) -> str:
    return "→".join(end[0].upper() for end in pair.split("-"))


def _line(line: Line) -> Cells:
    def figure(value: float | None) -> Number:
        return NONE if value is None else number(value, ".1f")

    seconds, memory = line.fit_seconds, line.peak_mb
    return [
        line.label,
        line.role,
        figure(line.mean),
        *(figure(value) for value in line.values),
        NONE if seconds is None else Number(f"{seconds:.2f} s", seconds),
        NONE if memory is None else Number(f"{memory:.0f} MB", memory),
    ]
