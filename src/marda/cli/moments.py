"""``marda moments``: statistics files, so that rows never leave their owner."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from marda._progress import Progress
from marda.cli._common import add_command, names, positive


def register(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "moments",
        run,
        "statistics files, so that rows never leave their owner",
        usage="{build,merge,show} ...",
        example="marda moments build a.parquet --domain hospital-a --label y -o a.moments",
    )
    parts = parser.add_subparsers(
        dest="what",
        required=True,
        metavar="{build,merge,show}",
        prog="marda moments",
        parser_class=type(parser),
    )
    _build(parts)
    merge = _part(
        parts,
        "merge",
        "add files up",
        "FILE ... -o FILE",
        "marda moments merge a.moments b.moments -o all",
    )
    merge.add_argument("files", nargs="+", metavar="FILE", help="moments files")
    _output(merge)
    show = _part(
        parts, "show", "print what a file holds", "FILE ...", "marda moments show a.moments"
    )
    show.add_argument("files", nargs="+", metavar="FILE", help="moments files")


def _part(parts: Any, name: str, text: str, usage: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = parts.add_parser(
        name,
        help=text,
        usage=f"marda moments {name} {usage}",
        description=text[0].upper() + text[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=28, width=96
        ),
        allow_abbrev=False,
    )
    parser.set_defaults(called=f"moments {name}")
    return parser


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="file to write")
    parser.add_argument(
        "--min-group",
        type=positive,
        default=1,
        metavar="K",
        help="refuse to write statistics of groups below K rows",
    )


def _build(parts: Any) -> None:
    parser = _part(
        parts,
        "build",
        "statistics of Parquet rows of one domain",
        "DATA ... --domain NAME -o FILE [options]",
        "marda moments build a.parquet --domain hospital-a --label y -o a.moments",
    )
    add = parser.add_argument
    add("data", nargs="+", metavar="DATA", help="Parquet files, or folders of them")
    add("--domain", required=True, metavar="NAME", help="name of the domain of these rows")
    add("--role", choices=("source", "target"), default="source", help="(default: source)")
    add("--label", metavar="COL", help="column of labels; missing values mean no label")
    add("--features", type=names, metavar="COLS", help="columns, as a,b,c (all but the label)")
    add("--classes", metavar="L,...", help="all label names, if some may have no row here")
    add("--class-grams", action="store_true", help="a Gram per class too: class weights need it")
    add("--memory", metavar="SIZE", help="memory that batches may take, such as 500MB")
    add("--checkpoint", type=Path, metavar="FILE", help="continue from this file if killed")
    _output(parser)


def run(args: argparse.Namespace) -> int:
    """Build, merge or print."""
    from marda.adaptation.reading import input_errors

    with input_errors() as notes:
        code = {"build": _run_build, "merge": _run_merge, "show": _run_show}[args.what](args)
    for note in notes:
        print(f"marda {args.called}: {note}", file=sys.stderr)
    return code


def _run_build(args: argparse.Namespace) -> int:
    from marda._memory import parse_bytes
    from marda.moments.files import summary_lines, write
    from marda.moments.parquet import label_values, moments_from_parquet

    with Progress() as progress:
        moments = moments_from_parquet(
            args.data,
            label=args.label,
            domain=args.domain,
            role=args.role,
            features=args.features,
            classes=label_values(args.data, args.label, args.classes) if args.classes else None,
            class_grams=args.class_grams,
            memory=parse_bytes(args.memory) if args.memory else None,
            checkpoint=args.checkpoint,
            progress=lambda done, total: progress(done / total, f"{done:,} of {total:,} rows"),
        )
    write(moments, args.out, min_group=args.min_group)
    print("\n".join(summary_lines(args.out)))
    return 0


def _run_merge(args: argparse.Namespace) -> int:
    from marda.moments.files import merge_files, summary_lines, write

    write(merge_files(args.files), args.out, min_group=args.min_group)
    print("\n".join(summary_lines(args.out)))
    return 0


def _run_show(args: argparse.Namespace) -> int:
    from marda.moments.files import summary_lines

    for path in args.files:
        print("\n".join(summary_lines(path)))
    return 0
