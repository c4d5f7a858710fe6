import time

import numpy as np
import pytest

from marda.benchmarks import demonstration
from marda.benchmarks.demonstration import (
    METHODS,
    DigitsResult,
    Interval,
    PairResult,
    Score,
    Word,
    digits_text,
    pair_lines,
)


@pytest.fixture(scope="module")
def told():
    """What is told, call by call, and what comes of it all."""
    calls = []
    pairs = [("editorials", "tweets")]
    result = demonstration.run_demo(["turn"], pairs, n_features=150, tell=calls.append)
    return calls, result


@pytest.fixture
def result(told):
    return told[1]


def test_figures_and_intervals(result):
    (pair,) = result.pairs
    assert (pair.source, pair.target, pair.n_source, pair.n_target) == (
        "editorials", "tweets", 2970, 3432,
    )  # fmt: skip
    for score in pair.scores:
        for figure in (score.accuracy, score.balanced):
            assert figure.low < figure.value < figure.high
            assert figure.high - figure.low < 5
    baseline, adapted = pair.scores
    assert baseline.gain is None
    assert adapted.gain.value == pytest.approx(adapted.balanced.value - baseline.balanced.value)


def test_gain_is_paired():
    # The same hits: the gain is exactly zero, however wide the intervals of the figures are.
    hit = np.arange(200) % 3 > 0
    first, second = demonstration._scores(METHODS[:2], [hit, hit], [1.0, 2.0], np.arange(200) % 2)
    assert (second.gain.low, second.gain.value, second.gain.high) == (0, 0, 0)
    assert first.balanced.low < first.balanced.high


def test_bootstrap_interval_covers_what_theory_says():
    hit = np.arange(1000) % 4 > 0
    (score,) = demonstration._scores(METHODS[:1], [hit], [1.0], np.zeros(1000, int))
    error = 100 * np.sqrt(0.75 * 0.25 / 1000)
    assert score.accuracy.low == pytest.approx(75 - 1.96 * error, abs=0.3 * error)
    assert score.accuracy.high == pytest.approx(75 + 1.96 * error, abs=0.3 * error)


def test_words_are_those_the_source_never_used(result):
    (pair,) = result.pairs
    words = pair.positive + pair.negative
    assert words
    assert all(word.before == pytest.approx(0.0, abs=1e-12) for word in words)
    assert all(word.after > 0 for word in pair.positive)
    assert all(word.after < 0 for word in pair.negative)
    assert all(word.target_rows >= demonstration.MIN_TARGET_ROWS for word in words)
    assert pair.unseen >= len(words)


def test_times_add_up(result):
    assert dict(result.times).keys() >= {"marda's default on digits", "prepare sentences"}
    assert sum(seconds for _, seconds in result.times) <= result.seconds


def test_text_fits_a_terminal_and_comes_as_it_is_known(told):
    calls, _ = told
    lines = [line for call in calls for line in call]
    commands = [line for line in lines if line.startswith("  marda ")]
    assert len(commands) == 2
    assert max(len(line) for line in lines if line not in commands) <= 90
    text = "\n".join(lines)
    for words in ("source only", "marda's default", "Where the time went", "On your own files"):
        assert words in text
    # The head of a table before its first row, every row when it is known.
    assert len(calls) >= 6
    assert "turned by 20°" not in "\n".join(calls[0])
    assert calls[1][0].startswith("turned by 20°")


def test_digits_that_became_right(result):
    (digits,) = result.digits
    assert (digits.change, digits.n_source, digits.n_target) == ("turned by 20°", 900, 897)
    ridge, logistic, default = (right.value for right in digits.right)
    assert ridge < logistic < default
    assert default > 80
    assert digits.gain.value == pytest.approx(default - logistic)
    # What is mended less what is spoiled is the gain.
    net = 100 * (digits.mended - digits.spoiled) / digits.n_target
    assert digits.gain.value == pytest.approx(net)
    assert len(digits.examples) == demonstration.EXAMPLES
    assert all(e.true != e.before for e in digits.examples)
    assert len({e.true for e in digits.examples}) > 5  # of many classes
    assert digits.details.evidence.confidence.sum() == digits.n_target


def test_whose_data_these_are(result):
    assert [s.partition(":")[0] for s in result.sources] == ["Digits", "Sentences"]


def test_ratings_are_counted(result):
    (pair,) = result.pairs
    assert len(pair.confusions) == 2
    for counts, score in zip(pair.confusions, pair.scores, strict=True):
        assert counts.sum() == pair.n_target
        assert 100 * counts.trace() / pair.n_target == pytest.approx(score.accuracy.value)


def made(gain):
    figure = Interval(60.0, 58.0, 62.0)
    scores = (
        Score(METHODS[0], figure, figure, None, 1.0),
        Score(METHODS[1], figure, figure, gain, 1.0),
    )
    word = (Word("well", 0.0, 0.5, 20),)
    return PairResult("films", "tweets", 10, 20, scores, word, (), 3, ())


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (Interval(2.0, 1.0, 3.0), "+2.0 points; the interval is above zero: adaptation helps"),
        (Interval(-2.0, -3.0, -1.0), "−2.0 points; the interval is below zero: adaptation hurts"),
        (Interval(0.5, -1.0, 2.0), "+0.5 points; the interval holds zero: no clear difference"),
    ],
)
def test_verdict_says_what_the_interval_says(gain, words):
    assert words in "\n".join(pair_lines(made(gain)))
    half = Interval(50.0, 40.0, 60.0)
    digits = DigitsResult("noisy", 5, 20, (half,) * 3, gain, 1, 2, ())
    assert f"Noisy: {words}" in digits_text(digits)
    assert "It mends 1 digit and spoils 2." in digits_text(digits)


@pytest.mark.slow
def test_whole_demo_is_quick_and_helps():
    # CPU time: the wall clock of a test machine belongs to others too. Under 30 s on two cores.
    started = time.process_time()
    result = demonstration.run_demo()
    assert time.process_time() - started < 60
    assert sum(d.gain.value for d in result.digits) / 3 > 10
    assert (result.pairs[0].source, result.pairs[0].target) == ("films", "tweets")
    assert result.pairs[0].scores[1].gain.value > 1.0
