"""The default and the paper's US table on a GPU: the figures of docs/scale-measured.md.

    python scripts/gpu_figures.py                    # on cuda, by torch; CuPy as a check
    python scripts/gpu_figures.py --tasks 12         # the default of AMT beside the CPU's, too
    python scripts/gpu_figures.py --device cpu --table oc10 --limit 60

Needs the data of AMT and OC10 (MARDA_DATA), torch and array-api-compat; CuPy where there is one.
Every figure is printed when it is there: what is ended early has told what it knows. Stages of the
fit are those of a further fit, with waits for the device around each, so that together they take
a little longer than the fit alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
from sklearn import config_context
from threadpoolctl import threadpool_limits

from marda import MDA, MDAClassifier, MDAClassifierCV, pack
from marda.benchmarks.speed_cases import dense_problem
from marda.datasets import load, make_task
from marda.selection import adapted_ensemble, auto, classifier_cv, ensemble

#: Functions that are stages of the fit, by the module that calls them.
STAGES = (
    (classifier_cv, "host_rows"),
    (classifier_cv, "drop_copies"),
    (classifier_cv, "row_order"),
    (auto, "explain_shift"),
    (auto, "fit_source_only"),
    (auto, "outside_support"),
    (auto, "accuracy_by_agreement"),
    (adapted_ensemble.MemberFits, "member"),
    (adapted_ensemble.MemberFits, "source_only"),
    (classifier_cv, "calibrate_ensemble"),
    (classifier_cv, "compress_ensemble"),
    (ensemble, "symmetric_eigen"),
)


def timed(what: str, job: Callable[[], Any], wait: Callable[[], None]) -> Any:
    """What a job gives; its seconds are printed."""
    wait()
    began = time.perf_counter()
    found = job()
    wait()
    print(f"{what}: {time.perf_counter() - began:.2f} s", flush=True)
    return found


@contextmanager
def stages(wait: Callable[[], None]) -> Iterator[Counter[str]]:
    """Seconds of the stages while it is open."""
    seconds: Counter[str] = Counter()

    def watched(name: str, inner: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            wait()
            began = time.perf_counter()
            found = inner(*args, **kwargs)
            wait()
            seconds[name] += time.perf_counter() - began
            return found

        return call

    with ExitStack() as stack:
        for owner, name in STAGES:
            inner = getattr(owner, name)
            stack.enter_context(mock.patch.object(owner, name, watched(name, inner)))
        yield seconds


def default(device: str) -> None:
    """Fits of AMT books → dvd, and whether predictions are those of the CPU."""
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    task = make_task(load("amt"), "books", "dvd")
    X, y, domain = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
    there, new = (torch.asarray(rows.toarray(), device=device) for rows in (X, task.X_test))

    def fit(rows: Any) -> Any:
        return MDAClassifierCV(random_state=0).fit(rows, y, sample_domain=domain)

    with config_context(array_api_dispatch=True):
        timed("default, first fit", lambda: fit(there), wait)
        for _ in range(2):
            model = timed("default, a later fit", lambda: fit(there), wait)
        with threadpool_limits(1):
            timed("default, one thread of BLAS on the host", lambda: fit(there), wait)
        with stages(wait) as seconds:
            timed("default, with waits around stages", lambda: fit(there), wait)
        for name, value in seconds.most_common():
            print(f"    {name}: {value:.2f} s", flush=True)
        timed("predictions, first", lambda: model.predict(new), wait)
        found = timed(f"predictions of {len(new):,} rows", lambda: model.predict(new), wait)
    plain = timed("default on the CPU, sparse rows", lambda: fit(X), wait).predict(task.X_test)
    same = np.asarray(found.cpu()) == plain
    print(f"equal predictions: {same.mean():.2%} of {len(plain):,}", flush=True)


def agreement(device: str, most: int) -> None:
    """How many predictions of the default on AMT are those of the CPU."""
    import torch

    dataset, equal, n = load("amt"), 0, 0
    for source, target in [*permutations(dataset.domains, 2)][:most]:
        task = make_task(dataset, source, target)
        X, y, domain = pack(task.X_source, task.y_source, task.X_target, task.y_visible)
        plain = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
        there, new = (torch.asarray(rows.toarray(), device=device) for rows in (X, task.X_test))
        with config_context(array_api_dispatch=True):
            model = MDAClassifierCV(random_state=0).fit(there, y, sample_domain=domain)
            found = np.asarray(model.predict(new).cpu())
        same = found == plain.predict(task.X_test)
        equal, n = equal + int(same.sum()), n + len(same)
        print(f"{source} → {target}: {same.mean():.2%} equal; so far {equal / n:.2%}", flush=True)


@contextmanager
def shared_gpu(device: str) -> Iterator[str]:
    """NVIDIA's service by which kernels of several processes run beside each other, if it is here.

    Without it they take turns.
    """
    control = shutil.which("nvidia-cuda-mps-control") if device == "cuda" else None
    if control is None:
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder:
        names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
        with mock.patch.dict(os.environ, dict.fromkeys(names, folder)):
            subprocess.run([control, "-d"], check=True)
            try:
                yield ", multi-process service"
            finally:
                subprocess.run([control], input="quit\n", text=True, check=False)


def table(device: str, datasets: list[str], jobs: int, limit: float) -> None:
    """The US table by `marda reproduce`, in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-m", "marda", "reproduce", "--table", "us", "--datasets"]
        call += [*datasets, "--device", device, "--jobs", str(jobs), "--out", folder]
        with shared_gpu(device) as how:
            began = time.perf_counter()
            try:
                done = subprocess.run(
                    call, check=False, timeout=limit, capture_output=True, text=True
                )
            except subprocess.TimeoutExpired:
                print(f"US table: longer than {limit:.0f} s", flush=True)
                return
            seconds = time.perf_counter() - began
    print(f"US table, {jobs} jobs{how}: {seconds:.1f} s, exit {done.returncode}", flush=True)
    print("\n".join((done.stdout + done.stderr).splitlines()[-6:]), flush=True)


def cupy_check() -> None:
    """S1, J12 and the default of small rows by CuPy, against numpy."""
    try:
        import cupy
    except ImportError:
        print("CuPy is not here", flush=True)
        return
    X, y, domain = dense_problem(600, 400, n_classes=3)
    models: tuple[tuple[str, Any, str], ...] = (
        ("S1", MDA("S1", solver="primal"), "transform"),
        ("J12", MDAClassifier("J12", solver="primal"), "predict_proba"),
        ("default", MDAClassifierCV(random_state=0), "predict_proba"),
    )
    for name, model, method in models:
        plain = getattr(model.fit(X, y, sample_domain=domain), method)(X)
        try:
            with config_context(array_api_dispatch=True):
                rows = cupy.asarray(X)
                began = time.perf_counter()
                given = getattr(model.fit(rows, y, sample_domain=domain), method)(rows)
            off = np.abs(cupy.asnumpy(given) - plain).max() / np.abs(plain).max()
            seconds = time.perf_counter() - began
            print(f"CuPy, {name}: {seconds:.1f} s, difference {off:.1e}", flush=True)
        except Exception as error:  # the check of the next one is worth having all the same
            print(f"CuPy, {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="of torch (default: cuda)")
    parser.add_argument("--table", nargs="*", default=["oc10", "amt"], help="data sets; none: skip")
    parser.add_argument("--tasks", type=int, default=0, help="of AMT, beside the CPU (default: 0)")
    parser.add_argument("--jobs", type=int, default=12, help="processes of the table (default: 12)")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds of the table at most")
    args = parser.parse_args()
    os.environ["SCIPY_ARRAY_API"] = "1"  # scikit-learn asks for it
    default(args.device)
    if args.tasks:
        agreement(args.device, args.tasks)
    if args.table:
        table(args.device, args.table, args.jobs, args.limit)
    cupy_check()


if __name__ == "__main__":
    main()
