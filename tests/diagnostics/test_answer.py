"""The first screen says what is known, and no more."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from marda.diagnostics.answer import can_use
from marda.diagnostics.intervals import Interval
from marda.diagnostics.verdict import Change, Facts, Judgement

KNOWN = Facts(
    500,
    400,
    n_classes=4,
    commonest=0.25,
    expected=0.8,
    calibrated=True,
    interval=(0.7, 0.9),
    reason="columns seem to have moved, and nothing else",
    shift="The target looks like the source with a moved.",
)
SHARES = Interval(0.8, 0.75, 0.85), Interval(0.7, 0.65, 0.75), Interval(0.1, 0.05, 0.15)
JUDGED = Judgement(np.diag([60, 50, 50, 40]), *SHARES, 0.001)
JARGON = re.compile(r"MMD|A-distance|McNemar|bootstrap|p =|kernel|ridge|calibrat", re.IGNORECASE)


def words(answer):
    return " ".join([answer.word, answer.text, answer.basis, answer.shift, *answer.steps])


@pytest.mark.parametrize(
    ("facts", "kind", "word"),
    [
        (KNOWN, "good", "Yes, where 70% to 90% right is enough"),
        (replace(KNOWN, interval=(0.997, 1.0)), "good", "Yes, where 100% right is enough"),
        (replace(KNOWN, interval=(0.2, 0.95)), "unclear", "Perhaps: as few as 20% may be right"),
        (replace(KNOWN, expected=0.27), "bad", "No: they are not clearly better than guessing"),
        (replace(KNOWN, can_tell=False), "unclear", "Nobody can tell without labels"),
        (replace(KNOWN, single_class=True), "bad", "Not yet: nearly all rows got one class"),
        (replace(KNOWN, n_target=5), "unclear", "Not yet: there are too few rows to tell"),
        (replace(KNOWN, interval=None), "unclear", "Perhaps: what is known is a guess"),
        (replace(KNOWN, expected=None, interval=None), "unclear", "Nobody can tell without labels"),
    ],
)
def test_answers(facts, kind, word):
    answer = can_use(facts)
    assert (answer.kind, answer.word) == (kind, word)
    assert len(answer.steps) == 3
    assert not JARGON.search(words(answer))


def test_figures_stand_beside_what_they_rest_on():
    answer = can_use(KNOWN)
    assert (answer.expected, answer.interval, answer.guessing) == (0.8, (0.7, 0.9), 0.25)
    assert "70% to 90%" in answer.text
    assert "90% interval" in answer.text
    assert "Guessing gives 25%" in answer.text
    assert KNOWN.reason in answer.basis
    assert answer.shift == KNOWN.shift


def test_one_class_may_be_commoner_in_the_target():
    """0.7 is more than guessing by the source's labels, not by class shares that are told."""
    answer = can_use(replace(KNOWN, commonest_target=0.85))
    assert (answer.kind, answer.word) == ("unclear", "Perhaps: as few as 70% may be right")
    assert answer.guessing == 0.85
    assert "One class for all rows gives about 85% if class shares are as told." in answer.text


def test_where_it_cannot_be_told_there_is_no_figure_but_a_reason():
    answer = can_use(replace(KNOWN, can_tell=False, interval=(0.0, 0.99), reason="they disagree"))
    assert answer.expected is None
    assert answer.interval == (0.0, 0.99)
    assert "from 0% to 99% of the predictions may be right: they disagree." in answer.text


def test_no_figure_stands_beside_predictions_that_are_not_to_be_used():
    answer = can_use(replace(KNOWN, single_class=True))
    assert (answer.expected, answer.interval) == (None, None)


def test_labels_that_are_too_few_to_judge_are_not_denied():
    told = replace(KNOWN, n_labelled=8, reason="8 labels of the target tell")
    assert can_use(told).basis == "8 labels of the target tell."
    answer = can_use(replace(told, can_tell=False))
    assert answer.word == "Nobody can tell without more labels"
    assert answer.basis.startswith("8 labels of the target; ")


def test_labels_are_measured_and_decide():
    answer = can_use(KNOWN, JUDGED)
    assert (answer.kind, answer.expected, answer.interval) == ("good", 0.8, (0.75, 0.85))
    assert "80% of 200 rows with known labels are right" in answer.text
    assert "among all rows it is 75% to 85%" in answer.text
    assert "95% interval" in answer.text
    every = can_use(replace(KNOWN, n_target=200), JUDGED)
    assert "among more rows like them it is 75% to 85%" in every.text
    assert answer.word == "Yes, where 75% to 85% right is enough"
    perfect = replace(JUDGED, adapted=Interval(1.0, 0.94, 1.0))
    assert can_use(KNOWN, perfect).word == "Yes, where 94% to 100% right is enough"
    assert "had not seen its label" in answer.basis
    worse = replace(JUDGED, gain=Interval(-0.1, -0.2, -0.05))
    assert can_use(KNOWN, worse).word == "Better use the plain classifier"
    assert "--method BL" in can_use(KNOWN, worse).steps[0]
    useless = can_use(KNOWN, replace(JUDGED, confusion=np.diag([156, 44])))
    assert useless.kind == "bad"
    assert "78%" in useless.text
    for one in (answer, can_use(KNOWN, worse), useless):
        assert not JARGON.search(words(one))


def test_the_rows_to_label_are_named():
    rows = [f"r{k}" for k in range(9)]
    _, label, again = can_use(KNOWN, to_label=rows, target="new.csv").steps
    assert "r0, r1, r2, r3, r4, r5 …" in label
    assert "r6" not in label
    numbered = can_use(KNOWN, to_label=["row 9", "row 4"]).steps[1]
    assert numbered == "Label the rows that tell most: rows 9, 4."
    assert again.startswith("Write the labels into new.csv and run this again: 100 to 300")
    few = can_use(replace(KNOWN, n_target=60), to_label=rows, target="new.csv").steps[2]
    assert few.startswith("Write the labels into new.csv, add rows, and run this again: 100 to 300")
    every = replace(KNOWN, n_labelled=10, n_target=10)
    assert "Label" not in " ".join(can_use(replace(every, n_source=500)).steps)


def test_unsure_rows_are_counted():
    assert (
        "check the 7 rows that have a probability below 60%"
        in (can_use(KNOWN, unsure=(7, 0.6)).steps[0])
    )
    assert "1 row that has" in can_use(KNOWN, JUDGED, unsure=(1, 0.6)).steps[0]
    assert "enough" in can_use(KNOWN, unsure=(0, 0.6)).steps[0]


def test_without_an_explanation_distances_are_told_in_words():
    apart = Change(Interval(0.9, 0.88, 0.92), Interval(0.6, 0.5, 0.7))
    facts = replace(KNOWN, shift="", mmd=Change(*[Interval(0.5, 0.4, 0.6)] * 2), told_apart=apart)
    assert can_use(facts).shift == (
        "Source and target are told apart in 90% of rows; why was not asked here."
    )
    alike = Change(*[Interval(0.51, 0.5, 0.53)] * 2)
    near = Change(*[Interval(0.02, 0.01, 0.03)] * 2)
    assert can_use(replace(facts, told_apart=alike, mmd=near)).shift == (
        "Source and target look alike."
    )
    assert can_use(replace(facts, told_apart=None)).shift == "There are too few rows to say."


def test_the_commonest_class_is_the_guess_where_it_is_common():
    assert "One class for all rows gives 60%" in can_use(replace(KNOWN, commonest=0.6)).text
