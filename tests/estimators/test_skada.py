"""Inside skada's pipelines, and under its label-free scorers."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from marda import DSCM, MDA, MDAClassifier
from problems import make_case, relative

_config = sklearn.get_config()
skada = pytest.importorskip("skada")
metrics = pytest.importorskip("skada.metrics")
sklearn.set_config(**_config)  # skada switches routing on for the whole process


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def full():
    """Rows with every true label, as skada gives them; it masks those of the target itself."""
    case = make_case("SUP", seed=1)
    return case._replace(domain=np.where(case.domain < 0, -2, 1))  # skada's own numbers


@pytest.fixture
def blind(full):
    return np.where(full.domain < 0, -1, full.codes)


@pytest.mark.parametrize("method", ["BL", "S1D", "J12M"])
def test_classifier_unsupervised(method, full, blind):
    pipe = skada.make_da_pipeline(StandardScaler(), MDAClassifier(method))
    pipe.fit(full.X, full.codes.copy(), sample_domain=full.domain)  # skada masks y in place
    model = pipe[-1].base_estimator_
    assert model.setting_ == "US"
    scaled = StandardScaler().fit_transform(full.X)
    alone = MDAClassifier(method).fit(scaled, blind, sample_domain=full.domain)
    assert relative(model.coef_, alone.coef_) < 1e-10
    target = full.domain < 0
    predicted = pipe.predict(full.X[target], sample_domain=full.domain[target])
    np.testing.assert_array_equal(predicted, alone.predict(scaled[target]))
    np.testing.assert_array_equal(pipe.predict(full.X[target]), predicted)
    np.testing.assert_allclose(pipe.predict_proba(full.X[target]).sum(1), 1)
    accuracy = (predicted == full.codes[target]).mean()
    score = pipe.score(full.X[target], full.codes[target], sample_domain=full.domain[target])
    assert score == pytest.approx(accuracy)


@pytest.mark.parametrize("method", ["S1C", "J12C", "S1D"])
def test_classifier_semi_supervised(method, full):
    y = make_case("SS", seed=1).codes
    pipe = skada.make_da_pipeline(MDAClassifier(method), mask_target_labels=False)
    pipe.fit(full.X, y, sample_domain=full.domain)
    model = pipe[-1].base_estimator_
    assert model.setting_ == "SS"
    alone = MDAClassifier(method).fit(full.X, y, sample_domain=full.domain)
    assert relative(model.coef_, alone.coef_) < 1e-10
    target = full.domain < 0
    assert pipe.predict(full.X[target]).shape == (28,)


@pytest.mark.parametrize("method", ["S1D", "J12"])
def test_transformer(method, full, blind):
    pipe = skada.make_da_pipeline(MDA(method), LogisticRegression())
    pipe.fit(full.X, full.codes.copy(), sample_domain=full.domain)
    model = pipe[0].base_estimator_
    assert model.domains_.tolist() == [-2, 1]
    H = MDA(method).fit(full.X, blind, sample_domain=full.domain).transform(full.X)
    target = full.domain < 0
    inner = LogisticRegression().fit(H[~target], full.codes[~target])
    predicted = pipe.predict(full.X[target], sample_domain=full.domain[target])
    np.testing.assert_array_equal(predicted, inner.predict(H[target]))


def test_transformer_semi_supervised(full):
    y = make_case("SS", seed=1).codes
    pipe = skada.make_da_pipeline(MDA("S1C"), DSCM(), mask_target_labels=False)
    pipe.fit(full.X, y, sample_domain=full.domain)
    assert pipe[0].base_estimator_.setting_ == "SS"
    assert pipe[1].base_estimator_.mean_domains_.tolist() == [-2] * 3 + [1] * 3
    assert pipe.predict(full.X[full.domain < 0]).shape == (28,)


SCORERS = {
    "entropy": metrics.PredictionEntropyScorer,
    "density": metrics.SoftNeighborhoodDensity,
    "embedded": lambda: metrics.DeepEmbeddedValidation(random_state=0),
    "circular": metrics.CircularValidation,
    "mano": metrics.MaNoScorer,
    "mixval": lambda: metrics.MixValScorer(random_state=0),
    "importance": metrics.ImportanceWeightedScorer,
}


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("method", ["S1D", "J12"])
def test_label_free_scorers(name, method, full, blind):
    model = MDAClassifier(method)
    if name == "importance":
        model.set_score_request(sample_weight=True)
    pipe = skada.make_da_pipeline(model)
    pipe.fit(full.X, full.codes.copy(), sample_domain=full.domain)
    score = SCORERS[name]()(pipe, full.X, blind, sample_domain=full.domain)
    assert np.isfinite(score)


def test_scorers_choose_noise_in_a_search(full, blind):
    pipe = skada.make_da_pipeline(MDAClassifier("S1D"))
    search = GridSearchCV(
        pipe,
        {"mdaclassifier__noise": [0.1, 0.5]},
        scoring=metrics.PredictionEntropyScorer(),
        cv=skada.model_selection.StratifiedDomainShuffleSplit(2, test_size=0.3, random_state=0),
        error_score="raise",
    )
    search.fit(full.X, blind, sample_domain=full.domain)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    assert (
        search.best_estimator_[-1].base_estimator_.noise
        == search.best_params_["mdaclassifier__noise"]
    )
