"""How well labelled rows predict: the source, by leaving rows out; the target, without its labels.

Models of different thirds of the source agree on a row about as often as each of them is
right about it, and where a shift takes accuracy away it takes agreement away in proportion
("agreement on the line", Baek et al., 2022). With κ the skill on left-out source rows and a the
chance-corrected agreement, the skill on the target is about

    κ_t = κ a_t / a_s.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.estimators.heads import Head

__all__ = ["agreement", "expected_accuracy", "recall_above_chance", "target_skill", "thirds"]

Index = NDArray[np.int64]
PARTS = 3
#: Thirds are drawn until so many rows have been in them, at most so often.
ENOUGH_ROWS, MAX_DRAWS = 5000, 5


def recall_above_chance(codes: Index, predicted: Index) -> float:
    """Mean recall of the classes in `codes`, from 0 (chance, or worse) to 1."""
    present = np.unique(codes)
    if len(present) < 2:
        return 0.0
    recall = float(np.mean([np.mean(predicted[codes == c] == c) for c in present]))
    return max(0.0, (recall - 1 / len(present)) / (1 - 1 / len(present)))


def agreement(first: Index, second: Index) -> float:
    """Cohen's κ of two labellings; 0 where either says the same of every row."""
    if not len(first) or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    # cohen_kappa_score checks labels for longer than the models of thirds take to fit.
    n = max(int(first.max()), int(second.max())) + 1
    shares = [np.bincount(labels, minlength=n) / len(labels) for labels in (first, second)]
    chance = float(shares[0] @ shares[1])
    return (float(np.mean(first == second)) - chance) / (1 - chance)


def target_skill(
    head: Head,
    rows: Index,
    codes: Index,
    weights: NDArray[Any],
    target: Index,
    skill: float,
    seed: int = 0,
) -> float:
    """Skill on the target: that on the source, times how much less models agree there.

    Parameters
    ----------
    head : Head
        Fitted on thirds of the source; what it last learned is lost.
    rows, codes, weights : arrays of shape (n_source,)
        Labelled rows of the source, their classes and weights.
    target : array
        Target rows without a label.
    skill : float
        On left-out source rows.
    seed : int
        Draws the thirds.

    Returns
    -------
    float
        From 0 (chance) to 1. Where agreement on the source shows nothing, `skill` itself.
    """
    rng = np.random.default_rng(seed)
    on_source, on_target = [], []
    for _ in range(_draws(len(rows))):
        part = thirds(codes, rng)
        if min(np.bincount(part, minlength=PARTS)) < 2:
            return skill
        said = []
        for k in range(PARTS):
            mine = part == k
            said.append(head.fit(rows[mine], codes[mine], weights[mine]).argmax(1))
        for i, j, left in permutations(range(PARTS)):
            if i < j:
                unseen = rows[part == left]
                on_source.append(agreement(said[i][unseen], said[j][unseen]))
                on_target.append(agreement(said[i][target], said[j][target]))
    here = float(np.mean(on_source))
    if here <= 0:
        return skill
    return float(np.clip(skill * np.mean(on_target) / here, 0, 1))


def expected_accuracy(skill: float, n_classes: int) -> float:
    """The accuracy that a skill means: that of chance, 1/C, at 0, and 1 at 1."""
    chance = 1 / n_classes
    return chance + (1 - chance) * skill


def _draws(n_rows: int) -> int:
    """How often thirds are drawn: one draw of few rows can be far off."""
    return max(1, min(MAX_DRAWS, ENOUGH_ROWS // max(1, n_rows)))


def thirds(codes: Index, rng: np.random.Generator) -> Index:
    """Thirds of the rows, each with its share of every class: 0, 1 or 2 per row."""
    part = np.empty(len(codes), dtype=np.int64)
    for c in np.unique(codes):
        mine = np.flatnonzero(codes == c)
        part[mine] = rng.permutation((np.arange(len(mine)) + rng.integers(PARTS)) % PARTS)
    return part
