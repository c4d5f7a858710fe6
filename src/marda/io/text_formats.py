"""Text formats: CSV (comma, semicolon or tab; plain or gzip) and svmlight."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from marda._memory import available_memory, format_bytes
from marda.io.table import InputError, Table, check_width, first_repeated

__all__ = ["csv_batches", "first_line", "svmlight_batches"]

CSV_ROWS = 50_000  # fields are Python strings while they are read: a batch bounds their memory
BATCH_CHARACTERS = 2**23  # and so does this where rows are wide
#: Longest row of text, in characters, and most columns: a file that unpacks to one endless line is
#: refused as it grows, not when memory is gone.
MAX_ROW = 2**25
MAX_COLUMNS = 2**20
WHOLE = 2**62  # rows per batch when the caller keeps them all
#: Bytes of a field as Python string beside its characters, and of an index and a value of svmlight.
FIELD_BYTES, PAIR_BYTES = 64, 72
LABEL = "label"  # name of svmlight's first field


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    """Errors of damaged or packed text as one sentence."""
    try:
        yield
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text: name its format with --format.") from None
    except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        text = " ".join(str(error).split())[:120]
        raise InputError(f"{path} cannot be read as {what}: {text}.") from None


def first_line(path: Path) -> str:
    """The first line that is not a comment."""
    with _reading(path, "text"), _open(path) as file:
        for _ in range(100):
            line = file.readline(100_000)
            text = line.decode("utf-8", "replace").strip()
            if text and not text.startswith("#"):
                return text
    return ""


class _Lines:
    """Lines of a text, each and together bounded.

    `row` counts the characters of a row so far (the reader sets it back), `total` those of all
    rows. `keep` counts what rows take that are kept, and refuses them as they grow too many.
    """

    def __init__(self, path: Path, file: Any, keeps_all: bool):
        self.path, self.file, self.keeps_all = path, file, keeps_all
        self.row = self.total = self.fields = 0
        self.room = available_memory()

    def __iter__(self) -> Iterator[Any]:
        while line := self.file.readline(MAX_ROW + 1):
            self.row += len(line)
            self.total += len(line)
            if self.row > MAX_ROW:
                raise InputError(
                    f"{self.path} has a row of more than {MAX_ROW:,} characters: is it a table?"
                )
            yield line

    def keep(self, cost: int) -> None:
        """Count `cost` bytes more beside the characters read so far."""
        self.fields += cost
        if self.keeps_all and self.total + self.fields > self.room:
            raise InputError(
                f"{self.path} takes more memory than there is, {format_bytes(self.room)}: raise "
                "MARDA_MEMORY, take fewer rows, or use Parquet, which is streamed."
            )


def _delimiter(header: str) -> str:
    """The candidate that occurs most in the header outside quotes."""
    bare = "".join(header.split('"')[::2])
    return max(",;\t", key=bare.count)


def csv_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a CSV file with a header; all values are text here."""
    with (
        _reading(path, "CSV"),
        _open(path) as raw,
        io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file,
    ):
        start = file.readline(MAX_ROW)
        if "\0" in start:
            raise InputError(f"{path} is not text: name its format with --format.")
        delimiter = _delimiter(start)
        if start.count(delimiter) >= MAX_COLUMNS:
            raise InputError(f"{path} has more than {MAX_COLUMNS:,} columns: is it a table?")
        file.seek(0)
        lines = _Lines(path, file, rows >= WHOLE)
        yield from _csv_rows(path, csv.reader(lines, delimiter=delimiter), lines, rows, columns)


def _csv_rows(
    path: Path, reader: Any, lines: _Lines, rows: int, columns: Collection[str] | None
) -> Iterator[Table]:
    header = next(reader, None)
    if not header:
        raise InputError(f"{path} is empty.")
    names = [name.strip() or f"column{k}" for k, name in enumerate(header, 1)]
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"{path} has two columns {twice!r}: rename one.")
    wanted = None if columns is None else set(columns)
    kept = [k for k, name in enumerate(names) if wanted is None or name in wanted]
    lines.row = 0
    some = False
    while True:
        batch: list[list[str | None]] = []
        end = lines.total + BATCH_CHARACTERS
        seen = 0
        for fields in islice(reader, min(rows, CSV_ROWS)):
            seen += 1
            if len(fields) == len(names):
                batch.append([fields[k] or None for k in kept])
            elif fields:  # else a blank line
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(fields)} fields, but the header has "
                    f"{len(names)}."
                )
            lines.row = 0
            if lines.total > end:
                break
        lines.keep(FIELD_BYTES * len(kept) * len(batch))
        if not seen and some:
            return
        if seen and not batch:
            continue  # nothing but blank lines, and the file may go on
        cells = np.array(batch, dtype=object).reshape(len(batch), len(kept))
        yield Table(str(path), len(batch), {names[k]: cells[:, j] for j, k in enumerate(kept)})
        some = True


def svmlight_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a svmlight file: the first field is the column `label` (NaN: no label).

    Indices are taken as they stand, so that files of one data set agree whether or not they count
    from 0: a file that counts from 1 has an empty first feature.
    """
    number = 0
    with _reading(path, "svmlight"), _open(path) as file:
        lines = _Lines(path, file, rows >= WHOLE)
        while True:
            labels: list[float] = []
            data: list[float] = []
            indices: list[int] = []
            indptr = [0]
            for line in lines:
                number += 1
                fields = line.split(b"#", 1)[0].split()
                lines.row = 0
                lines.keep(PAIR_BYTES * len(fields))
                if not fields:
                    continue
                try:
                    labels.append(float(fields[0]))
                    for pair in fields[1:]:
                        index, value = pair.split(b":")
                        if index != b"qid":
                            indices.append(int(index))
                            data.append(float(value))
                except ValueError:
                    raise InputError(
                        f"{path}, line {number}: expected a label and index:value pairs, got "
                        f"{line[:40].decode('utf-8', 'replace').strip()!r}."
                    ) from None
                indptr.append(len(indices))
                if len(labels) == rows:
                    break
            if not labels:
                return
            if min(indices, default=0) < 0 or max(indices, default=0) > 2**31 - 2:
                raise InputError(f"{path}: an index is negative or above 2³¹.")
            width = max(indices, default=0) + 1
            check_width(path, width)
            block = sp.csr_array((np.array(data), indices, indptr), shape=(len(labels), width))
            block.sum_duplicates()
            yield Table(str(path), len(labels), {LABEL: np.array(labels)}, block)
