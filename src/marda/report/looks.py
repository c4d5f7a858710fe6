"""Charts of one classifier: both domains in two dimensions, features, confidence."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from marda.diagnostics import Evidence, Gap, Picture
from marda.report.vega import CLASS_COLOURS, PAIR, Spec, coloured, finished, inline, rounded

__all__ = ["gaps", "histogram", "scatter"]

DOMAINS = ("source", "target")
STAGES = ("before", "after")
N_COLOURS = len(CLASS_COLOURS)
OTHER = "other classes"
GREY = CLASS_COLOURS[-1]


def scatter(evidence: Evidence, picture: Picture, by: str) -> Spec:
    """Both domains in two dimensions; ``by`` is "domain" or "class"."""
    names = _grouped(evidence)
    rows = [
        {
            "x": rounded(x),
            "y": rounded(y),
            "domain": DOMAINS[int(target)],
            "class": names[code],
            "label": evidence.classes[code],
        }
        for (x, y), target, code in zip(
            picture.places.tolist(), evidence.target.tolist(), evidence.codes.tolist(), strict=True
        )
    ]
    if by == "domain":
        colour = coloured("domain", DOMAINS, PAIR)
    else:
        colour = coloured("class", *_palette(names))
    quiet = alt.Axis(labels=False, ticks=False, grid=False, domain=False)
    axes = [
        f"direction {k} ({share:.0%} of the variation)"
        for k, share in enumerate(picture.share, start=1)
    ]
    chart = (
        alt.Chart(inline(rows))
        .mark_point(filled=True, size=24, opacity=0.65)
        .encode(
            x=alt.X("x:Q", title=axes[0], axis=quiet, scale=alt.Scale(zero=False)),
            y=alt.Y("y:Q", title=axes[1], axis=quiet, scale=alt.Scale(zero=False)),
            color=colour,
            # Shape tells the domains apart without colour.
            shape=alt.Shape(
                "domain:N",
                scale=alt.Scale(domain=list(DOMAINS), range=["circle", "triangle-up"]),
                legend=alt.Legend() if by == "domain" else None,
            ),
            tooltip=[
                alt.Tooltip("domain:N", title="domain"),
                alt.Tooltip("label:N", title="class"),
            ],
        )
    )
    return finished(chart, 300)


def _grouped(evidence: Evidence) -> list[str]:
    """Names by code; beyond ten colours the rare classes share one."""
    if len(evidence.classes) <= N_COLOURS:
        return list(evidence.classes)
    counts = [int((evidence.codes == k).sum()) for k in range(len(evidence.classes))]
    often = sorted(range(len(counts)), key=lambda k: -counts[k])[: N_COLOURS - 1]
    return [name if k in often else OTHER for k, name in enumerate(evidence.classes)]


def _palette(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Classes and their colours; what is left of them comes last and is grey."""
    shown = [name for name in dict.fromkeys(names) if name != OTHER]
    colours = CLASS_COLOURS[: len(shown)]
    return (shown, colours) if OTHER not in names else ([*shown, OTHER], [*colours, GREY])


def gaps(features: Sequence[Gap]) -> Spec:
    """How far the domains are apart in single features, before and after."""
    rows = [
        {"feature": g.feature, "stage": stage, "gap": rounded(abs(value)), "signed": rounded(value)}
        for g in features
        for stage, value in zip(STAGES, (g.before, g.after), strict=True)
    ]
    y = alt.Y(
        "feature:N", title=None, sort=None, axis=alt.Axis(grid=False, labelColor="var(--ink)")
    )
    x = alt.X(
        "gap:Q",
        title="gap between the domains, in standard deviations",
        axis=alt.Axis(tickCount=6, format="~g"),
    )
    base = alt.Chart(inline(rows)).encode(y=y)
    line = base.mark_line(color="var(--line-strong)", strokeWidth=2).encode(x=x, detail="feature:N")
    dots = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x,
        color=coloured("stage", STAGES, ["var(--before)", "var(--accent)"]),
        shape=alt.Shape(
            "stage:N", scale=alt.Scale(domain=list(STAGES), range=["diamond", "circle"])
        ),
        tooltip=[
            alt.Tooltip("feature:N", title="feature"),
            alt.Tooltip("stage:N", title=" "),
            alt.Tooltip("signed:Q", title="target − source", format="+.2f"),
        ],
    )
    return finished(alt.layer(line, dots), 26 * len(features) + 20)


def histogram(evidence: Evidence) -> Spec:
    """Target rows by the probability of their predicted class."""
    names = _grouped(evidence)
    edges = evidence.edges.tolist()
    counts: dict[tuple[str, int], int] = {}
    for name, line in zip(names, evidence.confidence.tolist(), strict=True):
        for k, count in enumerate(line):
            if count:
                counts[name, k] = counts.get((name, k), 0) + count
    rows = [
        {"class": name, "from": edges[k], "to": edges[k + 1], "rows": count}
        for (name, k), count in counts.items()
    ]
    chart = (
        alt.Chart(inline(rows))
        .mark_bar()
        .encode(
            x=alt.X(
                "from:Q",
                bin=alt.BinParams(binned=True, step=edges[1] - edges[0]),
                title="probability of the predicted class",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format=".0%", grid=False, values=[k / 5 for k in range(6)]),
            ),
            x2="to:Q",
            y=alt.Y("rows:Q", title="target rows", stack="zero"),
            color=coloured("class", *_palette(names)),
            tooltip=[
                alt.Tooltip("class:N", title="predicted"),
                alt.Tooltip("from:Q", title="from", format=".0%"),
                alt.Tooltip("to:Q", title="to", format=".0%"),
                alt.Tooltip("rows:Q", title="rows", format=","),
            ],
        )
    )
    return finished(chart, 220)
