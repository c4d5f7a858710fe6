"""What the commands' parsers share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Options and their help on one line each, so that a command's help fits a screen."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=96)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown: str | None = getattr(action, "shown", None)
        return super()._format_action_invocation(action) if shown is None else shown


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
        add_help=False,
    )
    # Whoever reads the help knows how to get it: its line is better used for an option.
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.set_defaults(run=run, command=name)
    return parser


def joint(*actions: argparse.Action, text: str) -> None:
    """Show several options, each of one value, on one line of the help."""
    for action in actions:
        action.help = argparse.SUPPRESS
    names = [f"{action.option_strings[0]} {action.metavar}" for action in actions]
    actions[0].help = text
    vars(actions[0])["shown"] = ", ".join(names)


class Once(argparse.Action):
    """Store one value; a second one is refused, where argparse would drop the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Take the value."""
        before = getattr(namespace, self.dest, None)
        if before is not None:
            parser.error(f"{option_string} takes one file, got {before} and {values}")
        setattr(namespace, self.dest, values)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return value
