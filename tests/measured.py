"""What memory a call or a command takes, and commands that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable

# VmHWM where there is one: ru_maxrss of a new process also counts the one that started it.
CODE = """
import json, sys
from marda import cli
from marda._machine import peak_mb
print(json.dumps({"code": cli.main(sys.argv[1:]), "mb": peak_mb()}))
"""

#: A command that sums row groups, and is killed while it writes its checkpoint for the fourth time.
KILLED_WHILE_WRITING = """
import os, signal, sys
from marda import cli
from marda.moments import parquet
write, replace, done = parquet.write, os.replace, []
def counted(*arguments, **options):
    done.append(1)
    write(*arguments, **options)
def killed(*names):
    if len(done) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names)
parquet.write, os.replace = counted, killed
sys.exit(cli.main(sys.argv[1:]))
"""


def run_measured(*arguments, cwd=None):
    """What the command tells as JSON, and its peak in MB."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments), "--json"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told, measured = map(json.loads, done.stdout.splitlines())
    assert measured["code"] == 0
    return told, measured["mb"]


def traced_peak(call: Callable[[], object], *, times: int = 3) -> int:
    """Bytes that Python and numpy hold at most during ``call``, the least of a few times.

    The first may import, and other threads of the test run allocate now and then: neither does
    so every time, and what the call itself takes it takes every time.
    """
    peaks = []
    for _ in range(times):
        tracemalloc.start()
        try:
            call()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)
