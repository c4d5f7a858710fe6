"""Columns that no model should see: empty, nameless, constant, ids, and leaks of label or domain.

A shifted feature is what adaptation is for, so a column tells the domain only where it could not
carry anything from one to the other: it has few values, and none of them is in both files. Numbers
must moreover be the same in all rows of each file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.conventions import days_of
from marda.io.problems import joined_names
from marda.io.table import Table, as_numbers, as_texts, is_missing

__all__ = ["LeftOut", "is_prose", "is_unspaced", "notes_of", "screen"]

#: Fewer rows tell nothing of ids; of leaks, fewer source rows.
ENOUGH_FOR_IDS, ENOUGH_FOR_LEAKS = 20, 40
UNIQUE = 0.95
FEW_VALUES = 12
#: Mean recall of the classes on left-out rows from which on a column gives the label away.
GIVEN_AWAY = 0.995
#: Rows, and rows times columns, that are sorted in the search for leaks; columns then tried.
MOST_ROWS, MOST_SORTED, MOST_TRIED = 5000, 5_000_000, 200
LOOK = 2000
ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|key|uuid|guid|nr|no|num|number|index|idx|row|rowid|rownum|serial)$|[a-z]I[dD]$",
)
#: Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese.
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class LeftOut:
    """A column that is left out, and why."""

    name: str
    why: str


def screen(
    source: Table, target: Table, ys: NDArray[Any], names: Sequence[str], keep: Collection[str]
) -> list[LeftOut]:
    """Columns to leave out.

    Parameters
    ----------
    source, target : Table
        All rows, with numbers and dates as such.
    ys : array
        Labels of the source.
    names : sequence of str
        Columns that would be features; others are not looked at.
    keep : collection of str
        Columns that stay whatever they are.
    """
    found: dict[str, str] = {}
    looked = [n for n in names if n not in keep and n in source.columns and n in target.columns]
    for name in looked:
        why = _plain_reason(source, target, name)
        if why is not None:
            found[name] = why
    rest = [name for name in looked if name not in found]
    kept = [name for name in names if name not in found]
    leaks = _label_leaks(source, ys, rest)
    # Where many columns tell the label, the problem is easy, and they are no leaks. A copy is one.
    strong = [name for name, copy in leaks.items() if not copy]
    if len(strong) > max(1, len(kept) // 4):
        leaks = {name: copy for name, copy in leaks.items() if copy}
    if len(leaks) < len(kept):
        for name, copy in leaks.items():
            found[name] = (
                "is the label in other words"
                if copy
                else "alone predicts the label of left-out source rows"
            )
    return [LeftOut(name, found[name]) for name in looked if name in found]


def notes_of(left_out: Sequence[LeftOut]) -> list[str]:
    """One sentence per reason, with the option that insists."""
    reasons: dict[str, list[str]] = {}
    for column in left_out:
        reasons.setdefault(column.why, []).append(column.name)
    notes = []
    for why, names in reasons.items():
        shown = ", ".join(map(repr, names[:5]))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        notes.append(f"left out: {shown}{more}, which {why} (--keep '{joined_names(names[:5])}').")
    return notes


def _plain_reason(source: Table, target: Table, name: str) -> str | None:
    columns = [source[name], target[name]]
    known = [values[~is_missing(values)] for values in columns]
    if not len(known[0]) and not len(known[1]):
        return "has no values"
    if not len(known[0]) or not len(known[1]):
        return f"has no values in {source.path if not len(known[0]) else target.path}"
    if name in source.nameless or name in target.nameless:
        return "has no name"
    values = [_comparable(held) for held in known]
    different = [set(held[:LOOK].tolist()) for held in values]
    if len(different[0] | different[1]) == 1:
        different = [set(held.tolist()) for held in values]
        gaps = any(len(held) < len(column) for held, column in zip(known, columns, strict=True))
        if len(different[0] | different[1]) == 1 and not gaps:
            return "is the same in all rows"
    if _tells_domain(values, different):
        return "tells the files apart and nothing else: no value is in both"
    if _is_id(name, values):
        return "looks like an id or a row number"
    return None


def _comparable(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers, or text; dates as text."""
    if values.dtype.kind == "M":
        return as_texts(values)
    numbers = as_numbers(values)
    return values if numbers is None else numbers


def _tells_domain(values: Sequence[NDArray[Any]], seen: Sequence[set[Any]]) -> bool:
    """Few values, none of them in both files."""
    numbers = all(held.dtype.kind == "f" for held in values)
    most = 1 if numbers else FEW_VALUES
    if max(map(len, seen)) > most or seen[0] & seen[1]:
        return False
    if min(map(len, values)) < ENOUGH_FOR_IDS:
        return False
    sets = [set(held.tolist()) for held in values]
    return max(map(len, sets)) <= most and not sets[0] & sets[1]


def _is_id(name: str, values: Sequence[NDArray[Any]]) -> bool:
    """Whether values are unique, or nearly so, in each file, and look like codes or numbers."""
    if min(map(len, values)) < ENOUGH_FOR_IDS:
        return False
    numbers = all(held.dtype.kind == "f" for held in values)
    if numbers and not all((np.abs(v) < 2**53).all() and (v % 1 == 0).all() for v in values):
        return False
    for parts in ([held[:LOOK] for held in values], values):  # a quick look, and then all rows
        if any(len(set(held.tolist())) < UNIQUE * len(held) for held in parts):
            return False
    if numbers:
        return _is_id_name(name) or _is_numbering(values)
    texts = [str(value) for held in values for value in held[:1000].tolist()]
    return not is_prose(texts) and not any(held.dtype.kind == "f" for held in values)


def _is_id_name(name: str) -> bool:
    return ID_NAME.search(name) is not None or ID_NAME.search(name.lower()) is not None


def _is_numbering(values: Sequence[NDArray[Any]]) -> bool:
    """Whole numbers that count rows, grow from row to row, or have one long length throughout."""
    dense = all(held.max() - held.min() < 1.5 * len(held) for held in values)
    growing = all((np.diff(held) > 0).all() for held in values)
    both = np.concatenate([*values])
    digits = np.floor(np.log10(np.maximum(np.abs(both), 1)))
    long = digits.min() == digits.max() and digits.min() >= 5 and both.min() > 0
    return bool(dense or growing or long)


def is_prose(texts: Sequence[str]) -> bool:
    """Text to read, and not codes or names."""
    words = np.mean([len(text.split()) for text in texts])
    unspaced = np.mean([len(UNSPACED.findall(text)) for text in texts])
    return bool(words >= 3 or unspaced >= 4)


def is_unspaced(texts: Sequence[str]) -> bool:
    """Whether most letters are of scripts that write words without spaces."""
    whole = "".join(texts)
    return len(UNSPACED.findall(whole)) > 0.5 * sum(map(str.isalpha, whole))


# Leaks of the label ------------------------------------------------------------------------------


def _label_leaks(source: Table, ys: NDArray[Any], names: Sequence[str]) -> dict[str, bool]:
    """Columns that give the label away, and whether each is a copy of it (one value per class)."""
    n = len(ys)
    classes, codes = np.unique(ys.astype(str) if ys.dtype.kind == "O" else ys, return_inverse=True)
    codes = codes.ravel()
    if n < ENOUGH_FOR_LEAKS or len(classes) < 2 or np.bincount(codes).min() < 4 or len(names) < 2:
        return {}
    most = min(MOST_ROWS, max(400, MOST_SORTED // len(names)))
    rows = np.sort(np.random.default_rng(0).permutation(n)[:most])
    codes = codes[rows]
    if len(np.unique(codes)) < len(classes):
        return {}
    leaks: dict[str, bool] = {}
    tried = 0
    for name in names:
        values = _ranks(source[name][rows])
        order = np.lexsort((codes, values))
        changes = np.count_nonzero(np.diff(codes[order]))
        different = len(np.unique(values))
        # A column that tells the label changes class seldom along its values.
        seldom = 4 * len(classes)
        if changes > (seldom if different > len(rows) / 2 else seldom + different):
            continue
        tried += 1
        if tried > MOST_TRIED:
            break
        copy = different == len(classes)
        if _recall(values, codes, copy or different <= FEW_VALUES) >= GIVEN_AWAY:
            leaks[name] = copy
    return leaks


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Places in the order of numbers or of the alphabet; missing values below all others."""
    if values.dtype.kind == "M":
        numbers: Any = days_of(values)
    else:
        numbers = as_numbers(values)
    if numbers is None:
        texts = as_texts(values)
        place = {text: k for k, text in enumerate(sorted({t for t in texts.tolist() if t}))}
        return np.array([place.get(text, -1) for text in texts.tolist()], dtype=np.float64)
    places = np.unique(numbers, return_inverse=True)[1].ravel() + 1.0
    return np.where(np.isnan(numbers), 0.0, places)


def _recall(values: NDArray[np.float64], codes: NDArray[Any], by_value: bool) -> float:
    """Mean recall of the classes on each half, learnt from the other."""
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.tree import DecisionTreeClassifier

    # Halves in turn within every class, in the order of the rows.
    half = np.empty(len(codes), dtype=np.int64)
    for code in np.unique(codes):
        here = np.flatnonzero(codes == code)
        half[here] = np.arange(len(here)) % 2
    scores = []
    for k in (0, 1):
        tree = DecisionTreeClassifier(
            max_leaf_nodes=None if by_value else 3 * (int(codes.max()) + 1), random_state=0
        )
        tree.fit(values[half != k, None], codes[half != k])
        scores.append(
            balanced_accuracy_score(codes[half == k], tree.predict(values[half == k, None]))
        )
    return float(np.mean(scores))
