"""Model files: containers of the kind `marda-model`, what they may hold, and their errors."""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._arrays import to_numpy
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
from marda.noise import Dropout, Gaussian, Noise, Poisson

__all__ = [
    "FORMAT",
    "ModelFileError",
    "Reader",
    "Writer",
    "count",
    "indices",
    "number",
    "one_of",
    "read_file",
    "write_file",
]

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


# What JSON may hold: parameters, labels and references to arrays ----------------------------------

#: Arrays of fewer bytes are stored again rather than compared with others.
SHARED_BYTES = 4096


class Writer:
    """Collects arrays under names; an array in column order is stored as its transpose."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._prefix = ""
        self._seen: dict[tuple[Any, ...], str] = {}

    def within(self, name: str) -> Writer:
        """A writer of the same arrays, whose names begin with this one."""
        inner = Writer()
        inner.arrays, inner._seen = self.arrays, self._seen
        inner._prefix = f"{self._prefix}{name}."
        return inner

    def put(self, name: str, array: Any) -> dict[str, Any]:
        """Keep an array and return its reference: products depend on its order, to the last bit."""
        array = np.asarray(to_numpy(array))
        columns = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        stored = self._store(self._prefix + name, array.T if columns else array)
        return {"array": stored, "transposed": True} if columns else {"array": stored}

    def _store(self, name: str, array: NDArray[Any]) -> str:
        """Keep an array once: models of the same rows have large parts in common."""
        if array.nbytes >= SHARED_BYTES:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            key = (array.dtype.str, array.shape, hashlib.sha256(raw).digest())
            if key in self._seen:
                return self._seen[key]
            self._seen[key] = name
        self.arrays[name] = array
        return name

    def value(self, name: str, value: Any) -> Any:
        """A parameter as JSON."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.generic):
            return self.value(name, value.item())
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, Dropout):
            return {"noise": "dropout", "p": self.value(name, value.p), "unbiased": value.unbiased}
        if isinstance(value, Gaussian):
            return {"noise": "gaussian", "sigma": self.value(name, value.sigma)}
        if isinstance(value, Poisson):
            return {"noise": "poisson"}
        if isinstance(value, dict):
            pairs = [[self.value(name, k), self.value(name, v)] for k, v in value.items()]
            return {"pairs": pairs}
        if isinstance(value, list | tuple):
            items = [self.value(name, item) for item in value]
            return {"tuple" if isinstance(value, tuple) else "list": items}
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            return self.put(self._free(f"parameter.{name}"), value)
        raise ModelFileError(
            f"{name}={type(value).__name__}(…) cannot be saved: a model file holds numbers, words "
            "and marda's noise objects only. Set it otherwise before fit, or use skops."
        )

    def _free(self, name: str) -> str:
        """A name that no array has: a grid may hold several arrays of one parameter."""
        free, n = name, 1
        while self._prefix + free in self.arrays:
            free, n = f"{name}.{n}", n + 1
        return free

    def labels(self, name: str, values: NDArray[Any]) -> Any:
        """Classes or names: numbers as an array, strings as JSON."""
        if values.dtype.kind in "fiub":
            return self.put(name, values)
        texts = values.tolist()
        if not all(isinstance(text, str) for text in texts):
            raise ModelFileError(f"{name} of type {type(texts[0]).__name__} cannot be saved.")
        return {"texts": texts, "object": values.dtype.kind == "O"}


class Reader:
    """The inverse of `Writer`; anything unexpected raises."""

    def __init__(self, arrays: Arrays):
        self.arrays = arrays

    def get(self, ref: Any, *shape: int | None, kind: str = "f") -> NDArray[Any]:
        """An array of the wanted kind and shape (None: any length)."""
        array = self._array(ref)
        fits = len(shape) == array.ndim and all(
            want in (None, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind not in kind or not fits:
            raise ValueError(f"array {ref['array']!r} has an unexpected shape or type")
        return array

    def shape(self, ref: Any) -> tuple[int, ...]:
        """Of an array."""
        return self._array(ref).shape

    def _array(self, ref: Any) -> NDArray[Any]:
        array = self.arrays[ref["array"]]
        return array.T if ref.get("transposed") else array

    def value(self, value: Any) -> Any:
        """A parameter."""
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise ValueError("a list is no parameter")
            return value
        if "float" in value:
            return float(value["float"])
        if "pairs" in value:
            return {self.value(k): self.value(v) for k, v in value["pairs"]}
        if "list" in value:
            return [self.value(item) for item in value["list"]]
        if "tuple" in value:
            return tuple(self.value(item) for item in value["tuple"])
        if "noise" in value:
            return self._noise(value)
        return self._array(value)

    def _noise(self, value: dict[str, Any]) -> Noise:
        if value["noise"] == "dropout":
            return Dropout(self.value(value["p"]), bool(value["unbiased"]))
        if value["noise"] == "gaussian":
            return Gaussian(self.value(value["sigma"]))
        if value["noise"] == "poisson":
            return Poisson()
        raise ValueError("unknown noise")

    def labels(self, value: dict[str, Any]) -> NDArray[Any]:
        """Classes or names."""
        if "texts" not in value:
            return self.get(value, None, kind="fiub")
        if not all(isinstance(text, str) for text in value["texts"]):
            raise ValueError("names must be text")
        longest = max(map(len, value["texts"]), default=0)
        # An array of strings gives every one the room of the longest.
        if not value["object"] and 4 * longest * len(value["texts"]) > MAX_HEADER:
            raise ValueError("names are too long")
        return np.array(value["texts"], dtype=object if value["object"] else str)


def count(value: Any) -> int:
    """A whole number, at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError("a count is not a whole number")
    return value


def number(value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number within bounds."""
    if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
        raise ValueError("a number is out of range")
    return float(value)


def one_of(value: Any, allowed: tuple[str, ...]) -> str:
    """A word of a list."""
    if value not in allowed:
        raise ValueError(f"expected one of {allowed}")
    return str(value)


def indices(codes: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Whole numbers in [0, size)."""
    if codes.size and (codes.min() < 0 or codes.max() >= size):
        raise ValueError("an index is out of range")
    return codes.astype(np.int64, copy=False)
