"""One display of progress: for terminals, and for work that takes a while."""

from __future__ import annotations

import io
import sys
import time

import pytest

from marda._progress import Progress


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
    assert second == "about 0.0 min left: predicting …"


def test_silence_where_nobody_watches():
    stream = io.StringIO()
    with Progress(delay=0.0, stream=stream) as progress:
        progress(0.5, "reading")
        time.sleep(0.05)
    assert stream.getvalue() == ""
