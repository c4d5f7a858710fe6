"""Is the time left that commands show true? The share of it that is, within a factor of two.

Every job is run once; what it tells of its progress is recorded, and shown again on a clock of our
own by the display of the commands. From a fifth of a job's time on, and at a hundred moments of
each, the time left that stands on the screen is compared with the true one. Times are those of the
processor, so that other programs do not disturb.

    MARDA_DATA=... OPENBLAS_NUM_THREADS=1 python scripts/time_left.py [--jobs NAME …] [--steps]
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp

from marda import _progress
from marda.adaptation import ReadOptions, adapt, compare, evaluate, predict
from marda.benchmarks.speed_claims import PLAN, QUICK
from marda.benchmarks.speed_claims import run as run_claims
from marda.datasets import load, make_case, make_task
from marda.report.adapted import adapted_page

#: Share of a job's time after which the time left has to be true, and how true.
AFTER, FACTOR = 0.2, 2.0
#: A display of whole seconds cannot be truer than this.
CLOCK = 0.5
MOMENTS = 100
Told = list[tuple[float, float, str]]


def _rows(name: str, source: str, target: str) -> tuple[Any, Any, Any]:
    task = make_task(load(name), source, target)
    return task.X_source, task.y_source, task.X_target


def _turned(n: int, d: int, angle: float) -> tuple[Any, Any, Any]:
    """A table of a thousand rows or so, whose columns are turned by pairs, and somewhat bent."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 2 * n)
    X = rng.normal(size=(2 * n, d)) + 2.0 * rng.normal(size=(3, d))[y]
    half = d // 2
    c, s = np.cos(angle), np.sin(angle)
    first, second = X[n:, :half].copy(), X[n:, half : 2 * half].copy()
    X[n:, :half], X[n:, half : 2 * half] = c * first - s * second, s * first + c * second
    X[n:] += 0.3 * np.abs(X[n:]) ** 1.5
    return X[:n], y[:n], X[n:]


def _customers(n: int, known: float, seed: int = 0) -> Any:
    """Two tables of numbers and words, the second with labels for some rows."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    tables = []
    for shift in (0.0, 1.0):
        y = rng.integers(0, 2, n)
        held = {f"x{j}": (rng.normal(size=n) + 0.5 * y + shift).round(3) for j in range(8)}
        for j in range(8):
            held[f"c{j}"] = np.array([*"abcdefgh"])[(rng.integers(0, 7, n) + y) % 8]
        label = y.astype(object)
        if shift:
            label[rng.random(n) >= known] = None
        tables.append(pd.DataFrame({**held, "y": label}))
    return tables


def _write(folder: Path, Xs: Any, ys: Any, Xt: Any) -> tuple[Path, Path, str]:
    """Two files, and the name of the label."""
    if ys is None:
        files = folder / "source.csv", folder / "target.csv"
        for table, path in zip((Xs, Xt), files, strict=True):
            table.to_csv(path, index=False)
        return *files, "y"
    if sp.issparse(Xs):
        from sklearn.datasets import dump_svmlight_file

        files = folder / "source.svm", folder / "target.svm"
        dump_svmlight_file(sp.csr_matrix(Xs), ys + 1, str(files[0]), zero_based=False)
        dump_svmlight_file(
            sp.csr_matrix(Xt), np.zeros(Xt.shape[0]), str(files[1]), zero_based=False
        )
        return *files, "label"
    files = folder / "source.npz", folder / "target.npz"
    np.savez(files[0], X=Xs, y=ys)
    np.savez(files[1], X=Xt)
    return *files, "y"


#: Rows of source and target, and what is done with them.
DATA: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "surf": lambda: _rows("oc10-surf", "amazon", "webcam"),
    "surf small": lambda: _rows("oc10-surf", "dslr", "webcam"),
    "oc10": lambda: _rows("oc10", "webcam", "dslr"),
    "oc10 large": lambda: _rows("oc10", "amazon", "caltech10"),
    "amt": lambda: _rows("amt", "books", "dvd"),
    "census": lambda: _rows("census-employment", "2015", "2018"),
    "election": lambda: _rows("election-1996", "towns", "cities"),
    "penguins": lambda: _rows("penguins", "male", "female"),
    "same": lambda: _rows_of_case("same d=20"),
    "shares": lambda: _rows_of_case("shares .5>.1"),
    "moved": lambda: _rows_of_case("moved"),
    "new words": lambda: _rows_of_case("new words"),
    "customers": lambda: _in_files(_customers(20_000, 0.0)),
    "known customers": lambda: _in_files(_customers(3000, 0.1)),
    "turned": lambda: _turned(1000, 20, 0.8),
    "turned wide": lambda: _turned(500, 200, 0.8),
    "turned long": lambda: _turned(6000, 10, 0.8),
    "turned far": lambda: _turned(15_000, 60, 0.8),
    "turned square": lambda: _turned(2000, 400, 0.8),
}


def _in_files(tables: Any) -> tuple[Any, Any, Any]:
    return tables[0], None, tables[1]


def _rows_of_case(name: str) -> tuple[Any, Any, Any]:
    task = make_task(make_case(name), "source", "target")
    return task.X_source, task.y_source, task.X_target


#: Rows and columns of Parquet files, and rows of their row groups.
PARQUET = {
    "long": (1_500_000, 40, 50_000),
    "wide": (30_000, 1_500, 1_000),
    "one": (400_000, 200, 400_000),
    "one narrow": (400_000, 50, 400_000),
    "one wide": (20_000, 4_000, 20_000),
}


def run_moments(data: str) -> tuple[Told, float]:
    """The same of ``marda moments build``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from marda.moments.parquet import moments_from_parquet

    n, d, group = PARQUET[data]
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.normal(size=n).astype(np.float32) for j in range(d)}
    table = pa.table({**columns, "y": rng.integers(0, 3, n)})
    told: Told = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(table, path, row_group_size=group)
        began = time.process_time()

        def hear(done: int, total: int) -> None:
            told.append((time.process_time() - began, done / total, f"{done:,} rows"))

        moments_from_parquet([path], label="y", domain="a", progress=hear)
        return told, time.process_time() - began


def run_bench(cases: str) -> tuple[Told, float]:
    """The same of ``marda bench``, whose cases run in processes of their own."""
    told: Told = []

    def spent() -> float:
        theirs = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + theirs.ru_utime + theirs.ru_stime

    class Heard(_progress.Progress):
        def __call__(self, done: float, what: str, ahead: float | None = None) -> None:
            told.append((spent() - began, done, what))

    began = spent()
    run_claims({"quick": QUICK, "whole": PLAN}[cases], 3600.0, Heard(show=False))
    return told, spent() - began


def run_saved(command: str) -> tuple[Told, float]:
    """The same of a command that reads a model."""
    told: Told = []
    with tempfile.TemporaryDirectory() as folder:
        few, many = _customers(2000, 0.0), _customers(200_000, 1.0, seed=1)
        source, target, label = _write(Path(folder), few[0], None, few[1])
        model, rows = Path(folder) / "model", Path(folder) / "rows.csv"
        adapt(source, target, ReadOptions(label), model=model)
        many[1].to_csv(rows, index=False)
        began = time.process_time()

        def hear(done: float, what: str) -> None:
            told.append((time.process_time() - began, done, what))

        if command == "predict":
            predict(model, rows, Path(folder) / "p.csv", progress=hear)
        elif command == "explain":
            predict(model, rows, Path(folder) / "p.csv", explain=3, progress=hear)
        else:
            evaluate(model, rows, progress=hear)
        return told, time.process_time() - began


def run(kind: str, data: str) -> tuple[Told, float]:
    """What a job told, with times since its start, and how long it took."""
    if kind == "moments":
        return run_moments(data)
    if kind == "bench":
        return run_bench(data)
    if kind == "saved":
        return run_saved(data)
    told: Told = []
    with tempfile.TemporaryDirectory() as folder:
        source, target, label = _write(Path(folder), *DATA[data]())
        began = time.process_time()

        def hear(done: float, what: str) -> None:
            told.append((time.process_time() - began, done, what))

        options: dict[str, Any] = {"progress": hear}
        if kind == "adapt":
            page = (Path(folder) / "page.html", lambda result: adapted_page(result, "marda adapt"))
            adapt(source, target, ReadOptions(label), report=page, **options)
        else:
            compare(source, target, ReadOptions(label), **options)
        hear(1.0, "")
        return told, time.process_time() - began


def shown(told: Told, total: float) -> list[tuple[float, float | None]]:
    """Moments from a fifth of the time on, and the time left that stands on the screen then."""
    clock = [0.0]
    found: list[tuple[float, float | None]] = []
    moments = list(np.linspace(AFTER * total, total, MOMENTS, endpoint=False))
    with mock.patch.object(_progress.time, "monotonic", side_effect=lambda: clock[0]):
        display = _progress.Progress(show=False)
        for at, done, what in [*told, (total, 1.0, "done")]:
            while moments and moments[0] < at:
                clock[0] = moments.pop(0)
                found.append((clock[0], display.left()))
            clock[0] = at
            display(done, what)
    return found


def true_share(found: list[tuple[float, float | None]], total: float) -> tuple[float, float]:
    """Shares of moments at which the time left is true, and at which none is shown."""
    right = [
        left is not None and (left / FACTOR - CLOCK <= total - at <= left * FACTOR + CLOCK)
        for at, left in found
    ]
    return float(np.mean(right)), float(np.mean([left is None for _, left in found]))


def main() -> None:
    """Run the jobs, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = [f"{kind}:{name}" for kind in ("adapt", "compare") for name in DATA]
    every += [f"saved:{command}" for command in ("predict", "explain", "evaluate")]
    every += [f"moments:{name}" for name in PARQUET] + ["bench:quick"]
    told = f"{', '.join(every)}, bench:whole (an hour)"
    parser.add_argument("--jobs", nargs="+", default=every, metavar="NAME", help=told)
    parser.add_argument("--steps", action="store_true", help="print what was told, too")
    args = parser.parse_args()
    shares = []
    for job in args.jobs:
        told, total = run(*job.split(":"))
        found = shown(told, total)
        right, silent = true_share(found, total)
        shares.append(right)
        print(f"{job:24} {total:6.1f} s  true {right:4.0%}  not shown {silent:4.0%}", flush=True)
        if args.steps:
            for (at, done, what), (end, _, _) in pairwise([*told, (total, 1.0, "")]):
                print(f"    {at:6.2f} s  {end - at:6.2f}  {done:5.3f}  {what}")
    print(f"{'mean':24} {'':8}  true {np.mean(shares):4.0%}")


if __name__ == "__main__":
    sys.exit(main())
