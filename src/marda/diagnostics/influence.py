"""What moved a row's score: columns and words, and how much each of them.

The score of a row is by how much its predicted class leads the runner-up. A part (a column, a word,
or all categories of a column) moves it as it comes to be what it is in the row, from what it is in
the mean row of the target; where rows are sparse, from nothing. All parts together make the
difference between the two scores.

- Linear models: (x_j − mean_j)(coef_aj − coef_bj) of the predicted class a and the runner-up b,
  summed over the features of a part. This is exact.
- All others: the mean effect of a part over random orders in which the parts come to be what they
  are (Shapley values; Štrumbelj and Kononenko 2014), each order taken forwards and backwards. Of
  more than `MAX_PARTS` parts, those in which the row differs most from the mean row are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._order import row_order, stack_rows

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

MAX_PARTS = 200
#: Orders, half of which are the others backwards.
ORDERS = 10
#: Rows that the model is asked for at a time.
BATCH = 5000
#: Rows between two words of progress.
TOLD = 100
#: Rows that the overall influence is the mean of: fewer, if a model that is not linear would be
#: asked more often than this.
OVERALL_ROWS, LEAST_ROWS, MOST_ASKED = 100, 5, 20_000


@dataclass(frozen=True)
class FeatureGroup:
    """A column or a word: its name, and the features of the model that are made of it."""

    name: str
    features: Index


def parts_of(columns: Sequence[tuple[str, slice]], n_features: int) -> list[FeatureGroup]:
    """Parts of columns by name, and where their features are (`Preprocessing.parts`)."""
    places = np.arange(n_features)
    return [FeatureGroup(name, places[where]) for name, where in columns]


@dataclass(frozen=True)
class Influence:
    """A part, and how far it moved a score (overall: how far it moves scores, on average)."""

    name: str
    moved: float


def is_exact(model: Any) -> bool:
    """Whether the model is linear, so that influence is exact and not sampled."""
    return _coef(model) is not None


def explain_rows(
    model: Any,
    X: Any,
    parts: Sequence[FeatureGroup],
    mean: Vector | None,
    k: int = 3,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[list[Influence]]:
    """The k parts that moved the score of every row most, the one that moved it most first.

    Parameters
    ----------
    model : MDAClassifier or MDAClassifierCV
        Fitted.
    X : array or CSR array of shape (n_rows, n_features)
        Rows.
    parts : sequence of FeatureGroup
        Columns and words; each feature is of one part at most.
    mean : array of shape (n_features,), or None
        The mean row that others are told from; None: 0, as for sparse rows.
    k : int, default=3
        How many; fewer where fewer moved it at all.
    progress : callable, default=None
        Called with the number of rows that are done, every hundred rows.

    Returns
    -------
    list of list of Influence
        One list per row. Above 0: towards the predicted class.
    """
    found: list[list[Influence]] = []
    for names, moved in _contributions(model, X, parts, mean):
        best = np.argsort(-np.abs(moved), kind="stable")[:k]
        found.append([Influence(names[j], float(moved[j])) for j in best if moved[j] != 0])
        if progress is not None and len(found) % TOLD == 0:
            progress(len(found))
    return found


def overall_influence(
    model: Any, X: Any, parts: Sequence[FeatureGroup], mean: Vector | None, k: int = 10
) -> list[Influence]:
    """The k parts that move scores most: the mean of |moved| over at most 100 rows, drawn.

    Parameters
    ----------
    model, X, parts, mean
        As for `explain_rows`.
    k : int, default=10
        How many.
    """
    n = OVERALL_ROWS
    if not is_exact(model):
        n = min(n, max(LEAST_ROWS, MOST_ASKED // (ORDERS * min(len(parts) + 1, MAX_PARTS))))
    some = np.sort(row_order(X)[:n])
    total: dict[str, float] = {}
    for names, moved in _contributions(model, X[some], parts, mean):
        for name, effect in zip(names, np.abs(moved).tolist(), strict=True):
            total[name] = total.get(name, 0.0) + effect / len(some)
    best = sorted(total.items(), key=lambda one: (-one[1], one[0]))[:k]
    return [Influence(name, moved) for name, moved in best if moved > 0]


def _contributions(
    model: Any, X: Any, parts: Sequence[FeatureGroup], mean: Vector | None
) -> Iterator[tuple[list[str], Vector]]:
    """Names of parts and how far they moved the score, per row."""
    coef = _coef(model)
    rows = sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    start = None if sp.issparse(rows) else (np.zeros(rows.shape[1]) if mean is None else mean)
    lookup = _Lookup.of(parts, rows.shape[1])
    for first in range(0, rows.shape[0], BATCH):
        batch = rows[first : first + BATCH]
        leading = _leading(model, batch)
        if coef is not None:
            yield from _linear(coef, batch, start, leading, lookup)
        else:
            yield from _sampled(model, batch, start, leading, lookup)


def _coef(model: Any) -> Matrix | None:
    """One row per class, or None where scores are not linear."""
    try:
        coef = np.asarray(model.coef_, dtype=np.float64)
    except AttributeError:
        return None
    return coef if len(coef) > 1 else np.vstack([-coef / 2, coef / 2])


def _scores(model: Any, X: Any) -> Matrix:
    """One column per class."""
    if hasattr(model, "decision_function"):
        S = np.asarray(model.decision_function(X), dtype=np.float64)
    else:  # a classifier that knows probabilities alone
        S = np.log(np.maximum(model.predict_proba(X), np.finfo(float).tiny))
    return S if S.ndim == 2 else np.column_stack([-S / 2, S / 2])


def _leading(model: Any, X: Any) -> Index:
    """The predicted class and the runner-up of every row."""
    return np.argsort(-_scores(model, X), axis=1, kind="stable")[:, :2]


@dataclass(frozen=True)
class _Lookup:
    """Which part a feature is of (−1: none), and the names of parts."""

    part: Index
    names: list[str]

    @classmethod
    def of(cls, parts: Sequence[FeatureGroup], n_features: int) -> _Lookup:
        part = np.full(n_features, -1)
        for k, one in enumerate(parts):
            part[one.features] = k
        return cls(part, [one.name for one in parts])


def _differing(
    batch: Any, i: int, start: Vector | None, lookup: _Lookup
) -> tuple[Index, Vector, Index, Index]:
    """Features in which a row is not as at the start, its values there, and its parts.

    The last two: places of parts in the lookup, and of every feature among these.
    """
    if start is None:
        row = batch[[i]]
        features, values = row.indices.astype(np.int64), row.data
        order = np.argsort(features, kind="stable")
        features, values = features[order], values[order]
    else:
        features = np.flatnonzero(batch[i] != start)
        values = batch[i, features]
    mine = lookup.part[features] >= 0
    features, values = features[mine], values[mine]
    there, place = np.unique(lookup.part[features], return_inverse=True)
    return features, values, there, place.ravel()


def _linear(
    coef: Matrix, batch: Any, start: Vector | None, leading: Index, lookup: _Lookup
) -> Iterator[tuple[list[str], Vector]]:
    for i, (a, b) in enumerate(leading.tolist()):
        features, values, there, place = _differing(batch, i, start, lookup)
        step = values if start is None else values - start[features]
        effect = step * (coef[a, features] - coef[b, features])
        moved = np.bincount(place, effect, minlength=len(there)).astype(np.float64)
        yield [lookup.names[j] for j in there], moved


def _sampled(
    model: Any, batch: Any, start: Vector | None, leading: Index, lookup: _Lookup
) -> Iterator[tuple[list[str], Vector]]:
    waiting: list[_Orders] = []
    size = 0
    for i in range(batch.shape[0]):
        waiting.append(_Orders.of(batch, i, start, lookup))
        size += len(waiting[-1].mask)
        if size > BATCH or i == batch.shape[0] - 1:
            first = i + 1 - len(waiting)
            X = [one.rows(batch, first + k, start) for k, one in enumerate(waiting)]
            S = _scores(model, stack_rows(*X))
            ends = np.cumsum([len(one.mask) for one in waiting])
            for k, (one, mine) in enumerate(zip(waiting, np.split(S, ends[:-1]), strict=True)):
                a, b = leading[first + k]
                yield [lookup.names[j] for j in one.there], one.moved(mine[:, a] - mine[:, b])
            waiting, size = [], 0


@dataclass(frozen=True)
class _Orders:
    """A row on its way from the start, part by part, in several orders.

    Attributes
    ----------
    features, values, place
        In which it differs, its values there, and the part that each is of.
    there : array of int
        Parts.
    orders : array of shape (n_orders, n_parts)
        In which the parts come.
    mask : array of bool of shape (n_orders · (n_parts + 1), n_parts)
        Which parts have come.
    """

    features: Index
    values: Vector
    place: Index
    there: Index
    orders: Index
    mask: NDArray[np.bool_]

    @classmethod
    def of(cls, batch: Any, i: int, start: Vector | None, lookup: _Lookup) -> _Orders:
        features, values, there, place = _differing(batch, i, start, lookup)
        if len(there) > MAX_PARTS:
            far = np.abs(values if start is None else values - start[features])
            largest = np.zeros(len(there))
            np.maximum.at(largest, place, far)
            kept = np.sort(np.argsort(-largest, kind="stable")[:MAX_PARTS])
            mine = np.isin(place, kept)
            features, values = features[mine], values[mine]
            place, there = np.searchsorted(kept, place[mine]), there[kept]
        n = len(there)
        rng = np.random.default_rng(0)  # the same for every row: nothing depends on their order
        half = np.array([rng.permutation(n) for _ in range(ORDERS // 2)]).reshape(ORDERS // 2, n)
        orders = np.vstack([half, half[:, ::-1]])
        come = np.argsort(orders, axis=1)  # when each part comes
        mask = (come[:, None, :] < np.arange(n + 1)[None, :, None]).reshape(ORDERS * (n + 1), n)
        return cls(features, values, place, there, orders, mask)

    def rows(self, batch: Any, i: int, start: Vector | None) -> Any:
        """The row at every step; features that are not moved stay as they are."""
        here = self.mask[:, self.place]
        if start is None:
            row = batch[[i]]
            values = np.zeros(batch.shape[1])
            values[row.indices] = row.data
            values[self.features] = 0.0
            still = np.flatnonzero(values)
            columns = np.concatenate([self.features, still])
            data = np.hstack([here * self.values, np.tile(values[still], (len(here), 1))])
            small = sp.csr_array(data)
            indices = columns[small.indices]
            found = sp.csr_array((small.data, indices, small.indptr), (len(here), batch.shape[1]))
            found.sort_indices()
            return found
        moved = np.tile(batch[i], (len(here), 1))
        moved[:, self.features] = np.where(here, self.values, start[self.features])
        return moved

    def moved(self, scores: Vector) -> Vector:
        """Mean step of every part over the orders."""
        n = len(self.there)
        steps = np.diff(scores.reshape(len(self.orders), n + 1), axis=1)
        mean = np.zeros(n)
        np.add.at(mean, self.orders, steps)
        return np.asarray(mean / len(self.orders))
