"""Text as people write it becomes numbers and dates: decimal commas, %, €, yes and no, 31.12.2024.

A column is read by one convention per file: its decimal mark, the order of day and month. Values
that only one convention allows decide; columns that allow both follow the other columns of their
file, and where nothing decides, an option is asked for. Dates are days, with the time as a
fraction.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.io.table import (
    MISSING_WORDS,
    InputProblem,
    Table,
    as_numbers,
    as_texts,
    is_missing,
    joined_names,
    near_words,
    option,
    some_names,
    unusable,
    word_key,
)

# Numbers -----------------------------------------------------------------------------------------

_SIGNS = (
    r"(?:US\$|CA\$|A\$|C\$|R\$|[$€£¥₹₽₩₺₪₫฿₴₦]|kr\.?|zł|Kč|Ft|Fr\.|lei|"
    r"(?:USD|EUR|GBP|JPY|CNY|INR|CHF|SEK|NOK|DKK|PLN|CZK|HUF|RON|CAD|AUD|NZD|BRL|MXN|ZAR|RUB|TRY)"
    r"(?![A-Za-z]))"
)
#: Two ways to write one currency; $ and kr are several countries'.
_SAME = {"EUR": "€", "GBP": "£", "INR": "₹", "RUB": "₽", "TRY": "₺", "PLN": "zł", "CZK": "Kč",
         "HUF": "Ft", "CHF": "Fr.", "RON": "lei", "BRL": "R$", "AUD": "A$", "US$": "USD",
         "CA$": "CAD", "C$": "CAD"}  # fmt: skip
_SPACES = "\u00a0\u2009\u202f "


def _pattern(point: str, group: str) -> re.Pattern[str]:
    """A number with this decimal mark, its thousands set apart by another or by spaces."""
    apart = f"[{re.escape(group)}'’{_SPACES}]"
    whole = (
        rf"(?:[1-9]\d{{0,2}}(?P<apart>{apart})\d{{3}}(?:(?P=apart)\d{{3}})*"
        rf"|[1-9]\d?(?:{re.escape(group)}\d{{2}})+{re.escape(group)}\d{{3}}|\d+)"
    )
    return re.compile(
        rf"'?(?P<open>\()?(?P<sign>[-+−–]?)\s*(?P<before>{_SIGNS})?\s*(?P<inner>[-−–]?)\s*"
        rf"(?P<number>{whole}(?:{re.escape(point)}\d*)?|{re.escape(point)}\d+)"
        rf"(?P<power>[eE][-+−]?\d{{1,3}})?\s*(?P<after>%|{_SIGNS})?(?P<trailing>-)?(?P<close>\))?"
    )


_NUMBERS = {".": _pattern(".", ","), ",": _pattern(",", ".")}
_TRUTH = [
    dict(zip(words.split(), (1.0, 0.0), strict=True))
    for words in (
        *("true false", "yes no", "y n", "t f", "on off", "ja nein", "j n", "wahr falsch"),
        *("oui non", "vrai faux", "sí no", "si no", "verdadero falso", "sim não", "vero falso"),
    )
]


#: Marks of numbers in Arabic, and in the wide forms of East Asia.
_WIDE = {chr(0xFEE0 + ord(c)): c for c in "+-.,%()/:"}
_MARKS = {"٫": ".", "٬": ",", "٪": "%", **_WIDE}


def _latin(text: str) -> str:
    """Digits of any script, and the marks beside them, as 1, 2.5 and 10 % are written here."""
    if text.isascii():
        return text
    return "".join(
        _MARKS[c] if c in _MARKS else c if (d := unicodedata.decimal(c, -1)) < 0 else str(d)
        for c in text
    )


@dataclass(frozen=True)
class _Parsed:
    """Numbers of a column and the signs beside them ("": none)."""

    numbers: NDArray[np.float64]
    signs: frozenset[str]


def _each(values: NDArray[Any], read: Callable[[str], float | None]) -> NDArray[np.float64] | None:
    """`read` of every text, once per different text; None as soon as one cannot be read."""
    known: dict[Any, float] = {None: math.nan}
    out = np.empty(len(values))
    for k, value in enumerate(values.tolist()):
        number = known.get(value)
        if number is None:
            text = _latin(str(value).strip())
            number = math.nan if text.lower() in MISSING_WORDS else read(text)
            if number is None:
                return None
            known[value] = number
        out[k] = number
    return out


def _parse(values: NDArray[Any], point: str) -> _Parsed | None:
    pattern, signs = _NUMBERS[point], set()

    def read(text: str) -> float | None:
        found = pattern.fullmatch(text)
        if found is None or bool(found["open"]) != bool(found["close"]):
            return None
        if found["before"] and found["after"] not in (None, "%"):
            return None
        minus = sum(found[part] in ("-", "−", "–") for part in ("sign", "inner", "trailing"))
        minus += bool(found["open"])
        if minus > 1:
            return None
        digits = found["number"]
        if not digits.isdigit():
            digits = "".join(c for c in digits if c.isdigit() or c == point)
        power = (found["power"] or "").replace("−", "-")
        number = float(digits.replace(point, ".") + power)
        mark = found["after"] or found["before"] or ""
        signs.add(_SAME.get(mark, mark))
        number = number / 100 if found["after"] == "%" else number
        return -number if minus else number

    numbers = _each(values, read)
    return None if numbers is None else _Parsed(numbers, frozenset(signs))


_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:[.,]\d+)?))?")


def _seconds(text: str) -> float | None:
    """Of a duration or a time of day, such as 1:30:05."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    return 3600.0 * int(found[1]) + 60 * int(found[2]) + float((found[3] or "0").replace(",", "."))


#: What numbers are written as, beside "%", signs of currencies, and "" for numbers alone.
CLOCK, TRUTH, BITS = ":", "yes", "0/1"
WRITTEN = {
    "": "numbers alone",
    "%": "numbers with a percent sign",
    CLOCK: "durations such as 1:30:05",
    TRUTH: "yes and no",
}


_DIGITS = {"1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


def _truth(text: str, words: Mapping[str, float]) -> float | None:
    return words.get(text.casefold())


def _truths(values: NDArray[Any]) -> NDArray[np.float64] | None:
    for words in _TRUTH:
        found = _each(values, partial(_truth, words={**words, **_DIGITS}))
        if found is not None:
            return found
    return None


def quantities(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Numbers as people write them, by whichever decimal mark fits; None: they are words."""
    plain = as_numbers(values)
    if plain is not None or values.dtype.kind != "O":
        return plain
    parsed = _parse(values, ".") or _parse(values, ",")
    return None if parsed is None else parsed.numbers


_WITH_UNIT = re.compile(r"[-+−]?\d[\d.,]*\s*([A-Za-zµ°%/²³'\"]{1,8})")


def what_hinders(texts: Sequence[str]) -> str:
    """Why texts that look like quantities cannot be read as such; "" if they do not."""
    units = [found[1] for text in texts if (found := _WITH_UNIT.fullmatch(text))]
    plain = [text for text in texts if _NUMBERS["."].fullmatch(text)]
    if units and len(units) + len(plain) > 0.9 * len(texts):
        several = ", ".join(repr(unit) for unit in sorted({*units})[:3])
        return f"they are numbers with a unit ({several}): write numbers alone, all in one unit"
    number = re.compile(r"[-+−]?\d+(?:[.,]\d+)?")
    if all(number.fullmatch(text) for text in texts):
        return "some have a decimal comma and some a decimal point: write them alike"
    dates = [_day(text, True) is None and _day(text, False) is None for text in texts]
    if all(not other or number.fullmatch(text) for text, other in zip(texts, dates, strict=True)):
        return "some are dates and some are numbers: write them alike"
    return ""


def respelled(known: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Labels of one file as another writes them: in other cases, or 1 and 0 for yes and no.

    Parameters
    ----------
    known, given : sequences of str
        Different labels of either file.

    Returns
    -------
    dict
        From given to known; without those that have no counterpart, or several.
    """
    folded = {word_key(text): text for text in known}
    if len(folded) < len(known):
        return {}
    if all(word_key(text) in folded for text in given):
        return {text: folded[word_key(text)] for text in given}
    every: list[dict[str, float]] = [*_TRUTH, _DIGITS]
    for ours in every:
        if len(folded) == 2 and all(text in ours for text in folded):
            meant = {ours[text]: shown for text, shown in folded.items()}
            for theirs in every:
                if all(text.casefold() in theirs for text in given):
                    return {text: meant[theirs[text.casefold()]] for text in given}
    return near_words(given, known)


def one_spelling(counts: Mapping[str, int]) -> dict[str, str]:
    """Labels that differ from a commoner one in case, spaces and the like alone, and that one.

    Takes labels and how often each is there. Single letters are left alone: a and A may be two
    classes.
    """
    same: dict[str, list[str]] = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        same.setdefault(word_key(text), []).append(text)
    return {text: usual for usual, *others in same.values() if len(usual) > 1 for text in others}


# Dates -------------------------------------------------------------------------------------------

_MONTHS = {
    name: k
    for k, names in enumerate(
        (
            *("jan january", "feb february", "mar march", "apr april", "may", "jun june"),
            *("jul july", "aug august", "sep sept september", "oct october", "nov november"),
            "dec december",
        ),
        1,
    )
    for name in names.split()
}
#: Hours ahead of UTC, of zones whose names mean one thing; others (CST, IST) are no dates.
_ZONES = {
    name: hours
    for hours, names in (
        *((0, "Z UTC GMT WET"), (1, "WEST CET MEZ"), (2, "CEST MESZ EET"), (3, "EEST MSK")),
        *((9, "JST"), (-4, "EDT"), (-5, "EST"), (-6, "MDT"), (-7, "MST PDT"), (-8, "PST")),
    )
    for name in names.split()
}
_ZONE = "|".join(sorted(_ZONES, key=len, reverse=True))
_TIME = (
    r"(?:(?:\s*[T,]\s*|\s+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>" + _ZONE + r"|[-+]\d{2}:?(?:\d{2})?)?)?"
)
_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?:(?P=sep)(?P<day>\d{1,2})" + _TIME + r")?"
)
#: Two digits of a year only where the separator tells that it stands last.
_LOCAL = re.compile(
    r"(?P<one>\d{1,2})(?P<sep>[-/.])\s?(?P<two>\d{1,2})(?P=sep)\s?"
    r"(?P<year>\d{4}|(?<=[/.])\d{2}|(?<=[/.]\s)\d{2})" + _TIME
)
_WEEKDAY = r"(?:(?:[Mm]on|[Tt]ue|[Ww]ed|[Tt]hu|[Ff]ri|[Ss]at|[Ss]un)[a-z]{0,6},?\s+)?"
_NAMED = re.compile(
    _WEEKDAY + r"(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?[-\s.]+(?P<month>[A-Za-z]{3,9})\.?[-\s,]+"
    r"|(?P<month2>[A-Za-z]{3,9})\.?\s+(?P<day2>\d{1,2})(?:st|nd|rd|th)?,?\s+)(?P<year>\d{4})"
    + _TIME
)
#: As programs print it: Mon Nov 16 10:40:51 UTC 2026.
_PRINTED = re.compile(
    _WEEKDAY + r"(?P<month>[A-Za-z]{3})\s+(?P<day>\d{1,2})\s+(?P<hour>\d{1,2}):(?P<minute>\d{2}):"
    r"(?P<second>\d{2})(?P<half>)\s+(?:(?P<zone>" + _ZONE + r"|[-+]\d{4})\s+)?(?P<year>\d{4})"
)
_EPOCH = date(1970, 1, 1).toordinal()


def _day(text: str, day_first: bool) -> float | None:
    """Days since 1970-01-01."""
    if found := _YEAR_FIRST.fullmatch(text):
        parts = (int(found["year"]), int(found["month"]), int(found["day"] or 1))
    elif found := _LOCAL.fullmatch(text):
        year = int(found["year"])
        if len(found["year"]) == 2:
            year += 1900 if year >= 69 else 2000
        one, two = int(found["one"]), int(found["two"])
        # Dots are written by people who write the day first.
        order = day_first or found["sep"] == "."
        parts = (year, two, one) if order else (year, one, two)
    elif found := _NAMED.fullmatch(text) or _PRINTED.fullmatch(text):
        named = {key: value for key, value in found.groupdict().items() if value}
        month = _MONTHS.get((named.get("month") or named["month2"]).lower())
        if month is None:
            return None
        parts = (int(named["year"]), month, int(named.get("day") or named["day2"]))
    else:
        return None
    try:
        days = date(*parts).toordinal() - _EPOCH
    except ValueError:
        return None
    if found["hour"] is None:
        return float(days)
    hour, minute = int(found["hour"]), int(found["minute"])
    second = float((found["second"] or "0").replace(",", "."))
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"][0] in "pP" else 0)
    if hour > 24 or minute > 59 or second >= 61:
        return None
    clock = timedelta(hours=hour, minutes=minute, seconds=second)
    zone = found["zone"]
    if zone in _ZONES:
        clock -= timedelta(hours=_ZONES[zone])
    elif zone:
        ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:].lstrip(":") or 0))
        clock = clock - ahead if zone[0] == "+" else clock + ahead
    return days + clock / timedelta(days=1)


def days_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """Days since 1970-01-01 of dates; NaN for NaT."""
    exact = values.astype("datetime64[us]")
    days = exact.astype(np.int64) / 86_400e6
    return np.where(np.isnat(exact), np.nan, days)


def _dates_of(days: NDArray[np.float64]) -> NDArray[Any]:
    """The inverse of `days_of`."""
    gone = np.isnan(days)
    exact = np.rint(np.where(gone, 0, days) * 86_400e6).astype(np.int64).astype("datetime64[us]")
    exact[gone] = np.datetime64("NaT", "us")
    return exact


#: Columns of numbers that may be seconds, or thousandths, since 1970; and from when until when.
_TIME_NAME = re.compile(
    r"(?:^|[\W_])(?:(?i:time|date|datetime|timestamp|unixtime|epoch|ts|at))(?:$|[\W_])"
    r"|[a-z](?:Time|Date|At)$|(?i:timestamp)$"
)
_SECONDS = date(1990, 1, 1).toordinal() - _EPOCH, date(2100, 1, 1).toordinal() - _EPOCH


def _unix_days(numbers: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """Days since 1970-01-01 of whole seconds, or thousandths; None if they cannot be."""
    if numbers is None or np.isnan(numbers).all():
        return None
    known = numbers[~np.isnan(numbers)]
    for per_day in (86_400.0, 86_400e3):
        if known.min() >= _SECONDS[0] * per_day and known.max() < _SECONDS[1] * per_day:
            return numbers / per_day if (known % 1 == 0).all() else None
    return None


# Columns -----------------------------------------------------------------------------------------

MANY_NUMBERS = 20


@dataclass(frozen=True)
class Notation:
    """What the options say of one file, where the file itself leaves it open.

    Attributes
    ----------
    decimal : {".", ","} or None
        The decimal mark.
    day_first : bool or None
        Whether 3/4/2020 is in April.
    """

    decimal: str | None = None
    day_first: bool | None = None


@dataclass(frozen=True)
class Conventions:
    """How the columns of one file are read, for the batches that follow the first.

    Attributes
    ----------
    decimals : mapping of str to {".", ","}
        Per column of numbers.
    day_first : mapping of str to bool
        Per column of dates.
    """

    decimals: Mapping[str, str] = field(default_factory=dict)
    day_first: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Habits:
    """How columns were written where the model was made, for files to come.

    Attributes
    ----------
    day_first : mapping of str to bool or None
        Per column of dates, whether the day comes first in every file that tells.
    written : mapping of str to str
        Per column of numbers, what it is written as, of `WRITTEN`; others hold numbers alone.
    """

    day_first: Mapping[str, bool | None] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)


class _Cell:
    """A column of one file, and what it may be."""

    def __init__(self, values: NDArray[Any]):
        self.values = values
        self.text = values.dtype.kind == "O"

    @cached_property
    def plain(self) -> NDArray[np.float64] | None:
        return as_numbers(self.values)

    @cached_property
    def empty(self) -> bool:
        return self.plain is not None and bool(np.isnan(self.plain).all())

    @cached_property
    def parsed(self) -> dict[str, _Parsed]:
        """By decimal mark."""
        both = {point: _parse(self.values, point) for point in ".,"} if self.text else {}
        return {point: parsed for point, parsed in both.items() if parsed is not None}

    @cached_property
    def truth(self) -> NDArray[np.float64] | None:
        return _truths(self.values) if self.text else None

    @cached_property
    def clock(self) -> NDArray[np.float64] | None:
        """Seconds of durations."""
        return _each(self.values, _seconds) if self.text else None

    @cached_property
    def unix(self) -> NDArray[np.float64] | None:
        return _unix_days(self.plain)

    @property
    def number(self) -> bool:
        if self.plain is not None or self.parsed:
            return True
        return self.truth is not None or self.clock is not None

    @property
    def differs(self) -> bool:
        """Both marks are possible, and give other numbers."""
        return len(self.parsed) == 2 and not np.array_equal(
            self.parsed["."].numbers, self.parsed[","].numbers, equal_nan=True
        )

    @cached_property
    def mark(self) -> str | None:
        """The only decimal mark that fits, if it matters."""
        return next(iter(self.parsed)) if len(self.parsed) == 1 else None

    @cached_property
    def days(self) -> dict[bool, NDArray[np.float64]]:
        """By whether the day comes first."""
        if not self.text:
            return {True: days_of(self.values)} if self.values.dtype.kind == "M" else {}
        orders = (True, False)
        both = {first: _each(self.values, partial(_day, day_first=first)) for first in orders}
        return {first: days for first, days in both.items() if days is not None}

    @property
    def open_order(self) -> bool:
        """Both orders of day and month are possible, and give other days."""
        return len(self.days) == 2 and not np.array_equal(
            self.days[True], self.days[False], equal_nan=True
        )

    def signs(self, point: str) -> frozenset[str]:
        """What stands beside the numbers, or tells how they are written; nothing if it is empty."""
        if self.empty:
            return frozenset()
        if self.plain is not None:
            bits = np.isin(self.plain, (0, 1)) | np.isnan(self.plain)
            return frozenset({BITS if bits.all() else ""})
        if point in self.parsed:
            return self.parsed[point].signs
        return frozenset({TRUTH if self.truth is not None else CLOCK})

    def numbers(self, point: str) -> NDArray[np.float64] | None:
        """By this mark, or by none where the column has none."""
        if not self.text or (point == "." and self.plain is not None):
            return self.plain
        if point in self.parsed:
            return self.parsed[point].numbers
        return self.clock if self.truth is None else self.truth


def settle(
    tables: Sequence[Table],
    names: Sequence[str],
    notations: Sequence[Notation],
    *,
    missing: str = "impute",
) -> tuple[list[Table], list[InputProblem], list[str], Habits]:
    """Columns that hold numbers, or dates, in every file as numbers or dates.

    Parameters
    ----------
    tables : sequence of Table
        All files.
    names : sequence of str
        Columns to look at.
    notations : sequence of Notation
        One per file.
    missing : {"error", "impute"}
        Whether words that stand for no value also need `--missing impute`.

    Returns
    -------
    tables, problems, notes, habits
        The files with other columns; what has to be asked for; what was guessed; how columns were
        written.
    """
    cells = [
        {name: _Cell(table.columns[name]) for name in names if name in table.columns}
        for table in tables
    ]
    problems: list[InputProblem] = []
    notes: list[str] = []
    numeric, dated, unix = [], [], list[str]()
    for name in names:
        here = [held[name] for held in cells if name in held]
        if _TIME_NAME.search(name) and _are_unix(here):
            unix.append(name)
            continue
        if not any(cell.text or cell.values.dtype.kind == "M" for cell in here):
            continue
        if all(cell.number for cell in here):
            numeric.append(name)
        elif all(cell.days or cell.empty for cell in here):
            dated.append(name)
        elif (problem := _stray_words(tables, name, here, missing)) is not None:
            problems.append(problem)
    new = [dict(table.columns) for table in tables]
    marks = _decimal_marks(tables, cells, numeric, notations, problems)
    written: dict[str, str] = {}
    for name in numeric:
        signs: list[frozenset[str]] = []
        for k, held in enumerate(cells):
            if name in held:
                numbers = held[name].numbers(marks[k].get(name, "."))
                if numbers is not None:
                    new[k][name] = numbers
                signs.append(held[name].signs(marks[k].get(name, ".")))
        written[name] = _check_signs(name, signs, problems, notes)
    agreed: dict[str, bool | None] = {}
    every = _orders(tables, cells, dated, notations, problems)
    for name in dated:
        told = {
            order[name]
            for order, held in zip(every, cells, strict=True)
            if name in held and (len(held[name].days) == 1 or held[name].open_order)
        }
        agreed[name] = told.pop() if len(told) == 1 else None
    for k, orders in enumerate(every):
        for name, first in orders.items():
            if cells[k][name].text:
                days = cells[k][name].days.get(first, cells[k][name].plain)
                assert days is not None  # a column without any value reads as numbers
                new[k][name] = _dates_of(days)
    for name in unix:
        notes.append(f"column {name!r} is read as times: seconds, or thousandths, since 1970.")
        agreed[name] = None
        for k, held in enumerate(cells):
            if name in held:
                days = held[name].unix
                new[k][name] = _dates_of(
                    np.full(tables[k].n_rows, np.nan) if days is None else days
                )
    settled = [replace(table, columns=held) for table, held in zip(tables, new, strict=True)]
    return settled, problems, notes, Habits(agreed, written)


def _are_unix(cells: Sequence[_Cell]) -> bool:
    """Whether numbers of every file that has any are seconds, or thousandths, since 1970."""
    filled = [cell for cell in cells if not cell.empty]
    return bool(filled) and all(cell.unix is not None for cell in filled)


def _stray_words(
    tables: Sequence[Table], name: str, cells: Sequence[_Cell], missing: str
) -> InputProblem | None:
    """A column of numbers (or dates) in which some words stand."""
    values = np.concatenate([as_texts(cell.values)[:20_000] for cell in cells])
    known = values[~is_missing(values)]
    if not len(known):
        return None

    def stray(read: Callable[[str], Any]) -> list[str]:
        memory: dict[str, bool] = {}
        for text in set(known.tolist()):
            word = _latin(text.strip())
            memory[text] = word.lower() not in MISSING_WORDS and read(word) is None
        return [text for text in known.tolist() if memory[text]]

    kinds: tuple[tuple[str, Callable[[str], Any]], ...] = (
        ("numbers", lambda t: _NUMBERS["."].fullmatch(t) or _NUMBERS[","].fullmatch(t)),
        ("dates", lambda t: _day(t, True) or _day(t, False)),
    )
    for kind, read in kinds:
        words, what = stray(read), kind
        # Few different numbers, and a word among them, are categories.
        many = len(set(known.tolist()) - set(words)) > MANY_NUMBERS
        if many and 0 < len(words) <= 0.2 * len(known):
            break
    else:
        return None
    different = sorted({word.strip() for word in words})
    shown = some_names((word[:30] for word in different), 3)
    paths = " and ".join(dict.fromkeys(table.path for table in tables))
    begin = f"column {name!r} of {paths} holds {what}, but also {shown}"
    if len(different) > 5:
        return unusable(f"{begin}: correct them, or", name)
    extra = (("--missing", "impute"),) if missing == "error" else ()
    ask = " ".join([f"--na '{joined_names(different)}'", *(" ".join(pair) for pair in extra)])
    return InputProblem(
        f"{begin}: if they mean no value, say {ask}; else correct them, or leave it out with "
        f"{option('--drop', name)}",
        (*(("--na", word) for word in different), *extra),
        name,
    )


def _decimal_marks(
    tables: Sequence[Table],
    cells: Sequence[Mapping[str, _Cell]],
    names: Sequence[str],
    notations: Sequence[Notation],
    problems: list[InputProblem],
) -> list[dict[str, str]]:
    """The decimal mark of every column of every file."""
    marks: list[dict[str, str]] = [{} for _ in tables]
    here = [{n: held[n] for n in names if n in held and held[n].text} for held in cells]
    if all(cell.plain is not None for held in here for cell in held.values()):
        return marks  # the common case: no column needs more than a plain look
    evidence = [{cell.mark for cell in held.values()} - {None} for held in here]
    for k, held in enumerate(here):
        others = set().union(*evidence[:k], *evidence[k + 1 :])
        own = next(iter(evidence[k])) if len(evidence[k]) == 1 else None
        for name, cell in held.items():
            grouped = cell.differs and cell.plain is not None  # 1.234: a thousand, or one and a bit
            if cell.mark is not None:
                marks[k][name] = str(cell.mark)
            elif not cell.differs:
                marks[k][name] = "."
            elif own or notations[k].decimal:
                marks[k][name] = str(own or notations[k].decimal)
            elif grouped and not evidence[k] and "," not in others:
                marks[k][name] = "."
            else:
                marks[k][name] = "."
                example = next(t for t in cell.values.tolist() if t and re.search(r"\d[.,]\d", t))
                problems.append(
                    InputProblem(
                        f"{tables[k].path}: in column {name!r}, nothing tells whether {example!r} "
                        "has thousands or decimals: say --decimal point or --decimal comma",
                        (("--decimal", "point|comma"),),
                        name,
                    )
                )
    return marks


def _check_signs(
    name: str, signs: Sequence[frozenset[str]], problems: list[InputProblem], notes: list[str]
) -> str:
    """Refuse numbers beside percentages, durations or yes and no, and several currencies.

    Returns what the column is written as, of `WRITTEN`.
    """
    whole = frozenset().union(*signs)
    # 1 and 0 beside yes and no mean these; elsewhere they are numbers.
    kinds = _kinds(whole - {BITS}) | ({""} if BITS in whole and TRUTH not in whole else set())
    money = whole - {*WRITTEN, BITS}
    wrong, alike = "", "write them alike"
    if kinds == {CLOCK}:
        notes.append(f"column {name!r} is read as durations, in seconds.")
    elif CLOCK in kinds:
        wrong = f"holds durations such as 1:30:05 in one file and numbers in another: {alike}"
    elif TRUTH in kinds and len(kinds) > 1:
        wrong = f"holds yes and no in one file and other numbers than 1 and 0 in another: {alike}"
    elif "%" in whole and (len(kinds) > 1 or money):
        wrong = f"has some values with a percent sign and some without: {alike}"
    elif any(len(held & money) > 1 for held in signs):
        wrong = f"holds several currencies ({', '.join(sorted(money))}): convert them"
    elif len(money) > 1:
        told = " and ".join(sorted(money))
        notes.append(f"column {name!r} is in {told}; amounts stay as they are.")
    if wrong:
        problems.append(unusable(f"column {name!r} {wrong}, or", name))
    return next(iter(kinds)) if len(kinds) == 1 else ""


def _kinds(signs: frozenset[str]) -> set[str]:
    """The signs of which numbers cannot stand beside others; currencies are numbers alone."""
    return {sign if sign in WRITTEN else "" for sign in signs}


def _orders(
    tables: Sequence[Table],
    cells: Sequence[Mapping[str, _Cell]],
    names: Sequence[str],
    notations: Sequence[Notation],
    problems: list[InputProblem],
    trained: Mapping[str, bool | None] | None = None,
) -> list[dict[str, bool]]:
    """Whether the day comes first, per column of every file; `trained`: in files of before."""

    def only(held: Mapping[str, _Cell], columns: Sequence[str]) -> bool | None:
        found = {
            next(iter(held[n].days))
            for n in columns
            if n in held and held[n].text and len(held[n].days) == 1
        }
        return found.pop() if len(found) == 1 else None

    orders: list[dict[str, bool]] = [{} for _ in tables]
    for k, held in enumerate(cells):
        for name in names:
            if name not in held:
                continue
            cell = held[name]
            if not cell.open_order:
                orders[k][name] = next(iter(cell.days), True)
                continue
            ways = [notations[k].day_first, only(held, names)]
            ways += [only(other, [name]) for other in cells] + [(trained or {}).get(name)]
            found = next((way for way in ways if way is not None), None)
            orders[k][name] = bool(found)
            if found is None:
                example = next(t for t in cell.values.tolist() if t and _LOCAL.fullmatch(t.strip()))
                problems.append(
                    InputProblem(
                        f"{tables[k].path}: in column {name!r}, nothing tells whether {example!r} "
                        "begins with the day or the month: say --dates day-first or --dates "
                        "month-first",
                        (("--dates", "day-first|month-first"),),
                        name,
                    )
                )
    return orders


# New rows ----------------------------------------------------------------------------------------


def convert(
    table: Table,
    numbers: Mapping[str, str | None],
    dates: Mapping[str, bool | None],
    notation: Notation,
    known: Conventions | None = None,
) -> tuple[Table, Conventions, list[InputProblem]]:
    """Columns of a file, or of a batch of one, as the numbers and dates that a model wants.

    Parameters
    ----------
    table : Table
        The rows.
    numbers : mapping of str to str or None
        Columns that must hold numbers, and what they were written as when the model was made
        (`Habits.written`; None: nobody knows); those that hold none are left as they are.
    dates : mapping of str to bool or None
        Columns that must hold dates, and whether the day came first when the model was made.
    notation : Notation
        What the options say.
    known : Conventions, default=None
        Of the batches before; None: this is the first, and decides.
    """
    new = dict(table.columns)
    problems: list[InputProblem] = []
    held = {name: _Cell(new[name]) for name in (*numbers, *dates) if name in new}
    if known is None:
        marks = _decimal_marks(
            [table], [held], [n for n in numbers if n in held], [notation], problems
        )
        orders = _orders(
            [table],
            [{n: held[n] for n in dates if n in held and held[n].days}],
            [*dates],
            [notation],
            problems,
            dates,
        )
        # A column without any mark so far may have one later: then it is that of the file.
        evident = {held[name].mark for name in marks[0]} - {None}
        usual = str(evident.pop()) if len(evident) == 1 else "."
        decimals = {
            name: mark if held[name].differs or held[name].mark else usual
            for name, mark in marks[0].items()
        }
        known = Conventions(decimals, orders[0])
    for name, habit in numbers.items():
        if name not in held:
            continue
        mark = known.decimals.get(name, ".")
        found = held[name].numbers(mark)
        if found is None:
            continue
        new[name] = found
        if other := _other_habit(held[name], mark, habit):
            problems.append(
                InputProblem(
                    f"{table.path}: column {name!r} holds {other}, but {WRITTEN[str(habit)]} where "
                    "the model was made: write them as there",
                    column=name,
                )
            )
    for name in dates:
        if name in held and (unix := held[name].unix) is not None:
            new[name] = _dates_of(unix)
        elif name in held and held[name].text and name in known.day_first:
            days = held[name].days.get(known.day_first[name])
            if days is not None:
                new[name] = _dates_of(days)
    return replace(table, columns=new), known, problems


def _other_habit(cell: _Cell, mark: str, habit: str | None) -> str:
    """What numbers are written as that mean another thing by this habit; "" if they do not."""
    if habit is None or (not habit and cell.plain is not None):
        return ""
    signs = cell.signs(mark)
    # 1 and 0 are yes and no, and the other way round.
    kinds = _kinds(signs - {BITS} if habit == TRUTH else signs) - {habit}
    kinds -= set() if habit else {TRUTH}
    return WRITTEN[min(kinds)] if kinds else ""
