"""scikit-learn's digits, half of them as they are, the other half blurred, dimmed, turned, …."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.ndimage as nd
from numpy.typing import NDArray

from marda.datasets.base import DataError, Dataset, Domain, LazyDomains

Array = NDArray[Any]


def _noise(images: Array, rng: np.random.Generator) -> Array:
    return np.clip(images + rng.normal(0, 6, images.shape), 0, 16)


def _background(images: Array, rng: np.random.Generator) -> Array:
    return np.maximum(images, rng.uniform(0, 10, (len(images), 1, 1)))


CHANGES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "same": lambda x, _: x,
    "blur": lambda x, _: nd.gaussian_filter(x, (0, 1, 1)),
    "dim": lambda x, _: 0.3 * x,
    "move": lambda x, _: np.roll(x, 1, 2),
    "turn": lambda x, _: nd.rotate(x, 20, axes=(1, 2), reshape=False),
    "noise": _noise,
    "gamma": lambda x, _: x**2 / 16,
    "cover": lambda x, _: np.where(np.arange(8) < 3, 0, x),
    "background": _background,
}
TASKS = tuple(CHANGES)


def load(change: str) -> Dataset:
    """900 digits as they are, and the 897 others changed."""
    if change not in CHANGES:
        raise DataError(f"no change {change!r} of digits: choose from {', '.join(CHANGES)}.")
    sides = ("source", "target")
    return Dataset(
        name=f"digits {change}",
        domains=LazyDomains({side: partial(_domain, change, side) for side in sides}),
        names=tuple("0123456789"),
        licence="CC BY 4.0 (UCI machine learning repository), part of scikit-learn",
        citation="Alpaydin, Kaynak: Optical recognition of handwritten digits, UCI 1998.",
        kind="table",
        identity=json.dumps({"digits": change}),
    )


def _domain(change: str, side: str) -> Domain:
    return _both(change)[side == "target"]


@lru_cache(maxsize=2)
def _both(change: str) -> tuple[Domain, Domain]:
    """One stream of random numbers runs through all changes, in their order."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    data = load_digits()
    for name, changed in CHANGES.items():
        order = rng.permutation(len(data.images))
        first, second = order[:900], order[900:]
        images = changed(data.images[second], rng)
        if name == change:
            break
    y = data.target.astype(np.int64)
    target = images.reshape(len(second), -1).astype(float)
    return Domain(data.data[first], y[first]), Domain(target, y[second])
