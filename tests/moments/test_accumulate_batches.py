"""`Moments.from_batches`: any split of the rows gives the statistics of all of them."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from marda import Moments
from marda.moments.accumulate import Collector
from moments.test_accumulate import assert_same
from problems import make_case

NAMES = np.array(["cat", "ant", "bee"], dtype=object)


def batches_of(case, cuts, sparse=False, names=False):
    """Pieces of shuffled rows, with every second one sparse."""
    edges = [0, *sorted(cuts), len(case.X)]
    y = np.where(case.codes >= 0, NAMES[case.codes], None) if names else case.codes
    for i, (a, b) in enumerate(itertools.pairwise(edges)):
        X = case.X[a:b]
        yield sp.csr_array(X) if sparse and i % 2 else X, y[a:b], case.domain[a:b]


@given(
    seed=st.integers(0, 20),
    cuts=st.sets(st.integers(1, 63), max_size=12),
    setting=st.sampled_from(["US", "SUP", "SS"]),
    sparse=st.booleans(),
    class_grams=st.booleans(),
    names=st.booleans(),
)
def test_batches_are_all_rows(seed, cuts, setting, sparse, class_grams, names):
    case = make_case(setting, sources=2, d=4, seed=seed)
    case = case.take(np.random.default_rng(seed).permutation(len(case.X)))
    ((X, y, domain),) = batches_of(case, [], names=names)
    whole = Moments.from_arrays(X, y, domain, class_grams=class_grams)
    parts = Moments.from_batches(batches_of(case, cuts, sparse, names), class_grams=class_grams)
    assert_same(whole, parts)
    # ... and a start from statistics of the first half is the same again
    first, second = case.take(slice(0, 30)), case.take(slice(30, None))
    start = Moments.from_batches(batches_of(first, [], sparse, names), class_grams=class_grams)
    total = Collector(class_grams=class_grams, start=start)
    for batch in batches_of(second, [11], sparse, names):
        total.add(*batch)
    assert_same(whole, total.result())


def test_shapes_of_batches():
    X = np.arange(12.0).reshape(6, 2)
    assert Moments.from_batches([X[:2], X[2:]]).n_rows == 6
    labelled = Moments.from_batches([(X[:3], [1, 2, 1]), (X[3:], [2, 2, 3])])
    assert labelled.classes.tolist() == [1, 2, 3]
    assert Moments.from_batches(iter([(X, None, [-1] * 6)])).domains.tolist() == [-1]
    with pytest.raises(ValueError, match="no rows: at least one batch"):
        Moments.from_batches([])


def test_batches_must_have_the_same_columns():
    a = pd.DataFrame(np.eye(2), columns=["u", "v"])
    b = a.rename(columns={"v": "w"})
    with pytest.raises(ValueError, match="column 1 of a batch is 'w', and 'v' in the ones before"):
        Moments.from_batches([a, b])
    with pytest.raises(ValueError, match="a batch has 3 columns, and the ones before have 2"):
        Moments.from_batches([a, np.eye(3)])
    assert Moments.from_batches([a, np.eye(2)]).feature_names.tolist() == ["u", "v"]


def test_labels_must_be_of_one_kind():
    with pytest.raises(ValueError, match="labels differ in kind"):
        Moments.from_batches([(np.eye(2), [0, 1]), (np.eye(2), ["a", "b"])])


@pytest.mark.parametrize("order", [1, -1])
def test_a_mark_that_is_a_class_in_another_batch(order):
    """One fit refuses it; two batches must as well, whichever comes first."""
    source = (np.eye(2), [-1, 1], [0, 0])
    target = (np.eye(2), [-1, -1], [-1, -1])
    with pytest.raises(ValueError, match=r"the mark .*, -1, is also a class"):
        Moments.from_batches([source, target][::order])
    fine = (np.eye(2), [np.nan, np.nan], [-1, -1])
    assert Moments.from_batches([source, fine][::order]).labels.tolist() == [-1, 0, 1]
    started = Collector(start=Moments.from_batches([source]))
    with pytest.raises(ValueError, match="is also a class"):
        started.add(*target)


def test_many_classes_in_a_small_batch_are_no_warning():
    X, y = np.random.default_rng(0).standard_normal((60, 2)), np.arange(60) % 30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moments = Moments.from_batches([(X[:30], y[:30]), (X[30:], y[30:])])
    assert len(moments.classes) == 30


def test_declared_classes():
    total = Collector(classes=["a", "b", "c"])
    total.add(np.eye(2), ["c", "a"])
    with pytest.raises(ValueError, match="label 'd', which is not in classes"):
        total.add(np.eye(2), ["a", "d"])
    assert total.result().classes.tolist() == ["a", "c"]
    declared = total.result(declared=True)
    assert declared.classes.tolist() == ["a", "b", "c"]
    assert declared.labels.tolist() == [0, 2]
