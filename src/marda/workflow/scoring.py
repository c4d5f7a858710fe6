"""Classes and probabilities of rows, from one scoring of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["classes_and_probabilities"]

#: Probabilities that differ by more have scores of the same order, whatever a softmax rounded.
CLEAR = 1e-12


def classes_and_probabilities(model: Any, X: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places of the predicted classes in `classes_`, and probabilities of all classes.

    The classes are those of `predict`. marda's classifiers predict the class of the highest score
    and rank probabilities as scores, so that `predict_proba` tells both; `predict` is asked too
    where two probabilities are too close to tell whose score is higher, and where the classifier
    is another library's, which may predict by another rule.
    """
    P = model.predict_proba(X)
    own = isinstance(getattr(model, "classifier", "ridge"), str)
    second, first = np.partition(P, (-2, -1), axis=1)[:, -2:].T
    if own and (first - second > CLEAR).all():  # not if any is NaN
        return P.argmax(1), P
    return np.searchsorted(model.classes_, model.predict(X)).astype(np.int64), P
