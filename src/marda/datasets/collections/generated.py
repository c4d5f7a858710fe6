"""Generated tasks of which it is known what differs, and mostly how good one can be.

`CASES` names them; `make_case` draws one with a seed. Unlike `make_shift`, which has one knob, a
case is a whole situation: other class shares, five target rows, an index saved as a column. Its
``story`` is the true account of what differs, for an explanation of the shift to be scored by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from marda.datasets.base import DataError, Dataset, Domain, LazyDomains
from marda.datasets.collections.shift import ShiftedDataset, make_shift

Story = Literal["none", "class shares", "moved columns", "linear map", "features", "outliers"]
Array = NDArray[Any]

SEEDS = 20
"""Draws of each case in the benchmark: seeds 0 … 19."""
N_TEST = 1000
"""Target rows that only the accuracy sees."""
SEPARATION = 2.7
"""Distance of the two class means, in standard deviations: Φ(1.35) = 91.1 % can be right."""


@dataclass(frozen=True)
class Case:
    """A situation: what differs between source and target, and how rows are drawn."""

    story: Story
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
    story : str
        What truly differs: nothing (``"none"``), ``"class shares"``, ``"moved columns"`` (moved
        or stretched), ``"linear map"``, ``"features"`` (words that only the target uses), or
        ``"outliers"`` among the target rows.
    best_accuracy : float or None
        Accuracy on the target of the rule that knows both distributions; None where it has no
        closed form.
    parameters : mapping
        What the data were generated with.
    """

    story: Story = "none"
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
        With ``story`` and, where it is known, ``best_accuracy``.

    Examples
    --------
    >>> from marda.datasets import make_case
    >>> data = make_case("shares .5>.1")
    >>> data.story, round(data.best_accuracy, 3)
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
        notes=f"Generated; what differs: {case.story}.",
        kind="generated",
        identity=json.dumps(parameters),
        story=case.story,
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
    Phi = stats.norm.cdf
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
