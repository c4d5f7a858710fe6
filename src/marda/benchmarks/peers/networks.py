"""DANN, DDC and DAN on fixed features: a hidden layer in which the domains look alike.

- Domain-adversarial networks (Ganin, Ustinova, Ajakan, Germain, Larochelle, Laviolette, Marchand,
  Lempitsky: JMLR 2016; with one hidden layer Ajakan et al. 2014): `DANN`
- Deep domain confusion (Tzeng, Hoffman, Zhang, Saenko, Darrell: 2014): `DDC`
- Deep adaptation networks (Long, Cao, Wang, Jordan: ICML 2015): `DAN`

Their authors tune whole networks from pixels; here rows are features that stay as they are, and a
network of one hidden layer learns from them: figures of the papers cannot be met by it. Gradients
are written out, so that nothing but NumPy is needed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.metrics import pairwise_distances

from marda.benchmarks.peers.projections import (
    Domains,
    Labels,
    Matrix,
    System,
    dense_rows,
    split_domains,
)

Parameters = dict[str, Matrix]


def mean_discrepancy(H: Matrix, n_source: int) -> tuple[float, Matrix]:
    """Squared distance of the means of both domains per column, and its gradient for every row."""
    gap = H[:n_source].mean(0) - H[n_source:].mean(0)
    return float(np.mean(gap**2)), np.outer(_signs(H, n_source), 2 * gap / len(gap))


def kernel_discrepancy(H: Matrix, n_source: int) -> tuple[float, Matrix]:
    """MMD² of both domains by a mean of five Gaussian kernels, and its gradient for every row.

    The widths are 2^-2 … 2^2 times the mean squared distance, which the gradient takes as given.
    """
    squares = pairwise_distances(H, metric="sqeuclidean")
    e = _signs(H, n_source)
    value, gradient = 0.0, np.zeros_like(H)
    middle = max(float(squares.mean()), 1e-12)
    widths = middle * 2.0 ** np.arange(-2, 3)
    for width in widths:
        A = np.outer(e, e) * np.exp(-squares / width)
        value += A.sum() / len(widths)
        gradient -= 4 / (width * len(widths)) * (A.sum(1)[:, None] * H - A @ H)
    return float(value), gradient


def _signs(H: Matrix, n_source: int) -> Matrix:
    """Give e, for which the mean of the source − the mean of the target is Hᵀe."""
    n_target = len(H) - n_source
    return np.append(np.full(n_source, 1 / n_source), np.full(n_target, -1 / n_target))


@dataclass(eq=False, repr=False)
class AdaptedNetwork(System):
    """One hidden layer (ReLU) and softmax, learned by Adam from batches of both domains.

    Parameters
    ----------
    n_hidden, n_epochs, batch : int, default=128, 40, 64
        Width of the layer; passes over the larger domain; rows of each domain in a step.
    weight : float
        Of the adaptation in the loss. It grows from 0 as 2/(1 + exp(−10p)) − 1, p the share of
        steps that are done (Ganin et al.), in all three.
    learning_rate : float, default=1e-3
        Of Adam.
    random_state : int, default=0
        Of the first weights and of the batches.
    """

    n_hidden: int = 128
    n_epochs: int = 40
    batch: int = 64
    weight: float = 1.0
    learning_rate: float = 1e-3
    random_state: int = 0

    @abstractmethod
    def adaptation(
        self, parameters: Parameters, H: Matrix, P: Matrix, n_source: int
    ) -> tuple[float, Matrix, Matrix, Parameters]:
        """Loss, its gradients for hidden rows H and for probabilities P, and for parameters.

        Parameters of a rival (a domain predictor) are given the gradient of what it wants.
        """

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> AdaptedNetwork:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        rng = np.random.default_rng(self.random_state)
        self.center_ = domains.rows.mean(0)
        self.length_ = max(float(np.std(domains.rows - self.center_)), 1e-12)
        self.classes_ = domains.classes
        domains = domains._replace(
            source=self._scaled(domains.source), target=self._scaled(domains.target)
        )
        self.parameters_ = self._start(domains.source.shape[1], rng)
        self._learn(domains, rng)
        return self

    def _scaled(self, X: Any) -> Matrix:
        return np.asarray((dense_rows(X) - self.center_) / self.length_)

    def _start(self, d: int, rng: np.random.Generator) -> Parameters:
        h, k = self.n_hidden, len(self.classes_)
        return {
            "W": rng.standard_normal((d, h)) * np.sqrt(2 / d),
            "b": np.zeros(h),
            "V": rng.standard_normal((h, k)) * np.sqrt(1 / h),
            "c": np.zeros(k),
            "u": np.zeros(h + 1),  # a linear domain predictor with an intercept, for those who ask
        }

    def _learn(self, domains: Domains, rng: np.random.Generator) -> None:
        sizes = [len(domains.source), len(domains.target)]
        each = [min(self.batch, size) for size in sizes]
        steps = self.n_epochs * -(-max(sizes) // self.batch)
        first = {name: np.zeros_like(value) for name, value in self.parameters_.items()}
        second = {name: np.zeros_like(value) for name, value in self.parameters_.items()}
        for step in range(1, steps + 1):
            picks = [
                rng.choice(size, n, replace=False) for size, n in zip(sizes, each, strict=True)
            ]
            rows = np.vstack([domains.source[picks[0]], domains.target[picks[1]]])
            strength = self.weight * (2 * expit(10 * step / steps) - 1)
            _, slopes = self.gradients(self.parameters_, rows, domains.labels[picks[0]], strength)
            for name, slope in slopes.items():
                first[name] += 0.1 * (slope - first[name])
                second[name] += 0.001 * (slope**2 - second[name])
                size = first[name] / (1 - 0.9**step)
                spread = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
                self.parameters_[name] -= self.learning_rate * size / spread

    def gradients(
        self, parameters: Parameters, rows: Matrix, labels: NDArray[np.int64], strength: float
    ) -> tuple[float, Parameters]:
        """Loss of a batch, labelled source rows first, and what the parameters follow down."""
        n = len(labels)
        before = rows @ parameters["W"] + parameters["b"]
        H = np.maximum(before, 0.0)
        P = softmax(H @ parameters["V"] + parameters["c"], axis=1)
        risk = -float(np.mean(np.log(np.maximum(P[np.arange(n), labels], 1e-300))))
        apart, by_hidden, by_probability, own = self.adaptation(parameters, H, P, n)
        # Through the softmax: dp = p (g − Σ p g).
        by_score = strength * P * (by_probability - np.sum(P * by_probability, 1, keepdims=True))
        by_score[:n] += (P[:n] - np.eye(P.shape[1])[labels]) / n
        down = by_score @ parameters["V"].T + strength * by_hidden
        down[before <= 0] = 0.0
        return risk + strength * apart, {
            "W": rows.T @ down,
            "b": down.sum(0),
            "V": H.T @ by_score,
            "c": by_score.sum(0),
            **own,
        }

    def numbers(self, X: Matrix) -> Labels:
        """Those that are likeliest."""
        H = np.maximum(self._scaled(X) @ self.parameters_["W"] + self.parameters_["b"], 0.0)
        return np.asarray((H @ self.parameters_["V"] + self.parameters_["c"]).argmax(1))


class DANN(AdaptedNetwork):
    """Hidden rows of which a linear domain predictor cannot tell the domain.

    The predictor goes down its logistic loss, the layer up the same (a reversed gradient).
    """

    def adaptation(
        self, parameters: Parameters, H: Matrix, P: Matrix, n_source: int
    ) -> tuple[float, Matrix, Matrix, Parameters]:
        """Minus the loss of the domain predictor; the predictor's own gradient is of its loss."""
        u = parameters["u"]
        is_target = np.arange(len(H)) >= n_source
        share = np.where(is_target, 0.5 / (len(H) - n_source), 0.5 / n_source)
        said = H @ u[:-1] + u[-1]
        loss = float(share @ np.logaddexp(0.0, np.where(is_target, -said, said)))
        slope = share * (expit(said) - is_target)
        return (
            -loss,
            -np.outer(slope, u[:-1]),
            np.zeros_like(P),
            {"u": np.append(H.T @ slope, slope.sum())},
        )


@dataclass(eq=False, repr=False)
class DDC(AdaptedNetwork):
    """Hidden rows whose means meet: the distance of means of both domains, weight 0.25."""

    weight: float = 0.25

    def adaptation(
        self, parameters: Parameters, H: Matrix, P: Matrix, n_source: int
    ) -> tuple[float, Matrix, Matrix, Parameters]:
        """The distance of means."""
        return (*mean_discrepancy(H, n_source), np.zeros_like(P), {})


class DAN(AdaptedNetwork):
    """Hidden rows and probabilities that five Gaussian kernels find alike in both domains."""

    def adaptation(
        self, parameters: Parameters, H: Matrix, P: Matrix, n_source: int
    ) -> tuple[float, Matrix, Matrix, Parameters]:
        """MMD² of the hidden layer and of the last."""
        hidden, by_hidden = kernel_discrepancy(H, n_source)
        last, by_last = kernel_discrepancy(P, n_source)
        return hidden + last, by_hidden, by_last, {}
