"""The page of one adaptation: its verdict follows from the figures, its candidates are listed."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from marda import MDAClassifierCV
from marda.adaptation import ReadOptions, adapt
from marda.adaptation.reading import read_data
from marda.diagnostics.diagnosis import gather
from marda.diagnostics.intervals import Interval
from marda.diagnostics.verdict import Judgement, judged_verdict
from report_pages import SAMPLE


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
    verdict = judged_verdict(judgement(*gain))
    assert (verdict.kind, verdict.word) == (kind, word)
    assert "40 labelled target rows" in dict(verdict.reasons)["Evidence"]


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


@pytest.mark.parametrize("candidates", ["auto", {"method": ["S1", "S1D"], "noise": [0.5, 0.9]}])
def test_candidates_are_listed_by_what_they_differ_in(candidates, tmp_path, adapted_default):
    from marda.report.adapted import _candidates, adapted_page

    files = "sample:source", "sample:target"
    data = read_data(*files, SAMPLE)
    X, y, domain, mark = data.packed()
    model = MDAClassifierCV(candidates, unlabeled=mark, random_state=0)
    model.fit(X, y, sample_domain=domain)
    predicted = model.predict(data.Xt)
    evidence = gather(
        data.Xs,
        data.Xt,
        model,
        names=data.preprocessing.features,
        labels=data.ys,
        predicted=predicted,
        probabilities=model.predict_proba(data.Xt),
    )
    done = adapt(*files, SAMPLE, report=(tmp_path / "r.html", adapted_page))
    page = adapted_page(replace(done, model=model, evidence=evidence))
    assert "Models that were weighed without a target label" in page
    listed = _candidates(model.candidates_, "US")
    assert "without" not in _candidates(model.candidates_, "SS")
    assert listed.count("<tr>") == 1 + len(model.candidates_)
    assert "fit_intercept" not in listed  # the same in all


def test_one_source_only_model_is_no_choice_but_is_told(tmp_path):
    """Columns of the sample moved: what differs, what is used and what to expect of it."""
    from marda.report.adapted import adapted_page

    path = tmp_path / "r.html"
    done = adapt("sample:source", "sample:target", SAMPLE, report=(path, adapted_page))
    (member,) = done.model.members_
    page = unescape(path.read_text(encoding="utf-8"))
    assert "Models that were weighed" not in page
    assert member.name in page
    assert f"{done.model.shift_.sentence()} The model of the source is used" in page
    low, high = done.model.calibration_["expected_interval"]
    assert f"{100 * low:.0f}% to {100 * high:.0f}% in nine of ten cases" in page


@pytest.mark.parametrize("method", ["S1", "auto"])
def test_columns_that_move_predictions_are_listed(tmp_path, method):
    from marda.report.adapted import adapted_page

    seen = []

    def page(result):
        seen.append(result)
        return adapted_page(result)

    options = ReadOptions("y", id="id")
    out = tmp_path / "r.html"
    adapt("sample:source", "sample:target", options, method=method, report=(out, page))
    text = unescape(out.read_text())
    assert "What moves predictions" in text
    assert ("(exact)" if method == "S1" else "(sampled)") in text
    names = [one.name for one in seen[0].influence]
    assert sorted(names) == [f"reading{k}" for k in range(1, 7)]
    assert "What moves predictions" not in adapted_page(replace(seen[0], influence=()))
    still = tuple(replace(one, moved=1e-6 * one.moved) for one in seen[0].influence)
    assert "No column or word moves a score by as much as 0.001." in adapted_page(
        replace(seen[0], influence=still)
    )


def test_one_label_is_one_label_and_no_row_is_certain(tmp_path):
    from marda.adaptation.lines import adapted_lines
    from marda.report.adapted import adapted_page

    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    for name, labels in (("s.csv", ["no", "yes"]), ("t.csv", ["", ""])):
        rows = [f"{x:.3f},{labels[k]}" for x, k in zip(rng.normal(6 * y, 1), y, strict=True)]
        (tmp_path / name).write_text("\n".join(["size,y", *rows]) + "\n")
    target = tmp_path / "t.csv"
    target.write_text(target.read_text().replace(",\n", ",no\n", 1))
    seen = []

    def page(result):
        seen.append(result)
        return adapted_page(result)

    paths = tmp_path / "s.csv", target
    adapt(*paths, ReadOptions("y"), method="S1", report=(tmp_path / "r.html", page))
    text = unescape((tmp_path / "r.html").read_text())
    assert "looked at 60 rows of t.csv (1 of them with a label), and named a class" in text
    assert "100.0%</td>" not in text.partition("Does adaptation help?")[0]
    assert "SS: 1 labelled row in the target" in "\n".join(adapted_lines(seen[0]))
