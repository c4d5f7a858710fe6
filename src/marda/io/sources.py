"""Several files of labelled rows become one table; which row is of which file is kept."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import scipy.sparse as sp

from marda.io.table import InputError, Table, join

__all__ = ["stack_sources"]


def stack_sources(tables: Sequence[Table], left_out: Collection[str | None]) -> Table:
    """One table of all rows, with the columns of the first.

    Parameters
    ----------
    tables : sequence of Table
        One per source.
    left_out : collection of str
        Columns that are no features, and which need not be in every file.

    Returns
    -------
    Table
        Columns that other files have and the first has not are left out, as those of a target are.
    """
    first = tables[0]
    if len(tables) == 1:
        return first
    for other in tables[1:]:
        if (first.block is None) != (other.block is None):
            whole = first if first.block is None else other
            raise InputError(
                f"{whole.path} holds columns, but another source a matrix of features."
            )
        lost = [n for n in first.names if n not in other.names and n not in left_out]
        if lost:
            raise InputError(
                f"{other.path} has no column {lost[0]!r}, which {first.path} has: add it, or leave "
                f"it out with --drop {lost[0]!r}."
            )
    kept = [n for n in first.columns if all(n in table.columns for table in tables)]
    refused = {name: kind for table in tables for name, kind in table.refused.items()}
    whole = join(
        [
            Table(table.path, table.n_rows, {n: table[n] for n in kept}, block, first.block_names)
            for table, block in zip(tables, _blocks(tables), strict=True)
        ]
    )
    parts = tuple((table.path, table.n_rows) for table in tables)
    path = ", ".join(table.path for table in tables)
    refused = {name: kind for name, kind in refused.items() if name in first.names}
    return Table(path, whole.n_rows, whole.columns, whole.block, whole.block_names, refused, parts)


def _blocks(tables: Sequence[Table]) -> list[object]:
    """Matrices of one width, with their columns in the order of the first."""
    if tables[0].block is None:
        return [None] * len(tables)
    blocks, first = [], tables[0]
    for table in tables:
        block = table.block
        if first.block_names != table.block_names:
            if sorted(first.block_names) != sorted(table.block_names):
                raise InputError(f"{table.path} names other features than {first.path}.")
            block = block[:, [table.block_names.index(name) for name in first.block_names]]
        blocks.append(block)
    widths = {block.shape[1] for block in blocks}
    if len(widths) == 1 and len({sp.issparse(block) for block in blocks}) == 1:
        return blocks
    if not all(sp.issparse(block) for block in blocks):
        raise InputError(
            f"{tables[0].path} and the other sources have matrices of different kinds or widths "
            f"({', '.join(str(block.shape[1]) for block in blocks)} columns)."
        )
    # svmlight leaves out the last columns where they are zero.
    return [sp.csr_array((b.data, b.indices, b.indptr), (b.shape[0], max(widths))) for b in blocks]
