"""The verdict on a shift: right, or refused; the same however rows come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from marda.datasets import make_shift
from marda.shift import KINDS, explain_shift
from shift.drawn import pair

FAST = {"n_draws": 39}


def told(rows, **settings):
    return explain_shift(*rows, **{**FAST, **settings})


def test_nothing():
    shift = told(pair(0, n=150))
    assert shift.kind == "none"
    assert shift.fitting == ("none",)
    assert shift.left == 0
    assert shift.sentence() == "The target looks like the source."
    np.testing.assert_array_equal(shift.shares, shift.prior.source)
    assert shift.explanation("linear map") is None  # it holds what fits: not tested


def test_other_shares():
    shift = told(pair(1, n=300, after=0.1, d=3))
    assert "class shares" in shift.fitting
    assert shift.prior.agree
    assert abs(shift.prior.target[1] - 0.1) < 3 * shift.prior.standard_error[1]
    assert shift.prior.standard_error[1] < 0.06
    assert "% instead of" in shift.sentence()
    assert "of class 1" in shift.sentence()


def test_moved_columns_are_named_and_undone():
    X, y, T = pair(2, n=200)
    T[:, 2] = 5 * T[:, 2] + 100
    shift = told((X, y, T), columns=["age", "height", "income", "rooms"])
    assert shift.kind == "moved columns"
    assert [move.name for move in shift.moved] == ["income"]
    assert shift.moved[0].factor == pytest.approx(1 / 5, rel=0.2)
    assert shift.sentence() == "The target looks like the source with income moved or stretched."
    undone = shift.explanation("moved columns").undo(T)
    assert abs(undone[:, 2].mean() - X[:, 2].mean()) < 0.05
    assert told((X, y, undone)).kind == "none"


def test_what_no_explanation_explains():
    rng = np.random.default_rng(0)
    X, y, _ = pair(0, n=200, d=2)
    T = np.column_stack([rng.exponential(size=200), rng.uniform(-9, 9, 200) ** 3])
    shift = told((X, y, T))
    assert shift.kind == "unexplained"
    assert shift.fitting == ()
    assert shift.shares is None
    assert shift.prior is None
    assert 0 < shift.left <= 1
    assert len(shift.explanations) == 5
    assert "nothing explains it" in shift.sentence()


def test_words_that_were_replaced_are_features():
    data = make_shift("words", shift=0.5, n_features=80, separation=12.0)
    source, target = data.domains["source"], data.domains["target"]
    shift = told((source.X, source.y, target.X))
    assert shift.fitting == ()
    assert shift.kind in ("features", "unexplained")


def test_several_explanations_that_fit_are_all_named():
    shift = replace(told(pair(1, n=300, after=0.1, d=3)), fitting=("class shares", "moved columns"))
    assert shift.sentence().endswith("both fit, and only labels can tell.")
    assert shift.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(("seed", "fitting"), [(0, 2), (1, 1)])
def test_columns_are_out_by_two_tests_where_a_class_all_but_vanished(seed, fitting):
    rng = np.random.default_rng(seed)
    before, after = ((rng.random(300) < share).astype(int) for share in (0.5, 0.06))
    S, T = (y[:, None] * [2.2, 0.6] + rng.normal(size=(300, 2)) for y in (before, after))
    shift = told((S, before, T))
    assert shift.prior.target[1] < 0.2 * shift.prior.source[1]
    columns = shift.explanation("moved columns")
    assert columns.p_value <= 0.05
    assert shift.fitting == ("class shares", "moved columns")[:fitting]
    # In doubt both are believed; the other way round, the one is not mentioned.
    assert (columns.rival_p is not None) == (fitting == 2)
    assert (shift.weights > 0.3).all()


@pytest.mark.parametrize("n_target", [1, 5, 19])
def test_few_rows_are_too_few(n_target):
    shift = told(pair(0, n=100, n_target=n_target))
    assert shift.kind == "too few rows"
    assert shift.fitting == ()
    assert shift.sentence().startswith("Too few rows to tell what differs: the target has ")


def test_rows_that_are_all_the_same_are_one_row():
    X, y, T = pair(0)
    assert told((X, y, np.ones_like(T))).reason.startswith("the target has 1 different row,")
    assert told((np.ones_like(X), y, T)).reason.startswith("the source has 1 different row,")


def test_rows_that_differ_by_rounding_alone():
    X, y, T = (1e14 + a if a.ndim == 2 else a for a in pair(0))
    assert told((X, y, T)).sentence() == (
        "Too few rows to tell what differs: no column varies by more than rounding."
    )


def test_more_columns_than_rows_tell_nothing_where_nothing_would_be_seen():
    rng = np.random.default_rng(0)
    X, T = rng.standard_normal((40, 400)), rng.standard_normal((25, 400))
    shift = told((X, np.arange(40) % 2, T))
    assert shift.kind == "too few rows"
    assert "would not be seen" in shift.sentence()


def test_a_source_of_one_class_has_no_shares():
    X, y, T = pair(0, n=100)
    shift = told((X, 0 * y, T))
    assert shift.kind == "none"
    assert shift.prior is None
    assert shift.explanation("class shares") is None


def test_a_target_of_one_class():
    shift = told(pair(3, n=200, after=0.0))
    assert "class shares" in shift.fitting
    assert shift.prior.target[1] < 0.06


def test_outliers_are_not_a_shift():
    X, y, T = pair(1, n=200)
    T[:4] *= 1e6
    assert told((X, y, T)).kind == "none"


def test_a_class_with_a_single_row_is_left_out():
    X, y, T = pair(0, n=150)
    y = y.astype(object)
    y[0] = 2
    shift = told((X, y.astype(int), T))
    assert shift.prior.source[2] == shift.prior.target[2] == 0
    assert shift.kind in KINDS


def same(a, b):
    assert a.kind == b.kind
    assert a.fitting == b.fitting
    for one, other in zip(a.explanations, b.explanations, strict=True):
        assert one.p_value == pytest.approx(other.p_value, abs=0.026)  # one draw of 39
        assert one.z == pytest.approx(other.z, rel=1e-2, abs=1e-2)
    np.testing.assert_allclose(a.prior.target, b.prior.target, atol=1e-3)


@pytest.fixture(scope="module")
def rows():
    return pair(4, n=120, after=0.1)


@pytest.fixture(scope="module")
def plain(rows):
    return told(rows)


def test_the_order_of_rows_is_nothing(rows, plain):
    X, y, T = rows
    order, other = (
        np.random.default_rng(0).permutation(120),
        np.random.default_rng(1).permutation(120),
    )
    same(told((X[order], y[order], T[other])), plain)


def test_the_order_of_columns_is_nothing(rows, plain):
    X, y, T = rows
    order = [2, 0, 3, 1]
    same(told((X[:, order], y, T[:, order])), plain)


def test_units_are_nothing(rows, plain):
    X, y, T = rows
    unit, zero = np.array([1e-3, 1.0, 60.0, 1e6]), np.array([0.0, 273.15, -5.0, 1e6])
    same(told((X * unit + zero, y, T * unit + zero)), plain)


def test_precision_storage_and_names_of_classes_are_nothing(rows, plain):
    X, y, T = rows
    same(told((X.astype(np.float32), y, T.astype(np.float32))), plain)
    same(told((sp.csr_matrix(X), y, sp.csr_array(T))), plain)
    named = told((X, np.array(["no", "yes"])[y], T))
    same(named, plain)
    assert "of class yes" in named.sentence()


def test_sparse_rows_with_many_columns_are_told_as_dense_ones():
    rng = np.random.default_rng(0)
    filled = [rng.uniform(size=(60, 1500)) * (rng.random((60, 1500)) < 0.02) for _ in range(2)]
    X, T = (sp.csr_array(part) for part in filled)
    T = T * 1.0
    T.data[:200] *= 5
    y = np.arange(60) % 2
    dense = told((X.toarray(), y, T.toarray()))
    same(told((X, y, T)), dense)
    assert dense.explanation("moved columns") is None  # more columns than rows


def test_two_calls_agree_and_inputs_stay(rows, plain):
    X, y, T = (np.array(part) for part in rows)
    again = told((X, y, T))
    assert [t.p_value for t in again.explanations] == [t.p_value for t in plain.explanations]
    np.testing.assert_array_equal(T, rows[2])


def named(X):
    return pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y, T: (X, y, T[:, :2]), "columns and X_target 2"),
        (lambda X, y, T: (X, y[:5], T), "must hold 120 labels"),
        (lambda X, y, T: (X, y, np.where(T > 2, np.nan, T)), "X_target holds NaN"),
        (lambda X, y, T: (X[0], y, T), "must be a table"),
        (lambda X, y, T: (1e200 * X, y, T), "largest entry of X .* rescale"),
        (lambda X, y, T: (X, np.where(y > 0, np.nan, y), T), "y_source has rows without a label"),
        (lambda X, y, T: (named(X), y, named(T).iloc[:, ::-1]), "in another order"),
    ],
)
def test_bad_rows_are_refused(rows, change, message):
    with pytest.raises(ValueError, match=message):
        told(change(*rows))


@pytest.mark.parametrize("settings", [{"level": 0}, {"level": 0.01}, {"columns": ["a"]}])
def test_bad_settings_are_refused(rows, settings):
    with pytest.raises(ValueError, match=r"level|columns must hold"):
        told(rows, **settings)
