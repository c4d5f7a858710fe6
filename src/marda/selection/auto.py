"""The default: explain the shift, then do what it asks for (math.md §15 and §16).

- Nothing differs, or there are too few rows to tell: a model of the source alone, the one of
  source_only.py that left-out source rows prefer.
- Only class shares differ: the same with the target's class prior, neither centred nor
  self-trained.
- Columns moved or were stretched: the same, on rows that are moved back.
- Several of these fit: their models together, each as far as it makes the rows likely.
- None fits, or only one that fits too much. In tables in which a forest predicts left-out source
  rows about as well as anything, models of the source lead as far as they agree on the target as
  they do on the source, and beside them stands one that denoises leaves of the forest and labels
  the target itself; where moved columns nearly fit, the model of the source on rows as they are and
  on rows that are moved back. In all other rows, images and words above all, the adapted models of
  adapted_ensemble.py.

Target rows with a label weigh these explanations, and models that learn from them (stacking.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax

from marda._arrays import log_softmax
from marda._order import row_order, stack_rows
from marda._progress import step
from marda._progress import weigh as weigh_step
from marda._validation import UNLABELED, Labels
from marda.estimators.accuracy_estimation import (
    accuracy_by_agreement,
    agreement,
    recall_above_chance,
)
from marda.estimators.pseudo_labels import TARGET_WEIGHT, balanced_weights
from marda.moments.features import RestOfRows
from marda.selection.adapted_ensemble import AdaptedFit, MemberFits, fit_adapted, fit_leaves
from marda.selection.ensemble import Ensemble, Member, calibrate
from marda.selection.expectation import (
    DRAWN,
    LEAST,
    LOST,
    OUTSIDE,
    Expectation,
    TargetEvidence,
    explanations_to_judge,
    outside_support,
)
from marda.selection.inputs import Inputs, align, draw_rows, drop_copies
from marda.selection.source_only import (
    WIDE,
    AllRows,
    SourceFit,
    SourceFits,
    SourceOnly,
    fit_alike,
    fit_all_rows,
    fit_source_only,
    trees_alone,
)
from marda.selection.stacking import (
    Adapt,
    BaseModels,
    ExplainedModel,
    adapted_models,
    learned_models,
    stack,
)
from marda.shift import Explanation, Shift, explain_shift
from marda.shift.explain import FLEXIBLE
from marda.shift.two_sample import left_by_selection

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]

#: Rows per domain that the shift is explained by, and target rows that expectations rest on.
EXPLAINED_ROWS = 5000
EXPECTED_ROWS = 2000
#: Rows per domain that a plain model is fitted on.
PLAIN_ROWS = 10_000
#: The forest is left where others predict left-out source rows better by so many standard errors,
#: and by so many rows of all; trees stand for the pool where that is better by no more rows.
CLEARLY, NOTABLY = 2.0, 0.005
#: Kinds of source-only models whose agreement is looked at; others would mostly be like a forest.
COMPARED = ("linear", "kernel", "forest")
#: Weight of the source-only model from which on leaves beside it would change nothing.
MAX_WEIGHT = 10.0
#: The same where columns would be adapted: models agree nine tenths as well as on the source.
AGREED = 81.0
#: A kind of model is not asked what the target is if it knows less of the source than this share of
#: what the best kind does: it would agree with nobody, whatever differs.
ASKED = 0.5
#: Adapted models of tables must know this share of what the pool knows of left-out source rows.
KNOWN = 0.9
#: Where no explanation fits, moved columns nearly do if undoing them leaves so little of what
#: differs, and a larger share of the target than this lies outside of the source's support: rows
#: within it may have been selected, and then the model of the source is right as it is.
LITTLE, AMONG = 0.2, 2 / OUTSIDE
#: How far the adapted ensemble is believed in before labels where no explanation fits and it was
#: not asked for.
UNASKED = 0.05
#: Explanations that change class shares for sure have classes with fewer rows than this left out.
RARE = 3


class Costs(NamedTuple):
    """Seconds that the steps take about, on some machine: the weights of progress."""

    explain: float
    refuted: float
    source: float
    adapt: float
    leaves: float
    judge: float
    weigh: float
    all_rows: float
    total: float

    @classmethod
    def of(cls, X: Any, n_source: int, n_target: int, n_rest: int = 0) -> Costs:
        """By the sizes of the rows; constants fit what `scripts/time_left.py --steps` prints.

        `n_rest` are source rows that those are a sample of.
        """
        n, d = n_source + n_target, X.shape[1]
        wide = d > WIDE
        explain = 0.05 + 8e-5 * min(n, 2500) if wide else 0.1 + 4e-4 * min(n, 2500)
        refuted = explain if wide else 0.07 + 0.004 * min(d, 80)  # by a few draws each
        source = 0.05 + 9e-5 * n_source if wide else 3.9e-3 * n_source**0.75 * (d / 20) ** 0.25
        leaves = 0.15 * source  # tables mostly have none
        adapt = 0.03 + 5.2e-7 * n * min(n, d)
        all_rows = 0.15 * source + 3e-5 * n_rest if n_rest else 0.0
        judging = min(n_source, EXPECTED_ROWS) + min(n_target, EXPECTED_ROWS)
        judge = 0.03 + 1.3e-7 * judging * entries_per_row(X)
        if not wide:
            judge /= 3  # nor is there mostly much to judge
        weigh = 5 * min(adapt if wide else leaves, 4.5)
        total = explain + source + all_rows + (adapt if wide else leaves) + judge
        return cls(explain, refuted, source, adapt, leaves, judge, weigh, all_rows, total)


@dataclass(frozen=True)
class AutoFit:
    """The members, and what is known of them.

    Attributes
    ----------
    members : list of Member
        Adapted ones, whose sharpness is to be found by `left_out`; or source-only ones, whose
        scores are logarithms of calibrated probabilities.
    left_out : list
        Places, classes and scores of source rows that adapted models had not seen.
    source_skill, target_skill : float
        How well models know the domains: κ, from 0 (chance) to 1.
    shift : Shift or None
        What differs; None where nothing was asked, since there is no target.
    evidence : TargetEvidence or None
        What to expect rests on.
    calibration : dict
        Of source-only members, how well they are calibrated; empty for adapted ones.
    all_rows : AllRows or None
        Source-only models of all rows; None where all rows are here, or no such model speaks.
    """

    members: list[Member]
    left_out: list[Any]
    source_skill: float
    target_skill: float
    shift: Shift | None = None
    evidence: TargetEvidence | None = None
    calibration: dict[str, float] | None = None
    all_rows: AllRows | None = None


def fit_auto(
    X: Any,
    labels: Labels,
    domain: Index,
    class_weight: Any,
    seed: int,
    say: Any,
    columns: Any = None,
    rest: RestOfRows | None = None,
    elsewhere: Any = None,
) -> AutoFit:
    """Explain the shift, fit the members, and weigh them.

    `rest` are labelled source rows that these are a sample of: source-only models learn from them.
    `elsewhere` are these rows as an array of another library: adapted members are fitted on it.
    """
    known, target = labels.codes != UNLABELED, domain < 0
    fits = MemberFits.of(X, labels, domain, class_weight, seed, elsewhere)
    # Nothing can be told of a class that only target labels know.
    if not target.any() or len(np.unique(labels.codes[known & ~target])) < len(labels.classes):
        costs = Costs.of(X, int((~target).sum()), int(target.sum()))
        with step(costs.adapt, 0.0, "adapting"):
            return _adapted(fit_adapted(fits, say))
    say("asking what differs")
    action = _Action.of(fits, columns, 0 if rest is None else int(rest.counts.sum()))
    say(action.shift.sentence())
    labelled = bool((known & target).any())
    learns = labelled or action.explained_models() or action.leaves_help()
    if rest is not None and learns and not action.steady:  # trees learn nothing from sums
        say("learning from all rows")
        action = action.learned(rest)
    found = action.weighed(say) if labelled else action.act(say)
    return replace(found, all_rows=action.all_rows)


@dataclass(frozen=True)
class PlainModel:
    """A model of the source that knows nothing of the target, and what became of it there.

    Attributes
    ----------
    classes : array of shape (n_classes,)
        Label values.
    ensemble : Ensemble
        The model.
    shift : Shift
        What differs between source and target.
    accuracy : float
        Share of left-out source rows that it names right.
    expectation : Expectation or None
        Of its predictions of the target; None where nothing is known.
    """

    classes: NDArray[Any]
    ensemble: Ensemble
    shift: Shift
    accuracy: float
    expectation: Expectation | None

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of rows."""
        return np.asarray(self.classes[self.ensemble.scores(X).argmax(1)])


def fit_plain(
    X_source: Any, y_source: Any, X_target: Any, *, columns: Any = None, seed: int = 0
) -> PlainModel:
    """Fit the model of the source alone, and ask what to expect of it on the target.

    Parameters
    ----------
    X_source, X_target : arrays or CSR arrays of shape (n_rows, n_features)
        Finite rows; of many, a sample.
    y_source : array of shape (n_source,)
        Labels, of two classes at least.
    columns : sequence of str, optional
        Names of the columns.
    seed : int
        Draws rows and folds.

    Returns
    -------
    PlainModel
    """
    X = stack_rows(X_source, X_target)
    classes, codes = np.unique(y_source, return_inverse=True)
    codes = np.concatenate([codes.ravel(), np.full(X_target.shape[0], UNLABELED)])
    domain = np.repeat([0, -1], [X_source.shape[0], X_target.shape[0]])
    kept = drop_copies(X, codes, domain)
    if len(kept) < len(domain):
        X, codes, domain = X[kept], codes[kept], domain[kept]
    order = row_order(X, domain, codes)  # nothing below depends on how rows came
    order = order[draw_rows(codes[order], domain[order], PLAIN_ROWS, seed)]
    labels = Labels(classes, codes[order])
    action = _Action.of(MemberFits.of(X[order], labels, domain[order], None, seed), columns)
    fit = action.source_only()
    ensemble = Ensemble(tuple(member.frozen for member in fit.members))
    right = action.models.chosen.left_out.argmax(1) == action.models.codes
    known = None if fit.evidence is None else fit.evidence.expectation(fit.members, 1.0)
    return PlainModel(classes, ensemble, action.shift, float(right.mean()), known)


def _adapted(fit: AdaptedFit) -> AutoFit:
    return AutoFit(fit.members, fit.left_out, fit.source_skill, fit.target_skill)


class _Sample(NamedTuple):
    X: Any
    codes: Index
    places: Index


class _Target(NamedTuple):
    X: Any
    places: Index


@dataclass(frozen=True)
class _Action:
    """What can be done about a shift: source-only models of the rows, and its explanation."""

    fits: MemberFits
    shift: Shift
    #: Models of these rows, and the same where all rows made better ones: the first are compared
    #: with each other, the second predict.
    sampled: SourceFits
    models: SourceFits
    #: Samples of the labelled source rows and of target rows, with their places among these.
    source: _Sample
    target: _Target
    costs: Costs
    #: Which of these target rows lie where no source row does; None unless columns moved or
    #: nothing fits.
    outside: NDArray[np.bool_] | None = None
    #: Moved columns, where no explanation fits and they nearly do.
    nearly_moved: Explanation | None = None
    all_rows: AllRows | None = None
    #: Trees alone predict: what lines and kernels say where no source row lies is not asked.
    steady: bool = False

    @classmethod
    def of(cls, fits: MemberFits, columns: Any, n_rest: int = 0) -> _Action:
        """Explain the shift, and fit the source-only models."""
        labels, domain, seed = fits.labels, fits.domain, fits.seed
        ours = np.flatnonzero((labels.codes != UNLABELED) & (domain >= 0))
        theirs = np.flatnonzero(domain < 0)
        costs = Costs.of(fits.X, len(ours), len(theirs), n_rest)
        one_domain = np.zeros(len(ours), dtype=np.int64)
        some = ours[draw_rows(labels.codes[ours], one_domain, EXPLAINED_ROWS, seed)]
        others = _some(theirs, EXPLAINED_ROWS, seed)
        weigh = costs.weigh if (labels.codes[theirs] != UNLABELED).any() else 0.0
        left = costs.total - costs.explain + weigh
        with step(costs.explain, left, "asking what differs"):
            shift = explain_shift(
                fits.X[some],
                labels.classes[labels.codes[some]],
                fits.X[others],
                columns=columns,
                random_state=seed,
            )
            flexible = set(shift.fitting) <= set(FLEXIBLE)
            simple = shift.kind in ("none", "too few rows") or not flexible
            weigh_step(costs.explain if simple else costs.refuted)
        rest = costs.all_rows + weigh
        rest = rest if simple else costs.total - costs.explain - costs.source + weigh
        with step(costs.source, rest, "learning the source"):
            models = fit_source_only(
                fits.X[ours],
                labels.codes[ours],
                len(labels.classes),
                class_weight=fits.class_weight,
                classes=labels.classes,
                seed=seed,
            )
        free = np.flatnonzero(labels.codes[theirs] == UNLABELED)
        among = _some(free if len(free) else np.arange(len(theirs)), EXPECTED_ROWS, seed)
        target = _Target(fits.X[theirs[among]], among)
        places = _some(np.arange(len(ours)), EXPECTED_ROWS, seed)
        source = _Sample(fits.X[ours[places]], labels.codes[ours[places]], places)
        found = cls(fits, shift, models, models, source, target, costs)
        if len(places) < LEAST:
            return found
        moved = "moved columns" in shift.fitting
        nearly = None if simple else _nearly_moved(shift, source.X, target.X)
        if shift.fitting and not moved and nearly is None:
            return found
        outside = outside_support(source.X, target.X, random_state=seed)
        lost = bool(outside.mean() > LOST)
        if moved:
            return replace(found, shift=replace(shift, selected=not lost), outside=outside)
        if outside.mean() <= AMONG:
            nearly = None
        found = replace(found, outside=outside, nearly_moved=nearly)
        refuted = not shift.fitting and shift.kind != "too few rows"
        if lost and refuted and (trees := _trees_that_suffice(models)):
            return replace(found, sampled=trees, models=trees, steady=True)
        return found

    def learned(self, rest: RestOfRows) -> _Action:
        """The same, with source-only models of the rows outside of this sample, too."""
        fits, costs = self.fits, self.costs
        ours = (fits.labels.codes != UNLABELED) & (fits.domain >= 0)
        with step(costs.all_rows, costs.leaves + costs.judge, "learning from all rows"):
            found = fit_all_rows(
                self.sampled,
                fits.X[np.flatnonzero(ours)],
                rest,
                class_weight=fits.class_weight,
                classes=fits.labels.classes,
            )
        return replace(self, models=found.fits, all_rows=found)

    # What is done ---------------------------------------------------------------------------------

    def source_only(self) -> AutoFit:
        """The model of the source where no explanation fits."""
        return self._plain(self._unexplained())

    def explained_models(self) -> list[ExplainedModel]:
        """The model of the source, brought to the target as each fitting explanation says.

        None where only adapted models could do: no explanation fits, or one that fits too much.
        """
        if self.shift.kind in ("none", "too few rows"):
            return [ExplainedModel.of(self.models.chosen.model)]
        if set(self.shift.fitting) <= set(FLEXIBLE):
            return []
        # An explanation that lost to its rival is not refuted: it is believed as far as its weight
        # says.
        explanations = [
            explanation
            for explanation in self.shift.explanations
            if explanation.name in self.shift.fitting or explanation.rival_p is not None
        ]
        total = sum(explanation.weight for explanation in explanations)
        return [
            self._explained_by(explanation, explanation.weight / total)
            for explanation in explanations
        ]

    def act(self, say: Any) -> AutoFit:
        """What the explanation asks for, without a target label."""
        explained = self.explained_models()
        if explained:
            return self._plain(explained)
        adapt = self.adaptation()
        if adapt is None:
            return self.source_only()
        features, costs = adapt is _by_features, self.costs
        what = "adapting" if features else "adapting leaves of a forest"
        with step(costs.adapt if features else costs.leaves, costs.judge, what):
            fit = adapt(self.fits, say)
        if self._contradicted(fit.members) or (features and self._less_known(fit)):
            say("the adapted models contradict the source, or know less of it: not used")
            return self.source_only()
        with step(costs.judge, 0.0, "judging"):
            evidence = self._evidence(self_trained=features)
        return replace(_adapted(fit), shift=self.shift, evidence=evidence)

    def adaptation(self) -> Adapt | None:
        """How models label the target themselves; None: the model of the source does as well."""
        weight = self._odds()
        if self.leaves_help():
            if weight >= MAX_WEIGHT or self.nearly_moved is not None:
                return None
            return partial(self._leaves, weight)
        return None if weight >= AGREED else _by_features

    def _contradicted(self, members: list[Member]) -> bool:
        """Whether adapted models agree with that of the source no more than chance would.

        Labels that a model gives itself can settle on classes the wrong way round: nothing on the
        target speaks against it then but what the source has taught.
        """
        X, places = self.target
        adapted = Ensemble(tuple(members)).scores(X, places).argmax(1)
        plain = self.models.chosen.model.scores(X).argmax(1)
        if np.ptp(adapted) == 0 or np.ptp(plain) == 0:
            return False
        return agreement(adapted, plain) <= 0

    def _less_known(self, fit: AdaptedFit) -> bool:
        """Whether adapted models of a table know less of the source than the pool does."""
        chosen = self.models.chosen
        known = recall_above_chance(self.models.codes, chosen.left_out.argmax(1))
        return chosen.model.kind == "pool" and fit.source_skill < KNOWN * known

    def leaves_help(self) -> bool:
        """Whether the rows are a table: no other model predicts the source clearly better."""
        by_kind = {one.model.kind: one for one in self._single}
        forest = by_kind.pop("forest", None)
        if forest is None:
            return False
        codes, w = self.models.codes, self.models.weights / self.models.weights.sum()
        mine = forest.left_out.argmax(1) == codes
        for one in by_kind.values():
            gain = (one.left_out.argmax(1) == codes).astype(float) - mine
            mean = float(w @ gain)
            if mean > max(NOTABLY, CLEARLY * float(np.sqrt(w**2 @ (gain - mean) ** 2))):
                return False
        return True

    def _leaves(self, weight: float, fits: MemberFits, say: Any) -> AdaptedFit:
        """The model of the source, beside one of leaves."""
        return fit_leaves(fits, self.models.chosen.model, weight, self._row_weights, say)

    def weighed(self, say: Any) -> AutoFit:
        """What the explanation asks for, weighed by target labels against what they teach."""
        fits = self.fits
        labelled = np.flatnonzero((fits.labels.codes != UNLABELED) & (fits.domain < 0))
        rows, codes = fits.X[labelled], fits.labels.codes[labelled]
        explained = self.explained_models()
        fits_any = bool(explained)
        explained = explained or self._unexplained()
        plain = self._plain(explained)
        explained = self._or_selected(explained)
        skills, found = (plain.source_skill, plain.target_skill), plain.calibration
        explanations = []
        adapt = None if fits_any else self.adaptation()
        with step(0.0 if fits_any else self.costs.adapt + self.costs.weigh, 0.0, "weighing"):
            # What was not asked for may be right all the same.
            asked = 1.0 if fits_any or adapt is _by_features else 1 - UNASKED
            if not fits_any:
                belief = asked if adapt is None else 0.0
                explained = [replace(one, weight=belief * one.weight) for one in explained]
            if adapt is not None:
                fit = adapt(fits, say)
                explanation, found = adapted_models(fits, labelled, adapt, fit, asked)
                explanations.append(explanation)
                skills = fit.source_skill, fit.target_skill
            if asked < 1:
                fit = _by_features(fits, say)
                explanations.append(adapted_models(fits, labelled, _by_features, fit, UNASKED)[0])
        say("weighing explanations by labels")
        told = [(one, one.scores(rows), one.weight) for one in explained]
        learned = learned_models(
            fits,
            labelled,
            explained,
            row_weights=self._row_weights,
            with_prior=self._told,
            target=self.target.X,
        )
        told += [(one, scores, 0.0) for one, scores in learned]
        for one, scores, belief in told:
            explanations.append(BaseModels((one.member(fits.target),), scores, belief))
        members, left_out, weights = stack(explanations, codes)
        believed = {one.explanation.name: 0.0 for one in explained if one.explanation is not None}
        for (one, _, _), weight in zip(told, weights[-len(told) :], strict=True):
            if one.explanation is not None:
                believed[one.explanation.name] += weight
        total, shift = sum(believed.values()), self.shift
        if len(believed) > 1 and total > 0:
            shift = shift.weighed({name: w / total for name, w in believed.items()})
        evidence = plain.evidence
        if evidence is not None:
            evidence = replace(
                evidence, self_trained=adapt is _by_features, labelled=(codes, np.exp(left_out))
            )
        return AutoFit(members, [], *skills, shift, evidence, found)

    # Parts of it ----------------------------------------------------------------------------------

    def _explained_by(self, explanation: Explanation, weight: float) -> ExplainedModel:
        """The model of the source, brought to the target as an explanation says."""
        model = self.models.chosen.model
        name = f"source only, {model.kind}, {explanation.name}"
        told = self._told(explanation, model)
        return ExplainedModel(name, _undone(explanation), told, weight, explanation)

    def _unexplained(self) -> list[ExplainedModel]:
        """The model of the source as it is; where columns nearly moved, on rows moved back as well.

        A test of many rows rejects what is only nearly true. Which of the two is nearer, nobody can
        tell: together they are near the better one.
        """
        plain, moved = ExplainedModel.of(self.models.chosen.model), self.nearly_moved
        if moved is None:
            return [plain]
        return [replace(plain, weight=0.5), self._explained_by(moved, 0.5)]

    def _or_selected(self, explained: list[ExplainedModel]) -> list[ExplainedModel]:
        """The same, and that rows were selected where they look as if columns had moved.

        Nothing in the rows tells the two apart. If rows were drawn by their values, the model of
        the source is right as it is.
        """
        if not self.shift.selected:
            return explained
        plain = ExplainedModel.of(self.models.chosen.model)
        drawn = replace(plain, name=f"{plain.name}, {DRAWN}", weight=UNASKED)
        return [replace(one, weight=(1 - UNASKED) * one.weight) for one in explained] + [drawn]

    @property
    def _single(self) -> tuple[SourceFit, ...]:
        """Models of the kinds that are compared, of these rows."""
        models = (self.sampled.chosen, *self.sampled.others)
        return tuple(one for one in models if one.model.kind in COMPARED)

    @property
    def _shares(self) -> Vector:
        """Class shares of the source."""
        n = len(self.fits.labels.classes)
        return np.bincount(self.models.codes, minlength=n) / len(self.models.codes)

    def _row_weights(self, codes: Index, domain: Index) -> Vector:
        """Weights of labelled rows: those of target rows as in pseudo_labels.py."""
        n, target = len(self.fits.labels.classes), domain < 0
        sizes = np.bincount(self.models.codes, minlength=n)
        per_class = np.bincount(self.models.codes, self.models.weights, n) / np.maximum(sizes, 1)
        weights = np.asarray(per_class[codes], dtype=np.float64)
        if target.any():
            if isinstance(self.fits.class_weight, str):
                weights[target] = balanced_weights(codes[target], n)
            weights[target] *= min(TARGET_WEIGHT, max(1.0, (~target).sum() / target.sum()))
        return weights

    def _told(self, explanation: Explanation | None, model: SourceOnly) -> SourceOnly:
        """A model, with the class prior of an explanation; rare classes keep their share."""
        if explanation is None or explanation.shares is None:
            return model
        told, prior = explanation.shares, self.shift.prior
        if explanation.factor is None and prior is not None:
            told = prior.target  # EM is nearer than the shares of least distance
        rare = np.bincount(self.models.codes, minlength=len(told)) < RARE
        rest = 1 - self._shares[rare].sum()
        return model.with_prior(np.where(rare, self._shares, rest * told))

    def _odds(self) -> float:
        """Weight of source-only models: the squared odds of how well they agree on the target.

        In units of how well they agree on source rows that they have not seen; 0 of a single one.
        """
        if len(self._single) < 2:
            return 0.0
        here, there = [], []
        said = [one.left_out.argmax(1) for one in self._single]
        skills = [recall_above_chance(self.models.codes, labels) for labels in said]
        least = min(ASKED * max(skills), sorted(skills)[-2])  # two at least
        kept = [k for k, skill in enumerate(skills) if skill >= least]
        on_source = [said[k] for k in kept]
        on_target = [self._single[k].model.scores(self.target.X).argmax(1) for k in kept]
        for i, j in combinations(range(len(on_target)), 2):
            here.append(agreement(on_source[i], on_source[j]))
            there.append(agreement(on_target[i], on_target[j]))
        ratio = float(np.clip(np.mean(there) / max(float(np.mean(here)), 1e-3), 0, 1))
        return (ratio / max(1 - ratio, 1e-3)) ** 2

    def _plain(self, explained: list[ExplainedModel]) -> AutoFit:
        """Source-only models: their scores are logarithms of probabilities, summed as they are."""
        members = [Member(one.name, one.inputs, one.model, one.weight, 1.0) for one in explained]
        chosen, codes = self.models.chosen, self.models.codes
        found = calibrate(chosen.left_out, codes, self.models.weights)
        skill = recall_above_chance(codes, chosen.left_out.argmax(1))
        return AutoFit(members, [], skill, skill, self.shift, self._evidence(), found)

    def _evidence(self, *, self_trained: bool = False) -> TargetEvidence | None:
        """What source-only models say of the target, under the class prior of the source.

        Nothing where a class has no weight: they know nothing of it.
        """
        shares, chosen = self._shares, self.models.chosen
        if (chosen.model.shares[shares > 0] == 0).any():
            return None
        model = chosen.model.with_prior(shares)
        known = self.models.codes, softmax(chosen.left_out + model.bias, axis=1)
        told, (target, places) = {}, self.target
        as_is = model.scores(target)
        for name in explanations_to_judge(self.shift):
            explanation = self.shift.explanation(name)
            assert explanation is not None
            scores = as_is
            if explanation.factor is not None:
                scores = model.scores(_undone(explanation).apply(target))
            if explanation.shares is not None:
                prior = self._told(explanation, chosen.model)
                scores = log_softmax(scores + prior.bias - model.bias)
            told[name] = np.exp(scores)
        alone = np.exp(as_is)
        if self.shift.fitting:  # nothing else is read
            return TargetEvidence(
                places, target, known, alone, self.shift, told, outside=self.outside
            )
        others = tuple(
            np.exp(one.model.with_prior(shares).scores(target))
            for one in self.models.others
            if one.model.kind in COMPARED
        )
        if (moved := self.nearly_moved) is not None:
            others += (np.exp(model.scores(moved.undo(target))),)
        agreed = accuracy_by_agreement(
            self._fit_part,
            self.source.X,
            (self.source.codes, known[1][self.source.places]),
            target,
        )
        return TargetEvidence(
            places,
            target,
            known,
            alone,
            self.shift,
            told,
            others,
            agreed,
            self.outside,
            self_trained,
        )

    def _fit_part(self, X: Any, codes: Index) -> Any:
        """A model of some source rows, as the one that was chosen; a pool counts as linear."""
        kind, classes = self.models.chosen.model.kind, self.fits.labels.classes
        wanted = "linear" if kind == "pool" else kind
        return fit_alike(
            next(one for one in self._single if one.model.kind == wanted),
            X,
            codes,
            len(classes),
            class_weight=self.fits.class_weight,
            classes=classes,
            seed=self.fits.seed,
        )


def entries_per_row(X: Any) -> float:
    """Of rows as products see them: denoised words are many."""
    return float(min(X.shape[1], 2000) if sp.issparse(X) else X.shape[1])


def _by_features(fits: MemberFits, say: Any) -> AdaptedFit:
    """The adapted ensemble; where class shares alone were ruled out, centred in any case."""
    return fit_adapted(fits, say, shares=False)


def _trees_that_suffice(models: SourceFits) -> SourceFits | None:
    """Trees alone, if these name left-out source rows right as often as the pool, or nearly."""
    if models.chosen.model.kind != "pool":
        return None
    trees = trees_alone(models)
    said = [fit.left_out.argmax(1) for fit in (models.chosen, trees.chosen)]
    right = [np.average(one == models.codes, weights=models.weights) for one in said]
    return trees if right[0] - right[1] <= NOTABLY else None


def _nearly_moved(shift: Shift, X_source: Any, X_target: Any) -> Explanation | None:
    """Moved columns, if they leave little of what differs, and other simple changes do not.

    Other class shares must leave more than that, a selection of rows by one column more than they.
    Where shares and columns together fit, moving the columns alone would bring the shares of the
    source along.
    """
    if any("class shares" in name for name in shift.fitting):
        return None
    moved, shares = shift.explanation("moved columns"), shift.explanation("class shares")
    if moved is None or moved.left > LITTLE or (shares is not None and shares.left <= LITTLE):
        return None
    return moved if moved.left < left_by_selection(X_source, X_target) else None


def _undone(explanation: Explanation) -> Inputs:
    """Inputs that move target rows back to the source."""
    if explanation.factor is None or explanation.offset is None:
        return Inputs("raw")
    return align(explanation.factor, explanation.offset)


def _some(rows: Index, n: int, seed: int) -> Index:
    """At most n of them, drawn."""
    if len(rows) <= n:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, n, replace=False))
