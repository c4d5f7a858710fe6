"""The bootstrap over rows: an estimate with its 95 % percentile interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interval", "bootstrap_mean", "percentile_interval", "row_counts"]


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def row_counts(n_rows: int, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each row is in each resample, of shape (draws, n_rows).

    Statistics of several methods on the same counts are paired.
    """
    return rng.multinomial(n_rows, np.full(n_rows, 1 / n_rows), size=draws)


def percentile_interval(value: float, resampled: NDArray[Any]) -> Interval:
    """From the 2.5 to the 97.5 percentile of resampled estimates; it holds ``value``."""
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Interval(float(value), float(min(low, value)), float(max(high, value)))


def bootstrap_mean(values: NDArray[Any], *, draws: int = 2000, seed: int = 0) -> Interval:
    """The mean of one value per row."""
    # Rows of one value are alike, so that drawing their numbers draws the rows: any number fits.
    levels, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    n = len(values)
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, draws)
    return percentile_interval(float(np.mean(values)), drawn @ levels / n)
