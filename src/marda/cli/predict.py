"""``marda predict``, ``label`` and ``evaluate``: a saved model on rows of a file."""

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


def add_predict(commands: Any) -> None:
    """Add ``marda predict``."""
    parser = add_command(
        commands,
        "predict",
        run_predict,
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


def run_predict(args: argparse.Namespace) -> int:
    """Predict and say how many rows."""
    from marda.adaptation import ReadOptions, predict
    from marda.adaptation.lines import predicted_lines

    with standard_streams(args, "input") as streams:
        with progress_of(args) as progress:
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


def add_label(commands: Any) -> None:
    """Add ``marda label``."""
    parser = add_command(
        commands,
        "label",
        run_label,
        "which rows to label next, and why",
        usage="--model F --input X [--budget N] [--out R] [options]",
        example=f"{EXAMPLE}\n  marda label --model m.marda --input sample:target --out r.csv",
    )
    add = parser.add_argument
    add_model_and_rows(parser, "rows; those with a label already are left out")
    add("--budget", type=positive, default=20, metavar="N", help="how many (default: 20)")
    add(
        "--out", type=output_file, metavar="R", help="rows with a column to fill in (.csv, .tsv, -)"
    )
    add("--all", action="store_true", help="write all rows, these first: a target for adapt")
    add_reading_options(parser)
    add("--id", metavar="COL", help="column that names rows (default: that of adapt)")
    add("--json", action="store_true", help="print the result as JSON")


def run_label(args: argparse.Namespace) -> int:
    """Choose rows, write them, and print them."""
    from marda.adaptation import ReadOptions, label
    from marda.adaptation.lines import label_lines

    with standard_streams(args, "input") as streams:
        with progress_of(args) as progress:
            result = label(
                args.model,
                args.input,
                args.budget,
                out=args.out,
                whole=args.all,
                id=args.id,
                options=ReadOptions("", format=args.format, **reading_options(args)),
                progress=progress,
            )
        show(result, label_lines(result), args, streams)
    return 0


def add_evaluate(commands: Any) -> None:
    """Add ``marda evaluate``."""
    parser = add_command(
        commands,
        "evaluate",
        run_evaluate,
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


def run_evaluate(args: argparse.Namespace) -> int:
    """Evaluate and print the figures."""
    from marda.adaptation import ReadOptions, evaluate
    from marda.adaptation.lines import evaluated_lines

    with standard_streams(args, "input") as streams:
        with progress_of(args) as progress:
            result = evaluate(
                args.model,
                args.input,
                args.label,
                out=args.out,
                options=ReadOptions("", format=args.format, **reading_options(args)),
                progress=progress,
            )
        show(result, evaluated_lines(result), args, streams)
    return 0
