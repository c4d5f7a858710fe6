"""A new noise: every entry is multiplied by a factor of mean 1 and standard deviation `sigma`."""

from dataclasses import dataclass

import numpy as np

from marda.noise import Noise


@dataclass(frozen=True)
class Multiplicative(Noise):
    """x̃ = x · (1 + σ ε), for gains that drift."""

    sigma: float

    def scale(self, n_features):
        """One: E[x̃] = x."""
        return np.ones(n_features)

    def variance(self, weight, total, squares):
        """Σ w Var[x̃] = σ² Σ w x², per feature."""
        return self.sigma**2 * squares
