"""`MDAClassifierCV` as JSON and arrays, and back: members, their inputs, source-only models.

The rules are those of models.py: only what is named here is built, and every array is checked
against the shapes of the others. A forest checks its own nodes (trees/forest.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.estimators import MDAClassifier
from marda.estimators.kernel_ridge import GaussianRidge
from marda.persist.models import (
    SETTINGS,
    ModelFileError,
    Reader,
    Writer,
    count,
    decode_kernel,
    decode_model,
    encode_kernel,
    encode_model,
    encode_shell,
    indices,
    make_shell,
    number,
    one_of,
)
from marda.selection import MDAClassifierCV
from marda.selection.ensemble import BATCH, Compact, Ensemble, Member, is_compact
from marda.selection.inputs import ALL_KINDS, Inputs
from marda.selection.regressions import Linear
from marda.selection.source_only import SOURCE_KINDS, Pool, SourceOnly
from marda.shift import KINDS as SHIFT_KINDS
from marda.shift import ClassPrior, Explanation, Move, Shift
from marda.trees.boosting import Boosted
from marda.trees.forest import Forest

#: Fitted attributes of plain values: the record of the choice, which predictions do not read.
RECORD = (
    *("best_params_", "best_index_", "candidates_", "calibration_", "fit_seconds_"),
    *("source_skill_", "target_skill_", "residual_", "compression_", "n_rows_used_"),
    "silent_columns_",
)
INPUT_ARRAYS = ("columns", "middle", "spread", "factor", "offset")
#: Arrays of a forest, and their kinds.
FOREST_ARRAYS = {
    "roots": "i",
    "feature": "i",
    "threshold": "f",
    "children": "i",
    "values": "f",
    "middle": "f",
    "unit": "f",
}
#: Fields of an explanation of the shift.
EXPLANATION = ("name", "p_value", "z", "left", "fits", "rival_p", "weight")
EXPLANATION_ARRAYS = ("shares", "factor", "offset")
MOVE = ("column", "name", "factor", "offset", "by")
PRIOR_ARRAYS = ("source", "target", "standard_error", "by_confusion")
#: The kind of a member's model that knows the source alone.
SOURCE_ONLY = "SourceOnly"
#: The kind of a compact one, and its float32 arrays.
COMPACT = "Compact"
COMPACT_ARRAYS = ("scale", "shift", "intercept", "slope", "coef")
TINY = np.finfo(np.float64).tiny


def encode_search(estimator: MDAClassifierCV, out: Writer, *, full: bool = False) -> dict[str, Any]:
    """A fitted `MDAClassifierCV` as JSON; its arrays go to `out`.

    Where it has compact members they stand in for the full ones, or beside them if these are asked
    for.
    """
    ensemble, compact = estimator.ensemble_, estimator.compact_
    if full and is_compact(ensemble):
        raise ModelFileError(
            "compress=False: this model was read from a compressed file, which holds no full "
            "members. Save the model that was fitted."
        )
    if compact is not None and not full:
        ensemble, compact = compact, None
    beside: dict[str, Any] = {}
    if compact is not None:
        beside["compact"] = [
            _encode_member(member, out.within(f"compact{k}"))
            for k, member in enumerate(compact.members)
        ]
    return {
        **beside,
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
        "shift": _encode_shift(getattr(estimator, "shift_", None), out.within("shift")),
    }


def decode_search(state: dict[str, Any], reader: Reader) -> MDAClassifierCV:
    """The estimator that `encode_search` described."""
    estimator: MDAClassifierCV = make_shell(MDAClassifierCV, state, reader)
    estimator.classes_ = reader.labels(state["classes"])
    estimator.domains_ = reader.get(state["domains"], None, kind="i")
    estimator.setting_ = one_of(state["setting"], SETTINGS)
    for name, value in state["record"].items():
        setattr(estimator, one_of(name, RECORD), reader.value(value))
    if "source_skill" in state:  # older files, where it is no part of the record
        estimator.source_skill_ = number(state["source_skill"], 0, 1)
    estimator.ensemble_ = _decode_ensemble(state, "members", reader, estimator)
    estimator.compact_ = None
    if "compact" in state:
        estimator.compact_ = _decode_ensemble(state, "compact", reader, estimator)
    if "candidates" in state["parameters"] and estimator.candidates == "auto":
        estimator.shift_ = _decode_shift(state.get("shift"), reader, estimator)
    return estimator


def _decode_ensemble(
    state: dict[str, Any], name: str, reader: Reader, estimator: MDAClassifierCV
) -> Ensemble:
    members = tuple(_decode_member(one, reader, estimator) for one in state[name])
    if not members:
        raise ValueError("an ensemble has no members")
    found = Ensemble(members, number(state["sharpness"], 0))
    return replace(found, batch=BATCH) if is_compact(found) else found


# What differs -------------------------------------------------------------------------------------


def _encode_shift(shift: Shift | None, out: Writer) -> dict[str, Any] | None:
    if shift is None:
        return None
    state: dict[str, Any] = {
        "kind": shift.kind,
        "stories": list(shift.fitting),  # keys of the files stay: old ones are read
        "tales": [
            {
                **{name: out.value(name, getattr(one, name)) for name in EXPLANATION},
                **_arrays(one, EXPLANATION_ARRAYS, out.within(f"tale{k}")),
            }
            for k, one in enumerate(shift.explanations)
        ],
        "moved": [
            {name: out.value(name, getattr(move, name)) for name in MOVE} for move in shift.moved
        ],
        **{name: out.value(name, getattr(shift, name)) for name in ("left", "carried", "level")},
        "reason": shift.reason,
        "selected": shift.selected,
    }
    if shift.prior is not None:
        state["prior"] = _arrays(shift.prior, PRIOR_ARRAYS, out.within("prior"))
        state["prior"]["agree"] = bool(shift.prior.agree)
    return state


def _arrays(found: Any, names: tuple[str, ...], out: Writer) -> dict[str, Any]:
    values = {name: getattr(found, name) for name in names}
    return {name: out.put(name, value) for name, value in values.items() if value is not None}


def _decode_shift(
    state: dict[str, Any] | None, reader: Reader, estimator: MDAClassifierCV
) -> Shift | None:
    """What `_encode_shift` described; None, too, of older files, which have none."""
    if state is None:
        return None
    d, C = estimator.n_features_in_, len(estimator.classes_)
    explanations = tuple(_decode_explanation(one, reader, d, C) for one in state["tales"])
    known = tuple(one.name for one in explanations)
    prior = None
    if "prior" in state:
        source, target, error, other = (reader.get(state["prior"][n], C) for n in PRIOR_ARRAYS)
        prior = ClassPrior(source, target, error, other, _flag(state["prior"]["agree"]))
    return Shift(
        one_of(state["kind"], SHIFT_KINDS),
        tuple(one_of(name, known) for name in state["stories"]),
        explanations,
        estimator.classes_,
        prior,
        tuple(_decode_move(one, d) for one in state["moved"]),
        number(state["left"]),
        number(state["carried"]),
        _text(state["reason"]),
        number(state["level"], 0, 1),
        _flag(state.get("selected", False)),
    )


def _decode_explanation(state: dict[str, Any], reader: Reader, d: int, C: int) -> Explanation:
    factor = offset = None
    if "factor" in state:
        matrix = len(reader.shape(state["factor"])) == 2
        factor = reader.get(state["factor"], *((d, d) if matrix else (d,)))
        offset = reader.get(state["offset"], d)
    return Explanation(
        one_of(state["name"], SHIFT_KINDS),
        number(state["p_value"], 0, 1),
        number(reader.value(state["z"])),
        number(state["left"]),
        _flag(state["fits"]),
        None if state["rival_p"] is None else number(state["rival_p"], 0, 1),
        number(state["weight"], 0),
        reader.get(state["shares"], C) if "shares" in state else None,
        factor,
        offset,
    )


def _decode_move(state: dict[str, Any], d: int) -> Move:
    column = count(state["column"])
    if column >= d:
        raise ValueError("a moved column is not there")
    numbers = (number(state[name]) for name in ("factor", "offset", "by"))
    return Move(column, _text(state["name"]), *numbers)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("a flag is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is none")
    return value


# Members ------------------------------------------------------------------------------------------


def _encode_member(member: Member, out: Writer) -> dict[str, Any]:
    encode: Any = encode_model
    if isinstance(member.model, SourceOnly):
        encode = _encode_source_only
    elif isinstance(member.model, Compact):
        encode = _encode_compact
    return {
        "name": member.name,
        "weight": float(member.weight),
        "spread": float(member.spread),
        "view": _encode_inputs(member.inputs, out.within("view")),
        "model": encode(member.model, out),
    }


def _decode_member(state: dict[str, Any], reader: Reader, estimator: MDAClassifierCV) -> Member:
    inputs = _decode_inputs(state["view"], reader, estimator.n_features_in_)
    width = inputs.width(estimator.n_features_in_)
    model: MDAClassifier | SourceOnly | Compact
    if state["model"]["kind"] == SOURCE_ONLY:
        model = _decode_source_only(state["model"], reader, estimator.classes_, width)
    elif state["model"]["kind"] == COMPACT:
        model = _decode_compact(state["model"], reader, len(estimator.classes_), width)
    else:
        model = decode_model(state["model"], reader)
        if not isinstance(model, MDAClassifier):
            raise TypeError("a member is no classifier")
        if model.n_features_in_ != width or not np.array_equal(model.classes_, estimator.classes_):
            raise ValueError("a member does not fit the ensemble")
    spread = number(state["spread"], low=TINY)
    return Member(_text(state["name"]), inputs, model, number(state["weight"]), spread)


def _encode_compact(model: Compact, out: Writer) -> dict[str, Any]:
    k = model.matrix.shape[1] - len(model.intercept)
    state = {
        "kind": COMPACT,
        "projection": out.put("projection", model.matrix[:, :k].astype(np.float16)),
        "linear": out.put("linear", np.ascontiguousarray(model.matrix[:, k:])),
        "landmarks": out.put("landmarks", model.landmarks.astype(np.float16)),
        **{name: out.put(name, getattr(model, name)) for name in COMPACT_ARRAYS},
    }
    if model.quadratic is not None:
        state["quadratic"] = out.put("quadratic", model.quadratic)
    return {**state, "directions": int(model.n_directions)}


def _decode_compact(state: dict[str, Any], reader: Reader, C: int, d: int) -> Compact:
    r = count(state["directions"])
    projection, linear = (
        reader.get(state[n], d, w) for n, w in (("projection", None), ("linear", C))
    )
    landmarks = _single(reader.get(state["landmarks"], None, None))
    (n, leading), k = landmarks.shape, projection.shape[1]
    if not leading <= r <= k:
        raise ValueError("the directions of a compact member do not fit its landmarks")
    shapes: dict[str, tuple[int, ...]] = {
        "scale": (k + C,),
        "shift": (k + C,),
        "intercept": (C,),
        "slope": (leading, C),
        "coef": (n, C),
    }
    arrays = {name: _single(reader.get(state[name], *shapes[name])) for name in COMPACT_ARRAYS}
    quadratic = None
    if leading < r:
        quadratic = _single(reader.get(state["quadratic"], r - leading, C))
    return Compact(
        matrix=_single(np.hstack([projection.astype(np.float32), linear])),
        landmarks=landmarks,
        quadratic=quadratic,
        n_directions=r,
        **arrays,
    )


def _single(array: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype=np.float32)


# Inputs -------------------------------------------------------------------------------------------


def _encode_inputs(inputs: Inputs, out: Writer) -> dict[str, Any]:
    state: dict[str, Any] = {"kind": inputs.kind}
    for name in INPUT_ARRAYS:
        if getattr(inputs, name) is not None:
            state[name] = out.put(name, getattr(inputs, name))
    if inputs.knee is not None:
        state["knee"] = float(inputs.knee)
    if inputs.forest is not None:
        state["forest"] = _encode_forest(inputs.forest, out)
    return state


def _decode_inputs(state: dict[str, Any], reader: Reader, d: int) -> Inputs:
    kind = one_of(state["kind"], ALL_KINDS)
    columns = None
    if "columns" in state:
        columns = indices(reader.get(state["columns"], None, kind="i"), d)
    width = count(d if columns is None else len(columns))
    if kind in ("standard", "robust"):
        knee = number(state["knee"], 0) if kind == "robust" else None
        middle, spread = (reader.get(state[name], width) for name in ("middle", "spread"))
        if not (spread > 0).all():
            raise ValueError("a column has no spread")
        return Inputs(kind, columns, middle, spread, knee)
    if kind == "leaves":
        return Inputs(kind, columns, forest=_decode_forest(state["forest"], reader, width))
    if kind == "aligned":
        offset = reader.get(state["offset"], None)
        matrix = len(reader.shape(state["factor"])) == 2
        factor = reader.get(state["factor"], *((width, len(offset)) if matrix else (width,)))
        if not matrix and len(offset) != width:
            raise ValueError("aligned columns do not fit the rows")
        return Inputs(kind, columns, factor=factor, offset=offset)
    return Inputs(kind, columns)


# Source-only models -------------------------------------------------------------------------------


def _encode_source_only(found: SourceOnly, out: Writer) -> dict[str, Any]:
    state: dict[str, Any] = {
        "kind": SOURCE_ONLY,
        "voice": found.kind,
        "inputs": _encode_inputs(found.inputs, out.within("inputs")),
        "sharpness": float(found.sharpness),
        "shares": out.put("shares", found.shares),
        "bias": out.put("bias", found.bias),
    }
    model = found.model
    if isinstance(model, Forest | Boosted):
        trees = model.forest if isinstance(model, Boosted) else model
        return {**state, "forest": _encode_forest(trees, out)}
    if isinstance(model, GaussianRidge):
        return {**state, "kernel": encode_kernel(model, out)}
    if isinstance(model, Pool):
        parts = [
            _encode_source_only(part, out.within(f"part{k}")) for k, part in enumerate(model.parts)
        ]
        return {**state, "parts": parts, "weights": out.put("weights", model.weights)}
    return {
        **state,
        "coef": out.put("coef", model.coef),
        "intercept": out.put("intercept", model.intercept),
    }


def _decode_source_only(
    state: dict[str, Any], reader: Reader, classes: NDArray[Any], d: int
) -> SourceOnly:
    kind, n = one_of(state["voice"], SOURCE_KINDS), len(classes)
    inputs = _decode_inputs(state["inputs"], reader, d)
    width = inputs.width(d)
    model: Linear | GaussianRidge | Forest | Boosted | Pool
    if kind == "pool":
        parts = tuple(_decode_source_only(part, reader, classes, width) for part in state["parts"])
        if not parts:
            raise ValueError("a pool has no models")
        model = Pool(parts, reader.get(state["weights"], len(parts)))
    elif kind in ("forest", "boosting"):
        trees = _decode_forest(state["forest"], reader, width)
        if trees.values.shape[1] != n:
            raise ValueError("a forest does not fit the classes")
        model = Boosted(trees) if kind == "boosting" else trees
    elif kind == "kernel":
        model = decode_kernel(state["kernel"], reader, np.arange(n), width)
    else:
        model = Linear(reader.get(state["coef"], width, n), reader.get(state["intercept"], n))
    return SourceOnly(
        inputs,
        model,
        number(state["sharpness"], low=TINY),
        reader.get(state["shares"], n),
        reader.get(state["bias"], n),
    )


def _encode_forest(forest: Forest, out: Writer) -> dict[str, Any]:
    return {name: out.put(f"forest.{name}", getattr(forest, name)) for name in FOREST_ARRAYS}


def _decode_forest(state: dict[str, Any], reader: Reader, d: int) -> Forest:
    shapes: dict[str, tuple[int | None, ...]] = {
        "children": (None, 2),
        "values": (None, None),
        "middle": (d,),
        "unit": (d,),
    }
    arrays: dict[str, Any] = {
        name: reader.get(state[name], *shapes.get(name, (None,)), kind=kind).astype(f"{kind}8")
        for name, kind in FOREST_ARRAYS.items()
    }
    return Forest(**arrays)
