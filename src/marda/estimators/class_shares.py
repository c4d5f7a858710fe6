"""The target's class shares, guessed and counted; a source is centred by them.

Nothing else is done with them: the class prior by EM is in shift/class_prior.py.

Centred each at its own mean, domains that differ in class shares alone would be pulled apart. The
source is therefore centred at Σ_c π_c μ_c with π the shares of the target, which nobody knows.
Guesses: equal shares, the source's own, those that a model without centring predicts (right where
domains differ in shares alone), and from the best of these on those that the model itself predicts
(centre, predict, count, centre again). A wrong centre draws borders through the middle of the
target's classes, where models disagree (accuracy_estimation.py). Equal shares are left only for a
guess under which they agree more, by a standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._arrays import (
    astype,
    diagonal,
    host_type,
    is_numpy,
    like,
    namespace,
    to_numpy,
)
from marda.estimators.accuracy_estimation import target_skill
from marda.estimators.heads import RidgeHead
from marda.estimators.model import ROUNDINGS
from marda.estimators.pseudo_labels import LabelPool

Matrix = NDArray[Any]
Shares = NDArray[np.float64]

#: Shares that differ by less, in total variation, are the same.
SAME = 0.02
CACHE_BYTES = 2**20
#: Rounds of centring by predicted shares.
ROUNDS = 3


@dataclass(frozen=True)
class Centred:
    """A guess at the target's class shares, features centred for it, and the skill they show."""

    shares: Shares
    head: RidgeHead
    skill: float


@dataclass(frozen=True)
class Centring:
    """What guesses are tried on.

    Attributes
    ----------
    make_head : callable
        Shares → a head on features that are centred for them; None: that are not centred.
    rows : LabelPool
        Labelled rows of the source, and free rows.
    source_skill, ridge : float
        Of the classifier, whatever the centre.
    seed : int
        Draws the thirds of the source whose models are compared.
    """

    make_head: Callable[[Shares | None], RidgeHead]
    rows: LabelPool
    source_skill: float
    ridge: float
    seed: int = 0

    def judged(self, shares: Shares, head: RidgeHead) -> Centred:
        """A guess with the skill on the target that it shows."""
        rows = self.rows
        given = (head, rows.labelled, rows.codes, rows.weights, rows.free)
        return Centred(shares, head, target_skill(*given, self.source_skill, self.seed))

    def best(self, equal: Centred) -> Centred:
        """`equal`, which is given, or a guess that is better by a standard error."""
        best = equal
        own = _shares(self.rows.codes, len(equal.shares))
        for shares in (own, self._predicted(self.head_for(None))):
            if _distance(shares, equal.shares) > SAME:
                best = self._better(best, self.judged(shares, self.head_for(shares)), equal)
        shares, head = best.shares, best.head
        for _ in range(ROUNDS):
            predicted = self._predicted(head)
            if _distance(predicted, shares) <= SAME:
                break
            shares, head = predicted, self.head_for(predicted)
        if shares is not best.shares:
            best = self._better(best, self.judged(shares, head), equal)
        return best

    def _better(self, best: Centred, guess: Centred, equal: Centred) -> Centred:
        # Agreement is a share of the free rows: its standard error is at most ½/√n
        margin = 0.5 / np.sqrt(len(self.rows.free)) if best is equal else 0.0
        return guess if guess.skill > best.skill + margin else best

    def head_for(self, shares: Shares | None) -> RidgeHead:
        """A head on features that are centred for these shares, with the ridge of all."""
        head = self.make_head(shares)
        head.ridge = self.ridge
        return head

    def _predicted(self, head: RidgeHead) -> Shares:
        rows = self.rows
        scores = head.fit(rows.labelled, rows.codes, rows.weights)
        return _shares(scores[rows.free].argmax(1), scores.shape[1])


def _shares(codes: NDArray[np.int64], n_classes: int) -> Shares:
    return np.bincount(codes, minlength=n_classes) / len(codes)


def _distance(one: Shares, other: Shares) -> float:
    return float(np.abs(one - other).sum() / 2)


class CentredGram:
    """Inner products of denoised rows about any centres, from one Gram: n² per centre, not n²d.

    With h_i the rows, m their mean, and c_i the centre of row i's domain, relative to m,

        (h_i − m − c_i)·(h_j − m − c_j)
            = (h_i − m)·(h_j − m) − (h_i − m)·c_j − c_i·(h_j − m) + c_i·c_j,

    whose last three terms, with few centres, are a matrix of low rank.

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
        self._mean, self._rows = namespace(H).mean(H, axis=0), H
        about = H - self._mean
        self._gram: Matrix = about @ about.T
        self._domains, self._place = np.unique(side, return_inverse=True)
        self._normalize = normalize

    def _along(self, C: Matrix) -> Matrix:
        """Products of the rows, about their mean, with those of C, on the host."""
        if not is_numpy(C):
            return np.asarray(to_numpy((self._rows - self._mean) @ C.T))
        out = np.empty((len(self._rows), len(C)), dtype=C.dtype)
        step = max(1, CACHE_BYTES // (C.itemsize * max(1, C.shape[1])))
        for start in range(0, len(out), step):
            some = slice(start, start + step)
            out[some] = (self._rows[some] - self._mean) @ C.T
        return out

    def about(self, centers: Mapping[int, Matrix]) -> Matrix:
        """The n×n products about these centres, one per domain."""
        xp = namespace(self._mean)
        C = xp.stack([centers[d] for d in self._domains.tolist()]) - self._mean
        C = astype(C, self._rows.dtype)
        gram, squared = self._gram, to_numpy(diagonal(self._gram))
        mine = np.arange(len(squared)), self._place
        cross, shift = self._along(C), np.asarray(to_numpy(C @ C.T))
        member = np.zeros_like(cross)  # one-hot
        member[mine] = 1
        half = cross - 0.5 * member @ shift
        left, right = np.hstack([half, member]), -np.hstack([member, half]).T
        dtype = host_type(gram)
        scale = np.ones(len(squared), dtype=dtype)
        if self._normalize:
            own, middle = cross[mine], shift.diagonal()[self._place]
            squares = squared - 2 * own + middle
            summed = squared + 2 * np.abs(own) + middle
            # Rows that are their own centre but for rounding have no direction: products of 0.
            nothing = squares <= ROUNDINGS * np.finfo(dtype).eps * summed
            scale = (1 / np.sqrt(np.where(nothing, np.inf, squares))).astype(dtype)
        if not is_numpy(gram):
            scale = like(scale, gram)
            return (like(left, gram) @ like(right, gram) + gram) * scale * scale[:, None]
        inner = np.empty_like(gram)
        step = max(1, CACHE_BYTES // (gram.itemsize * len(gram)))
        for start in range(0, len(gram), step):  # while they are in cache
            some = slice(start, start + step)
            part = np.matmul(left[some], right, out=inner[some])
            part += gram[some]
            part *= scale
            part *= scale[some, None]
        return inner
