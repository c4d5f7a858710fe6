"""How far is a choice without target labels from the best candidate in hindsight?

    MARDA_DATA=... python scripts/hindsight.py oc10-squeezenet oc10-surf [--tasks 12] [--out FILE]

Every task (US) is searched over the same 50 candidates, once by each criterion that reads target
predictions alone; target labels are read only after the choice. Printed are the means over tasks of
what each criterion chose, of the best candidate per task, and of a blind choice.

What the best member of the ensemble reaches in hindsight is printed by
`marda reproduce --settings auto`.

Rows are appended as tasks are finished; a second run skips what is there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from _stored import Row, Stored
from marda import datasets, pack
from marda._validation import encode_labels
from marda.selection.inputs import make_inputs
from marda.selection.search import TARGET_CRITERIA, Trials, expand, judge, target_scores

GRID = [
    {
        "method": ["S1", "S1M", "S1D"],
        "noise": [0.1, 0.3, 0.5, 0.7, 0.9],
        "ridge_class": [0.1, 1.0, 10.0],
    },
    {"method": ["MCF"], "noise": [0.1, 0.3, 0.5, 0.7, 0.9]},
]
OUT = Path("docs/hindsight.csv")
FIELDS = ("data", "task", "criterion", "chosen", "accuracy", "best", "mean")
MEANS = {"chosen": "accuracy", "best": "best", "blind": "mean"}  # heading: field


def criteria(data: datasets.Dataset, source: str, target: str) -> list[Row]:
    """Accuracy of what every criterion chooses, of the best candidate and of all on average."""
    task, X, y, domain = rows_of(data, source, target)
    labels = encode_labels(y, domain, -1)
    candidates = expand([{**g, "inputs": "unit"} for g in GRID], "balanced")
    inputs = {"unit": make_inputs("unit", X)}
    trials = Trials(candidates, inputs, X, labels, domain, seed=0, say=lambda _: None)
    scores = target_scores(trials)
    reached = [accuracy(data, task.y_target, labels.classes[S.argmax(1)]) for S in scores]
    found = []
    for name in TARGET_CRITERIA:
        chosen = int(np.argmax([row["score"] for row in judge(trials, scores, name)]))
        one = {"criterion": name, "chosen": chosen, "accuracy": reached[chosen]}
        found.append({**one, "best": max(reached), "mean": float(np.mean(reached))})
    return found


def rows_of(
    data: datasets.Dataset, source: str, target: str
) -> tuple[datasets.Task, Any, Any, Any]:
    """A task without target labels, and its rows packed."""
    task = datasets.make_task(data, source, target, "US", log_tf=True)
    X, y, domain = pack(task.X_source, task.y_source, task.X_target)
    return task, X.tocsr() if hasattr(X, "tocsr") else X, y, domain


def accuracy(data: datasets.Dataset, truth: Any, predicted: Any) -> float:
    """In percent; balanced where classes are not."""
    score = balanced_accuracy_score if data.name.startswith("sentiment") else accuracy_score
    return 100 * float(score(truth, predicted))


def run(names: Sequence[str], tasks: int, out: Path) -> list[Row]:
    """Measure tasks that are missing in the file; all rows of these data sets."""
    folder = os.environ.get("MARDA_DATA")
    stored = Stored(out, FIELDS)
    done = stored.values("data", "task")
    for name in names:
        data = datasets.load(name, Path(folder) if folder else None)
        for source, target in data.pairs()[:tasks]:
            one = {"data": name, "task": f"{source}-{target}"}
            if tuple(one.values()) not in done:
                stored.add(*({**one, **row} for row in criteria(data, source, target)))
                print(f"{name} {source} to {target}", file=sys.stderr, flush=True)
    return [row for row in stored.rows if row["data"] in names]


def show(rows: Iterable[Row]) -> str:
    """Means over tasks."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["criterion"]), []).append(row)
    lines = [" ".join([f"{'data':20} {'criterion':20}", *(f"{k:>11}" for k in MEANS)])]
    for (data, criterion), group in groups.items():
        means = [np.mean([float(row[k]) for row in group]) for k in MEANS.values()]
        lines.append(" ".join([f"{data:20} {criterion:20}", *(f"{m:11.2f}" for m in means)]))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing in the file, then print the table of all of it."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--out", type=Path, default=OUT, help="%(default)s")
    args = parser.parse_args(argv)
    print(show(run(args.data, args.tasks, args.out)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
