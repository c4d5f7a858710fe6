"""Denoising and the classifiers on denoised rows, as nodes."""

from __future__ import annotations

import numpy as np

from marda.estimators import DSCM, MDAClassifier
from marda.estimators.heads import GaussianRidge
from marda.estimators.model import FittedModel
from marda.onnx.graph import Graph, OnnxError
from marda.onnx.maps import add_map

__all__ = ["add_class_scores"]


def add_class_scores(graph: Graph, estimator: MDAClassifier, X: str) -> str:
    """Scores of all classes for the rows X."""
    name, model = estimator.classifier, estimator.model_
    if not isinstance(name, str):
        raise _refusal(type(name).__name__, "marda knows the graphs of its own classifiers only")
    if name == "nn":
        raise _refusal(repr(name), "it looks up the nearest of all training rows")
    if name == "ridge":
        return _ridge(graph, model, X)
    features = _features(graph, model, X)
    if name == "kernel":
        return _kernel(graph, model.classifier, features)
    return _dscm(graph, model.classifier, features)


def _refusal(name: str, why: str) -> OnnxError:
    return OnnxError(
        f"classifier={name} has no ONNX graph: {why}. Fit with classifier='ridge', 'kernel' or "
        "'dscm'."
    )


def _features(graph: Graph, model: FittedModel, X: str) -> str:
    """Denoised rows, as `transform` gives them for rows of the target."""
    H = _denoised(graph, model, X)
    if model.centers and model.center_of_new_rows.any():
        H = graph.add("Sub", H, np.asarray(model.center_of_new_rows, dtype=np.float64)[None])
    return graph.unit_rows(H) if model.normalize else H


def _denoised(graph: Graph, model: FittedModel, X: str) -> str:
    blocks, H = [X], X
    several = len(model.layers) > 1
    for layer in model.layers:
        H = add_map(graph, layer.map, H)
        if several:
            kind = {"tanh": "Tanh", "relu": "Relu", "identity": "Identity"}[model.activation]
            H = graph.add(kind, H)
        blocks.append(H)
    return graph.add("Concat", *blocks, axis=1) if several and model.concatenate else H


def _ridge(graph: Graph, model: FittedModel, X: str) -> str:
    """Linear in the rows themselves, or in layers and normalised rows."""
    if model.coef is None:
        product = graph.add("MatMul", _features(graph, model, X), np.asarray(model.Z))
        return graph.add("Add", product, np.asarray(model.z0)[None])
    product = graph.add("MatMul", X, np.asarray(model.coef.T, dtype=np.float64))
    return graph.add("Add", product, np.asarray(model.intercept)[None])


def _kernel(graph: Graph, kernel: GaussianRidge, F: str) -> str:
    """exp(−½‖f − b‖² / σ²) weighted over basis rows b."""
    middle = kernel.basis_.mean(axis=0, dtype=np.float64)
    # Near the origin, squared lengths keep their digits.
    about = (kernel.basis_ - middle).astype(kernel.basis_.dtype)
    basis, F = graph.constant(about), graph.add("Sub", F, middle[None])
    cross = graph.add("MatMul", F, graph.add("Transpose", basis, perm=[1, 0]))
    half, axes = np.array([[0.5]]), [1]
    rows = graph.add("Mul", graph.add("ReduceSumSquare", F, axes=axes, keepdims=1), half)
    squares = np.einsum("ij,ij->i", about, about, dtype=np.float64)
    exponent = graph.add("Sub", graph.add("Sub", cross, rows), 0.5 * squares[None])
    exponent = graph.add("Min", exponent, np.zeros((1, 1)))  # rounding
    K = graph.add("Exp", graph.add("Div", exponent, np.array([[kernel.variance_]])))
    return graph.add("Add", graph.add("MatMul", K, kernel.coef_), kernel.intercept_[None])


def _dscm(graph: Graph, dscm: DSCM, F: str) -> str:
    """Log Σ_D w_D exp(−½‖x − μ_D,c‖² / τ) of all classes."""
    middle = dscm.means_.mean(0).astype(np.float64)
    means = dscm.means_ - middle  # near the origin, squared lengths keep their digits
    H = graph.add("Sub", F, middle[None])
    cross = graph.add("MatMul", H, np.asarray(means.T / dscm.temperature_, dtype=np.float64))
    squares = graph.add("ReduceSumSquare", H, axes=[1], keepdims=1)
    constant = dscm.log_weights_ - 0.5 * (means**2).sum(1) / dscm.temperature_
    own = graph.add("Mul", squares, np.array([[-0.5 / dscm.temperature_]]))
    exponent = graph.add("Add", graph.add("Add", cross, constant[None]), own)
    scores = []
    for c in range(len(dscm.classes_)):
        mine = graph.add("Gather", exponent, np.flatnonzero(dscm.mean_classes_ == c), axis=1)
        scores.append(graph.add("ReduceLogSumExp", mine, axes=[1], keepdims=1))
    return graph.add("Concat", *scores, axis=1)
