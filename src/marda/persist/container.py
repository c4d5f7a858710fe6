"""The file itself: named arrays and JSON in the safetensors layout, with a checksum.

A file is 8 bytes of header length, a JSON header and raw little-endian arrays. Nothing in it names
code, so reading can neither import nor run anything; every size is compared with the file and a
limit before memory is taken.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marda._memory import available_memory, format_bytes
from marda.io.atomic import replacing

__all__ = ["FORMAT", "ModelFileError", "read_file", "write_file"]

#: 2: models that centre, normalise and refine, kernel classifiers, `MDAClassifierCV`.
FORMAT = 2
#: Formats that are read.
READABLE = ("1", "2")
KIND = "marda-model"
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

Arrays = dict[str, NDArray[Any]]


class ModelFileError(ValueError):
    """A file that cannot be read as a model, or a model that a file cannot hold."""


def write_file(
    path: str | os.PathLike[str], version: str, content: dict[str, Any], arrays: Arrays
) -> None:
    """Write arrays and JSON content to a temporary name, then rename."""
    table, blocks, start = {}, [], 0
    for name, array in arrays.items():
        code = NAMES.get(array.dtype.newbyteorder("="))
        if code is None:
            raise ModelFileError(f"a model file cannot hold {name} of dtype {array.dtype}.")
        block = np.ascontiguousarray(array, dtype=DTYPES[code])
        stop = start + block.nbytes
        # ascontiguousarray makes a number an array of one value: the shape is the array's own.
        table[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [start, stop]}
        blocks.append(block)
        start = stop
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    metadata = {
        "format": KIND,
        "format_version": str(FORMAT),
        "marda_version": version,
        "content": text,
    }
    digest = _digest(metadata, table)
    for block in blocks:
        digest.update(_bytes(block))
    metadata["sha256"] = digest.hexdigest()
    header = json.dumps({"__metadata__": metadata, **table}, ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MAX_HEADER:
        raise ModelFileError(
            f"names and parameters take {format_bytes(len(header))}, a model file holds "
            f"{format_bytes(MAX_HEADER)} of them."
        )
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for block in blocks:
            file.write(_bytes(block))


def read_file(
    path: str | os.PathLike[str], limit: int | None = None
) -> tuple[dict[str, Any], Arrays]:
    """JSON content and arrays, or one `ModelFileError`."""
    path = Path(path)
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        limit = available_memory() if limit is None else limit
        header, start = _header(path, file, size, limit)
        metadata = _metadata(path, header)
        table = {name: entry for name, entry in header.items() if name != "__metadata__"}
        order = _check_table(path, table, size - start)
        digest = _digest(metadata, table)
        arrays = {}
        for name in order:
            entry = table[name]
            array = np.empty(entry["shape"], dtype=DTYPES[entry["dtype"]])
            if array.size and file.readinto(_bytes(array)) != array.nbytes:
                raise _damaged(path, "it ends early")
            digest.update(_bytes(array))
            arrays[name] = array
    if digest.hexdigest() != metadata.get("sha256"):
        raise _damaged(path, "its checksum is wrong")
    try:
        content = json.loads(metadata["content"])
    except (ValueError, RecursionError):
        raise _damaged(path, "its content is not JSON") from None
    if not isinstance(content, dict):
        raise _damaged(path, "its content is not an object")
    return content, arrays


def _bytes(array: NDArray[Any]) -> memoryview:
    """The raw bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _digest(metadata: dict[str, str], table: dict[str, Any]) -> Any:
    """A checksum that covers the metadata, the table of arrays and, later, their bytes."""
    covered = {name: text for name, text in metadata.items() if name != "sha256"}
    # ASCII JSON: text that is no valid UTF-8 (lone surrogates) is covered too
    return hashlib.sha256(json.dumps([covered, table], sort_keys=True).encode())


def _damaged(path: Path, why: str) -> ModelFileError:
    return ModelFileError(
        f"{path} is damaged ({why}): copy the model file again or save the model anew."
    )


def _foreign(path: Path) -> ModelFileError:
    return ModelFileError(f"{path} is not a marda model file: give one written by save or --model.")


def _header(path: Path, file: BinaryIO, size: int, limit: int) -> tuple[dict[str, Any], int]:
    start = file.read(9)
    if len(start) < 9 or start[8:9] != b"{":
        raise _foreign(path)
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER:
        raise _foreign(path)
    if length > size - 8:
        raise _damaged(path, "it ends early")
    if size > limit:
        raise ModelFileError(
            f"{path} declares {format_bytes(size)}, above the limit of {format_bytes(limit)}: "
            "raise MARDA_MEMORY if the file is yours."
        )
    file.seek(8)
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is not JSON") from None
    return header, 8 + length


def _metadata(path: Path, header: dict[str, Any]) -> dict[str, str]:
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != KIND:
        raise _foreign(path)
    if not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(path, "its metadata are not text")
    version = metadata.get("format_version", "")
    if version.isascii() and version.isdigit() and int(version[:9]) > FORMAT:
        raise ModelFileError(
            f"{path} has format {version[:9]}, of marda "
            f"{metadata.get('marda_version', '?')[:20]}; this marda reads formats up to {FORMAT}: "
            "upgrade marda."
        )
    if version not in READABLE or "content" not in metadata:
        raise _damaged(path, "its metadata are incomplete")
    return metadata


def _check_table(path: Path, table: dict[str, Any], room: int) -> list[str]:
    """Names in the order of the file, if the declared arrays fill it exactly."""
    spans = []
    for name, entry in table.items():
        try:
            shape, (start, stop) = entry["shape"], entry["data_offsets"]
            numbers = [*shape, start, stop]
            known = entry["dtype"] in DTYPES and len(entry) == 3
            known &= all(type(n) is int and n >= 0 for n in numbers)
            itemsize = np.dtype(DTYPES[entry["dtype"]]).itemsize
            size = math.prod(shape) * itemsize
            # numpy refuses shapes whose size fits no pointer, even of an array without elements.
            known &= math.prod(max(1, n) for n in shape) * itemsize < 2**63
        except (TypeError, KeyError, ValueError):
            known, size, shape, start, stop = False, 0, [], 0, 0
        if not known or len(shape) > MAX_DIMENSIONS or stop - start != size:
            raise _damaged(path, "an array is not what it declares")
        spans.append((start, stop, name))
    spans.sort()
    at = 0
    for start, stop, _ in spans:
        if start != at:
            raise _damaged(path, "its arrays do not follow each other")
        at = stop
    if at != room:
        raise _damaged(path, "it ends early" if at > room else "it has bytes that no array owns")
    return [name for _, _, name in spans]
