"""Estimators as JSON and arrays, and back: a fixed list of fields, no names of code.

Whatever a file says, only the classes named here are built, and every array is checked against the
shapes of the others before it is used. Fields of before there was a `FittedModel` keep their names.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import to_numpy
from marda.estimators import DSCM, MDA, MDAClassifier
from marda.estimators.heads import GaussianRidge, NearestRow
from marda.estimators.model import (
    ACTIVATIONS,
    CLASSIFIERS,
    FittedModel,
    Layer,
    SelfTraining,
)
from marda.estimators.pseudo_labels import Round
from marda.operators.maps import DenoisingMap, DenseMap, IdentityMap, Map, RowMap
from marda.operators.rows import Rows
from marda.persist.model_file import ModelFileError, Reader, Writer, count, indices, number, one_of

__all__ = [
    "SETTINGS",
    "decode_kernel",
    "decode_model",
    "encode_kernel",
    "encode_model",
    "encode_shell",
    "make_shell",
]

ESTIMATORS: dict[str, Any] = {"MDA": MDA, "MDAClassifier": MDAClassifier, "DSCM": DSCM}
SETTINGS = ("US", "SUP", "SS")
#: Fields of the class predictor, by their names in files.
LINEAR = {"Z_": "Z", "_z0": "z0", "_scores_coef": "coef", "_scores_intercept": "intercept"}
SKILLS = ("source_skill", "target_skill")
ROUND = tuple(field.name for field in fields(Round))
SOLVERS = ("primal", "dual", "cg")


def encode_shell(estimator: Any, out: Writer) -> dict[str, Any]:
    """What every estimator has: its kind, parameters and features."""
    params = estimator.get_params(deep=False)
    state: dict[str, Any] = {
        "kind": type(estimator).__name__,
        "parameters": {name: out.value(name, value) for name, value in params.items()},
        "n_features_in": int(estimator.n_features_in_),
    }
    if hasattr(estimator, "feature_names_in_"):
        state["feature_names"] = out.labels("feature_names", estimator.feature_names_in_)
    return state


def make_shell(cls: Any, state: dict[str, Any], reader: Reader) -> Any:
    """An estimator with the parameters and features that `encode_shell` described."""
    known = cls().get_params(deep=False)
    given = {name: reader.value(value) for name, value in state["parameters"].items()}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]!r}")
    estimator = cls(**given)
    d = estimator.n_features_in_ = count(state["n_features_in"])
    if "feature_names" in state:
        estimator.feature_names_in_ = reader.labels(state["feature_names"])
        if estimator.feature_names_in_.shape != (d,):
            raise ValueError("feature names do not fit the features")
    return estimator


def encode_model(estimator: Any, out: Writer) -> dict[str, Any]:
    """A fitted `MDA`, `MDAClassifier` or `DSCM` as JSON; its arrays go to `out`."""
    if type(estimator) not in ESTIMATORS.values():
        raise ModelFileError(
            f"{type(estimator).__name__} cannot be saved: a model file holds MDA, MDAClassifier, "
            "MDAClassifierCV or DSCM."
        )
    classifier = getattr(estimator, "classifier", "ridge")
    if not isinstance(classifier, str):
        raise ModelFileError(
            f"classifier={type(classifier).__name__}(…) cannot be saved: a file without pickle "
            f"knows {', '.join(map(repr, CLASSIFIERS))} only. Save the estimator with "
            "skops.io.dump instead."
        )
    state = encode_shell(estimator, out)
    if isinstance(estimator, DSCM):
        return {**state, "dscm": encode_dscm(estimator, out)}
    model = estimator.model_
    state |= {
        "layers": [encode_layer(x, out, f"layer{k}") for k, x in enumerate(model.layers)],
        "loss_curve": out.put("loss_curve", model.loss_curve),
        "n_iter": int(model.n_iter),
        "residual": model.residual,
        "setting": model.setting,
        "solver": model.solver,
        "domains": out.put("domains", model.domains),
    }
    if model.centers:
        domains, means = list(model.centers), list(model.centers.values())
        state["centers"] = {
            "domains": out.put("centers.domains", np.array(domains, dtype=np.int64)),
            "means": out.put("centers.means", np.array([to_numpy(mean) for mean in means])),
        }
    if isinstance(estimator, MDAClassifier):
        state |= _encode_fitted(model, out)
        if estimator.classifier != "ridge":
            state |= encode_classifier(estimator.classifier, model.classifier, out)
    return state


def _encode_fitted(model: FittedModel, out: Writer) -> dict[str, Any]:
    """What a classifier has beyond its layers."""
    state: dict[str, Any] = {
        "classes": out.labels("classes", np.asarray(model.classes)),
        "linear": {
            name: out.put(name.strip("_"), getattr(model, field))
            for name, field in LINEAR.items()
            if getattr(model, field) is not None
        },
    }
    training = model.training
    if training is None:
        return state
    state["rounds"] = [[getattr(one, name) for name in ROUND] for one in training.rounds]
    for name in SKILLS:
        if getattr(training, name) is not None:
            state[name] = float(getattr(training, name))
    if training.target_shares is not None:
        state["target_shares"] = out.put("target_shares", training.target_shares)
    return state


def decode_model(state: dict[str, Any], reader: Reader) -> Any:
    """The estimator that `encode_model` described."""
    estimator = make_shell(ESTIMATORS[state["kind"]], state, reader)
    d = estimator.n_features_in_
    if isinstance(estimator, DSCM):
        return decode_dscm(state["dscm"], reader, estimator, d)
    layers, width, total = [], d, d
    for entry in state["layers"]:
        layers.append(decode_layer(entry, reader, width))
        width = layers[-1].map.shape[1]
        total += width
    if not layers or len(layers) != estimator.n_layers:
        raise ValueError("n_layers does not fit the layers")
    features = total if len(layers) > 1 and estimator.concatenate else width
    centers = _decode_centers(state, reader, features)
    if bool(estimator.center) != bool(centers):
        raise ValueError("center does not fit the means of the domains")
    model = FittedModel(
        tuple(layers),
        reader.get(state["domains"], None, kind="i"),
        one_of(state["setting"], SETTINGS),
        reader.get(state["loss_curve"], None),
        count(state["n_iter"]),
        # Files of before fits were checked have none.
        None if state.get("residual") is None else number(state["residual"], 0),
        one_of(estimator.activation, tuple(ACTIVATIONS)),
        bool(estimator.concatenate),
        bool(estimator.normalize),
        centers,
    )
    if one_of(state["solver"], SOLVERS) != model.solver:
        raise ValueError("the solver is not that of the first layer")
    if isinstance(estimator, MDAClassifier):
        model = _decode_fitted(estimator, model, state, reader, features)
    estimator.model_ = model
    return estimator


def _decode_centers(
    state: dict[str, Any], reader: Reader, features: int
) -> dict[int, NDArray[Any]]:
    """Means of denoised rows by domain; files of format 1 have none."""
    if "centers" not in state:
        return {}
    domains = reader.get(state["centers"]["domains"], None, kind="i").tolist()
    means = reader.get(state["centers"]["means"], len(domains), features)
    return dict(zip(domains, means, strict=True))


def _decode_fitted(
    estimator: MDAClassifier,
    model: FittedModel,
    state: dict[str, Any],
    reader: Reader,
    features: int,
) -> FittedModel:
    name = one_of(estimator.classifier, CLASSIFIERS)
    classes = reader.labels(state["classes"])
    n, d = len(classes), estimator.n_features_in_
    shapes = {
        "Z_": (features, n),
        "_z0": (n,),
        "_scores_coef": (n, d),
        "_scores_intercept": (n,),
    }
    linear: dict[str, Any] = {
        LINEAR[key]: reader.get(ref, *shapes[key]) for key, ref in state["linear"].items()
    }
    # Scores of one layer without normalisation are linear in the rows.
    needed = LINEAR.values() if len(model.layers) == 1 and not model.normalize else ("Z", "z0")
    if name == "ridge" and not set(needed) <= set(linear):
        raise ValueError("the class predictor is missing")
    classifier = None
    if name != "ridge":
        classifier = decode_classifier(name, state, reader, classes, features)
    training = None
    if "rounds" in state:
        skills: dict[str, Any] = {k: number(state[k], 0, 1) for k in SKILLS if k in state}
        shares = None
        if "target_shares" in state:
            shares = reader.get(state["target_shares"], n)
        rounds = [_decode_round(one) for one in state["rounds"]]
        training = SelfTraining(rounds, **skills, target_shares=shares)
    return replace(model, classes=classes, classifier=classifier, training=training, **linear)


def _decode_round(values: Any) -> Round:
    schedule, step, kept, changed, agreement, error, used = values
    if not isinstance(used, bool):
        raise TypeError("a round of pseudo-labels is not what it should be")
    return Round(
        schedule=count(schedule),
        number=count(step),
        kept=count(kept),
        changed=count(changed),
        agreement=number(agreement),
        standard_error=number(error),
        used=used,
    )


# Layers -------------------------------------------------------------------------------------------


def encode_layer(layer: Layer, out: Writer, name: str) -> dict[str, Any]:
    """A layer as JSON; its arrays go to `out`."""
    found, base = layer.map, layer.map.base
    state: dict[str, Any] = {
        "solver": layer.solver,
        "dtype": str(found.dtype).rpartition(".")[2],
        "outputs": None if layer.outputs is None else out.put(f"{name}.outputs", layer.outputs),
        **{
            field: out.put(f"{name}.{field}", getattr(found, field))
            for field in ("delta", "basis", "offset", "center", "at_center")
        },
    }
    if isinstance(base, DenseMap):
        return {**state, "map": "dense", "W": out.put(f"{name}.W", base.W)}
    if isinstance(base, IdentityMap):
        return {**state, "map": "identity", "n_features": base.shape[0]}
    if isinstance(base, RowMap):
        return {**state, "map": "rows", **_encode_rows(base, out, name)}
    raise ModelFileError(
        "a model of solver='cg' cannot be saved: its map is an iteration over the training rows, "
        "not a matrix. Fit with solver='primal' or 'dual', or set n_pivots."
    )


def _encode_rows(base: RowMap, out: Writer, name: str) -> dict[str, Any]:
    X, center = base.rows.X, base.rows.center
    state = {
        "row_center": None if center is None else out.put(f"{name}.row_center", center),
        "weights": out.put(f"{name}.weights", base.weights),
        "extra": out.put(f"{name}.extra", base.extra),
        "core": out.put(f"{name}.core", base.core),
        "shape": list(X.shape),
    }
    if not sp.issparse(X):
        return {**state, "X": out.put(f"{name}.X", X)}
    parts = ("data", "indices", "indptr")
    return {**state, "X": {part: out.put(f"{name}.X.{part}", getattr(X, part)) for part in parts}}


def decode_layer(state: dict[str, Any], reader: Reader, d: int) -> Layer:
    """The layer of d inputs that `encode_layer` described."""
    outputs = None
    if state["outputs"] is not None:
        outputs = indices(reader.get(state["outputs"], None, kind="i"), d)
    r = d if outputs is None else len(outputs)
    base: Map
    if state["map"] == "dense":
        base = DenseMap(reader.get(state["W"], d, r))
    elif state["map"] == "identity":
        base = IdentityMap(d)
    elif state["map"] == "rows":
        base = _decode_rows(state, reader, outputs, d)
    else:
        raise ValueError("unknown map")
    if base.shape != (d, r):
        raise ValueError("a map does not fit its outputs")
    k = reader.get(state["delta"], d, None).shape[1]
    found = DenoisingMap(
        base,
        reader.get(state["delta"], d, k),
        reader.get(state["basis"], r, k),
        reader.get(state["offset"], r),
        one_of(state["dtype"], ("float64", "float32")),
        center=reader.get(state["center"], d),
        at_center=reader.get(state["at_center"], r),
    )
    return Layer(found, one_of(state["solver"], SOLVERS), outputs)


def _decode_rows(
    state: dict[str, Any], reader: Reader, outputs: NDArray[np.int64] | None, d: int
) -> RowMap:
    if "array" in state["X"]:
        X: Any = reader.get(state["X"], None, d)
    else:
        n = count(state["shape"][0])
        parts = state["X"]
        indptr = reader.get(parts["indptr"], n + 1, kind="i")
        columns = reader.get(parts["indices"], None, kind="i")
        data = reader.get(parts["data"], len(columns))
        X = sp.csr_array((data, columns, indptr), shape=(n, d))
        X.check_format(full_check=True)  # scipy's products trust indices: wrong ones read anywhere
    center = None if state["row_center"] is None else reader.get(state["row_center"], d)
    extra = reader.get(state["extra"], d, None)
    n = X.shape[0]
    return RowMap(
        Rows(X, center),
        outputs,
        reader.get(state["weights"], d),
        extra,
        reader.get(state["core"], n + extra.shape[1], n),
    )


# Classifiers on denoised rows ---------------------------------------------------------------------


def encode_classifier(name: str, fitted: Any, out: Writer) -> dict[str, Any]:
    """The `classifier_` of that name, as one entry of a model's JSON."""
    if name == "kernel":
        return {"kernel": encode_kernel(fitted, out)}
    if name == "nn":
        codes = np.searchsorted(fitted.classes_, fitted.labels_).astype(np.int64)
        return {
            "nn": {"rows": out.put("nn.rows", fitted.rows_), "codes": out.put("nn.codes", codes)}
        }
    if name == "dscm":
        return {"dscm": encode_dscm(fitted, out)}
    raise AssertionError(f"classifier {name!r} has no place in model files")


def decode_classifier(
    name: str, state: dict[str, Any], reader: Reader, classes: NDArray[Any], d: int
) -> Any:
    """The `classifier_` of that name, for rows of d features."""
    if name == "kernel":
        return decode_kernel(state["kernel"], reader, classes, d)
    if name == "nn":
        rows = reader.get(state["nn"]["rows"], None, d)
        codes = reader.get(state["nn"]["codes"], rows.shape[0], kind="i")
        # A negative or large code raises here, before it can name a class that is not there.
        labels = classes[indices(codes, len(classes))]
        return NearestRow(n_neighbors=1).fit(rows, labels)
    if name == "dscm":
        return decode_dscm(state["dscm"], reader, DSCM(), d)
    raise AssertionError(f"classifier {name!r} has no place in model files")


def encode_kernel(kernel: GaussianRidge, out: Writer) -> dict[str, Any]:
    """A Gaussian-kernel classifier as JSON; its arrays go to `out`."""
    return {
        "basis": out.put("kernel.basis", kernel.basis_),
        "coef": out.put("kernel.coef", kernel.coef_),
        "intercept": out.put("kernel.intercept", kernel.intercept_),
        "variance": float(kernel.variance_),
    }


def decode_kernel(
    state: dict[str, Any], reader: Reader, classes: NDArray[Any], d: int
) -> GaussianRidge:
    """The classifier of rows of d features that `encode_kernel` described."""
    basis = reader.get(state["basis"], None, d)
    variance = number(state["variance"], low=np.finfo(np.float64).tiny)
    coef = reader.get(state["coef"], basis.shape[0], len(classes))
    intercept = reader.get(state["intercept"], len(classes))
    return GaussianRidge(classes, basis, coef, intercept, variance)


def encode_dscm(dscm: DSCM, out: Writer) -> dict[str, Any]:
    """Class means as JSON; their arrays go to `out`."""
    return {
        "classes": out.labels("dscm.classes", dscm.classes_),
        "means": out.put("dscm.means", dscm.means_),
        "mean_domains": out.put("dscm.mean_domains", dscm.mean_domains_),
        "mean_classes": out.put("dscm.mean_classes", dscm.mean_classes_),
        "log_weights": out.put("dscm.log_weights", dscm.log_weights_),
        "temperature": float(dscm.temperature_),
    }


def decode_dscm(state: dict[str, Any], reader: Reader, dscm: DSCM, d: int) -> DSCM:
    """The class means of d features that `encode_dscm` described."""
    dscm.n_features_in_ = d
    dscm.classes_ = reader.labels(state["classes"])
    dscm.means_ = reader.get(state["means"], None, d)
    n = dscm.means_.shape[0]
    dscm.mean_domains_ = reader.get(state["mean_domains"], n, kind="i")
    codes = reader.get(state["mean_classes"], n, kind="i")
    dscm.mean_classes_ = indices(codes, len(dscm.classes_))
    dscm.log_weights_ = reader.get(state["log_weights"], n)
    dscm.temperature_ = float(state["temperature"])
    return dscm
