"""Fits against the 400-bit reference, over seven regimes: right, refused, or silently wrong.

Run as a command it prints the table of regimes and solvers, and the worst cases:

    PYTHONPATH=src python tests/reference_sweep.py [--regime R ...] [--solver S ...] [--list 20]

An error is the largest of three: of `coef_` (relative to its norm), of the denoised training rows
(relative to their spread) and of their scores (relative to their norm). Denoised rows and scores
may besides differ by `ROUNDING` units in the last place of their norm, which is what a product and
a sum of numbers of their type cost: rows at 1e6 times their spread have no more digits. `coef_` of
float32 rows comes back in float64, is defined by the exact values of the rows, and is held to the
same bounds.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from marda import MDAClassifier
from reference import UNLABELED, Reference, reference_fit

REGIMES = (
    "ordinary",
    "noise 0",
    "weight 1e6",
    "noise 0, small ridge or strong MMD",
    "class and domain ridge 1e-8",
    "units 1e-9 to 1e9",
    "offsets of 1e6 sd",
)
MODELS = ("BL", "S1", "S1M", "S1C", "S1D", "J12", "J12M", "J12C", "J12D")
SETTINGS = ("US", "SUP", "SS")
SOLVERS = ("primal", "dual", "cg", "auto")
#: Largest error that is not an error, by regime; a refusal is an answer except in the first.
TOLERANCE = dict.fromkeys(REGIMES, 1e-6) | {"ordinary": 1e-8, "noise 0": 1e-8}
#: What denoised rows and scores may lose, in units of the last place of their norm.
ROUNDING = 4
N_CLASSES = 3
#: Rows of the sources, rows of the target, columns.
SHAPES = {"wide": (12, 12, 30), "long": (24, 18, 12)}
#: What an exception may not say: it comes from below, or is untrue of finite rows.
RAW = re.compile(r"converge|singular matrix|infs? or nans?|contains? (nan|inf)|shapes? ", re.I)


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    sample_domain: np.ndarray


@dataclass(frozen=True)
class Spec:
    """One problem: a regime, a model, and the rows they meet."""

    regime: str
    method: str
    setting: str
    sources: int
    bias: bool
    dtype: str
    shape: str
    seed: int

    def __str__(self) -> str:
        bias = "bias" if self.bias else "no bias"
        parts = (self.regime, self.method, self.setting, f"{self.sources} src", bias)
        return " | ".join([*parts, self.dtype, self.shape, f"#{self.seed}"])

    @property
    def options(self) -> dict[str, Any]:
        """Of the reference and of `MDAClassifier` alike."""
        found: dict[str, Any] = {"method": self.method, "fit_intercept": self.bias}
        if self.seed % 5 == 3:
            found["scaling"] = "relative"
        if self.seed % 5 == 4:
            found |= {"scaling": "paper", "marginalization": "paper"}
        if self.seed % 7 == 5:
            found["class_weight"] = "balanced"
        if self.regime == "noise 0":
            found["noise"] = 0.0
        elif self.regime == "weight 1e6":
            found |= {"class_loss_weight": 1e6, "domain_loss_weight": 1e6}
        elif self.regime == "noise 0, small ridge or strong MMD":
            draw = np.random.default_rng([self.seed, 1])
            small = {"ridge": float(draw.choice([1e-4, 1e-6, 1e-8, 1e-10]))}
            strong = {"domain_loss_weight": 1e5, "class_loss_weight": 1e3}
            found |= {"noise": 0.0} | (small if draw.random() < 0.5 else strong)
        elif self.regime == "class and domain ridge 1e-8":
            found |= {"ridge_class": 1e-8, "ridge_domain": 1e-8}
        return found

    @property
    def max_iter(self) -> int:
        """The reference pays for every alternation."""
        return 100 if self.regime == "ordinary" and self.shape == "long" else 5

    @cached_property
    def rows(self) -> Rows:
        """Correlated rows away from the origin, a shifted target, every class in every domain."""
        rng = np.random.default_rng(self.seed)
        n_source, n_target, d = SHAPES[self.shape]
        n = n_source + n_target
        y = np.arange(n) % N_CLASSES
        domain = np.repeat([0, -1], [n_source, n_target])
        domain[:n_source] = (np.arange(n_source) // N_CLASSES) % self.sources
        X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / np.sqrt(d)
        X += rng.standard_normal((N_CLASSES, d))[y] + rng.standard_normal(d)
        X[n_source:] += rng.standard_normal(d)
        if self.regime == "units 1e-9 to 1e9":
            X *= 10 ** rng.uniform(-9, 9, d)
        elif self.regime == "offsets of 1e6 sd":
            X += 1e6 * X.std(0) * rng.choice([-1, 1], d)
        known = {"US": n_source, "SUP": n, "SS": n_source + 2 * N_CLASSES}[self.setting]
        y[known:] = UNLABELED
        return Rows(X.astype(self.dtype), y, domain)


def problems() -> list[Spec]:
    """Every regime × model × setting that is defined, twice.

    The two are each other's complement in the number of sources, the bias, the type and the shape,
    and which they are moves on from case to case: all sixteen combinations occur in every regime.
    """
    found: list[Spec] = []
    for r, regime in enumerate(REGIMES):
        place = r
        for method in MODELS:
            for setting in SETTINGS:
                if "C" in method and setting == "US":  # needs labelled target rows
                    continue
                place += 1
                for at in (place % 8, 15 - place % 8):
                    bits = [bool(at >> k & 1) for k in range(4)]
                    found.append(
                        Spec(
                            regime,
                            method,
                            setting,
                            1 + bits[0],
                            not bits[1],
                            "float32" if bits[2] else "float64",
                            "wide" if bits[3] else "long",
                            seed=len(found),
                        )
                    )
    return found


# Fits ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of one fit: "right", "refused", "wrong" (silently) or "crashed".

    An exception that is no honest refusal (`is_refusal`) counts as "crashed".
    """

    spec: Spec
    solver: str
    kind: str
    error: float = 0.0
    part: str = ""
    said: str = ""

    @property
    def acceptable(self) -> bool:
        return self.kind == "right" or (self.kind == "refused" and self.spec.regime != "ordinary")

    def __str__(self) -> str:
        found = f"{self.part} off by {self.error:.1e}" if self.part else self.said
        return f"{self.kind}: {self.spec} | {self.solver}: {found}"


@lru_cache(maxsize=64)
def reference_of(spec: Spec, n_iter: int) -> tuple[Reference, dict[str, np.ndarray]]:
    """The reference, and what is compared with it."""
    reference = reference_fit(*spec.rows, n_iter=n_iter, **spec.options)
    X = spec.rows.X
    wanted = {"coef": reference.coef, "rows": reference.transform(X), "scores": reference.scores(X)}
    return reference, wanted


def outcome(spec: Spec, solver: str) -> Outcome:
    """Fit by one solver and compare."""
    rows = spec.rows
    model = MDAClassifier(solver=solver, max_iter=spec.max_iter, **spec.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(rows.X, rows.y, sample_domain=rows.sample_domain)
            found = {
                "coef": model.coef_,
                "rows": model.transform(rows.X),
                "scores": model.decision_function(rows.X),
            }
        except Exception as error:  # what kind it is, is the question
            said = f"{type(error).__name__}: {error}"
            kind = "refused" if is_refusal(error, spec.options) else "crashed"
            return Outcome(spec, solver, kind, said=said)
    _, wanted = reference_of(spec, int(model.n_iter_))
    errors = {part: error_of(part, found[part], wanted[part]) for part in wanted}
    part = max(errors, key=errors.__getitem__)
    kind = "right" if errors[part] <= TOLERANCE[spec.regime] else "wrong"
    return Outcome(spec, solver, kind, errors[part], part)


def error_of(part: str, found: np.ndarray, wanted: np.ndarray) -> float:
    """Relative error beyond the rounding of what is returned; infinite if not a number."""
    if found.shape != wanted.shape or not np.isfinite(found).all():
        return np.inf
    distance = float(np.linalg.norm(found.astype(np.float64) - wanted))
    if part != "coef":
        unit_in_last_place = float(np.finfo(found.dtype).eps) * float(np.linalg.norm(wanted))
        distance = max(0.0, distance - ROUNDING * unit_in_last_place)
    unit = wanted - wanted.mean(0) if part == "rows" else wanted
    return distance / max(float(np.linalg.norm(unit)), np.finfo(float).tiny)


def is_refusal(error: Exception, options: dict[str, Any]) -> bool:
    """Whether an exception is an honest refusal: marda's own words, and true ones."""
    own = type(error).__module__.startswith("marda")
    if not own and not isinstance(error, ValueError | ArithmeticError):
        return False
    if isinstance(error, np.linalg.LinAlgError) or RAW.search(str(error)):
        return False
    ridges = [options.get(name, 1.0) for name in ("ridge", "ridge_class", "ridge_domain")]
    return not (re.search(r"above 0(?!\.?\d)", str(error)) and min(ridges) > 0)


def outcomes(spec: Spec, solvers: Iterable[str] = SOLVERS) -> list[Outcome]:
    return [outcome(spec, solver) for solver in solvers]


# The command --------------------------------------------------------------------------------------


def table(found: list[Outcome]) -> str:
    """Regime × solver, counted."""
    lines = [
        "| regime | solver | right | refused | silently wrong | untrue or crashed | worst error |",
        "|" + " --- |" * 7,
    ]
    for regime in REGIMES:
        for solver in SOLVERS:
            here = [o for o in found if o.spec.regime == regime and o.solver == solver]
            if not here:
                continue
            count = Counter(o.kind for o in here)
            numbers = " | ".join(str(count[k]) for k in ("right", "refused", "wrong", "crashed"))
            worst = max((o.error for o in here), default=0.0)
            lines.append(f"| {regime} | {solver} | {numbers} | {worst:.0e} |")
    for solver in SOLVERS:
        here = [o for o in found if o.solver == solver]
        if here:
            count = Counter(o.kind for o in here)
            numbers = " | ".join(str(count[k]) for k in ("right", "refused", "wrong", "crashed"))
            lines.append(f"| all | {solver} | {numbers} | {max(o.error for o in here):.0e} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if anything is wrong or crashed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regime", nargs="+", choices=REGIMES, default=REGIMES)
    parser.add_argument("--solver", nargs="+", choices=SOLVERS, default=SOLVERS)
    parser.add_argument("--method", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--list", type=int, default=10, help="how many failures to list")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args(arguments)
    chosen = [s for s in problems() if s.regime in given.regime and s.method in given.method]
    start = time.perf_counter()
    if given.workers > 1:
        with ProcessPoolExecutor(given.workers) as pool:
            parts = list(pool.map(outcomes, chosen, [given.solver] * len(chosen), chunksize=4))
    else:
        parts = [outcomes(spec, given.solver) for spec in chosen]
    found = [o for part in parts for o in part]
    print(f"{len(chosen)} problems, {len(found)} fits, {time.perf_counter() - start:.0f} s\n")
    print(table(found))
    bad = sorted((o for o in found if not o.acceptable), key=lambda o: (o.kind, -o.error))
    if bad:
        print(f"\n{len(bad)} fits that are neither right nor refused; the first:")
        print("\n".join(str(o) for o in bad[: given.list]))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
