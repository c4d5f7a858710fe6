"""Batches of raw rows (labels as the user has them, classes not known yet) → `Moments`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _get_feature_names, check_array

from marda._validation import UNLABELED, Labels, check_domains, encode_labels, is_marked, summed
from marda.moments.accumulate import Accumulator, batch_rows
from marda.moments.stats import Moments, merge_classes

__all__ = ["Collector", "from_batches", "holds_mark", "is_dask"]


class Collector:
    """Adds up batches whose classes and domains become known as they come.

    Labels are coded in the order in which their values appear; `result` sorts them.

    Parameters
    ----------
    unlabeled : default=-1
        Mark of unlabelled target rows.
    class_grams : bool, default=False
        Keep a Gram per class.
    classes : array, default=None
        All label values that may come; others raise. None: any.
    start : Moments, default=None
        Statistics of earlier rows, which count as if they had come first.
    """

    def __init__(
        self,
        *,
        unlabeled: Any = -1,
        class_grams: bool = False,
        classes: Any = None,
        start: Moments | None = None,
    ):
        self.unlabeled = unlabeled
        self.class_grams = class_grams
        self.allowed = None if classes is None else np.unique(np.asarray(classes))
        self.start = start
        self.n_rows = 0 if start is None else start.n_rows
        self.feature_names: NDArray[Any] | None = None if start is None else start.feature_names
        self._total: Accumulator | None = None
        self._values = np.empty(0, dtype=np.int64)  # classes in order of appearance
        self._codes: dict[Any, int] = {}
        self._n_features = None if start is None else start.n_features
        self._mark_is_class = start is not None and holds_mark(start.classes, unlabeled)
        self.mark_is_mark = False

    def add(self, X: Any, y: Any = None, sample_domain: Any = None) -> None:
        """Check a batch and add it; y and sample_domain as in `Moments.from_arrays`."""
        names = _get_feature_names(X)
        X = summed(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        domain = check_domains(sample_domain, X.shape[0], both=False)
        self._check_columns(X, names)
        self.add_checked(X, y, domain, given=sample_domain is not None)

    def add_checked(self, X: Any, y: Any, domain: NDArray[np.int64], *, given: bool = True) -> None:
        """Add rows and domains that were checked (`given`: by the caller), labels as they are."""
        labels = self._encode(y, domain, given)
        if self._total is None:
            self._total = Accumulator(X.shape[1], len(self._values), class_grams=self.class_grams)
        self._total.grow(len(self._values))
        for rows in batch_rows(X):
            self._total.add(X[rows], labels[rows], domain[rows])
        self.n_rows += X.shape[0]

    def result(self, *, declared: bool = False) -> Moments:
        """The statistics of all batches so far; if `declared`, with the classes without a row."""
        if self._total is None:
            if self.start is None:
                raise ValueError("no rows: at least one batch is needed.")
            return self.start
        order = np.argsort(self._values, kind="stable")
        moments = self._total.result(self._values, self.feature_names)
        # Codes count in order of appearance: code c of `_values` is at place[c] once sorted.
        place = np.empty(len(order) + 1, dtype=np.int64)
        place[order], place[-1] = np.arange(len(order)), UNLABELED
        grams = None if moments.class_grams is None else moments.class_grams[order]
        moments = replace(
            moments,
            classes=self._values[order],
            labels=place[moments.labels],
            class_grams=grams,
        )
        moments = _sorted_groups(moments)
        if self.start is not None:
            moments = self.start + moments
        if declared and self.allowed is not None:
            moments = moments.recoded(merge_classes(moments.classes, self.allowed))
        return moments

    def _encode(self, y: Any, domain: NDArray[np.int64], given: bool) -> NDArray[np.int64]:
        """Codes of a batch's labels, in order of appearance over all batches."""
        labels = _encode_quietly(y, domain, self.unlabeled, given)
        self._check_mark(y, labels, domain)
        if self.allowed is not None:
            odd = np.setdiff1d(labels.classes, self.allowed)
            if odd.size:
                raise ValueError(
                    f"y has the label {odd.tolist()[0]!r}, which is not in classes: "
                    f"{self.allowed.tolist()}."
                )
        new = [v for v in labels.classes.tolist() if v not in self._codes]
        if new:
            fresh = labels.classes[[v in set(new) for v in labels.classes.tolist()]]
            merge_classes(self._values, fresh)  # raises if strings meet numbers
            self._values = np.concatenate([self._values, fresh]) if len(self._values) else fresh
            for value in new:
                self._codes[value] = len(self._codes)
        local = np.array([self._codes[v] for v in labels.classes.tolist()] + [UNLABELED])
        return local[labels.codes]

    def _check_mark(self, y: Any, labels: Labels, domain: NDArray[np.int64]) -> None:
        """The mark is a class in one batch and a mark in another: refuse, as one `fit` would."""
        if y is None:
            return
        values = np.asarray(y).ravel()
        hidden = (labels.codes == UNLABELED) & (domain < 0)
        none = is_marked(values, None)
        self.mark_is_mark |= bool((is_marked(values, self.unlabeled) & hidden & ~none).any())
        self._mark_is_class |= holds_mark(labels.classes, self.unlabeled)
        if self.mark_is_mark and self._mark_is_class:
            raise ValueError(
                f"the mark of unlabelled target rows, {self.unlabeled!r}, is also a class of "
                "other rows: mark them otherwise, with unlabeled=… (or NaN in float labels, None "
                "in object labels)."
            )

    def _check_columns(self, X: Any, names: NDArray[Any] | None) -> None:
        if self._n_features is None:
            self._n_features, self.feature_names = X.shape[1], names
        if X.shape[1] != self._n_features:
            raise ValueError(
                f"a batch has {X.shape[1]} columns, and the ones before have {self._n_features}."
            )
        if names is not None and self.feature_names is not None:
            differ = np.flatnonzero(names != self.feature_names)
            if differ.size:
                i = differ[0]
                raise ValueError(
                    f"column {i} of a batch is {names[i]!r}, and {self.feature_names[i]!r} in the "
                    "ones before."
                )


def from_batches(batches: Iterable[Any], *, unlabeled: Any, class_grams: bool) -> Moments:
    """`Moments.from_batches`."""
    total = Collector(unlabeled=unlabeled, class_grams=class_grams)
    for batch in batches:
        total.add(*(batch if isinstance(batch, tuple) else (batch,)))
    return total.result()


def _encode_quietly(y: Any, domain: NDArray[np.int64], mark: Any, given: bool) -> Labels:
    """`encode_labels`; that a small batch has many classes says nothing."""
    # scikit-learn warns above this share; warning filters are not safe among threads, so they are
    # touched only where it would.
    values = [] if y is None else np.asarray(y).ravel().tolist()
    if len(values) <= 20 or 2 * len(set(values)) < len(values) - 2:
        return encode_labels(y, domain, mark, given=given, whole=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")
        return encode_labels(y, domain, mark, given=given, whole=False)


def holds_mark(classes: NDArray[Any], mark: Any) -> bool:
    """Whether the mark of unlabelled rows is one of the classes."""
    return bool(len(classes)) and bool(is_marked(classes, mark).any())


def _sorted_groups(moments: Moments) -> Moments:
    order = np.lexsort((moments.labels, moments.domains))
    return replace(
        moments,
        domains=moments.domains[order],
        labels=moments.labels[order],
        counts=moments.counts[order],
        sums=moments.sums[order],
        squares=moments.squares[order],
    )


def is_dask(thing: Any) -> bool:
    """Whether this is a Dask collection; dask itself is not imported to tell."""
    return hasattr(type(thing), "__dask_graph__")
