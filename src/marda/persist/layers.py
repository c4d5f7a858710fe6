"""Denoising layers as JSON and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda.estimators.model import Layer
from marda.operators.maps import DenoisingMap, DenseMap, IdentityMap, Map, RowMap
from marda.operators.rows import Rows
from marda.persist.model_file import ModelFileError
from marda.persist.values import Reader, Writer, count, indices, one_of

__all__ = ["SOLVERS", "decode_layer", "encode_layer"]

SOLVERS = ("primal", "dual", "cg")


def encode_layer(layer: Layer, out: Writer, name: str) -> dict[str, Any]:
    """A layer as JSON; its arrays go to `out`."""
    found, base = layer.map, layer.map.base
    state: dict[str, Any] = {
        "solver": layer.solver,
        "dtype": found.dtype.name,
        "outputs": None if layer.outputs is None else out.put(f"{name}.outputs", layer.outputs),
        **{
            field: out.put(f"{name}.{field}", getattr(found, field))
            for field in ("delta", "basis", "offset", "center", "at_center")
        },
    }
    if isinstance(base, DenseMap):
        return {**state, "map": "dense", "W": out.put(f"{name}.W", base.W)}
    if isinstance(base, IdentityMap):
        return {**state, "map": "identity", "n_features": base.shape[0]}
    if isinstance(base, RowMap):
        return {**state, "map": "rows", **_encode_rows(base, out, name)}
    raise ModelFileError(
        "a model of solver='cg' cannot be saved: its map is an iteration over the training rows, "
        "not a matrix. Fit with solver='primal' or 'dual', or set n_pivots."
    )


def _encode_rows(base: RowMap, out: Writer, name: str) -> dict[str, Any]:
    X, center = base.rows.X, base.rows.center
    state = {
        "row_center": None if center is None else out.put(f"{name}.row_center", center),
        "weights": out.put(f"{name}.weights", base.weights),
        "extra": out.put(f"{name}.extra", base.extra),
        "core": out.put(f"{name}.core", base.core),
        "shape": list(X.shape),
    }
    if not sp.issparse(X):
        return {**state, "X": out.put(f"{name}.X", X)}
    parts = ("data", "indices", "indptr")
    return {**state, "X": {part: out.put(f"{name}.X.{part}", getattr(X, part)) for part in parts}}


def decode_layer(state: dict[str, Any], reader: Reader, d: int) -> Layer:
    """The layer of d inputs that `encode_layer` described."""
    outputs = None
    if state["outputs"] is not None:
        outputs = indices(reader.get(state["outputs"], None, kind="i"), d)
    r = d if outputs is None else len(outputs)
    base: Map
    if state["map"] == "dense":
        base = DenseMap(reader.get(state["W"], d, r))
    elif state["map"] == "identity":
        base = IdentityMap(d)
    elif state["map"] == "rows":
        base = _decode_rows(state, reader, outputs, d)
    else:
        raise ValueError("unknown map")
    if base.shape != (d, r):
        raise ValueError("a map does not fit its outputs")
    k = reader.get(state["delta"], d, None).shape[1]
    found = DenoisingMap(
        base,
        reader.get(state["delta"], d, k),
        reader.get(state["basis"], r, k),
        reader.get(state["offset"], r),
        one_of(state["dtype"], ("float64", "float32")),
        center=reader.get(state["center"], d),
        at_center=reader.get(state["at_center"], r),
    )
    return Layer(found, one_of(state["solver"], SOLVERS), outputs)


def _decode_rows(
    state: dict[str, Any], reader: Reader, outputs: NDArray[np.int64] | None, d: int
) -> RowMap:
    if "array" in state["X"]:
        X: Any = reader.get(state["X"], None, d)
    else:
        n = count(state["shape"][0])
        parts = state["X"]
        indptr = reader.get(parts["indptr"], n + 1, kind="i")
        columns = reader.get(parts["indices"], None, kind="i")
        data = reader.get(parts["data"], len(columns))
        X = sp.csr_array((data, columns, indptr), shape=(n, d))
        X.check_format(full_check=True)  # scipy's products trust indices: wrong ones read anywhere
    center = None if state["row_center"] is None else reader.get(state["row_center"], d)
    extra = reader.get(state["extra"], d, None)
    n = X.shape[0]
    return RowMap(
        Rows(X, center),
        outputs,
        reader.get(state["weights"], d),
        extra,
        reader.get(state["core"], n + extra.shape[1], n),
    )
