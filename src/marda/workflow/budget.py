"""Whether the rows of files fit into the memory that they may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marda._memory import available_memory, parse_bytes
from marda.io import InputError, detect_format
from marda.io.binary import parquet_errors, pyarrow
from marda.io.formats import parquet_files
from marda.io.sample import PREFIX
from marda.workflow.data import PathLike

__all__ = ["is_parquet", "memory_budget", "rows_size"]

#: Rows are copied a few times on their way into a model.
SHARE = 0.25


def memory_budget(wish: str | None) -> int:
    """Bytes that rows may take: a size ("4GB"), a share of free memory ("30%"), or a quarter."""
    if wish is None:
        return int(SHARE * available_memory())
    try:
        if wish.strip().endswith("%"):
            share = float(wish.strip()[:-1]) / 100
            if not 0 < share <= 1:
                raise ValueError(wish)
            return int(share * available_memory())
        size = parse_bytes(wish)
        if size < 1:
            raise ValueError(wish)
    except ValueError:
        raise InputError(
            f"--memory: a size such as 4GB or a share of the free memory such as 30% is wanted, "
            f"got {wish!r}."
        ) from None
    return size


def is_parquet(path: PathLike, format: str | None) -> bool:
    """Whether a file or a folder is read as Parquet."""
    path = Path(path)
    if path.is_dir():
        return True
    if _is_sample(path):
        return False
    return (format or detect_format(path)) == "parquet"


def rows_size(path: PathLike, format: str | None, left_out: set[Any]) -> int:
    """Bytes that the rows of a file take in memory, as far as a quick look tells.

    Parquet is packed, so its numbers are counted; for other files it is their size on disk.
    """
    path = Path(path)
    if _is_sample(path):
        return 0
    if not is_parquet(path, format):
        return path.stat().st_size
    files = parquet_files(path) if path.is_dir() else [path]
    arrow = pyarrow(path)
    size = 0
    for file in files:
        with parquet_errors(arrow, file):
            metadata = arrow.parquet.read_metadata(file)
            names = metadata.schema.to_arrow_schema().names
        kept = sum(name not in left_out for name in names)
        size += 8 * metadata.num_rows * kept
    return size


def _is_sample(path: Path) -> bool:
    return str(path).startswith(PREFIX) and not path.exists()
