import pickle

import numpy as np
import pytest

from marda import datasets
from marda.datasets import ChecksumError, DataError, MissingData
from marda.datasets.base import LazyDomains
from marda.datasets.public_tables import EMBEDDED


@pytest.fixture
def surf(tmp_path):
    arrays = {}
    for name in ("amazon", "caltech10", "dslr", "webcam"):
        arrays[f"{name}_X"] = np.arange(40, dtype=np.uint8).reshape(20, 2)
        arrays[f"{name}_y"] = np.repeat(np.arange(10, dtype=np.uint8), 2)
    np.savez(tmp_path / "oc10-surf.npz", **arrays)
    return tmp_path


def test_every_name_can_be_located(monkeypatch, tmp_path):
    monkeypatch.setenv("MARDA_DATA", str(tmp_path))
    for name in datasets.names():
        location = datasets.locate(name)
        embedded = name in ("sentiment-snippets", *EMBEDDED)
        assert location.complete == embedded
        assert name in str(location)
        assert embedded or tmp_path in location.folders


@pytest.mark.parametrize("name", ["oc10", "oc10-surf", "off31", "amt"])
def test_missing_data_is_one_sentence(monkeypatch, tmp_path, name):
    monkeypatch.delenv("MARDA_DATA", raising=False)
    with pytest.raises(MissingData, match="MARDA_DATA is not set") as nowhere:
        datasets.load(name)
    monkeypatch.setenv("MARDA_DATA", str(tmp_path))
    with pytest.raises(MissingData) as there:
        datasets.load(name)
    for message in (str(nowhere.value), str(there.value)):
        assert name in message
        assert ".npz" in message
        assert "\n" not in message
        assert message.count(". ") == 0
        assert message.endswith(".")
    assert str(tmp_path) in str(there.value)
    assert isinstance(there.value, FileNotFoundError)
    assert isinstance(there.value, ValueError)


def test_path_goes_before_the_environment(monkeypatch, surf, tmp_path_factory):
    monkeypatch.setenv("MARDA_DATA", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(MissingData):
        datasets.load("oc10")
    assert datasets.load("oc10", surf).name == "oc10-surf"
    assert datasets.load("oc10", surf / "oc10-surf.npz").name == "oc10-surf"
    monkeypatch.setenv("MARDA_DATA", str(surf))
    assert datasets.load("oc10").name == "oc10-surf"


def test_checksums(surf):
    dataset = datasets.load("oc10-surf", surf)
    assert len(dataset.checksum) == 64
    (file,) = datasets.check("oc10-surf", surf)
    assert (file.ok, file.sha256) == (False, dataset.checksum)
    with pytest.raises(ChecksumError, match="expected f8df5ead0c4bb701"):
        datasets.load("oc10-surf", surf, verify=True)
    with pytest.raises(MissingData):
        datasets.check("amt", surf)


def test_checksum_follows_the_file(surf):
    before = datasets.load("oc10-surf", surf).checksum
    np.savez(surf / "oc10-surf.npz", amazon_X=np.ones((2, 2)), amazon_y=np.zeros(2, int))
    assert datasets.load("oc10-surf", surf).checksum != before


def test_checksum_of_several_files(tmp_path):
    for name in ("amazon", "dslr", "webcam"):
        (tmp_path / f"{name}.csv").write_text("1,2,0\n")
    together = datasets.load("off31", tmp_path).checksum
    (tmp_path / "dslr.csv").write_text("1,2,1\n")
    assert datasets.load("off31", tmp_path).checksum != together
    assert [check.ok for check in datasets.check("off31", tmp_path)] == [None] * 3


def test_domains_are_read_when_asked_for_and_once():
    calls = []

    def read():
        calls.append(1)
        return datasets.Domain(np.ones((1, 1)), np.zeros(1, dtype=np.int64))

    domains = LazyDomains({"a": read, "b": read})
    assert list(domains) == ["a", "b"]
    assert "a" in domains
    assert len(domains) == 2
    assert not calls
    assert domains["a"] is domains["a"]
    assert len(calls) == 1


def test_rows_cannot_be_written_into(surf):
    domain = datasets.load("oc10-surf", surf)["dslr"]
    with pytest.raises(ValueError, match="read-only"):
        domain.X[0, 0] = 1


def test_dataset_goes_to_another_process(surf):
    dataset = pickle.loads(pickle.dumps(datasets.load("oc10-surf", surf)))
    assert len(dataset["dslr"]) == 20


def test_unknown_names():
    with pytest.raises(DataError, match="choose from sentiment-snippets"):
        datasets.load("mnist")
    with pytest.raises(DataError, match="oc10-squeezenet"):
        datasets.load("oc10-vgg")


def test_no_official_split(surf):
    domain = datasets.load("oc10-surf", surf)["dslr"]
    with pytest.raises(DataError, match="no official split"):
        domain.part("train")
    assert domain.part()[0] is domain.X


def test_pairs(surf):
    pairs = datasets.load("oc10-surf", surf).pairs()
    assert len(pairs) == 12
    assert ("dslr", "webcam") in pairs
