"""`fit_model`: rows and settings in, a `FittedModel` out; and the same from statistics alone.

Layers are fitted one after the other: the best route to the solution of (★) is tried first, another
one where it gives no right answer. Then comes the classifier: Z of the last solution, a ridge on
the concatenation of layers, or a classifier on features (self_training.py).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from marda._arrays import (
    InaccurateError,
    SingularError,
    device_memory,
    is_numpy,
    namespace,
    rows_at,
)
from marda._machine import format_bytes
from marda._order import row_order
from marda._validation import UNLABELED
from marda.estimators.dscm import denoised_means
from marda.estimators.kernel_ridge import MAX_EXACT
from marda.estimators.model import (
    ACTIVATIONS,
    FittedModel,
    Layer,
    ModelSettings,
    TrainingRows,
    centers_for,
)
from marda.estimators.self_training import Trained, train_on_features
from marda.moments import Moments, accumulate
from marda.noise import Dropout, Gaussian, Noise, Poisson
from marda.operators.cost import Workload, routes
from marda.operators.maps import DenoisingMap, IdentityMap
from marda.problem import Problem, Settings
from marda.solve import Solution, solve
from marda.terms import parse_method

Matrix = NDArray[Any]


@dataclass
class Shared:
    """What models of the same rows may share: give one to all of their fits, and drop it then.

    Attributes
    ----------
    problems : dict
        Factorisations, by the settings that they depend on.
    moments : dict
        Sums of the rows: with Grams or without, in the order given or in their own.
    denoised : dict or None
        Denoised rows, by the settings that W depends on; None: they are not kept.
    loss : bool
        Whether the loss of an answer is asked for: it costs as much as a factorisation.
    single : bool
        Whether float32 rows may be denoised by float32 factors (by the dual and primal routes).
    last : bool
        Whether no other model is to come: what rows were denoised with is then dropped before a
        classifier is fitted on them.
    """

    problems: dict[Any, Problem] = field(default_factory=dict)
    moments: dict[tuple[bool, bool], Moments] = field(default_factory=dict)
    denoised: dict[Any, Matrix] | None = None
    loss: bool = True
    single: bool = False
    last: bool = False


def fit_model(
    rows: TrainingRows, settings: ModelSettings, shared: Shared | None = None
) -> FittedModel:
    """Learn W, and the classifier if there is one.

    Parameters
    ----------
    rows : TrainingRows
        Checked rows of all domains.
    settings : ModelSettings
        Checked parameters.
    shared : Shared, default=None
        Of models that are fitted on the same rows.
    """
    found = _fit(rows, settings, shared)
    return found.model if isinstance(found, Trained) else found


def fit_and_score(
    rows: TrainingRows, settings: ModelSettings, shared: Shared | None = None
) -> tuple[FittedModel, NDArray[np.float64]]:
    """A model, and its scores of the target rows (of all rows, if there is no target)."""
    found = _fit(rows, settings, shared)
    if isinstance(found, Trained):
        return found.model, found.target_scores()
    target = rows.domain < 0
    return found, found.scores(rows.X[target] if target.any() else rows.X)


def _fit(
    rows: TrainingRows, settings: ModelSettings, shared: Shared | None
) -> FittedModel | Trained:
    labels = rows.labels
    if settings.classifier is None:
        return fit_layers(rows, settings, shared)[0]
    if len(labels.classes) < 2:
        raise ValueError(
            f"y must have at least 2 classes, got one class: {labels.classes.tolist()}."
        )
    first = settings
    if settings.refine != 0 and rows.setting == "US":  # until there are pseudo-labels
        first = replace(settings, terms=replace(settings.terms, class_mmd=False))
    keeping = settings.on_features and shared is not None and shared.denoised is not None
    model, solution = fit_layers(
        rows,
        first if not keeping else replace(first, center=False),
        shared,
        predictor=settings.is_ridge and not settings.on_features,
    )
    model = replace(model, classes=labels.classes)
    if settings.n_layers == 1:
        model = _with_predictor(model, solution, settings)
    if settings.on_features:
        kept = None if shared is None else _kept_rows(rows, first, model, solution, shared)
        if keeping and settings.center:
            means = model.group_means(rows, settings.class_weight, kept)
            model = replace(model, centers=centers_for(means))
        class_weights = solution.problem.class_weights
        if shared is not None and shared.last:
            shared.problems.clear()
            shared.moments.clear()
        del solution
        return train_on_features(
            model,
            rows,
            settings,
            class_weights,
            # Not shared: labels are others, and so are their moments.
            relearn=lambda some, changed: fit_layers(some, changed)[0],
            kept=kept,
        )
    if settings.n_layers > 1:
        return _with_ridge(model, rows, settings)
    return model


def fit_moments(moments: Moments, settings: ModelSettings) -> FittedModel:
    """Learn from statistics alone: one layer by the primal route, and "ridge" or "dscm"."""
    if settings.n_layers > 1:
        raise ValueError("n_layers above 1 needs rows: moments of the next layer are not known.")
    if settings.n_pivots is not None:
        raise ValueError("n_pivots needs rows: moments do not tell which features are frequent.")
    if settings.solver not in ("auto", "primal"):
        raise ValueError(f"solver={settings.solver!r} needs rows: moments are for 'primal'.")
    weights = moments.class_weights(settings.class_weight)
    problem = Problem(moments, settings.problem, "primal", weights)
    dtype = problem.center.dtype
    layer, solution = _solved(problem, settings, dtype, predictor=settings.is_ridge)
    unlabelled = moments.labels == UNLABELED
    labelled_target = bool(((moments.domains < 0) & ~unlabelled).any())
    setting = ("SS" if labelled_target else "US") if unlabelled.any() else "SUP"
    model = _model((layer,), solution, settings, np.unique(moments.domains), setting)
    if settings.classifier is None:
        return model
    model = _with_predictor(replace(model, classes=moments.classes), solution, settings)
    if settings.classifier == "dscm":
        model = replace(model, classifier=denoised_means(moments, layer.map))
    return model


# Layers -----------------------------------------------------------------------------------------


def fit_layers(
    rows: TrainingRows,
    settings: ModelSettings,
    shared: Shared | None = None,
    *,
    predictor: bool = False,
) -> tuple[FittedModel, Solution]:
    """Fit `n_layers` maps; the solution of the last has the class predictor, if wanted.

    The solution holds every factorisation: it is not to be kept after the fit.
    """
    if settings.terms.joint and len(rows.labels.classes) < 2:
        raise ValueError(
            f"method={settings.terms.name!r} needs labels of at least 2 classes in y, got "
            f"{'one class' if len(rows.labels.classes) else 'none'}."
        )
    layers: list[Layer] = []
    below = rows
    for depth in range(settings.n_layers):
        layer, solution = _fit_layer(below, settings, predictor and settings.n_layers == 1, shared)
        layers.append(layer)
        if depth < settings.n_layers - 1:
            H = ACTIVATIONS[settings.activation](layer.map.apply(below.X))
            below = replace(rows, X=H)
    model = _model(tuple(layers), solution, settings, np.unique(rows.domain), rows.setting)
    if settings.center:
        means = model.group_means(rows, settings.class_weight)
        model = replace(model, centers=centers_for(means))
    return model, solution


def _model(
    layers: tuple[Layer, ...],
    solution: Solution,
    settings: ModelSettings,
    domains: NDArray[np.int64],
    setting: str,
) -> FittedModel:
    """What all models have; says how the alternation ended."""
    if not solution.converged:
        warnings.warn(
            f"the alternation of {solution.model.name} stopped at max_iter={settings.max_iter} "
            f"before the loss settled to tol={settings.tol:g}: raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=6,
        )
    if settings.verbose:
        print(
            f"[marda] {solution.model.name}: {solution.n_iter} alternation(s), "
            f"loss {solution.loss_curve[-1] if solution.loss_curve else float('nan'):.6g}"
        )
    return FittedModel(
        layers,
        domains,
        setting,
        np.array(solution.loss_curve),
        solution.n_iter,
        solution.residual,
        settings.activation,
        bool(settings.concatenate),
        bool(settings.normalize),
    )


def _fit_layer(
    rows: TrainingRows, settings: ModelSettings, predictor: bool, shared: Shared | None
) -> tuple[Layer, Solution]:
    X = rows.X
    if isinstance(settings.problem.noise, Poisson):
        least = float(X.min() if is_numpy(X) else namespace(X).min(X))
        if least < 0:
            raise ValueError(f"Poisson noise needs non-negative features, got {least:g}.")
    solvers = _routes(rows, settings, predictor)
    for solver in solvers:
        try:
            problem = _shared_problem(solver, rows, settings, shared)
            loss = shared is None or shared.loss
            return _solved(problem, settings, X.dtype, predictor=predictor, loss=loss)
        except (SingularError, InaccurateError) as error:
            # Right by another route, or refused
            if solver == solvers[-1]:
                raise
            if settings.verbose:
                print(f"[marda] solver {solver!r} gave no right answer: {error}")
    raise AssertionError("unreachable")


def _solved(
    problem: Problem, settings: ModelSettings, dtype: Any, *, predictor: bool, loss: bool = True
) -> tuple[Layer, Solution]:
    """Solve, and keep what denoising needs."""
    solution = solve(
        problem,
        settings.terms,
        predictor=predictor,
        max_iter=settings.max_iter,
        tol=settings.tol,
        loss=loss,
    )
    solution.check()
    d = problem.moments.n_features
    base = IdentityMap(d) if solution.denoiser is None else solution.denoiser.freeze()
    frozen = DenoisingMap(
        base,
        solution.delta[:d, ...],
        solution.basis,
        solution.offset(),
        dtype,
        center=problem.center,
        at_center=solution.at_center(),
    )
    return Layer(frozen, problem.solver, problem.outputs), solution


def _routes(rows: TrainingRows, settings: ModelSettings, predictor: bool) -> list[str]:
    """The routes to try, best first; one that the user chose stands alone."""
    X, terms, problem = rows.X, settings.terms, settings.problem
    n, d = X.shape
    n_labelled = int((rows.labels.codes != UNLABELED).sum())
    work = Workload(
        n_rows=n,
        n_labelled=n_labelled,
        n_features=d,
        n_outputs=min(d, settings.n_pivots or d),
        n_classes=len(rows.labels.classes),
        n_stored=X.nnz if sp.issparse(X) else n * d,
        itemsize=X.dtype.itemsize if is_numpy(X) else 8,
        sparse=sp.issparse(X),
        joint=terms.joint,
        coupled=terms.joint and terms.domain and n_labelled < n,
        domain=terms.domain,
        predictor=predictor,
        plain=not terms.denoise,
    )
    # The dual route divides by the diagonal of G: noise or a ridge must fill it.
    ridge = problem.ridge if terms.denoise else problem.ridge_class
    divides = ridge > 0 and problem.ridge_class > 0
    found = routes(work, settings.solver, dual=divides, limit=device_memory(X))
    if settings.verbose:
        solver, cost = found[0]
        print(
            f"[marda] {n} rows × {d} features: solver {solver!r}, about "
            f"{cost.flops:.2g} flops and {format_bytes(cost.bytes)}"
        )
    return [solver for solver, _ in found]


def _make_problem(
    solver: str,
    rows: TrainingRows,
    settings: ModelSettings,
    shared: Shared,
) -> Problem:
    X, codes, domain = rows.X, rows.labels.codes, rows.domain
    outputs = _pivots(X, settings.n_pivots)
    grams, given = solver == "primal", True
    if not grams or settings.class_weight is not None:
        # In an order of their own: iterations would amplify the rounding of sums. A copy: the
        # problem takes it over, and the map keeps it.
        order = _row_order(rows)
        X, codes, domain, given = rows_at(X, order), codes[order], domain[order], False
    known = shared.moments
    if (grams, given) not in known:
        known[grams, given] = accumulate(X, rows.labels.classes, codes, domain, grams=grams)
    moments = known[grams, given]
    weights = moments.class_weights(settings.class_weight)
    held: dict[str, Any] = {}
    if not grams or not np.all(weights == 1):  # else Grams say it all
        held = {"X": X, "row_groups": moments.row_groups(domain, codes)}
    single = shared.single and is_numpy(X) and X.dtype == np.float32
    return Problem(
        moments, settings.problem, solver, weights, outputs=outputs, single=single, **held
    )


def _row_order(rows: TrainingRows) -> NDArray[np.int64]:
    """An order that does not depend on how rows came, with the labelled ones first."""
    codes = rows.labels.codes
    given = rows.ordered or not is_numpy(rows.X)  # of other libraries, they stay as they came
    order = np.arange(len(codes)) if given else row_order(rows.X, rows.domain, codes)
    return np.asarray(order[np.argsort(codes[order] == UNLABELED, kind="stable")])


def _pivots(X: Any, n_pivots: int | None) -> NDArray[np.int64] | None:
    """The columns that are non-zero in the most rows; ties go to the larger sum of squares."""
    if n_pivots is None or n_pivots >= X.shape[1]:
        return None
    if sp.issparse(X):
        frequency = np.bincount(X.indices[X.data != 0], minlength=X.shape[1])
        squares = np.asarray(X.multiply(X).sum(0), dtype=np.float64).ravel()
    else:
        frequency = np.count_nonzero(X, axis=0)
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    return np.sort(np.lexsort((-squares, -frequency))[:n_pivots])


# What models of the same rows share -------------------------------------------------------------


def _shared_problem(
    solver: str, rows: TrainingRows, settings: ModelSettings, shared: Shared | None
) -> Problem:
    """The problem of these rows, which another model may have factorised."""
    if shared is None or settings.n_layers > 1:
        return _make_problem(solver, rows, settings, Shared())
    key = (solver, *_key(settings))
    if key not in shared.problems:
        shared.problems[key] = _make_problem(solver, rows, settings, shared)
    return shared.problems[key]


def _key(settings: ModelSettings) -> tuple[Any, ...]:
    """Whatever a problem depends on, beside its rows and the route."""
    problem = settings.problem
    numbers = (getattr(problem, f.name) for f in fields(problem) if f.name != "noise")
    weights = repr(settings.class_weight)
    return (_noise_key(problem.noise), *numbers, weights, settings.n_pivots)


def _noise_key(noise: Noise) -> Any:
    if not isinstance(noise, Dropout | Gaussian | Poisson):
        return id(noise)  # of a problem that is kept, and so is its noise
    values = (np.asarray(getattr(noise, f.name), dtype=np.float64) for f in fields(noise))
    return type(noise), *(value.tobytes() for value in values)


def _kept_rows(
    rows: TrainingRows,
    settings: ModelSettings,
    model: FittedModel,
    solution: Solution,
    shared: Shared,
) -> Matrix | None:
    """All rows, denoised once for all models of this W; None: they cost more to keep."""
    many = rows.X.shape[0] > MAX_EXACT and model.denoises_quickly(rows.X)
    if shared.denoised is None or settings.n_layers > 1 or many:
        return None
    found = (settings.terms, settings.solver, settings.max_iter, settings.tol, *_key(settings))
    if found not in shared.denoised:
        shared.denoised[found] = _denoised(rows, model, solution)
    return shared.denoised[found]


def _denoised(rows: TrainingRows, model: FittedModel, solution: Solution) -> Matrix:
    """All rows, denoised by their own W: its factors may know them."""
    known = None
    if solution.denoiser is not None and not solution.delta.shape[1]:
        order, level = _row_order(rows), solution.at_center()
        known = solution.denoiser.denoised_rows(order, level, rows.X.dtype)
    found: Matrix = model.denoised(rows.X) if known is None else known
    return found


# Class predictors -------------------------------------------------------------------------------


def _with_predictor(model: FittedModel, solution: Solution, settings: ModelSettings) -> FittedModel:
    """Z, where the solution has one: "ridge", and every joint method."""
    if solution.Z is None:
        return model
    model = replace(model, Z=solution.Z, z0=solution.predictor_intercept())
    if not settings.is_ridge or settings.on_features:  # a ridge on features has a Z of its own
        return model
    coef, intercept = solution.coef()
    return replace(model, coef=coef, intercept=intercept)


def _with_ridge(model: FittedModel, rows: TrainingRows, settings: ModelSettings) -> FittedModel:
    """Ridge on the concatenated layers: no noise, since it does not pass the activation."""
    known = rows.labels.codes != UNLABELED
    codes, domain = rows.labels.codes[known], rows.domain[known]
    H = model.features(rows.X[known])
    tall = H.shape[0] > H.shape[1]
    moments = accumulate(H, rows.labels.classes, codes, domain, grams=tall)
    plain = Settings(
        Dropout(0.0),
        ridge_class=settings.problem.ridge_class,
        fit_intercept=settings.problem.fit_intercept,
    )
    weights = moments.class_weights(settings.class_weight)
    groups = moments.row_groups(domain, codes)
    solver = "primal" if tall else "dual"
    problem = Problem(moments, plain, solver, weights, X=H, row_groups=groups)
    solution = solve(problem, parse_method("BL"), predictor=True)
    solution.check()
    return replace(
        model,
        Z=solution.Z,
        z0=solution.predictor_intercept(),
        residual=max(model.residual or 0.0, solution.residual),
    )
