"""What stands below the last row is left out, and nothing else."""

from __future__ import annotations

import pytest

from marda.io.text import WithoutRemarks, WithoutTotals


@pytest.mark.parametrize(
    ("rows", "kept", "words"),
    [
        ([["1", "a"], ["Total", "9"]], 1, ["Total"]),
        ([["1", "a"], ["", " Summe: "], []], 1, ["Summe:"]),
        ([["1", "a"], ["sum", "9"], ["Average", "9"]], 1, ["sum", "Average"]),
        ([["x", "1"], ["total", "2"], ["x", "3"], ["total", "4"]], 4, []),  # a category
        ([["Total", "9"], ["1", "a"]], 2, []),
        ([["1", "a"], ["Totally", "9"]], 2, []),
        ([["1", "total"], ["2", "total"]], 2, []),
        ([[1.5, "a"], ["Total", 9.0]], 1, ["Total"]),
    ],
)
def test_totals(rows, kept, words):
    totals = WithoutTotals(rows)
    assert [*totals] == rows[:kept]
    assert totals.left_out == words
    assert bool(totals.note("a.csv")) == bool(words)


def test_a_remark_below_totals_is_left_to_the_reader():
    totals = WithoutTotals([["1", "a"], ["Total", "9"], [], ["(c) me"]])
    assert [*totals] == [["1", "a"], [], ["(c) me"]]
    assert totals.left_out == ["Total"]


ROW = (1.0, 2.0, "a")


@pytest.mark.parametrize(
    ("rows", "left_out"),
    [
        ([ROW, (), ("seen ", None)], ["seen"]),
        ([ROW, (), ("seen", None), ("by me",)], ["seen", "by me"]),
        ([ROW, ("no gap", None)], []),
        ([ROW, (), (7, None)], []),
        ([ROW, (), (None, "not first")], []),
        ([("a title",), (), ("and another",), ROW], []),
        ([ROW, (), ("between", None), ROW], []),
    ],
)
def test_remarks_in_a_sheet(rows, left_out):
    remarks = WithoutRemarks(iter(rows))
    filled = [row for row in rows if row]
    assert [*remarks] == filled[: len(filled) - len(left_out)]
    assert remarks.left_out == left_out
