"""Files that appear whole or not at all, and predictions written so, as CSV or Parquet."""

from __future__ import annotations

import csv
import glob
import hashlib
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marda.io.binary import pyarrow
from marda.io.table import InputError, is_missing


@contextmanager
def replacing(path: str | os.PathLike[str], *, make_folder: bool = True) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it if all went well and removed if not.

    What a killed process left under such a name is removed first.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path)
    temporary = path.with_name(f".{path.name}.{_host()}-{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        if temporary.exists():  # in a folder that cannot be written there is nothing to remove
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text so; gives its path."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
    return Path(path)


def remove_stale(path: Path) -> None:
    """Remove temporaries of `path` whose process, of this machine, is gone."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{_host()}-*.tmp"):
        pid = left.name.rpartition("-")[2].removesuffix(".tmp")
        if pid.isdecimal() and not process_exists(int(pid)):
            with suppress(OSError):  # someone else's: it is in nobody's way
                left.unlink(missing_ok=True)


def process_exists(pid: int) -> bool:
    """Whether a process of this machine lives."""
    if os.name == "nt":  # os.kill(pid, 0) ends a process on Windows: take it for alive
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _host() -> str:
    """Short name of this machine or container: the same numbers of processes mean others there."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


# Predictions with probabilities, batch by batch ---------------------------------------------------

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class PredictionWriter:
    """Writes `id` or `row`, `prediction`, `probability` and one probability per class.

    The file appears under its name when the writer is left without an error.

    Parameters
    ----------
    path : Path
        Ends in .csv, .tsv or .parquet.
    classes : array
        Label values, in the order of probability columns.
    id : str or None
        Name of the id column; None writes the number of the row, from 1.
    more : sequence of str
        Names of further columns, whose values `write` is given.
    """

    def __init__(self, path: Path, classes: NDArray[Any], id: str | None, more: Sequence[str] = ()):
        suffix = path.suffix.lower()
        if suffix not in (".csv", ".tsv", ".parquet", ".pq"):
            raise InputError(f"{path}: predictions are written as .csv, .tsv or .parquet.")
        self.parquet = suffix in (".parquet", ".pq")
        self.arrow = pyarrow(path) if self.parquet else None
        self.delimiter = "\t" if suffix == ".tsv" else ","
        self.names = prediction_names(classes, id)
        if self.names[0] in more:
            self.names[0] += "_id"
        self.names += more
        self.path, self.classes, self.n_rows = path, classes, 0
        self._out: Any = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._temporary = stack.enter_context(replacing(self.path))
            if not self.parquet:
                text = self._temporary.open("w", encoding="utf-8", newline="")
                file = stack.enter_context(text)
                style: Any = {"delimiter": self.delimiter, "lineterminator": "\n"}
                self._out = csv.writer(file, **style)
                self._quoting = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, **style)
                self._out.writerow(map(harmless, self.names))
            # A full disk shows itself as files are closed, at the last.
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(
        self,
        ids: NDArray[Any] | None,
        codes: NDArray[np.int64],
        P: NDArray[np.float64],
        more: Sequence[NDArray[Any]] = (),
    ) -> None:
        """Add a batch: ids, places of the predicted classes, probabilities of all, and the rest."""
        n = len(codes)
        keys = np.arange(self.n_rows + 1, self.n_rows + n + 1) if ids is None else ids
        best = P[np.arange(n), codes]
        self.n_rows += n
        if not self.parquet:
            columns = [_cells(keys), _cells(self.classes)[codes]]
            # Shortest text that reads back as the same number.
            columns += [best.tolist(), *(P[:, k].tolist() for k in range(P.shape[1]))]
            columns += [_known(values) for values in more]
            for row in zip(*columns, strict=True):
                # Older Pythons write a carriage return bare, and the line would end there.
                returns = any(isinstance(cell, str) and "\r" in cell for cell in row)
                (self._quoting if returns else self._out).writerow(row)
            return
        pa: Any = self.arrow
        labels = self.classes[codes]
        arrays = [_arrow(pa, keys), _arrow(pa, labels), pa.array(best)]
        arrays += [pa.array(np.ascontiguousarray(P[:, k])) for k in range(P.shape[1])]
        arrays += [_arrow(pa, values) for values in more]
        batch = pa.table(dict(zip(self.names, arrays, strict=True)))
        if self._out is None:
            self._out = self._stack.enter_context(
                pa.parquet.ParquetWriter(self._temporary, batch.schema, write_page_checksum=True)
            )
        # Numbers in one batch and gaps in the next must not change the file's types.
        self._out.write_table(batch.cast(self._out.schema))


def prediction_names(classes: NDArray[Any], id: str | None) -> list[str]:
    """Names of the columns of predictions; the first is that of the id, or "row"."""
    taken = {"prediction", "probability"}
    key = "row" if not id else f"{id}_id" if id in taken else id
    return [key, "prediction", "probability", *(f"probability_{c}" for c in classes)]


def harmless(text: Any) -> Any:
    """Text that a spreadsheet would run as a formula, with an apostrophe before it.

    Numbers stay as they are. So that one apostrophe can be taken away again, text that has
    apostrophes before such a sign gets another.
    """
    if isinstance(text, str) and _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _cells(values: NDArray[Any]) -> NDArray[Any]:
    """Values as the cells of a CSV file."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = [harmless(value) for value in values.tolist()]
    return cells


def _known(values: NDArray[Any]) -> NDArray[Any]:
    """Cells, empty where there is no value."""
    cells = _cells(values)
    cells[is_missing(values)] = None
    return cells


def _arrow(pa: Any, values: NDArray[Any]) -> Any:
    """Text, or numbers whose NaN is null, so that whole numbers with gaps stay whole numbers."""
    if values.dtype.kind in "OU":
        return pa.array(values.tolist(), pa.string())
    return pa.array(values, from_pandas=True)
