"""A search by label-free criteria: every candidate scored, the best one fitted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import rankdata

from marda import MDAClassifier, MDAClassifierCV, pack
from marda._validation import Labels, is_marked
from marda.selection import CRITERIA, MutualInformationScorer
from marda.selection import search as search_module
from marda.selection.ensemble import spread_of
from marda.selection.inputs import make_inputs
from marda.selection.search import COMBINED, JUDGED_SHARPNESS, Trials, expand, judge
from selection.test_adapted_ensemble import sensors


@pytest.fixture(scope="module")
def rows():
    Xs, ys, Xt, yt = sensors(0, n=90, d=8, n_classes=3)
    return *pack(Xs, ys, Xt), Xt, yt


GRID = {"method": ["BL", "S1", "S1M", "S1D"], "noise": [0.1, 0.5], "ridge_class": [0.1, 10.0]}


def test_every_combination_is_a_candidate():
    found = expand([GRID, {"classifier": "kernel", "inputs": ["unit", "sqrt"]}], "balanced")
    assert len(found) == 16 + 2
    assert found[0].parameters == {
        "class_weight": "balanced",
        "method": "BL",
        "noise": 0.1,
        "ridge_class": 0.1,
    }
    assert [c.inputs for c in found[-2:]] == ["unit", "sqrt"]


@pytest.mark.parametrize("scoring", ["auto", *CRITERIA, MutualInformationScorer()], ids=str)
def test_the_winner_has_the_highest_score_and_is_fitted(rows, scoring):
    X, y, domain, Xt, _ = rows
    model = MDAClassifierCV(GRID, scoring=scoring, random_state=0)
    model.fit(X, y, sample_domain=domain)
    scores = [row["score"] for row in model.candidates_]
    assert len(scores) == 16
    assert model.best_index_ == int(np.argmax(scores))
    assert len(set(scores)) > 1
    wanted = dict(model.best_params_)
    assert wanted.pop("inputs") == "raw"
    alone = MDAClassifier(**wanted).fit(X, y, sample_domain=domain)
    np.testing.assert_array_equal(model.predict(Xt), alone.predict(Xt))


@pytest.mark.parametrize(
    ("names", "unlabeled"), [((0, 1, 2), -1), (("a", "b", "c"), -1), (("a", "b", "c"), "?")]
)
def test_a_scorer_sees_which_rows_have_no_label(rows, names, unlabeled):
    X, y, domain, Xt, _ = rows
    names, known = np.array(names), domain >= 0
    X, y, domain = pack(X[known], names[y[known]], Xt, unlabeled=unlabeled)
    seen = []

    def scorer(estimator, X, y=None, *, sample_domain=None):
        marked = is_marked(y, unlabeled)
        np.testing.assert_array_equal(marked, sample_domain < 0)
        seen.append(set(y[~marked].tolist()))
        return 0.0

    search = MDAClassifierCV({"method": "BL"}, scoring=scorer, unlabeled=unlabeled, random_state=0)
    search.fit(X, y, sample_domain=domain)
    assert seen == [set(names.tolist())]


def test_candidates_off_the_noise_path_are_searched_too(rows):
    X, y, domain, Xt, yt = rows
    grid = [
        {"method": ["S1", "J12"], "max_iter": 20, "tol": 1e-2},
        {"method": "S1", "n_layers": 2},
        {
            "classifier": ["kernel", "nn", "dscm"],
            "center": True,
            "normalize": True,
            "refine": [0, 3],
        },
    ]
    model = MDAClassifierCV(grid, random_state=0).fit(X, y, sample_domain=domain)
    assert len(model.candidates_) == 9
    assert model.score(Xt, yt) > 0.6


def test_the_path_and_separate_fits_agree_on_the_scores(rows, monkeypatch):
    X, y, domain, *_ = rows
    candidates = {**GRID, "ridge": 0.0}
    path = MDAClassifierCV(candidates, scoring="mutual_information", random_state=0)
    path.fit(X, y, sample_domain=domain)
    monkeypatch.setattr(search_module, "on_path", lambda params: False)
    fits = MDAClassifierCV(candidates, scoring="mutual_information", random_state=0)
    fits.fit(X, y, sample_domain=domain)
    for a, b in zip(path.candidates_, fits.candidates_, strict=True):
        assert a["score"] == pytest.approx(b["score"], rel=0.02)
    assert path.best_params_["method"] == fits.best_params_["method"]


def test_without_a_target_the_search_is_cross_validation():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3)) + y[:, None]
    model = MDAClassifierCV({"method": "BL", "ridge_class": [1.0, 1e6]}, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7
    assert all(0 <= row["score"] <= 1 for row in model.candidates_)


def test_probabilities_of_the_winner_are_calibrated_on_source_folds(rows):
    X, y, domain, Xt, _ = rows
    model = MDAClassifierCV(GRID, random_state=0).fit(X, y, sample_domain=domain)
    assert model.calibration_["ece_after"] <= model.calibration_["ece_before"]
    np.testing.assert_allclose(model.predict_proba(Xt).sum(1), 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"candidates": "all"}, "candidates must be 'auto'"),
        ({"candidates": []}, "nothing to search"),
        ({"candidates": {"C": [1]}}, "candidates name 'C', which is no parameter"),
        ({"candidates": [3]}, "a grid of candidates is a dict"),
        ({"candidates": {"inputs": ["log"]}}, "inputs must be one of"),
        ({"candidates": GRID, "scoring": "accuracy"}, "scoring must be one of"),
        ({"max_rows": 5}, "max_rows must be at least 20"),
        ({"max_rows": 1.5}, "max_rows must be a whole number"),
    ],
)
def test_senseless_parameters(rows, options, message):
    X, y, domain, *_ = rows
    with pytest.raises(ValueError, match=message):
        MDAClassifierCV(**options).fit(X, y, sample_domain=domain)


# Criteria that read target predictions alone ------------------------------------------------------

TRUTH = np.arange(60) % 3


@pytest.fixture
def trials():
    """Three classes of target rows, each in a place of its own, and five candidates."""
    rng = np.random.default_rng(0)
    X = np.repeat(5 * np.eye(3), 40, axis=0)[np.arange(120).reshape(3, 40).T.ravel()]
    X = X + rng.normal(0, 0.5, X.shape)
    domain = np.repeat([1, -1], 60)
    labels = Labels(np.arange(3), np.where(domain > 0, np.arange(120) % 3, -1))
    candidates = expand({"noise": [0.1, 0.2, 0.3, 0.4, 0.5]}, None)
    inputs = {"raw": make_inputs("raw", X)}
    return Trials(candidates, inputs, X, labels, domain, seed=0, say=lambda _: None)


def scores(labels):
    return np.eye(3)[labels] - 1 / 3


def noisy(noise):
    """Scores of a model that errs the more, and is the less sure, the larger the noise."""
    rng = np.random.default_rng(int(100 * noise))
    return scores(TRUTH) + rng.normal(0, noise, (60, 3))


def chosen(trials, given, scoring):
    return int(np.argmax([row["score"] for row in judge(trials, given, scoring)]))


def test_consensus_is_how_likely_another_candidate_says_the_same(trials):
    rng = np.random.default_rng(1)
    given = [rng.normal(size=(60, 3)) for _ in range(5)]
    P = [softmax(JUDGED_SHARPNESS * S / spread_of(S), axis=1) for S in given]
    by_hand = [np.mean([(p * other).sum(1).mean() for other in P]) for p in P]
    found = [row["consensus"] for row in judge(trials, given, "consensus")]
    np.testing.assert_allclose(found, by_hand)


def test_auto_is_the_mean_rank_of_three_kinds_of_evidence(trials):
    rng = np.random.default_rng(2)
    table = judge(trials, [rng.normal(size=(60, 3)) for _ in range(5)], "auto")
    ranks = [rankdata([row[name] for row in table]) for name in COMBINED]
    np.testing.assert_allclose([row["score"] for row in table], np.mean(ranks, axis=0) / 5)


def test_auto_is_not_fooled_where_one_criterion_is(trials):
    """One class for all rows is sure of itself; so are labels by lot."""
    by_lot = np.random.default_rng(3).permutation(TRUTH)
    given = [noisy(0.9), noisy(0.3), noisy(0.6)]
    given += [scores(np.zeros(60, dtype=int)) + 1e-3 * scores(TRUTH), scores(by_lot)]
    assert chosen(trials, given, "entropy") > 2
    assert chosen(trials, given, "mutual_information") == 4
    assert chosen(trials, given, "auto") == 1


def test_the_size_of_scores_says_nothing(trials):
    given = [noisy(noise) for noise in (0.9, 0.6, 0.2, 0.7, 0.5)]
    strong_ridge = [0.01 * S if k == 2 else S for k, S in enumerate(given)]
    for scoring in ("consensus", "auto"):
        assert chosen(trials, given, scoring) == 2
        assert chosen(trials, strong_ridge, scoring) == 2


@pytest.mark.parametrize("score", [np.nan, None, np.ones(3), "high"])
def test_a_score_is_a_number(rows, score):
    """NaN would be the largest score of all."""
    X, y, domain, *_ = rows
    search = MDAClassifierCV({"noise": [0.1, 0.5]}, scoring=lambda *_, **__: score)
    with pytest.raises(ValueError, match=r"scoring must give a number .* got .*'noise': 0.1"):
        search.fit(X, y, sample_domain=domain)


@pytest.mark.parametrize("candidates", [None, 3])
def test_what_is_no_grid(rows, candidates):
    X, y, domain, *_ = rows
    with pytest.raises(ValueError, match="candidates must be 'auto', a grid or a list of grids"):
        MDAClassifierCV(candidates).fit(X, y, sample_domain=domain)
