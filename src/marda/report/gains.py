"""Does adaptation help over many tasks? The verdict of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from scipy.stats import binomtest

from marda.report.numbers import counted, signed
from marda.report.page import Verdict

__all__ = ["gains_verdict"]

LEVEL = 0.05


def gains_verdict(
    gains: Sequence[tuple[str, Sequence[float]]],
    text: str,
    more: Sequence[tuple[str, str]] = (),
) -> Verdict | None:
    """Judge by data set, each a name and the gains in points on its tasks.

    Tasks differ too much in size for their gains to be of one kind, so that a sign test over
    tasks says how sure a mean is.
    """
    if not gains:
        return None
    told, sure, chances = [], [], []
    for name, values in gains:
        up, down = sum(v > 0 for v in values), sum(v < 0 for v in values)
        p = float(binomtest(up, up + down).pvalue) if up + down else 1.0
        chances.append(p)
        told.append(
            f"{name}: {signed(fmean(values))} points on average, better on {up} and worse on "
            f"{down} of {counted(len(values), 'task')}"
        )
        sure.append(f"{name}: p = {p:.2g}")
    means = [fmean(values) for _, values in gains]
    reasons = (
        ("Evidence", "; ".join(told) + "."),
        ("How sure", f"Sign test over tasks, {'; '.join(sure)}."),
        *more,
    )
    clear = max(chances) < LEVEL
    if min(means) > 0 and clear:
        return Verdict("good", "Adaptation helps", text, reasons)
    if min(means) > 0:
        return Verdict("unclear", "Adaptation helps on average, not surely", text, reasons)
    if max(means) > 0:
        return Verdict("unclear", "Adaptation helps on some data sets", text, reasons)
    kind: Literal["bad", "unclear"] = "bad" if clear else "unclear"
    return Verdict(kind, "Adaptation does not help on average", text, reasons)
