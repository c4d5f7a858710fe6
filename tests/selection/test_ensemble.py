"""The ensemble: a weighted sum of standardised scores, and its softmax."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from marda import MDAClassifier
from marda.selection.ensemble import Ensemble, Member, spread_of
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
