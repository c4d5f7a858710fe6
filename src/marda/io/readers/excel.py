"""Excel workbooks (.xlsx, .xlsm), through openpyxl."""

from __future__ import annotations

import errno
import re
import warnings
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from marda._machine import DEFLATE_RATIO, available_memory, format_bytes
from marda.io.readers.records import table_of_cells
from marda.io.readers.text import MAX_COLUMNS, name_columns
from marda.io.table import InputError, Request, Table

__all__ = ["excel_batches"]

BATCH_ROWS = 20_000
#: Texts that are held once for all sheets take at most so many times their size in the file, and
#: a cell as a Python object so many bytes.
SHARED, CELL_BYTES = 8, 100


def excel_batches(path: Path, request: Request) -> Iterator[Table]:
    """Rows of one sheet."""
    try:
        openpyxl = import_module("openpyxl")
    except ImportError:
        raise InputError(
            f"{path} is an Excel workbook, which needs openpyxl: run pip install 'marda[excel]', "
            "or save the sheet as CSV and give that file."
        ) from None
    _check_size(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = _sheet(path, book, request.sheet)
                yield from _rows(path, sheet, request)
            finally:
                book.close()
    except (InputError, MemoryError, GeneratorExit):
        raise
    except Exception as error:  # damaged XML leads to a dozen kinds of error
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        why = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(
            f"{path} is a damaged Excel workbook ({why}): copy it again, or save the sheet as CSV "
            "and give that file."
        ) from None


def _check_size(path: Path) -> None:
    """Compare what the workbook declares with its bytes and with the memory there is."""
    room, size = available_memory(), path.stat().st_size
    needed = 0
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except Exception as error:  # zipfile raises a dozen kinds of error
        raise InputError(
            f"{path} is a damaged Excel workbook ({' '.join(str(error).split())[:80]}): copy it "
            "again, or save the sheet as CSV and give that file."
        ) from None
    for member in members:
        most = member.compress_size * DEFLATE_RATIO
        if member.compress_size > size or member.file_size > most:
            raise InputError(f"{path}: {member.filename[:80]!r} declares more bytes than it holds.")
        shared = "sharedStrings" in member.filename or "styles" in member.filename
        needed += SHARED * member.file_size if shared else 0
    if needed > room:
        raise InputError(
            f"{path} takes {format_bytes(needed)} to read, above the memory there is, "
            f"{format_bytes(room)}: raise MARDA_MEMORY, or save the sheet as CSV."
        )


def _filled(sheet: Any) -> Iterator[tuple[Any, ...]]:
    """Rows that are not blank."""
    sheet.reset_dimensions()  # what a file declares may be a million columns
    for row in sheet.iter_rows(values_only=True):
        if len(row) >= MAX_COLUMNS:
            raise InputError(f"the sheet {sheet.title!r} has {len(row):,} columns: is it a table?")
        if any(_value(cell) is not None for cell in row):
            yield row


def _sheet(path: Path, book: Any, wish: str | None) -> Any:
    """The sheet that was asked for, or the only one that is not empty."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if wish is not None:
        found = {title.strip().casefold(): sheet for title, sheet in sheets.items()}
        if wish.strip().casefold() not in found:
            shown = ", ".join(map(repr, sheets))
            raise InputError(f"{path} has no sheet {wish!r}: name one with --sheet ({shown}).")
        return found[wish.strip().casefold()]
    used = [title for title, sheet in sheets.items() if next(_filled(sheet), None) is not None]
    if not used:
        raise InputError(f"{path} is empty.")
    if len(used) > 1:
        shown = ", ".join(map(repr, used[:8])) + (", …" if len(used) > 8 else "")
        raise InputError(
            f"{path} has {len(used)} sheets with rows ({shown}): name one with --sheet, or one per "
            "file, as in --sheet 'old,new'."
        )
    return sheets[used[0]]


def _rows(path: Path, sheet: Any, request: Request) -> Iterator[Table]:
    rows = _filled(sheet)
    head = [*islice(rows, 20)]
    if not head:
        raise InputError(f"{path}: the sheet {sheet.title!r} is empty.")
    counts = [sum(_value(cell) is not None for cell in row) for row in head]
    above = 0
    while above + 2 < len(head) and counts[above] == 1 and max(counts[above + 1 :]) > 2:
        above += 1  # a title
    notes: tuple[str, ...] = ()
    if above:
        notes = (f"{path}: {above} row{'s'[: above > 1]} above the header left out.",)
    width = max(map(len, head[above:]))
    header = [str(_value(cell) or "") for cell in _padded(head[above], width)]
    names, nameless, twice = name_columns(header)
    kept = [k for k in request.wants(names) if names[k] not in twice]
    refused = {names[k]: twice[names[k]] for k in request.wants(names) if names[k] in twice}
    batch, some, room = head[above + 1 :], False, available_memory()
    held = 0
    while True:
        most = min(request.rows, BATCH_ROWS)
        part, batch = batch[:most], batch[most:]
        part += [*islice(rows, most - len(part))]
        if not part and some:
            return
        for row in part:
            if any(_value(cell) is not None for cell in row[width:]):
                raise InputError(f"{path}: a row has {len(row)} cells, but the header {width}.")
        held += CELL_BYTES * width * len(part)
        held += sum(len(cell) for row in part for cell in row if isinstance(cell, str))
        if request.rows > BATCH_ROWS and held > room:
            raise InputError(
                f"{path} takes more memory than there is, {format_bytes(room)}: raise "
                "MARDA_MEMORY, or save the sheet as CSV."
            )
        cells: dict[str, list[Any]] = {names[k]: [] for k in kept}
        for row in part:
            padded = _padded(row, width)
            for k in kept:
                cells[names[k]].append(_value(padded[k]))
        yield table_of_cells(path, len(part), cells, notes, refused=refused, nameless=nameless)
        some = True


def _padded(row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    return (*row, *([None] * (width - len(row))))


def _value(cell: Any) -> Any:
    """A cell as a plain value; text without its outer spaces, and nothing where there is none."""
    if isinstance(cell, str):
        return re.sub(r"_x000[dD]_", "", cell).strip() or None
    if isinstance(cell, timedelta):
        return cell / timedelta(days=1)
    return cell
