"""Peak memory of this process."""

from __future__ import annotations

import sys
from pathlib import Path


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
