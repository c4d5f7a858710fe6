"""Generated data of which it is known what differs, and mostly how good one can be.

`make_shift` has one knob: how far the target moved. `make_case` draws one of `CASES`, each a whole
situation: other class shares, five target rows, an index saved as a column. Its ``difference`` is
what differs in truth, for an explanation of the shift to be scored by. `changed_digits` are
scikit-learn's digits, half of them as they are, the other half blurred, dimmed, turned, ….
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal, get_args
from zlib import crc32

import numpy as np
import scipy  # loads its parts where they are used
from numpy.typing import NDArray
from scipy import sparse

from marda.datasets.base import DataError, Dataset, Domain, LazyDomains

Array = NDArray[Any]
Difference = Literal["none", "class shares", "moved columns", "linear map", "features", "outliers"]
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
        return float(scipy.stats.norm.pdf(t - rho) * scipy.stats.norm.cdf(t) ** (C - 1))

    # The density is negligible beyond ten deviations; a finite range cannot miss its peak.
    return float(scipy.integrate.quad(density, rho - 10, rho + 10, epsabs=1e-10, limit=200)[0])


def _word_accuracy(own: float, used: int, m: int, C: int) -> float:
    """Best accuracy from ``used`` of m words per class; ``own`` is the expected count of all m."""
    a = own * used / m
    if a == 0:
        return 1 / C
    # Beyond the last n nothing of the own count is left: the sum is exact to rounding.
    n = np.arange(int(scipy.stats.poisson.isf(1e-16, a)) + 2)
    F = scipy.stats.poisson.cdf(n, a / 4)
    below = np.r_[0.0, F[:-1]]
    # (F^C - below^C) / (C p) is the mean of F^i below^(C-1-i), which does not divide by a tiny p.
    won = sum(F**i * below ** (C - 1 - i) for i in range(C)) / C
    return float(np.sum(scipy.stats.poisson.pmf(n, a) * won))


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


# Situations ---------------------------------------------------------------------------------------

SEEDS = 20
"""Draws of each case in the benchmark: seeds 0 … 19."""
N_TEST = 1000
"""Target rows that only the accuracy sees."""
SEPARATION = 2.7
"""Distance of the two class means, in standard deviations: Φ(1.35) = 91.1 % can be right."""


@dataclass(frozen=True)
class Case:
    """A situation: what differs between source and target, and how rows are drawn."""

    difference: Difference
    kind: Literal["gaussian", "moons", "words", "rotation"] = "gaussian"
    shares: tuple[float, float] = (0.5, 0.5)
    """Of class 1 in the source and in the target."""
    n_target: int = 200
    n_features: int = 10
    spreads: bool = False
    """Columns of very different spread, then turned: no column stands for one of them."""
    moved: bool = False
    stretched: bool = False
    index: bool = False
    """A column that counts the rows, on from the source to the target."""
    outliers: int = 0
    """Target rows to learn from that are multiplied by 1e6."""
    shift: float = 0.0
    """Radians of a rotation; share of the words that the target writes otherwise."""


def _shares(source: float, target: float) -> Case:
    return Case("class shares", shares=(source, target))


CASES: dict[str, Case] = {
    "shares .5>.3": _shares(0.5, 0.3),
    "shares .5>.1": _shares(0.5, 0.1),
    "shares .5>.9": _shares(0.5, 0.9),
    "shares .9>.1": _shares(0.9, 0.1),
    "shares .1>.5": _shares(0.1, 0.5),
    "one class": _shares(0.5, 1.0),
    "same d=10": Case("none"),
    "same d=20": Case("none", n_features=20),
    "same d=50": Case("none", n_features=50),
    "same spreads d=10": Case("none", spreads=True),
    "same spreads d=20": Case("none", n_features=20, spreads=True),
    "same spreads d=50": Case("none", n_features=50, spreads=True),
    "same words": Case("none", "words", n_features=50),
    "same moons": Case("none", "moons", n_features=2),
    "five rows": Case("none", n_target=5),
    "one row": Case("none", n_target=1),
    "outliers": Case("outliers", outliers=4),
    "index column": Case("moved columns", index=True),
    "moved": Case("moved columns", moved=True),
    "stretched": Case("moved columns", stretched=True),
    "moved and stretched": Case("moved columns", moved=True, stretched=True),
    "rotated moons": Case("linear map", "moons", n_features=2, shift=np.pi / 6),
    "rotated and stretched": Case("linear map", "rotation", shift=1.0),
    "new words": Case("features", "words", n_features=50, shift=0.5),
}
"""Every case by its name; the source has 200 rows."""


@dataclass(frozen=True, eq=False)
class ExplainedDataset(Dataset):
    """A `Dataset` of two generated domains, ``source`` and ``target``.

    Attributes
    ----------
    difference : str
        What truly differs: nothing (``"none"``), ``"class shares"``, ``"moved columns"`` (moved
        or stretched), ``"linear map"``, ``"features"`` (words that only the target uses), or
        ``"outliers"`` among the target rows.
    best_accuracy : float or None
        Accuracy on the target of the rule that knows both distributions; None where it has no
        closed form.
    parameters : mapping
        What the data were generated with.
    """

    difference: Difference = "none"
    best_accuracy: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def make_case(name: str, seed: int = 0) -> ExplainedDataset:
    r"""Draw one of `CASES`.

    Two Gaussian classes stand a distance of δ = 2.7 standard deviations apart, along a direction
    drawn at random. With a share π of class 1 in the target the best accuracy is

    .. math:: \pi\,\Phi(\delta/2 - t) + (1 - \pi)\,\Phi(\delta/2 + t),
              \qquad t = \tfrac1\delta \ln\tfrac{1 - \pi}{\pi},

    whatever invertible map the columns went through. Rows of words and of ``"rotated and
    stretched"`` are those of `make_shift`. Training sees 200 target rows (or five, or one);
    accuracy is measured on 1,000 others, which are never outliers.

    Parameters
    ----------
    name : str
        One of `CASES`.
    seed : int, default=0
        The same seed gives the same rows; every case has draws of its own.

    Returns
    -------
    ExplainedDataset
        With ``difference`` and, where it is known, ``best_accuracy``.

    Examples
    --------
    >>> from marda.datasets import make_case
    >>> data = make_case("shares .5>.1")
    >>> data.difference, round(data.best_accuracy, 3)
    ('class shares', 0.957)
    """
    if name not in CASES:
        raise DataError(f"no generated case {name!r}: choose from {', '.join(CASES)}.")
    if seed < 0:
        raise DataError(f"seed={seed}: give 0 or more.")
    case = CASES[name]
    parameters = {"case": name, "seed": seed}
    return ExplainedDataset(
        name=f"generated {name}",
        domains=LazyDomains({s: partial(_draw, name, seed, s) for s in ("source", "target")}),
        names=("class 0", "class 1"),
        licence="none needed: generated",
        citation="none needed: generated",
        notes=f"Generated; what differs: {case.difference}.",
        kind="generated",
        identity=json.dumps(parameters),
        difference=case.difference,
        best_accuracy=_best(case),
        parameters=parameters,
    )


def _best(case: Case) -> float | None:
    if case.kind == "moons":
        return None
    if case.kind != "gaussian":
        return _shifted(case, 0).best_accuracy
    share, half = case.shares[1], SEPARATION / 2
    if share in (0.0, 1.0):
        return 1.0
    t = np.log((1 - share) / share) / SEPARATION
    Phi = scipy.stats.norm.cdf
    return float(share * Phi(half - t) + (1 - share) * Phi(half + t))


def _draw(name: str, seed: int, side: str) -> Domain:
    """Rows of one domain: those to learn from first, then (target) those of the test."""
    case = CASES[name]
    target = side == "target"
    n = case.n_target if target else 200
    rows = n + N_TEST * target
    seeds = np.random.SeedSequence((crc32(name.encode()), seed)).spawn(3)
    shape, rng = np.random.default_rng(seeds[0]), np.random.default_rng(seeds[1 + target])
    if case.kind in ("words", "rotation"):
        domain = _shifted(case, int(shape.integers(2**31)), n_target=n + N_TEST)[side]
        X, y = domain.part()
        X = X.toarray() if sparse.issparse(X) else X.copy()
    elif case.kind == "moons":
        X, y = _moons(rows, case.shift * target, rng)
    else:
        X, y = _gaussian(case, rows, target, shape, rng)
    if target and case.outliers:
        X[rng.choice(n, case.outliers, replace=False)] *= 1e6
    if case.index:
        X = np.column_stack([np.arange(rows) + 200.0 * target, X])
    return Domain(X, y.astype(np.int64), train=np.arange(rows) < n)


def _shifted(case: Case, seed: int, n_target: int = 200) -> ShiftedDataset:
    """Rows of `make_shift`, about as hard as the others."""
    kind: Any = case.kind
    return make_shift(
        kind,
        n_source=200,
        n_target=n_target,
        n_features=case.n_features,
        separation=5.0 if kind == "words" else SEPARATION / np.sqrt(2),
        shift=case.shift,
        seed=seed,
    )


def _gaussian(
    case: Case, rows: int, target: bool, shape: np.random.Generator, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Two classes, and what happens to their columns; the same for both sides but for target."""
    d = case.n_features
    direction = shape.standard_normal(d)
    direction /= np.linalg.norm(direction)
    spread = 10.0 ** shape.uniform(-1.5, 1.5, d)
    turned, _ = np.linalg.qr(shape.standard_normal((d, d)))
    # Along the classes, where it hurts, and by a number of its own for every column.
    step = SEPARATION / 2 * direction + shape.standard_normal(d)
    factor = 2.0 ** shape.uniform(-2, 2, d)
    y = (rng.random(rows) < case.shares[target]).astype(int)
    X = rng.standard_normal((rows, d)) + SEPARATION * np.outer(y - 0.5, direction)
    if case.spreads:
        X = (X * spread) @ turned
    if target and case.stretched:
        X *= factor
    if target and case.moved:
        X += step
    return X, y


def _moons(rows: int, angle: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """scikit-learn's two moons, about their centre, turned by an angle."""
    from sklearn.datasets import make_moons

    X, y = make_moons(rows, noise=0.2, random_state=int(rng.integers(2**31)))
    X = X - (0.5, 0.25)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return X @ turn, y


# Changed digits -----------------------------------------------------------------------------------


def _noise(images: Array, rng: np.random.Generator) -> Array:
    return np.clip(images + rng.normal(0, 6, images.shape), 0, 16)


def _background(images: Array, rng: np.random.Generator) -> Array:
    return np.maximum(images, rng.uniform(0, 10, (len(images), 1, 1)))


CHANGES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "same": lambda x, _: x,
    "blur": lambda x, _: scipy.ndimage.gaussian_filter(x, (0, 1, 1)),
    "dim": lambda x, _: 0.3 * x,
    "move": lambda x, _: np.roll(x, 1, 2),
    "turn": lambda x, _: scipy.ndimage.rotate(x, 20, axes=(1, 2), reshape=False),
    "noise": _noise,
    "gamma": lambda x, _: x**2 / 16,
    "cover": lambda x, _: np.where(np.arange(8) < 3, 0, x),
    "background": _background,
}
"""What is done to the digits of the target; one stream of random numbers runs through all."""


def changed_digits(change: str) -> Dataset:
    """900 digits as they are, and the 897 others changed."""
    if change not in CHANGES:
        raise DataError(f"no change {change!r} of digits: choose from {', '.join(CHANGES)}.")
    sides = ("source", "target")
    return Dataset(
        name=f"digits {change}",
        domains=LazyDomains({side: partial(_digits, change, side) for side in sides}),
        names=tuple("0123456789"),
        licence="CC BY 4.0 (UCI machine learning repository), part of scikit-learn",
        citation="Alpaydin, Kaynak: Optical recognition of handwritten digits, UCI 1998.",
        kind="table",
        identity=json.dumps({"digits": change}),
    )


def _digits(change: str, side: str) -> Domain:
    return _both_digits(change)[side == "target"]


@lru_cache(maxsize=2)
def _both_digits(change: str) -> tuple[Domain, Domain]:
    """One stream of random numbers runs through all changes, in their order."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    data = load_digits()
    for name, changed in CHANGES.items():
        order = rng.permutation(len(data.images))
        first, second = order[:900], order[900:]
        images = changed(data.images[second], rng)
        if name == change:
            break
    y = data.target.astype(np.int64)
    target = images.reshape(len(second), -1).astype(float)
    return Domain(data.data[first], y[first]), Domain(target, y[second])
