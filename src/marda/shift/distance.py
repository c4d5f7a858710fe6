"""How far apart two samples are: differences of mean random features (math.md §16).

Three statistics look at the same features. The joint one is the maximum mean discrepancy of
Gaussian kernels of three widths, by random Fourier features; the marginal one is the mean, and the
single one the largest, of the discrepancies of single columns. What is compared is the largest of
the three in units of its own spread over draws under the null, which keeps the level and is blind
to neither a change of many columns together nor of a single one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Comparison", "Features", "compare", "leading_directions"]

Array = NDArray[np.float64]
Single = NDArray[np.float32]

WIDTHS = (0.5, 1.0, 2.0)  # of the joint kernels, in median distances
N_DIRECTIONS = 48  # per width
FREQUENCIES = (0.8, 2.0)  # of single columns, in units of their spread
MAX_DIRECTIONS = 50  # more columns than that are projected on as many leading directions


@dataclass(frozen=True)
class Features:
    """φ(x): cosines and sines along random directions, then along single columns."""

    directions: Array  # columns × directions
    frequencies: Array  # per single column × len(FREQUENCIES)

    @classmethod
    def draw(cls, pool: Array, rng: np.random.Generator) -> Features:
        """Directions in units of the median distance of rows of the pool."""
        n, k = pool.shape
        pairs = rng.integers(n, size=(2, 1000))
        gaps = np.linalg.norm(pool[pairs[0]] - pool[pairs[1]], axis=1)
        gaps = gaps[gaps > 0]
        width = float(np.median(gaps)) if len(gaps) else 1.0
        drawn = [rng.standard_normal((k, N_DIRECTIONS)) / (w * width) for w in WIDTHS]
        spread = pool.std(0)
        spread = np.where(spread > 0, spread, 1.0)
        return cls(np.hstack(drawn), np.array(FREQUENCIES)[:, None] / spread)

    def __call__(self, rows: Array) -> Single:
        """One row of features per row; a squared distance of means is joint + marginal."""
        single = rows.astype(np.float32)
        joint = single @ self.directions.astype(np.float32)
        alone = np.hstack([single * f.astype(np.float32) for f in self.frequencies])
        return np.hstack(
            [
                np.cos(joint) / np.float32(np.sqrt(joint.shape[1])),
                np.sin(joint) / np.float32(np.sqrt(joint.shape[1])),
                np.cos(alone) / np.float32(np.sqrt(alone.shape[1])),
                np.sin(alone) / np.float32(np.sqrt(alone.shape[1])),
            ]
        )

    def statistics(self, delta: Array) -> Array:
        """Squared distances of differences of means: joint, then one per column."""
        D, k = self.directions.shape[1], self.directions.shape[0]
        squared = np.square(np.asarray(delta, dtype=np.float64))
        joint = squared[..., : 2 * D].sum(-1, keepdims=True)
        alone = squared[..., 2 * D :].reshape(*squared.shape[:-1], 2 * len(FREQUENCIES), k)
        return np.concatenate([joint, alone.sum(-2)], axis=-1)


@dataclass(frozen=True)
class Comparison:
    """A distance against draws of it under the null.

    Attributes
    ----------
    p_value : float
        Share of draws, the observed one included, that are at least as far.
    z : float
        Observed distance in standard deviations of the draws from their mean.
    distance : float
        Squared distance less its mean under the null; at least 0.
    """

    p_value: float
    z: float
    distance: float


def compare(observed: Array, drawn: Array) -> Comparison:
    """The observed statistics against those of draws under the null.

    Parameters
    ----------
    observed : array of shape (1 + n_columns,)
        Joint statistic, then one per column.
    drawn : array of shape (n_draws, 1 + n_columns)
        The same under the null.

    Returns
    -------
    Comparison
    """
    every = np.vstack([observed, drawn])
    # Observed and drawn are treated alike, so that the rank is exact.
    single = ((every[:, 1:] - every[:, 1:].mean(0)) / (every[:, 1:].std(0) + 1e-30)).max(1)
    three = np.column_stack([every[:, 0], every[:, 1:].sum(1), single])
    scaled = (three - three.mean(0)) / (three.std(0) + 1e-30)
    largest = scaled.max(1)
    total = every.sum(1)
    rest = total[1:]
    z = (total[0] - rest.mean()) / (rest.std() + 1e-30)
    return Comparison(
        float((largest >= largest[0] - 1e-12).mean()),
        float(z),
        float(max(0.0, total[0] - rest.mean())),
    )


def leading_directions(pool: Array, rng: np.random.Generator) -> Array | None:
    """Leading principal directions of the pool; None where it has few columns anyway."""
    if pool.shape[1] <= MAX_DIRECTIONS:
        return None
    centred = pool - pool.mean(0)
    basis = centred @ rng.standard_normal((pool.shape[1], MAX_DIRECTIONS + 10))
    for _ in range(2):
        basis = centred @ (centred.T @ np.linalg.qr(basis)[0])
    Q = np.linalg.qr(basis)[0]
    return np.asarray(np.linalg.svd(Q.T @ centred, full_matrices=False)[2][:MAX_DIRECTIONS].T)
