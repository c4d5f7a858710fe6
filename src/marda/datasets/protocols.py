"""How rows are prepared and drawn in the published experiments; pure functions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from marda.datasets.base import DataError, Rows


def l2_rows(X: Rows) -> Rows:
    """Divide every row by its Euclidean norm; rows of zeros stay.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        Rows.

    Returns
    -------
    ndarray or csr_matrix of float64
        A new array.
    """
    return normalize(X.astype(np.float64), copy=False)


def surf_rows(X: Rows, *, l2: bool = True) -> NDArray[np.float64]:
    """Prepare SURF counts of one whole domain as Gong et al. 2012 do.

    Rows are divided by their sum, columns z-scored over the domain (population standard
    deviation; a constant column becomes 0), rows L2-normalised.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Counts of all rows of the domain.
    l2 : bool, default=True
        Whether to take the last step. Published figures for these files are without it.

    Returns
    -------
    ndarray of float64 of shape (n, d)
        Prepared rows.
    """
    X = normalize((X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64), norm="l1")
    X -= X.mean(axis=0)
    deviation = np.sqrt(np.mean(X**2, axis=0))
    # A constant column leaves rounding noise after centring; it must not be blown up.
    constant = deviation <= 1e-12
    X[:, constant] = 0.0
    X /= np.where(constant, 1.0, deviation)
    rows: NDArray[np.float64] = l2_rows(X) if l2 else X
    return rows


def tfidf(fit_on: Rows, *others: Rows, log_tf: bool = False) -> tuple[Rows, ...]:
    """Weight counts by tf-idf with the frequencies of the training rows; rows L2-normalised.

    The weight of a word is ``tf · (1 + ln((1 + n) / (1 + df)))``.

    Parameters
    ----------
    fit_on : ndarray or csr_matrix of shape (n, d)
        Rows that n and df are counted on: all training rows of the task.
    *others : ndarray or csr_matrix
        Rows to weight.
    log_tf : bool, default=False
        Use ``ln(1 + tf)`` in place of tf.

    Returns
    -------
    tuple of csr_matrix
        One per matrix in ``others``.
    """
    weights = TfidfTransformer().fit(sparse.csr_matrix(fit_on))
    counts = (sparse.csr_matrix(X) for X in others)
    return tuple(weights.transform(C.log1p() if log_tf else C) for C in counts)


def draw_per_class(
    y: NDArray[np.int64], k: int, seed: int | np.random.SeedSequence = 0
) -> NDArray[np.int64]:
    """Draw k rows of every class without replacement.

    A draw of fewer rows with the same seed is a part of a draw of more rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class of every row.
    k : int
        Rows per class.
    seed : int or SeedSequence, default=0
        The same seed gives the same rows.

    Returns
    -------
    ndarray of int
        Row numbers, sorted.
    """
    if k < 0:
        raise DataError(f"k={k} rows per class: give 0 or more.")
    rng = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        if len(rows) < k:
            raise DataError(f"k={k} but class {label} has {len(rows)} rows: draw fewer.")
        chosen.append(rng.permutation(rows)[:k])
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)


def most_frequent(X: Rows, n: int) -> NDArray[np.int64]:
    """Return the columns used by most rows, in column order.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (rows, d)
        Counts.
    n : int
        How many columns; ties go to the earlier column.

    Returns
    -------
    ndarray of int
        Column numbers, sorted.
    """
    used = np.asarray((X != 0).sum(axis=0)).ravel()
    return np.sort(np.argsort(-used, kind="stable")[:n])
