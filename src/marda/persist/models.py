"""Model files: estimators as JSON and arrays, and back; what a file may hold, and its errors.

A model file is a container of the kind `marda-model`, with a fixed list of fields and no names of
code. Whatever a file says, only the classes named here are built, and every array is checked
against the shapes of the others before it is used. Names of fields are those of the oldest files
that are read.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import to_numpy
from marda._machine import available_memory, format_bytes
from marda.estimators import DSCM, MDA, MDAClassifier
from marda.estimators.heads import NearestRow
from marda.estimators.kernel_ridge import GaussianRidge
from marda.estimators.model import (
    ACTIVATIONS,
    CLASSIFIERS,
    FittedModel,
    Layer,
    SelfTraining,
)
from marda.estimators.pseudo_labels import Round
from marda.io.container import (
    MAX_HEADER,
    Arrays,
    ContainerError,
    Foreign,
    Kind,
    Newer,
    TooLarge,
    open_container,
    write_container,
)
from marda.noise import Dropout, Gaussian, Noise, Poisson
from marda.operators.maps import DenoisingMap, DenseMap, IdentityMap, Map, RowMap
from marda.operators.rows import Rows

#: 2: models that centre, normalise and refine, kernel classifiers, `MDAClassifierCV`.
#: 3: source-only members, inputs that are forest leaves or aligned rows.
#: 4: compact members.
FORMAT = 4
MODEL = Kind("marda-model", FORMAT, readable=tuple(map(str, range(1, FORMAT + 1))))
ESTIMATORS: dict[str, Any] = {"MDA": MDA, "MDAClassifier": MDAClassifier, "DSCM": DSCM}
SETTINGS = ("US", "SUP", "SS")
#: Fields of the class predictor, by their names in files.
LINEAR = {"Z_": "Z", "_z0": "z0", "_scores_coef": "coef", "_scores_intercept": "intercept"}
SKILLS = ("source_skill", "target_skill")
ROUND = tuple(field.name for field in fields(Round))
SOLVERS = ("primal", "dual", "cg")


class ModelFileError(ValueError):
    """A file that cannot be read as a model, or a model that a file cannot hold."""


def write_file(path: str | os.PathLike[str], content: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays and JSON content; the file appears whole or not at all."""
    try:
        write_container(path, MODEL, content, arrays)
    except TypeError as error:
        raise ModelFileError(f"a model file cannot hold {error}.") from None
    except OverflowError as error:
        raise ModelFileError(
            f"names and parameters take {format_bytes(error.args[0])}, a model file holds "
            f"{format_bytes(MAX_HEADER)} of them."
        ) from None


def read_file(
    path: str | os.PathLike[str], limit: int | None = None
) -> tuple[dict[str, Any], Arrays]:
    """JSON content and arrays, or one `ModelFileError`."""
    path = Path(path)
    limit = available_memory() if limit is None else limit
    try:
        with open_container(path, MODEL, limit=limit) as file:
            return file.content, {name: file[name] for name in file.shapes}
    except ContainerError as error:
        raise ModelFileError(f"{path} {_sentence(error, limit)}") from None


def _sentence(error: ContainerError, limit: int) -> str:
    if isinstance(error, Foreign):
        return "is not a marda model file: give one written by save or --model."
    if isinstance(error, Newer):
        return (
            f"has format {error.version}, of marda {error.marda}; this marda reads formats up to "
            f"{FORMAT}: upgrade marda."
        )
    if isinstance(error, TooLarge):
        return (
            f"declares {format_bytes(error.size)}, above the limit of {format_bytes(limit)}: "
            "raise MARDA_MEMORY if the file is yours."
        )
    return f"is damaged ({error}): copy the model file again or save the model anew."


# What JSON may hold: parameters, labels and references to arrays ----------------------------------

#: Arrays of fewer bytes are stored again rather than compared with others.
SHARED_BYTES = 4096


class Writer:
    """Collects arrays under names for a file; one in column order is kept as its transpose."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._prefix = ""
        self._seen: dict[tuple[Any, ...], str] = {}

    def within(self, name: str) -> Writer:
        """A writer of the same arrays, whose names begin with this one."""
        inner = Writer()
        inner.arrays, inner._seen = self.arrays, self._seen
        inner._prefix = f"{self._prefix}{name}."
        return inner

    def put(self, name: str, array: Any) -> dict[str, Any]:
        """Keep an array and return its reference: products depend on its order, to the last bit."""
        array = np.asarray(to_numpy(array))
        columns = array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous
        stored = self._store(self._prefix + name, array.T if columns else array)
        return {"array": stored, "transposed": True} if columns else {"array": stored}

    def _store(self, name: str, array: NDArray[Any]) -> str:
        """Keep an array once: models of the same rows have large parts in common."""
        if array.nbytes >= SHARED_BYTES:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
            key = (array.dtype.str, array.shape, hashlib.sha256(raw).digest())
            if key in self._seen:
                return self._seen[key]
            self._seen[key] = name
        self.arrays[name] = array
        return name

    def value(self, name: str, value: Any) -> Any:
        """A parameter as JSON."""
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, np.generic):
            return self.value(name, value.item())
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, Dropout):
            return {"noise": "dropout", "p": self.value(name, value.p), "unbiased": value.unbiased}
        if isinstance(value, Gaussian):
            return {"noise": "gaussian", "sigma": self.value(name, value.sigma)}
        if isinstance(value, Poisson):
            return {"noise": "poisson"}
        if isinstance(value, dict):
            pairs = [[self.value(name, k), self.value(name, v)] for k, v in value.items()]
            return {"pairs": pairs}
        if isinstance(value, list | tuple):
            items = [self.value(name, item) for item in value]
            return {"tuple" if isinstance(value, tuple) else "list": items}
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            return self.put(self._free(f"parameter.{name}"), value)
        raise ModelFileError(
            f"{name}={type(value).__name__}(…) cannot be saved: a model file holds numbers, words "
            "and marda's noise objects only. Set it otherwise before fit, or use skops."
        )

    def _free(self, name: str) -> str:
        """A name that no array has: a grid may hold several arrays of one parameter."""
        free, n = name, 1
        while self._prefix + free in self.arrays:
            free, n = f"{name}.{n}", n + 1
        return free

    def labels(self, name: str, values: NDArray[Any]) -> Any:
        """Classes or names: numbers as an array, strings as JSON."""
        if values.dtype.kind in "fiub":
            return self.put(name, values)
        texts = values.tolist()
        if not all(isinstance(text, str) for text in texts):
            raise ModelFileError(f"{name} of type {type(texts[0]).__name__} cannot be saved.")
        return {"texts": texts, "object": values.dtype.kind == "O"}


class Reader:
    """The inverse of `Writer`; anything unexpected raises."""

    def __init__(self, arrays: Arrays):
        self.arrays = arrays

    def get(self, ref: Any, *shape: int | None, kind: str = "f") -> NDArray[Any]:
        """An array of the wanted kind and shape (None: any length)."""
        array = self._array(ref)
        fits = len(shape) == array.ndim and all(
            want in (None, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind not in kind or not fits:
            raise ValueError(f"array {ref['array']!r} has an unexpected shape or type")
        return array

    def shape(self, ref: Any) -> tuple[int, ...]:
        """Of an array."""
        return self._array(ref).shape

    def _array(self, ref: Any) -> NDArray[Any]:
        array = self.arrays[ref["array"]]
        return array.T if ref.get("transposed") else array

    def value(self, value: Any) -> Any:
        """A parameter."""
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise ValueError("a list is no parameter")
            return value
        if "float" in value:
            return float(value["float"])
        if "pairs" in value:
            return {self.value(k): self.value(v) for k, v in value["pairs"]}
        if "list" in value:
            return [self.value(item) for item in value["list"]]
        if "tuple" in value:
            return tuple(self.value(item) for item in value["tuple"])
        if "noise" in value:
            return self._noise(value)
        return self._array(value)

    def _noise(self, value: dict[str, Any]) -> Noise:
        if value["noise"] == "dropout":
            return Dropout(self.value(value["p"]), bool(value["unbiased"]))
        if value["noise"] == "gaussian":
            return Gaussian(self.value(value["sigma"]))
        if value["noise"] == "poisson":
            return Poisson()
        raise ValueError("unknown noise")

    def labels(self, value: dict[str, Any]) -> NDArray[Any]:
        """Classes or names."""
        if "texts" not in value:
            return self.get(value, None, kind="fiub")
        if not all(isinstance(text, str) for text in value["texts"]):
            raise ValueError("names must be text")
        longest = max(map(len, value["texts"]), default=0)
        # An array of strings gives every one the room of the longest.
        if not value["object"] and 4 * longest * len(value["texts"]) > MAX_HEADER:
            raise ValueError("names are too long")
        return np.array(value["texts"], dtype=object if value["object"] else str)


def count(value: Any) -> int:
    """A whole number, at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError("a count is not a whole number")
    return value


def number(value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number within bounds."""
    if type(value) not in (int, float) or not math.isfinite(value) or not low <= value <= high:
        raise ValueError("a number is out of range")
    return float(value)


def one_of(value: Any, allowed: tuple[str, ...]) -> str:
    """A word of a list."""
    if value not in allowed:
        raise ValueError(f"expected one of {allowed}")
    return str(value)


def indices(codes: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Whole numbers in [0, size)."""
    if codes.size and (codes.min() < 0 or codes.max() >= size):
        raise ValueError("an index is out of range")
    return codes.astype(np.int64, copy=False)


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
        # The oldest files have none.
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
    return {"dscm": encode_dscm(fitted, out)}


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
    return decode_dscm(state["dscm"], reader, DSCM(), d)


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
