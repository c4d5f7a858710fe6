"""`partial_fit`: batches are summed as they come; the model is solved when first asked for.

The statistics of all batches are those of all rows, so the model equals one `fit` on all rows.
"""

from __future__ import annotations

from functools import wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from marda._validation import UNLABELED, check_domains, is_class, is_marked, summed
from marda.estimators._base import moments_layer
from marda.moments import Moments
from marda.moments.batches import Collector, is_dask
from marda.noise import Poisson, as_noise
from marda.terms import parse_method

if TYPE_CHECKING:
    from marda.estimators._base import BaseMDA as _Host
else:
    _Host = object  # a mixin: it stands before the bases of its hosts

__all__ = ["Streaming", "lazy_on_dask"]

#: What a solved model has; before it is solved, reading any of these solves it.
_SOLVED = frozenset(
    {
        "_layers",
        "_centers",
        "_class_weights",
        "_scores_coef",
        "_scores_intercept",
        "_z0",
        "Z_",
        "classes_",
        "classifier_",
        "domains_",
        "loss_curve_",
        "n_iter_",
        "residual_",
        "setting_",
        "solver_",
    }
)


def lazy_on_dask(method: Any) -> Any:
    """Let a method of X give a lazy array, block by block, where X is a Dask collection."""

    @wraps(method)
    def either(self: Any, X: Any, **options: Any) -> Any:
        if not is_dask(X):
            return method(self, X, **options)
        if options.get("sample_domain") is not None:
            raise ValueError(
                "sample_domain cannot be given with a Dask collection: rows of the "
                "target, or of one domain, are transformed block by block."
            )
        check_is_fitted(self)
        wanted = _get_output_config("transform", self)["dense"]
        if method.__name__ == "transform" and wanted != "default":
            raise ValueError(
                f"set_output asks for {wanted} and X is a Dask collection, which would have to be "
                "computed: call set_output(transform='default') for a lazy array."
            )
        from marda.moments.dask import apply_blockwise

        return apply_blockwise(self, method.__name__, X)

    return either


class _IfStatisticsSuffice:
    """A method that is there only for models that statistics determine; else it says why not."""

    def __init__(self, method: Any):
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.method
        reason = instance._why_rows()
        if reason:
            raise AttributeError(f"partial_fit: {reason}")
        return MethodType(self.method, instance)


class Streaming(_Host):
    """`partial_fit` and the solution on demand, for estimators that have `fit_moments`."""

    __metadata_request__partial_fit: ClassVar[dict[str, bool]] = {"sample_domain": True}

    if TYPE_CHECKING:
        classifier: Any
        fit_moments: Any
        _stream: Collector

    @_IfStatisticsSuffice
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
        first = self.__dict__.get("_stream") is None
        model = parse_method(self.method)
        X = summed(
            validate_data(self, X, reset=first, accept_sparse="csr", dtype=[np.float64, np.float32])
        )
        domain = check_domains(sample_domain, X.shape[0], both=False)
        y = self._stream_labels(model, y, domain)
        if isinstance(as_noise(self.noise), Poisson) and X.min() < 0:
            raise ValueError(f"Poisson noise needs non-negative features, got {X.min():g}.")
        if first:
            stream = Collector(
                unlabeled=self.unlabeled,
                class_grams=self.class_weight is not None,
                classes=classes,
            )
            self._stream_has_domains = False
        else:
            stream = self._stream
            _check_same_classes(stream, classes)
        stream.feature_names = getattr(self, "feature_names_in_", None)
        stream.add_checked(X, y, domain, given=sample_domain is not None)
        self._stream = stream
        self._stream_has_domains |= sample_domain is not None
        for name in _SOLVED:
            self.__dict__.pop(name, None)
        self._unsolved = True
        return self

    def _why_rows(self) -> str:
        """Why this model needs rows, or nothing."""
        classifier = getattr(self, "classifier", "ridge")
        if not isinstance(classifier, str) or classifier not in ("ridge", "dscm"):
            return (
                f"classifier={classifier!r} needs rows, which are not kept: use 'ridge' or 'dscm'."
            )
        for name in ("center", "normalize", "refine"):
            if getattr(self, name, 0):
                return f"{name}={getattr(self, name)!r} needs rows, which are not kept."
        if self.n_layers != 1:
            return "n_layers above 1 needs rows: moments of the next layer are not known."
        if self.n_pivots is not None:
            return "n_pivots needs rows: moments do not tell which features are frequent."
        if self.solver not in ("auto", "primal"):
            return f"solver={self.solver!r} needs rows: moments are for 'primal'."
        return ""

    def _stream_labels(self, model: Any, y: Any, domain: NDArray[np.int64]) -> Any:
        """The labels that the model reads; rows of a source must have them."""
        wanted = hasattr(type(self), "predict") or model.joint
        if not (wanted or model.class_mmd):
            return None
        if wanted and y is None and (domain >= 0).any():
            raise ValueError(
                f"{type(self).__name__} requires y to be passed for source rows, but the target "
                "y is None."
            )
        return y

    def _fit_dask(self, X: Any, y: Any, sample_domain: Any) -> Self:
        """`fit` on Dask collections: moments on the workers, the solution here."""
        from marda.moments.dask import moments_from_dask

        reason = self._why_rows()
        if reason:
            raise ValueError(f"X is a Dask collection, and {reason}")
        moments = moments_from_dask(
            X,
            y,
            sample_domain,
            unlabeled=self.unlabeled,
            class_grams=self.class_weight is not None,
            nonnegative=isinstance(as_noise(self.noise), Poisson),
        )
        if sample_domain is not None:
            check_domains(moments.domains, len(moments.domains))  # both sides
        self.fit_moments(moments)
        return self

    def _end_stream(self) -> None:
        """Forget batches: another fit begins."""
        for name in ("_stream", "_unsolved", "_stream_has_domains"):
            self.__dict__.pop(name, None)

    def _solve_stream(self) -> None:
        stream, has_domains = self._stream, self._stream_has_domains
        moments = stream.result()
        if has_domains:
            check_domains(moments.domains, len(moments.domains))  # both sides, as in fit
        self._unsolved = False
        # `fit_moments` begins another fit: it forgets the batches, which may go on after it.
        try:
            self.fit_moments(moments)
        except BaseException:
            for name in _SOLVED:
                self.__dict__.pop(name, None)
            self._unsolved = True
            raise
        finally:
            self._stream, self._stream_has_domains = stream, has_domains

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.__dict__.get("_layers")) or bool(self.__dict__.get("_unsolved"))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _SOLVED and self.__dict__.get("_unsolved"):
                self._solve_stream()
            # A property that found its value missing comes here, too: it says what is wrong.
            return object.__getattribute__(self, name)

    def _set_from_moments(self, moments: Moments, *, predictor: bool) -> Any:
        """Solve, and set what all models have; gives the solution."""
        _check_mark(moments, self.unlabeled)
        layer, solution = moments_layer(self, moments, predictor=predictor)
        self._layers = [layer]
        self._centers: dict[int, Any] = {}
        self.n_features_in_ = moments.n_features
        self.__dict__.pop("feature_names_in_", None)
        if moments.feature_names is not None:
            self.feature_names_in_ = moments.feature_names
        self.domains_ = np.unique(moments.domains)
        unlabelled = moments.labels == UNLABELED
        labelled_target = bool(((moments.domains < 0) & ~unlabelled).any())
        self.setting_ = ("SS" if labelled_target else "US") if unlabelled.any() else "SUP"
        self._set_solution(solution)
        self.solver_ = layer.solver
        return solution


def _check_mark(moments: Moments, mark: Any) -> None:
    """Moments without an unlabelled row, in which the mark is a class among others."""
    classes = moments.classes
    if (moments.labels == UNLABELED).any() or not len(classes) or is_class(classes, mark):
        return
    if is_marked(classes, mark).any():
        raise ValueError(
            f"{mark!r}, the mark of unlabelled target rows, is a class of these moments: "
            f"{classes.tolist()}, and no row is unlabelled. Sources are >= 0, targets < 0; did you "
            "swap the sign, or leave sample_domain out? Write Moments.from_arrays(X, y, "
            f"sample_domain), or unlabeled=None if {mark!r} is a class."
        )


def _check_same_classes(stream: Collector, classes: Any) -> None:
    if classes is None:
        return
    values = np.unique(np.asarray(classes))
    if stream.allowed is None:
        raise ValueError("classes must be given in the first call of partial_fit, or never.")
    if not np.array_equal(values, stream.allowed):
        raise ValueError(
            f"classes={values.tolist()} differs from the first call of partial_fit: "
            f"{stream.allowed.tolist()}."
        )
