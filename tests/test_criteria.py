"""Label-free evidence with a known answer: invariances, degenerate cases, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import entropy as scipy_entropy

from marda import criteria
from marda.criteria import (
    Neighbours,
    label_agreement,
    nearest_neighbours,
    neighbour_agreement,
)
from marda.diagnostics.diagnosis import a_distance, domain_accuracy
from measured import traced_peak

# Predicted probabilities alone --------------------------------------------------------------------


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
    monkeypatch.setattr(criteria, "BLOCK_CELLS", 700)  # 6 rows at a time, the last one alone
    assert criteria.soft_neighbourhood_density(P) == pytest.approx(whole)


def test_density_never_holds_a_square_matrix(monkeypatch):
    shapes = []
    whole = criteria.logsumexp

    def spy(S, axis):
        shapes.append(S.shape)
        return whole(S, axis=axis)

    monkeypatch.setattr(criteria, "logsumexp", spy)
    monkeypatch.setattr(criteria, "BLOCK_CELLS", 10_000)
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
def test_wrong_probabilities_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Neighbours ---------------------------------------------------------------------------------------


def clusters(n=120, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return rng.normal(0, 0.1, (n, 4)) + 5 * np.eye(4)[labels], labels


def test_known_value():
    # Labels a a b; row 0 and 1 are each other's neighbour, row 2 is nearest to row 1.
    got = neighbour_agreement(np.array([[0.0], [1.0], [3.0]]), ["a", "a", "b"], 1)
    chance = (2 / 3) ** 2 + (1 / 3) ** 2
    assert got.value == pytest.approx((2 / 3 - chance) / (1 - chance))
    spread = np.std([1, 1, 0], ddof=1) / np.sqrt(3) / (1 - chance)
    assert got.standard_error == pytest.approx(spread)


def test_full_agreement_chance_and_one_label():
    F, labels = clusters()
    assert neighbour_agreement(F, labels) == (pytest.approx(1.0), 0.0)
    assert neighbour_agreement(F, np.zeros(120)) == (0.0, 0.0)
    random = np.random.default_rng(0).permutation(labels)
    value, error = neighbour_agreement(F, random)
    assert abs(value) < 4 * error < 0.15


def test_a_frequent_label_is_not_agreement():
    # 95 % of labels are equal: nearly all neighbours agree, by chance.
    F, _ = clusters(400)
    rare = np.random.default_rng(1).random(400) < 0.05
    shares = rare[nearest_neighbours(F).nearest] == rare[:, None]
    assert shares.mean() > 0.85
    assert abs(neighbour_agreement(F, rare).value) < 0.1


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_order_of_rows_and_names_of_labels_do_not_matter(wrap):
    rng = np.random.default_rng(0)
    F, labels = rng.normal(size=(90, 3)), rng.integers(3, size=90)
    order = rng.permutation(90)
    names = np.array(["x", "u", "v"], dtype=object)
    expected = neighbour_agreement(F, labels, 5)
    moved = neighbour_agreement(wrap(F[order]), names[labels][order], 5)
    assert moved == pytest.approx(expected)


def test_neighbours_are_the_nearest_others():
    F = np.random.default_rng(0).normal(size=(40, 3))
    distances = np.linalg.norm(F[:, None] - F[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    found = nearest_neighbours(F, 4)
    np.testing.assert_array_equal(np.sort(found.nearest), np.sort(distances.argsort(1)[:, :4]))


def test_many_rows_are_sampled_once_and_labels_follow():
    F, labels = clusters(900)
    found = nearest_neighbours(F, 5, max_rows=200)
    assert found.nearest.shape == (200, 5)
    assert len(np.unique(found.rows)) == 200
    assert label_agreement(found, labels).value == pytest.approx(1.0)
    again = nearest_neighbours(F, 5, max_rows=200)
    np.testing.assert_array_equal(found.rows, again.rows)
    assert isinstance(found, Neighbours)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_distances_are_never_held_at_once(wrap, monkeypatch):
    monkeypatch.setattr(criteria, "BLOCK_MEMORY", 1)
    F = wrap(np.random.default_rng(0).normal(size=(3000, 3)))
    peak = traced_peak(lambda: nearest_neighbours(F, 5))
    assert peak < 3000**2  # bytes: an eighth of the whole matrix


@pytest.mark.parametrize("k", [0, 120])
def test_k_must_be_below_the_rows(k):
    with pytest.raises(ValueError, match=f"k={k} neighbours need more than {k} rows, got 120"):
        neighbour_agreement(*clusters(), k)


def test_labels_must_match_rows():
    with pytest.raises(ValueError, match="labels has 2 values but F has 120 rows"):
        neighbour_agreement(clusters()[0], [0, 1])


# Two domains --------------------------------------------------------------------------------------


def gaussian(n, mean, d=1, seed=0):
    return np.random.default_rng(seed).normal(mean, 1, (n, d))


def test_density_ratio_of_two_gaussians():
    # log N(x; 1, 1)/N(x; 0, 1) = x − ½
    Fs, Ft = gaussian(4000, 0.0), gaussian(3000, 1.0, seed=1)
    weights = criteria.density_ratio(Fs, Ft)
    slope, offset = np.polyfit(Fs[:, 0], np.log(weights), 1)
    assert slope == pytest.approx(1.0, abs=0.08)
    assert offset == pytest.approx(-0.5, abs=0.08)
    assert weights.mean() == pytest.approx(1.0, abs=0.1)


def test_density_ratio_is_cross_fitted():
    # In many dimensions a classifier separates equal domains on the rows it saw, not on others.
    Fs, Ft = gaussian(60, 0.0, 200), gaussian(60, 0.0, 200, seed=1)
    logs = np.log(criteria.density_ratio(Fs, Ft))
    assert abs(np.median(logs)) < 1.0
    assert (logs > 0).mean() == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_order_of_target_rows_does_not_matter(wrap):
    Fs, Ft = gaussian(50, 0.0, 3), gaussian(40, 0.7, 3, seed=1)
    shuffled = Ft[np.random.default_rng(0).permutation(40)]
    np.testing.assert_allclose(
        criteria.density_ratio(wrap(Fs), wrap(Ft)),
        criteria.density_ratio(wrap(Fs), wrap(shuffled)),
        rtol=1e-3,
    )


def test_long_rows_are_sampled(monkeypatch):
    monkeypatch.setattr("marda._order.MAX_CELLS", 1000)
    Fs, Ft = gaussian(600, 0.0, 5), gaussian(500, 1.0, 5, seed=1)
    assert len(criteria.domain_hits(Fs, Ft)) == 400  # 200 rows of 5 values per domain
    assert criteria.density_ratio(Fs, Ft).shape == (600,)


def test_importance_weights_recover_the_target_risk():
    # The loss is 1 right of 0.5: far more often in the target.
    Fs, Ft = gaussian(6000, 0.0), gaussian(6000, 1.0, seed=1)
    losses = (Fs[:, 0] > 0.5).astype(float)
    truth = (Ft[:, 0] > 0.5).mean()
    weights = criteria.density_ratio(Fs, Ft)
    assert losses.mean() < truth - 0.3
    assert criteria.importance_weighted(losses, weights) == pytest.approx(truth, abs=0.03)
    assert criteria.dev_risk(losses, weights) == pytest.approx(truth, abs=0.03)


def test_control_variate_lowers_the_variance():
    # True weights of small samples: the risk is the same on average and varies less.
    rng = np.random.default_rng(0)
    plain, controlled = [], []
    for _ in range(400):
        x = rng.normal(0, 1, 60)
        weights, losses = np.exp(x - 0.5), 1 + 0.3 * np.sin(x)
        plain.append((weights * losses).mean())
        controlled.append(criteria.dev_risk(losses, weights))
    assert np.std(controlled) < 0.3 * np.std(plain)
    assert np.mean(controlled) == pytest.approx(np.mean(plain), abs=0.02)


def test_equal_weights_change_nothing():
    losses = np.array([0.0, 1.0, 3.0])
    assert criteria.importance_weighted(losses, np.full(3, 7.0)) == pytest.approx(4 / 3)
    assert criteria.dev_risk(losses, np.ones(3)) == pytest.approx(4 / 3)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
def test_proxy_a_distance_is_that_of_the_diagnostics(wrap):
    for shift, low, high in ((0.0, 0.0, 0.3), (6.0, 1.9, 2.0)):
        Fs, Ft = wrap(gaussian(150, 0.0, 4)), wrap(gaussian(120, shift, 4, seed=1))
        distance = criteria.proxy_a_distance(Fs, Ft)
        assert low <= distance <= high
        assert distance == pytest.approx(a_distance(domain_accuracy(Fs, Ft)).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: criteria.density_ratio(gaussian(1, 0), gaussian(5, 0)), "2 source rows"),
        (lambda: criteria.density_ratio(gaussian(5, 0), gaussian(0, 0)), "1 target rows"),
        (lambda: criteria.proxy_a_distance(gaussian(5, 0), gaussian(1, 0)), "2 target rows"),
        (lambda: criteria.importance_weighted([1, 0], [0, 0]), "not all 0"),
        (lambda: criteria.importance_weighted([1, 0], [1, np.inf]), "finite"),
        (lambda: criteria.dev_risk([1, 0], [1, 1, 1]), r"one value per row \(2\)"),
    ],
)
def test_wrong_domains_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_most_similar_rows_are_the_nearest():
    F = gaussian(60, 0.0, 4)
    near = criteria.nearest_neighbours(F, 5)
    S = np.exp(-0.5 * ((F[:, None] - F) ** 2).sum(2))
    similar = criteria.most_similar(S, 5)
    assert similar.rows.tolist() == near.rows.tolist() == list(range(60))
    np.testing.assert_array_equal(np.sort(similar.nearest, 1), np.sort(near.nearest, 1))
