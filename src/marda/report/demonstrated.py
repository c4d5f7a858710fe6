"""The report of ``marda demo``."""

from __future__ import annotations

from marda._memory import peak_mb
from marda.benchmarks.demonstration import (
    INTRO,
    LEGEND,
    DemoResult,
    PairDetails,
    PairResult,
    heading,
    unseen,
    verdict,
    word_lists,
)
from marda.diagnostics import Interval
from marda.diagnostics.intervals import counted
from marda.diagnostics.verdict import Verdict, pairs_verdict
from marda.report import charts
from marda.report.page import (
    Cells,
    Chart,
    NumberCell,
    Section,
    facts,
    interval_cells,
    number,
    page,
    paragraph,
    table,
)
from marda.report.sections import before_and_after, beside, confidence, confusion, times

__all__ = ["demonstrated_page"]


def demonstrated_page(result: DemoResult) -> str:
    """One page: every pair and method, then a closer look at the first pair."""
    first = result.pairs[0]
    details = first.details
    assert details is not None
    sections = [
        _scores(result),
        *(_words(pair) for pair in result.pairs),
        Section(
            f"A closer look at {first.source} → {first.target}",
            (paragraph(f"From here on: {first.scores[1].method.label} on this pair alone."),),
        ),
        *before_and_after(details.diagnosis, details.evidence),
        _predictions(first, details),
    ]
    methods = [(s.method.label, s.method.says) for s in first.scores]
    sections += [
        Section("The methods", (facts(methods),)),
        times(result.times, result.seconds, peak_mb()),
    ]
    return page(
        kind="demo",
        title="Does adaptation help?",
        lead=INTRO,
        verdict=_verdict(result),
        figures=_figures(result),
        sections=sections,
        footer=(f"Data: {result.citation} {result.licence}",),
    )


def _gain(pair: PairResult) -> Interval:
    """Of the second method over the first."""
    gain = pair.scores[1].gain
    assert gain is not None
    return gain


def _verdict(result: DemoResult) -> Verdict:
    return pairs_verdict(
        result.pairs[0].scores[1].method.label,
        [(f"{p.source} → {p.target}", _gain(p)) for p in result.pairs],
        f"True ratings of {counted(_judged(result), 'target sentence')}, which no method had "
        "seen; balanced accuracy.",
        "Pairs were picked for this demo.",
    )


def _judged(result: DemoResult) -> int:
    return sum(pair.n_target for pair in result.pairs)


def _figures(result: DemoResult) -> list[tuple[str, str]]:
    first = result.pairs[0]
    plain, adapted = first.scores[:2]
    return [
        ("target sentences judged", f"{_judged(result):,}"),
        (f"{first.source} → {first.target}, {plain.method.label}", f"{plain.balanced.value:.1f}%"),
        (
            f"{first.source} → {first.target}, {adapted.method.label}",
            f"{adapted.balanced.value:.1f}%",
        ),
    ]


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
            rows.append([name, label, accuracy, *balanced, *gain])
    header = (
        *("pair", "method", "accuracy", "balanced accuracy", "95% interval"),
        *("gain", "95% interval of the gain"),
    )
    whole = table(LEGEND, header, rows)
    heat = "Balanced accuracy in percent, by pair and method."
    spec = charts.heat_map(cells, down="pair", across="method", value=heat, cell=40)
    name = "Gain over source only in points of balanced accuracy, with 95% intervals."
    gain_rows: list[Cells] = [[label, *interval_cells(g, "+.1f")] for label, g in gains]
    return Section(
        "Pairs and methods",
        (
            Chart(spec, heat, table(heat, ("pair", "method", "percent"), _plain(cells))),
            Chart(
                charts.intervals(gains, "points", form="+.0f"),
                name,
                table(name, ("pair and method", "points", "95% interval"), gain_rows),
            ),
            whole,
        ),
    )


def _plain(cells: list[tuple[str, str, float, str]]) -> list[Cells]:
    return [[down, across, NumberCell(text, value)] for down, across, value, text in cells]


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


def _predictions(pair: PairResult, details: PairDetails) -> Section:
    parts: list[str | Chart] = [confidence(details.evidence, details.diagnosis.facts)]
    for score, counts in list(zip(pair.scores, pair.confusions, strict=True))[:2]:
        of = f"{counted(pair.n_target, 'target sentence')}, {score.method.label}"
        parts.append(confusion(counts, details.evidence.classes, of))
    return Section("Predictions", (parts[0], *beside(parts[1:])))
