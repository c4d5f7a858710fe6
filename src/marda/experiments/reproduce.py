"""The paper's tables next to ours: what ``marda reproduce`` does."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from marda.experiments import findings, render
from marda.experiments.files import write_text
from marda.experiments.plan import (
    BENCHMARKS,
    DRAWS,
    PlanError,
    TableName,
    plan_table,
    table_names,
)
from marda.experiments.progress import Progress
from marda.experiments.rows import ResultRow
from marda.experiments.runner import EXECUTOR, RunReport, run
from marda.experiments.specs import Scalar, Settings, Spec
from marda.experiments.store import Store
from marda.experiments.tables import Table, build
from marda.experiments.timing import seconds_text, time_lines

STORE = "results.sqlite"


@dataclass(frozen=True)
class Request:
    """What to reproduce; the defaults are the paper's tables with the paper's settings."""

    table: str = "all"
    datasets: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    classifiers: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    preprocessing: str = "paper"
    settings: Settings = "paper"
    overrides: tuple[tuple[str, Scalar], ...] = ()
    draws: int = DRAWS

    def plan(
        self, present: dict[str, tuple[str, ...]] | None = None
    ) -> dict[TableName, tuple[Spec, ...]]:
        """Specs by table; tables that the request leaves nothing of are left out."""
        plans = {
            name: plan_table(
                name,
                benchmarks=self.datasets,
                models=self.models,
                classifiers=self.classifiers,
                tasks=self.tasks,
                preprocessing=self.preprocessing,
                settings=self.settings,
                overrides=self.overrides,
                draws=self.draws,
                present=present,
            )
            for name in table_names(self.table)
        }
        kept = {name: specs for name, specs in plans.items() if specs}
        if not kept:
            raise PlanError(
                f"nothing to run: table {self.table} has no such combination of data sets, models "
                "and tasks (S1C and J12C need sup, ss or surf)."
            )
        return kept


@dataclass(frozen=True)
class Outcome:
    """What came out."""

    tables: tuple[Table, ...]
    findings: tuple[findings.Finding, ...]
    report: RunReport
    rows: tuple[ResultRow, ...]
    failures: tuple[ResultRow, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True)
class Done:
    """What the store holds after a run."""

    report: RunReport
    every: tuple[ResultRow, ...]
    """Rows of earlier calls with other requests, too: findings may need them."""
    rows: tuple[ResultRow, ...]
    failures: tuple[ResultRow, ...]


def present_in(specs: Iterable[Spec], data_dir: Path | None) -> dict[str, tuple[str, ...]]:
    """Domains that there are of the data sets that ``specs`` name."""
    from marda.experiments.tasks import present_domains

    names = {spec.task.benchmark for spec in specs}
    return present_domains([name for name in BENCHMARKS if name in names], data_dir)


def run_specs(
    specs: Sequence[Spec],
    out: Path,
    *,
    data_dir: Path | None,
    jobs: int | None,
    force: bool,
    progress: Progress | None,
    executor: str,
) -> Done:
    """Run what the store under ``out`` lacks of ``specs``."""
    keys = {spec.key for spec in specs}
    with Store(out / STORE) as store:
        report = run(
            specs,
            store,
            data_dir=data_dir,
            jobs=jobs,
            force=force,
            executor=executor,
            progress=progress,
        )
        every, failures = tuple(store.rows()), tuple(store.failures(keys))
    rows = tuple(row for row in every if row.spec.key in keys)
    return Done(report, every, rows, failures)


def reproduce(
    request: Request,
    out: Path,
    *,
    data_dir: Path | None = None,
    jobs: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    executor: str = EXECUTOR,
    present: dict[str, tuple[str, ...]] | None = None,
) -> Outcome:
    """Run what the store under ``out`` lacks, then write and return the tables.

    ``present`` (domains by data set) is found from the data unless given.
    """
    if present is None:
        present = present_in((s for specs in request.plan().values() for s in specs), data_dir)
    plans = request.plan(present)
    done = run_specs(
        [spec for specs in plans.values() for spec in specs],
        out,
        data_dir=data_dir,
        jobs=jobs,
        force=force,
        executor=executor,
        progress=progress,
    )
    report, rows = done.report, done.rows
    tables = tuple(build(name, specs, rows) for name, specs in plans.items())
    first = next(iter(plans.values()))[0]
    checked = findings.check(done.every, first.variant, first.task.preprocessing)
    files = _write(out, tables, checked, rows, report)
    return Outcome(tables, checked, report, rows, done.failures, files)


def _write(
    out: Path,
    tables: Sequence[Table],
    checked: Sequence[findings.Finding],
    rows: Sequence[ResultRow],
    report: RunReport,
) -> tuple[Path, ...]:
    """Markdown, CSV (tables and rows) and LaTeX beside the store."""
    markdown = [
        "# The paper's tables, reproduced",
        *(render.to_markdown(table) for table in tables),
        "## The paper's findings, checked on these rows\n",
        *render.findings_lines(checked, evidence=True),
        "\n## Where the time went\n",
        *(f"- {line}" for line in time_text(rows, report)),
    ]
    return (
        write_text(out / "tables.md", "\n".join(markdown) + "\n"),
        write_text(out / "tables.csv", render.to_csv(tables)),
        write_text(out / "tables.tex", "\n".join(map(render.to_latex, tables))),
        write_text(out / "rows.csv", rows_csv(rows)),
    )


def time_text(rows: Sequence[ResultRow], report: RunReport) -> list[str]:
    """Where the time of these rows went, and what this call did."""
    spent = sum(row.seconds for row in rows)
    lines = [
        f"this call: {seconds_text(report.wall_seconds)} with --jobs {report.jobs}, "
        f"{report.computed} rows computed, {report.from_store} from the store, "
        f"{report.failed} failed",
        f"all {len(rows)} rows: {seconds_text(spent)} of computing",
    ]
    peaks = [row.peak_mb for row in rows if row.peak_mb is not None]
    if peaks:
        lines.append(f"largest process: {max(peaks):.0f} MB")
    return lines + [
        f"{what}: {seconds_text(s)} ({share:.0%})" for what, s, share in time_lines(rows)
    ]


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
                row.message,
            ]
        )
    return out.getvalue()
