"""`MDA`, denoised, domain-invariant features; `BaseMDA`, what it shares with `MDAClassifier`.

Parameters, the fitted model and its attributes, `transform`, `partial_fit` and `save`. The work is
done by functions: fitting.py learns, streaming.py sums batches, model.py denoises.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from marda._arrays import is_followed, place_of, to_numpy
from marda._validation import (
    check_callers,
    check_domains,
    check_indexes,
    check_marks,
    check_new_rows,
    check_rows,
    check_same_place,
    check_unmasked,
    is_marked,
    summed,
)
from marda.estimators.fitting import fit_model, fit_moments
from marda.estimators.model import FittedModel, Layer, TrainingRows, settings_of, why_numpy
from marda.estimators.streaming import (
    IfStatisticsSuffice,
    Stream,
    check_batch,
    check_mark,
    dask_moments,
    labels_to_read,
    lazy_on_dask,
)
from marda.moments import Moments
from marda.moments.accumulate import is_dask
from marda.operators.maps import DenoisingMap
from marda.terms import parse_method

Matrix = NDArray[Any]
T = TypeVar("T")

_PARAMETERS = """\
method : str, default="S1D"
    Model: "BL" (ridge on the rows as they are), "MCF" (ridge under noise), "S1" (denoise) or
    "J12" (denoise and classify together), the last two followed by any of "M" (bring domain
    means together), "C" (bring class means together; needs labelled target rows) and "D"
    (make every row look like target to a domain predictor), such as "S1D" or "J12CD".
noise : float, array of shape (n_features,) or Noise, default=0.5
    Dropout probability in [0, 1), one per feature if an array, or a noise object.
ridge, ridge_class, ridge_domain : float, default=1e-2, 1.0, 1.0
    Penalties ω on ‖W‖², δ on ‖Z‖² and α on ‖z_D‖². Of `MDAClassifier`, with "kernel" or with
    "ridge" on centred, normalised or refined rows, ridge_class="auto" takes one minus the skill on
    left-out source rows, between 0.1 and 0.3.
class_loss_weight, domain_loss_weight : float, default=1.0, 1.0
    Weights λ of the class term and γ of the domain terms.
marginalization : {"exact", "paper"}, default="exact"
    How noise enters the MMD terms: for entries dropped independently, or as the paper writes.
class_means : {"labelled", "source-to-target"}, default="labelled"
    What "C" brings together: the means of labelled rows of a class, in both domains; or the
    mean of every source class and that of the whole target, as the published implementation
    does without target labels.
scaling : {"balanced", "paper", "relative"}, default="balanced"
    "balanced" multiplies the MMD terms by the number of rows, so that they are felt;
    "relative" makes every ridge and weight a fraction of the trace that it competes with, so
    that the units of the features do not matter.
fit_intercept : bool, default=True
    A bias column that noise leaves alone, and an intercept of the class predictor.
class_weight : None, "balanced" or dict, default=None
    Weights of labelled rows in the class predictor."""

_SHARED_TAIL = """\
n_layers : int, default=1
    Layers; above one, every layer denoises the activated output of the one before.
activation : {"tanh", "relu", "identity"}, default="tanh"
    Applied to the output of every layer if there are several.
concatenate : bool, default=True
    With several layers, features are the input and every layer's output side by side.
center : bool, default=False
    Subtract from denoised rows the mean of their own domain (all targets together; of a source
    with class_weight="balanced", the mean of its class means). Rows that come without a domain
    are taken for target rows.
normalize : bool, default=False
    Scale denoised rows to unit length, after centring.
solver : {"auto", "primal", "dual", "cg"}, default="auto"
    d×d matrices, n×n matrices, or conjugate gradients; "auto" estimates work and memory.
n_pivots : int, default=None
    Reconstruct only the features that are non-zero in the most rows.
max_iter, tol : int and float, default=100, 1e-5
    The alternation of joint models ends when the loss falls by at most tol, relatively; a rise,
    which is rounding, ends it too.
unlabeled : default=-1
    Mark of unlabelled target rows; NaN and None mark too. Rows have no weights: `fit` takes no
    sample_weight; see class_weight.
random_state : int, RandomState or None, default=None
    Of `MDA` without effect: it draws nothing. `MDAClassifier` draws the thirds of the source that
    are compared, and landmarks and samples of very many rows; a classifier of another kind, and
    its parts, get it where their own random_state is None. None draws as 0 does. No draw depends
    on the order of rows.
verbose : int, default=0
    Above 0, say which route is taken and how the alternation ended."""


def with_parameters(cls: type[T]) -> type[T]:
    """Fill the shared parameter descriptions into a class docstring."""
    if cls.__doc__:
        # Python 3.13 strips the indentation of docstrings when it compiles them, 3.11 does not.
        text = inspect.cleandoc(cls.__doc__)
        text = text.replace("{parameters}", _PARAMETERS)
        cls.__doc__ = text.replace("{more_parameters}", _SHARED_TAIL)
    return cls


class BaseMDA(TransformerMixin, BaseEstimator, ABC):
    """Parameters, and everything that a fitted model gives."""

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_domain": True}
    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"sample_domain": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"sample_domain": True}

    _model: FittedModel | None = None
    _stream: Stream | None = None

    def __init__(
        self,
        method: str = "S1D",
        *,
        noise: Any = 0.5,
        ridge: float = 1e-2,
        ridge_class: float = 1.0,
        ridge_domain: float = 1.0,
        class_loss_weight: float = 1.0,
        domain_loss_weight: float = 1.0,
        marginalization: str = "exact",
        class_means: str = "labelled",
        scaling: str = "balanced",
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_layers: int = 1,
        activation: str = "tanh",
        concatenate: bool = True,
        center: bool = False,
        normalize: bool = False,
        solver: str = "auto",
        n_pivots: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
        unlabeled: Any = -1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.method = method
        self.noise = noise
        self.ridge = ridge
        self.ridge_class = ridge_class
        self.ridge_domain = ridge_domain
        self.class_loss_weight = class_loss_weight
        self.domain_loss_weight = domain_loss_weight
        self.marginalization = marginalization
        self.class_means = class_means
        self.scaling = scaling
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_layers = n_layers
        self.activation = activation
        self.concatenate = concatenate
        self.center = center
        self.normalize = normalize
        self.solver = solver
        self.n_pivots = n_pivots
        self.max_iter = max_iter
        self.tol = tol
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = not why_numpy(self.get_params(deep=False))
        return tags

    def _check_followed(self, X: Any) -> None:
        """Refuse arrays of other libraries where the model has no way to follow them."""
        why = why_numpy(self.get_params(deep=False)) if is_followed(X) else ""
        if why:
            raise ValueError(f"{type(self).__name__}: {why}")

    def _new_rows(self, X: Any, method: str) -> Any:
        """Checked rows, where the model is."""
        check_is_fitted(self)
        X = check_new_rows(self, X)
        check_same_place(self, X, place_of(self.model_.layers[0].map.offset), method)
        return X

    # The fitted model -------------------------------------------------------------------------

    @property
    def model_(self) -> FittedModel:
        """What the fit found, as one frozen object; batches are solved when it is first read."""
        if self._model is None and self._stream is not None:
            # `fit_moments` begins another fit: it forgets the batches, which may go on after it.
            stream = self._stream
            try:
                self.fit_moments(stream.moments())
            finally:
                self._stream = stream
        if self._model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")
        return self._model

    @model_.setter
    def model_(self, model: FittedModel) -> None:
        self._model, self._stream = model, None
        self.n_features_in_ = model.layers[0].map.shape[0]

    def _forget(self) -> None:
        """Drop what an earlier fit left: another one begins."""
        for name in ("_model", "_stream", "preprocessing_"):
            self.__dict__.pop(name, None)

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None or self._stream is not None

    def _single(self) -> Layer:
        layers = self.model_.layers
        if len(layers) > 1:
            raise AttributeError(
                f"a model of {len(layers)} layers has no single W, Z on inputs or coef_."
            )
        return layers[0]

    @property
    def W_(self) -> Matrix:
        """The denoising matrix, dense on demand; refuses to exceed memory."""
        return self._single().map.dense()

    @property
    def W_map_(self) -> DenoisingMap:
        """The denoising matrix as an operator: `W_map_ @ V` makes nothing dense."""
        return self._single().map

    @property
    def offset_(self) -> NDArray[np.float64]:
        """Bias row of W: denoised rows are X W + offset."""
        return self._single().map.offset

    @property
    def pivots_(self) -> NDArray[np.int64] | None:
        """Columns that are reconstructed; None: all of them."""
        return self._single().outputs

    @property
    def loss_curve_(self) -> NDArray[np.float64]:
        """The loss after every alternation (one value for sequential methods); never rises."""
        return self.model_.loss_curve

    @property
    def n_iter_(self) -> int:
        """Alternations; 1 for sequential methods."""
        return self.model_.n_iter

    @property
    def residual_(self) -> float:
        """Largest relative residual on random probes.

        It is that of (★) and, unless the classifier learns from features, of the class predictor.
        """
        if self.model_.residual is None:
            raise AttributeError("residual_: the model comes from a file that does not tell.")
        return self.model_.residual

    @property
    def setting_(self) -> str:
        """US: no labelled target rows; SUP: no unlabelled rows; SS: both kinds."""
        return self.model_.setting

    @property
    def solver_(self) -> str:
        """The route taken."""
        return self.model_.solver

    @property
    def domains_(self) -> NDArray[np.int64]:
        """Domains seen in fit."""
        return self.model_.domains

    # Rows -------------------------------------------------------------------------------------

    @lazy_on_dask
    def transform(self, X: Any, *, sample_domain: Any = None) -> NDArray[Any]:
        """Denoised rows, X W + offset; with several layers, their concatenation.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows of any domain.
        sample_domain : array of int of shape (n_rows,), default=None
            Domains of the rows, which `center` needs; None: rows of the target.

        Returns
        -------
        H : array of shape (n_rows, n_outputs)
        """
        X, model = self._new_rows(X, "transform"), self.model_
        if sample_domain is None or not model.centers:
            return model.features(X)
        return model.features(X, check_domains(sample_domain, X.shape[0], both=False))

    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Any:
        """Fit, then denoised rows of all domains, each centred (if so set) at its own mean.

        Parameters
        ----------
        X, y, sample_domain : arrays
            As in `fit`.

        Returns
        -------
        H : array of shape (n_rows, n_outputs)
        """
        fitted = self.fit(X, y, sample_domain=sample_domain)
        return fitted.transform(X, sample_domain=sample_domain)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of denoised features: those of the inputs that they reconstruct.

        Parameters
        ----------
        input_features : array of str of shape (n_features,), default=None
            Names of the columns of X; None: those of the fit, else "x0", "x1", …

        Returns
        -------
        names : array of str
        """
        check_is_fitted(self)
        return self.model_.names_out(_check_feature_names_in(self, input_features))

    # Fits -------------------------------------------------------------------------------------

    @abstractmethod
    def fit(self, X: Any, y: Any, *, sample_domain: Any = None) -> Self:
        """Learn from rows."""

    @abstractmethod
    def fit_moments(self, moments: Moments) -> Self:
        """Learn from statistics alone."""

    def _take_names(self, moments: Moments) -> None:
        """Names of features as the statistics have them."""
        self.__dict__.pop("feature_names_in_", None)
        if moments.feature_names is not None:
            self.feature_names_in_ = moments.feature_names

    @IfStatisticsSuffice
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, *, sample_domain: Any = None
    ) -> Self:
        """Add a batch of rows; equal to `fit` on all batches so far, in any order.

        The first result that is asked for (`predict`, `transform`, `coef_` …) solves the model.
        After `fit` or `fit_moments`, whose rows are not kept, it starts anew.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows of one or several domains.
        y : array of shape (n_rows,), default=None
            Labels; target rows may carry the mark. None: target rows without labels.
        classes : array, default=None
            Label values that may come in this and all later batches; a later label that is not
            among them raises. Not needed. Classes that had no row yet are not in `classes_`.
        sample_domain : array of int of shape (n_rows,), default=None
            At least 0 for a source, below 0 for a target. None: one source.

        Returns
        -------
        self
        """
        stream = self._stream
        if is_followed(X):
            raise ValueError(
                "partial_fit sums numpy batches: of other libraries, give merged "
                "Moments.from_arrays to fit_moments."
            )
        check_unmasked(X)
        check_indexes(X=X, y=y, sample_domain=sample_domain)
        X = summed(
            validate_data(
                self, X, reset=stream is None, accept_sparse="csr", dtype=[np.float64, np.float32]
            )
        )
        given = sample_domain is not None
        domain = check_domains(sample_domain, X.shape[0], both=False)
        y = labels_to_read(self, y, domain)
        check_batch(self, X)
        if stream is None:
            weighted = self.class_weight is not None
            stream = Stream(self.unlabeled, class_grams=weighted, classes=classes)
        else:
            stream.check_classes(classes)
        names = getattr(self, "feature_names_in_", None)
        stream.add(X, y, domain, given=given, names=names)
        self._model, self._stream = None, stream
        return self

    # Files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, which `marda.load` reads.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete.
        """
        from marda.persist import save

        save(self, path)


def _check_unread(y: Any, sample_domain: Any, mark: Any) -> None:
    """Labels that MDA does not read, but whoever comes after it may: their marks need domains."""
    if y is None or is_dask(y) or is_dask(sample_domain):
        return
    y = np.asarray(to_numpy(y))
    if y.ndim != 1 or (y.dtype.kind == "f" and np.any(y != np.floor(y), where=np.isfinite(y))):
        return  # not the labels of a classifier
    domain = None if sample_domain is None else check_domains(sample_domain, len(y), both=False)
    check_marks(y, domain, mark)
    if domain is not None:
        check_callers(is_marked(y, mark) & (domain < 0), mark)


@with_parameters
class MDA(BaseMDA):
    """Features in which domains no longer differ, by marginalised denoising.

    Minimises E‖X − X̃W‖² + ω‖W‖² over the noise X̃, plus the terms that `method` names
    (math: docs/method.md). Joint methods ("J12…") need labels in `fit`.

    Parameters
    ----------
    {parameters}
    {more_parameters}

    Attributes
    ----------
    W_ : array of shape (n_features, n_outputs)
        The denoising matrix, made dense on demand.
    W_map_ : DenoisingMap
        The same as an operator: `W_map_ @ V` makes nothing dense.
    offset_ : array of shape (n_outputs,)
        Its bias row.
    loss_curve_ : array
        The loss after every alternation (one value for sequential methods); never rises.
    n_iter_ : int
        Alternations; 1 for sequential methods.
    residual_ : float
        Largest relative residual, on random probes, of (★) and, unless the classifier learns from
        features, of the class predictor. `fit` raises where it, or the error estimated from it,
        is above 1e-6.
    setting_ : {"US", "SUP", "SS"}
        No labelled target rows; no unlabelled rows; both kinds.
    solver_ : {"primal", "dual", "cg"}
        The route taken.
    domains_ : array of int
        Domains seen in fit.
    pivots_ : array of int or None
        Columns that are reconstructed; None: all of them.
    model_ : FittedModel
        All that the fit found, as one frozen object.
    n_features_in_, feature_names_in_ : int and array
        Columns of the rows of the fit; their names, if these were a DataFrame with names.

    Examples
    --------
    >>> import numpy as np
    >>> from marda import MDA, pack
    >>> rng = np.random.default_rng(0)
    >>> Xs, Xt = rng.normal(size=(50, 4)), rng.normal(1, 1, size=(40, 4))
    >>> X, y, sample_domain = pack(Xs, np.arange(50) % 2, Xt)
    >>> MDA("S1M").fit(X, y, sample_domain=sample_domain).transform(Xt).shape
    (40, 4)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = isinstance(self.method, str) and self.method.startswith("J12")
        return tags

    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : array, sparse matrix or Dask collection of shape (n_rows, n_features)
            Rows of all domains.
        y : array of shape (n_rows,), default=None
            Labels; target rows may carry the mark. Only joint methods and "C" read them.
        sample_domain : array of int of shape (n_rows,), default=None
            At least 0 for a source, below 0 for a target. None: one domain, no domain terms;
            marks in y are then refused.

        Returns
        -------
        self
        """
        terms = parse_method(self.method)
        if not (terms.joint or terms.class_mmd):
            _check_unread(y, sample_domain, self.unlabeled)
            y = None  # any y is accepted, as in scikit-learn's transformers
        if terms.joint and y is None:
            raise ValueError(
                f"method={self.method!r} requires y to be passed, but the target y is None."
            )
        if is_dask(X):
            return self.fit_moments(dask_moments(self, X, y, sample_domain))
        self._forget()
        self._check_followed(X)
        X, labels, domain = check_rows(self, X, y, sample_domain)
        rows = TrainingRows(X, labels, domain, ordered=False)
        self.model_ = fit_model(rows, settings_of(self.get_params(deep=False)))
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Learn from statistics alone.

        Parameters
        ----------
        moments : Moments
            Statistics of all rows, merged.

        Returns
        -------
        self
        """
        if parse_method(self.method).joint and len(moments.classes) < 2:
            raise ValueError(
                f"method={self.method!r} needs labels of at least 2 classes, and the moments have "
                f"{len(moments.classes)}."
            )
        check_mark(moments, self.unlabeled)
        self._forget()
        self.model_ = fit_moments(moments, settings_of(self.get_params(deep=False)))
        self._take_names(moments)
        return self
