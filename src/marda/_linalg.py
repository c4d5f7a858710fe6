"""Two BLAS-3 helpers on symmetric matrices, shared by moments and operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, ssyrk

__all__ = ["add_gram", "mirror_lower"]

_BLOCK = 256


def add_gram(lower: NDArray[np.float64], A: NDArray[Any]) -> NDArray[np.float64]:
    """Add A Aᵀ to the lower triangle of a Fortran-ordered matrix, in place where A is float64.

    float32 products run in float32 and are added in float64.
    """
    A = np.asfortranarray(A)
    if A.dtype == np.float32:
        lower += ssyrk(1.0, A, lower=1)
        return lower
    return np.asarray(dsyrk(1.0, A, beta=1.0, c=lower, lower=1, overwrite_c=1))


def mirror_lower(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fill the upper triangle from the lower one, in place, by blocks that stay in cache."""
    n = matrix.shape[0]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        corner = matrix[start:stop, start:stop]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
        for below in range(stop, n, _BLOCK):
            end = min(n, below + _BLOCK)
            matrix[start:stop, below:end] = matrix[below:end, start:stop].T
    return matrix
