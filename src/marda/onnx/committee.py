"""Inputs and the weighted sum of an ensemble, as nodes."""

from __future__ import annotations

import numpy as np

from marda.onnx.graph import Graph
from marda.onnx.models import add_class_scores
from marda.selection.ensemble import Ensemble, Member
from marda.selection.inputs import Inputs

__all__ = ["add_ensemble_scores"]


def add_ensemble_scores(graph: Graph, ensemble: Ensemble, X: str) -> str:
    """Scores of all classes: the members', standardised and weighted."""
    parts = [_member(graph, member, X) for member in ensemble.members]
    return graph.add("Sum", *parts)


def _member(graph: Graph, member: Member, X: str) -> str:
    S = add_class_scores(graph, member.model, _inputs(graph, member.inputs, X))
    centred = graph.add("Sub", S, graph.add("ReduceMean", S, axes=[1], keepdims=1))
    return graph.add("Mul", centred, np.array([[member.weight / member.spread]]))


def _inputs(graph: Graph, inputs: Inputs, X: str) -> str:
    if inputs.columns is not None:
        X = graph.add("Gather", X, np.asarray(inputs.columns, dtype=np.int64), axis=1)
    if inputs.kind == "raw":
        return X
    if inputs.kind == "standard":
        assert inputs.middle is not None
        assert inputs.spread is not None
        return graph.add("Div", graph.add("Sub", X, inputs.middle[None]), inputs.spread[None])
    if inputs.kind == "sqrt":
        X = graph.add("Mul", graph.add("Sign", X), graph.add("Sqrt", graph.add("Abs", X)))
    return graph.unit_rows(X)
