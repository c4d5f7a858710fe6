"""Manifold embedded distribution alignment (Wang, Feng, Chen, Yu, Huang, Yu: ACM MM 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.gfk import flow_factor, principal_directions
from marda.benchmarks.peers.projected import discrepancy, nearest, split_domains, unit_rows

__all__ = ["MEDA", "adaptive_factor"]

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


def _distance(source: Matrix, target: Matrix) -> float:
    """A-distance 2(1 − 2ε), ε the error of a linear domain classifier over folds; at least 0."""
    X = np.vstack([source, target])
    y = np.repeat([0, 1], [len(source), len(target)])
    folds = min(2, len(source), len(target))
    if folds < 2:
        return 0.0
    split = StratifiedKFold(folds, shuffle=True, random_state=0)
    error = 1 - float(np.mean(cross_val_score(LinearSVC(random_state=0), X, y, cv=split)))
    return max(0.0, 2 * (1 - 2 * error))


def adaptive_factor(source: Matrix, labels: Labels, target: Matrix, guess: Labels) -> float:
    """μ: how much of the shift is of classes; 1 − d_M / (d_M + Σ_c d_c)."""
    whole = _distance(source, target)
    each = [
        _distance(source[labels == c], target[guess == c]) for c in np.intersect1d(labels, guess)
    ]
    total = whole + sum(each)
    return 1 - whole / total if total > 0 else 0.5


class MEDA(ClassifierMixin, BaseEstimator):
    """A kernel classifier on manifold features: small risk, MMD and graph Laplacian at once.

    f = Kβ, β = ((A + λM + ρL)K + ηI)⁻¹AY, with A = 1 on source rows, M = (1 − μ)M_0 + μΣM_c divided
    by its Frobenius norm and L the normalised Laplacian of neighbours. Features are those of the
    geodesic flow kernel, as unit rows; target classes are guessed again and again.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the subspaces.
    risk, alignment, manifold : float, default=0.1, 10.0, 1.0
        η, λ and ρ.
    n_neighbors : int, default=10
        Of the graph, by cosine.
    n_iter : int, default=10
        Guesses.
    """

    def __init__(
        self,
        n_components: int = 20,
        risk: float = 0.1,
        alignment: float = 10.0,
        manifold: float = 1.0,
        n_neighbors: int = 10,
        n_iter: int = 10,
    ):
        self.n_components = n_components
        self.risk = risk
        self.alignment = alignment
        self.manifold = manifold
        self.n_neighbors = n_neighbors
        self.n_iter = n_iter

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> MEDA:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        bases = [principal_directions(Z, self.n_components) for Z in domains[0:3:2]]
        self.factor_ = flow_factor(*bases)
        self.rows_ = Z = unit_rows(domains.rows @ self.factor_)
        n, total = domains.n_source, len(Z)
        self.width_ = float(np.linalg.norm(Z, axis=1).mean())
        K = rbf_kernel(Z, gamma=1 / (2 * self.width_))
        L = self._laplacian(Z)
        known = np.append(np.ones(n), np.zeros(total - n))
        Y = np.zeros((total, len(domains.classes)))
        Y[np.arange(n), domains.labels] = 1.0
        guess = nearest(Z[:n], domains.labels).predict(Z[n:])
        for _ in range(self.n_iter):
            mu = adaptive_factor(Z[:n], domains.labels, Z[n:], guess)
            E = discrepancy(domains.labels, guess, total - n, (1 - mu, mu))
            left = self.manifold * (L @ K) + known[:, None] * K
            left += self.alignment / np.linalg.norm(E.T @ E) * (E @ (E.T @ K))
            left[np.diag_indices(total)] += self.risk
            self.weights_ = np.linalg.solve(left, Y)
            guess = (K[n:] @ self.weights_).argmax(1)
        self.classes_ = domains.classes
        return self

    def _laplacian(self, Z: Matrix) -> Any:
        """I − D^-½ W D^-½, W the cosines of neighbours, made symmetric."""
        k = min(self.n_neighbors, len(Z) - 1)
        graph = kneighbors_graph(Z, k, mode="distance", metric="cosine")
        graph.data = np.maximum(1 - graph.data, 0.0)
        graph = graph.maximum(graph.T)
        degree = np.asarray(graph.sum(1)).ravel()
        root = sp.diags(1 / np.sqrt(np.maximum(degree, 1e-12)))
        return sp.eye(len(Z)) - root @ graph @ root

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of new rows."""
        check_is_fitted(self)
        Z = unit_rows(np.asarray(X, dtype=np.float64) @ self.factor_)
        scores = rbf_kernel(Z, self.rows_, gamma=1 / (2 * self.width_)) @ self.weights_
        return np.asarray(self.classes_[scores.argmax(1)])
