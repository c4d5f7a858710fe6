"""Sizes in words, and the limit on one fit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from marda import _memory
from marda._memory import available_memory, claim_blas_memory, format_bytes, parse_bytes


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
    monkeypatch.setattr(_memory, "_machine_memory", lambda: 10**7)
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
    monkeypatch.setattr(_memory, "Path", FakePath)
    monkeypatch.setattr(_memory, "_machine_memory", lambda: 10**6)
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
    known = _memory.peak_mb()
    monkeypatch.setattr(_memory, "Path", NoProc)
    monkeypatch.delenv("MARDA_MEMORY", raising=False)
    if hasattr(os, "sysconf"):
        assert available_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert _memory.peak_mb() >= 0.5 * known
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert available_memory() == 8 * 10**9
    monkeypatch.setitem(sys.modules, "resource", None)
    assert _memory.peak_mb() is None


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_blas_without_working_memory_is_an_error_and_no_endless_loop():
    code = """
import resource
import numpy, scipy.linalg.blas
from marda._memory import claim_blas_memory
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
        timeout=60,
        check=True,
    )
    assert "no working memory for BLAS: raise it." in done.stdout


def test_without_a_limit_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr("mmap.mmap", None)
    claim_blas_memory()
