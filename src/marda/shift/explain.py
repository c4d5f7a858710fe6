"""What differs between source and target, told without a target label (math.md §16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.stats import norm

from marda._arrays import mirror_lower
from marda._machine import fewer_blas_threads
from marda._order import row_order
from marda._progress import tell
from marda._validation import check_magnitude, is_marked, seed_of
from marda.shift.class_prior import (
    ClassPrior,
    SourceModel,
    estimate_class_prior,
    fit_source_model,
    rough_posterior,
)
from marda.shift.hypotheses import (
    HYPOTHESES,
    Alignment,
    Fit,
    Hypothesis,
    fit_hypothesis,
    judge_hypothesis,
    judge_rivals,
)
from marda.shift.two_sample import Comparison, Sample, draw_sample

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Verdicts. "several": more than one explanation fits, none simpler than the other.
KINDS = (
    "none", "class shares", "moved columns", "class shares and moved columns", "linear map",
    "features", "unexplained", "several", "too few rows",
)  # fmt: skip

#: Explanations that hold simpler ones, and are tested where none of these fits: they fit so much
#: that they may take classes for each other.
FLEXIBLE = ("class shares and moved columns", "linear map")
#: Different rows that either domain must have.
MIN_ROWS = 20
#: Rows per column, in either domain, that explanations about columns need.
ROWS_PER_COLUMN = {"": 0, "each": 1, "together": 5}
#: Classes with fewer source rows are left out of shares.
MIN_CLASS = 3
#: Draws for a planted shift.
N_PLANTED = 99
#: Draws under each of two explanations that are held against each other.
N_RIVALS = 79
#: A column has moved where its location or spread differ by more standard errors than this.
MOVED = 4.0
#: What a further moved column takes of the belief in an explanation, and the share of its former
#: share at which a class begins to be believed in less, by the square, down to a twentieth.
PER_COLUMN, VANISHED, LEAST_BELIEF = 0.25, 0.2, 0.05
#: Moved columns that are rejected by fewer deviations than this are held against class shares by
#: which a class all but vanished.
NEARLY = 8.0
#: An explanation that labels leave less weight is refuted by them.
REFUTED = 0.1
#: Columns predict one another in the target as in the source: see `_carried`.
CARRIED = 0.25
LEAST_REDUNDANCY = 0.01
RIDGE = 5.0  # of that prediction, in mean variances


@dataclass(frozen=True)
class Move:
    """A column of the target, as the source would have it: factor · x + offset.

    Attributes
    ----------
    column : int
        Its place.
    name : str
        Its name, "column 3" where none is given.
    factor, offset : float
        In units of the column.
    by : float
        How far its mean lies from where the source has it, in standard deviations of the source.
    """

    column: int
    name: str
    factor: float
    offset: float
    by: float


@dataclass(frozen=True)
class Explanation:
    """One explanation, undone and held against chance.

    Attributes
    ----------
    name : str
        Which: see `KINDS`.
    p_value : float
        Chance of a distance as large as the one left, if the explanation is true.
    z : float
        The distance left, in standard deviations of draws in which the explanation is true.
    left : float
        Share of the distance between the domains that the explanation leaves.
    fits : bool
        Whether it is not rejected, neither by `p_value` nor by `rival_p`; by `rival_p` alone where
        the other explanation has a class all but vanish.
    rival_p : float or None
        Where class shares and moved columns both fit, or nearly: chance that the other explains
        this much more, if this one is true. Rejected at half the level if it is believed less.
    weight : float
        How much it is to be believed, against its rival (math.md §16); 1 where it has none.
    shares : array of shape (n_classes,) or None
        Class shares of the target in this explanation, if it changes them.
    factor, offset : arrays or None
        Map of target rows to the source: rows · factor + offset, or rows @ factor + offset where
        factor is a matrix; None where columns stay.
    """

    name: str
    p_value: float
    z: float
    left: float
    fits: bool
    rival_p: float | None = None
    weight: float = 1.0
    shares: Array | None = None
    factor: Array | None = None
    offset: Array | None = None

    def undo(self, X: Any) -> Any:
        """Target rows as the source would have them."""
        if self.factor is None or self.offset is None:
            return X
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        return (X * self.factor if self.factor.ndim == 1 else X @ self.factor) + self.offset


@dataclass(frozen=True)
class Shift:
    """What differs between source and target.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    fitting : tuple of str
        The simplest explanations that are not rejected: one, several, or none.
    explanations : tuple of Explanation
        Every explanation that was tested: those that hold a fitting one are not.
    classes : array of shape (n_classes,)
        Values of the classes.
    prior : ClassPrior or None
        Class shares of the source and the target; None where they cannot be estimated, and where no
        explanation fits. They mean what they say only where one with shares, or none, does.
    moved : tuple of Move
        Columns that moved or stretched, in the first explanation that says so; largest first.
    left : float
        Share of the distance between the domains that no fitting explanation explains: 0 where one
        fits, else that of the best.
    carried : float
        How well columns predict one another in the target by what the source has taught, as a
        share of how well they do in the source: 0 to 1.
    reason : str
        Why nothing can be told, where `kind` is "too few rows".
    level : float
        Level of the tests.
    selected : bool
        Whether, where columns moved, target rows lie among those of the source: rows that were
        selected by these columns look the same. Told by `MDAClassifierCV` alone.
    """

    kind: str
    fitting: tuple[str, ...]
    explanations: tuple[Explanation, ...]
    classes: NDArray[Any]
    prior: ClassPrior | None
    moved: tuple[Move, ...]
    left: float
    carried: float
    reason: str
    level: float
    selected: bool = False

    def explanation(self, name: str) -> Explanation | None:
        """The explanation of that name, if it was tested."""
        return next(
            (explanation for explanation in self.explanations if explanation.name == name), None
        )

    def with_names(self, columns: Sequence[str]) -> Shift:
        """The same, with these names of the columns."""
        return replace(
            self, moved=tuple(replace(one, name=str(columns[one.column])) for one in self.moved)
        )

    def weighed(self, weights: Mapping[str, float]) -> Shift:
        """The same where labels have told how far explanations that fit are to be believed.

        Parameters
        ----------
        weights : mapping of str to float
            Of explanations, of sum 1; one with less than a tenth is refuted, if another has more.
        """
        explanations = tuple(
            replace(explanation, weight=float(weights[explanation.name]))
            if explanation.name in weights
            else explanation
            for explanation in self.explanations
        )
        told = tuple(name for name in self.fitting if weights.get(name, 1.0) >= REFUTED)
        if not told or told == self.fitting:
            return replace(self, explanations=explanations)
        return replace(
            self,
            explanations=explanations,
            fitting=told,
            kind=told[0] if len(told) == 1 else self.kind,
        )

    @property
    def weights(self) -> Array:
        """How much each of `fitting` is to be believed, of sum 1."""
        weights = np.array(
            [
                explanation.weight
                for explanation in self.explanations
                if explanation.name in self.fitting
            ]
        )
        return weights / weights.sum() if len(weights) else weights

    @property
    def shares(self) -> Array | None:
        """Class shares of the target by the first that fits: estimated, or the source's."""
        if self.prior is None or not self.fitting:
            return None
        return self.prior.target if "class shares" in self.fitting[0] else self.prior.source

    @property
    def vanished(self) -> bool:
        """Whether some class keeps less than a fifth of its share, if class shares differ."""
        return self.prior is not None and _least_kept(self.prior) < VANISHED

    def sentence(self) -> str:
        """The verdict in plain English."""
        if self.kind == "too few rows":
            return f"Too few rows to tell what differs: {self.reason}."
        if not self.fitting:
            best = min(self.explanations, key=lambda explanation: explanation.left)
            words = (
                "No simple change makes the source look like the target (other class shares, "
                "columns moved, stretched or mixed)"
            )
            if best.left >= 0.005:  # little distance may be left and yet be more than chance
                words += f": {_percent(best.left)} of the difference is left"
            if self.kind == "features":
                return f"{words}, but columns still depend on one another as in the source."
            return f"{words}, and nothing explains it."
        told = [self._words(name) for name in self.fitting]
        if len(told) == 1:
            return f"The target looks like the source{told[0]}."
        last = f"{', '.join(told[:-1])} or{told[-1]}"
        return f"The target looks like the source{last}: both fit, and only labels can tell."

    def _words(self, name: str) -> str:
        parts = []
        if name == "none":
            return ""
        if "class shares" in name:
            parts.append(f" with {self._share_words(name)}")
        if "moved columns" in name:
            parts.append(f" with {self._move_words(name)}")
        if name == "linear map":
            parts.append(" with columns mixed with one another")
        return " and".join(parts)

    def _share_words(self, name: str) -> str:
        prior = self.prior
        assert prior is not None
        if len(self.classes) == 2:
            before, now = prior.source[1], prior.target[1]
            return f"{_percent(now)} instead of {_percent(before)} of class {self.classes[1]}"
        most = int(np.argmax(np.abs(prior.target - prior.source)))
        return (
            f"other class shares (class {self.classes[most]}: {_percent(prior.target[most])} "
            f"instead of {_percent(prior.source[most])})"
        )

    def _move_words(self, name: str) -> str:
        if not self.moved:
            return "columns moved or stretched a little"
        names = [move.name for move in self.moved[:3]]
        more = len(self.moved) - len(names)
        listed = ", ".join(names) + (f" and {more} more" if more else "")
        return f"{listed} moved or stretched"


@fewer_blas_threads(1)  # its products are small
def explain_shift(
    X_source: Any,
    y_source: Any,
    X_target: Any,
    *,
    columns: Sequence[str] | None = None,
    level: float = 0.05,
    n_draws: int = 199,
    random_state: Any = 0,
) -> Shift:
    """Tell what differs between source and target, without target labels.

    Each explanation (nothing; class shares; columns moved and stretched; both; a linear map) is
    undone, and the distance that is left is compared with draws in which the explanation is true.
    An explanation that is false is rejected more often the more rows there are; one that is true,
    with chance `level`.

    Parameters
    ----------
    X_source, X_target : arrays or CSR arrays of shape (n_rows, n_features)
        Finite rows. At most 800 of each are compared.
    y_source : array of shape (n_source,)
        Labels.
    columns : sequence of str, optional
        Names of the columns, for `moved` and `sentence`.
    level : float, default=0.05
        Chance to reject an explanation that is true.
    n_draws : int, default=199
        Draws under each explanation, at most: fewer tell what is clear.
    random_state : int, RandomState or None, default=0
        Draws features, folds and rows.

    Returns
    -------
    Shift
    """
    given = [list(X.columns) for X in (X_source, X_target) if hasattr(X, "columns")]
    if len(given) == 2 and given[0] != given[1]:
        raise ValueError(
            "X_source and X_target have other columns, or in another order: write "
            "X_target[X_source.columns]."
        )
    X_source, X_target = _rows("X_source", X_source), _rows("X_target", X_target)
    if X_source.shape[1] != X_target.shape[1]:
        raise ValueError(
            f"X_source has {X_source.shape[1]} columns and X_target {X_target.shape[1]}: give "
            "rows with the same columns."
        )
    y = np.asarray(y_source)
    if y.shape != (X_source.shape[0],):
        raise ValueError(f"y_source must hold {X_source.shape[0]} labels, got shape {y.shape}.")
    if is_marked(y, None).any():
        raise ValueError("y_source has rows without a label (NaN or None): drop them first.")
    if columns is not None and len(columns) != X_source.shape[1]:
        raise ValueError(f"columns must hold {X_source.shape[1]} names, got {len(columns)}.")
    if not 0 < level < 1 or n_draws < 1 / level - 1:
        raise ValueError(
            f"level={level!r} and n_draws={n_draws!r}: level lies between 0 and 1, and takes at "
            "least 1/level − 1 draws."
        )
    names = [f"column {j}" for j in range(X_source.shape[1])] if columns is None else list(columns)
    seed = seed_of(random_state)
    classes, codes = np.unique(y, return_inverse=True)
    empty = Shift("too few rows", (), (), classes, None, (), 1.0, 0.0, "", level)
    for side, X in (("source", X_source), ("target", X_target)):
        different = _n_different(X)
        if different < MIN_ROWS:
            reason = f"the {side} has {different} different row{'s' * (different != 1)}"
            return replace(empty, reason=f"{reason}, and {MIN_ROWS} are the least")
    sample = draw_sample(X_source, codes, X_target, seed=seed)
    if not len(sample.columns):
        return replace(empty, reason="no column varies by more than rounding")
    seen = np.flatnonzero(np.bincount(sample.codes, minlength=len(classes)) >= MIN_CLASS)
    known = _without_rare(sample, seen)
    source = _Source(known) if len(seen) > 1 else None
    fits: list[Fit] = []
    found: list[Comparison] = []
    for k, hypothesis in enumerate(HYPOTHESES):
        tell(k / (len(HYPOTHESES) + 1))
        if hypothesis.name in FLEXIBLE and any(
            one.p_value > level and fit.hypothesis.name not in FLEXIBLE
            for fit, one in zip(fits, found, strict=True)
        ):
            break
        rows = known if hypothesis.shares else sample
        if not _can_test(hypothesis, rows, source):
            continue
        fits.append(fit_hypothesis(hypothesis, rows, len(seen)))
        found.append(_judged(fits[-1], rows, source, n_draws, level))
    tell(len(HYPOTHESES) / (len(HYPOTHESES) + 1))
    whole = found[0].distance
    explanations = tuple(
        _explanation(fit, result, sample, whole, level, seen, len(classes), X_source.shape[1])
        for fit, result in zip(fits, found, strict=True)
    )
    fitting = _simplest(explanations)
    prior = None
    if fitting and source is not None:
        prior = _prior(source.model, known, seen, len(classes))
    both = len(fitting) == 2 and fitting[1] == "moved columns"
    doubted = fitting == ("class shares",) and _doubted(prior, explanations)
    if (both or doubted) and source is not None:
        moved = len(_moves(fits, ("moved columns",), sample, names))
        held = _rivals(explanations, known, source.model, level, prior, moved)
        # What two tests reject is out; what one does, is not where its rival is in doubt.
        if both or any(t.name == "moved columns" and (t.rival_p or 0) > level / 2 for t in held):
            explanations, fitting = held, _simplest(held)
    if fitting == ("none",) and explanations[1].name == "class shares" and explanations[1].fits:
        fitting = ("class shares",) if _other_shares(prior, len(known.source), level) else fitting
    shift = replace(empty, explanations=explanations, prior=prior, fitting=fitting)
    if fitting == ("none",):
        if not _would_see(sample, level):
            reason = "a shift by half the distance of two classes would not be seen"
            return replace(shift, reason=reason, fitting=())
        return replace(shift, kind="none", left=0.0, carried=1.0)
    if fitting:
        moves = _moves(fits, fitting, sample, names)
        kind = fitting[0] if len(fitting) == 1 else "several"
        return replace(shift, kind=kind, moved=moves, left=0.0, carried=1.0)
    carried = _carried(sample)
    return replace(
        shift,
        kind="features" if carried >= CARRIED else "unexplained",
        left=min(explanation.left for explanation in explanations),
        carried=carried,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _rows(name: str, X: Any) -> Any:
    """Finite rows as float64 or float32, or as CSR."""
    if sp.issparse(X):
        X = sp.csr_array(X, dtype=np.float64)
    elif getattr(X, "dtype", None) != np.float32:
        X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} must be a table with rows and columns, got shape {X.shape}.")
    if sp.issparse(X):
        X.sum_duplicates()
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError(f"{name} holds NaN or infinity: fill or drop these values first.")
    check_magnitude(X)
    return X


def _n_different(X: Any) -> int:
    """Number of different rows, as far as it matters."""
    order, found = row_order(X)[: 50 * MIN_ROWS], set[bytes]()
    for start in range(0, len(order), MIN_ROWS):
        some = X[order[start : start + MIN_ROWS]]
        some = some.toarray() if sp.issparse(some) else some
        found |= {row.tobytes() for row in some + 0.0}  # −0 is 0
        if len(found) >= MIN_ROWS:
            break
    return len(found)


def _without_rare(sample: Sample, seen: Index) -> Sample:
    """The sample without source rows of classes that have too few; codes 0 … C − 1."""
    kept = np.isin(sample.codes, seen)
    if kept.all() and len(seen) == sample.codes.max() + 1:
        return sample
    codes = np.searchsorted(seen, sample.codes[kept])
    return replace(sample, source=sample.source[kept], codes=codes)


class _Source:
    """What is known of the classes of rows: a rough guess will do where a hypothesis is far off."""

    def __init__(self, known: Sample):
        self.known = known

    @cached_property
    def rough(self) -> Callable[[Array], Array]:
        return rough_posterior(self.known)

    @cached_property
    def model(self) -> SourceModel:
        return fit_source_model(self.known.source, self.known.codes, seed=self.known.seed)


def _judged(
    fit: Fit, sample: Sample, source: _Source | None, n_draws: int, level: float
) -> Comparison:
    judge = partial(judge_hypothesis, fit, sample, n_draws=n_draws, level=level)
    if not fit.hypothesis.shares or source is None:
        return judge(None)
    if "model" not in vars(source):
        found = judge(source.rough, quick=True)
        if found.hopeless and found.p_value <= level:
            return found
    return judge(source.model)


def _prior(model: SourceModel, sample: Sample, seen: Index, C: int) -> ClassPrior:
    found = estimate_class_prior(
        model.left_out, sample.codes, model.by_fold(sample.target), random_state=sample.seed
    )

    def spread(values: Array) -> Array:  # rare classes have no share
        whole = np.zeros(C)
        whole[seen] = values
        return whole

    return ClassPrior(
        spread(found.source), spread(found.target), spread(found.standard_error),
        spread(found.by_confusion), found.agree,
    )  # fmt: skip


def _can_test(hypothesis: Hypothesis, sample: Sample, source: _Source | None) -> bool:
    if hypothesis.shares and source is None:
        return False
    n, d = min(len(sample.source), len(sample.target)), sample.source.shape[1]
    return bool(n >= ROWS_PER_COLUMN[hypothesis.columns] * d)


def _explanation(
    fit: Fit, found: Comparison, sample: Sample, whole: float, level: float, seen: Index,
    n_classes: int, n_columns: int,
) -> Explanation:  # fmt: skip
    left = min(1.0, found.distance / whole) if whole > 0 else 0.0
    shares = None
    if fit.hypothesis.shares:
        shares = np.zeros(n_classes)
        shares[seen] = fit.shares
    factor = offset = None
    if fit.alignment is not None:
        factor, offset = _in_units(fit.alignment, sample, n_columns)
    fits = found.p_value > level
    return Explanation(
        fit.hypothesis.name, found.p_value, found.z, left, fits, None, 1.0, shares, factor, offset
    )


def _in_units(alignment: Alignment, sample: Sample, n_columns: int) -> tuple[Array, Array]:
    """The map in units of the given columns; those that were left out stay."""
    kept, centre, unit = sample.columns, sample.centre, sample.unit
    offset = np.zeros(n_columns)
    if alignment.factor.ndim == 1:
        factor = np.ones(n_columns)
        factor[kept] = alignment.factor
        offset[kept] = centre + alignment.offset * unit - centre * alignment.factor
        return factor, offset
    matrix = np.eye(n_columns)
    inner = alignment.factor / unit[:, None] * unit
    matrix[np.ix_(kept, kept)] = inner
    offset[kept] = centre + alignment.offset * unit - centre @ inner
    return matrix, offset


def _simplest(explanations: tuple[Explanation, ...]) -> tuple[str, ...]:
    """Fitting explanations that hold no simpler fitting one."""
    for group in (("none",), ("class shares", "moved columns"), FLEXIBLE):
        fitting = tuple(
            explanation.name
            for explanation in explanations
            if explanation.name in group and explanation.fits
        )
        if fitting:
            return fitting
    return ()


def _rivals(
    explanations: tuple[Explanation, ...], sample: Sample, model: SourceModel, level: float,
    prior: ClassPrior | None, n_moved: int,
) -> tuple[Explanation, ...]:  # fmt: skip
    """The explanations, with class shares and moved columns held against each other.

    Before the rows are seen, every further column that must have moved makes an explanation less
    likely, and so does a class that all but vanished: rows of any kind that lie within one class
    look so.
    """
    n_draws = max(N_RIVALS, int(np.ceil(2 / level)) - 1)
    found = judge_rivals(sample, model, n_draws=n_draws)
    odds = found.odds / PER_COLUMN ** max(0, n_moved - int(sample.codes.max()) - 1)
    if prior is not None:
        odds *= max(LEAST_BELIEF, min(1.0, _least_kept(prior) / VANISHED) ** 2)
    shares = odds / (1 + odds)
    against = {
        "class shares": (found.shares, shares),
        "moved columns": (found.columns, 1 - shares),
    }

    def with_rival(one: Explanation) -> Explanation:
        if one.name not in against:
            return one
        p, weight = against[one.name]
        fits = p > level / 2 or weight >= 0.5  # what is believed more than its rival is not out
        return replace(one, rival_p=p, weight=weight, fits=fits)

    return tuple(with_rival(one) for one in explanations)


def _least_kept(prior: ClassPrior) -> float:
    """What is left of the class that lost most, as a share of its share."""
    there = prior.source > 0
    return float((prior.target[there] / prior.source[there]).min())


def _doubted(prior: ClassPrior | None, explanations: tuple[Explanation, ...]) -> bool:
    """Whether class shares fit only with a class gone, and moved columns are not far behind."""
    return (
        prior is not None
        and _least_kept(prior) < VANISHED
        and any(
            explanation.name == "moved columns" and explanation.z <= NEARLY
            for explanation in explanations
        )
    )


def _other_shares(prior: ClassPrior | None, n_source: int, level: float) -> bool:
    """Whether the estimated shares are not the source's by more than chance.

    A test against this one explanation sees smaller changes than one against all. Standard errors
    are themselves estimates: three of them at least, and 1.3 times the quantile for all classes.
    """
    if prior is None or not prior.agree:
        return False
    here = prior.source * (1 - prior.source) / n_source
    z = np.abs(prior.target - prior.source) / np.sqrt(prior.standard_error**2 + here + 1e-12)
    return float(z.max()) > max(3.0, 1.3 * float(norm.isf(level / (2 * len(z)))))


def _would_see(sample: Sample, level: float) -> bool:
    """Whether a shift that would do harm is seen: rows moved by half the distance of two classes.

    By a standard deviation at least: classes that hardly differ ask for no better.
    """
    S = sample.source
    counts = np.bincount(sample.codes)
    way, by_chance = S.std(0), 0.0
    if np.count_nonzero(counts) > 1:
        first, second = (S[sample.codes == c] for c in np.argsort(-counts, kind="stable")[:2])
        way = first.mean(0) - second.mean(0)
        # Means of few rows in many columns are far apart by chance.
        by_chance = float((first.var(0) / len(first) + second.var(0) / len(second)).sum())
    length = float(np.linalg.norm(way))
    along = way / length if length > 0 else np.full(S.shape[1], S.shape[1] ** -0.5)
    distance = float(np.sqrt(max(length**2 - by_chance, 0.0)))
    # The spread of the target: rows that had no say in the direction.
    by = max(distance / 2, float((sample.target @ along).std()))
    planted = replace(sample, target=sample.target + by * along)
    fit = fit_hypothesis(HYPOTHESES[0], planted, 1)
    n_draws = max(N_PLANTED, int(1 / level))
    found = judge_hypothesis(fit, planted, None, n_draws=n_draws, level=level)
    return found.p_value <= level


def _moves(
    fits: list[Fit], fitting: tuple[str, ...], sample: Sample, names: list[str]
) -> tuple[Move, ...]:  # fmt: skip
    """Columns whose mean or spread differ by more than chance, in the first fitting map."""
    fit = next(
        (f for f in fits if f.hypothesis.name in fitting and f.hypothesis.columns == "each"),
        None,
    )
    if fit is None or fit.alignment is None:
        return ()
    S, T = sample.source, sample.target
    n = 1 / (1 / len(S) + 1 / len(T))
    spread = np.maximum((fit.alignment(T)).std(0), 1e-12)
    by = (T.mean(0) - fit.alignment(T).mean(0)) / spread
    stretch = np.log(np.maximum(fit.alignment.factor, 1e-12))
    # Standard errors of a difference of means and of logarithms of spreads (normal rows).
    size = np.maximum(np.abs(by) * np.sqrt(n), np.abs(stretch) * np.sqrt(2 * n))
    unit, centre = sample.unit, sample.centre
    offset = centre + fit.alignment.offset * unit - centre * fit.alignment.factor
    return tuple(
        Move(int(sample.columns[j]), names[sample.columns[j]], float(fit.alignment.factor[j]),
             float(offset[j]), float(by[j]))
        for j in np.argsort(-size, kind="stable") if size[j] > MOVED
    )  # fmt: skip


def _carried(sample: Sample) -> float:
    """How much of what columns tell of one another in the source they tell in the target.

    With Ω the inverse of the ridged covariance of half of the source's rows, the error of
    predicting column j from the others is (x Ω)_j / Ω_jj. R² of it on the other half and on the
    target, each about its own mean; their ratio, and 0 where columns hardly predict one another.
    """
    S, T = sample.source.astype(np.float32), sample.target.astype(np.float32)
    half = len(S) // 2
    first, second = S[:half] - S[:half].mean(0), S[half:] - S[half:].mean(0)
    cov = first.T @ first / half
    cov.flat[:: len(cov) + 1] += RIDGE * np.trace(cov) / len(cov)
    factor = lapack.spotrf(cov, lower=1, overwrite_a=1)[0]
    inverse = mirror_lower(lapack.spotri(factor, lower=1, overwrite_c=1)[0])

    def explained(rows: Any) -> float:
        error = rows @ inverse / np.diag(inverse)
        return 1 - float(np.vdot(error, error) / max(np.vdot(rows, rows), 1e-30))

    there, here = explained(second), explained(T - T.mean(0))
    return float(np.clip(here / there, 0, 1)) if there >= LEAST_REDUNDANCY else 0.0
