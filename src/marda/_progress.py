"""A progress display, the weights of steps that feed it, and how long they took.

It is a bar with the time left on a terminal, plain lines without rich.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TextIO

#: Told the share of the work that is done, and what comes next.
Listener = Callable[[float, str], None]
#: Quick work shows nothing.
DELAY = 2.0


class Share(float):
    """A share of the work that is done, which knows what share is when its next step is.

    So a display can tell that a step takes longer than its weight says, and that what comes then
    will, too.

    Attributes
    ----------
    until : float
        That share.
    """

    until: float

    def __new__(cls, done: float, until: float) -> Self:
        """A number as others are."""
        share = super().__new__(cls, done)
        share.until = until
        return share

    def within(self, start: float, end: float) -> Share:
        """The same of work of which that is a part."""
        return Share(start + (end - start) * self, start + (end - start) * self.until)


class Work:
    """How much of some work is done: steps of a known weight, and what is known of the rest.

    Weights are seconds that `scripts/time_left.py` measured on some machine. Another one may be
    faster or busier: only their ratios matter, since a display tells the time left from the time
    spent.

    Attributes
    ----------
    done : float
        Weight of the steps that are done.
    after : float
        Weight of what comes when all steps are done.
    """

    def __init__(self, progress: Listener, done: float, after: float) -> None:
        self.progress, self.done, self.after = progress, done, after
        self.weight = self.left = 0.0
        self.what = ""

    @property
    def share(self) -> float:
        """Of all the work, what is done."""
        return self._share(0.0)

    def before(self, weight: float) -> Share:
        """Of all the work, what is done, before a part of what comes after."""
        total = self.done + self.weight + self.left + self.after
        return Share(self.share, (self.done + weight) / total if total else 0.0)

    def pass_by(self, weight: float) -> None:
        """So much of what came after is done."""
        self.done, self.after = self.done + weight, max(0.0, self.after - weight)

    def tell(self, share: float) -> None:
        """So much of the step is done."""
        self.progress(Share(self._share(share), self._share(1.0)), self.what)

    def _share(self, share: float) -> float:
        total = self.done + self.weight + self.left + self.after
        return (self.done + share * self.weight) / total if total else 0.0


_work: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def listening(progress: Listener, done: float = 0.0, after: float = 0.0) -> Iterator[Work]:
    """Pass on what is told of the steps within, as shares of all the work.

    Parameters
    ----------
    progress : callable
        Takes the share of the work that is done, and what comes next.
    done, after : float
        Weights of what was done before and of what comes after.
    """
    work = Work(progress, done, after)
    token = _work.set(work)
    try:
        yield work
    finally:
        _work.reset(token)


@contextmanager
def step(weight: float, left: float, what: str) -> Iterator[None]:
    """A step of so much weight, with so much left after it; mostly nobody hears."""
    work = _work.get()
    if work is None or work.weight:  # a step within a step tells nothing
        yield
        return
    work.weight, work.left, work.what = weight, left, what
    work.tell(0.0)
    yield
    work.done, work.weight = work.done + work.weight, 0.0


def weigh(weight: float) -> None:
    """Say that the step turned out to be of another weight."""
    work = _work.get()
    if work is not None and work.weight:
        work.weight = weight


def tell(share: float) -> None:
    """Say that so much of the step is done."""
    work = _work.get()
    if work is not None and work.weight:
        work.tell(share)


def silent(done: float, what: str) -> None:
    """No progress."""


class Watch:
    """Passes progress on, and remembers how long every step took.

    Attributes
    ----------
    progress : callable
        Takes the share of the work that is done, and what comes next.
    times : list of tuples
        Steps that are over, and their seconds.
    done : float
        The share that was told last.
    """

    def __init__(self, progress: Listener) -> None:
        self.progress, self.began = progress, time.perf_counter()
        self.times: list[tuple[str, float]] = []
        self.done = 0.0
        self._step: tuple[str, float] | None = None

    def __call__(self, done: float, what: str) -> None:
        """The step before ends, the one named begins."""
        now = time.perf_counter()
        if self._step is not None:
            self.times.append((self._step[0], now - self._step[1]))
        self._step, self.done = (what, now), done
        self.progress(done, what)

    def between(self, start: float, end: float) -> Listener:
        """For a step that tells shares of itself: the same display, between two shares."""

        def tell(done: float, what: str) -> None:
            share = done if isinstance(done, Share) else Share(done, 1.0)
            self.progress(share.within(start, end), what)

        return tell

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.began


class Progress:
    """What is done, what comes next and the time left; silent where nobody watches.

    Parameters
    ----------
    total : int, default=None
        Things that are counted; None: shares of the work, up to 1.
    delay : float, default=None
        Seconds before anything is shown; None: `DELAY`.
    every : float, default=5.0
        Seconds between two lines where there is no rich, and so no bar.
    stream : default=None
        None: standard error.
    show : bool, default=None
        None: where `stream` is a terminal; True: everywhere, in lines where it is none.
    keep : bool, default=False
        Leave the bar there at the end.
    """

    def __init__(
        self,
        total: int | None = None,
        *,
        delay: float | None = None,
        every: float = 5.0,
        stream: TextIO | None = None,
        keep: bool = False,
        show: bool | None = None,
    ) -> None:
        self.total, self.every, self.keep = total, every, keep
        self.stream = sys.stderr if stream is None else stream
        self.done, self.what = 0.0, ""
        self.ahead: float | None = None
        self.until: float | None = None
        self.bar: Any = None
        self.task: Any = None
        self._lock = threading.Lock()
        self._first: float | None = None
        self._plain: float | None = None  # when the last line was printed
        self._terminal = self.stream.isatty()
        shown = self._terminal if show is None else show
        self._timer = (
            threading.Timer(DELAY if delay is None else delay, self._start) if shown else None
        )

    def __enter__(self) -> Self:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __call__(self, done: float, what: str, ahead: float | None = None) -> None:
        """Take the count or share that is done, and what comes next.

        `ahead` is the work that is left in units of that which was done here, where things that are
        counted do not take equally long; NaN: nobody can tell.
        """
        if self._first is None:  # what was done before tells nothing about speed
            self._first, self._began = done, time.monotonic()
        with self._lock:  # a bar may be starting
            self.done, self.what, self._told = done, what, time.monotonic()
            self.ahead, self.until = ahead, getattr(done, "until", None)
            if self.bar is not None:
                self.bar.update(self.task, completed=done, description=what)
            elif self._plain is not None and time.monotonic() - self._plain >= self.every:
                self._print()

    def _start(self) -> None:
        try:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                ProgressColumn,
                TextColumn,
                TimeElapsedColumn,
            )
            from rich.progress import Progress as Bar
            from rich.text import Text
        except ImportError:
            self._terminal = False
        if not self._terminal:
            with self._lock:
                self._print()
            return

        class Left(ProgressColumn):
            """The time left, as far as anything is known of it."""

            def render(column, _: Any) -> Text:
                """Minutes and seconds."""
                left = self.left()
                return Text("" if left is None else f"{_clock(left)} left")

        counts = () if self.total is None else (MofNCompleteColumn(),)
        bar = Bar(
            *(TextColumn("{task.description}"), BarColumn(24), *counts, TimeElapsedColumn()),
            Left(),
            console=Console(file=self.stream),
            transient=not self.keep,
            # Lines for a terminal stand above the bar; those for a file are none of its business.
            redirect_stdout=sys.stdout.isatty(),
        )
        with self._lock:
            self.task = bar.add_task(self.what, total=self.total or 1.0)
            bar.update(self.task, completed=self.done)
            bar.start()
            self.bar = bar

    def left(self) -> float | None:
        """Seconds left: the rest takes as long per share as what is done.

        A step that takes longer than that may end at any moment; what comes then is told. None
        where nothing is done yet, where the last step is overdue, and where nobody can tell.
        """
        fresh = 0.0 if self._first is None else self.done - self._first
        if fresh <= 0:
            return None
        assert self._first is not None
        whole, since = self.total or 1.0, time.monotonic() - self._told
        spent = self._told - self._began
        ahead = (whole - self.done) / fresh if self.ahead is None else self.ahead
        left = spent * ahead - since
        if self.until is not None and since * fresh > spent * (self.until - self.done):
            left = (spent + since) * (whole - self.until) / (self.until - self._first) or -1.0
        return left if left >= 0 else None  # NaN is not, either

    def _print(self) -> None:
        """One line: the count, the time left and what comes next."""
        self._plain = time.monotonic()
        counted = "" if self.total is None else f"{self.done:g}/{self.total}"
        left = self.left()
        if left is not None:
            counted += f"{', ' if counted else ''}about {_clock(left)} left"
        print(f"{counted}{': ' if counted else ''}{self.what} …", file=self.stream, flush=True)

    def __exit__(self, *error: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            if self._timer.is_alive():
                self._timer.join()  # a bar that is just starting must be stopped too
        if self.bar is not None:
            self.bar.stop()


def _clock(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes}:{rest:02}"
