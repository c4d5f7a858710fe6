"""Methods by name: which runs when none is named, its estimator, and what that says of rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import config_context

from marda._arrays import device_memory
from marda._machine import available_memory, format_bytes
from marda.adaptation.baselines import BASELINES, MAX_WIDTH, Baseline
from marda.adaptation.reading import Data
from marda.estimators import MDAClassifier
from marda.io import InputError
from marda.persist import on_host
from marda.selection import MDAClassifierCV
from marda.selection.auto import Costs, entries_per_row
from marda.selection.labelling import LOOKED_AT
from marda.terms import parse_method

__all__ = [
    "AUTO",
    "FROM_STATISTICS",
    "WITH_PARAMETERS",
    "Weights",
    "chosen_method",
    "classes_and_probabilities",
    "classifier_of",
    "compared_classifier",
    "explained",
    "fit_on_device",
    "make_classifier",
    "method_of",
    "sample_notes",
]

AUTO = "auto"
#: Where noise or a classifier is given, of which "auto" chooses its own.
WITH_PARAMETERS = "S1D"
FROM_STATISTICS = "S1D"
#: Probabilities that differ by more have scores of the same order, whatever a softmax rounded.
CLEAR = 1e-12
#: Copies of all rows, in double precision, that a fit on a device holds about.
DEVICE_COPIES = 4
#: Members of less weight are not named.
NAMED = 0.005


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
        raise InputError("--method auto needs rows, not statistics alone: name one such as S1D.")
    if method is None:
        return FROM_STATISTICS, (
            f"no --method was named: {FROM_STATISTICS} is used, since choosing one needs rows.",
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


def fit_on_device(model: Any, X: Any, y: Any, domain: NDArray[np.int64], device: str | None) -> Any:
    """Fit on rows of the host; with a device, there, through torch, as dense rows.

    Parameters
    ----------
    model : MDAClassifier or MDAClassifierCV
        Not fitted.
    X, y, domain : arrays
        As `fit` takes them.
    device : str or None
        "cuda", "cuda:1", "cpu", …; None: numpy.

    Returns
    -------
    MDAClassifier or MDAClassifierCV
        Fitted, of numpy.
    """
    if device is None:
        return model.fit(X, y, sample_domain=domain)
    rows = _moved(X, device)
    # scikit-learn follows arrays where SciPy was told to, too.
    os.environ["SCIPY_ARRAY_API"] = "1"
    with config_context(array_api_dispatch=True):
        model.fit(rows, y, sample_domain=domain)
    return on_host(model)


def _moved(X: Any, device: str) -> Any:
    """Rows as a dense tensor on a device; what there is not room for is refused."""
    try:
        import array_api_compat  # noqa: F401
        import torch
    except ImportError as error:
        raise InputError(
            f"--device needs {error.name}: run pip install torch 'marda[arrays]'."
        ) from None
    try:
        probe = torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError):
        n = torch.cuda.device_count()
        known = ", ".join(["cpu", *(f"cuda:{k}" for k in range(n))])
        raise InputError(f"--device {device} is not here: torch has {known}.") from None
    n_values = X.shape[0] * X.shape[1]
    free = device_memory(probe)
    free = available_memory() if free is None else free
    # The rows as they came and in double precision, denoised, and about their means.
    needed = DEVICE_COPIES * n_values * 8
    if needed > free:
        raise InputError(
            f"--device {device} has {format_bytes(free)} free, and {X.shape[0]} rows × "
            f"{X.shape[1]} columns need about {format_bytes(needed)} there: leave --device out."
        )
    return torch.asarray(X.toarray() if sp.issparse(X) else X, device=device)


def compared_classifier(method: str, unlabeled: Any, **parameters: Any) -> Any:
    """The same for `compare`, which also knows `BASELINES`; parameters are of marda's models."""
    if method in BASELINES:
        return Baseline(method)
    return make_classifier(method, unlabeled, **({} if method == AUTO else parameters))


def explained(method: str) -> str:
    """What a method that `compared_classifier` knows does, in a line."""
    if method in BASELINES:
        return BASELINES[method]
    if method == AUTO:
        return "marda's default: asks what differs, then chooses without target labels"
    if method == "BL":
        return "marda's ridge classifier on the source rows alone"
    if method == "MCF":
        return "the ridge classifier under noise that is integrated out, on the source rows alone"
    model = parse_method(method)
    ways = (
        (model.mmd, "the means of both domains brought together"),
        (model.class_mmd, "class means brought together"),
        (model.domain, "every row made to look like target"),
    )
    told = ", ".join(way for wanted, way in ways if wanted)
    if told:
        return f"{'J12' if model.joint else 'S1'} with {told}"
    if model.joint:
        return "features denoised over both domains and the classifier, learned together"
    return "features denoised over both domains, then the ridge classifier"


def method_of(model: Any) -> str:
    """The name that `make_classifier` makes a model of."""
    return AUTO if isinstance(model, MDAClassifierCV) else str(model.method)


def sample_notes(model: Any, n_rows: int) -> list[str]:
    """A sentence where not everything was learned from all of so many rows."""
    used = dict(getattr(model, "n_rows_used_", {}))
    chosen = used.pop("choices", n_rows)
    if chosen >= n_rows:
        return []
    learned = ""
    if used:
        models = "model" if len(used) == 1 else "models"
        learned = (
            f"the {' and '.join(used)} {models} then learned from all {max(used.values()):,} "
            "labelled source rows, and "
        )
    return [
        f"everything was chosen on a sample of {chosen:,} of {n_rows:,} rows; {learned}all target "
        "rows are predicted."
    ]


def classifier_of(model: Any) -> str:
    """What classifies denoised rows, in words."""
    if isinstance(model, MDAClassifierCV):
        return " + ".join(f"{m.weight:.2g} × {m.name}" for m in model.members_ if m.weight >= NAMED)
    return str(model.classifier)


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


@dataclass(frozen=True)
class Weights:
    """Seconds that steps take about, on some machine: the weights of progress.

    Attributes
    ----------
    read, fit, predict : float
        Of the files, of the method, of predictions.
    check, draw, choose : float
        Of distances, of what a report shows beside them, and of rows to label.
    measure : float
        Of what `compare` tells of every method.
    fixed : float
        Of a fit of the ridge classifier.
    """

    read: float
    fit: float
    predict: float
    check: float
    draw: float
    choose: float
    measure: float
    fixed: float

    @classmethod
    def of(cls, data: Data, method: str) -> Weights:
        """By the sizes of the rows; constants fit what `scripts/time_left.py --steps` prints."""
        ns, nt, X = len(data.ys), len(data.yt), data.Xs
        n, d, z, C = ns + nt, X.shape[1], entries_per_row(X), len(np.unique(data.ys))
        cut = 0.05 + (6e-7 * n * z if d > MAX_WIDTH else 0.0)
        ridge = 0.02 + 1e-10 * n * z * min(n, z)
        fits = {
            AUTO: Costs.of(X, ns, nt, C).total,
            "BL": ridge,
            "logistic": 0.02 + 1e-8 * ns * z * C,
            "forest": 1.1e-5 * ns * np.log2(ns + 2) * d**0.5,
            "CORAL": cut + 1e-9 * min(d, MAX_WIDTH) ** 3,
            "SA": cut + 2.5e-10 * min(d, MAX_WIDTH) ** 3,
        }
        return cls(
            read=5e-8 * n * z,
            fit=float(fits.get(method, 2.5 * ridge)),
            predict=1e-8 * nt * z,
            check=0.09 + 5e-7 * (min(ns, 1000) + min(nt, 1000)) * z,
            draw=0.02 + n * z * (5e-8 + (0.0 if sp.issparse(X) else 7e-11 * min(n, z))),
            choose=0.05 + 1.5e-7 * min(nt, LOOKED_AT) ** 2 + 6e-8 * min(nt, LOOKED_AT) * z,
            measure=0.03 + 3e-8 * min(n, 1000) ** 2,
            fixed=ridge,
        )
