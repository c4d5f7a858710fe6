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
from typing import Any

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

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Alternations between shares and map.
N_STEPS = 3
#: Draws after which a test may stop, and then after every so many more.
FIRST_DRAWS, MORE_DRAWS = 19, 20
#: Weights of rows that are held at once.
MAX_WEIGHTS = 2**19
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
    weights = closeness.weights(np.arange(len(S) + len(T))[None], codes)
    if moved is not None and not hypothesis.shares:  # there is nothing to search for
        there, here = closeness.moments(weights)
        return Fit(hypothesis, own, _chain(moved, here.map_to(there, own[None])[0]))
    found = closeness(weights, _starts(own, hypothesis))
    if moved is None:
        return Fit(hypothesis, found.shares[0], None)
    return Fit(hypothesis, found.shares[0], _chain(moved, found.alignments[0]))


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
    observed = closeness.statistics(rows[None], codes, starts)[0]
    cumulative = None
    if shares:
        assert posterior is not None
        # Shares of the least distance are drawn to the middle where class means are noisy (few
        # rows in a class); those of EM are not.
        P = posterior(undone)
        cumulative = adjust_probabilities(P, own, em_prior(P, own)).cumsum(1)
    drawn = np.empty((0, len(observed)))
    while True:
        more = min(MORE_DRAWS if len(drawn) else FIRST_DRAWS, n_draws - len(drawn))
        if cumulative is None:
            dealt = np.array([rng.permutation(rows) for _ in range(more)])
        else:
            dealt = _dealt_within(codes, cumulative, more, rng)
        drawn = np.concatenate([drawn, closeness.statistics(dealt, codes, starts)])
        found = compare(observed, drawn)
        rejected = found.hopeless and found.p_value <= level
        if len(drawn) >= n_draws or rejected or found.as_far > level * (n_draws + 1):
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
    """Of every draw: what is left, by which shares, and by which maps (none: columns stay)."""

    delta: Array
    shares: Array
    alignments: list[Any]


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

    def statistics(self, dealt: Index, codes: Index, starts: list[Array]) -> Array:
        """What is left of rows that are dealt to two domains, one line per draw."""
        step = max(1, MAX_WEIGHTS // ((self.C + 1) * dealt.shape[1]))
        left = [
            self(self.weights(dealt[k : k + step], codes), starts).delta
            for k in range(0, len(dealt), step)
        ]
        return self.projected.features.statistics(np.concatenate(left))

    def weights(self, dealt: Index, codes: Index) -> Array:
        """Weights of means, of source rows per class and of target rows: the former come first."""
        draws, ns = np.arange(len(dealt))[:, None], len(codes)
        weights = np.zeros((len(dealt), self.C + 1, dealt.shape[1]))
        weights[draws, codes, dealt[:, :ns]] = 1
        weights[draws, -1, dealt[:, ns:]] = 1
        return np.asarray(weights / np.maximum(weights.sum(2, keepdims=True), 1))

    def __call__(self, weights: Array, starts: list[Array]) -> _Found:
        means = weights.astype(np.float32) @ self.projected.phi
        per_class, mean = means[:, :-1], means[:, -1]
        if not self.hypothesis.columns:
            pi = _repeated(starts[0], len(mean))
            if self.hypothesis.shares:
                pi = _nearest(per_class, mean)
            return _Found(mean - _mixed(pi, per_class), pi, [])
        there, here = self.moments(weights)
        rows = [self.single[w > 0] for w in weights[:, -1]]
        directions, features = self.projected.directions, self.projected.features
        least = np.full(len(rows), np.inf)
        best = _Found(
            np.full(mean.shape, np.nan), np.empty((len(rows), self.C)), [None] * len(rows)
        )
        for start in starts:
            pi = _repeated(start, len(rows))
            for step in range(N_STEPS if self.hypothesis.shares else 1):
                maps = here.map_to(there, pi)
                moved = (map_(X, directions) for map_, X in zip(maps, rows, strict=True))
                mean = np.array([features.mean(X) for X in moved])
                delta = mean - _mixed(pi, per_class)
                left = (delta[:, None] @ delta[:, :, None]).ravel()
                for k in np.flatnonzero(left < least):
                    least[k], best.delta[k], best.shares[k] = left[k], delta[k], pi[k]
                    best.alignments[k] = maps[k]
                if self.hypothesis.shares and step + 1 < N_STEPS:
                    pi = _nearest(per_class, mean)
        return best

    def moments(self, weights: Array) -> tuple[_Moments, _Moments]:
        """Of source rows per class, and of target rows."""
        means = weights @ self.bulk
        if self.hypothesis.columns == "each":
            second = weights @ self.squares
        else:
            second = np.array([[_second(self.bulk[w > 0]) for w in draw] for draw in weights])
        return _Moments(means[:, :-1], second[:, :-1]), _Moments(means[:, -1], second[:, -1])


@dataclass(frozen=True)
class _Moments:
    """Means and second moments of every draw, per class or of one domain."""

    mean: Array
    second: Array

    @classmethod
    def of_rows(cls, rows: Array, columns: str) -> _Moments:
        second = np.square(rows).mean(0) if columns == "each" else _second(rows)
        return cls(rows.mean(0)[None], second[None])

    def map_to(self, other: _Moments, pi: Array) -> list[Alignment]:
        """The maps from rows with these moments to those of classes with shares π."""
        mean, shape = _mixed(pi, other.mean), self.second.shape
        second = _mixed(pi, other.second.reshape(*pi.shape, -1)).reshape(shape)
        if second.ndim == 2:
            here = self.second - self.mean**2
            there = np.maximum(second - mean**2, 0)
            flat = (here < FLAT) | (there < FLAT)
            factor = np.where(flat, 1.0, np.sqrt(there / np.where(flat, 1.0, here)))
            offset = mean - self.mean * factor
        else:
            factor = _gaussian_map(self.second - _square(self.mean), second - _square(mean))
            offset = mean - (self.mean[:, None] @ factor)[:, 0]
        return [Alignment(A, b) for A, b in zip(factor, offset, strict=True)]


def _repeated(pi: Array, n: int) -> Array:
    """The same shares for every draw."""
    return np.tile(pi, (n, 1))


def _nearest(per_class: NDArray[Any], mean: NDArray[Any]) -> Array:
    """Shares by which classes come nearest to the mean, of every draw."""
    return np.array([fit_simplex(*one) for one in zip(per_class, mean, strict=True)])


def _mixed(pi: Array, per_class: NDArray[Any]) -> Array:
    """Σ_c π_c of what classes have, of every draw."""
    return np.asarray((pi[:, None] @ per_class)[:, 0])


def _square(mean: Array) -> Array:
    """The matrix m mᵀ of every draw."""
    return mean[:, :, None] * mean[:, None]


def _second(rows: Array) -> Array:
    """Means of products of columns; 0 without a row."""
    return rows.T @ rows / max(1, len(rows))


def _gaussian_map(here: Array, there: Array) -> Array:
    """H^(−½)(H^½ T H^½)^½ H^(−½): the symmetric map from covariance H to T, of every draw."""
    values, vectors = np.linalg.eigh(here)
    values = np.maximum(values, FLAT)[:, None]
    turned = vectors.swapaxes(1, 2)
    root = (vectors * np.sqrt(values)) @ turned
    back = (vectors / np.sqrt(values)) @ turned
    inner, vectors = np.linalg.eigh(root @ there @ root)
    middle = (vectors * np.sqrt(np.maximum(inner, 0))[:, None]) @ vectors.swapaxes(1, 2)
    return np.asarray(back @ middle @ back)


def _align(S: Array, T: Array, columns: str) -> Alignment:
    """The map of a target to the source as it is."""
    there, here = (_Moments.of_rows(winsorised(rows), columns) for rows in (S, T))
    return here.map_to(_Moments(there.mean[None], there.second[None]), np.ones((1, 1)))[0]


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


def _dealt_within(codes: Index, cumulative: Array, n: int, rng: np.random.Generator) -> Index:
    """Permutations of rows within classes; those of target rows are drawn first.

    `codes` are the classes of source rows, `cumulative` sums of the probabilities of target rows.
    """
    dealt = []
    for _ in range(n):
        guess = (rng.random((len(cumulative), 1)) > cumulative[:, :-1]).sum(1)
        dealt.append(_within(np.concatenate([codes, guess]), rng))
    return np.array(dealt)


def _within(codes: Index, rng: np.random.Generator) -> Index:
    """A permutation of rows within classes."""
    order = np.argsort(codes, kind="stable")
    shuffled = np.lexsort((rng.random(len(codes)), codes))
    dealt = np.empty_like(order)
    dealt[order] = shuffled
    return dealt
