"""``marda demo``: the main job on embedded data, in under a minute."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from marda.cli._common import add_command, output_file


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
    """Run the demo and print it."""
    from marda.adaptation.reading import check_names
    from marda.benchmarks.demonstration import run_demo, text_lines
    from marda.benchmarks.render import write_text
    from marda.report import require

    check_names((), {"--out": args.out})
    require()
    from marda.report.demonstrated import demonstrated_page

    result = run_demo()
    print("\n".join(text_lines(result)))
    print(f"\nWritten: {write_text(args.out, demonstrated_page(result))}")
    return 0
