"""One self-contained HTML file: style, script, charts and data inside, no request to anywhere.

Sections are made of paragraphs, tables and charts; whatever comes from outside is escaped here,
once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib import import_module, resources
from typing import Any

from marda._machine import versions
from marda.diagnostics import Interval
from marda.diagnostics.intervals import signed
from marda.diagnostics.verdict import Verdict
from marda.io import InputError

__all__ = [
    "NONE",
    "Cells",
    "Chart",
    "NumberCell",
    "Section",
    "facts",
    "head",
    "interval_cells",
    "number",
    "page",
    "paragraph",
    "points",
    "require",
    "table",
]

# The browser itself refuses whatever the page might be made to ask for.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def require() -> None:
    """Raise, before any work, if the libraries for charts are not installed."""
    try:
        for name in ("altair", "vl_convert"):
            import_module(name)
    except ImportError as error:
        raise InputError(
            f"a report needs {error.name}, which is not installed: pip install 'marda[report]'."
        ) from None


# What a page is made of ---------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberCell:
    """A figure as it is read and as it is sorted; ``strong`` and ``mark`` only adorn it."""

    text: str
    value: float
    strong: bool = False
    mark: bool = False


Cells = list[str | NumberCell]
NONE = NumberCell("–", float("nan"))


@dataclass(frozen=True)
class Chart:
    """A Vega-Lite spec with what a reader needs who does not see it.

    Attributes
    ----------
    spec : dict
        What is drawn.
    name : str
        What it shows, in one sentence: the caption, and the name for screen readers.
    rows : str
        The same figures as a table (HTML); empty where one follows the chart anyway.
    small : bool
        Whether half the width of the page is enough.
    """

    spec: dict[str, Any]
    name: str
    rows: str
    small: bool = False


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it: HTML, or charts, which may stand side by side."""

    title: str
    parts: tuple[str | Chart | tuple[Chart, ...], ...] = field(default=())

    @property
    def anchor(self) -> str:
        """Name of the section in addresses."""
        words = "".join(c if c.isalnum() else " " for c in self.title.lower()).split()
        return "-".join(words)


def paragraph(text: str) -> str:
    """One paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def points(lines: Sequence[str], kind: str = "") -> str:
    """A list of plain sentences."""
    name = f' class="{kind}"' if kind else ""
    return f"<ul{name}>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and what they stand for."""
    lines = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in pairs)
    return f'<dl class="facts">{lines}</dl>'


def table(caption: str, header: Sequence[str], rows: Sequence[Cells]) -> str:
    """A table whose first column names its rows; the script makes the headers sort."""
    numeric = [
        any(isinstance(row[k], NumberCell) for row in rows) if rows else False
        for k in range(len(header))
    ]
    heads = "".join(
        _head(name, number, len(rows) > 1) for name, number in zip(header, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cell(c, k) for k, c in enumerate(row))}</tr>" for row in rows)
    # A wide table scrolls by itself: a keyboard must be able to reach it, and to know what it is.
    return (
        f'<div class="scroll" role="group" aria-label="{escape(caption)}" tabindex="0">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(name: str, number: bool, sortable: bool) -> str:
    kind = ' class="number"' if number else ""
    if not name:
        return f"<td{kind}></td>"
    if not sortable:
        return f'<th scope="col"{kind}>{escape(name)}</th>'
    button = f'<button type="button">{escape(name)}</button>'
    return f'<th scope="col"{kind} aria-sort="none">{button}</th>'


def _cell(cell: str | NumberCell, column: int) -> str:
    if isinstance(cell, NumberCell):
        text = escape(cell.text)
        text = f"<u>{text}</u>" if cell.mark else text
        text = f"<strong>{text}</strong>" if cell.strong else text
        key = "" if math.isnan(cell.value) else f"{cell.value:.10g}"
        return f'<td class="number" data-sort="{key}">{text}</td>'
    if column == 0:
        return f'<th scope="row">{escape(cell)}</th>'
    return f"<td>{escape(cell)}</td>"


def number(value: float, form: str = ".2f") -> NumberCell:
    """A figure in a table."""
    text = signed(value, form) if form.startswith("+") else f"{value:{form}}".replace("-", "−")
    return NumberCell(text, value)


def interval_cells(value: Interval, form: str = ".2f") -> list[NumberCell]:
    """The estimate, and its interval sorted by its lower end."""
    low, high = number(value.low, form), number(value.high, form)
    return [number(value.value, form), NumberCell(f"{low.text} to {high.text}", value.low)]


# The page -----------------------------------------------------------------------------------------


def page(
    *,
    kind: str,
    title: str,
    lead: str,
    verdict: Verdict | None,
    figures: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    footer: Sequence[str] = (),
) -> str:
    """Return the HTML.

    Parameters
    ----------
    kind : str
        Which command it is of.
    title, lead : str
        The heading; what was done, in one sentence for everyone.
    verdict : Verdict or None
        The answer.
    figures : sequence of (str, str)
        The few numbers to remember: what, how much.
    sections : sequence of Section
        The rest, in order.
    footer : sequence of str
        Sources and licences.
    """
    charts: dict[str, dict[str, Any]] = {}
    sections = _distinct(sections)
    body = "\n".join(_section(section, charts) for section in sections)
    links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    made = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC").lstrip("0")
    tools = ", ".join(f"{name} {version}" for name, version in versions().items())
    parts = {
        "policy": POLICY,
        "title": escape(title),
        "kind": escape(kind),
        "lead": escape(lead),
        "style": _resource("style.css"),
        "verdict": "" if verdict is None else _verdict(verdict),
        "figures": _figures(figures),
        "links": links,
        "body": body,
        "footer": "".join(f"<p>{escape(line)}</p>" for line in (*footer, f"{made}. {tools}.")),
        "charts": json_in_html(charts),
        "library": _library() if charts else "",
        "script": _resource("page.js"),
    }
    text = _resource("page.html")
    head, *rest = text.split("{{")
    # Each place is filled once: what a part holds is never taken for a place.
    for piece in rest:
        name, _, after = piece.partition("}}")
        head += parts[name] + after
    return head


#: A notebook has a style of its own: only what the head needs, and only inside it.
HEAD_STYLE = """
.marda-head { max-width: 60rem; font: 14px/1.5 system-ui, sans-serif; }
.marda-head .verdict { border: 1px solid #8884; border-left: 5px solid #5b7fb5;
  border-radius: 6px; padding: .8em 1.1em; margin: .6em 0; }
.marda-head .verdict.good { border-left-color: #2f9e68; }
.marda-head .verdict.unclear { border-left-color: #b8861b; }
.marda-head .verdict.bad { border-left-color: #cf4a3f; }
.marda-head h2 { font-size: 1.2em; margin: 0 0 .3em; }
.marda-head .sign { margin-right: .5em; }
.marda-head dl, .marda-head dd { margin: 0; }
.marda-head .facts div { display: grid; grid-template-columns: 11em 1fr; gap: 0 1em;
  padding: .25em 0; border-top: 1px solid #8883; }
.marda-head .figures { display: flex; flex-wrap: wrap; gap: .4em 2.4em; margin: .8em 0; }
.marda-head dt { opacity: .75; }
.marda-head .figures dd { font-size: 1.25em; font-weight: 600; }
"""


def head(
    lead: str,
    verdict: Verdict,
    figures: Sequence[tuple[str, str]],
    warnings: Sequence[str] = (),
) -> str:
    """The first screen of a page as a fragment for notebooks: no script, no request, no charts.

    Parameters
    ----------
    lead : str
        What was done.
    verdict : Verdict
        The answer.
    figures : sequence of (str, str)
        The few numbers to remember.
    warnings : sequence of str
        What to know before trusting the rest.
    """
    parts = (paragraph(lead), _verdict(verdict), _figures(figures), points(warnings))
    inside = "\n".join(parts[: 4 if warnings else 3])
    # Several heads on one page: names of elements would be there twice.
    inside = inside.replace(' aria-labelledby="verdict"', "").replace(' id="verdict"', "")
    return f'<div class="marda-head"><style>{HEAD_STYLE}</style>\n{inside}</div>'


def _distinct(sections: Sequence[Section]) -> list[Section]:
    """Every title once, since it is also the name of its place on the page."""
    seen: dict[str, int] = {}
    kept = []
    for section in sections:
        seen[section.anchor] = n = seen.get(section.anchor, 0) + 1
        kept.append(section if n == 1 else replace(section, title=f"{section.title} ({n})"))
    return kept


def json_in_html(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(section: Section, charts: dict[str, dict[str, Any]]) -> str:
    parts = []
    for part in section.parts:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Chart):
            parts.append(_figure(part, charts))
        else:
            beside = "".join(_figure(chart, charts) for chart in part)
            parts.append(f'<div class="beside">{beside}</div>')
    inside = "\n".join(parts)
    return (
        f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-title">'
        f'<h2 id="{section.anchor}-title">{escape(section.title)}</h2>\n{inside}</section>'
    )


def _figure(chart: Chart, charts: dict[str, dict[str, Any]]) -> str:
    name = f"chart-{len(charts) + 1}"
    charts[name] = chart.spec
    kind = ' class="small"' if chart.small else ""
    more = f"<details><summary>The figures as a table</summary>{chart.rows}</details>"
    more = more if chart.rows else ""
    return (
        f"<figure{kind}><figcaption>{escape(chart.name)}</figcaption>"
        f'<div class="chart" role="img" aria-label="{escape(chart.name)}">'
        f'<div id="{name}" aria-hidden="true"></div></div>{more}</figure>'
    )


_SIGNS = {"good": "✓", "unclear": "~", "bad": "✗", "info": "i"}


def _verdict(verdict: Verdict) -> str:
    return (
        f'<section class="verdict {verdict.kind}" aria-labelledby="verdict">'
        f'<h2 id="verdict"><span class="sign" aria-hidden="true">{_SIGNS[verdict.kind]}</span>'
        f"{escape(verdict.word)}</h2><p>{escape(verdict.text)}</p>{facts(verdict.reasons)}</section>"
    )


def _figures(figures: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in figures)
    return f'<dl class="figures">{lines}</dl>' if lines else ""


@cache
def _resource(name: str) -> str:
    return resources.files("marda.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script."""
    import altair
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    # Nothing in a script may end it early; in a string the backslash changes nothing.
    return bundle.replace("</script", "<\\/script")
