"""`MDAClassifierCV`: choose without a single target label."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from marda._arrays import (
    argmax,
    astype,
    beside,
    is_followed,
    is_numpy,
    labels_at,
    namespace,
    place_of,
    rows_at,
)
from marda._machine import fewer_blas_threads
from marda._order import row_order
from marda._validation import (
    UNLABELED,
    Labels,
    check_class_weight,
    check_flags,
    check_new_rows,
    check_rows,
    check_same_place,
    float_types,
    seed_of,
)
from marda.estimators.accuracy_estimation import expected_accuracy
from marda.estimators.classifier import labelled_accuracy
from marda.estimators.kernel_ridge import MAX_EXACT
from marda.estimators.model import TrainingRows
from marda.moments.features import HeldRows, RestOfRows
from marda.selection.auto import AutoFit, fit_auto
from marda.selection.ensemble import (
    Ensemble,
    Member,
    calibrate_ensemble,
    compress_ensemble,
    is_compact,
)
from marda.selection.expectation import UNKNOWN
from marda.selection.inputs import (
    constant_in_target,
    draw_rows,
    drop_copies,
    host_rows,
    silent_columns_note,
    with_constants,
)
from marda.selection.scorers import get_criterion
from marda.selection.search import TARGET_CRITERIA, Candidate, expand, search
from marda.selection.source_only import WIDE

#: Above this many values single precision halves time, memory and the model file, and moves scores
#: by less than any rule here can see.
SINGLE_PRECISION = 2**20
#: The same for rows of many columns, which models see at unit length.
SINGLE_PRECISION_WIDE = 2**17
#: Values that are cast at a time.
BLOCK = 2**18


#: Threads of BLAS at most, of the default: where rows or columns are fewer than `MANY` or on a
#: GPU, and elsewhere. Two threads took five times as long as one for 450 images, 1.7 times for
#: 2,081, 1.2 times for 20,000 rows of a table; on 16 cores 4,000 reviews took 9.6 s with one, 6.6
#: with four, 7.0 with eight and 10.9 with sixteen.
FEW_THREADS, MANY_THREADS = 1, 4
MANY = 3000
#: What a fit leaves that another one need not set: of the default, of a search, of files; and what
#: predictions need.
FOUND = (
    "source_skill_",
    "target_skill_",
    "shift_",
    "compression_",
    "silent_columns_",
    "best_index_",
    "preprocessing_",
    "ensemble_",
)


class MDAClassifierCV(ClassifierMixin, TransformerMixin, BaseEstimator):
    """A classifier for the target that chooses everything by itself.

    By default it first asks what differs between the domains (`shift_`) and acts on it: a
    source-only model, with other class shares or with rows moved back, where that explains the
    target; an ensemble of adapted models where it does not. Every number is a rule that reads the
    rows; see docs/learn/choosing.md.
    With `candidates`, models are compared by a label-free criterion and the best one is kept.

    The default follows arrays of torch, CuPy and array-api-strict (docs/learn/scale.md):
    adapted models are fitted, compressed and applied where the rows are. What differs is asked,
    and source-only models are fitted, in numpy: a fit copies the rows to the host once, and so do
    predictions in which a source-only model has a part.

    Parameters
    ----------
    candidates : "auto", dict or list of dict, default="auto"
        "auto": the ensemble. Otherwise parameters of `MDAClassifier` to search: a grid (every
        value a list) or a list of grids, as in `GridSearchCV`; the key "inputs" chooses how the
        model sees the rows: "raw", "unit" (length one), "sqrt" (signed roots, length one),
        "standard".
    scoring : str or callable, default="auto"
        Criterion of the search: a name of `marda.selection.CRITERIA`, "consensus" (agreement with
        the other candidates), or a scorer. "auto" adds the ranks by "neighbours", "consensus" and
        "mutual_information".
    class_weight : None, "balanced" or dict, default="balanced"
        Weights of labelled rows in candidates that do not set their own.
    calibrate : bool, default=True
        Fit the temperature of `predict_proba` on left-out source rows, weighted towards the target.
    max_rows : int, default=10000
        Above it, everything is chosen on a seeded sample of this many rows per domain (labelled
        target rows and rare classes are kept). With "auto", source-only models then learn from all
        labelled source rows, where that predicts the rows of the sample better (`n_rows_used_`).
    compress : bool, default=True
        With "auto", predict by compact copies of large adapted members where at least 99.5 % of the
        target rows keep their class (`compression_`): a fiftieth of the time and of the file.
    unlabeled : default=-1
        Mark of unlabelled target rows; NaN and None mark too. Rows have no weights: `fit` takes no
        sample_weight; see class_weight.
    random_state : int, RandomState or None, default=None
        Draws samples, folds, thirds of the source and landmarks; None draws as 0 does. No draw
        depends on the order of rows.
    verbose : int, default=0
        Above 0, say what is being done.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Label values.
    best_params_ : dict
        Of the search's winner; of the ensemble's first member with "auto" (of a source-only one,
        "source_only": its kind).
    best_index_ : int
        Of a search: the winner's place in `candidates_`.
    candidates_ : list of dict
        Of a search, every candidate: its parameters, and its scores by the criteria. With "auto",
        every member of the ensemble: its parameters and its weight.
    ensemble_ : Ensemble
        The fitted models that predict, and the sharpness of their probabilities.
    members_ : tuple of Member
        These models, with their inputs and weights.
    calibration_ : dict
        "sharpness" (the inverse temperature), "ece_before", "ece_after" and "rows" of the
        calibration on source rows. With "auto" also what to expect of the target rows:
        "expected_accuracy", "expected_interval" (low, high; 90 %), "can_tell" (False where only
        labels can tell) and the "reason"; target labels correct it. Empty without.
    silent_columns_ : list of int
        With "auto": columns of a table in which all target rows have one value that hardly any
        source row has. Nothing is learned of them.
    n_rows_used_ : dict
        "choices": rows that everything was chosen on; and per kind of source-only model ("linear",
        "kernel") that predicts and was learned from more labelled rows, how many these are.
    shift_ : Shift or None
        With "auto": what differs between source and target, told without a target label; labels
        only weigh explanations that fit equally well. None where there is no target, or a class
        that only target rows have.
    residual_ : float
        The largest of the adapted members; above 1e-6 (and below 1e-4) only where rows of more
        than a million values are solved in float32.
    compact_ : Ensemble or None
        The compressed models that predict in place of `ensemble_`; None: `ensemble_` predicts.
    compression_ : dict
        With "auto", what compression changes on the target rows of the fit: "same_predictions",
        the share of them whose class stays; "score_error", the root mean square change of the
        scores in units of their own; "rows", "directions"; "used", whether that is good enough.
        Empty where there is nothing to compress.
    source_skill_ : float
        With "auto": how well the source predicts left-out rows of itself, 0 (chance) to 1.
    target_skill_ : float
        With "auto": how well the target seems to be predicted, 0 (chance) to 1. By adapted models
        before they label it themselves: from how much models of thirds of the source agree there.
        By source-only models: what "expected_accuracy" of `calibration_` means on this scale.
    setting_ : {"US", "SUP", "SS"}
        No labelled target rows; no unlabelled rows; both kinds.
    domains_ : array of int
        Domains seen in fit.
    fit_seconds_ : float
        Time that the fit took, by the wall clock.
    n_features_in_, feature_names_in_ : int and array
        Columns of the rows of the fit; their names, if these were a DataFrame with names.

    Examples
    --------
    >>> import numpy as np
    >>> from marda import MDAClassifierCV, pack
    >>> rng = np.random.default_rng(0)
    >>> ys, yt = np.arange(60) % 2, np.arange(40) % 2
    >>> Xs, Xt = rng.normal(ys[:, None], 0.3, (60, 4)), rng.normal(yt[:, None] + 1, 0.3, (40, 4))
    >>> X, y, sample_domain = pack(Xs, ys, Xt)
    >>> clf = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=sample_domain)
    >>> bool(clf.score(Xt, yt) > 0.9)
    True
    """

    #: Library and device of the rows of the fit; of a model that was read, numpy's.
    _place = ("numpy", "cpu")
    calibration_: dict[str, Any]
    compact_: Ensemble | None
    compression_: dict[str, Any]

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_domain": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"sample_domain": True}

    def __init__(
        self,
        candidates: str | Mapping[str, Any] | Sequence[Mapping[str, Any]] = "auto",
        *,
        scoring: Any = "auto",
        class_weight: Any = "balanced",
        calibrate: bool = True,
        max_rows: int = 10_000,
        compress: bool = True,
        unlabeled: Any = -1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.candidates = candidates
        self.scoring = scoring
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.max_rows = max_rows
        self.compress = compress
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = isinstance(self.candidates, str)
        return tags

    # Fit --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, sample_domain: Any = None) -> Self:
        """Choose and fit.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows of all domains.
        y : array of shape (n_rows,)
            Labels; target rows may carry the mark `unlabeled`, NaN or None.
        sample_domain : array of int of shape (n_rows,), default=None
            At least 0 for a source, below 0 for a target. None: one domain, nothing to adapt to.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("MDAClassifierCV requires y to be passed, but the target y is None.")
        return self._fit(X, y, sample_domain, None)

    def fit_sample(self, X: Any, y: Any, *, sample_domain: Any, rest: RestOfRows) -> Self:
        """Fit on a sample of rows that are too many for one place.

        Parameters
        ----------
        X, y, sample_domain : arrays
            As in `fit`: the sample. All choices rest on it.
        rest : RestOfRows
            The labelled source rows outside of it, of which sums are asked for. `rest.counts` has
            an entry per class of y, in the order of `classes_`.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_domain, rest)

    def _fit(self, X: Any, y: Any, sample_domain: Any, rest: RestOfRows | None) -> Self:
        candidates = self._check_parameters()
        # Another fit may have left them: one that fails or is interrupted must not leave a mixture.
        for name in FOUND:
            self.__dict__.pop(name, None)
        if candidates is not None and is_followed(X):
            raise ValueError(
                "MDAClassifierCV: candidates is for numpy arrays: of other libraries, 'auto'."
            )
        X, labels, domain = check_rows(self, X, y, sample_domain)
        self._place, there = place_of(X), None if is_numpy(X) else X
        X = host_rows(X)
        if len(labels.classes) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got one class: {labels.classes.tolist()}."
            )
        check_class_weight(self.class_weight, labels.classes)
        # What scikit-learn is asked from here on is about numpy arrays; by the default, hundreds
        # of times, with parameters that are constants of this package.
        with config_context(
            array_api_dispatch=False,
            skip_parameter_validation=candidates is None or None,
        ):
            return self._fit_checked(candidates, X, there, labels, domain, rest)

    def _fit_checked(
        self,
        candidates: list[Candidate] | None,
        X: Any,
        there: Any,
        labels: Labels,
        domain: NDArray[np.int64],
        rest: RestOfRows | None,
    ) -> Self:
        """Fit on checked rows of the host, which may be `there` as well."""
        if not _rows_differ(X):
            raise ValueError("all rows of X are the same: there is nothing to learn from.")
        self.classes_, self.compact_ = labels.classes, None
        self.domains_ = beside(np.unique(domain), X if there is None else there, "int64")
        seed = seed_of(self.random_state)
        if candidates is None and (domain < 0).any():
            kept = drop_copies(X, labels.codes, domain)
            if len(kept) < len(domain):
                X, domain = X[kept], domain[kept]
                there = None if there is None else rows_at(there, kept)
                labels = labels._replace(codes=labels.codes[kept])
        order = row_order(X, domain, labels.codes)  # nothing below depends on how rows came
        if rest is None:
            order = order[draw_rows(labels.codes[order], domain[order], self.max_rows, seed)]
            if len(order) < len(domain):
                rest = _rest(X, labels, domain, order)
        if len(order) <= MAX_EXACT:
            # Labelled rows first: those and the others are then two blocks of every kernel.
            order = order[np.argsort(labels.codes[order] == UNLABELED, kind="stable")]
        most = SINGLE_PRECISION_WIDE if X.shape[1] > WIDE else SINGLE_PRECISION
        single = len(order) * X.shape[1] > most
        X = _taken(X, order, single=single)
        there = None if there is None else _taken_elsewhere(there, order, single=single)
        labels, domain = labels._replace(codes=labels.codes[order]), domain[order]
        began = time.perf_counter()
        if candidates is None:
            names = getattr(self, "feature_names_in_", None)
            X, there = self._without_silent_columns(X, there, domain < 0, names)
            few = there is not None or min(X.shape) < MANY
            with fewer_blas_threads(FEW_THREADS if few else MANY_THREADS):
                found = fit_auto(
                    X, labels, domain, self.class_weight, seed, self._say, names, rest, there
                )
                self._keep(found, X, X if there is None else there, domain, seed)
        else:
            best = search(
                candidates,
                X,
                labels,
                domain,
                self.scoring,
                seed,
                self._say,
                folds=bool(self.calibrate),
                mark=self.unlabeled,
            )
            self.candidates_ = best.table
            self.best_params_, self.best_index_ = best.parameters, best.index
            known = best.left_out if self.calibrate else []
            self.ensemble_, calibration = calibrate_ensemble([best.member], known, X, domain, seed)
            self.calibration_ = dict(calibration)
        self.n_rows_used_ = {"choices": len(domain)}
        if candidates is None and found.all_rows is not None and found.all_rows.kinds:
            self.n_rows_used_ |= dict.fromkeys(found.all_rows.kinds, found.all_rows.n_rows)
        self.setting_ = TrainingRows(X, labels, domain).setting
        adapted = [one.adapted for one in self.members_ if one.adapted is not None]
        self.residual_ = max((one.residual_ for one in adapted), default=0.0)
        self.fit_seconds_ = time.perf_counter() - began
        return self

    def _without_silent_columns(
        self, X: Any, there: Any, target: NDArray[np.bool_], names: Sequence[str] | None
    ) -> tuple[Any, Any]:
        """The rows; columns of a table with one value in the target have it in the source, too."""
        table = X.shape[1] <= WIDE
        columns = constant_in_target(X, target) if table else np.array([], dtype=np.int64)
        self.silent_columns_ = columns.tolist()
        if not len(columns):
            return X, there
        row = X[[int(np.flatnonzero(target)[0])]]
        value = (row.toarray() if sp.issparse(row) else row)[0, columns]
        said = [f"column {j}" if names is None else str(names[j]) for j in columns]
        warnings.warn(silent_columns_note(said), UserWarning, stacklevel=5)
        X = with_constants(X, columns, value)
        return X, there if there is None else with_constants(there, columns, value)

    def _keep(
        self, found: AutoFit, X: Any, there: Any, domain: NDArray[np.int64], seed: int
    ) -> None:
        """The ensemble of `fit_auto`, calibrated, and what to expect of it.

        `there` are the rows X, where they were given.
        """
        self.source_skill_, self.target_skill_ = found.source_skill, found.target_skill
        self.shift_ = found.shift
        self.candidates_ = _described(found.members)
        self.best_params_ = found.members[0].model.get_params()
        n = len(self.classes_)
        calibration: Mapping[str, Any]
        if found.calibration is not None:  # source-only: scores are logarithms of probabilities
            frozen = tuple(member.frozen for member in found.members)
            self.ensemble_ = Ensemble(frozen)
            calibration = found.calibration
        else:
            agreed = expected_accuracy(self.target_skill_, n) if (domain < 0).any() else None
            self.ensemble_, calibration = calibrate_ensemble(
                found.members, found.left_out if self.calibrate else [], X, domain, seed, agreed
            )
        self.calibration_ = dict(calibration) if self.calibrate else {}
        self.compact_, self.compression_ = None, {}
        if self.compress:
            self.compact_, self.compression_ = _compressed(
                self.ensemble_, found.members, there, domain, seed
            )
        if (domain < 0).any() and (self.calibrate or found.calibration is not None):
            # Of what predicts: the compact members, if there are any.
            members = found.members if self.compact_ is None else list(self.compact_.members)
            expectation = UNKNOWN
            if found.evidence is not None:
                evidence = found.evidence
                if there is not X:
                    seen = np.flatnonzero(domain < 0)[evidence.places]
                    evidence = replace(evidence, rows=rows_at(there, seen))
                expectation = evidence.expectation(members, self.ensemble_.sharpness)
            if found.calibration is not None:
                self.target_skill_ = max(0.0, (expectation.accuracy - 1 / n) / (1 - 1 / n))
            if self.calibrate:
                self.calibration_ |= {
                    "expected_accuracy": expectation.accuracy,
                    "expected_interval": list(expectation.interval),
                    "can_tell": expectation.can_tell,
                    "reason": expectation.reason,
                }

    def _check_parameters(self) -> list[Candidate] | None:
        """The candidates of a search, or None for the ensemble."""
        check_flags(self.get_params(deep=False), "calibrate", "compress")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int | np.integer):
            raise ValueError(f"max_rows must be a whole number, got {self.max_rows!r}.")
        if self.max_rows < 20:
            raise ValueError(f"max_rows must be at least 20, got {self.max_rows}.")
        if isinstance(self.candidates, str):
            if self.candidates != "auto":
                raise ValueError(
                    f"candidates must be 'auto', a grid or a list of grids, got "
                    f"{self.candidates!r}."
                )
            return None
        if self.scoring not in TARGET_CRITERIA:
            get_criterion(self.scoring)
        return expand(self.candidates, self.class_weight)

    def _say(self, what: str) -> None:
        if self.verbose:
            print(f"[marda] {what}")

    # Predictions ------------------------------------------------------------------------------

    @property
    def members_(self) -> tuple[Member, ...]:
        """The models that predict, with their inputs and weights."""
        check_is_fitted(self, "ensemble_")
        return self.ensemble_.members

    @property
    def _predictor(self) -> Ensemble:
        """What predicts: the compact members, where there are any."""
        return self.ensemble_ if self.compact_ is None else self.compact_

    def _check_new(self, X: Any, method: str, n_types: int = 1) -> Any:
        """New rows, of one of the first types that rows may have.

        Scores are computed in float64: kernels turn the last digits of float32 features into the
        fifth digit of a score.
        """
        check_is_fitted(self, "ensemble_")
        X = check_new_rows(self, X, float_types(X)[:n_types])
        check_same_place(self, X, self._place, method)
        return X

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of rows; for two classes, those of the second minus those of the first.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        scores : array of shape (n_rows,) with two classes, else (n_rows, n_classes)
        """
        X = self._check_new(X, "decision_function")
        scores = beside(self._predictor.scores(X), X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of classes, calibrated on left-out source rows (see `calibration_`).

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        P : array of shape (n_rows, n_classes)
            In the order of `classes_`; every row adds up to 1.
        """
        X = self._check_new(X, "predict_proba")
        return beside(self._predictor.probabilities(X), X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of rows of the target.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        X = self._check_new(X, "predict")
        return labels_at(self.classes_, argmax(beside(self._predictor.scores(X), X)))

    def transform(self, X: Any, *, sample_domain: Any = None) -> Any:
        """Denoised rows of the first member that denoises: those that its classifier sees.

        Where all members know the source alone, there are none, and rows stay as they are, sparse
        ones sparse.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows of any domain.
        sample_domain : array of int of shape (n_rows,), default=None
            Domains of the rows, each of which is centred at its own mean; None: of the target.

        Returns
        -------
        H : array of shape (n_rows, n_outputs)
        """
        X = self._check_new(X, "transform", 2)
        if is_compact(self.ensemble_):
            raise AttributeError(
                "transform: this model was read from a compressed file, which holds what "
                "predictions need and no denoising maps. Save the fitted model with "
                "save(path, compress=False)."
            )
        for member in self.ensemble_.members:
            if member.adapted is not None:
                rows = member.inputs.apply(X)
                H = member.adapted.transform(rows, sample_domain=sample_domain)
                return beside(H, X) if is_numpy(H) else H
        return X

    def fit_transform(self, X: Any, y: Any = None, *, sample_domain: Any = None) -> Any:
        """Fit, then denoised rows of all domains, each centred (if so set) at its own mean.

        Parameters
        ----------
        X, y, sample_domain : arrays
            As in `fit`.

        Returns
        -------
        H : array of shape (n_rows, n_outputs)
        """
        fitted = self.fit(X, y, sample_domain=sample_domain)
        return fitted.transform(X, sample_domain=sample_domain)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features that `transform` gives: those that they reconstruct.

        Parameters
        ----------
        input_features : array of str of shape (n_features,), default=None
            Names of the columns of X; None: those of the fit, else "x0", "x1", …

        Returns
        -------
        names : array of str
        """
        members = self.members_
        names = _check_feature_names_in(self, input_features)
        for member in members:
            if member.adapted is not None:
                seen = member.inputs.names(names)
                return np.asarray(member.adapted.get_feature_names_out(seen))
        return np.asarray(names)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that carry a label; marked rows are left out.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.
        y : array of shape (n_rows,)
            Labels; marked rows have none.
        sample_weight : array of shape (n_rows,), default=None
            Weights of rows; None: all alike.

        Returns
        -------
        accuracy : float
        """
        return labelled_accuracy(self, X, y, sample_weight)

    # Files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, compress: bool = True) -> None:
        """Write the fitted model to one file, which `marda.load` reads.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete.
        compress : bool, default=True
            Of a model with compact members (`compact_`), write these alone: all that predictions
            need, without a training row and without denoising maps, so that the loaded model has
            no `transform`. False: write the full members, too. The loaded model predicts as this
            one does either way.
        """
        from marda.persist import save

        save(self, path, compress=compress)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write one ONNX graph: preprocessing (if any), inputs of the members, members.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete. The graph takes float64 rows "X" and gives
            "label", "scores" (as `decision_function`) and "probabilities".
        """
        from marda.persist.onnx import export

        export(self, path)


def _taken(X: Any, rows: NDArray[np.int64], *, single: bool) -> Any:
    """Some rows, in float32 if so asked for, without a copy of them in float64."""
    if not single or X.dtype == np.float32:
        return X[rows]
    if sp.issparse(X):
        return X[rows].astype(np.float32)
    found = np.empty((len(rows), X.shape[1]), dtype=np.float32)
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, len(rows), step):
        found[start : start + step] = X[rows[start : start + step]]
    return found


def _taken_elsewhere(X: Any, rows: NDArray[np.int64], *, single: bool) -> Any:
    """The same of another library, where they are."""
    found = rows_at(X, rows)
    return astype(found, namespace(found).float32) if single else found


def _rows_differ(X: Any) -> bool:
    if sp.issparse(X):
        return bool((X.max(axis=0) != X.min(axis=0)).nnz)
    return bool((X[:1] != X[1:2]).any() or (X[:1] != X).any())


def _rest(X: Any, labels: Labels, domain: NDArray[np.int64], drawn: NDArray[np.int64]) -> HeldRows:
    """Labelled source rows that were not drawn."""
    left = (labels.codes != UNLABELED) & (domain >= 0)
    left[drawn] = False
    return HeldRows(X, labels.codes, np.flatnonzero(left), len(labels.classes))


def _compressed(
    ensemble: Ensemble, members: list[Member], X: Any, domain: NDArray[np.int64], seed: int
) -> tuple[Ensemble | None, dict[str, Any]]:
    """Compact members, checked on the target rows (on all rows, if there is no target)."""
    known = [member.weight * member.on_target for member in members if member.on_target is not None]
    if len(known) < len(members):
        return None, {}
    target = rows_at(X, np.flatnonzero(domain < 0)) if (domain < 0).any() else X
    return compress_ensemble(ensemble, np.sum(known, axis=0), target, seed)


def _described(members: list[Member]) -> list[dict[str, Any]]:
    """Weights and parameters of the ensemble's members."""
    return [
        {"name": m.name, "inputs": m.inputs.kind, "weight": m.weight, **m.model.get_params()}
        for m in members
    ]
