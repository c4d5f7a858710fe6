"""Small problems, and the library's pure layers on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marda.moments import Moments, accumulate
from marda.problem import Problem, Settings
from marda.selection.adapted_ensemble import MemberFits, fit_adapted
from marda.selection.auto import AutoFit
from marda.solve import Solution, solve
from marda.terms import parse_method

MODELS = ("S1", "S1M", "S1C", "S1D", "J12", "J12M", "J12C", "J12D")
SETTINGS = ("US", "SUP", "SS")
#: Every model in every setting that defines it: C needs labelled target rows.
DEFINED = [(m, s) for m in MODELS for s in SETTINGS if not ("C" in m and s == "US")]


class Case(NamedTuple):
    """Rows with the labelled ones first, codes of their classes (−1: none), domains."""

    X: np.ndarray
    codes: np.ndarray
    domain: np.ndarray
    n_classes: int

    @property
    def labelled(self) -> np.ndarray:
        return self.codes >= 0

    def take(self, index) -> Case:
        return Case(self.X[index], self.codes[index], self.domain[index], self.n_classes)


def make_case(
    setting="US", *, sources=1, n_source=36, n_target=28, d=6, n_classes=3, seed=0, positive=False
) -> Case:
    """Correlated rows away from the origin; the target is shifted; every class in every domain."""
    rng = np.random.default_rng(seed)
    n = n_source + n_target
    codes = np.arange(n) % n_classes
    domain = np.repeat([0, -1], [n_source, n_target])
    domain[:n_source] = (np.arange(n_source) // n_classes) % sources
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) * 0.5
    X += rng.standard_normal((n_classes, d))[codes] + rng.standard_normal(d)
    X[n_source:] += rng.standard_normal(d)
    if positive:
        X = np.abs(X)
    known = {"US": n_source, "SUP": n, "SS": n_source + 3 * n_classes}[setting]
    codes[known:] = -1
    return Case(X, codes, domain, n_classes)


def moments_of(case: Case, **options) -> Moments:
    return accumulate(case.X, np.arange(case.n_classes), case.codes, case.domain, **options)


def problem_of(
    case: Case, settings: Settings, solver="primal", class_weights=None, outputs=None
) -> Problem:
    """A `Problem` by any route; `case` has its labelled rows first."""
    weights = np.ones(case.n_classes) if class_weights is None else class_weights
    moments = moments_of(case, class_grams=True)
    rows = {} if solver == "primal" else rows_of(case, moments)
    return Problem(moments, settings, solver, weights, outputs=outputs, **rows)


def rows_of(case: Case, moments: Moments, X=None) -> dict:
    """A copy of the rows, which a problem takes over, and their groups."""
    X = case.X if X is None else X
    return {"X": X.copy(), "row_groups": moments.row_groups(case.domain, case.codes)}


def solved(case: Case, method: str, settings: Settings, solver="primal", **options) -> Solution:
    weights, outputs = options.pop("class_weights", None), options.pop("outputs", None)
    problem = problem_of(case, settings, solver, weights, outputs)
    return solve(problem, parse_method(method), predictor=True, **options)


def full_map(solution: Solution) -> np.ndarray:
    """W with its bias row, in the caller's coordinates."""
    d = solution.problem.moments.n_features
    W = solution.matmul(np.eye(solution.problem.n_outputs))[:d]
    return np.vstack([W, solution.offset()]) if solution.problem.bias else W


def relative(a, b) -> float:
    """‖a − b‖ / ‖b‖."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    assert a.shape == b.shape
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


def always_adapted(
    X, labels, domain, class_weight, seed, say, columns=None, rest=None, elsewhere=None
) -> AutoFit:
    """The adapted ensemble, whatever the shift is: stands for `fit_auto`.

    Small problems are often explained, and a source-only model is right for them: what is about
    members that denoise would not be seen.
    """
    fit = fit_adapted(MemberFits.of(X, labels, domain, class_weight, seed, elsewhere), say)
    return AutoFit(fit.members, fit.left_out, fit.source_skill, fit.target_skill)
