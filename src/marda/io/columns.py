"""What becomes of a column: features (numbers, dates, categories, words, a matrix) or labels.

Steps are frozen, and JSON both ways. Steps of a model file are checked field by field, since anyone
can write a file.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import counted
from marda.io.conventions import WRITTEN, days_of, quantities
from marda.io.table import (
    InputError,
    Table,
    as_numbers,
    as_texts,
    is_missing,
    near_words,
    some_names,
)

#: From so many numbers on, labels look like a quantity if most of them are rare.
MANY_VALUES = 20
FEW_CLASSES = 5
RARE = 2
#: Digits that are a name rather than a number.
CODE = re.compile(r"\s*[+-]?0\d")


@dataclass(frozen=True)
class Step(ABC):
    """Turns a column of a table into features."""

    kind: ClassVar[str]
    sparse: ClassVar[bool] = False

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads."""

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Names of the features that it gives."""

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.features)

    @abstractmethod
    def transform(self, table: Table) -> Any:
        """Features of rows, (n_rows, n_features)."""

    def to_json(self) -> dict[str, Any]:
        """Fields and kind."""
        return {"kind": self.kind, **asdict(self)}


class MissingValues(InputError):
    """Values that are not there, in one column; `Preprocessing` names all columns at once."""

    def __init__(self, name: str, count: int):
        super().__init__(name)
        self.what = f"{name!r} ({counted(count, 'row')})"


class _OneColumn(Step):
    """Reads one column; `fill` stands for its missing values, None refuses them."""

    name: str
    fill: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.name,)

    @property
    def features(self) -> list[str]:
        """Its name, where one feature is made of it."""
        return [self.name]

    def _filled(self, values: NDArray[Any], gone: NDArray[np.bool_]) -> NDArray[Any]:
        if not gone.any():
            return values
        if self.fill is None:
            raise MissingValues(self.name, int(gone.sum()))
        return np.where(gone, self.fill, values)

    def _texts(self, table: Table) -> NDArray[Any]:
        values = as_texts(table[self.name])
        return self._filled(values, is_missing(values))


@dataclass(frozen=True)
class Number(_OneColumn):
    """(x − center) / scale.

    `written` says what numbers were written as where the model was made, of `conventions.WRITTEN`,
    so that files in which they mean another thing are refused; None in older models.
    """

    name: str
    fill: float | None = None
    center: float = 0.0
    scale: float = 1.0
    written: str | None = None
    kind: ClassVar[str] = "number"

    def transform(self, table: Table) -> NDArray[np.float64]:
        """One feature."""
        values = as_numbers(table[self.name])
        if values is None:
            given = table[self.name]
            words = (v for v in given if as_numbers(np.array([v], dtype=object)) is None)
            bad = str(next(words, given[0]))[:30]
            raise InputError(f"{table.path}: column {self.name!r} must hold numbers, got {bad!r}.")
        values = self._filled(values, np.isnan(values))
        if not np.isfinite(values).all():
            raise InputError(f"{table.path}: column {self.name!r} holds infinity.")
        return ((values - self.center) / self.scale)[:, None]


@dataclass(frozen=True)
class Date(_OneColumn):
    """(days since 1970-01-01 − center) / scale, the time of day as a fraction.

    `day_first` says how 3/4/2020 was read where the model was made, for files that do not tell.
    """

    name: str
    fill: float | None
    center: float
    scale: float
    day_first: bool | None = None
    kind: ClassVar[str] = "date"

    def transform(self, table: Table) -> NDArray[np.float64]:
        """One feature."""
        values = table[self.name]
        if values.dtype.kind != "M":
            known = values[~is_missing(values)]
            if len(known):
                bad = str(known[0])[:30]
                raise InputError(
                    f"{table.path}: column {self.name!r} must hold dates, got {bad!r}."
                )
            values = np.full(len(values), np.datetime64("NaT", "us"))
        days = days_of(values)
        days = self._filled(days, np.isnan(days))
        return ((days - self.center) / self.scale)[:, None]


@dataclass(frozen=True)
class Category(_OneColumn):
    """One feature per category; a category that fit did not see gives zeros."""

    name: str
    categories: tuple[str, ...]
    fill: str | None = None
    kind: ClassVar[str] = "category"

    @property
    def features(self) -> list[str]:
        """Column and category."""
        return [f"{self.name}={c}" for c in self.categories]

    def transform(self, table: Table) -> NDArray[np.float64]:
        """Zeros and ones."""
        values = self._texts(table)
        # Fields of text files come without their outer spaces; those of older models had them.
        place = {c.strip(): k for k, c in enumerate(self.categories)}
        place |= {c: k for k, c in enumerate(self.categories)}
        place |= {v: place[c] for v, c in near_words({*values.tolist()}, place).items()}
        codes = np.array([place.get(v, -1) for v in values.tolist()], dtype=np.int64)
        out = np.zeros((len(codes), len(self.categories)))
        known = np.flatnonzero(codes >= 0)
        out[known, codes[known]] = 1.0
        return out


@dataclass(frozen=True)
class Words(_OneColumn):
    """tf-idf of the words that fit saw; rows have length 1.

    Where words are not set apart by spaces (Chinese, Japanese, Thai), `characters` makes words of
    one and of two characters.
    """

    name: str
    words: tuple[str, ...]
    idf: tuple[float, ...]
    fill: str | None = None
    characters: bool = False
    kind: ClassVar[str] = "text"
    sparse: ClassVar[bool] = True

    @property
    def features(self) -> list[str]:
        """Column and word."""
        return [f"{self.name}:{w}" for w in self.words]

    @cached_property
    def _vectorizer(self) -> Any:
        vocabulary = {w: k for k, w in enumerate(self.words)}
        vectorizer = tfidf(self.characters, vocabulary=vocabulary)
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer

    def transform(self, table: Table) -> sp.csr_array:
        """One feature per word."""
        values = self._texts(table)
        return sp.csr_array(self._vectorizer.transform(values.tolist()))


def tfidf(characters: bool, **options: Any) -> Any:
    """scikit-learn's vectorizer for words, or for characters."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if characters:
        return TfidfVectorizer(analyzer="char", ngram_range=(1, 2), **options)
    return TfidfVectorizer(**options)


@dataclass(frozen=True)
class Matrix(Step):
    """The matrix of a file; `fill`, `center` and `scale` hold a number per feature, or nothing."""

    width: int
    names: tuple[str, ...] = ()
    is_sparse: bool = False
    fill: tuple[float, ...] = ()
    center: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    kind: ClassVar[str] = "matrix"

    @property
    def columns(self) -> tuple[str, ...]:
        """None: it is not a column."""
        return ()

    @property
    def features(self) -> list[str]:
        """Names, or numbers from 0."""
        return list(self.names) or [f"x{k}" for k in range(self.width)]

    @property
    def size(self) -> int:
        """The width: a file's word for it must not make a list of names."""
        return self.width

    def transform(self, table: Table) -> Any:
        """The matrix, with the features of the fit."""
        block = table.block
        if block is None:
            raise InputError(
                f"{table.path} holds columns, but the model wants a matrix of {self.width} "
                "features: give npz, mat or svmlight."
            )
        block = self.ordered(table, block)
        values = block.data if sp.issparse(block) else block
        gone = np.isnan(values)
        if gone.any():
            if not self.fill or sp.issparse(block):
                raise MissingValues("X", int(gone.any(-1).sum()))
            block = np.where(gone, np.array(self.fill), block)
        if np.isinf(values).any():
            raise InputError(f"{table.path}: the matrix of features holds infinity.")
        if self.center:
            block = block - np.array(self.center)
        if self.scale and sp.issparse(block):
            return sp.csr_array(block.multiply(1 / np.array(self.scale)))
        return block / np.array(self.scale) if self.scale else block

    def ordered(self, table: Table, block: Any) -> Any:
        """Features by name if there are names, else by place."""
        if self.names and table.block_names:
            place = {name: k for k, name in enumerate(table.block_names)}
            lost = next((name for name in self.names if name not in place), None)
            if lost is not None:
                raise InputError(f"{table.path} has no feature {lost!r}, which the model wants.")
            return block[:, [place[name] for name in self.names]]
        have = block.shape[1]
        if sp.issparse(block) and have < self.width:
            # svmlight does not say how many features there are: those that are not named are 0
            block.resize((block.shape[0], self.width))
            return block
        if sp.issparse(block) and self.is_sparse and have > self.width:
            return block[:, : self.width]  # features that no row of the fit had
        if have != self.width:
            raise InputError(f"{table.path} has {have} features, but the model wants {self.width}.")
        return block


# Steps of a model file ---------------------------------------------------------------------------

KINDS: dict[str, type[Any]] = {c.kind: c for c in (Number, Date, Category, Words, Matrix)}


def step_from_json(state: dict[str, Any]) -> Step:
    """The step that `to_json` described; anything else raises TypeError, ValueError or KeyError."""
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in state.items() if k != "kind"}
    step = KINDS[state["kind"]](**fields)
    if isinstance(step, Matrix):
        good = type(step.width) is int and step.width >= 0 and isinstance(step.is_sparse, bool)
        good = good and _texts(step.names) and len(step.names) in (0, step.width)
        for numbers in (step.fill, step.center, step.scale):
            good = good and _numbers(numbers) and len(numbers) in (0, step.width)
        good = good and 0 not in step.scale
    elif isinstance(step, Number | Date):
        fill = () if step.fill is None else (step.fill,)
        good = isinstance(step.name, str) and _numbers((*fill, step.center, step.scale))
        good = good and step.scale != 0
        if isinstance(step, Number):
            good = good and (step.written is None or step.written in WRITTEN)
        else:
            good = good and step.day_first in (True, False, None)
    else:
        good = isinstance(step.name, str) and (step.fill is None or isinstance(step.fill, str))
        values = step.categories if isinstance(step, Category) else step.words
        good = good and _texts(values) and len(set(values)) == len(values)
        if isinstance(step, Words):
            good = good and _numbers(step.idf) and len(step.idf) == len(step.words)
            good = good and isinstance(step.characters, bool)
    if not good:
        raise ValueError("a column is described wrongly")
    found: Step = step
    return found


def _texts(values: Any) -> bool:
    return isinstance(values, tuple) and all(isinstance(v, str) for v in values)


def _numbers(values: Any) -> bool:
    return isinstance(values, tuple) and all(
        type(v) in (int, float) and math.isfinite(v) for v in values
    )


# Labels ------------------------------------------------------------------------------------------


def read_labels(
    source: Table, target: Table, label: str, *, rows: Sequence[int] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Source labels, and target labels with NaN or None where there is none.

    Both are whole numbers if all labels are, and numbers say all of them; else text. A target
    without the column has no labels. In svmlight files, where every row must have a label, 0 in
    the target means none if 0 is not a label of the source. `rows` says how many rows of a file
    each row of the source stands for; None: one.
    """
    ys = source[label]
    given = target.columns.get(label)
    if label in target.refused:
        target[label]  # raises
    empty: NDArray[Any] = np.full(target.n_rows, None, dtype=object)
    yt = empty if given is None else given
    source_numbers, target_numbers = _label_numbers(ys), _label_numbers(yt)
    if source_numbers is not None and target_numbers is not None:
        ys, yt = source_numbers, target_numbers
        if source.block is not None and target.block is not None and not (ys == 0).any():
            yt[yt == 0] = np.nan
    else:
        ys, yt = as_texts(ys), as_texts(yt)
        _refuse_amounts(source.path, label, ys, rows)
    gone = np.flatnonzero(is_missing(ys))
    if 0 < len(ys) == len(gone) and not is_missing(yt).all():
        raise InputError(
            f"{source.path}: no source row has a label in column {label!r}, and rows of "
            f"{target.path} have (are source and target swapped?)."
        )
    if len(gone):
        lost = f"{counted(len(gone), 'source row')} {'has' if len(gone) == 1 else 'have'}"
        path, row = source.place(int(gone[0]))
        raise InputError(
            f"{path}: {lost} no label in column {label!r} (the first: row {row + 1}): fill them or "
            "leave the rows out; only target rows may be empty."
        )
    if len(set(ys.tolist())) < 2:
        raise InputError(
            f"{source.path}: column {label!r} has one class only, {ys.tolist()[0]!r}: 2 are needed."
        )
    if ys.dtype.kind == "f":
        if not np.all(np.mod(ys, 1) == 0):
            raise InputError(
                f"{source.path}: column {label!r} holds fractions such as "
                f"{ys[np.mod(ys, 1) != 0][0]:g}: labels must be classes."
            )
        ys = ys.astype(np.int64)
        found = np.unique(ys, return_inverse=True)[1].ravel()
        counts = np.bincount(found, weights=rows).astype(np.int64)
        check_classes(source.path, label, counts)
    classes = {*ys.tolist()}
    unknown = sorted({*yt[~is_missing(yt)].tolist()} - classes)
    if unknown:
        shown = [f"{v:g}" if isinstance(v, float) else repr(v) for v in unknown]
        n = len(classes)
        among = f" ({some_names(sorted(classes), n)})" if n <= FEW_CLASSES else ""
        many = f" (of {n} different values: is it the right column?)" if n >= MANY_VALUES else among
        what, it = f"label {shown[0]} in column {label!r} is no class", "it"
        if len(unknown) > 1:
            listed = some_names(shown, 3, str)
            what, it = f"labels {listed} in column {label!r} are no classes", "them"
        raise InputError(
            f"{target.path}: {what} of the source{many}: correct {it}, leave {it} empty, or say "
            f"--na {shown[0]} if it means that there is none."
        )
    return ys, yt


def _label_numbers(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Numbers; None where they would not say all: 01 is not 1, and 2⁵³ may be 2⁵³ + 1."""
    numbers = as_numbers(values)
    if numbers is None or (np.abs(numbers) >= 2**53).any():
        return None
    texts = values.tolist() if values.dtype.kind == "O" else []
    coded = any(isinstance(v, str) and CODE.match(v) for v in texts)
    return None if coded else numbers


def _refuse_amounts(path: str, label: str, ys: NDArray[Any], rows: Sequence[int] | None) -> None:
    """Refuse text that is a quantity: 12,50 or € 3 or 40 %."""
    numbers = quantities(ys)
    if numbers is not None:
        known = numbers[~np.isnan(numbers)]
        found = np.unique(known, return_inverse=True)[1].ravel()
        weights = None if rows is None else np.asarray(rows)[~np.isnan(numbers)]
        check_classes(path, label, np.bincount(found, weights=weights).astype(np.int64))


def check_classes(path: str, label: str, counts: NDArray[np.int64]) -> None:
    """Refuse numbers that are quantities rather than classes: most of many have a row or two."""
    few = int((counts <= RARE).sum())
    if len(counts) >= MANY_VALUES and few > len(counts) / 2:
        raise InputError(
            f"{path}: column {label!r} holds {len(counts)} different numbers in {counts.sum()} "
            f"rows, {few} of them in one or two rows, as a quantity does (a regression): marda "
            "predicts classes; cut it into a few ranges, or write classes as words."
        )
