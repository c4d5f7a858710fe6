"""Labels of source and target files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.table import InputError, Table, as_numbers, as_texts, is_missing

__all__ = ["check_classes", "read_labels"]

#: From so many numbers on, labels look like a quantity if most of them are rare.
MANY_VALUES = 20
RARE = 2


def read_labels(
    source: Table, target: Table, label: str, *, rows: Sequence[int] | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Source labels, and target labels with NaN or None where there is none.

    Both are whole numbers if all labels are; else numbers, else text. A target without the column
    has no labels. In svmlight files, where every row must have a label, 0 in the target means none
    if 0 is not a label of the source. `rows` says how many rows of a file each row of the source
    stands for; None: one.
    """
    ys = source[label]
    given = target.columns.get(label)
    if label in target.refused:
        target[label]  # raises
    empty: NDArray[Any] = np.full(target.n_rows, None, dtype=object)
    yt = empty if given is None else given
    source_numbers, target_numbers = as_numbers(ys), as_numbers(yt)
    if source_numbers is not None and target_numbers is not None:
        ys, yt = source_numbers, target_numbers
        if source.block is not None and target.block is not None and not (ys == 0).any():
            yt[yt == 0] = np.nan
    else:
        ys, yt = as_texts(ys), as_texts(yt)
    gone = np.flatnonzero(is_missing(ys))
    if len(gone):
        lost = "1 source row has" if len(gone) == 1 else f"{len(gone)} source rows have"
        path, row = source.place(int(gone[0]))
        raise InputError(
            f"{path}: {lost} no label in column {label!r} (the first: row {row + 1}): fill them or "
            "leave the rows out; only target rows may be empty."
        )
    if len(set(ys.tolist())) < 2:
        raise InputError(
            f"{source.path}: column {label!r} has one class only, {ys[0]!r}: 2 are needed."
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
    unknown = [v for v in set(yt[~is_missing(yt)].tolist()) if v not in set(ys.tolist())]
    if unknown:
        shown = f"{unknown[0]:g}" if isinstance(unknown[0], float) else repr(unknown[0])
        raise InputError(
            f"{target.path}: label {shown} in column {label!r} is no class of the source: correct "
            "it, or leave it empty."
        )
    return ys, yt


def check_classes(path: str, label: str, counts: NDArray[np.int64]) -> None:
    """Refuse numbers that are quantities rather than classes: most of many have a row or two."""
    few = int((counts <= RARE).sum())
    if len(counts) >= MANY_VALUES and few > len(counts) / 2:
        raise InputError(
            f"{path}: column {label!r} holds {len(counts)} different numbers in {counts.sum()} "
            f"rows, {few} of them in one or two rows, as a quantity does (a regression): marda "
            "predicts classes; cut it into a few ranges, or write classes as words."
        )
