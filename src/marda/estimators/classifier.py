"""`MDAClassifier`: denoised features and a classifier for the target."""

from __future__ import annotations

import os
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing, check_consistent_length, column_or_1d
from sklearn.utils.metaestimators import available_if

from marda._arrays import (
    argmax,
    is_followed,
    labels_at,
    rows_at,
    softmax,
    to_numpy,
)
from marda._order import row_order
from marda._validation import check_indexes, check_rows, is_marked, seed_of
from marda.estimators.fitting import Shared, fit_and_score, fit_model, fit_moments
from marda.estimators.model import (
    SelfTraining,
    TrainingRows,
    check_classifier,
    learns_from_features,
    settings_of,
)
from marda.estimators.streaming import check_mark, dask_moments, lazy_on_dask, why_rows
from marda.estimators.transformer import BaseMDA, with_parameters
from marda.moments import Moments
from marda.moments.accumulate import is_dask

T = TypeVar("T")


def _has(name: str) -> Any:
    def check(self: MDAClassifier) -> bool:
        if isinstance(self.classifier, str):
            return name != "decision_function" or self.classifier != "nn"
        return hasattr(getattr(self, "classifier_", self.classifier), name)

    return check


@with_parameters
class MDAClassifier(ClassifierMixin, BaseMDA):
    """A classifier for the target, on features in which domains no longer differ.

    Learns W by marginalised denoising (see `MDA`) and a classifier on denoised rows X W, in
    sequence ("S1…") or jointly ("J12…"), from labelled source rows and target rows that carry few
    labels or none.

    Parameters
    ----------
    {parameters}
    classifier : {"ridge", "kernel", "nn", "dscm"} or a classifier, default="ridge"
        "ridge" is Z of the framework (on centred, normalised or refined rows: a plain ridge);
        "kernel" a ridge in the space of a Gaussian kernel whose width fits the rows; "nn" the
        nearest labelled row; "dscm" domain-specific class means; any other scikit-learn classifier
        is cloned and fitted on denoised labelled rows.
    refine : int, tuple of int or "auto", default=0
        Rounds of self-training: the most confident target rows of every predicted class join the
        labelled ones, a growing share of them, and the classifier is fitted again. With "C" in the
        method or a joint method, W is learned again too, so that S1C and J12C need no target
        label. Several numbers: the scores of these schedules are averaged ("ridge", "kernel").
        "auto" chooses schedules by how well the target seems to be understood (`target_skill_`).
        Rounds after which neighbours agree less about their labels are undone, with a
        `RefinementWarning`.
    {more_parameters}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Label values.
    coef_, intercept_ : arrays
        (W Z)ᵀ and its intercept, in the shapes of scikit-learn's linear classifiers.
    Z_ : array of shape (n_outputs, n_classes)
        The class predictor on denoised rows.
    classifier_ : estimator
        The fitted classifier, if it is not "ridge".
    rounds_ : list of Round
        What every round of self-training kept and changed.
    source_skill_ : float
        With "auto" for refine or ridge_class: κ, from 0 (chance) to 1, how well the source
        predicts left-out rows of itself.
    target_skill_ : float
        With refine="auto": the same of target rows before any round, estimated without their
        labels: κ times how much less models of thirds of the source agree there.
    target_shares_ : array of shape (n_classes,)
        With refine="auto": class shares of the target for which sources were centred.
    W_, W_map_, offset_, pivots_ : matrix, operator and arrays
        The denoising map, as in `MDA`.
    loss_curve_, n_iter_, residual_, solver_, setting_, domains_, model_
        How it was fitted, as in `MDA`.
    n_features_in_, feature_names_in_ : int and array
        Columns of the rows of the fit; their names, if these were a DataFrame with names.

    Examples
    --------
    >>> import numpy as np
    >>> from marda import MDAClassifier, pack
    >>> rng = np.random.default_rng(0)
    >>> ys, yt = np.arange(60) % 2, np.arange(40) % 2
    >>> Xs, Xt = rng.normal(ys[:, None], 0.3, (60, 4)), rng.normal(yt[:, None] + 1, 0.3, (40, 4))
    >>> X, y, sample_domain = pack(Xs, ys, Xt)
    >>> clf = MDAClassifier("S1M").fit(X, y, sample_domain=sample_domain)
    >>> clf.predict(Xt).shape
    (40,)
    """

    def __init__(
        self,
        method: str = "S1D",
        *,
        noise: Any = 0.5,
        ridge: float = 1e-2,
        ridge_class: float = 1.0,
        ridge_domain: float = 1.0,
        class_loss_weight: float = 1.0,
        domain_loss_weight: float = 1.0,
        marginalization: str = "exact",
        class_means: str = "labelled",
        scaling: str = "balanced",
        fit_intercept: bool = True,
        class_weight: Any = None,
        classifier: Any = "ridge",
        n_layers: int = 1,
        activation: str = "tanh",
        concatenate: bool = True,
        center: bool = False,
        normalize: bool = False,
        refine: int | tuple[int, ...] | str = 0,
        solver: str = "auto",
        n_pivots: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
        unlabeled: Any = -1,
        random_state: Any = None,
        verbose: int = 0,
    ):
        super().__init__(
            method,
            noise=noise,
            ridge=ridge,
            ridge_class=ridge_class,
            ridge_domain=ridge_domain,
            class_loss_weight=class_loss_weight,
            domain_loss_weight=domain_loss_weight,
            marginalization=marginalization,
            class_means=class_means,
            scaling=scaling,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            n_layers=n_layers,
            activation=activation,
            concatenate=concatenate,
            center=center,
            normalize=normalize,
            solver=solver,
            n_pivots=n_pivots,
            max_iter=max_iter,
            tol=tol,
            unlabeled=unlabeled,
            random_state=random_state,
            verbose=verbose,
        )
        self.classifier = classifier
        self.refine = refine

    # Fit --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, sample_domain: Any = None) -> Self:
        """Learn features and classifier.

        Parameters
        ----------
        X : array, sparse matrix or Dask collection of shape (n_rows, n_features)
            Rows of all domains.
        y : array of shape (n_rows,)
            Labels; target rows may carry the mark `unlabeled`, NaN or None.
        sample_domain : array of int of shape (n_rows,), default=None
            At least 0 for a source, below 0 for a target. None: one domain, no domain terms;
            marks in y are then refused.

        Returns
        -------
        self
        """
        _check_labels(y)
        if is_dask(X):
            check_classifier(self.get_params(deep=False))
            return self.fit_moments(dask_moments(self, X, y, sample_domain))
        self._forget()
        self._check_followed(X)
        fit_rows(self, training_rows(self, X, y, sample_domain=sample_domain))
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Learn from statistics alone ("ridge" and "dscm").

        Parameters
        ----------
        moments : Moments
            Statistics of all rows, merged.

        Returns
        -------
        self
        """
        parameters = self.get_params(deep=False)
        check_classifier(parameters)
        if why_rows(self):
            raise ValueError(f"fit_moments: {why_rows(self)}")
        if len(moments.classes) < 2:
            raise ValueError(f"the moments have {len(moments.classes)} classes; 2 are needed.")
        check_mark(moments, self.unlabeled)
        self._forget()
        self.model_ = fit_moments(moments, settings_of(parameters))
        self._take_names(moments)
        return self

    # Fitted attributes ------------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """Label values."""
        return np.asarray(self.model_.classes)

    @property
    def Z_(self) -> NDArray[np.float64]:
        """The class predictor on denoised rows."""
        if self.model_.Z is None:
            raise AttributeError(f"Z_: classifier={self.classifier!r} has none.")
        return self.model_.Z

    @property
    def coef_(self) -> NDArray[np.float64]:
        """(W Z)ᵀ; one row for two classes."""
        return self._linear("coef_", self.model_.coef)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercept of the scores; one value for two classes."""
        return self._linear("intercept_", self.model_.intercept)

    def _linear(self, name: str, full: NDArray[np.float64] | None) -> NDArray[np.float64]:
        model = self.model_
        if full is not None:
            return full[1:, ...] if len(self.classes_) == 2 else full
        why = (
            "several layers are not linear"
            if len(model.layers) > 1
            else "scores of normalised rows are not linear"
            if model.classifier is None
            else f"classifier={self.classifier!r} has none"
        )
        raise AttributeError(f"{name}: {why}.")

    @property
    def classifier_(self) -> Any:
        """The fitted classifier, if it is not "ridge"."""
        if self.model_.classifier is None:
            raise AttributeError("classifier_: 'ridge' is Z_.")
        return self.model_.classifier

    def _training(self, name: str) -> SelfTraining:
        if self.model_.training is None:
            raise AttributeError(f"{name}: the classifier was not fitted on features.")
        return self.model_.training

    @property
    def rounds_(self) -> list[Any]:
        """What every round of self-training kept and changed."""
        return self._training("rounds_").rounds

    @property
    def source_skill_(self) -> float:
        """How well the source predicts left-out rows of itself, from 0 (chance) to 1."""
        return _asked("source_skill_", self._training("source_skill_").source_skill)

    @property
    def target_skill_(self) -> float:
        """The same of target rows before any round, estimated without their labels."""
        return _asked("target_skill_", self._training("target_skill_").target_skill)

    @property
    def target_shares_(self) -> NDArray[np.float64]:
        """Class shares of the target for which sources were centred."""
        return _asked("target_shares_", self._training("target_shares_").target_shares)

    # Predictions ------------------------------------------------------------------------------

    @available_if(_has("decision_function"))
    @lazy_on_dask
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of rows; for two classes, those of the second.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        scores : array of shape (n_rows,) with two classes, else (n_rows, n_classes)
        """
        X, model = self._new_rows(X, "decision_function"), self.model_
        if model.classifier is None:
            scores = model.scores(X)
            return scores[:, 1] if len(self.classes_) == 2 else scores
        found: NDArray[Any] = model.classifier.decision_function(model.features(X))
        return found

    @available_if(_has("predict_proba"))
    @lazy_on_dask
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of classes: a softmax of the ridge scores, or the classifier's own.

        They are not calibrated; those of `MDAClassifierCV` are.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        P : array of shape (n_rows, n_classes)
            In the order of `classes_`; every row adds up to 1.
        """
        X, model = self._new_rows(X, "predict_proba"), self.model_
        if model.classifier is None:
            return softmax(model.scores(X))
        found: NDArray[Any] = model.classifier.predict_proba(model.features(X))
        return found

    @lazy_on_dask
    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_rows, n_features)
            Rows, of the target as a rule.

        Returns
        -------
        y : array of shape (n_rows,)
        """
        X, model = self._new_rows(X, "predict"), self.model_
        if model.classifier is None:
            return labels_at(self.classes_, argmax(model.scores(X)))
        found: NDArray[Any] = model.classifier.predict(model.features(X))
        return found

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

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write one ONNX graph: preprocessing (if any), denoising, classifier.

        Parameters
        ----------
        path : path
            Replaced only once the file is complete. The graph takes float64 rows "X" and gives
            "label", "scores" (as `decision_function`) and "probabilities".
        """
        from marda.persist.onnx import export

        export(self, path)


def _asked(name: str, value: T | None) -> T:
    if value is None:
        raise AttributeError(f'{name}: only "auto" asks for it.')
    return value


def _check_labels(y: Any) -> None:
    if y is None:
        raise ValueError("MDAClassifier requires y to be passed, but the target y is None.")


# Fits with more to say than `fit` ---------------------------------------------------------------


def training_rows(
    estimator: MDAClassifier, X: Any, y: Any, *, sample_domain: Any = None
) -> TrainingRows:
    """Rows, labels and domains as `fit` takes them, checked."""
    X, labels, domain = check_rows(estimator, X, y, sample_domain)
    if not learns_from_features(estimator.get_params(deep=False)):
        return TrainingRows(X, labels, domain, ordered=False)
    # Draws, neighbours and rounds would depend on the order of rows.
    order = row_order(X, domain, labels.codes)
    return TrainingRows(X[order], labels._replace(codes=labels.codes[order]), domain[order])


def fit_rows(
    estimator: MDAClassifier, rows: TrainingRows, shared: Shared | None = None
) -> MDAClassifier:
    """Fit on checked rows; models of the same rows that are given one `Shared` share what they can.

    `fit_rows(model, training_rows(model, X, y, sample_domain=domain), shared)` is `fit`.
    """
    seed = seed_of(estimator.random_state)
    settings = settings_of(estimator.get_params(deep=False), seed=seed)
    estimator.model_ = fit_model(rows, settings, shared)
    return estimator


def fit_scored_rows(
    estimator: MDAClassifier, rows: TrainingRows, shared: Shared | None = None
) -> tuple[MDAClassifier, NDArray[np.float64]]:
    """The same, and the scores of the target rows (of all rows, if there is no target)."""
    seed = seed_of(estimator.random_state)
    settings = settings_of(estimator.get_params(deep=False), seed=seed)
    estimator.model_, scores = fit_and_score(rows, settings, shared)
    return estimator, scores


def labelled_accuracy(classifier: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Accuracy of a classifier on the rows that carry a label; marked rows are left out."""
    check_indexes(X=X, y=y, sample_weight=sample_weight)
    y = np.asarray(column_or_1d(to_numpy(y)))
    check_consistent_length(X, y, sample_weight)
    marked = is_marked(y, classifier.unlabeled)
    marked &= ~np.isin(y, classifier.classes_) if y.dtype.kind != "O" else marked
    if marked.all():
        raise ValueError("no row of y carries a label: there is nothing to score.")
    keep = np.flatnonzero(~marked)
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight)[keep]
    X = rows_at(X, keep) if is_followed(X) else _safe_indexing(X, keep)
    predicted = to_numpy(classifier.predict(X))
    return float(accuracy_score(y[keep], predicted, sample_weight=sample_weight))
