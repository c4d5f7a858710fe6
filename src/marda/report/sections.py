"""Charts with their tables, and sections, that reports share: distances, features, times, …."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._machine import format_bytes
from marda.diagnostics.diagnosis import Diagnosis, Evidence, Finding, Gap, Picture
from marda.diagnostics.intervals import Interval, percent, seconds_text
from marda.diagnostics.verdict import (
    Facts,
    checks_text,
    gaps_text,
    losses_text,
    probabilities_text,
    sampled_text,
)
from marda.report import charts
from marda.report.page import (
    NONE,
    Cells,
    Chart,
    NumberCell,
    Section,
    interval_cells,
    number,
    paragraph,
    points,
    table,
)

Distance = tuple[str, Interval]
MOST_CLASSES = 40  # a larger confusion matrix has cells that nobody can see
LABELLED_CELLS = 12
CONFUSIONS = 20


def beside(parts: Sequence[str | Chart]) -> tuple[str | Chart | tuple[Chart, ...], ...]:
    """Charts side by side if all of them are charts that need no whole page."""
    drawn = tuple(p for p in parts if isinstance(p, Chart) and p.drawing.width <= charts.WIDTH)
    return (drawn,) if len(drawn) == len(parts) > 1 else tuple(parts)


def interval_chart(
    name: str,
    of: str,
    rows: Sequence[Distance],
    axis: str,
    form: str = ".2f",
    *,
    drawn: str | None = None,
    **options: Any,
) -> Chart:
    """Estimates with their intervals; ``drawn``: the form of figures beside bars, if another."""
    cells: list[Cells] = [[label, *interval_cells(value, form)] for label, value in rows]
    drawing = charts.intervals(rows, axis, form=drawn or form, **options)
    return Chart(drawing, name, table(name, (of, axis, "95% interval"), cells))


def heat_chart(
    name: str,
    cells: Sequence[tuple[str, str, float, str]],
    *,
    down: str,
    across: str,
    value: str,
    **options: Any,
) -> Chart:
    """Figures ``(down, across, value, text)`` as shades, and as a table of the same shape."""
    columns = list(dict.fromkeys(a for _, a, *_ in cells))
    figures = {(d, a): NumberCell(text, v) for d, a, v, text in cells}
    rows: list[Cells] = [
        [line, *(figures.get((line, column), NONE) for column in columns)]
        for line in dict.fromkeys(d for d, *_ in cells)
    ]
    drawing = charts.heat_map(cells, down=down, across=across, value=value, **options)
    return Chart(drawing, name, table(name, (down, *columns), rows))


def before_and_after(diagnosis: Diagnosis, evidence: Evidence) -> list[Section]:
    """What to beware of, and what one model did to the rows: distances, pictures, features."""
    facts = diagnosis.facts
    return [
        warnings(diagnosis.findings, diagnosis.checks),
        *_distances(diagnosis, moved=evidence.moved),
        pictures(evidence, (facts.n_source, facts.n_target)),
        features(evidence.gaps, moved=evidence.moved, few=facts.few),
    ]


def _distances(d: Diagnosis, *, moved: bool) -> list[Section]:
    """How far apart the domains were and are, unless there were too few rows to tell."""
    if d.a_distance_before is None or d.a_distance_after is None:
        return []
    if d.mmd_before is None or d.mmd_after is None:
        return []
    if not moved:
        return [distances([("rows", d.a_distance_before)], [("rows", d.mmd_before)])]
    return [
        distances(
            [("before", d.a_distance_before), ("after", d.a_distance_after)],
            [("before", d.mmd_before), ("after", d.mmd_after)],
        )
    ]


def distances(a_distances: Sequence[Distance], mmds: Sequence[Distance]) -> Section:
    """How far apart the domains were and are."""
    shown = []
    for title, axis, rows, top in (
        (
            "Proxy A-distance: how well a classifier tells source from target; 0 is not at all, "
            "2 is always.",
            "proxy A-distance",
            a_distances,
            2.0,
        ),
        (
            "Maximum mean discrepancy (MMD): how differently the rows are spread; 0 is alike.",
            "MMD",
            mmds,
            None,
        ),
    ):
        if not rows:
            continue
        low = None if top is None else 0.0
        shown.append(interval_chart(title, "rows", rows, axis, low=low, high=top))
    return Section(
        "How far apart the domains are",
        (
            paragraph(
                "Lower is closer. Dots are estimates, bars their 95% intervals"
                + (
                    ": where bars do not overlap, the change is more than chance."
                    if len(mmds) > 1
                    else ". The classifier sees the features as they came: there is no after."
                )
            ),
            tuple(shown),
        ),
    )


def pictures(evidence: Evidence, rows: tuple[int, int], after: str = "after adaptation") -> Section:
    """Both domains in two dimensions; `rows` of the source and of the target are there in all."""
    n = int(evidence.target.sum())
    shown = sampled_text((len(evidence.target) - n, n), rows)
    stages = [("before adaptation", evidence.before), (after, evidence.after)]
    if not evidence.moved:
        stages = [("rows as they came", evidence.before)]
    parts: list[Chart] = []
    for by, what in (
        ("domain", "coloured by domain"),
        ("class", "coloured by class (true in the source, predicted in the target)"),
    ):
        parts += [
            Chart(
                charts.scatter(evidence, picture, by),
                f"{_sentence(stage)}, {what}.",
                _centres(evidence, picture, by, stage),
            )
            for stage, picture in stages
        ]
    return Section(
        "The domains in two dimensions",
        (
            paragraph(
                f"{shown}, circles from the source and triangles from the target. The axes are "
                "the two directions in which the rows vary most (principal components; columns "
                "are first brought to one scale, where most entries are zero those that would "
                "outweigh all others)"
                f"{', found anew before and after' if evidence.moved else ''}; what lies in other "
                "directions cannot be seen here."
            ),
            tuple(parts),
        ),
    )


def _centres(evidence: Evidence, picture: Picture, by: str, stage: str) -> str:
    """Where the groups of a picture lie and how wide they are."""
    rows: list[Cells] = []
    names = evidence.classes if by == "class" else ("source", "target")
    codes = evidence.codes if by == "class" else evidence.target.astype(np.int64)
    for k, name in enumerate(names):
        places = picture.places[codes == k]
        if len(places):
            spread = float(np.sqrt(places.var(0).sum()))
            values = (*places.mean(0).tolist(), spread)
            rows.append(
                [
                    name,
                    NumberCell(f"{len(places):,}", len(places)),
                    *(number(v, ".3g") for v in values),
                ]
            )
    header = (by, "rows", "mean, direction 1", "mean, direction 2", "spread")
    return table(f"Centres and spreads {stage}.", header, rows)


def features(
    gaps: Sequence[Gap], after: str = "after adaptation", *, moved: bool, few: bool = False
) -> Section:
    """Single features whose gap between the domains changed most, or is largest."""
    title = "Features that changed most" if moved else "Features that differ most"
    if not gaps:
        return Section(
            title,
            (paragraph("This model's features are no longer those of the file, one by one."),),
        )
    name = "Gap between the domains in single features"
    name += f", before and {after}." if moved else "."
    header = ["feature", "before (target − source)", "after (target − source)"]
    rows: list[Cells] = [
        [g.feature, *(number(v, "+.2f") for v in (g.before, g.after)[: 1 + moved])] for g in gaps
    ]
    text = (
        "The mean of the target minus that of the source, in standard deviations of the feature: "
        "to the right of the line the target has more of it."
    )
    if few:
        text += " With so few rows, it may be chance."
    if moved:
        text += (
            " A gap that shrinks is a difference between the domains that the classifier sees less "
            f"of. {gaps_text([(g.before, g.after) for g in gaps])}"
        )
    else:
        header = ["feature", "target − source"]
    shown = Chart(charts.gaps(gaps, moved=moved), name, table(name, header, rows))
    return Section(title, (paragraph(text), shown))


def confidence(evidence: Evidence, facts: Facts) -> Chart:
    """Target rows by the probability of their predicted class."""
    how = probabilities_text(facts)
    name = f"Target rows by the probability of their predicted class; {how}."
    counts = evidence.confidence.sum(0).tolist()
    edges = evidence.edges.tolist()
    rows: list[Cells] = [
        [f"{low:.0%} to {high:.0%}", NumberCell(f"{count:,}", count)]
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        if count
    ]
    return Chart(charts.histogram(evidence), name, table(name, ("probability", "rows"), rows))


def confusion(counts: NDArray[np.int64], classes: Sequence[str], of: str) -> Chart | str:
    """True against predicted classes: a heat map, or the commonest errors where classes abound."""
    totals = counts.sum(1)
    wrong = [
        (int(counts[i, j]), i, j)
        for i in range(len(classes))
        for j in range(len(classes))
        if i != j and counts[i, j]
    ]
    wrong.sort(key=lambda item: (-item[0], item[1], item[2]))
    listed = table(
        f"The commonest errors of {of}.",
        ("true class", "predicted as", "rows", "of that class"),
        [
            [
                classes[i],
                classes[j],
                NumberCell(f"{n:,}", n),
                NumberCell(percent(n / totals[i]), n / totals[i]),
            ]
            for n, i, j in wrong[:CONFUSIONS]
        ],
    )
    if len(classes) > MOST_CLASSES:
        return listed
    cells = [
        (
            classes[i],
            classes[j],
            float(counts[i, j] / max(1, totals[i])),
            f"{counts[i, j]:,}",
        )
        for i in range(len(classes))
        for j in range(len(classes))
    ]
    few = len(classes) <= LABELLED_CELLS
    drawing = charts.heat_map(
        cells,
        down="true",
        across="predicted",
        value="rows",
        bottom=0.0,
        labels=few,
        cell=30 if few else 16,
    )
    name = f"Confusion matrix of {of}: true classes down, predicted across."
    return Chart(drawing, name, listed)


def convergence(losses: Sequence[float], title: str = "Convergence") -> Section:
    """The loss of a joint model, step by step."""
    name = "Loss after every step of the alternation."
    rows: list[Cells] = [[str(k), number(v, ".6g")] for k, v in enumerate(losses, start=1)]
    chart = Chart(
        charts.lines(losses, across="step", up="loss"), name, table(name, ("step", "loss"), rows)
    )
    return Section(title, (paragraph(losses_text(losses)), chart))


def times(steps: Sequence[tuple[str, float]], total: float, peak: float | None) -> Section:
    """Where the time went, and how much memory (MB) it took."""
    memory = "" if peak is None else f", and at most {format_bytes(peak * 2**20)} of memory"
    parts: list[str | Chart] = [paragraph(f"{seconds_text(total)} in all{memory}.")]
    shown = [(what, seconds) for what, seconds in steps if seconds >= 0.005]
    if shown:
        name = "Time by step."
        rows: list[Cells] = [[what, NumberCell(f"{s:.2f} s", s)] for what, s in shown]
        drawing = charts.bars([(w, "", s) for w, s in shown], axis="seconds", form="g", tip=".2f")
        parts.append(Chart(drawing, name, table(name, ("step", "time"), rows)))
    return Section("Time and memory", tuple(parts))


def warnings(findings: Sequence[Finding], checks: Collection[str]) -> Section:
    """What a reader should know before trusting the rest; `checks` are those that were made."""
    if not findings:
        return Section("Warnings", (paragraph(checks_text(checks)),))
    return Section("Warnings", (points([_sentence(f.text) for f in findings], "warnings"),))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
