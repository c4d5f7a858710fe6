"""Views of the inputs: which columns, on which scale. A rule that reads the rows chooses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.estimators.model import row_lengths

__all__ = ["KINDS", "View", "column_energy", "make_view", "share_of_zeros"]

Vector = NDArray[Any]

#: What `inputs` of a candidate may be.
KINDS = ("raw", "unit", "sqrt", "standard")


@dataclass(frozen=True)
class View:
    """Rows as a member of the committee sees them.

    Attributes
    ----------
    kind : {"raw", "unit", "sqrt", "standard"}
        As they are; of unit length; signed square roots of unit length (for counts, whose spread
        grows with their size); or columns about their mean, in units of their spread.
    columns : array of int, default=None
        Columns that are looked at; None: all.
    middle, spread : arrays, default=None
        Of the columns, for "standard".
    """

    kind: str
    columns: NDArray[np.int64] | None = None
    middle: Vector | None = None
    spread: Vector | None = None

    def apply(self, X: Any) -> Any:
        """The rows; sparse rows stay sparse."""
        if self.columns is not None:
            X = X[:, self.columns]
        if self.kind == "raw":
            return X
        if self.kind == "standard":
            dense = X.toarray() if sp.issparse(X) else X
            assert self.middle is not None
            assert self.spread is not None
            return (dense - self.middle.astype(X.dtype)) / self.spread.astype(X.dtype)
        if self.kind == "sqrt":
            X = _signed_root(X)
        return _unit(X)


def make_view(kind: str, X: Any, columns: NDArray[np.int64] | None = None) -> View:
    """A view of a kind, with what it must know of the rows."""
    if kind not in KINDS:
        raise ValueError(f"inputs must be one of {KINDS}, got {kind!r}.")
    if kind != "standard":
        return View(kind, columns)
    dense = View("raw", columns).apply(X)
    dense = dense.toarray() if sp.issparse(dense) else dense
    middle, spread = dense.mean(0, dtype=np.float64), dense.std(0, dtype=np.float64)
    return View(kind, columns, middle, np.where(spread > 0, spread, 1.0))


def share_of_zeros(X: Any) -> float:
    """Entries that are zero, of all entries."""
    filled = X.count_nonzero() if sp.issparse(X) else np.count_nonzero(X)
    return float(1 - filled / max(1, X.shape[0] * X.shape[1]))


def column_energy(X: Any) -> Vector:
    """Sum of squares of every column."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(0), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->j", X, X, dtype=np.float64))


def _signed_root(X: Any) -> Any:
    if not sp.issparse(X):
        return np.sign(X) * np.sqrt(np.abs(X))
    X = X.copy()
    X.data = np.sign(X.data) * np.sqrt(np.abs(X.data))
    return X


def _unit(X: Any) -> Any:
    """Rows of unit length; empty rows stay empty."""
    if sp.issparse(X):
        squares = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), X.shape)
        norms = np.sqrt(np.asarray(squares.sum(1)).ravel())
        scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0).astype(X.dtype)
        return (sp.diags_array(scale) @ X).tocsr()
    norms = row_lengths(X)[:, None]
    return X / np.where(norms > 0, norms, 1).astype(X.dtype)
