"""Views of the inputs and the weighted sum of a committee, as nodes."""

from __future__ import annotations

import numpy as np

from marda.onnx.graph import Graph
from marda.onnx.models import add_class_scores
from marda.selection.committee import Committee, Member
from marda.selection.views import View

__all__ = ["add_committee_scores"]


def add_committee_scores(graph: Graph, committee: Committee, X: str) -> str:
    """Scores of all classes: the members', standardised and weighted."""
    parts = [_member(graph, member, X) for member in committee.members]
    return graph.add("Sum", *parts)


def _member(graph: Graph, member: Member, X: str) -> str:
    S = add_class_scores(graph, member.model, _view(graph, member.view, X))
    centred = graph.add("Sub", S, graph.add("ReduceMean", S, axes=[1], keepdims=1))
    return graph.add("Mul", centred, np.array([[member.weight / member.spread]]))


def _view(graph: Graph, view: View, X: str) -> str:
    if view.columns is not None:
        X = graph.add("Gather", X, np.asarray(view.columns, dtype=np.int64), axis=1)
    if view.kind == "raw":
        return X
    if view.kind == "standard":
        assert view.middle is not None
        assert view.spread is not None
        return graph.add("Div", graph.add("Sub", X, view.middle[None]), view.spread[None])
    if view.kind == "sqrt":
        X = graph.add("Mul", graph.add("Sign", X), graph.add("Sqrt", graph.add("Abs", X)))
    return graph.unit_rows(X)
