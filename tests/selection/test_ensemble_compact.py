"""Compact members against the models that they stand in for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, MDAClassifierCV, load
from marda.persist import ModelFileError
from marda.persist.models import read_file
from marda.selection import ensemble as compact
from marda.selection.ensemble import Ensemble, Member, compress
from marda.selection.inputs import Inputs
from marda.selection.labelling import choose_rows
from problems import make_case

pytestmark = pytest.mark.usefixtures("few_draws")

D = 40


def case_of(n_classes):
    return make_case("US", seed=3, d=D, n_source=150, n_target=120, n_classes=n_classes)


def fitted(n_classes, **options):
    case = case_of(n_classes)
    model = MDAClassifier(
        "S1", classifier="kernel", normalize=True, refine=2, random_state=0, **options
    )
    return case, model.fit(case.X, case.codes, sample_domain=case.domain)


def centred(S):
    return S - S.mean(1, keepdims=True)


def error(small, model, X):
    """Of scores about their mean over classes, in units of these."""
    S = centred(model.model_.scores(X))
    return np.sqrt(np.mean((centred(small.scores(X)) - S) ** 2) / np.mean(S**2))


@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_directions_give_all_digits_of_float16(n_classes, center, solver):
    case, model = fitted(n_classes, center=center, solver=solver)
    small = compress(model, (D, 4), 0)
    assert D - 5 <= small.n_directions <= D
    assert small.quadratic is None
    assert error(small, model, case.X[case.domain < 0]) < 1e-3
    rows = sp.csr_array(case.X)
    np.testing.assert_allclose(small.scores(rows), small.scores(case.X), atol=1e-4)


def test_fewer_leading_directions_keep_the_quadratic_term(monkeypatch):
    case, model = fitted(2, center=True)
    X = case.X[case.domain < 0]
    monkeypatch.setattr(compact, "LEADING", 4)
    small = compress(model, (D, 4), 0)
    assert small.quadratic is not None
    assert small.quadratic.shape == (small.n_directions - 4, 2)
    with_it = error(small, model, X)
    small.quadratic[:] = 0
    assert with_it < 0.1
    assert error(small, model, X) > 1.5 * with_it


def test_errors_fall_with_the_number_of_directions():
    case, model = fitted(3, center=True)
    errors = [error(compress(model, (r, 8), 0), model, case.X) for r in (2, 8, 24, D)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 20


@pytest.fixture
def small_default(monkeypatch, adapted_default):
    """Whatever the default adapts is compressed."""
    monkeypatch.setattr("marda.selection.inputs.MARGIN", 1.0)  # unit rows
    monkeypatch.setattr(compact, "LARGER", 0.0)
    monkeypatch.setattr(compact, "SIZES", ((D, 8),))


def fit_cv(n_classes=2, sparse=False, **options):
    case = case_of(n_classes)
    X = sp.csr_array(case.X) if sparse else case.X
    model = MDAClassifierCV(random_state=0, **options)
    return X, model.fit(X, case.codes, sample_domain=case.domain)


@pytest.mark.parametrize(("n_classes", "sparse"), [(2, True), (3, False)])
def test_the_default_says_what_compression_changes(n_classes, sparse, small_default, monkeypatch):
    X, model = fit_cv(n_classes, sparse)
    _, full = fit_cv(n_classes, sparse, compress=False)
    assert full.compact_ is None
    assert full.compression_ == {}
    assert model.compression_["used"]
    assert model.compression_["rows"] == 120
    same = model.predict(X[150:]) == full.predict(X[150:])
    assert same.mean() == model.compression_["same_predictions"] >= 0.995
    change = model.ensemble_.scores(X[150:]) - model.compact_.scores(X[150:])
    scores = model.ensemble_.scores(X[150:])
    expected = np.sqrt(np.mean(change**2) / np.mean(scores**2))
    np.testing.assert_allclose(model.compression_["score_error"], expected, rtol=1e-2)
    np.testing.assert_allclose(model.predict_proba(X), full.predict_proba(X), atol=0.02)
    monkeypatch.setattr(compact, "BATCH", 7)
    np.testing.assert_allclose(
        fit_cv(n_classes, sparse)[1].predict_proba(X), model.predict_proba(X), atol=1e-5
    )
    np.testing.assert_array_equal(model.transform(X), full.transform(X))


def test_the_full_members_predict_where_too_many_predictions_would_change(
    small_default, monkeypatch
):
    monkeypatch.setattr(compact, "LEAST_AGREEMENT", 1.1)
    X, model = fit_cv()
    assert model.compact_ is None
    assert not model.compression_["used"]
    np.testing.assert_array_equal(
        model.decision_function(X), fit_cv(compress=False)[1].decision_function(X)
    )


class Turned:
    """Scores that are the rows, of which the first few change classes."""

    def __init__(self, n):
        self.n = n

    def scores(self, rows):
        return np.where(np.arange(len(rows))[:, None] < self.n, -rows, rows)


@pytest.mark.parametrize(("n_changed", "tried"), [(3, 2), (10, 1)])
def test_more_directions_are_not_tried_where_they_would_not_do(n_changed, tried, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(400, 2))
    member = Member("adapted", Inputs("raw"), Turned(0), 1.0, 1.0)
    sizes = []

    def compressed(member, size, seed):
        sizes.append(size)
        return replace(member, model=Turned(n_changed))

    monkeypatch.setattr(compact, "_compressed", compressed)
    monkeypatch.setattr(compact, "BATCH", None)
    full = Ensemble((member,))
    small, found = compact.compress_ensemble(full, full.scores(rows), rows, 0)
    assert small is None
    assert found["same_predictions"] == 1 - n_changed / 400
    assert sizes == list(compact.SIZES[:tried])


def test_small_models_are_left_as_they_are(adapted_default):
    _, model = fit_cv()
    assert model.compact_ is None
    assert model.compression_ == {}


@pytest.mark.parametrize(("n_classes", "sparse"), [(2, True), (3, False)])
def test_files(n_classes, sparse, small_default, tmp_path, monkeypatch):
    monkeypatch.setattr(compact, "SIZES", ((D // 2, 8),))
    monkeypatch.setattr(compact, "LEAST_AGREEMENT", 0.0)
    X, model = fit_cv(n_classes, sparse)
    model.save(tmp_path / "small")
    model.save(tmp_path / "full", compress=False)
    small, full = load(tmp_path / "small"), load(tmp_path / "full")
    for again in (small, full):
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.compression_ == model.compression_
        for rows, others in zip(choose_rows(again, X, 9), choose_rows(model, X, 9), strict=True):
            np.testing.assert_array_equal(rows, others)
    np.testing.assert_array_equal(full.transform(X), model.transform(X))
    with pytest.raises(AttributeError, match="compress=False"):
        small.transform(X)
    with pytest.raises(ModelFileError, match="compressed file"):
        small.save(tmp_path / "again", compress=False)
    small.save(tmp_path / "again")
    np.testing.assert_array_equal(load(tmp_path / "again").predict(X), model.predict(X))
    arrays = read_file(tmp_path / "small")[1].values()
    assert not any(a.ndim == 2 and a.shape[1] == D and len(a) > D for a in arrays)  # no rows


def test_a_file_whose_arrays_do_not_fit_is_refused(small_default, tmp_path):
    _, model = fit_cv()
    first = model.compact_.members[0].model
    object.__setattr__(first, "n_directions", first.matrix.shape[1] + 1)
    model.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="damaged"):
        load(tmp_path / "m")


@pytest.mark.parametrize("leading", [8, 64])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_onnx_graphs_are_of_the_compact_members(
    n_classes, leading, small_default, tmp_path, monkeypatch
):
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(compact, "LEADING", leading)
    X, model = fit_cv(n_classes)
    model.to_onnx(tmp_path / "m")
    model.save(tmp_path / "saved")
    load(tmp_path / "saved").to_onnx(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
    session = onnxruntime.InferenceSession(tmp_path / "m")
    label, scores, P = session.run(None, {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(P, model.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("roots", [False, True], ids=["unit", "roots"])
def test_onnx_graphs_of_compact_members_know_rows_of_any_length(
    roots, small_default, tmp_path, monkeypatch
):
    """Down to empty ones; those whose squares leave float32 are not guessed at."""
    onnxruntime = pytest.importorskip("onnxruntime")
    if roots:
        monkeypatch.setattr("marda.selection.inputs.MOSTLY_ZERO", -1.0)
    X, model = fit_cv(2)
    assert len(model.members_) == 2 + roots
    model.to_onnx(tmp_path / "m")
    session = onnxruntime.InferenceSession(tmp_path / "m")
    for factor in (1e10, 1e-10, 0.0):
        P = session.run(None, {"X": factor * X})[2]
        np.testing.assert_allclose(P, model.predict_proba(factor * X), atol=1e-4)
    for factor in (1e30, 1e-30):
        assert np.isnan(session.run(None, {"X": factor * X})[2]).all()
