"""``marda moments``: statistics files, so that rows never leave their owner."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marda.cli._common import (
    Parser,
    add_command,
    names,
    output_file,
    positive,
    progress_of,
)

#: Those of `moments.sql`, whose import would slow down every ``--help``.
DIALECTS = ("ansi", "bigquery", "mysql", "spark", "sqlserver")


def add_moments(commands: Any) -> None:
    """Add ``marda moments``."""
    parser = add_command(
        commands,
        "moments",
        run_moments,
        "statistics files, so that rows never leave their owner",
        usage="{build,sql,read,merge,show} ...",
        example="marda moments build a.parquet --domain hospital-a --label y -o a.moments",
    )
    parts = parser.add_subparsers(
        dest="what",
        required=True,
        metavar="{build,sql,read,merge,show}",
        prog="marda moments",
    )
    _build(parts)
    _sql(parts)
    _read(parts)
    example = "marda moments merge a.moments b.moments -o all"
    merge = _part(parts, "merge", _run_merge, "add files up", "FILE ... -o FILE", example)
    merge.add_argument("files", nargs="+", metavar="FILE", help="moments files")
    _output(merge)
    merge.set_defaults(min_group=None)  # what the parts promise
    example = "marda moments show a.moments"
    show = _part(parts, "show", _run_show, "print what a file holds", "FILE ...", example)
    show.add_argument("files", nargs="+", metavar="FILE", help="moments files")


def _part(
    parts: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    usage: str,
    example: str,
) -> Parser:
    parser = add_command(
        parts, name, run_moments, text, usage=usage, example=example, of="moments "
    )
    parser.set_defaults(run_part=run)
    return parser


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--out", type=output_file, required=True, metavar="FILE", help="file to write"
    )
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
        _run_build,
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
    add("--memory", metavar="SIZE", help="what batches may take (500MB, 30%% of free memory)")
    add("--checkpoint", type=Path, metavar="FILE", help="continue from this file if killed")
    _output(parser)


def _sql(parts: Any) -> None:
    parser = _part(
        parts,
        "sql",
        _run_sql,
        "print one query that sums the rows inside a database",
        "--table T --features COLS --domain NAME [options]",
        "marda moments sql --table visits --features age,dose --label y --domain a",
    )
    add = parser.add_argument
    add("--table", required=True, metavar="T", help="table or view, as name or schema.name")
    add("--features", required=True, type=names, metavar="COLS", help="columns, as a,b,c")
    add("--domain", required=True, metavar="NAME", help="name of the domain of these rows")
    add("--role", choices=("source", "target"), default="source", help="(default: source)")
    add("--label", metavar="COL", help="column of labels; NULL means no label")
    add("--dialect", choices=DIALECTS, default="ansi", help="of SQL (default: ansi)")
    add("--skip-missing", action="store_true", help="leave out rows that lack a value")


def _read(parts: Any) -> None:
    parser = _part(
        parts,
        "read",
        _run_read,
        "turn the saved result of that query into a moments file",
        "RESULT.csv -o FILE [options]",
        "marda moments read a.csv -o a.moments",
    )
    add = parser.add_argument
    add("data", metavar="RESULT.csv", help="the query's result, with its header")
    add("--text-labels", action="store_true", help="labels stay text even if all are numbers")
    add("--class-grams", action="store_true", help="a Gram per class too: class weights need it")
    _output(parser)


def run_moments(args: argparse.Namespace) -> int:
    """Build, merge or print."""
    from marda.adaptation.reading import input_errors

    with input_errors() as notes:
        code: int = args.run_part(args)
    for note in () if args.quiet else notes:
        print(f"marda {args.command}: {note}", file=sys.stderr)
    return code


def _run_build(args: argparse.Namespace) -> int:
    from marda.adaptation.reading import memory_budget
    from marda.moments.parquet import label_values, moments_from_parquet

    with progress_of(args) as progress:
        moments = moments_from_parquet(
            args.data,
            label=args.label,
            domain=args.domain,
            role=args.role,
            features=args.features,
            classes=label_values(args.data, args.label, args.classes) if args.classes else None,
            class_grams=args.class_grams,
            memory=None if args.memory is None else memory_budget(args.memory),
            checkpoint=args.checkpoint,
            progress=lambda done, total: progress(done / total, f"{done:,} of {total:,} rows"),
        )
    return _written(moments, args)


def _written(moments: Any, args: argparse.Namespace) -> int:
    """Write the file and tell what it holds."""
    from marda.moments.files import summary_lines, write

    write(moments, args.out, min_group=args.min_group)
    print("\n".join(summary_lines(args.out)))
    return 0


def _run_sql(args: argparse.Namespace) -> int:
    from marda.moments.sql import moments_query

    query = moments_query(
        args.table,
        args.features,
        domain=args.domain,
        role=args.role,
        label=args.label,
        dialect=args.dialect,
        skip_missing=args.skip_missing,
    )
    print(query, end="")
    return 0


def _run_read(args: argparse.Namespace) -> int:
    from marda.moments.sql import moments_from_sql

    options = {"text_labels": args.text_labels, "class_grams": args.class_grams}
    return _written(moments_from_sql(args.data, **options), args)


def _run_merge(args: argparse.Namespace) -> int:
    from marda.moments.files import merge_files

    moments, promised = merge_files(args.files)
    args.min_group = args.min_group or promised
    return _written(moments, args)


def _run_show(args: argparse.Namespace) -> int:
    from marda.moments.files import summary_lines

    for path in args.files:
        print("\n".join(summary_lines(path)))
    return 0
