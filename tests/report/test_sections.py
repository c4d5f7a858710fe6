"""Sections of pages at their limits."""

from __future__ import annotations

import numpy as np

from marda.diagnostics.diagnosis import Gap
from marda.report.sections import confusion, features


def test_very_many_classes_give_a_list_of_errors_and_no_matrix():
    counts = np.diag(np.full(50, 5))
    counts[3, 7] = 4
    text = confusion(counts, [f"class {k}" for k in range(50)], "rows")
    assert isinstance(text, str)
    assert "class 3" in text
    assert "44.4%" in text


def test_gaps_of_few_rows_may_be_chance():
    gaps = [Gap("a", 1.0, 1.0)]
    assert "chance" in features(gaps, moved=False, few=True).parts[0]
    assert "chance" not in features(gaps, moved=False).parts[0]
