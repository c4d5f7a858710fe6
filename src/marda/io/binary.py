"""Binary formats: Parquet (with pyarrow), npz without pickle, MATLAB up to version 7."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.io.table import InputError, Table

__all__ = ["mat_batches", "npz_batches", "parquet_batches", "pyarrow"]

BLOCK_NAMES = ("X", "features", "fts", "data", "x")
PARQUET_ROWS = 65_536


def pyarrow(path: Any) -> Any:
    """The module, or an error that says how to get it."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")  # without types, so not by a plain import
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs pyarrow: run pip install 'marda[parquet]', or use CSV."
        ) from None


def parquet_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a Parquet file; only the wanted columns are read."""
    pa = pyarrow(path)
    try:
        # Pages are read as they are needed: with pre_buffer, whole row groups pile up in memory,
        # and with large buffers a wide file has one a column.
        with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**16) as file:
            names = file.schema_arrow.names
            wanted = [n for n in names if columns is None or n in columns]
            twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
            if twice is not None:
                raise InputError(f"{path} has two columns {twice!r}: rename one.")
            size = min(rows, PARQUET_ROWS)
            some = False
            for batch in file.iter_batches(batch_size=size, columns=wanted, use_threads=False):
                some = True
                yield _arrow_table(pa, path, batch)
            if not some:
                yield _arrow_table(pa, path, file.schema_arrow.empty_table().select(wanted))
    except pa.ArrowException as error:
        text = " ".join(str(error).split())[:120]
        raise InputError(f"{path} cannot be read as Parquet: {text}") from None


def _arrow_table(pa: Any, path: Path, batch: Any) -> Table:
    columns, refused = {}, {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        kind = values.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
            values = values.dictionary_decode()
        if pa.types.is_null(kind):
            columns[name] = np.full(len(values), np.nan)
        elif pa.types.is_integer(kind) and not values.null_count:
            columns[name] = values.to_numpy(zero_copy_only=False)
        elif (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_decimal(kind)
        ):
            columns[name] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            # An empty field is missing in CSV, and so it is here.
            texts = [text or None for text in values.to_pylist()]
            columns[name] = np.array(texts, dtype=object)
        else:
            refused[name] = str(kind)
    return Table(str(path), batch.num_rows, columns, refused=refused)


def npz_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of an npz archive: a matrix (`X`, or the only one), and vectors as columns."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, KeyError, AttributeError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        why = "it holds Python objects" if "pickle" in str(error) else "it is not a whole archive"
        raise InputError(f"{path} cannot be read as npz: {why}.") from None
    if {"data", "indices", "indptr", "shape"} <= set(arrays):  # as scipy.sparse.save_npz writes
        parts = [arrays.pop(part) for part in ("data", "indices", "indptr")]
        try:
            block = sp.csr_array(tuple(parts), shape=tuple(arrays.pop("shape").tolist()))
            block.check_format(full_check=True)
        except (ValueError, TypeError) as error:
            raise InputError(f"{path} holds no whole CSR matrix: {error}.") from None
        if arrays.pop("format", np.array(b"csr")).item() not in (b"csr", "csr"):
            raise InputError(f"{path} holds a sparse matrix that is not CSR: convert it.")
        arrays["X"] = block
    yield from _cut(_from_arrays(path, arrays), rows)


def mat_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a MATLAB file: a matrix (`X`, or the largest), and vectors as columns."""
    try:
        with warnings.catch_warnings():
            # SciPy 1.18 announces another sparse type; whichever comes is converted below.
            warnings.simplefilter("ignore", DeprecationWarning)
            loaded = scipy.io.loadmat(path)
    except NotImplementedError:
        raise InputError(f"{path} is MATLAB 7.3 (HDF5): save it with -v7.") from None
    except FileNotFoundError:
        raise
    except Exception as error:  # scipy raises whatever the damaged bytes lead to
        why = " ".join(str(error).split())[:80]
        raise InputError(f"{path} cannot be read as a MATLAB file: {why}.") from None
    arrays = {k: v for k, v in loaded.items() if not k.startswith("__")}
    yield from _cut(_from_arrays(path, arrays), rows)


def _from_arrays(path: Path, arrays: Mapping[str, Any]) -> Table:
    matrices = {
        name: a
        for name, a in arrays.items()
        if sp.issparse(a) or (a.ndim == 2 and a.dtype.kind in "fiub" and min(a.shape) > 1)
    }
    name = next((n for n in BLOCK_NAMES if n in matrices), None)
    if name is None and matrices:
        name = max(matrices, key=lambda n: float(np.prod(matrices[n].shape)))
    if name is None:
        raise InputError(f"{path} holds no matrix of features: name one X.")
    raw = matrices[name]
    block = sp.csr_array(raw, dtype=np.float64) if sp.issparse(raw) else raw.astype(np.float64)
    n, d = block.shape
    columns: dict[str, NDArray[Any]] = {}
    names: tuple[str, ...] = ()
    for key, array in arrays.items():
        if key == name or sp.issparse(array):
            continue
        flat = np.ravel(array)
        if key == "feature_names" and flat.size == d:
            names = tuple(str(v) for v in _plain(flat).tolist())
        elif flat.size == n:
            columns[key] = _plain(flat)
    return Table(str(path), n, columns, block, names)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers, or text as objects (MATLAB's cells hold arrays of one string)."""
    if values.dtype.kind in "fiub":
        return values
    texts = [v.item() if isinstance(v, np.ndarray) and v.size == 1 else v for v in values]
    texts = [None if isinstance(v, np.ndarray) or not str(v).strip() else str(v) for v in texts]
    return np.array(texts, dtype=object)


def _cut(table: Table, rows: int) -> Iterator[Table]:
    for start in range(0, table.n_rows, rows):
        part = slice(start, min(table.n_rows, start + rows))
        columns = {name: values[part] for name, values in table.columns.items()}
        block = table.block[part]
        yield Table(table.path, part.stop - part.start, columns, block, table.block_names)
