"""The report of ``marda adapt``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from marda._memory import peak_mb
from marda.adaptation import Adapted
from marda.adaptation.judgement import Judgement
from marda.adaptation.methods import classifier_of, method_of
from marda.diagnostics.intervals import counted, percent
from marda.diagnostics.verdict import FEW_LABELS, Verdict, adapted_verdict
from marda.report import charts
from marda.report.page import (
    Cells,
    Chart,
    NumberCell,
    Section,
    facts,
    head,
    page,
    paragraph,
    points,
    table,
)
from marda.report.sections import before_and_after, confidence, confusion, convergence, times

__all__ = ["adapted_head", "adapted_page"]

MOST_SHARES = 12
MOST_CANDIDATES = 200
HEADER = ("parameter", "value")
SETTINGS = {
    "US": "unsupervised: no target labels",
    "SS": "semi-supervised: some target labels",
    "SUP": "supervised: all target rows labelled",
}


def adapted_page(result: Adapted) -> str:
    """One page about one adaptation."""
    evidence, judgement = result.evidence, result.judgement
    if evidence is None:
        raise ValueError("this result has no evidence to show: adapt with a report.")
    source, target = result.inputs
    sections = [
        *before_and_after(result.diagnosis, evidence),
        _predictions(result),
        _errors(result, judgement),
    ]
    if evidence.losses:
        sections.append(convergence(evidence.losses))
    sections += [
        times(result.times, result.seconds, peak_mb()),
        _settings(result.model, result.notes),
    ]
    return page(
        kind="adapt",
        title=f"From {source} to {target}",
        lead=_lead(result),
        verdict=_verdict(result),
        figures=_figures(result),
        sections=sections,
    )


def adapted_head(result: Adapted) -> str:
    """The page's first screen, for a notebook; below it, what a reader should know of the rows."""
    warnings = [finding.text for finding in result.diagnosis.findings]
    return head(_lead(result), _verdict(result), _figures(result), (*warnings, *result.notes))


def _lead(result: Adapted) -> str:
    """What was done, in one sentence."""
    source, target = result.inputs
    labels = "which had no labels"
    if result.n_labelled_target:
        every = result.n_labelled_target == result.n_target
        labels = f"{'all' if every else f'{result.n_labelled_target:,}'} of which had labels"
    return (
        f"A classifier learned from {counted(result.n_source, 'labelled row')} of {source} and "
        f"adapted itself to {counted(result.n_target, 'row')} of {target}, {labels}; it then "
        "named a class for every one of them."
    )


def _verdict(result: Adapted) -> Verdict:
    """Labels decide where there are enough; else distances, which prove nothing."""
    if result.judgement is not None:
        every = result.n_labelled_target == result.n_target
        return result.judgement.verdict(every=every)
    diagnosis = result.diagnosis
    single = next((f.text for f in diagnosis.findings if f.code == "single-class"), None)
    return adapted_verdict(diagnosis.facts, single)


def _figures(result: Adapted) -> list[tuple[str, str]]:
    diagnosis, judgement = result.diagnosis, result.judgement
    shown = [("target rows classified", f"{result.n_target:,}")]
    if judgement is not None:
        shown.append(("right on held-out labels", percent(judgement.adapted.value)))
    facts = diagnosis.facts
    if facts.action and facts.expected is not None and facts.interval is not None:
        low, high = facts.interval
        shown.append(("right, expected", f"{facts.expected:.0%}" if facts.can_tell else "?"))
        shown.append(("right, in nine of ten cases", f"{low:.0%} to {high:.0%}"))
    elif diagnosis.a_distance_before is not None and diagnosis.a_distance_after is not None:
        before, after = diagnosis.a_distance_before.value, diagnosis.a_distance_after.value
        shown.append(("A-distance, before → after", f"{before:.2f} → {after:.2f}"))
    if not facts.action and diagnosis.mmd_before is not None and diagnosis.mmd_after is not None:
        before, after = diagnosis.mmd_before.value, diagnosis.mmd_after.value
        shown.append(("MMD, before → after", f"{before:.2f} → {after:.2f}"))
    sure = float(np.median(result.probabilities.max(1)))
    shown.append(("median probability of the predicted class", f"{sure:.0%}"))
    return shown


def _predictions(result: Adapted) -> Section:
    assert result.evidence is not None
    classes, shares = result.evidence.classes, result.evidence.shares
    often = np.argsort(-shares.max(0), kind="stable")[:MOST_SHARES].tolist()
    name = "Classes among source labels and among predictions for the target."
    if len(classes) > MOST_SHARES:
        name = f"The {MOST_SHARES} commonest classes: source labels, predictions for the target."
    rows: list[Cells] = [
        [classes[k], *(NumberCell(percent(share), share) for share in shares[:, k].tolist())]
        for k in often
    ]
    spec = charts.bars(
        [
            (classes[k], domain, float(shares[at, k]))
            for k in often
            for at, domain in enumerate(("source labels", "target predictions"))
        ],
        axis="share of rows",
        form=".0%",
        tip=".1%",
    )
    chart = confidence(result.evidence, result.diagnosis.facts)
    shown = Chart(spec, name, table(name, ("class", "source labels", "target predictions"), rows))
    return Section("Predictions", ((shown, chart),))


def _errors(result: Adapted, judgement: Judgement | None) -> Section:
    title = "Right and wrong"
    if judgement is None:
        return Section(
            title,
            (
                paragraph(
                    f"The target has {counted(result.n_labelled_target, 'label')}; from "
                    f"{FEW_LABELS} labels on, this place shows which classes are taken for which."
                ),
            ),
        )
    classes = [str(c) for c in result.model.classes_]
    return Section(
        title,
        (
            confusion(
                judgement.confusion,
                classes,
                f"{counted(judgement.n_rows, 'labelled target row')}, predicted unseen",
            ),
        ),
    )


def _settings(model: Any, notes: Sequence[str]) -> Section:
    """What was run, so that someone else can run it; a model may be one that chose by itself."""
    shown = [
        ("method", method_of(model)),
        ("classifier", classifier_of(model)),
        ("setting", SETTINGS[model.setting_]),
        ("features", f"{model.n_features_in_:,}"),
    ]
    every = sorted(model.get_params(deep=False).items())
    rows: list[Cells] = [[name, str(value)] for name, value in every]
    caption = "Parameters of the model."
    full = f"<details><summary>All parameters</summary>{table(caption, HEADER, rows)}</details>"
    parts = [facts(shown)]
    if len(getattr(model, "candidates_", ())) > 1:
        parts.append(_candidates(model.candidates_))
    return Section("Settings", (*parts, *([points(notes)] if notes else []), full))


def _candidates(candidates: Sequence[dict[str, Any]]) -> str:
    """Models that were weighed without target labels, by what they differ in."""
    names = list(dict.fromkeys(name for c in candidates for name in c))
    values = {name: {str(c[name]) for c in candidates if name in c} for name in names}
    # A source-only model has no parameters of denoising: those that all others share tell nothing.
    told = [n for n in names if len(values[n]) > 1 or n == "source_only"]
    rows: list[Cells] = [
        [str(k), *(_value(c.get(name, "–")) for name in told)]
        for k, c in enumerate(candidates[:MOST_CANDIDATES], start=1)
    ]
    caption = "Models that were weighed without a target label, by what they differ in."
    return table(caption, ("model", *told), rows)


def _value(value: Any) -> str | NumberCell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return NumberCell(f"{value:.4g}", float(value)) if number else str(value)
