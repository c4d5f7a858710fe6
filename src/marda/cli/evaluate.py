"""``marda evaluate``: labels have arrived; was the model as good as expected?"""

from __future__ import annotations

import argparse
from typing import Any

from marda.cli._common import (
    add_command,
    add_model_and_rows,
    add_reading_options,
    output_file,
    reading_options,
    show,
    standard_streams,
)
from marda.cli.adapt import EXAMPLE


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "evaluate",
        run,
        "how good a saved model is on rows whose labels have arrived",
        usage="--model F --input X [--label COL] [options]",
        example=f"{EXAMPLE}\n  marda evaluate --model m.marda --input sample:labelled",
    )
    add = parser.add_argument
    add_model_and_rows(parser, "rows of which some or all have a label")
    add("--label", metavar="COL", help="column of labels (default: that of adapt)")
    add("--out", type=output_file, metavar="E", help="the figures (.json)")
    add_reading_options(parser)
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Evaluate and print the figures."""
    from marda.adaptation import ReadOptions, evaluate
    from marda.adaptation.lines import evaluated_lines

    with standard_streams(args, "input") as streams:
        result = evaluate(
            args.model,
            args.input,
            args.label,
            out=args.out,
            options=ReadOptions("", format=args.format, **reading_options(args)),
        )
        show(result, evaluated_lines(result), args, streams)
    return 0
