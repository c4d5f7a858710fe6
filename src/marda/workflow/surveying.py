"""A first look at Parquet files: which columns are features, and what the labels are.

Only names and the column of labels are read, so that what is wrong shows before the long pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io import InputError, Table, read_batches, read_labels
from marda.io.table import as_numbers, as_texts, is_missing
from marda.moments.parquet import column_types, is_number
from marda.workflow.data import PathLike, ReadOptions

__all__ = ["Labels", "feature_columns", "survey_labels"]

MAX_CLASSES = 10_000


@dataclass(frozen=True)
class Labels:
    """Labels of a batch as they would be if all rows were read at once.

    Attributes
    ----------
    text : bool
        Labels are text; else whole numbers.
    mark : int, or None in text
        Stands for "no label".
    """

    text: bool
    mark: Any

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Text with None, or whole numbers with the mark."""
        if self.text:
            if values.dtype.kind != "O":
                return as_texts(values)
            texts = [v if v is None or isinstance(v, str) else f"{float(v):.15g}" for v in values]
            return np.array([text or None for text in texts], dtype=object)
        numbers = as_numbers(values)
        if numbers is None:
            raise ValueError("the labels changed while they were read.")
        return np.where(np.isnan(numbers), self.mark, numbers).astype(np.int64)


def feature_columns(
    sources: Sequence[PathLike], target: PathLike, options: ReadOptions
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the features, and notes; what cannot be read in batches is refused."""
    for name, wanted in (
        ("--text", options.text),
        ("--missing impute", options.missing == "impute"),
    ):
        if wanted:
            raise InputError(
                f"{name} needs all rows in memory, and these are read in batches: prepare the "
                "columns beforehand, or allow more memory with --memory."
            )
    types = {str(path): column_types(path) for path in (*sources, target)}
    source, theirs = str(sources[0]), types[str(target)]
    ours = types[source]
    for path in map(str, sources):
        if options.label not in types[path]:
            known = ", ".join([*types[path]][:8])
            raise InputError(f"{path} has no column {options.label!r} (columns: {known}).")
    for name in (*options.drop, *([options.id] if options.id else [])):
        if name not in theirs and (name == options.id or name not in ours):
            raise InputError(
                f"{target} has no column {name!r} (columns: {', '.join([*theirs][:8])})."
            )
    left_out = {options.label, options.id, *options.drop}
    features = tuple(name for name in ours if name not in left_out)
    if not features:
        raise InputError(f"{source} has no column of features beside {options.label!r}.")
    for name in features:
        for path, kinds in types.items():
            if name not in kinds:
                raise InputError(
                    f"{path} has no column {name!r}, which {source} has: add it, or leave it out "
                    f"with --drop {name!r}."
                )
            if not is_number(kinds[name]):
                raise InputError(
                    f"{path}: column {name!r} holds {kinds[name]}, and columns that are read in "
                    f"batches must hold numbers: leave it out with --drop {name!r}, turn it into "
                    "numbers, or allow more memory with --memory."
                )
    notes = []
    for path in (*map(str, sources[1:]), str(target)):
        of = "the target that the source" if path == str(target) else f"{path} that {source}"
        extra = [name for name in types[path] if name not in {*features, *left_out}]
        if extra:
            shown = ", ".join(repr(name) for name in extra[:3])
            notes.append(f"columns of {of} has not are ignored: {shown}.")
    return features, tuple(notes)


def survey_labels(sources: Sequence[PathLike], target: PathLike, label: str) -> tuple[Labels, bool]:
    """How labels are read, and whether any target row has one; the rules of `read_labels`."""
    source = ", ".join(map(str, sources))
    ours: Counter[Any] = Counter()
    for path in sources:
        ours.update(_values(path, label))
    given = label in column_types(target)
    theirs: Counter[Any] = _values(target, label) if given else Counter({None: 1})
    tables = [_distinct(path, label, held) for path, held in ((source, ours), (target, theirs))]
    numbers = [as_numbers(table[label]) for table in tables]
    known = numbers[0]
    if known is None or numbers[1] is None:
        known = as_texts(tables[0][label])
    gone = sum(n for n, lost in zip(ours.values(), is_missing(known), strict=True) if lost)
    if gone:
        rows = "1 source row has" if gone == 1 else f"{gone} source rows have"
        raise InputError(
            f"{source}: {rows} no label in column {label!r}: fill them or leave the rows out; only "
            "target rows may be empty."
        )
    classes, found = read_labels(tables[0], tables[1], label, rows=list(ours.values()))
    some = bool((~is_missing(found)).any())
    if classes.dtype.kind == "O":
        return Labels(True, None), some
    return Labels(False, -1 if not (classes == -1).any() else int(classes.min()) - 1), some


def _values(path: PathLike, label: str) -> Counter[Any]:
    """Label values of a file and the rows that have them; None: no label."""
    found: Counter[Any] = Counter()
    for table in read_batches(Path(path), "parquet", rows=65_536, columns={label}):
        column = table[label]
        if column.dtype.kind == "O":
            found.update(column.tolist())
        else:
            values, counts = np.unique(column, return_counts=True)
            for value, n in zip(values.tolist(), counts.tolist(), strict=True):
                found[None if np.isnan(value) else value] += n
        if len(found) > MAX_CLASSES:
            raise InputError(
                f"{path}: column {label!r} has more than {MAX_CLASSES} different values: labels "
                "must be classes."
            )
    if not found:
        raise InputError(f"{path} has no rows.")
    return found


def _distinct(path: PathLike, label: str, found: Counter[Any]) -> Table:
    """A table of one row a label value."""
    values: NDArray[Any] = np.array(list(found), dtype=object)
    if not any(isinstance(value, str) for value in found):
        values = values.astype(np.float64)
    return Table(str(path), len(found), {label: values})
