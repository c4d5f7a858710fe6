"""Domain-specific class means (Csurka et al. 2014; math.md §10)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from marda._arrays import (
    argmax,
    at_least_0,
    beside,
    columns,
    float64,
    hstack,
    labels_at,
    logsumexp,
    namespace,
    place_of,
    rows_at,
    softmax,
    to_numpy,
    vdot,
)
from marda._validation import (
    UNLABELED,
    check_new_rows,
    check_number,
    check_rows,
    check_same_place,
)
from marda.moments import Moments, accumulate
from marda.operators.linear import DenseGram
from marda.operators.maps import DenoisingMap


class DSCM(ClassifierMixin, BaseEstimator):
    """Classify by soft distance to the class means of every domain.

    score_c(x) = Σ_D w_D exp(−½‖x − μ_D,c‖² / τ), normalised over classes, where μ_D,c is the mean
    of domain D's labelled rows of class c.

    Parameters
    ----------
    temperature : float, default=None
        τ. None takes the mean squared distance of labelled rows to their own mean.
    domain_weights : dict of int to float, default=None
        w_D; a domain that is not named weighs 1.
    unlabeled : default=-1
        Mark of unlabelled target rows, which are left out.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Label values.
    means_ : array of shape (n_means, n_features)
        Class means of the domains that have the class.
    mean_domains_, mean_classes_ : arrays of shape (n_means,)
        Domain of a mean; index of its class.
    temperature_ : float
        τ.
    log_weights_ : array of shape (n_means,)
        Logarithm of the weight of a mean's domain.
    n_features_in_, feature_names_in_ : int and array
        Columns of the rows of the fit; their names, if these were a DataFrame with names.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_domain": True}

    def __init__(
        self,
        temperature: float | None = None,
        domain_weights: Mapping[int, float] | None = None,
        *,
        unlabeled: Any = -1,
    ):
        self.temperature = temperature
        self.domain_weights = domain_weights
        self.unlabeled = unlabeled

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags

    def fit(self, X: Any, y: Any, *, sample_domain: Any = None) -> Self:
        """Learn the class means.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows.
        y : array of shape (n_rows,)
            Labels; target rows may carry the mark.
        sample_domain : array of int of shape (n_rows,), default=None
            Domains; None: one domain.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("DSCM requires y to be passed, but the target y is None.")
        self.__dict__.pop("means_", None)  # a fit that fails leaves no mixture
        X, (classes, codes), domain = check_rows(self, X, y, sample_domain)
        if len(classes) < 2:
            raise ValueError(f"y must have at least 2 classes, got one class: {classes}.")
        return self._fit_sums(accumulate(X, classes, codes, domain, grams=False))

    def _fit_sums(self, moments: Moments) -> Self:
        """Learn from the group sums of rows."""
        labelled = np.flatnonzero(moments.labels != UNLABELED)
        n, sums = moments.counts[labelled], rows_at(moments.sums, labelled)
        size = n.sum()
        xp, n = namespace(sums), beside(n, sums)[:, None]
        # Σ‖x − μ‖² = Σ‖x − shift‖² − n‖μ − shift‖² per group: near the data, nothing cancels
        squares = rows_at(moments.squares, labelled)
        within = squares - sums**2 / n
        # A column that is constant in its group leaves rounding: that is no distance.
        rounding = float(np.finfo(float).eps) * xp.where(n > 64, n, 64.0 + 0 * n) * squares
        spread = float(xp.sum(xp.where(within > rounding, within, 0 * within))) / size
        return self._set_means(moments, rows_at(moments.means(), labelled), float(spread))

    def _set_means(self, moments: Moments, means: NDArray[Any], spread: float) -> Self:
        """Take class means, and the mean squared distance of rows to their own mean."""
        labelled = moments.labels != UNLABELED
        self.n_features_in_ = means.shape[1]
        self.classes_ = moments.classes
        self.means_ = means
        self.mean_domains_ = beside(moments.domains[labelled], means, "int64")
        self.mean_classes_ = beside(moments.labels[labelled], means, "int64")
        if self.temperature is None:
            # Rows that all lie on their means have no scale of their own.
            self.temperature_ = spread if spread > 0 else 1.0
        else:
            self.temperature_ = check_number("temperature", self.temperature, strict=True)
        self.log_weights_ = beside(np.log(self._weights(moments.domains[labelled])), means)
        return self

    def _weights(self, domains: NDArray[np.int64]) -> NDArray[np.float64]:
        given = dict(self.domain_weights or {})
        unknown = set(given) - set(domains.tolist())
        if unknown:
            raise ValueError(
                f"domain_weights names domain {unknown.pop()}, which has no labelled rows."
            )
        for key, weight in given.items():
            check_number(f"domain_weights[{key}]", weight, strict=True)
        return np.array([float(given.get(d, 1.0)) for d in domains.tolist()])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the scores; for two classes, their difference (second minus first).

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        scores : array of shape (n_rows,) with two classes, else (n_rows, n_classes)
        """
        scores = self._log_scores(X, "decision_function")
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def log_scores(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the score of every class, one column per class.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        scores : array of shape (n_rows, n_classes)
        """
        return self._log_scores(X, "log_scores")

    def _log_scores(self, X: Any, method: str) -> NDArray[np.float64]:
        check_is_fitted(self, "means_")
        X = check_new_rows(self, X)
        check_same_place(self, X, place_of(self.means_), method)
        exponent = -0.5 * self._distances(X) / self.temperature_ + self.log_weights_
        of_class = to_numpy(self.mean_classes_)
        each = (np.flatnonzero(of_class == c) for c in range(len(self.classes_)))
        return hstack([logsumexp(columns(exponent, mine))[:, None] for mine in each])

    def _distances(self, X: Any) -> NDArray[np.float64]:
        """Squared distances of rows to the class means."""
        xp = namespace(self.means_)
        level = xp.mean(self.means_, axis=0)
        means = self.means_ - level  # near 0, squared lengths keep their digits
        if sp.issparse(X):
            X = sp.csr_array(X, dtype=np.float64)
            along, cross = X @ level, X @ means.T - level @ means.T
            # What is lost here is the same for all classes.
            squares = np.asarray((X * X).sum(axis=1)) - 2 * along + level @ level
        else:
            rows = float64(X) - level
            squares, cross = xp.sum(rows**2, axis=1), rows @ means.T
        found = at_least_0(squares)[:, None] - 2 * cross + xp.sum(means**2, axis=1)
        return cast("NDArray[np.float64]", found)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Scores, normalised over classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        P : array of shape (n_rows, n_classes)
            In the order of `classes_`; every row adds up to 1.
        """
        return softmax(self._log_scores(X, "predict_proba"))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        scores = self._log_scores(X, "predict")
        return labels_at(self.classes_, argmax(scores))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which `marda.load` reads.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete.
        """
        from marda.persist import save

        save(self, path)


def class_means(sums: Moments) -> DSCM:
    """A `DSCM` from the group sums of rows."""
    return DSCM()._fit_sums(sums)


def denoised_means(moments: Moments, denoise: DenoisingMap) -> DSCM:
    """A `DSCM` on denoised rows: class means and τ from the labelled Gram (math.md §10)."""
    labelled = moments.labels != UNLABELED
    means = denoise.apply(rows_at(moments.means(), np.flatnonzero(labelled)))
    within = DenseGram(moments.scatter(moments.shift, np.ones(len(moments.classes))))
    n, s = moments.counts[labelled], rows_at(moments.sums, np.flatnonzero(labelled))
    # Σ(x − μ)(x − μ)ᵀ over groups, then through W
    scatter = within.dense() - (s.T / beside(n, s)) @ s
    W = denoise.dense()
    return DSCM()._set_means(moments, means, vdot(W, scatter @ W) / float(n.sum()))
