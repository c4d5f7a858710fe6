"""Skill on the source, and on a target whose labels are not seen."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, cohen_kappa_score
from sklearn.model_selection import cross_val_predict

from marda import MDAClassifier, pack
from marda.estimators.accuracy_estimation import (
    _parts,
    accuracy_above_threshold,
    accuracy_by_agreement,
    accuracy_by_difference,
    agreement,
    expected_accuracy,
    recall_above_chance,
    target_skill,
)
from marda.estimators.heads import RidgeHead
from marda.estimators.pseudo_labels import balanced_weights

OPTIONS = {
    "classifier": "kernel",
    "ridge_class": "auto",
    "refine": "auto",
    "center": True,
    "normalize": True,
    "class_weight": "balanced",
}


def classes_in_noise(seed, n, noise, n_classes=4, d=15):
    """Class means that all seeds share, in more or less noise."""
    means = 0.9 * np.random.default_rng(7).normal(size=(n_classes, d))
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    return means[y] + noise * rng.normal(size=(n, d)), y


def skills(noise, seed=0):
    Xs, ys = classes_in_noise(seed, 400, 1.0)
    Xt, yt = classes_in_noise(seed + 50, 400, noise)
    X, y, domain = pack(Xs, ys, Xt)
    model = MDAClassifier("S1", **OPTIONS).fit(X, y, sample_domain=domain)
    plain = MDAClassifier("S1", **{**OPTIONS, "refine": 0}).fit(X, y, sample_domain=domain)
    return model, recall_above_chance(yt, plain.predict(Xt))


@pytest.mark.parametrize("seed", range(3))
def test_a_target_like_the_source_is_understood_like_it(seed):
    model, true = skills(1.0, seed)
    assert abs(model.target_skill_ - true) < 0.06


@pytest.mark.parametrize("noise", [1.7, 2.5])
def test_a_harder_target_is_seen_without_its_labels(noise):
    """Too high, since models agree on some mistakes too, but nearer than what the source says."""
    model, true = skills(noise)
    assert true < model.target_skill_ < model.source_skill_ - 0.1


def test_the_less_is_understood_the_fewer_the_rounds():
    longest = [max(r.schedule for r in skills(noise)[0].rounds_) for noise in (1.0, 1.7, 2.5)]
    assert longest[0] > longest[1] > longest[2]


def test_agreement_is_corrected_for_chance():
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 5000, p=[0.8, 0.1, 0.1])
    assert agreement(labels, labels) == 1
    assert abs(agreement(labels, rng.permutation(labels))) < 0.05
    assert agreement(np.zeros(9, int), np.zeros(9, int)) == 0
    assert agreement(labels[:0], labels[:0]) == 0


def test_recall_counts_classes_alike():
    codes = np.array([0] * 90 + [1] * 10)
    assert recall_above_chance(codes, np.zeros(100, int)) == 0
    assert recall_above_chance(codes, codes) == 1
    assert recall_above_chance(codes, 1 - codes) == 0
    assert recall_above_chance(codes[:5], codes[:5]) == 0  # one class shows nothing


def test_agreement_is_cohens_kappa():
    rng = np.random.default_rng(0)
    for n_classes in (2, 5):
        first = rng.integers(n_classes, size=300)
        second = np.where(rng.random(300) < 0.6, first, rng.integers(n_classes, size=300))
        expected = cohen_kappa_score(first, second)
        assert agreement(first, second) == pytest.approx(expected, abs=1e-14)


def test_every_part_has_its_share_of_classes():
    codes = np.array([0] * 30 + [1] * 9)
    part = _parts(codes, np.random.default_rng(0))
    for c in (0, 1):
        assert np.ptp(np.bincount(part[codes == c], minlength=3)) == 0


def test_a_few_target_labels_do_not_change_what_is_expected():
    """Three of a class, with large weights, would make models of thirds differ for nothing."""
    Xs, ys = classes_in_noise(0, 400, 1.0)
    Xt, yt = classes_in_noise(50, 400, 1.7)
    few = np.where(np.arange(400) < 12, yt, -1)
    without, given = (
        MDAClassifier("S1", **OPTIONS).fit(X, y, sample_domain=domain)
        for X, y, domain in (pack(Xs, ys, Xt), pack(Xs, ys, Xt, few))
    )
    assert given.source_skill_ == pytest.approx(without.source_skill_)
    assert given.target_skill_ == pytest.approx(without.target_skill_, abs=0.01)
    np.testing.assert_array_equal(given.target_shares_, without.target_shares_)


def test_too_few_rows_say_what_the_source_says():
    F = np.random.default_rng(0).normal(size=(8, 2))
    labeller = RidgeHead(F, np.array([0, 1]), gaussian=True)
    rows, codes = np.arange(4), np.array([0, 1, 0, 1])
    weights = balanced_weights(codes, 2)
    assert target_skill(labeller, rows, codes, weights, np.arange(4, 8), skill=0.37) == 0.37


def test_expected_accuracy_goes_from_chance_to_one():
    assert expected_accuracy(0, 4) == 0.25
    assert expected_accuracy(0.5, 2) == 0.75
    assert expected_accuracy(1, 3) == 1


# Other kinds of evidence --------------------------------------------------------------------------


def two(confidence):
    """Rows of two classes; at least as sure of the first as of the second."""
    p = np.asarray(confidence, dtype=float)
    return np.column_stack([p, 1 - p])


def test_rows_as_sure_as_the_right_ones_of_the_source():
    # Three of four are right, and three of four are at least 0.7 sure.
    left_out = np.array([0, 0, 1, 0]), two([0.9, 0.8, 0.7, 0.6])
    assert accuracy_above_threshold(left_out, two([0.95, 0.75, 0.5, 0.55])) == 0.5
    assert accuracy_above_threshold(left_out, left_out[1]) == 0.75


def test_what_confidence_loses_accuracy_loses():
    left_out = np.array([0, 0, 1, 0]), two([0.9, 0.8, 0.7, 0.6])
    assert accuracy_by_difference(left_out, two([0.65, 0.65])) == pytest.approx(0.75 - 0.1)
    assert accuracy_by_difference(left_out, left_out[1]) == pytest.approx(0.75)
    sure = np.zeros(2, dtype=int), two([0.6, 0.6])
    assert accuracy_by_difference(sure, two([1.0, 1.0])) == 1.0


def plain(**options):
    """Fits of logistic regression."""
    return lambda X, y: LogisticRegression(**options).fit(X, y).predict


@pytest.mark.parametrize("n_source", [120, 600])
def test_agreement_of_thirds_tells_the_accuracy(n_source):
    Xs, ys = classes_in_noise(0, n_source, 1.0)
    model = LogisticRegression(C=0.1)
    P = cross_val_predict(model, Xs, ys, method="predict_proba")
    fit = plain(C=0.1)
    found, true = {}, {}
    for noise in (1.0, 3.0, 10.0):
        Xt, yt = classes_in_noise(50, 600, noise)
        found[noise] = accuracy_by_agreement(fit, Xs, (ys, P), Xt)
        true[noise] = accuracy_score(yt, model.fit(Xs, ys).predict(Xt))
    assert found[1.0] == pytest.approx(true[1.0], abs=0.05)
    # It falls with the truth, but less: models of thirds agree about noise along what they learned.
    assert found[1.0] - 0.1 > found[3.0] > found[10.0]
    assert found[3.0] > true[3.0]
    order = np.random.default_rng(0).permutation(n_source)
    again = accuracy_by_agreement(fit, Xs[order], (ys[order], P[order]), Xt)
    assert again == pytest.approx(found[10.0], abs=0.01)  # a solver sees rows in their order


def test_thirds_without_two_classes_say_what_left_out_rows_say():
    Xs, ys = np.arange(4.0)[:, None], np.array([0, 0, 0, 1])
    P = two([0.9, 0.9, 0.9, 0.2])
    assert accuracy_by_agreement(plain(), Xs, (ys, P), Xs) == 1.0
