"""A model card in Markdown: what a model is, what it learned from, and what may be expected of it.

Only what is known is written: every figure is one of the result, and what nobody measured is said
to be unmeasured.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from marda._machine import versions
from marda.adaptation import Adapted
from marda.adaptation.methods import classifier_of, explained, method_of
from marda.diagnostics.intervals import counted, percent, share_text
from marda.report.adapted import SETTINGS, answer_of, notes_of

__all__ = ["model_card"]

MOST_NAMES = 40


def model_card(result: Adapted, command: str = "") -> str:
    """The card of one adaptation; `command` made it."""
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
    notes = [note for note in notes_of(result) if not note.startswith("nothing was written")]
    return _listed("Data", [*facts, *(("Note", note) for note in notes)])


def _expected(result: Adapted) -> str:
    answer = answer_of(result)
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
