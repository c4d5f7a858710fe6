"""Which format a file has, and its rows: whole, or in batches; `sample:` names made-up rows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from marda.io.binary import (
    arrow_batches,
    mat_batches,
    npz_batches,
    parquet_batches,
    parquet_files,
)
from marda.io.cells import excel_batches, json_batches
from marda.io.table import WHOLE, InputError, ReadRequest, Table, join
from marda.io.text import (
    PACKED_SUFFIXES,
    archive_members,
    csv_batches,
    first_line,
    head_of,
    only_member,
    packing,
    packing_of,
    svmlight_batches,
)

Reader = Callable[[Path, ReadRequest], Iterator[Table]]
FORMATS: dict[str, Reader] = {
    "csv": csv_batches,
    "excel": excel_batches,
    "json": json_batches,
    "parquet": parquet_batches,
    "arrow": arrow_batches,
    "svmlight": svmlight_batches,
    "npz": npz_batches,
    "mat": mat_batches,
}
ENDINGS = {
    "csv": ".csv .tsv .tab",
    "json": ".json .jsonl .ndjson",
    "parquet": ".parquet .pq",
    "arrow": ".feather .arrow .arrows .ipc",
    "svmlight": ".svm .svmlight .libsvm",
    "npz": ".npz",
    "mat": ".mat",
    "excel": ".xlsx .xlsm",
}
EXTENSIONS = {ending: name for name, held in ENDINGS.items() for ending in held.split()}
#: Formats with a mark at their start: a name without the mark is wrong.
MARKED = ("parquet", "arrow", "npz", "mat", "excel")
MAGIC = (
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"FEA1", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"MATLAB", "mat"),
)
_CSV = "write it as CSV, and give that file"
_TABLE = "save its table as CSV, and give that file"
_INSIDE = "unpack it, and give the file with the rows"
#: Files that cannot be read, by their first bytes: what they are, and what to do.
OTHERS = tuple(
    (re.compile(start), what, do)
    for start, what, do in (
        (
            rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            "an Excel workbook of an old kind",
            "save it as .xlsx, or the sheet as CSV",
        ),
        (rb"(?i)\s*<(!doctype html|html|head|body|table|meta)\b", "a web page", _TABLE),
        (rb"\s*<\?xml", "XML", _TABLE),
        (rb"%PDF", "a PDF", _TABLE),
        (rb"\{\\rtf", "a document", _TABLE),
        (rb"SQLite format 3\x00", "a database", _CSV),
        (rb"<stata_dta>|[q-v][\x01\x02]\x01\x00", "a file of Stata", _CSV),
        (rb"\$FL[23]", "a file of SPSS", _CSV),
        (rb"RD[AX]\d\n[ABX]\n", "a file of R", _CSV),
        (rb"\x80[\x02-\x05]", "a pickle, which would run code", "write it as CSV or Parquet"),
        (rb"Rar!\x1a|7z\xbc\xaf", "an archive", _INSIDE),
        (rb"(?s).{257}ustar", "an archive", _INSIDE),
    )
)
_HEAD = 512  # bytes
PREFIX = "sample:"
#: Samples: seed, rows, whether it is the new sensor, whether its labels are known.
PARTS = {
    "source": (0, 240, False, True),
    "target": (1, 200, True, False),
    "labelled": (1, 200, True, True),
    "new": (2, 100, True, False),
}
SVMLIGHT_LINE = re.compile(r"\S+(\s+qid:\d+)?(\s+\d+:\S+)+\s*(#.*)?$")
ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/{1,2}(?=[^/])")


def refuse_address(path: str | os.PathLike[str]) -> None:
    """Refuse what is no file but an address on a network."""
    text = os.fspath(path)
    if (found := ADDRESS.match(text)) and not Path(text).exists():
        raise InputError(
            f"{found[1]}://{text[found.end() :]} is an address, and marda reads files only: "
            "download it, and give the file."
        )


def detect_format(path: str | os.PathLike[str]) -> str:
    """The format by the first bytes, then by the extension, then by the first line."""
    refuse_address(path)
    path = Path(path)
    with path.open("rb") as file:
        start = file.read(_HEAD)
    if not start:
        raise InputError(f"{path} is empty.")
    _refuse_others(path, start)
    for magic, name in MAGIC:
        if start.startswith(magic):
            return name
    name, packed = path.name.lower(), packing(path)
    if packed == "zip":
        if (own := _archive(path)) is not None:
            return own
        name = only_member(path).lower()
    elif packed:
        name = name.removesuffix(next((s for s in PACKED_SUFFIXES if name.endswith(s)), ""))
    known = EXTENSIONS.get(Path(name).suffix)
    if packed:
        inside = head_of(path, _HEAD)
        if not inside:
            raise InputError(f"{path} is empty.")
        _refuse_others(path, inside)
        if packing_of(inside) or inside.startswith(tuple(magic for magic, _ in MAGIC)):
            raise InputError(f"{path} holds a packed {known or 'file'}: unpack it, and give that.")
    if known in MARKED and not (known == "mat" and b"HDF" in start[:8]):
        raise InputError(
            f"{path} is not {known}, though its name says so: say what it is, as in --format csv."
        )
    if known:
        return known
    line = first_line(path)
    if SVMLIGHT_LINE.match(line):
        return "svmlight"
    return "json" if re.match(r'\[\s*(\{|$)|\{\s*("|$)', line) else "csv"


def _refuse_others(path: Path, start: bytes) -> None:
    """Refuse what is no table that marda reads, by what it is."""
    for known, what, do in OTHERS:
        if known.match(start):
            raise InputError(f"{path} is {what}: {do}.")


def _archive(path: Path) -> str | None:
    """The format of an archive that is a format of its own; None: it packs a file."""
    try:
        names = archive_members(path)
    except InputError:
        with path.open("rb") as file:
            start = file.read(2**12)
        if path.suffix.lower() in (".xlsx", ".xlsm") or b"xl/" in start:
            raise InputError(
                f"{path} is a damaged Excel workbook: copy it again, or save the sheet as CSV and "
                "give that file."
            ) from None
        if path.suffix.lower() == ".npz" or b".npy" in start:
            return "npz"  # its reader says what is wrong
        raise
    if any(name.startswith("xl/") for name in names):
        return "excel"
    if "mimetype" in names or "content.xml" in names:
        raise InputError(f"{path} is a document: save its table as CSV and give that file.")
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    return None


def read_batches(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    rows: int = WHOLE,
    columns: Collection[str] | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    na: Collection[str] = (),
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
    encoding, sheet : str, default=None
        Of text; of a workbook. None: find out.
    na : collection of str
        Words and numbers that mean "no value", in every column.
    """
    refuse_address(path)
    path = Path(path)
    request = ReadRequest(rows, columns, encoding, sheet)
    if is_sample(path):
        return iter([_sample_table(str(path), request)])
    if format is not None and format not in FORMATS:
        raise InputError(f"unknown format {format!r}: choose from {', '.join(FORMATS)}.")
    if path.is_dir():
        parts = (parquet_batches(file, request) for file in parquet_files(path))
        # A file without rows is no end of the rows of a folder.
        found: Iterator[Table] = filter(lambda table: table.n_rows, chain.from_iterable(parts))
    else:
        found = FORMATS[format or detect_format(path)](path, request)
    return (table.without(na) for table in found) if na else iter(found)


def read_table(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    encoding: str | None = None,
    sheet: str | None = None,
    na: Collection[str] = (),
    watch: Callable[[Table], None] | None = None,
) -> Table:
    """All rows of a file; `watch` is shown each part of them as it comes."""
    parts = []
    for part in read_batches(path, format, encoding=encoding, sheet=sheet, na=na):
        parts.append(part)
        if watch is not None:
            watch(part)
    if not parts or sum(part.n_rows for part in parts) == 0:
        raise InputError(f"{path} has no rows.")
    return join(parts)


def is_sample(path: Path) -> bool:
    """Whether this names a sample, and no file."""
    return str(path).startswith(PREFIX) and not path.exists()


def _sample_table(name: str, request: ReadRequest) -> Table:
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
    names = [*table]
    return Table(name, n, {names[k]: table[names[k]] for k in request.wants(names)})
