"""Label-free criteria as scikit-learn scorers: higher is better, and no target label is read.

Every scorer follows one protocol, `Criterion`: `criterion(estimator, X, y, sample_domain=…)` is the
score of a fitted estimator. In `GridSearchCV` and `cross_validate`, scikit-learn calls it on
held-out rows and hands `sample_domain` over by metadata routing
(`sklearn.set_config(enable_metadata_routing=True)`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from marda.criteria import (
    density_ratio,
    dev_risk,
    entropy,
    importance_weighted,
    mutual_information,
    neighbour_agreement,
    proxy_a_distance,
    soft_neighbourhood_density,
)
from marda.selection.scored import ScoredEstimator, SideRows, split_rows

__all__ = [
    "CRITERIA",
    "Criterion",
    "DeepEmbeddedScorer",
    "ImportanceWeightedScorer",
    "MutualInformationScorer",
    "NeighbourAgreementScorer",
    "PredictionEntropyScorer",
    "ProxyADistanceScorer",
    "ReverseValidationScorer",
    "Scorer",
    "SoftNeighbourhoodDensityScorer",
    "get_criterion",
]


class Criterion(Protocol):
    """What every scorer here is, and what a search may be given instead.

    `estimator` is fitted; `y` is read for source rows only; `sample_domain` is at least 0 for
    source rows and below 0 for target rows. The result is a finite number, higher is better.
    """

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, *, sample_domain: Any = None
    ) -> float:
        """Score a fitted estimator on rows of source and target."""
        ...


class Scorer(BaseEstimator, ABC):
    """Parameters, routing and the split of rows by domain."""

    #: Whether labelled source rows are needed.
    _reads_source = False

    def get_metadata_routing(self) -> MetadataRequest:
        """Every scorer asks for `sample_domain`."""
        request = MetadataRequest(owner=type(self).__name__)
        request.score.add_request(param="sample_domain", alias=True)
        return request

    def __call__(
        self, estimator: Any, X: Any, y: Any = None, *, sample_domain: Any = None
    ) -> float:
        """Score a fitted estimator; higher is better.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier or pipeline.
        X : array, sparse matrix or table of shape (n_rows, n_features)
            Rows of all domains.
        y : array of shape (n_rows,), default=None
            Labels; those of target rows are never read.
        sample_domain : array of int of shape (n_rows,)
            At least 0 for a source, below 0 for a target.

        Returns
        -------
        float
        """
        name = type(self).__name__
        source, target = split_rows(name, X, y, sample_domain, labels=self._reads_source)
        return (
            float(self._score(ScoredEstimator(estimator, name), source, target)) + 0.0
        )  # no "-0.0"

    @abstractmethod
    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        """The criterion."""


class PredictionEntropyScorer(Scorer):
    """Minus the mean entropy of target predictions.

    High for confident predictions, right or wrong.
    """

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        return -entropy(model.probabilities(target))


class MutualInformationScorer(Scorer):
    """Mutual information of target rows and predicted classes.

    High for predictions that are confident row by row and balanced over classes.
    """

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        return mutual_information(model.probabilities(target))


class SoftNeighbourhoodDensityScorer(Scorer):
    """Soft neighbourhood density of target predictions (Saito et al., 2021).

    Parameters
    ----------
    temperature : float, default=0.05
        The lower, the closer a neighbour must be to count.
    max_rows : int, default=5000
        Above it, a seeded sample of that many rows.
    random_state : int, RandomState or None, default=0
        Draws the sample.
    """

    def __init__(
        self, *, temperature: float = 0.05, max_rows: int = 5000, random_state: Any = 0
    ) -> None:
        self.temperature = temperature
        self.max_rows = max_rows
        self.random_state = random_state

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        return soft_neighbourhood_density(
            model.probabilities(target),
            temperature=self.temperature,
            max_rows=self.max_rows,
            random_state=self.random_state,
        )


class _SourceRiskScorer(Scorer):
    """A risk on held-out source rows, weighted to the target."""

    _reads_source = True

    def __init__(self, *, loss: str, features: str, seed: int) -> None:
        self.loss = loss
        self.features = features
        self.seed = seed

    def _losses_and_weights(
        self, model: ScoredEstimator, source: SideRows, target: SideRows
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.loss == "zero_one":
            losses = (model.labels(source) != source.y).astype(np.float64)
        elif self.loss == "log":
            losses = model.log_losses(source)
        else:
            raise ValueError(f"loss must be 'zero_one' or 'log', got {self.loss!r}.")
        Fs, Ft = (model.features(rows, self.features) for rows in (source, target))
        return losses, density_ratio(Fs, Ft, seed=self.seed)


class ImportanceWeightedScorer(_SourceRiskScorer):
    """Minus the risk on source rows, weighted by density ratio (Sugiyama et al., 2007).

    Parameters
    ----------
    loss : {"zero_one", "log"}, default="zero_one"
        Loss of a row.
    features : {"input", "transform"}, default="input"
        Where domains are compared: rows as they come, the same for every candidate, or the
        estimator's own features.
    seed : int, default=0
        Draws rows and folds of the domain classifier.
    """

    def __init__(self, *, loss: str = "zero_one", features: str = "input", seed: int = 0) -> None:
        super().__init__(loss=loss, features=features, seed=seed)

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        return -importance_weighted(*self._losses_and_weights(model, source, target))


class DeepEmbeddedScorer(_SourceRiskScorer):
    """Minus the weighted source risk with a control variate (DEV; You et al., 2019).

    Parameters
    ----------
    loss : {"zero_one", "log"}, default="log"
        Loss of a row.
    features : {"input", "transform"}, default="transform"
        Where domains are compared: rows as they come, or the estimator's own features (its
        `transform`, or that of the last step of a pipeline that has one).
    seed : int, default=0
        Draws rows and folds of the domain classifier.
    """

    def __init__(self, *, loss: str = "log", features: str = "transform", seed: int = 0) -> None:
        super().__init__(loss=loss, features=features, seed=seed)

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        return -dev_risk(*self._losses_and_weights(model, source, target))


class ReverseValidationScorer(Scorer):
    """Balanced accuracy on source rows of the same model, fitted the other way round.

    A clone learns from target rows with their predicted labels and treats source rows as the
    unlabelled target (Bruzzone & Marconcini, 2010). It costs one more fit.
    """

    _reads_source = True

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        guessed = model.labels(target)
        if len(np.unique(guessed)) == 1:  # nothing to learn; the way back knows one class, too
            back = np.full(len(source.y), guessed[0])
        else:
            turned = model.fit_reversed(source, target, guessed)
            back = turned.labels(source._replace(domain=-1 - source.domain))
        return float(np.mean([(back[source.y == c] == c).mean() for c in np.unique(source.y)]))


class ProxyADistanceScorer(Scorer):
    """Minus the proxy A-distance between source and target in the estimator's features.

    Parameters
    ----------
    seed : int, default=0
        Draws rows and folds of the domain classifier.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        Fs, Ft = (model.features(rows, "transform") for rows in (source, target))
        return -proxy_a_distance(Fs, Ft, seed=self.seed)


class NeighbourAgreementScorer(Scorer):
    """Do a target row's nearest neighbours in the input get its predicted label?

    Corrected for class shares: 0 is chance (and one class for every row), 1 full agreement.

    Parameters
    ----------
    k : int, default=10
        Neighbours per row.
    max_rows : int, default=5000
        Above it, a seeded sample of that many rows.
    random_state : int, RandomState or None, default=0
        Draws the sample.
    """

    def __init__(self, *, k: int = 10, max_rows: int = 5000, random_state: Any = 0) -> None:
        self.k = k
        self.max_rows = max_rows
        self.random_state = random_state

    def _score(self, model: ScoredEstimator, source: SideRows, target: SideRows) -> float:
        agreement = neighbour_agreement(
            model.features(target, "input"),
            model.labels(target),
            self.k,
            max_rows=self.max_rows,
            random_state=self.random_state,
        )
        return agreement.value


#: Names that `get_criterion` (and every `scoring` of marda) knows.
CRITERIA: dict[str, type[Scorer]] = {
    "entropy": PredictionEntropyScorer,
    "mutual_information": MutualInformationScorer,
    "snd": SoftNeighbourhoodDensityScorer,
    "iwv": ImportanceWeightedScorer,
    "dev": DeepEmbeddedScorer,
    "reverse": ReverseValidationScorer,
    "proxy_a": ProxyADistanceScorer,
    "neighbours": NeighbourAgreementScorer,
}


def get_criterion(name: Any) -> Criterion:
    """A criterion by its name, with its defaults; a callable is returned as it is.

    Parameters
    ----------
    name : str or callable
        One of "entropy", "mutual_information", "snd", "iwv", "dev", "reverse", "proxy_a" and
        "neighbours", or a function that follows `Criterion`.

    Returns
    -------
    callable
    """
    if isinstance(name, str) and name in CRITERIA:
        return CRITERIA[name]()
    if not isinstance(name, str) and callable(name):
        criterion: Criterion = name
        return criterion
    raise ValueError(
        f"scoring must be one of {', '.join(map(repr, CRITERIA))} or a scorer, got {name!r}."
    )
