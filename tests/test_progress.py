"""One display of progress: for terminals, and for work that takes a while."""

from __future__ import annotations

import io
import sys
import time

import pytest

from marda._progress import Progress, listening, tell


class Terminal(io.StringIO):
    def isatty(self):
        return True


def wait_for(true):
    deadline = time.monotonic() + 30  # the first bar waits for its library to load
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert true()


def test_a_bar_on_a_terminal_after_a_while(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with Progress(delay=0.01) as progress:
        progress(0.2, "adapting")
        wait_for(lambda: progress.bar is not None)
        progress(0.5, "predicting")
        (task,) = progress.bar.tasks
        assert (task.completed, task.total, task.description) == (0.5, 1.0, "predicting")
    with Progress(delay=60) as progress:
        progress(0.5, "quick")
    assert progress.bar is None


def test_counts_are_shown(monkeypatch):
    pytest.importorskip("rich")
    stream = Terminal()
    with Progress(100, delay=0.0, stream=stream, keep=True) as progress:
        progress(50, "50 of 100 rows")
        wait_for(lambda: progress.bar is not None)
    assert "50 of 100 rows" in stream.getvalue()
    assert "50/100" in stream.getvalue()


def test_lines_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    with Progress(delay=0.0, every=60.0, stream=stream) as progress:
        progress(0.0, "reading")
        wait_for(stream.getvalue)
        progress(0.5, "adapting")  # too soon after the last
        progress.every = 0.0
        progress(0.5, "predicting")
    first, second = stream.getvalue().splitlines()
    assert first in (" …", "reading …")  # as far as it had got
    assert second == "about 0:00 left: predicting …"


def test_silence_where_nobody_watches():
    stream = io.StringIO()
    with Progress(delay=0.0, stream=stream) as progress:
        progress(0.5, "reading")
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_the_time_left_counts_down(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(stream=io.StringIO())
    progress(0.0, "reading")
    assert progress.left() is None  # nothing is known yet
    now[0] = 10.0
    progress(0.25, "fitting")
    assert progress.left() == pytest.approx(30)
    now[0] = 20.0  # nothing was told meanwhile
    assert progress.left() == pytest.approx(20)
    now[0] = 100.0  # long overdue: nothing is known
    assert progress.left() is None


def test_what_a_step_tells_lies_between_its_shares(monkeypatch):
    now, seen = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    tell(5.0, "nobody hears it")
    with listening(lambda done, what: seen.append((done, what)), 0.2, 0.8):
        now[0] = 10.0
        tell(30.0, "a quarter is done")
        now[0] = 40.0
        tell(0.0, "all is done")
    tell(5.0, "nobody hears it")
    assert seen == [(pytest.approx(0.35), "a quarter is done"), (pytest.approx(0.8), "all is done")]
