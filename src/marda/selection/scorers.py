"""Label-free criteria as scikit-learn scorers: higher is better, and no target label is read.

Every scorer follows one protocol, `Criterion`: `criterion(estimator, X, y, sample_domain=…)` is the
score of a fitted estimator. In `GridSearchCV` and `cross_validate`, scikit-learn calls it on
held-out rows and hands `sample_domain` over by metadata routing
(`sklearn.set_config(enable_metadata_routing=True)`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from marda._order import row_order
from marda._pack import pack
from marda._validation import check_domains
from marda.criteria import (
    check_probabilities,
    density_ratio,
    dev_risk,
    entropy,
    importance_weighted,
    mutual_information,
    neighbour_agreement,
    proxy_a_distance,
    soft_neighbourhood_density,
)

# What a scorer sees: rows of one side, and a fitted estimator of marda, scikit-learn or skada -----


class SideRows(NamedTuple):
    """Rows of all sources or all targets; labels of source rows alone, where they are needed."""

    X: Any
    y: NDArray[Any]
    domain: NDArray[np.int64]


def split_rows(
    scorer: str, X: Any, y: Any, sample_domain: Any, *, labels: bool
) -> tuple[SideRows, SideRows]:
    """Source rows and target rows; the labels of target rows stay where they are."""
    if sample_domain is None:
        raise ValueError(
            f"{scorer} needs sample_domain to tell target rows from source rows: pass it to fit "
            "under sklearn.set_config(enable_metadata_routing=True), or to the scorer itself."
        )
    domain = check_domains(sample_domain, X.shape[0], both=False)
    # In an order of their own: what scorers draw does not depend on how rows came.
    known = np.asarray(column_or_1d(y)) if labels and y is not None else np.empty(0)
    order = _order(X, domain, *([_codes(known)] if len(known) == len(domain) else []))
    source, target = order[domain[order] >= 0], order[domain[order] < 0]
    for name, rule, missing in (
        ("target", "below 0", not len(target)),
        ("source", "at least 0", labels and not len(source)),
    ):
        if missing:
            raise ValueError(
                f"{scorer} needs {name} rows (sample_domain {rule}), got none among "
                f"{X.shape[0]} rows: split rows so that every part has some of both domains."
            )
    if labels and y is None:
        raise ValueError(f"{scorer} needs the labels of source rows, got y=None.")
    return (
        SideRows(_safe_indexing(X, source), known[source] if labels else known, domain[source]),
        SideRows(_safe_indexing(X, target), np.empty(0), domain[target]),
    )


def _codes(y: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers that tell labels apart, of whatever kind they and their marks are."""
    return np.unique([str(value) for value in y.tolist()], return_inverse=True)[1].ravel()


def _order(X: Any, *keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of rows that an estimator may still have to turn into numbers."""
    rows = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "iufb":
        return np.arange(X.shape[0])
    return row_order(rows, *keys)


class ScoredEstimator:
    """An estimator asked for labels, probabilities and features of rows of one side."""

    def __init__(self, estimator: Any, scorer: str):
        self.estimator = estimator
        self.scorer = scorer

    def fit_reversed(
        self, source: SideRows, target: SideRows, labels: NDArray[Any]
    ) -> ScoredEstimator:
        """A clone that learns from target rows with these labels; source rows have none.

        An estimator that takes no domains learns from the target rows alone.
        """
        turned = ScoredEstimator(clone(self.estimator), self.scorer)
        domain = -1 - np.concatenate([target.domain, source.domain])
        domains = _metadata(turned.estimator, "fit", domain)
        if domains:
            X, y, _ = pack(target.X, labels, source.X, unlabeled=self.mark)
        else:
            X, y = target.X, labels
        turned.estimator.fit(X, y, **domains)
        return turned

    @property
    def mark(self) -> Any:
        """The mark of rows without a label that the estimator (or a step of it) goes by."""
        params = self.estimator.get_params().items()
        marks = [value for name, value in params if name.rpartition("__")[2] == "unlabeled"]
        return marks[-1] if marks else -1

    def labels(self, rows: SideRows) -> NDArray[Any]:
        """Predicted labels."""
        known = _metadata(self.estimator, "predict", rows.domain)
        return np.asarray(self.estimator.predict(rows.X, **known))

    def probabilities(self, rows: SideRows) -> NDArray[np.float64]:
        """Predicted probabilities."""
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"{self.scorer} needs predict_proba, which {_name(self.estimator)} does not have: "
                "use a classifier with probabilities, or a criterion that reads labels alone."
            )
        known = _metadata(self.estimator, "predict_proba", rows.domain)
        return check_probabilities(self.estimator.predict_proba(rows.X, **known))

    def log_losses(self, rows: SideRows) -> NDArray[np.float64]:
        """−log P of each row's own label; a label the estimator never saw has P = 0 (cut)."""
        P, classes = self.probabilities(rows), _classes(self.estimator)
        place = np.searchsorted(classes, rows.y)
        place[place == len(classes)] = 0
        own = np.where(classes[place] == rows.y, P[np.arange(len(P)), place], 0.0)
        tiny = np.finfo(np.float64).eps
        return np.asarray(-np.log(np.clip(own, tiny, 1.0)))

    def features(self, rows: SideRows, which: str) -> Any:
        """Rows as they come, or as the last step that transforms leaves them: array or CSR."""
        if which not in ("input", "transform"):
            raise ValueError(f"features must be 'input' or 'transform', got {which!r}.")
        X = rows.X
        transformer = _transformer(self.estimator) if which == "transform" else None
        if transformer is not None:
            X = transformer.transform(X, **_metadata(transformer, "transform", rows.domain))
        return sp.csr_array(X) if sp.issparse(X) else np.asarray(X)


def _transformer(estimator: Any) -> Any:
    """The estimator, or the longest head of a pipeline that can transform; None: there is none."""
    if isinstance(estimator, Pipeline):
        for end in range(len(estimator), 0, -1):
            if hasattr(estimator[:end], "transform"):
                return estimator[:end]
        return None
    return estimator if hasattr(estimator, "transform") else None


def _classes(estimator: Any) -> NDArray[Any]:
    """Labels of the columns of predict_proba."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    # skada wraps each step in a selector, which does not show the classes of what it holds.
    return np.asarray(getattr(last, "base_estimator_", last).classes_)


def _metadata(estimator: Any, method: str, domain: NDArray[np.int64]) -> dict[str, Any]:
    """What the method takes of `sample_domain` and skada's leave to predict source rows."""
    offered = {"sample_domain": domain, "allow_source": True}
    wanted = _consumed(estimator, method)
    if wanted and isinstance(estimator, Pipeline) and not _routing():
        raise ValueError(
            f"{method} of this pipeline takes sample_domain by metadata routing, which is off: "
            "call sklearn.set_config(enable_metadata_routing=True)."
        )
    return {name: value for name, value in offered.items() if name in wanted}


def _routing() -> bool:
    return bool(sklearn.get_config()["enable_metadata_routing"])


def _consumed(estimator: Any, method: str) -> set[str]:
    routing = get_routing_for_object(estimator)
    return set(routing.consumes(method, ["sample_domain", "allow_source"]))


def _name(estimator: Any) -> str:
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__name__


# Scorers ------------------------------------------------------------------------------------------


class Criterion(Protocol):
    """What every scorer here is, and what a search may be given instead.

    `estimator` is fitted; `y` is read for source rows only, and marks target rows without a label
    as `pack` does; `sample_domain` is at least 0 for source rows and below 0 for target rows. The
    result is a finite number, higher is better.
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


#: Names that `get_criterion` (and every `scoring` of marda) knows. `MDAClassifierCV` judges those
#: that stand in `search.TARGET_CRITERIA`, too, by the formula there, on probabilities of its own:
#: a softmax of standardised scores of target rows.
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
