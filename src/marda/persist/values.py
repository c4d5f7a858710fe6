"""Parameters, labels and references to arrays: what JSON may hold in a model file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.noise import Dropout, Gaussian, Noise, Poisson
from marda.persist.container import Arrays, ModelFileError

__all__ = ["Reader", "Writer", "count", "indices", "one_of"]


class Writer:
    """Collects arrays under names; an array in column order is stored as its transpose."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def put(self, name: str, array: Any) -> dict[str, Any]:
        """Keep an array and return its reference: products depend on its order, to the last bit."""
        array = np.asarray(array)
        columns = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        self.arrays[name] = array.T if columns else array
        return {"array": name, "transposed": True} if columns else {"array": name}

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
        if isinstance(value, list | tuple | np.ndarray):
            array = np.asarray(value)
            if array.dtype.kind in "fiub":
                return self.put(f"parameter.{name}", array)
        raise ModelFileError(
            f"{name}={type(value).__name__}(…) cannot be saved: a model file holds numbers, words "
            "and marda's noise objects only. Set it otherwise before fit, or use skops."
        )

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
        array = self.arrays[ref["array"]]
        array = array.T if ref.get("transposed") else array
        fits = len(shape) == array.ndim and all(
            want in (None, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind not in kind or not fits:
            raise ValueError(f"array {ref['array']!r} has an unexpected shape or type")
        return array

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
        if "noise" in value:
            return self._noise(value)
        return self.arrays[value["array"]]

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
        return np.array(value["texts"], dtype=object if value["object"] else str)


def count(value: Any) -> int:
    """A whole number, at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError("a count is not a whole number")
    return value


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
