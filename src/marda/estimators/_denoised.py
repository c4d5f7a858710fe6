"""Denoised rows of fitted layers: concatenated, centred, normalised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from marda._validation import Labels, summed
from marda.operators.maps import DenoisingMap

__all__ = ["ACTIVATIONS", "DenoisedRows", "Layer", "row_lengths"]

Matrix = NDArray[Any]
#: Domain → its classes (None: all rows are one group), and the mean of each.
GroupMeans = dict[int, tuple[NDArray[np.int64] | None, Matrix]]

#: What is left of a row after centring is rounding below this many units of its last place.
ROUNDINGS = 32
#: ... or below this share of its length: denoised rows are sums over many terms.
ROUNDING = 1e-12

ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {
    "tanh": np.tanh,
    "relu": lambda H: np.maximum(H, 0),
    "identity": lambda H: H,
}


@dataclass(frozen=True)
class Layer:
    """One fitted layer: its map and how it was found."""

    map: DenoisingMap
    solver: str
    outputs: NDArray[np.int64] | None


def row_lengths(H: Matrix) -> NDArray[np.float64]:
    """Euclidean lengths of rows, whatever their units: squares must not over- or underflow."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", H, H, dtype=np.float64)
    odd = np.flatnonzero(~((squares > 1e-290) & (squares < np.inf)))
    lengths = np.sqrt(squares)
    if odd.size:
        top = np.abs(H[odd]).max(axis=1, initial=0).astype(np.float64)
        unit = np.where(top > 0, top, 1)
        lengths[odd] = unit * np.sqrt(((H[odd] / unit[:, None]) ** 2).sum(1))
    return np.asarray(lengths)


class DenoisedRows:
    """What `transform` and classifiers see, for estimators with fitted `_layers`."""

    if TYPE_CHECKING:
        activation: str
        concatenate: bool
        center: bool
        class_weight: Any
        normalize: bool
        _layers: list[Layer]

    def _group_means(self, X: Any, labels: Labels, domain: NDArray[np.int64]) -> GroupMeans:
        """Means of denoised rows: of all target rows together (−1), and of every source.

        With balanced classes these are means of a source's classes, with the classes that it has.
        """
        if not self.center:
            return {}
        side = np.maximum(domain, -1)
        found: GroupMeans = {}
        for d in np.unique(side).tolist():
            rows = np.flatnonzero(side == d)
            present, groups = None, [rows]
            if isinstance(self.class_weight, str) and d >= 0:
                present, codes = np.unique(labels.codes[rows], return_inverse=True)
                groups = [rows[codes == k] for k in range(len(present))]
            found[d] = present, self._means([X[group] for group in groups])
        return found

    def _set_centers(self, means: GroupMeans, shares: NDArray[np.float64] | None = None) -> None:
        """Centres of domains, for class shares that the target is thought to have (None: equal).

        A source with more rows of one class than the target is not shifted for that.
        """
        self._centers: dict[int, NDArray[Any]] = {}
        for d, (present, values) in means.items():
            weights = None if shares is None or present is None else shares[present]
            if weights is not None and not weights.any():  # of the target's classes it has none
                weights = None
            self._centers[d] = np.average(values, axis=0, weights=weights)

    def _means(self, parts: list[Any]) -> NDArray[Any]:
        """Means of denoised rows, one a part."""
        if len(self._layers) > 1:
            return np.stack([self._denoised(X).mean(0) for X in parts])
        means = [np.asarray(X.mean(0), dtype=np.float64).ravel() for X in parts]
        return np.asarray(self._layers[0].map.apply(np.stack(means)))  # W is linear

    def _center_of_new_rows(self) -> Any:
        """New rows are of the target, or of the only domain there was."""
        if not self._centers:
            return 0.0
        return self._centers[min(self._centers)]

    def _activate(self, H: Matrix) -> Matrix:
        return ACTIVATIONS[self.activation](H)

    def _features(self, X: Any, domain: NDArray[np.int64] | None = None) -> Matrix:
        """Denoised rows, centred and normalised if so set; without domains, of the target."""
        return self._placed(self._denoised(X), domain)

    def _placed(self, H: Matrix, domain: NDArray[np.int64] | None) -> Matrix:
        """Denoised rows, centred and normalised in place."""
        before = row_lengths(H) if self.center and self.normalize else None
        if self.center and domain is None:
            H -= self._center_of_new_rows().astype(H.dtype)
        elif self.center and domain is not None:
            side = np.maximum(domain, -1)
            for d in np.unique(side).tolist():
                if d not in self._centers:
                    raise ValueError(
                        f"sample_domain holds {d}, a domain that fit has not seen: rows are "
                        f"centred at their own domain's mean (seen: {sorted(self._centers)})."
                    )
                H[side == d] -= self._centers[d].astype(H.dtype)
        if self.normalize:
            norms = row_lengths(H)
            if before is not None:  # rows that are their own centre but for rounding
                rounding = max(ROUNDING, ROUNDINGS * float(np.finfo(H.dtype).eps))
                norms[nothing := norms <= rounding * before] = 0
                H[nothing] = 0
            H /= np.where(norms > 0, norms, 1)[:, None].astype(H.dtype)
        return H

    def _denoised(self, X: Any) -> Matrix:
        """X W + offset, or the concatenation of layers."""
        if len(self._layers) == 1:
            return self._layers[0].map.apply(X)
        blocks = [X.toarray() if sp.issparse(X) else X]
        for layer in self._layers:
            source = X if len(blocks) == 1 else blocks[-1]
            blocks.append(self._activate(layer.map.apply(source)))
        return np.hstack(blocks) if self.concatenate else blocks[-1]

    def _check_transform(self, X: Any) -> Any:
        return summed(
            validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        )

    @property
    def _single(self) -> Layer:
        if len(self._layers) > 1:
            raise AttributeError(
                f"a model of {len(self._layers)} layers has no single W, Z on inputs or coef_."
            )
        return self._layers[0]

    @property
    def W_(self) -> Matrix:
        """The denoising matrix, dense on demand; refuses to exceed memory."""
        return self._single.map.dense()

    @property
    def W_map_(self) -> DenoisingMap:
        """The denoising matrix as an operator: `W_map_ @ V`."""
        return self._single.map

    @property
    def offset_(self) -> NDArray[np.float64]:
        """Bias row of W: denoised rows are X W + offset."""
        return self._single.map.offset

    @property
    def pivots_(self) -> NDArray[np.int64] | None:
        """Columns that are reconstructed, if not all."""
        return self._single.outputs
