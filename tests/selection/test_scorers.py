"""Every criterion as a scorer: searches, pipelines, what is read and what is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marda import MDAClassifier, criteria, pack
from marda.datasets import make_shift
from marda.selection import (
    CRITERIA,
    ImportanceWeightedScorer,
    NeighbourAgreementScorer,
    PredictionEntropyScorer,
    ReverseValidationScorer,
    SoftNeighbourhoodDensityScorer,
    get_criterion,
)

READS_SOURCE = ("iwv", "dev", "reverse")


@pytest.fixture(scope="module")
def data():
    return make_shift("rotation", shift=0.6, n_source=120, n_target=90, n_features=8, seed=0)


@pytest.fixture(scope="module")
def packed(data):
    return pack(data["source"].X, data["source"].y, data["target"].X)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Constant(ClassifierMixin, BaseEstimator):
    """The same probabilities for every row."""

    def __init__(self, probabilities=(0.5, 0.5)):
        self.probabilities = probabilities

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.tile(np.array(self.probabilities, dtype=float), (X.shape[0], 1))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("piped", [False, True])
def test_grid_search(name, piped, packed, routing):
    X, y, domain = packed
    model, prefix = MDAClassifier("S1D"), ""
    if piped:
        model, prefix = make_pipeline(StandardScaler(), model), "mdaclassifier__"
    search = GridSearchCV(
        model,
        {f"{prefix}noise": [0.1, 0.9], f"{prefix}method": ["S1", "S1M"]},
        scoring=get_criterion(name),
        cv=StratifiedKFold(2, shuffle=True, random_state=0),
        error_score="raise",
    ).fit(X, y, sample_domain=domain)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) > 1
    assert search.best_score_ == scores.max()
    again = get_criterion(name)(search.best_estimator_, X, y, sample_domain=domain)
    assert search.score(X, y, sample_domain=domain) == again


def test_several_criteria_at_once(packed, routing):
    X, y, domain = packed
    scorers = {name: get_criterion(name) for name in CRITERIA}
    together = cross_validate(
        MDAClassifier("S1"),
        X,
        y,
        scoring=scorers,
        params={"sample_domain": domain},
        cv=2,
        error_score="raise",
    )
    assert {f"test_{name}" for name in CRITERIA} <= set(together)
    assert all(np.isfinite(together[f"test_{name}"]).all() for name in CRITERIA)


@pytest.mark.parametrize("name", CRITERIA)
def test_target_labels_are_never_read(name, data, packed):
    X, y, domain = packed
    model = MDAClassifier("S1M").fit(X, y, sample_domain=domain)
    blind = get_criterion(name)(model, X, y, sample_domain=domain)
    told = np.where(domain < 0, np.concatenate([y[domain >= 0], data["target"].y]), y)
    wrong = np.where(domain < 0, 1 - told, told)
    for labels in (told, wrong):
        assert get_criterion(name)(model, X, labels, sample_domain=domain) == blind


@pytest.mark.parametrize("name", [n for n in CRITERIA if n not in READS_SOURCE])
def test_source_labels_are_not_needed(name, packed):
    X, y, domain = packed
    model = MDAClassifier("S1M").fit(X, y, sample_domain=domain)
    alone = get_criterion(name)(model, X, sample_domain=domain)
    assert alone == get_criterion(name)(model, X, y, sample_domain=domain)


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.parametrize("kind", ["sparse", "table", "strings"])
def test_forms_of_rows_and_labels(name, kind, packed):
    X, y, domain = packed
    model = MDAClassifier("S1M")
    plain = get_criterion(name)(model.fit(X, y, sample_domain=domain), X, y, sample_domain=domain)
    if kind == "sparse":
        # Sparse rows are scaled without centring, so domains are compared a little otherwise.
        X = sp.csr_array(X)
    elif kind == "table":
        X = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    else:
        names = np.array(["no", "yes"], dtype=object)
        y = np.array([None if label < 0 else names[label] for label in y], dtype=object)
    got = get_criterion(name)(
        clone(model).fit(X, y, sample_domain=domain), X, y, sample_domain=domain
    )
    tolerance = 0.2 if kind == "sparse" else 1e-8
    assert got == pytest.approx(plain, abs=tolerance)


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ((0.5, 0.5), {"entropy": -np.log(2), "mutual_information": 0.0, "neighbours": 0.0}),
        ((0.0, 1.0), {"entropy": 0.0, "mutual_information": 0.0, "reverse": 0.5}),
        ((1.0, 0.0), {"entropy": 0.0, "neighbours": 0.0, "reverse": 0.5}),
    ],
)
def test_degenerate_predictions(probabilities, expected, packed):
    X, y, domain = packed
    model = Constant(probabilities).fit(X[domain >= 0], y[domain >= 0])
    for name, value in expected.items():
        score = get_criterion(name)(model, X, y, sample_domain=domain)
        assert score == pytest.approx(value), name


def test_scorers_are_their_functions(packed):
    X, y, domain = packed
    model = MDAClassifier("S1M").fit(X, y, sample_domain=domain)
    target = domain < 0
    P = model.predict_proba(X[target])
    got = {name: get_criterion(name)(model, X, y, sample_domain=domain) for name in CRITERIA}
    H = model.transform(X)
    weights = [criteria.density_ratio(F[~target], F[target]) for F in (X, H)]
    wrong = model.predict(X[~target]) != y[~target]
    own = model.predict_proba(X[~target])[np.arange((~target).sum()), y[~target]]
    assert got["entropy"] == pytest.approx(-criteria.entropy(P))
    assert got["mutual_information"] == pytest.approx(criteria.mutual_information(P))
    assert got["snd"] == pytest.approx(criteria.soft_neighbourhood_density(P))
    assert got["iwv"] == pytest.approx(-criteria.importance_weighted(wrong, weights[0]))
    assert got["dev"] == pytest.approx(-criteria.dev_risk(-np.log(own), weights[1]))
    assert got["proxy_a"] == pytest.approx(-criteria.proxy_a_distance(H[~target], H[target]))
    labels = model.predict(X[target])
    assert got["neighbours"] == criteria.neighbour_agreement(X[target], labels).value


def test_reverse_validation_turns_the_task_round(packed):
    X, y, domain = packed
    model = MDAClassifier("S1M").fit(X, y, sample_domain=domain)
    target = domain < 0
    back = MDAClassifier("S1M").fit(
        *pack(X[target], model.predict(X[target]), X[~target])[:2],
        sample_domain=np.repeat([0, -1], [target.sum(), (~target).sum()]),
    )
    guessed = back.predict(X[~target])
    expected = np.mean([(guessed[y[~target] == c] == c).mean() for c in (0, 1)])
    got = ReverseValidationScorer()(model, X, y, sample_domain=domain)
    assert got == pytest.approx(expected)


def test_reverse_validation_goes_by_the_mark_of_the_estimator(packed):
    X, y, domain = packed
    y = np.where(domain < 0, 99, np.where(y == 0, -1, 1))
    model = MDAClassifier("S1M", unlabeled=99).fit(X, y, sample_domain=domain)
    got = ReverseValidationScorer()(model, X, y, sample_domain=domain)
    same = np.where(domain < 0, -1, (y + 1) // 2)
    usual = MDAClassifier("S1M").fit(X, same, sample_domain=domain)
    assert got == pytest.approx(ReverseValidationScorer()(usual, X, same, sample_domain=domain))


@pytest.mark.parametrize("name", CRITERIA)
def test_an_estimator_without_domains(name, packed):
    X, y, domain = packed
    model = make_pipeline(StandardScaler(), LogisticRegression())
    model.fit(X[domain >= 0], y[domain >= 0])
    assert np.isfinite(get_criterion(name)(model, X, y, sample_domain=domain))


def test_large_targets_are_sampled(monkeypatch, packed):
    X, y, domain = packed
    model = MDAClassifier("S1").fit(X, y, sample_domain=domain)
    seen = []

    def spy(name):
        function = getattr(criteria, name)
        return lambda S, axis: seen.append(S.shape) or function(S, axis=axis)

    monkeypatch.setattr(criteria, "logsumexp", spy("logsumexp"))
    scorer = SoftNeighbourhoodDensityScorer(max_rows=30)
    assert np.isfinite(scorer(model, X, y, sample_domain=domain))
    assert seen == [(30, 30)]
    value = NeighbourAgreementScorer(k=3, max_rows=30)(model, X, y, sample_domain=domain)
    assert value != NeighbourAgreementScorer(k=3)(model, X, y, sample_domain=domain)


def test_wrong_input_is_named(packed, routing):
    X, y, domain = packed
    model = MDAClassifier("S1").fit(X, y, sample_domain=domain)
    source, target = domain >= 0, domain < 0
    with pytest.raises(ValueError, match="needs sample_domain to tell target rows"):
        PredictionEntropyScorer()(model, X, y)
    with pytest.raises(ValueError, match=r"needs target rows .* got none among 120 rows"):
        PredictionEntropyScorer()(model, X[source], sample_domain=domain[source])
    with pytest.raises(ValueError, match=r"needs source rows .* got none among 90 rows"):
        ImportanceWeightedScorer()(model, X[target], y[target], sample_domain=domain[target])
    with pytest.raises(ValueError, match="needs the labels of source rows, got y=None"):
        ReverseValidationScorer()(model, X, sample_domain=domain)
    with pytest.raises(ValueError, match="loss must be 'zero_one' or 'log', got 'hinge'"):
        ImportanceWeightedScorer(loss="hinge")(model, X, y, sample_domain=domain)
    with pytest.raises(ValueError, match="features must be 'input' or 'transform'"):
        ImportanceWeightedScorer(features="X")(model, X, y, sample_domain=domain)
    with pytest.raises(ValueError, match=r"scoring must be one of 'entropy', .* got 'accuracy'"):
        get_criterion("accuracy")
    ridge = RidgeClassifier().fit(X[source], y[source])
    with pytest.raises(ValueError, match="needs predict_proba, which RidgeClassifier does not"):
        PredictionEntropyScorer()(ridge, X, y, sample_domain=domain)


def test_a_pipeline_without_routing_is_told_so(packed):
    X, y, domain = packed
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), MDAClassifier("S1"))
        model.fit(X, y, sample_domain=domain)
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        ReverseValidationScorer()(model, X, y, sample_domain=domain)


def test_names_and_callables():
    assert isinstance(get_criterion("iwv"), ImportanceWeightedScorer)
    assert get_criterion(max) is max
    assert repr(clone(NeighbourAgreementScorer(k=3))) == "NeighbourAgreementScorer(k=3)"
