"""Parquet files of two domains, in small row groups."""

from __future__ import annotations

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

WORDS = np.array(["cat", "dog", "emu"], dtype=object)


def rows(n, d=6, shift=0.0, seed=0, scale=1.0):
    """Features and class codes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, d)) + 2.0 * np.eye(3, d)[y] + shift
    return X * np.linspace(1, scale, d), y


def table_of(X, labels=None, ids=True):
    columns = {f"f{i}": X[:, i] for i in range(X.shape[1])}
    if ids:
        columns["id"] = [f"r{i}" for i in range(len(X))]
    if labels is not None:
        columns["y"] = labels if isinstance(labels, pa.Array) else pa.array(labels)
    return pa.table(columns)


def write_pair(folder, n_source=300, n_target=200, group=25, source=None, target=None, **options):
    """s.parquet with labels and t.parquet, with `target` as labels if given."""
    X, y = rows(n_source, seed=1, **options)
    labels = WORDS[y] if source is None else source(y)
    pq.write_table(table_of(X, labels), folder / "s.parquet", row_group_size=group)
    X, y = rows(n_target, shift=0.7, seed=2, **options)
    labels = None if target is None else target(y)
    # Other order of columns: they go by name.
    table = table_of(X, labels)
    table = table.select(table.column_names[::-1])
    pq.write_table(table, folder / "t.parquet", row_group_size=group)
    return folder / "s.parquet", folder / "t.parquet"
