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


@pytest.mark.data
def test_quoted_figures_equal_the_shared_ones():
    file = Path(os.environ["MARDA_DATA"]).parent / "paper-tables.json"
    if not file.exists():
        pytest.skip("the folder of the data has no paper-tables.json beside it")
    shared = json.loads(file.read_text())["quoted_in_text"]
    names = {"auxiliary": "auxiliary classifiers (Duan 2009)"}
    ours = {f"OC10 US {names.get(k, k)}": v for k, v in paper.OC10_QUOTED.items()}
    ours |= {f"OC10 SS SURF {k}": v for k, v in paper.SURF_QUOTED.items()}
    ours |= {"OC10 US S1M": paper.S1M_QUOTED, "OC10 SS SURF J12C+dscm": paper.SURF_J12C_DSCM}
    assert ours == shared


def test_quoted_systems_have_a_table():
    assert paper.quoted("us", "oc10")["JDA"] == 87.5
    assert paper.quoted("us", "amt") == {"DANN": None}
    assert paper.quoted("surf", None)["MMDT"] == 52.5
    assert paper.quoted("sup", "oc10") == paper.quoted("us", "off31") == {}


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
        assert set(claim.others) <= set(CLASSIFIERS)
        assert all(model != other or claim.others for model, other in claim.comparisons)


def test_claims_are_counted_in_the_papers_own_tables():
    found = {claim.statement: claim.printed() for claim in paper.CLAIMS}
    assert len(found) == len(paper.CLAIMS) >= 20
    assert found["MDA improves the ridge baseline (S1 > BL)"] == (3, 3)
    assert found["J12 outperforms S1 whatever the classifier"] == (3, 7)
    assert found["J12 and J12D are similar in SUP (within 0.5)"] == (13, 14)
