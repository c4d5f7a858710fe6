"""The report of ``marda demo``."""

from __future__ import annotations

from html import escape

from marda._machine import counted, peak_mb
from marda.benchmarks.demonstration import (
    DIGIT_METHODS,
    DIGITS_INTRO,
    INTRO,
    LEGEND,
    METHODS,
    OWN_FILES,
    DemoResult,
    DigitsResult,
    Example,
    PairResult,
    digits_text,
    heading,
    unseen,
    verdict,
    word_lists,
)
from marda.diagnostics.verdict import Verdict, pairs_verdict
from marda.report.page import (
    Cells,
    Chart,
    NumberCell,
    Section,
    Term,
    facts,
    interval_cells,
    number,
    page,
    paragraph,
    table,
)
from marda.report.sections import (
    before_and_after,
    beside,
    confidence,
    confusion,
    heat_chart,
    interval_chart,
    times,
)


def demonstrated_page(result: DemoResult, command: str = "") -> str:
    """One page: digits to look at, then sentences, then how to go on."""
    first = result.digits[0]
    assert first.details is not None
    sections = [
        Section("Wrong before, right now", tuple(_examples(d) for d in result.digits)),
        _digits(result),
        Section("On your own files", (f'<pre tabindex="0"><code>{OWN}</code></pre>',)),
        Section("Sentences", (paragraph(INTRO),)),
        _scores(result),
        *(_words(pair) for pair in result.pairs),
        _predictions(result),
        Section(
            f"A closer look at digits, {first.change}",
            (paragraph(f"From here on: {DIGIT_METHODS[-1].label} on these digits alone."),),
        ),
        *before_and_after(first.details.diagnosis, first.details.evidence),
        Section(
            "Predictions for digits",
            (confidence(first.details.evidence, first.details.diagnosis.facts),),
        ),
        times(result.times, result.seconds, peak_mb()),
    ]
    return page(
        kind="marda demo",
        title="Does adaptation help?",
        lead=DIGITS_INTRO,
        verdict=_verdict(result),
        figures=_figures(result),
        sections=sections,
        footer=result.sources,
        command=command,
    )


OWN = escape("\n".join(OWN_FILES))


def _verdict(result: DemoResult) -> Verdict:
    judged = sum(d.n_target for d in result.digits)
    return pairs_verdict(
        DIGIT_METHODS[-1].label,
        [(f"Digits, {d.change}", d.gain) for d in result.digits],
        f"The true labels of {counted(judged, 'changed digit')}, which no method had seen; gains "
        "are those over logistic regression.",
        "Changes were picked for this demo.",
        what="change",
    )


def _figures(result: DemoResult) -> list[tuple[str, str]]:
    """Logistic regression, then marda, of every change."""
    return [
        (
            f"{d.change}: read rightly by logistic regression, and by marda's default",
            f"{d.right[-2].value:.0f}% → {d.right[-1].value:.0f}%",
        )
        for d in result.digits
    ]


def _examples(digits: DigitsResult) -> str:
    """Pictures of digits that became right."""
    if not digits.examples:
        return ""
    shown = "".join(
        f"<li>{_picture(e)}<span>a <b>{escape(e.true)}</b>, not a {escape(e.before)}</span></li>"
        for e in digits.examples
    )
    told = f"{digits.change.capitalize()}: {digits_text(digits).partition(': ')[2]}"
    return f'{paragraph(told)}<ul class="pictures">{shown}</ul>'


def _picture(example: Example) -> str:
    grey = example.image / max(1.0, float(example.image.max()))
    cells = "".join(
        f'<rect x="{j}" y="{i}" width="1.02" height="1.02" opacity="{grey[i, j]:.2f}"/>'
        for i in range(8)
        for j in range(8)
        if grey[i, j] > 0.02
    )
    name = f"A picture of a {example.true}"
    return (
        f'<svg viewBox="0 0 8 8" width="72" height="72" role="img" aria-label="{escape(name)}" '
        f'fill="var(--ink)">{cells}</svg>'
    )


def _digits(result: DemoResult) -> Section:
    rows: list[Cells] = []
    for d in result.digits:
        figures = (NumberCell(f"{r.value:.1f}%", r.value) for r in d.right)
        rows.append([d.change, *figures, *interval_cells(d.gain, "+.1f")])
    names = [m.label for m in DIGIT_METHODS]
    header = ("digits", *names, "gain in points", "95% interval")
    bars = [
        (f"{d.change}, {name}", right)
        for d in result.digits
        for name, right in zip(names, d.right, strict=True)
    ]
    right = "Percent of the changed digits that are read rightly, with 95% intervals."
    gain = "Points that marda's default gains over logistic regression, with 95% intervals."
    gains = [(d.change, d.gain) for d in result.digits]
    of, axis = "digits and method", "percent"
    pair = (
        interval_chart(right, of, bars, axis, ".1f", drawn=".0f", low=0.0, high=100.0),
        interval_chart(gain, "digits", gains, "points", "+.1f", gains=True),
    )
    legend = facts([(m.label, m.says) for m in DIGIT_METHODS])
    whole = table("Percent read rightly; the gain is over logistic regression.", header, rows)
    return Section("Digits, by method", (legend, pair, whole))


def _scores(result: DemoResult) -> Section:
    cells, gains = [], []
    rows: list[Cells] = []
    for pair in result.pairs:
        name = f"{pair.source} → {pair.target}"
        for score in pair.scores:
            label, b, g = score.method.label, score.balanced, score.gain
            cells.append((name, label, b.value, f"{b.value:.1f}"))
            gain: Cells = [NumberCell("", float("nan"))] * 2
            if g is not None:
                gain = [*interval_cells(g, "+.1f")]
                gains.append((f"{name}, {score.method.name}", g))
            accuracy = number(score.accuracy.value, ".1f")
            balanced = interval_cells(b, ".1f")
            rows.append([name, Term(label, score.method.says), accuracy, *balanced, *gain])
    header = (
        *("pair", "method", "accuracy", "balanced accuracy", "95% interval"),
        *("gain", "its interval"),
    )
    whole = table(LEGEND, header, rows)
    heat = "Balanced accuracy in percent, by pair and method."
    name = "Gain over source only in points of balanced accuracy, with 95% intervals."
    pair_of = (
        heat_chart(heat, cells, down="pair", across="method", value=heat, cell=40),
        interval_chart(name, "pair and method", gains, "points", "+.1f", gains=True),
    )
    methods = facts([(m.label, m.says) for m in METHODS])
    return Section("Sentences, by pair and method", (methods, pair_of, whole))


def _words(pair: PairResult) -> Section:
    """What adaptation learned about words that the source never used."""
    rows: list[Cells] = [
        [
            w.text,
            kind,
            number(w.after - w.before, "+.2f"),
            NumberCell(f"{w.target_rows:,}", w.target_rows),
        ]
        for kind, words in word_lists(pair)
        for w in words
    ]
    header = ("word or pair", "leans to", "change of weight", "target sentences")
    return Section(
        f"{pair.source} → {pair.target}",
        (
            paragraph(f"{heading(pair)}. {verdict(pair)}"),
            paragraph(unseen(pair).rstrip(":") + "."),
            table("Words that no source sentence has.", header, rows),
        ),
    )


def _predictions(result: DemoResult) -> Section:
    """Which ratings are taken for which, of the first pair."""
    pair = result.pairs[0]
    parts: list[str | Chart] = []
    for score, counts in zip(pair.scores, pair.confusions, strict=True):
        of = f"{counted(pair.n_target, 'sentence')} of {pair.target}, {score.method.label}"
        parts.append(confusion(counts, ("negative", "positive"), of))
    return Section(f"Ratings of {pair.target}", beside(parts))
