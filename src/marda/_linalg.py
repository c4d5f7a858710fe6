"""Helpers on symmetric matrices, and how a system that cannot be solved is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.linalg.blas import dgemm, dsyrk, ssyrk

from marda._arrays import eigh as eigh_elsewhere
from marda._arrays import is_numpy

__all__ = [
    "InaccurateError",
    "SingularError",
    "add_gram",
    "lower_product",
    "mirror_lower",
    "symmetric_eigen",
    "thin_product",
]

_BLOCK = 256
_THIN = 200  # columns; of more, either way takes as long


class SingularError(ValueError):
    """A matrix that must be inverted is singular."""


class InaccurateError(ValueError):
    """A system could be solved, but not to six digits: the answer is refused."""


def add_gram(lower: NDArray[Any], A: NDArray[Any]) -> NDArray[Any]:
    """A Aᵀ added to the lower triangle of a symmetric matrix; use what it returns.

    The sum is made in the memory of `lower` where BLAS can (Fortran order); what lies above the
    diagonal has no meaning.
    """
    if not is_numpy(A):
        grown: NDArray[Any] = lower + A @ A.T
        return grown
    if not A.size:  # BLAS refuses empty matrices
        return lower
    # BLAS reads either order, but not through a copy.
    turned = not A.flags.f_contiguous
    A = A.T if turned else A
    syrk = ssyrk if lower.dtype == np.float32 else dsyrk
    return np.asarray(syrk(1.0, A, beta=1.0, c=lower, lower=1, trans=turned, overwrite_c=1))


def lower_product(A: NDArray[np.float64], B: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lower triangle of a product A B that is symmetric, by blocks, for half the flops.

    What lies above the diagonal has no meaning.
    """
    if not is_numpy(A):
        return A @ B
    out = np.zeros((len(A), B.shape[1]), order="F")
    for start in range(0, len(A), _BLOCK):
        stop = start + _BLOCK
        out[start:stop, :stop] = A[start:stop] @ B[:, :stop]
    return out


def thin_product(A: NDArray[Any], V: NDArray[Any]) -> NDArray[Any]:
    """A V; for few columns of doubles by the BLAS of the factorisations, in Fortran order.

    It is up to twice as fast there, and the threads of two libraries do not wait for each other.
    """
    if not is_numpy(A):
        product: NDArray[Any] = A @ V
        return product
    if A.dtype != np.float64 or V.dtype != np.float64 or not 0 < V.shape[1] < _THIN or not A.size:
        return np.asarray(A @ V)
    if A.flags.c_contiguous:
        return np.asarray(dgemm(1.0, A.T, V, trans_a=1))
    return np.asarray(dgemm(1.0, A, V)) if A.flags.f_contiguous else np.asarray(A @ V)


def mirror_lower(matrix: NDArray[Any]) -> NDArray[Any]:
    """Fill the upper triangle from the lower one, in place, by blocks that stay in cache."""
    if not is_numpy(matrix):  # of these both triangles are made
        return matrix
    n = matrix.shape[0]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        corner = matrix[start:stop, start:stop]
        corner[...] = np.tril(corner) + np.tril(corner, -1).T
        for below in range(stop, n, _BLOCK):
            end = min(n, below + _BLOCK)
            matrix[start:stop, below:end] = matrix[below:end, start:stop].T
    return matrix


def symmetric_eigen(
    matrix: NDArray[np.float64], *, overwrite: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, rising, and eigenvectors of a symmetric matrix, by divide and conquer."""
    if not is_numpy(matrix):
        return eigh_elsewhere(matrix)
    # SciPy 1.12 gives that driver too little room for one number.
    driver = "evd" if len(matrix) > 1 else "ev"
    values, vectors = eigh(matrix, overwrite_a=overwrite, check_finite=False, driver=driver)
    return values, vectors
