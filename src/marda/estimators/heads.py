"""Heads: classifiers on features, fitted again and again while self-training adds rows.

A head is given the features of all rows once. `fit` learns from some of them and scores all, so
that self-training (pseudo_labels.py) can use any classifier, and what does not depend on labels is
computed once. Which head a model has follows from its `classifier` (`head` in self_training.py):

| `classifier` | head | learns, of rows f with labels (math.md §10) |
| --- | --- | --- |
| "ridge", "kernel" | `RidgeHead` | the scores h(f) + b of a ridge (kernel_ridge.py) |
| "dscm" | `MeansHead` | a mean per domain and class |
| "nn" | `NearestHead` | the rows themselves |
| any other | `EstimatorHead` | what a classifier of scikit-learn learns |
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
from marda.criteria import far_level
from marda.estimators.dscm import DSCM, class_means
from marda.estimators.kernel_ridge import (
    GaussianRidge,
    RidgeOnRows,
    RidgeSolution,
    RowsOnDemand,
    signs,
)
from marda.moments import accumulate

Matrix = NDArray[Any]
Vector = NDArray[Any]
Index = NDArray[np.int64]


class Head(ABC):
    """A classifier on the features of all rows of a fit.

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
        """Learn from some rows, and score all.

        Parameters
        ----------
        rows : array of shape (n_labelled,)
            Places of the labelled rows among all.
        codes : array of shape (n_labelled,)
            Their classes, as places in `classes`.
        weights : array of shape (n_labelled,)
            How much each counts.

        Returns
        -------
        array of shape (n_rows, n_classes)
            Scores; the largest of a row is its class.
        """

    @property
    @abstractmethod
    def fitted(self) -> Any:
        """The classifier of the last fit, which predicts new rows."""


class RidgeHead(Head):
    """A ridge with a free intercept: min Σ w‖y − h(f) − b‖² + δ‖h‖² over h and b (math.md §10.1).

    Parameters
    ----------
    F, classes
        As of every head; F may also be made on demand (see `RidgeOnRows`, which has `seed` and
        `inner`, too).
    gaussian : bool
        Whether h lies in the space of a Gaussian kernel; otherwise it is linear.
    ridge : float
        δ, which may be set again before any fit.
    """

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
        """Scores of these rows, each by the fit without it."""
        Y = signs(codes, len(self.classes), self.on_rows.dtype)
        return self.on_rows.leave_one_out(rows, Y, weights, self.ridge)

    @property
    def fitted(self) -> GaussianRidge:
        """The classifier of a Gaussian kernel; a linear one is its `solution`."""
        return GaussianRidge.of(self.classes, self.on_rows, self.solution)


class MeansHead(Head):
    """Class means per domain (`DSCM`): pseudo-labels give the target means of its own."""

    def __init__(self, F: Matrix, classes: Vector, domain: Index):
        super().__init__(F, classes)
        self._domain = domain

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Take the means, in which all rows count alike; log-probabilities."""
        sums = accumulate(self.F[rows], self.classes, codes, self._domain[rows], grams=False)
        self._fitted = class_means(sums)
        return self._fitted.log_scores(self.F)

    @property
    def fitted(self) -> DSCM:
        """The class means."""
        return self._fitted


class NearestHead(Head):
    """The class of the nearest labelled row; sure where rows of other classes are far."""

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Keep the rows; minus the distance to the nearest row of each class."""
        self._labelled = rows, codes
        scores = np.full((len(self.F), len(self.classes)), -np.inf)
        F = self.F - far_level(self.F)
        for c in np.unique(codes):
            scores[:, c] = -pairwise_distances_argmin_min(F, F[rows[codes == c]])[1]
        return scores

    @property
    def fitted(self) -> NearestRow:
        """A nearest-neighbour classifier of the labelled rows."""
        rows, codes = self._labelled
        return NearestRow(n_neighbors=1).fit(self.F[rows], self.classes[codes])


class NearestRow(KNeighborsClassifier):
    """Scikit-learn's nearest neighbour, which keeps its rows where a model file finds them.

    Attributes
    ----------
    rows_, labels_ : arrays of shape (n_rows, n_features) and (n_rows,)
        What it was fitted on.
    """

    def fit(self, X: Matrix, y: Vector) -> NearestRow:
        """Keep the rows."""
        self.rows_, self.labels_, self._level = X, y, far_level(X)
        super().fit(X - self._level, y)
        return self

    def kneighbors(self, X: Any = None, *args: Any, **options: Any) -> Any:
        """Distances and places of the nearest rows."""
        return super().kneighbors(None if X is None else X - self._level, *args, **options)

    def predict(self, X: Matrix) -> Vector:
        """The label of the nearest row."""
        return np.asarray(self.labels_[self.kneighbors(X, return_distance=False)[:, 0]])

    def predict_proba(self, X: Matrix) -> Matrix:
        """1 for that label, 0 for all others."""
        return np.asarray(self.predict(X)[:, None] == self.classes_, dtype=np.float64)


class EstimatorHead(Head):
    """Any classifier of scikit-learn, made anew for every fit; weights where it takes them."""

    def __init__(self, F: Matrix, classes: Vector, make: Callable[[], Any]):
        super().__init__(F, classes)
        self._make = make

    def fit(self, rows: Index, codes: Index, weights: Vector) -> Matrix:
        """Fit a fresh one; log-probabilities, or decision values where it has none."""
        self._fitted = self._make()
        # Equal weights say nothing, and not every classifier can be told.
        weighted = has_fit_parameter(self._fitted, "sample_weight") and np.ptp(weights) > 0
        options = {"sample_weight": weights} if weighted else {}
        self._fitted.fit(self.F[rows], self.classes[codes], **options)
        scores = np.full((len(self.F), len(self.classes)), -np.inf)
        learned = np.searchsorted(self.classes, self._fitted.classes_)
        scores[:, learned] = self._confidence()
        return scores

    def _confidence(self) -> Matrix:
        """Of all rows in the classes that were learned."""
        if hasattr(self._fitted, "predict_proba"):
            P = self._fitted.predict_proba(self.F)
            return np.asarray(np.log(np.maximum(P, np.finfo(np.float64).tiny)))
        if hasattr(self._fitted, "decision_function"):
            return _column_per_class(self._fitted.decision_function(self.F))
        raise ValueError(
            f"refine needs the confidence of predictions, and {type(self._fitted).__name__} "
            "has neither predict_proba nor decision_function."
        )

    @property
    def fitted(self) -> Any:
        """The classifier of the last fit."""
        return self._fitted


def class_scores(fitted: Any, F: Matrix) -> NDArray[np.float64]:
    """Scores of features by the `fitted` classifier of a head, one column per class."""
    if isinstance(fitted, GaussianRidge):
        return fitted.scores(F)
    if isinstance(fitted, DSCM):
        return fitted.log_scores(F)
    if hasattr(fitted, "decision_function"):
        return _column_per_class(fitted.decision_function(F))
    return np.asarray(fitted.predict_proba(F), dtype=np.float64)


def _column_per_class(decision: Any) -> NDArray[np.float64]:
    """Decision values; of two classes scikit-learn gives those of the second alone."""
    values = np.asarray(decision, dtype=np.float64)
    return values if values.ndim == 2 else np.stack([-values, values], axis=1)
