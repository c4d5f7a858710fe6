"""Ridge scores of many `MDAClassifier` candidates from one eigendecomposition.

Write W = D^-½ V T VᵀD^½ in the eigenbasis of the noise path (math.md §7). The class predictor's
equation (WᵀQ_lW + δI)Z = WᵀE[X_l]ᵀY becomes, for u = VᵀD^½Z,

    (TᵀA T + δC) u = q Tᵀ B_lᵀY,    A = q²G_l + pq E_l,    scores = B T u + z₀,

with the r×r matrices of `_bases.py` and T = T₀ + τκᵀ of `_path_maps.py`. One Cholesky of
T₀ᵀA T₀ + δC serves all S1, S1M and S1D of one noise, ω and δ: τκᵀ changes it by a low rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marda._memory import available_memory, format_bytes
from marda._validation import UNLABELED, Labels, check_number
from marda.estimators import MDAClassifier
from marda.moments import accumulate
from marda.noise import Dropout
from marda.operators.linear import CholeskyFactor
from marda.operators.rows import Rows
from marda.selection._bases import PREDICTOR, Basis, FullBasis, Labelled, ThinBasis
from marda.selection._denoisers import PathDenoiser
from marda.selection._path_maps import LowRank, PathMaps, Point
from marda.selection._row_space import RowSpace
from marda.terms import label_products

__all__ = ["PathCandidates", "on_path", "path_bytes"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
DEFAULTS = MDAClassifier().get_params(deep=False)
PLAIN = ("BL", "MCF")
METHODS = (*PLAIN, "S1", "S1M", "S1D")
SCALINGS = ("balanced", "paper", "relative")
SHARED = ("class_weight", "fit_intercept", "ridge_domain", "scaling")
BLOCK_BYTES = 64 * 2**20
MATRICES = 12  # of size r×r at once, the workspace of the eigendecomposition included


def on_path(params: Mapping[str, Any]) -> bool:
    """Whether `PathCandidates` can score a candidate.

    Parameters
    ----------
    params : mapping
        Parameters of `MDAClassifier`; those left out have their defaults.

    Returns
    -------
    bool
        True for BL, MCF, S1, S1M and S1D with one layer, the ridge classifier, one dropout
        probability and no step that the noise path does not have.
    """
    full = {**DEFAULTS, **params}
    noise = full["noise"]
    return (
        full["method"] in METHODS
        and isinstance(full["classifier"], str)
        and full["classifier"] == "ridge"
        and full["n_layers"] == 1
        and not any(full.get(name) for name in ("refine", "center", "normalize", "n_pivots"))
        and isinstance(noise, int | float | np.number)
        and full["scaling"] in SCALINGS
        # The paper's diagonal of M is no multiple of D, not even nearly.
        and (full["method"] != "S1M" or full["marginalization"] == "exact")
    )


def path_bytes(n_rows: int, n_features: int) -> int:
    """Memory that `PathCandidates` takes beyond the rows, about."""
    return MATRICES * 8 * min(n_rows, n_features) ** 2


@dataclass(frozen=True)
class _Predictor:
    """Weights on coordinates (or on features, if `plain`) and the intercept on raw rows."""

    weights: Matrix
    intercept: Vector
    plain: bool


class PathCandidates:
    """Scores of candidates that share rows, class weights, intercept, α and scaling.

    Scores equal those of `MDAClassifier` with the same parameters, but for two things that D, which
    measures the noise, does not measure: a ridge (ω·I is no multiple of D) and what noise leaves
    in S1M's means (O(1/n) of the noise of rows). Below 2 % of the noise of rows each is taken
    as the multiple of D of the same trace, above it as it is, for the price of about half a fit
    a noise level, or of a whole one with fewer rows than features.

    Parameters
    ----------
    X : array or CSR array of shape (n_rows, n_features), float32 or float64
        Rows of all domains, checked.
    labels : Labels
        Classes, and the code of every row's class.
    domain : array of int of shape (n_rows,)
        At least 0 for a source, below 0 for a target.
    class_weight, fit_intercept, ridge_domain, scaling
        As in `MDAClassifier`, for all candidates.
    """

    def __init__(
        self,
        X: Any,
        labels: Labels,
        domain: NDArray[np.int64],
        *,
        class_weight: Any = None,
        fit_intercept: bool = True,
        ridge_domain: float = 1.0,
        scaling: str = "balanced",
    ):
        if scaling not in SCALINGS:
            raise ValueError(f"scaling must be one of {SCALINGS}, got {scaling!r}.")
        self.shared = {
            "class_weight": class_weight,
            "fit_intercept": bool(fit_intercept),
            "ridge_domain": check_number("ridge_domain", ridge_domain),
            "scaling": scaling,
        }
        needed = path_bytes(*X.shape)
        if needed > available_memory():
            raise ValueError(
                f"the noise path of {X.shape[0]} rows × {X.shape[1]} features takes about "
                f"{format_bytes(needed)}, and {format_bytes(available_memory())} are free: fit the "
                "candidates one by one, or use fewer rows or features."
            )
        thin = X.shape[0] < X.shape[1]
        if thin:
            # A float32 kernel is good to 1e-7 of its largest eigenvalue: small ones are needed too.
            X = X.astype(np.float64, copy=False)
        moments = accumulate(X, labels.classes, labels.codes, domain, grams=not thin)
        weights = moments.class_weights(class_weight)
        n, total, squares = moments.select(np.ones(len(moments.counts), dtype=bool))
        n_l, total_l, squares_l = moments.weighted(moments.group_weights(weights))
        bias = float(self.shared["fit_intercept"])
        center, center_l = bias * total / n, bias * total_l / n_l
        index = np.flatnonzero(labels.codes != UNLABELED)
        known = Labelled(index, weights[labels.codes[index]], center_l, squares_l)
        self._rows, self._known, self._domain = Rows(X, center), known, domain
        self._basis: Basis
        if thin:
            self._basis = ThinBasis(self._rows, known, squares)
        else:
            self._basis = FullBasis(self._rows, known, moments, weights)
        self._maps = PathMaps(
            self._basis,
            moments,
            center if bias else None,
            weights,
            self.shared["ridge_domain"],
            scaling,
        )
        # Σw(x − m_l)yᵀ, and what corrupted labelled rows should get on average: z₀ is free
        self._labels, Y = label_products(moments, weights, center_l)
        self._wanted = bias * Y / n_l
        self._center = center

    @cached_property
    def _right(self) -> Matrix:
        """Of the class predictor's equation, in coordinates."""
        return self._basis.inputs(self._labels)

    @cached_property
    def _centers(self) -> Matrix:
        """The means of all and of the labelled rows, in coordinates."""
        return self._basis.inputs(np.column_stack([self._center, self._known.center])).T

    @cached_property
    def _row_space(self) -> RowSpace:
        return RowSpace(self._rows, self._known, self._labels, self._maps, self._domain)

    # Asking -----------------------------------------------------------------------------------

    def scores(
        self, candidates: Sequence[Mapping[str, Any]], rows: Any = slice(None)
    ) -> Iterator[Matrix]:
        """Ridge scores of every candidate on some of the rows, in the order given.

        Parameters
        ----------
        candidates : sequence of mappings
            Parameters of `MDAClassifier`; those left out have their defaults.
        rows : slice or index, default=all
            Which of the rows.

        Yields
        ------
        scores : array of shape (n_rows, n_classes)
        """
        found = self._solve(candidates)
        taken = Rows(self._rows.X[rows], self._rows.center)
        step = max(1, BLOCK_BYTES // (8 * len(self._wanted) * max(1, taken.shape[0])))
        for start in range(0, len(found), step):
            block = found[start : start + step]
            # One product for all: thin ones would be bound by memory.
            plain = [one.weights for one in block if one.plain]
            inner = [one.weights for one in block if not one.plain]
            on_features = _columns(taken.dot, plain)
            on_coordinates = _columns(lambda A: self._basis.scores(A, rows), inner)
            for one in block:
                at_center = self._center if one.plain else self._centers[0]
                part = next(on_features if one.plain else on_coordinates)
                yield part + (one.intercept + at_center @ one.weights)

    def coefs(self, candidates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Matrix, Vector]]:
        """Weights of features and intercept of every candidate: scores = X coef + intercept.

        Parameters
        ----------
        candidates : sequence of mappings
            As in `scores`.

        Yields
        ------
        coef : array of shape (n_features, n_classes)
        intercept : array of shape (n_classes,)
        """
        for one in self._solve(candidates):
            yield one.weights if one.plain else self._basis.coef(one.weights), one.intercept

    def close(self, params: Mapping[str, Any]) -> bool:
        """Whether a candidate's scores are those of its own fit, within a few percent at most.

        Parameters
        ----------
        params : mapping
            As in `scores`.

        Returns
        -------
        bool
            False for a large ridge on features of different scales that depend on each other: the
            path spreads the ridge over the features in proportion to their scale.
        """
        return self._maps.close(self._parse(params))

    def _parse(self, params: Mapping[str, Any]) -> Point:
        """A candidate's numbers, checked."""
        if not on_path(params):
            raise ValueError(
                f"the candidate {dict(params)!r} is not on the noise path: fit an MDAClassifier."
            )
        for name in SHARED:
            if name in params and params[name] != self.shared[name]:
                raise ValueError(
                    f"all candidates share {name}={self.shared[name]!r}, got {params[name]!r}: "
                    "make other PathCandidates for it."
                )
        full = {**DEFAULTS, **params}
        method, noise = full["method"], float(full["noise"])
        Dropout(noise)  # checks the range
        return self._maps.point(
            method,
            0.0 if method == "BL" else noise,
            check_number("ridge", full["ridge"]),
            check_number("ridge_class", full["ridge_class"]),
            check_number("domain_loss_weight", full["domain_loss_weight"]),
        )

    # Solving ----------------------------------------------------------------------------------

    def _solve(self, candidates: Sequence[Mapping[str, Any]]) -> list[_Predictor]:
        """One A a noise level, one T₀ᵀA T₀ a ridge ω, one Cholesky a ridge δ."""
        points = [self._parse(params) for params in candidates]
        found = {point: self._plain(point) for point in points if point.method in PLAIN}
        if self._basis.thin:
            in_rows = {point for point in points if point.apart and point not in found}
            coefs = self._row_space.coefs(list(in_rows))
            found |= {point: self._on_features(Z, 1 - point.noise) for point, Z in coefs.items()}
        denoising = sorted(
            {point for point in points if point not in found},
            key=lambda c: (c.noise, c.denoiser_key, c.ridge_class),
        )
        for p, level in groupby(denoising, lambda c: c.noise):
            q = 1 - p
            A = q**2 * self._basis.labelled
            A += (p * q) * self._basis.variance
            for _, group in groupby(level, lambda c: c.denoiser_key):
                alike = list(group)
                denoiser = self._maps.denoiser(alike[0])
                inner = denoiser.sandwich(A)
                terms = {(c.method, c.weight): c for c in alike}
                low = {key: self._maps.low_rank(c, denoiser) for key, c in terms.items()}
                for ridge_class, same in groupby(alike, lambda c: c.ridge_class):
                    K = ridge_class * self._basis.penalty
                    K += inner
                    factor = CholeskyFactor(K, PREDICTOR)
                    for point in same:
                        part = low[point.method, point.weight]
                        weights = self._predict(factor, A, denoiser, part, q)
                        intercept = self._wanted - q * self._centers[1] @ weights
                        found[point] = _Predictor(weights, intercept, plain=False)
        return [found[point] for point in points]

    def _plain(self, point: Point) -> _Predictor:
        """W = I: BL and MCF, on the features themselves."""
        q = 1 - point.noise
        Z = self._basis.plain(point.noise, point.ridge_class).solve(q * self._labels)
        return self._on_features(Z, q)

    def _on_features(self, coef: Matrix, q: float) -> _Predictor:
        return _Predictor(coef, self._wanted - q * self._known.center @ coef, plain=True)

    def _predict(
        self,
        factor: CholeskyFactor,
        A: Matrix,
        denoiser: PathDenoiser,
        low: LowRank | None,
        q: float,
    ) -> Matrix:
        """T u from the factor of T₀ᵀA T₀ + δC, which τκᵀ changes by rank 2k (math.md §5.4)."""
        right = q * denoiser.tdot(self._right)
        if low is None:
            return denoiser.dot(factor.solve(right))
        tau, kappa = low.tau, low.kappa
        right += q * kappa @ (tau.T @ self._right)
        A_tau = A @ tau
        sides = np.hstack([kappa, denoiser.tdot(A_tau)])
        eye = np.eye(tau.shape[1])
        middle_inverse = np.block([[np.zeros_like(eye), eye], [eye, -tau.T @ A_tau]])
        solved = factor.solve(np.hstack([right, sides]))
        u, K_sides = solved[:, : right.shape[1]], solved[:, right.shape[1] :]
        core = middle_inverse + sides.T @ K_sides
        u = u - K_sides @ np.linalg.solve(core, sides.T @ u)
        return denoiser.dot(u) + tau @ (kappa.T @ u)


def _columns(product: Callable[[Matrix], Matrix], weights: list[Matrix]) -> Iterator[Matrix]:
    """The product with each of the weights, made as one."""
    if weights:
        yield from np.split(product(np.hstack(weights)), len(weights), axis=1)
