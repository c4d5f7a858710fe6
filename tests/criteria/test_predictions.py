"""Known values, invariances and degenerate predictions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import entropy as scipy_entropy

from marda import criteria
from marda.criteria import predictions


def probabilities(n=60, classes=4, seed=0, sharpness=2.0):
    return softmax(sharpness * np.random.default_rng(seed).normal(size=(n, classes)), axis=1)


UNIFORM = np.full((12, 3), 1 / 3)
ONE_CLASS = np.tile([0.0, 1.0, 0.0], (12, 1))
BALANCED = np.eye(3)[np.arange(12) % 3]


def density(P, temperature=0.05):
    """The definition, with the whole matrix."""
    P = P / np.linalg.norm(P, axis=1, keepdims=True)
    S = P @ P.T / temperature
    np.fill_diagonal(S, -np.inf)
    return scipy_entropy(softmax(S, axis=1), axis=1).mean()


def test_entropy_is_that_of_scipy():
    P = probabilities()
    assert criteria.entropy(P) == pytest.approx(scipy_entropy(P, axis=1).mean())


def test_density_is_its_definition():
    P = probabilities()
    assert criteria.soft_neighbourhood_density(P) == pytest.approx(density(P))
    warm = criteria.soft_neighbourhood_density(P, temperature=1.0)
    assert warm == pytest.approx(density(P, 1.0))
    assert warm > criteria.soft_neighbourhood_density(P)


@pytest.mark.parametrize(
    ("P", "entropy", "information", "snd"),
    [
        (UNIFORM, np.log(3), 0.0, np.log(11)),
        (ONE_CLASS, 0.0, 0.0, np.log(11)),  # all rows alike: dense, yet it says nothing
        (BALANCED, 0.0, np.log(3), np.log(3)),
    ],
)
def test_degenerate_predictions(P, entropy, information, snd):
    assert criteria.entropy(P) == pytest.approx(entropy)
    assert criteria.mutual_information(P) == pytest.approx(information)
    assert criteria.soft_neighbourhood_density(P) == pytest.approx(snd, abs=1e-6)


@given(st.integers(0, 10_000))
def test_order_of_rows_and_of_classes_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    P, y = probabilities(seed=seed), rng.integers(4, size=60)
    rows, classes = rng.permutation(60), rng.permutation(4)
    moved = P[rows][:, classes]
    for criterion in (
        criteria.entropy,
        criteria.mutual_information,
        criteria.soft_neighbourhood_density,
    ):
        assert criterion(moved) == pytest.approx(criterion(P))
    renamed = np.argsort(classes)[y[rows]]
    assert criteria.expected_calibration_error(moved, renamed) == pytest.approx(
        criteria.expected_calibration_error(P, y)
    )


def test_blocks_do_not_change_the_density(monkeypatch):
    P = probabilities(101)
    whole = criteria.soft_neighbourhood_density(P)
    monkeypatch.setattr(predictions, "BLOCK_CELLS", 700)  # 6 rows at a time, the last one alone
    assert criteria.soft_neighbourhood_density(P) == pytest.approx(whole)


def test_density_never_holds_a_square_matrix(monkeypatch):
    shapes = []
    whole = predictions.logsumexp

    def spy(S, axis):
        shapes.append(S.shape)
        return whole(S, axis=axis)

    monkeypatch.setattr(predictions, "logsumexp", spy)
    monkeypatch.setattr(predictions, "BLOCK_CELLS", 10_000)
    criteria.soft_neighbourhood_density(probabilities(900), max_rows=400)
    assert {columns for _, columns in shapes} == {400}  # a sample, not all rows
    assert max(rows * columns for rows, columns in shapes) <= 10_000


def test_the_sample_is_seeded_and_close_to_the_whole():
    P = probabilities(800, sharpness=4)
    drawn = [
        criteria.soft_neighbourhood_density(P, max_rows=400, random_state=s) for s in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    # Half the rows: half the neighbours, so log 2 less.
    assert drawn[0] + np.log(2) == pytest.approx(criteria.soft_neighbourhood_density(P), abs=0.1)


def test_calibration_error_of_known_rows():
    # Two bins: confidence 0.8 with 3 of 4 right, 0.6 with 0 of 2 right.
    P = np.array([[0.8, 0.2]] * 4 + [[0.4, 0.6]] * 2)
    y = np.array([0, 0, 0, 1, 0, 0])
    error = criteria.expected_calibration_error(P, y)
    assert error == pytest.approx((4 * 0.05 + 2 * 0.6) / 6)
    only = criteria.expected_calibration_error(P, y, [1, 1, 1, 1, 0, 0])
    assert only == pytest.approx(0.05)
    doubled = criteria.expected_calibration_error(P, y, 2 * np.ones(6))
    assert doubled == pytest.approx(error)


def test_calibrated_probabilities_have_no_error():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 20_000)
    y = (rng.random(20_000)[:, None] > P.cumsum(1)).sum(1)
    assert criteria.expected_calibration_error(P, y) < 0.015
    assert criteria.expected_calibration_error(softmax(9 * P, axis=1), y) > 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: criteria.entropy(np.ones(3)), r"shape \(3,\)"),
        (lambda: criteria.entropy(np.empty((0, 2))), "shape"),
        (lambda: criteria.entropy(np.array([[0.5, -0.5]])), "pass predict_proba, not scores"),
        (lambda: criteria.entropy(np.array([[np.nan, 1.0]])), "must hold probabilities"),
        (lambda: criteria.soft_neighbourhood_density(UNIFORM, temperature=0), "temperature"),
        (lambda: criteria.soft_neighbourhood_density(UNIFORM[:1]), "at least 2 rows, got 1"),
        (lambda: criteria.expected_calibration_error(UNIFORM, np.zeros(3, int)), "12 whole"),
        (lambda: criteria.expected_calibration_error(UNIFORM, np.full(12, 3)), "0 and 2"),
        (
            lambda: criteria.expected_calibration_error(UNIFORM, np.zeros(12, int), np.zeros(12)),
            "not all 0",
        ),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
