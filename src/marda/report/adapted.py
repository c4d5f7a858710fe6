"""The report of ``marda adapt``, and the model card in Markdown: what a model is and came from."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from marda._machine import counted, peak_mb, versions
from marda.adaptation import Adapted
from marda.adaptation.methods import classifier_of, explained, method_of
from marda.diagnostics.answer import Answer, can_use
from marda.diagnostics.influence import is_exact
from marda.diagnostics.intervals import percent, share_text
from marda.diagnostics.verdict import Judgement, Verdict, adapted_verdict, judged_verdict
from marda.io.table import as_keywords
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
    verdict_box,
)
from marda.report.sections import before_and_after, confidence, confusion, convergence, times

#: Of an absolute path, all but the name.
FOLDERS = re.compile(r"(?<!\S)(?:/|[A-Za-z]:[\\/])\S*[\\/](?=[^\s\\/])")
UNSURE = 0.6  # predictions of a lower probability deserve a look
MOST_SHARES = 12
LEAST_MOVED = 0.001  # influence that is less is none
MOST_CANDIDATES = 200
MOST_NAMES = 40  # of classes and columns in a model card
HEADER = ("parameter", "value")
SETTINGS = {
    "US": "unsupervised: no target labels",
    "SS": "semi-supervised: some target labels",
    "SUP": "supervised: all target rows labelled",
}


def adapted_page(result: Adapted, command: str = "") -> str:
    """One page about one adaptation: can its predictions be used? `command` made it."""
    source, target = result.inputs
    return page(
        kind="marda.adapt" if result.python else "marda adapt",
        about=f"{source} → {target}",
        title="Can I use these predictions?",
        lead=_lead(result),
        verdict=_answer(result),
        sections=adapted_sections(result),
        command=command,
    )


def adapted_sections(result: Adapted) -> list[Section]:
    """What stands below the answer: rows to label, warnings, then evidence."""
    evidence, judgement = result.evidence, result.judgement
    if evidence is None:
        raise ValueError("this result has no evidence to show: adapt with a report.")
    warned, *evident = before_and_after(result.diagnosis, evidence)
    sections = [
        *_to_label(result),
        warned,
        _helps(result),
        _predictions(result),
        *([] if judgement is None else [_errors(result, judgement)]),
        *_influence(result),
        *evident,
    ]
    if evidence.losses:
        sections.append(convergence(evidence.losses))
    return [
        *sections,
        times(result.times, result.seconds, peak_mb()),
        _settings(result.model, _notes(result)),
    ]


def _answer(result: Adapted) -> Answer:
    """Can the predictions be used? Labels decide where there are enough."""
    facts = result.diagnosis.facts
    unsure = None
    if facts.calibrated:
        unsure = int((result.probabilities.max(1) < UNSURE).sum()), UNSURE
    rows = [row.name for row in result.label_first]
    answer = can_use(facts, result.judgement, to_label=rows, unsure=unsure, target=result.inputs[1])
    steps = tuple(_said(result, step) for step in answer.steps)
    return replace(answer, basis=_said(result, answer.basis), steps=steps)


def _notes(result: Adapted) -> list[str]:
    """What was decided in reading; of files elsewhere only the name, since a page may travel."""
    return [FOLDERS.sub("", note) for note in result.notes]


def _said(result: Adapted, text: str) -> str:
    """A sentence in the words of who asked: options and commands, or keywords and methods."""
    return as_keywords(text) if result.python else text


def _to_label(result: Adapted) -> list[Section]:
    """Which rows a person should label first."""
    if not result.label_first:
        return []
    text = (
        "A label of one of these rows is meant to tell more than that of a row drawn by chance "
        "(marda label names more of them). For a measured accuracy, add rows drawn by chance."
    )
    facts = result.diagnosis.facts
    known = facts.expected is None or facts.can_tell  # else the page says that nothing is
    rows: list[Cells] = [
        [
            row.name,
            row.predicted,
            *([NumberCell(_sure(row.probability), row.probability)] if known else []),
            row.reason,
        ]
        for row in result.label_first
    ]
    caption = f"Rows of {result.inputs[1]}, the most telling one first."
    header = ("row", "predicted", *(["probability"] if known else []), "why")
    shown = table(caption, header, rows)
    return [Section("Rows to label first", (paragraph(_said(result, text)), shown))]


def _sure(probability: float) -> str:
    """No row is certain."""
    return ">99%" if probability > 0.99 else f"{probability:.0%}"


def _helps(result: Adapted) -> Section:
    """Against the same without adaptation."""
    return Section("Does adaptation help?", (verdict_box(_verdict(result)),))


def _influence(result: Adapted) -> list[Section]:
    """The columns and words that move scores most."""
    if not result.influence:
        return []
    how = "exact" if is_exact(result.model) else "sampled"
    told = (
        "How far a column or word moves the lead of the predicted class over the runner-up, on "
        f"average over rows of the target ({how}). It is what the model uses, not what causes the "
        f"class{'' if result.python else '; marda predict --explain tells it row by row'}."
    )
    largest = max(one.moved for one in result.influence)
    if largest < LEAST_MOVED:
        nothing = f"No column or word moves a score by as much as {LEAST_MOVED:g}."
        return [Section("What moves predictions", (paragraph(nothing),))]
    digits = max(0, 2 - math.floor(math.log10(largest)))
    rows: list[Cells] = [
        [one.name, NumberCell(f"{one.moved:.{digits}f}", one.moved)] for one in result.influence
    ]
    caption = "The columns or words that move predictions most."
    shown = table(caption, ("column or word", "moves scores by"), rows)
    return [Section("What moves predictions", (paragraph(told), shown))]


def adapted_head(result: Adapted) -> str:
    """The page's first screen, for a notebook; below it, what a reader should know of the rows."""
    verdict = _verdict(result)
    told = {text for _, text in verdict.reasons}
    found = (_said(result, finding.text) for finding in result.diagnosis.findings)
    warnings = [text for text in found if text not in told]
    return head(_lead(result), verdict, _figures(result), (*warnings, *result.notes))


def _lead(result: Adapted) -> str:
    """What was done, in one sentence."""
    source, target = result.inputs
    n = result.n_labelled_target
    labels = "without labels" if not n else f"{n:,} of them with a label"
    if n == result.n_target:
        labels = "all with a label"
    return (
        f"A classifier learned from {counted(result.n_source, 'labelled row')} of {source}, looked "
        f"at {counted(result.n_target, 'row')} of {target} ({labels}), and named a class for each."
    )


def _figures(result: Adapted) -> list[tuple[str, str]]:
    """The few numbers to remember."""
    answer = _answer(result)
    shown = [("target rows classified", f"{result.n_target:,}")]
    if answer.expected is not None:
        word = "expected" if result.judgement is None else "on held-out labels"
        shown.append((f"right, {word}", share_text(answer.expected)))
    if answer.interval is not None:
        level = "90%" if result.judgement is None else "95%"
        low, high = (share_text(bound) for bound in answer.interval)
        shown.append((f"right, {level} interval", f"{low} to {high}"))
    return shown


def _verdict(result: Adapted) -> Verdict:
    """Labels decide where there are enough; else distances, which prove nothing."""
    if result.judgement is not None:
        verdict = judged_verdict(result.judgement)
    else:
        diagnosis = result.diagnosis
        single = next((f.text for f in diagnosis.findings if f.code == "single-class"), None)
        verdict = adapted_verdict(diagnosis.facts, single)
    reasons = tuple((name, _said(result, text)) for name, text in verdict.reasons)
    return replace(verdict, text=_said(result, verdict.text), reasons=reasons)


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
    drawing = charts.bars(
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
    header = ("class", "source labels", "target predictions")
    shown = Chart(drawing, name, table(name, header, rows))
    return Section("Predictions", ((shown, chart),))


def _errors(result: Adapted, judgement: Judgement) -> Section:
    classes = [str(c) for c in result.model.classes_]
    return Section(
        "Right and wrong",
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
        ("method", f"{method_of(model)}: {explained(method_of(model))}"),
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
        parts.append(_candidates(model.candidates_, model.setting_))
    return Section("Settings", (*parts, *([points(notes)] if notes else []), full))


def _candidates(candidates: Sequence[dict[str, Any]], setting: str) -> str:
    """Models that were weighed, by what they differ in."""
    names = list(dict.fromkeys(name for c in candidates for name in c))
    values = {name: {str(c[name]) for c in candidates if name in c} for name in names}
    # A source-only model has no parameters of denoising: those that all others share tell nothing.
    told = [n for n in names if len(values[n]) > 1 or n == "source_only"]
    told = [n for n in told if n not in ("random_state", "name")]
    rows: list[Cells] = [
        [str(c.get("name", k)), *(_value(c.get(name, "–")) for name in told)]
        for k, c in enumerate(candidates[:MOST_CANDIDATES], start=1)
    ]
    how = " without a target label" if setting == "US" else ""
    caption = f"Models that were weighed{how}, by what they differ in."
    return table(caption, ("model", *told), rows)


def _value(value: Any) -> str | NumberCell:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return NumberCell(f"{value:.4g}", float(value)) if number else str(value)


# The model card ----------------------------------------------------------------------------------


def model_card(result: Adapted, command: str = "") -> str:
    """The card of one adaptation; `command` made it.

    Only what is known is written: every figure is one of the result, and what nobody measured is
    said to be unmeasured.
    """
    source, target = (_plain(name) for name in result.inputs)
    parts = [
        f"# Model card: {source} → {target}",
        _model(result),
        _data(result),
        _expected(result),
        _limits(result),
        _made(command),
    ]
    return "\n\n".join(parts) + "\n"


def _model(result: Adapted) -> str:
    model, method = result.model, method_of(result.model)
    says = explained(method)
    return _listed(
        "Model",
        [
            ("Method", f"{method} ({says})" if says else method),
            ("Predicts by", classifier_of(model)),
            ("Setting", SETTINGS[model.setting_]),
            ("Classes", _some([str(c) for c in model.classes_.tolist()])),
            ("Column that is predicted", result.preprocessing.label),
        ],
    )


def _data(result: Adapted) -> str:
    source, target = result.inputs
    columns = result.preprocessing.columns
    labelled = "none with a label"
    if result.n_labelled_target:
        labelled = f"{result.n_labelled_target:,} with a label"
    facts = [
        ("Source", f"{source}, {counted(result.n_source, 'labelled row')}"),
        ("Target", f"{target}, {counted(result.n_target, 'row')}, {labelled}"),
        ("Columns used", f"{len(columns):,}: {_some(columns)}"),
        ("Features made of them", f"{result.preprocessing.n_features:,}"),
    ]
    if result.preprocessing.id is not None:
        facts.append(("Carried through, not used", result.preprocessing.id))
    # Which files were written is no property of the model.
    notes = [note for note in _notes(result) if not note.startswith("nothing was written")]
    return _listed("Data", [*facts, *(("Note", note) for note in notes)])


def _expected(result: Adapted) -> str:
    answer = _answer(result)
    measured = result.judgement is not None
    facts = [("Can the predictions be used?", f"{answer.word}. {answer.text}")]
    if answer.expected is not None:
        word = "Accuracy, measured" if measured else "Accuracy, expected"
        facts.append((word, share_text(answer.expected)))
    if answer.interval is not None:
        level = "95%" if measured else "90%"
        low, high = (share_text(bound) for bound in answer.interval)
        facts.append((f"Its {level} interval", f"{low} to {high}"))
    else:
        facts.append(("Its interval", "not known"))
    facts += [("It rests on", answer.basis), ("What differs", answer.shift)]
    if result.diagnosis.facts.action:
        facts.append(("What was done about it", result.diagnosis.facts.action))
    shares = ", ".join(
        f"{c}: {percent(float(np.mean(result.predictions == c)))}"
        for c in result.model.classes_[:MOST_NAMES]
    )
    facts.append(("Predicted classes of the target", shares))
    return _listed("What to expect", facts)


def _limits(result: Adapted) -> str:
    facts = result.diagnosis.facts
    lines = [
        "The model is for rows like those of the target: for other rows nothing was checked.",
        "Whether it treats groups of people alike was not measured.",
    ]
    if result.judgement is None:
        lines.append("No label of the target has confirmed the accuracy.")
    if not facts.calibrated:
        lines.append("Its probabilities are not calibrated.")
    lines += [_sentence(finding.text) for finding in result.diagnosis.findings]
    told = "\n".join(f"- {_plain(line)}" for line in lines)
    return f"## Limits\n\n{told}"


def _made(command: str) -> str:
    tools = ", ".join(f"{name} {version}" for name, version in versions().items())
    made = datetime.now(UTC).strftime("%Y-%m-%d")
    text = f"## How it was made\n\n- **On**: {made}\n- **With**: {tools}"
    return f"{text}\n\n```console\n$ {command}\n```" if command else text


def _listed(title: str, facts: list[tuple[str, str]]) -> str:
    told = "\n".join(f"- **{name}**: {_plain(text)}" for name, text in facts)
    return f"## {title}\n\n{told}"


def _plain(text: str) -> str:
    """Names of files and columns as they are: nothing in them is markup, or a line of its own."""
    text = " ".join(text.split())
    for mark in "\\`*_[]<>#|":
        text = text.replace(mark, f"\\{mark}")
    return text


def _some(names: list[str]) -> str:
    more = f", … ({len(names):,} in all)" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
