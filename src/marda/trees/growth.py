"""One decision tree of scikit-learn's, without what its `fit` does beside.

Of a few hundred rows, checks of parameters and of rows take three times as long as the tree. The
parts that `fit` is made of are no public names, so they are used only where they grow, on a few
rows of every kind, the very trees that `fit` grows; otherwise `fit` is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

__all__ = ["Limits", "grow"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


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
