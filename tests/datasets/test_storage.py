"""Every file format, on small files written here."""

import numpy as np
import pytest
from scipy import io, sparse
from sklearn.datasets import dump_svmlight_file

from marda import datasets
from marda.datasets import DataError, FormatError, MissingData
from marda.datasets.amt import DOMAINS as REVIEWS
from marda.datasets.images import OFF31

RNG = np.random.default_rng(0)
IMAGES = ("amazon", "caltech10", "dslr", "webcam")


def features(n=12, d=5):
    return RNG.random((n, d)).round(3)


def write_npz(file, domains, dtype=np.float16, n_classes=10):
    arrays = {}
    for name in domains:
        arrays[f"{name}_X"] = (features(2 * n_classes) * 100).astype(dtype)
        arrays[f"{name}_y"] = np.repeat(np.arange(n_classes, dtype=np.uint8), 2)
    np.savez_compressed(file, **arrays)
    return arrays


@pytest.mark.parametrize(
    ("name", "file", "dtype", "kind"),
    [
        ("oc10-squeezenet", "oc10-squeezenet.npz", np.float16, "image"),
        ("oc10-surf", "oc10-surf.npz", np.uint8, "surf"),
        ("oc10-decaf6", "oc10-decaf6-dw.npz", np.float32, "image"),
    ],
)
def test_oc10_npz(tmp_path, name, file, dtype, kind):
    domains = ("dslr", "webcam") if "dw" in file else IMAGES
    arrays = write_npz(tmp_path / file, domains, dtype)
    for asked in (name, "oc10"):
        dataset = datasets.load(asked, tmp_path)
        assert (dataset.name, dataset.kind) == (name, kind)
        assert tuple(dataset.domains) == domains
        np.testing.assert_array_equal(dataset["webcam"].X, arrays["webcam_X"])
        assert dataset["webcam"].X.dtype == np.float32  # nothing is computed in float16
        np.testing.assert_array_equal(dataset["webcam"].y, arrays["webcam_y"])
        assert len(dataset.names) == 10


def test_partial_npz_names_what_is_absent(tmp_path):
    write_npz(tmp_path / "oc10-decaf6-dw.npz", ("dslr", "webcam"), np.float32)
    dataset = datasets.load("oc10-decaf6", tmp_path)
    assert "Without amazon, caltech10" in dataset.notes
    with pytest.raises(DataError, match="no domain 'amazon': choose from dslr, webcam"):
        _ = dataset["amazon"]


@pytest.mark.parametrize("key", ["feas", "fts"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("caltech", ["caltech", "caltech10", "Caltech10"])
def test_oc10_mat(tmp_path, key, first, caltech):
    X = features(20)
    labels = np.repeat(np.arange(10), 2).reshape(-1, 1) + first
    for name in ("amazon", caltech, "dslr", "webcam"):
        io.savemat(tmp_path / f"{name}_decaf.mat", {key: X, "labels": labels})
    dataset = datasets.load("oc10", tmp_path)
    assert dataset.name == "oc10-decaf6"
    assert tuple(dataset.domains) == IMAGES
    np.testing.assert_array_equal(dataset["caltech10"].X, X)
    np.testing.assert_array_equal(dataset["caltech10"].y, labels.ravel() - first)
    dataset.verify()  # nothing is known of these files


def test_oc10_surf_mat_and_sparse(tmp_path):
    counts = RNG.integers(0, 3, (20, 6)).astype(float)
    for name in IMAGES:
        held = sparse.csc_matrix(counts) if name == "dslr" else counts.astype(np.uint8)
        content = {"fts": held, "labels": np.repeat(np.arange(1, 11), 2)}
        io.savemat(tmp_path / f"{name}_SURF_L10.mat", content)
    dataset = datasets.load("oc10-surf", tmp_path)
    assert dataset.kind == "surf"
    np.testing.assert_array_equal(dataset["amazon"].X, counts)
    np.testing.assert_array_equal(dataset["dslr"].X.toarray(), counts)


def test_some_mat_files_are_enough_for_some_domains(tmp_path):
    for name in ("amazon", "dslr"):
        io.savemat(tmp_path / f"{name}_decaf.mat", {"feas": features(2), "labels": [1, 2]})
    assert tuple(datasets.load("oc10-decaf6", tmp_path).domains) == ("amazon", "dslr")


@pytest.mark.parametrize("stem", ["{}_fc6.mat", "{}_decaf.mat", "{}.mat"])
def test_off31_mat(tmp_path, stem):
    for name in OFF31.domains:
        content = {"fts": features(31), "labels": np.arange(1, 32)}
        io.savemat(tmp_path / stem.format(name), content)
    dataset = datasets.load("off31", tmp_path)
    assert dataset.name == "off31-decaf6"
    np.testing.assert_array_equal(dataset["webcam"].y, np.arange(31))


def test_off31_npz_in_a_folder_of_its_own(tmp_path):
    (tmp_path / "off31").mkdir()
    write_npz(tmp_path / "off31" / "off31-squeezenet.npz", OFF31.domains, n_classes=31)
    assert len(datasets.load("off31", tmp_path)["dslr"]) == 62


@pytest.mark.parametrize("header", ["f0,f1,f2,label\n", "0,1,2,label\n", ""])
@pytest.mark.parametrize("labels", ["from 0", "from 1", "names"])
@pytest.mark.parametrize("stem", ["{0}_{0}.csv", "{0}.csv"])
def test_off31_csv(tmp_path, header, labels, stem):
    X = features(31, 3)
    spelled = {"from 0": range(31), "from 1": range(1, 32), "names": OFF31.classes}[labels]
    lines = [",".join(map(str, [*x, y])) for x, y in zip(X, spelled, strict=True)]
    for name in OFF31.domains:
        (tmp_path / stem.format(name)).write_text(header + "\n".join(lines) + "\n\n")
    dataset = datasets.load("off31", tmp_path)
    assert dataset.name == "off31-csv"
    np.testing.assert_allclose(dataset["amazon"].X, X, rtol=1e-6)
    np.testing.assert_array_equal(dataset["amazon"].y, np.arange(31))


def test_csv_label_column_by_name(tmp_path):
    for name in OFF31.domains:
        (tmp_path / f"{name}.csv").write_text("label,a,b\r\n3,0.5,1\r\n0,2,1e-3\r\n")
    domain = datasets.load("off31-csv", tmp_path)["dslr"]
    np.testing.assert_array_equal(domain.y, [3, 0])
    np.testing.assert_allclose(domain.X, [[0.5, 1], [2, 1e-3]], rtol=1e-6)


def reviews(n, rng):
    X = rng.poisson(0.002, (n, 5000)).astype(float)
    X[0] = 0  # a review without any of the words
    X[1:, -1] = 1
    return sparse.csr_matrix(X), rng.integers(0, 2, n)


@pytest.mark.parametrize("form", ["npz", "svmlight", "svmlight from 1", "svmlight 0/1"])
def test_amt(tmp_path, form):
    rng = np.random.default_rng(1)
    expected, arrays = {}, {}
    for domain in REVIEWS:
        for side, n in (("train", 8), ("test", 5)):
            X, y = reviews(n, rng)
            y[:2] = [0, 1]
            expected[domain, side] = X, y
            part = f"{domain}_{side}"
            arrays |= {f"{part}_counts": X.data.astype(np.uint8), f"{part}_y": y.astype(np.uint8)}
            arrays |= {f"{part}_indices": X.indices.astype(np.uint16), f"{part}_indptr": X.indptr}
            if form != "npz":
                labels = y if form.endswith("0/1") else 2 * y - 1
                file = str(tmp_path / f"{part}.svmlight")
                dump_svmlight_file(X, labels, file, zero_based="from 1" not in form)
    if form == "npz":
        np.savez(tmp_path / "amt.npz", **arrays)
    dataset = datasets.load("amt", tmp_path)
    assert tuple(dataset.domains) == REVIEWS
    for (domain, side), (X, y) in expected.items():
        got_X, got_y = dataset[domain].part(side)
        assert got_X.shape[1] == 5000
        np.testing.assert_array_equal(got_y, y)
        assert abs(got_X - X).sum() == 0
    assert dataset["dvd"].train.sum() == 8


def test_amt_without_test_files_is_one_sentence(tmp_path):
    (tmp_path / "books_train.svmlight").write_text("1 0:1\n")
    with pytest.raises(MissingData, match=r"found only books_train.svmlight.*books_test.svmlight"):
        datasets.load("amt", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"feas": np.ones((3, 2))}, "'feas' or 'fts', and 'labels'"),
        ({"feas": np.ones((2, 3)), "labels": [1, 2, 3]}, "transpose it"),
        ({"feas": np.ones((3, 2)), "labels": [1, 2, 31]}, "do not fit the 10 classes"),
        ({"feas": np.ones((3, 2)), "labels": [1, 2, 2.5]}, "whole numbers"),
        ({"feas": np.array([[np.nan], [1.0]]), "labels": [1, 2]}, "NaN"),
    ],
)
def test_bad_mat(tmp_path, content, message):
    io.savemat(tmp_path / "amazon_decaf.mat", content)
    with pytest.raises(FormatError, match=message):
        _ = datasets.load("oc10-decaf6", tmp_path)["amazon"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("a,b,label\n", "no rows"),
        ("1,2,0\n1,0\n", "line 2: 2 fields, expected 3"),
        ("a,label\nx,0\n", "line 2: no number"),
        ("1,2,sofa\n", "unknown class 'sofa'"),
        ("1,2,40\n", "do not fit the 31 classes"),
    ],
)
def test_bad_csv(tmp_path, text, message):
    (tmp_path / "amazon.csv").write_text(text)
    with pytest.raises(FormatError, match=message):
        _ = datasets.load("off31-csv", tmp_path)["amazon"]


def test_bad_svmlight(tmp_path):
    for side in ("train", "test"):
        (tmp_path / f"books_{side}.svmlight").write_text("1 0:1\n2 0:1\n3 0:2\n")
    with pytest.raises(FormatError, match="expected two values"):
        _ = datasets.load("amt", tmp_path)["books"]
    (tmp_path / "books_train.svmlight").write_text("good 0:1\n")
    with pytest.raises(FormatError, match="cannot be read"):
        _ = datasets.load("amt", tmp_path)["books"]


@pytest.mark.parametrize("file", ["oc10-surf.npz", "amazon_SURF_L10.mat"])
def test_damaged_files(tmp_path, file):
    (tmp_path / file).write_bytes(b"not what the name says, but long enough to be looked at" * 9)
    with pytest.raises(FormatError, match="fetch it again"):
        _ = datasets.load("oc10-surf", tmp_path)["amazon"]


def test_truncated_npz(tmp_path):
    write_npz(tmp_path / "whole.npz", IMAGES)
    whole = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "oc10-surf.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError, match="fetch it again"):
        datasets.load("oc10-surf", tmp_path)


def test_no_pickle(tmp_path):
    y = np.zeros(2, dtype=int)
    X = np.array([[1, "a"], [2, "b"]], dtype=object)
    np.savez(tmp_path / "oc10-surf.npz", amazon_X=X, amazon_y=y)
    with pytest.raises(FormatError, match="allow_pickle"):
        _ = datasets.load("oc10-surf", tmp_path)["amazon"]


def test_domain_refuses_rows_without_labels():
    with pytest.raises(DataError, match="one label per row of X"):
        datasets.Domain(np.ones((3, 2)), np.zeros(2, dtype=np.int64))
