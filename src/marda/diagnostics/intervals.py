"""Estimates with 95 % intervals: the bootstrap over rows, corrected tests, and figures as text.

The 90 % interval of an expected accuracy is made in selection/expectation.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

DRAWS = 2000


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval."""

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


def bootstrap_mean(values: NDArray[Any], *, seed: int = 0) -> Interval:
    """The mean of one value per row."""
    # Rows of one value are alike, so that drawing their numbers draws the rows: any number fits.
    levels, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    n = len(values)
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, DRAWS)
    return percentile_interval(float(np.mean(values)), drawn @ levels / n)


def share_right(right: NDArray[np.bool_]) -> Interval:
    """The share of rows that are right; where all or none are, Wilson's interval."""
    if right.all() or not right.any():  # no resample would differ
        return wilson(int(right.sum()), len(right))
    return bootstrap_mean(right)


def gain_right(ours: NDArray[np.bool_], others: NDArray[np.bool_]) -> Interval:
    """By how much larger a share of the same rows is right.

    Where no row is right by one alone, no resample would differ: then a row is added of either
    kind and the variance taken of these (D. G. Bonett, R. M. Price, 2012).
    """
    if (ours != others).any():
        return bootstrap_mean(ours.astype(float) - others)
    half = 1.96 * float(np.sqrt(2.0)) / (len(ours) + 2)
    return Interval(0.0, -min(1.0, half), min(1.0, half))


def wilson(hits: int, n: int) -> Interval:
    """The share of hits with Wilson's interval, which holds for few rows and for shares near 1."""
    bounds = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    return Interval(hits / n, float(bounds.low), float(bounds.high))


def holm(p_values: Sequence[float]) -> list[float]:
    """Corrected for their number: the least times n, the next times n − 1, …, never falling."""
    found, largest = np.ones(len(p_values)), 0.0
    for rank, k in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[k]))
        found[k] = largest
    return [float(p) for p in found]


# Figures as text ----------------------------------------------------------------------------------


def percent(share: float) -> str:
    """``84.1%``."""
    return f"{100 * share:.1f}%"


def share_text(share: float) -> str:
    """``84%``; small shares keep a digit: ``0.2%``; none is ``0%``."""
    return f"{share:.0%}" if share >= 0.095 or share < 0.0005 else f"{share:.1%}"


def scaled(share: Interval) -> Interval:
    """A share in percent."""
    return Interval(100 * share.value, 100 * share.low, 100 * share.high)


def points_text(gain: Interval) -> str:
    """``+5.0 points (95% interval +1.2 to +8.8)`` of a gain in percent."""
    interval = f"{signed(gain.low)} to {signed(gain.high)}"
    return f"{signed(gain.value)} points (95% interval {interval})"


def signed(value: float, form: str = "+.1f") -> str:
    """With a real minus, and no sign before a zero."""
    text = f"{value:{form}}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def step_text(before: float, after: float, form: str = "f") -> str:
    """``0.40 → 0.07``, with as many digits as tell the two apart, up to four more."""
    digits = 0 if form == "%" else 2
    for more in range(5):
        texts = [f"{value:.{digits + more}{form}}" for value in (before, after)]
        if before == after or texts[0] != texts[1]:
            break
    return " → ".join(texts)


def times_text(ratio: float) -> str:
    """``3,000 times``: one digit tells enough of a ratio."""
    return f"{float(f'{ratio:.0e}'):,.0f} times" if ratio < 1e7 else f"{ratio:.0e} times"


def seconds_text(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 03 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
