"""Names → the modules that hold them: of data sets, and of collections of tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from marda.datasets import (
    amt,
    generated,
    public_tables,
    sentiment_snippets,
    skada_bench,
)
from marda.datasets.base import DataError, Dataset, Task, known_sha256
from marda.datasets.images import OC10, OFF31
from marda.datasets.storage import ENVIRONMENT, Location, download
from marda.datasets.tasks import make_task

Folder: TypeAlias = str | os.PathLike[str] | None


class _Entry(NamedTuple):
    """How one data set is read and found in a folder, and the checksums of its files."""

    load: Callable[[Folder], Dataset]
    locate: Callable[[Folder], Location]
    known: Mapping[str, str]


_ENTRIES = {
    module.NAME: _Entry(module.load, module.locate, module.KNOWN)
    for module in (sentiment_snippets, amt, skada_bench)
} | {
    family.title(variant): _Entry(
        partial(family.load, variant), partial(family.locate, variant), family.known
    )
    for family in (OC10, OFF31)
    for variant in (None, *family.variants)
}
_ENTRIES |= {
    table.name: _Entry(table.load, table.locate, table.known)
    for table in public_tables.EMBEDDED.values()
}


@dataclass(frozen=True)
class FileCheck:
    """One file found: ``ok`` is None where its content is not known to marda."""

    file: Path
    sha256: str
    ok: bool | None


def names() -> tuple[str, ...]:
    """Return every name that `load` accepts.

    A bare ``oc10`` or ``off31`` stands for the first kind of features that is found.
    """
    return tuple(_ENTRIES)


def load(name: str, path: Folder = None, *, verify: bool = False) -> Dataset:
    """Load a data set by name; rows are read when a domain is first used.

    Parameters
    ----------
    name : str
        One of `names`.
    path : str or path-like, optional
        Folder (or one file in it) to look in instead of ``MARDA_DATA``.
    verify : bool, default=False
        Compare files with the checksums known to marda. Embedded data always are.

    Returns
    -------
    Dataset

    Raises
    ------
    MissingData
        In one sentence: what is missing, where it was looked for, accepted file names.
    ChecksumError
        With ``verify=True``, if a known file differs.
    """
    dataset = _entry(name).load(path)
    if verify:
        dataset.verify()
    return dataset


def locate(name: str, path: Folder = None) -> Location:
    """Tell where a data set is looked for and which files are there.

    Parameters
    ----------
    name : str
        One of `names`.
    path : str or path-like, optional
        Folder to look in instead of ``MARDA_DATA``.

    Returns
    -------
    Location
        ``str(location)`` is one line for a reader.
    """
    return _entry(name).locate(path)


def check(name: str, path: Folder = None) -> tuple[FileCheck, ...]:
    """Compare the files of a data set with the checksums known to marda.

    Parameters
    ----------
    name, path : as for `locate`
        Which files.

    Returns
    -------
    tuple of FileCheck
        One per file.
    """
    location = locate(name, path)
    if location.layout is None:
        raise location.missing()
    known = _entry(name).known
    checks = []
    for file in location.files.values():
        got, expected = known_sha256(file), known.get(file.name)
        checks.append(FileCheck(file, got, None if expected is None else got == expected))
    return tuple(checks)


def fetch(name: str, path: Folder = None) -> tuple[Path, ...]:
    """Download a data set that has a stable public address.

    Parameters
    ----------
    name : str
        Only ``"amt"`` at present; the image features have no such address.
    path : str or path-like, optional
        Folder to write into instead of ``MARDA_DATA``.

    Returns
    -------
    tuple of Path
        The files, each with its checksum verified. Those already there are not fetched again.
    """
    if name != amt.NAME:
        raise DataError(
            f"{name} has no stable public address: put its files into the folder that "
            f"{ENVIRONMENT} names; accepted file names: {locate(name, path).accepted}."
        )
    folder = os.fspath(path) if path is not None else os.environ.get(ENVIRONMENT, "")
    if not folder:
        raise DataError(f"No folder to download {name} to: set {ENVIRONMENT} or give a path.")
    return tuple(
        download(url, Path(folder) / file, sha256=amt.KNOWN[file])
        for file, url in amt.REMOTE.items()
    )


def _entry(name: str) -> _Entry:
    """One of the table; an unknown name says which there are."""
    if name not in _ENTRIES:
        raise DataError(f"Unknown data set {name!r}: choose from {', '.join(names())}.")
    return _ENTRIES[name]


# Collections of tasks: rows and features differ from task to task ---------------------------------

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
    present: Callable[[Folder], tuple[str, ...]]
    read: Callable[[str, int, Folder], tuple[Dataset, tuple[str, str]]]


def named_task(collection: str, task: str, draw: int = 0, path: Folder = None) -> Task:
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


def _skada_present(path: Folder) -> tuple[str, ...]:
    """Tasks that the file has in every split."""
    held = set(skada_bench.load(path).pairs())
    return tuple(
        task
        for task in skada_bench.TASKS
        if all(skada_bench.domains_of(task, k) in held for k in range(skada_bench.SPLITS))
    )


def _read_skada(task: str, draw: int, path: Folder) -> tuple[Dataset, tuple[str, str]]:
    return skada_bench.load(path), skada_bench.domains_of(task, draw)


def _tables_present(path: Folder) -> tuple[str, ...]:
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
            tuple(generated.CHANGES),
            1,
            lambda path: tuple(generated.CHANGES),
            lambda task, draw, path: (generated.changed_digits(task), _ENDS),
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
