"""Arrays of other libraries: the answers of numpy, and nothing crosses to the host but labels.

array-api-strict has a second device whose arrays refuse to become numpy's, or to meet others: a
fit there shows that none does. The default alone copies its rows to the host, through `to_numpy`.
torch is tested where it is installed.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from scipy.version import version as scipy_version
from sklearn.utils import get_tags

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, Moments, load, noise_path
from marda import _arrays as arrays_module
from marda.estimators import fitting, kernel_ridge, self_training
from marda.estimators.kernel_ridge import RidgeOnRows, signs
from marda.noise import Gaussian, Poisson
from marda.operators import maps as maps_module
from marda.operators import rows as rows_module
from marda.operators.rows import Rows
from marda.persist import on_host
from marda.selection import ensemble as ensemble_module
from marda.selection.inputs import host_rows
from marda.trees.forest import fit_forest

METHODS = ("BL", "MCF", "S1", "S1D", "S1M", "S1CD", "J12", "J12MD")
SETTINGS = ({}, {"class_weight": "balanced", "scaling": "relative"}, {"fit_intercept": False})
OLD = tuple(map(int, scipy_version.split(".")[:2])) < (1, 14)
pytestmark = pytest.mark.skipif(OLD, reason="scikit-learn follows arrays with SciPy 1.14 or newer")


class Arrays(NamedTuple):
    """A library: numbers into its arrays, and back."""

    there: Any
    here: Any


@pytest.fixture(params=["array_api_strict", pytest.param("torch", marks=pytest.mark.slow)])
def arrays(request, monkeypatch):
    if os.environ.get("MARDA_REQUIRE_TORCH") != "1":
        pytest.importorskip("array_api_compat")
        pytest.importorskip(request.param)
    library = import_module(request.param)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with sklearn.config_context(array_api_dispatch=True):
        if request.param == "torch":
            yield Arrays(library.asarray, lambda A: A.numpy())
            return
        device, host = library.Device("device1"), library.Device("CPU_DEVICE")
        yield Arrays(
            lambda A: library.asarray(A, device=device), lambda A: np.asarray(A.to_device(host))
        )


def rows(n: int, d: int, dtype: str = "float64"):
    """Three classes, a target that is shifted and of which six rows have a label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2 * n)
    y[:3] = y[n : n + 3] = np.arange(3)
    X = rng.normal(size=(2 * n, d)) + 2 * np.eye(3, d)[y]
    X[n:] += 0.5
    y[n + 6 :] = -1
    return X.astype(dtype), y, np.where(np.arange(2 * n) < n, 1, -2)


def off(A, B) -> float:
    return float(np.abs(A - B).max() / max(np.abs(B).max(), 1e-30))


@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize(
    ("method", "dtype"),
    [*((method, "float64") for method in METHODS), ("S1D", "float32"), ("J12", "float32")],
)
def test_fits_are_those_of_numpy(arrays, method, solver, dtype):
    there, here = arrays
    for (n, d), setting in zip(((30, 6), (15, 40), (12, 9)), cycle(SETTINGS), strict=False):
        X, y, domain = rows(n, d, dtype)
        plain = MDAClassifier(method, solver=solver, **setting).fit(X, y, sample_domain=domain)
        other = MDAClassifier(method, solver=solver, **setting)
        other.fit(there(X), there(y), sample_domain=there(domain))
        X_there = there(X)
        for a, b in (
            (other.coef_, plain.coef_),
            (other.intercept_, plain.intercept_),
            (other.W_, plain.W_),
            (other.W_map_ @ there(np.eye(d)), plain.W_map_ @ np.eye(d)),
            (other.transform(X_there), plain.transform(X)),
            (other.predict_proba(X_there), plain.predict_proba(X)),
            (other.predict(X_there), plain.predict(X)),
        ):
            assert type(a) is type(X_there)
            assert a.device == X_there.device
            assert here(a).dtype == b.dtype
            assert off(here(a), b) < (1e-10 if dtype == "float64" else 1e-5)
        assert other.n_iter_ == plain.n_iter_
        assert other.residual_ < 1e-6
        assert other.score(X_there, there(y)) == plain.score(X, y)


def test_text_labels_stay_on_the_host(arrays):
    X, y, domain = rows(12, 5)
    words = np.array(["a", "b", "c", "?"], dtype=object)[y]
    model = MDAClassifier("S1", unlabeled="?").fit(arrays.there(X), words, sample_domain=domain)
    assert (model.predict(arrays.there(X))[:12] == words[:12]).mean() > 0.5


def test_rows_that_are_the_same(arrays):
    """The row space has fewer dimensions than there are rows."""
    X, y, domain = rows(10, 50)
    X[1], X[12] = X[0], X[11]
    plain, other = (
        MDAClassifier("J12D", solver="dual").fit(f(X), y, sample_domain=domain)
        for f in (np.array, arrays.there)
    )
    assert off(arrays.here(other.coef_), plain.coef_) < 1e-10


@pytest.mark.parametrize("noise", [Gaussian(0.3), Poisson(), np.linspace(0.1, 0.6, 8)])
def test_noises(arrays, noise):
    X, y, domain = rows(20, 8)
    X = np.abs(X)
    plain, other = (
        MDA("S1MC", noise=noise).fit(f(X), y, sample_domain=domain)
        for f in (np.array, arrays.there)
    )
    assert off(arrays.here(other.transform(arrays.there(X))), plain.transform(X)) < 1e-10


def test_centred_rows_in_parts(arrays, monkeypatch):
    monkeypatch.setattr(rows_module, "DEVICE_BYTES", 8 * 16 * 7)  # 16 rows of seven columns
    rng = np.random.default_rng(0)
    X, center, weights = rng.normal(size=(40, 7)), np.linspace(-1, 2, 7), rng.random(7)
    V, U = rng.normal(size=(7, 3)), rng.normal(size=(3, 40))
    for m in (center, None):
        there = Rows(arrays.there(X), None if m is None else arrays.there(m))
        A = X - (0 if m is None else m)
        for found, wanted in (
            (there.dot(arrays.there(V)), A @ V),
            (there.combine(arrays.there(U)), U @ A),
            (there.gram(), A.T @ A),
            (there.kernel(arrays.there(weights)), (A * weights) @ A.T),
        ):
            np.testing.assert_allclose(arrays.here(found), wanted, atol=1e-12)


@pytest.mark.parametrize("ridge", [1e-3, 30.0, 1e9])
def test_strong_ridges_and_rows_in_parts(arrays, ridge, monkeypatch):
    """Where little is left of a diagonal it is summed, and rows are mapped in several parts."""
    monkeypatch.setattr(maps_module, "DEVICE_BYTES", 1)
    X, y, domain = rows(60, 5)  # two parts
    model = MDA("S1D", noise=0.2, ridge=ridge, solver="primal")
    model.fit(arrays.there(X), y, sample_domain=domain)
    own = MDA("S1D", noise=0.2, ridge=ridge, solver="primal").fit(X, y, sample_domain=domain)
    assert off(arrays.here(model.W_), own.W_) < 1e-12
    assert off(arrays.here(model.transform(arrays.there(X))), own.transform(X)) < 1e-12


@pytest.mark.parametrize("unit", [1.0, 1e6])  # the second takes singular values
@pytest.mark.parametrize("shape", [(20, 30), (40, 8)])
def test_linear_ridges_on_rows(arrays, shape, unit):
    rng = np.random.default_rng(0)
    F, codes = rng.normal(size=shape) * unit, rng.integers(0, 3, shape[0])
    some = np.arange(shape[0] // 2)
    Y, weights = signs(codes, 3)[some], np.ones(len(some))
    for G in (F, arrays.there(F)):
        ridge = RidgeOnRows(G, gaussian=False)
        solution, scores = ridge.fit(some, Y, weights, 1.0)
        left_out = ridge.leave_one_out(some, Y, weights, 1.0)
        found = scores, left_out, ridge.scores(solution, some)
        if G is F:
            expected = found
    for ours, theirs in zip(found, expected, strict=True):
        assert off(ours, theirs) < 1e-9


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_inverses_by_halves(arrays, dtype, monkeypatch):
    monkeypatch.setattr(arrays_module, "SOLVED_AT_ONCE", 4)
    F = np.random.default_rng(0).normal(size=(40, 13)) * np.logspace(0, 2, 13)
    G = F.T @ F
    L = np.linalg.cholesky(G).astype(dtype)
    found = arrays.here(arrays_module.cholesky_inverse(arrays.there(L)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found @ G, np.eye(13), atol=1e-3 if dtype == "float32" else 1e-11)
    assert off(found, found.T) < 1e-6


def test_dscm(arrays):
    there, here = arrays
    X, y, domain = rows(20, 8)
    X = X + 100
    plain = DSCM(domain_weights={1: 2.0}).fit(X, y, sample_domain=domain)
    other = DSCM(domain_weights={1: 2.0}).fit(there(X), there(y), sample_domain=there(domain))
    assert off(here(other.means_), plain.means_) < 1e-13
    assert abs(other.temperature_ / plain.temperature_ - 1) < 1e-10
    a, b = here(other.decision_function(there(X))), plain.decision_function(X)
    assert off(a, b) < 1e-8  # numpy's distances are not about the data
    np.testing.assert_array_equal(here(other.predict(there(X))), plain.predict(X))


def test_moments(arrays):
    """Of two parts, merged, they are those of all; a model of them is that of the rows."""
    there, here = arrays
    X, y, domain = rows(20, 8)
    parts = [
        Moments.from_arrays(there(X[k]), there(y[k]), domain[k], class_grams=True, batch_size=7)
        for k in (np.arange(0, 40, 2), np.arange(1, 40, 2))
    ]
    both, whole = parts[0] + parts[1], Moments.from_arrays(X, y, domain, class_grams=True)
    moved = both.shifted(there(whole.shift))
    for field in ("squares", "gram", "gram_labelled", "class_grams"):
        assert off(here(getattr(moved, field)), getattr(whole, field)) < 1e-12
    for classifier in ("ridge", "dscm"):
        model = MDAClassifier("S1", class_weight="balanced", classifier=classifier)
        scores = here(model.fit_moments(both).predict_proba(there(X)))
        assert off(scores, model.fit_moments(whole).predict_proba(X)) < 1e-10


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(20, 8), (6, 30)])
def test_noise_path(arrays, shape, intercept):
    there, here = arrays
    X = rows(*shape)[0]
    plain, other = (
        noise_path(f(X), [0.2, 0.7], fit_intercept=intercept) for f in (np.array, there)
    )
    V = np.random.default_rng(1).normal(size=(shape[1], 2))
    assert off(here(other.columns(there(V))), plain.columns(V)) < 1e-10
    assert off(here(other[1].apply(there(X))), plain[1].apply(X)) < 1e-10
    assert np.abs(here(other[0].offset) - plain[0].offset).max() < 1e-10


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(20, 8), (6, 30)])
def test_files(arrays, tmp_path, shape, dtype):
    """What is read back is numpy's, and predicts the same."""
    there, here = arrays
    X, y, domain = rows(*shape, dtype)
    model = MDAClassifier("J12D").fit(there(X), y, sample_domain=domain)
    model.save(tmp_path / "model")
    read = load(tmp_path / "model")
    limit = 1e-10 if dtype == "float64" else 1e-6
    assert off(read.predict_proba(X), here(model.predict_proba(there(X)))) < limit
    assert off(read.transform(X), here(model.transform(there(X)))) < limit
    moments = Moments.from_arrays(there(X), y, domain)
    moments.save(tmp_path / "moments")
    np.testing.assert_array_equal(Moments.load(tmp_path / "moments").sums, here(moments.sums))


@pytest.mark.parametrize(
    "setting",
    [
        {"classifier": "kernel"},
        {"refine": 2},
        {"center": True},
        {"normalize": True},
        {"n_layers": 2},
        {"n_pivots": 3},
        {"solver": "cg"},
    ],
)
def test_models_of_numpy_alone(arrays, setting):
    X, y, domain = rows(10, 4)
    model = MDAClassifier("S1", **setting)
    assert not get_tags(model).array_api_support
    with pytest.raises(ValueError, match=f"{next(iter(setting))}=.* is for numpy arrays"):
        model.fit(arrays.there(X), y, sample_domain=domain)


def test_what_does_not_mix(arrays):
    there = arrays.there
    X, y, domain = rows(10, 4)
    ours, theirs = (
        MDAClassifier("S1").fit(f(X), y, sample_domain=domain) for f in (np.array, there)
    )
    same = r"must use the same namespace and the same device"
    with pytest.raises(ValueError, match=rf"MDAClassifier.predict\(\) {same}"):
        theirs.predict(X)
    with pytest.raises(ValueError, match=same):
        ours.predict(there(X))
    with pytest.raises(ValueError, match=rf"transform\(\) {same}"):
        theirs.transform(X)
    with pytest.raises(ValueError, match=rf"DSCM.predict\(\) {same}"):
        DSCM().fit(there(X), y, sample_domain=domain).predict(X)
    with pytest.raises(ValueError, match="moments merge where they are"):
        Moments.from_arrays(there(X)) + Moments.from_arrays(X)
    with pytest.raises(ValueError, match="takes arrays of its own library and device"):
        noise_path(there(X), [0.5])[0].apply(X)


def test_what_is_refused(arrays):
    there = arrays.there
    X = rows(10, 4)[0]
    with pytest.raises(ValueError, match=r"Moments\.from_arrays"):
        MDA().partial_fit(there(X))
    with pytest.raises(TypeError, match=r"Moments\.from_arrays"):
        Moments.from_batches([there(X)])
    with pytest.raises(ValueError, match="singular"):
        MDA("S1", noise=0.0, ridge=0.0, solver="primal").fit(there(X @ np.ones((4, 4))))
    with pytest.raises(ValueError, match="NaN"):
        MDA().fit(there(np.where(X > 1, np.nan, X)))
    with pytest.raises(ValueError, match="candidates is for numpy arrays"):
        MDAClassifierCV({"noise": [0.5]}).fit(there(X), np.arange(20) % 2)
    with pytest.raises(ValueError, match="non-negative"):
        MDA("S1", noise=Poisson()).fit(there(X))


def words(n: int = 60, d: int = 600, n_classes: int = 2):
    """Counts of words that classes prefer, some more frequent in the target; no label there."""
    rng = np.random.default_rng(0)
    y, target = np.arange(2 * n) % n_classes, np.arange(2 * n) >= n
    taste, other = rng.normal(size=(n_classes, d)), np.exp(rng.normal(size=d))
    chance = np.exp(taste[y]) * np.where(target[:, None], other, 1)
    X = rng.poisson(20 * chance / chance.sum(1, keepdims=True)).astype(float)
    return X, np.where(target, -1, y), np.where(target, -1, 1)


def chequered(n: int = 200):
    """A table in which forests are best, and a target that no map of rows undoes."""
    rng = np.random.default_rng(0)
    Xs, Xt = rng.normal(size=(2, n, 4))
    ys = (Xs[:, 0] * Xs[:, 1] > 0).astype(int)
    Xt = np.where(np.arange(n)[:, None] % 2, 0.2 * Xt + 2, Xt - 1)
    return np.vstack([Xs, Xt]), np.append(ys, np.full(n, -1)), np.repeat([1, -1], n)


def labelled(n: int = 24, d: int = 520):
    """Rows of many columns that are not zero, and six target labels."""
    X, y, domain = rows(n, d, "float32")
    X[n:] *= np.linspace(0.3, 2, d, dtype=np.float32)
    return X, y, domain


#: Rows, labels and domains; what the first member is called.
DEFAULTS = {
    "words": (words, "adapted, unit rows"),
    "words of three classes": (lambda: words(n_classes=3), "adapted, unit rows"),
    "labelled": (labelled, "adapted, unit rows"),
    "no target": (lambda: (*(part[:24] for part in labelled()[:2]), None), "adapted, unit rows"),
    "a table": (chequered, "adapted, leaves rows"),
    "a moved table": (lambda: rows(40, 4), "source only"),
}


@pytest.fixture
def small_forests(monkeypatch):
    for module in ("source_only", "adapted_ensemble"):
        few = partial(fit_forest, n_trees=20)
        monkeypatch.setattr(f"marda.selection.{module}.fit_forest", few)
    # A line knows nothing of chequered classes; asked all the same, it speaks for leaves.
    monkeypatch.setattr("marda.selection.auto.ASKED", 0.0)


def both_defaults(arrays, X, y, domain):
    """The default of numpy's rows, and that of the others."""
    domains = (domain, None if domain is None else arrays.there(domain))
    return (
        MDAClassifierCV().fit(X, y, sample_domain=domains[0]),
        MDAClassifierCV().fit(arrays.there(X), arrays.there(y), sample_domain=domains[1]),
    )


def assert_same_predictions(arrays, plain, other, X):
    there = arrays.there(X)
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        a, b = getattr(other, method)(there), getattr(plain, method)(X)
        assert (type(a), a.device) == (type(there), there.device)
        if method == "predict":
            assert np.mean(arrays.here(a) == b) >= 0.999
        else:
            assert off(arrays.here(a), b) < 1e-4


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default(arrays, small_forests, name):
    given, first = DEFAULTS[name]
    X, y, domain = given()
    plain, other = both_defaults(arrays, X, y, domain)
    assert other.members_[0].name.startswith(first)
    assert [m.name for m in other.members_] == [m.name for m in plain.members_]
    assert_same_predictions(arrays, plain, other, X)
    assert other.score(arrays.there(X), y) == plain.score(X, y)
    assert get_tags(other).array_api_support


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_default_in_few_directions(arrays, adapted_default, monkeypatch, n_classes, dtype):
    """Compact members predict; files and graphs are those of numpy's models."""
    for name, value in (("SIZES", ((60, 30),)), ("LEADING", 8), ("LARGER", 0.0)):
        monkeypatch.setattr(ensemble_module, name, value)
    X, y, domain = words(n_classes=n_classes)
    plain, other = both_defaults(arrays, X.astype(dtype), y, domain)
    assert other.compact_ is not None
    assert other.compression_["same_predictions"] == plain.compression_["same_predictions"]
    assert_same_predictions(arrays, plain, other, X.astype(dtype))


@pytest.mark.parametrize("single", [2**20, 0])
def test_the_default_of_more_rows_than_a_kernel_has(arrays, adapted_default, monkeypatch, single):
    for module in (kernel_ridge, self_training, fitting):
        monkeypatch.setattr(module, "MAX_EXACT", 50)
    monkeypatch.setattr(kernel_ridge, "LANDMARKS", 40)
    monkeypatch.setattr(kernel_ridge, "SINGLE_PRECISION", single)
    monkeypatch.setattr(self_training, "COMPARED_ROWS", 30)
    X, y, domain = words()
    assert_same_predictions(arrays, *both_defaults(arrays, X, y, domain), X)


@pytest.mark.parametrize("compress", [True, False])
def test_files_of_the_default(arrays, adapted_default, tmp_path, compress):
    X, y, domain = words()
    model = MDAClassifierCV().fit(arrays.there(X), y, sample_domain=domain)
    model.save(tmp_path / "model", compress=compress)
    read = load(tmp_path / "model")
    found = arrays.here(model.predict_proba(arrays.there(X)))
    assert off(read.predict_proba(X), found) < 1e-6
    assert off(on_host(model).transform(X), arrays.here(model.transform(arrays.there(X)))) < 1e-6
    with pytest.raises(ValueError, match=r"MDAClassifierCV.predict\(\) must use the same"):
        model.predict(X)


def test_rows_of_the_host(arrays):
    """Mostly zeros are sparse there; the rows are the same."""
    for X, sparse in ((words()[0], True), (rows(10, 4)[0], False)):
        found = host_rows(arrays.there(X))
        assert sp.issparse(found) == sparse
        np.testing.assert_array_equal(found.toarray() if sparse else found, X)
        assert host_rows(found) is found


@pytest.mark.parametrize("arrays", ["torch"], indirect=True)
@pytest.mark.slow
def test_rows_with_gradients(arrays):
    """As a network leaves them: what is fitted on them has no part in the network."""
    X, y, domain = rows(10, 4)
    there = arrays.there(X).requires_grad_()
    model = MDAClassifier("J12").fit(there, y, sample_domain=domain)
    assert not model.coef_.requires_grad
    assert not model.predict_proba(there).requires_grad


def test_a_library_that_is_not_followed(monkeypatch):
    class Stranger:
        def __array_namespace__(self):
            return np

    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with (
        sklearn.config_context(array_api_dispatch=True),
        pytest.raises(TypeError, match="marda follows those of torch, CuPy"),
    ):
        MDA().fit(Stranger())
