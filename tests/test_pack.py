"""`pack`: the user's arrays to X, y, sample_domain; `paper_settings`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from marda import MDA, MDAClassifier, pack, paper_settings

XS, XT = np.arange(6.0).reshape(3, 2), -np.arange(8.0).reshape(4, 2)


def test_source_then_target():
    X, y, domain = pack(XS, [0, 1, 0], XT)
    np.testing.assert_array_equal(X, np.vstack([XS, XT]))
    assert y.tolist() == [0, 1, 0, -1, -1, -1, -1]
    assert domain.tolist() == [1, 1, 1, -2, -2, -2, -2]


def test_several_sources_and_targets():
    X, y, domain = pack([XS, XT], [[0, 1, 0], [1, 1, 0, 0]], [XS, XT], [[1, 0, -1], [-1] * 4])
    assert domain.tolist() == [1] * 3 + [2] * 4 + [-3] * 3 + [-4] * 4
    assert y.tolist() == [0, 1, 0, 1, 1, 0, 0, 1, 0, -1, -1, -1, -1, -1]
    np.testing.assert_array_equal(X, np.vstack([XS, XT, XS, XT]))


def test_one_source_in_a_list():
    _, y, domain = pack([XS], [[0, 1, 0]], [XT], [[1, -1, -1, -1]])
    assert domain.tolist() == [1, 1, 1, -2, -2, -2, -2]
    assert y.tolist() == [0, 1, 0, 1, -1, -1, -1]


def test_lists_of_rows_are_one_domain():
    X, _, domain = pack(XS.tolist(), [0, 1, 0], XT.tolist())
    np.testing.assert_array_equal(X, np.vstack([XS, XT]))
    assert domain.tolist() == [1, 1, 1, -2, -2, -2, -2]


def test_partly_labelled_target():
    _, y, _ = pack(XS, [0, 1, 0], XT, [1, -1, np.nan, 0])
    assert y.tolist() == [0, 1, 0, 1, -1, -1, 0]


def test_labels_minus_one_and_plus_one_get_another_mark():
    _, y, _ = pack(XS, [-1, 1, -1], XT)
    assert y[:3].tolist() == [-1, 1, -1]
    assert np.isnan(y[3:]).all()
    _, y, _ = pack(XS, [-1, 1, -1], XT, [-1, 1, np.nan, np.nan])
    assert y[:5].tolist() == [-1, 1, -1, -1, 1]
    assert np.isnan(y[5:]).all()


def test_strings_are_marked_with_none():
    _, y, _ = pack(XS, ["a", "b", "a"], XT)
    assert y.tolist() == ["a", "b", "a", None, None, None, None]
    _, y, _ = pack(XS, ["a", "b", "a"], XT, np.array(["b", None, None, "a"], dtype=object))
    assert y.tolist() == ["a", "b", "a", "b", None, None, "a"]
    _, y, _ = pack(XS, ["a", "b", "a"], XT, ["b", "?", "?", "a"], unlabeled="?")
    assert y.tolist() == ["a", "b", "a", "b", "?", "?", "a"]


@pytest.mark.parametrize(
    ("ys", "yt"),
    [
        ([0, 1, 0], None),
        ([-1, 1, -1], None),
        ([-1.0, 1.0, -1.0], [1.0, -1.0, np.nan, np.nan]),
        (["a", "b", "a"], None),
        (["a", "b", "a"], np.array(["b", None, None, "a"], dtype=object)),
        (["a", "b", "a"], np.array(["b", -1, -1, "a"], dtype=object)),
    ],
)
def test_fit_understands_what_pack_marks(ys, yt):
    X, y, domain = pack(XS, ys, XT, yt)
    model = MDAClassifier("S1M").fit(X, y, sample_domain=domain)
    assert model.setting_ == ("US" if yt is None else "SS")
    assert model.classes_.tolist() == sorted(set(ys))


def test_fully_labelled_target_keeps_its_labels():
    _, y, _ = pack(XS, [0, 1, 0], XT, [1, 1, 0, 0])
    assert y.tolist() == [0, 1, 0, 1, 1, 0, 0]
    assert y.dtype.kind == "i"


def test_sparse_stays_sparse():
    X, _, _ = pack(sp.csr_matrix(XS), [0, 1, 0], XT)
    assert sp.issparse(X)
    assert X.format == "csr"
    np.testing.assert_array_equal(X.toarray(), np.vstack([XS, XT]))


def test_tables_are_joined_by_column_name():
    source = pd.DataFrame(XS, columns=["a", "b"])
    target = pd.DataFrame(XT, columns=["a", "b"])[["b", "a"]]
    X, _, _ = pack(source, [0, 1, 0], target)
    assert list(X.columns) == ["a", "b"]
    np.testing.assert_array_equal(X.to_numpy(), np.vstack([XS, XT]))
    with pytest.raises(ValueError, match="different columns"):
        pack(source, [0, 1, 0], target.rename(columns={"a": "c"}))


def test_arrays_are_not_changed():
    yt = np.array([-1.0, 1.0, np.nan, np.nan])
    before = yt.copy()
    pack(XS, np.array([-1, 1, -1]), XT, yt)
    np.testing.assert_array_equal(yt, before)
    yt = np.array([0, -1, -1, 1])
    pack(XS, np.array([0, 1, 0]), XT, yt, unlabeled=-1)
    assert yt.tolist() == [0, -1, -1, 1]


def test_lengths_are_checked():
    with pytest.raises(ValueError, match="source 0 has 3 rows but 2 labels"):
        pack(XS, [0, 1], XT)
    with pytest.raises(ValueError, match="the target has 4 rows but 2 labels"):
        pack(XS, [0, 1, 0], XT, [0, 1])
    with pytest.raises(ValueError, match=r"4 rows but a table of \(4, 1\) labels"):
        pack(XS, [0, 1, 0], XT, [[0], [1], [0], [1]])
    with pytest.raises(ValueError, match="2 sources with 1 label arrays"):
        pack([XS, XS], [[0, 1, 0]], XT)
    with pytest.raises(ValueError, match="source and target rows differ in length"):
        pack(XS, [0, 1, 0], np.ones((4, 3)))


@pytest.mark.parametrize(("kind", "noise"), [("image", 0.5), ("text", 0.9)])
def test_paper_settings(kind, noise):
    settings = paper_settings(kind)
    assert settings == {
        "noise": noise,
        "ridge": 1e-2,
        "ridge_class": 1.0,
        "ridge_domain": 1.0,
        "class_loss_weight": 1.0,
        "domain_loss_weight": 1.0,
        "marginalization": "paper",
        "scaling": "paper",
        "fit_intercept": False,
        "max_iter": 10,
    }
    for estimator in (MDA(**settings), MDAClassifier(**settings)):
        assert clone(estimator).get_params()["noise"] == noise
    with pytest.raises(ValueError, match="'image' and 'text', got 'sound'"):
        paper_settings("sound")


def test_labels_of_two_kinds():
    """numpy would make text of the numbers."""
    with pytest.raises(ValueError, match="some labels are text and others are numbers"):
        pack(XS, [0, 1, 0], XT, ["0", "1", "0", "1"])


def test_tables_by_their_own_rules():
    """Labels in another order than their rows are refused; columns of one name stay as they are."""
    rows = pd.DataFrame(XS, index=["a", "b", "c"])
    labels = pd.Series([0, 1, 0], index=["c", "b", "a"])
    with pytest.raises(ValueError, match="rows and labels hold the same index in another order"):
        pack(rows, labels, pd.DataFrame(XT))
    twins = [pd.DataFrame(X, columns=["a", "a"]) for X in (XS, XT)]
    assert pack(twins[0], [0, 1, 0], twins[1])[0].shape == (7, 2)
