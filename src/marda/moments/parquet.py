"""Parquet files → `Moments`: a batch of a row group at a time, only the columns needed.

One pass over the row groups of several domains continues where it was killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.binary import (
    Unreadable,
    bare_texts,
    is_number,
    open_parquet,
    parquet_files,
    reading_parquet,
    record_batches,
)
from marda.io.table import InputError, some_names
from marda.moments.accumulate import BATCH_BYTES, Collector
from marda.moments.files import MomentsFileError, read, write
from marda.moments.stats import Moments

ROLES = {"source": 0, "target": -1}
#: Columns are read in so many pieces at most, so that something is told of the first batch.
PIECES = 16
#: The first batch of a row group comes with pages, and dictionaries, of so many rows.
PAGE_ROWS = 2**16


@dataclass(frozen=True)
class ParquetRows:
    """Parquet files as batches of rows of the same columns.

    Parameters
    ----------
    paths : list of Path
        Files, in order.
    features : tuple of str
        Numeric columns, in order.
    label : str or None
        Column of labels; missing values mean "no label".
    batch_rows : int
        Rows per batch, at most.
    double : bool, default=False
        Give float64 rows even where all columns are float32.
    relabel : callable, default=None
        Applied to the labels of every batch.
    """

    paths: tuple[Path, ...]
    features: tuple[str, ...]
    label: str | None
    batch_rows: int
    double: bool = False
    relabel: Callable[[NDArray[Any]], NDArray[Any]] | None = None

    @classmethod
    def open(
        cls,
        paths: Sequence[str | os.PathLike[str]],
        *,
        label: str | None = None,
        features: Sequence[str] | None = None,
        memory: int | None = None,
        double: bool = False,
        relabel: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> ParquetRows:
        """Find files and columns; every file must have the columns of the first.

        A folder stands for the ``*.parquet`` files under it, in the order of their names. Without
        `features`, all columns but the label. `memory` bounds the bytes of batches in flight, but
        they take up to 256 rows whatever it says; Grams (8 d² bytes each) come on top.
        """
        files = _files(paths)
        first = _schema(files[0])
        if label is not None and label not in first:
            raise InputError(
                f"{files[0]}: no column {label!r} for the label; it has {some_names(first, 6)}."
            )
        names = tuple(n for n in first if n != label) if features is None else tuple(features)
        if not names:
            raise InputError(f"{files[0]}: no feature columns.")
        for path in files:
            schema = _schema(path)
            for name in names if label is None else (*names, label):
                if name not in schema:
                    raise InputError(
                        f"{path}: no column {name!r}"
                        + ("." if path == files[0] else f", which {files[0]} has.")
                    )
                if name != label and not is_number(schema[name]):
                    raise InputError(
                        f"{path}: column {name!r} holds {schema[name]}, not numbers: "
                        "name the feature columns, or drop it."
                    )
        # A batch lives as columns, as rows, and as shifted rows.
        room = 3 * BATCH_BYTES if memory is None else max(1, memory // 2)
        rows = max(256, min(room, 12 * BATCH_BYTES) // (3 * 8 * len(names)))
        return cls(tuple(files), names, label, rows, double, relabel)

    def groups(self) -> list[tuple[int, int]]:
        """(file, row group) of every row group, in order."""
        return [
            (i, g)
            for i, path in enumerate(self.paths)
            for g in range(_open(path).metadata.num_row_groups)
        ]

    def sizes(self) -> list[int]:
        """Rows of every row group, in order."""
        files = [_open(path).metadata for path in self.paths]
        return [file.row_group(g).num_rows for file in files for g in range(file.num_row_groups)]

    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(self.sizes())

    def batches(
        self, file: int, group: int, told: Callable[[float], None] | None = None
    ) -> Iterator[tuple[NDArray[Any], Any]]:
        """Rows and labels of one row group; `told` hears what share of the first batch is read."""
        path = self.paths[file]
        names = list(self.features) if self.label is None else [*self.features, self.label]
        width = max(16, -(-len(names) // PIECES))
        try:
            with reading_parquet(path):
                parquet = _open(path)
                pieces = [
                    record_batches(
                        path,
                        parquet,
                        self.batch_rows,
                        names[start : start + width],
                        group=group,
                        threads=True,
                    )
                    for start in range(0, len(names), width)
                ]
                while columns := _columns(path, pieces, told):
                    told = None
                    if n_rows := len(columns[names[0]]):
                        yield self._rows(path, columns, n_rows), self._labels(columns)
        except Unreadable as error:
            raise InputError(
                f"{path}: row group {group} cannot be read: {error.why.rstrip('.')}."
            ) from error

    def _rows(self, path: Path, batch: dict[str, Any], n_rows: int) -> NDArray[Any]:
        columns = [batch[name] for name in self.features]
        single = not self.double and all(str(c.type) in ("float", "halffloat") for c in columns)
        dtype = np.float32 if single else np.float64
        X = np.empty((n_rows, len(columns)), dtype=dtype)
        step = 64  # that many columns are read along and written across: both stay in cache
        block = np.empty((step, n_rows), dtype=dtype)
        for start in range(0, len(columns), step):
            some = columns[start : start + step]
            for i, column in enumerate(some):
                block[i] = column.to_numpy(zero_copy_only=False)
            X[:, start : start + len(some)] = block[: len(some)].T
        if not np.isfinite(X.sum(dtype=np.float64)) and not np.isfinite(X).all():
            i = int(np.flatnonzero(~np.isfinite(X).all(0))[0])
            raise InputError(
                f"{path}: column {self.features[i]!r} has missing or infinite values: fill them "
                "or drop the column."
            )
        return X

    def _labels(self, batch: dict[str, Any]) -> Any:
        if self.label is None:
            return None
        column = batch[self.label]
        if hasattr(column, "dictionary_decode"):
            column = column.dictionary_decode()
        column = bare_texts(column)
        if column.null_count:
            values = np.array(column.to_pylist(), dtype=object)
        else:
            values = column.to_numpy(zero_copy_only=False)
        return values if self.relabel is None else self.relabel(values)


def _columns(
    path: Path, pieces: Sequence[Iterator[Any]], told: Callable[[float], None] | None
) -> dict[str, Any]:
    """The next batch of all pieces, by the names of columns; none at the end."""
    columns: dict[str, Any] = {}
    for k, piece in enumerate(pieces, 1):
        batch = next(piece, None)
        if batch is not None:
            columns.update(zip(batch.schema.names, batch.columns, strict=True))
            if told is not None:
                told(k / len(pieces))
    if len({len(column) for column in columns.values()}) > 1:
        raise Unreadable(path, "columns come in batches of different lengths.")
    return columns


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
        Called with (rows done, rows in all), also within row groups.
    tell : callable, default=None
        Called with a sentence if a checkpoint is continued, or is of other work, which then starts
        over. None: a checkpoint of other work raises.

    Returns
    -------
    Moments
    """
    groups = [(part, *place) for part in parts for place in part.rows.groups()]
    for part in parts:
        if not part.rows.n_rows():
            raise InputError(f"{part.rows.paths[0]}: no rows.")
    job = _job(parts, classes, unlabeled, class_grams)
    start, done = _resume(checkpoint, job, tell)
    if done and tell is not None:
        tell(f"continued after {done} of {len(groups)} row groups, from {checkpoint}.")
    total = Collector(classes=classes, start=start, unlabeled=unlabeled, class_grams=class_grams)
    total.feature_names = np.array(parts[0].rows.features, dtype=object)
    work = _Work(parts, progress)
    work.tell(done)
    for number, (part, file, group) in enumerate(groups[done:], done):
        before = total.n_rows
        read = part.rows.batches(file, group, partial(work.tell_read, number))
        for batch, (X, y) in enumerate(read):
            if batch:
                work.tell(number, total.n_rows - before)
            try:
                total.add_checked(X, y, np.full(len(X), part.domain, dtype=np.int64))
            except ValueError as error:
                raise InputError(f"{part.rows.paths[file]}: {error}") from error
        if checkpoint is not None and total.n_rows:
            write(total.result(), checkpoint, extra={**job, "done": number + 1})
        work.tell(number + 1)
    names = {part.domain: part.name for part in parts if part.name is not None}
    return replace(total.result(declared=True), domain_names=names)


class _Work:
    """What is done of all row groups, told in rows.

    The first batch of a row group takes longer than others: its pages hold rows of later ones, too.
    So they count as more rows; fewer where columns are many, and adding up takes most of the time.
    """

    def __init__(self, parts: Sequence[Part], progress: Callable[[int, int], None] | None) -> None:
        self.progress = progress
        self.first: list[float] = []  # with a fifth of a batch: it is read, and not yet added up
        self.ahead: list[float] = []
        self.ends = [0.0]
        self.n_rows = 0
        for part in parts:
            for n_rows in part.rows.sizes():
                ahead = min(n_rows, PAGE_ROWS) / (1 + len(part.rows.features) / 1000)
                self.ahead.append(ahead)
                self.first.append(ahead + min(n_rows, part.rows.batch_rows) / 5)
                self.ends.append(self.ends[-1] + ahead + n_rows)
                self.n_rows += n_rows

    def tell(self, group: int, added: int = 0) -> None:
        """All groups before this one are done, and so many rows of it."""
        self._tell(self.ends[group] + (self.ahead[group] + added if added else 0.0))

    def tell_read(self, group: int, share: float) -> None:
        """Of the group's first batch, that share is read."""
        self._tell(self.ends[group] + share * self.first[group])

    def _tell(self, done: float) -> None:
        if self.progress is not None:
            self.progress(round(self.n_rows * done / self.ends[-1]), self.n_rows)


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


def moments_from_parquet(
    paths: Sequence[str | os.PathLike[str]],
    *,
    label: str | None = None,
    domain: str | None = None,
    role: str = "source",
    features: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    unlabeled: Any = -1,
    class_grams: bool = False,
    memory: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Moments:
    """Statistics of Parquet files, in one pass that holds one batch.

    Parameters
    ----------
    paths : sequence of paths
        Files, or folders of ``*.parquet`` files.
    label : str, default=None
        Column of labels. Missing values mark target rows without a label.
    domain : str, default=None
        Name of the domain that all rows are of.
    role : {"source", "target"}, default="source"
        Which side the domain is on.
    features : sequence of str, default=None
        Columns to read; None takes all but the label.
    classes : sequence, default=None
        All label values that may occur. The statistics name them even where no row has one, so
        that files of several owners agree.
    unlabeled : default=-1
        Mark of unlabelled target rows.
    class_grams : bool, default=False
        Keep a Gram per class.
    memory : int, default=None
        Bytes that batches may take together with their copies. They take up to 256 rows however
        little it is, and Grams (8 d² bytes each) come on top.
    checkpoint : path, default=None
        Written after every row group, removed at the end. If it is there at the start, and was
        made from the same files and arguments, the row groups that it holds are not read again.
    progress : callable, default=None
        Called with (rows done, rows in all), also within row groups.

    Returns
    -------
    Moments
    """
    if role not in ROLES:
        raise ValueError(f"role must be 'source' or 'target', got {role!r}.")
    rows = ParquetRows.open(paths, label=label, features=features, memory=memory)
    moments = moments_of_parts(
        [Part(rows, ROLES[role], domain)],
        classes=classes,
        unlabeled=unlabeled,
        class_grams=class_grams,
        checkpoint=checkpoint,
        progress=progress,
    )
    if checkpoint is not None:
        Path(checkpoint).unlink(missing_ok=True)
    return moments


def label_values(
    paths: Sequence[str | os.PathLike[str]], label: str | None, text: str
) -> list[Any]:
    """Label names written as "a,b,c", as values of the kind that the label column holds."""
    if label is None:
        raise ValueError("classes without a label column: name the column as well.")
    kind = _schema(_files(paths)[0]).get(label)
    parts = [part.strip() for part in text.split(",")]
    if kind is None or not is_number(kind):
        return list(parts)
    try:
        return [int(p) if p.lstrip("-").isdigit() else float(p) for p in parts]
    except ValueError:
        raise ValueError(f"column {label!r} holds {kind}, and classes are {text!r}.") from None


def _files(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    files = [file for path in paths for file in parquet_files(Path(path))]
    if not files:
        raise InputError("no Parquet files were given.")
    return files


def _open(path: Path) -> Any:
    try:
        return open_parquet(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None


def _schema(path: Path) -> dict[str, Any]:
    schema = _open(path).schema_arrow
    return dict(zip(schema.names, schema.types, strict=True))


def column_types(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Names and types of the columns of a file, or of the first file of a folder."""
    return _schema(_files([path])[0])
