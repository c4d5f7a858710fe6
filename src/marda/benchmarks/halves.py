"""Collections of tasks by halves: auto next to a source-only model that the source chose itself.

Constants of rules are settled on the development half of the tasks; the report half tells what they
are worth elsewhere (`TaskSpec.half`). The source-only model of a task is the one of ridge, logistic
regression and forest that is best on left-out folds of the source: a choice that needs no target
label, and the one a careful user would make.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from marda.benchmarks.peers import published
from marda.benchmarks.plan import AUTO, BENCHMARKS, EVALUATIONS, SOURCE, Half, Spec, TaskSpec
from marda.benchmarks.store import ResultRow

FALL = 1.0
"""Points below the source-only model from which on a task counts as fallen."""
COLUMNS = (
    *("", "half", "tasks", "auto", "source-only", "difference", "fall by > 1"),
    *("expected", "off by", "intervals hold", "Train Src", "best published", "Train Tgt"),
)
NOTES = (
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
        _mean(list(ours.values())),
        _mean(list(theirs.values())),
        fallen,
        _mean([row.params["expected"] for row in guessed]),
        _mean([abs(row.params["expected"] - (row.accuracy or 0.0)) for row in guessed]),
        _mean([100.0 * _holds(row) for row in bounded]),
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


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def halves_grid(lines: Sequence[HalfLine]) -> list[list[str]]:
    """Header and lines; those of published figures only where there are some."""
    grid = [list(COLUMNS)]
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


def _text(value: float | None, form: str = ".1f", empty: str = "–") -> str:
    return empty if value is None else format(value, form)
