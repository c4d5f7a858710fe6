"""Every format gives the same rows; what cannot be read is refused in one sentence."""

from __future__ import annotations

import gzip
import re
import time
import zipfile
from contextlib import suppress

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from marda.io import InputError, detect_format, read_batches, read_table
from marda.io import text as text_formats
from marda.io.table import as_numbers
from measured import traced_peak

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
        "day": pa.array([1, None, 3], pa.date32()),
        "time": pa.array([0, 1, None], pa.timestamp("ms", "Europe/Berlin")),
        "list": pa.array([[1], [2], [3]]),
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
    assert [str(day) for day in table["day"].astype("datetime64[D]")] == [
        "1970-01-02",
        "NaT",
        "1970-01-04",
    ]
    assert str(table["time"][1]) == "1970-01-01T00:00:00.001000"
    with pytest.raises(InputError, match=r"'list' has type list.*--drop 'list'"):
        table["list"]


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


def test_text_comes_without_outer_spaces_from_any_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    words = ["\u00a0M", "M\t", "F", " ", None]
    table = pa.table({"c": words, "d": pa.array(words).dictionary_encode(), "x": range(5)})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    known = np.array([word or "" for word in words])
    X = np.arange(10.0).reshape(5, 2)
    np.savez(tmp_path / "a.npz", X=X, c=known)
    scipy.io.savemat(tmp_path / "a.mat", {"X": X, "c": known.astype(object)})
    (tmp_path / "a.csv").write_text("c,x\n M,0\nM ,1\nF,2\n ,3\n,4\n")
    for name, column in (
        *((f"a.{k}", "c") for k in ("parquet", "arrow", "npz", "mat", "csv")),
        ("a.parquet", "d"),
    ):
        assert read_table(tmp_path / name)[column].tolist() == ["M", "M", "F", None, None], name


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
        ("a.csv", b"a,b\n1,2\n1\n", "line 3: 1 field, but the header has 2"),
        ("a.csv", b'a,b\n1,"2\n3,4\n', "cannot be read as CSV: unexpected end of data"),
        ("a.csv", b'a,b\n1,"2"3\n', "cannot be read as CSV: ',' expected after"),
        ("a.csv", b"a,b\n1,2\n\0,3\n", "is not text"),
        ("a.csv", b"a,b\n\xc3\xa9\xc3\xa9,1\n\xc3(,2\n", "not UTF-8"),
        ("a.csv", b"a,b\n\xff\xfe,2\n", "not UTF-8"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:20], "cannot be read as"),
        ("a.parquet", b"PAR1 nothing", "cannot be read as Parquet"),
        ("a.parquet", b"a,b\n1,2\n", "is not parquet, though its name"),
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


def archive(path, *names, content=b"<a/>"):
    with zipfile.ZipFile(path, "w") as out:
        for name in names:
            out.writestr(name, content)


@pytest.mark.parametrize(
    ("name", "members", "words"),
    [
        ("a.xlsx", ["[Content_Types].xml", "xl/workbook.xml"], "Excel workbook.*save the sheet as"),
        ("a.csv", ["xl/worksheets/sheet1.xml"], "Excel workbook.* or save the sheet as CSV"),
        ("a.ods", ["mimetype", "content.xml"], "is a document: save its table as CSV"),
        ("a.zip", ["b.csv", "c.csv"], r"of 2 files \('b\.csv', 'c\.csv'\): unpack it and give"),
        ("a.npz", ["b.csv", "c", "d", "e"], r"'c', 'd' and 1 more\): unpack it"),
    ],
)
def test_workbooks_and_archives_say_what_to_do(tmp_path, name, members, words):
    archive(tmp_path / name, *members)
    with pytest.raises(InputError, match=words) as caught:
        read_table(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    with pytest.raises(InputError, match="cannot be read as npz: it holds"):
        read_table(tmp_path / name, "npz")


@pytest.mark.parametrize("name", ["a.xlsx", "a.XLSM", "a.csv"])
def test_a_damaged_workbook_says_what_to_do(tmp_path, name):
    archive(tmp_path / name, "[Content_Types].xml", "xl/workbook.xml")
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="is a damaged Excel workbook: copy it again") as caught:
        read_table(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))


def test_an_old_workbook_says_what_to_do(tmp_path):
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
    with pytest.raises(InputError, match="Excel workbook of an old kind: save it as"):
        read_table(tmp_path / "a.xls")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"\n<!DOCTYPE html><table>", "a web page: save its table"),
        (b"<html xmlns:x='excel'>", "a web page: save its table"),
        (b"<?xml version='1.0'?><Workbook>", "XML: save its table"),
        (b"%PDF-1.7", "a PDF: save its table"),
        (b"SQLite format 3\0", "a database: write it as CSV"),
        (b"<stata_dta><header>", "a file of Stata: write it as CSV"),
        (b"$FL2@(#) SPSS", "a file of SPSS: write it as CSV"),
        (b"RDX3\nX\n", "a file of R: write it as CSV"),
        (b"\x80\x04\x95", "a pickle, which would run code: write it"),
        (b"7z\xbc\xaf\x27\x1c", "an archive: unpack it"),
        (b"old.csv".ljust(257, b"\0") + b"ustar", "an archive: unpack it"),
    ],
)
def test_what_is_no_table_is_told_by_name(tmp_path, start, what, pack):
    path = tmp_path / "a.xls"
    path.write_bytes(pack(start + bytes(300)))
    with pytest.raises(InputError, match=re.escape(f"{path} is {what}")):
        read_table(path)


def test_a_packed_file_in_an_archive_is_to_be_unpacked(tmp_path):
    archive(tmp_path / "a.zip", "a.csv.gz", content=gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(InputError, match="holds a packed file: unpack it"):
        read_table(tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("lines", "rows", "said"),
    [
        (["a,b", "-,-", "1,2"], 2, ""),  # no values, no rule
        (["a,b", "---,-", "1,2"], 1, "the rule under the header"),
        (["a", "1", "a", "2"], 3, ""),  # one column may hold its own name
        (["a,b", "1,2", "a,b", "a,3"], 2, "lines that repeat the header"),
        (["a,b", "1,2", "", "Source: us"], 1, "what stands below the last row ('Source: us')"),
        (["a,b", "1,2", "# end", ""], 1, "what stands below the last row ('# end')"),
    ],
)
def test_lines_that_are_no_rows(tmp_path, lines, rows, said):
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    table = read_table(tmp_path / "a.csv")
    assert table.n_rows == rows
    assert [said in note for note in table.notes] == [True] * bool(said)


@pytest.mark.parametrize("lines", [["1,2", "17"], ["1,2", "", "x", "3,4"], ["1,2", "(x)", "3,4"]])
def test_a_row_that_was_cut_off_is_no_remark(tmp_path, lines):
    (tmp_path / "a.csv").write_text("\n".join(["a,b", *lines]) + "\n")
    with pytest.raises(InputError, match="1 field, but the header has 2"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv.gz", "a.svm.gz", "a.gz"])
def test_damaged_gzip_is_one_sentence(tmp_path, name):
    content = b"1 1:2 2:3\n" * 300 if "svm" in name else b"a,b\n" + b"1.5,2\n" * 300
    whole = gzip.compress(content, mtime=0)
    path = tmp_path / name
    data = bytearray(whole)
    for at in range(10, len(whole)):  # behind the header, which holds no data
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :]):
            path.write_bytes(damaged)
            if at == len(whole) - 9 and len(damaged) == len(whole):
                continue  # the last byte of the stream has bits that mean nothing
            with pytest.raises(InputError, match=re.escape(str(path))):
                read_table(path)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.svm.gz"])
def test_one_endless_line_is_refused_as_it_grows(tmp_path, name, monkeypatch):
    """Before 0.2.0 a gz of 1.5 MB with one line of 1.5 GB took 3.3 GB."""
    monkeypatch.setattr(text_formats, "MAX_ROW", 10**5)
    path = tmp_path / name
    start = b"1 1:" if "svm" in name else b"a\n"
    with gzip.open(path, "wb") as out:
        out.write(start)
        for _ in range(50):
            out.write(b"1" * 10**6)

    def refused():
        with pytest.raises(InputError, match="a row of more than 100,000 characters"):
            read_table(path)

    assert traced_peak(refused) < 5e6


def test_a_row_of_endless_quoted_lines_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_formats, "MAX_ROW", 10**4)
    (tmp_path / "a.csv").write_text("a,b\n" + '"x\n",' * 10**4)
    with pytest.raises(InputError, match="a row of more than 10,000 characters"):
        read_table(tmp_path / "a.csv")


def test_too_many_columns_are_refused_before_they_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("," * text_formats.MAX_COLUMNS + "\n1\n")
    with pytest.raises(InputError, match="more than 1,048,576 columns"):
        read_table(tmp_path / "a.csv")


def test_a_file_that_does_not_fit_is_refused_as_it_grows(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 20_000)
    (tmp_path / "a.svm").write_text("1 1:2 3:4\n" * 20_000)
    monkeypatch.setenv("MARDA_MEMORY", "1MB")
    for name in ("a.csv", "a.svm"):
        with pytest.raises(InputError, match=r"than there is, 1 MB: raise MARDA_MEMORY"):
            read_table(tmp_path / name)
        assert sum(t.n_rows for t in read_batches(tmp_path / name, rows=100)) == 20_000


def test_a_hundred_thousand_columns_take_no_minutes(tmp_path):
    """Before 0.2.0 the header check did not end."""
    names = [f"column_{k}" for k in range(100_000)]
    path = tmp_path / "a.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" * 100_000) + "\n")
    began = time.process_time()
    assert len(read_table(path).columns) == 100_000
    path.write_text(",".join([*names, names[-1]]) + "\n" + ",".join("1" * 100_001) + "\n")
    with pytest.raises(InputError, match=r"'column_99999' is there twice: .*--drop 'column_99999'"):
        read_table(path)["column_99999"]
    assert time.process_time() - began < 20  # one second, on a machine that is busy as well


@pytest.mark.parametrize("size", [1, 2, 10**6])
def test_blank_lines_are_no_end(tmp_path, size):
    """Before 0.2.0 as many blank lines as a batch has rows ended the file, and rows were lost."""
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n" + "\n" * (100_000 if size > 2 else 5) + "3,4\n\n")
    parts = [*read_batches(path, rows=size)]
    assert [v for part in parts for v in part["a"].tolist()] == ["1", "3"]
    path.write_text("a,b\n\n\n")
    (empty,) = read_batches(path, rows=size)
    assert empty.n_rows == 0


@pytest.mark.parametrize("index", [2**31, 2**40, 10**30])
def test_a_large_index_allocates_nothing(tmp_path, index, monkeypatch):
    monkeypatch.setenv("MARDA_MEMORY", "100MB")
    path = tmp_path / "a.svm"
    path.write_text(f"1 {index}:1\n")
    with pytest.raises(InputError, match="above 2³¹"):
        read_table(path)
    path.write_text("1 1:1\n0 100000000:1\n")
    with pytest.raises(InputError, match=r"100,000,001 columns.*1\.6 GB.*100 MB"):
        read_table(path)


def test_matrices_are_compared_with_memory_before_they_are_made(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros((1000, 1000), dtype=np.uint8))
    sp.save_npz(tmp_path / "s.npz", sp.csr_array((2, 10**8)))
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.zeros((1000, 1000), dtype=np.uint8)})
    monkeypatch.setenv("MARDA_MEMORY", "5MB")
    for name in ("a.npz", "a.mat"):
        with pytest.raises(InputError, match="takes 8 MB as numbers"):
            read_table(tmp_path / name)
    with pytest.raises(InputError, match="100,000,000 columns"):
        read_table(tmp_path / "s.npz")


@pytest.mark.parametrize(
    "parts",
    [
        {"indices": np.array([0, 9])},
        {"indptr": np.array([0, 2, 1])},
        {"data": np.array(["a", "b"])},
        {"shape": np.array([2.0, 2.0])},
        {"shape": np.array([2])},
        {"data": np.ones((1, 2))},
        {"format": np.array([b"csr", b"csc"])},
        {"format": np.array(b"csc")},
    ],
)
def test_parts_that_are_no_csr_matrix(tmp_path, parts):
    whole = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    np.savez(tmp_path / "a.npz", **{**whole, "shape": np.array([2, 2]), **parts})
    with pytest.raises(InputError, match=r"no whole CSR matrix|not CSR: convert it"):
        read_table(tmp_path / "a.npz")


def test_damaged_mat_files_do_not_end_the_process(tmp_path):
    """Before 0.2.0 these bytes, among others, ended it inside scipy."""
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"fts": sp.csc_array(np.eye(6)), "y": np.arange(6.0)})
    whole = path.read_bytes()
    for at in range(128, len(whole)):
        path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        with suppress(InputError):  # other numbers: such files have no checksum
            read_table(path)


@pytest.fixture
def parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    def write(**options):
        path = tmp_path / "a.parquet"
        columns = {"x": np.arange(500.0), "y": np.arange(500) % 2}
        pq.write_table(pa.table(columns), path, row_group_size=250, **options)
        return path

    return write


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_a_damaged_parquet_page_is_refused_where_it_has_a_checksum(parquet, compression):
    path = parquet(write_page_checksum=True, compression=compression, use_dictionary=False)
    whole = path.read_bytes()
    wanted = read_table(path)["x"]
    refused = []
    for at in range(4, whole.index(b"ARROW:schema") - 400, 37):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            np.testing.assert_array_equal(read_table(path)["x"], wanted)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 40
    assert all(str(path) in text for text in refused)


def test_every_truncated_parquet_file_names_itself(parquet):
    path = parquet()
    whole = path.read_bytes()
    for cut in range(5, len(whole), 61):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"a\.parquet cannot be read as Parquet"):
            read_table(path)


def test_parquet_row_counts_must_agree(parquet):
    from marda.io.binary import check_groups

    path = parquet()
    with pytest.raises(InputError, match="declares 500 rows and its row groups 250"):
        check_groups(path, FakeMetadata())


class FakeMetadata:
    """A footer that says 500 rows and holds one row group of 250."""

    num_rows, num_row_groups = 500, 1

    def row_group(self, g):
        return type("Group", (), {"num_rows": 250})


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
@pytest.mark.parametrize("kind", ["npz", "mat"])
def test_a_matrix_of_one_row_or_column_is_known_by_its_name(tmp_path, kind, shape):
    path, rows = tmp_path / f"rows.{kind}", np.arange(3.0).reshape(shape)
    np.savez(path, X=rows) if kind == "npz" else scipy.io.savemat(path, {"X": rows})
    np.testing.assert_array_equal(read_table(path).block, rows)
    np.savez(path, other=rows) if kind == "npz" else scipy.io.savemat(path, {"other": rows})
    with pytest.raises(InputError, match="holds no matrix of features: name one X"):
        read_table(path)
