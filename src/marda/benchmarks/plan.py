"""What can be run: specs with stable keys, and the planner from a request to its specs.

A spec is one run: a task, a model, a classifier, settings. The paper's tables and the leaderboard
are sets of specs; a unit groups the specs that one process runs on the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import permutations
from typing import Any, Literal, get_args
from zlib import crc32

from marda.datasets import COLLECTIONS

Setting = Literal["US", "SUP", "SS"]
Settings = Literal["paper", "marda", "auto"]
Protocol = Literal["full", "full-test", "full-both", "sampled"]
Half = Literal["development", "report"]
Scalar = str | int | float | bool | None
Overrides = tuple[tuple[str, Scalar], ...]


def _pair(source: str, target: str) -> str:
    return f"{source}-{target}" if target else source


@dataclass(frozen=True, order=True)
class TaskSpec:
    """One adaptation task: which rows to learn from and which to predict."""

    benchmark: str
    source: str
    """Domain; or the name of the task, in a data set whose tasks have names of their own."""
    target: str
    """Domain; empty where the task has a name of its own."""
    setting: Setting
    protocol: Protocol = "full"
    """``"full"``: all source rows; ``"full-test"``, ``"full-both"``: the same, and the test rows of
    an official split are seen without labels, in place of or beside the target's train rows.
    ``"sampled"``: Saenko et al. 2010, Gong et al. 2012."""
    preprocessing: str = "paper"
    draw: int = 0
    """Number of the random draw or split; it is also its seed. US of domains has draw 0 only."""

    @property
    def pair(self) -> str:
        """``source-target`` or the name of the task, as ``--tasks`` spells it."""
        return _pair(self.source, self.target)

    @property
    def family(self) -> str:
        """What tasks that share rows have in common: directions, seeds, other classes."""
        words = self.source.split()
        return self.source if self.benchmark == "generated" else words[0]

    @property
    def half(self) -> Half:
        """Which half of the tasks this is of.

        Constants of rules are settled on the development half only and reported on the other.
        Even CRC-32 of the family is development, so that no data are on both sides; generated
        cases have rows without end, and even seeds are development.
        """
        odd = self.draw % 2 if self.benchmark == "generated" else crc32(self.family.encode()) % 2
        return "report" if odd else "development"

    @property
    def key(self) -> str:
        """Stable, readable and unique."""
        return "/".join(
            (
                self.benchmark,
                self.preprocessing,
                self.pair,
                self.setting,
                self.protocol,
                f"draw{self.draw}",
            )
        )


@dataclass(frozen=True, order=True)
class Spec:
    """One run: a task, a model, a classifier and its settings."""

    task: TaskSpec
    model: str
    classifier: str
    settings: Settings = "paper"
    overrides: Overrides = ()
    """Estimator arguments that differ from ``settings``, sorted by name."""

    @property
    def variant(self) -> str:
        """Name of the settings with their overrides: ``paper`` or ``paper+ridge_class=10``."""
        return "+".join((self.settings, *(f"{k}={json.dumps(v)}" for k, v in self.overrides)))

    @property
    def key(self) -> str:
        """Stable, readable and unique: what "done" is remembered by."""
        return f"{self.task.key}/{self.variant}/{self.model}/{self.classifier}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Spec:
        """Inverse of ``to_dict``."""
        return cls(
            task=TaskSpec(**data["task"]),
            model=data["model"],
            classifier=data["classifier"],
            settings=data["settings"],
            overrides=tuple((k, v) for k, v in data["overrides"]),
        )


@dataclass(frozen=True)
class Unit:
    """All specs of one task, draw and settings: one process loads and factorises once for them."""

    specs: tuple[Spec, ...] = field(default=())

    @property
    def task(self) -> TaskSpec:
        """The task that all specs share."""
        return self.specs[0].task

    @property
    def key(self) -> str:
        """What a runner claims. It does not depend on which models are still to do."""
        return f"{self.task.key}/{self.specs[0].variant}"

    def without(self, done: Iterable[str]) -> Unit:
        """Return the unit less the specs whose keys are ``done``."""
        skip = set(done)
        return replace(self, specs=tuple(s for s in self.specs if s.key not in skip))

    def to_json(self) -> str:
        """One line of JSON: what travels to a worker."""
        return json.dumps([s.to_dict() for s in self.specs])

    @classmethod
    def from_json(cls, text: str) -> Unit:
        """Inverse of ``to_json``."""
        return cls(tuple(Spec.from_dict(d) for d in json.loads(text)))


def group_units(specs: Iterable[Spec]) -> tuple[Unit, ...]:
    """Group specs of the same task, draw and settings, in order, without repeats."""
    groups: dict[str, dict[str, Spec]] = {}
    for spec in specs:
        groups.setdefault(f"{spec.task.key}/{spec.variant}", {}).setdefault(spec.key, spec)
    return tuple(Unit(tuple(found.values())) for found in groups.values())


# The paper's tables ------------------------------------------------------------------------------

TableName = Literal["us", "sup", "ss", "off31", "surf"]

CLASSIFIERS = ("nn", "dscm", "ridge")
# The C term needs labelled target rows, so US has no S1C and no J12C (math.md §3).
MODELS_US = ("BL", "MCF", "S1", "S1M", "S1D", "J12", "J12M", "J12D")
MODELS_LABELLED = ("BL", "MCF", "S1", "S1M", "S1D", "S1C", "J12", "J12M", "J12D", "J12C")
MODELS = MODELS_LABELLED
TABLES: tuple[TableName, ...] = get_args(TableName)
DRAWS = 20
# "paper" is the protocol of the data set; "log-tf" damps the counts of text and leaves images;
# "no-l2" leaves z-scored SURF counts at their lengths and all else as it is.
PREPROCESSING = ("paper", "log-tf", "no-l2")
# Which target rows of an official split W sees without their labels.
UNLABELLED: dict[str, Protocol] = {"train": "full", "test": "full-test", "both": "full-both"}
TABLE_CLASSIFIERS = (*CLASSIFIERS, "ridge1", "ridge3", "ridge10")
"""``ridge10``: an ordinary ridge of weight 10 on denoised rows, run only if named; so 1, 3."""


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
    kind: Literal["image", "text", "table"]
    """Which of the paper's settings apply; none to tables."""
    label: str
    printed_as: str | None = None
    """The data set whose figures in the paper these rows stand next to."""
    tasks: tuple[str, ...] = ()
    """Tasks with names of their own, where there are no domains."""
    draws: int = 1
    """Splits or seeds of each of ``tasks``."""
    split: bool = False
    """Train and test rows are told apart by the data set."""

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All ordered source → target pairs; a task with a name of its own is ``(name, "")``."""
        return tuple((task, "") for task in self.tasks) or tuple(permutations(self.domains, 2))


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


_COLLECTIONS = {
    "skada-bench": "SKADA-Bench",
    "generated": "generated shifts",
    "digits": "changed digits",
    "tables": "tables",
}


def _collection(name: str, label: str) -> Benchmark:
    """Name a collection of `marda.datasets.named_task`."""
    found = COLLECTIONS[name]
    return Benchmark(
        name, name, "columns", (), "table", label, tasks=found.tasks, draws=found.draws
    )


BENCHMARKS: dict[str, Benchmark] = {
    b.name: b
    for b in (
        _image("oc10", "squeezenet", _CALTECH, "oc10"),
        _image("oc10", "decaf6", _CALTECH, "oc10"),
        _image("oc10", "surf", _CALTECH, None),
        _image("off31", "squeezenet", _OFFICE, "off31"),
        _image("off31", "decaf6", _OFFICE, "off31"),
        Benchmark("amt", "amt", "tfidf", _AMAZON, "text", "AMT", "amt", split=True),
        Benchmark(
            "sentiment-snippets",
            "sentiment-snippets",
            "tfidf",
            ("editorials", "films", "products", "tweets"),
            "text",
            "sentiment-snippets",
        ),
        *(_collection(name, label) for name, label in _COLLECTIONS.items()),
    )
}
DOMAIN_BENCHMARKS = tuple(name for name, b in BENCHMARKS.items() if b.domains)
"""Those that the paper's tables can be made of."""
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


# Requests -----------------------------------------------------------------------------------------

Present = Mapping[str, Sequence[str]]
"""Domains or tasks that there are, by data set; all are where a data set is not named."""


@dataclass(frozen=True)
class Request:
    """What to run; the defaults are the paper's tables with the paper's settings.

    ``settings="auto"`` asks for the leaderboard, marda's own choice next to the alternatives:
    ``table`` is then us (or all) or ss, and ``models`` are names of `METHODS`.
    """

    table: str = "all"
    datasets: Sequence[str] | None = None
    models: Sequence[str] | None = None
    classifiers: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    preprocessing: str | None = None
    """None: the paper's; on the leaderboard, that of the data set's `Evaluation`."""
    unlabelled: str | None = None
    """Target rows that W sees without labels, of `UNLABELLED`; None: train rows."""
    settings: Settings = "paper"
    overrides: Sequence[tuple[str, Scalar]] = ()
    draws: int = DRAWS

    def specs(self, present: Present | None = None) -> tuple[Spec, ...]:
        """Every spec, the ones that several tables share only once."""
        if self.settings == "auto":
            return plan_leaderboard(self, present)
        found = [spec for specs in self.tables(present).values() for spec in specs]
        return tuple(dict.fromkeys(found))

    def tables(self, present: Present | None = None) -> dict[TableName, tuple[Spec, ...]]:
        """Specs by table; tables that the request leaves nothing of are left out."""
        plans = {name: plan_table(name, self, present) for name in table_names(self.table)}
        kept = {name: specs for name, specs in plans.items() if specs}
        if not kept:
            raise PlanError(
                f"nothing to run: table {self.table} has no such combination of data sets, models "
                "and tasks (S1C and J12C need sup, ss or surf)."
            )
        return kept


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
    table: TableName, asked: Request, present: Present | None = None
) -> tuple[Spec, ...]:
    """Every spec that ``table`` is made of.

    Data sets that are asked for narrow or replace the table's own (``us`` on ``oc10-surf`` is
    meaningful); ``off31`` and ``surf`` are tied to theirs and give nothing for others.
    """
    prepared, unlabelled = asked.preprocessing or "paper", asked.unlabelled or "train"
    known_names("preprocessing", [prepared], PREPROCESSING)
    known_names("choice of unlabelled rows", [unlabelled], tuple(UNLABELLED))
    if asked.draws < 1:
        raise PlanError(f"draws must be at least 1, got {asked.draws}.")
    own = _TABLE_BENCHMARKS[table]
    names = known_names("data set", asked.datasets, DOMAIN_BENCHMARKS) or own
    if table in ("off31", "surf"):
        names = tuple(n for n in names if n in own)
    setting = _TABLE_SETTING[table]
    wanted = known_names("model", asked.models, MODELS) or MODELS
    possible = MODELS_US if setting == "US" else MODELS_LABELLED
    kinds = known_names("classifier", asked.classifiers, TABLE_CLASSIFIERS) or CLASSIFIERS
    all_pairs = sorted({f"{s}-{t}" for n in DOMAIN_BENCHMARKS for s, t in BENCHMARKS[n].pairs()})
    kept = known_names("task", asked.tasks, all_pairs)
    sampled: Protocol | None = "sampled" if table == "surf" else None
    return tuple(
        Spec(
            TaskSpec(name, source, target, setting, protocol, prepared, draw),
            model,
            classifier,
            asked.settings,
            tuple(sorted(asked.overrides)),
        )
        for name in names
        for protocol in [sampled or full_protocol(name, unlabelled)]
        for draw in range(1 if setting == "US" else asked.draws)
        for source, target in BENCHMARKS[name].pairs()
        if kept is None or f"{source}-{target}" in kept
        if present is None or {source, target} <= set(present.get(name, (source, target)))
        for model in possible
        if model in wanted
        for classifier in kinds
    )


def full_protocol(name: str, unlabelled: str) -> Protocol:
    """All source rows, and which rows of a split are seen, where the data set has one."""
    return UNLABELLED[unlabelled] if BENCHMARKS[name].split else "full"


def seen_rows(specs: Iterable[Spec]) -> str:
    """``train``, ``test`` or ``both``: the target rows that the first spec with a choice sees."""
    names = {protocol: name for name, protocol in UNLABELLED.items()}
    found = (s.task.protocol for s in specs if BENCHMARKS[s.task.benchmark].split)
    return names[next(found, "full")]


# The leaderboard ----------------------------------------------------------------------------------

Measure = Literal["accuracy", "balanced_accuracy"]
Role = Literal["auto", "source", "fixed", "peer"]

AUTO, SOURCE = "auto", "source-only"
ADAPTERS = ("CORAL", "SubspaceAlignment", "LinearOT", "OT")
"""Of skada: they change rows, and each of two classifiers learns from these."""
SYSTEMS = (
    *("GFK", "TCA", "JDA", "TTM", "EasyTL", "MEDA", "SPL", "CMMS"),
    *("auxiliary", "DA-SVM", "DANN", "DDC", "DAN"),
)
"""Systems of `marda.benchmarks.peers`; they bring their own classifier."""
LABELLED_SYSTEMS = ("MMDT",)
"""Those that need labelled target rows, and so run in SS alone."""
OWN = "own"
BASELINE = "ridge"
"""Classifier of the source-only rows that auto is compared with."""
_ADAPTER_CLASSIFIERS = ("svm", "logistic")
LEADERBOARD_CLASSIFIERS = ("auto", BASELINE, "svm", "logistic", "forest", "ridge10", OWN)
_SCALED: Overrides = (("scaling", "balanced"),)
_FIXED_MODELS = ("S1", "S1M", "S1D")
METHODS = (AUTO, SOURCE, *_FIXED_MODELS, *ADAPTERS, *SYSTEMS, *LABELLED_SYSTEMS)


@dataclass(frozen=True)
class Evaluation:
    """How the leaderboard of a data set is measured, and against what."""

    measure: Measure = "accuracy"
    preprocessing: str = "paper"
    source: tuple[str, ...] = (BASELINE, "svm", "logistic")
    """Classifiers of the source-only rows."""
    adapters: tuple[str, ...] = ADAPTERS
    systems: tuple[str, ...] = SYSTEMS
    by_halves: bool = False
    """Development and report halves apart, against the source-only model chosen by folds."""
    fixed: tuple[tuple[Overrides, tuple[str, ...]], ...] = (((), ("ridge",)),)
    """Fixed settings of the paper's models: overrides, and classifiers under them."""


_IMAGE = Evaluation(fixed=(((), ("ridge",)), (_SCALED, ("ridge",))))
EVALUATIONS: dict[str, Evaluation] = {
    "oc10": _IMAGE,
    "off31": _IMAGE,
    "oc10-surf": _IMAGE,
    # ridge10 is an ordinary ridge on denoised rows, the best reading of the paper's text.
    "amt": Evaluation(preprocessing="log-tf", fixed=(((), ("ridge", "ridge10")),)),
    # No fixed models: on 13,000 rows of 14,400 words S1 takes 13 GB and minutes.
    "sentiment-snippets": Evaluation("balanced_accuracy", fixed=()),
}
LEADERBOARD = tuple(EVALUATIONS)
"""Data sets of a request that names none; collections of tasks are run by name."""
_SOURCE_ONLY = (BASELINE, "logistic", "forest")
_BY_HALVES = Evaluation(source=_SOURCE_ONLY, adapters=(), systems=(), fixed=(), by_halves=True)
EVALUATIONS |= {
    "skada-bench": replace(_BY_HALVES, adapters=ADAPTERS, systems=SYSTEMS),
    "generated": _BY_HALVES,
    "digits": replace(_BY_HALVES, measure="balanced_accuracy"),
    "tables": replace(_BY_HALVES, measure="balanced_accuracy"),
}


def role_of(spec: Spec) -> Role:
    """What a row of the leaderboard stands for."""
    if spec.settings != "auto":
        return "fixed"
    return "auto" if spec.model == AUTO else "source" if spec.model == SOURCE else "peer"


def plan_leaderboard(asked: Request, present: Present | None = None) -> tuple[Spec, ...]:
    """Every spec of the leaderboard.

    ``us`` has all methods; ``ss`` auto, the source-only baseline and the systems that use target
    labels, since the others do not. Overrides are arguments of ``MDAClassifierCV``. Collections of
    named tasks (run only if named) have as many of their own splits or seeds as draws are asked
    for.
    """
    if asked.unlabelled is not None:
        raise PlanError(
            "--unlabelled is for the paper's tables: leave it out with --settings auto."
        )
    if asked.table not in ("us", "ss", "all"):
        raise PlanError(f"--settings auto knows the tables us and ss, got {asked.table!r}.")
    if asked.preprocessing is not None:
        known_names("preprocessing", [asked.preprocessing], PREPROCESSING)
    setting: Setting = "SS" if asked.table == "ss" else "US"
    names = known_names("data set", asked.datasets, tuple(EVALUATIONS)) or LEADERBOARD
    wanted = known_names("method", asked.models, METHODS) or METHODS
    every = LEADERBOARD_CLASSIFIERS
    kinds = known_names("classifier", asked.classifiers, every) or every
    pairs = {name: BENCHMARKS[name].pairs() for name in names}
    all_pairs = sorted({_pair(s, t) for found in pairs.values() for s, t in found})
    kept = known_names("task", asked.tasks, all_pairs)
    found = []
    for name in names:
        evaluation, own = EVALUATIONS[name], BENCHMARKS[name]
        if own.tasks and setting == "SS":
            raise PlanError(f"{name} has no labelled target rows: run it with --table us.")
        for draw in range(asked.draws if setting == "SS" else min(asked.draws, own.draws)):
            for source, target in pairs[name]:
                ends = {source, target} - {""}
                there = ends if present is None else present.get(name, ())
                if (kept and _pair(source, target) not in kept) or not ends <= {*there}:
                    continue
                prepared = asked.preprocessing or evaluation.preprocessing
                task = TaskSpec(name, source, target, setting, "full", prepared, draw)
                found += [
                    spec
                    for spec in _task_specs(task, evaluation, tuple(sorted(asked.overrides)))
                    if spec.model in wanted and spec.classifier in kinds
                ]
    if not found:
        raise PlanError("nothing to run: no such combination of data sets, methods and tasks.")
    return tuple(found)


def _task_specs(task: TaskSpec, evaluation: Evaluation, overrides: Overrides) -> list[Spec]:
    """All methods on one task."""
    specs = [Spec(task, AUTO, "auto", "auto", overrides)]
    specs += [Spec(task, SOURCE, c, "auto") for c in evaluation.source]
    if task.setting == "SS":
        labelled = LABELLED_SYSTEMS if evaluation.systems else ()
        return [*specs[:2], *(Spec(task, name, OWN, "auto") for name in labelled)]
    specs += [
        Spec(task, model, classifier, "paper", changed)
        for changed, classifiers in evaluation.fixed
        for model in _FIXED_MODELS
        for classifier in classifiers
    ]
    specs += [Spec(task, a, c, "auto") for a in evaluation.adapters for c in _ADAPTER_CLASSIFIERS]
    specs += [Spec(task, system, OWN, "auto") for system in evaluation.systems]
    return specs


def on_leaderboards(specs: Iterable[Spec]) -> tuple[Spec, ...]:
    """Those that stand on a leaderboard: methods, and on their tasks the paper's fixed models."""
    found = tuple(specs)
    tasks = {spec.task for spec in found if spec.settings == "auto"}
    planned = {s for task in tasks for s in _task_specs(task, EVALUATIONS[task.benchmark], ())}
    return tuple(spec for spec in found if spec.settings == "auto" or spec in planned)


def everything(draws: int) -> tuple[Request, ...]:
    """What ``--all`` asks for: every table, reading, data set and system that there is.

    The paper's tables; SURF rows of any length, and L2 after W in place of before; of the Amazon
    reviews the reading that is nearest to the paper's figures (W sees test rows, logarithmic
    frequency, ordinary ridges) with the models that it prints; then the leaderboards.
    """
    surf = Request("surf", ("oc10-surf",), preprocessing="no-l2", draws=draws)
    printed = tuple(model for model in MODELS if model not in ("MCF", "S1M", "J12M"))
    nearest = Request(
        "sup", ("amt",), printed, ("ridge", "ridge10"), preprocessing="log-tf", draws=draws
    )
    return (
        Request(draws=draws),
        Request("all", ("oc10-decaf6",), draws=draws),
        surf,
        replace(surf, overrides=(("normalize", True),)),
        nearest,
        *(replace(nearest, table=table, unlabelled="test") for table in ("us", "ss")),
        Request("us", tuple(EVALUATIONS), settings="auto", draws=draws),
        Request("ss", LEADERBOARD, settings="auto", draws=draws),
    )
