"""The demo's result as lines for the terminal, and the sentences that its page says too."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from marda.diagnostics import Interval
from marda.diagnostics.verdict import gain_text
from marda.experiments.demo import DemoResult, PairResult, Word
from marda.experiments.render import align
from marda.experiments.timing import seconds_text

__all__ = ["INTRO", "LEGEND", "heading", "text_lines", "unseen", "verdict", "word_lists"]

INTRO = (
    "Sentences rated by people as positive or negative. The classifier has seen labels in the "
    "source domain only; it is judged in another domain, the target."
)
_HEADER = ("", "accuracy", "balanced accuracy", "gain over source only")
LEGEND = (
    "Percent of target sentences judged rightly, with 95 % bootstrap intervals. Balanced accuracy "
    "weighs both classes alike: guessing gives 50. Pairs and models were picked for this demo; "
    "'marda reproduce' runs whole benchmarks."
)


def text_lines(result: DemoResult) -> list[str]:
    """Return what the command prints."""
    lines = [*_wrapped(INTRO), ""]
    for pair in result.pairs:
        lines += [heading(pair), *align([_HEADER, *_cells(pair)], rule=True), verdict(pair)]
        lines += _wrapped(unseen(pair), "  ")
        for title, words in word_lists(pair):
            lines += _wrapped(f"{title}: {_listed(words)}", "    ")
        lines.append("")
    lines += [
        *_wrapped(LEGEND),
        "",
        f"Where the time went ({seconds_text(result.seconds)} in all)",
    ]
    return lines + align([["  " + what, seconds] for what, seconds in _times(result)])


def _times(result: DemoResult) -> list[tuple[str, str]]:
    """Return what took time at all."""
    return [(what, seconds_text(s)) for what, s in result.times if s >= 0.05]


def heading(pair: PairResult) -> str:
    """Which pair, and how many sentences."""
    return (
        f"{pair.source} → {pair.target} ({pair.n_source:,} labelled sentences, "
        f"{pair.n_target:,} to judge)"
    )


def _cells(pair: PairResult) -> list[list[str]]:
    return [
        [
            score.method.label,
            _range(score.accuracy),
            _range(score.balanced),
            "" if score.gain is None else _range(score.gain, signed=True),
        ]
        for score in pair.scores
    ]


def _range(figure: Interval, *, signed: bool = False) -> str:
    form = "+.1f" if signed else ".1f"
    text = f"{figure.value:{form}} [{figure.low:{form}}, {figure.high:{form}}]"
    return text.replace("-", "−")


def verdict(pair: PairResult) -> str:
    """Return one sentence on the default model, whatever the others reach."""
    score = pair.scores[1]
    assert score.gain is not None
    return gain_text(score.method.label, score.gain)


def unseen(pair: PairResult) -> str:
    """Return what the lists of words show."""
    return (
        f"{pair.unseen} of the words and word pairs occur in no {pair.source} sentence, so source "
        f"only cannot use them. Adaptation weighs them by the words they come with:"
    )


def word_lists(pair: PairResult) -> list[tuple[str, Sequence[Word]]]:
    """Return words that the source never used, by where adaptation leans."""
    return [("most positive", pair.positive), ("most negative", pair.negative)]


def _listed(words: Sequence[Word]) -> str:
    text = ", ".join(f"{w.text} ({w.after - w.before:+.2f})" for w in words)
    return text.replace("(-", "(−") or "none"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return wrap(text, 88, initial_indent=indent, subsequent_indent=indent)
