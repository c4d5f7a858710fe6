"""What a section of torture hands back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

__all__ = ["Outcome", "table_of"]


@dataclass(frozen=True)
class Outcome:
    """A table, notes below it, and what was not held."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    notes: Sequence[str] = ()
    failures: Sequence[str] = field(default=())

    def lines(self) -> list[str]:
        """The table in Markdown."""
        cells = [[str(c) for c in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        text = [
            "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
            for row in cells
        ]
        rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
        return [text[0], rule, *text[1:], *(["", *self.notes] if self.notes else [])]


def table_of(section: str, n: int) -> tuple[Outcome, float]:
    """The outcome of a section, and the seconds that it took."""
    began = time.perf_counter()
    return import_module(f"scripts.torture.{section}").table(n), time.perf_counter() - began
