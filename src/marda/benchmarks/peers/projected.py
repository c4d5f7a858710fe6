"""What the systems share: the two domains, the differences of means, neighbours in a projection.

All are fitted on rows of both domains as `marda.pack` gives them. They learn from source labels
alone: target labels are not looked at, whether there are some or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

__all__ = ["Domains", "discrepancy", "leading_directions", "nearest", "split_domains", "unit_rows"]

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


class Domains(NamedTuple):
    """Source rows with the numbers of their classes, target rows, and the classes."""

    source: Matrix
    labels: Labels
    target: Matrix
    classes: NDArray[Any]

    @property
    def rows(self) -> Matrix:
        """Source rows, then target rows."""
        return np.vstack([self.source, self.target])

    @property
    def n_source(self) -> int:
        """Number of source rows: where target rows begin."""
        return len(self.source)


def split_domains(X: Any, y: Any, sample_domain: Any) -> Domains:
    """Labelled source rows and all target rows (sample_domain < 0)."""
    X = np.asarray(X, dtype=np.float64)
    target = np.asarray(sample_domain) < 0
    if not target.any() or target.all():
        raise ValueError("both domains are needed: sample_domain must have rows >= 0 and rows < 0.")
    known = ~target & (np.asarray(y) != -1)
    classes, labels = np.unique(np.asarray(y)[known], return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"source rows of at least 2 classes are needed, got {len(classes)}.")
    return Domains(X[known], labels, X[target], classes)


def unit_rows(X: Any) -> Matrix:
    """Rows divided by their length; rows of zeros stay."""
    found: Matrix = normalize(np.asarray(X, dtype=np.float64))
    return found


def discrepancy(
    labels: Labels, guess: Labels | None, n_target: int, weights: Sequence[float]
) -> Matrix:
    """Columns e with MMD = Σ ‖Xᵀe‖²: difference of the means, then one per class.

    Parameters
    ----------
    labels, guess : classes of source rows; of target rows, or None if there is no guess yet
        A class that the guess lacks has no column.
    weights : (marginal, conditional)
        Of the first column, and of the others, in the MMD.
    """
    n_source = len(labels)
    whole = np.append(np.full(n_source, 1 / n_source), np.full(n_target, -1 / n_target))
    columns = [np.sqrt(weights[0]) * whole]
    if guess is not None:
        for c in np.intersect1d(labels, guess):
            ours, theirs = labels == c, guess == c
            column = np.append(ours / ours.sum(), theirs / -theirs.sum())
            columns.append(np.sqrt(weights[1]) * column)
    return np.stack(columns, 1)


def leading_directions(
    scatter: Matrix, penalty: Matrix, n: int, *, unit_scatter: bool = False
) -> Matrix:
    """At most n directions a with the largest aᵀ·scatter·a for aᵀ·penalty·a = 1, best first.

    ``unit_scatter``: the same, divided so that aᵀ·scatter·a = 1; those without scatter left out.
    """
    d = len(scatter)
    values, found = eigh(scatter, penalty, subset_by_index=(max(d - n, 0), d - 1))
    values, found = values[::-1], found[:, ::-1]
    if unit_scatter:
        kept = values > 1e-10 * values[0]
        found = found[:, kept] / np.sqrt(values[kept])
    return np.ascontiguousarray(found)


def nearest(rows: Matrix, labels: Labels) -> KNeighborsClassifier:
    """The label of the nearest row."""
    return KNeighborsClassifier(n_neighbors=1).fit(rows, labels)
