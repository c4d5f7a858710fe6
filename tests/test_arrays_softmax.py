"""Logarithms of probabilities of rows, held to scipy's."""

import numpy as np
import pytest
from scipy import special

from marda._arrays import FEW, log_softmax


@pytest.mark.parametrize("n_classes", [1, 2, 3, FEW - 1, FEW, 20])
@pytest.mark.parametrize("n_rows", [0, 1, 300])
@pytest.mark.parametrize("order", ["C", "F"])
def test_log_softmax_is_that_of_scipy_and_leaves_its_argument(n_classes, n_rows, order):
    A = 50 * np.random.default_rng(0).normal(size=(n_rows, n_classes))
    A = np.array(A, order=order)
    before = A.copy()
    found = log_softmax(A)
    np.testing.assert_allclose(found, special.log_softmax(A, axis=1), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(A, before)
    assert found.flags.c_contiguous == A.flags.c_contiguous


@pytest.mark.parametrize("n_classes", range(2, FEW))
def test_few_classes_are_added_up_as_numpy_adds_up_rows(n_classes):
    A = 5 * np.random.default_rng(0).normal(size=(1000, n_classes))
    below = A - A.max(axis=1, keepdims=True)
    by_rows = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(log_softmax(A), by_rows)
