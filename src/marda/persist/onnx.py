"""A fitted classifier as one ONNX graph: preprocessing of numbers, denoising, classifier.

The graph computes in float64, in the order of the formulas, so that its scores are marda's;
compact members, and linear ones beside them, in float32, as marda does.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

import marda
from marda._arrays import is_numpy
from marda._machine import format_bytes
from marda.estimators import DSCM, MDAClassifier
from marda.estimators.kernel_ridge import GaussianRidge
from marda.estimators.model import FittedModel
from marda.io import InputError, Preprocessing, replacing
from marda.io.columns import Date, Matrix, Number
from marda.operators.maps import DenoisingMap, IdentityMap, RowMap
from marda.persist import on_host
from marda.selection import MDAClassifierCV
from marda.selection.ensemble import Compact, Ensemble, Member, is_compact
from marda.selection.inputs import TAIL, Inputs
from marda.selection.regressions import LEAST
from marda.selection.source_only import Pool, SourceOnly
from marda.trees.boosting import Boosted
from marda.trees.forest import Forest

OPSET, IR_VERSION = 17, 8  # read by onnxruntime since 1.12
MAX_BYTES = 2**31 - 2**20  # protobuf's limit
LEAST_ROOT = 1e-30  # what the root of no float32 number but 0 is changed by
SINGLE_RANGE = 1e15  # lengths of rows up to which, and down to its inverse, squares fit in float32


class OnnxError(ValueError):
    """A model that has no ONNX graph; the message says why and what has one."""


def export(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write `estimator` as an ONNX graph.

    Parameters
    ----------
    estimator : MDAClassifier or MDAClassifierCV
        Fitted, with classifier "ridge", "kernel" or "dscm".
    path : path
        Replaced only once the file is complete.

    Notes
    -----
    Refused, by an `OnnxError` that says why: `classifier="nn"` and foreign classifiers; models of
    files with columns of words, categories or dates; graphs above 2 GB, where ONNX files end.
    """
    check_is_fitted(estimator)
    try:
        onnx = import_module("onnx")
    except ImportError:
        raise ImportError("to_onnx needs onnx: run pip install 'marda[onnx]'.") from None
    if _is_elsewhere(estimator):
        estimator = on_host(estimator)
    graph = Graph(onnx)
    columns, X = add_preprocessing(graph, estimator)
    if isinstance(estimator, MDAClassifierCV):
        full, compact = estimator.ensemble_, estimator.compact_
        scores = add_ensemble_scores(graph, full if compact is None else compact, X)
        sharp = graph.add("Mul", scores, np.array([[full.sharpness]]))
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


def _is_elsewhere(estimator: Any) -> bool:
    """Whether arrays of a model are of another library."""
    models = [estimator]
    if isinstance(estimator, MDAClassifierCV):
        models = [member.adapted for member in estimator.members_ if member.adapted is not None]
    return any(not is_numpy(model.model_.layers[0].map.offset) for model in models)


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


# The graph under construction ---------------------------------------------------------------------


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

    @property
    def types(self) -> Any:
        """ONNX's names of types."""
        return self._onnx.TensorProto

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

    def single(self, value: NDArray[Any], *, half: bool = False) -> str:
        """A stored array that is computed with in float32; `half`: it is stored as float16."""
        name = f"c{len(self._constants)}"
        stored = np.asarray(value, dtype=np.float16 if half else np.float32, order="C")
        self._bytes += stored.nbytes
        self._constants.append(self._onnx.numpy_helper.from_array(stored, name))
        return self.add("Cast", name, to=self._onnx.TensorProto.FLOAT) if half else name

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
            producer_version=marda.__version__,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, {"columns": json.dumps(columns, ensure_ascii=False)})
        self._onnx.checker.check_model(model)
        return model


# Columns and their preprocessing ------------------------------------------------------------------


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
        elif isinstance(step, Date):
            raise OnnxError(
                f"column {step.name!r} holds dates, which the graph cannot read: only numbers are "
                "exported. Adapt without it, or turn it into numbers before, such as days."
            )
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


# Denoising maps: W as a matrix, or training rows where that is smaller ----------------------------


def add_map(graph: Graph, found: DenoisingMap, H: str) -> str:
    """X W + offset for the rows H; centred first, so that rows far away keep their digits."""
    level = found.offset
    if found.center.any():
        H, level = graph.add("Sub", H, found.center[None]), found.at_center
    if isinstance(found.base, RowMap) and _rows_are_smaller(found.base):
        H = _with_delta(graph, found, H, _row_map(graph, found.base, H))
    elif isinstance(found.base, IdentityMap):
        H = _with_delta(graph, found, H, H)
    else:
        H = _matrix(graph, found, H)
    return graph.add("Add", H, level[None]) if level.any() else H


def _matrix(graph: Graph, found: DenoisingMap, H: str) -> str:
    graph.reserve(found.shape, found.dtype, "W, the denoising map,")
    try:
        return graph.add("MatMul", H, found.dense())
    except MemoryError as error:
        raise OnnxError(f"the graph holds W as a matrix: {error}") from None


def _with_delta(graph: Graph, found: DenoisingMap, H: str, product: str) -> str:
    """The part of low rank beside the base: X W₀ + (X Δ) Uᵀ."""
    if not found.delta.shape[1]:
        return product
    inner = graph.add("MatMul", H, found.delta)
    return graph.add("Add", product, graph.add("MatMul", inner, found.basis.T))


def _rows_are_smaller(base: RowMap) -> bool:
    n, d = base.rows.shape
    return n * d + base.core.size + base.extra.size < d * base.shape[1]


def _row_map(graph: Graph, base: RowMap, H: str) -> str:
    """X [diag(w)X̂ᵀ  E] core X̂, as weights on training rows and then those rows."""
    X = base.rows.X
    graph.reserve(X.shape, X.dtype, "W, by way of the training rows,")
    rows = graph.constant(X.toarray() if sp.issparse(X) else X)
    if base.rows.center is not None:
        rows = graph.add("Sub", rows, base.rows.center[None])
    weighted = graph.add("Mul", H, base.weights[None])
    scores = graph.add("MatMul", weighted, graph.add("Transpose", rows, perm=[1, 0]))
    if base.extra.shape[1]:
        scores = graph.add("Concat", scores, graph.add("MatMul", H, base.extra), axis=1)
    if base.outputs is not None:
        rows = graph.add("Gather", rows, np.asarray(base.outputs, dtype=np.int64), axis=1)
    return graph.add("MatMul", graph.add("MatMul", scores, base.core), rows)


# Classifiers --------------------------------------------------------------------------------------


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


# Ensembles ----------------------------------------------------------------------------------------


def add_ensemble_scores(graph: Graph, ensemble: Ensemble, X: str) -> str:
    """Scores of all classes: the members', standardised and weighted."""
    made: dict[Any, str] = {}  # inputs that several members have in common
    single: dict[Any, tuple[str, str]] = {}  # the same in float32, with the lengths of rows
    compact = is_compact(ensemble)
    parts = []
    for member in ensemble.members:
        key, inputs = member.inputs.key, member.inputs
        if compact and inputs.kind in ("unit", "sqrt") and _in_single(member):
            if key not in single:
                single[key] = _scaled_inputs(graph, inputs, X, single)
            S = _single_scores(graph, member, *single[key])
        else:
            if key not in made:
                made[key] = _inputs(graph, inputs, X)
            S = _scores(graph, member, made[key])
        parts.append(_standardised_scores(graph, member, S))
    return graph.add("Sum", *parts)


def _in_single(member: Member) -> bool:
    """Whether its scores are computed in float32: compact members, and linear ones beside them."""
    if isinstance(member.model, Compact):
        return True
    return member.adapted is not None and member.adapted.model_.coef is not None


def _single_scores(graph: Graph, member: Member, rows: str, lengths: str) -> str:
    if isinstance(member.model, Compact):
        return _compact(graph, member.model, rows, lengths)
    assert member.adapted is not None
    model = member.adapted.model_
    assert model.coef is not None
    S = graph.add("MatMul", rows, graph.single(model.coef.T))
    S = graph.add("Cast", graph.add("Div", S, lengths), to=graph.types.DOUBLE)
    return graph.add("Add", S, np.asarray(model.intercept)[None])


def _scores(graph: Graph, member: Member, rows: str) -> str:
    if isinstance(member.model, SourceOnly):
        return _source_only(graph, member.model, rows)
    if isinstance(member.model, Compact):
        return _compact(graph, member.model, graph.add("Cast", rows, to=graph.types.FLOAT))
    assert member.adapted is not None
    return add_class_scores(graph, member.adapted, rows)


def _standardised_scores(graph: Graph, member: Member, S: str) -> str:
    centred = graph.add("Sub", S, graph.add("ReduceMean", S, axes=[1], keepdims=1))
    return graph.add("Mul", centred, np.array([[member.weight / member.spread]]))


def _scaled_inputs(
    graph: Graph, inputs: Inputs, X: str, made: dict[Any, tuple[str, str]]
) -> tuple[str, str]:
    """Float32 rows of any length, and these lengths: products are divided, not the rows.

    Rows whose squares leave the range of float32 get a NaN, which shows in every output.
    """
    types, one, columns = graph.types, graph.single, ("columns", id(inputs.columns))
    if columns not in made:
        if inputs.columns is not None:
            X = graph.add("Gather", X, np.asarray(inputs.columns, dtype=np.int64), axis=1)
        rows = graph.add("Cast", X, to=types.FLOAT)
        made[columns] = rows, graph.add("ReduceL1", rows, axes=[1], keepdims=1)
    rows, total = made[columns]
    least, most = (one(np.full((1, 1), value)) for value in (1 / SINGLE_RANGE, SINGLE_RANGE))
    filled = graph.add("Greater", total, one(np.zeros((1, 1))))
    odd = graph.add(
        "Or",
        graph.add("And", filled, graph.add("Less", total, least)),
        graph.add("Greater", total, most),
    )
    if inputs.kind == "unit":
        lengths = graph.add("ReduceL2", rows, axes=[1], keepdims=1)
    else:
        # Divided by their own roots: quicker than by their signs, and 0 stays 0.
        roots = graph.add("Sqrt", graph.add("Abs", rows))
        roots = graph.add("Add", roots, one(np.full((1, 1), LEAST_ROOT)))
        rows, lengths = graph.add("Div", rows, roots), graph.add("Sqrt", total)
    lengths = graph.add("Where", filled, lengths, one(np.ones((1, 1))))
    return rows, graph.add("Where", odd, one(np.full((1, 1), np.nan)), lengths)


def _compact(graph: Graph, model: Compact, rows: str, lengths: str | None = None) -> str:
    """The series of the exponential (selection/ensemble.py), in float32."""
    types, one = graph.types, graph.single
    k, leading = model.matrix.shape[1] - len(model.intercept), model.landmarks.shape[1]
    thin = one(model.matrix[:, :k], half=True), one(model.matrix[:, k:])
    P = graph.add("MatMul", rows, graph.add("Concat", *thin, axis=1))
    P = P if lengths is None else graph.add("Div", P, lengths)
    P = graph.add("Mul", P, one(model.scale[None]))
    P = graph.add("Add", P, one(model.shift[None]))
    H = _columns(graph, P, 0, k)
    S = _columns(graph, P, k, model.matrix.shape[1])
    lengths = graph.add("ReduceL2", H, axes=[1], keepdims=1)
    empty = graph.add("Equal", lengths, one(np.zeros((1, 1))))
    lengths = graph.add("Where", empty, one(np.ones((1, 1))), lengths)
    S = graph.add("Add", graph.add("Div", S, lengths), one(model.intercept[None]))
    G = graph.add("Div", _columns(graph, H, 0, model.n_directions), lengths)
    first = _columns(graph, G, 0, leading)
    T = graph.add("MatMul", first, one(model.landmarks.T, half=True))
    parts = [
        S,
        graph.add("MatMul", first, one(model.slope)),
        graph.add("MatMul", graph.add("Exp", T), one(model.coef)),
    ]
    if model.quadratic is not None:
        rest = _columns(graph, G, leading, model.n_directions)
        parts.append(graph.add("MatMul", graph.add("Mul", rest, rest), one(model.quadratic)))
    return graph.add("Cast", graph.add("Sum", *parts), to=types.DOUBLE)


def _columns(graph: Graph, G: str, start: int, stop: int) -> str:
    return graph.add("Slice", G, np.array([start]), np.array([stop]), np.array([1]))


def _inputs(graph: Graph, inputs: Inputs, X: str) -> str:
    if inputs.columns is not None:
        X = graph.add("Gather", X, np.asarray(inputs.columns, dtype=np.int64), axis=1)
    if inputs.kind == "raw":
        return X
    if inputs.kind in ("standard", "robust"):
        return _standardised(graph, inputs, X)
    if inputs.kind == "leaves":
        assert inputs.forest is not None
        return _leaf_rows(graph, inputs.forest, X)
    if inputs.kind == "aligned":
        assert inputs.factor is not None
        assert inputs.offset is not None
        matrix = inputs.factor.ndim == 2
        moved = (
            graph.add("MatMul", X, inputs.factor)
            if matrix
            else graph.add("Mul", X, inputs.factor[None])
        )
        return graph.add("Add", moved, inputs.offset[None])
    if inputs.kind == "sqrt":
        X = graph.add("Mul", graph.add("Sign", X), graph.add("Sqrt", graph.add("Abs", X)))
    return graph.unit_rows(X)


def _standardised(graph: Graph, inputs: Inputs, X: str) -> str:
    """Columns in units of their spread; "robust" ones draw in what lies beyond the knee."""
    assert inputs.middle is not None
    assert inputs.spread is not None
    Z = graph.add("Div", graph.add("Sub", X, inputs.middle[None]), inputs.spread[None])
    if inputs.kind == "standard":
        return Z
    assert inputs.knee is not None
    body = graph.add("Clip", Z, np.array(-inputs.knee), np.array(inputs.knee))
    tail = graph.add("Sub", Z, body)
    one, end = np.ones((1, 1)), np.array([[TAIL]])
    size = graph.add("Add", graph.add("Div", graph.add("Abs", tail), end), one)
    size = graph.add("Sub", end, graph.add("Div", end, size))
    return graph.add("Add", body, graph.add("Mul", graph.add("Sign", tail), size))


# Source-only models -------------------------------------------------------------------------------


def _source_only(graph: Graph, found: SourceOnly, X: str) -> str:
    """Log-probabilities of all classes."""
    rows, model = _inputs(graph, found.inputs, X), found.model
    if isinstance(model, Forest):
        P = _forest(graph, model, rows)
        mixed = graph.add("Mul", P, np.array([[1 - LEAST]]))
        least = np.array([[LEAST / model.values.shape[1]]])
        S = graph.add("Log", graph.add("Add", mixed, least))
    elif isinstance(model, Boosted):
        n_trees = np.array([[float(len(model.forest.roots))]])
        S = graph.add("Mul", _forest(graph, model.forest, rows), n_trees)
    elif isinstance(model, GaussianRidge):
        S = _kernel(graph, model, rows)
    elif isinstance(model, Pool):
        pairs = zip(model.weights, model.parts, strict=True)
        parts = [graph.add("Mul", _source_only(graph, p, rows), np.array([[w]])) for w, p in pairs]
        S = graph.add("Sum", *parts)
    else:
        S = graph.add("Add", graph.add("MatMul", rows, model.coef), model.intercept[None])
    sharp = graph.add("Mul", S, np.array([[found.sharpness]]))
    return graph.add("LogSoftmax", graph.add("Add", sharp, found.bias[None]), axis=1)


def _forest(graph: Graph, forest: Forest, X: str) -> str:
    """Class shares of the leaves, mean over trees."""
    shares = graph.add("Gather", forest.values, _leaf_numbers(graph, forest, X))
    return graph.add("ReduceMean", shares, axes=[1], keepdims=0)


def _leaf_rows(graph: Graph, forest: Forest, X: str) -> str:
    """Rows of zeros, with the same number in the column of every leaf that a row falls into."""
    leaves = _leaf_numbers(graph, forest, X)
    n = graph.add("Shape", X, start=0, end=1)
    shape = graph.add("Concat", n, np.array([len(forest.values)]), axis=0)
    zeros = graph.add("Expand", np.zeros((1, 1)), shape)
    height = np.full((1, 1), len(forest.roots) ** -0.5)
    ones = graph.add("Expand", height, graph.add("Shape", leaves))
    return graph.add("ScatterElements", zeros, leaves, ones, axis=1)


def _leaf_numbers(graph: Graph, forest: Forest, X: str) -> str:
    """Numbers of the leaves, (n_rows, n_trees): all trees are walked down a level at a time."""
    types = graph.types
    bound = float(np.finfo(np.float32).max)
    X = graph.add("Div", graph.add("Sub", X, forest.middle[None]), forest.unit[None])
    X = graph.add("Clip", X, np.array(-bound), np.array(bound))
    X = graph.add("Cast", graph.add("Cast", X, to=types.FLOAT), to=types.DOUBLE)
    leaf = forest.feature < 0
    # Here leaves lead to themselves, so that all walks are of the same length.
    own = np.arange(len(leaf))[:, None]
    children = graph.constant(np.where(leaf[:, None], own, forest.children).ravel())
    feature = graph.constant(np.where(leaf, 0, forest.feature))
    threshold = graph.constant(forest.threshold)
    n = graph.add("Shape", X, start=0, end=1)
    shape = graph.add("Concat", n, np.array([len(forest.roots)]), axis=0)
    at = graph.add("Expand", forest.roots[None], shape)
    for _ in range(forest.depth):
        value = graph.add("GatherElements", X, graph.add("Gather", feature, at), axis=1)
        right = graph.add("Greater", value, graph.add("Gather", threshold, at))
        place = graph.add("Add", graph.add("Add", at, at), graph.add("Cast", right, to=types.INT64))
        at = graph.add("Gather", children, place)
    number = np.where(leaf, forest.children[:, 0], 0)
    return graph.add("Gather", number, at)
