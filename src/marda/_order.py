"""Rows in an order of their own, and drawn by it: a sample does not depend on how they came.

Rows are sorted by their projection on a fixed direction, which rounding, units and single precision
hardly change, and then shuffled with a fixed seed, so that neighbours in the result have nothing in
common. Rows whose projections are closer than rounding can tell are sorted by a hash of their
values, then by domain and class: what is left in any order are rows that are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import beside, float64, is_numpy, rows_at, to_numpy

Index = NDArray[np.int64]

#: Projections that differ by less than this share of the largest one may differ by rounding.
ROUNDING = 1e-12
#: Values looked at at a time: they stay in the cache.
BLOCK = 2**16
#: Values of a sample.
MAX_CELLS = 2_000_000
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def row_order(X: Any, *keys: NDArray[Any]) -> Index:
    """Places of rows, in an order that depends on what the rows hold alone.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features)
        Finite rows. Dense or sparse, of single or double precision, equal values give equal orders.
    *keys : arrays of shape (n_rows,)
        Whatever else tells rows apart, such as domains and class codes.
    """
    n, d = X.shape
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(n)
    if n < 2:
        return shuffled
    along = _project(X, rng.standard_normal(d))
    by_value = np.argsort(along, kind="stable")
    steps = np.diff(along[by_value])
    with np.errstate(invalid="ignore"):  # overflow: then nothing is known, and all rows are near
        near = ~(steps > ROUNDING * np.abs(along).max())
    group = np.empty(n, dtype=np.int64)
    group[by_value] = np.concatenate([[0], np.cumsum(~near)])
    tied = np.zeros(n, dtype=bool)
    tied[by_value[1:][near]] = tied[by_value[:-1][near]] = True
    hashes = np.zeros(n, dtype=np.uint64)
    if tied.any():
        places = np.flatnonzero(tied)
        hashes[places] = _hash(
            to_numpy(rows_at(X, places)), rng.integers(2**63, size=d, dtype=np.uint64)
        )
    order = np.lexsort((*reversed(keys), hashes, group))
    return np.asarray(order[shuffled])


def row_hashes(X: Any) -> NDArray[np.uint64]:
    """A number per row; rows share it if and only if (but for chance) their values are the same."""
    weights = np.random.default_rng(0).integers(2**63, size=X.shape[1], dtype=np.uint64)
    return _hash(X, weights)


def sample_rows(X: Any, n: int, rng: np.random.Generator) -> Any:
    """At most n rows, fewer if they are long; the same ones, however rows come."""
    return X[sample_places(X, n, rng)]


def sample_places(X: Any, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Where the rows of such a sample are."""
    n = min(n, max(100, MAX_CELLS // max(1, X.shape[1])))
    order = row_order(X)
    if len(order) > n:
        order = order[np.sort(rng.choice(len(order), n, replace=False))]
    return order


def stack_rows(*blocks: Any) -> Any:
    """One block of all rows, in that order; CSR if one of them is sparse."""
    if any(sp.issparse(block) for block in blocks):
        return sp.csr_array(sp.vstack(blocks))
    return np.concatenate(blocks)


def _project(X: Any, direction: NDArray[np.float64]) -> NDArray[np.float64]:
    if not is_numpy(X):
        return np.asarray(to_numpy(float64(X) @ beside(direction, X)))
    with np.errstate(over="ignore", invalid="ignore"):
        if sp.issparse(X):
            return np.asarray(X @ direction, dtype=np.float64).ravel()
        if X.dtype == np.float64:
            return np.asarray(X @ direction)
        step = max(1, BLOCK // max(1, X.shape[1]))
        parts = [X[i : i + step].astype(np.float64) @ direction for i in range(0, len(X), step)]
        return np.concatenate(parts)


def _hash(X: Any, weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Σ_j mix(x_ij) w_j modulo 2⁶⁴; zeros, stored or not, add nothing."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        mixed = sp.csr_array((_mix(X.data), X.indices, X.indptr), shape=X.shape)
        return np.asarray(mixed @ weights).ravel()
    step = max(1, BLOCK // max(1, X.shape[1]))
    return np.concatenate([_mix(X[i : i + step]) @ weights for i in range(0, len(X), step)])


def _mix(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Bits of doubles, spread so that small whole numbers differ in all of them; 0 stays 0."""
    bits = (np.asarray(values, dtype=np.float64, order="C") + 0.0).view(np.uint64)  # no −0.0
    bits *= MULTIPLIER
    bits ^= bits >> np.uint64(47)
    bits *= MULTIPLIER
    return bits
