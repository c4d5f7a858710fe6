"""npz archives and MATLAB files from anywhere, read without trusting their bytes.

npz: no pickle, no evaluated text, and no memory that is not there. `numpy.load` takes the size of
an array from its header and allocates it before it looks at the bytes; it reads the header with
`ast.literal_eval`. Here every declared size is compared with the bytes of the archive and with a
limit first. The CRC-32 of every array is checked by `zipfile`.

MATLAB, up to version 7: `scipy.io.loadmat` reads damaged files past the end of its buffers, which
ends the process. Here every length is compared with the bytes that are there, and with a limit,
before it is used. What is read: full and sparse matrices of real numbers, logical values, text, and
cells of these (MATLAB's "MAT-File Format", levels 4 and 5; level 5 with compressed elements, whose
Adler-32 is checked). Structures, objects, functions and complex numbers are left out.

    element     tag (type, bytes), data, padding to 8 bytes; or type, bytes and ≤ 4 bytes in one tag
    matrix      flags (class, logical, complex), dimensions, name, then numbers, text or cells
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import DEFLATE_RATIO, available_memory, format_bytes

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


def overstates(member: zipfile.ZipInfo, size: int) -> bool:
    """Whether a member of a zip archive of so many bytes declares more than it can hold."""
    # How small bzip2 and LZMA make a file has no useful bound.
    ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}
    most = member.compress_size * ratio.get(member.compress_type, 2**62)
    return member.compress_size > size or member.file_size > most


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
        if overstates(member, self._size):
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


# MATLAB files -------------------------------------------------------------------------------------

MAX_DEPTH = 16
MAX_BLANKS = 2**20
_NUMBERS = dict(zip((1, 2, 3, 4, 5, 6, 7), ("i1", "u1", "i2", "u2", "i4", "u4", "f4"), strict=True))
_NUMBERS |= {9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_TEXTS = {1: "latin1", 2: "latin1", 16: "utf-8", 17: "utf-16", 18: "utf-32", 4: "utf-16"}
_CELL, _CHAR, _SPARSE, _FIRST_NUMBER, _LAST_NUMBER = 1, 4, 5, 6, 15
_COMPLEX = 0x800
_LEVEL4 = {0: "f8", 1: "f4", 2: "i4", 3: "i2", 4: "u2", 5: "u1"}


class MatlabError(ValueError):
    """Why a file cannot be read: half a sentence without the file."""


def read_mat(
    path: str | os.PathLike[str],
    names: Collection[str] | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """The variables of a file: arrays, CSC arrays, object arrays of cells; text as in numpy.

    Parameters
    ----------
    path : path
        The file.
    names : collection of str, default=None
        Decode only these variables.
    limit : int, default=None
        Bytes that all variables together may take; None: the memory there is, or MARDA_MEMORY.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        room = _Room(available_memory() if limit is None else limit)
        try:
            return _read(file, size, names, room)
        except MatlabError:
            raise
        except (struct.error, ValueError, zlib.error, OverflowError) as error:
            why = " ".join(str(error).split())[:80]
            raise MatlabError(f"it is not whole: {why}") from None


class _Room:
    """How many bytes may still be taken."""

    def __init__(self, limit: int):
        self.limit = self.left = limit

    def take(self, n: int) -> None:
        self.left -= n
        if self.left < 0:
            raise MatlabError(
                f"its variables take more than {format_bytes(self.limit)}, the memory there is: "
                "raise MARDA_MEMORY if the file is yours"
            )


def _read(file: IO[bytes], size: int, names: Collection[str] | None, room: _Room) -> dict[str, Any]:
    start = file.read(128)
    if len(start) >= 4 and 0 in start[:4]:  # level 5 begins with text
        file.seek(0)
        return _level4(file, size, names, room)
    order = {b"IM": "<", b"MI": ">"}.get(start[126:128])
    if order is None:
        raise MatlabError("it does not begin as one")
    (version,) = struct.unpack(order + "H", start[124:126])
    if version >> 8 == 2:
        raise MatlabError("it is MATLAB 7.3 (HDF5): save it with -v7")
    if version >> 8 != 1:
        raise MatlabError(f"it is of an unknown version ({version >> 8})")
    found: dict[str, Any] = {}
    at = 128
    while at < size:
        tag = file.read(8)
        kind, length = struct.unpack(order + "II", tag)
        if length > size - at - 8:
            raise MatlabError("it ends early")
        room.take(length)
        data = file.read(length)
        at += 8 + length
        if kind == _COMPRESSED:
            kind, data = _inflated(data, order, room)
        if kind != _MATRIX:
            raise MatlabError(f"a variable is of an unknown kind ({kind})")
        name, value = _Variable(data, order, room, names).matrix()
        if name and name in found:
            raise MatlabError(f"it holds {name!r} twice")
        found[name] = value
    return {name: value for name, value in found.items() if value is not None}


def _inflated(data: bytes, order: str, room: _Room) -> tuple[int, bytes]:
    """Kind and data of a compressed element; nothing beyond its declared length is made."""
    stream = zlib.decompressobj()
    tag = stream.decompress(data, 8)
    kind, length = struct.unpack(order + "II", tag)
    if length > DEFLATE_RATIO * len(data):
        raise MatlabError("a variable declares more bytes than the file can hold")
    room.take(length)
    inner = stream.decompress(stream.unconsumed_tail, length) if length else b""
    if len(inner) != length:
        raise MatlabError("a compressed variable ends early")
    # The checksum comes after the last byte.
    if stream.decompress(stream.unconsumed_tail, 8).strip(b"\0") or not stream.eof:
        raise MatlabError("a compressed variable is longer than it declares, or not whole")
    return kind, inner


class _Variable:
    """One variable: elements one after the other in a buffer."""

    def __init__(
        self, data: Any, order: str, room: _Room, names: Collection[str] | None, depth: int = 0
    ):
        self.data, self.order, self.room = memoryview(data), order, room
        self.names, self.depth, self.at = names, depth, 0

    def element(self) -> tuple[int, memoryview]:
        """Type and data of the next element."""
        (word,) = struct.unpack_from(self.order + "I", self.data, self.at)
        kind, length = word & 0xFFFF, word >> 16
        start = self.at + 4
        if length:  # both in one word: up to four bytes follow it
            if length > 4:
                raise MatlabError("an element is not what it declares")
            self.at += 8
        else:
            (length,) = struct.unpack_from(self.order + "I", self.data, self.at + 4)
            start = self.at + 8
            self.at = start + length + (-length % 8)
        if start + length > len(self.data):
            raise MatlabError("an element is longer than its variable")
        return kind, self.data[start : start + length]

    def numbers(self) -> NDArray[Any]:
        """The next element as a vector of its stored type."""
        kind, data = self.element()
        if kind not in _NUMBERS:
            raise MatlabError(f"numbers of an unknown type ({kind})")
        dtype = np.dtype(self.order + _NUMBERS[kind])
        if len(data) % dtype.itemsize:
            raise MatlabError("an element is not what it declares")
        self.room.take(len(data))
        return np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))

    def matrix(self) -> tuple[str, Any]:
        """Name and value; None for what is not read."""
        kind, flags = self.element()
        if kind != 6 or len(flags) != 8:
            raise MatlabError("a variable has no flags")
        (word,) = struct.unpack(self.order + "I4x", flags)
        if word & 0xFF in (0, 17):  # functions and objects of MATLAB's own making
            return "", None
        shape = self._shape()
        kind, text = self.element()
        if kind not in (1, 2):
            raise MatlabError("a variable has no name")
        name = bytes(text).decode("latin1")
        if self.names is not None and self.depth == 0 and name not in self.names:
            return name, None
        value = self._value(word, shape)
        if value is not None and len(self.data) - self.at >= 8:
            raise MatlabError(f"{name!r} is longer than it declares")
        return name, value

    def _shape(self) -> tuple[int, ...]:
        kind, data = self.element()
        if kind != 5 or len(data) % 4 or not 8 <= len(data) <= 128:
            raise MatlabError("a variable has no dimensions")
        shape = struct.unpack(f"{self.order}{len(data) // 4}i", data)
        if min(shape) < 0 or math.prod(max(1, n) for n in shape) >= 2**59:
            raise MatlabError(f"a variable has impossible dimensions {shape}")
        return shape

    def _value(self, word: int, shape: tuple[int, ...]) -> Any:
        kind, n = word & 0xFF, math.prod(shape)
        if word & _COMPLEX:
            return None
        if _FIRST_NUMBER <= kind <= _LAST_NUMBER:
            values = self.numbers()
            if len(values) != n:
                raise MatlabError(f"{len(values)} numbers where dimensions {shape} are declared")
            return values.reshape(shape, order="F")
        if kind == _CHAR:
            return self._text(shape)
        if kind == _SPARSE:
            return self._sparse(shape)
        if kind == _CELL:
            return self._cells(shape)
        return None  # structures and objects

    def _text(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array of strings, one per row of characters."""
        kind, data = self.element()
        n = math.prod(shape)
        if kind not in _TEXTS:
            raise MatlabError(f"text of an unknown type ({kind})")
        self.room.take(20 * len(data))
        if not len(data):  # scipy reads it as blanks, too
            if n > MAX_BLANKS:
                raise MatlabError("text is shorter than it declares")
            text = " " * n
        else:
            code = _TEXTS[kind]
            if code in ("utf-16", "utf-32"):
                code += "-le" if self.order == "<" else "-be"
            text = bytes(data).decode(code)
        if not n and not text:
            return np.array([], dtype="U1")
        if math.prod(shape[:-1]) == 1 and len(text.encode("utf-16-le")) == 2 * n:
            return np.array([text]).reshape(shape[:-1])  # MATLAB counts halves of rare characters
        if len(text) != n:
            raise MatlabError(f"{len(text)} characters where dimensions {shape} are declared")
        letters = np.array(list(text), dtype="U1").reshape(shape, order="F")
        rows = np.ascontiguousarray(letters).view(f"U{shape[-1]}")
        return rows.reshape(shape[:-1])

    def _sparse(self, shape: tuple[int, ...]) -> Any:
        if len(shape) != 2:
            raise MatlabError("a sparse matrix has two dimensions")
        rows, ends, values = self.numbers(), self.numbers(), self.numbers()
        n, d = shape
        if rows.dtype.kind not in "iu" or ends.dtype.kind not in "iu" or len(ends) != d + 1:
            raise MatlabError("a sparse matrix is not what it declares")
        rows, ends = rows.astype(np.int64), ends.astype(np.int64)
        count = int(ends[-1])
        if ends[0] != 0 or (np.diff(ends) < 0).any() or not count <= min(len(rows), len(values)):
            raise MatlabError("a sparse matrix is not what it declares")
        rows, values = rows[:count], values[:count]
        if count and not (rows.min() >= 0 and rows.max() < n):
            raise MatlabError("a sparse matrix has a row that is not there")
        self.room.take(8 * (n + 1))  # as rows, it needs an end for each
        return sp.csc_array((values, rows, ends), shape=shape)

    def _cells(self, shape: tuple[int, ...]) -> NDArray[Any]:
        n = math.prod(shape)
        if self.depth >= MAX_DEPTH:
            raise MatlabError(f"cells in cells, more than {MAX_DEPTH} deep")
        if n > (len(self.data) - self.at) // 8:  # every cell has at least a tag
            raise MatlabError(f"fewer cells than its dimensions {shape} declare")
        self.room.take(200 * n)
        cells = np.empty(n, dtype=object)
        for k in range(n):
            kind, data = self.element()
            if kind != _MATRIX:
                raise MatlabError("a cell is not a matrix")
            if len(data):
                inner = _Variable(data, self.order, self.room, None, self.depth + 1)
                cells[k] = inner.matrix()[1]
            else:
                cells[k] = np.empty((0, 0))
        return cells.reshape(shape, order="F")


def _level4(
    file: IO[bytes], size: int, names: Collection[str] | None, room: _Room
) -> dict[str, Any]:
    """Variables of level 4: five numbers, a name, the numbers by columns."""
    found: dict[str, Any] = {}
    at, order = 0, "<"
    while at < size:
        head = file.read(20)
        kind = struct.unpack("<i", head[:4])[0]
        if not 0 <= kind <= 5000:
            order = ">"
            kind = struct.unpack(">i", head[:4])[0]
        n, d, imaginary, length = struct.unpack(order + "4i", head[4:])
        machine, rest = divmod(kind, 1000)
        code, what = rest // 10, rest % 10
        good = machine == (order == ">") and code in _LEVEL4 and what in (0, 1, 2)
        if not good or n < 0 or d < 0 or imaginary not in (0, 1) or not 1 <= length <= 2**16:
            raise MatlabError("it does not begin as one")
        dtype = np.dtype(order + _LEVEL4[code])
        bytes_ = n * d * dtype.itemsize
        at += 20 + length + bytes_ * (1 + imaginary)
        if at > size:
            raise MatlabError("it ends early")
        name = file.read(length).rstrip(b"\0").decode("latin1")
        if name in found:
            raise MatlabError(f"it holds {name!r} twice")
        if imaginary or (names is not None and name not in names):
            file.seek(at)
            found[name] = None
            continue
        room.take(20 * bytes_ if what == 1 else 2 * bytes_)
        values = np.frombuffer(file.read(bytes_), dtype).astype(dtype.newbyteorder("="))
        matrix = values.reshape((n, d), order="F")
        if what == 0:
            found[name] = matrix
        else:
            found[name] = _text4(matrix) if what == 1 else _sparse4(matrix, room)
    return {name: value for name, value in found.items() if value is not None}


def _text4(codes: NDArray[Any]) -> NDArray[Any]:
    """Rows of character codes as strings."""
    if codes.size and not ((codes >= 0) & (codes < 256) & (codes % 1 == 0)).all():
        raise MatlabError("text of characters that do not exist")
    return np.array(["".join(map(chr, row)) for row in codes.astype(int).tolist()], dtype=str)


def _sparse4(table: NDArray[Any], room: _Room) -> Any:
    """Rows (row, column, value), the last one the dimensions; None for complex numbers."""
    if table.shape[1] == 4:
        return None
    wrong = MatlabError("a sparse matrix is not what it declares")
    if table.shape[1] != 3 or not len(table):
        raise wrong
    places = table[:, :2].astype(np.float64)
    shape = places[-1]
    inside = (places[:-1] >= 1) & (places[:-1] <= shape) & (places[:-1] % 1 == 0)
    if not ((shape >= 0) & (shape < 2**31) & (shape % 1 == 0)).all() or not inside.all():
        raise wrong
    room.take(8 * int(shape.sum() + 2))
    rows, columns = places[:-1].T.astype(np.int64) - 1
    n, d = shape.astype(int).tolist()
    return sp.csc_array((table[:-1, 2], (rows, columns)), shape=(n, d))
