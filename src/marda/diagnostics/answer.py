"""Can these predictions be used? The first screen of a report, in plain words.

Labels of the target answer where there are enough of them; else the expected accuracy with its
interval, where one is known. What is not known is said to be not known, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from marda._machine import counted
from marda.diagnostics.intervals import share_text
from marda.diagnostics.verdict import ENOUGH, FEW_LABELS, LABELS, Facts, Judgement, outcome_of

Kind = Literal["good", "unclear", "bad"]
#: Rows that are named within a sentence; a table holds more.
NAMED = 6


@dataclass(frozen=True)
class Answer:
    """What a reader is told first.

    Attributes
    ----------
    kind : {"good", "unclear", "bad"}
        Which sign stands beside it.
    word, text : str
        The answer in a few words, and in a sentence or two.
    expected : float or None
        Share of the predictions that are right, measured or expected; None: not known.
    interval : tuple of float or None
        Where that share lies.
    guessing : float
        The share without looking at a row.
    basis : str
        What the share rests on, as a sentence.
    shift : str
        What differs between the domains, as a sentence.
    steps : tuple of str
        What to do next.
    """

    kind: Kind
    word: str
    text: str
    expected: float | None
    interval: tuple[float, float] | None
    guessing: float
    basis: str
    shift: str
    steps: tuple[str, ...]


def can_use(
    facts: Facts,
    judged: Judgement | None = None,
    *,
    to_label: Sequence[str] = (),
    unsure: tuple[int, float] | None = None,
    target: str = "the target file",
) -> Answer:
    """Answer from what is known.

    Parameters
    ----------
    facts : Facts
        Of the adaptation.
    judged : Judgement, default=None
        What labels of the target say, where there are enough.
    to_label : sequence of str, default=()
        Names of the rows whose labels would tell most, the first one first.
    unsure : tuple of int and float, default=None
        How many predictions have less than a probability, and that probability.
    target : str
        What the file of the target is called.
    """
    if judged is not None:
        return _measured(facts, judged, unsure)
    kind, word, text = _expected(facts)
    doubted = facts.few or facts.single_class  # no figure stands beside "do not use them"
    known = facts.expected is not None and facts.can_tell and not doubted
    return Answer(
        kind,
        word,
        text,
        facts.expected if known else None,
        None if doubted else facts.interval,
        facts.guessing_target,
        _basis(facts),
        _shift(facts),
        _steps(facts, kind, to_label, unsure, target),
    )


def _measured(facts: Facts, judged: Judgement, unsure: tuple[int, float] | None) -> Answer:
    right = judged.adapted
    low, high = share_text(right.low), share_text(right.high)
    others = "more rows like them" if judged.n_rows >= facts.n_target else "all rows"
    text = (
        f"{share_text(right.value)} of {counted(judged.n_rows, 'row')} with known labels are "
        f"right; among {others} it is {low} to {high}, as far as these rows tell (95% interval)."
    )
    hurts = judged.gain.high < 0 and judged.p_value < 0.05
    if right.low <= judged.commonest:
        kind: Kind = "bad"
        word = "No: naming one class for all rows is about as good"
        text += f" The commonest class alone makes {share_text(judged.commonest)}."
        first = "Do not use these predictions: add columns that tell the classes apart, or rows."
    elif hurts:
        kind, word = "unclear", "Better use the plain classifier"
        text += f" Without adaptation it is {share_text(judged.plain.value)}."
        first = "Run this again with --method BL, the classifier without adaptation."
    else:
        kind, word = "good", f"Yes, where {_enough(right.low, right.high)} right is enough"
        first = _look(unsure) or "Use the predictions where this accuracy is enough."
    steps = (
        first,
        "Look at which classes are taken for which, under Right and wrong.",
        "Run marda compare on the same rows: their labels judge other methods too.",
    )
    basis = (
        f"Labels of {counted(judged.n_rows, 'row')} of the target, each predicted by models that "
        "had not seen its label."
    )
    share, ends = right.value, (right.low, right.high)
    guessing = max(judged.commonest, 1 / facts.n_classes)
    return Answer(kind, word, text, share, ends, guessing, basis, _shift(facts), steps)


def _expected(facts: Facts) -> tuple[Kind, str, str]:
    """Without labels that judge."""
    outcome = outcome_of(facts)
    if outcome == "few-rows":
        rows = f"{facts.n_source:,} in the source, {facts.n_target:,} in the target"
        return "unclear", "Not yet: there are too few rows to tell", f"There are {rows}."
    if outcome == "single-class":
        said = "Nearly every row got the same class, which is seldom what the data are like."
        return "bad", "Not yet: nearly all rows got one class", said
    low, high = (share_text(b) for b in facts.interval or (0.0, 1.0))
    more = "more " if facts.n_labelled else ""
    if outcome == "cannot-tell":
        text = f"Anything from {low} to {high} of the predictions may be right: {facts.reason}."
        return "unclear", f"Nobody can tell without {more}labels", text
    if facts.expected is None:
        text = "Nothing here says how many of the predictions are right."
        return "unclear", f"Nobody can tell without {more}labels", text
    about, guess = share_text(facts.expected), _guess(facts)
    if facts.interval is None:
        text = f"About {about} may be right; that is a guess, from how far models agree. {guess}"
    else:
        text = (
            f"{low} to {high} of the {counted(facts.n_target, 'prediction')} are expected to be "
            f"right (90% interval). {guess}"
        )
    if outcome == "chance":
        return "bad", "No: they are not clearly better than guessing", text
    if facts.interval is None:
        return "unclear", "Perhaps: what is known is a guess", text
    if facts.interval[0] <= facts.guessing_target:
        return "unclear", f"Perhaps: as few as {low} may be right", text
    return "good", f"Yes, where {_enough(*facts.interval)} right is enough", text


def _enough(low: float, high: float) -> str:
    """All that the interval holds: whoever needs more than its lower end may not have it."""
    texts = share_text(low), share_text(high)
    return " to ".join(dict.fromkeys(texts))


def _guess(facts: Facts) -> str:
    if facts.commonest_target > facts.guessing:
        share = share_text(facts.commonest_target)
        return f"One class for all rows gives about {share} if class shares are as told."
    if facts.commonest > 1 / facts.n_classes + 0.005:
        return f"One class for all rows gives {share_text(facts.commonest)}."
    return f"Guessing gives {share_text(1 / facts.n_classes)}."


def _basis(facts: Facts) -> str:
    if facts.few:
        return "Nothing: so few rows show no more than chance."
    if facts.expected is None:
        every = facts.n_labelled >= facts.n_target > 0
        if facts.n_labelled:
            rows = "All rows of the target have labels" if every else "Few target rows have labels"
            return f"Nothing. {rows}, but {FEW_LABELS} at least must judge."
        return (
            "Nothing: the target has no labels, and a method that was named gives no estimate "
            "(--method auto does)."
        )
    if facts.interval is None:
        return "How far models agree; no interval is known for this method."
    if not facts.can_tell:
        known = f"{counted(facts.n_labelled, 'label')} of the target" if facts.n_labelled else ""
        return f"{known or 'No label'}; this is all that the rows allow to say."
    if facts.n_labelled:  # the reason tells of them
        return f"{facts.reason[:1].upper()}{facts.reason[1:]}."
    return f"No label: {facts.reason}."


def _shift(facts: Facts) -> str:
    if facts.shift:
        return facts.shift
    if facts.few or facts.told_apart is None:
        return "There are too few rows to say."
    if facts.alike:
        return "Source and target look alike."
    told = share_text(facts.told_apart.before.value)
    return f"Source and target are told apart in {told} of rows; why was not asked here."


def _steps(
    facts: Facts,
    kind: Kind,
    to_label: Sequence[str],
    unsure: tuple[int, float] | None,
    target: str,
) -> tuple[str, ...]:
    """Three things, the first one first."""
    use = {
        "good": _look(unsure) or "Use the predictions where this accuracy is enough.",
        "unclear": "Do not rely on the predictions before some are checked by hand.",
        "bad": "Do not use the predictions yet.",
    }[kind]
    if facts.n_labelled >= facts.n_target > 0:
        label = f"Add target rows, {LABELS} of them with labels: those there are few."
    elif to_label:
        first = _rows(to_label[:NAMED])
        more = " … (the list below)" if len(to_label) > NAMED else ""
        label = f"Label the rows that tell most: {first}{more}."
    else:
        label = f"Label rows of {target}."
    write = f"Write the labels into {target}"
    write += ", add rows," if 0 < facts.n_target < ENOUGH else ""
    again = f"{write} and run this again: {LABELS} of them measure the accuracy."
    return use, label, again


def _rows(names: Sequence[str]) -> str:
    """``rows 3, 1, 2`` where rows have numbers only."""
    numbers = [name.removeprefix("row ") for name in names]
    plain = len(names) > 1 and all(
        name == f"row {n}" for name, n in zip(names, numbers, strict=True)
    )
    return f"rows {', '.join(numbers)}" if plain else ", ".join(names)


def _look(unsure: tuple[int, float] | None) -> str:
    if unsure is None or not unsure[0]:
        return ""
    n, below = unsure
    verb = "has" if n == 1 else "have"
    return (
        f"Use them, but check the {counted(n, 'row')} that {verb} a probability below {below:.0%}."
    )
