"""Progress of a run: rich in a terminal, plain lines without rich, silence elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol, TextIO

from marda.experiments.rows import ResultRow

if TYPE_CHECKING:
    from rich.progress import Progress as RichBar
    from rich.progress import TaskID


class Progress(Protocol):
    """What the runner tells while it works."""

    def start(self, total: int, done: int) -> None:
        """``total`` rows are wanted, ``done`` of them are stored already."""

    def row(self, row: ResultRow) -> None:
        """One row was finished, well or badly."""

    def skip(self, count: int) -> None:
        """``count`` rows were meanwhile stored by another runner."""

    def stop(self) -> None:
        """Nothing more comes."""


class Silent:
    """No output: not a terminal."""

    def start(self, total: int, done: int) -> None:
        """Say nothing."""

    def row(self, row: ResultRow) -> None:
        """Say nothing."""

    def skip(self, count: int) -> None:
        """Say nothing."""

    def stop(self) -> None:
        """Say nothing."""


class Plain:
    """One line every few seconds, for a terminal without rich."""

    def __init__(self, stream: TextIO, every: float = 5.0) -> None:
        self.stream, self.every = stream, every
        self.total = self.count = self.fresh = 0
        self.began = self.last = time.monotonic()

    def start(self, total: int, done: int) -> None:
        """Remember where the run starts: only new rows tell how fast it is."""
        self.total, self.count = total, done

    def row(self, row: ResultRow) -> None:
        """Count, and print if the last line is old."""
        self.count += 1
        self.fresh += 1
        at = time.monotonic()
        if at - self.last < self.every:
            return
        self.last = at
        left = (at - self.began) / self.fresh * (self.total - self.count)
        print(
            f"{self.count}/{self.total} rows, about {left / 60:.1f} min left: {row.spec.task.key}",
            file=self.stream,
            flush=True,
        )

    def skip(self, count: int) -> None:
        """Rows done elsewhere count, but say nothing about speed."""
        self.count += count

    def stop(self) -> None:
        """Nothing to undo."""


class Rich:
    """A bar with the time left and the task at hand."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self.failed = 0
        self.bar: RichBar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            speed_estimate_period=600.0,
        )
        self.task: TaskID | None = None

    def start(self, total: int, done: int) -> None:
        """Show the bar."""
        self.task = self.bar.add_task("starting", total=total, completed=done)
        self.bar.start()

    def row(self, row: ResultRow) -> None:
        """Advance, and say what was finished."""
        self.failed += row.status == "failed"
        text = f"{row.spec.task.benchmark} {row.spec.task.pair} {row.spec.task.setting}"
        if self.failed:
            text += f" [red]({self.failed} failed)[/red]"
        assert self.task is not None
        self.bar.update(self.task, advance=1, description=text)

    def skip(self, count: int) -> None:
        """Advance without a word."""
        assert self.task is not None
        self.bar.update(self.task, advance=count)

    def stop(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def for_terminal(stream: TextIO | None = None) -> Progress:
    """The best progress display for ``stream`` (standard error by default)."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        return Silent()
    try:
        return Rich()
    except ImportError:
        return Plain(stream)
