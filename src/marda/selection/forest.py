"""A random forest as plain arrays: probabilities, and the leaves that rows fall into.

scikit-learn grows the trees; what is kept of them is nodes that say "column j above t: go right",
and class shares per leaf. Leaves are numbered over all trees, so that a row becomes a sparse row of
as many ones as there are trees, just what marginalised dropout is made for.

Trees compare in float32. Columns whose values lie far from zero for their spread (years, numbers of
customers) would lose digits, and are centred first; no other change of units makes a difference.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

__all__ = ["Forest", "GrownForest", "fit_forest"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Columns further from zero than this many ranges are centred: float32 has seven digits.
FAR = 100.0
#: Pairs of a row and a tree that walk down together: their arrays stay in the cache.
PAIRS = 2**16
#: Rows that are made dense at once.
BLOCK = 4096


@dataclass(frozen=True)
class Forest:
    """Trees, their nodes one after the other.

    Attributes
    ----------
    roots : array of int of shape (n_trees,)
        First node of each tree; a tree ends where the next one begins.
    feature : array of int of shape (n_nodes,)
        Column that a node compares; −1 in a leaf.
    threshold : array of shape (n_nodes,)
        Rows above it go right.
    children : array of int of shape (n_nodes, 2)
        Nodes to the left and to the right, which come after their parent; of a leaf, its number
        twice.
    values : array of shape (n_leaves, n_classes)
        Class shares per leaf.
    middle : array of shape (n_features,)
        Subtracted from rows before they are rounded to float32.
    """

    roots: Index
    feature: Index
    threshold: Vector
    children: Index
    values: Matrix
    middle: Vector

    def __post_init__(self) -> None:
        """Refuse nodes that a walk could not end at, or that lead out of the arrays."""
        nodes = np.arange(len(self.feature))
        leaf = self.feature < 0
        starts = np.append(self.roots, len(nodes))
        fits = (
            self.roots.ndim == self.feature.ndim == self.middle.ndim == 1
            and self.threshold.shape == nodes.shape
            and self.children.shape == (len(nodes), 2)
            and self.values.ndim == 2
            and len(self.values) == leaf.sum()
            and len(self.roots) > 0
            and self.roots[0] == 0
            and (np.diff(starts) > 0).all()
            and (self.feature < len(self.middle)).all()
            and np.isfinite(self.threshold).all()
            and np.isfinite(self.middle).all()
            and np.isfinite(self.values).all()
            and (self.values >= 0).all()
        )
        if not fits:
            raise ValueError("the arrays of a forest do not fit each other")
        ends = np.repeat(starts[1:], np.diff(starts))
        inner = self.children[~leaf]
        down = (inner > nodes[~leaf, None]).all() and (inner < ends[~leaf, None]).all()
        numbered = (self.children[leaf] == np.arange(len(self.values))[:, None]).all()
        if not (down and numbered):
            raise ValueError("a node of a forest leads nowhere")

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return len(self.middle)

    @property
    def depth(self) -> int:
        """Most steps from a root to a leaf."""
        steps, at = 0, self.roots
        while len(at := at[self.feature[at] >= 0]):
            steps, at = steps + 1, np.unique(self.children[at])
        return steps

    def probabilities(self, X: Any) -> Matrix:
        """Class shares of the leaves, mean over trees, of shape (n_rows, n_classes)."""
        out = np.zeros((X.shape[0], self.values.shape[1]))
        for rows, leaves in self._walks(X):
            for tree in leaves:
                out[rows] += self.values[tree]
        return out / len(self.roots)

    def leaves(self, X: Any) -> sp.csr_array:
        """Rows of zeros with a one per leaf that a row falls into, (n_rows, n_leaves), CSR."""
        n, trees = X.shape[0], len(self.roots)
        found = np.empty((n, trees), dtype=np.int32)
        done = 0
        last = None
        for rows, leaves in self._walks(X):
            done = 0 if rows != last else done
            last = rows
            found[rows, done : done + len(leaves)] = leaves.T
            done += len(leaves)
        starts = np.arange(n + 1, dtype=np.int32) * trees
        return sp.csr_array((np.ones(n * trees), found.ravel(), starts), (n, len(self.values)))

    def _walks(self, X: Any) -> Any:
        """Blocks of rows, and the leaves of some trees that they fall into: (n_trees, n_rows)."""
        used = np.flatnonzero(np.bincount(self.feature[self.feature >= 0], minlength=1))
        place = np.where(self.feature < 0, -1, np.searchsorted(used, self.feature))
        for start in range(0, X.shape[0], BLOCK):
            rows = slice(start, start + BLOCK)
            part = X[rows][:, used]
            part = _single(part.toarray() if sp.issparse(part) else part, self.middle[used])
            step = max(1, PAIRS // len(part))
            for first in range(0, len(self.roots), step):
                yield rows, self._walk(part, place, self.roots[first : first + step])

    def _walk(self, X: NDArray[np.float32], place: Index, roots: Index) -> Index:
        n, d = X.shape
        flat, children = X.ravel(), self.children.ravel()
        at = np.repeat(roots, n)
        start = np.tile(np.arange(n) * d, len(roots))
        found = np.empty(len(at), dtype=np.int64)
        pairs = np.arange(len(at))
        column = place[at]
        while True:
            ended = column < 0
            if ended.any():
                found[pairs[ended]] = children[2 * at[ended]]
                going = ~ended
                pairs, at, start, column = pairs[going], at[going], start[going], column[going]
            if not len(pairs):
                return found.reshape(len(roots), n)
            right = flat[start + column] > self.threshold[at]
            at = children[2 * at + right]
            column = place[at]


@dataclass(frozen=True)
class GrownForest:
    """A forest, and what trees that had not seen a row say of it.

    Attributes
    ----------
    forest : Forest
        All trees.
    out_of_bag : array of shape (n_rows, n_classes)
        Probabilities of the rows of the fit, by the trees grown without them; the class shares of
        the fit for a row that every tree has seen.
    """

    forest: Forest
    out_of_bag: Matrix


def fit_forest(
    X: Any,
    codes: Index,
    n_classes: int,
    *,
    weights: Vector | None = None,
    seed: int,
    n_trees: int = 200,
    min_leaf: int = 5,
) -> GrownForest:
    """Grow a forest on rows that are drawn with replacement.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        Rows.
    codes : array of int of shape (n_rows,)
        Their classes.
    n_classes : int
        Columns of the probabilities; classes without a row have none.
    weights : array of shape (n_rows,), default=None
        Of rows, in the class shares of leaves and in the choice of splits.
    seed : int
        Draws rows and columns.
    n_trees, min_leaf : int
        Trees, and rows that every leaf has at least.

    Returns
    -------
    GrownForest
    """
    middle = np.zeros(X.shape[1])
    if sp.issparse(X):
        rows = sp.csc_array(X).astype(np.float32)
        bound = np.finfo(np.float32).max
        np.clip(rows.data, -bound, bound, out=rows.data)
    else:
        low, high = X.min(0).astype(np.float64), X.max(0).astype(np.float64)
        centre = low / 2 + high / 2
        middle = np.where(np.abs(centre) > FAR * (high - low), centre, 0.0)
        rows = _single(X, middle)
    seen, known = np.unique(codes, return_inverse=True)
    grown = RandomForestClassifier(
        n_trees, min_samples_leaf=min_leaf, oob_score=True, random_state=seed, n_jobs=1
    )
    with warnings.catch_warnings():  # rows that every tree has seen
        warnings.filterwarnings("ignore", "Some inputs do not have OOB scores", UserWarning)
        warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)
        grown.fit(rows, known.ravel(), sample_weight=weights)
    out_of_bag = np.zeros((len(codes), n_classes))
    out_of_bag[:, seen] = grown.oob_decision_function_
    unseen = ~(out_of_bag.sum(1) > 0)
    out_of_bag[unseen] = np.bincount(codes, weights, minlength=n_classes)
    out_of_bag /= out_of_bag.sum(1, keepdims=True)
    return GrownForest(_frozen(grown, seen, n_classes, middle), out_of_bag)


def _single(X: Any, middle: Vector) -> NDArray[np.float32]:
    """Rows in the precision that trees compare in; what float32 cannot hold is cut."""
    bound = np.finfo(np.float32).max
    centred = X - middle if middle.any() else X
    return np.ascontiguousarray(np.clip(centred, -bound, bound), dtype=np.float32)


def _frozen(grown: RandomForestClassifier, seen: Index, n_classes: int, middle: Vector) -> Forest:
    """The arrays of scikit-learn's trees, one after the other."""
    trees = [one.tree_ for one in grown.estimators_]
    sizes = np.array([tree.node_count for tree in trees], dtype=np.int64)
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    offset = np.repeat(roots, sizes)
    left, right, feature = (
        np.concatenate([getattr(tree, name) for tree in trees]).astype(np.int64)
        for name in ("children_left", "children_right", "feature")
    )
    leaf = left < 0
    children = np.column_stack([left + offset, right + offset])
    children[leaf] = np.arange(leaf.sum())[:, None]
    shares = np.concatenate([tree.value[:, 0] for tree in trees])[leaf]
    values = np.zeros((len(shares), n_classes))
    values[:, seen] = shares / shares.sum(1, keepdims=True)
    threshold = np.concatenate([tree.threshold for tree in trees])
    return Forest(
        roots,
        np.where(leaf, -1, feature),
        np.where(leaf, 0.0, threshold),
        children,
        values,
        middle,
    )
