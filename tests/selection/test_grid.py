"""A search by label-free criteria: every candidate scored, the best one fitted."""

from __future__ import annotations

import numpy as np
import pytest

from marda import MDAClassifier, MDAClassifierCV, pack
from marda.selection import CRITERIA, MutualInformationScorer
from marda.selection.trials import expand
from marda.selection.views import make_view
from selection.test_auto import sensors


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
    from marda.selection import quick

    X, y, domain, *_ = rows
    candidates = {**GRID, "ridge": 0.0}
    path = MDAClassifierCV(candidates, scoring="mutual_information", random_state=0)
    path.fit(X, y, sample_domain=domain)
    monkeypatch.setattr(quick, "on_path", lambda params: False)
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


@pytest.mark.parametrize("kind", ["raw", "unit", "sqrt", "standard"])
def test_views_are_the_same_for_sparse_and_dense_rows(kind):
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, (20, 6)).astype(float) * rng.choice([-1, 1], (20, 6))
    X[3] = 0
    columns = np.array([0, 2, 5])
    dense = make_view(kind, X, columns).apply(X)
    S = sp.csr_array(X)
    sparse = make_view(kind, S, columns).apply(S)
    np.testing.assert_allclose(sparse.toarray() if sp.issparse(sparse) else sparse, dense)
    if kind in ("unit", "sqrt"):
        assert set(np.round(np.linalg.norm(dense, axis=1), 12)) <= {0.0, 1.0}
    if kind == "standard":
        np.testing.assert_allclose(dense.std(0), 1)
