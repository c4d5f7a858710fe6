"""Write Parquet files of random rows, for tests and measurements at scale.

Example: python scripts/make_parquet.py rows --rows 3000000 --features 512

Rows are float32; class and domain move the mean. The same arguments give the same rows.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np


def write(folder: Path, rows: int, features: int, group: int, files: int, seed: int = 0) -> int:
    """Write the files and give their size in bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    names = [f"f{i:04d}" for i in range(features)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    step, done, size = -(-rows // files), 0, 0
    means = np.random.default_rng(seed).standard_normal((3, features), dtype=np.float32)
    for number in range(files):
        path, end = folder / f"part-{number:04d}.parquet", min(rows, done + step)
        # Random digits do not compress: dictionary and codec would only cost time.
        with pq.ParquetWriter(
            path, schema, compression="none", use_dictionary=False, write_page_checksum=True
        ) as out:
            while done < end:
                n = min(group, end - done)
                rng = np.random.default_rng([seed, done])
                y = rng.integers(0, 3, n, dtype=np.int8)
                X = rng.standard_normal((features, n), dtype=np.float32)
                X += means[y].T
                columns = [pa.array(row) for row in X]
                out.write_table(pa.table([*columns, pa.array(y)], schema=schema), row_group_size=n)
                done += n
        size += path.stat().st_size
    return size


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--group", type=int, default=50_000, help="rows per row group")
    parser.add_argument("--files", type=int, default=6)
    args = parser.parse_args()
    size = write(args.folder, args.rows, args.features, args.group, args.files)
    print(f"{args.folder}: {args.rows} rows, {args.features} features, {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
