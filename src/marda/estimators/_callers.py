"""Meta-estimators that hand over domains but take the mark of unlabelled rows for a class.

A pipeline gives the same `y` to all of its steps, and `CalibratedClassifierCV` reads it itself. An
estimator sees nothing wrong in what it is given, and scikit-learn has no way for it to ask who
calls: the frames below are looked at, up to a process boundary (`n_jobs`).
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import get_routing_for_object

__all__ = ["check_callers"]


def check_callers(unlabelled: NDArray[np.bool_], mark: Any) -> None:
    """Refuse unlabelled rows within a meta-estimator that would learn their mark as a class."""
    if not unlabelled.any():
        return
    frame: Any = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(caller, CalibratedClassifierCV):
            raise ValueError(
                f"CalibratedClassifierCV takes {mark!r}, the mark of unlabelled target rows, for a "
                "class: use MDAClassifierCV(), whose probabilities are calibrated, or fit on all "
                "rows and calibrate on labelled ones, CalibratedClassifierCV(FrozenEstimator(clf))"
                ".fit(X[known], y[known])."
            )
        if isinstance(caller, Pipeline) and _learns_marks(caller.steps[-1][1]):
            name = type(caller.steps[-1][1]).__name__
            raise ValueError(
                f"{name}, the last step of the pipeline, takes {mark!r}, the mark of unlabelled "
                f"target rows, for a class: write MDAClassifier(classifier={name}()) instead of "
                f"MDA(), {name}(), or use skada.make_da_pipeline(MDA(), {name}())."
            )
        frame = frame.f_back


def _learns_marks(last: Any) -> bool:
    """Whether the last step reads labels and knows neither domains nor unlabelled rows."""
    if not hasattr(last, "fit") or not (is_classifier(last) or is_regressor(last)):
        return False
    if type(last).__module__.startswith("sklearn.semi_supervised"):
        return False  # −1 is its mark, too
    routing = get_routing_for_object(last)
    return not routing.consumes("fit", ["sample_domain"])
