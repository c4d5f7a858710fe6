"""An ONNX graph under construction: nodes and constants, in order."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._memory import format_bytes

__all__ = ["Graph", "OnnxError"]

OPSET, IR_VERSION = 17, 8  # read by onnxruntime since 1.12
MAX_BYTES = 2**31 - 2**20  # protobuf's limit


class OnnxError(ValueError):
    """A model that has no ONNX graph; the message says why and what has one."""


class Graph:
    """Nodes and constants, in order; everything is computed in float64.

    Parameters
    ----------
    onnx : module
        The onnx package.
    """

    def __init__(self, onnx: Any):
        self._onnx, self._bytes = onnx, 0
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def reserve(self, shape: tuple[int, ...], dtype: Any, what: str) -> None:
        """Refuse an array that the file cannot hold, before it is made."""
        needed = self._bytes + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if needed > MAX_BYTES:
            raise OnnxError(
                f"{what} is a dense {'×'.join(map(str, shape))} matrix in the graph, which would "
                f"take {format_bytes(needed)}, and ONNX files end at 2 GB: fit with n_pivots, or "
                "on fewer columns."
            )

    def constant(self, value: NDArray[Any]) -> str:
        """A stored array; float32 stays so in the file and is computed with in float64."""
        name = f"c{len(self._constants)}"
        self.reserve(value.shape, value.dtype, "a part of the model")
        self._bytes += value.nbytes
        stored = np.asarray(value, order="C")
        self._constants.append(self._onnx.numpy_helper.from_array(stored, name))
        if value.dtype == np.float32:
            return self.add("Cast", name, to=self._onnx.TensorProto.DOUBLE)
        return name

    def add(self, kind: str, *inputs: str | NDArray[Any], output: str = "", **options: Any) -> str:
        """A node; arrays among the inputs are stored."""
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        output = output or f"n{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, names, [output], **options))
        return output

    def unit_rows(self, X: str) -> str:
        """Rows of unit length; empty rows stay empty."""
        norms = self.add("ReduceL2", X, axes=[1], keepdims=1)
        zero, one = np.zeros((1, 1)), np.ones((1, 1))
        return self.add("Div", X, self.add("Where", self.add("Greater", norms, zero), norms, one))

    def finish(self, classes: NDArray[Any], scores: str, columns: list[str]) -> Any:
        """The model around outputs "scores" and "probabilities": labels, checks, metadata."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        place = self.add("ArgMax", scores, axis=1, keepdims=0)
        text = classes.dtype.kind in "OU"
        kinds = {"i": np.int64, "u": np.int64, "b": np.bool_, "f": np.float64}
        stored: NDArray[Any] = classes.astype(object if text else kinds[classes.dtype.kind])
        self.add("Gather", stored, place, output="label")
        label = types.STRING if text else helper.np_dtype_to_tensor_dtype(stored.dtype)
        wide = ["rows", len(classes)]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self._nodes,
            "marda",
            [info("X", types.DOUBLE, ["rows", len(columns)])],
            [
                info("label", label, ["rows"]),
                info("scores", types.DOUBLE, ["rows"] if len(classes) == 2 else wide),
                info("probabilities", types.DOUBLE, wide),
            ],
            self._constants,
        )
        model = helper.make_model(
            graph,
            producer_name="marda",
            producer_version=str(import_module("marda").__version__),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, {"columns": json.dumps(columns, ensure_ascii=False)})
        self._onnx.checker.check_model(model)
        return model
