"""What runs inside a worker process: units come in, rows go out, as JSON over one pipe."""

from __future__ import annotations

import importlib
import json
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from marda.experiments.rows import ResultRow
from marda.experiments.specs import Unit

Executor = Callable[[Unit, Path | None], Iterator[ResultRow]]

THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def find_executor(name: str) -> Executor:
    """``"package.module:function"`` → the function; by name, so that nothing is pickled."""
    module, _, function = name.partition(":")
    found: Executor = getattr(importlib.import_module(module), function)
    return found


def serve(pipe: Connection, executor: str, data_dir: str | None, threads: int) -> None:
    """Execute units from ``pipe`` until it closes."""
    # Ctrl-C reaches the whole process group; the runner alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = None if data_dir is None else Path(data_dir)
    try:
        run = find_executor(executor)
        with _bounded_threads(threads):
            while True:
                unit = Unit.from_json(pipe.recv_bytes().decode())
                try:
                    for row in run(unit, folder):
                        _send(pipe, {"row": row.to_json()})
                    _send(pipe, {"end": True})
                except Exception as error:
                    _send(pipe, {"error": describe(error)})
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def describe(error: BaseException) -> str:
    """The error and the line that raised it: enough to find it, short enough for a table."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _send(pipe: Connection, message: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def _end_with_parent() -> None:
    """End with the runner: after its ``kill -9`` nobody would read the rows."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _bounded_threads(threads: int) -> AbstractContextManager[object]:
    """Bound pools that the environment does not reach; the variables are set before the start."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(limits=threads)
    return limits
