"""Warnings that save users: what looks wrong in rows and in predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.diagnostics.verdict import FEW_ROWS, Facts, next_step

__all__ = [
    "FEW_ROWS",
    "Finding",
    "checks_of",
    "data_findings",
    "prediction_findings",
    "share_findings",
]


@dataclass(frozen=True)
class Finding:
    """Something that a user should know: a code for machines and a sentence."""

    code: str
    text: str


def data_findings(Xs: Any, Xt: Any, names: Sequence[str], *, scales: bool = True) -> list[Finding]:
    """What the rows alone tell: few rows, wild scales, features that give the domain away.

    Without `scales` these are not told: a model that has compared scales needs no advice.
    `checks_of` says which of these were looked for.
    """
    found = []
    checked = checks_of(Xs, Xt, scales=scales)
    for name, X in (("source", Xs), ("target", Xt)):
        if X.shape[0] < FEW_ROWS:
            found.append(
                Finding(
                    "few-rows",
                    f"the {name} has {X.shape[0]} rows, fewer than {FEW_ROWS}: results are a "
                    "matter of luck; add rows.",
                )
            )
    low, high, spread = zip(*(_ranges(X) for X in (Xs, Xt)), strict=True)
    pooled = np.maximum(*spread)
    some = pooled[pooled > 0]
    if "scales" in checked and some.size and some.max() > 1000 * some.min():
        large, small = (
            names[int(pooled.argmax())],
            names[int(np.flatnonzero(pooled == some.min())[0])],
        )
        found.append(
            Finding(
                "scales",
                f"features have wildly different scales ({large!r} varies "
                f"{some.max() / some.min():.0e} times as much as {small!r}): use --scale standard.",
            )
        )
    apart = (low[0] > high[1]) | (low[1] > high[0])
    if "leakage" in checked and apart.any():
        shown = ", ".join(repr(names[k]) for k in np.flatnonzero(apart)[:3])
        more = f" and {int(apart.sum()) - 3} more" if apart.sum() > 3 else ""
        found.append(
            Finding(
                "leakage",
                f"{shown}{more} alone tells source from target in every row, as an id or a date "
                "does: leave it out with --drop if it is one.",
            )
        )
    return found


def checks_of(Xs: Any, Xt: Any, *, scales: bool = True) -> tuple[str, ...]:
    """Codes of what `data_findings` and `prediction_findings` look for in these rows."""
    made = ["few-rows", "single-class", "proportions"]
    if scales and not sp.issparse(Xs):
        made.append("scales")
    if min(Xs.shape[0], Xt.shape[0]) >= FEW_ROWS:
        made.append("leakage")
    return tuple(made)


def _ranges(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Smallest, largest and standard deviation per feature."""
    if sp.issparse(X):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        return low, high, high - low
    return X.min(0), X.max(0), X.std(0)


def prediction_findings(
    classes: NDArray[Any], source: NDArray[Any], predicted: NDArray[Any], n_labelled: int = 0
) -> list[Finding]:
    """What the predictions tell: one class only, or proportions far from the source's.

    Advice depends on how many target rows have labels.
    """
    shares = [np.array([(y == c).mean() for c in classes]) for y in (source, predicted)]
    rows = Facts(len(source), len(predicted), n_labelled)
    return share_findings(classes, shares[0], shares[1], next_step(rows))


def share_findings(
    classes: NDArray[Any],
    source: NDArray[np.float64],
    predicted: NDArray[np.float64],
    advice: str,
) -> list[Finding]:
    """The same from the share of every class."""
    shares = [source, predicted]
    top = int(shares[1].argmax())
    name = classes[top].item() if hasattr(classes[top], "item") else classes[top]
    if shares[1][top] >= 0.98 and shares[0][top] < 0.9:
        return [
            Finding(
                "single-class",
                f"{shares[1][top]:.0%} of the target is predicted as {name!r} "
                f"({shares[0][top]:.0%} of the source is): either the target has one class, or "
                f"adaptation failed; {advice}.",
            )
        ]
    if np.abs(shares[0] - shares[1]).sum() / 2 > 0.3:
        return [
            Finding(
                "proportions",
                f"class proportions are very different: {name!r} is {shares[0][top]:.0%} of the "
                f"source and {shares[1][top]:.0%} of the predictions; adaptation assumes that they "
                "are similar.",
            )
        ]
    return []
