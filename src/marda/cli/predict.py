"""``marda predict``: score new rows with a saved model."""

from __future__ import annotations

import argparse
from typing import Any

from marda.cli._common import (
    add_command,
    add_model_and_rows,
    add_reading_options,
    output_file,
    positive,
    progress_of,
    reading_options,
    show,
    standard_streams,
)
from marda.cli.adapt import EXAMPLE


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "predict",
        run,
        "score new rows with a saved model, in batches",
        usage="--model F --input X --out P [options]",
        example=f"{EXAMPLE}\n  marda predict --model m.marda --input sample:new --out p.csv",
    )
    add = parser.add_argument
    add_model_and_rows(parser, "rows; columns in any order")
    add("--out", type=output_file, required=True, metavar="P", help=".csv, .tsv or .parquet, or -")
    add_reading_options(parser)
    add("--id", metavar="COL", help="column to carry through (default: that of adapt)")
    add(
        "--explain",
        type=positive,
        nargs="?",
        const=3,
        metavar="K",
        help="the K columns or words that moved each score most (3)",
    )
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Predict and say how many rows."""
    from marda.adaptation import ReadOptions, predict
    from marda.adaptation.lines import predicted_lines

    with standard_streams(args, "input") as streams, progress_of(args) as progress:
        result = predict(
            args.model,
            args.input,
            args.out,
            format=args.format,
            id=args.id,
            explain=args.explain,
            options=ReadOptions("", **reading_options(args)),
            progress=progress,
        )
        show(result, predicted_lines(result), args, streams)
    return 0
