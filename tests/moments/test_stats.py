"""`Moments`: merge, change of reference point, class weights, refusals."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marda import Moments
from marda.moments import accumulate
from moments.test_accumulate import assert_same, raw_gram
from problems import make_case, moments_of, relative


def parts_of(seed, cuts, class_grams=True):
    """Moments of consecutive pieces of shuffled rows, with labels as the user has them."""
    case = make_case("SS", sources=2, d=3, seed=seed)
    case = case.take(np.random.default_rng(seed).permutation(len(case.X)))
    edges = [0, *sorted(cuts), len(case.X)]
    pieces = [
        # Codes 3, 1, 7 so that pieces that lack a class must be recoded.
        _of(case.take(slice(a, b)), class_grams)
        for a, b in itertools.pairwise(edges)
    ]
    return pieces, _of(case, class_grams)


def _of(case, class_grams):
    values = np.array([3, 1, 7])
    present = np.unique(case.codes[case.codes >= 0])
    classes = np.unique(values[present])
    codes = np.where(case.codes >= 0, np.searchsorted(classes, values[case.codes]), -1)
    return accumulate(case.X, classes, codes, case.domain, class_grams=class_grams)


@given(
    seed=st.integers(0, 20),
    cuts=st.lists(st.integers(1, 63), min_size=2, max_size=2, unique=True),
    class_grams=st.booleans(),
)
def test_merge_is_associative_commutative_and_exact(seed, cuts, class_grams):
    (a, b, c), whole = parts_of(seed, cuts, class_grams)
    assert_same(whole, a + b + c)
    assert_same(a + b + c, a + (b + c))
    assert_same(a + b, b + a)
    assert_same(whole, c + a + b)


@given(seed=st.integers(0, 20), scale=st.floats(0, 100))
def test_the_reference_point_does_not_matter(seed, scale):
    case = make_case("SS", d=3, seed=seed)
    moments = moments_of(case, class_grams=True)
    point = scale * np.random.default_rng(seed).standard_normal(3)
    moved = moments.shifted(point)
    np.testing.assert_array_equal(moved.shift, point)
    assert_same(moments, moved, tol=1e-9)
    weights = np.array([1.0, 3.0, 0.0])
    ones = np.ones(len(moments.counts))
    for left, right in zip(moments.weighted(ones), moved.weighted(ones), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
    assert relative(raw_gram(moved, weights), raw_gram(moments, weights)) < 1e-8


def test_owners_of_one_domain_each_can_merge():
    """Source rows here, target rows there: each owner has one kind, and no class is known there."""
    case = make_case("US", seed=1)
    parts = [
        Moments.from_arrays(case.X[rows], y, case.domain[rows])
        for rows, y in ((case.domain >= 0, case.codes[:36]), (case.domain < 0, None))
    ]
    assert len(parts[1].classes) == 0
    assert_same(moments_of(case), parts[0] + parts[1])
    assert_same(moments_of(case), parts[1] + parts[0])


def with_names(*names):
    """Moments of rows whose columns have names (test_accumulate.py reads them from a table)."""
    moments = Moments.from_arrays(np.eye(len(names)), np.arange(len(names)))
    return dataclasses.replace(moments, feature_names=np.array(names, dtype=object))


def test_merge_refuses_what_does_not_belong_together():
    a = with_names("a", "b")
    with pytest.raises(ValueError, match="column 1 is 'b' and 'c'"):
        a + with_names("a", "c")
    with pytest.raises(ValueError, match="moments of 2 and of 3 features do not merge"):
        a + Moments.from_arrays(np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match="labels differ in kind"):
        a + Moments.from_arrays(np.eye(2), ["x", "y"])
    with pytest.raises(
        ValueError, match="only one of the moments has class_grams: build both alike"
    ):
        a + Moments.from_arrays(np.eye(2), [0, 1], class_grams=True)
    with pytest.raises(TypeError):
        a + 1


def test_names_survive_a_merge():
    named = with_names("a", "b")
    plain = Moments.from_arrays(np.vstack([np.eye(2)] * 3), [0, 1] * 3)
    assert (named + named).feature_names.tolist() == ["a", "b"]
    assert (named + plain).feature_names.tolist() == ["a", "b"]
    assert (plain + named).feature_names.tolist() == ["a", "b"]


def test_frozen():
    moments = moments_of(make_case())
    with pytest.raises(dataclasses.FrozenInstanceError):
        moments.counts = None


def test_class_weights():
    moments = Moments.from_arrays(np.eye(4), [5, 5, 5, 9])
    assert moments.class_weights(None).tolist() == [1, 1]
    assert moments.class_weights("balanced").tolist() == [4 / 6, 4 / 2]
    assert moments.class_weights({9: 3}).tolist() == [1, 3]
    with pytest.raises(ValueError, match="class_weight names 7, which is not a class"):
        moments.class_weights({7: 1.0})
    with pytest.raises(ValueError, match="finite, at least 0 and not all 0"):
        moments.class_weights({9: -1.0})
    with pytest.raises(ValueError, match="not all 0"):
        moments.class_weights({5: 0.0, 9: 0.0})
    with pytest.raises(ValueError, match="None, 'balanced' or a dict, got 'fair'"):
        moments.class_weights("fair")


def test_class_weights_need_class_grams():
    moments = moments_of(make_case())
    with pytest.raises(ValueError, match=r"one Gram a class.*class_grams=True"):
        moments.scatter(np.zeros(6), np.array([1.0, 2.0, 1.0]))
