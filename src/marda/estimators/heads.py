"""Heads: classifiers on the features of one fit, refitted often, on changing sets of labelled rows.

A head is made for all rows of a fit and scores all of them after every fit, so that self-training
(pseudo_labels.py) can use any classifier: a ridge (kernel_ridge.py), class means, the nearest row,
or one of scikit-learn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.validation import has_fit_parameter

from marda._arrays import span
from marda.estimators.dscm import DSCM, class_means
from marda.estimators.kernel_ridge import (
    GaussianRidge,
    RidgeOnRows,
    RidgeSolution,
    RowsOnDemand,
    signs,
)
from marda.moments import accumulate

__all__ = [
    "EstimatorHead",
    "Head",
    "MeansHead",
    "NearestHead",
    "NearestRow",
    "RidgeHead",
    "class_scores",
]

Matrix = NDArray[Any]
Vector = NDArray[Any]
Index = NDArray[np.int64]


class Head(ABC):
    """A classifier on features `F` of all rows of a fit.

    Parameters
    ----------
    F : array of shape (n_rows, n_features)
        Features of all rows.
    classes : array of shape (n_classes,)
        Label values.
    """

    def __init__(self, F: Matrix, classes: Vector):
        self._features, self.classes = F, classes

    @property
    def F(self) -> Matrix:
        """Features of all rows."""
        return self._features

    @abstractmethod
    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Fit on some rows with these class codes; scores of all rows, one column per class."""

    @property
    @abstractmethod
    def fitted(self) -> Any:
        """The classifier of the last fit."""


class RidgeHead(Head):
    """Ridge with a free intercept, linear or in the space of a Gaussian kernel."""

    def __init__(
        self,
        F: Matrix | RowsOnDemand | Callable[[], Matrix | RowsOnDemand],
        classes: Vector,
        *,
        gaussian: bool,
        ridge: float = 1.0,
        seed: int = 0,
        inner: Matrix | None = None,
    ):
        self.classes, self.ridge = classes, ridge
        self.on_rows = RidgeOnRows(F, gaussian=gaussian, seed=seed, inner=inner)
        self.solution: RidgeSolution

    @property
    def F(self) -> Any:
        """Features of all rows; those of a kernel are made when they are asked for."""
        return self.on_rows.F

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Solve; the solution is kept."""
        return self._solved(rows, codes, weights, None)

    def fit_for(self, some: Index) -> Callable[[Index, Index, Vector], Matrix]:
        """`fit` where scores of some rows are asked for: those of others may be NaN."""
        of = span(some)
        return self.fit if of is None else partial(self._solved, of=of)

    def _solved(self, rows: Index, codes: Index, weights: Vector, of: slice | None) -> Matrix:
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        self.solution, found = self.on_rows.fit(rows, Y, weights, self.ridge, of)
        if of is None:
            return found
        scores = np.full((self.on_rows.n_rows, found.shape[1]), np.nan, dtype=found.dtype)
        scores[of] = found
        return scores

    def hold(self, rows: Index, codes: Index, weights: Vector) -> None:
        """Prepare for fits of these rows first and others after them."""
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        self.on_rows.hold(rows, Y, weights, self.ridge)

    def leave_one_out(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Scores of fitted rows, each by the fit without it."""
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        return self.on_rows.leave_one_out(rows, Y, weights, self.ridge)

    @property
    def fitted(self) -> GaussianRidge:
        """The Gaussian classifier; a linear one is its solution."""
        return GaussianRidge.of(self.classes, self.on_rows, self.solution)


class EstimatorHead(Head):
    """Any scikit-learn classifier; weights where it takes them."""

    def __init__(self, F: Matrix, classes: Vector, make: Callable[[], Any]):
        super().__init__(F, classes)
        self._make = make

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Fit a fresh copy; log-probabilities, or decision values."""
        self._fitted = self._make()
        # Equal weights say nothing, and not every classifier can be told.
        weighted = has_fit_parameter(self._fitted, "sample_weight") and np.ptp(weights) > 0
        options = {"sample_weight": weights} if weighted else {}
        self._fitted.fit(self.F[rows], self.classes[codes], **options)
        scores = np.full((len(self.F), len(self.classes)), -np.inf)
        known = np.searchsorted(self.classes, self._fitted.classes_)
        if hasattr(self._fitted, "predict_proba"):
            P = self._fitted.predict_proba(self.F)
            scores[:, known] = np.log(np.maximum(P, np.finfo(np.float64).tiny))
            return scores
        if not hasattr(self._fitted, "decision_function"):
            raise ValueError(
                f"refine needs the confidence of predictions, and {type(self._fitted).__name__} "
                "has neither predict_proba nor decision_function."
            )
        values = np.asarray(self._fitted.decision_function(self.F))
        scores[:, known] = values if values.ndim == 2 else np.stack([-values, values], 1)
        return scores

    @property
    def fitted(self) -> Any:
        """The fitted copy."""
        return self._fitted


class MeansHead(Head):
    """Domain-specific class means; pseudo-labels give the target means of its own."""

    def __init__(self, F: Matrix, classes: Vector, domain: Index):
        super().__init__(F, classes)
        self._domain = domain

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Means of the rows; they have no weights."""
        sums = accumulate(self.F[rows], self.classes, codes, self._domain[rows], grams=False)
        self._fitted = class_means(sums)
        return self._fitted.log_scores(self.F)

    @property
    def fitted(self) -> DSCM:
        """The fitted class means."""
        return self._fitted


class NearestRow(KNeighborsClassifier):
    """The class of the nearest row.

    Attributes
    ----------
    rows_, labels_ : arrays of shape (n_rows, n_features) and (n_rows,)
        What it was fitted on.
    """

    def fit(self, X: Matrix, y: Vector) -> NearestRow:
        """Keep the rows."""
        self.rows_, self.labels_ = X, y
        super().fit(X, y)
        return self


class NearestHead(Head):
    """The nearest labelled row; sure where the nearest row of another class is far."""

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Minus the distance to the nearest row of every class."""
        self._last = rows, codes
        scores = np.full((len(self.F), len(self.classes)), -np.inf)
        for c in np.unique(codes):
            scores[:, c] = -pairwise_distances_argmin_min(self.F, self.F[rows[codes == c]])[1]
        return scores

    @property
    def fitted(self) -> NearestRow:
        """The nearest-neighbour classifier of the last rows."""
        rows, codes = self._last
        return NearestRow(n_neighbors=1).fit(self.F[rows], self.classes[codes])


def class_scores(fitted: Any, F: Matrix) -> NDArray[np.float64]:
    """Scores of features by a fitted classifier, one column per class."""
    if isinstance(fitted, GaussianRidge):
        return fitted.scores(F)
    if isinstance(fitted, DSCM):
        return fitted.log_scores(F)
    if hasattr(fitted, "decision_function"):
        values = np.asarray(fitted.decision_function(F), dtype=np.float64)
        return np.asarray(values if values.ndim == 2 else np.stack([-values, values], 1))
    return np.asarray(fitted.predict_proba(F), dtype=np.float64)
