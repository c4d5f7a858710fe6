"""Two files become the arrays of a fit."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.io import (
    InputError,
    Preprocessing,
    fit_preprocessing,
    read_labels,
    read_table,
    stack_sources,
)
from marda.io.table import is_missing

__all__ = [
    "Data",
    "PathLike",
    "Progress",
    "ReadOptions",
    "Sources",
    "Watch",
    "input_errors",
    "names_of",
    "read_data",
    "silent",
    "sources_of",
]

LARGEST = 1e75  # sums of fourth powers stay below 1e308
PathLike = str | os.PathLike[str]
Sources = PathLike | Sequence[PathLike]
#: Told the share of the work that is done, and what comes next.
Progress = Callable[[float, str], None]


def sources_of(source: Sources) -> list[PathLike]:
    """The files of one source each; the same file twice would count its rows twice."""
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not paths:
        raise InputError("no source was named: give a file with labelled rows.")
    seen = [Path(path).resolve() for path in paths]
    twice = [path for k, path in enumerate(paths) if seen[k] in seen[:k]]
    if twice:
        raise InputError(f"--source {twice[0]} is named twice: name every source once.")
    return paths


def names_of(source: Sources) -> str:
    """File names of all sources, for a page."""
    return ", ".join(Path(path).name for path in sources_of(source))


def silent(done: float, what: str) -> None:
    """No progress."""


class Watch:
    """Passes progress on, and remembers how long every step took."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.began = progress, time.perf_counter()
        self.times: list[tuple[str, float]] = []
        self._step: tuple[str, float] | None = None

    def __call__(self, done: float, what: str) -> None:
        """The step before ends, the one named begins."""
        now = time.perf_counter()
        if self._step is not None:
            self.times.append((self._step[0], now - self._step[1]))
        self._step = what, now
        self.progress(done, what)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.began


@dataclass(frozen=True)
class ReadOptions:
    """How files are read.

    Attributes
    ----------
    label : str
        Column of labels; empty target labels are unknown.
    format : str or None
        Of both files; None: found out.
    id : str or None
        Column carried to the predictions.
    text, drop : tuples of str
        Columns for tf-idf; columns to leave out.
    missing : {"error", "impute"}
        What to do with missing values.
    scale : {"none", "standard"}
        Whether numbers are brought to mean 0 and standard deviation 1.
    """

    label: str
    format: str | None = None
    id: str | None = None
    text: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: str = "error"
    scale: str = "none"


@dataclass(frozen=True)
class Data:
    """Rows of all files, ready for `fit`; those of several sources lie one below the other."""

    Xs: Any
    Xt: Any
    ys: NDArray[Any]
    yt: NDArray[Any]
    ids: NDArray[Any] | None
    preprocessing: Preprocessing
    notes: tuple[str, ...]
    source_domain: NDArray[np.int64]

    @property
    def known(self) -> NDArray[np.bool_]:
        """Target rows that have a label."""
        return ~is_missing(self.yt)

    def packed(self, *, target_labels: bool = True) -> tuple[Any, Any, Any, Any]:
        """X, y, sample_domain and the mark of unlabelled rows; classes keep their type."""
        sparse = sp.issparse(self.Xs) or sp.issparse(self.Xt)
        X = sp.csr_array(sp.vstack([self.Xs, self.Xt])) if sparse else np.vstack([self.Xs, self.Xt])
        known = self.known & target_labels
        mark: Any = None
        if self.ys.dtype.kind == "O":
            yt = self.yt.copy()
            yt[~known] = None
        else:
            mark = -1 if not (self.ys == -1).any() else int(self.ys.min()) - 1
            yt = np.where(known, self.yt, mark).astype(np.int64)
        target = -1 - int(self.source_domain.max())
        domain = np.concatenate([self.source_domain, np.full(len(self.yt), target)])
        return X, np.concatenate([self.ys, yt]), domain, mark


def read_data(source: Sources, target: PathLike, options: ReadOptions) -> Data:
    """Read all files and decide what becomes of every column."""
    sources = [read_table(path, options.format) for path in sources_of(source)]
    for table in sources:
        table[options.label]  # raises if there is none
    whole = stack_sources(sources, {options.id, *options.drop})
    tables = [whole, read_table(target, options.format)]
    ys, yt = read_labels(tables[0], tables[1], options.label)
    chosen = fit_preprocessing(
        tables[0],
        tables[1],
        label=options.label,
        id=options.id,
        text=options.text,
        drop=options.drop,
        missing=options.missing,
        scale=options.scale,
    )
    Xs, Xt = (chosen.transform(table) for table in tables)
    for table, X in zip(tables, (Xs, Xt), strict=True):
        largest = abs(X).max(axis=0)
        largest = largest.toarray().ravel() if sp.issparse(largest) else largest
        if largest.max() > LARGEST:
            raise InputError(
                f"{table.path}: {chosen.features[int(largest.argmax())]!r} holds numbers as large "
                f"as {largest.max():.0e}, whose products no computer number holds: use --scale "
                "standard."
            )
    used = {*chosen.columns, options.label, options.id, *options.drop}
    notes = []
    for table, of in (
        *((table, f"{table.path} that {sources[0].path}") for table in sources[1:]),
        (tables[1], "the target that the source"),
    ):
        extra = [name for name in table.names if name not in used]
        if extra and table.block is None:
            shown = ", ".join(repr(name) for name in extra[:3])
            notes.append(f"columns of {of} has not are ignored: {shown}.")
    ids = tables[1][options.id] if options.id else None
    numbers = np.arange(1, len(sources) + 1)
    domain = np.repeat(numbers, [table.n_rows for table in sources])
    return Data(Xs, Xt, ys, yt, ids, chosen, tuple(notes), domain)


@contextmanager
def input_errors() -> Iterator[list[str]]:
    """Refusals of the estimators as input errors; their warnings as sentences."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield messages
        except InputError:
            raise
        except (ValueError, MemoryError) as error:
            raise InputError(str(error)) from error
    messages += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
