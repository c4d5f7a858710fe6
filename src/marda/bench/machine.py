"""Where figures were made: the machine, its BLAS and the versions."""

from __future__ import annotations

import os
import platform
import time
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["blas_threads", "machine"]


def _blas() -> list[dict[str, Any]]:
    """Every loaded BLAS as threadpoolctl describes it; nothing where that is not installed."""
    import_module("scipy.linalg")  # only libraries that are loaded are seen
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return []
    return [i for i in threadpool_info() if i["user_api"] == "blas"]


def blas_threads() -> int | None:
    """Threads of BLAS in this process."""
    return max((int(i["num_threads"]) for i in _blas()), default=None)


def machine() -> dict[str, Any]:
    """The machine, its BLAS and the versions; threads may differ from case to case."""
    versions = {}
    for name in ("marda", "numpy", "scipy", "scikit-learn", "skada"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    blas = {f"{i['internal_api']} {i['version']} ({i.get('architecture', '?')})" for i in _blas()}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "blas": sorted(blas),
        "versions": versions,
        "date": time.strftime("%Y-%m-%d"),
    }
