"""Labels, marks and domains: what is accepted, and what every refusal says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from marda._validation import (
    UNLABELED,
    Labels,
    check_domains,
    check_number,
    decode_labels,
    encode_labels,
    is_marked,
    seed_of,
    summed,
)

DOMAIN = np.array([0, 0, 0, -1, -1])


def test_check_number():
    assert check_number("ridge", 0) == 0.0
    assert check_number("ridge", np.float32(0.5)) == 0.5
    for value in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="ridge must be at least 0"):
            check_number("ridge", value)
    with pytest.raises(ValueError, match="ridge must be a number, got 'a'"):
        check_number("ridge", "a")
    with pytest.raises(ValueError, match="ridge must be a number, got None"):
        check_number("ridge", None)
    with pytest.raises(ValueError, match="temperature must be above 0, got 0"):
        check_number("temperature", 0, strict=True)


def test_domains():
    assert check_domains(None, 3).tolist() == [1, 1, 1]
    assert check_domains([1.0, -2.0], 2).tolist() == [1, -2]
    assert check_domains([1, -2], 2).dtype == np.int64
    assert check_domains([0, 1], 2, both=False).tolist() == [0, 1]
    assert check_domains([-1, -2], 2, both=False).tolist() == [-1, -2]
    assert check_domains(np.array([1, -2], dtype=object), 2).dtype == np.int64


@pytest.mark.parametrize(
    ("domain", "n", "message"),
    [
        ([0, -1], 3, "sample_domain has 2 values but X has 3 rows"),
        ([0.5, -1], 2, "whole numbers .*got float64 values such as"),
        ([1, -1, np.nan], 3, "whole numbers .*such as nan:"),
        ([1, -1, np.inf], 3, "whole numbers .*such as inf:"),
        (np.array([1, None], dtype=object), 2, "whole numbers .*got object values such as 1"),
        (np.array([True, False], dtype=object), 2, "whole numbers .*got bool values"),
        (np.array([1, 2**63], dtype=np.uint64), 2, "whole numbers .*such as 9223372036854775808:"),
        (["s", "t"], 2, "whole numbers"),
        ([0, 1], 2, r"no target rows \(numbers below 0\).*leave sample_domain out"),
        ([-1, -2], 2, r"no source rows \(numbers at least 0\)"),
    ],
)
def test_bad_domains(domain, n, message):
    with pytest.raises(ValueError, match=message):
        check_domains(domain, n)


@pytest.mark.parametrize(
    ("y", "mark", "marked"),
    [
        (np.array([0, -1, 1]), -1, [False, True, False]),
        (np.array([0.0, -1.0, np.nan]), -1, [False, True, True]),
        (np.array([0.0, -1.0, np.nan]), np.nan, [False, False, True]),
        (np.array([0.0, -1.0, np.nan]), None, [False, False, True]),
        (np.array(["a", None, -1], dtype=object), -1, [False, True, True]),
        (np.array(["a", None, np.nan], dtype=object), -1, [False, True, True]),
        (np.array(["a", pd.NA, "?"], dtype=object), "?", [False, True, True]),
        (np.array(["a", "?"]), "?", [False, True]),
        (np.array(["a", "-1"]), -1, [False, False]),
        (np.array([0, 1]), "?", [False, False]),
        (np.array([True, False]), None, [False, False]),
        (np.array([True, False, None], dtype=object), 0, [False, False, True]),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), -1, [False, True]),
        (np.array([1, "NaT"], dtype="timedelta64[D]"), -1, [False, True]),
    ],
)
def test_marks(y, mark, marked):
    assert is_marked(y, mark).tolist() == marked


@pytest.mark.parametrize(
    ("y", "mark"),
    [
        (np.array([5, 3, 5, -1, 3]), -1),
        (np.array([5.0, 3.0, 5.0, np.nan, 3.0]), -1),
        (np.array([5, 3, 5, 7, 3]), 7),
        (np.array(["b", "a", "b", None, "a"], dtype=object), -1),
        (np.array(["b", "a", "b", -1, "a"], dtype=object), -1),
        (np.array(["b", "a", "b", "?", "a"]), "?"),
        (np.array([True, False, True, None, False], dtype=object), -1),
    ],
)
def test_codes_point_into_sorted_classes(y, mark):
    classes, codes = encode_labels(y, DOMAIN, mark)
    assert codes.tolist() == [1, 0, 1, -1, 0]
    assert classes.tolist() == sorted(classes.tolist())
    np.testing.assert_array_equal(classes[codes[[0, 1, 2, 4]]], y[[0, 1, 2, 4]])


@pytest.mark.parametrize(
    ("classes", "mark", "wanted"),
    [
        ([0, 1], -1, [0, -1, 1]),
        ([-1, 1], -1, [-1, np.nan, 1]),
        ([-1, 1], 9, [-1, 9, 1]),
        ([0.5, 1.5], -1, [0.5, -1, 1.5]),
        ([0, 1], "?", [0, np.nan, 1]),
        ([2**60, 2**60 + 1], -1, [2**60, -1, 2**60 + 1]),
        (["a", "b"], -1, ["a", None, "b"]),
        (["a", "b"], "?", ["a", "?", "b"]),
        (["?", "b"], "?", ["?", None, "b"]),
        ([False, True], -1, [False, None, True]),
    ],
)
def test_labels_come_back_with_their_marks(classes, mark, wanted):
    found = decode_labels(Labels(np.array(classes), np.array([0, UNLABELED, 1])), mark)
    np.testing.assert_array_equal(found, np.array(wanted, dtype=found.dtype))


def test_no_labels_at_all():
    classes, codes = encode_labels(None, DOMAIN, -1)
    assert len(classes) == 0
    assert codes.tolist() == [-1] * 5


def test_the_mark_among_source_labels():
    y = np.array([-1, 1, 1, -1, -1])
    with pytest.raises(ValueError, match=r"-1, is also a class of the source rows.*unlabeled="):
        encode_labels(y, DOMAIN, -1)
    classes, codes = encode_labels(np.array([-1, 1, 1, 0, 0]), DOMAIN, 0)
    assert classes.tolist() == [-1, 1]
    assert codes.tolist() == [0, 1, 1, -1, -1]
    # Without marked target rows −1 is a label like any other.
    assert encode_labels(np.array([-1, 1, 1, 1, 1]), DOMAIN, -1).codes.tolist() == [0, 1, 1, 1, 1]
    # NaN marks where −1 is a label.
    y = np.array([-1, 1, 1, np.nan, np.nan])
    assert encode_labels(y, DOMAIN, -1).codes.tolist() == [0, 1, 1, -1, -1]
    y = np.array([-1, 1, 1, -1, np.nan])
    assert encode_labels(y, DOMAIN, -1).codes.tolist() == [0, 1, 1, 0, -1]
    # Where −1 is no class of the source it marks beside NaN.
    y = np.array([0, 1, 1, -1, np.nan])
    assert encode_labels(y, DOMAIN, -1).codes.tolist() == [0, 1, 1, -1, -1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "y has 2 labels but X has 5 rows"),
        ([0.0, np.nan, 1.0, 0.0, 1.0], r"no label \(NaN or None\) for source row 1"),
        (np.array(["a", "b", None, "a", "b"], dtype=object), "for source row 2"),
        (np.array(["a", 1, "b", "a", "b"], dtype=object), "mixes strings with other labels"),
        (pd.Series([("a", 1)] * 5).to_numpy(), r"one string or number, got \('a', 1\)"),
        ([0.1, 0.7, 0.3, 0.2, 0.5], "Unknown label type"),
        ([0.0, np.inf, 1.0, 0.0, 1.0], "y contains infinity"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(y, DOMAIN, -1)


def test_sparse_entries_of_one_place_are_summed_in_a_copy():
    X = sp.csr_array(([1.0, 2.0, 3.0], [1, 0, 1], [0, 3]), shape=(1, 2))
    got = summed(X)
    assert got.toarray().tolist() == [[2.0, 4.0]]
    assert got.data.tolist() == [2.0, 4.0]
    assert X.data.tolist() == [1.0, 2.0, 3.0]
    assert X.indices.tolist() == [1, 0, 1]
    assert summed(got) is got
    dense = np.ones((2, 2))
    assert summed(dense) is dense


def test_sparse_indices_are_short_in_a_copy():
    places = np.array([[0, 0, 1], [0, 2, 1]])
    X = sp.csr_array(sp.coo_array(([1.0, 2.0, 3.0], places), shape=(2, 3)))
    assert X.indices.dtype == np.int64
    found = summed(X)
    assert found.indices.dtype == found.indptr.dtype == np.int32
    assert X.indices.dtype == np.int64
    np.testing.assert_array_equal(found.toarray(), X.toarray())


def test_seeds():
    assert seed_of(None) == seed_of(0) == seed_of(0)
    assert seed_of(1) != seed_of(0)
    state = np.random.RandomState(3)
    assert seed_of(state) != seed_of(state)
