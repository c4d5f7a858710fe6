"""Generated rows for the benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["dense_problem", "sparse_problem"]


def _labels(
    rng: np.random.Generator, n: int, n_classes: int, labelled_target: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    domain = np.where(np.arange(n) < n // 2, 0, -1)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    y[n // 2 : n // 2 + n_classes] = np.arange(n_classes)
    y[n // 2 + labelled_target :] = -1
    return y, domain


def dense_problem(
    n: int, d: int, n_classes: int = 10, *, labelled_target: int = 0, dtype: str = "float64"
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """L2-normalised rows around class means, half source and half shifted target."""
    rng = np.random.default_rng(0)
    y, domain = _labels(rng, n, n_classes, labelled_target)
    truth = np.where(y < 0, rng.integers(0, n_classes, n), y)
    means = rng.standard_normal((n_classes, d)).astype(dtype)
    X = rng.standard_normal((n, d), dtype=np.dtype(dtype).type)
    X += means[truth]
    X[domain < 0] += 0.5 * rng.standard_normal(d).astype(dtype)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y, domain


def sparse_problem(
    n: int, d: int, per_row: int, n_classes: int = 2
) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Rows of `per_row` words drawn by a power law, L2-normalised."""
    rng = np.random.default_rng(0)
    y, domain = _labels(rng, n, n_classes, 0)
    columns = np.minimum((d * rng.random((n, per_row)) ** 3).astype(np.int64), d - 1)
    rows = np.repeat(np.arange(n), per_row)
    X = sp.csr_array((np.ones(n * per_row), (rows, columns.ravel())), (n, d))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    return sp.csr_array(sp.diags_array(1 / norms) @ X), y, domain
