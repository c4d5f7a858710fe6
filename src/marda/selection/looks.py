"""How members of the committee look at rows, and which looks speak.

Unit rows are the usual look; where most entries are zero (counts, tf-idf), square roots of them
speak too. Tables in many units, and rows whose length tells classes apart, need another: the looks
that predict left-out source rows better, by a margin, then speak instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["ROOTS", "STANDARD", "UNIT", "Look", "rival_looks", "speaking", "usual_looks"]

#: Above this share of zeros, square roots speak too.
MOSTLY_ZERO = 0.5
#: Above this share, columns are rare events: in units of their spread, one of them would drown all.
RARE = 0.9
#: κ must be this much higher for another look to be taken; looks that are as near are as good.
MARGIN = 0.02


@dataclass(frozen=True)
class Look:
    """The kind of a view of the inputs, and whether denoised rows get unit length."""

    kind: str
    normalize: bool = True

    def __str__(self) -> str:
        return f"{self.kind} rows" + ("" if self.normalize else " with their length")


UNIT, ROOTS = Look("unit"), Look("sqrt")
STANDARD = Look("standard"), Look("standard", normalize=False)


def usual_looks(zeros: float) -> list[Look]:
    """Those that speak unless others are better, for rows with this share of zeros."""
    return [UNIT, ROOTS] if zeros > MOSTLY_ZERO else [UNIT]


def rival_looks(zeros: float) -> list[Look]:
    """Those that may be better."""
    rivals = [ROOTS] if zeros > RARE else [ROOTS, *STANDARD]
    return [look for look in rivals if look not in usual_looks(zeros)]


def speaking(skills: Mapping[Look, float], usual: Sequence[Look]) -> list[Look]:
    """The usual looks, or all near the best one if it predicts the source clearly better."""
    best = max(skills.values())
    if best <= np.mean([skills[look] for look in usual]) + MARGIN:
        return list(usual)
    return [look for look, skill in skills.items() if skill >= best - MARGIN]
