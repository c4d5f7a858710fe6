"""How much memory there is and was taken; where a figure was made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from marda import _machine
from marda._machine import (
    available_cores,
    available_memory,
    blas_threads,
    claim_blas_memory,
    fewer_blas_threads,
    format_bytes,
    git_commit,
    machine_facts,
    parse_bytes,
    versions,
)


def test_versions_of_what_is_there_and_what_is_not():
    found = versions("no-such-package")
    assert found["numpy"] == np.__version__
    assert found["no-such-package"] == "not installed"
    assert "no-such-package" not in versions()


def test_facts_are_json_and_name_no_host():
    facts = machine_facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["cores"] >= available_cores() >= 1
    assert "python" not in facts["versions"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository of its own that holds the module."""
    file = tmp_path / "_machine.py"
    file.write_text("pass\n")
    monkeypatch.setattr(_machine, "__file__", str(file))
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]

    def git(*args):
        subprocess.run(["git", "-C", tmp_path, *identity, *args], check=True, capture_output=True)

    git("init")
    git_commit.cache_clear()
    yield file, git
    git_commit.cache_clear()


def commit_now():
    git_commit.cache_clear()
    return git_commit()


def test_a_commit_is_that_of_a_checkout_and_marked_if_altered(checkout):
    file, git = checkout
    assert commit_now() == ""  # no commit yet
    Path(file.parent / "other").write_text("x")
    git("add", "other")
    git("commit", "-m", "x")
    assert commit_now() == ""  # someone else's repository
    git("add", file.name)
    git("commit", "-m", "x")
    assert re.fullmatch(r"[0-9a-f]{12}", commit_now())
    file.write_text("changed\n")
    assert re.fullmatch(r"[0-9a-f]{12}\+", commit_now())


@pytest.mark.parametrize(
    ("n", "text"),
    [(1.5e9, "1.5 GB"), (320e9, "320 GB"), (2e6, "2 MB"), (1500, "1.5 kB"), (2.5e12, "2.5 TB")],
)
def test_format_bytes(n, text):
    assert format_bytes(n) == text


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("2GB", 2 * 10**9),
        ("1.5 gb", 1_500_000_000),
        ("500M", 500 * 10**6),
        ("12", 12),
        ("1TiB", 10**12),
    ],
)
def test_parse_bytes(text, n):
    assert parse_bytes(text) == n


@pytest.mark.parametrize("text", ["much", "-1GB", "1XB", ""])
def test_parse_bytes_refuses(text):
    with pytest.raises(ValueError, match="a memory size such as '2GB'"):
        parse_bytes(text)


def test_the_users_limit_wins(monkeypatch):
    monkeypatch.setenv("MARDA_MEMORY", "123MB")
    assert available_memory() == 123 * 10**6
    monkeypatch.setenv("MARDA_MEMORY", "plenty")
    with pytest.raises(ValueError, match="plenty"):
        available_memory()


def test_the_machines_memory_is_asked_otherwise(monkeypatch):
    monkeypatch.delenv("MARDA_MEMORY", raising=False)
    monkeypatch.setattr(_machine, "_machine_memory", lambda: 10**7)
    assert 0 <= available_memory() <= 10**7
    monkeypatch.undo()
    monkeypatch.delenv("MARDA_MEMORY", raising=False)
    assert 10**6 < available_memory() < 10**15


def test_a_containers_limit_counts(monkeypatch):
    files = {"/sys/fs/cgroup/memory.max": "1000", "/sys/fs/cgroup/memory.current": "400"}

    class FakePath(str):
        __slots__ = ()

        def read_text(self):
            if self not in files:
                raise OSError
            return files[self]

    monkeypatch.delenv("MARDA_MEMORY", raising=False)
    monkeypatch.setattr(_machine, "Path", FakePath)
    monkeypatch.setattr(_machine, "_machine_memory", lambda: 10**6)
    assert available_memory() == 600
    files["/sys/fs/cgroup/memory.max"] = "max"
    assert available_memory() == 10**6
    files["/sys/fs/cgroup/memory.max"] = "100"
    assert available_memory() == 0


class NoProc:
    """A system without /proc."""

    def __init__(self, path):
        self.path = path

    def read_text(self):
        raise FileNotFoundError(self.path)

    write_text = read_text


def test_systems_without_proc(monkeypatch):
    """The memory of the machine, then a guess; the peak from getrusage, then none."""
    known = _machine.peak_mb()
    monkeypatch.setattr(_machine, "Path", NoProc)
    monkeypatch.delenv("MARDA_MEMORY", raising=False)
    if hasattr(os, "sysconf"):
        assert available_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert _machine.peak_mb() >= 0.5 * known
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_memory() == 8 * 10**9
    monkeypatch.setitem(sys.modules, "resource", None)
    assert _machine.peak_mb() is None


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_blas_without_working_memory_is_an_error_and_no_endless_loop():
    code = """
import resource
import numpy, scipy.linalg.blas
from marda._machine import claim_blas_memory
claim_blas_memory()  # no limit, nothing to do
with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
def limit(more):
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, resource.RLIM_INFINITY))
limit(2**25)
try:
    claim_blas_memory()
except MemoryError as error:
    print(error)
limit(2**28)
claim_blas_memory()
limit(2**27)
numpy.ones((300, 300)) @ numpy.ones((300, 300))  # what was claimed is kept
"""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
        check=True,
    )
    assert "no working memory for BLAS: raise it." in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
@pytest.mark.parametrize("megabytes", [100, 150, 300, 600])
def test_a_command_without_room_for_its_libraries_ends_with_a_line(megabytes):
    code = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({megabytes} * 2**20, resource.RLIM_INFINITY))
from marda.cli import main
sys.exit(main(["demo"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "leaves no room to load numpy, scipy and scikit-learn: raise it." in line


def test_without_a_limit_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr("mmap.mmap", None)
    claim_blas_memory()


def test_fewer_threads_of_blas_and_no_more_than_there_were():
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == 2
        with fewer_blas_threads(1):
            assert blas_threads() == 1
        with fewer_blas_threads(8):
            assert blas_threads() == 2
        assert blas_threads() == 2


@pytest.mark.parametrize("call", range(14))
def test_an_interrupt_leaves_blas_as_it_was(call, monkeypatch):
    """Whichever look at the libraries it comes before or after, at the beginning and the end."""
    look, looks = ThreadpoolController.info, []

    def interrupted(self, *args):
        looks.append(None)
        if len(looks) == call // 2 + 1 and call % 2:
            raise KeyboardInterrupt
        found = look(self, *args)
        if len(looks) == call // 2 + 1:
            raise KeyboardInterrupt
        return found

    with threadpool_limits(4, user_api="blas"):
        monkeypatch.setattr(ThreadpoolController, "info", interrupted)
        with suppress(KeyboardInterrupt), fewer_blas_threads(2), fewer_blas_threads(1):
            pass
        monkeypatch.undo()
        assert len(looks) > call // 2
        assert blas_threads() == 4


def test_limits_that_overlap_in_threads_leave_blas_as_it_was():
    with threadpool_limits(4, user_api="blas"):
        first, second = fewer_blas_threads(2), fewer_blas_threads(1)
        first.__enter__()
        second.__enter__()
        assert blas_threads() == 1
        first.__exit__(None, None, None)  # the one that began first ends first
        assert blas_threads() == 1
        second.__exit__(None, None, None)
        assert blas_threads() == 4


def test_libraries_are_looked_for_again_only_after_an_import(monkeypatch):
    looked = []

    class Counted(ThreadpoolController):
        def __init__(self):
            looked.append(1)
            super().__init__()

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", Counted)
    monkeypatch.setitem(sys.modules, "some_module", None)
    first = blas_threads()
    assert blas_threads() == first
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "another_module", None)
    assert blas_threads() == first
    assert len(looked) == 2
