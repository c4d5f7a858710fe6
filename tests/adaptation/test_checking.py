"""Two tables before any adaptation: shifts that are planted are found, others are not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from marda.adaptation.checking import check_files, check_tables
from marda.adaptation.lines import checked_lines
from marda.adaptation.reading import ReadOptions
from marda.io import InputError, Table

WITH, WITHOUT = (ReadOptions(label, missing="impute") for label in ("y", ""))


def table(n, seed, share=0.5, move=0.0, drop=(), **more):
    """Three columns that know the class, two that do not, and one of words."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    columns = {f"a{k}": rng.normal(1.5 * y * (k < 3), 1) for k in range(5)}
    columns["a0"] = columns["a0"] + move
    columns["plan"] = np.where(rng.random(n) < 0.5, "gold", "basic").astype(object)
    columns["y"] = np.array(["no", "yes"], dtype=object)[y]
    columns |= {name: np.full(n, value) for name, value in more.items()}
    name = "the target" if "y" in drop else "the source"
    return Table(name, n, {k: v for k, v in columns.items() if k not in drop})


SOURCE = table(250, 1)


def test_no_shift():
    found = check_tables([SOURCE, table(200, 2, drop=["y"])], WITH)
    assert found.shift.kind == "none"
    assert found.matters is False
    lines = checked_lines(found)
    assert lines[0].startswith("No shift was found in the 6 columns that both have: a plain model")
    assert "columns    0 of 6 columns differ by more than chance" in lines


def test_one_column_moved():
    found = check_tables([SOURCE, table(200, 3, move=3, drop=["y"])], WITH)
    assert [column.name for column in found.differing] == ["a0"]
    assert found.shift.kind == "moved columns"
    assert found.matters is True
    assert found.verdict.startswith("It matters that the two differ in 'a0'")


def test_class_shares_only():
    found = check_tables([SOURCE, table(250, 4, share=0.85, drop=["y"])], WITH)
    assert found.shift.kind == "class shares"
    assert "the classes have other shares" in found.verdict


def test_no_label():
    """Columns are compared; the labels of the source, if it has any, are a column as others."""
    found = check_tables([table(250, 1, drop=["y"]), table(200, 3, move=3, drop=["y"])], WITHOUT)
    assert found.matters is None
    assert found.accuracy is None
    assert "name their column with --label" in checked_lines(found)[0]
    assert [column.name for column in found.differing] == ["a0"]


def test_other_columns_in_both():
    found = check_tables(
        [table(250, 1, drop=["a1"]), table(200, 2, drop=["y", "a2"], new=1.0)], WITHOUT
    )
    assert found.only_source == ("a2", "y")
    assert found.only_target == ("a1", "new")
    assert {column.name for column in found.columns} == {"a0", "a3", "a4", "plan"}
    lines = checked_lines(found)
    assert "only in    the source: 'a2', 'y'" in lines
    assert "only in    the target: 'a1', 'new'" in lines
    with pytest.raises(InputError, match="no column in common"):
        check_tables([SOURCE, Table("t", 30, {"other": np.arange(30.0)})], WITH)


def test_labels_of_the_target_judge():
    found = check_tables([SOURCE, table(200, 3, move=3)], WITH)
    assert found.n_labelled == 200
    assert found.measured.high < found.accuracy
    assert "200 labelled target rows" in found.verdict


def test_copies_of_source_rows_do_not_judge():
    found = check_tables([SOURCE, SOURCE], WITH)
    assert found.measured is None
    assert any(
        "250 of 250 labelled target rows are copies" in line for line in checked_lines(found)
    )


def test_several_sources_and_json():
    parts = [table(120, 1), table(120, 5, drop=["a4"])]
    found = check_tables([*parts, table(100, 3, move=3, drop=["y"])], WITH)
    assert found.only_source == ("a4",)
    state = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert state["command"] == "check"
    assert state["rows"] == {"source": 240, "target": 100, "labelled_target": 0}
    assert state["columns"][0]["name"] == "a0"
    assert state["columns"][0]["differs"] is True
    assert state["shift"]["kind"] == found.shift.kind


def test_files_and_what_is_left_out():
    found = check_files("sample:source", "sample:target", WITH)
    assert found.matters is True
    assert "'id', which looks like an id" in found.notes[0]
    with pytest.raises(InputError, match="did you mean 'y'"):
        check_files("sample:source", "sample:target", ReadOptions("Y"))
