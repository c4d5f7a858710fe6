"""The ONNX graph in onnxruntime gives marda's scores, probabilities and labels."""

from __future__ import annotations

import csv
import os

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from marda import MDAClassifier, MDAClassifierCV, cli, pack
from marda.adaptation import ReadOptions, adapt
from marda.persist import load
from marda.persist.onnx import OnnxError
from problems import make_case

pytestmark = pytest.mark.usefixtures("few_draws")

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

CASE = make_case("SS", seed=3, positive=True)


def fit(model, y=CASE.codes, X=CASE.X):
    return model.fit(X, y, sample_domain=CASE.domain)


def run(path, X):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["label", "scores", "probabilities"], {"X": np.asarray(X, np.float64)})


def assert_same(model, path, X):
    label, scores, probabilities = run(path, X)
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-9)
    assert label.tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("classifier", ["ridge", "dscm"])
@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize("method", ["BL", "S1MD", "J12D"])
def test_graphs(method, solver, classifier, tmp_path):
    model = fit(MDAClassifier(method, classifier=classifier, solver=solver, tol=1e-3))
    model.to_onnx(tmp_path / "m.onnx")
    assert_same(model, tmp_path / "m.onnx", CASE.X)
    assert os.listdir(tmp_path) == ["m.onnx"]


@pytest.mark.parametrize("classifier", ["ridge", "dscm"])
@pytest.mark.parametrize("concatenate", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu", "identity"])
def test_layers(activation, concatenate, classifier, tmp_path):
    options = {"n_layers": 2, "activation": activation, "concatenate": concatenate}
    model = fit(MDAClassifier("S1D", classifier=classifier, **options))
    model.to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", CASE.X)


@pytest.mark.parametrize("classifier", ["ridge", "dscm"])
@pytest.mark.parametrize("classes", [["p", "ü"], [3, 8], [0.0, 1.0], [False, True]])
def test_two_classes_of_any_type(classes, classifier, tmp_path):
    y = np.array(classes, dtype=object if isinstance(classes[0], str) else None)
    y = y[(CASE.codes == 1).astype(int)]
    model = fit(MDAClassifier(classifier=classifier), y)
    model.to_onnx(tmp_path / "m")
    assert_same(model, tmp_path / "m", CASE.X)


def test_float32_models_stay_within_their_precision(tmp_path):
    model = fit(MDAClassifier(), X=CASE.X.astype(np.float32))
    model.to_onnx(tmp_path / "m")
    scores = run(tmp_path / "m", CASE.X)[1]
    np.testing.assert_allclose(scores, model.decision_function(CASE.X), atol=1e-5)


@pytest.mark.parametrize(
    ("classifier", "words"),
    [("nn", "'?nn'? has no ONNX graph: it looks up"), (LogisticRegression(), "LogisticRegression")],
)
def test_refused(classifier, words, tmp_path):
    model = fit(MDAClassifier(classifier=classifier))
    with pytest.raises(OnnxError, match=words):
        model.to_onnx(tmp_path / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["u", "v"], "column 'c' holds words.* encode it before"),
        (["2024-03-01", "2024-05-17"], "column 'c' holds dates.* turn it into numbers before"),
    ],
)
def test_columns_of_words_and_dates_are_refused(cells, words, tmp_path):
    for name in ("s", "t"):
        lines = [f"{cells[k // 2 % 2]},{k},{k % 2}" for k in range(30)]
        (tmp_path / f"{name}.csv").write_text("c,a,y\n" + "\n".join(lines))
    done = adapt(tmp_path / "s.csv", tmp_path / "t.csv", ReadOptions("y"))
    with pytest.raises(OnnxError, match=words):
        done.model.to_onnx(tmp_path / "m")


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_preprocessing_is_in_the_graph(kind, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(y[:, None] * [1, 50, 0.1], [1, 20, 0.05], (60, 3)) + np.array([5, 0, 1])
    gaps = X.copy()
    gaps[3, 1] = gaps[7, 0] = np.nan
    if kind == "npz":
        np.savez(tmp_path / "s.npz", X=gaps, y=y)
        np.savez(tmp_path / "t.npz", X=X + 1)
    else:
        for name, rows in (("s", gaps), ("t", X + 1)):
            with (tmp_path / f"{name}.csv").open("w", newline="") as file:
                out = csv.writer(file)
                out.writerow(["a", "b", "c", *(["y"] if name == "s" else [])])
                for row, label in zip(rows, y, strict=True):
                    cells = ["" if np.isnan(v) else repr(float(v)) for v in row]
                    out.writerow([*cells, *([label] if name == "s" else [])])
    options = ReadOptions("y", missing="impute", scale="standard")
    done = adapt(tmp_path / f"s.{kind}", tmp_path / f"t.{kind}", options, model=tmp_path / "m")
    load(tmp_path / "m").to_onnx(tmp_path / "m.onnx")
    label, _, probabilities = run(tmp_path / "m.onnx", X + 1)
    assert label.tolist() == done.predictions.tolist()
    np.testing.assert_allclose(probabilities, done.probabilities, atol=1e-9)
    assert np.isfinite(run(tmp_path / "m.onnx", gaps)[1]).all()


@pytest.mark.parametrize("method", ["auto", "S1D"])
def test_from_files_to_onnx(method, tmp_path, monkeypatch, capsys):
    """CSV → adapt → predict on a second file → Python → ONNX: the same labels everywhere."""
    rng = np.random.default_rng(1)
    centres = rng.normal(0, 2, (3, 5))
    names = [f"f{k}" for k in range(5)]
    data = {}
    for name, n, shift in (("old", 90, 0.0), ("new", 70, 0.8), ("more", 50, 0.8)):
        y = np.arange(n) % 3
        X = np.round(centres[y] + rng.normal(shift, 1, (n, 5)), 6)
        data[name] = X, np.array(["low", "mid", "top"], dtype=object)[y]
        order = np.arange(5)[::-1] if name == "more" else np.arange(5)
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file)
            out.writerow([*(names[k] for k in order), *(["y"] if name == "old" else [])])
            for row, label in zip(X[:, order].tolist(), data[name][1], strict=True):
                out.writerow([*row, *([label] if name == "old" else [])])
    monkeypatch.chdir(tmp_path)
    for command in (
        "adapt --source old.csv --target new.csv --label y --model m.marda --out new-p.csv"
        f" --method {method}",
        "predict --model m.marda --input more.csv --out more-p.csv",
    ):
        assert cli.main(command.split()) == 0
        assert capsys.readouterr().err == ""
    X, y, domain = pack(*data["old"], data["new"][0])
    model = MDAClassifier("S1D") if method == "S1D" else MDAClassifierCV(random_state=0)
    model.fit(X, y, sample_domain=domain)
    loaded = load(tmp_path / "m.marda")
    loaded.to_onnx(tmp_path / "m.onnx")
    for name in ("new", "more"):
        with (tmp_path / f"{name}-p.csv").open(newline="") as file:
            told = [row["prediction"] for row in csv.DictReader(file)]
        assert told == model.predict(data[name][0]).tolist()
        assert told == loaded.predict(data[name][0]).tolist()
        assert told == run(tmp_path / "m.onnx", data[name][0])[0].tolist()
    scores = run(tmp_path / "m.onnx", data["more"][0])[1]
    np.testing.assert_allclose(scores, model.decision_function(data["more"][0]), atol=1e-5)
