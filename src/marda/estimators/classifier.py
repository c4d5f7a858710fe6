"""`MDAClassifier`: denoised features and a classifier for the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from marda._order import row_order, seed_of
from marda._validation import UNLABELED, Labels
from marda.estimators._base import BaseMDA
from marda.estimators._files import OnnxFiles
from marda.estimators._parameters import with_parameters
from marda.estimators._score import LabelledScore
from marda.estimators.dscm import DSCM
from marda.estimators.kernel import GaussianRidge
from marda.estimators.self_labelling import SelfLabelling
from marda.estimators.streaming import Streaming, lazy_on_dask
from marda.estimators.transformer import FeatureNames
from marda.moments import Moments, accumulate
from marda.moments.batches import is_dask
from marda.noise import Dropout
from marda.operators.linear import DenseGram
from marda.operators.rows import Rows
from marda.problem import Problem, Settings
from marda.solve import Solution, solve
from marda.terms import parse_method

__all__ = ["MDAClassifier"]


def _has(name: str) -> Any:
    def check(self: MDAClassifier) -> bool:
        if isinstance(self.classifier, str):
            return name != "decision_function" or self.classifier != "nn"
        return hasattr(getattr(self, "classifier_", self.classifier), name)

    return check


@with_parameters
class MDAClassifier(
    LabelledScore, ClassifierMixin, OnnxFiles, SelfLabelling, Streaming, FeatureNames, BaseMDA
):
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
        Rounds of self-labelling: the most confident target rows of every predicted class join the
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
        What every round of self-labelling kept and changed.
    source_skill_ : float
        With "auto": κ, from 0 (chance) to 1, how well the source predicts left-out rows of itself.
    target_skill_ : float
        With refine="auto": the same of target rows before any round, estimated without their
        labels: κ times how much less models of thirds of the source agree there.
    target_shares_ : array of shape (n_classes,)
        With refine="auto": class shares of the target for which sources were centred.
    W_, offset_, loss_curve_, n_iter_, residual_, setting_, solver_, domains_
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
            At least 0 for a source, below 0 for a target. None: one domain, no domain terms.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError("MDAClassifier requires y to be passed, but the target y is None.")
        if is_dask(X):
            self._check_classifier()
            return self._fit_dask(X, y, sample_domain)
        self._end_stream()
        X, labels, domain = self._check_rows(X, y, sample_domain)
        self._ordered = self._on_rows
        if self._ordered:  # draws, neighbours and rounds would depend on the order of rows
            order = row_order(X, domain, labels.codes)
            X, domain = X[order], domain[order]
            labels = labels._replace(codes=labels.codes[order])
        return self._fit_checked(X, labels, domain)

    def _fit_checked(self, X: Any, labels: Labels, domain: NDArray[np.int64]) -> Self:
        """Learn from rows, coded labels and domains that have been checked."""
        self._check_classifier()
        if len(labels.classes) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got one class: {labels.classes.tolist()}."
            )
        self._forget()
        self._seed = seed_of(self.random_state)
        self._set_seen(X, labels, domain)
        self.classes_ = labels.classes
        model = parse_method(self.method)
        if self.refine != 0 and self.setting_ == "US":
            model = replace(model, class_mmd=False)  # until there are self-labelled rows
        predictor = self._is_ridge and not self._on_rows
        solution = self._fit_layers(X, labels, domain, predictor, model)
        if len(self._layers) == 1:
            self._set_linear(solution)
        if self._on_rows:
            self._fit_on_rows(X, labels, domain)
        elif len(self._layers) > 1:
            known = labels.codes != UNLABELED
            self._fit_ridge(self._features(X[known]), labels.codes[known], domain[known])
        return self

    def _forget(self) -> None:
        """Drop what an earlier fit with other parameters may have left."""
        left = (
            *("_scores_coef", "_scores_intercept", "Z_", "_z0", "classifier_", "preprocessing_"),
            *("rounds_", "source_skill_", "target_skill_", "target_shares_", "_left_out"),
        )
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
        if self._why_rows():
            raise ValueError(f"fit_moments: {self._why_rows()}")
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
            known = self.classifier in ("ridge", "kernel", "nn", "dscm")
        else:
            known = isinstance(self.classifier, BaseEstimator) and is_classifier(self.classifier)
        if not known:
            raise ValueError(
                "classifier must be 'ridge', 'kernel', 'nn', 'dscm' or a scikit-learn classifier, "
                f"got {self.classifier!r}."
            )
        self._check_refine()

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
        groups = moments.row_groups(domain, codes)
        problem = Problem(moments, settings, solver, weights, X=H, row_groups=groups)
        solution = solve(problem, parse_method("BL"), predictor=True)
        solution.check()
        self.residual_ = max(self.residual_, solution.residual)
        self.Z_, self._z0 = solution.Z, solution.predictor_intercept()

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
        return np.asarray(full[1:] if len(self.classes_) == 2 else full)

    def _check_linear(self, name: str) -> None:
        if not hasattr(self, "_scores_coef"):
            why = (
                "several layers are not linear"
                if getattr(self, "n_layers", 1) > 1
                else "scores of normalised rows are not linear"
                if self._is_ridge
                else f"classifier={self.classifier!r} has none"
            )
            raise AttributeError(f"{name}: {why}.")

    # Predictions ------------------------------------------------------------------------------

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Ridge scores, one column a class."""
        if not hasattr(self, "_scores_coef"):
            return np.asarray(self._features(X) @ self.Z_ + self._z0, dtype=np.float64)
        # In float64 whatever the rows are; float32 rows are cast a block at a time.
        return np.asarray(Rows(X).dot(self._scores_coef.T) + self._scores_intercept)

    def _class_scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of checked rows, one column a class, whatever the classifier."""
        if self._is_ridge:
            return self._scores(X)
        return self._feature_scores(self._features(X))

    def _feature_scores(self, F: Any) -> NDArray[np.float64]:
        """The same from features, for classifiers that see them."""
        fitted = self.classifier_
        if isinstance(fitted, GaussianRidge):
            return fitted._scores(F)
        if isinstance(fitted, DSCM):
            return np.asarray(fitted._log_scores(F))
        if hasattr(fitted, "decision_function"):
            values = np.asarray(fitted.decision_function(F), dtype=np.float64)
            return np.asarray(values if values.ndim == 2 else np.stack([-values, values], 1))
        return np.asarray(fitted.predict_proba(F), dtype=np.float64)

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
