"""Evidence in predicted probabilities alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp
from sklearn.utils import check_random_state

from marda._order import row_order

__all__ = [
    "entropy",
    "expected_calibration_error",
    "mutual_information",
    "soft_neighbourhood_density",
]

BLOCK_CELLS = 4_000_000  # similarities held at a time


def check_probabilities(P: Any) -> NDArray[np.float64]:
    """Rows of probabilities, as float64; they must be finite, not negative, and sum to one."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or 0 in P.shape:
        raise ValueError(
            f"P must hold one row of class probabilities a sample, got shape {P.shape}."
        )
    if not (P >= 0).all() or not np.allclose(P.sum(1), 1, atol=1e-4):
        raise ValueError(
            "P must hold probabilities (at least 0, rows that sum to 1), got values from "
            f"{P.min():.3g} to {P.max():.3g}: pass predict_proba, not scores."
        )
    return np.asarray(P)


def entropy(P: Any) -> float:
    """Mean entropy of predictions: 1/n Σᵢ −Σ_c P_ic log P_ic.

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Probabilities.

    Returns
    -------
    float
        0 (every row certain) to log n_classes (every row uniform).
    """
    return float(entr(check_probabilities(P)).sum(1).mean())


def mutual_information(P: Any) -> float:
    """Mutual information of row and predicted class: H(mean of P) − mean of H(P).

    Confident rows raise it and unequal classes lower it, so that one class for every row is worth
    nothing.

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Probabilities.

    Returns
    -------
    float
        0 (rows do not differ) to log n_classes.
    """
    P = check_probabilities(P)
    return float(entr(P.mean(0)).sum()) - entropy(P)


def soft_neighbourhood_density(
    P: Any, *, temperature: float = 0.05, max_rows: int = 5000, random_state: Any = 0
) -> float:
    """Mean entropy of each row's similarities to the others (Saito et al., 2021).

    Rows of P are L2-normalised; row i is a distribution over all j ≠ i, softmax(pᵢ·pⱼ/T). Dense
    clusters of like predictions give a high entropy. The value grows with log n: compare it on
    the same rows only.

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Probabilities.
    temperature : float, default=0.05
        T; the lower, the closer a neighbour must be to count.
    max_rows : int, default=5000
        Above it, a seeded sample of that many rows. Similarities are held in blocks.
    random_state : int, RandomState or None, default=0
        Draws the sample.

    Returns
    -------
    float
        0 to log(n − 1).
    """
    P = check_probabilities(P)
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature!r}.")
    if P.shape[0] > max_rows:
        rng = check_random_state(random_state)
        P = P[row_order(P)[np.sort(rng.choice(P.shape[0], max_rows, replace=False))]]
    n = P.shape[0]
    if n < 2:
        raise ValueError(f"soft neighbourhood density needs at least 2 rows, got {n}.")
    P = P / np.linalg.norm(P, axis=1, keepdims=True)
    step = max(1, BLOCK_CELLS // n)
    total = 0.0
    for start in range(0, n, step):
        S = P[start : start + step] @ P.T / temperature
        own = np.arange(S.shape[0])
        S[own, own + start] = -np.inf  # a row is not its own neighbour
        norm = logsumexp(S, axis=1)
        weights = np.exp(S - norm[:, None])
        S[own, own + start] = 0.0
        total += float((norm - (weights * S).sum(1)).sum())  # −Σ w log w
    return float(total / n)


def expected_calibration_error(P: Any, y: Any, weights: Any = None, *, n_bins: int = 15) -> float:
    """Mean gap between confidence and accuracy, over bins of equal width.

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Probabilities.
    y : array of int of shape (n_rows,)
        Column of P that is right, for each row.
    weights : array of shape (n_rows,), default=None
        Importance of rows.
    n_bins : int, default=15
        Bins of confidence in [0, 1].

    Returns
    -------
    float
        0 (calibrated) to 1.
    """
    P = check_probabilities(P)
    codes = np.asarray(y)
    n = P.shape[0]
    if codes.shape != (n,) or codes.dtype.kind not in "iu":
        raise ValueError(
            f"y must hold one column number of P a row ({n} whole numbers), got "
            f"{codes.dtype} of shape {codes.shape}."
        )
    if codes.min() < 0 or codes.max() >= P.shape[1]:
        raise ValueError(
            f"y must lie between 0 and {P.shape[1] - 1}, the columns of P, got "
            f"{codes.min()} to {codes.max()}."
        )
    w = np.ones(n) if weights is None else check_weights(weights, n)
    confidence = P.max(1)
    gap = w * ((P.argmax(1) == codes) - confidence)
    # A confidence on an edge belongs to the bin below it, as 1.0 does to the last.
    place = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    return float(np.abs(np.bincount(place, gap, minlength=n_bins)).sum() / w.sum())


def check_weights(weights: Any, n: int) -> NDArray[np.float64]:
    """Finite weights, none below 0, one above it."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"weights must hold one value a row ({n}), got shape {w.shape}.")
    if not np.isfinite(w).all() or w.min() < 0 or w.max() == 0:
        raise ValueError(
            "weights must be finite, at least 0 and not all 0, got values from "
            f"{w.min():.3g} to {w.max():.3g}."
        )
    return w
