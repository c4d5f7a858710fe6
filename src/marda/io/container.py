"""One file of named arrays and JSON, in the safetensors layout, with a checksum.

    length of the header                                                8 bytes, little-endian
    header: type, shape and place of every array, and `__metadata__`    JSON, UTF-8
    arrays, one after the other                                         little-endian

`__metadata__` holds the kind of the file, the version of its format, its content (JSON text) and a
SHA-256 of all else. Nothing in a file names code, so reading can neither import nor run anything;
every size is compared with the file and a limit before memory is taken.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.writing import replacing

MAX_HEADER = 256 * 2**20
MAX_DIMENSIONS = 4
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
_CHUNK = 2**20

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name in the header, the format that is written, those that are read."""

    name: str
    version: int
    readable: tuple[str, ...]


@dataclass(frozen=True)
class Lazy:
    """An array that is made in pieces, twice: for the checksum and for the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    pieces: Callable[[], Iterator[NDArray[Any]]]


class ContainerError(Exception):
    """Why a file cannot be used; whoever opened it says it in a sentence that names the file."""


class Foreign(ContainerError):
    """Another kind of file."""


class Damaged(ContainerError):
    """Not what was written: half a sentence."""


class Truncated(Damaged):
    """Shorter than it was, where that can be told: bytes that are there and bytes that were."""

    def __init__(self, size: int, written: int):
        super().__init__("it ends early")
        self.size, self.written = size, written


class Overlong(Damaged):
    """Longer than it was: bytes that are there and bytes that were."""

    def __init__(self, size: int, written: int):
        super().__init__("it has bytes that no array owns")
        self.size, self.written = size, written


class WrongChecksum(Damaged):
    """Some of its bytes are not those that were written."""


class Newer(ContainerError):
    """A format of the future: its number, and the marda that wrote it."""

    def __init__(self, version: str, marda: str):
        super().__init__(version)
        self.version, self.marda = version, marda


class TooLarge(ContainerError):
    """More bytes than may be read."""

    def __init__(self, size: int):
        super().__init__(str(size))
        self.size = size


# Write --------------------------------------------------------------------------------------------


def write_container(
    path: str | os.PathLike[str],
    kind: Kind,
    content: dict[str, Any],
    arrays: Mapping[str, NDArray[Any] | Lazy],
    *,
    make_folder: bool = True,
) -> None:
    """Write to a temporary name, then rename: a reader never sees half a file.

    Raises
    ------
    TypeError
        An array of a type that files do not hold.
    OverflowError
        More than `MAX_HEADER` of names and content.
    """
    import marda  # not above: it is not there yet while its layers are imported

    blocks = {name: a if isinstance(a, Lazy) else _whole(a) for name, a in arrays.items()}
    table: dict[str, Any] = {}
    start = 0
    for name, block in blocks.items():
        code = NAMES.get(block.dtype.newbyteorder("="))
        if code is None:
            raise TypeError(f"{name} of dtype {block.dtype}")
        stop = start + math.prod(block.shape) * block.dtype.itemsize
        table[name] = {"dtype": code, "shape": list(block.shape), "data_offsets": [start, stop]}
        start = stop
    metadata = {
        "format": kind.name,
        "format_version": str(kind.version),
        "marda_version": marda.__version__,
        "content": json.dumps(content, ensure_ascii=False, allow_nan=False),
    }
    digest = start_digest(metadata, table)
    for piece in _pieces(blocks):
        digest.update(piece)
    metadata["sha256"] = digest.hexdigest()
    header = json.dumps({"__metadata__": metadata, **table}, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise OverflowError(len(header))
    with replacing(path, make_folder=make_folder) as temporary, temporary.open("wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for piece in _pieces(blocks):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def _whole(array: NDArray[Any]) -> Lazy:
    return Lazy(array.dtype, array.shape, lambda: iter((array,)))


def _pieces(blocks: Mapping[str, Lazy]) -> Iterator[memoryview]:
    for block in blocks.values():
        dtype = DTYPES[NAMES[block.dtype.newbyteorder("=")]]
        for piece in block.pieces():
            yield _bytes(np.ascontiguousarray(piece, dtype=dtype))


def _bytes(array: NDArray[Any]) -> memoryview:
    """The raw bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def start_digest(metadata: Mapping[str, str], table: Mapping[str, Any]) -> Any:
    """A checksum that covers the metadata, the table of arrays and, later, their bytes."""
    covered = {name: text for name, text in metadata.items() if name != "sha256"}
    # ASCII JSON: text that is no valid UTF-8 (lone surrogates) is covered too
    return hashlib.sha256(json.dumps([covered, table], sort_keys=True).encode())


# Read ---------------------------------------------------------------------------------------------


class Container:
    """An open file whose checksum is right.

    Attributes
    ----------
    content : dict
        What was written beside the arrays.
    shapes : dict of str to tuple of int
        Of the arrays, in the order of the file.
    """

    def __init__(
        self, file: BufferedReader, start: int, content: dict[str, Any], table: dict[str, Any]
    ):
        self._file, self._start, self._table = file, start, table
        self.content = content
        self.shapes = {name: tuple(entry["shape"]) for name, entry in table.items()}

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of an array."""
        return np.dtype(DTYPES[self._table[name]["dtype"]])

    def seek(self, name: str) -> BufferedReader:
        """The stream, at the first byte of an array."""
        self._file.seek(self._start + self._table[name]["data_offsets"][0])
        return self._file

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = np.empty(self.shapes[name], dtype=self.dtype(name))
        stream = self.seek(name)
        if array.size and stream.readinto(_bytes(array)) != array.nbytes:
            raise Damaged("it ends early")
        return array


@contextmanager
def open_container(path: str | os.PathLike[str], kind: Kind, *, limit: int) -> Iterator[Container]:
    """Open a file of this kind, of at most `limit` bytes; all checks come first.

    Raises
    ------
    ContainerError
        It is foreign, damaged, too large or of a newer format.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, start = _header(file, size, limit)
        metadata = _metadata(header, kind)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        table = _check_table(entries, size, start)
        digest, left = start_digest(metadata, entries), size - start
        file.seek(start)
        while left:
            piece = file.read(min(_CHUNK, left))
            if not piece:
                raise Truncated(size - left, size)
            digest.update(piece)
            left -= len(piece)
        if digest.hexdigest() != metadata.get("sha256"):
            raise WrongChecksum("its checksum is wrong")
        try:
            content = json.loads(metadata["content"])
        except (ValueError, RecursionError):
            raise Damaged("its content is not JSON") from None
        if not isinstance(content, dict):
            raise Damaged("its content is not an object")
        yield Container(file, start, content, table)


def _header(file: BufferedReader, size: int, limit: int) -> tuple[dict[str, Any], int]:
    start = file.read(9)
    if len(start) < 9 or start[8:9] != b"{":
        raise Foreign
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        raise Foreign
    if length > size - 8:
        raise Truncated(size, 8 + length)
    if size > limit:
        raise TooLarge(size)
    file.seek(8)
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError):
        raise Damaged("its header is not JSON") from None
    return header, 8 + length


def _metadata(header: dict[str, Any], kind: Kind) -> dict[str, str]:
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != kind.name:
        raise Foreign
    if not all(isinstance(value, str) for value in metadata.values()):
        raise Damaged("its metadata are not text")
    version = metadata.get("format_version", "")
    if version.isascii() and version.isdigit() and int(version[:9]) > kind.version:
        raise Newer(version[:9], metadata.get("marda_version", "?")[:20])
    if version not in kind.readable or "content" not in metadata:
        raise Damaged("its metadata are incomplete")
    return metadata


def _check_table(table: dict[str, Any], size: int, start: int) -> dict[str, Any]:
    """The table in the order of the file, if the declared arrays fill it exactly."""
    spans = []
    for name, entry in table.items():
        try:
            shape, (first, last) = entry["shape"], entry["data_offsets"]
            numbers = [*shape, first, last]
            known = entry["dtype"] in DTYPES and len(entry) == 3
            known &= all(type(n) is int and n >= 0 for n in numbers)
            itemsize = np.dtype(DTYPES[entry["dtype"]]).itemsize
            length = math.prod(shape) * itemsize
            # numpy refuses shapes whose size fits no pointer, even of an array without elements.
            known &= math.prod(max(1, n) for n in shape) * itemsize < 2**63
        except (TypeError, KeyError, ValueError):
            known, length, shape, first, last = False, 0, [], 0, 0
        if not known or len(shape) > MAX_DIMENSIONS or last - first != length:
            raise Damaged("an array is not what it declares")
        spans.append((first, last, name))
    spans.sort()
    at = 0
    for first, last, _ in spans:
        if first != at:
            raise Damaged("its arrays do not follow each other")
        at = last
    if start + at > size:
        raise Truncated(size, start + at)
    if start + at < size:
        raise Overlong(size, start + at)
    return {name: table[name] for _, _, name in spans}
