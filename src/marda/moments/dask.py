"""Moments of Dask collections, on the workers; the only module that imports dask.

Partitions are dealt out to *lanes*, a few per thread. A lane adds its partitions up one after the
other; then the lanes merge in a tree. So there are never more d×d blocks than lanes, however many
partitions there are. Every task is a pure function of its inputs: when a worker dies, Dask runs
again what was lost, from the rows, and no row can count twice.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any

import numpy as np

from marda._machine import available_cores
from marda.moments.accumulate import Collector, holds_mark, is_dask
from marda.moments.parquet import ROLES, ParquetRows, Part
from marda.moments.stats import Moments

#: Seconds to wait for a scheduler; one that runs answers in a fraction of one.
CONNECT_TIMEOUT = 5.0
LANES_PER_THREAD = 2
SPLIT_EVERY = 4


def _require(module: str) -> Any:
    """The module, or an ImportError that names the extra which brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".", maxsplit=1)[0]
        raise ImportError(
            f"{package} is needed here and could not be imported ({error}): "
            "pip install 'marda[dask]'."
        ) from error


@dataclass(frozen=True)
class _Options:
    unlabeled: Any = -1
    class_grams: bool = False
    nonnegative: bool = False


@dataclass(frozen=True)
class _Partial:
    """Statistics of some partitions, and whether the mark marked a row there."""

    moments: Moments
    marked: bool
    unlabeled: Any = -1

    def __add__(self, other: _Partial) -> _Partial:
        moments, marked = self.moments + other.moments, self.marked or other.marked
        if marked and holds_mark(moments.classes, self.unlabeled):
            raise ValueError(
                f"the mark of unlabelled target rows, {self.unlabeled!r}, is also a class of "
                "other rows: mark them otherwise, with unlabeled=…"
            )
        return _Partial(moments, marked, self.unlabeled)

    def __sizeof__(self) -> int:
        """Bytes of the arrays: the scheduler weighs these against moving rows."""
        values = vars(self.moments).values()
        return 64 + sum(v.nbytes for v in values if isinstance(v, np.ndarray))


# Tasks: pure functions that run on workers ------------------------------------------------------


def _collected(total: Collector) -> _Partial | None:
    if not total.n_rows:
        return None
    return _Partial(total.result(), total.mark_is_mark, total.unlabeled)


def _sum_of_block(X: Any, y: Any, domain: Any, options: _Options) -> _Partial | None:
    """The statistics of one partition; None if it is empty."""
    if X.shape[0] == 0:
        return None
    values = X.data if hasattr(X, "tocsr") else X
    if options.nonnegative and np.asarray(values).min(initial=0.0) < 0:
        raise ValueError("Poisson noise needs non-negative features, got negative ones.")
    total = Collector(unlabeled=options.unlabeled, class_grams=options.class_grams)
    total.add(X, y, domain)
    return _collected(total)


def _sum_of_group(place: tuple[int, int], part: Part, options: _Options) -> _Partial | None:
    """The statistics of one row group, read where this runs."""
    total = Collector(unlabeled=options.unlabeled, class_grams=options.class_grams)
    total.feature_names = np.array(part.rows.features, dtype=object)
    for X, y in part.rows.batches(*place):
        total.add_checked(X, y, np.full(len(X), part.domain, dtype=np.int64))
    return _collected(total)


def _more(total: Any, task: Callable[..., Any], *inputs: Any) -> Any:
    """The sum so far and that of one more place."""
    return _added([total, task(*inputs)])


def _added(parts: Sequence[Any]) -> Any:
    """The sum of parts; None stands for nothing."""
    there = [part for part in parts if part is not None]
    return reduce(add, there) if there else None


def _apply(block: Any, model: Any, method: Callable[[Any, Any], Any], empty: Any) -> Any:
    """A method of a fitted model on one block; on none of its rows, if it has none."""
    return np.asarray(method(model, block)) if block.shape[0] else empty


# Graphs -----------------------------------------------------------------------------------------


def moments_from_dask(
    X: Any,
    y: Any = None,
    sample_domain: Any = None,
    *,
    unlabeled: Any = -1,
    class_grams: bool = False,
    nonnegative: bool = False,
    lanes: int | None = None,
) -> Moments:
    """Statistics of Dask collections, summed on the workers.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows; chunk sizes may be unknown.
    y, sample_domain : Dask collections of as many chunks, arrays, or None
        As in `Moments.from_arrays`. Arrays in memory need known chunk sizes of X.
    unlabeled, class_grams
        As in `Moments.from_arrays`.
    nonnegative : bool, default=False
        Refuse negative values.
    lanes : int, default=None
        Partial statistics that exist at a time; None takes a few a thread.

    Returns
    -------
    Moments
        In this process.
    """
    X = _one_block_of_columns(X)
    blocks = _blocks(X)
    labels, domains = (
        _aligned(part, X, len(blocks), name)
        for part, name in ((y, "y"), (sample_domain, "sample_domain"))
    )
    options = _Options(unlabeled, class_grams, nonnegative)
    inputs = [(*one, options) for one in zip(blocks, labels, domains, strict=True)]
    return _moments_of(_in_lanes(_sum_of_block, inputs, lanes, _homes(X)))


def parquet_on_workers(
    paths: Sequence[str | os.PathLike[str]],
    *,
    label: str | None = None,
    domain: str | None = None,
    role: str = "source",
    features: Sequence[str] | None = None,
    unlabeled: Any = -1,
    class_grams: bool = False,
    memory: int | None = None,
    lanes: int | None = None,
) -> Moments:
    """`moments_from_parquet` with the row groups read on the workers, which must see the files.

    Rows do not travel: what moves is one set of statistics per lane.
    """
    if role not in ROLES:
        raise ValueError(f"role must be 'source' or 'target', got {role!r}.")
    rows = ParquetRows.open(paths, label=label, features=features, memory=memory)
    part = Part(rows, ROLES[role], domain)
    return part_on_workers(part, unlabeled=unlabeled, class_grams=class_grams, lanes=lanes)


def part_on_workers(
    part: Part, *, unlabeled: Any = -1, class_grams: bool = False, lanes: int | None = None
) -> Moments:
    """Statistics of the rows of one domain, whose row groups are read on the workers."""
    options = _Options(unlabeled, class_grams)
    total = sum_on_workers(_sum_of_group, part.rows.groups(), part, options, lanes=lanes)
    names = {} if part.name is None else {part.domain: part.name}
    return replace(_moments_of(total), domain_names=names)


def _moments_of(total: _Partial | None) -> Moments:
    if total is None:
        raise ValueError("no rows: all partitions are empty.")
    return total.moments


def sum_on_workers(
    task: Callable[..., Any], places: Sequence[Any], *shared: Any, lanes: int | None = None
) -> Any:
    """Σ task(place, *shared) over all places, on the workers: in lanes, then in a tree.

    `task` is a pure function whose results can be added (None: nothing to add); `shared` travels to
    every worker once.
    """
    delayed = _require("dask").delayed
    held = [delayed(one, pure=False, traverse=False) for one in shared]
    return _in_lanes(task, [(place, *held) for place in places], lanes)


def _in_lanes(
    task: Callable[..., Any],
    inputs: Sequence[tuple[Any, ...]],
    lanes: int | None,
    homes: dict[int, str] | None = None,
) -> Any:
    """Σ task(*one) over all inputs: lanes, then a tree; computed by the current scheduler."""
    dask = _require("dask")
    more = dask.delayed(_more, pure=False, traverse=False)
    join = dask.delayed(_added, pure=False)
    n_lanes = max(1, min(len(inputs), lanes or LANES_PER_THREAD * _n_threads()))
    ends = []
    for lane in _lanes(len(inputs), n_lanes, homes or {}):
        held = None
        for i in lane:
            held = more(held, task, *inputs[i])
        ends.append(held)
    while len(ends) > 1:
        ends = [join(ends[i : i + SPLIT_EVERY]) for i in range(0, len(ends), SPLIT_EVERY)]
    return dask.compute(ends[0])[0]


def _lanes(n_parts: int, n_lanes: int, homes: dict[int, str]) -> list[list[int]]:
    """Partitions of every lane: as many in each as can be, and those of one worker together."""
    order = sorted(range(n_parts), key=lambda i: (homes.get(i, ""), i))
    if len(set(homes.values())) <= 1:
        return [part.tolist() for part in np.array_split(order, n_lanes)]
    by_home: dict[str, list[int]] = {}
    for i in order:
        by_home.setdefault(homes.get(i, ""), []).append(i)
    lanes = []
    for parts in by_home.values():
        share = max(1, min(len(parts), round(n_lanes * len(parts) / n_parts)))
        lanes += [part.tolist() for part in np.array_split(parts, share)]
    return lanes


def _client() -> Any:
    """The client in charge, or None."""
    try:
        return _require("distributed").get_client()
    except (ImportError, ValueError):
        return None


def _homes(X: Any) -> dict[int, str]:
    """Where the partitions lie that were persisted on a cluster, so that rows need not move."""
    client = _client()
    if client is None:
        return {}
    futures = _require("distributed").futures_of(X)
    if not futures:
        return {}
    where = client.who_has(futures)
    keys = _require("dask.core").flatten(X.__dask_keys__())
    held = {i: where.get(key) for i, key in enumerate(keys)}
    return {i: workers[0] for i, workers in held.items() if workers}


def _n_threads() -> int:
    """Threads of the current cluster, or of this machine."""
    client = _client()
    if client is None:
        return available_cores()
    return max(1, int(sum(client.nthreads().values())))


def _one_block_of_columns(X: Any) -> Any:
    if getattr(X, "ndim", 2) != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D Dask array: X has rows and columns.")
    if _is_array(X) and X.numblocks[1] > 1:
        return X.rechunk({1: -1})
    return X


def _is_array(collection: Any) -> bool:
    return hasattr(collection, "chunks")


def _blocks(collection: Any) -> list[Any]:
    """The partitions as delayed values, in order."""
    return list(np.asarray(collection.to_delayed(), dtype=object).ravel())


def _known(collection: Any) -> bool:
    return _is_array(collection) and not np.isnan(collection.chunks[0]).any()


def _aligned(part: Any, X: Any, n_blocks: int, name: str) -> list[Any]:
    """The pieces of y or sample_domain that go with the blocks of X."""
    if part is None:
        return [None] * n_blocks
    if not is_dask(part):
        if not _known(X):
            raise ValueError(
                f"{name} is in memory and the chunk sizes of X are not known: give {name} as a "
                "Dask collection, or call X.compute_chunk_sizes() first."
            )
        part = np.asarray(part)
        if len(part) != X.shape[0]:
            raise ValueError(f"{name} has {len(part)} values but X has {X.shape[0]} rows.")
        return list(np.split(part, np.cumsum(X.chunks[0])[:-1]))
    if _known(X) and _known(part):
        if part.shape[0] != X.shape[0]:
            raise ValueError(f"{name} has {part.shape[0]} values but X has {X.shape[0]} rows.")
        if part.chunks[0] != X.chunks[0]:
            part = part.rechunk({0: X.chunks[0]})
    blocks = _blocks(part)
    if len(blocks) != n_blocks:
        raise ValueError(
            f"{name} has {len(blocks)} partitions and X has {n_blocks}, and their sizes are not "
            "known: give both the same partitions."
        )
    return blocks


def _a_row(dtypes: Any) -> Any:
    """A DataFrame of one row of zeros, with these columns."""
    pandas = _require("pandas")
    columns = [pandas.Series([0]).astype(dtype) for dtype in dtypes]
    return pandas.concat(columns, axis=1, keys=dtypes.index)


def apply_blockwise(method: Callable[[Any, Any], Any], model: Any, X: Any) -> Any:
    """A method of a fitted model on a Dask collection: a lazy array, one block per block of X."""
    da = _require("dask.array")
    X = _one_block_of_columns(X)
    sample = np.zeros((1, X.shape[1]), X.dtype) if _is_array(X) else _a_row(X.dtypes)
    like = np.asarray(method(model, sample))
    empty = like[:0]
    dask = _require("dask")
    held = dask.delayed(model, pure=False, traverse=False)  # one copy in the graph
    if _is_array(X):
        more = {"drop_axis": 1} if like.ndim == 1 else {"chunks": (X.chunks[0], like.shape[1:])}
        return da.map_blocks(
            _apply,
            X,
            model=held,
            method=method,
            empty=empty,
            dtype=like.dtype,
            meta=empty,
            name=f"marda-{method.__name__}-{uuid.uuid4().hex}",
            **more,
        )
    call = dask.delayed(_apply, pure=False)
    parts = [
        da.from_delayed(call(block, held, method, empty), (np.nan, *like.shape[1:]), meta=empty)
        for block in _blocks(X)
    ]
    return da.concatenate(parts, allow_unknown_chunksizes=True)


# Clusters ---------------------------------------------------------------------------------------


def connect(address: str, *, timeout: float = CONNECT_TIMEOUT) -> Any:
    """A client of the scheduler at an address; one clear error if it does not answer in time."""
    distributed = _require("distributed")
    try:
        return distributed.Client(address, timeout=timeout, set_as_default=True)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} within {timeout:g} s ({reason}): is it "
            "running, and is the address the one that it prints?"
        ) from error


def start_local(n_workers: int | None = None) -> Any:
    """A client of worker processes on this machine; closing it ends them."""
    distributed = _require("distributed")
    return distributed.Client(
        n_workers=n_workers or available_cores(),
        threads_per_worker=1,
        processes=True,
        memory_limit="auto",
        dashboard_address=":0",  # a free port: the usual one may be taken by another cluster
        silence_logs=logging.ERROR,  # that a worker was slow to end is no news
    )
