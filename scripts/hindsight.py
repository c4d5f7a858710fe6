"""How far is a choice without target labels from the best candidate in hindsight?

    MARDA_DATA=... python scripts/hindsight.py oc10-squeezenet oc10-surf [--tasks 12] [--out FILE]

Every task (US) is searched over the same 50 candidates, once by each quick criterion; target labels
are read only after the choice. Printed are the means over tasks of what each criterion chose, of
the best candidate a task, of the best single candidate, and of a blind choice.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from marda import datasets, pack
from marda._validation import encode_labels
from marda.selection import grid
from marda.selection.views import make_view

GRID = [
    {
        "method": ["S1", "S1M", "S1D"],
        "noise": [0.1, 0.3, 0.5, 0.7, 0.9],
        "ridge_class": [0.1, 1.0, 10.0],
    },
    {"method": ["MCF"], "noise": [0.1, 0.3, 0.5, 0.7, 0.9]},
]
FIELDS = ("data", "task", "criterion", "chosen", "accuracy", "best", "mean")


def judge(data: datasets.Dataset, source: str, target: str) -> dict[str, dict[str, float]]:
    """Accuracy of what every criterion chooses, of the best candidate and of all on average."""
    task = datasets.make_task(data, source, target, "US", log_tf=True)
    X, y, domain = pack(task.X_source, task.y_source, task.X_target)
    X = X.tocsr() if hasattr(X, "tocsr") else X
    labels = encode_labels(y, domain, -1)
    candidates = grid.expand([{**g, "inputs": "unit"} for g in GRID], "balanced")
    rows = make_view("unit", X).apply(X)
    scored = grid._target_scores(candidates, rows, labels, domain, 0)
    score = balanced_accuracy_score if data.name.startswith("sentiment") else accuracy_score
    truth = np.searchsorted(labels.classes, task.y_target)
    reached = [100 * score(truth, S.argmax(1)) for S in scored]
    near = grid.nearest_neighbours(rows[domain < 0], grid.NEIGHBOURS, random_state=0)
    found = {}
    for name in grid.QUICK:
        table = grid._judged(candidates, scored, [near] * len(scored), name)
        best = int(np.argmax([row["score"] for row in table]))
        found[name] = {
            "chosen": best,
            "accuracy": reached[best],
            "best": max(reached),
            "mean": float(np.mean(reached)),
        }
    return found


def main() -> int:
    """Run what is missing in the file, then print the table of all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("docs/hindsight.csv"))
    args = parser.parse_args()
    folder = os.environ.get("MARDA_DATA")
    done = []
    if args.out.exists():
        done = list(csv.DictReader(args.out.open()))
    known = {(row["data"], row["task"]) for row in done}
    with args.out.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not done:
            writer.writeheader()
        for name in args.data:
            data = datasets.load(name, Path(folder) if folder else None)
            pairs = list(itertools.permutations(data.domains, 2))[: args.tasks]
            for source, target in pairs:
                if (name, f"{source}-{target}") in known:
                    continue
                for criterion, row in judge(data, source, target).items():
                    one = {"data": name, "task": f"{source}-{target}", "criterion": criterion}
                    done.append({**one, **row})
                    writer.writerow(done[-1])
                file.flush()
                print(f"{name} {source} to {target}", file=sys.stderr, flush=True)
    print(f"{'data':20} {'criterion':20} {'chosen':>7} {'best':>7} {'blind':>7}")
    for name in args.data:
        for criterion in grid.QUICK:
            rows = [r for r in done if r["data"] == name and r["criterion"] == criterion]
            means = [np.mean([float(r[k]) for r in rows]) for k in ("accuracy", "best", "mean")]
            print(f"{name:20} {criterion:20} " + " ".join(f"{m:7.2f}" for m in means))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
