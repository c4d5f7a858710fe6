"""Figures as text, and as cells of a table."""

from __future__ import annotations

from marda.diagnostics import Interval
from marda.diagnostics.numbers import counted, percent, points_text, scaled, signed
from marda.report.html import Number

__all__ = [
    "counted",
    "interval_cells",
    "number",
    "percent",
    "points_text",
    "scaled",
    "signed",
]


def number(value: float, form: str = ".2f") -> Number:
    """A figure in a table."""
    text = signed(value, form) if form.startswith("+") else f"{value:{form}}".replace("-", "−")
    return Number(text, value)


def interval_cells(value: Interval, form: str = ".2f") -> list[Number]:
    """The estimate, and its interval sorted by its lower end."""
    low, high = number(value.low, form), number(value.high, form)
    return [number(value.value, form), Number(f"{low.text} to {high.text}", value.low)]
