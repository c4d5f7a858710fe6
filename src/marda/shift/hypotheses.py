"""Hypotheses of how a target came from a source, each undone and held against chance.

A hypothesis has parameters: class shares π, and a map that takes target rows back to the source.
Both are estimated, and their error is of the order of what the test could see, whether or not other
rows are set aside for it. So every draw under the null estimates them again, as it was done for the
rows themselves (math.md §16).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from marda.shift.class_prior import adjust_probabilities, em_prior, fit_simplex
from marda.shift.two_sample import (
    Comparison,
    Features,
    Sample,
    compare,
    leading_directions,
    winsorised,
)

__all__ = [
    "HYPOTHESES",
    "Alignment",
    "Fit",
    "Hypothesis",
    "Rivals",
    "fit_hypothesis",
    "judge_hypothesis",
    "judge_rivals",
]

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Alternations between shares and map.
N_STEPS = 3
#: Draws after which a hypothesis that is this many deviations off is given up.
FIRST_DRAWS, HOPELESS = 39, 8.0
#: Variance below this, in units of the column, is none.
FLAT = 1e-8
#: Moves of fewer squared standard errors than this may be chance.
CHANCE = 4.0


@dataclass(frozen=True)
class Hypothesis:
    """What may have changed: class shares, and what became of the columns.

    Attributes
    ----------
    name : str
        In words.
    shares : bool
        Whether class shares differ.
    columns : {"", "each", "together"}
        Columns stay; each is moved and stretched; or all are mapped together.
    """

    name: str
    shares: bool
    columns: str


HYPOTHESES = (
    Hypothesis("none", False, ""),
    Hypothesis("class shares", True, ""),
    Hypothesis("moved columns", False, "each"),
    Hypothesis("class shares and moved columns", True, "each"),
    Hypothesis("linear map", False, "together"),
)


@dataclass(frozen=True)
class Alignment:
    """x A + b: target rows as source rows; A is a factor per column or a matrix."""

    factor: Array
    offset: Array

    def __call__(self, rows: Array, directions: Array | None = None) -> Array:
        """Rows, mapped; along directions, where few of them are asked for."""
        each = self.factor.ndim == 1
        if directions is None:
            return (rows * self.factor if each else rows @ self.factor) + self.offset
        along = self.factor[:, None] * directions if each else self.factor @ directions
        return rows @ along + self.offset @ directions


@dataclass(frozen=True)
class Fit:
    """A hypothesis with its parameters, in the units of the sample."""

    hypothesis: Hypothesis
    shares: Array
    alignment: Alignment | None


def fit_hypothesis(hypothesis: Hypothesis, sample: Sample, n_classes: int, *, seed: int) -> Fit:
    """Shares and map by which the target comes nearest to the source.

    Parameters
    ----------
    hypothesis : Hypothesis
        What may have changed.
    sample : Sample
        Rows.
    n_classes : int
        Classes among `sample.codes`.
    seed : int
        Draws features.

    Returns
    -------
    Fit
    """
    rng = np.random.default_rng(seed)
    S, T = sample.source, sample.target
    codes = sample.codes if hypothesis.shares else np.zeros(len(S), dtype=np.int64)
    C = n_classes if hypothesis.shares else 1
    own = np.bincount(codes, minlength=C) / len(codes)
    if not hypothesis.shares and not hypothesis.columns:
        return Fit(hypothesis, own, None)
    moved = _align(S, T, hypothesis.columns) if hypothesis.columns else None
    pool = np.concatenate([S, moved(T) if moved else T])
    closeness = _Closeness(hypothesis, pool, C, rng)
    rows = np.arange(len(pool))
    # The pool holds T as mapped for the source's own shares; the map found is on top of that one.
    found = closeness(rows[: len(S)], codes, rows[len(S) :], _starts(own, closeness, codes, len(S)))
    if moved is None or found.alignment is None:
        return Fit(hypothesis, found.shares, moved)
    return Fit(hypothesis, found.shares, _chain(moved, found.alignment))


def judge_hypothesis(
    fit: Fit,
    sample: Sample,
    posterior: Callable[[Array], Array] | None,
    *,
    n_draws: int,
    seed: int,
) -> Comparison:
    """The distance that is left when the hypothesis is undone, against draws in which it is true.

    Rows of both domains, target rows undone, are dealt out again to two domains of the same sizes:
    any to any where shares are the same, else within classes, those of target rows drawn from
    their probabilities.

    Parameters
    ----------
    fit : Fit
        The hypothesis.
    sample : Sample
        Rows.
    posterior : callable or None
        Probabilities of rows under the class prior of the source; for hypotheses with shares.
    n_draws : int
        Draws under the null.
    seed : int
        Draws features and rows.

    Returns
    -------
    Comparison
    """
    rng = np.random.default_rng(seed)
    S, T = sample.source, sample.target
    undone = fit.alignment(T) if fit.alignment else T
    pool = np.concatenate([S, undone])
    shares = fit.hypothesis.shares
    C = len(fit.shares)
    codes = sample.codes if shares else np.zeros(len(S), dtype=np.int64)
    own = np.bincount(codes, minlength=C) / len(codes)
    closeness = _Closeness(fit.hypothesis, pool, C, rng)
    starts = [fit.shares, own] if shares else [own]
    ns, rows = len(S), np.arange(len(pool))
    observed = closeness(rows[:ns], codes, rows[ns:], starts).delta
    observed = closeness.features.statistics(observed)
    cumulative = None
    if shares:
        assert posterior is not None
        # Shares of the least distance are drawn to the middle where class means are noisy (few
        # rows in a class); those of EM are not.
        P = posterior(undone)
        cumulative = adjust_probabilities(P, own, em_prior(P, own)).cumsum(1)
    drawn: list[Array] = []
    for b in range(n_draws):
        if cumulative is None:
            dealt = rng.permutation(rows)
        else:
            guess = (rng.random((len(undone), 1)) > cumulative[:, :-1]).sum(1)
            dealt = _within(np.concatenate([codes, guess]), rng)
        delta = closeness(dealt[:ns], codes, dealt[ns:], starts).delta
        drawn.append(closeness.features.statistics(delta))
        if b + 1 == FIRST_DRAWS:
            so_far = compare(observed, np.array(drawn))
            if so_far.z > HOPELESS and so_far.p_value <= 1.001 / (FIRST_DRAWS + 1):
                return so_far
    return compare(observed, np.array(drawn))


@dataclass(frozen=True)
class Rivals:
    """Class shares against moved columns, where both fit.

    Attributes
    ----------
    shares : float
        Chance that columns explain this much more than shares, or yet more, if shares are true.
    columns : float
        Chance that shares explain this much more than columns, or yet more, if columns are true.
    odds : float
        Likelihood of the difference if shares are true over that if columns are; normal draws.
    """

    shares: float
    columns: float
    odds: float


def judge_rivals(
    sample: Sample, posterior: Callable[[Array], Array], *, n_draws: int, seed: int
) -> Rivals:
    """Which of two hypotheses explains the target better than it could if the other were true?

    The difference of the distances that they leave, against draws in which either is true (Cox,
    1962: tests of separate families). It is sharper than a test against everything else, by which
    both may fit.

    Parameters
    ----------
    sample : Sample
        Rows.
    posterior : callable
        Probabilities of rows under the class prior of the source.
    n_draws : int
        Draws under each hypothesis.
    seed : int
        Draws features and rows.

    Returns
    -------
    Rivals
    """
    rng = np.random.default_rng(seed)
    S, T, codes, ns = sample.source, sample.target, sample.codes, len(sample.source)
    own = np.bincount(codes) / ns
    directions = leading_directions(S, rng)

    def project(rows: Array) -> Array:
        return rows if directions is None else rows @ directions

    features = Features.draw(project(S), rng)
    back = _certain(S, T)

    def guesses(rows: Array) -> Array:
        P = posterior(rows)
        return adjust_probabilities(P, own, em_prior(P, own)).cumsum(1)

    def drawn_codes(cumulative: Array) -> Index:
        return np.asarray((rng.random((len(cumulative), 1)) > cumulative[:, :-1]).sum(1))

    def difference(source: Array, classes: Index, target: Array) -> float:
        """Distance left by moved columns less that left by class shares."""
        phi = features(project(source)).astype(np.float64)
        one_hot = (classes == np.arange(len(own))[:, None]).astype(np.float64)
        per_class = one_hot @ phi / np.maximum(one_hot.sum(1, keepdims=True), 1)
        mean = features(project(target)).mean(0)
        by_shares = mean - fit_simplex(per_class, mean) @ per_class
        aligned = _align(source, target, "each")(target)
        by_columns = features(project(aligned)).mean(0) - phi.mean(0)
        return float(by_columns @ by_columns - by_shares @ by_shares)

    observed = difference(S, codes, T)
    pool, undone = np.concatenate([S, T]), np.concatenate([S, back(T)])
    as_is, as_moved = guesses(T), guesses(back(T))
    if_shares, if_columns = [], []
    for _ in range(n_draws):
        dealt = _within(np.concatenate([codes, drawn_codes(as_is)]), rng)
        if_shares.append(difference(pool[dealt[:ns]], codes, pool[dealt[ns:]]))
        classes = np.concatenate([codes, drawn_codes(as_moved)])
        dealt = rng.permutation(len(pool))
        target = (undone[dealt[ns:]] - back.offset) / back.factor
        if_columns.append(difference(undone[dealt[:ns]], classes[dealt[:ns]], target))
    one, other = np.array(if_shares), np.array(if_columns)
    likelihood = [norm.logpdf(observed, d.mean(), d.std() + 1e-12) for d in (one, other)]
    return Rivals(
        float((1 + np.sum(one <= observed)) / (n_draws + 1)),
        float((1 + np.sum(other >= observed)) / (n_draws + 1)),
        float(np.exp(np.clip(likelihood[0] - likelihood[1], -50, 50))),
    )


@dataclass(frozen=True)
class _Found:
    delta: Array
    shares: Array
    alignment: Alignment | None


class _Closeness:
    """Rows of a pool dealt to two domains: how near can the hypothesis bring them?"""

    def __init__(
        self, hypothesis: Hypothesis, pool: Array, C: int, rng: np.random.Generator
    ) -> None:
        self.hypothesis, self.pool, self.C = hypothesis, pool, C
        self.directions = leading_directions(pool, rng)
        projected = pool if self.directions is None else pool @ self.directions
        self.features = Features.draw(projected, rng)
        self.phi = self.features(projected)
        self.bulk = winsorised(pool) if hypothesis.columns else pool

    def __call__(self, source: Index, codes: Index, target: Index, starts: list[Array]) -> _Found:
        belongs = np.zeros((self.C, len(self.pool)), dtype=np.float32)
        belongs[codes, source] = 1
        belongs /= np.maximum(belongs.sum(1, keepdims=True), 1)
        per_class = belongs @ self.phi
        if not self.hypothesis.columns:
            mean = self.phi[target].mean(0)
            pi = fit_simplex(per_class, mean) if self.hypothesis.shares else starts[0]
            return _Found(mean - pi @ per_class, pi, None)
        moments = _Moments.of_classes(self.bulk, belongs, source, codes, self.hypothesis.columns)
        rows = self.pool[target]
        here = _Moments.of_rows(self.bulk[target], self.hypothesis.columns)
        best: tuple[float, _Found] | None = None
        for start in starts:
            pi = start
            for step in range(N_STEPS if self.hypothesis.shares else 1):
                alignment = here.map_to(moments, pi)
                mean = self.features(alignment(rows, self.directions)).mean(0)
                delta = mean - pi @ per_class
                left = float(delta @ delta)
                if best is None or left < best[0]:
                    best = left, _Found(delta, pi, alignment)
                if self.hypothesis.shares and step + 1 < N_STEPS:
                    pi = fit_simplex(per_class, mean)
        assert best is not None
        return best[1]


@dataclass(frozen=True)
class _Moments:
    """Means and second moments, per class or of one domain."""

    mean: Array
    second: Array

    @classmethod
    def of_rows(cls, rows: Array, columns: str) -> _Moments:
        second = np.square(rows).mean(0) if columns == "each" else rows.T @ rows / len(rows)
        return cls(rows.mean(0), second)

    @classmethod
    def of_classes(
        cls, pool: Array, belongs: Any, source: Index, codes: Index, columns: str
    ) -> _Moments:
        weights = belongs[:, source].astype(np.float64)
        rows = pool[source]
        if columns == "each":
            return cls(weights @ rows, weights @ np.square(rows))
        second = [(rows[codes == c].T * weights[c, codes == c]) @ rows[codes == c]
                  for c in range(len(weights))]  # fmt: skip
        return cls(weights @ rows, np.array(second))

    def map_to(self, other: _Moments, pi: Array) -> Alignment:
        """The map from rows with these moments to those of classes with shares π."""
        mean = pi @ other.mean
        second = np.tensordot(pi, other.second, 1)
        if second.ndim == 1:
            here = self.second - self.mean**2
            there = np.maximum(second - mean**2, 0)
            flat = (here < FLAT) | (there < FLAT)
            factor = np.where(flat, 1.0, np.sqrt(there / np.where(flat, 1.0, here)))
            return Alignment(factor, mean - self.mean * factor)
        matrix = _gaussian_map(
            self.second - np.outer(self.mean, self.mean), second - np.outer(mean, mean)
        )
        return Alignment(matrix, mean - self.mean @ matrix)


def _gaussian_map(here: Array, there: Array) -> Array:
    """H^(−½)(H^½ T H^½)^½ H^(−½): the symmetric map from covariance H to T."""
    values, vectors = np.linalg.eigh(here)
    values = np.maximum(values, FLAT)
    root = (vectors * np.sqrt(values)) @ vectors.T
    back = (vectors / np.sqrt(values)) @ vectors.T
    inner, turned = np.linalg.eigh(root @ there @ root)
    middle = (turned * np.sqrt(np.maximum(inner, 0))) @ turned.T
    return np.asarray(back @ middle @ back)


def _align(S: Array, T: Array, columns: str) -> Alignment:
    """The map of a target to the source as it is."""
    there = _Moments.of_rows(winsorised(S), columns)
    there = _Moments(there.mean[None], there.second[None])
    return _Moments.of_rows(winsorised(T), columns).map_to(there, np.ones(1))


def _certain(S: Array, T: Array) -> Alignment:
    """The map of single columns, with moves shrunk by what may be chance.

    Rows drawn by the fitted map itself would have its errors on top of their own.
    """
    here, there = winsorised(T), winsorised(S)
    centre, spread = there.mean(0), np.maximum(there.std(0), np.sqrt(FLAT))
    n = 1 / (1 / len(S) + 1 / len(T))
    by = (here.mean(0) - centre) / spread
    stretch = np.log(np.maximum(here.std(0), np.sqrt(FLAT)) / spread)
    by = by * np.maximum(0, 1 - CHANCE / np.maximum(by**2 * n, 1e-30))
    stretch = stretch * np.maximum(0, 1 - CHANCE / np.maximum(2 * stretch**2 * n, 1e-30))
    factor = np.exp(-stretch)
    return Alignment(factor, centre - factor * (centre + by * spread))


def _chain(first: Alignment, then: Alignment) -> Alignment:
    if then.factor.ndim == 1:
        return Alignment(first.factor * then.factor, first.offset * then.factor + then.offset)
    return Alignment(first.factor @ then.factor, first.offset @ then.factor + then.offset)


def _starts(own: Array, closeness: _Closeness, codes: Index, ns: int) -> list[Array]:
    """Shares from which a fit starts: several, for it may end in a wrong place."""
    if len(own) == 1 or not closeness.hypothesis.columns:
        return [own]
    if len(own) == 2:
        return [own, *(np.array([1 - p, p]) for p in (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95))]
    return [own, np.full(len(own), 1 / len(own))]


def _within(codes: Index, rng: np.random.Generator) -> Index:
    """A permutation of rows within classes."""
    order = np.argsort(codes, kind="stable")
    shuffled = np.lexsort((rng.random(len(codes)), codes))
    dealt = np.empty_like(order)
    dealt[order] = shuffled
    return dealt
