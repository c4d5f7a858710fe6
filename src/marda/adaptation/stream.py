"""Parquet files larger than memory in; the model of all their rows out.

A first look reads the names of the columns and the labels, so that what is wrong shows before the
long pass over the row groups.

The default makes three passes. The first reads labels alone and decides which rows are drawn: every
row has a random number, given by the place of its row group and its own place in there, and of
every class the smallest ones are taken. The second collects these rows, and everything is chosen on
them as on rows in memory. The third adds up, over all other labelled rows of the sources, what
source-only models learn from (selection/source_only.py): here, or on the workers of a cluster. A
row group is the unit of work, and its sums depend on nothing else.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marda._progress import Listener, silent
from marda.adaptation.reading import (
    Outputs,
    PathLike,
    ReadOptions,
    Sources,
    is_parquet,
    memory_budget,
    one_wording_of_labels,
    sources_of,
)
from marda.adaptation.statistics import AdaptedFromStatistics, fit_statistics, model_for
from marda.io import InputError, Preprocessing, Table, read_batches, read_labels
from marda.io.binary import is_number
from marda.io.columns import Number
from marda.io.table import as_numbers, as_texts, is_missing
from marda.io.writing import remove_stale
from marda.moments import Moments
from marda.moments.features import BLOCK, FixedFeatures, RowSums
from marda.moments.parquet import ROLES, ParquetRows, Part, column_types, moments_of_parts
from marda.selection.inputs import KEPT_PER_CLASS
from marda.terms import parse_method

Index = NDArray[np.int64]
Vector = NDArray[np.float64]
Count = Callable[[int], None]

WORKERS_TIMEOUT = 10.0
MAX_CLASSES = 10_000


def checkpoint_of(outputs: Outputs) -> Path | None:
    """The file from which a pass that was killed continues: beside the model, or else `out`."""
    beside = outputs.model or outputs.out
    return None if beside is None else Path(f"{beside}.checkpoint")


@dataclass(frozen=True)
class Cluster:
    """Where row groups are read: on workers of the scheduler at `address`.

    None starts worker processes on this machine.
    """

    address: str | None = None

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client while it is needed, and at least one worker."""
        try:
            from marda.moments.dask import connect, start_local

            client = start_local() if self.address is None else connect(self.address)
        except ImportError as error:
            raise InputError(str(error)) from None
        with client:
            try:
                client.wait_for_workers(1, timeout=WORKERS_TIMEOUT)
            except TimeoutError:
                raise InputError(
                    f"the Dask scheduler at {self.address!r} has no workers: start some."
                ) from None
            yield client


def quiet(sentence: str) -> None:
    """No announcement."""


def adapt_streaming(
    source: Sources,
    target: PathLike,
    options: ReadOptions,
    outputs: Outputs,
    *,
    memory: str | None = None,
    cluster: Cluster | None = None,
    method: str | None = None,
    reason: str | None = None,
    announce: Callable[[str], None] = quiet,
    progress: Listener = silent,
    **parameters: Any,
) -> AdaptedFromStatistics:
    """Learn from Parquet files in one pass over their row groups, then predict in batches.

    The model is that of `adapt` with all rows in memory, to rounding. Killed and started again
    with the same files and arguments, the pass continues after the last row group that was done.

    Parameters
    ----------
    source, target : paths
        Parquet files or folders of them, a list of which gives several sources; columns of
        numbers.
    options : ReadOptions
        Columns; missing values and text cannot be handled in batches.
    outputs : Outputs
        What to write. The checkpoint lies beside the model, or else the predictions.
    memory : str, default=None
        Bounds a batch: "4GB", "30%" of the free memory, or a quarter of it.
    cluster : Cluster, default=None
        Read row groups on its workers, which must see the files; there is no checkpoint then.
    method : str, default=None
        Of `MDAClassifier`; None: that of `model_for`.
    reason : str, default=None
        A note: why rows are read in batches.
    announce : callable
        Called with `reason` and the name of the checkpoint before the long pass.
    progress : callable
        Called with the share of the work done and what comes next.
    **parameters
        Of `MDAClassifier`.
    """
    began = time.perf_counter()
    sources = sources_of(source)
    outputs.check([*sources, target])
    refuse_other_formats([*sources, target], options.format)
    classifier, notes = model_for(method, **parameters)
    checkpoint = None if cluster is not None else checkpoint_of(outputs)
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        announce(sentence)

    with ExitStack() as stack, read_errors():
        client = None if cluster is None else stack.enter_context(cluster.client())
        progress(0.0, "reading labels")
        parts, labels, ignored = open_parts(sources, target, options, memory, classifier.method)
        classifier.set_params(unlabeled=labels.mark)
        n_rows = sum(part.rows.n_rows() for part in parts)
        again = parts[-1].rows.n_rows() if outputs.out is not None else 0
        share = 0.98 * n_rows / (n_rows + again)
        if reason is not None:
            tell(reason)
        if client is not None:
            moments = _on_workers(client, parts, labels.mark, progress)
        else:
            if checkpoint is not None and not checkpoint.exists():
                announce(f"killed and started again, this continues from {checkpoint}.")
            moments = moments_of_parts(
                parts,
                unlabeled=labels.mark,
                checkpoint=checkpoint,
                progress=lambda done, total: progress(
                    share * done / total, f"{done:,} of {total:,} rows"
                ),
                tell=tell,
            )
    result = fit_statistics(
        moments,
        classifier,
        outputs,
        scale=options.scale,
        label=options.label,
        progress=progress,
        start=share,
    )
    if checkpoint is not None:
        _clean(checkpoint, outputs)
    return replace(
        result,
        notes=(*told, *notes, *ignored, *result.notes),
        seconds=time.perf_counter() - began,
    )


def refuse_other_formats(paths: Sequence[PathLike], format: str | None) -> None:
    """Refuse files that are not Parquet."""
    for path in paths:
        if not is_parquet(path, format):
            raise InputError(f"{path} is not Parquet, which alone is read in batches: convert it.")


def open_parts(
    sources: Sequence[PathLike],
    target: PathLike,
    options: ReadOptions,
    memory: str | None,
    method: str | None,
) -> tuple[list[Part], BatchLabels, tuple[str, ...]]:
    """Rows of all sources and then of the target, how labels are read, and notes; after all quick
    checks, and those of a method if it is named.
    """
    features, notes = feature_columns(sources, target, options)
    labels, labelled_target, told = survey_labels(sources, target, options.label)
    if method is not None and parse_method(method).class_mmd and not labelled_target:
        raise InputError(
            f"{method} needs labelled target rows, and {target} has none: label a few, or use a "
            "method without C (such as S1M, S1D)."
        )
    parts = []
    for domain, name, path in (
        *zip(range(len(sources)), _names(sources), sources, strict=True),
        (ROLES["target"], "target", target),
    ):
        rows = ParquetRows.open(
            [path],
            label=options.label if domain >= 0 or labelled_target else None,
            features=features,
            memory=memory_budget(memory),
            double=True,  # as rows in memory: the same model, however it was reached
            relabel=labels,
        )
        parts.append(Part(rows, domain, name))
    return parts, labels, (*notes, *told)


def _names(sources: Sequence[PathLike]) -> list[str]:
    """Of one source its role; of several their files, as long as it takes to tell them apart."""
    if len(sources) == 1:
        return ["source"]
    names = [Path(path).name for path in sources]
    return names if len({*names, "target"}) > len(names) else [str(path) for path in sources]


def _on_workers(client: Any, parts: list[Part], mark: Any, progress: Listener) -> Moments:
    from marda.moments.dask import part_on_workers

    held: list[Moments] = []
    for part in parts:
        progress(
            0.8 * len(held) / len(parts), f"{part.name} rows on {len(client.nthreads())} workers"
        )
        # Workers may run in another folder.
        rows = replace(part.rows, paths=tuple(path.resolve() for path in part.rows.paths))
        try:
            held.append(part_on_workers(replace(part, rows=rows), unlabeled=mark))
        except ValueError as error:
            if "no such file" in str(error):  # it was there when this process opened it
                raise InputError(f"{error} The workers must see the same files.") from None
            raise
    total = held[0]
    for more in held[1:]:
        total = total + more
    return total


@contextmanager
def read_errors() -> Iterator[None]:
    """What the readers refuse as input errors; a missing extra too."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, ImportError) as error:
        raise InputError(str(error)) from error


def _clean(checkpoint: Path, outputs: Outputs) -> None:
    """Remove the checkpoint, and what writers that were killed left beside the results."""
    checkpoint.unlink(missing_ok=True)
    for path in (checkpoint, *map(Path, outputs.files)):
        remove_stale(path)


# A first look ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchLabels:
    """Labels of a batch as they would be if all rows were read at once.

    Attributes
    ----------
    text : bool
        Labels are text; else whole numbers.
    mark : int, or None in text
        Stands for "no label".
    words : tuple of (str, str)
        Labels in text that are written otherwise elsewhere, and how.
    classes : array of shape (n_classes,)
        Label values of the sources.
    """

    text: bool
    mark: Any
    words: tuple[tuple[str, str], ...]
    classes: NDArray[Any] = field(repr=False)

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Text with None, or whole numbers with the mark."""
        if self.text:
            given = values if values.dtype.kind == "O" else as_texts(values)
            texts = [v if v is None or isinstance(v, str) else f"{float(v):.15g}" for v in given]
            words = dict(self.words)
            return np.array([None if v is None else words.get(v, v) for v in texts], dtype=object)
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
        ("--na", options.na),
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


def survey_labels(
    sources: Sequence[PathLike], target: PathLike, label: str
) -> tuple[BatchLabels, bool, list[str]]:
    """How labels are read, whether any target row has one, and notes; the rules of `data_of`."""
    source = ", ".join(map(str, sources))
    ours: Counter[Any] = Counter()
    for path in sources:
        ours.update(_values(path, label))
    given = label in column_types(target)
    theirs: Counter[Any] = _values(target, label) if given else Counter({None: 1})
    tables = [_distinct(path, label, held) for path, held in ((source, ours), (target, theirs))]
    notes: list[str] = []
    rows = [*ours.values()]
    *tables, words = one_wording_of_labels(tables[0], tables[1], label, notes, rows=rows)
    numbers = [as_numbers(table[label]) for table in tables]
    known = numbers[0]
    if known is None or numbers[1] is None:
        known = as_texts(tables[0][label])
    gone = sum(n for n, lost in zip(rows, is_missing(known), strict=True) if lost)
    if gone:
        lost = "1 source row has" if gone == 1 else f"{gone} source rows have"
        raise InputError(
            f"{source}: {lost} no label in column {label!r}: fill them or leave the rows out; only "
            "target rows may be empty."
        )
    classes, found = read_labels(tables[0], tables[1], label, rows=rows)
    text, mark = classes.dtype.kind == "O", None
    if not text:
        mark = -1 if not (classes == -1).any() else int(classes.min()) - 1
    read = BatchLabels(text, mark, tuple(words.items()) if text else (), classes)
    read = replace(read, classes=np.unique(read(tables[0][label])))
    return read, bool((~is_missing(found)).any()), notes


def _values(path: PathLike, label: str) -> Counter[Any]:
    """Label values of a file and the rows that have them; None: no label."""
    found: Counter[Any] = Counter()
    for table in read_batches(Path(path), "parquet", rows=65_536, columns={label}):
        column = table[label]
        if column.dtype.kind == "M":
            raise InputError(
                f"{path}: column {label!r} holds dates, which are no labels where rows are read in "
                "batches: write them as text."
            )
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
    """A table of one row per label value."""
    values: NDArray[Any] = np.array([*found])  # whole numbers beyond 2⁵³ stay what they are
    if values.dtype.kind not in "iu":
        values = np.array([*found], dtype=object)
        if not any(isinstance(value, str) for value in found):
            values = values.astype(np.float64)
    return Table(str(path), len(found), {label: values})


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


def draw_from_files(parts: Sequence[Part], labels: BatchLabels, n: int) -> Draw:
    """About n rows per part: of every class its share, 20 at least; of labelled target rows n.

    Parameters
    ----------
    parts : sequence of Part
        Rows of the sources, then of the target; their labels are read, and no features.
    labels : BatchLabels
        How they are read.
    n : int
        Rows per part.
    """
    classes = labels.classes
    shape = len(parts), len(classes) + 1
    counts, below = np.zeros(shape, dtype=np.int64), np.ones(shape)
    found = Draw(tuple(parts), classes, labels.mark, counts, counts.copy(), below)
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
    moved = bool(rest.center.any() or (rest.scale != 1).any())
    for X, codes, numbers in draw.batches(*place, rest.names):
        left = np.flatnonzero((numbers >= draw.below[part, codes]) & (codes < len(draw.classes)))
        for start in range(0, len(left), BLOCK):
            some = left[start : start + BLOCK]
            rows = X[some]
            if moved:
                rows = (rows - rest.center) / rest.scale
            total = features.added(total, rows, codes[some])
    return total
