"""Model files: containers of the kind `marda-model`, and their errors in sentences."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from marda._machine import available_memory, format_bytes
from marda.io.container import (
    MAX_HEADER,
    Arrays,
    ContainerError,
    Foreign,
    Kind,
    Newer,
    TooLarge,
    open_container,
    write_container,
)

__all__ = ["FORMAT", "ModelFileError", "read_file", "write_file"]

#: 2: models that centre, normalise and refine, kernel classifiers, `MDAClassifierCV`.
#: 3: source-only members, inputs that are forest leaves or aligned rows.
#: 4: compact members.
FORMAT = 4
MODEL = Kind("marda-model", FORMAT, readable=tuple(map(str, range(1, FORMAT + 1))))


class ModelFileError(ValueError):
    """A file that cannot be read as a model, or a model that a file cannot hold."""


def write_file(path: str | os.PathLike[str], content: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays and JSON content; the file appears whole or not at all."""
    try:
        write_container(path, MODEL, content, arrays)
    except TypeError as error:
        raise ModelFileError(f"a model file cannot hold {error}.") from None
    except OverflowError as error:
        raise ModelFileError(
            f"names and parameters take {format_bytes(error.args[0])}, a model file holds "
            f"{format_bytes(MAX_HEADER)} of them."
        ) from None


def read_file(
    path: str | os.PathLike[str], limit: int | None = None
) -> tuple[dict[str, Any], Arrays]:
    """JSON content and arrays, or one `ModelFileError`."""
    path = Path(path)
    limit = available_memory() if limit is None else limit
    try:
        with open_container(path, MODEL, limit=limit) as file:
            return file.content, {name: file[name] for name in file.shapes}
    except ContainerError as error:
        raise ModelFileError(f"{path} {_sentence(error, limit)}") from None


def _sentence(error: ContainerError, limit: int) -> str:
    if isinstance(error, Foreign):
        return "is not a marda model file: give one written by save or --model."
    if isinstance(error, Newer):
        return (
            f"has format {error.version}, of marda {error.marda}; this marda reads formats up to "
            f"{FORMAT}: upgrade marda."
        )
    if isinstance(error, TooLarge):
        return (
            f"declares {format_bytes(error.size)}, above the limit of {format_bytes(limit)}: "
            "raise MARDA_MEMORY if the file is yours."
        )
    return f"is damaged ({error}): copy the model file again or save the model anew."
