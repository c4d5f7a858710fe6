"""Collections of tasks that have names of their own rather than domains that all share features."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from marda.datasets import skada_bench
from marda.datasets.base import DataError, Dataset, Task
from marda.datasets.collections import changed_digits, generated, public_tables
from marda.datasets.tasks import make_task

Path: TypeAlias = str | os.PathLike[str] | None
_ENDS = ("source", "target")


@dataclass(frozen=True)
class Collection:
    """Tasks by name, each in one or several draws of its rows.

    Attributes
    ----------
    name : str
        The collection.
    tasks : tuple of str
        Every task it has.
    draws : int
        Splits or seeds of each.
    present : callable
        Given a folder, the tasks that are there; raises `MissingData` if none can be.
    read : callable
        Given a task, a draw and a folder: a data set and the names of its source and target.
    """

    name: str
    tasks: tuple[str, ...]
    draws: int
    present: Callable[[Path], tuple[str, ...]]
    read: Callable[[str, int, Path], tuple[Dataset, tuple[str, str]]]


def named_task(collection: str, task: str, draw: int = 0, path: Path = None) -> Task:
    """Rows of one task of a collection; no target row is labelled.

    Parameters
    ----------
    collection : {"skada-bench", "generated", "digits", "tables"}
        Its name in `COLLECTIONS`.
    task : str
        One of the collection's ``tasks``.
    draw : int, default=0
        Number of the split or of the seed.
    path : str or path-like, optional
        Folder to look in instead of ``MARDA_DATA``.

    Returns
    -------
    Task
        Rows as they are; accuracy is measured on ``X_test``.

    Examples
    --------
    >>> from marda.datasets import named_task
    >>> named_task("generated", "five rows", draw=3).X_target.shape
    (5, 10)
    """
    if collection not in COLLECTIONS:
        raise DataError(f"no collection {collection!r}: choose from {', '.join(COLLECTIONS)}.")
    found = COLLECTIONS[collection]
    if task not in found.tasks:
        some = ", ".join(found.tasks[:8])
        raise DataError(f"{collection} has no task {task!r}: choose from {some}, ….")
    if not 0 <= draw < found.draws:
        raise DataError(f"draw={draw}: {collection} has draws 0 … {found.draws - 1}.")
    dataset, (source, target) = found.read(task, draw, path)
    return make_task(dataset, source, target)


def _skada_present(path: Path) -> tuple[str, ...]:
    """Tasks that the file has in every split."""
    held = set(skada_bench.load(path).pairs())
    return tuple(
        task
        for task in skada_bench.TASKS
        if all(skada_bench.domains_of(task, k) in held for k in range(skada_bench.SPLITS))
    )


def _read_skada(task: str, draw: int, path: Path) -> tuple[Dataset, tuple[str, str]]:
    return skada_bench.load(path), skada_bench.domains_of(task, draw)


def _tables_present(path: Path) -> tuple[str, ...]:
    public_tables.require()
    return public_tables.TASKS


COLLECTIONS = {
    collection.name: collection
    for collection in (
        Collection(
            skada_bench.NAME, skada_bench.TASKS, skada_bench.SPLITS, _skada_present, _read_skada
        ),
        Collection(
            "generated",
            tuple(generated.CASES),
            generated.SEEDS,
            lambda path: tuple(generated.CASES),
            lambda task, draw, path: (generated.make_case(task, draw), _ENDS),
        ),
        Collection(
            "digits",
            changed_digits.TASKS,
            1,
            lambda path: changed_digits.TASKS,
            lambda task, draw, path: (changed_digits.load(task), _ENDS),
        ),
        Collection(
            "tables",
            public_tables.TASKS,
            1,
            _tables_present,
            lambda task, draw, path: (public_tables.load(task), _ENDS),
        ),
    )
}
"""Every collection by its name."""
