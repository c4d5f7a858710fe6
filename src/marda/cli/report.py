"""``marda report``: a page from stored results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import add_command, command_of, output_file


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        run,
        "one HTML page from the results that marda reproduce stored",
        usage="DIR --out H",
        example="marda report marda-results --out report.html",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the --out folder of marda reproduce")
    add("--out", type=output_file, required=True, metavar="H", help="the page to write")


def run(args: argparse.Namespace) -> int:
    """Read, write, and say where."""
    from marda.adaptation.reading import check_names
    from marda.benchmarks.render import write_text
    from marda.benchmarks.results import STORE, read_results
    from marda.report.benchmarked import benchmarked_page

    check_names((args.folder / STORE,), {"--out": args.out})
    results = read_results(args.folder)
    written = write_text(args.out, benchmarked_page(results, command_of(args)))
    if not args.quiet:
        print(f"{len(results.rows)} rows; written: {written}")
    return 0
