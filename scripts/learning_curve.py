"""More rows, better models: the learning curve of docs/scale-measured.md.

    python scripts/learning_curve.py FOLDER                  # 10⁴ … 10⁶ rows, as a Markdown table
    python scripts/learning_curve.py FOLDER --rows 10000 100000

Writes Parquet files of n + n rows × 100 columns to the folder, and runs, each in a process of its
own, `marda adapt` on them in batches and `marda predict` of all target rows, and logistic
regression on all rows. The target moves its columns and has other class shares. Accuracy is that
of its first 10,000 rows, the same ones however many there are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._machine import peak_mb

COLUMNS, GROUP = 100, 50_000
ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
JUDGED = 10_000
Array = NDArray[Any]


def block(number: int, n: int, *, target: bool) -> tuple[Array, Array]:
    """Rows of a table: 20 factors in 100 columns, a label of steps, products and sums of them."""
    shape = np.random.default_rng(7)
    loads = 0.4 * shape.standard_normal((20, COLUMNS))
    slopes = shape.standard_normal(10) / 3
    moved = 0.5 * shape.standard_normal(COLUMNS)
    rng = np.random.default_rng([number, int(target)])
    wanted, n, X, y = n, 10_000, np.empty((0, COLUMNS)), np.empty(0, dtype=np.int64)
    while len(y) < wanted:
        factors = rng.standard_normal((n, 20))
        rows = factors @ loads + rng.standard_normal((n, COLUMNS))
        score = 1.5 * (rows[:, 0] > 0) * (rows[:, 1] > 0.5) + np.abs(rows[:, 2]) - 1.9
        score += 1.5 * (rows[:, 3] * rows[:, 4] > 0) + rows[:, 5:15] @ slopes
        label = (rng.random(n) < 1 / (1 + np.exp(-2 * score))).astype(np.int64)
        if target:  # class 1 is half as frequent, and every column has moved
            kept = (label == 0) | (rng.random(n) < 0.5)
            rows, label = rows[kept] + moved, label[kept]
        X, y = np.vstack([X, rows]), np.append(y, label)
    return X[:wanted], y[:wanted]


def write(folder: Path, n: int) -> None:
    """Source and target of n rows each, and the labels of the target."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    names = [f"f{k:02d}" for k in range(COLUMNS)]
    for side in ("source", "target"):
        writer, truth = None, []
        for number, start in enumerate(range(0, n, GROUP)):
            X, y = block(number, min(GROUP, n - start), target=side == "target")
            columns = dict(zip(names, X.T, strict=True))
            if side == "source":
                columns["y"] = y
            truth.append(y)
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(
                folder / f"{side}.parquet", table.schema, compression="none", use_dictionary=False
            )
            writer.write_table(table, row_group_size=GROUP)
        assert writer is not None
        writer.close()
        np.save(folder / f"{side}-labels.npy", np.concatenate(truth))


def adapted(folder: Path) -> dict[str, Any]:
    """The default, in batches, and its predictions of all target rows."""
    from marda.adaptation import ReadOptions, adapt, predict

    began = time.perf_counter(), time.process_time()
    result = adapt(
        folder / "source.parquet",
        folder / "target.parquet",
        ReadOptions("y"),
        model=folder / "model.marda",
        memory="10MB",
    )
    fitted = time.perf_counter(), time.process_time()
    predict(folder / "model.marda", folder / "target.parquet", folder / "predictions.parquet")
    found = {
        "seconds": fitted[0] - began[0],
        "processor": fitted[1] - began[1],
        "predicting": time.perf_counter() - fitted[0],
        "predicting_processor": time.process_time() - fitted[1],
        "peak": peak_mb(),
        "expected": result.model.calibration_["expected_interval"],
        "learned": result.model.n_rows_used_,
    }
    return found | {"accuracy": judged(result.model.predict, folder)}


def judged(predict: Any, folder: Path) -> float:
    """Accuracy on the first target rows."""
    import pyarrow.parquet as pq

    first = pq.ParquetFile(folder / "target.parquet").read_row_group(0).slice(0, JUDGED)
    X = np.column_stack([first[name] for name in first.column_names])
    return float((predict(X) == np.load(folder / "target-labels.npy")[: len(X)]).mean())


def logistic(folder: Path) -> dict[str, Any]:
    """Logistic regression on all source rows, columns standardised."""
    import pyarrow.parquet as pq
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    source = pq.read_table(folder / "source.parquet")
    X = np.column_stack([source[name] for name in source.column_names if name != "y"])
    y = np.asarray(source["y"])
    del source
    model = make_pipeline(StandardScaler(copy=False), LogisticRegression(max_iter=200, tol=1e-3))
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "accuracy": judged(model.predict, folder), "peak": peak_mb()}


def child(what: str, folder: Path) -> dict[str, Any]:
    """One of the two in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, str(folder), "--child", what],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--child", choices=("adapted", "logistic"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps({"adapted": adapted, "logistic": logistic}[args.child](args.folder)))
        return
    heads = "rows per domain", "logistic regression", "marda", "expected", "learned from all rows"
    times = "seconds", "processor seconds"
    also = (f"{name} of predictions" for name in times)
    print(f"| {' | '.join([*heads, *times, *also])} | peak MB |")
    print("| --- " * 10 + "|")
    for n in args.rows:
        folder = args.folder / str(n)
        write(folder, n)
        ours, theirs = child("adapted", folder), child("logistic", folder)
        low, high = ours["expected"]
        kinds = [name for name in ours["learned"] if name != "choices"]
        print(
            f"| {n:,} | {theirs['accuracy']:.1%} | {ours['accuracy']:.1%} | {low:.0%} … {high:.0%} "
            f"| {', '.join(kinds) or '–'} | {ours['seconds']:.0f} | {ours['processor']:.0f} "
            f"| {ours['predicting']:.0f} | {ours['predicting_processor']:.0f} "
            f"| {ours['peak']:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
