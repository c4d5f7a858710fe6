"""A folder of results: run what its store lacks, write tables beside it, read all of it back.

This is what ``marda reproduce`` and ``marda report`` do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TypedDict, Unpack

from marda.benchmarks import leaderboard as boards
from marda.benchmarks import render
from marda.benchmarks.leaderboard import (
    RANKING_NOTES,
    HalfLine,
    Leaderboard,
    half_lines,
    halves_grid,
    rank_systems,
    ranking_grid,
)
from marda.benchmarks.plan import (
    BENCHMARKS,
    MODELS,
    TABLES,
    Request,
    Spec,
    TableName,
    belongs,
    everything,
    on_leaderboards,
    seen_rows,
)
from marda.benchmarks.runner import Executor, RunProgress, RunReport, run
from marda.benchmarks.store import ResultRow, Store, StoreError
from marda.benchmarks.tables import CheckedClaim, Column, PaperTable, build_table, check_findings
from marda.io.writing import write_text

STORE = "results.sqlite"
HALVES = "Development and report halves"
RANKING = "All systems, ranked over the tasks that they share"


class RunOptions(TypedDict, total=False):
    """Options of `run`; what is left out has its default."""

    data_dir: Path | None
    jobs: int | None
    force: bool
    progress: RunProgress | None
    executor: Executor | None


@dataclass(frozen=True)
class Results:
    """What a request, or all rows of a folder, came to."""

    tables: tuple[PaperTable, ...] = ()
    leaderboards: tuple[Leaderboard, ...] = ()
    findings: tuple[CheckedClaim, ...] = ()
    rows: tuple[ResultRow, ...] = ()
    failures: tuple[ResultRow, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of leaderboards must know."""
    checks: tuple[str, ...] = ()
    """Of leaderboards: harm, hindsight, and whether labels helped."""
    report: RunReport | None = None
    """What this call did; None where rows were only read."""
    files: tuple[Path, ...] = ()
    halves: tuple[HalfLine, ...] = ()
    """Collections of tasks, development and report halves apart."""


def reproduce(
    request: Request,
    out: Path,
    *,
    present: Mapping[str, Sequence[str]] | None = None,
    **options: Unpack[RunOptions],
) -> Results:
    """Run what the store under ``out`` lacks, then write and return tables or leaderboards.

    ``present`` (domains by data set) is found from the data unless given.
    """
    if present is None:
        present = _present(request.specs(), options.get("data_dir"))
    specs = request.specs(present)
    keys = {spec.key for spec in specs}
    with Store(out / STORE) as store:
        report = run(specs, store, **options)
        # Rows of earlier calls with other requests, too: findings and checks may need them.
        every, failures = store.rows(), tuple(store.failures(keys))
    rows = tuple(row for row in every if row.spec.key in keys)
    if request.settings == "auto":
        found = boards.leaderboards(specs, rows)
        results = Results(
            leaderboards=found,
            notes=tuple(boards.notes(specs)),
            checks=tuple(boards.checks(found, every)),
            halves=half_lines(specs, rows),
        )
    else:
        tables = tuple(build_table(name, s, rows) for name, s in request.tables(present).items())
        results = Results(
            tables=tables,
            findings=check_findings(
                every, specs[0].variant, specs[0].task.preprocessing, seen_rows(specs)
            ),
        )
    return write_results(replace(results, rows=rows, failures=failures), out, report)


def reproduce_all(out: Path, draws: int = 1, **options: Unpack[RunOptions]) -> Results:
    """Run all of `everything` that the store under ``out`` lacks, then write and return it all."""
    specs = [
        spec
        for request in everything(draws)
        for spec in request.specs(_present(request.specs(), options.get("data_dir")))
    ]
    with Store(out / STORE) as store:
        report = run(specs, store, **options)
    return write_results(read_results(out), out, report)


def write_results(results: Results, out: Path, report: RunReport) -> Results:
    """Write all tables and leaderboards of ``results`` into the folder ``out``, and all rows."""
    texts = {}
    if results.tables:
        texts["tables.md"] = _tables_page(results, report)
        texts["tables.csv"] = render.to_csv(results.tables)
        texts["tables.tex"] = "\n".join(map(render.to_latex, results.tables))
    if results.leaderboards:
        texts["auto.md"] = _leaderboard_page(results, report)
        texts["auto.tex"] = _leaderboard_latex(results)
    texts["rows.csv" if results.tables else "auto.csv"] = render.rows_csv(results.rows)
    files = tuple(write_text(out / name, text) for name, text in texts.items())
    return replace(results, report=report, files=files)


def read_results(folder: Path) -> Results:
    """Read what ``marda reproduce --out folder`` stored, over all its calls."""
    path = folder / STORE
    if not path.is_file():
        raise StoreError(f"{folder} holds no {STORE}: name the --out folder of marda reproduce.")
    with Store(path) as store:
        rows, failures = tuple(store.rows()), tuple(store.failures())
    if not rows:
        raise StoreError(f"{path} holds no finished row: run marda reproduce again.")
    return results_of(rows, failures)


def results_of(rows: tuple[ResultRow, ...], failures: tuple[ResultRow, ...] = ()) -> Results:
    """Every table and leaderboard that rows give; findings of the stated settings, if there."""
    specs = [row.spec for row in (*rows, *failures)]
    auto = on_leaderboards(specs)
    plain = [spec for spec in specs if spec.settings != "auto" and spec.model in MODELS]
    findings: tuple[CheckedClaim, ...] = ()
    stated = [s for s in plain if (s.variant, s.task.preprocessing) == ("paper", "paper")]
    if plain:
        kind = (stated or plain)[0]
        seen = seen_rows([s for s in stated if s.task.protocol == "full"] or plain)
        findings = check_findings(rows, kind.variant, kind.task.preprocessing, seen)
    found = boards.leaderboards(auto, rows)
    return Results(
        tuple(_stored_tables(plain, rows)),
        found,
        findings,
        rows,
        failures,
        tuple(boards.notes(auto)) if auto else (),
        tuple(boards.checks(found, rows)),
        halves=half_lines(auto, rows),
    )


MEAN_TOLERANCE = 0.1
"""Points by which a mean over tasks may differ from the rows on record."""


def compare_rows(
    rows: Sequence[ResultRow], recorded: Sequence[ResultRow]
) -> tuple[list[str], bool]:
    """How rows agree with those on record: lines to print, and whether every mean agrees."""
    known = {row.spec.key: row.accuracy for row in recorded}
    pairs = [(row, known[row.spec.key]) for row in rows if row.spec.key in known]
    gaps = [
        (row, row.accuracy - before)
        for row, before in pairs
        if row.accuracy is not None and before is not None
    ]
    if not gaps:
        return ["none of these rows is on record: nothing was compared"], False
    columns: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for row, gap in gaps:
        # The order in which a person names them.
        c = Column.of(row.spec)
        what = (c.benchmark, c.setting, c.protocol, c.preprocessing, c.variant)
        columns[*what, row.spec.model, c.classifier].append(gap)
    means = {column: fmean(found) for column, found in columns.items()}
    off = {column: mean for column, mean in means.items() if abs(mean) > MEAN_TOLERANCE}
    worst_row, worst = max(gaps, key=lambda item: abs(item[1]))
    lines = [
        f"{len(gaps)} of {len(rows)} rows are on record: {sum(gap == 0 for _, gap in gaps)} to the "
        f"digit, the farthest {worst:+.2f} points off ({worst_row.spec.key})",
        f"{len(means) - len(off)} of {len(means)} means over tasks agree within "
        f"{MEAN_TOLERANCE} points",
        *(f"{' '.join(column)}: {mean:+.2f}" for column, mean in off.items()),
    ]
    return lines, not off


def _present(specs: Iterable[Spec], data_dir: Path | None) -> dict[str, tuple[str, ...]]:
    """Domains that there are of the data sets that ``specs`` name."""
    from marda.benchmarks.execute import present_domains

    names = {spec.task.benchmark for spec in specs}
    return present_domains([name for name in BENCHMARKS if name in names], data_dir)


def _stored_tables(specs: Sequence[Spec], rows: Sequence[ResultRow]) -> list[PaperTable]:
    """Every table that the rows give, one per variant of settings, protocol and preprocessing."""
    groups: dict[tuple[TableName, str, str, str], list[Spec]] = {}
    for name in TABLES:
        for spec in specs:
            if belongs(spec, name):
                where = name, spec.variant, spec.task.protocol, spec.task.preprocessing
                groups.setdefault(where, []).append(spec)
    return [build_table(name, found, rows) for (name, *_), found in groups.items()]


# Pages --------------------------------------------------------------------------------------------


def _tables_page(results: Results, report: RunReport) -> str:
    lines = [
        "# The paper's tables, reproduced",
        *(render.to_markdown(table) for table in results.tables),
        "## The paper's findings, checked on these rows\n",
        *render.markdown_lines(render.findings_grid(results.findings)),
        "",
        *render.findings_lines(results.findings, evidence=True),
        "\n## Where the time went\n",
        *(f"- {line}" for line in render.time_text(results.rows, report)),
    ]
    return "\n".join(lines) + "\n"


def _leaderboard_page(results: Results, report: RunReport) -> str:
    found = results.leaderboards
    lines = ["# auto next to the alternatives", ""]
    lines += [*render.markdown_lines(boards.summary_grid(found)), ""]
    ranking = rank_systems(found)
    if ranking is not None:
        lines += [f"## {RANKING}", "", *render.markdown_lines(ranking_grid(ranking)), ""]
        lines += [*(f"- {note}" for note in RANKING_NOTES), ""]
    if results.halves:
        lines += [f"## {HALVES}", "", *render.markdown_lines(halves_grid(results.halves)), ""]
    lines += [*results.checks, ""]
    for board in found:
        lines += [f"## {board.heading}", ""]
        lines += [*render.markdown_lines(boards.leaderboard_grid(board)), ""]
    lines += ["## Notes", "", *(f"- {note}" for note in results.notes), ""]
    if results.failures:
        lines += ["## Failures", "", *(f"- {line}" for line in failure_lines(results.failures)), ""]
    times = render.time_text(results.rows, report)
    lines += ["## Where the time went", "", *(f"- {line}" for line in times)]
    return "\n".join(lines) + "\n"


def _leaderboard_latex(results: Results) -> str:
    found = results.leaderboards
    ranking = rank_systems(found)
    grids = {"auto next to the alternatives, means over tasks": boards.summary_grid(found)}
    if ranking is not None:
        grids[f"{RANKING}. {' '.join(RANKING_NOTES)}"] = ranking_grid(ranking)
    if results.halves:
        grids[HALVES] = halves_grid(results.halves)
    grids |= {board.heading: boards.leaderboard_grid(board) for board in found}
    lines = [render.latex_lines(caption, grid) for caption, grid in grids.items()]
    return "\n".join(line for part in lines for line in part)


def failure_lines(failures: Sequence[ResultRow]) -> list[str]:
    """Why rows failed: a line per reason, with the methods and the tasks it struck."""
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
