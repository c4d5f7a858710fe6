"""The paper's figures and claims as data."""

import json
import os
from pathlib import Path

import pytest

from marda.benchmarks import paper
from marda.benchmarks.plan import BENCHMARKS, CLASSIFIERS, MODELS


@pytest.mark.data
def test_figures_equal_the_shared_tables():
    file = Path(os.environ["MARDA_DATA"]).parent / "paper-tables.json"
    if not file.exists():
        pytest.skip("the folder of the data has no paper-tables.json beside it")
    tables = json.loads(file.read_text())
    for name in ("us", "sup", "ss"):
        columns = [c.split("/") for c in tables[name].pop("columns")]
        for model, figures in tables[name].items():
            for (data, classifier), figure in zip(columns, figures, strict=True):
                assert paper.paper_figure(name, data.lower(), model, classifier) == figure
    printed = tables["off31_tasks"]
    printed.pop("columns")
    ours = {"+".join(k): v for k, v in paper.OFF31_OURS.items()} | paper.OFF31_QUOTED
    assert {k: tuple(v) for k, v in printed.items()} == ours


def test_cells_that_the_paper_does_not_print():
    assert paper.paper_figure("us", "oc10", "S1D", "ridge") == 85.6
    assert paper.paper_figure("us", "amt", "S1D", "nn") is None
    assert paper.paper_figure("us", "oc10", "S1M", "ridge") is None
    assert paper.paper_figure("us", None, "S1", "ridge") is None
    assert paper.paper_figure("surf", None, "J12C", "dscm") == paper.SURF_J12C_DSCM


def test_claims_are_about_runs_that_exist():
    for claim in paper.CLAIMS:
        assert set(claim.benchmarks) <= BENCHMARKS.keys()
        assert set(claim.classifiers) <= set(CLASSIFIERS)
        assert {model for pair in claim.comparisons for model in pair} <= set(MODELS)
