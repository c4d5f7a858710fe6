"""The default: a committee whose every number is a rule that reads the user's own rows.

- Inputs are rows of unit length; where most entries are zero (counts, tf-idf), a second member
  sees their signed square roots, whose spread does not grow with their size. Where other looks at
  the rows (roots, standardised columns, rows that keep their length) predict left-out source rows
  clearly better, which κ shows, these are taken instead (looks.py).
- Noise is the share of zeros, between 0.5 and 0.9: data that lose entries by themselves can
  lose more.
- Every member denoises (S1), centres each domain, normalises rows, classifies with a Gaussian
  kernel and labels the target itself, with a ridge chosen by how well the source predicts left-out
  rows of itself (κ), and rounds by how well it seems to predict the target (κ_t).
- Where the domains seem to differ in class shares rather than in position, which neighbours with
  torn labels show, neither centring nor self-labelling is safe, and a member does without.
- A plain source-only model speaks with weight ((1 − κ_t)/κ_t)²: it leads where the target is
  understood less than half, and falls silent where it is understood well.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._validation import UNLABELED, Labels
from marda.criteria import Neighbours, label_agreement, nearest_neighbours
from marda.estimators import MDAClassifier
from marda.selection.committee import Member
from marda.selection.looks import UNIT, Look, rival_looks, speaking, usual_looks
from marda.selection.sampling import sample
from marda.selection.views import View, column_energy, make_view, share_of_zeros

__all__ = ["fit_auto", "member_parameters", "noise_rule"]

NOISE_BOUNDS = 0.5, 0.9
MAX_FEATURES = 5000
#: Looks at the rows are compared on at most this many rows of every domain.
COMPARED_ROWS = 1000
NEIGHBOURS = 10
#: Weight of the source-only model, where the source knows nothing.
MAX_ANCHOR = 10.0
#: Neighbours must agree more by this many standard errors for a plainer model to be taken.
TOLERANCE = 2.0


def noise_rule(X: Any) -> float:
    """Dropout probability: the share of zeros, within bounds."""
    return float(np.clip(share_of_zeros(X), *NOISE_BOUNDS))


def member_parameters(noise: float, *, normalize: bool = True) -> dict[str, Any]:
    """Of the adapted members."""
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


@dataclass(frozen=True)
class Found:
    """The committee, and how well it knows the domains: κ, from 0 (chance) to 1."""

    members: list[Member]
    #: Places, classes and scores of source rows that models had not seen: calibration reads them.
    left_out: list[Any]
    source_skill: float
    target_skill: float


def fit_auto(
    X: Any, labels: Labels, domain: NDArray[np.int64], class_weight: Any, seed: int, say: Any
) -> Found:
    """Members with their weights."""
    data = _Data(X, labels, domain, class_weight, seed, noise_rule(X), _columns(X))
    looks, best = data.looks(say)
    near = data.neighbours(data.view(UNIT))
    members, skills = [], []
    for look in looks:
        say(f"adapting on {look}")
        member = data.member(look, 1 / len(looks))
        skills.append((member.model.source_skill_, member.model.target_skill_))
        members.append(data.safer(member, look, near, say))
    source_skill, skill = np.mean(skills, axis=0).tolist()
    say("fitting the source-only model")
    weight = min(MAX_ANCHOR, ((1 - skill) / max(skill, np.finfo(float).eps)) ** 2)
    members.append(data.source_only(best.kind, weight))
    left_out = [m.model._left_out for m in members[:-1]]
    return Found(members, left_out, source_skill, skill)


def _columns(X: Any) -> NDArray[np.int64] | None:
    """The columns of highest energy, where there are very many."""
    if X.shape[1] <= MAX_FEATURES:
        return None
    return np.sort(np.argsort(-column_energy(X), kind="stable")[:MAX_FEATURES])


@dataclass(frozen=True)
class _Data:
    """The rows of a fit, and models fitted on views of them."""

    X: Any
    labels: Labels
    domain: NDArray[np.int64]
    class_weight: Any
    seed: int
    noise: float
    #: Columns that adapted members see; None: all.
    columns: NDArray[np.int64] | None
    #: Factorisations and denoised rows of a view, which its models share.
    problems: dict[str, dict[Any, Any]] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)

    def looks(self, say: Any) -> tuple[list[Look], Look]:
        """Looks that speak, and the one that predicts left-out source rows best."""
        zeros = share_of_zeros(self.X)
        usual, rivals = usual_looks(zeros), rival_looks(zeros)
        if not rivals:
            return usual, UNIT
        say("comparing looks at the rows")
        some = self._some()
        skills = {look: some.skill(look) for look in (*usual, *rivals)}
        found = speaking(skills, usual)
        return found, max(found, key=lambda look: skills[look])

    def _some(self) -> _Data:
        """Few enough rows for a comparison."""
        X, labels, domain = sample(self.X, self.labels, self.domain, COMPARED_ROWS, self.seed)
        if X is self.X:
            return self
        return replace(self, X=X, labels=labels, domain=domain, problems={}, kept={})

    def view(self, look: Look) -> View:
        """The view of a look, with what it must know of these rows."""
        return make_view(look.kind, self.X, self.columns)

    def skill(self, look: Look) -> float:
        """κ: how well left-out source rows are predicted."""
        return float(self._fitted(self.view(look), look, refine=0)[0].source_skill_)

    def member(self, look: Look, weight: float, **changed: Any) -> Member:
        """A fitted model of all rows; its scores are in units of their spread on the target."""
        view = self.view(look)
        model, scores = self._fitted(view, look, **changed)
        return Member.of(f"adapted, {look}", view, model, weight, scores)

    def _fitted(self, view: View, look: Look, **changed: Any) -> tuple[MDAClassifier, Any]:
        """A model, and its scores of the target rows."""
        parameters = member_parameters(self.noise, normalize=look.normalize) | changed
        model = MDAClassifier(**parameters, class_weight=self.class_weight, random_state=self.seed)
        model._problems = self.problems.setdefault(look.kind, {})
        kept = model._kept = self.kept.setdefault(look.kind, {})
        model._fit_checked(view.apply(self.X), self.labels, self.domain)
        model._problems = model._kept = None
        return model, kept.pop("on_target")

    def source_only(self, kind: str, weight: float) -> Member:
        """The plain ridge of labelled rows, on all columns: some only the source may need."""
        view = make_view("standard" if kind == "standard" else "unit", self.X)
        known = self.labels.codes != UNLABELED
        labels = self.labels._replace(codes=self.labels.codes[known])
        # Other routes would factorise a matrix of all rows.
        solver = "cg" if sp.issparse(self.X) else "auto"
        model = MDAClassifier("BL", class_weight=self.class_weight, solver=solver)
        model._fit_checked(view.apply(self.X[known]), labels, self.domain[known])
        scores = model._class_scores(view.apply(self._target))
        return Member.of("source only", view, model, weight, scores)

    def neighbours(self, view: View) -> Neighbours | None:
        """Target rows that lie next to each other; None if there are too few.

        An empty row (a text without a known word) is nearer to most rows of unit length than any
        other is: without being like them, a few of these would be the neighbours of all.
        """
        F = view.apply(self._target)
        filled = np.flatnonzero(column_energy(F.T) > 0)
        if len(filled) <= 2 * NEIGHBOURS:
            return None
        found = nearest_neighbours(F[filled], NEIGHBOURS, random_state=self.seed)
        return found._replace(rows=filled[found.rows])

    def safer(self, member: Member, look: Look, near: Neighbours | None, say: Any) -> Member:
        """The member, or the same without centring and self-labelling if its labels are torn.

        Centring takes a difference of class shares for one of position: the target's larger class
        is then cut in two, and neighbours get different labels. A model that is not centred does
        not cut it.
        """
        if near is None:
            return member
        still = self.member(look, member.weight, center=False, refine=0)
        assert member.on_target is not None
        assert still.on_target is not None
        ours = label_agreement(near, member.on_target.argmax(1))
        theirs = label_agreement(near, still.on_target.argmax(1))
        if theirs.value <= ours.value + TOLERANCE * max(ours.standard_error, theirs.standard_error):
            return member
        say("not centring: the domains seem to differ in class shares, not in position")
        return still

    @property
    def _target(self) -> Any:
        """Target rows; all rows if there is no target."""
        target = self.domain < 0
        return self.X[target] if target.any() else self.X
