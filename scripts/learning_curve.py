"""More rows, better models: the learning curve of docs/scale-measured.md.

    python scripts/learning_curve.py FOLDER                  # 10⁴ … 10⁶ rows, as a Markdown table
    python scripts/learning_curve.py FOLDER --rows 10000 100000

Writes Parquet files of n + n rows × 100 columns to the folder, and runs, each in a process of its
own, `marda adapt` on them in batches, and logistic regression on all rows. The target moves its
columns and has other class shares. Accuracy is that of its first 10,000 rows, the same ones
however many there are.
"""

from __future__ import annotations

import argparse
import json
import os
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
    """The default, in batches."""
    import pyarrow.parquet as pq

    from marda.adaptation import ReadOptions, adapt

    began = time.perf_counter(), time.process_time()
    out = folder / "predictions.parquet"
    result = adapt(
        folder / "source.parquet",
        folder / "target.parquet",
        ReadOptions("y"),
        out=out,
        model=folder / "model.marda",
        memory="300MB" if os.environ.get("MARDA_MEMORY") is None else None,
    )
    steps = dict(result.times) if hasattr(result, "times") else {}
    found = {
        "seconds": time.perf_counter() - began[0],
        "processor": time.process_time() - began[1],
        "predicting": steps.get("predicting", 0.0),
        "peak": peak_mb(),
    }
    guessed = np.asarray(pq.read_table(out)["prediction"])
    right = (guessed == np.load(folder / "target-labels.npy"))[:JUDGED]
    expected = result.model.calibration_["expected_interval"]
    used = {name: n for name, n in result.model.n_rows_used_.items() if name != "choices"}
    return found | {"accuracy": float(right.mean()), "expected": expected, "learned": used}


def logistic(folder: Path) -> dict[str, Any]:
    """Logistic regression on all source rows, columns standardised."""
    import pyarrow.parquet as pq
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    source, target = (pq.read_table(folder / f"{s}.parquet") for s in ("source", "target"))
    names = [name for name in source.column_names if name != "y"]
    X = np.column_stack([source[name] for name in names])
    model = make_pipeline(StandardScaler(copy=False), LogisticRegression(max_iter=200, tol=1e-3))
    began = time.perf_counter()
    model.fit(X, np.asarray(source["y"]))
    seconds = time.perf_counter() - began
    del X
    guessed = model.predict(np.column_stack([target[name] for name in names]))
    right = (guessed == np.load(folder / "target-labels.npy"))[:JUDGED]
    return {"seconds": seconds, "accuracy": float(right.mean()), "peak": peak_mb()}


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
    print(
        "| rows per domain | logistic regression | marda | expected | seconds | predicting | ",
        end="",
    )
    print("processor s | peak MB |")
    print("| --- " * 8 + "|")
    for n in args.rows:
        folder = args.folder / str(n)
        write(folder, n)
        ours, theirs = child("adapted", folder), child("logistic", folder)
        low, high = ours["expected"]
        print(
            f"| {n:,} | {theirs['accuracy']:.2%} | {ours['accuracy']:.2%} | {low:.1%} … {high:.1%} "
            f"| {ours['seconds']:.0f} | {ours['predicting']:.0f} | {ours['processor']:.0f} "
            f"| {ours['peak']:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
