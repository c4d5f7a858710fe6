"""The columns of a graph, and the preprocessing of numbers by `marda adapt`."""

from __future__ import annotations

from typing import Any

import numpy as np

from marda.io import InputError, Preprocessing
from marda.io.columns import Matrix, Number
from marda.onnx.graph import Graph, OnnxError

__all__ = ["add_preprocessing"]


def add_preprocessing(graph: Graph, estimator: Any) -> tuple[list[str], str]:
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
