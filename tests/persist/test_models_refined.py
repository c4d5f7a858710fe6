"""Files of kernel classifiers, of centred, normalised and refined rows, and of format 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from marda import MDA, MDAClassifier
from marda.persist import ModelFileError, load
from persist.test_models import CASE, assert_refused, assert_same, fit, rewrite, round_trip
from problems import make_case

US = make_case("US", seed=2, n_source=60, n_target=50, positive=True)


def fit_us(model, X=US.X):
    return model.fit(X, US.codes, sample_domain=US.domain)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{"solver": "primal"}, {"solver": "dual"}, {"n_layers": 2}])
@pytest.mark.parametrize("classifier", ["ridge", "kernel", "nn", "dscm"])
@pytest.mark.parametrize("normalize", [False, True])
def test_centred_and_normalised_rows(normalize, classifier, options, dtype, tmp_path):
    options = {"classifier": classifier, "center": True, "normalize": normalize, **options}
    X = CASE.X.astype(dtype)
    model = fit(MDAClassifier("S1D", **options), X)
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, X)
    np.testing.assert_array_equal(
        model.transform(X, sample_domain=CASE.domain), again.transform(X, sample_domain=CASE.domain)
    )
    assert again.get_params() == model.get_params()
    assert hasattr(again, "coef_") == hasattr(model, "coef_")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("refine", [2, (2, 4), "auto", [3]])
@pytest.mark.parametrize("classifier", ["ridge", "kernel"])
def test_refined_models(classifier, refine, sparse, tmp_path):
    X = sp.csr_array(US.X) if sparse else US.X
    options = {"refine": refine, "ridge_class": "auto", "scaling": "relative"}
    model = fit_us(MDAClassifier("S1", classifier=classifier, **options), X)
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, X)
    assert again.get_params() == model.get_params()
    assert again.rounds_ == model.rounds_
    assert len(again.rounds_) > 0
    assert again.source_skill_ == model.source_skill_
    if refine == "auto":
        assert again.target_skill_ == model.target_skill_
        np.testing.assert_array_equal(again.target_shares_, model.target_shares_)
    assert again.model_.training.left_out is None


def test_a_centred_transformer(tmp_path):
    model = fit(MDA("S1M", center=True, normalize=True))
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    source = model.transform(CASE.X, sample_domain=CASE.domain)
    np.testing.assert_array_equal(source, again.transform(CASE.X, sample_domain=CASE.domain))


def test_basis_rows_keep_their_precision(tmp_path):
    sizes = []
    for dtype in (np.float32, np.float64):
        fit_us(MDAClassifier("BL", classifier="kernel"), US.X.astype(dtype)).save(tmp_path / "m")
        assert load(tmp_path / "m").classifier_.basis_.dtype == dtype
        sizes.append((tmp_path / "m").stat().st_size)
    assert sizes[0] < sizes[1] - 4 * 60 * 6 + 100


def test_files_of_format_1_load():
    """A file that marda wrote before it had kernels, centres and rounds."""
    old = load(Path(__file__).parents[1] / "data" / "format-1.marda")
    new = fit(MDAClassifier("S1D", solver="primal", noise=np.full(6, 0.2)))
    assert (old.center, old.normalize, old.refine) == (False, False, 0)
    np.testing.assert_allclose(old.decision_function(CASE.X), new.decision_function(CASE.X))
    np.testing.assert_allclose(old.transform(CASE.X), new.transform(CASE.X))


# Hostile files --------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    model = MDAClassifier("S1", classifier="kernel", center=True, refine="auto")
    fit_us(model).save(tmp_path / "m")
    return tmp_path / "m"


def put(*path, value):
    def change(header, content, body):
        at = content["estimator"]
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    change.__name__ = f"{'.'.join(map(str, path))}={str(value)[:30]}"
    return change


def drop(key):
    def change(header, content, body):
        del content["estimator"][key]

    change.__name__ = f"no {key}"
    return change


HOSTILE = [
    put("kernel", "variance", value=0),
    put("kernel", "variance", value=-1.0),
    put("kernel", "variance", value=float("nan")),
    put("kernel", "variance", value=10**400),
    put("kernel", "variance", value="1"),
    put("kernel", "variance", value=True),
    put("kernel", "basis", value={"array": "kernel.coef"}),
    put("kernel", "coef", value={"array": "kernel.intercept"}),
    put("kernel", "intercept", value={"array": "centers.domains"}),
    put("centers", "means", value={"array": "kernel.basis"}),
    put("centers", "domains", value={"array": "kernel.intercept"}),
    put("rounds", value=[[1, 2]]),
    put("rounds", 0, 6, value="yes"),
    put("rounds", 0, 2, value=-1),
    put("rounds", 0, 2, value=1.5),
    put("rounds", 0, 4, value=float("inf")),
    put("rounds", value=7),
    put("source_skill", value=2.0),
    put("source_skill", value=[]),
    put("parameters", "center", value=False),
    put("parameters", "classifier", value="dscm"),
    put("parameters", "classifier", value="ridge"),
    put("parameters", "classifier", value={"tuple": ["kernel"]}),
    put("parameters", "refine", value=[1]),
    put("parameters", "refine", value={"tuple": 3}),
    put("classes", value={"texts": ["a" * 10**6, *"b" * 10**5], "object": False}),
    drop("centers"),
    drop("kernel"),
]


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_hostile_fields_with_a_right_checksum(change, saved):
    assert_refused(saved, change)


def test_a_ridge_on_normalised_rows_needs_its_predictor(tmp_path):
    fit_us(MDAClassifier("S1", normalize=True)).save(tmp_path / "m")
    rewrite(tmp_path / "m", put("parameters", "normalize", value=False))
    with pytest.raises(ModelFileError, match="class predictor is missing"):
        load(tmp_path / "m")
