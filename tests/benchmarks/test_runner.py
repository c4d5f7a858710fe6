import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from marda.benchmarks.runner import ProgressBar, RunProgress, run
from marda.benchmarks.store import Store, failed

from . import fakes
from .fakes import child_environment, made_row, plan_table

SPECS = plan_table("us", datasets=["off31"], models=["BL", "S1"], classifiers=["ridge", "nn"])


class Recorder:
    """Progress that remembers."""

    def __init__(self):
        self.events = []

    def start(self, total, done, ahead):
        assert sum(ahead.values()) == total - done
        self.events.append(("start", total, done))

    def row(self, row):
        self.events.append(("row", row.status))

    def skip(self, count):
        if count:
            self.events.append(("skip", count))

    def stop(self):
        self.events.append(("stop",))


def expected(specs=SPECS):
    return {s.key: made_row(s).accuracy for s in specs}


def found(store):
    rows = store.rows()
    assert len(rows) == len({r.spec.key for r in rows})
    return {r.spec.key: r.accuracy for r in rows}


def test_computes_stores_and_resumes(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        seen = Recorder()
        report = run(SPECS, store, jobs=2, executor=fakes.good, progress=seen)
        assert found(store) == expected()
        assert (report.planned, report.computed, report.from_store) == (24, 24, 0)
        assert seen.events[0] == ("start", 24, 0)
        assert seen.events.count(("row", "done")) == 24
        assert seen.events[-1] == ("stop",)
        again = Recorder()
        report = run(SPECS, store, jobs=2, executor=fakes.always_raises, progress=again)
        assert (report.computed, report.from_store) == (0, 24)
        assert again.events == [("start", 24, 24), ("stop",)]


def test_partly_done_unit_runs_only_the_rest(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        for spec in SPECS[:2]:
            store.add(made_row(spec))
        run(SPECS[:4], store, data_dir=tmp_path, jobs=1, executor=fakes.logged)
        assert (tmp_path / "log").read_text().split() == [s.key for s in SPECS[2:4]]


def test_force_computes_again(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.add(made_row(SPECS[0], accuracy=1.0))
        report = run(SPECS[:1], store, jobs=1, force=True, executor=fakes.good)
        assert report.computed == 1
        assert found(store) == expected(SPECS[:1])


def test_failure_is_not_cached(tmp_path):
    specs = SPECS[:4]
    with Store(tmp_path / "s.sqlite") as store:
        report = run(specs, store, data_dir=tmp_path, jobs=1, executor=fakes.raises_once)
        assert (report.computed, report.failed) == (1, 3)
        assert {f.message for f in store.failures()} == {
            f"RuntimeError: the disk is on fire (fakes.py:{_line_of('on fire')})"
        }
        (tmp_path / "repaired").touch()
        report = run(specs, store, data_dir=tmp_path, jobs=1, executor=fakes.raises_once)
        assert (report.computed, report.failed) == (3, 0)
        assert found(store) == expected(specs)


def _line_of(text):
    lines = Path(fakes.__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


def test_killed_worker_fails_its_unit_and_the_others_go_on(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        report = run(SPECS, store, jobs=1, executor=fakes.killed_on_webcam)
        assert (report.computed, report.failed) == (16, 8)
        assert {f.spec.task.target for f in store.failures()} == {"webcam"}
        assert {f.message for f in store.failures()} == {
            "the worker process was ended by SIGKILL: out of memory, or ended from outside."
        }


def test_missing_executor_is_a_failure_not_a_hang(tmp_path, capfd, monkeypatch):
    here_only = ModuleType("here_only")  # a module that no worker can import
    exec("def executor(unit, data_dir): yield", vars(here_only))
    monkeypatch.setitem(sys.modules, "here_only", here_only)
    with Store(tmp_path / "s.sqlite") as store:
        report = run(SPECS[:2], store, jobs=1, executor=here_only.executor)
        assert report.failed == 2
        assert "exit code 1" in store.failures()[0].message


def test_a_job_has_one_thread_before_the_worker_imports_anything(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "17")
    monkeypatch.setattr("marda.benchmarks.runner.available_cores", lambda: 16)
    with Store(tmp_path / "s.sqlite") as store:
        run(SPECS[:1], store, jobs=1, executor=fakes.threads)
        assert [r.message for r in store.rows()] == ["1"]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "17"


def test_jobs_must_be_positive(tmp_path):
    with (
        Store(tmp_path / "s.sqlite") as store,
        pytest.raises(ValueError, match="at least 1, got 0"),
    ):
        run(SPECS, store, jobs=0)


RUNNER = """
import importlib, sys, json
from pathlib import Path
from marda.benchmarks.plan import Request
from marda.benchmarks.runner import run
from marda.benchmarks.store import Store
specs = Request("us", ["off31"], models=["BL", "S1"], classifiers=["ridge", "nn"]).specs()
folder = Path(sys.argv[1])
with Store(folder / "s.sqlite") as store:
    executor = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
    report = run(specs, store, data_dir=folder, jobs=1, executor=executor)
print(json.dumps([report.computed, report.from_store]))
"""


@contextmanager
def started_runner(folder, executor):
    """A runner in another process, which does not outlive the test."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(folder), fakes.__name__, executor],
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_rows(path, count, runner):
    """However long that takes on a busy machine."""
    while True:
        if path.exists():
            with Store(path) as store:
                if len(store.done_keys()) >= count:
                    return
        assert runner.poll() is None, "no rows came"
        time.sleep(0.01)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_runner_resumes(tmp_path, how):
    with started_runner(tmp_path, "stuck") as runner:
        wait_for_rows(tmp_path / "s.sqlite", 3, runner)
        runner.send_signal(how)
        _, errors = runner.communicate(timeout=300)
    assert runner.returncode != 0
    if how == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    with Store(tmp_path / "s.sqlite") as store:
        before = {r.spec.key: r.finished for r in store.rows()}
        assert len(before) == 3
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        report = run(SPECS, store, jobs=2, executor=fakes.good)
        assert report.from_store == len(before)
        assert found(store) == expected()
        after = {r.spec.key: r.finished for r in store.rows()}
        assert before.items() <= after.items()


def test_two_runners_share_the_work(tmp_path):
    reports = []
    with started_runner(tmp_path, "logged") as one, started_runner(tmp_path, "logged") as two:
        for runner in (one, two):
            out, errors = runner.communicate(timeout=300)
            assert runner.returncode == 0, errors
            reports.append(json.loads(out))
    # Each ends with the whole table, and no row was computed twice.
    assert [sum(r) for r in reports] == [24, 24]
    assert sum(r[0] for r in reports) == 24
    computed = Counter((tmp_path / "log").read_text().split())
    assert computed == Counter(s.key for s in SPECS)
    with Store(tmp_path / "s.sqlite") as store:
        assert found(store) == expected()
        assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (0,)


KIND = "off31 US"


def test_time_left_is_told_once_every_data_set_has_a_row(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("marda._progress.time.monotonic", lambda: clock[0])
    slow, quick = SPECS[0], plan_table("us", datasets=["amt"])[0]
    shown = ProgressBar(io.StringIO())
    shown.start(13, 0, {KIND: 3, "amt US": 10})
    clock[0] = 30.0
    shown.row(replace(made_row(slow), load_seconds=0.0, fit_seconds=30.0, predict_seconds=0.0))
    assert shown.display.left() is None
    clock[0] = 31.0
    shown.row(replace(made_row(quick), load_seconds=0.0, fit_seconds=1.0, predict_seconds=0.0))
    assert shown.display.left() == pytest.approx(2 * 30 + 9 * 1)
    shown.skip(1)  # of which data set, nobody says
    assert shown.display.left() is None
    shown.stop()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def tell(progress):
    """What a run tells: 2 of 5 rows are there, one comes, one fails, one is another runner's."""
    progress.start(5, 2, {KIND: 3})
    progress.row(made_row(SPECS[0]))
    progress.row(failed(SPECS[1:2], "no luck")[0])
    progress.skip(1)
    progress.stop()


def test_progress_is_for_terminals(capsys):
    stream = io.StringIO()
    tell(ProgressBar(stream))
    tell(RunProgress())
    assert stream.getvalue() == ""
    assert capsys.readouterr() == ("", "")


def test_plain_lines_come_every_few_seconds(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = Terminal()
    shown = ProgressBar(stream, every=0.0)
    shown.start(5, 2, {KIND: 3})
    shown.display._timer.join()  # the first line comes from its thread
    shown.row(made_row(SPECS[0]))
    shown.row(failed(SPECS[1:2], "no luck")[0])
    shown.stop()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "2/5: starting …"
    assert lines[1].startswith("3/5, about 0:00 left: off31 amazon-dslr US")
    assert lines[2].startswith("4/5")
    assert "1 failed" in lines[2]


def test_a_bar_counts_rows_and_failures():
    pytest.importorskip("rich")
    shown = ProgressBar(Terminal())
    shown.start(5, 2, {KIND: 3})
    shown.display._timer.join()
    shown.row(made_row(SPECS[0]))
    shown.row(failed(SPECS[1:2], "no luck")[0])
    shown.skip(1)
    (task,) = shown.display.bar.tasks
    assert (task.completed, task.total) == (5, 5)
    assert "1 failed" in task.description
    shown.stop()
