"""Class centroid matching and local manifold self-learning (Tian, Tang, Hu, Ren, Zhang: TIP 2020).

Written from the losses of the paper; the alternation below is ours where it leaves one open.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.projected import leading_directions, split_domains, unit_rows

__all__ = ["CMMS", "adaptive_graph"]

Matrix = NDArray[np.float64]


def adaptive_graph(Z: Matrix, k: int) -> Any:
    """Weights s_ij of the k nearest rows: min Σ ‖z_i − z_j‖² s_ij + θ s_ij² on the simplex.

    With θ such that exactly k weights are positive and distances d sorted, s_ij is
    (d_k+1 − d_j) / (k d_k+1 − Σ d).
    """
    k = min(k, len(Z) - 2)
    distance, index = NearestNeighbors(n_neighbors=k + 2).fit(Z).kneighbors(Z)
    d = distance[:, 1:] ** 2  # the nearest is the row itself
    weights = d[:, [k]] - d[:, :k]
    total = weights.sum(1, keepdims=True)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1 / k)
    rows = np.repeat(np.arange(len(Z)), k)
    graph = sp.csr_array((weights.ravel(), (rows, index[:, 1 : k + 1].ravel())), (len(Z), len(Z)))
    return (graph + graph.T) / 2


class CMMS(ClassifierMixin, BaseEstimator):
    """A projection in which clusters of target rows stand on the class means of the source.

    min ‖M P − F‖² + α‖X_t P − G F‖² + β‖P‖² + γ tr(PᵀXᵀLXP) so that PᵀXᵀHXP = I: M are the class
    means of source rows, F the centres of the target's clusters, G says which row is of which, L is
    the Laplacian of a graph that is learned from projected rows, in each domain for itself. F, G,
    the graph and P are renewed in turn; F is eliminated from the problem of P.

    Parameters
    ----------
    n_components : int, default=100
        Columns of P.
    clusters, ridge, manifold : float, default=0.1, 0.1, 1.0
        α, β and γ.
    n_neighbors : int, default=10
        Of the graph.
    n_iter : int, default=10
        Alternations.
    """

    def __init__(
        self,
        n_components: int = 100,
        clusters: float = 0.1,
        ridge: float = 0.1,
        manifold: float = 1.0,
        n_neighbors: int = 10,
        n_iter: int = 10,
    ):
        self.n_components = n_components
        self.clusters = clusters
        self.ridge = ridge
        self.manifold = manifold
        self.n_neighbors = n_neighbors
        self.n_iter = n_iter

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> CMMS:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        self.center_ = domains.rows.mean(0)
        source, target = (unit_rows(Z - self.center_) for Z in domains[0:3:2])
        rows = np.vstack([source, target])
        centred = rows - rows.mean(0)
        scatter, d = centred.T @ centred, rows.shape[1]
        k = len(domains.classes)
        means = np.stack([source[domains.labels == c].mean(0) for c in range(k)])
        Z = [source, target]
        F = means
        for _ in range(self.n_iter):
            G = np.eye(k)[pairwise_distances(Z[1], F).argmin(1)]
            inner = np.eye(k) + self.clusters * np.diag(G.sum(0))
            both = means + self.clusters * G.T @ target  # (I + αGᵀG) F = (M + αGᵀX_t) P
            loss = means.T @ means + self.clusters * target.T @ target
            loss -= both.T @ np.linalg.solve(inner, both)
            for side, projected in ((source, Z[0]), (target, Z[1])):
                S = adaptive_graph(projected, self.n_neighbors)
                degree = np.asarray(S.sum(1)).ravel()
                loss += self.manifold * (side.T @ (degree[:, None] * side - S @ side))
            penalty = (loss + loss.T) / 2 + self.ridge * np.eye(d)
            self.projection_ = P = leading_directions(
                scatter, penalty, self.n_components, unit_scatter=True
            )
            Z = [source @ P, target @ P]
            F = np.linalg.solve(inner, both) @ P
        self.centers_, self.classes_ = F, domains.classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the nearest centre."""
        check_is_fitted(self)
        Z = unit_rows(np.asarray(X, dtype=np.float64) - self.center_) @ self.projection_
        return np.asarray(self.classes_[pairwise_distances(Z, self.centers_).argmin(1)])
