"""Domain adaptation via auxiliary classifiers (Duan, Tsang, Xu, Chua: ICML 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVR, LinearSVC
from sklearn.utils.validation import check_is_fitted

from marda.benchmarks.peers.projections import split_domains

__all__ = ["AuxiliaryClassifiers"]


class AuxiliaryClassifiers(ClassifierMixin, BaseEstimator):
    """A smooth target classifier that says of target rows what the source's classifier says.

    min ½‖f‖² + C Σ max(0, |f(x) − f_s(x)| − ε) over target rows, one f per class: with one source
    and no labelled target row, the paper's virtual labels are the source classifier's decisions.

    Parameters
    ----------
    C, epsilon : float, default=1.0, 0.1
        Weight of the loss, and what may differ without loss.
    """

    def __init__(self, C: float = 1.0, epsilon: float = 0.1):
        self.C = C
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> AuxiliaryClassifiers:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        self.source_ = LinearSVC(random_state=0).fit(domains.source, domains.labels)
        said = self.source_.decision_function(domains.target)
        said = np.column_stack([-said, said]) if said.ndim == 1 else said
        wanted = said[:, 1:] if said.shape[1] == 2 else said
        self.target_ = [
            SVR(C=self.C, epsilon=self.epsilon).fit(domains.target, column) for column in wanted.T
        ]
        self.classes_ = domains.classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of new rows."""
        check_is_fitted(self)
        rows = np.asarray(X, dtype=np.float64)
        scores = np.column_stack([one.predict(rows) for one in self.target_])
        if scores.shape[1] == 1:
            return np.asarray(self.classes_[(scores[:, 0] > 0).astype(int)])
        return np.asarray(self.classes_[scores.argmax(1)])
