"""Accuracy of classifiers whose labels may hold a mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing, column_or_1d

from marda._validation import is_marked

__all__ = ["LabelledScore"]


class LabelledScore:
    """`score` on the rows that carry a label."""

    if TYPE_CHECKING:
        classes_: Any
        unlabeled: Any
        predict: Any

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that carry a label; marked rows are left out."""
        y = np.asarray(column_or_1d(y))
        marked = is_marked(y, self.unlabeled)
        marked &= ~np.isin(y, self.classes_) if y.dtype.kind != "O" else marked
        if marked.all():
            raise ValueError("no row of y carries a label: there is nothing to score.")
        keep = np.flatnonzero(~marked)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)[keep]
        X = _safe_indexing(X, keep)
        return float(accuracy_score(y[keep], self.predict(X), sample_weight=sample_weight))
