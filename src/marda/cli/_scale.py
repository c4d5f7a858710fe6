"""``marda adapt`` beyond memory: options, and which route a call takes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from marda.cli._common import joint
from marda.cli._files import Progress, read_options


def add_scale_options(parser: argparse.ArgumentParser) -> None:
    """Statistics files, memory and clusters."""
    add = parser.add_argument
    joint(
        add("--moments", type=Path, action="extend", nargs="+", metavar="F"),
        add("--memory", metavar="M"),
        text="statistics files, no --source; memory for rows (4GB, 30%%)",
    )
    joint(
        add("--scheduler", metavar="A"),
        add("--cluster", choices=("local",), metavar="C"),
        text="read Parquet on Dask workers: address; local",
    )


def adapt_scaled(args: argparse.Namespace, progress: Progress) -> Any:
    """The result without rows in memory, or None if they fit there; wrong calls are refused."""
    from marda.io import InputError

    if args.scheduler and args.cluster:
        raise InputError("--scheduler and --cluster exclude each other: name one.")
    if args.moments:
        return _from_files(args, progress)
    lost = [f"--{name}" for name in ("source", "target", "label") if getattr(args, name) is None]
    if lost:
        raise InputError(
            f"the following arguments are required: {', '.join(lost)} (see marda adapt --help)"
        )
    from marda.workflow.streaming import Cluster, adapt_streaming, too_large

    options, outputs = read_options(args), _outputs(args)
    cluster = Cluster(args.scheduler) if args.scheduler or args.cluster else None
    reason = None
    if cluster is None:
        reason = too_large(args.source, args.target, options, args.memory)
        if reason is None:
            return None
    _refuse_report(args, "rows are not held in memory here")
    return adapt_streaming(
        args.source,
        args.target,
        options,
        outputs,
        memory=args.memory,
        cluster=cluster,
        reason=reason,
        announce=lambda sentence: print(f"marda adapt: {sentence}", file=sys.stderr),
        progress=progress,
        **_parameters(args),
    )


def _from_files(args: argparse.Namespace, progress: Progress) -> Any:
    from marda.io import InputError
    from marda.workflow.statistics import adapt_moments

    _refuse_report(args, "statistics files hold no rows")
    for name, wanted in (
        ("--source", args.source is not None),
        ("--label", args.label is not None),
        ("--text", args.text),
        ("--drop", args.drop),
        ("--missing impute", args.missing == "impute"),
        ("--memory", args.memory),
        ("--scheduler", args.scheduler),
        ("--cluster", args.cluster),
    ):
        if wanted:
            raise InputError(
                f"--moments and {name} exclude each other: rows, columns and labels were read "
                "when the statistics were built."
            )
    return adapt_moments(
        args.moments, _outputs(args), scale=args.scale, progress=progress, **_parameters(args)
    )


def _outputs(args: argparse.Namespace) -> Any:
    from marda.workflow.outputs import Outputs

    return Outputs(args.target, args.format, args.id, args.out, args.model)


def _parameters(args: argparse.Namespace) -> dict[str, Any]:
    noise = 0.5 if args.noise is None else args.noise
    return {"method": args.method, "noise": noise, "classifier": args.classifier or "ridge"}


def _refuse_report(args: argparse.Namespace, why: str) -> None:
    from marda.io import InputError

    if args.report is not None:
        raise InputError(f"--report shows rows, and {why}: leave it out, or allow more --memory.")
