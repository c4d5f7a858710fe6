"""How good a saved model is, next to what had been expected."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, precision_score

from marda import MDAClassifier, MDAClassifierCV, load, pack
from marda.adaptation import ReadOptions, adapt, evaluate, label
from marda.adaptation.lines import evaluated_lines, label_lines
from marda.criteria import expected_calibration_error
from marda.io import InputError

from .small import XS, XT, YS, YT, write

pytestmark = pytest.mark.usefixtures("few_draws")

WORDS = np.array(["low", "mid", "top"], dtype=object)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.csv", XS, WORDS[YS])
    write(tmp_path / "t.csv", XT)
    write(tmp_path / "known.csv", XT, WORDS[YT])
    adapt("s.csv", "t.csv", ReadOptions("y"), model="m", method="S1")
    return tmp_path


def test_figures_are_those_of_the_predictions(files):
    found = evaluate("m", "known.csv", "y", out="e.json")
    model = load("m")
    P, guessed = model.predict_proba(XT), model.predict(XT)
    truth, n = WORDS[YT], len(YT)
    hits = int((guessed == truth).sum())
    assert found.accuracy.value == hits / n
    bounds = binomtest(hits, n).proportion_ci(method="wilson")
    assert (found.accuracy.low, found.accuracy.high) == (bounds.low, bounds.high)
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(truth, guessed))
    assert found.balanced_accuracy.low < found.balanced_accuracy.value
    np.testing.assert_array_equal(found.confusion, confusion_matrix(truth, guessed))
    assert found.calibration_error == pytest.approx(expected_calibration_error(P, YT, n_bins=10))
    assert found.confidence == pytest.approx(P.max(1).mean())
    assert sum(one.n_rows for one in found.bins) == n
    precise = precision_score(truth, guessed, average=None)
    assert [one.precision for one in found.classes] == pytest.approx(list(precise))
    assert [one.n_rows for one in found.classes] == [15, 15, 15]
    assert json.loads((files / "e.json").read_text())["confusion"] == found.confusion.tolist()
    assert found.outcome == "unknown"
    assert "nothing had been expected" in evaluated_lines(found)[0]


def test_labels_are_read_as_the_model_writes_them(files):
    """As adapt reads them: in other cases they are no other classes."""
    expected = evaluate("m", "known.csv", "y")
    given = WORDS[YT].copy()
    given[::3] = [word.upper() for word in given[::3]]
    write(files / "cases.csv", XT, given)
    found = evaluate("m", "cases.csv", "y")
    assert found.accuracy == expected.accuracy
    assert found.unknown == {}
    (note,) = found.notes
    assert "'LOW' is read as 'low'" in note


def test_rows_without_a_label_are_left_out(files):
    y = WORDS[YT].copy()
    y[10:] = None
    write(files / "some.csv", XT, y)
    found = evaluate("m", "some.csv")
    assert (found.n_rows, found.n_unlabelled) == (10, 35)
    write(files / "few.csv", XT[:10], WORDS[YT[:10]])
    assert evaluate("m", "few.csv").accuracy == found.accuracy


def test_labels_that_are_no_class_count_as_wrong(files):
    y = WORDS[YT].copy()
    y[:5] = "odd"
    write(files / "odd.csv", XT, y)
    found = evaluate("m", "odd.csv")
    right = load("m").predict(XT) == y
    assert found.unknown == {"odd": 5}
    assert found.accuracy.value == right.mean()
    assert found.confusion.shape == (4, 3)
    assert found.confusion[3].sum() == 5
    recalls = [one.recall.value for one in found.classes]
    assert found.balanced_accuracy.value == pytest.approx((sum(recalls) + 0) / 4)
    assert any("count as wrong: odd (5)" in line for line in evaluated_lines(found))


def test_a_class_without_rows_has_no_recall(files):
    write(files / "two.csv", XT[YT < 2], WORDS[YT[YT < 2]])
    found = evaluate("m", "two.csv")
    assert found.classes[2].recall is None
    assert found.balanced_accuracy.value == np.mean([one.recall.value for one in found.classes[:2]])
    assert found.to_json()["classes"][2]["recall"] is None
    assert evaluated_lines(found)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("z", r"known.csv has no column 'z' \(columns: f0, f1, f2, f3, y\)"),
        ("f0", "--label f0 is a column that the model predicts from"),
    ],
)
def test_wrong_columns(files, label, words):
    with pytest.raises(InputError, match=words):
        evaluate("m", "known.csv", label)


def test_a_near_miss_is_suggested_and_case_does_not_matter(files):
    text = (files / "known.csv").read_text()
    (files / "case.csv").write_text(text.replace("f0,f1,f2,f3,y", "F0,f1,f2,f3,Y"))
    assert evaluate("m", "case.csv", "y").n_rows == 45
    (files / "near.csv").write_text(text.replace(",y\n", ",outcome\n"))
    with pytest.raises(InputError, match=r"no column 'outcomes' \(did you mean 'outcome'\?\)"):
        evaluate("m", "near.csv", "outcomes")


def test_labels_of_another_kind_are_refused(files):
    write(files / "none.csv", XT, [None] * 45)
    with pytest.raises(InputError, match=r"column 'y' has no labels"):
        evaluate("m", "none.csv")
    write(files / "numbers.csv", XT, YT)
    with pytest.raises(InputError, match=r"no class of the model: got '0', '1', '2'; its classes"):
        evaluate("m", "numbers.csv")


def test_classes_that_are_numbers(files):
    MDAClassifier("S1").fit(XS, YS).save("plain.marda")
    np.savez("known.npz", X=XT, y=YT)
    found = evaluate("plain.marda", "known.npz", "y")
    assert found.accuracy.value == np.mean(load("plain.marda").predict(XT) == YT)
    assert [one.name for one in found.classes] == [0, 1, 2]
    with pytest.raises(InputError, match="does not know the column of labels"):
        evaluate("plain.marda", "known.npz")


def test_next_to_what_had_been_expected(files):
    X, y, domain = pack(XS, WORDS[YS], XT)
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    model.save("auto.marda")
    np.savez("known.npz", X=XT, y=WORDS[YT].astype(str))
    found = evaluate("auto.marda", "known.npz", "y")
    assert found.expected["interval"] == list(model.calibration_["expected_interval"])
    assert found.expected["reason"] == model.calibration_["reason"]
    low, high = found.expected["interval"]
    assert (found.outcome == "within") == (low <= found.accuracy.value <= high)


@pytest.mark.parametrize(
    ("interval", "outcome", "words"),
    [
        ((0.5, 0.7), "within", "As expected: 60.0% of the rows are right, within the expected"),
        ((0.65, 0.9), "below?", "below the expected interval, 65% to 90%; with 45 labels that may"),
        ((0.8, 0.9), "below", "Worse than expected: 60.0% of the rows are right, below the"),
        ((0.3, 0.55), "above?", "above the expected interval, 30% to 55%; with 45 labels that may"),
        ((0.1, 0.3), "above", "Better than expected: 60.0% of the rows are right, above the"),
    ],
)
def test_whether_reality_is_as_expected(files, interval, outcome, words):
    found = evaluate("m", "known.csv")
    seen = replace(found.accuracy, value=0.6, low=0.45, high=0.73)
    expected = {"accuracy": 0.6, "interval": list(interval), "can_tell": True, "reason": "so"}
    told = replace(found, accuracy=seen, expected=expected)
    assert told.outcome == outcome
    assert words in told.sentence()
    assert told.sentence() == evaluated_lines(told)[0]
    nobody = replace(told, expected={**expected, "can_tell": False}).sentence()
    assert ("could not be told" in nobody) == (outcome == "within")


def test_rows_that_a_model_learned_from_are_no_good_news(files):
    """They are nearly all right, whatever the model is worth."""
    known = np.arange(len(YT)) < len(YT) // 2
    for name, labels in (("some", np.where(known, YT, -1)), ("none", None)):
        X, y, domain = pack(XS, YS, XT, labels)
        MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain).save(f"{name}.marda")
    np.savez("rows.npz", X=XT[known], y=YT[known])
    for name, warned in (("some", True), ("none", False)):
        found = evaluate(f"{name}.marda", "rows.npz", "y")
        assert found.learned_here == warned
        seen = replace(found.accuracy, value=0.9, low=0.85, high=0.95)
        expected = {"accuracy": 0.6, "interval": [0.5, 0.7], "can_tell": True, "reason": "so"}
        told = replace(found, accuracy=seen, expected=expected).sentence()
        assert ("rows that it learned from do not tell" in told) == warned
        assert told.startswith("Better than expected") != warned


def test_a_last_row_of_sums_is_no_row(files):
    rows = (files / "known.csv").read_text().splitlines()
    sums = [f"{total:.6f}" for total in XT.sum(0)]
    (files / "total.csv").write_text("\n".join([*rows, ",".join([*sums, ""])]) + "\n")
    found, whole = evaluate("m", "total.csv"), evaluate("m", "known.csv")
    assert (found.n_rows, found.n_unlabelled) == (whole.n_rows, 0)
    assert any("holds the sums of the others" in note for note in found.notes)
    bare = [",".join([*row.split(",")[:-1], ""]) for row in rows[1:]]
    (files / "ask.csv").write_text("\n".join([rows[0], *bare, ",".join([*sums, ""])]) + "\n")
    asked = label("m", "ask.csv", 3)
    assert asked.n_rows == whole.n_rows
    assert any("sums of the others" in line for line in label_lines(asked))
