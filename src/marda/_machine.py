"""Where a figure was made: the machine, its BLAS, the versions and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

__all__ = [
    "available_cores",
    "blas_threads",
    "git_commit",
    "machine",
    "machine_facts",
    "versions",
]


@cache
def versions(*more: str) -> dict[str, str]:
    """Versions of everything that can change a figure, and of the packages named."""
    found = {"python": platform.python_version()}
    for name in ("marda", "numpy", "scipy", "scikit-learn", *more):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


@cache
def machine() -> str:
    """Host-independent description: what decides speed, not who owns the machine."""
    return f"{platform.system()} {platform.machine()} {_cpu_model()} x{os.cpu_count()}"


def machine_facts() -> dict[str, Any]:
    """The machine, its BLAS, the versions and the day, as JSON can hold them."""
    blas = {f"{i['internal_api']} {i['version']} ({i.get('architecture', '?')})" for i in _blas()}
    packages = dict(versions("skada"))
    return {
        "python": packages.pop("python"),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "blas": sorted(blas),
        "versions": packages,
        "date": time.strftime("%Y-%m-%d"),
    }


def available_cores() -> int:
    """Cores this process may use, which in a container is not what the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def blas_threads() -> int | None:
    """Threads of BLAS in this process."""
    return max((int(i["num_threads"]) for i in _blas()), default=None)


@cache
def git_commit() -> str:
    """Commit of the checkout marda is imported from, ``+`` if altered; empty when installed."""
    here = Path(__file__).parent
    try:
        head = _git(here, "rev-parse", "--short=12", "HEAD")
        # Inside someone else's repository (a wheel in a project's .venv) the commit means nothing.
        tracked = _git(here, "ls-files", Path(__file__).name)
        dirty = _git(here, "status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if dirty else "") if tracked else ""


def _git(folder: Path, *args: str) -> str:
    run = subprocess.run(
        ["git", "-C", str(folder), *args], capture_output=True, text=True, timeout=10, check=True
    )
    return run.stdout.strip()


def _cpu_model() -> str:
    if sys.platform == "linux":
        try:
            for line in Path("/proc/cpuinfo").read_text().splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
        except OSError:
            pass
    return platform.processor() or "unknown CPU"


def _blas() -> list[dict[str, Any]]:
    """Every loaded BLAS as threadpoolctl describes it; nothing where that is not installed."""
    import_module("scipy.linalg")  # only libraries that are loaded are seen
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return [i for i in threadpool_info() if i["user_api"] == "blas"]
