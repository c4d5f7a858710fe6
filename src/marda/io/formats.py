"""Which format a file has, and its rows: whole, or in batches; `sample:` names made-up rows."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from marda.io.array_formats import mat_batches, npz_batches
from marda.io.arrow import parquet_batches, parquet_files
from marda.io.table import InputError, Table, join
from marda.io.text_formats import WHOLE, csv_batches, first_line, svmlight_batches

__all__ = ["FORMATS", "detect_format", "is_sample", "read_batches", "read_table"]

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
PREFIX = "sample:"
#: Samples: seed, rows, whether it is the new sensor, whether its labels are known.
PARTS = {
    "source": (0, 240, False, True),
    "target": (1, 200, True, False),
    "labelled": (1, 200, True, True),
    "new": (2, 100, True, False),
}
SVMLIGHT_LINE = re.compile(r"\S+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")


def detect_format(path: str | os.PathLike[str]) -> str:
    """The format by the first bytes, then by the extension, then by the first line."""
    path = Path(path)
    with path.open("rb") as file:
        start = file.read(8)
    if not start:
        raise InputError(f"{path} is empty.")
    for magic, name in ((b"PAR1", "parquet"), (b"PK\x03\x04", "npz"), (b"MATLAB", "mat")):
        if start.startswith(magic):
            if name == "npz":
                _refuse_other_archives(path)
            return name
    if start == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        raise InputError(f"{path} is an Excel workbook: save the sheet as CSV and give that file.")
    stem = path.name.lower().removesuffix(".gz")
    known = EXTENSIONS.get(Path(stem).suffix)
    if known in ("parquet", "npz", "mat") and not (known == "mat" and b"HDF" in start):
        raise InputError(f"{path} is not a {known} file, though its name says so: see --format.")
    if known:
        return known
    return "svmlight" if SVMLIGHT_LINE.match(first_line(path)) else "csv"


def _refuse_other_archives(path: Path) -> None:
    """Workbooks and plain archives begin as npz files do; what they hold tells."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # zipfile raises a dozen kinds of error
        with path.open("rb") as file:
            start = file.read(2**12)
        if path.suffix.lower() in (".xlsx", ".xlsm") or b"xl/" in start:
            raise InputError(
                f"{path} is a damaged Excel workbook: copy it again, save the sheet as CSV and "
                "give that file."
            ) from None
        return  # the npz reader says what is wrong
    if any(name.startswith("xl/") for name in names):
        raise InputError(f"{path} is an Excel workbook: save the sheet as CSV and give that file.")
    if "mimetype" in names or "content.xml" in names:
        raise InputError(f"{path} is a document: save its table as CSV and give that file.")
    if not all(name.endswith(".npy") for name in names):
        shown = ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
        raise InputError(f"{path} is a zip archive ({shown}): unpack it and give the file inside.")


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
        Rows per batch.
    columns : collection of str, default=None
        Read only these; None: all. A column that is not there is not an error here.
    """
    path = Path(path)
    if is_sample(path):
        return iter([_sample_table(str(path), columns)])
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}: choose from {', '.join(FORMATS)}.")
    if path.is_dir():
        parts = (parquet_batches(file, rows, columns) for file in parquet_files(path))
        # A file without rows is no end of the rows of a folder.
        return filter(lambda table: table.n_rows, chain.from_iterable(parts))
    name = format or detect_format(path)
    return FORMATS[name](path, rows, columns)


def read_table(path: str | os.PathLike[str], format: str | None = None) -> Table:
    """All rows of a file."""
    parts = list(read_batches(path, format))
    if not parts or sum(part.n_rows for part in parts) == 0:
        raise InputError(f"{path} has no rows.")
    return join(parts)


def is_sample(path: Path) -> bool:
    """Whether this names a sample, and no file."""
    return str(path).startswith(PREFIX) and not path.exists()


def _sample_table(name: str, columns: Collection[str] | None = None) -> Table:
    """Readings of an old and a new sensor, made up so that examples work as pasted."""
    part = name.removeprefix(PREFIX)
    if part not in PARTS:
        known = ", ".join(PREFIX + p for p in PARTS)
        raise InputError(f"{name} is neither a file nor a sample: samples are {known}.")
    seed, n, new, labelled = PARTS[part]
    rng = np.random.default_rng(seed)
    wet = np.arange(n) % 2
    hidden = rng.normal(1.2 * wet - 0.6, 0.8, (6, n))
    readings = hidden + rng.normal(0, 0.4, (6, n))
    if new:  # the new sensor reads higher, and stretches
        readings = readings * np.linspace(0.8, 1.4, 6)[:, None] + np.linspace(1.5, -0.5, 6)[:, None]
    table = {"id": np.array([f"{part}-{k}" for k in range(n)], dtype=object)}
    table |= {f"reading{k}": np.round(row, 4) for k, row in enumerate(readings, 1)}
    words = np.array(["dry", "wet"], dtype=object)[wet]
    table["y"] = words if labelled else np.full(n, None, dtype=object)
    kept = {k: v for k, v in table.items() if columns is None or k in columns}
    return Table(name, n, kept)
