"""`MDAClassifierCV` as an estimator of scikit-learn: checks, clone, pipelines, names, refits."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from marda import MDAClassifierCV, load, pack
from marda.selection import auto
from problems import make_case

pytestmark = pytest.mark.usefixtures("few_draws")

CASE = make_case("US", seed=5, d=9, n_source=60, n_target=50)


def fit(model, X=CASE.X):
    return model.fit(X, CASE.codes, sample_domain=CASE.domain)


@parametrize_with_checks([MDAClassifierCV(), MDAClassifierCV({"noise": [0.2, 0.5]})])
def test_check_estimator(estimator, check):
    check(estimator)


def test_clone_keeps_every_parameter():
    odd = {name: object() for name in inspect.signature(MDAClassifierCV).parameters}
    assert MDAClassifierCV(**odd).get_params(deep=False) == odd
    grid = MDAClassifierCV({"method": ["BL", "S1"]}, calibrate=False)
    assert clone(grid).get_params() == grid.get_params()


def test_fit_does_not_alter_parameters():
    grid = {"method": ["BL", "S1"], "inputs": ["unit"]}
    model = MDAClassifierCV(grid, class_weight={0: 2.0}, random_state=0)
    before = model.get_params()
    fit(model)
    assert all(model.get_params()[k] is v for k, v in before.items())
    assert grid == {"method": ["BL", "S1"], "inputs": ["unit"]}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"class_weight": "equal"}, "must be None, 'balanced' or a dict, got 'equal'"),
        ({"class_weight": {"0": 2.0}}, "class_weight names '0', which is not a class of y"),
        ({"class_weight": {0: -1.0}}, "class_weight must be finite, at least 0"),
        ({"calibrate": "no"}, "calibrate must be True or False, got 'no'"),
    ],
)
def test_parameters_without_sense_are_refused(parameters, message):
    """Of whatever members there are: those of the source alone did not look."""
    with pytest.raises(ValueError, match=message):
        fit(MDAClassifierCV(**parameters))


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision_function", "transform"])
def test_nothing_comes_from_an_unfitted_model(name):
    model = MDAClassifierCV()
    method = getattr(model, name)
    with pytest.raises(NotFittedError):
        method(CASE.X)
    with pytest.raises(NotFittedError):
        _ = model.members_
    assert not [n for n in vars(model) if n.endswith("_")]
    assert not hasattr(model, "compact_")


def test_pipeline_routes_sample_domain():
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), MDAClassifierCV(random_state=0))
        pipe.fit(CASE.X, CASE.codes, sample_domain=CASE.domain)
    alone = fit(MDAClassifierCV(random_state=0), StandardScaler().fit_transform(CASE.X))
    assert pipe[-1].domains_.tolist() == [-1, 0]
    scaled = pipe[0].transform(CASE.X)
    np.testing.assert_allclose(pipe.decision_function(CASE.X), alone.decision_function(scaled))


def test_transform_centres_every_domain_and_names_its_features(monkeypatch, adapted_default):
    monkeypatch.setattr("marda.selection.adapted_ensemble.MAX_FEATURES", 5)
    frame = pd.DataFrame(CASE.X, columns=list("abcdefghi"))
    model = fit(MDAClassifierCV(random_state=0).set_output(transform="pandas"), frame)
    first = model.members_[0]
    H = model.transform(frame, sample_domain=CASE.domain)
    assert list(H.columns) == frame.columns[first.inputs.columns].tolist()
    rows = first.inputs.apply(CASE.X)
    by_hand = first.model.transform(rows, sample_domain=CASE.domain)
    np.testing.assert_array_equal(H.to_numpy(), by_hand)
    # Without domains rows are of the target: those agree, source rows are centred elsewhere.
    target = CASE.domain < 0
    blind = model.transform(frame).to_numpy()
    np.testing.assert_allclose(blind[target], by_hand[target], atol=1e-12)
    assert np.abs(blind[~target] - by_hand[~target]).max() > 0.01


def test_another_fit_forgets_the_one_before():
    model = fit(MDAClassifierCV({"method": ["BL", "S1"]}, random_state=0))
    assert hasattr(model, "best_index_")
    model.preprocessing_ = {"version": 1}
    fit(model.set_params(candidates="auto"))
    assert not hasattr(model, "best_index_")
    assert not hasattr(model, "preprocessing_")
    assert hasattr(model, "source_skill_")
    assert not hasattr(fit(model.set_params(candidates={"method": ["BL"]})), "source_skill_")


def test_the_same_seed_gives_the_same_model():
    a, b = (fit(MDAClassifierCV(random_state=3)) for _ in range(2))
    np.testing.assert_array_equal(a.predict_proba(CASE.X), b.predict_proba(CASE.X))


def test_scores_probabilities_and_classes_agree():
    model = fit(MDAClassifierCV(random_state=0))
    P = model.predict_proba(CASE.X)
    np.testing.assert_allclose(P.sum(1), 1)
    scores = model.decision_function(CASE.X)
    assert scores.shape == P.shape
    np.testing.assert_array_equal(model.predict(CASE.X), model.classes_[scores.argmax(1)])
    np.testing.assert_array_equal(P.argmax(1), scores.argmax(1))


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("candidates", ["auto", {"noise": [0.1, 0.5]}])
def test_rows_that_do_not_differ(wrap, candidates):
    X = wrap(np.tile([1.0, 0.0, 2.0], (40, 1)))
    y, domain = np.arange(40) % 2, np.repeat([1, -1], 20)
    with pytest.raises(ValueError, match="all rows of X are the same: there is nothing"):
        MDAClassifierCV(candidates).fit(X, y, sample_domain=domain)


@pytest.fixture
def source_only(monkeypatch):
    """The default, where nothing differs: a source-only model and nothing else."""
    explain = auto.explain_shift
    monkeypatch.setattr(
        auto,
        "explain_shift",
        lambda *rows, **options: replace(explain(*rows, **options), kind="none", fitting=()),
    )
    return fit(MDAClassifierCV(random_state=0))


def test_a_source_only_model_predicts_alone(source_only):
    model = source_only
    kind = model.members_[0].model.kind
    assert model.best_params_["source_only"] == kind
    assert model.candidates_ == [
        {"name": f"source only, {kind}", "inputs": "raw", "weight": 1.0, **model.best_params_}
    ]
    assert (model.setting_, model.residual_) == ("US", 0.0)
    by_hand = model.members_[0].model.scores(CASE.X).argmax(1)
    np.testing.assert_array_equal(model.predict(CASE.X), model.classes_[by_hand])
    np.testing.assert_allclose(model.predict_proba(CASE.X).sum(1), 1)
    np.testing.assert_array_equal(model.transform(CASE.X), CASE.X)
    assert (model.transform(sp.csr_array(CASE.X)) != sp.csr_array(CASE.X)).nnz == 0
    assert list(model.get_feature_names_out()) == [f"x{k}" for k in range(9)]
    frame = (
        clone(model)
        .set_output(transform="pandas")
        .fit_transform(CASE.X, CASE.codes, sample_domain=CASE.domain)
    )
    assert list(frame.columns) == [f"x{k}" for k in range(9)]


def test_the_skill_of_a_source_only_model_is_what_it_expects_of_itself(source_only):
    """Whether that goes into `calibration_` or not."""
    expected = source_only.calibration_["expected_accuracy"]
    chance = 1 / len(source_only.classes_)
    skill = max(0, (expected - chance) / (1 - chance))
    assert source_only.target_skill_ == pytest.approx(skill)
    silent = fit(clone(source_only).set_params(calibrate=False))
    assert silent.calibration_ == {}
    assert silent.target_skill_ == source_only.target_skill_


def test_a_source_only_model_is_saved_with_its_record(source_only, tmp_path):
    source_only.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.candidates_ == source_only.candidates_
    assert again.best_params_ == source_only.best_params_
    assert (again.setting_, again.residual_) == ("US", 0.0)
    np.testing.assert_array_equal(again.predict_proba(CASE.X), source_only.predict_proba(CASE.X))


def curved_rows(n, seed):
    """Classes that are neither linear nor without a linear part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, (X[:, 0] - X[:, 1] + np.abs(X[:, 2]) - 0.8 + rng.logistic(size=n) / 2 > 0).astype(int)


def test_the_default_learns_from_all_rows_and_says_so(tmp_path):
    (Xs, ys), (Xt, yt) = curved_rows(4000, 6), curved_rows(400, 7)
    X, y, domain = pack(Xs, ys, Xt)
    model = MDAClassifierCV(max_rows=200, random_state=0).fit(X, y, sample_domain=domain)
    few = np.r_[:200, 4000:4200]
    small = MDAClassifierCV(random_state=0).fit(X[few], y[few], sample_domain=domain[few])
    assert small.n_rows_used_ == {"choices": 400}
    used = dict(model.n_rows_used_)
    assert used.pop("choices") in range(390, 401)
    assert set(used.values()) == {4000}
    assert model.score(Xt, yt) > small.score(Xt, yt) - 0.01
    order = np.random.default_rng(0).permutation(len(y))
    again = MDAClassifierCV(max_rows=200, random_state=0)
    again.fit(X[order], y[order], sample_domain=domain[order])
    np.testing.assert_allclose(again.predict_proba(Xt), model.predict_proba(Xt), atol=1e-8)
    model.save(tmp_path / "m.marda")
    loaded = load(tmp_path / "m.marda")
    assert loaded.n_rows_used_ == model.n_rows_used_
    np.testing.assert_array_equal(loaded.predict(Xt), model.predict(Xt))


def test_copies_of_source_rows_are_no_evidence():
    """Left out, a row is named by its copy: coins would be foreseen in nine of ten tosses."""
    rng = np.random.default_rng(2)
    Xs, ys, Xt = rng.normal(size=(60, 4)), rng.integers(0, 2, 60), rng.normal(size=(50, 4))
    X, y, domain = pack(Xs, ys, Xt)
    once = MDAClassifierCV(random_state=0).fit(X, y, sample_domain=domain)
    X, y, domain = pack(np.repeat(Xs, 2, 0), np.repeat(ys, 2), Xt)
    model = MDAClassifierCV(random_state=0)
    with pytest.warns(UserWarning, match="60 of 120 labelled source rows are copies of others"):
        model.fit(X, y, sample_domain=domain)
    np.testing.assert_array_equal(model.predict_proba(Xt), once.predict_proba(Xt))
    assert model.calibration_ == once.calibration_
    assert model.calibration_["expected_accuracy"] < 0.7
