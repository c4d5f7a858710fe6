"""Estimators as JSON and arrays, and back: a fixed list of fields, no names of code.

Whatever a file says, only the classes named in this package are built, and every array is checked
against the shapes of the others before it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from marda.estimators import DSCM, MDA, MDAClassifier
from marda.persist.container import ModelFileError
from marda.persist.layers import SOLVERS, decode_layer, encode_layer
from marda.persist.values import Reader, Writer, count, indices, one_of

__all__ = ["decode_estimator", "encode_estimator"]

KINDS: dict[str, Any] = {"MDA": MDA, "MDAClassifier": MDAClassifier, "DSCM": DSCM}
SETTINGS = ("US", "SUP", "SS")
LINEAR = ("Z_", "_z0", "_scores_coef", "_scores_intercept")


def encode_estimator(estimator: Any, out: Writer) -> dict[str, Any]:
    """A fitted estimator as JSON; its arrays go to `out`."""
    kind = next((name for name, cls in KINDS.items() if type(estimator) is cls), None)
    if kind is None:
        raise ModelFileError(
            f"{type(estimator).__name__} cannot be saved: a model file holds MDA, MDAClassifier "
            "or DSCM."
        )
    classifier = getattr(estimator, "classifier", None)
    if kind == "MDAClassifier" and not isinstance(classifier, str):
        raise ModelFileError(
            f"classifier={type(classifier).__name__}(…) cannot be saved: a file without pickle "
            "knows 'ridge', 'nn' and 'dscm' only. Save the estimator with skops.io.dump instead."
        )
    params = estimator.get_params(deep=False)
    state: dict[str, Any] = {
        "kind": kind,
        "parameters": {name: out.value(name, value) for name, value in params.items()},
        "n_features_in": int(estimator.n_features_in_),
    }
    if hasattr(estimator, "feature_names_in_"):
        state["feature_names"] = out.labels("feature_names", estimator.feature_names_in_)
    if kind == "DSCM":
        return {**state, "dscm": _encode_dscm(estimator, out)}
    state |= {
        "layers": [encode_layer(x, out, f"layer{k}") for k, x in enumerate(estimator._layers)],
        "loss_curve": out.put("loss_curve", estimator.loss_curve_),
        "n_iter": int(estimator.n_iter_),
        "setting": estimator.setting_,
        "solver": estimator.solver_,
        "domains": out.put("domains", estimator.domains_),
    }
    if kind == "MDAClassifier":
        state["classes"] = out.labels("classes", estimator.classes_)
        state["linear"] = {
            name: out.put(name.strip("_"), getattr(estimator, name))
            for name in LINEAR
            if hasattr(estimator, name)
        }
        if classifier == "nn":
            knn = estimator.classifier_
            state["nn"] = {
                "rows": out.put("nn.rows", knn._fit_X),
                "codes": out.put("nn.codes", np.asarray(knn._y, dtype=np.int64)),
            }
        if classifier == "dscm":
            state["dscm"] = _encode_dscm(estimator.classifier_, out)
    return state


def decode_estimator(state: dict[str, Any], reader: Reader) -> Any:
    """The estimator that `encode_estimator` described."""
    cls = KINDS[state["kind"]]
    known = cls().get_params(deep=False)
    given = {name: reader.value(value) for name, value in state["parameters"].items()}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]!r}")
    classifier = given.get("classifier", "ridge")
    if classifier not in ("ridge", "nn", "dscm"):
        raise ValueError("unknown classifier")
    estimator = cls(**given)
    d = estimator.n_features_in_ = count(state["n_features_in"])
    if "feature_names" in state:
        estimator.feature_names_in_ = reader.labels(state["feature_names"])
        if estimator.feature_names_in_.shape != (d,):
            raise ValueError("feature names do not fit the features")
    if state["kind"] == "DSCM":
        return _decode_dscm(state["dscm"], reader, estimator, d)
    layers, width, total = [], d, d
    for entry in state["layers"]:
        layers.append(decode_layer(entry, reader, width))
        width = layers[-1].map.shape[1]
        total += width
    if len(layers) != estimator.n_layers:
        raise ValueError("n_layers does not fit the layers")
    estimator._layers = layers
    features = total if len(layers) > 1 and estimator.concatenate else width
    estimator.loss_curve_ = reader.get(state["loss_curve"], None)
    estimator.n_iter_ = count(state["n_iter"])
    estimator.setting_ = one_of(state["setting"], SETTINGS)
    estimator.solver_ = one_of(state["solver"], SOLVERS)
    estimator.domains_ = reader.get(state["domains"], None, kind="i")
    if state["kind"] == "MDAClassifier":
        _decode_classifier(estimator, state, reader, features)
    return estimator


def _decode_classifier(
    estimator: Any, state: dict[str, Any], reader: Reader, features: int
) -> None:
    estimator.classes_ = reader.labels(state["classes"])
    n = len(estimator.classes_)
    d = estimator.n_features_in_
    shapes = {
        "Z_": (features, n),
        "_z0": (n,),
        "_scores_coef": (n, d),
        "_scores_intercept": (n,),
    }
    for name, ref in state["linear"].items():
        setattr(estimator, name, reader.get(ref, *shapes[name]))
    needed = ("Z_", "_z0") if estimator.n_layers > 1 else LINEAR
    if estimator.classifier == "ridge" and not all(hasattr(estimator, name) for name in needed):
        raise ValueError("the class predictor is missing")
    if estimator.classifier == "nn":
        rows = reader.get(state["nn"]["rows"], None, features)
        codes = reader.get(state["nn"]["codes"], rows.shape[0], kind="i")
        # A negative or large code raises here, before it can name a class that is not there.
        labels = estimator.classes_[indices(codes, n)]
        estimator.classifier_ = KNeighborsClassifier(n_neighbors=1).fit(rows, labels)
    if estimator.classifier == "dscm":
        estimator.classifier_ = _decode_dscm(state["dscm"], reader, DSCM(), features)


def _encode_dscm(dscm: DSCM, out: Writer) -> dict[str, Any]:
    return {
        "classes": out.labels("dscm.classes", dscm.classes_),
        "means": out.put("dscm.means", dscm.means_),
        "mean_domains": out.put("dscm.mean_domains", dscm.mean_domains_),
        "mean_classes": out.put("dscm.mean_classes", dscm.mean_classes_),
        "log_weights": out.put("dscm.log_weights", dscm._log_weights),
        "temperature": float(dscm.temperature_),
    }


def _decode_dscm(state: dict[str, Any], reader: Reader, dscm: DSCM, d: int) -> DSCM:
    dscm.n_features_in_ = d
    dscm.classes_ = reader.labels(state["classes"])
    dscm.means_ = reader.get(state["means"], None, d)
    n = dscm.means_.shape[0]
    dscm.mean_domains_ = reader.get(state["mean_domains"], n, kind="i")
    codes = reader.get(state["mean_classes"], n, kind="i")
    dscm.mean_classes_ = indices(codes, len(dscm.classes_))
    dscm._log_weights = reader.get(state["log_weights"], n)
    dscm.temperature_ = float(state["temperature"])
    return dscm
