"""Ensembles with source-only members, leaves and aligned rows: files, ONNX graphs, record."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDAClassifier, MDAClassifierCV, load
from marda.persist import ModelFileError
from marda.selection import source_only
from marda.selection.ensemble import Ensemble, Member
from marda.selection.inputs import Inputs, align, leaf_inputs, robust_inputs
from marda.selection.source_only import SOURCE_KINDS, fit_source_only
from marda.trees.forest import fit_forest
from persist.test_models import assert_refused, assert_same, rewrite, round_trip
from persist.test_models_refined import put
from persist.test_onnx import assert_same as assert_same_graph
from problems import make_case

CASE = make_case("US", seed=5, d=9, n_source=60, n_target=50)
KNOWN = CASE.codes >= 0
TARGET = CASE.X[CASE.domain < 0]
FOREST = fit_forest(CASE.X[KNOWN], CASE.codes[KNOWN], 3, seed=0, n_trees=12).forest


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    """Of all forests here: what they say does not matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_only, "fit_forest", partial(fit_forest, n_trees=10))
        yield


def fits(X=CASE.X):
    found = fit_source_only(X[KNOWN], CASE.codes[KNOWN], 3, class_weight="balanced", seed=0)
    return {one.model.kind: one.model for one in (found.chosen, *found.others)}


def adapted(inputs, X=CASE.X):
    model = MDAClassifier("S1", classifier="kernel", normalize=True)
    return model.fit(inputs.apply(X), CASE.codes, sample_domain=CASE.domain)


def member(inputs, model, X=TARGET, weight=0.7):
    one = Member(model.__class__.__name__, inputs, model, weight, 1.0)
    return Member.of(one.name, inputs, model, weight, one.scores(X)).frozen


def ensemble_of(*members, X=CASE.X):
    """A fitted estimator whose members are these."""
    model = MDAClassifierCV({"method": ["BL"]}, random_state=0, calibrate=False)
    model.fit(X, CASE.codes, sample_domain=CASE.domain)
    model.ensemble_ = Ensemble(members, 1.3)
    return model


MATRIX = np.random.default_rng(0).normal(size=(9, 4))
COLUMNS = np.array([0, 2, 3, 7])


def kinds():
    found = {
        kind: partial(lambda kind: (Inputs("raw"), fits()[kind]), kind) for kind in SOURCE_KINDS
    }
    moved = align(np.linspace(0.5, 2, 9), np.arange(9.0))
    turned = align(MATRIX, np.arange(4.0))
    leaves = leaf_inputs(FOREST)
    some = Inputs(
        "leaves",
        COLUMNS,
        forest=fit_forest(
            CASE.X[KNOWN][:, COLUMNS], CASE.codes[KNOWN], 3, seed=0, n_trees=5
        ).forest,
    )
    found["aligned"] = lambda: (moved, fits(moved.apply(CASE.X))["pool"])
    found["aligned by a matrix"] = lambda: (turned, fits(turned.apply(CASE.X))["pool"])
    found["other shares"] = lambda: (Inputs("raw"), fits()["pool"].with_prior([0.7, 0.2, 0.1]))
    found["leaves"] = lambda: (leaves, adapted(leaves))
    found["leaves of some columns"] = lambda: (some, adapted(some))
    found["aligned, adapted"] = lambda: (turned, adapted(turned))
    robust = robust_inputs(CASE.X, 1.0, COLUMNS)
    found["robust"] = lambda: (robust, adapted(robust))
    return found


@pytest.mark.parametrize("kind", kinds())
def test_files_and_graphs_say_the_same(kind, tmp_path):
    model = ensemble_of(member(*kinds()[kind]()))
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    np.testing.assert_array_equal(again.predict_proba(TARGET), model.predict_proba(TARGET))
    assert again.members_[0].inputs.kind == model.members_[0].inputs.kind
    model.to_onnx(tmp_path / "graph")
    assert_same_graph(model, tmp_path / "graph", CASE.X)
    # Rows far outside too: trees and tails cut what is too large.
    assert_same_graph(model, tmp_path / "graph", 1e3 * CASE.X[::-1])


@pytest.mark.parametrize("kind", ["linear", "forest", "boosting", "pool"])
def test_sparse_rows(kind, tmp_path):
    X = np.maximum(np.round(2 * CASE.X - 2), 0)
    model = ensemble_of(member(Inputs("raw"), fits(sp.csr_array(X))[kind]), X=sp.csr_array(X))
    again = round_trip(model, tmp_path / "m")
    expected = model.predict_proba(X)
    np.testing.assert_allclose(again.predict_proba(sp.csr_array(X)), expected, atol=1e-12)
    moved = align(np.linspace(0.5, 2, 9), np.zeros(9))
    assert sp.issparse(moved.apply(sp.csr_array(X)))
    np.testing.assert_allclose(moved.apply(sp.csr_array(X)).toarray(), moved.apply(X))
    shifted = align(np.ones(9), np.ones(9)).apply(sp.csr_array(X))
    np.testing.assert_allclose(shifted, X + 1)


def test_several_members_of_either_kind(tmp_path):
    leaves = leaf_inputs(FOREST)
    model = ensemble_of(
        member(Inputs("raw"), fits()["pool"]),
        member(leaves, adapted(leaves)),
        member(Inputs("unit"), adapted(Inputs("unit"))),
    )
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    # Rows are denoised by the first member that denoises.
    names = model.get_feature_names_out()
    assert list(names[:2]) == ["leaf0", "leaf1"]
    assert model.transform(TARGET).shape == (len(TARGET), len(names))
    np.testing.assert_array_equal(again.transform(TARGET), model.transform(TARGET))


def test_rows_stay_as_they_are_where_no_member_denoises():
    model = ensemble_of(member(Inputs("raw"), fits()["linear"]))
    np.testing.assert_array_equal(model.transform(TARGET), TARGET)
    assert list(model.get_feature_names_out()) == [f"x{k}" for k in range(9)]
    assert model.members_[0].adapted is None


def test_names_of_aligned_columns():
    turned = align(MATRIX, np.arange(4.0))
    model = ensemble_of(member(turned, adapted(turned)))
    assert list(model.get_feature_names_out()) == [f"aligned{k}" for k in range(4)]
    moved = align(np.ones(9), np.zeros(9))
    model = ensemble_of(member(moved, adapted(moved)))
    assert list(model.get_feature_names_out()) == [f"x{k}" for k in range(9)]


# Hostile files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    leaves = leaf_inputs(FOREST)
    turned = align(MATRIX, np.arange(4.0))
    model = ensemble_of(
        member(Inputs("raw"), fits()["pool"].with_prior([0.5, 0.3, 0.2])),
        member(Inputs("raw"), fits()["forest"]),
        member(leaves, adapted(leaves)),
        member(turned, fits(turned.apply(CASE.X))["kernel"]),
        member(align(np.ones(9), np.zeros(9)), fits()["linear"]),
    )
    path = tmp_path_factory.mktemp("whole") / "m"
    model.save(path)
    assert len(load(path).members_) == 5
    return path.read_bytes()


@pytest.fixture
def saved(whole, tmp_path):
    (tmp_path / "m").write_bytes(whole)
    return tmp_path / "m"


def change(*path, value):
    return put("members", *path, value=value)


def array(name):
    return {"array": name}


HOSTILE = [
    change(0, "model", "voice", value="os.system"),
    change(0, "model", "voice", value="forest"),
    change(0, "model", "parts", value=[]),
    change(0, "model", "parts", value=3),
    change(0, "model", "weights", value=array("member0.bias")),
    change(0, "model", "sharpness", value=0),
    change(0, "model", "sharpness", value=float("nan")),
    change(0, "model", "shares", value=array("member0.weights")),
    change(0, "model", "bias", value=array("member1.forest.roots")),
    change(0, "model", "inputs", "kind", value="pickle"),
    change(0, "model", "parts", 0, "inputs", "knee", value=-1),
    change(0, "model", "parts", 0, "inputs", "spread", value=array("member4.view.offset")),
    change(1, "model", "voice", value="linear"),
    change(1, "model", "forest", "children", value=array("member1.forest.values")),
    change(1, "model", "forest", "feature", value=array("member1.forest.roots")),
    change(1, "model", "forest", "roots", value=array("member1.forest.feature")),
    change(1, "model", "forest", "middle", value=array("member1.shares")),
    change(1, "model", "forest", "unit", value=array("member4.view.offset")),
    change(1, "model", "forest", "values", value=array("member3.view.factor")),
    change(2, "view", "kind", value="aligned"),
    change(2, "view", "kind", value="raw"),
    change(2, "view", "forest", "threshold", value=array("member1.forest.unit")),
    change(3, "view", "offset", value=array("member4.view.offset")),
    change(3, "view", "factor", value=array("member4.view.factor")),
    change(3, "view", "kind", value="leaves"),
    change(3, "model", "kernel", "variance", value=0),
    change(4, "view", "offset", value=array("member3.view.offset")),
    change(4, "model", "coef", value=array("member4.intercept")),
    change(4, "model", "kind", value="Forest"),
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_hostile_fields_with_a_right_checksum(change, saved):
    assert_refused(saved, change)


def test_a_pool_of_itself_has_an_end(saved):
    def nest(header, content, body):
        one = content["estimator"]["members"][0]["model"]
        for _ in range(300):
            one = {**one, "parts": [one], "weights": {"array": "deep"}}
        content["estimator"]["members"][0]["model"] = one

    rewrite(saved, nest)
    with pytest.raises(ModelFileError):
        load(saved)
