"""(I + sM)⁻¹ for many s, from one reduction of M to a band (math.md §5.2).

M = Q H Qᵀ, where H has b diagonals on either side of its own and Q is a product of block
reflections I − V T Vᵀ. Then (I + sM)⁻¹ = Q (I + sH)⁻¹Qᵀ: two thin products and a banded Cholesky.
Nearly all of the reduction are products of large matrices. Eigenvectors, or a band of one diagonal,
would take half of their work from memory, a column at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lapack, solveh_banded

from marda._arrays import InaccurateError

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
#: Diagonals below the first one: of more, products are quicker; of fewer, what is left is.
WIDTH = 32
#: Rows that are brought up to date at a time; a multiple of any width.
BLOCK = 16


class BandedForm:
    """M = Q H Qᵀ.

    Parameters
    ----------
    M : array of shape (d, d)
        Symmetric, no eigenvalue below 0; overwritten.
    width : int
        Diagonals of H below the first one.
    """

    def __init__(self, M: Matrix, width: int = WIDTH):
        M = M.T if M.flags.f_contiguous else M  # rows are cut
        d = len(M)
        width = min(width, max(d - 1, 0))
        self._reflections: list[tuple[int, Matrix, Matrix]] = []
        for start in range(0, d - width - 1, max(width, 1)):
            below = start + width
            panel = np.asfortranarray(M[below:, start:below])
            k = min(panel.shape)
            R, T, _ = lapack.dgeqrt(k, panel, overwrite_a=1)
            V = np.tril(R[:, :k], -1)
            V[np.arange(k), np.arange(k)] = 1.0
            M[below:, start:below] = np.triu(R)
            _reflect(M, below, V, T, BLOCK * width)
            self._reflections.append((below, V, T))
        self._band = np.zeros((width + 1, d))
        for k in range(width + 1):
            self._band[k, : d - k] = M.diagonal(-k)

    def solve(self, strengths: Vector, B: Matrix) -> Matrix:
        """(I + s_i M)⁻¹b_i for every column of B."""
        X = B.copy()
        for below, V, T in self._reflections:
            X[below:] -= V @ (T.T @ (V.T @ X[below:]))
        for i, s in enumerate(strengths.tolist()):
            band = s * self._band
            band[0] += 1
            try:
                X[:, i] = solveh_banded(
                    band, X[:, i], overwrite_ab=True, lower=True, check_finite=False
                )
            except LinAlgError:
                raise InaccurateError(
                    f"a prediction term outweighs all others {s:.0e} times: nothing of them is "
                    "left beside it. Raise ridge_class or ridge_domain, or give it less weight."
                ) from None
        for below, V, T in reversed(self._reflections):
            X[below:] -= V @ (T @ (V.T @ X[below:]))
        return X


def _reflect(M: Matrix, start: int, V: Matrix, T: Matrix, size: int) -> None:
    """(I − V TᵀVᵀ) A (I − V T Vᵀ) in place of A, the corner of M from `start` on.

    It is A − W Vᵀ − V Wᵀ with Y = A V T and W = Y − ½V TᵀVᵀY. Of A there are blocks on and below
    the diagonal, `size` rows of M each.
    """
    d = len(M)
    blocks = [(max(i, start), min(i + size, d)) for i in range(start - start % size, d, size)]
    AV = np.zeros_like(V)
    for low, high in blocks:
        here, left = slice(low - start, high - start), slice(0, low - start)
        AV[here] += M[low:high, start:high] @ V[: high - start]
        AV[left] += M[low:high, start:low].T @ V[here]
    Y = AV @ T
    W = Y - 0.5 * V @ (T.T @ (V.T @ Y))
    one, other = np.hstack([W, V]), np.hstack([V, W])
    for low, high in blocks:
        M[low:high, start:high] -= one[low - start : high - start] @ other[: high - start].T
