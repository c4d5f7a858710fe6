"""The paper's tables next to ours: what ``marda reproduce`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from marda.experiments import findings, render
from marda.experiments.files import write_text
from marda.experiments.folder import RunOptions, present_in, rows_csv, run_specs, time_text
from marda.experiments.plan import DRAWS, PlanError, TableName, plan_table, table_names
from marda.experiments.rows import ResultRow
from marda.experiments.runner import RunReport
from marda.experiments.specs import Scalar, Settings, Spec
from marda.experiments.tables import Table, build


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


def reproduce(
    request: Request,
    out: Path,
    *,
    present: dict[str, tuple[str, ...]] | None = None,
    **options: Unpack[RunOptions],
) -> Outcome:
    """Run what the store under ``out`` lacks, then write and return the tables.

    ``present`` (domains by data set) is found from the data unless given.
    """
    if present is None:
        every = [spec for specs in request.plan().values() for spec in specs]
        present = present_in(every, options.get("data_dir"))
    plans = request.plan(present)
    done = run_specs([spec for specs in plans.values() for spec in specs], out, **options)
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
