"""Probabilities from scores: one temperature (math.md §14).

Probabilities are softmax(τ · scores). The sharpness τ, the inverse temperature, minimises the
log-loss of left-out source rows, weighted by how much like the target they are (`calibrate`).
Where models agree less on the target than on the source, the target is harder than any source row
shows: τ is then lowered until the mean confidence on the target is at most its expected accuracy
(`soften`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_softmax, softmax

from marda._order import seed_of
from marda.criteria import density_ratio, expected_calibration_error
from marda.selection.ensemble import Ensemble, Member, spread_of

__all__ = ["calibrate", "calibrate_ensemble", "importance", "soften"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

MAX_ROWS = 2000
MAX_DIMENSIONS = 50
#: Sharpness is searched between these powers of e.
BOUNDS = -3.0, 3.0
#: Powers of e by which probabilities may be softened: all classes are then about as likely.
SOFTEST = 7.0


def calibrate_ensemble(
    members: Sequence[Member],
    left_out: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], Matrix]],
    X: Any,
    domain: NDArray[np.int64],
    seed: int,
    expected: float | None = None,
) -> tuple[Ensemble, dict[str, float]]:
    """The members with the sharpness of their probabilities, and how it was found.

    Parameters
    ----------
    members : sequence of Member
        Domains are compared on the inputs of the first one.
    left_out : sequence of tuples
        Places, classes and scores of source rows that models had not seen; empty: no calibration.
    X, domain : arrays
        Rows of the fit, and their domains.
    seed : int
        Draws rows.
    expected : float, default=None
        Expected accuracy on the target, which the mean confidence there may not exceed.
    """
    frozen = tuple(member.frozen for member in members)
    if not left_out:
        return Ensemble(frozen), {}
    scores = np.sum([m.weight * m.on_target for m in members if m.on_target is not None], axis=0)
    unit = spread_of(scores)
    places = np.concatenate([part[0] for part in left_out])
    codes = np.concatenate([part[1] for part in left_out])
    S = np.vstack([part[2] - part[2].mean(1, keepdims=True) for part in left_out])
    S /= spread_of(S)
    weights = np.ones(len(places))
    if (domain < 0).any():
        rows = members[0].inputs.apply(X)
        source = np.unique(places)
        chosen, ratio = importance(rows[source], rows[domain < 0], seed)
        known = dict(zip(source[chosen].tolist(), ratio.tolist(), strict=True))
        weights = np.array([known.get(p, 0.0) for p in places.tolist()])
    found = calibrate(S, codes, weights)
    sharpness = found["sharpness"] / unit
    if expected is not None:
        sharpness = soften(scores, sharpness, expected)
        found["expected_accuracy"] = expected
        found["softened"] = sharpness * unit / found["sharpness"]
    return Ensemble(frozen, sharpness), found


def calibrate(scores: Matrix, codes: NDArray[np.int64], weights: Vector) -> dict[str, float]:
    """The sharpness τ of softmax(τ·scores) that gives held-out rows the least log-loss.

    Parameters
    ----------
    scores : array of shape (n_rows, n_classes)
        Of source rows, by models that had not seen them; in units of their spread.
    codes : array of shape (n_rows,)
        Their classes.
    weights : array of shape (n_rows,)
        How much like the target each row is.

    Returns
    -------
    dict
        "sharpness"; "ece_before" and "ece_after", the expected calibration error of softmax(scores)
        and after sharpening, on these weighted rows; "rows", their effective number.
    """
    w = weights / weights.sum()

    def loss(log_sharpness: float) -> float:
        log_p = log_softmax(np.exp(log_sharpness) * scores, axis=1)
        return float(-(w @ log_p[np.arange(len(codes)), codes]))

    found = minimize_scalar(loss, bounds=BOUNDS, method="bounded")
    sharpness = float(np.exp(found.x))
    return {
        "sharpness": sharpness,
        "ece_before": expected_calibration_error(softmax(scores, axis=1), codes, weights),
        "ece_after": expected_calibration_error(
            softmax(sharpness * scores, axis=1), codes, weights
        ),
        "rows": float(1 / (w**2).sum()),
    }


def soften(scores: Matrix, sharpness: float, expected: float) -> float:
    """At most `sharpness`, such that the mean confidence is at most the expected accuracy."""

    def excess(log_sharpness: float) -> float:
        P = softmax(np.exp(log_sharpness) * scores, axis=1)
        return float(P.max(1).mean()) - expected

    high = float(np.log(sharpness))
    low = high - SOFTEST
    if excess(high) <= 0:
        return sharpness
    if excess(low) >= 0:
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, high, xtol=1e-4)))


def importance(Xs: Any, Xt: Any, random_state: Any) -> tuple[NDArray[np.int64], Vector]:
    """A sample of source rows, and how much like the target each of them is.

    Rows are projected on the leading directions of both samples first: in many dimensions any two
    samples can be told apart, and the weights would rest on a handful of rows.
    """
    seed = seed_of(random_state)
    rng = np.random.RandomState(seed)
    picks = [
        np.sort(rng.permutation(X.shape[0])[:MAX_ROWS]) if X.shape[0] > MAX_ROWS else slice(None)
        for X in (Xs, Xt)
    ]
    chosen = np.arange(Xs.shape[0])[picks[0]]
    Fs, Ft = Xs[picks[0]], Xt[picks[1]]
    if min(Fs.shape[0], Ft.shape[0]) < 10:  # too few to tell domains apart
        return chosen, np.ones(len(chosen))
    if Fs.shape[1] > MAX_DIMENSIONS:
        both = sp.vstack([Fs, Ft]).tocsr() if sp.issparse(Fs) else np.vstack([Fs, Ft])
        projected = _leading(both, rng)
        Fs, Ft = projected[: len(chosen)], projected[len(chosen) :]
    elif sp.issparse(Fs):
        Fs, Ft = Fs.toarray(), Ft.toarray()
    return chosen, density_ratio(Fs, Ft, seed=seed)


def _leading(X: Any, rng: Any) -> Matrix:
    from sklearn.utils.extmath import randomized_svd

    n = min(MAX_DIMENSIONS, min(X.shape) - 1)
    U, values, _ = randomized_svd(X, n, n_iter=2, random_state=rng)
    return np.asarray(U * values, dtype=np.float64)
