"""Every head: scores of all rows from some of them, and a classifier that says the same."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from marda.estimators.heads import (
    EstimatorHead,
    MeansHead,
    NearestHead,
    RidgeHead,
    class_scores,
)

CLASSES = np.array(["blue", "green", "red"])
HEADS = {
    "ridge": lambda F: RidgeHead(F, CLASSES, gaussian=False),
    "kernel": lambda F: RidgeHead(F, CLASSES, gaussian=True),
    "dscm": lambda F: MeansHead(F, CLASSES, np.zeros(len(F), dtype=np.int64)),
    "nn": lambda F: NearestHead(F, CLASSES),
    "probabilities": lambda F: EstimatorHead(F, CLASSES, LogisticRegression),
    "decisions": lambda F: EstimatorHead(F, CLASSES, LinearSVC),
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    return rng.normal(size=(60, 4)) + 4 * np.eye(3, 4)[codes], codes


@pytest.mark.parametrize("name", HEADS)
def test_a_head_learns_from_some_rows_and_scores_all(name, rows):
    F, codes = rows
    head = HEADS[name](F)
    some = np.arange(1, 60, 2)
    scores = head.fit(some, codes[some], np.ones(len(some)))
    assert scores.shape == (60, 3)
    assert np.mean(scores.argmax(1) == codes) > 0.9


@pytest.mark.parametrize("name", [name for name in HEADS if name != "ridge"])
def test_the_classifier_of_a_head_says_what_the_head_says(name, rows):
    F, codes = rows
    head = HEADS[name](F)
    said = head.fit(np.arange(40), codes[:40], np.linspace(0.5, 1.5, 40)).argmax(1)
    np.testing.assert_array_equal(head.fitted.predict(F), CLASSES[said])
    if name != "nn":  # ties of a vote have no order
        np.testing.assert_array_equal(class_scores(head.fitted, F).argmax(1), said)


@pytest.mark.parametrize("name", ["nn", "probabilities", "decisions"])
def test_a_class_without_rows_is_never_chosen(name, rows):
    F, codes = rows
    two = np.flatnonzero(codes != 1)  # of two classes scikit-learn gives one column of decisions
    scores = HEADS[name](F).fit(two, codes[two], np.ones(len(two)))
    assert np.isneginf(scores[:, 1]).all()
    assert np.mean(scores[two].argmax(1) == codes[two]) > 0.9


def test_weights_count_only_where_they_differ(rows):
    F, codes = rows
    head = HEADS["probabilities"](F)
    alike = head.fit(np.arange(60), codes, np.full(60, 3.0))
    np.testing.assert_array_equal(alike, head.fit(np.arange(60), codes, np.ones(60)))
    assert not np.array_equal(alike, head.fit(np.arange(60), codes, 1.0 + codes))


def test_a_classifier_without_confidence_is_refused(rows):
    class Bare:
        def fit(self, X, y):
            self.classes_ = np.unique(y)

    with pytest.raises(ValueError, match="neither predict_proba nor decision_function"):
        EstimatorHead(rows[0], CLASSES, Bare).fit(np.arange(60), rows[1], np.ones(60))
