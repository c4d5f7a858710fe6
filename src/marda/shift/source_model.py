"""A probabilistic model of the source's classes, judged on rows that it has not seen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from marda.shift.class_prior import TINY, Calibration, calibrate, mixed_folds
from marda.shift.distance import Features, leading_directions

__all__ = ["SourceModel", "fit_source_model"]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

N_FOLDS = 5
#: Inverse penalties of logistic regression on columns, and on columns and random features.
PENALTIES = ((0.02, 0.5), (0.05,))


@dataclass(frozen=True)
class SourceModel:
    """Logistic regression per fold, on columns or on columns and random features.

    Attributes
    ----------
    left_out : array of shape (n_source, n_classes)
        Probabilities of source rows, by the fold that has not seen them; not calibrated.
    calibration : Calibration
        Of `left_out`.
    """

    left_out: Array
    calibration: Calibration
    folds: tuple[Any, ...]
    directions: Array | None
    features: Features | None

    def by_fold(self, rows: Array) -> Array:
        """Probabilities of new rows by the model of each fold; not calibrated."""
        inputs = _inputs(rows, self.directions, self.features)
        return np.array([fold.predict_proba(inputs) for fold in self.folds])

    def __call__(self, rows: Array) -> Array:
        """Calibrated probabilities of new rows under the class prior of the source."""
        return self.calibration(mixed_folds(self.by_fold(rows)))


def fit_source_model(rows: Array, codes: Index, *, seed: int) -> SourceModel:
    """The candidate with the lowest log-loss on left-out rows.

    Parameters
    ----------
    rows : array of shape (n_rows, n_columns)
        Standardised source rows.
    codes : array of shape (n_rows,)
        Classes 0 … C − 1, two rows of each at least.
    seed : int
        Draws folds and features.

    Returns
    -------
    SourceModel
    """
    rng = np.random.default_rng(seed)
    directions = leading_directions(rows, rng)
    projected = rows if directions is None else rows @ directions
    n_folds = int(min(N_FOLDS, np.bincount(codes).min()))
    splits = list(StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(rows, codes))
    best: tuple[float, SourceModel] | None = None
    for features, penalties in zip((None, Features.draw(projected, rng)), PENALTIES, strict=True):
        inputs = _inputs(rows, directions, features)
        for penalty in penalties:
            left_out = np.empty((len(rows), int(codes.max()) + 1))
            folds = []
            for seen, held in splits:
                model = LogisticRegression(C=penalty, max_iter=100, tol=1e-2)
                with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                    folds.append(model.fit(inputs[seen], codes[seen]))
                left_out[held] = model.predict_proba(inputs[held])
            right = left_out[np.arange(len(rows)), codes]
            loss = -float(np.log(np.maximum(right, TINY)).mean())
            if best is None or loss < best[0]:
                calibration = calibrate(left_out, codes)
                found = SourceModel(left_out, calibration, tuple(folds), directions, features)
                best = loss, found
    assert best is not None
    return best[1]


def _inputs(rows: Array, directions: Array | None, features: Features | None) -> Array:
    rows = rows if directions is None else rows @ directions
    if features is None:
        return rows
    # Random features have squares of mean ½ per direction: here, in units of single columns.
    phi = features(rows).astype(np.float64)
    return np.hstack([rows, phi * np.sqrt(phi.shape[1])])
