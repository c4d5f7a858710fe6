"""How good predictions are by labels of the target: next to what was expected, and to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from marda._machine import counted
from marda.criteria import confidence_bins
from marda.diagnostics.intervals import (
    Interval,
    gain_right,
    holm,
    percent,
    percentile_interval,
    wilson,
)
from marda.io import InputError
from marda.io.table import as_numbers, as_texts, is_missing, some_names

N_BINS = 10
DRAWS = 2000
#: Of differences between methods.
LEVEL = 0.05


@dataclass(frozen=True)
class Bin:
    """Rows about as sure as each other: how sure, and the share that is right."""

    low: float
    high: float
    n_rows: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class OfClass:
    """One class: its rows, those that were predicted so, recall with its interval, precision."""

    name: Any
    n_rows: int
    n_predicted: int
    recall: Interval | None
    precision: float | None


@dataclass(frozen=True)
class Evaluated:
    """How good a model is on labelled rows.

    Attributes
    ----------
    n_rows, n_unlabelled : int
        Rows with a label, which everything else is about, and rows without.
    unknown : dict
        Labels that are no class of the model, and their rows: these are counted as wrong.
    accuracy, balanced_accuracy : Interval
        Share of right rows (Wilson's 95 % interval), and mean recall over the classes that are
        there (bootstrap).
    confidence, calibration_error : float
        Mean probability of the predicted classes, and the mean gap between it and the accuracy
        over ten bins of confidence.
    bins : tuple of Bin
        These bins, where there are rows.
    classes : tuple of OfClass
        Per class of the model.
    confusion : array of shape (n_classes + n_unknown, n_classes)
        Rows by true and predicted class; labels that are no class come last.
    expected : dict
        What had been expected at the fit: "accuracy", "interval" (90 %), "can_tell" and "reason";
        empty where nothing had been.
    learned_here : bool
        Whether the model learned from labels of the target, which these rows may be.
    """

    n_rows: int
    n_unlabelled: int
    unknown: dict[Any, int]
    accuracy: Interval
    balanced_accuracy: Interval
    confidence: float
    calibration_error: float
    bins: tuple[Bin, ...]
    classes: tuple[OfClass, ...]
    confusion: NDArray[np.int64]
    expected: dict[str, Any]
    learned_here: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    file: str | None = None

    @property
    def commonest(self) -> float:
        """Accuracy of naming the commonest class of these rows every time."""
        return float(self.confusion.sum(1).max() / self.n_rows)

    @property
    def outcome(self) -> str:
        """As expected, or not: "within", "below?", "above?" (it may be chance), "below", "above".

        "unknown" where nothing had been expected.
        """
        if "interval" not in self.expected:
            return "unknown"
        low, high = self.expected["interval"]
        seen = self.accuracy
        if low <= seen.value <= high:
            return "within"
        if seen.value < low:
            return "below" if seen.high < low else "below?"
        return "above" if seen.low > high else "above?"

    def sentence(self) -> str:
        """Whether reality is what had been expected, in plain English."""
        seen = percent(self.accuracy.value)
        if self.outcome == "unknown":
            return f"{seen} of {counted(self.n_rows, 'row')} are right; nothing had been expected."
        low, high = (f"{bound:.0%}" for bound in self.expected["interval"])
        between = f"the expected interval, {low} to {high}"
        if self.outcome == "within" and not self.expected["can_tell"]:
            return (
                f"{seen} of {counted(self.n_rows, 'row')} are right; beforehand it could not be "
                f"told, {low} to {high} were possible."
            )
        if self.outcome == "within":
            return f"As expected: {seen} of the rows are right, within {between}."
        side = self.outcome.removesuffix("?")
        if side == "above" and self.learned_here:
            return (
                f"{seen} of the rows are right, {side} {between}. The model learned from labels of "
                "the target: rows that it learned from do not tell how good it is."
            )
        if self.outcome.endswith("?"):
            return (
                f"{seen} of the rows are right, {side} {between}; with {self.n_rows:,} labels "
                "that may be chance."
            )
        what = {"below": "Worse", "above": "Better"}[side]
        more = " Adapt again with these labels." if side == "below" else ""
        return f"{what} than expected: {seen} of the rows are right, {side} {between}.{more}"

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "command": "evaluate",
            "rows": self.n_rows,
            "unlabelled": self.n_unlabelled,
            "unknown_labels": {str(name): n for name, n in self.unknown.items()},
            "sentence": self.sentence(),
            "outcome": self.outcome,
            "accuracy": _bounds(self.accuracy),
            "balanced_accuracy": _bounds(self.balanced_accuracy),
            "commonest_class": self.commonest,
            "expected": self.expected,
            "calibration": {
                "confidence": self.confidence,
                "error": self.calibration_error,
                "bins": [vars(one) for one in self.bins],
            },
            "classes": [
                {
                    **vars(one),
                    "recall": None if one.recall is None else _bounds(one.recall),
                }
                for one in self.classes
            ],
            "confusion": self.confusion.tolist(),
            "notes": list(self.notes),
            "files": [] if self.file is None else [self.file],
            "seconds": round(self.seconds, 3),
        }


def label_codes(
    values: NDArray[Any], classes: NDArray[Any], where: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_], dict[Any, int]]:
    """Places of labels among the classes, those of unknown ones behind; and which rows have one."""
    numbers = as_numbers(values) if classes.dtype.kind in "iufb" else None
    labels = as_texts(values) if numbers is None else numbers
    known = ~is_missing(labels)
    if not known.any():
        raise InputError(f"{where} has no labels: fill some in.")
    given = labels[known].tolist()
    own = classes.astype(np.float64) if numbers is not None else classes.astype(str)
    place = {name: k for k, name in enumerate(own.tolist())}
    others = sorted({value for value in given if value not in place})
    shown = [int(v) if isinstance(v, float) and v.is_integer() else v for v in others]
    place |= {value: len(classes) + k for k, value in enumerate(others)}
    codes = np.array([place[value] for value in given], dtype=np.int64)
    if (codes >= len(classes)).all():
        raise InputError(
            f"{where} holds no class of the model: got {some_names(shown)}; its classes are "
            f"{some_names(classes.tolist())}."
        )
    counts = np.bincount(codes, minlength=len(place))[len(classes) :]
    return codes, known, dict(zip(shown, counts.tolist(), strict=True))


def evaluation(
    guessed: NDArray[np.int64],
    P: NDArray[np.float64],
    codes: NDArray[np.int64],
    classes: NDArray[Any],
    *,
    unknown: dict[Any, int] | None = None,
    n_unlabelled: int = 0,
    calibration: dict[str, Any] | None = None,
) -> Evaluated:
    """All figures of labelled rows.

    Parameters
    ----------
    guessed, codes : arrays of int of shape (n_rows,)
        Predicted and true classes, as places in `classes`; true ones may lie behind these.
    P : array of shape (n_rows, n_classes)
        Probabilities.
    classes : array of shape (n_classes,)
        Label values of the model.
    unknown : dict, default=None
        Labels that are no class, in the order of their codes, and their rows.
    n_unlabelled : int, default=0
        Rows that were left out.
    calibration : dict, default=None
        ``calibration_`` of the model, which holds what it had expected.
    """
    unknown = unknown or {}
    n, C = len(codes), len(classes)
    right = guessed == codes
    cells = np.bincount(codes * C + guessed, minlength=(C + len(unknown)) * C)
    confusion = cells.reshape(-1, C)
    drawn = np.random.default_rng(0).multinomial(n, cells / n, DRAWS)
    balanced = _balanced(confusion[None])[0]
    confidence = P[np.arange(n), guessed]
    place = confidence_bins(confidence, N_BINS)
    bins = tuple(
        Bin(
            k / N_BINS,
            (k + 1) / N_BINS,
            int((place == k).sum()),
            float(confidence[place == k].mean()),
            float(right[place == k].mean()),
        )
        for k in np.unique(place).tolist()
    )
    sizes, predicted, hits = confusion.sum(1), confusion.sum(0), np.diag(confusion)
    return Evaluated(
        n_rows=n,
        unknown=unknown,
        accuracy=wilson(int(right.sum()), n),
        balanced_accuracy=percentile_interval(
            float(balanced), _balanced(drawn.reshape(DRAWS, *confusion.shape))
        ),
        confidence=float(confidence.mean()),
        calibration_error=float(sum(b.n_rows * abs(b.accuracy - b.confidence) for b in bins) / n),
        bins=bins,
        classes=tuple(
            OfClass(
                classes[k].item() if hasattr(classes[k], "item") else classes[k],
                int(sizes[k]),
                int(predicted[k]),
                wilson(int(hits[k]), int(sizes[k])) if sizes[k] else None,
                float(hits[k] / predicted[k]) if predicted[k] else None,
            )
            for k in range(C)
        ),
        confusion=confusion,
        n_unlabelled=n_unlabelled,
        expected=_expected(calibration or {}),
    )


def _balanced(confusions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean recall over the classes that are there, per confusion matrix; unknown ones have 0."""
    sizes = confusions.sum(2)
    hits = np.zeros(sizes.shape)
    C = confusions.shape[2]
    hits[:, :C] = confusions[:, np.arange(C), np.arange(C)]
    recall = np.divide(hits, sizes, out=np.zeros(sizes.shape), where=sizes > 0)
    return np.asarray(recall.sum(1) / (sizes > 0).sum(1))


def _expected(calibration: dict[str, Any]) -> dict[str, Any]:
    """What the model had expected of its target rows."""
    if "expected_interval" not in calibration:
        return {}
    return {
        "accuracy": float(calibration["expected_accuracy"]),
        "interval": [float(bound) for bound in calibration["expected_interval"]],
        "can_tell": bool(calibration.get("can_tell", True)),
        "reason": str(calibration.get("reason", "")),
    }


def _bounds(value: Interval) -> list[float]:
    return [value.value, value.low, value.high]


# Method against method ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two methods on the same rows: accuracy of a − b, exact McNemar p, after Holm's correction."""

    a: str
    b: str
    difference: Interval
    p_value: float
    significant: bool


def mcnemar(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Exact two-sided p-value: rows that only one gets right are split evenly by chance."""
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    if only_a + only_b == 0:
        return 1.0
    return float(binomtest(only_a, only_a + only_b).pvalue)


def pairs_of(methods: Sequence[str], right: list[NDArray[np.bool_]]) -> tuple[Pair, ...]:
    """All pairs; Holm's correction, since many pairs find a difference by chance."""
    places = list(combinations(range(len(methods)), 2))
    p_values = [mcnemar(right[i], right[j]) for i, j in places]
    return tuple(
        Pair(
            methods[i],
            methods[j],
            gain_right(right[i], right[j]),
            p,
            p < LEVEL,
        )
        for (i, j), p in zip(places, holm(p_values), strict=True)
    )
