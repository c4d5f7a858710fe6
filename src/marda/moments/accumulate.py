"""Batches of rows → `Moments`.

Dense batches are summed about the mean of the first one, sparse batches about zero (a shift would
densify them); the two parts merge exactly at the end. All sums and products are of float64 numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _get_feature_names, check_array

from marda._arrays import (
    add_gram,
    beside,
    detached,
    float64,
    is_followed,
    is_numpy,
    mirror_lower,
    namespace,
    rows_at,
    zeros,
)
from marda._validation import (
    UNLABELED,
    Labels,
    check_domains,
    check_unmasked,
    encode_labels,
    float_types,
    is_marked,
    summed,
)
from marda.moments.stats import Moments, merge_classes

Matrix = NDArray[np.float64]
BATCH_BYTES, DEVICE_BYTES = 64 * 2**20, 2**31


def batch_rows(X: Any, batch_size: int | None = None) -> Iterator[slice]:
    """Slices of rows that together cover X; a batch of float64 rows stays below BATCH_BYTES."""
    n_rows, d = X.shape
    if batch_size is None:
        # Below a few hundred rows a product no longer runs at the speed of the machine.
        size = BATCH_BYTES if is_numpy(X) else DEVICE_BYTES
        batch_size = max(256, size // (8 * max(1, d)))
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    for start in range(0, n_rows, batch_size):
        yield slice(start, min(n_rows, start + batch_size))


class _Part:
    """Running sums of batches about one reference point."""

    def __init__(self, shift: NDArray[np.float64], n_classes: int, grams: bool, per_class: bool):
        d = shift.shape[0]
        self.shift = shift
        self.groups: dict[tuple[int, int], list[Any]] = {}
        # One triangle, Fortran order: what BLAS can add to in place.
        n_grams = (n_classes + 1 if per_class else 2) if grams else 0
        self.grams = [np.zeros((d, d), order="F") for _ in range(n_grams)]
        self.per_class = per_class

    def grow(self, n_classes: int) -> None:
        """Make room for classes that earlier batches did not have."""
        if self.grams and self.per_class:
            d = len(self.shift)
            missing = n_classes + 1 - len(self.grams)
            self.grams += [np.zeros((d, d), order="F") for _ in range(missing)]

    def add(self, X: Any, codes: NDArray[np.int64], domain: NDArray[np.int64]) -> None:
        keys, group = np.unique(np.stack([domain, codes], 1), axis=0, return_inverse=True)
        group = group.ravel()
        rows = np.arange(X.shape[0])
        member = sp.csr_array((np.ones(X.shape[0]), (group, rows)), (len(keys), X.shape[0]))
        if sp.issparse(X):
            X = X.astype(np.float64, copy=False)
            sums, squares = _dense(member @ X), _dense(member @ X.multiply(X))
        else:
            X = np.subtract(X, self.shift, dtype=np.float64)
            sums = _dense(member @ X)
            squares = _dense(member @ np.square(X, out=None if self.grams else X))
        _check_finite(squares)
        counts = np.bincount(group, minlength=len(keys))
        for i, (dom, code) in enumerate(keys.tolist()):
            if (dom, code) in self.groups:
                held = self.groups[dom, code]
                held[0] += counts[i]
                held[1] += sums[i]
                held[2] += squares[i]
            else:
                self.groups[dom, code] = [int(counts[i]), sums[i].copy(), squares[i].copy()]
        if self.grams:
            self._add_grams(X, codes)

    def _add_grams(self, X: Any, codes: NDArray[np.int64]) -> None:
        slots = codes + 1 if self.per_class else (codes != UNLABELED).astype(np.int64)
        for slot in np.unique(slots):
            where = slots == slot
            rows = X if where.all() else X[np.flatnonzero(where)]
            self.grams[slot] = _add_gram(self.grams[slot], rows)

    def result(
        self, classes: NDArray[Any], feature_names: NDArray[Any] | None, *, last: bool
    ) -> Moments:
        """The statistics; with `last`, in the memory of the running sums, which then end."""
        keys = sorted(self.groups)
        for key in keys:
            _check_finite(self.groups[key][2])
        gram = gram_labelled = class_grams = None
        if self.grams:
            full = [mirror_lower(g) for g in self.grams]
            if self.per_class:
                class_grams = np.array(full[1:]).reshape(-1, *full[0].shape)
                gram_labelled = class_grams.sum(0)
            else:
                gram_labelled = full[1] if last else full[1].copy()
            gram = np.add(full[0], gram_labelled, out=full[0] if last else None)
        return Moments(
            classes,
            np.array([k[0] for k in keys], dtype=np.int64),
            np.array([k[1] for k in keys], dtype=np.int64),
            np.array([self.groups[k][0] for k in keys], dtype=np.float64),
            np.array([self.groups[k][1] for k in keys]),
            np.array([self.groups[k][2] for k in keys]),
            self.shift,
            gram,
            gram_labelled,
            class_grams,
            feature_names,
        )


class Accumulator:
    """Sums batches of rows whose labels are codes into known classes."""

    def __init__(
        self, n_features: int, n_classes: int, *, grams: bool = True, class_grams: bool = False
    ):
        self._size = (n_features, n_classes)
        self._options = (grams, class_grams)
        self._dense: _Part | None = None
        self._sparse: _Part | None = None

    def grow(self, n_classes: int) -> None:
        """Make room for classes that earlier batches did not have."""
        self._size = (self._size[0], n_classes)
        for part in (self._dense, self._sparse):
            if part is not None:
                part.grow(n_classes)

    @np.errstate(over="ignore", invalid="ignore")  # refused with a sentence instead
    def add(self, X: Any, codes: NDArray[np.int64], domain: NDArray[np.int64]) -> None:
        """Add a batch of float32 or float64 rows, dense or CSR."""
        d, n_classes = self._size
        if sp.issparse(X):
            if self._sparse is None:
                self._sparse = _Part(np.zeros(d), n_classes, *self._options)
            self._sparse.add(X, codes, domain)
            return
        if self._dense is None:
            shift = X.mean(0, dtype=np.float64) if len(X) else np.zeros(d)
            self._dense = _Part(shift, n_classes, *self._options)
        self._dense.add(X, codes, domain)

    def result(
        self,
        classes: NDArray[Any],
        feature_names: NDArray[Any] | None = None,
        *,
        last: bool = False,
    ) -> Moments:
        """The statistics of all batches so far; after the `last` one, nothing can be added."""
        both = (self._dense, self._sparse)
        parts = [p.result(classes, feature_names, last=last) for p in both if p]
        if not parts:
            raise ValueError("no rows: at least one batch is needed.")
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def accumulate(
    X: Any,
    classes: NDArray[Any],
    codes: NDArray[np.int64],
    domain: NDArray[np.int64],
    *,
    grams: bool = True,
    class_grams: bool = False,
    batch_size: int | None = None,
    feature_names: NDArray[Any] | None = None,
) -> Moments:
    """Statistics of checked rows with coded labels."""
    if not is_numpy(X):
        return _accumulate_elsewhere(X, classes, codes, domain, grams, class_grams, batch_size)
    total = Accumulator(X.shape[1], len(classes), grams=grams, class_grams=class_grams)
    for rows in batch_rows(X, batch_size):
        total.add(X[rows], codes[rows], domain[rows])
    return total.result(classes, feature_names, last=True)


def _accumulate_elsewhere(
    X: Any,
    classes: NDArray[Any],
    codes: NDArray[np.int64],
    domain: NDArray[np.int64],
    grams: bool,
    class_grams: bool,
    batch_size: int | None,
) -> Moments:
    """The same of rows of another library: the sums are where the rows are."""
    xp = namespace(X)
    keys, group = np.unique(np.stack([domain, codes], 1), axis=0, return_inverse=True)
    group, d = group.ravel(), X.shape[1]
    slots = codes + 1 if class_grams else (codes != UNLABELED).astype(np.int64)
    n_slots = (len(classes) + 1 if class_grams else 2) if grams else 0
    shift = xp.mean(float64(X), axis=0)
    sums, squares = (zeros((len(keys), d), X) for _ in range(2))
    held = [zeros((d, d), X) for _ in range(n_slots)]
    for rows in batch_rows(X, batch_size):
        Z = float64(X[rows, ...]) - shift
        member = beside(np.equal.outer(np.arange(len(keys)), group[rows]).astype(np.float64), X)
        sums += member @ Z
        squares += member @ Z**2
        for slot in np.unique(slots[rows]).tolist() if grams else []:
            where = np.flatnonzero(slots[rows] == slot)
            mine = Z if len(where) == Z.shape[0] else rows_at(Z, where)
            held[slot] += mine.T @ mine
    _check_finite(squares)
    gram = gram_labelled = per_class = None
    if grams:
        if class_grams:
            per_class = xp.stack(held[1:]) if held[1:] else zeros((0, d, d), X)
            gram_labelled = xp.sum(per_class, axis=0)
        else:
            gram_labelled = held[1]
        gram = held[0] + gram_labelled
    counts = np.bincount(group, minlength=len(keys)).astype(np.float64)
    given = (gram, gram_labelled, per_class)
    return Moments(classes, keys[:, 0], keys[:, 1], counts, sums, squares, shift, *given)


def from_arrays(
    X: Any, y: Any, sample_domain: Any, unlabeled: Any, class_grams: bool, batch_size: int | None
) -> Moments:
    """`Moments.from_arrays`: check, then accumulate."""
    names = None if is_followed(X) else _get_feature_names(X)
    check_unmasked(X)
    X = summed(check_array(detached(X), accept_sparse="csr", dtype=float_types(X)))
    domain = check_domains(sample_domain, X.shape[0], both=False)
    given = sample_domain is not None
    classes, codes = encode_labels(y, domain, unlabeled, given=given, whole=False)
    return accumulate(
        X,
        classes,
        codes,
        domain,
        class_grams=class_grams,
        batch_size=batch_size,
        feature_names=names,
    )


def _check_finite(squares: NDArray[np.float64]) -> None:
    xp = namespace(squares)
    if not bool(xp.all(xp.isfinite(squares))):
        raise ValueError(
            "the squares of X are too large for float64 (entries above about 1e150): divide X by "
            "its largest entry."
        )


def _dense(A: Any) -> Matrix:
    return np.asarray(A.toarray() if sp.issparse(A) else A, dtype=np.float64)


def _add_gram(gram: Matrix, X: Any) -> Matrix:
    """Gram += XᵀX, in its lower triangle."""
    if sp.issparse(X):
        # Stored as columns, entries of one place are summed: none is lost below.
        product = sp.tril(X.T @ X, format="csc").tocoo()
        gram[product.row, product.col] += product.data
        return gram
    return add_gram(gram, X.T)


# Raw rows: labels as the user has them, classes not known yet -------------------------------------


class Collector:
    """Adds up batches whose classes and domains become known as they come.

    Labels are coded in the order in which their values appear; `result` sorts them.

    Parameters
    ----------
    unlabeled : default=-1
        Mark of unlabelled target rows.
    class_grams : bool, default=False
        Keep a Gram per class.
    classes : array, default=None
        All label values that may come; others raise. None: any.
    start : Moments, default=None
        Statistics of earlier rows, which count as if they had come first.
    """

    def __init__(
        self,
        *,
        unlabeled: Any = -1,
        class_grams: bool = False,
        classes: Any = None,
        start: Moments | None = None,
    ):
        self.unlabeled = unlabeled
        self.class_grams = class_grams
        self.allowed = None if classes is None else np.unique(np.asarray(classes))
        self.start = start
        self.n_rows = 0 if start is None else start.n_rows
        self.feature_names: NDArray[Any] | None = None if start is None else start.feature_names
        self._total: Accumulator | None = None
        self._values = np.empty(0, dtype=np.int64)  # classes in order of appearance
        self._codes: dict[Any, int] = {}
        self._n_features = None if start is None else start.n_features
        self._mark_is_class = start is not None and holds_mark(start.classes, unlabeled)
        self.mark_is_mark = False

    def add(self, X: Any, y: Any = None, sample_domain: Any = None) -> None:
        """Check a batch and add it; y and sample_domain as in `Moments.from_arrays`."""
        if is_followed(X):
            raise TypeError(
                "batches are summed by numpy: give arrays of other libraries to "
                "Moments.from_arrays, and merge its results with +."
            )
        names = _get_feature_names(X)
        X = summed(check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32]))
        domain = check_domains(sample_domain, X.shape[0], both=False)
        self._check_columns(X, names)
        self.add_checked(X, y, domain, given=sample_domain is not None)

    def add_checked(self, X: Any, y: Any, domain: NDArray[np.int64], *, given: bool = True) -> None:
        """Add rows and domains that were checked (`given`: by the caller), labels as they are."""
        labels = self._encode(y, domain, given)
        if self._total is None:
            self._total = Accumulator(X.shape[1], len(self._values), class_grams=self.class_grams)
        self._total.grow(len(self._values))
        for rows in batch_rows(X):
            self._total.add(X[rows], labels[rows], domain[rows])
        self.n_rows += X.shape[0]

    def result(self, *, declared: bool = False) -> Moments:
        """The statistics of all batches so far; if `declared`, with the classes without a row."""
        if self._total is None:
            if self.start is None:
                raise ValueError("no rows: at least one batch is needed.")
            return self.start
        order = np.argsort(self._values, kind="stable")
        moments = self._total.result(self._values, self.feature_names)
        # Codes count in order of appearance: code c of `_values` is at place[c] once sorted.
        place = np.empty(len(order) + 1, dtype=np.int64)
        place[order], place[-1] = np.arange(len(order)), UNLABELED
        grams = None if moments.class_grams is None else moments.class_grams[order]
        moments = replace(
            moments,
            classes=self._values[order],
            labels=place[moments.labels],
            class_grams=grams,
        )
        moments = _sorted_groups(moments)
        if self.start is not None:
            moments = self.start + moments
        if declared and self.allowed is not None:
            moments = moments.recoded(merge_classes(moments.classes, self.allowed))
        return moments

    def _encode(self, y: Any, domain: NDArray[np.int64], given: bool) -> NDArray[np.int64]:
        """Codes of a batch's labels, in order of appearance over all batches."""
        labels = _encode_quietly(y, domain, self.unlabeled, given)
        self._check_mark(y, labels, domain)
        if self.allowed is not None:
            odd = np.setdiff1d(labels.classes, self.allowed)
            if odd.size:
                raise ValueError(
                    f"y has the label {odd.tolist()[0]!r}, which is not in classes: "
                    f"{self.allowed.tolist()}."
                )
        new = [v for v in labels.classes.tolist() if v not in self._codes]
        if new:
            fresh = labels.classes[[v in set(new) for v in labels.classes.tolist()]]
            merge_classes(self._values, fresh)  # raises if strings meet numbers
            self._values = np.concatenate([self._values, fresh]) if len(self._values) else fresh
            for value in new:
                self._codes[value] = len(self._codes)
        local = np.array([self._codes[v] for v in labels.classes.tolist()] + [UNLABELED])
        return local[labels.codes]

    def _check_mark(self, y: Any, labels: Labels, domain: NDArray[np.int64]) -> None:
        """The mark is a class in one batch and a mark in another: refuse, as one `fit` would."""
        if y is None:
            return
        values = np.asarray(y).ravel()
        hidden = (labels.codes == UNLABELED) & (domain < 0)
        none = is_marked(values, None)
        self.mark_is_mark |= bool((is_marked(values, self.unlabeled) & hidden & ~none).any())
        self._mark_is_class |= holds_mark(labels.classes, self.unlabeled)
        if self.mark_is_mark and self._mark_is_class:
            raise ValueError(
                f"the mark of unlabelled target rows, {self.unlabeled!r}, is also a class of "
                "other rows: mark them otherwise, with unlabeled=… (or NaN in float labels, None "
                "in object labels)."
            )

    def _check_columns(self, X: Any, names: NDArray[Any] | None) -> None:
        if self._n_features is None:
            self._n_features, self.feature_names = X.shape[1], names
        if X.shape[1] != self._n_features:
            raise ValueError(
                f"a batch has {X.shape[1]} columns, and the ones before have {self._n_features}."
            )
        if names is not None and self.feature_names is not None:
            differ = np.flatnonzero(names != self.feature_names)
            if differ.size:
                i = differ[0]
                raise ValueError(
                    f"column {i} of a batch is {names[i]!r}, and {self.feature_names[i]!r} in the "
                    "ones before."
                )


def from_batches(batches: Iterable[Any], *, unlabeled: Any, class_grams: bool) -> Moments:
    """`Moments.from_batches`."""
    total = Collector(unlabeled=unlabeled, class_grams=class_grams)
    for batch in batches:
        total.add(*(batch if isinstance(batch, tuple) else (batch,)))
    return total.result()


def _encode_quietly(y: Any, domain: NDArray[np.int64], mark: Any, given: bool) -> Labels:
    """`encode_labels`; that a small batch has many classes says nothing."""
    # scikit-learn warns above this share; warning filters are not safe among threads, so they are
    # touched only where it would.
    values = [] if y is None else np.asarray(y).ravel().tolist()
    if len(values) <= 20 or 2 * len(set(values)) < len(values) - 2:
        return encode_labels(y, domain, mark, given=given, whole=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")
        return encode_labels(y, domain, mark, given=given, whole=False)


def holds_mark(classes: NDArray[Any], mark: Any) -> bool:
    """Whether the mark of unlabelled rows is one of the classes."""
    return bool(len(classes)) and bool(is_marked(classes, mark).any())


def _sorted_groups(moments: Moments) -> Moments:
    order = np.lexsort((moments.labels, moments.domains))
    return replace(
        moments,
        domains=moments.domains[order],
        labels=moments.labels[order],
        counts=moments.counts[order],
        sums=moments.sums[order],
        squares=moments.squares[order],
    )


def is_dask(thing: Any) -> bool:
    """Whether this is a Dask collection; dask itself is not imported to tell."""
    return hasattr(type(thing), "__dask_graph__")
