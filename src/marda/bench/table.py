"""The OC10 unsupervised table by `solver="auto"` and by the d×d route, task by task."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from marda.bench.machine import blas_threads, machine
from marda.datasets import Dataset

__all__ = ["oc10"]

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
METHODS = ("BL", "MCF", "S1", "S1M", "S1D", "J12", "J12M", "J12D")
SOLVERS = ("auto", "primal")


def _measured(data: Dataset, pair: str) -> dict[str, Any]:
    """Seconds of one task by both solvers, in all and by model, and how far they agree."""
    from marda.datasets import make_task
    from marda.experiments.execute import fit_unit
    from marda.experiments.specs import Spec, TaskSpec

    source, target = pair.split("-")
    task, name = make_task(data, source, target), TaskSpec("oc10", source, target, "US")
    found: dict[str, Any] = {"task": pair}
    predicted: dict[str, list[Any]] = {}
    for solver in SOLVERS:
        specs = [
            Spec(name, method, classifier, "paper", (("solver", solver),))
            for method in METHODS
            for classifier in ("ridge", "nn", "dscm")
        ]
        started = time.perf_counter()
        fitted = list(fit_unit(task, specs))
        found[f"{solver}_s"] = time.perf_counter() - started
        found[f"{solver}_by_model_s"] = {
            method: sum(f.fit_seconds + f.predict_seconds for f in fitted if f.spec.model == method)
            for method in METHODS
        }
        predicted[solver] = [f.predicted for f in fitted]
    pairs = zip(*(predicted[solver] for solver in SOLVERS), strict=True)
    found["least_agreement"] = min(float(np.mean(ours == theirs)) for ours, theirs in pairs)
    return found


def _kept(path: Path | None, where: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Tasks of an earlier run that was ended, if the machine and the versions are the same."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return {line["task"]: line for line in lines if line["machine"] == where}


def oc10(tasks: int = 12, keep: str | None = None) -> dict[str, Any]:
    """The OC10 unsupervised table as `marda reproduce` runs it: auto against the d×d route.

    A finished task is written to the file `keep` at once; a run that was ended goes on from there.
    """
    from marda import datasets

    data = datasets.load("oc10-squeezenet", os.environ.get("MARDA_DATA") or None)
    path = None if keep is None else Path(keep)
    where = {**machine(), "threads": blas_threads()}
    del where["date"]
    kept = _kept(path, where)
    for pair in PAIRS[:tasks]:
        if pair in kept:
            continue
        kept[pair] = _measured(data, pair)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as handle:
                handle.write(json.dumps({**kept[pair], "machine": where}) + "\n")
    found = [{k: v for k, v in kept[p].items() if k != "machine"} for p in PAIRS[:tasks]]
    ours, theirs = (sum(f[f"{solver}_s"] for f in found) for solver in SOLVERS)
    return {
        "tasks": tasks,
        "marda_s": ours,
        "reference_s": theirs,
        "ratio": theirs / ours,
        "least_agreement": min(f["least_agreement"] for f in found),
        "by_task": found,
    }
