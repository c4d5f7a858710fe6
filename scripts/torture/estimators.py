"""Estimators under odd input: right answers or a sentence, never anything else.

Hypothesis draws rows, their storage, their scale, labels, domains and an estimator. What the
estimator answers is held against the 400-bit reference of the tests where the case is small, and
else against the same rows sorted by domain, in plain float64, with plain labels, by another solver
(with scaling="relative" besides in units near 1). An outcome is

- right: finite, of the right shape, as the reference says, input untouched, `residual_` small;
- refused: ValueError or MemoryError with a sentence, or a ConvergenceWarning, where the case gives
  cause (a storage that the reference does without trouble is no cause);
- wrong: anything else that returns; crashed: another exception, a RuntimeWarning, or a minute.

Every cause of a wrong or crashed outcome is shrunk to its smallest case, and printed as a program.

    python -m scripts.torture --estimators 400
"""

from __future__ import annotations

import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from scripts.torture.outcome import Outcome
from scripts.torture.rows import Tally
from sklearn.exceptions import ConvergenceWarning

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, Moments

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # the 400-bit reference
from reference import reference_fit

METHODS = ("S1", "BL", "MCF", "S1M", "S1C", "S1D", "J12", "J12M", "J12C", "J12D", "J12CD", "S1MD")
#: A solver, and the one that it is held against.
SOLVERS = {"primal": "dual", "dual": "primal", "cg": "primal", "auto": "primal"}
#: Estimators with their solvers, and the share of cases that each gets.
GROUPS = {
    **{f"MDAClassifier {solver}": 0.12 for solver in SOLVERS},
    **{f"MDA {solver}": 0.05 for solver in SOLVERS},
    "partial_fit auto": 0.12,
    "Moments": 0.09,
    "DSCM": 0.08,
    "MDAClassifierCV": 0.03,
}
INTEGERS = ("int8", "int64", "uint16", "bool")
DTYPES = (*["float64"] * 8, *["float32"] * 4, *["float16"] * 2, *INTEGERS)
DEFECTS = ("empty column", "empty in source", "constant column", "twin columns", "far from 0")
#: The same rows X in other shapes of memory.
ALL = "np.tile(np.arange(X.shape[1]), len(X)), np.arange(len(X) + 1) * X.shape[1]"
HALF = "(X / 2).astype(X.dtype)"
STORAGES = {
    "plain": "X",
    "Fortran": "np.asfortranarray(X)",
    "reversed": "X[::-1, ::-1].copy()[::-1, ::-1]",
    "strided": "np.repeat(X, 2, axis=1)[:, ::2]",
    "read-only": "np.broadcast_to(X, X.shape)",
    "object": "X.astype(object)",
    **{name: f"sp.{name}_array(X)" for name in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")},
    "csr matrix": "sp.csr_matrix(X)",
    "csr zeros": f"sp.csr_array((X.ravel(), {ALL}), X.shape)",
    "csr unsorted": f"sp.csr_array((X[:, ::-1].ravel(), {ALL}), X.shape)".replace(
        "np.tile(np.arange(X.shape[1])", "np.tile(np.arange(X.shape[1])[::-1]"
    ),
    "csr duplicates": (
        f"sp.csr_array((np.hstack([{HALF}, X - {HALF}]).ravel(), "
        "np.tile(np.arange(X.shape[1]), 2 * len(X)), "
        "np.arange(len(X) + 1) * 2 * X.shape[1]), X.shape)"
    ),
}
NAMES = ["Ant", "bee", "naïve"]  # in the order of their code points
#: The same labels from codes y, of which −1 is none; those after "str" cannot say none.
LABELS = {
    "int": "y",
    "text": f"np.array([None if c < 0 else {NAMES}[c] for c in y], dtype=object)",
    "NaN": "np.where(y < 0, np.nan, y)",
    "None": "np.array([None if c < 0 else int(c) for c in y], dtype=object)",
    "big int": "np.where(y < 0, -1, y + 10**12)",
    "true or none": "np.array([None if c < 0 else c > 0 for c in y], dtype=object)",
    "str": f"np.array({NAMES})[y]",
    "bool": "y > 0",
}
WHOLE = ("str", "bool")
SECONDS = 60
SEED = 14
UNIT, LONG, SHORT = "cases", 4000, 250


@dataclass(frozen=True)
class Case:
    """Everything that was drawn; what the estimator gets follows from it."""

    what: str
    parameters: dict[str, Any]
    sources: list[int]  # rows of each
    targets: list[int]
    n_features: int
    n_classes: int
    seed: int
    dtype: str
    storage: str
    exponent: int  # of 10, rounded to one of 2
    defects: list[str]
    labels: str
    known: float  # share of labelled target rows
    shuffled: bool

    @cached_property
    def domain(self) -> np.ndarray:
        """Of rows in order."""
        numbers = [*range(len(self.sources)), *range(-1, -len(self.targets) - 1, -1)]
        return np.repeat(numbers, self.sources + self.targets)

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows in order and in units near 1, with two decimals; their codes; an order."""
        rng = np.random.default_rng(self.seed)
        n, d = len(self.domain), self.n_features
        truth = rng.integers(0, self.n_classes, n)
        truth[: self.n_classes] = np.arange(self.n_classes)[:n]
        X = rng.standard_normal((n, d)) + 2 * rng.standard_normal((self.n_classes, d))[truth]
        X += 0.5 * rng.standard_normal((len(self.sources + self.targets), d))[self.domain]
        column, other = rng.integers(0, d, 2)
        if sp.issparse(eval(STORAGES[self.storage], {"X": np.eye(2), "np": np, "sp": sp})):
            X[rng.random((n, d)) < 0.6] = 0
        if "far from 0" in self.defects:
            X += 1e6
        if "constant column" in self.defects:
            X[:, column] = 3.0
        if "empty column" in self.defects:
            X[:, column] = 0
        if "empty in source" in self.defects:
            X[self.domain >= 0, other] = 0
        if "twin columns" in self.defects:
            X[:, 0] = X[:, -1]
        X = np.round(X, 0 if self.dtype in INTEGERS else 2)
        X = np.abs(X) if self.dtype == "uint16" else X.clip(-128, 127) if "8" in self.dtype else X
        known = (self.domain >= 0) | (rng.random(n) < self.known)
        order = rng.permutation(n) if self.shuffled else np.arange(n)
        return X.astype(self.dtype), np.where(known, truth, -1), order

    @property
    def power(self) -> int:
        """Of 2, by which rows are multiplied: exactly."""
        return round(self.exponent * np.log2(10))

    @property
    def scaled(self) -> np.ndarray:
        """Rows in order, of the type drawn."""
        X = self.drawn[0]
        return np.ldexp(X, self.power) if self.power else X

    @property
    def program(self) -> str:
        """The case as code: the rows, their labels and domains as the estimator gets them."""
        X, codes, order = self.drawn
        rows = f"np.array({X[order].tolist()}, dtype={self.dtype!r})"
        return "\n".join(
            [
                "import numpy as np",
                "import scipy.sparse as sp",
                "import marda",
                f"X = np.ldexp({rows}, {self.power})" if self.power else f"X = {rows}",
                f"X = {STORAGES[self.storage]}",
                f"y = np.array({codes[order].tolist()})",
                f"y = {LABELS[self.labels]}",
                f"domain = np.array({self.domain[order].tolist()})",
            ]
        )

    @property
    def call(self) -> str:
        """What goes wrong, as code."""
        if self.what == "Moments":
            return "m = marda.Moments.from_arrays(X, y, sample_domain=domain); print(m.means())"
        name = "MDAClassifier" if self.what == "partial_fit" else self.what
        shown = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
        then = "transform" if self.what == "MDA" else "predict_proba"
        return (
            f"model = marda.{name}({shown}).fit(X, y, sample_domain=domain)"
            f"{'  # in three parts, by partial_fit' if self.what == 'partial_fit' else ''}\n"
            f"print(vars(model).get('residual_'), model.{then}(X))"
        )

    def given(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """X, y and sample_domain as the program makes them."""
        names: dict[str, Any] = {}
        with warnings.catch_warnings(action="ignore"):  # SciPy on DIA of many diagonals
            exec(self.program, names)
        return names["X"], names["y"], names["domain"]

    @property
    def ordinary(self) -> bool:
        """Nothing here is a reason to refuse."""
        few = min(self.sources + self.targets) <= 2
        return abs(self.exponent) <= 3 and not few and "far from 0" not in self.defects

    @property
    def tied(self) -> bool:
        """The search chooses by rounding: few rows, or one column, whose unit rows are ±1."""
        few = not self.ordinary or self.n_features == 1
        return self.what == "MDAClassifierCV" and few

    @property
    def small(self) -> bool:
        """The 400-bit reference knows the answer, and soon."""
        linear = self.parameters.get("classifier", "ridge") == "ridge"
        plain = not any(map(self.parameters.get, ("center", "normalize", "n_pivots")))
        size = len(self.domain) * self.n_features
        return (
            self.what in ("MDA", "MDAClassifier", "partial_fit")
            and linear
            and plain
            and (size <= 150)
        )


@st.composite
def cases(draw: Callable[[Any], Any], group: str) -> Case:
    """Simple things first: hypothesis shrinks towards them."""

    def pick(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    rows = st.one_of(st.integers(3, 40), st.integers(1, 2))
    dtype, storage = pick(*DTYPES), pick(*STORAGES)
    if dtype in ("float16", "bool") and STORAGES[storage].startswith("sp."):
        dtype = "float64"
    exponents = {"float64": 150, "float32": 20}.get(dtype, 0)
    exponent = draw(st.one_of(*(st.integers(-e, e) for e in (0, min(3, exponents), exponents))))
    far = dtype == "float64" and not STORAGES[storage].startswith("sp.")
    defects = draw(st.sets(st.sampled_from(DEFECTS if far else DEFECTS[:-1]), max_size=2))
    n_classes, known = pick(2, 3), pick(0.0, 0.3, 1.0)
    labels = [name for name in LABELS if known == 1 or name not in WHOLE]
    labels = [name for name in labels if n_classes == 2 or name not in ("bool", "true or none")]
    what, _, solver = group.partition(" ")
    parameters: dict[str, Any] = {}
    if what == "MDAClassifierCV":
        parameters = {"random_state": 0}
    elif what not in ("DSCM", "Moments"):
        parameters = {
            "method": pick(*METHODS),
            "solver": solver,
            "noise": pick(0.5, 0.0, 0.1, 0.9),
            "scaling": pick("balanced", "relative", "relative", "paper"),
            "fit_intercept": pick(True, True, False),
            "marginalization": pick("exact", "paper"),
        }
    if what == "MDAClassifier":
        parameters["classifier"] = pick("ridge", "ridge", "ridge", "kernel", "nn", "dscm")
        parameters["class_weight"] = pick(None, None, "balanced")
        parameters["center"] = pick(False, False, True)
        parameters["normalize"] = pick(False, False, True)
    return Case(
        what,
        parameters,
        draw(st.lists(rows, min_size=1, max_size=3)),
        draw(st.lists(rows, min_size=1, max_size=2)),
        draw(st.one_of(st.integers(1, 6), st.integers(7, 70))),
        n_classes,
        draw(st.integers(0, 999)),
        dtype,
        storage,
        exponent,
        sorted(defects),
        pick(*labels),
        known,
        draw(st.booleans()),
    )


# What an estimator answers ------------------------------------------------------------------------


class Hung(BaseException):
    """More than SECONDS."""


@contextmanager
def limited(seconds: int) -> Any:
    """Raise Hung after so many seconds of the processor, where the system has alarms."""

    def ring(*_: Any) -> None:
        raise Hung

    if not hasattr(signal, "SIGPROF"):
        yield
        return
    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answers(
    what: str, parameters: dict[str, Any], X: Any, y: np.ndarray, domain: np.ndarray
) -> dict[str, np.ndarray]:
    """Fit and ask for everything; names → arrays."""
    parts = np.array_split(np.arange(X.shape[0]), min(3, X.shape[0]))
    sliced = sp.csr_array(X) if sp.issparse(X) else X
    if what == "Moments":
        whole = Moments.from_arrays(X, y, sample_domain=domain)
        merged, *others = (
            Moments.from_arrays(sliced[part], y[part], sample_domain=domain[part]) for part in parts
        )
        for other in others:
            merged = merged + other
        found = {}
        for name, moments in (("whole", whole), ("merged", merged)):
            n, total, _ = moments.select(np.ones(len(moments.counts), dtype=bool))
            found |= {f"mean {name}": total / n, f"scatter {name}": moments.scatter(total / n)}
        return found
    make = {"DSCM": DSCM, "MDA": MDA, "MDAClassifierCV": MDAClassifierCV}.get(what, MDAClassifier)
    model: Any = make(**parameters)
    if what == "partial_fit":
        marks = ("None", "nan", "-1")
        classes = np.unique([label for label in y.tolist() if str(label) not in marks])
        for part in parts:
            model.partial_fit(sliced[part], y[part], sample_domain=domain[part], classes=classes)
    else:
        model.fit(X, y, sample_domain=domain)
    found = {}
    if what != "MDA":
        found["probability"] = model.predict_proba(X)
        codes = {label: code for code, label in enumerate(model.classes_.tolist())}
        found["prediction"] = np.array([codes[label] for label in model.predict(X).tolist()])
    if what in ("MDAClassifier", "partial_fit") and hasattr(model, "decision_function"):
        found["scores"] = model.decision_function(X)
    if what in ("MDA", "MDAClassifier"):
        found["features"] = model.transform(
            X, **({} if what == "MDA" else {"sample_domain": domain})
        )
    for name in ("residual_", "n_iter_"):
        if hasattr(model, name):
            found[name] = np.atleast_1d(getattr(model, name))
    return found


def exact_answers(
    case: Case, X: np.ndarray, y: np.ndarray, domain: np.ndarray, n_iter: int
) -> dict[str, np.ndarray]:
    """What `answers` must say, to 400 bits."""
    skip = ("solver", "classifier", "center", "normalize")
    options = {k: v for k, v in case.parameters.items() if k not in skip}
    model = reference_fit(X, y, domain, n_iter=n_iter, **options)
    scores = model.scores(X)
    scores = scores[:, 0] if scores.shape[1] == 1 else scores
    return {"features": model.transform(X), "scores": scores}


def tried(call: Callable[[], Any]) -> tuple[str, str, Any]:
    """Outcome so far ("right", "refused" or "crashed"), its cause, and the answers."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            with limited(SECONDS):
                found = call()
        except Hung:
            return "crashed", f"more than {SECONDS} s", None
        except (ValueError, MemoryError) as error:
            foreign = isinstance(error, np.linalg.LinAlgError)  # a ValueError to numpy
            own = type(error).__module__.startswith("marda")
            sentence = len(str(error)) > 20 and " " in str(error) and (own or not foreign)
            return ("refused" if sentence else "crashed"), _cause(error), None
        except Exception as error:
            return "crashed", _cause(error), None
    kinds = [w for w in seen if not issubclass(w.category, ConvergenceWarning)]
    if kinds:
        where = f"{kinds[0].filename.rsplit('/', 1)[-1]}:{kinds[0].lineno}"
        return "crashed", f"{kinds[0].category.__name__} {kinds[0].message} ({where})", None
    if seen:
        # The alternation of a joint model may stop at max_iter: it says so. Others did not solve.
        message = str(seen[0].message)
        return "refused", message, found if "alternation" in message else None
    return "right", "", found


def _cause(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "marda" in f.filename]
    where = f" ({frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].name})" if frames else ""
    text = re.sub(r"[-+]?\d[\d.e+-]*", "#", str(error).splitlines()[0] if str(error) else "")
    return f"{type(error).__name__}: {text[:150]}{where}"


# What an answer is worth --------------------------------------------------------------------------


def judged(case: Case) -> tuple[str, str]:
    """Outcome of a case, and its cause."""
    X, y, domain = case.given()
    outcome, cause, found = tried(lambda: answers(case.what, case.parameters, X, y, domain))
    if any(map(_differ, (X, y, domain), case.given())):
        return "wrong", "X, y or sample_domain was changed"
    if outcome == "crashed":
        return outcome, cause
    if found is None:
        plain = tried(lambda: _plain(case, case.parameters))[0]
        if plain == "right" and case.ordinary:
            return "wrong", f"refused where plain rows are not: {cause}"
        return "refused", cause
    for name, value in found.items():
        if not np.isfinite(value).all():
            return "wrong", f"{name} is not finite"
    if "residual_" in found and found["residual_"].max() > 1e-6:
        return "wrong", "residual_ above 1e-6"
    return ("wrong", worse) if (worse := _compared(case, found)) else (outcome, cause)


def _plain(case: Case, parameters: dict[str, Any]) -> dict[str, np.ndarray]:
    """Answers of the same rows in order, as float64 with codes for labels."""
    X = (case.drawn[0] if _free_of_units(case) else case.scaled).astype(np.float64)
    what = "MDAClassifier" if case.what == "partial_fit" else case.what
    return answers(what, parameters, X, case.drawn[1], case.domain)


def _free_of_units(case: Case) -> bool:
    """With relative ridges the units of the rows do not matter: those of plain rows are near 1.

    (The plain ridge on centred rows has an absolute one.)
    """
    given = case.parameters
    centred = given.get("classifier") == "ridge" and given["center"] and not given["normalize"]
    return given.get("scaling") == "relative" and not centred


def _reference(case: Case, found: dict[str, np.ndarray]) -> tuple[str, int, dict[str, np.ndarray]]:
    """By what, in which units of features (a power of 2), and what it says of rows in order."""
    if case.small:
        X = case.scaled.astype(np.float64)
        with suppress(ZeroDivisionError):  # singular to 400 bits: relative ridges of empty rows
            n_iter = int(found["n_iter_"].max())
            return "400 bits", 0, exact_answers(case, X, case.drawn[1], case.domain, n_iter)
    own = case.parameters.get("solver")
    units = case.power if _free_of_units(case) and not case.parameters.get("normalize") else 0
    for solver in [SOLVERS[own], own] if own else [None]:
        other = case.parameters | ({"solver": solver} if solver else {})
        wanted = tried(lambda other=other: _plain(case, other))[2]
        if wanted is not None:
            return f"plain rows{f', {solver}' if solver else ''}", units, wanted
    return "", 0, {}


def _compared(case: Case, found: dict[str, np.ndarray]) -> str:
    """What differs from the reference; empty if nothing."""
    if case.tied:
        return ""
    order = case.drawn[2]
    by, units, wanted = _reference(case, found)
    far = "far from 0" in case.defects
    apart = int("n_iter_" in wanted and bool((wanted["n_iter_"] != found["n_iter_"]).any()))
    # Routes may stop an alternation apart, where the loss changes by tol = 1e-5.
    tolerance = 1e-2 if apart else 1e-4 if far else 1e-6
    for name, value in found.items():
        if name not in wanted or name in ("prediction", "residual_", "n_iter_"):
            continue  # ties and near ties: scores tell
        right = wanted[name] if case.what == "Moments" else wanted[name][order]
        if value.shape != right.shape:
            return f"{name} has another shape than by {by}"
        size = np.abs(right).max(initial=0)
        off = np.ldexp(value.astype(float), -units if name == "features" else 0) - right
        kind = np.float32 if case.dtype in ("float32", "float16") else np.float64
        roundings = (8 if case.small else 256) * np.finfo(kind).eps
        least = np.finfo(value.dtype).tiny
        if name in ("scores", "probability"):  # sums of numbers near ±1, which may cancel
            least = 8 * np.finfo(value.dtype if case.small else kind).eps
            if not case.small and kind is np.float32:
                least = 2e-3  # heads learn on denoised rows that are rounded to float32
        if name == "features" and case.parameters.get("center"):  # rows as long cancelled
            least = roundings * np.abs(np.ldexp(case.scaled.astype(float), -units)).max()
        if not np.abs(off).max(initial=0) <= (tolerance + roundings) * size + least:
            return f"{name} differs from that by {by}"
    for name in ("mean", "scatter"):
        if f"{name} merged" in found:
            whole, merged = found[f"{name} whole"], found[f"{name} merged"]
            if np.abs(whole - merged).max(initial=0) > 1e-9 * np.abs(whole).max(initial=0):
                return f"merged {name} differs from that of all rows"
    return ""


def _differ(a: Any, b: Any) -> bool:
    """Whether two arrays differ in their bytes or, as objects, in their values."""
    if sp.issparse(a):
        if a.format in ("dok", "lil"):
            return bool((a != b).nnz)
        names = ("data", "indices", "indptr", "coords", "offsets")
        return any(
            _differ(np.asarray(getattr(a, n)), np.asarray(getattr(b, n)))
            for n in names
            if hasattr(a, n)
        )
    if a.dtype == object:
        return a.tolist() != b.tolist()
    return not np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


# The section --------------------------------------------------------------------------------------


def smallest(group: str, n: int, wanted: Callable[[Case], bool]) -> Case | None:
    """The simplest of n cases that is wanted: always the same cases, until one is."""
    quiet = settings(
        max_examples=n,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    with suppress(NoSuchExample):
        return find(cases(group), wanted, settings=quiet, random=Random(f"{SEED} {group}"))
    return None


def run(n: int, judge: Callable[[Case], tuple[str, str]] = judged) -> Tally:
    """Try so many cases; shrink one of every cause that must not be."""
    tally = Tally()
    for group, share in GROUPS.items():
        known: dict[str, tuple[str, str]] = {}

        def outcome(case: Case, known: dict[str, tuple[str, str]] = known) -> tuple[str, str]:
            key = repr(case)
            if key not in known:
                known[key] = judge(case)
            return known[key]

        tries = max(1, round(share * n))
        smallest(group, tries, lambda case, outcome=outcome: not outcome(case))  # never: try all
        for key, (kind, cause) in known.items():
            tally.add(group, kind, cause, key)
        for bad in sorted({found for found in known.values() if found[0] in ("wrong", "crashed")}):
            case = smallest(group, tries, lambda c, outcome=outcome, bad=bad: outcome(c) == bad)
            if case is not None:
                tally.replace_example(*bad, f"{case}:\n\n{case.program}\n{case.call}\n")
    return tally


def table(n: int) -> Outcome:
    """The section of `python -m scripts.torture`."""
    return run(n).outcome()
