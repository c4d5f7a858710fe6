"""A forest as arrays: what scikit-learn's says, leaves, and nodes that cannot be walked."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import _splitter

from marda.trees import forest as trees
from marda.trees.boosting import fit_boosted
from marda.trees.forest import Forest, fit_forest, from_trees, single

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(300, 6)), 1)  # many values lie on thresholds
CODES = (X[:, 0] * X[:, 1] > 0.1).astype(np.int64) + (X[:, 2] > 1)
NEW = np.round(RNG.normal(size=(5000, 6)), 1)


def grow(X=X, codes=CODES, n_classes=3, **options):
    return fit_forest(X, codes, n_classes, **{"seed": 3, "n_trees": 20, **options})


@pytest.fixture(scope="module", params=[None, 8])
def peer(request):
    """Trees that are walked, and small ones, which are not."""
    leaves = request.param
    grown = RandomForestClassifier(20, min_samples_leaf=2, max_leaf_nodes=leaves, random_state=3)
    return grown.fit(X, CODES)


def test_probabilities_are_those_of_scikit_learn(peer):
    trees = [tree.tree_ for tree in peer.estimators_]
    forest = from_trees(trees, np.arange(3), 3, np.zeros(6), np.ones(6))
    np.testing.assert_allclose(forest.probabilities(NEW), peer.predict_proba(NEW), atol=1e-12)
    assert forest.depth == max(tree.get_depth() for tree in peer.estimators_)
    # It compares rows in float32 with thresholds in float64.
    rows = np.repeat(NEW[:1], len(forest.threshold), axis=0)
    inner = np.flatnonzero(forest.feature >= 0)
    rows[inner, forest.feature[inner]] = forest.threshold[inner]
    for step in (-1e-7, -1e-9, 0, 1e-9, 1e-7):
        np.testing.assert_allclose(
            forest.probabilities(rows + step), peer.predict_proba(rows + step), atol=1e-12
        )


def test_small_trees_say_what_a_walk_would():
    for leaves in (2, 5, 8):
        small = grow(max_leaves=20 * leaves).forest
        assert small._tables is not None
        nodes = small._nodes
        rows = single(NEW, small.middle, small.unit)[:, nodes.used]
        ends = nodes.walk(np.ascontiguousarray(rows), 0, 20)
        np.testing.assert_array_equal(small.leaves(NEW).indices.reshape(-1, 20).T, ends)


def test_thresholds_beyond_float32_divide_as_they_say():
    """A threshold is rounded down: no float32 lies between it and the next one."""
    big = float(np.finfo(np.float32).max)
    levels = np.array([0.1, -0.1, 1e-50, -1e-50, 2 * big, -2 * big, big, 1.0, 0.0])
    rows = np.array([[-big], [-0.1], [-1e-45], [0.0], [1e-45], [0.1], [1.0], [big]], np.float32)
    for level in levels:
        forest = Forest(
            np.array([0]),
            np.array([0, -1, -1]),
            np.array([level, 0, 0]),
            np.array([[1, 2], [0, 0], [1, 1]]),
            np.eye(2),
            np.zeros(1),
            np.ones(1),
        )
        right = forest.probabilities(rows)[:, 1] == 1
        np.testing.assert_array_equal(right, rows[:, 0].astype(np.float64) > level)


def test_it_is_as_good_as_scikit_learns(peer):
    truth = (NEW[:, 0] * NEW[:, 1] > 0.1).astype(np.int64) + (NEW[:, 2] > 1)
    found = grow(min_leaf=2, n_trees=100).forest.probabilities(NEW).argmax(1)
    assert (found == truth).mean() > (peer.predict(NEW) == truth).mean() - 0.01


def test_out_of_bag_rows_are_as_hard_as_new_ones():
    truth = (NEW[:, 0] * NEW[:, 1] > 0.1).astype(np.int64) + (NEW[:, 2] > 1)
    found = grow(n_trees=100)
    new = (found.forest.probabilities(NEW).argmax(1) == truth).mean()
    left_out = (found.out_of_bag.argmax(1) == CODES).mean()
    seen = (found.forest.probabilities(X).argmax(1) == CODES).mean()
    assert abs(left_out - new) < 0.05
    assert seen > left_out + 0.05


def test_weights_move_the_shares_of_leaves():
    heavy = grow(weights=np.where(CODES == 2, 20.0, 1.0))
    assert heavy.out_of_bag[:, 2].mean() > 2 * grow().out_of_bag[:, 2].mean()
    without = grow(weights=np.where(CODES == 2, 0.0, 1.0))
    np.testing.assert_array_equal(without.out_of_bag[:, 2], 0)


def test_sparse_rows_are_dense_rows():
    counts = np.maximum(np.round(X), 0)
    dense, sparse = grow(counts), grow(sp.csr_array(counts))
    new = np.maximum(np.round(NEW), 0)
    expected = dense.forest.probabilities(new)
    np.testing.assert_array_equal(sparse.forest.probabilities(sp.csr_array(new)), expected)
    np.testing.assert_array_equal(sparse.out_of_bag, dense.out_of_bag)
    a, b = dense.forest.leaves(new), sparse.forest.leaves(sp.csr_array(new))
    assert (a != b).nnz == 0


def test_leaves_hold_one_of_each_tree_and_give_the_probabilities():
    forest = grow().forest
    L = forest.leaves(NEW)
    assert L.format == "csr"
    assert L.shape == (len(NEW), len(forest.values))
    L.check_format(full_check=True)
    assert L.has_sorted_indices
    np.testing.assert_array_equal(L.data, 1.0)
    np.testing.assert_array_equal(np.diff(L.indptr), 20)
    np.testing.assert_allclose(L @ forest.values / 20, forest.probabilities(NEW), atol=1e-12)
    one = forest.leaves(NEW[:1])
    assert (one != L[:1]).nnz == 0
    assert forest.leaves(NEW[:0]).shape == (0, len(forest.values))
    assert forest.probabilities(NEW[:0]).shape == (0, 3)


def test_columns_far_from_zero_keep_their_digits():
    """Seconds since 1970 in float32 are two minutes apart."""
    near, moved = grow(8 * X), grow(8 * X + 1.6e9)
    expected = near.forest.probabilities(8 * X)
    found = moved.forest.probabilities(8 * X + 1.6e9)
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.97
    accuracy = (moved.out_of_bag.argmax(1) == CODES).mean()
    assert accuracy > (near.out_of_bag.argmax(1) == CODES).mean() - 0.02


@pytest.mark.parametrize("sparse", [False, True])
def test_values_beyond_float32_and_constant_columns(sparse):
    odd = np.column_stack([X[:, :3] * 1e300, np.full(len(X), 5.0)])
    given = sp.csr_array(odd) if sparse else odd
    P = grow(given).forest.probabilities(given)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(1), 1)


def test_units_make_no_difference():
    """scikit-learn itself takes values that are closer than 1e-7 for the same."""
    scaled = X * 2.0 ** np.array([-40, -3, 0, 5, 30, 60])
    a, b = grow(), grow(scaled)
    np.testing.assert_array_equal(a.out_of_bag, b.out_of_bag)
    outliers = np.where(np.arange(len(X))[:, None] % 50 == 0, X * 1e6, X)
    c = grow(outliers)
    right = [(one.out_of_bag.argmax(1) == CODES).mean() for one in (a, c)]
    assert right[1] > right[0] - 0.04


def test_one_row_per_class_and_a_class_without_rows():
    found = grow(X[:2], np.array([0, 2]), n_classes=4, min_leaf=1)
    assert found.out_of_bag.shape == (2, 4)
    np.testing.assert_allclose(found.out_of_bag.sum(1), 1)
    P = found.forest.probabilities(X)
    np.testing.assert_array_equal(P[:, [1, 3]], 0)
    np.testing.assert_allclose(P.sum(1), 1)


def test_trees_that_divide_nothing():
    """Of a few rows every tree is one leaf."""
    forest = grow(X[:3], np.array([0, 1, 1]), 2).forest
    assert (forest.feature < 0).all()
    np.testing.assert_allclose(forest.probabilities(NEW[:7]).sum(1), 1)
    np.testing.assert_array_equal(forest.leaves(NEW[:7]).toarray().sum(1), len(forest.roots))


def test_rows_that_every_tree_has_seen_get_the_class_shares():
    found = grow(X[:50], CODES[:50], n_trees=1)
    shares = np.bincount(CODES[:50], minlength=3) / 50
    seen = (found.out_of_bag == shares).all(1)
    assert 15 < seen.sum() < 45
    assert np.isfinite(found.out_of_bag).all()


def test_the_seed_draws():
    again = grow()
    for one in fields(Forest):
        same = getattr(again.forest, one.name), getattr(grow().forest, one.name)
        np.testing.assert_array_equal(*same)
    assert not np.array_equal(grow(seed=4).out_of_bag, again.out_of_bag)


SMALL = Forest(
    np.array([0, 3]),
    np.array([1, -1, -1, -1]),
    np.array([0.5, 0, 0, 0]),
    np.array([[1, 2], [0, 0], [1, 1], [2, 2]]),
    np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]),
    np.zeros(2),
    np.ones(2),
)


def test_a_forest_by_hand():
    np.testing.assert_array_equal(
        SMALL.probabilities(np.array([[9.0, 0.5], [9.0, 0.6]])), [[0.75, 0.25], [0.25, 0.75]]
    )
    assert SMALL.depth == 1


@pytest.mark.parametrize(
    "change",
    [
        {"children": np.array([[0, 2], [0, 0], [1, 1], [2, 2]])},  # to itself: never ends
        {"children": np.array([[1, 3], [0, 0], [1, 1], [2, 2]])},  # into another tree
        {"children": np.array([[1, 9], [0, 0], [1, 1], [2, 2]])},
        {"children": np.array([[1, 2], [0, 0], [1, 1], [3, 3]])},  # a leaf that is not there
        {"children": np.array([[1, 2], [0, 0], [1, 1]])},
        {"feature": np.array([2, -1, -1, -1])},
        {"feature": np.array([1, 0, -1, -1])},
        {"roots": np.array([0, 4])},
        {"roots": np.array([1, 3])},
        {"roots": np.array([], dtype=np.int64)},
        {"roots": np.array([0, 0])},
        {"threshold": np.array([np.nan, 0, 0, 0])},
        {"threshold": np.zeros(3)},
        {"values": np.array([[1.0, 0.0], [0.0, 1.0]])},
        {"values": np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, 1.5]])},
        {"middle": np.zeros(1)},
        {"unit": np.zeros(2)},
        {"middle": np.array([0, np.inf])},
    ],
)
def test_nodes_that_lead_nowhere_are_refused(change):
    with pytest.raises(ValueError, match="forest"):
        replace(SMALL, **change)


@pytest.fixture
def asked_anew():
    trees._parts_are_known.cache_clear()
    yield trees._parts_are_known
    trees._parts_are_known.cache_clear()


@pytest.mark.parametrize("given", [X, sp.csr_array(np.where(X > 0, X, 0))], ids=["dense", "sparse"])
@pytest.mark.parametrize("leaves", [None, 100])
def test_trees_are_those_that_fit_grows(monkeypatch, given, leaves):
    def fitted():
        forest = fit_forest(given, CODES, 3, seed=3, n_trees=20, max_leaves=leaves)
        folds = np.arange(300) % 3
        boosted = fit_boosted(given, CODES, 3, weights=np.ones(300), folds=folds, seed=0)
        return forest.forest, boosted.model.forest

    monkeypatch.setattr(trees, "_parts_are_known", lambda: True)
    ours = fitted()
    monkeypatch.setattr(trees, "_parts_are_known", lambda: False)
    for one, other in zip(ours, fitted(), strict=True):
        for field in fields(Forest):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_this_scikit_learn_has_the_parts(asked_anew):
    assert asked_anew()


def test_parts_that_are_missing_or_do_something_else_are_not_used(monkeypatch, asked_anew):
    with monkeypatch.context() as patched:
        patched.delattr("sklearn.tree._tree.Tree")
        assert not asked_anew()
    asked_anew.cache_clear()
    monkeypatch.setattr(_splitter, "BestSplitter", _splitter.RandomSplitter)
    assert not asked_anew()
