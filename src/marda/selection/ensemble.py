"""The ensemble: a weighted sum of the scores of a few fitted models, and its temperature.

With members m of weight a_m, scores S_m and spread σ_m (the root mean square of S_m about its mean
over classes, on the target rows of the fit), the scores of the ensemble are (math.md §15)

    S(x) = Σ_m a_m (S_m(x) − mean over classes of S_m(x)) / σ_m,

and its probabilities softmax(τ S(x)). The sharpness τ, the inverse temperature, minimises the
log-loss of left-out source rows, weighted by how much like the target they are (`calibrate`,
math.md §14). Where models agree less on the target than on the source, the target is harder than
any source row shows: τ is then lowered until the mean confidence on the target is at most its
expected accuracy (`soften`).

Compact members: a kernel classifier on denoised rows as one product of rows with a thin matrix.

A member of an adapted ensemble scores a row x, of unit length after denoising and centring,
h = (Wᵀx + o − μ)/‖Wᵀx + o − μ‖, by its similarity to n training rows b_j of unit length:

    f(h) = z₀ + Σ_j c_j exp((hᵀb_j − 1)/σ²).

It needs W and the training rows. The series of the exponential needs much less (math.md §17):

- The constant and the linear term are one column per class, WBᵀc; they are kept whole.
- The rest is kept in r directions U, those along which the gradients of f change most: again a sum
  over the training rows, but of r numbers each, Uᵀb_j, not of as many as there are columns.
- Of two classes the quadratic term is one quadratic form, which is made diagonal: one number per
  direction. Terms of a higher order are kept in the leading directions alone.
- The length of a denoised row is that of its r coordinates, and of a few random directions for what
  lies outside of them.

All of it is x times one thin matrix. The matrix and the coordinates of training rows have 11 binary
digits, in files two bytes each; sums have float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky
from scipy.optimize import brentq, minimize_scalar
from scipy.special import softmax
from sklearn.utils.extmath import randomized_svd

from marda._arrays import (
    beside,
    columns,
    float64,
    host_type,
    hstack,
    is_numpy,
    like,
    log_softmax,
    namespace,
    rows_at,
    symmetric_eigen,
    to_numpy,
)
from marda._validation import seed_of
from marda.criteria import density_ratio, expected_calibration_error
from marda.estimators import MDAClassifier
from marda.estimators.kernel_ridge import GaussianRidge
from marda.selection.inputs import Inputs

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Index = NDArray[np.int64]
Array = NDArray[Any]

#: Rows and leading directions by which domains are compared.
COMPARED_ROWS, COMPARED_DIRECTIONS = 2000, 50
#: Sharpness is searched between these powers of e.
BOUNDS = -3.0, 3.0
#: Powers of e by which probabilities may be softened: all classes are then about as likely.
SOFTEST = 7.0
#: Directions that are kept, and random ones beside them for the lengths of rows; more where these
#: change too many predictions.
SIZES = ((256, 64), (384, 128))
#: Directions for what is left of two classes beyond the quadratic term.
LEADING = 64
#: Training rows at which gradients are taken, per direction.
GRADIENTS = 2
#: A model is compressed where it holds so many times the numbers that are then kept.
LARGER = 4.0
#: Share of target rows whose predicted class must stay as it was.
LEAST_AGREEMENT = 0.995
#: More directions are not tried where so many times the predictions change that may.
HOPELESS = 2.0
#: Rows that are scored at a time.
BATCH, DEVICE_BATCH = 512, 2**15
#: Products of training rows with themselves are left out of gradients: new rows have none.
ITSELF = 0.999


def spread_of(scores: Matrix) -> float:
    """Root mean square of scores about their mean over classes; 1 if there is none."""
    centred = scores - scores.mean(1, keepdims=True)
    return float(np.sqrt(np.mean(centred**2))) or 1.0


class MemberModel(Protocol):
    """What a member needs of a fitted model."""

    def scores(self, rows: Any) -> Matrix:
        """Of rows, one column per class."""

    def get_params(self) -> dict[str, Any]:
        """What it is, for the record of a choice."""


@dataclass(frozen=True)
class Member:
    """A fitted model, the inputs it was fitted on, and its weight.

    Attributes
    ----------
    name : str
        For people.
    inputs : Inputs
        Applied to rows before the model.
    model : MDAClassifier or MemberModel
        Fitted: an adapted classifier, or a source-only one (source_only.py).
    weight : float
        Of its standardised scores in the sum.
    spread : float
        Of its scores on the target rows of the fit, their unit.
    on_target : array of shape (n_target, n_classes), default=None
        These scores; known while an ensemble is made, and dropped with `frozen`.
    """

    name: str
    inputs: Inputs
    model: MDAClassifier | MemberModel
    weight: float
    spread: float
    on_target: Matrix | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Inputs,
        model: MDAClassifier | MemberModel,
        weight: float,
        scores: Matrix,
    ) -> Self:
        """A member, given its scores on the target rows of the fit."""
        spread = spread_of(scores)
        return cls(name, inputs, model, weight, spread, _standardised(scores, spread))

    @property
    def frozen(self) -> Self:
        """What predictions need of it."""
        return replace(self, on_target=None)

    @property
    def adapted(self) -> MDAClassifier | None:
        """The model, if it is one that denoises; None for a source-only one."""
        return self.model if isinstance(self.model, MDAClassifier) else None

    def scores(self, X: Any, places: Index | None = None) -> Matrix:
        """Scores about their mean over classes, in units of their spread.

        Rows with `places` are these target rows of the fit, whose scores may be known.
        """
        if places is not None and self.on_target is not None:
            return np.asarray(self.on_target[places])
        return self.scores_of(self.inputs.apply(X))

    def scores_of(self, rows: Any) -> Matrix:
        """The same, of rows that are its inputs already."""
        scorer = self.model.model_ if isinstance(self.model, MDAClassifier) else self.model
        return _standardised(to_numpy(scorer.scores(rows)), self.spread)


def _standardised(S: Matrix, spread: float) -> Matrix:
    return np.asarray((S - S.mean(1, keepdims=True)) / spread)


@dataclass(frozen=True)
class Ensemble:
    """Members, and the sharpness that turns the sum of their scores into probabilities.

    Attributes
    ----------
    members : tuple of Member
        The fitted models.
    sharpness : float
        Of the probabilities.
    batch : int, default=None
        Rows that are scored at a time, few enough for the processor's cache; None: all of them.
    """

    members: tuple[Member, ...]
    sharpness: float = 1.0
    batch: int | None = None

    def scores(self, X: Any, places: Index | None = None) -> Matrix:
        """Weighted sum of the members' scores, one column per class, on the host."""
        if places is not None:
            return sum((m.weight * m.scores(X, places) for m in self.members), start=np.zeros(()))
        n = X.shape[0]
        batch = self.batch if is_numpy(X) else DEVICE_BATCH
        if batch is None or n <= batch:
            return self._scores(X)
        parts = [self._scores(X[i : min(n, i + batch), ...]) for i in range(0, n, batch)]
        return np.vstack(parts)

    def _scores(self, X: Any) -> Matrix:
        made: dict[Any, Any] = {}  # inputs that several members have in common
        total = np.zeros(())
        for member in self.members:
            key = member.inputs.key
            if key not in made:
                made[key] = member.inputs.apply(X)
            total = total + member.weight * member.scores_of(made[key])
        return total

    def probabilities(self, X: Any, places: Index | None = None) -> Matrix:
        """Softmax of the sharpened scores."""
        return np.asarray(softmax(self.sharpness * self.scores(X, places), axis=1))


# Temperature --------------------------------------------------------------------------------------


def calibrate_ensemble(
    members: Sequence[Member],
    left_out: Sequence[tuple[Index, Index, Matrix]],
    X: Any,
    domain: Index,
    seed: int,
    expected: float | None = None,
) -> tuple[Ensemble, dict[str, float]]:
    """The members with the sharpness of their probabilities, and how it was found.

    Parameters
    ----------
    members : sequence of Member
        Domains are compared on the inputs of the first one.
    left_out : sequence of tuples
        Places, classes and scores of source rows that models had not seen; empty: no calibration.
    X, domain : arrays
        Rows of the fit, and their domains.
    seed : int
        Draws rows.
    expected : float, default=None
        Expected accuracy on the target, which the mean confidence there may not exceed.
    """
    frozen = tuple(member.frozen for member in members)
    if not left_out:
        return Ensemble(frozen), {}
    scores = np.sum([m.weight * m.on_target for m in members if m.on_target is not None], axis=0)
    unit = spread_of(scores)
    places = np.concatenate([part[0] for part in left_out])
    codes = np.concatenate([part[1] for part in left_out])
    S = np.vstack([part[2] - part[2].mean(1, keepdims=True) for part in left_out])
    S /= spread_of(S)
    weights = np.ones(len(places))
    if (domain < 0).any():
        rows = members[0].inputs.apply(X)
        source = np.unique(places)
        chosen, ratio = importance(rows[source], rows[domain < 0], seed)
        known = dict(zip(source[chosen].tolist(), ratio.tolist(), strict=True))
        weights = np.array([known.get(p, 0.0) for p in places.tolist()])
    found = calibrate(S, codes, weights)
    sharpness = found["sharpness"] / unit
    if expected is not None:
        sharpness = soften(scores, sharpness, expected)
        found["expected_accuracy"] = expected
        found["softened"] = sharpness * unit / found["sharpness"]
    return Ensemble(frozen, sharpness), found


def calibrate(scores: Matrix, codes: Index, weights: Vector) -> dict[str, float]:
    """The sharpness τ of softmax(τ·scores) that gives held-out rows the least log-loss.

    Parameters
    ----------
    scores : array of shape (n_rows, n_classes)
        Of source rows, by models that had not seen them; in units of their spread.
    codes : array of shape (n_rows,)
        Their classes.
    weights : array of shape (n_rows,)
        How much like the target each row is.

    Returns
    -------
    dict
        "sharpness"; "ece_before" and "ece_after", the expected calibration error of softmax(scores)
        and after sharpening, on these weighted rows; "rows", their effective number.
    """
    sharpness = best_sharpness(scores, codes, weights)
    w = weights / weights.sum()
    return {
        "sharpness": sharpness,
        "ece_before": expected_calibration_error(softmax(scores, axis=1), codes, weights),
        "ece_after": expected_calibration_error(
            softmax(sharpness * scores, axis=1), codes, weights
        ),
        "rows": float(1 / (w**2).sum()),
    }


def best_sharpness(scores: Matrix, codes: Index, weights: Vector) -> float:
    """τ of `calibrate`, whose parameters these are."""
    w, own = weights / weights.sum(), (np.arange(len(codes)), codes)

    def loss(log_sharpness: float) -> float:
        return float(-(w @ log_softmax(np.exp(log_sharpness) * scores)[own]))

    return float(np.exp(minimize_scalar(loss, bounds=BOUNDS, method="bounded").x))


def soften(scores: Matrix, sharpness: float, expected: float) -> float:
    """At most `sharpness`, such that the mean confidence is at most the expected accuracy."""

    def excess(log_sharpness: float) -> float:
        P = softmax(np.exp(log_sharpness) * scores, axis=1)
        return float(P.max(1).mean()) - expected

    high = float(np.log(sharpness))
    low = high - SOFTEST
    if excess(high) <= 0:
        return sharpness
    if excess(low) >= 0:
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, high, xtol=1e-4)))


def importance(Xs: Any, Xt: Any, random_state: Any) -> tuple[Index, Vector]:
    """A sample of source rows, and how much like the target each of them is.

    Rows are projected on the leading directions of both samples first: in many dimensions any two
    samples can be told apart, and the weights would rest on a handful of rows.
    """
    seed = seed_of(random_state)
    rng = np.random.RandomState(seed)
    picks = [
        np.sort(rng.permutation(X.shape[0])[:COMPARED_ROWS])
        if X.shape[0] > COMPARED_ROWS
        else slice(None)
        for X in (Xs, Xt)
    ]
    chosen = np.arange(Xs.shape[0])[picks[0]]
    Fs, Ft = Xs[picks[0]], Xt[picks[1]]
    if min(Fs.shape[0], Ft.shape[0]) < 10:  # too few to tell domains apart
        return chosen, np.ones(len(chosen))
    if Fs.shape[1] > COMPARED_DIRECTIONS:
        both = sp.vstack([Fs, Ft]).tocsr() if sp.issparse(Fs) else np.vstack([Fs, Ft])
        projected = _leading(both, rng)
        Fs, Ft = projected[: len(chosen)], projected[len(chosen) :]
    elif sp.issparse(Fs):
        Fs, Ft = Fs.toarray(), Ft.toarray()
    return chosen, density_ratio(Fs, Ft, seed=seed)


def _leading(X: Any, rng: Any) -> Matrix:
    n = min(COMPARED_DIRECTIONS, min(X.shape) - 1)
    U, values, _ = randomized_svd(X, n, n_iter=2, random_state=rng)
    return np.asarray(U * values, dtype=np.float64)


# Compact members ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Compact:
    """A member's model as a thin matrix; all arrays are float32, of numpy.

    Attributes
    ----------
    matrix : array of shape (n_features, k + n_classes)
        W times r directions and k − r random ones, every entry of which a float16 holds; then the
        linear term, one column per class.
    scale, shift : arrays of shape (k + n_classes,)
        Of the products of rows with it, which are those of a denoised row of any length.
    intercept : array of shape (n_classes,)
        The constant term.
    slope : array of shape (r′, n_classes)
        What the linear term leaves to the landmarks, negative, in the first r′ directions.
    quadratic : array of shape (r − r′, n_classes) or None
        Weights of the squares of all further coordinates; None: r′ = r.
    landmarks : array of shape (n_landmarks, r′)
        Training rows in the first r′ directions, in units of σ²; float16 of their own.
    coef : array of shape (n_landmarks, n_classes)
        Weights of their exponentials.
    n_directions : int
        r.
    """

    matrix: Array
    scale: Array
    shift: Array
    intercept: Array
    slope: Array
    quadratic: Array | None
    landmarks: Array
    coef: Array
    n_directions: int

    def features(self, rows: Any) -> Array:
        """Denoised rows of unit length, in its directions."""
        return self._products(rows)[:, : -len(self.intercept)]

    def _products(self, rows: Any) -> Array:
        P = np.asarray(rows.astype(np.float32, copy=False) @ self.matrix)
        P *= self.scale
        P += self.shift
        H = P[:, : -len(self.intercept)]
        lengths = np.sqrt(np.einsum("ij,ij->i", H, H))[:, None]
        lengths[lengths == 0] = 1
        P /= lengths
        return P

    def scores(self, rows: Any) -> NDArray[np.float64]:
        """Of rows, one column per class."""
        if not is_numpy(rows):
            return self._scores_elsewhere(rows)
        P = self._products(rows)
        leading = P[:, : self.landmarks.shape[1]]
        T = leading @ self.landmarks.T
        S = np.exp(T, out=T) @ self.coef
        S += P[:, -len(self.intercept) :]
        S += leading @ self.slope
        S += self.intercept
        if self.quadratic is not None:
            S += P[:, self.landmarks.shape[1] : self.n_directions] ** 2 @ self.quadratic
        return np.asarray(S, dtype=np.float64)

    def _scores_elsewhere(self, rows: Any) -> NDArray[np.float64]:
        """The same of rows of another library: its few numbers are brought to them."""
        xp, C, r = namespace(rows), len(self.intercept), self.landmarks.shape[1]
        P = xp.astype(rows, xp.float32, copy=False) @ beside(self.matrix, rows, "float32")
        P = P * like(self.scale, P) + like(self.shift, P)
        H = P[:, :-C]
        squares = xp.sum(H * H, axis=1)
        P = P / xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares)))[:, None]
        leading = P[:, :r]
        S = xp.exp(leading @ like(self.landmarks.T, P)) @ like(self.coef, P)
        S = S + P[:, -C:] + leading @ like(self.slope, P) + like(self.intercept, P)
        if self.quadratic is not None:
            S = S + P[:, r : self.n_directions] ** 2 @ like(self.quadratic, P)
        return np.asarray(to_numpy(float64(S)))

    def get_params(self) -> dict[str, Any]:
        """What it is, for the record of a choice."""
        return {"compact": self.n_directions}


def is_compact(ensemble: Ensemble) -> bool:
    """Whether some member is compact, and cannot denoise rows any more."""
    return any(isinstance(member.model, Compact) for member in ensemble.members)


def compress_ensemble(
    ensemble: Ensemble, on_target: Array, target: Any, seed: int
) -> tuple[Ensemble | None, dict[str, Any]]:
    """The ensemble with compact members, and what that changes on the target rows of the fit.

    Parameters
    ----------
    ensemble : Ensemble
        Fitted and calibrated.
    on_target : array of shape (n_target, n_classes)
        Its scores on these rows.
    target : array or sparse matrix of shape (n_target, n_features)
        These rows.
    seed : int
        Draws training rows and directions.

    Returns
    -------
    ensemble : Ensemble or None
        None: no member is worth it, or too many predictions would change.
    found : dict
        "same_predictions", the share of target rows whose class stays; "score_error", root mean
        square of the change in units of the scores' spread; "rows"; "used". Empty: nothing to do.
    """
    found: dict[str, Any] = {}
    for size in SIZES:
        members = [_compressed(member, size, seed) for member in ensemble.members]
        if all(new is old for new, old in zip(members, ensemble.members, strict=True)):
            break
        small = replace(ensemble, members=tuple(members), batch=BATCH)
        change = small.scores(target) - on_target
        same = float(np.mean((on_target + change).argmax(1) == on_target.argmax(1)))
        found = {
            "same_predictions": same,
            "score_error": float(np.sqrt(np.mean(change**2) / np.mean(on_target**2))),
            "rows": len(on_target),
            "directions": size[0],
            "used": same >= LEAST_AGREEMENT,
        }
        if found["used"]:
            return small, found
        if 1 - same > HOPELESS * (1 - LEAST_AGREEMENT):
            break
    return None, found


def _compressed(member: Member, size: tuple[int, int], seed: int) -> Member:
    """The member with a compact model, where that is much smaller; the same otherwise."""
    model = member.adapted
    if model is None or not _worth_it(model, size):
        return member
    return replace(member, model=compress(model, size, seed))


def _worth_it(model: MDAClassifier, size: tuple[int, int]) -> bool:
    found = model.model_
    if len(found.layers) != 1 or not found.normalize:
        return False
    if not isinstance(found.classifier, GaussianRidge):
        return False
    d, r = found.layers[0].map.shape
    n = int(found.classifier.basis_.shape[0])
    return n * r > LARGER * sum(size) * (d + n)


def compress(model: MDAClassifier, size: tuple[int, int], seed: int) -> Compact:
    """A compact copy of a kernel classifier on normalised rows of one layer.

    Parameters
    ----------
    model : MDAClassifier
        Fitted, with classifier="kernel" and normalize=True.
    size : tuple of int
        Directions, and random ones beside them.
    seed : int
        Draws training rows and directions.
    """
    found = model.model_
    layer, kernel = found.layers[0].map, found.classifier
    B, variance = kernel.basis_, float(kernel.variance_)
    dtype = host_type(B)
    c = kernel.coef_.astype(np.float64)
    c = np.exp(-1 / variance) * (c - c.mean(1, keepdims=True))  # members are centred over classes
    rng = np.random.default_rng(seed)
    U = _directions(B, c.astype(dtype), variance, size[0], rng)
    at = to_numpy(B @ U)
    quadratic, leading = None, U.shape[1]
    if c.shape[1] == 2 and leading > LEADING:
        turn, at, weights = _diagonal(at, c[:, 1] / (2 * variance**2))
        U = U @ like(turn, U)
        leading = LEADING
        quadratic = _single(weights[leading:, None] * np.array([-1.0, 1.0]))
    R = rng.standard_normal((B.shape[1], size[1])) / np.sqrt(size[1])
    V = _columns(B, U, R, (c / variance).astype(dtype))
    middle = (layer.offset - found.center_of_new_rows) @ V
    image, shift, center = (to_numpy(one) for one in (layer.matmul(V), middle, layer.center))
    k, scale = U.shape[1] + size[1], np.ones(V.shape[1])
    largest = np.abs(image[:, :k]).max(0)
    scale[:k] = np.where(largest > 0, largest, 1)
    matrix = _single(image / scale)
    matrix[:, :k] = _halved(matrix[:, :k])
    shift = shift + center @ (image - matrix * scale)  # what rounding does to the mean row
    landmarks = _halved(at[:, :leading] / variance)
    return Compact(
        matrix,
        _single(scale),
        _single(shift),
        _single(kernel.intercept_ - np.mean(kernel.intercept_)),
        _single(-landmarks.T @ c),
        quadratic,
        landmarks,
        _single(c),
        U.shape[1],
    )


def _columns(B: Array, U: Array, R: Array, c: Array) -> Array:
    """U, what of R lies outside of it, and Bᵀc; where B is, in float64 if that is elsewhere."""
    if is_numpy(B):
        R -= U @ (U.T @ R)
        return np.hstack([U, R.astype(B.dtype), B.T @ c])
    U, outside = float64(U), beside(R, B)
    return hstack([U, outside - U @ (U.T @ outside), float64(B.T @ like(c, B))])


def _directions(
    B: Array, c: Array, variance: float, n_directions: int, rng: np.random.Generator
) -> Array:
    """Orthonormal columns: the leading directions of gradients without their linear part.

    ∇f = Σ_j c_j exp(hᵀb_j/σ²) b_j, at some of the rows and for random sums of the classes.
    """
    some = np.sort(rng.permutation(B.shape[0])[: GRADIENTS * n_directions])
    T = rows_at(B, some) @ B.T
    T[ITSELF < T] = 0
    T /= variance
    slopes = np.expm1(T, out=T) if is_numpy(T) else namespace(T).expm1(T)
    slopes *= like(rng.standard_normal((len(some), c.shape[1])).astype(c.dtype) @ c.T, B)
    G = slopes @ B
    values, E = symmetric_eigen(float64(G @ G.T))
    squares = to_numpy(values)
    r = min(n_directions, int((squares > np.finfo(np.float32).eps * squares[-1]).sum()))
    last = np.arange(len(squares) - 1, len(squares) - 1 - r, -1)  # the largest first
    U = G.T @ like(columns(E, last) / like(np.sqrt(squares[last]), E), G)
    return _orthonormal(U)


def _orthonormal(U: Array) -> Array:
    """Columns that are so but for rounding, as the Q of U = QR: from UᵀU, where that has digits."""
    try:
        R = cholesky(to_numpy(float64(U.T @ U)), check_finite=False)
    except LinAlgError:
        return _qr(U)
    if R.diagonal().min() < 0.5:
        return _qr(U)
    found: Array = U @ like(np.linalg.inv(R).astype(host_type(U)), U)
    return found


def _qr(U: Array) -> Array:
    Q: Array = namespace(U).linalg.qr(U)[0]
    return Q


def _diagonal(at: Array, weights: Array) -> tuple[Array, Array, Array]:
    """A turn of U and UᵀB by which Σ_j w_j (hᵀb_j)² is a sum of squares, the largest first."""
    values, E = symmetric_eigen((at * weights[:, None].astype(at.dtype)).T.astype(np.float64) @ at)
    turned = at @ E.astype(at.dtype)
    order = np.argsort(-np.abs(values) * np.mean(turned**2, axis=0), kind="stable")
    return E[:, order].astype(at.dtype), turned[:, order], values[order]


def _single(values: Any) -> Array:
    return np.ascontiguousarray(values, dtype=np.float32)


def _halved(values: Any) -> Array:
    """Float32 numbers that a float16 holds."""
    return _single(np.asarray(values, dtype=np.float16))
