"""Where data are looked for, and under which file names."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from marda.datasets._errors import MissingData

ENVIRONMENT = "MARDA_DATA"


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


def sha256_of(file: Path) -> str:
    """SHA-256 of a file's bytes; kept as long as size and time of the file do not change."""
    stat = file.stat()
    return _sha256(str(file), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(file: str, size: int, mtime: int) -> str:
    """Hash the file; size and time are only keys of the cache."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
