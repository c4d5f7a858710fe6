"""Boosted trees: small ones, each of which corrects the sum of those before it.

Round r fits a tree of depth 3 to what is left of the labels, Y − P with P = softmax(S), and adds
to the scores S of the rows of a leaf a Newton step that is shortened and held back,

    v_c = step · (C − 1)/C · Σ w (Y_c − P_c) / (Σ w P_c (1 − P_c) + 1).

This is done once per fold of the rows, without its rows, which tell how many rounds are best: one
number for all folds. The model is the mean over folds, so every row has been left out of a part of
it, and nothing is fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import log_softmax
from marda.trees.forest import Forest, Limits, grow, joined, single, units_of

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Boosting: rounds at most, step, depth of a tree and rows of a leaf at least.
N_ROUNDS, STEP, DEPTH, MIN_LEAF = 50, 0.2, 3, 5
#: Columns that a node chooses from: half of them, at most so many.
MAX_COLUMNS = 16
#: Rows that a boosted tree is grown on.
MAX_BOOSTED = 2000
#: The least share of a class that scores begin with.
LEAST = 1e-4


@dataclass(frozen=True)
class Boosted:
    """Trees whose values add up.

    Attributes
    ----------
    forest : Forest
        Of all rounds and folds. A constant per leaf, the same for all classes, makes its values at
        least 0.
    """

    forest: Forest

    def scores(self, X: Any) -> Matrix:
        """Sum of the values of the leaves, one column per class."""
        return np.asarray(len(self.forest.roots) * self.forest.probabilities(X))


@dataclass(frozen=True)
class GrownTrees:
    """Boosted trees, and what those that had not seen a row say of it.

    Attributes
    ----------
    model : Boosted
        The mean over folds.
    left_out : array of shape (n_rows, n_classes)
        Scores of the rows of the fit, each by the trees of its fold.
    """

    model: Boosted
    left_out: Matrix


@dataclass(frozen=True)
class _FoldTrees:
    """Trees of one fold: values of their nodes, and where its rows end."""

    held: Index
    start: Vector
    trees: list[Any]
    values: list[Matrix]
    ends: list[Index]
    #: Log-loss of the held rows after each round, summed by weight.
    losses: Vector


def fit_boosted(
    X: Any, codes: Index, n_classes: int, *, weights: Vector, folds: Index, seed: int
) -> GrownTrees:
    """Boost trees, once per fold.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        Rows.
    codes : array of int of shape (n_rows,)
        Their classes.
    n_classes : int
        Columns of the scores.
    weights : array of shape (n_rows,)
        Of rows.
    folds : array of int of shape (n_rows,)
        Fold of every row, two different ones at least.
    seed : int
        Draws rows and columns.

    Returns
    -------
    GrownTrees
    """
    X = X.toarray() if sp.issparse(X) else X
    middle, unit = units_of(X)
    rows = single(X, middle, unit)
    rng = np.random.default_rng(seed)
    parts = []
    for fold in np.unique(folds):
        seen = np.flatnonzero((folds != fold) & (weights > 0))
        if len(seen):
            held = np.flatnonzero(folds == fold)
            parts.append(_boost(rows, codes, n_classes, weights, seen, held, rng))
    rounds = 1 + int(np.argmin(np.sum([part.losses for part in parts], axis=0)))
    left_out = np.zeros((len(codes), n_classes))
    trees, values = [], []
    for part in parts:
        left_out[part.held] = part.start
        for k in range(rounds):
            left_out[part.held] += part.values[k][part.ends[k]]
            V = (part.values[k] + part.start * (k == 0)) / len(parts)
            trees.append(part.trees[k])
            values.append(V - V.min(1, keepdims=True))
    return GrownTrees(Boosted(joined(trees, np.concatenate(values), middle, unit)), left_out)


def _boost(
    rows: NDArray[np.float32],
    codes: Index,
    n_classes: int,
    weights: Vector,
    seen: Index,
    held: Index,
    rng: np.random.Generator,
) -> _FoldTrees:
    """All rounds on the rows that are seen."""
    n = len(seen)
    both = np.concatenate([seen, held])  # what is done to either is done to both at once
    X, Y, w = rows[both], np.eye(n_classes)[codes[seen]], weights[seen]
    start = np.log(np.maximum(w @ Y / w.sum(), LEAST))
    S = np.tile(start, (len(both), 1))
    log_p = log_softmax(S)
    own = np.arange(n, len(both)), codes[held]
    trees, values, ends, losses = [], [], [], []
    bits = np.random.RandomState(0)
    n_some, n_features = min(n, MAX_BOOSTED), min((X.shape[1] + 1) // 2, MAX_COLUMNS)
    limits = Limits(n_features, min(MIN_LEAF, n_some), max_depth=DEPTH)
    first = 1 if n_classes == 2 else 0  # two classes: one is minus the other
    some: Any = slice(n)
    for _ in range(N_ROUNDS):
        P = np.exp(log_p[:n])
        R = Y - P
        if n > MAX_BOOSTED:
            some = np.sort(rng.choice(n, MAX_BOOSTED, replace=False))
        bits.seed(int(rng.integers(2**31)))
        tree = grow(X[some], np.ascontiguousarray(R[some, first:]), w[some], bits, limits)
        end = tree.apply(X)
        V = _steps(end[some], R[some], P[some], w[some], tree.node_count)
        S += V.take(end, axis=0)
        log_p = log_softmax(S)
        trees.append(tree)
        values.append(V)
        ends.append(end[n:])
        losses.append(-weights[held] @ log_p[own])
    return _FoldTrees(held, start, trees, values, ends, np.array(losses))


def _steps(end: Index, R: Matrix, P: Matrix, w: Vector, n_nodes: int) -> Matrix:
    """v, by node."""
    n_classes = P.shape[1]
    up, down = np.empty((n_nodes, n_classes)), np.empty((n_nodes, n_classes))
    for total, M in ((up, R), (down, P * (1 - P))):
        for c, of_class in enumerate((w[:, None] * M).T):
            total[:, c] = np.bincount(end, of_class, n_nodes)
    return np.asarray(STEP * (n_classes - 1) / n_classes * up / (down + 1))
