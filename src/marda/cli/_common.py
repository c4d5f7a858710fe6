"""What the commands share: parsers, the options of files and models, printing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CLASSIFIER = "ridge, kernel, nn or dscm (ridge; auto: its own)"
FORMATS = ("csv", "parquet", "svmlight", "npz", "mat")


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


def add_file_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Source, target, and how to read them."""
    add = parser.add_argument
    add(
        "--source",
        type=Path,
        action="append",
        required=required,
        metavar="S",
        help="file with labelled rows; repeat it for several sources",
    )
    add(
        "--target",
        type=Path,
        action=Once,
        required=required,
        metavar="T",
        help="file with rows to classify",
    )
    add("--label", required=required, metavar="COL", help="column of labels (empty: not known)")
    add("--format", choices=FORMATS, metavar="F", help=f"{', '.join(FORMATS)} (default: found out)")
    add("--id", metavar="COL", help="column to carry through, not a feature")
    joint(
        add("--text", action="append", default=[], metavar="COL"),
        add("--drop", action="append", default=[], metavar="COL"),
        text="column of text, for tf-idf; column to leave out",
    )
    add("--missing", default="error", choices=("error", "impute"), help="default: error")
    add("--scale", default="none", choices=("none", "standard"), help="of numbers (none)")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Parameters of the model."""
    add = parser.add_argument
    add("--noise", type=float, metavar="P", help="dropout probability (0.5; auto: its own)")
    add(
        "--classifier",
        choices=("ridge", "kernel", "nn", "dscm"),
        metavar="C",
        help=CLASSIFIER,
    )


def read_options(args: argparse.Namespace) -> Any:
    """`ReadOptions` of the arguments."""
    from marda.adaptation import ReadOptions

    return ReadOptions(
        label=args.label,
        format=args.format,
        id=args.id,
        text=tuple(args.text),
        drop=tuple(args.drop),
        missing=args.missing,
        scale=args.scale,
    )


def report_to(path: Path | None, page: Callable[[Any], str]) -> Any:
    """Where a report goes and what makes it, or None; refused before the work without its extra."""
    if path is None:
        return None
    from marda.report import require

    require()
    return path, page


def show(result: Any, lines: Sequence[str], as_json: bool) -> None:
    """Print a result for a machine or a person."""
    print(json.dumps(result.to_json(), ensure_ascii=False) if as_json else "\n".join(lines))
