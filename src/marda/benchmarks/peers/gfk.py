"""Geodesic flow kernel (Gong, Shi, Sha, Grauman: CVPR 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.projected import nearest, split_domains

__all__ = ["GFK", "flow_factor", "principal_directions"]

Matrix = NDArray[np.float64]


def principal_directions(X: Matrix, n: int) -> Matrix:
    """An orthonormal basis of the n leading principal components, in columns."""
    n = min(n, X.shape[1], len(X) - 1)
    return np.linalg.svd(X - X.mean(0), full_matrices=False)[2][:n].T


def flow_factor(source: Matrix, target: Matrix) -> Matrix:
    """F with G = F Fᵀ, the kernel of all subspaces on the geodesic from source to target.

    With P_SᵀP_T = U cos(θ) Vᵀ and B = P_S U, C = (P_S U cos θ − P_T V) / sin θ, which is
    orthogonal to P_S, the subspace at t is spanned by b_i cos(tθ_i) − c_i sin(tθ_i). Its projector
    integrated over t in [0, 1] is ½ Σ_i [b_i c_i] Λ_i [b_i c_i]ᵀ, with

        Λ_i = [[1 + s_i, r_i], [r_i, 1 − s_i]],  s = sin(2θ)/(2θ),  r = (cos(2θ) − 1)/(2θ).
    """
    k = min(source.shape[1], target.shape[1])
    U, cosine, Vt = np.linalg.svd(source[:, :k].T @ target[:, :k])
    angle = np.arccos(np.clip(cosine, 0.0, 1.0))
    B = source[:, :k] @ U
    C = B * np.cos(angle) - target[:, :k] @ Vt.T
    length = np.linalg.norm(C, axis=0)
    C /= np.where(length > 1e-8, length, 1.0)  # no angle: Λ has nothing there
    s = np.sinc(2 * angle / np.pi)
    r = -np.sin(angle) * np.sinc(angle / np.pi)  # (cos 2θ − 1)/(2θ) = −sin²θ/θ
    parts = []
    for i in range(k):
        values, vectors = np.linalg.eigh([[1 + s[i], r[i]], [r[i], 1 - s[i]]])
        root = vectors * np.sqrt(np.maximum(values, 0.0) / 2)
        parts.append(np.column_stack([B[:, i], C[:, i]]) @ root)
    return np.hstack(parts)


class GFK(ClassifierMixin, BaseEstimator):
    """Nearest source row by the geodesic flow kernel of two principal subspaces.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of both subspaces.
    """

    def __init__(self, n_components: int = 20):
        self.n_components = n_components

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> GFK:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        bases = [principal_directions(Z, self.n_components) for Z in domains[0:3:2]]
        self.classes_ = domains.classes
        self.factor_ = flow_factor(*bases)
        self.nearest_ = nearest(domains.source @ self.factor_, domains.labels)
        return self

    def transform(self, X: Any) -> Matrix:
        """Features whose inner product is the kernel."""
        check_is_fitted(self)
        found: Matrix = np.asarray(X, dtype=np.float64) @ self.factor_
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of new rows."""
        return np.asarray(self.classes_[self.nearest_.predict(self.transform(X))])
