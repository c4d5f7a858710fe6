"""skada's adapters, classifiers that know no domains, and the rows that systems are given.

Nothing but an adapter is shared, so that a method's time and memory are its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray

from marda._machine import available_memory, format_bytes

MAX_DIRECTIONS = 1000
"""Adapters decompose matrices of features × features: wider rows are cut to the leading singular
directions of the task's rows (exact where the task has fewer rows than this)."""
MAX_TRANSPORT_ROWS = 3000
"""Exact transport takes source × target: larger domains are drawn from, with a fixed seed."""
SUBSPACE = 20
FOLDS = 5
"""Of the source rows, by which a source-only model is chosen."""
NOTES = (
    f"Adapters (skada) see dense rows; rows wider than {MAX_DIRECTIONS} are cut to that many "
    "leading singular directions of the task's rows, in time not counted here. CORAL has a "
    f"Ledoit-Wolf covariance, LinearOT reg = 1, SubspaceAlignment {SUBSPACE} directions; all else "
    f"is skada's and scikit-learn's default. OT maps at most {MAX_TRANSPORT_ROWS} rows per domain, "
    "drawn with seed 0. Columns of SKADA-Bench are standardised over both domains.",
    "fit s and MB: mean processor seconds of one fit (fixed models share work, and its seconds) and"
    " the largest high-water mark of the process, data included.",
)


@dataclass(frozen=True)
class TaskRows:
    """Rows of both domains as `fit` takes them, and the rows to predict."""

    X: Any
    y: NDArray[Any]
    domain: NDArray[np.int64]
    X_test: Any


def classifier(name: str) -> Any:
    """scikit-learn's defaults, but for balanced classes of the baseline."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.svm import LinearSVC

    if name == "ridge":
        return RidgeClassifier(alpha=1.0, class_weight="balanced", tol=1e-8)
    return LinearSVC() if name == "svm" else LogisticRegression(max_iter=1000)


def column_classifier(name: str, measure: str) -> Any:
    """Ridge, logistic regression or a forest of 200 trees, for tables.

    Linear models see standardised columns. Classes weigh alike where the measure lets them.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    weight = "balanced" if measure == "balanced_accuracy" else None
    if name == "forest":
        return RandomForestClassifier(200, class_weight=weight, random_state=0)
    if name == "ridge":
        linear = RidgeClassifier(alpha=1.0, class_weight=weight)
    elif name == "logistic":
        linear = LogisticRegression(max_iter=3000, class_weight=weight)
    else:
        raise ValueError(f"classifier {name!r} for tables: choose ridge, logistic or forest.")
    return make_pipeline(StandardScaler(), linear)


def source_folds(model: Any, X: Any, y: NDArray[Any], measure: str) -> float:
    """Mean of ``measure`` over left-out folds of labelled rows; no fold without a class."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    least = int(np.unique(y, return_counts=True)[1].min())
    if least < 2:
        raise ValueError(f"a class has {least} labelled row: folds need 2 of each.")
    folds = StratifiedKFold(min(FOLDS, least), shuffle=True, random_state=0)
    return float(np.mean(cross_val_score(model, X, y, scoring=measure, cv=folds)))


def adapt_rows(name: str, rows: TaskRows) -> tuple[Any, NDArray[Any], Any, float]:
    """Source rows adapted to the target, their labels, adapted test rows, and processor seconds.

    ``rows`` are as `narrow_rows` gives them.
    """
    X_test = rows.X_test
    if name == "OT":
        rows = draw_rows(rows)
    adapter = _adapter(name, min(SUBSPACE, rows.X.shape[1]))
    started = time.process_time()
    adapted = adapter.fit_transform(rows.X, rows.y, sample_domain=rows.domain)
    seconds = time.process_time() - started
    source = rows.domain >= 0
    if not np.isfinite(adapted[source]).all():
        raise ValueError(f"{name} gave source rows that are not finite.")
    X_test = adapter.transform(X_test, sample_domain=np.full(len(X_test), rows.domain.min()))
    return adapted[source], rows.y[source], X_test, seconds


def _adapter(name: str, n_directions: int) -> Any:
    config = sklearn.get_config()
    try:
        import skada
    except ImportError:
        raise ImportError("skada is not installed: pip install 'marda[peers]'.") from None
    finally:
        sklearn.set_config(**config)  # skada switches metadata routing on for the whole process
    if name == "CORAL":
        return skada.CORALAdapter(reg="auto")
    if name == "SubspaceAlignment":
        return skada.SubspaceAlignmentAdapter(n_components=n_directions, random_state=0)
    if name == "LinearOT":
        return skada.LinearOTMappingAdapter(reg=1.0)
    return skada.OTMappingAdapter()


def narrow_rows(rows: TaskRows, columns: bool = False) -> TaskRows:
    """Dense rows of at most MAX_DIRECTIONS features; standardised where they are ``columns``."""
    if columns:
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(rows.X)
        rows = replace(rows, X=scaler.transform(rows.X), X_test=scaler.transform(rows.X_test))
    X, X_test = rows.X, rows.X_test
    n, d = X.shape
    width = min(n, d, MAX_DIRECTIONS)
    need = 8 * (n + X_test.shape[0]) * width
    if need > available_memory() / 2:
        raise MemoryError(
            f"dense rows need {format_bytes(need)}, more than half of the "
            f"{format_bytes(available_memory())} that are free."
        )
    if d > width:
        from sklearn.decomposition import TruncatedSVD

        cut = TruncatedSVD(width, n_iter=2, random_state=0).fit(X)
        return replace(rows, X=cut.transform(X), X_test=cut.transform(X_test))
    if sp.issparse(X):
        return replace(rows, X=X.toarray(), X_test=X_test.toarray())
    return rows


def draw_rows(rows: TaskRows) -> TaskRows:
    """At most MAX_TRANSPORT_ROWS of each domain."""
    rng = np.random.default_rng(0)
    kept = []
    for side in (rows.domain >= 0, rows.domain < 0):
        index = np.flatnonzero(side)
        if len(index) > MAX_TRANSPORT_ROWS:
            index = np.sort(rng.choice(index, MAX_TRANSPORT_ROWS, replace=False))
        kept.append(index)
    chosen = np.concatenate(kept)
    return replace(rows, X=rows.X[chosen], y=rows.y[chosen], domain=rows.domain[chosen])
