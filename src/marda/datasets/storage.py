"""Files of data: how they are fetched, where they are looked for, how they become a `Domain`.

Nothing here knows a particular data set, and nothing unpickles.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from marda import _array_files
from marda._array_files import MatlabError, read_mat
from marda.datasets.base import (
    ChecksumError,
    Domain,
    DownloadError,
    FormatError,
    MissingData,
    Rows,
    sha256_of,
)

ENVIRONMENT = "MARDA_DATA"
MAT_FEATURES = ("feas", "fts")
LABEL_COLUMNS = ("label", "labels", "class", "y")


# Where files are ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """One way the files of a data set may be spelled.

    ``parts`` maps a part (a domain, or ``"all"`` for a file that holds every domain) to the file
    names accepted for it.
    """

    variant: str
    parts: Mapping[str, tuple[str, ...]]

    @property
    def accepted(self) -> str:
        """The file names, for a message."""
        return ", ".join(" or ".join(names) for names in self.parts.values())


@dataclass(frozen=True)
class Location:
    """Where a data set is looked for and what is there.

    Attributes
    ----------
    name : str
        The data set.
    folders : tuple of Path
        Searched in this order; empty if no folder was named.
    layout : Layout or None
        The spelling found; None if nothing was.
    files : mapping of str to Path
        The files found, by part.
    layouts : tuple of Layout
        All accepted spellings.
    """

    name: str
    folders: tuple[Path, ...]
    layout: Layout | None
    files: Mapping[str, Path]
    layouts: tuple[Layout, ...]

    @property
    def complete(self) -> bool:
        """Whether every part of the spelling was found."""
        return self.layout is not None and len(self.files) == len(self.layout.parts)

    @property
    def accepted(self) -> str:
        """All accepted file names, for a message."""
        return "; or ".join(layout.accepted for layout in self.layouts)

    def missing(self, what: str = "") -> MissingData:
        """Return the error: one sentence on what is missing, where, and what would do."""
        where = (
            "in " + " and ".join(map(str, self.folders))
            if self.folders
            else f"nowhere, because {ENVIRONMENT} is not set and no path was given"
        )
        names = ", ".join(file.name for file in self.files.values())
        found = f", found only {names}" if names else ""
        return MissingData(
            f"Data of {what or self.name} are missing: looked for {where}{found}; "
            f"accepted file names: {self.accepted}."
        )

    def __str__(self) -> str:
        if self.layout is None:
            return str(self.missing())
        found = ", ".join(str(file) for file in self.files.values())
        return f"{self.name}: {found}" + ("" if self.complete else " (incomplete)")


def search_folders(family: str, path: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """Return the named folder (else MARDA_DATA) and its subfolder ``family``."""
    named = os.fspath(path) if path is not None else os.environ.get(ENVIRONMENT, "")
    if not named:
        return ()
    folder = Path(named).expanduser()
    if folder.is_file():  # a file stands for its folder, so that both spellings work
        folder = folder.parent
    return (folder, folder / family)


def find(
    name: str, family: str, layouts: Sequence[Layout], path: str | os.PathLike[str] | None
) -> Location:
    """Look for the first complete spelling, else for the first of which a part exists."""
    folders = search_folders(family, path)
    partial: Location | None = None
    for layout in layouts:
        files = _matches(layout, folders)
        here = Location(name, folders, layout, files, tuple(layouts))
        if here.complete:
            return here
        if files and partial is None:
            partial = here
    return partial or Location(name, folders, None, {}, tuple(layouts))


def _matches(layout: Layout, folders: Sequence[Path]) -> dict[str, Path]:
    """Return the first existing file of every part."""
    found = {}
    for part, names in layout.parts.items():
        candidates = (folder / name for folder in folders for name in names)
        file = next((file for file in candidates if file.is_file()), None)
        if file is not None:
            found[part] = file
    return found


# What they hold -----------------------------------------------------------------------------------


@contextmanager
def open_npz(file: Path) -> Iterator[_array_files.Npz]:
    """Open an npz file without pickle; a damaged one gives one sentence."""
    try:
        with _array_files.open_npz(file) as archive:
            yield archive
    except _array_files.NpzError as error:
        raise FormatError(f"{file} is no readable npz ({error}): fetch it again.") from error


def array_of(archive: _array_files.Npz, key: str, file: Path) -> NDArray[Any]:
    """Return one array of an npz file; name what is there if it is missing."""
    if key not in archive.files:
        raise FormatError(
            f"{file} has no array {key!r}, only {', '.join(archive.files) or 'none'}."
        )
    return archive[key]


def npz_domain(file: Path, domain: str, n_classes: int) -> Domain:
    """Read ``<domain>_X`` and ``<domain>_y`` (classes from 0)."""
    with open_npz(file) as archive:
        X = array_of(archive, f"{domain}_X", file)
        y = array_of(archive, f"{domain}_y", file)
    # float16 is a storage format: sums over thousands of columns overflow in it.
    X = X.astype(np.float32) if X.dtype.itemsize < 4 or X.dtype.kind != "f" else X
    return Domain(finite(X, file), class_numbers(y, n_classes, file, one_based=False))


def mat_domain(file: Path, n_classes: int) -> Domain:
    """Read ``feas`` or ``fts`` and ``labels`` (classes from 1 unless a 0 occurs)."""
    try:
        content = read_mat(file, (*MAT_FEATURES, "labels"))
    except MatlabError as error:
        raise FormatError(f"{file} is no readable .mat file ({error}): fetch it again.") from error
    key = next((key for key in MAT_FEATURES if key in content), None)
    if key is None or "labels" not in content:
        raise FormatError(f"{file} must hold 'feas' or 'fts', and 'labels': rename its variables.")
    X: Rows = content[key]
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    X = np.array(X, dtype=dtype) if isinstance(X, np.ndarray) else sparse.csr_matrix(X)
    y = class_numbers(content["labels"].ravel(), n_classes, file, one_based=True)
    if X.shape[0] != y.shape[0]:
        hint = "transpose it" if X.shape[1] == y.shape[0] else "check the file"
        raise FormatError(f"{file}: {key!r} is {X.shape} for {y.shape[0]} labels: {hint}.")
    return Domain(finite(X, file), y)


def csv_domain(file: Path, class_names: Sequence[str]) -> Domain:
    """Read ``feature…,label`` with or without a header; labels are numbers or class names.

    The label is the last column unless the header calls another one ``label``. Numbers count from
    0; they count from 1 if the largest possible one occurs.
    """
    features: list[NDArray[np.float32]] = []
    labels: list[str] = []
    at, width = -1, 0
    with open(file, newline="", encoding="utf-8-sig") as stream:
        for number, row in enumerate(_fields(file, stream), 1):
            if not row:
                continue
            if not width:
                width = len(row)
                if _is_header(row):
                    at = _label_column(row)
                    continue
            if len(row) != width or width < 2:
                raise FormatError(
                    f"{file}, line {number}: {len(row)} fields, expected {width or 2}."
                )
            labels.append(row.pop(at).strip())
            try:  # a row at a time: a list of all fields would need many times the memory
                features.append(np.array(row, dtype=np.float32))
            except ValueError as error:
                raise FormatError(f"{file}, line {number}: no number ({error}).") from error
    if not features:
        raise FormatError(f"{file} has no rows: expected lines 'feature…,label'.")
    X = np.array(features)
    n_classes = len(class_names)
    if not _numeric(labels):
        number_of = {name: i for i, name in enumerate(class_names)}
        unknown = sorted(set(labels) - set(number_of))
        if unknown:
            raise FormatError(
                f"{file}: unknown class {unknown[0]!r}: use 0 … {n_classes - 1} or the names "
                f"{', '.join(class_names)}."
            )
        return Domain(finite(X, file), np.array([number_of[label] for label in labels], np.int64))
    y = np.array(labels, dtype=float)
    return Domain(
        finite(X, file), class_numbers(y, n_classes, file, one_based=y.max() == n_classes)
    )


def _fields(file: Path, stream: Iterable[str]) -> Iterator[list[str]]:
    """Rows of a CSV file; damaged text gives one sentence."""
    try:
        yield from csv.reader(stream)
    except (csv.Error, UnicodeDecodeError) as error:
        raise FormatError(f"{file} is no readable CSV file ({error}): fetch it again.") from error


def class_numbers(
    y: NDArray[Any], n_classes: int, file: Path, *, one_based: bool
) -> NDArray[np.int64]:
    """Return labels as ``0 … n_classes - 1``; refuse anything else."""
    if y.dtype.kind not in "iufb" or y.size == 0 or not np.all(np.isfinite(y) & (y == np.rint(y))):
        raise FormatError(f"{file}: labels must be whole numbers, one per row.")
    classes: NDArray[np.int64] = y.astype(np.int64)
    if one_based and classes.min() > 0:
        classes = classes - 1
    if classes.min() < 0 or classes.max() >= n_classes:
        raise FormatError(
            f"{file}: labels {y.min():g} … {y.max():g} do not fit the {n_classes} classes: "
            "is it the file of another data set?"
        )
    return classes


def finite(X: Rows, file: Path) -> Rows:
    """Return X; refuse NaN and infinity."""
    values = X if isinstance(X, np.ndarray) else X.data
    if not np.isfinite(values).all():
        raise FormatError(f"{file} holds NaN or infinity: remove or impute those values.")
    return X


def _numeric(fields: Sequence[str]) -> bool:
    """Whether every field is a number."""
    try:
        [float(field) for field in fields]
    except ValueError:
        return False
    return True


def _is_header(row: Sequence[str]) -> bool:
    """Whether the first line names columns (names may be numbers, the label's may not)."""
    return not _numeric(row[:-1]) or row[-1].strip().lower() in LABEL_COLUMNS


def _label_column(header: Sequence[str]) -> int:
    """Return the place of the label column, the last one unless the header says otherwise."""
    names = [name.strip().lower() for name in header]
    return next((names.index(name) for name in LABEL_COLUMNS if name in names), -1)


# Over HTTP: verified, and never half there --------------------------------------------------------


def download(
    url: str, path: str | os.PathLike[str], *, sha256: str | None = None, timeout: float = 30.0
) -> Path:
    """Download one file; its name appears only when all of it is there and the checksum is right.

    Parameters
    ----------
    url : str
        An ``http`` or ``https`` address.
    path : str or path-like
        The final file name; its folder is created.
    sha256 : str, optional
        Expected checksum. Without one, the length announced by the server is the only check.
    timeout : float, default=30
        Seconds without an answer before giving up.

    Returns
    -------
    Path
        The file. One that is already there is not fetched again.

    Raises
    ------
    DownloadError
        No network, a refusal of the server, a cut connection.
    ChecksumError
        The bytes are not the expected ones.
    """
    final = Path(path)
    if not url.startswith(("http://", "https://")):
        raise DownloadError(f"Cannot download {url}: only http and https addresses are supported.")
    if final.exists():
        if sha256 is not None and (got := sha256_of(final)) != sha256.lower():
            raise ChecksumError(
                f"{final} is there with sha256 {got[:16]}…, expected {sha256[:16]}…: delete it to "
                "download it again."
            )
        return final
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            content = answer.read()  # fewer bytes than announced are an error
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(
            f"Cannot download {url}: the server answered {error.code} {error.reason}."
        ) from error
    except (http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DownloadError(
            f"Cannot download {url} ({reason}): check the network and try again."
        ) from error
    got = hashlib.sha256(content).hexdigest()
    if sha256 is not None and got != sha256.lower():
        raise ChecksumError(
            f"{url} gave sha256 {got[:16]}…, expected {sha256[:16]}…: the bytes were thrown away; "
            "try again, and do not use the address if it happens twice."
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    part = final.with_name(f"{final.name}.part")
    part.write_bytes(content)
    os.replace(part, final)
    return final
