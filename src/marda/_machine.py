"""The machine: its memory, so that too large a fit is refused; its cores, BLAS and versions.

Figures are stored with the facts of the machine that they were made on (`machine_facts`).
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import import_module, metadata
from pathlib import Path
from threading import Lock
from typing import Any

#: Deflate cannot make more bytes of one than this (zlib's own figure): what a compressed file
#: declares is compared with it before memory is taken.
DEFLATE_RATIO = 1032

_BLAS_BUFFER = 2**26  # twice what the BLAS of numpy's and scipy's wheels asks for
_LIBRARIES = 5 * 2**27  # numpy, scipy, scikit-learn and pyarrow take 600 MB of addresses

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

# Memory -------------------------------------------------------------------------------------------


def counted(n: int, what: str) -> str:
    """``1 row``, ``1,200 rows``."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def format_bytes(n: float) -> str:
    """1_500_000_000 → '1.5 GB'."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n >= size:
            return f"{n / size:.3g} {unit}"
    return f"{n / 1e3:.3g} kB"


def parse_bytes(text: str) -> int:
    """'1.5GB' → 1_500_000_000."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([KMGT]?)I?B?\s*", text.upper())
    if match is None:
        raise ValueError(f"a memory size such as '2GB' or '500MB' is wanted, got {text!r}.")
    return int(float(match[1]) * _UNITS[match[2]])


def available_memory() -> int:
    """Bytes that one fit may take: MARDA_MEMORY if set, else what the machine has free.

    A container's limit counts where it is lower than the machine's memory.
    """
    wish = os.environ.get("MARDA_MEMORY")
    if wish:
        return parse_bytes(wish)
    limits = [_machine_memory()]
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            limits.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):
            continue
    return max(0, min(limits))


def _machine_memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows: no cheap answer without a dependency
        return 8 * 10**9


def claim_blas_memory() -> None:
    """Where the address space is limited (``ulimit -v``), take BLAS's working memory now.

    OpenBLAS asks for it at its first product, and again and again, for ever, where there is none;
    libraries that are loaded into too little room hang or end the process in their own words.
    Raises MemoryError in their place.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import mmap

    def need(room: int, what: str) -> None:
        try:
            mmap.mmap(-1, room).close()
        except OSError:
            limit = format_bytes(resource.getrlimit(resource.RLIMIT_AS)[0])
            raise MemoryError(
                f"the limit of {limit} of address space (ulimit -v) leaves no {what}: raise it."
            ) from None

    if "numpy" not in sys.modules:
        need(_LIBRARIES, "room to load numpy, scipy and scikit-learn")
    import numpy as np
    import scipy.linalg.blas  # numpy and scipy bring a BLAS each

    square = np.ones((300, 300), order="F")  # smaller ones need no working memory
    for product in (lambda: square @ square, lambda: scipy.linalg.blas.dsyrk(1.0, square)):
        need(_BLAS_BUFFER, "working memory for BLAS")
        product()


def reset_peak() -> None:
    """Start a new high-water mark where the system can (Linux); elsewhere it only grows."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak_mb() -> float | None:
    """High-water mark of resident memory in MB, or None where it cannot be asked for."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


# Where a figure was made --------------------------------------------------------------------------


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


def device_name(device: str) -> str:
    """What torch calls one of its devices: "NVIDIA H200" for "cuda"."""
    if not device.startswith("cuda"):
        return device
    import torch

    return str(torch.cuda.get_device_name(device))


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
    found = _libraries()
    return [] if found is None else list(found.info())


def _libraries() -> Any:
    """What asks and tells every loaded BLAS its threads; None without threadpoolctl."""
    import_module("scipy.linalg")  # only libraries that are loaded are seen
    return _libraries_of(len(sys.modules))


@lru_cache(maxsize=1)
def _libraries_of(n_modules: int) -> Any:
    """The same: to look for libraries takes milliseconds, and they come with modules."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def fewer_blas_threads(most: int) -> Iterator[None]:
    """At most so many threads of BLAS: of small products, many threads wait for one another.

    BLAS counts per process. Of fits beside each other in threads of Python the fewest count, and
    when the last one ends, BLAS has as many as before the first, interrupted or not.
    """
    asker = object()
    try:
        _BLAS_LIMIT.ask(asker, most)
        yield
    finally:
        try:
            _BLAS_LIMIT.release(asker)
        except KeyboardInterrupt:  # looking for libraries takes long enough for one to come
            _BLAS_LIMIT.release(asker)
            raise


class _BlasLimit:
    """The fewest threads that anyone asks for now; both methods may be interrupted and repeated."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.asked: dict[object, int] = {}
        self.before: Any = None

    def ask(self, asker: object, most: int) -> None:
        """Somebody asks for so many at most."""
        with self.lock:
            self.asked[asker] = most
            self._set()

    def release(self, asker: object) -> None:
        """Somebody no longer does."""
        with self.lock:
            self.asked.pop(asker, None)
            self._set()

    def _set(self) -> None:
        if self.before is not None:
            self.before.restore_original_limits()
        if not self.asked:
            self.before = None
        elif (blas_threads() or 0) > min(self.asked.values()):
            # What there is, is known before anything is changed.
            self.before = self.before or _libraries().limit(limits=None)
            _libraries().limit(limits=min(self.asked.values()), user_api="blas")


_BLAS_LIMIT = _BlasLimit()
