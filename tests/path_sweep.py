"""Noise paths and candidates of searches against the 400-bit reference: right, or refused.

Run as a command it prints the table of the seven regimes, and the worst cases:

    PYTHONPATH=src python tests/path_sweep.py [--regime R ...] [--list 20]

A noise path is held by its maps W(p) and the rows that they denoise; a candidate by its weights of
features and its scores, as `reference_sweep.py` holds a fit. Rows and regimes are those of
`reference_sweep.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from marda._validation import Labels
from marda.noise_paths import PathCandidates, noise_path
from reference import Problem, Reference, reference_fit
from reference_sweep import REGIMES, SETTINGS, Spec, error_of, is_refusal

LIMIT = 1e-6
METHODS = ("MCF", "S1", "S1M", "S1D")
KINDS = ("path", "search")


@dataclass(frozen=True)
class Outcome:
    """What became of one map of a path, or of one candidate."""

    kind: str  # of KINDS
    spec: Spec
    what: str
    verdict: str  # right, wrong, refused or crashed
    error: float = 0.0
    said: str = ""

    @property
    def acceptable(self) -> bool:
        return self.verdict in ("right", "refused")

    def __str__(self) -> str:
        found = self.said or f"{self.error:.1e}"
        return f"{self.verdict}: {self.kind} of {self.spec} | {self.what}: {found}"


def problems() -> list[Spec]:
    """Every regime with every number of sources, bias, type and shape; settings in turn."""
    found: list[Spec] = []
    for r, regime in enumerate(REGIMES):
        for at in range(16):
            bits = [bool(at >> k & 1) for k in range(4)]
            found.append(
                Spec(
                    regime,
                    "S1",
                    SETTINGS[(at + r) % 3],
                    1 + bits[0],
                    not bits[1],
                    "float32" if bits[2] else "float64",
                    "wide" if bits[3] else "long",
                    seed=len(found),
                )
            )
    return found


def path_outcomes(spec: Spec) -> list[Outcome]:
    """Each map of a noise path, with the regime's own noise among its levels."""
    X, ridge = spec.rows.X, (0.0, 1e-3, 1e-8)[spec.seed % 3]
    found = []
    for p in (float(spec.options.get("noise", 0.5)), (0.1, 0.9)[spec.seed % 2]):
        what = f"noise {p:g}, ridge {ridge:g}"
        try:
            path = noise_path(X, [p], ridge=ridge, fit_intercept=spec.bias)
            W, H = path[0] @ np.eye(X.shape[1]), path[0].apply(X)
        except Exception as error:  # what kind it is, is the question
            found.append(refusal("path", spec, what, error, {"ridge": ridge}))
            continue
        options = {"method": "S1", "noise": p, "ridge": ridge, "fit_intercept": spec.bias}
        try:
            wanted = Problem(*spec.rows, **options, by_feature=True)
            W_wanted = wanted.map()
        except ZeroDivisionError:  # there is no such map, and one came
            found.append(Outcome("path", spec, what, "wrong", np.inf))
            continue
        exact = Reference(wanted, W_wanted, W_wanted, W_wanted, (None, None))
        errors = error_of("coef", W, exact.W), error_of("rows", H, exact.transform(X))
        found.append(judged("path", spec, what, max(errors)))
    return found


def candidates(spec: Spec) -> list[dict[str, Any]]:
    """Models of two noise levels and two ridges of the class predictor, in the spec's regime."""
    found = []
    for method in METHODS:
        options = dict(replace(spec, method=method).options)
        options.pop("class_loss_weight", None)
        options["marginalization"] = "exact"
        noise, ridge_class = options.get("noise", 0.5), options.get("ridge_class", 1.0)
        for p, delta in ((noise, ridge_class), (0.2 if noise else noise, 10 * ridge_class)):
            found.append({**options, "noise": p, "ridge_class": delta})
    return found


def search_outcomes(spec: Spec) -> list[Outcome]:
    """Each candidate of a search, all scored together; one by one if that is refused."""
    X, y, domain = spec.rows
    many = candidates(spec)
    names = ("class_weight", "fit_intercept", "ridge_domain", "scaling")
    shared = {name: many[0][name] for name in names if name in many[0]}
    labels = Labels(np.unique(y[y >= 0]), y)
    engine = PathCandidates(X, labels, domain, **shared)
    answers: list[Any]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            answers = list(zip(engine.coefs(many), engine.scores(many), strict=True))
    except Exception:  # which one was it?
        answers = []
        for one in many:
            try:
                answers.append((next(engine.coefs([one])), next(engine.scores([one]))))
            except Exception as error:
                answers.append(error)
    found = []
    for one, answer in zip(many, answers, strict=True):
        changes = ("noise", "ridge", "ridge_class", "domain_loss_weight")
        what = f"{one['method']} " + ", ".join(f"{k}={one[k]:g}" for k in changes if k in one)
        if isinstance(answer, Exception):
            found.append(refusal("search", spec, what, answer, one))
            continue
        (coef, _), scores = answer
        exact = reference_fit(*spec.rows, **one)
        errors = error_of("coef", coef.T, exact.coef), error_of("scores", scores, exact.scores(X))
        found.append(judged("search", spec, what, max(errors)))
    return found


def judged(kind: str, spec: Spec, what: str, error: float) -> Outcome:
    return Outcome(kind, spec, what, "right" if error <= LIMIT else "wrong", error)


def refusal(kind: str, spec: Spec, what: str, error: Exception, options: dict[str, Any]) -> Outcome:
    verdict = "refused" if is_refusal(error, options) else "crashed"
    return Outcome(kind, spec, what, verdict, said=f"{type(error).__name__}: {error}")


def outcomes(spec: Spec) -> list[Outcome]:
    return [*path_outcomes(spec), *search_outcomes(spec)]


def table(found: list[Outcome]) -> str:
    """Regime × kind, counted."""
    lines = [
        "| regime | of | right | refused | silently wrong | untrue or crashed | worst error |",
        "|" + " --- |" * 7,
    ]
    for regime in (*REGIMES, None):
        for kind in KINDS:
            here = [o for o in found if o.kind == kind and regime in (o.spec.regime, None)]
            if here:
                count = Counter(o.verdict for o in here)
                numbers = " | ".join(
                    str(count[k]) for k in ("right", "refused", "wrong", "crashed")
                )
                worst = max(o.error for o in here)
                lines.append(f"| {regime or 'all'} | {kind} | {numbers} | {worst:.0e} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if anything is wrong or crashed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regime", nargs="+", choices=REGIMES, default=REGIMES)
    parser.add_argument("--list", type=int, default=10, help="how many failures to list")
    given = parser.parse_args(arguments)
    chosen = [spec for spec in problems() if spec.regime in given.regime]
    start = time.perf_counter()
    found = [o for spec in chosen for o in outcomes(spec)]
    print(f"{len(chosen)} problems, {len(found)} answers, {time.perf_counter() - start:.0f} s\n")
    print(table(found))
    bad = sorted((o for o in found if not o.acceptable), key=lambda o: (o.verdict, -o.error))
    if bad:
        print(f"\n{len(bad)} answers that are neither right nor refused; the first:")
        print("\n".join(str(o) for o in bad[: given.list]))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
