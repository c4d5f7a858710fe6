"""npz archives from anywhere: no pickle, no evaluated text, and no memory that is not there.

`numpy.load` takes the size of an array from its header and allocates it before it looks at the
bytes; it reads the header with `ast.literal_eval`. Here every declared size is compared with the
bytes of the archive and with a limit first. The CRC-32 of every array is checked by `zipfile`.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from marda._machine import DEFLATE_RATIO, available_memory, format_bytes

__all__ = ["Npz", "NpzError", "open_npz"]

_MAGIC = b"\x93NUMPY"
_CHUNK = 2**20
_KEY = re.compile(
    r"\s*(?:"
    r"'descr'\s*:\s*(?P<descr>'[^'\\]*'|\[.*\])|"
    r"'fortran_order'\s*:\s*(?P<order>True|False)|"
    r"'shape'\s*:\s*\((?P<shape>[0-9,\s]*)\)"
    r")\s*(?:,|(?=\}))"
)
_TYPE = re.compile(r"[|<>=]?[biufcSUmM]\d+(?:\[\d*[a-zA-Zμ]+\])?")


class NpzError(ValueError):
    """Why an archive, or an array of it, cannot be read: half a sentence without the file."""


class Npz:
    """The arrays of an open archive, read one at a time.

    Parameters
    ----------
    archive : ZipFile
        Open for reading.
    size : int
        Bytes of the file.
    limit : int
        Bytes that all arrays together may take.
    """

    def __init__(self, archive: zipfile.ZipFile, size: int, limit: int):
        self._archive, self._size, self._limit = archive, size, limit
        self._taken = 0
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise NpzError(f"it holds {name[:80]!r}, which is not an array")
            if name in self._members:
                raise NpzError(f"it holds {name[:80]!r} twice")
            self._members[name] = member

    @property
    def files(self) -> list[str]:
        """Names of the arrays, in the order of the archive."""
        return list(self._members)

    def __getitem__(self, name: str) -> NDArray[Any]:
        with _refusing():
            return self._read(name[:80], self._members[name])

    def _read(self, name: str, member: zipfile.ZipInfo) -> NDArray[Any]:
        self._check_member(name, member)
        with self._archive.open(member) as stream:
            dtype, shape, columns_first, start = _header(name, stream)
            wanted = math.prod(shape) * dtype.itemsize
            if wanted != member.file_size - start:
                raise NpzError(
                    f"{name!r} declares {format_bytes(wanted)}, and "
                    f"{format_bytes(member.file_size - start)} are there"
                )
            flat = np.empty(math.prod(shape), dtype)
            into, at = flat.view(np.uint8).data if wanted else memoryview(b""), 0
            while at < wanted:
                piece = stream.read(min(_CHUNK, wanted - at))  # at the end it checks the CRC
                if not piece:
                    raise NpzError("it ends early")
                into[at : at + len(piece)] = piece
                at += len(piece)
            if stream.read(1):
                raise NpzError(f"{name!r} is longer than it declares")
        return flat.reshape(shape, order="F" if columns_first else "C")

    def _check_member(self, name: str, member: zipfile.ZipInfo) -> None:
        if member.flag_bits & 1:
            raise NpzError("it is encrypted")
        # How small bzip2 and LZMA make a file has no useful bound: there the limit alone counts.
        ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}
        most = member.compress_size * ratio.get(member.compress_type, self._limit)
        if member.compress_size > self._size or member.file_size > most:
            raise NpzError(f"{name!r} declares more bytes than the file can hold")
        self._taken += member.file_size
        if self._taken > self._limit:
            raise NpzError(
                f"its arrays take more than {format_bytes(self._limit)}, the memory there is: "
                "raise MARDA_MEMORY if the file is yours"
            )


@contextmanager
def open_npz(path: str | os.PathLike[str], limit: int | None = None) -> Iterator[Npz]:
    """Open an archive; what cannot be read raises `NpzError`, a missing file its own error.

    `limit` bounds the bytes of all arrays together; None: the memory there is, or MARDA_MEMORY.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        with _refusing():
            archive = zipfile.ZipFile(file)
        with archive:
            with _refusing():
                _check_count(file, size, archive)
                opened = Npz(archive, size, available_memory() if limit is None else limit)
            yield opened


def _check_count(file: IO[bytes], size: int, archive: zipfile.ZipFile) -> None:
    """`zipfile` does not compare the members it finds with their number at the end of the file."""
    position = file.tell()
    file.seek(size - 22 - len(archive.comment))
    end = file.read(22)
    file.seek(position)
    found, count = len(archive.infolist()), int.from_bytes(end[10:12], "little")
    if end[:4] != b"PK\x05\x06" or count not in (found, 0xFFFF):
        raise NpzError(f"{found} arrays are found where {count} are declared")


@contextmanager
def _refusing() -> Iterator[None]:
    """Damaged bytes lead `zipfile` to a dozen kinds of error: all of them mean the same."""
    try:
        yield
    except (NpzError, KeyError, MemoryError):
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:80] or type(error).__name__
        raise NpzError(f"it is not a whole archive: {why}") from None


def _header(name: str, stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape, whether columns come first, and where the numbers start."""
    start = stream.read(8)
    if start[:6] != _MAGIC or len(start) != 8 or start[6] not in (1, 2, 3):
        raise NpzError(f"{name!r} is not an array")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > 2**16:
        raise NpzError(f"{name!r} has a header of {length} bytes")
    text = stream.read(length).decode("utf-8" if start[6] == 3 else "latin1")
    fields: dict[str, str] = {}
    at = 1
    while found := _KEY.match(text, at):
        fields |= {key: value for key, value in found.groupdict().items() if value is not None}
        at = found.end()
    if text[:1] != "{" or len(fields) != 3 or text[at:].strip() != "}":
        raise NpzError(f"{name!r} has no header that describes an array")
    descr = fields["descr"]
    if descr.startswith("["):
        raise NpzError(f"{name!r} holds records: leave it out")
    if re.fullmatch(r"[|<>=]?O\d*", descr[1:-1]):
        raise NpzError(f"{name!r} holds Python objects, and allow_pickle is never used")
    try:
        dtype = np.dtype(descr[1:-1]) if _TYPE.fullmatch(descr[1:-1]) else None
    except TypeError:
        dtype = None
    if dtype is None:
        raise NpzError(f"{name!r} is of type {descr[:40]}, neither numbers nor text")
    shape = tuple(int(n) for n in fields["shape"].split(",") if n.strip())
    # numpy refuses sizes that do not fit a pointer, even of an array without elements.
    if len(shape) > 32 or math.prod(max(1, n) for n in shape) * dtype.itemsize >= 2**63:
        raise NpzError(f"{name!r} has an impossible shape")
    return dtype, shape, fields["order"] == "True", 8 + width + length
