"""Measure marda on rows that do not fit into memory: the figures of docs/scale-measured.md.

    python scripts/make_parquet.py DIR --rows 3000000 --features 512
    python scripts/measure_scale.py parquet DIR  # peak memory, throughput against a bare loop
    python scripts/measure_scale.py cluster      # time against rows and lanes, bytes moved

Every child process that is measured runs alone, and prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from marda._machine import peak_mb


def bare(folder: Path) -> dict[str, float]:
    """Read the same batches and add float64 XᵀX: the least that any such program does."""
    from marda.moments.parquet import ParquetRows

    rows = ParquetRows.open([folder], label="y")
    gram, n = np.zeros((len(rows.features),) * 2), 0
    begin = _now()
    import pyarrow.parquet as pq

    for path in rows.paths:
        reader = pq.ParquetFile(path)
        for batch in reader.iter_batches(rows.batch_rows, columns=[*rows.features, "y"]):
            X = np.column_stack([batch.column(name).to_numpy() for name in rows.features])
            X = X.astype(np.float64)
            gram += X.T @ X
            n += len(X)
    return _result(n, begin)


def marda(folder: Path) -> dict[str, float]:
    """Moments of the same files."""
    from marda.moments.parquet import moments_from_parquet

    begin = _now()
    moments = moments_from_parquet([folder], label="y", domain="rows")
    return _result(moments.n_rows, begin)


def checkpointed(folder: Path) -> dict[str, float]:
    """The same, with a checkpoint after every row group."""
    from marda.moments.parquet import moments_from_parquet

    begin = _now()
    path = folder / "checkpoint"
    moments = moments_from_parquet([folder], label="y", domain="rows", checkpoint=path)
    return _result(moments.n_rows, begin)


def _now() -> tuple[float, float]:
    """By the clock, and of the processor."""
    return time.perf_counter(), time.process_time()


def _result(rows: int, begin: tuple[float, float]) -> dict[str, float]:
    seconds, processor = (now - then for now, then in zip(_now(), begin, strict=True))
    peak = (peak_mb() or float("nan")) * 2**20
    rate = {"seconds": seconds, "processor_seconds": processor, "rows_per_second": rows / seconds}
    return {"rows": rows, **rate, "peak": peak}


def compare(
    folder: Path, order: tuple[str, ...] = ("bare", "marda")
) -> dict[str, dict[str, float]]:
    """Each in a process of its own, one after the other."""
    results = {}
    for name in order:
        done = subprocess.run(
            [sys.executable, __file__, "child", name, str(folder)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        results[name] = json.loads(done.stdout)
    return results


def cluster(workers: tuple[int, ...] = (1, 2)) -> list[dict[str, float]]:
    """Time against rows, against columns and against workers; bytes that workers sent."""
    import dask.array as da
    from distributed import wait

    from marda.moments.dask import moments_from_dask, start_local

    rows_of = []
    for n_workers in workers:
        with start_local(n_workers) as client:
            warm = da.random.default_rng(0).standard_normal((10_000, 64), chunks=(5_000, 64))
            moments_from_dask(warm)
            for n, d in (
                (50_000, 256),
                (100_000, 256),
                (200_000, 256),
                (400_000, 256),
                (100_000, 512),
                (100_000, 1024),
            ):
                # The rows are made beforehand and lie on the workers: what is timed is the sums.
                X = da.random.default_rng(1).standard_normal((n, d), chunks=(n // 20, d)).persist()
                wait(X)
                before = sum(client.run(_sent).values())
                begin = time.perf_counter()
                moments = moments_from_dask(X)
                seconds = time.perf_counter() - begin
                moved = sum(client.run(_sent).values()) - before
                assert moments.n_rows == n
                rows_of.append(
                    {"workers": n_workers, "rows": n, "features": d, "seconds": seconds}
                    | {"moved": moved, "data": n * d * 8, "gram": d * d * 8}
                )
                del X
    return rows_of


def _sent(dask_worker: Any) -> int:
    """Bytes that this worker has sent to others and to the client."""
    return int(dask_worker.transfer_outgoing_bytes_total)


def main() -> None:
    """Read the command line."""
    if sys.argv[1:2] == ["child"]:
        print(json.dumps(globals()[sys.argv[2]](Path(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("parquet", "cluster"))
    parser.add_argument("folder", type=Path, nargs="?")
    args = parser.parse_args()
    if args.what == "cluster":
        print("workers     rows  columns  seconds  rows/s/worker  data MB  moved MB  Grams moved")
        for row in cluster():
            rate = row["rows"] / row["seconds"] / row["workers"]
            print(
                f"{row['workers']:7d} {row['rows']:8d} {row['features']:8d} {row['seconds']:8.2f} "
                f"{rate:14.0f} {row['data'] / 1e6:8.0f} {row['moved'] / 1e6:9.2f} "
                f"{row['moved'] / row['gram']:12.1f}"
            )
        return
    if args.folder is None:
        parser.error("parquet needs the folder of scripts/make_parquet.py")
    results = compare(args.folder, ("bare", "marda", "checkpointed"))
    for name, row in results.items():
        print(
            f"{name:13s} {row['rows']:.0f} rows in {row['seconds']:.1f} s, "
            f"{row['rows_per_second']:.0f} rows/s, peak memory {row['peak'] / 1e6:.0f} MB"
        )
    ratio = results["marda"]["rows_per_second"] / results["bare"]["rows_per_second"]
    print(f"throughput of marda over that of the bare loop: {ratio:.2f}")


if __name__ == "__main__":
    main()
