"""Trees made of the parts of scikit-learn's `fit` are those that it grows, or it is called."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.tree import _splitter

from marda.trees import growth
from marda.trees.boosting import fit_boosted
from marda.trees.forest import Forest, fit_forest

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(300, 6)), 1)  # many values lie on thresholds
CODES = (X[:, 0] * X[:, 1] > 0.1).astype(np.int64) + (X[:, 2] > 1)


@pytest.fixture
def asked_anew():
    growth._parts_are_known.cache_clear()
    yield growth._parts_are_known
    growth._parts_are_known.cache_clear()


@pytest.mark.parametrize("given", [X, sp.csr_array(np.where(X > 0, X, 0))], ids=["dense", "sparse"])
@pytest.mark.parametrize("leaves", [None, 100])
def test_trees_are_those_that_fit_grows(monkeypatch, given, leaves):
    def fitted():
        forest = fit_forest(given, CODES, 3, seed=3, n_trees=20, max_leaves=leaves)
        folds = np.arange(300) % 3
        boosted = fit_boosted(given, CODES, 3, weights=np.ones(300), folds=folds, seed=0)
        return forest.forest, boosted.model.forest

    monkeypatch.setattr(growth, "_parts_are_known", lambda: True)
    ours = fitted()
    monkeypatch.setattr(growth, "_parts_are_known", lambda: False)
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
