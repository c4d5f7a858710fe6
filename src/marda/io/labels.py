"""Labels of source and target files."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.table import InputError, Table, as_numbers, as_texts, is_missing

__all__ = ["read_labels"]


def read_labels(source: Table, target: Table, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Source labels, and target labels with NaN or None where there is none.

    Both are whole numbers if all labels are; else numbers, else text. A target without the column
    has no labels. In svmlight files, where every row must have a label, 0 in the target means none
    if 0 is not a label of the source.
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
        rows = "1 source row has" if len(gone) == 1 else f"{len(gone)} source rows have"
        raise InputError(
            f"{source.path}: {rows} no label in column {label!r} (the first: "
            f"row {gone[0] + 1}): fill them or leave the rows out; only target rows may be empty."
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
    unknown = [v for v in set(yt[~is_missing(yt)].tolist()) if v not in set(ys.tolist())]
    if unknown:
        shown = f"{unknown[0]:g}" if isinstance(unknown[0], float) else repr(unknown[0])
        raise InputError(
            f"{target.path}: label {shown} in column {label!r} is no class of the source: correct "
            "it, or leave it empty."
        )
    return ys, yt
