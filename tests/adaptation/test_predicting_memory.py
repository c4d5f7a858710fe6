"""`marda predict` in bounded memory: 2 million rows of Parquet below 1 GB."""

from __future__ import annotations

import numpy as np
import pytest

from marda.adaptation import ReadOptions, adapt, predict, predicting
from measured import run_measured, traced_peak

D, GROUP = 20, 250_000


NAMES = [f"f{k}" for k in range(D)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng, tmp_path = np.random.default_rng(0), tmp_path_factory.mktemp("model")
    y = np.arange(200) % 2
    for name, shift in (("s", 0.0), ("t", 0.5)):
        X = rng.normal(y[:, None] + shift, 1, (200, D))
        columns = {f: X[:, k] for k, f in enumerate(NAMES)}
        extra = {"y": y} if name == "s" else {}
        pq.write_table(pa.table({**columns, **extra}), tmp_path / f"{name}.parquet")
    source, target = tmp_path / "s.parquet", tmp_path / "t.parquet"
    adapt(source, target, ReadOptions("y"), model=tmp_path / "m.marda")
    return tmp_path / "m.marda"


def write(folder, n_rows, group):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(1), None
    for start in range(0, n_rows, group):
        X = rng.normal(0.5, 1, (min(group, n_rows - start), D))
        batch = pa.table({f: X[:, k] for k, f in enumerate(NAMES)})
        writer = writer or pq.ParquetWriter(folder / "big.parquet", batch.schema)
        writer.write_table(batch, row_group_size=group)
    writer.close()
    return folder / "big.parquet", folder / "p.parquet"


def test_memory_does_not_grow_with_the_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(predicting, "MAX_BATCH_ROWS", 500)
    monkeypatch.setattr(predicting, "blas_threads", lambda: 1)  # one batch at a time, in every run

    def peak(n_rows):
        file, out = write(tmp_path, n_rows, 1_000)
        return traced_peak(lambda: predict(model, file, out))

    held = 8 * D * 9_000  # what more rows would take at least
    assert peak(10_000) < peak(1_000) + held / 4


@pytest.mark.slow
@pytest.mark.parametrize("group", [GROUP, 2_000_000])
def test_two_million_rows_below_one_gigabyte(model, tmp_path, group):
    file, out = write(tmp_path, 2_000_000, group)
    told, peak = run_measured("predict", "--model", model, "--input", file, "--out", out)
    assert told["rows"] == 2_000_000
    print(f"peak {peak:.0f} MB")
    assert peak < 1000
