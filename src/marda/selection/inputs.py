"""Inputs: the rows as a model sees them. Which rows, which columns, and on which scale.

`MDAClassifierCV` fits its models on one or several inputs of the same rows. Unit rows are the
usual ones; where most entries are zero (counts, tf-idf), their signed square roots are used as
well. Tables in many units, and rows whose length tells classes apart, need others: these replace
the usual ones where they predict left-out source rows better by a margin (math.md §15).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import columns as columns_at
from marda._arrays import is_numpy, like, namespace, to_numpy
from marda._order import row_hashes
from marda._validation import UNLABELED, Labels
from marda.estimators.model import row_lengths
from marda.trees.forest import Forest

Vector = NDArray[Any]
Index = NDArray[np.int64]

#: What `inputs` of a candidate may be.
KINDS = ("raw", "unit", "sqrt", "standard")

#: Those that rules alone make: columns whose tails are drawn in, leaves of a forest, rows that were
#: moved to where others are.
ALL_KINDS = (*KINDS, "robust", "leaves", "aligned")

#: Above this share of source rows with copies, beyond that of target rows, copies are left out.
COPIES = 0.2
#: Above this share of zeros, square roots are used as well.
MOSTLY_ZERO = 0.5
#: Above this share, columns are rare events: in units of their spread, one of them would drown all.
RARE = 0.9
#: κ must be this much higher for other inputs to be taken; inputs that are as near are as good.
MARGIN = 0.02

#: Bytes of rows whose tails are drawn in at a time, few enough for the cache.
CACHE_BYTES = 2**18

#: A column is heavy-tailed if this share of rows, the farthest, makes its spread so many times that
#: of the others.
TRIMMED, HEAVY = 0.05, 4.0

#: How far tails reach beyond the knee: the slope is 1 there, and falls to 0.
TAIL = 3.0
#: Equal pairs that whole numbers would have by chance, where a column without any numbers the rows.
EQUAL_PAIRS = 10.0

#: A value that so few source rows have in a column says nothing of classes; and so many target rows
#: are needed to say that all of them have it.
UNKNOWN_VALUE, LEAST_CONSTANT = 0.05, 5

#: How the note of such columns begins.
SILENT = "not used, since all target rows have one and the same value there"

#: A class keeps at least this many rows in a sample.
KEPT_PER_CLASS = 20


# Columns and scale -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """Rows as a model of the ensemble sees them.

    Attributes
    ----------
    kind : {"raw", "unit", "sqrt", "standard", "robust", "leaves", "aligned"}
        As they are; of unit length; signed square roots of unit length (for counts, whose spread
        grows with their size); columns about their mean, in units of their spread; the same about
        their median, with tails that end; leaves of a forest, of unit length; or
        X·factor + offset.
    columns : array of int, default=None
        Columns that are used; None: all.
    middle, spread : arrays, default=None
        Of the columns, for "standard" and "robust".
    knee : float, default=None
        For "robust": how many spreads from the middle the tails begin.
    forest : Forest, default=None
        For "leaves".
    factor : array of shape (n_features,) or (n_features, n_outputs), default=None
        For "aligned": one per column, or a matrix.
    offset : array of shape (n_outputs,), default=None
        For "aligned".
    """

    kind: str
    columns: Index | None = None
    middle: Vector | None = None
    spread: Vector | None = None
    knee: float | None = None
    forest: Forest | None = None
    factor: Vector | None = None
    offset: Vector | None = None

    @property
    def key(self) -> tuple[str, int] | int:
        """The same for inputs that give the same rows of the same X."""
        if self.kind in ("raw", "unit", "sqrt"):
            return self.kind, id(self.columns)
        return id(self)

    def apply(self, X: Any) -> Any:
        """The rows; sparse rows stay sparse unless columns are standardised or moved.

        Rows of other libraries stay where they are, but for kinds that only models of the host see:
        "robust", "leaves" and "aligned".
        """
        X = to_numpy(X) if self.kind in ("robust", "leaves", "aligned") else X
        if self.columns is not None:
            X = columns_at(X, self.columns)
        if self.kind == "raw":
            return X
        if self.kind == "leaves":
            assert self.forest is not None
            return self.forest.leaves(X) * len(self.forest.roots) ** -0.5
        if self.kind == "aligned":
            return self._aligned(X)
        if self.kind in ("standard", "robust"):
            return self._standardised(X)
        if self.kind == "sqrt":
            X = _signed_root(X)
        return _unit(X)

    def _standardised(self, X: Any) -> Any:
        dense = X.toarray() if sp.issparse(X) else X
        assert self.middle is not None
        assert self.spread is not None
        if self.kind == "standard":
            if not is_numpy(X):
                return (X - like(self.middle, X)) / like(self.spread, X)
            return (dense - self.middle.astype(X.dtype)) / self.spread.astype(X.dtype)
        assert self.knee is not None
        out = np.empty(dense.shape, dtype=np.result_type(dense, self.middle, self.spread))
        step = max(1, CACHE_BYTES // max(1, out.itemsize * out.shape[1]))
        with np.errstate(over="ignore"):
            for start in range(0, len(out), step):  # while they are in cache
                part = slice(start, start + step)
                Z = np.subtract(dense[part], self.middle, out=out[part])
                Z /= self.spread
                size = np.abs(Z)
                body = np.minimum(size, self.knee)
                size -= body
                size /= TAIL
                size += 1
                np.divide(TAIL, size, out=size)
                np.subtract(TAIL, size, out=size)
                size += body
                np.copysign(size, Z, out=Z)
        return out

    def _aligned(self, X: Any) -> Any:
        assert self.factor is not None
        assert self.offset is not None
        if self.factor.ndim == 2:
            return np.asarray(X @ self.factor) + self.offset
        if sp.issparse(X):
            X = (X @ sp.diags_array(self.factor)).tocsr()
            return X.toarray() + self.offset if self.offset.any() else X
        moved = X.astype(np.result_type(X, self.factor, self.offset))
        moved *= self.factor
        moved += self.offset
        return moved

    def names(self, names: Vector) -> Vector:
        """Names of the columns that `apply` gives, from those of the rows."""
        if self.columns is not None:
            names = names[self.columns]
        if self.kind == "leaves":
            return np.array([f"leaf{k}" for k in range(self.width(len(names)))], dtype=object)
        if self.kind == "aligned" and self.factor is not None and self.factor.ndim == 2:
            return np.array([f"aligned{k}" for k in range(self.width(len(names)))], dtype=object)
        return names

    def width(self, n_features: int) -> int:
        """Columns of what `apply` gives for rows of so many columns."""
        if self.kind == "leaves":
            assert self.forest is not None
            return len(self.forest.values)
        if self.kind == "aligned":
            assert self.offset is not None
            return len(self.offset)
        return n_features if self.columns is None else len(self.columns)


def leaf_inputs(forest: Forest) -> Inputs:
    """Leaves of a forest, as rows of unit length."""
    return Inputs("leaves", forest=forest)


def align(factor: Vector, offset: Vector) -> Inputs:
    """Rows X·factor + offset; a factor per column, or a matrix."""
    return Inputs("aligned", factor=factor, offset=offset)


def robust_inputs(X: Any, knee: float, columns: Index | None = None) -> Inputs:
    """Columns about their median, in units of their spread, tails beyond `knee` drawn in.

    The spread is the standard deviation; where a few rows make most of it, that of all others.
    """
    X = Inputs("raw", columns).apply(X)
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    middle = np.median(dense, axis=0)
    largest = np.abs(dense - middle).max(0)
    safe = np.where(largest > 0, largest, 1.0)  # squares of what is left cannot overflow
    away = np.sort(np.abs((dense - middle) / safe), axis=0)
    kept = len(dense) - int(TRIMMED * len(dense))
    spread, inner = (np.sqrt(np.mean(part**2, axis=0)) for part in (away, away[:kept]))
    spread = np.where((inner > 0) & (spread > HEAVY * inner), inner, spread) * safe
    return Inputs("robust", columns, middle, np.where(spread > 0, spread, 1.0), knee)


def telling_columns(X: Any) -> Index | None:
    """Columns but those that number the rows or are constant; None: all of them.

    A number of rows has whole values that are all different and close together. Other whole values
    are hardly ever: n of them, drawn from a range of r, have n²/2r equal pairs on average.
    """
    n = X.shape[0]
    telling = np.ones(X.shape[1], dtype=bool)
    for j in range(X.shape[1]):
        column = X[:, [j]].toarray().ravel() if sp.issparse(X) else X[:, j]
        low, high = float(column.min()), float(column.max())
        if low == high:
            telling[j] = False
        elif n * (n - 1) / 2 >= EQUAL_PAIRS * (high - low) and (column == np.floor(column)).all():
            telling[j] = len(np.unique(column)) < n
    return None if telling.all() or not telling.any() else np.flatnonzero(telling)


def constant_in_target(X: Any, target: NDArray[np.bool_]) -> Index:
    """Columns with one value in all target rows, which hardly any source row has.

    A sensor that broke, a field that is no longer filled in: what the source teaches of such a
    column cannot be used, and undoing it as a move of the column would make noise of it.
    """
    ours, theirs = X[np.flatnonzero(~target)], X[np.flatnonzero(target)]
    if theirs.shape[0] < LEAST_CONSTANT:
        return np.array([], dtype=np.int64)
    value = theirs[[0]].toarray() if sp.issparse(theirs) else theirs[[0]]
    columns = np.flatnonzero(_share_equal(theirs, value) == 1)
    columns = columns[_share_equal(ours[:, columns], value[:, columns]) < UNKNOWN_VALUE]
    return columns if len(columns) < X.shape[1] else columns[:0]


def silent_columns_note(names: Sequence[str]) -> str:
    """What is said of columns that `constant_in_target` has found."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{SILENT}, which hardly any source row has: {', '.join(names[:5])}{more}."


def _share_equal(X: Any, value: Vector) -> Vector:
    """Of rows, per column."""
    if sp.issparse(X):
        X = X.toarray()
    return np.asarray((value == X).mean(0))


def with_constants(X: Any, columns: Index, value: Vector) -> Any:
    """Rows that all have these values in these columns; in the library of X, on its device."""
    kept, row = np.ones(X.shape[1]), np.zeros(X.shape[1])
    kept[columns], row[columns] = 0.0, value
    if sp.issparse(X):
        every = sp.csr_array(np.ones((X.shape[0], 1)))
        filled = X @ sp.diags_array(kept) + every @ sp.csr_array(row[None])
        return sp.csr_array(filled, dtype=X.dtype)
    if is_numpy(X):
        kept, row = kept.astype(X.dtype), row.astype(X.dtype)
    return X * like(kept, X) + like(row, X)


def make_inputs(kind: str, X: Any, columns: Index | None = None) -> Inputs:
    """Inputs of a kind, with the statistics of the rows that this kind needs."""
    if kind not in KINDS:
        raise ValueError(f"inputs must be one of {KINDS}, got {kind!r}.")
    if kind != "standard":
        return Inputs(kind, columns)
    dense = Inputs("raw", columns).apply(X)
    dense = dense.toarray() if sp.issparse(dense) else dense
    middle, spread = dense.mean(0, dtype=np.float64), dense.std(0, dtype=np.float64)
    return Inputs(kind, columns, middle, np.where(spread > 0, spread, 1.0))


def share_of_zeros(X: Any) -> float:
    """Entries that are zero, of all entries."""
    filled = X.count_nonzero() if sp.issparse(X) else np.count_nonzero(X)
    return float(1 - filled / max(1, X.shape[0] * X.shape[1]))


def host_rows(X: Any) -> Any:
    """Rows of another library, copied to the host; as a CSR array where they are mostly zeros."""
    if is_numpy(X):
        return X
    filled, xp = X != 0, namespace(X)
    if int(xp.count_nonzero(X)) >= (1 - RARE) * X.shape[0] * X.shape[1]:
        return to_numpy(X)
    rows, places = (to_numpy(index).astype(np.int32) for index in xp.nonzero(X))
    starts = np.searchsorted(rows, np.arange(X.shape[0] + 1)).astype(np.int32)
    return sp.csr_array((to_numpy(X[filled]), places, starts), shape=X.shape)


def column_energy(X: Any) -> Vector:
    """Sum of squares of every column."""
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(0), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->j", X, X, dtype=np.float64))


def _signed_root(X: Any) -> Any:
    if not sp.issparse(X):
        xp = namespace(X)
        return xp.sign(X) * xp.sqrt(xp.abs(X))
    X = X.copy()
    X.data = np.sign(X.data) * np.sqrt(np.abs(X.data))
    return X


def _unit(X: Any) -> Any:
    """Rows of unit length; empty rows stay empty."""
    if sp.issparse(X):
        squares = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), X.shape)
        norms = np.sqrt(np.asarray(squares.sum(1)).ravel())
        scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0).astype(X.dtype)
        unit = sp.csr_array(
            (X.data * np.repeat(scale, np.diff(X.indptr)), X.indices, X.indptr), X.shape
        )
        unit.sort_indices()  # sums of a row are then taken in the same order, however it was given
        return unit
    norms = row_lengths(X)[:, None]
    norms = np.where(norms > 0, norms, 1)
    return X / (norms.astype(X.dtype) if is_numpy(X) else like(norms, X))


# Which of them -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class InputOption:
    """A kind of inputs, and whether denoised rows get unit length."""

    kind: str
    normalize: bool = True

    def __str__(self) -> str:
        return f"{self.kind} rows" + ("" if self.normalize else " with their length")


UNIT, ROOTS = InputOption("unit"), InputOption("sqrt")
STANDARD = InputOption("standard"), InputOption("standard", normalize=False)


def usual_inputs(zeros: float) -> list[InputOption]:
    """Those that are taken unless others are better, for rows with this share of zeros."""
    return [UNIT, ROOTS] if zeros > MOSTLY_ZERO else [UNIT]


def alternative_inputs(zeros: float) -> list[InputOption]:
    """Those that may be better."""
    others = [ROOTS] if zeros > RARE else [ROOTS, *STANDARD]
    return [option for option in others if option not in usual_inputs(zeros)]


def choose_inputs(
    kappas: Mapping[InputOption, float], usual: Sequence[InputOption]
) -> list[InputOption]:
    """The usual inputs, or all near the best ones if these predict the source clearly better.

    Parameters
    ----------
    kappas : mapping of InputOption to float
        κ of left-out source rows (math.md §12), those of the usual inputs included.
    usual : sequence of InputOption
        Replaced where the largest κ exceeds the mean of theirs by more than `MARGIN`.
    """
    if not any_better(kappas, usual, MARGIN):
        return list(usual)
    best = max(kappas.values())
    return [option for option, kappa in kappas.items() if kappa >= best - MARGIN]


def any_better(
    kappas: Mapping[InputOption, float], usual: Sequence[InputOption], margin: float
) -> bool:
    """Whether the largest κ exceeds the mean of those of the usual inputs by more than a margin."""
    return bool(max(kappas.values()) > np.mean([kappas[option] for option in usual]) + margin)


# Which rows --------------------------------------------------------------------------------------


def sample(
    X: Any, labels: Labels, domain: Index, max_rows: int, seed: int
) -> tuple[Any, Labels, Index]:
    """The rows that `draw_rows` draws; the given ones if that is all of them."""
    drawn = draw_rows(labels.codes, domain, max_rows, seed)
    if len(drawn) == len(domain):
        return X, labels, domain
    return X[drawn], labels._replace(codes=labels.codes[drawn]), domain[drawn]


def copies(
    source: NDArray[np.uint64], target: NDArray[np.uint64], codes: Index | int = 0
) -> NDArray[np.bool_]:
    """Which source rows are copies of others before them, if they are many, and not by nature.

    A row that was left out is no test of a model that has learned from its copy. Tables of few
    different values have copies by nature: some of another class, or about as many target rows
    that are copies of source rows. Rows come as `row_hashes`.
    """
    _, first, counts = np.unique(source, return_index=True, return_counts=True)
    pairs = source + np.asarray(codes).astype(np.uint64)
    here = counts[counts > 1].sum() / max(1, len(source))
    there = np.isin(target, source).sum() / max(1, len(target))
    found = np.full(len(source), len(np.unique(pairs)) == len(first) and here - there > COPIES)
    found[first] = False
    return found


def drop_copies(X: Any, codes: Index, domain: Index) -> Index:
    """Places of all rows but the copies of labelled source rows."""
    source = np.flatnonzero((codes != UNLABELED) & (domain >= 0))
    source = source[np.argsort(domain[source], kind="stable")]  # of copies, the first domain's
    hashes = row_hashes(X)
    copied = source[copies(hashes[source], hashes[domain < 0], codes[source])]
    if len(copied):
        warnings.warn(
            f"{len(copied)} of {len(source)} labelled source rows are copies of others, which "
            "target rows are not: each row is used once.",
            UserWarning,
            stacklevel=4,
        )
    return np.delete(np.arange(len(domain)), copied)


def draw_rows(codes: Index, domain: Index, max_rows: int, seed: int) -> Index:
    """Places of about `max_rows` rows per domain, drawn per class.

    A class keeps its share of the domain, and at least 20 rows; labelled target rows are all kept.
    """
    rng = np.random.default_rng(seed)
    keep = np.zeros(len(domain), dtype=bool)
    for d in np.unique(domain):
        mine = np.flatnonzero(domain == d)
        share = max_rows / len(mine)
        for c in np.unique(codes[mine]):
            rows = mine[codes[mine] == c]
            wanted = len(rows)
            if share < 1 and not (d < 0 and c != UNLABELED):
                wanted = min(wanted, max(KEPT_PER_CLASS, int(share * len(rows))))
            keep[rng.permutation(rows)[:wanted]] = True
    return np.flatnonzero(keep)


def stratified_folds(codes: Index, n_folds: int, seed: int) -> Index:
    """A fold of every row; rows of a class are spread over all folds."""
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    folds = np.empty(len(codes), dtype=np.int64)
    folds[order] = np.arange(len(codes)) % n_folds
    return folds
