"""Methods by name: which runs when none is named, its estimator, and what that says of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda.estimators import MDAClassifier
from marda.io import InputError
from marda.selection import MDAClassifierCV

__all__ = [
    "AUTO",
    "FROM_STATISTICS",
    "WITH_PARAMETERS",
    "chosen_method",
    "classes_and_probabilities",
    "classifier_of",
    "make_classifier",
    "method_of",
    "method_says",
]

AUTO = "auto"
#: Where noise or a classifier is given, of which "auto" chooses its own.
WITH_PARAMETERS = "S1D"
FROM_STATISTICS = "S1D"
#: Probabilities that differ by more have scores of the same order, whatever a softmax rounded.
CLEAR = 1e-12


def chosen_method(method: str | None, *, rows: bool) -> tuple[str, tuple[str, ...]]:
    """The method, and notes about the choice.

    Parameters
    ----------
    method : str or None
        What was asked for; None: the default.
    rows : bool
        Whether rows are in memory; statistics alone do not allow every choice.

    Returns
    -------
    method : str
    notes : tuple of str
    """
    if rows:
        return method or AUTO, ()
    if method == AUTO:
        raise InputError(
            "--method auto needs rows in memory: name a method such as S1D, or allow more --memory."
        )
    if method is None:
        return FROM_STATISTICS, (
            f"no --method was named: {FROM_STATISTICS} is used, since choosing one needs rows in "
            "memory.",
        )
    return method, ()


def make_classifier(method: str | None, unlabeled: Any, **parameters: Any) -> Any:
    """The estimator of a method; parameters that are None have their defaults."""
    given = {name: value for name, value in parameters.items() if value is not None}
    name = method or (WITH_PARAMETERS if given else AUTO)
    if name != AUTO:
        return MDAClassifier(name, unlabeled=unlabeled, **given)
    if given:
        options = " and ".join(f"--{option}" for option in given)
        raise InputError(f"--method auto chooses {options} by itself: leave {options} out.")
    return MDAClassifierCV(unlabeled=unlabeled, random_state=0)


def method_of(model: Any) -> str:
    """The name that `make_classifier` makes a model of."""
    return AUTO if isinstance(model, MDAClassifierCV) else str(model.method)


def classifier_of(model: Any) -> str:
    """What classifies denoised rows, in words."""
    if isinstance(model, MDAClassifierCV):
        return " + ".join(f"{m.weight:.2g} × {m.name}" for m in model.members_)
    return str(model.classifier)


_STARTS = {
    "BL": "a classifier learned from the source alone, used as it is",
    "MCF": "a classifier learned from the source under noise",
    "S1": "features denoised first, then a classifier",
    "J12": "features and classifier learned together",
}
_TERMS = {
    "": "",
    "M": ", with the means of the domains drawn together",
    "D": ", so that all rows look like target rows",
    "C": ", with the means of every class drawn together",
}


def method_says(method: str) -> str:
    """What a method does, in a few words; empty for a name that is not marda's."""
    if method == AUTO:
        return "marda's default: it finds out what differs and chooses by itself"
    for start in ("J12", "S1"):
        if method.startswith(start) and method[len(start) :] in _TERMS:
            return _STARTS[start] + _TERMS[method[len(start) :]]
    return _STARTS.get(method, "")


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
