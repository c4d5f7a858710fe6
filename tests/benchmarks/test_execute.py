import os
import warnings
from dataclasses import replace
from importlib import import_module
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.version import version as scipy_version

import marda
from marda import datasets
from marda.benchmarks import execute
from marda.benchmarks.plan import group_units
from marda.estimators import classifier
from marda.operators.maps import DenoisingMap

from .fakes import plan_table

OLD = tuple(map(int, scipy_version.split(".")[:2])) < (1, 14)


class FakeClassifier:
    """Predict class 0 for everything, and remember how it was called."""

    calls: ClassVar[list] = []

    def __init__(self, method, **params):
        self.method, self.params = method, params
        self.n_iter_ = 3

    def fit(self, X, y, sample_domain):
        FakeClassifier.calls.append((self.method, self.params, X.shape, y.copy()))
        if self.method == "J12":
            raise ValueError("Q is singular")
        if self.method == "S1":
            warnings.warn("slowly", RuntimeWarning, stacklevel=2)
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], int)


@pytest.fixture
def fake(monkeypatch):
    FakeClassifier.calls = []
    monkeypatch.setattr(marda, "MDAClassifier", FakeClassifier, raising=False)
    monkeypatch.setattr(
        classifier, "training_rows", lambda model, X, y, sample_domain: (X, y, sample_domain)
    )
    monkeypatch.setattr(classifier, "fit_rows", lambda model, rows, shared: model.fit(*rows))
    monkeypatch.setattr(
        marda, "paper_settings", lambda kind: {"noise": {"text": 0.9}[kind]}, raising=False
    )

    def pack(Xs, ys, Xt, yt):
        domain = np.r_[np.zeros(len(ys)), -np.ones(len(yt))]
        return np.vstack([Xs, Xt]), np.r_[ys, yt], domain

    monkeypatch.setattr(marda, "pack", pack, raising=False)
    shifted = datasets.make_shift(n_source=30, n_target=40, seed=1)
    source, target = list(shifted.domains)[:2]

    def load(spec, data_dir):
        return datasets.make_task(shifted, source, target, spec.setting, seed=spec.draw)

    monkeypatch.setattr(execute, "load_task", load)


def unit_of(table, **changes):
    specs = plan_table(
        table, datasets=["amt"], tasks=["books-dvd"], classifiers=["ridge"], draws=1, **changes
    )
    return group_units(specs)[0]


def test_rows_of_a_unit(fake):
    rows = list(execute.run_unit(unit_of("us", models=["BL", "S1", "J12"]), None))
    assert [(r.spec.model, r.status) for r in rows] == [
        ("BL", "done"), ("S1", "done"), ("J12", "failed"),
    ]  # fmt: skip
    first, second, third = rows
    assert first.balanced_accuracy == pytest.approx(50.0)
    assert 0 < first.accuracy < 100
    assert first.n_test == 40
    assert first.n_iter == 3
    assert first.params == {"noise": 0.9}
    assert first.peak_mb > 1
    assert first.load_seconds > 0
    assert len(first.data_checksum) == 64
    assert first.machine
    assert second.message == "RuntimeWarning: slowly"
    assert third.message.startswith("ValueError: Q is singular (test_execute.py:")
    assert third.accuracy is None


def test_settings_and_overrides(fake):
    list(execute.run_unit(unit_of("us", models=["BL"], overrides=[("ridge", 10)]), None))
    list(execute.run_unit(unit_of("us", models=["BL"], settings="marda"), None))
    params = [call[1] for call in FakeClassifier.calls]
    assert params == [
        {"classifier": "ridge", "noise": 0.9, "ridge": 10},
        {"classifier": "ridge"},
    ]


def test_hidden_labels_stay_hidden(fake):
    list(execute.run_unit(unit_of("us", models=["BL"]), None))
    list(execute.run_unit(unit_of("ss", models=["BL"]), None))
    list(execute.run_unit(unit_of("sup", models=["BL"]), None))
    us, ss, sup = ([int(np.sum(call[3] == -1)), len(call[3])] for call in FakeClassifier.calls)
    assert us == [40, 70]
    assert ss == [34, 70]
    assert sup == [0, 36]


def test_balanced():
    truth, predicted = np.array([0, 0, 0, 0, 1]), np.array([0, 0, 0, 1, 0])
    assert execute.balanced_accuracy(truth, predicted) == pytest.approx(0.375)
    # Classes of the predictions alone are errors, and no classes of the mean.
    assert execute.balanced_accuracy(truth, np.where(predicted, 7, 0)) == pytest.approx(0.375)


@pytest.mark.data
def test_tasks_of_the_paper():
    present = execute.present_domains(["oc10", "oc10-decaf6", "off31", "amt", "oc10-surf"], None)
    assert len(present["oc10"]) == len(present["oc10-surf"]) == len(present["amt"]) == 4
    assert present["oc10-decaf6"] == ("dslr", "webcam")
    (spec, *_) = plan_table("sup", datasets=["amt"], tasks=["books-kitchen"])
    task = execute.load_task(spec.task, None)
    assert task.X_target.shape == (6, 5000)
    assert task.X_test.shape[0] == 5945
    (spec, *_) = plan_table("surf", tasks=["dslr-amazon"])
    task = execute.load_task(spec.task, None)
    assert task.X_source.shape == (80, 800)
    assert task.labelled.sum() == 30
    for seen, rows in (("train", 2000), ("test", 5945), ("both", 7945)):
        found = plan_table("us", datasets=["amt"], tasks=["books-kitchen"], unlabelled=seen)
        task = execute.load_task(found[0].task, None)
        assert (task.X_target.shape[0], task.X_test.shape[0]) == (rows, 5945)


@pytest.mark.parametrize("table", ["us", "sup", "ss"])
def test_shared_fit_gives_what_separate_fits_give(table):
    shifted = datasets.make_shift(n_source=40, n_target=60, n_features=12, n_classes=3, seed=2)
    specs = plan_table(table, datasets=["off31"], tasks=["amazon-dslr"], draws=1)
    task = datasets.make_task(shifted, *shifted.domains, specs[0].task.setting)
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    found = list(execute.fit_unit(task, specs))
    assert {f.spec for f in found} == set(specs)
    for fitted in found:
        assert fitted.predicted is not None, fitted.message
        spec = fitted.spec
        alone = marda.MDAClassifier(
            spec.model, classifier=spec.classifier, **marda.paper_settings("image")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone.fit(X, y, sample_domain=domain)
        np.testing.assert_array_equal(fitted.predicted, alone.predict(task.X_test))


@pytest.mark.parametrize("normalize", [False, True])
def test_models_of_one_base_map_rows_once(normalize, monkeypatch):
    """With fewer rows than features, W of a model is W₀ of its MMD terms and a few columns."""
    shifted = datasets.make_shift(n_source=20, n_target=20, n_features=90, n_classes=2, seed=2)
    task = datasets.make_task(shifted, *shifted.domains, "US")
    specs = plan_table(
        "us",
        datasets=["off31"],
        tasks=["amazon-dslr"],
        models=["S1", "S1M", "S1D", "J12", "J12M"],
        classifiers=["ridge", "dscm"],
        overrides=[("normalize", normalize)],
    )
    given, calls = DenoisingMap.apply_base, []
    monkeypatch.setattr(
        DenoisingMap, "apply_base", lambda self, X: calls.append(self.base) or given(self, X)
    )
    found = list(execute.fit_unit(task, specs))
    assert len(calls) == 2 * len(set(calls)) == 4  # labelled rows and test rows; "" and "M"
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    settings = {**marda.paper_settings("image"), "normalize": normalize}
    for fitted in found:
        kind = fitted.spec.classifier
        alone = marda.MDAClassifier(fitted.spec.model, classifier=kind, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone.fit(X, y, sample_domain=domain)
        np.testing.assert_array_equal(fitted.predicted, alone.predict(task.X_test))


@pytest.mark.parametrize("model", ["BL", "MCF"])
@pytest.mark.parametrize("classifiers", [["nn", "dscm", "ridge"], ["nn"]])
def test_rows_that_nothing_denoises_stay_sparse(model, classifiers, monkeypatch):
    """Text of 13,500 × 14,400 would take 1.5 GB where 5 MB will do; the answers are the same."""
    words = datasets.make_shift(n_source=40, n_target=60, n_features=12, n_classes=3, seed=3)
    task = datasets.make_task(words, *words.domains, "US")
    sparse = {name: sp.csr_matrix(getattr(task, name)) for name in ("X_source", "X_target")}
    sparse_task = replace(task, **sparse, X_test=sp.csr_matrix(task.X_test))
    specs = plan_table(
        "us", datasets=["amt"], tasks=["books-dvd"], models=[model], classifiers=classifiers
    )
    dense = {f.spec.classifier: f.predicted for f in execute.fit_unit(task, specs)}
    monkeypatch.setattr(marda.MDAClassifier, "transform", None)  # not needed
    found = {f.spec.classifier: f.predicted for f in execute.fit_unit(sparse_task, specs)}
    assert found.keys() == dense.keys() == set(classifiers)
    for name, predicted in found.items():
        np.testing.assert_array_equal(predicted, dense[name])


@pytest.fixture(params=["array_api_strict", pytest.param("torch", marks=pytest.mark.slow)])
def device(request, monkeypatch):
    """Of torch; or one of array-api-strict, which gives no array away."""
    if os.environ.get("MARDA_REQUIRE_TORCH") != "1":
        pytest.importorskip("array_api_compat")
        pytest.importorskip(request.param)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    if request.param == "array_api_strict":
        strict = import_module(request.param)
        there = strict.Device("device1")
        monkeypatch.setattr(
            execute, "to_torch", lambda X, name: strict.asarray(X.toarray(), device=there)
        )
    return "cpu"


@pytest.mark.skipif(OLD, reason="scikit-learn follows arrays with SciPy 1.14 or newer")
@pytest.mark.parametrize("classifiers", [["ridge", "nn", "dscm"], ["nn", "dscm", "ridge10"]])
@pytest.mark.parametrize("setting", ["us", "ss"])
def test_a_device_gives_the_same_classes(classifiers, setting, device):
    words = datasets.make_shift(n_source=40, n_target=60, n_features=120, n_classes=3, seed=3)
    task = datasets.make_task(words, *words.domains, setting.upper())
    sparse = {name: sp.csr_matrix(getattr(task, name)) for name in ("X_source", "X_target")}
    task = replace(task, **sparse, X_test=sp.csr_matrix(task.X_test))
    specs = plan_table(
        setting, datasets=["amt"], tasks=["books-dvd"], classifiers=classifiers, draws=1
    )
    here = {f.spec: f.predicted for f in execute.fit_unit(task, specs)}
    there = {f.spec: f for f in execute.fit_unit(task, specs, device)}
    assert here.keys() == there.keys() == set(specs)
    for spec, fitted in there.items():
        assert fitted.predicted is not None, fitted.message
        np.testing.assert_array_equal(fitted.predicted, here[spec], err_msg=str(spec))


def test_settings_that_change_rows_are_obeyed():
    """BL with normalised rows classifies those, not the rows as they came."""
    words = datasets.make_shift(n_source=40, n_target=60, n_features=12, n_classes=3, seed=3)
    task = datasets.make_task(words, *words.domains, "US")
    specs = plan_table(
        "us",
        datasets=["amt"],
        tasks=["books-dvd"],
        models=["BL"],
        classifiers=["nn", "ridge"],
        overrides=[("normalize", True)],
    )
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    settings = {**marda.paper_settings("text"), "normalize": True}
    for fitted in execute.fit_unit(task, specs):
        alone = marda.MDAClassifier("BL", classifier=fitted.spec.classifier, **settings)
        alone.fit(X, y, sample_domain=domain)
        np.testing.assert_array_equal(fitted.predicted, alone.predict(task.X_test))


@pytest.mark.parametrize("table", ["us", "surf"])
def test_surf_rows_may_keep_their_lengths(monkeypatch, table):
    rng = np.random.default_rng(0)
    domains = {
        name: datasets.Domain(rng.poisson(2.0, (100, 6)).astype(float), np.arange(100) % 4)
        for name in ("amazon", "webcam")
    }
    made = datasets.Dataset(
        "oc10-surf", domains, tuple("abcd"), "", "", "", "surf", identity="made"
    )
    monkeypatch.setattr(execute, "_load", lambda loader, data_dir: made)
    lengths = {}
    for prepared in ("paper", "no-l2"):
        spec = plan_table(
            table, datasets=["oc10-surf"], tasks=["amazon-webcam"], preprocessing=prepared
        )[0]
        task = execute.load_task(spec.task, None)
        lengths[prepared] = np.linalg.norm(task.X_source, axis=1)
    np.testing.assert_allclose(lengths["paper"], 1.0)
    assert np.ptp(lengths["no-l2"]) > 0.1
