"""Estimators as JSON and arrays, and back: a fixed list of fields, no names of code.

Whatever a file says, only the classes named in this package are built, and every array is checked
against the shapes of the others before it is used.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.estimators import DSCM, MDA, MDAClassifier
from marda.estimators.model import ACTIVATIONS, FittedModel, SelfTraining
from marda.estimators.pseudo_labels import Round
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
#: Fields of the class predictor, by their names in files.
LINEAR = {"Z_": "Z", "_z0": "z0", "_scores_coef": "coef", "_scores_intercept": "intercept"}
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
            "means": out.put("centers.means", np.array(means)),
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
