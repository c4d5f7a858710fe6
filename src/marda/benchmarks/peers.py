"""What marda is compared with: systems that run here, and figures that others published.

The systems are skada's adapters and classifiers that know no domains. Nothing but an adapter is
shared, so that a method's time and memory are its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray

from marda._memory import available_memory, format_bytes

__all__ = [
    "FOLDS",
    "MAX_DIRECTIONS",
    "MAX_TRANSPORT_ROWS",
    "NOTES",
    "SKADA",
    "SKADA_COLUMNS",
    "SOURCE_ONLY",
    "SUBSPACE",
    "TaskRows",
    "adapt_rows",
    "classifier",
    "column_classifier",
    "draw_rows",
    "narrow_rows",
    "skada_best",
    "skada_figure",
    "source_folds",
]

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
    "drawn with seed 0.",
    "fit s and MB: mean processor seconds of one fit (fixed models: seconds on the clock, shared "
    "where they share work) and the largest high-water mark of the process, data included.",
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
    adapter = _adapter(name)
    started = time.process_time()
    adapted = adapter.fit_transform(rows.X, rows.y, sample_domain=rows.domain)
    seconds = time.process_time() - started
    source = rows.domain >= 0
    if not np.isfinite(adapted[source]).all():
        raise ValueError(f"{name} gave source rows that are not finite.")
    X_test = adapter.transform(X_test, sample_domain=np.full(len(X_test), rows.domain.min()))
    return adapted[source], rows.y[source], X_test, seconds


def _adapter(name: str) -> Any:
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
        return skada.SubspaceAlignmentAdapter(n_components=SUBSPACE, random_state=0)
    if name == "LinearOT":
        return skada.LinearOTMappingAdapter(reg=1.0)
    return skada.OTMappingAdapter()


def narrow_rows(rows: TaskRows) -> TaskRows:
    """Dense rows of at most MAX_DIRECTIONS features."""
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


# Published figures -------------------------------------------------------------------------------

# Lalou et al.: SKADA-Bench: benchmarking unsupervised domain adaptation methods with realistic
# validation on diverse modalities, TMLR 2025 (arXiv:2407.11676). Accuracy in percent, mean over
# splits and pairs, every method with its hyperparameters chosen by its best scorer that needs no
# target label. "Train Src" knows the source only; "Train Tgt" sees the target's labels and is an
# upper bound.

SKADA_COLUMNS: Final = (
    *("20newsgroups", "amazon_review", "bci", "mnistusps", "mushrooms", "office31", "officehome"),
    *("phishing", "concept_drift", "covariate_shift", "subspace", "target_shift"),
)
SKADA: Final[dict[str, tuple[str, tuple[float | None, ...]]]] = {
    "Train Tgt": (
        "supervised",
        (99.6, 72.9, 63.5, 95.7, 100.0, 88.9, 79.7, 96.8, 81.7, 91.5, 98.5, 93.2),
    ),
    "DASVM": (
        "circular_validation",
        (71.6, None, None, None, 77.9, None, None, 87.7, 65.6, 88.8, 11.2, 86.0),
    ),
    "LinOT": (
        "circular_validation",
        (81.5, 69.9, 61.1, 63.8, 76.1, 65.6, 57.5, 90.8, 75.8, 73.4, 17.5, 72.7),
    ),
    "SA": (
        "circular_validation",
        (88.0, 66.5, 52.7, 56.2, 88.4, 64.4, 57.0, 89.3, 80.1, 74.2, 10.9, 67.5),
    ),
    "CORAL": (
        "circular_validation",
        (72.5, 69.7, 61.8, 62.3, 71.6, 65.4, 57.2, 91.9, 75.7, 74.1, 17.9, 69.9),
    ),
    "ClassRegOT": (
        "importance_weighted",
        (96.4, 67.7, 52.0, 61.7, 81.9, 64.8, 53.3, None, 81.5, 74.2, 11.3, 58.1),
    ),
    "MMD-LS": (
        "importance_weighted",
        (75.0, 68.3, 56.2, 52.2, 88.3, 61.2, 52.2, 88.1, 69.7, 88.1, 18.6, 76.9),
    ),
    "EntOT": (
        "circular_validation",
        (82.9, 62.0, 54.0, 60.3, 74.6, 64.0, 58.0, 85.7, 81.7, 70.7, 12.0, 59.6),
    ),
    "JPCA": (
        "prediction_entropy",
        (77.1, 68.9, 54.2, 51.3, 78.4, 61.9, 47.5, 90.4, 66.2, 88.1, 15.5, 85.0),
    ),
    "Train Src": (
        "supervised",
        (59.2, 70.3, 55.2, 54.2, 72.3, 64.9, 55.8, 91.2, 66.2, 88.1, 19.0, 85.0),
    ),
    "KLIEP": (
        "importance_weighted",
        (59.2, 70.1, 54.8, 54.1, 72.3, 64.5, 55.8, 91.2, 65.6, 88.5, 19.1, 85.7),
    ),
    "MMDTarS": (
        "importance_weighted",
        (59.3, 70.2, 55.5, 54.1, 73.6, 59.4, 55.2, 91.3, 64.2, 87.7, 19.8, 86.5),
    ),
    "Disc. RW": (
        "circular_validation",
        (60.1, 68.4, 56.4, 49.7, 75.5, 63.5, 53.4, 91.0, 71.4, 84.8, 17.6, 82.8),
    ),
    "Dens. RW": (
        "importance_weighted",
        (58.4, 70.2, 54.8, 53.9, 71.5, 61.8, 55.2, 91.1, 65.7, 88.5, 17.5, 86.0),
    ),
    "NN RW": (
        "circular_validation",
        (59.4, 66.4, 53.5, 54.2, 70.7, 64.5, 55.4, 91.4, 66.7, 88.5, 14.9, 85.6),
    ),
    "KMM": (
        "circular_validation",
        (69.9, 57.3, 51.8, 52.4, 73.8, 63.8, 54.6, 91.4, 64.5, 89.0, 15.7, 84.9),
    ),
    "OTLabelProp": (
        "circular_validation",
        (85.5, 67.6, 50.1, 61.8, 64.3, 65.6, 53.4, None, 80.3, 72.5, 7.3, 59.5),
    ),
    "MapOT": (
        "prediction_entropy",
        (76.3, 67.6, 47.1, 61.2, 63.4, 59.6, 51.0, 83.9, 81.6, 71.8, 2.0, 57.4),
    ),
    "JDOT": (
        "circular_validation",
        (77.0, 67.2, 46.3, 63.2, None, 64.1, 53.4, None, 81.7, 71.8, 13.1, 58.0),
    ),
    "TSL": (
        "importance_weighted",
        (None, 70.3, 25.1, None, None, 64.9, None, None, 65.9, 88.1, 19.7, 84.7),
    ),
    "Gauss. RW": (
        "circular_validation",
        (53.6, 60.6, 24.7, 11.1, 51.1, 22.0, 44.1, 45.9, 64.9, 89.1, 20.7, 86.3),
    ),
    "TCA": (
        "circular_validation",
        (None, 60.7, 26.7, 10.1, 44.9, 3.7, 2.0, None, 52.3, 45.3, 48.0, 47.9),
    ),
}
"""Scorer, then figures in the order of ``SKADA_COLUMNS``; None where none was published."""
SOURCE_ONLY, UPPER_BOUND = "Train Src", "Train Tgt"


def skada_figure(method: str, family: str) -> float | None:
    """Return the published accuracy, or None where there is none."""
    if method not in SKADA or family not in SKADA_COLUMNS:
        return None
    return SKADA[method][1][SKADA_COLUMNS.index(family)]


def skada_best(family: str) -> tuple[str, float] | None:
    """The method with the best published accuracy, of those that adapt; the first of equal ones."""
    found = [
        (method, figure)
        for method in SKADA
        if method not in (SOURCE_ONLY, UPPER_BOUND)
        if (figure := skada_figure(method, family)) is not None
    ]
    return max(found, key=lambda item: item[1], default=None)
