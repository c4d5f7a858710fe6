"""Candidates on fewer rows than features whose ridge D does not measure: exact, in n×n matrices.

One noise level p has, with all diagonals in N = pqD + ωI (and the noise of S1M's means) and with
K = X N⁻¹Xᵀ,

    W₀ = N⁻¹XᵀF X,   F = q(q²K + I)⁻¹,   KF = (qI − F)/q²,   W = W₀ + Δ cᵀX,

where the few columns of Δ and c are those of a domain term (math.md §5, §6). A predictor is Z = Xᵀa
with the weights WZ = Ψu on features, for u = XXᵀa and Ψ = N⁻¹XᵀF + Δcᵀ, and

    (ΨᵀQ_lΨ XXᵀ + δI) a = qΨᵀX_lᵀY.

All terms of a level share the LU factors of (F X N⁻¹Q_lN⁻¹Xᵀ F) XXᵀ + δI.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lu_factor, lu_solve

from marda._linalg import add_gram, mirror_lower
from marda.operators.linear import CholeskyFactor, SingularError
from marda.operators.rows import Rows
from marda.selection._bases import PREDICTOR, Labelled, inverse_of
from marda.selection._path_maps import PathMaps, Point

__all__ = ["RowSpace"]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class _Term(NamedTuple):
    """Δ cᵀX, what a domain term adds to W₀, and what that adds to the predictor's equation."""

    delta: Matrix
    c: Matrix
    sides: Matrix  # F X N⁻¹Q_lΔ, and c
    middle: Matrix  # the inverse of what stands between them
    right: Matrix


class RowSpace:
    """Weights of features of candidates that share rows and class weights.

    Parameters
    ----------
    rows : Rows
        All rows, about their mean where there is an intercept.
    known : Labelled
        The labelled ones.
    labels : array of shape (d, n_classes)
        Σ w (x − m_l) yᵀ.
    maps : PathMaps
        What D, the ridges and the domain terms are.
    domain : array of shape (n,)
        Domains of the rows.
    """

    def __init__(
        self,
        rows: Rows,
        known: Labelled,
        labels: Matrix,
        maps: PathMaps,
        domain: NDArray[np.int64],
    ):
        self.rows, self.known, self.labels = rows, known, labels
        self.maps, self._domain = maps, domain
        self.labelled = Rows(rows.X[known.index], known.center)

    @cached_property
    def gram(self) -> Matrix:
        """XXᵀ."""
        return self.rows.kernel(np.ones(self.rows.shape[1]))

    def coefs(self, points: Sequence[Point]) -> dict[Point, Matrix]:
        """WZ of every candidate."""
        found = {}
        by_level = sorted(points, key=lambda point: (point.level, point.ridge_class))
        for _, same_level in groupby(by_level, lambda point: point.level):
            alike = list(same_level)
            level = _Level(self, alike[0])
            one_of_each = {(point.method, point.weight): point for point in alike}
            terms = {key: level.term(point) for key, point in one_of_each.items()}
            for ridge_class, same in groupby(alike, lambda point: point.ridge_class):
                factor = level.factor(ridge_class)
                for point in same:
                    found[point] = level.coef(factor, terms[point.method, point.weight])
        return found

    @cached_property
    def directions(self) -> tuple[Matrix, Vector, Matrix]:
        """Of the domain predictor: c of U = Xᵀc, their strengths, and what pushes them."""
        K = self.gram.copy(order="F")
        K[np.diag_indices_from(K)] += self.maps.domain_ridge
        targets = self.maps.row_targets(self._domain)
        z = CholeskyFactor(K, "the domain predictor's matrix").solve(targets)
        E, strengths, push = self.maps.directions(z.T @ self.gram @ z)
        return z @ E, strengths, push


class _Level:
    """One noise level and ridge ω."""

    def __init__(self, space: RowSpace, point: Point):
        self.space, self.p, self.q = space, point.noise, 1 - point.noise
        rows, known, q = space.rows, space.known, self.q
        self.metric = space.maps.metric(point)
        self.inverse = inverse_of(self.metric)
        K = rows.kernel(self.inverse)
        K *= q * q
        K[np.diag_indices_from(K)] += 1
        self.F = q * CholeskyFactor(K).inverse()
        # K F of labelled rows, about their mean where there is an intercept
        hat = -self.F[known.index] / q**2
        hat[np.arange(len(hat)), known.index] += 1 / q
        if known.center.any():
            hat -= known.weights @ hat / known.weights.sum()
        hat *= np.sqrt(known.weights)[:, None]
        inner = (self.p * q) * self.F @ rows.kernel(known.squares * self.inverse**2) @ self.F
        inner = mirror_lower(add_gram(np.asfortranarray(inner), q * hat.T))
        self.system = inner @ space.gram
        self.right = q * self.F @ rows.dot(self.inverse[:, None] * space.labels)

    def factor(self, ridge_class: float) -> tuple[Matrix, NDArray[np.int32]]:
        """LU of what all terms share."""
        if ridge_class == 0:
            raise SingularError(
                f"{PREDICTOR} is singular with fewer rows than features: use ridge_class above 0."
            )
        M = self.system.copy(order="F")
        M[np.diag_indices_from(M)] += ridge_class
        factor: tuple[Matrix, NDArray[np.int32]] = lu_factor(
            M, overwrite_a=True, check_finite=False
        )
        return factor

    def coef(self, factor: tuple[Matrix, NDArray[np.int32]], term: _Term | None) -> Matrix:
        """Ψu, from the factors of W₀: a term changes the system by rank 2k."""
        space, F = self.space, self.F
        if term is None:
            u = space.gram @ lu_solve(factor, self.right, check_finite=False)
            return self._features(F @ u)
        solved = lu_solve(factor, np.hstack([term.right, term.sides]), check_finite=False)
        a, M_sides = np.split(solved, [term.right.shape[1]], axis=1)
        across = term.sides.T @ space.gram
        a = a - M_sides @ np.linalg.solve(term.middle + across @ M_sides, across @ a)
        u = space.gram @ a
        return np.asarray(self._features(F @ u) + term.delta @ (term.c.T @ u))

    def _term(self, delta: Matrix, c: Matrix) -> _Term:
        space = self.space
        moved = self._labelled_moment(delta)
        sides = np.hstack([self.F @ space.rows.dot(self.inverse[:, None] * moved), c])
        eye = np.eye(c.shape[1])
        middle = np.block([[-delta.T @ moved, eye], [eye, np.zeros_like(eye)]])
        right = self.right + self.q * c @ (delta.T @ space.labels)
        return _Term(delta, c, sides, middle, right)

    def term(self, point: Point) -> _Term | None:
        """Δ and c of S1M and S1D."""
        space, maps, q = self.space, self.space.maps, self.q
        if point.method == "S1M":
            # (G + EEᵀ)⁻¹ by Sherman–Morrison–Woodbury
            E = np.sqrt(point.weight) * q * maps.mean_differences.T
            c = self.F @ space.rows.dot(self.inverse[:, None] * E)
            solved = self._solve(E)
            core = np.eye(E.shape[1]) + E.T @ solved
            return self._term(-np.linalg.solve(core, solved.T).T, c)
        if point.method == "S1D":
            # (★U), each column of U on its own: (G + sQ)Δ = a T zᵀU − sQ W₀U
            c, strengths, push = space.directions
            s = point.weight * strengths
            W0U = self._features(self.F @ (space.gram @ c))
            right = point.weight * q * push - s * self._moment(W0U)
            columns = [self._solve_more(s_j, r) for s_j, r in zip(s, right.T, strict=True)]
            return self._term(np.column_stack(columns), c)
        return None

    def _solve(self, R: Matrix) -> Matrix:
        """G⁻¹R, for G = N + q²XᵀX."""
        scaled = self.inverse[:, None] * R
        return scaled - self.q * self._features(self.F @ self.space.rows.dot(scaled))

    def _moment(self, V: Matrix) -> Matrix:
        """QV, for Q = pqD + q²XᵀX."""
        rows = self.space.rows
        return self.q**2 * rows.tdot(rows.dot(V)) + self._noise[:, None] * V

    @property
    def _noise(self) -> Vector:
        """The noise of rows, pqD."""
        return self.p * self.q * self.space.maps.squares

    def _features(self, B: Matrix) -> Matrix:
        """N⁻¹XᵀB."""
        return self.inverse[:, None] * self.space.rows.tdot(B)

    def _labelled_moment(self, V: Matrix) -> Matrix:
        """Q_lV."""
        known, labelled = self.space.known, self.space.labelled
        scatter = labelled.tdot(known.weights[:, None] * labelled.dot(V))
        return self.q**2 * scatter + (self.p * self.q) * known.squares[:, None] * V

    def _solve_more(self, s: float, r: Vector) -> Vector:
        """(G + sQ)⁻¹r = (N + s pqD + (1+s)q²XᵀX)⁻¹r."""
        rows = self.space.rows
        inverse = inverse_of(self.metric + s * self._noise)
        share = (1 + s) * self.q**2
        K = rows.kernel(inverse)
        K *= share
        K[np.diag_indices_from(K)] += 1
        first = inverse * r
        inner = CholeskyFactor(K).solve(rows.dot(first[:, None]))
        return np.asarray(first - share * inverse * rows.tdot(inner)[:, 0])
