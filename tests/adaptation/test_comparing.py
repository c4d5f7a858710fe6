"""`compare`: methods side by side, judged by labels that none of them saw."""

from __future__ import annotations

import pytest

from adaptation.small import XS, XT, YS, YT, from_python, write
from marda.adaptation import ReadOptions, compare


def test_compare_judges_with_labels_that_no_method_saw(tmp_path):
    source, target = write(tmp_path / "s.csv", XS, YS), write(tmp_path / "t.csv", XT, YT)
    done = compare(source, target, ReadOptions("y"), methods=["BL", "S1", "S1M"])
    assert [r.method for r in done.results] == ["BL", "S1", "S1M"]
    for result in done.results:
        model = from_python(result.method)
        assert result.accuracy.value == pytest.approx((model.predict(XT) == YT).mean())
        assert result.accuracy.low <= result.accuracy.value <= result.accuracy.high
    assert len(done.pairs) == 3
    assert done.results[0].agreement == 1
    unlabelled = compare(source, write(tmp_path / "u.csv", XT), ReadOptions("y"))
    assert unlabelled.pairs == ()
    assert "no labels" in unlabelled.verdict
