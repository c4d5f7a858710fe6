"""One adaptation: distances before and after, warnings, and whether to trust the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.criteria import sample_places
from marda.diagnostics.distances import a_distance, domain_accuracy, mmd
from marda.diagnostics.evidence import denoise
from marda.diagnostics.intervals import Interval
from marda.diagnostics.verdict import Change, Facts, Outcome, diagnosis_text, outcome_of
from marda.diagnostics.warnings import Finding, checks_of, data_findings, prediction_findings
from marda.selection.source_only import SourceOnly
from marda.selection.stacking import LEARNED

__all__ = ["Diagnosis", "diagnose", "facts_of"]

ROWS = 1000  # per domain, for distances


@dataclass(frozen=True)
class Diagnosis:
    """Distances before and after, findings, and one sentence.

    Attributes
    ----------
    a_distance_before, a_distance_after : Interval or None
        Proxy A-distance 2(1 − 2ε), 0 (alike) to 2; ε is the cross-validated error of a domain
        classifier.
    mmd_before, mmd_after : Interval or None
        Maximum mean discrepancy with a Gaussian kernel as wide as the median distance (its square
        is the median squared distance of all pairs).
    findings : tuple of Finding
        Warnings.
    verdict : str
        Does adaptation help, on what evidence.
    outcome : str
        The verdict in a word: "closer", "mixed", "further", "unclear", "alike", "chance",
        "single-class" or "few-rows".
    facts : Facts
        What the verdict follows from.
    checks : tuple of str
        Codes of the findings that were looked for.
    """

    a_distance_before: Interval | None
    a_distance_after: Interval | None
    mmd_before: Interval | None
    mmd_after: Interval | None
    findings: tuple[Finding, ...]
    verdict: str
    outcome: Outcome
    facts: Facts
    checks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        state = asdict(self)
        for name in ("facts", "checks"):
            del state[name]
        return state


def diagnose(
    Xs: Any,
    Xt: Any,
    estimator: Any,
    *,
    names: Sequence[str],
    labels: NDArray[Any],
    predicted: NDArray[Any],
    n_labelled: int = 0,
    source_domain: NDArray[np.int64] | None = None,
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
    n_labelled : int, default=0
        How many target rows have a label.
    source_domain : array of int, default=None
        Which source every source row is of, as in the fit; None: there is one.
    """
    compares_scales = getattr(estimator, "candidates", None) == "auto"
    findings = data_findings(Xs, Xt, names, scales=not compares_scales)
    findings += prediction_findings(estimator.classes_, labels, predicted, n_labelled)
    checks = checks_of(Xs, Xt, scales=not compares_scales)
    facts = facts_of(
        estimator,
        labels,
        n_target=Xt.shape[0],
        n_labelled=n_labelled,
        single_class=any(f.code == "single-class" for f in findings),
    )
    if facts.action:  # other class shares, if there are any, have been told and taken into account
        findings = [f for f in findings if f.code not in ("proportions", "alike")]
    if min(Xs.shape[0], Xt.shape[0]) < 5:
        nothing = (None, None, None, None)
        told = diagnosis_text(facts), outcome_of(facts)
        return Diagnosis(*nothing, tuple(findings), *told, facts, checks)
    rng = np.random.default_rng(seed)
    drawn = [sample_places(X, ROWS, rng) for X in (Xs, Xt)]
    sources, targets = Xs[drawn[0]], Xt[drawn[1]]
    of = None if source_domain is None else source_domain[drawn[0]]
    denoised = denoise(estimator, sources, targets, source_domain=of)
    before = domain_accuracy(sources, targets, seed=seed)
    after = domain_accuracy(*denoised, seed=seed)
    distances = mmd(sources, targets, seed=seed), mmd(*denoised, seed=seed)
    facts = replace(facts, mmd=Change(*distances), told_apart=Change(before, after))
    if not facts.few:
        checks = ("alike", *checks)
    if facts.alike and not facts.action:
        findings.append(
            Finding(
                "alike",
                f"the domains are already alike (a classifier names the domain of "
                f"{before.value:.0%} of rows, 50% is chance): adaptation has little to bring "
                "closer.",
            )
        )
    return Diagnosis(
        a_distance(before),
        a_distance(after),
        *distances,
        tuple(findings),
        diagnosis_text(facts),
        outcome_of(facts),
        facts,
        checks,
    )


def facts_of(
    estimator: Any,
    labels: NDArray[Any],
    *,
    n_target: int,
    n_labelled: int = 0,
    single_class: bool = False,
) -> Facts:
    """What is known of a fitted classifier before any distance is measured."""
    calibration = getattr(estimator, "calibration_", {})
    counts = np.unique(labels, return_counts=True)[1]
    # It is an estimate for rows without a label: where every row has one, there are none.
    expected = calibration.get("expected_accuracy") if n_labelled < n_target else None
    return Facts(
        len(labels),
        n_target,
        n_labelled,
        len(estimator.classes_),
        float(counts.max() / counts.sum()),
        single_class=single_class,
        expected=expected,
        calibrated="sharpness" in calibration,
        **_explained(estimator, calibration, expected),
    )


def _explained(
    estimator: Any, calibration: dict[str, Any], expected: float | None
) -> dict[str, Any]:
    """What differs and what was done about it, of a classifier that asked."""
    shift = getattr(estimator, "shift_", None)
    if shift is None:
        return {}
    found = {"shift": shift.sentence(), "action": _action(estimator)}
    if expected is None or "expected_interval" not in calibration:
        return found
    low, high = calibration["expected_interval"]
    known = {"can_tell": calibration["can_tell"], "reason": calibration["reason"]}
    return {**found, **known, "interval": (low, high)}


def _action(estimator: Any) -> str:
    """What was done in place of adapting features."""
    members = estimator.members_
    if any(not isinstance(member.model, SourceOnly) for member in members):
        return ""
    if any(member.name.startswith(LEARNED) for member in members):
        return "Models of the source and of labelled target rows are used, as far as labels agree."
    if len(members) > 1:
        return "A model for each is used, weighted by how far it is to be believed."
    done = []
    if members[0].inputs.kind == "aligned":
        done.append("rows moved back")
    if members[0].model.bias.any():
        done.append("the target's class shares")
    return f"The model of the source is used {f'with {done[0]}' if done else 'as it is'}."
