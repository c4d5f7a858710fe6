"""Stacking: what labels of the target tell of explanations of the shift (math.md §18).

Every explanation k gives the labelled target rows log-probabilities L_k(x) by models that have not
seen their labels. The predictions are those of a weighted sum of all of them,

    P(c | x) = softmax_c Σ_k a_k L_k(x),

with the weights, at least 0, that make the n labels most likely, held to beliefs q_k:

    min over a ≥ 0 of  −Σ_i log P(y_i | x_i) + λ Σ_k (a_k − q_k)².

Of explanations that were believed in before any label was read, with weights p_k, one is true:
q_k ∝ p_k Π_i P_k(y_i | x_i), by Bayes' rule, a label in twenty being anything. All others, which
learn from the labels, have q_k = 0.

So no label changes nothing, a few move the weights as far as they contradict, and many decide. An
explanation in whose disfavour nothing speaks but that another is as good keeps its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from marda._arrays import rows_at
from marda._order import stack_rows
from marda._validation import UNLABELED
from marda.estimators.accuracy_estimation import expected_accuracy
from marda.selection.adapted_ensemble import AdaptedFit, MemberFits
from marda.selection.ensemble import Ensemble, Member, calibrate_ensemble
from marda.selection.inputs import Inputs, stratified_folds
from marda.selection.source_only import SourceOnly, fit_source_only
from marda.shift import Explanation

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

Adapt = Callable[[MemberFits, Any], AdaptedFit]

#: Names of models that learn from labelled target rows begin so: beside the source's, or alone.
LEARNED = ("source and labels", "labels only")
#: λ: how many labels, about, it takes to give up what was believed in before.
BELIEF = 4.0
#: Share of labels that may be anything, whatever is true.
ANYTHING = 0.05
#: Of an explanation.
MAX_WEIGHT = 3.0
#: Log-probabilities are no lower: a model that is sure and wrong is wrong once, not for ever.
LOWEST = -5.0
N_FOLDS = 3
#: Adapted models are fitted without some of the labels on at most this many rows per domain.
COMPARED_ROWS = 1000
#: Labels of every class that a model of the labelled target rows alone needs; classes that fewer
#: target rows than this share seem to have are none.
LEAST_LABELS, RARELY = 3, 0.02


# The weights --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BaseModels:
    """Models that say the same, and what they say of labelled target rows.

    Attributes
    ----------
    members : tuple of Member
        The weighted sum of their scores are log-probabilities, up to a constant per row.
    left_out : array of shape (n_labelled, n_classes)
        Log-probabilities of the labelled target rows by models without their labels.
    belief : float
        Weight before any label is read.
    """

    members: tuple[Member, ...]
    left_out: Matrix
    belief: float


def stack(models: Sequence[BaseModels], codes: Index) -> tuple[list[Member], Matrix, Vector]:
    """The members of all explanations, weighed by labels.

    Parameters
    ----------
    models : sequence of BaseModels
        One per explanation that may be true.
    codes : array of shape (n_labelled,)
        Classes of the labelled target rows.

    Returns
    -------
    members : list of Member
        Those of explanations with a weight; their scores are log-probabilities.
    left_out : array of shape (n_labelled, n_classes)
        Log-probabilities of the labelled rows by weighted sums, whose weights do not know them.
    weights : array of shape (n_explanations,)
        a.
    """
    S = np.stack([np.maximum(_centred(one.left_out), LOWEST) for one in models])
    belief = np.array([one.belief for one in models])

    def weigh(rows: Index) -> Vector:
        seen = S[:, rows], codes[rows]
        return _weights(*seen, _after(*seen, belief))

    def without(held: Index) -> Callable[[Index], Matrix]:
        weights = weigh(np.setdiff1d(np.arange(len(codes)), held))
        return lambda rows: np.asarray(log_softmax(np.tensordot(weights, S[:, rows], 1), axis=1))

    weights = weigh(np.arange(len(codes)))
    members = [
        replace(member, weight=float(weight) * member.weight)
        for one, weight in zip(models, weights, strict=True)
        for member in one.members
        if weight > 0
    ]
    # Weights have seen the labels, too: those of a row are found without it.
    left_out = left_out_scores(without, codes, seed=0) if len(codes) else np.empty((0, S.shape[2]))
    return members, left_out, weights


def _after(S: Matrix, codes: Index, belief: Vector) -> Vector:
    """q: beliefs after the labels, of the same sum as before."""
    before = np.flatnonzero(belief > 0)
    likely = np.exp(S[before][:, np.arange(len(codes)), codes])
    likely = (1 - ANYTHING) * likely + ANYTHING / S.shape[2]
    after = belief.copy()
    after[before] = softmax(np.log(belief[before]) + np.log(likely).sum(1)) * belief.sum()
    return np.asarray(after)


def _weights(S: Matrix, codes: Index, belief: Vector) -> Vector:
    """a: a convex problem."""
    rows = np.arange(len(codes))
    own = S[:, rows, codes]

    def loss(a: Vector) -> tuple[float, Vector]:
        log_p = log_softmax(np.tensordot(a, S, 1), axis=1)
        expected = np.einsum("nc,knc->kn", np.exp(log_p), S)
        off = a - belief
        value = BELIEF * float(off @ off) - float(log_p[rows, codes].sum())
        return value, 2 * BELIEF * off + (expected - own).sum(1)

    found = minimize(loss, belief, jac=True, bounds=[(0, MAX_WEIGHT)] * len(belief))
    weights = np.where(found.x > 1e-3, found.x, 0.0)
    return weights if weights.any() else belief


def _centred(L: Matrix) -> Matrix:
    """Log-probabilities of sum 1, whatever constants rows had."""
    return np.asarray(log_softmax(L, axis=1))


def left_out_scores(
    fit: Callable[[Index], Callable[[Index], Matrix]], codes: Index, seed: int
) -> Matrix:
    """Scores of labelled rows by models that were fitted without their labels.

    Parameters
    ----------
    fit : callable
        From the places of labels that are to be hidden to a callable from places to scores.
    codes : array of shape (n_labelled,)
        Classes: folds have a share of each.
    seed : int
        Draws folds.

    Returns
    -------
    array of shape (n_labelled, n_classes)
    """
    fold = stratified_folds(codes, N_FOLDS, seed)
    scores: Any = None
    for k in range(min(N_FOLDS, len(codes))):
        held = np.flatnonzero(fold == k)
        found = fit(held)(held)
        scores = np.zeros((len(codes), found.shape[1])) if scores is None else scores
        scores[held] = found
    return np.asarray(scores)


# What they are weights of -------------------------------------------------------------------------


@dataclass(frozen=True)
class ExplainedModel:
    """A model of labelled rows, on target rows brought to the source as an explanation says."""

    name: str
    inputs: Inputs
    model: SourceOnly
    weight: float = 1.0
    explanation: Explanation | None = None

    @classmethod
    def of(cls, model: SourceOnly) -> ExplainedModel:
        """The model of the source, as it is."""
        return cls(f"source only, {model.kind}", Inputs("raw"), model)

    def scores(self, X: Any) -> Matrix:
        """Log-probabilities of target rows."""
        return self.model.scores(self.inputs.apply(X))

    def member(self, target: Any) -> Member:
        """Of weight 1, with its scores of the target rows of the fit."""
        S = self.scores(target)
        return Member(self.name, self.inputs, self.model, 1.0, 1.0, S - S.mean(1, keepdims=True))


def learned_models(
    fits: MemberFits,
    labelled: Index,
    models: Sequence[ExplainedModel],
    *,
    row_weights: Callable[[Index, Index], Vector],
    with_prior: Callable[[Explanation | None, SourceOnly], SourceOnly],
    target: Any,
) -> Iterator[tuple[ExplainedModel, Matrix]]:
    """Models that learn from labelled target rows, with what they say of those left out.

    Parameters
    ----------
    fits : MemberFits
        The rows.
    labelled : array of int
        Places of labelled target rows.
    models : sequence of ExplainedModel
        Models of the source, each of which gets a copy that learns from these rows, too.
    row_weights : callable
        From classes and domains of labelled rows to their weights.
    with_prior : callable
        A model with the class prior that an explanation tells of.
    target : array
        A sample of target rows: of classes that they seem to have, enough must be labelled.
    """
    n_classes = len(fits.labels.classes)
    ours = np.flatnonzero((fits.labels.codes != UNLABELED) & (fits.domain >= 0))
    source, n = fits.X[ours], len(ours)
    rows, codes = fits.X[labelled], fits.labels.codes[labelled]
    together = np.concatenate([fits.labels.codes[ours], codes])
    weights = row_weights(together, np.repeat([0, -1], [n, len(codes)]))
    fitted = partial(
        fit_source_only, n_classes=n_classes, classes=fits.labels.classes, seed=fits.seed
    )
    for one in models:
        fitted_one = fitted(
            stack_rows(source, one.inputs.apply(rows)), together, sample_weight=weights
        ).chosen
        pooled = replace(
            one,
            name=one.name.replace("source only", LEARNED[0], 1),
            model=with_prior(one.explanation, fitted_one.model),
            weight=1.0,
        )
        yield pooled, fitted_one.left_out[n:] + pooled.model.bias
    found = np.concatenate([one.scores(target).argmax(1) for one in models])
    predicted = np.bincount(found, minlength=n_classes) > RARELY * len(found)
    enough = np.bincount(codes, minlength=n_classes) >= LEAST_LABELS
    if enough.sum() < 2 or (predicted & ~enough).any():
        return
    fitted_one = fitted(rows, codes, class_weight=fits.class_weight).chosen
    model = with_prior(models[0].explanation, fitted_one.model)
    alone = ExplainedModel(f"{LEARNED[1]}, {model.kind}", Inputs("raw"), model)
    yield alone, fitted_one.left_out + model.bias


def adapted_models(
    fits: MemberFits, labelled: Index, adapt: Adapt, fit: AdaptedFit, belief: float
) -> tuple[BaseModels, dict[str, float]]:
    """Adapted models, what they say of rows whose labels they have not seen, and calibration.

    Parameters
    ----------
    fits : MemberFits
        The rows.
    labelled : array of int
        Places of labelled target rows.
    adapt : callable
        Fits such models.
    fit : AdaptedFit
        What it gave for all rows.
    belief : float
        Weight before any label is read.
    """
    agreed = expected_accuracy(fit.target_skill, len(fits.labels.classes))
    ensemble, found = calibrate_ensemble(
        fit.members, fit.left_out, fits.X, fits.domain, fits.seed, agreed
    )
    sharpness = ensemble.sharpness

    def without(held: Index) -> Any:
        part = fits.without_labels(labelled[held], COMPARED_ROWS)
        members = Ensemble(tuple(adapt(part, _silent).members))
        rows = fits.member_rows
        return lambda places: sharpness * members.scores(rows_at(rows, labelled[places]))

    scores = left_out_scores(without, fits.labels.codes[labelled], fits.seed)
    members = tuple(replace(m, weight=sharpness * m.weight) for m in fit.members)
    return BaseModels(members, scores, belief), found


def _silent(what: str) -> None:
    """Parts of a step are not told of."""
