"""The leaderboard: from rows to every method on every task, and what auto reached among them.

auto is marda's own choice without a target label. Next to it stand classifiers that know the source
only, the paper's models at fixed settings, and the systems of `marda.benchmarks.peers`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from marda.benchmarks import halves
from marda.benchmarks.peers import SYSTEM_NOTES, adapters
from marda.benchmarks.plan import (
    BASELINE,
    BENCHMARKS,
    EVALUATIONS,
    OWN,
    SOURCE,
    Evaluation,
    Role,
    Spec,
    role_of,
)
from marda.benchmarks.store import ResultRow
from marda.benchmarks.tables import SQUEEZENET

HARM = 1.0
"""Points below the source-only baseline on a task from which on auto is said to harm."""
CHOSEN = f"{SOURCE} by folds"
"""Label of the source-only model that folds of the source chose, task by task."""
MOST_HARMED = 6
"""Tasks that are named in a check."""
HINDSIGHT = 1.5
"""Points that auto may lie below its best member per task, on average."""


@dataclass(frozen=True)
class Entry:
    """One method on all tasks of a data set; None where a row is missing or failed."""

    label: str
    role: Role
    values: tuple[float | None, ...]
    fit_seconds: float | None
    peak_mb: float | None
    ece: float | None = None
    """Mean expected calibration error on test rows, in points, where there are probabilities."""
    best_member: float | None = None
    """Mean over tasks of the best that a member of the ensemble reached alone, in hindsight."""
    guess_error: float | None = None
    """Mean distance of the expected accuracy from the true one, in points."""

    @property
    def mean(self) -> float | None:
        """Over all tasks; without one of them there is no mean to compare."""
        known = [value for value in self.values if value is not None]
        return fmean(known) if len(known) == len(self.values) else None


@dataclass(frozen=True)
class Leaderboard:
    """A data set with all methods."""

    benchmark: str
    setting: str
    preprocessing: str
    pairs: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def evaluation(self) -> Evaluation:
        """How it is measured."""
        return EVALUATIONS[self.benchmark]

    @property
    def heading(self) -> str:
        """Data set, tasks and what the figures are."""
        words = self.evaluation.measure.replace("_", " ")
        return f"{self.name}, {len(self.pairs)} tasks, {words} in percent"

    @property
    def name(self) -> str:
        """Data set and setting, and how rows were prepared if not as the leaderboard does."""
        label = f"{BENCHMARKS[self.benchmark].label}, {self.setting}"
        own = self.preprocessing == self.evaluation.preprocessing
        return label if own else f"{label}, {self.preprocessing}"

    @property
    def heads(self) -> tuple[str, ...]:
        """Tasks in few letters: initials of domains, or their own names."""
        if self.evaluation.by_halves:
            return self.pairs
        return tuple("→".join(end[0].upper() for end in pair.split("-")) for pair in self.pairs)

    @property
    def titles(self) -> tuple[str, ...]:
        """Tasks in full."""
        if self.evaluation.by_halves:
            return self.pairs
        return tuple(pair.replace("-", " → ") for pair in self.pairs)

    @property
    def baseline(self) -> Entry | None:
        """What auto is compared with: the source-only ridge, or the model that folds chose."""
        label = CHOSEN if self.evaluation.by_halves else f"{SOURCE} {BASELINE}"
        return self.best("source", label)

    def best(self, role: Role, label: str | None = None) -> Entry | None:
        """The entry with the best mean in a role, or the named one."""
        found = [
            entry
            for entry in self.entries
            if entry.role == role and entry.mean is not None and label in (None, entry.label)
        ]
        return max(found, key=lambda entry: entry.mean or 0.0, default=None)

    def harm(self) -> list[tuple[str, float]]:
        """Auto minus the source-only baseline, by task, worst first."""
        auto, base = self.best("auto"), self.baseline
        if auto is None or base is None:
            return []
        gaps = [
            (pair, a - b)
            for pair, a, b in zip(self.pairs, auto.values, base.values, strict=True)
            if a is not None and b is not None
        ]
        return sorted(gaps, key=lambda gap: gap[1])


def leaderboards(specs: Sequence[Spec], rows: Sequence[ResultRow]) -> tuple[Leaderboard, ...]:
    """One per data set and setting, methods in the order they were planned."""
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
) -> Leaderboard:
    pairs = tuple(dict.fromkeys(spec.task.pair for spec in specs))
    groups: defaultdict[tuple[str, Role], list[Spec]] = defaultdict(list)
    for spec in specs:
        groups[_label(spec), role_of(spec)].append(spec)
    entries = []
    measure = EVALUATIONS[name].measure
    for (label, role), members in groups.items():
        found = [row for spec in members if (row := by_key.get(spec.key)) is not None]
        entries.append(
            Entry(
                label,
                role,
                tuple(_value(pair, members, by_key, EVALUATIONS[name]) for pair in pairs),
                fmean(row.fit_seconds for row in found) if found else None,
                max((row.peak_mb for row in found if row.peak_mb is not None), default=None),
                _mean_fact(found, "ece"),
                _mean_fact(found, f"best_member_{measure}"),
                _mean_of([abs(r.params["expected"] - r.accuracy) for r in found if _guessed(r)]),
            )
        )
    if EVALUATIONS[name].by_halves:
        entries += _chosen(specs, by_key, pairs, measure)
    return Leaderboard(name, setting, preprocessing, pairs, tuple(entries))


def _chosen(
    specs: Sequence[Spec], by_key: dict[str, ResultRow], pairs: Sequence[str], measure: str
) -> list[Entry]:
    """The source-only model that folds chose; nothing where source-only rows were not asked for."""
    tasks = list(dict.fromkeys(spec.task for spec in specs if spec.model == SOURCE))
    rows = [by_key[spec.key] for spec in specs if spec.key in by_key]
    chosen = halves.chosen_rows(rows)
    if not chosen:
        return []
    values: list[float | None] = []
    for pair in pairs:
        draws = [task for task in tasks if task.pair == pair]
        there = [getattr(chosen[task], measure) for task in draws if task in chosen]
        values.append(fmean(there) if there and len(there) == len(draws) else None)
    return [Entry(CHOSEN, "source", tuple(values), None, None)]


def _mean_fact(rows: Sequence[ResultRow], name: str) -> float | None:
    return _mean_of([row.params[name] for row in rows if name in row.params])


def _mean_of(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _guessed(row: ResultRow) -> bool:
    return "expected" in row.params and row.accuracy is not None


def _label(spec: Spec) -> str:
    changed = ", ".join(f"{name} {value}" for name, value in spec.overrides)
    whole = spec.classifier in (spec.model, OWN)
    words = spec.model if whole else f"{spec.model} {spec.classifier}"
    return f"{words} ({changed})" if changed else words


def _value(
    pair: str, specs: Sequence[Spec], by_key: dict[str, ResultRow], evaluation: Evaluation
) -> float | None:
    """Mean over the draws of one task."""
    rows = [by_key.get(spec.key) for spec in specs if spec.task.pair == pair]
    values = [getattr(row, evaluation.measure) for row in rows if row is not None]
    return fmean(values) if values and len(values) == len(rows) else None


# Text ---------------------------------------------------------------------------------------------

SUMMARY = (
    "",
    "auto",
    "best member",
    "ECE",
    "guess off by",
    "source-only",
    "best fixed",
    "best alternative",
    "worst − source",
)


def leaderboard_grid(board: Leaderboard) -> list[list[str]]:
    """Header and lines: tasks across, then the mean, seconds and memory.

    Tasks with names of their own go down, one line each.
    """
    grid = [["", *board.heads, "mean", "fit s", "MB"]]
    for entry in board.entries:
        grid.append(
            [
                entry.label,
                *(_text(value) for value in (*entry.values, entry.mean)),
                _text(entry.fit_seconds),
                _text(entry.peak_mb, 0),
            ]
        )
    if board.evaluation.by_halves:
        return [list(line) for line in zip(*grid, strict=True)]
    return grid


def summary_grid(found: Sequence[Leaderboard]) -> list[list[str]]:
    """Means, one line per data set."""
    grid = [list(SUMMARY)]
    for board in found:
        auto = board.best("auto")
        base = board.baseline
        rivals = [board.best("source"), board.best("peer")]
        rival = max((r for r in rivals if r), key=lambda r: r.mean or 0.0, default=None)
        gaps = board.harm()
        grid.append(
            [
                board.name,
                _text(auto.mean if auto else None),
                _text(auto.best_member if auto else None),
                _text(auto.ece if auto else None),
                _text(auto.guess_error if auto else None),
                _text(base.mean if base else None),
                _named(board.best("fixed")),
                _named(rival),
                f"{gaps[0][1]:+.1f} ({gaps[0][0]})" if gaps else "–",
            ]
        )
    return grid


def checks(found: Sequence[Leaderboard], every: Sequence[ResultRow] = ()) -> list[str]:
    """The use of target labels, hindsight and harm, as a checklist.

    ``every`` may hold US rows of earlier calls, which SS is compared with.
    """
    lines = []
    for board in found:
        auto = board.best("auto")
        if auto is not None and auto.mean is not None and board.setting == "SS":
            before = _same_without_labels(board, auto, every)
            if before is not None:
                lines.append(
                    f"{_mark(auto.mean >= before)}: {board.name}: labelled target rows help on "
                    f"average ({before:.1f} without, {auto.mean:.1f} with)"
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
            if len(bad) > MOST_HARMED:
                bad[MOST_HARMED:] = [f"and {len(bad) - MOST_HARMED} more"]
            lines.append(
                f"{_mark(not bad)}: {board.name}: no harm (auto at least source-only − {HARM:.1f} "
                f"on every task){': ' + ', '.join(bad) if bad else ''}"
            )
    return lines


def _same_without_labels(
    board: Leaderboard, auto: Entry, every: Sequence[ResultRow]
) -> float | None:
    """Mean of auto in US on the tasks of an SS board; None unless all of them are there."""
    found = {
        row.spec.task.pair: getattr(row, board.evaluation.measure)
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
        "ensemble alone, task by task, in hindsight. guess off by: mean distance of auto's "
        "expected accuracy, guessed without target labels, from the true one.",
        *adapters.NOTES,
        *SYSTEM_NOTES,
        *(halves.NOTES if any(EVALUATIONS[s.task.benchmark].by_halves for s in specs) else ()),
        f"Preprocessing: {', '.join(prepared)}.",
    ]


def _text(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _named(entry: Entry | None) -> str:
    return "–" if entry is None else f"{_text(entry.mean)} ({entry.label})"


def _mark(holds: bool) -> str:
    return "- [x] yes" if holds else "- [ ] no"
