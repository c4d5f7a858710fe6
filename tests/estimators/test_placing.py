"""Inner products about any centres are those of the centred rows."""

from __future__ import annotations

import numpy as np
import pytest

from marda.estimators.kernel import RidgeOnRows
from marda.estimators.placing import InnerProducts


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_products_of_centred_rows(normalize, offset):
    rng = np.random.default_rng(0)
    H, side = rng.normal(size=(20, 6)) + offset, np.repeat([-1, 0, 1], [8, 7, 5])
    products = InnerProducts(H, side, normalize)
    for seed in (5, 6):
        centers = {d: offset + np.random.default_rng(seed).normal(size=6) for d in (-1, 0, 1)}
        F = H - np.stack([centers[d] for d in side.tolist()])
        if normalize:
            F /= np.linalg.norm(F, axis=1, keepdims=True)
        np.testing.assert_allclose(products.about(centers), F @ F.T, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_row_at_its_centre_stays_there(seed):
    """But for rounding, which has no direction: products that cancelled are not blown up."""
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(9, 3)) + 10 * rng.normal(size=3)
    inner = InnerProducts(H, np.zeros(9, int), normalize=True).about({0: H[0] * (1 + 1e-16)})
    np.testing.assert_array_equal(inner[0], 0)
    np.testing.assert_allclose(inner.diagonal()[1:], 1)


def test_a_kernel_from_known_products_is_the_same():
    F = np.random.default_rng(1).normal(size=(30, 4))
    rows, Y = np.arange(20), np.sign(np.random.default_rng(2).normal(size=(20, 2)))
    fits = [
        RidgeOnRows(F, gaussian=True, inner=inner).fit(rows, Y, np.ones(20), 0.3)[1]
        for inner in (None, F @ F.T)
    ]
    np.testing.assert_allclose(*fits, rtol=1e-12)
