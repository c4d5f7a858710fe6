"""``marda demo``, ``reproduce``, ``report``, ``data`` and ``bench``: benchmarks and their data."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marda._machine import counted
from marda.cli._common import (
    add_command,
    command_of,
    joint,
    output_file,
    output_folder,
    positive,
    progress_choice,
    progress_of,
    warn_of_png,
)

if TYPE_CHECKING:
    from marda.benchmarks.results import Results, RunOptions


def add_demo(commands: Any) -> None:
    """Add ``marda demo``."""
    parser = add_command(
        commands,
        "demo",
        run_demo,
        "adapt on embedded data, print what it brought, write a page",
        usage="[--report H]",
        example="marda demo --report marda-demo.html",
    )
    parser.add_argument(
        "--report",
        "--out",
        dest="out",
        type=output_file,
        default=Path("marda-demo.html"),
        metavar="H",
        help="the page to write",
    )


def run_demo(args: argparse.Namespace) -> int:
    """Run the demo and print what it finds as it finds it."""
    # Before anything large is imported: whoever waits is told what for.
    _tell(["Does adaptation help? On digits, then on sentences; about half a minute.", ""])
    from marda.adaptation.reading import check_names
    from marda.benchmarks import demonstration
    from marda.io.writing import write_text
    from marda.report.demonstrated import demonstrated_page

    check_names((), {"--out": args.out})
    result = demonstration.run_demo(tell=_tell)
    _tell(["", f"Written: {write_text(args.out, demonstrated_page(result, command_of(args)))}"])
    return 0


def _tell(lines: Sequence[str]) -> None:
    print("\n".join(lines), flush=True)


def add_reproduce(commands: Any) -> None:
    """Add ``marda reproduce``."""
    add = add_command(
        commands,
        "reproduce",
        run_reproduce,
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
        metavar="S",
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
        text="processes (one per core); all rows again: killed, it starts over",
    )
    add(
        "--device",
        metavar="D",
        help="fit marda's models there, by torch: cuda, cpu (default: numpy)",
    )


def run_reproduce(args: argparse.Namespace) -> int:
    """Reproduce and print; 1 if a row failed."""
    from marda.benchmarks.plan import DRAWS, Request
    from marda.benchmarks.render import print_section, time_text
    from marda.benchmarks.results import compare_rows, reproduce, reproduce_all
    from marda.benchmarks.runner import ProgressBar
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
        "progress": ProgressBar(show=progress_choice(args)),
    }
    if args.device:
        options["executor"] = _on_device(args.device)
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
    written = [*results.files, *_write_page(args.out, results, command_of(args))]
    agrees = True
    if recorded is not None:
        lines, agrees = compare_rows(results.rows, recorded)
        print_section(f"Against {args.check}", lines)
    if results.failures:
        print_section(
            f"{counted(len(results.failures), 'row')} failed (run again to retry)", reasons
        )
    if not args.quiet:
        print_section("Written", [str(line) for line in written])
    return 1 if results.failures or not agrees else 0


def _on_device(device: str) -> Any:
    """What fits models of a unit on a device, in a worker; one that is not there is refused."""
    from functools import partial

    from marda._arrays import torch_device
    from marda.benchmarks.execute import run_unit
    from marda.benchmarks.plan import PlanError

    try:
        torch_device(device)
    except ValueError as error:
        raise PlanError(f"--device {error}") from None
    os.environ["SCIPY_ARRAY_API"] = "1"  # workers load scipy, which follows arrays only by it
    return partial(run_unit, device=device)


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
    from marda.benchmarks.leaderboard import (
        RANKING_NOTES,
        halves_grid,
        leaderboard_grid,
        rank_systems,
        ranking_grid,
        summary_grid,
    )
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


def _write_page(folder: Path, results: Results, command: str) -> list[str | Path]:
    """Write the page beside the tables."""
    from marda.io.writing import write_text
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


def add_report(commands: Any) -> None:
    """Add ``marda report``."""
    parser = add_command(
        commands,
        "report",
        run_report,
        "one HTML page from the results that marda reproduce stored",
        usage="DIR --out H [--plots DIR]",
        example="marda report marda-results --out report.html",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the --out folder of marda reproduce")
    add("--out", type=output_file, required=True, metavar="H", help="the page to write")
    add("--plots", type=output_folder, metavar="DIR", help="its charts as files")


def run_report(args: argparse.Namespace) -> int:
    """Read, write, and say where."""
    from marda.adaptation.reading import check_folder, check_names
    from marda.benchmarks.results import STORE, read_results
    from marda.io import replacing
    from marda.io.writing import write_text
    from marda.report.benchmarked import benchmarked_page, benchmarked_sections
    from marda.report.page import plot_files

    check_names((args.folder / STORE,), {"--out": args.out})
    if args.plots is not None:
        check_folder(args.plots)
    warn_of_png(args.plots)
    results = read_results(args.folder)
    written = [write_text(args.out, benchmarked_page(results, command_of(args)))]
    if args.plots is not None:
        for name, content in plot_files(benchmarked_sections(results)).items():
            with replacing(args.plots / name) as file:
                file.write_bytes(content)
        written.append(args.plots)
    if not args.quiet:
        print(f"{counted(len(results.rows), 'row')}; written: {', '.join(map(str, written))}")
    return 0


def add_data(commands: Any) -> None:
    """Add ``marda data``."""
    parser = add_command(
        commands,
        "data",
        run_data,
        "data sets, where they are looked for, checksums",
        usage="{list,check,path} [NAME ...] [--data DIR]",
        example="marda data list",
    )
    add = parser.add_argument
    add(
        "what",
        choices=("list", "check", "path"),
        help="list them; check checksums; print where one is",
    )
    add("names", nargs="*", metavar="NAME", help="data sets (default: all that are there)")
    add("--data", type=Path, metavar="DIR", help="folder of the data (default: MARDA_DATA)")


def run_data(args: argparse.Namespace) -> int:
    """Print what was asked for; 1 if a checksum is wrong."""
    from marda.benchmarks.render import check_lines, list_lines, path_lines

    lines, ok = {"list": list_lines, "check": check_lines, "path": path_lines}[args.what](
        args.names, args.data
    )
    print("\n".join(lines))
    return 0 if ok else 1


def add_bench(commands: Any) -> None:
    """Add ``marda bench``."""
    parser = add_command(
        commands,
        "bench",
        run_bench,
        "speed ratios against reference implementations, in one run",
        usage="[--quick] [--only CASE ...] [--tasks N] [--json F] [--page F]",
        example="marda bench --quick",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="tiny sizes: checks that everything runs")
    add("--only", nargs="+", metavar="CASE", help="these cases (default: all but gpu)")
    add("--tasks", type=int, default=12, metavar="N", help="tasks of the OC10 table (default: 12)")
    add("--timeout", type=float, default=3600.0, metavar="S", help="seconds for one case")
    # Cases that are not run keep what these files say of them: they go on, and need no --force.
    add("--json", type=Path, default=Path("marda-bench.json"), metavar="F", help="figures")
    add("--page", type=Path, default=Path("marda-bench.md"), metavar="F", help="the table")


def run_bench(args: argparse.Namespace) -> int:
    """Run the cases; 1 if a bound does not hold."""
    from marda.benchmarks.speed_claims import measure

    return measure(
        args.json,
        args.page,
        quick=args.quick,
        only=args.only or (),
        tasks=args.tasks,
        timeout=args.timeout,
        progress=progress_of(args),
    )
