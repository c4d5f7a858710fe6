"""How far is a choice without target labels from the best candidate in hindsight?

    MARDA_DATA=... python scripts/hindsight.py oc10-squeezenet oc10-surf [--tasks 12] [--out FILE]
    MARDA_DATA=... python scripts/hindsight.py --committee oc10-squeezenet amt

Every task (US) is searched over the same 50 candidates, once by each quick criterion; target labels
are read only after the choice. Printed are the means over tasks of what each criterion chose, of
the best candidate a task, and of a blind choice.

With --committee the default `MDAClassifierCV` is fitted instead, and its accuracy on test rows
stands next to that of its members alone: the best and the worst in hindsight, their mean, and the
source-only one.

Rows are appended as tasks are finished; a second run skips what is there.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from marda import MDAClassifierCV, datasets, pack
from marda._validation import encode_labels
from marda.selection.quick import QUICK, judge, target_scores
from marda.selection.trials import Trials, expand
from marda.selection.views import make_view

GRID = [
    {
        "method": ["S1", "S1M", "S1D"],
        "noise": [0.1, 0.3, 0.5, 0.7, 0.9],
        "ridge_class": [0.1, 1.0, 10.0],
    },
    {"method": ["MCF"], "noise": [0.1, 0.3, 0.5, 0.7, 0.9]},
]
Row = dict[str, Any]


def criteria(data: datasets.Dataset, source: str, target: str) -> list[Row]:
    """Accuracy of what every criterion chooses, of the best candidate and of all on average."""
    task, X, y, domain = rows_of(data, source, target)
    labels = encode_labels(y, domain, -1)
    candidates = expand([{**g, "inputs": "unit"} for g in GRID], "balanced")
    views = {"unit": make_view("unit", X)}
    trials = Trials(candidates, views, X, labels, domain, seed=0, say=lambda _: None)
    scores = target_scores(trials)
    reached = [accuracy(data, task.y_target, labels.classes[S.argmax(1)]) for S in scores]
    found = []
    for name in QUICK:
        chosen = int(np.argmax([row["score"] for row in judge(trials, scores, name)]))
        one = {"criterion": name, "chosen": chosen, "accuracy": reached[chosen]}
        found.append({**one, "best": max(reached), "mean": float(np.mean(reached))})
    return found


def committee(data: datasets.Dataset, source: str, target: str) -> list[Row]:
    """Accuracy of the default on test rows, and of its members alone."""
    task, X, y, domain = rows_of(data, source, target)
    model = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    names = [member.name for member in model.members_]
    codes = [member.scores(task.X_test).argmax(1) for member in model.members_]
    alone = [accuracy(data, task.y_test, model.classes_[c]) for c in codes]
    return [
        {
            "committee": accuracy(data, task.y_test, model.predict(task.X_test)),
            "best": max(alone),
            "worst": min(alone),
            "mean": float(np.mean(alone)),
            "source_only": alone[names.index("source only")],
        }
    ]


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


@dataclass(frozen=True)
class Part:
    """What is measured of a task, where it is kept, and which means are printed, by what."""

    measure: Callable[[datasets.Dataset, str, str], list[Row]]
    out: Path
    fields: tuple[str, ...]
    by: tuple[str, ...]
    means: Mapping[str, str]  # heading: field


CRITERIA = Part(
    criteria,
    Path("docs/hindsight.csv"),
    ("data", "task", "criterion", "chosen", "accuracy", "best", "mean"),
    ("data", "criterion"),
    {"chosen": "accuracy", "best": "best", "blind": "mean"},
)
MEMBERS = ("committee", "best", "worst", "mean", "source_only")
COMMITTEE = Part(
    committee,
    Path("docs/hindsight-committee.csv"),
    ("data", "task", *MEMBERS),
    ("data",),
    {name.replace("_", " "): name for name in MEMBERS},
)


def run(part: Part, names: Sequence[str], tasks: int, out: Path) -> list[Row]:
    """Measure tasks that are missing in the file; all rows of these data sets."""
    folder = os.environ.get("MARDA_DATA")
    done: list[Row] = []
    if out.exists():
        with out.open(newline="") as file:
            done = list(csv.DictReader(file))
    known = {(row["data"], row["task"]) for row in done}
    with out.open("a", newline="") as file:
        writer = csv.DictWriter(file, part.fields)
        if not file.tell():
            writer.writeheader()
        for name in names:
            data = datasets.load(name, Path(folder) if folder else None)
            for source, target in data.pairs()[:tasks]:
                one = {"data": name, "task": f"{source}-{target}"}
                if tuple(one.values()) in known:
                    continue
                rows = [{**one, **row} for row in part.measure(data, source, target)]
                writer.writerows(rows)
                file.flush()
                done += rows
                print(f"{name} {source} to {target}", file=sys.stderr, flush=True)
    return [row for row in done if row["data"] in names]


def show(part: Part, rows: Iterable[Row]) -> str:
    """Means over tasks."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in part.by), []).append(row)
    lines = [" ".join([*(f"{k:20}" for k in part.by), *(f"{k:>11}" for k in part.means)])]
    for words, group in groups.items():
        means = [np.mean([float(row[k]) for row in group]) for k in part.means.values()]
        lines.append(" ".join([*(f"{w:20}" for w in words), *(f"{m:11.2f}" for m in means)]))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is missing in the file, then print the table of all of it."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--committee", action="store_true", help="the default, and its members")
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--out", type=Path, help=f"{CRITERIA.out} or {COMMITTEE.out}")
    args = parser.parse_args(argv)
    part = COMMITTEE if args.committee else CRITERIA
    print(show(part, run(part, args.data, args.tasks, args.out or part.out)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
