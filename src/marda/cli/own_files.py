"""``marda check``, ``adapt``, ``compare``, ``predict``, ``label``, ``evaluate``: on own files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from marda.cli._common import (
    LABEL,
    add_command,
    add_file_options,
    add_model_and_rows,
    add_model_options,
    add_reading_options,
    joint,
    output_file,
    output_folder,
    plots_to,
    positive,
    progress_of,
    read_options,
    report_to,
    show,
    standard_streams,
)

EXAMPLE = (
    "marda adapt --source sample:source --target sample:target --label y --id id --model m.marda"
)


def add_check(commands: Any) -> None:
    """Add ``marda check``."""
    parser = add_command(
        commands,
        "check",
        run_check,
        "how far apart two files are, in which columns, does it matter",
        usage="--source S --target T [--label COL] [options]",
        example="marda check --source sample:source --target sample:target --label y",
    )
    add_file_options(parser, label=False, missing="impute")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_check(args: argparse.Namespace) -> int:
    """Check and print."""
    from marda.adaptation.checking import check_files
    from marda.adaptation.lines import checked_lines

    with standard_streams(args, "source", "target") as streams:
        with progress_of(args) as progress:
            result = check_files(args.source, args.target, read_options(args), progress=progress)
        show(result, checked_lines(result), args, streams)
    return 0


def add_adapt(commands: Any) -> None:
    """Add ``marda adapt``."""
    parser = add_command(
        commands,
        "adapt",
        run_adapt,
        "adapt on your own files: predictions, a model and a report",
        usage="--source S --target T --label COL [--out P] [--model F] [--report H] [...]",
        example=EXAMPLE,
    )
    _add_scale_options(parser, add_file_options(parser, required=False))
    add = parser.add_argument
    joint(
        add("--method", metavar="M"),
        add("--plots", type=output_folder, metavar="DIR"),
        text="auto (default), BL, MCF, S1, S1D, J12D, …; charts as files",
    )
    add_model_options(parser)
    joint(
        add("--out", type=output_file, metavar="P"),
        add("--model", type=output_file, metavar="F"),
        text="write predictions (.csv, .tsv, .parquet, -); write the model to F",
    )
    joint(
        add("--report", type=output_file, metavar="H"),
        add("--card", type=output_file, metavar="M"),
        text="one HTML page: can I use the predictions?; a model card",
    )
    add("--json", action="store_true", help="print the result as JSON")


def _add_scale_options(parser: argparse.ArgumentParser, label: argparse.Action) -> None:
    """Statistics files, memory, devices and clusters."""
    add = parser.add_argument
    joint(
        label,
        add("--moments", type=Path, action="extend", nargs="+", metavar="F"),
        text=f"{LABEL}; statistics files, no --source",
    )
    joint(
        add("--memory", metavar="M"),
        add("--device", metavar="D"),
        text="for rows (4GB, 30%%); fit there, through torch (cuda, cuda:1, cpu)",
    )
    joint(
        add("--scheduler", metavar="A"),
        add("--cluster", choices=("local",), metavar="C"),
        text="read Parquet on Dask workers: address; local",
    )


def run_adapt(args: argparse.Namespace) -> int:
    """Adapt and print the verdict."""
    from marda.adaptation import Cluster, Outputs, adapt, adapt_moments
    from marda.adaptation.lines import adapted_lines
    from marda.report.adapted import adapted_page, adapted_sections, model_card

    _check_call(args)
    pages = {
        "report": report_to(args.report, adapted_page, args),
        "card": report_to(args.card, model_card, args),
        "plots": plots_to(args.plots, adapted_sections),
    }
    parameters = {"method": args.method, "noise": args.noise, "classifier": args.classifier}

    def announce(sentence: str) -> None:
        if not args.quiet:
            print(f"marda adapt: {sentence}", file=sys.stderr)

    with standard_streams(args, "source", "target") as streams:
        with progress_of(args) as progress:
            if args.moments:
                outputs = Outputs(args.target, args.format, args.id, args.out, args.model)
                result: Any = adapt_moments(
                    args.moments, outputs, scale=args.scale, progress=progress, **parameters
                )
            else:
                result = adapt(
                    args.source,
                    args.target,
                    read_options(args),
                    out=args.out,
                    model=args.model,
                    memory=args.memory,
                    cluster=Cluster(args.scheduler) if args.scheduler or args.cluster else None,
                    device=args.device,
                    announce=announce,
                    progress=progress,
                    **pages,
                    **parameters,
                )
        show(result, adapted_lines(result), args, streams)
    return 0


def _check_call(args: argparse.Namespace) -> None:
    """Refuse options that exclude each other, and rows that are not named."""
    from marda.adaptation.reading import refuse_report
    from marda.io import InputError

    if args.scheduler and args.cluster:
        raise InputError("--scheduler and --cluster exclude each other: name one.")
    if not args.moments:
        lost = [f"--{n}" for n in ("source", "target", "label") if getattr(args, n) is None]
        if lost:
            raise InputError(
                f"the following arguments are required: {', '.join(lost)} (see marda adapt --help)"
            )
        return
    for name in ("report", "card", "plots"):
        refuse_report(vars(args)[name], "statistics files hold no rows", f"--{name}")
    for name, wanted in (
        ("--source", args.source is not None),
        ("--label", args.label is not None),
        ("--text", args.text),
        ("--drop", args.drop),
        ("--keep", args.keep),
        ("--na", args.na),
        *((f"--{name}", vars(args)[name]) for name in ("encoding", "sheet", "decimal", "dates")),
        ("--missing impute", args.missing == "impute"),
        ("--memory", args.memory),
        ("--scheduler", args.scheduler),
        ("--cluster", args.cluster),
        ("--device", args.device),
    ):
        if wanted:
            raise InputError(
                f"--moments and {name} exclude each other: rows, columns and labels were read "
                "when the statistics were built."
            )


def add_compare(commands: Any) -> None:
    """Add ``marda compare``."""
    parser = add_command(
        commands,
        "compare",
        run_compare,
        "several methods side by side; target labels, if any, only judge",
        usage="--source S --target T --label COL [--methods M ...] [--report H] [options]",
        example="marda compare --source sample:source --target sample:labelled --label y --id id",
    )
    add_file_options(parser)
    parser.add_argument(
        "--methods",
        action="extend",
        nargs="+",
        metavar="M",
        help="BL S1 S1M S1D auto logistic forest CORAL SA (default), S1MD, …",
    )
    add_model_options(parser)
    joint(
        parser.add_argument("--report", type=output_file, metavar="H"),
        parser.add_argument("--plots", type=output_folder, metavar="DIR"),
        text="one HTML page that shows it all; its charts as files",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run_compare(args: argparse.Namespace) -> int:
    """Compare and print."""
    from marda.adaptation import compare
    from marda.adaptation.lines import compared_lines
    from marda.report.compared import compared_page, compared_sections

    report = report_to(args.report, compared_page, args)
    plots = plots_to(args.plots, compared_sections)
    with standard_streams(args, "source", "target") as streams:
        with progress_of(args) as progress:
            result = compare(
                args.source,
                args.target,
                read_options(args),
                methods=args.methods,
                report=report,
                plots=plots,
                progress=progress,
                noise=args.noise,
                classifier=args.classifier,
            )
        show(result, compared_lines(result), args, streams)
    return 0


# A saved model on rows of a file ----------------------------------------------------------------


def add_predict(commands: Any) -> None:
    """Add ``marda predict``."""
    parser = add_command(
        commands,
        "predict",
        run_predict,
        "score new rows with a saved model, in batches",
        usage="--model F --input X --out P [options]",
        example=f"{EXAMPLE}\n  marda predict --model m.marda --input sample:new --out p.csv",
    )
    add = parser.add_argument
    add_model_and_rows(parser, "rows; columns in any order")
    add("--out", type=output_file, required=True, metavar="P", help=".csv, .tsv or .parquet, or -")
    add_reading_options(parser)
    add("--id", metavar="COL", help="column to carry through (default: that of adapt)")
    add(
        "--explain",
        type=positive,
        nargs="?",
        const=3,
        metavar="K",
        help="the K columns or words that moved each score most (3)",
    )
    add("--json", action="store_true", help="print the result as JSON")


def run_predict(args: argparse.Namespace) -> int:
    """Predict and say how many rows."""
    from marda.adaptation import predict
    from marda.adaptation.lines import predicted_lines

    with standard_streams(args, "input") as streams:
        with progress_of(args) as progress:
            result = predict(
                args.model,
                args.input,
                args.out,
                format=args.format,
                id=args.id,
                explain=args.explain,
                options=read_options(args),
                progress=progress,
            )
        show(result, predicted_lines(result), args, streams)
    return 0


def add_label(commands: Any) -> None:
    """Add ``marda label``."""
    parser = add_command(
        commands,
        "label",
        run_label,
        "which rows to label next, and why",
        usage="--model F --input X [--budget N] [--out R] [options]",
        example=f"{EXAMPLE}\n  marda label --model m.marda --input sample:target --out r.csv",
    )
    add = parser.add_argument
    add_model_and_rows(parser, "rows; those with a label already are left out")
    add("--budget", type=positive, default=20, metavar="N", help="how many (default: 20)")
    add(
        "--out", type=output_file, metavar="R", help="rows with a column to fill in (.csv, .tsv, -)"
    )
    add("--all", action="store_true", help="write all rows, these first: a target for adapt")
    add_reading_options(parser)
    add("--id", metavar="COL", help="column that names rows (default: that of adapt)")
    add("--json", action="store_true", help="print the result as JSON")


def run_label(args: argparse.Namespace) -> int:
    """Choose rows, write them, and print them."""
    from marda.adaptation import label
    from marda.adaptation.lines import label_lines

    with standard_streams(args, "input") as streams:
        with progress_of(args) as progress:
            result = label(
                args.model,
                args.input,
                args.budget,
                out=args.out,
                whole=args.all,
                id=args.id,
                options=read_options(args),
                progress=progress,
            )
        show(result, label_lines(result), args, streams)
    return 0


def add_evaluate(commands: Any) -> None:
    """Add ``marda evaluate``."""
    parser = add_command(
        commands,
        "evaluate",
        run_evaluate,
        "how good a saved model is on rows whose labels have arrived",
        usage="--model F --input X [--label COL] [options]",
        example=f"{EXAMPLE}\n  marda evaluate --model m.marda --input sample:labelled",
    )
    add = parser.add_argument
    add_model_and_rows(parser, "rows of which some or all have a label")
    add("--label", metavar="COL", help="column of labels (default: that of adapt)")
    add("--out", type=output_file, metavar="E", help="the figures (.json)")
    add_reading_options(parser)
    add("--json", action="store_true", help="print the result as JSON")


def run_evaluate(args: argparse.Namespace) -> int:
    """Evaluate and print the figures."""
    from marda.adaptation import evaluate
    from marda.adaptation.lines import evaluated_lines

    with standard_streams(args, "input") as streams:
        with progress_of(args) as progress:
            result = evaluate(
                args.model,
                args.input,
                args.label,
                out=args.out,
                options=read_options(args),
                progress=progress,
            )
        show(result, evaluated_lines(result), args, streams)
    return 0
