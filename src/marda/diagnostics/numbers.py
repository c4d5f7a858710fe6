"""Figures as text."""

from __future__ import annotations

from marda.diagnostics.bootstrap import Interval

__all__ = [
    "counted",
    "percent",
    "points_text",
    "scaled",
    "seconds_text",
    "share_text",
    "signed",
    "step_text",
]


def counted(n: int, what: str) -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def percent(share: float) -> str:
    """``84.1%``."""
    return f"{100 * share:.1f}%"


def share_text(share: float) -> str:
    """``84%``; small shares keep a digit: ``0.2%``."""
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


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


def step_text(before: float, after: float, form: str = "f") -> str:
    """``0.40 → 0.07``, with as many digits as tell the two apart, up to four more."""
    digits = 0 if form == "%" else 2
    for more in range(5):
        texts = [f"{value:.{digits + more}{form}}" for value in (before, after)]
        if before == after or texts[0] != texts[1]:
            break
    return " → ".join(texts)


def seconds_text(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 03 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
