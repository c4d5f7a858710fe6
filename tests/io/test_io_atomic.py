"""Files appear whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from marda.io.atomic import replacing


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
