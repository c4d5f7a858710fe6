"""Which format a file has, and its rows: whole, or in batches."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path

from marda.io.binary import mat_batches, npz_batches, parquet_batches
from marda.io.sample import PREFIX, sample_table
from marda.io.table import InputError, Table, join
from marda.io.text import csv_batches, first_line, svmlight_batches

__all__ = ["FORMATS", "detect_format", "parquet_files", "read_batches", "read_table"]

Reader = Callable[[Path, int, Collection[str] | None], Iterator[Table]]
FORMATS: dict[str, Reader] = {
    "csv": csv_batches,
    "parquet": parquet_batches,
    "svmlight": svmlight_batches,
    "npz": npz_batches,
    "mat": mat_batches,
}
EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".npz": "npz",
    ".mat": "mat",
}
SVMLIGHT_LINE = re.compile(r"\S+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")
WHOLE = 2**62


def detect_format(path: str | os.PathLike[str]) -> str:
    """The format by the first bytes, then by the extension, then by the first line."""
    path = Path(path)
    with path.open("rb") as file:
        start = file.read(8)
    if not start:
        raise InputError(f"{path} is empty.")
    for magic, name in ((b"PAR1", "parquet"), (b"PK\x03\x04", "npz"), (b"MATLAB", "mat")):
        if start.startswith(magic):
            return name
    stem = path.name.lower().removesuffix(".gz")
    known = EXTENSIONS.get(Path(stem).suffix)
    if known in ("parquet", "npz", "mat") and not (known == "mat" and b"HDF" in start):
        raise InputError(f"{path} is not a {known} file, though its name says so: see --format.")
    if known:
        return known
    return "svmlight" if SVMLIGHT_LINE.match(first_line(path)) else "csv"


def read_batches(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    rows: int = WHOLE,
    columns: Collection[str] | None = None,
) -> Iterator[Table]:
    """Rows of a file, or of a folder of Parquet files, so many at a time.

    Parameters
    ----------
    path : path
        The file or folder.
    format : str, default=None
        One of FORMATS; None: find out.
    rows : int
        Rows a batch.
    columns : collection of str, default=None
        Read only these; None: all. A column that is not there is not an error here.
    """
    if str(path).startswith(PREFIX) and not Path(path).exists():
        return iter([sample_table(str(path), columns)])
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}: choose from {', '.join(FORMATS)}.")
    if path.is_dir():
        parts = (parquet_batches(file, rows, columns) for file in parquet_files(path))
        # A file without rows is no end of the rows of a folder.
        return filter(lambda table: table.n_rows, chain.from_iterable(parts))
    name = format or detect_format(path)
    return FORMATS[name](path, rows, columns)


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files under a folder, in the order of their names."""
    files = sorted(p for p in path.rglob("*.parquet") if p.is_file())
    if not files:
        raise InputError(f"{path} is a folder without *.parquet files: give a file.")
    return files


def read_table(path: str | os.PathLike[str], format: str | None = None) -> Table:
    """All rows of a file."""
    parts = list(read_batches(path, format))
    if not parts or sum(part.n_rows for part in parts) == 0:
        raise InputError(f"{path} has no rows.")
    return join(parts)
