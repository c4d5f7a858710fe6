"""Parquet files larger than memory in; the model of all their rows out.

A first look reads the names of the columns and the labels, so that what is wrong shows before the
long pass over the row groups.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.adaptation.reading import (
    Outputs,
    PathLike,
    Progress,
    ReadOptions,
    Sources,
    is_parquet,
    memory_budget,
    silent,
    sources_of,
)
from marda.adaptation.statistics import AdaptedFromStatistics, fit_statistics, model_for
from marda.io import InputError, Table, read_batches, read_labels
from marda.io.readers.binary import is_number
from marda.io.table import as_numbers, as_texts, is_missing
from marda.io.writing import remove_stale
from marda.moments import Moments
from marda.moments.parquet import ROLES, ParquetRows, Part, column_types, moments_of_parts
from marda.terms import parse_method

__all__ = [
    "BatchLabels",
    "Cluster",
    "adapt_streaming",
    "checkpoint_of",
    "feature_columns",
    "open_parts",
    "quiet",
    "read_errors",
    "refuse_other_formats",
    "survey_labels",
]

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
    progress: Progress = silent,
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
        Of `MDAClassifier`; None: `chosen_method`.
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
    classifier, notes = model_for(method, None, **parameters)
    checkpoint = None if cluster is not None else checkpoint_of(outputs)
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        announce(sentence)

    with ExitStack() as stack, read_errors():
        client = None if cluster is None else stack.enter_context(cluster.client())
        progress(0.0, "reading labels")
        parts, mark, ignored = open_parts(sources, target, options, memory, classifier.method)
        classifier.set_params(unlabeled=mark)
        n_rows = sum(part.rows.n_rows() for part in parts)
        again = parts[-1].rows.n_rows() if outputs.out is not None else 0
        share = 0.98 * n_rows / (n_rows + again)
        if reason is not None:
            tell(reason)
        if client is not None:
            moments = _on_workers(client, parts, mark, progress)
        else:
            if checkpoint is not None and not checkpoint.exists():
                announce(f"killed and started again, this continues from {checkpoint}.")
            moments = moments_of_parts(
                parts,
                unlabeled=mark,
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
) -> tuple[list[Part], Any, tuple[str, ...]]:
    """Rows of all sources and then of the target, the mark of unlabelled rows, and notes; after
    all quick checks, and those of a method if it is named.
    """
    features, notes = feature_columns(sources, target, options)
    labels, labelled_target = survey_labels(sources, target, options.label)
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
    return parts, labels.mark, notes


def _names(sources: Sequence[PathLike]) -> list[str]:
    """Of one source its role; of several their files, as long as it takes to tell them apart."""
    if len(sources) == 1:
        return ["source"]
    names = [Path(path).name for path in sources]
    return names if len({*names, "target"}) > len(names) else [str(path) for path in sources]


def _on_workers(client: Any, parts: list[Part], mark: Any, progress: Progress) -> Moments:
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
) -> tuple[BatchLabels, bool]:
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
        return BatchLabels(True, None), some
    return BatchLabels(False, -1 if not (classes == -1).any() else int(classes.min()) - 1), some


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
    """A table of one row per label value."""
    values: NDArray[Any] = np.array(list(found), dtype=object)
    if not any(isinstance(value, str) for value in found):
        values = values.astype(np.float64)
    return Table(str(path), len(found), {label: values})
