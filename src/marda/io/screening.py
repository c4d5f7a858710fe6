"""Columns that no model should see (empty, nameless, constant, ids, leaks), and those of text.

A shifted feature is what adaptation is for, so a column tells the domain only where it could not
carry anything from one to the other: it has few values, and none of them is in both files. Numbers
must moreover be the same in all rows of each file. Dates are no ids, however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._machine import counted
from marda.io.columns import tfidf
from marda.io.conventions import days_of, what_hinders
from marda.io.table import Table, as_numbers, as_texts, is_missing, joined_names, option, some_names

#: Fewer rows tell nothing of ids; of leaks, fewer source rows.
ENOUGH_FOR_IDS, ENOUGH_FOR_LEAKS = 20, 40
UNIQUE = 0.95
FEW_VALUES = 12
#: Mean recall of the classes on left-out rows from which on a column gives the label away.
GIVEN_AWAY = 0.995
#: Rows, and rows times columns, that are sorted in the search for leaks; columns then tried.
MOST_ROWS, MOST_SORTED, MOST_TRIED = 5000, 5_000_000, 200
LOOK = 2000
#: A code for "no value" is made of nines, stands at an end of the column and in so many rows.
ENOUGH_CODES = 2
#: Fewer values tell nothing of the unit; nor does one that is so little larger.
ENOUGH_VALUES, ANOTHER_UNIT = 20, 5.0
#: Of the factors of sizes and of spreads, how far they may be apart.
AGREEING = 1.5
#: A column is text from so many different values on, of so many words (or characters) each.
ENOUGH_TEXTS, ENOUGH_WORDS, ENOUGH_CHARACTERS = 20, 3, 6
#: So many different values are text, however often each is there.
MANY_TEXTS = 1000
#: Words, and the most telling of them, that are looked at in the search for leaks.
MOST_WORDS, TELLING = 5000, 50
ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|key|uuid|guid|nr|no|num|number|index|idx|row|rowid|rownum|serial)$|[a-z]I[dD]$",
)
#: A number with a unit, and no code: it has a fraction, or stands apart from the unit.
MEASURED = re.compile(r"[-+−]?\d+(?:[.,]\d+\s*|\s+)[A-Za-zµ°/²³]{1,8}")
#: Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
UNSPACED = re.compile(f"[{_UNSPACED}]")
#: These, and scripts of India, whose vowel signs would cut words in pieces.
UNCUT = re.compile(f"[\u0900-\u0dff{_UNSPACED}]")


@dataclass(frozen=True)
class LeftOut:
    """A column that is left out, and why."""

    name: str
    why: str


def screen(
    source: Table,
    target: Table,
    ys: NDArray[Any],
    names: Sequence[str],
    keep: Collection[str],
    texts: Collection[str] = (),
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
    texts : collection of str
        Those of them that are read word by word.
    """
    found: dict[str, str] = {}
    looked = [n for n in names if n not in keep and n in source.columns and n in target.columns]
    for name in looked:
        why = _plain_reason(source, target, name)
        if why is None and name in texts:
            why = _repeated_text(source, target, name)
        if why is not None:
            found[name] = why
    rest = [name for name in looked if name not in found]
    kept = [name for name in names if name not in found]
    leaks = _label_leaks(source, ys, rest, texts)
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
                if name not in texts
                else "has words that alone predict the label of left-out source rows"
            )
    return [LeftOut(name, found[name]) for name in looked if name in found]


def notes_of(left_out: Sequence[LeftOut]) -> list[str]:
    """One sentence per reason, with the option that insists."""
    reasons: dict[str, list[str]] = {}
    for column in left_out:
        reasons.setdefault(column.why, []).append(column.name)
    notes = []
    for why, names in reasons.items():
        keep = joined_names(names[:5])
        which = "which" if len(names) == 1 else "each of which"
        notes.append(f"left out: {some_names(names)}, {which} {why} (--keep '{keep}').")
    return notes


def used_notes(texts: Sequence[str], dates: Sequence[str]) -> list[str]:
    """What is told of columns that are used in a way that a person may not expect."""
    return [
        f"{how}: {some_names(names)} "
        f"(--drop '{joined_names(names[:5])}' leaves {'it' if len(names) == 1 else 'them'} out)."
        for how, names in (
            ("read as text, word by word", texts),
            ("read as dates, though nearly every row has its own", dates),
        )
        if names
    ]


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
    if not _are_dates(columns) and _is_id(name, values):
        return "looks like an id or a row number"
    return None


def _repeated_text(source: Table, target: Table, name: str) -> str | None:
    """What one file says in every row can neither be learnt from nor told apart."""
    for table in (source, target):
        values = table[name]
        known = values[~is_missing(values)].tolist()
        if len(known) >= ENOUGH_FOR_IDS and len(set(known)) == 1:
            return f"is text, and the same in all rows of {table.path}"
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
    """Whether values are unique, or nearly so, in each file, and look like codes or numbers.

    Dates are not asked about: `_plain_reason` lets them pass.
    """
    if min(map(len, values)) < ENOUGH_FOR_IDS:
        return False
    numbers = all(held.dtype.kind == "f" for held in values)
    if numbers and not all((np.abs(v) < 2**53).all() and (v % 1 == 0).all() for v in values):
        return False
    if not _are_unique(values):
        return False
    if numbers:
        return _is_id_name(name) or _is_numbering(values)
    texts = [str(value) for held in values for value in held[:1000].tolist()]
    if any(map(MEASURED.fullmatch, texts)) and what_hinders(texts):
        return False  # quantities in a notation that is refused by name
    return not is_prose(texts) and not any(held.dtype.kind == "f" for held in values)


def _are_unique(values: Sequence[NDArray[Any]]) -> bool:
    """Whether values are unique in each file, or nearly so."""
    return not any(
        len(set(held.tolist())) < UNIQUE * len(held)
        for parts in ([held[:LOOK] for held in values], values)  # a quick look, and then all rows
        for held in parts
    )


def _are_dates(columns: Sequence[NDArray[Any]]) -> bool:
    return all(values.dtype.kind == "M" for values in columns)


def unique_dates(source: Table, target: Table, names: Sequence[str]) -> list[str]:
    """Columns of dates of which nearly every row has its own, as times of events are."""
    found = []
    for name in names:
        columns = [table.columns[name] for table in (source, target) if name in table.columns]
        if len(columns) == 2 and _are_dates(columns):
            known = [values[~np.isnat(values)].astype(np.int64) for values in columns]
            if min(map(len, known)) >= ENOUGH_FOR_IDS and _are_unique(known):
                found.append(name)
    return found


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
    """Whether most letters are of scripts that spaces and signs do not cut into words."""
    whole = "".join(texts)
    return len(UNCUT.findall(whole)) > 0.5 * sum(map(str.isalpha, whole))


def free_texts(source: Table, target: Table, names: Sequence[str]) -> list[str]:
    """Columns that are text to read: in a file mostly different values, of several words each.

    Fewer different values, though each of several words, are categories. Numbers and codes are no
    words, so that dates which nothing else can read are not taken for text.
    """
    found = []
    for name in names:
        columns = [table.columns[name] for table in (source, target) if name in table.columns]
        if len(columns) < 2 or any(values.dtype.kind != "O" for values in columns):
            continue
        parts = [values[~is_missing(values)].tolist() for values in columns]
        # A file of few rows says nothing of how often values are there again.
        counted = [part for part in parts if len(part) >= ENOUGH_TEXTS] or [[*parts[0], *parts[1]]]
        mostly = any(len(set(part)) > min(MANY_TEXTS, len(part) // 2) for part in counted)
        many = sum(len(set(part)) for part in parts) > ENOUGH_TEXTS
        if mostly and many and _is_text([part for part in parts if part]):
            found.append(name)
    return found


def _is_text(parts: Sequence[Sequence[str]]) -> bool:
    """Whether texts have enough words on average, and some in every file."""
    looks = [[str(text) for text in part[:1000]] for part in parts]
    words = [np.mean([sum(map(_is_word, text.split())) for text in look]) for look in looks]
    signs = [np.mean([len(UNSPACED.findall(text)) for text in look]) for look in looks]
    return any(
        min(means) >= enough / 2 and np.mean(means) >= enough
        for means, enough in ((words, ENOUGH_WORDS), (signs, ENOUGH_CHARACTERS))
    )


def _is_word(word: str) -> bool:
    return len(word) > 1 and any(map(str.isalpha, word))


# Leaks of the label ------------------------------------------------------------------------------


def _label_leaks(
    source: Table, ys: NDArray[Any], names: Sequence[str], texts: Collection[str]
) -> dict[str, bool]:
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
        if name in texts:
            words = _telling_words(source[name][rows], codes)
            if words.size and _recall(words, codes, len(classes)) >= GIVEN_AWAY:
                leaks[name] = False
            continue
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
        leaves = None if copy or different <= FEW_VALUES else 3 * len(classes)
        if _recall(values[:, None], codes, leaves) >= GIVEN_AWAY:
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


def _telling_words(values: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.float64]:
    """Whether each of the words that differ most between the classes is there, per row."""
    texts = [text or "" for text in as_texts(values).tolist()]
    counter = tfidf(is_unspaced(texts[:1000]), binary=True, use_idf=False, norm=None, min_df=2)
    counter.set_params(max_features=MOST_WORDS)
    try:
        there = counter.fit_transform(texts)
    except ValueError:  # no word is there twice
        return np.empty((len(texts), 0))
    shares = np.array([there[codes == code].mean(axis=0) for code in np.unique(codes)])
    gap = np.ptp(shares.reshape(len(shares), -1), axis=0)
    telling = np.argsort(-gap, kind="stable")[:TELLING]
    return np.asarray(there[:, telling].toarray(), dtype=np.float64)


def _recall(values: NDArray[np.float64], codes: NDArray[Any], leaves: int | None) -> float:
    """Mean recall of the classes on each half, learnt from the other by a tree of some leaves."""
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.tree import DecisionTreeClassifier

    # Halves in turn within every class, in the order of the rows.
    half = np.empty(len(codes), dtype=np.int64)
    for code in np.unique(codes):
        here = np.flatnonzero(codes == code)
        half[here] = np.arange(len(here)) % 2
    scores = []
    for k in (0, 1):
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        tree.fit(values[half != k], codes[half != k])
        scores.append(balanced_accuracy_score(codes[half == k], tree.predict(values[half == k])))
    return float(np.mean(scores))


# Numbers that look wrong and are used all the same ------------------------------------------------


def odd_numbers(source: Table, target: Table, names: Sequence[str]) -> list[str]:
    """Sentences on columns of numbers that hold a code for no value, or another unit in one file.

    Parameters
    ----------
    source, target : Table
        All rows, with numbers as such.
    names : sequence of str
        Columns to look at.
    """
    notes, codes = [], dict[int, list[str]]()
    for name in names:
        if any(t.columns[name].dtype.kind not in "fi" for t in (source, target)):
            continue
        held = [np.asarray(t.columns[name], dtype=np.float64) for t in (source, target)]
        known = [values[np.isfinite(values)] for values in held]
        if (code := _code(np.concatenate(known))) is not None:
            codes.setdefault(code, []).append(name)
            continue
        factor = _factor(*known)
        if factor is not None:
            large, small = (target, source) if factor > 1 else (source, target)
            times = max(factor, 1 / factor)
            notes.append(
                f"{name!r} is about {times:,.0f} times as large in {large.path} "
                f"as in {small.path}, and varies as much more: if it is in another unit, convert "
                f"it, or leave it out with {option('--drop', name)}."
            )
    for code, found in codes.items():
        rows = sum(int((t.columns[n] == code).sum()) for t in (source, target) for n in found)
        notes.append(
            f"{code} stands in {some_names(found)} ({counted(rows, 'value')}), far from all others "
            f"there: if it means no value, say --na '{joined_names([str(code)])}' --missing impute."
        )
    return notes


def _code(values: NDArray[Any]) -> int | None:
    """A number of nines that is as far from all others as these are from each other."""
    if not len(values):
        return None
    for end in (float(values.min()), float(values.max())):
        digits = f"{abs(end):.0f}"
        if len(digits) < 2 or abs(end) != float(digits) or {*digits} != {"9"}:
            continue
        others = values[values != end]
        if len(values) - len(others) < ENOUGH_CODES or len(others) < ENOUGH_VALUES:
            continue
        if np.abs(others - end).min() > max(np.ptp(others), 1.0):
            return int(end)
    return None


def _factor(source: NDArray[Any], target: NDArray[Any]) -> float | None:
    """How many times as large the target's values are, where no range of both overlaps."""
    if min(len(source), len(target)) < ENOUGH_VALUES:
        return None
    if source.max() >= target.min() and target.max() >= source.min():
        return None
    low, middle, high = zip(
        *(np.quantile(values, (0.25, 0.5, 0.75)) for values in (source, target)), strict=True
    )
    spreads = [b - a for a, b in zip(low, high, strict=True)]
    if min(spreads) <= 0 or middle[0] * middle[1] <= 0:
        return None
    size, spread = middle[1] / middle[0], spreads[1] / spreads[0]
    if max(size, 1 / size) < ANOTHER_UNIT or not 1 / AGREEING < size / spread < AGREEING:
        return None
    return float(size)
