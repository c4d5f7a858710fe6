"""BL and MCF on wide sparse rows: conjugate gradients, without a d×d or n×n matrix."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from marda import MDAClassifier
from marda.benchmarks.speed_cases import sparse_problem
from problems import relative

CODE = """
import json, time
from marda import MDAClassifier
from marda.benchmarks.speed_cases import sparse_problem
from marda._machine import peak_mb
X, y, domain = sparse_problem(9000, 10_000, 20)
for method in ("BL", "MCF"):
    started = time.process_time()
    model = MDAClassifier(method).fit(X, y, sample_domain=domain)
    model.predict(X)
    print(json.dumps([method, model.solver_, time.process_time() - started, peak_mb()]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource module")
def test_memory_and_time_follow_the_entries():
    """A matrix of 10,000² takes 800 MB; factorising it, minutes."""
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["BL", "MCF"]
    for method, solver, seconds, mb in lines:
        assert solver == "cg", method
        assert seconds < 20, method
        assert mb < 500, method


@pytest.mark.parametrize("method", ["BL", "MCF"])
@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"class_weight": "balanced"}])
def test_the_answer_is_the_exact_one(method, options):
    X, y, domain = sparse_problem(1500, 1200, 10)
    exact = MDAClassifier(method, solver="primal", **options)
    exact.fit(X, y, sample_domain=domain)
    auto = MDAClassifier(method, **options).fit(X, y, sample_domain=domain)
    assert auto.solver_ == "cg"
    assert relative(auto.coef_, exact.coef_) < 1e-8
    assert relative(auto.decision_function(X), exact.decision_function(X)) < 1e-8
    assert abs(auto.intercept_ - exact.intercept_).max() < 1e-8
    np.testing.assert_array_equal(auto.predict(X), exact.predict(X))


@pytest.mark.parametrize("method", ["BL", "MCF"])
def test_a_ridge_too_small_to_iterate_is_factorised(method):
    X, y, domain = sparse_problem(1500, 1200, 10)
    options = {"ridge_class": 1e-8, "noise": 1e-9}
    exact = MDAClassifier(method, solver="primal", **options).fit(X, y, sample_domain=domain)
    auto = MDAClassifier(method, **options).fit(X, y, sample_domain=domain)
    assert auto.solver_ != "cg"
    assert relative(auto.decision_function(X), exact.decision_function(X)) < 1e-4
