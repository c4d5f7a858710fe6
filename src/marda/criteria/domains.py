"""Evidence from rows of two domains: how they differ, and source errors weighted to the target."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._order import row_order
from marda.criteria.predictions import check_weights
from marda.criteria.rows import sample, stack

__all__ = [
    "density_ratio",
    "dev_risk",
    "domain_hits",
    "importance_weighted",
    "proxy_a_distance",
]


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
    parts = [sample(F, n, rng) for F in (Fs, Ft)]
    F, domain = stack(*parts), np.repeat([0, 1], [p.shape[0] for p in parts])
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
        source, target = sample(Fs[seen], len(seen), rng), sample(Ft, Ft.shape[0], rng)
        F, domain = stack(source, target), np.repeat([0, 1], [source.shape[0], target.shape[0]])
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
    losses = np.asarray(losses, dtype=np.float64)
    w = check_weights(weights, losses.shape[0])
    return float(w @ losses / w.sum())


def dev_risk(losses: Any, weights: Any) -> float:
    """Importance-weighted risk with a control variate (deep embedded validation, You et al., 2019).

    mean(wl) + η (mean(w) − 1) with η = −cov(wl, w)/var(w): the mean weight is known to be 1, so
    what it misses by corrects the risk.

    Parameters
    ----------
    losses, weights : arrays of shape (n_source,)
        Loss of held-out source rows, and their density ratio.

    Returns
    -------
    float
    """
    losses = np.asarray(losses, dtype=np.float64)
    w = check_weights(weights, losses.shape[0])
    weighted = w * losses
    spread = w - w.mean()
    variance = float(spread @ spread)
    eta = -float(spread @ weighted) / variance if variance > 0 else 0.0
    return float(weighted.mean() + eta * (w.mean() - 1))


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
