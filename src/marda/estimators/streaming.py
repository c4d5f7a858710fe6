"""`partial_fit` and Dask: batches are summed as they come; the model is solved when asked for.

The statistics of all batches are those of all rows, so the model equals one `fit` on all rows.
"""

from __future__ import annotations

from functools import wraps
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from marda._validation import UNLABELED, check_domains, is_class, is_marked
from marda.moments import Moments
from marda.moments.accumulate import Collector, is_dask
from marda.noise import Poisson, as_noise
from marda.terms import parse_method


class Stream:
    """The sums of all batches so far.

    Parameters
    ----------
    unlabeled : object
        Mark of unlabelled target rows.
    class_grams : bool
        Whether classes have weights of their own.
    classes : array or None
        Label values that may come; None: any.
    """

    def __init__(self, unlabeled: Any, *, class_grams: bool, classes: Any):
        self._sums = Collector(unlabeled=unlabeled, class_grams=class_grams, classes=classes)
        self._has_domains = False

    def check_classes(self, classes: Any) -> None:
        """Refuse other classes than those of the first batch."""
        if classes is None:
            return
        values = np.unique(np.asarray(classes))
        allowed = self._sums.allowed
        if allowed is None:
            raise ValueError("classes must be given in the first call of partial_fit, or never.")
        if not np.array_equal(values, allowed):
            raise ValueError(
                f"classes={values.tolist()} differs from the first call of partial_fit: "
                f"{allowed.tolist()}."
            )

    def add(self, X: Any, y: Any, domain: NDArray[np.int64], *, given: bool, names: Any) -> None:
        """Checked rows; `given`: the caller told their domains."""
        self._sums.feature_names = names
        self._sums.add_checked(X, y, domain, given=given)
        self._has_domains |= given

    def moments(self) -> Moments:
        """The statistics of all rows, which are of both sides if domains were given."""
        moments = self._sums.result()
        if self._has_domains:
            check_domains(moments.domains, len(moments.domains))
        return moments


def labels_to_read(estimator: Any, y: Any, domain: NDArray[np.int64]) -> Any:
    """The labels of a batch that the model reads; rows of a source must have them."""
    terms = parse_method(estimator.method)
    wanted = hasattr(type(estimator), "predict") or terms.joint
    if not (wanted or terms.class_mmd):
        return None
    if wanted and y is None and (domain >= 0).any():
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed for source rows, but the target "
            "y is None."
        )
    return y


def check_batch(estimator: Any, X: Any) -> None:
    """Refuse rows that the noise cannot be that of."""
    if isinstance(as_noise(estimator.noise), Poisson) and X.min() < 0:
        raise ValueError(f"Poisson noise needs non-negative features, got {X.min():g}.")


def why_rows(estimator: Any) -> str:
    """Why this model needs rows, or nothing."""
    parameters = estimator.get_params(deep=False)
    classifier = parameters.get("classifier", "ridge")
    if not isinstance(classifier, str) or classifier not in ("ridge", "dscm"):
        return f"classifier={classifier!r} needs rows, which are not kept: use 'ridge' or 'dscm'."
    for name in ("center", "normalize", "refine"):
        if parameters.get(name, 0):
            return f"{name}={parameters[name]!r} needs rows, which are not kept."
    if parameters["n_layers"] != 1:
        return "n_layers above 1 needs rows: moments of the next layer are not known."
    if parameters["n_pivots"] is not None:
        return "n_pivots needs rows: moments do not tell which features are frequent."
    if parameters["solver"] not in ("auto", "primal"):
        return f"solver={parameters['solver']!r} needs rows: moments are for 'primal'."
    return ""


class IfStatisticsSuffice:
    """A method that is there only for models that statistics determine; else it says why not."""

    def __init__(self, method: Any):
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self.method
        reason = why_rows(instance)
        if reason:
            raise AttributeError(f"partial_fit: {reason}")
        return MethodType(self.method, instance)


def check_mark(moments: Moments, mark: Any) -> None:
    """Refuse moments without an unlabelled row, in which the mark is a class among others."""
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


# Dask -------------------------------------------------------------------------------------------


def dask_moments(estimator: Any, X: Any, y: Any, sample_domain: Any) -> Moments:
    """Statistics of Dask collections, summed on the workers."""
    from marda.moments.dask import moments_from_dask

    reason = why_rows(estimator)
    if reason:
        raise ValueError(f"X is a Dask collection, and {reason}")
    moments = moments_from_dask(
        X,
        y,
        sample_domain,
        unlabeled=estimator.unlabeled,
        class_grams=estimator.class_weight is not None,
        nonnegative=isinstance(as_noise(estimator.noise), Poisson),
    )
    if sample_domain is not None:
        check_domains(moments.domains, len(moments.domains))  # both sides
    return moments


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

        return apply_blockwise(method, self, X)

    return either
