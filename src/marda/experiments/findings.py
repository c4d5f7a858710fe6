"""The paper's qualitative findings, checked on our rows: yes, no, or not enough rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from marda.experiments.aggregate import Column, Results
from marda.experiments.plan import BENCHMARKS
from marda.experiments.rows import ResultRow

Verdict = Literal["yes", "no", "not enough rows"]
HARMLESS = 0.2
"""Percentage points that a term may cost and still be called harmless."""


@dataclass(frozen=True)
class Evidence:
    """One comparison: ``model`` minus ``other`` must be above (or not below) ``threshold``."""

    text: str
    difference: float | None
    threshold: float
    strict: bool

    @property
    def holds(self) -> bool | None:
        """None without rows."""
        if self.difference is None:
            return None
        if self.strict:
            return self.difference > self.threshold
        return self.difference >= self.threshold


@dataclass(frozen=True)
class Finding:
    """A claim of the paper with its evidence."""

    statement: str
    evidence: tuple[Evidence, ...]

    @property
    def verdict(self) -> Verdict:
        """Yes if every comparison that has rows holds."""
        known = [e.holds for e in self.evidence if e.holds is not None]
        if not known:
            return "not enough rows"
        return "yes" if all(known) else "no"

    @property
    def summary(self) -> str:
        """How many comparisons hold, and how many lack rows."""
        known = [e.holds for e in self.evidence if e.holds is not None]
        text = f"{sum(known)} of {len(known)} comparisons hold"
        lacking = len(self.evidence) - len(known)
        return text + (f", {lacking} lack rows" if lacking else "")


@dataclass(frozen=True)
class _Claim:
    statement: str
    comparisons: tuple[tuple[str, str], ...]
    benchmarks: tuple[str, ...]
    settings: tuple[str, ...]
    classifiers: tuple[str, ...]
    threshold: float = 0.0
    strict: bool = True


_ALL, _IMAGES = ("oc10", "off31", "amt"), ("oc10", "off31")
_CLAIMS = (
    _Claim("MDA improves the ridge baseline (S1 > BL)", (("S1", "BL"),), _ALL, ("US",), ("ridge",)),
    _Claim(
        "the domain predictor does not hurt ridge (S1D ≥ S1)",
        (("S1D", "S1"),),
        _ALL,
        ("US",),
        ("ridge",),
        strict=False,
    ),
    _Claim(
        "on text, J12's own Z is worse than S1's (S1 > J12)",
        (("S1", "J12"),),
        ("amt",),
        ("US",),
        ("ridge",),
    ),
    _Claim(
        "with target labels, J12 improves nn and dscm on images (J12 > S1)",
        (("J12", "S1"),),
        _IMAGES,
        ("SUP", "SS"),
        ("nn", "dscm"),
    ),
    _Claim(
        f"the class term helps or is harmless in SUP (costs at most {HARMLESS})",
        (("S1C", "S1"), ("J12C", "J12")),
        _ALL,
        ("SUP",),
        ("nn", "dscm", "ridge"),
        threshold=-HARMLESS,
        strict=False,
    ),
)


def check(
    rows: Sequence[ResultRow], variant: str = "paper", preprocessing: str = "paper"
) -> tuple[Finding, ...]:
    """Check every claim on the rows of one variant of settings and one preprocessing."""
    results = Results(rows)
    return tuple(_check(claim, results, variant, preprocessing) for claim in _CLAIMS)


def _check(claim: _Claim, results: Results, variant: str, preprocessing: str) -> Finding:
    evidence = []
    for setting in claim.settings:
        for name in claim.benchmarks:
            for classifier in claim.classifiers:
                column = Column(name, setting, "full", preprocessing, variant, classifier)
                pairs = [f"{s}-{t}" for s, t in BENCHMARKS[name].pairs()]
                for model, other in claim.comparisons:
                    difference = results.difference(column, model, other, pairs)
                    text = f"{name} {setting} {classifier}: {model} − {other}"
                    evidence.append(Evidence(text, difference, claim.threshold, claim.strict))
    return Finding(claim.statement, tuple(evidence))
