"""One self-contained HTML file: style, script, charts and data inside, no request to anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib import import_module, resources
from typing import Any

from marda._machine import versions
from marda.diagnostics.verdict import Verdict
from marda.io import InputError
from marda.report.html import Chart, Section, facts

__all__ = ["Verdict", "page", "require"]

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
