"""Rows of two domains as a two-sample test wants them: few, dense, in units of their own.

Columns come in units of their spread over both domains, outliers cut per domain, and both rows and
columns in an order that depends on what they hold alone. So no verdict depends on the order of rows
or columns, on units, on single precision or on how rows are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    bounds = np.array([_bounds(np.sort(values), BULK) for values in rows.T]).T
    return np.asarray(np.clip(rows, *bounds))


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
        square = np.asarray((X * X).sum(0)).ravel() / n
        mean = np.asarray(X.sum(0)).ravel() / n
        level += mean**2 / np.where(square > 0, square, 1.0)
    return np.sort(np.lexsort((level, -np.round(used, 6)))[:MAX_COLUMNS])


def _statistics(X: Any) -> tuple[Array, ...]:
    """Per column: bounds for outliers, then mean, variance and skew within them."""
    found = [_statistics_of(values, X.shape[0]) for values in _columns(X)]
    return tuple(np.array(found, dtype=np.float64).reshape(-1, 5).T)


def _columns(X: Any) -> Iterator[Array]:
    """Values of each column; of sparse rows the stored ones."""
    if not sp.issparse(X):
        yield from np.ascontiguousarray(X.T, dtype=np.float64)
        return
    X = sp.csc_array(X, dtype=np.float64)
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield X.data[start:stop]


def _statistics_of(values: Array, n: int) -> tuple[float, ...]:
    column = np.zeros(n)
    column[: len(values)] = values
    column.sort()
    low, high = _bounds(column, FAR)
    cut = np.clip(column, low, high)
    mean = float(cut.mean())
    off = cut - mean
    variance = float((off**2).mean())
    skew = float(((off / np.sqrt(variance)) ** 3).mean()) if variance > 0 else 0.0
    return low, high, mean, variance, skew


def _bounds(column: Array, factor: float) -> tuple[float, float]:
    """Where a sorted column is cut."""
    n = len(column)
    median = float(column[(n - 1) // 2] + column[n // 2]) / 2
    off = np.abs(column - median)
    off = off[off > 0]
    if not len(off):
        return median, median
    place = int(NEAR_SHARE * (len(off) - 1))
    reach = factor * float(np.partition(off, place)[place])
    return median - reach, median + reach
