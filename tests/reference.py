"""docs/math.md in 400-bit arithmetic: what every model is, whatever the conditioning.

Written from the document and not from the library. Rows are taken as the exact numbers they are,
nothing is centred or factorised cleverly, and the result is rounded to float64 once, at the end.
A solve is Gaussian elimination on 400-bit midpoints, and its residual is checked: the problems
here leave more than 60 digits of the 120 whatever their condition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

BITS = 400
UNLABELED = -1
#: A solve whose residual is above this share of its right-hand side has lost too many digits.
RESIDUAL = 1e-60

# Exact matrices -----------------------------------------------------------------------------------


def exact(values: Any) -> arb_mat:
    """A matrix of the numbers given; a vector becomes a column."""
    ctx.prec = BITS
    A = np.asarray(values, dtype=np.float64)  # float32 is exact in float64
    A = A[:, None] if A.ndim == 1 else A
    return arb_mat(*A.shape, [arb(v) for v in A.ravel().tolist()])


def rounded(A: arb_mat) -> np.ndarray:
    """The nearest float64 matrix."""
    values = [float(v.mid()) for v in A.entries()]
    return np.array(values).reshape(A.nrows(), A.ncols())


def identity(n: int) -> arb_mat:
    return arb_mat(n, n, [arb(int(i == j)) for i in range(n) for j in range(n)])


def diagonal(values: Sequence[arb]) -> arb_mat:
    n, zero = len(values), arb(0)
    return arb_mat(n, n, [values[i] if i == j else zero for i in range(n) for j in range(n)])


def beside(*parts: arb_mat) -> arb_mat:
    """Matrices side by side."""
    rows = [
        [v for part in tables for v in part]
        for tables in zip(*(p.table() for p in parts), strict=True)
    ]
    return arb_mat(rows)


def above(*parts: arb_mat) -> arb_mat:
    return arb_mat([row for part in parts for row in part.table()])


def weighted(A: arb_mat, weights: Sequence[arb]) -> arb_mat:
    """Rows of A, each times its weight."""
    return arb_mat([[w * v for v in row] for w, row in zip(weights, A.table(), strict=True)])


def columns(A: arb_mat, start: int, stop: int) -> arb_mat:
    return arb_mat([row[start:stop] for row in A.table()])


def rows_of(A: arb_mat, start: int, stop: int) -> arb_mat:
    return arb_mat(A.table()[start:stop])


def squares(A: arb_mat) -> arb:
    """‖A‖²."""
    return sum((v * v for v in A.entries()), arb(0))


def kron(A: arb_mat, B: arb_mat) -> arb_mat:
    a, b = A.table(), B.table()
    return arb_mat([[x * y for x in row for y in other] for row in a for other in b])


def vec(A: arb_mat) -> arb_mat:
    """Columns of A below one another."""
    return arb_mat(A.nrows() * A.ncols(), 1, A.transpose().entries())


def unvec(v: arb_mat, n_rows: int, n_columns: int) -> arb_mat:
    return arb_mat(n_columns, n_rows, v.entries()).transpose()


def solve(A: arb_mat, B: arb_mat) -> arb_mat:
    """A⁻¹B, or ZeroDivisionError if A is singular even to 400 bits."""
    X = A.mid().solve(B.mid(), algorithm="approx")
    error, size = squares(A * X - B).mid(), squares(B).mid()
    if not (error <= arb(RESIDUAL) ** 2 * size):
        raise ZeroDivisionError("singular to 400 bits")
    return X.mid()


# The model ----------------------------------------------------------------------------------------


def terms_of(method: str) -> tuple[str, str]:
    """ "BL", "MCF", "S1" or "J12", and the letters of the domain terms."""
    found = re.fullmatch(r"(BL|MCF|S1|J12)([MCD]*)", method)
    assert found, method
    return found[1], found[2]


@dataclass(frozen=True)
class Problem:
    """Rows and parameters, and every matrix of math.md §1, §2, §3 and §9 that they define."""

    X: np.ndarray
    y: np.ndarray
    sample_domain: np.ndarray
    method: str = "S1D"
    noise: Any = 0.5
    ridge: float = 1e-2
    ridge_class: float = 1.0
    ridge_domain: float = 1.0
    class_loss_weight: float = 1.0
    domain_loss_weight: float = 1.0
    marginalization: str = "exact"
    scaling: str = "balanced"
    fit_intercept: bool = True
    class_weight: Any = None
    by_feature: bool = False  # the penalty of the noise path

    # Rows, §1 and §9 --------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return terms_of(self.method)[0]

    @property
    def letters(self) -> str:
        return terms_of(self.method)[1]

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @cached_property
    def classes(self) -> np.ndarray:
        return np.unique(self.y[self.labelled])

    @cached_property
    def labelled(self) -> np.ndarray:
        return np.asarray(self.y) != UNLABELED

    @cached_property
    def target(self) -> np.ndarray:
        """Targets are pooled."""
        return np.asarray(self.sample_domain) < 0

    @cached_property
    def sources(self) -> list[np.ndarray]:
        domain = np.asarray(self.sample_domain)
        return [domain == s for s in np.unique(domain[domain >= 0])]

    @cached_property
    def rows(self) -> arb_mat:
        return exact(self.X)

    @cached_property
    def clean(self) -> arb_mat:
        """[X 1], or X without a bias."""
        return beside(self.rows, exact(np.ones(self.n))) if self.fit_intercept else self.rows

    @cached_property
    def bias_unit(self) -> arb_mat:
        """e."""
        return exact(np.append(np.zeros(self.d), 1.0))

    # Noise, §2 and §8 -------------------------------------------------------------------------

    @cached_property
    def keep(self) -> list[arb]:
        """q, one per feature."""
        p = np.zeros(self.d) if self.kind == "BL" else np.zeros(self.d) + np.asarray(self.noise)
        return [1 - arb(v) for v in p.tolist()]

    @cached_property
    def mean(self) -> arb_mat:
        """E[X̃], with the bias column."""
        q = [*self.keep, arb(1)] if self.fit_intercept else self.keep
        return self.clean * diagonal(q)

    @cached_property
    def variance(self) -> arb_mat:
        """Var[x̃_ni] = q(1 − q) x²; nothing in the bias column."""
        v = [q * (1 - q) for q in self.keep]
        table = [[c * x * x for c, x in zip(v, row, strict=True)] for row in self.rows.table()]
        return arb_mat([[*row, arb(0)] for row in table] if self.fit_intercept else table)

    def second_moment(self, weights: Sequence[arb]) -> arb_mat:
        """E[X̃ᵀ diag(w) X̃]."""
        own = weighted(self.variance, weights)
        totals = [sum(column, arb(0)) for column in zip(*own.table(), strict=True)]
        return self.mean.transpose() * weighted(self.mean, weights) + diagonal(totals)

    @cached_property
    def ones(self) -> list[arb]:
        return [arb(1)] * self.n

    @cached_property
    def row_weights(self) -> list[arb]:
        """Class weights of labelled rows, 0 of the others (§9)."""
        given = self.class_weight
        weights = {c: arb(1) for c in self.classes.tolist()}
        if isinstance(given, str):
            assert given == "balanced"
            total = int(self.labelled.sum())
            for c in weights:
                weights[c] = arb(total) / (len(weights) * int((self.y == c).sum()))
        elif given is not None:
            weights |= {c: arb(float(w)) for c, w in given.items()}
        return [
            weights[c] if known else arb(0)
            for c, known in zip(np.asarray(self.y).tolist(), self.labelled.tolist(), strict=True)
        ]

    @cached_property
    def Q(self) -> arb_mat:
        return self.second_moment(self.ones)

    @cached_property
    def Q_l(self) -> arb_mat:
        return self.second_moment(self.row_weights)

    @cached_property
    def P(self) -> arb_mat:
        """E[X̃ᵀX]."""
        return self.mean.transpose() * self.rows

    @cached_property
    def Y(self) -> arb_mat:
        return exact(np.where(np.asarray(self.y)[:, None] == self.classes, 1.0, -1.0))

    @cached_property
    def T_l(self) -> arb_mat:
        """E[X̃_l]ᵀ Y_l, with class weights."""
        return self.mean.transpose() * weighted(self.Y, self.row_weights)

    # Penalties and weights, §3 ----------------------------------------------------------------

    def mean_diagonal(self, rows: arb_mat, variance: arb_mat, weights: Sequence[arb]) -> arb:
        """Of a Gram of features about the mean of all rows (about 0 without a bias)."""
        total = arb(0)
        for j in range(self.d):
            column = [row[j] for row in rows.table()]
            m = sum(column, arb(0)) / self.n if self.fit_intercept else arb(0)
            for w, x, v in zip(weights, column, variance.table(), strict=True):
                total += w * ((x - m) ** 2 + v[j])
        return total / self.d

    @property
    def relative(self) -> bool:
        return self.scaling == "relative"

    @cached_property
    def omega(self) -> arb:
        omega = arb(float(self.ridge))
        return omega * self.trace / self.d if self.relative else omega

    @cached_property
    def trace(self) -> arb:
        """tr(Q) of features about their mean."""
        return self.mean_diagonal(self.mean, self.variance, self.ones) * self.d

    @cached_property
    def delta(self) -> arb:
        delta = arb(float(self.ridge_class))
        if not self.relative:
            return delta
        return delta * self.mean_diagonal(self.mean, self.variance, self.row_weights)

    @cached_property
    def alpha(self) -> arb:
        alpha = arb(float(self.ridge_domain))
        if not self.relative:
            return alpha
        return alpha * self.mean_diagonal(self.rows, self.variance * 0, self.ones)

    @cached_property
    def lambda_(self) -> arb:
        weight = arb(float(self.class_loss_weight))
        if not self.relative:
            return weight
        return weight * len(self.classes) / squares(self.class_predictor(self.start)[0])

    @cached_property
    def gamma(self) -> arb:
        return arb(float(self.domain_loss_weight))

    # The domain terms, §2 and §9 --------------------------------------------------------------

    @cached_property
    def pairs(self) -> list[tuple[arb, arb_mat]]:
        """(weight, n) of every difference of means in L_m and L_c."""
        found = []
        if "M" in self.letters:
            for source in self.sources:
                found.append((arb(1) / len(self.sources), _difference(source, self.target)))
        if "C" in self.letters:
            for c in self.classes:
                there = self.target & (self.y == c)
                having = [s & (self.y == c) for s in self.sources if (s & (self.y == c)).any()]
                for here in having if there.any() else []:
                    found.append((arb(1) / len(having), _difference(here, there)))
        return found

    def marginalised(self, n: arb_mat) -> arb_mat:
        """E[X̃ᵀ n nᵀ X̃]; the paper's has another diagonal."""
        v = self.mean.transpose() * n
        if self.marginalization == "paper":
            raw = (self.rows.transpose() * n).entries()
            extra = [q * (1 - q) * r * r for q, r in zip(self.keep, raw, strict=True)]
            extra = [*extra, arb(0)] if self.fit_intercept else extra
        else:
            own = weighted(self.variance, [w * w for w in n.entries()])
            extra = [sum(column, arb(0)) for column in zip(*own.table(), strict=True)]
        return v * v.transpose() + diagonal(extra)

    @cached_property
    def M(self) -> arb_mat:
        """γ times all MMD terms, scaled (§3)."""
        size = self.d + int(self.fit_intercept)
        total = arb_mat(size, size)
        for weight, n in self.pairs:
            total = total + self.marginalised(n) * weight
        if self.scaling == "balanced":
            return total * (self.gamma * self.n)
        if self.relative and self.pairs:
            own = sum((total[i, i] for i in range(self.d)), arb(0))
            return total * (self.gamma * self.trace / own)
        return total * self.gamma

    @cached_property
    def penalised(self) -> list[arb]:
        """1 for rows of W that ω acts on: not the bias row."""
        return [arb(1)] * self.d + [arb(0)] * int(self.fit_intercept)

    @cached_property
    def ridges(self) -> list[arb]:
        """What is added to the diagonal of Q: ω, or with `by_feature` ω Σx² (§7)."""
        if not self.by_feature:
            return [self.omega * one for one in self.penalised]
        sums = [
            sum((x * x for x in column), arb(0)) for column in zip(*self.rows.table(), strict=True)
        ]
        return [self.omega * s for s in sums] + [arb(0)] * int(self.fit_intercept)

    @cached_property
    def G(self) -> arb_mat:
        return self.Q + diagonal(self.ridges) + self.M

    @cached_property
    def domain_term(self) -> tuple[arb, arb_mat, arb_mat, list[arb]]:
        """Its weight, z_D, z_D0 and the wanted prediction (§2, §9)."""
        if len(self.sources) == 1:
            labels, want = np.where(self.target, 1.0, -1.0)[:, None], [arb(1)]
            weight = self.gamma
        else:
            members = np.stack([*self.sources, self.target], 1)
            labels, want = np.where(members, 1.0, -1.0), [arb(-1)] * len(self.sources) + [arb(1)]
            weight = self.gamma / 2
        S = self.clean.transpose() * self.clean
        S = S + diagonal([self.alpha * one for one in self.penalised])
        z = solve(S, self.clean.transpose() * exact(labels))
        z_D = rows_of(z, 0, self.d)
        z_0 = rows_of(z, self.d, self.d + 1) if self.fit_intercept else arb_mat(1, len(want))
        if self.relative:
            weight = weight * len(want) / squares(z_D)
        return weight, z_D, z_0, want

    # Steps, §3 and §9 -------------------------------------------------------------------------

    @cached_property
    def start(self) -> arb_mat:
        """W = I, or [I; 0] with a bias."""
        eye = identity(self.d)
        return above(eye, arb_mat(1, self.d)) if self.fit_intercept else eye

    def class_predictor(self, W: arb_mat) -> tuple[arb_mat, arb_mat]:
        """Z and z₀ for given W."""
        d, n_classes = self.d, len(self.classes)
        V = beside(W, self.bias_unit) if self.fit_intercept else W
        free = [arb(0)] if self.fit_intercept else []
        K = V.transpose() * self.Q_l * V + diagonal([self.delta] * d + free)
        z = solve(K, V.transpose() * self.T_l)
        if not self.fit_intercept:
            return z, arb_mat(1, n_classes)
        return rows_of(z, 0, d), rows_of(z, d, d + 1)

    def prediction_terms(
        self, Z: arb_mat | None, z0: arb_mat | None
    ) -> list[tuple[arb, arb_mat, arb_mat, arb_mat]]:
        """(a_k, Q_k, Z_k, T_k) of (★), with T_k = E[X̃_k]ᵀ(what Z_k should say) − Q_k e z₀."""
        terms = []
        if self.kind == "J12":
            T = self.T_l - self.Q_l * self.bias_unit * z0 if self.fit_intercept else self.T_l
            terms.append((self.lambda_, self.Q_l, Z, T))
        if "D" in self.letters:
            weight, z_D, z_0, want = self.domain_term
            totals = self.mean.transpose() * arb_mat(self.n, 1, self.ones)
            T = totals * arb_mat([want])
            T = T - self.Q * self.bias_unit * z_0 if self.fit_intercept else T
            terms.append((weight, self.Q, z_D, T))
        return terms

    def map(self, Z: arb_mat | None = None, z0: arb_mat | None = None) -> arb_mat:
        """W of (★).

        (★) times Z_k is a linear system in the V_k = W Z_k alone,

            G V_k + Σ_j a_j Q_j V_j (Z_jᵀZ_k) = P Z_k + Σ_j a_j T_j (Z_jᵀZ_k),

        and given them G W = P + Σ_j a_j (T_j − Q_j V_j) Z_jᵀ.
        """
        terms = self.prediction_terms(Z, z0)
        right = self.P
        if terms:
            blocks, known = [], []
            for i, (_, _, Z_k, _) in enumerate(terms):
                line, b = [], self.P * Z_k
                for j, (a, Q_j, Z_j, T_j) in enumerate(terms):
                    overlap = Z_j.transpose() * Z_k
                    block = kron(overlap.transpose(), Q_j * a)
                    line.append(block + kron(identity(Z_k.ncols()), self.G) if i == j else block)
                    b = b + T_j * overlap * a
                blocks.append(beside(*line))
                known.append(vec(b))
            found = solve(above(*blocks), above(*known))
            place = 0
            for a, Q_k, Z_k, T_k in terms:
                size = self.G.nrows() * Z_k.ncols()
                V = unvec(rows_of(found, place, place + size), self.G.nrows(), Z_k.ncols())
                place += size
                right = right + (T_k - Q_k * V) * Z_k.transpose() * a
        return solve(self.G, right)

    def fit(self, n_iter: int = 1) -> Reference:
        """Sequential models take one step; joint ones n_iter alternations from W = I."""
        ctx.prec = BITS
        W, Z, z0 = self.start, None, None
        if self.kind == "S1":
            W = self.map()
        elif self.kind == "J12":
            for _ in range(n_iter):
                Z, z0 = self.class_predictor(W)
                W = self.map(Z, z0)
        return Reference(self, W, *self.class_predictor(W), (Z, z0))

    # The losses as §2 writes them before anything is marginalised into Grams ------------------

    def expected_error(self, F: arb_mat, want: arb_mat, weights: Sequence[arb]) -> arb:
        """Σ_n w_n E‖x̃_n F − want_n‖², row by row."""
        apart = weighted(self.mean * F - want, weights)
        lengths = [sum((v * v for v in row), arb(0)) for row in F.table()]
        total = sum(
            (a * b for a, b in zip(apart.entries(), (self.mean * F - want).entries(), strict=True)),
            arb(0),
        )
        for w, row in zip(weights, self.variance.table(), strict=True):
            total += w * sum((v * s for v, s in zip(row, lengths, strict=True)), arb(0))
        return total

    def loss(self, W: arb_mat, Z: arb_mat | None, z0: arb_mat | None) -> arb:
        """L1 + γ(L_m + L_c + L_d) + λ L2, of which sequential models have no L2."""
        total = self.expected_error(W, self.rows, self.ones)
        total += self.omega * squares(rows_of(W, 0, self.d))
        total += sum((W.transpose() * self.M * W).table()[i][i] for i in range(W.ncols()))
        if self.kind == "J12":
            total += self.lambda_ * self.class_loss(W, Z, z0)
        if "D" in self.letters:
            weight, z_D, z_0, want = self.domain_term
            wanted = arb_mat([want] * self.n)
            total += weight * self.expected_error(self.scores_map(W, z_D, z_0), wanted, self.ones)
        return total

    def class_loss(self, W: arb_mat, Z: arb_mat, z0: arb_mat) -> arb:
        """L2."""
        F = self.scores_map(W, Z, z0)
        return self.expected_error(F, self.Y, self.row_weights) + self.delta * squares(Z)

    def scores_map(self, W: arb_mat, Z: arb_mat, z0: arb_mat) -> arb_mat:
        """W Z + e z₀."""
        return W * Z + self.bias_unit * z0 if self.fit_intercept else W * Z


@dataclass(frozen=True)
class Reference:
    """A fitted model; float64 arrays are rounded from 400 bits."""

    problem: Problem = field(repr=False)
    exact_W: arb_mat = field(repr=False)
    exact_Z: arb_mat = field(repr=False)
    exact_z0: arb_mat = field(repr=False)
    #: Z and z₀ that the last W was computed from (joint models).
    before: tuple[Any, Any] = field(repr=False)

    @cached_property
    def exact_F(self) -> arb_mat:
        """Features (and bias) to scores; one column for two classes, as `coef_` has."""
        F = self.problem.scores_map(self.exact_W, self.exact_Z, self.exact_z0)
        return columns(F, 1, 2) if F.ncols() == 2 else F

    @property
    def W(self) -> np.ndarray:
        return rounded(rows_of(self.exact_W, 0, self.problem.d))

    @property
    def offset(self) -> np.ndarray:
        if not self.problem.fit_intercept:
            return np.zeros(self.problem.d)
        return rounded(self.exact_W)[self.problem.d]

    @property
    def Z(self) -> np.ndarray:
        return rounded(self.exact_Z)

    @property
    def coef(self) -> np.ndarray:
        return rounded(rows_of(self.exact_F, 0, self.problem.d)).T

    @property
    def intercept(self) -> np.ndarray:
        if not self.problem.fit_intercept:
            return np.zeros(self.exact_F.ncols())
        return rounded(self.exact_F)[self.problem.d]

    def _inputs(self, X: Any) -> arb_mat:
        rows = exact(X)
        return beside(rows, exact(np.ones(len(X)))) if self.problem.fit_intercept else rows

    def transform(self, X: Any) -> np.ndarray:
        """Denoised rows."""
        return rounded(self._inputs(X) * self.exact_W)

    def scores(self, X: Any) -> np.ndarray:
        """One column per class; one column for two classes."""
        return rounded(self._inputs(X) * self.exact_F)


def reference_fit(
    X: Any, y: Any, sample_domain: Any, *, n_iter: int = 1, **options: Any
) -> Reference:
    """The model of math.md on these rows; `options` are those of `MDAClassifier`."""
    ctx.prec = BITS
    return Problem(np.asarray(X), np.asarray(y), np.asarray(sample_domain), **options).fit(n_iter)


def _difference(source: np.ndarray, target: np.ndarray) -> arb_mat:
    """n: 1/N_s on source rows, −1/N_t on target rows."""
    one, other = arb(1) / int(source.sum()), arb(-1) / int(target.sum())
    return arb_mat(
        len(source),
        1,
        [
            one if s else other if t else arb(0)
            for s, t in zip(source.tolist(), target.tolist(), strict=True)
        ],
    )
