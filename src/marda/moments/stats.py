"""`Moments`: counts, sums, squares and Grams of rows; frozen, and `+` merges them exactly.

All statistics are of x − shift, where `shift` is a reference point near the data. Raw sums of rows
far from the origin lose their digits (a variance is then a small difference of large numbers);
sums about a nearby point do not, and a change of the point is exact algebra.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyr2

from marda._arrays import (
    at_least_0,
    beside,
    copy,
    is_numpy,
    mirror_lower,
    namespace,
    place_of,
    rows_at,
    vstack,
    zeros,
)
from marda._validation import UNLABELED, check_class_weight

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of labelled and unlabelled rows of several domains.

    A *group* is the rows of one domain with one label (or none). Build with `from_arrays`, merge
    with `+`; the result does not depend on how the rows were split.

    Attributes
    ----------
    classes : array of shape (n_classes,)
        Label values, sorted.
    domains, labels : integer arrays of shape (n_groups,)
        Domain of a group (≥ 0 source, < 0 target); index into `classes`, or −1 if unlabelled.
    counts : array of shape (n_groups,)
        Rows per group.
    sums, squares : arrays of shape (n_groups, d)
        Σ(x − shift) and Σ(x − shift)², per group.
    shift : array of shape (d,)
        The reference point.
    gram, gram_labelled : arrays of shape (d, d), or None
        Σ(x − shift)(x − shift)ᵀ over all rows, and over labelled rows.
    class_grams : array of shape (n_classes, d, d), or None
        The same for the labelled rows of each class; only class weights need them.
    feature_names : array of str, or None
        Column names, if the rows had them.
    domain_names : dict of int to str
        Names of domains, where they have one; a merge goes by names, then by numbers.
    """

    classes: NDArray[Any]
    domains: NDArray[np.int64]
    labels: NDArray[np.int64]
    counts: Vector
    sums: Matrix
    squares: Matrix
    shift: Vector
    gram: Matrix | None = field(default=None, repr=False)
    gram_labelled: Matrix | None = field(default=None, repr=False)
    class_grams: Matrix | None = field(default=None, repr=False)
    feature_names: NDArray[Any] | None = field(default=None, repr=False)
    domain_names: Mapping[int, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any = None,
        sample_domain: Any = None,
        *,
        unlabeled: Any = -1,
        class_grams: bool = False,
        batch_size: int | None = None,
    ) -> Moments:
        """Statistics of rows, in one pass over batches.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, d)
            Rows.
        y : array of shape (n_rows,), default=None
            Labels; target rows may carry the mark `unlabeled`.
        sample_domain : array of int of shape (n_rows,), default=None
            At least 0 for a source, below 0 for a target.
        unlabeled : default=-1
            Mark of unlabelled target rows.
        class_grams : bool, default=False
            Keep a Gram per class as well (needed for `class_weight`).
        batch_size : int, default=None
            Rows per batch; None bounds the memory of a batch.

        Returns
        -------
        Moments
        """
        from marda.moments.accumulate import from_arrays

        return from_arrays(X, y, sample_domain, unlabeled, class_grams, batch_size)

    @classmethod
    def from_batches(
        cls, batches: Iterable[Any], *, unlabeled: Any = -1, class_grams: bool = False
    ) -> Moments:
        """Statistics of rows that come in batches, of which one is held at a time.

        Parameters
        ----------
        batches : iterable of X, (X, y) or (X, y, sample_domain)
            As in `from_arrays`; batches may differ in size, in storage (dense, sparse) and in the
            classes and domains that they have.
        unlabeled : default=-1
            Mark of unlabelled target rows.
        class_grams : bool, default=False
            Keep a Gram per class as well (needed for `class_weight`).

        Returns
        -------
        Moments
            Equal to `from_arrays` on all rows at once.
        """
        from marda.moments.accumulate import from_batches

        return from_batches(batches, unlabeled=unlabeled, class_grams=class_grams)

    def save(self, path: str | PathLike[str], *, min_group: int = 1) -> None:
        """Write a moments file: versioned, checksummed, no pickle (docs/learn/moments-files.md).

        Parameters
        ----------
        path : path
            The file appears under this name only when it is whole.
        min_group : int, default=1
            Refuse to write the statistics of a group (domain and class) of fewer rows.
        """
        from marda.moments.files import write

        write(self, path, min_group=min_group)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Moments:
        """Read a moments file; an error names the file and what is wrong with it.

        Parameters
        ----------
        path : path
            Written by `save`.

        Returns
        -------
        Moments
        """
        from marda.moments.files import load

        return load(path)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.shift.shape[0])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def select(self, where: NDArray[np.bool_]) -> tuple[float, Vector, Vector]:
        """Σ1, Σx and Σx² (raw, about the origin) over the groups of a mask."""
        return self.weighted(where.astype(np.float64))

    def weighted(self, weights: Vector) -> tuple[float, Vector, Vector]:
        """Σw, Σwx and Σwx² (raw) with one weight per group."""
        return self.about(zeros(self.n_features, self.shift), weights)

    def about(self, center: Vector, weights: Vector | None = None) -> tuple[float, Vector, Vector]:
        """Σw, Σw(x − center) and Σw(x − center)², with one weight per group.

        A column that is constant in these groups may round to a sum of squares just below zero.
        """
        w = np.ones(len(self.counts)) if weights is None else weights
        n = float(w @ self.counts)
        w = beside(w, self.sums)
        s, s2, c = w @ self.sums, w @ self.squares, self.shift - center
        return n, s + n * c, at_least_0(s2 + 2 * c * s + n * c**2)

    def row_groups(self, domain: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The group of each row, from its domain and the code of its label."""
        place = {pair: g for g, pair in enumerate(zip(self.domains, self.labels, strict=True))}
        return np.array([place[pair] for pair in zip(domain, codes, strict=True)], dtype=np.int64)

    def group_weights(self, class_weights: Vector) -> Vector:
        """One weight per group: that of its class, or 0 for unlabelled rows."""
        return np.append(class_weights, 0.0)[self.labels]  # UNLABELED = −1 is the last entry

    def means(self) -> Matrix:
        """Mean row of every group."""
        return self.shift + self.sums / beside(self.counts, self.sums)[:, None]

    def scatter(self, center: Vector, class_weights: Vector | None = None) -> Matrix:
        """Σ(x − center)(x − center)ᵀ over all rows; over weighted labelled rows with weights."""
        if class_weights is None:
            if self.gram is None:
                raise ValueError("these Moments were built without Grams.")
            return _recentre(
                self.gram,
                float(self.counts.sum()),
                namespace(self.sums).sum(self.sums, axis=0),
                center - self.shift,
            )
        weights = self.group_weights(class_weights)
        return _recentre(
            self._labelled_gram(class_weights),
            float(weights @ self.counts),
            beside(weights, self.sums) @ self.sums,
            center - self.shift,
        )

    def _labelled_gram(self, class_weights: Vector) -> Matrix:
        if np.all(class_weights == 1):
            if self.gram_labelled is None:
                raise ValueError("these Moments were built without Grams.")
            return self.gram_labelled
        if self.class_grams is None:
            raise ValueError(
                "class_weight needs one Gram per class, which these Moments do not have: "
                "build them with class_grams=True."
            )
        weights = beside(class_weights, self.class_grams)
        gram: Matrix = namespace(weights).tensordot(weights, self.class_grams, axes=1)
        return gram

    def shifted(self, shift: Vector) -> Moments:
        """The same statistics about another reference point."""
        step = shift - self.shift
        if not bool(namespace(step).any(step != 0)):
            return self
        n = beside(self.counts, step)[:, None]
        squares = at_least_0(self.squares - 2 * step * self.sums + n * step**2)
        labelled = self.labels != UNLABELED

        def moved(gram: Matrix | None, where: NDArray[np.bool_]) -> Matrix | None:
            if gram is None:
                return None
            n = float(self.counts[where].sum())
            sums = rows_at(self.sums, np.flatnonzero(where))
            return _recentre(gram, n, namespace(sums).sum(sums, axis=0), step)

        per_class = None
        if self.class_grams is not None:
            per_class = namespace(step).empty_like(self.class_grams)
            for c in range(len(self.classes)):
                per_class[c, ...] = moved(self.class_grams[c, ...], self.labels == c)
        return replace(
            self,
            shift=shift,
            sums=self.sums - n * step,
            squares=squares,
            gram=moved(self.gram, np.ones_like(labelled)),
            gram_labelled=moved(self.gram_labelled, labelled),
            class_grams=per_class,
        )

    def __add__(self, other: Moments) -> Moments:
        """The moments of the rows of both: merging. Named domains are matched by name."""
        if not isinstance(other, Moments):
            return NotImplemented
        _check_mergeable(self, other)
        if other.n_rows > self.n_rows:  # the larger part keeps its reference point
            return other + self
        classes = merge_classes(self.classes, other.classes)
        a, b = self.recoded(classes), other.shifted(self.shift).recoded(classes)
        (in_a, in_b), names = _renumber((m.domains.tolist(), m.domain_names) for m in (a, b))
        a, b = a._renumbered(in_a), b._renumbered(in_b)
        keys = np.stack(
            [np.concatenate([a.domains, b.domains]), np.concatenate([a.labels, b.labels])], 1
        )
        groups, inverse = np.unique(keys, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        merged: dict[str, Any] = {}
        for name in ("counts", "sums", "squares"):
            one, other_one = getattr(a, name), getattr(b, name)
            if not is_numpy(one):
                member = np.equal.outer(np.arange(len(groups)), inverse).astype(np.float64)
                merged[name] = beside(member, one) @ vstack([one, other_one])
                continue
            parts = np.concatenate([one, other_one])
            merged[name] = np.zeros((len(groups), *parts.shape[1:]))
            np.add.at(merged[name], inverse, parts)
        grams: dict[str, Any] = {
            name: None if getattr(a, name) is None else getattr(a, name) + getattr(b, name)
            for name in ("gram", "gram_labelled", "class_grams")
        }
        return Moments(
            classes,
            groups[:, 0],
            groups[:, 1],
            shift=a.shift,
            feature_names=b.feature_names if a.feature_names is None else a.feature_names,
            domain_names=names,
            **merged,
            **grams,
        )

    def recoded(self, classes: NDArray[Any]) -> Moments:
        """The same moments with labels as indices into a larger set of classes."""
        if len(classes) == len(self.classes):
            return self
        place = np.searchsorted(classes, self.classes)
        labels = self.labels.copy()
        known = labels != UNLABELED
        labels[known] = place[labels[known]]
        grams = None
        if self.class_grams is not None:
            grams = zeros((len(classes), *self.class_grams.shape[1:]), self.class_grams)
            for k, c in enumerate(place.tolist()):
                grams[c, ...] = self.class_grams[k, ...]
        return replace(self, classes=classes, labels=labels, class_grams=grams)

    def _renumbered(self, new: Mapping[int, int]) -> Moments:
        """The same moments with other numbers of domains."""
        return replace(self, domains=np.array([new[n] for n in self.domains.tolist()], np.int64))

    def class_weights(self, weight: str | Mapping[Any, float] | None) -> Vector:
        """One weight per class: 1, scikit-learn's "balanced" rule, or a dict."""
        check_class_weight(weight, self.classes)
        n_classes = len(self.classes)
        if weight is None:
            return np.ones(n_classes)
        if isinstance(weight, str):
            sizes = np.zeros(n_classes)
            known = self.labels != UNLABELED
            np.add.at(sizes, self.labels[known], self.counts[known])
            return np.asarray(sizes.sum() / (n_classes * sizes))
        return np.array([float(weight.get(c, 1.0)) for c in self.classes.tolist()])


def _recentre(gram: Matrix, n: float, total: Vector, step: Vector) -> Matrix:
    """Σ(z − step)(z − step)ᵀ from Σzzᵀ, n and Σz."""
    if not bool(namespace(step).any(step != 0)):
        return copy(gram)
    if not is_numpy(gram):
        change = step[:, None] * (total - n / 2 * step)
        return gram - change - change.T
    # A rank-two change of one triangle; a Gram is symmetric, so either order of it will do.
    moved = dsyr2(
        -1.0, step, total - n / 2 * step, a=gram.T.copy(order="F"), lower=1, overwrite_a=1
    )
    return mirror_lower(np.asarray(moved))


def merge_classes(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """All classes of both, sorted; text and numbers do not mix."""
    if not len(a) or not len(b):
        return a if len(a) else b
    kinds = {("text" if c.dtype.kind in "OUS" else "number") for c in (a, b)}
    if len(kinds) > 1:
        raise ValueError(
            f"labels differ in kind: {a[0]!r} and {b[0]!r}. Use strings or numbers, not both."
        )
    return np.unique(np.concatenate([a, b]))


def _check_mergeable(a: Moments, b: Moments) -> None:
    if place_of(a.shift) != place_of(b.shift):
        raise ValueError(
            "moments merge where they are: one of these is of {} on {}, the other of {} on "
            "{}.".format(*place_of(a.shift), *place_of(b.shift))
        )
    if a.n_features != b.n_features:
        raise ValueError(f"moments of {a.n_features} and of {b.n_features} features do not merge.")
    if a.feature_names is not None and b.feature_names is not None:
        differ = np.flatnonzero(a.feature_names != b.feature_names)
        if differ.size:
            i = differ[0]
            raise ValueError(
                "moments of different columns do not merge: column "
                f"{i} is {a.feature_names[i]!r} and {b.feature_names[i]!r}."
            )
    for name in ("gram", "gram_labelled", "class_grams"):
        if (getattr(a, name) is None) != (getattr(b, name) is None):
            raise ValueError(f"only one of the moments has {name}: build both alike.")


def _renumber(
    parts: Iterable[tuple[Iterable[int], Mapping[int, str]]],
) -> tuple[list[dict[int, int]], dict[int, str]]:
    """New numbers of the domains of several parts, and the names that go with them.

    A named domain is the same wherever its name and its side (source or target) are; a domain
    without a name keeps its number. The result does not depend on the order of the parts.

    Parameters
    ----------
    parts : pairs of (domain numbers, names of some of them)

    Returns
    -------
    new : list of dict
        For every part, old number → new number.
    names : dict of int to str
        Names of the new numbers.
    """
    held = [(list(numbers), dict(names)) for numbers, names in parts]
    taken = {n for numbers, names in held for n in numbers if n not in names}
    place: dict[tuple[bool, str], int] = {}
    for source in (True, False):
        wanted = sorted(
            {
                names[n]
                for numbers, names in held
                for n in numbers
                if n in names and (n >= 0) is source
            }
        )
        free = (n for n in (count(0) if source else count(-1, -1)) if n not in taken)
        place.update({(source, name): next(free) for name in wanted})
    new = [
        {n: place[n >= 0, names[n]] if n in names else n for n in numbers}
        for numbers, names in held
    ]
    return new, {number: name for (_, name), number in place.items()}
