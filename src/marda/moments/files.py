"""Moments files: versioned, checksummed, no pickle; the format is in docs/learn/moments-files.md.

    magic, format version, length of the header, length of the file     24 bytes, little-endian
    header                                                              JSON, UTF-8
    arrays, in the order of the header                                  float64, little-endian
    SHA-256 of all of the above                                         32 bytes

A Gram is symmetric: its lower triangle is stored, row by row.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marda._memory import available_memory, format_bytes
from marda._validation import UNLABELED
from marda.io.atomic import replacing
from marda.moments.stats import Moments

__all__ = [
    "MomentsFileError",
    "load",
    "merge_files",
    "read",
    "save",
    "smallest_group",
    "summary_lines",
    "write",
]

MAGIC = b"\x89MARDA\r\n"
VERSION = 1
_START = struct.Struct("<8sIIQ")
_DIGEST = 32
_CHUNK = 2**20
_DTYPES = ("bool", "float64", "int64", "object", "str")


class MomentsFileError(ValueError):
    """A moments file that cannot be used; the message names it and says why."""


def save(moments: Moments, path: str | os.PathLike[str], *, min_group: int = 1) -> None:
    """`Moments.save`."""
    write(moments, path, min_group=min_group)


def load(path: str | os.PathLike[str]) -> Moments:
    """`Moments.load`."""
    return read(path)[0]


def merge_files(paths: list[str]) -> Moments:
    """The sum of several files; an error names the file that does not fit the first ones.

    Label names must be the same in all files that have labels: statistics of two label sets would
    add up without complaint, to a model of neither.
    """
    total, first, labelled = None, "", ""
    for path in paths:
        part = load(path)
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
    return total


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
    shown = (
        "no names" if names is None else ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
    )
    grams = [n for n in ("gram", "gram_labelled", "class_grams") if getattr(moments, n) is not None]
    lines = [
        f"{path}: {moments.n_rows} rows, {moments.n_features} columns ({shown})",
        f"  labels: {', '.join(map(str, moments.classes.tolist())) or 'none'}",
        f"  second moments: {', '.join(grams) or 'none'}",
        f"  groups of at least {header['min_group']} rows; the smallest has "
        f"{smallest_group(moments)[0]}",
    ]
    for i, (number, code) in enumerate(zip(moments.domains, moments.labels, strict=True)):
        role = "source" if number >= 0 else "target"
        domain = moments.domain_names.get(int(number), str(number))
        label = "no label" if code == UNLABELED else f"label {moments.classes[code]!s}"
        lines.append(f"  {role} {domain}, {label}: {int(moments.counts[i])} rows")
    return lines


# Write ----------------------------------------------------------------------------------------


def write(
    moments: Moments,
    path: str | os.PathLike[str],
    *,
    min_group: int = 1,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write to a temporary name, then rename: a reader never sees half a file."""
    path = Path(path)
    if isinstance(min_group, bool) or not isinstance(min_group, int | np.integer) or min_group < 1:
        raise ValueError(f"min_group must be a whole number, at least 1, got {min_group!r}.")
    size, group = smallest_group(moments)
    if size < min_group:
        raise MomentsFileError(
            f"{path}: not written: {group} has {size} rows, fewer than min_group={min_group}. "
            "Leave the group out or merge it with another."
        )
    arrays = _arrays(moments)
    header = json.dumps(_header(moments, arrays, int(min_group), extra), allow_nan=False).encode()
    length = _START.size + len(header) + 8 * sum(_count(a[1], a[2]) for a in arrays) + _DIGEST
    with replacing(path, make_folder=False) as temporary, open(temporary, "wb") as stream:
        digest = hashlib.sha256()
        start = _START.pack(MAGIC, VERSION, len(header), length)
        for piece in (start, header, *_pieces(arrays)):
            stream.write(piece)
            digest.update(piece)
        stream.write(digest.digest())
        stream.flush()
        os.fsync(stream.fileno())


def _arrays(moments: Moments) -> list[tuple[str, tuple[int, ...], bool, NDArray[np.float64]]]:
    """Name, shape, whether packed, values."""
    arrays = []
    for name in ("counts", "sums", "squares", "shift", "gram", "gram_labelled", "class_grams"):
        value = getattr(moments, name)
        if value is not None:
            arrays.append((name, value.shape, "gram" in name, value))
    return arrays


def _count(shape: tuple[int, ...], packed: bool) -> int:
    """Numbers stored for an array; Python integers do not overflow."""
    if packed:
        return math.prod(shape[:-2]) * (shape[-1] * (shape[-1] + 1) // 2)
    return math.prod(shape)


def _pieces(arrays: list[Any]) -> Iterator[bytes]:
    for _, shape, packed, value in arrays:
        if not packed:
            yield np.ascontiguousarray(value, dtype="<f8").tobytes()
            continue
        for matrix in value.reshape(-1, *shape[-2:]):
            for row in range(0, shape[-1], 256):
                rows = [matrix[i, : i + 1] for i in range(row, min(shape[-1], row + 256))]
                yield np.concatenate(rows).astype("<f8").tobytes()


def _header(
    moments: Moments, arrays: list[Any], min_group: int, extra: dict[str, Any] | None
) -> dict[str, Any]:
    names = moments.feature_names
    return {
        "what": "marda moments",
        "rows": moments.n_rows,
        "features": moments.n_features,
        "min_group": min_group,
        "classes": _coded_classes(moments.classes),
        "feature_names": None if names is None else [str(n) for n in names],
        "domains": moments.domains.tolist(),
        "labels": moments.labels.tolist(),
        "domain_names": {str(k): v for k, v in moments.domain_names.items()},
        "arrays": [{"name": a[0], "shape": list(a[1])} for a in arrays],
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
    try:
        with open(path, "rb") as stream:
            return _read(stream, os.fstat(stream.fileno()).st_size)
    except OSError as error:
        raise MomentsFileError(f"{path}: {error.strerror or error}.") from error
    except _Wrong as wrong:
        raise MomentsFileError(f"{path}: {wrong}.") from None


class _Wrong(Exception):
    """What is wrong with the file at hand."""


def _read(stream: BinaryIO, size: int) -> tuple[Moments, dict[str, Any]]:
    start = stream.read(_START.size)
    if start[: len(MAGIC)] != MAGIC[: len(start)] or not start:
        raise _Wrong("not a moments file")
    if len(start) < _START.size:
        raise _Wrong(f"truncated: {size} bytes, less than the start of a moments file")
    _, version, header_length, length = _START.unpack(start)
    if version != VERSION:
        newer = "; a newer marda is needed" if version > VERSION else ""
        raise _Wrong(f"moments format {version}, and this marda reads format {VERSION}{newer}")
    if size < length:
        raise _Wrong(f"truncated: {size} of {length} bytes")
    if size > length:
        raise _Wrong(f"altered: {size} bytes where {length} were written")
    if _START.size + header_length + _DIGEST > length:
        raise _Wrong("altered: the header is longer than the file")
    if 2 * length > (room := available_memory()):  # Grams are packed in the file
        raise _Wrong(
            f"{format_bytes(length)} long, and {format_bytes(room)} of memory are there for "
            "twice that: raise MARDA_MEMORY if the file is yours"
        )
    _check_digest(stream, length)
    stream.seek(_START.size)
    try:
        header = json.loads(stream.read(header_length).decode())
        room = length - _START.size - header_length - _DIGEST
        shapes = _checked_shapes(header, room)
        arrays = {name: _array(stream, name, shape) for name, shape in shapes.items()}
        return _moments(header, arrays), header
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise _Wrong(f"not a valid moments file ({type(error).__name__}: {error})") from error


def _check_digest(stream: BinaryIO, length: int) -> None:
    stream.seek(0)
    digest, left = hashlib.sha256(), length - _DIGEST
    while left:
        piece = stream.read(min(_CHUNK, left))
        if not piece:
            raise _Wrong("truncated while it was read")
        digest.update(piece)
        left -= len(piece)
    if stream.read(_DIGEST) != digest.digest():
        raise _Wrong("altered: its checksum does not match its contents")


def _whole(value: Any, low: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"expected a whole number of at least {low}, got {value!r}")
    return value


def _checked_shapes(header: dict[str, Any], room: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays; they must follow from the header and fill the file exactly."""
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
    shapes: dict[str, tuple[int, ...]] = {}
    for entry in header["arrays"]:
        name = entry["name"]
        if name not in known or name in shapes or tuple(entry["shape"]) != known[name]:
            raise ValueError(f"array {name!r} of shape {entry['shape']} does not belong here")
        shapes[name] = known[name]
    if list(shapes)[:4] != ["counts", "sums", "squares", "shift"]:
        raise ValueError("arrays are missing")
    wanted = 8 * sum(_count(shape, "gram" in name) for name, shape in shapes.items())
    if wanted != room:  # before anything of that size is allocated
        raise ValueError(f"arrays of {wanted} bytes are declared, {room} are there")
    return shapes


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
