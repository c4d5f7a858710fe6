"""Source-only models of all rows: sums over rows in the place of a larger sample.

Everything is chosen on a sample: inputs, penalties, landmarks, what differs between the domains.
What is left to learn are coefficients, and those of two models need sums over rows alone, which
stream and merge in any order:

- Logistic regression, from the sample's coefficients θ by one step of Newton,
  θ + (H + λI)⁻¹(g − λθ), with the gradient g = Σ_i w_i φ_i (y_i − p_i)ᵀ and the Hessian blocks
  H_ab = Σ_i w_i p_ia (δ_ab − p_ib) φ_i φ_iᵀ at θ. From an estimate of error O(n^−½) one step
  reaches that of all rows to O(1/n), n being the rows of the sample.
- The kernel model is a ridge on similarities to landmarks of the sample: Σ_i w_i k_i k_iᵀ and
  Σ_i w_i k_i y_iᵀ for every penalty.

The rows of the sample are not part of these sums at first. So they are left-out rows of the new
models, as they are of the old ones, and tell which of the two is better. Then their own sums are
added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.special import softmax

from marda.estimators.heads import GaussianRidge, signs
from marda.selection.inputs import Inputs
from marda.selection.source_only import (
    KERNEL_RIDGES,
    Linear,
    Voice,
    Voices,
    class_weights,
    landmark_basis,
    similarity,
    with_models,
)

__all__ = ["AllRows", "FixedFeatures", "HeldRows", "RestOfRows", "RowSums", "fit_all_rows"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Coefficients that a Newton step may have, those of all classes together.
MAX_COEFFICIENTS = 2048
#: Directions of landmarks below this share of the largest are left out: the rounding of sums, in
#: whatever order they were added, would come out larger by the square of its inverse.
FLOOR = 1e-5
#: Rows whose features are made at a time.
BLOCK = 4096


@dataclass(frozen=True)
class RowSums:
    """Sums over labelled rows; those of two sets of rows add up to those of both.

    Attributes
    ----------
    counts : array of shape (n_classes,)
        Rows.
    gradient : array of shape (p, n_classes)
        Of the log-likelihood, in the coefficients and intercepts of p = n_features + 1.
    hessian : array of shape (n_classes, n_classes, p, p)
        Of its negative; blocks a < b, from which the others follow.
    gram, cross : arrays of shapes (m + 1, m + 1) and (m + 1, n_classes)
        Of similarities to m landmarks and a one (last), with themselves and with ±1 per class; the
        last column of `gram` is that of its last row.
    """

    counts: Vector
    gradient: Matrix | None = None
    hessian: Matrix | None = None
    gram: Matrix | None = None
    cross: Matrix | None = None

    def __add__(self, other: RowSums) -> RowSums:
        """Sums over the rows of both."""
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return RowSums(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def n_rows(self) -> int:
        """All of them."""
        return int(self.counts.sum())


class RestOfRows(Protocol):
    """The labelled source rows outside of a sample."""

    @property
    def counts(self) -> Index:
        """Rows per class."""

    def sums(self, features: FixedFeatures) -> RowSums:
        """Sums over all of them."""


@dataclass(frozen=True)
class HeldRows:
    """Such rows in memory: `places` of X, and their class codes."""

    X: Any
    codes: Index
    places: Index
    n_classes: int

    @property
    def counts(self) -> Index:
        """Rows per class."""
        return np.bincount(self.codes[self.places], minlength=self.n_classes)

    def sums(self, features: FixedFeatures) -> RowSums:
        """Sums over all of them, a block at a time."""
        total = features.nothing()
        for start in range(0, len(self.places), BLOCK):
            rows = self.places[start : start + BLOCK]
            total = features.added(total, self.X[rows], self.codes[rows])
        return total


@dataclass(frozen=True)
class FixedFeatures:
    """What rows become before they are summed; everything was chosen on a sample.

    Attributes
    ----------
    weights : array of shape (n_classes,)
        Of a row of each class.
    linear : tuple of Inputs and array of shape (p, n_classes), default=None
        Of the logistic regression: its inputs, and coefficients with the intercept last.
    kernel : tuple of Inputs, array of shape (m, n_features) and float, default=None
        Its inputs, landmarks and variance.
    """

    weights: Vector
    linear: tuple[Inputs, Matrix] | None = None
    kernel: tuple[Inputs, Matrix, float] | None = None

    @classmethod
    def of(cls, voices: Voices, weights: Vector) -> Self:
        """Those of the models of a sample; rows of too many columns have none."""
        linear = kernel = None
        for voice in (voices.chosen, *voices.others):
            found = voice.model
            if isinstance(found.model, Linear):
                start = np.vstack([found.model.coef, found.model.intercept]) * found.sharpness
                if start.size <= MAX_COEFFICIENTS:
                    linear = found.inputs, start
            elif isinstance(found.model, GaussianRidge):
                landmarks = np.asarray(found.model.basis_, dtype=np.float64)
                kernel = found.inputs, landmarks, float(found.model.variance_)
        return cls(weights, linear, kernel)

    @property
    def any(self) -> bool:
        """Whether there is anything to learn from sums."""
        return self.linear is not None or self.kernel is not None

    def nothing(self) -> RowSums:
        """Sums over no rows."""
        C = len(self.weights)
        sums = RowSums(np.zeros(C))
        if self.linear is not None:
            p = len(self.linear[1])
            sums = replace(sums, gradient=np.zeros((p, C)), hessian=np.zeros((C, C, p, p)))
        if self.kernel is not None:
            m = len(self.kernel[1]) + 1
            sums = replace(sums, gram=np.zeros((m, m)), cross=np.zeros((m, C)))
        return sums

    def added(self, sums: RowSums, X: Any, codes: Index) -> RowSums:
        """`sums` and those of more rows, which are added in place."""
        for start in range(0, len(codes), BLOCK):
            rows = slice(start, start + BLOCK)
            self._add(sums, X[rows], codes[rows])
        return sums

    def _add(self, sums: RowSums, X: Any, codes: Index) -> None:
        C, w = len(self.weights), self.weights[codes]
        sums.counts[:] += np.bincount(codes, minlength=C)
        if self.linear is not None:
            assert sums.gradient is not None
            assert sums.hessian is not None
            inputs, theta = self.linear
            F = _with_ones(inputs.apply(X))
            P = softmax(F @ theta, axis=1)
            sums.gradient[:] += F.T @ (w[:, None] * (np.eye(C)[codes] - P))
            for a in range(C):
                for b in range(a + 1, C):
                    A = F * np.sqrt(w * P[:, a] * P[:, b])[:, None]
                    sums.hessian[a, b] -= A.T @ A
        if self.kernel is not None:
            assert sums.gram is not None
            assert sums.cross is not None
            inputs, landmarks, variance = self.kernel
            rows = np.asarray(inputs.apply(X), dtype=np.float64)
            K, root, Y = similarity(rows, landmarks, variance), np.sqrt(w), signs(codes, C)
            K *= root[:, None]
            sums.gram[:-1, :-1] += K.T @ K  # the same array twice: BLAS forms half of it
            sums.gram[-1, :-1] += root @ K
            sums.gram[-1, -1] += w.sum()
            sums.cross[:-1] += K.T @ (root[:, None] * Y)
            sums.cross[-1] += w @ Y

    def models(self, sums: RowSums, penalty: float) -> Iterator[tuple[Inputs, Any]]:
        """The models that the sums determine, with their inputs; one kernel per ridge."""
        if self.linear is not None:
            yield self.linear[0], self._stepped(sums, penalty)
        if self.kernel is not None:
            yield from ((self.kernel[0], model) for model in self._ridges(sums))

    def _stepped(self, sums: RowSums, penalty: float) -> Linear:
        """One step of Newton; `penalty` times ½‖coef‖² is added to the negative likelihood."""
        assert self.linear is not None
        assert sums.gradient is not None
        assert sums.hessian is not None
        theta = self.linear[1]
        p, C = theta.shape
        H = sums.hessian + sums.hessian.transpose(1, 0, 3, 2)
        for a in range(C):
            H[a, a] = -H[a].sum(0)
        ridge = np.append(np.full(p - 1, penalty), 0.0)
        # What is the same for all classes changes no probability: the gradient has no such part,
        # and any curvature will do.
        same = np.einsum("aakk->k", H) / C**2 + ridge
        for a in range(C):
            for b in range(C):
                H[a, b].flat[:: p + 1] += same / C + (ridge if a == b else 0.0)
        right = sums.gradient - ridge[:, None] * theta
        matrix = H.transpose(0, 2, 1, 3).reshape(C * p, C * p)
        try:
            step = cho_solve(cho_factor(matrix), right.T.ravel())
        except (LinAlgError, ValueError):  # a class that no row can have: there is no step
            step = np.zeros(C * p)
        theta = theta + step.reshape(C, p).T
        return Linear(theta[:-1], theta[-1])

    def _ridges(self, sums: RowSums) -> Iterator[GaussianRidge]:
        """A ridge per penalty, as on the sample: weighted, about the means."""
        assert self.kernel is not None
        assert sums.gram is not None
        assert sums.cross is not None
        _, landmarks, variance = self.kernel
        total = sums.gram[-1, -1]
        mean, level = sums.gram[-1, :-1] / total, sums.cross[-1] / total
        gram = sums.gram[:-1, :-1] - total * np.outer(mean, mean)
        cross = sums.cross[:-1] - total * np.outer(mean, level)
        back = landmark_basis(landmarks, variance, FLOOR)
        squares, V = eigh(back.T @ gram @ back, check_finite=False)
        squares = np.maximum(squares, 0)
        unit = float(squares.sum()) / max(1, len(squares)) or 1.0
        along = V.T @ (back.T @ cross)
        for ridge in KERNEL_RIDGES:
            coef = back @ (V @ (along / (squares + ridge * unit)[:, None]))
            classes = np.arange(len(self.weights))
            yield GaussianRidge(classes, landmarks, coef, level - mean @ coef, variance)


def _with_ones(F: Any) -> Matrix:
    dense = F.toarray() if sp.issparse(F) else F
    return np.hstack([np.asarray(dense, dtype=np.float64), np.ones((dense.shape[0], 1))])


@dataclass(frozen=True)
class AllRows:
    """Source-only models of all rows where these are better, and what they learned from.

    Attributes
    ----------
    voices : Voices
        The models; left-out rows are those of the sample.
    kinds : tuple of str
        Those that all rows made, of the models that predict.
    n_rows : int
        Labelled rows that these have seen, the sample included.
    """

    voices: Voices
    kinds: tuple[str, ...]
    n_rows: int


def fit_all_rows(
    voices: Voices, X: Any, rest: RestOfRows, *, class_weight: Any = None, classes: Any = None
) -> AllRows:
    """Learn from the rows outside of a sample what sums tell.

    Parameters
    ----------
    voices : Voices
        Of the sample.
    X : array or sparse matrix of shape (n_rows, n_features)
        Its rows.
    rest : RestOfRows
        All others.
    class_weight, classes
        As in `fit_source_only`.
    """
    codes, n_classes = voices.codes, len(rest.counts)
    counts = rest.counts + np.bincount(codes, minlength=n_classes)
    weights = class_weights(class_weight, counts, classes)
    if not rest.counts.any() or (weights * counts == 0).all():
        return AllRows(voices, (), 0)
    features = FixedFeatures.of(voices, weights * counts.sum() / (weights @ counts))
    if not features.any:
        return AllRows(voices, (), 0)
    penalty = _penalty(voices, n_classes)
    others = rest.sums(features)
    everything = features.added(features.nothing(), X, codes) + others
    found = []
    for (inputs, judged), (_, model) in zip(
        features.models(others, penalty), features.models(everything, penalty), strict=True
    ):
        found.append((inputs, model, judged.scores(inputs.apply(X))))
    chosen = with_models(voices, found)
    made = [id(model) for _, model, _ in found]
    speaking = getattr(chosen.chosen.model.model, "parts", (chosen.chosen.model,))
    kinds = tuple(part.kind for part in speaking if id(part.model) in made)
    return AllRows(chosen, kinds, everything.n_rows if kinds else 0)


def _penalty(voices: Voices, n_classes: int) -> float:
    """Of the sample's logistic regression; that of two classes has one vector for both."""
    voice: Voice
    for voice in (voices.chosen, *voices.others):
        if voice.setting is not None:
            return (2.0 if n_classes == 2 else 1.0) / voice.setting[1]
    return 1.0
