"""Two samples of rows, and how far apart they are (math.md §16).

Rows come as a two-sample test wants them: few, dense, in units of their own. Columns are in units
of their spread over both domains, outliers cut per domain, and both rows and columns in an order
that depends on what they hold alone. So no verdict depends on the order of rows or columns, on
units, on single precision or on how rows are stored.

The distance is one of mean random features, and three statistics look at the same features. The
joint one is the maximum mean discrepancy of Gaussian kernels of three widths, by random Fourier
features; the marginal one is the mean, and the single one the largest, of the discrepancies of
single columns. What is compared is the largest of the three in units of its own spread over draws
under the null, which keeps the level and is blind to neither a change of many columns together nor
of a single one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._order import row_order

Array = NDArray[np.float64]
Single = NDArray[np.float32]
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

WIDTHS = (0.5, 1.0, 2.0)  # of the joint kernels, in median distances
N_DIRECTIONS = 48  # per width
FREQUENCIES = (0.8, 2.0)  # of single columns, in units of their spread
MAX_DIRECTIONS = 50  # more columns than that are projected on as many leading directions
#: Bins of a column: as many for the rows of either domain.
BINS = 10
#: Columns that may have been selected by: those whose bins differ most.
TRIED = 10
#: Squared length of the features of a row: cosines and sines of joint directions, and of columns.
LENGTH = 2.0
#: No draw is as far, and this many deviations, times draws, lie between: 16 of 19 draws, 8 of 39.
HOPELESS = 320.0


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
        1,000 most used: a hypothesis that is true is true of any columns.
    centre, unit : arrays of shape (n_columns,)
        Of the standardisation.
    seed : int
        Draws features.
    """

    source: Array
    target: Array
    codes: Index
    columns: Index
    centre: Array
    unit: Array
    seed: int = 0

    @cached_property
    def projected(self) -> Projected:
        """Features of the rows as they are: hypotheses by which columns stay share them."""
        return Projected.of(np.concatenate([self.source, self.target]), self.seed)


def draw_sample(X_source: Any, codes: Index, X_target: Any, *, seed: int = 0) -> Sample:
    """A bounded sample of rows, outliers cut and columns standardised.

    Parameters
    ----------
    X_source, X_target : arrays or CSR arrays
        Finite rows.
    codes : array of shape (n_source,)
        Class codes of source rows.
    seed : int, default=0
        Draws features.

    Returns
    -------
    Sample
    """
    chosen = _most_used(X_source, X_target)
    X_source, X_target = X_source[:, chosen], X_target[:, chosen]
    tables = [_statistics(X) for X in (X_source, X_target)]
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
    return Sample(rows[0], rows[1], codes[orders[0]], chosen[kept], centre, unit, seed)


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
    columns = np.array(rows.T, order="C", dtype=np.float32)  # bounds need no more digits
    columns.sort(axis=1)
    return np.asarray(
        np.clip(rows, *(bound.astype(rows.dtype) for bound in _bounds(columns, BULK)))
    )


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
        columns = np.array(block.T, order="C")
        columns.sort(axis=1)
        low, high = _bounds(columns, FAR)
        cut = np.clip(columns, low[:, None], high[:, None]).astype(np.float64)
        mean = cut.mean(1)
        off = cut - mean[:, None]
        variance = np.square(off).mean(1)
        off /= np.sqrt(np.where(variance > 0, variance, 1))[:, None]
        skew = np.where(variance > 0, (off * off * off).mean(1), 0)
        found.append(np.stack([low, high, mean, variance, skew]))
    return tuple(np.hstack(found))


def _bounds(columns: NDArray[Any], factor: float) -> tuple[Array, Array]:
    """Where sorted columns, one per row, are cut."""
    n = columns.shape[1]
    median = (columns[:, (n - 1) // 2] + columns[:, n // 2]) / 2
    off = np.sort(np.abs(columns - median[:, None]), axis=1)
    others = np.count_nonzero(off, axis=1)  # the last ones
    place = n - others + (NEAR_SHARE * (others - 1)).astype(np.int64)
    reach = factor * np.where(others > 0, off[np.arange(len(off)), np.minimum(place, n - 1)], 0)
    return median - reach, median + reach


# Distances ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Features:
    """φ(x): cosines and sines along random directions, then along single columns."""

    directions: Array  # columns × directions
    frequencies: Array  # per single column × len(FREQUENCIES)

    @classmethod
    def draw(cls, pool: Array, rng: np.random.Generator) -> Features:
        """Directions in units of the median distance of rows of the pool."""
        n, k = pool.shape
        pairs = rng.integers(n, size=(2, 1000))
        gaps = np.linalg.norm(pool[pairs[0]] - pool[pairs[1]], axis=1)
        gaps = gaps[gaps > 0]
        width = float(np.median(gaps)) if len(gaps) else 1.0
        drawn = [rng.standard_normal((k, N_DIRECTIONS)) / (w * width) for w in WIDTHS]
        spread = pool.std(0)
        spread = np.where(spread > 0, spread, 1.0)
        return cls(np.hstack(drawn), np.array(FREQUENCIES)[:, None] / spread)

    def __call__(self, rows: Array) -> Single:
        """One row of features per row; a squared distance of means is joint + marginal."""
        single = rows.astype(np.float32, copy=False)
        directions, frequencies, scale = self._single
        D, k = directions.shape[1], single.shape[1] * len(frequencies)
        out = np.empty((len(single), 2 * (D + k)), dtype=np.float32)
        joint = single @ directions
        alone = (single[:, None, :] * frequencies).reshape(len(single), k)
        for start, angles in ((0, joint), (2 * D, alone)):
            width = angles.shape[1]
            part = out[:, start : start + 2 * width]
            np.cos(angles, out=part[:, :width])
            np.sin(angles, out=part[:, width:])
        out /= scale
        return out

    def mean(self, rows: Array) -> Single:
        """Mean features of rows."""
        return np.asarray(np.add.reduce(self(rows)) / np.float32(len(rows)))

    @cached_property
    def _single(self) -> tuple[Single, Single, Single]:
        widths = self.directions.shape[1], self.frequencies.size
        scale = np.repeat(np.sqrt(widths), 2 * np.array(widths)).astype(np.float32)
        return self.directions.astype(np.float32), self.frequencies.astype(np.float32), scale

    def statistics(self, delta: Array) -> Array:
        """Squared distances of differences of means: joint, then one per column."""
        D, k = self.directions.shape[1], self.directions.shape[0]
        squared = np.square(np.asarray(delta, dtype=np.float64))
        joint = squared[..., : 2 * D].sum(-1, keepdims=True)
        alone = squared[..., 2 * D :].reshape(*squared.shape[:-1], 2 * len(FREQUENCIES), k)
        return np.concatenate([joint, alone.sum(-2)], axis=-1)


@dataclass(frozen=True)
class Projected:
    """Rows of a pool by features of their own, along directions (None: columns)."""

    directions: Array | None
    features: Features
    phi: Single

    @classmethod
    def of(cls, pool: Array, seed: int) -> Projected:
        """Features drawn for these rows."""
        rng = np.random.default_rng(seed)
        directions = leading_directions(pool, rng)
        projected = pool if directions is None else pool @ directions
        features = Features.draw(projected, rng)
        return cls(directions, features, features(projected))


@dataclass(frozen=True)
class Comparison:
    """A distance against draws of it under the null.

    Attributes
    ----------
    p_value : float
        Share of draws, the observed one included, that are at least as far.
    z : float
        Observed distance in standard deviations of the draws from their mean.
    distance : float
        Squared distance less its mean under the null; at least 0.
    n_draws : int
        Draws.
    """

    p_value: float
    z: float
    distance: float
    n_draws: int

    @property
    def as_far(self) -> int:
        """How many draws are at least as far, the observed one included."""
        return round(self.p_value * (self.n_draws + 1))

    @property
    def hopeless(self) -> bool:
        """Whether no draw comes near: more of them would not."""
        return self.as_far == 1 and self.z * (self.n_draws + 1) > HOPELESS


def compare(observed: Array, drawn: Array) -> Comparison:
    """The observed statistics against those of draws under the null.

    Parameters
    ----------
    observed : array of shape (1 + n_columns,)
        Joint statistic, then one per column.
    drawn : array of shape (n_draws, 1 + n_columns)
        The same under the null.

    Returns
    -------
    Comparison
    """
    every = np.vstack([observed, drawn])
    # Observed and drawn are treated alike, so that the rank is exact.
    single = ((every[:, 1:] - every[:, 1:].mean(0)) / (every[:, 1:].std(0) + 1e-30)).max(1)
    three = np.column_stack([every[:, 0], every[:, 1:].sum(1), single])
    scaled = (three - three.mean(0)) / (three.std(0) + 1e-30)
    largest = scaled.max(1)
    total = every.sum(1)
    rest = total[1:]
    z = (total[0] - rest.mean()) / (rest.std() + 1e-30)
    return Comparison(
        float((largest >= largest[0] - 1e-12).mean()),
        float(z),
        float(max(0.0, total[0] - rest.mean())),
        len(drawn),
    )


def leading_directions(pool: Array, rng: np.random.Generator) -> Array | None:
    """Leading principal directions of the pool; None where it has few columns anyway."""
    if pool.shape[1] <= MAX_DIRECTIONS:
        return None
    centred = pool - pool.mean(0)
    basis = centred @ rng.standard_normal((pool.shape[1], MAX_DIRECTIONS + 10))
    for _ in range(2):
        basis = centred @ (centred.T @ np.linalg.qr(basis)[0])
    Q = np.linalg.qr(basis)[0]
    return np.asarray(np.linalg.svd(Q.T @ centred, full_matrices=False)[2][:MAX_DIRECTIONS].T)


# Rows that were selected --------------------------------------------------------------------------


def left_by_selection(X_source: Any, X_target: Any, *, seed: int = 0) -> float:
    """Share of the distance between the domains that no selection of rows by one column explains.

    Rows with the same value of that column have then the same distribution in both domains: with
    its values cut in bins, the target is a mixture of the source's bins, as it is one of classes
    where class shares differ.

    Parameters
    ----------
    X_source, X_target : arrays or CSR arrays of shape (n_rows, n_features)
        Finite rows. At most 800 of each are compared.
    seed : int, default=0
        Draws features.

    Returns
    -------
    float
        Least share of the squared distance of mean features (math.md §16) that is left when bins of
        a column get the shares that they have in the target; what chance makes of it is taken off.
    """
    one_class = np.zeros(X_source.shape[0], dtype=np.int64)
    sample = draw_sample(X_source, one_class, X_target, seed=seed)
    phi = np.asarray(sample.projected.phi, dtype=np.float64)
    S, T = phi[: len(sample.source)], phi[len(sample.source) :]
    whole = _left(S, T, np.zeros(len(S), dtype=np.int64), np.ones(1))
    if whole <= 0:
        return 1.0
    columns = [_bins(*both) for both in zip(sample.source.T, sample.target.T, strict=True)]
    # No other column differs more than the one that rows were selected by.
    differ = [_difference(*column) for column in columns]
    tried = np.argsort(differ, kind="stable")[::-1][:TRIED]
    least = min(_left(S, T, *columns[j]) for j in tried)
    return float(np.clip(least / whole, 0, 1))


def _bins(ours: Array, theirs: Array) -> tuple[Index, Array]:
    """Bins of source rows by one column, and the shares of target rows in them."""
    values = np.unique(ours)
    if len(values) <= BINS:
        edges = (values[1:] + values[:-1]) / 2
    else:  # where either domain has many rows, bins are narrow
        parts = np.arange(1, BINS) / BINS
        edges = np.unique(np.quantile(ours, parts).tolist() + np.quantile(theirs, parts).tolist())
    bins, there = np.searchsorted(edges, ours), np.searchsorted(edges, theirs)
    return bins, np.bincount(there, minlength=len(edges) + 1) / len(theirs)


def _difference(bins: Index, shares: Array) -> float:
    """Total variation between the shares of bins in both domains."""
    return float(np.abs(np.bincount(bins, minlength=len(shares)) / len(bins) - shares).sum())


def _left(S: Array, T: Array, bins: Index, shares: Array) -> float:
    """Squared distance of the mean of T from that of the bins, less what is expected by chance."""
    known = (bins == np.arange(len(shares))[:, None]).astype(np.float64)
    n = np.maximum(known.sum(1), 1)
    means, mean = known @ S / n[:, None], T.mean(0)
    off = mean - shares @ means
    by_chance = (LENGTH - mean @ mean) / len(T)
    by_chance += float(shares**2 @ ((LENGTH - np.square(means).sum(1)) / n))
    return float(off @ off - by_chance)
