"""Plan, execute in processes, store every row at once. Running again resumes."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, TextIO

from marda._machine import available_cores
from marda._progress import Progress
from marda.benchmarks.plan import Spec, Unit, group_units
from marda.benchmarks.store import STALE_SECONDS, ResultRow, Store, describe, failed, now

Executor = Callable[[Unit, Path | None], Iterator[ResultRow]]

THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_HEARTBEAT = STALE_SECONDS / 6
_POLL = 0.5


@dataclass(frozen=True)
class RunReport:
    """What one call did."""

    planned: int
    from_store: int
    computed: int
    failed: int
    wall_seconds: float
    jobs: int


def run(
    specs: Iterable[Spec],
    store: Store,
    *,
    data_dir: Path | None = None,
    jobs: int | None = None,
    force: bool = False,
    executor: Executor | None = None,
    progress: RunProgress | None = None,
) -> RunReport:
    """Compute every spec that ``store`` does not hold yet.

    Parameters
    ----------
    jobs : int, optional
        Worker processes of one thread each: independent tasks use two cores better than one BLAS
        call does, and digits and processor time do not depend on ``jobs``. Default: one per core.
    force : bool
        Compute stored rows again; the old ones stay in the file as superseded.
    executor : callable, optional
        Turns a unit into rows, in the worker: a function that it can import. Default:
        `marda.benchmarks.execute.run_unit`.

    Notes
    -----
    Units that another runner has claimed are left to it and waited for, so that both runners end
    with the whole table. ``KeyboardInterrupt`` ends the workers and leaves the store intact.
    """
    jobs = available_cores() if jobs is None else jobs
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}.")
    units = group_units(specs)
    keys = {spec.key for unit in units for spec in unit.specs}
    since = now() if force else None
    started = time.monotonic()
    done = store.done_keys(since=since)
    left = deque(rest for unit in units if (rest := unit.without(done)).specs)
    session = _Session(store, since, progress or RunProgress(), left)
    ahead = Counter(_kind(spec) for unit in left for spec in unit.specs)
    session.progress.start(len(keys), len(keys & done), ahead)
    pool: list[_Worker] = []
    try:
        session.loop(pool, jobs, executor, data_dir)
    finally:
        for worker in pool:
            worker.stop()
        store.release()
        session.progress.stop()
    return RunReport(
        planned=len(keys),
        from_store=len(keys & store.done_keys(since=since)) - session.computed,
        computed=session.computed,
        failed=session.failed,
        wall_seconds=time.monotonic() - started,
        jobs=jobs,
    )


@dataclass
class _Worker:
    """A process and the unit it is busy with."""

    process: SpawnProcess
    pipe: Connection
    unit: Unit | None = None
    finished: set[str] = field(default_factory=set)

    @classmethod
    def start(cls, executor: Executor | None, data_dir: Path | None) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, executor, data_dir))
        # BLAS reads these when it is loaded, hence before the child imports anything.
        with _environment(dict.fromkeys(THREAD_VARIABLES, "1")):
            process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, unit: Unit) -> None:
        self.unit, self.finished = unit, set()
        self.pipe.send_bytes(unit.to_json().encode())

    def stop(self) -> None:
        self.pipe.close()
        if self.unit is not None and self.process.is_alive():
            self.process.terminate()
        self.process.join(5.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


@dataclass
class _Session:
    """The state of one call of ``run``."""

    store: Store
    since: str | None
    progress: RunProgress
    pending: deque[Unit]
    computed: int = 0
    failed: int = 0
    _beat: float = field(default_factory=time.monotonic)

    def loop(
        self,
        pool: list[_Worker],
        jobs: int,
        executor: Executor | None,
        data_dir: Path | None,
    ) -> None:
        while self.pending or any(w.unit for w in pool):
            idle = [w for w in pool if w.unit is None]
            while self.pending and (idle or len(pool) < jobs):
                unit = self.next_unit()
                if unit is None:
                    break
                if idle:
                    worker = idle.pop()
                else:
                    worker = _Worker.start(executor, data_dir)
                    pool.append(worker)
                self.give(worker, unit)
            busy = {w.pipe: w for w in pool if w.unit is not None}
            if busy:
                ready = wait(list(busy), timeout=_POLL if self.pending else _HEARTBEAT)
                for pipe, worker in busy.items():
                    if pipe in ready and not self.receive(worker):
                        pool.remove(worker)
            elif self.pending:
                time.sleep(_POLL)  # another runner has all that is left
            if time.monotonic() - self._beat > _HEARTBEAT:
                self.store.still_alive()
                self._beat = time.monotonic()

    def next_unit(self) -> Unit | None:
        """Claim the first unit that nobody else works on; drop what another runner has done."""
        for _ in range(len(self.pending)):
            unit = self.pending.popleft()
            if not self.store.claim(unit.key):
                self.pending.append(unit)
                continue
            # Read after the claim: whoever had it before has stored all it will.
            rest = unit.without(self.store.done_keys(since=self.since))
            self.progress.skip(len(unit.specs) - len(rest.specs))
            if rest.specs:
                return rest
            self.store.release(unit.key)
        return None

    @staticmethod
    def give(worker: _Worker, unit: Unit) -> None:
        # A worker that died while idle shows as a closed pipe: the next `receive` reports it.
        try:
            worker.give(unit)
        except (BrokenPipeError, ConnectionResetError):
            worker.unit = unit

    def receive(self, worker: _Worker) -> bool:
        """Take one message; False when the process is gone."""
        unit = worker.unit
        assert unit is not None
        try:
            message = json.loads(worker.pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            worker.process.join()
            self.fail_rest(worker, unit, how_it_ended(worker.process.exitcode))
            worker.unit = None
            worker.stop()
            return False
        if "row" in message:
            self.record(worker, ResultRow.from_json(message["row"]))
            return True
        self.fail_rest(worker, unit, message.get("error", "the unit ended without this row"))
        worker.unit = None
        return True

    def record(self, worker: _Worker, row: ResultRow) -> None:
        added = self.store.add(row, replace_before=self.since)
        worker.finished.add(row.spec.key)
        if row.status == "failed":
            self.failed += 1
        elif added:
            self.computed += 1
        self.progress.row(row)

    def fail_rest(self, worker: _Worker, unit: Unit, message: str) -> None:
        for row in failed(unit.without(worker.finished).specs, message):
            self.record(worker, row)
        self.store.release(unit.key)


def how_it_ended(code: int | None) -> str:
    """What the exit code of a process says."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ": out of memory, or ended from outside" if name == "SIGKILL" else ""
        return f"the worker process was ended by {name}{hint}."
    return f"the worker process ended with exit code {code}."


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the time of a process start."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# Inside a worker process: units come in, rows go out, as JSON over one pipe -----------------------


def serve(pipe: Connection, executor: Executor | None, data_dir: Path | None) -> None:
    """Execute units from ``pipe`` until it closes."""
    # Ctrl-C reaches the whole process group; the runner alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        run_unit = executor or _default_executor()
        with _one_thread():
            while True:
                unit = Unit.from_json(pipe.recv_bytes().decode())
                try:
                    for row in run_unit(unit, data_dir):
                        _send(pipe, {"row": row.to_json()})
                    _send(pipe, {"end": True})
                except Exception as error:
                    _send(pipe, {"error": describe(error)})
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _default_executor() -> Executor:
    """Loaded where it is used: what fits models is slow to load, and planning needs none of it."""
    from marda.benchmarks.execute import run_unit

    return run_unit


def _send(pipe: Connection, message: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def _end_with_parent() -> None:
    """End with the runner: after its ``kill -9`` nobody would read the rows."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _one_thread() -> AbstractContextManager[object]:
    """Bound pools that the environment does not reach; the variables are set before the start."""
    from threadpoolctl import threadpool_limits  # of scikit-learn

    limits: AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits


def _kind(spec: Spec) -> str:
    """What rows that take about as long have in common."""
    return f"{spec.task.benchmark} {spec.task.setting}"


# What a run tells -------------------------------------------------------------------------------


class RunProgress:
    """What the runner tells while it works; here nobody listens."""

    def start(self, total: int, done: int, ahead: Mapping[str, int]) -> None:
        """``total`` rows are wanted, ``done`` are stored; of each kind, ``ahead`` are to come."""

    def row(self, row: ResultRow) -> None:
        """One row was finished, well or badly."""

    def skip(self, count: int) -> None:
        """``count`` rows were meanwhile stored by another runner."""

    def stop(self) -> None:
        """Nothing more comes."""


class ProgressBar(RunProgress):
    """Rows done and the task at hand, on a terminal; silent elsewhere.

    Rows of one data set and setting take about as long each: a time left is told once there is a
    row of every one that is still to come.
    """

    def __init__(self, stream: TextIO | None = None, **options: Any) -> None:
        self.stream, self.options = stream, {"delay": 0.0, **options}
        self.count = self.failed = 0
        self.what = "starting"

    def start(self, total: int, done: int, ahead: Mapping[str, int]) -> None:
        """Show the bar."""
        self.count, self.ahead = done, Counter(ahead)
        self.rows = Counter[str]()
        self.seconds: dict[str, float] = {}
        self.display = Progress(total, stream=self.stream, keep=True, **self.options)
        self.display(done, self.what)
        self.display.__enter__()

    def row(self, row: ResultRow) -> None:
        """Advance, and say what was finished."""
        self.count += 1
        self.failed += row.status == "failed"
        task = row.spec.task
        self.what = f"{task.benchmark} {task.pair} {task.setting}"
        if self.failed:
            self.what += f" ({self.failed} failed)"
        kind = _kind(row.spec)
        self.ahead[kind] -= 1
        self.rows[kind] += 1
        self.seconds[kind] = self.seconds.get(kind, 0.0) + row.seconds
        self.display(self.count, self.what, self._work_ahead())

    def _work_ahead(self) -> float:
        """In units of the work that was done; NaN where a kind of rows is still unknown."""
        coming = {kind: n for kind, n in self.ahead.items() if n > 0}
        done = sum(self.seconds.values())
        if not done or any(kind not in self.rows for kind in coming):
            return math.nan
        means = {kind: self.seconds[kind] / self.rows[kind] for kind in coming}
        return sum(n * means[kind] for kind, n in coming.items()) / done

    def skip(self, count: int) -> None:
        """Advance without a word."""
        self.count += count
        self.display(self.count, self.what, math.nan if count else self._work_ahead())

    def stop(self) -> None:
        """Take the bar away."""
        self.display.__exit__(None, None, None)
