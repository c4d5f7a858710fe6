"""The torture of file readers: damage is always the same, and is counted for what it does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    if not (ROOT / "scripts" / "torture").exists():
        pytest.skip("no scripts in this copy")
    monkeypatch.syspath_prepend(str(ROOT))


def test_a_number_names_a_mutation():
    from scripts.torture.mutate import mutate

    data = bytes(range(256)) * 4
    many = [mutate(data, "npz", k) for k in range(300)]
    assert many == [mutate(data, "npz", k) for k in range(300)]
    assert data not in many
    assert len(set(many)) > 290
    assert mutate(data, "npz", 1) != mutate(data, "mat", 1)
    # One byte after itself would be found soon.
    assert not {b"a", b"aa", b"aaa"} & {mutate(b"a", "CSV", k) for k in range(300)}


def test_every_reader_reads_its_whole_file(tmp_path):
    for module in ("pyarrow", "openpyxl", "zstandard"):
        pytest.importorskip(module)
    from scripts.torture.readers import READERS, fingerprint

    assert len(READERS) > 20
    for k, reader in enumerate(READERS.values()):
        path = tmp_path / str(k) / reader.file
        path.parent.mkdir()
        reader.make(path)
        assert fingerprint(reader.read(path)) == fingerprint(reader.read(path))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_refusals_deaths_and_hangs_are_told_apart(tmp_path, monkeypatch):
    """A reader that does all that a reader must not."""
    from scripts.torture import child, readers

    def read(path):
        kind = path.read_bytes()[:1]
        if kind == b"r":
            raise KeyError(f"{path} is refused.")
        if kind == b"n":
            raise KeyError("no name")
        if kind == b"t":
            raise OSError
        if kind == b"m":
            raise MemoryError
        if kind == b"e":
            eval("1 + 1")
        return 1 if kind in b"se" else 2

    reader = readers.Reader("bad", "a", None, read, KeyError, "none")
    audit, found = child.Audit(), {}
    monkeypatch.setattr(child, "HANG_SECONDS", 5.0)
    child.signal.signal(child.signal.SIGPROF, child._hang)
    for kind in "rntmeso":
        (tmp_path / "a").write_text(kind)
        found[kind] = child._outcome(reader, tmp_path / "a", readers.fingerprint(1), audit)[0]
    wanted = ["refused", "traceback", "traceback", "memory", "audit", "same", "other"]
    assert [*found.values()] == wanted


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_own_formats_never_change_silently():
    from scripts.torture.files import run

    for row in run(60, ["model", "moments", "npz", "mat, compressed", "result store"]):
        assert row.counts.total() == 60
        assert row.failures == []
