"""Denoising maps as nodes: W as a matrix, or training rows in its place where that is smaller."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from marda.onnx.graph import Graph, OnnxError
from marda.operators.maps import DenoisingMap, IdentityMap, RowMap

__all__ = ["add_map"]


def add_map(graph: Graph, found: DenoisingMap, H: str) -> str:
    """X W + offset for the rows H; centred first, so that rows far away keep their digits."""
    level = found.offset
    if found.center.any():
        H, level = graph.add("Sub", H, found.center[None]), found.at_center
    if isinstance(found.base, RowMap) and _rows_are_smaller(found.base):
        H = _with_delta(graph, found, H, _row_map(graph, found.base, H))
    elif isinstance(found.base, IdentityMap):
        H = _with_delta(graph, found, H, H)
    else:
        H = _matrix(graph, found, H)
    return graph.add("Add", H, level[None]) if level.any() else H


def _matrix(graph: Graph, found: DenoisingMap, H: str) -> str:
    graph.reserve(found.shape, found.dtype, "W, the denoising map,")
    try:
        return graph.add("MatMul", H, found.dense())
    except MemoryError as error:
        raise OnnxError(f"the graph holds W as a matrix: {error}") from None


def _with_delta(graph: Graph, found: DenoisingMap, H: str, product: str) -> str:
    """The part of low rank beside the base: X W₀ + (X Δ) Uᵀ."""
    if not found.delta.shape[1]:
        return product
    inner = graph.add("MatMul", H, found.delta)
    return graph.add("Add", product, graph.add("MatMul", inner, found.basis.T))


def _rows_are_smaller(base: RowMap) -> bool:
    n, d = base.rows.shape
    return n * d + base.core.size + base.extra.size < d * base.shape[1]


def _row_map(graph: Graph, base: RowMap, H: str) -> str:
    """X [diag(w)X̂ᵀ  E] core X̂, as weights on training rows and then those rows."""
    X = base.rows.X
    graph.reserve(X.shape, X.dtype, "W, by way of the training rows,")
    rows = graph.constant(X.toarray() if sp.issparse(X) else X)
    if base.rows.center is not None:
        rows = graph.add("Sub", rows, base.rows.center[None])
    weighted = graph.add("Mul", H, base.weights[None])
    scores = graph.add("MatMul", weighted, graph.add("Transpose", rows, perm=[1, 0]))
    if base.extra.shape[1]:
        scores = graph.add("Concat", scores, graph.add("MatMul", H, base.extra), axis=1)
    if base.outputs is not None:
        rows = graph.add("Gather", rows, np.asarray(base.outputs, dtype=np.int64), axis=1)
    return graph.add("MatMul", graph.add("MatMul", scores, base.core), rows)
