"""Text formats: CSV (comma, semicolon or tab; plain or gzip) and svmlight."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from marda.io.table import InputError, Table

__all__ = ["csv_batches", "first_line", "svmlight_batches"]

CSV_ROWS = 50_000  # fields are Python strings while they are read: a batch bounds their memory
LABEL = "label"  # name of svmlight's first field


def _open(path: Path) -> gzip.GzipFile | io.BufferedReader:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")


def first_line(path: Path) -> str:
    """The first line that is not a comment."""
    with _open(path) as file:
        for line in islice(file, 100):
            text = line[:100_000].decode("utf-8", "replace").strip()
            if text and not text.startswith("#"):
                return text
    return ""


def _delimiter(header: str) -> str:
    """The candidate that occurs most in the header outside quotes."""
    bare = "".join(header.split('"')[::2])
    return max(",;\t", key=bare.count)


def csv_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a CSV file with a header; all values are text here."""
    with _open(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as file:
        try:
            start = file.readline()
            if "\0" in start:
                raise InputError(f"{path} is not text: name its format with --format.")
            file.seek(0)
            yield from _csv_rows(path, csv.reader(file, delimiter=_delimiter(start)), rows, columns)
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text: name its format with --format.") from None
        except (csv.Error, EOFError, gzip.BadGzipFile) as error:
            raise InputError(f"{path} cannot be read as CSV: {error}.") from None


def _csv_rows(
    path: Path, reader: Any, rows: int, columns: Collection[str] | None
) -> Iterator[Table]:
    header = next(reader, None)
    if not header:
        raise InputError(f"{path} is empty.")
    names = [name.strip() or f"column{k}" for k, name in enumerate(header, 1)]
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise InputError(f"{path} has two columns {twice!r}: rename one.")
    kept = [k for k, name in enumerate(names) if columns is None or name in columns]
    some = False
    while True:
        lines = []
        for fields in islice(reader, min(rows, CSV_ROWS)):
            if not fields:
                continue  # a blank line
            if len(fields) != len(names):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(fields)} fields, but the header has "
                    f"{len(names)}."
                )
            lines.append([fields[k] or None for k in kept])
        if not lines and some:
            return
        cells = np.array(lines, dtype=object).reshape(len(lines), len(kept))
        yield Table(str(path), len(lines), {names[k]: cells[:, j] for j, k in enumerate(kept)})
        some = True
        if not lines:
            return


def svmlight_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a svmlight file: the first field is the column `label` (NaN: no label).

    Indices are taken as they stand, so that files of one data set agree whether or not they count
    from 0: a file that counts from 1 has an empty first feature.
    """
    number = 0
    with _open(path) as file:
        while True:
            labels: list[float] = []
            data: list[float] = []
            indices: list[int] = []
            indptr = [0]
            for line in file:
                number += 1
                fields = line.split(b"#", 1)[0].split()
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
            block = sp.csr_array((np.array(data), indices, indptr), shape=(len(labels), width))
            block.sum_duplicates()
            yield Table(str(path), len(labels), {LABEL: np.array(labels)}, block)
