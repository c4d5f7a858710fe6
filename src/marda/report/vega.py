"""What all charts share: looks, data, colours.

Colours are the page's CSS variables: a chart follows the reader's colour scheme, and turns light
on paper, without being drawn again. Heat maps shade one colour by opacity for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

__all__ = ["CLASS_COLOURS", "PAIR", "Spec", "coloured", "finished", "inline", "rounded"]

Spec = dict[str, Any]
Row = dict[str, Any]

FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
CLASS_COLOURS = [f"var(--c{k})" for k in range(10)]
PAIR = ["var(--source)", "var(--target)"]


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
    """A colour a name; one name alone needs no legend."""
    scale = alt.Scale(domain=list(names), range=list(colours))
    shown = alt.Legend(**legend) if len(names) > 1 else None
    return alt.Color(f"{field}:N", scale=scale, legend=shown)
