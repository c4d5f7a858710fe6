"""What accuracy to expect of the target, without its labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from marda.datasets import make_case, named_task
from marda.selection.expectation import (
    DRAWN,
    FLEXIBLE_FLOOR,
    LOST,
    RIVAL_Z,
    TELLING,
    Expectation,
    expect,
    expect_by_labels,
    explanations_to_judge,
    outside_support,
)
from marda.shift import ClassPrior, Explanation, Shift, adjust_probabilities, explain_shift
from marda.shift.class_prior import calibrate
from marda.shift.explain import NEARLY


def drawn(rng, n, sharpness=3.0, classes=2):
    """Calibrated probabilities, and classes drawn from them."""
    logits = sharpness * rng.standard_normal((n, classes))
    P = np.exp(logits - logits.max(1, keepdims=True))
    P /= P.sum(1, keepdims=True)
    codes = (rng.random((n, 1)) > P.cumsum(1)[:, :-1]).sum(1)
    return P, codes


def shift_of(kind, *explanations, fitting=None, prior=None):
    """A shift; fitting: names of the explanations that fit."""
    if fitting is None:
        fitting = tuple(one.name for one in explanations if one.fits)
    return Shift(kind, fitting, explanations, np.arange(2), prior, (), 0.0, 1.0, "", 0.05)


def explanation(name, z=0.0, weight=1.0, rival_p=None):
    return Explanation(name, 0.5 if z < 2 else 0.01, z, 0.0, z < 2, rival_p, weight)


NONE = shift_of("none", explanation("none"))


@pytest.fixture
def known():
    """Left-out rows of the source: classes and probabilities."""
    P, codes = drawn(np.random.default_rng(0), 400)
    return codes, P


def sure(n, p):
    """Rows that are all as sure of class 0."""
    return np.tile([p, 1 - p], (n, 1))


# An explanation fits ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_source", "n_target", "classes"), [(200, 200, 2), (60, 400, 5)])
def test_the_interval_holds_the_truth_where_probabilities_are_right(n_source, n_target, classes):
    held, widths, off = [], [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        P, codes = drawn(rng, n_target, classes=classes)
        left_out, source = drawn(rng, n_source, classes=classes)
        found = expect(P, (source, left_out), P, shift=NONE, explanations={"none": P})
        truth = np.mean(P.argmax(1) == codes)
        held.append(found.interval[0] <= truth <= found.interval[1])
        widths.append(np.ptp(found.interval))
        off.append(found.accuracy - truth)
        assert found.can_tell
    assert np.mean(held) >= 0.88
    assert max(widths) < 0.25
    assert abs(np.mean(off)) < 0.01


def test_an_explanation_judges_the_final_classes_by_its_own_probabilities(known):
    P = sure(100, 0.9)
    told = sure(100, 0.3)  # the explanation thinks little of them
    found = expect(P, known, P, shift=NONE, explanations={"none": told})
    assert found.accuracy == pytest.approx(0.3)
    assert found.parts == {"none": pytest.approx(0.3)}
    assert found.interval[0] < 0.3 < found.interval[1] < 0.5


def test_several_explanations_are_all_in_the_interval(known):
    P = sure(400, 0.9)
    several = shift_of(
        "several", explanation("class shares", weight=3), explanation("moved columns", weight=1)
    )
    told = {"class shares": sure(400, 0.96), "moved columns": sure(400, 0.4)}
    found = expect(P, known, P, shift=several, explanations=told)
    assert found.accuracy == pytest.approx(0.75 * 0.96 + 0.25 * 0.4)
    assert found.interval[0] < 0.4
    assert found.interval[1] > 0.96
    assert not found.can_tell
    assert "class shares and moved columns may each be what differs" in found.reason


def test_an_explanation_that_was_rejected_by_little_still_widens(known):
    P = sure(400, 0.95)
    told = {"class shares": P, "moved columns": sure(400, 0.5)}
    widths = []
    for z in (RIVAL_Z - 0.1, RIVAL_Z + 0.1):
        shift = shift_of(
            "class shares", explanation("class shares"), explanation("moved columns", z=z)
        )
        found = expect(P, known, P, shift=shift, explanations=told)
        assert found.accuracy == pytest.approx(0.95)  # it lost: only the interval remembers it
        widths.append(np.ptp(found.interval))
    assert explanations_to_judge(shift) == ("class shares",)
    assert widths[0] > 0.45
    assert widths[1] < 0.15


def test_a_class_that_vanished_may_be_a_move_that_is_rejected_by_more():
    """Rows of any kind that lie within one class look as if the others had vanished."""
    here = np.array([0.5, 0.5])
    for kept, most in ((0.05, NEARLY), (0.3, RIVAL_Z)):
        there = np.array([1 - kept / 2, kept / 2])
        prior = ClassPrior(here, there, np.full(2, 0.01), there, True)
        for z, told in ((most - 0.1, True), (most + 0.1, False)):
            shares = explanation("class shares")
            moved = explanation("moved columns", z=z)
            names = explanations_to_judge(
                shift_of("class shares", shares, moved, prior=prior, fitting=("class shares",))
            )
            assert ("moved columns" in names) == told


@pytest.mark.parametrize(("outside", "read"), [(0.1, True), (LOST + 0.01, False), (None, False)])
def test_rows_that_were_selected_look_as_if_columns_had_moved(known, outside, read):
    """Where they lie among the source's: then columns stay, and the source's model is right."""
    P, stays = sure(400, 0.95), sure(400, 0.45)
    moved = shift_of("moved columns", explanation("moved columns"))
    told = {"moved columns": P}
    found = expect(P, known, stays, shift=moved, explanations=told, outside=outside)
    assert found.accuracy == pytest.approx(0.95)
    assert (found.interval[0] < 0.45) == read
    assert found.can_tell != read
    assert (DRAWN in found.parts) == read
    assert (f"moved columns and {DRAWN} may each be what differs" in found.reason) == read
    shares = shift_of("class shares", explanation("class shares"))
    told = {"class shares": P}
    assert DRAWN not in expect(P, known, P, shift=shares, explanations=told, outside=0.1).parts


def test_a_flexible_explanation_is_no_rival_and_gets_a_wider_interval(known):
    P = sure(900, 0.8)
    shift = shift_of("none", explanation("none"), explanation("linear map"), fitting=("none",))
    assert explanations_to_judge(shift) == ("none",)
    one = expect(P, known, P, shift=NONE, explanations={"none": P})
    mapped = shift_of("linear map", explanation("linear map"))
    other = expect(P, known, P, shift=mapped, explanations={"linear map": P})
    assert np.ptp(other.interval) > 2 * FLEXIBLE_FLOOR > 2 * np.ptp(one.interval) / 2


def test_an_explanation_that_speaks_against_the_predictions(known):
    """It would have nearly all of them wrong, more than any guess: nobody can tell who is right."""
    P = sure(500, 0.9)
    mapped = shift_of("linear map", explanation("linear map"))
    found = expect(P, known, P, shift=mapped, explanations={"linear map": P[:, ::-1]})
    assert not found.can_tell
    assert found.interval[0] == 0.0
    assert found.interval[1] >= np.mean(known[1].argmax(1) == known[0])
    assert "but not the predictions" in found.reason


def test_uncertain_shares_widen(known):
    P, widths = sure(500, 0.7), []
    for error in (0.01, 0.2):
        prior = ClassPrior(
            np.full(2, 0.5), np.array([0.4, 0.6]), np.full(2, error), np.array([0.4, 0.6]), True
        )
        shift = shift_of("class shares", explanation("class shares"), prior=prior)
        found = expect(P, known, P, shift=shift, explanations={"class shares": P})
        widths.append(np.ptp(found.interval))
    assert widths[1] > 1.5 * widths[0]


def test_fewer_rows_widen(known):
    widths = [
        np.ptp(expect(sure(n, 0.8), known, sure(n, 0.8), shift=NONE,
                      explanations={"none": sure(n, 0.8)}).interval)
        for n in (1000, 100, 25)
    ]  # fmt: skip
    assert widths[0] < widths[1] < widths[2]


def test_the_reason_names_too_few_rows(known):
    P = sure(4, 0.6)
    for found in (expect(P, known, P, shift=NONE, explanations={"none": P}), expect(P, known, P)):
        assert not found.can_tell
        assert found.reason.endswith("there are too few rows to say more")


# No explanation fits ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["features", "unexplained"])
def test_the_median_of_confidence_source_only_and_agreement(known, kind):
    P, source_only = sure(400, 0.9), sure(400, 0.7)
    found = expect(P, known, source_only, shift=shift_of(kind), agreement=0.8, outside=0.05)
    assert found.accuracy == pytest.approx(0.8)
    parts = {
        "confidence": 0.9,
        "source-only": 0.7,
        "agreement": 0.8,
        "other_models": 0.7,
        "outside": 0.05,
    }
    assert found.parts == pytest.approx(parts)
    assert found.can_tell
    # Without a shift nothing is known to fit; without agreement two are left.
    found = expect(P, known, source_only)
    assert found.accuracy == pytest.approx(0.8)
    assert "agreement" not in found.parts


def test_rows_outside_of_the_support_are_expected_halfway_to_chance(known):
    P = sure(400, 0.9)
    settings = {"shift": shift_of("features"), "agreement": 0.9}
    assert expect(P, known, P, outside=0.05, **settings).accuracy == pytest.approx(0.9)
    assert expect(P, known, P, outside=1.0, **settings).accuracy == pytest.approx(0.7)
    half = (1 + 0.05) / 2  # of the rows, beside the one in twenty that is outside by definition
    assert expect(P, known, P, outside=half, **settings).accuracy == pytest.approx(0.8)


def test_no_row_outside_need_be_right(known):
    """They may be of a class that the source lacks, which no model of the source can name."""
    P = sure(400, 0.9)
    settings = {"shift": shift_of("features"), "agreement": 0.9, "self_trained": True}
    for outside, least in ((0.05, 0.8), (0.33, 0.6), (0.5, 0.4), (1.0, 0.0)):
        found = expect(P, known, P, outside=outside, **settings)
        right = found.accuracy * (1 - (outside - 0.05) / 0.95)
        assert found.interval[0] <= right
        assert found.interval[0] == pytest.approx(min(right, found.accuracy - 0.11), abs=0.05)
        assert found.interval[0] >= least
    assert "perhaps of a class that the source lacks" in found.reason


def test_self_training_carries_majorities(known):
    def expected(agreement, **settings):
        P = np.tile([agreement, *[(1 - agreement) / 3] * 3], (400, 1))
        codes = np.arange(400) % 4
        one = (codes, np.eye(4)[codes])
        return expect(P, one, P, shift=shift_of("features"), agreement=agreement, **settings)

    # Above chance by 0.8, 0.5 and 0.2: odds of 4, 1 and 1/4 become 8, 1 and 1/8.
    for before, after in ((0.85, 0.25 + 0.75 * 8 / 9), (0.625, 0.625), (0.4, 0.25 + 0.75 / 9)):
        assert expected(before).accuracy == pytest.approx(before)
        found = expected(before, self_trained=True)
        assert found.accuracy == pytest.approx(after)
        assert found.interval[0] < after < found.interval[1]
    assert expected(1.0, self_trained=True).accuracy == pytest.approx(1)


def test_disagreement_and_lost_support_widen(known):
    P = sure(400, 0.7)
    width = {}
    for agreement, other, outside in ((0.7, 0.7, 0.05), (0.7, 0.2, 0.05), (0.7, 0.7, 0.8)):
        other_models = [sure(400, other)] * 2
        found = expect(
            P, known, P, shift=shift_of("features"), other_models=other_models, agreement=agreement,
            outside=outside,
        )  # fmt: skip
        width[other, outside] = np.ptp(found.interval)
        assert found.accuracy == pytest.approx(
            0.7 if outside < 0.1 else 0.7 - 0.5 * 0.75 / 0.95 * 0.2
        )
    assert width[0.2, 0.05] > width[0.7, 0.05] + 0.05
    assert width[0.7, 0.8] > TELLING > width[0.7, 0.05]
    assert not found.can_tell
    assert "80% of the target rows lie where no source row does" in found.reason


def test_what_the_shift_seems_to_cost_widens():
    """All evidence says 60 %: less is known if left-out source rows have 95 % than if 65."""
    codes = np.arange(600) % 2
    found = {}
    for here in (0.65, 0.95):
        said = np.where(np.arange(600) < here * 600, codes, 1 - codes)
        left_out = np.where(said[:, None] == [0, 1], 0.9, 0.1)
        P = sure(600, 0.6)
        found[here] = expect(P, (codes, left_out), P, shift=shift_of("features"), agreement=0.6)
        assert found[here].accuracy == pytest.approx(0.6)
    assert np.ptp(found[0.95].interval) > np.ptp(found[0.65].interval) + 0.1
    P = np.tile([0.4, 0.2, 0.2, 0.2], (600, 1))
    left_out = np.eye(4)[codes]
    lost = expect(P, (codes, left_out), P, shift=shift_of("features"), agreement=0.4)
    assert not lost.can_tell
    assert "much harder than the source" in lost.reason


def test_nothing_explains_and_support_is_lost(known):
    P = sure(400, 0.97)
    rows = np.arange(400) < 400 * (LOST + 0.1)
    found = expect(P, known, P, shift=shift_of("unexplained"), agreement=0.97, outside=rows)
    assert not found.can_tell
    assert found.interval == (0.0, 1.0)
    assert found.accuracy == 0.5
    assert "nothing explains why" in found.reason
    within = expect(P, known, P, shift=shift_of("unexplained"), agreement=0.97, outside=0.1)
    assert within.can_tell
    assert within.interval[0] > 0.8


def test_too_few_rows_lean_on_the_source(known):
    codes, left_out = known
    here = np.mean(left_out.argmax(1) == codes)
    for n in (1, 5):
        found = expect(sure(n, 0.5001), known, sure(n, 0.5001), shift=shift_of("too few rows"))
        assert 0.5 < found.accuracy < here
        assert abs(found.accuracy - here) < abs(found.accuracy - 0.5)
        assert not found.can_tell
        assert np.ptp(found.interval) > 0.3


def test_all_rows_of_the_source_right(known):
    P = sure(50, 1.0)
    perfect = np.eye(2)[np.arange(40) % 2]
    found = expect(P, (np.arange(40) % 2, perfect), P, shift=NONE, explanations={"none": P})
    assert found.accuracy == 1.0
    assert 0.9 < found.interval[0] < 0.97
    assert found.interval[1] == 1.0


@pytest.mark.parametrize("shift", [NONE, None])
@pytest.mark.parametrize(("single", "can_tell"), [(0, True), (3, True), (15, True), (300, False)])
def test_source_rows_that_are_alone_in_their_class(shift, single, can_tell):
    """Left out, no model knows their class: they count as wrong, whatever models of all rows do."""
    n = 300 + single
    sure = 0.8 * 300 / n
    P = np.eye(2 + single)[np.arange(n) % 2] * sure
    P += (1 - sure) / P.shape[1]
    codes = np.concatenate([np.arange(300) % 2, 2 + np.arange(single)])
    args = {"shift": shift, "explanations": {} if shift is None else {"none": P}}
    found = expect(P, (codes, P), P, **args)
    plain = expect(P, (np.arange(n) % 2, P), P, **args)
    assert found.can_tell is can_tell
    assert found.interval[1] >= min(1.0, plain.interval[1] + 0.8 * single / n)
    if single == 300:
        assert found.reason == "50% of the source rows are alone in their class"


# Refusals -----------------------------------------------------------------------------------------


def test_refusals(known):
    P = sure(10, 0.8)
    with pytest.raises(ValueError, match=r"lacks 'none'.*each of \['none'\]"):
        expect(P, known, P, shift=NONE)
    with pytest.raises(
        ValueError, match=r"source_only must have the shape .*\(10, 2\), got \(9, 2"
    ):
        expect(P, known, P[:9])
    with pytest.raises(ValueError, match=r"other_models\[1\] must have the shape"):
        expect(P, known, P, other_models=[P, P[:3]])
    with pytest.raises(ValueError, match=r"explanations\['none'\] must have the shape"):
        expect(P, known, P, shift=NONE, explanations={"none": P[:3]})
    with pytest.raises(ValueError, match=r"left_out must be classes of shape \(n,\)"):
        expect(P, (known[0][:3], known[1]), P)
    with pytest.raises(ValueError, match="codes 0 … 1, got 1 … 2"):
        expect(P, (known[0] + 2 * (known[0] == 0), known[1]), P)
    with pytest.raises(ValueError, match="pass predict_proba"):
        expect(P * 2, known, P)


# With an account of the shift ---------------------------------------------------------------------


def judged(Xs, ys, Xt, yt):
    """A logistic model under the account of the shift, its expectation and its accuracy."""
    scale = Xs.std(0)
    model = LogisticRegression(C=0.1)
    left_out = cross_val_predict(model, Xs / scale, ys, method="predict_proba", cv=5)
    calibration = calibrate(left_out, ys)
    model.fit(Xs / scale, ys)
    shift = explain_shift(Xs, ys, Xt, n_draws=39)
    own = np.bincount(ys) / len(ys)

    def told(name, X):
        explanation = shift.explanation(name)
        P = calibration(model.predict_proba(explanation.undo(X) / scale))
        return P if explanation.shares is None else adjust_probabilities(P, own, explanation.shares)

    explanations = {name: told(name, Xt) for name in explanations_to_judge(shift)}
    source_only = calibration(model.predict_proba(Xt / scale))
    weighted = list(zip(shift.weights, shift.fitting, strict=True))
    P = sum(w * told(name, Xt) for w, name in weighted) if weighted else source_only
    found = expect(
        P, (ys, calibration(left_out)), source_only, shift=shift, explanations=explanations,
        outside=outside_support(Xs, Xt),
    )  # fmt: skip
    return shift, found, float(np.mean(P.argmax(1) == yt))


@pytest.mark.parametrize("case", ["same d=10", "shares .5>.1", "moved"])
def test_generated_shifts_with_a_known_answer(case):
    data = make_case(case, seed=2)
    Xs, ys = data["source"].part()
    Xt, yt = data["target"].part("train")
    shift, found, truth = judged(Xs, ys, Xt, yt)
    assert shift.fitting
    assert found.interval[0] <= truth <= found.interval[1]
    assert abs(found.accuracy - truth) < 0.08


@pytest.mark.data
def test_subspace_cannot_be_told():
    """Models agree and are sure there, and nearly all are wrong."""
    task = named_task("skada-bench", "subspace 0")
    _, found, truth = judged(task.X_source, task.y_source, task.X_test, task.y_test)
    assert truth < 0.3
    assert not found.can_tell
    assert found.interval[0] <= truth <= found.interval[1]
    assert found.parts["confidence"] > 0.8


# Support ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [3, 80, 300])
def test_one_row_in_twenty_is_outside_without_a_shift(d):
    rng = np.random.default_rng(0)
    Xs, Xt = rng.standard_normal((500, d)), rng.standard_normal((2000, d))
    assert 0.02 < outside_support(Xs, Xt).mean() < 0.09
    assert outside_support(Xs, Xt + 10).all()


def test_support_depends_on_no_unit_order_or_format():
    rng = np.random.default_rng(1)
    Xs, Xt = rng.standard_normal((200, 4)), 1.5 * rng.standard_normal((100, 4))
    found = outside_support(Xs, Xt)
    assert 0.1 < found.mean() < 0.9
    unit = np.array([1e-3, 1, 10, 1e4])
    np.testing.assert_array_equal(outside_support(Xs * unit, Xt * unit), found)
    order = rng.permutation(200)
    np.testing.assert_array_equal(outside_support(Xs[order], Xt), found)
    dense, other = (np.where(np.abs(X) > 1, X, 0) for X in (Xs, Xt))
    np.testing.assert_array_equal(
        outside_support(sp.csr_array(dense), sp.csr_array(other)), outside_support(dense, other)
    )


def test_support_of_rows_that_repeat():
    Xs = np.repeat(np.eye(3), 20, axis=0)
    assert not outside_support(Xs, np.eye(3)).any()
    assert outside_support(Xs, 1 - np.eye(3)).all()
    with pytest.raises(ValueError, match="at least 3 rows to tell its support, got 2"):
        outside_support(Xs[:2], Xs)


# Labels -------------------------------------------------------------------------------------------


def told(accuracy, half):
    """What was expected without labels."""
    interval = max(0.0, accuracy - half), min(1.0, accuracy + half)
    return Expectation(accuracy, interval, True, {"confidence": accuracy}, "an explanation fits")


@pytest.mark.parametrize("n", [5, 20, 100])
@pytest.mark.parametrize("too_sure", [1.0, 2.5])
def test_intervals_by_labels_hold(n, too_sure):
    """Of models that know how sure they may be, and of those that do not."""
    held, widths = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        P, codes = drawn(rng, 500 + n, 1.0)
        true = float(np.mean(P[:500].argmax(1) == codes[:500]))
        Q = P**too_sure / (P**too_sure).sum(1, keepdims=True)
        before = told(float(np.clip(true + 0.06 * rng.standard_normal(), 0, 1)), 0.11)
        found = expect_by_labels(before, Q[:500], codes[500:], Q[500:])
        held.append(found.interval[0] <= true <= found.interval[1])
        widths.append(found.interval[1] - found.interval[0])
    assert np.mean(held) > 0.87
    assert np.median(widths) < 0.23


def test_labels_that_contradict_are_believed():
    codes = np.zeros(40, dtype=int)
    wrong = sure(40, 0.05)  # sure, and never right
    found = expect_by_labels(told(0.95, 0.05), sure(300, 0.95), codes, wrong)
    assert found.accuracy < 0.1
    assert found.parts["labels"] < 0.1
    assert "40 labels" in found.reason
    assert found.can_tell


def test_a_single_label_says_little():
    before = told(0.9, 0.05)
    for p in (0.9, 0.1):
        found = expect_by_labels(before, sure(300, 0.9), np.zeros(1, dtype=int), sure(1, p))
        assert found.accuracy == pytest.approx(0.9, abs=0.3)
        low, high = found.interval
        assert 0 <= low <= 0.86
        assert high > 0.85
    assert "1 label" in found.reason


def test_hard_rows_do_not_bend_what_labels_tell():
    """The least certain rows are labelled: half of them are wrong, and that was to be expected."""
    rng = np.random.default_rng(0)
    P, codes = drawn(rng, 2000)
    hard = np.argsort(P.max(1))[:100]
    rest = np.setdiff1d(np.arange(2000), hard)
    true = float(np.mean(P[rest].argmax(1) == codes[rest]))
    assert np.mean(P[hard].argmax(1) == codes[hard]) < true - 0.2
    found = expect_by_labels(told(0.8, 0.2), P[rest], codes[hard], P[hard])
    assert found.accuracy == pytest.approx(true, abs=0.08)
