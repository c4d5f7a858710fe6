"""Rows of two domains: a sample that fits a domain classifier, and one block of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._order import row_order

__all__ = ["places", "sample", "stack"]

MAX_CELLS = 2_000_000  # values of a domain that a distance looks at


def sample(X: Any, n: int, rng: np.random.Generator) -> Any:
    """At most n rows, fewer if they are long; the same ones, however rows come."""
    return X[places(X, n, rng)]


def places(X: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Where the rows of such a sample are."""
    n = min(n, max(100, MAX_CELLS // max(1, X.shape[1])))
    order = row_order(X)
    if len(order) > n:
        order = order[np.sort(rng.choice(len(order), n, replace=False))]
    return order


def stack(a: Any, b: Any) -> Any:
    """Rows of a, then of b."""
    if sp.issparse(a) or sp.issparse(b):
        return sp.csr_array(sp.vstack([a, b]))
    return np.concatenate([a, b])
