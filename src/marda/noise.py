"""Corruption models: all that marginalisation needs of them (math.md §8).

Only two facts about a corruption x → x̃ with independent entries enter the closed forms: its mean,
E[x̃] = a x, and the variance that each entry keeps, summed over rows. A noise object gives both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marda._arrays import beside, copy, namespace, zeros

__all__ = ["Dropout", "Gaussian", "Noise", "Poisson", "as_noise"]

Vector = NDArray[np.float64]


class Noise(ABC):
    """A corruption of rows with independent entries, known by its mean and its variance."""

    @abstractmethod
    def scale(self, n_features: int) -> Vector:
        """Mean factor a of every feature: E[x̃] = a x."""

    @abstractmethod
    def variance(self, weight: float, total: Vector, squares: Vector) -> Vector:
        """Σ_n w_n Var[x̃_n] a feature, from Σ w, Σ w x and Σ w x²."""


@dataclass(frozen=True, eq=False)
class Dropout(Noise):
    """Every entry is set to zero with probability `p`.

    Parameters
    ----------
    p : float or array of shape (n_features,)
        Probability to drop, in [0, 1).
    unbiased : bool, default=False
        Divide the kept entries by 1 − p, so that E[x̃] = x.
    """

    p: float | Vector
    unbiased: bool = False

    def __post_init__(self) -> None:
        p = np.asarray(self.p, dtype=np.float64)
        if p.ndim > 1:
            raise ValueError(
                f"noise must be a number or one number per feature, got shape {p.shape}."
            )
        bad = ~((p >= 0) & (p < 1))
        if bad.any():
            raise ValueError(f"noise must be a dropout probability in [0, 1), got {p[bad][0]:g}.")

    def _drop(self, n_features: int) -> Vector:
        p = np.asarray(self.p, dtype=np.float64)
        if p.ndim and p.shape[0] != n_features:
            raise ValueError(
                f"noise has {p.shape[0]} values but X has {n_features} features: "
                "give one number, or one per feature."
            )
        return np.broadcast_to(p, (n_features,)).copy()

    def scale(self, n_features: int) -> Vector:
        """1 − p, or 1 if unbiased."""
        p = self._drop(n_features)
        return np.ones_like(p) if self.unbiased else 1 - p

    def variance(self, weight: float, total: Vector, squares: Vector) -> Vector:
        """p(1 − p) Σ x², or p / (1 − p) Σ x² if unbiased."""
        p = beside(self._drop(squares.shape[-1]), squares)
        share: Vector = p / (1 - p) if self.unbiased else p * (1 - p)
        return squares * share


@dataclass(frozen=True, eq=False)
class Gaussian(Noise):
    """Zero-mean noise of standard deviation `sigma` is added to every entry.

    Parameters
    ----------
    sigma : float or array of shape (n_features,)
        Standard deviation, at least 0.
    """

    sigma: float | Vector

    def __post_init__(self) -> None:
        sigma = np.asarray(self.sigma, dtype=np.float64)
        if sigma.ndim > 1 or not np.all((sigma >= 0) & np.isfinite(sigma)):
            raise ValueError(f"sigma must be finite and at least 0, got {self.sigma!r}.")

    def scale(self, n_features: int) -> Vector:
        """One: the noise has mean zero."""
        return np.ones(n_features)

    def variance(self, weight: float, total: Vector, squares: Vector) -> Vector:
        """Σ w σ²."""
        sigma = np.asarray(self.sigma, dtype=np.float64)
        n_features = squares.shape[-1]
        if sigma.ndim and sigma.shape[0] != n_features:
            raise ValueError(f"sigma has {sigma.shape[0]} values but X has {n_features} features.")
        return zeros(n_features, squares) + beside(weight * sigma**2, squares)


@dataclass(frozen=True)
class Poisson(Noise):
    """Every entry is replaced by a Poisson draw of that mean; needs X ≥ 0."""

    def scale(self, n_features: int) -> Vector:
        """One: a Poisson draw of mean x has mean x."""
        return np.ones(n_features)

    def variance(self, weight: float, total: Vector, squares: Vector) -> Vector:
        """Σ w x."""
        xp = namespace(total)
        if total.shape[0] and float(xp.min(total)) < 0:
            raise ValueError(
                "Poisson noise needs non-negative features: "
                f"feature {int(xp.argmin(total))} has a negative sum."
            )
        return copy(total)


def as_noise(noise: Noise | float | ArrayLike) -> Noise:
    """The noise object that a `noise` parameter means: numbers are dropout probabilities."""
    if isinstance(noise, Noise):
        return noise
    try:
        p = np.asarray(noise, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "noise must be a dropout probability, one per feature, or a noise object such as "
            f"marda.noise.Gaussian(0.1), got {noise!r}."
        ) from None
    return Dropout(p if p.ndim else float(p))
