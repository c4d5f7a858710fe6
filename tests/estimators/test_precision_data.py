"""The benchmark data: the same predictions in single precision, and by every route."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from marda import MDAClassifier, pack, paper_settings
from marda.datasets import load, make_task
from problems import relative

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not os.environ.get("MARDA_DATA"), reason="MARDA_DATA is not set"),
]


TASKS = [
    ("oc10-squeezenet", "dslr", "webcam"),
    ("oc10-surf", "amazon", "dslr"),
    ("amt", "books", "dvd"),
]
LARGEST = 1200
"""Rows of a dual fit, columns of a primal one: its time grows with their cube."""


@pytest.mark.parametrize("method", ["S1D", "J12M"])
@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize(("name", "source", "target"), TASKS)
def test_single_precision_predicts_the_same(name, source, target, solver, method):
    task = make_task(load(name), source, target)
    X, y, domain = pack(task.X_source, task.y_source, task.X_target)
    X_test, step = task.X_test, -(-X.shape[solver == "primal"] // LARGEST)
    if solver == "primal":
        X, X_test = X[:, ::step], X_test[:, ::step]
    else:
        X, y, domain = X[::step], y[::step], domain[::step]
    options = {"solver": solver, "tol": 1e-4}
    double = MDAClassifier(method, **options).fit(X, y, sample_domain=domain)
    single = MDAClassifier(method, **options).fit(X.astype(np.float32), y, sample_domain=domain)
    agree = single.predict(X_test.astype(np.float32)) == double.predict(X_test)
    print(f"{name} {method} {solver}: coef_ {relative(single.coef_, double.coef_):.1e}")
    assert agree.mean() >= 0.995
    assert relative(single.coef_, double.coef_) < 1e-2


ROUTES = [
    (*pair, method, solver)
    for pair in (("dslr", "webcam"), ("webcam", "dslr"))
    for method in ("S1", "S1D", "J12")
    for solver in ("auto", "dual", "primal", "cg")
]


@pytest.mark.filterwarnings("ignore:the alternation")
@pytest.mark.parametrize(("source", "target", "method", "solver"), ROUTES)
def test_decaf6_by_every_route(source, target, method, solver):
    """Wide rows with columns that are empty in the source: 9.8 % before 0.2.0."""
    with np.load(os.path.join(os.environ["MARDA_DATA"], "oc10-decaf6-dw.npz")) as data:
        step = 2 if solver == "primal" else 1  # 2,048 columns are still many more than rows
        rows = {name: normalize(data[f"{name}_X"][:, ::step]) for name in (source, target)}
        labels = {name: data[f"{name}_y"] for name in (source, target)}
    X, y, domain = pack(rows[source], labels[source], rows[target])
    settings = {**paper_settings("image"), "solver": solver}
    model = MDAClassifier(method, **settings).fit(X, y, sample_domain=domain)
    accuracy = model.score(rows[target], labels[target])
    print(f"{source}→{target} {method} {solver}: {100 * accuracy:.1f} %")
    assert accuracy >= (0.97 if method == "J12" else 0.98)
    assert model.residual_ < 1e-9
