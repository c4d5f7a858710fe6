"""What a fit gives, and how it is attempted: an error of one must not take the others with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.experiments.specs import Spec
from marda.experiments.worker import describe


@dataclass(frozen=True)
class Fitted:
    """Predictions for one spec, or the error that came instead."""

    spec: Spec
    predicted: NDArray[Any] | None = None
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    n_iter: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    message: str = ""


def attempt(specs: Sequence[Spec], fits: Iterator[Fitted]) -> Iterator[Fitted]:
    """What ``fits`` gives for ``specs``, with its warnings; specs that an error cut off fail."""
    found: list[Fitted] = []
    error_text = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for fitted in fits:
                found.append(fitted)  # one by one: what came before an error counts
        except Exception as error:
            error_text = describe(error)
    told = "; ".join(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))
    yield from (replace(item, message=told) for item in found)
    have = {item.spec for item in found}
    yield from (Fitted(spec, message=error_text) for spec in specs if spec not in have)


def balanced(hit: NDArray[np.bool_], y: NDArray[Any]) -> float:
    """Mean over the classes in ``y`` of the share of rows that were hit."""
    return float(np.mean([np.mean(hit[y == label]) for label in np.unique(y)]))
