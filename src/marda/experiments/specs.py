"""What can be run: frozen specs, their stable keys, and the units they are executed in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Setting = Literal["US", "SUP", "SS"]
Settings = Literal["paper", "marda", "auto"]
Scalar = str | int | float | bool | None


@dataclass(frozen=True, order=True)
class TaskSpec:
    """One adaptation task: which rows to learn from and which to predict."""

    benchmark: str
    source: str
    target: str
    setting: Setting
    protocol: Literal["full", "sampled"] = "full"
    """``"full"``: all source rows. ``"sampled"``: Saenko et al. 2010, Gong et al. 2012."""
    preprocessing: str = "paper"
    draw: int = 0
    """Number of the random draw; it is also its seed. US with all rows has draw 0 only."""

    @property
    def pair(self) -> str:
        """``source-target``, as ``--tasks`` spells it."""
        return f"{self.source}-{self.target}"

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
    overrides: tuple[tuple[str, Scalar], ...] = ()
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


def spec_hash(spec: Spec) -> str:
    """First 16 hex digits of the SHA-256 of the key: a short name for files and logs."""
    return hashlib.sha256(spec.key.encode()).hexdigest()[:16]


def group_units(specs: Iterable[Spec]) -> tuple[Unit, ...]:
    """Group specs of the same task, draw and settings, in order, without repeats."""
    groups: dict[str, dict[str, Spec]] = {}
    for spec in specs:
        groups.setdefault(f"{spec.task.key}/{spec.variant}", {}).setdefault(spec.key, spec)
    return tuple(Unit(tuple(found.values())) for found in groups.values())
