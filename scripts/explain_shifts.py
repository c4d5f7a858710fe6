"""Does the account of a shift name the right explanation?

    MARDA_DATA=... python scripts/explain_shifts.py generated skada-bench amt [--seeds 20]

Generated shifts with a known answer are told apart over seeds (even ones for development). Of the
data sets of MARDA_DATA one half of the tasks is told, one line per task: the development half, on
which rules are settled, or with --half report the other. Nothing reads a target label. Where
class shares are in what fits, the share of the last class is printed as well, with its standard
error.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons

from marda import datasets
from marda.benchmarks.plan import TaskSpec
from marda.shift import Shift, explain_shift

Array = NDArray[Any]


class Rows(NamedTuple):
    """Two domains; labels of the second are never looked at."""

    X_source: Any
    y_source: Array
    X_target: Any


def half_of(benchmark: str, source: str, target: str = "") -> str:
    """The half of the tasks that this one is of; the split is that of the benchmarks."""
    return TaskSpec(benchmark, source, target, "US").half


# Generated shifts ---------------------------------------------------------------------------------


def _classes(n: int, d: int, share: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two normal classes whose means are 2.56 apart: 90 % right at best if shares are equal."""
    y = (np.arange(n) < round(share * n)).astype(int)
    X = rng.standard_normal((n, d))
    X[:, 0] += 2.56 * y
    order = rng.permutation(n)
    return X[order], y[order]


def _shares(before: float, after: float) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        return Rows(*_classes(200, 10, before, rng), _classes(200, 10, after, rng)[0])

    return draw


def _moved(
    by: float, factor: float, share: float = 0.5, columns: int = 10
) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        X, y = _classes(200, 10, 0.5, rng)
        T = _classes(200, 10, share, rng)[0]
        T[:, :columns] = factor * T[:, :columns] + by
        return Rows(X, y, T)

    return draw


def _same(d: int) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.geomspace(0.01, 100, d)
        X, y = _classes(200, d, 0.5, rng)
        return Rows(X @ Q, y, _classes(200, d, 0.5, rng)[0] @ Q)

    return draw


def _moons(rng: np.random.Generator) -> Rows:
    seeds = rng.integers(2**31, size=2)
    X, y = make_moons(200, noise=0.2, random_state=int(seeds[0]))
    return Rows(X, y, make_moons(200, noise=0.2, random_state=int(seeds[1]))[0])


def _shift(kind: Any, shift: float, **settings: Any) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        seed = int(rng.integers(2**31))
        data = datasets.make_shift(kind, shift=shift, seed=seed, **settings)
        source, target = (data.domains[side] for side in ("source", "target"))
        return Rows(source.X, source.y, target.X)

    return draw


def _outliers(rng: np.random.Generator) -> Rows:
    X, y, T = _shares(0.5, 0.5)(rng)
    T[:4] *= 1e6
    return Rows(X, y, T)


def _few(n: int) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        X, y, T = _shares(0.5, 0.5)(rng)
        return Rows(X, y, T[:n])

    return draw


GENERATED: dict[str, Callable[[np.random.Generator], Rows]] = {
    "no shift, d = 10": _same(10),
    "no shift, d = 20": _same(20),
    "no shift, d = 50": _same(50),
    "no shift, moons": _moons,
    "no shift, words": _shift("words", 0.0),
    "no shift, 4 of 200 rows × 1e6": _outliers,
    "no shift, 5 target rows": _few(5),
    "no shift, 1 target row": _few(1),
    "shares .5 → .3": _shares(0.5, 0.3),
    "shares .5 → .1": _shares(0.5, 0.1),
    "shares .5 → .9": _shares(0.5, 0.9),
    "shares .9 → .1": _shares(0.9, 0.1),
    "shares .1 → .5": _shares(0.1, 0.5),
    "shares .5 → 0 (one class)": _shares(0.5, 0.0),
    "all columns + 1": _moved(1.0, 1.0),
    "all columns × 2": _moved(0.0, 2.0),
    "one column + 1": _moved(1.0, 1.0, columns=1),
    "all columns + 1, shares .5 → .1": _moved(1.0, 1.0, share=0.1),
    "turned by 1 and stretched": _shift("rotation", 1.0, n_features=20),
    "half of the words replaced": _shift("words", 0.5),
}


def tell_generated(seeds: int, half: str) -> Iterator[str]:
    """One line per generated shift: how often each verdict was given."""
    first = 0 if half == "development" else 1
    for name, draw in GENERATED.items():
        told = [
            explain_shift(*draw(np.random.default_rng(seed)), random_state=seed)
            for seed in range(first, 2 * seeds, 2)
        ]
        kinds = Counter(_kind(shift) for shift in told)
        counts = ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
        yield f"{name:34} {counts}"


# Data sets ---------------------------------------------------------------------------------------


def _skada_bench(folder: Path, half: str) -> Iterator[tuple[str, Rows]]:
    with np.load(folder / "skada-bench.npz") as file:
        for name in sorted({key.split("|")[0] for key in file.files}):
            if half_of("skada-bench", name) == half:
                yield name, Rows(*(file[f"{name}|0|{part}"] for part in ("Xs", "ys", "Xu")))


def _dataset(name: str, folder: Path | None, half: str) -> Iterator[tuple[str, Rows]]:
    data = datasets.load(name, folder)
    for source, target in data.pairs():
        task = f"{name} {source}>{target}"
        if half_of(name, source, target) == half:
            found = datasets.make_task(data, source, target, "US", log_tf=True)
            yield task, Rows(found.X_source, found.y_source, found.X_target)


def tell(name: str, folder: Path | None, half: str) -> Iterator[str]:
    """One line per task of a data set."""
    if name == "skada-bench" and folder is None:
        raise SystemExit("skada-bench is read from the folder that MARDA_DATA names: set it.")
    if name == "skada-bench" and folder:
        tasks = _skada_bench(folder, half)
    else:
        tasks = _dataset(name, folder, half)
    for task, rows in tasks:
        start = time.process_time()
        shift = explain_shift(*rows)
        seconds = time.process_time() - start
        left = " ".join(
            f"{explanation.z:.3g}{'*' if explanation.fits else ''}"
            for explanation in shift.explanations
        )
        share = ""
        if shift.prior is not None and any("shares" in name for name in shift.fitting):
            prior = shift.prior
            share = f", {100 * prior.target[-1]:.0f} ± {100 * prior.standard_error[-1]:.0f} %"
        verdict = f"{_kind(shift)}{share} | z {left} | carried {shift.carried:.2f}"
        yield f"{task:34} {verdict} | {seconds:.1f} s"


def _kind(shift: Shift) -> str:
    return " / ".join(shift.fitting) or shift.kind


def main(argv: Sequence[str] | None = None) -> int:
    """Print the verdicts; a star marks an explanation that fits."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("data", nargs="+", help="generated, skada-bench, or a data set of marda")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--half", choices=("development", "report"), default="development")
    args = parser.parse_args(argv)
    given = os.environ.get("MARDA_DATA")
    folder = Path(given) if given else None
    for name in args.data:
        generated = name == "generated"
        lines = (
            tell_generated(args.seeds, args.half) if generated else tell(name, folder, args.half)
        )
        for line in lines:
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
