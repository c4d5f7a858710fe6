"""Charts of figures: intervals, heat maps, curves, bars, paper against ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from marda.diagnostics import Interval
from marda.report.vega import CLASS_COLOURS, PAIR, Spec, coloured, finished, inline, rounded

__all__ = ["bars", "heat_map", "intervals", "lines", "paper_against_ours"]


def intervals(
    rows: Sequence[tuple[str, Interval]],
    axis: str,
    *,
    zero: bool = True,
    form: str = ".2f",
    low: float | None = None,
    high: float | None = None,
) -> Spec:
    """A dot and its 95% interval a line."""
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
    """Bars ``(name, group, value)``, one colour a group; groups stand beside each other."""
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
