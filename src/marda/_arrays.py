"""Operations on arrays of numpy and of other libraries, such as torch tensors on a GPU.

The mathematics is written once, for both; this is the one place that knows the difference. A
function takes numpy arrays by the very call of numpy, LAPACK or BLAS that is quickest for them. For
others it is written in the array API standard, with the library's own Cholesky and triangular
solves where the standard has none. In this order:

- whose arrays, and where: `is_followed`, `namespace`, `to_numpy`, `beside`
- making arrays, putting together and taking out, numbers: what numpy calls by the same names
- linear algebra: `solve`, `cholesky` and its solves
- symmetric matrices in one triangle, and thin products: half the work, in BLAS

Arrays stay where they are: `beside` brings numbers of the host to them, and `to_numpy` brings to
the host labels, a few scalars, what goes into files, and what the default learns there. Systems
that cannot be solved are refused by `SingularError`, inexact ones by `InaccurateError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import linalg, special
from scipy.linalg.blas import dgemm, dsyrk, dtrmm, ssyrk
from sklearn import get_config

#: Numpy's, or those of another library, which do the same.
Array = NDArray[Any]

#: Whose arrays are followed.
LIBRARIES = ("torch", "cupy", "array_api_strict")
GOLDEN = (5**0.5 - 1) / 2
#: Triangles of this order are inverted by solves.
SOLVED_AT_ONCE = 512
_BLOCK = 256
_THIN = 200  # columns; of more, either way takes as long


class SingularError(ValueError):
    """A matrix that must be inverted is singular."""


class InaccurateError(ValueError):
    """A system could be solved, but not to six digits: the answer is refused."""


# Whose arrays, and where ------------------------------------------------------------------------


def is_numpy(A: Any) -> bool:
    """Whether an array is numpy's, or sparse."""
    return isinstance(A, np.ndarray | np.generic) or sp.issparse(A)


def _library(A: Any) -> str:
    return type(A).__module__.partition(".")[0]


def is_followed(X: Any) -> bool:
    """Whether X is an array of another library, and scikit-learn was told to follow it."""
    if is_numpy(X) or not get_config()["array_api_dispatch"]:
        return False
    if _library(X) in LIBRARIES:
        _compat()
        return True
    if hasattr(X, "__array_namespace__"):
        raise TypeError(
            f"X is an array of {_library(X)}, and marda follows those of torch, CuPy and "
            "array-api-strict: give one of these, or a numpy array."
        )
    return False


def _compat() -> Any:
    try:
        import array_api_compat
    except ImportError:
        raise ImportError(
            "arrays other than numpy's need the package array-api-compat: "
            "pip install 'marda[arrays]'."
        ) from None
    return array_api_compat


def namespace(A: Any) -> Any:
    """The functions of an array's library, under the names of the array API standard."""
    return np if is_numpy(A) else _compat().array_namespace(A)


def place_of(A: Any) -> tuple[str, str]:
    """Library and device of an array."""
    library = _library(A)
    return (library, str(_compat().device(A))) if library in LIBRARIES else ("numpy", "cpu")


def to_numpy(A: Any) -> Any:
    """An array on the host; what is no array of another library stays as it is."""
    library = _library(A)
    if library == "torch":
        return A.detach().cpu().numpy()
    if library == "cupy":
        return A.get()
    if library == "array_api_strict":
        return np.asarray(A.to_device(namespace(A).Device("CPU_DEVICE")))
    return A


def detached(A: Any) -> Any:
    """Rows without a history of gradients, which fits would carry along."""
    return A.detach() if _library(A) == "torch" else A


def beside(values: Any, A: Any, dtype: str = "float64") -> Array:
    """Numbers of the host where A is; beside a numpy array they are what they were."""
    if is_numpy(A):
        return values
    xp = namespace(A)
    return xp.asarray(np.asarray(values), dtype=getattr(xp, dtype), device=_compat().device(A))


def host_type(A: Any) -> np.dtype[Any]:
    """Numpy's name of an array's type."""
    return np.dtype(A.dtype if is_numpy(A) else str(A.dtype).rpartition(".")[2])


def like(values: Any, A: Any) -> Array:
    """Numbers of the host where A is and in its type; beside a numpy array what they were."""
    if is_numpy(A):
        return values
    if not is_numpy(values):
        return astype(values, A.dtype)
    return beside(values, A, host_type(A).name)


def device_memory(A: Any) -> int | None:
    """Bytes that are free on the device of A; None: it is that of the host."""
    if _library(A) == "torch" and A.device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(A.device)[0])
    if _library(A) == "cupy":
        with A.device:
            return int(namespace(A).cuda.runtime.memGetInfo()[0])
    return None


def torch_device(device: str) -> Any:
    """One number on a device of torch; a `ValueError` says why there is none."""
    try:
        import torch

        import_module("array_api_compat")
    except ImportError as error:
        raise ValueError(f"needs {error.name}: run pip install torch 'marda[arrays]'.") from None
    try:
        return torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):
        known = ", ".join(["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))])
        raise ValueError(f"{device} is not here: torch has {known}.") from None


def to_torch(X: Any, device: str) -> Any:
    """Rows as a dense tensor of torch, on one of its devices."""
    import torch

    return torch.asarray(X.toarray() if sp.issparse(X) else X, device=device)


# Making arrays ----------------------------------------------------------------------------------


def zeros(shape: Any, A: Any) -> Array:
    """Zeros, beside A."""
    if is_numpy(A):
        return np.zeros(shape)
    xp = namespace(A)
    return xp.zeros(shape, dtype=xp.float64, device=_compat().device(A))


def ones(shape: Any, A: Any) -> Array:
    """Ones, beside A."""
    return np.ones(shape) if is_numpy(A) else zeros(shape, A) + 1.0


def eye(n: int, A: Any) -> Array:
    """The identity, beside A."""
    if is_numpy(A):
        return np.eye(n)
    xp = namespace(A)
    return xp.eye(n, dtype=xp.float64, device=_compat().device(A))


def probes(shape: tuple[int, int], A: Any, rng: np.random.Generator) -> Array:
    """Directions that have nothing to do with the data, the same in every fit."""
    if is_numpy(A):
        return rng.standard_normal(shape)
    # Drawn where A is: the fractional parts of k(k + 1)/2 times the golden ratio.
    xp = namespace(A)
    size = shape[0] * shape[1]
    k = xp.arange(1, size + 1, dtype=xp.float64, device=_compat().device(A))
    u = (k * (k + 1.0) / 2.0) * GOLDEN
    return xp.reshape(u - xp.floor(u) - 0.5, shape)


def copy(A: Any) -> Array:
    """A copy."""
    return A.copy() if is_numpy(A) else namespace(A).asarray(A, copy=True)


def astype(A: Any, dtype: Any) -> Array:
    """A in a type of its own library; itself if it has it."""
    return A.astype(dtype, copy=False) if is_numpy(A) else namespace(A).astype(A, dtype, copy=False)


def float64(A: Any) -> Array:
    """A in double precision; itself if it is."""
    return astype(A, namespace(A).float64)


# Putting together and taking out ----------------------------------------------------------------


def vstack(parts: Sequence[Any]) -> Array:
    """Rows below rows."""
    return np.vstack(parts) if is_numpy(parts[0]) else namespace(parts[0]).concat(parts, axis=0)


def hstack(parts: Sequence[Any]) -> Array:
    """Columns beside columns."""
    return np.hstack(parts) if is_numpy(parts[0]) else namespace(parts[0]).concat(parts, axis=1)


def append(A: Any, value: float) -> Array:
    """A vector with one more number."""
    if is_numpy(A):
        return np.append(A, value)
    return namespace(A).concat([A, zeros((1,), A) + float(value)])


def columns(A: Any, index: NDArray[np.int64]) -> Array:
    """Some columns."""
    if is_numpy(A):
        return A[:, index]
    return namespace(A).take(A, beside(index, A, "int64"), axis=1)


def merge_columns(parts: Sequence[Any], which: NDArray[np.int64]) -> Array:
    """Columns back in their order: part k has those where `which` is k, in order."""
    if is_numpy(parts[0]):
        out = np.empty((parts[0].shape[0], len(which)))
        for k, part in enumerate(parts):
            out[:, which == k] = part
        return out
    back = np.argsort(np.argsort(which, kind="stable"), kind="stable")
    return columns(hstack(parts), back)


def labels_at(classes: NDArray[Any], places: Any) -> Array:
    """Labels of rows from their places among the classes: numbers are where the rows are."""
    if is_numpy(places):
        return np.asarray(classes[places])
    if classes.dtype.kind not in "iufb":
        return np.asarray(classes[to_numpy(places)])
    dtype = "bool" if classes.dtype.kind == "b" else classes.dtype.name
    return namespace(places).take(beside(classes, places, dtype), places, axis=0)


def rows_at(A: Any, index: NDArray[np.int64]) -> Array:
    """Some rows, or some numbers of a vector."""
    if is_numpy(A):
        return A[index]
    return namespace(A).take(A, beside(index, A, "int64"), axis=0)


def block(A: Any, rows: NDArray[np.int64], index: NDArray[np.int64]) -> Array:
    """Some rows of some columns, a copy."""
    if not is_numpy(A):
        return columns(rows_at(A, rows), index)
    here, there = span(rows), span(index)
    if here is None or there is None:
        return A[np.ix_(rows, index)]
    return A[here, there].copy()


def span(index: NDArray[np.int64]) -> slice | None:
    """The slice that rising places next to each other are; None: they are no slice."""
    n = len(index)
    if not n or index[-1] - index[0] != n - 1 or (np.diff(index) != 1).any():
        return None
    return slice(int(index[0]), int(index[0]) + n)


def diagonal(A: Any) -> Array:
    """The diagonal."""
    return A.diagonal() if is_numpy(A) else namespace(A).linalg.diagonal(A)


def add_to_diagonal(A: Any, values: Any, n: int | None = None) -> Array:
    """The first n diagonal entries (None: all) grow in place; use what it returns."""
    size = A.shape[1]
    n = size if n is None else n
    if is_numpy(A):
        A[np.arange(n), np.arange(n)] += values
        return A
    xp = namespace(A)
    flat = xp.reshape(A, (-1,))
    flat[: max(0, (n - 1) * (size + 1) + 1) : size + 1] += values
    return xp.reshape(flat, A.shape)


# Numbers ----------------------------------------------------------------------------------------


def vdot(A: Any, B: Any) -> float:
    """Σ a b."""
    return float(np.vdot(A, B)) if is_numpy(A) else float(namespace(A).sum(A * B))


def norm(A: Any) -> float:
    """√Σ a²."""
    if is_numpy(A):
        return float(np.linalg.norm(A))
    return float(namespace(A).linalg.vector_norm(A))


def norms(A: Any) -> Array:
    """Lengths of columns."""
    if is_numpy(A):
        return np.linalg.norm(A, axis=0)
    return namespace(A).linalg.vector_norm(A, axis=0)


def mean(A: Any) -> float:
    """Of all numbers, summed in double precision."""
    if is_numpy(A):
        return float(A.mean(dtype=np.float64))
    xp = namespace(A)
    return float(xp.sum(A, dtype=xp.float64)) / max(1, math.prod(A.shape))


def column_means(A: Any) -> Array:
    """Means of columns, in double precision."""
    if is_numpy(A):
        return np.asarray(A.mean(0, dtype=np.float64))
    xp = namespace(A)
    return xp.sum(A, axis=0, dtype=xp.float64) / A.shape[0]


def largest(A: Any, k: int) -> NDArray[np.int64]:
    """Places of the k largest of every row, in any order, on the host."""
    if is_numpy(A):
        return np.argpartition(A, A.shape[1] - k, axis=1)[:, -k:]
    xp = namespace(A)
    if _library(A) == "torch":
        return np.asarray(to_numpy(xp.topk(A, k, dim=1).indices))
    return np.asarray(to_numpy(xp.argsort(A, axis=1, descending=True)[:, :k]))


def at_least_0(A: Any) -> Array:
    """Squares, which rounding alone can have made negative."""
    if is_numpy(A):
        return np.maximum(A, 0.0)
    xp = namespace(A)
    return xp.where(A > 0, A, xp.zeros_like(A))


def divided(A: Any, b: Any) -> Array:
    """A / b, and 0 where b is not above 0."""
    if is_numpy(A):
        return np.divide(A, b, out=np.zeros_like(A), where=b > 0)
    xp = namespace(A)
    return xp.where(b > 0, A / xp.where(b > 0, b, xp.ones_like(b)), xp.zeros_like(A))


def argmax(A: Any) -> Array:
    """The largest of every row."""
    return A.argmax(1) if is_numpy(A) else namespace(A).argmax(A, axis=1)


def logsumexp(A: Any) -> Array:
    """Log Σ exp of every row, which has a finite number."""
    if is_numpy(A):
        return np.asarray(special.logsumexp(A, axis=1))
    xp = namespace(A)
    top = xp.max(A, axis=1)
    return top + xp.log(xp.sum(xp.exp(A - top[:, None]), axis=1))


#: numpy adds up fewer numbers than this one after the other, whatever their layout: along rows as
#: short as these, the other way takes a fraction of the time.
FEW = 8


def log_softmax(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every row, all of whose numbers are finite; scipy's checks cost ten times the sum."""
    if A.shape[1] >= FEW:
        below = A - A.max(axis=1, keepdims=True)
        return below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    turned = A.T.copy()
    turned -= turned.max(axis=0)
    turned -= np.log(np.exp(turned).sum(axis=0))
    found = np.empty_like(A)  # in its layout
    found[:] = turned.T
    return found


def softmax(A: Any) -> Array:
    """Of every row."""
    if is_numpy(A):
        return np.asarray(special.softmax(A, axis=1))
    return namespace(A).exp(A - logsumexp(A)[:, None])


# Linear algebra ---------------------------------------------------------------------------------


def solve(A: Any, B: Any) -> Array:
    """A⁻¹B."""
    return np.linalg.solve(A, B) if is_numpy(A) else namespace(A).linalg.solve(A, B)


def eigh(A: Any) -> tuple[Array, Array]:
    """Eigenvalues, rising, and eigenvectors."""
    values, vectors = np.linalg.eigh(A) if is_numpy(A) else namespace(A).linalg.eigh(A)
    return values, vectors


def svd(A: Any) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition."""
    library = np.linalg if is_numpy(A) else namespace(A).linalg
    U, s, V = library.svd(A, full_matrices=False)
    return U, s, V


def cholesky(G: Any) -> Array | None:
    """The lower factor of an array that is not numpy's; None: it is not definite."""
    xp = namespace(G)
    if _library(G) == "torch":
        L, info = xp.linalg.cholesky_ex(G)
        return None if int(info) else L
    try:
        return xp.linalg.cholesky(G)  # CuPy leaves NaN behind: its pivots are looked at
    except np.linalg.LinAlgError:
        return None


def triangular_solve(L: Any, B: Any, *, transposed: bool = False) -> Array:
    """L⁻¹B or L⁻ᵀB, for a lower triangle that is not numpy's."""
    library = _library(L)
    if library == "torch":
        A = L.T if transposed else L
        return namespace(L).linalg.solve_triangular(A, B, upper=transposed)
    if library == "cupy":
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, lower=True, trans=int(transposed))
    return solve(L.T if transposed else L, B)


def cholesky_solve(L: Any, B: Any) -> Array:
    """(L Lᵀ)⁻¹B, for a factor that is not numpy's."""
    if _library(L) == "torch":
        return namespace(L).cholesky_solve(B, L)
    return triangular_solve(L, triangular_solve(L, B), transposed=True)


def cholesky_inverse(L: Any) -> Array:
    """(L Lᵀ)⁻¹, for a factor that is not numpy's."""
    return _inverses(L)[1]


def _inverses(L: Any) -> tuple[Array, Array]:
    """M = L⁻¹ and MᵀM = (L Lᵀ)⁻¹, by halves: devices are quick at products, not at solves."""
    n = L.shape[0]
    if n <= SOLVED_AT_ONCE:
        M = triangular_solve(L, like(eye(n, L), L))
        return M, M.T @ M
    k = n // 2
    A, AA = _inverses(L[:k, :k])
    C, CC = _inverses(L[k:, k:])
    B = -(C @ (L[k:, :k] @ A))
    side = B.T @ C
    M = vstack([hstack([A, namespace(B).zeros_like(B.T)]), hstack([B, C])])
    return M, vstack([hstack([AA + B.T @ B, side]), hstack([side.T, CC])])


# Symmetric matrices, and thin products ------------------------------------------------------------


def add_gram(lower: NDArray[Any], A: NDArray[Any], weight: float = 1.0) -> NDArray[Any]:
    """Add w A Aᵀ to the lower triangle of a symmetric matrix; use what it returns.

    The sum is made in the memory of `lower` where BLAS can (Fortran order); what lies above the
    diagonal has no meaning.
    """
    if not is_numpy(A):
        grown: NDArray[Any] = lower + weight * (A @ A.T)
        return grown
    if not A.size:  # BLAS refuses empty matrices
        return lower
    # BLAS reads either order, but not through a copy.
    turned = not A.flags.f_contiguous
    A = A.T if turned else A
    syrk = ssyrk if lower.dtype == np.float32 else dsyrk
    return np.asarray(syrk(weight, A, beta=1.0, c=lower, lower=1, trans=turned, overwrite_c=1))


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


def root_gram(R: NDArray[np.float64], W: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lower triangle of WᵀRRᵀW for a lower triangle R: a third less work than two products."""
    return np.asarray(dsyrk(1.0, dtrmm(1.0, R, W, lower=1, trans_a=1), trans=1, lower=1))


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


def syrk(A: NDArray[Any], *, transposed: bool) -> NDArray[Any]:
    """AAᵀ or AᵀA: numpy sees that the product is symmetric, and does half the work."""
    return A.T @ A if transposed else A @ A.T


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
        return eigh(matrix)
    # SciPy 1.12 gives that driver too little room for one number.
    driver = "evd" if len(matrix) > 1 else "ev"
    values, vectors = linalg.eigh(matrix, overwrite_a=overwrite, check_finite=False, driver=driver)
    return values, vectors
