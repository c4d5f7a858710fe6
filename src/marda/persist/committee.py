"""`MDAClassifierCV` as JSON and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from marda.estimators import MDAClassifier
from marda.persist.state import SETTINGS, decode_model, encode_model, encode_shell, make_shell
from marda.persist.values import Reader, Writer, count, indices, number, one_of
from marda.selection import MDAClassifierCV
from marda.selection.ensemble import Ensemble, Member
from marda.selection.inputs import KINDS, Inputs

__all__ = ["decode_search", "encode_search"]

#: Fitted attributes of plain values: the record of the choice, which predictions do not read.
RECORD = (
    *("best_params_", "best_index_", "candidates_", "calibration_", "fit_seconds_"),
    *("source_skill_", "target_skill_", "residual_"),
)
INPUT_ARRAYS = ("columns", "middle", "spread")


def encode_search(estimator: MDAClassifierCV, out: Writer) -> dict[str, Any]:
    """A fitted `MDAClassifierCV` as JSON; its arrays go to `out`."""
    ensemble = estimator.ensemble_
    return {
        **encode_shell(estimator, out),
        "classes": out.labels("classes", estimator.classes_),
        "domains": out.put("domains", estimator.domains_),
        "setting": estimator.setting_,
        "sharpness": float(ensemble.sharpness),
        "record": {
            name: out.value(name, getattr(estimator, name))
            for name in RECORD
            if hasattr(estimator, name)
        },
        "members": [
            _encode_member(member, out.within(f"member{k}"))
            for k, member in enumerate(ensemble.members)
        ],
    }


def decode_search(state: dict[str, Any], reader: Reader) -> MDAClassifierCV:
    """The estimator that `encode_search` described."""
    estimator: MDAClassifierCV = make_shell(MDAClassifierCV, state, reader)
    estimator.classes_ = reader.labels(state["classes"])
    estimator.domains_ = reader.get(state["domains"], None, kind="i")
    estimator.setting_ = one_of(state["setting"], SETTINGS)
    for name, value in state["record"].items():
        setattr(estimator, one_of(name, RECORD), reader.value(value))
    if "source_skill" in state:  # files of before it was part of the record
        estimator.source_skill_ = number(state["source_skill"], 0, 1)
    members = tuple(_decode_member(one, reader, estimator) for one in state["members"])
    if not members:
        raise ValueError("an ensemble has no members")
    estimator.ensemble_ = Ensemble(members, number(state["sharpness"], 0))
    return estimator


def _encode_member(member: Member, out: Writer) -> dict[str, Any]:
    inputs = member.inputs
    return {
        "name": member.name,
        "weight": float(member.weight),
        "spread": float(member.spread),
        "view": {
            "kind": inputs.kind,
            **{
                name: out.put(f"view.{name}", getattr(inputs, name))
                for name in INPUT_ARRAYS
                if getattr(inputs, name) is not None
            },
        },
        "model": encode_model(member.model, out),
    }


def _decode_member(state: dict[str, Any], reader: Reader, estimator: MDAClassifierCV) -> Member:
    if not isinstance(state["name"], str):
        raise TypeError("the name of a member is not text")
    inputs = _decode_inputs(state["view"], reader, estimator.n_features_in_)
    model = decode_model(state["model"], reader)
    if not isinstance(model, MDAClassifier):
        raise TypeError("a member is no classifier")
    width = estimator.n_features_in_ if inputs.columns is None else len(inputs.columns)
    if model.n_features_in_ != width or not np.array_equal(model.classes_, estimator.classes_):
        raise ValueError("a member does not fit the ensemble")
    spread = number(state["spread"], low=np.finfo(np.float64).tiny)
    return Member(state["name"], inputs, model, number(state["weight"]), spread)


def _decode_inputs(state: dict[str, Any], reader: Reader, d: int) -> Inputs:
    kind = one_of(state["kind"], KINDS)
    columns = None
    if "columns" in state:
        columns = indices(reader.get(state["columns"], None, kind="i"), d)
    if kind != "standard":
        return Inputs(kind, columns)
    width = count(d if columns is None else len(columns))
    return Inputs(
        kind, columns, reader.get(state["middle"], width), reader.get(state["spread"], width)
    )
