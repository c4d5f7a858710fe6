"""Damaged files: every reader refuses them with one sentence, or reads what was written.

Mutations run in child processes, one after the other, under a limit of address space and of
processor time, with an audit hook that tells of unpickling, evaluated text, other programs and
connections. A child that dies is counted and replaced.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from scripts.torture.outcome import Outcome

__all__ = ["LONG", "SHORT", "UNIT", "Row", "run", "table"]

LONG, SHORT = 10_000, 150
UNIT = "mutations per reader"
ROOT = Path(__file__).parents[2]
#: What MARDA_MEMORY says to the readers, and what a child may take beside what it has at the start.
STATED, ADDRESS_SPACE = 256 * 2**20, 2**30
#: Memory beside the stated limit that is not a reader's: Python's own and the allocators' pools.
SLACK = 64 * 2**20
HANG_SECONDS = 2.0
KILL_SECONDS = 120.0
CHUNK = 250
OUTCOMES = ("refused", "same", "other", "traceback", "killed", "hang", "memory", "audit")


@dataclass
class Row:
    """What happened to the mutations of one reader."""

    reader: str
    checked: str
    gap: str
    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """What must not happen, with the first mutation that did it."""
        bad = [*OUTCOMES[3:]] + ([] if self.gap else ["other"])
        return [
            f"{self.reader}: {what} {self.counts[what]} times, first: {self.examples[what]}"
            for what in bad
            if self.counts[what]
        ]


def run(
    n_mutations: int, readers: Iterable[str] | None = None, *, workers: int | None = None
) -> list[Row]:
    """Mutate the file of every reader so many times and count what happens.

    Parameters
    ----------
    n_mutations : int
        For each reader; number k is the same in every run.
    readers : iterable of str, default=None
        Names in `scripts.torture.readers.READERS`; None: all.
    workers : int, default=None
        Child processes at a time; None: one a processor.
    """
    from scripts.torture.readers import READERS

    chosen = [READERS[name] for name in (READERS if readers is None else readers)]
    rows = {reader.name: Row(reader.name, reader.checked, reader.gap) for reader in chosen}
    workers = workers or os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        jobs = []
        for k, reader in enumerate(chosen):
            file = Path(folder) / str(k) / reader.file
            file.parent.mkdir()
            reader.make(file)
            jobs += [
                (reader.name, str(file), start, min(start + CHUNK, n_mutations))
                for start in range(0, n_mutations, CHUNK)
            ]
        # A child takes seconds to start: each works through a share of all jobs.
        lock = threading.Lock()
        shares = [jobs[k::workers] for k in range(workers)]
        for _ in pool.map(lambda share: _work(rows, share, lock), shares):
            pass
    return [*rows.values()]


Job = tuple[str, str, int, int]


def _work(rows: dict[str, Row], jobs: list[Job], lock: threading.Lock) -> None:
    """All jobs, in as many children as it takes."""
    while jobs:
        jobs = _child(rows, jobs, lock)


def _child(rows: dict[str, Row], jobs: list[Job], lock: threading.Lock) -> list[Job]:
    """One child process; the jobs that are left when it ends."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in [str(ROOT), *sys.path]),
        "MARDA_MEMORY": str(STATED),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    under_way: tuple[int, int] | None = None  # job and mutation
    command = [sys.executable, "-m", "scripts.torture.child", json.dumps(jobs)]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=ROOT
        ) as child,
    ):
        watch = _Watch(child)
        for line in child.stdout or ():
            watch.sign_of_life()
            job, number, what, detail = line.rstrip("\n").split("\t", 3)
            under_way = int(job), int(number)
            if what != "begin":
                _count(rows[jobs[int(job)][0]], what, f"{number} ({detail})", lock)
        watch.stop()
        code = child.wait()
        if code == 0:
            return []
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
    if under_way is None:
        raise RuntimeError(f"the child did not start: {last}")
    job_number, index = under_way
    name, file, _, stop = jobs[job_number]
    death = f"{index} (exit code {code}: {last[:120]})"
    _count(rows[name], "hang" if watch.fired else "killed", death, lock)
    rest = [(name, file, index + 1, stop)] if index + 1 < stop else []
    return [*rest, *jobs[job_number + 1 :]]


def _count(row: Row, what: str, example: str, lock: threading.Lock) -> None:
    with lock:
        row.counts[what] += 1
        row.examples.setdefault(what, example)


class _Watch:
    """Ends a child that has been silent for too long."""

    def __init__(self, child: subprocess.Popen[str]):
        self.child, self.fired = child, False
        self.timer: threading.Timer | None = None
        self.sign_of_life()

    def sign_of_life(self) -> None:
        self.stop()
        self.timer = threading.Timer(KILL_SECONDS, self._fire)
        self.timer.daemon = True
        self.timer.start()

    def _fire(self) -> None:
        self.fired = True
        self.child.kill()

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


def table(n: int) -> Outcome:
    """The section of `python -m scripts.torture`."""
    rows = run(n)
    header = [
        *("reader", "checksum", "mutations", "refused", "read the same", "read as other values"),
        *("traceback", "killed", f"over {HANG_SECONDS:g} s", "over memory limit", "audit"),
    ]
    cells = [
        [
            *(row.reader, row.checked, row.counts.total()),
            *(row.counts[what] for what in OUTCOMES),
        ]
        for row in rows
    ]
    gaps = {row.gap for row in rows if row.gap and row.counts["other"]}
    notes = [
        "Refused: with one sentence that names the file. Read as other values: allowed only where "
        f"the file has no checksum of what was changed ({'; '.join(sorted(gaps)) or 'nowhere'}).",
        f"Memory limit stated to the readers: {STATED // 2**20} MiB.",
    ]
    return Outcome(header, cells, notes, [text for row in rows for text in row.failures])
