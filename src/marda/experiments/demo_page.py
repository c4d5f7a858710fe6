"""The demo's result for a reader: lines for the terminal, one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from marda.experiments.demo import DemoResult, Interval, PairResult, Word
from marda.experiments.files import write_text
from marda.experiments.render import align
from marda.experiments.rows import versions
from marda.experiments.timing import seconds_text

_INTRO = (
    "Sentences rated by people as positive or negative. The classifier has seen labels in the "
    "source domain only; it is judged in another domain, the target."
)
_HEADER = ("", "accuracy", "balanced accuracy", "gain over source only")
_LEGEND = (
    "Percent of target sentences judged rightly, with 95 % bootstrap intervals. Balanced accuracy "
    "weighs both classes alike: guessing gives 50. Pairs and models were picked for this demo; "
    "'marda reproduce' runs whole benchmarks."
)


def text_lines(result: DemoResult) -> list[str]:
    """Return what the command prints."""
    lines = [*_wrapped(_INTRO), ""]
    for pair in result.pairs:
        lines += [_heading(pair), *align([_HEADER, *_cells(pair)], rule=True), _verdict(pair)]
        lines += _wrapped(_unseen(pair), "  ")
        for title, words in _word_lists(pair):
            lines += _wrapped(f"{title}: {_listed(words)}", "    ")
        lines.append("")
    lines += [
        *_wrapped(_LEGEND),
        "",
        f"Where the time went ({seconds_text(result.seconds)} in all)",
    ]
    return lines + align([["  " + what, seconds] for what, seconds in _times(result)])


def write_page(result: DemoResult, path: Path) -> Path:
    """Write the page: no script, no request to anywhere, readable in the dark and on paper."""
    return write_text(path, page(result))


def page(result: DemoResult) -> str:
    """Return the HTML of the page."""
    parts = [f"<p>{escape(_INTRO)}</p>"]
    for pair in result.pairs:
        parts += [
            f"<h2>{escape(_heading(pair))}</h2>",
            f"<p><strong>{escape(_verdict(pair))}</strong></p>",
            _table(_LEGEND, _HEADER, _cells(pair)),
        ]
        parts.append(f"<p>{escape(_unseen(pair))}</p><ul>")
        for title, words in _word_lists(pair):
            parts.append(f"<li>{escape(title)}: <em>{escape(_listed(words))}</em></li>")
        parts.append("</ul>")
    methods = [score.method for score in result.pairs[0].scores]
    parts += [
        "<h2>The methods</h2><dl>",
        *(f"<dt>{escape(m.label)}</dt><dd>{escape(m.says)}</dd>" for m in methods),
        "</dl><h2>Where the time went</h2>",
        _table(
            f"{seconds_text(result.seconds)} in all.",
            ("", "time"),
            _times(result),
        ),
        f"<footer><p>Data: {escape(result.citation)} {escape(result.licence)}</p>",
        f"<p>{escape(', '.join(f'{k} {v}' for k, v in versions().items()))}</p></footer>",
    ]
    return _PAGE.replace("{{body}}", "\n".join(parts))


def _times(result: DemoResult) -> list[tuple[str, str]]:
    """Return what took time at all."""
    return [(what, seconds_text(s)) for what, s in result.times if s >= 0.05]


def _heading(pair: PairResult) -> str:
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


def _verdict(pair: PairResult) -> str:
    """Return one sentence on the default model, whatever the others reach."""
    score = pair.scores[1]
    assert score.gain is not None
    gain = f"{score.method.label}: {score.gain.value:+.1f} points".replace("-", "−")
    if score.gain.low > 0:
        return f"{gain}; the interval is above zero: adaptation helps here."
    if score.gain.high < 0:
        return f"{gain}; the interval is below zero: adaptation hurts here."
    return f"{gain}; the interval holds zero: no clear difference here."


def _unseen(pair: PairResult) -> str:
    return (
        f"{pair.unseen} of the words and word pairs occur in no {pair.source} sentence, so source "
        f"only cannot use them. Adaptation weighs them by the words they come with:"
    )


def _word_lists(pair: PairResult) -> list[tuple[str, Sequence[Word]]]:
    return [("most positive", pair.positive), ("most negative", pair.negative)]


def _listed(words: Sequence[Word]) -> str:
    text = ", ".join(f"{w.text} ({w.after - w.before:+.2f})" for w in words)
    return text.replace("(-", "(−") or "none"


def _wrapped(text: str, indent: str = "") -> list[str]:
    from textwrap import wrap

    return wrap(text, 88, initial_indent=indent, subsequent_indent=indent)


def _table(caption: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    body = "".join(
        f'<tr><th scope="row">{escape(line[0])}</th>'
        + "".join(f"<td>{escape(text)}</td>" for text in line[1:])
        + "</tr>"
        for line in lines
    )
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>marda demo</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; caption-side: bottom; padding-top: .4rem; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid; text-align: right; }
th:first-child { text-align: left; }
dt { font-weight: 600; }
footer { margin-top: 2rem; border-top: 1px solid; }
</style>
</head>
<body>
<main>
<h1>Does adaptation help?</h1>
{{body}}
</main>
</body>
</html>
"""
