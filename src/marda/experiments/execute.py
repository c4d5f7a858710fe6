"""One unit → result rows: the only module of the experiments that fits models."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marda.datasets import Task
from marda.experiments.fitted import Fitted, attempt, balanced
from marda.experiments.memory import peak_mb, reset_peak
from marda.experiments.methods import fit_methods
from marda.experiments.plan import BENCHMARKS
from marda.experiments.rows import ResultRow, failed, stamp
from marda.experiments.specs import Spec, Unit
from marda.experiments.tasks import load_task
from marda.terms import parse_method

#: Settings that make features other than the rows, even where nothing is denoised.
CHANGE_ROWS = {"center", "normalize", "n_layers", "refine"}
#: Classifiers that are fitted on features: they take sparse rows, too.
ROW_CLASSIFIERS = ("nn", "dscm", "ridge10")


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


def settings_of(spec: Spec) -> dict[str, Any]:
    """Keyword arguments of the estimator for a spec."""
    from marda import paper_settings

    chosen: dict[str, Any] = {}
    if spec.settings == "paper":
        chosen.update(paper_settings(BENCHMARKS[spec.task.benchmark].kind))
    return {**chosen, **dict(spec.overrides)}


def fit_unit(task: Task, specs: Sequence[Spec]) -> Iterator[Fitted]:
    """Fit and predict every spec of one task.

    This is the one place where specs of the same task share work: W of a model is learned once for
    all its classifiers, and models share the factorisations that their terms allow. A model that
    fails must not take the others with it. Methods beyond the paper's models fit on their own.
    """
    from marda import pack

    if specs[0].settings == "auto":
        yield from fit_methods(task, specs)
        return
    rows = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    problems: dict[Any, Any] = {}  # factorisations that models of this task share
    models: dict[tuple[str, str], list[Spec]] = {}
    for spec in specs:
        models.setdefault((spec.model, spec.variant), []).append(spec)
    for group in models.values():
        yield from attempt(group, _fit_model(task, group, problems, *rows))


def _fit_model(
    task: Task,
    specs: Sequence[Spec],
    problems: dict[Any, Any],
    X: Any,
    y: Any,
    sample_domain: Any,
) -> Iterator[Fitted]:
    """One model with all its classifiers; shared seconds are divided among them."""
    from marda import MDAClassifier

    # Ridge first: it is part of the joint models anyway, the others only need denoised rows.
    first, *others = sorted(specs, key=lambda spec: spec.classifier != "ridge")
    settings = settings_of(first)
    params = {k: v for k, v in settings.items() if isinstance(v, str | int | float | None)}
    # W = I: the rows are their own features, and sparse ones stay sparse.
    plain = not parse_method(first.model).denoise and not CHANGE_ROWS & settings.keys()
    known = np.flatnonzero(y != -1)  # class numbers start at 0, so pack marks with -1
    shared: dict[str, Any] = {"fit_seconds": 0.0, "n_iter": 1, "params": params}
    if plain and first.classifier in ROW_CLASSIFIERS:
        others = [first, *others]
    else:
        started = time.perf_counter()
        model = MDAClassifier(first.model, classifier=_classifier(first.classifier), **settings)
        model._problems = problems
        model.fit(X, y, sample_domain=sample_domain)
        shared["fit_seconds"] = (time.perf_counter() - started) / len(specs)
        shared["n_iter"] = int(model.n_iter_)
        started = time.perf_counter()
        predicted = np.asarray(model.predict(task.X_test))
        yield Fitted(first, predicted, predict_seconds=time.perf_counter() - started, **shared)
    if not others:
        return
    started = time.perf_counter()
    H, H_test = X[known], task.X_test
    if not plain:
        H, H_test = model.transform(H), model.transform(H_test)
    denoising = (time.perf_counter() - started) / len(others)
    for spec in others:
        started = time.perf_counter()
        classifier = _on_rows(spec.classifier, H, y[known], sample_domain[known])
        predicted = np.asarray(classifier.predict(H_test))
        seconds = time.perf_counter() - started + denoising
        yield Fitted(spec, predicted, predict_seconds=seconds, **shared)


def _on_rows(name: str, H: Any, y: Any, sample_domain: Any) -> Any:
    """Fit the classifier that ``MDAClassifier`` would fit on these denoised rows."""
    from sklearn.neighbors import KNeighborsClassifier

    from marda import DSCM

    if name == "nn":
        return KNeighborsClassifier(n_neighbors=1).fit(H, y)
    if name == "dscm":
        # In US only source rows carry labels, and a single domain is not named.
        one = len(np.unique(sample_domain)) == 1
        return DSCM().fit(H, y, sample_domain=None if one else sample_domain)
    if name == "ridge10":
        return _classifier(name).fit(H, y)
    raise ValueError(f"classifier {name!r} on denoised rows: choose nn, dscm or ridge10.")


def _classifier(name: str) -> Any:
    """What ``MDAClassifier`` calls it; an ordinary ridge, without noise, is scikit-learn's."""
    if name != "ridge10":
        return name
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier(alpha=10.0, fit_intercept=False, tol=1e-8)
