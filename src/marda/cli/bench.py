"""``marda bench``: speed ratios against reference implementations, in one run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import add_command


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "bench",
        run,
        "speed ratios against reference implementations, in one run",
        usage="[--quick] [--only CASE ...] [--tasks N] [--json F] [--page F]",
        example="marda bench --quick",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="tiny sizes: checks that everything runs")
    add("--only", nargs="+", metavar="CASE", help="these cases (default: all)")
    add("--tasks", type=int, default=12, metavar="N", help="tasks of the OC10 table (default: 12)")
    add("--timeout", type=float, default=3600.0, metavar="S", help="seconds for one case")
    # Cases that are not run keep what these files say of them: they go on, and need no --force.
    add("--json", type=Path, default=Path("marda-bench.json"), metavar="F", help="figures")
    add("--page", type=Path, default=Path("marda-bench.md"), metavar="F", help="the table")


def run(args: argparse.Namespace) -> int:
    """Run the cases; 1 if a bound does not hold."""
    from marda.benchmarks.speed.claims import measure

    return measure(
        args.json,
        args.page,
        quick=args.quick,
        only=args.only or (),
        tasks=args.tasks,
        timeout=args.timeout,
    )
