import time

import numpy as np
import pytest

from marda.benchmarks import demonstration
from marda.benchmarks.demonstration import METHODS, DemoResult, Interval, PairResult, Score, Word


@pytest.fixture(scope="module")
def result():
    return demonstration.run_demo([("editorials", "tweets")], methods=METHODS[:2], n_features=150)


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
    assert dict(result.times).keys() >= {"load the embedded data", "prepare rows", "predict"}
    assert sum(seconds for _, seconds in result.times) <= result.seconds


def test_text_fits_a_terminal(result):
    lines = demonstration.text_lines(result)
    assert max(map(len, lines)) <= 90
    text = "\n".join(lines)
    assert "source only" in text
    assert "Where the time went" in text


def test_one_pair_is_looked_at_closely(result):
    (pair,) = result.pairs
    assert len(pair.confusions) == 2
    for counts, score in zip(pair.confusions, pair.scores, strict=True):
        assert counts.sum() == pair.n_target
        assert 100 * counts.trace() / pair.n_target == pytest.approx(score.accuracy.value)
    assert pair.details.evidence.classes == ("negative", "positive")
    assert pair.details.evidence.confidence.sum() == pair.n_target
    assert pair.details.diagnosis.mmd_before is not None


def made(gain):
    figure = Interval(60.0, 58.0, 62.0)
    scores = (
        Score(METHODS[0], figure, figure, None, 1.0),
        Score(METHODS[1], figure, figure, gain, 1.0),
    )
    word = (Word("well", 0.0, 0.5, 20),)
    pair = PairResult("films", "tweets", 10, 20, scores, word, (), 3, ())
    return DemoResult((pair,), (("fit", 1.0),), 1.0, "Someone, 2014.", "MIT")


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (Interval(2.0, 1.0, 3.0), "+2.0 points; the interval is above zero: adaptation helps"),
        (Interval(-2.0, -3.0, -1.0), "−2.0 points; the interval is below zero: adaptation hurts"),
        (Interval(0.5, -1.0, 2.0), "+0.5 points; the interval holds zero: no clear difference"),
    ],
)
def test_verdict_says_what_the_interval_says(gain, words):
    assert words in "\n".join(demonstration.text_lines(made(gain)))


@pytest.mark.slow
def test_whole_demo_is_quick_and_helps():
    # CPU time: the wall clock of a test machine belongs to others too. Under 60 s on two cores.
    started = time.process_time()
    result = demonstration.run_demo()
    assert time.process_time() - started < 100
    assert (result.pairs[0].source, result.pairs[0].target) == ("films", "tweets")
    assert result.pairs[0].scores[1].gain.value > 1.0
