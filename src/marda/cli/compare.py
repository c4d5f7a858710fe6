"""``marda compare``: several methods on the same files."""

from __future__ import annotations

import argparse
from typing import Any

from marda.cli._common import (
    add_command,
    add_file_options,
    add_model_options,
    joint,
    output_file,
    output_folder,
    progress_of,
    read_options,
    report_to,
    show,
    standard_streams,
    warn_of_png,
)


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "compare",
        run,
        "several methods side by side; target labels, if any, only judge",
        usage="--source S --target T --label COL [--methods M ...] [--report H] [options]",
        example="marda compare --source sample:source --target sample:labelled --label y --id id",
    )
    add_file_options(parser)
    parser.add_argument(
        "--methods",
        action="extend",
        nargs="+",
        metavar="M",
        help="BL S1 S1M S1D auto logistic forest CORAL SA (default), S1MD, …",
    )
    add_model_options(parser)
    joint(
        parser.add_argument("--report", type=output_file, metavar="H"),
        parser.add_argument("--plots", type=output_folder, metavar="DIR"),
        text="one HTML page that shows it all; its charts as files",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from marda.adaptation import compare
    from marda.adaptation.lines import compared_lines

    report = report_to(args.report, _page, args)
    plots = None if args.plots is None else (args.plots, _plots)
    warn_of_png(args.plots)
    with standard_streams(args, "source", "target") as streams, progress_of(args) as progress:
        result = compare(
            args.source,
            args.target,
            read_options(args),
            methods=args.methods,
            report=report,
            plots=plots,
            progress=progress,
            noise=args.noise,
            classifier=args.classifier,
        )
        show(result, compared_lines(result, explain=not args.quiet), args, streams)
    return 0


def _page(result: Any, command: str) -> str:
    from marda.report.compared import compared_page

    return compared_page(result, command)


def _plots(result: Any) -> dict[str, bytes]:
    from marda.report.compared import compared_sections
    from marda.report.page import plot_files

    return plot_files(compared_sections(result))
