"""A random forest as plain arrays: probabilities, and the leaves that rows fall into.

scikit-learn grows the trees; what is kept of them is nodes that say "column j above t: go right",
and class shares per leaf. Leaves are numbered over all trees, so that a row becomes a sparse row of
as many ones as there are trees, just what marginalised dropout is made for.

Trees compare in float32, and scikit-learn takes values closer than 1e-7 for the same. So columns
are divided by a power of two of the size of their values, and those that lie far from zero for
their spread (seconds since 1970) are centred: units make no difference then.

Every tree leaves some rows out, and draws from all others with replacement, by their weight: trees
that draw rare classes as often as others tell them better than trees that give their rows more
weight. What is left out does not depend on weights, so that every row has trees that judge it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Columns further from zero than this many deviations are centred: float32 has seven digits.
FAR = 1000.0
#: Values have about this size: a power of two, so that their digits stay.
SIZE = 64.0
#: Share of rows that a tree leaves out, and draws of a tree at most.
LEFT_OUT, MAX_DRAWN = 0.25, 4000
#: Pairs of a row and a tree that walk down together: their arrays stay in the cache.
PAIRS = 2**16
#: Rows that are made dense at once.
BLOCK = 4096
#: Steps after which pairs that have come to a leaf are left behind.
STEPS = 4
#: Comparisons of a small tree at most: as many bits fit into a byte.
SMALL = 7


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
        Class shares per leaf; of boosted trees, what it adds to scores.
    middle, unit : arrays of shape (n_features,)
        (X − middle) / unit is what is rounded to float32 and compared.
    """

    roots: Index
    feature: Index
    threshold: Vector
    children: Index
    values: Matrix
    middle: Vector
    unit: Vector

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
            and self.unit.shape == self.middle.shape
            and np.isfinite(self.unit).all()
            and (self.unit > 0).all()
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
        return self.sums(X) / len(self.roots)

    def sums(self, X: Any, kept: NDArray[np.bool_] | None = None) -> Matrix:
        """Class shares of the leaves, summed over trees: of every row, those that are kept for it.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows.
        kept : array of bool of shape (n_trees, n_rows), default=None
            Trees of every row; None: all.

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        out = np.zeros((X.shape[0], self.values.shape[1]))
        for rows, first, leaves in self._walks(X):
            for k, tree in enumerate(leaves, first):
                found = self.values.take(tree, axis=0)
                if kept is not None:
                    found *= kept[k, rows, None]
                out[rows] += found
        return out

    def leaves(self, X: Any) -> sp.csr_array:
        """Rows of zeros with a one per leaf that a row falls into, (n_rows, n_leaves), CSR."""
        n, trees = X.shape[0], len(self.roots)
        found = np.empty((n, trees), dtype=np.int32)
        for rows, first, leaves in self._walks(X):
            found[rows, first : first + len(leaves)] = leaves.T
        starts = np.arange(n + 1, dtype=np.int32) * trees
        return sp.csr_array((np.ones(n * trees), found.ravel(), starts), (n, len(self.values)))

    def _walks(self, X: Any) -> Any:
        """Blocks of rows, the first of some trees, and the leaves of these: (n_trees, n_rows)."""
        nodes, trees = self._nodes if self._tables is None else self._tables, len(self.roots)
        middle, unit = self.middle[nodes.used], self.unit[nodes.used]
        for start in range(0, X.shape[0], BLOCK):
            rows = slice(start, start + BLOCK)
            part = X[rows][:, nodes.used]
            part = single(part.toarray() if sp.issparse(part) else part, middle, unit)
            step = max(1, PAIRS // len(part))
            part = nodes.laid(part)
            for first in range(0, trees, step):
                yield rows, first, nodes.walk(part, first, min(trees, first + step))

    @cached_property
    def _nodes(self) -> _Nodes:
        """The nodes as a walk wants them."""
        leaf = self.feature < 0
        inner, trees = np.flatnonzero(~leaf), len(self.roots)
        number = np.empty(len(leaf), dtype=np.int64)
        number[self.roots] = np.arange(trees)
        left = trees + 2 * np.arange(len(inner))
        number[self.children[inner]] = left[:, None] + [0, 1]
        # Trees that are a leaf each compare no column; a walk looks at one all the same.
        used = np.unique(self.feature[inner]) if len(inner) else np.zeros(1, dtype=np.int64)
        order = np.argsort(number)
        column = np.where(leaf, 0, np.searchsorted(used, self.feature))
        follows = number.copy()
        follows[inner] = left
        threshold = np.where(leaf, np.float32(np.inf), _at_most(self.threshold))
        ends = np.where(leaf, self.children[:, 0], -1)
        return _Nodes(used, column[order], threshold[order], follows[order], ends[order])

    @cached_property
    def _tables(self) -> _Tables | None:
        """The trees as tables, if all of them are small."""
        inner, trees = np.flatnonzero(self.feature >= 0), len(self.roots)
        tree = np.searchsorted(self.roots, inner, side="right") - 1
        counts = np.bincount(tree, minlength=trees)
        if not len(inner) or counts.max() > SMALL:
            return None
        used, column = np.unique(self.feature[inner], return_inverse=True)
        place = np.arange(len(inner)) - (np.cumsum(counts) - counts)[tree]
        columns, thresholds = np.zeros((trees, SMALL), np.int64), np.zeros((trees, SMALL))
        columns[tree, place] = column.ravel()
        thresholds[tree, place] = self.threshold[inner]
        bit = np.zeros(len(self.feature), dtype=np.int64)
        bit[inner] = counts[tree] - 1 - place  # the first comparison is the highest bit
        answers = np.arange(1 << SMALL)
        at = np.repeat(self.roots[:, None], len(answers), axis=1)
        for _ in range(SMALL):
            down = self.children[at, answers >> bit[at] & 1]
            at = np.where(self.feature[at] < 0, at, down)
        return _Tables(used, counts, columns, _at_most(thresholds), self.children[at, 0])


@dataclass(frozen=True)
class _Nodes:
    """Nodes of all trees in another order: the roots first, then each node's two children.

    Attributes
    ----------
    used : array of int
        Columns that any node compares.
    column : array of int of shape (n_nodes,)
        Place among them.
    threshold : array of float32 of shape (n_nodes,)
        Rows above it go right: ∞ in a leaf, which no row is above.
    left : array of int of shape (n_nodes,)
        The left child, and the right one is the next; a leaf leads to itself.
    leaf : array of int of shape (n_nodes,)
        Numbers of leaves, and −1 of other nodes.
    """

    used: Index
    column: Index
    threshold: NDArray[np.float32]
    left: Index
    leaf: Index

    def laid(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rows as `walk` wants them."""
        return X

    def walk(self, X: NDArray[np.float32], first: int, end: int) -> Index:
        """Leaves that rows fall into, of some trees: (n_trees, n_rows)."""
        n, d = X.shape
        flat, found = X.ravel(), np.repeat(np.arange(first, end), n)
        at, start = found.copy(), np.tile(np.arange(n) * d, end - first)
        pairs = np.arange(len(at))
        while len(at):
            place, value, level = np.empty_like(at), np.empty(at.shape, X.dtype), None
            for _ in range(STEPS):  # all indices are right: "clip" spares the check
                np.take(self.column, at, out=place, mode="clip")
                np.add(place, start, out=place)
                np.take(flat, place, out=value, mode="clip")
                level = np.take(self.threshold, at, out=level, mode="clip")
                right = value > level
                np.take(self.left, at, out=place, mode="clip")
                np.add(place, right, out=at)
            found[pairs] = at
            going = np.flatnonzero(self.leaf[at] < 0)
            pairs, at, start = pairs[going], at[going], start[going]
        return self.leaf[found].reshape(end - first, n)


@dataclass(frozen=True)
class _Tables:
    """Small trees, none of which is walked: all their comparisons are made, and are the bits of a
    number, which stands for a leaf.

    Attributes
    ----------
    used : array of int
        Columns that any node compares.
    counts : array of int of shape (n_trees,)
        Comparisons of each tree.
    column, threshold : arrays of shape (n_trees, SMALL)
        Place among the columns, and the float32 above which a bit is 1.
    leaf : array of int of shape (n_trees, 2^SMALL)
        Number of the leaf, by the bits.
    """

    used: Index
    counts: Index
    column: Index
    threshold: NDArray[np.float32]
    leaf: Index

    def laid(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Columns one after the other."""
        return np.ascontiguousarray(X.T)

    def walk(self, columns: NDArray[np.float32], first: int, end: int) -> Index:
        """Leaves that rows fall into, of some trees: (n_trees, n_rows)."""
        n = columns.shape[1]
        found = np.empty((end - first, n), dtype=np.int64)
        above, bits = np.empty(n, dtype=bool), np.empty(n, dtype=np.uint8)
        bit = above.view(np.uint8)
        for k, tree in enumerate(range(first, end)):
            bits[:] = 0
            for j in range(self.counts[tree]):
                np.greater(columns[self.column[tree, j]], self.threshold[tree, j], out=above)
                np.add(bits, bits, out=bits)
                np.bitwise_or(bits, bit, out=bits)
            np.take(self.leaf[tree], bits, out=found[k], mode="clip")
        return found


def _at_most(values: Vector) -> NDArray[np.float32]:
    """The largest float32 that is not above: no float32 lies between the two."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    return np.where(single > values, np.nextafter(single, np.float32(-np.inf)), single)


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
    max_leaves: int | None = None,
) -> GrownForest:
    """Grow a forest, each tree on rows of its own.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        Rows.
    codes : array of int of shape (n_rows,)
        Their classes.
    n_classes : int
        Columns of the probabilities; classes without a row have none.
    weights : array of shape (n_rows,), default=None
        Of rows: how often they are drawn.
    seed : int
        Draws rows and columns.
    n_trees, min_leaf : int
        Trees, and rows that every leaf has at least.
    max_leaves : int, default=None
        Leaves of all trees together; None: as many as there are.

    Returns
    -------
    GrownForest
    """
    middle, unit = units_of(X)
    if sp.issparse(X):
        rows = sp.csc_array(X, dtype=np.float64, copy=True)
        rows.data = single(rows.data, 0.0, np.repeat(unit, np.diff(rows.indptr)))
    else:
        rows = single(X, middle, unit)
    seen, known = np.unique(codes, return_inverse=True)
    known = known.ravel()
    Y = known.astype(np.float64)[:, None]
    rng, bits = np.random.default_rng(seed), np.random.RandomState(0)
    n, weights = len(codes), np.ones(len(codes)) if weights is None else weights
    limits = Limits(
        max(1, int(np.sqrt(rows.shape[1]))),
        min_leaf,
        max_leaves=None if max_leaves is None else max(2, max_leaves // n_trees),
    )
    trees, unseen = [], np.empty((n_trees, n), dtype=bool)
    for k in range(n_trees):
        chance = np.where(rng.random(n) < LEFT_OUT, 0.0, weights)
        chance = chance if chance.any() else weights
        levels = rng.random(min(n, MAX_DRAWN)) * chance.sum()
        places = chance.cumsum().searchsorted(levels, side="right")
        drawn = np.bincount(np.minimum(places, chance.nonzero()[0][-1]), minlength=n)
        np.equal(drawn, 0, out=unseen[k])
        bits.seed(int(rng.integers(2**31)))
        trees.append(grow(rows, Y, drawn.astype(np.float64), bits, limits, n_classes=len(seen)))
    forest = from_trees(trees, seen, n_classes, middle, unit)
    out_of_bag = forest.sums(X, unseen)
    out_of_bag[~unseen.any(0)] = np.bincount(codes, weights, minlength=n_classes)
    out_of_bag /= out_of_bag.sum(1, keepdims=True)
    return GrownForest(forest, out_of_bag)


def units_of(X: Any) -> tuple[Vector, Vector]:
    """Middles and units of columns; middles of sparse ones are 0."""
    if sp.issparse(X):
        size, middle = abs(X).max(axis=0).toarray().ravel().astype(np.float64), np.zeros(X.shape[1])
    else:
        median = np.median(X, axis=0).astype(np.float64)
        with np.errstate(over="ignore"):
            away = np.abs(X - median)
        size = np.median(away, axis=0).astype(np.float64)
        size = np.where(size > 0, size, away.max(0))
        middle = np.where(np.abs(median) > FAR * size, median, 0.0)
        size = np.where(middle == 0, np.maximum(size, np.abs(median)), size)
    size = np.clip(size, np.finfo(np.float64).tiny, np.finfo(np.float64).max)
    exponent = np.clip(np.round(np.log2(size)) - np.log2(SIZE), -1022, 1023)
    return middle, np.where(size > np.finfo(np.float64).tiny, 2.0**exponent, 1.0)


def single(X: Any, middle: Any, unit: Any) -> NDArray[np.float32]:
    """Rows in the precision that trees compare in; what float32 cannot hold is cut."""
    bound = np.finfo(np.float32).max
    with np.errstate(over="ignore"):
        values = np.clip((X - middle) / unit, -bound, bound)
    return np.ascontiguousarray(values, dtype=np.float32)


# One tree ----------------------------------------------------------------------------------------
#
# Of a few hundred rows, checks of parameters and of rows take three times as long as the tree. The
# parts that scikit-learn's `fit` is made of are no public names, so they are used only where they
# grow, on a few rows of every kind, the very trees that `fit` grows; otherwise `fit` is called.


@dataclass(frozen=True)
class Limits:
    """What a tree may be.

    Attributes
    ----------
    max_features, min_leaf : int
        Columns that a node chooses from, and rows that every leaf has at least.
    max_depth, max_leaves : int or None
        At most; None: as there are.
    """

    max_features: int
    min_leaf: int
    max_depth: int | None = None
    max_leaves: int | None = None


def grow(
    X: Any,
    Y: Matrix,
    weights: Vector,
    random_state: RandomState,
    limits: Limits,
    n_classes: int | None = None,
) -> Any:
    """The nodes (`tree_`) of scikit-learn's tree of such rows.

    Parameters
    ----------
    X : float32 array, or float32 CSC matrix, of shape (n_rows, n_features)
        Rows.
    Y : array of shape (n_rows, n_outputs)
        Values; with `n_classes`, codes of classes in one column.
    weights : array of shape (n_rows,)
        Of rows.
    random_state : RandomState
        Draws columns.
    limits : Limits
        What the tree may be.
    n_classes : int, default=None
        Classes; None: a regression.

    Returns
    -------
    Tree
    """
    by = _by_parts if _parts_are_known() else _by_fit
    return by(X, Y, weights, random_state, limits, n_classes)


def _by_fit(
    X: Any,
    Y: Matrix,
    weights: Vector,
    random_state: RandomState,
    limits: Limits,
    n_classes: int | None,
) -> Any:
    kind = DecisionTreeClassifier if n_classes else DecisionTreeRegressor
    tree = kind(
        max_features=limits.max_features,
        min_samples_leaf=limits.min_leaf,
        max_depth=limits.max_depth,
        max_leaf_nodes=limits.max_leaves,
        random_state=random_state,
    )
    return tree.fit(X, Y, sample_weight=weights, check_input=False).tree_


def _by_parts(
    X: Any,
    Y: Matrix,
    weights: Vector,
    random_state: RandomState,
    limits: Limits,
    n_classes: int | None,
) -> Any:
    from sklearn.tree import _criterion, _splitter, _tree

    (n, d), outputs, least = X.shape, Y.shape[1], limits.min_leaf
    classes = np.full(outputs, n_classes or 1, dtype=np.intp)
    criterion = _criterion.Gini(1, classes) if n_classes else _criterion.MSE(outputs, n)
    search = _splitter.BestSparseSplitter if sp.issparse(X) else _splitter.BestSplitter
    splitter = search(criterion, limits.max_features, least, 0.0, random_state, None)
    depth = limits.max_depth or np.iinfo(np.int32).max
    sizes = splitter, max(2, 2 * least), least, 0.0, depth
    nodes = _tree.Tree(d, classes, outputs)
    if limits.max_leaves is None:
        builder = _tree.DepthFirstTreeBuilder(*sizes, 0.0)
    else:
        builder = _tree.BestFirstTreeBuilder(*sizes, limits.max_leaves, 0.0)
    builder.build(nodes, X, Y, weights)
    return nodes


@cache
def _parts_are_known() -> bool:
    """Whether the parts of this scikit-learn grow what its `fit` grows."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(24, 3)).astype(np.float32)
    codes = (X.sum(1, keepdims=True) % 3).astype(np.float64)
    weights = rng.integers(0, 3, size=24).astype(np.float64)
    limits = Limits(2, 3), Limits(3, 2, max_depth=2), Limits(2, 1, max_leaves=4)
    for rows, n_classes, limit in product((X, sp.csc_array(X)), (3, None), limits):
        try:
            ours = _by_parts(rows, codes, weights, RandomState(7), limit, n_classes)
        except Exception:  # they are not public: any error only says that they are others
            return False
        theirs = _by_fit(rows, codes, weights, RandomState(7), limit, n_classes)
        if not all(
            np.array_equal(getattr(ours, name), getattr(theirs, name))
            for name in ("children_left", "children_right", "feature", "threshold", "value")
        ):
            return False
    return True


# Trees as arrays ---------------------------------------------------------------------------------


def from_trees(
    trees: Sequence[Any],
    seen: Index,
    n_classes: int,
    middle: Vector,
    unit: Vector,
) -> Forest:
    """The arrays of scikit-learn's trees, one after the other.

    Parameters
    ----------
    trees : sequence of Tree
        Nodes of classifiers, grown on rows (X − middle) / unit.
    seen : array of int
        Classes of their columns of probabilities.
    n_classes : int
        Columns that `values` shall have.
    middle, unit : arrays of shape (n_features,)
        See `Forest`.

    Returns
    -------
    Forest
    """
    shares = np.concatenate([tree.value[:, 0] for tree in trees])
    values = np.zeros((len(shares), n_classes))
    values[:, seen] = shares
    values /= values.sum(1, keepdims=True)
    return joined(trees, values, middle, unit)


def joined(
    trees: Sequence[Any],
    values: Matrix,
    middle: Vector,
    unit: Vector,
) -> Forest:
    """Trees, one after the other, with these values.

    Parameters
    ----------
    trees : sequence of Tree
        Nodes, grown on rows (X − middle) / unit.
    values : array of shape (n_nodes, n_classes)
        Of every node, tree by tree; those of leaves are used.
    middle, unit : arrays of shape (n_features,)
        See `Forest`.

    Returns
    -------
    Forest
    """
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
    threshold = np.concatenate([tree.threshold for tree in trees])
    return Forest(
        roots,
        np.where(leaf, -1, feature),
        np.where(leaf, 0.0, threshold),
        children,
        values[leaf],
        middle,
        unit,
    )
