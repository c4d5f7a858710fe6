"""What ``--settings auto`` runs: marda's own choice next to the alternatives, and its goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from marda.experiments.plan import BENCHMARKS, PREPROCESSING, PlanError, known_names
from marda.experiments.specs import Scalar, Setting, Spec, TaskSpec

Measure = Literal["accuracy", "balanced_accuracy"]
Role = Literal["auto", "source", "fixed", "peer"]
Overrides = tuple[tuple[str, Scalar], ...]

AUTO, SOURCE = "auto", "source-only"
PEERS = ("CORAL", "SubspaceAlignment", "LinearOT", "OT")
BASELINE = "ridge"
"""Classifier of the source-only rows that auto must not fall below."""
_CLASSIFIERS: dict[str, tuple[str, ...]] = {
    AUTO: ("auto",),
    SOURCE: (BASELINE, "svm", "logistic"),
    **dict.fromkeys(PEERS, ("svm", "logistic")),
}
_SCALED: Overrides = (("scaling", "balanced"),)
_FIXED_MODELS = ("S1", "S1M", "S1D")
METHODS = (AUTO, SOURCE, *_FIXED_MODELS, *PEERS)


@dataclass(frozen=True)
class Entry:
    """A data set of the contest: how it is measured, and the mean that auto is to reach."""

    goal: float
    measure: Measure = "accuracy"
    preprocessing: str = "paper"
    fixed: tuple[tuple[Overrides, tuple[str, ...]], ...] = (((), ("ridge",)),)
    """Fixed settings of the paper's models: overrides, and classifiers under them."""


_IMAGE = (((), ("ridge",)), (_SCALED, ("ridge",)))
ENTRIES: dict[str, Entry] = {
    "oc10": Entry(93.5, fixed=_IMAGE),
    "off31": Entry(75.0, fixed=_IMAGE),
    "oc10-surf": Entry(52.8, fixed=_IMAGE),
    # ridge10 is an ordinary ridge on denoised rows, the best reading of the paper's text.
    "amt": Entry(83.0, preprocessing="log-tf", fixed=(((), ("ridge", "ridge10")),)),
    "sentiment-snippets": Entry(66.0, "balanced_accuracy"),
}


def role_of(spec: Spec) -> Role:
    """What a row of the contest stands for."""
    if spec.settings != "auto":
        return "fixed"
    return "auto" if spec.model == AUTO else "source" if spec.model == SOURCE else "peer"


def plan_contest(
    table: str = "us",
    *,
    benchmarks: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    classifiers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    preprocessing: str | None = None,
    overrides: Sequence[tuple[str, Scalar]] = (),
    draws: int = 1,
    present: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Spec, ...]:
    """Every spec of the contest.

    ``us`` has all methods; ``ss`` auto and the source-only baseline, since the others do not use
    target labels. ``overrides`` are arguments of ``MDAClassifierCV``.
    """
    if table not in ("us", "ss", "all"):
        raise PlanError(f"--settings auto knows the tables us and ss, got {table!r}.")
    if preprocessing is not None:
        known_names("preprocessing", [preprocessing], PREPROCESSING)
    setting: Setting = "SS" if table == "ss" else "US"
    names = known_names("data set", benchmarks, tuple(ENTRIES)) or tuple(ENTRIES)
    wanted = known_names("method", methods, METHODS) or METHODS
    every = tuple(dict.fromkeys(c for kinds in _CLASSIFIERS.values() for c in kinds))
    kinds = known_names("classifier", classifiers, (*every, "ridge10")) or (*every, "ridge10")
    pairs = {name: BENCHMARKS[name].pairs() for name in names}
    all_pairs = sorted({f"{s}-{t}" for found in pairs.values() for s, t in found})
    kept = known_names("task", tasks, all_pairs)
    found = []
    for name in names:
        entry = ENTRIES[name]
        for draw in range(draws if setting == "SS" else 1):
            for source, target in pairs[name]:
                there = (source, target) if present is None else present.get(name, ())
                if (kept and f"{source}-{target}" not in kept) or not {source, target} <= {*there}:
                    continue
                prepared = preprocessing or entry.preprocessing
                task = TaskSpec(name, source, target, setting, "full", prepared, draw)
                found += [
                    spec
                    for spec in _entrants(task, entry, tuple(sorted(overrides)))
                    if spec.model in wanted and spec.classifier in kinds
                ]
    if not found:
        raise PlanError("nothing to run: no such combination of data sets, methods and tasks.")
    return tuple(found)


def _entrants(task: TaskSpec, entry: Entry, overrides: Overrides) -> list[Spec]:
    """All that compete on one task."""
    specs = [Spec(task, AUTO, "auto", "auto", overrides)]
    specs += [Spec(task, SOURCE, c, "auto") for c in _CLASSIFIERS[SOURCE]]
    if task.setting == "SS":
        return specs[:2]
    specs += [
        Spec(task, model, classifier, "paper", changed)
        for changed, classifiers in entry.fixed
        for model in _FIXED_MODELS
        for classifier in classifiers
    ]
    return specs + [Spec(task, peer, c, "auto") for peer in PEERS for c in _CLASSIFIERS[peer]]
