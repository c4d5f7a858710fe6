"""`marda predict` in bounded memory: 2 million rows of Parquet below 1 GB."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from marda.adaptation import ReadOptions, adapt
from measured import run_measured

D, GROUP = 20, 250_000


def score(tmp_path, n_rows, group):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"f{k}" for k in range(D)]
    y = np.arange(200) % 2
    for name, shift in (("s", 0.0), ("t", 0.5)):
        X = rng.normal(y[:, None] + shift, 1, (200, D))
        columns = {f: X[:, k] for k, f in enumerate(names)}
        extra = {"y": y} if name == "s" else {}
        pq.write_table(pa.table({**columns, **extra}), tmp_path / f"{name}.parquet")
    source, target = tmp_path / "s.parquet", tmp_path / "t.parquet"
    adapt(source, target, ReadOptions("y"), model=tmp_path / "m.marda")
    writer = None
    for start in range(0, n_rows, group):
        X = rng.normal(0.5, 1, (min(group, n_rows - start), D))
        batch = pa.table({f: X[:, k] for k, f in enumerate(names)})
        writer = writer or pq.ParquetWriter(tmp_path / "big.parquet", batch.schema)
        writer.write_table(batch, row_group_size=group)
    writer.close()
    out = tmp_path / "p.parquet"
    files = ["--model", tmp_path / "m.marda", "--input", tmp_path / "big.parquet", "--out", out]
    told, peak = run_measured("predict", *files)
    assert told["rows"] == n_rows == pq.read_metadata(out).num_rows
    return peak


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource module")
def test_memory_does_not_grow_with_the_file(tmp_path):
    # Imports are half of it, and differ by Python: what counts is what a group of rows adds.
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    imports = score(few, 5_000, GROUP)
    assert score(many, 300_000, GROUP) < imports + 300


@pytest.mark.slow
@pytest.mark.parametrize("group", [GROUP, 2_000_000])
def test_two_million_rows_below_one_gigabyte(tmp_path, group):
    peak = score(tmp_path, 2_000_000, group)
    print(f"peak {peak:.0f} MB")
    assert peak < 1000
