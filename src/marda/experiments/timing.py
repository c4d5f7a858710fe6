"""Where the time went, from the rows themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from marda.experiments.rows import ResultRow


def time_lines(rows: Sequence[ResultRow]) -> list[tuple[str, float, float]]:
    """``(what, seconds, share)``, longest first: loading, fits by model, predictions.

    Times of shared work are shared among rows, so that the sum is the time that was spent.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        spent["load and prepare rows"] += row.load_seconds
        spent[f"fit {row.spec.model}"] += row.fit_seconds
        spent[f"predict ({row.spec.classifier})"] += row.predict_seconds
    total = sum(spent.values())
    longest = sorted(spent.items(), key=lambda item: -item[1])
    return [(what, seconds, seconds / total) for what, seconds in longest if seconds > 0]


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
