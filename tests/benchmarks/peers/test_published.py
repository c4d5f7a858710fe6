"""Published figures as data."""

import json
import os
from pathlib import Path

import pytest

from marda.benchmarks.peers.published import (
    SKADA,
    SKADA_COLUMNS,
    SOURCE_ONLY,
    skada_best,
    skada_figure,
)
from marda.datasets.skada_bench import TASKS


@pytest.mark.data
def test_figures_equal_the_shared_table():
    file = Path(os.environ["MARDA_DATA"]).parent / "skada-bench.json"
    if not file.exists():
        pytest.skip("the folder of the data has no skada-bench.json beside it")
    rows = json.loads(file.read_text())["rows"]
    # A second line of Train Src whose figures stand one column too far to the left.
    moved = rows.pop("NO_DA_SOURCE_ONLY_BASE_ESTIM SUPERVISED")
    assert moved["20newsgroups"] == rows[SOURCE_ONLY]["amazon_review"]
    assert {
        method: {"scorer": scorer, **dict(zip(SKADA_COLUMNS, figures, strict=True))}
        for method, (scorer, figures) in SKADA.items()
    } == rows


def test_every_task_has_figures():
    for task in TASKS:
        family = task.split()[0]
        assert skada_figure(SOURCE_ONLY, family) < skada_figure("Train Tgt", family)
    assert skada_best("mushrooms") == ("SA", 88.4)
    assert skada_best("phishing") == ("CORAL", 91.9)
    assert skada_figure("DASVM", "bci") is None
    assert skada_figure("DASVM", "amt") is None
    assert skada_best("amt") is None
