"""Hypotheses keep their level where they are true and are rejected where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from marda.shift.hypotheses import HYPOTHESES, fit_hypothesis, judge_hypothesis, judge_rivals
from marda.shift.two_sample import draw_sample
from shift.drawn import pair
from shift.test_class_prior import bayes

HYPOTHESIS = {hypothesis.name: hypothesis for hypothesis in HYPOTHESES}
LEVEL = 0.1  # two of 19 draws: few draws make a quick test


def known(X, y, T, seed=0):
    """A sample, and probabilities that know the source: no class model is tested here."""
    sample = draw_sample(X, y, T, seed=seed)
    own = np.bincount(y) / len(y)
    first = int(np.flatnonzero(sample.columns == 0)[0])

    def posterior(Z):
        return bayes(Z[:, [first]] * sample.unit[first] + sample.centre[first], own)

    return sample, posterior


def p_value(hypothesis, rows, seed=0, n_draws=19):
    sample, posterior = known(*rows, seed)
    fit = fit_hypothesis(HYPOTHESIS[hypothesis], sample, 2)
    found = judge_hypothesis(fit, sample, posterior, n_draws=n_draws, level=LEVEL)
    return found.p_value


TRUE = {
    "none": {},
    "class shares": {"after": 0.1},
    "moved columns": {"factor": 2.0, "by": 3.0},
    "class shares and moved columns": {"after": 0.2, "factor": 2.0, "by": 3.0},
    "linear map": {"factor": 0.5, "by": -1.0},
}


def rejected(hypothesis, shift, n_seeds, n, n_draws=19):
    return sum(
        p_value(hypothesis, pair(seed, n=n, **shift), seed, n_draws) <= LEVEL
        for seed in range(n_seeds)
    )


@pytest.mark.parametrize("hypothesis", ["none", "class shares", "moved columns"])
def test_a_true_hypothesis_is_rejected_as_often_as_the_level_says(hypothesis):
    # 1.5 times the level, and what chance allows for 100 draws.
    assert rejected(hypothesis, TRUE[hypothesis], 100, 60) <= binom.ppf(0.99, 100, LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 200])
@pytest.mark.parametrize("hypothesis", list(TRUE))
def test_the_level_holds_over_many_draws(hypothesis, n):
    assert rejected(hypothesis, TRUE[hypothesis], 300, n) <= 1.5 * LEVEL * 300


@pytest.mark.slow
def test_the_level_holds_where_a_class_is_rare_in_the_source():
    assert rejected("class shares", {"before": 0.9, "after": 0.1}, 200, 200) <= 1.5 * LEVEL * 200


@pytest.mark.slow
@pytest.mark.parametrize(("hypothesis", "n"), [("none", 60), ("class shares", 200)])
def test_the_level_holds_where_draws_end_early(hypothesis, n):
    found = []
    for seed in range(400):
        sample, posterior = known(*pair(seed, n=n, **TRUE[hypothesis]), seed)
        fit = fit_hypothesis(HYPOTHESIS[hypothesis], sample, 2)
        found.append(judge_hypothesis(fit, sample, posterior, n_draws=199, level=0.05))
    assert sum(one.p_value <= 0.05 for one in found) <= binom.ppf(0.99, 400, 1.2 * 0.05)
    assert np.mean([one.n_draws for one in found]) < 80


def test_draws_end_where_more_would_say_the_same():
    for shift, n_draws, fits in (({}, 59, True), ({"by": 3.0}, 19, False)):
        sample, _ = known(*pair(1, n=200, **shift))
        fit = fit_hypothesis(HYPOTHESIS["none"], sample, 2)
        found = judge_hypothesis(fit, sample, None, n_draws=199, level=0.05)
        assert found.n_draws <= n_draws
        assert (found.p_value > 0.05) == fits
        # Of a level that so few draws cannot reach, more are taken.
        strict = judge_hypothesis(fit, sample, None, n_draws=199, level=0.01)
        assert (strict.p_value > 0.01) == fits


@pytest.mark.parametrize(
    ("hypothesis", "shift"),
    [
        ("none", {"after": 0.1}),
        ("none", {"by": 0.7}),
        ("none", {"factor": 2.0}),
        ("class shares", {"by": 0.7}),
        ("class shares", {"factor": 2.0}),
        ("class shares", {"after": 0.1, "by": 0.7}),
    ],
)
def test_a_false_hypothesis_is_rejected(hypothesis, shift):
    assert rejected(hypothesis, shift, 10, 100) >= 9


def test_turned_rows_are_seen():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    for seed in range(3):
        X, y, T = pair(seed, n=400)
        for hypothesis in ("none", "class shares", "moved columns"):
            assert (
                p_value(hypothesis, (X * [3, 1, 1, 1], y, T * [3, 1, 1, 1] @ turn), seed) <= LEVEL
            )


def test_a_map_of_columns_is_found():
    X, y, T = pair(0, n=2000, factor=4.0, by=7.0)
    T[:5] *= 1e9  # outliers move neither means nor spreads
    sample = draw_sample(X, y, T)
    fit = fit_hypothesis(HYPOTHESIS["moved columns"], sample, 2)
    back = fit.alignment((T[5:] - sample.centre[np.argsort(sample.columns)]
                          )[:, sample.columns] / sample.unit)  # fmt: skip
    expected = sample.source
    np.testing.assert_allclose(back.mean(0), expected.mean(0), atol=0.1)
    np.testing.assert_allclose(back.std(0), expected.std(0), rtol=0.1)


def test_a_linear_map_undoes_what_columns_alone_cannot():
    X, y, T = pair(0, n=600)
    root = np.random.default_rng(0).standard_normal((4, 4))
    rows = (X, y, T @ (np.eye(4) + 0.8 * root @ root.T))
    assert p_value("moved columns", rows) <= LEVEL
    assert p_value("linear map", rows) > LEVEL


def test_shares_and_a_moved_column_are_told_apart():
    """Both change the mean along the classes by about the same."""
    told = {}
    for world, shift, column in (("shares", {"after": 0.1}, 0.0), ("column", {}, -1.0)):
        found = []
        for seed in range(8):
            X, y, T = pair(seed, n=150, **shift)
            T[:, 0] += column
            one = judge_rivals(*known(X, y, T, seed), n_draws=19)
            found.append((one.shares, one.columns, np.log(one.odds)))
        told[world] = np.mean(found, axis=0)
    assert told["shares"][0] > told["column"][0] + 0.2
    assert told["column"][1] > told["shares"][1] + 0.2
    assert told["shares"][2] > told["column"][2] + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "column"),
    [({"after": 0.1}, 0.0), ({"before": 0.9, "after": 0.1}, 0.0), ({}, 1.0), ({"by": 0.3}, 0.0)],
)
def test_the_level_holds_between_rivals(shift, column):
    is_shares = "after" in shift
    rejections = 0
    for seed in range(200):
        X, y, T = pair(seed, n=150, d=6, **shift)
        T[:, 0] += column
        found = judge_rivals(*known(X, y, T, seed), n_draws=19)
        rejections += (found.shares if is_shares else found.columns) <= LEVEL
    assert rejections <= 1.5 * LEVEL * 200
