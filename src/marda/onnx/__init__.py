"""A fitted classifier as one ONNX graph: preprocessing of numbers, denoising, classifier.

The graph computes in float64, in the order of the formulas, so that its scores are marda's.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from marda.io import replacing
from marda.onnx.committee import add_ensemble_scores
from marda.onnx.graph import Graph, OnnxError
from marda.onnx.models import add_class_scores
from marda.onnx.preprocessing import add_preprocessing
from marda.selection import MDAClassifierCV

__all__ = ["OnnxError", "export"]


def export(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write `estimator` as an ONNX graph.

    Parameters
    ----------
    estimator : MDAClassifier or MDAClassifierCV
        Fitted, with classifier "ridge", "kernel" or "dscm".
    path : path
        Replaced only once the file is complete.
    """
    check_is_fitted(estimator)
    try:
        onnx = import_module("onnx")
    except ImportError:
        raise ImportError("to_onnx needs onnx: run pip install 'marda[onnx]'.") from None
    graph = Graph(onnx)
    columns, X = add_preprocessing(graph, estimator)
    if isinstance(estimator, MDAClassifierCV):
        scores = add_ensemble_scores(graph, estimator.ensemble_, X)
        sharp = graph.add("Mul", scores, np.array([[estimator.ensemble_.sharpness]]))
        graph.add("Softmax", sharp, output="probabilities", axis=1)
        difference = True
    else:
        scores = add_class_scores(graph, estimator, X)
        graph.add("Softmax", scores, output="probabilities", axis=1)
        difference = estimator.classifier == "dscm"
    _add_decision(graph, scores, len(estimator.classes_), difference=difference)
    model = graph.finish(estimator.classes_, scores, columns)
    with replacing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())


def _add_decision(graph: Graph, scores: str, n_classes: int, *, difference: bool) -> None:
    """Output "scores" as `decision_function`: of two classes, the second (minus the first)."""
    if n_classes > 2:
        graph.add("Identity", scores, output="scores")
        return
    second = graph.add("Gather", scores, np.array(1), axis=1)
    if difference:
        first = graph.add("Gather", scores, np.array(0), axis=1)
        graph.add("Sub", second, first, output="scores")
    else:
        graph.add("Identity", second, output="scores")
