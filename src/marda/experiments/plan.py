"""The planner: from a table of the paper to the specs it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, get_args

from marda.experiments.specs import Scalar, Setting, Settings, Spec, TaskSpec

TableName = Literal["us", "sup", "ss", "off31", "surf"]

CLASSIFIERS = ("nn", "dscm", "ridge")
# The C term needs labelled target rows, so US has no S1C and no J12C (math.md §3).
MODELS_US = ("BL", "MCF", "S1", "S1M", "S1D", "J12", "J12M", "J12D")
MODELS_LABELLED = ("BL", "MCF", "S1", "S1M", "S1D", "S1C", "J12", "J12M", "J12D", "J12C")
MODELS = MODELS_LABELLED
TABLES: tuple[TableName, ...] = get_args(TableName)
DRAWS = 20


class PlanError(ValueError):
    """A request that names something that does not exist; the message says what does."""


@dataclass(frozen=True)
class Benchmark:
    """A data set with one kind of features, as the tables name it."""

    name: str
    dataset: str
    features: str
    domains: tuple[str, ...]
    kind: Literal["image", "text"]
    label: str

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All ordered source → target pairs."""
        return tuple(permutations(self.domains, 2))


_OFFICE = ("amazon", "dslr", "webcam")
BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        Benchmark(
            "oc10",
            "oc10",
            "squeezenet",
            ("amazon", "caltech", "dslr", "webcam"),
            "image",
            "OC10 (SqueezeNet features)",
        ),
        Benchmark(
            "oc10-surf",
            "oc10",
            "surf",
            ("amazon", "caltech", "dslr", "webcam"),
            "image",
            "OC10 (SURF features)",
        ),
        Benchmark(
            "oc10-decaf6",
            "oc10",
            "decaf6",
            ("dslr", "webcam"),
            "image",
            "OC10 (DeCAF6 features, dslr and webcam only)",
        ),
        Benchmark("off31", "off31", "squeezenet", _OFFICE, "image", "OFF31 (SqueezeNet features)"),
        Benchmark("amt", "amt", "tfidf", ("books", "dvd", "electronics", "kitchen"), "text", "AMT"),
    )
}
_TABLE_SETTING: dict[str, Setting] = {
    "us": "US",
    "sup": "SUP",
    "ss": "SS",
    "off31": "US",
    "surf": "SS",
}
_TABLE_BENCHMARKS: dict[str, tuple[str, ...]] = {
    "us": ("oc10", "off31", "amt"),
    "sup": ("oc10", "off31", "amt"),
    "ss": ("oc10", "off31", "amt"),
    "off31": ("off31",),
    "surf": ("oc10-surf",),
}


def _known(what: str, asked: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...] | None:
    """``asked`` in the order of ``known``; raise for a name that is not there."""
    if asked is None:
        return None
    for name in asked:
        if name not in known:
            raise PlanError(f"unknown {what} {name!r}: choose from {', '.join(known)}.")
    return tuple(k for k in known if k in asked)


def table_names(table: str) -> tuple[TableName, ...]:
    """``"all"`` → every table, else the one asked for."""
    if table == "all":
        return TABLES
    if table not in TABLES:
        raise PlanError(f"unknown table {table!r}: choose from {', '.join(TABLES)}, all.")
    return (table,)


def plan_table(
    table: TableName,
    *,
    benchmarks: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    classifiers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    settings: Settings = "paper",
    overrides: Sequence[tuple[str, Scalar]] = (),
    draws: int = DRAWS,
) -> tuple[Spec, ...]:
    """Every spec that ``table`` is made of.

    ``benchmarks`` narrows or replaces the table's own data sets (``us`` on ``oc10-surf`` is
    meaningful); ``off31`` and ``surf`` are tied to theirs and give nothing for others.
    """
    if draws < 1:
        raise PlanError(f"draws must be at least 1, got {draws}.")
    chosen = _known("data set", benchmarks, tuple(BENCHMARKS))
    own = _TABLE_BENCHMARKS[table]
    if chosen is None:
        names: tuple[str, ...] = own
    elif table in ("off31", "surf"):
        names = tuple(n for n in chosen if n in own)
    else:
        names = chosen
    setting = _TABLE_SETTING[table]
    wanted = _known("model", models, MODELS) or MODELS
    possible = MODELS_US if setting == "US" else MODELS_LABELLED
    kinds = _known("classifier", classifiers, CLASSIFIERS) or CLASSIFIERS
    all_pairs = sorted({f"{s}-{t}" for b in BENCHMARKS.values() for s, t in b.pairs()})
    kept = _known("task", tasks, all_pairs)
    protocol: Literal["full", "sampled"] = "sampled" if table == "surf" else "full"
    changed = tuple(sorted(overrides, key=lambda item: item[0]))
    return tuple(
        Spec(
            TaskSpec(name, source, target, setting, protocol, draw=draw),
            model,
            classifier,
            settings,
            changed,
        )
        for name in names
        for draw in range(1 if setting == "US" else draws)
        for source, target in BENCHMARKS[name].pairs()
        if kept is None or f"{source}-{target}" in kept
        for model in possible
        if model in wanted
        for classifier in kinds
    )
