"""What statistics tell about domains, where there are no rows to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._validation import UNLABELED
from marda.diagnostics.verdict import statistics_text
from marda.diagnostics.warnings import FEW_ROWS, Finding
from marda.moments import Moments

__all__ = ["Domain", "Summary", "summarize"]

#: A variance below this share of the squared mean is rounding.
ROUNDING = 1e-24
FARTHEST = 3


@dataclass(frozen=True)
class Domain:
    """Rows of one domain: all, and by label; the rest have none."""

    name: str
    role: str
    n_rows: int
    labelled: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """Row counts, distances of the means, warnings and one sentence.

    Attributes
    ----------
    domains : tuple of Domain
        Sources first.
    distance_before, distance_after : float
        Between the means of source and target, in standard deviations within the domains; the
        root mean square over features.
    farthest : tuple of (str, float)
        Features whose means are farthest apart, and how far.
    findings : tuple of Finding
        Warnings.
    verdict : str
        What is and is not known.
    """

    domains: tuple[Domain, ...]
    distance_before: float
    distance_after: float
    farthest: tuple[tuple[str, float], ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> str:
        """One sentence."""
        return statistics_text(self.n_rows("target"), self.n_labelled_target)

    def n_rows(self, role: str) -> int:
        """Rows of all sources, or of all targets."""
        return sum(d.n_rows for d in self.domains if d.role == role)

    @property
    def n_labelled_target(self) -> int:
        """Target rows with a label."""
        return sum(sum(d.labelled.values()) for d in self.domains if d.role == "target")

    def to_json(self) -> dict[str, Any]:
        """For machines; with the keys of a diagnosis where it has them."""
        return {**asdict(self), "verdict": self.verdict}


def summarize(moments: Moments, estimator: Any, names: Sequence[str]) -> Summary:
    """Everything above for a classifier that was fitted on these moments.

    Parameters
    ----------
    moments : Moments
        Of both sides, with Grams.
    estimator : MDAClassifier
        Fitted on them.
    names : sequence of str
        Features.
    """
    domains = tuple(_domains(moments))
    n_s, sum_s, _ = moments.select(moments.domains >= 0)
    n_t, sum_t, _ = moments.select(moments.domains < 0)
    step = sum_s / n_s - sum_t / n_t
    mean = (sum_s + sum_t) / (n_s + n_t)
    # Scatter within = in all − between the two means, about the common mean.
    within = moments.scatter(mean) - n_s * n_t / (n_s + n_t) * np.outer(step, step)
    variance = np.diag(within) / (n_s + n_t)
    before = _standardized(step, variance, mean)
    W = estimator.W_
    after = _standardized(
        step @ W,
        np.einsum("ij,ij->j", W, within @ W) / (n_s + n_t),
        mean @ W + estimator.offset_,
    )
    order = np.argsort(-np.abs(before), kind="stable")[:FARTHEST]
    return Summary(
        domains,
        _root_mean_square(before),
        _root_mean_square(after),
        tuple((names[i], float(abs(before[i]))) for i in order),
        tuple(_findings(domains, names, step, variance, mean)),
    )


def _domains(moments: Moments) -> list[Domain]:
    found = []
    for number in sorted(set(moments.domains.tolist()), key=lambda n: (n < 0, abs(n))):
        here = moments.domains == number
        labelled = {
            str(moments.classes[code]): int(moments.counts[here & (moments.labels == code)].sum())
            for code in sorted(set(moments.labels[here].tolist()) - {UNLABELED})
        }
        name = moments.domain_names.get(number, str(number))
        role = "source" if number >= 0 else "target"
        found.append(Domain(name, role, int(moments.counts[here].sum()), labelled))
    return found


def _standardized(
    step: NDArray[np.float64], variance: NDArray[np.float64], mean: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Steps in standard deviations; 0 where a feature does not vary within the domains."""
    varies = variance > ROUNDING * mean**2
    return np.divide(
        step,
        np.sqrt(variance, where=varies, out=np.ones_like(step)),
        where=varies,
        out=np.zeros_like(step),
    )


def _root_mean_square(steps: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(steps**2)))


def _findings(
    domains: Sequence[Domain],
    names: Sequence[str],
    step: NDArray[np.float64],
    variance: NDArray[np.float64],
    mean: NDArray[np.float64],
) -> list[Finding]:
    found = [
        Finding(
            "few-rows",
            f"domain {d.name} has {d.n_rows} rows, fewer than {FEW_ROWS}: results are a matter of "
            "luck; add rows.",
        )
        for d in domains
        if d.n_rows < FEW_ROWS
    ]
    varies = variance > ROUNDING * mean**2
    spread = np.sqrt(variance[varies])
    if spread.size and spread.max() > 1000 * spread.min():
        kept = np.flatnonzero(varies)
        large, small = names[kept[spread.argmax()]], names[kept[spread.argmin()]]
        found.append(
            Finding(
                "scales",
                f"features have wildly different scales ({large!r} varies "
                f"{spread.max() / spread.min():.0e} times as much as {small!r}): use --scale "
                "standard.",
            )
        )
    apart = np.flatnonzero(~varies & (np.abs(step) > 1e-9 * np.abs(mean)))
    if apart.size:
        shown = ", ".join(repr(names[i]) for i in apart[:3])
        found.append(
            Finding(
                "leakage",
                f"{shown} is constant in each domain and differs between them, so it tells source "
                "from target in every row: leave it out with --drop.",
            )
        )
    return found
