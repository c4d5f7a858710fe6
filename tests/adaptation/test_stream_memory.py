"""`marda adapt` on files larger than its memory: the peak of a fresh process stays bounded."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from measured import run_measured

D, GROUP = 128, 50_000


def write(path, n_rows, group, label):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, n_rows, GROUP):
        y = rng.integers(0, 2, min(GROUP, n_rows - start))
        X = rng.standard_normal((D, len(y))) + y
        columns = {f"f{k}": row for k, row in enumerate(X)} | ({"y": y} if label else {})
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table, row_group_size=group)
    writer.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource module")
@pytest.mark.parametrize(
    ("method", "most"),
    [
        (["--method", "S1D"], 650),
        ([], 850),  # the default learns from a sample of 10,000 rows per domain, however many
    ],
    ids=["S1D", "default"],
)
def test_rows_of_a_gigabyte_in_less_than_that(method, most, tmp_path):
    n = {"s": 600_000, "t": 400_000}  # 1.02 GB of numbers
    for name, rows in n.items():
        write(tmp_path / f"{name}.parquet", rows, GROUP, name == "s")
    files = ["--source", "s.parquet", "--target", "t.parquet", "--label", "y", *method]
    written = ["--out", "p.parquet", "--model", "m.marda", "--memory", "100MB"]
    told, peak = run_measured("adapt", *files, *written, cwd=tmp_path)
    assert told["rows"] == {"source": n["s"], "target": n["t"], "labelled_target": 0}
    assert sum(told["predicted"].values()) == n["t"]
    print(f"peak {peak:.0f} MB, {told['seconds']} s")
    # about 250 MB of it are Python and its libraries
    assert peak < most
