"""Methods on the same labelled rows: which differ, and how surely."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from marda.diagnostics.evaluation import mcnemar, pairs_of


def test_mcnemar_and_its_correction():
    a = np.array([True] * 30 + [False] * 10)
    assert mcnemar(a, a) == 1
    b = np.array([False] * 12 + [True] * 18 + [True] * 3 + [False] * 7)
    assert mcnemar(a, b) == pytest.approx(binomtest(12, 15).pvalue)
    assert mcnemar(b, a) == mcnemar(a, b)
    right = [np.arange(200) < n for n in (100, 150, 152)]
    pairs = {(p.a, p.b): p for p in pairs_of(["x", "y", "z"], right)}
    assert pairs["x", "y"].significant
    assert pairs["x", "y"].difference.value == pytest.approx(-0.25)
    assert not pairs["y", "z"].significant
    assert pairs["y", "z"].p_value >= mcnemar(right[1], right[2])
