"""The leaderboard: every method on every task, what auto reached among them, and mean ranks.

auto is marda's own choice without a target label. Next to it stand classifiers that know the source
only, the paper's models at fixed settings, and the systems of `marda.benchmarks.peers`.

Collections of tasks are told by halves. Constants of rules are settled on the development half of
the tasks; the report half tells what they are worth elsewhere (`TaskSpec.half`). The source-only
model of a task is the one of ridge, logistic regression and forest that is best on left-out folds
of the source: a choice that needs no target label, and the one a careful user would make.

Ranks are compared as Demšar (JMLR 2006) does: Nemenyi's critical difference says how far two mean
ranks must lie apart to differ (5 %, all pairs at once). auto is compared with every other system by
Wilcoxon's signed-rank test over tasks (Holm's correction), by a bootstrap over tasks for the mean
difference, and within every task by the binomial errors of both accuracies.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from marda.benchmarks import published
from marda.benchmarks.peers import SYSTEM_NOTES, adapters
from marda.benchmarks.plan import (
    AUTO,
    BASELINE,
    BENCHMARKS,
    EVALUATIONS,
    OWN,
    SOURCE,
    Evaluation,
    Half,
    Role,
    Spec,
    TaskSpec,
    role_of,
)
from marda.benchmarks.store import ResultRow
from marda.benchmarks.tables import SQUEEZENET
from marda.diagnostics.intervals import Interval, bootstrap_mean, holm, signed

HARM = 1.0
"""Points below the source-only baseline on a task from which on auto is said to harm."""
CHOSEN = f"{SOURCE} by folds"
"""Label of the source-only model that folds of the source chose, task by task."""
MOST_HARMED = 6
"""Tasks that are named in a check."""
HINDSIGHT = 1.5
"""Points that auto may lie below its best member per task, on average."""
FEW = 0.4
"""A data set on which fewer than this share of the systems ran is shown, and not ranked."""
RANKING_NOTES = (
    "Mean rank: over the tasks of the data sets that all these systems ran on, 1 is best; its "
    "interval is half of Nemenyi's critical difference to either side, and systems whose intervals "
    "do not overlap differ (5 %, all pairs at once).",
    "auto − it: mean over the same tasks, 95 % by a bootstrap over tasks; p: Wilcoxon's test of "
    "signed ranks over tasks, Holm's correction. Tasks of one data set share domains, so that both "
    "are rather too sure.",
    "Ahead, behind: tasks on which auto differs by more than the binomial error of both accuracies "
    "(95 %); the rest is within chance. Both see the same test rows, which this does not use.",
    "Systems without a rank did not run on all of these data sets (–); they are compared with auto "
    "on all tasks that they have, and p is not corrected for them.",
)


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
    test_rows: tuple[int, ...] = ()
    """Of every task, in one draw; 0 where no row tells."""

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
    sizes = {row.spec.task.pair: row.n_test or 0 for s in specs if (row := by_key.get(s.key))}
    told = tuple(sizes.get(pair, 0) for pair in pairs)
    return Leaderboard(name, setting, preprocessing, pairs, tuple(entries), told)


def _chosen(
    specs: Sequence[Spec], by_key: dict[str, ResultRow], pairs: Sequence[str], measure: str
) -> list[Entry]:
    """The source-only model that folds chose; nothing where source-only rows were not asked for."""
    tasks = list(dict.fromkeys(spec.task for spec in specs if spec.model == SOURCE))
    rows = [by_key[spec.key] for spec in specs if spec.key in by_key]
    chosen = chosen_rows(rows)
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
                _text(entry.peak_mb, ".0f"),
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
        *(HALVES_NOTES if any(EVALUATIONS[s.task.benchmark].by_halves for s in specs) else ()),
        f"Preprocessing: {', '.join(prepared)}.",
    ]


def _text(value: float | None, form: str = ".1f", empty: str = "–") -> str:
    return empty if value is None else format(value, form)


def _named(entry: Entry | None) -> str:
    return "–" if entry is None else f"{_text(entry.mean)} ({entry.label})"


def _mark(holds: bool) -> str:
    return "- [x] yes" if holds else "- [ ] no"


# Halves of collections ----------------------------------------------------------------------------

FALL = 1.0
"""Points below the source-only model from which on a task counts as fallen."""
HALVES_COLUMNS = (
    *("", "half", "tasks", "auto", "source-only", "difference", "fall by > 1"),
    *("expected", "off by", "intervals hold", "Train Src", "best published", "Train Tgt"),
)
HALVES_NOTES = (
    "Collections of tasks: accuracy in percent (digits and tables: balanced accuracy), mean over "
    "splits or seeds, then over tasks. source-only: of ridge, logistic regression (on standardised "
    "columns) and a forest, the best on five folds of the source, task by task. fall by > 1: "
    "tasks on which auto is more than a point below it. expected: the accuracy that auto expects "
    "of itself, off by: its mean distance from the true one; intervals hold: share of the expected "
    "intervals that hold the true accuracy.",
    "Tasks of the development half may settle constants, those of the report half may not: even "
    "and odd CRC-32 of the first word of a task's name, of generated ones even and odd seeds.",
    "Train Src, best published, Train Tgt: SKADA-Bench (Lalou et al., arXiv:2407.11676), the last "
    "sees target labels; the best of its methods is picked in hindsight. They are means over all "
    "tasks of a kind in all splits, and stand beside ours only where ours are, too.",
)


@dataclass(frozen=True)
class HalfLine:
    """Tasks of one kind in one half; None where a row is missing or there is nothing to tell."""

    label: str
    half: Half
    tasks: int
    auto: float | None
    source: float | None
    """The source-only model chosen by source folds."""
    fallen: int | None
    expected: float | None
    off: float | None
    held: float | None
    """Percent of the expected intervals that hold the true accuracy."""
    family: str = ""
    """Where others published figures for the same tasks and splits."""

    @property
    def difference(self) -> float | None:
        """Auto minus source-only."""
        return None if self.auto is None or self.source is None else self.auto - self.source


def chosen_rows(rows: Iterable[ResultRow]) -> dict[TaskSpec, ResultRow]:
    """The source-only row of every task and draw that is best on source folds.

    Tasks of which a source-only row is missing are left out; of equal ones the first counts.
    """
    found: defaultdict[TaskSpec, dict[str, ResultRow]] = defaultdict(dict)
    for row in rows:
        if row.spec.model == SOURCE and "source_folds" in row.params:
            found[row.spec.task][row.spec.classifier] = row
    chosen = {}
    for task, held in found.items():
        wanted = EVALUATIONS[task.benchmark].source
        if all(name in held for name in wanted):
            chosen[task] = max(
                (held[name] for name in wanted), key=lambda row: row.params["source_folds"]
            )
    return chosen


def half_lines(specs: Sequence[Spec], rows: Sequence[ResultRow]) -> tuple[HalfLine, ...]:
    """Lines of every collection among ``specs``: by kind of task, then all of it, by half."""
    keys = {spec.key for spec in specs}
    mine = [row for row in rows if row.spec.key in keys]
    source = chosen_rows(mine)
    by_variant: defaultdict[str, dict[TaskSpec, ResultRow]] = defaultdict(dict)
    for row in mine:
        if row.spec.model == AUTO:
            by_variant[row.spec.variant][row.spec.task] = row
    groups: defaultdict[tuple[str, str, str, Half], list[TaskSpec]] = defaultdict(list)
    for spec in specs:
        task = spec.task
        if spec.model == AUTO and EVALUATIONS[task.benchmark].by_halves:
            if task.benchmark in ("skada-bench", "generated"):
                groups[task.benchmark, task.family, spec.variant, task.half].append(task)
            groups[task.benchmark, "", spec.variant, task.half].append(task)
    # Kinds in the order of the plan, development first; a collection's total below its kinds.
    at = {name: i for i, name in enumerate(dict.fromkeys(family for _, family, _, _ in groups))}
    place = {name: i for i, name in enumerate(BENCHMARKS)}
    order = sorted(groups, key=lambda g: (place[g[0]], g[1] == "", at[g[1]], g[2], g[3]))
    return tuple(
        _line(benchmark, family, variant, half, groups[benchmark, family, variant, half],
              by_variant[variant], source)
        for benchmark, family, variant, half in order
    )  # fmt: skip


def _line(
    benchmark: str,
    family: str,
    variant: str,
    half: Half,
    tasks: Sequence[TaskSpec],
    auto: dict[TaskSpec, ResultRow],
    source: dict[TaskSpec, ResultRow],
) -> HalfLine:
    measure = EVALUATIONS[benchmark].measure
    ours, theirs = _by_name(tasks, auto, measure), _by_name(tasks, source, measure)
    fallen = None
    if ours and theirs:
        fallen = sum(ours[name] < theirs[name] - FALL for name in ours)
    there = [auto[task] for task in tasks if task in auto]
    guessed = [row for row in there if "expected" in row.params and row.accuracy is not None]
    bounded = [row for row in guessed if "expected_low" in row.params]
    label = f"{BENCHMARKS[benchmark].label} {family or 'all'}"
    return HalfLine(
        label if variant == "auto" else f"{label}, {variant}",
        half,
        len({task.pair for task in tasks}),
        _mean_of(list(ours.values())),
        _mean_of(list(theirs.values())),
        fallen,
        _mean_of([row.params["expected"] for row in guessed]),
        _mean_of([abs(row.params["expected"] - (row.accuracy or 0.0)) for row in guessed]),
        _mean_of([100.0 * _holds(row) for row in bounded]),
        family if benchmark == "skada-bench" and _whole(family, tasks) else "",
    )


def _whole(family: str, tasks: Sequence[TaskSpec]) -> bool:
    """Every task of a family in every split: what published figures are the mean of."""
    own = BENCHMARKS["skada-bench"]
    names = {name for name in own.tasks if name.split()[0] == family}
    wanted = {(name, draw) for name in names for draw in range(own.draws)}
    return bool(wanted) and {(task.pair, task.draw) for task in tasks} == wanted


def _by_name(
    tasks: Sequence[TaskSpec], rows: dict[TaskSpec, ResultRow], measure: str
) -> dict[str, float]:
    """Mean over draws by task; empty if a row is missing, since nothing compares then."""
    if any(task not in rows for task in tasks):
        return {}
    draws: defaultdict[str, list[float]] = defaultdict(list)
    for task in tasks:
        draws[task.pair].append(getattr(rows[task], measure))
    return {name: fmean(values) for name, values in draws.items()}


def _holds(row: ResultRow) -> bool:
    assert row.accuracy is not None
    # The bounds are floats: an accuracy on the bound itself must not be lost to rounding.
    slack = 1e-9
    low, high = row.params["expected_low"], row.params["expected_high"]
    return bool(low - slack <= row.accuracy <= high + slack)


def halves_grid(lines: Sequence[HalfLine]) -> list[list[str]]:
    """Header and lines; those of published figures only where there are some."""
    grid = [list(HALVES_COLUMNS)]
    for line in lines:
        best = published.skada_best(line.family)
        grid.append(
            [
                line.label,
                line.half,
                str(line.tasks),
                *(_text(value) for value in (line.auto, line.source)),
                _text(line.difference, "+.1f"),
                _text(line.fallen, "d"),
                *(_text(value) for value in (line.expected, line.off)),
                "" if line.held is None else f"{line.held:.0f} %",
                _text(published.skada_figure(published.SOURCE_ONLY, line.family), empty=""),
                "" if best is None else f"{best[1]:.1f} ({best[0]})",
                _text(published.skada_figure(published.UPPER_BOUND, line.family), empty=""),
            ]
        )
    if any(line.family for line in lines):
        return grid
    return [row[:-3] for row in grid]


@dataclass(frozen=True)
class Ranked:
    """One system."""

    label: str
    means: tuple[float | None, ...]
    """By data set; None where it did not run on all tasks."""
    rank: Interval | None
    """None where a ranked data set lacks it."""
    gain: Interval | None
    """auto minus it; None for auto."""
    p: float | None
    ahead: int
    behind: int
    """Tasks on which auto is ahead of it, or behind, beyond chance."""


@dataclass(frozen=True)
class Ranking:
    """Systems in the order of their mean ranks, over tasks that all of these have; then others."""

    data: tuple[str, ...]
    ranked: tuple[bool, ...]
    """Which of ``data`` the ranks are over."""
    n_tasks: int
    critical: float
    systems: tuple[Ranked, ...]


def rank_systems(boards: Sequence[Leaderboard]) -> Ranking | None:
    """Rank what ran on the same tasks without target labels; None without auto and two others."""
    found = [board for board in boards if board.setting == "US"]
    whole = [{e.label: e for e in board.entries if e.mean is not None} for board in found]
    most = max((len(held) for held in whole), default=0)
    kept = [len(held) >= FEW * most for held in whole]
    used = [held for held, keep in zip(whole, kept, strict=True) if keep]
    labels = [label for label in used[0] if all(label in held for held in used)] if used else []
    if AUTO not in labels or len(labels) < 3:
        return None
    table = np.hstack([_values([held[label] for label in labels]) for held in used])
    sizes = np.concatenate(
        [np.asarray(b.test_rows, dtype=float) for b, keep in zip(found, kept, strict=True) if keep]
    )
    ranks, critical = mean_ranks(table)
    ours = table[labels.index(AUTO)]
    tested = [_signed_ranks(ours - line) for line in table]
    corrected = holm([p for label, p in zip(labels, tested, strict=True) if label != AUTO])
    systems = []
    for label, line, rank in zip(labels, table, ranks, strict=True):
        means = tuple(held[label].mean if label in held else None for held in whole)
        half = critical / 2
        where = Interval(float(rank), float(rank) - half, float(rank) + half)
        if label == AUTO:
            systems.append(Ranked(label, means, where, None, None, 0, 0))
            continue
        told = _against(ours, line, sizes)
        systems.append(Ranked(label, means, where, told[0], corrected.pop(0), *told[1:]))
    systems.sort(key=lambda one: one.rank.value if one.rank else math.inf)
    systems += _others(found, whole, labels)
    names = tuple(board.name for board in found)
    return Ranking(names, tuple(kept), table.shape[1], critical, tuple(systems))


def _others(
    found: Sequence[Leaderboard], whole: Sequence[dict[str, Entry]], ranked: Sequence[str]
) -> list[Ranked]:
    """Systems that a ranked data set lacks, each on the tasks that it has; most tasks first."""
    others = []
    for label in dict.fromkeys(label for held in whole for label in held if label not in ranked):
        has = [(b, h) for b, h in zip(found, whole, strict=True) if label in h and AUTO in h]
        if not has:
            continue
        ours, line = (
            np.hstack([_values([held[name]])[0] for _, held in has]) for name in (AUTO, label)
        )
        sizes = np.concatenate([np.asarray(board.test_rows, dtype=float) for board, _ in has])
        told = _against(ours, line, sizes)
        means = tuple(held[label].mean if label in held else None for held in whole)
        p = _signed_ranks(ours - line)
        others.append((-len(line), Ranked(label, means, None, told[0], p, *told[1:])))
    return [one for _, one in sorted(others, key=lambda item: item[0])]


def _against(
    ours: NDArray[np.float64], line: NDArray[np.float64], sizes: NDArray[np.float64]
) -> tuple[Interval, int, int]:
    """Mean difference; tasks ahead and behind beyond chance."""
    beyond = _beyond_chance(ours, line, sizes)
    return bootstrap_mean(ours - line), int(np.sum(beyond > 0)), int(np.sum(beyond < 0))


def _values(entries: Sequence[Entry]) -> NDArray[np.float64]:
    """One line per system, one column per task."""
    return np.asarray([entry.values for entry in entries], dtype=float)


def mean_ranks(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Mean rank of every line over columns (1: the largest), and Nemenyi's critical difference."""
    from scipy.stats import rankdata, studentized_range

    k, n = table.shape
    q = float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2)
    return rankdata(-table, axis=0).mean(1), q * math.sqrt(k * (k + 1) / (6 * n))


def _signed_ranks(differences: NDArray[np.float64]) -> float:
    """Two-sided p of Wilcoxon's test, exact where it can be; 1 where nothing differs."""
    from scipy.stats import wilcoxon

    if not differences.any():
        return 1.0
    sizes = np.unique(np.abs(differences))
    exact = sizes[0] > 0 and len(sizes) == len(differences) <= 50  # no zeros and no ties
    method = "exact" if exact else "approx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # old SciPy says that few tasks are few
        return float(wilcoxon(differences, zero_method="zsplit", method=method).pvalue)


def _beyond_chance(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], sizes: NDArray[np.float64]
) -> NDArray[np.int64]:
    """1 where ours is ahead of theirs by more than both errors, -1 behind, else 0."""
    spread = np.asarray(sum(share * (1 - share) for share in (ours / 100, theirs / 100)))
    # Where the number of rows is not known, any difference may be chance.
    variance = np.divide(spread, sizes, out=np.full(len(sizes), np.inf), where=sizes > 0)
    gap = (ours - theirs) / 100
    return np.where(np.abs(gap) > 1.96 * np.sqrt(variance), np.sign(gap), 0).astype(np.int64)


def ranking_grid(found: Ranking) -> list[list[str]]:
    """Header and lines, best mean rank first."""
    heads = [n if k else f"{n} (not ranked)" for n, k in zip(found.data, found.ranked, strict=True)]
    grid = [["", "mean rank", "auto − it", "p", "ahead", "behind", *heads]]
    for one in found.systems:
        gain = "" if one.gain is None else f"{signed(one.gain.value)} {_bounds(one.gain)}"
        p = "" if one.p is None else "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"
        told = ["", ""] if one.gain is None else [str(one.ahead), str(one.behind)]
        means = ["–" if mean is None else f"{mean:.1f}" for mean in one.means]
        rank = "–"
        if one.rank is not None:
            rank = f"{one.rank.value:.1f} [{one.rank.low:.1f}, {one.rank.high:.1f}]"
        grid.append([one.label, rank, gain, p, *told, *means])
    return grid


def _bounds(gain: Interval) -> str:
    return f"[{signed(gain.low)}, {signed(gain.high)}]"
