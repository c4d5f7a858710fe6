"""Figures as text, and as cells of a table."""

from __future__ import annotations

from marda.diagnostics import Interval
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


def counted(n: int, what: str) -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def percent(share: float) -> str:
    """``84.1%``."""
    return f"{100 * share:.1f}%"


def scaled(share: Interval) -> Interval:
    """A share in percent."""
    return Interval(100 * share.value, 100 * share.low, 100 * share.high)


def points_text(gain: Interval) -> str:
    """``+5.0 points (95% interval +1.2 to +8.8)`` of a gain in percent."""
    interval = f"{signed(gain.low)} to {signed(gain.high)}"
    return f"{signed(gain.value)} points (95% interval {interval})"


def signed(value: float, form: str = "+.1f") -> str:
    """With a real minus, and no sign before a zero."""
    text = f"{value:{form}}"
    return text.lstrip("+-") if float(text) == 0 else text.replace("-", "−")


def number(value: float, form: str = ".2f") -> Number:
    """A figure in a table."""
    text = signed(value, form) if form.startswith("+") else f"{value:{form}}".replace("-", "−")
    return Number(text, value)


def interval_cells(value: Interval, form: str = ".2f") -> list[Number]:
    """The estimate, and its interval sorted by its lower end."""
    low, high = number(value.low, form), number(value.high, form)
    return [number(value.value, form), Number(f"{low.text} to {high.text}", value.low)]
