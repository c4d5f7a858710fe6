"""One display of progress: for terminals, and for work that takes a while."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

from marda._progress import Progress, Share, listening, step, tell, weigh


class Terminal(io.StringIO):
    def isatty(self):
        return True


def wait_for(true):
    deadline = time.monotonic() + 300  # the first bar waits for its library to load
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


def test_a_result_for_a_file_goes_there_while_a_bar_is_shown(capsys):
    pytest.importorskip("rich")
    stream = Terminal()
    with Progress(delay=0.0, stream=stream) as progress:
        progress(0.5, "adapting")
        wait_for(lambda: progress.bar is not None)
        print("the result")
    assert capsys.readouterr().out == "the result\n"
    assert "result" not in stream.getvalue()


def test_lines_without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    with Progress(delay=0.0, every=60.0, stream=stream) as progress:
        progress(0.0, "reading")
        wait_for(stream.getvalue)
        later = time.monotonic() + 20
        monkeypatch.setattr(time, "monotonic", lambda: later)
        progress(0.5, "adapting")  # too soon after the last
        progress.every = 0.0
        progress(0.5, "predicting")
    first, second = stream.getvalue().splitlines()
    assert first in (" …", "reading …")  # as far as it had got
    assert re.fullmatch(r"about 0:[2-5]\d left: predicting …", second)


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


def test_a_step_may_take_longer_than_its_weight(monkeypatch):
    """Then the rest is told, at the speed that there would be if the step ended now."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = Progress(stream=io.StringIO())
    progress(Share(0.0, 0.1), "reading")
    now[0] = 1.0
    progress(Share(0.1, 0.5), "fitting")
    now[0] = 4.0  # a second before the step is due
    assert progress.left() == pytest.approx(6)
    now[0] = 5.0
    assert progress.left() == pytest.approx(5)
    now[0] = 20.0  # half of the work took 20 seconds at least
    assert progress.left() == pytest.approx(20)
    progress(Share(0.5, 1.0), "writing")
    now[0] = 39.0
    assert progress.left() == pytest.approx(1)
    now[0] = 41.0  # the last step is overdue: nothing is known
    assert progress.left() is None


def test_a_part_of_the_work_knows_when_its_steps_end():
    share = Share(0.5, 0.75).within(0.2, 0.6)
    assert (share, share.until) == (pytest.approx(0.4), pytest.approx(0.5))
    seen = []
    with listening(lambda done, what: seen.append((done, done.until)), 1.0, 2.0) as work:
        with step(1.0, 0.0, "a"):
            tell(0.5)
        assert (work.before(1.0), work.before(1.0).until) == (0.5, 0.75)
    assert seen == [(0.25, 0.5), (0.375, 0.5)]


def test_steps_are_weighed_against_all_the_work():
    seen = []

    def do(first):
        with step(2.0, 4.0, "a"):
            tell(0.5)
            weigh(first)
        with step(1.0, 3.0, "within"), step(100.0, 0.0, "is not told"):
            tell(1.0)

    do(1.0)  # nobody hears it
    with listening(lambda done, what: seen.append((done, what)), 1.0, 3.0) as work:
        do(1.0)
        assert work.share == pytest.approx(3 / 9)
        work.left = 0.0
        work.pass_by(1.0)
        assert work.share == pytest.approx(4 / 6)
    do(1.0)
    assert [what for _, what in seen] == ["a", "a", "within", "within"]
    assert [done for done, _ in seen] == pytest.approx([1 / 10, 2 / 10, 2 / 9, 3 / 9])
