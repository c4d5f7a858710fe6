"""What the commands on the user's files share: options and printing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from marda.cli._common import Once, joint

CLASSIFIER = "ridge, kernel, nn or dscm (ridge; auto: its own)"
FORMATS = ("csv", "parquet", "svmlight", "npz", "mat")


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


def report_to(path: Path | None, kind: str) -> Any:
    """Where a report goes and what makes it, or None; refused before the work without its extra."""
    if path is None:
        return None
    from marda.report import require

    require()
    return path, getattr(import_module(f"marda.report.{kind}"), f"{kind}_page")


def show(result: Any, lines: Sequence[str], as_json: bool) -> None:
    """Print a result for a machine or a person."""
    print(json.dumps(result.to_json(), ensure_ascii=False) if as_json else "\n".join(lines))
