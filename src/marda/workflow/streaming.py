"""Parquet files larger than memory in; the model of all their rows out."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marda._memory import format_bytes
from marda.io import InputError
from marda.moments import Moments
from marda.moments.parquet import ROLES, ParquetRows
from marda.moments.streams import Part, moments_of_parts
from marda.workflow.budget import is_parquet, memory_budget, rows_size
from marda.workflow.data import PathLike, Progress, ReadOptions, silent
from marda.workflow.outputs import Outputs
from marda.workflow.statistics import AdaptedFromStatistics, fit_statistics, model_for
from marda.workflow.surveying import feature_columns, survey_labels

__all__ = ["Cluster", "adapt_streaming", "checkpoint_of", "too_large"]

WORKERS_TIMEOUT = 10.0


def too_large(
    source: PathLike, target: PathLike, options: ReadOptions, memory: str | None = None
) -> str | None:
    """Why rows have to be read in batches, or None if they fit into memory.

    Parameters
    ----------
    source, target : paths
        Files, or folders of Parquet files.
    options : ReadOptions
        Columns and how to read them.
    memory : str or None
        "4GB", "30%" of the free memory, or a quarter of it.
    """
    budget = memory_budget(memory)
    left_out = {options.label, options.id, *options.drop}
    sizes = [(path, rows_size(path, options.format, left_out)) for path in (source, target)]
    total = sum(size for _, size in sizes)
    if total <= budget:
        return None
    why = f"more than the {format_bytes(budget)} that rows may take (--memory)"
    for path, size in sizes:
        if size and not is_parquet(path, options.format):
            raise InputError(
                f"{path} is too large ({format_bytes(size)}; with the other file "
                f"{format_bytes(total)}, {why}): convert it to Parquet, which is read in batches, "
                "or allow more memory."
            )
    return f"the rows take {format_bytes(total)}, {why}, so they are read in batches."


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


def adapt_streaming(
    source: PathLike,
    target: PathLike,
    options: ReadOptions,
    outputs: Outputs,
    *,
    memory: str | None = None,
    cluster: Cluster | None = None,
    method: str | None = None,
    reason: str | None = None,
    progress: Progress = silent,
    **parameters: Any,
) -> AdaptedFromStatistics:
    """Learn from Parquet files in one pass over their row groups, then predict in batches.

    The model is that of `adapt` with all rows in memory, to rounding. Killed and started again
    with the same files and arguments, the pass continues after the last row group that was done.

    Parameters
    ----------
    source, target : paths
        Parquet files or folders of them; columns of numbers.
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
    progress : callable
        Called with the share of the work done and what comes next.
    **parameters
        Of `MDAClassifier`.
    """
    began = time.perf_counter()
    outputs.check([source, target])
    for path in (source, target):
        if not is_parquet(path, options.format):
            raise InputError(f"{path} is not Parquet, which alone is read in batches: convert it.")
    classifier, notes = model_for(method, None, **parameters)
    progress(0.0, "reading labels")
    with _read_errors():
        features, ignored = feature_columns(source, target, options)
        labels, labelled_target = survey_labels(source, target, options.label)
        classifier.set_params(unlabeled=labels.mark)
        parts = []
        for role, path in (("source", source), ("target", target)):
            rows = ParquetRows.open(
                # Workers may run in another folder.
                [path if cluster is None else Path(path).resolve()],
                label=options.label if role == "source" or labelled_target else None,
                features=features,
                memory=memory_budget(memory),
                double=True,  # as rows in memory: the same model, however it was reached
                relabel=labels,
            )
            parts.append(Part(rows, ROLES[role], role))
    n_source, n_target = (part.rows.n_rows() for part in parts)
    again = n_target if outputs.out is not None else 0
    share = 0.98 * (n_source + n_target) / (n_source + n_target + again)
    told: list[str] = [] if reason is None else [reason]
    checkpoint = None if cluster is not None else checkpoint_of(outputs)
    with _read_errors():
        if cluster is not None:
            moments = _on_workers(cluster, parts, labels.mark, progress)
        else:
            moments = moments_of_parts(
                parts,
                unlabeled=labels.mark,
                checkpoint=checkpoint,
                progress=lambda done, total: progress(
                    share * done / total, f"{done:,} of {total:,} rows"
                ),
                tell=told.append,
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


def _on_workers(cluster: Cluster, parts: list[Part], mark: Any, progress: Progress) -> Moments:
    from marda.moments.dask import part_on_workers

    with cluster.client() as client:
        n = len(client.nthreads())
        total: Moments | None = None
        for part in parts:
            progress(0.0 if total is None else 0.4, f"{part.name} rows on {n} workers")
            try:
                held = part_on_workers(part, unlabeled=mark)
            except ValueError as error:
                if "no such file" in str(error):  # it was there when this process opened it
                    raise InputError(f"{error} The workers must see the same files.") from None
                raise
            total = held if total is None else total + held
    if total is None:
        raise ValueError("no parts were given.")
    return total


@contextmanager
def _read_errors() -> Iterator[None]:
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
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
            left.unlink(missing_ok=True)
