"""Files whose cells have types of their own: JSON (records) and Excel (through openpyxl)."""

from __future__ import annotations

import errno
import json
import math
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._array_files import overstates
from marda._machine import available_memory, counted, format_bytes
from marda.io import text
from marda.io.table import WHOLE, InputError, ReadRequest, Table, some_names
from marda.io.text import MAX_COLUMNS, WithoutRemarks, WithoutTotals, is_title, name_columns


def table_of_cells(
    path: Path | str,
    n_rows: int,
    cells: dict[str, list[Any]],
    notes: tuple[str, ...] = (),
    **more: Any,
) -> Table:
    """Columns of Python values: numbers, dates or text; others are refused."""
    columns: dict[str, NDArray[Any]] = {}
    refused: dict[str, str] = dict(more.pop("refused", {}))
    for name, values in cells.items():
        kinds = {type(value) for value in values} - {type(None)}
        if kinds - PLAIN:
            refused[name] = NESTED
        elif kinds <= {int, float, bool}:
            columns[name] = np.array([_float(value) for value in values], dtype=np.float64)
        elif kinds <= {date, datetime}:
            exact = [None if v is None else np.datetime64(_naive(v), "us") for v in values]
            columns[name] = np.array(exact, dtype="datetime64[us]")
        else:
            columns[name] = np.array([_text(value) for value in values], dtype=object)
    return Table(str(path), n_rows, columns, refused=refused, notes=notes, **more)


NESTED = "holds lists or objects"
PLAIN = {int, float, bool, str, date, datetime, time}


def _float(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        number = _float(value)
        return None if math.isnan(number) else f"{number:.15g}"
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    return str(value).strip() or None


# JSON: a list of records, or one record per line --------------------------------------------------

#: Objects that JSON makes take at most so many times the characters that it is written in.
EXPANSION = 12
SPLIT = ("columns", "index", "data")  # as pandas calls the parts of a table


def json_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of a JSON file: `[{…}, {…}]`, or a `{…}` on every line."""
    with text.open_text(path, request.encoding, "JSON") as (file, notes):
        lines = text.Lines(path, file, request.rows >= WHOLE)
        stream = iter(lines)
        first = ""
        while not first.strip():
            line = next(stream, None)
            if line is None:
                raise InputError(f"{path} is empty.")
            lines.row = 0
            first = line
        second = next((line for line in stream if line.strip()), None)
        if second is not None and first.lstrip().startswith("{") and _is_object(first):
            records = _json_lines(path, chain([first, second], stream), lines)
            yield from _tables(path, records, request, notes)
            return
        pieces = [first, second or ""]
        room, total = available_memory() // EXPANSION, sum(map(len, pieces))
        while piece := file.read(2**20):
            pieces.append(piece)
            total += len(piece)
            if total > room:
                raise InputError(
                    f"{path} takes more memory than there is, {format_bytes(room * EXPANSION)}: "
                    "raise MARDA_MEMORY, or write one record per line."
                )
        records = iter(_records(path, _loads(path, "".join(pieces))))
    yield from _tables(path, records, request, notes)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _loads(path: Path, content: str, line: int | None = None) -> Any:
    place = str(path) if line is None else f"{path}, line {line}"
    try:
        return json.loads(content)
    except RecursionError:
        raise InputError(f"{place}: JSON is nested too deeply: is it a table?") from None
    except ValueError as error:
        why = " ".join(str(error).split())[:120]
        raise InputError(f"{place} cannot be read as JSON: {why}.") from None


def _records(path: Path, whole: Any) -> list[dict[str, Any]]:
    """The list of records of a document."""
    if isinstance(whole, dict):
        if not any(isinstance(value, list | dict) for value in whole.values()):
            return [whole]  # a single line
        lists = [value for value in whole.values() if isinstance(value, list)]
        if len(lists) == 1 and all(isinstance(row, dict) for row in lists[0]):
            whole = lists[0]  # {"data": [{…}, {…}]}
        elif len(lists) == len(whole) and len({len(held) for held in lists}) == 1:
            whole = [dict(zip(whole, row, strict=True)) for row in zip(*lists, strict=True)]
        else:
            whole = _of_pandas(whole) or whole
    if not isinstance(whole, list) or not all(isinstance(row, dict) for row in whole):
        raise InputError(
            f"{path} holds no records: JSON must be a list of {{column: value, …}}, or one of them "
            "on every line."
        )
    return whole


def _of_pandas(whole: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Records of what pandas writes, or None.

    ``{column: {row: value}}``, ``{row: {column: value}}`` with rows that are numbers, or
    ``{"columns": […], "data": [[…], …]}``.
    """
    names, rows = whole.get("columns"), whole.get("data")
    if isinstance(names, list) and isinstance(rows, list):
        fit = all(isinstance(row, list) and len(row) == len(names) for row in rows)
        fit &= all(isinstance(name, str) for name in names) and {*whole} <= {*SPLIT}
        return [dict(zip(names, row, strict=True)) for row in rows] if fit else None
    held = [*whole.values()]
    if not all(isinstance(part, dict) and part and [*part] == [*held[0]] for part in held):
        return None
    numbered = [all(map(str.isdigit, keys)) for keys in (whole, held[0])]
    if numbered == [True, False]:
        return held
    if numbered == [False, True]:
        return [{name: column[row] for name, column in whole.items()} for row in held[0]]
    return None


def _json_lines(path: Path, stream: Iterator[str], lines: Any) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(stream, 1):
        lines.row = 0
        if not line.strip():
            continue
        row = _loads(path, line, number)
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected a record, {{column: value, …}}.")
        lines.keep(text.FIELD_BYTES * len(row))
        yield row


def _tables(
    path: Path, records: Iterator[dict[str, Any]], request: ReadRequest, notes: Any
) -> Iterator[Table]:
    names: dict[str, None] = {}
    some = False
    while part := [*islice(records, request.rows if request.rows < WHOLE else None)]:
        rows = [_flat(path, row) for row in part]
        names |= dict.fromkeys(name for row in rows for name in row)
        top = {name for row in part for name in row}
        told = notes
        if inside := [name for name in names if name not in top]:
            told = (*notes, f"{path}: fields inside objects are columns ({some_names(inside, 3)}).")
        yield _table(path, rows, [*names], request, told)
        some = True
    if not some:
        yield _table(path, [], [], request, notes)


def _flat(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """A record without objects inside: `{"user": {"age": 3}}` has the column `user.age`."""
    if not any(isinstance(value, dict) for value in record.values()):
        return record
    found: dict[str, Any] = {}
    waiting = [*reversed(record.items())]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{name}.{inner}", held) for inner, held in reversed(value.items())]
        elif name in found:
            raise InputError(f"{path}: a record has the field {name!r} twice, once in an object.")
        else:
            found[name] = value
    return found


def _table(
    path: Path,
    records: Sequence[dict[str, Any]],
    names: list[str],
    request: ReadRequest,
    notes: Any,
) -> Table:
    kept = [names[k] for k in request.wants(names)]
    cells = {name: [row.get(name) for row in records] for name in kept}
    return table_of_cells(path, len(records), cells, notes)


# Excel workbooks, .xlsx and .xlsm -----------------------------------------------------------------

BATCH_ROWS = 20_000
#: Texts that are held once for all sheets take at most so many times their size in the file, and
#: a cell as a Python object so many bytes.
SHARED, CELL_BYTES = 8, 100


def excel_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
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
                sheet, notes = _sheet(path, book, request.sheet)
                yield from _rows(path, sheet, request, notes)
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
        if overstates(member, size):
            raise InputError(f"{path}: {member.filename[:80]!r} declares more bytes than it holds.")
        shared = "sharedStrings" in member.filename or "styles" in member.filename
        needed += SHARED * member.file_size if shared else 0
    if needed > room:
        raise InputError(
            f"{path} takes {format_bytes(needed)} to read, above the memory there is, "
            f"{format_bytes(room)}: raise MARDA_MEMORY, or save the sheet as CSV."
        )


def _filled(sheet: Any, *, blank: bool = False) -> Iterator[tuple[Any, ...]]:
    """Rows that are not blank; `blank` puts an empty one where there are such."""
    sheet.reset_dimensions()  # what a file declares may be a million columns
    for row in sheet.iter_rows(values_only=True):
        if len(row) >= MAX_COLUMNS:
            raise InputError(f"the sheet {sheet.title!r} has {len(row):,} columns: is it a table?")
        if any(_value(cell) is not None for cell in row):
            yield row
        elif blank:
            yield ()


def _sheet(path: Path, book: Any, wish: str | None) -> tuple[Any, tuple[str, ...]]:
    """The sheet that was asked for, or the only one that holds a table; what to say of it."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if wish is not None:
        found = {title.strip().casefold(): sheet for title, sheet in sheets.items()}
        if wish.strip().casefold() not in found:
            shown = ", ".join(map(repr, sheets))
            raise InputError(f"{path} has no sheet {wish!r}: name one with --sheet ({shown}).")
        return found[wish.strip().casefold()], ()
    used = [title for title, sheet in sheets.items() if next(_filled(sheet), None) is not None]
    if not used:
        raise InputError(f"{path} is empty.")
    tables = [title for title in used if _is_table(sheets[title])]
    if len(used) > 1 and len(tables) == 1:
        told = f"{path}: the sheet {tables[0]!r} is read, the only one with a table"
        return sheets[tables[0]], (f"{told} (--sheet names another).",)
    if len(used) > 1:
        raise InputError(
            f"{path} has {len(used)} sheets with rows ({some_names(used, 8)}): name one with "
            "--sheet, or one per file, as in --sheet 'old,new'."
        )
    return sheets[used[0]], ()


def _is_table(sheet: Any) -> bool:
    """Whether two of its first rows have two cells or more: a page of remarks has not."""
    wide = (row for row in islice(_filled(sheet), 20) if _n_filled(row) > 1)
    return len([*islice(wide, 2)]) == 2


def _n_filled(row: Sequence[Any]) -> int:
    return sum(_value(cell) is not None for cell in row)


def _rows(path: Path, sheet: Any, request: ReadRequest, notes: tuple[str, ...]) -> Iterator[Table]:
    remarks = WithoutRemarks(_filled(sheet, blank=True))
    totals = WithoutTotals(remarks)
    rows = iter(totals)
    head = [*islice(rows, 20)]
    if not head:
        raise InputError(f"{path}: the sheet {sheet.title!r} is empty.")
    most = max(map(len, head))
    shown = [[str(_value(cell) or "") for cell in _padded(row, most)] for row in head]
    counts = [_n_filled(row) for row in head]
    above = 0
    while above + 2 < len(head) and (
        (counts[above] == 1 and max(counts[above + 1 :]) > 2)
        or is_title(shown[above], shown[above + 1 :])
    ):
        above += 1
    if above:
        notes = (
            *notes,
            f"{path}: {counted(above, 'row')} above the header left out.",
        )
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
        told = (*notes, *remarks.note(path), *totals.note(path))
        cells: dict[str, list[Any]] = {names[k]: [] for k in kept}
        for row in part:
            padded = _padded(row, width)
            for k in kept:
                cells[names[k]].append(_value(padded[k]))
        yield table_of_cells(path, len(part), cells, told, refused=refused, nameless=nameless)
        some = True


def _padded(row: Sequence[Any], width: int) -> tuple[Any, ...]:
    return (*row, *([None] * (width - len(row))))


def _value(cell: Any) -> Any:
    """A cell as a plain value; text without its outer spaces, and nothing where there is none."""
    if isinstance(cell, str):
        return re.sub(r"_x000[dD]_", "", cell).strip() or None
    if isinstance(cell, timedelta):
        return cell / timedelta(days=1)
    return cell
