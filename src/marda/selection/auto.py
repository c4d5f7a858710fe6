"""The default: a committee whose every number is a rule that reads the user's own rows.

- Inputs are rows of unit length; where most entries are zero (counts, tf-idf), a second member
  sees their signed square roots, whose spread does not grow with their size.
- Noise is the share of zeros, between 0.5 and 0.9: data that lose entries by themselves can
  lose more.
- Every member denoises (S1), centres each domain, normalises rows, classifies with a Gaussian
  kernel and labels the target itself, with ridge and rounds chosen by how well the source predicts
  left-out rows of itself (κ).
- Where the length of a row says something, which κ shows, columns are standardised instead and
  rows keep their length.
- A plain source-only model speaks with weight 1 − κ: the less the source knows, the less its
  self-labelling is trusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import UNLABELED, Labels
from marda.estimators import MDAClassifier
from marda.selection.committee import Member, spread_of
from marda.selection.views import View, column_energy, make_view, share_of_zeros

__all__ = ["fit_auto", "member_parameters", "noise_rule"]

NOISE_BOUNDS = 0.5, 0.9
MAX_FEATURES = 5000
#: κ must be this much higher for rows to keep their length.
LENGTH_MATTERS = 0.02


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


def fit_auto(
    X: Any, labels: Labels, domain: NDArray[np.int64], class_weight: Any, seed: int, say: Any
) -> tuple[list[Member], dict[str, Any]]:
    """Members with their weights, and what calibration needs of them."""
    data = _Data(X, labels, domain, class_weight, seed)
    noise = noise_rule(X)
    columns = _columns(X)
    kinds = ["unit", "sqrt"] if share_of_zeros(X) > 0.5 else ["unit"]
    members = []
    for kind in kinds:
        view, normalize = make_view(kind, X, columns), True
        if len(kinds) == 1:
            standard = make_view("standard", X, columns)
            gain = data.skill(standard, noise, normalize=False)
            if gain > data.skill(view, noise, normalize=True) + LENGTH_MATTERS:
                view, normalize = standard, False
        say(f"adapting on {view.kind} rows")
        model = data.fit(view, member_parameters(noise, normalize=normalize))
        members.append(data.member(f"adapted, {view.kind} rows", view, model, 1 / len(kinds)))
    kappa = float(np.mean([m.model.source_skill_ for m in members]))
    say("fitting the source-only model")
    # It sees all columns: there may be many that only the source tells apart.
    view = make_view("standard" if members[0].view.kind == "standard" else "unit", X)
    members.append(data.member("source only", view, data.fit_source(view), 1 - kappa))
    left_out = [m.model._left_out for m in members[:-1]]
    return members, {"source_skill": kappa, "left_out": left_out}


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

    def fit(self, view: View, parameters: dict[str, Any]) -> MDAClassifier:
        """A model of all rows."""
        model = MDAClassifier(**parameters, class_weight=self.class_weight, random_state=self.seed)
        return model._fit_checked(view.apply(self.X), self.labels, self.domain)

    def fit_source(self, view: View) -> MDAClassifier:
        """The plain ridge of labelled rows."""
        known = self.labels.codes != UNLABELED
        model = MDAClassifier("BL", class_weight=self.class_weight)
        labels = self.labels._replace(codes=self.labels.codes[known])
        return model._fit_checked(view.apply(self.X[known]), labels, self.domain[known])

    def skill(self, view: View, noise: float, *, normalize: bool) -> float:
        """κ of a view, without self-labelling."""
        parameters = {**member_parameters(noise, normalize=normalize), "refine": 0}
        return float(self.fit(view, parameters).source_skill_)

    def member(self, name: str, view: View, model: MDAClassifier, weight: float) -> Member:
        """A member whose scores are in units of their spread over target rows."""
        target = self.domain < 0
        seen = self.X[target] if target.any() else self.X
        return Member(name, view, model, weight, spread_of(model._class_scores(view.apply(seen))))
