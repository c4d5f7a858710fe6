"""Self-training: a classifier on features, which then labels the target (math.md §12).

The classifier (heads.py) learns from the features of labelled rows. With `refine` its confident
predictions become labels of target rows, round by round (pseudo_labels.py); where the method reads
labels, W is learned again with them. How many rounds, and where sources are centred, may follow
from how well the target seems to be understood (accuracy_estimation.py, class_shares.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from marda._arrays import device_memory, namespace, rows_at
from marda._machine import available_memory, format_bytes
from marda._validation import UNLABELED
from marda.criteria import Agreement, Neighbours, most_similar, nearest_neighbours
from marda.estimators.accuracy_estimation import recall_above_chance
from marda.estimators.class_shares import Centred, CentredGram, Centring
from marda.estimators.heads import EstimatorHead, Head, MeansHead, NearestHead, RidgeHead
from marda.estimators.kernel_ridge import MAX_EXACT, RidgeSolution, RowsOnDemand
from marda.estimators.model import (
    FittedModel,
    GroupMeans,
    ModelSettings,
    SelfTraining,
    TrainingRows,
    center_and_normalize,
    centers_for,
)
from marda.estimators.pseudo_labels import (
    TARGET_WEIGHT,
    LabelPool,
    Round,
    balanced_weights,
    class_separation,
    refine,
)

Matrix = NDArray[Any]
Index = NDArray[np.int64]
#: Rows with other labels, and settings with other terms → the model of these.
Relearn = Callable[[TrainingRows, ModelSettings], FittedModel]

#: ridge_class="auto": what the source leaves unexplained, within these bounds.
RIDGE_BOUNDS = 0.1, 0.3
#: refine="auto": a short schedule, a long one that a target which is understood well earns, and one
#: between them. Which is best differs by task and cannot be seen; their mean is near the best.
SHORT, LONG = 5, 15
NEIGHBOURS = 10
#: Of more rows, neighbours are looked for among as many.
COMPARED_ROWS = 2500
#: Where the kernel is not exact, guesses at class shares are tried on so many rows of either side.
TRIED_ROWS = 2000
BLOCK_BYTES = 2**24


@dataclass(frozen=True)
class Trained:
    """A model with its classifier, and its scores of the target rows of the fit."""

    model: FittedModel
    target_scores: Callable[[], NDArray[np.float64]]


@dataclass(frozen=True)
class _Task:
    """Rows, settings, and the model whose features the classifier learns from.

    Attributes
    ----------
    kept : array of shape (n_rows, n_outputs) or None
        All rows, denoised by the model, if somebody did so before.
    """

    model: FittedModel
    rows: TrainingRows
    settings: ModelSettings
    kept: Matrix | None

    def denoised(self, some: Index) -> Matrix:
        """A copy of some denoised rows."""
        if self.kept is None:
            return self.model.denoised(rows_at(self.rows.X, some))
        return rows_at(self.kept, some)

    @property
    def on_demand(self) -> bool:
        """Whether features are made when they are asked for."""
        settings, n = self.settings, len(self.rows.domain)
        kernel = settings.classifier == "kernel" and bool(settings.normalize)
        return kernel and n > MAX_EXACT and self.model.denoises_quickly(self.rows.X)

    def head(self, F: Matrix, domain: Index) -> Head:
        """The classifier on features of rows of these domains."""
        settings, classes = self.settings, self.rows.labels.classes
        kind = settings.classifier if isinstance(settings.classifier, str) else ""
        if kind in ("ridge", "kernel"):
            return self.ridge_head(F)
        if kind == "dscm":
            return MeansHead(F, classes, domain)
        if kind == "nn":
            return NearestHead(F, classes)
        return EstimatorHead(F, classes, lambda: _cloned(settings))

    def ridge_head(
        self,
        F: Matrix | RowsOnDemand | Callable[[], Matrix | RowsOnDemand],
        inner: Matrix | None = None,
    ) -> RidgeHead:
        """The ridge on features, given them or, where they are costly, how to make them."""
        settings = self.settings
        chosen = isinstance(settings.ridge_class, str)
        return RidgeHead(
            F,
            self.rows.labels.classes,
            gaussian=settings.classifier == "kernel",
            ridge=RIDGE_BOUNDS[1] if chosen else float(settings.ridge_class),
            seed=settings.seed,
            inner=inner,
        )


def _cloned(settings: ModelSettings) -> Any:
    """The user's classifier; it and its parts have the seed of the fit where none is set."""
    classifier = clone(settings.classifier)
    seeds = {
        name: settings.seed
        for name, value in classifier.get_params().items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return classifier.set_params(**seeds)


def train_on_features(
    model: FittedModel,
    rows: TrainingRows,
    settings: ModelSettings,
    class_weights: NDArray[np.float64],
    *,
    relearn: Relearn,
    kept: Matrix | None = None,
) -> Trained:
    """Fit the classifier on features of labelled rows; then let it label the target.

    Parameters
    ----------
    model : FittedModel
        Without a classifier.
    rows : TrainingRows
        In an order of their own: draws, neighbours and rounds depend on it.
    settings : ModelSettings
        With a classifier.
    class_weights : array of shape (n_classes,)
        Of labelled rows.
    relearn : callable
        Fits W again, with pseudo-labels.
    kept : array of shape (n_rows, n_outputs), default=None
        All rows, denoised by `model`, if they are known.
    """
    task = _Task(model, rows, settings, kept)
    codes, domain = rows.labels.codes, rows.domain
    known = np.flatnonzero(codes != UNLABELED)
    refining = settings.refine != 0
    used = np.arange(len(domain)) if refining else known
    _check_room(len(used), model.layers[-1].map.shape[1], device_memory(rows.X))
    at = np.full(len(domain), -1)
    at[used] = np.arange(len(used))
    free = np.flatnonzero((codes == UNLABELED) & (domain < 0)) if refining else known[:0]
    pool = LabelPool(
        at[known],
        codes[known],
        _row_weights(codes[known], domain[known] < 0, settings, class_weights),
        at[free],
        isinstance(settings.class_weight, str),
    )
    start = _start(task, used, pool, known)
    task, head = replace(task, model=start.model), start.head
    if refining and len(pool.free) > NEIGHBOURS:
        pool = replace(pool, neighbours=_neighbours(head, pool.free, settings.seed))
    relearning = refining and settings.relearns
    if refining and not relearning and isinstance(head, RidgeHead):
        head.hold(pool.labelled, pool.codes, pool.weights)
    rounds: list[Round] = []
    solutions: list[tuple[RidgeSolution, float]] = []
    for n in _schedules(settings, start.training.target_skill):
        if relearning:
            refit = _Refit(task, head, relearn)
            history, scores = refine(refit, pool, n, refit.separation)
            task, head = refit.task, refit.head
        else:
            fit = head.fit_for(pool.free) if isinstance(head, RidgeHead) else head.fit
            history, scores = refine(fit, pool, n)
        rounds += history
        if isinstance(head, RidgeHead):
            seen = scores[pool.free] if len(pool.free) else scores
            spread = float(np.sqrt(np.mean((seen - seen.mean(1, keepdims=True)) ** 2)))
            solutions.append((head.solution, spread or 1.0))
    if isinstance(head, RidgeHead):
        head.solution = _mean_solution(solutions)
    training = replace(start.training, rounds=rounds)
    task = replace(task, model=_with_classifier(task.model, head, settings, training))
    return Trained(task.model, lambda: _target_scores(task, head, seen=refining))


def _neighbours(head: Head, free: Index, seed: int) -> Neighbours:
    """Of rows in the order of the fit, which is their own; of many, a sample."""
    if not (isinstance(head, RidgeHead) and head.on_rows.gaussian):
        return nearest_neighbours(head.F[free], NEIGHBOURS, random_state=seed)
    some = np.arange(len(free))
    if len(free) > COMPARED_ROWS:
        drawn = check_random_state(seed).choice(len(free), COMPARED_ROWS, replace=False)
        some = np.sort(drawn)
    found = most_similar(head.on_rows.similarities(free[some]), NEIGHBOURS)
    return found._replace(rows=some)


def _check_room(n_rows: int, width: int, limit: int | None) -> None:
    needed, limit = 3 * 8 * n_rows * width, available_memory() if limit is None else limit
    if needed > limit:
        raise MemoryError(
            f"features of {n_rows} rows × {width} columns need about {format_bytes(needed)} "
            f"and {format_bytes(limit)} is free: set n_pivots, or use fewer rows."
        )


def _row_weights(
    codes: Index,
    target: NDArray[np.bool_],
    settings: ModelSettings,
    class_weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Class weights; where rows get pseudo-labels, a few target labels count for more."""
    heavy_target = settings.refine != 0
    if not (heavy_target and isinstance(settings.class_weight, str)):
        weights = np.array(class_weights[codes], dtype=np.float64)
    else:
        weights = np.ones(len(codes))
        for side in (target, ~target):
            if side.any():
                weights[side] = balanced_weights(codes[side], int(codes.max()) + 1)
    if heavy_target and target.any() and not target.all():
        weights[target] *= min(TARGET_WEIGHT, max(1.0, (~target).sum() / target.sum()))
    return weights


def _schedules(settings: ModelSettings, target_skill: float | None) -> tuple[int, ...]:
    """Numbers of rounds, whose scores are averaged."""
    if isinstance(settings.refine, str):
        assert target_skill is not None
        long = max(SHORT, round(LONG * target_skill**2))
        return tuple(sorted({SHORT, (SHORT + long + 1) // 2, long}))
    if isinstance(settings.refine, tuple | list):
        return tuple(int(n) for n in settings.refine)
    return (int(settings.refine),)


# The first fit ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Start:
    """The head before any round, on features of the model, and what is known about it."""

    head: Head
    model: FittedModel
    training: SelfTraining


def _start(task: _Task, used: Index, pool: LabelPool, known: Index) -> _Start:
    """A head on features of the used rows; with "auto" they are centred by evidence."""
    side = task.rows.domain[used]
    source = task.rows.domain[known] >= 0
    if isinstance(task.settings.refine, str):  # all rows are used, and none is changed
        H: Any = task.kept
        if H is None:
            H = _Denoised(task) if task.on_demand else task.denoised(used)
        return _centred(task, H, side, pool, known, source)
    head = task.head(task.model.center_and_normalize(task.denoised(used), side), side)
    training = SelfTraining([])
    if isinstance(head, RidgeHead):
        training = _judged(task.settings, head, pool, known, source)
    return _Start(head, task.model, training)


def _judged(
    settings: ModelSettings,
    head: RidgeHead,
    pool: LabelPool,
    known: Index,
    source: NDArray[np.bool_],
) -> SelfTraining:
    """κ: how much better than chance the source predicts itself, row by row left out.

    The ridge follows from it, if it is "auto".
    """
    if "auto" not in (str(settings.ridge_class), str(settings.refine)):
        return SelfTraining([])
    if not source.any():
        source = ~source
    codes = pool.codes[source]
    scores = head.leave_one_out(pool.labelled[source], codes, pool.weights[source])
    skill = recall_above_chance(codes, scores.argmax(1))
    if isinstance(settings.ridge_class, str):
        head.ridge = float(np.clip(1 - skill, *RIDGE_BOUNDS))
    left_out = known[source], codes, np.asarray(scores, dtype=np.float64)
    return SelfTraining([], source_skill=skill, left_out=left_out)


def _centred(
    task: _Task, H: Any, side: Index, pool: LabelPool, known: Index, source: NDArray[np.bool_]
) -> _Start:
    """The head of the best guess at the target's class shares."""
    settings, model = task.settings, task.model
    means = {}
    if settings.center:
        means = model.group_means(task.rows, settings.class_weight, task.kept)
    guessing = bool(settings.center) and isinstance(settings.class_weight, str)
    exact = task.rows.X.shape[0] <= MAX_EXACT
    on_rows = _centring(task, H, side, means, shared=guessing and exact)
    n_classes = len(task.rows.labels.classes)
    equal = np.full(n_classes, 1 / n_classes)
    head = on_rows(equal)
    training = _judged(settings, head, pool, known, source)
    assert training.source_skill is not None
    found = Centred(equal, head, training.source_skill)
    if len(pool.free) and source.any():
        # As without target labels: a few of them say more about themselves than about the rest.
        evidence = pool.of(source)
        centring = Centring(on_rows, evidence, found.skill, head.ridge, settings.seed)
        shares = equal
        if guessing and not exact:
            who, some = evidence.sample(TRIED_ROWS, settings.seed)
            tried_rows = H[who] if isinstance(H, _Denoised) else rows_at(H, who)
            on_some = _centring(task, tried_rows, side[who], means, shared=True)
            tried = replace(centring, make_head=on_some, rows=some)
            shares = tried.best(tried.judged(equal, tried.head_for(equal))).shares
            head = head if shares is equal else centring.head_for(shares)
        found = centring.judged(shares, head)
        if guessing and exact:
            found = centring.best(found)
    training = replace(training, target_skill=found.skill, target_shares=found.shares)
    return _Start(found.head, replace(model, centers=centers_for(means, found.shares)), training)


def _centring(
    task: _Task, H: Any, side: Index, means: GroupMeans, *, shared: bool
) -> Callable[[NDArray[np.float64] | None], RidgeHead]:
    """Shares → a head on rows that are centred for them (None: that are not centred).

    With `shared` a kernel's products of rows are computed once for all shares.
    """
    products = None
    if shared and task.settings.classifier == "kernel":
        products = CentredGram(H, np.maximum(side, -1), bool(task.settings.normalize))

    def centred(shares: NDArray[np.float64] | None) -> RidgeHead:
        centers = centers_for(means, shares)
        if shares is None:
            centers = {d: namespace(c).zeros_like(c) for d, c in centers.items()}
        inner = None if products is None else products.about(centers)

        def rows() -> Matrix | RowsOnDemand:
            if isinstance(H, _Denoised):
                return _Features(H, side, centers)
            out = namespace(H).empty_like(H)
            return center_and_normalize(H, side, centers, task.model.normalize, out=out)

        return task.ridge_head(rows, inner)

    return centred


class _Denoised:
    """Denoised rows of a task, made when they are asked for."""

    def __init__(self, task: _Task):
        self.task = task

    def __len__(self) -> int:
        return int(self.task.rows.X.shape[0])

    def __getitem__(self, some: Any) -> Matrix:
        return self.task.denoised(some)


class _Features:
    """Features of sparse rows by one matrix W: centred and of unit length, made when asked for.

    F = diag(1/l)(XW + 1oᵀ − C), and F Bᵀ through W Bᵀ: rows with few entries take part in few
    products.
    """

    def __init__(self, rows: _Denoised, side: Index, centers: Mapping[int, Matrix]):
        model, self._X = rows.task.model, rows.task.rows.X
        self._rows, self._side, self._centers = rows, side, centers
        self._map = model.layers[0].map
        self.shape, self.dtype = (len(rows), self._map.shape[1]), self._X.dtype
        self._lengths, self.squares = np.empty(len(rows)), np.empty(len(rows))
        total = np.zeros(self.shape[1])
        step = max(64, BLOCK_BYTES // (self.dtype.itemsize * self.shape[1]))
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            F = center_and_normalize(
                rows[some], side[some], centers, True, lengths=self._lengths[some]
            )
            self.squares[some] = np.einsum("ij,ij->i", F, F)
            total += F.sum(0, dtype=np.float64)
        mean = total / len(rows)
        self.variance = float(self.squares.mean() - mean @ mean) or 1.0
        self.longest = float(self.squares.max(initial=0))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, some: Any) -> Matrix:
        return center_and_normalize(self._rows[some], self._side[some], self._centers, True)

    def products(self, B: Matrix) -> Callable[[slice], Matrix]:
        """Some rows → their products with those of B."""
        image, offset = self._map.matmul(B.T), self._map.offset
        domain = np.maximum(self._side, -1)
        levels = {d: (offset - c).astype(B.dtype) @ B.T for d, c in self._centers.items()}
        everywhere = 0 if levels else offset.astype(B.dtype) @ B.T

        def of(some: slice) -> Matrix:
            out = np.asarray(self._X[some] @ image)
            out += everywhere
            for d, level in levels.items():
                out[domain[some] == d] += level
            out /= self._lengths[some, None].astype(out.dtype)
            return out

        return of


# Rounds that learn W again ----------------------------------------------------------------------


class _Refit:
    """A round that learns W again, with the class term on the current labels."""

    def __init__(self, task: _Task, head: Head, relearn: Relearn):
        self.task, self.head = task, head
        self._relearn, self._fresh = relearn, True

    def __call__(self, rows: Index, codes: Index, weights: NDArray[Any]) -> Matrix:
        if not self._fresh:
            self._learn(rows, codes)
        self._fresh = False
        return np.asarray(self.head.fit(rows, codes, weights))

    def separation(self) -> Agreement:
        """How well the current features tell source classes apart."""
        codes = self.task.rows.labels.codes
        known = (self.task.rows.domain >= 0) & (codes != UNLABELED)
        return class_separation(self.head.F[known], codes[known])

    def _learn(self, rows: Index, codes: Index) -> None:
        task, settings = self.task, self.task.settings
        domain = task.rows.domain
        everyone = np.full(len(domain), UNLABELED, dtype=np.int64)
        everyone[rows] = codes
        labelled = replace(task.rows, labels=task.rows.labels._replace(codes=everyone))
        if not (domain[rows] < 0).any():  # no target label yet: nothing to bring together
            settings = replace(settings, terms=replace(settings.terms, class_mmd=False))
        old, new = task.model, self._relearn(labelled, settings)
        # The model is the new one, of the labels that were given.
        model = replace(new, setting=old.setting, classes=old.classes, Z=old.Z, z0=old.z0)
        self.task = replace(task, model=model, kept=None)
        head = self.task.head(model.features(task.rows.X, domain), domain)
        if isinstance(head, RidgeHead) and isinstance(self.head, RidgeHead):
            head.ridge = self.head.ridge
        self.head = head


# The last fit -----------------------------------------------------------------------------------


def _mean_solution(solutions: list[tuple[RidgeSolution, float]]) -> RidgeSolution:
    """Of all schedules, in units of their own spread, so that none counts for more."""
    if len(solutions) == 1:
        return solutions[0][0]
    parts = [s.standardised(spread * len(solutions)) for s, spread in solutions]
    return sum(parts[1:], start=parts[0])


def _with_classifier(
    model: FittedModel, head: Head, settings: ModelSettings, training: SelfTraining
) -> FittedModel:
    if not (settings.is_ridge and isinstance(head, RidgeHead)):
        return replace(model, classifier=head.fitted, training=training)
    solution = head.solution
    Z, z0 = (np.asarray(v, np.float64) for v in (solution.coef, solution.intercept))
    model = replace(model, Z=Z, z0=z0, training=training)
    if len(model.layers) > 1 or model.normalize:
        return model
    found = model.layers[0].map  # scores are linear in the rows
    return replace(
        model,
        coef=np.asarray(found.matmul(Z), dtype=np.float64).T,
        intercept=(found.offset - model.center_of_new_rows) @ Z + z0,
    )


def _target_scores(task: _Task, head: Head, *, seen: bool) -> NDArray[np.float64]:
    """Of the target rows of the fit (all rows, if there is no target), which the head may hold."""
    target = task.rows.domain < 0
    rows = np.flatnonzero(target) if target.any() else np.arange(len(target))
    if seen and isinstance(head, RidgeHead):
        return np.asarray(head.on_rows.scores(head.solution, rows), dtype=np.float64)
    return task.model.feature_scores(task.model.center_and_normalize(task.denoised(rows)))
