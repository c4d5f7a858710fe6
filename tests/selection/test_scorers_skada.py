"""Under skada's pipelines, and next to its scorers where the definitions are the same."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

from marda import MDAClassifier, criteria, pack
from marda.datasets import make_shift
from marda.selection import (
    CRITERIA,
    PredictionEntropyScorer,
    ReverseValidationScorer,
    SoftNeighbourhoodDensityScorer,
    get_criterion,
)

_config = sklearn.get_config()
skada = pytest.importorskip("skada")
metrics = pytest.importorskip("skada.metrics")
sklearn.set_config(**_config)  # skada switches routing on for the whole process


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def packed():
    data = make_shift("rotation", shift=0.6, n_source=120, n_target=90, n_features=8, seed=0)
    return pack(data["source"].X, data["source"].y, data["target"].X)


def fitted(packed, *steps):
    X, y, domain = packed
    pipe = skada.make_da_pipeline(StandardScaler(), *steps)
    return pipe.fit(X, y.copy(), sample_domain=domain)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize(
    "adapter", ["CORALAdapter", "SubspaceAlignmentAdapter", "LinearOTMappingAdapter", "MDA"]
)
def test_skada_pipelines(name, adapter, packed):
    X, y, domain = packed
    if adapter == "MDA":
        pipe = fitted(packed, MDAClassifier("S1M"))
    else:
        pipe = fitted(packed, getattr(skada, adapter)(), LogisticRegression())
    score = get_criterion(name)(pipe, X, y, sample_domain=domain)
    assert np.isfinite(score)


def test_entropy_agrees(packed):
    X, y, domain = packed
    pipe = fitted(packed, LogisticRegression())
    ours = PredictionEntropyScorer()(pipe, X, y, sample_domain=domain)
    theirs = metrics.PredictionEntropyScorer()(pipe, X, y, sample_domain=domain)
    assert ours == pytest.approx(2 * theirs)  # theirs is a mean over rows and classes


def test_soft_neighbourhood_density_agrees(packed):
    X, y, domain = packed
    pipe = fitted(packed, LogisticRegression())
    ours = SoftNeighbourhoodDensityScorer()(pipe, X, y, sample_domain=domain)
    theirs = metrics.SoftNeighborhoodDensity()(pipe, X, y, sample_domain=domain)
    assert ours == pytest.approx(theirs)


def test_reverse_validation_agrees(packed):
    X, y, domain = packed
    pipe = fitted(packed, skada.CORALAdapter(), LogisticRegression())
    ours = ReverseValidationScorer()(pipe, X, y, sample_domain=domain)
    theirs = metrics.CircularValidation()(pipe, X, y, sample_domain=domain)
    assert ours == pytest.approx(theirs)


def test_importance_weighting_agrees(packed):
    # The weights differ (kernel densities there), the risk does not.
    X, y, domain = packed
    source = domain >= 0
    pipe = fitted(packed, LogisticRegression().set_score_request(sample_weight=True))
    theirs = metrics.ImportanceWeightedScorer()(pipe, X, y, sample_domain=domain)
    log_source, log_target = (
        KernelDensity().fit(rows).score_samples(X[source]) for rows in (X[source], X[~source])
    )
    predicted = pipe.predict(X[source], sample_domain=domain[source], allow_source=True)
    risk = criteria.importance_weighted(predicted != y[source], np.exp(log_target - log_source))
    assert 1 - risk == pytest.approx(theirs)


def test_deep_embedded_validation_agrees(packed):
    X, y, domain = packed
    seen = {}

    class Domains(LogisticRegression):
        def predict_proba(self, F):
            seen["P"] = super().predict_proba(F)
            return seen["P"]

    def column(truth, P):
        # As a column: a flat vector of losses is spread over a square there.
        seen["losses"] = -np.log(P[np.arange(len(truth)), truth])
        return seen["losses"][:, None]

    scorer = metrics.DeepEmbeddedValidation(Domains(), loss_func=column, random_state=0)
    theirs = scorer(fitted(packed, LogisticRegression()), X, y, sample_domain=domain)
    n_train, n_target = 80, 90  # two thirds of 120 source rows
    weights = n_train / n_target * seen["P"][:, 0] / seen["P"][:, 1]
    assert -criteria.dev_risk(seen["losses"], weights) == pytest.approx(theirs)
