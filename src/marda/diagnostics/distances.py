"""How far apart two domains are: proxy A-distance and MMD, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.criteria import domain_hits, sample_rows, stack_rows
from marda.diagnostics.intervals import (
    Interval,
    bootstrap_mean,
    percentile_interval,
    row_counts,
)

__all__ = ["a_distance", "domain_accuracy", "mmd"]

DRAWS = 200


def domain_accuracy(Xs: Any, Xt: Any, *, seed: int = 0) -> Interval:
    """Share of rows whose domain a cross-validated linear classifier names right (0.5: none).

    Both domains have the same number of rows here; the proxy A-distance is 4 · accuracy − 2.
    """
    return bootstrap_mean(domain_hits(Xs, Xt, seed=seed), seed=seed)


def a_distance(accuracy: Interval) -> Interval:
    """2(1 − 2ε), cut to [0, 2]."""
    return Interval(*(float(np.clip(4 * v - 2, 0, 2)) for v in (*_values(accuracy),)))


def mmd(Xs: Any, Xt: Any, *, seed: int = 0, max_rows: int = 500) -> Interval:
    """√ of the unbiased MMD² (0 where it is negative), with a bootstrap interval.

    The kernel is exp(−‖x − y‖² / width), width the median squared distance of all pairs of these
    rows, at most `max_rows` per domain: features before and after have a width each.
    """
    from sklearn.metrics.pairwise import euclidean_distances

    rng = np.random.default_rng(seed)
    Xs, Xt = sample_rows(Xs, max_rows, rng), sample_rows(Xt, max_rows, rng)
    n, m = Xs.shape[0], Xt.shape[0]
    squares = euclidean_distances(stack_rows(Xs, Xt), squared=True)
    width = float(np.median(squares[np.triu_indices(n + m, 1)])) or 1.0
    K = np.exp(-squares / width)
    np.fill_diagonal(K, 0.0)

    def estimate(ws: NDArray[Any], wt: NDArray[Any]) -> float:
        # A row drawn twice is not a pair with itself: the diagonal is out.
        # One row alone has no pair, and a kernel sum of zero: any count but zero will do.
        pairs = [max(1.0, w.sum() ** 2 - (w**2).sum()) for w in (ws, wt)]
        within = ws @ K[:n, :n] @ ws / pairs[0] + wt @ K[n:, n:] @ wt / pairs[1]
        return float(within - 2 * (ws @ K[:n, n:] @ wt) / (ws.sum() * wt.sum()))

    value = estimate(np.ones(n), np.ones(m))
    counts = [row_counts(k, DRAWS, rng).astype(float) for k in (n, m)]
    drawn = np.array([estimate(a, b) for a, b in zip(*counts, strict=True)])
    # Centred on the estimate: a bootstrap of a U-statistic is shifted upwards.
    drawn += value - drawn.mean()
    return percentile_interval(np.sqrt(max(0.0, value)), np.sqrt(np.maximum(0.0, drawn)))


def _values(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high
