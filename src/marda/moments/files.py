"""Moments files: containers of the kind `marda-moments` (docs/learn/moments-files.md).

The content is the header below; arrays are float64. A Gram is symmetric: its lower triangle is
stored, row by row. Files of format 1, which had a layout of their own, are read:

    magic, format version, length of the header, length of the file     24 bytes, little-endian
    header                                                              JSON, UTF-8
    arrays, in the order of the header                                  float64, little-endian
    SHA-256 of all of the above                                         32 bytes
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marda._arrays import to_numpy
from marda._machine import available_memory, counted, format_bytes
from marda._validation import UNLABELED
from marda.io.container import (
    ContainerError,
    Damaged,
    Foreign,
    Kind,
    Lazy,
    Newer,
    Overlong,
    TooLarge,
    Truncated,
    WrongChecksum,
    open_container,
    write_container,
)
from marda.io.table import some_names
from marda.moments.stats import Moments

VERSION = 2
MOMENTS = Kind("marda-moments", VERSION, readable=("2",))
NAMES = ("counts", "sums", "squares", "shift", "gram", "gram_labelled", "class_grams")
MAGIC_1 = b"\x89MARDA\r\n"
_START_1 = struct.Struct("<8sIIQ")
_DIGEST_1 = 32
_CHUNK = 2**20
_DTYPES = ("bool", "float64", "int64", "object", "str")


class MomentsFileError(ValueError):
    """A moments file that cannot be used; the message names it and says why."""


def load(path: str | os.PathLike[str]) -> Moments:
    """`Moments.load`."""
    return read(path)[0]


def merge_files(paths: list[str]) -> tuple[Moments, int]:
    """The sum of several files, and the least number of rows of a group that all of them promise.

    Groups only grow as they are added, so the sum keeps the smallest `min_group` of its parts. An
    error names the file that does not fit the first ones.

    Label names must be the same in all files that have labels: statistics of two label sets would
    add up without complaint, to a model of neither. So would those of a file that is named twice.
    """
    _refuse_twice(paths)
    total, first, labelled = None, "", ""
    promised = []
    for path in paths:
        part, header = read(path)
        promised.append(int(header["min_group"]))
        if total is None:
            total, first, labelled = part, path, path if len(part.classes) else ""
            continue
        if len(part.classes) and len(total.classes):
            ours, theirs = total.classes.tolist(), part.classes.tolist()
            odd = next((v for v in theirs if v not in ours), None)
            where, other, gone = path, labelled, odd
            if odd is None:
                gone = next((v for v in ours if v not in theirs), None)
                where, other = labelled, path
            if gone is not None:
                raise MomentsFileError(
                    f"{path}: its label names differ from those of {labelled}: {gone!r} is in "
                    f"{where} and not in {other}."
                )
        labelled = labelled or (path if len(part.classes) else "")
        if (total.feature_names is None) != (part.feature_names is None):
            bare = path if part.feature_names is None else first
            raise MomentsFileError(
                f"{path}: cannot be merged with {first}: {bare} has no column names, so nothing "
                "tells whether its columns are the same."
            )
        try:
            total = total + part
        except ValueError as error:
            raise MomentsFileError(f"{path}: cannot be merged with {first}: {error}") from error
    if total is None:
        raise MomentsFileError("no moments files were given: name at least one.")
    return total, min(promised)


def _refuse_twice(paths: list[str]) -> None:
    seen: dict[Path, str] = {}
    for path in paths:
        at = Path(path).resolve()
        if at in seen:
            also = "" if seen[at] == path else f", also as {seen[at]}"
            raise MomentsFileError(
                f"{path} is named twice{also}, so that its rows would count twice: name every "
                "file once."
            )
        seen[at] = path


def smallest_group(moments: Moments) -> tuple[int, str]:
    """Rows of the smallest group, and the group in words."""
    i = int(np.argmin(moments.counts))
    number, code = int(moments.domains[i]), int(moments.labels[i])
    domain = moments.domain_names.get(number, str(number))
    label = "no label" if code == UNLABELED else f"label {moments.classes[code]!s}"
    return int(moments.counts[i]), f"domain {domain}, {label}"


def summary_lines(path: str | os.PathLike[str]) -> list[str]:
    """What a file holds, in lines for a terminal."""
    moments, header = read(path)
    names = moments.feature_names
    shown = "no names" if names is None else some_names(names, 6, str)
    grams = [n for n in ("gram", "gram_labelled", "class_grams") if getattr(moments, n) is not None]
    lines = [
        f"{path}: {counted(moments.n_rows, 'row')}, {counted(moments.n_features, 'column')} "
        f"({shown})",
        f"  labels: {', '.join(map(str, moments.classes.tolist())) or 'none'}",
        f"  second moments: {', '.join(grams) or 'none'}",
        f"  groups of at least {counted(header['min_group'], 'row')}; the smallest has "
        f"{smallest_group(moments)[0]}",
    ]
    for i, (number, code) in enumerate(zip(moments.domains, moments.labels, strict=True)):
        role = "source" if number >= 0 else "target"
        domain = moments.domain_names.get(int(number), str(number))
        label = "no label" if code == UNLABELED else f"label {moments.classes[code]!s}"
        lines.append(f"  {role} {domain}, {label}: {counted(int(moments.counts[i]), 'row')}")
    return lines


# Write ----------------------------------------------------------------------------------------


def write(
    moments: Moments,
    path: str | os.PathLike[str],
    *,
    min_group: int = 1,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write a file; it appears under its name when it is whole."""
    path = Path(path)
    if isinstance(min_group, bool) or not isinstance(min_group, int | np.integer) or min_group < 1:
        raise ValueError(f"min_group must be a whole number, at least 1, got {min_group!r}.")
    size, group = smallest_group(moments)
    if size < min_group:
        raise MomentsFileError(
            f"{path}: not written: {group} has {counted(size, 'row')}, fewer than "
            f"min_group={min_group}. Leave the group out or merge it with another."
        )
    arrays: dict[str, NDArray[np.float64] | Lazy] = {}
    for name in NAMES:
        value = to_numpy(getattr(moments, name))
        if value is not None:
            arrays[name] = _packed(value) if "gram" in name else value.astype(np.float64)
    write_container(
        path, MOMENTS, _header(moments, int(min_group), extra), arrays, make_folder=False
    )


def _packed(grams: NDArray[np.float64]) -> Lazy:
    """The lower triangles of one Gram or several, row by row, some rows at a time."""
    d = grams.shape[-1]

    def pieces() -> Iterator[NDArray[np.float64]]:
        for matrix in grams.reshape(-1, d, d):
            for row in range(0, d, 256):
                yield np.concatenate([matrix[i, : i + 1] for i in range(row, min(d, row + 256))])

    return Lazy(np.dtype(np.float64), _stored(grams.shape), pieces)


def _stored(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the lower triangles of Grams of this shape; Python integers do not overflow."""
    return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)


def _header(moments: Moments, min_group: int, extra: dict[str, Any] | None) -> dict[str, Any]:
    names = moments.feature_names
    return {
        "rows": moments.n_rows,
        "features": moments.n_features,
        "min_group": min_group,
        "classes": _coded_classes(moments.classes),
        "feature_names": None if names is None else [str(n) for n in names],
        "domains": moments.domains.tolist(),
        "labels": moments.labels.tolist(),
        "domain_names": {str(k): v for k, v in moments.domain_names.items()},
        "extra": extra,
    }


def _coded_classes(classes: NDArray[Any]) -> dict[str, Any]:
    kind, values = classes.dtype.kind, classes.tolist()
    if kind == "O" and not all(isinstance(v, str) for v in values):
        raise ValueError("labels that are neither numbers nor strings cannot be written.")
    if kind not in "biufOU":
        raise ValueError(f"labels of type {classes.dtype} cannot be written.")
    dtype = {"b": "bool", "i": "int64", "u": "int64", "f": "float64", "O": "object", "U": "str"}
    return {"dtype": dtype[kind], "values": values}


# Read -----------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[Moments, dict[str, Any]]:
    """The statistics and the header of a file, after all checks."""
    path = Path(path)
    room = available_memory()
    try:
        with path.open("rb") as stream:
            start = stream.read(len(MAGIC_1))
            if start and MAGIC_1.startswith(start):
                return _read_format_1(stream, os.fstat(stream.fileno()).st_size, room)
        # Grams are packed in the file: they take twice its size.
        with open_container(path, MOMENTS, limit=room // 2) as file, _valid():
            header = file.content
            shapes = _shapes(header, file.shapes, packed=True)
            if any(file.dtype(name) != np.float64 for name in shapes):
                raise ValueError("an array is not of float64 numbers")
            arrays = {name: _array(file.seek(name), name, s) for name, s in shapes.items()}
            return _moments(header, arrays), header
    except OSError as error:
        raise MomentsFileError(f"{path}: {error.strerror or error}.") from error
    except ContainerError as error:
        raise MomentsFileError(f"{path}: {_reason(error, room)}.") from None


class _Wrong(ContainerError):
    """What is wrong with a file of moments, in words of its own."""


def _reason(error: ContainerError, room: int) -> str:
    if isinstance(error, Foreign):
        return "not a moments file"
    if isinstance(error, Truncated):
        return f"truncated: {error.size} of {error.written} bytes"
    if isinstance(error, Overlong):
        return f"altered: {error.size} bytes where {error.written} were written"
    if isinstance(error, WrongChecksum):
        return "altered: its checksum does not match its contents"
    if isinstance(error, Newer):
        return (
            f"moments format {error.version}, and this marda reads format {VERSION}; a newer marda "
            "is needed"
        )
    if isinstance(error, TooLarge):
        return (
            f"{format_bytes(error.size)} long, and {format_bytes(room)} of memory are there for "
            "twice that: raise MARDA_MEMORY if the file is yours"
        )
    return str(error) if isinstance(error, _Wrong) else f"not a valid moments file ({error})"


@contextmanager
def _valid() -> Iterator[None]:
    """Whatever a header that lies leads to, as one reason."""
    try:
        yield
    except (
        *(KeyError, TypeError, ValueError, AttributeError),
        *(OverflowError, RecursionError),
    ) as error:
        raise _Wrong(f"not a valid moments file ({type(error).__name__}: {error})") from error


def _read_format_1(stream: BinaryIO, size: int, memory: int) -> tuple[Moments, dict[str, Any]]:
    """A file of the first format, from behind its magic number."""
    stream.seek(0)
    start = stream.read(_START_1.size)
    if len(start) < _START_1.size:
        raise _Wrong(f"truncated: {size} bytes, less than the start of a moments file")
    _, version, header_length, length = _START_1.unpack(start)
    if version != 1:
        raise Damaged("its version is wrong")
    if size < length:
        raise Truncated(size, length)
    if size > length:
        raise Overlong(size, length)
    room = length - _START_1.size - header_length - _DIGEST_1
    if room < 0:
        raise _Wrong("altered: the header is longer than the file")
    if 2 * length > memory:
        raise TooLarge(length)
    _check_digest_1(stream, length)
    stream.seek(_START_1.size)
    with _valid():
        header = json.loads(stream.read(header_length).decode())
        declared = {entry["name"]: tuple(entry["shape"]) for entry in header["arrays"]}
        if len(declared) < len(header["arrays"]):
            raise ValueError("an array is there twice")
        shapes = _shapes(header, declared, packed=False)
        wanted = 8 * sum(
            math.prod(_stored(shape) if "gram" in name else shape) for name, shape in shapes.items()
        )
        if wanted != room:  # before anything of that size is allocated
            raise ValueError(f"arrays of {wanted} bytes are declared, {room} are there")
        arrays = {name: _array(stream, name, shape) for name, shape in shapes.items()}
        return _moments(header, arrays), header


def _check_digest_1(stream: BinaryIO, length: int) -> None:
    stream.seek(0)
    digest, left = hashlib.sha256(), length - _DIGEST_1
    while left:
        piece = stream.read(min(_CHUNK, left))
        if not piece:
            raise _Wrong("truncated while it was read")
        digest.update(piece)
        left -= len(piece)
    if stream.read(_DIGEST_1) != digest.digest():
        raise WrongChecksum


def _whole(value: Any, low: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"expected a whole number of at least {low}, got {value!r}")
    return value


def _shapes(
    header: dict[str, Any], declared: dict[str, tuple[int, ...]], *, packed: bool
) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays: those that are declared must follow from the header."""
    d, n_groups = _whole(header["features"], 1), len(header["domains"])
    n_classes = len(header["classes"]["values"])
    known = {
        "counts": (n_groups,),
        "sums": (n_groups, d),
        "squares": (n_groups, d),
        "shift": (d,),
        "gram": (d, d),
        "gram_labelled": (d, d),
        "class_grams": (n_classes, d, d),
    }
    for name, shape in declared.items():
        wanted = known.get(name)
        if wanted is not None and packed and "gram" in name:
            wanted = _stored(wanted)
        if wanted != shape:
            raise ValueError(f"array {name!r} of shape {list(shape)} does not belong here")
    if list(declared)[:4] != ["counts", "sums", "squares", "shift"]:
        raise ValueError("arrays are missing")
    return {name: known[name] for name in declared}


def _array(stream: BinaryIO, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    packed = "gram" in name
    if not packed:
        values = np.frombuffer(stream.read(8 * math.prod(shape)), "<f8").astype(np.float64)
        result = values.reshape(shape)
    else:
        d = shape[-1]
        result = np.empty(shape)
        for matrix in result.reshape(-1, d, d):
            for i in range(d):
                matrix[i, : i + 1] = np.frombuffer(stream.read(8 * (i + 1)), "<f8")
                matrix[:i, i] = matrix[i, :i]
    if not np.isfinite(result).all():
        raise ValueError(f"{name} has values that are not finite")
    return result


def _moments(header: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Moments:
    classes = _classes(header["classes"])
    domains = np.array([int(n) for n in header["domains"]], dtype=np.int64)
    labels = np.array([_whole(n, UNLABELED) for n in header["labels"]], dtype=np.int64)
    counts = arrays["counts"]
    if labels.shape != domains.shape or not len(labels) or labels.max() >= len(classes):
        raise ValueError("labels do not fit domains and classes")
    if len(set(zip(domains.tolist(), labels.tolist(), strict=True))) < len(labels):
        raise ValueError("a group is there twice")
    low = _whole(header["min_group"], 1)
    if not np.all((counts >= low) & (counts == np.floor(counts))):
        raise ValueError(f"row counts must be whole numbers of at least min_group={low}")
    if int(counts.sum()) != header["rows"]:
        raise ValueError("row counts do not add up")
    names = header["feature_names"]
    if names is not None:
        if len(names) != header["features"] or not all(isinstance(n, str) for n in names):
            raise ValueError("column names do not fit the number of columns")
        names = np.array(names, dtype=object)
    domain_names = {int(k): str(v) for k, v in header["domain_names"].items()}
    return Moments(
        classes, domains, labels, feature_names=names, domain_names=domain_names, **arrays
    )


def _classes(coded: dict[str, Any]) -> NDArray[Any]:
    dtype, values = coded["dtype"], coded["values"]
    if dtype not in _DTYPES:
        raise ValueError(f"labels of type {dtype!r}")
    kinds = {"bool": bool, "float64": int | float, "int64": int, "object": str, "str": str}
    if not all(isinstance(v, kinds[dtype]) for v in values):
        raise ValueError(f"labels that are not of type {dtype!r}")
    classes = np.array(values, dtype=dtype)
    if any(a >= b for a, b in pairwise(values)):
        raise ValueError("labels that are not sorted")
    return classes
