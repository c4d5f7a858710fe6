"""``marda check``: how far apart two files are, and whether it matters."""

from __future__ import annotations

import argparse
from typing import Any

from marda.cli._common import (
    add_command,
    add_file_options,
    progress_of,
    read_options,
    show,
    standard_streams,
)


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "check",
        run,
        "how far apart two files are, in which columns, does it matter",
        usage="--source S --target T [--label COL] [options]",
        example="marda check --source sample:source --target sample:target --label y",
    )
    add_file_options(parser, label=False, missing="impute")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Check and print."""
    from marda.adaptation.checking import check_files
    from marda.adaptation.lines import checked_lines

    with standard_streams(args, "source", "target") as streams, progress_of(args) as progress:
        result = check_files(args.source, args.target, read_options(args), progress=progress)
        show(result, checked_lines(result), args, streams)
    return 0
