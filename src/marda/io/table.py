"""`Table`: rows of files, with names; and what is wrong with files, all of it in one message."""

from __future__ import annotations

import csv
import difflib
import io
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import available_memory, format_bytes

Column = NDArray[Any]
#: In a column of numbers or dates these mean "no value"; in one of words only an empty field does.
MISSING_WORDS = frozenset(
    {"", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "–", "—", ".", "?", "<na>"}
    | {"#n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#num!", "#name?", "nat"}
    | {"n.a.", "n. a.", "n/d", "n.d.", "n.b.", "k.a.", "k. a.", "keine angabe", "not available"}
    | {"missing"}
)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
WHOLE = 2**62  # rows per batch when the caller keeps them all
MOST_SHOWN = 12
#: Options that take names, separated by commas.
LISTS = frozenset({"--drop", "--keep", "--na", "--text"})


@dataclass(frozen=True)
class ReadRequest:
    """What a reader is asked for.

    Attributes
    ----------
    rows : int
        Rows per batch.
    columns : collection of str, or None
        Read only these (names that differ in case or spaces count); None: all.
    encoding : str or None
        Of text; None: found out.
    sheet : str or None
        Of a workbook; None: the only one that is not empty.
    """

    rows: int = WHOLE
    columns: Collection[str] | None = None
    encoding: str | None = None
    sheet: str | None = None

    def wants(self, names: Sequence[str]) -> list[int]:
        """Places of the columns to read."""
        if self.columns is None:
            return [*range(len(names))]
        keys = {*map(name_key, self.columns)}
        return [k for k, name in enumerate(names) if name_key(name) in keys]


@dataclass(frozen=True)
class Table:
    """Some rows of a file.

    Attributes
    ----------
    path : str
        Where they come from, for messages.
    n_rows : int
        How many there are.
    columns : mapping of str to array
        Numbers (NaN: missing), dates (datetime64; NaT: missing) or, in object arrays, text (None:
        missing).
    block : array or CSR array of shape (n_rows, d), or None
        Features that came as a matrix.
    block_names : tuple of str
        Their names, if the file has any.
    refused : mapping of str to str
        Columns that cannot be used, and why.
    parts : tuple of (str, int)
        Files and their rows, where the rows are of several files.
    notes : tuple of str
        How the file was read, where that had to be guessed.
    nameless : collection of str
        Columns that the file has no name for.
    """

    path: str
    n_rows: int
    columns: Mapping[str, Column]
    block: Any = None
    block_names: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
    nameless: Collection[str] = ()

    def __getitem__(self, name: str) -> Column:
        """A column, or an error that names it."""
        if name in self.refused:
            raise Problems([unusable(f"{self.path}: column {name!r} {self.refused[name]}:", name)])
        if name not in self.columns:
            raise InputError(f"{self.missing_column(name)}.")
        return self.columns[name]

    def missing_column(self, name: str) -> str:
        """That there is no such column, what is close to it, and what there is."""
        known = ", ".join([*self.columns][:8]) or "none with a name"
        close = did_you_mean(name, self.names)
        return f"{self.path} has no column {name!r}{close or f' (columns: {known})'}"

    @property
    def names(self) -> list[str]:
        """All columns, also those that cannot be used."""
        return [*self.columns, *self.refused]

    def without(self, na: Collection[str]) -> Table:
        """The table with nothing in the place of these words, or of these numbers."""
        numbers = [float(word) for word in na if _NUMBER.fullmatch(word)]
        columns = {}
        for name, values in self.columns.items():
            columns[name] = values
            if values.dtype.kind == "O":
                columns[name] = np.array([None if v in na else v for v in values], dtype=object)
            elif values.dtype.kind in "iuf" and (gone := np.isin(values, numbers)).any():
                columns[name] = np.where(gone, np.nan, values)
        return replace(self, columns=columns)

    def place(self, row: int) -> tuple[str, int]:
        """The file that a row is of, and its place there."""
        for path, n in self.parts:
            if row < n:
                return path, row
            row -= n
        return self.path, row


def check_width(path: object, width: int) -> None:
    """Refuse a sparse matrix whose means and scales alone would not fit in memory."""
    room = available_memory()
    if 16 * width > room:
        raise InputError(
            f"{path} has {width:,} columns, whose means and scales take "
            f"{format_bytes(16 * width)}, above the memory there is, {format_bytes(room)}: look "
            "for a column number that is too large, or raise MARDA_MEMORY."
        )


def as_numbers(values: Column) -> NDArray[np.float64] | None:
    """Numbers with NaN for missing values, or None if the column is text."""
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        return None
    try:
        return values.astype(np.float64)  # None becomes NaN, text of numbers numbers
    except (ValueError, TypeError):
        pass
    words = [None if v is None or str(v).strip().lower() in MISSING_WORDS else v for v in values]
    try:
        return np.array(words, dtype=np.float64)
    except (ValueError, TypeError):
        return None


def as_texts(values: Column) -> Column:
    """Text with None for missing values; whole numbers are written without a point."""
    if values.dtype.kind == "O":
        return values
    if values.dtype.kind == "M":
        days = (values == values.astype("datetime64[D]")) | np.isnat(values)
        shown = np.datetime_as_string(values, unit="D" if days.all() else "s").tolist()
        texts = [None if text == "NaT" else text for text in shown]
        return np.array(texts, dtype=object)
    if values.dtype.kind == "f":
        texts = [None if np.isnan(v) else f"{v:.15g}" for v in values.tolist()]
        return np.array(texts, dtype=object)
    return np.array([str(v) for v in values.tolist()], dtype=object)


def is_missing(values: Column) -> NDArray[np.bool_]:
    """NaN, NaT or None."""
    if values.dtype.kind == "M":
        return np.asarray(np.isnat(values))
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind == "O":
        return np.array([v is None for v in values], dtype=bool)
    return np.zeros(len(values), dtype=bool)


def join(parts: Sequence[Table]) -> Table:
    """Batches of one file, one below the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    columns = {
        name: np.concatenate(_alike([part[name] for part in parts])) for name in first.columns
    }
    block = first.block
    if block is not None:
        blocks = [part.block for part in parts]
        block = sp.csr_array(sp.vstack(blocks)) if sp.issparse(block) else np.concatenate(blocks)
    n_rows = sum(part.n_rows for part in parts)
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return replace(first, n_rows=n_rows, columns=columns, block=block, notes=notes)


def _alike(parts: list[Column]) -> list[Column]:
    """Numbers stay numbers, and dates dates, only if all parts are."""
    kinds = {"M" if p.dtype.kind == "M" else "O" if p.dtype.kind == "O" else "f" for p in parts}
    return parts if len(kinds) == 1 else [as_texts(p) for p in parts]


def named(table: Table, names: Iterable[str]) -> tuple[Table, tuple[str, ...]]:
    """The table with columns called as in `names` where only case, spaces and the like differ.

    Also gives the columns that were renamed. Names that are not told apart are left alone.
    """
    names = [*names]
    lost = {name_key(name): name for name in names if name not in table.names}
    if not lost:
        return table, ()
    keys = Counter(name_key(name) for name in (*names, *table.names))
    new = {}
    for old in table.names:
        key = name_key(old)
        if old not in names and key in lost and keys[key] == 2:
            new[old] = lost[key]
    if not new:
        return table, ()

    def called(held: Mapping[str, Any]) -> dict[str, Any]:
        return {new.get(name, name): value for name, value in held.items()}

    renamed = replace(
        table,
        columns=called(table.columns),
        refused=called(table.refused),
        nameless=frozenset(new.get(name, name) for name in table.nameless),
    )
    return renamed, tuple(new)


def stack_sources(tables: Sequence[Table], left_out: Collection[str | None]) -> Table:
    """One table of all rows, with the columns of the first.

    Parameters
    ----------
    tables : sequence of Table
        One per source.
    left_out : collection of str
        Columns that are no features, and which need not be in every file.

    Returns
    -------
    Table
        Columns that other files have and the first has not are left out, as those of a target are.
    """
    first = tables[0]
    if len(tables) == 1:
        return first
    tables = [first, *(named(table, first.names)[0] for table in tables[1:])]
    for other in tables[1:]:
        if (first.block is None) != (other.block is None):
            whole = first if first.block is None else other
            raise InputError(
                f"{whole.path} holds columns, but another source a matrix of features."
            )
        lost = [n for n in first.names if n not in other.names and n not in left_out]
        if lost:
            raise Problems([lacking(other, first, lost[0])])
    kept = [n for n in first.columns if all(n in table.columns for table in tables)]
    refused = {name: kind for table in tables for name, kind in table.refused.items()}
    whole = join(
        [
            Table(table.path, table.n_rows, {n: table[n] for n in kept}, block, first.block_names)
            for table, block in zip(tables, _blocks(tables), strict=True)
        ]
    )
    parts = tuple((table.path, table.n_rows) for table in tables)
    path = ", ".join(table.path for table in tables)
    refused = {name: kind for name, kind in refused.items() if name in first.names}
    nameless = {name for table in tables for name in table.nameless}
    return replace(whole, path=path, refused=refused, parts=parts, nameless=nameless)


def _blocks(tables: Sequence[Table]) -> list[object]:
    """Matrices of one width, with their columns in the order of the first."""
    if tables[0].block is None:
        return [None] * len(tables)
    blocks, first = [], tables[0]
    for table in tables:
        block = table.block
        if first.block_names != table.block_names:
            if sorted(first.block_names) != sorted(table.block_names):
                raise InputError(f"{table.path} names other features than {first.path}.")
            block = block[:, [table.block_names.index(name) for name in first.block_names]]
        blocks.append(block)
    widths = {block.shape[1] for block in blocks}
    if len(widths) == 1 and len({sp.issparse(block) for block in blocks}) == 1:
        return blocks
    if not all(sp.issparse(block) for block in blocks):
        raise InputError(
            f"{tables[0].path} and the other sources have matrices of different kinds or widths "
            f"({', '.join(str(block.shape[1]) for block in blocks)} columns)."
        )
    # svmlight leaves out the last columns where they are zero.
    return [sp.csr_array((b.data, b.indices, b.indptr), (b.shape[0], max(widths))) for b in blocks]


class InputError(ValueError):
    """A file, a column or an option that cannot be used; the message says what to do."""


@dataclass(frozen=True)
class InputProblem:
    """One thing that keeps files from being used.

    Attributes
    ----------
    what : str
        A sentence without its full stop, which says what to do.
    options : tuple of (str, str)
        Options and their values which, taken together, solve it; empty: only another file does.
        Where only the reader knows, all values stand there with a bar between them.
    column : str or None
        The column that it is about.
    """

    what: str
    options: tuple[tuple[str, str], ...] = ()
    column: str | None = None


class Problems(InputError):
    """All that was found.

    Attributes
    ----------
    problems : tuple of InputProblem
        In the order of the columns.
    options : tuple of str
        Arguments that solve every problem that options can solve; lists are joined.
    """

    def __init__(self, problems: Sequence[InputProblem]):
        self.problems = tuple(problems)
        self.options = _merged(problems)
        if len(problems) == 1:
            super().__init__(f"{problems[0].what}.")
            return
        shown = [f"({k}) {p.what}" for k, p in enumerate(problems[:MOST_SHOWN], 1)]
        if len(problems) > MOST_SHOWN:
            shown.append(f"and {len(problems) - MOST_SHOWN} more")
        text = f"{len(problems)} things to settle: {'; '.join(shown)}."
        if self.options:
            text += f" In one go: {shlex.join(self.options)}"
        super().__init__(text)


def unusable(what: str, name: str) -> InputProblem:
    """A column that is to be left out; `what` says why, up to "leave it out"."""
    return InputProblem(
        f"{what} leave it out with {option('--drop', name)}", (("--drop", name),), name
    )


def lacking(table: Table, other: Table, name: str) -> InputProblem:
    """A column that one file has and another has not."""
    close = did_you_mean(name, set(table.names) - set(other.names))
    return unusable(
        f"{table.path} has no column {name!r}, which {other.path} has{close}: add it, or", name
    )


def _merged(problems: Iterable[InputProblem]) -> tuple[str, ...]:
    merged: dict[str, list[str]] = {}
    for problem in problems:
        for flag, value in problem.options:
            values = merged.setdefault(flag, [])
            if value not in values:
                values.append(value)
    return tuple(
        word
        for flag, values in merged.items()
        for word in (flag, joined_names(values) if flag in LISTS else values[0])
    )


def refuse(problems: Sequence[InputProblem]) -> None:
    """Raise all of them at once, if there are any."""
    if problems:
        raise Problems(problems)


# Names of columns --------------------------------------------------------------------------------


def split_names(text: str) -> list[str]:
    """Names separated by commas; a name that holds a comma stands in double quotes."""
    try:
        names = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error:
        raise InputError(
            f"{text!r} is no list of columns: separate names by commas, and put a name that holds "
            "a comma in double quotes, as in 'a,\"b, c\"'."
        ) from None
    return [name.strip() for name in names if name.strip()]


def joined_names(names: Iterable[str]) -> str:
    """The inverse of `split_names`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(names)
    return out.getvalue()


def option(flag: str, name: str) -> str:
    """An option and a column as a person types them."""
    return f"{flag} '{joined_names([name])}'"


def name_key(name: str) -> str:
    """The same for names that differ in case, spaces, hyphens and underscores only."""
    return re.sub(r"[\s_\-.]+", "", word_key(name))


def word_key(text: str) -> str:
    """The same for words that differ in case, kinds of spaces and marks that nobody sees only."""
    if not text.isascii():
        plain = unicodedata.normalize("NFC", text)
        text = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return " ".join(text.split()).casefold()


def near_words(words: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Words that are not known, and the one known word that each is like but for `word_key`.

    Single letters are left alone: a and A may mean two things.
    """
    known = {*known}
    keys = Counter(map(word_key, known))
    place = {key: text for text in known if keys[key := word_key(text)] == 1 and len(key) > 1}
    return {w: place[key] for w in words if w not in known and (key := word_key(w)) in place}


def read_as(found: Mapping[str, str]) -> str:
    """What some words are read as."""
    return ", ".join(f"{new!r} is read as {old!r}" for new, old in sorted(found.items())[:3])


def some_names(names: Iterable[object], most: int = 5, shown: Callable[[Any], str] = repr) -> str:
    """The first of them, and how many more there are."""
    names = [*names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """' (did you mean …?)' where a name is close to one that is there; else nothing."""
    keys = {name_key(other): other for other in known}
    close = difflib.get_close_matches(name_key(name), list(keys), n=1, cutoff=0.7)
    return f" (did you mean {keys[close[0]]!r}?)" if close else ""


# The same sentences for Python --------------------------------------------------------------------

_VALUES = {
    "missing": r"(?:error|impute)",
    "scale": r"(?:none|standard)",
    "decimal": r"(?:point|comma)",
    "dates": r"(?:day-first|month-first)",
    "method": r"(?:auto|(?:BL|MCF|S1|J12)[MCD]*)",
    "na": r"[^\s'.:;,]+",
}
_GIVEN = re.compile(
    r"--(?P<flag>[a-z]+)(?: '(?P<quoted>.*?)'(?=[\s:;,.)]|$)| (?P<bare>"
    + "|".join(rf"(?<=--{flag} ){values}" for flag, values in _VALUES.items())
    + r"))?"
)


#: Commands, and what a person does in Python in their place.
_COMMANDS = {
    "run marda compare": "compare methods",
    "Run marda compare": "Compare methods",
    "marda label names": "to_label names",
    "with --json": "in .columns",
}


def as_keywords(text: str) -> str:
    """A message with its options as the keywords of a function: ``drop=['a']`` for ``--drop a``.

    Commands that it names become what a person does in Python.
    """
    text, mark, together = text.partition(" In one go: ")
    for command, done in _COMMANDS.items():
        text = text.replace(command, done)
    text = _GIVEN.sub(_keyword, text)
    # Several in a row are separated as arguments are.
    text = re.sub(r"(\w+=(?:'[^']*'|\[[^]]*\])) (?=\w+=)", r"\1, ", text)
    words = shlex.split(together)
    pairs = zip(words[::2], words[1::2], strict=False)
    return text + mark + ", ".join(_assignment(flag[2:], value) for flag, value in pairs)


def _keyword(found: re.Match[str]) -> str:
    value = found["bare"] if found["quoted"] is None else found["quoted"]
    return found["flag"] if value is None else _assignment(found["flag"], value)


def _assignment(name: str, value: str) -> str:
    if f"--{name}" in LISTS:
        return f"{name}={split_names(value)!r}"
    return f"{name}={' or '.join(repr(one) for one in value.split('|'))}"
