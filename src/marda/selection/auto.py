"""The default: a committee whose every number is a rule that reads the user's own rows.

- Inputs are rows of unit length; where most entries are zero (counts, tf-idf), a second member
  sees their signed square roots, whose spread does not grow with their size.
- Noise is the share of zeros, between 0.5 and 0.9: data that lose entries by themselves can
  lose more.
- Every member denoises (S1), centres each domain, normalises rows, classifies with a Gaussian
  kernel and labels the target itself, with a ridge chosen by how well the source predicts left-out
  rows of itself (κ), and rounds by how well it seems to predict the target (κ_t).
- Where the length of a row says something, which κ shows, columns are standardised instead and
  rows keep their length.
- Where the domains seem to differ in class shares rather than in position, which neighbours with
  torn labels show, neither centring nor self-labelling is safe, and a member does without.
- A plain source-only model speaks with weight ((1 − κ_t)/κ_t)²: it leads where the target is
  understood less than half, and falls silent where it is understood well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import UNLABELED, Labels
from marda.criteria.neighbours import Neighbours, label_agreement, nearest_neighbours
from marda.estimators import MDAClassifier
from marda.selection.committee import Member
from marda.selection.views import View, column_energy, make_view, share_of_zeros

__all__ = ["fit_auto", "member_parameters", "noise_rule"]

NOISE_BOUNDS = 0.5, 0.9
MAX_FEATURES = 5000
#: κ must be this much higher for rows to keep their length.
LENGTH_MATTERS = 0.02
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


PARAMETERS = tuple(member_parameters(0.5))


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
    data = _Data(X, labels, domain, class_weight, seed)
    noise, columns = noise_rule(X), _columns(X)
    kinds = ["unit", "sqrt"] if share_of_zeros(X) > 0.5 else ["unit"]
    near = data.neighbours(make_view("unit", X, columns))
    members, skills = [], []
    for kind in kinds:
        view = make_view(kind, X, columns)
        say(f"adapting on {kind} rows")
        member = data.member(view, member_parameters(noise), 1 / len(kinds))
        if len(kinds) == 1:
            standard = make_view("standard", X, columns)
            kept = member_parameters(noise, normalize=False)
            still = data.member(standard, {**kept, "refine": 0}, 1.0)
            if still.model.source_skill_ > member.model.source_skill_ + LENGTH_MATTERS:
                say("adapting on standard rows: their length tells classes apart")
                member = data.member(standard, kept, 1.0)
        skills.append((member.model.source_skill_, member.model.target_skill_))
        members.append(data.safer(member, near, say))
    source_skill, skill = np.mean(skills, axis=0).tolist()
    say("fitting the source-only model")
    weight = min(MAX_ANCHOR, ((1 - skill) / max(skill, np.finfo(float).eps)) ** 2)
    members.append(data.source_only(members[0].view.kind, weight))
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
    #: Factorisations of a view, which its models share.
    problems: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def member(self, view: View, parameters: dict[str, Any], weight: float) -> Member:
        """A fitted model of all rows; its scores are in units of their spread on the target."""
        model = MDAClassifier(**parameters, class_weight=self.class_weight, random_state=self.seed)
        model._problems = self.problems.setdefault(view.kind, {})
        model._fit_checked(view.apply(self.X), self.labels, self.domain)
        model._problems = None
        return Member.of(f"adapted, {view.kind} rows", view, model, weight, self._target)

    def source_only(self, kind: str, weight: float) -> Member:
        """The plain ridge of labelled rows, on all columns: some only the source may need."""
        view = make_view("standard" if kind == "standard" else "unit", self.X)
        known = self.labels.codes != UNLABELED
        labels = self.labels._replace(codes=self.labels.codes[known])
        model = MDAClassifier("BL", class_weight=self.class_weight)
        model._fit_checked(view.apply(self.X[known]), labels, self.domain[known])
        return Member.of("source only", view, model, weight, self._target)

    def neighbours(self, view: View) -> Neighbours | None:
        """Target rows that lie next to each other; None if there are too few."""
        if (self.domain < 0).sum() <= 2 * NEIGHBOURS:
            return None
        return nearest_neighbours(view.apply(self._target), NEIGHBOURS, random_state=self.seed)

    def safer(self, member: Member, near: Neighbours | None, say: Any) -> Member:
        """The member, or the same without centring and self-labelling if its labels are torn.

        Centring takes a difference of class shares for one of position: the target's larger class
        is then cut in two, and neighbours get different labels. A model that is not centred does
        not cut it.
        """
        if near is None:
            return member
        plain = {k: v for k, v in member.model.get_params().items() if k in PARAMETERS}
        still = self.member(member.view, {**plain, "center": False, "refine": 0}, member.weight)
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
