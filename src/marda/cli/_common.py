"""What the commands' parsers share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Options and their help on one line each, so that a command's help fits a screen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=96)


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    *,
    usage: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add a command whose help ends with an example that works as pasted."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        usage=f"marda {name} {usage}",
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, command=name)
    return parser


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value
