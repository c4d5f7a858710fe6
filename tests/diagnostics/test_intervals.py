"""Bootstrap intervals against what theory says of them; figures as text."""

from __future__ import annotations

import numpy as np
import pytest

from marda._machine import counted
from marda.diagnostics.intervals import (
    Interval,
    bootstrap_mean,
    gain_right,
    holm,
    percent,
    percentile_interval,
    points_text,
    row_counts,
    share_right,
    signed,
    wilson,
)


@pytest.mark.parametrize(
    "values", [np.arange(900) % 3 > 0, np.random.default_rng(1).normal(size=900)]
)
def test_the_mean_has_its_standard_error(values):
    found = bootstrap_mean(values)
    error = np.std(values) / np.sqrt(len(values))
    assert found.value == pytest.approx(np.mean(values))
    assert found.low == pytest.approx(found.value - 1.96 * error, abs=0.25 * error)
    assert found.high == pytest.approx(found.value + 1.96 * error, abs=0.25 * error)


def test_a_seed_gives_one_interval_whatever_the_order_of_rows():
    values = np.random.default_rng(2).normal(size=50)
    assert bootstrap_mean(values) == bootstrap_mean(values)
    ours, theirs = bootstrap_mean(values, seed=3), bootstrap_mean(values[::-1], seed=3)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    assert bootstrap_mean(values, seed=4).low != ours.low


def test_equal_rows_have_no_spread():
    found = bootstrap_mean(np.full(7, 0.25))
    assert (found.low, found.value, found.high) == pytest.approx((0.25, 0.25, 0.25))


def test_a_resample_has_as_many_rows():
    counts = row_counts(40, 500, np.random.default_rng(0))
    assert counts.shape == (500, 40)
    assert (counts.sum(1) == 40).all()
    assert counts.mean(0) == pytest.approx(np.ones(40), abs=0.25)


def test_an_interval_holds_its_estimate():
    found = percentile_interval(3.0, np.linspace(0, 1, 100))
    assert (found.value, found.high) == (3.0, 3.0)
    assert found.low == pytest.approx(0.025)


def test_figures_as_text():
    assert (counted(1, "row"), counted(1200, "row")) == ("1 row", "1,200 rows")
    assert percent(0.8412) == "84.1%"
    assert (signed(-0.04), signed(-1.25), signed(2.0)) == ("0.0", "−1.2", "+2.0")
    assert points_text(Interval(5, 1.2, 8.8)) == "+5.0 points (95% interval +1.2 to +8.8)"


def test_wilson_holds_for_few_rows_and_shares_near_one():
    found = wilson(10, 10)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(10 / (10 + 1.959964**2))  # n / (n + z²)
    assert wilson(0, 10).high == pytest.approx(1 - found.low)


def test_rows_that_are_all_right_do_not_make_it_sure():
    one, none = share_right(np.array([True])), share_right(np.zeros(30, dtype=bool))
    assert (one.value, one.high) == (1.0, 1.0)
    assert one.low < 0.25
    assert (none.value, none.low) == (0.0, 0.0)
    assert 0.1 < none.high < 0.13
    some = np.arange(30) < 20
    assert share_right(some) == bootstrap_mean(some)


def test_methods_that_agree_on_every_row_do_not_make_it_sure():
    right = np.arange(30) < 28
    found = gain_right(right, right)
    assert (found.value, found.low) == (0.0, -found.high)
    # Ten times as many rows tell ten times as much; the exact test of no difference at 5 % needs
    # six rows that differ, of 30 a fifth.
    assert 0.05 < found.high < 0.2
    many = np.tile(right, 10)
    assert gain_right(many, many).high == pytest.approx(found.high * 32 / 302)
    assert gain_right(~right, right) == bootstrap_mean((~right).astype(float) - right)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
