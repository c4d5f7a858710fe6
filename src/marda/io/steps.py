"""What becomes of a column: numbers, categories, words, or a matrix; frozen, and JSON both ways."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.io.table import InputError, Table, as_numbers, as_texts, is_missing

__all__ = ["Category", "Matrix", "MissingValues", "Number", "Step", "Words"]


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
        self.what = f"{name!r} ({'1 row' if count == 1 else f'{count} rows'})"


class _OneColumn(Step):
    """Reads one column; `fill` stands for its missing values, None refuses them."""

    name: str
    fill: Any

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.name,)

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
    """(x − center) / scale."""

    name: str
    fill: float | None = None
    center: float = 0.0
    scale: float = 1.0
    kind: ClassVar[str] = "number"

    @property
    def features(self) -> list[str]:
        """Its name."""
        return [self.name]

    def transform(self, table: Table) -> NDArray[np.float64]:
        """One feature."""
        values = as_numbers(table[self.name])
        if values is None:
            bad = _first_word(table[self.name])
            raise InputError(f"{table.path}: column {self.name!r} must hold numbers, got {bad!r}.")
        values = self._filled(values, np.isnan(values))
        if not np.isfinite(values).all():
            raise InputError(f"{table.path}: column {self.name!r} holds infinity.")
        return ((values - self.center) / self.scale)[:, None]


@dataclass(frozen=True)
class Category(_OneColumn):
    """One feature a category; a category that fit did not see gives zeros."""

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
        place = {c: k for k, c in enumerate(self.categories)}
        codes = np.array([place.get(v, -1) for v in values.tolist()], dtype=np.int64)
        out = np.zeros((len(codes), len(self.categories)))
        known = np.flatnonzero(codes >= 0)
        out[known, codes[known]] = 1.0
        return out


@dataclass(frozen=True)
class Words(_OneColumn):
    """tf-idf of the words that fit saw; rows have length 1."""

    name: str
    words: tuple[str, ...]
    idf: tuple[float, ...]
    fill: str | None = None
    kind: ClassVar[str] = "text"
    sparse: ClassVar[bool] = True

    @property
    def features(self) -> list[str]:
        """Column and word."""
        return [f"{self.name}:{w}" for w in self.words]

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(vocabulary={w: k for k, w in enumerate(self.words)})
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer

    def transform(self, table: Table) -> sp.csr_array:
        """One feature a word."""
        values = self._texts(table)
        return sp.csr_array(self._vectorizer.transform(values.tolist()))


@dataclass(frozen=True)
class Matrix(Step):
    """The matrix of a npz, mat or svmlight file; `fill`, `center`, `scale` a feature, or empty."""

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


def _first_word(values: NDArray[Any]) -> str:
    """The first value that is not a number."""
    for value in values:
        if as_numbers(np.array([value], dtype=object)) is None:
            return str(value)[:30]
    return ""
