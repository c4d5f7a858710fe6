"""A command in a fresh process, whose memory is its own, or which is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
