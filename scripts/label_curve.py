"""What does the default gain by 5, 20, 100 or all target labels, drawn at random?

    MARDA_DATA=... python scripts/label_curve.py [oc10 amt oc10-surf skada-bench generated]
        [--half development] [--rows 300] [--draws 2] [--out label-curve.csv] [--table]

Of every task, at most --rows source and target rows are learned from; accuracy is that on other
target rows, which nothing has seen. Labels of one draw are nested: the 20 hold the 5. Tasks are
stored as they are finished; a second run goes on. The table has the mean accuracy per number of
labels, what was expected, and the share of 90 % intervals that hold the truth.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from _stored import Row, Stored
from labelling import drawn, tasks_of
from marda import MDAClassifierCV, pack
from marda.benchmarks.execute import load_task
from marda.benchmarks.plan import BENCHMARKS, TaskSpec

DATA = ("generated", "skada-bench", "oc10-surf", "oc10", "amt")
LABELS = (0, 5, 20, 100, -1)  # −1: all
FIELDS = (
    *("data", "task", "half", "rows", "draw", "labels", "accuracy"),
    *("expected", "low", "high", "shift", "members", "seconds"),
)
MAX_TESTED = 2000


def specs_of(data: str, draws: int) -> list[TaskSpec]:
    """Tasks of a data set, without target labels, and their draws."""
    found = BENCHMARKS[data]
    if found.tasks:
        return [
            TaskSpec(data, name, "", "US", draw=draw)
            for name in found.tasks
            for draw in range(2 * draws if data == "generated" else draws)
        ]
    return [replace(spec, draw=draw) for spec in tasks_of(data) for draw in range(draws)]


def rows_of(spec: TaskSpec, n: int) -> tuple[Any, ...]:
    """Source rows, target rows to learn from, target rows to be judged by; each with classes."""
    task = load_task(spec, Path(os.environ["MARDA_DATA"]))
    rng = np.random.default_rng(spec.draw)
    if task.y_test is not None and BENCHMARKS[spec.benchmark].tasks:
        seen, judged = (task.X_target, task.y_target), (task.X_test, task.y_test)
    else:
        X, y = task.X_target, task.y_target
        order = rng.permutation(len(y))
        first, rest = np.split(order, [min(n, len(y) // 2)])
        seen, judged = (X[first], y[first]), (X[rest], y[rest])
    source = drawn(task.X_source, task.y_source, n, rng)
    return *source, *drawn(*seen, n, rng), *drawn(*judged, MAX_TESTED, rng)


def curve(spec: TaskSpec, n: int, labels: tuple[int, ...]) -> Iterator[Row]:
    """Accuracy by number of labels."""
    Xs, ys, Xt, yt, Xe, ye = rows_of(spec, n)
    order = np.random.default_rng(spec.draw).permutation(len(yt))
    for k in labels:
        if k >= len(yt):
            continue
        seen = np.full(len(yt), -1)
        known = order if k < 0 else order[:k]
        seen[known] = yt[known]
        X, y, domain = pack(Xs, ys, Xt, seen)
        began = time.perf_counter()
        model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
        seconds = time.perf_counter() - began
        told = model.calibration_
        low, high = told.get("expected_interval", (np.nan, np.nan))
        yield {
            "labels": "all" if k < 0 else k,
            "accuracy": f"{100 * model.score(Xe, ye):.2f}",
            "expected": f"{100 * told.get('expected_accuracy', np.nan):.2f}",
            "low": f"{100 * low:.2f}",
            "high": f"{100 * high:.2f}",
            "shift": "" if model.shift_ is None else model.shift_.kind,
            "members": "; ".join(f"{m.name} {m.weight:.2f}" for m in model.members_),
            "seconds": f"{seconds:.2f}",
        }


def table(stored: Stored) -> str:
    """Mean accuracy per data set, half and number of labels."""
    names = ["0", "5", "20", "100", "all"]
    groups: dict[tuple[str, str], dict[tuple[str, ...], dict[str, Row]]] = {}
    for row in stored.rows:
        for data in (row["data"], "all"):
            tasks = groups.setdefault((data, row["half"]), {})
            fits = tasks.setdefault((row["data"], row["task"], str(row["draw"])), {})
            fits[str(row["labels"])] = row
    lines = [
        f"| data | half | fits | {' | '.join(names)} | expected off by | intervals hold | width |",
        "| --- " * (len(names) + 6) + "|",
    ]
    fields = ("accuracy", "expected", "low", "high")
    for (data, half), tasks in sorted(groups.items()):
        # Only tasks with every number of labels compare.
        full = [fits for fits in tasks.values() if len(fits) == len(names)]
        if not full:
            continue
        cells: list[list[str]] = [[], [], [], []]
        for name in names:
            found = np.array([[float(fits[name][f]) for f in fields] for fits in full])
            cells[0].append(f"{found[:, 0].mean():.1f}")
            right, expected, low, high = found[np.isfinite(found).all(1)].T
            held = (low <= right) & (right <= high)
            cells[1].append(f"{np.abs(right - expected).mean():.1f}" if len(right) else "–")
            cells[2].append(f"{100 * held.mean():.0f}" if len(right) else "–")
            cells[3].append(f"{np.median(high - low):.0f}" if len(right) else "–")
        told = (data, half, str(len(full)), *cells[0], *(" / ".join(one) for one in cells[1:]))
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", default=list(DATA), metavar="DATA")
    parser.add_argument("--half", choices=("development", "report"))
    parser.add_argument("--rows", type=int, default=300, metavar="N", help="rows per domain")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--task", help="tasks whose name begins with this")
    parser.add_argument("--out", type=Path, default=Path("label-curve.csv"))
    parser.add_argument("--table", action="store_true", help="print what is stored")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    stored = Stored(options.out, FIELDS)
    for data in () if options.table else options.data:
        for spec in specs_of(data, options.draws):
            key = (data, spec.pair, str(options.rows), str(spec.draw))
            wrong_half = options.half not in (None, spec.half)
            if wrong_half or not spec.pair.startswith(options.task or ""):
                continue
            if key in stored.values("data", "task", "rows", "draw"):
                continue
            known = dict(zip(("data", "task", "rows", "draw"), key, strict=True))
            found = curve(spec, options.rows, LABELS)
            stored.add(*({**known, "half": spec.half, **row} for row in found))
            print(data, spec.pair, spec.draw, "done", flush=True)
    print(table(stored))


if __name__ == "__main__":
    main()
