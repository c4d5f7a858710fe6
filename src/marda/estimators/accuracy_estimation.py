"""How well labelled rows predict: the source, by leaving rows out; the target, without its labels.

Models of different thirds of the source agree on a row about as often as each of them is
right about it, and where a shift takes accuracy away it takes agreement away in proportion
("agreement on the line", Baek et al., 2022). With κ the skill on left-out source rows and a the
chance-corrected agreement, the skill on the target is about

    κ_t = κ a_t / a_s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._order import row_order
from marda.criteria import check_probabilities
from marda.estimators.heads import Head

Index = NDArray[np.int64]
PARTS = 3
#: Two of the thirds, whose models are compared, and the one that neither has seen.
PAIRS = (0, 1, 2), (0, 2, 1), (1, 2, 0)
#: Thirds are drawn until so many rows have been in them, at most so often.
ENOUGH_ROWS, MAX_DRAWS = 5000, 5
#: The same where every model is fitted anew.
ENOUGH_FITTED = 1000


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
    pairs: list[tuple[float, float]] = []
    for _ in range(_draws(len(rows))):
        part = _parts(codes, rng)
        if min(np.bincount(part, minlength=PARTS)) < 2:
            return skill
        labels = []  # of all rows, by the model of each third
        for k in range(PARTS):
            mine = part == k
            labels.append(head.fit(rows[mine], codes[mine], weights[mine]).argmax(1))
        for i, j, left in PAIRS:
            here, there = rows[part == left], target
            one, other = labels[i], labels[j]
            pairs.append((agreement(one[here], other[here]), agreement(one[there], other[there])))
    return _on_the_line(skill, pairs)


def expected_accuracy(skill: float, n_classes: int) -> float:
    """The accuracy that a skill means: that of chance, 1/C, at 0, and 1 at 1."""
    chance = 1 / n_classes
    return chance + (1 - chance) * skill


def accuracy_above_threshold(left_out: tuple[Any, Any], probabilities: Any) -> float:
    """Share of rows as sure as the source's right ones (ATC, Garg et al., 2022).

    The threshold is the confidence that as large a share of left-out source rows reaches as is
    right among them.

    Parameters
    ----------
    left_out : tuple of arrays
        Classes (codes 0 … C − 1) of source rows, and their probabilities by models that had not
        seen them.
    probabilities : array of shape (n_target, n_classes)
        By the same model.

    Returns
    -------
    float
    """
    codes, P = np.asarray(left_out[0]), check_probabilities(left_out[1])
    sure = P.max(1)
    accuracy = float(np.mean(P.argmax(1) == codes))
    threshold = np.quantile(sure, 1 - accuracy)
    return float(np.mean(check_probabilities(probabilities).max(1) >= threshold))


def accuracy_by_difference(left_out: tuple[Any, Any], probabilities: Any) -> float:
    """Left-out accuracy less what confidence has lost on the target (DoC, Guillory et al., 2021).

    Parameters and result are those of `accuracy_above_threshold`.
    """
    codes, P = np.asarray(left_out[0]), check_probabilities(left_out[1])
    lost = float(P.max(1).mean()) - float(check_probabilities(probabilities).max(1).mean())
    return float(np.clip(np.mean(P.argmax(1) == codes) - lost, 0, 1))


def accuracy_by_agreement(
    fit: Callable[[Any, Index], Callable[[Any], Index]],
    X_source: Any,
    left_out: tuple[Any, Any],
    X_target: Any,
    *,
    random_state: int = 0,
) -> float:
    """Accuracy on the target by how much less models of thirds of the source agree there.

    `target_skill` for any classifier: three fits, of a third of the source each, and up to five
    times as many where the source has fewer than 1,000 rows.

    Parameters
    ----------
    fit : callable
        Given rows and codes of their classes, a function from rows to codes: of a scikit-learn
        classifier, ``lambda X, y: clone(model).fit(X, y).predict``.
    X_source, X_target : arrays or CSR arrays
        Rows.
    left_out : tuple of arrays
        Classes (codes 0 … C − 1) of the source rows, and their probabilities by models that had
        not seen them.
    random_state : int, default=0
        Draws the thirds.

    Returns
    -------
    float
        Where agreement on the source shows nothing, what left-out rows say.
    """
    codes, P = np.asarray(left_out[0]), check_probabilities(left_out[1])
    skill = recall_above_chance(codes, P.argmax(1))
    order = row_order(X_source, codes)
    rng = np.random.default_rng(random_state)
    part = np.empty(len(codes), dtype=np.int64)
    pairs: list[tuple[float, float]] = []
    for _ in range(max(1, min(MAX_DRAWS, ENOUGH_FITTED // len(codes)))):
        part[order] = _parts(codes[order], rng)
        if any(len(np.unique(codes[part == k])) < 2 for k in range(PARTS)):
            break
        models = [fit(X_source[part == k], codes[part == k]) for k in range(PARTS)]
        there = [predict(X_target) for predict in models]
        for i, j, left in PAIRS:
            unseen = X_source[part == left]
            here = agreement(models[i](unseen), models[j](unseen))
            pairs.append((here, agreement(there[i], there[j])))
    return expected_accuracy(_on_the_line(skill, pairs), P.shape[1])


def _on_the_line(skill: float, pairs: list[tuple[float, float]]) -> float:
    """κ_t = κ a_t / a_s, from agreements on source and target; κ where a_s shows nothing."""
    if not pairs:
        return skill
    on_source, on_target = (float(np.mean(found)) for found in zip(*pairs, strict=True))
    if on_source <= 0:
        return skill
    return float(np.clip(skill * on_target / on_source, 0, 1))


def _draws(n_rows: int) -> int:
    """How often thirds are drawn: one draw of few rows can be far off."""
    return max(1, min(MAX_DRAWS, ENOUGH_ROWS // max(1, n_rows)))


def _parts(codes: Index, rng: np.random.Generator) -> Index:
    """Thirds of the rows, each with its share of every class."""
    part = np.empty(len(codes), dtype=np.int64)
    for c in np.unique(codes):
        mine = np.flatnonzero(codes == c)
        part[mine] = rng.permutation((np.arange(len(mine)) + rng.integers(PARTS)) % PARTS)
    return part
