"""GFK, TCA, JDA and TTM: projections in which the domains meet; and what all systems share.

- Geodesic flow kernel (Gong, Shi, Sha, Grauman: CVPR 2012): `GFK`
- Transfer component analysis (Pan, Tsang, Kwok, Yang: TNN 2011): the first step of `JDA`
- Joint distribution adaptation (Long, Wang, Ding, Sun, Yu: ICCV 2013): `JDA`
- Transductive transfer machine (Farajidavar, de Campos, Kittler: ACCV 2014): `TTM`, without its
  step that moves source rows one by one

Systems are fitted on rows of both domains as `marda.pack` gives them, with its marks of rows
without a label; rows must be dense. They learn from source labels alone: target labels are not
looked at, whether there are some or not, but by `MMDT`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted

from marda._validation import UNLABELED, check_domains, encode_labels

Matrix = NDArray[np.float64]
Labels = NDArray[np.int64]


class Domains(NamedTuple):
    """Source rows with the numbers of their classes, target rows, and the classes."""

    source: Matrix
    labels: Labels
    target: Matrix
    classes: NDArray[Any]
    target_labels: Labels
    """Numbers of the classes of labelled target rows, else -1: for systems that learn from them."""

    @property
    def rows(self) -> Matrix:
        """Source rows, then target rows."""
        return np.vstack([self.source, self.target])

    @property
    def n_source(self) -> int:
        """Number of source rows: where target rows begin."""
        return len(self.source)


def dense_rows(X: Any) -> Matrix:
    """Rows as an array of float64; sparse ones are refused."""
    if sp.issparse(X):
        raise ValueError("systems of the literature take dense rows here: give X.toarray().")
    return np.asarray(X, dtype=np.float64)


def split_domains(X: Any, y: Any, sample_domain: Any) -> Domains:
    """Source rows with their labels, and all target rows (sample_domain < 0)."""
    X = dense_rows(X)
    domain = check_domains(sample_domain, len(X), both=False)
    target = domain < 0
    if not target.any() or target.all():
        raise ValueError("both domains are needed: sample_domain must have rows >= 0 and rows < 0.")
    values, codes = encode_labels(y, domain, UNLABELED)
    seen, labels = np.unique(codes[~target], return_inverse=True)
    if len(seen) < 2:
        raise ValueError(f"source rows of at least 2 classes are needed, got {len(seen)}.")
    place = np.minimum(np.searchsorted(seen, codes[target]), len(seen) - 1)
    told = np.where(seen[place] == codes[target], place, -1)
    return Domains(X[~target], labels, X[target], values[seen], told)


def unit_rows(X: Any) -> Matrix:
    """Rows divided by their length; rows of zeros stay."""
    found: Matrix = normalize(dense_rows(X))
    return found


def discrepancy(
    labels: Labels, guess: Labels | None, n_target: int, weights: Sequence[float]
) -> Matrix:
    """Columns e with MMD = Σ ‖Xᵀe‖²: difference of the means, then one per class.

    Parameters
    ----------
    labels, guess : classes of source rows; of target rows, or None if there is no guess yet
        A class that the guess lacks has no column.
    weights : (marginal, conditional)
        Of the first column, and of the others, in the MMD.
    """
    n_source = len(labels)
    whole = np.append(np.full(n_source, 1 / n_source), np.full(n_target, -1 / n_target))
    columns = [np.sqrt(weights[0]) * whole]
    if guess is not None:
        for c in np.intersect1d(labels, guess):
            ours, theirs = labels == c, guess == c
            column = np.append(ours / ours.sum(), theirs / -theirs.sum())
            columns.append(np.sqrt(weights[1]) * column)
    return np.stack(columns, 1)


def leading_directions(
    scatter: Matrix, penalty: Matrix, n: int, *, unit_scatter: bool = False
) -> Matrix:
    """At most n directions a with the largest aᵀ·scatter·a for aᵀ·penalty·a = 1, best first.

    ``unit_scatter``: the same, divided so that aᵀ·scatter·a = 1; those without scatter left out.
    """
    d = len(scatter)
    values, found = eigh(scatter, penalty, subset_by_index=(max(d - n, 0), d - 1))
    values, found = values[::-1], found[:, ::-1]
    if unit_scatter:
        kept = values > 1e-10 * values[0]
        found = found[:, kept] / np.sqrt(values[kept])
    return np.ascontiguousarray(found)


def nearest(rows: Matrix, labels: Labels) -> KNeighborsClassifier:
    """The label of the nearest row."""
    return KNeighborsClassifier(n_neighbors=1).fit(rows, labels)


class System(ClassifierMixin, BaseEstimator):
    """What all systems share: they name the classes of new rows by number."""

    classes_: NDArray[Any]

    @abstractmethod
    def numbers(self, X: Matrix) -> Labels:
        """Numbers of the classes of new rows."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of new rows."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.numbers(dense_rows(X))])


class NearestSystem(System):
    """A row is of the class of its nearest source row, where `transform` brings both."""

    nearest_: KNeighborsClassifier

    @abstractmethod
    def transform(self, X: Any) -> Matrix:
        """Features of new rows."""

    def numbers(self, X: Matrix) -> Labels:
        """Those of the nearest source rows."""
        return np.asarray(self.nearest_.predict(self.transform(X)))


# Geodesic flow kernel -----------------------------------------------------------------------------


def principal_directions(X: Matrix, n: int) -> Matrix:
    """An orthonormal basis of the n leading principal components, in columns."""
    n = min(n, X.shape[1], len(X) - 1)
    return np.linalg.svd(X - X.mean(0), full_matrices=False)[2][:n].T


def flow_factor(source: Matrix, target: Matrix) -> Matrix:
    """F with G = F Fᵀ, the kernel of all subspaces on the geodesic from source to target.

    With P_SᵀP_T = U cos(θ) Vᵀ and B = P_S U, C = (P_S U cos θ − P_T V) / sin θ, which is
    orthogonal to P_S, the subspace at t is spanned by b_i cos(tθ_i) − c_i sin(tθ_i). Its projector
    integrated over t in [0, 1] is ½ Σ_i [b_i c_i] Λ_i [b_i c_i]ᵀ, with

        Λ_i = [[1 + s_i, r_i], [r_i, 1 − s_i]],  s = sin(2θ)/(2θ),  r = (cos(2θ) − 1)/(2θ).
    """
    k = min(source.shape[1], target.shape[1])
    U, cosine, Vt = np.linalg.svd(source[:, :k].T @ target[:, :k])
    angle = np.arccos(np.clip(cosine, 0.0, 1.0))
    B = source[:, :k] @ U
    C = B * np.cos(angle) - target[:, :k] @ Vt.T
    length = np.linalg.norm(C, axis=0)
    C /= np.where(length > 1e-8, length, 1.0)  # no angle: Λ has nothing there
    s = np.sinc(2 * angle / np.pi)
    r = -np.sin(angle) * np.sinc(angle / np.pi)  # (cos 2θ − 1)/(2θ) = −sin²θ/θ
    parts = []
    for i in range(k):
        values, vectors = np.linalg.eigh([[1 + s[i], r[i]], [r[i], 1 - s[i]]])
        root = vectors * np.sqrt(np.maximum(values, 0.0) / 2)
        parts.append(np.column_stack([B[:, i], C[:, i]]) @ root)
    return np.hstack(parts)


@dataclass(eq=False, repr=False)
class GFK(NearestSystem):
    """Nearest source row by the geodesic flow kernel of two principal subspaces.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of both subspaces.
    """

    n_components: int = 20

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> GFK:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        bases = [principal_directions(Z, self.n_components) for Z in domains[0:3:2]]
        self.classes_ = domains.classes
        self.factor_ = flow_factor(*bases)
        self.nearest_ = nearest(domains.source @ self.factor_, domains.labels)
        return self

    def transform(self, X: Any) -> Matrix:
        """Features whose inner product is the kernel."""
        return dense_rows(X) @ self.factor_


# Transfer components, and joint distributions -----------------------------------------------------


@dataclass(eq=False, repr=False)
class JDA(NearestSystem):
    """A projection in which means and class means of the domains meet, and neighbours in it.

    With the linear kernel K = XXᵀ: max tr(AᵀKHKA) for Aᵀ(K(Σ_c M_c)K + λI)A = I. M_0 is the MMD of
    all rows, M_c of those of class c; their sum is divided by its Frobenius norm. Classes of target
    rows are guessed by the nearest source row, again and again; rows are divided by their length.
    K is never formed: with XᵀX = VΣ²Vᵀ, KA = (XVΣ)B for A in its range and ‖A‖ = ‖B‖.

    Parameters
    ----------
    n_components : int, default=100
        Columns of A.
    ridge : float, default=1.0
        λ.
    n_iter : int, default=10
        Guesses. With one, there is nothing of classes yet: transfer component analysis.
    """

    n_components: int = 100
    ridge: float = 1.0
    n_iter: int = 10

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> JDA:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        rows, n = unit_rows(domains.rows), domains.n_source
        squares, V = np.linalg.eigh(rows.T @ rows)
        kept = squares > 1e-10 * squares[-1]
        basis = V[:, kept] * np.sqrt(squares[kept])
        rows = rows @ basis  # coordinates of the columns of K
        centred = rows - rows.mean(0)
        scatter = centred.T @ centred
        guess = None
        for _ in range(self.n_iter):
            E = discrepancy(domains.labels, guess, len(rows) - n, (1.0, 1.0))
            between = rows.T @ E
            size = np.linalg.norm(E.T @ E)  # of Σ e eᵀ
            penalty = between @ between.T / size + self.ridge * np.eye(rows.shape[1])
            B = leading_directions(scatter, penalty, self.n_components)
            Z = unit_rows(rows @ B)
            self.nearest_ = nearest(Z[:n], domains.labels)
            guess = self.nearest_.predict(Z[n:])
        self.projection_ = basis @ B
        self.classes_ = domains.classes
        return self

    def transform(self, X: Any) -> Matrix:
        """Projected unit rows."""
        return unit_rows(unit_rows(X) @ self.projection_)


# Transductive transfer machine ------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class TTM(NearestSystem):
    """A projection in which the means meet; then every class of the source is moved and stretched.

    In the components of `JDA` with one guess (which are those of transfer component analysis),
    target rows get probabilities of classes. Source rows of a class are given the mean and the
    deviation, per component, that target rows have when they count by its probability. This is done
    again with probabilities from moved rows. A row is of the class of its nearest moved source row.

    The authors also move source rows one by one along the density of target rows, between both
    steps, and their adaptive version chooses the classifier; neither is here.

    Parameters
    ----------
    n_components : int, default=100
        Of the projection.
    ridge : float, default=1.0
        Of the projection.
    C : float, default=100.0
        Of the logistic regression that gives probabilities: little penalty, since flat ones would
        move all classes to one place.
    n_iter : int, default=10
        Moves.
    """

    n_components: int = 100
    ridge: float = 1.0
    C: float = 100.0
    n_iter: int = 10

    def fit(self, X: Any, y: Any, *, sample_domain: Any) -> TTM:
        """Fit on rows of both domains."""
        domains = split_domains(X, y, sample_domain)
        self.components_ = JDA(self.n_components, self.ridge, n_iter=1).fit(
            X, y, sample_domain=sample_domain
        )
        self.classes_ = domains.classes
        start, target = map(self.components_.transform, (domains.source, domains.target))
        moved, k = start, len(domains.classes)
        for _ in range(self.n_iter):
            likely = LogisticRegression(C=self.C, max_iter=300).fit(moved, domains.labels)
            P = likely.predict_proba(target)
            moved = np.empty_like(start)
            for c in range(k):
                own = domains.labels == c
                p = P[:, c] / max(P[:, c].sum(), 1e-12)
                mean = p @ target
                deviation = np.sqrt(np.maximum(p @ (target - mean) ** 2, 1e-12))
                spread = np.maximum(start[own].std(0), 1e-6)
                moved[own] = (start[own] - start[own].mean(0)) / spread * deviation + mean
        self.moved_ = moved
        self.nearest_ = nearest(moved, domains.labels)
        return self

    def transform(self, X: Any) -> Matrix:
        """Components of rows as they are: only source rows are moved."""
        return self.components_.transform(X)
