"""The adapted ensemble, whose every number is a rule that reads the user's own rows.

The rules, with their formulas in math.md §15:

- Inputs are rows of unit length; where most entries are zero (counts, tf-idf), a second member
  sees their signed square roots, whose spread does not grow with their size. Where other inputs
  (roots, standardised columns, rows that keep their length) predict left-out source rows clearly
  better, which κ (math.md §12) shows, these are taken instead (`inputs.choose_inputs`).
- Noise is the share of zeros, between 0.5 and 0.9: data that lose entries by themselves can
  lose more.
- Every member denoises (S1), centres each domain (math.md §13), normalises rows, classifies with a
  Gaussian kernel (math.md §10) and labels the target itself (math.md §12). Its ridge is 1 − κ, its
  number of rounds grows with κ_t, the κ that the target seems to have.
- Where the domains seem to differ in class shares rather than in position, which neighbours with
  different labels show, neither centring nor self-training is safe, and a member does without.
- A plain source-only model has the weight ((1 − κ_t)/κ_t)²: it leads where the target is
  understood less than half, and has next to no weight where it is understood well.

In tables the features that are denoised may be leaves of a forest instead (`fit_leaves`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import rows_at, to_numpy
from marda._progress import tell
from marda._validation import UNLABELED, Labels
from marda.criteria import Neighbours, label_agreement, nearest_neighbours
from marda.estimators import MDAClassifier
from marda.estimators.classifier import fit_rows, fit_scored_rows
from marda.estimators.fitting import Shared
from marda.estimators.model import TrainingRows
from marda.selection.ensemble import Member
from marda.selection.inputs import (
    MARGIN,
    UNIT,
    InputOption,
    Inputs,
    alternative_inputs,
    any_better,
    choose_inputs,
    column_energy,
    draw_rows,
    leaf_inputs,
    make_inputs,
    share_of_zeros,
    usual_inputs,
)
from marda.selection.source_only import SourceOnly
from marda.trees.forest import fit_forest

NOISE_BOUNDS = 0.5, 0.9
MAX_FEATURES = 5000
#: Inputs are compared on at most this many rows per domain. Rows of many columns are dear: others
#: must look better by half the margin on fewer rows first.
COMPARED_ROWS, FEWER_ROWS, WIDE = 1000, 400, 1000
NEIGHBOURS = 10
#: Weight of the source-only model where κ_t is 0, the largest it can have.
MAX_SOURCE_WEIGHT = 10.0
#: Leaves of the forest that is denoised.
N_LEAVES = 5000
#: Neighbours must agree more by this many standard errors for a plainer model to be taken.
TOLERANCE = 2.0


def noise_rule(X: Any) -> float:
    """Dropout probability: the share of zeros, within bounds.

    Of the rows as given, whatever inputs a member sees. Leaves always take the upper bound.
    """
    return float(np.clip(share_of_zeros(X), *NOISE_BOUNDS))


def member_parameters(noise: float, *, normalize: bool = True) -> dict[str, Any]:
    """Parameters of the adapted members."""
    return {
        "method": "S1",
        "noise": noise,
        "ridge": 1e-2,
        "ridge_class": "auto",
        "scaling": "relative",
        "classifier": "kernel",
        "center": True,
        "normalize": normalize,
        "refine": "auto",
    }


#: What the choice of inputs takes, and the source-only model, where a member takes 1.
CHOOSING, REST = 0.4, 0.1


@dataclass(frozen=True)
class AdaptedFit:
    """The members, and how well they know the domains: κ, from 0 (chance) to 1."""

    members: list[Member]
    #: Places, classes and scores of source rows that models had not seen: calibration reads them.
    left_out: list[Any]
    source_skill: float
    target_skill: float


def fit_adapted(fits: MemberFits, say: Any, *, shares: bool = True) -> AdaptedFit:
    """Fit the members and weigh them: κ and κ_t of math.md §12 are their means over the inputs.

    Parameters
    ----------
    fits : MemberFits
        The rows.
    say : callable
        Told what is being done.
    shares : bool, default=True
        Whether the domains may differ in class shares alone, so that centring may be wrong.
    """
    options, best = fits.choose(say)
    before = CHOOSING if alternative_inputs(share_of_zeros(fits.X)) else 0.0
    near = fits.neighbours(fits.inputs(UNIT)) if shares else None
    members, kappas = [], []
    for k, option in enumerate(options):
        tell((before + k) / (before + len(options) + REST))
        say(f"adapting on {option}")
        last = option.kind not in (later.kind for later in options[k + 1 :])
        fits.shared_by(option).last = last and near is None
        member = fits.member(option, 1 / len(options))
        assert member.adapted is not None
        kappas.append((member.adapted.source_skill_, member.adapted.target_skill_))
        members.append(fits.unless_neighbours_disagree(member, option, near, say))
        if last:
            fits.shared.pop(option.kind)  # factors and denoised rows: most of the memory
    source_kappa, target_kappa = np.mean(kappas, axis=0).tolist()
    say("fitting the source-only model")
    odds = (1 - target_kappa) / max(target_kappa, np.finfo(float).eps)
    members.append(fits.source_only(best.kind, min(MAX_SOURCE_WEIGHT, odds**2)))
    left_out = [fits.left_out(member) for member in members[:-1]]
    return AdaptedFit(members, left_out, source_kappa, target_kappa)


def fit_leaves(
    fits: MemberFits, model: SourceOnly, weight: float, row_weights: Any, say: Any
) -> AdaptedFit:
    """A source-only model, beside one that denoises leaves and labels the target itself.

    Parameters
    ----------
    fits : MemberFits
        The rows.
    model : SourceOnly
        Of the source.
    weight : float
        Its weight; that of the other is 1.
    row_weights : callable
        From classes and domains of labelled rows to their weights in the forest.
    say : callable
        Told what is being done.
    """
    say("adapting on leaves of a forest")
    known = fits.labels.codes != UNLABELED
    codes, domain = fits.labels.codes[known], fits.domain[known]
    grown = fit_forest(
        fits.X[known],
        codes,
        len(fits.labels.classes),
        weights=row_weights(codes, domain),
        seed=fits.seed,
        max_leaves=N_LEAVES,
    )
    member = fits.leaf_member(leaf_inputs(grown.forest), 1.0)
    assert member.adapted is not None
    scores = model.scores(fits.target)
    plain = Member.of(f"source only, {model.kind}", Inputs("raw"), model, weight, scores)
    return AdaptedFit(
        [member, plain],
        [fits.left_out(member)],
        float(member.adapted.source_skill_),
        float(member.adapted.target_skill_),
    )


def _columns(X: Any) -> NDArray[np.int64] | None:
    """The columns of highest energy, where there are very many."""
    if X.shape[1] <= MAX_FEATURES:
        return None
    return np.sort(np.argsort(-column_energy(X), kind="stable")[:MAX_FEATURES])


@dataclass(frozen=True)
class MemberFits:
    """The rows of a fit, and members fitted on inputs made of them."""

    X: Any
    labels: Labels
    domain: NDArray[np.int64]
    class_weight: Any
    seed: int
    noise: float
    #: Columns that adapted members see; None: all.
    columns: NDArray[np.int64] | None
    #: X as an array of another library, which adapted members are fitted on; None: X.
    elsewhere: Any = None
    #: Factorisations and denoised rows per kind of inputs, which its models share.
    shared: dict[str, Shared] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        X: Any,
        labels: Labels,
        domain: NDArray[np.int64],
        weight: Any,
        seed: int,
        elsewhere: Any = None,
    ) -> Self:
        """Rows, with the noise and the columns that suit them."""
        columns = _columns(X)
        return cls(X, labels, domain, weight, seed, noise_rule(X), columns, elsewhere)

    @property
    def member_rows(self) -> Any:
        """The rows, where adapted members are fitted."""
        return self.X if self.elsewhere is None else self.elsewhere

    def choose(self, say: Any) -> tuple[list[InputOption], InputOption]:
        """Inputs of the members, and those that predict left-out source rows best."""
        zeros = share_of_zeros(self.X)
        usual, others = usual_inputs(zeros), alternative_inputs(zeros)
        if not others:
            return usual, UNIT
        say("comparing inputs")
        for n in (FEWER_ROWS, COMPARED_ROWS) if self.X.shape[1] > WIDE else (COMPARED_ROWS,):
            some = self._some(n)
            kappas = {option: some.kappa(option) for option in usual}
            if min(kappas.values()) < 1 - MARGIN:  # else nothing can be better by more
                kappas |= {option: some.kappa(option) for option in others}
            if not any_better(kappas, usual, MARGIN / 2):
                break
        chosen = choose_inputs(kappas, usual)
        return chosen, max(chosen, key=lambda option: kappas[option])

    def _some(self, n: int) -> MemberFits:
        """At most n rows per domain."""
        drawn = draw_rows(self.labels.codes, self.domain, n, self.seed)
        if len(drawn) == len(self.domain):
            return self
        labels = self.labels._replace(codes=self.labels.codes[drawn])
        there = None if self.elsewhere is None else rows_at(self.elsewhere, drawn)
        rows = {"X": self.X[drawn], "elsewhere": there}
        return replace(self, **rows, labels=labels, domain=self.domain[drawn], shared={})

    def without_labels(self, hidden: NDArray[np.int64], n: int) -> MemberFits:
        """At most n rows per domain, without the labels of some, as rows of a fit of their own."""
        codes = self.labels.codes.copy()
        codes[hidden] = UNLABELED
        some = replace(self, labels=self.labels._replace(codes=codes), shared={})._some(n)
        return replace(some, noise=noise_rule(some.X), columns=_columns(some.X))

    def inputs(self, option: InputOption) -> Inputs:
        """Inputs of this kind, with the statistics of these rows that they need."""
        return make_inputs(option.kind, self.X, self.columns)

    def kappa(self, option: InputOption) -> float:
        """κ: how well left-out source rows are predicted, 0 (chance) to 1."""
        model, rows, shared = self._prepared(self.inputs(option), option, refine=0)
        return float(fit_rows(model, rows, shared).source_skill_)

    def member(self, option: InputOption, weight: float, **changed: Any) -> Member:
        """A fitted model of all rows; its scores are in units of their spread on the target."""
        inputs = self.inputs(option)
        model, scores = self._fitted(inputs, option, **changed)
        return Member.of(f"adapted, {option}", inputs, model, weight, scores)

    def leaf_member(self, inputs: Inputs, weight: float) -> Member:
        """A model of leaves, all of which are either 0 or one and the same number; not centred."""
        option = InputOption("leaves")
        self.shared_by(option).last = True
        model, scores = self._fitted(inputs, option, noise=NOISE_BOUNDS[1], center=False)
        return Member.of(f"adapted, {option}", inputs, model, weight, scores)

    @staticmethod
    def left_out(member: Member) -> Any:
        """Places, classes and scores of source rows that the member's models had not seen."""
        assert member.adapted is not None
        assert member.adapted.model_.training is not None
        return member.adapted.model_.training.left_out

    def _fitted(
        self, inputs: Inputs, option: InputOption, **changed: Any
    ) -> tuple[MDAClassifier, Any]:
        """A model, and its scores of the target rows."""
        return fit_scored_rows(*self._prepared(inputs, option, **changed))

    def _prepared(
        self, inputs: Inputs, option: InputOption, **changed: Any
    ) -> tuple[MDAClassifier, TrainingRows, Shared]:
        """A model to be fitted, its rows, and what it shares with others."""
        parameters = member_parameters(self.noise, normalize=option.normalize) | changed
        model = MDAClassifier(**parameters, class_weight=self.class_weight, random_state=self.seed)
        rows = TrainingRows(inputs.apply(self._given(inputs)), self.labels, self.domain)
        return model, rows, self.shared_by(option)

    def _given(self, inputs: Inputs) -> Any:
        """Rows to make these inputs of: forests are grown on the host."""
        return self.X if inputs.kind == "leaves" else self.member_rows

    def shared_by(self, option: InputOption) -> Shared:
        """What models on inputs of one kind share."""
        return self.shared.setdefault(option.kind, Shared(denoised={}, loss=False, single=True))

    def source_only(self, kind: str, weight: float) -> Member:
        """The plain ridge of labelled rows, on all columns: some only the source may need."""
        inputs = make_inputs("standard" if kind == "standard" else "unit", self.X)
        known = self.labels.codes != UNLABELED
        labels = self.labels._replace(codes=self.labels.codes[known])
        # Other routes would factorise a matrix of all rows.
        solver = "cg" if sp.issparse(self.member_rows) else "auto"
        model = MDAClassifier("BL", class_weight=self.class_weight, solver=solver)
        own = inputs.apply(rows_at(self.member_rows, np.flatnonzero(known)))
        rows = TrainingRows(own, labels, self.domain[known])
        fit_rows(model, rows, Shared(loss=False, single=True))
        target = rows_at(self.member_rows, self.target_places)
        scores = to_numpy(model.model_.scores(inputs.apply(target)))
        return Member.of("source only", inputs, model, weight, scores)

    def neighbours(self, inputs: Inputs) -> Neighbours | None:
        """Target rows that lie next to each other; None if there are too few.

        An empty row (a text without a known word) is nearer to most rows of unit length than any
        other is: without being like them, a few of these would be the neighbours of all.
        """
        F = inputs.apply(self.target)
        filled = np.flatnonzero(column_energy(F.T) > 0)
        if len(filled) <= 2 * NEIGHBOURS:
            return None
        found = nearest_neighbours(F[filled], NEIGHBOURS, random_state=self.seed)
        return found._replace(rows=filled[found.rows])

    def unless_neighbours_disagree(
        self, member: Member, option: InputOption, near: Neighbours | None, say: Any
    ) -> Member:
        """The member; the same without centring and self-training if neighbours agree more then.

        Centring takes a difference of class shares for one of position: the target's larger class
        is then cut in two, and neighbours get different labels. A model that is not centred does
        not cut it.
        """
        if near is None:
            return member
        plain = self.member(option, member.weight, center=False, refine=0)
        assert member.on_target is not None
        assert plain.on_target is not None
        adapted = label_agreement(near, member.on_target.argmax(1))
        unadapted = label_agreement(near, plain.on_target.argmax(1))
        error = max(adapted.standard_error, unadapted.standard_error)
        if unadapted.value <= adapted.value + TOLERANCE * error:
            return member
        say("not centring: the domains seem to differ in class shares, not in position")
        return plain

    @property
    def target(self) -> Any:
        """Target rows; all rows if there is no target."""
        places = self.target_places
        return self.X if len(places) == len(self.domain) else self.X[places]

    @property
    def target_places(self) -> NDArray[np.int64]:
        """Places of target rows; all if there is no target."""
        target = np.flatnonzero(self.domain < 0)
        return target if len(target) else np.arange(len(self.domain))
