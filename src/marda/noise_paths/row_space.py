"""Candidates on fewer rows than features, in n×n matrices (math.md §6, §11).

One noise level p has, with all diagonals of G in N and with K = X N⁻¹Xᵀ,

    W₀ = N⁻¹XᵀF X,   F = q(q²K + I)⁻¹,   W = W₀ + Δ cᵀX,

where the few columns of Δ and c are those of a domain term. A predictor is Z = Xᵀa with the weights
WZ = Ψu on features, for u = XXᵀa and Ψ = N⁻¹XᵀF + Δcᵀ, and

    (ΨᵀQ_lΨ XXᵀ + δI) a = ΨᵀT.

All terms of a level share the LU factors of (F X N⁻¹Q_lN⁻¹Xᵀ F) XXᵀ + δI. What noise leaves in the
means of S1M changes N a little: its answer is a series that begins with the answer for S1's N.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack, lu_solve

from marda._arrays import SingularError, add_gram, lower_product, mirror_lower
from marda.noise_paths.levels import FACTORS, Found, Point, SharedSums, Trial
from marda.operators.linear import CholeskyFactor, RowGram
from marda.operators.rows import Rows

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
TINY = float(np.finfo(float).tiny)
NEAR = 0.1  # how much S1M may change N for a series to pay
KERNELS = 3  # that are kept: two of a level, and one of the domain predictor
SETTLED, STEPS = 2e-8, 8  # what a series may leave out, and how many terms it may have


class _RowTerm(NamedTuple):
    """Δ cᵀX, what a domain term adds to W₀."""

    delta: Matrix
    c: Matrix
    E: Matrix  # S1M's directions: Δ is then a part of V₀
    residual: float  # of Δ's own equation


class _RowDomain(NamedTuple):
    """U = Xᵀc of the domain predictor, one column per direction."""

    U: Matrix
    c: Matrix
    image: Matrix  # S U
    strengths: Vector
    push: Matrix
    condition: float


class _Answer(NamedTuple):
    """Candidates with one W, side by side: Z = Xᵀa, V₀ and V, B where a series needed it."""

    points: Sequence[Point]
    level: _RowLevel
    term: _RowTerm
    a: Matrix
    V0: Matrix
    V: Matrix
    B: Matrix | None
    left_out: float


class RowSpace:
    """Weights of features of candidates.

    Parameters
    ----------
    sums : SharedSums
        Sums of the rows.
    rows : Rows
        All rows about their mean.
    index : array of shape (n_labelled,)
        Where the labelled rows are.
    labelled : RowGram
        These rows about their mean, and what they weigh.
    groups : array of shape (n,)
        The group of `sums.moments` of each row.
    """

    def __init__(
        self,
        sums: SharedSums,
        rows: Rows,
        index: NDArray[np.int64],
        labelled: RowGram,
        groups: NDArray[np.int64],
    ):
        self.sums, self.rows = sums, rows
        self.index, self.labelled, self.groups = index, labelled.rows, groups
        self.weights = np.ones(len(index)) if labelled.weights is None else labelled.weights
        self._levels: dict[tuple[float, float, float], _RowLevel] = {}
        self._kernels: dict[tuple[Any, ...], Matrix] = {}

    @cached_property
    def gram(self) -> Matrix:
        """XXᵀ."""
        return self.rows.kernel(np.ones(self.rows.shape[1]))

    def kernel(self, key: tuple[Any, ...], weights: Vector, *, rough: bool = False) -> Matrix:
        """X diag(w) Xᵀ, not to be changed; the last ones are kept, since p and 1 − p share them.

        A rough one is of single precision: for systems that are solved again for what is left.
        """
        if key not in self._kernels:
            if rough and not sp.issparse(self.rows.X):
                scaled = (self.rows.X * np.sqrt(weights)).astype(np.float32)
                made = np.asarray((scaled @ scaled.T).astype(np.float64))
            else:
                made = self.rows.kernel(weights)
            if len(self._kernels) == KERNELS:
                self._kernels.pop(next(iter(self._kernels)))
            self._kernels[key] = made
        return self._kernels[key]

    @cached_property
    def domain(self) -> _RowDomain:
        """The domain predictor."""
        K = self.gram.copy(order="F")
        K[np.diag_indices_from(K)] += self.sums.domain_ridge
        factor = CholeskyFactor(K, "the domain predictor's matrix")
        z = factor.solve(self.sums.targets.labels[self.groups])
        E, strengths, push = self.sums.directions(z.T @ self.gram @ z)
        c = z @ E
        U, image = np.hsplit(self.rows.tdot(np.hstack([c, self.gram @ c])), 2)
        return _RowDomain(U, c, image, strengths, push, factor.condition)

    @cached_property
    def differences(self) -> Matrix:
        """Weights of rows whose sums are S1M's differences of means, a column each."""
        return np.ascontiguousarray(self.sums.discrepancy.combinations[:, self.groups].T)

    def level(self, point: Point) -> _RowLevel:
        """The level whose N is the candidate's, or near enough to it."""
        plain = point._replace(method="S1", weight=0.0)
        taken = plain
        if point.method == "S1M":
            N = self.sums.metric(plain)
            if not (self.sums.metric(point) - N <= NEAR * N).all():
                taken = point
        key = *taken.level, taken.weight
        if key not in self._levels:  # candidates come in order: S1's and one more are enough
            kept = {k: made for k, made in self._levels.items() if k == (*plain.level, 0.0)}
            self._levels = {**kept, key: _RowLevel(self, taken)}
        return self._levels[key]

    def coefs(self, groups: Sequence[Sequence[Point]]) -> list[Found]:
        """V of candidates of one level, in groups with one W, and how far off they may be."""
        answers = [self._answer(points) for points in groups]
        sums, w = self.sums, self.sums.probe

        def tried(A: Matrix) -> Matrix:
            """On one direction of the classes of every candidate."""
            return np.asarray(A.reshape(len(A), -1, len(w)) @ w)

        # Few products for all of them: thin ones would be bound by memory.
        p = groups[0][0].noise
        wanted = (1 - p) * (sums.labels @ w)[:, None]
        rights = [
            one.level.right @ w[:, None] + one.term.c @ (one.term.delta.T @ wanted)
            for one in answers
        ]
        ends = np.cumsum([len(points) for points in groups])
        Z, right = np.split(
            self.rows.tdot(np.hstack([*(tried(one.a) for one in answers), *rights])),
            ends[-1:],
            axis=1,
        )
        y = sums.Q_labelled(p, np.hstack([tried(one.V) for one in answers])) - wanted
        Y = np.split(y, ends[:-1], axis=1)
        for k, one in enumerate(answers):
            if one.B is not None:  # right but for the last step of the series
                Y[k] = Y[k] - one.level.beyond(one.points[0]) * tried(one.B)
        B = _inverse(answers, Y)
        found: list[Found] = []
        for k, one in enumerate(answers):
            domain = one.points[0].method == "S1D"
            U = self.domain.U if domain else np.zeros((len(y), 0))
            delta = one.term.delta if domain else U
            condition = max(one.level.condition, self.domain.condition if domain else 0.0)
            V0, coefs = tried(one.V0), np.split(one.V, len(one.points), axis=1)
            for j, point in enumerate(one.points):
                tries = Z[:, len(found)], V0[:, j], B[k][:, j], right[:, k]
                trial = Trial(*tries, delta, U, one.term.residual)
                worst = max(condition, one.level.factor(point.ridge_class)[1])
                found.append(Found(coefs[j], trial, one.left_out, worst))
        return found

    def _answer(self, points: Sequence[Point]) -> _Answer:
        """Of candidates with one W."""
        level = self.level(points[0])
        term = level.term(points[0])
        a, V0, B, left_out = level.solve(points, term)
        V = V0
        if points[0].method == "S1D":  # Δ is no part of V₀
            V = V0 + term.delta @ (term.c.T @ (self.gram @ a))
        return _Answer(points, level, term, a, V0, V, B, left_out)


def _inverse(answers: Sequence[_Answer], rights: Sequence[Matrix]) -> list[Matrix]:
    """G⁻¹R of every answer; those of one level go through the rows together."""
    found: dict[int, Matrix] = {}
    for level in {id(one.level): one.level for one in answers}.values():
        alike = [k for k, one in enumerate(answers) if one.level is level]
        ends = np.cumsum([rights[k].shape[1] for k in alike])[:-1]
        solved = level.plain_inverse(np.hstack([rights[k] for k in alike]))
        for k, part in zip(alike, np.split(solved, ends, axis=1), strict=True):
            found[k] = level.updated(part, answers[k].term)
    return [found[k] for k in range(len(answers))]


class _SingleRows:
    """Dense rows times weights of features, in single precision: what a series needs of them."""

    def __init__(self, rows: Rows, weights: Vector):
        self.X = (rows.X * weights).astype(np.float32)
        self.center = np.zeros_like(weights) if rows.center is None else rows.center * weights

    def dot(self, V: Matrix) -> Matrix:
        """(X − 1mᵀ) V."""
        out = np.asarray(self.X @ V.astype(np.float32), dtype=np.float64)
        return out - self.center @ V

    def tdot(self, U: Matrix) -> Matrix:
        """(X − 1mᵀ)ᵀ U."""
        out = np.asarray((U.T.astype(np.float32) @ self.X).T, dtype=np.float64, order="C")
        return out - np.outer(self.center, U.sum(0))


class _RowLevel:
    """One noise and one N."""

    def __init__(self, space: RowSpace, point: Point):
        self.space, self.p, self.q = space, point.noise, 1 - point.noise
        sums, p, q = space.sums, self.p, self.q
        self.metric = metric = sums.metric(point)
        if (metric[sums.squares > 0] <= 0).any():
            raise SingularError("Q is singular: use noise or a ridge above 0.")
        self.over = np.divide(1.0, metric, out=np.zeros_like(metric), where=metric > 0)
        key = point.variance, point.ridge, point.weight
        K = space.kernel((*key, "all"), self.over)
        core = q * q * K
        core[np.diag_indices_from(core)] += 1
        factor = CholeskyFactor(core)
        self.K, self.condition = K, factor.condition
        self.F = q * factor.inverse()
        # K F of labelled rows, about their mean where there is an intercept
        hat = K[space.index] @ self.F
        if sums.bias:
            hat -= space.weights @ hat / space.weights.sum()
        hat *= np.sqrt(space.weights)[:, None]
        inner = np.zeros(self.F.shape, order="F")
        if p:
            psi = space.kernel((*key, "labelled"), sums.labelled_squares * self.over**2)
            inner = lower_product((p * q) * self.F @ psi, self.F)
        inner = mirror_lower(add_gram(inner, q * hat.T))
        self.system = inner @ space.gram
        self.right = self._through(q * sums.labels)
        self._factors: dict[float, tuple[tuple[Matrix, Any], float]] = {}

    def factor(self, ridge_class: float) -> tuple[tuple[Matrix, Any], float]:
        """LU of what all terms share, and its condition."""
        if ridge_class == 0:
            raise SingularError("the class predictor is undetermined: use ridge_class above 0.")
        if ridge_class not in self._factors:
            M = self.system.copy(order="F")
            M[np.diag_indices_from(M)] += ridge_class
            size = float(np.abs(M).sum(0).max())
            if len(self._factors) == FACTORS:
                self._factors.pop(next(iter(self._factors)))
            U, pivots, _ = lapack.dgetrf(M, overwrite_a=True)
            inverse, _ = lapack.dgecon(U, size)  # 0 where rounding made it singular
            self._factors[ridge_class] = (U, pivots), 1 / max(float(inverse), TINY)
        return self._factors[ridge_class]

    def _features(self, B: Matrix) -> Matrix:
        """N⁻¹XᵀB."""
        return self.over[:, None] * self.space.rows.tdot(B)

    def _through(self, Y: Matrix) -> Matrix:
        """F X N⁻¹Y: W₀ᵀY as weights of rows."""
        return np.asarray(self.F @ self.space.rows.dot(self.over[:, None] * Y))

    def beyond(self, point: Point) -> Matrix:
        """What the candidate's N has beyond this level's."""
        return (self.space.sums.metric(point) - self.metric)[:, None]

    @cached_property
    def _scaled(self) -> list[_SingleRows] | list[Rows]:
        """All rows and the labelled ones, times N^-½: to six digits if they are dense."""
        both, root = (self.space.rows, self.space.labelled), np.sqrt(self.over)
        if not sp.issparse(self.space.rows.X):
            return [_SingleRows(rows, root) for rows in both]
        over = sp.diags_array(root)
        centers = [None if rows.center is None else rows.center * root for rows in both]
        return [
            Rows(sp.csr_array(rows.X @ over), center)
            for rows, center in zip(both, centers, strict=True)
        ]

    def plain_inverse(self, R: Matrix) -> Matrix:
        """(q²S + N)⁻¹R for any R. It subtracts."""
        solved = self.over[:, None] * R
        return solved - self.q * self._features(self.F @ self.space.rows.dot(solved))

    def updated(self, solved: Matrix, term: _RowTerm) -> Matrix:
        """G⁻¹R from that: with S1M's term."""
        return solved + term.delta @ (term.E.T @ solved) if len(term.E.T) else solved

    # The domain terms ---------------------------------------------------------------------------

    def term(self, point: Point) -> _RowTerm:
        """Δ and c."""
        space, q, n, d = self.space, self.q, *self.space.rows.shape
        none = np.zeros((d, 0))
        if point.method == "S1M":
            # E = Xᵀβ, so that G⁻¹E = N⁻¹XᵀFβ/q needs no subtraction
            beta = np.sqrt(point.weight) * q * space.differences
            solved = self.F @ beta / q
            core = np.eye(beta.shape[1]) + beta.T @ (self.K @ solved)
            delta = -self._features(np.linalg.solve(core.T, solved.T).T)
            E = np.sqrt(point.weight) * q * space.sums.discrepancy.rows.T
            return _RowTerm(delta, self.F @ (self.K @ beta), E, 0.0)
        if point.method != "S1D":
            return _RowTerm(none, np.zeros((n, 0)), none, 0.0)
        # (★U), each column of U on its own: (G + sQ)Δ = a T zᵀU − sQ W₀U
        domain, sums = space.domain, space.sums
        s = point.weight * domain.strengths
        mapped = self._features(self.F @ (space.gram @ domain.c))
        push = point.weight * q * domain.push
        right = push - sums.Q(self.p, mapped) * s
        delta = np.column_stack(
            [self._solve_more(point, s_j, r) for s_j, r in zip(s, right.T, strict=True)]
        )
        residual = sums.domain_residual(point, domain.image, mapped, delta, push, s)
        return _RowTerm(delta, domain.c, none, residual)

    def _solve_more(self, point: Point, s: float, right: Vector) -> Vector:
        """(G + sQ)⁻¹r = (N + s pqD + (1+s)q²XᵀX)⁻¹r: a rough factor, and twice what is left."""
        sums, rows = self.space.sums, self.space.rows
        metric = self.metric + s * self.p * self.q * sums.squares
        over = np.divide(1.0, metric, out=np.zeros_like(metric), where=metric > 0)[:, None]
        share = (1 + s) * self.q**2
        key = point.variance, point.ridge, point.weight, s
        K = share * self.space.kernel(key, over.ravel(), rough=True)
        K[np.diag_indices_from(K)] += 1
        factor = CholeskyFactor(K)

        def solve(R: Matrix) -> Matrix:
            first = over * R
            return first - share * over * rows.tdot(factor.solve(rows.dot(first)))

        plain = point._replace(method="S1")
        x = solve(right[:, None])
        for _ in range(2):
            S_x = sums.gram.matmul(x)
            left = right[:, None] - sums.G(plain, x, S_x) - s * sums.Q(self.p, x, S_x)
            x = x + solve(left)
        return x.ravel()

    # The class predictor ------------------------------------------------------------------------

    def solve(
        self, points: Sequence[Point], term: _RowTerm
    ) -> tuple[Matrix, Matrix, Matrix | None, float]:
        """Z = Xᵀa as a, V₀, B where a series needed it, and what the series has left out."""
        space, sums, first = self.space, self.space.sums, points[0]
        changed = self._sides(term)
        solvers = [self._predictor(point.ridge_class, *changed) for point in points]

        def predict(right: Matrix) -> Matrix:
            blocks = np.split(right, len(points), axis=1)
            return np.hstack([f(block) for f, block in zip(solvers, blocks, strict=True)])

        def mapped(a: Matrix) -> Matrix:
            """W₀Xᵀa, S1M's term included."""
            u = space.gram @ a
            out = self._features(self.F @ u)
            return out + term.delta @ (term.c.T @ u) if len(term.E.T) else out

        wanted = self.q * sums.labels
        right = self.right + term.c @ (term.delta.T @ wanted)
        a = predict(np.tile(right, len(points)))
        V0 = mapped(a)
        beyond = self.beyond(first)
        if first.method != "S1M" or not beyond.any():
            return a, V0, None, 0.0
        # v = N^½V, and right-hand sides times N^-½: six digits of rows are enough.
        over = self.over[:, None]
        root, unroot = np.sqrt(over), np.sqrt(self.metric)[:, None]
        rest, noise = beyond * over, self.p * self.q * sums.labelled_squares[:, None] * over
        delta, E, weights = unroot * term.delta, root * term.E, space.weights[:, None]
        every, known = self._scaled

        def inverse(R: Matrix) -> Matrix:
            v = R - self.q * every.tdot(self.F @ every.dot(R))
            return np.asarray(v + delta @ (E.T @ v))

        def labelled(v: Matrix) -> Matrix:
            return self.q**2 * known.tdot(weights * known.dot(v)) + noise * v

        lengths = np.sqrt(sums.squares)[:, None] * root
        y = sums.Q_labelled(self.p, V0) - np.tile(wanted, len(points))
        dv, b = unroot * V0, unroot * self.updated(self.plain_inverse(y), term)
        db = b
        size, before, error = float(np.linalg.norm(lengths * dv)), 0.0, np.inf
        for _ in range(STEPS):
            r1, r2 = -rest * dv, -rest * db
            g = unroot * self.updated(self.plain_inverse(unroot * r1), term)
            right = r2 + labelled(g)
            da = predict(-self.F @ every.dot(right) - term.c @ (delta.T @ right))
            u = space.gram @ da
            dv = g + every.tdot(self.F @ u) + delta @ (term.c.T @ u)
            a, V0 = a + da, V0 + root * dv
            change = float(np.linalg.norm(lengths * dv)) / max(size, TINY)
            # the next term
            error = change * (min(change / before, 1.0) if before else float(rest.max()))
            before = max(change, TINY)
            if error <= SETTLED:
                break
            db = inverse(r2 + labelled(dv))
            b = b + db
        return a, V0, root * b, error

    def _sides(self, term: _RowTerm) -> tuple[Matrix, Matrix, Matrix]:
        """By what a term changes the predictor's equation: sides, the middle, sides times XXᵀ."""
        moved = self.space.sums.Q_labelled(self.p, term.delta)
        sides = np.hstack([self._through(moved), term.c])
        eye = np.eye(term.c.shape[1])
        middle = np.block([[-term.delta.T @ moved, eye], [eye, np.zeros_like(eye)]])
        return sides, middle, sides.T @ self.space.gram

    def _predictor(
        self, ridge_class: float, sides: Matrix, middle: Matrix, across: Matrix
    ) -> Callable[[Matrix], Matrix]:
        """(ΨᵀQ_lΨ XXᵀ + δI)⁻¹, from the factors of W₀: a term changes it by rank 2k."""
        factor = self.factor(ridge_class)[0]
        solved = lu_solve(factor, sides, check_finite=False)
        core = middle + across @ solved

        def predict(right: Matrix) -> Matrix:
            a = lu_solve(factor, right, check_finite=False)
            return np.asarray(a - solved @ np.linalg.solve(core, across @ a))

        return predict
