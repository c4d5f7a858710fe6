"""A model file and rows in: predictions, in batches or on Spark; rows to label; figures."""

from __future__ import annotations

import csv
import json
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import config_context, get_config

from marda._machine import blas_threads, fewer_blas_threads
from marda._progress import Listener, silent
from marda.adaptation.methods import classes_and_probabilities
from marda.adaptation.reading import (
    PathLike,
    ReadOptions,
    check_names,
    input_errors,
    one_per_file,
    spelled_as,
    without_totals,
)
from marda.diagnostics.evaluation import Evaluated, evaluation, label_codes
from marda.diagnostics.influence import explain_rows, is_exact, parts_of
from marda.estimators import MDAClassifier
from marda.io import InputError, PredictionWriter, Preprocessing, detect_format, read_batches
from marda.io.binary import parquet_footer
from marda.io.columns import Category, Date, Matrix, Number, Words
from marda.io.dataframes import as_frame
from marda.io.preprocessing import Unseen
from marda.io.table import Table, as_texts, did_you_mean, is_missing, named, read_as
from marda.io.text import open_bytes
from marda.io.writing import prediction_names, replacing, write_text
from marda.moments.spark import NUMBERS
from marda.persist import load
from marda.selection import MDAClassifierCV
from marda.selection.labelling import LOOKED_AT, choose_rows

#: Rows of a batch: few enough for the processor's cache.
BATCH_BYTES = 4 * 2**20
MAX_BATCH_ROWS = 50_000
#: Notes of a reader that are kept.
MOST_NOTES = 20
#: Seconds that choosing rows of as many as are looked at takes.
CHOOSING = 0.4
#: Rows that tell what it takes to predict one.
FIRST_ROWS = 2000
#: Rows whose mean others can be told from, where the model file knows none.
FEW_ROWS = 10
#: That many rows of one class are not a matter of luck.
ENOUGH_FOR_CLASSES = 20

Classifier = MDAClassifier | MDAClassifierCV
AS_FOUND = ReadOptions("")


@dataclass(frozen=True)
class Predicted:
    """What `predict` did: rows, rows per class, and how scores were explained, if they were.

    `unseen` says, by column, how many rows hold a category, or only words, that adapt did not see.
    """

    n_rows: int
    counts: dict[Any, int]
    seconds: float
    file: str
    explained: str | None = None
    notes: tuple[str, ...] = ()
    unseen: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "command": "predict",
            "rows": self.n_rows,
            "predicted": {str(c): n for c, n in self.counts.items()},
            **({} if self.explained is None else {"explained": self.explained}),
            "unseen": dict(self.unseen),
            "notes": list(self.notes),
            "files": [self.file],
            "seconds": round(self.seconds, 3),
        }


def load_model(path: PathLike) -> tuple[Classifier, Preprocessing]:
    """A classifier and what turns tables into its rows.

    A model saved from Python takes its columns by name if it was fitted on a table, else a matrix.
    """
    model = load(path)
    if not isinstance(model, Classifier):
        raise InputError(
            f"{path} holds {type(model).__name__}, which marda predict does not serve."
        )
    state = getattr(model, "preprocessing_", None)
    if state is not None:
        chosen = Preprocessing.from_json(state)
        if chosen.n_features != model.n_features_in_:
            raise InputError(f"{path}: columns and model do not fit: save the model anew.")
        return model, chosen
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return model, Preprocessing((Matrix(model.n_features_in_),), "")
    del model.feature_names_in_  # rows come as arrays, with their columns in order
    return model, Preprocessing(tuple(Number(str(name)) for name in names), "")


def predict(
    model: PathLike,
    input: PathLike,
    out: PathLike,
    *,
    format: str | None = None,
    id: str | None = None,
    explain: int | None = None,
    options: ReadOptions = AS_FOUND,
    progress: Listener = silent,
) -> Predicted:
    """Score the rows of a file.

    Parameters
    ----------
    model, input, out : paths
        Model file, rows (a file, or a folder of Parquet files), predictions (.csv, .tsv, .parquet).
    format : str, default=None
        Of the input; None: found out.
    id : str, default=None
        Column to carry through; None: the one of adapt, if the input has it.
    explain : int, default=None
        Write as many columns or words that moved each score most, and how far: "moved_by_1" and
        "moved_1" (above 0: towards the prediction), "moved_by_2" …
    options : ReadOptions
        Its `encoding`, `sheet`, `decimal` and `dates`, where the file does not tell.
    progress : callable
        Called with the share of the work done (not for npz and mat, which are read whole).
    """
    began = time.perf_counter()
    if Path(out).resolve() in (Path(input).resolve(), Path(model).resolve()):
        raise InputError(f"--out {out} would replace an input file.")
    classifier, chosen = load_model(model)
    notes: list[str] = []
    unseen = Unseen()
    counts = predict_rows(
        classifier,
        chosen,
        input,
        out,
        format=format,
        id=id,
        explain=explain,
        options=options,
        progress=progress,
        notes=notes,
        unseen=unseen,
    )
    explained = None
    if explain is not None:
        explained = "exact" if is_exact(classifier) else "sampled"
    seconds = time.perf_counter() - began
    n_rows = sum(counts.values())
    new = {name: n for name, n in unseen.rows.items() if n}
    alone = [label for label, n in counts.items() if n == n_rows >= ENOUGH_FOR_CLASSES]
    told = unseen.notes(chosen)
    if alone and not told:  # else they tell why
        notes.append(
            f"all {n_rows:,} rows are predicted as {str(alone[0])!r}: see whether numbers are in "
            "the units of those that the model learned from (marda check compares files)."
        )
    every = (*notes, *told)
    return Predicted(n_rows, counts, seconds, str(out), explained, every, new)


def predict_rows(
    classifier: Classifier,
    chosen: Preprocessing,
    input: PathLike,
    out: PathLike,
    *,
    format: str | None = None,
    id: str | None = None,
    explain: int | None = None,
    options: ReadOptions = AS_FOUND,
    progress: Listener = silent,
    notes: list[str] | None = None,
    unseen: Unseen | None = None,
) -> dict[Any, int]:
    """Score the rows of a file with a model in memory; gives rows per class.

    With `notes`, a last row that holds the sums of all others is left out, and it is said there, as
    is what the reader decided; `unseen` counts what the model cannot know.
    """
    rows = _batch_rows(chosen.n_features)
    key = id or chosen.id
    wanted = {*chosen.columns, *([key] if key else [])}
    total = _rows(Path(input), format)
    counts = np.zeros(len(classifier.classes_), dtype=np.int64)
    how: dict[str, Any] = {
        "encoding": one_per_file("--encoding", options.encoding, 1)[0],
        "sheet": one_per_file("--sheet", options.sheet, 1)[0],
        "na": chosen.na,
    }
    batches = read_batches(input, format, rows=rows, columns=wanted, **how)
    notation = options.notations(1)[0]
    first = next(batches, None)
    if first is None or first.n_rows == 0:
        raise InputError(f"{input} has no rows.")
    first, conventions = chosen.converted(first, notation)
    if any(name not in first.names for name in chosen.columns):
        for whole in read_batches(input, format, rows=1, **how):
            chosen.transform(named(whole, chosen.columns)[0])  # raises, and knows all names
    if key is not None and (id is not None or key in first.names):
        first[key]  # raises where the id that was asked for is not there
    else:
        key = None
    explained = None if explain is None else _Explained(classifier, chosen, explain)
    more = () if explained is None else explained.names
    how_sklearn = get_config()

    def tell(batch: Table) -> None:
        """Keep what the reader says of a batch."""
        if notes is not None:
            new = [note for note in batch.notes if note not in notes]
            notes.extend(new[: max(0, MOST_NOTES - len(notes))])

    def tables() -> Iterator[Table]:
        """Batches in the notation of the first; the last one without a row of sums."""
        batch: Table | None = first
        sums, before = dict[str, float](), 0
        while batch is not None:
            tell(batch)
            later = next(batches, None)
            if later is None or later.n_rows == 0:
                if later is not None:
                    tell(later)
                later = None
                if notes is not None:
                    batch = without_totals(batch, notes, sums, before)
            if batch.n_rows:
                yield batch
            before += batch.n_rows
            for name, values in batch.columns.items():
                if values.dtype.kind == "f":
                    whole = float(np.sum(values))
                    whole = float(np.nansum(values)) if np.isnan(whole) else whole
                    sums[name] = sums.get(name, 0.0) + whole
            batch = None if later is None else chosen.converted(later, notation, conventions)[0]

    def hear(done: int) -> None:
        if total:
            progress(min(1.0, done / total), f"{done:,} rows")

    def scored(batch: Table) -> _Scored:
        with config_context(**how_sklearn):  # other threads have a configuration of their own
            new = Unseen()
            X = chosen.transform(batch, None if unseen is None else new)
            codes, P = classes_and_probabilities(classifier, X)
            told = [] if explained is None else explained.columns(X, hear)
        return _Scored(batch[key] if key else None, codes, P, told, new)

    # An explanation needs the mean of the first batch.
    cores = blas_threads() or 1
    threads = 1 if explained is not None else cores
    with (
        fewer_blas_threads(cores // threads),  # several threads, each with several of BLAS, wait
        PredictionWriter(Path(out), classifier.classes_, key, more) as writer,
        warnings.catch_warnings(),  # not in threads, which share them
        ThreadPoolExecutor(threads) as pool,
    ):
        warnings.simplefilter("ignore")
        for job in _in_order(pool, scored, tables(), threads):
            with input_errors():
                found = job.result()
            writer.write(found.keys, found.codes, found.P, found.told)
            counts += np.bincount(found.codes, minlength=len(counts))
            if unseen is not None:
                unseen.add(found.unseen)
            if explained is None:
                hear(writer.n_rows)
    return dict(zip(classifier.classes_.tolist(), counts.tolist(), strict=True))


def _batch_rows(width: int) -> int:
    """Rows that are predicted at once."""
    return max(256, min(MAX_BATCH_ROWS, BATCH_BYTES // (8 * max(1, width))))


def _predicted(
    classifier: Classifier, X: Any, began: float, progress: Listener, after: float = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Classes and probabilities of rows that were read since `began`, in batches.

    The batches that are done tell how long all take, and so what share reading was; some seconds
    come after.
    """
    size, n = _batch_rows(X.shape[1]), X.shape[0]
    found, first = [], time.perf_counter()
    for start in range(0, n, size):
        found.append(classes_and_probabilities(classifier, X[start : start + size]))
        now, done = time.perf_counter(), min(n, start + size)
        whole = first - began + (now - first) * n / done + after
        progress((now - began) / whole, f"{done:,} rows")
    codes, P = zip(*found, strict=True)
    return np.concatenate(codes), np.concatenate(P)


class _Scored(NamedTuple):
    """A batch as it is written."""

    keys: NDArray[Any] | None
    codes: NDArray[np.int64]
    P: NDArray[np.float64]
    told: list[NDArray[Any]]
    unseen: Unseen


def _in_order(
    pool: Executor, work: Callable[[Table], _Scored], batches: Iterator[Table], ahead: int
) -> Iterator[Future[_Scored]]:
    """Work on batches, in their order; of so many more at most while one is used."""
    jobs: deque[Future[_Scored]] = deque()
    try:
        for batch in batches:
            jobs.append(pool.submit(work, batch))
            if len(jobs) > ahead:
                yield jobs.popleft()
        while jobs:
            yield jobs.popleft()
    finally:
        for job in jobs:
            job.cancel()


class _Explained:
    """Columns and words that moved the scores of rows, batch by batch."""

    def __init__(self, classifier: Classifier, chosen: Preprocessing, k: int):
        self.parts = parts_of(chosen.parts, chosen.n_features)
        self.mean = np.array(chosen.means) if chosen.means else None
        self.classifier, self.k = classifier, min(k, len(self.parts))
        self.n_rows = 0

    @property
    def names(self) -> list[str]:
        """Of the columns that are written."""
        return [f"{what}_{k + 1}" for k in range(self.k) for what in ("moved_by", "moved")]

    def columns(self, X: Any, hear: Callable[[int], None]) -> list[NDArray[Any]]:
        """Their values; empty where fewer moved the score at all. Rows that are done are told."""
        if self.mean is None and not sp.issparse(X):
            if X.shape[0] < FEW_ROWS:
                raise InputError(
                    "the model file has no mean row that scores could be explained from: adapt "
                    f"again with this marda, or give {FEW_ROWS} rows or more, whose mean is taken."
                )
            self.mean = X.mean(0)
        before = self.n_rows
        found = explain_rows(
            self.classifier,
            X,
            self.parts,
            self.mean,
            self.k,
            progress=lambda done: hear(before + done),
        )
        self.n_rows += len(found)
        hear(self.n_rows)
        columns: list[NDArray[Any]] = []
        for k in range(self.k):
            names = [row[k].name if k < len(row) else None for row in found]
            moved = [float(f"{row[k].moved:.6g}") if k < len(row) else np.nan for row in found]
            columns += [np.array(names, dtype=object), np.array(moved)]
        return columns


# On Spark ----------------------------------------------------------------------------------------

#: Types of Spark that a column may have, by what the model makes of it.
SPARK_TYPES: dict[type[Any], tuple[str, ...]] = {
    Number: NUMBERS,
    Date: ("date", "timestamp", "timestamp_ntz"),
    Category: ("string", *(kind for kind in NUMBERS if kind != "boolean")),
    Words: ("string",),
}


@dataclass(frozen=True)
class _SparkTask:
    """What an executor does with the batches of a partition; the model travels as its file."""

    model: bytes
    keep: tuple[str, ...]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The kept columns of every batch, and its predictions."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model")
            path.write_bytes(self.model)
            classifier, chosen = load_model(path)
        names = prediction_names(classifier.classes_, None)[1:]
        for batch in batches:
            codes = np.empty(0, dtype=np.int64)
            P = np.empty((0, len(classifier.classes_)))
            if len(batch):
                frame = as_frame(batch[chosen.columns], "the data frame")
                assert frame is not None
                with input_errors():
                    X = chosen.transform(frame.table().without(chosen.na))
                    codes, P = classes_and_probabilities(classifier, X)
            best = P[np.arange(len(codes)), codes]
            found = [classifier.classes_[codes], best, *P.T]
            yield batch[list(self.keep)].assign(**dict(zip(names, found, strict=True)))


def predict_on_spark(frame: Any, model: PathLike, *, keep: Sequence[str] | None = None) -> Any:
    """Predictions of a Spark data frame, made on the executors when Spark asks for them.

    marda must be installed on them. Columns have the types that they have in Spark, so that text is
    never taken for numbers or dates; times are those of the session's time zone.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Rows with the columns that the model needs.
    model : path
        A model file, which the driver reads.
    keep : sequence of str, default=None
        Columns that stay beside the predictions; None: all.

    Returns
    -------
    pyspark.sql.DataFrame
        The kept columns, "prediction", "probability", and "probability_c" per class.
    """
    if not hasattr(frame, "mapInPandas"):
        raise InputError(
            f"a Spark data frame is needed, got {type(frame).__name__}: for files there is predict."
        )
    classifier, chosen = load_model(model)
    types = dict(frame.dtypes)
    kept = tuple(types) if keep is None else tuple(keep)
    for name in (*chosen.columns, *kept):
        if name not in types:
            raise InputError(f"the data frame has no column {name!r}{did_you_mean(name, types)}.")
    for step in chosen.steps:
        if isinstance(step, Matrix):
            raise InputError(f"{model} takes a matrix of {step.width} features: fit it on columns.")
        name = step.columns[0]
        kind = types[name].partition("(")[0]
        allowed = SPARK_TYPES[type(step)]
        if kind not in allowed and not (kind == "decimal" and "double" in allowed):
            raise InputError(
                f"column {name!r} holds {types[name]}, and the model wants {' or '.join(allowed)}: "
                "cast it."
            )
    names = prediction_names(classifier.classes_, None)[1:]
    if taken := [name for name in kept if name in names]:
        raise InputError(f"a column is called {taken[0]!r} as the predictions are: rename it.")
    label = {"O": "string", "U": "string", "f": "double"}.get(classifier.classes_.dtype.kind)
    schema = [(name, types[name]) for name in kept]
    schema += zip(names, [label or "bigint", *["double"] * (len(names) - 1)], strict=True)
    quoted = {name: "`" + name.replace("`", "``") + "`" for name, _ in schema}
    wanted = dict.fromkeys([*kept, *chosen.columns])
    rows = frame.select(*("`" + name.replace("`", "``") + "`" for name in wanted))
    task = _SparkTask(Path(model).read_bytes(), kept)
    return rows.mapInPandas(task, ", ".join(f"{quoted[name]} {kind}" for name, kind in schema))


# Whole files --------------------------------------------------------------------------------------


def _read_whole(
    chosen: Preprocessing,
    input: PathLike,
    options: ReadOptions,
    names: Sequence[str],
    watch: Callable[[Table], None],
) -> tuple[Table, Any]:
    """A file whole: its table as it is, and its rows for the model; no last row of sums in either.

    Columns of the model and of `names` are called as these call them where only case, spaces and
    the like differ.
    """
    table = replace(options, na=chosen.na).read([input], watch)[0]
    if table.n_rows == 0:
        raise InputError(f"{input} has no rows.")
    table, _ = named(table, [*chosen.columns, *names])
    converted, _ = chosen.converted(table, options.notations(1)[0])
    notes = [*table.notes]
    kept = without_totals(converted, notes)
    if kept is not converted:
        columns = {column: values[: kept.n_rows] for column, values in table.columns.items()}
        table = replace(table, n_rows=kept.n_rows, columns=columns)
    unseen = Unseen()
    X = chosen.transform(kept, unseen)
    return replace(table, notes=(*notes, *unseen.notes(chosen))), X


class _Reading:
    """Tells the share of the work that is done while a file is read.

    All rows are taken to cost what the first ones cost, to read and then to predict.
    """

    def __init__(
        self,
        classifier: Classifier,
        chosen: Preprocessing,
        input: PathLike,
        options: ReadOptions,
        progress: Listener,
    ):
        self.classifier, self.chosen, self.progress = classifier, chosen, progress
        self.notation = options.notations(1)[0]
        self.total = _rows(Path(input), options.format)
        self.began, self.n_rows, self.ahead = time.perf_counter(), 0, 0.0

    def __call__(self, part: Table) -> None:
        """Take note of rows that were read."""
        spent = time.perf_counter() - self.began
        if not self.n_rows and self.total > part.n_rows + 1:  # a header counts as a row
            self.ahead = self._seconds(part) * self.total
            self.began += time.perf_counter() - self.began - spent
        self.n_rows += part.n_rows
        if self.ahead:
            whole = spent * max(1.0, self.total / self.n_rows) + self.ahead
            self.progress(min(1.0, spent / whole), f"{self.n_rows:,} rows read")

    def _seconds(self, part: Table) -> float:
        """To predict a row."""
        n = min(FIRST_ROWS, part.n_rows)
        few = replace(part, n_rows=n, columns={key: part[key][:n] for key in part.columns})
        began = time.perf_counter()
        try:
            with warnings.catch_warnings(action="ignore"):
                X = self.chosen.transform(self.chosen.converted(few, self.notation)[0])
                classes_and_probabilities(self.classifier, X)
        except Exception:  # only the display wants it; what is wrong is said where it is read
            return 0.0
        return (time.perf_counter() - began) / n


def _rows(path: Path, format: str | None) -> int:
    """Rows, where a quick look tells (lines of text count as rows); else 0."""
    try:
        kind = "parquet" if path.is_dir() else format or detect_format(path)
        if kind == "parquet":
            return parquet_footer(path)[0]
        if kind in ("csv", "svmlight"):
            with open_bytes(path) as file:
                return sum(part.count(b"\n") for part in iter(lambda: file.read(2**20), b""))
    except Exception:  # only the progress bar wants it; the readers say what is wrong
        return 0
    return 0


# Labels: which to ask for, and what those that have come say --------------------------------------


@dataclass(frozen=True)
class ToLabel:
    """Rows worth a label, the one that decides most first.

    Attributes
    ----------
    rows : array of int
        Their numbers in the file, from 1.
    ids : list
        Values of the id column; the numbers where there is none.
    predictions, probabilities : arrays
        Their most likely classes, and how likely these are.
    reasons : tuple of str
        Why a label of each would tell.
    label : str
        The column to fill in.
    n_rows, n_labelled : int
        Rows of the file, and those of them that have a label already.
    notes : tuple of str
        What was decided in reading.
    """

    rows: NDArray[np.int64]
    ids: list[Any]
    predictions: NDArray[Any]
    probabilities: NDArray[np.float64]
    reasons: tuple[str, ...]
    label: str
    n_rows: int
    n_labelled: int
    seconds: float
    file: str | None = None
    whole: bool = False
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        parts = (
            self.rows.tolist(),
            self.ids,
            self.predictions.tolist(),
            self.probabilities.tolist(),
            self.reasons,
        )
        return {
            "command": "label",
            "rows": self.n_rows,
            "labelled": self.n_labelled,
            "label": self.label,
            "to_label": [
                {"row": row, "id": id, "prediction": c, "probability": p, "reason": reason}
                for row, id, c, p, reason in zip(*parts, strict=True)
            ],
            "notes": list(self.notes),
            "files": [] if self.file is None else [self.file],
            "seconds": round(self.seconds, 3),
        }


def label(
    model: PathLike,
    input: PathLike,
    budget: int = 20,
    *,
    out: PathLike | None = None,
    whole: bool = False,
    id: str | None = None,
    options: ReadOptions = AS_FOUND,
    progress: Listener = silent,
) -> ToLabel:
    """Name the rows of a file whose labels would decide most.

    Parameters
    ----------
    model, input : paths
        Model file, and rows. Those that have a label already are not asked for again.
    budget : int, default=20
        How many labels can be given.
    out : path, default=None
        Where to write the rows (.csv or .tsv) with the predicted class, its probability, the reason
        and an empty column for the label.
    whole : bool, default=False
        Write all rows of the file, those to label first: once some are filled in, this file is a
        target of `adapt`.
    id : str, default=None
        Column that names rows; None: the one of adapt, if the input has it.
    options : ReadOptions
        Its `format`, `encoding`, `sheet`, `decimal` and `dates`, where the file does not tell.
    progress : callable
        Called with the share of the work done.
    """
    began = time.perf_counter()
    progress(0.0, "reading")
    if out is not None and Path(out).suffix.lower() not in (".csv", ".tsv"):
        raise InputError(f"{out}: rows to label are written as .csv or .tsv.")
    check_names([input, model], {"--out": out})
    classifier, chosen = load_model(model)
    name = chosen.label or "label"
    watch = _Reading(classifier, chosen, input, options, progress)
    table, X = _read_whole(chosen, input, options, [name, *([id] if id else [])], watch)
    if whole and table.block is not None:
        raise InputError(f"{input} holds a matrix, which a text file does not: leave --all out.")
    key = id or (chosen.id if chosen.id in table.columns else None)
    ids = table[key] if key else np.arange(1, table.n_rows + 1)
    known = np.zeros(table.n_rows, dtype=bool)
    if name in table.columns and table.block is None:
        known = ~is_missing(table[name])
    places = np.flatnonzero(~known)
    if not len(places):
        raise InputError(f"{input}: every row has a label in column {name!r} already.")
    with input_errors():
        after = CHOOSING * min(1.0, len(places) / LOOKED_AT) ** 2
        codes, P = _predicted(classifier, X, began, progress, after)
        rows, reasons = choose_rows(classifier, X[places], budget)
    rows = places[rows]
    likely = P[np.arange(len(codes)), codes]
    if out is not None:
        told = np.full(table.n_rows, "", dtype=object)
        told[rows] = reasons
        ours = {
            "prediction": classifier.classes_[codes],
            "probability": likely.round(4),
            "reason": told,
        }
        rest = np.setdiff1d(np.arange(table.n_rows), rows) if whole else rows[:0]
        columns = _filled_columns(table, name, (key or "row", ids), ours, set(chosen.columns))
        _write_rows(Path(out), columns, np.concatenate([rows, rest]))
    return ToLabel(
        rows + 1,
        ids[rows].tolist(),
        classifier.classes_[codes[rows]],
        likely[rows],
        reasons,
        name,
        table.n_rows,
        int(known.sum()),
        time.perf_counter() - began,
        None if out is None else str(out),
        whole,
        table.notes,
    )


def _filled_columns(
    table: Table, label: str, id: tuple[str, Any], ours: dict[str, Any], features: set[str]
) -> dict[str, list[Any]]:
    """What names a row, the columns of the file, ours, and the one to fill in.

    Cells of the file are written as they are. Columns of an earlier file of ours are replaced, but
    not features of the model that are called so.
    """
    names = {name: f"marda_{name}" if name in features else name for name in (*ours, "row")}
    key = names.get(id[0], id[0])
    left_out = {*names.values(), key, label}
    columns = {key: _cells(id[1])}
    columns |= {n: _cells(values) for n, values in table.columns.items() if n not in left_out}
    columns |= {names[name]: _cells(values) for name, values in ours.items()}
    given = table.columns.get(label)
    return columns | {label: [""] * table.n_rows if given is None else _cells(given)}


def _write_rows(path: Path, columns: dict[str, list[Any]], rows: NDArray[np.int64]) -> None:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cells[row] for cells in columns.values()] for row in rows.tolist())


def _cells(values: NDArray[Any]) -> list[Any]:
    """Cells of a text file: numbers in as many digits as tell them apart, nothing where missing."""
    if values.dtype.kind == "f":
        texts = [repr(v) for v in values.tolist()]
        cells = [t.removesuffix(".0") if "e" not in t else t for t in texts]
    else:
        cells = as_texts(values).tolist()
    return ["" if gone else cell for cell, gone in zip(cells, is_missing(values), strict=True)]


def evaluate(
    model: PathLike,
    input: PathLike,
    label: str | None = None,
    *,
    out: PathLike | None = None,
    options: ReadOptions = AS_FOUND,
    progress: Listener = silent,
) -> Evaluated:
    """Judge a saved model by rows with labels.

    Parameters
    ----------
    model, input : paths
        Model file, and rows of which some or all have a label.
    label : str, default=None
        Column of the labels; None: that of adapt.
    out : path, default=None
        Where to write the figures (.json).
    options : ReadOptions
        Its `format`, `encoding`, `sheet`, `decimal` and `dates`, where the file does not tell.
    progress : callable
        Called with the share of the work done.
    """
    began = time.perf_counter()
    progress(0.0, "reading")
    if out is not None and Path(out).suffix.lower() != ".json":
        raise InputError(f"{out}: the figures are written as .json.")
    check_names([input, model], {"--out": out})
    classifier, chosen = load_model(model)
    name = label or chosen.label
    if not name:
        raise InputError(f"{model} does not know the column of labels: name it with --label.")
    if name in chosen.columns:
        raise InputError(f"--label {name} is a column that the model predicts from.")
    watch = _Reading(classifier, chosen, input, options, progress)
    table, X = _read_whole(chosen, input, options, [name], watch)
    if label is None and name not in table.names:
        raise InputError(f"{table.missing_column(name)}: name the column of labels with --label.")
    values, words = spelled_as(classifier.classes_, table[name])
    respelled = [f"labels are not written as the model's: {read_as(words)}."] if words else []
    codes, known, unknown = label_codes(values, classifier.classes_, f"{input}: column {name!r}")
    with input_errors() as notes:
        guessed, P = _predicted(classifier, X[known], began, progress)
    found = evaluation(
        guessed,
        P,
        codes,
        classifier.classes_,
        unknown=unknown,
        n_unlabelled=int((~known).sum()),
        calibration=getattr(classifier, "calibration_", {}),
    )
    found = replace(
        found,
        learned_here=getattr(classifier, "setting_", "US") != "US",
        seconds=time.perf_counter() - began,
        notes=(*table.notes, *respelled, *notes),
        file=None if out is None else str(out),
    )
    if out is not None:
        write_text(out, json.dumps(found.to_json(), ensure_ascii=False, indent=1) + "\n")
    return found
