"""The shapes data take, `Dataset` as stored and `Task` as learned from, and what can go wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = Any  # dense ndarray or scipy CSR matrix; scipy ships no types
Kind = Literal["image", "surf", "text", "generated", "table"]
Part = Literal["all", "train", "test"]
Setting = Literal["US", "SUP", "SS"]


class DataError(ValueError):
    """Anything wrong with a data set: base of the errors below."""


class MissingData(DataError, FileNotFoundError):
    """Files are not where they were looked for."""


class FormatError(DataError):
    """A file was found but does not hold what its name promises."""


class ChecksumError(DataError):
    """The bytes of a file are not the expected ones."""


class DownloadError(DataError, OSError):
    """A file could not be fetched."""


@dataclass(frozen=True, eq=False)
class Domain:
    """The rows of one domain.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        Features as stored, before any protocol. Read-only, because domains are cached.
    y : ndarray of shape (n,)
        Class numbers, ``0 … len(dataset.names) - 1``.
    train : ndarray of bool of shape (n,), or None
        The official training rows; None where the benchmark has no official split.
    rating : ndarray of shape (n,), or None
        The real-valued annotation behind ``y``, where there is one.
    """

    X: Rows
    y: NDArray[np.int64]
    train: NDArray[np.bool_] | None = None
    rating: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        """Refuse rows and labels that do not belong together; lock the arrays."""
        if self.X.ndim != 2 or self.X.shape[0] != self.y.shape[0]:
            raise DataError(
                f"X has shape {self.X.shape} and y {self.y.shape}: give one label per row of X."
            )
        locked = self.X if isinstance(self.X, np.ndarray) else self.X.data
        for array in (locked, self.y, self.train, self.rating):
            if array is not None:
                array.flags.writeable = False

    def __len__(self) -> int:
        return int(self.y.shape[0])

    def part(self, which: Part = "all") -> tuple[Rows, NDArray[np.int64]]:
        """Return ``(X, y)`` of all rows or of one side of the official split."""
        if which == "all":
            return self.X, self.y
        if self.train is None:
            raise DataError(f"part={which!r} but the data set has no official split: use 'all'.")
        mask = self.train if which == "train" else ~self.train
        return self.X[mask], self.y[mask]


class LazyDomains(Mapping[str, Domain]):
    """A mapping that reads a domain when it is first asked for, and keeps it."""

    def __init__(self, loaders: Mapping[str, Callable[[], Domain]]) -> None:
        self._loaders = dict(loaders)
        self._read: dict[str, Domain] = {}

    def __getitem__(self, name: str) -> Domain:
        if name not in self._read:
            self._read[name] = self._loaders[name]()
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaders  # the inherited one would read the domain to find out

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)

    def __repr__(self) -> str:
        return f"LazyDomains({', '.join(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Rows stay behind: another process reads the files again rather than a copy of them.
        return LazyDomains, (self._loaders,)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Several domains that share features and classes.

    Attributes
    ----------
    name : str
        The name with its variant, such as ``"oc10-surf"``.
    domains : mapping of str to Domain
        Read on first access.
    names : tuple of str
        Class names; ``y == i`` means ``names[i]``.
    licence, citation, notes : str
        Terms, whom to cite, and what a reader of figures must know.
    kind : {"image", "surf", "text", "generated", "table"}
        Which protocol of `marda.datasets.tasks` prepares the rows; those of tables and
        generated ones are taken as they are.
    files : tuple of Path
        What the rows are read from.
    known : mapping of str to str
        SHA-256 by file name, for files whose content is known.
    identity : str
        Stands for the content where there are no files (generated data).
    own_pairs : tuple of (str, str), or None
        The pairs that share features, where not all do.
    """

    name: str
    domains: Mapping[str, Domain]
    names: tuple[str, ...]
    licence: str
    citation: str
    notes: str = ""
    kind: Kind = "image"
    files: tuple[Path, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict, repr=False)
    identity: str = field(default="", repr=False)
    read_feature_names: Callable[[], tuple[str, ...]] | None = field(default=None, repr=False)
    own_pairs: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)

    def __getitem__(self, domain: str) -> Domain:
        """Return one domain; an unknown name says which there are."""
        if domain not in self.domains:
            raise DataError(
                f"{self.name} has no domain {domain!r}: choose from {', '.join(self.domains)}."
            )
        return self.domains[domain]

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the columns, or None where the benchmark does not tell."""
        return None if self.read_feature_names is None else self.read_feature_names()

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the file; of the sorted list of sums if there are several files."""
        if not self.files:
            return hashlib.sha256(self.identity.encode()).hexdigest()
        sums = sorted(f"{known_sha256(file)}  {file.name}\n" for file in self.files)
        listed = "".join(sums).encode()
        return sums[0].split()[0] if len(sums) == 1 else hashlib.sha256(listed).hexdigest()

    def verify(self) -> None:
        """Raise `ChecksumError` for the first file that differs from the known one."""
        for file in self.files:
            expected = self.known.get(file.name)
            if expected is not None and (got := known_sha256(file)) != expected:
                raise ChecksumError(
                    f"{file} has sha256 {got[:16]}…, expected {expected[:16]}…: "
                    "fetch the file again, or rename it if it is meant to differ."
                )

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All ordered (source, target) pairs, 12 for four domains; or the data set's own."""
        return tuple(permutations(self.domains, 2)) if self.own_pairs is None else self.own_pairs


@dataclass(frozen=True, eq=False)
class Task:
    """One source → target problem with its rows prepared.

    Attributes
    ----------
    X_source, y_source
        Labelled source rows.
    X_target, y_target
        Target rows that training may see. ``y_target`` holds the true classes of all of them;
        only rows marked in ``labelled`` may be used as labels (`y_visible`).
    labelled : ndarray of bool
        Marks the labelled target rows; all False in US, all True in SUP.
    X_test, y_test
        Target rows that the accuracy is measured on.
    names : tuple of str
        Class names.
    checksum : str
        Identifies data, pair, protocol and draw; the same on every machine.
    """

    dataset: str
    source: str
    target: str
    setting: Setting
    X_source: Rows
    y_source: NDArray[np.int64]
    X_target: Rows
    y_target: NDArray[np.int64]
    labelled: NDArray[np.bool_]
    X_test: Rows
    y_test: NDArray[np.int64]
    names: tuple[str, ...]
    checksum: str

    @property
    def name(self) -> str:
        """Such as ``amazon→webcam``."""
        return f"{self.source}→{self.target}"

    @property
    def y_visible(self) -> NDArray[np.int64]:
        """``y_target`` with -1 for rows whose class training may not see."""
        return np.where(self.labelled, self.y_target, -1)


def sha256_of(file: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def known_sha256(file: Path) -> str:
    """The same, kept as long as size and time of the file do not change."""
    stat = file.stat()
    return _sha256(str(file), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256(file: str, size: int, mtime: int) -> str:
    """Hash the file; size and time are only keys of the cache."""
    return sha256_of(file)
