"""What would fail after the work is refused before it."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile

import pytest

from marda.adaptation.adapting import why_in_batches
from marda.adaptation.reading import Outputs, ReadOptions, check_names, memory_budget, rows_size
from marda.io import InputError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"out": "t.parquet"}, "--out t.parquet would replace an input file."),
        ({"model": "./s.parquet"}, "--model ./s.parquet would replace an input file."),
        ({"out": "p.csv", "model": "p.csv"}, "--out and --model both name p.csv."),
        ({"model": "."}, "--model . is a folder: give the name of a file."),
        ({"target": None, "out": "p.csv"}, "--out without --target"),
        ({"out": "p.txt"}, "p.txt: predictions are written as"),
    ],
)
def test_refused(given, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outputs = Outputs(**{"target": "t.parquet", **given})
    with pytest.raises(InputError) as caught:
        outputs.check(["s.parquet", "t.parquet"])
    assert str(caught.value).startswith(words)


def test_folders_are_made_or_refused(tmp_path):
    Outputs("t.parquet", out=tmp_path / "new" / "p.csv").check(["s.parquet", "t.parquet"])
    with pytest.raises(InputError, match="there is no folder"):
        check_names([], {"--out": tmp_path / "new" / "p.csv"})


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zip"])
def test_packed_rows_are_as_large_as_they_unpack_to(tmp_path, kind):
    lines = "a,y\n" + "".join(f"{k % 7}.5,{k % 2}\n" for k in range(40_000))
    plain, packed = tmp_path / "big.csv", tmp_path / f"big.csv.{kind}"
    plain.write_text(lines)
    if kind == "zip":
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(plain, "big.csv")
    else:
        pack = {"gz": gzip, "bz2": bz2, "xz": lzma}[kind].compress
        # Two members behind each other: what the last one says of its size is not that of all.
        half = len(lines) // 2
        packed.write_bytes(pack(lines[:half].encode()) + pack(lines[half:].encode()))
    assert packed.stat().st_size < 10_000 < len(lines) == rows_size(packed, None, set(), 10**9)
    assert rows_size(packed, None, set(), 100_000) > 100_000
    small = tmp_path / "small.csv"
    small.write_text("a\n1\n")
    assert why_in_batches(packed, small, ReadOptions("y"), "1MB") is None
    for path in (plain, packed):
        with pytest.raises(InputError, match=r"big.* is too large \(at least .* the 100 kB"):
            why_in_batches(path, small, ReadOptions("y"), "100kB")
    if kind != "zip":  # which is refused as no archive
        packed.write_bytes(packed.read_bytes()[:-9])  # damaged: its reader says so
        assert rows_size(packed, None, set(), 10**9) == packed.stat().st_size


def test_how_large_rows_are(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from adaptation.tables import write_pair

    options = ReadOptions("y", id="id")
    source, target = write_pair(tmp_path)
    assert rows_size(source, None, {"y", "id"}, 10**9) == 300 * 6 * 8
    assert rows_size(tmp_path, None, {"y", "id"}, 10**9) == 500 * 6 * 8
    assert rows_size("sample:source", None, set(), 10**9) == 0
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    assert rows_size(tmp_path / "a.csv", None, set(), 10**9) == 8
    assert why_in_batches(source, target, options, "24001") is None
    assert "24 kB, more than the 23.9 kB" in why_in_batches(source, target, options, "23.9kB")
    monkeypatch.setenv("MARDA_MEMORY", "80kB")
    assert memory_budget(None) == 20_000
    assert memory_budget("50%") == 40_000
    assert memory_budget("1MB") == 10**6
    assert why_in_batches(source, target, options) is not None
    for wrong in ("", "-1", "0", "0%", "101%", "%", "much"):
        with pytest.raises(InputError, match=r"--memory: a size such as 4GB or a share"):
            memory_budget(wrong)
