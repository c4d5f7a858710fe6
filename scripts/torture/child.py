"""The process in which damaged files are read: `child JOBS`."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from scripts.torture.files import ADDRESS_SPACE, HANG_SECONDS, SLACK, STATED
from scripts.torture.mutate import mutate
from scripts.torture.readers import READERS, Reader, fingerprint

WATCHED = {
    *("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"),
    *("os.fork", "os.startfile", "socket.connect", "socket.getaddrinfo", "ctypes.dlopen"),
}


class Hang(BaseException):
    """Processor time is up."""


class Audit:
    """What happened while a file was read that no reader has any business with."""

    def __init__(self) -> None:
        self.armed, self.seen = False, ""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        if event in WATCHED:
            self.seen = event
        elif event in ("exec", "compile"):
            # Modules that are loaded when they are first needed come from files of Python's own.
            name = args[0].co_filename if event == "exec" else args[1]
            text = os.fsdecode(name) if isinstance(name, str | bytes) else ""
            if not (text.endswith(".py") and os.path.exists(text)) and "frozen" not in text:
                self.seen = f"{event} of {text}"


def main(jobs: list[tuple[str, str, int, int]]) -> None:
    """Read the mutations of every job and print what happened to each."""
    audit = Audit()
    with suppress(ModuleNotFoundError):
        import pyarrow as pa

        # At its first empty column pyarrow loads modules, which make named tuples by exec.
        pa.schema([("a", pa.float64())]).empty_table()
    signal.signal(signal.SIGPROF, _hang)
    for number, (name, file, first, stop) in enumerate(jobs):
        reader = READERS[name]
        whole = Path(file).read_bytes()
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
            path = Path(folder) / reader.file
            path.write_bytes(whole)
            wanted = fingerprint(reader.read(path))
            room = _status("VmSize") + ADDRESS_SPACE
            resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
            for index in range(first, stop):
                for left in Path(folder).iterdir():
                    left.unlink()
                path.write_bytes(mutate(whole, name, index))
                print(f"{number}\t{index}\tbegin\t", flush=True)
                what, detail = _outcome(reader, path, wanted, audit)
                print(f"{number}\t{index}\t{what}\t{' '.join(detail.split())[:300]}", flush=True)


def _outcome(reader: Reader, path: Path, wanted: str, audit: Audit) -> tuple[str, str]:
    before = _reset_peak()
    audit.armed, audit.seen = True, ""
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    try:
        what, detail = _read(reader, path, wanted)
    except Hang:
        what, detail = "hang", ""
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        audit.armed = False
    taken = _status("VmHWM") - before
    if audit.seen:
        return "audit", audit.seen
    if taken > STATED + SLACK and what in ("refused", "same", "other"):
        return "memory", f"{taken // 2**20} MiB"
    return what, detail


def _read(reader: Reader, path: Path, wanted: str) -> tuple[str, str]:
    try:
        found = fingerprint(reader.read(path))
    except reader.refusal as error:
        text = str(error)
        if "\n" in text or str(path) not in text:
            return "traceback", f"a refusal without a file or of several lines: {text}"
        return "refused", text
    except MemoryError as error:
        return "memory", f"MemoryError: {error}"
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    return ("same" if found == wanted else "other"), ""


def _hang(*_: object) -> None:
    raise Hang


def _memory_folder() -> str | None:
    """Where files never touch a disk, if there is such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _status(field: str) -> int:
    """Bytes, from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _reset_peak() -> int:
    """Forget the peak of memory; what is taken now."""
    with suppress(OSError):  # then the peak of all mutations counts for each: too strict
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
