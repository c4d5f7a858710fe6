"""Label-free evidence on a classifier for the target: pure functions of predictions and rows.

Nothing here reads a target label. Each function returns the quantity in its own units; the
scorers of `marda.selection` turn it so that higher is better.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from scipy.special import entr, logsumexp
from sklearn.utils import check_random_state

from marda._arrays import add_to_diagonal, largest
from marda._order import row_order, sample_rows, stack_rows

BLOCK_CELLS = 4_000_000  # similarities held at a time
BLOCK_MEMORY = 32  # MiB of distances at a time
#: Rows so many times further from 0 than from one another lose a third of their digits in squares.
FAR = 1e3


# Predicted probabilities alone --------------------------------------------------------------------


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
            f"y must hold one column number of P per row ({n} whole numbers), got "
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
    place = confidence_bins(confidence, n_bins)
    return float(np.abs(np.bincount(place, gap, minlength=n_bins)).sum() / w.sum())


def confidence_bins(confidence: NDArray[np.float64], n_bins: int = 15) -> NDArray[np.int64]:
    """Bins of equal width; a confidence on an edge belongs to the bin below it."""
    return np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)


def check_probabilities(P: Any) -> NDArray[np.float64]:
    """Rows of probabilities, as float64; they must be finite, not negative, and sum to one."""
    P = np.asarray(P, dtype=np.float64)
    if P.ndim != 2 or 0 in P.shape:
        raise ValueError(
            f"P must hold one row of class probabilities per sample, got shape {P.shape}."
        )
    if not (P >= 0).all() or not np.allclose(P.sum(1), 1, atol=1e-4):
        raise ValueError(
            "P must hold probabilities (at least 0, rows that sum to 1), got values from "
            f"{P.min():.3g} to {P.max():.3g}: pass predict_proba, not scores."
        )
    return np.asarray(P)


def check_weights(weights: Any, n: int) -> NDArray[np.float64]:
    """Finite weights, none below 0, one above it."""
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,):
        raise ValueError(f"weights must hold one value per row ({n}), got shape {w.shape}.")
    if not np.isfinite(w).all() or w.min() < 0 or w.max() == 0:
        raise ValueError(
            "weights must be finite, at least 0 and not all 0, got values from "
            f"{w.min():.3g} to {w.max():.3g}."
        )
    return w


# Do rows that lie close together get the same label? ----------------------------------------------


class Neighbours(NamedTuple):
    """The rows that were looked at (all of them, or a sample), and neighbours among them."""

    rows: NDArray[np.int64]
    nearest: NDArray[np.int64]


class Agreement(NamedTuple):
    """Chance-corrected agreement and its standard error over rows."""

    value: float
    standard_error: float


def nearest_neighbours(
    F: Any, k: int = 10, *, max_rows: int = 5000, random_state: Any = 0
) -> Neighbours:
    """The k nearest other rows of each row, in Euclidean distance.

    Parameters
    ----------
    F : array or CSR array of shape (n_rows, n_features)
        Features that do not depend on what is compared.
    k : int, default=10
        Neighbours per row.
    max_rows : int, default=5000
        Above it, a seeded sample of that many rows, whatever their order is.
    random_state : int, RandomState or None, default=0
        Draws the sample.

    Returns
    -------
    Neighbours
        Take it once and use it for many labellings.
    """
    from sklearn.neighbors import NearestNeighbors

    n = F.shape[0]
    rows = row_order(F)
    if n > max_rows:
        rows = rows[np.sort(check_random_state(random_state).choice(n, max_rows, replace=False))]
    F = F[rows]
    F = F - far_level(F) if not sp.issparse(F) else F
    if not 1 <= k < len(rows):
        raise ValueError(
            f"k={k} neighbours need more than {k} rows, got {len(rows)}: lower k (at least 1)."
        )
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(F)
    # Without rows of its own, kneighbors leaves each row out of its neighbours. Distances are
    # taken in blocks: of dense rows always, of sparse rows within this memory.
    with sklearn.config_context(working_memory=BLOCK_MEMORY):
        nearest = np.asarray(search.kneighbors(return_distance=False))
    # Back to the order in which rows came; ties were broken in their own.
    back = np.argsort(rows)
    place = np.empty_like(back)
    place[back] = np.arange(len(back))
    return Neighbours(rows[back], place[nearest[back]])


def far_level(F: Any) -> Any:
    """Mean of dense rows that lie far from 0, else 0.

    Distances are differences of sums of squares, which lose digits of rows far from 0. Others stay
    as they are: ties between whole numbers are not broken by rounding.
    """
    mean, spread = F.mean(0, dtype=np.float64), F.std(0, dtype=np.float64)
    far = float(np.linalg.norm(mean)) > FAR * float(np.linalg.norm(spread))
    return mean if far else 0.0


def most_similar(S: NDArray[Any], k: int = 10) -> Neighbours:
    """The k other rows that are most similar to each row.

    Parameters
    ----------
    S : array of shape (n_rows, n_rows)
        Similarities of rows, which stand in an order of their own; overwritten.
    k : int, default=10
        Neighbours per row.

    Returns
    -------
    Neighbours
    """
    S = add_to_diagonal(S, -np.inf)
    return Neighbours(np.arange(S.shape[0]), largest(S, k))


def label_agreement(neighbours: Neighbours, labels: Any) -> Agreement:
    """(a − Σ π_c²)/(1 − Σ π_c²), a the share of neighbours with the row's own label.

    π are the shares of labels: 0 is what random labels of these shares reach, and what one label
    for every row is worth; 1 is full agreement.

    Parameters
    ----------
    neighbours : Neighbours
        Of the rows that `labels` describes.
    labels : array of shape (n_rows,)
        Predicted labels of all rows.

    Returns
    -------
    Agreement
        Value and standard error over rows (as if rows were independent).
    """
    codes = np.unique(np.asarray(labels)[neighbours.rows], return_inverse=True)[1].ravel()
    n = len(codes)
    chance = float(((np.bincount(codes) / n) ** 2).sum())
    if chance == 1.0:
        return Agreement(0.0, 0.0)
    shares = (codes[neighbours.nearest] == codes[:, None]).mean(1)
    error = float(shares.std(ddof=1)) / np.sqrt(n) / (1 - chance)
    return Agreement(float((shares.mean() - chance) / (1 - chance)), float(error))


def neighbour_agreement(
    F: Any, labels: Any, k: int = 10, *, max_rows: int = 5000, random_state: Any = 0
) -> Agreement:
    """Chance-corrected agreement of labels with those of the k nearest rows.

    `nearest_neighbours`, then `label_agreement`, whose parameters these are.
    """
    if len(labels) != F.shape[0]:
        raise ValueError(f"labels has {len(labels)} values but F has {F.shape[0]} rows.")
    neighbours = nearest_neighbours(F, k, max_rows=max_rows, random_state=random_state)
    return label_agreement(neighbours, labels)


# How rows of two domains differ, and source errors weighted to the target -------------------------


def domain_hits(Fs: Any, Ft: Any, *, seed: int = 0) -> NDArray[np.bool_]:
    """Whether a cross-validated linear classifier names the domain of each row right.

    Both domains have the same number of rows here, drawn where one has more; source rows first.

    Parameters
    ----------
    Fs, Ft : arrays or CSR arrays
        Rows of source and target.
    seed : int, default=0
        Draws rows and folds.

    Returns
    -------
    array of bool
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    rng = np.random.default_rng(seed)
    n = min(_rows(Fs, "source", 2), _rows(Ft, "target", 2))
    parts = [sample_rows(F, n, rng) for F in (Fs, Ft)]
    F, domain = stack_rows(*parts), np.repeat([0, 1], [p.shape[0] for p in parts])
    folds = StratifiedKFold(min(5, n), shuffle=True, random_state=seed)
    with _unconverged():
        # scikit-learn 1.6 cannot route None.
        named = cross_val_predict(_classifier(F), F, domain, cv=folds, params={})
        return np.asarray(named == domain)


def proxy_a_distance(Fs: Any, Ft: Any, *, seed: int = 0) -> float:
    """2(1 − 2ε), cut to [0, 2]; ε is the cross-validated error of a domain classifier.

    Parameters
    ----------
    Fs, Ft : arrays or CSR arrays
        Rows of source and target.
    seed : int, default=0
        Draws rows and folds.

    Returns
    -------
    float
        0 (domains cannot be told apart) to 2.
    """
    return float(np.clip(4 * domain_hits(Fs, Ft, seed=seed).mean() - 2, 0, 2))


def density_ratio(Fs: Any, Ft: Any, *, n_folds: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Weights p_t(x)/p_s(x) of source rows, by a regularised logistic domain classifier.

    Each row's weight comes from a classifier that has not seen the row: in many dimensions a
    classifier separates the rows that it was fitted on whatever their domains are.

    Parameters
    ----------
    Fs, Ft : arrays or CSR arrays
        Rows of source and target.
    n_folds : int, default=5
        Folds of source rows.
    seed : int, default=0
        Draws rows and folds.

    Returns
    -------
    array of shape (n_source,)
        Positive weights; their mean is about 1 where the target's support lies within the source's.
    """
    from sklearn.model_selection import KFold

    n = _rows(Fs, "source", 2)
    _rows(Ft, "target", 1)
    order = row_order(Fs)
    Fs, Ft = Fs[order], Ft[row_order(Ft)]
    weights = np.empty(n)
    folds = KFold(min(n_folds, n), shuffle=True, random_state=seed)
    for seen, held in folds.split(np.arange(n)):
        # The same draw in every fold: folds differ by their source rows alone.
        rng = np.random.default_rng(seed)
        source, target = sample_rows(Fs[seen], len(seen), rng), sample_rows(Ft, Ft.shape[0], rng)
        F, domain = (
            stack_rows(source, target),
            np.repeat([0, 1], [source.shape[0], target.shape[0]]),
        )
        with _unconverged():
            scores = _classifier(F).fit(F, domain).decision_function(Fs[held])
        # p_t/p_s = (n_s/n_t) P(t|x)/P(s|x); scores beyond ±50 would overflow and tell no more
        weights[order[held]] = source.shape[0] / target.shape[0] * np.exp(np.clip(scores, -50, 50))
    return weights


def importance_weighted(losses: Any, weights: Any) -> float:
    """Σ wᵢ lᵢ / Σ wᵢ: the target's risk, estimated on source rows (Sugiyama et al., 2007).

    Parameters
    ----------
    losses, weights : arrays of shape (n_source,)
        Loss of held-out source rows, and their density ratio.

    Returns
    -------
    float
    """
    losses, w = _check_losses(losses, weights)
    return float(w @ losses / w.sum())


def dev_risk(losses: Any, weights: Any) -> float:
    """Importance-weighted risk with a control variate (deep embedded validation, You et al., 2019).

    mean(wl) + η (mean(w) − 1) with η = −cov(wl, w)/var(w): the mean weight is known to be 1, so
    what it misses by corrects the risk.

    Parameters
    ----------
    losses, weights
        As for `importance_weighted`.

    Returns
    -------
    float
    """
    losses, w = _check_losses(losses, weights)
    weighted = w * losses
    spread = w - w.mean()
    variance = float(spread @ spread)
    eta = -float(spread @ weighted) / variance if variance > 0 else 0.0
    return float(weighted.mean() + eta * (w.mean() - 1))


def _check_losses(losses: Any, weights: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One loss and one weight per row."""
    losses = np.asarray(losses, dtype=np.float64)
    return losses, check_weights(weights, losses.shape[0])


def _classifier(F: Any) -> Any:
    """Logistic regression on features of equal spread: the one domain classifier of marda."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not sp.issparse(F))
    return make_pipeline(scaler, LogisticRegression(C=0.1, max_iter=300))


def _unconverged() -> Any:
    """A domain classifier that has not converged is near enough for an error rate or a weight."""
    from sklearn.exceptions import ConvergenceWarning

    return warnings.catch_warnings(action="ignore", category=ConvergenceWarning)


def _rows(F: Any, name: str, least: int) -> int:
    n = int(F.shape[0])
    if n < least:
        raise ValueError(f"at least {least} {name} rows are needed to compare domains, got {n}.")
    return n
