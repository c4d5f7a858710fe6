"""Estimators as JSON and arrays, and back: a fixed list of fields, no names of code.

Whatever a file says, only the classes named in this package are built, and every array is checked
against the shapes of the others before it is used.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.estimators import DSCM, MDA, MDAClassifier
from marda.estimators.refine import Round
from marda.persist.classifiers import (
    CLASSIFIERS,
    decode_classifier,
    decode_dscm,
    encode_classifier,
    encode_dscm,
)
from marda.persist.layers import SOLVERS, decode_layer, encode_layer
from marda.persist.model_file import ModelFileError
from marda.persist.values import Reader, Writer, count, number, one_of

__all__ = ["decode_model", "encode_model", "encode_shell", "make_shell"]

KINDS: dict[str, Any] = {"MDA": MDA, "MDAClassifier": MDAClassifier, "DSCM": DSCM}
SETTINGS = ("US", "SUP", "SS")
LINEAR = ("Z_", "_z0", "_scores_coef", "_scores_intercept")
SKILLS = ("source_skill", "target_skill")
ROUND = tuple(field.name for field in fields(Round))


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
    if type(estimator) not in KINDS.values():
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
    state |= {
        "layers": [encode_layer(x, out, f"layer{k}") for k, x in enumerate(estimator._layers)],
        "loss_curve": out.put("loss_curve", estimator.loss_curve_),
        "n_iter": int(estimator.n_iter_),
        "residual": getattr(estimator, "residual_", None),
        "setting": estimator.setting_,
        "solver": estimator.solver_,
        "domains": out.put("domains", estimator.domains_),
    }
    centers = estimator._centers
    if centers:
        state["centers"] = {
            "domains": out.put("centers.domains", np.array(list(centers), dtype=np.int64)),
            "means": out.put("centers.means", np.array(list(centers.values()))),
        }
    if isinstance(estimator, MDAClassifier):
        state |= _encode_fitted(estimator, out)
    return state


def _encode_fitted(estimator: MDAClassifier, out: Writer) -> dict[str, Any]:
    """What a classifier has beyond its layers."""
    state: dict[str, Any] = {
        "classes": out.labels("classes", estimator.classes_),
        "linear": {
            name: out.put(name.strip("_"), getattr(estimator, name))
            for name in LINEAR
            if hasattr(estimator, name)
        },
    }
    if hasattr(estimator, "rounds_"):
        state["rounds"] = [[getattr(one, name) for name in ROUND] for one in estimator.rounds_]
    for name in SKILLS:
        if hasattr(estimator, f"{name}_"):
            state[name] = float(getattr(estimator, f"{name}_"))
    if hasattr(estimator, "target_shares_"):
        state["target_shares"] = out.put("target_shares", estimator.target_shares_)
    if estimator.classifier != "ridge":
        state |= encode_classifier(estimator.classifier, estimator.classifier_, out)
    return state


def decode_model(state: dict[str, Any], reader: Reader) -> Any:
    """The estimator that `encode_model` described."""
    estimator = make_shell(KINDS[state["kind"]], state, reader)
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
    estimator._layers = layers
    features = total if len(layers) > 1 and estimator.concatenate else width
    estimator.loss_curve_ = reader.get(state["loss_curve"], None)
    estimator.n_iter_ = count(state["n_iter"])
    if state.get("residual") is not None:  # files of before fits were checked have none
        estimator.residual_ = number(state["residual"], 0)
    estimator.setting_ = one_of(state["setting"], SETTINGS)
    estimator.solver_ = one_of(state["solver"], SOLVERS)
    estimator.domains_ = reader.get(state["domains"], None, kind="i")
    estimator._centers = _decode_centers(state, reader, features)
    if bool(estimator.center) != bool(estimator._centers):
        raise ValueError("center does not fit the means of the domains")
    if isinstance(estimator, MDAClassifier):
        _decode_fitted(estimator, state, reader, features)
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
    estimator: MDAClassifier, state: dict[str, Any], reader: Reader, features: int
) -> None:
    name = one_of(estimator.classifier, CLASSIFIERS)
    estimator.classes_ = reader.labels(state["classes"])
    n, d = len(estimator.classes_), estimator.n_features_in_
    shapes = {
        "Z_": (features, n),
        "_z0": (n,),
        "_scores_coef": (n, d),
        "_scores_intercept": (n,),
    }
    for key, ref in state["linear"].items():
        setattr(estimator, key, reader.get(ref, *shapes[key]))
    # Scores of one layer without normalisation are linear in the rows.
    linear = estimator.n_layers == 1 and not estimator.normalize
    needed = LINEAR if linear else LINEAR[:2]
    if name == "ridge" and not set(needed) <= set(state["linear"]):
        raise ValueError("the class predictor is missing")
    if name != "ridge":
        estimator.classifier_ = decode_classifier(name, state, reader, estimator.classes_, features)
    if "rounds" in state:
        estimator.rounds_ = [_decode_round(one) for one in state["rounds"]]
    for name in SKILLS:
        if name in state:
            setattr(estimator, f"{name}_", number(state[name], 0, 1))
    if "target_shares" in state:
        estimator.target_shares_ = reader.get(state["target_shares"], len(estimator.classes_))


def _decode_round(values: Any) -> Round:
    schedule, step, kept, changed, agreement, error, used = values
    if not isinstance(used, bool):
        raise TypeError("a round of self-labelling is not what it should be")
    return Round(
        schedule=count(schedule),
        number=count(step),
        kept=count(kept),
        changed=count(changed),
        agreement=number(agreement),
        standard_error=number(error),
        used=used,
    )
