"""A small made-up table, so that examples work as pasted: readings of an old and a new sensor."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from marda.io.table import InputError, Table

__all__ = ["PREFIX", "sample_table"]

PREFIX = "sample:"
#: Seed, rows, whether it is the new sensor, whether its labels are known.
PARTS = {
    "source": (0, 240, False, True),
    "target": (1, 200, True, False),
    "labelled": (1, 200, True, True),
    "new": (2, 100, True, False),
}


def sample_table(name: str, columns: Collection[str] | None = None) -> Table:
    """`sample:source`, `sample:target`, `sample:labelled` or `sample:new`."""
    part = name.removeprefix(PREFIX)
    if part not in PARTS:
        known = ", ".join(PREFIX + p for p in PARTS)
        raise InputError(f"{name} is neither a file nor a sample: samples are {known}.")
    seed, n, new, labelled = PARTS[part]
    rng = np.random.default_rng(seed)
    wet = np.arange(n) % 2
    hidden = rng.normal(1.2 * wet - 0.6, 0.8, (6, n))
    readings = hidden + rng.normal(0, 0.4, (6, n))
    if new:  # the new sensor reads higher, and stretches
        readings = readings * np.linspace(0.8, 1.4, 6)[:, None] + np.linspace(1.5, -0.5, 6)[:, None]
    table = {"id": np.array([f"{part}-{k}" for k in range(n)], dtype=object)}
    table |= {f"reading{k}": np.round(row, 4) for k, row in enumerate(readings, 1)}
    words = np.array(["dry", "wet"], dtype=object)[wet]
    table["y"] = words if labelled else np.full(n, None, dtype=object)
    kept = {k: v for k, v in table.items() if columns is None or k in columns}
    return Table(name, n, kept)
