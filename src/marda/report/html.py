"""Pieces of a page. Whatever comes from outside is escaped here, once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

__all__ = ["Cells", "Chart", "Number", "Section", "facts", "paragraph", "points", "table"]


@dataclass(frozen=True)
class Number:
    """A figure as it is read and as it is sorted; ``strong`` and ``mark`` only adorn it."""

    text: str
    value: float
    strong: bool = False
    mark: bool = False


Cells = list[str | Number]


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


def paragraph(text: str, kind: str = "") -> str:
    """One paragraph of plain text."""
    name = f' class="{kind}"' if kind else ""
    return f"<p{name}>{escape(text)}</p>"


def points(lines: Sequence[str], kind: str = "") -> str:
    """A list of plain sentences."""
    name = f' class="{kind}"' if kind else ""
    return f"<ul{name}>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and what they stand for."""
    lines = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in pairs)
    return f'<dl class="facts">{lines}</dl>'


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Cells],
    *,
    sortable: bool = True,
) -> str:
    """A table whose first column names its rows; the script makes the headers sort."""
    numeric = [
        any(isinstance(row[k], Number) for row in rows) if rows else False
        for k in range(len(header))
    ]
    heads = "".join(
        _head(name, number, sortable and len(rows) > 1)
        for name, number in zip(header, numeric, strict=True)
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


def _cell(cell: str | Number, column: int) -> str:
    if isinstance(cell, Number):
        text = escape(cell.text)
        text = f"<u>{text}</u>" if cell.mark else text
        text = f"<strong>{text}</strong>" if cell.strong else text
        key = "" if math.isnan(cell.value) else f"{cell.value:.10g}"
        return f'<td class="number" data-sort="{key}">{text}</td>'
    if column == 0:
        return f'<th scope="row">{escape(cell)}</th>'
    return f"<td>{escape(cell)}</td>"
