"""Every format gives the same rows; what cannot be read is refused in one sentence."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from marda.io import InputError, detect_format, read_batches, read_table
from marda.io.table import as_numbers

X = np.array([[1.5, 0.0, 2.0], [0.0, -3.0, 0.25], [4.0, 5.0, 6.0]])
Y = np.array([1, 0, 1])


def write_csv(path, sep=","):
    lines = [sep.join(["a", "b", "c", "y"])]
    lines += [sep.join(str(v) for v in [*row, y]) for row, y in zip(X, Y, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def dense(table):
    if table.block is not None:
        return table.block.toarray() if sp.issparse(table.block) else table.block
    return np.column_stack([as_numbers(table[name]) for name in "abc"])


@pytest.mark.parametrize("sep", [",", ";", "\t"])
def test_csv(tmp_path, sep):
    path = tmp_path / "rows.csv"
    write_csv(path, sep)
    table = read_table(path)
    np.testing.assert_array_equal(dense(table), X)
    np.testing.assert_array_equal(as_numbers(table["y"]), Y)


def test_csv_with_gzip_quotes_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress('\ufeffname,"x, y"\n"a ""b""",\n\nc,2\n'.encode(), mtime=0))
    table = read_table(path)
    assert table["name"].tolist() == ['a "b"', "c"]
    assert table["x, y"].tolist() == [None, "2"]


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "rows"
    columns = {name: X[:, k] for k, name in enumerate("abc")}
    extra = {
        "y": Y,
        "n": pa.array([1, None, 3]),
        "flag": [True, False, None],
        "word": pa.array(["p", "", None]).dictionary_encode(),
        "day": pa.array([1, 2, 3], pa.date32()),
        "gone": pa.nulls(3),
    }
    pq.write_table(pa.table({**columns, **extra}), path)
    table = read_table(path)
    np.testing.assert_array_equal(dense(table), X)
    assert table["y"].dtype == np.int64
    np.testing.assert_array_equal(table["n"], [1, np.nan, 3])
    np.testing.assert_array_equal(table["flag"], [1, 0, np.nan])
    assert table["word"].tolist() == ["p", None, None]
    assert np.isnan(table["gone"]).all()
    with pytest.raises(InputError, match=r"'day' has type date32\[day\].*--drop 'day'"):
        table["day"]


def test_svmlight(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("# made up\n1 qid:3 0:1.5 2:2 # comment\n0 1:-3 2:.25\n\n1 0:4 1:5 2:6\n")
    assert detect_format(path) == "svmlight"
    table = read_table(path)
    np.testing.assert_array_equal(dense(table), X)
    np.testing.assert_array_equal(table["label"], Y)
    assert [t.n_rows for t in read_batches(path, rows=2)] == [2, 1]


@pytest.mark.parametrize("sparse", [False, True])
def test_npz_and_mat(tmp_path, sparse):
    names = np.array(["a", "b", "c"])
    words = np.array(["u", "v", "w"])
    if sparse:
        sp.save_npz(tmp_path / "rows.npz", sp.csr_array(X))
    else:
        np.savez(tmp_path / "rows.npz", X=X, y=Y, word=words, feature_names=names, other=X[:1])
    cells = np.array(["u", "v", "w"], dtype=object)
    matrix = sp.csc_array(X) if sparse else X
    scipy.io.savemat(tmp_path / "rows.mat", {"fts": matrix, "y": Y, "word": cells})
    for name in ("rows.npz", "rows.mat"):
        table = read_table(tmp_path / name)
        np.testing.assert_array_equal(dense(table), X)
        if not (sparse and name == "rows.npz"):
            np.testing.assert_array_equal(table["y"], Y)
            assert table["word"].tolist() == ["u", "v", "w"]
    if not sparse:
        assert read_table(tmp_path / "rows.npz").block_names == ("a", "b", "c")


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_batches_are_the_file(tmp_path, rows):
    write_csv(tmp_path / "rows.csv")
    parts = list(read_batches(tmp_path / "rows.csv", rows=rows, columns={"a", "y"}))
    assert [set(p.names) for p in parts] == [{"a", "y"}] * len(parts)
    assert max(p.n_rows for p in parts) <= rows
    joined = np.concatenate([as_numbers(p["a"]) for p in parts])
    np.testing.assert_array_equal(joined, X[:, 0])


def test_the_content_decides_and_format_forces(tmp_path):
    path = tmp_path / "rows.csv"
    np.savez(tmp_path / "x.npz", X=X)
    path.write_bytes((tmp_path / "x.npz").read_bytes())
    assert detect_format(path) == "npz"
    with pytest.raises(InputError, match=r"not text|not UTF-8"):
        read_table(path, "csv")
    path.write_text("1 0:2\n0 1:3\n")
    assert detect_format(path) == "csv"  # by its name
    assert read_table(path, "svmlight").n_rows == 2


OBJECTS = {"X": np.array([[1, None]], dtype=object)}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"a,b\n", "has no rows"),
        ("a.csv", b"a,b\n1,2\n1\n", "line 3: 1 fields, but the header has 2"),
        ("a.csv", b"a,a\n1,2\n", "two columns 'a'"),
        ("a.csv", b"a,b\n\xff\xfe,2\n", "not UTF-8"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:20], "cannot be read as CSV"),
        ("a.parquet", b"PAR1 nothing", "cannot be read as Parquet"),
        ("a.parquet", b"a,b\n1,2\n", "not a parquet file"),
        ("a.npz", b"PK\x03\x04 nothing", "not a whole archive"),
        ("a.mat", b"MATLAB 5.0 nothing", "cannot be read as a MATLAB file"),
        ("a.svm", b"1 1:2\n1 1\n", "line 2: expected a label and index:value"),
        ("a.svm", b"1 -1:2\n", "negative"),
    ],
)
def test_what_cannot_be_read(tmp_path, name, content, words):
    if "arquet" in words and b"PAR1" in content:
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_that_cannot_be_read(tmp_path):
    np.savez(tmp_path / "o.npz", **OBJECTS)
    np.savez(tmp_path / "v.npz", y=Y)
    for name, words in (("o.npz", "Python objects"), ("v.npz", "no matrix of features")):
        with pytest.raises(InputError, match=words):
            read_table(tmp_path / name)
    with pytest.raises(InputError, match="unknown format 'xls'"):
        read_table(tmp_path / "o.npz", "xls")
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="samples are sample:source"):
        read_table("sample:nothing")


def test_a_folder_of_parquet_files_is_their_rows(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    folder = tmp_path / "rows"
    (folder / "more").mkdir(parents=True)
    for name, values in (("a", [1.0, 2.0]), ("b", []), ("more/c", [3.0])):
        column = pa.array(values, pa.float64())
        pq.write_table(pa.table({"x": column}), folder / f"{name}.parquet")
    assert read_table(folder)["x"].tolist() == [1.0, 2.0, 3.0]
    assert [table.n_rows for table in read_batches(folder, rows=1)] == [1, 1, 1]
    pq.write_table(pa.table({"z": [1.0]}), folder / "d.parquet")
    with pytest.raises(InputError, match=r"d\.parquet has no column 'x'"):
        read_table(folder)
