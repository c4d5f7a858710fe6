"""Results as lines for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from marda.adaptation.adapting import Adapted
from marda.adaptation.checking import CheckedTables
from marda.adaptation.comparing import Compared
from marda.adaptation.methods import explained, method_of
from marda.adaptation.predicting import Predicted
from marda.adaptation.statistics import AdaptedFromStatistics, DomainCounts
from marda.diagnostics import Facts, Finding
from marda.diagnostics.intervals import counted
from marda.diagnostics.verdict import expected_text

__all__ = [
    "adapted_lines",
    "checked_lines",
    "compared_lines",
    "predicted_lines",
    "predicted_shares",
]

SETTINGS = {
    "US": "no labels in the target",
    "SS": "{n} labelled rows in the target",
    "SUP": "all rows of the target labelled",
}


MOST_COLUMNS = 12


def adapted_lines(result: Adapted | AdaptedFromStatistics) -> list[str]:
    """Verdict first, then evidence, warnings and files."""
    if isinstance(result, AdaptedFromStatistics):
        return _statistics_lines(result)
    diagnosis, verdict = result.diagnosis, result.diagnosis.verdict
    if result.judgement is not None:  # labels say more than distances
        judged = result.judgement.verdict(every=result.n_labelled_target == result.n_target)
        verdict = f"{judged.word}. {judged.text}"
    lines = [
        verdict,
        "",
        *_model(result.model, result.n_source, result.n_target, result.n_labelled_target),
        f"predicted  {predicted_shares(result)}",
        *_expected(diagnosis.facts),
    ]
    if diagnosis.a_distance_before is not None and diagnosis.facts.action:
        lines.append(f"A-distance {diagnosis.a_distance_before} (0 alike, 2 apart)")
    elif diagnosis.a_distance_before is not None:
        lines += [
            f"A-distance {diagnosis.a_distance_before} before, {diagnosis.a_distance_after} after "
            "(0 alike, 2 apart)",
            f"MMD        {diagnosis.mmd_before} before, {diagnosis.mmd_after} after",
        ]
    return lines + _end(result, diagnosis.findings)


def _statistics_lines(result: AdaptedFromStatistics) -> list[str]:
    """The same, where no rows were held."""
    summary = result.summary
    n_source, n_target = summary.n_rows("source"), summary.n_rows("target")
    lines = [
        summary.verdict,
        "",
        *_model(result.model, n_source, n_target, summary.n_labelled_target),
    ]
    for domain in summary.domains:
        lines.append(f"{domain.role:10} {domain.name}: {_label_shares(domain)}")
    if result.predicted is not None:
        total = max(1, sum(result.predicted.values()))
        shares = {str(c): n / total for c, n in result.predicted.items()}
        lines.append(f"predicted  {_some_shares(shares)}")
    far = ", ".join(f"{name} {step:.2f}" for name, step in summary.farthest)
    lines.append(
        f"means      {summary.distance_before:.2f} standard deviations apart before, "
        f"{summary.distance_after:.2f} after; farthest: {far}"
    )
    return lines + _end(result, summary.findings)


def _model(model: Any, n_source: int, n_target: int, n_labelled: int) -> list[str]:
    setting = SETTINGS[model.setting_].format(n=n_labelled)
    return [
        f"method     {method_of(model)} ({model.setting_}: {setting})",
        f"rows       {n_source} source, {n_target} target; {model.n_features_in_} features",
    ]


def _expected(facts: Facts) -> list[str]:
    """What accuracy to expect where no label tells."""
    told = expected_text(facts)
    lines = [f"shift      {facts.shift}"] if facts.shift and not facts.action else []
    return lines if told is None else [*lines, f"expected   {told}"]


def _end(result: Adapted | AdaptedFromStatistics, findings: Sequence[Finding]) -> list[str]:
    return [
        f"time       {result.seconds:.1f} s",
        *(f"warning: {finding.text}" for finding in findings),
        *(f"note: {note}" for note in result.notes),
        *(f"written: {file}" for file in result.files),
    ]


def _label_shares(domain: DomainCounts) -> str:
    shares = {label: n / domain.n_rows for label, n in domain.labelled.items()}
    bare = domain.n_rows - sum(domain.labelled.values())
    if bare:
        shares["no label"] = bare / domain.n_rows
    return f"{domain.n_rows} rows ({_some_shares(shares)})"


def _some_shares(shares: dict[str, float]) -> str:
    return _first_classes([f"{name}: {share:.0%}" for name, share in shares.items()])


def _first_classes(told: list[str]) -> str:
    more = f", … ({len(told)} classes)" if len(told) > 6 else ""
    return ", ".join(told[:6]) + more


def predicted_shares(result: Adapted) -> str:
    """Classes among the predictions."""
    classes = result.model.classes_
    return _some_shares({str(c): float(np.mean(result.predictions == c)) for c in classes})


def checked_lines(result: CheckedTables) -> list[str]:
    """Verdict first, then how far apart, in which columns, and what that means."""
    found = result.checked
    differ = found.differing
    lines = [found.verdict, ""]
    rows = f"rows       {found.n_source} source, {found.n_target} target; "
    lines.append(f"{rows}{counted(len(found.columns), 'column')} compared")
    if found.told_apart is not None:
        told, low, high = (f"{v:.0%}" for v in asdict(found.told_apart).values())
        lines.append(
            f"apart      a classifier names the table that {told} of rows are of, {low} to {high} "
            "(50% is chance)"
        )
    lines.append(f"shift      {found.shift.sentence()}")
    if found.outside is not None:
        share = f"{found.outside:.0%}"
        lines.append(
            f"outside    {share} of target rows lie where no source row does (5% is usual)"
        )
    for columns, where in ((result.only_source, "source"), (result.only_target, "target")):
        if columns:
            lines.append(f"only in    the {where}: {_some_names(columns)}")
    many = f"{len(differ)} of {counted(len(found.columns), 'column')}"
    lines.append(f"columns    {many} differ by more than chance" + (":" if differ else ""))
    width = min(24, max((len(column.name) for column in differ[:MOST_COLUMNS]), default=0))
    lines += [
        f"  {column.name[:60]:{width}}  {column.size}: {column.text}"
        for column in differ[:MOST_COLUMNS]
    ]
    if len(differ) > MOST_COLUMNS:
        lines.append(f"  … and {len(differ) - MOST_COLUMNS} more (all of them with --json)")
    return [
        *lines,
        f"time       {result.seconds:.1f} s",
        *(f"warning: {finding.text}" for finding in found.findings),
        *(f"note: {note}" for note in result.notes),
    ]


def _some_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def predicted_lines(result: Predicted) -> list[str]:
    """Rows, classes, file."""
    counts = _first_classes([f"{c}: {n}" for c, n in result.counts.items()])
    rows = "1 row" if result.n_rows == 1 else f"{result.n_rows} rows"
    return [
        f"{rows} in {result.seconds:.1f} s ({counts})",
        f"written: {result.file}",
    ]


def compared_lines(result: Compared, *, explain: bool = True) -> list[str]:
    """Verdict first, then a line per method, the pairs that differ, and what the methods are."""
    first = result.results[0].method
    lines = [result.verdict, ""]
    lines.append(f"{'method':8} {'accuracy':22} {f'as {first}':>8}  MMD after")
    for r in result.results:
        accuracy = "-" if r.accuracy is None else str(r.accuracy)
        lines.append(f"{r.method:8} {accuracy:22} {r.agreement:8.1%}  {r.mmd}")
    if result.pairs:
        lines += ["", *_pairs(result)]
    if explain:
        lines += ["", *(f"{r.method:8} {explained(r.method)}" for r in result.results)]
    lines += [f"note: {note}" for note in result.notes]
    return lines + [f"written: {file}" for file in result.files]


def _pairs(result: Compared) -> list[str]:
    """The methods that differ from the best; other pairs are counted."""
    best = result.results[result.best].method
    apart = [p for p in result.pairs if p.significant]
    if not apart:
        return ["No two methods differ significantly."]
    lines = []
    for p in apart:
        if best in (p.a, p.b):
            other, sign = (p.b, 1) if p.a == best else (p.a, -1)
            d = p.difference
            low, high = sorted((sign * d.low, sign * d.high))
            lines.append(
                f"{best} and {other} differ: {sign * d.value:+.3f} [{low:+.3f}, {high:+.3f}], "
                f"p = {p.p_value:.2g}"
            )
    more = len(apart) - len(lines)
    if more:
        others = "more pair differs" if more == 1 else "more pairs differ"
        lines.append(f"{more} {others} significantly: see --report or --json.")
    return lines
