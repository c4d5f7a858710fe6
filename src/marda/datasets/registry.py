"""Names of data sets → the modules that hold them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from marda.datasets import amt, sentiment_snippets, skada_bench
from marda.datasets.base import DataError, Dataset, known_sha256
from marda.datasets.download import Progress, download
from marda.datasets.oc10 import OC10
from marda.datasets.off31 import OFF31
from marda.datasets.readers import ENVIRONMENT, Layout, Location

_IMAGES = {family.name: family for family in (OC10, OFF31)}


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
    found = [sentiment_snippets.NAME, amt.FAMILY, skada_bench.NAME]
    for family in _IMAGES.values():
        found += [family.name, *(f"{family.name}-{variant}" for variant in family.variants)]
    return tuple(found)


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
    family, variant = _parse(name)
    if family == sentiment_snippets.NAME:
        return sentiment_snippets.load()
    if family == amt.FAMILY:
        dataset = amt.load(path)
    elif family == skada_bench.NAME:
        dataset = skada_bench.load(path)
    else:
        dataset = _IMAGES[family].load(variant, path)
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
    family, variant = _parse(name)
    if family == sentiment_snippets.NAME:
        file = sentiment_snippets.FILE
        layout = Layout("embedded", {"all": (file.name,)})
        return Location(name, (file.parent,), layout, {"all": file}, (layout,))
    if family == amt.FAMILY:
        return amt.locate(path)
    if family == skada_bench.NAME:
        return skada_bench.locate(path)
    return _IMAGES[family].locate(variant, path)


def check(name: str, path: str | os.PathLike[str] | None = None) -> tuple[FileCheck, ...]:
    """Compare the files of a data set with the checksums known to marda.

    Parameters
    ----------
    name : str
        One of `names`.
    path : str or path-like, optional
        Folder to look in instead of ``MARDA_DATA``.

    Returns
    -------
    tuple of FileCheck
        One per file.
    """
    location = locate(name, path)
    if location.layout is None:
        raise location.missing()
    known = _known(_parse(name)[0])
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
    family, _ = _parse(name)
    if family != amt.FAMILY:
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


def _parse(name: str) -> tuple[str, str | None]:
    """Split a name into family and variant; an unknown one says which there are."""
    if name not in names():
        raise DataError(f"Unknown data set {name!r}: choose from {', '.join(names())}.")
    if name in (sentiment_snippets.NAME, amt.FAMILY, skada_bench.NAME):
        return name, None
    family, _, variant = name.partition("-")
    return family, variant or None


def _known(family: str) -> dict[str, str]:
    """Return the checksums known for a family."""
    if family == sentiment_snippets.NAME:
        return {sentiment_snippets.FILE.name: sentiment_snippets.SHA256}
    if family == skada_bench.NAME:
        return dict(skada_bench.KNOWN)
    return dict(amt.KNOWN if family == amt.FAMILY else _IMAGES[family].known)
