"""`Preprocessing`: from tables to the rows of a model, the same at adapt and at predict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import counted
from marda.io.columns import (
    Category,
    Date,
    Matrix,
    MissingValues,
    Number,
    Step,
    Words,
    step_from_json,
    tfidf,
)
from marda.io.conventions import Conventions, Habits, Notation, convert, days_of, what_hinders
from marda.io.screening import is_prose, is_unspaced
from marda.io.table import (
    InputError,
    InputProblem,
    Problems,
    Table,
    as_numbers,
    as_texts,
    did_you_mean,
    is_missing,
    lacking,
    named,
    near_words,
    option,
    read_as,
    refuse,
    some_names,
    unusable,
)

MAX_CATEGORIES = 1000
MAX_WORDS = 10_000
MOST_EXAMPLES = 3
#: A column has far more missing values than at adapt where it is so much of all rows more, and so
#: many standard deviations beyond chance.
FAR_MORE, BEYOND_CHANCE = 0.2, 4.0


@dataclass
class Unseen:
    """What columns of new rows hold that `adapt` did not see; those of batches are added up.

    Attributes
    ----------
    n_rows : int
        Rows that were looked at.
    rows : dict of str to int
        By column, rows whose category, or all of whose words, `adapt` did not see.
    examples : dict of str to list of str
        Some of these categories.
    spelled : dict of str to dict
        By column, categories that adapt saw in another spelling, and that one.
    missing : dict of str to int
        By column, rows in which something else stands for a missing value.
    """

    n_rows: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    spelled: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    def look(self, step: Step, table: Table, block: Any) -> None:
        """Count what became of one column."""
        if isinstance(step, Matrix):
            return
        (name,) = step.columns
        values = table[name]
        fill = getattr(step, "fill", None)
        if fill is not None:
            numbers = as_numbers(values) if isinstance(step, Number) else None
            gone = int(is_missing(values if numbers is None else numbers).sum())
            self.missing[name] = self.missing.get(name, 0) + gone
        if isinstance(step, Category | Words):
            bare = np.diff(block.indptr) == 0 if sp.issparse(block) else ~block.any(axis=1)
            strange = [v for v in as_texts(values[bare]).tolist() if v is not None]
            self.rows[name] = self.rows.get(name, 0) + len(strange)
            if isinstance(step, Category):
                self._show(name, strange)
                words = {*as_texts(values[~is_missing(values)]).tolist()}
                self._spell(name, near_words(words, step.categories))

    def _spell(self, name: str, found: Mapping[str, str]) -> None:
        if found:
            self.spelled[name] = {**found, **self.spelled.get(name, {})}

    def _show(self, name: str, values: Iterable[str]) -> None:
        shown = self.examples.setdefault(name, [])
        for value in dict.fromkeys(values):
            if len(shown) < MOST_EXAMPLES and value not in shown:
                shown.append(value)

    def add(self, other: Unseen) -> None:
        """Those of a further batch."""
        self.n_rows += other.n_rows
        for ours, theirs in ((self.rows, other.rows), (self.missing, other.missing)):
            for name, n in theirs.items():
                ours[name] = ours.get(name, 0) + n
        for name, values in other.examples.items():
            self._show(name, values)
        for name, found in other.spelled.items():
            self._spell(name, found)

    def notes(self, chosen: Preprocessing) -> list[str]:
        """A sentence per column."""
        told, of = [], counted(self.n_rows, "row")
        for name, found in self.spelled.items():
            told.append(f"column {name!r} is not written as at adapt: {read_as(found)}.")
        for name, n in self.rows.items():
            if n:
                what = "no word that adapt saw"
                if shown := self.examples.get(name):
                    known = some_names((value[:30] for value in shown), MOST_EXAMPLES)
                    what = f"categories that adapt did not see ({known}), which count for nothing"
                told.append(f"column {name!r}: {n:,} of {of} hold {what}.")
        then = dict(chosen.missing)
        for name, n in self.missing.items():
            share = then.get(name)
            if n == self.n_rows if share is None else self._is_far_more(n, share):
                before = "" if share is None else f" ({share:.0%} at adapt)"
                stands = "the mean or commonest value of adapt stands for them"
                told.append(f"column {name!r}: {n:,} of {of} have no value{before}; {stands}.")
        return told

    def _is_far_more(self, n: int, share: float) -> bool:
        more, chance = n - share * self.n_rows, math.sqrt(share * (1 - share) * self.n_rows)
        return more > max(FAR_MORE * self.n_rows, BEYOND_CHANCE * max(1.0, chance))


@dataclass(frozen=True)
class Preprocessing:
    """Columns by name, in the order of the model's features.

    Attributes
    ----------
    steps : tuple of Step
        What becomes of every column.
    label : str
        Column of the labels; not read at predict.
    id : str or None
        Column that is carried through to predictions.
    na : tuple of str
        Words that mean "no value".
    means : tuple of float
        Features of the mean row of the target, which explanations of others begin at; empty where
        it is not known or rows are sparse.
    missing : tuple of (str, float)
        Columns whose missing values something stands for, and the share of target rows with one.
    """

    steps: tuple[Step, ...]
    label: str
    id: str | None = None
    na: tuple[str, ...] = ()
    means: tuple[float, ...] = ()
    missing: tuple[tuple[str, float], ...] = ()

    @property
    def columns(self) -> list[str]:
        """Columns that predict reads."""
        return [name for step in self.steps for name in step.columns]

    @property
    def n_features(self) -> int:
        """How many features the model has."""
        return sum(step.size for step in self.steps)

    @property
    def features(self) -> list[str]:
        """Names of the model's features."""
        return [name for step in self.steps for name in step.features]

    @property
    def parts(self) -> list[tuple[str, slice]]:
        """Columns and their features; words, and columns of a matrix, are parts of their own."""
        found, first = [], 0
        for step in self.steps:
            if isinstance(step, Words | Matrix):
                names = step.features
                found += [(name, slice(first + k, first + k + 1)) for k, name in enumerate(names)]
            else:
                found.append((step.columns[0], slice(first, first + step.size)))
            first += step.size
        return found

    def converted(
        self, table: Table, notation: Notation, known: Conventions | None = None
    ) -> tuple[Table, Conventions]:
        """The table with text as the numbers and dates that `adapt` made of it.

        The first batch of a file decides on conventions (`known` is None); others follow it.
        """
        table, _ = named(table, self.columns)
        numbers = {step.name: step.written for step in self.steps if isinstance(step, Number)}
        dates = {step.name: step.day_first for step in self.steps if isinstance(step, Date)}
        table, known, problems = convert(table, numbers, dates, notation, known)
        refuse(problems)
        return table, known

    def gaps(self, table: Table) -> list[str]:
        """Columns with missing values that nothing is put in the place of, and how many rows."""
        found = []
        for step in self.steps:
            if isinstance(step, Number | Date | Category | Words) and step.fill is None:
                values = table[step.name]
                numbers = as_numbers(values) if isinstance(step, Number) else None
                gone = is_missing(values if numbers is None else numbers)
                if gone.any():
                    found.append(MissingValues(step.name, int(gone.sum())).what)
        return found

    def transform(self, table: Table, unseen: Unseen | None = None) -> Any:
        """Rows for the model: dense, or CSR where there is text or a sparse matrix.

        `unseen` counts what the model cannot know.
        """
        lost = [name for name in self.columns if name not in table.names]
        if lost:
            word = "column" if len(lost) == 1 else "columns"
            close = did_you_mean(lost[0], set(table.names) - set(self.columns))
            raise InputError(
                f"{table.path} has no {word} {some_names(lost)}, which the model needs{close}."
            )
        blocks, gaps = [], []
        for step in self.steps:
            try:
                blocks.append(step.transform(table))
            except MissingValues as error:
                gaps.append(error.what)
                continue
            if unseen is not None:
                unseen.look(step, table, blocks[-1])
        if gaps:
            raise InputError(f"{missing_values(table, gaps)}.")
        if unseen is not None:
            unseen.n_rows += table.n_rows
        if any(sp.issparse(block) for block in blocks):
            return sp.csr_array(sp.hstack(blocks, format="csr"))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def to_json(self) -> dict[str, Any]:
        """For the model file."""
        steps = [step.to_json() for step in self.steps]
        state = {"version": 1, "label": self.label, "id": self.id, "steps": steps}
        named = {"na": list(self.na), "means": list(self.means), "missing": dict(self.missing)}
        return state | {name: values for name, values in named.items() if values}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Preprocessing:
        """The inverse of `to_json`."""
        try:
            if state["version"] != 1 or not isinstance(state["label"], str):
                raise ValueError("unknown version")
            steps = tuple(step_from_json(step) for step in state["steps"])
            if not (state["id"] is None or isinstance(state["id"], str)):
                raise TypeError("id")
            na = tuple(state.get("na", ()))
            if not all(isinstance(word, str) for word in na):
                raise TypeError("na")
            means = tuple(state.get("means", ()))
            if not all(type(mean) in (int, float) and math.isfinite(mean) for mean in means):
                raise TypeError("means")
            if means and len(means) != sum(step.size for step in steps):
                raise ValueError("means")
            missing = tuple(state.get("missing", {}).items())
            if not all(type(share) in (int, float) and 0 <= share <= 1 for _, share in missing):
                raise ValueError("missing")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "the model's preprocessing is not readable: save it with this marda."
            ) from None
        return cls(steps, state["label"], state["id"], na, means, missing)


def missing_values(table: Table, gaps: Collection[str]) -> str:
    """Which columns lack values, and what to do."""
    shown = some_names(gaps, 8, str)
    return f"{table.path} has missing values in {shown}: fill them, or adapt with --missing impute"


def fit_preprocessing(
    source: Table,
    target: Table,
    *,
    label: str,
    id: str | None = None,
    text: Collection[str] = (),
    drop: Collection[str] = (),
    missing: str = "error",
    scale: str = "none",
    na: Collection[str] = (),
    habits: Habits | None = None,
    problems: list[InputProblem] | None = None,
) -> Preprocessing:
    """Decide what becomes of every column; labels are not looked at.

    Parameters
    ----------
    source, target : Table
        All rows: both domains decide categories, words, means and scales.
    label, id : str
        Columns that are no features.
    text : collection of str
        Columns that hold text, for tf-idf; other columns of words are one-hot.
    drop : collection of str
        Columns to leave out.
    missing : {"error", "impute"}
        Refuse missing values, or put the mean or the most frequent value in their place.
    scale : {"none", "standard"}
        Leave numbers as they are, or bring them to mean 0 and standard deviation 1. Dates are
        always brought there: their origin means nothing.
    na : collection of str
        Words that were taken for "no value", for the files to come.
    habits : Habits, default=None
        How numbers and dates were written, for the files to come.
    problems : list of InputProblem, default=None
        Takes what is wrong, so that the caller can say all of it at once; None: it is raised.
    """
    found: list[InputProblem] = [] if problems is None else problems
    for name in [*text, *drop, *([id] if id else [])]:
        if name not in source.names and name not in target.names:
            found.append(InputProblem(source.missing_column(name)))
    left_out = {label, id, *drop}
    names = [name for name in source.names if name not in left_out]
    steps: list[Step] = []
    if source.block is not None or target.block is not None:
        steps.append(_matrix(source, target, missing, scale))
        names = [n for n in names if n in text]  # vectors beside a matrix are labels as a rule
    for name in names:
        try:
            for table, other in ((source, target), (target, source)):
                if name not in table.names:
                    raise Problems([lacking(table, other, name)])
                table[name]  # raises where it cannot be used
            impute = missing == "impute"
            step = _column(source, target, name, name in text, impute, scale)
            steps.append(_as_written(step, habits or Habits()))
        except Problems as error:
            found += error.problems
    if problems is None:
        refuse(found)
    if not steps and not found:
        raise InputError(f"{source.path} has no column of features beside {label!r}.")
    lost = _missing_shares(target, steps) if missing == "impute" and not found else ()
    return Preprocessing(tuple(steps), label, id, tuple(na), missing=lost)


def _as_written(step: Step, habits: Habits) -> Step:
    if isinstance(step, Number):
        return replace(step, written=habits.written.get(step.name, ""))
    if isinstance(step, Date):
        return replace(step, day_first=habits.day_first.get(step.name))
    return step


def _missing_shares(target: Table, steps: Collection[Step]) -> tuple[tuple[str, float], ...]:
    """Columns, and the share of rows without a value."""
    shares = []
    for name in (name for step in steps for name in step.columns):
        values = target[name]
        numbers = as_numbers(values)
        gone = is_missing(values if numbers is None else numbers)
        shares.append((name, float(f"{gone.mean():.4g}")))
    return tuple(shares)


def _column(
    source: Table,
    target: Table,
    name: str,
    text: bool,
    impute: bool,
    scale: str,
) -> Step:
    columns = [table[name] for table in (source, target)]
    numbers = [None if text else as_numbers(values) for values in columns]
    if numbers[0] is not None and numbers[1] is not None:
        return _number(source, name, np.concatenate([numbers[0], numbers[1]]), impute, scale)
    if not text and all(values.dtype.kind == "M" for values in columns):
        return _date(name, np.concatenate(columns), impute)
    values = np.concatenate([as_texts(values) for values in columns])
    known = values[~is_missing(values)].tolist()
    if not known:
        raise Problems([_no_values(name)])
    if text:
        return _words(name, [v or "" for v in values.tolist()], impute)
    counts = Counter(known)
    if len(counts) > MAX_CATEGORIES or len(counts) > max(50, len(values) // 2):
        if why := what_hinders(sorted(counts)):
            plain = f"column {name!r} holds no plain numbers, since {why}, or"
            raise Problems([unusable(plain, name)])
        ways = [option(flag, name) for flag in ("--text", "--id", "--drop")]
        many = (
            f"column {name!r} has {len(counts)} different words in {len(values)} rows, too many "
            f"for categories: use {ways[0]}, {ways[1]} or {ways[2]}"
        )
        way = "--text" if is_prose(known[:1000]) else "--drop"
        raise Problems([InputProblem(many, ((way, name),), name)])
    # The most frequent; of equals the first in the alphabet, so that row order does not matter.
    fill = min(counts, key=lambda c: (-counts[c], c)) if impute else None
    return Category(name, tuple(sorted(counts)), fill)


def _no_values(name: str) -> InputProblem:
    return unusable(f"column {name!r} has no values:", name)


def _number(
    source: Table, name: str, values: NDArray[np.float64], impute: bool, scale: str
) -> Number:
    known = values[~np.isnan(values)]
    if not len(known):
        raise Problems([_no_values(name)])
    if not np.isfinite(known).all():
        infinite = f"{source.path} or its target: column {name!r} holds infinity: correct it, or"
        raise Problems([unusable(infinite, name)])
    mean = float(known.mean())
    fill = mean if impute else None
    if scale == "none":
        return Number(name, fill)
    return Number(name, fill, mean, float(known.std()) or 1.0)


def _date(name: str, values: NDArray[Any], impute: bool) -> Date:
    days = days_of(values)
    known = days[~np.isnan(days)]
    if not len(known):
        raise Problems([_no_values(name)])
    mean = float(known.mean())
    return Date(name, mean if impute else None, mean, float(known.std()) or 1.0)


def _words(name: str, texts: list[str], impute: bool) -> Words:
    characters = is_unspaced(texts[:1000])
    vectorizer = tfidf(characters, max_features=MAX_WORDS)
    try:
        vectorizer.fit(texts)
    except ValueError:
        raise Problems([unusable(f"column {name!r} has no words:", name)]) from None
    words = tuple(str(word) for word in vectorizer.get_feature_names_out())
    return Words(name, words, tuple(vectorizer.idf_.tolist()), "" if impute else None, characters)


def _matrix(source: Table, target: Table, missing: str, scale: str) -> Matrix:
    blocks = [source.block, target.block]
    if blocks[0] is None or blocks[1] is None:
        whole = source if blocks[0] is None else target
        raise InputError(f"{whole.path} holds columns, but the other file a matrix of features.")
    sparse = all(sp.issparse(block) for block in blocks)
    widths = [block.shape[1] for block in blocks]
    plain = Matrix(max(widths) if sparse else widths[0], source.block_names, sparse)
    if missing == "error" and scale == "none":
        return plain
    rows = [plain.ordered(table, table.block) for table in (source, target)]
    if sparse:
        squares = sum((np.asarray(X.multiply(X).sum(0)) for X in rows), np.zeros(plain.width))
        root = np.sqrt(squares / sum(X.shape[0] for X in rows))
        root[root == 0] = 1.0
        # Centring would fill a sparse matrix.
        return Matrix(plain.width, plain.names, True, scale=tuple(root.tolist()))
    X = np.concatenate([block.toarray() if sp.issparse(block) else block for block in rows])
    gone = np.isnan(X)
    if gone.all(0).any():
        raise InputError(f"feature {int(gone.all(0).argmax())} of the matrix has no values.")
    if gone.any() and missing == "error":
        return plain  # its transform names the file and counts the rows
    mean = np.nanmean(X, axis=0)
    deviation = np.nanstd(X, axis=0)
    deviation[deviation == 0] = 1.0
    standard = scale == "standard"
    return Matrix(
        plain.width,
        plain.names,
        fill=tuple(mean.tolist()) if missing == "impute" else (),
        center=tuple(mean.tolist()) if standard else (),
        scale=tuple(deviation.tolist()) if standard else (),
    )
