"""Batches of rows → `Moments`: one pass equals the direct formulas, whatever the rows are."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from marda import Moments
from marda.moments.accumulate import Accumulator, accumulate, batch_rows
from problems import make_case, moments_of, relative


def raw_gram(moments, class_weights=None):
    """The Gram about the origin."""
    return moments.scatter(np.zeros(moments.n_features), class_weights)


def assert_same(a: Moments, b: Moments, tol=1e-11):
    """Equal statistics, at whatever reference point each is held."""
    b = b.shifted(a.shift)
    assert a.classes.tolist() == b.classes.tolist()
    assert a.domains.tolist() == b.domains.tolist()
    assert a.labels.tolist() == b.labels.tolist()
    assert a.counts.tolist() == b.counts.tolist()
    for name in ("sums", "squares", "gram", "gram_labelled", "class_grams"):
        left, right = getattr(a, name), getattr(b, name)
        assert (left is None) == (right is None)
        if left is not None:
            scale = np.abs(left).max(initial=1)
            np.testing.assert_allclose(right, left, rtol=0, atol=tol * scale, err_msg=name)


@pytest.mark.parametrize("setting", ["US", "SUP", "SS"])
def test_one_pass_is_the_direct_formulas(setting):
    case = make_case(setting, sources=2, seed=1)
    X = case.X
    moments = moments_of(case, class_grams=True)
    groups = list(zip(moments.domains, moments.labels, strict=True))
    assert groups == sorted(set(zip(case.domain, case.codes, strict=True)))
    for g, (domain, code) in enumerate(groups):
        rows = X[(case.domain == domain) & (case.codes == code)]
        assert moments.counts[g] == len(rows)
        centred = rows - moments.shift
        np.testing.assert_allclose(moments.sums[g], centred.sum(0), atol=1e-11)
        np.testing.assert_allclose(moments.squares[g], (centred**2).sum(0), rtol=1e-11)
        np.testing.assert_allclose(moments.means()[g], rows.mean(0), rtol=1e-11)
    known = case.labelled
    weights = np.array([1.0, 2.0, 0.5])
    w = weights[case.codes[known]]
    assert relative(raw_gram(moments), X.T @ X) < 1e-12
    assert relative(raw_gram(moments, np.ones(3)), X[known].T @ X[known]) < 1e-12
    assert relative(raw_gram(moments, weights), (X[known].T * w) @ X[known]) < 1e-12
    assert relative(moments.scatter(X.mean(0)), (X - X.mean(0)).T @ (X - X.mean(0))) < 1e-12
    for c in range(3):
        rows = X[case.codes == c] - moments.shift
        assert relative(moments.class_grams[c], rows.T @ rows) < 1e-12
    n, total, squares = moments.select(moments.domains < 0)
    target = X[case.domain < 0]
    assert n == len(target)
    np.testing.assert_allclose(total, target.sum(0), rtol=1e-11)
    np.testing.assert_allclose(squares, (target**2).sum(0), rtol=1e-11)
    assert (moments.n_rows, moments.n_features) == X.shape


@given(
    seed=st.integers(0, 10),
    batch=st.integers(1, 70),
    setting=st.sampled_from(["US", "SUP", "SS"]),
    sparse=st.booleans(),
    class_grams=st.booleans(),
)
def test_batches_row_order_and_storage_do_not_matter(seed, batch, setting, sparse, class_grams):
    case = make_case(setting, sources=2, d=4, seed=seed)
    whole = moments_of(case, class_grams=class_grams)
    order = np.random.default_rng(seed).permutation(len(case.X))
    other = case.take(order)
    if sparse:
        other = other._replace(X=sp.csr_array(other.X))
    assert_same(whole, moments_of(other, class_grams=class_grams, batch_size=batch))


def test_mixed_dense_and_sparse_batches():
    case = make_case("SS", seed=2)
    total = Accumulator(6, 3, class_grams=True)
    for rows in batch_rows(case.X, 10):
        X = case.X[rows]
        total.add(X if rows.start % 20 else sp.csr_array(X), case.codes[rows], case.domain[rows])
    assert_same(moments_of(case, class_grams=True), total.result(np.arange(3)))


def test_an_accumulator_without_rows():
    with pytest.raises(ValueError, match="no rows: at least one batch is needed"):
        Accumulator(3, 2).result(np.arange(2))


def test_batches_cover_all_rows_and_bound_memory(monkeypatch):
    X = np.empty((1000, 64))
    for size in (None, 1, 7, 1000, 2000):
        slices = list(batch_rows(X, size))
        assert [s.start for s in slices[1:]] == [s.stop for s in slices[:-1]]
        assert (slices[0].start, slices[-1].stop) == (0, 1000)
    module = importlib.import_module("marda.moments.accumulate")
    monkeypatch.setattr(module, "BATCH_BYTES", 300 * 64 * 8)
    assert [s.stop - s.start for s in batch_rows(X)] == [300, 300, 300, 100]
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        list(batch_rows(X, 0))


def test_float32_rows_are_summed_in_float64():
    case = make_case("SS", seed=3)
    single = case._replace(X=case.X.astype(np.float32))
    exact = case._replace(X=single.X.astype(np.float64))
    moments = moments_of(single, batch_size=9)
    assert moments.gram.dtype == np.float64
    assert_same(moments_of(exact), moments, tol=1e-6)
    sparse = single._replace(X=sp.csr_array(single.X))
    assert_same(moments_of(exact), moments_of(sparse), tol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool])
def test_integer_rows(dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype is bool else 100, (20, 3)).astype(dtype)
    y = np.arange(20) % 2
    moments = Moments.from_arrays(X, y)
    reference = Moments.from_arrays(X.astype(float), y)
    assert_same(reference, moments)
    assert relative(raw_gram(moments), X.astype(float).T @ X) < 1e-12
    assert_same(reference, Moments.from_arrays(sp.csr_matrix(X), y))


def test_rows_far_from_the_origin_keep_their_covariance():
    """An offset of 10⁶ standard deviations: raw sums of squares would lose twelve digits."""
    rng = np.random.default_rng(4)
    near = rng.standard_normal((300, 4)) @ rng.standard_normal((4, 4))
    offset = 1e6 * near.std(0)
    X = near + offset
    y, domain = np.arange(300) % 2, np.where(np.arange(300) < 200, 0, -1)
    covariance = np.cov((X - offset).T, bias=True) * 300
    for batch in (None, 7):
        moments = Moments.from_arrays(X, y, domain, batch_size=batch)
        _, total, _ = moments.select(np.ones(len(moments.counts), dtype=bool))
        assert relative(moments.scatter(total / 300), covariance) < 1e-6
    parts = [Moments.from_arrays(X[i::3], y[i::3], domain[i::3]) for i in range(3)]
    merged = parts[0] + parts[1] + parts[2]
    _, total, _ = merged.select(np.ones(len(merged.counts), dtype=bool))
    assert relative(merged.scatter(total / 300), covariance) < 1e-6
    # Sparse rows are summed about zero; merged, the larger part keeps its reference point.
    few = Moments.from_arrays(sp.csr_array(X[:9]), y[:9], domain[:9])
    for merged in (few + (many := Moments.from_arrays(X[9:], y[9:], domain[9:])), many + few):
        np.testing.assert_array_equal(merged.shift, many.shift)
    # The test can fail: sums about the origin are that bad.
    about_zero = X.T @ X - 300 * np.outer(X.mean(0), X.mean(0))
    assert relative(about_zero, covariance) > 1e-6


def test_callers_arrays_are_unchanged():
    case = make_case("SS", seed=5)
    y, domain = case.codes.astype(float), case.domain
    for X in (case.X, case.X.astype(np.float32), sp.csr_array(case.X)):
        before = (X.copy(), y.copy(), domain.copy())
        Moments.from_arrays(X, y, domain, class_grams=True, batch_size=11)
        after = X.toarray() if sp.issparse(X) else X
        held = before[0].toarray() if sp.issparse(X) else before[0]
        np.testing.assert_array_equal(after, held)
        np.testing.assert_array_equal(y, before[1])
        np.testing.assert_array_equal(domain, before[2])


def test_from_arrays_reads_labels_marks_and_names():
    import pandas as pd

    table = pd.DataFrame(np.arange(8.0).reshape(4, 2), columns=["a", "b"])
    labels = np.array(["x", "y", None, "x"], dtype=object)
    moments = Moments.from_arrays(table, labels, [0, 0, -1, -1])
    assert moments.classes.tolist() == ["x", "y"]
    assert moments.feature_names.tolist() == ["a", "b"]
    assert list(zip(moments.domains, moments.labels, strict=True)) == [
        (-1, -1),
        (-1, 0),
        (0, 0),
        (0, 1),
    ]
    assert Moments.from_arrays(table.to_numpy(), labels, [0, 0, -1, -1]).feature_names is None
    assert Moments.from_arrays(table).labels.tolist() == [-1]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[1.0, np.nan]]), "NaN"),
        (np.array([[1.0, np.inf]]), "infinity"),
        (np.empty((0, 2)), "0 sample"),
        (np.empty((2, 0)), "0 feature"),
        (np.array([["a", "b"]], dtype=object), "could not convert"),
    ],
)
def test_bad_rows(X, message):
    with pytest.raises(ValueError, match=message):
        Moments.from_arrays(X)


def test_without_grams():
    moments = accumulate(
        np.eye(3), np.arange(2), np.array([0, 1, -1]), np.array([0, 0, -1]), grams=False
    )
    assert moments.gram is None
    assert moments.gram_labelled is None
    with pytest.raises(ValueError, match="built without Grams"):
        moments.scatter(np.zeros(3))
    with pytest.raises(ValueError, match="built without Grams"):
        moments.scatter(np.zeros(3), np.ones(2))
    assert moments.shifted(np.ones(3)).gram is None


@pytest.mark.parametrize("scale", [1e-140, 1e20, 1e39, 1e100, 1e140])
def test_units_of_any_size(scale):
    """A mean above float32's largest number is kept in float64."""
    X = np.random.default_rng(0).normal(3, 1, (20, 4))
    power = round(np.log2(scale))
    plain, scaled = Moments.from_arrays(X), Moments.from_arrays(np.ldexp(X, power))
    np.testing.assert_allclose(np.ldexp(scaled.means(), -power), plain.means(), rtol=1e-12)
    center = plain.means()[0]
    got = np.ldexp(scaled.scatter(np.ldexp(center, power)), -2 * power)
    np.testing.assert_allclose(got, plain.scatter(center), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_large_float32_rows_are_summed_in_float64(make):
    X = (1e20 * np.random.default_rng(0).normal(size=(20, 4))).astype(np.float32)
    got = Moments.from_arrays(make(X))
    wanted = Moments.from_arrays(X.astype(np.float64))
    zero = np.zeros(4)
    np.testing.assert_allclose(got.scatter(zero), wanted.scatter(zero), rtol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rows_too_large_to_square_are_refused(make):
    X = np.diag([1e200, 2e200, 3e200])
    with pytest.raises(ValueError, match=r"squares of X are too large .* divide X"):
        Moments.from_arrays(make(X))
