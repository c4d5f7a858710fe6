"""``marda reproduce``: the paper's tables next to ours."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from marda.cli._common import add_command, positive


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
    add(
        "--table",
        default="all",
        metavar="T",
        help="us, sup, ss, off31, surf or all (default)",
    )
    add("--datasets", nargs="+", metavar="D", help="oc10, off31, amt, oc10-surf, oc10-decaf6, …")
    add(
        "--models",
        nargs="+",
        metavar="M",
        help="BL, MCF, S1, S1M, S1D, S1C, J12, …; under auto also auto, source-only, CORAL, …",
    )
    add("--classifiers", nargs="+", metavar="C", help="nn, dscm, ridge; under auto also svm, …")
    add("--tasks", nargs="+", metavar="S-T", help="only these, such as books-dvd")
    add("--preprocessing", metavar="P", help="paper (default; under auto log-tf for amt) or log-tf")
    add(
        "--settings",
        default="paper",
        choices=("paper", "marda", "auto"),
        help="paper (default), marda, or auto: marda's own choice next to the alternatives",
    )
    add(
        "--set",
        nargs="+",
        default=[],
        metavar="K=V",
        help="change settings: ridge_class=10 (rows are kept apart)",
    )
    add("--draws", type=positive, default=20, metavar="N", help="draws of sup, ss, surf (20)")
    add("--data", type=Path, metavar="DIR", help="folder of the data (default: MARDA_DATA)")
    add("--out", type=Path, default=Path("marda-results"), metavar="DIR", help="marda-results")
    add("--force", action="store_true", help="compute stored rows again")
    add("--jobs", type=positive, metavar="N", help="processes (default: one a core)")


def run(args: argparse.Namespace) -> int:
    """Reproduce and print; 1 if a row failed."""
    from marda.experiments.folder import time_text
    from marda.experiments.terminal import print_section

    outcome, reasons = _contest(args) if args.settings == "auto" else _tables(args)
    print_section("Where the time went", time_text(outcome.rows, outcome.report))
    written = [*outcome.files, *_report(args.out, outcome)]
    if outcome.failures:
        print_section(f"{len(outcome.failures)} rows failed (run again to retry)", reasons)
    print_section("Written", [str(line) for line in written])
    return 1 if outcome.failures else 0


def _tables(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """Run and print the paper's tables; also why rows failed."""
    from marda.experiments.render import findings_lines
    from marda.experiments.reproduce import Request, reproduce
    from marda.experiments.terminal import print_section, print_table

    request = Request(
        **_selected(args),
        models=_tuple(args.models),
        preprocessing=args.preprocessing or "paper",
        settings=args.settings,
    )
    outcome = reproduce(request, args.out, **_options(args))
    for table in outcome.tables:
        print_table(table)
    print_section("The paper's findings, checked on our rows", findings_lines(outcome.findings))
    return outcome, sorted({f.message for f in outcome.failures})


def _contest(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """Run and print marda's own choice next to the alternatives; also why rows failed."""
    from marda.experiments import standings
    from marda.experiments.terminal import print_section
    from marda.experiments.versus import ContestRequest, contest, failure_lines

    request = ContestRequest(
        **_selected(args), methods=_tuple(args.models), preprocessing=args.preprocessing
    )
    outcome = contest(request, args.out, **_options(args))
    for board in outcome.boards:
        print_section(board.heading, standings.to_plain(standings.board_grid(board)))
    summary = standings.to_plain(standings.summary_grid(outcome.boards))
    print_section("auto next to the alternatives, means over tasks", summary)
    if outcome.checks:
        print_section("Goals and harm", outcome.checks)
    print_section("Notes", outcome.notes)
    return outcome, failure_lines(outcome.failures)


def _selected(args: argparse.Namespace) -> dict[str, Any]:
    """What both requests choose by."""
    return {
        "table": args.table,
        "datasets": _tuple(args.datasets),
        "classifiers": _tuple(args.classifiers),
        "tasks": _tuple(args.tasks),
        "overrides": tuple(_setting(text) for text in args.set),
        "draws": args.draws,
    }


def _options(args: argparse.Namespace) -> Any:
    """`RunOptions` of the arguments."""
    from marda.experiments.progress import for_terminal

    return {
        "data_dir": args.data,
        "jobs": args.jobs,
        "force": args.force,
        "progress": for_terminal(),
    }


def _report(folder: Path, outcome: Any) -> list[str | Path]:
    """Write the page beside the tables; without its extra, say how to get it."""
    from marda.experiments.files import write_text
    from marda.experiments.stored import from_outcome
    from marda.io import InputError
    from marda.report import require

    if not outcome.rows:
        return []
    try:
        require()
    except InputError as error:  # hours of computing are not lost for want of a page
        return [f"no report.html: {error} Then: marda report {folder} --out report.html"]
    from marda.report.reproduced import reproduced_page

    return [write_text(folder / "report.html", reproduced_page(from_outcome(outcome)))]


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    """Both ``a b`` and ``a,b`` name two things."""
    if values is None:
        return None
    return tuple(part for value in values for part in value.split(",") if part)


def _setting(text: str) -> tuple[str, Any]:
    """``ridge_class=10`` → a name and a JSON value, else a string."""
    from marda.experiments.plan import PlanError

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
