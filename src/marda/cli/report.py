"""``marda report``: a page from stored results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import (
    add_command,
    command_of,
    output_file,
    output_folder,
    warn_of_png,
)


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "report",
        run,
        "one HTML page from the results that marda reproduce stored",
        usage="DIR --out H [--plots DIR]",
        example="marda report marda-results --out report.html",
    )
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="the --out folder of marda reproduce")
    add("--out", type=output_file, required=True, metavar="H", help="the page to write")
    add("--plots", type=output_folder, metavar="DIR", help="its charts as files")


def run(args: argparse.Namespace) -> int:
    """Read, write, and say where."""
    from marda.adaptation.reading import check_folder, check_names
    from marda.benchmarks.render import write_text
    from marda.benchmarks.results import STORE, read_results
    from marda.io import replacing
    from marda.report.benchmarked import benchmarked_page, benchmarked_sections
    from marda.report.page import plot_files

    check_names((args.folder / STORE,), {"--out": args.out})
    check_folder(args.plots, "--plots")
    warn_of_png(args.plots)
    results = read_results(args.folder)
    written = [write_text(args.out, benchmarked_page(results, command_of(args)))]
    if args.plots is not None:
        for name, content in plot_files(benchmarked_sections(results)).items():
            with replacing(args.plots / name) as file:
                file.write_bytes(content)
        written.append(args.plots)
    if not args.quiet:
        print(f"{len(results.rows)} rows; written: {', '.join(map(str, written))}")
    return 0
