"""Fewer rows of every domain, with a share of every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import UNLABELED, Labels

__all__ = ["chosen_rows", "sample"]


def sample(
    X: Any, labels: Labels, domain: NDArray[np.int64], max_rows: int, seed: int
) -> tuple[Any, Labels, NDArray[np.int64]]:
    """The rows that `chosen_rows` draws; the given ones if that is all of them."""
    chosen = chosen_rows(labels.codes, domain, max_rows, seed)
    if len(chosen) == len(domain):
        return X, labels, domain
    return X[chosen], labels._replace(codes=labels.codes[chosen]), domain[chosen]


def chosen_rows(
    codes: NDArray[np.int64], domain: NDArray[np.int64], max_rows: int, seed: int
) -> NDArray[np.int64]:
    """At most `max_rows` rows of every domain; a class keeps its share, and at least 20 rows."""
    rng = np.random.default_rng(seed)
    keep = np.zeros(len(domain), dtype=bool)
    for d in np.unique(domain):
        mine = np.flatnonzero(domain == d)
        share = max_rows / len(mine)
        for c in np.unique(codes[mine]):
            rows = mine[codes[mine] == c]
            wanted = len(rows)
            if share < 1 and not (d < 0 and c != UNLABELED):
                wanted = min(wanted, max(20, int(share * len(rows))))
            keep[rng.permutation(rows)[:wanted]] = True
    return np.flatnonzero(keep)
