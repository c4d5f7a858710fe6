"""Files of arrays: npz without pickle, MATLAB up to version 7. A matrix, and vectors as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import available_memory, format_bytes
from marda._matlab import MatlabError, read_mat
from marda._npz import NpzError, open_npz
from marda.io.table import InputError, Request, Table, check_width

__all__ = ["mat_batches", "npz_batches"]

BLOCK_NAMES = ("X", "features", "fts", "data", "x")


def npz_batches(path: Path, request: Request) -> Iterator[Table]:
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


def mat_batches(path: Path, request: Request) -> Iterator[Table]:
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
    texts = [None if isinstance(v, np.ndarray) or not str(v).strip() else str(v) for v in texts]
    return np.array(texts, dtype=object)


def _cut(table: Table, rows: int) -> Iterator[Table]:
    for start in range(0, table.n_rows, rows):
        part = slice(start, min(table.n_rows, start + rows))
        columns = {name: values[part] for name, values in table.columns.items()}
        block = table.block[part]
        yield Table(table.path, part.stop - part.start, columns, block, table.block_names)
