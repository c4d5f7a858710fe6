"""Candidates on more rows than features that do not depend on each other, through S⁻¹ (math.md §7).

The inverse of S1's map is linear in what noise and ridges add to the rows' Gram: with
G = q²S + N for a diagonal N,

    W₀⁻¹ = (G⁻¹qS)⁻¹ = qI + S⁻¹N/q.

Of a class predictor Z, its weights V = WZ on features solve (Q_l' + δ W⁻ᵀW⁻¹) V = qT', and

    W₀⁻ᵀW₀⁻¹ = q²I + N S⁻¹ + S⁻¹N + N S⁻²N/q²

are entries of S⁻¹ and S⁻² times numbers: any N and any noise for one Cholesky per δ. The domain
terms have few directions (one per source): W⁻¹ = W₀⁻¹ + J E changes that by rank 2k. What S1M adds
to N is mostly little: its answers are a series on S1's Cholesky.

S⁻² squares the condition of S: where that is bad, `eigenbasis` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marda._arrays import SingularError, add_gram, mirror_lower, thin_product
from marda.noise_paths.levels import Found, Point, SharedSums, Trial
from marda.operators.linear import CholeskyFactor, conjugate_gradients

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
CONDITION = 1e4  # of S; above it S⁻² has lost too much
NEAR = 0.03  # how much N may differ, relatively, for a series to pay
SETTLED, STEPS = 5e-9, 6  # what a series may leave out, and how many terms it may have
CG_TOL = 1e-10  # of the domain terms
TINY = float(np.finfo(float).tiny)


class _InverseDomain(NamedTuple):
    """U of the domain predictor, one column per direction."""

    U: Matrix
    image: Matrix  # S U
    strengths: Vector
    push: Matrix
    condition: float


class _InverseTerm(NamedTuple):
    """W⁻¹ = W₀⁻¹ + J E; of S1D also Δ and U of W = W₀ + ΔUᵀ."""

    J: Matrix
    E: Matrix
    delta: Matrix
    U: Matrix
    residual: float  # of Δ's own equation


class InverseMaps:
    """Weights of features of candidates.

    Parameters
    ----------
    sums : SharedSums
        Sums of the rows.

    Raises
    ------
    SingularError
        If features depend on each other, or nearly so.
    """

    def __init__(self, sums: SharedSums):
        self.sums = sums
        factor = CholeskyFactor(sums.gram.dense().T, "the rows' Gram")
        self.condition = factor.condition
        if not self.condition <= CONDITION:
            raise SingularError("features nearly depend on each other.")
        self.inverse = factor.inverse()
        self.square = mirror_lower(add_gram(np.zeros_like(self.inverse), self.inverse))
        self.labelled_gram = np.asfortranarray(sums.labelled_gram.dense())
        # New memory for every product of this size would cost as much as the product.
        self.penalty, self.labelled, self.scratch = (np.empty_like(self.inverse) for _ in range(3))

    @cached_property
    def domain(self) -> _InverseDomain:
        """The domain predictor, (S + αI) z_D = Σ (x − m) y_D, and its orthonormal directions."""
        sums = self.sums
        K = sums.gram.dense().T.copy(order="F")
        K[np.diag_indices_from(K)] += sums.domain_ridge
        factor = CholeskyFactor(K, "the domain predictor's matrix")
        z = factor.solve(sums.group_sums.T @ sums.targets.labels)
        E, strengths, push = sums.directions(z.T @ z)
        U = z @ E
        return _InverseDomain(U, sums.gram.matmul(U), strengths, push, factor.condition)

    def coefs(self, groups: Sequence[Sequence[Point]]) -> list[Found]:
        """V of candidates of one level, in groups with one W, and how far off they may be."""
        found: list[Found] = []
        factorised: _Family | None = None
        for _, alike in groupby(groups, lambda group: self._plain(group[0])):
            family = _Family(self, list(alike), factorised)
            found += family.found()
            factorised = family if family.factors else factorised
        return found

    @staticmethod
    def _plain(point: Point) -> tuple[float, ...]:
        """Candidates with the same have the same N."""
        return point.noise, point.ridge, point.weight if point.method == "S1M" else 0.0


class _Family:
    """Candidates with one N, in groups with one W; `near` are others of the same level."""

    def __init__(self, maps: InverseMaps, groups: Sequence[Sequence[Point]], near: _Family | None):
        self.maps, self.sums, self.groups, self.near = maps, maps.sums, groups, near
        first = groups[0][0]
        self.p, self.q = first.noise, 1 - first.noise
        self.N = self.sums.metric(first)
        self.deltas = sorted({point.ridge_class for group in groups for point in group})
        self.factors: dict[float, CholeskyFactor] = {}  # of Q_l' + δW₀⁻ᵀW₀⁻¹

    def _inverse(self, V: Matrix) -> Matrix:
        """W₀⁻¹V."""
        return np.asarray(
            self.q * V + thin_product(self.maps.inverse, self.N[:, None] / self.q * V)
        )

    def _inverse_adjoint(self, V: Matrix) -> Matrix:
        """W₀⁻ᵀV."""
        return np.asarray(
            self.q * V + self.N[:, None] / self.q * thin_product(self.maps.inverse, V)
        )

    def _penalty(self) -> Matrix:
        """W₀⁻ᵀW₀⁻¹."""
        maps, N = self.maps, self.N
        F, more = maps.penalty, maps.scratch
        np.add(N[:, None], N, out=F)
        F *= maps.inverse
        np.multiply(maps.square, N / self.q**2, out=more)
        more *= N[:, None]
        F += more
        F[np.diag_indices_from(F)] += self.q**2
        return F

    def _change(self, near: _Family) -> Matrix:
        """W₀⁻ᵀW₀⁻¹ beyond that of another N, without a difference of the two."""
        maps, m, middle = self.maps, self.N - near.N, (self.N + near.N) / (2 * self.q**2)
        F, more = maps.penalty, maps.scratch
        np.add(m[:, None], m, out=F)
        F *= maps.inverse
        # N_iN_j − Ñ_iÑ_j, as a product of two thin matrices
        np.matmul(np.stack([m, middle]).T, np.stack([middle, m]), out=more)
        more *= maps.square
        F += more
        return F

    def _labelled(self) -> Matrix:
        """Q_l'."""
        Q, sums = self.maps.labelled, self.sums
        np.multiply(self.maps.labelled_gram, self.q**2, out=Q)
        Q[np.diag_indices_from(Q)] += self.p * self.q * sums.labelled_squares
        return Q

    # The domain terms ---------------------------------------------------------------------------

    def _term(self, point: Point) -> _InverseTerm:
        sums = self.sums
        none = np.zeros((len(self.N), 0))
        if point.method == "S1M":  # G + EᵀE
            E = np.sqrt(point.weight) * self.q * sums.discrepancy.rows
            return _InverseTerm(thin_product(self.maps.inverse, E.T) / self.q, E, none, none, 0.0)
        if point.method != "S1D":
            return _InverseTerm(none, none.T, none, none, 0.0)
        delta, residual = self._domain_map(point)
        U = self.maps.domain.U
        back = self._inverse(delta)  # W₀⁻¹Δ, by Sherman–Morrison–Woodbury
        core = np.eye(U.shape[1]) + U.T @ back
        J = np.asarray(-np.linalg.solve(core.T, back.T).T, dtype=np.float64)
        return _InverseTerm(J, self._inverse_adjoint(U).T, delta, U, residual)

    def _domain_map(self, point: Point) -> tuple[Matrix, float]:
        """(★U), each column of U on its own: (G + sQ)Δ = a T zᵀU − sQ W₀U; and its residual."""
        sums, q, domain = self.sums, self.q, self.maps.domain
        s = point.weight * domain.strengths
        push = point.weight * q * domain.push
        N, noise = self.N[:, None], (self.p * q * sums.squares)[:, None]
        mapped = self._conjugate(np.full_like(s, q**2), N + 0 * s, q * domain.image)
        right = push - sums.Q(self.p, mapped) * s
        delta = self._conjugate(q**2 * (1 + s), N + noise * s, right)
        return delta, sums.domain_residual(point, domain.image, mapped, delta, push, s)

    def _conjugate(self, a: Vector, diagonal: Matrix, R: Matrix) -> Matrix:
        """(a_j S + diag(n_j))⁻¹r_j for every column j."""
        gram, size = self.sums.gram, a * self.sums.scatter[:, None] + diagonal

        def apply(V: Matrix) -> Matrix:
            return a * gram.matmul(V) + diagonal * V

        name = "the domain term"
        return conjugate_gradients(apply, R, lambda V: V / size, tol=CG_TOL, name=name).X

    # The class predictor ------------------------------------------------------------------------

    def found(self) -> list[Found]:
        """V of the candidates."""
        terms = [self._term(group[0]) for group in self.groups]
        sides = [np.hstack([t.E.T, self._inverse_adjoint(t.J)]) for t in terms]
        wanted = self.q * self.sums.labels
        ends = np.cumsum([wanted.shape[1], *(side.shape[1] for side in sides)])
        solved, left_out, condition = self._solved(np.hstack([wanted, *sides]))
        answers: list[tuple[Point, _InverseTerm, Matrix]] = []
        for delta, columns in zip(self.deltas, solved, strict=True):
            of_labels, *of_sides = np.split(columns, ends[:-1], axis=1)
            for group, term, side, own in zip(self.groups, terms, sides, of_sides, strict=True):
                V = self._updated(of_labels, delta, term, side, own)
                answers += [(point, term, V) for point in group if point.ridge_class == delta]
        tried = self._tried(answers)
        found = {
            point: Found(V, trial, left_out, self._condition(term, condition))
            for (point, term, V), trial in zip(answers, tried, strict=True)
        }
        return [found[point] for group in self.groups for point in group]

    def _solved(self, right: Matrix) -> tuple[list[Matrix], float, float]:
        """(Q_l' + δW₀⁻ᵀW₀⁻¹)⁻¹ of columns for every δ, what is left out, and the condition."""
        near = self._near
        if near is not None:
            solved, left_out = self._series(near, right)
            if left_out <= SETTLED:
                return solved, left_out, near.factors[self.deltas[0]].condition
        F, Q, K = self._penalty(), self._labelled(), self.maps.scratch
        for delta in self.deltas:
            np.multiply(F, delta, out=K)
            K += Q
            self.factors[delta] = CholeskyFactor(K, "the class predictor's matrix", delta)
        solved = [factor.solve(right) for factor in self.factors.values()]
        return solved, 0.0, self.factors[self.deltas[0]].condition  # the least δ has the worst

    @property
    def _near(self) -> _Family | None:
        """Others of the same level, where a series on their factors pays."""
        near = self.near
        if near is None or not set(self.deltas) <= set(near.factors):
            return None
        return near if float(np.abs(self.N / near.N - 1).max()) <= NEAR else None

    def _series(self, near: _Family, right: Matrix) -> tuple[list[Matrix], float]:
        """The same from the factors of a near N: K⁻¹ = K̃⁻¹ − K̃⁻¹(K − K̃)K̃⁻¹ + …"""
        change, lengths = self._change(near), np.sqrt(self.sums.scatter)[:, None]
        factors = [near.factors[delta] for delta in self.deltas]

        def sizes(V: Matrix) -> Vector:
            return np.asarray(np.linalg.norm(lengths * V, axis=0))

        more = np.hstack([factor.solve(right) for factor in factors])
        total, before, left_out = more.copy(), 1.0, np.inf
        for _ in range(STEPS):
            pushed = np.split(thin_product(change, more), len(factors), axis=1)
            more = np.hstack(
                [
                    factor.solve(-delta * push)
                    for delta, factor, push in zip(self.deltas, factors, pushed, strict=True)
                ]
            )
            total += more
            size = float((sizes(more) / np.maximum(sizes(total), TINY)).max())
            left_out, before = size * min(size / before, 1.0), max(size, TINY)  # the next term
            if left_out <= SETTLED:
                break
        return np.split(total, len(factors), axis=1), left_out

    def _condition(self, term: _InverseTerm, predictor: float) -> float:
        """Of the worst system: what S⁻² has lost, the class predictor's matrix may lose again."""
        domain = self.maps.domain.condition if term.U.shape[1] else 0.0
        return max(predictor * self.maps.condition, domain)

    @staticmethod
    def _updated(V: Matrix, ridge: float, term: _InverseTerm, side: Matrix, own: Matrix) -> Matrix:
        """V for W from that for W₀: W⁻ᵀW⁻¹ has L [[JᵀJ, I], [I, 0]] Lᵀ more, L = [Eᵀ W₀⁻ᵀJ]."""
        if not ridge or not side.shape[1]:
            return V
        eye = np.eye(term.J.shape[1])
        middle = np.block([[0 * eye, eye], [eye, -term.J.T @ term.J]]) / ridge
        return np.asarray(V - own @ np.linalg.solve(middle + side.T @ own, side.T @ V))

    def _tried(self, answers: Sequence[tuple[Point, _InverseTerm, Matrix]]) -> list[Trial]:
        """On one direction of the classes: Z = W⁻¹V, and B from q S B + UΔᵀy + δZ = 0."""
        sums, w = self.sums, self.sums.probe
        V = np.stack([coef @ w for _, _, coef in answers], 1)
        Z, V0 = self._inverse(V), V.copy()
        y = sums.Q_labelled(self.p, V) - self.q * (sums.labels @ w)[:, None]
        right = np.empty_like(Z)
        pushed = np.empty_like(Z)
        for k, (point, term, _) in enumerate(answers):
            Z[:, k] += term.J @ (term.E @ V[:, k])
            V0[:, k] -= term.delta @ (term.U.T @ Z[:, k])
            right[:, k] = point.ridge_class * Z[:, k]
            pushed[:, k] = right[:, k] + term.U @ (term.delta.T @ y[:, k])
        B = thin_product(self.maps.inverse, pushed) / -self.q
        return [
            Trial(Z[:, k], V0[:, k], B[:, k], right[:, k], term.delta, term.U, term.residual)
            for k, (_, term, _) in enumerate(answers)
        ]
