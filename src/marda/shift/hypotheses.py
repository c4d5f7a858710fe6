"""Hypotheses of how a target came from a source, each undone and held against chance.

A hypothesis has parameters: class shares π, and a map that takes target rows back to the source.
Both are estimated, and their error is of the order of what the test could see, whether or not other
rows are set aside for it. So every draw under the null estimates them again, as it was done for the
rows themselves (math.md §16).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from marda.shift.class_prior import adjust_probabilities, em_prior, fit_simplex
from marda.shift.two_sample import (
    Comparison,
    Features,
    Projected,
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
#: Draws after which a test may stop, and then after every so many more.
FIRST_DRAWS, MORE_DRAWS = 19, 20
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
        factor, offset, each = self.factor, self.offset, self.factor.ndim == 1
        if directions is not None:
            factor = factor[:, None] * directions if each else factor @ directions
            offset, each = offset @ directions, False
        factor, offset = factor.astype(rows.dtype), offset.astype(rows.dtype)
        return np.asarray((rows * factor if each else rows @ factor) + offset)


@dataclass(frozen=True)
class Fit:
    """A hypothesis with its parameters, in the units of the sample."""

    hypothesis: Hypothesis
    shares: Array
    alignment: Alignment | None


def fit_hypothesis(hypothesis: Hypothesis, sample: Sample, n_classes: int) -> Fit:
    """Shares and map by which the target comes nearest to the source.

    Parameters
    ----------
    hypothesis : Hypothesis
        What may have changed.
    sample : Sample
        Rows.
    n_classes : int
        Classes among `sample.codes`.

    Returns
    -------
    Fit
    """
    S, T = sample.source, sample.target
    codes = sample.codes if hypothesis.shares else np.zeros(len(S), dtype=np.int64)
    C = n_classes if hypothesis.shares else 1
    own = np.bincount(codes, minlength=C) / len(codes)
    if not hypothesis.shares and not hypothesis.columns:
        return Fit(hypothesis, own, None)
    moved = _align(S, T, hypothesis.columns) if hypothesis.columns else None
    # The pool holds T as mapped for the source's own shares; the map found is on top of that one.
    closeness = _Closeness(hypothesis, sample, moved, C)
    weights = closeness.weights(np.arange(len(S) + len(T)), codes)
    if moved is not None and not hypothesis.shares:  # there is nothing to search for
        there, here = closeness.moments(weights)
        return Fit(hypothesis, own, _chain(moved, here.map_to(there, own)))
    found = closeness(weights, _starts(own, hypothesis))
    if moved is None or found.alignment is None:
        return Fit(hypothesis, found.shares, moved)
    return Fit(hypothesis, found.shares, _chain(moved, found.alignment))


def judge_hypothesis(
    fit: Fit,
    sample: Sample,
    posterior: Callable[[Array], Array] | None,
    *,
    n_draws: int,
    level: float = 0.05,
    quick: bool = False,
) -> Comparison:
    """The distance that is left when the hypothesis is undone, against draws in which it is true.

    Rows of both domains, target rows undone, are dealt out again to two domains of the same sizes:
    any to any where shares are the same, else within classes, those of target rows drawn from
    their probabilities. Draws end as soon as all of them would say the same: where more draws are
    as far as the rows than may be among all if the hypothesis is to be rejected, and where none is
    and the rows are off by many deviations.

    Parameters
    ----------
    fit : Fit
        The hypothesis.
    sample : Sample
        Rows.
    posterior : callable or None
        Probabilities of rows under the class prior of the source; for hypotheses with shares.
    n_draws : int
        Draws under the null, at most.
    level : float, default=0.05
        Chance to reject a hypothesis that is true.
    quick : bool, default=False
        The first draws alone, whose shares are looked for in one place: it tells what is hopeless.

    Returns
    -------
    Comparison
    """
    rng = np.random.default_rng([sample.seed, 1])  # features have bits of their own
    S, T = sample.source, sample.target
    shares = fit.hypothesis.shares
    C = len(fit.shares)
    codes = sample.codes if shares else np.zeros(len(S), dtype=np.int64)
    own = np.bincount(codes, minlength=C) / len(codes)
    closeness = _Closeness(fit.hypothesis, sample, fit.alignment, C)
    starts = [fit.shares, own][: 1 if quick or not shares else 2]
    n_draws = FIRST_DRAWS if quick else n_draws
    rows, undone = np.arange(len(S) + len(T)), closeness.pool[len(S) :]
    observed = closeness(closeness.weights(rows, codes), starts).delta
    observed = closeness.projected.features.statistics(observed)
    cumulative = None
    if shares:
        assert posterior is not None
        # Shares of the least distance are drawn to the middle where class means are noisy (few
        # rows in a class); those of EM are not.
        P = posterior(undone)
        cumulative = adjust_probabilities(P, own, em_prior(P, own)).cumsum(1)
    drawn: list[Array] = []
    while True:
        if cumulative is None:
            dealt = rng.permutation(rows)
        else:
            guess = (rng.random((len(undone), 1)) > cumulative[:, :-1]).sum(1)
            dealt = _within(np.concatenate([codes, guess]), rng)
        delta = closeness(closeness.weights(dealt, codes), starts).delta
        drawn.append(closeness.projected.features.statistics(delta))
        n = len(drawn)
        if n < n_draws and (n < FIRST_DRAWS or (n - FIRST_DRAWS) % MORE_DRAWS):
            continue
        found = compare(observed, np.array(drawn))
        rejected = found.hopeless and found.p_value <= level
        if n >= n_draws or rejected or found.as_far > level * (n_draws + 1):
            return found


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


def judge_rivals(sample: Sample, posterior: Callable[[Array], Array], *, n_draws: int) -> Rivals:
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

    Returns
    -------
    Rivals
    """
    rng = np.random.default_rng(sample.seed)
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
    """Rows of a pool dealt to two domains: how near can the hypothesis bring them?

    The pool holds source rows, and target rows as mapped by an alignment.
    """

    def __init__(
        self, hypothesis: Hypothesis, sample: Sample, alignment: Alignment | None, C: int
    ) -> None:
        S, T = sample.source, sample.target
        self.hypothesis, self.C = hypothesis, C
        self.pool = np.concatenate([S, alignment(T) if alignment else T])
        self._sample, self._moved = sample, alignment is not None
        if hypothesis.columns:
            self.bulk = winsorised(self.pool)
            self.squares = np.square(self.bulk)

    @cached_property
    def projected(self) -> Projected:
        """Features of the pool."""
        if self._moved:
            return Projected.of(self.pool, self._sample.seed)
        return self._sample.projected

    @cached_property
    def single(self) -> NDArray[np.float32]:
        """The pool in float32: features have no more digits."""
        return self.pool.astype(np.float32)

    def weights(self, dealt: Index, codes: Index) -> Array:
        """Weights of means, of source rows per class and of target rows: the former come first."""
        weights = np.zeros((self.C + 1, len(dealt)))
        weights[codes, dealt[: len(codes)]] = 1
        weights[-1, dealt[len(codes) :]] = 1
        return np.asarray(weights / np.maximum(weights.sum(1, keepdims=True), 1))

    def __call__(self, weights: Array, starts: list[Array]) -> _Found:
        means = weights.astype(np.float32) @ self.projected.phi
        per_class, mean = means[:-1], means[-1]
        if not self.hypothesis.columns:
            pi = fit_simplex(per_class, mean) if self.hypothesis.shares else starts[0]
            return _Found(mean - pi @ per_class, pi, None)
        there, here = self.moments(weights)
        rows, directions = self.single[weights[-1] > 0], self.projected.directions
        best: tuple[float, _Found] | None = None
        for start in starts:
            pi = start
            for step in range(N_STEPS if self.hypothesis.shares else 1):
                alignment = here.map_to(there, pi)
                mean = self.projected.features(alignment(rows, directions)).mean(0)
                delta = mean - pi @ per_class
                left = float(delta @ delta)
                if best is None or left < best[0]:
                    best = left, _Found(delta, pi, alignment)
                if self.hypothesis.shares and step + 1 < N_STEPS:
                    pi = fit_simplex(per_class, mean)
        assert best is not None
        return best[1]

    def moments(self, weights: Array) -> tuple[_Moments, _Moments]:
        """Of source rows per class, and of target rows."""
        means = weights @ self.bulk
        if self.hypothesis.columns == "each":
            second = weights @ self.squares
        else:
            groups = (self.bulk[w > 0] for w in weights)
            second = np.array([rows.T @ rows / max(1, len(rows)) for rows in groups])
        return _Moments(means[:-1], second[:-1]), _Moments(means[-1], second[-1])


@dataclass(frozen=True)
class _Moments:
    """Means and second moments, per class or of one domain."""

    mean: Array
    second: Array

    @classmethod
    def of_rows(cls, rows: Array, columns: str) -> _Moments:
        second = np.square(rows).mean(0) if columns == "each" else rows.T @ rows / len(rows)
        return cls(rows.mean(0), second)

    def map_to(self, other: _Moments, pi: Array) -> Alignment:
        """The map from rows with these moments to those of classes with shares π."""
        mean = pi @ other.mean
        each = other.second.ndim == 2
        second = pi @ other.second if each else np.tensordot(pi, other.second, 1)
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


def _starts(own: Array, hypothesis: Hypothesis) -> list[Array]:
    """Shares from which a fit starts: several, for it may end in a wrong place."""
    if len(own) == 1 or not hypothesis.columns:
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
