"""One function per claim: each measures marda and a reference in the same process.

A case returns figures as a dict; `ratio` is reference time over marda's, unless the case says
otherwise. References are written here in the plainest way, as the textbooks have them.
"""

from __future__ import annotations

import cProfile
import inspect
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve, solve_sylvester
from scipy.linalg.lapack import dpotrf, dpotri
from sklearn import config_context
from sklearn.model_selection import ParameterGrid

from marda import (
    MDA,
    MDAClassifier,
    MDAClassifierCV,
    datasets,
    load,
    noise_path,
    paper_settings,
)
from marda._arrays import add_gram, root_gram, thin_product
from marda._machine import blas_threads, machine_facts, peak_mb
from marda.benchmarks.execute import fit_unit
from marda.benchmarks.plan import MODELS_US, Spec, TaskSpec
from marda.benchmarks.store import ResultRow, Store, now, stamp
from marda.datasets import Dataset, make_task
from marda.operators.cost import Workload, costs
from marda.operators.linear import CholeskyFactor
from marda.selection.adapted_ensemble import member_parameters
from marda.selection.ensemble import BATCH, SIZES, Ensemble, Member, compress
from marda.selection.inputs import Inputs
from marda.solve import residual_and_error

Figures = dict[str, Any]
Matrix = NDArray[np.float64]

warnings.filterwarnings("ignore", message="the alternation of")


# Generated rows -----------------------------------------------------------------------------------


def _labels(
    rng: np.random.Generator, n: int, n_classes: int, labelled_target: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    domain = np.where(np.arange(n) < n // 2, 0, -1)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    y[n // 2 : n // 2 + n_classes] = np.arange(n_classes)
    y[n // 2 + labelled_target :] = -1
    return y, domain


def dense_problem(
    n: int, d: int, n_classes: int = 10, *, labelled_target: int = 0, dtype: str = "float64"
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """L2-normalised rows around class means, half source and half shifted target."""
    rng = np.random.default_rng(0)
    y, domain = _labels(rng, n, n_classes, labelled_target)
    truth = np.where(y < 0, rng.integers(0, n_classes, n), y)
    means = rng.standard_normal((n_classes, d)).astype(dtype)
    X = rng.standard_normal((n, d), dtype=np.dtype(dtype).type)
    X += means[truth]
    X[domain < 0] += 0.5 * rng.standard_normal(d).astype(dtype)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y, domain


def sparse_problem(
    n: int, d: int, per_row: int, n_classes: int = 2
) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Rows of `per_row` words drawn by a power law, L2-normalised."""
    rng = np.random.default_rng(0)
    y, domain = _labels(rng, n, n_classes, 0)
    columns = np.minimum((d * rng.random((n, per_row)) ** 3).astype(np.int64), d - 1)
    rows = np.repeat(np.arange(n), per_row)
    X = sp.csr_array((np.ones(n * per_row), (rows, columns.ravel())), (n, d))
    X.sum_duplicates()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())
    return sp.csr_array(sp.diags_array(1 / norms) @ X), y, domain


# Cases --------------------------------------------------------------------------------------------


def _seconds(job: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """Best wall-clock time of several runs, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.perf_counter()
        result = job()
        best = min(best, time.perf_counter() - start)
    return best, result


def _difference(A: Matrix, B: Matrix) -> float:
    return float(np.linalg.norm(A - B) / np.linalg.norm(B))


def _bartels_stewart(X: Matrix, y: NDArray[Any], alternations: int) -> tuple[Matrix, Matrix]:
    """J12 as the paper computes it: the Sylvester equation A W + W B = C in every alternation."""
    p, ridge, ridge_class = 0.5, 1e-2, 1.0
    q, d = 1 - p, X.shape[1]
    labelled = y >= 0
    Y = np.where(y[labelled][:, None] == np.arange(y.max() + 1), 1.0, -1.0)

    def corrupted(S: Matrix) -> Matrix:
        Q = q**2 * S
        Q[np.diag_indices_from(Q)] = q * np.diag(S)
        return Q

    S, S_l = X.T @ X, X[labelled].T @ X[labelled]
    Q, Q_l, P, T = corrupted(S), corrupted(S_l), q * S, q * X[labelled].T @ Y
    A = solve(Q_l, Q + ridge * np.eye(d), assume_a="pos")
    W = np.eye(d)

    def z_step(W: Matrix) -> Matrix:
        K = W.T @ Q_l @ W + ridge_class * np.eye(d)
        return np.asarray(solve(K, W.T @ T, assume_a="pos"))

    for _ in range(alternations):
        Z = z_step(W)
        W = solve_sylvester(A, Z @ Z.T, solve(Q_l, P + T @ Z.T, assume_a="pos"))
    return W, z_step(W)


def alternation(d: int = 1000) -> Figures:
    """J12, three alternations, against scipy's Bartels–Stewart."""
    X, y, domain = dense_problem(3 * d // 2, d)
    settings = {**paper_settings("image"), "max_iter": 3, "tol": 0.0}
    model = MDAClassifier("J12", solver="primal", **settings)
    ours, model = _seconds(lambda: model.fit(X, y, sample_domain=domain), repeat=2)
    theirs, (W, Z) = _seconds(lambda: _bartels_stewart(X, y, 3))
    return {
        "features": d,
        "marda_s": ours,
        "reference_s": theirs,
        "ratio": theirs / ours,
        "difference_W": _difference(model.W_, W),
        "difference_Z": _difference(model.Z_, Z),
    }


def joint(d: int = 4000) -> Figures:
    """J12 to tol=1e-5 against S1: how much the alternation costs (ratio: J12's time over S1's)."""
    X, y, domain = dense_problem(3 * d // 2, d)
    sequential, _ = _seconds(
        lambda: MDAClassifier("S1", solver="primal").fit(X, y, sample_domain=domain)
    )
    together, model = _seconds(
        lambda: MDAClassifier("J12", solver="primal", tol=1e-5).fit(X, y, sample_domain=domain)
    )
    return {
        "features": d,
        "S1_s": sequential,
        "J12_s": together,
        "ratio": together / sequential,
        "alternations": model.n_iter_,
    }


def gpu(method: str = "S1", n: int = 20_000, d: int = 30_000, device: str = "cuda") -> Figures:
    """A fit on another device and one by numpy, of the same rows (ratio: numpy's time over its).

    "auto" is the default, on words: sparse rows for numpy, dense ones for the device.
    """
    try:
        import torch
    except ImportError:
        raise RuntimeError("torch is not installed: it moves the rows to the device.") from None
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("there is no CUDA device here.")

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    def fitted(rows: Any) -> Any:
        model = model_of().fit(rows, y, sample_domain=domain)
        wait()
        return model

    X: Any
    X, y, domain = text_problem(n, d) if method == "auto" else dense_problem(n, d)
    model_of: Callable[[], Any] = partial(MDA, method, solver="primal")
    if method == "auto":
        model_of = partial(MDAClassifierCV, random_state=0)
    elif method.startswith("J12"):
        model_of = partial(MDAClassifier, method, solver="primal")
    classifies = method != "S1"
    few = slice(n - 1000, n) if n > 1000 and method != "auto" else slice(None)
    ours, model = _seconds(lambda: fitted(X))
    expected = (model.predict_proba if classifies else model.transform)(X[few])
    os.environ["SCIPY_ARRAY_API"] = "1"
    with config_context(array_api_dispatch=True):
        there = torch.asarray(X.toarray() if sp.issparse(X) else X, device=device)
        theirs, model = _seconds(lambda: fitted(there), repeat=2)
        given = (model.predict_proba if classifies else model.transform)(there[few])
    found = given.cpu().numpy()
    figures: Figures = {
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "rows": n,
        "features": d,
        "numpy_s": ours,
        "device_s": theirs,
        "ratio": ours / theirs,
        "difference": float(np.abs(found - expected).max() / np.abs(expected).max()),
        "residual": model.residual_,
    }
    if classifies:
        figures["same_predictions"] = float(np.mean(found.argmax(1) == expected.argmax(1)))
    if method == "auto":
        figures["members"] = [member.name for member in model.members_]
    elif classifies:
        figures["alternations"] = model.n_iter_
    return figures


# What S1's fit does in BLAS and LAPACK: functions that are nothing but a call of it (their own time
# counts), and SciPy's (the time of what they call counts, too).
BLAS_CALLS: dict[CodeType, str] = {
    add_gram.__code__: "Grams (syrk)",
    CholeskyFactor.inverse.__code__: "W₀ (potri)",
    thin_product.__code__: "products with Q, Q_l and W₀ (gemm)",
    root_gram.__code__: "W₀ᵀQ_lW₀ (trmm, syrk)",
}
SCIPY_CALLS: dict[CodeType, str] = {
    inspect.unwrap(cholesky).__code__: "Cholesky (potrf)",
    inspect.unwrap(cho_solve).__code__: "solves (potrs)",
}


def blas_share(d: int = 4000) -> Figures:
    """Share of S1's fit inside BLAS and LAPACK, from its profile (ratio: the share)."""
    X, y, domain = dense_problem(3 * d // 2, d)
    profile = cProfile.Profile()
    profile.enable()
    MDAClassifier("S1", solver="primal").fit(X, y, sample_domain=domain)
    profile.disable()
    entries = profile.getstats()
    spent: dict[str, float] = {}
    for entry in entries:
        if isinstance(entry.code, str):
            continue  # of Python itself
        if entry.code in BLAS_CALLS:
            spent[BLAS_CALLS[entry.code]] = entry.inlinetime
        elif entry.code in SCIPY_CALLS:
            spent[SCIPY_CALLS[entry.code]] = entry.totaltime
    whole = sum(entry.inlinetime for entry in entries)
    shares = {f"{label} %": 100 * seconds / whole for label, seconds in spent.items()}
    return {"features": d, "fit_s": whole, "ratio": sum(spent.values()) / whole, **shares}


def checking(method: str = "S1", d: int = 2000) -> Figures:
    """Share of a fit that `residual_` and its condition numbers take (ratio: the share)."""
    X, y, domain = dense_problem(3 * d // 2, d)
    model = MDAClassifier(method, solver="primal")
    model.fit(X, y, sample_domain=domain)  # libraries warm up
    profile = cProfile.Profile()
    profile.enable()
    model.fit(X, y, sample_domain=domain)
    profile.disable()
    entries = [e for e in profile.getstats() if not isinstance(e.code, str)]
    whole = max(entry.totaltime for entry in entries)
    check = next(e.totaltime for e in entries if e.code is residual_and_error.__code__)
    return {"features": d, "fit_s": whole, "check_s": check, "ratio": check / whole}


def floor(d: int = 4000) -> Figures:
    """S1's fit against its unavoidable products alone (ratio: fit over floor)."""
    n = 3 * d // 2
    X, y, domain = dense_problem(n, d)
    whole, _ = _seconds(
        lambda: MDAClassifier("S1", solver="primal").fit(X, y, sample_domain=domain), repeat=2
    )

    def products() -> None:
        G = np.zeros((d, d), order="F")
        G = add_gram(add_gram(G, X[: n // 2].T), X[n // 2 :].T)  # two Grams
        G[np.diag_indices_from(G)] += 1.0
        L, _ = dpotrf(G, lower=1)
        W, _ = dpotri(L, lower=1)  # W₀
        K = W.T @ (G @ W)  # K₀
        K[np.diag_indices_from(K)] += 1.0
        dpotrf(K, lower=1)

    calls, _ = _seconds(products, repeat=2)
    return {"features": d, "fit_s": whole, "floor_s": calls, "ratio": whole / calls}


def dual(method: str = "S1D", n: int = 1000, d: int = 4096) -> Figures:
    """The dual route against the d×d route, fit and transform."""
    X, y, domain = dense_problem(n, d)

    def run(solver: str) -> tuple[MDAClassifier, Any]:
        model = MDAClassifier(method, solver=solver).fit(X, y, sample_domain=domain)
        return model, model.transform(X)

    ours, (model, H) = _seconds(lambda: run("dual"), repeat=2)
    theirs, (reference, H_reference) = _seconds(lambda: run("primal"))
    return {
        "method": method,
        "rows": n,
        "features": d,
        "marda_s": ours,
        "reference_s": theirs,
        "ratio": theirs / ours,
        "difference_coef": _difference(model.coef_, reference.coef_),
        "difference_rows": _difference(H, H_reference),
        "alternations": model.n_iter_,
    }


def path(d: int = 2000, levels: int = 20, columns: int = 50) -> Figures:
    """The noise path against one S1 fit per level (ratio: fits that cost as much as the path)."""
    X, _, _ = dense_problem(3 * d // 2, d)
    V = np.random.default_rng(1).standard_normal((d, columns))
    noise = np.linspace(0.05, 0.95, levels)
    ours, many = _seconds(lambda: noise_path(X, noise).columns(V), repeat=2)
    fit, model = _seconds(
        lambda: MDA("S1", noise=noise[levels // 2], ridge=0, solver="primal").fit(X), repeat=2
    )
    return {
        "features": d,
        "levels": levels,
        "path_s": ours,
        "fit_s": fit,
        "ratio": ours / fit,
        "difference": _difference(many[levels // 2], model.W_ @ V),
    }


def _peak_bytes() -> float:
    """High-water mark of this process alone: ru_maxrss would count the one that started it too."""
    peak = peak_mb()
    if peak is None:
        raise OSError("this system does not tell the peak memory of a process.")
    return peak * 2**20


def memory(method: str = "J12C", kind: str = "dense", n: int = 600, d: int = 50_000) -> Figures:
    """Peak memory of a fit in a fresh process, beside the estimate (ratio: estimate/measured)."""
    sparse = kind == "sparse"
    X: Any
    if sparse:
        X, y, domain = sparse_problem(n, d, 100)
    else:
        X, y, domain = dense_problem(n, d, labelled_target=30, dtype="float32")
    labelled = int((y >= 0).sum())
    before = _peak_bytes()
    seconds, model = _seconds(lambda: MDAClassifier(method).fit(X, y, sample_domain=domain))
    own = X.nnz * 12 if sparse else X.nbytes
    estimate = costs(
        Workload(
            n_rows=n,
            n_labelled=labelled,
            n_features=d,
            n_outputs=d,
            n_classes=int(y.max()) + 1,
            n_stored=X.nnz if sparse else n * d,
            itemsize=X.dtype.itemsize,
            sparse=sparse,
            joint=method.startswith("J"),
            coupled=method.startswith("J") and "D" in method,
            domain="D" in method,
        )
    )[model.solver_].bytes
    peak = _peak_bytes()
    # Python, its libraries and the caller's rows were there before the fit.
    return {
        "method": method,
        "rows": n,
        "features": d,
        "solver": model.solver_,
        "fit_s": seconds,
        "peak_GB": peak / 1e9,
        "fit_GB": (peak - before) / 1e9,
        "estimate_GB": estimate / 1e9,
        "rows_GB": own / 1e9,
        "ratio": estimate / max(peak - before, 1),
        "alternations": model.n_iter_,
    }


def peers(n: int = 1000, d: int = 2048) -> Figures:
    """CORAL and SubspaceAlignment of skada on the same rows (ratio: their time over marda's)."""
    from skada import CORALAdapter, SubspaceAlignmentAdapter

    X, y, domain = dense_problem(n, d)
    ours, _ = _seconds(lambda: MDA("S1D").fit(X, y, sample_domain=domain), repeat=2)
    figures: Figures = {"rows": n, "features": d, "marda_s": ours}
    for name, adapter in (
        ("CORAL", CORALAdapter()),
        ("SubspaceAlignment", SubspaceAlignmentAdapter(n_components=20)),
    ):
        # skada numbers domains from 1
        job = partial(adapter.fit, X, y, sample_domain=np.where(domain < 0, -2, 1))
        theirs, _ = _seconds(job)
        figures[f"{name}_s"] = theirs
        figures[f"ratio_{name}"] = theirs / ours
    figures["ratio"] = figures["ratio_CORAL"]
    return figures


# A search without labels --------------------------------------------------------------------------

LEVELS = [0.1, 0.3, 0.5, 0.7, 0.9]
#: 5 noise levels × 3 models × 3 ridges, and 5 levels of MCF.
GRID: list[dict[str, list[Any]]] = [
    {"method": ["S1", "S1M", "S1D"], "noise": LEVELS, "ridge_class": [0.1, 1.0, 10.0]},
    {"method": ["MCF"], "noise": LEVELS},
]


def search(n: int = 2000, d: int = 1000, *, many_scales: bool = False) -> dict[str, Any]:
    """Search 50 candidates and refit the best (ratio: separate fits that cost as much).

    With many_scales the largest feature is a hundred times the smallest, as with words: a ridge is
    then no multiple of the noise.

    A separate fit is the median over every fifth candidate; half of them are fitted before the
    search and half after it, so that a machine that slows down does so for both sides.
    """
    X, y, domain = dense_problem(n, d)
    if many_scales:
        X *= np.logspace(-1, 1, d)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    candidates = list(ParameterGrid(GRID))
    seconds = []

    def fit(model: Any) -> float:
        started = time.perf_counter()
        model.fit(X, y, sample_domain=domain)
        return time.perf_counter() - started

    best = MDAClassifierCV(
        GRID, scoring="entropy", class_weight=None, calibrate=False, random_state=0
    )
    singles = [MDAClassifier(**parameters) for parameters in candidates[::5]]
    seconds += [fit(model) for model in singles[::2]]
    whole = fit(best)
    seconds += [fit(model) for model in singles[1::2]]
    one = float(np.median(seconds))
    return {
        "rows": n,
        "features": d,
        "candidates": len(candidates),
        "search_s": whole,
        "fit_s": one,
        "ratio": whole / one,
        "best": repr(best.best_params_),
    }


def text_problem(n: int, d: int, per_row: int = 80) -> tuple[Any, NDArray[Any], NDArray[Any]]:
    """Words by a power law, which two classes prefer or avoid; some only in one of two domains."""
    rng = np.random.default_rng(0)
    y, domain = _labels(rng, n, 2, 0)
    truth = np.where(y < 0, rng.integers(0, 2, n), y)
    taste, frequency = rng.standard_normal(d), 1 / np.arange(20, d + 20)
    own = rng.integers(0, 4, d)  # 0: source words, 1: target words, others both
    rows, columns = np.repeat(np.arange(n), per_row), np.empty((n, per_row), dtype=np.int64)
    for side in (0, -1):
        for c in (0, 1):
            some = np.flatnonzero((domain == side) & (truth == c))
            chance = (
                frequency * np.exp(0.5 * (2 * c - 1) * taste) * (own != (1 if side == 0 else 0))
            )
            columns[some] = rng.choice(d, (len(some), per_row), p=chance / chance.sum())
    X = sp.csr_array((np.ones(n * per_row), (rows, columns.ravel())), (n, d))
    X.sum_duplicates()
    return X, y, domain


def default(kind: str = "words", n: int = 4000, d: int = 5000) -> Figures:
    """The default's fit, in Cholesky factorisations of as many rows (ratio), and its memory."""
    X, y, domain = text_problem(n, d) if kind == "words" else dense_problem(n, d)
    model = MDAClassifierCV(random_state=0)
    fit, _ = _seconds(lambda: model.fit(X, y, sample_domain=domain))
    peak = peak_mb()
    A = np.full((n, n), 0.5, order="F")
    A[np.diag_indices(n)] = 2.0
    factor, _ = _seconds(lambda: dpotrf(A, lower=1), repeat=3)
    return {
        "rows": n,
        "features": d,
        "fit_s": fit,
        "cholesky_s": factor,
        "ratio": fit / factor,
        "peak_mb": peak,
        "members": [member.name for member in model.members_],
    }


def all_rows(n: int = 200_000, d: int = 50, sample: int = 10_000) -> Figures:
    """The default on n + n rows of a table against its sample alone (ratio: of the times)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * n + 5000, d), dtype=np.float32)
    score = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3:].sum(1) - 0.8
    y = (score + rng.logistic(size=len(X)) > 0).astype(np.int64)
    new = slice(2 * n, None)
    domain = np.repeat([0, -1], n)

    def fit(rows: NDArray[Any]) -> tuple[float, MDAClassifierCV]:
        labels = np.where(domain[rows] < 0, -1, y[rows])
        model = MDAClassifierCV(random_state=0, max_rows=sample)
        return _seconds(lambda: model.fit(X[rows], labels, sample_domain=domain[rows]))

    few, small = fit(np.r_[:sample, n : n + sample])
    whole, model = fit(np.arange(2 * n))
    return {
        "rows": 2 * n,
        "features": d,
        "fit_s": whole,
        "sample_s": few,
        "ratio": whole / few,
        "accuracy": model.score(X[new], y[new]),
        "sample_accuracy": small.score(X[new], y[new]),
        "learned_from": max(model.n_rows_used_.values()),
        "peak_mb": peak_mb(),
    }


# Predictions of a compact member ------------------------------------------------------------------


def prediction(kind: str = "dense", n: int = 2000, d: int = 4608) -> Figures:
    """Predict by a compact member (ratio: its time over that of its first product alone).

    This is the product of the same rows, float32, with a matrix of as many columns as the member
    keeps numbers per row: no model of that many numbers can be quicker.
    """
    X, y, domain = dense_problem(n, d) if kind == "dense" else sparse_problem(n, d, 100)
    parameters = member_parameters(0.5) | {"ridge_class": 0.1, "refine": 0, "random_state": 0}
    model = MDAClassifier(**parameters).fit(X, y, sample_domain=domain)
    full = Ensemble((Member("adapted", Inputs("unit"), model, 1.0, 1.0),))
    member = replace(full.members[0], model=(small := compress(model, SIZES[0], 0)))
    compact = replace(full, members=(member,), batch=BATCH)
    rows, single = X[domain < 0], X[domain < 0].astype(np.float32)
    quick, scores = _seconds(lambda: compact.scores(rows), 5)
    one, _ = _seconds(lambda: compact.scores(rows[:1]), 5)
    product, _ = _seconds(lambda: single @ small.matrix, 5)
    slow, whole = _seconds(lambda: full.scores(rows))
    return {
        "rows": rows.shape[0],
        "features": d,
        "compact_s": quick,
        "product_s": product,
        "full_s": slow,
        "one_row_ms": 1e3 * one,
        "same_predictions": float((scores.argmax(1) == whole.argmax(1)).mean()),
        "times_as_quick_as_full": slow / quick,
        "ratio": quick / product,
    }


def serving(kind: str = "words", n: int = 4000, d: int = 5000) -> Figures:
    """Files of the default, and their predictions (ratio: the ONNX graph's time over its own)."""
    try:
        from onnxruntime import InferenceSession, SessionOptions
    except ImportError:
        raise RuntimeError("onnxruntime is not installed: it runs the graph.") from None
    X: Any
    X, y, domain = text_problem(n, d) if kind == "words" else dense_problem(n, d)
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    rows = X[domain < 0]
    dense = rows.toarray() if sp.issparse(rows) else rows
    with tempfile.TemporaryDirectory() as folder:
        file, graph = Path(folder, "model.marda"), Path(folder, "model.onnx")
        model.save(file)
        model.to_onnx(graph)
        sizes = {"file_mb": file.stat().st_size / 1e6, "onnx_mb": graph.stat().st_size / 1e6}
        loaded = load(file)
        options = SessionOptions()
        options.intra_op_num_threads = blas_threads() or 1
        session = InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    ours, labels = _seconds(lambda: loaded.predict(rows), 3)
    one, _ = _seconds(lambda: loaded.predict(rows[:1]), 3)
    theirs, (found,) = _seconds(lambda: session.run(["label"], {"X": dense}), 3)
    as_dense, _ = _seconds(lambda: loaded.predict(dense), 3)  # the graph's rows are
    return {
        "rows": rows.shape[0],
        "features": d,
        **sizes,
        "rows_per_second": rows.shape[0] / ours,
        "one_row_ms": 1e3 * one,
        "dense_rows_per_second": rows.shape[0] / as_dense,
        "onnx_rows_per_second": rows.shape[0] / theirs,
        "same_predictions": float(np.mean(labels == np.asarray(found).ravel())),
        "ratio": theirs / ours,
    }


# The OC10 table, task by task ---------------------------------------------------------------------

# A small number of tasks takes the largest and the smallest first.
PAIRS = [
    "amazon-caltech10",
    "dslr-webcam",
    "amazon-dslr",
    "webcam-caltech10",
    "amazon-webcam",
    "caltech10-amazon",
    "caltech10-dslr",
    "caltech10-webcam",
    "dslr-amazon",
    "dslr-caltech10",
    "webcam-amazon",
    "webcam-dslr",
]
SOLVERS = ("auto", "primal")


def _measure_task(data: Dataset, pair: str) -> dict[str, Any]:
    """Seconds of one task by both solvers, in all and by model, and how far they agree."""
    source, target = pair.split("-")
    task, name = make_task(data, source, target), TaskSpec("oc10", source, target, "US")
    found: dict[str, Any] = {"task": pair}
    predicted: dict[str, list[Any]] = {}
    for solver in SOLVERS:
        specs = [
            Spec(name, method, classifier, "paper", (("solver", solver),))
            for method in MODELS_US
            for classifier in ("ridge", "nn", "dscm")
        ]
        started = time.perf_counter()
        fitted = list(fit_unit(task, specs))
        found[f"{solver}_s"] = time.perf_counter() - started
        found[f"{solver}_by_model_s"] = {
            method: sum(f.fit_seconds + f.predict_seconds for f in fitted if f.spec.model == method)
            for method in MODELS_US
        }
        predicted[solver] = [f.predicted for f in fitted]
    pairs = zip(*(predicted[solver] for solver in SOLVERS), strict=True)
    found["least_agreement"] = min(float(np.mean(ours == theirs)) for ours, theirs in pairs)
    return found


def oc10(
    tasks: int = 12, keep: str | None = None, tell: Callable[[float], None] | None = None
) -> Figures:
    """The OC10 unsupervised table as `marda reproduce` runs it: auto against the d×d route.

    A finished task is stored in the file `keep` at once; a run that was ended goes on from there,
    on the same machine with the same versions.
    """
    data = datasets.load("oc10-squeezenet", os.environ.get("MARDA_DATA") or None)
    where = {**machine_facts(), "threads": blas_threads()}
    del where["date"]
    with Store(":memory:" if keep is None else keep) as store:
        found = []
        for pair in PAIRS[:tasks]:
            found.append(_stored_task(store, data, pair, where))
            if tell is not None:
                tell(len(found) / tasks)
    ours, theirs = (sum(f[f"{solver}_s"] for f in found) for solver in SOLVERS)
    return {
        "tasks": tasks,
        "marda_s": ours,
        "reference_s": theirs,
        "ratio": theirs / ours,
        "least_agreement": min(f["least_agreement"] for f in found),
        "by_task": found,
    }


def _stored_task(store: Store, data: Dataset, pair: str, where: dict[str, Any]) -> Figures:
    """Figures of one task, from the store if they are of this machine."""
    source, target = pair.split("-")
    spec = Spec(TaskSpec("oc10", source, target, "US"), "US", "all", "paper", (("solver", None),))
    for row in store.rows([spec.key]):
        if row.params["where"] == where:
            return dict(row.params["figures"])
    figures = _measure_task(data, pair)
    params = {"where": where, "figures": figures}
    store.add(stamp(ResultRow(spec, "done", params=params)), replace_before=now())
    return figures
