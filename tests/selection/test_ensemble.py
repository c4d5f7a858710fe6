"""The ensemble: a weighted sum of standardised scores, its softmax, and its temperature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from marda import MDAClassifier
from marda.selection.ensemble import (
    Ensemble,
    Member,
    calibrate,
    importance,
    soften,
    spread_of,
)
from marda.selection.inputs import make_inputs
from problems import make_case

CASE = make_case("US", seed=5, d=6, n_source=40, n_target=30)
TARGET = CASE.domain < 0


@pytest.fixture
def members():
    found = []
    for kind, method, weight in (("unit", "S1", 0.5), ("standard", "BL", 2.0)):
        inputs = make_inputs(kind, CASE.X)
        rows = inputs.apply(CASE.X)
        model = MDAClassifier(method).fit(rows, CASE.codes, sample_domain=CASE.domain)
        scores = model.decision_function(rows[TARGET])
        found.append(Member.of(method, inputs, model, weight, scores))
    return found


def test_scores_are_the_weighted_sum_in_units_of_their_spread_on_the_target(members):
    by_hand = np.zeros((TARGET.sum(), 3))
    for member in members:
        S = member.model.decision_function(member.inputs.apply(CASE.X[TARGET]))
        S = S - S.mean(1, keepdims=True)
        by_hand += member.weight * S / np.sqrt((S**2).mean())
    ensemble = Ensemble(tuple(m.frozen for m in members), sharpness=1.7)
    np.testing.assert_allclose(ensemble.scores(CASE.X[TARGET]), by_hand, atol=1e-12)
    np.testing.assert_allclose(
        ensemble.probabilities(CASE.X[TARGET]), softmax(1.7 * by_hand, axis=1), atol=1e-12
    )


def test_scores_of_the_fit_are_known_until_a_member_is_frozen(members):
    for member in members:
        np.testing.assert_allclose(member.on_target, member.scores(CASE.X[TARGET]), atol=1e-12)
        assert spread_of(member.on_target) == pytest.approx(1)
        assert member.frozen.on_target is None


def test_scores_without_spread_have_unit_one():
    assert spread_of(np.full((4, 3), 7.0)) == 1.0


# Temperature --------------------------------------------------------------------------------------


def drawn(sharpness, n=20000, seed=0):
    """Scores whose softmax, sharpened so, is the truth."""
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(n, 3))
    P = softmax(sharpness * S, axis=1)
    return S, (P.cumsum(1) < rng.random((n, 1))).sum(1)


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
def test_the_true_sharpness_is_found(sharpness):
    S, codes = drawn(sharpness)
    found = calibrate(S, codes, np.ones(len(S)))
    assert found["sharpness"] == pytest.approx(sharpness, rel=0.05)
    assert found["ece_after"] < 0.02
    assert found["rows"] == pytest.approx(len(S))


def test_weights_choose_the_rows_that_count():
    (S1, c1), (S2, c2) = drawn(0.5), drawn(4.0, seed=1)
    S, codes = np.vstack([S1, S2]), np.r_[c1, c2]
    weights = np.r_[np.zeros(len(S1)), np.ones(len(S2))]
    assert calibrate(S, codes, weights)["sharpness"] == pytest.approx(4.0, rel=0.05)


def test_separable_rows_do_not_become_certain():
    codes = np.arange(50) % 2
    S = np.where(np.eye(2)[codes] > 0, 1.0, -1.0)
    assert calibrate(S, codes, np.ones(50))["sharpness"] <= np.exp(3.01)


@pytest.mark.parametrize("wide", [False, True])
def test_source_rows_like_the_target_weigh_more(wide):
    rng = np.random.default_rng(0)
    d = 200 if wide else 3
    Xs, Xt = rng.normal(size=(400, d)), rng.normal(size=(300, d))
    Xs[:, 0] *= 5
    Xt[:, 0] = 5 * Xt[:, 0] + 6
    for seed in range(5):
        chosen, weights = importance(Xs, Xt, seed)
        # Of 200 columns 50 directions are kept, most of them noise: weights are noisier there.
        assert np.corrcoef(Xs[chosen, 0], weights)[0, 1] > (0.25 if wide else 0.5)


def test_a_handful_of_rows_is_not_weighted():
    chosen, weights = importance(np.eye(5), np.eye(5)[:3], 0)
    np.testing.assert_array_equal(weights, 1)
    assert len(chosen) == 5


def test_probabilities_are_softened_to_what_is_expected():
    scores = np.random.default_rng(0).normal(size=(500, 3))

    def confidence(sharpness):
        return softmax(sharpness * scores, axis=1).max(1).mean()

    found = soften(scores, 4.0, 0.6)
    assert found < 4
    assert confidence(found) == pytest.approx(0.6, abs=1e-3)
    assert soften(scores, 4.0, 0.999) == 4  # never sharpened
    assert confidence(soften(scores, 4.0, 1 / 3)) < 0.36
