"""Two normal classes along the first column, and the target of each explanation."""

from __future__ import annotations

import numpy as np

DISTANCE = 2.56


def classes(n, d, share, rng, distance=DISTANCE):
    y = (rng.random(n) < share).astype(int)
    X = rng.standard_normal((n, d))
    X[:, 0] += distance * y
    return X, y


def pair(seed, n=100, d=4, before=0.5, after=0.5, factor=1.0, by=0.0, n_target=None):
    """Source rows and labels, and target rows: other shares, columns stretched and moved."""
    rng = np.random.default_rng(seed)
    X, y = classes(n, d, before, rng)
    T, _ = classes(n_target or n, d, after, rng)
    return X, y, factor * T + by
