"""Executors for tests of the command: real worker processes import them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.fakes import made_figure
from marda.benchmarks.plan import Unit
from marda.benchmarks.store import ResultRow, stamp


def good(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    for spec in unit.specs:
        figure = made_figure(spec)
        yield stamp(ResultRow(spec, "done", figure, figure, 100, fit_seconds=0.5))


def always_raises(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    raise RuntimeError("no luck")
    yield
