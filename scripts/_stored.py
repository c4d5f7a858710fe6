"""Measurements in a CSV file: stored as they are finished, so that a second run goes on."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

__all__ = ["Row", "Stored"]

Row = dict[str, Any]


class Stored:
    """Rows of a file, those of earlier runs included.

    Parameters
    ----------
    path : Path
        The file; made, with its folder, by the first row.
    fields : sequence of str
        Columns.
    """

    def __init__(self, path: Path, fields: tuple[str, ...]):
        self.path, self.fields = path, fields
        self.rows: list[Row] = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = list(csv.DictReader(file))

    def values(self, *fields: str) -> set[tuple[str, ...]]:
        """What rows have in these columns."""
        return {tuple(row[field] for field in fields) for row in self.rows}

    def add(self, *rows: Row) -> None:
        """Append rows, all or none."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.DictWriter(text, self.fields, lineterminator="\n")
        if not self.path.exists():
            writer.writeheader()
        writer.writerows(rows)
        with self.path.open("ab", buffering=0) as file:
            file.write(text.getvalue().encode())  # at once: a killed run leaves no half of them
        self.rows += rows
