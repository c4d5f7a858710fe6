"""The planner: from a table of the paper to the specs it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
# "paper" is the protocol of the data set; "log-tf" damps the counts of text and leaves images.
PREPROCESSING = ("paper", "log-tf")


class PlanError(ValueError):
    """A request that names something that does not exist; the message says what does."""


@dataclass(frozen=True)
class Benchmark:
    """A data set with one kind of features, as the tables name it."""

    name: str
    loader: str
    """Its name in ``marda.datasets``, features included."""
    features: str
    domains: tuple[str, ...]
    kind: Literal["image", "text"]
    """Which of the paper's settings apply."""
    label: str
    printed_as: str | None = None
    """The data set whose figures in the paper these rows stand next to."""

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All ordered source → target pairs."""
        return tuple(permutations(self.domains, 2))


_OFFICE = ("amazon", "dslr", "webcam")
_CALTECH = ("amazon", "caltech10", "dslr", "webcam")
_AMAZON = ("books", "dvd", "electronics", "kitchen")
_FEATURES = {"squeezenet": "SqueezeNet", "decaf6": "DeCAF6", "surf": "SURF"}


def _image(
    family: str, features: str, domains: tuple[str, ...], printed_as: str | None
) -> Benchmark:
    """Name an image benchmark; SqueezeNet features are the ones a bare name stands for."""
    loader = f"{family}-{features}"
    label = f"{family.upper()} ({_FEATURES[features]} features)"
    name = family if features == "squeezenet" else loader
    return Benchmark(name, loader, features, domains, "image", label, printed_as)


BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        _image("oc10", "squeezenet", _CALTECH, "oc10"),
        _image("oc10", "decaf6", _CALTECH, "oc10"),
        _image("oc10", "surf", _CALTECH, None),
        _image("off31", "squeezenet", _OFFICE, "off31"),
        _image("off31", "decaf6", _OFFICE, "off31"),
        Benchmark("amt", "amt", "tfidf", _AMAZON, "text", "AMT", "amt"),
        Benchmark(
            "sentiment-snippets",
            "sentiment-snippets",
            "tfidf",
            ("editorials", "films", "products", "tweets"),
            "text",
            "sentiment-snippets",
        ),
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


def known_names(
    what: str, asked: Sequence[str] | None, known: Sequence[str]
) -> tuple[str, ...] | None:
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


def belongs(spec: Spec, table: TableName) -> bool:
    """Whether a row of ``spec`` can stand in ``table``."""
    task = spec.task
    tied = table not in ("off31", "surf") or task.benchmark in _TABLE_BENCHMARKS[table]
    sampled = (task.protocol == "sampled") == (table == "surf")
    return tied and sampled and task.setting == _TABLE_SETTING[table]


def plan_table(
    table: TableName,
    *,
    benchmarks: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    classifiers: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    preprocessing: str = "paper",
    settings: Settings = "paper",
    overrides: Sequence[tuple[str, Scalar]] = (),
    draws: int = DRAWS,
    present: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Spec, ...]:
    """Every spec that ``table`` is made of.

    ``benchmarks`` narrows or replaces the table's own data sets (``us`` on ``oc10-surf`` is
    meaningful); ``off31`` and ``surf`` are tied to theirs and give nothing for others.
    ``present`` says which domains of a data set there are, where some are missing.
    """
    known_names("preprocessing", [preprocessing], PREPROCESSING)
    if draws < 1:
        raise PlanError(f"draws must be at least 1, got {draws}.")
    chosen = known_names("data set", benchmarks, tuple(BENCHMARKS))
    own = _TABLE_BENCHMARKS[table]
    if chosen is None:
        names: tuple[str, ...] = own
    elif table in ("off31", "surf"):
        names = tuple(n for n in chosen if n in own)
    else:
        names = chosen
    setting = _TABLE_SETTING[table]
    wanted = known_names("model", models, MODELS) or MODELS
    possible = MODELS_US if setting == "US" else MODELS_LABELLED
    kinds = known_names("classifier", classifiers, CLASSIFIERS) or CLASSIFIERS
    all_pairs = sorted({f"{s}-{t}" for b in BENCHMARKS.values() for s, t in b.pairs()})
    kept = known_names("task", tasks, all_pairs)
    protocol: Literal["full", "sampled"] = "sampled" if table == "surf" else "full"
    changed = tuple(sorted(overrides, key=lambda item: item[0]))
    return tuple(
        Spec(
            TaskSpec(name, source, target, setting, protocol, preprocessing, draw),
            model,
            classifier,
            settings,
            changed,
        )
        for name in names
        for draw in range(1 if setting == "US" else draws)
        for source, target in BENCHMARKS[name].pairs()
        if kept is None or f"{source}-{target}" in kept
        if present is None or {source, target} <= set(present.get(name, (source, target)))
        for model in possible
        if model in wanted
        for classifier in kinds
    )
