"""Files of `MDAClassifierCV`: they predict to the last bit, and cannot do harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from marda import MDAClassifierCV, load
from marda.noise import Gaussian
from marda.persist import ModelFileError
from marda.persist.models import read_file
from marda.selection import PredictionEntropyScorer
from persist.test_models import assert_refused, assert_same, round_trip
from persist.test_models_refined import drop, put
from problems import make_case

pytestmark = pytest.mark.usefixtures("few_draws")

CASE = make_case("US", seed=5, d=9, n_source=60, n_target=50)
COUNTS = np.maximum(np.round(2 * CASE.X - 2), 0)


def fit(model, X=CASE.X, y=CASE.codes):
    return model.fit(X, y, sample_domain=CASE.domain)


@pytest.fixture
def usual_inputs(monkeypatch):
    """Unit rows, and roots where most entries are zero, whatever predicts better."""
    monkeypatch.setattr("marda.selection.inputs.MARGIN", 1.0)


def plain(value):
    """Numbers without their numpy type, arrays and noise as text: what can be compared."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return repr(value.item() if isinstance(value, np.generic) else value)


def assert_same_choice(a, b):
    for name in ("best_params_", "candidates_", "calibration_", "setting_", "fit_seconds_"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("best_index_", "source_skill_"):
        assert getattr(a, name, None) == getattr(b, name, None), name
    for one, other in zip(a.members_, b.members_, strict=True):
        assert (one.name, one.weight, one.spread) == (other.name, other.weight, other.spread)
        assert one.inputs.kind == other.inputs.kind
        assert one.model.get_params() == other.model.get_params()
        training = other.model.model_.training
        assert training is None or training.left_out is None
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.domains_, b.domains_)


def test_an_ensemble_of_version_0_1_predicts_what_it_did():
    model = load(Path(__file__).parents[1] / "data" / "ensemble-0.1.marda")
    row = np.arange(24)
    X = np.column_stack([3.0 * (row % 2) + row % 5, row % 7 - row % 2, row % 3])[::-1]
    found = model.predict_proba(X[:4] + np.array([1.0, 0.5, 0.0]))[:, 1]
    then = [0.9043056060228762, 0.08735858306668291, 0.9343666363712511, 0.1386605846325035]
    np.testing.assert_allclose(found, then, rtol=1e-10)
    assert [m.name for m in model.members_] == ["adapted, standard rows", "source only"]
    assert {m.inputs.kind for m in model.ensemble_.members} == {"standard"}
    assert model.source_skill_ == 0.75


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "zeros", "sparse"])
def test_the_ensemble(kind, dtype, tmp_path, usual_inputs, adapted_default):
    X = (CASE.X if kind == "dense" else COUNTS).astype(dtype)
    X = sp.csr_array(X) if kind == "sparse" else X
    model = fit(MDAClassifierCV(random_state=0), X)
    assert len(model.members_) == (2 if kind == "dense" else 3)
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, X)
    assert_same_choice(model, again)
    assert again.get_params() == model.get_params()


def test_chosen_columns_and_names(monkeypatch, tmp_path, adapted_default):
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr("marda.selection.adapted_ensemble.MAX_FEATURES", 5)
    frame = pd.DataFrame(CASE.X, columns=list("abcdefghi"))
    y = np.array(["low", "mid", "top"], dtype=object)[CASE.codes]
    y[CASE.codes < 0] = None
    model = fit(MDAClassifierCV(random_state=0, class_weight={"low": 2.0}), frame, y)
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, frame)
    assert_same_choice(model, again)
    assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())
    assert len(again.get_feature_names_out()) == 5
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[list("ihgfedcba")])


@pytest.mark.parametrize(
    "candidates",
    [
        {"method": ["BL", "S1"], "inputs": ["raw", "standard"], "noise": (0.2, 0.5)},
        [{"noise": [Gaussian(0.1), 0.4], "classifier": "dscm"}, {"refine": [(1, 2)]}],
        {"method": "S1M", "ridge": np.array([0.1, 1.0]), "inputs": ["unit"]},
        {"method": ["S1"], "noise": [np.full(9, 0.3), np.full(9, 0.6)], "classifier": ["nn"]},
    ],
)
def test_searches(candidates, tmp_path):
    model = fit(MDAClassifierCV(candidates, random_state=0, calibrate=False, scoring="entropy"))
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    assert repr(again.candidates) == repr(model.candidates)
    assert plain(again.candidates_) == plain(model.candidates_)
    assert plain(again.best_params_) == plain(model.best_params_)
    assert (again.best_index_, again.calibration_) == (model.best_index_, {})
    # The loaded grid is a grid: another fit searches it and finds the same.
    assert fit(again).best_index_ == model.best_index_


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MDAClassifierCV({"classifier": [LogisticRegression(C=0.01)]}), "candidates=Logistic"),
        (MDAClassifierCV({"method": ["BL"]}, scoring=PredictionEntropyScorer()), "scoring=Pred"),
        (MDAClassifierCV(random_state=np.random.RandomState(0)), "random_state=RandomState"),
    ],
)
def test_refused(model, words, tmp_path):
    with pytest.raises(ModelFileError, match=words + ".* cannot be saved"):
        fit(model).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_members_share_what_is_the_same(tmp_path, usual_inputs, adapted_default):
    """Two inputs of the same sparse rows have the same zeros, which are stored once."""
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.poisson(0.2, (110, 200)) + 2.0 * np.eye(110, 200, k=50))
    model = fit(MDAClassifierCV(random_state=0), X)
    assert model.members_[0].model.solver_ == "dual"
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, X)
    _, arrays = read_file(tmp_path / "m")
    assert "member0.layer0.X.indices" in arrays
    assert "member1.layer0.X.indices" not in arrays
    assert "member1.layer0.X.data" in arrays


def test_a_refit_forgets_the_files_preprocessing_and_the_search(tmp_path):
    model = fit(MDAClassifierCV({"method": ["BL"]}, random_state=0))
    model.preprocessing_ = {"version": 1}
    again = round_trip(model, tmp_path / "m")
    assert again.preprocessing_ == {"version": 1}
    fit(again.set_params(candidates="auto"))
    assert not hasattr(again, "preprocessing_")
    assert not hasattr(again, "best_index_")


@pytest.fixture(scope="module")
def kept():
    return {}


@pytest.fixture
def saved(tmp_path, usual_inputs, adapted_default, kept):
    """A copy of the file of one fit."""
    if not kept:
        fit(MDAClassifierCV(random_state=0), COUNTS).save(tmp_path / "m")
        kept["m"] = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(kept["m"])
    return tmp_path / "m"


HOSTILE = [
    put("members", value=[]),
    put("members", value={}),
    put("members", 0, "name", value=3),
    put("members", 0, "weight", value=float("nan")),
    put("members", 0, "weight", value="1"),
    put("members", 0, "spread", value=0),
    put("members", 0, "spread", value=10**400),
    put("members", 0, "view", "kind", value="os.system"),
    put("members", 0, "view", "kind", value="standard"),
    put("members", 0, "view", "columns", value={"array": "member0.domains"}),
    put("members", 0, "model", "kind", value="MDAClassifierCV"),
    put("members", 0, "model", "kind", value="DSCM"),
    put("members", 0, "model", "kind", value="MDA"),
    put("members", 0, "model", "classes", value={"texts": ["a", "b", "c"], "object": True}),
    put("members", 0, "model", "n_features_in", value=5),
    put("n_features_in", value=5),
    put("classes", value={"texts": ["a"], "object": True}),
    put("sharpness", value=-1.0),
    put("sharpness", value=None),
    put("setting", value="XX"),
    put("record", "predict", value=3),
    put("record", "candidates_", value=[3]),
    put("record", "candidates_", value={"pairs": [[{"list": []}, 1]]}),
    put("source_skill", value="high"),
    put("parameters", "hook", value="os.system"),
    put("kind", value="MDAClassifier"),
    drop("members"),
    drop("record"),
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_hostile_fields_with_a_right_checksum(change, saved):
    assert_refused(saved, change)


def test_skops_round_trips_the_ensemble(tmp_path, adapted_default):
    skops = pytest.importorskip("skops.io")
    for X in (CASE.X, sp.csr_array(COUNTS)):
        model = fit(MDAClassifierCV(random_state=0), X)
        skops.dump(model, tmp_path / "m.skops")
        names = skops.get_untrusted_types(file=tmp_path / "m.skops")
        assert all(name.split(".")[0] in ("marda", "sklearn", "scipy", "numpy") for name in names)
        again = skops.load(tmp_path / "m.skops", trusted=names)
        assert_same(model, again, X)
        assert again.candidates_ == model.candidates_
