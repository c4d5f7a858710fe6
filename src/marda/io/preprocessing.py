"""`Preprocessing`: from tables to the rows of a model, the same at adapt and at predict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.io.columns import (
    Category,
    Matrix,
    MissingValues,
    Number,
    Step,
    Words,
    step_from_json,
)
from marda.io.table import InputError, Table, as_numbers, as_texts, is_missing

__all__ = ["Preprocessing", "fit_preprocessing"]

MAX_CATEGORIES = 1000
MAX_WORDS = 10_000


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
    """

    steps: tuple[Step, ...]
    label: str
    id: str | None = None

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

    def transform(self, table: Table) -> Any:
        """Rows for the model: dense, or CSR where there is text or a sparse matrix."""
        lost = [name for name in self.columns if name not in table.names]
        if lost:
            shown = ", ".join(repr(name) for name in lost[:5])
            more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
            word = "column" if len(lost) == 1 else "columns"
            raise InputError(f"{table.path} has no {word} {shown}{more}, which the model needs.")
        blocks, gaps = [], []
        for step in self.steps:
            try:
                blocks.append(step.transform(table))
            except MissingValues as error:
                gaps.append(error.what)
        if gaps:
            shown = ", ".join(gaps[:8]) + (f" and {len(gaps) - 8} more" if len(gaps) > 8 else "")
            raise InputError(
                f"{table.path} has missing values in {shown}: fill them, or adapt with --missing "
                "impute."
            )
        if any(sp.issparse(block) for block in blocks):
            return sp.csr_array(sp.hstack(blocks, format="csr"))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def to_json(self) -> dict[str, Any]:
        """For the model file."""
        steps = [step.to_json() for step in self.steps]
        return {"version": 1, "label": self.label, "id": self.id, "steps": steps}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Preprocessing:
        """The inverse of `to_json`."""
        try:
            if state["version"] != 1 or not isinstance(state["label"], str):
                raise ValueError("unknown version")
            steps = tuple(step_from_json(step) for step in state["steps"])
            if not (state["id"] is None or isinstance(state["id"], str)):
                raise TypeError("id")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "the model's preprocessing is not readable: save it with this marda."
            ) from None
        return cls(steps, state["label"], state["id"])


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
        Leave numbers as they are, or bring them to mean 0 and standard deviation 1.
    """
    for name in [*text, *drop, *([id] if id else [])]:
        if name not in source.names and name not in target.names:
            source[name]  # raises, and lists the columns
    left_out = {label, id, *drop}
    names = [name for name in source.names if name not in left_out]
    lost = [name for name in names if name not in target.names]
    if lost and source.block is None:
        raise InputError(
            f"{target.path} has no column {lost[0]!r}, which {source.path} has: add it, or leave "
            f"it out with --drop {lost[0]!r}."
        )
    steps: list[Step] = []
    if source.block is not None or target.block is not None:
        steps.append(_matrix(source, target, missing, scale))
        names = [n for n in names if n in text]  # vectors beside a matrix are labels as a rule
    for name in names:
        steps.append(_column(source, target, name, name in text, missing == "impute", scale))
    if not steps:
        raise InputError(f"{source.path} has no column of features beside {label!r}.")
    return Preprocessing(tuple(steps), label, id)


def _column(source: Table, target: Table, name: str, text: bool, impute: bool, scale: str) -> Step:
    numbers = [None if text else as_numbers(table[name]) for table in (source, target)]
    if numbers[0] is not None and numbers[1] is not None:
        return _number(source, name, np.concatenate([numbers[0], numbers[1]]), impute, scale)
    values = np.concatenate([as_texts(source[name]), as_texts(target[name])])
    known = values[~is_missing(values)].tolist()
    if not known:
        raise InputError(f"column {name!r} has no values: leave it out with --drop {name!r}.")
    if text:
        return _words(name, [v or "" for v in values.tolist()], impute)
    counts = Counter(known)
    if len(counts) > MAX_CATEGORIES or len(counts) > max(50, len(values) // 2):
        raise InputError(
            f"column {name!r} has {len(counts)} different words in {len(values)} rows, too many "
            f"for categories: use --text {name!r}, --id {name!r} or --drop {name!r}."
        )
    # The most frequent; of equals the first in the alphabet, so that row order does not matter.
    fill = min(counts, key=lambda c: (-counts[c], c)) if impute else None
    return Category(name, tuple(sorted(counts)), fill)


def _number(
    source: Table, name: str, values: NDArray[np.float64], impute: bool, scale: str
) -> Number:
    known = values[~np.isnan(values)]
    if not len(known):
        raise InputError(f"column {name!r} has no values: leave it out with --drop {name!r}.")
    if not np.isfinite(known).all():
        raise InputError(f"{source.path} or its target: column {name!r} holds infinity.")
    mean = float(known.mean())
    fill = mean if impute else None
    if scale == "none":
        return Number(name, fill)
    return Number(name, fill, mean, float(known.std()) or 1.0)


def _words(name: str, texts: list[str], impute: bool) -> Words:
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=MAX_WORDS)
    try:
        vectorizer.fit(texts)
    except ValueError:
        raise InputError(f"column {name!r} has no words: leave it out with --drop.") from None
    words = tuple(str(word) for word in vectorizer.get_feature_names_out())
    return Words(name, words, tuple(vectorizer.idf_.tolist()), "" if impute else None)


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
