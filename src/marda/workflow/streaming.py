"""Parquet files larger than memory in; the model of all their rows out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marda._memory import format_bytes
from marda.io import InputError
from marda.io.atomic import remove_stale
from marda.moments import Moments
from marda.moments.parquet import ROLES, ParquetRows
from marda.moments.streams import Part, moments_of_parts
from marda.terms import parse_method
from marda.workflow.budget import is_parquet, memory_budget, rows_size
from marda.workflow.data import PathLike, Progress, ReadOptions, Sources, silent, sources_of
from marda.workflow.outputs import Outputs
from marda.workflow.statistics import AdaptedFromStatistics, fit_statistics, model_for
from marda.workflow.surveying import feature_columns, survey_labels

__all__ = ["Cluster", "adapt_streaming", "checkpoint_of", "too_large"]

WORKERS_TIMEOUT = 10.0


def too_large(
    source: Sources, target: PathLike, options: ReadOptions, memory: str | None = None
) -> str | None:
    """Why rows have to be read in batches, or None if they fit into memory.

    Parameters
    ----------
    source, target : paths
        Files, or folders of Parquet files; a list of them gives several sources.
    options : ReadOptions
        Columns and how to read them.
    memory : str or None
        "4GB", "30%" of the free memory, or a quarter of it.
    """
    budget = memory_budget(memory)
    left_out = {options.label, options.id, *options.drop}
    sizes = [
        (path, rows_size(path, options.format, left_out)) for path in (*sources_of(source), target)
    ]
    total = sum(size for _, size in sizes)
    if total <= budget:
        return None
    why = f"more than the {format_bytes(budget)} that rows may take (--memory)"
    for path, size in sizes:
        if size and not is_parquet(path, options.format):
            raise InputError(
                f"{path} is too large ({format_bytes(size)}; with the others "
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


def _quiet(sentence: str) -> None:
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
    announce: Callable[[str], None] = _quiet,
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
    for path in (*sources, target):
        if not is_parquet(path, options.format):
            raise InputError(f"{path} is not Parquet, which alone is read in batches: convert it.")
    classifier, notes = model_for(method, None, **parameters)
    checkpoint = None if cluster is not None else checkpoint_of(outputs)
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        announce(sentence)

    with ExitStack() as stack, _read_errors():
        client = None if cluster is None else stack.enter_context(cluster.client())
        progress(0.0, "reading labels")
        parts, mark, ignored = _parts(sources, target, options, memory, classifier.method)
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


def _parts(
    sources: Sequence[PathLike],
    target: PathLike,
    options: ReadOptions,
    memory: str | None,
    method: str,
) -> tuple[list[Part], Any, tuple[str, ...]]:
    """Rows of all sources and then of the target, the mark of unlabelled rows, and notes; after
    all quick checks.
    """
    features, notes = feature_columns(sources, target, options)
    labels, labelled_target = survey_labels(sources, target, options.label)
    if parse_method(method).class_mmd and not labelled_target:
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
        remove_stale(path)
