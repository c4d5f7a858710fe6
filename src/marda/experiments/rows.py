"""One result row: what was run, what came out, and where it ran."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from marda.experiments.specs import Spec

Status = Literal["done", "failed"]


@dataclass(frozen=True)
class ResultRow:
    """The outcome of one spec. ``accuracy`` and ``balanced_accuracy`` are in percent."""

    spec: Spec
    status: Status
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    n_test: int | None = None
    load_seconds: float = 0.0
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    """Shares of shared work: summed over rows they give the time that was spent."""
    peak_mb: float | None = None
    """High-water mark of the worker process up to this row of its unit, data included."""
    n_iter: int | None = None
    params: dict[str, Any] = field(default_factory=dict)
    data_checksum: str | None = None
    message: str = ""
    """Why it failed, or the warnings it gave."""
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    commit: str = ""
    finished: str = ""
    """UTC, ISO 8601; the store fills it in."""

    @property
    def seconds(self) -> float:
        """All time that this row answers for."""
        return self.load_seconds + self.fit_seconds + self.predict_seconds

    def to_json(self) -> str:
        """One line of JSON: what travels back from a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ResultRow:
        """Inverse of ``dataclasses.asdict``."""
        return cls(**{**data, "spec": Spec.from_dict(data["spec"])})

    @classmethod
    def from_json(cls, text: str) -> ResultRow:
        """Inverse of ``to_json``."""
        return cls.from_dict(json.loads(text))


def failed(specs: Sequence[Spec], message: str, **known: Any) -> list[ResultRow]:
    """Failure rows with one common message."""
    return [stamp(ResultRow(spec, "failed", message=message, **known)) for spec in specs]


def stamp(row: ResultRow) -> ResultRow:
    """Add where the row was made: versions, machine, commit."""
    return replace(row, versions=versions(), machine=machine(), commit=git_commit())


@cache
def versions() -> dict[str, str]:
    """Versions of everything that can change a figure."""
    found = {"python": platform.python_version()}
    for name in ("marda", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@cache
def machine() -> str:
    """Host-independent description: what decides speed, not who owns the machine."""
    return f"{platform.system()} {platform.machine()} {_cpu_model()} x{os.cpu_count()}"


def _cpu_model() -> str:
    if sys.platform == "linux":
        try:
            for line in Path("/proc/cpuinfo").read_text().splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
        except OSError:
            pass
    return platform.processor() or "unknown CPU"


@cache
def git_commit() -> str:
    """Commit of the checkout marda is imported from, ``+`` if altered; empty when installed."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        # Inside someone else's repository (a wheel in a project's .venv) the commit means nothing.
        tracked = _git(here, "ls-files", Path(__file__).name)
        dirty = _git(here, "status", "--porcelain", "--untracked-files=no", "--", "..")
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if dirty else "") if tracked else ""


def _git(folder: Path, *args: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(folder), *args], capture_output=True, text=True, timeout=10, check=True
    )
    return run.stdout.strip()
