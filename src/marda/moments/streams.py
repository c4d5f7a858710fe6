"""One pass over the row groups of several domains, which continues where it was killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from marda.moments.batches import Collector
from marda.moments.files import MomentsFileError, read, write
from marda.moments.parquet import ParquetError, ParquetRows
from marda.moments.stats import Moments

__all__ = ["Part", "moments_of_parts"]


@dataclass(frozen=True)
class Part:
    """Rows of one domain: at least 0 is a source, below 0 a target; the name is optional."""

    rows: ParquetRows
    domain: int
    name: str | None = None


def moments_of_parts(
    parts: Sequence[Part],
    *,
    classes: Sequence[Any] | None = None,
    unlabeled: Any = -1,
    class_grams: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Moments:
    """Statistics of all row groups of all parts, in one pass that holds one batch.

    Parameters
    ----------
    parts : sequence of Part
        Rows with the same columns; each part has a domain of its own.
    classes, unlabeled, class_grams
        As in `moments_from_parquet`.
    checkpoint : path, default=None
        Written after every row group, and left at the end. If it is there at the start and was
        made from the same files and arguments, the row groups that it holds are not read again.
    progress : callable, default=None
        Called with (rows done, rows in all) after every row group.
    tell : callable, default=None
        Called with a sentence if a checkpoint is continued, or is of other work, which then starts
        over. None: a checkpoint of other work raises.

    Returns
    -------
    Moments
    """
    groups = [(part, *place) for part in parts for place in part.rows.groups()]
    n_rows = sum(part.rows.n_rows() for part in parts)
    for part in parts:
        if not part.rows.n_rows():
            raise ParquetError(f"{part.rows.paths[0]}: no rows.")
    job = _job(parts, classes, unlabeled, class_grams)
    start, done = _resume(checkpoint, job, tell)
    if done and tell is not None:
        tell(f"continued after {done} of {len(groups)} row groups, from {checkpoint}.")
    total = Collector(classes=classes, start=start, unlabeled=unlabeled, class_grams=class_grams)
    total.feature_names = np.array(parts[0].rows.features, dtype=object)
    if done and progress is not None:
        progress(total.n_rows, n_rows)
    for number, (part, file, group) in enumerate(groups[done:], done + 1):
        for X, y in part.rows.batches(file, group):
            try:
                total.add_checked(X, y, np.full(len(X), part.domain, dtype=np.int64))
            except ValueError as error:
                raise ParquetError(f"{part.rows.paths[file]}: {error}") from error
        if checkpoint is not None and total.n_rows:
            write(total.result(), checkpoint, extra={**job, "done": number})
        if progress is not None:
            progress(total.n_rows, n_rows)
    names = {part.domain: part.name for part in parts if part.name is not None}
    return replace(total.result(declared=True), domain_names=names)


def _job(parts: Sequence[Part], *options: Any) -> dict[str, Any]:
    """What a checkpoint must agree on: the files as they are, and the arguments."""
    files = []
    for part in parts:
        for path in part.rows.paths:
            stat = path.stat()
            files.append([path.name, stat.st_size, stat.st_mtime_ns])
    return {
        "files": files,
        "columns": [[*part.rows.features, part.rows.label] for part in parts],
        "options": [
            *(repr(option) for option in options),
            *(repr((p.domain, p.name, p.rows.double, p.rows.relabel)) for p in parts),
        ],
    }


def _resume(
    checkpoint: str | os.PathLike[str] | None,
    job: dict[str, Any],
    tell: Callable[[str], None] | None,
) -> tuple[Moments | None, int]:
    """Statistics so far and the number of row groups they hold."""
    if checkpoint is None or not Path(checkpoint).exists():
        return None, 0
    moments, header = read(checkpoint)
    extra = header.get("extra") or {}
    if "done" not in extra:
        raise MomentsFileError(f"{checkpoint}: a moments file, not a checkpoint.")
    for key, what in (("files", "files"), ("columns", "columns"), ("options", "arguments")):
        if extra.get(key) != job[key]:
            text = f"{checkpoint}: this checkpoint was made from other {what}"
            if tell is None:
                raise MomentsFileError(f"{text}: remove it to start again.")
            tell(f"{text}, so the rows are read from the start.")
            return None, 0
    return moments, int(extra["done"])
