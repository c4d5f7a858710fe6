"""Fewer rows of every domain, with a share of every class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import UNLABELED, Labels

__all__ = ["sample"]


def sample(
    X: Any, labels: Labels, domain: NDArray[np.int64], max_rows: int, seed: int
) -> tuple[Any, Labels, NDArray[np.int64]]:
    """At most `max_rows` rows of every domain; a class keeps its share, and at least 20 rows."""
    rng = np.random.default_rng(seed)
    keep = np.zeros(len(domain), dtype=bool)
    for d in np.unique(domain):
        mine = np.flatnonzero(domain == d)
        share = max_rows / len(mine)
        for c in np.unique(labels.codes[mine]):
            rows = mine[labels.codes[mine] == c]
            wanted = len(rows)
            if share < 1 and not (d < 0 and c != UNLABELED):
                wanted = min(wanted, max(20, int(share * len(rows))))
            keep[rng.permutation(rows)[:wanted]] = True
    if keep.all():
        return X, labels, domain
    chosen = np.flatnonzero(keep)
    return X[chosen], labels._replace(codes=labels.codes[chosen]), domain[chosen]
