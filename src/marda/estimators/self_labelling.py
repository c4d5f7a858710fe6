"""Classifiers on the rows of `transform`, with or without self-labelling of the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marda._memory import available_memory, format_bytes
from marda._validation import UNLABELED, Labels, check_number
from marda.criteria import Agreement, nearest_neighbours
from marda.estimators._denoised import GroupMeans
from marda.estimators.centring import Centred, Centring
from marda.estimators.kernel import MAX_EXACT, RidgeSolution
from marda.estimators.labellers import (
    EstimatorLabeller,
    Labeller,
    MeansLabeller,
    NearestLabeller,
    RidgeLabeller,
)
from marda.estimators.placing import InnerProducts
from marda.estimators.refine import (
    TARGET_WEIGHT,
    Rows,
    balanced_weights,
    class_separation,
    refine,
)
from marda.estimators.skill import recall_above_chance
from marda.terms import Model, parse_method

__all__ = ["SelfLabelling"]

Index = NDArray[np.int64]

#: ridge_class="auto": what the source leaves unexplained, within these bounds.
RIDGE_BOUNDS = 0.1, 0.3
#: refine="auto": a short schedule, a long one that a target which is understood well earns, and one
#: between them. Which is best differs by task and cannot be seen; their mean is near the best.
SHORT, LONG = 5, 15
NEIGHBOURS = 10
#: Where the kernel is not exact, guesses at class shares are tried on so many rows of either side.
TRIED_ROWS = 2000


class SelfLabelling:
    """The fit of a classifier on features, for `MDAClassifier`."""

    # Models that learn the same W from the same rows may be given one dict: "denoised" is then
    # computed once, and "on_target" holds the scores of the target rows by the last model (set it
    # before fit; it is the caller's to drop).
    _kept: dict[str, Any] | None = None

    if TYPE_CHECKING:
        method: str
        classifier: Any
        class_weight: Any
        ridge_class: Any
        refine: Any
        center: bool
        normalize: bool
        random_state: Any
        _seed: int
        _class_weights: Any
        _layers: Any
        Z_: Any

        _denoised: Any
        _feature_scores: Any
        _features: Any
        _fit_layers: Any
        _group_means: Any
        _placed: Any
        _set_centers: Any
        _centers: dict[int, Any]

    # Parameters -------------------------------------------------------------------------------

    @property
    def _is_ridge(self) -> bool:
        return isinstance(self.classifier, str) and self.classifier == "ridge"

    @property
    def _on_rows(self) -> bool:
        """Whether the classifier learns from denoised rows, even if it is the ridge."""
        return bool(self.center or self.normalize or self.refine != 0 or not self._is_ridge)

    @property
    def _has_ridge(self) -> bool:
        return isinstance(self.classifier, str) and self.classifier in ("ridge", "kernel")

    def _check_refine(self) -> None:
        """The values of `refine` and `ridge_class` that this classifier can have."""
        given = self.refine
        rounds = given if isinstance(given, tuple | list) else (given,)
        whole = [
            isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in rounds
        ]
        if given != "auto" and (not whole or not all(whole)):
            raise ValueError(
                "refine must be a number of rounds (at least 0), several of them, or 'auto', got "
                f"{given!r}."
            )
        if (given == "auto" or len(rounds) > 1) and not self._has_ridge:
            raise ValueError(
                f"refine={given!r} averages schedules, which classifier={self.classifier!r} "
                "cannot: use one number of rounds, or classifier='ridge' or 'kernel'."
            )
        if (given == "auto" or len(rounds) > 1) and _relearns(parse_method(self.method)):
            raise ValueError(
                f"refine={given!r} averages schedules, which learn different features with "
                f"method={self.method!r}: use one number of rounds, or a method without J12 and C."
            )
        chosen = isinstance(self.ridge_class, str) and self.ridge_class == "auto"
        if chosen and not (self._has_ridge and self._on_rows):
            raise ValueError(
                "ridge_class='auto' is for classifier='kernel', or 'ridge' on centred, normalised "
                f"or refined rows, got classifier={self.classifier!r}: give a number."
            )
        if not chosen and self._has_ridge and self._on_rows:
            check_number("ridge_class", self.ridge_class, strict=True)

    def _number(self, name: str) -> float:
        """A ridge or weight; the marginalised predictor is not asked for with an "auto" ridge."""
        if name == "ridge_class" and isinstance(self.ridge_class, str):
            return 1.0 if self.ridge_class == "auto" else check_number(name, self.ridge_class)
        return check_number(name, getattr(self, name))

    # Fit --------------------------------------------------------------------------------------

    def _fit_on_rows(self, X: Any, labels: Labels, domain: Index) -> None:
        """Fit the classifier on features of labelled rows; then let it label the target."""
        known = np.flatnonzero(labels.codes != UNLABELED)
        codes, target = labels.codes[known], domain[known] < 0
        refining = self.refine != 0
        used = np.arange(len(domain)) if refining else known
        self._check_room(len(used))
        at = np.full(len(domain), -1)
        at[used] = np.arange(len(used))
        rows = Rows(
            at[known],
            codes,
            self._row_weights(codes, target, heavy_target=refining),
            at[np.flatnonzero((labels.codes == UNLABELED) & (domain < 0))] if refining else at[:0],
            isinstance(self.class_weight, str),
        )
        self.rounds_: list[Any] = []
        labeller = self._first_labeller(X, labels, domain, used, rows, known)
        if refining and len(rows.free) > NEIGHBOURS:
            free = labeller.F[rows.free]
            near = nearest_neighbours(free, NEIGHBOURS, random_state=self._seed)
            rows = replace(rows, neighbours=near)
        relearning = refining and _relearns(parse_method(self.method))
        if refining and not relearning and isinstance(labeller, RidgeLabeller):
            labeller.hold(rows.labelled, rows.codes, rows.weights)
        solutions: list[tuple[RidgeSolution, float]] = []
        for n in self._schedules():
            fit: Any = labeller.fit
            if relearning:
                fit = _Refit(self, X, labels, domain, parse_method(self.method), labeller)
            history, scores = refine(fit, rows, n, fit.separation if relearning else None)
            self.rounds_ += history
            labeller = fit.labeller if relearning else labeller
            if isinstance(labeller, RidgeLabeller):
                seen = scores[rows.free] if len(rows.free) else scores
                spread = float(np.sqrt(np.mean((seen - seen.mean(1, keepdims=True)) ** 2)))
                solutions.append((labeller.solution, spread or 1.0))
        self._set_fitted(labeller, solutions)
        if self._kept is not None:
            new = np.flatnonzero(domain < 0) if (domain < 0).any() else np.arange(len(domain))
            self._kept["on_target"] = self._scores_of(new, X, labeller, refining)

    def _denoised_rows(self, X: Any, rows: Index) -> Any:
        """A copy of some denoised rows of the fit."""
        if self._kept is None:
            return self._denoised(X[rows])
        if "denoised" not in self._kept:
            self._kept["denoised"] = self._denoised(X)
        return self._kept["denoised"][rows]

    def _scores_of(
        self, rows: Index, X: Any, labeller: Labeller, seen: bool
    ) -> NDArray[np.float64]:
        """Of target rows of the fit, which the labeller may have seen."""
        if seen and isinstance(labeller, RidgeLabeller):
            return np.asarray(labeller.on_rows.scores(labeller.solution, rows), dtype=np.float64)
        F = self._placed(self._denoised_rows(X, rows), None)
        return np.asarray(self._feature_scores(F), dtype=np.float64)

    def _first_labeller(
        self, X: Any, labels: Labels, domain: Index, used: Index, rows: Rows, known: Index
    ) -> Any:
        """A labeller on features of the used rows; with "auto" they are centred by evidence."""
        H, side = self._denoised_rows(X, used), domain[used]
        if self.refine == "auto":
            return self._centred_labeller(H, side, X, labels, domain, rows, known)
        labeller = self._labeller(self._placed(H, side), labels, side)
        if isinstance(labeller, RidgeLabeller):
            self._set_skill(labeller, rows, known, domain[known] >= 0)
        return labeller

    def _centred_labeller(
        self, H: Any, side: Index, X: Any, labels: Labels, domain: Index, rows: Rows, known: Index
    ) -> RidgeLabeller:
        """The labeller of the best guess at the target's class shares; sets the skills."""
        source = domain[known] >= 0
        means = self._group_means(X, labels, domain)
        guessing = self.center and isinstance(self.class_weight, str)
        exact = len(H) <= MAX_EXACT
        place = self._placing(H, side, means, labels, shared=guessing and exact)
        equal = np.full(len(labels.classes), 1 / len(labels.classes))
        labeller = place(equal)
        self._set_skill(labeller, rows, known, source)
        found = Centred(equal, labeller, self.source_skill_)
        if len(rows.free) and source.any():
            # As without target labels: a few of them say more about themselves than about the rest.
            evidence = rows.of(source)
            centring = Centring(place, evidence, self.source_skill_, labeller.ridge, self._seed)
            shares = equal
            if guessing and not exact:
                who, some = evidence.sample(TRIED_ROWS, self._seed)
                on_some = self._placing(H[who], side[who], means, labels, shared=True)
                tried = replace(centring, place=on_some, rows=some)
                shares = tried.best(tried.judged(equal, tried.placed(equal))).shares
                labeller = labeller if shares is equal else centring.placed(shares)
            found = centring.judged(shares, labeller)
            if guessing and exact:
                found = centring.best(found)
            self._set_centers(means, found.shares)
        self.target_skill_, self.target_shares_ = found.skill, found.shares
        return found.labeller

    def _placing(
        self, H: Any, side: Index, means: GroupMeans, labels: Labels, *, shared: bool
    ) -> Callable[[NDArray[np.float64] | None], Any]:
        """Shares → a labeller on rows that are centred for them (None: that are not centred).

        With `shared` a kernel's products of rows are computed once for all shares.
        """
        products = None
        if shared and self.classifier == "kernel":
            products = InnerProducts(H, np.maximum(side, -1), self.normalize)

        def place(shares: NDArray[np.float64] | None) -> Any:
            self._set_centers(means, shares)
            if shares is None:
                self._centers = {d: np.zeros_like(c) for d, c in self._centers.items()}
            F = self._placed(H.copy(), side)
            inner = None if products is None else products.about(self._centers)
            return self._labeller(F, labels, side, inner)

        return place

    def _schedules(self) -> tuple[int, ...]:
        if isinstance(self.refine, str):
            long = max(SHORT, round(LONG * self.target_skill_**2))
            return tuple(sorted({SHORT, (SHORT + long + 1) // 2, long}))
        if isinstance(self.refine, tuple | list):
            return tuple(int(n) for n in self.refine)
        return (int(self.refine),)

    def _check_room(self, n_rows: int) -> None:
        width = self._layers[-1].map.shape[1]
        needed, limit = 3 * 8 * n_rows * width, available_memory()
        if needed > limit:
            raise MemoryError(
                f"features of {n_rows} rows × {width} columns need about {format_bytes(needed)} "
                f"and {format_bytes(limit)} is free: set n_pivots, or use fewer rows."
            )

    def _labeller(self, F: Any, labels: Labels, domain: Index, inner: Any = None) -> Labeller:
        kind = self.classifier if isinstance(self.classifier, str) else ""
        if kind in ("ridge", "kernel"):
            ridge = RIDGE_BOUNDS[1] if self.ridge_class == "auto" else float(self.ridge_class)
            gaussian = kind == "kernel"
            options = {"gaussian": gaussian, "ridge": ridge, "seed": self._seed, "inner": inner}
            return RidgeLabeller(F, labels.classes, **options)
        if kind == "dscm":
            return MeansLabeller(F, labels.classes, domain)
        if kind == "nn":
            return NearestLabeller(F, labels.classes)
        return EstimatorLabeller(F, labels.classes, self._clone_classifier)

    def _clone_classifier(self) -> Any:
        classifier = clone(self.classifier)
        if self.random_state is not None:
            params = classifier.get_params()
            if "random_state" in params and params["random_state"] is None:
                classifier.set_params(random_state=self._seed)
        return classifier

    def _row_weights(
        self, codes: Index, target: NDArray[np.bool_], *, heavy_target: bool
    ) -> NDArray[Any]:
        """Class weights; where rows are self-labelled, a few target labels count for more."""
        if not (heavy_target and isinstance(self.class_weight, str)):
            weights = np.array(self._class_weights[codes], dtype=np.float64)
        else:
            weights = np.ones(len(codes))
            for side in (target, ~target):
                if side.any():
                    weights[side] = balanced_weights(codes[side], int(codes.max()) + 1)
        if heavy_target and target.any() and not target.all():
            weights[target] *= min(TARGET_WEIGHT, max(1.0, (~target).sum() / target.sum()))
        return weights

    def _set_skill(
        self, labeller: RidgeLabeller, rows: Rows, known: Index, source: NDArray[np.bool_]
    ) -> None:
        """κ: how much better than chance the source predicts itself, row by row left out."""
        if "auto" not in (str(self.ridge_class), str(self.refine)):
            return
        if not source.any():
            source = ~source
        codes = rows.codes[source]
        scores = labeller.leave_one_out(rows.labelled[source], codes, rows.weights[source])
        self.source_skill_ = recall_above_chance(codes, scores.argmax(1))
        # What the source says of rows that were left out: calibration reads it.
        self._left_out = known[source], codes, np.asarray(scores, dtype=np.float64)
        if self.ridge_class == "auto":
            labeller.ridge = float(np.clip(1 - self.source_skill_, *RIDGE_BOUNDS))

    def _set_fitted(self, labeller: Labeller, solutions: list[tuple[RidgeSolution, float]]) -> None:
        if not isinstance(labeller, RidgeLabeller):
            self.classifier_ = labeller.fitted
            return
        solution = solutions[0][0]
        if len(solutions) > 1:  # in units of their own spread, so that no schedule speaks louder
            parts = [s.standardised(spread * len(solutions)) for s, spread in solutions]
            solution = sum(parts[1:], start=parts[0])
        labeller.solution = solution
        if not self._is_ridge:
            self.classifier_ = labeller.fitted
            return
        self.Z_, self._z0 = (np.asarray(v, np.float64) for v in (solution.coef, solution.intercept))
        if len(self._layers) == 1 and not self.normalize:
            found = self._layers[0].map
            self._scores_coef = np.asarray(found.matmul(self.Z_), dtype=np.float64).T
            self._scores_intercept = (
                found.offset - self._center_of_new_rows()
            ) @ self.Z_ + self._z0

    if TYPE_CHECKING:
        _center_of_new_rows: Any


def _relearns(model: Model) -> bool:
    """Whether self-labelled rows change W too."""
    return model.joint or model.class_mmd


class _Refit:
    """A round that learns W again, with the class term on the current labels."""

    def __init__(self, of: Any, X: Any, labels: Labels, domain: Index, model: Model, labeller: Any):
        self._of, self._X, self._labels, self._domain, self._model = of, X, labels, domain, model
        self.labeller, self._fresh = labeller, True

    def __call__(self, rows: Index, codes: Index, weights: NDArray[Any]) -> NDArray[Any]:
        if not self._fresh:
            self._learn(rows, codes)
        self._fresh = False
        return np.asarray(self.labeller.fit(rows, codes, weights))

    def separation(self) -> Agreement:
        """How well the current features tell source classes apart."""
        known = (self._domain >= 0) & (self._labels.codes != UNLABELED)
        return class_separation(self.labeller.F[known], self._labels.codes[known])

    def _learn(self, rows: Index, codes: Index) -> None:
        everyone = np.full(len(self._domain), UNLABELED, dtype=np.int64)
        everyone[rows] = codes
        labels = self._labels._replace(codes=everyone)
        model = self._model
        if not (self._domain[rows] < 0).any():
            model = replace(
                model, class_mmd=False
            )  # no target label yet: nothing to bring together
        self._of._fit_layers(self._X, labels, self._domain, predictor=False, model=model)
        F = self._of._features(self._X, self._domain)
        ridge = getattr(self.labeller, "ridge", None)
        self.labeller = self._of._labeller(F, self._labels, self._domain)
        if ridge is not None:
            self.labeller.ridge = ridge
