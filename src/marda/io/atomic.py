"""Files appear whole or not at all."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["process_exists", "remove_stale", "replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str], *, make_folder: bool = True) -> Iterator[Path]:
    """A temporary name beside `path`, renamed to it if all went well and removed if not.

    What a killed process left under such a name is removed first.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path)
    temporary = path.with_name(f".{path.name}.{_host()}-{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        if temporary.exists():  # in a folder that cannot be written there is nothing to remove
            temporary.unlink(missing_ok=True)
        raise


def remove_stale(path: Path) -> None:
    """Remove temporaries of `path` whose process, of this machine, is gone."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        # Files of earlier versions name the process only.
        found = re.fullmatch(r"(?:(\w{8})-)?(\d{1,10})", left.name[len(path.name) + 2 : -4])
        if found and found[1] in (None, _host()) and not process_exists(int(found[2])):
            try:
                left.unlink(missing_ok=True)
            except OSError:  # someone else's: it is in nobody's way
                continue


def process_exists(pid: int) -> bool:
    """Whether a process of this machine lives."""
    if os.name == "nt":  # os.kill(pid, 0) ends a process on Windows: take it for alive
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _host() -> str:
    """Short name of this machine or container: the same numbers of processes mean others there."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
