"""`check`, before any adaptation: how far apart files are, in which columns, and does it matter?

Columns are compared one by one, each by a test that needs no model; the levels are corrected for
their number (Holm, 1979). Whether a difference matters is another question, and needs labels: it
is asked of a model that knows the source alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2_contingency, ks_2samp

from marda._machine import counted
from marda._order import row_hashes, sample_places
from marda._progress import Listener, Watch, silent
from marda.adaptation.reading import (
    PathLike,
    ReadOptions,
    Sources,
    data_of,
    input_errors,
    one_naming,
    sources_of,
)
from marda.criteria import domain_hits
from marda.diagnostics.diagnosis import Finding, a_distance, data_findings, domain_accuracy
from marda.diagnostics.intervals import Interval, holm, share_right, share_text, signed
from marda.diagnostics.verdict import FEW_ROWS
from marda.io import InputError, Table
from marda.io.columns import Category, Date, Matrix, Number, Step, Words
from marda.io.conventions import days_of
from marda.io.table import as_numbers, as_texts, is_missing
from marda.selection.auto import fit_plain
from marda.selection.expectation import LEAST, Expectation, outside_support
from marda.selection.inputs import copies
from marda.shift import Shift, explain_shift

#: Rows per domain of a comparison; features of a matrix that are compared.
ROWS, MOST_FEATURES = 5000, 2000
LEVEL = 0.01
#: Categories with fewer rows are one.
RARE = 5
#: Accuracy lost that is worth a word.
LOSS = 0.02
#: A difference in words, by how much of the rows would have to change to undo it.
SIZES = ((0.1, "a little"), (0.3, "clearly"), (0.9, "much"), (1.1, "entirely"))


@dataclass(frozen=True)
class ColumnShift:
    """How one column differs.

    Attributes
    ----------
    name : str
        The column.
    kind : {"number", "date", "category", "text"}
        What it holds.
    distance : float
        0 (alike) to 1: of numbers and dates the largest difference of the distributions
        (Kolmogorov and Smirnov), of categories the share of rows in another one, of text by how
        much its words tell the domains apart. Missing values count.
    p_value : float
        Chance of a difference as large, corrected for the number of columns.
    text : str
        What differs, in words.
    """

    name: str
    kind: str
    distance: float
    p_value: float
    text: str

    @property
    def differs(self) -> bool:
        """By more than chance."""
        return self.p_value < LEVEL

    @property
    def size(self) -> str:
        """How much, in a word."""
        return next(word for limit, word in SIZES if self.distance < limit)


@dataclass(frozen=True)
class Checked:
    """What `check_rows` and `check_tables` found.

    Attributes
    ----------
    n_source, n_target, n_labelled : int
        Rows, and rows of the target with a label.
    columns : tuple of ColumnShift
        All that were compared, those that differ most first.
    told_apart : Interval or None
        Share of rows whose domain a classifier names (0.5: chance); None with too few rows.
    shift : Shift
        The explanation of the difference.
    accuracy : float or None
        Share of left-out source rows that a plain model of the source names right; None without
        labels.
    expectation : Expectation or None
        Of that model on the target.
    measured : Interval or None
        Share of labelled target rows that it names right.
    outside : float or None
        Share of target rows where no source row is; one in 20 is usual.
    findings : tuple of Finding
        What else looks wrong.
    only_source, only_target : tuples of str
        Columns that the other side has not.
    notes : tuple of str
        Columns that were left out, and what else was decided in reading.
    """

    n_source: int
    n_target: int
    n_labelled: int
    columns: tuple[ColumnShift, ...]
    told_apart: Interval | None
    shift: Shift
    accuracy: float | None = None
    expectation: Expectation | None = None
    measured: Interval | None = None
    outside: float | None = None
    findings: tuple[Finding, ...] = ()
    only_source: tuple[str, ...] = ()
    only_target: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def differing(self) -> tuple[ColumnShift, ...]:
        """Columns that differ by more than chance."""
        return tuple(column for column in self.columns if column.differs)

    @property
    def matters(self) -> bool | None:
        """Whether a plain model of the source loses on the target; None: not known."""
        if self.accuracy is None:
            return None if self.differing or self.shift.kind != "none" else False
        if self.measured is not None and self.n_labelled >= FEW_ROWS:
            if self.measured.high < self.accuracy - LOSS:
                return True
            return None if self.measured.low < self.accuracy - 5 * LOSS else False
        if self.expectation is None or not self.expectation.can_tell:
            return None
        if self.expectation.accuracy > self.accuracy - LOSS:
            return False
        return True if self.expectation.interval[1] < self.accuracy else None

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        if self.shift.kind == "none" and not self.differing:
            where = f"in the {counted(len(self.columns), 'column')} that both have"
            more = "" if self.accuracy is None else f": {self._plain()}"
            return f"No shift was found {where}{more}."
        if self.shift.kind == "too few rows" and not self.differing:
            return self.shift.sentence()
        where = "the two differ"
        if self.differing:
            names = ", ".join(repr(column.name) for column in self.differing[:3])
            n = len(self.differing) - 3
            where += f" in {names}" + (f" and {counted(n, 'more column')}" if n > 0 else "")
        if self.shift.kind == "class shares":
            where = "the classes have other shares"
        if self.accuracy is None:
            return (
                f"{where[0].upper()}{where[1:]}. Whether that matters for predictions, only labels "
                "of the source can tell: name their column with --label."
            )
        begin = {
            True: f"It matters that {where}",
            False: f"It hardly matters that {where}",
            None: f"It may matter that {where}",
        }[self.matters]
        if self.expectation is not None and not self.expectation.can_tell and self.matters is None:
            begin = f"Whether it matters that {where} cannot be told without target labels"
        return f"{begin}: {self._plain()}."

    def _plain(self) -> str:
        """What a plain model is worth here and there."""
        assert self.accuracy is not None
        begin = f"a plain model is right on {share_text(self.accuracy)} of left-out source rows"
        if self.measured is not None:
            low, high = share_text(self.measured.low), share_text(self.measured.high)
            rows = counted(self.n_labelled, "labelled target row")
            return f"{begin}, and {share_text(self.measured.value)} of {rows} ({low} to {high})"
        if self.expectation is None:
            return begin
        low, high = (share_text(bound) for bound in self.expectation.interval)
        if not self.expectation.can_tell:
            return f"{begin}, and {low} to {high} of the target: {self.expectation.reason}"
        about = share_text(self.expectation.accuracy)
        return f"{begin}, and about {about} of the target ({low} to {high} in nine of ten cases)"

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "command": "check",
            "rows": {
                "source": self.n_source,
                "target": self.n_target,
                "labelled_target": self.n_labelled,
            },
            "verdict": self.verdict,
            "matters": self.matters,
            "told_apart": None if self.told_apart is None else asdict(self.told_apart),
            "a_distance": None if self.told_apart is None else asdict(a_distance(self.told_apart)),
            "outside": self.outside,
            "shift": {
                "kind": self.shift.kind,
                "sentence": self.shift.sentence(),
                "left": self.shift.left,
            },
            "plain_accuracy": self.accuracy,
            "expected": None if self.expectation is None else asdict(self.expectation),
            "measured": None if self.measured is None else asdict(self.measured),
            "columns": [{**asdict(column), "differs": column.differs} for column in self.columns],
            "findings": [asdict(finding) for finding in self.findings],
            "only_source": list(self.only_source),
            "only_target": list(self.only_target),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def check_rows(
    tables: tuple[Table, Table],
    rows: tuple[Any, Any],
    steps: Sequence[Step],
    labels: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> Checked:
    """Compare source and target.

    Parameters
    ----------
    tables : tuple of Table
        Source and target, with numbers and dates as such.
    rows : tuple of arrays or CSR arrays
        The same as the rows of a model.
    steps : sequence of Step
        What became of every column.
    labels : tuple of arrays, default=None
        Of the source, and of the target (missing: not known); None: the source has none either.
    """
    Xs, Xt = rows
    names = [name for step in steps for name in step.features]
    once = np.ones(Xs.shape[0], dtype=bool)
    if labels is not None:
        codes = np.unique(labels[0], return_inverse=True)[1].ravel()
        once = ~copies(row_hashes(Xs), row_hashes(Xt), codes)
    places = [_some(X, ROWS, k) for k, X in enumerate(rows)]
    places[0] = places[0][once[places[0]]]
    columns = compare_columns(tables, (Xs, Xt), steps, (places[0], places[1]))
    known: NDArray[np.bool_] = np.zeros(Xt.shape[0], dtype=bool)
    facts: dict[str, Any] = {}
    if labels is None:
        facts["shift"] = explain_shift(
            Xs[places[0]], np.zeros(len(places[0])), Xt[places[1]], columns=names, random_state=0
        )
    else:
        plain = fit_plain(Xs, labels[0], Xt, columns=names, seed=0)
        known = ~is_missing(labels[1])
        facts["shift"], facts["accuracy"] = plain.shift, plain.accuracy
        facts["expectation"] = plain.expectation
        if known.any():
            right = plain.predict(Xt[known]) == labels[1][known]
            facts["measured"] = share_right(np.asarray(right))
    if min(once.sum(), Xt.shape[0]) >= FEW_ROWS > LEAST:
        drawn = [X[_some(X, 1000, k)] for k, X in enumerate((Xs[once], Xt))]
        facts["told_apart"] = domain_accuracy(*drawn)
        facts["outside"] = float(outside_support(*drawn, random_state=0).mean())
    else:
        facts["told_apart"] = None
    found = tuple(data_findings(Xs, Xt, names, scales=False))
    return Checked(Xs.shape[0], Xt.shape[0], int(known.sum()), columns, findings=found, **facts)


def _some(X: Any, most: int, seed: int) -> NDArray[np.int64]:
    return np.asarray(sample_places(X, most, np.random.default_rng(seed)))


# Column by column ---------------------------------------------------------------------------------


def compare_columns(
    tables: tuple[Table, Table],
    rows: tuple[Any, Any],
    steps: Sequence[Step],
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[ColumnShift, ...]:
    """Every column of source and target, those that differ most first.

    Parameters
    ----------
    tables, rows, steps
        As for `check_rows`.
    places : tuple of arrays of int
        Rows of source and target that are compared.
    """
    found: list[ColumnShift] = []
    at = 0
    for step in steps:
        block = slice(at, at + step.size)
        at += step.size
        if isinstance(step, Matrix):
            found += _features([X[p][:, block] for X, p in zip(rows, places, strict=True)], step)
        elif isinstance(step, Words):
            drawn = [X[p][:, block] for X, p in zip(rows, places, strict=True)]
            found.append(_text(step, *drawn))
        elif isinstance(step, Number | Date | Category):
            values = [table[step.name][p] for table, p in zip(tables, places, strict=True)]
            found.append(_column(step, values))
    p = holm([column.p_value for column in found])
    corrected = [
        ColumnShift(c.name, c.kind, c.distance, q, c.text) for c, q in zip(found, p, strict=True)
    ]
    return tuple(sorted(corrected, key=lambda c: (not c.differs, -c.distance, c.p_value, c.name)))


def _column(step: Number | Date | Category, values: Sequence[NDArray[Any]]) -> ColumnShift:
    """A column of numbers, dates or words, and of gaps in it."""
    if isinstance(step, Category):
        texts = [as_texts(v) for v in values]
        gone = [is_missing(v) for v in texts]
        kept = [v[~g] for v, g in zip(texts, gone, strict=True)]
        kind, (distance, p, text) = "category", _words_apart(kept)
    else:
        dates = isinstance(step, Date)
        numbers = [days_of(v) if dates else as_numbers(v) for v in values]
        held = [np.empty(0) if v is None else v for v in numbers]
        gone = [np.isnan(v) for v in held]
        kept = [v[~g] for v, g in zip(held, gone, strict=True)]
        kind, (distance, p, text) = "date" if dates else "number", _numbers_apart(kept, dates)
    shares = [float(g.mean()) if len(g) else 0.0 for g in gone]
    if max(shares) == 0:
        return ColumnShift(step.name, kind, distance, p, text)
    q = _chi2(np.array([[g.sum(), (~g).sum()] for g in gone]))
    parts = [text] if p <= max(q, LEVEL) else []
    if q < LEVEL:
        parts.append(f"empty in {_step(*shares)} of rows")
    # Two tests of one column: the better one counts twice.
    smallest = min(1.0, 2 * min(p, q))
    return ColumnShift(
        step.name, kind, max(distance, abs(shares[1] - shares[0])), smallest, "; ".join(parts)
    )


def _numbers_apart(values: Sequence[NDArray[np.float64]], dates: bool) -> tuple[float, float, str]:
    """Distance, p-value and words for two samples of numbers."""
    source, target = values
    if not len(source) or not len(target):
        return 0.0, 1.0, ""
    found = ks_2samp(source, target, method="asymp")
    if dates:
        middle = [np.datetime64(int(np.median(v)), "D") for v in values]
        text = f"median {middle[0]} → {middle[1]}"
    else:
        spread = float(source.std()) or float(target.std()) or 1.0
        by = float(target.mean() - source.mean()) / spread
        text = f"mean {source.mean():.4g} → {target.mean():.4g}"
        text += f" ({signed(by, '+.2f')} standard deviations)"
        if source.std() > 0 and not 0.75 < target.std() / source.std() < 4 / 3:
            text += f", spread {source.std():.3g} → {target.std():.3g}"
    return float(found.statistic), float(found.pvalue), text


def _words_apart(values: Sequence[NDArray[Any]]) -> tuple[float, float, str]:
    """Distance, p-value and words for two samples of categories."""
    names, codes = np.unique(np.concatenate([*values]).astype(str), return_inverse=True)
    if min(map(len, values)) == 0:
        return 0.0, 1.0, ""
    parts = np.split(codes.ravel(), [len(values[0])])
    counts = np.array([np.bincount(part, minlength=len(names)) for part in parts])
    shares = counts / counts.sum(1, keepdims=True)
    change = shares[1] - shares[0]
    rare = counts.sum(0) < RARE
    pooled = np.column_stack([counts[:, ~rare], counts[:, rare].sum(1)])
    most = [k for k in np.argsort(-np.abs(change), kind="stable")[:2] if change[k]]
    text = ", ".join(f"{str(names[k])[:30]!r} {_step(*shares[:, k])}" for k in most)
    new = (counts[0] == 0) & (counts[1] > 0)
    if new.any():
        text += f"; {counted(int(new.sum()), 'value')} new, in {share_text(shares[1][new].sum())}"
    return float(np.abs(change).sum() / 2), _chi2(pooled), text


def _text(step: Words, source: Any, target: Any) -> ColumnShift:
    """How far words tell the domains apart, and which differ most."""
    if min(source.shape[0], target.shape[0]) < FEW_ROWS:
        return ColumnShift(step.name, "text", 0.0, 1.0, "")
    hits = domain_hits(source, target)
    p = float(binomtest(int(hits.sum()), len(hits), alternative="greater").pvalue)
    shares = [np.asarray((X != 0).mean(axis=0)).ravel() for X in (source, target)]
    most = np.argsort(-np.abs(shares[1] - shares[0]), kind="stable")[:3].tolist()
    told = ", ".join(f"{step.words[k]!r} in {_step(shares[0][k], shares[1][k])}" for k in most)
    distance = max(0.0, 2 * float(hits.mean()) - 1)
    return ColumnShift(step.name, "text", distance, p, f"{told} of texts")


def _features(rows: Sequence[Any], step: Matrix) -> list[ColumnShift]:
    """Features of a matrix; of very many, those whose means differ most."""
    dense = [X.toarray() if sp.issparse(X) and X.shape[1] <= MOST_FEATURES else X for X in rows]
    means = [np.asarray(X.mean(axis=0)).ravel() for X in dense]
    order = np.argsort(-np.abs(means[1] - means[0]), kind="stable")[:MOST_FEATURES]
    names = step.features
    found = []
    for k in np.sort(order).tolist():
        pair = [np.asarray(X[:, [k]].toarray() if sp.issparse(X) else X[:, k]).ravel()
                for X in dense]  # fmt: skip
        distance, p, text = _numbers_apart(pair, False)
        # Those that were not looked at count as well.
        found.append(ColumnShift(names[k], "number", distance, p * len(names) / len(order), text))
    return found


def _chi2(counts: NDArray[np.int64]) -> float:
    """p-value of equal shares in the rows of a table of counts."""
    held = counts[:, counts.sum(0) > 0]
    if held.shape[1] < 2 or (held.sum(1) == 0).any():
        return 1.0
    return float(chi2_contingency(held, correction=False).pvalue)


def _step(before: float, after: float) -> str:
    return f"{share_text(float(before))} → {share_text(float(after))}"


# Files and tables --------------------------------------------------------------------------------


def check_files(
    source: Sources, target: PathLike, options: ReadOptions, *, progress: Listener = silent
) -> Checked:
    """Compare files, the rows of several sources together, with the target.

    Parameters
    ----------
    source, target : paths
        Files, or folders of Parquet files; a list of them gives several sources.
    options : ReadOptions
        Columns and how to read them; the label may be "".
    progress : callable
        Called with the share of the work done and what comes next.
    """
    watch = Watch(progress)
    watch(0.0, "reading")
    tables = options.read([*sources_of(source), target])
    return check_tables(tables, options, watch=watch)


def check_tables(
    tables: Sequence[Table], options: ReadOptions, *, watch: Watch | None = None
) -> Checked:
    """Compare tables, of the sources first and of the target last.

    Columns that not all of them have are told, and left out.
    """
    watch = watch or Watch(silent)
    tables = one_naming(tables, [])
    target, everywhere = tables[-1], set.intersection(*(set(table.names) for table in tables))
    beside = {options.label, options.id, *options.drop}
    only_source = dict.fromkeys(
        name for table in tables[:-1] for name in table.names if name not in everywhere | beside
    )
    only_target = [name for name in target.names if name not in {*tables[0].names} | beside]
    if not everywhere - beside and all(table.block is None for table in tables):
        raise InputError(
            f"{tables[0].path} and {target.path} have no column in common beside the label: give "
            "tables of the same columns."
        )
    chosen = replace(options, drop=(*options.drop, *only_source, *only_target))
    data = data_of(tables, chosen, hold=True)
    watch(0.3, "comparing")
    rows, labels = (data.Xs, data.Xt), (data.ys, data.without_copies().yt)
    with input_errors() as notes:
        checked = check_rows(
            (data.tables[0], data.tables[1]),
            rows,
            data.preprocessing.steps,
            labels if options.label else None,
        )
    watch(1.0, "done")
    return replace(
        checked,
        only_source=(*only_source,),
        only_target=(*only_target,),
        notes=(*data.notes, *data.copy_notes, *notes),
        seconds=watch.seconds,
    )
