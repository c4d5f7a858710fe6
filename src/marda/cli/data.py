"""``marda data``: which data sets there are, where they are looked for, whether they are whole."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import add_command


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "data",
        run,
        "data sets, where they are looked for, checksums",
        usage="{list,check,path} [NAME ...] [--data DIR]",
        example="marda data list",
    )
    add = parser.add_argument
    add(
        "what",
        choices=("list", "check", "path"),
        help="list them; check checksums; print where one is",
    )
    add("names", nargs="*", metavar="NAME", help="data sets (default: all that are there)")
    add("--data", type=Path, metavar="DIR", help="folder of the data (default: MARDA_DATA)")


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; 1 if a checksum is wrong."""
    from marda.benchmarks.render import check_lines, list_lines, path_lines

    lines, ok = {"list": list_lines, "check": check_lines, "path": path_lines}[args.what](
        args.names, args.data
    )
    print("\n".join(lines))
    return 0 if ok else 1
