"""Executors for tests of the command: found by name inside real worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from marda.experiments.rows import ResultRow, stamp
from marda.experiments.specs import Unit, spec_hash


def name_of(function: str) -> str:
    return f"{__name__}:{function}"


def good(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    for spec in unit.specs:
        figure = 50 + int(spec_hash(spec), 16) % 500 / 10
        yield stamp(ResultRow(spec, "done", figure, figure, 100, fit_seconds=0.5))


def always_raises(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    raise RuntimeError("no luck")
    yield
