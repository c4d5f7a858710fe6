"""Outputs appear whole or not at all, and nothing of a killed process stays for long."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from marda.io import replacing
from marda.io.writing import process_exists, remove_stale, write_text

KILLED = """
    import os, signal, sys
    from pathlib import Path
    from marda.io import replacing
    with replacing(Path(sys.argv[1])) as temporary:
        temporary.write_text("half a fi")
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("old")
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(path)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    assert path.read_text() == "old"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert sorted(os.listdir(tmp_path)) == sorted([temporary.name, "p.csv"])
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["p.csv"]


@pytest.mark.skipif(os.name == "nt", reason="processes are taken for alive there")
def test_only_temporaries_of_this_file_and_of_dead_processes_are_removed(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with replacing(tmp_path / "p.csv") as temporary:
        host = temporary.name.removeprefix(".p.csv.").split("-")[0]
        temporary.touch()
        stale = f".p.csv.{host}-{gone.pid}.tmp"
        kept = [
            temporary.name,
            f".q.csv.{host}-{gone.pid}.tmp",
            f".p.csv.{host}-{os.getppid()}.tmp",
            f".p.csv.01234567-{gone.pid}.tmp",
            f".p.csv.{host}-notes.tmp",
        ]
        for name in (stale, *kept):
            (tmp_path / name).touch()
        remove_stale(tmp_path / "p.csv")
        assert sorted(os.listdir(tmp_path)) == sorted(kept)


def test_processes():
    assert process_exists(os.getpid())
    if os.name != "nt":
        assert not process_exists(2**40)


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(path) as temporary:
        temporary.write_text("half\ud800", encoding="utf-8")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["p.csv"]
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pass
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "no" / "p", make_folder=False) as t:
        t.write_text("x")


def test_a_folder_that_cannot_be_written_raises_its_own_error(tmp_path, monkeypatch):
    """Removing what was never made must not raise again, in a place where nobody catches it."""

    def refuse(self, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError, match="first"), replacing(tmp_path / "p.csv"):
        raise OSError("first")
    left_open = replacing(tmp_path / "p.csv")
    left_open.__enter__()
    left_open.gen.close()  # as when the writer is thrown away


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("old")
    half = replacing(path)
    half.__enter__().write_text("new")
    error = ValueError("half")
    assert not half.__exit__(ValueError, error, None)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writes_and_replaces(tmp_path):
    path = tmp_path / "new" / "a.md"
    write_text(path, "ü")
    assert write_text(path, "ß") == path
    assert path.read_text(encoding="utf-8") == "ß"
    assert list(path.parent.iterdir()) == [path]


def test_leaves_nothing_behind_when_it_fails(tmp_path):
    path = tmp_path / "a.md"
    path.mkdir()
    with pytest.raises(OSError):
        write_text(path, "text")
    assert list(tmp_path.iterdir()) == [path]
