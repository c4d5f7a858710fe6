"""How many predictions of the target are right, told without a target label.

Where an account of the shift fits (`marda.shift.explain_shift`), the probabilities of a calibrated
source model, brought to the target as the account says, are those of the target: their mean at
the predicted classes is the accuracy. Every account that is not clearly refuted gives such a
mean, and the interval holds them all.

Where none fits, no probability is known to be right. Several kinds of evidence then speak, each of
which fails elsewhere: what source-only models think of the predicted classes, how sure the model is
itself, how much less models of thirds of the source agree on the target (Baek et al., 2022). The
interval is wide where they disagree, and wide downwards where target rows lie where no source row
does and nothing explains why: models agree there on what none of them can know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler, normalize

from marda._order import row_order
from marda.criteria import check_probabilities
from marda.selection.ensemble import Ensemble, Member
from marda.selection.inputs import RARE, share_of_zeros
from marda.shift import Shift, adjust_probabilities
from marda.shift.explain import FLEXIBLE, MIN_ROWS, NEARLY

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Half a 90 % interval, in standard errors.
NORMAL = 1.645
#: Half-width that no number of rows takes away: an explanation that is not rejected is not quite
#: true; one that fits so much that it may take classes for each other is less so.
FLOOR, FLEXIBLE_FLOOR = 0.03, 0.11
#: Explanations that may still be true though they are rejected: these, by fewer deviations than
#: that; by fewer than `NEARLY` where a class all but vanished.
RIVALS, RIVAL_Z = ("none", "class shares", "moved columns"), 5.0
#: What may differ instead of moved columns, where target rows lie among those of the source.
DRAWN = "a selection of rows"
#: Above this width of the interval only labels can tell.
TELLING = 0.4
#: Half-width where no explanation fits: BASE + SPREAD · range of the kinds of evidence + FALL · how
#: far below the accuracy on left-out source rows the estimate is + AWAY · share of the target
#: outside the source's support, and the error of as many rows.
BASE, SPREAD, FALL, AWAY = 0.08, 0.2, 0.3, 0.25
#: What self-training makes of the odds that models know a row: it carries majorities.
CARRIED = 1.5
#: How far towards chance a source-only model is expected to be where no source row lies.
FADED = 0.5
#: The source's support is lost where nothing explains the shift and a larger share is outside it.
LOST = 0.25
#: One source row in so many is outside by definition.
OUTSIDE = 20
LEAST, MAX_ROWS, MAX_DIRECTIONS = 3, 1000, 50


@dataclass(frozen=True)
class Expectation:
    """What to expect of predictions of the target.

    Attributes
    ----------
    accuracy : float
        Share of the predictions that are expected to be right.
    interval : tuple of float
        Bounds of a 90 % interval.
    can_tell : bool
        False where only labels can tell: then the interval, not the accuracy, is the answer.
    parts : dict of str to float
        The accuracy by each kind of evidence alone, and "outside", the share of the target rows
        outside the source's support, where it is known.
    reason : str
        What the interval rests on, or why nothing can be told.
    """

    accuracy: float
    interval: tuple[float, float]
    can_tell: bool
    parts: dict[str, float]
    reason: str


#: What is known where some class has no source row, or none that counts.
UNKNOWN = Expectation(
    0.5,
    (0.0, 1.0),
    False,
    {},
    "the source has no row of some class, and what to expect rests on its models",
)


def expect(
    probabilities: Any,
    left_out: tuple[Any, Any],
    source_only: Any,
    *,
    shift: Shift | None = None,
    explanations: Mapping[str, Any] | None = None,
    other_models: Sequence[Any] = (),
    agreement: float | None = None,
    outside: Any = None,
    self_trained: bool = False,
) -> Expectation:
    """The accuracy to expect of predictions of the target, with a 90 % interval.

    No argument needs a target label. Columns of all probabilities are the same classes in the same
    order; target rows are those of the fit, or a sample of them, in the same order everywhere.
    `left_out`, `source_only` and `other_models` hold under the source's own class shares:
    probabilities of a model with balanced classes are adjusted first (`adjust_probabilities`).

    Parameters
    ----------
    probabilities : array of shape (n_target, n_classes)
        Of the final predictions. The most likely classes are what is judged; how sure they are is
        one kind of evidence where no explanation fits.
    left_out : tuple of arrays of shape (n_source,) and (n_source, n_classes)
        Classes of source rows (codes 0 … n_classes − 1), and their calibrated probabilities by
        the source-only model, each by a fold that had not seen the row.
    source_only : array of shape (n_target, n_classes)
        Probabilities of the target rows as they are, by that model with that calibration.
    shift : Shift, optional
        `explain_shift` of the rows; None: no explanation fits.
    explanations : mapping of str to array of shape (n_target, n_classes)
        For each of `explanations_to_judge`, probabilities of the target rows if it is true: of that
        model for ``shift.explanation(name).undo(rows)``; if it changes class shares, adjusted to
        those of the explanation (``shift.prior.target`` for "class shares", else
        ``explanation.shares``). Those of ``shift.fitting`` must be there; each costs one
        prediction. Not read where no explanation fits.
    other_models : sequence of arrays of shape (n_target, n_classes)
        As `source_only`, by other models that were compared with it (linear, kernel, forest).
        Read where no explanation fits.
    agreement : float, optional
        Accuracy by the agreement of models of thirds of the source
        (`marda.estimators.accuracy_estimation`): `accuracy_by_agreement` of that model, three small
        fits; or `expected_accuracy` of a ``target_skill_``, which costs nothing and is a little
        worse. Read where no explanation fits.
    outside : array of bool of shape (n_target,), or float, optional
        `outside_support` of the rows as they are, or its mean. Read where no explanation fits, and
        where columns moved: inside of the source's support other rows may just have been drawn.
    self_trained : bool, default=False
        Whether the predictions are of models that labelled the target themselves. The evidence is
        about models that did not. Read where no explanation fits.

    Returns
    -------
    Expectation
    """
    P, source_only = check_probabilities(probabilities), check_probabilities(source_only)
    codes, known = np.asarray(left_out[0]), check_probabilities(left_out[1])
    other_models = [check_probabilities(V) for V in other_models]
    told = {name: check_probabilities(Q) for name, Q in (explanations or {}).items()}
    _check_shapes(P, source_only, codes, known, other_models, told)
    made = _Made(P.argmax(1), P, codes, known, source_only)
    share = None if outside is None else float(np.mean(outside))
    if shift is not None and shift.fitting:
        found = _by_explanations(made, shift, told, share)
    else:
        kind = "" if shift is None else shift.kind
        found = _by_kinds(made, other_models, agreement, share, kind, self_trained)
    return _beside_single_rows(found, codes)


def _beside_single_rows(found: Expectation, codes: Index) -> Expectation:
    """The same where source rows are alone in their class: left out, no model knows that class.

    They count as wrong, and all that rests on left-out rows may be too low by their share; so may
    what the shift seems to cost, by which the interval grows.
    """
    alone = float((np.bincount(codes)[codes] == 1).mean())
    if not alone:
        return found
    low, high = found.interval
    low, high = _within(low - FALL * alone, high + (1 + FALL) * alone)
    can_tell, reason = found.can_tell, found.reason
    if can_tell and high - low > TELLING:
        can_tell = False
        reason = f"{100 * alone:.0f}% of the source rows are alone in their class"
    return replace(found, interval=(low, high), can_tell=can_tell, reason=reason)


def explanations_to_judge(shift: Shift) -> tuple[str, ...]:
    """Those of which `expect` reads probabilities: all that fit or are not clearly refuted.

    Parameters
    ----------
    shift : Shift
        What differs.

    Returns
    -------
    tuple of str
        Names of explanations; empty where no explanation fits.
    """
    if not shift.fitting:
        return ()
    # Rows of any kind that lie within one class look as if the others had vanished.
    most = NEARLY if shift.vanished else RIVAL_Z
    return tuple(
        one.name
        for one in shift.explanations
        if one.name in shift.fitting or (one.name in RIVALS and one.z <= most)
    )


def expect_by_labels(
    found: Expectation, probabilities: Any, codes: Any, left_out: Any
) -> Expectation:
    """The expectation, corrected by target rows with a label.

    How sure the model is of the other rows, plus how much more often than it thought it is right
    about labelled ones: whichever rows were labelled, easy or hard, bend this less than their mere
    share of right ones (Angelopoulos et al., 2023). What was expected without labels counts by its
    interval, and less where labels contradict it.

    Parameters
    ----------
    found : Expectation
        Without labels.
    probabilities : array of shape (n_target, n_classes)
        Of the final predictions, for target rows without a label; of all where each has one.
    codes : array of shape (n_labelled,)
        Classes of the labelled target rows.
    left_out : array of shape (n_labelled, n_classes)
        Their probabilities by models without their labels.

    Returns
    -------
    Expectation
    """
    P, Q = check_probabilities(probabilities), check_probabilities(left_out)
    n = len(codes)
    right = (Q.argmax(1) == codes).astype(np.float64)
    extra = right - Q.max(1)
    # One row of either kind more: of few rows all may be right.
    mean = float(extra.sum() / (n + 1))
    by_labels = float(np.clip(P.max(1).mean() + mean, 0, 1))
    smoothed = float((right.sum() + 1) / (n + 2))
    variance = max(float(extra.var()), smoothed * (1 - smoothed)) / n
    half = (found.interval[1] - found.interval[0]) / 2
    before = (half / NORMAL) ** 2
    before += max(0.0, (found.accuracy - by_labels) ** 2 - before - variance)
    weight = before / (before + variance)
    accuracy = weight * by_labels + (1 - weight) * found.accuracy
    half = float(np.hypot(NORMAL * np.sqrt(weight * variance), FLOOR))
    interval = _within(accuracy - half, accuracy + half)
    parts = found.parts | {"labels": by_labels}
    can_tell = interval[1] - interval[0] <= TELLING
    reason = f"{n} label{'s' * (n != 1)} of the target tell{'s' * (n == 1)}"
    if weight < 0.5:
        reason = f"{found.reason}, and {n} label{'s' * (n != 1)} of the target"
    return Expectation(accuracy, interval, can_tell, parts, reason)


@dataclass(frozen=True)
class _Made:
    """The predictions to judge, and the source-only model."""

    labels: Index
    P: Array
    codes: Index
    left_out: Array
    source_only: Array

    def right(self, P: Array) -> float:
        """Share of the predictions that are right, if P is."""
        return float(P[np.arange(len(self.labels)), self.labels].mean())

    @property
    def source_accuracy(self) -> float:
        return float(np.mean(self.left_out.argmax(1) == self.codes))

    def error(self, accuracy: float) -> float:
        """Standard error of an accuracy by calibrated probabilities: of target and source rows."""
        here = self.source_accuracy
        # Of few rows all may be right: half a row more and less is the least that can be known.
        smoothed = [
            (a * n + 0.5) / (n + 1)
            for a, n in ((accuracy, len(self.labels)), (here, len(self.codes)))
        ]
        of_target, of_source = (a * (1 - a) for a in smoothed)
        return float(np.sqrt(of_target / len(self.labels) + of_source / len(self.codes)))


def _by_explanations(
    made: _Made, shift: Shift, told: Mapping[str, Array], outside: float | None
) -> Expectation:
    """Each explanation's mean at the predicted classes; the interval holds those of all."""
    lacking = [name for name in shift.fitting if name not in told]
    if lacking:
        raise ValueError(
            f"explanations lacks {lacking[0]!r}, which shift names as one that fits: give "
            f"probabilities for each of {list(shift.fitting)}."
        )
    judged = [name for name in explanations_to_judge(shift) if name in told]
    parts = {name: made.right(told[name]) for name in judged}
    # Likelihoods do not jump where a test rejects: an explanation that lost to its rival still
    # counts.
    weights = {
        one.name: one.weight
        for one in shift.explanations
        if one.name in judged and (one.name in shift.fitting or one.rival_p is not None)
    }
    accuracy = sum(w * parts[name] for name, w in weights.items()) / sum(weights.values())
    ends = []
    for name in judged:
        error = made.error(parts[name])
        if "class shares" in name and shift.prior is not None:
            error = float(np.hypot(error, _error_of_shares(made, told[name], shift)))
        half = np.hypot(FLEXIBLE_FLOOR if name in FLEXIBLE else FLOOR, NORMAL * error)
        ends += [parts[name] - half, parts[name] + half]
    if "moved columns" in shift.fitting and outside is not None and outside <= LOST:
        # Columns look moved, too, where rows were drawn by their values: then they stay.
        parts[DRAWN] = made.right(made.source_only)
        half = np.hypot(FLOOR, NORMAL * made.error(parts[DRAWN]))
        ends += [parts[DRAWN] - half, parts[DRAWN] + half]
    # Fewer right than a guess would be: an explanation that may take classes for each other did so.
    against = set(shift.fitting) <= set(FLEXIBLE) and accuracy < 1 / made.P.shape[1]
    if against:
        ends += [0.0, made.source_accuracy]
    interval = _within(min(ends), max(ends))
    rivals = [name for name in parts if name not in shift.fitting]
    wide = interval[1] - interval[0] > TELLING
    judged = list(parts)
    if against:
        reason = f"{_listed(list(shift.fitting))} would explain the target, but not the predictions"
    elif len(judged) > 1 and wide:
        reason = f"{_listed(judged)} may each be what differs, and they disagree"
    elif len(shift.fitting) == 1:
        reason = _REASONS.get(shift.fitting[0], "an explanation of the shift fits")
        if rivals and max(parts.values()) - min(parts.values()) > NORMAL * made.error(accuracy):
            reason += f", though {_listed(rivals)} cannot be ruled out"
        if wide:
            reason += ", but there are too few rows to say more"
    else:
        reason = f"{_listed(list(shift.fitting))} fit equally well"
    return Expectation(accuracy, interval, not (wide or against), parts, reason)


_REASONS = {
    "none": "the target looks like the source",
    "class shares": "only class shares seem to differ",
    "moved columns": "columns seem to have moved or been stretched, and nothing else",
    "class shares and moved columns": "class shares and moved columns explain the target",
    "linear map": "a linear map of the columns explains the target",
}


def _listed(names: Sequence[str]) -> str:
    words = [{"none": "no shift"}.get(name, name) for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _error_of_shares(made: _Made, P: Array, shift: Shift) -> float:
    """How far the mean moves where the shares are a standard error off."""
    assert shift.prior is not None
    pi, error = shift.prior.target, shift.prior.standard_error
    moved = [0.0]
    for c in range(len(pi)):
        for sign in (-1, 1):
            other = pi.copy()
            other[c] = np.clip(pi[c] + sign * error[c], 0, 1)
            rest = np.delete(np.arange(len(pi)), c)
            total = other[rest].sum()
            other[rest] *= (1 - other[c]) / total if total > 0 else 0
            other = np.where(pi > 0, other, 0)  # P says nothing of classes without a share
            if other.sum() > 0:
                other /= other.sum()
                moved.append(made.right(adjust_probabilities(P, pi, other)) - made.right(P))
    return float(np.max(np.abs(moved)))


def _by_kinds(
    made: _Made,
    other_models: Sequence[Array],
    agreement: float | None,
    outside: float | None,
    kind: str,
    self_trained: bool,
) -> Expectation:
    """The median of the kinds of evidence; the interval grows with their disagreement.

    And with what the shift seems to cost: the further from the source, the less is known.
    """
    n, n_classes = made.P.shape
    opinions = [made.right(made.source_only), *(made.right(V) for V in other_models)]
    parts = {"confidence": float(made.P.max(1).mean()), "source-only": opinions[0]}
    if agreement is not None:
        parts["agreement"] = float(agreement)
    accuracy = float(np.median(list(parts.values())))
    parts["other_models"] = float(np.median(opinions))
    spread = max(parts.values()) - min(parts.values())
    away = 0.0
    if outside is not None:
        parts["outside"] = outside
        away = max(0.0, (outside - 1 / OUTSIDE) / (1 - 1 / OUTSIDE))
    if self_trained:
        accuracy = _carried(accuracy, n_classes)
    else:
        accuracy -= FADED * away * max(0.0, accuracy - 1 / n_classes)
    few = kind == "too few rows"
    if few:
        # Few rows say little of themselves: the source's left-out rows speak as MIN_ROWS of them.
        weight = n / (n + MIN_ROWS)
        accuracy = weight * accuracy + (1 - weight) * made.source_accuracy
    fall = max(0.0, made.source_accuracy - accuracy)
    half = BASE + SPREAD * spread + FALL * fall + AWAY * away
    half = float(np.hypot(half, NORMAL * made.error(accuracy)))
    low, high = accuracy - half, accuracy + half
    # No row outside need be right: it may be of a class that the source lacks.
    low = min(low, accuracy * (1 - away) - NORMAL * made.error(accuracy))
    wide = min(1.0, high) - max(0.0, low) > TELLING
    lost = kind == "unexplained" and away > LOST
    if lost:
        low = 0.0
        reason = (
            f"{100 * parts['outside']:.0f}% of the target rows lie where no source row does, and "
            "nothing explains why"
        )
    elif few:
        reason = "there are too few rows to tell what differs"
    elif NORMAL * made.error(accuracy) > TELLING / 2:
        reason = "there are too few rows to say more"
    elif spread > TELLING / 2:
        reason = "models of the source disagree about the predictions"
    elif away > LOST:
        reason = (
            f"{100 * parts['outside']:.0f}% of the target rows lie where no source row does, "
            "perhaps of a class that the source lacks"
        )
    elif wide:
        reason = (
            "no explanation of the shift fits, and the target seems much harder than the source"
        )
    else:
        reason = (
            "no explanation of the shift fits, and models of the source agree about the predictions"
        )
    if lost or few or wide:
        # Whatever it is worth on the source, adaptation may have saved.
        high = max(high, made.source_accuracy)
    interval = _within(low, high)
    if lost:  # nothing in it is more likely than the rest: the middle is never far off
        accuracy = (interval[0] + interval[1]) / 2
    can_tell = not lost and not few and interval[1] - interval[0] <= TELLING
    return Expectation(accuracy, interval, can_tell, parts, reason)


def _carried(accuracy: float, n_classes: int) -> float:
    """After self-training: what most models know spreads, what few know is lost (math.md §14)."""
    known = min(1.0, max(0.0, (accuracy - 1 / n_classes) / (1 - 1 / n_classes)))
    gained, lost = float(known**CARRIED), float((1 - known) ** CARRIED)
    return 1 / n_classes + (1 - 1 / n_classes) * gained / (gained + lost)


def _within(low: float, high: float) -> tuple[float, float]:
    return float(max(0.0, low)), float(min(1.0, high))


def _check_shapes(
    P: Array,
    source_only: Array,
    codes: Index,
    known: Array,
    other_models: Sequence[Array],
    told: Mapping[str, Array],
) -> None:
    wrong = {
        name: Q.shape
        for name, Q in [
            ("source_only", source_only),
            *((f"other_models[{k}]", V) for k, V in enumerate(other_models)),
            *((f"explanations[{name!r}]", Q) for name, Q in told.items()),
        ]
        if Q.shape != P.shape
    }
    for name, shape in wrong.items():
        raise ValueError(
            f"{name} must have the shape of probabilities, {P.shape}, got {shape}: give the same "
            "rows and classes."
        )
    if codes.shape != (len(known),) or known.shape[1] != P.shape[1]:
        raise ValueError(
            f"left_out must be classes of shape (n,) and probabilities of shape (n, {P.shape[1]}), "
            f"got {codes.shape} and {known.shape}."
        )
    if len(codes) and not (codes.min() >= 0 and codes.max() < P.shape[1]):
        raise ValueError(
            f"classes of left_out must be codes 0 … {P.shape[1] - 1}, got {codes.min()} … "
            f"{codes.max()}."
        )


# Support ------------------------------------------------------------------------------------------


def outside_support(X_source: Any, X_target: Any, *, random_state: int = 0) -> NDArray[np.bool_]:
    """Which target rows lie where no source row does.

    Outside is a row further from the nearest of (at most 1,000) source rows than 19 in 20 of these
    are from their own nearest. Columns are in units of their spread over the source; where nine in
    ten entries are zero, rows are of unit length instead. Of more than 50 columns, one half of the
    source gives its leading directions and the other is compared: rows spread more in directions
    that were found by them.

    Parameters
    ----------
    X_source, X_target : arrays or CSR arrays of shape (n_rows, n_features)
        Finite rows.
    random_state : int, default=0
        Draws source rows and directions.

    Returns
    -------
    array of bool of shape (n_target,)
        About one in 20 where there is no shift.
    """
    rng = np.random.default_rng(random_state)
    order = row_order(X_source)
    if len(order) < LEAST:
        raise ValueError(
            f"X_source must hold at least {LEAST} rows to tell its support, got {len(order)}."
        )
    kept = order[np.sort(rng.permutation(len(order))[:MAX_ROWS])]
    rows = X_source[kept]
    if share_of_zeros(rows) > RARE:  # in units of their spread rare words would drown all others
        S, T = normalize(rows), normalize(X_target)
    else:
        scale = StandardScaler(with_mean=not sp.issparse(rows)).fit(rows)
        S, T = scale.transform(rows), scale.transform(X_target)
    if S.shape[1] > MAX_DIRECTIONS and len(kept) >= 2 * LEAST:
        half = rng.permutation(len(kept)) < len(kept) // 2
        n = min(MAX_DIRECTIONS, int(half.sum()) - 1)
        leading = TruncatedSVD(n, random_state=random_state).fit(S[half])
        S, T = leading.transform(S[~half]), leading.transform(T)
    elif sp.issparse(S):
        S, T = S.toarray(), T.toarray()
    nearest = NearestNeighbors(n_neighbors=1).fit(S)
    limit = np.quantile(nearest.kneighbors()[0][:, 0], 1 - 1 / OUTSIDE)
    # Rows that are the same up to rounding are no further than one another.
    return np.asarray(nearest.kneighbors(T)[0][:, 0] > limit * (1 + 1e-9) + 1e-9)


@dataclass(frozen=True)
class TargetEvidence:
    """What `expect` reads of a fit, for a sample of target rows: which ones, and the rows."""

    places: Index
    rows: Any
    left_out: tuple[Index, Array]
    source_only: Array
    shift: Shift
    explanations: dict[str, Array]
    other_models: tuple[Array, ...] = ()
    agreement: float | None = None
    outside: NDArray[np.bool_] | None = None
    #: Whether it is about models that label the target themselves.
    self_trained: bool = False
    #: Classes of labelled target rows, and what models without their labels give them.
    labelled: tuple[Index, Array] | None = None

    def expectation(self, members: Sequence[Member], sharpness: float) -> Expectation:
        """What to expect of the predictions of an ensemble."""
        P = Ensemble(tuple(members), sharpness).probabilities(self.rows, self.places)
        found = expect(
            P,
            self.left_out,
            self.source_only,
            shift=self.shift,
            explanations=self.explanations,
            other_models=self.other_models,
            agreement=self.agreement,
            outside=self.outside,
            self_trained=self.self_trained,
        )
        return found if self.labelled is None else expect_by_labels(found, P, *self.labelled)
