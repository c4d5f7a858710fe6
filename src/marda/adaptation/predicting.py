"""A model file and new rows in, predictions out; in batches of bounded memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.adaptation.methods import classes_and_probabilities
from marda.adaptation.reading import (
    PathLike,
    Progress,
    ReadOptions,
    input_errors,
    one_per_file,
    silent,
)
from marda.diagnostics.influence import Part, explain_rows, is_exact
from marda.estimators import MDAClassifier
from marda.io import InputError, PredictionWriter, Preprocessing, detect_format, read_batches
from marda.io.arrow import parquet_footer
from marda.io.columns import Matrix, Number
from marda.io.table import Table, named
from marda.persist import load
from marda.selection import MDAClassifierCV

__all__ = [
    "AS_FOUND",
    "Classifier",
    "Predicted",
    "load_model",
    "predict",
    "predict_rows",
    "read_rows",
]

BATCH_BYTES = 32 * 2**20
MAX_BATCH_ROWS = 50_000
#: Rows whose mean others can be told from, where the model file knows none.
FEW_ROWS = 10

Classifier = MDAClassifier | MDAClassifierCV
AS_FOUND = ReadOptions("")


@dataclass(frozen=True)
class Predicted:
    """What `predict` did: rows, rows per class, and how scores were explained, if they were."""

    n_rows: int
    counts: dict[Any, int]
    seconds: float
    file: str
    explained: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "command": "predict",
            "rows": self.n_rows,
            "predicted": {str(c): n for c, n in self.counts.items()},
            **({} if self.explained is None else {"explained": self.explained}),
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
    progress: Progress = silent,
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
    )
    explained = None
    if explain is not None:
        explained = "exact" if is_exact(classifier) else "sampled"
    seconds = time.perf_counter() - began
    return Predicted(sum(counts.values()), counts, seconds, str(out), explained)


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
    progress: Progress = silent,
) -> dict[Any, int]:
    """Score the rows of a file with a model in memory; gives rows per class."""
    width = max(1, chosen.n_features)
    rows = max(256, min(MAX_BATCH_ROWS, BATCH_BYTES // (8 * width)))
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
    wishes = options.wishes(1)[0]
    first = next(batches, None)
    if first is None or first.n_rows == 0:
        raise InputError(f"{input} has no rows.")
    first, conventions = chosen.converted(first, wishes)
    if any(name not in first.names for name in chosen.columns):
        for whole in read_batches(input, format, rows=1, **how):
            chosen.transform(named(whole, chosen.columns)[0])  # raises, and knows all names
    if key is not None and (id is not None or key in first.names):
        first[key]  # raises where the id that was asked for is not there
    else:
        key = None
    explained = None if explain is None else _Explained(classifier, chosen, explain)
    more = () if explained is None else explained.names
    with PredictionWriter(Path(out), classifier.classes_, key, more) as writer:
        batch: Any = first
        while batch is not None:
            with input_errors():
                X = chosen.transform(batch)
                codes, P = classes_and_probabilities(classifier, X)
                told = [] if explained is None else explained.columns(X)
            writer.write(batch[key] if key else None, codes, P, told)
            counts += np.bincount(codes, minlength=len(counts))
            if total:
                progress(min(1.0, writer.n_rows / total), f"{writer.n_rows:,} rows")
            batch = next(batches, None)
            if batch is not None and batch.n_rows == 0:
                batch = None
            if batch is not None:
                batch, _ = chosen.converted(batch, wishes, conventions)
    return dict(zip(classifier.classes_.tolist(), counts.tolist(), strict=True))


class _Explained:
    """Columns and words that moved the scores of rows, batch by batch."""

    def __init__(self, classifier: Classifier, chosen: Preprocessing, k: int):
        places = np.arange(chosen.n_features)
        self.parts = [Part(name, places[where]) for name, where in chosen.parts]
        self.mean = np.array(chosen.means) if chosen.means else None
        self.classifier, self.k = classifier, min(k, len(self.parts))

    @property
    def names(self) -> list[str]:
        """Of the columns that are written."""
        return [f"{what}_{k + 1}" for k in range(self.k) for what in ("moved_by", "moved")]

    def columns(self, X: Any) -> list[NDArray[Any]]:
        """Their values; empty where fewer moved the score at all."""
        if self.mean is None and not sp.issparse(X):
            if X.shape[0] < FEW_ROWS:
                raise InputError(
                    "the model file has no mean row that scores could be explained from: adapt "
                    f"again with this marda, or give {FEW_ROWS} rows or more, whose mean is taken."
                )
            self.mean = X.mean(0)
        found = explain_rows(self.classifier, X, self.parts, self.mean, self.k)
        columns: list[NDArray[Any]] = []
        for k in range(self.k):
            names = [row[k].name if k < len(row) else None for row in found]
            moved = [float(f"{row[k].moved:.6g}") if k < len(row) else np.nan for row in found]
            columns += [np.array(names, dtype=object), np.array(moved)]
        return columns


def read_rows(
    chosen: Preprocessing, input: PathLike, options: ReadOptions, *names: str
) -> tuple[Table, Any]:
    """A file whole: its table as it is, and its rows for the model.

    Columns of the model and of `names` are called as these call them where only case, spaces and
    the like differ.
    """
    table = replace(options, na=chosen.na).read([input])[0]
    if table.n_rows == 0:
        raise InputError(f"{input} has no rows.")
    table, _ = named(table, [*chosen.columns, *names])
    converted, _ = chosen.converted(table, options.wishes(1)[0])
    return table, chosen.transform(converted)


def _rows(path: Path, format: str | None) -> int:
    """Rows, where a quick look tells (lines of text count as rows); else 0."""
    try:
        kind = "parquet" if path.is_dir() else format or detect_format(path)
        if kind == "parquet":
            return parquet_footer(path)[0]
        if kind in ("csv", "svmlight"):
            with path.open("rb") as file:
                return sum(part.count(b"\n") for part in iter(lambda: file.read(2**20), b""))
    except Exception:  # only the progress bar wants it; the readers say what is wrong
        return 0
    return 0
