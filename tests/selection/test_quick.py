"""Criteria of a search that read predictions of target rows alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import rankdata

from marda._validation import Labels
from marda.selection.committee import spread_of
from marda.selection.quick import COMBINED, SHARPNESS, judge
from marda.selection.trials import Trials, expand
from marda.selection.views import make_view

TRUTH = np.arange(60) % 3


@pytest.fixture
def trials():
    """Three classes of target rows, each in a place of its own, and five candidates."""
    rng = np.random.default_rng(0)
    X = np.repeat(5 * np.eye(3), 40, axis=0)[np.arange(120).reshape(3, 40).T.ravel()]
    X = X + rng.normal(0, 0.5, X.shape)
    domain = np.repeat([1, -1], 60)
    labels = Labels(np.arange(3), np.where(domain > 0, np.arange(120) % 3, -1))
    candidates = expand({"noise": [0.1, 0.2, 0.3, 0.4, 0.5]}, None)
    views = {"raw": make_view("raw", X)}
    return Trials(candidates, views, X, labels, domain, seed=0, say=lambda _: None)


def scores(labels):
    return np.eye(3)[labels] - 1 / 3


def noisy(noise):
    """Scores of a model that errs the more, and is the less sure, the larger the noise."""
    rng = np.random.default_rng(int(100 * noise))
    return scores(TRUTH) + rng.normal(0, noise, (60, 3))


def chosen(trials, given, scoring):
    return int(np.argmax([row["score"] for row in judge(trials, given, scoring)]))


def test_consensus_is_how_likely_another_candidate_says_the_same(trials):
    rng = np.random.default_rng(1)
    given = [rng.normal(size=(60, 3)) for _ in range(5)]
    P = [softmax(SHARPNESS * S / spread_of(S), axis=1) for S in given]
    by_hand = [np.mean([(p * other).sum(1).mean() for other in P]) for p in P]
    found = [row["consensus"] for row in judge(trials, given, "consensus")]
    np.testing.assert_allclose(found, by_hand)


def test_auto_is_the_mean_rank_of_three_kinds_of_evidence(trials):
    rng = np.random.default_rng(2)
    table = judge(trials, [rng.normal(size=(60, 3)) for _ in range(5)], "auto")
    ranks = [rankdata([row[name] for row in table]) for name in COMBINED]
    np.testing.assert_allclose([row["score"] for row in table], np.mean(ranks, axis=0) / 5)


def test_auto_is_not_fooled_where_one_criterion_is(trials):
    """One class for all rows is sure of itself; so are labels by lot."""
    by_lot = np.random.default_rng(3).permutation(TRUTH)
    given = [noisy(0.9), noisy(0.3), noisy(0.6)]
    given += [scores(np.zeros(60, dtype=int)) + 1e-3 * scores(TRUTH), scores(by_lot)]
    assert chosen(trials, given, "entropy") > 2
    assert chosen(trials, given, "mutual_information") == 4
    assert chosen(trials, given, "auto") == 1


def test_the_size_of_scores_says_nothing(trials):
    given = [noisy(noise) for noise in (0.9, 0.6, 0.2, 0.7, 0.5)]
    strong_ridge = [0.01 * S if k == 2 else S for k, S in enumerate(given)]
    for scoring in ("consensus", "auto"):
        assert chosen(trials, given, scoring) == 2
        assert chosen(trials, strong_ridge, scoring) == 2
