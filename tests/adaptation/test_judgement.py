"""What labelled rows of the target say of a model that had not seen them."""

from __future__ import annotations

import numpy as np
import pytest

from adaptation.small import XS, XT, YS, YT, D, write
from marda.adaptation import ReadOptions, adapt
from marda.adaptation.judgement import mcnemar, pairs_of


def test_labelled_target_rows_judge_without_having_been_seen(tmp_path, monkeypatch):
    source = write(tmp_path / "s.csv", XS, YS)
    target = write(tmp_path / "t.csv", XT, list(YT))
    page = tmp_path / "r.html"
    judged = adapt(source, target, ReadOptions("y"), report=(page, lambda r: "")).judgement
    assert judged.n_rows == len(XT)
    assert judged.adapted.value == judged.confusion.trace() / len(XT)
    assert judged.gain.value == pytest.approx(judged.adapted.value - judged.plain.value)
    # Where a fit is expensive, a fifth of the labels judges alone.
    monkeypatch.setattr("marda.adaptation.judgement.EXPENSIVE_FIT", 0)
    few = adapt(source, target, ReadOptions("y"), report=(page, lambda r: "")).judgement
    assert few.n_rows == len(XT) // 5
    monkeypatch.undo()
    # Labels without meaning: a model that had seen them would be right above chance.
    noise = np.random.default_rng(0).permutation(np.repeat(YT, 8))
    rows = np.random.default_rng(1).normal(size=(len(noise), D))
    target = write(tmp_path / "u.csv", rows, list(noise))
    judged = adapt(
        source, target, ReadOptions("y"), report=(page, lambda r: ""), classifier="nn", method="BL"
    ).judgement
    assert abs(judged.adapted.value - 1 / 3) < 0.1


def test_mcnemar_and_its_correction():
    a = np.array([True] * 30 + [False] * 10)
    assert mcnemar(a, a) == 1
    from scipy.stats import binomtest

    b = np.array([False] * 12 + [True] * 18 + [True] * 3 + [False] * 7)
    assert mcnemar(a, b) == pytest.approx(binomtest(12, 15).pvalue)
    assert mcnemar(b, a) == mcnemar(a, b)
    right = [np.arange(200) < n for n in (100, 150, 152)]
    pairs = {(p.a, p.b): p for p in pairs_of(["x", "y", "z"], right)}
    assert pairs["x", "y"].significant
    assert pairs["x", "y"].difference.value == pytest.approx(-0.25)
    assert not pairs["y", "z"].significant
    assert pairs["y", "z"].p_value >= mcnemar(right[1], right[2])
