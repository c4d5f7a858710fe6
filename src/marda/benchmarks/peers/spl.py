"""Selective pseudo-labelling (Wang, Breckon: AAAI 2020)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.projected import leading_directions, split_domains, unit_rows

__all__ = ["SPL", "locality_directions", "select_per_class"]

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


def locality_directions(X: Matrix, labels: Labels, n: int) -> Matrix:
    """Supervised locality preserving projection: rows of one class are neighbours of each other.

    max tr(PᵀXᵀDXP) for Pᵀ(XᵀLX + I)P = I, with W_ij = 1 within a class, D its degrees, L = D − W.
    """
    counts = np.bincount(labels)[labels].astype(float)
    weighted = X.T @ (counts[:, None] * X)
    sums = np.stack([X[labels == c].sum(0) for c in np.unique(labels)])
    within = weighted - sums.T @ sums  # XᵀLX: per class, N Σxxᵀ − (Σx)(Σx)ᵀ
    penalty = (within + within.T) / 2 + np.eye(X.shape[1])
    return leading_directions(weighted, penalty, n)


def select_per_class(guess: Labels, sure: Matrix, share: float) -> NDArray[np.bool_]:
    """Of the rows guessed to be of a class, the given share that one is surest of."""
    chosen = np.zeros(len(guess), dtype=bool)
    for c in np.unique(guess):
        members = np.flatnonzero(guess == c)
        order = np.argsort(-sure[members], kind="stable")
        chosen[members[order[: int(np.floor(share * len(members)))]]] = True
    return chosen


class SPL(ClassifierMixin, BaseEstimator):
    """A projection learned from the source and ever more target rows that guesses agree on.

    A target row is of the class with the nearest source mean, or of the class matched with the
    nearest of as many clusters of target rows, whichever is surer. In round k of T a share k/T of
    the rows of every class is learned from.

    Parameters
    ----------
    n_pca, n_components : int, default=512, 128
        Dimensions after the principal components, and of the projection.
    n_iter : int, default=10
        Rounds T.
    """

    def __init__(self, n_pca: int = 512, n_components: int = 128, n_iter: int = 10):
        self.n_pca = n_pca
        self.n_components = n_components
        self.n_iter = n_iter

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> SPL:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        rows, n = unit_rows(domains.rows), domains.n_source
        self.pca_ = PCA(min(self.n_pca, *rows.shape), svd_solver="full").fit(rows)
        rows = unit_rows(self.pca_.transform(rows))
        labels, used = domains.labels, np.arange(len(rows)) < n
        guess = np.zeros(len(rows) - n, dtype=np.int64)
        self.classes_ = domains.classes
        for k in range(1, self.n_iter + 1):
            every = np.append(labels, guess)
            self.projection_ = locality_directions(rows[used], every[used], self.n_components)
            Z = rows @ self.projection_
            self.center_ = Z.mean(0)
            Z = unit_rows(Z - self.center_)
            self._prototypes(Z[:n], labels, Z[n:])
            likely = self._likely(Z[n:])
            guess = likely.argmax(1)
            chosen = select_per_class(guess, likely.max(1), k / self.n_iter)
            used = np.append(np.ones(n, dtype=bool), chosen)
        return self

    def _prototypes(self, source: Matrix, labels: Labels, target: Matrix) -> None:
        """Class means of the source, and the target's clusters matched with them."""
        k = len(self.classes_)
        self.means_ = unit_rows(np.stack([source[labels == c].mean(0) for c in range(k)]))
        self.clusters_ = self.means_
        if len(target) >= k:
            found = KMeans(k, init=self.means_, n_init=1).fit(target).cluster_centers_
            _, match = linear_sum_assignment(pairwise_distances(self.means_, found))
            self.clusters_ = found[match]

    def _likely(self, Z: Matrix) -> Matrix:
        """The surer of both guesses, per row and class."""
        both = [softmax(-pairwise_distances(Z, P), axis=1) for P in (self.means_, self.clusters_)]
        found: Matrix = np.maximum(*both)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of new rows."""
        check_is_fitted(self)
        Z = unit_rows(self.pca_.transform(unit_rows(X))) @ self.projection_
        return np.asarray(self.classes_[self._likely(unit_rows(Z - self.center_)).argmax(1)])
