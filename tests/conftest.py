"""Shared by all tests: a reproducible hypothesis profile, and small problems."""

from __future__ import annotations

import os
import sys
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from marda.selection import adapted_ensemble, auto, source_only
from marda.shift import explain_shift
from marda.trees.forest import fit_forest
from problems import Case, always_adapted, make_case

settings.register_profile(
    "marda",
    derandomize=True,
    deadline=None,
    max_examples=20,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("marda")


@pytest.fixture
def case() -> Case:
    """Two domains, three classes, some labelled and many unlabelled target rows."""
    return make_case("SS", seed=7)


@pytest.fixture
def adapted_default(monkeypatch):
    """The default of `MDAClassifierCV` adapts, whatever the shift is."""
    monkeypatch.setattr("marda.selection.classifier_cv.fit_auto", always_adapted)


@pytest.fixture(scope="module")
def few_draws():
    """The default of `MDAClassifierCV` with small forests and few draws under a null.

    For tests of what is done with what they say; how surely they say it is tested elsewhere.
    """
    forest = partial(fit_forest, n_trees=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_only, "fit_forest", forest)
        patch.setattr(adapted_ensemble, "fit_forest", forest)
        patch.setattr(auto, "explain_shift", partial(explain_shift, n_draws=59))
        yield


@pytest.fixture(scope="session")
def spark():
    """A local session of two executor threads."""
    if os.environ.get("MARDA_REQUIRE_SPARK") != "1":
        pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "5")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
