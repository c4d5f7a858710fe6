"""The class prior of the target, from probabilities of a model that knows the source alone.

If only class shares differ, p_t(x) = Σ_c π_c p_s(x|c), and π follows from probabilities of the
source's model on the target (math.md §16): by EM on the likelihood (Saerens et al., 2002), which
uses probabilities to the full and needs them calibrated, and by the confusion matrix (Lipton et
al., 2018), which does not. Where they disagree, something else than the shares has changed. The
model is a logistic regression, judged on rows that it has not seen (`fit_source_model`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold

from marda._arrays import log_softmax
from marda.criteria import check_probabilities
from marda.shift.two_sample import Features, Sample, leading_directions

Array = NDArray[np.float64]
Index = NDArray[np.int64]

TINY = 1e-12
#: EM stops when no share moves by more than this.
TOLERANCE = 1e-6
MAX_STEPS = 1000
MAX_NEWTON = 30
#: Draws behind a standard error, and probabilities of theirs that are held at once.
N_DRAWS, MAX_ENTRIES = 30, 2**19
#: Above as many classes one temperature is fitted, and no bias per class.
MAX_BIASED = 12
#: Estimates that differ by more standard errors than this disagree.
DISAGREEMENT = 3.0
N_FOLDS = 5
#: Inverse penalties of logistic regression on columns, and on columns and random features.
PENALTIES = ((0.02, 0.5), (0.05,))


@dataclass(frozen=True)
class Calibration:
    """softmax(τ log P + b): τ and one b per class, fitted on left-out source rows."""

    sharpness: float
    bias: Array

    def __call__(self, P: Any) -> Array:
        """Calibrated probabilities."""
        logits = self.sharpness * np.log(np.maximum(P, TINY)) + self.bias
        return np.asarray(softmax(logits, axis=1))


@dataclass(frozen=True)
class ClassPrior:
    """Class shares of the target, as two ways to estimate them see it.

    Attributes
    ----------
    source : array of shape (n_classes,)
        Shares of the source.
    target : array of shape (n_classes,)
        Shares of the target, by EM.
    standard_error : array of shape (n_classes,)
        Of `target`, by resampled rows of both domains and a jackknife over folds.
    by_confusion : array of shape (n_classes,)
        Shares of the target, by the confusion matrix.
    agree : bool
        Whether no class has estimates that differ by more than three standard errors.
    """

    source: Array
    target: Array
    standard_error: Array
    by_confusion: Array
    agree: bool


def adjust_probabilities(P: Any, source_prior: Any, target_prior: Any) -> Array:
    """Probabilities of a model of the source, for rows with other class shares.

    P_ic π_c / ρ_c, rows brought to sum 1 again (math.md §16).

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Calibrated probabilities under the source's class prior ρ.
    source_prior, target_prior : arrays of shape (n_classes,)
        ρ and π. A class that the source does not have must have no share in the target.

    Returns
    -------
    array of shape (n_rows, n_classes)
    """
    P = check_probabilities(P)
    rho = _check_prior("source_prior", source_prior, P.shape[1])
    pi = _check_prior("target_prior", target_prior, P.shape[1])
    if (pi[rho == 0] > 0).any():
        raise ValueError(
            f"target_prior gives a share to class {int(np.flatnonzero((rho == 0) & (pi > 0))[0])}, "
            "which source_prior gives none: a model of the source knows nothing of that class."
        )
    ratio = np.divide(pi, rho, out=np.zeros_like(pi), where=rho > 0)
    adjusted = P * ratio
    total = adjusted.sum(1, keepdims=True)
    # A row that no class with a share could have made: the shares alone decide.
    return np.where(total > 0, adjusted / np.where(total > 0, total, 1.0), pi)


def em_prior(P: Any, source_prior: Any) -> Array:
    """Class prior of the rows behind P that makes them most likely (Saerens et al., 2002).

    π_c ← 1/n Σ_i P_ic π_c/ρ_c / Σ_k P_ik π_k/ρ_k, from ρ on. The likelihood is concave in π:
    there is one maximum.

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Calibrated probabilities under the class prior ρ.
    source_prior : array of shape (n_classes,)
        ρ.

    Returns
    -------
    array of shape (n_classes,)
    """
    P = check_probabilities(P)
    return np.asarray(_em(P[None], _check_prior("source_prior", source_prior, P.shape[1]))[0])


def _em(P: Array, rho: Array) -> Array:
    """`em_prior` of several samples of rows, (n_samples, n_rows, n_classes)."""
    ratio = np.divide(P, rho, out=np.zeros_like(P), where=rho > 0) + TINY
    per_class, n = np.ascontiguousarray(ratio.swapaxes(1, 2)), max(1, P.shape[1])
    found = np.tile(rho, (len(P), 1))
    going, pi = np.arange(len(P)), found
    for _ in range(MAX_STEPS):
        likely = 1 / (pi[:, None] @ per_class)
        mean = (per_class @ likely.swapaxes(1, 2))[:, :, 0] * (pi / n)
        moved = np.abs(mean - pi).max(1) >= TOLERANCE
        found[going] = pi = mean / mean.sum(1, keepdims=True)
        if not moved.all():
            going, pi, per_class = going[moved], pi[moved], per_class[moved]
        if not len(going):
            break
    return np.asarray(found)


def confusion_prior(P_source: Any, codes: Any, P_target: Any) -> Array:
    """Class prior by which the source's predictions would look like the target's (Lipton, 2018).

    argmin over π of ‖mean of P_target − Σ_c π_c · mean of P_source over class c‖.

    Parameters
    ----------
    P_source : array of shape (n_source, n_classes)
        Probabilities of source rows by models that have not seen them.
    codes : array of shape (n_source,)
        Their classes, as columns of P.
    P_target : array of shape (n_target, n_classes)
        Probabilities of target rows by the same models.

    Returns
    -------
    array of shape (n_classes,)
    """
    return _by_confusion(
        check_probabilities(P_source), np.asarray(codes), check_probabilities(P_target)
    )


def _by_confusion(P_source: Array, codes: Index, P_target: Array) -> Array:
    per_class = np.array([_mean(P_source[codes == c]) for c in range(P_source.shape[1])])
    return fit_simplex(per_class, P_target.mean(0))


def fit_simplex(parts: Any, whole: Any) -> Array:
    """Shares π ≥ 0 of sum 1 whose mix Σ_c π_c parts_c is nearest to the whole.

    Parameters
    ----------
    parts : array of shape (n_parts, n_values)
        What is mixed.
    whole : array of shape (n_values,)
        The mix.

    Returns
    -------
    array of shape (n_parts,)
    """
    if len(parts) == 1:
        return np.ones(1)
    if len(parts) == 2:  # (w − b)·(a − b) / ‖a − b‖², cut to [0, 1]
        along = parts[0] - parts[1]
        length = float(along @ along)
        share = float((whole - parts[1]) @ along) / length if length > 0 else 0.5
        share = min(1.0, max(0.0, share))
        return np.array([share, 1.0 - share])
    # Non-negative least squares on the Gram; a heavy last row keeps the sum at 1.
    gram = parts @ parts.T
    scale = float(np.trace(gram)) / len(parts)
    values, vectors = np.linalg.eigh(gram / scale if scale > 0 else gram)
    root = np.sqrt(np.maximum(values, 1e-10))
    A = np.vstack([(vectors * root).T, np.full((1, len(parts)), 1e3)])
    target = (vectors.T @ (parts @ whole)) / (scale if scale > 0 else 1.0) / root
    shares = np.asarray(nnls(A, np.append(target, 1e3))[0])
    return shares / shares.sum() if shares.sum() > 0 else np.full(len(parts), 1 / len(parts))


def calibrate(P: Any, codes: Any) -> Calibration:
    """Temperature and one bias per class by maximum likelihood (Alexandari et al., 2020).

    Parameters
    ----------
    P : array of shape (n_rows, n_classes)
        Probabilities of rows by models that have not seen them.
    codes : array of shape (n_rows,)
        Their classes, as columns of P.

    Returns
    -------
    Calibration
    """
    return _calibrations(check_probabilities(P)[None], np.asarray(codes)[None])[0]


def _calibrations(P: Array, codes: Index) -> list[Calibration]:
    """`calibrate` of several samples of rows, (n_samples, n_rows, n_classes)."""
    B, n, C = P.shape
    # Classes before rows: sums over few neighbours are slow.
    logs = np.log(np.maximum(np.ascontiguousarray(P.swapaxes(1, 2)), TINY))
    Y = (codes[:, None] == np.arange(C)[:, None]).astype(np.float64)
    free = C if C <= MAX_BIASED else 0
    # One row's worth of belief that P is right keeps separable rows from infinite sharpness.
    weak, prior = 1.0 / n, np.concatenate([[1.0], np.zeros(free)])

    def likely(theta: Array) -> Array:
        """Logarithms of probabilities."""
        logits = theta[:, :1, None] * logs
        logits += theta[:, 1:, None] if free else 0.0
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
        return logits

    def loss(theta: Array, log_p: Array) -> Array:
        off = weak * ((theta - prior) ** 2).sum(1)
        return np.asarray(off - np.einsum("bcn,bcn->b", log_p, Y) / n)

    found = np.tile(prior, (B, 1))
    going, theta = np.arange(B), found
    log_p = likely(theta)
    value = loss(theta, log_p)
    for _ in range(MAX_NEWTON):  # convex problems in C + 1 numbers
        Q = np.exp(log_p)
        about = logs - (Q * logs).sum(1, keepdims=True)
        wrong = (Q - Y) / n
        gradient = 2 * weak * (theta - prior)
        gradient[:, 0] += np.einsum("bcn,bcn->b", wrong, logs)
        gradient[:, 1:] += wrong.sum(2)[:, :free]
        H = np.tile(2 * weak * np.eye(1 + free), (len(Q), 1, 1))
        tilted = Q * about
        H[:, 0, 0] += np.einsum("bcn,bcn->b", tilted, about) / n
        if free:
            H[:, 0, 1:] += tilted.sum(2) / n
            H[:, 1:, 0] = H[:, 0, 1:]
            H[:, 1:, 1:] += (Q.sum(2)[:, :, None] * np.eye(C) - Q @ Q.swapaxes(1, 2)) / n
        step, length = np.linalg.solve(H, gradient[..., None])[..., 0], np.ones((len(Q), 1))
        log_p = likely(theta - step)
        tried = loss(theta - step, log_p)
        while (far := (tried > value) & (length[:, 0] > 1e-4)).any():
            length[far] /= 2
            log_p = likely(theta - length * step)
            tried = loss(theta - length * step, log_p)
        better = tried < value
        theta = np.where(better[:, None], theta - length * step, theta)
        found[going] = theta
        more = better & (value - tried >= 1e-9)
        if not more.all():
            going, theta, tried = going[more], theta[more], tried[more]
            logs, Y, log_p = logs[more], Y[more], log_p[more]
        value = tried
        if not len(going):
            break
    bias = found[:, 1:] if free else np.zeros((B, C))
    return [Calibration(float(max(t, 0.01)), b) for t, b in zip(found[:, 0], bias, strict=True)]


def estimate_class_prior(
    P_source: Any, codes: Any, P_target: Any, *, random_state: int = 0
) -> ClassPrior:
    """Class prior of the target by EM, checked by the confusion matrix (math.md §16).

    Parameters
    ----------
    P_source : array of shape (n_source, n_classes)
        Probabilities of source rows by models that have not seen them; calibrated here.
    codes : array of shape (n_source,)
        Their classes, as columns of P.
    P_target : array of shape (n_folds, n_target, n_classes)
        Probabilities of target rows by each of these models. Row i is left to model i modulo
        their number: a mean over models would be surer than any of them.
    random_state : int, default=0
        Draws rows for the standard errors.

    Returns
    -------
    ClassPrior
    """
    P_source = check_probabilities(P_source)
    codes = np.asarray(codes)
    C = P_source.shape[1]
    by_fold = [check_probabilities(P) for P in P_target]
    if any(P.shape[1] != C for P in by_fold) or codes.shape != (len(P_source),):
        raise ValueError(
            f"P_source {P_source.shape}, codes {codes.shape} and P_target "
            f"{np.shape(P_target)} must agree in rows and classes."
        )
    rho = np.bincount(codes, minlength=C) / len(codes)
    if len(rho) != C or not rho.all():
        raise ValueError(
            f"codes must name each of the {C} classes of P at least once, got "
            f"{np.unique(codes).tolist()}: leave out classes without source rows."
        )
    P_target = mixed_folds(by_fold)
    calibration = calibrate(P_source, codes)
    pi = em_prior(calibration(P_target), rho)
    by_confusion = confusion_prior(P_source, codes, P_target)
    rng = np.random.default_rng(random_state)
    rows = [np.flatnonzero(codes == c) for c in range(C)]
    of_source = np.empty((N_DRAWS, len(codes)), dtype=np.int64)
    of_target = np.empty((N_DRAWS, len(P_target)), dtype=np.int64)
    for b in range(N_DRAWS):
        of_source[b] = np.concatenate([rng.choice(mine, len(mine)) for mine in rows])
        of_target[b] = rng.integers(len(P_target), size=len(P_target))
    draws = np.empty((N_DRAWS, 2, C))
    step = max(1, MAX_ENTRIES // max(P_source.size, P_target.size))
    for k in range(0, N_DRAWS, step):  # as many draws at once as take little memory
        some = slice(k, k + step)
        P_s, c_s, P_t = P_source[of_source[some]], codes[of_source[some]], P_target[of_target[some]]
        once = _calibrations(P_s, c_s) if C <= MAX_BIASED else [calibration] * len(P_s)
        draws[some, 0] = _em(np.array([one(P) for one, P in zip(once, P_t, strict=True)]), rho)
        draws[some, 1] = [_by_confusion(*one) for one in zip(P_s, c_s, P_t, strict=True)]
    # Shares at the border of the simplex do not move when rows are drawn again: one row is the
    # least that nobody can know.
    error = draws[:, 0].std(0)
    if len(by_fold) > 1:  # what other rows to learn from would have changed: a jackknife over folds
        each = _em(np.array([calibration(P) for P in by_fold]), rho)
        error = np.sqrt(error**2 + (len(each) - 1) * each.var(0))
    error = np.maximum(error, 1 / len(P_target))
    between = np.maximum((draws[:, 0] - draws[:, 1]).std(0), error)
    agree = bool((np.abs(pi - by_confusion) <= DISAGREEMENT * between).all())
    return ClassPrior(rho, pi, error, by_confusion, agree)


def mixed_folds(by_fold: Sequence[Array] | Array) -> Array:
    """Probabilities in which row i is the one of model i modulo their number.

    Parameters
    ----------
    by_fold : sequence of arrays of shape (n_rows, n_classes)
        Probabilities by each model.

    Returns
    -------
    array of shape (n_rows, n_classes)
    """
    P = np.array(by_fold[0], dtype=np.float64)
    for k, other in enumerate(by_fold):
        P[k :: len(by_fold)] = other[k :: len(by_fold)]
    return P


@dataclass(frozen=True)
class Logistic:
    """Log-odds X·coef + intercept, one column per class."""

    coef: Array
    intercept: Array

    def probabilities(self, X: Any) -> Array:
        """Of rows."""
        return np.asarray(np.exp(log_softmax(X @ self.coef + self.intercept)))


def fit_logistics(
    X: Any, codes: Index, weights: Array, *, penalty: float, tol: float, max_iter: int
) -> list[Logistic]:
    """Logistic regressions of the same rows by different weights, such as those of folds.

    Each is that of scikit-learn, by the same steps of L-BFGS from 0, which are taken for the sum of
    all losses: so every product of the rows is one of all regressions.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
        Rows.
    codes : array of shape (n_rows,)
        Classes 0 … C − 1, of each of which every regression has a row of some weight.
    weights : array of shape (n_fits, n_rows)
        Of rows; 0 leaves a row out.
    penalty : float
        Inverse strength of the penalty.
    tol : float
        Largest entry of the gradients of the mean losses at which steps end.
    max_iter : int
        Steps at most.

    Returns
    -------
    list of Logistic
    """
    X, C = X.astype(np.float64, copy=False), int(codes.max()) + 1
    (n, d), k = X.shape, len(weights)
    total, turned = weights.sum(1), X.T
    share = (weights / total[:, None]).T[:, :, None]
    two, per_fit = C == 2, 1 if C == 2 else C
    ridge = np.repeat(1 / (penalty * total), per_fit)
    own, Y = np.arange(n), np.eye(C)[codes][:, None]
    side = (2.0 * codes - 1)[:, None, None]

    def loss(theta: Array) -> tuple[float, Array]:
        W = theta.reshape(d + 1, -1)
        gradient = np.empty_like(W)
        logits = (X @ W[:-1] + W[-1]).reshape(n, k, per_fit)
        if two:  # log p of a row is −log(1 + exp(−margin))
            margin = side * logits
            log_p = -np.logaddexp(0, -margin)
            off = -share * side * np.exp(log_p - margin)
        else:
            every = log_softmax(logits.reshape(-1, C)).reshape(logits.shape)
            log_p, off = every[own, :, codes], share * (np.exp(every) - Y)
        along, off = ridge * W[:-1], off.reshape(n, -1)
        gradient[:-1] = turned @ off
        gradient[:-1] += along
        gradient[-1] = off.sum(0)
        likely = float(np.vdot(share, log_p))
        return float(0.5 * np.vdot(along, W[:-1])) - likely, gradient.ravel()

    options = {"maxiter": max_iter, "maxls": 50, "gtol": tol, "ftol": 64 * np.finfo(float).eps}
    start = np.zeros((d + 1) * k * per_fit)
    found = minimize(loss, start, method="L-BFGS-B", jac=True, options=options).x
    W = found.reshape(d + 1, k, per_fit)
    W = W * [-0.5, 0.5] if two else W
    return [Logistic(W[:-1, fit], W[-1, fit]) for fit in range(k)]


@dataclass(frozen=True)
class SourceModel:
    """Logistic regression per fold, on columns or on columns and random features.

    Attributes
    ----------
    left_out : array of shape (n_source, n_classes)
        Probabilities of source rows, by the fold that has not seen them; not calibrated.
    calibration : Calibration
        Of `left_out`.
    """

    left_out: Array
    calibration: Calibration
    folds: tuple[Logistic, ...]
    directions: Array | None
    features: Features | None

    def by_fold(self, rows: Array) -> Array:
        """Probabilities of new rows by the model of each fold; not calibrated."""
        inputs = _inputs(rows, self.directions, self.features)
        return np.array([fold.probabilities(inputs) for fold in self.folds])

    def __call__(self, rows: Array) -> Array:
        """Calibrated probabilities of new rows under the class prior of the source."""
        return self.calibration(mixed_folds(self.by_fold(rows)))


def rough_posterior(sample: Sample) -> Callable[[Array], Array]:
    """Probabilities by one logistic regression, which errs on the side of doubt.

    Classes drawn from them mix more than the true ones do, and draws are further apart: what is far
    off all the same is far off. Costs a fraction of `fit_source_model`.

    Parameters
    ----------
    sample : Sample
        Rows.

    Returns
    -------
    callable
        From rows to probabilities.
    """
    directions = sample.projected.directions
    inputs, every = _inputs(sample.source, directions, None), np.ones((1, len(sample.codes)))
    (model,) = _logistics(inputs, sample.codes, every, PENALTIES[0][0])

    def posterior(rows: Array) -> Array:
        return model.probabilities(_inputs(rows, directions, None))

    return posterior


def fit_source_model(rows: Array, codes: Index, *, seed: int) -> SourceModel:
    """The candidate with the lowest log-loss on left-out rows.

    Parameters
    ----------
    rows : array of shape (n_rows, n_columns)
        Standardised source rows.
    codes : array of shape (n_rows,)
        Classes 0 … C − 1, two rows of each at least.
    seed : int
        Draws folds and features.

    Returns
    -------
    SourceModel
    """
    rng = np.random.default_rng(seed)
    directions = leading_directions(rows, rng)
    projected = rows if directions is None else rows @ directions
    n_folds = int(min(N_FOLDS, np.bincount(codes).min()))
    seen = np.ones((n_folds, len(codes)))
    folding = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    for mine, (_, held) in zip(seen, folding.split(rows, codes), strict=True):
        mine[held] = 0
    best: tuple[float, SourceModel] | None = None
    for features, penalties in zip((None, Features.draw(projected, rng)), PENALTIES, strict=True):
        inputs = _inputs(rows, directions, features)
        for penalty in penalties:
            left_out = np.empty((len(rows), int(codes.max()) + 1))
            folds = _logistics(inputs, codes, seen, penalty)
            for fold, mine in zip(folds, seen, strict=True):
                left_out[mine == 0] = fold.probabilities(inputs[mine == 0])
            right = left_out[np.arange(len(rows)), codes]
            loss = -float(np.log(np.maximum(right, TINY)).mean())
            if best is None or loss < best[0]:
                calibration = calibrate(left_out, codes)
                found = SourceModel(left_out, calibration, tuple(folds), directions, features)
                best = loss, found
    assert best is not None
    return best[1]


def _logistics(inputs: Array, codes: Index, weights: Array, penalty: float) -> list[Logistic]:
    return fit_logistics(inputs, codes, weights, penalty=penalty, tol=1e-2, max_iter=100)


def _inputs(rows: Array, directions: Array | None, features: Features | None) -> Array:
    rows = rows if directions is None else rows @ directions
    if features is None:
        return rows
    # Random features have squares of mean ½ per direction: here, in units of single columns.
    phi = features(rows).astype(np.float64)
    return np.hstack([rows, phi * np.sqrt(phi.shape[1])])


def _check_prior(name: str, prior: Any, n_classes: int) -> Array:
    prior = np.asarray(prior, dtype=np.float64)
    if prior.shape != (n_classes,):
        raise ValueError(f"{name} must hold {n_classes} shares, got shape {prior.shape}.")
    if not (prior >= 0).all() or not np.isclose(prior.sum(), 1, atol=1e-6):
        raise ValueError(
            f"{name} must hold shares (at least 0, of sum 1), got {prior} of sum {prior.sum():.6g}."
        )
    return np.asarray(prior)


def _mean(P: Array) -> Array:
    return np.asarray(P.mean(0)) if len(P) else np.zeros(P.shape[1])
