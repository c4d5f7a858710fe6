"""Which method a command runs when none is named, and the estimator that a name means."""

from __future__ import annotations

from typing import Any

from marda.estimators import MDAClassifier
from marda.io import InputError
from marda.selection import MDAClassifierCV

__all__ = [
    "AUTO",
    "FROM_STATISTICS",
    "WITH_PARAMETERS",
    "chosen_method",
    "classifier_of",
    "make_classifier",
    "method_of",
]

AUTO = "auto"
#: Where noise or a classifier is given, of which "auto" chooses its own.
WITH_PARAMETERS = "S1D"
FROM_STATISTICS = "S1D"


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
