"""Rows of two domains as a two-sample test wants them: few, dense, in units of their own.

Columns come in units of their spread over both domains, outliers cut per domain, and both rows and
columns in an order that depends on what they hold alone. So no verdict depends on the order of rows
or columns, on units, on single precision or on how rows are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._order import row_order

__all__ = ["Sample", "draw_sample", "winsorised"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

MAX_ROWS = 800  # per domain
MAX_COLUMNS = 1000
BLOCK = 2**17  # values that are sorted at a time: they stay in cache
#: A value is cut where it is further from the median of its column than FAR times the distance
#: that NEAR_SHARE of the values other than the median keep: 8 standard deviations of normal values.
FAR = 5.0
NEAR_SHARE = 0.9
#: The same for means and spreads that are to be those of the bulk: 3 standard deviations.
BULK = 1.8


@dataclass(frozen=True)
class Sample:
    """Standardised rows of both domains: (x − centre) / unit, outliers cut.

    Attributes
    ----------
    source, target : arrays of shape (n_rows, n_columns)
        Rows.
    codes : array of shape (n_source,)
        Classes of source rows.
    columns : array of int
        Which columns of the given rows these are. Constant ones are left out, and all but the
        1,000 most used: a story that is true is true of any columns.
    centre, unit : arrays of shape (n_columns,)
        Of the standardisation.
    """

    source: Array
    target: Array
    codes: Index
    columns: Index
    centre: Array
    unit: Array


def draw_sample(X_source: Any, codes: Index, X_target: Any) -> Sample:
    """A bounded sample of rows, outliers cut and columns standardised.

    Parameters
    ----------
    X_source, X_target : arrays or CSR arrays
        Finite rows.
    codes : array of shape (n_source,)
        Class codes of source rows.

    Returns
    -------
    Sample
    """
    chosen = _most_used(X_source, X_target)
    tables = [_statistics(X[:, chosen]) for X in (X_source, X_target)]
    low, high, mean, variance, skew = (np.stack(pair) for pair in zip(*tables, strict=True))
    centre = mean.mean(0)
    unit = np.sqrt(variance.mean(0) + mean.var(0))
    size = np.maximum(np.abs(low), np.abs(high)).max(0)
    kept = np.flatnonzero(unit > 1e-10 * size)
    # Columns in an order of their own: by what neither units nor the order of rows change.
    shapes = [(mean - centre)[:, kept] / unit[kept], variance[:, kept] / unit[kept] ** 2]
    mix = np.array([0.62, 0.27, 0.41, 1.0, 0.12, 0.08])
    kept = kept[np.argsort(mix @ np.concatenate([*shapes, skew[:, kept]]), kind="stable")]
    centre, unit, low, high = centre[kept], unit[kept], low[:, kept], high[:, kept]
    kept = chosen[kept]
    rows, orders = [], []
    for i, (X, keys) in enumerate(((X_source, (codes,)), (X_target, ()))):
        scaled = X[:, kept]
        scaled = sp.csr_array(scaled * (1 / unit)) if sp.issparse(X) else scaled / unit
        order = row_order(scaled, *keys)[:MAX_ROWS]
        taken = X[order][:, kept]
        taken = np.asarray(taken.toarray() if sp.issparse(X) else taken, dtype=np.float64)
        # In one layout, however rows are stored: sums are then rounded alike.
        rows.append(np.ascontiguousarray((np.clip(taken, low[i], high[i]) - centre) / unit))
        orders.append(order)
    return Sample(rows[0], rows[1], codes[orders[0]], kept, centre, unit)


def winsorised(rows: Array) -> Array:
    """Rows whose outliers are cut, for means and spreads of the bulk of each column.

    Parameters
    ----------
    rows : array of shape (n_rows, n_columns)
        Rows.

    Returns
    -------
    array of shape (n_rows, n_columns)
    """
    columns = np.array(rows.T, order="C")
    columns.sort(axis=1)
    return np.asarray(np.clip(rows, *_bounds(columns, BULK)))


def _most_used(*domains: Any) -> Index:
    """Columns with the fewest zeros; else by mean²/mean square, which knows no unit.

    Both treat the domains alike, and neither depends on the order of columns.
    """
    d = domains[0].shape[1]
    if d <= MAX_COLUMNS:
        return np.arange(d)
    used, level = np.zeros(d), np.zeros(d)
    for X in domains:
        n = X.shape[0]
        used += np.asarray((X != 0).sum(0)).ravel() / n
        if sp.issparse(X):
            square = np.asarray((X * X).sum(0)).ravel() / n
        else:
            square = np.einsum("ij,ij->j", X, X, dtype=np.float64) / n
        mean = np.asarray(X.sum(0, dtype=np.float64)).ravel() / n
        level += mean**2 / np.where(square > 0, square, 1.0)
    return np.sort(np.lexsort((level, -np.round(used, 6)))[:MAX_COLUMNS])


def _statistics(X: Any) -> tuple[Array, ...]:
    """Per column: bounds for outliers, then mean, variance and skew within them."""
    n, d = X.shape
    X = sp.csc_array(X) if sp.issparse(X) else X
    step = max(1, BLOCK // n)
    found = [np.empty((5, 0))]
    for start in range(0, d, step):
        block = X[:, start : start + step]
        block = block.toarray() if sp.issparse(X) else block
        columns = np.array(block.T, dtype=np.float64, order="C")
        columns.sort(axis=1)
        low, high = _bounds(columns, FAR)
        cut = np.clip(columns, low[:, None], high[:, None])
        mean = cut.mean(1)
        off = cut - mean[:, None]
        variance = np.square(off).mean(1)
        off /= np.sqrt(np.where(variance > 0, variance, 1))[:, None]
        skew = np.where(variance > 0, (off**3).mean(1), 0)
        found.append(np.stack([low, high, mean, variance, skew]))
    return tuple(np.hstack(found))


def _bounds(columns: Array, factor: float) -> tuple[Array, Array]:
    """Where sorted columns, one per row, are cut."""
    n = columns.shape[1]
    median = (columns[:, (n - 1) // 2] + columns[:, n // 2]) / 2
    off = np.sort(np.abs(columns - median[:, None]), axis=1)
    others = np.count_nonzero(off, axis=1)  # the last ones
    place = n - others + (NEAR_SHARE * (others - 1)).astype(np.int64)
    reach = factor * np.where(others > 0, off[np.arange(len(off)), np.minimum(place, n - 1)], 0)
    return median - reach, median + reach
