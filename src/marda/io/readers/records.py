"""JSON: a list of records, or one record per line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._machine import available_memory, format_bytes
from marda.io.readers import text
from marda.io.table import WHOLE, InputError, Request, Table

__all__ = ["json_batches", "table_of_cells"]

#: Objects that JSON makes take at most so many times the characters that it is written in.
EXPANSION = 12


def json_batches(path: Path, request: Request) -> Iterator[Table]:
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
    if not isinstance(whole, list) or not all(isinstance(row, dict) for row in whole):
        raise InputError(
            f"{path} holds no records: JSON must be a list of {{column: value, …}}, or one of them "
            "on every line."
        )
    return whole


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
    path: Path, records: Iterator[dict[str, Any]], request: Request, notes: Any
) -> Iterator[Table]:
    names: dict[str, None] = {}
    some = False
    while part := [*islice(records, request.rows if request.rows < WHOLE else None)]:
        names |= dict.fromkeys(name for row in part for name in row)
        yield _table(path, part, [*names], request, notes)
        some = True
    if not some:
        yield _table(path, [], [], request, notes)


def _table(
    path: Path, records: Sequence[dict[str, Any]], names: list[str], request: Request, notes: Any
) -> Table:
    kept = [names[k] for k in request.wants(names)]
    cells = {name: [row.get(name) for row in records] for name in kept}
    return table_of_cells(path, len(records), cells, notes)


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
            refused[name] = "holds lists or objects"
        elif kinds <= {int, float, bool}:
            columns[name] = np.array([_float(value) for value in values], dtype=np.float64)
        elif kinds <= {date, datetime}:
            exact = [None if v is None else np.datetime64(_naive(v), "us") for v in values]
            columns[name] = np.array(exact, dtype="datetime64[us]")
        else:
            columns[name] = np.array([_text(value) for value in values], dtype=object)
    return Table(str(path), n_rows, columns, refused=refused, notes=notes, **more)


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
