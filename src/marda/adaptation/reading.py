"""Files in: rows, how large they are, and the arrays of a fit. Files out: what may be written."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._machine import available_memory, parse_bytes
from marda._order import row_hashes, stack_rows
from marda.io import (
    InputError,
    PredictionWriter,
    Preprocessing,
    detect_format,
    fit_preprocessing,
    read_labels,
    read_table,
    stack_sources,
)
from marda.io.binary import parquet_files, parquet_footer
from marda.io.conventions import Notation, one_spelling, respelled, settle
from marda.io.formats import is_sample, refuse_address
from marda.io.preprocessing import MAX_CATEGORIES, missing_values
from marda.io.screening import free_texts, notes_of, odd_numbers, screen, unique_dates, used_notes
from marda.io.table import (
    InputProblem,
    Table,
    as_numbers,
    as_texts,
    is_missing,
    named,
    near_words,
    read_as,
    refuse,
)
from marda.io.text import unpacked_size
from marda.selection.inputs import COPIES

#: Of fewer rows any may be a sum by chance; and how far a rounded sum may be off.
FEW_TO_SUM, ROUNDING = 5, 1e-3
NOTHING: Mapping[str, float] = {}
LARGEST = 1e75  # sums of fourth powers stay below 1e308
#: Of free memory: rows are copied a few times on their way into a model.
SHARE = 0.25
PathLike = str | os.PathLike[str]
Sources = PathLike | Sequence[PathLike]


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


@dataclass(frozen=True)
class ReadOptions:
    """How files are read.

    Attributes
    ----------
    label : str
        Column of labels; empty target labels are unknown. "": there is none.
    format : str or None
        Of both files; None: found out.
    id : str or None
        Column carried to the predictions.
    text, drop, keep : tuples of str
        Columns for tf-idf; columns to leave out; columns to use although they look like an id, a
        constant or a leak.
    missing : {"error", "impute"}
        What to do with missing values.
    scale : {"none", "standard"}
        Whether numbers are brought to mean 0 and standard deviation 1.
    encoding, sheet : tuples of str
        Of text files and of workbooks: one for all files, or one per file, sources first; none:
        found out.
    decimal : tuple of {"point", "comma"}
        Likewise: the decimal mark, where a file does not tell.
    dates : tuple of {"day-first", "month-first"}
        Likewise: how 3/4/2020 is read, where no file tells.
    na : tuple of str
        Words that mean "no value".
    """

    label: str
    format: str | None = None
    id: str | None = None
    text: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    missing: str = "error"
    scale: str = "none"
    keep: tuple[str, ...] = ()
    encoding: tuple[str, ...] = ()
    sheet: tuple[str, ...] = ()
    decimal: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    na: tuple[str, ...] = ()

    @property
    def not_features(self) -> set[str | None]:
        """Columns that are no features by these options."""
        return {self.label, self.id, *self.drop}

    def notations(self, n_files: int) -> list[Notation]:
        """What is said of numbers and dates, per file."""
        marks = one_per_file("--decimal", self.decimal, n_files, {"point": ".", "comma": ","})
        orders = {"day-first": True, "month-first": False}
        first = one_per_file("--dates", self.dates, n_files, orders)
        return [Notation(mark, order) for mark, order in zip(marks, first, strict=True)]

    def read(
        self, paths: Sequence[PathLike | Table], watch: Callable[[Table], None] | None = None
    ) -> list[Table]:
        """The tables of all files; what is wrong with several is said at once.

        A table that is there already is not read again. `watch` is shown each part that is read.
        """
        encodings = one_per_file("--encoding", self.encoding, len(paths))
        sheets = one_per_file("--sheet", self.sheet, len(paths))
        tables, problems = [], []
        for path, encoding, sheet in zip(paths, encodings, sheets, strict=True):
            if isinstance(path, Table):
                tables.append(path)
                continue
            try:
                how = {"encoding": encoding, "sheet": sheet, "na": self.na, "watch": watch}
                tables.append(read_table(path, self.format, **how))
            except InputError as error:
                problems.append(InputProblem(str(error).removesuffix(".")))
        refuse(problems)
        return [_without_blank(table) for table in tables]


def one_per_file(
    flag: str, given: Sequence[str], n_files: int, meaning: Mapping[str, Any] | None = None
) -> list[Any]:
    """The values of an option, one per file; None where nothing is said."""
    if meaning is not None and (wrong := [value for value in given if value not in meaning]):
        raise InputError(f"{flag} {wrong[0]}: choose from {', '.join(meaning)}.")
    values = [value if meaning is None else meaning[value] for value in given] or [None]
    if len(values) not in (1, n_files):
        raise InputError(
            f"{flag} has {len(values)} values for {n_files} files: give one for all, or one per "
            "file, sources first."
        )
    return values * n_files if len(values) == 1 else values


@dataclass(frozen=True)
class Data:
    """Rows of all files, ready for `fit`; those of several sources lie one below the other.

    `tables` holds them as they were read, source and target, where that was asked for.
    """

    Xs: Any
    Xt: Any
    ys: NDArray[Any]
    yt: NDArray[Any]
    ids: NDArray[Any] | None
    preprocessing: Preprocessing
    notes: tuple[str, ...]
    source_domain: NDArray[np.int64]
    tables: tuple[Table, ...] = ()

    @property
    def known(self) -> NDArray[np.bool_]:
        """Target rows that have a label."""
        return ~is_missing(self.yt)

    @cached_property
    def copied(self) -> NDArray[np.bool_]:
        """Labelled target rows that say nothing of new ones: copies of other labelled rows.

        None where they are few, or natural: in tables of few values some have several classes.
        """
        places = np.flatnonzero(self.known)
        found = np.zeros(len(self.yt), dtype=bool)
        if not len(places):
            return found
        rows = np.concatenate([row_hashes(self.Xs), row_hashes(self.Xt[places])])
        _, row, counts = np.unique(rows, return_inverse=True, return_counts=True)
        codes = np.unique(np.concatenate([self.ys, self.yt[places]]), return_inverse=True)[1]
        found[places] = (counts[row] > 1)[len(self.ys) :]
        natural = len({*zip(row.tolist(), codes.ravel().tolist(), strict=True)}) > len(counts)
        return found & (not natural and found.sum() > COPIES * len(places))

    @property
    def copy_notes(self) -> list[str]:
        """A sentence on them."""
        n = int(self.copied.sum())
        if not n:
            return []
        return [
            f"{n} of {int(self.known.sum())} labelled target rows are copies of other labelled "
            "rows: how many of them are right says nothing of new ones."
        ]

    def without_copies(self) -> Data:
        """The same, where copies have no label."""
        if not self.copied.any():
            return self
        yt = self.yt.copy()
        yt[self.copied] = None if yt.dtype.kind == "O" else np.nan
        return replace(self, yt=yt)

    def packed(self, *, target_labels: bool = True) -> tuple[Any, Any, Any, Any]:
        """X, y, sample_domain and the mark of unlabelled rows; classes keep their type."""
        X = stack_rows(self.Xs, self.Xt)
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
    """Read all files and decide what becomes of every column; what is wrong is said at once."""
    return data_of(options.read([*sources_of(source), target]), options)


def data_of(tables: Sequence[Table], options: ReadOptions, *, hold: bool = False) -> Data:
    """The rows of tables, of the sources first and of the target last, ready for `fit`.

    Parameters
    ----------
    tables : sequence of Table
        As they were read.
    options : ReadOptions
        What becomes of their columns. Without a label, all rows of the sources are of one class.
    hold : bool, default=False
        Keep the tables beside the rows, with text read as numbers and dates.
    """
    notes = [note for table in tables for note in table.notes]
    tables = one_naming(tables, notes)
    problems = _lost_names(tables, options)
    sources, last = tables[:-1], tables[-1]
    lost = [table for table in sources if options.label not in table.columns]
    if lost and options.label:
        refuse(problems or [InputProblem(lost[0].missing_column(options.label))])
    left_out = {*options.not_features, *options.text}
    beside = any(table.block is not None for table in tables)  # a matrix holds the features
    features = [n for n in tables[0].names if n not in left_out and not beside]
    tables, found, guessed, habits = settle(
        tables, features, options.notations(len(tables)), missing=options.missing
    )
    problems += found
    notes += guessed
    asked = {p.column for p in found if p.column is not None}  # no more is said of these
    tables = [without_totals(table, notes) for table in tables]
    tables = _one_wording(tables, [n for n in features if n not in asked], notes)
    sources, last = tables[:-1], tables[-1]
    whole = stack_sources(sources, options.not_features)
    whole, last, _ = one_wording_of_labels(whole, last, options.label, notes)
    try:
        ys, yt = _labels(whole, last, options.label)
    except InputError as error:
        refuse([*problems, InputProblem(str(error).removesuffix("."))])
    texts = free_texts(whole, last, [name for name in features if name not in asked])
    screened = screen(whole, last, ys, features, {*options.keep, *asked}, texts)
    notes += notes_of(screened)
    unfit = {column.name for column in screened} | asked
    texts = [name for name in texts if name not in unfit]
    both = [n for n in features if n in whole.columns and n in last.columns and n not in unfit]
    notes += odd_numbers(whole, last, both)
    notes += used_notes(texts, unique_dates(whole, last, [n for n in features if n not in unfit]))
    chosen = fit_preprocessing(
        whole,
        last,
        label=options.label,
        id=options.id,
        text=[*options.text, *texts],
        drop=[*options.drop, *unfit],
        missing=options.missing,
        scale=options.scale,
        na=options.na,
        habits=habits,
        problems=problems,
    )
    for table in (whole, last):
        if gaps := chosen.gaps(table):
            problems.append(InputProblem(missing_values(table, gaps), (("--missing", "impute"),)))
    refuse(problems)
    Xs, Xt = (chosen.transform(table) for table in (whole, last))
    for table, X in zip((whole, last), (Xs, Xt), strict=True):
        largest = abs(X).max(axis=0)
        largest = largest.toarray().ravel() if sp.issparse(largest) else largest
        if largest.max() > LARGEST:
            raise InputError(
                f"{table.path}: {chosen.features[int(largest.argmax())]!r} holds numbers as large "
                f"as {largest.max():.0e}, whose products float64 cannot hold: use --scale standard."
            )
    used = {*chosen.columns, *options.not_features, *(column.name for column in screened)}
    for table, of in (
        *((table, f"{table.path} that {sources[0].path}") for table in sources[1:]),
        (last, "the target that the source"),
    ):
        extra = [name for name in table.names if name not in used]
        if extra and table.block is None:
            shown = ", ".join(repr(name) for name in extra[:3])
            notes.append(f"columns of {of} has not are ignored: {shown}.")
    ids = last[options.id] if options.id else None
    numbers = np.arange(1, len(sources) + 1)
    domain = np.repeat(numbers, [table.n_rows for table in sources])
    held = (whole, last) if hold else ()
    return Data(Xs, Xt, ys, yt, ids, chosen, tuple(notes), domain, held)


def _without_blank(table: Table) -> Table:
    """Without columns that have neither a name nor a value, as separators at ends of lines make."""
    blank = [n for n in table.nameless if n in table.columns and is_missing(table[n]).all()]
    kept = {name: values for name, values in table.columns.items() if name not in blank}
    return replace(table, columns=kept) if blank else table


def one_naming(tables: Sequence[Table], notes: list[str]) -> list[Table]:
    """Columns called as in the first file where only case, spaces and the like differ."""
    same = [tables[0]]
    for table in tables[1:]:
        called, renamed = named(table, tables[0].names)
        if renamed:
            shown = ", ".join(repr(name) for name in renamed[:3])
            notes.append(f"columns of {table.path} are named a little otherwise: {shown}.")
        same.append(called)
    return same


def _labels(source: Table, target: Table, label: str) -> tuple[NDArray[Any], NDArray[Any]]:
    if label:
        return read_labels(source, target, label)
    return np.zeros(source.n_rows, dtype=np.int64), np.full(target.n_rows, np.nan)


def without_totals(
    table: Table, notes: list[str], before: Mapping[str, float] = NOTHING, n_before: int = 0
) -> Table:
    """The rows without a last one that holds the sums of all others; some may have come before."""
    if table.block is not None or table.n_rows + n_before <= FEW_TO_SUM or not table.n_rows:
        return table
    numbers = {n: v for n, v in table.columns.items() if v.dtype.kind == "f"}
    filled = [(v[-1], v[:-1], before.get(n, 0)) for n, v in numbers.items() if not np.isnan(v[-1])]
    with np.errstate(invalid="ignore"):  # infinities are refused later
        off = [
            abs(last - np.nansum(v, dtype=np.float64) - more) - ROUNDING * abs(last)
            for last, v, more in filled
        ]
    if not filled or not max(off) <= 0 or not any(last for last, *_ in filled):
        return table
    notes.append(f"{table.path}: the last row holds the sums of the others and is left out.")
    columns = {name: values[:-1] for name, values in table.columns.items()}
    return replace(table, n_rows=table.n_rows - 1, columns=columns)


def one_wording_of_labels(
    source: Table, target: Table, label: str, notes: list[str], *, rows: Sequence[int] | None = None
) -> tuple[Table, Table, dict[str, str]]:
    """Both tables with one spelling for labels that differ in cases, spaces and the like alone.

    Labels of the target are written as the source writes them, also where one has 1 and 0 and the
    other yes and no. `rows` says how many rows of a file each row of the source stands for; None:
    one. The last result holds what was read as what.
    """
    ours, theirs = source.columns.get(label), target.columns.get(label)
    words: dict[str, str] = {}
    if ours is not None and ours.dtype.kind == "O":
        counts = Counter[str]()
        for text, n in zip(ours.tolist(), rows or [1] * len(ours), strict=True):
            counts.update({} if text is None else {text: n})
        words |= one_spelling(counts)
    if words:
        assert ours is not None
        notes.append(f"labels of {source.path} differ in their cases alone: {read_as(words)}.")
        ours = np.array([words.get(v, v) for v in ours.tolist()], dtype=object)
        source = replace(source, columns={**source.columns, label: ours})
    if ours is not None and theirs is not None:
        values, found = spelled_as(ours, theirs)
        if found:
            told = f"labels of {target.path} are not written as the source's: {read_as(found)}."
            notes.append(told)
        target = replace(target, columns={**target.columns, label: values})
        words |= found
    return source, target, words


def spelled_as(known: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], dict[str, str]]:
    """Labels as known ones are written, where only cases or yes and 1 differ; and those that do."""
    if all(as_numbers(held) is not None for held in (known, values)):
        return values, {}
    ours, theirs = as_texts(known), as_texts(values)
    usual = sorted({*ours[~is_missing(ours)].tolist()})
    given = sorted({*theirs[~is_missing(theirs)].tolist()} - {*usual})
    found = respelled(usual, given) if given else {}
    if not found:
        return values, {}
    return np.array([found.get(v, v) for v in theirs.tolist()], dtype=object), found


def _one_wording(tables: Sequence[Table], names: Sequence[str], notes: list[str]) -> list[Table]:
    """Categories as the first file writes them, where only case, spaces and the like differ."""
    first, *others = tables
    same = [first]
    for table in others:
        new = {}
        for name in names:
            if name not in first.columns or name not in table.columns:
                continue
            ours, theirs = first.columns[name], table.columns[name]
            if ours.dtype.kind != "O" or theirs.dtype.kind != "O":
                continue
            words = [{*held[~is_missing(held)].tolist()} for held in (ours, theirs)]
            found = near_words(words[1], words[0])
            if found and max(map(len, words)) <= MAX_CATEGORIES:
                new[name] = np.array([found.get(v, v) for v in theirs.tolist()], dtype=object)
                told = read_as(found)
                notes.append(f"{name!r} of {table.path} is not written as in {first.path}: {told}.")
        same.append(replace(table, columns={**table.columns, **new}) if new else table)
    return same


def _lost_names(tables: Sequence[Table], options: ReadOptions) -> list[InputProblem]:
    """Columns that options or other files name and that are not there."""
    problems = []
    for table in tables[:-1] if options.label else ():
        if options.label not in table.names:
            swapped = _swapped(tables[-1], options.label)
            problems.append(InputProblem(f"{table.missing_column(options.label)}{swapped}"))
        elif options.label in table.refused:
            why = table.refused[options.label]
            problems.append(
                InputProblem(f"{table.path}: the label {options.label!r} {why}: rename one")
            )
    everywhere = {name for table in tables for name in table.names}
    for name in options.keep:
        if name not in everywhere:
            problems.append(InputProblem(tables[0].missing_column(name)))
    return problems


def _swapped(target: Table, label: str) -> str:
    """Where the target has the labels that the source lacks."""
    if label not in target.columns or is_missing(target.columns[label]).any():
        return ""
    return f", but every row of {target.path} has it (are source and target swapped?)"


@contextmanager
def input_errors() -> Iterator[list[str]]:
    """Refusals of the estimators and errors of memory as input errors; warnings as sentences."""
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


# How large the rows are --------------------------------------------------------------------------


def memory_budget(wish: str | None) -> int:
    """Bytes that rows may take: a size ("4GB"), a share of free memory ("30%"), or a quarter."""
    if wish is None:
        return int(SHARE * available_memory())
    try:
        if wish.strip().endswith("%"):
            share = float(wish.strip()[:-1]) / 100
            if not 0 < share <= 1:
                raise ValueError(wish)
            return int(share * available_memory())
        size = parse_bytes(wish)
        if size < 1:
            raise ValueError(wish)
    except ValueError:
        raise InputError(
            f"--memory: a size such as 4GB or a share of the free memory such as 30% is wanted, "
            f"got {wish!r}."
        ) from None
    return size


def is_parquet(path: PathLike, format: str | None) -> bool:
    """Whether a file or a folder is read as Parquet."""
    refuse_address(path)
    path = Path(path)
    if path.is_dir():
        return True
    if is_sample(path):
        return False
    return (format or detect_format(path)) == "parquet"


def rows_size(path: PathLike, format: str | None, left_out: set[Any], most: int) -> int:
    """Bytes that the rows of a file take in memory, as far as a quick look tells.

    Parquet is packed, so its numbers are counted; for other files it is their size, unpacked, which
    is counted until it is above `most`.
    """
    path = Path(path)
    if is_sample(path):
        return 0
    if not is_parquet(path, format):
        return unpacked_size(path, most)
    size = 0
    for file in parquet_files(path):
        n_rows, names = parquet_footer(file)
        size += 8 * n_rows * sum(name not in left_out for name in names)
    return size


# What is written ---------------------------------------------------------------------------------


def check_names(
    inputs: Sequence[PathLike],
    outputs: Mapping[str, PathLike | None],
    *,
    make_folders: bool = False,
) -> None:
    """Refuse files that would replace each other or an input, and folders, there or missing."""
    taken = {Path(path).resolve(): "" for path in inputs}
    for name, path in outputs.items():
        if path is None:
            continue
        at = Path(path).resolve()
        if at in taken:
            other = taken[at]
            clash = f"{other} and {name} both name {path}." if other else ""
            raise InputError(clash or f"{name} {path} would replace an input file.")
        taken[at] = name
        if at.is_dir():
            raise InputError(f"{name} {path} is a folder: give the name of a file.")
        if not (make_folders or at.parent.is_dir()):
            raise InputError(f"{name} {path}: there is no folder {Path(path).parent}.")


def refuse_report(report: object, why: str, name: str) -> None:
    """A page shows rows: refuse one where there are none, and say why."""
    if report is not None:
        raise InputError(f"{name} shows rows, and {why}: leave it out, or allow more --memory.")


def check_folder(folder: PathLike) -> None:
    """Refuse a folder of charts that is a file, or that lies in none."""
    at = Path(folder).resolve()
    if at.exists() and not at.is_dir():
        raise InputError(f"--plots {folder} is a file: give the name of a folder.")
    if not at.parent.is_dir():
        raise InputError(f"--plots {folder}: there is no folder {Path(folder).parent}.")


@dataclass(frozen=True)
class Outputs:
    """What is written, all of it or nothing: predictions, the model, and what a person reads.

    Attributes
    ----------
    target : path or None
        Rows to predict; a file, or a folder of Parquet files.
    format, id : str or None
        Of the target: its format, and the column that is carried through.
    out, model : paths or None
        Where predictions and the model go.
    report, card : path and function, or None
        Where a page goes, and what makes it of the result.
    plots : path and function, or None
        The same for a folder: the function gives the content of every file in it.
    """

    target: PathLike | None = None
    format: str | None = None
    id: str | None = None
    out: PathLike | None = None
    model: PathLike | None = None
    report: tuple[PathLike, Callable[[Any], str]] | None = None
    card: tuple[PathLike, Callable[[Any], str]] | None = None
    plots: tuple[PathLike, Callable[[Any], Mapping[str, bytes]]] | None = None

    @property
    def shown(self) -> dict[str, tuple[PathLike, Callable[[Any], Any]]]:
        """What shows rows, by the options that name it."""
        every = {"--report": self.report, "--card": self.card, "--plots": self.plots}
        return {name: wanted for name, wanted in every.items() if wanted is not None}

    @property
    def files(self) -> tuple[str, ...]:
        """What is there in the end."""
        paths = (self.out, self.model, *(path for path, _ in self.shown.values()))
        return tuple(str(path) for path in paths if path is not None)

    def check(self, inputs: Sequence[PathLike], *, make_folders: bool = True) -> None:
        """Refuse before the work what would fail after it."""
        pages = {name: path for name, (path, _) in self.shown.items() if name != "--plots"}
        files = {"--out": self.out, "--model": self.model, **pages}
        check_names(inputs, files, make_folders=make_folders)
        if self.out is not None and self.target is None:
            raise InputError("--out without --target: name the file whose rows to predict.")
        if self.out is not None:  # its name must say how predictions are written
            PredictionWriter(Path(self.out), np.empty(0), None)
        if self.plots is not None:
            check_folder(self.plots[0])

    def pages(self, result: Any) -> Iterator[tuple[Path, bytes]]:
        """Every file that shows rows, and what it holds."""
        for name, (path, made) in self.shown.items():
            if name == "--plots":
                yield from ((Path(path, file), held) for file, held in made(result).items())
            else:
                yield Path(path), made(result).encode()
