"""Figures that a prototype measured, from real rows."""

import pytest

from marda.benchmarks.plan import Request
from marda.benchmarks.results import reproduce


@pytest.mark.data
def test_surf_in_us(tmp_path):
    request = Request("us", datasets=("oc10-surf",), models=("BL", "S1"), classifiers=("ridge",))
    outcome = reproduce(request, tmp_path)
    assert outcome.failures == ()
    figures = {row.label: row.cells[0].ours.mean for row in outcome.tables[0].blocks[0].rows}
    assert figures["BL"] == pytest.approx(46.9, abs=0.3)
    assert figures["S1"] == pytest.approx(49.3, abs=0.3)
