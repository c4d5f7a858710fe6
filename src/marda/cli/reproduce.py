"""``marda reproduce``: the paper's tables next to ours."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marda.cli._common import add_command, command_of, joint, positive, progress_choice

if TYPE_CHECKING:
    from marda.benchmarks.results import Results, RunOptions


def register(commands: Any) -> None:
    """Add the command."""
    add = add_command(
        commands,
        "reproduce",
        run,
        "the paper's tables next to ours; resumes where it stopped",
        usage="[options]",
        example="marda reproduce --table us --datasets amt --tasks books-dvd",
    ).add_argument
    joint(
        add("--all", action="store_true"),
        add("--check", type=Path, metavar="FILE"),
        text="all tables and systems (1 draw); compare with rows on record",
    )
    add(
        "--table",
        default="all",
        metavar="T",
        help="us, sup, ss, off31, surf or all (default)",
    )
    add(
        "--datasets",
        nargs="+",
        metavar="D",
        help="oc10, off31, amt, …; auto: also skada-bench, tables, …",
    )
    add(
        "--models",
        nargs="+",
        metavar="M",
        help="BL, MCF, S1, S1D, J12, …; under auto also source-only, CORAL, …",
    )
    add("--classifiers", nargs="+", metavar="C", help="nn, dscm, ridge, ridge10; auto also svm, …")
    add("--tasks", nargs="+", metavar="S-T", help="only these, such as books-dvd or 'one row'")
    add(
        "--unlabelled",
        metavar="ROWS",
        help="target rows of amt that W sees: train (default), test or both",
    )
    add(
        "--preprocessing",
        metavar="P",
        help="paper (default; under auto log-tf for amt), log-tf; no-l2 for SURF",
    )
    add(
        "--settings",
        default="paper",
        choices=("paper", "marda", "auto"),
        help="paper (default), marda, or auto: marda's own choice beside others",
    )
    add(
        "--set",
        nargs="+",
        default=[],
        metavar="K=V",
        help="change settings: ridge_class=10 (rows are kept apart)",
    )
    add(
        "--draws",
        type=positive,
        metavar="N",
        help="draws of sup, ss, surf; splits, seeds (20)",
    )
    add("--data", type=Path, metavar="DIR", help="folder of the data (default: MARDA_DATA)")
    add(
        "--out",
        type=Path,
        default=Path("marda-results"),
        metavar="DIR",
        help="results.sqlite, tables (marda-results); the same folder resumes",
    )
    joint(
        add("--jobs", type=positive, metavar="N"),
        add("--force", action="store_true"),
        text="processes (default: one per core); compute stored rows again",
    )


def run(args: argparse.Namespace) -> int:
    """Reproduce and print; 1 if a row failed."""
    from marda.benchmarks.plan import DRAWS, Request
    from marda.benchmarks.render import print_section, time_text
    from marda.benchmarks.results import compare_rows, reproduce, reproduce_all
    from marda.benchmarks.runner import Shown
    from marda.benchmarks.store import read_rows

    recorded = read_rows(args.check) if args.check else None
    request = Request(
        table=args.table,
        datasets=_tuple(args.datasets),
        models=_tuple(args.models),
        classifiers=_tuple(args.classifiers),
        tasks=_tuple(args.tasks),
        preprocessing=args.preprocessing,
        unlabelled=args.unlabelled,
        settings=args.settings,
        overrides=tuple(_setting(text) for text in args.set),
        draws=args.draws or DRAWS,
    )
    options: RunOptions = {
        "data_dir": args.data,
        "jobs": args.jobs,
        "force": args.force,
        "progress": Shown(show=progress_choice(args)),
    }
    if args.all:
        _refuse_choices(args)
        results = reproduce_all(args.out, args.draws or 1, **options)
        _print_tables(results)
        reasons = _print_leaderboards(results)
    else:
        results = reproduce(request, args.out, **options)
        auto = args.settings == "auto"
        reasons = _print_leaderboards(results) if auto else _print_tables(results)
    assert results.report is not None
    if not args.quiet:
        print_section("Where the time went", time_text(results.rows, results.report))
    written = [*results.files, *_report(args.out, results, command_of(args))]
    agrees = True
    if recorded is not None:
        lines, agrees = compare_rows(results.rows, recorded)
        print_section(f"Against {args.check}", lines)
    if results.failures:
        print_section(f"{len(results.failures)} rows failed (run again to retry)", reasons)
    if not args.quiet:
        print_section("Written", [str(line) for line in written])
    return 1 if results.failures or not agrees else 0


def _refuse_choices(args: argparse.Namespace) -> None:
    """``--all`` leaves nothing to choose."""
    from marda.benchmarks.plan import PlanError

    chosen = ("datasets", "models", "classifiers", "tasks", "unlabelled", "preprocessing", "set")
    given = [f"--{name}" for name in chosen if getattr(args, name)]
    given += ["--table"] if args.table != "all" else []
    given += ["--settings"] if args.settings != "paper" else []
    if given:
        raise PlanError(f"--all runs everything: leave {', '.join(given)} out.")


def _print_tables(results: Results) -> list[str]:
    """Print the paper's tables; also why rows failed."""
    from marda.benchmarks.render import findings_lines, print_section, print_table

    for table in results.tables:
        print_table(table)
    print_section("The paper's findings, checked on our rows", findings_lines(results.findings))
    return sorted({f.message for f in results.failures})


def _print_leaderboards(results: Results) -> list[str]:
    """Print marda's own choice next to the alternatives; also why rows failed."""
    from marda.benchmarks.leaderboard import halves_grid, leaderboard_grid, summary_grid
    from marda.benchmarks.ranking import RANKING_NOTES, rank_systems, ranking_grid
    from marda.benchmarks.render import align, print_section
    from marda.benchmarks.results import HALVES, RANKING, failure_lines

    for board in results.leaderboards:
        print_section(board.heading, align(leaderboard_grid(board), rule=True))
    summary = align(summary_grid(results.leaderboards), rule=True)
    print_section("auto next to the alternatives, means over tasks", summary)
    ranking = rank_systems(results.leaderboards)
    if ranking is not None:
        print_section(RANKING, [*align(ranking_grid(ranking), rule=True), "", *RANKING_NOTES])
    if results.halves:
        print_section(HALVES, align(halves_grid(results.halves), rule=True))
    if results.checks:
        print_section("Checks", results.checks)
    print_section("Notes", results.notes)
    return failure_lines(results.failures)


def _report(folder: Path, results: Results, command: str) -> list[str | Path]:
    """Write the page beside the tables."""
    from marda.benchmarks.render import write_text
    from marda.report.benchmarked import benchmarked_page

    if not results.rows:
        return []
    return [write_text(folder / "report.html", benchmarked_page(results, command))]


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    """Both ``a b`` and ``a,b`` name two things."""
    if values is None:
        return None
    return tuple(part for value in values for part in value.split(",") if part)


def _setting(text: str) -> tuple[str, Any]:
    """``ridge_class=10`` → a name and a JSON value, else a string."""
    from marda.benchmarks.plan import PlanError

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise PlanError(f"--set expects NAME=VALUE, got {text!r}.")
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = value
    if isinstance(parsed, list | dict):
        raise PlanError(f"--set expects a number, a word, true, false or null, got {value!r}.")
    return name, parsed
