"""All systems on the same tasks: mean ranks with a critical difference, and auto against each.

Ranks are compared as Demšar (JMLR 2006) does: Nemenyi's critical difference says how far two mean
ranks must lie apart to differ (5 %, all pairs at once). auto is compared with every other system by
Wilcoxon's signed-rank test over tasks (Holm's correction), by a bootstrap over tasks for the mean
difference, and within every task by the binomial errors of both accuracies.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marda.benchmarks.leaderboard import Entry, Leaderboard
from marda.benchmarks.plan import AUTO
from marda.diagnostics.intervals import Interval, bootstrap_mean, signed

__all__ = [
    "RANKING_NOTES",
    "Ranked",
    "Ranking",
    "holm",
    "mean_ranks",
    "rank_systems",
    "ranking_grid",
]

FEW = 0.4
"""A data set on which fewer than this share of the systems ran is shown, and not ranked."""
RANKING_NOTES = (
    "Mean rank: over the tasks of the data sets that all these systems ran on, 1 is best; its "
    "interval is half of Nemenyi's critical difference to either side, and systems whose intervals "
    "do not overlap differ (5 %, all pairs at once).",
    "auto − it: mean over the same tasks, 95 % by a bootstrap over tasks; p: Wilcoxon's test of "
    "signed ranks over tasks, Holm's correction. Tasks of one data set share domains, so that both "
    "are rather too sure.",
    "Ahead, behind: tasks on which auto differs by more than the binomial error of both accuracies "
    "(95 %); the rest is within chance. Both see the same test rows, which this does not use.",
    "Systems without a rank did not run on all of these data sets (–); they are compared with auto "
    "on all tasks that they have, and p is not corrected for them.",
)


@dataclass(frozen=True)
class Ranked:
    """One system."""

    label: str
    means: tuple[float | None, ...]
    """By data set; None where it did not run on all tasks."""
    rank: Interval | None
    """None where a ranked data set lacks it."""
    gain: Interval | None
    """auto minus it; None for auto."""
    p: float | None
    ahead: int
    behind: int
    """Tasks on which auto is ahead of it, or behind, beyond chance."""


@dataclass(frozen=True)
class Ranking:
    """Systems in the order of their mean ranks, over tasks that all of these have; then others."""

    data: tuple[str, ...]
    ranked: tuple[bool, ...]
    """Which of ``data`` the ranks are over."""
    n_tasks: int
    critical: float
    systems: tuple[Ranked, ...]


def rank_systems(boards: Sequence[Leaderboard]) -> Ranking | None:
    """Rank what ran on the same tasks without target labels; None without auto and two others."""
    found = [board for board in boards if board.setting == "US"]
    whole = [{e.label: e for e in board.entries if e.mean is not None} for board in found]
    most = max((len(held) for held in whole), default=0)
    kept = [len(held) >= FEW * most for held in whole]
    used = [held for held, keep in zip(whole, kept, strict=True) if keep]
    labels = [label for label in used[0] if all(label in held for held in used)] if used else []
    if AUTO not in labels or len(labels) < 3:
        return None
    table = np.hstack([_values([held[label] for label in labels]) for held in used])
    sizes = np.concatenate(
        [np.asarray(b.test_rows, dtype=float) for b, keep in zip(found, kept, strict=True) if keep]
    )
    ranks, critical = mean_ranks(table)
    ours = table[labels.index(AUTO)]
    tested = [_signed_ranks(ours - line) for line in table]
    corrected = holm([p for label, p in zip(labels, tested, strict=True) if label != AUTO])
    systems = []
    for label, line, rank in zip(labels, table, ranks, strict=True):
        means = tuple(held[label].mean if label in held else None for held in whole)
        half = critical / 2
        where = Interval(float(rank), float(rank) - half, float(rank) + half)
        if label == AUTO:
            systems.append(Ranked(label, means, where, None, None, 0, 0))
            continue
        told = _against(ours, line, sizes)
        systems.append(Ranked(label, means, where, told[0], corrected.pop(0), *told[1:]))
    systems.sort(key=lambda one: one.rank.value if one.rank else math.inf)
    systems += _others(found, whole, labels)
    names = tuple(board.name for board in found)
    return Ranking(names, tuple(kept), table.shape[1], critical, tuple(systems))


def _others(
    found: Sequence[Leaderboard], whole: Sequence[dict[str, Entry]], ranked: Sequence[str]
) -> list[Ranked]:
    """Systems that a ranked data set lacks, each on the tasks that it has; most tasks first."""
    others = []
    for label in dict.fromkeys(label for held in whole for label in held if label not in ranked):
        has = [(b, h) for b, h in zip(found, whole, strict=True) if label in h and AUTO in h]
        if not has:
            continue
        ours, line = (
            np.hstack([_values([held[name]])[0] for _, held in has]) for name in (AUTO, label)
        )
        sizes = np.concatenate([np.asarray(board.test_rows, dtype=float) for board, _ in has])
        told = _against(ours, line, sizes)
        means = tuple(held[label].mean if label in held else None for held in whole)
        p = _signed_ranks(ours - line)
        others.append((-len(line), Ranked(label, means, None, told[0], p, *told[1:])))
    return [one for _, one in sorted(others, key=lambda item: item[0])]


def _against(
    ours: NDArray[np.float64], line: NDArray[np.float64], sizes: NDArray[np.float64]
) -> tuple[Interval, int, int]:
    """Mean difference; tasks ahead and behind beyond chance."""
    beyond = _beyond_chance(ours, line, sizes)
    return bootstrap_mean(ours - line), int(np.sum(beyond > 0)), int(np.sum(beyond < 0))


def _values(entries: Sequence[Entry]) -> NDArray[np.float64]:
    """One line per system, one column per task."""
    return np.asarray([entry.values for entry in entries], dtype=float)


def mean_ranks(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Mean rank of every line over columns (1: the largest), and Nemenyi's critical difference."""
    from scipy.stats import rankdata, studentized_range

    k, n = table.shape
    q = float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2)
    return rankdata(-table, axis=0).mean(1), q * math.sqrt(k * (k + 1) / (6 * n))


def _signed_ranks(differences: NDArray[np.float64]) -> float:
    """Two-sided p of Wilcoxon's test, exact where it can be; 1 where nothing differs."""
    from scipy.stats import wilcoxon

    if not differences.any():
        return 1.0
    sizes = np.unique(np.abs(differences))
    exact = sizes[0] > 0 and len(sizes) == len(differences) <= 50  # no zeros and no ties
    method = "exact" if exact else "approx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # old SciPy says that few tasks are few
        return float(wilcoxon(differences, zero_method="zsplit", method=method).pvalue)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction of p-values, in the order given."""
    order = np.argsort(values, kind="stable")
    found, last = np.zeros(len(values)), 0.0
    for place, at in enumerate(order):
        last = max(last, min(1.0, (len(values) - place) * values[at]))
        found[at] = last
    return [float(p) for p in found]


def _beyond_chance(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], sizes: NDArray[np.float64]
) -> NDArray[np.int64]:
    """1 where ours is ahead of theirs by more than both errors, -1 behind, else 0."""
    spread = np.asarray(sum(share * (1 - share) for share in (ours / 100, theirs / 100)))
    # Where the number of rows is not known, any difference may be chance.
    variance = np.divide(spread, sizes, out=np.full(len(sizes), np.inf), where=sizes > 0)
    gap = (ours - theirs) / 100
    return np.where(np.abs(gap) > 1.96 * np.sqrt(variance), np.sign(gap), 0).astype(np.int64)


def ranking_grid(found: Ranking) -> list[list[str]]:
    """Header and lines, best mean rank first."""
    heads = [n if k else f"{n} (not ranked)" for n, k in zip(found.data, found.ranked, strict=True)]
    grid = [["", "mean rank", "auto − it", "p", "ahead", "behind", *heads]]
    for one in found.systems:
        gain = "" if one.gain is None else f"{signed(one.gain.value)} {_bounds(one.gain)}"
        p = "" if one.p is None else "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"
        told = ["", ""] if one.gain is None else [str(one.ahead), str(one.behind)]
        means = ["–" if mean is None else f"{mean:.1f}" for mean in one.means]
        rank = "–"
        if one.rank is not None:
            rank = f"{one.rank.value:.1f} [{one.rank.low:.1f}, {one.rank.high:.1f}]"
        grid.append([one.label, rank, gain, p, *told, *means])
    return grid


def _bounds(gain: Interval) -> str:
    return f"[{signed(gain.low)}, {signed(gain.high)}]"
