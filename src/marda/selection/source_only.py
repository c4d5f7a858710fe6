"""Source-only models: linear, kernel, trees or a pool of them, chosen by left-out source rows.

All of them give log-probabilities log P(c | x) = log_softmax(τ S(x) + b), with the scores S of a
regression (regressions.py) or the log class shares of a forest, the sharpness τ that gives left-out
source rows the least log-loss (math.md §14), and b = 0 until other class shares are asked for:
b_c = log(target share of c / source share of c).

- The linear model is a logistic regression on columns in units of their spread, with tails that
  end (inputs.py), or on the principal directions of these in units of theirs,
  which no rotation of the columns changes; whichever predicts left-out folds better.
- The kernel model is a ridge on similarities to some rows, which knows its leave-one-out scores.
- The forest leaves rows out of the trees that have not drawn them.
- Boosted trees leave out rows by folds.
- The pool adds the log-probabilities of these four with the weights, at least 0, that give
  left-out rows the least log-loss.

Columns that number the rows are left out. Wide rows, of images and words, are given unit length,
and the linear model alone. Else the pool is chosen: left-out rows say how much of each kind is in
it, and where kinds are equal on the source, together they are safer on the target than one of them.

Of very many rows these are a sample. Linear and kernel models then learn from sums over all others,
too (`fit_all_rows`). The rows of the sample are not part of these sums at first: so they are
left-out rows of the new models, as they are of the old ones, and tell which of the two is better.
Then their own sums are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from marda._arrays import log_softmax, to_numpy
from marda._progress import tell
from marda.estimators.kernel_ridge import GaussianRidge
from marda.moments.features import (
    FixedFeatures,
    RestOfRows,
    RowSums,
    landmark_basis,
    similarity,
)
from marda.selection.ensemble import best_sharpness, spread_of
from marda.selection.inputs import Inputs, robust_inputs, stratified_folds, telling_columns
from marda.selection.regressions import (
    LEAST,
    WIDE_RIDGES,
    LabelledRows,
    Linear,
    Ridge,
    View,
    column_views,
    cross_validated,
    logistics,
    unit_views,
    wide_ridges,
)
from marda.trees.boosting import Boosted, fit_boosted
from marda.trees.forest import Forest, fit_forest

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: The kinds of source-only models, the simplest first.
SOURCE_KINDS = ("linear", "kernel", "forest", "boosting", "pool")
#: How long each takes, about, in units of the first, for who waits.
PARTS = {"linear": 1.0, "kernel": 1.5, "forest": 4.0, "boosting": 2.0}
#: Rows of more columns have unit length, and a linear model only.
WIDE = 500
#: Penalties of kernel ridges, in units of the mean squared feature times the number of rows.
KERNEL_RIDGES = tuple(10.0**k for k in range(-5, 1))
#: Widths of the Gaussian kernel, in units of the variance of rows.
WIDTHS = (1.0, 0.25)
#: Rows that others are compared with.
LANDMARKS = 500
#: Up to this many, rows or columns, a ridge of wide rows inverts their products.
INVERTED = 5000
#: Inverse penalties of logistic regression on columns, and on wide rows.
PENALTIES = (0.01, 0.1, 1.0)
WIDE_PENALTIES = (1.0, 10.0, 100.0)
#: Tails of columns begin so many spreads from their middle, for the kernel.
KERNEL_KNEE = 1.0
#: Penalties are compared on at most this many rows.
COMPARED_ROWS = 2000
#: Coefficients that a Newton step may have, those of all classes together.
MAX_COEFFICIENTS = 2048
#: Of a model in a pool.
MAX_WEIGHT = 10.0
#: Trees are boosted without one of so many parts of the rows.
BOOSTED_FOLDS = 3


@dataclass(frozen=True)
class Pool:
    """A weighted sum of the log-probabilities of several models."""

    parts: tuple[SourceOnly, ...]
    weights: Vector

    def scores(self, X: Any) -> Matrix:
        """Of rows, one column per class."""
        parts = (w * part.scores(X) for w, part in zip(self.weights, self.parts, strict=True))
        return np.asarray(sum(parts, start=np.zeros(())))


@dataclass(frozen=True)
class SourceOnly:
    """A calibrated model of the source.

    Attributes
    ----------
    inputs : Inputs
        Applied to rows first.
    model : Linear, GaussianRidge, Forest, Boosted or Pool
        Its scores; of a forest, the logarithm of its probabilities.
    sharpness : float
        τ.
    shares : array of shape (n_classes,)
        Class prior that the probabilities hold under: the class shares of the source, weighted by
        `class_weight` ("balanced": all the same).
    bias : array of shape (n_classes,)
        b.
    """

    inputs: Inputs
    model: Linear | GaussianRidge | Forest | Boosted | Pool
    sharpness: float
    shares: Vector
    bias: Vector

    @property
    def kind(self) -> str:
        """One of `SOURCE_KINDS`."""
        kinds = (Linear, GaussianRidge, Forest, Boosted, Pool)
        return SOURCE_KINDS[kinds.index(type(self.model))]

    def scores(self, X: Any) -> Matrix:
        """Log-probabilities of rows, one column per class."""
        rows = self.inputs.apply(to_numpy(X))
        if isinstance(self.model, Forest):
            S = log_shares(self.model.probabilities(rows))
        else:
            S = self.model.scores(rows)
        return np.asarray(log_softmax(self.sharpness * S + self.bias))

    def with_prior(self, target_shares: Any) -> SourceOnly:
        """The same model for rows with other class shares."""
        wanted = np.asarray(target_shares, dtype=np.float64)
        if wanted.shape != self.shares.shape or not (wanted >= 0).all() or not wanted.any():
            raise ValueError(
                f"target_shares must be {len(self.shares)} numbers of at least 0, not all 0, got "
                f"{target_shares!r}."
            )
        bias = np.log(_floored(wanted)) - np.log(_floored(self.shares))
        return replace(self, bias=bias)

    def get_params(self) -> dict[str, Any]:
        """What it is, for the record of a choice."""
        return {"source_only": self.kind, "sharpness": float(self.sharpness)}


def log_shares(P: Matrix) -> Matrix:
    """Logarithms of probabilities, none below `LEAST`."""
    return np.asarray(np.log((1 - LEAST) * P + LEAST / P.shape[1]))


def _floored(shares: Vector) -> Vector:
    floored = np.maximum(shares / shares.sum(), LEAST)
    return np.asarray(floored / floored.sum())


@dataclass(frozen=True)
class SourceFit:
    """A fitted source-only model, and what it says of source rows that it has not seen.

    Attributes
    ----------
    model : SourceOnly
        Of all rows.
    left_out : array of shape (n_rows, n_classes)
        Log-probabilities of the rows of the fit, each by a model without it.
    losses : array of shape (n_rows,)
        −log P of each row's own class.
    setting : tuple of int and float
        Of a linear model, which of its views was chosen (None: a ridge of wide rows), and the
        penalty.
    """

    model: SourceOnly
    left_out: Matrix
    losses: Vector
    setting: tuple[int | None, float] | None = None


@dataclass(frozen=True)
class SourceFits:
    """Source-only models of the same rows.

    Attributes
    ----------
    chosen : SourceFit
        The pool; where there is one kind only, that one.
    others : tuple of SourceFit
        All others, the simplest first.
    codes : array of shape (n_rows,)
        Classes of the rows.
    weights : array of shape (n_rows,)
        Their weights, by class.
    """

    chosen: SourceFit
    others: tuple[SourceFit, ...]
    codes: Index
    weights: Vector


def _calibrated(rows: LabelledRows, inputs: Inputs, model: Any, left_out: Matrix) -> SourceFit:
    """The calibrated model, given scores of left-out rows."""
    unit = spread_of(left_out)
    tau = best_sharpness(left_out / unit, rows.codes, rows.weights) / unit
    shares = np.bincount(rows.codes, rows.weights, minlength=rows.n_classes)
    log_p = log_softmax(tau * left_out)
    found = SourceOnly(inputs, model, tau, shares / shares.sum(), np.zeros(rows.n_classes))
    return SourceFit(found, log_p, -log_p[np.arange(len(log_p)), rows.codes])


def _loss(rows: LabelledRows, fit: SourceFit) -> float:
    """Mean log-loss of left-out rows."""
    return float(np.average(fit.losses, weights=rows.weights))


def _simplest(rows: LabelledRows, fits: Sequence[SourceFit]) -> SourceFit:
    """The first, until another predicts left-out rows better by a standard error."""
    chosen, w = fits[0], rows.weights / rows.weights.sum()
    for fit in fits[1:]:
        gain = chosen.losses - fit.losses
        mean = float(w @ gain)
        if mean > float(np.sqrt(w**2 @ (gain - mean) ** 2)):
            chosen = fit
    return chosen


def fit_source_only(
    X: Any,
    codes: Index,
    n_classes: int,
    *,
    class_weight: Any = None,
    classes: Any = None,
    seed: int,
    kinds: tuple[str, ...] = SOURCE_KINDS,
    sample_weight: Any = None,
) -> SourceFits:
    """Fit source-only models of every kind that suits the rows, and choose one.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        Labelled rows.
    codes : array of int of shape (n_rows,)
        Their classes, 0 … n_classes − 1.
    n_classes : int
        Columns of the scores.
    class_weight : None, "balanced" or mapping, default=None
        Weights of classes; the keys of a mapping are entries of `classes`.
    classes : array of shape (n_classes,), default=None
        Label values; None: the codes.
    seed : int
        Draws landmarks, folds and trees.
    kinds : tuple of str, default=SOURCE_KINDS
        Which ones to fit.
    sample_weight : array of shape (n_rows,), default=None
        Weights of rows, in place of those of classes.

    Returns
    -------
    SourceFits
    """
    rows = _labelled_rows(X, codes, n_classes, class_weight, classes, seed, sample_weight)
    ways = _ways(rows)
    chosen_kinds = [kind for kind in SOURCE_KINDS if kind in kinds and kind in ways]
    fits = []
    done, total = 0.0, sum(PARTS[kind] for kind in chosen_kinds)
    for kind in chosen_kinds:
        tell(done / total)
        fits.append(ways[kind](rows))
        done += PARTS[kind]
    if "pool" in kinds and len(fits) > 1:
        fits.append(_fit_pool(rows, fits))
    *others, chosen = fits
    return SourceFits(chosen, tuple(others), codes, rows.weights)


def trees_alone(fits: SourceFits) -> SourceFits:
    """The same, with a pool of the trees, which do not go on beyond the rows as lines do.

    Parameters
    ----------
    fits : SourceFits
        With a pool.
    """
    trees = [fit for fit in fits.others if isinstance(fit.model.model, Forest | Boosted)]
    n_classes = fits.chosen.left_out.shape[1]
    rows = LabelledRows(None, fits.codes, n_classes, fits.weights, 0)
    return replace(fits, chosen=_fit_pool(rows, trees))


def _with_models(fits: SourceFits, found: Sequence[tuple[Inputs, Any, Matrix]]) -> SourceFits:
    """The same choice, among these models and others of the same kinds.

    Parameters
    ----------
    fits : SourceFits
        Source-only models.
    found : sequence of tuples
        Inputs, a model, and scores of the rows of `fits` by one that has not seen them. Each
        stands in for the model of its kind if left-out rows have a lower log-loss with it.
    """
    n_classes = fits.chosen.left_out.shape[1]
    rows = LabelledRows(None, fits.codes, n_classes, fits.weights, 0)
    by_kind = {fit.model.kind: fit for fit in (fits.chosen, *fits.others)}
    pooled = by_kind.pop("pool", None) is not None
    for inputs, model, left_out in found:
        fit = _calibrated(rows, inputs, model, left_out)
        old = by_kind.get(fit.model.kind)
        if old is None or _loss(rows, fit) < _loss(rows, old):
            by_kind[fit.model.kind] = replace(fit, setting=None if old is None else old.setting)
    models = [by_kind[kind] for kind in SOURCE_KINDS if kind in by_kind]
    if pooled and len(models) > 1:
        models.append(_fit_pool(rows, models))
    *others, chosen = models
    return SourceFits(chosen, tuple(others), fits.codes, fits.weights)


@dataclass(frozen=True)
class AllRows:
    """Source-only models of all rows where these are better, and what they learned from.

    Attributes
    ----------
    fits : SourceFits
        The models; left-out rows are those of the sample.
    kinds : tuple of str
        Those that all rows made, of the models that predict.
    n_rows : int
        Labelled rows that these have seen, the sample included.
    """

    fits: SourceFits
    kinds: tuple[str, ...]
    n_rows: int


def fit_all_rows(
    fits: SourceFits, X: Any, rest: RestOfRows, *, class_weight: Any = None, classes: Any = None
) -> AllRows:
    """Learn from the rows outside of a sample what sums tell.

    Parameters
    ----------
    fits : SourceFits
        Of the sample.
    X : array or sparse matrix of shape (n_rows, n_features)
        Its rows.
    rest : RestOfRows
        All others.
    class_weight, classes
        As in `fit_source_only`.
    """
    codes, n_classes = fits.codes, len(rest.counts)
    counts = rest.counts + np.bincount(codes, minlength=n_classes)
    weights = _class_weights(class_weight, counts, classes)
    if not rest.counts.any() or (weights * counts == 0).all():
        return AllRows(fits, (), 0)
    features = _fixed_features(fits, weights * counts.sum() / (weights @ counts))
    if not features.any:
        return AllRows(fits, (), 0)
    penalty = _penalty(fits, n_classes)
    others = rest.sums(features)
    everything = features.added(features.nothing(), X, codes) + others
    found = []
    for (inputs, judged), (_, model) in zip(
        _models(features, others, penalty),
        _models(features, everything, penalty),
        strict=True,
    ):
        found.append((inputs, model, judged.scores(inputs.apply(X))))
    chosen = _with_models(fits, found)
    made = [id(model) for _, model, _ in found]
    speaking = getattr(chosen.chosen.model.model, "parts", (chosen.chosen.model,))
    kinds = tuple(part.kind for part in speaking if id(part.model) in made)
    return AllRows(chosen, kinds, everything.n_rows if kinds else 0)


def _penalty(fits: SourceFits, n_classes: int) -> float:
    """Of the sample's logistic regression; that of two classes has one vector for both."""
    fit: SourceFit
    for fit in (fits.chosen, *fits.others):
        if fit.setting is not None and fit.setting[0] is not None:
            return (2.0 if n_classes == 2 else 1.0) / fit.setting[1]
    return 1.0


def _fixed_features(fits: SourceFits, weights: Vector) -> FixedFeatures:
    """Those of the models of a sample; rows of too many columns have none."""
    linear = kernel = None
    for fit in (fits.chosen, *fits.others):
        found = fit.model
        if isinstance(found.model, Linear):
            start = np.vstack([found.model.coef, found.model.intercept]) * found.sharpness
            if start.size <= MAX_COEFFICIENTS:
                linear = found.inputs, start
        elif isinstance(found.model, GaussianRidge):
            landmarks = np.asarray(found.model.basis_, dtype=np.float64)
            kernel = found.inputs, landmarks, float(found.model.variance_)
    return FixedFeatures(weights, linear, kernel)


def _models(features: FixedFeatures, sums: RowSums, penalty: float) -> Iterator[tuple[Inputs, Any]]:
    """The models that sums determine, with their inputs; one kernel per ridge."""
    if features.linear is not None:
        theta = features.stepped(sums, penalty)
        yield features.linear[0], Linear(theta[:-1], theta[-1])
    if features.kernel is not None:
        inputs, landmarks, variance = features.kernel
        classes = np.arange(len(features.weights))
        for coef, intercept in features.ridges(sums, KERNEL_RIDGES):
            yield inputs, GaussianRidge(classes, landmarks, coef, intercept, variance)


def fit_alike(
    fit: SourceFit,
    X: Any,
    codes: Index,
    n_classes: int,
    *,
    class_weight: Any = None,
    classes: Any = None,
    seed: int,
) -> Callable[[Any], Index]:
    """A model of other rows, of the kind of a given one, with its choices.

    Parameters
    ----------
    fit : SourceFit
        Whose choices are kept.
    X, codes, n_classes, class_weight, classes, seed
        As in `fit_source_only`.

    Returns
    -------
    callable
        From rows to codes of their classes.
    """
    rows = _labelled_rows(X, codes, n_classes, class_weight, classes, seed)
    if fit.setting is not None:
        which, penalty = fit.setting
        if which is None:
            (view,) = unit_views(rows)
            ridge, _ = next(wide_ridges(rows, view.F, (penalty,)))
            return lambda some: ridge.scores(view.inputs.apply(some)).argmax(1)
        views = unit_views(rows) if X.shape[1] > WIDE else column_views(rows, which + 1)
        view = views[which if which < len(views) else 0]  # few rows have no principal directions
        (fitted,) = logistics(rows, view.F, np.ones((1, len(codes)), dtype=bool), penalty)
        found = view.linear(fitted)
        return lambda some: found.scores(view.inputs.apply(some)).argmax(1)
    model = _ways(rows)[fit.model.kind](rows).model
    return lambda some: model.scores(some).argmax(1)


def _ways(rows: LabelledRows) -> dict[str, Callable[[LabelledRows], SourceFit]]:
    """How models of every kind that suits the rows are fitted."""
    if rows.X.shape[1] > WIDE:
        return {"linear": _fit_wide}
    return {
        "linear": _fit_linear,
        "kernel": _fit_kernel,
        "forest": _fit_forest,
        "boosting": _fit_boosting,
    }


def _labelled_rows(
    X: Any,
    codes: Index,
    n_classes: int,
    class_weight: Any,
    classes: Any,
    seed: int,
    sample_weight: Any = None,
) -> LabelledRows:
    sizes = np.bincount(codes, minlength=n_classes)
    weights = _class_weights(class_weight, sizes, classes)[codes]
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
    if (weights == 0).all():
        raise ValueError("class_weight leaves no row any weight.")
    columns = None if X.shape[1] > WIDE else telling_columns(X)
    return LabelledRows(X, codes, n_classes, weights / weights.mean(), seed, columns)


def _class_weights(weight: Any, sizes: Index, classes: Any = None) -> Vector:
    """Weights of a row of each class, given how many rows there are of each."""
    n_classes = len(sizes)
    if weight is None:
        return np.ones(n_classes)
    if isinstance(weight, str):
        share = np.zeros(n_classes)
        np.divide(sizes.sum(), n_classes * sizes, out=share, where=sizes > 0)
        return share
    if isinstance(weight, Mapping):
        names = list(range(n_classes)) if classes is None else np.asarray(classes).tolist()
        return np.array([float(weight.get(name, 1.0)) for name in names])
    return np.asarray(weight, dtype=np.float64)


# One kind each ------------------------------------------------------------------------------------


def _fit_kernel(rows: LabelledRows) -> SourceFit:
    """A Gaussian ridge on similarities to landmarks."""
    inputs = robust_inputs(rows.X, KERNEL_KNEE, rows.columns)
    F = inputs.apply(rows.X)
    n = len(F)
    chosen = np.arange(n)
    if n > LANDMARKS:
        chosen = np.sort(np.random.default_rng(rows.seed).choice(n, LANDMARKS, replace=False))
    basis, classes = F[chosen], np.arange(rows.n_classes)
    total = float(F.var(0).sum()) or 1.0
    found = []
    for width in WIDTHS:
        variance = width * total
        P, back = similarity(F, basis, variance), None
        if n > LANDMARKS:
            back = landmark_basis(basis, variance)
            P = P @ back
        ridge = Ridge(P, rows.Y, rows.weights, kernel=back is None)
        for penalty in KERNEL_RIDGES:
            coef, intercept, left_out = ridge.solve(penalty)
            coef = coef if back is None else back @ coef
            model = GaussianRidge(classes, basis, coef, intercept, variance)
            found.append(_calibrated(rows, inputs, model, left_out))
    return min(found, key=partial(_loss, rows))


def _fit_forest(rows: LabelledRows) -> SourceFit:
    """A forest; rows are left out of the trees that were not grown on them."""
    inputs = Inputs("raw", rows.columns)
    X = inputs.apply(rows.X)
    grown = fit_forest(X, rows.codes, rows.n_classes, weights=rows.weights, seed=rows.seed)
    return _calibrated(rows, inputs, grown.forest, log_shares(grown.out_of_bag))


def _fit_boosting(rows: LabelledRows) -> SourceFit:
    """Boosted trees; rows are left out by folds."""
    inputs = Inputs("raw", rows.columns)
    grown = fit_boosted(
        inputs.apply(rows.X),
        rows.codes,
        rows.n_classes,
        weights=rows.weights,
        folds=stratified_folds(rows.codes, BOOSTED_FOLDS, rows.seed),
        seed=rows.seed,
    )
    return _calibrated(rows, inputs, grown.model, grown.left_out)


def _fit_pool(rows: LabelledRows, fits: Sequence[SourceFit]) -> SourceFit:
    """The sum of log-probabilities with the least log-loss, which is convex in the weights."""
    S = np.stack([fit.left_out for fit in fits])
    own = S[:, np.arange(len(rows.codes)), rows.codes]
    w = rows.weights / rows.weights.sum()

    def loss(a: Vector) -> tuple[float, Vector]:
        log_p = log_softmax(np.tensordot(a, S, 1))
        expected = np.einsum("nc,knc->kn", np.exp(log_p), S)
        mine = log_p[np.arange(len(rows.codes)), rows.codes]
        return float(-(w @ mine)), np.asarray((expected - own) @ w)

    start = np.full(len(fits), 1 / len(fits))
    found = minimize(loss, start, jac=True, bounds=[(0, MAX_WEIGHT)] * len(fits))
    used = np.flatnonzero(found.x > 0)
    if not len(used):
        used, weights = np.arange(len(fits)), start
    else:
        weights = found.x[used]
    parts = tuple(fits[int(k)].model for k in used)
    return _calibrated(rows, Inputs("raw"), Pool(parts, weights), np.tensordot(weights, S[used], 1))


def _fit_wide(rows: LabelledRows) -> SourceFit:
    """A linear model of unit rows."""
    (view,) = views = unit_views(rows)
    if sp.issparse(view.F) or min(view.F.shape) > INVERTED:
        return _fit_logistic(rows, views, WIDE_PENALTIES)
    found = [
        replace(_calibrated(rows, view.inputs, *one), setting=(None, penalty))
        for penalty, one in zip(WIDE_RIDGES, wide_ridges(rows, view.F), strict=True)
    ]
    return min(found, key=partial(_loss, rows))


def _fit_linear(rows: LabelledRows) -> SourceFit:
    """Logistic regression on columns, on their principal directions, or with tails drawn in."""
    return _fit_logistic(rows, column_views(rows), PENALTIES)


def _fit_logistic(rows: LabelledRows, views: list[View], penalties: tuple[float, ...]) -> SourceFit:
    """The simplest view of those that are about as good as the best on left-out folds.

    Each has its best penalty.
    """
    n = len(rows.codes)
    some = np.arange(n)
    if n > COMPARED_ROWS:
        drawn = np.random.default_rng(rows.seed).choice(n, COMPARED_ROWS, replace=False)
        some = np.sort(drawn)
    few = replace(rows, X=None, codes=rows.codes[some], weights=rows.weights[some])
    tried: list[tuple[SourceFit, int, float, Matrix]] = []
    for which, view in enumerate(views):
        F = view.F if len(some) == n else view.F[some]
        found = []
        for penalty in penalties:
            left_out = cross_validated(few, F, penalty)
            no_model = Linear(left_out[:0], left_out[0])
            fit = _calibrated(few, view.inputs, no_model, left_out)
            found.append((fit, which, penalty, left_out))
        tried.append(min(found, key=lambda one: _loss(few, one[0])))
    chosen = _simplest(few, [one[0] for one in tried])
    _, which, penalty, left_out = next(one for one in tried if one[0] is chosen)
    view = views[which]
    (model,) = logistics(rows, view.F, np.ones((1, n), dtype=bool), penalty)
    if len(some) < n:
        left_out = cross_validated(rows, view.F, penalty)
    fit = _calibrated(rows, view.inputs, view.linear(model), left_out)
    return replace(fit, setting=(which, penalty))
