"""Do rows that lie close together get the same label?"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from marda._order import row_order

__all__ = [
    "Agreement",
    "Neighbours",
    "label_agreement",
    "nearest_neighbours",
    "neighbour_agreement",
]

BLOCK_MEMORY = 32  # MiB of distances at a time


class Neighbours(NamedTuple):
    """The rows that were looked at (all of them, or a sample), and neighbours among them."""

    rows: NDArray[np.int64]
    nearest: NDArray[np.int64]


class Agreement(NamedTuple):
    """Chance-corrected agreement and its standard error over rows."""

    value: float
    standard_error: float


def nearest_neighbours(
    F: Any, k: int = 10, *, max_rows: int = 5000, random_state: Any = 0
) -> Neighbours:
    """The k nearest other rows of each row, in Euclidean distance.

    Parameters
    ----------
    F : array or CSR array of shape (n_rows, n_features)
        Features that do not depend on what is compared.
    k : int, default=10
        Neighbours a row.
    max_rows : int, default=5000
        Above it, a seeded sample of that many rows, whatever their order is.
    random_state : int, RandomState or None, default=0
        Draws the sample.

    Returns
    -------
    Neighbours
        Take it once and use it for many labellings.
    """
    from sklearn.neighbors import NearestNeighbors

    n = F.shape[0]
    rows = row_order(F)
    if n > max_rows:
        rows = rows[np.sort(check_random_state(random_state).choice(n, max_rows, replace=False))]
    F = F[rows]
    if not 1 <= k < len(rows):
        raise ValueError(
            f"k={k} neighbours need more than {k} rows, got {len(rows)}: lower k (at least 1)."
        )
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(F)
    # Without rows of its own, kneighbors leaves each row out of its neighbours. Distances are
    # taken in blocks: of dense rows always, of sparse rows within this memory.
    with sklearn.config_context(working_memory=BLOCK_MEMORY):
        nearest = np.asarray(search.kneighbors(return_distance=False))
    # Back to the order in which rows came; ties were broken in their own.
    back = np.argsort(rows)
    place = np.empty_like(back)
    place[back] = np.arange(len(back))
    return Neighbours(rows[back], place[nearest[back]])


def label_agreement(neighbours: Neighbours, labels: Any) -> Agreement:
    """(a − Σ π_c²)/(1 − Σ π_c²), a the share of neighbours with the row's own label.

    π are the shares of labels: 0 is what random labels of these shares reach, and what one label
    for every row is worth; 1 is full agreement.

    Parameters
    ----------
    neighbours : Neighbours
        Of the rows that `labels` describes.
    labels : array of shape (n_rows,)
        Predicted labels of all rows.

    Returns
    -------
    Agreement
        Value and standard error over rows (as if rows were independent).
    """
    codes = np.unique(np.asarray(labels)[neighbours.rows], return_inverse=True)[1].ravel()
    n = len(codes)
    chance = float(((np.bincount(codes) / n) ** 2).sum())
    if chance == 1.0:
        return Agreement(0.0, 0.0)
    shares = (codes[neighbours.nearest] == codes[:, None]).mean(1)
    error = float(shares.std(ddof=1)) / np.sqrt(n) / (1 - chance)
    return Agreement(float((shares.mean() - chance) / (1 - chance)), float(error))


def neighbour_agreement(
    F: Any, labels: Any, k: int = 10, *, max_rows: int = 5000, random_state: Any = 0
) -> Agreement:
    """Chance-corrected agreement of labels with those of the k nearest rows.

    `nearest_neighbours`, then `label_agreement`, whose parameters these are.
    """
    if len(labels) != F.shape[0]:
        raise ValueError(f"labels has {len(labels)} values but F has {F.shape[0]} rows.")
    neighbours = nearest_neighbours(F, k, max_rows=max_rows, random_state=random_state)
    return label_agreement(neighbours, labels)
