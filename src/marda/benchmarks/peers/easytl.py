"""EasyTL (Wang, Chen, Yu, Huang, Yang: ICME 2019): aligned covariances, then a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.projected import split_domains

__all__ = ["EasyTL", "assign"]

Matrix = NDArray[np.float64]


def assign(cost: Matrix) -> NDArray[np.int64]:
    """The class of every row: the cheapest assignment in which no class is empty.

    min Σ cost·M so that Σ_c M_jc = 1 for every row, Σ_j M_jc ≥ 1 for every class and M ≥ 0. The
    constraints are those of a transport, so a vertex of the program is a plain assignment.
    """
    n, k = cost.shape
    cheapest = np.asarray(cost.argmin(1))
    if n < k or len(np.unique(cheapest)) == k:  # too few rows for the program, or it has no say
        return cheapest
    of_rows = sp.kron(sp.eye_array(n), np.ones((1, k)), format="csr")
    of_classes = sp.kron(np.ones((1, n)), sp.eye_array(k), format="csr")
    found = linprog(cost.ravel(), A_ub=-of_classes, b_ub=-np.ones(k), A_eq=of_rows, b_eq=np.ones(n))
    if not found.success:
        raise ValueError(f"the linear program of EasyTL was not solved: {found.message}")
    return np.asarray(np.reshape(found.x, (n, k)).argmax(1))


def _power(covariance: Matrix, exponent: float) -> Matrix:
    values, vectors = np.linalg.eigh(covariance + np.eye(len(covariance)))
    found: Matrix = (vectors * values**exponent) @ vectors.T
    return found


class EasyTL(ClassifierMixin, BaseEstimator):
    """Target rows assigned to source class means, all of a batch together.

    Source rows are first multiplied by (cov_s + I)^-½ (cov_t + I)^½. There are no parameters.
    """

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> EasyTL:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        covariances = [np.cov(Z, rowvar=False) for Z in (domains.source, domains.target)]
        aligned = domains.source @ _power(covariances[0], -0.5) @ _power(covariances[1], 0.5)
        self.classes_ = domains.classes
        self.means_ = np.stack(
            [aligned[domains.labels == c].mean(0) for c in range(len(self.classes_))]
        )
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of a batch of rows: which rows come together matters, by design."""
        check_is_fitted(self)
        cost = pairwise_distances(
            np.asarray(X, dtype=np.float64), self.means_, metric="sqeuclidean"
        )
        return np.asarray(self.classes_[assign(cost)])
