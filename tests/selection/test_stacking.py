"""Target labels weigh the explanations of the shift."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from marda.selection.ensemble import Member
from marda.selection.inputs import Inputs
from marda.selection.stacking import BaseModels, left_out_scores, stack


class Nobody:
    """A model that nothing is asked of."""

    def scores(self, rows):
        raise AssertionError

    def get_params(self):
        return {}


def explanation(left_out, belief, weight=1.0):
    member = Member("somebody", Inputs("raw"), Nobody(), weight, 1.0)
    return BaseModels((member,), left_out, belief)


def opinions(rng, n, right):
    """Log-probabilities that are right so often, and classes."""
    codes = rng.integers(2, size=n)
    said = np.where(rng.random(n) < right, codes, 1 - codes)
    return log_softmax(np.log(np.where(said[:, None] == np.arange(2), 0.9, 0.1)), axis=1), codes


def both(n, seed=0, first=0.6, second=0.95):
    """Two explanations, the second one right more often."""
    rng = np.random.default_rng(seed)
    S, codes = opinions(rng, n, first)
    T = np.where((rng.random(n) < second)[:, None] == (codes[:, None] == np.arange(2)), 0.9, 0.1)
    return S, np.log(T), codes


def test_no_label_changes_nothing():
    none = np.empty((0, 2))
    members, left_out, weights = stack(
        [explanation(none, 0.7, 2.0), explanation(none, 0.3)], np.empty(0, dtype=int)
    )
    np.testing.assert_allclose(weights, [0.7, 0.3])
    np.testing.assert_allclose([m.weight for m in members], [1.4, 0.3])
    assert left_out.shape == (0, 2)


def test_the_more_labels_the_more_they_say():
    shares = []
    for n in (1, 5, 20, 100, 400):
        found = []
        for seed in range(10):
            S, T, codes = both(n, seed)
            weights = stack([explanation(S, 1.0), explanation(T, 0.0)], codes)[2]
            found.append(weights[1] / weights.sum())
        shares.append(np.mean(found))
    assert (np.diff(shares) > 0).all()
    assert shares[0] < 0.1
    assert shares[-1] > 0.8


def test_rows_are_left_out_of_the_weights_as_well():
    """Of many models that know nothing, some are right about the labels that chose them."""
    right, chosen = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        codes = rng.integers(2, size=40)
        models = [explanation(opinions(rng, 40, 0.5)[0], 0.1) for _ in range(12)]
        _, left_out, weights = stack(models, codes)
        right.append(np.mean(left_out.argmax(1) == codes))
        summed = np.tensordot(weights, [model.left_out for model in models], 1)
        chosen.append(np.mean(summed.argmax(1) == codes))
    assert np.mean(chosen) > 0.6
    assert abs(np.mean(right) - 0.5) < 0.04  # two standard errors of 800 rows


def test_weights_are_the_least_of_a_convex_problem():
    S, T, codes = both(30)
    parts = [explanation(S, 0.5), explanation(T, 0.5)]
    weights = stack(parts, codes)[2]

    likely = [np.log(0.95 * np.exp(L[np.arange(30), codes]) + 0.025).sum() for L in (S, T)]
    q = np.exp(log_softmax(likely))

    def loss(a):
        P = log_softmax(a[0] * S + a[1] * T, axis=1)
        return 4.0 * ((a - q) ** 2).sum() - P[np.arange(30), codes].sum()

    least = loss(weights)
    for step in 0.01 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [1, -1], [-1, 1]]):
        assert loss(np.maximum(weights + step, 0)) > least


def test_constants_per_row_and_certainty_do_not_matter():
    """Scores need be log-probabilities up to a constant only; being sure and wrong is bounded."""
    S, T, codes = both(30)
    weights = stack([explanation(S, 0.5), explanation(T, 0.5)], codes)[2]
    moved = stack([explanation(S + 7, 0.5), explanation(T - np.arange(30)[:, None], 0.5)], codes)
    np.testing.assert_allclose(moved[2], weights, atol=1e-5)
    wrong = T.copy()
    wrong[0] = np.where(np.arange(2) == codes[0], -1e6, 0)
    found = stack([explanation(S, 0.5), explanation(wrong, 0.5)], codes)
    assert np.isfinite(found[1]).all()
    assert found[2][1] > 0.1


def test_members_without_a_weight_are_left_out():
    S, T, codes = both(400, first=0.1)
    members, _, weights = stack([explanation(S, 1.0), explanation(T, 0.0)], codes)
    assert weights[0] == 0
    assert len(members) == 1


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_rows_are_scored_by_models_without_their_labels(n):
    codes = np.arange(n) % 2
    hidden = []

    def fit(held):
        hidden.append(held)
        return lambda places: np.column_stack([places, np.isin(places, held)]).astype(float)

    scores = left_out_scores(fit, codes, seed=0)
    np.testing.assert_array_equal(scores[:, 0], np.arange(n))
    assert scores[:, 1].all()
    assert np.sort(np.concatenate(hidden)).tolist() == list(range(n))
    if n == 30:  # every fold has a share of either class
        assert all((codes[held] == 0).sum() == 5 for held in hidden)
