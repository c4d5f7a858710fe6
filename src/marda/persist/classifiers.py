"""Classifiers on denoised rows as JSON and arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from marda.estimators import DSCM
from marda.estimators.heads import GaussianRidge
from marda.persist.values import Reader, Writer, indices, number

__all__ = ["CLASSIFIERS", "decode_classifier", "decode_dscm", "encode_classifier", "encode_dscm"]

#: Values of `classifier` that a file may hold.
CLASSIFIERS = ("ridge", "kernel", "nn", "dscm")


def encode_classifier(name: str, fitted: Any, out: Writer) -> dict[str, Any]:
    """The `classifier_` of that name, as one entry of a model's JSON."""
    if name == "kernel":
        return {"kernel": _encode_kernel(fitted, out)}
    if name == "nn":
        codes = np.asarray(fitted._y, dtype=np.int64)
        return {
            "nn": {"rows": out.put("nn.rows", fitted._fit_X), "codes": out.put("nn.codes", codes)}
        }
    return {"dscm": encode_dscm(fitted, out)}


def decode_classifier(
    name: str, state: dict[str, Any], reader: Reader, classes: NDArray[Any], d: int
) -> Any:
    """The `classifier_` of that name, for rows of d features."""
    if name == "kernel":
        return _decode_kernel(state["kernel"], reader, classes, d)
    if name == "nn":
        rows = reader.get(state["nn"]["rows"], None, d)
        codes = reader.get(state["nn"]["codes"], rows.shape[0], kind="i")
        # A negative or large code raises here, before it can name a class that is not there.
        labels = classes[indices(codes, len(classes))]
        return KNeighborsClassifier(n_neighbors=1).fit(rows, labels)
    return decode_dscm(state["dscm"], reader, DSCM(), d)


def _encode_kernel(kernel: GaussianRidge, out: Writer) -> dict[str, Any]:
    return {
        "basis": out.put("kernel.basis", kernel.basis_),
        "coef": out.put("kernel.coef", kernel.coef_),
        "intercept": out.put("kernel.intercept", kernel.intercept_),
        "variance": float(kernel.variance_),
    }


def _decode_kernel(
    state: dict[str, Any], reader: Reader, classes: NDArray[Any], d: int
) -> GaussianRidge:
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
