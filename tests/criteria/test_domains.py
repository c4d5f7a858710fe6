"""Weights and distances with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda import criteria
from marda.criteria import rows
from marda.diagnostics import a_distance, domain_accuracy


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
    monkeypatch.setattr(rows, "MAX_CELLS", 1000)
    Fs, Ft = gaussian(600, 0.0, 5), gaussian(500, 1.0, 5, seed=1)
    assert len(criteria.domain_hits(Fs, Ft)) == 400  # 200 rows of 5 values a domain
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
        (lambda: criteria.dev_risk([1, 0], [1, 1, 1]), r"one value a row \(2\)"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
