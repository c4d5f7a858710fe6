"""Moments of Spark data frames, on the executors.

`mapInPandas` hands every partition to a function that adds its batches up and gives one row: a
moments file as bytes, or a sentence that says what is wrong with the rows. The driver adds the
files up one after the other, so that it holds two sets of statistics, however many partitions
there are. A task is a pure function of its partition: one that Spark runs again counts once.
`marda.adaptation.predict_on_spark` makes predictions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.table import InputError, did_you_mean
from marda.moments.accumulate import Collector
from marda.moments.files import load, write
from marda.moments.parquet import ROLES
from marda.moments.stats import Moments

WHOLE = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*WHOLE, "float", "double", "boolean")
SCHEMA = "part binary, problem string"


@dataclass(frozen=True)
class _Sum:
    """What a task does; travels to the executors."""

    features: tuple[str, ...]
    label: str | None
    whole: bool
    side: int
    class_grams: bool

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """One row per partition that has rows."""
        import pandas as pd

        total = Collector(unlabeled=None, class_grams=self.class_grams)
        total.feature_names = np.array(self.features, dtype=object)
        try:
            for batch in batches:
                if len(batch):
                    self._add(total, batch)
            if total.n_rows:
                yield pd.DataFrame({"part": [_packed(total.result())], "problem": [None]})
        except ValueError as error:
            yield pd.DataFrame({"part": [None], "problem": [str(error)]})

    def _add(self, total: Collector, batch: Any) -> None:
        X = batch[list(self.features)].to_numpy(dtype=np.float64, na_value=np.nan)
        bad = np.flatnonzero(~np.isfinite(X).all(axis=0))
        if bad.size:
            raise ValueError(
                f"column {self.features[bad[0]]!r} has missing or infinite values: fill them or "
                "leave the rows out."
            )
        y = None if self.label is None else self._labels(batch[self.label])
        total.add_checked(X, y, np.full(len(X), self.side, dtype=np.int64))

    def _labels(self, column: Any) -> NDArray[Any]:
        """Labels as Python values; a missing one is None, and whole numbers stay whole."""
        values = column.astype(object).where(column.notna(), None).to_numpy()
        if self.whole:
            return np.array([None if v is None else int(v) for v in values], dtype=object)
        return np.asarray(values)


def moments_from_spark(
    frame: Any,
    *,
    label: str | None = None,
    domain: str | None = None,
    role: str = "source",
    features: Sequence[str] | None = None,
    class_grams: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Moments:
    """Statistics of a Spark data frame, in one pass on the executors.

    marda must be installed on them.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Rows of one domain.
    label : str, default=None
        Column of labels; null means no label.
    domain : str, default=None
        Name of the domain.
    role : {"source", "target"}, default="source"
        Which side the domain is on.
    features : sequence of str, default=None
        Columns of numbers; None takes all but the label.
    class_grams : bool, default=False
        Keep a Gram per class.
    progress : callable, default=None
        Called with the number of rows so far after every partition.

    Returns
    -------
    Moments
        Those of the rows, to rounding, however they are partitioned.
    """
    if role not in ROLES:
        raise ValueError(f"role must be 'source' or 'target', got {role!r}.")
    if not hasattr(frame, "mapInPandas"):
        raise InputError(
            f"a Spark data frame is needed, got {type(frame).__name__}: for other rows there are "
            "Moments.from_arrays and Moments.from_batches."
        )
    types = dict(frame.dtypes)
    names = tuple(n for n in types if n != label) if features is None else tuple(features)
    _check_columns(types, names, label)
    task = _Sum(names, label, label is not None and types[label] in WHOLE, ROLES[role], class_grams)
    total: Moments | None = None
    taken = frame.select(*(f"`{name}`" for name in (*names, *([label] if label else []))))
    for row in taken.mapInPandas(task, SCHEMA).toLocalIterator():
        if row["problem"] is not None:
            raise InputError(row["problem"])
        part = _unpacked(bytes(row["part"]))
        total = part if total is None else total + part
        if progress is not None:
            progress(total.n_rows)
    if total is None:
        raise InputError("the data frame has no rows.")
    return replace(total, domain_names={} if domain is None else {ROLES[role]: domain})


def _check_columns(types: dict[str, str], names: Sequence[str], label: str | None) -> None:
    if not names:
        raise InputError("no columns of numbers are left: name them with features.")
    for name in (*names, *([label] if label else [])):
        if name not in types:
            raise InputError(f"no column {name!r}{did_you_mean(name, list(types))}.")
        if "`" in name:
            raise InputError(f"column {name!r} has a backtick in its name: give it another one.")
    if label in names:
        raise InputError(f"column {label!r} is the label, and cannot be a feature.")
    for name in names:
        kind = types[name]
        if kind not in NUMBERS and not kind.startswith("decimal"):
            raise InputError(
                f"column {name!r} holds {kind}, not numbers: name the columns with features."
            )


def _packed(moments: Moments) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        write(moments, path)
        return path.read_bytes()


def _unpacked(data: bytes) -> Moments:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part"
        path.write_bytes(data)
        return load(path)
