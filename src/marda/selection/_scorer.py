"""What every label-free scorer is: the protocol, and the common part of marda's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from marda.selection._fitted import Fitted, Rows, split_rows

__all__ = ["Criterion", "Scorer"]


class Criterion(Protocol):
    """What every scorer here is, and what a search may be given instead.

    `estimator` is fitted; `y` is read for source rows only; `sample_domain` is at least 0 for
    source rows and below 0 for target rows. The result is a finite number, higher is better.
    """

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, *, sample_domain: Any = None
    ) -> float:
        """Score a fitted estimator on rows of source and target."""
        ...


class Scorer(BaseEstimator, ABC):
    """Parameters, routing and the split of rows by domain."""

    #: Whether labelled source rows are needed.
    _reads_source = False

    def get_metadata_routing(self) -> MetadataRequest:
        """Every scorer asks for `sample_domain`."""
        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="sample_domain", alias=True)
        return request

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, *, sample_domain: Any = None
    ) -> float:
        """Score a fitted estimator; higher is better.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier or pipeline.
        X : array, sparse matrix or table of shape (n_rows, n_features)
            Rows of all domains.
        y : array of shape (n_rows,), default=None
            Labels; those of target rows are never read.
        sample_domain : array of int of shape (n_rows,)
            At least 0 for a source, below 0 for a target.

        Returns
        -------
        float
        """
        name = type(self).__name__
        source, target = split_rows(name, X, y, sample_domain, labels=self._reads_source)
        return float(self._score(Fitted(estimator, name), source, target)) + 0.0  # no "-0.0"

    @abstractmethod
    def _score(self, model: Fitted, source: Rows, target: Rows) -> float:
        """The criterion."""
