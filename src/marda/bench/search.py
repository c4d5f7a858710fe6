"""A label-free search over 50 candidates against separate fits of the same rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import ParameterGrid

from marda import MDAClassifier, MDAClassifierCV
from marda.bench.data import dense_problem

__all__ = ["GRID", "search"]

LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]
#: 5 noise levels × 3 models × 3 ridges, and 5 levels of MCF.
GRID: list[dict[str, list[Any]]] = [
    {"method": ["S1", "S1M", "S1D"], "noise": LEVELS, "ridge_class": [0.1, 1.0, 10.0]},
    {"method": ["MCF"], "noise": LEVELS},
]


def search(n: int = 2000, d: int = 1000, *, many_scales: bool = False) -> dict[str, Any]:
    """Search 50 candidates and refit the best (ratio: separate fits that cost as much).

    With many_scales the largest feature is a hundred times the smallest, as with words: a ridge is
    then no multiple of the noise.

    A separate fit is the median over every fifth candidate; half of them are fitted before the
    search and half after it, so that a machine that slows down does so for both sides.
    """
    X, y, domain = dense_problem(n, d)
    if many_scales:
        X *= np.logspace(-1, 1, d)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    candidates = list(ParameterGrid(GRID))
    seconds = []

    def fit(model: Any) -> float:
        started = time.perf_counter()
        model.fit(X, y, sample_domain=domain)
        return time.perf_counter() - started

    best = MDAClassifierCV(
        GRID, scoring="entropy", class_weight=None, calibrate=False, random_state=0
    )
    singles = [MDAClassifier(**parameters) for parameters in candidates[::5]]
    seconds += [fit(model) for model in singles[::2]]
    whole = fit(best)
    seconds += [fit(model) for model in singles[1::2]]
    one = float(np.median(seconds))
    return {
        "rows": n,
        "features": d,
        "candidates": len(candidates),
        "search_s": whole,
        "fit_s": one,
        "ratio": whole / one,
        "best": repr(best.best_params_),
    }
