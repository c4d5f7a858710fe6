"""No sentence contradicts its own figures, whatever these are."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations, islice, product

import numpy as np
import pytest

from marda.diagnostics.intervals import Interval, step_text
from marda.diagnostics.verdict import (
    CHECKS,
    Change,
    ComparisonFacts,
    Facts,
    Judgement,
    adapted_verdict,
    benchmark_verdict,
    checks_text,
    compared_text,
    compared_verdict,
    diagnosis_text,
    expected_text,
    gain_text,
    gaps_text,
    judged_verdict,
    losses_text,
    next_step,
    outcome_of,
    pairs_verdict,
    probabilities_text,
    sampled_text,
    statistics_text,
)


def interval(value, half=0.03):
    return Interval(value, value - half, value + half)


MMDS = {
    "none": None,
    "falls": Change(interval(0.40), interval(0.07)),
    "rises": Change(interval(0.15), interval(0.34)),
    "equal": Change(interval(0.25), interval(0.25)),
    "a little less": Change(interval(0.25), interval(0.24)),
    "a little more": Change(interval(0.25), interval(0.26)),
    "small": Change(interval(0.04), interval(0.03)),
    "small, rises": Change(interval(0.04), interval(0.30)),
    "falls by a hair": Change(interval(0.2531, 1e-5), interval(0.2529, 1e-5)),
}
TOLD = {
    "none": None,
    "falls": Change(interval(0.85), interval(0.55)),
    "rises": Change(interval(0.60), interval(0.80)),
    "equal": Change(interval(0.85), interval(0.85)),
    "chance": Change(interval(0.50), interval(0.40)),
    "chance, rises": Change(interval(0.50), interval(0.70)),
}
SIZES = [(200, 10), (60, 60), (5000, 4000)]
SHARES = (0, 0.1, 1)
CLASSES = (2, 10, 100)


def expectations(n_classes, commonest):
    """None; below, at and above what guessing gives."""
    guess = max(1 / n_classes, commonest)
    return None, 0.5 * guess, guess, guess + 0.02 * (1 - guess), guess + 0.6 * (1 - guess)


def every(n_classes):
    for (ns, nt), share, (mmd, told), common in product(
        SIZES,
        SHARES,
        [(m, t) for m, t in product(MMDS, TOLD) if (m == "none") == (t == "none")],
        (1 / n_classes, 0.9),
    ):
        for expected, (calibrated, single) in product(
            expectations(n_classes, common), ((False, False), (True, False), (False, True))
        ):
            yield Facts(
                ns,
                nt,
                round(share * nt),
                n_classes,
                common,
                MMDS[mmd],
                TOLD[told],
                single,
                expected,
                calibrated,
            )


def number(text):
    return float(text.rstrip("%")) / (100 if text.endswith("%") else 1)


STEP = r"([\d.]+%?) → ([\d.]+%?)"
ROWS = r"told apart in ([\d.]+%?) of rows before and ([\d.]+%?) after"


def check(text, facts):
    """Read the words, and compare them with the figures."""
    steps = [(number(a), number(b)) for a, b in re.findall(STEP, text)]
    steps += [(number(a), number(b)) for a, b in re.findall(ROWS, text)]
    changes = [c for c in (facts.mmd, facts.told_apart) if c is not None]
    least = [0.5 if c is facts.told_apart else 0.0 for c in changes]  # below chance is chance
    for before, after in steps:  # figures are those of the facts
        assert any(
            abs(before - max(low, c.before.value)) < 0.006
            and abs(after - max(low, c.after.value)) < 0.006
            for low, c in zip(least, changes, strict=True)
        ), text
    claims_closer = "closer" in text and "not clearly bring" not in text
    if claims_closer or "more alike after adaptation than before" in text:
        assert all(c.after.high < c.before.low for c in changes), text
        assert changes, text
        assert all(after < before for before, after in steps), text
    if "further apart" in text:
        assert changes, text
        assert all(c.after.low > c.before.high for c in changes), text
        assert all(after > before for before, after in steps), text
    for words, holds in (
        ("fell", lambda a, b: b < a),
        ("rose", lambda a, b: b > a),
    ):
        for a, b in re.findall(rf"{words} \({STEP}\)", text):
            assert holds(number(a), number(b)), text
    if "measures differ" in text or "do not agree" in text:
        kinds = {(c.after.high < c.before.low, c.after.low > c.before.high) for c in changes}
        assert len(kinds) > 1 or facts.told_apart.before.value <= 0.5, text
    if re.search(r"[Ll]abel (some|more|100)", text):
        assert facts.n_labelled < facts.n_target, text
    if re.search(r"all [\d,]+ target rows have labels", text):
        assert facts.n_labelled == facts.n_target, text
    if "Without target labels" in text or "without target labels" in text:
        assert facts.n_labelled == 0, text
    if "already look alike" in text:
        assert facts.told_apart.before.value < 0.6, text
        assert facts.mmd.before.value < 0.1, text
    if "Too few rows" in text or "too few rows" in text:
        assert min(facts.n_source, facts.n_target) < 20, text
    guess = max(facts.commonest, 1 / facts.n_classes)
    helps = ("evidence that it helps, not proof" in text) or ("may help" in text)
    if helps:
        assert facts.expected is None or facts.expected > guess + 0.05 * (1 - guess), text
        assert not facts.single_class, text
    if "ot clearly better than guessing" in text or "no clear gain over guessing" in text:
        # The margin of error of so many rows, or a tenth of what there is to gain.
        few = 1 / facts.n_source + 1 / facts.n_target
        margin = max(0.1 * (1 - guess), 1.96 * (guess * (1 - guess) * few) ** 0.5)
        assert facts.expected <= guess + margin + 1e-12, text
    for share in re.findall(r"about ([\d.]+%)", text):
        assert abs(number(share) - facts.expected) < 0.006, text
    for share in re.findall(r"guessing gives ([\d.]+%)", text):
        assert abs(number(share) - 1 / facts.n_classes) < 0.006, text
        assert facts.commonest < 1 / facts.n_classes + 0.01, text
    for share in re.findall(r"commonest class alone gets ([\d.]+%)", text):
        assert abs(number(share) - facts.commonest) < 0.006, text
    if "calibrated" in text:
        assert ("not calibrated" in text) != facts.calibrated, text


def test_wide_intervals_do_not_make_domains_alike():
    near = Change(interval(0.02), interval(0.02)), Change(interval(0.5), interval(0.5))
    assert Facts(200, 200, mmd=near[0], told_apart=near[1]).alike
    wide = Change(interval(0.02, 0.3), interval(0.02)), Change(interval(0.5, 0.2), interval(0.5))
    assert not Facts(200, 200, mmd=wide[0], told_apart=near[1]).alike
    assert not Facts(200, 200, mmd=near[0], told_apart=wide[1]).alike


def test_a_model_of_the_source_that_guesses_is_not_called_adaptation():
    same = Change(interval(0.02), interval(0.02)), Change(interval(0.5), interval(0.5))
    facts = Facts(200, 200, mmd=same[0], told_apart=same[1], expected=0.52, shift="It is alike.")
    assert "Adaptation did not clearly bring" in diagnosis_text(facts)
    assert diagnosis_text(replace(facts, action="The model of the source is used as it is.")) == (
        "Not clearly better than guessing: about 52% of the predictions are expected to be right, "
        "and guessing gives 50%. It is alike. The model of the source is used as it is. Label some "
        "target rows and run marda compare."
    )


def test_guessing_knows_of_class_shares_of_the_target():
    facts = Facts(200, 200, expected=0.8, commonest=0.6, interval=(0.7, 0.9), reason="so it seems")
    assert "gets 60% of source rows right): so it seems" in expected_text(facts)
    told = expected_text(replace(facts, commonest_target=0.85))
    assert "right, and one class about 85% of the target's if class shares are as told)" in told
    assert expected_text(replace(facts, commonest_target=0.5)) == expected_text(facts)


def test_domains_that_are_said_to_differ_are_not_said_to_be_alike():
    near = Change(interval(0.02), interval(0.02)), Change(interval(0.24), interval(0.2))
    facts = Facts(200, 200, mmd=near[0], told_apart=near[1])
    assert facts.alike
    told = diagnosis_text(replace(facts, differs=True, shift="It differs."))
    assert "alike" not in told
    assert "told apart in 50% of rows before and 50% after" in told  # chance, not less


def sentences(facts):
    verdict = adapted_verdict(facts, None)
    yield diagnosis_text(facts)
    yield next_step(facts)
    yield probabilities_text(facts)
    yield expected_text(facts) or ""
    yield " ".join([verdict.word, verdict.text, *(text for _, text in verdict.reasons)])


@pytest.mark.parametrize("n_classes", CLASSES)
def test_every_combination(n_classes):
    """Another quarter of them for each number of classes, which few sentences depend on."""
    outcomes = set()
    for facts in islice(every(n_classes), CLASSES.index(n_classes), None, 4):
        for text in sentences(facts):
            check(text, facts)
            assert not text or text == " ".join(text.split())
        outcomes.add(outcome_of(facts))
    wanted = {"closer", "mixed", "further", "unclear", "alike", "chance", "single-class"}
    assert outcomes == wanted | {"few-rows"}


CLOSER = Facts(200, 200, mmd=MMDS["falls"], told_apart=TOLD["falls"])


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "Adaptation brought the domains closer (distance 0.15 → 0.34; told apart in 85% of "
            "rows before and 55% after): label-free evidence that it helps, not proof.",
            Facts(200, 200, mmd=MMDS["rises"], told_apart=TOLD["falls"]),
        ),
        (
            "label-free evidence that it helps, not proof",
            replace(CLOSER, expected=0.52),
        ),
        ("(not calibrated)", Facts(200, 200, calibrated=True)),
        ("label some target rows and run marda compare", Facts(200, 200, 200)),
        ("Adaptation brought the domains closer (distance 0.40 → 0.30)", CLOSER),
        ("Adaptation moved the domains further apart", CLOSER),
        ("the distance rose (0.40 → 0.07)", CLOSER),
    ],
)
def test_the_reader_of_words_finds_contradictions(text, facts):
    with pytest.raises(AssertionError):
        check(text, facts)


@pytest.mark.parametrize(
    ("facts", "outcome", "words"),
    [
        (CLOSER, "closer", "brought the domains closer (distance 0.40 → 0.07; told apart in 85%"),
        (
            Facts(200, 200, mmd=MMDS["rises"], told_apart=TOLD["falls"]),
            "mixed",
            "the distance rose (0.15 → 0.34), the share of rows told apart fell (85% → 55%)",
        ),
        (
            Facts(200, 200, mmd=MMDS["rises"], told_apart=TOLD["rises"]),
            "further",
            "moved the domains further apart",
        ),
        (
            replace(CLOSER, expected=0.52),
            "chance",
            "about 52% of the predictions are expected to be right, and guessing gives 50%",
        ),
        (
            Facts(
                200, 200, commonest=0.9, expected=0.85, mmd=MMDS["falls"], told_apart=TOLD["falls"]
            ),
            "chance",
            "naming the commonest class alone gets 90% of source rows right",
        ),
        (
            Facts(200, 200, 200, mmd=MMDS["equal"], told_apart=TOLD["equal"]),
            "unclear",
            "all 200 target rows have labels: run marda compare",
        ),
    ],
)
def test_words_for_typical_figures(facts, outcome, words):
    assert outcome_of(facts) == outcome
    assert words in diagnosis_text(facts)


def test_more_rows_make_less_of_a_gain_evidence_but_never_two_points():
    def at_chance(n, expected):
        return Facts(n, n, expected=expected).at_chance

    assert at_chance(50, 0.65)
    assert not at_chance(500, 0.65)
    assert at_chance(10**7, 0.52)
    assert not at_chance(10**7, 0.56)


def test_checks_are_told_if_and_only_if_they_ran():
    for ran in (ran for k in range(len(CHECKS) + 1) for ran in combinations(CHECKS, k)):
        text = checks_text(ran)
        made, _, left = text.removeprefix("None.").partition("Not checked: ")
        for code, words in CHECKS.items():
            assert (words in made) == (code in ran), ran
            assert (words in left) == (code not in ran), ran


@pytest.mark.parametrize("n_labelled", [0, 10, 100])
def test_statistics(n_labelled):
    text = statistics_text(100, n_labelled)
    assert ("label some" in text) == (n_labelled == 0)
    assert ("all of whose rows" in text) == (n_labelled == 100)


GAINS = [interval(v, h) for v in (-0.2, -0.02, 0.0, 0.02, 0.2) for h in (0.01, 0.05)]


@pytest.mark.parametrize("gain", GAINS, ids=str)
@pytest.mark.parametrize("p_value", [0.001, 0.4])
@pytest.mark.parametrize(("adapted", "every"), [(0.52, True), (0.9, False)])
def test_labels_that_judge(gain, p_value, adapted, every):
    shares = interval(adapted), interval(adapted - gain.value), gain
    facts = Judgement(np.full((2, 2), 20), *shares, p_value, every)
    verdict = judged_verdict(facts)
    told = dict(verdict.reasons)
    assert (verdict.word == "Adaptation helps") == (gain.low > 0 and p_value < 0.05)
    assert (verdict.word == "Adaptation hurts") == (gain.high < 0 and p_value < 0.05)
    assert (verdict.kind == "unclear") == told["How sure"].startswith("Not:")
    assert ("interval holds zero" in told["How sure"]) <= (gain.low <= 0 <= gain.high)
    assert ("leaves out zero" in told["How sure"]) <= (gain.low > 0 or gain.high < 0)
    assert ("Beware" in told) == (adapted - 0.03 <= 0.5)
    assert ("More labelled rows" in told["How sure"]) <= (not every)


@pytest.mark.parametrize("gain", [None, *(g for g in GAINS if g.value >= 0)], ids=str)
@pytest.mark.parametrize("p_value", [0.001, 0.4])
@pytest.mark.parametrize("accuracy", [0.52, 0.9])
def test_comparisons(gain, p_value, accuracy):
    best = "BL" if gain is None else "S1D"
    first = interval(accuracy - (0 if gain is None else gain.value))
    facts = ComparisonFacts(
        "BL", best, 200, 80, first, interval(accuracy), gain, gain and p_value, 3, 0.5
    )
    text, verdict = compared_text(facts), compared_verdict(facts)
    clear = gain is not None and p_value < 0.05 and gain.low > 0
    assert ("and significantly better" in text) == clear
    assert (verdict.kind == "good") == clear
    assert ("No method beats BL" in text) == (gain is None) == ("No method" in verdict.word)
    assert ("not clearly better than naming" in text) == (accuracy == 0.52)
    assert ("Beware" in dict(verdict.reasons)) == (accuracy == 0.52)


@pytest.mark.parametrize("first", ["BL", "auto"])
def test_only_the_plain_classifier_is_called_the_simplest(first):
    facts = ComparisonFacts(first, first, 200, 80, interval(0.9), interval(0.9), commonest=0.5)
    assert ("simplest" in dict(compared_verdict(facts).reasons)["Next step"]) == (first == "BL")


@pytest.mark.parametrize("name", [n for n in MMDS if n != "none"])
def test_the_smallest_distance_is_not_called_closer_if_it_grew(name):
    change = MMDS[name]
    evidence = dict(compared_verdict(ComparisonFacts("BL", "S1D", 50, mmd=change)).reasons)[
        "Evidence"
    ]
    assert "closest" not in evidence
    assert ("smaller than before" in evidence) == (change.after.high < change.before.low)
    assert ("larger than before" in evidence) == (change.after.low > change.before.high)


@pytest.mark.parametrize("gain", GAINS, ids=str)
def test_gains_of_the_demo(gain):
    text = gain_text("adapted", gain)
    assert ("helps" in text) == (gain.low > 0)
    assert ("hurts" in text) == (gain.high < 0)
    verdict = pairs_verdict("adapted", [("a → b", gain)], "rows")
    assert (verdict.kind == "good") == (gain.low > 0)
    assert (verdict.kind == "bad") == (gain.high < 0)


def test_a_mean_and_its_signs_may_disagree():
    up = [("a", [100.0] + [-1.0] * 11)]  # on average better, on nearly all tasks worse
    down = [("a", [-100.0] + [1.0] * 11)]
    assert benchmark_verdict(up, "text").kind == "unclear"
    assert benchmark_verdict(down, "text").kind == "unclear"


def test_captions():
    assert "drawn by chance" in sampled_text((500, 40), (900, 40))
    assert "all 940 rows" in sampled_text((900, 40), (900, 40))
    assert "2 shrank and 1 grew; 1 stayed" in gaps_text([(1, 0), (-1, 0.5), (0, 1), (1, -1)])
    assert "never rose" in losses_text([3.0, 2.0, 1.0])
    assert "rose in 1 of them" in losses_text([3.0, 1.0, 2.0])
    assert step_text(0.2531, 0.2529) == "0.2531 → 0.2529"
    assert step_text(0.5, 0.5, "%") == "50% → 50%"


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
