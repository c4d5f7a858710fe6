"""S1's map for every noise level from one eigendecomposition (math.md §7)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDA
from marda._arrays import InaccurateError, SingularError
from marda.noise_paths import noise_path, path
from problems import make_case, moments_of, relative

LEVELS = [0.0, 0.1, 0.5, 0.9]


def fit(X, p, fit_intercept, ridge=0.0):
    return MDA("S1", noise=p, ridge=ridge, fit_intercept=fit_intercept, solver="primal").fit(X)


def rows(wide=False):
    case = make_case("US", d=40 if wide else 6, n_source=15 if wide else 36, n_target=12, seed=1)
    return case.X


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_path_is_S1_without_a_ridge(wide, fit_intercept, sparse):
    X = rows(wide)
    levels = LEVELS[1:] if wide else LEVELS  # wide rows without noise: Q is singular
    path = noise_path(sp.csr_array(X) if sparse else X, levels, fit_intercept=fit_intercept)
    d = X.shape[1]
    V = np.random.default_rng(0).standard_normal((d, 3))
    assert len(path) == len(levels)
    assert path.shape == (len(levels), d, d)
    together = path.columns(V)
    given = sp.csr_array(X) if sparse else X
    for i, (p, H) in enumerate(zip(levels, path.rows(given), strict=True)):
        model = fit(X, p, fit_intercept)
        assert path[i].noise == p
        assert relative(path[i] @ V, model.W_ @ V) < 1e-9
        assert relative(together[i], model.W_ @ V) < 1e-9
        assert np.abs(path[i].offset - model.offset_).max() < 1e-9
        assert relative(path[i].apply(given), model.transform(X)) < 1e-9
        assert relative(H, model.transform(X)) < 1e-9


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_a_ridge_is_relative_to_the_features_scale(ridge, fit_intercept):
    """The penalty ω·D in place of ω·I: rows (Q + ωD)⁻¹P."""
    X = rows()
    S = X.T @ X
    D = np.diag(S).copy()
    C = X - X.mean(0) if fit_intercept else X
    for m, p in zip(
        noise_path(X, LEVELS, ridge=ridge, fit_intercept=fit_intercept), LEVELS, strict=True
    ):
        q = 1 - p
        Q = q**2 * C.T @ C + np.diag(p * q * D)
        W = np.linalg.solve(Q + ridge * np.diag(D), q * C.T @ C)
        assert relative(m @ np.eye(6), W) < 1e-10


def test_moments_instead_of_rows():
    case = make_case("SS", seed=2)
    V = np.eye(6)
    ours = noise_path(moments_of(case), LEVELS).columns(V)
    assert relative(ours, noise_path(case.X, LEVELS).columns(V)) < 1e-10
    with pytest.raises(ValueError, match="needs moments with Grams"):
        noise_path(moments_of(case, grams=False), LEVELS)


@pytest.mark.parametrize("wide", [True, False])
def test_empty_columns_stay_out(wide):
    X = rows(wide)
    X[:, 2] = 0
    kept = np.delete(np.arange(X.shape[1]), 2)
    W = noise_path(X, [0.5])[0] @ np.eye(X.shape[1])
    assert np.abs(W[2]).max() == 0
    assert np.abs(W[:, 2]).max() == 0
    small = noise_path(X[:, kept], [0.5])[0] @ np.eye(len(kept))
    assert relative(W[np.ix_(kept, kept)], small) < 1e-10


def test_sequence():
    path = noise_path(rows(), LEVELS)
    assert [m.noise for m in path] == LEVELS
    assert [m.noise for m in path[1:3]] == LEVELS[1:3]
    assert path[-1].noise == 0.9
    with pytest.raises(IndexError):
        path[4]
    assert len(noise_path(rows())) == 19


def test_float32_rows():
    X = rows().astype(np.float32)
    single, double = noise_path(X, [0.5]), noise_path(X.astype(float), [0.5])
    assert relative(single[0] @ np.eye(6), double[0] @ np.eye(6)) < 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": [0.5, 1.0]}, r"in \[0, 1\), got 1"),
        ({"noise": []}, "list of dropout probabilities"),
        ({"noise": [[0.1, 0.2]]}, "list of dropout probabilities"),
        ({"ridge": -1.0}, "ridge must be at least 0"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        noise_path(rows(), **options)


def test_the_callers_rows_are_unchanged():
    X, levels = rows(), np.array(LEVELS)
    held = X.copy()
    list(noise_path(X, levels).rows(X))
    np.testing.assert_array_equal(X, held)
    assert levels.tolist() == LEVELS


def test_the_path_tends_to_the_identity_without_noise():
    X = rows()
    np.testing.assert_allclose(noise_path(X, [0.0])[0] @ np.eye(6), np.eye(6), atol=1e-9)


# Right or refused ---------------------------------------------------------------------------------


def test_levels_without_a_map_are_refused():
    X = rows(wide=True)
    with pytest.raises(SingularError, match=r"noise=0 and ridge=0 .*rank 26 of 40"):
        noise_path(X, [0.5, 0.0])
    assert len(noise_path(X, [0.5, 0.0], ridge=1e-3)) == 2


@pytest.mark.parametrize("wide", [True, False])
def test_maps_that_are_not_right_to_six_digits_are_refused(wide):
    X = rows(wide)
    X[:, 1] = X[:, 0] * (1 + 1e-9 * np.arange(len(X)))  # all but the same column
    with pytest.raises(InaccurateError, match=r"noise=0 is not right .* raise ridge=1e-13"):
        noise_path(X, [0.0], ridge=1e-13)
    assert len(noise_path(X, [0.0], ridge=1e-6)) == 1


def test_the_probe_sees_a_wrong_basis(monkeypatch):
    real = path.symmetric_eigen

    def off(*arguments, **options):
        values, V = real(*arguments, **options)
        return values * (1 + 1e-4), V

    monkeypatch.setattr(path, "symmetric_eigen", off)
    with pytest.raises(InaccurateError, match="relative residual"):
        noise_path(rows(), [0.5])


def test_rows_far_from_the_origin_keep_their_digits():
    X = rows() + 1e6
    model = fit(X, 0.5, True)
    assert (
        relative(noise_path(X, [0.5])[0].apply(X) - X.mean(0), model.transform(X) - X.mean(0))
        < 1e-9
    )
