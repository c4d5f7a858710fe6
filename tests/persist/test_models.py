"""Model files: what was saved predicts as before; what is not a model file is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from marda import DSCM, MDA, MDAClassifier
from marda.noise import Dropout, Gaussian, Poisson
from marda.persist import ModelFileError, load
from problems import make_case

CASE = make_case("SS", seed=3, positive=True)


def fit(estimator, X=CASE.X, y=CASE.codes):
    return estimator.fit(X, y, sample_domain=CASE.domain)


def round_trip(estimator, path):
    estimator.save(path)
    return load(path)


def assert_same(a, b, X):
    for name in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(a, name):
            np.testing.assert_array_equal(getattr(a, name)(X), getattr(b, name)(X), err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["primal", "dual"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("classifier", ["ridge", "nn", "dscm"])
@pytest.mark.parametrize("method", ["BL", "MCF", "S1MD", "J12D"])
def test_round_trip(method, classifier, sparse, solver, dtype, tmp_path):
    X = CASE.X.astype(dtype)
    X = sp.csr_array(X) if sparse else X
    model = fit(MDAClassifier(method, classifier=classifier, solver=solver, tol=1e-3), X)
    again = round_trip(model, tmp_path / "m.marda")
    assert_same(model, again, X)
    np.testing.assert_array_equal(model.classes_, again.classes_)
    np.testing.assert_array_equal(model.loss_curve_, again.loss_curve_)
    assert (again.setting_, again.solver_) == (model.setting_, model.solver_)
    assert again.get_params() == model.get_params()
    if classifier == "ridge":
        np.testing.assert_array_equal(model.coef_, again.coef_)
        np.testing.assert_array_equal(model.W_, again.W_)


@pytest.mark.parametrize("concatenate", [True, False])
@pytest.mark.parametrize("classifier", ["ridge", "nn", "dscm"])
@pytest.mark.parametrize("solver", ["primal", "dual"])
def test_layers_and_pivots(solver, classifier, concatenate, tmp_path):
    options = {"n_layers": 3, "concatenate": concatenate, "activation": "relu", "n_pivots": 4}
    model = fit(MDAClassifier("S1D", classifier=classifier, solver=solver, **options))
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    assert list(model.get_feature_names_out()) == list(again.get_feature_names_out())


@pytest.mark.parametrize(
    "noise",
    [0.3, np.full(6, 0.2), Dropout(0.4, unbiased=True), Gaussian(np.full(6, 0.1)), Poisson()],
)
def test_transformer_and_noise(noise, tmp_path):
    model = fit(MDA("S1M", noise=noise, solver="dual"))
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    assert type(again.noise) is type(model.noise)


def test_a_model_of_batches_is_solved_and_saved(tmp_path):
    model = MDAClassifier("S1D")
    for rows in (slice(0, 30), slice(30, None)):
        model.partial_fit(CASE.X[rows], CASE.codes[rows], sample_domain=CASE.domain[rows])
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)


def test_dscm_alone(tmp_path):
    model = fit(DSCM(temperature=2.0, domain_weights={0: 2.0}))
    again = round_trip(model, tmp_path / "m")
    assert_same(model, again, CASE.X)
    assert again.domain_weights == {0: 2.0}


@pytest.mark.parametrize(
    "names",
    [
        np.array(["ä", "b", "c"]),
        np.array(["x", "y", "z"], dtype=object),
        np.array([0.0, 1.0, 2.0]),
        np.array([3, 5, 250], dtype=np.uint8),
    ],
)
def test_labels_keep_their_type(names, tmp_path):
    y = names[CASE.codes]
    if names.dtype.kind in "US":
        y = y.astype(object)
    y = np.where(CASE.codes < 0, None, y) if y.dtype.kind == "O" else y
    model = fit(MDAClassifier(class_weight={names[0]: 2.0}), y=y)
    again = round_trip(model, tmp_path / "m")
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(model.predict(CASE.X), again.predict(CASE.X))
    assert again.class_weight == model.class_weight


def test_feature_names_and_unusual_parameters(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(CASE.X, columns=list("abcdef"))
    y = np.where(CASE.codes < 0, np.nan, CASE.codes)
    model = fit(MDAClassifier(unlabeled=np.nan, random_state=np.int64(3)), frame, y)
    again = round_trip(model, tmp_path / "m")
    assert list(again.feature_names_in_) == list("abcdef")
    assert np.isnan(again.unlabeled)
    assert_same(model, again, frame)
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[list("fedcba")])


def test_a_refit_forgets_the_files_preprocessing(tmp_path):
    model = fit(MDAClassifier())
    model.preprocessing_ = {"version": 1}
    again = round_trip(model, tmp_path / "m")
    assert again.preprocessing_ == {"version": 1}
    assert not hasattr(fit(again), "preprocessing_")
    streamed = load(tmp_path / "m")
    streamed.partial_fit(CASE.X, CASE.codes, sample_domain=CASE.domain).predict(CASE.X)
    assert not hasattr(streamed, "preprocessing_")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MDAClassifier(classifier=LogisticRegression()), r"LogisticRegression\(…\) .* skops"),
        (MDAClassifier("S1", solver="cg"), "solver='cg' cannot be saved"),
        (MDAClassifier(random_state=np.random.RandomState(0)), "random_state=RandomState"),
    ],
)
def test_refused(model, words, tmp_path):
    with pytest.raises(ModelFileError, match=words):
        fit(model).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_unfitted_and_unwritable(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        MDA().save(tmp_path / "m")
    model = fit(MDA())
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        model.save(tmp_path / "file" / "m")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")


# Damaged, foreign and hostile files -----------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.marda"
    fit(MDAClassifier("S1D", solver="dual"), sp.csr_array(CASE.X)).save(path)
    return path


def rewrite(path, change):
    """Alter the header or content and make the checksum right again, as an attacker would."""
    from marda.io.container import start_digest

    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    content = json.loads(header["__metadata__"]["content"])
    body = bytearray(raw[8 + length :])
    change(header, content, body)
    metadata = header["__metadata__"]
    metadata["content"] = json.dumps(content)
    table = {k: v for k, v in header.items() if k != "__metadata__"}
    digest = start_digest(metadata, table)
    digest.update(body)
    metadata["sha256"] = digest.hexdigest()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def assert_refused(path, change):
    """A file that was altered so is damaged, and that is said on one line."""
    rewrite(path, change)
    with pytest.raises(ModelFileError, match="damaged") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_every_truncation_is_one_clear_error(saved):
    raw = saved.read_bytes()
    for size in [0, 4, 8, 9, 50, 500, *range(1000, len(raw), 997), len(raw) - 1]:
        saved.write_bytes(raw[:size])
        with pytest.raises(ModelFileError, match=r"damaged|not a marda model file"):
            load(saved)


def test_every_altered_byte_is_noticed(saved):
    raw = saved.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    rng = np.random.default_rng(0)
    places = [*range(9), *rng.integers(9, 8 + length, 200), *rng.integers(8 + length, len(raw), 50)]
    for place in places:
        altered = bytearray(raw)
        altered[place] ^= 1 << int(rng.integers(8))
        saved.write_bytes(altered)
        with pytest.raises(ModelFileError):
            load(saved)
    saved.write_bytes(raw + b"x")
    with pytest.raises(ModelFileError, match="no array owns"):
        load(saved)


@pytest.mark.parametrize("content", [b"PK\x03\x04" + bytes(50), b"a,b\n1,2\n", b"\x80\x04.", b"{}"])
def test_foreign_files(content, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(content * 10)
    with pytest.raises(ModelFileError, match="not a marda model file"):
        load(path)


def test_newer_format(saved):
    rewrite(saved, lambda h, c, b: h["__metadata__"].update(format_version="7"))
    with pytest.raises(ModelFileError, match=r"format 7.*upgrade marda"):
        load(saved)


def set_shape(h, c, b):
    h["W"] = {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 2**83]}


def set_class(h, c, b):
    c["estimator"]["kind"] = "os.system"


def set_parameter(h, c, b):
    c["estimator"]["parameters"]["hook"] = "os.system"


def set_classifier(h, c, b):
    c["estimator"]["parameters"]["classifier"] = "pickle"


def set_layers(h, c, b):
    c["estimator"]["layers"] = 3


def set_reference(h, c, b):
    c["estimator"]["layers"][0]["core"] = {"array": "layer0.offset"}


def set_index(h, c, b):
    start, _ = h["layer0.X.indices"]["data_offsets"]
    b[start : start + 4] = (10**6).to_bytes(4, "little")


def set_width(h, c, b):
    c["estimator"]["n_features_in"] = 10**12


def set_nesting(h, c, b):
    c["estimator"] = []


def set_empty_shape(h, c, b):
    """No elements, and still too large for numpy."""
    at = max(entry["data_offsets"][1] for name, entry in h.items() if name != "__metadata__")
    h["nothing"] = {"dtype": "F64", "shape": [0, 2**62], "data_offsets": [at, at]}


@pytest.mark.parametrize(
    "change",
    [
        set_shape,
        set_empty_shape,
        set_class,
        set_parameter,
        set_classifier,
        set_layers,
        set_reference,
        set_index,
        set_width,
        set_nesting,
    ],
)
def test_hostile_files_with_a_right_checksum(change, saved):
    assert_refused(saved, change)


def test_deep_json(saved):
    raw = b'{"a":' + b"[" * 10**5
    saved.write_bytes(len(raw).to_bytes(8, "little") + raw)
    with pytest.raises(ModelFileError):
        load(saved)


def test_sizes_are_checked_before_memory_is_taken(saved, monkeypatch):
    with pytest.raises(ModelFileError, match="above the limit of 1 kB"):
        load(saved, max_bytes=1000)
    monkeypatch.setenv("MARDA_MEMORY", "1KB")
    with pytest.raises(ModelFileError, match="MARDA_MEMORY"):
        load(saved)


def test_loading_imports_no_pickle_machinery_of_the_file(saved):
    code = (
        "import sys, marda.persist, pickle\n"
        "def no(*a, **k): raise SystemExit('unpickled')\n"
        "pickle.load = pickle.loads = pickle.Unpickler = no\n"
        "before = set(sys.modules); marda.persist.load(sys.argv[1])\n"
        "print(sorted(m for m in set(sys.modules) - before if not m.startswith('sklearn')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_the_layout_is_safetensors(saved):
    safetensors = pytest.importorskip("safetensors.numpy")
    arrays = safetensors.load_file(saved)
    np.testing.assert_array_equal(arrays["layer0.offset"], load(saved).offset_)


@pytest.mark.parametrize(
    "options",
    [
        {"classifier": "ridge"},
        {"classifier": "nn"},
        {"classifier": "dscm"},
        {"classifier": "kernel", "center": True, "normalize": True, "refine": (2, 3)},
        {"ridge_class": "auto", "normalize": True, "refine": "auto"},
    ],
)
def test_skops_round_trips_the_estimators(options, tmp_path):
    skops = pytest.importorskip("skops.io")
    for X in (CASE.X, sp.csr_array(CASE.X)):
        model = fit(MDAClassifier("S1D", solver="dual", **options), X)
        skops.dump(model, tmp_path / "m.skops")
        names = skops.get_untrusted_types(file=tmp_path / "m.skops")
        assert all(name.split(".")[0] in ("marda", "sklearn", "scipy", "numpy") for name in names)
        assert_same(model, skops.load(tmp_path / "m.skops", trusted=names), X)
