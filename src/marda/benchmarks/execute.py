"""One unit → result rows: its rows are loaded, its models are fitted and judged.

The only module of the benchmarks that fits models. Specs of one task share what they can: rows,
factorisations, an adapter. A fit that fails is a failed row and takes no other with it.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context

from marda import datasets
from marda._arrays import is_numpy, namespace, rows_at, to_numpy, to_torch
from marda._machine import peak_mb, reset_peak
from marda.benchmarks.peers import adapters
from marda.benchmarks.plan import (
    AUTO,
    BENCHMARKS,
    EVALUATIONS,
    LABELLED_SYSTEMS,
    SOURCE,
    SYSTEMS,
    Spec,
    TaskSpec,
    Unit,
)
from marda.benchmarks.store import ResultRow, describe, failed, stamp
from marda.datasets import Dataset, Task
from marda.datasets.tasks import Unlabelled
from marda.operators.maps import RowMap
from marda.terms import parse_method

CHANGE_ROWS = {"center", "normalize", "n_layers", "refine"}
"""Settings that make features other than the rows, even where nothing is denoised."""
ROW_CLASSIFIERS = ("nn", "dscm", "ridge1", "ridge3", "ridge10")
"""Classifiers that are fitted on features: they take sparse rows, too."""
ORDINARY_RIDGES = {"ridge1": 1.0, "ridge3": 3.0, "ridge10": 10.0}
"""scikit-learn's ridge on denoised rows, without noise, and its weight."""

# Rows of a task -----------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _load(loader: str, data_dir: Path | None) -> Dataset:
    """Keep the last data sets: the units of one worker mostly share theirs."""
    return datasets.load(loader, data_dir)


def present_domains(names: Sequence[str], data_dir: Path | None) -> dict[str, tuple[str, ...]]:
    """Domains or tasks of each benchmark that there are; `MissingData` says what is not there.

    Asked before anything is started, so that a missing file is one sentence and not a thousand
    failed rows.
    """
    found = {}
    for name in names:
        if BENCHMARKS[name].tasks:
            found[name] = datasets.COLLECTIONS[name].present(data_dir)
            continue
        held = datasets.load(BENCHMARKS[name].loader, data_dir).domains
        found[name] = tuple(domain for domain in BENCHMARKS[name].domains if domain in held)
    return found


_SEEN: dict[str, Unlabelled] = {"full-test": "test", "full-both": "both"}


def load_task(spec: TaskSpec, data_dir: Path | None) -> Task:
    """Prepare the rows of one task and draw; the number of the draw is its seed."""
    if BENCHMARKS[spec.benchmark].tasks:
        return datasets.named_task(spec.benchmark, spec.source, spec.draw, data_dir)
    dataset = _load(BENCHMARKS[spec.benchmark].loader, data_dir)
    surf_l2 = spec.preprocessing != "no-l2"
    if spec.protocol == "sampled":
        return datasets.sampled_task(
            dataset, spec.source, spec.target, spec.setting, seed=spec.draw, surf_l2=surf_l2
        )
    return datasets.make_task(
        dataset,
        spec.source,
        spec.target,
        spec.setting,
        seed=spec.draw,
        log_tf=spec.preprocessing == "log-tf",
        surf_l2=surf_l2,
        unlabelled=_SEEN.get(spec.protocol, "train"),
    )


# Fits ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """Predictions for one spec, or the error that came instead."""

    spec: Spec
    predicted: NDArray[Any] | None = None
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    n_iter: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    message: str = ""


def attempt(specs: Sequence[Spec], fits: Iterator[Fitted]) -> Iterator[Fitted]:
    """What ``fits`` gives for ``specs``, with its warnings; specs that an error cut off fail."""
    found: list[Fitted] = []
    error_text = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for fitted in fits:
                found.append(fitted)  # one by one: what came before an error counts
        except Exception as error:
            error_text = describe(error)
    told = "; ".join(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))
    yield from (replace(item, message=told) for item in found)
    have = {item.spec for item in found}
    yield from (Fitted(spec, message=error_text) for spec in specs if spec not in have)


def run_unit(unit: Unit, data_dir: Path | None, device: str | None = None) -> Iterator[ResultRow]:
    """Load the task once, then yield a row as soon as each spec is finished.

    On a `device` of torch, rows are dense tensors, and all that is fitted follows them.
    """
    reset_peak()
    started = time.process_time()
    task = load_task(unit.task, data_dir)
    load_seconds = (time.process_time() - started) / len(unit.specs)
    known: dict[str, Any] = {"load_seconds": load_seconds, "data_checksum": task.checksum}
    for fitted in fit_unit(task, unit.specs, device):
        if fitted.predicted is None:
            yield failed([fitted.spec], fitted.message, **known)[0]
            continue
        predicted = fitted.predicted
        yield stamp(
            ResultRow(
                fitted.spec,
                "done",
                accuracy=100 * float(np.mean(predicted == task.y_test)),
                balanced_accuracy=100 * balanced_accuracy(task.y_test, predicted),
                n_test=len(predicted),
                fit_seconds=fitted.fit_seconds,
                predict_seconds=fitted.predict_seconds,
                peak_mb=peak_mb(),
                n_iter=fitted.n_iter,
                params=fitted.params,
                message=fitted.message,
                **known,
            ),
            device,
        )


def balanced_accuracy(truth: NDArray[Any], predicted: NDArray[Any]) -> float:
    """scikit-learn's: the mean over the classes in ``truth`` of the share that was hit."""
    from sklearn.metrics import balanced_accuracy_score

    with warnings.catch_warnings():
        # It warns of classes that are predicted only: they are no classes of the mean.
        warnings.simplefilter("ignore", UserWarning)
        return float(balanced_accuracy_score(truth, predicted))


def settings_of(spec: Spec) -> dict[str, Any]:
    """Keyword arguments of the estimator for a spec."""
    from marda import paper_settings

    chosen: dict[str, Any] = {}
    if spec.settings == "paper":
        chosen.update(paper_settings(BENCHMARKS[spec.task.benchmark].kind))
    return {**chosen, **dict(spec.overrides)}


def fit_unit(task: Task, specs: Sequence[Spec], device: str | None = None) -> Iterator[Fitted]:
    """Fit and predict every spec of one task.

    This is the one place where specs of the same task share work: W of a model is learned once for
    all its classifiers, and models share the factorisations that their terms allow. A model that
    fails must not take the others with it. Methods beyond the paper's models fit on their own.
    """
    from marda import pack
    from marda.estimators.fitting import Shared

    if specs[0].settings == "auto":
        yield from fit_methods(task, specs, device)
        return
    X, y, domain = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    X_test = task.X_test
    if device is not None:
        X, X_test = to_torch(X, device), to_torch(X_test, device)
    rows = adapters.TaskRows(X, y, domain, X_test)
    models: dict[tuple[str, str], list[Spec]] = {}
    for spec in specs:
        models.setdefault((spec.model, spec.variant), []).append(spec)
    # Models with the same MMD terms have the same W₀, and most of what they need with it: factors
    # and rows of one W₀ are dropped before another comes.
    order = sorted(models.values(), key=_discrepancies)
    for _, alike in groupby(order, key=_discrepancies):
        shared, mapped = Shared(), MappedRows()
        for group in alike:
            with config_context(array_api_dispatch=device is not None):
                yield from attempt(group, _fit_model(group, rows, shared, mapped))


def _discrepancies(specs: Sequence[Spec]) -> str:
    return parse_method(specs[0].model).discrepancies


@dataclass
class MappedRows:
    """X W₀ of the last W₀: models that differ from it by a few columns (D, J12) share them."""

    base: Any = None
    parts: dict[str, Any] = field(default_factory=dict)

    def transform(self, model: Any, name: str, X: Any) -> Any:
        """What ``model.transform(X)`` gives; ``name`` tells these rows from others."""
        fitted = model.model_
        denoising = fitted.layers[0].map
        several = len(fitted.layers) > 1 or fitted.centers or not isinstance(denoising.base, RowMap)
        if several or not is_numpy(X):  # on a device products cost little
            return model.transform(X)
        if denoising.base is not self.base:
            self.base, self.parts = denoising.base, {}
        if name not in self.parts:
            self.parts[name] = denoising.apply_base(X)
        H = denoising.apply(X, self.parts[name])
        return fitted.center_and_normalize(H) if fitted.normalize else H


def _fit_model(
    specs: Sequence[Spec], rows: adapters.TaskRows, factors: Any, mapped: MappedRows
) -> Iterator[Fitted]:
    """One model with all its classifiers; shared seconds are divided among them."""
    from marda import MDAClassifier
    from marda.estimators.classifier import fit_rows, training_rows

    # Ridge first: it is part of the joint models anyway, the others only need denoised rows.
    first, *others = sorted(specs, key=lambda spec: spec.classifier != "ridge")
    settings = settings_of(first)
    params = {k: v for k, v in settings.items() if isinstance(v, str | int | float | None)}
    # W = I: the rows are their own features, and sparse ones stay sparse.
    plain = not parse_method(first.model).denoise and not CHANGE_ROWS & settings.keys()
    on_rows = first.classifier in ROW_CLASSIFIERS and (plain or not is_numpy(rows.X))
    if on_rows:
        others = [first, *others]
    shared: dict[str, Any] = {"fit_seconds": 0.0, "n_iter": 1, "params": params}
    if not (plain and on_rows):
        started = time.process_time()
        # Other arrays than numpy's have a ridge alone: it leaves W as it is.
        classifier = "ridge" if on_rows else _classifier(first.classifier)
        model = MDAClassifier(first.model, classifier=classifier, **settings)
        data = training_rows(model, rows.X, rows.y, sample_domain=rows.domain)
        fit_rows(model, data, factors)
        shared["fit_seconds"] = (time.process_time() - started) / len(specs)
        shared["n_iter"] = int(model.n_iter_)
    if not on_rows:
        started = time.process_time()
        predicted = np.asarray(to_numpy(model.predict(rows.X_test)))
        yield Fitted(first, predicted, predict_seconds=time.process_time() - started, **shared)
    if not others:
        return
    started = time.process_time()
    known = np.flatnonzero(rows.y != -1)  # class numbers start at 0, so pack marks with -1
    H, H_test = rows_at(rows.X, known), rows.X_test
    if not plain:
        H = mapped.transform(model, "labelled", H)
        H_test = mapped.transform(model, "test", H_test)
    denoising = (time.process_time() - started) / len(others)
    for spec in others:
        started = time.process_time()
        classifier = _on_rows(spec.classifier, H, rows.y[known], rows.domain[known])
        predicted = np.asarray(to_numpy(classifier.predict(H_test)))
        seconds = time.process_time() - started + denoising
        yield Fitted(spec, predicted, predict_seconds=seconds, **shared)


def _on_rows(name: str, H: Any, y: Any, sample_domain: Any) -> Any:
    """Fit the classifier that ``MDAClassifier`` would fit on these denoised rows."""
    from sklearn.neighbors import KNeighborsClassifier

    from marda import DSCM, MDAClassifier

    if name == "nn":
        return KNeighborsClassifier(n_neighbors=1).fit(H, y) if is_numpy(H) else Nearest(H, y)
    if name == "dscm":
        # In US only source rows carry labels, and a single domain is not named.
        one = len(np.unique(sample_domain)) == 1
        return DSCM().fit(H, y, sample_domain=None if one else sample_domain)
    if name in ORDINARY_RIDGES:
        if is_numpy(H):
            return _classifier(name).fit(H, y)
        # The same ridge on any device: W = I and no noise.
        return MDAClassifier("BL", ridge_class=ORDINARY_RIDGES[name], fit_intercept=False).fit(H, y)
    raise ValueError(f"classifier {name!r} on denoised rows: choose {', '.join(ROW_CLASSIFIERS)}.")


@dataclass(frozen=True)
class Nearest:
    """The class of the nearest row, by arrays of any library."""

    H: Any
    y: NDArray[Any]

    def predict(self, H: Any) -> NDArray[Any]:
        """Classes of rows."""
        # ‖h‖² of the asking row is the same for all.
        xp = namespace(H)
        distances = xp.sum(self.H**2, axis=1)[None, :] - 2.0 * (H @ self.H.T)
        return np.asarray(self.y[to_numpy(xp.argmin(distances, axis=1))])


def _classifier(name: str) -> Any:
    """What ``MDAClassifier`` calls it; an ordinary ridge, without noise, is scikit-learn's."""
    if name not in ORDINARY_RIDGES:
        return name
    from sklearn.linear_model import RidgeClassifier

    return RidgeClassifier(alpha=ORDINARY_RIDGES[name], fit_intercept=False, tol=1e-8)


# Methods beyond the paper's models ----------------------------------------------------------------


def fit_methods(task: Task, specs: Sequence[Spec], device: str | None = None) -> Iterator[Fitted]:
    """Fit and predict one method after the other, an adapter once for all its classifiers.

    Only the default follows rows to a device.
    """
    from marda import pack

    packed = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    rows = adapters.TaskRows(*packed, task.X_test)
    narrow: list[adapters.TaskRows] = []  # made for the first adapter, used by all
    columns = EVALUATIONS[specs[0].task.benchmark].by_halves
    for method, members in groupby(specs, key=lambda spec: spec.model):
        group = list(members)
        gc.collect()
        reset_peak()
        if method == AUTO:
            fits = _fit_auto(group, rows, task.y_test, device)
        elif method == SOURCE:
            fits = _fit_source(group, rows)
        elif method in (*SYSTEMS, *LABELLED_SYSTEMS):
            fits = _fit_system(group, rows, narrow, columns)
        else:
            fits = _fit_adapter(method, group, rows, narrow, columns)
        yield from attempt(group, fits)


def _fit_auto(
    specs: Sequence[Spec], rows: adapters.TaskRows, y_test: Any, device: str | None
) -> Iterator[Fitted]:
    from marda import MDAClassifierCV

    X, X_test = rows.X, rows.X_test
    if device is not None:
        X, X_test = to_torch(X, device), to_torch(X_test, device)
    with config_context(array_api_dispatch=device is not None):
        for spec in specs:
            arguments: dict[str, Any] = {"random_state": 0, **dict(spec.overrides)}
            started = time.process_time()
            model = MDAClassifierCV(**arguments).fit(X, rows.y, sample_domain=rows.domain)
            fitted = _predicted(spec, model.predict, X_test, started)
            facts = {**_calibration(model, X_test, y_test), **_members(model, X_test, y_test)}
            yield replace(fitted, params=facts)


def _fit_source(specs: Sequence[Spec], rows: adapters.TaskRows) -> Iterator[Fitted]:
    """Classifiers of labelled rows that know nothing of domains."""
    known = np.flatnonzero(rows.y != -1)  # class numbers start at 0, so pack marks with -1
    X, y = rows.X[known], rows.y[known]
    for spec in specs:
        evaluation = EVALUATIONS[spec.task.benchmark]
        facts = {}
        if evaluation.by_halves:
            new = partial(adapters.column_classifier, spec.classifier, evaluation.measure)
            facts = {"source_folds": 100 * adapters.source_folds(new(), X, y, evaluation.measure)}
        else:
            new = partial(adapters.classifier, spec.classifier)
        started = time.process_time()
        model = new().fit(X, y)
        yield replace(_predicted(spec, model.predict, rows.X_test, started), params=facts)


def _fit_adapter(
    name: str,
    specs: Sequence[Spec],
    rows: adapters.TaskRows,
    narrow: list[adapters.TaskRows],
    columns: bool,
) -> Iterator[Fitted]:
    """Adapt source rows to the target's once; classifiers learn from them, and count its time."""
    if not narrow:
        narrow.append(adapters.narrow_rows(rows, columns))
    X, y, X_test, seconds = adapters.adapt_rows(name, narrow[0])
    for spec in specs:
        started = time.process_time() - seconds
        model = adapters.classifier(spec.classifier).fit(X, y)
        yield _predicted(spec, model.predict, X_test, started)


def _fit_system(
    specs: Sequence[Spec],
    rows: adapters.TaskRows,
    narrow: list[adapters.TaskRows],
    columns: bool,
) -> Iterator[Fitted]:
    """Systems with a classifier of their own."""
    from marda.benchmarks.peers import system

    if not narrow:
        narrow.append(adapters.narrow_rows(rows, columns))
    seen = narrow[0]
    for spec in specs:
        started = time.process_time()
        model = system(spec.model).fit(seen.X, seen.y, sample_domain=seen.domain)
        yield _predicted(spec, model.predict, seen.X_test, started)


def _predicted(spec: Spec, predict: Callable[[Any], Any], X_test: Any, started: float) -> Fitted:
    """Predictions of a model whose fit began at ``started``.

    Processor time: it can be compared on a machine that has other work, too.
    """
    fitted = time.process_time()
    predicted = np.asarray(to_numpy(predict(X_test)))
    return Fitted(spec, predicted, fitted - started, time.process_time() - fitted)


def _calibration(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Expected calibration error on test rows, in points; classes that `fit` never saw count."""
    from marda.criteria import expected_calibration_error

    P, place = to_numpy(model.predict_proba(X)), np.searchsorted(model.classes_, y)
    unseen = ~np.isin(y, model.classes_)
    if unseen.any():
        P, place = np.column_stack([P, np.zeros(len(P))]), np.where(unseen, P.shape[1], place)
    facts = {"ece": 100 * expected_calibration_error(P, place)}
    if "expected_accuracy" in model.calibration_:
        facts["expected"] = 100 * model.calibration_["expected_accuracy"]
    if "expected_interval" in model.calibration_:
        low, high = model.calibration_["expected_interval"]
        facts |= {"expected_low": 100 * low, "expected_high": 100 * high}
    return facts


def _members(model: Any, X: Any, y: Any) -> dict[str, float]:
    """The best that a member alone would have reached, in hindsight."""
    said = [model.classes_[to_numpy(member.scores(X)).argmax(1)] for member in model.members_]
    return {
        "best_member_accuracy": 100 * max(float(np.mean(one == y)) for one in said),
        "best_member_balanced_accuracy": 100 * max(balanced_accuracy(y, one) for one in said),
    }
