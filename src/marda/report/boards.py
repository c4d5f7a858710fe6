"""marda's own choice next to the alternatives: sections of a report."""

from __future__ import annotations

from collections.abc import Sequence

from marda.benchmarks.leaderboard import Entry, Leaderboard, checks
from marda.diagnostics.verdict import Verdict, benchmark_verdict
from marda.report import charts
from marda.report.html import Cells, Chart, Number, Section, points, table
from marda.report.numbers import number

__all__ = ["auto_verdict", "board_sections"]

NONE = Number("–", float("nan"))


def auto_verdict(boards: Sequence[Leaderboard]) -> Verdict | None:
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


def board_sections(boards: Sequence[Leaderboard], notes: Sequence[str]) -> list[Section]:
    """A section per data set; then checks and notes."""
    sections = [_board(board) for board in boards]
    if boards:
        told = [line.partition("] ")[2] for line in checks(boards)]
        sections.append(Section("Checks and notes", (points([*told, *notes], "note"),)))
    return sections


def _board(board: Leaderboard) -> Section:
    heads = [pair.replace("-", " → ") for pair in board.pairs]
    cells = [
        (entry.label, _short(pair), value, f"{value:.1f}")
        for entry in board.entries
        for pair, value in zip(board.pairs, entry.values, strict=True)
        if value is not None
    ]
    name = f"{board.heading}, by method and task."
    rows: list[Cells] = [_line(entry) for entry in board.entries]
    header = ("method", "kind", "mean", *heads, "fit", "memory")
    whole = table("The same with means, times and memory; a click sorts.", header, rows)
    if not cells:
        return Section(board.heading, (whole,))
    spec = charts.heat_map(cells, down="method", across="task", value="percent", cell=24)
    return Section(board.heading, (Chart(spec, name, ""), whole))


def _short(pair: str) -> str:
    return "→".join(end[0].upper() for end in pair.split("-"))


def _line(entry: Entry) -> Cells:
    def figure(value: float | None) -> Number:
        return NONE if value is None else number(value, ".1f")

    seconds, memory = entry.fit_seconds, entry.peak_mb
    return [
        entry.label,
        entry.role,
        figure(entry.mean),
        *(figure(value) for value in entry.values),
        NONE if seconds is None else Number(f"{seconds:.2f} s", seconds),
        NONE if memory is None else Number(f"{memory:.0f} MB", memory),
    ]
