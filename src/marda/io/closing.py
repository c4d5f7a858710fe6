"""What stands below the last row of a table: totals, and remarks of whoever wrote the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from marda.io.table import some_names

__all__ = ["CLOSING_LINES", "WithoutRemarks", "WithoutTotals"]

CLOSING_LINES = 20  # most lines of remarks below the last row
#: What a row of totals begins with.
TOTAL = re.compile(
    r"((grand |sub-?|overall )?totals?|totale|sums?|(end|gesamt)?summe|gesamt|insgesamt|summa|somme"
    r"|suma|averages?|means?|mittelwert|durchschnitt|moyenne|итого|всего|合計|总计|합계)\s*:?",
    re.IGNORECASE,
)
TOTAL_STARTS = frozenset(("", *" \tAaDdEeGgIiMmOoSsTtИиВв合总합"))


class WithoutTotals:
    """Rows without last ones that begin with "Total" or the like, where no row before them does.

    Attributes
    ----------
    left_out : list of str
        Their first words, once all rows are read.
    """

    def __init__(self, rows: Iterable[Sequence[Any]]):
        self.rows = rows
        self.left_out: list[str] = []

    def __iter__(self) -> Iterator[Sequence[Any]]:
        held: list[Sequence[Any]] = []
        words: list[str] = []
        usual = False
        for row in self.rows:
            if row and not held and type(row[0]) is str and row[0][:1] not in TOTAL_STARTS:
                yield row  # soon, since most rows are of this kind
                continue
            first = next((str(cell).strip() for cell in row if not _is_blank(cell)), "")
            total = not usual and TOTAL.fullmatch(first)
            if total or (held and not first):
                held.append(row)
                words += [first] if total else []
            elif held and len(row) == 1:  # a remark below them, after a blank line
                yield from ([], row)
            else:
                usual = usual or bool(held)
                yield from held
                held, words = [], []
                yield row
        self.left_out = words

    def note(self, path: Path) -> tuple[str, ...]:
        """What to say of them."""
        if not self.left_out:
            return ()
        return (f"{path}: totals below the last row ({some_names(self.left_out, 2)}) left out.",)


class WithoutRemarks:
    """Rows of a sheet without blank ones and what stands below the last: texts after a blank row.

    Attributes
    ----------
    left_out : list of str
        These texts, once all rows are read.
    """

    def __init__(self, rows: Iterator[tuple[Any, ...]]):
        self.rows = rows
        self.left_out: list[str] = []

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        held: list[tuple[Any, ...]] = []
        wide = after_blank = False
        for row in self.rows:
            if not row:
                after_blank = True
                continue
            filled = sum(not _is_blank(cell) for cell in row)
            alone = filled == 1 and isinstance(row[0], str)
            wide = wide or filled > 2
            if wide and alone and (held or after_blank) and len(held) < CLOSING_LINES:
                held.append(row)
            else:
                yield from held
                held = []
                yield row
            after_blank = False
        self.left_out = [row[0].strip() for row in held]

    def note(self, path: Path) -> tuple[str, ...]:
        """What to say of them."""
        if not self.left_out:
            return ()
        shown = some_names((line[:40] for line in self.left_out), 2)
        return (f"{path}: what stands below the last row ({shown}) left out.",)


def _is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
