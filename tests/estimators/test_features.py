"""Centred and normalised denoised rows, and ridges and weights that are fractions."""

from __future__ import annotations

import numpy as np
import pytest

from estimators.helpers import classifier, fitted, scores
from marda import MDA, MDAClassifier
from marda.estimators.model import row_lengths
from problems import make_case, relative

METHODS = ("BL", "MCF", "S1", "S1M", "S1D", "J12", "J12D")


def test_every_domain_is_centred_at_its_own_mean():
    case = make_case(sources=2)
    plain = fitted(MDA("S1D"), case).transform(case.X)
    model = fitted(MDA("S1D", center=True), case)
    H = model.transform(case.X, sample_domain=case.domain)
    for d in np.unique(case.domain):
        rows = case.domain == d
        np.testing.assert_allclose(H[rows].mean(0), 0, atol=1e-10)
        np.testing.assert_allclose(H[rows], plain[rows] - plain[rows].mean(0), atol=1e-9)
    target = case.domain < 0
    np.testing.assert_allclose(model.transform(case.X[target]), H[target], atol=1e-12)
    both = MDA("S1D", center=True).fit_transform(case.X, case.codes, sample_domain=case.domain)
    np.testing.assert_allclose(both, H, atol=1e-12)
    with pytest.raises(ValueError, match="a domain that fit has not seen"):
        model.transform(case.X, sample_domain=np.full(len(case.X), 7))


def test_a_balanced_source_is_centred_at_the_mean_of_its_class_means():
    case = make_case(n_classes=2)
    keep = np.r_[np.flatnonzero(case.codes[:36] == 0)[:4], np.flatnonzero(case.codes != 0)]
    case = case.take(np.sort(keep))
    plain = fitted(MDAClassifier("S1", class_weight="balanced"), case).transform(case.X)
    model = fitted(MDAClassifier("S1", class_weight="balanced", center=True), case)
    H = model.transform(case.X, sample_domain=case.domain)
    source, target = case.domain >= 0, case.domain < 0
    means = [H[source & (case.codes == c)].mean(0) for c in (0, 1)]
    np.testing.assert_allclose(means[0], -means[1], atol=1e-9)
    np.testing.assert_allclose(H[target], plain[target] - plain[target].mean(0), atol=1e-9)


def test_several_targets_have_one_center():
    case = make_case()
    domain = case.domain.copy()
    domain[-10:] = -2
    model = MDA("S1", center=True).fit(case.X, case.codes, sample_domain=domain)
    H = model.transform(case.X, sample_domain=domain)
    np.testing.assert_allclose(H[domain < 0].mean(0), 0, atol=1e-10)
    assert np.abs(H[domain == -2].mean(0)).max() > 1e-3


@pytest.mark.parametrize("layers", [1, 2])
def test_unit_length(layers):
    case = make_case()
    model = fitted(MDA("S1", normalize=True, n_layers=layers), case)
    np.testing.assert_allclose(np.linalg.norm(model.transform(case.X), axis=1), 1)
    centred = fitted(MDA("S1", center=True, n_layers=layers), case)
    H = centred.transform(case.X, sample_domain=case.domain)
    both = fitted(MDA("S1", center=True, normalize=True, n_layers=layers), case)
    want = H / np.linalg.norm(H, axis=1, keepdims=True)
    np.testing.assert_allclose(both.transform(case.X, sample_domain=case.domain), want, atol=1e-10)


def test_scores_of_centred_rows_are_linear_and_of_normalised_rows_not():
    case = make_case()
    model = fitted(MDAClassifier("S1", center=True), case)
    want = model.transform(case.X) @ model.Z_ + model.model_.z0
    np.testing.assert_allclose(scores(model, case.X), want, atol=1e-9)
    np.testing.assert_allclose(
        case.X @ model.coef_.T + model.intercept_, scores(model, case.X), atol=1e-9
    )
    for method in ("S1", "J12"):
        normalised = fitted(classifier(method, normalize=True), case)
        want = normalised.transform(case.X) @ normalised.Z_ + normalised.model_.z0
        np.testing.assert_allclose(scores(normalised, case.X), want, atol=1e-9)
        with pytest.raises(AttributeError, match="normalised rows are not linear"):
            _ = normalised.coef_


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", ["US", "SS"])
def test_relative_scaling_does_not_see_units(method, setting):
    case = make_case(setting, n_classes=2)
    base, scaled = (
        fitted(classifier(method, scaling="relative"), case, case.X * factor)
        for factor in (1.0, 1e3)
    )
    assert relative(scores(scaled, case.X * 1e3), scores(base, case.X)) < 1e-6


@pytest.mark.parametrize("method", METHODS[2:])
def test_other_scalings_do(method):
    case = make_case("US", n_classes=2)
    base, scaled = (
        fitted(classifier(method, ridge=1.0), case, case.X * factor) for factor in (1.0, 1e-2)
    )
    assert relative(scores(scaled, case.X * 1e-2), scores(base, case.X)) > 1e-3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("solver", ["dual", "cg"])
def test_relative_scaling_is_the_same_by_every_route(method, solver):
    case = make_case("US", n_classes=2)
    one, other = (
        fitted(classifier(method, scaling="relative", solver=s), case) for s in ("primal", solver)
    )
    assert relative(scores(other, case.X), scores(one, case.X)) < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lengths_of_rows_in_any_unit(dtype):
    X = np.array([[3, 4], [0, 0], [0, 5]], dtype=dtype)
    for scale in (1e-30, 1.0, 1e30) if dtype is np.float32 else (1e-300, 1.0, 1e300):
        got = row_lengths((X * scale).astype(dtype))
        np.testing.assert_allclose(got / scale, [5, 0, 5], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_domain_of_one_row_is_its_own_centre(dtype):
    """Centred, it is nothing: its rounding must not be scaled to unit length."""
    rng = np.random.default_rng(0)
    X = rng.normal(5, 1, (41, 30)).astype(dtype)
    y, domain = np.arange(41) % 2, np.repeat([1, 2, -1], [20, 1, 20])
    model = MDA("S1", center=True, normalize=True).fit(X, y, sample_domain=domain)
    H = model.transform(X, sample_domain=domain)
    np.testing.assert_array_equal(H[20], 0)
    np.testing.assert_allclose(np.linalg.norm(np.delete(H, 20, axis=0), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("solver", ["primal", "dual", "cg"])
def test_a_target_of_one_row_has_no_direction_by_any_route(solver):
    """Found by torture: rounding of the dual route, 38 units in the last place, became ±1."""
    X = np.array([[-0.56], [-4.4], [-3.46], [0.41], [-1.24], [-1.81], [-0.91]])
    y, domain = np.array([0, 1, 1, 0, 0, 0, -1]), np.array([0, 0, 0, 1, 1, 1, -1])
    model = MDAClassifier("J12", solver=solver, noise=0.0, center=True, normalize=True)
    F = model.fit(X, y, sample_domain=domain).transform(X, sample_domain=domain)
    np.testing.assert_allclose(F.ravel(), [1, -1, -1, 1, -1, -1, 0])
