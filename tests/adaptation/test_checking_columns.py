"""Columns of two tables, one by one; and whether their differences matter."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp

from marda.adaptation.checking import Checked, ColumnShift, check_rows, compare_columns
from marda.diagnostics.intervals import Interval
from marda.io import Table
from marda.io.columns import Category, Date, Matrix, Number, Words
from marda.selection.expectation import Expectation
from marda.shift.explain import Shift

pytestmark = pytest.mark.usefixtures("few_draws")


def compared(step, source, target):
    """One column."""
    tables = tuple(
        Table(name, len(values), {step.name: np.asarray(values)})
        for name, values in (("s", source), ("t", target))
    )
    places = tuple(np.arange(table.n_rows) for table in tables)
    rows = tuple(np.zeros((table.n_rows, step.size)) for table in tables)
    return compare_columns(tables, rows, [step], places)[0]


def words(values):
    return np.array(values, dtype=object)


def test_numbers_that_moved():
    rng = np.random.default_rng(0)
    found = compared(Number("a"), rng.normal(3, 2, 400), rng.normal(5, 2, 300))
    assert found.differs
    assert found.size == "much"
    assert 0.3 < found.distance < 0.5  # two normals a standard deviation apart: 0.383
    assert found.text == "mean 2.927 → 5.011 (+1.05 standard deviations)"
    wider = compared(Number("a"), rng.normal(0, 1, 400), rng.normal(0, 3, 300))
    assert wider.differs
    assert "spread 0.9" in wider.text or "spread 1." in wider.text


def test_dates_and_gaps():
    days = np.datetime64("2020-01-01", "us") + np.arange(200) * np.timedelta64(1, "D")
    later = days + np.timedelta64(365, "D")
    found = compared(Date("a", None, 0.0, 1.0), days, later)
    assert (found.kind, found.distance, found.size) == ("date", 1.0, "entirely")
    assert found.text == "median 2020-04-09 → 2021-04-09"
    holes = np.arange(200.0)
    holes[::2] = np.nan
    gaps = compared(Number("a"), np.arange(200.0), holes)
    assert gaps.differs
    assert gaps.distance == pytest.approx(0.5)
    assert gaps.text == "empty in 0% → 50% of rows"


def test_categories():
    source, target = words(["x"] * 100 + ["y"] * 100), words(["x"] * 50 + ["y"] * 100 + ["z"] * 50)
    found = compared(Category("a", ("x", "y", "z")), source, target)
    assert found.differs
    assert found.distance == pytest.approx(0.25)
    assert "'x' 50% → 25%" in found.text
    assert "1 value new, in 25%" in found.text
    gone = compared(
        Category("a", ("x", "y")), source, words([None] * 150 + ["x"] * 25 + ["y"] * 25)
    )
    assert gone.text == "empty in 0% → 75% of rows"


def test_text_and_features_of_a_matrix():
    rng = np.random.default_rng(0)
    plain = (rng.random((150, 6)) < 0.3).astype(float)
    other = plain[::-1].copy()
    other[:, 2] = rng.random(150) < 0.9
    step = Words("t", tuple("abcdef"), (1.0,) * 6)
    tables = tuple(Table("x", 150, {"t": words([None] * 150)}) for _ in range(2))
    every = (np.arange(150),) * 2
    rows = sp.csr_array(plain), sp.csr_array(other)
    found = compare_columns(tables, rows, [step], every)[0]
    assert found.differs
    assert found.kind == "text"
    assert found.text.startswith("'c' in 27% → 93%")
    for shape in (rows, (plain, other)):
        columns = compare_columns(tables, shape, [Matrix(6)], every)
        assert [column.name for column in columns if column.differs] == ["x2"]
        assert len(columns) == 6


def test_chance_alone_seldom_differs():
    """20 tables of 10 columns without a shift: with a level of 1 %, one false alarm at most."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        steps = [Number(f"n{k}") for k in range(5)] + [
            Category(f"c{k}", tuple("abcdefgh")) for k in range(5)
        ]
        tables = tuple(
            Table(
                "x",
                n,
                {f"n{k}": rng.normal(size=n) for k in range(5)}
                | {f"c{k}": words(rng.choice([*"aaaabcdefgh"], n)) for k in range(5)},
            )
            for n in (150, 90)
        )
        places = tuple(np.arange(table.n_rows) for table in tables)
        rows = tuple(np.zeros((table.n_rows, 45)) for table in tables)
        alarms += any(c.differs for c in compare_columns(tables, rows, steps, places))
    assert alarms <= 1


def test_p_values_are_corrected_for_the_number_of_columns():
    """Holm by hand: 3 p, 2 p, p, never falling."""
    rng = np.random.default_rng(3)
    names = ["a", "b", "c"]
    tables = tuple(Table("x", 60, {n: rng.normal(size=60) for n in names}) for _ in range(2))
    places = (np.arange(60),) * 2
    rows = (np.zeros((60, 3)),) * 2
    alone = {
        n: compare_columns(tables, (rows[0][:, :1],) * 2, [Number(n)], places)[0].p_value
        for n in names
    }
    together = {
        c.name: c.p_value for c in compare_columns(tables, rows, [*map(Number, names)], places)
    }
    first, second, third = sorted(names, key=alone.get)
    wanted = min(1, 3 * alone[first])
    assert together[first] == pytest.approx(wanted)
    wanted = max(wanted, min(1, 2 * alone[second]))
    assert together[second] == pytest.approx(wanted)
    assert together[third] == pytest.approx(max(wanted, alone[third]))


# Does it matter? ----------------------------------------------------------------------------------


MOVED = ColumnShift("age", "number", 0.4, 1e-9, "mean 1 → 2")


def checked(kind="moved columns", columns=(MOVED,), **facts):
    shift = Shift(kind, (kind,), (), np.array([0, 1]), None, (), 0.0, 1.0, "", 0.05)
    return Checked(200, 100, facts.pop("n_labelled", 0), columns, None, shift, **facts)


def expected(accuracy, low, high, can_tell=True):
    return Expectation(accuracy, (low, high), can_tell, {}, "a reason")


@pytest.mark.parametrize(
    ("facts", "matters", "words"),
    [
        ({"kind": "none", "columns": ()}, False, "No shift was found in the 0 columns"),
        ({}, None, "only labels of the source can tell: name their column with --label"),
        (
            {"accuracy": 0.9, "expectation": expected(0.7, 0.6, 0.8)},
            True,
            "It matters that the two differ in 'age': a plain model is right on 90% of left-out "
            "source rows, and about 70% of the target (60% to 80% in nine of ten cases)",
        ),
        ({"accuracy": 0.9, "expectation": expected(0.89, 0.8, 0.95)}, False, "It hardly matters"),
        ({"accuracy": 0.9, "expectation": expected(0.8, 0.7, 0.95)}, None, "It may matter"),
        (
            {"accuracy": 0.9, "expectation": expected(0.5, 0.1, 0.9, can_tell=False)},
            None,
            "cannot be told without target labels: a plain model is right on 90% of left-out "
            "source rows, and 10% to 90% of the target: a reason",
        ),
        (
            {"kind": "class shares", "accuracy": 0.9, "expectation": expected(0.91, 0.88, 0.94)},
            False,
            "It hardly matters that the classes have other shares",
        ),
    ],
)
def test_what_is_said(facts, matters, words):
    found = checked(**facts)
    assert found.matters is matters
    assert words in found.verdict


def test_labels_say_more_than_expectations():
    facts = {"accuracy": 0.9, "expectation": expected(0.89, 0.85, 0.93), "n_labelled": 50}
    bad = checked(**facts, measured=Interval(0.6, 0.5, 0.7))
    assert bad.matters is True
    assert "60% of 50 labelled target rows (50% to 70%)" in bad.verdict
    assert checked(**facts, measured=Interval(0.9, 0.85, 0.95)).matters is False
    assert checked(**facts, measured=Interval(0.85, 0.7, 0.95)).matters is None


@pytest.mark.parametrize(("n", "labelled"), [(3, True), (3, False), (12, False)])
def test_few_rows_are_told_as_such(n, labelled):
    rng = np.random.default_rng(0)
    tables = tuple(Table("x", n, {"a": rng.normal(size=n)}) for _ in range(2))
    rows = tuple(table["a"][:, None] for table in tables)
    labels = (np.arange(n) % 2, np.full(n, np.nan)) if labelled else None
    found = check_rows(tables, rows, [Number("a")], labels)
    assert found.verdict.startswith("Too few rows to tell what differs")
    assert found.told_apart is None
    assert {finding.code for finding in found.findings} == {"few-rows"}


def test_copies_of_rows_do_not_make_a_difference_larger():
    rng = np.random.default_rng(0)
    y, Xs, Xt = np.arange(40) % 2, rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    steps = [Number("a"), Number("b")]
    found = []
    for k in (1, 3):
        rows = (np.repeat(Xs, k, 0), Xt)
        tables = tuple(
            Table(name, len(X), {"a": X[:, 0], "b": X[:, 1]})
            for name, X in zip("st", rows, strict=True)
        )
        labels = (np.repeat(y, k), np.full(40, np.nan))
        told = pytest.warns(UserWarning, match="80 of 120") if k > 1 else nullcontext()
        with told:
            found.append(check_rows(tables, rows, steps, labels))
    once, thrice = found
    assert thrice.accuracy == once.accuracy
    assert thrice.expectation == once.expectation
    assert thrice.outside < 0.2
    assert not any(column.differs for column in thrice.columns)
