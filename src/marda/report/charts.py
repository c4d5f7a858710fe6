"""Charts as Vega-Lite specs: of figures in general, and of one classifier.

Colours are the page's CSS variables: a chart follows the reader's colour scheme, and turns light
on paper, without being drawn again. Heat maps shade one colour by opacity for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from marda.diagnostics import Evidence, Gap, Interval, Picture

__all__ = [
    "Spec",
    "bars",
    "gaps",
    "heat_map",
    "histogram",
    "intervals",
    "lines",
    "paper_against_ours",
    "scatter",
]

Spec = dict[str, Any]
Row = dict[str, Any]

FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
CLASS_COLOURS = [f"var(--c{k})" for k in range(10)]
PAIR = ["var(--source)", "var(--target)"]
DOMAINS = ("source", "target")
STAGES = ("before", "after")
N_COLOURS = len(CLASS_COLOURS)
OTHER = "other classes"
GREY = CLASS_COLOURS[-1]


# What all charts share ----------------------------------------------------------------------------


def _config() -> Spec:
    text = {"font": FONT, "fontSize": 12}
    return {
        # The page names every chart and holds its figures as a table: marks need no second voice.
        "aria": False,
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **{f"label{k[0].upper()}{k[1:]}": v for k, v in text.items()},
            "labelColor": "var(--muted)",
            "titleColor": "var(--muted)",
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "gridColor": "var(--line)",
            "domainColor": "var(--line)",
            "tickColor": "var(--line)",
            "labelLimit": 150,
            "titlePadding": 8,
        },
        "legend": {
            "labelColor": "var(--ink)",
            "titleColor": "var(--muted)",
            "labelFontSize": 12,
            "orient": "top",
            "title": None,
            "columns": 5,
            "labelLimit": 120,
            "offset": 4,
        },
        "text": {"color": "var(--ink)", "font": FONT},
        "rule": {"color": "var(--muted)"},
    }


def finished(chart: Any, height: int) -> Spec:
    """The whole chart as wide as its place on the page."""
    chart = chart.properties(width="container", height=height, autosize={"type": "fit-x"})
    spec: Spec = chart.configure(**_config()).to_dict()
    return spec


def inline(rows: Sequence[Row]) -> alt.InlineData:
    """Rows that are part of the page."""
    return alt.InlineData(values=list(rows))


def rounded(value: float, digits: int = 4) -> float:
    """As many digits as can be seen: every one is part of the page."""
    return float(f"{value:.{digits}g}")


def coloured(field: str, names: Sequence[str], colours: Sequence[str], **legend: Any) -> Any:
    """A colour per name; one name alone needs no legend."""
    scale = alt.Scale(domain=list(names), range=list(colours))
    shown = alt.Legend(**legend) if len(names) > 1 else None
    return alt.Color(f"{field}:N", scale=scale, legend=shown)


# Figures ------------------------------------------------------------------------------------------


def intervals(
    rows: Sequence[tuple[str, Interval]],
    axis: str,
    *,
    zero: bool = True,
    form: str = ".2f",
    low: float | None = None,
    high: float | None = None,
) -> Spec:
    """A dot and its 95% interval per line."""
    data = inline(
        [{"name": n, "value": v.value, "low": v.low, "high": v.high, "of": str(v)} for n, v in rows]
    )
    scale = alt.Scale(zero=zero, nice=True)
    if low is not None and high is not None:
        scale = alt.Scale(domain=[low, high])
    x = alt.X("low:Q", title=axis, scale=scale, axis=alt.Axis(format=form, tickCount=5))
    y = alt.Y("name:N", title=None, sort=None, axis=alt.Axis(grid=False, labelColor="var(--ink)"))
    tooltip = [
        alt.Tooltip("name:N", title=" "),
        alt.Tooltip("value:Q", title=axis, format=form),
        alt.Tooltip("low:Q", title="at least", format=form),
        alt.Tooltip("high:Q", title="at most", format=form),
    ]
    base = alt.Chart(data).encode(y=y, tooltip=tooltip)
    ranges = base.mark_rule(strokeWidth=3, opacity=0.45, color="var(--accent)").encode(
        x=x, x2="high:Q"
    )
    dots = base.mark_circle(size=110, opacity=1, color="var(--accent)").encode(
        x=alt.X("value:Q", title=axis)
    )
    return finished(alt.layer(ranges, dots), 34 * len(rows) + 10)


def heat_map(
    rows: Sequence[tuple[str, str, float, str]],
    *,
    across: str,
    down: str,
    value: str,
    bottom: float | None = None,
    labels: bool = True,
    order: Sequence[str] | None = None,
    cell: int = 34,
) -> Spec:
    """Cells ``(down, across, value, text)`` shaded by value; ``order`` is that of the columns."""
    data = inline(
        [{"down": d, "across": a, "value": rounded(v, 6), "text": t} for d, a, v, t in rows]
    )
    values = [v for _, _, v, _ in rows]
    columns = list(order or dict.fromkeys(a for _, a, _, _ in rows))
    low = min(values) if bottom is None else bottom
    top = max(values)
    base = alt.Chart(data).encode(
        x=alt.X(
            "across:N",
            title=across,
            sort=columns,
            axis=alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False, labelLimit=90),
        ),
        y=alt.Y(
            "down:N",
            title=down,
            sort=None,
            axis=alt.Axis(domain=False, ticks=False),
        ),
        tooltip=[
            alt.Tooltip("down:N", title=down),
            alt.Tooltip("across:N", title=across),
            alt.Tooltip("text:N", title=value),
        ],
    )
    shade = alt.Opacity(
        "value:Q",
        # One value only: a domain of a single point would divide by zero.
        scale=alt.Scale(domain=[low, top if top > low else low + 1], range=[0.04, 0.6]),
        legend=None,
    )
    chart = base.mark_rect(color="var(--accent)", cornerRadius=3).encode(opacity=shade)
    if labels:
        chart = alt.layer(chart, base.mark_text(fontSize=12).encode(text="text:N"))
    return finished(chart, cell * len({d for d, *_ in rows}))


def lines(values: Sequence[float], *, across: str, up: str) -> Spec:
    """A curve over steps from 1."""
    rows = [{"step": k, "value": v} for k, v in enumerate(values, start=1)]
    positive = min(values) > 0 and max(values) > 20 * min(values)
    scale = alt.Scale(type="log") if positive else alt.Scale(zero=False)
    chart = (
        alt.Chart(inline(rows))
        .mark_line(point={"filled": True, "size": 45, "color": "var(--accent)"})
        .encode(
            x=alt.X("step:Q", title=across, axis=alt.Axis(tickMinStep=1, grid=False, format="d")),
            y=alt.Y("value:Q", title=up, scale=scale, axis=alt.Axis(format=".3~s", tickCount=5)),
            color=alt.value("var(--accent)"),
            tooltip=[
                alt.Tooltip("step:Q", title=across),
                alt.Tooltip("value:Q", title=up, format=".6~g"),
            ],
        )
    )
    return finished(chart, 200)


def bars(rows: Sequence[tuple[str, str, float]], *, axis: str, form: str, tip: str) -> Spec:
    """Bars ``(name, group, value)``, one colour per group; groups stand beside each other."""
    data = inline([{"name": n, "group": g, "value": rounded(v, 5)} for n, g, v in rows])
    groups = list(dict.fromkeys(g for _, g, _ in rows))
    names = list(dict.fromkeys(n for n, _, _ in rows))
    encoding: dict[str, Any] = {
        "x": alt.X("value:Q", title=axis, axis=alt.Axis(format=form, tickCount=5)),
        "y": alt.Y(
            "name:N", title=None, sort=None, axis=alt.Axis(grid=False, labelColor="var(--ink)")
        ),
        "tooltip": [
            alt.Tooltip("name:N", title=" "),
            *([alt.Tooltip("group:N", title="rows")] if len(groups) > 1 else []),
            alt.Tooltip("value:Q", title=axis, format=tip),
        ],
        "color": alt.value("var(--accent)"),
    }
    if len(groups) > 1:
        encoding["yOffset"] = alt.YOffset("group:N", sort=groups)
        encoding["color"] = coloured("group", groups, PAIR)
    chart = alt.Chart(data).mark_bar(cornerRadius=2).encode(**encoding)
    return finished(chart, max(1, len(groups)) * 20 * len(names) + 16)


def paper_against_ours(rows: Sequence[tuple[str, str, float, float]]) -> Spec:
    """Points ``(block, name, paper, ours)`` about the line on which both are equal."""
    data = inline(
        [
            {"of": b, "name": n, "paper": p, "ours": rounded(o, 4), "difference": round(o - p, 1)}
            for b, n, p, o in rows
        ]
    )
    values = [v for *_, p, o in rows for v in (p, o)]
    low, high = min(values) - 2, max(values) + 2
    scale = alt.Scale(domain=[low, high], nice=False)
    blocks = list(dict.fromkeys(b for b, *_ in rows))
    equal = (
        alt.Chart(inline([{"paper": low, "ours": low}, {"paper": high, "ours": high}]))
        .mark_line(color="var(--line-strong)", strokeDash=[4, 4], strokeWidth=1.5)
        .encode(x=alt.X("paper:Q", scale=scale), y=alt.Y("ours:Q", scale=scale))
    )
    dots = (
        alt.Chart(data)
        .mark_point(filled=True, size=60, opacity=0.75)
        .encode(
            x=alt.X(
                "paper:Q",
                title="paper, accuracy in percent",
                scale=scale,
                axis=alt.Axis(tickCount=6),
            ),
            y=alt.Y("ours:Q", title="ours, accuracy in percent", scale=scale),
            color=coloured("of", blocks, CLASS_COLOURS[: len(blocks)], columns=1, labelLimit=300),
            shape=alt.Shape("of:N", scale=alt.Scale(domain=blocks)),
            tooltip=[
                alt.Tooltip("of:N", title=" "),
                alt.Tooltip("name:N", title="model"),
                alt.Tooltip("paper:Q", title="paper", format=".1f"),
                alt.Tooltip("ours:Q", title="ours", format=".1f"),
                alt.Tooltip("difference:Q", title="ours − paper", format="+.1f"),
            ],
        )
    )
    return finished(alt.layer(equal, dots), 340)


# One classifier -----------------------------------------------------------------------------------


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
