"""``marda label``: which rows to label next."""

from __future__ import annotations

import argparse
from typing import Any

from marda.cli._common import (
    add_command,
    add_model_and_rows,
    add_reading_options,
    output_file,
    positive,
    reading_options,
    show,
    standard_streams,
)
from marda.cli.adapt import EXAMPLE


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "label",
        run,
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


def run(args: argparse.Namespace) -> int:
    """Choose rows, write them, and print them."""
    from marda.adaptation import ReadOptions, label
    from marda.adaptation.lines import label_lines

    with standard_streams(args, "input") as streams:
        result = label(
            args.model,
            args.input,
            args.budget,
            out=args.out,
            whole=args.all,
            id=args.id,
            options=ReadOptions("", format=args.format, **reading_options(args)),
        )
        show(result, label_lines(result), args, streams)
    return 0
