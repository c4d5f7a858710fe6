"""What moved a row's score."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, MDAClassifierCV, pack
from marda.diagnostics.influence import (
    MAX_PARTS,
    FeatureGroup,
    explain_rows,
    is_exact,
    overall_influence,
)

pytestmark = pytest.mark.usefixtures("few_draws")

D = 5


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    ys, yt = np.arange(90) % 3, np.arange(60) % 3
    Xs = rng.normal(0, 1, (90, D)) + 2 * np.eye(3, D)[ys]
    Xt = rng.normal(0.3, 1, (60, D)) + 2 * np.eye(3, D)[yt]
    return pack(Xs, ys, Xt), Xt


@pytest.fixture(scope="module", params=["S1", "kernel", "auto", "two classes"])
def fitted(rows, request):
    (X, y, domain), _ = rows
    if request.param == "auto":
        return MDAClassifierCV().fit(X, y, sample_domain=domain)
    if request.param == "two classes":
        return MDAClassifier("S1").fit(X, np.where(y < 0, y, y % 2), sample_domain=domain)
    classifier = "ridge" if request.param == "S1" else "kernel"
    return MDAClassifier("S1", classifier=classifier).fit(X, y, sample_domain=domain)


PARTS = [
    FeatureGroup("one", np.array([0])),
    FeatureGroup("two", np.array([1, 2])),
    FeatureGroup("three", np.array([3, 4])),
]


def lead(model, X, leading=None):
    S = model.decision_function(X)
    S = S if S.ndim == 2 else np.column_stack([-S / 2, S / 2])
    a, b = np.argsort(-S, axis=1)[:, :2].T if leading is None else leading
    return S[np.arange(len(S)), a] - S[np.arange(len(S)), b], (a, b)


def shapley(model, x, mean):
    """By all orders of the parts."""
    _, (a, b) = lead(model, x[None])
    moved = dict.fromkeys(("one", "two", "three"), 0.0)
    for order in permutations(PARTS):
        at = mean.copy()
        for part in order:
            before = lead(model, at[None], (a, b))[0][0]
            at[part.features] = x[part.features]
            moved[part.name] += (lead(model, at[None], (a, b))[0][0] - before) / 6
    return moved


def test_parts_add_up_to_the_difference_of_scores(fitted, rows):
    Xt = rows[1]
    mean = Xt.mean(0)
    found = explain_rows(fitted, Xt, PARTS, mean, 3)
    score, leading = lead(fitted, Xt)
    start, _ = lead(fitted, np.tile(mean, (len(Xt), 1)), leading)
    total = [sum(one.moved for one in row) for row in found]
    np.testing.assert_allclose(total, score - start, atol=1e-8)
    for row in found:
        moved = [abs(one.moved) for one in row]
        assert moved == sorted(moved, reverse=True)


def test_a_linear_model_is_exact(rows):
    (X, y, domain), Xt = rows
    model = MDAClassifier("S1").fit(X, y, sample_domain=domain)
    assert is_exact(model)
    mean = Xt.mean(0)
    for x, row in zip(Xt[:5], explain_rows(model, Xt[:5], PARTS, mean), strict=True):
        exact = shapley(model, x, mean)
        assert {one.name: pytest.approx(one.moved) for one in row} == exact


def test_other_models_are_sampled(rows):
    (X, y, domain), Xt = rows
    model = MDAClassifier("S1", classifier="kernel").fit(X, y, sample_domain=domain)
    assert not is_exact(model)
    mean = Xt.mean(0)
    for x, row in zip(Xt[:5], explain_rows(model, Xt[:5], PARTS, mean), strict=True):
        exact = shapley(model, x, mean)
        size = sum(map(abs, exact.values()))
        for one in row:
            assert abs(one.moved - exact[one.name]) < 0.1 * size


def test_rows_do_not_depend_on_each_other(fitted, rows):
    Xt = rows[1]
    whole = explain_rows(fitted, Xt, PARTS, Xt.mean(0), 2)
    for i in (0, 7, 59):
        alone = explain_rows(fitted, Xt[[i]], PARTS, Xt.mean(0), 2)[0]
        assert [one.name for one in alone] == [one.name for one in whole[i]]
        assert [one.moved for one in alone] == pytest.approx([one.moved for one in whole[i]])


def test_every_hundredth_row_is_told(fitted, rows):
    told = []
    Xt = np.tile(rows[1], (5, 1))[:250]
    found = explain_rows(fitted, Xt, PARTS, Xt.mean(0), 1, progress=told.append)
    assert len(found) == 250
    assert told == [100, 200]


@pytest.mark.parametrize("classifier", ["ridge", "kernel"])
def test_sparse_rows_are_told_from_nothing(rows, classifier):
    (X, y, domain), Xt = rows
    X, Xt = np.where(X > 0.5, X, 0), np.where(Xt > 0.5, Xt, 0)
    Xt[0] = 0  # a text without a known word: nothing moved it
    model = MDAClassifier("S1", classifier=classifier).fit(sp.csr_array(X), y, sample_domain=domain)
    parts = [FeatureGroup(f"w{j}", np.array([j])) for j in range(D)]
    found = explain_rows(model, sp.csr_array(Xt), parts, None, D)
    dense = explain_rows(model, Xt, parts, np.zeros(D), D)
    assert found[0] == dense[0] == []
    for x, row, other in zip(Xt, found, dense, strict=True):
        assert {one.name for one in row} <= {f"w{j}" for j in np.flatnonzero(x)}
        told = {one.name: one.moved for one in row}
        assert told == pytest.approx({one.name: one.moved for one in other})


def test_features_of_no_part_stay(rows):
    (X, y, domain), Xt = rows
    for classifier in ("ridge", "kernel"):
        model = MDAClassifier("S1", classifier=classifier).fit(X, y, sample_domain=domain)
        for data in (Xt[:3], sp.csr_array(Xt[:3])):
            mean = None if sp.issparse(data) else Xt.mean(0)
            found = explain_rows(model, data, PARTS[:1], mean)
            score, leading = lead(model, Xt[:3])
            at = Xt[:3].copy()
            at[:, 0] = 0.0 if mean is None else mean[0]
            gone, _ = lead(model, at, leading)
            np.testing.assert_allclose([row[0].moved for row in found], score - gone, atol=1e-10)


def test_of_many_parts_the_furthest_are_moved():
    rng = np.random.default_rng(1)
    n = MAX_PARTS + 50
    X, y = rng.normal(size=(40, n)), np.arange(40) % 2
    model = MDAClassifier("S1", classifier="kernel").fit(X, y)
    x = np.zeros((1, n))
    x[0, : MAX_PARTS + 1] = 1 + np.arange(MAX_PARTS + 1)[::-1]
    parts = [FeatureGroup(str(j), np.array([j])) for j in range(n)]
    found = explain_rows(model, x, parts, np.zeros(n), n)[0]
    assert len(found) <= MAX_PARTS
    assert str(MAX_PARTS) not in {one.name for one in found}


def test_overall_influence_finds_the_columns_that_matter():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 4))
    y = (X[:, 2] > 0).astype(int)
    parts = [FeatureGroup(name, np.array([j])) for j, name in enumerate("abcd")]
    for classifier in ("ridge", "kernel"):
        model = MDAClassifier("S1", classifier=classifier).fit(X, y)
        found = overall_influence(model, X, parts, X.mean(0), 2)
        assert found[0].name == "c"
        assert len(found) == 2
        assert found[0].moved > 3 * found[1].moved
        order = rng.permutation(200)
        again = overall_influence(model, X[order], parts, X.mean(0), 2)
        assert again[0].moved == pytest.approx(found[0].moved)
