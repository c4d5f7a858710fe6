"""A banded form against solves with the matrix itself."""

from __future__ import annotations

import numpy as np
import pytest

from marda._arrays import InaccurateError
from marda.operators.banded import WIDTH, BandedForm

rng = np.random.default_rng(11)
#: The panels end evenly, or not; there is none; blocks of rows are several.
SIZES = [(1, 4), (2, 4), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3), (40, 1), (50, 4), (133, 7)]


def psd(d: int, rank: int | None = None) -> np.ndarray:
    A = rng.standard_normal((d, rank or d))
    M = A @ A.T
    return M / np.linalg.norm(M, 2)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("d", "width"), SIZES)
def test_shifted_systems(d, width, order):
    M, B = psd(d), rng.standard_normal((d, 4))
    strengths, given = np.array([0.0, 1e-3, 1.0, 1e3]), B.copy()
    X = BandedForm(M.copy(order=order), width).solve(strengths, B)
    for i, s in enumerate(strengths):
        np.testing.assert_allclose(X[:, i] + s * (M @ X[:, i]), B[:, i], atol=1e-11)
    np.testing.assert_array_equal(B, given)


@pytest.mark.parametrize(("d", "width"), SIZES)
def test_the_band_has_the_eigenvalues(d, width):
    M = psd(d)
    form = BandedForm(M.copy(), width)
    H = sum(
        np.diag(row[: d - k], -k) + (np.diag(row[: d - k], k) if k else 0)
        for k, row in enumerate(form._band)
    )
    assert len(form._band) <= min(width, d - 1) + 1
    np.testing.assert_allclose(np.linalg.eigvalsh(H), np.linalg.eigvalsh(M), atol=1e-13)


@pytest.mark.parametrize("rank", [1, 3])
def test_columns_that_are_reduced_already(rank):
    """Zeros below the band, and a matrix of low rank: reflections of nothing."""
    d = 3 * WIDTH
    for M in (np.diag(np.linspace(0, 1, d)), psd(d, rank)):
        B = rng.standard_normal((d, 1))
        X = BandedForm(M.copy()).solve(np.array([10.0]), B)
        np.testing.assert_allclose(X + 10 * (M @ X), B, atol=1e-12)


def test_a_term_beside_which_nothing_is_left_is_refused():
    M = psd(30, 2)
    M -= 1e-12 * np.eye(30)  # as rounding may
    with pytest.raises(InaccurateError, match="outweighs"):
        BandedForm(M, 4).solve(np.array([1e15]), np.ones((30, 1)))
