"""Results as lines for a person."""

from __future__ import annotations

import numpy as np

from marda.workflow.adapting import Adapted
from marda.workflow.comparing import Compared
from marda.workflow.methods import method_of
from marda.workflow.predicting import Predicted
from marda.workflow.statistics import AdaptedFromStatistics
from marda.workflow.summary import Domain

__all__ = ["adapted_lines", "compared_lines", "predicted_lines", "statistics_lines"]

SETTINGS = {
    "US": "no labels in the target",
    "SS": "{n} labelled rows in the target",
    "SUP": "all rows of the target labelled",
}


def adapted_lines(result: Adapted) -> list[str]:
    """Verdict first, then evidence, warnings and files."""
    model, diagnosis = result.model, result.diagnosis
    setting = SETTINGS[model.setting_].format(n=result.n_labelled_target)
    lines = [
        diagnosis.verdict,
        "",
        f"method     {method_of(model)} ({model.setting_}: {setting})",
        f"rows       {result.n_source} source, {result.n_target} target; "
        f"{model.n_features_in_} features",
        f"predicted  {_shares(result)}",
    ]
    if diagnosis.a_distance_before is not None:
        lines += [
            f"A-distance {diagnosis.a_distance_before} before, {diagnosis.a_distance_after} after "
            "(0 alike, 2 apart)",
            f"MMD        {diagnosis.mmd_before} before, {diagnosis.mmd_after} after",
        ]
    lines.append(f"time       {result.seconds:.1f} s")
    lines += [f"warning: {finding.text}" for finding in diagnosis.findings]
    lines += [f"note: {note}" for note in result.notes]
    lines += [f"written: {file}" for file in result.files]
    return lines


def statistics_lines(result: AdaptedFromStatistics) -> list[str]:
    """The same, where no rows were held."""
    model, summary = result.model, result.summary
    setting = SETTINGS[model.setting_].format(n=summary.n_labelled_target)
    lines = [
        summary.verdict,
        "",
        f"method     {model.method} ({model.setting_}: {setting})",
        f"rows       {summary.n_rows('source')} source, {summary.n_rows('target')} target; "
        f"{model.n_features_in_} features",
    ]
    for domain in summary.domains:
        lines.append(f"{domain.role:10} {domain.name}: {_label_shares(domain)}")
    if result.predicted is not None:
        total = max(1, sum(result.predicted.values()))
        shares = {str(c): n / total for c, n in result.predicted.items()}
        lines.append(f"predicted  {_some_shares(shares)}")
    far = ", ".join(f"{name} {step:.2f}" for name, step in summary.farthest)
    lines += [
        f"means      {summary.distance_before:.2f} standard deviations apart before, "
        f"{summary.distance_after:.2f} after; farthest: {far}",
        f"time       {result.seconds:.1f} s",
    ]
    lines += [f"warning: {finding.text}" for finding in summary.findings]
    lines += [f"note: {note}" for note in result.notes]
    lines += [f"written: {file}" for file in result.files]
    return lines


def _label_shares(domain: Domain) -> str:
    shares = {label: n / domain.n_rows for label, n in domain.labelled.items()}
    bare = domain.n_rows - sum(domain.labelled.values())
    if bare:
        shares["no label"] = bare / domain.n_rows
    return f"{domain.n_rows} rows ({_some_shares(shares)})"


def _some_shares(shares: dict[str, float]) -> str:
    shown = [f"{name}: {share:.0%}" for name, share in shares.items()]
    more = f", … ({len(shown)} classes)" if len(shown) > 6 else ""
    return ", ".join(shown[:6]) + more


def _shares(result: Adapted) -> str:
    classes = result.model.classes_
    return _some_shares({str(c): float(np.mean(result.predictions == c)) for c in classes})


def predicted_lines(result: Predicted) -> list[str]:
    """Rows, classes, file."""
    shown = [f"{c}: {n}" for c, n in result.counts.items()]
    more = f", … ({len(shown)} classes)" if len(shown) > 6 else ""
    rows = "1 row" if result.n_rows == 1 else f"{result.n_rows} rows"
    return [
        f"{rows} in {result.seconds:.1f} s ({', '.join(shown[:6])}{more})",
        f"written: {result.file}",
    ]


def compared_lines(result: Compared) -> list[str]:
    """Verdict first, then a line a method and the pairs that differ."""
    first = result.results[0].method
    lines = [result.verdict, ""]
    lines.append(f"{'method':8} {'accuracy':22} {f'as {first}':>8}  MMD after")
    for r in result.results:
        accuracy = "-" if r.accuracy is None else str(r.accuracy)
        lines.append(f"{r.method:8} {accuracy:22} {r.agreement:8.1%}  {r.mmd}")
    if result.pairs:
        apart = [p for p in result.pairs if p.significant]
        lines.append("")
        lines += [
            f"{p.a} and {p.b} differ: {p.difference.value:+.3f} "
            f"[{p.difference.low:+.3f}, {p.difference.high:+.3f}], p = {p.p_value:.2g}"
            for p in apart
        ] or ["No two methods differ significantly."]
    lines += [f"note: {note}" for note in result.notes]
    return lines + [f"written: {file}" for file in result.files]
