"""A diagonal plus a Gram, applied and solved (math.md §6).

Every matrix of the framework has this form. `Gram` objects hold S = XᵀX either as a d×d matrix or
as the rows themselves; `SecondMoment` is E[X̃ᵀX̃] built on one; the factors solve with
D + A S A + EᵀE as a d×d Cholesky, through n×n matrices of the rows, or by conjugate gradients.

Every factor tells its `condition`: about how many times a rounding error may grow in its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigvalsh_tridiagonal, lapack

from marda._arrays import (
    InaccurateError,
    SingularError,
    add_to_diagonal,
    append,
    astype,
    cholesky_inverse,
    cholesky_solve,
    columns,
    copy,
    diagonal,
    divided,
    eye,
    float64,
    hstack,
    is_numpy,
    merge_columns,
    mirror_lower,
    namespace,
    norms,
    probes,
    thin_product,
    vstack,
    zeros,
)
from marda._arrays import cholesky as cholesky_elsewhere
from marda._arrays import solve as solve_small
from marda.operators.rows import Rows

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


_EPS = float(np.finfo(float).eps)
_DEPENDENT = 10
_SINGLE = float(np.finfo(np.float32).eps)
#: Float32 factors must keep so many digits of what they solve, or they are made again in float64.
SINGLE_LIMIT = 1e-4
SLACK = 100.0  # a residual this many times the tolerance is still taken


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
        return thin_product(self.matrix, V)

    def dense(self) -> Matrix:
        """S."""
        return self.matrix


@dataclass(frozen=True)
class RowGram:
    """A Gram held as its rows, with one weight per row."""

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


class LazyGram:
    """A Gram of rows that becomes a matrix once it is used, and not before."""

    def __init__(self, gram: Gram):
        self._gram = gram

    @cached_property
    def _matrix(self) -> Matrix:
        return self._gram.dense()

    def matmul(self, V: Matrix) -> Matrix:
        """S V."""
        return thin_product(self._matrix, V)

    def dense(self) -> Matrix:
        """S."""
        return self._matrix


@dataclass(frozen=True)
class SecondMoment:
    """The expected Gram: E[X̃ᵀX̃] of corrupted rows, the noise integrated out.

    With a bias column it is [[A S A + D + n uuᵀ, n u], [n uᵀ, n]]. Of dropout A = q and
    D = q(1 − q) diag(Σ x²): about the origin that is q²S_ij off the diagonal, q S_ii on it.

    S is the Gram about the rows' own mean, and u the mean of A x from where features are centred:
    nothing is subtracted to get one from the other. Without a bias (`mean` None) S is about the
    origin, and the matrix is A S A + D alone.
    """

    gram: Gram
    scale: Vector  # A: mean factor of the noise
    diagonal: Vector  # D: variance that the noise adds
    mean: Vector | None  # u
    count: float  # n = Σ w

    def about_mean(self, features: Matrix) -> Matrix:
        """(A S A + D) V."""
        a = self.scale[:, None]
        return a * self.gram.matmul(a * features) + self.diagonal[:, None] * features

    def matmul(self, V: Matrix) -> Matrix:
        """Q V, where V has a last row for the bias if there is one."""
        return self.about_origin(self.about_mean(V[: self.scale.shape[0], ...]), V)

    def about_origin(self, top: Matrix, V: Matrix) -> Matrix:
        """Q V from (A S A + D) V."""
        d = self.scale.shape[0]
        if self.mean is None:
            return top
        level = self.count * (self.mean @ V[:d, ...] + V[d:, ...])  # n (uᵀV + bias)
        return vstack([top + self.mean[:, None] * level, level])

    def dense_about_mean(self) -> Matrix:
        """A S A + D as a matrix, in Fortran order."""
        Q = self.gram.dense()
        Q = np.multiply(Q, self.scale, order="F") if is_numpy(Q) else Q * self.scale
        Q *= self.scale[:, None]
        return add_to_diagonal(Q, self.diagonal)

    def dense(self) -> Matrix:
        """Q as a matrix."""
        d = self.scale.shape[0]
        if self.mean is None:
            return self.dense_about_mean()
        Q = zeros((d + 1, d + 1), self.scale)
        Q[:d, :d] = self.gram.dense()
        Q[:d, :d] *= self.scale
        Q[:d, :d] *= self.scale[:, None]
        Q = add_to_diagonal(Q, self.diagonal, d)
        Q[:d, :d] += (self.count * self.mean)[:, None] * self.mean
        Q[d, :d] = Q[:d, d] = self.count * self.mean
        Q[d, d] = self.count
        return Q

    def bias_column(self) -> Vector | None:
        """Q e = [n u; n], with e the bias unit vector."""
        return None if self.mean is None else self.count * append(self.mean, 1.0)


@dataclass(frozen=True)
class DiagonalPlusGram:
    """D + A S A + EᵀE with D ≥ 0: what the factors below solve with."""

    diagonal: Vector
    scale: Vector
    gram: Gram
    extra: Matrix  # E, k×d
    mixing: Matrix | None = field(default=None)  # E = B X A over the rows of the Gram: B, k×n

    def matmul(self, V: Matrix) -> Matrix:
        """(D + A S A + EᵀE) V."""
        a = self.scale[:, None]
        out = a * self.gram.matmul(a * V)
        out += self.diagonal[:, None] * V
        if self.extra.shape[0]:
            out += self.extra.T @ (self.extra @ V)
        return out

    def dense(self) -> Matrix:
        """The d×d matrix."""
        G = self.gram.dense() * self.scale
        G *= self.scale[:, None]
        G = add_to_diagonal(G, self.diagonal)
        if self.extra.shape[0]:
            G += self.extra.T @ self.extra
        return G


class Factor(Protocol):
    """A factorised symmetric positive definite matrix."""

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B."""
        ...

    @property
    def condition(self) -> float:
        """About how many times a rounding error may grow in what it solves."""
        ...

    @property
    def bound(self) -> float:
        """What `condition` is at most, where that is known without a solve; else infinity."""
        ...


def condition_of(factor: Factor, enough: float) -> float:
    """The condition of a factor; a bound of it, if that is not above `enough`."""
    bound = factor.bound
    return bound if bound <= enough else factor.condition


def inverse_norm(solve: Callable[[Matrix], Matrix], diagonal: Vector) -> float:
    """‖H⁻¹‖ of H = D^-½GD^-½, whose diagonal is one: two steps of a block power iteration."""
    xp = namespace(diagonal)
    root = xp.sqrt(diagonal)[:, None]
    V = probes((diagonal.shape[0], 3), diagonal, np.random.default_rng(0))
    for _ in range(2):
        V = root * solve(root * (V / norms(V)))
    return float(xp.max(norms(V)))


class CholeskyFactor:
    """G = LLᵀ, d×d.

    Parameters
    ----------
    G : array of shape (d, d)
        Symmetric, float64 or float32.
    name : str
        What G is, for the message if it is singular.
    ridge : float, default=0
        What was added to its diagonal, for the same message.
    overwrite : bool, default=False
        Whether G, in Fortran order, may be lost.
    least : float or array of shape (d,), default=0
        G less this diagonal has no eigenvalue below 0.
    """

    def __init__(
        self,
        G: NDArray[Any],
        name: str = "Q",
        ridge: float = 0.0,
        *,
        overwrite: bool = False,
        least: Vector | float = 0.0,
    ):
        d = G.shape[0]
        self._least = least
        xp = namespace(G)
        self._diagonal = copy(diagonal(G))
        advice = "drop constant and repeated columns" if d else ""
        if ridge > 0:
            lost = f"the ridge of {ridge:.3g} is lost next to entries of "
            lost += f"{float(xp.max(xp.abs(self._diagonal))) if d else 0.0:.3g}"
            advice = f"{lost}: raise it, rescale the columns, or {advice}"
        else:
            advice = f"use a ridge above 0, or {advice}"
        # Every entry of a definite matrix is below its diagonal: one overflow makes a sum infinite.
        if not np.isfinite(float(xp.sum(self._diagonal))) or not np.isfinite(
            float(xp.sum(G[-1:, ...]))
        ):
            raise SingularError(f"{name} is not finite: the numbers are too large; {advice}.")
        if not is_numpy(G):
            L = cholesky_elsewhere(G)
            if L is None:
                raise SingularError(f"{name} is singular: {advice}.")
            self._L = L
        else:
            try:
                self._L = cholesky(G, lower=True, overwrite_a=overwrite, check_finite=False)
            except LinAlgError:
                if overwrite:
                    raise SingularError(f"{name} is singular: {advice}.") from None
                rank = np.linalg.matrix_rank(G, hermitian=True)
                raise SingularError(f"{name} is singular (rank {rank} of {d}): {advice}.") from None
        # LAPACK accepts a matrix that rounding alone makes definite: its answers are noise. A pivot
        # is what is left of a diagonal entry after the columns before it.
        least = _DEPENDENT * float(xp.finfo(G.dtype).eps) * max(d, 100)
        dependent = ~(diagonal(self._L) ** 2 > least * self._diagonal)
        if bool(xp.any(dependent)):
            rank = d - int(xp.count_nonzero(dependent))
            raise SingularError(
                f"{name} is singular to working precision (rank about {rank} of {d}): {advice}."
            )

    @property
    def L(self) -> Matrix:
        """The lower triangular factor, with zeros above its diagonal."""
        return self._L

    @cached_property
    def condition(self) -> float:
        """‖H⁻¹‖ of the matrix scaled to a diagonal of ones, in which Cholesky does not err."""
        return inverse_norm(self.solve, self._diagonal)

    @property
    def bound(self) -> float:
        """The largest ratio of G's diagonal to the one that is in it: H is no less than that."""
        diagonal = self._diagonal
        xp = namespace(diagonal)
        least = self._least + xp.zeros_like(diagonal)
        if not diagonal.shape[0] or not bool(xp.all(least > 0)):
            return np.inf
        return float(xp.max(diagonal / least))

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B."""
        if not B.shape[0]:  # rows of zeros have no row space; old SciPy refuses empty systems
            return copy(B)
        if not is_numpy(B):
            return cholesky_solve(self._L, B)
        B = B.astype(self._L.dtype, copy=False)  # else the factor would be cast
        return np.asarray(cho_solve((self._L, True), np.asfortranarray(B), check_finite=False))

    def inverse(self, *, overwrite: bool = False) -> NDArray[Any]:
        """G⁻¹, for a third of the flops of solving with I; in Fortran order.

        With `overwrite`, the factor is lost.
        """
        if not is_numpy(self._L):
            return cholesky_inverse(self._L)
        invert = lapack.spotri if self._L.dtype == np.float32 else lapack.dpotri
        inverse, info = invert(self._L, lower=1, overwrite_c=overwrite)
        if info:  # LAPACK's word; after a successful factorisation it has none
            raise SingularError("the factor could not be inverted.")
        return mirror_lower(np.asarray(inverse))


class UpdatedFactor:
    """G + EᵀE for a factorised G and few rows E, however strong (math.md §11)."""

    def __init__(self, plain: CholeskyFactor, E: Matrix):
        self.plain, self.E = plain, E
        self._side = plain.solve(E.T) if E.shape[0] else E.T  # G⁻¹Eᵀ
        self._core = eye(E.shape[0], E) + E @ self._side

    @property
    def condition(self) -> float:
        """Of G."""
        return self.plain.condition

    @property
    def bound(self) -> float:
        """Of G."""
        return self.plain.bound

    def updated(self, V: Matrix) -> Matrix:
        """(G + EᵀE)⁻¹B from V = G⁻¹B, in place: V − G⁻¹Eᵀ(I + E G⁻¹Eᵀ)⁻¹E V."""
        if self.E.shape[0]:
            V -= self._side @ solve_small(self._core, self.E @ V)
        return V

    def solve(self, B: Matrix) -> Matrix:
        """(G + EᵀE)⁻¹B."""
        return self.updated(self.plain.solve(B))


class RowFactor:
    """D + FᵀNF through the rows, F = √w X A and N = I + BᵀB: n×n matrices (math.md §11).

    With K = F D⁻¹Fᵀ, C = I + K, J = C⁻¹K and M = (I + NK)⁻¹ = C⁻¹(I − Bᵀ(I + BJBᵀ)⁻¹BJ),

        (D + FᵀNF)⁻¹Fᵀ = D⁻¹FᵀM        and        (D + FᵀNF)⁻¹ = D⁻¹ − D⁻¹FᵀMNF D⁻¹.

    The first form subtracts nothing; whatever can be written as FᵀY is solved by it (`solve_rows`).

    Parameters
    ----------
    system : DiagonalPlusGram
        With a Gram that holds its rows.
    name : str
        What the matrix is, for the message if it is singular.
    null : array of shape (n,), default=None
        Weights of the rows, before √w, that sum to zero (centred rows: ones). K vanishes there, so
        anything may stand in C for it; the mean of K makes C as well conditioned as it can be.
    single : bool, default=False
        Factors in float32, where these are right to four digits and B is empty. C is then known
        by its inverse alone.
    """

    def __init__(
        self,
        system: DiagonalPlusGram,
        name: str = "Q",
        null: Vector | None = None,
        *,
        single: bool = False,
    ):
        if not isinstance(system.gram, RowGram):
            raise TypeError("a factor through the rows needs the rows, not their Gram.")
        xp = namespace(system.diagonal)
        extra = bool(system.extra.shape[0])
        if extra and system.mixing is None:
            raise TypeError("a factor through the rows needs E as weights of the rows.")
        zero = int(xp.count_nonzero(system.diagonal <= 0))
        if zero:
            raise SingularError(
                f"{name} minus its Gram has {zero} zeros on the diagonal, so it cannot be solved "
                "through the rows: use a ridge above 0, or solver='primal'."
            )
        self.system = system
        self.rows = system.gram.rows
        self.root = None if system.gram.weights is None else xp.sqrt(system.gram.weights)
        self.name, self.null = name, null
        self.single = single and not extra and self._factorise_single()
        if not self.single:
            with np.errstate(over="ignore", invalid="ignore"):
                K = self.kernel
                self._factorise(K.copy(order="F") if is_numpy(K) else copy(K))
        self.mixing: Matrix = zeros((0, self.rows.shape[0]), system.diagonal)  # B, of F
        self.mid: Matrix = self.mixing
        if extra:
            assert system.mixing is not None
            self.mixing = system.mixing
            if self.root is not None:
                self.mixing = divided(self.mixing, self.root)
            BJ = self.cholesky.solve(self.kernel @ self.mixing.T).T
            inner = eye(self.mixing.shape[0], BJ) + BJ @ self.mixing.T
            self.mid = solve_small(inner, BJ)

    @cached_property
    def kernel(self) -> Matrix:
        """K."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.kernel_of(1 / self.system.diagonal)

    def _factorise(self, core: NDArray[Any]) -> None:
        """C, from K (overwritten), and its inverse."""
        if self.null is not None:
            v = self.null if self.root is None else divided(self.null, self.root)
            xp = namespace(core)
            level = float(xp.sum(diagonal(core))) / core.shape[0] / float(v @ v)
            if not is_numpy(core):
                core += v[:, None] * (v * level)
            elif np.ptp(v):
                core += np.outer(v, v * level).astype(core.dtype)
            else:
                core += core.dtype.type(v[0] ** 2 * level)
        core = add_to_diagonal(core, 1)
        ridge = float(namespace(core).min(self.system.diagonal))
        single = is_numpy(core) and core.dtype == np.float32
        self.cholesky = CholeskyFactor(core, self.name, ridge, overwrite=single, least=1.0)
        if single:
            self.single_error = self.cholesky.condition * _SINGLE  # while there is a factor
        self.inverse = self.cholesky.inverse(overwrite=single)  # C⁻¹

    def _factorise_single(self) -> bool:
        """The same in float32; whether that keeps enough digits."""
        weights = 1 / self.system.diagonal
        longest = self.rows.longest(weights * self.system.scale**2)
        if not longest * _SINGLE < SINGLE_LIMIT:
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            K = self.kernel_of(weights, np.float32)
        try:
            self._factorise(K)
        except SingularError:
            return False
        return self.single_error < SINGLE_LIMIT

    @property
    def condition(self) -> float:
        """Of C, for rounding errors of float64."""
        return self.single_error / _EPS if self.single else self.cholesky.condition

    @property
    def bound(self) -> float:
        """Of C = I + K."""
        return np.inf if self.single else self.cholesky.bound

    def kernel_of(self, weights: Vector, dtype: Any = np.float64) -> NDArray[Any]:
        """F diag(w) Fᵀ, n×n."""
        K = self.rows.kernel(weights * self.system.scale**2, dtype)
        if self.root is not None:
            root = astype(self.root, K.dtype)
            K *= root
            K *= root[:, None]
        return K

    def core(self, Y: Matrix) -> Matrix:
        """M Y."""
        return self._inverted(Y - self.mixing.T @ (self.mid @ Y))

    def _inverted(self, Y: Matrix) -> Matrix:
        """C⁻¹Y."""
        return float64(self.inverse @ astype(Y, self.inverse.dtype))

    def core_adjoint(self, Y: Matrix) -> Matrix:
        """MᵀY."""
        solved = self._inverted(Y)
        return solved - self.mid.T @ (self.mixing @ solved)

    def core_matrix(self) -> Matrix:
        """M."""
        if not self.mixing.shape[0]:
            return self.inverse
        return self.inverse - (self.inverse @ self.mixing.T) @ self.mid

    def F_dot(self, V: Matrix) -> Matrix:
        """F V."""
        out = self.rows.dot(self.system.scale[:, None] * V)
        if self.root is not None:
            out *= self.root[:, None]
        return out

    def F_tdot(self, U: Matrix) -> Matrix:
        """Fᵀ U."""
        U = U if self.root is None else self.root[:, None] * U
        return self.system.scale[:, None] * self.rows.tdot(U)

    def solve_rows(self, Y: Matrix) -> Matrix:
        """(D + FᵀNF)⁻¹FᵀY."""
        return self.F_tdot(self.core(Y)) / self.system.diagonal[:, None]

    def solve(self, B: Matrix) -> Matrix:
        """(D + FᵀNF)⁻¹B for any B. It subtracts: see `solve_rows`."""
        return solve_together([self], np.zeros(B.shape[1], dtype=np.int64), B)


def solve_together(factors: Sequence[RowFactor], which: NDArray[np.int64], B: Matrix) -> Matrix:
    """Solve column i of B with factors[which[i]], in one pass over the rows that all share.

    Thin products are bound by the reading of X, so columns of different systems (same rows and
    scale; other diagonals, row weights and mixing) go through it together.
    """
    first = factors[0]
    a = first.system.scale[:, None]
    D = columns(hstack([f.system.diagonal[:, None] for f in factors]), which)
    out = B / D
    scores = first.rows.dot(a * out)
    parts = []
    for k, factor in enumerate(factors):
        part = columns(scores, np.flatnonzero(which == k))
        if factor.root is not None:
            part *= factor.root[:, None]
        part = factor.core(part + factor.mixing.T @ (factor.mixing @ part))  # M N F D⁻¹B
        if factor.root is not None:
            part *= factor.root[:, None]
        parts.append(part)
    out -= a * first.rows.tdot(merge_columns(parts, which)) / D
    return out


class IterativeFactor:
    """Solves by conjugate gradients on products of the rows: no Gram at all (math.md §6.1).

    Parameters
    ----------
    system : DiagonalPlusGram
        With a Gram that holds its rows.
    gram_diagonal : array of shape (d,)
        Diagonal of the Gram.
    tol : float
        Of the residual, relatively.
    name : str
        What the matrix is, for the message if it is singular.
    near : RowFactor, default=None
        Of the same system, as preconditioner; None takes the diagonal.
    """

    def __init__(
        self,
        system: DiagonalPlusGram,
        gram_diagonal: Vector,
        tol: float,
        name: str = "Q",
        near: RowFactor | None = None,
    ):
        self.system = system
        self.near = near
        self.tol = tol
        self.name = name
        self._seen = 1.0  # the largest condition number that a solve has seen
        self.jacobi = system.diagonal + system.scale**2 * gram_diagonal + (system.extra**2).sum(0)
        if not np.isfinite(self.jacobi).all():
            raise SingularError(f"{name} is not finite: the numbers are too large.")
        if (self.jacobi <= 0).any():
            zero = int((self.jacobi <= 0).sum())
            raise SingularError(
                f"{name} is singular ({zero} empty columns): use a ridge above 0, or drop them."
            )

    def solve(self, B: Matrix) -> Matrix:
        """G⁻¹B, a column at a time in spirit, all together in products."""
        solved = conjugate_gradients(
            self.system.matmul,
            B,
            self._precondition,
            tol=self.tol,
            name=self.name,
        )
        self._seen = max(self._seen, solved.condition)
        return solved.X

    bound = np.inf

    def _precondition(self, R: Matrix) -> Matrix:
        return R / self.jacobi[:, None] if self.near is None else self.near.solve(R)

    @property
    def condition(self) -> float:
        """How many times the tolerance of the iteration may grow, in rounding errors.

        With fewer rows than features it errs where no row reaches, and D alone holds it there.
        """
        assert isinstance(self.system.gram, RowGram)
        n, d = self.system.gram.rows.shape
        grows = self._seen
        if n <= d:
            held = float((self.system.diagonal / self.jacobi).min())
            grows = 1 / max(held, _EPS**2)
        return grows * self.tol / _EPS


# Conjugate gradients ------------------------------------------------------------------------------


class Solved(NamedTuple):
    """The solution, and the condition number of M⁻¹A as far as the iteration saw it."""

    X: Matrix
    condition: float


def conjugate_gradients(
    apply: Callable[[Matrix], Matrix],
    B: Matrix,
    precondition: Callable[[Matrix], Matrix],
    *,
    x0: Matrix | None = None,
    tol: float = 1e-12,
    max_iter: int = 2000,
    coupled: bool = False,
    name: str = "the system",
) -> Solved:
    """Solve A X = B for symmetric positive definite A, on blocks of columns.

    The error is measured in the norm of the preconditioner, ‖r‖² = rᵀM⁻¹r: for a diagonal M it is
    the same whatever units the unknowns have.

    Parameters
    ----------
    apply, precondition : callables
        V ↦ A V, and R ↦ M⁻¹R for an approximation M of A.
    B : array of shape (n, c)
        Right-hand sides.
    x0 : array of shape (n, c), default=None
        Where to start.
    tol : float, default=1e-12
        Stop when the residual of every column is below tol times its right-hand side.
    max_iter : int, default=2000
        Iterations at most.
    coupled : bool, default=False
        A mixes columns: they share their step lengths. Otherwise every column has its own.
    name : str
        For the message.

    Returns
    -------
    Solved

    Raises
    ------
    InaccurateError
        If the residual stays above 100 times the tolerance, or is not a number.
    """

    def inner(A: Matrix, C: Matrix) -> Matrix:
        products = np.einsum("ij,ij->j", A, C)
        return np.full_like(products, products.sum()) if coupled else products

    X = np.zeros_like(B) if x0 is None else x0.copy()
    R = B.copy() if x0 is None else B - apply(X)
    Z = precondition(R)
    size = inner(B, Z if x0 is None else precondition(B))
    goal = tol**2 * size
    direction = Z.copy()
    rz = inner(R, Z)
    steps, ratios = [], []
    iterations = 0
    while (rz > goal).any() and iterations < max_iter and np.isfinite(rz).all():
        iterations += 1
        image = apply(direction)
        curvature = inner(direction, image)
        # A finished column has no direction left: its step is zero, not 0/0.
        step = np.divide(rz, curvature, out=np.zeros_like(rz), where=curvature > 0)
        X += step * direction
        R -= step * image
        Z = precondition(R)
        rz_new = inner(R, Z)
        ratio = np.divide(rz_new, rz, out=np.zeros_like(rz), where=rz > 0)
        direction *= ratio
        direction += Z
        rz = rz_new
        steps.append(step)
        ratios.append(ratio)
    reached = float(np.sqrt((np.abs(rz) / np.where(size > 0, size, 1)).max(initial=0.0)))
    if not reached <= SLACK * tol or not np.isfinite(size).all():
        raise InaccurateError(
            f"conjugate gradients on {name} stopped after {iterations} iterations at a relative "
            f"residual of {reached:.1e} (wanted {tol:.1e}): use a larger ridge, or another solver."
        )
    return Solved(X, _condition(np.array(steps), np.array(ratios)))


def _condition(steps: Matrix, ratios: Matrix) -> float:
    """Extreme eigenvalues of M⁻¹A from the Lanczos matrix that the steps and ratios make."""
    if not len(steps):
        return 1.0
    column = int(np.argmax((steps > 0).sum(0)))  # the one that took the longest
    length = int((steps[:, column] > 0).sum())
    if not length:
        return 1.0
    alpha, beta = steps[:length, column], ratios[:length, column]
    diagonal = 1 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    values = eigvalsh_tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1])
    return float(values[-1] / max(values[0], 1e-30 * values[-1]))
