"""Inner products of denoised rows about any centres, from one Gram (n² a centre, not n²d).

With h_i the rows, m their mean, and c_i the centre of row i's domain, relative to m,

    (h_i − m − c_i)·(h_j − m − c_j) = (h_i − m)·(h_j − m) − (h_i − m)·c_j − c_i·(h_j − m) + c_i·c_j.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.estimators._denoised import ROUNDINGS
from marda.estimators.kernel import syrk

__all__ = ["InnerProducts"]

Matrix = NDArray[Any]


class InnerProducts:
    """Of rows that are centred, a domain at a time, and perhaps brought to unit length.

    Parameters
    ----------
    H : array of shape (n_rows, n_features)
        Denoised rows.
    side : array of shape (n_rows,)
        Domain of each row.
    normalize : bool
        Whether rows have unit length once they are centred.
    """

    def __init__(self, H: Matrix, side: NDArray[np.int64], normalize: bool):
        self._mean = H.mean(0)
        self._rows = H - self._mean
        self._gram = syrk(self._rows, transposed=False)
        self._domains, self._place = np.unique(side, return_inverse=True)
        self._normalize = normalize

    def about(self, centers: Mapping[int, Matrix]) -> Matrix:
        """The n×n products about these centres, one a domain."""
        C = np.stack([centers[d] for d in self._domains.tolist()]) - self._mean
        C = C.astype(self._rows.dtype)
        place = self._place
        cross = (self._rows @ C.T)[:, place]
        shift = (C @ C.T)[np.ix_(place, place)]
        inner = self._gram - cross
        inner -= cross.T
        inner += shift
        if self._normalize:
            squares, own = inner.diagonal(), np.arange(len(inner))
            summed = self._gram.diagonal() + 2 * np.abs(cross[own, own]) + shift.diagonal()
            # Rows that are their own centre but for rounding have no direction: products of 0.
            nothing = squares <= ROUNDINGS * np.finfo(inner.dtype).eps * summed
            lengths = np.sqrt(np.where(nothing, np.inf, squares)).astype(inner.dtype)
            inner /= lengths
            inner /= lengths[:, None]
        return np.asarray(inner)
