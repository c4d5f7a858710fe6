"""Noise objects: the mean factor and the variance that marginalisation needs."""

from __future__ import annotations

import numpy as np
import pytest

from marda.noise import Dropout, Gaussian, Poisson, as_noise
from oracles import corrupt, mean_and_variance

NOISES = [
    Dropout(0.3),
    Dropout(np.array([0.0, 0.2, 0.7])),
    Dropout(0.3, unbiased=True),
    Dropout(np.array([0.0, 0.2, 0.7]), unbiased=True),
    Gaussian(0.8),
    Gaussian(np.array([0.0, 0.5, 2.0])),
    Poisson(),
]


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_scale_and_variance_are_those_of_the_corruption(noise):
    rng = np.random.default_rng(0)
    X, w = rng.gamma(2.0, 1.0, (5, 3)), rng.random(5)
    variance = noise.variance(w.sum(), w @ X, w @ X**2)
    mean, entries = mean_and_variance(noise, X)
    np.testing.assert_allclose(noise.scale(3) * X, mean, rtol=1e-13)
    np.testing.assert_allclose(variance, w @ entries, rtol=1e-13)
    # And by sampling, so that the plain formulas above are not merely the same mistake.
    draws = np.stack([w @ (corrupt(noise, X, rng) - mean) ** 2 for _ in range(4000)])
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - variance) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_answers_do_not_alias_what_was_given(noise):
    total, squares = np.ones(3), np.ones(3)
    for answer in (noise.scale(3), noise.variance(2.0, total, squares)):
        answer[:] = 7
    np.testing.assert_array_equal([total, squares], np.ones((2, 3)))
    assert np.all(noise.scale(3) <= 1)


@pytest.mark.parametrize("p", [1.0, 1.5, -0.1, np.nan, np.inf])
def test_dropout_outside_its_range(p):
    with pytest.raises(ValueError, match=r"noise must be a dropout probability in \[0, 1\), got"):
        Dropout(p)
    with pytest.raises(ValueError, match=r"noise must be a dropout probability in \[0, 1\), got"):
        Dropout(np.array([0.1, p]))


def test_dropout_names_the_bad_value():
    with pytest.raises(ValueError, match=r"got 1\.5\."):
        Dropout(np.array([0.1, 1.5]))
    with pytest.raises(ValueError, match=r"got -0\.5\."):
        Dropout(-0.5)


def test_dropout_shapes():
    with pytest.raises(ValueError, match=r"one number per feature, got shape \(2, 2\)"):
        Dropout(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="noise has 2 values but X has 3 features"):
        Dropout(np.array([0.1, 0.2])).scale(3)
    with pytest.raises(ValueError, match="noise has 2 values but X has 3 features"):
        Dropout(np.array([0.1, 0.2])).variance(1.0, np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    "sigma", [-1.0, np.nan, np.inf, np.zeros((2, 2)), np.array([0.5, -0.1]), np.array([np.nan, 1])]
)
def test_gaussian_refuses(sigma):
    with pytest.raises(ValueError, match="sigma must be finite and at least 0"):
        Gaussian(sigma)


def test_no_noise_is_a_noise():
    """The borders of what is allowed: nothing is dropped, nothing is added, nothing is there."""
    zeros, ones = np.zeros(2), np.ones(2)
    for noise in (Dropout(0.0), Dropout(zeros), Gaussian(0.0), Gaussian(zeros)):
        np.testing.assert_array_equal(noise.scale(2), ones)
        np.testing.assert_array_equal(noise.variance(3.0, ones, ones), zeros)
    np.testing.assert_array_equal(Poisson().variance(3.0, zeros, zeros), zeros)


def test_gaussian_shapes():
    with pytest.raises(ValueError, match="sigma has 2 values but X has 3 features"):
        Gaussian(np.array([0.1, 0.2])).variance(1.0, np.ones(3), np.ones(3))


def test_poisson_refuses_negative_features():
    with pytest.raises(ValueError, match="non-negative features: feature 1 has a negative sum"):
        Poisson().variance(1.0, np.array([1.0, -2.0]), np.array([1.0, 4.0]))


def test_as_noise():
    assert as_noise(0.25).scale(2).tolist() == [0.75, 0.75]
    assert repr(as_noise(0.25)) == repr(as_noise(np.array(0.25))) == repr(Dropout(0.25))
    assert as_noise([0.0, 0.5]).scale(2).tolist() == [1.0, 0.5]
    assert as_noise(np.float32(0.5)).scale(1).tolist() == [0.5]
    gaussian = Gaussian(1.0)
    assert as_noise(gaussian) is gaussian
    with pytest.raises(ValueError, match=r"noise must be a dropout probability.*got 'much'"):
        as_noise("much")


def test_noise_is_frozen():
    with pytest.raises(AttributeError):
        Dropout(0.5).p = 0.1
