"""What goes into a fit and what comes out: `TrainingRows`, `ModelSettings`, `FittedModel`; frozen.

Features are the rows denoised by one map, or by several in a row and side by side; centred at the
mean of their domain and brought to unit length if so set. Estimators hold one `FittedModel`;
whatever else reads a model (files, ONNX, selection) reads this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier

from marda._arrays import (
    column_means,
    float64,
    host_type,
    is_numpy,
    like,
    namespace,
    rows_at,
    to_numpy,
)
from marda._validation import UNLABELED, Labels, check_flags, check_number
from marda.estimators.heads import class_scores
from marda.estimators.pseudo_labels import Round
from marda.noise import Dropout, as_noise
from marda.operators.maps import DenoisingMap, DenseMap
from marda.operators.rows import Rows
from marda.problem import Settings
from marda.terms import Model, parse_method

Matrix = NDArray[Any]
Index = NDArray[np.int64]
Centers = Mapping[int, Matrix]
#: Domain → its classes (None: all rows are one group), and the mean of each.
GroupMeans = dict[int, tuple[Index | None, Matrix]]

#: Classifiers on denoised rows that have a name.
CLASSIFIERS = ("ridge", "kernel", "nn", "dscm")

#: What is left of a row after centring is rounding below this many units of its last place.
ROUNDINGS = 32
#: ... or below this share of its length: denoised rows are sums over many terms.
ROUNDING = 1e-12
CACHE_BYTES = 2**20
#: An entry of a sparse row takes as long as so many of a dense one.
SPARSE_COST = 10

ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {
    "tanh": np.tanh,
    "relu": lambda H: np.maximum(H, 0),
    "identity": lambda H: H,
}


@dataclass(frozen=True)
class TrainingRows:
    """Checked rows of a fit, their labels and domains.

    Attributes
    ----------
    X : array or CSR array of shape (n_rows, n_features)
        Rows of all domains.
    labels : Labels
        Class values, and one code per row.
    domain : array of shape (n_rows,)
        At least 0 for a source, below 0 for a target.
    ordered : bool
        Whether rows stand in an order of their own (_order.py) already.
    """

    X: Any
    labels: Labels
    domain: Index
    ordered: bool = True

    @property
    def setting(self) -> str:
        """US, SUP or SS: follows from which target rows carry a label."""
        known = self.labels.codes != UNLABELED
        if known.all():
            return "SUP"
        return "SS" if (known & (self.domain < 0)).any() else "US"


@dataclass(frozen=True)
class ModelSettings:
    """Checked parameters of `MDA` or `MDAClassifier`, by their names there.

    Attributes
    ----------
    terms : Model
        What `method` means.
    problem : Settings
        Noise, ridges and weights.
    classifier : str, classifier or None
        None: the model gives features only.
    seed : int
        Of all draws of the fit.
    """

    terms: Model
    problem: Settings
    class_weight: Any = None
    n_layers: int = 1
    activation: str = "tanh"
    concatenate: bool = True
    center: bool = False
    normalize: bool = False
    solver: str = "auto"
    n_pivots: int | None = None
    max_iter: int = 100
    tol: float = 1e-5
    classifier: Any = None
    ridge_class: Any = 1.0
    refine: Any = 0
    seed: int = 0
    verbose: int = 0

    @property
    def is_ridge(self) -> bool:
        """Whether the classifier is Z of the framework, or a plain ridge on features."""
        return isinstance(self.classifier, str) and self.classifier == "ridge"

    @property
    def on_features(self) -> bool:
        """Whether a classifier learns from features, even if it is the ridge."""
        return self.classifier is not None and learns_from_features(vars(self))

    @property
    def relearns(self) -> bool:
        """Whether pseudo-labels change W too."""
        return self.terms.joint or self.terms.class_mmd


def learns_from_features(parameters: Mapping[str, Any]) -> bool:
    """Whether the classifier of an estimator with these parameters learns from features."""
    name = parameters["classifier"]
    plain = isinstance(name, str) and name == "ridge"
    return bool(
        parameters["center"] or parameters["normalize"] or parameters["refine"] != 0 or not plain
    )


def why_numpy(parameters: Mapping[str, Any]) -> str:
    """Why a model with these parameters takes numpy arrays only, or nothing."""
    for name, only in (
        *(("classifier", "ridge"), ("refine", 0), ("center", False), ("normalize", False)),
        *(("n_layers", 1), ("n_pivots", None)),
    ):
        value = parameters.get(name, only)
        if not (value is only or (isinstance(value, type(only)) and value == only)):
            return f"{name}={value!r} is for numpy arrays: of other libraries, {name}={only!r}."
    if parameters["solver"] == "cg":
        return "solver='cg' is for numpy arrays: of other libraries, 'primal' or 'dual'."
    return ""


def settings_of(parameters: Mapping[str, Any], *, seed: int = 0) -> ModelSettings:
    """The settings that an estimator's parameters mean; senseless ones raise."""
    if "classifier" in parameters:
        check_classifier(parameters)
    terms = parse_method(parameters["method"])
    for name, allowed in (
        ("marginalization", ("exact", "paper")),
        ("class_means", ("labelled", "source-to-target")),
        ("scaling", ("balanced", "paper", "relative")),
        ("activation", tuple(ACTIVATIONS)),
        ("solver", ("auto", "primal", "dual", "cg")),
    ):
        if parameters[name] not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, got {parameters[name]!r}.")
    for name, low in (("n_layers", 1), ("max_iter", 1), ("n_pivots", 1)):
        value = parameters[name]
        if value is None and name == "n_pivots":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            raise ValueError(f"{name} must be a whole number, at least {low}, got {value!r}.")
    check_flags(parameters, "fit_intercept", "concatenate", "normalize", "center")
    check_number("tol", parameters["tol"])
    if parameters["n_pivots"] is not None and not terms.denoise:
        raise ValueError(f"n_pivots has no meaning for {terms.name}, which does not denoise.")
    ridge_class = parameters["ridge_class"]
    # The marginalised predictor is not asked for with an "auto" ridge.
    chosen = "classifier" in parameters and isinstance(ridge_class, str) and ridge_class == "auto"
    problem = Settings(
        noise=Dropout(0.0) if terms.name == "BL" else as_noise(parameters["noise"]),
        ridge=check_number("ridge", parameters["ridge"]),
        ridge_class=1.0 if chosen else check_number("ridge_class", ridge_class),
        ridge_domain=check_number("ridge_domain", parameters["ridge_domain"]),
        class_loss_weight=check_number("class_loss_weight", parameters["class_loss_weight"]),
        domain_loss_weight=check_number("domain_loss_weight", parameters["domain_loss_weight"]),
        marginalization=parameters["marginalization"],
        scaling=parameters["scaling"],
        fit_intercept=bool(parameters["fit_intercept"]),
        class_means=parameters["class_means"],
    )
    as_they_are = {
        name: parameters[name]
        for name in (
            *("class_weight", "n_layers", "activation", "concatenate", "center", "normalize"),
            *("solver", "n_pivots", "max_iter", "tol", "ridge_class", "verbose"),
        )
    }
    of_classifier = {n: parameters[n] for n in ("classifier", "refine") if n in parameters}
    return ModelSettings(terms, problem, **as_they_are, **of_classifier, seed=seed)


def check_classifier(parameters: Mapping[str, Any]) -> None:
    """The values of `classifier`, `refine` and `ridge_class` that go together."""
    classifier, given = parameters["classifier"], parameters["refine"]
    if isinstance(classifier, str):
        known = classifier in CLASSIFIERS
    else:
        known = isinstance(classifier, BaseEstimator) and is_classifier(classifier)
    if not known:
        raise ValueError(
            "classifier must be 'ridge', 'kernel', 'nn', 'dscm' or a scikit-learn classifier, "
            f"got {classifier!r}."
        )
    has_ridge = isinstance(classifier, str) and classifier in ("ridge", "kernel")
    rounds = given if isinstance(given, tuple | list) else (given,)
    whole = [isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in rounds]
    if given != "auto" and (not whole or not all(whole)):
        raise ValueError(
            "refine must be a number of rounds (at least 0), several of them, or 'auto', got "
            f"{given!r}."
        )
    several = given == "auto" or len(rounds) > 1
    if several and not has_ridge:
        raise ValueError(
            f"refine={given!r} averages schedules, which classifier={classifier!r} "
            "cannot: use one number of rounds, or classifier='ridge' or 'kernel'."
        )
    terms = parse_method(parameters["method"]) if several else None
    if terms is not None and (terms.joint or terms.class_mmd):
        raise ValueError(
            f"refine={given!r} averages schedules, which learn different features with "
            f"method={parameters['method']!r}: use one number of rounds, or a method without J12 "
            "and C."
        )
    ridge = parameters["ridge_class"]
    chosen = isinstance(ridge, str) and ridge == "auto"
    on_features = learns_from_features(parameters)
    if chosen and not (has_ridge and on_features):
        raise ValueError(
            "ridge_class='auto' is for classifier='kernel', or 'ridge' on centred, normalised "
            f"or refined rows, got classifier={classifier!r}: give a number."
        )
    if not chosen and has_ridge and on_features:
        check_number("ridge_class", ridge, strict=True)


@dataclass(frozen=True)
class Layer:
    """One fitted layer: its map, the route that found it, and its outputs (None: all columns)."""

    map: DenoisingMap
    solver: str
    outputs: Index | None


@dataclass(frozen=True, eq=False)
class SelfTraining:
    """How the classifier was fitted on features, with pseudo-labels of the target or without.

    Attributes
    ----------
    rounds : list of Round
        What every round of pseudo-labels kept and changed.
    source_skill, target_skill : float, default=None
        From 0 (chance) to 1 (accuracy_estimation.py); None: not asked for.
    target_shares : array of shape (n_classes,), default=None
        Class shares of the target for which sources were centred.
    left_out : tuple of arrays, default=None
        Places, classes and scores of source rows by the classifier without them: calibration reads
        it. Not part of model files.
    """

    rounds: list[Round]
    source_skill: float | None = None
    target_skill: float | None = None
    target_shares: NDArray[np.float64] | None = None
    left_out: tuple[Index, Index, NDArray[np.float64]] | None = None


@dataclass(frozen=True, eq=False)
class FittedModel:
    """What a fit found.

    Attributes
    ----------
    layers : tuple of Layer
        Maps, in the order in which they are applied.
    domains : array of int
        Domains seen.
    setting : {"US", "SUP", "SS"}
        Which rows carried labels.
    loss_curve, n_iter : array and int
        Of the last layer.
    residual : float or None
        Largest relative residual; None: read from a file of before fits were checked.
    activation, concatenate, normalize : str and bool
        How denoised rows become features.
    centers : mapping of int to array
        Means of the denoised rows of every source, and of all targets together (−1); empty: rows
        are not centred.
    classes : array or None
        Label values; None: the model has no classifier.
    Z, z0 : arrays of shape (n_outputs, n_classes) and (n_classes,), or None
        The linear class predictor on features: of "ridge", and of joint models.
    coef, intercept : arrays of shape (n_classes, n_features) and (n_classes,), or None
        The scores of "ridge", where they are linear in the rows.
    classifier : classifier or None
        On features; None: "ridge".
    training : SelfTraining or None
        How the classifier was fitted, if on features.
    """

    layers: tuple[Layer, ...]
    domains: Index
    setting: str
    loss_curve: NDArray[np.float64]
    n_iter: int
    residual: float | None = None
    activation: str = "tanh"
    concatenate: bool = True
    normalize: bool = False
    centers: Centers = field(default_factory=dict)
    classes: NDArray[Any] | None = None
    Z: Matrix | None = None
    z0: Matrix | None = None
    coef: Matrix | None = None
    intercept: Matrix | None = None
    classifier: Any = None
    training: SelfTraining | None = None

    @property
    def solver(self) -> str:
        """The route of the first layer."""
        return self.layers[0].solver

    @property
    def center_of_new_rows(self) -> Any:
        """New rows are of the target, or of the only domain there was."""
        return self.centers[min(self.centers)] if self.centers else 0.0

    # Features ---------------------------------------------------------------------------------

    def features(self, X: Any, domain: Index | None = None) -> Matrix:
        """Denoised rows, centred and normalised if so set; without domains, of the target."""
        H = self.denoised(X)
        return self.center_and_normalize(H, domain) if self.centers or self.normalize else H

    def denoised(self, X: Any) -> Matrix:
        """X W + offset, or the concatenation of layers."""
        if len(self.layers) == 1:
            return self.layers[0].map.apply(X)
        blocks = [X.toarray() if sp.issparse(X) else X]
        for layer in self.layers:
            source = X if len(blocks) == 1 else blocks[-1]
            blocks.append(ACTIVATIONS[self.activation](layer.map.apply(source)))
        return np.hstack(blocks) if self.concatenate else blocks[-1]

    def denoises_quickly(self, X: Any) -> bool:
        """Whether rows are so sparse that to denoise them again costs less than to keep them."""
        found = self.layers[0].map
        few = sp.issparse(X) and SPARSE_COST * X.nnz < X.shape[0] * X.shape[1]
        return few and len(self.layers) == 1 and isinstance(found.base, DenseMap)

    def center_and_normalize(self, H: Matrix, domain: Index | None = None) -> Matrix:
        """Denoised rows, centred and normalised in place."""
        if domain is None and self.centers:
            only = min(self.centers)
            return center_and_normalize(H, None, {only: self.centers[only]}, self.normalize)
        return center_and_normalize(H, domain, self.centers, self.normalize)

    def names_out(self, names: NDArray[Any]) -> NDArray[Any]:
        """Names of features: those of the inputs that they reconstruct."""
        if len(self.layers) == 1:
            outputs = self.layers[0].outputs
            return np.asarray(names if outputs is None else names[outputs])
        blocks = [names]
        for depth, layer in enumerate(self.layers, 1):
            below = blocks[-1] if depth > 1 else names
            kept = below if layer.outputs is None else below[layer.outputs]
            plain = [str(name).split("__", 1)[-1] if depth > 1 else str(name) for name in kept]
            blocks.append(np.array([f"layer{depth}__{name}" for name in plain], dtype=object))
        return np.concatenate(blocks) if self.concatenate else blocks[-1]

    def group_means(
        self, rows: TrainingRows, class_weight: Any, denoised: Matrix | None = None
    ) -> GroupMeans:
        """Means of denoised rows: of all target rows together (−1), and of every source.

        With balanced classes these are means of a source's classes, with the classes that it has.
        Rows that are `denoised` already are not denoised again.
        """
        side = np.maximum(rows.domain, -1)
        found: GroupMeans = {}
        for d in np.unique(side).tolist():
            mine = np.flatnonzero(side == d)
            present, groups = None, [mine]
            if isinstance(class_weight, str) and d >= 0:
                present, codes = np.unique(rows.labels.codes[mine], return_inverse=True)
                groups = [mine[codes == k] for k in range(len(present))]
            if denoised is None:
                found[d] = present, self._means([rows_at(rows.X, group) for group in groups])
            else:
                means = [column_means(rows_at(denoised, group)) for group in groups]
                found[d] = present, namespace(denoised).stack(means)
        return found

    def _means(self, parts: list[Any]) -> Matrix:
        """Means of denoised rows, one per part."""
        if len(self.layers) > 1:
            return np.stack([self.denoised(X).mean(0) for X in parts])
        if not is_numpy(parts[0]):
            stack = namespace(parts[0]).stack
            return self.layers[0].map.apply(stack([column_means(X) for X in parts]))
        means = [np.asarray(X.mean(0), dtype=np.float64).ravel() for X in parts]
        return np.asarray(self.layers[0].map.apply(np.stack(means)))  # W is linear

    # Scores -----------------------------------------------------------------------------------

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of checked rows, one column per class, whatever the classifier."""
        if self.coef is None or self.intercept is None:
            return self.feature_scores(self.features(X))
        if not is_numpy(X):
            return float64(X) @ self.coef.T + self.intercept
        # In float64 whatever the rows are; float32 rows are cast one block at a time.
        return np.asarray(Rows(X).dot(self.coef.T) + self.intercept)

    def feature_scores(self, F: Matrix) -> NDArray[np.float64]:
        """The same from features."""
        if self.classifier is not None:
            return class_scores(self.classifier, F)
        if self.Z is None or self.z0 is None:
            raise ValueError("the model has no classifier: it gives features only.")
        return np.asarray(F @ self.Z + self.z0, dtype=np.float64)


def row_lengths(H: Matrix) -> NDArray[np.float64]:
    """Euclidean lengths of rows, whatever their units: squares must not over- or underflow.

    They are of the host.
    """
    if not is_numpy(H):
        xp, H = namespace(H), float64(H)
        top = xp.max(xp.abs(H), axis=1)
        unit = xp.where(top > 0, top, xp.ones_like(top))
        return np.asarray(to_numpy(unit * xp.linalg.vector_norm(H / unit[:, None], axis=1)))
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", H, H, dtype=np.float64)
    odd = np.flatnonzero(~((squares > 1e-290) & (squares < np.inf)))
    lengths = np.sqrt(squares)
    if odd.size:
        top = np.abs(H[odd]).max(axis=1, initial=0).astype(np.float64)
        unit = np.where(top > 0, top, 1)
        lengths[odd] = unit * np.sqrt(((H[odd] / unit[:, None]) ** 2).sum(1))
    return np.asarray(lengths)


def center_and_normalize(
    H: Matrix,
    domain: Index | None,
    centers: Centers,
    normalize: bool,
    *,
    out: Matrix | None = None,
    lengths: Matrix | None = None,
) -> Matrix:
    """Rows, centred at the mean of their domain and brought to unit length.

    Parameters
    ----------
    H : array of shape (n_rows, n_outputs)
        Denoised rows.
    domain : array of shape (n_rows,) or None
        None: all rows are of the only domain in `centers`.
    centers : mapping of int to array
        Empty: rows are not centred.
    normalize : bool
        Whether rows get unit length.
    out : array of the shape of H, default=None
        Where they are written; None: over H.
    lengths : array of shape (n_rows,), default=None
        Where the lengths are written that they are divided by: infinite for rows that become 0.
    """
    out = H if out is None else out
    side = None if domain is None else np.maximum(domain, -1)
    seen = [] if side is None or not centers else np.unique(side).tolist()
    for d in seen:
        if d not in centers:
            raise ValueError(
                f"sample_domain holds {d}, a domain that fit has not seen: rows are "
                f"centred at their own domain's mean (seen: {sorted(centers)})."
            )
    if not is_numpy(H):
        return _center_and_normalize_elsewhere(H, side, centers, normalize)
    only = next(iter(centers.values())) if centers and side is None else None
    step = max(1, CACHE_BYTES // max(1, H.itemsize * H.shape[1]))
    for start in range(0, len(H), step):  # while they are in cache
        some = slice(start, start + step)
        before = row_lengths(H[some]) if centers and normalize else None
        part = out[some]
        if out is not H:
            part[...] = H[some]
        if only is not None:
            part -= only.astype(H.dtype)
        for d in seen:
            assert side is not None
            mine = side[some] == d
            if mine.all():
                part -= centers[d].astype(H.dtype)
            else:
                part[mine] -= centers[d].astype(H.dtype)
        if normalize:
            norms = row_lengths(part)
            if before is not None:  # rows that are their own centre but for rounding
                rounding = max(ROUNDING, ROUNDINGS * float(np.finfo(H.dtype).eps))
                norms[nothing := norms <= rounding * before] = 0
                part[nothing] = 0
            if lengths is not None:
                lengths[some] = np.where(norms > 0, norms, np.inf)
            part /= np.where(norms > 0, norms, 1)[:, None].astype(H.dtype)
    return out


def _center_and_normalize_elsewhere(
    H: Matrix, side: Index | None, centers: Centers, normalize: bool
) -> Matrix:
    """The same of rows of another library, as a copy where they are."""
    xp, out = namespace(H), H
    if centers:
        known, which = np.array(list(centers)), np.zeros(H.shape[0], dtype=np.int64)
        if side is not None:
            which = np.argmax(side[:, None] == known, axis=1)
        middle = like(xp.stack([centers[d] for d in known.tolist()]), H)
        out = H - rows_at(middle, which)
    if not normalize:
        return out
    norms = row_lengths(out)
    if centers:  # rows that are their own centre but for rounding
        rounding = max(ROUNDING, ROUNDINGS * float(np.finfo(host_type(H)).eps))
        norms[norms <= rounding * row_lengths(H)] = 0
    filled = norms > 0
    out = out / like(np.where(filled, norms, 1), H)[:, None]
    return out if filled.all() else out * like(filled.astype(np.float64), H)[:, None]


def centers_for(means: GroupMeans, shares: NDArray[np.float64] | None = None) -> dict[int, Matrix]:
    """Centres of domains, for class shares that the target is thought to have (None: equal).

    A source with more rows of one class than the target is not shifted for that.
    """
    centers: dict[int, Matrix] = {}
    for d, (present, values) in means.items():
        weights = None if shares is None or present is None else shares[present]
        if weights is not None and not weights.any():  # of the target's classes it has none
            weights = None
        centers[d] = _average(values, weights)
    return centers


def _average(values: Matrix, weights: NDArray[np.float64] | None) -> Matrix:
    """Of rows."""
    if is_numpy(values):
        return np.asarray(np.average(values, axis=0, weights=weights))
    shares = np.ones(values.shape[0]) if weights is None else weights
    return like(shares / shares.sum(), values) @ values
