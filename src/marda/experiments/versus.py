"""``marda reproduce --settings auto``: run the contest, write and return its boards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from marda.experiments import standings
from marda.experiments.contest import plan_contest
from marda.experiments.files import write_text
from marda.experiments.folder import RunOptions, present_in, rows_csv, run_specs, time_text
from marda.experiments.rows import ResultRow
from marda.experiments.runner import RunReport
from marda.experiments.specs import Scalar, Spec
from marda.experiments.standings import Board


@dataclass(frozen=True)
class ContestRequest:
    """What to run; the defaults are all methods on all tasks."""

    table: str = "us"
    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    classifiers: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    preprocessing: str | None = None
    overrides: tuple[tuple[str, Scalar], ...] = ()
    draws: int = 1

    def plan(self, present: dict[str, tuple[str, ...]] | None = None) -> tuple[Spec, ...]:
        """Specs of the request."""
        return plan_contest(
            self.table,
            benchmarks=self.datasets,
            methods=self.methods,
            classifiers=self.classifiers,
            tasks=self.tasks,
            preprocessing=self.preprocessing,
            overrides=self.overrides,
            draws=self.draws,
            present=present,
        )


@dataclass(frozen=True)
class ContestOutcome:
    """What came out."""

    boards: tuple[Board, ...]
    checks: tuple[str, ...]
    """Goals, harm, and whether labels helped."""
    notes: tuple[str, ...]
    report: RunReport
    rows: tuple[ResultRow, ...]
    failures: tuple[ResultRow, ...]
    files: tuple[Path, ...]


def contest(
    request: ContestRequest,
    out: Path,
    *,
    present: dict[str, tuple[str, ...]] | None = None,
    **options: Unpack[RunOptions],
) -> ContestOutcome:
    """Run what the store under ``out`` lacks, then write and return the boards."""
    if present is None:
        present = present_in(request.plan(), options.get("data_dir"))
    specs = request.plan(present)
    done = run_specs(specs, out, **options)
    found = standings.boards(specs, done.rows)
    told = tuple(standings.notes(specs))
    checked = tuple(standings.checks(found, done.every))
    text = _markdown(found, checked, told, done.failures, time_text(done.rows, done.report))
    files = (
        write_text(out / "auto.md", text),
        write_text(out / "auto.csv", rows_csv(done.rows)),
    )
    return ContestOutcome(found, checked, told, done.report, done.rows, done.failures, files)


def failure_lines(failures: Sequence[ResultRow]) -> list[str]:
    """Why rows failed: a line a reason, with the methods and the tasks it struck."""
    reasons: defaultdict[str, list[Spec]] = defaultdict(list)
    for row in failures:
        reasons[row.message].append(row.spec)
    return [
        f"{_some(f'{s.model} {s.classifier}' for s in specs)} on "
        f"{_some(f'{s.task.benchmark} {s.task.pair}' for s in specs)}: {reason}"
        for reason, specs in reasons.items()
    ]


def _some(names: Iterable[str]) -> str:
    """The first three of them."""
    found = list(dict.fromkeys(names))
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _markdown(
    found: Sequence[Board],
    checked: Sequence[str],
    notes: Sequence[str],
    failures: Sequence[ResultRow],
    times: Sequence[str],
) -> str:
    lines = ["# auto next to the alternatives", ""]
    lines += [*standings.to_markdown(standings.summary_grid(found)), ""]
    lines += [*checked, ""]
    for board in found:
        lines += [f"## {board.heading}", ""]
        lines += [*standings.to_markdown(standings.board_grid(board)), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in notes), ""]
    if failures:
        lines += ["## Failures", "", *(f"- {line}" for line in failure_lines(failures)), ""]
    lines += ["## Where the time went", "", *(f"- {line}" for line in times)]
    return "\n".join(lines) + "\n"
