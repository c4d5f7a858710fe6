"""From rows of the contest to its boards: every method on every task, and what auto reached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from marda.experiments.contest import BASELINE, ENTRIES, Entry, Role, role_of
from marda.experiments.methods import NOTES
from marda.experiments.plan import BENCHMARKS
from marda.experiments.render import align
from marda.experiments.rows import ResultRow
from marda.experiments.specs import Spec
from marda.experiments.tables import SQUEEZENET

HARM = 1.0
"""Points that auto may lie below the source-only baseline on a task."""
HINDSIGHT = 1.5
"""Points that auto may lie below its best member a task, on average."""


@dataclass(frozen=True)
class Line:
    """One method on all tasks of a data set; None where a row is missing or failed."""

    label: str
    role: Role
    values: tuple[float | None, ...]
    fit_seconds: float | None
    peak_mb: float | None
    ece: float | None = None
    """Mean expected calibration error on test rows, in points, where there are probabilities."""
    best_member: float | None = None
    """Mean over tasks of the best that a member of the committee reached alone, in hindsight."""
    guess_error: float | None = None
    """Mean distance of the expected accuracy from the true one, in points."""

    @property
    def mean(self) -> float | None:
        """Over all tasks; without one of them there is no mean to compare."""
        known = [value for value in self.values if value is not None]
        return fmean(known) if len(known) == len(self.values) else None


@dataclass(frozen=True)
class Board:
    """A data set with all methods."""

    benchmark: str
    setting: str
    preprocessing: str
    pairs: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def entry(self) -> Entry:
        """How it is measured."""
        return ENTRIES[self.benchmark]

    @property
    def heading(self) -> str:
        """Data set, tasks and what the figures are."""
        words = self.entry.measure.replace("_", " ")
        return f"{self.name}, {len(self.pairs)} tasks, {words} in percent"

    @property
    def name(self) -> str:
        """Data set and setting, and how rows were prepared if not as the contest does."""
        label = f"{BENCHMARKS[self.benchmark].label}, {self.setting}"
        own = self.preprocessing == self.entry.preprocessing
        return label if own else f"{label}, {self.preprocessing}"

    @property
    def whole(self) -> bool:
        """Whether all tasks of the data set are here, so that the goal applies."""
        return len(self.pairs) == len(BENCHMARKS[self.benchmark].pairs())

    def line(self, role: Role, label: str | None = None) -> Line | None:
        """The line with the best mean in a role, or the named one."""
        found = [
            line
            for line in self.lines
            if line.role == role and line.mean is not None and label in (None, line.label)
        ]
        return max(found, key=lambda line: line.mean or 0.0, default=None)

    def harm(self) -> list[tuple[str, float]]:
        """Auto minus the source-only baseline, by task, worst first."""
        auto, base = self.line("auto"), self.line("source", f"source-only {BASELINE}")
        if auto is None or base is None:
            return []
        gaps = [
            (pair, a - b)
            for pair, a, b in zip(self.pairs, auto.values, base.values, strict=True)
            if a is not None and b is not None
        ]
        return sorted(gaps, key=lambda gap: gap[1])


def boards(specs: Sequence[Spec], rows: Sequence[ResultRow]) -> tuple[Board, ...]:
    """One board a data set and setting, methods in the order they were planned."""
    by_key = {row.spec.key: row for row in rows}
    places: defaultdict[tuple[str, str, str], list[Spec]] = defaultdict(list)
    for spec in specs:
        task = spec.task
        places[task.benchmark, task.setting, task.preprocessing].append(spec)
    return tuple(_board(*place, found, by_key) for place, found in places.items())


def _board(
    name: str,
    setting: str,
    preprocessing: str,
    specs: Sequence[Spec],
    by_key: dict[str, ResultRow],
) -> Board:
    pairs = tuple(dict.fromkeys(spec.task.pair for spec in specs))
    groups: defaultdict[tuple[str, Role], list[Spec]] = defaultdict(list)
    for spec in specs:
        groups[_label(spec), role_of(spec)].append(spec)
    lines = []
    measure = ENTRIES[name].measure
    for (label, role), members in groups.items():
        found = [row for spec in members if (row := by_key.get(spec.key)) is not None]
        lines.append(
            Line(
                label,
                role,
                tuple(_value(pair, members, by_key, ENTRIES[name]) for pair in pairs),
                fmean(row.fit_seconds for row in found) if found else None,
                max((row.peak_mb for row in found if row.peak_mb is not None), default=None),
                _mean_fact(found, "ece"),
                _mean_fact(found, f"best_member_{measure}"),
                _mean_of([abs(r.params["expected"] - r.accuracy) for r in found if _guessed(r)]),
            )
        )
    return Board(name, setting, preprocessing, pairs, tuple(lines))


def _mean_fact(rows: Sequence[ResultRow], name: str) -> float | None:
    return _mean_of([row.params[name] for row in rows if name in row.params])


def _mean_of(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _guessed(row: ResultRow) -> bool:
    return "expected" in row.params and row.accuracy is not None


def _label(spec: Spec) -> str:
    changed = ", ".join(f"{name} {value}" for name, value in spec.overrides)
    words = spec.model if spec.model == spec.classifier else f"{spec.model} {spec.classifier}"
    return f"{words} ({changed})" if changed else words


def _value(
    pair: str, specs: Sequence[Spec], by_key: dict[str, ResultRow], entry: Entry
) -> float | None:
    """Mean over the draws of one task."""
    rows = [by_key.get(spec.key) for spec in specs if spec.task.pair == pair]
    values = [getattr(row, entry.measure) for row in rows if row is not None]
    return fmean(values) if values and len(values) == len(rows) else None


# Text ---------------------------------------------------------------------------------------------

SUMMARY = (
    "",
    "auto",
    "best member",
    "ECE",
    "guess off by",
    "goal",
    "source-only",
    "best fixed",
    "best alternative",
    "worst − source",
)


def board_grid(board: Board) -> list[list[str]]:
    """Header and lines: tasks across, then the mean, seconds and memory."""
    heads = ["→".join(end[0].upper() for end in pair.split("-")) for pair in board.pairs]
    grid = [["", *heads, "mean", "fit s", "MB"]]
    for line in board.lines:
        grid.append(
            [
                line.label,
                *(_text(value) for value in (*line.values, line.mean)),
                _text(line.fit_seconds),
                _text(line.peak_mb, 0),
            ]
        )
    return grid


def summary_grid(found: Sequence[Board]) -> list[list[str]]:
    """Means against goals, a line a data set."""
    grid = [list(SUMMARY)]
    for board in found:
        auto = board.line("auto")
        base = board.line("source", f"source-only {BASELINE}")
        rivals = [board.line("source"), board.line("peer")]
        rival = max((r for r in rivals if r), key=lambda r: r.mean or 0.0, default=None)
        gaps = board.harm()
        goal = f"{board.entry.goal:.1f}" if board.whole and board.setting == "US" else "–"
        grid.append(
            [
                board.name,
                _text(auto.mean if auto else None),
                _text(auto.best_member if auto else None),
                _text(auto.ece if auto else None),
                _text(auto.guess_error if auto else None),
                goal,
                _text(base.mean if base else None),
                _named(board.line("fixed")),
                _named(rival),
                f"{gaps[0][1]:+.1f} ({gaps[0][0]})" if gaps else "–",
            ]
        )
    return grid


def checks(found: Sequence[Board], every: Sequence[ResultRow] = ()) -> list[str]:
    """Goals, the no-harm rule and the use of target labels, as a checklist.

    ``every`` may hold US rows of earlier calls, which SS is compared with.
    """
    lines = []
    for board in found:
        auto = board.line("auto")
        if auto is not None and auto.mean is not None and board.setting == "SS":
            before = _same_without_labels(board, auto, every)
            if before is not None:
                lines.append(
                    f"{_mark(auto.mean >= before)}: {board.name}: labelled target rows help on "
                    f"average ({before:.1f} without, {auto.mean:.1f} with)"
                )
        elif auto is not None and auto.mean is not None and board.whole:
            lines.append(
                f"{_mark(auto.mean >= board.entry.goal)}: {board.name}: auto {auto.mean:.1f}, "
                f"goal {board.entry.goal:.1f}"
            )
        if auto is not None and auto.mean is not None and auto.best_member is not None:
            lines.append(
                f"{_mark(auto.mean >= auto.best_member - HINDSIGHT)}: {board.name}: at most "
                f"{HINDSIGHT} below the best member of each task in hindsight "
                f"({auto.mean:.1f} against {auto.best_member:.1f})"
            )
        gaps = board.harm()
        if gaps:
            bad = [f"{pair} {gap:+.1f}" for pair, gap in gaps if gap < -HARM]
            lines.append(
                f"{_mark(not bad)}: {board.name}: no harm (auto at least source-only − {HARM:.1f} "
                f"on every task){': ' + ', '.join(bad) if bad else ''}"
            )
    return lines


def _same_without_labels(board: Board, auto: Line, every: Sequence[ResultRow]) -> float | None:
    """Mean of auto in US on the tasks of an SS board; None unless all of them are there."""
    found = {
        row.spec.task.pair: getattr(row, board.entry.measure)
        for row in every
        if role_of(row.spec) == "auto" and _label(row.spec) == auto.label
        if (row.spec.task.benchmark, row.spec.task.setting, row.spec.task.preprocessing)
        == (board.benchmark, "US", board.preprocessing)
    }
    if not found.keys() >= set(board.pairs):
        return None
    return fmean(found[pair] for pair in board.pairs)


def notes(specs: Sequence[Spec]) -> list[str]:
    """What a reader must know before comparing."""
    features = {BENCHMARKS[spec.task.benchmark].features for spec in specs}
    prepared = sorted({f"{s.task.benchmark} {s.task.preprocessing}" for s in specs})
    return [
        *([SQUEEZENET] if "squeezenet" in features else []),
        "Nothing was chosen by a target label; fixed settings and the best alternative are picked "
        "in hindsight. source-only ridge: class-balanced, with an intercept. ECE: auto's expected "
        "calibration error on the test rows, mean over tasks, in points. best member: of auto's "
        "committee alone, a task at a time, in hindsight. guess off by: mean distance of auto's "
        "expected accuracy, guessed without target labels, from the true one.",
        *NOTES,
        f"Preprocessing: {', '.join(prepared)}.",
    ]


def to_plain(grid: Sequence[Sequence[str]]) -> list[str]:
    """Fixed-width lines."""
    return align(grid, rule=True)


def to_markdown(grid: Sequence[Sequence[str]]) -> list[str]:
    """A GitHub-flavoured table."""
    aligned = ["---", *("---:" for _ in grid[0][1:])]
    return ["| " + " | ".join(line) + " |" for line in (grid[0], aligned, *grid[1:])]


def _text(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _named(line: Line | None) -> str:
    return "–" if line is None else f"{_text(line.mean)} ({line.label})"


def _mark(holds: bool) -> str:
    return "- [x] yes" if holds else "- [ ] no"
