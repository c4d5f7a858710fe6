import os
import pickle

import numpy as np
import pytest

from marda import datasets
from marda.datasets import FormatError, MissingData, load, make_task
from marda.datasets.skada_bench import SPLITS, TASKS, domains_of
from skada_files import write


def test_source_rows_are_labelled_and_accuracy_is_on_the_test_rows(tmp_path):
    data = load("skada-bench", write(tmp_path))
    assert len(data.pairs()) == 2 * SPLITS
    assert data.pairs()[1] == domains_of("mushrooms e>t", 1)
    task = make_task(data, *domains_of("subspace 0", 3))
    assert task.X_source.shape == (30, 3)
    assert task.X_target.shape == (20, 3)
    assert task.X_test.shape == (12, 3)
    assert set(task.y_visible) == {-1}
    with np.load(tmp_path / "skada-bench.npz") as stored:
        np.testing.assert_array_equal(task.X_test, stored["subspace 0|3|Xt"])  # as they are
        np.testing.assert_array_equal(task.X_target, stored["subspace 0|3|Xu"])
        np.testing.assert_array_equal(task.y_source, stored["subspace 0|3|ys"])
    others = {make_task(data, *pair).checksum for pair in data.pairs()}
    assert len(others) == 2 * SPLITS
    assert len(pickle.loads(pickle.dumps(data))[data.pairs()[0][0]]) == 30


def test_it_is_found_and_checked_as_every_data_set(tmp_path, monkeypatch):
    monkeypatch.setenv("MARDA_DATA", str(tmp_path))
    with pytest.raises(MissingData, match=r"skada-bench\.npz"):
        load("skada-bench")
    write(tmp_path)
    assert "skada-bench" in datasets.names()
    (file,) = datasets.check("skada-bench")
    assert file.ok is False  # a known name with other bytes
    with pytest.raises(datasets.ChecksumError, match="expected 5dfc4a00b739cdaa"):
        load("skada-bench", verify=True)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"subspace 0|2|yt": None}, "subspace 0|2 lacks yt"),
        ({"subspace 0|0|Xu": np.ones((20, 9))}, "do not fit"),
        ({"subspace 0|0|yu": np.ones(3, int)}, "do not fit"),
        ({"subspace 0|0|Xt": np.full((12, 3), np.nan)}, "NaN"),
        ({"subspace 0|0|yt": np.full(12, 7)}, "do not fit the 2 classes"),
    ],
)
def test_damaged_files(tmp_path, changed, words):
    write(tmp_path, **changed)
    with pytest.raises(FormatError, match=words.replace("|", r"\|")):
        make_task(load("skada-bench", tmp_path), *domains_of("subspace 0", 0))


def test_a_file_of_something_else(tmp_path):
    np.savez(tmp_path / "skada-bench.npz", books_X=np.ones(2))
    with pytest.raises(FormatError, match="holds no task, such as mushrooms"):
        load("skada-bench", tmp_path)


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("MARDA_DATA"), reason="MARDA_DATA is not set")
def test_the_real_file():
    data = load("skada-bench", verify=True)
    assert data.pairs() == tuple(domains_of(t, k) for t in TASKS for k in range(SPLITS))
    task = make_task(data, *domains_of("mushrooms e>t", 0))
    assert (len(task.y_source), len(task.y_target), len(task.y_test)) == (2813, 3686, 922)
    assert task.X_source.shape[1] == 117
