"""`marda.adapt` and `marda.check`: DataFrames or files in, DataFrames and a verdict out.

Columns are read as those of files are: the same types, the same columns left out, the same
refusals, with options as keywords.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marda._machine import counted, format_bytes
from marda.adaptation.adapting import Adapted, adapt_rows
from marda.adaptation.checking import Checked, check_tables
from marda.adaptation.lines import (
    MOST_COLUMNS,
    Aside,
    adapted_lines,
    checked_lines,
    predicted_shares,
)
from marda.adaptation.methods import classes_and_probabilities, method_of
from marda.adaptation.reading import (
    Data,
    ReadOptions,
    data_of,
    input_errors,
    memory_budget,
    rows_size,
    sources_of,
)
from marda.diagnostics.verdict import Verdict, expected_text
from marda.estimators import MDAClassifier
from marda.io import InputError, Table
from marda.io.conventions import Notation
from marda.io.dataframes import Frame, as_frame, make_frame
from marda.io.preprocessing import Unseen
from marda.io.table import as_keywords, did_you_mean
from marda.io.writing import prediction_names, write_text
from marda.selection.labelling import choose_rows

Names = str | Sequence[str]
CHOICES = {"missing": ("error", "impute"), "scale": ("none", "standard")}


class UnseenWarning(UserWarning):
    """New rows hold what `marda.adapt` did not see, and the model makes little of it."""


class Adaptation:
    """What `marda.adapt` found: predictions, a model, and whether to trust them.

    Attributes
    ----------
    predictions : DataFrame
        One row per row of the target, in its order and of its library (pandas: with its index):
        the `id` column if there is one, "prediction", "probability", and "probability_c" per class.
        A last row that holds the sums of all others has none.
    model : MDAClassifierCV or MDAClassifier
        Fitted. Its `save` keeps the columns too: `marda predict` reads tables with it.
    verdict : str
        What differs, what was done about it, and what that is worth.
    warnings : tuple of str
        What a user should know before trusting the predictions.
    notes : tuple of str
        Columns that were left out, and what else was decided in reading.

    Examples
    --------
    >>> import marda
    >>> result = marda.adapt("sample:source", "sample:target", label="y", id="id")
    >>> result.predictions.columns.tolist()
    ['id', 'prediction', 'probability', 'probability_dry', 'probability_wet']
    >>> len(repr(result).splitlines())
    3
    """

    def __init__(self, adapted: Adapted, data: Data, inputs: _Inputs) -> None:
        self._adapted, self._data, self._inputs = adapted, data, inputs
        self.model = adapted.model
        self.verdict = as_keywords(adapted_lines(adapted)[0])
        self.warnings = tuple(finding.text for finding in adapted.diagnosis.findings)
        self.notes = adapted.notes

    @cached_property
    def predictions(self) -> Any:
        """Classes and probabilities of the rows of the target."""
        codes = np.searchsorted(self.model.classes_, self._adapted.predictions)
        return self._frame(self._inputs.target, codes, self._adapted.probabilities, self._data.ids)

    def predict(self, rows: Any) -> Any:
        """Classes and probabilities of other rows of the target.

        Parameters
        ----------
        rows : DataFrame or path
            With the columns of the target.

        Returns
        -------
        DataFrame
            As `predictions`. An `UnseenWarning` tells of categories that `marda.adapt` did not see.
        """
        options, id = self._inputs.options, self._inputs.options.id
        with _python_errors():
            frame = as_frame(rows, "the table")
            table = options.read([rows])[0] if frame is None else frame.table()
            chosen = self._adapted.preprocessing
            table, _ = chosen.converted(table.without(options.na), Notation())
            with input_errors():
                unseen = Unseen()
                codes, P = classes_and_probabilities(self.model, chosen.transform(table, unseen))
            for note in unseen.notes(chosen):
                warnings.warn(f"{table.path}: {note}", UnseenWarning, stacklevel=2)
            ids = table[id] if id is not None and id in table.names else None
            return self._frame(frame, codes, P, ids)

    def to_label(self, n: int = 20) -> Any:
        """The rows of the target whose labels would decide most, the first one most of all.

        Rows are typical of many others, uncertain, or such that the explanations of the shift
        disagree about them. Fill in their labels in the target, and adapt again.

        Parameters
        ----------
        n : int, default=20
            How many labels can be given. Fewer rows are named where fewer have no label.

        Returns
        -------
        DataFrame
            These rows as the target has them (of a file: their `id`, or their number from 1), with
            "prediction", "probability" and "reason".
        """
        bare = np.flatnonzero(~self._data.known)
        if not len(bare):
            raise InputError("every row of the target has a label: there is none to ask for.")
        chosen = choose_rows(self.model, self._data.Xt[bare], n)
        places = bare[chosen.rows]
        P = self._adapted.probabilities[places]
        codes = np.searchsorted(self.model.classes_, self._adapted.predictions[places])
        more = {
            "prediction": self._labels(codes),
            "probability": P[np.arange(len(P)), codes],
            "reason": [*chosen.reasons],
        }
        frame = self._inputs.target
        if frame is not None:
            return frame.rows(places, more)
        key = prediction_names(self.model.classes_, self._inputs.options.id)[0]
        ids = places + 1 if self._data.ids is None else self._data.ids[places]
        return make_frame(None, {key: ids, **more}, what="rows")

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the page that `marda adapt --report` writes: one HTML file.

        Parameters
        ----------
        path : path
            Replaced only once the page is complete.

        Returns
        -------
        Path
            The file.
        """
        from marda.report.adapted import adapted_page

        return write_text(path, adapted_page(self._adapted))

    def __repr__(self) -> str:
        made = self._adapted
        rows = f"{counted(made.n_source, 'source row')}, {counted(made.n_target, 'target row')}"
        lines = [
            f"marda.adapt ({method_of(self.model)}): {rows}; predicted {predicted_shares(made)}",
            self.verdict,
            f"{_expected(made)}{self._beware}",
        ]
        return "\n".join(" ".join(line.split()) for line in lines)

    def _repr_html_(self) -> str:
        """The head of the report, for notebooks."""
        from marda.report.adapted import adapted_head

        return adapted_head(self._adapted)

    def _labels(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Classes as the caller has them."""
        labels = self.model.classes_[codes]
        return np.asarray(labels == "True" if self._inputs.truths else labels)

    @property
    def _beware(self) -> str:
        n = len(self.warnings)
        return f" ({counted(n, 'warning')}: see .warnings)" if n else ""

    def _frame(
        self,
        frame: Frame | None,
        codes: NDArray[Any],
        P: NDArray[np.float64],
        ids: NDArray[Any] | None,
    ) -> Any:
        """Predictions as a DataFrame of the caller's library, with the caller's index or ids.

        Rows of a file (`frame` is None) have neither; they come in the library of the target.
        """
        id, classes = self._inputs.options.id, self.model.classes_
        key, *names = prediction_names(classes, id)
        columns = dict(
            zip(names, [self._labels(codes), P[np.arange(len(P)), codes], *P.T], strict=True)
        )
        if ids is not None and id is not None:
            own = ids if frame is None or id not in frame.names else frame.column(id)
            columns = {key: own[: len(codes)], **columns}
        pandas = frame is not None and frame.library == "pandas"
        index = frame.given.index[: len(codes)] if frame is not None and pandas else None
        like = frame or self._inputs.target
        return make_frame(like.library if like else None, columns, index)


class Check:
    """What `marda.check` found: how far apart two tables are, in what, and whether it matters.

    Attributes
    ----------
    verdict : str
        The answer in a sentence or two.
    matters : bool or None
        Whether a model of the source loses on the target; None: only labels can tell.
    columns : DataFrame
        Every column that was compared, those that differ most first: "column", "kind", "differs",
        "distance" (0 alike, 1 entirely other), "p_value" and "text".
    warnings, notes : tuples of str
        What looks wrong; columns that were left out.
    only_source, only_target : tuples of str
        Columns that the other table has not.

    Examples
    --------
    >>> import marda
    >>> found = marda.check("sample:source", "sample:target", label="y", drop="id")
    >>> found.matters, found.columns["column"].tolist()[:2]
    (True, ['reading1', 'reading2'])
    """

    def __init__(self, found: Checked, library: str | None) -> None:
        self._found, self._library = found, library
        self.verdict, self.matters = as_keywords(found.verdict), found.matters
        self.warnings = tuple(as_keywords(finding.text) for finding in found.findings)
        self.notes = tuple(as_keywords(note) for note in found.notes)
        self.only_source, self.only_target = found.only_source, found.only_target

    @cached_property
    def columns(self) -> Any:
        """Every column that was compared."""
        found = self._found.columns
        names = ("kind", "differs", "distance", "p_value", "text")
        held = {name: [getattr(column, name) for column in found] for name in names}
        columns = {"column": [column.name for column in found], **held}
        return make_frame(self._library, columns, what="columns")

    def to_json(self) -> dict[str, Any]:
        """What `marda check --json` prints."""
        return self._found.to_json()

    def __repr__(self) -> str:
        lines = [line for line in checked_lines(self._found)[1:] if line]
        lines = [as_keywords(line) for line in lines if not isinstance(line, Aside)]
        more = [*(f"warning: {w}" for w in self.warnings), *(f"note: {n}" for n in self.notes)]
        return "\n".join([self.verdict, "", *lines, *more])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        from marda.report.page import head

        found = self._found
        kind, word = _MATTERS[self.matters]
        columns = [(c.name, f"{c.size}: {c.text}") for c in found.differing[:MOST_COLUMNS]]
        figures = [("columns that differ", f"{len(found.differing)} of {len(found.columns)}")]
        if found.told_apart is not None:
            figures.append(("rows whose table can be told", f"{found.told_apart.value:.0%}"))
        rows = f"{counted(found.n_source, 'source row')}, {counted(found.n_target, 'target row')}"
        reasons = (("What differs", found.shift.sentence()), *columns)
        verdict = Verdict(kind, word, self.verdict, reasons)
        return head(f"marda.check: {rows}.", verdict, figures, (*self.warnings, *self.notes))


_MATTERS: dict[bool | None, tuple[Literal["good", "unclear", "bad"], str]] = {
    True: ("bad", "The difference matters"),
    False: ("good", "A model of the source should do"),
    None: ("unclear", "Not known whether it matters"),
}


@dataclass(frozen=True)
class _Inputs:
    """What the caller gave.

    Attributes
    ----------
    tables : list of Table
        Sources, and the target last.
    options : ReadOptions
        How they are read.
    target : Frame or None
        The caller's DataFrame; None: a file.
    names : tuple of str
        What source and target are called.
    truths : bool
        Whether labels are true and false, and not words for them.
    """

    tables: list[Table]
    options: ReadOptions
    target: Frame | None
    names: tuple[str, str]
    truths: bool

    @property
    def library(self) -> str | None:
        """Whose DataFrames the caller has."""
        return None if self.target is None else self.target.library


def adapt(
    source: Any,
    target: Any,
    label: str,
    *,
    text: Names = (),
    id: str | None = None,
    drop: Names = (),
    keep: Names = (),
    na: Names | float = (),
    missing: str = "error",
    scale: str = "none",
    method: str | None = "auto",
    format: str | None = None,
    encoding: Names = (),
    sheet: Names = (),
    decimal: Names = (),
    dates: Names = (),
    **parameters: Any,
) -> Adaptation:
    """Learn from tables with labels a classifier for a table without, and say what it is worth.

    Columns may hold numbers, dates, words, true and false, text to read (`text`), in any mixture,
    with values missing (`missing="impute"`). Ids, constants, empty columns and copies of the label
    are left out, and `notes` tells so. What cannot be used is refused in one message that names
    every problem and the keyword that solves it.

    Parameters
    ----------
    source, target : DataFrame (pandas or polars) or path
        Labelled rows, in a list of them one source each; rows to classify. The target may have the
        column of labels too: rows in which it is filled are learnt from, and judge the model where
        there are 20 at least.
    label : str
        Column of the labels.
    text : str or sequence of str
        Columns of text, for their words.
    id : str, default=None
        Column that is carried to the predictions, and not learnt from.
    drop, keep : str or sequence of str
        Columns to leave out; columns to use although they look like an id, a constant or a leak.
    na : str, number or sequence of them
        Words and numbers that mean "no value".
    missing : {"error", "impute"}
        Refuse missing values, or put the mean or the commonest value in their place.
    scale : {"none", "standard"}
        Bring numbers to mean 0 and standard deviation 1.
    method : str, default="auto"
        Explain the shift and do what it asks for, or a method of `MDAClassifier`.
    format, encoding, sheet, decimal, dates : str or sequence of str
        How files are read, as the options of `marda adapt`; one for all, or one per table.
    **parameters
        Of `MDAClassifier`, with a method of it.

    Returns
    -------
    Adaptation
        With `predictions`, `model`, `verdict`, `warnings`, `report(path)` and `to_label(n)`.

    Examples
    --------
    >>> import marda
    >>> result = marda.adapt("sample:source", "sample:target", label="y", id="id")
    >>> result.predictions["prediction"].head(3).tolist()
    ['dry', 'wet', 'dry']
    """
    reading = {
        "text": text, "id": id, "drop": drop, "keep": keep, "na": na, "missing": missing,
        "scale": scale, "format": format, "encoding": encoding, "sheet": sheet,
        "decimal": decimal, "dates": dates,
    }  # fmt: skip
    _check_parameters(parameters)
    with _python_errors():
        if label is None:
            raise InputError("label=None: name the column that holds the classes.")
        inputs = _read(source, target, label, reading)
        data = data_of(inputs.tables, inputs.options)
        adapted = adapt_rows(data, inputs.names, method, **parameters)
    return Adaptation(_in_python(adapted), data, inputs)


def check(
    source: Any,
    target: Any,
    label: str | None = None,
    *,
    text: Names = (),
    id: str | None = None,
    drop: Names = (),
    keep: Names = (),
    na: Names | float = (),
    missing: str = "impute",
    scale: str = "none",
    format: str | None = None,
    encoding: Names = (),
    sheet: Names = (),
    decimal: Names = (),
    dates: Names = (),
) -> Check:
    """How far apart two tables are, in which columns, and whether it matters; nothing is adapted.

    Parameters
    ----------
    source, target : DataFrame (pandas or polars) or path
        As for `adapt`; columns need not be the same.
    label : str, default=None
        Column of the labels. With it, a model of the source alone is fitted and asked what to
        expect of it on the target; without, only the columns are compared.
    text, id, drop, keep, na, scale, format, encoding, sheet, decimal, dates : as for `adapt`
        How tables are read.
    missing : {"error", "impute"}, default="impute"
        As for `adapt`; missing values are themselves compared.

    Returns
    -------
    Check
        With `verdict`, `matters` and `columns`.

    Examples
    --------
    >>> import marda
    >>> print(marda.check("sample:source", "sample:labelled", label="y", drop="id").matters)
    True
    """
    reading = {
        "text": text, "id": id, "drop": drop, "keep": keep, "na": na, "missing": missing,
        "scale": scale, "format": format, "encoding": encoding, "sheet": sheet,
        "decimal": decimal, "dates": dates,
    }  # fmt: skip
    with _python_errors():
        inputs = _read(source, target, label, reading)
        result = check_tables(inputs.tables, inputs.options)
    return Check(result, inputs.library)


# What the caller gave -----------------------------------------------------------------------------


def _read(source: Any, target: Any, label: Any, reading: dict[str, Any]) -> _Inputs:
    """Tables of all DataFrames and files."""
    if hasattr(label, "shape") or isinstance(label, list | dict):
        raise InputError(
            f"label is the name of a column, and a {type(label).__name__} was given: put the "
            "labels into a column of the source, and give its name."
        )
    given = [*source] if isinstance(source, list | tuple) else [source]
    if not given:
        raise InputError("source is an empty list: give a table with labelled rows.")
    if any(one is other for k, one in enumerate(given) for other in given[:k]):
        raise InputError("a source is there twice: give every source once.")
    for name, allowed in CHOICES.items():
        if reading[name] not in allowed:
            raise InputError(
                f"{name}={reading[name]!r}: choose from {', '.join(map(repr, allowed))}."
            )
    options = ReadOptions(
        "" if label is None else str(label),
        reading["format"],
        None if reading["id"] is None else str(reading["id"]),
        missing=reading["missing"],
        scale=reading["scale"],
        **{
            name: _names(name, reading[name])
            for name in ("text", "drop", "keep", "na", "encoding", "sheet", "decimal", "dates")
        },
    )
    called = [f"source {k}" if len(given) > 1 else "the source" for k in range(1, len(given) + 1)]
    every = [*zip([*given, target], [*called, "the target"], strict=True)]
    frames = [as_frame(one, name) for one, name in every]
    for frame in filter(None, frames):
        _refuse_index(frame, options)
    paths = [one for (one, _), frame in zip(every, frames, strict=True) if frame is None]
    if files := [one for one, frame in zip(given, frames, strict=False) if frame is None]:
        sources_of(files)  # refuses one that is there twice
    _check_memory(paths, options)
    tables = options.read(
        [
            one if frame is None else frame.table(options.label).without(options.na)
            for (one, _), frame in zip(every, frames, strict=True)
        ]
    )
    shown = [Path(one).name if frame is None else name
             for (one, name), frame in zip(every, frames, strict=True)]  # fmt: skip
    truths = any(frame.holds_truths(options.label) for frame in frames[:-1] if frame is not None)
    names = ", ".join(shown[:-1]), shown[-1]
    return _Inputs(tables, options, frames[-1], names, truths)


def _names(name: str, given: Any) -> tuple[str, ...]:
    """One name, or several; what means "no value" may be a number."""
    if isinstance(given, str) or (name == "na" and isinstance(given, int | float)):
        return (str(given),)
    try:
        return tuple(str(one) for one in given)
    except TypeError:
        raise InputError(f"{name}={given!r}: give a name, or a list of names.") from None


def _refuse_index(frame: Frame, options: ReadOptions) -> None:
    """Refuse a label or an id that is no column, but the index."""
    if frame.library != "pandas":
        return
    index = [str(name) for name in frame.given.index.names if name is not None]
    for what, name in (("label", options.label), ("id", options.id)):
        if name in index and name not in frame.names:
            do = "make it a column with .reset_index()"
            if what == "id":
                do = f"{do}, or leave id out: predictions keep the index"
            raise InputError(f"{what}={name!r} is the index of {frame.name}: {do}.")


def _check_memory(paths: Sequence[Any], options: ReadOptions) -> None:
    """Refuse files that are better read in batches."""
    left_out = {*options.not_features}
    budget = memory_budget(None)
    total = sum(rows_size(path, options.format, left_out, budget) for path in paths)
    if total > budget:
        raise InputError(
            f"the rows of {', '.join(map(str, paths))} take at least {format_bytes(total)}, more "
            f"than the {format_bytes(budget)} that rows may take: run marda adapt at the command "
            "line, which reads Parquet in batches, or raise MARDA_MEMORY."
        )


def _check_parameters(parameters: dict[str, Any]) -> None:
    """Refuse keywords that nothing here has, before any work."""
    known = [*inspect.signature(MDAClassifier).parameters]
    for name in parameters:
        if name not in known or name in ("unlabeled", "method"):
            every = {*known, *inspect.signature(adapt).parameters} - {"parameters", "unlabeled"}
            raise TypeError(
                f"adapt() got an unexpected keyword {name!r}{did_you_mean(name, every)}."
            )


# What is said -------------------------------------------------------------------------------------


@contextmanager
def _python_errors() -> Iterator[None]:
    """Refusals in the words of Python, without the way that led to them."""
    try:
        yield
    except InputError as error:
        raise InputError(as_keywords(str(error))) from None


def _in_python(adapted: Adapted) -> Adapted:
    """The same result, in whose sentences options are keywords."""
    diagnosis = adapted.diagnosis
    findings = tuple(replace(f, text=as_keywords(f.text)) for f in diagnosis.findings)
    diagnosis = replace(diagnosis, findings=findings, verdict=as_keywords(diagnosis.verdict))
    notes = tuple(as_keywords(note) for note in adapted.notes)
    return replace(adapted, diagnosis=diagnosis, notes=notes, python=True)


def _expected(adapted: Adapted) -> str:
    """How many predictions are right, as far as anything tells."""
    if adapted.judgement is not None:
        right = adapted.judgement.adapted
        rows = counted(adapted.judgement.n_rows, "labelled target row")
        between = f"{right.low:.0%} to {right.high:.0%}"
        return f"Right on {rows}, each predicted unseen: {right.value:.0%} ({between})."
    told = expected_text(adapted.diagnosis.facts)
    if told is None:
        return "How many are right is not known: label some rows (see .to_label)."
    return f"Expected {told}."
