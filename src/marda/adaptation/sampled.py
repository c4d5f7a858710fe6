"""The default on Parquet files of any size: choices on a sample, sums over all rows.

Three passes. The first reads labels alone and decides which rows are drawn: every row has a random
number, given by the place of its row group and its own place in there, and of every class the
smallest ones are taken. The second collects these rows, and everything is chosen on them as on rows
in memory. The third adds up, over all other labelled rows of the sources, what source-only models
learn from (selection/source_only.py): here, or on the workers of a cluster. A row group is the unit
of work, and its sums depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marda.io import InputError, Preprocessing, Table
from marda.io.columns import Number
from marda.moments.features import FixedFeatures, RowSums
from marda.moments.parquet import ParquetRows, Part
from marda.selection.inputs import KEPT_PER_CLASS

__all__ = ["Draw", "FileRows", "draw_from_files"]

Index = NDArray[np.int64]
Vector = NDArray[np.float64]
Count = Callable[[int], None]


@dataclass(frozen=True)
class Draw:
    """Which rows of all files are drawn.

    Attributes
    ----------
    parts : tuple of Part
        Rows of the sources, then those of the target.
    classes : array of shape (n_classes,)
        Label values.
    mark : int or None
        Stands for "no label".
    counts, drawn : arrays of int of shape (n_parts, n_classes + 1)
        Rows per part and class, and how many are drawn; the last column: without a label.
    below : array of shape (n_parts, n_classes + 1)
        Rows whose number is below it are drawn.
    """

    parts: tuple[Part, ...]
    classes: NDArray[Any]
    mark: Any
    counts: Index
    drawn: Index
    below: Vector

    def batches(
        self, part: int, file: int, group: int, features: Sequence[str] | None = None
    ) -> Iterator[tuple[Any, Index, Vector]]:
        """Rows of a row group, class codes (n_classes: no label), and their random numbers."""
        rows = self.parts[part].rows
        if features is not None:
            rows = replace(rows, features=tuple(features))
        rng = np.random.default_rng([0, part, file, group])
        for X, y in rows.batches(file, group):
            yield X, _codes(y, len(X), self.classes, self.mark), rng.random(len(X))

    def tables(self, progress: Count) -> list[Table]:
        """The rows that are drawn, a table per part; `progress` is told the rows done."""
        found, done = [], 0
        for k, part in enumerate(self.parts):
            some, labels = [], []
            for file, group in part.rows.groups():
                for X, codes, numbers in self.batches(k, file, group):
                    kept = numbers < self.below[k, codes]
                    some.append(X[kept])
                    labels.append(codes[kept])
                    done += len(X)
                progress(done)
            columns = dict(zip(part.rows.features, np.vstack(some).T, strict=True))
            codes = np.concatenate(labels)
            if part.rows.label is not None:
                columns[part.rows.label] = self._values(codes)
            found.append(Table(str(part.rows.paths[0]), len(codes), columns))
        return found

    def _values(self, codes: Index) -> NDArray[Any]:
        """Labels; None or NaN where there is none."""
        if self.classes.dtype.kind == "O":
            return np.append(self.classes, np.array([None], dtype=object))[codes]
        if (codes < len(self.classes)).all():
            return np.asarray(self.classes[codes])
        return np.append(self.classes.astype(np.float64), np.nan)[codes]


def draw_from_files(parts: Sequence[Part], mark: Any, n: int) -> Draw:
    """About n rows per part: of every class its share, 20 at least; of labelled target rows n.

    Parameters
    ----------
    parts : sequence of Part
        Rows of the sources, then of the target; their labels are read, and no features.
    mark : int or None
        Stands for "no label".
    n : int
        Rows per part.
    """
    classes = _classes(parts)
    shape = len(parts), len(classes) + 1
    counts, below = np.zeros(shape, dtype=np.int64), np.ones(shape)
    found = Draw(tuple(parts), classes, mark, counts, counts.copy(), below)
    most = max(n, KEPT_PER_CLASS) + 1
    for k, part in enumerate(parts):
        # Labels alone; where there are none, a column that tells how many rows there are.
        read = part.rows.features[:1] if part.rows.label is None else ()
        smallest = [np.empty(0)] * shape[1]
        for file, group in part.rows.groups():
            for _, codes, numbers in found.batches(k, file, group, read):
                counts[k] += np.bincount(codes, minlength=shape[1])
                for c in np.unique(codes):
                    held = np.append(smallest[c], numbers[codes == c])
                    smallest[c] = np.sort(held)[:most]
        total = int(counts[k].sum())
        if not total:
            raise InputError(f"{part.rows.paths[0]}: no rows.")
        for c, count in enumerate(counts[k].tolist()):
            wanted = n
            if part.domain >= 0 or c == len(classes):
                wanted = max(KEPT_PER_CLASS, int(n / total * count))
            found.drawn[k, c] = min(wanted, count)
            if wanted < count:
                below[k, c] = smallest[c][wanted]
    return found


def _classes(parts: Sequence[Part]) -> NDArray[Any]:
    """Label values of the sources."""
    values: set[Any] = set()
    for part in parts:
        if part.domain >= 0:
            rows = replace(part.rows, features=())
            for place in rows.groups():
                for _, y in rows.batches(*place):
                    values.update(np.unique(y).tolist() if y.dtype.kind != "O" else y.tolist())
    kind = object if any(isinstance(value, str) for value in values) else np.int64
    return np.array(sorted(values), dtype=kind)


def _codes(y: Any, n: int, classes: NDArray[Any], mark: Any) -> Index:
    C = len(classes)
    if y is None:
        return np.full(n, C, dtype=np.int64)
    if y.dtype.kind != "O":
        return np.where(y == mark, C, np.searchsorted(classes, y)).astype(np.int64)
    place = {value: k for k, value in enumerate(classes.tolist())} | {None: C}
    return np.array([place[value] for value in y.tolist()], dtype=np.int64)


@dataclass(frozen=True)
class FileRows:
    """The labelled source rows that were not drawn, as `MDAClassifierCV.fit_sample` wants them.

    Attributes
    ----------
    draw : Draw
        Which rows.
    names : tuple of str
        Columns that are features.
    center, scale : arrays of shape (n_features,)
        (x − center) / scale is what a model sees of them.
    workers : bool, default=False
        Sum on the workers of the Dask client in charge, which must see the files.
    progress : callable, default=None
        Told the rows done, where they are summed here.
    """

    draw: Draw
    names: tuple[str, ...]
    center: Vector
    scale: Vector
    workers: bool = False
    progress: Count | None = None

    @classmethod
    def of(cls, draw: Draw, chosen: Preprocessing, **more: Any) -> Self:
        """Rows with the features of the sample."""
        steps = [step for step in chosen.steps if isinstance(step, Number)]
        if len(steps) < len(chosen.steps):
            raise InputError("columns that are read in batches must hold numbers.")
        center = np.array([step.center for step in steps])
        scale = np.array([step.scale for step in steps])
        return cls(draw, tuple(step.name for step in steps), center, scale, **more)

    @property
    def _sources(self) -> list[int]:
        return [k for k, part in enumerate(self.draw.parts) if part.domain >= 0]

    @property
    def counts(self) -> Index:
        """Rows per class."""
        left = (self.draw.counts - self.draw.drawn)[self._sources, :-1]
        return np.asarray(left.sum(0))

    def sums(self, features: FixedFeatures) -> RowSums:
        """Sums over all of them."""
        draw = self.draw
        places = [(k, *place) for k in self._sources for place in draw.parts[k].rows.groups()]
        if self.workers:
            from marda.moments.dask import sum_on_workers

            # Workers may run in another folder.
            parts = tuple(
                replace(part, rows=replace(part.rows, paths=_absolute(part.rows)))
                for part in draw.parts
            )
            there = replace(self, draw=replace(draw, parts=parts), workers=False, progress=None)
            total: RowSums = sum_on_workers(_group_sums, places, there, features)
            return total
        total = features.nothing()
        for place in places:
            total = total + _group_sums(place, self, features)
            if self.progress is not None:
                self.progress(total.n_rows)
        return total


def _absolute(rows: ParquetRows) -> tuple[Any, ...]:
    return tuple(path.resolve() for path in rows.paths)


def _group_sums(place: tuple[int, int, int], rest: FileRows, features: FixedFeatures) -> RowSums:
    """Sums over the rows of a row group that were not drawn."""
    total = features.nothing()
    draw, part = rest.draw, place[0]
    for X, codes, numbers in draw.batches(*place, rest.names):
        left = np.flatnonzero((numbers >= draw.below[part, codes]) & (codes < len(draw.classes)))
        rows = (X[left] - rest.center) / rest.scale
        total = features.added(total, rows, codes[left])
    return total
