"""One scoring of the rows tells what `predict` and `predict_proba` do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from marda import MDAClassifier, MDAClassifierCV
from marda.adaptation.methods import (
    classes_and_probabilities,
    compared_classifier,
    explained,
    method_of,
    sample_notes,
)
from problems import make_case

CASE = make_case("US", n_classes=3)
MODELS = [
    MDAClassifierCV(random_state=0),
    MDAClassifierCV({"method": ["S1", "S1D"]}, random_state=0),
    *(MDAClassifier(classifier=name) for name in ("ridge", "kernel", "nn", "dscm")),
    MDAClassifier("S1", n_layers=2),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_same_as_two_scorings(model, monkeypatch):
    X = CASE.X[CASE.domain < 0]
    y = np.array(["a", "b", "c", None], dtype=object)[CASE.codes]
    model.fit(CASE.X, y, sample_domain=CASE.domain)
    labels, P = model.predict(X), model.predict_proba(X)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "predict", None)  # nobody asks it
        codes, found = classes_and_probabilities(model, X)
    assert model.classes_[codes].tolist() == labels.tolist()
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(found, P)


class Scored:
    """The class of the highest score, and a softmax of the scores."""

    classes_ = np.array([3, 5, 8])

    def __init__(self, scores):
        self.scores = np.asarray(scores)

    def predict(self, X):
        return self.classes_[self.scores.argmax(1)]

    def predict_proba(self, X):
        return softmax(self.scores, axis=1)


@pytest.mark.parametrize(
    ("row", "place"),
    [((0.0, 1e-18, 2e-18), 2), ((0.5, 0.5, 0.0), 0), ((0.0, 1.0, 1.0 + 1e-15), 2)],
)
def test_scores_decide_where_probabilities_tie(row, place):
    codes, P = classes_and_probabilities(Scored([(0.0, 1.0, 0.0), row]), None)
    assert codes.tolist() == [1, place]
    assert P.shape == (2, 3)


class Foreign(Scored):
    """Holds another library's classifier, whose probabilities are fitted apart from its scores."""

    classifier = object()

    def predict_proba(self, X):
        return softmax(-self.scores, axis=1)


def test_classifiers_of_others_predict_by_their_own_rule():
    codes, P = classes_and_probabilities(Foreign([(0.0, 1.0, 2.0)]), None)
    assert codes.tolist() == [2]
    assert P.argmax(1).tolist() == [0]


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("BL", "source rows alone"),
        ("MCF", "noise"),
        ("S1", "denoised over both domains, then"),
        ("S1MD", "S1 with the means of both domains brought together, every row"),
        ("J12", "learned together"),
        ("J12C", "J12 with class means"),
        ("auto", "default"),
        ("CORAL", "vary together"),
    ],
)
def test_every_method_is_explained_in_a_line(method, words):
    assert words in explained(method)
    assert len(explained(method)) < 100


def test_parameters_are_of_our_models_alone():
    assert compared_classifier("S1", -1, noise=0.3).noise == 0.3
    assert compared_classifier("CORAL", -1, noise=0.3).name == "CORAL"
    assert method_of(compared_classifier("auto", -1, noise=0.3)) == "auto"


def test_a_sample_of_the_rows_is_told():
    model = MDAClassifierCV()
    model.n_rows_used_ = {"choices": 40}
    assert sample_notes(model, 5000) == [
        "everything was chosen on a sample of 40 of 5,000 rows; all target rows are predicted."
    ]
    model.n_rows_used_ |= {"linear": 3000, "kernel": 3000}
    (note,) = sample_notes(model, 5000)
    assert "the linear and kernel models then learned from all 3,000 labelled source rows" in note
    assert sample_notes(model, 40) == []
    assert sample_notes(MDAClassifier("S1"), 80) == []
