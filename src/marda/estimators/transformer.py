"""`MDA`: denoised, domain-invariant features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from marda._validation import check_callers, check_domains, check_marks, check_rows, is_marked
from marda.estimators._base import BaseMDA, with_parameters
from marda.estimators.fitting import fit_model, fit_moments
from marda.estimators.model import TrainingRows, settings_of
from marda.estimators.streaming import check_mark, dask_moments
from marda.moments import Moments
from marda.moments.accumulate import is_dask
from marda.terms import parse_method

__all__ = ["MDA"]


def _check_unread(y: Any, sample_domain: Any, mark: Any) -> None:
    """Labels that MDA does not read, but whoever comes after it may: their marks need domains."""
    if y is None or is_dask(y) or is_dask(sample_domain):
        return
    y = np.asarray(y)
    if y.ndim != 1 or (y.dtype.kind == "f" and np.any(y != np.floor(y), where=np.isfinite(y))):
        return  # not the labels of a classifier
    domain = None if sample_domain is None else check_domains(sample_domain, len(y), both=False)
    check_marks(y, domain, mark)
    if domain is not None:
        check_callers(is_marked(y, mark) & (domain < 0), mark)


@with_parameters
class MDA(BaseMDA):
    """Features in which domains no longer differ, by marginalised denoising.

    Minimises E‖X − X̃W‖² + ω‖W‖² over the noise X̃, plus the terms that `method` names
    (math: docs/method.md). Joint methods ("J12…") need labels in `fit`.

    Parameters
    ----------
    {parameters}
    {more_parameters}

    Attributes
    ----------
    W_ : array of shape (n_features, n_outputs)
        The denoising matrix, made dense on demand; `W_map_ @ V` applies it without.
    offset_ : array of shape (n_outputs,)
        Its bias row.
    loss_curve_ : array
        The loss after every alternation (one value for sequential methods); never rises.
    n_iter_ : int
        Alternations; 1 for sequential methods.
    residual_ : float
        Largest relative residual, on random probes, of (★) and, unless the classifier learns from
        features, of the class predictor. `fit` raises where it, or the error estimated from it,
        is above 1e-6.
    setting_ : {"US", "SUP", "SS"}
        No labelled target rows; no unlabelled rows; both kinds.
    solver_ : {"primal", "dual", "cg"}
        The route taken.
    domains_ : array of int
        Domains seen in fit.

    Examples
    --------
    >>> import numpy as np
    >>> from marda import MDA, pack
    >>> rng = np.random.default_rng(0)
    >>> Xs, Xt = rng.normal(size=(50, 4)), rng.normal(1, 1, size=(40, 4))
    >>> X, y, sample_domain = pack(Xs, np.arange(50) % 2, Xt)
    >>> MDA("S1M").fit(X, y, sample_domain=sample_domain).transform(Xt).shape
    (40, 4)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = isinstance(self.method, str) and self.method.startswith("J12")
        return tags

    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array, sparse matrix or Dask collection of shape (n_rows, n_features)
            Rows of all domains.
        y : array of shape (n_rows,), default=None
            Labels; target rows may carry the mark. Only joint methods and "C" read them.
        sample_domain : array of int of shape (n_rows,), default=None
            At least 0 for a source, below 0 for a target. None: one domain, no domain terms;
            marks in y are then refused.

        Returns
        -------
        self
        """
        terms = parse_method(self.method)
        if not (terms.joint or terms.class_mmd):
            _check_unread(y, sample_domain, self.unlabeled)
            y = None  # any y is accepted, as in scikit-learn's transformers
        if terms.joint and y is None:
            raise ValueError(
                f"method={self.method!r} requires y to be passed, but the target y is None."
            )
        if is_dask(X):
            return self.fit_moments(dask_moments(self, X, y, sample_domain))
        self._forget()
        X, labels, domain = check_rows(self, X, y, sample_domain)
        rows = TrainingRows(X, labels, domain, ordered=False)
        self.model_ = fit_model(rows, settings_of(self.get_params(deep=False)))
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Learn from statistics alone.

        Parameters
        ----------
        moments : Moments
            Statistics of all rows, merged.

        Returns
        -------
        self
        """
        if parse_method(self.method).joint and len(moments.classes) < 2:
            raise ValueError(
                f"method={self.method!r} needs labels of at least 2 classes, and the moments have "
                f"{len(moments.classes)}."
            )
        check_mark(moments, self.unlabeled)
        self._forget()
        self.model_ = fit_moments(moments, settings_of(self.get_params(deep=False)))
        self._take_names(moments)
        return self
