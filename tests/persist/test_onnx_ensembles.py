"""Kernel classifiers, centred and normalised rows, and ensembles as ONNX graphs."""

from __future__ import annotations

import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from marda import MDAClassifier, MDAClassifierCV
from marda.adaptation import ReadOptions, adapt
from marda.io import Preprocessing, read_batches
from marda.persist import load, onnx
from marda.persist.onnx import OnnxError
from persist.test_onnx import CASE, assert_same, fit, run
from problems import make_case

WIDE = make_case("US", seed=5, d=9, n_source=60, n_target=50, positive=True)


def fit_cv(model, X=WIDE.X, y=WIDE.codes):
    return model.fit(X, y, sample_domain=WIDE.domain)


@pytest.mark.parametrize("classifier", ["ridge", "kernel", "dscm"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("options", [{"solver": "primal"}, {"solver": "dual"}, {"n_layers": 2}])
def test_centred_and_normalised_rows(options, normalize, center, classifier, tmp_path):
    model = MDAClassifier(
        "S1D", classifier=classifier, center=center, normalize=normalize, **options
    )
    fit(model).to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", CASE.X)


@pytest.mark.parametrize("classifier", ["ridge", "kernel"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_refined_models(n_classes, classifier, tmp_path):
    case = make_case("US", seed=2, n_classes=n_classes)
    model = MDAClassifier("S1", classifier=classifier, refine=(2, 4), normalize=True)
    model.fit(case.X, case.codes, sample_domain=case.domain).to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", case.X)


def test_empty_rows_stay_empty(tmp_path):
    case = CASE._replace(X=CASE.X * (np.arange(64) % 8 > 0)[:, None])
    model = MDAClassifier("BL", classifier="kernel", normalize=True)
    model.fit(case.X, case.codes, sample_domain=case.domain).to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", case.X)


@pytest.mark.parametrize("margin", [0.02, 1.0])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_ensemble(n_classes, sparse, margin, tmp_path, monkeypatch, adapted_default):
    """Members on unit and root rows, or on whatever predicts better."""
    monkeypatch.setattr("marda.selection.inputs.MARGIN", margin)
    case = make_case("US", seed=5, d=9, n_classes=n_classes, n_source=60, n_target=50)
    X = np.maximum(np.round(case.X - 1), 0) if sparse else case.X
    model = MDAClassifierCV(random_state=0).fit(X, case.codes, sample_domain=case.domain)
    if margin == 1:
        assert len(model.members_) == (3 if sparse else 2)
    model.to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", X)
    # Scores agree, and so do labels, on rows that the model has not seen.
    assert_same(model, tmp_path / "m", X[::-1] * 1.5)


def test_the_ensemble_has_its_own_columns(monkeypatch, tmp_path, adapted_default):
    monkeypatch.setattr("marda.selection.adapted_ensemble.MAX_FEATURES", 5)
    model = fit_cv(MDAClassifierCV(random_state=0))
    assert len(model.members_[0].inputs.columns) == 5
    model.to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", WIDE.X)


@pytest.mark.parametrize("inputs", ["raw", "unit", "sqrt", "standard"])
def test_every_kind_of_inputs_in_a_search(inputs, tmp_path):
    X = WIDE.X - 1  # roots of negative numbers keep their sign
    grid = {"method": ["BL", "S1"], "inputs": [inputs], "classifier": ["dscm"]}
    model = fit_cv(MDAClassifierCV(grid, random_state=0), X)
    model.to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", X)


def test_float32_models_stay_within_their_precision(tmp_path, adapted_default):
    X = WIDE.X.astype(np.float32)
    model = fit_cv(MDAClassifierCV(random_state=0), X)
    model.to_onnx(tmp_path / "m")
    label, scores, _ = run(tmp_path / "m", X)
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-6)
    assert label.tolist() == model.predict(X).tolist()
    wide = fit_cv(MDAClassifierCV(random_state=0))
    wide.to_onnx(tmp_path / "wide")
    assert os.path.getsize(tmp_path / "m") < 0.8 * os.path.getsize(tmp_path / "wide")


def test_a_loaded_ensemble_has_the_same_graph(tmp_path, adapted_default):
    fit_cv(MDAClassifierCV(random_state=0)).save(tmp_path / "m.marda")
    again = load(tmp_path / "m.marda")
    again.to_onnx(tmp_path / "m.onnx")
    assert_same(again, tmp_path / "m.onnx", WIDE.X)


def test_preprocessing_comes_before_the_inputs(tmp_path, adapted_default):
    """An ensemble on scaled columns, with gaps filled: the graph takes the rows of the file."""
    gaps = WIDE.X * np.geomspace(1, 1000, 9) + 5
    gaps[3, 1] = gaps[7, 0] = np.nan
    np.savez(tmp_path / "s.npz", X=gaps[:60], y=WIDE.codes[:60])
    np.savez(tmp_path / "t.npz", X=gaps[60:])
    options = ReadOptions("y", missing="impute", scale="standard")
    state = adapt(tmp_path / "s.npz", tmp_path / "t.npz", options).model.preprocessing_
    chosen = Preprocessing.from_json(state)
    parts = [next(read_batches(tmp_path / f"{k}.npz", columns=chosen.columns)) for k in "st"]
    rows = np.vstack([chosen.transform(part) for part in parts])
    model = fit_cv(MDAClassifierCV(random_state=0), rows)
    model.preprocessing_ = state
    model.to_onnx(tmp_path / "m")
    label, scores, _ = run(tmp_path / "m", gaps)
    np.testing.assert_allclose(scores, model.decision_function(rows), atol=1e-9)
    assert label.tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize(
    ("classifier", "words"),
    [
        ("nn", "'nn' has no ONNX graph: it looks up"),
        (LogisticRegression(C=0.01), "LogisticRegression"),
    ],
)
def test_a_member_without_a_graph_is_refused(classifier, words, tmp_path):
    model = fit_cv(MDAClassifierCV({"classifier": [classifier]}, random_state=0))
    with pytest.raises(OnnxError, match=words):
        model.to_onnx(tmp_path / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("options", [{}, {"n_pivots": 60}, {"n_layers": 2}, {"normalize": True}])
def test_training_rows_stand_for_a_wide_map(options, sparse, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, (64, 300)) + 0.2 * CASE.X[:, :1]
    X = np.where(rng.random(X.shape) < 0.5, 0, X)
    model = MDAClassifier("S1MD", classifier="dscm", solver="dual", **options)
    model.fit(sp.csr_array(X) if sparse else X, CASE.codes, sample_domain=CASE.domain)
    model.to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", X)
    width = options.get("n_pivots", 300)
    assert (width == 60) or os.path.getsize(tmp_path / "m") < 8 * 300 * width


def test_a_wide_map_is_refused_before_it_is_made(monkeypatch, tmp_path):
    model = fit(MDAClassifier("S1", classifier="kernel", solver="dual"))
    monkeypatch.setattr(onnx, "MAX_BYTES", 6 * 6 * 8 - 1)
    with pytest.raises(OnnxError, match=r"W, the denoising map, is a dense 6×6 matrix.*n_pivots"):
        model.to_onnx(tmp_path / "m")
    monkeypatch.undo()
    monkeypatch.setenv("MARDA_MEMORY", "500B")
    with pytest.raises(OnnxError, match=r"the graph holds W as a matrix: .*MARDA_MEMORY"):
        model.to_onnx(tmp_path / "m")
    assert os.listdir(tmp_path) == []
