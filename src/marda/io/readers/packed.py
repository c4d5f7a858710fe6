"""Packed files (gzip, bzip2, xz, zstandard, a zip archive of one file) as one stream of bytes.

Streams are read piece by piece, so that what a file unpacks to is counted as it grows. What a file
declares (the size of a zip's member, the memory that xz needs) is compared with the memory there is
before any is taken.
"""

from __future__ import annotations

import bz2
import csv
import errno
import gzip
import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from marda._machine import DEFLATE_RATIO, available_memory, format_bytes
from marda.io.table import InputError

__all__ = ["PACKED_SUFFIXES", "archive_members", "head_of", "open_bytes", "packing", "reading"]

PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip")
_BZIP2 = re.compile(rb"BZh[1-9]1AY&SY")
_CHUNK, _PIECE = 2**16, 2**10
#: What programs put beside the one file that a person packed.
_CLUTTER = re.compile(r"(^|/)(__MACOSX/|\.DS_Store$|Thumbs\.db$|desktop\.ini$)|/$")


def packing(path: Path) -> str | None:
    """How a file is packed, by its first bytes."""
    with path.open("rb") as file:
        start = file.read(10)
    if _BZIP2.match(start):
        return "bzip2"
    for magic, name in (
        (b"\x1f\x8b", "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstandard"),
        (b"PK\x03\x04", "zip"),
    ):
        if start.startswith(magic):
            return name
    return None


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Errors of damaged or packed bytes as one sentence."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not {error.encoding} text throughout: name its encoding with --encoding "
            "(such as cp1252), or its format with --format."
        ) from None
    except (
        *(csv.Error, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
        *(NotImplementedError, RuntimeError, OSError, ValueError),
    ) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise  # no such file, no permission
        why = " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__
        raise InputError(f"{path} cannot be read as {what}: {why}.") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked."""
    kind = packing(path)
    with ExitStack() as stack:
        if kind == "zip":
            file: Any = _only_member(path)
        elif kind == "gzip":
            file = gzip.GzipFile(path, "rb")
        elif kind == "bzip2":
            file = bz2.BZ2File(path, "rb")
        elif kind in ("xz", "zstandard"):
            raw = stack.enter_context(path.open("rb"))
            file = io.BufferedReader(_Unpacked(path, raw, _decompressor(path, kind)), _CHUNK)
        else:
            file = path.open("rb")
        yield stack.enter_context(file)


def head_of(path: Path, n: int = 2**12) -> bytes:
    """The first bytes, unpacked."""
    with reading(path, packing(path) or "text"), open_bytes(path) as file:
        return file.read(n)


def archive_members(path: Path) -> list[str]:
    """Names of the files of a zip archive, without what programs add."""
    with reading(path, "zip"), zipfile.ZipFile(path) as archive:
        return [name for name in archive.namelist() if not _CLUTTER.search(name)]


@contextmanager
def _only_member(path: Path) -> Iterator[IO[bytes]]:
    names = archive_members(path)
    if len(names) != 1:
        shown = ", ".join(map(repr, names[:3])) + (", …" if len(names) > 3 else "")
        raise InputError(
            f"{path} is a zip archive of {len(names)} files ({shown}): unpack it and give one file."
        )
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(names[0])
        if member.flag_bits & 1:
            raise InputError(f"{path} is encrypted: unpack it and give the file inside.")
        ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}
        most = member.compress_size * ratio.get(member.compress_type, 2**62)
        if member.compress_size > path.stat().st_size or member.file_size > most:
            raise InputError(f"{path}: {names[0]!r} declares more bytes than the file can hold.")
        with archive.open(member) as file:
            yield file


class _Unpacked(io.RawIOBase):
    """Bytes of one stream or several behind each other, unpacked in small pieces.

    A thousand bytes of xz or zstandard hold at most some ten megabytes.
    """

    def __init__(self, path: Path, file: IO[bytes], decompressor: Callable[[], Any]):
        self._path, self._file, self._make = path, file, decompressor
        self._one = decompressor()
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            packed = self._one.unused_data if self._one.eof else b""
            packed = packed or self._file.read(_PIECE)
            if self._one.eof:
                packed = packed.lstrip(b"\0") or self._file.read(_PIECE)
                if not packed:
                    return 0
                self._one = self._make()
            elif not packed:
                raise EOFError("it ends early")
            try:
                self._held = memoryview(self._one.decompress(packed))
            except Exception as error:  # every library has a class of errors of its own
                if "emory" not in str(error):
                    raise zlib.error(str(error)) from None
                raise InputError(
                    f"{self._path} needs more memory to unpack than there is, "
                    f"{format_bytes(available_memory())}: raise MARDA_MEMORY, or unpack it."
                ) from None
        n = min(len(buffer), len(self._held))
        buffer[:n] = self._held[:n]
        self._held = self._held[n:]
        return n


def _decompressor(path: Path, kind: str) -> Callable[[], Any]:
    """What makes a decompressor with a limit of memory."""
    limit = max(2**20, available_memory())
    if kind == "xz":
        return lambda: lzma.LZMADecompressor(memlimit=limit)
    window = max(10, min(31, limit.bit_length() - 1))  # zstandard counts in powers of two
    try:
        new = import_module("compression.zstd")
        options = {new.DecompressionParameter.window_log_max: window}
        return lambda: new.ZstdDecompressor(options=options)
    except ImportError:
        pass
    try:
        other = import_module("zstandard")
    except ImportError:
        raise InputError(
            f"{path} is packed with zstandard, which needs a library: run pip install zstandard, "
            "or unpack the file."
        ) from None
    return lambda: other.ZstdDecompressor(max_window_size=2**window).decompressobj()
