"""``marda adapt``: a classifier for the target from two files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import add_command
from marda.cli._files import Progress, add_file_options, add_model_options, read_options, show

EXAMPLE = (
    "marda adapt --source sample:source --target sample:target --label y --id id --model m.marda"
)


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "adapt",
        run,
        "adapt on your own files: predictions and a model",
        usage="--source S --target T --label COL [--out P] [--model F] [options]",
        example=EXAMPLE,
    )
    add_file_options(parser)
    add = parser.add_argument
    add("--method", default="S1D", metavar="M", help="BL, MCF, S1, S1M, S1D, J12D, … (S1D)")
    add_model_options(parser)
    add("--out", type=Path, metavar="P", help="predictions: .csv, .tsv or .parquet")
    add("--model", type=Path, metavar="F", help="model file, for marda predict")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Adapt and print the verdict."""
    from marda.workflow import adapt
    from marda.workflow.text import adapted_lines

    with Progress() as progress:
        result = adapt(
            args.source,
            args.target,
            read_options(args),
            out=args.out,
            model=args.model,
            progress=progress,
            method=args.method,
            noise=args.noise,
            classifier=args.classifier,
        )
    show(result, adapted_lines(result), args.json)
    return 0
