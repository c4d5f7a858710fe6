"""What a reader can look at: both domains in two dimensions, features, confidence, convergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._order import row_order
from marda.criteria import stack_rows
from marda.diagnostics.diagnosis import denoise

__all__ = ["Evidence", "Gap", "Picture", "gather"]

POINTS = 500  # per domain: more dots hide each other, and every dot is part of the page
GAPS = 15
CELLS = 20_000_000  # values of denoised rows held at once, for rows that are very long
BINS = 20
FILLED = 0.5  # rows with fewer entries that are not zero are words, or counts of one kind


@dataclass(frozen=True)
class Picture:
    """Rows of both domains on the two directions in which, joined, they vary most.

    Columns are first divided by their standard deviation; where most entries are zero, those that
    would outweigh all others together (a price beside words) are scaled down to these.

    Attributes
    ----------
    places : array of shape (n_rows, 2)
        Coordinates.
    share : tuple of two floats
        How much of all variation each direction holds.
    """

    places: NDArray[np.float64]
    share: tuple[float, float]


@dataclass(frozen=True)
class Gap:
    """Mean of a feature in the target minus that in the source, in its standard deviations."""

    feature: str
    before: float
    after: float


@dataclass(frozen=True)
class Evidence:
    """What is shown of one fitted classifier.

    Attributes
    ----------
    before, after : Picture
        The same rows as they came and denoised.
    target : array of bool of shape (n_rows,)
        Whether a row of the pictures is of the target.
    codes : array of int of shape (n_rows,)
        Places in `classes`: labels of source rows, predictions for target rows.
    classes : tuple of str
        Label values, as text.
    shares : array of shape (2, n_classes)
        Of the classes among source labels and among predictions for the target.
    gaps : tuple of Gap
        Features whose gap changed most, or is largest where none changed; empty where denoised
        columns are no longer the features.
    confidence : array of int of shape (n_classes, n_bins)
        Target rows by predicted class and by the probability of that class.
    edges : array of shape (n_bins + 1,)
        Of the bins.
    losses : tuple of float
        The loss after every step of a joint model; empty for the others.
    """

    before: Picture
    after: Picture
    target: NDArray[np.bool_]
    codes: NDArray[np.int64]
    classes: tuple[str, ...]
    shares: NDArray[np.float64]
    gaps: tuple[Gap, ...]
    confidence: NDArray[np.int64]
    edges: NDArray[np.float64]
    losses: tuple[float, ...]

    @property
    def moved(self) -> bool:
        """Whether the classifier sees other features than those that came."""
        return not np.array_equal(self.before.places, self.after.places)


def gather(
    Xs: Any,
    Xt: Any,
    estimator: Any,
    *,
    names: Sequence[str],
    labels: NDArray[Any],
    predicted: NDArray[Any],
    probabilities: NDArray[np.float64],
    source_domain: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> Evidence:
    """Look at a fitted classifier; memory and time do not grow with the number of rows.

    Parameters
    ----------
    Xs, Xt, estimator, names, labels, predicted, source_domain
        As for `diagnosis.diagnose`.
    probabilities : array of shape (n_target, n_classes)
        Of the target rows.
    """
    rng = np.random.default_rng(seed)
    most = min(POINTS, max(50, CELLS // (2 * max(1, Xs.shape[1]))))
    places = [np.sort(row_order(X)[rng.permutation(X.shape[0])[:most]]) for X in (Xs, Xt)]
    rows = [X[at] for X, at in zip((Xs, Xt), places, strict=True)]
    of = None if source_domain is None else source_domain[places[0]]
    denoised = denoise(estimator, *rows, source_domain=of)
    classes = estimator.classes_
    picked = [y[at] for y, at in zip((labels, predicted), places, strict=True)]
    edges = np.linspace(0.0, 1.0, BINS + 1)
    codes = np.searchsorted(classes, predicted)
    best = probabilities[np.arange(len(codes)), codes]
    losses = getattr(estimator, "loss_curve_", ())
    return Evidence(
        before=_picture(rows, seed),
        after=_picture(denoised, seed),
        target=np.repeat([False, True], [len(at) for at in places]),
        codes=np.searchsorted(classes, np.concatenate(picked)).astype(np.int64),
        classes=tuple(str(c) for c in classes.tolist()),
        shares=np.array([[np.mean(y == c) for c in classes] for y in (labels, predicted)]),
        gaps=_gaps(rows, denoised, names, _outputs(estimator, names, denoised[0].shape[1])),
        confidence=np.array(
            [np.histogram(best[codes == k], edges)[0] for k in range(len(classes))], dtype=np.int64
        ),
        edges=edges,
        losses=tuple(float(v) for v in losses) if len(losses) > 1 else (),
    )


def _picture(rows: list[Any], seed: int) -> Picture:
    from sklearn.decomposition import PCA

    X = stack_rows(*rows)
    X = X.astype(np.float64, copy=False)
    variances, filled = _variances(X), np.asarray((X != 0).sum(0)).ravel() / max(1, X.shape[0])
    spread = np.sqrt(variances)
    words = np.sqrt(variances[filled <= FILLED].sum()) if filled.mean() <= FILLED else 0.0
    if words > 0:  # of one unit
        unit = np.where(spread > words, words / np.where(spread > 0, spread, 1), 1.0)
    else:  # columns of any unit count alike
        unit = np.where(spread > 1e-9 * abs(X).max(), 1 / np.where(spread > 0, spread, 1), 0.0)
    if (unit != 1).any():
        X = sp.csr_array(X @ sp.diags_array(unit)) if sp.issparse(X) else X * unit
    places = np.zeros((X.shape[0], 2))
    total = _variances(X).sum()
    if total == 0:  # one and the same row: nothing to rotate
        return Picture(places, (0.0, 0.0))
    k = min(2, X.shape[1])
    # Sparse rows are centred without being filled in; ARPACK needs more columns than directions.
    if sp.issparse(X) and min(X.shape) <= k:
        X = X.toarray()
    pca = PCA(k, svd_solver="arpack" if sp.issparse(X) else "auto", random_state=seed)
    places[:, :k] = pca.fit_transform(X)
    shares = pca.explained_variance_ * (X.shape[0] - 1) / X.shape[0] / total
    return Picture(places, (float(shares[0]), float(shares[1]) if k > 1 else 0.0))


def _outputs(estimator: Any, names: Sequence[str], width: int) -> NDArray[np.int64] | None:
    """Places of the features that denoised columns stand for; None where they stand for none."""
    if width == len(names):
        return np.arange(width)
    try:
        shown = estimator.get_feature_names_out(np.asarray(names, dtype=object)).tolist()
    except (AttributeError, ValueError):
        return None
    places = {name: k for k, name in enumerate(names)}
    found = [places.get(name) for name in shown]
    return None if len(found) != width or None in found else np.array(found, dtype=np.int64)


def _gaps(
    rows: list[Any], denoised: list[Any], names: Sequence[str], outputs: NDArray[np.int64] | None
) -> tuple[Gap, ...]:
    """The features whose gap changed most, or is largest where none changed."""
    if outputs is None:
        return ()
    before, after = _standardised(rows)[outputs], _standardised(denoised)
    changed = np.abs(np.abs(before) - np.abs(after))
    if not changed.any():
        changed = np.abs(before)
    most = np.argsort(-changed, kind="stable")[:GAPS]
    return tuple(Gap(names[outputs[j]], float(before[j]), float(after[j])) for j in most)


def _standardised(pair: list[Any]) -> NDArray[np.float64]:
    """Difference of means over the root of the mean variance within a domain."""
    means = [np.asarray(X.mean(axis=0), dtype=float).ravel() for X in pair]
    spread = np.sqrt(sum(_variances(X) for X in pair) / 2)
    # A feature that varies in neither domain tells nothing that a number of deviations could say.
    flat = spread <= 1e-9 * np.maximum(np.abs(means[0]), np.abs(means[1]))
    return np.where(flat, 0.0, (means[1] - means[0]) / np.where(flat, 1.0, spread))


def _variances(X: Any) -> NDArray[np.float64]:
    """Of every column, sparse or not."""
    if sp.issparse(X):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        return np.asarray(mean_variance_axis(sp.csr_matrix(X), axis=0)[1], dtype=float)
    return np.asarray(np.var(X, axis=0), dtype=np.float64)
