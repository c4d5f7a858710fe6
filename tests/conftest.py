"""Shared by all tests: a reproducible hypothesis profile, and small problems."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

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
