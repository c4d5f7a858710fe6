"""One self-contained HTML file: style, script, charts and data inside, no request to anywhere.

Sections are made of paragraphs, tables and charts; whatever comes from outside is escaped here,
once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib import resources
from importlib.util import find_spec

from marda._machine import versions
from marda.diagnostics.answer import Answer
from marda.diagnostics.intervals import Interval, share_text, signed
from marda.diagnostics.verdict import Verdict
from marda.report.charts import WIDTH, Drawing, standalone

# The browser itself refuses whatever the page might be made to ask for.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


LONG = 24  # letters of a name that may have to be broken
GROWTH = 1.28  # how much larger than drawn a chart may be shown

# What a page is made of ---------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberCell:
    """A figure as it is read and as it is sorted; ``strong`` and ``mark`` only adorn it."""

    text: str
    value: float
    strong: bool = False
    mark: bool = False


@dataclass(frozen=True)
class Term:
    """A word that is explained under the pointer, such as the name of a method."""

    text: str
    says: str


Cells = list[str | NumberCell | Term]
NONE = NumberCell("–", float("nan"))


@dataclass(frozen=True)
class Chart:
    """A drawing with what a reader needs who does not see it.

    Attributes
    ----------
    drawing : Drawing
        What is drawn.
    name : str
        What it shows, in one sentence: the caption, and the name for screen readers.
    rows : str
        The same figures as a table (HTML); empty where one follows the chart anyway.
    """

    drawing: Drawing
    name: str
    rows: str


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
    lines = "".join(
        # In a sentence only names have underscores; a point may be one of a number.
        f"<div><dt>{_breakable(n)}</dt><dd>{re.sub(r'_(?=[^_ ])', '_<wbr>', escape(v))}</dd></div>"
        for n, v in pairs
    )
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


def _cell(cell: str | NumberCell | Term, column: int) -> str:
    if isinstance(cell, NumberCell):
        text = escape(cell.text)
        text = f"<u>{text}</u>" if cell.mark else text
        text = f"<strong>{text}</strong>" if cell.strong else text
        key = "" if math.isnan(cell.value) else f"{cell.value:.10g}"
        return f'<td class="number" data-sort="{key}">{text}</td>'
    inside = _breakable(cell) if isinstance(cell, str) else _term(cell)
    if column == 0:
        return f'<th scope="row">{inside}</th>'
    long = isinstance(cell, str) and len(cell) > LONG
    return f'<td class="long">{inside}</td>' if long else f"<td>{inside}</td>"


def _breakable(text: str) -> str:
    """Long names of columns are broken between their words rather than anywhere."""
    # SA+SVM, SubspaceAlignment
    inside = re.sub(r"(?<=\+)(?=\w)|(?<=[a-z]{3})(?=[A-Z][a-z]{2})", "<wbr>", escape(text))
    return re.sub(r"([_.:=])(?=\w)", r"\1<wbr>", inside) if len(text) > LONG else inside


def _term(term: Term) -> str:
    """A keyboard reaches what a pointer shows."""
    if not term.says:
        return escape(term.text)
    return (
        f'<span class="term" tabindex="0" data-tip="{escape(term.says)}">{escape(term.text)}</span>'
    )


def number(value: float | None, form: str = ".2f") -> NumberCell:
    """A figure in a table; where there is none, a dash."""
    if value is None:
        return NONE
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
    sections: Sequence[Section],
    verdict: Verdict | Answer | None,
    figures: Sequence[tuple[str, str]] = (),
    about: str = "",
    footer: Sequence[str] = (),
    command: str = "",
) -> str:
    """Return the HTML.

    Parameters
    ----------
    kind : str
        Which command or function it is of.
    title : str
        The heading: the question that the page answers.
    lead : str
        What was done, in one sentence for everyone; below the answer.
    sections : sequence of Section
        The rest, in order.
    verdict : Verdict, Answer or None
        The answer.
    figures : sequence of (str, str)
        The few numbers to remember: what, how much.
    about : str
        What it is about, in a few words, above the heading.
    footer : sequence of str
        Sources and licences.
    command : str
        The command that made the page.
    """
    sections = _distinct(sections)
    links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    made = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC").lstrip("0")
    tools = ", ".join(f"{name} {version}" for name, version in versions().items())
    end = "".join(f"<p>{escape(line)}</p>" for line in (*footer, f"{made}. {tools}."))
    if command:
        end = f'<p>Made by</p><pre tabindex="0"><code>{escape(command)}</code></pre>{end}'
    parts = {
        "policy": POLICY,
        "title": escape(title),
        "kind": escape(kind),
        "about": f" · {escape(about)}" if about else "",
        "lead": escape(lead),
        "style": _resource("style.css"),
        "verdict": _first(verdict),
        "figures": _figures(figures),
        "links": links,
        "body": "\n".join(_section(section) for section in sections),
        "footer": end,
        "script": _resource("page.js"),
    }
    text = _resource("page.html")
    head, *rest = text.split("{{")
    # Each place is filled once: what a part holds is never taken for a place.
    for piece in rest:
        name, _, after = piece.partition("}}")
        head += parts[name] + after
    return head


def charts_of(sections: Sequence[Section]) -> dict[str, Chart]:
    """Every chart of a page, by a name for a file."""
    found: dict[str, Chart] = {}
    for section in _distinct(sections):
        for part in section.parts:
            for chart in (
                () if isinstance(part, str) else part if isinstance(part, tuple) else [part]
            ):
                found[f"{len(found) + 1:02d}-{section.anchor}"] = chart
    return found


def plot_files(sections: Sequence[Section]) -> dict[str, bytes]:
    """Every chart of a page as a file of its own: SVG, and PNG where that can be made."""
    found = {}
    for name, chart in charts_of(sections).items():
        svg = standalone(chart.drawing, chart.name)
        found[f"{name}.svg"] = svg.encode()
        if can_make_png():
            import vl_convert

            found[f"{name}.png"] = vl_convert.svg_to_png(svg, scale=2)
    return found


def can_make_png() -> bool:
    """Whether the library that makes PNG of SVG is installed."""
    return find_spec("vl_convert") is not None


#: A notebook has a style of its own: only what the head needs, and only inside it.
HEAD_STYLE = """
.marda-head { max-width: 60rem; font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
.marda-head .verdict { border: 1px solid #8884; border-left: 5px solid #5b7fb5;
  border-radius: 6px; padding: .8em 1.1em; margin: .6em 0; }
.marda-head .verdict.good { border-left-color: #2f9e68; }
.marda-head .verdict.unclear { border-left-color: #b8861b; }
.marda-head .verdict.bad { border-left-color: #cf4a3f; }
.marda-head h2 { font-size: 1.2em; margin: 0 0 .3em; }
.marda-head .sign { margin-right: .5em; }
.marda-head dl, .marda-head dd { margin: 0; }
.marda-head .facts div { display: grid; gap: 0 1em;
  grid-template-columns: minmax(4em, min(11em, 30%)) minmax(0, 1fr);
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
    parts = (paragraph(lead), _first(verdict), _figures(figures), points(warnings))
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


def _section(section: Section) -> str:
    parts = []
    for part in section.parts:
        if isinstance(part, str):
            parts.append(part)
            continue
        charts = (part,) if isinstance(part, Chart) else part
        drawn = "".join(_figure(chart) for chart in charts)
        # A chart that is wider than half a page would be cut beside another.
        alone = len(charts) == 1 or any(chart.drawing.width > WIDTH for chart in charts)
        parts.append(drawn if alone else f'<div class="beside">{drawn}</div>')
    inside = "\n".join(parts)
    return (
        f'<section id="{section.anchor}" aria-labelledby="{section.anchor}-title">'
        f'<h2 id="{section.anchor}-title">{escape(section.title)}</h2>\n{inside}</section>'
    )


def _figure(chart: Chart) -> str:
    """A chart that is wider than a telephone scrolls by itself, as tables do."""
    more = f"<details><summary>The figures as a table</summary>{chart.rows}</details>"
    name, drawing = escape(chart.name), chart.drawing
    size = f"max-width:{GROWTH * drawing.width:.0f}px"
    wide = drawing.width > WIDTH
    size += f";min-width:{drawing.width:.0f}px" if wide else ""
    shown = f'<div class="chart" style="{size}" role="img" aria-label="{name}">{drawing.svg}</div>'
    if wide:
        shown = f'<div class="scroll" role="group" aria-label="{name}" tabindex="0">{shown}</div>'
    return f"<figure><figcaption>{name}</figcaption>{shown}{more if chart.rows else ''}</figure>"


_SIGNS = {"good": "✓", "unclear": "~", "bad": "✗", "info": "i"}


def _first(verdict: Verdict | Answer | None) -> str:
    if isinstance(verdict, Answer):
        return _answer(verdict)
    return "" if verdict is None else verdict_box(verdict, "verdict")


def verdict_box(verdict: Verdict, name: str = "") -> str:
    """A verdict with its reasons; with a name, it is a section of its own."""
    inside = f"<p>{escape(verdict.text)}</p>{facts(verdict.reasons)}"
    return _box(verdict.kind, verdict.word, inside, name)


def _box(kind: str, word: str, inside: str, name: str) -> str:
    tag = "h2" if name else "p"
    sign = f'<span class="sign" aria-hidden="true">{_SIGNS[kind]}</span>'
    told = f'<{tag} class="word"{f" id={chr(34)}{name}{chr(34)}" if name else ""}>{sign}'
    told += f"<span>{escape(word)}</span></{tag}>{inside}"
    if name:
        return f'<section class="verdict {kind}" aria-labelledby="{name}">{told}</section>'
    return f'<div class="verdict {kind}">{told}</div>'


def _answer(answer: Answer) -> str:
    """The first screen: how many are right, what that rests on, what differs, what to do."""
    told = facts([("Rests on", answer.basis), ("What differs", answer.shift)])
    steps = "".join(f"<li>{escape(step)}</li>" for step in answer.steps)
    inside = (
        f"{_gauge(answer)}<p>{escape(answer.text)}</p>{told}"
        f'<p class="next" id="next">What to do next</p><ol aria-labelledby="next">{steps}</ol>'
    )
    return _box(answer.kind, answer.word, inside, "verdict")


def _gauge(answer: Answer) -> str:
    """From none to all right: the interval, the share, and where guessing lies."""
    if answer.interval is None:
        return ""
    low, high = (100 * bound for bound in answer.interval)
    ends = " to ".join(share_text(bound) for bound in answer.interval)
    share = "" if answer.expected is None else share_text(answer.expected)
    said = f"Right: {share}, {ends}" if share else f"Right: {ends}"
    said += f"; guessing {share_text(answer.guessing)}"
    dot, at = "", 100 * answer.guessing
    if answer.expected is not None:
        dot = f'<i class="dot" style="left:{100 * answer.expected:.1f}%"></i>'
    return (
        f'<div class="gauge" role="img" aria-label="{escape(said)}">'
        # As far to the left of its line as the line is from the left: never outside of the bar.
        f'<span class="guessing" style="left:{at:.1f}%;transform:translateX(-{at:.1f}%)">'
        f"guessing: {share_text(answer.guessing)}</span>"
        f'<b>{share or "?"}</b><div class="bar"><i class="range" style="left:{low:.1f}%;'
        f'width:{max(1.0, high - low):.1f}%"></i>{dot}'
        f'<i class="guess" style="left:{at:.1f}%"></i>'
        f"</div><span>0% right</span><span>100% right</span></div>"
    )


def _figures(figures: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in figures)
    return f'<dl class="figures">{lines}</dl>' if lines else ""


@cache
def _resource(name: str) -> str:
    return resources.files("marda.report").joinpath(name).read_text(encoding="utf-8")
