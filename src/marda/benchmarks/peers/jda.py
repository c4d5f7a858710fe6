"""Joint distribution adaptation (Long, Wang, Ding, Sun, Yu: ICCV 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.projected import (
    discrepancy,
    leading_directions,
    nearest,
    split_domains,
    unit_rows,
)

__all__ = ["JDA"]


class JDA(ClassifierMixin, BaseEstimator):
    """A projection in which means and class means of the domains meet, and neighbours in it.

    With the linear kernel K = XXᵀ: max tr(AᵀKHKA) for Aᵀ(K(Σ_c M_c)K + λI)A = I. M_0 is the MMD of
    all rows, M_c of those of class c; their sum is divided by its Frobenius norm. Classes of target
    rows are guessed by the nearest source row, again and again; rows are divided by their length.
    K is never formed: with XᵀX = VΣ²Vᵀ, KA = (XVΣ)B for A in its range and ‖A‖ = ‖B‖.

    Parameters
    ----------
    n_components : int, default=100
        Columns of A.
    ridge : float, default=1.0
        λ.
    n_iter : int, default=10
        Guesses. With one, there is nothing of classes yet: transfer component analysis.
    """

    def __init__(self, n_components: int = 100, ridge: float = 1.0, n_iter: int = 10):
        self.n_components = n_components
        self.ridge = ridge
        self.n_iter = n_iter

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> JDA:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        rows, n = unit_rows(domains.rows), domains.n_source
        squares, V = np.linalg.eigh(rows.T @ rows)
        kept = squares > 1e-10 * squares[-1]
        basis = V[:, kept] * np.sqrt(squares[kept])
        rows = rows @ basis  # coordinates of the columns of K
        centred = rows - rows.mean(0)
        scatter = centred.T @ centred
        guess = None
        for _ in range(self.n_iter):
            E = discrepancy(domains.labels, guess, len(rows) - n, (1.0, 1.0))
            between = rows.T @ E
            size = np.linalg.norm(E.T @ E)  # of Σ e eᵀ
            penalty = between @ between.T / size + self.ridge * np.eye(rows.shape[1])
            B = leading_directions(scatter, penalty, self.n_components)
            Z = unit_rows(rows @ B)
            self.nearest_ = nearest(Z[:n], domains.labels)
            guess = self.nearest_.predict(Z[n:])
        self.projection_ = basis @ B
        self.classes_ = domains.classes
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Projected unit rows."""
        check_is_fitted(self)
        return unit_rows(unit_rows(X) @ self.projection_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of new rows."""
        return np.asarray(self.classes_[self.nearest_.predict(self.transform(X))])
