"""DataFrames become the tables that files become, whatever their columns hold."""

from __future__ import annotations

import datetime as dt
import decimal
import sys
import uuid

import numpy as np
import pandas as pd
import pytest

from marda.io import InputError, read_table
from marda.io.dataframes import as_frame, make_frame

pytest.importorskip("pyarrow")  # polars and pandas exchange tables through it
pl = pytest.importorskip("polars")

DAY = np.datetime64("2020-03-01", "us")
NOON = dt.datetime(2020, 3, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))


def column(values, **options):
    """A column of a DataFrame, as a table has it."""
    frame = values if hasattr(values, "columns") else pd.DataFrame({"a": values})
    return as_frame(frame, "the source").table(**options)["a"]


def same(found, wanted):
    """Equal, also where values are missing."""
    wanted = np.asarray(wanted, dtype=found.dtype)
    assert found.shape == wanted.shape
    if found.dtype.kind == "O":
        assert found.tolist() == wanted.tolist()
    else:
        np.testing.assert_array_equal(found, wanted)


PANDAS = {
    "integers": ([1, 2, 3], "i", [1, 2, 3]),
    "numbers": ([1.5, np.nan, 3], "f", [1.5, np.nan, 3]),
    "truths": ([True, False, True], "b", [True, False, True]),
    "words": (["x", None, " y "], "O", ["x", None, "y"]),
    "nan among words": (["x", np.nan, ""], "O", ["x", None, None]),
    "numbers among words": ([1, "x", 2.5], "O", ["1", "x", "2.5"]),
    "text of numbers": (["1,5", "2,5", None], "O", ["1,5", "2,5", None]),
    "categories": (pd.Categorical(["x", None, "y"]), "O", ["x", None, "y"]),
    "categories of numbers": (pd.Categorical([3, 1, 3]), "i", [3, 1, 3]),
    "Int64": (pd.array([1, None, 3], dtype="Int64"), "f", [1, np.nan, 3]),
    "Int64, none missing": (pd.array([1, 2, 3], dtype="Int64"), "i", [1, 2, 3]),
    "boolean": (pd.array([True, None, False], dtype="boolean"), "f", [1, np.nan, 0]),
    "Float64": (pd.array([1.5, None, 3], dtype="Float64"), "f", [1.5, np.nan, 3]),
    "string": (pd.array(["x", None, "y"], dtype="string"), "O", ["x", None, "y"]),
    "arrow": (pd.array([1, None, 3], dtype="int64[pyarrow]"), "f", [1, np.nan, 3]),
    "sparse": (pd.arrays.SparseArray([0, 0, 3]), "i", [0, 0, 3]),
    "dates": (pd.to_datetime(["2020-03-01", None, "2020-03-01"]), "M", [DAY, "NaT", DAY]),
    "days": ([dt.date(2020, 3, 1), None, dt.date(2020, 3, 1)], "M", [DAY, "NaT", DAY]),
    "with a zone": (
        pd.to_datetime([NOON, NOON, NOON]), "M", [DAY + np.timedelta64(10, "h")] * 3,
    ),
    "with a zone, as objects": (
        pd.Series([pd.Timestamp(NOON), NOON, pd.NaT], dtype=object), "M",
        [*[DAY + np.timedelta64(10, "h")] * 2, "NaT"],
    ),
    "durations": (pd.to_timedelta(["36h", None, "12h"]), "f", [1.5, np.nan, 0.5]),
    "decimals": ([decimal.Decimal("1.25"), None, decimal.Decimal(3)], "f", [1.25, np.nan, 3]),
    "months": (pd.period_range("2020-01", periods=3, freq="M"), "O",
               ["2020-01", "2020-02", "2020-03"]),
    "ids": ([uuid.UUID(int=k) for k in range(3)], "O", [str(uuid.UUID(int=k)) for k in range(3)]),
    "numpy's own": (pd.Series([np.int64(1), np.float32(0.5), pd.NA], dtype=object), "f",
                    [1, 0.5, np.nan]),
    "nothing": ([None, None, None], "f", [np.nan, np.nan, np.nan]),
}  # fmt: skip


@pytest.mark.parametrize("name", PANDAS)
def test_columns_of_pandas(name):
    values, kind, wanted = PANDAS[name]
    found = column(values)
    assert found.dtype.kind == kind
    same(found, wanted)


POLARS = {
    "integers": (pl.Series([1, 2, 3]), "i", [1, 2, 3]),
    "integers with gaps": (pl.Series([1, None, 3]), "f", [1, np.nan, 3]),
    "truths": (pl.Series([True, False, True]), "b", [True, False, True]),
    "truths with gaps": (pl.Series([True, None, False]), "f", [1, np.nan, 0]),
    "words": (pl.Series(["x", None, " "]), "O", ["x", None, None]),
    "categories": (pl.Series(["x", None, "y"], dtype=pl.Categorical), "O", ["x", None, "y"]),
    "decimals": (pl.Series([decimal.Decimal("1.25"), None, decimal.Decimal("3.00")]), "f",
                 [1.25, np.nan, 3]),
    "dates": (pl.Series([dt.date(2020, 3, 1), None, dt.date(2020, 3, 1)]), "M",
              [DAY, "NaT", DAY]),
    "with a zone": (
        pl.Series([NOON, None, NOON]).dt.convert_time_zone("Europe/Berlin"), "M",
        [DAY + np.timedelta64(10, "h"), "NaT", DAY + np.timedelta64(10, "h")],
    ),
    "durations": (pl.Series([dt.timedelta(hours=36), None, dt.timedelta(hours=12)]), "f",
                  [1.5, np.nan, 0.5]),
    "nothing": (pl.Series([None, None, None]), "f", [np.nan, np.nan, np.nan]),
}  # fmt: skip


@pytest.mark.parametrize("name", POLARS)
def test_columns_of_polars(name):
    values, kind, wanted = POLARS[name]
    found = column(pl.DataFrame({"a": values}))
    assert found.dtype.kind == kind
    same(found, wanted)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([[1], [2]], "holds lists or objects"),
        ([{"x": 1}, None], "holds lists or objects"),
        ([b"x", b"y"], "holds lists or objects"),
        (np.array([1j, 2]), "has type complex128"),
    ],
)
def test_what_no_model_can_use_is_refused_by_name(values, why):
    table = as_frame(pd.DataFrame({"a": values, "b": [1, 2]}), "the source").table()
    assert table.refused["a"].startswith(why)
    with pytest.raises(InputError, match="the source: column 'a'"):
        table["a"]


@pytest.mark.parametrize(
    "values",
    [
        [[1, 2], [3, 4]],
        np.zeros((2, 3)),
        pl.Series([{"x": 1, "y": 2}] * 2),
    ],
    ids=["lists", "arrays", "structs"],
)
def test_columns_of_columns_are_refused_by_name(values):
    table = as_frame(pl.DataFrame({"a": pl.Series(values), "b": [1, 2]}), "the source").table()
    assert table.refused == {"a": "holds lists or objects"}
    assert [*table.columns] == ["b"]


def test_labels_true_and_false_are_the_words_of_a_file(tmp_path):
    frame = pd.DataFrame({"a": [True, False, None], "b": [True, False, True]})
    frame.to_csv(tmp_path / "f.csv", index=False)
    assert column(frame, label="a").tolist() == read_table(tmp_path / "f.csv")["a"].tolist()
    assert as_frame(frame, "s").table("b")["b"].tolist() == ["True", "False", "True"]
    assert as_frame(pl.from_pandas(frame), "s").table("a")["a"].tolist() == ["True", "False", None]
    assert as_frame(frame, "s").holds_truths("a")
    assert not as_frame(pd.DataFrame({"a": ["True"]}), "s").holds_truths("a")
    assert not as_frame(frame, "s").holds_truths("no such column")


def test_names_of_columns():
    frame = pd.DataFrame([[1, 2, 3, 4, 5]], columns=[0, " a ", "Unnamed: 2", None, "b"])
    table = as_frame(frame, "the source").table()
    assert table.names == ["0", "a", "Unnamed: 2", "column4", "b"]
    assert table.nameless == {"Unnamed: 2", "column4"}
    twice = as_frame(pd.concat([frame, frame[["b"]]], axis=1), "the source").table()
    assert twice.refused == {"b": "is there twice"}
    with pytest.raises(InputError, match="2 levels of column names"):
        as_frame(pd.concat({"x": frame}, axis=1), "the source").table()


def test_the_frame_of_the_caller_stays_as_it_is():
    frame = pd.DataFrame({"a": [1.0, -999.0], "b": ["x", "?"]})
    before = frame.copy()
    table = as_frame(frame, "s").table().without(("-999", "?"))
    assert np.isnan(table["a"][1])
    assert table["b"].tolist() == ["x", None]
    pd.testing.assert_frame_equal(frame, before)


class Other:
    """A table of yet another library."""

    def to_pandas(self):
        return None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((2, 2)), "numpy.ndarray.*MDAClassifierCV"),
        ({"a": [1]}, "type dict: give a DataFrame of pandas or polars, or the path"),
        (None, "type NoneType"),
        (3, "type int"),
        (pd.Series([1, 2]), "one column"),
        (pl.Series([1, 2]), "one column"),
        (pl.LazyFrame({"a": [1]}), r"\.collect\(\)"),
        (Other(), r"give its \.to_pandas\(\)"),
    ],
)
def test_other_things_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        as_frame(given, "the source")


def test_paths_and_subclasses(tmp_path):
    class Mine(pd.DataFrame):
        pass

    assert as_frame("a.csv", "s") is None
    assert as_frame(tmp_path, "s") is None
    assert as_frame(Mine({"a": [1]}), "s").library == "pandas"
    assert as_frame(pl.DataFrame({"a": [1]}), "s").library == "polars"


@pytest.mark.parametrize("empty", [pd.DataFrame({"a": []}), pl.DataFrame({"a": []})])
def test_no_rows(empty):
    with pytest.raises(InputError, match="the source has no rows"):
        as_frame(empty, "the source").table()


def test_results_are_of_the_library_that_is_there(monkeypatch):
    columns = {"a": np.array(["x", None], dtype=object), "b": np.array([1.5, 2])}
    assert list(make_frame("pandas", columns, index=[7, 8]).index) == [7, 8]
    assert make_frame("polars", columns).schema == {"a": pl.String, "b": pl.Float64}
    assert isinstance(make_frame(None, columns), pd.DataFrame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(make_frame(None, columns), pl.DataFrame)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="neither pandas nor polars is installed: run pip"):
        make_frame(None, columns)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_some_rows_with_further_columns(library):
    frame = pd.DataFrame({"a": [1, 2, 3], "reason": ["x", "y", "z"]}, index=[5, 6, 7])
    given = frame if library == "pandas" else pl.from_pandas(frame)
    found = as_frame(given, "t").rows(np.array([2, 0]), {"reason": ["p", "q"], "b": [1.0, 2.0]})
    assert list(found.columns) == ["a", "reason", "reason_", "b"]
    assert list(found["a"]) == [3, 1]
    assert list(found["reason_"]) == ["p", "q"]
    if library == "pandas":
        assert list(found.index) == [7, 5]


def test_numbers_of_128_bits():
    frame = as_frame(pl.DataFrame({"a": pl.Series([1, None, -7]).cast(pl.Int128)}), "the source")
    np.testing.assert_array_equal(frame.table()["a"], [1.0, np.nan, -7.0])
