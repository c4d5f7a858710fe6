"""The folder of results: run what its store lacks; its rows as CSV, and where their time went."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from marda.experiments.plan import BENCHMARKS
from marda.experiments.progress import Progress
from marda.experiments.rows import ResultRow
from marda.experiments.runner import RunReport, run
from marda.experiments.specs import Spec
from marda.experiments.store import Store
from marda.experiments.timing import seconds_text, time_lines
from marda.io.writer import harmless

STORE = "results.sqlite"


class RunOptions(TypedDict, total=False):
    """Options of `run`; what is left out has its default."""

    data_dir: Path | None
    jobs: int | None
    force: bool
    progress: Progress | None
    executor: str


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


def run_specs(specs: Sequence[Spec], out: Path, **options: Unpack[RunOptions]) -> Done:
    """Run what the store under ``out`` lacks of ``specs``."""
    keys = {spec.key for spec in specs}
    with Store(out / STORE) as store:
        report = run(specs, store, **options)
        every, failures = tuple(store.rows()), tuple(store.failures(keys))
    rows = tuple(row for row in every if row.spec.key in keys)
    return Done(report, every, rows, failures)


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
                harmless(row.message),
            ]
        )
    return out.getvalue()
