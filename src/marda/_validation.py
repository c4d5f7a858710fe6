"""Checks of labels and domains; every message says what is wrong, what came and what to do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

__all__ = [
    "UNLABELED",
    "Labels",
    "check_domains",
    "check_number",
    "encode_labels",
    "is_marked",
    "summed",
]

UNLABELED = -1  # code of a row without a label


class Labels(NamedTuple):
    """Class values, and a code a row: an index into them, or UNLABELED."""

    classes: NDArray[Any]
    codes: NDArray[np.int64]


def check_number(name: str, value: Any, *, low: float = 0.0, strict: bool = False) -> float:
    """A finite real number that is at least `low` (above it if strict)."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}.") from None
    if not np.isfinite(number) or number < low or (strict and number == low):
        bound = "above" if strict else "at least"
        raise ValueError(f"{name} must be {bound} {low:g}, got {value!r}.")
    return number


def summed(X: Any) -> Any:
    """Checked rows; sparse ones with every entry stored once, in order.

    The entries of one place are its sum: a square root or a count must not see its parts. SciPy
    would also bring them together in the caller's own array.
    """
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_domains(sample_domain: Any, n_rows: int, *, both: bool = True) -> NDArray[np.int64]:
    """One integer a row; ≥ 0 is a source, < 0 a target. None: every row is of one source.

    A fit needs both kinds; statistics of a part of the rows do not.
    """
    if sample_domain is None:
        return np.ones(n_rows, dtype=np.int64)
    domain = np.asarray(column_or_1d(sample_domain))
    if domain.shape[0] != n_rows:
        raise ValueError(f"sample_domain has {domain.shape[0]} values but X has {n_rows} rows.")
    if domain.dtype.kind not in "iufb" or not np.all(np.mod(domain, 1) == 0):
        raise ValueError(
            "sample_domain must hold whole numbers (at least 0 for a source, below 0 for a "
            f"target), got {domain.dtype} values such as {domain[0]!r}."
        )
    domain = domain.astype(np.int64)
    for wanted, present, rule in (
        ("target", bool((domain < 0).any()), "below 0"),
        ("source", bool((domain >= 0).any()), "at least 0"),
    ):
        if both and not present:
            raise ValueError(
                f"sample_domain has no {wanted} rows (numbers {rule}): give rows of both "
                "domains, or leave sample_domain out to fit on one domain."
            )
    return domain


def _missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    """NaN in float labels, None or NaN in object labels."""
    if y.dtype.kind == "f":
        return np.asarray(np.isnan(y))
    if y.dtype.kind == "O":
        return np.array([_is_missing(v) for v in y], dtype=bool)
    return np.zeros(y.shape[0], dtype=bool)


def _is_missing(value: Any) -> bool:
    """None, NaN, or the NA of a table library (which refuses to be compared)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and bool(np.isnan(value))


def is_marked(y: NDArray[Any], mark: Any) -> NDArray[np.bool_]:
    """Rows that carry the mark, NaN or None: all of these say "no label"."""
    marked = _missing(y)
    if _is_missing(mark):
        return marked
    if y.dtype.kind == "O":
        known = zip(y, marked, strict=True)
        return np.array([gone or (type(v) is not bool and v == mark) for v, gone in known], bool)
    if y.dtype.kind in "US":
        return marked | (y == mark) if isinstance(mark, str) else marked
    return marked if isinstance(mark, str) else marked | (y == mark)


def encode_labels(y: Any, domain: NDArray[np.int64], mark: Any) -> Labels:
    """Class values and codes; only target rows may be unlabelled (api.md)."""
    if y is None:
        return Labels(np.empty(0, dtype=np.int64), np.full(domain.shape[0], UNLABELED))
    y = np.asarray(column_or_1d(y, warn=True))
    if y.shape[0] != domain.shape[0]:
        raise ValueError(f"y has {y.shape[0]} labels but X has {domain.shape[0]} rows.")
    target = domain < 0
    missing = _missing(y)
    if (missing & ~target).any():
        row = int(np.flatnonzero(missing & ~target)[0])
        raise ValueError(
            f"y has no label (NaN or None) for source row {row}: Input contains NaN. Only target "
            "rows may be unlabelled."
        )
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise ValueError("y contains infinity: labels must be finite.")
    marked = is_marked(y, mark)
    if missing.any() and (marked & ~target).any():
        marked = missing  # NaN or None marks here, so the mark is a label like any other
    elif (marked & target).any() and (marked & ~target).any():
        raise ValueError(
            f"the mark of unlabelled target rows, {mark!r}, is also a class of the source rows: "
            "mark them otherwise, with unlabeled=… (or NaN in float labels, None in object labels)."
        )
    unlabelled = marked & target
    known = y[~unlabelled]
    if known.dtype.kind == "O" and known.size:
        known = _plain(known)
    check_classification_targets(known)
    classes, inverse = np.unique(known, return_inverse=True)
    codes = np.full(y.shape[0], UNLABELED, dtype=np.int64)
    codes[~unlabelled] = inverse.ravel()
    return Labels(classes, codes)


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Object labels without their None: strings stay objects, numbers become numbers."""
    if all(isinstance(v, str) for v in y):
        return y
    if any(isinstance(v, str) for v in y):
        raise ValueError("y mixes strings with other labels: Unknown label type. Use one kind.")
    return np.array(y.tolist())
