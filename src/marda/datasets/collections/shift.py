"""Generated domains with a known shift and a known best accuracy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, sparse, stats

from marda.datasets.base import DataError, Dataset, Domain, LazyDomains

ShiftKind = Literal["mean", "rotation", "words"]


@dataclass(frozen=True, eq=False)
class ShiftedDataset(Dataset):
    """A `Dataset` of two generated domains, ``source`` and ``target``.

    Attributes
    ----------
    best_accuracy : float
        Accuracy on the target of the rule that knows both distributions (Bayes): in the long run
        nothing can be better.
    shared_accuracy : float or None
        For words: the best accuracy of a rule that knows the source alone, and so must ignore
        the words that only the target uses.
    parameters : mapping
        What the data were generated with.
    """

    best_accuracy: float = 1.0
    shared_accuracy: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def make_shift(
    kind: ShiftKind = "mean",
    *,
    n_source: int = 500,
    n_target: int = 500,
    n_features: int = 50,
    n_classes: int = 2,
    separation: float = 3.0,
    shift: float = 1.0,
    seed: int = 0,
) -> ShiftedDataset:
    r"""Generate a source and a target whose difference is known.

    All classes are equally likely. With C classes:

    - ``"mean"``: rows are :math:`x = \rho\,e_c + \varepsilon`, with orthonormal directions
      :math:`e_c` drawn at random and standard normal noise. All target rows are moved by one
      vector of length ``shift · separation`` in the span of the :math:`e_c`, where it hurts.
    - ``"rotation"``: as before, but target rows are turned by ``shift`` radians, within planes
      that mix every class direction with a direction of noise, and every column is then
      multiplied by a factor between ½ and 2.
    - ``"words"``: counts. A row draws every word from a Poisson law: a word of its own class
      has rate a, a word of another class rate b, a neutral word rate b. A fraction ``shift`` of
      the words of every class is replaced in the target by words that the source never uses.

    The maps of the first two kinds are invertible, so that the best accuracy is that of the
    source,

    .. math:: \int \varphi(t - \rho)\,\Phi(t)^{C-1}\,dt, \qquad \rho = \text{separation}

    (for two classes :math:`\Phi(\rho/\sqrt 2)`). For words it is the chance that the class's own
    words (together Poisson(ma)) outnumber those of the other classes (each Poisson(mb)), a tie
    among j classes being won with chance 1/j; with F, p the distribution of Poisson(mb),

    .. math:: \sum_n p_{ma}(n)\,\frac{F(n)^C - F(n-1)^C}{C\,p(n)}.

    Parameters
    ----------
    kind : {"mean", "rotation", "words"}, default="mean"
        The kind of shift.
    n_source, n_target : int, default=500
        Rows.
    n_features : int, default=50
        Columns; at least ``2 · n_classes`` (``4 · n_classes`` for words).
    n_classes : int, default=2
        C.
    separation : float, default=3
        How far apart the classes are; for words, the expected number of own-class words in a
        row (m·a), with b = a/4.
    shift : float, default=1
        Size of the shift; 0 for none. A fraction in [0, 1] for words.
    seed : int, default=0
        The same seed gives the same rows; source and target are drawn independently.

    Returns
    -------
    ShiftedDataset
        Domains ``source`` and ``target``, and ``best_accuracy``.

    Examples
    --------
    >>> from marda.datasets import make_shift
    >>> data = make_shift("mean", separation=2.0)
    >>> round(data.best_accuracy, 4)
    0.9214
    """
    parameters = {
        "kind": kind, "n_source": n_source, "n_target": n_target, "n_features": n_features,
        "n_classes": n_classes, "separation": separation, "shift": shift, "seed": seed,
    }  # fmt: skip
    _check(parameters)
    shared: float | None = None
    if kind == "words":
        m = _words_per_class(n_features, n_classes)
        kept = m - round(shift * m)
        best = _word_accuracy(separation, m, m, n_classes)
        shared = _word_accuracy(separation, kept, m, n_classes)
        draw = _draw_words
    else:
        best = _gaussian_accuracy(separation, n_classes)
        draw = _draw_gaussian
    return ShiftedDataset(
        name=f"shift-{kind}",
        domains=LazyDomains(
            {side: partial(draw, parameters, side) for side in ("source", "target")}
        ),
        names=tuple(f"class {c}" for c in range(n_classes)),
        licence="none needed: generated",
        citation="none needed: generated",
        notes=f"Generated; best accuracy on the target {best:.4f}.",
        kind="generated",
        identity=json.dumps(parameters, sort_keys=True),
        best_accuracy=best,
        shared_accuracy=shared,
        parameters=parameters,
    )


def _draw_gaussian(p: Mapping[str, Any], side: str) -> Domain:
    """Draw normal rows; move or turn those of the target."""
    shape_seed, *row_seeds = np.random.SeedSequence(p["seed"]).spawn(3)
    d, C, rho = p["n_features"], p["n_classes"], p["separation"]
    shape = np.random.default_rng(shape_seed)
    # Columns 0 … C-1 of the basis are the class directions, C … 2C-1 directions of noise.
    basis, _ = np.linalg.qr(shape.standard_normal((d, d)))
    scales = 2.0 ** shape.uniform(-1, 1, d)
    rng = np.random.default_rng(row_seeds[side == "target"])
    y = rng.integers(C, size=p[f"n_{side}"])
    X = rng.standard_normal((len(y), d)) + rho * basis[:, y].T
    if side == "target" and p["kind"] == "mean":
        # Towards class 0 and away from the others: the old boundary then favours class 0.
        direction = basis[:, 0] - basis[:, 1:C].mean(axis=1)
        X += p["shift"] * rho * direction / np.linalg.norm(direction)
    elif side == "target" and p["shift"] != 0:
        X = (X @ _rotation(basis, C, p["shift"])) * scales
    return Domain(X, y.astype(np.int64))


def _rotation(basis: NDArray[np.float64], C: int, angle: float) -> NDArray[np.float64]:
    """Return the matrix that turns the planes of directions c and C + c by an angle."""
    A, B = basis[:, :C], basis[:, C : 2 * C]
    turned = (np.cos(angle) - 1) * (A @ A.T + B @ B.T) + np.sin(angle) * (A @ B.T - B @ A.T)
    rotation: NDArray[np.float64] = np.eye(len(basis)) + turned
    return rotation


def _draw_words(p: Mapping[str, Any], side: str) -> Domain:
    """Draw Poisson counts; the target writes some words of every class differently."""
    seeds = np.random.SeedSequence(p["seed"]).spawn(2)
    rng = np.random.default_rng(seeds[side == "target"])
    d, C = p["n_features"], p["n_classes"]
    m = _words_per_class(d, C)
    replaced = round(p["shift"] * m)
    a = p["separation"] / m
    rates = np.full((C, d), a / 4)
    # Columns: C blocks of m source words, C blocks of m target spellings, neutral words.
    unused = np.zeros(d, dtype=bool)
    for c in range(C):
        source, target = c * m + np.arange(m), (C + c) * m + np.arange(m)
        other = np.r_[source[: m - replaced], target[m - replaced :]]
        own = other if side == "target" else source
        rates[c, own] = a
        unused[np.setdiff1d(np.r_[source, target], own)] = True
    rates[:, unused] = 0.0
    y = rng.integers(C, size=p[f"n_{side}"])
    X = sparse.csr_matrix(rng.poisson(rates[y]).astype(np.float64))
    return Domain(X, y.astype(np.int64))


def _gaussian_accuracy(rho: float, C: int) -> float:
    """Chance that the class's own coordinate, N(ρ, 1), exceeds C - 1 others, N(0, 1)."""

    def density(t: float) -> float:
        return float(stats.norm.pdf(t - rho) * stats.norm.cdf(t) ** (C - 1))

    # The density is negligible beyond ten deviations; a finite range cannot miss its peak.
    return float(integrate.quad(density, rho - 10, rho + 10, epsabs=1e-10, limit=200)[0])


def _word_accuracy(own: float, used: int, m: int, C: int) -> float:
    """Best accuracy from ``used`` of m words per class; ``own`` is the expected count of all m."""
    a = own * used / m
    if a == 0:
        return 1 / C
    # Beyond the last n nothing of the own count is left: the sum is exact to rounding.
    n = np.arange(int(stats.poisson.isf(1e-16, a)) + 2)
    F = stats.poisson.cdf(n, a / 4)
    below = np.r_[0.0, F[:-1]]
    # (F^C - below^C) / (C p) is the mean of F^i below^(C-1-i), which does not divide by a tiny p.
    won = sum(F**i * below ** (C - 1 - i) for i in range(C)) / C
    return float(np.sum(stats.poisson.pmf(n, a) * won))


def _words_per_class(d: int, C: int) -> int:
    """A quarter of the columns is neutral at least; the rest are words of classes, twice."""
    return max(1, (3 * d) // (8 * C))


def _check(p: Mapping[str, Any]) -> None:
    """Refuse parameters that make no data."""
    if p["kind"] not in get_args(ShiftKind):
        raise DataError(f"kind={p['kind']!r}: choose from {', '.join(get_args(ShiftKind))}.")
    words = p["kind"] == "words"
    if p["n_classes"] < 2:
        raise DataError(f"n_classes={p['n_classes']}: give 2 or more.")
    least = (4 if words else 2) * p["n_classes"]
    if p["n_features"] < least:
        raise DataError(f"n_features={p['n_features']} for {p['n_classes']} classes: give {least}.")
    if min(p["n_source"], p["n_target"]) < 1:
        raise DataError("n_source and n_target must be 1 or more.")
    if not p["separation"] > 0:
        raise DataError(f"separation={p['separation']}: give a number above 0.")
    if words and not 0 <= p["shift"] <= 1:
        raise DataError(f"shift={p['shift']} is the fraction of words replaced: give 0 to 1.")
