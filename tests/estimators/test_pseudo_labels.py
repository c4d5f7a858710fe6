"""Self-training: what joins when, when it ends, and that it cannot go wrong silently."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from marda import MDAClassifier, pack
from marda.criteria import Agreement, nearest_neighbours
from marda.estimators.pseudo_labels import (
    LabelPool,
    RefinementWarning,
    balanced_weights,
    class_separation,
    most_confident,
    refine,
)


def shifted(seed=0, n_source=90, n_target=120, n_classes=3, angle=1.2):
    """Classes on a circle; the target is turned, so that the source alone gets many rows wrong."""
    rng = np.random.default_rng(seed)
    ys, yt = np.arange(n_source) % n_classes, np.arange(n_target) % n_classes

    def rows(y, turn):
        at = 2 * np.pi * y / n_classes + turn
        X = 3 * np.stack([np.cos(at), np.sin(at)], 1) + rng.normal(0, 0.7, (len(y), 2))
        return np.hstack([X, rng.normal(0, 0.3, (len(y), 4))])

    return rows(ys, 0.0), ys, rows(yt, angle * np.pi / n_classes * 0.75), yt


def options(**more):
    return {"center": True, "normalize": True, "class_weight": "balanced", **more}


# The loop -----------------------------------------------------------------------------------------


def test_the_most_confident_of_every_class_join():
    labels = np.array([0, 0, 0, 0, 1, 1])
    confidence = np.array([0.1, 0.9, 0.5, 0.7, 0.2, 0.3])
    np.testing.assert_array_equal(most_confident(labels, confidence, 0.5), [1, 3, 5])
    np.testing.assert_array_equal(most_confident(labels, confidence, 0.01), [1, 5])
    np.testing.assert_array_equal(most_confident(labels, confidence, 1.0), np.arange(6))


def test_classes_weigh_the_same_and_one_on_average():
    codes = np.array([0] * 8 + [1] * 2 + [3])
    weights = balanced_weights(codes, 4)
    sums = np.bincount(codes, weights)
    np.testing.assert_allclose(sums[[0, 1, 3]], len(codes) / 3)
    assert weights.mean() == pytest.approx(1)


class Recorder:
    """Scores that a list of label vectors wants, and what every fit was given."""

    def __init__(self, labels):
        self.labels, self.calls = list(labels), []

    def __call__(self, rows, codes, weights):
        self.calls.append((rows, codes, weights))
        wanted = self.labels[min(len(self.calls), len(self.labels)) - 1]
        return np.eye(2)[wanted] + 0.01 * np.arange(len(wanted))[:, None] * np.eye(2)[wanted]


def loop_rows(n_free=40, near=True):
    """Four labelled rows, then free rows in two groups far apart."""
    F = np.r_[np.zeros((4, 1)), np.repeat([[0.0], [9.0]], n_free // 2, 0)]
    F += 1e-3 * np.arange(len(F))[:, None]
    free = np.arange(4, 4 + n_free)
    neighbours = nearest_neighbours(F[free], 5) if near else None
    return LabelPool(np.arange(4), np.array([0, 1, 0, 1]), np.ones(4), free, True, neighbours)


GOOD = np.r_[[0, 1, 0, 1], np.repeat([0, 1], 20)]


def test_a_sample_keeps_the_shares_of_classes():
    codes = np.repeat([0, 1, 2], [600, 300, 100])
    given = LabelPool(np.arange(1000) + 7, codes, codes + 1.0, np.arange(2000, 2400), True)
    who, drawn = given.sample(50)
    np.testing.assert_array_equal(np.bincount(drawn.codes), [30, 15, 5])
    np.testing.assert_array_equal(codes[who[drawn.labelled] - 7], drawn.codes)
    np.testing.assert_array_equal(drawn.weights, drawn.codes + 1)
    assert len(set(who[drawn.free])) == 50
    assert (who[drawn.free] >= 2000).all()
    everyone, _ = given.sample(5000)
    np.testing.assert_array_equal(everyone, np.concatenate([given.labelled, given.free]))


def test_the_labelled_set_grows_by_equal_shares():
    fit = Recorder([GOOD, 1 - GOOD, GOOD, 1 - GOOD, GOOD])
    history, _ = refine(fit, loop_rows(), 4)
    assert [len(call[0]) - 4 for call in fit.calls] == [0, 10, 20, 30, 40]
    assert [r.kept for r in history] == [10, 20, 30, 40]
    for rows, codes, weights in fit.calls[1:]:
        assert set(rows[:4]) == {0, 1, 2, 3}
        # all pseudo-labelled rows together weigh as much as the labelled ones, at most
        assert weights[4:].sum() == pytest.approx(4)
        sums = np.bincount(codes[4:], weights[4:])
        assert sums[0] == pytest.approx(sums[1], rel=0.2)


def test_labels_that_settled_skip_to_the_last_round():
    fit = Recorder([GOOD])
    history, _ = refine(fit, loop_rows(), 20)
    assert [r.number for r in history][-2:] == [12, 20]
    assert history[-1].kept == 40
    # but not before half of the rows are in, when few rows change little
    assert [r.number for r in history][:10] == list(range(1, 11))


def test_a_round_that_tears_neighbours_apart_is_undone():
    torn = GOOD.copy()
    torn[4:] = np.arange(40) % 2
    fit = Recorder([GOOD, GOOD, torn])
    with pytest.warns(RefinementWarning, match="undone at round 2 of 6"):
        history, _ = refine(fit, loop_rows(), 6)
    assert [r.used for r in history] == [True, False]
    # the fit that holds is the one of the round before
    for last, first in zip(fit.calls[-1], fit.calls[1], strict=True):
        np.testing.assert_array_equal(last, first)


def test_one_label_for_every_row_is_undone():
    fit = Recorder([GOOD, np.zeros_like(GOOD)])
    with pytest.warns(RefinementWarning):
        refine(fit, loop_rows(), 3)


def test_features_that_lose_the_source_classes_are_undone():
    """Class-MMD with wrong labels smooths labels, so neighbours agree, but melts classes."""
    values = iter([0.9, 0.9, 0.7])
    fit = Recorder([GOOD])
    with pytest.warns(RefinementWarning, match="tell source classes apart less well"):
        history, _ = refine(fit, loop_rows(), 6, lambda: Agreement(next(values), 0.02))
    assert [r.used for r in history] == [True, False]


def test_class_separation_leaves_rows_out():
    rng = np.random.default_rng(0)
    F, codes = rng.normal(size=(30, 4)), np.r_[np.arange(29) % 3, 5]
    right = []
    for i in range(30):
        rest = np.arange(30) != i
        means = {c: F[rest & (codes == c)].mean(0) for c in np.unique(codes[rest])}
        nearest = min(means, key=lambda c: np.linalg.norm(F[i] - means[c]))
        right.append(nearest == codes[i])
    found = class_separation(F, codes)
    assert found.value == pytest.approx(np.mean(right))
    assert found.standard_error == pytest.approx(np.std(right) / np.sqrt(30))


def test_without_free_rows_there_is_one_fit():
    rows = loop_rows()
    fit = Recorder([GOOD])
    history, _ = refine(
        fit, LabelPool(rows.labelled, rows.codes, rows.weights, rows.free[:0], True), 5
    )
    assert history == []
    assert len(fit.calls) == 1


# In the classifier --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classifier",
    ["ridge", "kernel", "nn", "dscm", LogisticRegression(), LinearSVC(), KNeighborsClassifier(5)],
    ids=str,
)
def test_any_classifier_gains_from_self_labelling(classifier):
    Xs, ys, Xt, yt = shifted()
    X, y, domain = pack(Xs, ys, Xt)
    before, after = (
        MDAClassifier("S1", noise=0.1, classifier=classifier, refine=n, random_state=0)
        .fit(X, y, sample_domain=domain)
        .score(Xt, yt)
        for n in (0, 8)
    )
    assert after >= before + 0.03, (before, after)


@pytest.mark.parametrize("method", ["S1C", "J12C"])
def test_the_class_term_needs_no_target_labels_then(method):
    Xs, ys, Xt, yt = shifted()
    X, y, domain = pack(Xs, ys, Xt)
    with pytest.raises(ValueError, match="needs labelled target rows"):
        MDAClassifier(method).fit(X, y, sample_domain=domain)
    model = MDAClassifier(method, noise=0.1, refine=6, max_iter=200, **options(tol=1e-3))
    model.fit(X, y, sample_domain=domain)
    plain = MDAClassifier("S1", noise=0.1, **options()).fit(X, y, sample_domain=domain)
    assert model.setting_ == "US"
    assert model.score(Xt, yt) > plain.score(Xt, yt)
    # W was learned again with the class term: features differ from those without it
    first = MDAClassifier(method[:-1], noise=0.1, max_iter=200, **options(tol=1e-3))
    first.fit(X, y, sample_domain=domain)
    assert np.abs(model.transform(Xt) - first.transform(Xt)).max() > 1e-3


def test_several_schedules_average():
    Xs, ys, Xt, _ = shifted()
    X, y, domain = pack(Xs, ys, Xt)

    def make(n):
        return MDAClassifier("S1", noise=0.1, classifier="kernel", refine=n, **options())

    parts = []
    for n in (3, 6):
        S = make(n).fit(X, y, sample_domain=domain).model_.scores(Xt)
        S = S - S.mean(1, keepdims=True)
        parts.append(S / np.sqrt((S**2).mean()))
    both = make((3, 6)).fit(X, y, sample_domain=domain).model_.scores(Xt)
    np.testing.assert_allclose(both, np.mean(parts, 0), rtol=1e-6, atol=1e-8)


def test_auto_reads_how_well_the_target_is_understood():
    Xs, ys, Xt, _ = shifted()
    X, y, domain = pack(Xs, ys, Xt)
    model = MDAClassifier(
        "S1", noise=0.1, classifier="kernel", ridge_class="auto", refine="auto", **options()
    ).fit(X, y, sample_domain=domain)
    assert 0.8 < model.source_skill_ <= 1
    assert 0.5 < model.target_skill_ < model.source_skill_
    long = round(15 * model.target_skill_**2)
    assert {r.schedule for r in model.rounds_} == {5, (6 + long) // 2, long}
    noise = np.random.default_rng(0).permutation(ys)
    X, y, domain = pack(Xs, noise, Xt)
    blind = MDAClassifier(
        "S1", noise=0.1, classifier="kernel", ridge_class="auto", refine="auto", **options()
    ).fit(X, y, sample_domain=domain)
    assert blind.source_skill_ < 0.3
    assert blind.target_skill_ < 0.3
    assert {r.schedule for r in blind.rounds_} == {5}


@pytest.mark.parametrize("method", ["S1C", "J12"])
def test_schedules_of_different_features_are_not_averaged(method):
    Xs, ys, Xt, _ = shifted()
    X, y, domain = pack(Xs, ys, Xt)
    for rounds in ("auto", (3, 5)):
        model = MDAClassifier(method, classifier="kernel", refine=rounds)
        with pytest.raises(ValueError, match="learn different features"):
            model.fit(X, y, sample_domain=domain)


def test_a_few_target_labels_count():
    """Labels that contradict the source win where they are, though they are few."""
    Xs, ys, Xt, yt = shifted(angle=0.0)
    swapped = (yt + 1) % 3
    few = np.where(np.arange(len(yt)) < 12, swapped, -1)
    X, y, domain = pack(Xs, ys, Xt, few)
    model = MDAClassifier("S1", noise=0.1, classifier="kernel", refine=5, **options(center=False))
    model.fit(X, y, sample_domain=domain)
    assert np.mean(model.predict(Xt[:12]) == swapped[:12]) > 0.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"refine": -1}, "refine must be a number of rounds"),
        ({"refine": 1.5}, "refine must be a number of rounds"),
        ({"refine": "often"}, "refine must be a number of rounds"),
        ({"refine": ()}, "refine must be a number of rounds"),
        ({"refine": "auto", "classifier": "nn"}, "averages schedules"),
        ({"refine": (2, 3), "classifier": "dscm"}, "averages schedules"),
        ({"ridge_class": "auto"}, "ridge_class='auto' is for"),
        ({"ridge_class": 0.0, "classifier": "kernel"}, "ridge_class must be"),
    ],
)
def test_senseless_parameters(wrong, message):
    Xs, ys, Xt, _ = shifted()
    X, y, domain = pack(Xs, ys, Xt)
    with pytest.raises(ValueError, match=message):
        MDAClassifier("S1", **wrong).fit(X, y, sample_domain=domain)


def test_rows_are_needed():
    with pytest.raises(AttributeError, match="refine=3 needs rows"):
        MDAClassifier("S1", refine=3).partial_fit(np.eye(3), [0, 1, 0])
