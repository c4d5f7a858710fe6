"""What the commands on the user's files share: options, printing, progress."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
    from marda.workflow import ReadOptions

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
    if kind == "adapted":
        from marda.report.adapted import adapted_page

        return path, adapted_page
    from marda.report.compared import compared_page

    return path, compared_page


def show(result: Any, lines: Sequence[str], as_json: bool) -> None:
    """Print a result for a machine or a person."""
    print(json.dumps(result.to_json(), ensure_ascii=False) if as_json else "\n".join(lines))


class Progress:
    """A bar with the time left, on a terminal and only for work that lasts over two seconds."""

    def __init__(self, delay: float = 2.0) -> None:
        self.done, self.what = 0.0, ""
        self.bar: Any = None
        self.task: Any = None
        self._timer = threading.Timer(delay, self._start) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __call__(self, done: float, what: str) -> None:
        """Take the share that is done and what comes next."""
        self.done, self.what = done, what
        if self.bar is not None:
            self.bar.update(self.task, completed=done, description=what)

    def _start(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar
        except ImportError:
            print(f"{self.what} …", file=sys.stderr)
            return
        columns = (TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn())
        left = (TextColumn("left"), TimeRemainingColumn())
        console = Console(stderr=True)
        bar = Bar(*columns, *left, console=console, transient=True)
        self.task = bar.add_task(self.what, total=1.0)
        bar.update(self.task, completed=self.done)
        bar.start()
        self.bar = bar  # last: the other thread updates whatever stands here

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            if self._timer.is_alive():
                self._timer.join()  # a bar that is just starting must be stopped too
        if self.bar is not None:
            self.bar.stop()
