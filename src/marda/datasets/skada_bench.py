"""SKADA-Bench: six shifts in the splits of that benchmark, from one npz file.

A task comes in five splits, each with its own rows: labelled source rows, target rows without
labels to learn from, and other target rows that accuracy is measured on. Rows are taken as they
are.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marda.datasets.base import Dataset, Domain, FormatError, LazyDomains
from marda.datasets.storage import (
    Layout,
    Location,
    array_of,
    class_numbers,
    find,
    finite,
    open_npz,
)

NAME = "skada-bench"
KNOWN = {
    "skada-bench.npz": "5dfc4a00b739cdaadb12aa829cc523fcad64f9a395ca3c312a66b9713ea2cf82",
}
SPLITS = 5
_GENERATED = ("covariate_shift", "target_shift", "concept_drift", "subspace")
TASKS = (
    *("mushrooms e>t", "mushrooms t>e", "phishing 1>-1", "phishing -1>1"),
    *(f"{name} {seed}" for name in _GENERATED for seed in range(5)),
)
"""Two directions of two tables of the UCI repository; five seeds of four generated shifts."""
_ARRAYS = ("Xs", "ys", "Xu", "yu", "Xt", "yt")
_LAYOUT = Layout("npz", {"all": tuple(KNOWN)})


def domains_of(task: str, split: int) -> tuple[str, str]:
    """Names of the source and of the target of one task in one split."""
    return f"{task}|{split}|source", f"{task}|{split}|target"


def locate(path: str | os.PathLike[str] | None) -> Location:
    """Look for the file."""
    return find(NAME, NAME, (_LAYOUT,), path)


def load(path: str | os.PathLike[str] | None) -> Dataset:
    """Wrap the file; a source and a target of the same task and split make a pair."""
    location = locate(path)
    if location.layout is None:
        raise location.missing()
    file = location.files["all"]
    with open_npz(file) as archive:
        held = set(archive.files)
    pairs = []
    for task in TASKS:
        for split in range(SPLITS):
            there = {name for name in _ARRAYS if f"{task}|{split}|{name}" in held}
            if there and len(there) < len(_ARRAYS):
                lost = ", ".join(name for name in _ARRAYS if name not in there)
                raise FormatError(f"{file}: {task}|{split} lacks {lost}: fetch it again.")
            if there:
                pairs.append(domains_of(task, split))
    if not pairs:
        raise FormatError(f"{file} holds no task, such as {TASKS[0]}|0|Xs: fetch it again.")
    return Dataset(
        name=NAME,
        domains=LazyDomains(
            {name: partial(_domain, file, name) for pair in pairs for name in pair}
        ),
        names=("class 0", "class 1"),
        licence=(
            "BSD-3-Clause (SKADA-Bench); mushrooms and phishing CC BY 4.0 (UCI machine learning "
            "repository). marda does not redistribute them."
        ),
        citation=(
            "Lalou et al.: SKADA-Bench: benchmarking unsupervised domain adaptation methods with "
            "realistic validation on diverse modalities, TMLR 2025 (arXiv:2407.11676)."
        ),
        notes="Rows in the benchmark's own five outer splits; accuracy on the target's test rows.",
        kind="table",
        files=(file,),
        known=KNOWN,
        own_pairs=tuple(pairs),
    )


def _domain(file: Path, name: str) -> Domain:
    """Source rows, all for training; target rows for training, then those of the test."""
    start, _, side = name.rpartition("|")
    with open_npz(file) as archive:
        parts = [
            (array_of(archive, f"{start}|X{k}", file), array_of(archive, f"{start}|y{k}", file))
            for k in ("s" if side == "source" else "ut")
        ]
    width = parts[0][0].shape[-1]
    for rows, labels in parts:
        if rows.ndim != 2 or labels.shape != rows.shape[:1] or rows.shape[1] != width:
            raise FormatError(f"{file}: rows and labels of {name} do not fit: fetch it again.")
    X: NDArray[np.float64] = np.vstack([rows for rows, _ in parts]).astype(np.float64)
    y = class_numbers(np.concatenate([labels for _, labels in parts]), 2, file, one_based=False)
    train = np.arange(len(y)) < len(parts[0][1])
    return Domain(finite(X, file), y, train=train)
