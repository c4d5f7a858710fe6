"""From result rows to figures: means over tasks, standard errors over draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from marda.experiments.rows import ResultRow
from marda.experiments.specs import Spec

Place = tuple[str, int]
"""Source-target pair and number of the draw."""


@dataclass(frozen=True)
class Column:
    """What one figure is made of, but for the model: rows that differ in task and draw only."""

    benchmark: str
    setting: str
    protocol: str
    preprocessing: str
    variant: str
    classifier: str

    @classmethod
    def of(cls, spec: Spec) -> Column:
        """Return the column a spec belongs to."""
        task = spec.task
        return cls(
            task.benchmark,
            task.setting,
            task.protocol,
            task.preprocessing,
            spec.variant,
            spec.classifier,
        )


@dataclass(frozen=True)
class Figure:
    """A mean accuracy in percent."""

    mean: float
    stderr: float | None
    """Over draws; None with fewer than two of them."""
    rows: int
    expected: int
    whole: bool
    """At least one draw has every expected task: without that a mean compares with nothing."""


class Results:
    """Accuracies by column, model, task and draw."""

    def __init__(self, rows: Iterable[ResultRow]) -> None:
        self._accuracy: dict[tuple[Column, str], dict[Place, float]] = {}
        self._balanced: dict[tuple[Column, str], dict[Place, float]] = {}
        for row in rows:
            where = Column.of(row.spec), row.spec.model
            place = row.spec.task.pair, row.spec.task.draw
            if row.accuracy is not None:
                self._accuracy.setdefault(where, {})[place] = row.accuracy
            if row.balanced_accuracy is not None:
                self._balanced.setdefault(where, {})[place] = row.balanced_accuracy

    def figure(
        self,
        column: Column,
        model: str,
        pairs: Sequence[str],
        draws: int = 1,
        *,
        balanced: bool = False,
    ) -> Figure | None:
        """Mean over ``pairs``, then over draws; None without any row."""
        table = self._balanced if balanced else self._accuracy
        found = {
            place: value
            for place, value in table.get((column, model), {}).items()
            if place[0] in pairs and place[1] < draws
        }
        return _summarise(found, pairs, draws)

    def difference(
        self, column: Column, model: str, other: str, pairs: Sequence[str]
    ) -> float | None:
        """Mean of ``model`` minus ``other`` over draws both have in full; None without one."""
        ours = _draw_means(self._accuracy.get((column, model), {}), pairs)
        theirs = _draw_means(self._accuracy.get((column, other), {}), pairs)
        common = ours.keys() & theirs.keys()
        return fmean(ours[d] - theirs[d] for d in common) if common else None


def _draw_means(found: dict[Place, float], pairs: Sequence[str]) -> dict[int, float]:
    """Mean over tasks of every draw that has them all."""
    draws = {draw for _, draw in found}
    return {
        draw: fmean(found[pair, draw] for pair in pairs)
        for draw in sorted(draws)
        if all((pair, draw) in found for pair in pairs)
    }


def _summarise(found: dict[Place, float], pairs: Sequence[str], draws: int) -> Figure | None:
    if not found:
        return None
    means = list(_draw_means(found, pairs).values())
    if not means:
        return Figure(fmean(found.values()), None, len(found), len(pairs) * draws, False)
    stderr = stdev(means) / math.sqrt(len(means)) if len(means) > 1 else None
    return Figure(fmean(means), stderr, len(found), len(pairs) * draws, True)
