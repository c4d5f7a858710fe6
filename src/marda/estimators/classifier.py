"""`MDAClassifier`: denoised features and a classifier for the target."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.metrics import accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from marda._validation import UNLABELED, Labels, is_marked
from marda.estimators._base import BaseMDA
from marda.estimators._files import OnnxFiles
from marda.estimators._parameters import with_parameters
from marda.estimators.dscm import DSCM
from marda.estimators.streaming import Streaming, lazy_on_dask
from marda.estimators.transformer import FeatureNames
from marda.moments import Moments, accumulate
from marda.moments._optional import is_dask
from marda.noise import Dropout
from marda.operators.linear import DenseGram
from marda.problem import Problem, Settings
from marda.solve import Solution

__all__ = ["MDAClassifier"]


def _has(name: str) -> Any:
    def check(self: MDAClassifier) -> bool:
        if isinstance(self.classifier, str):
            return name != "decision_function" or self.classifier != "nn"
        return hasattr(getattr(self, "classifier_", self.classifier), name)

    return check


@with_parameters
class MDAClassifier(ClassifierMixin, OnnxFiles, Streaming, FeatureNames, BaseMDA):
    """A classifier for the target, on features in which domains no longer differ.

    Learns W by marginalised denoising (see `MDA`) and a classifier on denoised rows X W, in
    sequence ("S1…") or jointly ("J12…"), from labelled source rows and target rows that carry few
    labels or none.

    Parameters
    ----------
    {parameters}
    classifier : {"ridge", "nn", "dscm"} or a scikit-learn classifier, default="ridge"
        "ridge" is Z of the framework; "nn" the nearest labelled row; "dscm" domain-specific class
        means; any other classifier is cloned and fitted on denoised labelled rows.
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
    W_, offset_, loss_curve_, n_iter_, setting_, solver_, domains_
        As in `MDA`.

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
        scaling: str = "balanced",
        fit_intercept: bool = True,
        class_weight: Any = None,
        classifier: Any = "ridge",
        n_layers: int = 1,
        activation: str = "tanh",
        concatenate: bool = True,
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
            scaling=scaling,
            fit_intercept=fit_intercept,
            class_weight=class_weight,
            n_layers=n_layers,
            activation=activation,
            concatenate=concatenate,
            solver=solver,
            n_pivots=n_pivots,
            max_iter=max_iter,
            tol=tol,
            unlabeled=unlabeled,
            random_state=random_state,
            verbose=verbose,
        )
        self.classifier = classifier

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
            At least 0 for a source, below 0 for a target. None: one domain, no domain terms.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("MDAClassifier requires y to be passed, but the target y is None.")
        self._check_classifier()
        if is_dask(X):
            return self._fit_dask(X, y, sample_domain)
        self._end_stream()
        X, labels, domain = self._check_rows(X, y, sample_domain)
        if len(labels.classes) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got one class: {labels.classes.tolist()}."
            )
        self.classes_ = labels.classes
        self._forget()
        solution = self._fit_layers(X, labels, domain, predictor=self._is_ridge)
        self._fit_classifier(X, labels, domain, solution)
        return self

    def _forget(self) -> None:
        """Drop what an earlier fit with other parameters may have left."""
        left = ("_scores_coef", "_scores_intercept", "Z_", "_z0", "classifier_", "preprocessing_")
        for name in left:
            self.__dict__.pop(name, None)

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
        self._check_classifier()
        if self.classifier not in ("ridge", "dscm"):
            raise ValueError(
                f"classifier={self.classifier!r} needs rows, which moments do not hold: use "
                "'ridge' or 'dscm'."
            )
        if len(moments.classes) < 2:
            raise ValueError(f"the moments have {len(moments.classes)} classes; 2 are needed.")
        self._end_stream()
        self._forget()
        self.classes_ = moments.classes
        solution = self._set_from_moments(moments, predictor=self._is_ridge)
        if self.classifier == "dscm":
            self.classifier_ = self._moments_dscm(moments)
        self._set_linear(solution)
        return self

    def _check_classifier(self) -> None:
        if isinstance(self.classifier, str):
            known = self.classifier in ("ridge", "nn", "dscm")
        else:
            known = isinstance(self.classifier, BaseEstimator) and is_classifier(self.classifier)
        if not known:
            raise ValueError(
                "classifier must be 'ridge', 'nn', 'dscm' or a scikit-learn classifier, got "
                f"{self.classifier!r}."
            )

    def _fit_classifier(
        self, X: Any, labels: Labels, domain: NDArray[np.int64], solution: Solution
    ) -> None:
        known = labels.codes != UNLABELED
        if len(self._layers) == 1:
            self._set_linear(solution)
        if self._is_ridge:
            if len(self._layers) > 1:
                self._fit_ridge(self._features(X[known]), labels.codes[known], domain[known])
            return
        H, codes = self._features(X[known]), labels.codes[known]
        y = labels.classes[codes]
        if isinstance(self.classifier, str) and self.classifier == "nn":
            self.classifier_ = KNeighborsClassifier(n_neighbors=1).fit(H, y)
        elif isinstance(self.classifier, str):
            sums = accumulate(H, labels.classes, codes, domain[known], grams=False)
            self.classifier_ = DSCM()._fit_sums(sums)
        else:
            self.classifier_ = self._clone_classifier()
            weights = {}
            if self.class_weight is not None and has_fit_parameter(
                self.classifier_, "sample_weight"
            ):
                weights["sample_weight"] = self._class_weights[codes]
            self.classifier_.fit(H, y, **weights)

    def _clone_classifier(self) -> Any:
        classifier = clone(self.classifier)
        if self.random_state is not None:
            params = classifier.get_params()
            if "random_state" in params and params["random_state"] is None:
                seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
                classifier.set_params(random_state=seed)
        return classifier

    def _fit_ridge(
        self, H: NDArray[Any], codes: NDArray[np.int64], domain: NDArray[np.int64]
    ) -> None:
        """Ridge on the concatenated layers: no noise, since it does not pass the activation."""
        moments = accumulate(H, self.classes_, codes, domain, grams=H.shape[0] > H.shape[1])
        settings = Settings(
            Dropout(0.0), ridge_class=float(self.ridge_class), fit_intercept=self.fit_intercept
        )
        solver = "primal" if H.shape[0] > H.shape[1] else "dual"
        weights = moments.class_weights(self.class_weight)
        problem = Problem(moments, settings, solver, weights, X=H, row_classes=codes)
        self.Z_, z0 = problem.identity_predictor
        self._z0 = z0 - problem.center @ self.Z_

    def _set_linear(self, solution: Solution) -> None:
        """Z, where the model has one: "ridge", and every joint method."""
        if solution.Z is None:
            return
        self.Z_ = solution.Z
        self._z0 = solution.predictor_intercept()
        if self._is_ridge:
            self._scores_coef, self._scores_intercept = solution.coef()

    def _moments_dscm(self, moments: Moments) -> DSCM:
        """Class means and τ from the labelled Gram (math.md §10)."""
        layer = self._layers[0]
        labelled = moments.labels != UNLABELED
        denoised = layer.map.apply(moments.means()[labelled])
        ones = np.ones(len(moments.classes))
        within = DenseGram(moments.scatter(moments.shift, ones))
        n, s = moments.counts[labelled], moments.sums[labelled]
        # Σ(x − μ)(x − μ)ᵀ over groups, then through W
        scatter = within.dense() - (s.T / n) @ s
        W = layer.map.dense()
        spread = float(np.vdot(W, scatter @ W)) / float(n.sum())
        dscm = DSCM()._set_means(moments, denoised, spread)
        dscm.n_features_in_ = denoised.shape[1]
        return dscm

    # Fitted attributes ------------------------------------------------------------------------

    @property
    def coef_(self) -> NDArray[np.float64]:
        """(W Z)ᵀ; one row for two classes."""
        self._check_linear("coef_")
        return self._scores_coef[1:] if len(self.classes_) == 2 else self._scores_coef

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercept of the scores; one value for two classes."""
        self._check_linear("intercept_")
        full = self._scores_intercept
        return full[1:] if len(self.classes_) == 2 else full

    def _check_linear(self, name: str) -> None:
        if not hasattr(self, "_scores_coef"):
            why = (
                "several layers are not linear"
                if getattr(self, "n_layers", 1) > 1
                else f"classifier={self.classifier!r} has none"
            )
            raise AttributeError(f"{name}: {why}.")

    # Predictions ------------------------------------------------------------------------------

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Ridge scores, one column a class."""
        if len(self._layers) > 1:
            return np.asarray(self._features(X) @ self.Z_ + self._z0, dtype=np.float64)
        coef = self._scores_coef.T.astype(X.dtype)
        return np.asarray(X @ coef + self._scores_intercept, dtype=np.float64)

    @available_if(_has("decision_function"))
    @lazy_on_dask
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of rows; for two classes, those of the second."""
        check_is_fitted(self)
        X = self._check_transform(X)
        if self._is_ridge:
            scores = self._scores(X)
            return scores[:, 1] if len(self.classes_) == 2 else scores
        return np.asarray(self.classifier_.decision_function(self._features(X)))

    @property
    def _is_ridge(self) -> bool:
        return isinstance(self.classifier, str) and self.classifier == "ridge"

    @available_if(_has("predict_proba"))
    @lazy_on_dask
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of classes: a softmax of the ridge scores, or the classifier's own."""
        check_is_fitted(self)
        X = self._check_transform(X)
        if self._is_ridge:
            return np.asarray(softmax(self._scores(X), axis=1))
        return np.asarray(self.classifier_.predict_proba(self._features(X)))

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
        check_is_fitted(self)
        X = self._check_transform(X)
        if self._is_ridge:
            return np.asarray(self.classes_[self._scores(X).argmax(1)])
        return np.asarray(self.classifier_.predict(self._features(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that carry a label; marked rows are left out."""
        y = np.asarray(column_or_1d(y))
        marked = is_marked(y, self.unlabeled)
        marked &= ~np.isin(y, self.classes_) if y.dtype.kind != "O" else marked
        if marked.all():
            raise ValueError("no row of y carries a label: there is nothing to score.")
        keep = np.flatnonzero(~marked)
        if sample_weight is not None:
            sample_weight = np.asarray(sample_weight)[keep]
        X = _safe_indexing(X, keep)
        return float(accuracy_score(y[keep], self.predict(X), sample_weight=sample_weight))
