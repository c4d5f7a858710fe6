"""A fitted classifier as one ONNX graph: preprocessing of numbers, denoising, classifier.

The graph computes in float64, in the order of the formulas, so that its scores are marda's.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from marda.io import InputError, Preprocessing, replacing
from marda.io.steps import Matrix, Number

__all__ = ["OnnxError", "export"]

OPSET, IR_VERSION = 17, 8  # read by onnxruntime since 1.12
MAX_BYTES = 2**31 - 2**20  # protobuf's limit


class OnnxError(ValueError):
    """A model that has no ONNX graph; the message says why and what has one."""


def export(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write `estimator` as an ONNX graph.

    Parameters
    ----------
    estimator : MDAClassifier
        Fitted, with classifier "ridge" or "dscm".
    path : path
        Replaced only once the file is complete.
    """
    check_is_fitted(estimator)
    try:
        onnx = import_module("onnx")
    except ImportError:
        raise ImportError("to_onnx needs onnx: run pip install 'marda[onnx]'.") from None
    if estimator.classifier not in ("ridge", "dscm"):
        name = estimator.classifier
        why = (
            "it looks up the nearest of all training rows"
            if isinstance(name, str)
            else "marda knows the graphs of its own classifiers only"
        )
        raise OnnxError(
            f"classifier={name if isinstance(name, str) else type(name).__name__!r} has no ONNX "
            f"graph: {why}. Fit with classifier='ridge' or 'dscm'."
        )
    graph = _Graph(onnx)
    columns, X = _preprocessing(graph, estimator)
    classify = _ridge if estimator.classifier == "ridge" else _dscm
    scores = classify(graph, estimator, X)
    model = graph.finish(estimator, scores, columns)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


class _Graph:
    """Nodes and constants, in order."""

    def __init__(self, onnx: Any):
        self.onnx, self.bytes = onnx, 0
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: NDArray[Any]) -> str:
        """A stored array."""
        name = f"c{len(self.constants)}"
        self.bytes += value.nbytes
        if self.bytes > MAX_BYTES:
            raise OnnxError("the graph would exceed 2 GB, which ONNX files cannot: use n_pivots.")
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def add(self, kind: str, *inputs: str | NDArray[Any], output: str = "", **options: Any) -> str:
        """A node; arrays among the inputs are stored."""
        names = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        output = output or f"n{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, names, [output], **options))
        return output

    def finish(self, estimator: Any, scores: str, columns: list[str]) -> Any:
        """Outputs, checks, metadata."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        classes = estimator.classes_
        place = self.add("ArgMax", scores, axis=1, keepdims=0)
        text = classes.dtype.kind in "OU"
        kinds = {"i": np.int64, "u": np.int64, "b": np.bool_, "f": np.float64}
        stored = classes.astype(object if text else kinds[classes.dtype.kind])
        self.add("Gather", stored, place, output="label")
        self.add("Softmax", scores, output="probabilities", axis=1)
        binary = len(classes) == 2
        if not binary:
            self.add("Identity", scores, output="scores")
        else:
            second = self.add("Gather", scores, np.array(1), axis=1)
            if estimator.classifier == "ridge":
                self.add("Identity", second, output="scores")
            else:
                first = self.add("Gather", scores, np.array(0), axis=1)
                self.add("Sub", second, first, output="scores")
        label = types.STRING if text else helper.np_dtype_to_tensor_dtype(stored.dtype)
        wide = ["rows", len(classes)]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "marda",
            [info("X", types.DOUBLE, ["rows", len(columns)])],
            [
                info("label", label, ["rows"]),
                info("scores", types.DOUBLE, ["rows"] if binary else wide),
                info("probabilities", types.DOUBLE, wide),
            ],
            self.constants,
        )
        model = helper.make_model(
            graph,
            producer_name="marda",
            producer_version=str(import_module("marda").__version__),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, {"columns": json.dumps(columns, ensure_ascii=False)})
        self.onnx.checker.check_model(model)
        return model


def _preprocessing(graph: _Graph, estimator: Any) -> tuple[list[str], str]:
    """Columns of the input, and the node with the model's rows."""
    state = getattr(estimator, "preprocessing_", None)
    if state is None:
        names = getattr(estimator, "feature_names_in_", None)
        d = estimator.n_features_in_
        return [f"x{k}" for k in range(d)] if names is None else [str(n) for n in names], "X"
    try:
        chosen = Preprocessing.from_json(state)
    except InputError as error:
        raise OnnxError(str(error)) from None
    if chosen.n_features != estimator.n_features_in_:
        raise OnnxError("columns and model do not fit: save the model anew.")
    fill, center, scale = [], [], []
    for step in chosen.steps:
        if isinstance(step, Number):
            fill.append([np.nan if step.fill is None else step.fill])
            center.append([step.center])
            scale.append([step.scale])
        elif isinstance(step, Matrix):
            fill.append(list(step.fill) or [np.nan] * step.width)
            center.append(list(step.center) or [0.0] * step.width)
            scale.append(list(step.scale) or [1.0] * step.width)
        else:
            raise OnnxError(
                f"column {step.columns[0]!r} holds words, which the graph cannot encode: only "
                "numbers are exported. Adapt without it, or encode it before."
            )
    fills, centers, scales = (np.concatenate(parts) for parts in (fill, center, scale))
    X = "X"
    if not np.isnan(fills).all():
        # A column without a fill keeps its NaN, which shows in every output.
        X = graph.add("Where", graph.add("IsNaN", X), fills[None], X)
    if centers.any():
        X = graph.add("Sub", X, centers[None])
    if (scales != 1).any():
        X = graph.add("Div", X, scales[None])
    return chosen.features, X


def _features(graph: _Graph, estimator: Any, X: str) -> str:
    """Denoised rows, as `transform` gives them."""
    blocks, H = [X], X
    several = len(estimator._layers) > 1
    for layer in estimator._layers:
        found = layer.map
        W = np.asarray(found.dense(), dtype=np.float64)
        if found.center.any():
            H = graph.add("Sub", H, found.center[None])
            H = graph.add("Add", graph.add("MatMul", H, W), found.at_center[None])
        else:
            H = graph.add("Add", graph.add("MatMul", H, W), found.offset[None])
        if several:
            kind = {"tanh": "Tanh", "relu": "Relu", "identity": "Identity"}[estimator.activation]
            H = graph.add(kind, H)
        blocks.append(H)
    return graph.add("Concat", *blocks, axis=1) if several and estimator.concatenate else H


def _ridge(graph: _Graph, estimator: Any, X: str) -> str:
    """Scores of all classes."""
    if len(estimator._layers) > 1:
        H = _features(graph, estimator, X)
        return graph.add("Add", graph.add("MatMul", H, estimator.Z_), estimator._z0[None])
    product = graph.add("MatMul", X, np.asarray(estimator._scores_coef.T, dtype=np.float64))
    return graph.add("Add", product, np.asarray(estimator._scores_intercept)[None])


def _dscm(graph: _Graph, estimator: Any, X: str) -> str:
    """Log Σ_D w_D exp(−½‖x − μ_D,c‖² / τ) of all classes."""
    dscm = estimator.classifier_
    middle = dscm.means_.mean(0).astype(np.float64)
    means = dscm.means_ - middle  # near the origin, squared lengths keep their digits
    H = graph.add("Sub", _features(graph, estimator, X), middle[None])
    cross = graph.add("MatMul", H, np.asarray(means.T / dscm.temperature_, dtype=np.float64))
    squares = graph.add("ReduceSumSquare", H, axes=[1], keepdims=1)
    constant = dscm._log_weights - 0.5 * (means**2).sum(1) / dscm.temperature_
    own = graph.add("Mul", squares, np.array([[-0.5 / dscm.temperature_]]))
    exponent = graph.add("Add", graph.add("Add", cross, constant[None]), own)
    scores = []
    for c in range(len(dscm.classes_)):
        mine = graph.add("Gather", exponent, np.flatnonzero(dscm.mean_classes_ == c), axis=1)
        scores.append(graph.add("ReduceLogSumExp", mine, axes=[1], keepdims=1))
    return graph.add("Concat", *scores, axis=1)
