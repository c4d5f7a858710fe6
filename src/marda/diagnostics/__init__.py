"""How far apart domains are, what looks wrong in the data, and whether to trust the result.

No target label is needed: all evidence comes from rows and predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marda.criteria.rows import sample
from marda.diagnostics.distances import Interval, a_distance, domain_accuracy, mmd
from marda.diagnostics.evidence import Evidence, Gap, Picture, confusion, denoise, gather
from marda.diagnostics.findings import Finding, data_findings, prediction_findings

__all__ = [
    "Diagnosis",
    "Evidence",
    "Finding",
    "Gap",
    "Interval",
    "Picture",
    "a_distance",
    "confusion",
    "data_findings",
    "denoise",
    "diagnose",
    "domain_accuracy",
    "gather",
    "mmd",
    "prediction_findings",
]

ALIKE_MMD = 0.05
Outcome = Literal["closer", "unclear", "alike", "single-class", "few-rows"]


@dataclass(frozen=True)
class Diagnosis:
    """Distances before and after, findings, and one sentence.

    Attributes
    ----------
    a_distance_before, a_distance_after : Interval or None
        Proxy A-distance 2(1 − 2ε), 0 (alike) to 2; ε is the cross-validated error of a domain
        classifier.
    mmd_before, mmd_after : Interval or None
        Maximum mean discrepancy with a Gaussian kernel of the median distance.
    findings : tuple of Finding
        Warnings.
    verdict : str
        Does adaptation help, on what evidence.
    outcome : {"closer", "unclear", "alike", "single-class", "few-rows"}
        The verdict in a word.
    """

    a_distance_before: Interval | None
    a_distance_after: Interval | None
    mmd_before: Interval | None
    mmd_after: Interval | None
    findings: tuple[Finding, ...]
    verdict: str
    outcome: Outcome

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def diagnose(
    Xs: Any,
    Xt: Any,
    estimator: Any,
    *,
    names: Sequence[str],
    labels: NDArray[Any],
    predicted: NDArray[Any],
    seed: int = 0,
) -> Diagnosis:
    """Everything above for a fitted classifier.

    Parameters
    ----------
    Xs, Xt : arrays or CSR arrays
        Rows of source and target.
    estimator : MDAClassifier
        Fitted on them.
    names : sequence of str
        Features.
    labels, predicted : arrays
        Source labels, predicted target labels.
    """
    compares_scales = getattr(estimator, "candidates", None) == "auto"
    findings = data_findings(Xs, Xt, names, scales=not compares_scales)
    findings += prediction_findings(estimator.classes_, labels, predicted)
    if min(Xs.shape[0], Xt.shape[0]) < 5:
        verdict = "Too few rows to tell whether adaptation helps."
        return Diagnosis(None, None, None, None, tuple(findings), verdict, "few-rows")
    rng = np.random.default_rng(seed)
    sources, targets = sample(Xs, 1000, rng), sample(Xt, 1000, rng)
    denoised = denoise(estimator, sources, targets)
    before = domain_accuracy(sources, targets, seed=seed)
    after = domain_accuracy(*denoised, seed=seed)
    distances = mmd(sources, targets, seed=seed), mmd(*denoised, seed=seed)
    # A linear classifier sees means; MMD also sees spread and shape.
    alike = (before.low <= 0.5 or before.value < 0.55) and distances[0].low <= ALIKE_MMD
    if alike:
        findings.append(
            Finding(
                "alike",
                f"the domains are already alike (a classifier names the domain of "
                f"{before.value:.0%} of rows, 50% is chance): adaptation is pointless here.",
            )
        )
    return Diagnosis(
        a_distance(before),
        a_distance(after),
        *distances,
        tuple(findings),
        *_verdict(alike, before, after, *distances, findings),
    )


def _verdict(
    alike: bool,
    before: Interval,
    after: Interval,
    mmd_before: Interval,
    mmd_after: Interval,
    findings: list[Finding],
) -> tuple[str, Outcome]:
    """One sentence and one word: does it help, how sure, on what evidence."""
    told = f"told apart in {before.value:.0%} of rows before and {after.value:.0%} after"
    if alike:
        return "No adaptation is needed: source and target already look alike.", "alike"
    if any(f.code == "single-class" for f in findings):
        return "Do not trust this yet: nearly all target rows got one class.", "single-class"
    if mmd_after.high < mmd_before.low or after.high < before.low:
        return (
            f"Adaptation brought the domains closer (MMD {mmd_before.value:.2f} → "
            f"{mmd_after.value:.2f}; {told}): label-free evidence that it helps, not proof.",
            "closer",
        )
    return (
        f"Adaptation did not clearly bring the domains closer (MMD {mmd_before.value:.2f} → "
        f"{mmd_after.value:.2f}; {told}): label some target rows and run marda compare.",
        "unclear",
    )
