"""The rows behind a task spec."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from marda import datasets
from marda.datasets import Dataset, Task
from marda.experiments.plan import BENCHMARKS
from marda.experiments.specs import TaskSpec


@lru_cache(maxsize=2)
def _load(loader: str, data_dir: Path | None) -> Dataset:
    """Keep the last data sets: the units of one worker mostly share theirs."""
    return datasets.load(loader, data_dir)


def present_domains(names: Sequence[str], data_dir: Path | None) -> dict[str, tuple[str, ...]]:
    """Domains of each benchmark that there are; `MissingData` says what is not there.

    Asked before anything is started, so that a missing file is one sentence and not a thousand
    failed rows.
    """
    found = {}
    for name in names:
        held = datasets.load(BENCHMARKS[name].loader, data_dir).domains
        found[name] = tuple(domain for domain in BENCHMARKS[name].domains if domain in held)
    return found


def load_task(spec: TaskSpec, data_dir: Path | None) -> Task:
    """Prepare the rows of one task and draw; the number of the draw is its seed."""
    dataset = _load(BENCHMARKS[spec.benchmark].loader, data_dir)
    if spec.protocol == "sampled":
        return datasets.sampled_task(
            dataset, spec.source, spec.target, spec.setting, seed=spec.draw
        )
    return datasets.make_task(
        dataset,
        spec.source,
        spec.target,
        spec.setting,
        seed=spec.draw,
        log_tf=spec.preprocessing == "log-tf",
    )
