"""`pack` and `paper_settings`: from the user's arrays to `fit`, and the paper's own settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._validation import check_indexes, is_marked


def pack(
    Xs: Any, ys: Any, Xt: Any, yt: Any = None, *, unlabeled: Any = -1
) -> tuple[Any, NDArray[Any], NDArray[np.int64]]:
    """Put source and target rows together.

    Parameters
    ----------
    Xs, ys : array and labels, or lists of them
        Source rows and labels; lists give several sources.
    Xt : array or list of arrays
        Target rows.
    yt : array, list of arrays, or None
        Target labels; may hold a few labels, the rest marked. None: no target label is known.
    unlabeled : default=-1
        The mark in `yt`. If it is also a source label, unlabelled rows of the result are marked
        with NaN (numbers) or None (other labels).

    Returns
    -------
    X : array or CSR array
        Source rows, then target rows.
    y : array
        Labels; unlabelled target rows carry the mark.
    sample_domain : array of int
        1, 2, … for sources, then −3, −4, … for targets (−2 after one source), as skada numbers.

    Examples
    --------
    >>> import numpy as np
    >>> X, y, sample_domain = pack(np.eye(2), [0, 1], np.ones((2, 2)))
    >>> y, sample_domain
    (array([ 0,  1, -1, -1]), array([ 1,  1, -2, -2]))
    """
    sources = Xs if isinstance(Xs, list | tuple) and _holds_arrays(Xs) else [Xs]
    targets = Xt if isinstance(Xt, list | tuple) and _holds_arrays(Xt) else [Xt]
    source_labels = list(ys) if len(sources) > 1 or sources is Xs else [ys]
    target_labels = (
        [None] * len(targets)
        if yt is None
        else (list(yt) if len(targets) > 1 or targets is Xt else [yt])
    )
    if len(source_labels) != len(sources) or len(target_labels) != len(targets):
        raise ValueError(
            f"{len(sources)} sources with {len(source_labels)} label arrays and {len(targets)} "
            f"targets with {len(target_labels)}: give one label array for each."
        )
    blocks = [*sources, *targets]
    for rows, labels in zip(blocks, [*source_labels, *target_labels], strict=True):
        check_indexes(rows=rows, labels=labels)
    lengths = [b.shape[0] if hasattr(b, "shape") else len(b) for b in blocks]
    known = [np.asarray(labels) for labels in source_labels]
    for k, (labels, n) in enumerate(zip(known, lengths, strict=False)):
        _check_source_labels(k, labels, n, unlabeled)
    mark = _mark(known, unlabeled)
    y: list[NDArray[Any]] = list(known)
    for given, n in zip(target_labels, lengths[len(sources) :], strict=True):
        y.append(_target_labels(given, n, unlabeled, mark))
    signs = [1] * len(sources) + [-1] * len(targets)
    numbers = [sign * k for k, sign in enumerate(signs, 1)]
    domain = [np.full(n, k, dtype=np.int64) for k, n in zip(numbers, lengths, strict=True)]
    return _stack(blocks), _join(y), np.concatenate(domain)


def _holds_arrays(items: Any) -> bool:
    """A list of arrays is several domains; a list of rows is one."""
    return len(items) > 0 and all(hasattr(x, "shape") and len(x.shape) == 2 for x in items)


def _check_source_labels(k: int, labels: NDArray[Any], n: int, unlabeled: Any) -> None:
    """One label per row, and all of them known."""
    order = "pack(Xs, ys, Xt): source rows, their labels, target rows"
    if labels.ndim != 1:
        raise ValueError(f"source {k} has labels of shape {labels.shape}, not ({n},): {order}.")
    if labels.shape[0] != n:
        raise ValueError(f"source {k} has {n} rows but {labels.shape[0]} labels: {order}.")
    if is_marked(labels, None).any() or (n and is_marked(labels, unlabeled).all()):
        raise ValueError(
            f"source {k} has rows without a label, which only target rows may be: did you swap "
            f"source and target? {order}."
        )


def _mark(known: list[NDArray[Any]], unlabeled: Any) -> Any:
    """The mark to use: the given one, unless it is a source label or cannot stand beside them."""
    text = any(labels.dtype.kind in "OUS" for labels in known)
    if text:
        return unlabeled if isinstance(unlabeled, str) else None
    clash = any(bool((labels == unlabeled).any()) for labels in known)
    return np.nan if clash or unlabeled is None else unlabeled


def _target_labels(labels: Any, n: int, unlabeled: Any, mark: Any) -> NDArray[Any]:
    if labels is None:
        kind = object if mark is None else None
        return np.full(n, mark, dtype=kind)
    labels = np.array(labels)
    if labels.shape != (n,):
        found = len(labels) if labels.ndim == 1 else f"a table of {labels.shape}"
        raise ValueError(f"the target has {n} rows but {found} labels.")
    missing = is_marked(labels, unlabeled)
    # A mark that is a source label too means the label: only NaN and None are marks then.
    if mark is not unlabeled and not (isinstance(mark, float) and mark == unlabeled):
        missing = is_marked(labels, None)
    if not missing.any():
        return np.asarray(labels)
    if mark is None:
        labels = labels.astype(object)
    elif isinstance(mark, float) and np.isnan(mark):
        labels = labels.astype(np.float64)
    labels[missing] = mark
    return np.asarray(labels)


def _join(parts: list[NDArray[Any]]) -> NDArray[Any]:
    text = {p.dtype.kind in "US" for p in parts if len(p) and p.dtype.kind != "O"}
    if len(text) > 1:
        raise ValueError(
            "some labels are text and others are numbers: give labels of one kind, such as "
            "yt.astype(ys.dtype)."
        )
    if any(p.dtype.kind == "O" for p in parts):
        parts = [p.astype(object) for p in parts]
    return np.concatenate(parts)


def _stack(blocks: list[Any]) -> Any:
    if any(sp.issparse(b) for b in blocks):
        return sp.csr_array(sp.vstack([sp.csr_array(b) for b in blocks]))
    if all(hasattr(b, "columns") for b in blocks):
        first = list(blocks[0].columns)
        for block in blocks[1:]:
            if set(block.columns) != set(first):
                raise ValueError("source and target tables have different columns.")
        import pandas as pd

        same = [b if list(b.columns) == first else b[first] for b in blocks]
        return pd.concat(same, ignore_index=True)
    arrays = [np.asarray(b) for b in blocks]
    widths = {a.shape[1:] for a in arrays}
    if len(widths) > 1:
        raise ValueError(f"source and target rows differ in length: {sorted(widths)}.")
    return np.concatenate(arrays)


def paper_settings(kind: str) -> dict[str, Any]:
    """Keyword arguments of the paper's own experiments.

    Parameters
    ----------
    kind : {"image", "text"}
        Noise is 0.5 for images and 0.9 for text; all else is the same.

    Returns
    -------
    dict
        For `MDA` and `MDAClassifier`.
    """
    noise = {"image": 0.5, "text": 0.9}
    if kind not in noise:
        raise ValueError(f"paper_settings knows 'image' and 'text', got {kind!r}.")
    return {
        "noise": noise[kind],
        "ridge": 1e-2,
        "ridge_class": 1.0,
        "ridge_domain": 1.0,
        "class_loss_weight": 1.0,
        "domain_loss_weight": 1.0,
        "marginalization": "paper",
        "scaling": "paper",
        "fit_intercept": False,
        "max_iter": 10,
    }
