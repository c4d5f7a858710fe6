"""Binary formats: Parquet (with pyarrow), npz without pickle, MATLAB up to version 7."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._matlab import MatlabError, read_mat
from marda._memory import available_memory, format_bytes
from marda._npz import NpzError, open_npz
from marda.io.table import InputError, Table, check_width, first_repeated

__all__ = ["mat_batches", "npz_batches", "parquet_batches", "pyarrow"]

BLOCK_NAMES = ("X", "features", "fts", "data", "x")
PARQUET_ROWS = 65_536
SMALL_PARQUET = 2**26


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
    """Rows of a Parquet file; only the wanted columns are read, checksums of pages are checked."""
    pa = pyarrow(path)
    wanted = None if columns is None else set(columns)
    done = 0
    with parquet_errors(pa, path), open_parquet(pa, path) as file:
        names = file.schema_arrow.names
        kept = [name for name in names if wanted is None or name in wanted]
        size = min(rows, PARQUET_ROWS)
        for batch in file.iter_batches(batch_size=size, columns=kept, use_threads=False):
            yield _arrow_table(pa, path, batch)
            done += batch.num_rows
        if not done:
            yield _arrow_table(pa, path, file.schema_arrow.empty_table().select(kept))
        if kept and done != file.metadata.num_rows:
            raise InputError(
                f"{path} cannot be read as Parquet: it declares {file.metadata.num_rows} rows and "
                f"holds {done}."
            )


def open_parquet(pa: Any, path: Path) -> Any:
    """A Parquet file whose declared sizes are possible; pages with a checksum will be checked."""
    # With pre_buffer, whole row groups pile up in memory.
    file = pa.parquet.ParquetFile(
        path, pre_buffer=False, buffer_size=read_ahead(path), page_checksum_verification=True
    )
    try:
        twice = first_repeated(file.schema_arrow.names)
        if twice is not None:
            raise InputError(f"{path} has two columns {twice!r}: rename one.")
        check_groups(path, file.metadata)
    except BaseException:
        file.close()
        raise
    return file


def read_ahead(path: Path) -> int:
    """Bytes that pyarrow reads ahead of a column; 0: a row group at a time.

    Pages of large files are read as they are needed, a little ahead, since a wide file has a buffer
    a column. But there pyarrow fills whatever length a damaged page declares, up to 2 GiB, before
    it looks at the bytes; of small files it takes no more than there is.
    """
    return 0 if path.stat().st_size <= SMALL_PARQUET else 2**16


def check_groups(path: Path, metadata: Any) -> None:
    """Refuse row counts that contradict each other."""
    # Nothing of single columns: pyarrow ends the process over some damage there.
    counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
        raise InputError(
            f"{path} cannot be read as Parquet: it declares {metadata.num_rows} rows and its row "
            f"groups {sum(counts)}."
        )


@contextmanager
def parquet_errors(pa: Any, path: Path) -> Iterator[None]:
    """Whatever pyarrow says of damaged bytes, as one sentence that names the file."""
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except (OSError, ValueError, pa.ArrowException, OverflowError, UnicodeError) as error:
        text = " ".join(str(error).split())[:120] or type(error).__name__
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
        with open_npz(path) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
    except NpzError as error:
        raise InputError(f"{path} cannot be read as npz: {error}.") from None
    if {"data", "indices", "indptr", "shape"} <= set(arrays):  # as scipy.sparse.save_npz writes
        arrays["X"] = _csr(path, arrays)
    yield from _cut(_from_arrays(path, arrays), rows)


def _csr(path: Path, arrays: dict[str, Any]) -> Any:
    """The matrix of the parts, which leave `arrays`."""
    form = arrays.pop("format", np.array(b"csr"))
    parts = [arrays.pop(part) for part in ("data", "indices", "indptr")]
    shape = arrays.pop("shape")
    if form.shape != () or form.item() not in (b"csr", "csr"):
        raise InputError(f"{path} holds a sparse matrix that is not CSR: convert it.")
    numbers = shape.shape == (2,) and shape.dtype.kind in "iu"
    if not numbers or [p.ndim for p in parts] != [1, 1, 1] or parts[0].dtype.kind not in "fiub":
        raise InputError(f"{path} holds no whole CSR matrix.")
    check_width(path, int(shape[1]))
    try:
        block = sp.csr_array(tuple(parts), shape=tuple(shape.tolist()))
        block.check_format(full_check=True)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{path} holds no whole CSR matrix: {error}.") from None
    return block


def mat_batches(path: Path, rows: int, columns: Collection[str] | None) -> Iterator[Table]:
    """Rows of a MATLAB file: a matrix (`X`, or the largest), and vectors as columns."""
    try:
        arrays = read_mat(path)
    except MatlabError as error:
        raise InputError(f"{path} cannot be read as a MATLAB file: {error}.") from None
    yield from _cut(_from_arrays(path, arrays), rows)


def _from_arrays(path: Path, arrays: Mapping[str, Any]) -> Table:
    planes = {
        name: a
        for name, a in arrays.items()
        if sp.issparse(a) or (a.ndim == 2 and a.dtype.kind in "fiub" and a.size)
    }
    matrices = {name: a for name, a in planes.items() if sp.issparse(a) or min(a.shape) > 1}
    # One row or one column is a vector to MATLAB: only its name tells that it is not.
    matrices = matrices or {name: a for name, a in planes.items() if name in BLOCK_NAMES}
    name = next((n for n in BLOCK_NAMES if n in matrices), None)
    if name is None and matrices:
        name = max(matrices, key=lambda n: float(np.prod(matrices[n].shape)))
    if name is None:
        raise InputError(f"{path} holds no matrix of features: name one X.")
    raw = matrices[name]
    if sp.issparse(raw):
        check_width(path, raw.shape[1])
    elif 8 * raw.size > (room := available_memory()):
        raise InputError(
            f"{path}: {name!r} takes {format_bytes(8 * raw.size)} as numbers, above the memory "
            f"there is, {format_bytes(room)}: raise MARDA_MEMORY, or cut the file."
        )
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
