"""A diagonal plus a Gram, applied and solved (math.md §6).

Every matrix of the framework has this form. `Gram` objects hold S = XᵀX either as a d×d matrix or
as the rows themselves; `SecondMoment` is E[X̃ᵀX̃] built on one; the factors solve with
D + A S A + EᵀE as a d×d Cholesky, an n×n Woodbury, or by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack
from scipy.linalg.blas import dsymm

from marda._linalg import mirror_lower
from marda.operators.cg import conjugate_gradients
from marda.operators.rows import Rows

__all__ = [
    "CholeskyFactor",
    "DenseGram",
    "DiagonalPlusGram",
    "Factor",
    "Gram",
    "IterativeFactor",
    "RowGram",
    "SecondMoment",
    "SingularError",
    "WoodburyFactor",
    "solve_together",
]

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


REFINE_TOL, REFINE_STEPS = 1e-9, 4
_DEPENDENT = 10 * np.finfo(float).eps


class SingularError(ValueError):
    """A matrix that must be inverted is singular."""


class Gram(Protocol):
    """Σ w (x − m)(x − m)ᵀ over rows."""

    def matmul(self, V: Matrix) -> Matrix:
        """S V."""
        ...

    def dense(self) -> Matrix:
        """S as a d×d matrix."""
        ...


@dataclass(frozen=True)
class DenseGram:
    """A Gram held as a matrix."""

    matrix: Matrix

    def matmul(self, V: Matrix) -> Matrix:
        """S V."""
        return self.matrix @ V

    def dense(self) -> Matrix:
        """S."""
        return self.matrix


@dataclass(frozen=True)
class RowGram:
    """A Gram held as its rows, with a weight a row."""

    rows: Rows
    weights: Vector | None = None

    def matmul(self, V: Matrix) -> Matrix:
        """Xᵀ diag(w) X V, in two thin products."""
        scores = self.rows.dot(V)
        if self.weights is not None:
            scores *= self.weights[:, None]
        return self.rows.tdot(scores)

    def dense(self) -> Matrix:
        """S, d×d."""
        return self.rows.gram(self.weights)


@dataclass(frozen=True)
class SecondMoment:
    """E[X̃ᵀX̃] of corrupted rows with a bias column: [[A S A + D, u], [uᵀ, n]].

    Without a bias (`cross` None) it is A S A + D alone.
    """

    gram: Gram
    scale: Vector  # A: mean factor of the noise
    diagonal: Vector  # D: variance that the noise adds
    cross: Vector | None  # u = A Xᵀ w
    count: float  # n = Σ w

    def matmul(self, V: Matrix) -> Matrix:
        """Q V, where V has a last row for the bias if there is one."""
        d = self.scale.shape[0]
        features = V[:d]
        a, D = self.scale[:, None], self.diagonal[:, None]
        top = a * self.gram.matmul(a * features) + D * features
        if self.cross is None:
            return top
        bias = V[d:]
        top += np.outer(self.cross, bias)
        return np.vstack([top, self.cross @ features + self.count * bias])

    def dense(self) -> Matrix:
        """Q as a matrix."""
        d = self.scale.shape[0]
        size = d if self.cross is None else d + 1
        Q = np.empty((size, size))
        np.multiply(self.gram.dense(), self.scale, out=Q[:d, :d])
        Q[:d, :d] *= self.scale[:, None]
        Q[np.arange(d), np.arange(d)] += self.diagonal
        if self.cross is not None:
            Q[d, :d] = Q[:d, d] = self.cross
            Q[d, d] = self.count
        return Q

    def bias_column(self) -> Vector | None:
        """Q e = [u; n], with e the bias unit vector."""
        return None if self.cross is None else np.append(self.cross, self.count)


@dataclass(frozen=True)
class DiagonalPlusGram:
    """D + A S A + EᵀE with D ≥ 0: what the factors below solve with."""

    diagonal: Vector
    scale: Vector
    gram: Gram
    extra: Matrix  # E, k×d

    def matmul(self, V: Matrix) -> Matrix:
        """(D + A S A + EᵀE) V."""
        a = self.scale[:, None]
        out = a * self.gram.matmul(a * V)
        out += self.diagonal[:, None] * V
        if len(self.extra):
            out += self.extra.T @ (self.extra @ V)
        return out

    def dense(self) -> Matrix:
        """The d×d matrix."""
        G = self.gram.dense() * self.scale
        G *= self.scale[:, None]
        G[np.diag_indices_from(G)] += self.diagonal
        if len(self.extra):
            G += self.extra.T @ self.extra
        return np.asarray(G)


class Factor(Protocol):
    """A factorised symmetric positive definite matrix."""

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B."""
        ...

    def matmul(self, V: Matrix) -> Matrix:
        """G V."""
        ...


class CholeskyFactor:
    """G = LLᵀ, d×d. The upper triangle of the array that holds L keeps G itself."""

    def __init__(self, G: Matrix, name: str = "Q"):
        d = G.shape[0]
        self._diagonal = G.diagonal().copy()
        try:
            self._L, _ = cho_factor(np.asfortranarray(G), lower=True, check_finite=False)
        except LinAlgError:
            rank = np.linalg.matrix_rank(G, hermitian=True)
            raise SingularError(
                f"{name} is singular (rank {rank} of {d}): use a ridge above 0, or drop constant "
                "and repeated columns."
            ) from None
        # LAPACK accepts a matrix that rounding alone makes definite: its answers are noise. A pivot
        # is what is left of a diagonal entry after the columns before it.
        dependent = self._L.diagonal() ** 2 <= _DEPENDENT * max(d, 100) * self._diagonal
        if dependent.any():
            rank = d - int(dependent.sum())
            raise SingularError(
                f"{name} is singular to working precision (rank about {rank} of {d}): use a ridge "
                "above 0, or drop constant and repeated columns."
            )

    @property
    def L(self) -> Matrix:
        """The lower triangular factor (what lies above its diagonal is not part of it)."""
        return np.asarray(self._L)

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B."""
        return np.asarray(cho_solve((self._L, True), B, check_finite=False))

    def matmul(self, V: Matrix) -> Matrix:
        """G V, from the triangle of G that the factorisation left alone (all but its diagonal)."""
        product = dsymm(1.0, self._L, V, lower=0)
        return np.asarray(product + (self._diagonal - self._L.diagonal())[:, None] * V)

    def inverse(self) -> Matrix:
        """G⁻¹, for a third of the flops of solving with I."""
        inverse, info = lapack.dpotri(self._L, lower=1)
        if info:  # pragma: no cover - cannot happen after a successful factorisation
            raise SingularError("the factor could not be inverted.")
        return mirror_lower(np.asarray(inverse))


class WoodburyFactor:
    """(D + FᵀF)⁻¹ = D⁻¹ − D⁻¹Fᵀ(I + F D⁻¹Fᵀ)⁻¹F D⁻¹ with F = [√w X A; E]: n×n (math.md §6)."""

    def __init__(self, system: DiagonalPlusGram, name: str = "Q"):
        if not isinstance(system.gram, RowGram):
            raise TypeError("a Woodbury factor needs the rows, not their Gram.")
        if (system.diagonal <= 0).any():
            zero = int((system.diagonal <= 0).sum())
            raise SingularError(
                f"{name} minus its Gram has {zero} zeros on the diagonal, so it cannot be solved "
                "through the rows: use a ridge above 0, or solver='primal'."
            )
        self.system = system
        self.rows = system.gram.rows
        self.root = None if system.gram.weights is None else np.sqrt(system.gram.weights)
        self.kernel = self._kernel(1 / system.diagonal)  # F D⁻¹Fᵀ
        core = self.kernel.copy(order="F")
        core[np.diag_indices_from(core)] += 1
        self.core_inverse = CholeskyFactor(core, name).inverse()  # (I + F D⁻¹Fᵀ)⁻¹

    def _kernel(self, weights: Vector) -> Matrix:
        """F diag(w) Fᵀ, (n+k)×(n+k)."""
        a, E = self.system.scale, self.system.extra
        K = self.rows.kernel(weights * a**2)
        if self.root is not None:
            K *= self.root
            K *= self.root[:, None]
        if len(E):
            cross = self.F_dot((weights * E).T)[: K.shape[0]]
            K = np.block([[K, cross], [cross.T, (weights * E) @ E.T]])
        return K

    def F_dot(self, V: Matrix) -> Matrix:
        """F V."""
        out = self.rows.dot(self.system.scale[:, None] * V)
        if self.root is not None:
            out *= self.root[:, None]
        return np.vstack([out, self.system.extra @ V]) if len(self.system.extra) else out

    def F_tdot(self, U: Matrix) -> Matrix:
        """Fᵀ U."""
        n = self.rows.shape[0]
        top = U[:n] if self.root is None else self.root[:, None] * U[:n]
        out = self.system.scale[:, None] * self.rows.tdot(top)
        if len(self.system.extra):
            out += self.system.extra.T @ U[n:]
        return out

    def solve(self, B: Matrix) -> Matrix:
        """(D + FᵀF)⁻¹B; a float32 kernel is made good by refinement with float64 products."""
        which = np.zeros(B.shape[1], dtype=np.int64)
        V = solve_together([self], which, B)
        if self.rows.X.dtype == np.float32:
            goal = REFINE_TOL * float(np.linalg.norm(B))
            for _ in range(REFINE_STEPS):
                residual = B - self.system.matmul(V)
                if np.linalg.norm(residual) <= goal:
                    break
                V += solve_together([self], which, residual)
        return V

    def matmul(self, V: Matrix) -> Matrix:
        """(D + FᵀF) V."""
        return self.system.matmul(V)


def solve_together(
    factors: Sequence[WoodburyFactor], which: NDArray[np.int64], B: Matrix
) -> Matrix:
    """Solve column i of B with factors[which[i]], in one pass over the rows that all share.

    Thin products are bound by the reading of X, so columns of different systems (same rows and
    scale; other diagonals, row weights and extra rows) go through it together.
    """
    first = factors[0]
    a, n = first.system.scale[:, None], first.rows.shape[0]
    D = np.stack([f.system.diagonal for f in factors], 1)[:, which]
    out = B / D
    scores = first.rows.dot(a * out)
    by_extra = np.zeros_like(out)
    for k, factor in enumerate(factors):
        columns = which == k
        E = factor.system.extra
        part = np.vstack([scores[:, columns], E @ out[:, columns]])
        if factor.root is not None:
            part[:n] *= factor.root[:, None]
        part = factor.core_inverse @ part
        if factor.root is not None:
            part[:n] *= factor.root[:, None]
        scores[:, columns] = part[:n]
        by_extra[:, columns] = E.T @ part[n:]
    out -= (a * first.rows.tdot(scores) + by_extra) / D
    return out


class IterativeFactor:
    """Solves by conjugate gradients, with the diagonal as preconditioner: no Gram at all."""

    def __init__(
        self, system: DiagonalPlusGram, gram_diagonal: Vector, tol: float, name: str = "Q"
    ):
        self.system = system
        self.tol = tol
        self.name = name
        self.jacobi = system.diagonal + system.scale**2 * gram_diagonal + (system.extra**2).sum(0)
        if (self.jacobi <= 0).any():
            zero = int((self.jacobi <= 0).sum())
            raise SingularError(
                f"{name} is singular ({zero} empty columns): use a ridge above 0, or drop them."
            )

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B, a column at a time in spirit, all together in products."""
        return conjugate_gradients(
            self.system.matmul,
            B,
            lambda R: R / self.jacobi[:, None],
            tol=self.tol,
            name=self.name,
        )

    def matmul(self, V: Matrix) -> Matrix:
        """G V."""
        return self.system.matmul(V)
