"""The candidates of a search, and fits of them on all rows or some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, ParameterGrid

from marda._validation import UNLABELED, Labels
from marda.estimators import MDAClassifier
from marda.estimators.classifier import fit_rows
from marda.estimators.fitting import Shared
from marda.estimators.model import TrainingRows
from marda.selection.views import View

__all__ = ["Candidate", "LeftOut", "Trials", "expand"]

Matrix = NDArray[np.float64]
Index = NDArray[np.int64]
#: Rows that a fit left out: their places, classes and scores.
LeftOut = tuple[Index, Index, Matrix]

FOLDS = 3


@dataclass(frozen=True)
class Candidate:
    """Parameters of `MDAClassifier`, and the view of the inputs."""

    inputs: str
    parameters: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As the user wrote it."""
        return {**self.parameters, "inputs": self.inputs}


def expand(
    grids: Mapping[str, Any] | Sequence[Mapping[str, Any]], class_weight: Any
) -> list[Candidate]:
    """Every candidate of one or several grids; all parameters are checked."""
    given = [grids] if isinstance(grids, Mapping) else list(grids)
    known = set(MDAClassifier().get_params(deep=False)) - {"unlabeled", "random_state", "verbose"}
    found = []
    for grid in given:
        if not isinstance(grid, Mapping):
            raise ValueError(f"a grid of candidates is a dict, got {type(grid).__name__}.")
        unknown = sorted(set(grid) - known - {"inputs"})
        if unknown:
            raise ValueError(
                f"candidates name {unknown[0]!r}, which is no parameter that a search can set; "
                f"it can set inputs, {', '.join(sorted(known))}."
            )
        lists = {k: v if isinstance(v, list | tuple | np.ndarray) else [v] for k, v in grid.items()}
        for one in ParameterGrid(lists):
            parameters = {"class_weight": class_weight, **one}
            found.append(Candidate(str(parameters.pop("inputs", "raw")), parameters))
    if not found:
        raise ValueError("candidates is empty: there is nothing to search.")
    return found


@dataclass(frozen=True)
class Trials:
    """What all candidates are tried on: the rows of a fit, by the views that candidates name."""

    candidates: list[Candidate]
    views: Mapping[str, View]
    X: Any
    labels: Labels
    domain: Index
    seed: int
    say: Callable[[str], None]

    @property
    def target(self) -> Index:
        """Places of target rows."""
        return np.flatnonzero(self.domain < 0)

    def rows(self, kind: str) -> Any:
        """All rows, in a view."""
        return self.views[kind].apply(self.X)

    def each(self) -> Iterator[Candidate]:
        """Every candidate, announced."""
        for k, one in enumerate(self.candidates):
            self.say(f"candidate {k + 1} of {len(self.candidates)}")
            yield one

    def fit(
        self,
        one: Candidate,
        rows: Any,
        keep: Index | None = None,
        shared: Shared | None = None,
    ) -> MDAClassifier:
        """Fit on rows, or on those at `keep`; factorisations are shared through `shared`."""
        labels, domain = self.labels, self.domain
        if keep is not None:
            rows, domain = rows[keep], domain[keep]
            labels = labels._replace(codes=labels.codes[keep])
        model = MDAClassifier(**one.parameters, random_state=self.seed)
        return fit_rows(model, TrainingRows(rows, labels, domain), shared)

    def split(self, places: Index) -> Iterator[tuple[Index, Index]]:
        """Folds of these rows, each with all rows but it."""
        for _, held in KFold(FOLDS, shuffle=True, random_state=self.seed).split(places):
            yield places[held], np.setdiff1d(np.arange(len(self.domain)), places[held])

    def left_out(self, one: Candidate, rows: Any) -> list[LeftOut]:
        """Labelled source rows, a fold at a time, scored by the fit without them."""
        codes = self.labels.codes
        source = np.flatnonzero((self.domain >= 0) & (codes != UNLABELED))
        if len(source) < 2 * FOLDS:
            return []
        found = []
        for held, keep in self.split(source):
            known = codes[keep][codes[keep] != UNLABELED]
            if len(np.unique(known)) < len(self.labels.classes):
                continue  # a class of this fold is in no other
            model = self.fit(one, rows, keep)
            found.append((held, codes[held], model.model_.scores(rows[held])))
        return found
