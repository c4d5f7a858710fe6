"""Names of data sets → the modules that hold them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from marda.datasets import amt, sentiment_snippets, skada_bench
from marda.datasets.base import DataError, Dataset, known_sha256
from marda.datasets.download import Progress, download
from marda.datasets.images import OC10, OFF31
from marda.datasets.readers import ENVIRONMENT, Location


class _Entry(NamedTuple):
    """How one data set is read and found in a folder, and the checksums of its files."""

    load: Callable[[str | os.PathLike[str] | None], Dataset]
    locate: Callable[[str | os.PathLike[str] | None], Location]
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


def load(name: str, path: str | os.PathLike[str] | None = None, *, verify: bool = False) -> Dataset:
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


def locate(name: str, path: str | os.PathLike[str] | None = None) -> Location:
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


def check(name: str, path: str | os.PathLike[str] | None = None) -> tuple[FileCheck, ...]:
    """Compare the files of a data set with the checksums known to marda.

    Parameters
    ----------
    name, path
        As for `locate`.

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


def fetch(
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Download a data set that has a stable public address.

    Parameters
    ----------
    name : str
        Only ``"amt"`` at present; the image features have no such address.
    path : str or path-like, optional
        Folder to write into instead of ``MARDA_DATA``.
    progress : callable, optional
        See `download`.

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
        download(url, Path(folder) / file, sha256=amt.KNOWN[file], progress=progress)
        for file, url in amt.REMOTE.items()
    )


def _entry(name: str) -> _Entry:
    """One of the table; an unknown name says which there are."""
    if name not in _ENTRIES:
        raise DataError(f"Unknown data set {name!r}: choose from {', '.join(names())}.")
    return _ENTRIES[name]
