"""Well-known methods beside marda's: logistic regression, a forest, CORAL and subspace alignment.

Their settings are those of their papers and scikit-learn's defaults, the same for every table, and
none sees a target label. The last two map rows and leave the rest to logistic regression:

- CORAL (Sun, Feng and Saenko, 2016): source rows Xs Cs^(-1/2) Ct^(1/2), with the covariance C of a
  domain plus its mean variance times I (with columns at standard deviation 1, the paper's I).
- SA (Fernando, Habrard, Sebban and Tuytelaars, 2013): source rows Xs Ps Psᵀ Pt and target rows
  Xt Pt, with the leading principal directions P of a domain.

As in both papers, the columns of each domain are first brought to mean 0 and standard deviation 1;
sparse rows (words), whose rare columns that would blow up, are centred only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marda._machine import available_memory, format_bytes
from marda._order import row_order

__all__ = ["ALIGNED", "ALIGNED_ROWS", "BASELINES", "MAX_WIDTH", "Baseline"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

TREES = 200
#: Principal directions of SA.
DIRECTIONS = 20
#: Wider rows are cut to so many leading singular directions before covariances are taken.
MAX_WIDTH = 1000
STEPS = 3000
#: Those that map rows, and the rows that each domain must have for them.
ALIGNED, ALIGNED_ROWS = ("CORAL", "SA"), 2
#: Their names, and what they do in a line.
BASELINES = {
    "logistic": "logistic regression on the source rows alone (scikit-learn)",
    "forest": f"a forest of {TREES} trees on the source rows alone (scikit-learn)",
    "CORAL": "source rows are made to vary together as the target's do, then logistic regression",
    "SA": f"up to {DIRECTIONS} principal directions of the source are turned to the target's, then "
    "logistic regression",
}


class Baseline:
    """One of `BASELINES`, fitted as marda's classifiers are.

    Parameters
    ----------
    name : str
        Which one.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, X: Any, y: NDArray[Any], *, sample_domain: NDArray[np.int64]) -> Self:
        """Learn from labelled source rows; of target rows, CORAL and SA see the columns."""
        self.domains_ = np.unique(sample_domain)
        # What is drawn depends on what rows hold, not on how they came.
        source, target = (
            at[row_order(X[at], sample_domain[at])]
            for at in (np.flatnonzero(sample_domain >= 0), np.flatnonzero(sample_domain < 0))
        )
        self._maps: tuple[_Map, _Map] | None = None
        if self.name in ALIGNED:
            self._maps = _aligned(self.name, X[source], X[target])
        rows = self.transform(X[source], sample_domain=sample_domain[source])
        linear = LogisticRegression(max_iter=STEPS)
        self._model: Any = linear
        if self.name == "forest":
            self._model = RandomForestClassifier(TREES, random_state=0)
        elif self._maps is None and not sp.issparse(X):
            self._model = make_pipeline(StandardScaler(), linear)
        self._model.fit(rows, y[source])
        self.classes_ = self._model.classes_
        return self

    def transform(self, X: Any, *, sample_domain: NDArray[np.int64] | None = None) -> Any:
        """Rows as the classifier sees them; without domains they are of the target."""
        if self._maps is None:
            return X
        if sample_domain is None:
            return self._maps[1].apply(X)
        parts = np.flatnonzero(sample_domain >= 0), np.flatnonzero(sample_domain < 0)
        rows = [m.apply(X[at]) for m, at in zip(self._maps, parts, strict=True) if len(at)]
        return np.vstack(rows)[np.argsort(np.concatenate(parts))]

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of target rows."""
        return np.asarray(self._model.predict(self.transform(X)))

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of target rows, one column per class."""
        return np.asarray(self._model.predict_proba(self.transform(X)), dtype=np.float64)


@dataclass(frozen=True)
class _Map:
    """Rows of one domain → ((x − mean)/spread cut − centre) matrix."""

    mean: Vector
    spread: Vector
    cut: TruncatedSVD | None
    centre: Vector
    matrix: Matrix

    def apply(self, X: Any) -> Matrix:
        """To rows of that domain."""
        return np.asarray(
            (_narrow(X, self.mean, self.spread, self.cut) - self.centre) @ self.matrix
        )


def _narrow(X: Any, mean: Vector, spread: Vector, cut: TruncatedSVD | None) -> Matrix:
    """Dense rows of not too many columns, in units of their spread."""
    if not sp.issparse(X):
        X = (X - mean) / spread
    if cut is not None:
        return np.asarray(cut.transform(X))
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _aligned(name: str, *domains: Any) -> tuple[_Map, _Map]:
    """The maps of source rows and of target rows to common columns."""
    n, d = sum(X.shape[0] for X in domains), domains[0].shape[1]
    width = min(n, d, MAX_WIDTH)
    need = 3 * 8 * n * width
    if need > available_memory() / 2:
        raise MemoryError(
            f"{name} needs {format_bytes(need)}, more than half of the memory that is free: leave "
            "it out of --methods."
        )
    few = min(X.shape[0] for X in domains)
    if few < ALIGNED_ROWS:
        raise ValueError(
            f"{name} needs {ALIGNED_ROWS} rows in each domain, got {few}: leave it out."
        )
    units = [_units(X) for X in domains]
    cut = None
    if d > width:
        cut = TruncatedSVD(width, random_state=0)
        if sp.issparse(domains[0]):
            cut.fit(sp.vstack(domains).tocsr())
        else:
            cut.fit(np.vstack([_narrow(X, *u, None) for X, u in zip(domains, units, strict=True)]))
    rows = [_narrow(X, *u, cut) for X, u in zip(domains, units, strict=True)]
    centres = [X.mean(axis=0) for X in rows]
    covariances = [np.cov(X, rowvar=False).reshape(X.shape[1], -1) for X in rows]
    matrices = (_coral if name == "CORAL" else _subspaces)(covariances, few)
    source, target = (
        _Map(*u, cut, centre, matrix)
        for u, centre, matrix in zip(units, centres, matrices, strict=True)
    )
    return source, target


def _units(X: Any) -> tuple[Vector, Vector]:
    """Mean and standard deviation of columns; 0 and 1 for sparse rows."""
    d = X.shape[1]
    if sp.issparse(X):
        return np.zeros(d), np.ones(d)
    spread = X.std(axis=0)
    return X.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _coral(covariances: Sequence[Matrix], few: int) -> tuple[Matrix, Matrix]:
    """Cs^(-1/2) Ct^(1/2) for source rows; target rows stay."""
    powers = []
    for C, power in zip(covariances, (-0.5, 0.5), strict=True):
        mean = np.trace(C) / len(C) or 1.0  # columns that are all constant stay as they are
        values, vectors = eigh(C + mean * np.eye(len(C)))
        powers.append((vectors * values**power) @ vectors.T)
    return powers[0] @ powers[1], np.eye(len(powers[0]))


def _subspaces(covariances: Sequence[Matrix], few: int) -> tuple[Matrix, Matrix]:
    """Ps Psᵀ Pt for source rows, Pt for target rows."""
    d = len(covariances[0])
    k = min(DIRECTIONS, d, few - 1)
    Ps, Pt = (eigh(C, subset_by_index=(d - k, d - 1))[1] for C in covariances)
    return Ps @ (Ps.T @ Pt), Pt
