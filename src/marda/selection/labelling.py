"""Which target rows to label next: those typical of many others, whose labels decide (math.md §18).

With a few labels only, rows that stand for many others are worth more than the least certain
ones, which are rare, alike and odd. Rows S are chosen one by one such that every row has a chosen
one near it, most of all where labels decide (facility location, greedily):

    max Σ_i w_i max_{j ∈ S} k(x_i, x_j),    k(x, z) = exp(−2 ‖x − z‖² / median ‖x − z‖²),

on the features that the model compares rows by. The weight w_i is what a label would decide there:
1, how little the model prefers its first class to its second, and how much the explanations of the
shift, or the models of the ensemble, differ about the row (their Jensen–Shannon divergence).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import entr, softmax
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils import _safe_indexing, check_array

from marda._order import row_order
from marda._validation import seed_of
from marda.selection.ensemble import Compact, Ensemble
from marda.selection.expectation import DRAWN, explanations_to_judge
from marda.selection.inputs import RARE, share_of_zeros
from marda.selection.source_only import SourceOnly

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Of more rows than this a sample is looked at.
LOOKED_AT = 3000
MAX_DIRECTIONS = 50
#: Weight of a row whose class is certain, beside the uncertainty of others (0 to 1): as much again.
FLOOR = 1.0
#: Weight of the row about which models differ most, and of that about which explanations of the
#: shift do: these decide about all rows at once.
MODELS, EXPLANATIONS = 1.0, 4.0
#: Opinions that differ by less than this about every row (in nats) do not tell rows apart.
DIVERGENCE = 0.01
#: Below this margin between the first two classes a row is called uncertain.
UNSURE = 0.5
#: Gains that are told anew at once.
TOLD_ANEW = 50
#: Digits in which rows that are the same agree.
DIGITS = 9


class RowsToLabel(NamedTuple):
    """Rows worth a label, the one that decides most first.

    Attributes
    ----------
    rows : array of int
        Their places.
    reasons : tuple of str
        Why each of them, in plain English.
    """

    rows: Index
    reasons: tuple[str, ...]


def choose_rows(model: Any, X: Any, budget: int, random_state: Any = None) -> RowsToLabel:
    """The target rows whose labels would decide most.

    Parameters
    ----------
    model : MDAClassifier or MDAClassifierCV
        Fitted.
    X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
        Rows without a label, such as the target rows of the fit. Of more than 3,000, a sample of
        as many is looked at.
    budget : int
        How many labels can be given. Fewer rows are named where there are fewer different ones.
    random_state : int, RandomState or None, default=None
        Draws that sample; None draws as 0 does. Nothing depends on the order of rows.

    Returns
    -------
    RowsToLabel
        Places in X, and a reason per row.
    """
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1:
        raise ValueError(f"budget must be a whole number of at least 1, got {budget!r}.")
    numbers = check_array(X, accept_sparse="csr", dtype=np.float64)
    order = row_order(numbers)
    if len(order) > LOOKED_AT:
        order = np.random.default_rng(seed_of(random_state)).permutation(order)[:LOOKED_AT]
    numbers = numbers[order]
    rows = _safe_indexing(X, order)
    P = np.asarray(model.predict_proba(rows), dtype=np.float64)
    committee = _committee(model, numbers)
    apart = committee.divergence()
    weight = FLOOR + 1 - _margin(P)
    if apart.max(initial=0.0) > DIVERGENCE:
        weight = weight + (EXPLANATIONS if committee.explanations else MODELS) * apart / apart.max()
    F = _features(model, rows, numbers)
    first, group = _different(F)
    total = np.asarray(np.bincount(group, weight), dtype=np.float64)
    chosen = first[_spread(F[first], total, min(int(budget), len(first)))]
    chosen = _with_all_classes(chosen, P.argmax(1), weight, first)
    chosen = chosen[np.argsort(-weight[chosen], kind="stable")]
    reasons = tuple(_reason(int(i), P, committee, apart, model.classes_) for i in chosen)
    return RowsToLabel(order[chosen], reasons)


def _margin(P: Matrix) -> Vector:
    """How much more likely the first class is than the second."""
    if P.shape[1] < 2:
        return np.ones(len(P))
    second, first = np.partition(P, (-2, -1), axis=1)[:, -2:].T
    return np.asarray(first - second)


# The committee ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Committee:
    """Those who may be right, and their probabilities of the rows (as in query by committee)."""

    names: tuple[str, ...]
    P: tuple[Matrix, ...]
    weights: Vector
    #: Whether these are explanations of the shift; else models of an ensemble.
    explanations: bool = False

    def divergence(self) -> Vector:
        """Jensen–Shannon divergence per row."""
        if len(self.P) < 2:
            return np.zeros(len(self.P[0]) if self.P else 0)
        mixed = np.tensordot(self.weights, np.stack(self.P), 1)
        own = np.tensordot(self.weights, np.stack([entr(P).sum(1) for P in self.P]), 1)
        return np.asarray(np.maximum(entr(mixed).sum(1) - own, 0.0))


def _committee(model: Any, X: Any) -> _Committee:
    """Explanations of the shift that may be true; else the models of the ensemble."""
    ensemble = _predicting(model)
    if ensemble is None:
        return _Committee((), (np.zeros((X.shape[0], 1)),), np.ones(1))
    shift = getattr(model, "shift_", None)
    first = ensemble.members[0].model
    names = () if shift is None else explanations_to_judge(shift)
    if shift is not None and shift.selected and "none" not in names:
        names = (*names, DRAWN)
    if len(names) > 1 and isinstance(first, SourceOnly):
        told = tuple(_as_told(first, shift, name, X) for name in names)
        return _Committee(names, told, np.full(len(names), 1 / len(names)), explanations=True)
    members = [member for member in ensemble.members if member.weight > 0]
    weights = np.array([member.weight for member in members])
    sharpness = ensemble.sharpness * weights.sum()  # as sure alone as they are together
    P = tuple(np.asarray(softmax(sharpness * m.scores(X), axis=1)) for m in members)
    return _Committee(tuple(m.name for m in members), P, weights / weights.sum())


def _predicting(model: Any) -> Ensemble | None:
    """Compact members, where these predict; else the members; None for a single model."""
    return getattr(model, "compact_", None) or getattr(model, "ensemble_", None)


def _as_told(model: SourceOnly, shift: Any, name: str, X: Any) -> Matrix:
    """Probabilities of target rows by a source-only model, if an explanation is true."""
    explanation = shift.explanation("none" if name == DRAWN else name)
    shares = explanation.shares
    if shift.prior is not None:
        if shares is None:
            shares = shift.prior.source
        elif explanation.factor is None:
            shares = shift.prior.target  # EM is nearer than the shares of least distance
    told = model if shares is None else model.with_prior(shares)
    return np.exp(told.scores(explanation.undo(X)))


# Rows that stand for others -----------------------------------------------------------------------


def _features(model: Any, rows: Any, numbers: Any) -> Matrix:
    """What rows are compared by: denoised, in at most 50 directions.

    By what predicts, which is all that a model file may hold, so that a saved model chooses as the
    fitted one does.
    """
    ensemble = _predicting(model)
    F: Any
    for member in ensemble.members if ensemble else ():
        if isinstance(member.model, Compact):
            F, unit = member.model.features(member.inputs.apply(numbers)), True
            break
    else:
        F, unit = model.transform(rows), _normalized(model)
    F = numbers if not (sp.issparse(F) or hasattr(F, "__array__")) else F
    F = F if sp.issparse(F) else np.asarray(F, dtype=np.float64)
    if share_of_zeros(F) > RARE:
        F = normalize(F)
    elif not unit:
        F = StandardScaler(with_mean=not sp.issparse(F)).fit_transform(F)
    if not sp.issparse(F):
        F = F - F.mean(0)
    if min(F.shape) > MAX_DIRECTIONS:
        F = TruncatedSVD(MAX_DIRECTIONS, random_state=0).fit_transform(F)
    return np.asarray(F.toarray() if sp.issparse(F) else F)


def _normalized(model: Any) -> bool:
    """Whether the model gives its features unit length itself."""
    members = getattr(model, "members_", ())
    adapted = [m.adapted for m in members if m.adapted is not None] if members else [model]
    return bool(adapted) and bool(adapted[0].normalize)


def _different(F: Matrix) -> tuple[Index, Index]:
    """The first of rows that are the same up to rounding, and which of these each row is."""
    unit = float(np.abs(F).max(initial=0.0)) or 1.0
    _, first, group = np.unique(
        np.round(F / unit, DIGITS) + 0.0, axis=0, return_index=True, return_inverse=True
    )
    return first, group.ravel()


def _spread(F: Matrix, weight: Vector, n: int) -> Index:
    """One by one, the row that brings a chosen one nearest to all rows, by weight."""
    D = pairwise_distances(F, metric="sqeuclidean")
    K = np.exp(-2 * D / (float(np.median(D)) or float(D.mean()) or 1.0))
    near = np.zeros(len(F))
    gain = K @ weight
    chosen = [int(gain.argmax())]
    while len(chosen) < n:
        near = np.maximum(near, K[chosen[-1]])
        gain[chosen] = -1
        # Gains only shrink: those of earlier rounds are bounds, and few have to be told anew.
        best, order = -1.0, np.argsort(-gain, kind="stable")
        for start in range(0, len(order), TOLD_ANEW):
            some = order[start : start + TOLD_ANEW]
            if best > gain[some[0]]:
                break
            gain[some] = np.maximum(K[some] - near, 0) @ weight
            gain[chosen] = -1
            best = max(best, float(gain[some].max()))
        chosen.append(int(gain.argmax()))
    return np.array(chosen)


def _with_all_classes(chosen: Index, codes: Index, weight: Vector, candidates: Index) -> Index:
    """One row at least of every predicted class, where there are enough labels to give."""
    wanted = np.unique(codes[candidates])
    if len(wanted) > len(chosen):
        return chosen
    kept = chosen.tolist()
    for code in wanted.tolist():
        if (codes[kept] == code).any():
            continue
        counts = np.bincount(codes[kept], minlength=int(codes.max()) + 1)
        spare = [i for i in kept if counts[codes[i]] > 1]
        kept.remove(min(spare, key=lambda i: weight[i]))
        own = candidates[codes[candidates] == code]
        kept.append(int(own[weight[own].argmax()]))
    return np.array(kept, dtype=np.int64)


# Reasons ------------------------------------------------------------------------------------------


def _reason(i: int, P: Matrix, committee: _Committee, apart: Vector, classes: NDArray[Any]) -> str:
    """Why a row is worth a label."""
    second, first = np.argsort(P[i], kind="stable")[-2:] if P.shape[1] > 1 else (0, 0)
    said = [int(Q[i].argmax()) for Q in committee.P] if committee.names else []
    if len(set(said)) > 1 and apart[i] > DIVERGENCE:
        other = next(k for k, code in enumerate(said) if code != said[0])
        what = "explanations of the shift" if committee.explanations else "models"
        names = [_shown(committee.names[k]) if committee.explanations else committee.names[k]
                 for k in (0, other)]  # fmt: skip
        return (
            f"{what} disagree: {classes[said[0]]} by '{names[0]}', "
            f"{classes[said[other]]} by '{names[1]}'"
        )
    if P[i, first] - P[i, second] < UNSURE:
        return f"uncertain: {classes[first]} or {classes[second]}"
    return "typical of its predicted class"


def _shown(name: str) -> str:
    return {"none": "no shift"}.get(name, name)
