import itertools
import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import RidgeClassifier

from marda.datasets import DataError, make_shift, make_task
from marda.datasets.generated import _gaussian_accuracy, _word_accuracy

KINDS = ("mean", "rotation", "words")
MANY = {"n_source": 20_000, "n_target": 20_000}


def test_two_classes_have_a_closed_form():
    for rho in (0.1, 1.0, 3.0, 30.0):
        assert _gaussian_accuracy(rho, 2) == pytest.approx(stats.norm.cdf(rho / 2**0.5), abs=1e-9)
    best = _word_accuracy(6.0, 5, 5, 2)
    difference = stats.skellam(6.0, 1.5)
    assert best == pytest.approx(difference.sf(0) + difference.pmf(0) / 2, abs=1e-12)


def test_word_accuracy_counts_ties():
    a, b, C, top = 2.0, 0.5, 3, 40
    p, q = stats.poisson.pmf(np.arange(top), a), stats.poisson.pmf(np.arange(top), b)
    expected = sum(
        p[n] * q[i] * q[j] / (1 + (i == n) + (j == n))
        for n, i, j in itertools.product(range(top), repeat=C)
        if max(i, j) <= n
    )
    assert _word_accuracy(a, 1, 1, C) == pytest.approx(expected, abs=1e-12)
    assert _word_accuracy(a, 0, 1, C) == pytest.approx(1 / 3)


def bayes(data):
    """Predict the target with the true distributions, recovered from many rows."""
    X, y = data["target"].part()
    C = len(data.names)
    X = X.toarray() if hasattr(X, "toarray") else X
    means = np.array([X[y == c].mean(0) for c in range(C)])
    if data.parameters["kind"] == "words":
        used = means.sum(0) > 0
        scores = X[:, used] @ np.log(means[:, used]).T - means.sum(1)
    else:
        precision = np.linalg.inv(sum(np.cov(X[y == c].T) for c in range(C)) / C)
        scores = X @ precision @ means.T - 0.5 * np.einsum("ci,ij,cj->c", means, precision, means)
    return np.mean(scores.argmax(1) == y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_best_accuracy_is_reached_and_not_passed(kind, n_classes):
    data = make_shift(kind, n_classes=n_classes, shift=0.5, seed=3, **MANY)
    error = 4 * np.sqrt(0.25 / MANY["n_target"])
    assert abs(bayes(data) - data.best_accuracy) < error


@pytest.mark.parametrize(("kind", "shift"), [("mean", 0.8), ("rotation", 1.2), ("words", 0.8)])
def test_the_shift_hurts(kind, shift):
    data = make_shift(kind, separation=4, shift=shift, seed=1, **MANY)
    task = make_task(data, "source", "target")
    rule = RidgeClassifier().fit(task.X_source, task.y_source)
    assert rule.score(task.X_source, task.y_source) > data.best_accuracy - 0.02
    assert rule.score(task.X_test, task.y_test) < data.best_accuracy - 0.05


def test_shared_words_bound_the_source_rule():
    data = make_shift("words", separation=6, shift=0.7, **MANY)
    rule = RidgeClassifier().fit(data["source"].X, data["source"].y)
    assert rule.score(*data["target"].part()) == pytest.approx(data.shared_accuracy, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_no_shift_no_loss(kind):
    data = make_shift(kind, shift=0, seed=2, **MANY)
    rule = RidgeClassifier().fit(data["source"].X, data["source"].y)
    assert rule.score(*data["target"].part()) == pytest.approx(data.best_accuracy, abs=0.015)


def test_words_of_the_target_are_new():
    data = make_shift("words", shift=1.0)
    used = {side: np.asarray(data[side].X.sum(0)).ravel() > 0 for side in data.domains}
    m = 3 * 50 // 16
    assert not used["target"][: 2 * m].any()
    assert not used["source"][2 * m : 4 * m].any()
    assert (used["source"] & used["target"])[4 * m :].all()
    assert data.shared_accuracy == 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_seeds(kind):
    def rows(data):
        X = data["target"].X
        return X.toarray() if kind == "words" else X

    first, again, other = (make_shift(kind, seed=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(rows(first), rows(again))
    assert first.checksum == again.checksum != other.checksum
    assert not np.array_equal(rows(first), rows(other))
    np.testing.assert_array_equal(rows(pickle.loads(pickle.dumps(first))), rows(first))
    # The source does not depend on how many target rows there are.
    fewer = make_shift(kind, n_target=7)
    np.testing.assert_array_equal(fewer["source"].y, first["source"].y)


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "colour"},
        {"n_classes": 1},
        {"n_features": 3},
        {"n_source": 0},
        {"separation": 0.0},
        {"kind": "words", "shift": 1.5},
        {"kind": "words", "n_features": 7},
    ],
)
def test_bad_parameters(bad):
    with pytest.raises(DataError):
        make_shift(**bad)
