"""Ridge scores of many `MDAClassifier` candidates that share what they can.

S1, S1M and S1D come from few factorisations per noise level: in the eigenbasis of the noise path,
or with fewer rows than features in the space of the rows. Every answer is tried on its equations
(`SharedSums.residuals`). A candidate whose answer is not right to six digits is fitted on its own,
by the routes and checks of any fit: it is right then, or refused. So are BL and MCF, whose W = I
leaves nothing to share but the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import InaccurateError, SingularError
from marda._machine import available_memory, format_bytes
from marda._validation import UNLABELED, Labels, check_number
from marda.estimators import MDAClassifier
from marda.estimators.classifier import fit_rows
from marda.estimators.fitting import Shared
from marda.estimators.model import TrainingRows
from marda.moments import Moments, accumulate
from marda.noise import Dropout
from marda.noise_paths.eigenbasis import EigenBasis
from marda.noise_paths.levels import FACTORS, Found, Point, SharedSums
from marda.noise_paths.row_space import RowSpace
from marda.operators.linear import DenseGram, Gram, RowGram
from marda.operators.rows import Rows
from marda.solve import LIMIT

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
DEFAULTS = MDAClassifier().get_params(deep=False)
PLAIN = ("BL", "MCF")  # W = I: nothing to share
METHODS = (*PLAIN, "S1", "S1M", "S1D")
SCALINGS = ("balanced", "paper", "relative")
#: Parameters that all candidates of one `PathCandidates` have in common.
SHARED = ("class_weight", "fit_intercept", "ridge_domain", "scaling")
BLOCK_BYTES = 64 * 2**20
MATRICES = 20  # of size r×r at once, the workspace of the eigendecomposition included
#: What residuals and errors may be; above it a candidate is fitted on its own.
RESIDUAL = 1e-8
GROWTH = 30.0  # how much larger a residual may be than what a series has left out of the scores
EPS = float(np.finfo(float).eps)


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
        probability and nothing that candidates could not share.
    """
    full = {**DEFAULTS, **params}
    noise = full["noise"]
    return (
        full["method"] in METHODS
        and isinstance(full["classifier"], str)
        and full["classifier"] == "ridge"
        and full["n_layers"] == 1
        and full["solver"] == "auto"
        and not any(full.get(name) for name in ("refine", "center", "normalize", "n_pivots"))
        and isinstance(noise, int | float | np.number)
        and full["scaling"] in SCALINGS
        and (full["method"] != "S1M" or full["marginalization"] == "exact")
    )


def path_bytes(n_rows: int, n_features: int) -> int:
    """Memory that `PathCandidates` takes beyond the rows, about."""
    return MATRICES * 8 * min(n_rows, n_features) ** 2


class PathCandidates:
    """Scores of candidates that share rows, class weights, intercept, α and scaling.

    Scores are those of `MDAClassifier` with the same parameters.

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
    shared : Shared, default=None
        Of models of the same rows: their sums are taken from there, and left there.
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
        shared: Shared | None = None,
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
                f"candidates of {X.shape[0]} rows × {X.shape[1]} features together take about "
                f"{format_bytes(needed)}, and {format_bytes(available_memory())} are free: fit the "
                "candidates one by one, or use fewer rows or features."
            )
        self._X, self._labels, self._domain = X, labels, domain
        self._moments = (Shared() if shared is None else shared).moments

    def _sums(self, grams: bool) -> Moments:
        """Moments of all rows."""
        key = grams, True
        if key not in self._moments:
            codes, domain = self._labels.codes, self._domain
            self._moments[key] = accumulate(
                self._X, self._labels.classes, codes, domain, grams=grams
            )
        return self._moments[key]

    @property
    def _thin(self) -> bool:
        """Whether there are fewer rows than features."""
        return bool(self._X.shape[0] < self._X.shape[1])

    @property
    def _weights(self) -> Vector:
        """Of classes."""
        return self._sums(not self._thin).class_weights(self.shared["class_weight"])

    @cached_property
    def _labelled(self) -> NDArray[np.int64]:
        """Where the labelled rows are."""
        return np.flatnonzero(self._labels.codes != UNLABELED)

    @cached_property
    def _rows(self) -> tuple[Rows, RowGram]:
        """All rows about their mean, and the labelled ones about theirs."""
        X, index, (center, center_l) = self._X, self._labelled, self._centers
        weights: Vector | None = self._weights[self._labels.codes[index]]
        if np.all(weights == 1):
            weights = None
        if not sp.issparse(X) and self._thin:
            rows = Rows(X.astype(np.float64) - center)
            return rows, RowGram(Rows(rows.X[index], center_l - center), weights)
        return Rows(X, center), RowGram(Rows(X[index], center_l), weights)

    @cached_property
    def _centers(self) -> tuple[Vector, Vector]:
        """Means of all and of the labelled rows; zeros without an intercept."""
        moments = self._sums(not self._thin)
        n, total, _ = moments.about(moments.shift)
        n_l, total_l, _ = moments.about(moments.shift, moments.group_weights(self._weights))
        if not self.shared["fit_intercept"]:
            return np.zeros_like(total), np.zeros_like(total)
        return moments.shift + total / n, moments.shift + total_l / n_l

    @cached_property
    def _shared_sums(self) -> SharedSums:
        """What all candidates have in common."""
        moments, (rows, labelled), centers = self._sums(not self._thin), self._rows, self._centers
        weights = self._weights
        gram: Gram = RowGram(rows)
        gram_l: Gram = labelled
        if not self._thin:
            gram = DenseGram(moments.scatter(centers[0]))
            plain = np.all(weights == 1)  # else moments would need a Gram per class
            gram_l = DenseGram(moments.scatter(centers[1], weights) if plain else labelled.dense())
        bias, alpha, scaling = (
            self.shared[name] for name in ("fit_intercept", "ridge_domain", "scaling")
        )
        return SharedSums(moments, weights, gram, gram_l, *centers, bias, alpha, scaling)

    @cached_property
    def _engine(self) -> EigenBasis | RowSpace:
        """Where candidates with a W of their own are solved together."""
        sums, (rows, labelled) = self._shared_sums, self._rows
        if not self._thin:
            return EigenBasis(sums, labelled)
        groups = sums.moments.row_groups(self._domain, self._labels.codes)
        return RowSpace(sums, rows, self._labelled, labelled, groups)

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

        Raises
        ------
        SingularError, InaccurateError
            If a candidate's equations cannot be solved to six digits.
        """
        found = self._solve(candidates)
        taken = Rows(self._X[rows])
        n_classes = len(self._labels.classes)
        step = max(1, BLOCK_BYTES // (8 * n_classes * max(1, taken.shape[0])))
        for start in range(0, len(found), step):
            block = found[start : start + step]
            # One product for all: thin ones would be bound by memory.
            together = taken.dot(np.hstack([coef for coef, _ in block]))
            parts = np.split(together, len(block), axis=1)
            for part, (_, intercept) in zip(parts, block, strict=True):
                yield part + intercept

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
        yield from self._solve(candidates)

    def _parse(self, params: Mapping[str, Any]) -> tuple[str, float, float, float, float]:
        """Method, noise, ω, δ and γ of a candidate, checked."""
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
        return (
            method,
            0.0 if method == "BL" else noise,
            check_number("ridge", full["ridge"]),
            check_number("ridge_class", full["ridge_class"]),
            check_number("domain_loss_weight", full["domain_loss_weight"]),
        )

    # Solving ----------------------------------------------------------------------------------

    def _solve(self, candidates: Sequence[Mapping[str, Any]]) -> list[tuple[Matrix, Vector]]:
        """Together where that is right, each on its own where it is not."""
        given = [self._parse(params) for params in candidates]
        together = self._together({one for one in given if one[0] not in PLAIN})
        own = {one: self._own(*one) for one in given if one not in together}
        return [(together | own)[one] for one in given]

    def _together(self, given: set[Any]) -> dict[Any, tuple[Matrix, Vector]]:
        """Weights of features and intercepts of the candidates that are right."""
        if not given:
            return {}
        sums = self._shared_sums
        points: dict[Point, list[Any]] = {}
        for one in given:
            points.setdefault(sums.point(*one), []).append(one)
        deltas = sorted({point.ridge_class for point in points})
        blocks = {delta: k // FACTORS for k, delta in enumerate(deltas)}

        def level(point: Point) -> tuple[Any, ...]:
            """Candidates of a level share most, and are solved together."""
            return *point.level, blocks[point.ridge_class]

        # Neighbours in this order have N in common, p and 1 − p above all.
        order = sorted(points, key=lambda p: (p.ridge, p.variance, level(p), p))
        answers: list[tuple[Point, Found]] = []
        for _, group in groupby(order, level):
            answers += self._answers(list(group))
        found: dict[Any, tuple[Matrix, Vector]] = {}
        for point, few in self._right(answers):
            q, coef = 1 - point.noise, sums.all_classes(few)
            intercept = sums.wanted - q * sums.labelled_center @ coef
            found |= dict.fromkeys(points[point], (coef, intercept))
        return found

    def _answers(self, alike: Sequence[Point]) -> list[tuple[Point, Found]]:
        """Of candidates of a level, sorted.

        Where a matrix is singular they are tried again by their maps, and what is singular then is
        left to an own fit, which says it better.
        """
        groups = [list(group) for _, group in groupby(alike, lambda point: point.map)]
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return list(zip(alike, self._engine.coefs(groups), strict=True))
        except (SingularError, InaccurateError, np.linalg.LinAlgError):
            if len(groups) > 1:
                return [found for group in groups for found in self._answers(group)]
            return []

    def _right(self, answers: Sequence[tuple[Point, Found]]) -> Iterator[tuple[Point, Matrix]]:
        """Weights of features of those that are right to six digits."""
        sums = self._shared_sums
        # One product for many: thin ones would be bound by memory.
        step = max(1, BLOCK_BYTES // (24 * self._X.shape[1]))
        for start in range(0, len(answers), step):
            points, found = zip(*answers[start : start + step], strict=True)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                residuals = sums.residuals(points, [one.trial for one in found])
            for point, one, residual in zip(points, found, residuals, strict=True):
                error = sums.far * max(one.left_out, EPS * one.condition)
                solved = residual <= RESIDUAL + GROWTH * one.left_out
                if solved and error <= LIMIT and np.isfinite(one.coef).all():
                    yield point, one.coef

    def _own(
        self, method: str, noise: float, ridge: float, ridge_class: float, weight: float
    ) -> tuple[Matrix, Vector]:
        """Weights of features and intercept of a fit of its own; it raises where none is right."""
        model = MDAClassifier(
            method,
            noise=noise,
            ridge=ridge,
            ridge_class=ridge_class,
            domain_loss_weight=weight,
            **self.shared,
        )
        rows = TrainingRows(self._X, self._labels, self._domain, ordered=True)
        found = fit_rows(model, rows, Shared(moments=self._moments, loss=False)).model_
        assert found.coef is not None
        assert found.intercept is not None
        return found.coef.T, found.intercept
