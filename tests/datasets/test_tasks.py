import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from marda.datasets import (
    DataError,
    Dataset,
    Domain,
    draw_per_class,
    l2_rows,
    make_task,
    most_frequent,
    sampled_task,
    surf_rows,
    tfidf,
)

RNG = np.random.default_rng(0)


def toy(kind, *, split=False, sizes=None, d=30):
    domains = {}
    for name, n in (sizes or {"a": 25, "b": 22}).items():
        X = RNG.poisson(1.0, (4 * n, d)).astype(float)
        y = np.tile(np.arange(4), n)
        train = np.arange(4 * n) < 3 * n if split else None
        X = sparse.csr_matrix(X) if kind == "text" else X
        domains[name] = Domain(X, y, train=train)
    return Dataset("toy", domains, ("p", "q", "r", "s"), "", "", kind=kind, identity=kind)


def test_l2_rows():
    X = np.array([[3.0, 4.0], [0.0, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(l2_rows(X), [[0.6, 0.8], [0, 0]])
    assert X[0, 0] == 3
    np.testing.assert_array_equal(l2_rows(sparse.csr_matrix(X)).toarray(), [[0.6, 0.8], [0, 0]])


def test_surf_rows_by_hand():
    X = RNG.integers(0, 5, (9, 4)).astype(np.uint8)
    X[:, 3] = 0
    X[:, 0] += 1
    shares = X / X.sum(axis=1, keepdims=True)
    expected = (shares - shares.mean(0)) / np.where(shares.std(0) > 0, shares.std(0), 1)
    np.testing.assert_allclose(surf_rows(X, l2=False), expected, atol=1e-12)
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(surf_rows(X), expected / norms, atol=1e-12)
    np.testing.assert_allclose(surf_rows(sparse.csr_matrix(X)), surf_rows(X))


@pytest.mark.parametrize("log_tf", [False, True])
def test_tfidf_by_hand(log_tf):
    fit, other = RNG.poisson(0.7, (20, 6)), RNG.poisson(0.7, (5, 6)) + np.eye(5, 6, dtype=int)
    idf = 1 + np.log(21 / (1 + (fit > 0).sum(0)))
    tf = np.log1p(other) if log_tf else other
    expected = tf * idf / np.linalg.norm(tf * idf, axis=1, keepdims=True)
    (got,) = tfidf(fit, sparse.csr_matrix(other), log_tf=log_tf)
    np.testing.assert_allclose(got.toarray(), expected)


@given(st.integers(0, 5), st.integers(0, 1000))
def test_draw_per_class(k, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([0, 2, 5], [5, 6, 9]))
    rows = draw_per_class(y, k, seed)
    assert np.array_equal(rows, np.unique(rows))
    np.testing.assert_array_equal(np.bincount(y[rows], minlength=6)[[0, 2, 5]], k)
    np.testing.assert_array_equal(rows, draw_per_class(y, k, seed))
    assert set(rows) <= set(draw_per_class(y, 5, seed))


def test_draw_refuses_what_there_is_not():
    with pytest.raises(DataError, match="k=3 but class 1 has 2 rows"):
        draw_per_class(np.array([0, 0, 0, 1, 1]), 3)
    with pytest.raises(DataError, match="k=-1"):
        draw_per_class(np.array([0]), -1)


def test_draws_differ_by_seed():
    y = np.zeros(100, dtype=int)
    assert not np.array_equal(draw_per_class(y, 3, 0), draw_per_class(y, 3, 1))


def test_most_frequent():
    X = np.array([[1, 0, 9, 0], [1, 0, 0, 2], [1, 0, 0, 2]])
    np.testing.assert_array_equal(most_frequent(X, 2), [0, 3])
    np.testing.assert_array_equal(most_frequent(sparse.csr_matrix(X), 3), [0, 2, 3])


@pytest.mark.parametrize("kind", ["image", "surf", "text", "generated"])
def test_us_tests_on_all_target_rows(kind):
    task = make_task(toy(kind), "a", "b")
    assert task.X_source.shape == (100, 30)
    assert task.X_target.shape == task.X_test.shape == (88, 30)
    assert not task.labelled.any()
    assert set(task.y_visible) == {-1}
    assert task.name == "a→b"
    if kind in ("image", "surf"):
        np.testing.assert_allclose(np.linalg.norm(task.X_test, axis=1), 1)


def test_us_ignores_seed_and_number():
    data = toy("image")
    first, second = make_task(data, "a", "b"), make_task(data, "a", "b", seed=4, labelled=7)
    assert first.checksum == second.checksum


@pytest.mark.parametrize("kind", ["image", "text"])
def test_ss_and_sup(kind):
    data = toy(kind)
    ss, sup = (make_task(data, "a", "b", s, seed=5) for s in ("SS", "SUP"))
    assert ss.labelled.sum() == 12
    assert ss.X_target.shape[0] == 88
    assert sup.X_target.shape[0] == 12
    assert sup.labelled.all()
    assert ss.X_test.shape[0] == sup.X_test.shape[0] == 76
    np.testing.assert_array_equal(np.bincount(sup.y_target), [3] * 4)
    assert (ss.y_visible >= 0).sum() == 12
    dense = (lambda X: X.toarray()) if kind == "text" else np.asarray
    np.testing.assert_array_equal(dense(ss.X_target[ss.labelled]), dense(sup.X_target))
    np.testing.assert_array_equal(dense(ss.X_target[~ss.labelled]), dense(ss.X_test))
    assert len({ss.checksum, sup.checksum, make_task(data, "a", "b", "SS").checksum}) == 3


def test_official_split():
    data = toy("text", split=True)
    us, ss = make_task(data, "a", "b"), make_task(data, "a", "b", "SS")
    assert us.X_source.shape[0] == 75
    assert us.X_target.shape[0] == ss.X_target.shape[0] == 66
    assert us.X_test.shape[0] == ss.X_test.shape[0] == 22
    both = sparse.vstack([data["a"].part("train")[0], data["b"].part("train")[0]])
    (expected,) = tfidf(both, data["b"].part("test")[0])
    assert abs(us.X_test - expected).max() < 1e-15


def test_test_rows_may_be_seen_without_labels():
    data = toy("text", split=True)
    test, source = data["b"].part("test")[0], data["a"].part("train")[0]
    us = make_task(data, "a", "b", unlabelled="test")
    assert us.X_target.shape[0] == us.X_test.shape[0] == 22
    assert set(us.y_visible) == {-1}
    # Frequencies are those of the rows that are seen.
    (expected,) = tfidf(sparse.vstack([source, test]), test)
    assert abs(us.X_test - expected).max() < 1e-15
    assert abs(us.X_target - us.X_test).max() == 0
    both = make_task(data, "a", "b", unlabelled="both")
    assert both.X_target.shape[0] == 88
    assert abs(both.X_target[66:] - both.X_test).max() == 0
    plain = make_task(data, "a", "b")
    assert len({us.checksum, both.checksum, plain.checksum}) == 3


def test_labelled_rows_are_drawn_from_train_rows_whatever_else_is_seen():
    data = toy("text", split=True)
    for seen, rows in (("train", 66), ("test", 12 + 22), ("both", 88)):
        ss, sup = (make_task(data, "a", "b", s, seed=5, unlabelled=seen) for s in ("SS", "SUP"))
        assert ss.X_target.shape[0] == len(ss.y_target) == rows
        assert ss.labelled.sum() == len(sup.y_target) == 12
        assert sup.labelled.all()
        assert abs(ss.X_target[ss.labelled] - sup.X_target).max() == 0
        assert ss.X_test.shape[0] == sup.X_test.shape[0] == 22
        train = tfidf_rows(data, seen)
        for row in sup.X_target.toarray():
            assert np.abs(train - row).max(1).min() < 1e-12


def tfidf_rows(data, seen):
    rows = {part: data["b"].part(part)[0] for part in ("train", "test")}
    parts = [rows[p] for p in ("train", "test") if seen in (p, "both")]
    counted = sparse.vstack([data["a"].part("train")[0], *parts])
    return tfidf(counted, rows["train"])[0].toarray()


def test_without_a_split_every_choice_is_the_same():
    data = toy("image")
    found = {make_task(data, "a", "b", unlabelled=u).checksum for u in ("train", "test", "both")}
    assert len(found) == 1
    with pytest.raises(DataError, match="choose from train, test, both"):
        make_task(data, "a", "b", unlabelled="all")


def test_log_tf_is_another_task():
    data = toy("text")
    plain, log = make_task(data, "a", "b"), make_task(data, "a", "b", log_tf=True)
    assert plain.checksum != log.checksum
    assert abs(plain.X_test - log.X_test).max() > 0.01


def test_sampling_protocol():
    data = toy("surf", sizes={"amazon": 30, "dslr": 12})
    task = sampled_task(data, "amazon", "dslr", seed=1)
    np.testing.assert_array_equal(np.bincount(task.y_source), [20] * 4)
    np.testing.assert_array_equal(np.bincount(task.y_target[task.labelled]), [3] * 4)
    assert (len(task.y_target), len(task.y_test)) == (48, 36)
    back = sampled_task(data, "dslr", "amazon", seed=1)
    np.testing.assert_array_equal(np.bincount(back.y_source), [8] * 4)
    again = sampled_task(data, "amazon", "dslr", seed=1)
    np.testing.assert_array_equal(task.X_source, again.X_source)
    assert task.checksum == again.checksum != sampled_task(data, "amazon", "dslr", seed=2).checksum
    # Preparation comes first: the rows are rows of the whole domain, z-scored over all of it.
    whole = {row.tobytes() for row in surf_rows(data["amazon"].X)}
    assert {row.tobytes() for row in task.X_source} <= whole
    assert len(sampled_task(data, "amazon", "dslr", "US").y_test) == 48
    with pytest.raises(DataError, match="k=20 but class 0 has 12"):
        sampled_task(toy("surf", sizes={"webcam": 12, "dslr": 12}), "webcam", "dslr")


def test_bad_tasks():
    data = toy("image")
    with pytest.raises(DataError, match="choose two domains"):
        make_task(data, "a", "a")
    with pytest.raises(DataError, match="no domain 'c'"):
        make_task(data, "a", "c")
    with pytest.raises(DataError, match="US, SUP, SS"):
        make_task(data, "a", "b", "us")
