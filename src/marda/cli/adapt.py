"""``marda adapt``: a classifier for the target from two files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import add_command, joint
from marda.cli._files import (
    Progress,
    add_file_options,
    add_model_options,
    read_options,
    report_to,
    show,
)
from marda.cli._scale import adapt_scaled, add_scale_options

EXAMPLE = (
    "marda adapt --source sample:source --target sample:target --label y --id id --model m.marda"
)


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "adapt",
        run,
        "adapt on your own files: predictions, a model and a report",
        usage="--source S --target T --label COL [--out P] [--model F] [--report H] [...]",
        example=EXAMPLE,
    )
    add_file_options(parser, required=False)
    add_scale_options(parser)
    add = parser.add_argument
    add("--method", metavar="M", help="auto (default), BL, MCF, S1, S1M, S1D, J12D, …")
    add_model_options(parser)
    joint(
        add("--out", type=Path, metavar="P"),
        add("--model", type=Path, metavar="F"),
        text="predictions (.csv, .tsv, .parquet); model file, for marda predict",
    )
    add("--report", type=Path, metavar="H", help="one HTML page on whether to trust the result")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Adapt and print the verdict."""
    from marda.workflow import adapt
    from marda.workflow.text import adapted_lines, statistics_lines

    report = report_to(args.report, "adapted")
    with Progress() as progress:
        scaled = adapt_scaled(args, progress)
    if scaled is not None:
        show(scaled, statistics_lines(scaled), args.json)
        return 0
    with Progress() as progress:
        result = adapt(
            args.source,
            args.target,
            read_options(args),
            out=args.out,
            model=args.model,
            report=report,
            progress=progress,
            method=args.method,
            noise=args.noise,
            classifier=args.classifier,
        )
    show(result, adapted_lines(result), args.json)
    return 0
