"""Executors for tests, which real worker processes import, and specs as tests ask for them."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from marda.benchmarks import plan
from marda.benchmarks.plan import Request, Spec, Unit
from marda.benchmarks.store import ResultRow, stamp


def child_environment() -> dict[str, str]:
    """The environment in which another Python finds marda and this module."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def plan_table(table, *, present=None, **asked) -> tuple[Spec, ...]:
    """Specs of one table, none where it has nothing of what is asked."""
    return plan.plan_table(table, Request(**asked), present)


def plan_leaderboard(table="us", *, present=None, draws=1, **asked) -> tuple[Spec, ...]:
    """Specs of the leaderboard."""
    return Request(table, settings="auto", draws=draws, **asked).specs(present)


def made_figure(spec: Spec) -> float:
    """From 50 to 100, by the spec alone."""
    return 50 + int(hashlib.sha256(spec.key.encode()).hexdigest()[:16], 16) % 500 / 10


def made_row(spec, **changes) -> ResultRow:
    """A row whose figure follows from its spec alone."""
    figure = made_figure(spec)
    values = {
        "accuracy": figure,
        "balanced_accuracy": figure - 1,
        "n_test": 100,
        "fit_seconds": 0.5,
        "peak_mb": 10.0,
        "data_checksum": "c" * 16,
    }
    return stamp(ResultRow(spec, "done", **{**values, **changes}))


def good(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    for spec in unit.specs:
        yield made_row(spec)


def stuck(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    """Three rows, and then none for as long as anybody might wait."""
    for spec in unit.specs[:3]:
        yield made_row(spec)
    time.sleep(600)


def logged(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    """Append every computed key to data_dir/log: O_APPEND writes of one line do not mix."""
    for spec in unit.specs:
        time.sleep(0.01)
        with open(data_dir / "log", "a") as log:
            log.write(spec.key + "\n")
        yield made_row(spec)


def threads(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    for spec in unit.specs:
        yield made_row(spec, message=os.environ["OPENBLAS_NUM_THREADS"])


def raises_once(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    """Yield one row and raise, until data_dir/repaired exists."""
    yield made_row(unit.specs[0])
    if not (data_dir / "repaired").exists():
        raise RuntimeError("the disk is on fire")
    for spec in unit.specs[1:]:
        yield made_row(spec)


def killed_on_webcam(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    """Die like a process that ran out of memory, for one target."""
    if unit.task.target == "webcam":
        os.kill(os.getpid(), signal.SIGKILL)
    yield from good(unit, data_dir)


def always_raises(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    raise RuntimeError("no luck")
    yield
