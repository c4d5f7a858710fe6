"""``marda demo``: the main job on embedded data, in half a minute."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marda.cli._common import add_command, command_of, output_file


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        run,
        "adapt on embedded data, print what it brought, write a page",
        usage="[--out H]",
        example="marda demo --out marda-demo.html",
    )
    parser.add_argument(
        "--out",
        type=output_file,
        default=Path("marda-demo.html"),
        metavar="H",
        help="the page to write",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demo and print what it finds as it finds it."""
    # Before anything large is imported: whoever waits is told what for.
    _tell(["Does adaptation help? On digits, then on sentences; about half a minute.", ""])
    from marda.adaptation.reading import check_names
    from marda.benchmarks.demonstration import run_demo
    from marda.benchmarks.render import write_text
    from marda.report.demonstrated import demonstrated_page

    check_names((), {"--out": args.out})
    result = run_demo(tell=_tell)
    _tell(["", f"Written: {write_text(args.out, demonstrated_page(result, command_of(args)))}"])
    return 0


def _tell(lines: Sequence[str]) -> None:
    print("\n".join(lines), flush=True)
