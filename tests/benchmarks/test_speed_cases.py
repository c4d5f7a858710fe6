import os
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from marda import MDAClassifierCV, datasets
from marda._machine import machine_facts
from marda.benchmarks import speed_cases as cases


def test_a_search_of_fifty_candidates_in_units_of_a_fit():
    figures = cases.search(n=60, d=12)
    assert figures["candidates"] == 50
    assert figures["ratio"] == pytest.approx(figures["search_s"] / figures["fit_s"])
    assert "'method':" in figures["best"]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_predictions_in_units_of_a_product(kind):
    figures = cases.prediction(kind, n=200, d=300)
    assert figures["rows"] == 100
    assert figures["ratio"] == pytest.approx(figures["compact_s"] / figures["product_s"])
    assert figures["same_predictions"] > 0.9


def test_features_of_many_scales(monkeypatch):
    """Their rows are of unit length, and no multiple of the noise is a ridge."""
    seen = []
    fit = MDAClassifierCV.fit
    monkeypatch.setattr(
        MDAClassifierCV,
        "fit",
        lambda self, X, *args, **kw: (seen.append(X), fit(self, X, *args, **kw))[1],
    )
    cases.search(n=30, d=40, many_scales=True)
    squares = (seen[0] ** 2).sum(0)
    assert squares.max() > 1000 * squares.min()
    assert (seen[0] ** 2).sum(1) == pytest.approx(1)


def test_the_search_is_the_users_own(monkeypatch):
    """What is timed is the fit of MDAClassifierCV, its refit included."""
    seen = []
    fit = MDAClassifierCV.fit
    monkeypatch.setattr(
        MDAClassifierCV,
        "fit",
        lambda self, *args, **kw: (seen.append(self), fit(self, *args, **kw))[1],
    )
    cases.search(n=60, d=12)
    assert [model.candidates for model in seen] == [cases.GRID]


@pytest.fixture
def tasks_run(monkeypatch):
    """The tasks that were measured; each costs 1 s by auto and 4 s by the d×d route."""
    seen = []

    def measured(data, pair):
        seen.append(pair)
        if len(seen) > 5:
            raise KeyboardInterrupt
        return {"task": pair, "auto_s": 1.0, "primal_s": 4.0, "least_agreement": 0.5 + len(seen)}

    monkeypatch.setattr(cases, "_measure_task", measured)
    monkeypatch.setattr(datasets, "load", lambda *args: None)
    return seen


def test_sums_over_tasks(tasks_run):
    told = []
    figures = cases.oc10(tasks=3, tell=told.append)
    assert told == pytest.approx([1 / 3, 2 / 3, 1])
    assert (figures["marda_s"], figures["reference_s"], figures["ratio"]) == (3.0, 12.0, 4.0)
    assert figures["least_agreement"] == 1.5
    assert [t["task"] for t in figures["by_task"]] == cases.PAIRS[:3]


def test_ended_run_goes_on_where_it_stopped(tasks_run, tmp_path):
    keep = tmp_path / "new" / "tasks.sqlite"
    with pytest.raises(KeyboardInterrupt):
        cases.oc10(tasks=7, keep=str(keep))
    del tasks_run[:]
    assert len(cases.oc10(tasks=7, keep=str(keep))["by_task"]) == 7
    assert tasks_run == cases.PAIRS[5:7]


def test_tasks_of_another_machine_are_measured_again(tasks_run, tmp_path, monkeypatch):
    keep = tmp_path / "tasks.sqlite"
    with monkeypatch.context() as patch:
        patch.setattr(cases, "machine_facts", lambda: {**machine_facts(), "cores": 1000})
        cases.oc10(tasks=1, keep=str(keep))
    cases.oc10(tasks=1, keep=str(keep))
    cases.oc10(tasks=1, keep=str(keep))
    assert tasks_run == cases.PAIRS[:1] * 2


def test_routes_are_timed_on_the_same_answer():
    """A ratio of times says nothing unless both sides compute the same."""
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        figures = cases.alternation(d=30)
    assert max(figures["difference_W"], figures["difference_Z"]) < 1e-9
    assert figures["ratio"] == pytest.approx(figures["reference_s"] / figures["marda_s"])
    figures = cases.dual(n=20, d=60)
    assert max(figures["difference_coef"], figures["difference_rows"]) < 1e-9
    assert cases.path(d=20, levels=5, columns=3)["difference"] < 1e-9


@pytest.mark.parametrize(("case", "least", "most"), [("blas_share", 0, 1), ("checking", 0, 1)])
def test_shares_of_a_fit(case, least, most):
    figures = getattr(cases, case)(d=60)
    assert least < figures["ratio"] < most
    parts = [value for name, value in figures.items() if name.endswith("%")]
    assert sum(parts) == pytest.approx(100 * figures["ratio"] if parts else 0)


def test_costs_beside_a_plain_fit():
    figures = cases.floor(d=40)
    assert figures["ratio"] == pytest.approx(figures["fit_s"] / figures["floor_s"])
    assert cases.joint(d=40)["ratio"] > 0


def test_the_default_on_all_rows_beside_its_sample():
    figures = cases.all_rows(n=2000, d=4, sample=100)
    assert figures["learned_from"] == 2000
    assert figures["accuracy"] > figures["sample_accuracy"]
    assert figures["ratio"] == figures["fit_s"] / figures["sample_s"]


def test_files_of_the_default_and_their_predictions():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    figures = cases.serving("dense", n=100, d=30)
    assert figures["same_predictions"] == 1
    assert 0 < figures["file_mb"] < 1
    own, graph = figures["rows_per_second"], figures["onnx_rows_per_second"]
    assert figures["ratio"] == pytest.approx(own / graph)


def test_the_default_in_factorisations():
    figures = cases.default(n=300, d=600)
    assert figures["ratio"] == pytest.approx(figures["fit_s"] / figures["cholesky_s"])
    assert [name.split(",")[0] for name in figures["members"]] == [
        "adapted",
        "adapted",
        "source only",
    ]
    assert figures["peak_mb"] > 0


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_memory_beside_its_estimate(kind):
    figures = cases.memory("S1D", kind, n=40, d=150)
    assert figures["estimate_GB"] > 0
    assert figures["peak_GB"] >= figures["fit_GB"] >= 0


def test_a_task_by_both_solvers(monkeypatch):
    """On rows where both must agree."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    rows = {n: datasets.Domain(rng.normal(size=(60, 5)) + 3 * y[:, None], y) for n in "aw"}
    known = {"licence": "", "citation": "", "notes": "", "kind": "image", "identity": "here"}
    monkeypatch.setattr(cases, "MODELS_US", ("S1", "S1D"))
    figures = cases._measure_task(datasets.Dataset("oc10", rows, ("x", "y"), **known), "a-w")
    assert figures["least_agreement"] == 1
    assert set(figures["auto_by_model_s"]) == {"S1", "S1D"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "n", "d"), [("S1", 60, 30), ("J12", 60, 30), ("auto", 200, 600)]
)
def test_a_fit_by_torch(method, n, d):
    if os.environ.get("MARDA_REQUIRE_TORCH") != "1":
        pytest.importorskip("torch")
    n, d = (200, 600) if method == "auto" else (60, 30)
    figures = cases.gpu(method, n=n, d=d, device="cpu")
    assert figures["difference"] < 1e-9
    assert figures["residual"] < 1e-6
    assert figures["ratio"] == pytest.approx(figures["numpy_s"] / figures["device_s"])
    assert figures.get("same_predictions", 1) == 1


def test_a_fit_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="torch is not installed"):
        cases.gpu(n=60, d=30)
