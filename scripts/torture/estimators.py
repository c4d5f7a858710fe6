"""Estimators under odd input: right answers or a sentence, never anything else.

A case is a number: it draws rows, their storage, their scale, labels, domains and an estimator. The
same rows as plain float64 arrays with plain labels (and, with scaling="relative", in units near 1)
are the reference. An outcome is

- right: finite, of the right shape, as the reference says, input untouched, `residual_` small;
- refused: ValueError or MemoryError with a sentence, or a ConvergenceWarning, where the case gives
  cause (a storage that the reference does without trouble is no cause);
- wrong: anything else that returns; crashed: another exception, a RuntimeWarning, or a minute.

    python -m scripts.torture.estimators [--cases 400] [--only NUMBER]
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scripts.torture.outcome import Outcome
from scripts.torture.rows import Row, Tally
from sklearn.exceptions import ConvergenceWarning

from marda import DSCM, MDA, MDAClassifier, MDAClassifierCV, Moments

METHODS = ("BL", "MCF", "S1", "S1M", "S1C", "S1D", "J12", "J12M", "J12C", "J12D", "J12CD", "S1MD")
SOLVERS = ("auto", "primal", "dual", "cg")
KINDS = ("MDA", "MDAClassifier", "partial_fit", "DSCM", "Moments", "MDAClassifierCV")
SHARES = (0.2, 0.5, 0.1, 0.07, 0.1, 0.03)
DTYPES = ("float64", "float32", "float16", "int8", "int64", "uint16", "bool", "object")
ORDERS = ("C", "F", "reversed", "strided", "readonly")
SPARSE = ("csr", "csc", "coo", "bsr", "csr zeros", "csr unsorted", "csr duplicates", "csr matrix")
EXPONENTS = (-150, -100, -50, -20, -9, -3, 0, 3, 9, 20, 50, 100, 150)
DEFECTS = ("empty column", "empty in source", "constant column", "twin columns", "far from 0")
SECONDS = 60
UNIT, LONG, SHORT = "cases", 4000, 250


@dataclass
class Case:
    """Rows with labels and domains, and what was done to them."""

    number: int
    X: Any  # as the estimator gets them
    plain: np.ndarray  # the same numbers, float64, C order, before they were scaled
    y: np.ndarray
    codes: np.ndarray  # class numbers, −1 where there is no label
    domain: np.ndarray
    dtype: str
    storage: str
    exponent: int
    defects: tuple[str, ...]
    labels: str
    scaled: np.ndarray = field(repr=False, default_factory=lambda: np.empty(0))

    def __str__(self) -> str:
        sizes = "+".join(str(int((self.domain == d).sum())) for d in np.unique(self.domain))
        return (
            f"{sizes} rows × {self.plain.shape[1]}, {self.dtype}, {self.storage}, "
            f"scale 1e{self.exponent}, {self.labels} labels, {', '.join(self.defects) or 'clean'}"
        )

    @property
    def ordinary(self) -> bool:
        """Nothing here is a reason to refuse."""
        counts = np.unique(self.domain, return_counts=True)[1]
        return abs(self.exponent) <= 3 and counts.min() > 2 and "far from 0" not in self.defects


def draw(number: int) -> tuple[Case, str, dict[str, Any]]:
    """A case, the kind of estimator and its parameters."""
    rng = np.random.default_rng([number, 14])

    def pick(*choices: Any, p: Any = None) -> Any:
        return choices[int(rng.choice(len(choices), p=p))]

    n_sources, n_targets = pick(1, 1, 2, 3), pick(1, 1, 2)
    sizes = [int(pick(1, 2, 6, 20, 40, p=[0.08, 0.07, 0.2, 0.35, 0.3])) for _ in range(5)]
    d, n_classes = int(pick(1, 2, 5, 30, 70)), int(pick(2, 2, 3))
    sizes = sizes[: n_sources + n_targets]
    domain = np.repeat([*range(1, n_sources + 1), *range(-1, -n_targets - 1, -1)], sizes)
    n = len(domain)
    truth = rng.integers(0, n_classes, n)
    truth[: min(n, n_classes)] = np.arange(min(n, n_classes))
    means = 2 * rng.standard_normal((n_classes, d))
    shift = 0.5 * rng.standard_normal((len(np.unique(domain)), d))
    plain = rng.standard_normal((n, d)) + means[truth]
    plain += shift[np.unique(domain, return_inverse=True)[1].ravel()]
    defects = tuple(name for name in DEFECTS if rng.random() < 0.15)
    dtype = pick(*DTYPES, p=[0.4, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05, 0.1])
    exponent = 0
    if dtype in ("float64", "object"):
        exponent = int(pick(*EXPONENTS, p=[0.05] * 6 + [0.4] + [0.05] * 6))
    elif dtype == "float32":
        exponent = int(pick(-20, -9, -3, 0, 3, 9, 20, p=[0.1, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1]))
    storage = pick("dense", "sparse", p=[0.6, 0.4])
    storage = f"{storage} {pick(*(ORDERS if storage == 'dense' else SPARSE))}"
    if storage.startswith("sparse"):
        plain[rng.random((n, d)) < 0.6] = 0
        dtype = "float64" if dtype in ("object", "float16", "bool") else dtype
    if "far from 0" in defects and dtype in ("float64", "object") and "dense" in storage:
        plain += 1e6
    elif "far from 0" in defects:
        defects = tuple(name for name in defects if name != "far from 0")
    column = int(rng.integers(d))
    if "constant column" in defects:
        plain[:, column] = 3.0
    if "empty column" in defects:
        plain[:, column] = 0
    if "empty in source" in defects:
        plain[domain >= 0, int(rng.integers(d))] = 0
    if "twin columns" in defects and d > 1:
        plain[:, 0] = plain[:, 1]
    if dtype in ("int8", "int64", "uint16", "bool"):
        plain = np.rint(plain) if dtype in ("int8", "int64") else np.abs(np.rint(plain))
        plain = (plain > 0).astype(float) if dtype == "bool" else plain
    kind = "float64" if dtype == "object" else dtype
    scaled = np.ldexp(plain, round(exponent * np.log2(10))).astype(kind)
    if exponent == 0:
        plain = scaled.astype(np.float64)  # a float16 has been rounded: so is the reference
    known = domain >= 0
    known |= rng.random(n) < pick(0.0, 0.3, 1.0)
    codes = np.where(known, truth, -1)
    labels = pick("int", "text", "bool", "NaN", "None", "big int")
    if labels == "bool" and n_classes > 2:
        labels = "int"
    case = Case(
        number,
        _stored(rng, scaled, dtype, storage),
        plain,
        _labelled(codes, labels),
        codes,
        domain,
        dtype,
        storage,
        exponent,
        defects,
        labels,
    )
    case.scaled = np.asarray(scaled, dtype=np.float64)
    what = pick(*KINDS, p=SHARES)
    return case, what, _parameters(pick, what, case)


def _parameters(pick: Callable[..., Any], what: str, case: Case) -> dict[str, Any]:
    if what in ("DSCM", "Moments"):
        return {}
    if what == "MDAClassifierCV":
        return {"random_state": 0}
    parameters = {
        "method": pick(*METHODS),
        "solver": pick(*SOLVERS),
        "noise": pick(0.0, 0.1, 0.5, 0.9),
        "scaling": pick("balanced", "relative", "relative", "paper"),
        "fit_intercept": pick(True, True, False),
        "marginalization": pick("exact", "paper"),
    }
    if what == "partial_fit":
        parameters["solver"] = "auto"
    if what == "MDAClassifier":
        parameters["classifier"] = pick("ridge", "ridge", "ridge", "kernel", "nn", "dscm")
        parameters["class_weight"] = pick(None, None, "balanced")
        parameters["center"] = pick(False, False, True)
        parameters["normalize"] = pick(False, False, True)
    return parameters


def _stored(rng: np.random.Generator, X: np.ndarray, dtype: str, storage: str) -> Any:
    """The same numbers in another shape of memory."""
    shape, how = storage.split(" ", 1)
    if shape == "dense":
        X = X.astype(object) if dtype == "object" else X
        if how == "F":
            return np.asfortranarray(X)
        if how == "reversed":
            return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
        if how == "strided":
            wide = np.repeat(X, 2, axis=1)
            return wide[:, ::2]
        if how == "readonly":
            X = X.copy()
            X.flags.writeable = False
        return X
    base = sp.coo_array(X)
    if how in ("csc", "bsr"):
        return base.asformat(how)
    if how == "coo":  # with entries in two parts
        half = (base.data / 2).astype(X.dtype)
        rest = base.data - half
        row, col = (np.concatenate([i, i]) for i in (base.row, base.col))
        return sp.coo_array((np.concatenate([half, rest]), (row, col)), shape=X.shape)
    csr = sp.csr_array(base)
    if how == "csr matrix":
        return sp.csr_matrix(csr)
    if how == "csr zeros":
        full = np.arange(X.size)
        places = (full // max(1, X.shape[1]), full % max(1, X.shape[1]))
        csr = sp.csr_array((X.ravel(), places), shape=X.shape)
    if how in ("csr unsorted", "csr duplicates"):
        data, indices, indptr = [], [], [0]
        for i in range(X.shape[0]):
            part = slice(csr.indptr[i], csr.indptr[i + 1])
            values, columns = csr.data[part], csr.indices[part]
            if how == "csr duplicates":
                half = (values / 2).astype(X.dtype)
                values, columns = np.append(half, values - half), np.append(columns, columns)
            order = rng.permutation(len(columns))
            data.append(values[order])
            indices.append(columns[order])
            indptr.append(indptr[-1] + len(order))
        parts = (np.concatenate(data), np.concatenate(indices), np.array(indptr))
        csr = sp.csr_array(parts, shape=X.shape)
    return csr


NAMES = np.array(["Ant", "bee", "naïve"], dtype=object)  # in the order of their code points


def _labelled(codes: np.ndarray, labels: str) -> np.ndarray:
    missing = codes < 0
    if labels == "text":
        y = NAMES[np.maximum(codes, 0)]
        y[missing] = None
        return y if missing.any() else y.astype(str)
    if labels == "bool":
        y = (codes == 1).astype(object)
        y[missing] = None
        return y if missing.any() else y.astype(bool)
    if labels == "NaN":
        return np.where(missing, np.nan, codes + 0.0)
    if labels == "None":
        y = codes.astype(object)
        y[missing] = None
        return y
    if labels == "big int":
        return np.where(missing, -1, codes + 10**12)
    return codes


def _code_of(labels: str, values: np.ndarray) -> np.ndarray:
    if labels == "text":
        return np.array([NAMES.tolist().index(str(value)) for value in values])
    if labels == "big int":
        return np.asarray(values) - 10**12
    return np.asarray(values).astype(np.int64)


class Hung(Exception):
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
    what: str, parameters: dict[str, Any], X: Any, y: Any, domain: Any, labels: str
) -> dict[str, np.ndarray]:
    """Fit and ask for everything; names → arrays."""
    found: dict[str, np.ndarray] = {}
    if what == "Moments":
        whole = Moments.from_arrays(X, y, sample_domain=domain)
        cut = max(1, X.shape[0] // 3)
        rows = X if not sp.issparse(X) else sp.csr_array(X)
        # a part must not need both kinds of domains; classes of parts differ
        first = Moments.from_arrays(rows[:cut], y[:cut], sample_domain=domain[:cut])
        if cut < X.shape[0]:
            first = first + Moments.from_arrays(rows[cut:], y[cut:], sample_domain=domain[cut:])
        for name, moments in (("whole", whole), ("merged", first)):
            found[f"mean {name}"] = moments.means()
            n, total, _ = moments.select(np.ones(len(moments.counts), dtype=bool))
            found[f"scatter {name}"] = moments.scatter(total / n)
        return found
    if what == "DSCM":
        model = DSCM().fit(X, y, sample_domain=domain)
        found["probability"] = model.predict_proba(X)
    elif what == "MDAClassifierCV":
        model = MDAClassifierCV(**parameters).fit(X, y, sample_domain=domain)
        found["probability"] = model.predict_proba(X)
    elif what == "MDA":
        model = MDA(**parameters).fit(X, y, sample_domain=domain)
        found["features"] = model.transform(X)
    elif what == "partial_fit":
        model = MDAClassifier(**parameters)
        rows = X if not sp.issparse(X) else sp.csr_array(X)
        classes = np.unique(_known(y))
        for part in np.array_split(np.arange(X.shape[0]), 3):
            if len(part):
                model.partial_fit(rows[part], y[part], sample_domain=domain[part], classes=classes)
        found["scores"] = model.decision_function(X)
    else:
        model = MDAClassifier(**parameters).fit(X, y, sample_domain=domain)
        if hasattr(model, "decision_function"):
            found["scores"] = model.decision_function(X)
        found["probability"] = model.predict_proba(X)
        found["features"] = model.transform(X, sample_domain=domain)
    if what != "MDA":
        found["prediction"] = _code_of(labels, model.predict(X)).astype(float)
    if hasattr(model, "residual_"):
        found["residual"] = np.atleast_1d(np.asarray(model.residual_, dtype=float))
    return found


def _known(y: np.ndarray) -> np.ndarray:
    if y.dtype == object:
        return np.array([v for v in y if v is not None])
    y = y[~np.isnan(y)] if y.dtype.kind == "f" else y
    return y[y != -1] if y.dtype.kind in "if" else y


def tried(call: Callable[[], Any]) -> tuple[str, str, Any]:
    """Outcome so far ("right", "refused" or "crashed"), its cause, and the answers."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            with limited(SECONDS):
                found = call()
        except Hung:
            return "crashed", f"more than {SECONDS} s", None
        except np.linalg.LinAlgError as error:  # a ValueError to numpy
            if type(error).__module__.startswith("marda"):
                return "refused", str(error), None
            return "crashed", _cause(error), None
        except (ValueError, MemoryError) as error:
            sentence = len(str(error)) > 20 and " " in str(error)
            return ("refused" if sentence else "crashed"), _cause(error), None
        except Exception as error:
            return "crashed", _cause(error), None
    kinds = [w for w in seen if not issubclass(w.category, ConvergenceWarning)]
    if kinds:
        where = f"{kinds[0].filename.rsplit('/', 1)[-1]}:{kinds[0].lineno}"
        return "crashed", f"{kinds[0].category.__name__} {kinds[0].message} ({where})", None
    if len(kinds) < len(seen):
        # The alternation of a joint model may stop at max_iter: it says so. Others did not solve.
        message = str(seen[0].message)
        return "refused", message, found if "alternation" in message else None
    return "right", "", found


def _cause(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "marda" in f.filename]
    where = f" ({frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].name})" if frames else ""
    text = re.sub(r"[-+]?\d[\d.e+-]*", "#", str(error).splitlines()[0] if str(error) else "")
    return f"{type(error).__name__}: {text[:150]}{where}"


def judged(case: Case, what: str, parameters: dict[str, Any]) -> tuple[str, str]:
    """Outcome of a case, and its cause where it must not be."""
    before = _frozen(case.X)
    y_before, domain_before = case.y.copy(), case.domain.copy()
    outcome, cause, found = tried(
        lambda: answers(what, parameters, case.X, case.y, case.domain, case.labels)
    )
    if not _same_bytes(before, _frozen(case.X)):
        return "wrong", "X was changed"
    if not (_equal(y_before, case.y) and np.array_equal(domain_before, case.domain)):
        return "wrong", "y or sample_domain was changed"
    if outcome == "crashed":
        return outcome, cause
    # With relative ridges the units of the rows do not matter: those of the reference are near 1.
    # (The plain ridge on centred rows has an absolute one.)
    free = parameters.get("scaling") == "relative" and not (
        parameters.get("classifier") == "ridge"
        and parameters["center"]
        and not parameters["normalize"]
    )
    X = case.plain if free else case.scaled
    plain_outcome, plain_cause, expected = tried(
        lambda: answers(what, parameters, X, case.codes, case.domain, "int")
    )
    if outcome == "refused" and found is None:
        if plain_outcome == "right" and case.ordinary:
            return "wrong", f"refused where plain rows are not: {cause}"
        return "refused", cause
    for name, value in found.items():
        if not np.isfinite(value).all():
            return "wrong", f"{name} is not finite ({_group(what, parameters)})"
    if "residual" in found and found["residual"].max() > 1e-6:
        return "wrong", f"residual_ above 1e-6 ({_group(what, parameters)})"
    if expected is None:
        return outcome, plain_cause
    return _compared(case, what, parameters, found, expected, free) or (outcome, "")


def _compared(
    case: Case,
    what: str,
    parameters: dict[str, Any],
    found: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    free: bool,
) -> tuple[str, str] | None:
    tolerance = 1e-6 if case.dtype not in ("float32", "float16") else 2e-3
    if "far from 0" in case.defects:
        tolerance = max(tolerance, 1e-4)
    for name, wanted in expected.items():
        value = found.get(name)
        if name == "residual":
            continue
        if value is None or value.shape != wanted.shape:
            return "wrong", f"{name} has another shape ({_group(what, parameters)})"
        if not np.isfinite(wanted).all():
            return "wrong", f"{name} of plain rows is not finite ({_group(what, parameters)})"
        if name == "prediction":
            continue  # ties and near ties: scores tell
        if name == "features" and free and parameters.get("normalize") is not True:
            value = np.ldexp(value.astype(float), -round(case.exponent * np.log2(10)))
        size = np.abs(wanted).max(initial=0)
        if np.abs(value - wanted).max(initial=0) > tolerance * max(size, np.finfo(float).tiny):
            return "wrong", f"{name} differs from plain rows ({_group(what, parameters)})"
    for name in ("mean", "scatter"):
        if f"{name} merged" in found:
            whole, merged = found[f"{name} whole"], found[f"{name} merged"]
            size = np.abs(whole).max(initial=0)
            if np.abs(whole - merged).max(initial=0) > max(tolerance, 1e-9) * size:
                return "wrong", f"merged {name} differs from that of all rows"
    return None


def _group(what: str, parameters: dict[str, Any]) -> str:
    if "method" not in parameters:
        return what
    how = parameters.get("classifier", "")
    return f"{what} {parameters['method']} {parameters['solver']} {how}".strip()


def _frozen(X: Any) -> list[Any]:
    if not sp.issparse(X):
        return [X.copy()]
    names = ("data", "indices", "indptr", "row", "col")
    return [np.copy(getattr(X, name)) for name in names if hasattr(X, name)]


def _same_bytes(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype == object:
        return a.shape == b.shape and all(
            x is y or x == y for x, y in zip(a.flat, b.flat, strict=True)
        )
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def run(cases: int = 400, only: int | None = None, tally: Tally | None = None) -> list[Row]:
    """Try so many cases; one row for an estimator and solver."""
    tally = Tally() if tally is None else tally
    for number in range(cases) if only is None else [only]:
        case, what, parameters = draw(number)
        outcome, cause = judged(case, what, parameters)
        name = f"{what} {parameters['solver']}" if "solver" in parameters else what
        shown = ", ".join(f"{k}={v!r}" for k, v in parameters.items())
        tally.add(name, outcome, cause, f"--only {number}: {case}; {what}({shown})")
        if only is not None:
            print(f"{outcome}: {cause or 'as it should be'}\n{case}\n{what}({shown})")
    return tally.rows()


def table(n: int) -> Outcome:
    """The section of `python -m scripts.torture`."""
    tally = Tally()
    run(n, tally=tally)
    return tally.outcome()


def main(argv: list[str] | None = None) -> int:
    """Print the table and the causes; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=400)
    parser.add_argument("--only", type=int, help="one case, by its number")
    args = parser.parse_args(argv)
    tally = Tally()
    rows = run(args.cases, args.only, tally)
    print("\n".join([*tally.outcome().lines(), *tally.causes()]))
    return int(any(row.wrong or row.crashed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
