"""Pairs of awkward files whose target labels are known: `python tests/io/awkward.py` prints them.

Every pair holds the same fruit: the source with its kind, the target without. What is awkward is
how they are written. A pair passes if `marda adapt` names the right kinds with no option, or says
in one line which options it needs, and names the right kinds with them. Where a pair holds what a
plain pair holds, its probabilities must be the same as well.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import sys
import tempfile
import time
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from marda import cli

N_SOURCE, N_TARGET = 120, 90
LABEL = "kind"
KINDS = np.array(["apple", "pear"])
Columns = dict[str, list[Any]]


def fruit(n: int, seed: int, shift: float) -> tuple[Columns, list[str]]:
    """Measurements, none of which tells the kind alone, and kinds."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    columns: Columns = {
        "length": np.round(10 + 2 * y + rng.normal(0, 1, n) + shift, 2).tolist(),
        "width": np.round(6 - 0.8 * y + rng.normal(0, 0.4, n) + 0.2 * shift, 3).tolist(),
        "weight": np.round(1400 + 400 * y + rng.normal(0, 200, n) + 40 * shift, 1).tolist(),
        "share": np.round(0.4 + 0.1 * y + rng.normal(0, 0.07, n), 3).tolist(),
        "colour": np.where(rng.random(n) < 0.2 + 0.6 * y, "green", "red").tolist(),
    }
    return columns, KINDS[y].tolist()


SOURCE, SOURCE_KINDS = fruit(N_SOURCE, 1, 0.0)
TARGET, TRUTH = fruit(N_TARGET, 2, 0.3)
FLAGS = [kind == "pear" for kind in SOURCE_KINDS], [kind == "pear" for kind in TRUTH]


@dataclass
class Case:
    """One pair."""

    name: str
    awkward: str
    make: Callable[[Path], tuple[list[Path], Path]]
    options: tuple[str, ...] = ()
    label: str = LABEL
    stdin: bool = False
    needs: tuple[str, ...] = ()
    like: str | None = "plain"


@dataclass
class Outcome:
    """What came of it."""

    case: Case
    right: float
    message: str
    named: tuple[str, ...]
    problem: str = ""
    notes: list[str] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)

    @property
    def text(self) -> str:
        if self.problem:
            return f"FAILED: {self.problem}"
        return "right with the options named" if self.case.options else "right with no option"


CASES: list[Case] = []


def case(
    name: str,
    awkward: str,
    *options: str,
    label: str = LABEL,
    stdin: bool = False,
    needs: tuple[str, ...] = (),
    like: str | None = "plain",
) -> Callable[[Any], Any]:
    """Add a pair; `options` are those that it cannot do without, `needs` libraries, `like` a pair
    that holds the same.
    """

    def add(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def both(folder: Path) -> tuple[list[Path], Path]:
            made = make(folder)
            source, target = made
            return (source if isinstance(source, list) else [source]), target

        CASES.append(Case(name, awkward, both, tuple(options), label, stdin, needs, like))
        return make

    return add


def run(one: Case, folder: Path) -> Outcome:
    """Adapt as a person would: first without options, then with those that were asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    sources, target = one.make(folder)
    out = folder / "predictions.csv"
    command = ["adapt", *(word for s in sources for word in ("--source", str(s)))]
    command += ["--target", "-" if one.stdin else str(target), "--label", one.label]
    command += ["--method", "BL", "--out", str(out)]
    code, said, error = call(command, target if one.stdin else None)
    notes = [line for line in said.splitlines() if line.startswith("note: ")]
    flags = tuple(word for word in one.options if word.startswith("--"))
    if not one.options:
        if code != 0:
            return Outcome(one, 0.0, error, (), f"exit code {code}: {error}")
    else:
        if code != 2 or error.count("\n") != 1:
            return Outcome(
                one, 0.0, error, (), f"exit code {code} without options: {error or said}"
            )
        lost = [flag for flag in flags if flag not in error]
        if lost:
            return Outcome(one, 0.0, error, (), f"{lost} not named: {error}")
        code, said, again = call([*command, *one.options], target if one.stdin else None)
        if code != 0:
            return Outcome(one, 0.0, error, flags, f"with the options: {again}")
    with out.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    predicted = [row["prediction"] for row in rows]
    probabilities = [float(row["probability_pear"]) for row in rows]
    right = float(np.mean([a == b for a, b in zip(predicted, TRUTH, strict=True)]))
    problem = "" if right >= 0.9 else f"only {right:.0%} right"
    return Outcome(one, right, error, flags, problem, notes, probabilities)


def compare(done: Outcome, wanted: list[float]) -> None:
    """Probabilities must be those of the pair that holds the same."""
    if not done.problem:
        gap = float(np.abs(np.subtract(done.probabilities, wanted)).max())
        done.problem = (
            "" if gap < 1e-6 else f"probabilities differ by {gap:.2g} from the plain pair"
        )


def call(command: list[str], stdin: Path | None) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    out, error = io.StringIO(), io.StringIO()
    before = sys.stdin
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            if stdin is not None:
                sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.read_bytes()))
            code = cli.main(command)
    finally:
        sys.stdin = before
    return code, out.getvalue(), error.getvalue()


# How tables are written --------------------------------------------------------------------------


def pair(
    source: Columns | None = None, target: Columns | None = None, *, label: bool = True
) -> tuple[Columns, Columns]:
    """Columns beside the measurements, and the label in the source."""
    s = {**SOURCE, **(source or {}), **({LABEL: SOURCE_KINDS} if label else {})}
    return s, {**TARGET, **(target or {})}


def as_csv(
    columns: Columns,
    sep: str = ",",
    number: Callable[[float], str] = repr,
    newline: str = "\n",
    header: bool = True,
) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator=newline)
    if header:
        writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(
            [number(v) if isinstance(v, float) else "" if v is None else v for v in row]
        )
    return out.getvalue()


def texts(
    folder: Path,
    source: Columns,
    target: Columns,
    encoding: str | tuple[str, str] = "utf-8",
    names: tuple[str, str] = ("old.csv", "new.csv"),
    **how: Any,
) -> tuple[Path, Path]:
    encodings = (encoding, encoding) if isinstance(encoding, str) else encoding
    paths = []
    for name, columns, code in zip(names, (source, target), encodings, strict=True):
        (folder / name).write_bytes(as_csv(columns, **how).encode(code))
        paths.append(folder / name)
    return paths[0], paths[1]


def both(
    folder: Path, source: Columns | None = None, target: Columns | None = None, **how: Any
) -> tuple[Path, Path]:
    return texts(folder, *pair(source, target), **how)


def coloured(names: dict[str, str], column: str = "colour") -> tuple[Columns, Columns]:
    """Colours in another language."""
    s, t = ({column: [names[c] for c in table["colour"]]} for table in (SOURCE, TARGET))
    return s, t


def comma(v: float) -> str:
    return repr(v).replace(".", ",")


def grouped(group: str, point: str) -> Callable[[float], str]:
    """1,234.5 and its relatives."""
    return lambda v: f"{v:,.3f}".replace(",", "\0").replace(".", point).replace("\0", group)


case("plain", "nothing", like=None)(both)

# Encodings ---------------------------------------------------------------------------------------

GERMAN = {"green": "grün", "red": "rötlich"}
RUSSIAN = {"green": "зелёный", "red": "красный"}
JAPANESE = {"green": "緑色です", "red": "赤い色です"}


@case("utf8-bom", "UTF-8 with a byte order mark")
def _(folder):
    return both(folder, *coloured(GERMAN), encoding="utf-8-sig")


@case("utf16-le", "UTF-16, little end first, with its mark")
def _(folder):
    s, t = (as_csv(c).encode("utf-16-le") for c in pair(*coloured(RUSSIAN)))
    for name, data in (("old.csv", s), ("new.csv", t)):
        (folder / name).write_bytes(b"\xff\xfe" + data)
    return folder / "old.csv", folder / "new.csv"


@case("utf16-be", "UTF-16, big end first, tabs (Excel's Unicode text)")
def _(folder):
    s, t = (as_csv(c, "\t", newline="\r\n").encode("utf-16-be") for c in pair(*coloured(RUSSIAN)))
    for name, data in (("old.txt", s), ("new.txt", t)):
        (folder / name).write_bytes(b"\xfe\xff" + data)
    return folder / "old.txt", folder / "new.txt"


@case("utf16-bare", "UTF-16 without a mark", "--encoding", "utf-16-le")
def _(folder):
    return both(folder, encoding="utf-16-le")


@case("cp1252", "Windows-1252 with umlauts")
def _(folder):
    return both(folder, *coloured(GERMAN), encoding="cp1252")


FRENCH = {"green": "agréée", "red": "créée"}
PORTUGUESE = {"green": "maturação", "red": "coloração"}


@case("cp1252-french", "Windows-1252 with two accents in a row")
def _(folder):
    return texts(folder, *pair(*coloured(FRENCH)), encoding="cp1252")


@case("cp1252-portuguese", "the same, as -ção has them")
def _(folder):
    return texts(folder, *pair(*coloured(PORTUGUESE)), encoding="cp1252")


@case("mac-roman", "accents of an old Mac", "--encoding", "mac_roman")
def _(folder):
    return texts(folder, *pair(*coloured(GERMAN)), encoding="mac_roman")


@case("cp1252-utf8", "Windows-1252 beside UTF-8")
def _(folder):
    return both(folder, *coloured(GERMAN), encoding=("utf-8", "cp1252"))


@case("cp1251", "Cyrillic in Windows-1251", "--encoding", "cp1251")
def _(folder):
    return both(folder, *coloured(RUSSIAN), encoding="cp1251")


@case("utf8-cp1251", "UTF-8 beside Windows-1251", "--encoding", "utf-8,cp1251")
def _(folder):
    return both(folder, *coloured(RUSSIAN), encoding=("utf-8", "cp1251"))


@case("shift-jis", "Japanese in Shift JIS", "--encoding", "shift_jis")
def _(folder):
    return both(folder, *coloured(JAPANESE), encoding="shift_jis")


@case("crlf", "lines end as on Windows")
def _(folder):
    return both(folder, newline="\r\n")


@case("cr", "lines end as on old Macs")
def _(folder):
    return both(folder, newline="\r")


# Separators --------------------------------------------------------------------------------------

for mark, what in ((";", "semicolons"), ("|", "bars"), ("\t", "tabs in a .csv")):
    case(f"sep-{what.split()[0]}", what)(lambda folder, mark=mark: both(folder, sep=mark))


@case("sep-line", "Excel's line sep=; above the header")
def _(folder):
    paths = both(folder, sep=";")
    for path in paths:
        path.write_text("sep=;\n" + path.read_text())
    return paths


@case("sep-differs", "commas in one file, semicolons in the other")
def _(folder):
    source, target = pair()
    (folder / "old.csv").write_text(as_csv(source))
    (folder / "new.csv").write_text(as_csv(target, ";"))
    return folder / "old.csv", folder / "new.csv"


@case("quoted", "separators, quotes and line ends within quotes")
def _(folder):
    words = {"green": 'green, "fresh"\nand firm', "red": "red; soft"}
    return both(folder, *coloured(words))


@case("trailing", "a separator at the end of every line but the header")
def _(folder):
    paths = both(folder)
    for path in paths:
        first, *rest = path.read_text().splitlines()
        path.write_text("\n".join([first, *(line + "," for line in rest)]) + "\n")
    return paths


@case("spaces", "spaces after commas, differently in both files")
def _(folder):
    paths = both(folder)
    paths[0].write_text(paths[0].read_text().replace(",", ", "))
    paths[1].write_text(paths[1].read_text().replace(",", "  ,"))
    return paths


@case("title", "a title and a blank line above the header")
def _(folder):
    paths = both(folder)
    for path in paths:
        path.write_text("Fruit of 2024\n\n" + path.read_text())
    return paths


@case("title-padded", "a title with separators behind it, a line of separators")
def _(folder):
    paths = both(folder, sep=";")
    for path in paths:
        header = path.read_text()
        gap = ";" * header.splitlines()[0].count(";")
        path.write_text(f"Fruit of 2024{gap}\n{gap}\n{header}")
    return paths


@case("comments", "comments above the header")
def _(folder):
    paths = both(folder)
    for path in paths:
        path.write_text("# measured by hand\n# length, in cm\n" + path.read_text())
    return paths


def under_header(folder, lines):
    """Both files, with lines that are made of their names under the header."""
    paths = both(folder)
    for path in paths:
        header, rows = path.read_text().split("\n", 1)
        path.write_text("\n".join([header, *lines(header.split(",")), rows]))
    return paths


@case("questions", "a line of questions under the header")
def _(folder):
    return under_header(folder, lambda names: [",".join(f"What is its {n}?" for n in names)])


@case("units-and-words", "a line of units under the header, and of what words can be")
def _(folder):
    units = {"length": "cm", "width": "mm", "weight": "kg", "share": "%", LABEL: "ICD-10"}
    return under_header(folder, lambda names: [",".join(units.get(n, "a/b") for n in names)])


@case("qualtrics", "the three lines of names that Qualtrics writes")
def _(folder):
    def lines(names):
        marks = (f'"{{""ImportId"":""{name}""}}"' for name in names)
        return [",".join(names).upper(), ",".join(marks)]

    return under_header(folder, lines)


@case("no-header", "no header", label="column6")
def _(folder):
    return both(folder, header=False)


# Numbers -----------------------------------------------------------------------------------------


@case("decimal-comma", "decimal commas, semicolons")
def _(folder):
    return both(folder, sep=";", number=comma)


@case("decimal-quoted", "decimal commas in quotes, commas between fields")
def _(folder):
    return both(folder, number=comma)


@case("decimal-one", "decimal commas in the source only")
def _(folder):
    source, target = pair()
    (folder / "old.csv").write_text(as_csv(source, ";", comma))
    (folder / "new.csv").write_text(as_csv(target))
    return folder / "old.csv", folder / "new.csv"


for name, group, point in (
    ("english", ",", "."),
    ("german", ".", ","),
    ("swiss", "’", "."),
    ("french", "\u202f", ","),
    ("spaces", " ", "."),
):
    case(f"thousands-{name}", f"thousands and decimals: 1{group}234{point}5")(
        lambda folder, group=group, point=point: both(folder, sep=";", number=grouped(group, point))
    )


@case("thousands-whole", "1.234 means a thousand, as the decimal commas beside it tell", like=None)
def _(folder):
    s, t = (
        {"weight": [f"{round(v):,}".replace(",", ".") for v in table["weight"]]}
        for table in (SOURCE, TARGET)
    )
    return both(folder, s, t, sep=";", number=comma)


@case("thousands-open", "1,234 and nothing tells what it means", "--decimal", "point", like=None)
def _(folder):
    def only(table):
        return {
            "weight": [f"{round(v):,}" for v in table["weight"]],
            "size": [f"{round(100 * v):,}" for v in table["length"]],
            "girth": [round(1000 * v) for v in table["width"]],
            "colour": table["colour"],
        }

    return texts(folder, {**only(SOURCE), LABEL: SOURCE_KINDS}, only(TARGET), sep=";")


@case("percent", "percentages in one file, fractions in the other", "--drop", "share", like=None)
def _(folder):
    return both(folder, {"share": [f"{100 * v:.1f}%" for v in SOURCE["share"]]})


@case("percent-both", "percentages, with and without a space")
def _(folder):
    s, t = (
        [f"{100 * v:.1f}{sep}%" for v in d["share"]] for d, sep in ((SOURCE, ""), (TARGET, " "))
    )
    return both(folder, {"share": s}, {"share": t})


@case("currency", "dollars with thousands")
def _(folder):
    s, t = ({"weight": [f"${v:,.2f}" for v in d["weight"]]} for d in (SOURCE, TARGET))
    return both(folder, s, t)


@case("currency-euro", "euros behind the amount, decimal commas")
def _(folder):
    def euro(v):
        return grouped(".", ",")(v)[:-1] + " €"

    s, t = ({"weight": [euro(v) for v in d["weight"]]} for d in (SOURCE, TARGET))
    return both(folder, s, t, sep=";", number=comma)


@case("currencies", "two currencies in one column", "--drop", "price")
def _(folder):
    s, t = (
        {"price": [f"{'$€'[k % 2]}{v:.2f}" for k, v in enumerate(d["weight"])]}
        for d in (SOURCE, TARGET)
    )
    return both(folder, s, t)


@case("accounting", "negative amounts in parentheses", like=None)
def _(folder):
    def amount(v):
        return f"({1700 - v:,.2f})" if v < 1700 else f"{v - 1700:,.2f}"

    s, t = ({"weight": [amount(v) for v in d["weight"]]} for d in (SOURCE, TARGET))
    return both(folder, s, t)


@case("scientific", "1.5E+03, and a minus that is no hyphen")
def _(folder):
    def written(v):
        return f"{v:.6E}".replace("-", "−") if v < 1 else f"{v:.6E}"

    return both(folder, number=written)


# Dates -------------------------------------------------------------------------------------------


def days(table: Columns, flags: list[bool], seed: int) -> list[date]:
    """Picked in spring or in autumn, which tells the kind in part."""
    rng = np.random.default_rng(seed)
    middle = [date(2023, 9 if flag else 5, 15) for flag in flags]
    return [day + timedelta(days=int(rng.normal(0, 45))) for day in middle]


DAYS = days(SOURCE, FLAGS[0], 5), days(TARGET, FLAGS[1], 6)


def picked(folder: Path, source: str, target: str | None = None, **how: Any) -> tuple[Path, Path]:
    s = {"picked": [f"{day:{source}}" for day in DAYS[0]]}
    t = {"picked": [f"{day:{target or source}}" for day in DAYS[1]]}
    return both(folder, s, t, **how)


for name, form, what in (
    ("iso", "%Y-%m-%d", "ISO"),
    ("german", "%d.%m.%Y", "31.12.2023"),
    ("us", "%m/%d/%Y", "12/31/2023"),
    ("uk", "%d/%m/%Y", "31/12/2023"),
    ("short", "%d.%m.%y", "31.12.23"),
    ("named", "%d %b %Y", "31 Dec 2023"),
    ("american", "%B %d, %Y", "December 31, 2023"),
    ("zone", "%Y-%m-%dT08:30:00+02:00", "2023-12-31T08:30:00+02:00"),
):
    case(f"date-{name}", f"dates: {what}", like=None if name == "iso" else "date-iso")(
        lambda folder, form=form: picked(folder, form)
    )


@case("date-differs", "ISO dates in one file, American ones in the other", like="date-iso")
def _(folder):
    return picked(folder, "%Y-%m-%d", "%m/%d/%Y")


@case(
    "date-open",
    "3/4/2023 and nothing tells which is the month",
    "--dates",
    "month-first",
    like=None,
)
def _(folder):
    s, t = ([f"{d.month}/{(d.day - 1) % 12 + 1}/{d.year}" for d in days] for days in DAYS)
    return both(folder, {"picked": s}, {"picked": t})


@case("date-both", "the other file tells which is the month", like=None)
def _(folder):
    s = [f"{d:%m/%d/%Y}" for d in DAYS[0]]
    t = [f"{d.month}/{(d.day - 1) % 12 + 1}/{d.year}" for d in DAYS[1]]
    return both(folder, {"picked": s}, {"picked": t})


def at(day: date, k: int) -> datetime:
    """A moment of that day, another in every row."""
    return datetime(day.year, day.month, day.day) + timedelta(seconds=8 * 3600 + 37 * k)


for name, form, what in (
    ("iso", "%Y-%m-%d %H:%M:%S", "2023-12-31 08:30:00"),
    ("printed", "%a %b %d %H:%M:%S UTC %Y", "Sun Dec 31 08:30:00 UTC 2023"),
    ("mail", "%a, %d %b %Y %H:%M:%S +0000", "Sun, 31 Dec 2023 08:30:00 +0000"),
):
    case(
        f"time-{name}",
        f"times, another in every row: {what}",
        like=None if name == "iso" else "time-iso",
    )(
        lambda folder, form=form: both(
            folder,
            *({"at": [f"{at(d, k):{form}}" for k, d in enumerate(days_)]} for days_ in DAYS),
        )
    )


@case("time-unix", "times, in seconds since 1970", like="time-iso")
def _(folder):
    start = datetime(1970, 1, 1)
    s, t = (
        {"at": [int((at(d, k) - start).total_seconds()) for k, d in enumerate(days_)]}
        for days_ in DAYS
    )
    return both(folder, s, t)


# Booleans and categories -------------------------------------------------------------------------


def ripe(folder: Path, source: tuple[Any, Any], target: tuple[Any, Any]) -> tuple[Path, Path]:
    s, t = (
        {"ripe": [words[c == "green"] for c in table["colour"]]}
        for table, words in ((SOURCE, source), (TARGET, target))
    )
    return both(folder, s, t)


case("bool-10", "1 and 0", like=None)(lambda folder: ripe(folder, (1, 0), (1, 0)))
case("bool-yes", "yes and no", like="bool-10")(
    lambda folder: ripe(folder, ("yes", "no"), ("Yes", "NO"))
)
case("bool-mixed", "true and false in one file, 1 and 0 in the other", like="bool-10")(
    lambda folder: ripe(folder, ("TRUE", "FALSE"), ("1", "0"))
)
case("bool-ja", "ja and nein beside yes and no", like="bool-10")(
    lambda folder: ripe(folder, ("ja", "nein"), ("yes", "no"))
)


for name, form, what in (
    ("case", str.upper, "in capitals in the other file"),
    ("space", "\u00a0{}\u200b".format, "between marks that nobody sees in the other file"),
):
    case(f"category-{name}", f"categories {what}")(
        lambda folder, form=form: both(
            folder, None, {"colour": [form(c) for c in TARGET["colour"]]}
        )
    )


@case("accents", "letters and accents apart in one file, in names and in categories")
def _(folder):
    s, t = pair(*coloured({"green": "gr\u00fcn", "red": "r\u00f6t"}))
    renamed = {"\u00e9tat" if name == "colour" else name: v for name, v in t.items()}
    apart = {
        unicodedata.normalize("NFD", name): [
            unicodedata.normalize("NFD", cell) if isinstance(cell, str) else cell for cell in cells
        ]
        for name, cells in renamed.items()
    }
    return texts(folder, {"\u00e9tat" if n == "colour" else n: v for n, v in s.items()}, apart)


@case("ends", "a separator at the end of every line, also of the header")
def _(folder):
    s, t = (f"{as_csv(columns)}".replace("\n", ",\n") for columns in pair())
    for name, text in (("old.csv", s), ("new.csv", t)):
        (folder / name).write_text(text)
    return folder / "old.csv", folder / "new.csv"


case("apostrophe", "numbers behind the apostrophe that spreadsheets put before text")(
    lambda folder: both(
        folder, *({"weight": [f"'{v}" for v in table["weight"]]} for table in (SOURCE, TARGET))
    )
)


@case("unseen", "categories that the source has not", like=None)
def _(folder):
    t = [("striped" if k % 9 == 0 else c) for k, c in enumerate(TARGET["colour"])]
    return both(folder, None, {"colour": t})


@case("missing", "empty fields", "--missing", "impute", like=None)
def _(folder):
    s = [None if k % 10 == 0 else v for k, v in enumerate(SOURCE["width"])]
    return both(folder, {"width": s})


@case("missing-words", "n/a, -, ? and #N/A among numbers", "--missing", "impute", like=None)
def _(folder):
    words = ["n/a", "-", "?", "#N/A"]
    s, t = (
        [words[k // 9 % 4] if k % 9 == 0 else v for k, v in enumerate(d["width"])]
        for d in (SOURCE, TARGET)
    )
    return both(folder, {"width": s}, {"width": t})


@case("mixed", "'unknown' among numbers", "--na", "unknown", "--missing", "impute", like=None)
def _(folder):
    t = ["unknown" if k % 15 == 0 else v for k, v in enumerate(TARGET["weight"])]
    return both(folder, None, {"weight": t})


@case("no-value", "'k.A.' among numbers: no value, in German", "--missing", "impute", like="mixed")
def _(folder):
    t = ["k.A." if k % 15 == 0 else v for k, v in enumerate(TARGET["weight"])]
    return both(folder, None, {"weight": t})


@case("label-mark", "'?' where the target has no label", "--na", "?")
def _(folder):
    return both(folder, None, {LABEL: ["?"] * N_TARGET})


# Columns that no model should see ----------------------------------------------------------------


def extra(folder: Path, name: str, source: list[Any], target: list[Any]) -> tuple[Path, Path]:
    """One more column, before the others."""
    s, t = pair()
    return texts(folder, {name: source, **s}, {name: target, **t})


def counted(n: int, start: int = 0) -> list[int]:
    return [*range(start, start + n)]


case("id", "ids of letters and digits")(
    lambda folder: extra(
        folder,
        "sample",
        [f"A-{k:05d}" for k in counted(N_SOURCE)],
        [f"B-{k:05d}" for k in counted(N_TARGET)],
    )
)
case("id-number", "row numbers that go on in the other file")(
    lambda folder: extra(folder, "record", counted(N_SOURCE), counted(N_TARGET, N_SOURCE))
)
case("id-account", "account numbers")(
    lambda folder: extra(
        folder,
        "account",
        [10_000_000 + 7919 * k % 89_999_999 for k in counted(N_SOURCE, 3)],
        [10_000_000 + 104_729 * k % 89_999_999 for k in counted(N_TARGET, 5)],
    )
)
case("id-nearly", "customer numbers, some of them twice")(
    lambda folder: extra(
        folder,
        "customer_id",
        [13 * (k - (k % 40 == 7)) for k in counted(N_SOURCE)],
        [17 * (k - (k % 40 == 7)) for k in counted(N_TARGET)],
    )
)
case("index", "the nameless index that pandas writes")(
    lambda folder: extra(folder, "", counted(N_SOURCE), counted(N_TARGET))
)
case("index-unnamed", "the same, read and written again")(
    lambda folder: extra(folder, "Unnamed: 0", counted(N_SOURCE), counted(N_TARGET))
)
case("constant", "a column that is the same everywhere")(
    lambda folder: extra(folder, "unit", ["cm"] * N_SOURCE, ["cm"] * N_TARGET)
)
case("empty", "a column without values")(
    lambda folder: extra(folder, "remark", [None] * N_SOURCE, [None] * N_TARGET)
)
case("empty-target", "a column that is empty in the target")(
    lambda folder: extra(folder, "grade", [*"abc"] * (N_SOURCE // 3), [None] * N_TARGET)
)
case("leak-label", "the label in other words")(
    lambda folder: extra(
        folder,
        "code",
        [{"apple": "A1", "pear": "P7"}[kind] for kind in SOURCE_KINDS],
        ["A1", "P7"] * (N_TARGET // 2),
    )
)
case("leak-number", "a number that gives the label away in the source")(
    lambda folder: extra(
        folder,
        "margin",
        [round(5.0 * flag + k % 17 / 10, 1) for k, flag in enumerate(FLAGS[0])],
        [round(k % 67 / 10, 1) for k in counted(N_TARGET)],
    )
)
case("leak-export", "the day of the export")(
    lambda folder: extra(folder, "exported", ["2023-01-05"] * N_SOURCE, ["2024-02-07"] * N_TARGET)
)
case("leak-file", "the name of the file")(
    lambda folder: extra(folder, "file", ["old.xls", "old2.xls"] * 60, ["new.xls"] * N_TARGET)
)


@case("row-names", "row names without a name, as R writes them")
def _(folder):
    paths = both(folder)
    for path in paths:
        first, *rest = path.read_text().splitlines()
        path.write_text("\n".join([first, *(f"r{k},{v}" for k, v in enumerate(rest))]) + "\n")
    return paths


# Names of columns --------------------------------------------------------------------------------


@case("names-case", "names that differ in case and spaces")
def _(folder):
    source, target = pair()
    return texts(folder, source, {f" {name.upper()} ": v for name, v in target.items()})


@case("names-order", "columns in another order, and one more")
def _(folder):
    source, target = pair(None, {"extra": [*range(N_TARGET)]})
    return texts(folder, source, dict(reversed(target.items())))


@case("names-near", "a name with a slip of the pen", "--drop", "share", like=None)
def _(folder):
    source, target = pair()
    return texts(folder, source, {("shrae" if n == "share" else n): v for n, v in target.items()})


@case("names-twice", "two columns of one name", "--drop", "size")
def _(folder):
    more = [{"size": [1.5] * n, "other": [*range(n)]} for n in (N_SOURCE, N_TARGET)]
    paths = both(folder, *more)
    for path in paths:
        path.write_text(path.read_text().replace("other", "size", 1))
    return paths


@case("names-comma", "a name that holds a comma", like=None)
def _(folder):
    return both(folder, *remarks(ENGLISH, "remark, free"))


@case("wide", "six hundred columns", like=None)
def _(folder):
    rng = np.random.default_rng(3)
    s, t = (
        {f"noise{k}": np.round(rng.normal(0, 0.01, n), 4).tolist() for k in range(595)}
        for n in (N_SOURCE, N_TARGET)
    )
    return both(folder, s, t)


# Text --------------------------------------------------------------------------------------------

ENGLISH = (["sweet round crunchy", "firm red skin"], ["soft juicy neck", "grainy yellow flesh"])
CYRILLIC = (["сладкое круглое хрустящее", "твёрдая кожица"], ["мягкая сочная", "жёлтая мякоть"])
GREEK = (["γλυκό στρογγυλό τραγανό", "σφιχτή φλούδα"], ["μαλακό ζουμερό", "κίτρινη σάρκα"])
ARABIC = (["حلو مستدير مقرمش", "قشرة حمراء صلبة"], ["طري كثير العصير", "لب أصفر حبيبي"])
HINDI = (["मीठा गोल कुरकुरा", "लाल कड़ा छिलका"], ["नरम रसीला पतला", "पीला दानेदार गूदा"])
CHINESE = (["又甜又圆很脆", "果皮坚硬发红"], ["柔软多汁细长", "果肉发黄有颗粒"])


def remarks(phrases: tuple[list[str], list[str]], name: str = "remark") -> tuple[Columns, Columns]:
    """A remark per row; three in four fit the kind."""
    rng = np.random.default_rng(9)
    found = []
    for flags in FLAGS:
        texts_ = []
        for k, flag in enumerate(flags):
            fits = flag if rng.random() < 0.9 else not flag
            both_ = phrases[fits]
            texts_.append(f"{both_[int(rng.integers(2))]}, {both_[k % 2]} {k}")
        found.append({name: texts_})
    return found[0], found[1]


for script, phrases in (
    ("latin", ENGLISH),
    ("cyrillic", CYRILLIC),
    ("greek", GREEK),
    ("arabic", ARABIC),
    ("chinese", CHINESE),
    ("devanagari", HINDI),
):
    case(f"text-{script}", f"remarks in {script.title()} script", like=None)(
        lambda folder, phrases=phrases: both(folder, *remarks(phrases))
    )


@case("text-gaps", "remarks that some rows lack", "--missing", "impute", like=None)
def _(folder):
    s, t = remarks(ENGLISH)
    for columns in (s, t):
        columns["remark"] = [None if k % 7 == 3 else v for k, v in enumerate(columns["remark"])]
    return both(folder, s, t)


@case("text-leak", "remarks that name the kind in every row of the source")
def _(folder):
    s, t = remarks(ENGLISH)
    told = [
        f"{text}, filed under {kind}" for text, kind in zip(s["remark"], SOURCE_KINDS, strict=True)
    ]
    return both(folder, {"remark": told}, t)


@case("text-same", "remarks that are all the same in the target")
def _(folder):
    s, _t = remarks(ENGLISH)
    return both(folder, s, {"remark": ["nothing to remark on this one"] * N_TARGET})


@case("text-few", "answers of several words, of which there are five", like=None)
def _(folder):
    words = [f"answer of many words, {word}" for word in ("one", "two", "three", "four", "five")]
    s, t = ({"remark": [words[k % 5] for k in range(n)]} for n in (N_SOURCE, N_TARGET))
    return both(folder, s, t)


@case(
    "several",
    "four things at once",
    *("--missing", "impute"),
    *("--dates", "month-first", "--drop", "price"),
    like=None,
)
def _(folder):
    s, t = remarks(ENGLISH)
    for table, days_, columns in ((SOURCE, DAYS[0], s), (TARGET, DAYS[1], t)):
        columns["picked"] = [f"{d.month}/{(d.day - 1) % 12 + 1}/{d.year}" for d in days_]
        columns["price"] = [f"{'$€'[k % 2]}{v:.2f}" for k, v in enumerate(table["weight"])]
        columns["width"] = [None if k % 10 == 0 else v for k, v in enumerate(table["width"])]
    return both(folder, s, t)


# Other formats -----------------------------------------------------------------------------------


def sheets(path: Path, tables: dict[str, Columns], title: str = "") -> Path:
    """A workbook."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, columns in tables.items():
        sheet = book.create_sheet(name)
        if title:
            sheet.append([title])
            sheet.append([])
        sheet.append([*columns])
        for row in zip(*columns.values(), strict=True):
            sheet.append([*row])
    book.create_sheet("Sheet3")
    book.save(path)
    return path


EXCEL = ("openpyxl",)


@case("excel", "workbooks of one sheet with rows", needs=EXCEL)
def _(folder):
    source, target = pair()
    return sheets(folder / "old.xlsx", {"a": source}), sheets(folder / "new.xlsx", {"b": target})


@case("excel-title", "a title, dates and truth values in a workbook", needs=EXCEL, like=None)
def _(folder):
    more = [
        {
            "picked": [datetime(d.year, d.month, d.day) for d in days_],
            "ripe": [c == "green" for c in table["colour"]],
        }
        for table, days_ in ((SOURCE, DAYS[0]), (TARGET, DAYS[1]))
    ]
    source, target = pair(*more)
    old = sheets(folder / "old.xlsx", {"a": source}, "Fruit of 2023")
    return old, sheets(folder / "new.xlsx", {"b": target}, "Fruit of 2024")


def beside(folder: Path, more: Columns) -> tuple[Path, Path]:
    """Workbooks with another sheet, before the rows and behind them."""
    source, target = pair()
    old = sheets(folder / "old.xlsx", {"more": more, "fruit": source})
    return old, sheets(folder / "new.xlsx", {"fruit": target, "more": more})


@case("excel-sheets", "several sheets with tables", "--sheet", "fruit", needs=EXCEL)
def _(folder):
    return beside(folder, {"crate": ["a", "b"], "checked": ["yes", "no"]})


@case("excel-remarks", "a sheet of remarks beside the table", needs=EXCEL)
def _(folder):
    return beside(folder, {"note": ["checked", "by hand"]})


@case("excel-one-book", "both tables in one workbook", "--sheet", "old,new", needs=EXCEL)
def _(folder):
    source, target = pair()
    book = sheets(folder / "both.xlsx", {"old": source, "new": target})
    return book, book


@case(
    "excel-csv", "a workbook beside a text file, dates of both kinds", needs=EXCEL, like="date-iso"
)
def _(folder):
    source, _ = pair({"picked": [datetime(d.year, d.month, d.day) for d in DAYS[0]]})
    target = picked(folder, "%d.%m.%Y", sep=";", number=comma)[1]
    return sheets(folder / "old.xlsx", {"a": source}), target


def records(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def as_json(folder: Path, write: Callable[[Columns], str], suffix: str) -> tuple[Path, Path]:
    paths = []
    for name, columns in zip(("old", "new"), pair(*coloured(RUSSIAN)), strict=True):
        (folder / f"{name}{suffix}").write_text(write(columns), encoding="utf-8")
        paths.append(folder / f"{name}{suffix}")
    return paths[0], paths[1]


case("json", "a list of records")(lambda f: as_json(f, lambda c: json.dumps(records(c)), ".json"))
case("json-inside", "the list within an object, indented")(
    lambda f: as_json(f, lambda c: json.dumps({"ok": True, "data": records(c)}, indent=1), ".json")
)
case("jsonl", "a record per line, without the empty fields")(
    lambda f: as_json(
        f,
        lambda c: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records(c)),
        ".jsonl",
    )
)


def nested(row: dict[str, Any]) -> dict[str, Any]:
    size = {name: row.pop(name) for name in ("length", "width")}
    return {"measured": {"size": size, "weight": row.pop("weight")}, **row}


case("json-nested", "fields inside objects")(
    lambda f: as_json(f, lambda c: json.dumps([*map(nested, records(c))]), ".json")
)


@case("feather", "Arrow (Feather)", needs=("pyarrow",))
def _(folder):
    import pyarrow as pa
    from pyarrow import feather

    paths = []
    for name, columns in zip(("old", "new"), pair(), strict=True):
        paths.append(folder / f"{name}.feather")
        feather.write_feather(pa.table(columns), paths[-1])
    return paths[0], paths[1]


@case(
    "parquet-dates",
    "Parquet with dates and truth values beside a text file",
    needs=("pyarrow",),
    like=None,
)
def _(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    ripe_ = {"ripe": [c == "green" for c in SOURCE["colour"]]}
    pq.write_table(pa.table(pair({"picked": DAYS[0], **ripe_})[0]), folder / "old.parquet")
    words = ["yes" if c == "green" else "no" for c in TARGET["colour"]]
    target = {"picked": [f"{d:%d.%m.%Y}" for d in DAYS[1]], "ripe": words}
    return folder / "old.parquet", both(folder, None, target)[1]


for suffix, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):

    @case(f"packed{suffix.replace('.', '-')}", f"packed: {suffix}")
    def _(folder, suffix=suffix, pack=pack):
        paths = []
        for path in both(folder):
            paths.append(Path(f"{path}{suffix}"))
            paths[-1].write_bytes(pack(path.read_bytes()))
        return paths[0], paths[1]


@case("packed-zip", "zip archives of one file, one with what a Mac adds")
def _(folder):
    paths = []
    for path in both(folder):
        paths.append(path.with_suffix(".zip"))
        with zipfile.ZipFile(paths[-1], "w", zipfile.ZIP_DEFLATED) as out:
            out.write(path, path.name)
            out.writestr(f"__MACOSX/._{path.name}", b"\0\5")
    return paths[0], paths[1]


@case("packed-zst", "zstandard", needs=("zstandard",))
def _(folder):
    import zstandard

    paths = []
    for path in both(folder):
        paths.append(Path(f"{path}.zst"))
        paths[-1].write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    return paths[0], paths[1]


@case("stdin", "the target from standard input, packed", stdin=True)
def _(folder):
    source, target = both(folder)
    (folder / "packed").write_bytes(gzip.compress(target.read_bytes()))
    return source, folder / "packed"


@case("two-sources", "two sources of other encodings, separators and decimals", like=None)
def _(folder):
    half = N_SOURCE // 2
    source, target = pair(*coloured(GERMAN))
    first = {name: values[:half] for name, values in source.items()}
    second = {name: values[half:] for name, values in source.items()}
    (folder / "a.csv").write_bytes(as_csv(first).encode())
    (folder / "b.csv").write_bytes(as_csv(second, ";", comma).encode("cp1252"))
    (folder / "new.csv").write_bytes(as_csv(target, "\t").encode("utf-16"))
    return [folder / "a.csv", folder / "b.csv"], folder / "new.csv"


# Rows that are no rows, and values of people ------------------------------------------------------


def with_lines(folder: Path, *inserted: tuple[int, str], **more: Columns) -> tuple[Path, Path]:
    """Lines before the given ones of both files, cut to their widths."""
    paths = texts(folder, *pair(**more))
    for path in paths:
        lines = path.read_text().split("\n")
        for at, line in inserted:
            lines.insert(at, ",".join(line.split(",")[: lines[0].count(",") + 1]))
        path.write_text("\n".join(lines))
    return paths


case("header-groups", "a line of groups above the names")(
    lambda folder: with_lines(folder, (0, "size,,mass,,,"))
)
case("blank-rows", "lines of separators without values")(
    lambda folder: with_lines(folder, (9, ",,,,,"), (40, " , ,,,,"))
)


@case("totals", "sums of all rows in the last one, in both files")
def _(folder):
    paths = texts(folder, *pair())
    for path, held in zip(paths, (SOURCE, TARGET), strict=True):
        sums = [f"{sum(held[name]):.1f}" for name in ("length", "width", "weight", "share")]
        path.write_text(
            path.read_text() + ",".join([*sums, "Total", ""][: 6 - ("new" in path.name)])
        )
    return paths


def with_footer(folder: Path, *words: str) -> tuple[Path, Path]:
    """Rows of a word and one number below the rows of both files."""
    footers: Columns = {"length": [*words], "weight": [191842.3] * len(words)}
    blank = [None] * len(words)
    source, target = (
        {name: [*values, *footers.get(name, blank)] for name, values in held.items()}
        for held in pair()
    )
    return texts(folder, source, target)


case("total-word", "a line that begins with Total, most of whose fields are empty")(
    lambda folder: with_footer(folder, "TOTAL:")
)
case("total-words", "lines of sums and of means")(
    lambda folder: with_footer(folder, "Summe", "Mittelwert")
)


@case("excel-footer", "totals and remarks below the rows of a sheet", needs=("openpyxl",))
def _(folder):
    import openpyxl

    source, target = pair()
    paths = sheets(folder / "old.xlsx", {"a": source}), sheets(folder / "new.xlsx", {"b": target})
    for path in paths:
        book = openpyxl.load_workbook(path)
        rows = [], ["Total", None, 191842.3], [], ["Source: the orchard's office"], ["(c) 2024"]
        for row in rows:
            book.worksheets[0].append(row)
        book.save(path)
    return paths


@case("excel-groups", "merged names of groups above the names of columns", needs=("openpyxl",))
def _(folder):
    import openpyxl

    source, target = pair()
    paths = sheets(folder / "old.xlsx", {"a": source}), sheets(folder / "new.xlsx", {"b": target})
    for path in paths:
        book = openpyxl.load_workbook(path)
        sheet = book.worksheets[0]
        sheet.insert_rows(1)
        sheet["A1"], sheet["C1"] = "size", "mass"
        sheet.merge_cells("A1:B1")
        sheet.merge_cells("C1:D1")
        book.save(path)
    return paths


case("index-twice", "two indices that pandas wrote")(
    lambda folder: texts(
        folder,
        *(
            {"Unnamed: 0": counted(n), "Unnamed: 0.1": counted(n), **held}
            for n, held in zip((N_SOURCE, N_TARGET), pair(), strict=True)
        ),
    )
)


@case("label-case", "labels in capitals, for some rows of the target", like=None)
def _(folder):
    some = [kind.upper() if k % 3 == 0 else None for k, kind in enumerate(TRUTH)]
    return both(folder, None, {LABEL: some})


@case("label-some", "labels for some rows of the target, in a column called KIND", like=None)
def _(folder):
    some = [kind if k % 3 == 0 else None for k, kind in enumerate(TRUTH)]
    return both(folder, None, {"KIND": some})


def drawn(words: str, n: int, seed: int, of: int = 1) -> list[str]:
    chosen = np.random.default_rng(seed).choice(words.split("|"), (n, of))
    return [" ".join(row) for row in chosen.tolist()]


def both_drawn(folder: Path, name: str, words: str, of: int = 1) -> tuple[Path, Path]:
    return extra(folder, name, drawn(words, N_SOURCE, 3, of), drawn(words, N_TARGET, 4, of))


case("namibia", "NA is a country", like=None)(
    lambda folder: both_drawn(folder, "country", "NA|ZA|BW|AO")
)
case("codes-zero", "codes with zeros in front", like=None)(
    lambda folder: both_drawn(folder, "shop", "007|012|101")
)
case("remarks", "remarks with line breaks, separators and quotes", like=None)(
    lambda folder: both_drawn(folder, "remark", 'firm,|soft;|sour\nround|"fine"|light|old', 6)
)


def spans(n: int, seed: int) -> list[str]:
    seconds = np.random.default_rng(seed).integers(0, 20_000, n).tolist()
    return [f"{s // 3600}:{s // 60 % 60:02}:{s % 60:02}" for s in seconds]


case("durations", "durations such as 1:30:05", like=None)(
    lambda folder: extra(folder, "trip", spans(N_SOURCE, 3), spans(N_TARGET, 4))
)


@case("units", "12.3 cm in cells, and mm in the other file", "--drop", "share", like=None)
def _(folder):
    s, t = ([f"{v * by} {unit}" for v in held["share"]] for held, by, unit in
            ((SOURCE, 1, "cm"), (TARGET, 10, "mm")))  # fmt: skip
    return both(folder, {"share": s}, {"share": t})


@case("decimal-mixed", "commas and points in one column", "--drop", "share", like=None)
def _(folder):
    s, t = (
        [f"{v:.3f}".replace(".", ",") if k % 2 else f"{v:.3f}" for k, v in enumerate(held["share"])]
        for held in (SOURCE, TARGET)
    )
    return both(folder, {"share": s}, {"share": t})


@case("excel-serial", "Excel's numbers of days beside ISO dates", "--drop", "picked", like=None)
def _(folder):
    days = [44_000 + 7 * k for k in counted(N_SOURCE)]
    dates = [(date(1899, 12, 30) + timedelta(days=d)).isoformat() for d in days[:N_TARGET]]
    return both(folder, {"picked": days}, {"picked": dates})


# What programs add, and other scripts -------------------------------------------------------------


def rewritten(folder, change):
    """A plain pair, with the text of both files changed."""
    paths = both(folder)
    for path in paths:
        path.write_bytes(change(path.read_text()).encode())
    return paths


def header_again(text):
    header, *rows = text.splitlines(keepends=True)
    return "".join([header, *rows[:40], header, *rows[40:]])


case("ends-mixed", "three kinds of line ends in one file")(
    lambda f: rewritten(
        f,
        lambda text: "".join(
            line + ("\r\n", "\n", "\r")[k % 3] for k, line in enumerate(text.splitlines())
        ),
    )
)
case("header-again", "the header again between rows, as appended files have it")(
    lambda f: rewritten(f, header_again)
)
case("rule", "a rule under the header, as databases draw one")(
    lambda f: under_header(f, lambda names: [",".join("-" * max(3, len(n)) for n in names)])
)
case("closing", "a remark below the last row")(
    lambda f: rewritten(f, lambda text: f"{text}\n(90 rows affected)\nDone.\n")
)
case("closing-dos", "the mark that DOS ends files with")(
    lambda f: rewritten(f, lambda text: text + "\x1a")
)
case("guarded", 'numbers as formulas, ="12.5"')(lambda f: both(f, number=lambda v: f'="{v}"'))

ARABIC_DIGITS = str.maketrans("0123456789.,", "٠١٢٣٤٥٦٧٨٩٫٬")
WIDE_DIGITS = str.maketrans("0123456789.", "０１２３４５６７８９．")
case("digits-arabic", "Arabic digits, decimals and thousands")(
    lambda f: both(f, number=lambda v: f"{v:,.3f}".translate(ARABIC_DIGITS))
)
case("digits-wide", "digits in the wide forms of East Asia")(
    lambda f: both(f, number=lambda v: repr(v).translate(WIDE_DIGITS))
)
case("emoji", "categories that are pictures")(
    lambda f: both(f, *coloured({"green": "🍏", "red": "🍎🏽"}))
)
case("thin-spaces", "decimal commas, thin spaces between thousands")(
    lambda f: both(f, sep=";", number=grouped("\u2009", ","))
)


def by_column(columns):
    return json.dumps({name: dict(enumerate(held)) for name, held in columns.items()})


def in_parts(columns):
    rows = [*zip(*columns.values(), strict=True)]
    return json.dumps({"columns": [*columns], "index": [*range(len(rows))], "data": rows})


case("json-columns", "JSON by columns, as pandas writes it")(
    lambda f: as_json(f, by_column, ".json")
)
case("json-split", "names and rows apart, as pandas writes it")(
    lambda f: as_json(f, in_parts, ".json")
)


@case("label-ways", "labels of the source in several cases, with blanks behind them")
def _(folder):
    source, target = pair()
    ways = (str.lower, str.lower, str.upper, lambda kind: kind.title() + "  ")
    source[LABEL] = [ways[k % 4](kind) for k, kind in enumerate(source[LABEL])]
    return texts(folder, source, target)


@case("label-half", "labels for half of the target, 'unknown' for the others", "--na", "unknown",
      like=None)  # fmt: skip
def _(folder):
    labels = [kind if k % 2 else "unknown" for k, kind in enumerate(TRUTH)]
    return both(folder, target={LABEL: labels})


@case("names-long", "names of a thousand letters that differ in the last")
def _(folder):
    long = {"length": "size " + "x" * 1000, "width": "size " + "x" * 1000 + "y"}
    held = [{long.get(name, name): v for name, v in columns.items()} for columns in pair()]
    return texts(folder, *held)


@case("names-taken", "a label called prediction", label="prediction")
def _(folder):
    source, target = pair(label=False)
    return texts(folder, {**source, "prediction": SOURCE_KINDS}, target)


@case("paths", "spaces, umlauts and quotes in the names of files")
def _(folder):
    inside = folder / "Größe & Farbe (2024)"
    inside.mkdir()
    return texts(inside, *pair(), names=("alt's neu.csv", "neu; änderung.csv"))


# The table ---------------------------------------------------------------------------------------


def main() -> int:
    """Run every pair and print what came of it."""
    began = time.perf_counter()
    failed = 0
    print("| files | what is awkward | outcome | options | right |")
    print("| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Outcome] = {}
        for one in CASES:
            done = found[one.name] = run(one, Path(folder, one.name))
            if one.like is not None:
                compare(done, found[one.like].probabilities)
            failed += bool(done.problem)
            options = " ".join(one.options)
            print(f"| {one.name} | {one.awkward} | {done.text} | {options} | {done.right:.0%} |")
            if "-v" in sys.argv:
                print(f"  {done.message.strip()} {done.notes}")
    print(f"\n{len(CASES)} pairs, {failed} failed, {time.perf_counter() - began:.0f} s")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
