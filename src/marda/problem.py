"""Data and settings → the operators of (★), each built once and shared by all models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from marda._arrays import append, beside, float64, is_numpy, namespace, norm, vdot, vstack, zeros
from marda._validation import UNLABELED
from marda.moments import Moments
from marda.noise import Noise
from marda.operators.denoiser import Denoiser, PrimalDenoiser
from marda.operators.dual import DualDenoiser
from marda.operators.iterative import IterativeDenoiser, PivotDenoiser
from marda.operators.linear import (
    CholeskyFactor,
    DenseGram,
    DiagonalPlusGram,
    Gram,
    IterativeFactor,
    LazyGram,
    RowFactor,
    RowGram,
    SecondMoment,
    condition_of,
)
from marda.operators.rows import Rows
from marda.terms import (
    Discrepancy,
    Model,
    PredictionTerm,
    class_discrepancy,
    classes_to_target,
    domain_discrepancy,
    domain_targets,
    label_products,
)

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

#: A condition that leaves nine digits of float64.
ENOUGH = 1e-9 / float(np.finfo(float).eps)
#: With scaling="relative", what is below this share of what it is made of is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Settings:
    """Numbers and switches that all models share, checked."""

    noise: Noise
    ridge: float = 1e-2
    ridge_class: float = 1.0
    ridge_domain: float = 1.0
    class_loss_weight: float = 1.0
    domain_loss_weight: float = 1.0
    marginalization: str = "exact"
    scaling: str = "balanced"
    fit_intercept: bool = True
    class_means: str = "labelled"


COPY_BYTES = 2**27  # of float32 rows that are held as float64 ones, too: products then need no cast
#: Sums of squares outside these are refused: products of them leave the range of float64.
SMALLEST, LARGEST = 1e-140, 1e140


def _check_size(squares: float, *, empty: bool) -> None:
    """Squares of all entries; they are zero of rows that are, or whose squares no float holds."""
    if not empty and not SMALLEST <= squares <= LARGEST:
        raise ValueError(
            f"the entries of X are too {'small' if squares < 1 else 'large'} (their squares add up "
            f"to {squares:.1e}; {SMALLEST:.0e} to {LARGEST:.0e} is possible): rescale X, for "
            "example with sklearn.preprocessing.MaxAbsScaler."
        )


def _centred(X: Any, center: Vector, *, single: bool) -> Rows:
    """Rows about a centre; dense ones are moved there in place, float32 ones in a copy if small.

    With `single` there is no copy: the large products are those of float32 numbers.
    """
    if not is_numpy(X):
        return Rows(float64(X) - center)
    if single:
        return Rows(X, center, Rows(X, center), single=True)
    if sp.issparse(X):
        return Rows(X, center)
    if X.dtype == np.float64:
        X -= center
        return Rows(X)
    given = Rows(X, center)
    return Rows(X - center, origin=given) if 8 * X.size <= COPY_BYTES else given


def offset_ratio(moments: Moments) -> float:
    """How far rows are from the origin, in units of their spread."""
    n, moved, _ = moments.about(moments.shift)
    add = namespace(moved).sum
    spread = float(add(moments.about(moments.shift + moved / n)[2]))
    squares = float(add(moments.about(zeros(moments.n_features, moved))[2]))
    return float(np.sqrt(squares / spread)) if spread > 0 else 1.0


class Problem:
    """The operators of (★) for one data set and one setting.

    Features are centred at the mean of all rows if there is an intercept (operators/denoiser.py).

    Parameters
    ----------
    moments : Moments
        Group sums; with Grams for the primal route.
    settings : Settings
        Noise, ridges, weights.
    solver : {"primal", "dual", "cg"}
        The route.
    class_weights : array of shape (n_classes,)
        Weight of the labelled rows of a class.
    X, row_groups : rows with the labelled ones first, and the group of `moments` of each
        For the routes that keep rows, and for class weights without a Gram per class. The problem
        takes X over: dense float64 rows are centred in place.
    outputs : integer array, default=None
        Reconstructed features; None for all.
    single : bool, default=False
        The dual and the primal route may factorise in float32, where that is right to four digits.
    """

    def __init__(
        self,
        moments: Moments,
        settings: Settings,
        solver: str,
        class_weights: Vector,
        *,
        X: Any = None,
        row_groups: NDArray[np.int64] | None = None,
        outputs: NDArray[np.int64] | None = None,
        single: bool = False,
    ):
        xp = namespace(moments.shift)
        self.single = single and xp is np and solver in ("dual", "primal")
        self.moments, self.settings, self.solver = moments, settings, solver
        self.class_weights, self.outputs = class_weights, outputs
        d = moments.n_features
        self.scale = beside(settings.noise.scale(d), moments.shift)
        self.n_outputs = d if outputs is None else len(outputs)
        self.bias = settings.fit_intercept
        self.count, moved, _ = moments.about(moments.shift)
        self.center = moments.shift + moved / self.count if self.bias else self._zeros
        self._squares = moments.about(self._zeros)[2]
        empty = not bool(xp.any(moments.shift != 0) | xp.any(moments.sums != 0))
        _check_size(float(xp.sum(self._squares)), empty=empty)
        self._group_weights = moments.group_weights(class_weights)
        self._denoisers: dict[str, Denoiser] = {}
        self._rows = None
        if X is not None:
            assert row_groups is not None
            self._row_groups = row_groups
            labels = moments.labels[row_groups]
            self.row_labels = labels[labels != UNLABELED]
            weights = class_weights[self.row_labels]
            self._row_weights = None if np.all(weights == 1) else beside(weights, moments.shift)
            self._rows = _centred(X, self.center, single=self.single)

    @property
    def _zeros(self) -> Vector:
        return zeros(self.moments.n_features, self.moments.shift)

    # Ridges and weights -----------------------------------------------------------------------
    # With scaling="relative" each is a fraction of what it competes with, so that features times
    # any number give the same predictions: a ridge, of the mean diagonal of the Gram that it is
    # added to; γ of an MMD term, of tr(Q); λ and γ of a prediction term a·Q W Z Zᵀ, of ‖Z‖² at
    # W = I, which makes a ZZᵀ of the order of the identity that it stands next to.

    def _relative(self, value: float, diagonal: Vector) -> float:
        if self.settings.scaling != "relative":
            return value
        mean = namespace(diagonal).mean
        size = float(mean(diagonal))
        if value > 0 and size <= ROUNDING**2 * float(mean(self._squares)):
            raise ValueError(
                'the rows of X are all the same (or those with a label): with scaling="relative" '
                'a ridge is a share of their spread, which is 0. Use scaling="balanced".'
            )
        return value * size

    @cached_property
    def ridge(self) -> float:
        """ω, the ridge of W."""
        scatter = self.scale**2 * self._scatter_diagonal(None)
        return self._relative(self.settings.ridge, scatter + self.all_rows.diagonal)

    @cached_property
    def ridge_class(self) -> float:
        """δ, the ridge of the class predictor Z; K₀ holds it (`_predictor` of the routes)."""
        scatter = self.scale**2 * self._scatter_diagonal(self._group_weights)
        return self._relative(self.settings.ridge_class, scatter + self.labelled.diagonal)

    @cached_property
    def _class_loss_weight(self) -> float:
        """λ."""
        weight = self.settings.class_loss_weight
        if self.settings.scaling != "relative":
            return weight
        Z, products = self.identity_predictor[0], self.labels_about_mean[0]
        return self._times_relative(weight, Z, products, self.labelled.count)

    def _times_relative(self, weight: float, Z: Matrix, products: Matrix, count: float) -> float:
        """Weight of a prediction term over ‖Z‖² per column; 0 if Z is learned from rounding."""
        # ‖XᵀY‖ ≤ ‖X‖‖Y‖, and its rounding is that of X
        most = np.sqrt(float(namespace(Z).sum(self._squares)) * Z.shape[1] * count)
        if norm(products) <= ROUNDING * most:
            return 0.0
        return weight * int(Z.shape[1]) / vdot(Z, Z)

    # Second moments ---------------------------------------------------------------------------

    @cached_property
    def gram(self) -> Gram:
        """Centred Gram of all rows."""
        if self._rows is not None and self.solver != "primal":
            return RowGram(self._rows)
        return DenseGram(self.moments.scatter(self.center))

    @cached_property
    def all_rows(self) -> SecondMoment:
        """Q = E[X̃ᵀX̃] of all rows: the expected Gram, the noise integrated out."""
        n, total, squares = self.moments.about(self._zeros)
        variance = self.settings.noise.variance(n, total, squares)
        # Centred at their own mean, features and bias do not mix: u = 0.
        mean = self._zeros if self.bias else None
        return SecondMoment(self.gram, self.scale, variance, mean, n)

    @cached_property
    def labelled_mean(self) -> Vector:
        """Where the Gram of labelled rows is centred, from where all rows are: 0 without a bias."""
        n, total, _ = self.moments.about(self.center, self._group_weights)
        return total / n if self.bias and n > 0 else self._zeros

    @cached_property
    def labelled_rows(self) -> Rows:
        """Labelled rows about their own mean."""
        assert self._rows is not None
        rows, mean = self._rows.first(len(self.row_labels)), self.labelled_mean
        return Rows(rows.X, mean if rows.center is None else rows.center + mean, single=self.single)

    @cached_property
    def labelled(self) -> SecondMoment:
        """Q_l: the same of the labelled rows, with class weights."""
        n, total, squares = self.moments.weighted(self._group_weights)
        variance = self.settings.noise.variance(n, total, squares)
        gram: Gram
        if self._rows is not None:
            gram = RowGram(self.labelled_rows, self._row_weights)
            if self.solver == "primal":
                gram = LazyGram(gram)
        else:
            gram = DenseGram(
                self.moments.scatter(self.center + self.labelled_mean, self.class_weights)
            )
        mean = self.scale * self.labelled_mean if self.bias else None
        return SecondMoment(gram, self.scale, variance, mean, n)

    # Factorisations ---------------------------------------------------------------------------

    def _discrepancy(self, which: str) -> Discrepancy | None:
        noise, rule = self.settings.noise, self.settings.marginalization
        parts = []
        if "C" in which and self.settings.class_means == "source-to-target":
            parts.append(classes_to_target(self.moments, noise, rule))
            which = which.replace("C", "")
        if "M" in which:
            parts.append(domain_discrepancy(self.moments, noise, rule))
        if "C" in which:
            parts.append(class_discrepancy(self.moments, noise, rule))
        if not parts:
            return None
        weight = self.settings.domain_loss_weight
        both = Discrepancy.sum(parts)
        if self.settings.scaling == "balanced":
            weight *= self.count
        elif self.settings.scaling == "relative":
            total = namespace(both.rows).sum
            apart, added = float(total(both.rows**2)), float(total(both.diagonal))
            mean = float(total(self._squares)) / self.count  # squared length of a row
            if apart <= ROUNDING**2 * mean and added <= ROUNDING * mean / self.count:
                return both.scaled(0.0)  # there is nothing to bring closer but rounding
            weight *= self._trace / (apart + added)
        return both.scaled(weight)

    @property
    def _trace(self) -> float:
        """tr(Q), of features."""
        scatter = self.scale**2 * self._scatter_diagonal(None)
        return float(namespace(scatter).sum(scatter + self.all_rows.diagonal))

    def denoiser(self, model: Model) -> Denoiser:
        """G = Q + ωI + MMD terms of a model, and W₀; models with the same G share it."""
        which = model.discrepancies if self.has_target else ""
        if which not in self._denoisers:
            diagonal = self.all_rows.diagonal + self.ridge
            extra, mixing = zeros((0, diagonal.shape[0]), diagonal), None
            term = self._discrepancy(which)
            if term is not None:
                diagonal, extra = diagonal + term.diagonal, term.rows
                if self._rows is not None:
                    mixing = beside(term.combinations[:, self._row_groups], diagonal)
            system = DiagonalPlusGram(diagonal, self.scale, self.gram, extra, mixing)
            variance = self.all_rows.diagonal
            scatter = self._scatter_diagonal(None)
            kind = self._route()
            given = system, self.count, variance, self.labelled, self.outputs, self.bias, scatter
            options: dict[str, Any] = {"single": True} if self.single else {}
            self._denoisers[which] = kind(*given, **options)
        return self._denoisers[which]

    def _route(self) -> type[Denoiser]:
        if self.solver == "primal":
            return PrimalDenoiser
        if self.solver == "dual":
            return DualDenoiser
        return IterativeDenoiser if self.outputs is None else PivotDenoiser

    @property
    def offset_ratio(self) -> float:
        """How far rows are from where W maps them from, in units of their spread; 1 with a bias."""
        return 1.0 if self.bias else offset_ratio(self.moments)

    @property
    def enough(self) -> float:
        """A bound of a condition below which none needs to be estimated: nothing is refused."""
        return ENOUGH / self.offset_ratio

    @property
    def has_target(self) -> bool:
        """Without target rows the domain terms vanish."""
        return bool((self.moments.domains < 0).any())

    def _scatter_diagonal(self, weights: Vector | None) -> Vector:
        """Diagonal of a centred Gram, from sums."""
        return self.moments.about(self.center, weights)[2]

    @property
    def diagonal_labelled(self) -> Vector:
        """Diagonal of Q_l about the labelled mean."""
        scatter = self.moments.about(self.center + self.labelled_mean, self._group_weights)[2]
        return self.scale**2 * scatter + self.labelled.diagonal

    def _ridge_solve(
        self,
        Q: SecondMoment,
        ridge: float,
        right: tuple[Matrix, Matrix | None],
        null: Vector | None,
        name: str,
    ) -> tuple[Matrix, float]:
        """(A S A + D + ridge)⁻¹B on the outputs, by this problem's route, and the condition.

        `right` is B = A Xᵀdiag(w)Y, and Y where rows are kept: through them nothing is subtracted.
        """
        B, Y = right
        gram, diagonal, scale = Q.gram, Q.diagonal + ridge, Q.scale
        outputs = self.outputs
        if outputs is not None:
            B, diagonal, scale = B[outputs], diagonal[outputs], scale[outputs]
            if isinstance(gram, RowGram):
                gram = RowGram(gram.rows.columns(outputs), gram.weights)
            else:
                gram = DenseGram(gram.dense()[np.ix_(outputs, outputs)])
        system = DiagonalPlusGram(diagonal, scale, gram, zeros((0, diagonal.shape[0]), diagonal))
        factor: CholeskyFactor | RowFactor | IterativeFactor
        if self.solver == "dual":
            factor = RowFactor(system, name, null, single=self.single)
            assert Y is not None
            solved = factor.solve_rows(Y if factor.root is None else factor.root[:, None] * Y)
        elif self.solver == "primal":
            factor = CholeskyFactor(system.dense(), name, ridge, least=diagonal)
            solved = factor.solve(B)
        else:
            assert isinstance(gram, RowGram)
            factor = IterativeFactor(system, gram.rows.squares(gram.weights), 1e-13, name)
            solved = factor.solve(B)
        return solved, condition_of(factor, self.enough)

    # Prediction terms -------------------------------------------------------------------------

    @cached_property
    def label_sums(self) -> tuple[Matrix, Vector, float]:
        """T = E[X̃_l]ᵀY with its bias row, Σ w y, and ‖Y‖²."""
        XY, Y = label_products(self.moments, self.class_weights, self.center)
        T = self.scale[:, None] * XY
        norm = len(self.class_weights) * self.labelled.count
        return (vstack([T, beside(Y, T)[None, :]]) if self.bias else T), Y, norm

    @cached_property
    def labels_about_mean(self) -> tuple[Matrix, Matrix | None, Vector]:
        """A Xᵀdiag(w)Y about the labelled means of rows and labels; Y per row; the labels' mean.

        Without a bias nothing is centred. These are the right-hand sides of the class predictor.
        """
        moments, mean = self.moments, np.zeros(len(self.class_weights))
        XY, sums = label_products(moments, self.class_weights, self.center + self.labelled_mean)
        if self.bias:
            mean = sums / self.labelled.count
        Y = None
        if self._rows is not None:
            Y = np.where(self.row_labels[:, None] == np.arange(len(mean)), 1.0, -1.0) - mean
        Y = None if Y is None else beside(Y, XY)
        return self.scale[:, None] * XY, Y, beside(mean, XY)

    @cached_property
    def _identity(self) -> tuple[Matrix, Vector, float]:
        B, Y, mean = self.labels_about_mean
        Q = self.labelled
        null = None
        if self.bias and self._rows is not None:
            null = self._row_weights
            if null is None:
                null = zeros(len(self.row_labels), B) + 1.0
        name = "the class predictor's matrix"
        Z, condition = self._ridge_solve(Q, self.ridge_class, (B, Y), null, name)
        if Q.mean is None:
            return Z, mean, condition
        outputs = slice(None) if self.outputs is None else self.outputs
        return Z, mean - Q.mean[outputs] @ Z, condition

    @property
    def identity_predictor(self) -> tuple[Matrix, Vector]:
        """Z and z₀ for W = I (on the outputs): BL, MCF, and where the alternation starts.

        z₀ is relative to centred inputs: scores = (x − a∘m)Z + z₀.
        """
        return self._identity[:2]

    @property
    def identity_condition(self) -> float:
        """Of the system that they solve."""
        return self._identity[2]

    def class_term(self, Z: Matrix, z0: Vector) -> PredictionTerm:
        """λ L2 without its penalty, for given Z and z₀; where all rows have a label, Q_l is Q."""
        T, _, norm = self.label_sums
        Q = self.all_rows if (self._group_weights == 1).all() else self.labelled
        return PredictionTerm(self._class_loss_weight, Q, T, norm, Z, z0, self.identity_condition)

    @cached_property
    def domain_term(self) -> PredictionTerm:
        """γ L_d: the domain predictor z_D (learned once, on clean rows) and what it should say."""
        targets = domain_targets(self.moments)
        moments, center = self.moments, self.center
        counts = beside(moments.counts, center)[:, None]
        sums = moments.sums + counts * (moments.shift - center)
        # z_D is learned on clean rows
        ridge = self._relative(self.settings.ridge_domain, self._scatter_diagonal(None))
        clean = SecondMoment(self.gram, self._zeros + 1.0, self._zeros, None, self.count)
        Y = null = None
        if self._rows is not None:
            Y = beside(targets.labels[self._row_groups], center)
            null = zeros(Y.shape[0], center) + 1.0 if self.bias else None
        products = sums.T @ beside(targets.labels, center)
        z_domain, condition = self._ridge_solve(
            clean, ridge, (products, Y), null, "the domain predictor's matrix"
        )
        z0 = np.zeros(len(targets.wanted))
        ones = self.scale * namespace(sums).sum(sums, axis=0)
        if self.bias:
            z0 = moments.counts @ targets.labels / self.count
            ones = append(self._zeros, self.count)
        weight = self.settings.domain_loss_weight * targets.weight
        if self.settings.scaling == "relative":
            weight = self._times_relative(weight, z_domain, products, self.count)
        return PredictionTerm(
            weight,
            self.all_rows,
            ones[:, None] * beside(targets.wanted, center),
            self.count * float(targets.wanted @ targets.wanted),
            z_domain,
            beside(z0, center),
            condition,
        )

    # Losses of W = I --------------------------------------------------------------------------

    def identity_loss(self, model: Model) -> float:
        """L1 + γ MMD at W = I, without a bias row."""
        outputs = slice(None) if self.outputs is None else self.outputs
        a, s2 = self.scale[outputs], self._squares[outputs]
        total = namespace(a).sum
        value = float(total((1 - a) ** 2 * s2 + self.all_rows.diagonal[outputs]))
        value += self.ridge * self.n_outputs
        term = self._discrepancy(model.discrepancies if self.has_target else "")
        if term is not None:
            value += float(total(term.rows[:, outputs] ** 2)) + float(total(term.diagonal[outputs]))
        return value

    @property
    def squared_norm(self) -> float:
        """‖X‖² of the reconstructed features, about the centre."""
        diagonal = self._scatter_diagonal(None)
        kept = diagonal if self.outputs is None else diagonal[self.outputs]
        return float(namespace(kept).sum(kept))
