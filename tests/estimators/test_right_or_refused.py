"""Fits are right to six digits, by another route if need be, or they are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, Moments, load, noise_path, pack
from marda._arrays import InaccurateError, SingularError
from problems import relative

SOLVERS = ("auto", "primal", "dual", "cg")
METHODS = ("BL", "MCF", "S1", "S1M", "S1C", "S1D", "J12", "J12M", "J12C", "J12D", "J12MCD")


def two_domains(n=40, d=300, scale=1.0, seed=0, classes=3, labels=3, dtype=np.float64):
    """Source rows, and shifted target rows of which a few per class carry a label."""
    rng = np.random.default_rng(seed)
    ys, yt = np.arange(n) % classes, np.arange(n) % classes
    means = rng.standard_normal((classes, d))
    Xs = means[ys] + rng.standard_normal((n, d))
    Xt = means[yt] + rng.standard_normal((n, d)) + 0.5 * rng.standard_normal(d)
    known = np.where(np.arange(n) < labels * classes, yt, -1)
    X, y, domain = pack((scale * Xs).astype(dtype), ys, (scale * Xt).astype(dtype), known)
    return X, y, domain, (scale * Xt).astype(dtype), yt


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("shape", [(40, 300), (300, 40)])
def test_the_baseline_is_scikit_learns_ridge_at_every_scale(shape, scale, dtype):
    """Before 0.2.0 the dual route that "auto" picks was at 42 % of its own rows at scale 1,000."""
    rng = np.random.default_rng(0)
    X, y = (scale * rng.standard_normal(shape)).astype(dtype), np.arange(shape[0]) % 3
    Y = np.where(y[:, None] == np.arange(3), 1.0, -1.0)
    exact = Ridge(alpha=1.0, solver="svd").fit(X.astype(np.float64), Y)
    for solver in SOLVERS:
        try:
            model = MDAClassifier("BL", solver=solver).fit(X, y)
        except (SingularError, InaccurateError):
            if solver == "auto":
                raise
            continue
        limit = 1e-8 if solver == "auto" else 1e-6
        assert relative(model.coef_, exact.coef_) < limit, solver
        assert np.abs(model.intercept_ - exact.intercept_).max() < limit


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("method", ["S1", "S1D", "S1M", "J12"])
def test_columns_that_are_empty_in_the_source(method, solver):
    """Before 0.2.0: NaN scores and class 0 for all rows, or a LinAlgError."""
    rng = np.random.default_rng(1)
    X, y, domain, Xt, yt = two_domains(30, 120, labels=0)
    X, Xt = np.maximum(X, 0), np.maximum(Xt, 0)
    empty = rng.permutation(120)[:40]
    X[np.ix_(domain >= 0, empty)] = 0
    # A shift in which s₂ + 2cs + nc² of an empty column rounds below zero
    X[:, empty] *= rng.uniform(0.1, 3, len(empty))
    model = MDAClassifier(method, solver=solver).fit(X, y, sample_domain=domain)
    scores = model.decision_function(Xt)
    assert np.isfinite(scores).all()
    assert model.residual_ < 1e-9
    exact = MDAClassifier(method, solver="primal").fit(X, y, sample_domain=domain)
    assert relative(model.coef_, exact.coef_) < 1e-6
    assert model.score(Xt, yt) > 0.6


def test_sums_of_squares_are_never_negative():
    rng = np.random.default_rng(0)
    X = rng.random((50, 400))
    X[:25, ::2] = 0
    domain = np.repeat([0, -1], 25)
    moments = Moments.from_arrays(X, None, domain)
    for where in (domain >= 0, domain < 0):
        group = np.isin(moments.domains, domain[where])
        _, _, squares = moments.select(group)
        assert squares.min() >= 0
        np.testing.assert_allclose(squares, (X[where] ** 2).sum(0), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_every_fit_knows_its_residual(method, tmp_path):
    X, y, domain, *_ = two_domains(30, 12)
    for solver in reversed(SOLVERS):
        model = MDAClassifier(method, solver=solver).fit(X, y, sample_domain=domain)
        assert 0 <= model.residual_ < 1e-9
    model.save(tmp_path / "m.marda")
    assert load(tmp_path / "m.marda").residual_ == model.residual_
    if method not in ("BL", "MCF"):
        assert MDA(method).fit(X, y, sample_domain=domain).residual_ < 1e-9
    moments = Moments.from_arrays(X, y, domain)
    assert MDAClassifier(method).fit_moments(moments).residual_ < 1e-9
    stream = MDAClassifier(method).partial_fit(X[:40], y[:40], sample_domain=domain[:40])
    assert stream.partial_fit(X[40:], y[40:], sample_domain=domain[40:]).residual_ < 1e-9


def test_the_choice_knows_its_residual_too(tmp_path):
    X, y, domain, *_ = two_domains(40, 12)
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    assert 0 <= model.residual_ < 1e-6
    model.save(tmp_path / "m.marda")
    assert load(tmp_path / "m.marda").residual_ == model.residual_


def test_auto_takes_another_route_and_a_forced_one_raises():
    """Columns of 1e-9 to 1e9 next to a ridge: rows × rows loses the small ones, columns do not."""
    rng = np.random.default_rng(0)
    X, y, domain, *_ = two_domains(12, 30)
    X = X * 10 ** rng.uniform(-9, 9, 30)
    settings = {"method": "S1", "noise": 0.3, "ridge": 1e-2}
    with pytest.raises(ValueError, match=r"'dual' route|singular"):
        MDAClassifier(**settings, solver="dual").fit(X, y, sample_domain=domain)
    primal = MDAClassifier(**settings, solver="primal").fit(X, y, sample_domain=domain)
    found = MDAClassifier(**settings).fit(X, y, sample_domain=domain)
    assert found.solver_ == "primal"
    assert relative(found.coef_, primal.coef_) < 1e-10


def test_no_route_no_answer():
    """Joint models of few rows without any ridge to speak of: every route is refused."""
    X, y, domain, *_ = two_domains(12, 30, labels=4)
    known = y != -1
    model = MDAClassifier("J12", ridge_class=1e-12, max_iter=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((InaccurateError, SingularError), match="ridge") as told:
            model.fit(X[known], y[known], sample_domain=domain[known])
    assert not hasattr(model, "coef_")
    assert "use a ridge above 0" not in str(told.value)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("ridge", [1e-300, 1e-100])
def test_ridges_that_are_lost(solver, ridge):
    """Before 0.2.0: infinities, "SVD did not converge", or an iteration without an end."""
    X, y, domain, *_ = two_domains(15, 40)
    for method in ("BL", "S1", "J12"):
        model = MDAClassifier(method, ridge_class=ridge, solver=solver, max_iter=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            refused = ""
            try:
                model.fit(X, y, sample_domain=domain)
            except (InaccurateError, SingularError) as error:
                refused = str(error)
        assert "use a ridge above 0" not in refused
        assert "conver" not in refused or "conjugate" in refused
        assert refused or np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-30, np.float32), (1e19, np.float32), (1e37, np.float32)]
    + [(s, np.float64) for s in (1e-200, 1e-150, 1e-80, 1e-30, 1e19, 1e39, 1e80, 1e150)],
)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_units_of_any_size_are_right_or_refused(scale, dtype, storage):
    """Before 0.2.0 means above 3.4e38 were infinite, and float32 rows of 1e19 overflowed."""
    X, y, domain, *_ = two_domains(20, 8)
    scaled = (scale * X).astype(dtype)
    rows = sp.csr_array(scaled) if storage == "sparse" else scaled
    for method in ("BL", "S1D", "J12M"):
        model, refused = MDAClassifier(method, scaling="relative"), ""
        try:
            model.fit(rows, y, sample_domain=domain)
        except ValueError as error:
            refused = str(error)
        if refused:
            assert not 1e-60 < scale < 1e60, refused  # only extremes may be refused
            assert "rescale X" in refused or "too large" in refused
            continue
        units = MDAClassifier(method, scaling="relative")
        units.fit(scaled.astype(np.float64) / scale, y, sample_domain=domain)
        got, wanted = model.decision_function(rows), units.decision_function(scaled / dtype(scale))
        assert np.abs(got - wanted).max() < 1e-5


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_rows_whose_squares_no_number_holds_are_refused(scale):
    """Before 0.2.0 rows of 1e-200 were told at chance without a word."""
    X, y, domain, *_ = two_domains(20, 8)
    for model in (MDA(), MDAClassifier("S1", classifier="nn"), DSCM(), MDAClassifierCV()):
        with pytest.raises(ValueError, match="whose square float64 cannot hold: rescale X"):
            model.fit(scale * X, y, sample_domain=domain)
    moments = Moments.from_arrays(1e-200 * X, y, sample_domain=domain)
    with pytest.raises(ValueError, match="too small"):
        MDAClassifier("S1").fit_moments(moments)


def test_huge_rows_are_not_predicted_and_tiny_ones_are():
    """Distances to rows of 1e160 are infinite, and so the same; rows of zeros may be tiny."""
    X, y, domain, *_ = two_domains(20, 8)
    for classifier in ("ridge", "kernel", "nn", "dscm"):
        model = MDAClassifier("S1", classifier=classifier).fit(X, y, sample_domain=domain)
        with pytest.raises(ValueError, match="whose square float64 cannot hold"):
            model.predict(1e160 * X)
        np.testing.assert_array_equal(model.predict(1e-200 * X), model.predict(0 * X))


def test_masked_rows_are_refused():
    """Before 0.2.0 what was masked was read."""
    X, y, domain, *_ = two_domains(20, 8)
    masked = np.ma.masked_array(X, X > 2)
    for model in (MDAClassifier(), MDAClassifierCV(), DSCM()):
        with pytest.raises(ValueError, match="masked array"):
            model.fit(masked, y, sample_domain=domain)
    for call in (MDAClassifier().partial_fit, Moments.from_arrays):
        with pytest.raises(ValueError, match="masked array"):
            call(masked, y, sample_domain=domain)
    with pytest.raises(ValueError, match="masked array"):
        noise_path(masked, [0.1, 0.5])
    model = MDAClassifier().fit(np.ma.masked_array(X), y, sample_domain=domain)
    np.testing.assert_array_equal(model.predict(X), model.predict(np.ma.masked_array(X)))
    with pytest.raises(ValueError, match="masked array"):
        model.predict(masked)


def test_float32_rows_of_scale_100():
    """coef_ belongs to the exact values of the rows, whatever precision they are kept in."""
    X, y, domain, *_ = two_domains(40, 300, scale=100, dtype=np.float32)
    for method in ("BL", "S1", "S1D", "J12"):
        low = MDAClassifier(method).fit(X, y, sample_domain=domain)
        high = MDAClassifier(method).fit(X.astype(np.float64), y, sample_domain=domain)
        assert relative(low.coef_, high.coef_) < 1e-8, method


def test_two_sources_mmd_and_no_noise_by_every_route():
    """Before 0.2.0 coef_ of the dual route was off by 90 %."""
    rng = np.random.default_rng(0)
    X, y, domain, *_ = two_domains(30, 60, labels=0)
    domain = np.where(domain >= 0, rng.integers(0, 2, len(domain)), domain)
    found = {
        solver: MDAClassifier("S1M", noise=0.0, solver=solver).fit(X, y, sample_domain=domain)
        for solver in SOLVERS
    }
    for solver, model in found.items():
        assert relative(model.coef_, found["primal"].coef_) < 1e-7, solver


@pytest.mark.parametrize("solver", ["primal", "dual", "cg", "auto"])
@pytest.mark.parametrize("method", ["S1C", "J12C"])
def test_equal_means_have_no_weight_relative_to_themselves(method, solver):
    """Found by torture: γ tr(Q)/tr(M) blew up the rounding of M = 0, as large as the rest."""
    X = np.zeros((12, 3))
    X[[0, 0, 2, 3, 5, 6, 6], [1, 2, 2, 2, 1, 1, 2]] = [0.55, -0.38, -1.57, 1.89, -1.11, -0.92, 0.71]
    y = np.array([0, 1, 2, 0, 1, 0, 0, 1, 1, 1, 1, 1])  # the rows of class 1 are 0
    domain = np.repeat([0, -1], [10, 2])
    settings = {"scaling": "relative", "solver": solver}
    wanted = MDAClassifier(method[:-1], **settings).fit(X, y, sample_domain=domain)
    for rows in (X, X / 8, sp.csr_array(X), sp.csr_array(X / 8)):
        model = MDAClassifier(method, **settings).fit(rows, y, sample_domain=domain)
        got = model.decision_function(rows)
        np.testing.assert_allclose(got, wanted.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("solver", ["primal", "dual", "cg", "auto"])
def test_rows_that_are_all_the_same_stay_so(solver):
    """Found by torture: a predictor learned from rounding got a weight over its own size."""
    X = np.full((6, 2), 3.0) * [1, 0.7]
    y, domain = np.array([0, 1, 1, -1, -1, -1]), np.repeat([0, -1], 3)
    model = MDAClassifier("J12", scaling="relative", solver=solver)
    np.testing.assert_allclose(model.fit(X, y, sample_domain=domain).transform(X), X)
    for other in ({"method": "S1D"}, {"noise": 0.0}):  # no spread, no noise: no ridge
        with pytest.raises(ValueError, match=r'all the same.*Use scaling="balanced"'):
            model.set_params(**other).fit(X, y, sample_domain=domain)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("shape", [(6, 7), (14, 8), (40, 300)])
def test_a_ridge_on_centred_float32_rows_keeps_its_digits(shape, scale):
    """Found by torture: off by 2e-3, or refused, where its Gram was taken in float32."""
    n = shape[0]
    y, domain = np.arange(n) % 2, np.repeat([0, -1], n // 2)
    X = np.random.default_rng(0).standard_normal(shape) + y[:, None]
    X = (scale * X).astype(np.float32)
    y[domain < 0] = -1
    model = MDAClassifier("S1", center=True)
    got, wanted = (
        model.fit(rows, y, sample_domain=domain).predict_proba(rows)
        for rows in (X, X.astype(np.float64))
    )
    np.testing.assert_allclose(got, wanted, atol=1e-6)
