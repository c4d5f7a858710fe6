"""Which rows of a file to label next; the file that is filled in is a target of `adapt`."""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.adaptation.methods import classes_and_probabilities
from marda.adaptation.predicting import AS_FOUND, load_model, read_rows
from marda.adaptation.reading import PathLike, ReadOptions, check_names, input_errors
from marda.io import InputError
from marda.io.atomic import replacing
from marda.io.table import Table, as_texts, is_missing
from marda.selection.labelling import choose_rows

__all__ = ["ToLabel", "label"]


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
    """
    began = time.perf_counter()
    if out is not None and Path(out).suffix.lower() not in (".csv", ".tsv"):
        raise InputError(f"{out}: rows to label are written as .csv or .tsv.")
    check_names([input, model], {"--out": out})
    classifier, chosen = load_model(model)
    name = chosen.label or "label"
    table, X = read_rows(chosen, input, options, name, *([id] if id else []))
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
        codes, P = classes_and_probabilities(classifier, X)
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
        columns = _columns(table, name, (key or "row", ids), ours, set(chosen.columns))
        _write(Path(out), columns, np.concatenate([rows, rest]))
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
    )


def _columns(
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


def _write(path: Path, columns: dict[str, list[Any]], rows: NDArray[np.int64]) -> None:
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
