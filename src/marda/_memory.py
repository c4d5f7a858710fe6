"""How much memory there is, so that a large allocation can be refused; how much was taken."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

__all__ = [
    "DEFLATE_RATIO",
    "available_memory",
    "claim_blas_memory",
    "format_bytes",
    "parse_bytes",
    "peak_mb",
    "reset_peak",
]

#: Deflate cannot make more bytes of one than this (zlib's own figure): what a compressed file
#: declares is compared with it before memory is taken.
DEFLATE_RATIO = 1032

_BLAS_BUFFER = 2**26  # twice what the BLAS of numpy's and scipy's wheels asks for

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


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

    OpenBLAS asks for it at its first product, and again and again, for ever, where there is none.
    Raises MemoryError in its place.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import mmap

    import numpy as np
    import scipy.linalg.blas  # numpy and scipy bring a BLAS each

    square = np.ones((300, 300), order="F")  # smaller ones need no working memory
    for product in (lambda: square @ square, lambda: scipy.linalg.blas.dsyrk(1.0, square)):
        try:
            mmap.mmap(-1, _BLAS_BUFFER).close()
        except OSError:
            limit = format_bytes(resource.getrlimit(resource.RLIMIT_AS)[0])
            raise MemoryError(
                f"the limit of {limit} of address space (ulimit -v) leaves no working memory for "
                "BLAS: raise it."
            ) from None
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
