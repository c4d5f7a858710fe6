"""One source → target task by the protocol of its data set.

Images: rows L2-normalised; every target row is both the unlabelled training set and the test
set (US); SUP and SS draw a few labelled target rows per class and test on the rest. Text with an
official split (AMT): learned on train rows, tested on the target's test rows; the labelled rows
of SUP and SS are drawn from the target's train rows. Learning may see the target's test rows
without their labels, in place of its train rows or beside them (transductive).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from marda.datasets.base import DataError, Dataset, Part, Rows, Setting, Task

# Saenko et al. 2010 and Gong et al. 2012: dslr has as few as 8 images of a class.
SOURCE_ROWS_PER_CLASS = 20
SOURCE_ROWS_OF = {"dslr": 8}

Unlabelled = Literal["train", "test", "both"]
"""Which target rows of an official split are seen without a label."""


def make_task(
    dataset: Dataset,
    source: str,
    target: str,
    setting: Setting = "US",
    *,
    labelled: int = 3,
    seed: int = 0,
    log_tf: bool = False,
    surf_l2: bool = True,
    unlabelled: Unlabelled = "train",
) -> Task:
    """Prepare one source → target task by the protocol of its data set.

    Parameters
    ----------
    dataset : Dataset
        As loaded.
    source, target : str
        Domains of it.
    setting : {"US", "SUP", "SS"}, default="US"
        No labelled target rows; only labelled target rows; both kinds.
    labelled : int, default=3
        Labelled target rows per class in SUP and SS.
    seed : int, default=0
        Seed of their draw; without effect in US.
    log_tf : bool, default=False
        For text, see `tfidf`. Frequencies are counted on source rows and on the target rows that
        US would see, in every setting, so that the features of SUP and SS are the same.
    surf_l2 : bool, default=True
        For SURF counts, see `surf_rows`.
    unlabelled : {"train", "test", "both"}, default="train"
        Target rows of an official split that are seen without a label: those for training, the
        very rows that are predicted (transductive), or both. Without such a split they are the
        rows that are predicted in any case, and this has no effect.

    Returns
    -------
    Task
        Rows in float64.
    """
    _check(dataset, source, target, setting)
    if unlabelled not in get_args(Unlabelled):
        raise DataError(f"unlabelled={unlabelled!r}: choose from train, test, both.")
    if setting == "US":
        labelled = seed = 0
    if dataset[target].train is None or dataset[source].train is None:
        unlabelled = "train"
    rows = _prepare(dataset, source, target, log_tf=log_tf, surf_l2=surf_l2, unlabelled=unlabelled)
    spec: dict[str, object] = {"protocol": "full", "labelled": labelled, "seed": seed}
    options = {"log_tf": log_tf, "surf_l2": surf_l2}
    chosen = _mark(rows.y_target, labelled, np.random.SeedSequence(seed))
    if unlabelled == "train":
        return _task(dataset, rows, chosen, setting, spec | options)
    rows, chosen = _with_test_rows(rows, chosen, keep_train=unlabelled == "both")
    return _task(dataset, rows, chosen, setting, spec | options | {"unlabelled": unlabelled})


def sampled_task(
    dataset: Dataset,
    source: str,
    target: str,
    setting: Setting = "SS",
    *,
    seed: int = 0,
    labelled: int = 3,
    surf_l2: bool = True,
) -> Task:
    """Prepare one draw of the sampling protocol of Saenko et al. 2010 and Gong et al. 2012.

    Rows are prepared on whole domains first; then 20 source rows per class (8 of dslr) and the
    labelled target rows are drawn. Accuracy is measured on the target rows that are not labelled.

    Parameters
    ----------
    dataset, source, target, setting, labelled, surf_l2 : as for `make_task`
        What is prepared, and how.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    Task
        Rows in float64.
    """
    _check(dataset, source, target, setting)
    labelled = 0 if setting == "US" else labelled
    number = SOURCE_ROWS_OF.get(source, SOURCE_ROWS_PER_CLASS)
    rows = _prepare(dataset, source, target, log_tf=False, surf_l2=surf_l2, unlabelled="train")
    source_seed, target_seed = np.random.SeedSequence(seed).spawn(2)
    kept = draw_per_class(rows.y_source, number, source_seed)
    rows = replace(rows, X_source=rows.X_source[kept], y_source=rows.y_source[kept])
    chosen = _mark(rows.y_target, labelled, target_seed)
    spec = {"protocol": "sampled", "labelled": labelled, "seed": seed}
    options = {"rows_a_class": number, "surf_l2": surf_l2}
    return _task(dataset, rows, chosen, setting, spec | options)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Rows after the protocol and before any draw; ``held_out`` where there is a split."""

    source: str
    target: str
    X_source: Rows
    y_source: NDArray[np.int64]
    X_target: Rows
    y_target: NDArray[np.int64]
    held_out: tuple[Rows, NDArray[np.int64]] | None


def _prepare(
    dataset: Dataset,
    source: str,
    target: str,
    *,
    log_tf: bool,
    surf_l2: bool,
    unlabelled: Unlabelled,
) -> _Prepared:
    """Take the rows of both domains through the protocol of the data set."""
    split = dataset[source].train is not None and dataset[target].train is not None
    side: Part = "train" if split else "all"
    X_source, y_source = dataset[source].part(side)
    X_target, y_target = dataset[target].part(side)
    X_test, y_test = dataset[target].part("test") if split else (X_target, y_target)
    if dataset.kind == "text":
        seen = {"train": [X_target], "test": [X_test], "both": [X_target, X_test]}[unlabelled]
        counted = sparse.vstack([X_source, *seen], format="csr")
        X_source, X_target, X_test = tfidf(counted, X_source, X_target, X_test, log_tf=log_tf)
    elif dataset.kind == "surf":
        X_source, X_target = surf_rows(X_source, l2=surf_l2), surf_rows(X_target, l2=surf_l2)
    elif dataset.kind == "image":
        X_source, X_target = l2_rows(X_source), l2_rows(X_target)
    held_out = (X_test, y_test) if split else None
    return _Prepared(source, target, X_source, y_source, X_target, y_target, held_out)


def _with_test_rows(
    rows: _Prepared, chosen: NDArray[np.bool_], *, keep_train: bool
) -> tuple[_Prepared, NDArray[np.bool_]]:
    """Let test rows be seen: beside all train rows, or beside the labelled ones alone."""
    assert rows.held_out is not None
    X_test, y_test = rows.held_out
    kept = np.ones_like(chosen) if keep_train else chosen
    stack = sparse.vstack if sparse.issparse(X_test) else np.vstack
    X_target = stack([rows.X_target[kept], X_test])
    if sparse.issparse(X_target):
        X_target = sparse.csr_matrix(X_target)
    marked = np.append(chosen[kept], np.zeros(len(y_test), dtype=bool))
    y_target = np.append(rows.y_target[kept], y_test)
    return replace(rows, X_target=X_target, y_target=y_target), marked


def _mark(y: NDArray[np.int64], k: int, seed: np.random.SeedSequence) -> NDArray[np.bool_]:
    """Mark k rows per class."""
    marked = np.zeros(len(y), dtype=bool)
    marked[draw_per_class(y, k, seed)] = True
    return marked


def _task(
    dataset: Dataset,
    rows: _Prepared,
    chosen: NDArray[np.bool_],
    setting: Setting,
    spec: Mapping[str, object],
) -> Task:
    """Choose what training sees and what is tested, by the setting."""
    X_target, y_target, labelled = rows.X_target, rows.y_target, chosen
    # Without a split the rows that are not labelled are the test set, in US all of them.
    X_test, y_test = rows.held_out or (X_target[~chosen], y_target[~chosen])
    if setting == "SUP":
        X_target, y_target, labelled = X_target[chosen], y_target[chosen], chosen[chosen]
    identity = [dataset.checksum, dataset.name, rows.source, rows.target, setting, spec]
    return Task(
        dataset=dataset.name,
        source=rows.source,
        target=rows.target,
        setting=setting,
        X_source=rows.X_source,
        y_source=rows.y_source,
        X_target=X_target,
        y_target=y_target,
        labelled=labelled,
        X_test=X_test,
        y_test=y_test,
        names=dataset.names,
        checksum=hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
    )


def _check(dataset: Dataset, source: str, target: str, setting: str) -> None:
    """Refuse a pair or a setting that makes no task."""
    if setting not in get_args(Setting):
        raise DataError(f"setting={setting!r}: choose from US, SUP, SS.")
    if source == target:
        raise DataError(f"source and target are both {source!r}: choose two domains.")
    for name in (source, target):
        _ = dataset[name]


# How the published experiments prepare and draw rows ----------------------------------------------


def l2_rows(X: Rows) -> Rows:
    """Divide every row by its Euclidean norm; rows of zeros stay.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (n, d)
        Rows.

    Returns
    -------
    ndarray or csr_matrix of float64
        A new array.
    """
    from sklearn.preprocessing import normalize

    return normalize(X.astype(np.float64), copy=False)


def surf_rows(X: Rows, *, l2: bool = True) -> NDArray[np.float64]:
    """Prepare SURF counts of one whole domain as Gong et al. 2012 do.

    Rows are divided by their sum, columns z-scored over the domain (population standard
    deviation; a constant column becomes 0), rows L2-normalised.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Counts of all rows of the domain.
    l2 : bool, default=True
        Whether to take the last step. Published figures for these files are without it.

    Returns
    -------
    ndarray of float64 of shape (n, d)
        Prepared rows.
    """
    from sklearn.preprocessing import normalize

    X = normalize((X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64), norm="l1")
    X -= X.mean(axis=0)
    deviation = np.sqrt(np.mean(X**2, axis=0))
    # A constant column leaves rounding noise after centring; it must not be blown up.
    constant = deviation <= 1e-12
    X[:, constant] = 0.0
    X /= np.where(constant, 1.0, deviation)
    rows: NDArray[np.float64] = l2_rows(X) if l2 else X
    return rows


def tfidf(fit_on: Rows, *others: Rows, log_tf: bool = False) -> tuple[Rows, ...]:
    """Weight counts by tf-idf with the frequencies of the training rows; rows L2-normalised.

    The weight of a word is ``tf · (1 + ln((1 + n) / (1 + df)))``.

    Parameters
    ----------
    fit_on : ndarray or csr_matrix of shape (n, d)
        Rows that n and df are counted on: all training rows of the task.
    *others : ndarray or csr_matrix
        Rows to weight.
    log_tf : bool, default=False
        Use ``ln(1 + tf)`` in place of tf.

    Returns
    -------
    tuple of csr_matrix
        One per matrix in ``others``.
    """
    from sklearn.feature_extraction.text import TfidfTransformer

    weights = TfidfTransformer().fit(sparse.csr_matrix(fit_on))
    counts = (sparse.csr_matrix(X) for X in others)
    return tuple(weights.transform(C.log1p() if log_tf else C) for C in counts)


def draw_per_class(
    y: NDArray[np.int64], k: int, seed: int | np.random.SeedSequence = 0
) -> NDArray[np.int64]:
    """Draw k rows of every class without replacement.

    A draw of fewer rows with the same seed is a part of a draw of more rows.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Class of every row.
    k : int
        Rows per class.
    seed : int or SeedSequence, default=0
        The same seed gives the same rows.

    Returns
    -------
    ndarray of int
        Row numbers, sorted.
    """
    if k < 0:
        raise DataError(f"k={k} rows per class: give 0 or more.")
    rng = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        if len(rows) < k:
            raise DataError(f"k={k} but class {label} has {len(rows)} rows: draw fewer.")
        chosen.append(rng.permutation(rows)[:k])
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)


def most_frequent(X: Rows, n: int) -> NDArray[np.int64]:
    """Return the columns used by most rows, in column order.

    Parameters
    ----------
    X : ndarray or csr_matrix of shape (rows, d)
        Counts.
    n : int
        How many columns; ties go to the earlier column.

    Returns
    -------
    ndarray of int
        Column numbers, sorted.
    """
    used = np.asarray((X != 0).sum(axis=0)).ravel()
    return np.sort(np.argsort(-used, kind="stable")[:n])
