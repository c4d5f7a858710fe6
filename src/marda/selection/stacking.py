"""Target labels weigh the explanations of the shift (math.md §18).

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from marda.selection.ensemble import Member

__all__ = ["LEARNED", "Explanation", "left_out_scores", "stack"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Names of models that learn from labelled target rows begin so: beside the source's, or alone.
LEARNED = ("source and labels", "labels only")
#: λ: how many labels, about, it takes to give up what was believed in before.
BELIEF = 8.0
#: Share of labels that may be anything, whatever is true.
ANYTHING = 0.05
#: Of an explanation.
MAX_WEIGHT = 3.0
#: Log-probabilities are no lower: a model that is sure and wrong is wrong once, not for ever.
LOWEST = -5.0
N_FOLDS = 3


@dataclass(frozen=True)
class Explanation:
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


def stack(explanations: Sequence[Explanation], codes: Index) -> tuple[list[Member], Matrix, Vector]:
    """The members of all explanations, weighed by labels.

    Parameters
    ----------
    explanations : sequence of Explanation
        What may be true.
    codes : array of shape (n_labelled,)
        Classes of the labelled target rows.

    Returns
    -------
    members : list of Member
        Those of explanations with a weight; their scores are log-probabilities.
    left_out : array of shape (n_labelled, n_classes)
        Log-probabilities of the labelled rows by the weighted sum.
    weights : array of shape (n_explanations,)
        a.
    """
    S = np.stack([np.maximum(_centred(one.left_out), LOWEST) for one in explanations])
    belief = np.array([one.belief for one in explanations])
    weights = _weights(S, codes, _after(S, codes, belief))
    members = [
        replace(member, weight=float(weight) * member.weight)
        for one, weight in zip(explanations, weights, strict=True)
        for member in one.members
        if weight > 0
    ]
    left_out = log_softmax(np.tensordot(weights, S, 1), axis=1)
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
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(codes), dtype=np.int64)
    fold[order] = np.arange(len(codes)) % N_FOLDS
    scores: Any = None
    for k in range(min(N_FOLDS, len(codes))):
        held = np.flatnonzero(fold == k)
        found = fit(held)(held)
        scores = np.zeros((len(codes), found.shape[1])) if scores is None else scores
        scores[held] = found
    return np.asarray(scores)
