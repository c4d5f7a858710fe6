"""A pytest session that runs every test once, then every mutant in a fork of itself."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from scripts.mutants.mutate import Mutant, Source

KILLED, SURVIVED, TIMEOUT, UNTESTED = "killed", "survived", "timeout", "no test"
MEMORY = 4 << 30  # bytes that a mutant may take beyond what the tests took
SAVE_EVERY = 10.0  # seconds
_KILLED, _BROKEN = 1, 3  # exit codes of a fork


@dataclass
class Results:
    """What became of the mutants, in a file that a later run goes on from.

    A kill holds as long as the function is the same; a survivor is tried again when tests changed.
    """

    path: Path
    tests: str  # digest of the test files
    budget: float  # seconds of tests that a survivor must have outlived
    found: dict[str, dict[str, Any]] = field(default_factory=dict)

    def load(self) -> Results:
        """With what the file has."""
        if self.path.exists():
            self.found = json.loads(self.path.read_text(encoding="utf-8"))
        return self

    def save(self) -> None:
        """Under its name only when it is whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(
            json.dumps(self.found, indent=0, sort_keys=True, ensure_ascii=False), encoding="utf-8"
        )
        part.replace(self.path)

    def of(self, mutant: Mutant) -> dict[str, Any] | None:
        """A result that still holds."""
        known = self.found.get(mutant.key)
        if known is None or known["code"] != mutant.code:
            return None
        if known["status"] in (SURVIVED, UNTESTED):
            return (
                known if known["tests"] == self.tests and known["budget"] >= self.budget else None
            )
        return known

    def add(self, mutant: Mutant, status: str, by: str, seconds: float) -> None:
        """A new result."""
        self.found[mutant.key] = {
            "status": status,
            "by": by,
            "seconds": round(seconds, 2),
            "line": mutant.lines[0],
            "code": mutant.code,
            "tests": self.tests,
            "budget": min(self.budget, 1e9),
        }


def digest(root: Path) -> str:
    """Of all test files."""
    files = sorted((root / "tests").rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


Line = tuple[str, int]  # a module and a line of it


class _Trace:
    """Lines that are run, by the trace function of Python 3.11."""

    def __init__(self, sources: Sequence[Source]):
        self.modules = {str(source.path.resolve()): source.module for source in sources}

    @contextmanager
    def into(self, lines: set[Line]) -> Iterator[None]:
        """Gather them for a while."""
        modules = self.modules

        def local(frame: FrameType, event: str, _: Any) -> Any:
            lines.add((modules[frame.f_code.co_filename], frame.f_lineno))
            return local

        def calls(frame: FrameType, event: str, _: Any) -> Any:
            return local if frame.f_code.co_filename in modules else None

        sys.settrace(calls)
        try:
            yield
        finally:
            sys.settrace(None)

    def stop(self) -> None:
        """Nothing is left behind."""


class _Monitor:
    """The same from Python 3.12 on, at no cost to all other code."""

    def __init__(self, sources: Sequence[Source]):
        self.monitoring, self.sources = sys.monitoring, sources
        self.tool = self.monitoring.COVERAGE_ID
        self.codes: dict[CodeType, str] = {}

    def _watch(self) -> None:
        events = self.monitoring.events
        self.monitoring.use_tool_id(self.tool, "mutants")
        self.codes = {code: source.module for source in self.sources for code in source.codes()}
        for code in self.codes:
            self.monitoring.set_local_events(self.tool, code, events.LINE)

    @contextmanager
    def into(self, lines: set[Line]) -> Iterator[None]:
        """Gather them for a while."""
        if not self.codes:
            self._watch()

        def ran(code: CodeType, line: int) -> Any:
            lines.add((self.codes[code], line))
            return self.monitoring.DISABLE  # once per test is enough

        self.monitoring.register_callback(self.tool, self.monitoring.events.LINE, ran)
        self.monitoring.restart_events()
        yield

    def stop(self) -> None:
        """Let the code run as it was."""
        for code in self.codes:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.monitoring.free_tool_id(self.tool)


class Session:
    """A pytest plugin that takes the place of the loop over the tests."""

    def __init__(self, sources: Sequence[Source], results: Results, workers: int, until: float):
        self.tracer = _Monitor(sources) if hasattr(sys, "monitoring") else _Trace(sources)
        self.by_module = {source.module: source for source in sources}
        self.results, self.workers, self.until = results, workers, until
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.missing = False
        self.items: dict[str, pytest.Item] = {}
        # test → lines of each source that it ran
        self.ran: defaultdict[str, set[Line]] = defaultdict(set)
        self.killers: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self.left = 0

    # Hooks ------------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember failures."""
        if report.failed:
            self.failed.append(report.nodeid)
            self.missing = "ModuleNotFoundError" in str(report.longrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The tests, and then the mutants."""
        if session.testsfailed:
            raise pytest.UsageError("the tests could not be collected.")
        began = time.monotonic()
        for item in session.items:
            self._traced(item)
            if self.failed and self.missing:
                _say(f"left out, as a package is missing: {self.failed.pop()}")
                del self.ran[item.nodeid]
            elif self.failed:
                raise pytest.UsageError(f"{self.failed[0]} fails without any mutant.")
        self.tracer.stop()
        wanted = [
            mutant
            for source in self.by_module.values()
            for mutant in source.mutants
            if self.results.of(mutant) is None
        ]
        _say(
            f"{len(session.items)} tests in {time.monotonic() - began:.0f} s (traced), "
            f"{len(wanted)} mutants to try"
        )
        self._all(wanted)
        return True

    # Tests without mutants --------------------------------------------------------------------

    def _traced(self, item: pytest.Item) -> None:
        """Run a test; which lines of the sources does it run?"""
        self.items[item.nodeid] = item
        began = time.process_time()
        with self.tracer.into(self.ran[item.nodeid]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        self.seconds[item.nodeid] = time.process_time() - began

    def _tests_of(self, mutant: Mutant) -> list[str]:
        """Tests that run the line: the killers of mutants of its function, its own, the quick."""
        first, last = mutant.lines
        where = {(mutant.module, line) for line in range(first, last + 1)}
        killers = self.killers[mutant.module, mutant.function]
        rank = {test: -i for i, test in enumerate(reversed(killers), 1)}
        tests = [test for test, lines in self.ran.items() if not where.isdisjoint(lines)]
        near = {test: _distance(mutant.module, test) for test in tests}
        tests.sort(key=lambda test: (rank.get(test, 0), near[test], self.seconds[test], test))
        ends = accumulate(self.seconds[test] for test in tests)
        return [t for t, end in zip(tests, ends, strict=True) if end <= self.results.budget]

    # Mutants ----------------------------------------------------------------------------------

    def _all(self, mutants: Sequence[Mutant]) -> None:
        running: dict[int, tuple[Mutant, list[str], int, float]] = {}
        waiting, saved, done = list(mutants)[::-1], time.monotonic(), 0
        while running or (waiting and time.monotonic() < self.until):
            while waiting and len(running) < self.workers and time.monotonic() < self.until:
                mutant = waiting.pop()
                tests = self._tests_of(mutant)
                if tests:
                    pid, pipe = self._fork(mutant, tests)
                    running[pid] = mutant, tests, pipe, time.monotonic()
                else:
                    self.results.add(mutant, UNTESTED, "", 0.0)
            if running:
                pid, status = os.wait()
                mutant, tests, pipe, began = running.pop(pid)
                self._ended(mutant, tests, status, _read(pipe), time.monotonic() - began)
                done += 1
            if time.monotonic() - saved > SAVE_EVERY:
                self.results.save()
                saved = time.monotonic()
                _say(f"{done} of {len(mutants)} ({mutant.module})")
        self.left = len(waiting)
        self.results.save()

    def _fork(self, mutant: Mutant, tests: list[str]) -> tuple[int, int]:
        read, write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write)
            return pid, read
        code = _BROKEN
        try:
            code = self._try(mutant, tests, write)
        finally:
            os._exit(code)

    def _try(self, mutant: Mutant, tests: list[str], pipe: int) -> int:
        """In the fork: run tests until one fails."""
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        self.by_module[mutant.module].install(mutant)
        self.failed.clear()
        for name in tests:
            # The clock of the processor: it does not matter what else the machine does.
            limit = 10 * self.seconds[name] + 2
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, 20 * limit)
            os.write(pipe, f"{name}\n".encode())
            item = self.items[name]
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            if self.failed:
                return _KILLED
        return 0

    def _ended(
        self, mutant: Mutant, tests: list[str], status: int, last: str, seconds: float
    ) -> None:
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            self.results.add(mutant, SURVIVED, "", seconds)
            return
        if not last:
            raise RuntimeError(f"{mutant.key} could not be tried: exit code {code}.")
        timed_out = code in (-signal.SIGPROF, -signal.SIGALRM)
        self.results.add(mutant, TIMEOUT if timed_out else KILLED, last, seconds)
        killers = self.killers[mutant.module, mutant.function]
        if last in killers:
            killers.remove(last)
        killers.append(last)
        del killers[:-5]


def _distance(module: str, test: str) -> int:
    """0 for the test file of a module, 1 for its folder, 2 elsewhere: tests mirror the sources."""
    source, file = Path(module), Path(test.partition("::")[0])
    if file.parent.name != (source.parent.name or "tests"):
        return 2
    return int(source.stem not in file.stem)


def _read(pipe: int) -> str:
    """The last test that a fork began."""
    with os.fdopen(pipe, encoding="utf-8") as stream:
        return (stream.read().splitlines() or [""])[-1]


def _say(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)
