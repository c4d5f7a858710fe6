"""Domain-specific class means (Csurka et al. 2014; math.md §10)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import check_is_fitted

from marda._validation import UNLABELED, check_new_rows, check_number, check_rows
from marda.moments import Moments, accumulate
from marda.operators.linear import DenseGram
from marda.operators.maps import DenoisingMap

__all__ = ["DSCM", "class_means", "denoised_means"]


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
        X, (classes, codes), domain = check_rows(self, X, y, sample_domain)
        if len(classes) < 2:
            raise ValueError(f"y must have at least 2 classes, got one class: {classes}.")
        return self._fit_sums(accumulate(X, classes, codes, domain, grams=False))

    def _fit_sums(self, moments: Moments) -> Self:
        """Learn from the group sums of rows."""
        labelled = moments.labels != UNLABELED
        n, sums = moments.counts[labelled], moments.sums[labelled]
        # Σ‖x − μ‖² = Σ‖x − shift‖² − n‖μ − shift‖² per group: near the data, nothing cancels
        squares = moments.squares[labelled]
        within = squares - sums**2 / n[:, None]
        # A column that is constant in its group leaves rounding: that is no distance.
        within[within <= np.finfo(float).eps * np.maximum(n, 64)[:, None] * squares] = 0
        return self._set_means(moments, moments.means()[labelled], within.sum() / n.sum())

    def _set_means(self, moments: Moments, means: NDArray[Any], spread: float) -> Self:
        """Take class means, and the mean squared distance of rows to their own mean."""
        labelled = moments.labels != UNLABELED
        self.n_features_in_ = means.shape[1]
        self.classes_ = moments.classes
        self.means_ = means
        self.mean_domains_ = moments.domains[labelled]
        self.mean_classes_ = moments.labels[labelled]
        if self.temperature is None:
            # Rows that all lie on their means have no scale of their own.
            self.temperature_ = spread if spread > 0 else 1.0
        else:
            self.temperature_ = check_number("temperature", self.temperature, strict=True)
        self.log_weights_ = np.log(self._weights())
        return self

    def _weights(self) -> NDArray[np.float64]:
        given = dict(self.domain_weights or {})
        unknown = set(given) - set(self.mean_domains_.tolist())
        if unknown:
            raise ValueError(
                f"domain_weights names domain {unknown.pop()}, which has no labelled rows."
            )
        for key, weight in given.items():
            check_number(f"domain_weights[{key}]", weight, strict=True)
        return np.array([float(given.get(d, 1.0)) for d in self.mean_domains_.tolist()])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the scores; for two classes, their difference (second minus first)."""
        scores = self.log_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def log_scores(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the score of every class, one column per class."""
        check_is_fitted(self)
        X = check_new_rows(self, X)
        distance = euclidean_distances(X, self.means_, squared=True)
        exponent = -0.5 * distance / self.temperature_ + self.log_weights_
        scores = np.full((X.shape[0], len(self.classes_)), -np.inf)
        for c in range(len(self.classes_)):
            scores[:, c] = logsumexp(exponent[:, self.mean_classes_ == c], axis=1)
        return scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Scores, normalised over classes."""
        scores = self.log_scores(X)
        return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score."""
        scores = self.log_scores(X)
        return np.asarray(self.classes_[scores.argmax(1)])

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
    means = denoise.apply(moments.means()[labelled])
    within = DenseGram(moments.scatter(moments.shift, np.ones(len(moments.classes))))
    n, s = moments.counts[labelled], moments.sums[labelled]
    # Σ(x − μ)(x − μ)ᵀ over groups, then through W
    scatter = within.dense() - (s.T / n) @ s
    W = denoise.dense()
    return DSCM()._set_means(moments, means, float(np.vdot(W, scatter @ W)) / float(n.sum()))
