"""Methods beyond the paper's models, on generated rows."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.linear_model import RidgeClassifier

import marda
from benchmarks.fakes import plan_leaderboard
from marda import datasets
from marda.benchmarks import execute
from marda.benchmarks.peers import adapters as peers
from marda.benchmarks.plan import ADAPTERS

SPECS = plan_leaderboard(datasets=["oc10-surf"], tasks=["dslr-webcam"])


def specs_of(*models, **kinds):
    return [
        s
        for s in SPECS
        if s.model in models and s.classifier in kinds.get("classifiers", [s.classifier])
    ]


@pytest.fixture(scope="module")
def task():
    shifted = datasets.make_shift("mean", n_source=60, n_target=80, n_features=30, seed=1)
    return datasets.make_task(shifted, *shifted.domains)


class Says:
    """A member that says one class of every row."""

    def __init__(self, column):
        self.column = column

    def scores(self, X):
        return np.tile(np.eye(2)[self.column], (X.shape[0], 1))


class FakeCV:
    """Remember how it was called and predict class 1."""

    calibration_: ClassVar = {"expected_accuracy": 0.7}
    members_ = Says(0), Says(1)

    def __init__(self, **params):
        FakeCV.params = params

    def fit(self, X, y, *, sample_domain):
        FakeCV.seen = (X.shape, (y == -1).sum(), (sample_domain < 0).sum())
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        return np.tile([0.1, 0.9], (X.shape[0], 1))

    def predict(self, X):
        return np.ones(X.shape[0], int)


def test_auto_sees_no_target_label(task, monkeypatch):
    monkeypatch.setattr(marda, "MDAClassifierCV", FakeCV, raising=False)
    (spec,) = specs_of("auto")
    (fitted,) = execute.fit_unit(task, [replace(spec, overrides=(("scoring", "snd"),))])
    assert fitted.message == ""
    assert FakeCV.params == {"random_state": 0, "scoring": "snd"}
    assert FakeCV.seen == ((140, 30), 80, 80)
    assert (fitted.predicted == 1).all()
    share = (task.y_test == 1).mean()
    assert fitted.params == {
        "ece": pytest.approx(100 * abs(0.9 - share)),
        "expected": 70.0,
        "best_member_accuracy": pytest.approx(100 * max(share, 1 - share)),
        "best_member_balanced_accuracy": 50.0,
    }


def test_classes_that_only_the_target_has_count_as_errors(task, monkeypatch):
    monkeypatch.setattr(marda, "MDAClassifierCV", FakeCV, raising=False)
    other = replace(task, y_test=np.where(task.y_test == 1, 5, task.y_test))
    (fitted,) = execute.fit_methods(other, specs_of("auto"))
    assert fitted.params["ece"] == pytest.approx(90.0)


def test_source_only_is_a_balanced_ridge_on_labelled_rows(task):
    (spec,) = specs_of("source-only", classifiers=["ridge"])
    (fitted,) = execute.fit_methods(task, [spec])
    alone = RidgeClassifier(class_weight="balanced").fit(task.X_source, task.y_source)
    np.testing.assert_array_equal(fitted.predicted, alone.predict(task.X_test))


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_matrix])
def test_peers_do_what_their_pipelines_do(task, wrap):
    config = sklearn.get_config()
    skada = pytest.importorskip("skada")
    sklearn.set_config(**config)
    wrapped = replace(
        task,
        X_source=wrap(task.X_source),
        X_target=wrap(task.X_target),
        X_test=wrap(task.X_test),
    )
    found = list(execute.fit_methods(wrapped, specs_of(*ADAPTERS)))
    assert [f.spec.model for f in found] == [p for p in ADAPTERS for _ in range(2)]
    assert sklearn.get_config() == config
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target)
    adapters = {
        "CORAL": skada.CORALAdapter(reg="auto"),
        "SubspaceAlignment": skada.SubspaceAlignmentAdapter(n_components=20, random_state=0),
        "LinearOT": skada.LinearOTMappingAdapter(reg=1.0),
        "OT": skada.OTMappingAdapter(),
    }
    for fitted in found:
        assert fitted.predicted is not None, fitted.message
        classifier = peers.classifier(fitted.spec.classifier)
        with sklearn.config_context(enable_metadata_routing=True):
            pipe = skada.make_da_pipeline(adapters[fitted.spec.model], classifier)
            pipe.fit(X, y.copy(), sample_domain=domain)
            expected = pipe.predict(task.X_test)
        assert (fitted.predicted == expected).mean() > 0.98, fitted.spec.model


def test_wide_rows_are_cut_and_few_rows_lose_nothing(task, monkeypatch):
    pytest.importorskip("skada")
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target)
    rows = peers.TaskRows(X, y, domain, task.X_test)
    monkeypatch.setattr(peers, "MAX_DIRECTIONS", 5)
    assert peers.narrow_rows(rows).X.shape == (140, 5)
    monkeypatch.setattr(peers, "MAX_DIRECTIONS", 29)
    few = replace(rows, X=X[:20], y=y[:20], domain=domain[:20])
    narrow = peers.narrow_rows(few)
    assert narrow.X.shape == (20, 20)
    np.testing.assert_allclose(narrow.X @ narrow.X.T, X[:20] @ X[:20].T, atol=1e-8)


def test_columns_of_tables_are_standardised_and_may_be_few(task):
    pytest.importorskip("skada")
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target)
    rows = peers.TaskRows(7 + 3 * X[:, :2], y, domain, task.X_test[:, :2])
    narrow = peers.narrow_rows(rows, columns=True)
    np.testing.assert_allclose([narrow.X.mean(0), narrow.X.std(0)], [[0, 0], [1, 1]], atol=1e-12)
    adapted = peers.adapt_rows("SubspaceAlignment", narrow)  # of two directions, not of 20
    assert adapted[0].shape == ((domain >= 0).sum(), 2)


def test_transport_draws_from_large_domains(task, monkeypatch):
    X, y, domain = marda.pack(task.X_source, task.y_source, task.X_target)
    monkeypatch.setattr(peers, "MAX_TRANSPORT_ROWS", 25)
    drawn = peers.draw_rows(peers.TaskRows(X, y, domain, task.X_test))
    assert (drawn.domain >= 0).sum() == (drawn.domain < 0).sum() == 25
    again = peers.draw_rows(peers.TaskRows(X, y, domain, task.X_test))
    np.testing.assert_array_equal(drawn.X, again.X)


def test_a_failure_is_a_row_and_stops_nobody(task, monkeypatch):
    pytest.importorskip("skada")
    monkeypatch.setenv("MARDA_MEMORY", "10KB")
    found = list(execute.fit_methods(task, specs_of("CORAL", "source-only")))
    failed = {f.spec.model for f in found if f.predicted is None}
    assert failed == {"CORAL"}
    message = next(f.message for f in found if f.predicted is None)
    assert message.startswith("MemoryError: dense rows need")
    assert sum(f.predicted is not None for f in found) == 3


def test_without_skada_its_rows_say_so(task, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skada", None)
    (fitted,) = execute.fit_methods(task, specs_of("OT", classifiers=["svm"]))
    assert "pip install 'marda[peers]'" in fitted.message


def test_an_ordinary_ridge_on_denoised_rows(task):
    specs = plan_leaderboard(datasets=["amt"], tasks=["books-dvd"], models=["S1"])
    both = {f.spec.classifier: f.predicted for f in execute.fit_unit(task, specs)}
    (alone,) = execute.fit_unit(task, [s for s in specs if s.classifier == "ridge10"])
    assert alone.predicted is not None, alone.message
    np.testing.assert_array_equal(both["ridge10"], alone.predicted)
    assert set(both) == {"ridge", "ridge10"}


# Tables -------------------------------------------------------------------------------------------


def named_specs(name, benchmark="generated"):
    return plan_leaderboard(datasets=[benchmark], tasks=[name])


def test_source_only_models_of_a_collection_know_their_folds():
    specs = [s for s in named_specs("same d=10") if s.model == "source-only"]
    task = execute.load_task(specs[0].task, None)
    found = list(execute.fit_methods(task, specs))
    assert [f.spec.classifier for f in found] == ["ridge", "logistic", "forest"]
    for fitted in found:
        assert 75 < fitted.params["source_folds"] < 100
        assert np.mean(fitted.predicted == task.y_test) > 0.8
    assert len({f.params["source_folds"] for f in found}) > 1


def test_folds_see_the_source_alone():
    (spec,) = (s for s in named_specs("moved") if s.classifier == "ridge")
    task = execute.load_task(spec.task, None)
    (one,) = execute.fit_methods(task, [spec])
    other = replace(task, X_target=task.X_target + 100, y_test=1 - task.y_test)
    (two,) = execute.fit_methods(other, [spec])
    assert one.params == two.params


def test_classes_weigh_alike_where_they_count_alike():
    plain, alike = (peers.column_classifier("ridge", m) for m in ("accuracy", "balanced_accuracy"))
    rng = np.random.default_rng(0)
    y = (np.arange(300) < 30).astype(int)
    X = rng.normal(size=(300, 2)) + y[:, None]
    assert plain.fit(X, y).predict(X).mean() < 0.05
    assert alike.fit(X, y).predict(X).mean() > 0.15
    with pytest.raises(ValueError, match="choose ridge, logistic or forest"):
        peers.column_classifier("svm", "accuracy")


def test_folds_need_two_rows_of_a_class():
    model = peers.column_classifier("ridge", "accuracy")
    X, y = np.arange(12.0)[:, None], np.r_[np.zeros(9, int), 1, 1, 1]
    assert 0 <= peers.source_folds(model, X, y, "accuracy") <= 1
    with pytest.raises(ValueError, match="a class has 1 labelled row"):
        peers.source_folds(model, X[:10], y[:10], "accuracy")


@pytest.mark.parametrize("told", [{}, {"expected_interval": (0.4, 0.9)}])
def test_what_auto_expects_of_itself_is_kept(monkeypatch, told):
    monkeypatch.setattr(FakeCV, "calibration_", {**FakeCV.calibration_, **told})
    monkeypatch.setattr(marda, "MDAClassifierCV", FakeCV)
    specs = [s for s in named_specs("five rows") if s.model == "auto"]
    (fitted,) = execute.fit_methods(execute.load_task(specs[0].task, None), specs)
    assert fitted.params["expected"] == pytest.approx(70)
    bounds = fitted.params.get("expected_low"), fitted.params.get("expected_high")
    assert bounds == (pytest.approx((40, 90)) if told else (None, None))
