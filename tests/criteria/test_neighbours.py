"""Agreement of neighbours: chance, clusters, and what it costs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from marda.criteria import (
    Neighbours,
    label_agreement,
    nearest_neighbours,
    neighbour_agreement,
    neighbours,
)


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
    monkeypatch.setattr(neighbours, "BLOCK_MEMORY", 1)
    F = wrap(np.random.default_rng(0).normal(size=(3000, 3)))
    tracemalloc.start()
    try:
        nearest_neighbours(F, 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3000**2  # bytes: an eighth of the whole matrix


@pytest.mark.parametrize("k", [0, 120])
def test_k_must_be_below_the_rows(k):
    with pytest.raises(ValueError, match=f"k={k} neighbours need more than {k} rows, got 120"):
        neighbour_agreement(*clusters(), k)


def test_labels_must_match_rows():
    with pytest.raises(ValueError, match="labels has 2 values but F has 120 rows"):
        neighbour_agreement(clusters()[0], [0, 1])
