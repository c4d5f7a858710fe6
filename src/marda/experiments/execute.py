"""One unit → result rows: the only module of the experiments that fits models."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.datasets import Task
from marda.experiments.memory import peak_mb, reset_peak
from marda.experiments.plan import BENCHMARKS
from marda.experiments.rows import ResultRow, failed, stamp
from marda.experiments.specs import Spec, Unit
from marda.experiments.tasks import load_task
from marda.experiments.worker import describe


@dataclass(frozen=True)
class Fitted:
    """What ``fit_unit`` gives for one spec: predictions, or the error that came instead."""

    spec: Spec
    predicted: NDArray[Any] | None = None
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    n_iter: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    message: str = ""


def run_unit(unit: Unit, data_dir: Path | None) -> Iterator[ResultRow]:
    """Load the task once, then yield a row as soon as each spec is finished."""
    reset_peak()
    started = time.perf_counter()
    task = load_task(unit.task, data_dir)
    load_seconds = (time.perf_counter() - started) / len(unit.specs)
    known: dict[str, Any] = {"load_seconds": load_seconds, "data_checksum": task.checksum}
    for fitted in fit_unit(task, unit.specs):
        if fitted.predicted is None:
            yield failed([fitted.spec], fitted.message, **known)[0]
            continue
        hit = fitted.predicted == task.y_test
        yield stamp(
            ResultRow(
                fitted.spec,
                "done",
                accuracy=100 * float(np.mean(hit)),
                balanced_accuracy=100 * balanced(hit, task.y_test),
                n_test=len(hit),
                fit_seconds=fitted.fit_seconds,
                predict_seconds=fitted.predict_seconds,
                peak_mb=peak_mb(),
                n_iter=fitted.n_iter,
                params=fitted.params,
                message=fitted.message,
                **known,
            )
        )


def balanced(hit: NDArray[np.bool_], y: NDArray[Any]) -> float:
    """Mean over the classes in ``y`` of the share of rows that were hit."""
    return float(np.mean([np.mean(hit[y == label]) for label in np.unique(y)]))


def settings_of(spec: Spec) -> dict[str, Any]:
    """Keyword arguments of the estimator for a spec."""
    from marda import paper_settings

    if spec.settings == "auto":
        raise NotImplementedError("settings='auto' needs MDAClassifierCV: use paper or marda.")
    chosen: dict[str, Any] = {}
    if spec.settings == "paper":
        chosen.update(paper_settings(BENCHMARKS[spec.task.benchmark].kind))
    return {**chosen, **dict(spec.overrides)}


def fit_unit(task: Task, specs: Sequence[Spec]) -> Iterator[Fitted]:
    """Fit and predict every spec of one task.

    This is the one place where models of the same task may share factorisations; a spec that
    fails must not take the others with it.
    """
    from marda import pack

    X, y, sample_domain = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    for spec in specs:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fitted = _fit_one(task, spec, X, y, sample_domain)
            except Exception as error:
                yield Fitted(spec, message=describe(error))
                continue
        told = "; ".join(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))
        yield Fitted(**{**vars(fitted), "message": told})


def _fit_one(task: Task, spec: Spec, X: Any, y: Any, sample_domain: Any) -> Fitted:
    from marda import MDAClassifier

    settings = settings_of(spec)
    model = MDAClassifier(spec.model, classifier=spec.classifier, **settings)
    started = time.perf_counter()
    model.fit(X, y, sample_domain=sample_domain)
    between = time.perf_counter()
    predicted = np.asarray(model.predict(task.X_test))
    ended = time.perf_counter()
    return Fitted(
        spec,
        predicted,
        fit_seconds=between - started,
        predict_seconds=ended - between,
        n_iter=int(model.n_iter_),
        params={k: v for k, v in settings.items() if isinstance(v, str | int | float | None)},
    )
