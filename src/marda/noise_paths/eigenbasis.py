"""Candidates on at least as many rows as features, from one eigendecomposition (math.md §7).

With K = D^-½ S D^-½ = V Λ Vᵀ and features written as D^-½V times coordinates, G of S1 is

    G = diag(q²Λ + pq) + Vᵀ diag(e) V,   e = (ω + γ pq D_M) / D,

diagonal where all e are the same, which is where one Cholesky of TᵀA T + δC, T = G⁻¹qΛ, serves a
noise level. Where they differ a little, the answer of their middle is the first term of a series in
R = Vᵀ diag(e − ē) V; where they differ much, G is factorised as it is.
The domain terms have few directions (one per source): T = T₀ + τκᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marda._arrays import SingularError, add_gram, mirror_lower, symmetric_eigen
from marda.noise_paths.levels import FACTORS, Found, Point, SharedSums, Trial
from marda.operators.linear import CholeskyFactor, RowGram

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Single = NDArray[np.float32]
PREDICTOR = "the class predictor's matrix"
EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
NEAR = 0.1  # how much e may differ from its middle, in units of the noise, for a series to pay
SETTLED, STEPS = 2e-8, 8  # what a series may leave out, and how many terms it may have


class _EigenTerm(NamedTuple):
    """τκᵀ of S1M or S1D."""

    tau: Matrix
    kappa: Matrix
    E: Matrix  # S1M's directions, which belong to G
    U: Matrix  # S1D's, as features: τ is Δ, which is no part of V₀
    residual: float  # of Δ's own equation

    @property
    def pushes(self) -> bool:
        """Whether this is S1D's."""
        return bool(self.U.shape[1])

    def beyond(self, u: Matrix) -> Matrix:
        """Δ UᵀZ."""
        return np.asarray(self.tau @ (self.kappa.T @ u)) if self.pushes else np.zeros_like(u)

    def adjoint(self, R: Matrix) -> Matrix:
        """UΔᵀR."""
        return np.asarray(self.kappa @ (self.tau.T @ R)) if self.pushes else np.zeros_like(R)


class _EigenDomain(NamedTuple):
    """U of the domain predictor, one column per direction."""

    U: Matrix  # as features
    outputs: Matrix  # VᵀD^½U
    inputs: Matrix  # VᵀD^-½U
    image: Matrix  # S U
    strengths: Vector
    push: Matrix  # as features
    condition: float


class _Job(NamedTuple):
    """Candidates with one W, and the level that they are solved from."""

    points: Sequence[Point]
    term: _EigenTerm
    level: _EigenLevel
    distance: float  # of their G from the level's

    @property
    def mmd(self) -> float:
        """γ of S1M's term."""
        return self.points[0].weight if self.points[0].method == "S1M" else 0.0


class _State(NamedTuple):
    """V of candidates in coordinates, side by side; the rest on one direction of their classes."""

    V: Matrix
    u: Matrix
    V0: Matrix
    B: Matrix
    right: Matrix  # WᵀT'
    left_out: float  # by the series


class EigenBasis:
    """Weights of features of candidates, in coordinates.

    Parameters
    ----------
    sums : SharedSums
        Sums of the rows.
    labelled_rows : RowGram
        The labelled rows about their mean, and their weights.
    """

    def __init__(self, sums: SharedSums, labelled_rows: RowGram):
        self.sums, self.labelled_rows = sums, labelled_rows
        self.kept = sums.squares > 0  # an empty column is reconstructed by nothing
        D = sums.squares[self.kept]
        root = np.sqrt(D)
        if not len(D):
            raise SingularError("all rows are zero: there is nothing to learn from.")
        S = sums.gram.dense()
        if len(D) < len(self.kept):
            S = S[np.ix_(self.kept, self.kept)]
        K = S / root / root[:, None]
        values, V = symmetric_eigen(K, overwrite=True)
        self.values = np.maximum(values, 0.0)
        outward = np.zeros((len(self.kept), len(D)))
        outward[self.kept] = V / root[:, None]
        self.outward = np.asfortranarray(outward)  # D^-½V
        self._levels: dict[tuple[float, float, float], _EigenLevel] = {}

    def moment(self, squares: Vector) -> Matrix:
        """Vᵀ diag(squares / D) V."""
        return _gram(np.sqrt(squares)[:, None] * self.outward)

    @cached_property
    def penalty(self) -> Matrix:
        """C = VᵀD⁻¹V: ‖Z‖² = uᵀCu."""
        return _gram(self.outward)

    @cached_property
    def center(self) -> float:
        """c, the middle of the eigenvalues of C, which are 1 / D."""
        D = self.sums.squares[self.kept]
        return float(1 / D.min() + 1 / D.max()) / 2

    @cached_property
    def spread(self) -> Matrix:
        """C − cI."""
        spread = self.penalty.T.copy()
        spread[np.diag_indices_from(spread)] -= self.center
        return spread

    @cached_property
    def single(self) -> dict[str, Single]:
        """C/c − I and Vᵀ(D_M/D)V for products whose last digits do not matter."""
        found = {"spread": (self.spread / self.center).astype(np.float32)}
        if self.sums.has_target:
            found["means"] = self.means.T.astype(np.float32)
        return found

    @cached_property
    def means(self) -> Matrix:
        """Vᵀ(D_M/D)V."""
        sums, wanted = self.sums, self.sums.discrepancy.diagonal
        # Where all source rows and no others are labelled, D_M = a D_l + b D.
        known = np.stack([sums.labelled_squares, sums.squares], 1)
        a, b = np.linalg.lstsq(known, wanted, rcond=None)[0]
        if not np.allclose(known @ (a, b), wanted, rtol=10 * EPS, atol=0.0):
            return self.moment(wanted)
        means = a * self._labelled[1]
        means[np.diag_indices_from(means)] += b
        return np.asarray(means)

    @cached_property
    def differences(self) -> Matrix:
        """VᵀD^-½ of S1M's differences of means."""
        return np.asarray(self.outward.T @ self.sums.discrepancy.rows.T)

    @cached_property
    def _labelled(self) -> tuple[Matrix, Matrix]:
        """Gram and noise variance of the labelled rows."""
        Y, rows, weights = self.outward, self.labelled_rows.rows, self.labelled_rows.weights
        if 3 * rows.shape[0] < 4 * len(Y):  # flops of rows' coordinates and their Gram
            B = rows.dot(Y)
            gram = _gram(B if weights is None else np.sqrt(weights)[:, None] * B)
        else:
            gram = np.asarray((Y.T @ self.sums.labelled_gram.matmul(Y)).T)
        return gram, self.moment(self.sums.labelled_squares)

    def labelled(self, noise: float) -> Matrix:
        """A = q²G_l + pqE_l."""
        q = 1 - noise
        gram, variance = self._labelled
        A = q**2 * gram.T  # symmetric: in the order in which products are fast
        A += (noise * q) * variance.T
        return np.asarray(A)

    @cached_property
    def right(self) -> Matrix:
        """VᵀD^-½ of the labels' sums."""
        return np.asarray(self.outward.T @ self.sums.labels)

    @cached_property
    def domain(self) -> _EigenDomain:
        """z_D in coordinates, (Λ + αC)u = Bᵀy_D, and its orthonormal directions."""
        K = self.sums.domain_ridge * self.penalty
        K[np.diag_indices_from(K)] += self.values
        right = self.outward.T @ (self.sums.group_sums.T @ self.sums.targets.labels)
        factor = CholeskyFactor(K, "the domain predictor's matrix")
        u = factor.solve(right)
        Cu = self.penalty @ u
        E, strengths, push = self.sums.directions(u.T @ Cu)
        outputs = u @ E
        U = self.outward @ outputs
        image = self.sums.gram.matmul(U)
        return _EigenDomain(U, outputs, Cu @ E, image, strengths, push, factor.condition)

    def level(self, point: Point) -> tuple[_EigenLevel, float]:
        """The level whose G is nearest to the candidate's, and how near that is."""
        own = point.weight if point.method == "S1M" else 0.0
        level = self._made(*point.level, 0.0)
        if own and level.distance(own) > NEAR:
            level = self._made(*point.level, own)
        return level, level.distance(own)

    def _made(self, noise: float, ridge: float, weight: float) -> _EigenLevel:
        """A level; candidates come in order, so that S1's and one more are enough."""
        key = noise, ridge, weight
        if key not in self._levels:
            plain = {k: made for k, made in self._levels.items() if k == (noise, ridge, 0.0)}
            self._levels = {**plain, key: _EigenLevel(self, *key)}
        return self._levels[key]

    def coefs(self, groups: Sequence[Sequence[Point]]) -> list[Found]:
        """V of candidates of one level, in groups with one W, and how far off they may be."""
        jobs: dict[tuple[int, bool], list[_Job]] = {}
        found: dict[Point, Found] = {}
        for points in groups:
            level, distance = self.level(points[0])
            job = _Job(points, level.term(points[0]), level, distance)
            jobs.setdefault((id(level), distance > EPS), []).append(job)
        for alike in jobs.values():
            found |= self._found(alike, alike[0].level.solve(alike))
        return [found[point] for points in groups for point in points]

    def _found(self, jobs: Sequence[_Job], state: _State) -> dict[Point, Found]:
        """Answers of jobs that were solved together, as features."""
        pushed = [job.term.tau for job in jobs if job.term.pushes]
        parts = [state.V, state.u, state.V0, state.B, state.right, *pushed]
        ends = np.cumsum([part.shape[1] for part in parts])
        V, Z, V0, B, right, *deltas = np.split(self.outward @ np.hstack(parts), ends[:-1], axis=1)
        right = self.sums.squares[:, None] * right  # D^½V of it: it belongs to outputs
        coefs = np.split(V, Z.shape[1], axis=1)
        found: dict[Point, Found] = {}
        for points, term, level, _ in jobs:
            delta = deltas.pop(0) if term.pushes else term.U
            # The least δ has the worst condition.
            worst = level.factor(min(p.ridge_class for p in points)).condition
            condition = max(level.condition, worst, self.domain.condition if term.pushes else 0.0)
            for point in points:
                k = len(found)
                tried = Z[:, k], V0[:, k], B[:, k], right[:, k]
                trial = Trial(*tried, delta, term.U, term.residual)
                found[point] = Found(coefs[k], trial, state.left_out, condition)
        return found


def _gram(A: Matrix) -> Matrix:
    """AᵀA, for half the flops of a product."""
    size = A.shape[1]
    return mirror_lower(add_gram(np.zeros((size, size), order="F"), A.T))


class _EigenLevel:
    """One noise, one ω, and S1M's γ where it is too large to be left to a series."""

    def __init__(self, basis: EigenBasis, noise: float, ridge: float, weight: float):
        self.basis, self.p, self.q = basis, noise, 1 - noise
        self.ridge, self.weight = ridge, weight
        pq = noise * self.q
        D = basis.sums.squares[basis.kept]
        extra = self._extra(weight)
        self.middle = float((extra.min() + extra.max()) / 2) if len(D) else 0.0
        self.h = self.q**2 * basis.values + pq
        self.P = self.q * basis.values
        spread = float(extra.max() - self.middle) / max(pq + self.middle, TINY) if len(D) else 0.0
        self.dense = spread > NEAR
        self._factors: dict[float, CholeskyFactor] = {}
        self.A = basis.labelled(noise)
        if self.dense:
            G = ridge * basis.penalty
            if weight:
                G += (weight * pq) * basis.means
            G[np.diag_indices_from(G)] += self.h
            self._matrix, self.G = G, CholeskyFactor(G)
            self.condition = self.G.condition
            self.T = self.G.inverse() * self.P
            self.inner = (self.T.T @ (self.A @ self.T)).T
        else:
            self.h = self.h + self.middle
            if not self.h.min(initial=1.0) > 0:
                raise SingularError("Q is singular: use noise or a ridge above 0.")
            self.condition = float(self.h.max(initial=1.0) / self.h.min(initial=1.0))
            self.g = self.P / self.h
            self.inner = self.g[:, None] * self.A.T
            self.inner *= self.g

    def _extra(self, weight: float) -> Vector:
        """E of every feature."""
        sums, kept = self.basis.sums, self.basis.kept
        e = np.full(int(kept.sum()), self.ridge)
        if weight:
            e = e + (weight * self.p * self.q) * sums.discrepancy.diagonal[kept]
        return np.asarray(e / sums.squares[kept])

    def distance(self, weight: float) -> float:
        """How far G with S1M's γ is from this level's, in units of it."""
        extra, own = self._extra(weight), self._extra(self.weight)
        pq = self.p * self.q
        if self.dense:
            return float((np.abs(extra - own) / np.maximum(pq + own, TINY)).max(initial=0.0))
        return float(np.abs(extra - self.middle).max(initial=0.0)) / max(pq + self.middle, TINY)

    @cached_property
    def A_single(self) -> Single:
        """A, for the terms of a series: six digits of them are enough."""
        return self.A.astype(np.float32)

    def factor(self, ridge_class: float) -> CholeskyFactor:
        """Of T₀ᵀA T₀ + δC."""
        if ridge_class not in self._factors:
            K = ridge_class * self.basis.penalty
            K += self.inner
            if len(self._factors) == FACTORS:
                self._factors.pop(next(iter(self._factors)))
            self._factors[ridge_class] = CholeskyFactor(K, PREDICTOR, ridge_class)
        return self._factors[ridge_class]

    # T₀, and G of this level -------------------------------------------------------------------

    def _dot(self, U: Matrix) -> Matrix:
        return np.asarray(self.T @ U if self.dense else self.g[:, None] * U)

    def _tdot(self, R: Matrix) -> Matrix:
        return np.asarray(self.T.T @ R if self.dense else self.g[:, None] * R)

    def _solve(self, R: Matrix) -> Matrix:
        return self.G.solve(R) if self.dense else R / self.h[:, None]

    def _rest(self, V: Matrix, weights: Vector) -> Matrix:
        """R V, to six digits: what G has beyond this level's, E apart; γ of M per column."""
        basis, few = self.basis, V.astype(np.float32)
        if self.dense or not self.ridge:
            out = np.zeros_like(V)
        else:
            spread = np.float32(self.ridge * basis.center) * (basis.single["spread"] @ few)
            out = spread.astype(np.float64)
        if not self.dense and self.middle != self.ridge * basis.center:
            out += (self.ridge * basis.center - self.middle) * V
        more = weights - self.weight if self.dense else weights
        some = np.flatnonzero(more)
        if len(some):
            means = basis.single["means"] @ few[:, some]
            out[:, some] += (self.p * self.q * more[some]) * means
        return out

    def _shifted(self, sQ: Matrix, R: Matrix) -> Matrix:
        """(G + diag(s_j Q))⁻¹r_j for every column j."""
        if not self.dense:
            return np.asarray(R / (self.h[:, None] + sQ))
        out = np.empty_like(R)
        for j, shift in enumerate(sQ.T):
            shifted = self._matrix.copy(order="F")
            shifted[np.diag_indices_from(shifted)] += shift
            out[:, [j]] = CholeskyFactor(shifted).solve(R[:, [j]])
        return out

    # The domain terms ---------------------------------------------------------------------------

    def term(self, point: Point) -> _EigenTerm:
        """τκᵀ."""
        if point.method == "S1D":
            return self._domain_term(point)
        # G + EᵀE, by Sherman–Morrison–Woodbury
        basis = self.basis
        E = np.zeros((len(self.P), 0))
        if point.method == "S1M":
            E = np.sqrt(point.weight) * self.q * basis.differences
        solved = self._solve(E)
        core = np.eye(E.shape[1]) + E.T @ solved
        tau = np.asarray(-np.linalg.solve(core, solved.T).T, dtype=np.float64)
        return _EigenTerm(tau, self._tdot(E), E, np.zeros((len(basis.kept), 0)), 0.0)

    def _domain_term(self, point: Point) -> _EigenTerm:
        """(★U), each column of U on its own: (G + sQ)Δ = a T zᵀU − sQ W₀U, by a series too."""
        basis, q, domain, sums = self.basis, self.q, self.basis.domain, self.basis.sums
        s = point.weight * domain.strengths
        push = point.weight * q * domain.push
        sQ = np.outer(q**2 * basis.values + self.p * q, s)
        mapped = change = self._dot(domain.outputs)  # W₀U
        delta = more = self._shifted(sQ, basis.outward.T @ push - sQ * mapped)

        def rest(V: Matrix) -> Matrix:
            return self.ridge * (basis.spread @ V) + (self.ridge * basis.center - self.middle) * V

        for _ in range(0 if self.dense else 2 * STEPS):
            change = -self._solve(rest(change))
            more = -self._shifted(sQ, rest(more) + sQ * change)
            mapped, delta = mapped + change, delta + more
            if np.linalg.norm(more) <= 1e-3 * SETTLED * np.linalg.norm(delta):
                break
        features = basis.outward @ mapped, basis.outward @ delta
        residual = sums.domain_residual(point, domain.image, *features, push, s)
        return _EigenTerm(delta, domain.inputs, np.zeros((len(self.P), 0)), domain.U, residual)

    # The class predictor ------------------------------------------------------------------------

    def solve(self, jobs: Sequence[_Job]) -> _State:
        """Z, V₀ and B: those of this level's G, then the terms of the series in R.

        With G̃ in place of G = G̃ + R the equations are solved for any right-hand sides r₁ and r₂ of
        V₀ and B; what R makes of an answer is the right-hand side of the next.
        """
        basis, A, P = self.basis, self.A, self.P[:, None]
        w, n_classes = basis.sums.probe, basis.right.shape[1]
        counts = np.array([len(job.points) for job in jobs])
        ends, total = np.cumsum(counts), int(counts.sum())
        predict = self._predictor(jobs)

        def parts(R: Matrix) -> Iterator[tuple[_EigenTerm, Matrix]]:
            """The columns of each job."""
            blocks = np.split(R, ends[:-1] * (R.shape[1] // total), axis=1)
            return zip((job.term for job in jobs), blocks, strict=True)

        def inverse(R: Matrix) -> Matrix:
            solved = self._solve(R)
            for term, block in parts(solved):
                if term.E.shape[1]:
                    np.add(block, term.tau @ (term.E.T @ block), out=block)
            return solved

        def adjoint(R: Matrix) -> Matrix:
            return np.hstack([term.adjoint(block) for term, block in parts(R)])

        def mapped(u: Matrix, V0: Matrix) -> Matrix:
            return V0 + np.hstack([term.beyond(block) for term, block in parts(u)])

        def tried(V: Matrix) -> Matrix:
            """On one direction of the classes of every candidate."""
            return np.asarray(V.reshape(len(V), total, n_classes) @ w)

        wanted = np.tile(self.q * basis.right, total)
        right = P * inverse(wanted) + adjoint(wanted)
        u = predict(right)
        V0 = inverse(P * u)
        V = mapped(u, V0)
        distance = max(job.distance for job in jobs)
        if distance <= EPS:
            B = inverse(A @ tried(V) - tried(wanted))
            return _State(V, tried(u), tried(V0), B, tried(right), 0.0)
        weights = np.repeat([job.mmd for job in jobs], counts)
        both = np.tile(np.repeat(weights, n_classes), 2)
        A_single, lengths = self.A_single, np.sqrt(basis.values)[:, None]

        def sizes(V: Matrix) -> Vector:
            """Of scores of all rows, per candidate."""
            blocks = (lengths * V).reshape(len(V), -1, n_classes)
            return np.asarray(np.sqrt(np.einsum("ijk,ijk->j", blocks, blocks)))

        size, before, error = np.maximum(sizes(V), TINY), 0.0, np.inf
        dV0, dV, r2 = V0, V, -wanted
        B = np.zeros_like(V0)
        for _ in range(STEPS):
            dB = inverse(r2 + A_single @ dV.astype(np.float32))
            B += dB
            r1, r2 = np.split(-self._rest(np.hstack([dV0, dB]), both), 2, axis=1)
            g = inverse(r1)
            Ag = np.asarray(A_single @ g.astype(np.float32), dtype=np.float64)
            du = predict(-P * inverse(r2 + Ag) - adjoint(Ag))
            dV0 = g + inverse(P * du)
            dV = mapped(du, dV0)
            u, V0, V = u + du, V0 + dV0, V + dV
            change = float((sizes(dV) / size).max())
            error = change * (min(change / before, 1.0) if before else distance)  # the next term
            before = max(change, TINY)
            if error <= SETTLED:
                break
        # G B = y of these V, from a B that is right but for the last step
        y = A @ tried(V) - tried(wanted)
        B = inverse(y - self._rest(tried(B), weights))
        return _State(V, tried(u), tried(V0), B, tried(right), error)

    def _predictor(self, jobs: Sequence[_Job]) -> Callable[[Matrix], Matrix]:
        """(TᵀA T + δC)⁻¹, from the factor of T₀: τκᵀ changes it by rank 2k (math.md §5.4).

        Columns of one δ go through its factor together.
        """
        n_classes = self.basis.right.shape[1]
        uses: dict[float, list[tuple[int, Matrix, Matrix]]] = {}
        start = 0
        for points, term, _, _ in jobs:
            A_tau = self.A @ term.tau
            sides = np.hstack([term.kappa, self._tdot(A_tau)])
            eye = np.eye(term.tau.shape[1])
            middle = np.block([[np.zeros_like(eye), eye], [eye, -term.tau.T @ A_tau]])
            for point in points:
                uses.setdefault(point.ridge_class, []).append((start, sides, middle))
                start += n_classes
        solved = {}
        for delta, those in uses.items():
            every = self.factor(delta).solve(np.hstack([sides for _, sides, _ in those]))
            ends = np.cumsum([sides.shape[1] for _, sides, _ in those])
            solved[delta] = np.split(every, ends[:-1], axis=1)

        def predict(right: Matrix) -> Matrix:
            out = np.empty_like(right)
            for delta, those in uses.items():
                columns = np.concatenate([np.arange(at, at + n_classes) for at, _, _ in those])
                u = self.factor(delta).solve(right[:, columns])
                blocks = np.split(u, len(those), axis=1)
                for block, own, (at, sides, middle) in zip(
                    blocks, solved[delta], those, strict=True
                ):
                    inside = np.linalg.solve(middle + sides.T @ own, sides.T @ block)
                    out[:, at : at + n_classes] = block - own @ inside
            return out

        return predict
