"""Binary files of columns or matrices: Parquet and Arrow (through pyarrow), npz, MATLAB up to 7.

This is the one place that opens Parquet files. Batches come from `ParquetFile`, which decodes pages
as they are needed; `pyarrow.dataset` decodes whole row groups, and a file may be one row group.
Checksums of pages are checked where there are any, and declared sizes before memory is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._array_files import MatlabError, NpzError, open_npz, read_mat
from marda._machine import available_memory, format_bytes
from marda.io.table import InputError, ReadRequest, Table, check_width

BATCH_ROWS = 65_536
SMALL_FILE = 2**26
WITHOUT_END = 2**62  # batches of a stream: it says when it ends


class MissingPyarrow(InputError, ImportError):
    """pyarrow is not installed."""


class Unreadable(InputError):
    """A file that is not whole; `why` says it without the file's name."""

    def __init__(self, path: Path, why: str, what: str = "Parquet"):
        super().__init__(f"{path} cannot be read as {what}: {why}")
        self.why = why


def pyarrow(path: Any) -> Any:
    """The module, or an error that says how to get it."""
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")  # without types, so not by a plain import
    except ModuleNotFoundError:
        raise MissingPyarrow(
            f"{path}: Parquet and Arrow need pyarrow: run pip install 'marda[parquet]', or use CSV."
        ) from None


def parquet_files(path: Path) -> list[Path]:
    """The file itself, or the Parquet files under a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(p for p in path.rglob("*.parquet") if p.is_file())
    if not files:
        raise InputError(f"{path} is a folder without *.parquet files: give a file.")
    return files


def parquet_footer(path: Path) -> tuple[int, list[str]]:
    """Rows and names of the columns of a file, or of all files of a folder and of its first."""
    n_rows = 0
    names: list[str] = []
    for file in parquet_files(path):
        with reading_parquet(file):
            metadata = pyarrow(file).parquet.read_metadata(file)
            names = names or metadata.schema.to_arrow_schema().names
            n_rows += metadata.num_rows
    return n_rows, names


@contextmanager
def reading_parquet(path: Path, what: str = "Parquet") -> Iterator[None]:
    """Whatever pyarrow says of damaged bytes, as one sentence that names the file."""
    arrow = pyarrow(path)
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except (OSError, ValueError, arrow.ArrowException, OverflowError, UnicodeError) as error:
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise Unreadable(path, why, what) from None


def open_parquet(path: Path) -> Any:
    """A `ParquetFile` whose declared sizes are possible; pages with a checksum will be checked."""
    with reading_parquet(path):
        # With pre_buffer, whole row groups pile up in memory.
        file = pyarrow(path).parquet.ParquetFile(
            path, pre_buffer=False, buffer_size=_read_ahead(path), page_checksum_verification=True
        )
        try:
            _refuse_repeated(path, file.schema_arrow.names)
            check_groups(path, file.metadata)
        except BaseException:
            file.close()
            raise
    return file


def _refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Columns are known by their names."""
    twice = next((name for name, n in Counter(names).items() if n > 1), None)
    if twice is not None:
        raise InputError(f"{path} has two columns {twice!r}: rename one.")


def _read_ahead(path: Path) -> int:
    """Bytes that pyarrow reads ahead of a column; 0: a row group at a time.

    Pages of large files are read as they are needed, a little ahead, since a wide file has a buffer
    per column. But there pyarrow fills whatever length a damaged page declares, up to 2 GiB, before
    it looks at the bytes; of small files it takes no more than there is.
    """
    return 0 if path.stat().st_size <= SMALL_FILE else 2**16


def check_groups(path: Path, metadata: Any) -> None:
    """Refuse row counts that contradict each other."""
    # Nothing of single columns: pyarrow ends the process over some damage there.
    counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
        raise Unreadable(
            path, f"it declares {metadata.num_rows} rows and its row groups {sum(counts)}."
        )


def record_batches(
    path: Path,
    file: Any,
    rows: int,
    columns: list[str],
    *,
    group: int | None = None,
    threads: bool = False,
) -> Iterator[Any]:
    """Batches of an open file, or of one row group of it; as many rows as it declares."""
    metadata = file.metadata
    groups = None if group is None else [group]
    wanted = metadata.num_rows if group is None else metadata.row_group(group).num_rows
    done = 0
    for batch in file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=threads):
        done += batch.num_rows
        yield batch
    if columns and done != wanted:
        raise Unreadable(path, f"it declares {wanted} rows and holds {done}.")


def parquet_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of a Parquet file; only the wanted columns are read."""
    arrow = pyarrow(path)
    with reading_parquet(path), open_parquet(path) as file:
        names = file.schema_arrow.names
        kept = [names[k] for k in request.wants(names)]
        some = False
        for batch in record_batches(path, file, min(request.rows, BATCH_ROWS), kept):
            yield _table(arrow, path, batch)
            some = True
        if not some:
            yield _table(arrow, path, file.schema_arrow.empty_table().select(kept))


def arrow_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of an Arrow file (Feather 2), or of a stream of Arrow batches."""
    arrow = pyarrow(path)
    ipc = import_module("pyarrow.ipc")
    # Mapped, a damaged length takes what there is; else it is allocated before it is read.
    with reading_parquet(path, "Arrow"), arrow.memory_map(str(path)) as raw:
        start = raw.read(6)
        raw.seek(0)
        if start.startswith(b"FEA1"):
            raise InputError(f"{path} is a Feather file of version 1: write it anew as version 2.")
        whole = start == b"ARROW1"
        file = ipc.open_file(raw) if whole else ipc.open_stream(raw)
        names = file.schema.names
        _refuse_repeated(path, names)
        wanted = [names[k] for k in request.wants(names)]
        count = file.num_record_batches if whole else WITHOUT_END
        some = False
        for k in range(count):
            try:
                batch = file.get_batch(k) if whole else file.read_next_batch()
            except StopIteration:
                break
            batch.validate(full=True)  # damaged offsets would lead beyond the buffers
            batch = batch.select(wanted)
            for at in range(0, batch.num_rows, min(request.rows, BATCH_ROWS)):
                part = batch.slice(at, min(request.rows, BATCH_ROWS))
                yield _table(arrow, path, part)
                some = True
        if not some:
            yield _table(arrow, path, file.schema.empty_table().select(wanted))


def is_number(kind: Any) -> bool:
    """Whether a column of this type can be a feature."""
    types = import_module("pyarrow.types")
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _table(pa: Any, path: Path, batch: Any) -> Table:
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
            exact = values if pa.types.is_float64(kind) else values.cast(pa.float64(), safe=False)
            columns[name] = exact.to_numpy(zero_copy_only=False)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            # Times with a zone are held in UTC; what is finer than microseconds is cut.
            exact = values.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
            columns[name] = exact.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
        elif _is_text(pa, kind):
            columns[name] = np.array(bare_texts(values).to_pylist(), dtype=object)
        else:
            refused[name] = f"has type {kind}, neither numbers nor text"
    return Table(str(path), batch.num_rows, columns, refused=refused)


def _is_text(pa: Any, kind: Any) -> bool:
    """Whether a column holds text, also as polars writes it."""
    view = hasattr(pa.types, "is_string_view") and pa.types.is_string_view(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or view)


def bare_texts(values: Any) -> Any:
    """Text of a column without its outer spaces, null where nothing is left; others as they are."""
    pa = import_module("pyarrow")
    if not _is_text(pa, values.type):
        return values
    compute = import_module("pyarrow.compute")
    bare = compute.utf8_trim_whitespace(values.cast(pa.large_string()))
    return compute.if_else(compute.equal(bare, ""), pa.scalar(None, pa.large_string()), bare)


# Files of arrays: a matrix, and vectors as columns; nothing is unpickled --------------------------

BLOCK_NAMES = ("X", "features", "fts", "data", "x")


def npz_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of an npz archive: a matrix (`X`, or the only one), and vectors as columns."""
    try:
        with open_npz(path) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
    except NpzError as error:
        raise InputError(f"{path} cannot be read as npz: {error}.") from None
    if {"data", "indices", "indptr", "shape"} <= set(arrays):  # as scipy.sparse.save_npz writes
        arrays["X"] = _csr(path, arrays)
    yield from _cut(_from_arrays(path, arrays), request.rows)


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


def mat_batches(path: Path, request: ReadRequest) -> Iterator[Table]:
    """Rows of a MATLAB file: a matrix (`X`, or the largest), and vectors as columns."""
    try:
        arrays = read_mat(path)
    except MatlabError as error:
        raise InputError(f"{path} cannot be read as a MATLAB file: {error}.") from None
    yield from _cut(_from_arrays(path, arrays), request.rows)


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
    texts = [None if isinstance(v, np.ndarray) else str(v).strip() or None for v in texts]
    return np.array(texts, dtype=object)


def _cut(table: Table, rows: int) -> Iterator[Table]:
    for start in range(0, table.n_rows, rows):
        part = slice(start, min(table.n_rows, start + rows))
        columns = {name: values[part] for name, values in table.columns.items()}
        block = table.block[part]
        yield Table(table.path, part.stop - part.start, columns, block, table.block_names)
