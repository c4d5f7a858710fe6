"""Methods beyond the paper's models: marda's own choice, source-only baselines, skada's adapters.

Nothing but an adapter is shared, so that a method's time and memory are its own.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray

from marda._memory import available_memory, format_bytes
from marda.criteria import expected_calibration_error
from marda.datasets import Task
from marda.experiments.contest import AUTO, SOURCE
from marda.experiments.fitted import Fitted, attempt, balanced
from marda.experiments.memory import reset_peak
from marda.experiments.specs import Spec

MAX_DIRECTIONS = 1000
"""Adapters decompose matrices of features × features: wider rows are cut to the leading singular
directions of the task's rows (exact where the task has fewer rows than this)."""
MAX_TRANSPORT_ROWS = 3000
"""Exact transport takes source × target: larger domains are drawn from, with a fixed seed."""
SUBSPACE = 20
NOTES = (
    f"Adapters (skada) see dense rows; rows wider than {MAX_DIRECTIONS} are cut to that many "
    "leading singular directions of the task's rows, in time not counted here. CORAL has a "
    f"Ledoit-Wolf covariance, LinearOT reg = 1, SubspaceAlignment {SUBSPACE} directions; all else "
    f"is skada's and scikit-learn's default. OT maps at most {MAX_TRANSPORT_ROWS} rows a domain, "
    "drawn with seed 0.",
    "fit s and MB: mean processor seconds of one fit (fixed models: seconds on the clock, shared "
    "where they share work) and the largest high-water mark of the process, data included.",
)


Facts = dict[str, float]


class _Rows(NamedTuple):
    """Rows of both domains as `fit` takes them, and the rows to predict."""

    X: Any
    y: NDArray[Any]
    domain: NDArray[np.int64]
    X_test: Any


def fit_methods(task: Task, specs: Sequence[Spec]) -> Iterator[Fitted]:
    """Fit and predict one method after the other, an adapter once for all its classifiers."""
    from marda import pack

    packed = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    rows = _Rows(*packed, task.X_test)
    narrow: list[_Rows] = []  # made for the first adapter, used by all
    for method, members in groupby(specs, key=lambda spec: spec.model):
        group = list(members)
        gc.collect()
        reset_peak()
        if method == AUTO:
            fits = _fit_auto(group, rows, task.y_test)
        elif method == SOURCE:
            fits = _fit_source(group, rows)
        else:
            fits = _fit_adapter(method, group, rows, narrow)
        yield from attempt(group, fits)


def _fit_auto(specs: Sequence[Spec], rows: _Rows, y_test: Any) -> Iterator[Fitted]:
    from marda import MDAClassifierCV

    for spec in specs:
        arguments: dict[str, Any] = {"random_state": 0, **dict(spec.overrides)}
        started = time.process_time()
        model = MDAClassifierCV(**arguments).fit(rows.X, rows.y, sample_domain=rows.domain)
        fitted = _predicted(spec, model.predict, rows.X_test, started)
        facts = {**_calibration(model, rows.X_test, y_test), **_members(model, rows.X_test, y_test)}
        yield replace(fitted, params=facts)


def _fit_source(specs: Sequence[Spec], rows: _Rows) -> Iterator[Fitted]:
    """Classifiers of labelled rows that know nothing of domains."""
    known = np.flatnonzero(rows.y != -1)  # class numbers start at 0, so pack marks with -1
    for spec in specs:
        started = time.process_time()
        model = _classifier(spec.classifier).fit(rows.X[known], rows.y[known])
        yield _predicted(spec, model.predict, rows.X_test, started)


def _fit_adapter(
    name: str, specs: Sequence[Spec], rows: _Rows, narrow: list[_Rows]
) -> Iterator[Fitted]:
    """Adapt source rows to the target's once; classifiers learn from them, and count its time."""
    if not narrow:
        narrow.append(_narrow(rows))
    X_test = narrow[0].X_test
    rows = _drawn(narrow[0]) if name == "OT" else narrow[0]
    adapter = _adapter(name)
    started = time.process_time()
    adapted = adapter.fit_transform(rows.X, rows.y, sample_domain=rows.domain)
    seconds = time.process_time() - started
    source = rows.domain >= 0
    if not np.isfinite(adapted[source]).all():
        raise ValueError(f"{name} gave source rows that are not finite.")
    X_test = adapter.transform(X_test, sample_domain=np.full(len(X_test), rows.domain.min()))
    for spec in specs:
        started = time.process_time() - seconds
        model = _classifier(spec.classifier).fit(adapted[source], rows.y[source])
        yield _predicted(spec, model.predict, X_test, started)


def _predicted(spec: Spec, predict: Callable[[Any], Any], X_test: Any, started: float) -> Fitted:
    """Predictions of a model whose fit began at ``started``.

    Processor time: it can be compared on a machine that has other work, too.
    """
    fitted = time.process_time()
    predicted = np.asarray(predict(X_test))
    return Fitted(spec, predicted, fitted - started, time.process_time() - fitted)


def _calibration(model: Any, X: Any, y: Any) -> Facts:
    """Expected calibration error on test rows, in points; classes that `fit` never saw count."""
    P, place = model.predict_proba(X), np.searchsorted(model.classes_, y)
    unseen = ~np.isin(y, model.classes_)
    if unseen.any():
        P, place = np.column_stack([P, np.zeros(len(P))]), np.where(unseen, P.shape[1], place)
    facts = {"ece": 100 * expected_calibration_error(P, place)}
    if "expected_accuracy" in model.calibration_:
        facts["expected"] = 100 * model.calibration_["expected_accuracy"]
    return facts


def _members(model: Any, X: Any, y: Any) -> Facts:
    """The best that a member alone would have reached, in hindsight."""
    hits = [model.classes_[member.scores(X).argmax(1)] == y for member in model.members_]
    return {
        "best_member_accuracy": 100 * max(float(hit.mean()) for hit in hits),
        "best_member_balanced_accuracy": 100 * max(balanced(hit, y) for hit in hits),
    }


def _classifier(name: str) -> Any:
    """scikit-learn's defaults, but for balanced classes of the baseline."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.svm import LinearSVC

    if name == "ridge":
        return RidgeClassifier(alpha=1.0, class_weight="balanced", tol=1e-8)
    return LinearSVC() if name == "svm" else LogisticRegression(max_iter=1000)


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


def _narrow(rows: _Rows) -> _Rows:
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
        return rows._replace(X=cut.transform(X), X_test=cut.transform(X_test))
    if sp.issparse(X):
        return rows._replace(X=X.toarray(), X_test=X_test.toarray())
    return rows


def _drawn(rows: _Rows) -> _Rows:
    """At most MAX_TRANSPORT_ROWS of each domain."""
    rng = np.random.default_rng(0)
    kept = []
    for side in (rows.domain >= 0, rows.domain < 0):
        index = np.flatnonzero(side)
        if len(index) > MAX_TRANSPORT_ROWS:
            index = np.sort(rng.choice(index, MAX_TRANSPORT_ROWS, replace=False))
        kept.append(index)
    chosen = np.concatenate(kept)
    return rows._replace(X=rows.X[chosen], y=rows.y[chosen], domain=rows.domain[chosen])
