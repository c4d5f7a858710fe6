"""What commands print of a result: verdict, figures and files, as lines of text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from marda._machine import counted
from marda.adaptation.adapting import Adapted
from marda.adaptation.checking import Checked
from marda.adaptation.comparing import Compared
from marda.adaptation.methods import explained, method_of
from marda.adaptation.predicting import Predicted, ToLabel
from marda.adaptation.statistics import AdaptedFromStatistics, DomainCounts
from marda.diagnostics.diagnosis import Finding
from marda.diagnostics.evaluation import Evaluated
from marda.diagnostics.intervals import Interval
from marda.diagnostics.verdict import Facts, expected_text, judged_verdict
from marda.io.table import some_names

#: Classes that have a line each.
MOST_CLASSES = 30
SETTINGS = {
    "US": "no labels in the target",
    "SS": "{n} in the target",
    "SUP": "all rows of the target labelled",
}


MOST_COLUMNS = 12


class Aside(str):
    """A line that is no part of the result: --quiet leaves it out."""


def adapted_lines(result: Adapted | AdaptedFromStatistics) -> list[str]:
    """Verdict first, then evidence, warnings and files."""
    if isinstance(result, AdaptedFromStatistics):
        return _statistics_lines(result)
    diagnosis, verdict = result.diagnosis, result.diagnosis.verdict
    if result.judgement is not None:  # labels say more than distances
        judged = judged_verdict(result.judgement)
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
    setting = SETTINGS[model.setting_].format(n=counted(n_labelled, "labelled row"))
    return [
        f"method     {method_of(model)} ({model.setting_}: {setting})",
        f"rows       {n_source} source, {n_target} target; "
        f"{counted(model.n_features_in_, 'feature')}",
    ]


def _expected(facts: Facts) -> list[str]:
    """What accuracy to expect where no label tells."""
    told = expected_text(facts)
    lines = [f"shift      {facts.shift}"] if facts.shift and not facts.action else []
    return lines if told is None else [*lines, f"expected   {told}"]


def _end(result: Adapted | AdaptedFromStatistics, findings: Sequence[Finding]) -> list[str]:
    return [
        Aside(f"time       {result.seconds:.1f} s"),
        *(Aside(f"warning: {finding.text}") for finding in findings),
        *(Aside(f"note: {note}") for note in result.notes),
        *(Aside(f"written: {file}") for file in result.files),
    ]


def _label_shares(domain: DomainCounts) -> str:
    shares = {label: n / domain.n_rows for label, n in domain.labelled.items()}
    bare = domain.n_rows - sum(domain.labelled.values())
    if bare:
        shares["no label"] = bare / domain.n_rows
    return f"{counted(domain.n_rows, 'row')} ({_some_shares(shares)})"


def _some_shares(shares: dict[str, float]) -> str:
    """Whole percents; neither none nor all where there are others."""
    told = []
    for name, share in shares.items():
        whole = f"{share:.0%}"
        if whole == "0%" and share > 0:
            whole = "<1%"
        elif whole == "100%" and share < 1:
            whole = ">99%"
        told.append(f"{name}: {whole}")
    return _first_classes(told)


def _first_classes(told: list[str]) -> str:
    more = f", … ({len(told)} classes)" if len(told) > 6 else ""
    return ", ".join(told[:6]) + more


def predicted_shares(result: Adapted) -> str:
    """Classes among the predictions."""
    total = max(1, sum(result.n_predicted.values()))
    return _some_shares({str(c): n / total for c, n in result.n_predicted.items()})


def checked_lines(found: Checked) -> list[str]:
    """Verdict first, then how far apart, in which columns, and what that means."""
    differ = found.differing
    lines = [found.verdict, ""]
    rows = f"rows       {found.n_source} source, {found.n_target} target; "
    lines.append(f"{rows}{counted(len(found.columns), 'column')} compared")
    if found.told_apart is not None:
        told, low, high = (f"{v:.0%}" for v in asdict(found.told_apart).values())
        lines.append(
            f"apart      a classifier tells the two tables apart for {told} of rows, "
            f"{low} to {high} (50% is chance)"
        )
    lines.append(f"shift      {found.shift.sentence()}")
    if found.outside is not None:
        share = f"{found.outside:.0%}"
        lines.append(
            f"outside    {share} of target rows lie where no source row does (5% is usual)"
        )
    for columns, where in ((found.only_source, "source"), (found.only_target, "target")):
        if columns:
            lines.append(f"only in    the {where}: {some_names(columns, 8)}")
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
        Aside(f"time       {found.seconds:.1f} s"),
        *(Aside(f"warning: {finding.text}") for finding in found.findings),
        *(Aside(f"note: {note}") for note in found.notes),
    ]


def predicted_lines(result: Predicted) -> list[str]:
    """Rows, classes, file."""
    counts = _first_classes([f"{c}: {n}" for c, n in result.counts.items()])
    return [
        f"{counted(result.n_rows, 'row')} in {result.seconds:.1f} s ({counts})",
        *_how_explained(result.explained),
        *(Aside(f"note: {note}") for note in result.notes),
        Aside(f"written: {result.file}"),
    ]


def _how_explained(how: str | None) -> list[str]:
    """What the columns of --explain hold."""
    if how is None:
        return []
    ways = {"exact": "exact, since the model is linear", "sampled": "sampled (10 orders)"}
    return [f"explained: moved_by_1, moved_1 …: what moved each score, and how far; {ways[how]}"]


def compared_lines(result: Compared) -> list[str]:
    """Verdict first, then a line per method, the pairs that differ, and what the methods are."""
    first = result.results[0].method
    lines = [result.verdict, ""]
    lines.append(f"{'method':8} {'accuracy':22} {f'as {first}':>8}  MMD after")
    for r in result.results:
        accuracy = "-" if r.accuracy is None else str(r.accuracy)
        lines.append(f"{r.method:8} {accuracy:22} {r.agreement:8.1%}  {r.mmd}")
    if result.pairs:
        lines += ["", *_pairs(result)]
    lines += ["", *(Aside(f"{r.method:8} {explained(r.method)}") for r in result.results)]
    lines += [Aside(f"note: {note}") for note in result.notes]
    return lines + [Aside(f"written: {file}") for file in result.files]


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


def label_lines(result: ToLabel) -> list[str]:
    """The rows, and what to do with them."""
    n = len(result.rows)
    rest = f" ({result.n_labelled} have a label already)" if result.n_labelled else ""
    lines = [f"{n} of {counted(result.n_rows, 'row')} to label, those that decide most first{rest}"]
    lines += [""]
    ids = [str(one)[:24] for one in result.ids]
    width = max(3, *(len(one) for one in ids))
    parts = zip(ids, result.predictions, result.probabilities, result.reasons, strict=True)
    for one, predicted, likely, reason in parts:
        lines.append(f"{one:>{width}}  {predicted} ({likely:.0%})  {reason}")
    lines += ["", *(Aside(f"note: {note}") for note in result.notes)]
    if result.file is None:
        lines.append(Aside("note: nothing was written: name a file with --out."))
        return lines
    lines.append(Aside(f"written: {result.file}"))
    if result.whole:
        file, label = shlex.quote(result.file), shlex.quote(result.label)
        again = f"marda adapt --source … --target {file} --label {label}"
        lines.append(f"next: fill in the column {result.label!r}, then {again}")
    else:
        lines.append(
            f"next: fill in the column {result.label!r}; with --all the file has every row, and is "
            "a target for marda adapt"
        )
    return lines


LEARNED_FROM = "rows whose labels the model learned from make it look better than it is."


def evaluated_lines(result: Evaluated) -> list[str]:
    """Whether reality is as expected, then the figures, and a line per class."""

    def interval(value: Interval) -> str:
        return f"{value.value:.1%} (95% interval {value.low:.1%} to {value.high:.1%})"

    rows = counted(result.n_rows, "labelled row")
    bare = f"; {result.n_unlabelled} without a label left out" if result.n_unlabelled else ""
    lines = [
        result.sentence(),
        "",
        f"rows       {rows}{bare}",
        f"accuracy   {interval(result.accuracy)}; always the commonest class: "
        f"{result.commonest:.1%}",
        f"balanced   {interval(result.balanced_accuracy)}: mean over classes",
    ]
    if result.expected:
        low, high = result.expected["interval"]
        told = f"{result.expected['accuracy']:.0%}" if result.expected["can_tell"] else "?"
        lines.append(f"expected   {told} ({low:.0%} to {high:.0%}): {result.expected['reason']}")
    lines.append(
        f"confidence {result.confidence:.1%} on average; off by "
        f"{100 * result.calibration_error:.1f} points (calibration error)"
    )
    lines += ["", "confidence    rows    mean  accuracy"]
    for one in result.bins:
        lines.append(f"{one.low:.0%} to {one.high:.0%}".ljust(12) + f"{one.n_rows:6,}  "
                     f"{one.confidence:6.1%}  {one.accuracy:8.1%}")  # fmt: skip
    lines += ["", *_class_lines(result)]
    if result.unknown:
        named = ", ".join(f"{name} ({n})" for name, n in [*result.unknown.items()][:5])
        told = f"labels that the model has no class for count as wrong: {named}."
        lines.append(Aside(f"warning: {told}"))
    lines += [Aside(f"note: {note}") for note in (*result.notes, LEARNED_FROM)]
    return lines if result.file is None else [*lines, Aside(f"written: {result.file}")]


def _class_lines(result: Evaluated) -> list[str]:
    """Recall and precision per class, and the class it is most often mistaken for."""
    names = [str(one.name) for one in result.classes]
    width = max(5, *(len(name[:24]) for name in names))
    lines = [f"{'class':{width}}   rows  recall (95% interval)      precision  mistaken for"]
    for k, one in enumerate(result.classes[:MOST_CLASSES]):
        recall = "–"
        if one.recall is not None:
            bounds = f"({one.recall.low:.1%} to {one.recall.high:.1%})"
            recall = f"{one.recall.value:6.1%} {bounds}"
        wrong = result.confusion[k].copy()
        wrong[k] = 0
        other = f"{names[int(wrong.argmax())]} ({wrong.max()})" if wrong.any() else ""
        precision = "–" if one.precision is None else f"{one.precision:.1%}"
        lines.append(
            f"{names[k][:24]:{width}} {one.n_rows:6,}  {recall:26} {precision:>9}  {other}".rstrip()
        )
    if len(names) > MOST_CLASSES:
        lines.append(f"… ({len(names)} classes; --json has all)")
    return lines
