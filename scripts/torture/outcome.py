"""What a section of torture hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Outcome"]


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
