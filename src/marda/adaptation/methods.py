"""Methods by name: the estimator of each, well-known ones among them, and what it says of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn import config_context
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marda._arrays import device_memory, to_torch, torch_device
from marda._machine import available_memory, format_bytes
from marda._order import row_order
from marda.adaptation.reading import Data
from marda.estimators import MDAClassifier
from marda.io import InputError
from marda.persist import on_host
from marda.selection import MDAClassifierCV
from marda.selection.auto import Costs, entries_per_row
from marda.selection.labelling import LOOKED_AT, MAX_DIRECTIONS
from marda.terms import parse_method

AUTO = "auto"
#: Where noise or a classifier is given, of which "auto" chooses its own.
WITH_PARAMETERS = "S1D"
#: Probabilities that differ by more have scores of the same order, whatever a softmax rounded.
CLEAR = 1e-12
#: Copies of all rows, in double precision, that a fit on a device holds about.
DEVICE_COPIES = 4
#: Members of less weight are not named.
NAMED = 0.005
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

TREES = 200
#: Principal directions of SA.
DIRECTIONS = 20
#: Wider rows are cut to so many leading singular directions before covariances are taken.
MAX_WIDTH = 1000
STEPS = 3000
#: Rows per domain that the default learns from; of more source rows, sums.
SAMPLED_ROWS = 10_000
#: Wider rows are not explained by a sample of columns, and have a linear model only.
WIDE = 500
#: Seconds that a value takes about to be read and made a feature, by the kind of its column.
READ = {"number": 4e-7, "date": 2e-6, "category": 2.8e-6, "text": 4.3e-5, "matrix": 0.0}
#: Those that map rows, and the rows that each domain must have for them.
ALIGNED, ALIGNED_ROWS = ("CORAL", "SA"), 2
#: Their names, and what they do in a line.
BASELINES = {
    "logistic": "logistic regression on the source rows alone (scikit-learn)",
    "forest": f"a forest of {TREES} trees on the source rows alone (scikit-learn)",
    "CORAL": "source rows are made to vary together as the target's do, then logistic regression",
    "SA": f"up to {DIRECTIONS} principal directions of the source are turned to the target's, then "
    "logistic regression",
}


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
        probe = torch_device(device)
    except ValueError as error:
        raise InputError(f"--device {error}") from None
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
    return to_torch(X, device)


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
    check, draw, choose, write : float
        Of distances, of what a report shows beside them, of rows to label, and of the page.
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
    write: float
    measure: float
    fixed: float

    @classmethod
    def of(cls, data: Data, method: str) -> Weights:
        """By the sizes of the rows; constants fit what `scripts/time_left.py --steps` prints."""
        ns, nt, X = len(data.ys), len(data.yt), data.Xs
        n, d, z, C = ns + nt, X.shape[1], entries_per_row(X), len(np.unique(data.ys))
        width = min(n, d, MAX_WIDTH)
        cut = 0.05 + (9.5e-10 * n * z * width if d > width else 0.0)
        work, sparse = 1.0 * n * z * min(n, z), sp.issparse(X)
        sampled = min(ns, SAMPLED_ROWS), min(nt, SAMPLED_ROWS)
        fits = {
            AUTO: Costs.of(X, *sampled, ns - sampled[0]).total,
            "BL": 0.02 + 1.3e-11 * work,
            "logistic": 0.02 + 1e-8 * ns * z * C,
            "forest": (3.4e-7 if sparse else 1.15e-6) * ns * np.log2(ns + 2) * d**0.72,
            "CORAL": cut + 1e-9 * width**3,
            "SA": cut + 2.5e-10 * width**3,
        }
        return cls(
            read=float(sum(READ[step.kind] * n for step in data.preprocessing.steps))
            + 5e-8 * n * z,
            fit=float(fits.get(method, 0.05 + 2.1e-10 * n * d * min(n, d))),
            predict=(2e-5 if d > WIDE else 1.3e-5) * nt + 1e-8 * nt * z,
            check=0.09 + (2.2e-7 if sparse else 4e-7) * (min(ns, 1000) + min(nt, 1000)) * z,
            draw=0.02 + (9e-8 * n * z if sparse else 1.3e-8 * n * z + 6e-11 * work),
            choose=(
                0.01
                + (0.0 if d <= MAX_DIRECTIONS else 4e-5 * min(d, 5000))
                + (0.0 if sparse or d > WIDE else 1e-3 * d)
                + 1e-7 * min(nt, LOOKED_AT) ** 2
            ),
            write=0.2,
            measure=0.03 + 3e-8 * min(n, 1000) ** 2,
            fixed=0.02 + 1.3e-11 * work,
        )


class Baseline:
    """One of `BASELINES`, well-known methods beside marda's, fitted as marda's classifiers are.

    Their settings are those of their papers and scikit-learn's defaults, the same for every table,
    and none sees a target label. The last two map rows and leave the rest to logistic regression:

    - CORAL (Sun, Feng and Saenko, 2016): source rows Xs Cs^(-1/2) Ct^(1/2), with the covariance C
      of a domain plus its mean variance times I (with columns at standard deviation 1, the paper's
      I).
    - SA (Fernando, Habrard, Sebban and Tuytelaars, 2013): source rows Xs Ps Psᵀ Pt and target rows
      Xt Pt, with the leading principal directions P of a domain.

    As in both papers, the columns of each domain are first brought to mean 0 and standard deviation
    1; sparse rows (words), whose rare columns that would blow up, are centred only.

    Parameters
    ----------
    name : str
        Which one.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def fit(self, X: Any, y: NDArray[Any], *, sample_domain: NDArray[np.int64]) -> Self:
        """Learn from labelled source rows; of target rows, CORAL and SA see the columns."""
        self.domains_ = np.unique(sample_domain)
        # What is drawn depends on what rows hold, not on how they came.
        source, target = (
            at[row_order(X[at], sample_domain[at])]
            for at in (np.flatnonzero(sample_domain >= 0), np.flatnonzero(sample_domain < 0))
        )
        self._maps: tuple[_Map, _Map] | None = None
        if self.name in ALIGNED:
            self._maps = _aligned(self.name, X[source], X[target])
        rows = self.transform(X[source], sample_domain=sample_domain[source])
        linear = LogisticRegression(max_iter=STEPS)
        self._model: Any = linear
        if self.name == "forest":
            self._model = RandomForestClassifier(TREES, random_state=0)
        elif self._maps is None and not sp.issparse(X):
            self._model = make_pipeline(StandardScaler(), linear)
        self._model.fit(rows, y[source])
        self.classes_ = self._model.classes_
        return self

    def transform(self, X: Any, *, sample_domain: NDArray[np.int64] | None = None) -> Any:
        """Rows as the classifier sees them; without domains they are of the target."""
        if self._maps is None:
            return _small_indices(X)
        if sample_domain is None:
            return self._maps[1].apply(X)
        parts = np.flatnonzero(sample_domain >= 0), np.flatnonzero(sample_domain < 0)
        rows = [m.apply(X[at]) for m, at in zip(self._maps, parts, strict=True) if len(at)]
        return np.vstack(rows)[np.argsort(np.concatenate(parts))]

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of target rows."""
        return np.asarray(self._model.predict(self.transform(X)))

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of target rows, one column per class."""
        return np.asarray(self._model.predict_proba(self.transform(X)), dtype=np.float64)


def _small_indices(X: Any) -> Any:
    """CSR rows with indices of 32 bits, where these do: scikit-learn's trees take no others."""
    if not sp.issparse(X) or max(X.nnz, *X.shape) >= 2**31:
        return X
    indices, starts = (index.astype(np.int32, copy=False) for index in (X.indices, X.indptr))
    return sp.csr_array((X.data, indices, starts), shape=X.shape)


@dataclass(frozen=True)
class _Map:
    """Rows of one domain → ((x − mean)/spread cut − centre) matrix."""

    mean: Vector
    spread: Vector
    cut: TruncatedSVD | None
    centre: Vector
    matrix: Matrix

    def apply(self, X: Any) -> Matrix:
        """To rows of that domain."""
        return np.asarray(
            (_narrow(X, self.mean, self.spread, self.cut) - self.centre) @ self.matrix
        )


def _narrow(X: Any, mean: Vector, spread: Vector, cut: TruncatedSVD | None) -> Matrix:
    """Dense rows of not too many columns, in units of their spread."""
    if not sp.issparse(X):
        X = (X - mean) / spread
    if cut is not None:
        return np.asarray(cut.transform(X))
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def _aligned(name: str, *domains: Any) -> tuple[_Map, _Map]:
    """The maps of source rows and of target rows to common columns."""
    n, d = sum(X.shape[0] for X in domains), domains[0].shape[1]
    width = min(n, d, MAX_WIDTH)
    need = 3 * 8 * n * width
    if need > available_memory() / 2:
        raise MemoryError(
            f"{name} needs {format_bytes(need)}, more than half of the memory that is free: leave "
            "it out of --methods."
        )
    few = min(X.shape[0] for X in domains)
    if few < ALIGNED_ROWS:
        raise ValueError(
            f"{name} needs {ALIGNED_ROWS} rows in each domain, got {few}: leave it out."
        )
    units = [_units(X) for X in domains]
    cut = None
    if d > width:
        cut = TruncatedSVD(width, random_state=0)
        if sp.issparse(domains[0]):
            cut.fit(sp.vstack(domains).tocsr())
        else:
            cut.fit(np.vstack([_narrow(X, *u, None) for X, u in zip(domains, units, strict=True)]))
    rows = [_narrow(X, *u, cut) for X, u in zip(domains, units, strict=True)]
    centres = [X.mean(axis=0) for X in rows]
    covariances = [np.cov(X, rowvar=False).reshape(X.shape[1], -1) for X in rows]
    matrices = (_coral if name == "CORAL" else _subspaces)(covariances, few)
    source, target = (
        _Map(*u, cut, centre, matrix)
        for u, centre, matrix in zip(units, centres, matrices, strict=True)
    )
    return source, target


def _units(X: Any) -> tuple[Vector, Vector]:
    """Mean and standard deviation of columns; 0 and 1 for sparse rows."""
    d = X.shape[1]
    if sp.issparse(X):
        return np.zeros(d), np.ones(d)
    spread = X.std(axis=0)
    return X.mean(axis=0), np.where(spread > 0, spread, 1.0)


def _coral(covariances: Sequence[Matrix], few: int) -> tuple[Matrix, Matrix]:
    """Cs^(-1/2) Ct^(1/2) for source rows; target rows stay."""
    powers = []
    for C, power in zip(covariances, (-0.5, 0.5), strict=True):
        mean = np.trace(C) / len(C) or 1.0  # columns that are all constant stay as they are
        values, vectors = eigh(C + mean * np.eye(len(C)))
        powers.append((vectors * values**power) @ vectors.T)
    return powers[0] @ powers[1], np.eye(len(powers[0]))


def _subspaces(covariances: Sequence[Matrix], few: int) -> tuple[Matrix, Matrix]:
    """Ps Psᵀ Pt for source rows, Pt for target rows."""
    d = len(covariances[0])
    k = min(DIRECTIONS, d, few - 1)
    Ps, Pt = (eigh(C, subset_by_index=(d - k, d - 1))[1] for C in covariances)
    return Ps @ (Ps.T @ Pt), Pt
