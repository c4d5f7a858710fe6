"""The words at the top of a page follow from the figures."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("altair")

from marda.adaptation import ReadOptions, adapt
from marda.adaptation.judgement import Judgement
from marda.diagnostics import Interval
from marda.diagnostics.verdict import benchmark_verdict
from marda.report.numbers import counted, percent, points_text, signed
from marda.report.parts import confusion


def judgement(value, low, high):
    half = Interval(0.5, 0.4, 0.6)
    return Judgement(np.full((2, 2), 10), half, half, Interval(value, low, high), 0.03)


@pytest.mark.parametrize(
    ("gain", "kind", "word"),
    [
        ((0.05, 0.01, 0.09), "good", "Adaptation helps"),
        ((-0.05, -0.09, -0.01), "bad", "Adaptation hurts"),
        ((0.01, -0.02, 0.04), "unclear", "No clear difference"),
    ],
)
def test_labels_decide(gain, kind, word):
    verdict = judgement(*gain).verdict()
    assert (verdict.kind, verdict.word) == (kind, word)
    assert "40 labelled target rows" in dict(verdict.reasons)["Evidence"]


@pytest.mark.parametrize(
    ("gains", "kind", "word"),
    [
        ([("a", [1.0] * 12)], "good", "Adaptation helps"),
        ([("a", [1.0] * 12), ("b", [2.0, 1.0])], "unclear", "on average, not surely"),
        ([("a", [1.0] * 12), ("b", [-2.0] * 12)], "unclear", "on some data sets"),
        ([("a", [-1.0] * 12)], "bad", "does not help"),
        ([("a", [0.0] * 12)], "unclear", "does not help"),
    ],
)
def test_benchmarks_decide_by_a_sign_test(gains, kind, word):
    verdict = benchmark_verdict(gains, "text")
    assert verdict.kind == kind
    assert word in verdict.word


def test_no_gains_no_verdict():
    assert benchmark_verdict([], "text") is None


@pytest.fixture
def verdict_of(tmp_path):
    """The verdict of a page made of two arrays."""
    from marda.report import adapted

    def make(Xs, Xt):
        for name, X in (("s.npz", Xs), ("t.npz", Xt)):
            labels = {"y": np.arange(len(X)) % 2} if name == "s.npz" else {}
            np.savez(tmp_path / name, X=X, **labels)
        seen = []

        def page(result):
            seen.append(adapted._verdict(result))
            return adapted.adapted_page(result)

        paths = tmp_path / "s.npz", tmp_path / "t.npz"
        adapt(*paths, ReadOptions("y"), method="S1D", report=(tmp_path / "r.html", page))
        return seen[0]

    return make


def test_without_labels_the_word_follows_from_distances(verdict_of):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(y[:, None], 0.5, (200, 4))
    assert verdict_of(X, X + rng.normal(0, 0.01, X.shape)).word == "Adaptation is hardly needed"
    one_sided = np.abs(rng.normal(5, 0.1, (200, 4)))
    verdict = verdict_of(X, one_sided)
    assert (verdict.kind, verdict.word) == ("bad", "Do not trust this yet")
    few = verdict_of(X[:40], X[:3] + 1)
    assert few.kind == "unclear"
    assert "Too few rows" in dict(few.reasons)["Evidence"]


def test_figures_as_text():
    assert (counted(1, "row"), counted(1200, "row")) == ("1 row", "1,200 rows")
    assert percent(0.8412) == "84.1%"
    assert (signed(-0.04), signed(-1.25), signed(2.0)) == ("0.0", "−1.2", "+2.0")
    assert points_text(Interval(5, 1.2, 8.8)) == "+5.0 points (95% interval +1.2 to +8.8)"


def test_very_many_classes_give_a_list_of_errors_and_no_matrix():
    counts = np.diag(np.full(50, 5))
    counts[3, 7] = 4
    text = confusion(counts, [f"class {k}" for k in range(50)], "rows")
    assert isinstance(text, str)
    assert "class 3" in text
    assert "44.4%" in text
