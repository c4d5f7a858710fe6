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


def test_an_owner_without_labels_merges_with_one_whose_labels_are_text():
    rows = np.random.default_rng(0).standard_normal((5, 2))
    labelled = Moments.from_arrays(rows[:3], ["a", "b", "b"], [0, 0, 0])
    plain = Moments.from_arrays(rows[3:], None, [-1, -1])
    for merged in (labelled + plain, plain + labelled):
        assert merged.classes.tolist() == ["a", "b"]
        assert merged.labels.tolist() == [-1, 0, 1]
        assert merged.counts.tolist() == [2, 1, 2]


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
    with pytest.raises(ValueError, match=r"one Gram per class.*class_grams=True"):
        moments.scatter(np.zeros(6), np.array([1.0, 2.0, 1.0]))


def test_a_step_along_one_axis_moves_everything():
    case = make_case("SS", d=3, seed=2)
    moments = moments_of(case, class_grams=True)
    moved = moments.shifted(moments.shift + np.array([0.0, 5.0, 0.0]))
    np.testing.assert_array_equal(moved.shift - moments.shift != 0, [False, True, False])
    assert_same(moments, moved)
    assert relative(moved.gram, (case.X - moved.shift).T @ (case.X - moved.shift)) < 1e-12
    center = moments.shift + np.array([0.0, 0.0, 7.0])
    assert relative(moments.scatter(center), (case.X - center).T @ (case.X - center)) < 1e-12


def test_what_stays_where_it_is_is_not_copied_but_a_scatter_is_the_callers():
    moments = moments_of(make_case("SS", d=3, seed=3), class_grams=True)
    assert moments.shifted(moments.shift) is moments
    held = moments.gram.copy(), moments.gram_labelled.copy()
    for weights in (None, np.ones(3)):
        scatter = moments.scatter(moments.shift, weights)
        np.testing.assert_array_equal(scatter, held[weights is not None])
        scatter += 1
    np.testing.assert_array_equal(moments.gram, held[0])
    np.testing.assert_array_equal(moments.gram_labelled, held[1])


def test_names_of_either_part_are_kept_by_a_merge():
    """Whichever is larger, and so keeps its reference point."""
    named, one = with_names("a", "b"), Moments.from_arrays(np.ones((1, 2)), [0])
    assert (named + one).feature_names.tolist() == ["a", "b"]
    assert (one + named).feature_names.tolist() == ["a", "b"]
    assert (one + one).feature_names is None
    with pytest.raises(ValueError, match="column 0 is 'a' and 'c'"):
        named + with_names("c", "b")


def test_the_larger_part_keeps_its_reference_point():
    few, many = (Moments.from_arrays(np.full((n, 2), float(n)), [0] * n) for n in (2, 5))
    for merged in (few + many, many + few):
        np.testing.assert_array_equal(merged.shift, many.shift)
        assert merged.n_rows == 7


def test_domains_of_the_same_number_and_other_names_stay_apart():
    rows = np.random.default_rng(0).standard_normal((6, 2))
    amazon, dslr = (
        dataclasses.replace(Moments.from_arrays(X, [0, 1, 1], [0, 0, 0]), domain_names={0: name})
        for X, name in ((rows[:3], "amazon"), (rows[3:], "dslr"))
    )
    merged = amazon + dslr
    assert sorted(merged.domain_names.values()) == ["amazon", "dslr"]
    numbers = {name: number for number, name in merged.domain_names.items()}
    for name, X in (("amazon", rows[:3]), ("dslr", rows[3:])):
        n, total, squares = merged.select(merged.domains == numbers[name])
        assert n == 3
        np.testing.assert_allclose(total, X.sum(0), atol=1e-13)
        np.testing.assert_allclose(squares, (X**2).sum(0), atol=1e-13)


def test_classes_of_one_part_only_keep_their_grams():
    """A merge recodes labels and Grams per class, also where the new class sorts first."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((8, 3))
    y = np.array(["b", "c", "c", "b", "a", "b", "a", "a"])
    parts = [
        Moments.from_arrays(X[rows], y[rows], class_grams=True) for rows in np.split(np.r_[:8], 2)
    ]
    merged = parts[0] + parts[1]
    assert merged.classes.tolist() == ["a", "b", "c"]
    for weights in np.eye(3):
        of_class = X[y == merged.classes[weights == 1][0]]
        assert relative(raw_gram(merged, weights), of_class.T @ of_class) < 1e-12


def test_a_moments_file_has_it_all(tmp_path):
    moments = moments_of(make_case("SS", d=3, seed=4), class_grams=True)
    moments.save(tmp_path / "some.moments")
    assert_same(moments, Moments.load(tmp_path / "some.moments"), tol=0)
    single = Moments.from_arrays(np.eye(3), [0, 1, 1])  # a group of one row is written unless
    single.save(tmp_path / "one.moments")
    with pytest.raises(ValueError, match="1 row"):
        single.save(tmp_path / "two.moments", min_group=2)
    assert not (tmp_path / "two.moments").exists()


def test_grams_per_class_come_on_demand():
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    for build in (
        lambda **options: Moments.from_arrays(X, y, **options),
        lambda **options: Moments.from_batches([(X[:2], y[:2]), (X[2:], y[2:])], **options),
    ):
        assert build().class_grams is None
        assert build(class_grams=True).class_grams.shape == (2, 4, 4)


def test_unlabelled_rows_have_no_class_weight():
    moments = moments_of(make_case("SS", d=3, seed=5))
    weights = moments.group_weights(np.array([2.0, 3.0, 5.0]))
    expected = [0.0 if label < 0 else [2.0, 3.0, 5.0][label] for label in moments.labels]
    assert weights.tolist() == expected
    # "balanced" counts labelled rows alone: 36 of the source, 9 of the target, 15 per class.
    np.testing.assert_allclose(moments.class_weights("balanced"), 1.0)
    assert moments.class_weights({0: 0.0, 1: 2}).tolist() == [0.0, 2.0, 1.0]
    with pytest.raises(ValueError, match="finite, at least 0"):
        moments.class_weights({0: np.inf})


def test_without_grams_there_is_no_scatter():
    moments = moments_of(make_case("SS", d=3, seed=6))
    bare = dataclasses.replace(moments, gram=None, gram_labelled=None)
    for weights in (None, np.ones(3)):
        with pytest.raises(ValueError, match="built without Grams"):
            bare.scatter(np.zeros(3), weights)
    assert bare.shifted(np.zeros(3)).gram is None
    with pytest.raises(ValueError, match="only one of the moments has gram:"):
        moments + bare
    assert (bare + bare).gram is None


def test_a_constant_column_has_no_negative_scatter():
    """Sums of squares about another point are differences: rounding must not leave −1e-17."""
    rng = np.random.default_rng(2)
    for seed in range(20):
        value = np.random.default_rng(seed).standard_normal(3) * 1e3
        moments = Moments.from_arrays(np.tile(value, (7, 1)) + 0 * rng.random((7, 3)), [0] * 7)
        elsewhere = moments.shifted(np.zeros(3))
        n, total, squares = elsewhere.about(value)
        assert n == 7
        assert (squares >= 0).all()
        assert np.abs(total).max() < 1e-9
        assert (elsewhere.shifted(value).squares >= 0).all()
